//! Coming over from files that the other programs wrote themselves: `tests/data/`, where a README of each says how.

mod shunt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use duduclaw::sim::{AccountSpec, Endpoint, Sim, SimConfig};
use duduclaw_actors::clock::SystemClock;
use serde_json::json;
use tokio::process::Command;

use crate::binary::{Daemon, Setting, ask, client};
use crate::login::sweep;

/// A recorded file.
fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An account at the provider that is opened by recorded tokens.
fn known(name: &str, token: &str) -> AccountSpec {
    let refresh = token.replace("oat01", "ort01");
    AccountSpec { token: Some(token.to_owned()), refresh_token: Some(refresh), ..AccountSpec::oauth(name) }
}

fn owned(spec: AccountSpec, uuid: &str, organization: &str) -> AccountSpec {
    AccountSpec { uuid: Some(uuid.to_owned()), organization: Some(organization.to_owned()), ..spec }
}

/// A home without accounts, before a provider with these. The user's own home is `foreign` in it.
async fn setting(accounts: impl IntoIterator<Item = AccountSpec>) -> Setting {
    let clock = Arc::new(SystemClock::default());
    let sim = Sim::start(SimConfig::with(accounts), clock, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\n\
         auth = \"claude_oauth\"\nstrategy = \"round_robin\"\n",
        sim.base_url()
    );
    std::fs::write(home.path().join("config.toml"), text).unwrap();
    Setting { sim, home }
}

impl Setting {
    fn user(&self) -> PathBuf {
        self.home.path().join("foreign")
    }

    /// Puts a file where the program had it.
    fn lay(&self, place: &str, text: &str) -> PathBuf {
        let path = self.user().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program, as a user runs it who has these files at home.
    fn as_user(&self, arguments: &[&str]) -> Command {
        let mut command = self.at_sim(arguments);
        command.env("HOME", self.user()).env("SHUNT_LEASED_TOKEN", "sk-ant-oat01-sim-shunt-env-1");
        command.current_dir(self.home.path());
        command
    }

    async fn do_import(&self, arguments: &[&str]) -> (i32, String, String) {
        crate::binary::run(self.as_user(&[&["import"], arguments].concat())).await
    }

    fn config_text(&self) -> String {
        std::fs::read_to_string(self.home.path().join("config.toml")).unwrap()
    }

    /// Every file of the user, with what it holds and when that was written.
    fn untouched(&self) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
        let files = sweep::files(&self.user()).into_iter();
        let state = |path: &PathBuf| (std::fs::read(path).unwrap(), path.metadata().unwrap().modified().unwrap());
        files.map(|path| (path.clone(), state(&path))).collect()
    }

    /// Lets a daemon serve some requests, and tells how many each account served.
    async fn served(&self, accounts: &[&str], requests: usize) -> (Vec<usize>, String) {
        let mut daemon = Daemon::of(self.as_user(&["-vv", "serve"])).await;
        for _ in 0..requests {
            let asked = ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap();
            assert_eq!(asked.status(), 200, "{}", daemon.said());
        }
        assert_eq!(daemon.stop().await, Some(0));
        let hits = accounts.iter().map(|name| self.sim.hits(name, Endpoint::Messages));
        // The provider was asked about each when it was saved.
        let of_clients =
            hits.map(|hits| hits.iter().filter(|hit| hit.model.as_deref() == Some("claude-opus-5-5")).count());
        (of_clients.collect(), daemon.said())
    }
}

fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

const DEV: &str = "5f0c1d6e-1111-4a2b-8c3d-000000000001";

fn of_teamclaude() -> Vec<AccountSpec> {
    let key = AccountSpec { token: Some("sk-ant-api03-sim-team-key-1".to_owned()), ..AccountSpec::api_key("metered") };
    let acme = "20a8e5eb-2a3b-47c3-8faf-20d92f69db86";
    vec![
        owned(known("personal", "sk-ant-oat01-sim-team-one-1"), DEV, "12ca2db8-e028-4361-8164-ab6ac910b964"),
        owned(known("acme", "sk-ant-oat01-sim-team-two-2"), DEV, acme),
        key,
        known("old", "sk-ant-oat01-sim-team-ended-2"),
        known("third", "sk-ant-oat01-sim-team-three-1"),
    ]
}

