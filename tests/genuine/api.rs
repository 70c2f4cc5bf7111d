//! The control API against its own document: Schemathesis asks everything that the document allows, and much that it
//! does not, also in sequences, and looks for answers that are not described.

use duduclaw::sim::AccountSpec;

use crate::installed;
use crate::kin;
use crate::stage::Stage;

/// How long each token is tried with, in seconds.
const SECONDS: &str = "25";

const ADMIN: &str = "[server.admin]\ntokens_env = \"WRITERS\"\nread_tokens_env = \"READERS\"\n";

async fn holds(token: &str) {
    let stage = Stage::of(["a", "b", "c"].map(AccountSpec::oauth))
        .tables(ADMIN)
        .var("WRITERS", "writer:a-writing-token")
        .var("READERS", "reader:a-reading-token")
        .start()
        .await;
    let home = stage.home("schemathesis");
    let config = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/genuine/schemathesis.toml");
    let mut command = kin::program(&installed::schemathesis(), &home);
    command.arg("--config-file").arg(config).arg("run").arg(format!("{}/admin/api/openapi.json", stage.url));
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.args(["--max-time", SECONDS, "--continue-on-failure", "--warnings", "off", "--no-color"]);
    let finished = kin::run(command, kin::PATIENCE).await;
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.out, finished.err);
    assert!(finished.out.contains("Stateful"), "{}", finished.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_write_gets_nothing_but_described_answers() {
    holds("a-writing-token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_read_gets_nothing_but_described_answers() {
    holds("a-reading-token").await;
}