#[tokio::test]
async fn teamclaudes_accounts_come_over_in_their_order_with_their_limits() {
    let setting = setting(of_teamclaude()).await;
    let path = setting.lay(".config/teamclaude.json", &data("teamclaude/teamclaude.json"));
    let before = setting.untouched();
    let (code, dry, err) = setting.do_import(&["teamclaude"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(
        &dry,
        &[
            &format!("7 accounts for provider anthropic, from {}:", path.display()),
            "dev-example-com-personal (there \"dev@example.com (Personal)\"): a login, copied to the account store, priority = 1, \
             threshold_5h = 0.9, threshold_7d = 0.85, threshold_fable = 0.5\n",
            "dev-example-com-acme (there \"dev@example.com (Acme)\"): a login, copied to the account store, priority = 0,",
            "metered: an API key, copied to the account store, priority = 41,",
            "old-example-com (there \"old@example.com\"): a login, copied to the account store, priority = 1,",
            "threshold_fable = 0.5, disabled = true\n",
            "third: a login, copied to the account store, priority = 42, threshold_5h = 0.7, threshold_7d = 0.85, \
             threshold_fable = 0.5, max_utilization_5h = 0.95, max_utilization_7d = 0.6, max_utilization_fable = 0.95\n",
            "gpt-example-com (there \"gpt@example.com\"): left out: it is a login to ChatGPT; log in with `duduclaw login codex`",
            "deepseek: left out: it is of another provider; configure that as one of [providers]\n",
            "note: dev@example.com (Acme) went through a proxy of its own there (routing)",
            "note: metered had a limit for extra usage there (maxSpend)",
        ],
    );
    assert!(!dry.contains("invented"), "{dry}");
    let (code, out, err) =
        setting.do_import(&["teamclaude", setting.user().join(".config").to_str().unwrap(), "--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(
        &out,
        &[
            "dev-example-com-personal: saved, the provider knows it",
            "metered: saved, the provider knows it",
            "third: saved, the provider knows it",
            "old-example-com: saved, unverified",
        ],
    );
    assert_eq!(setting.untouched(), before);
    for (name, organization) in [
        ("dev-example-com-personal", "12ca2db8-e028-4361-8164-ab6ac910b964"),
        ("dev-example-com-acme", "20a8e5eb-2a3b-47c3-8faf-20d92f69db86"),
    ] {
        let stored = setting.stored_json("claude", name);
        assert_eq!(stored["duduclawAccountUuid"], json!(DEV));
        assert_eq!(stored["duduclawOrganizationUuid"], json!(organization));
    }
    let stored = setting.stored_json("claude", "third");
    assert_eq!(stored["claudeAiOauth"]["expiresAt"], json!(4_796_017_442_000_i64), "seconds there");
    let (served, said) = setting.served(&["personal", "acme", "metered", "old", "third"], 8).await;
    assert_eq!(served, [2, 2, 2, 0, 2]);
    sweep::assert_clean(&setting, &[dry, out, err, said]);
}

fn of_ccflare() -> Vec<AccountSpec> {
    let key = AccountSpec { token: Some("sk-ant-api03-sim-flare-key-1".to_owned()), ..AccountSpec::api_key("console") };
    vec![known("max", "sk-ant-oat01-sim-flare-one-2"), known("second", "sk-ant-oat01-sim-flare-two-2"), key]
}

/// The recorded database, in the mode in which it was kept.
fn database(path: &Path) -> rusqlite::Connection {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    // A dump names tables before they are there.
    database.pragma_update(None, "foreign_keys", false).unwrap();
    database.execute_batch(&data("better-ccflare/better-ccflare.sql")).unwrap();
    database
}

#[tokio::test]
async fn better_ccflares_database_comes_over_and_nothing_comes_to_lie_beside_it() {
    let setting = setting(of_ccflare()).await;
    let path = setting.user().join(".config/better-ccflare/better-ccflare.db");
    drop(database(&path));
    let before = setting.untouched();
    assert_eq!(before.len(), 1, "nothing waits in a log: {:?}", before.keys());
    let (code, dry, err) = setting.do_import(&["ccflare"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(
        &dry,
        &[
            &format!("4 accounts for provider anthropic, from {}:", path.display()),
            "max: a login, copied to the account store, priority = 10, disabled = true\n",
            "second-max (there \"Second_Max\"): a login, copied to the account store, priority = 5\n",
            "console: an API key, copied to the account store, priority = 7\n",
            "zai: left out: it is of another provider (zai)",
            "stop ccflare before",
        ],
    );
    let folder = path.parent().unwrap().to_str().unwrap();
    let (code, out, err) = setting.do_import(&["ccflare", folder, "--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(&out, &["second-max: saved, the provider knows it", "console: saved, the provider knows it"]);
    assert_eq!(setting.untouched(), before);
    let (served, said) = setting.served(&["max", "second", "console"], 4).await;
    assert_eq!(served, [0, 2, 2]);
    sweep::assert_clean(&setting, &[dry, out, err, said]);
}

/// A ccflare that runs has its newest words in a log beside the database.
#[tokio::test]
async fn what_a_running_ccflare_has_not_moved_into_its_database_counts() {
    let setting = setting(of_ccflare()).await;
    let path = setting.user().join(".config/better-ccflare/better-ccflare.db");
    let database = database(&path);
    database.pragma_update(None, "wal_checkpoint", "truncate").unwrap();
    database
        .execute("UPDATE accounts SET priority = 1, paused = 1, pause_reason = 'overage' WHERE name = 'console'", [])
        .unwrap();
    let (code, out, err) = setting.do_import(&["ccflare"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(
        &out,
        &[
            "console: an API key, copied to the account store, priority = 1, disabled = true",
            "note: console was paused by ccflare itself (\"overage\")",
        ],
    );
}

#[tokio::test]
async fn where_there_is_nothing_it_is_said_where_it_was_looked_for() {
    let setting = setting([]).await;
    std::fs::create_dir_all(setting.user().join("empty")).unwrap();
    for (program, looked) in [
        ("teamclaude", ".config/teamclaude.json"),
        ("shunt", ".shunt/accounts/claude"),
        ("ccflare", ".config/ccflare/ccflare.db"),
        ("shunt-state", ".config/shunt/shunt.yaml"),
    ] {
        let (code, _, err) = setting.do_import(&[program]).await;
        assert_eq!(code, 1);
        assert_parts(&err, &["there is nothing of", looked, "name its file or folder"]);
    }
    for (program, looked) in
        [("teamclaude", "teamclaude.json"), ("shunt", "accounts/claude"), ("ccflare", "better-ccflare.db")]
    {
        let empty = setting.user().join("empty");
        let (code, _, err) = setting.do_import(&[program, empty.to_str().unwrap()]).await;
        assert_eq!(code, 1);
        assert_parts(&err, &[empty.join(looked).to_str().unwrap()]);
    }
    let mut command = setting.as_user(&["import", "teamclaude"]);
    command.env("TEAMCLAUDE_CONFIG", setting.lay("else.json", "{\"accounts\": []}"));
    let (code, out, err) = crate::binary::run(command).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(&out, &["0 accounts for", "else.json"]);
}
