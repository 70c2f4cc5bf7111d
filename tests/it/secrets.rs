//! `duduclaw secrets`: a new key beside a running daemon, and accounts carried from one home to another.

use std::path::Path;
use std::process::Stdio;

use duduclaw::sim::AccountSpec;
use tokio::io::AsyncWriteExt;

use crate::binary::{bare, run};
use crate::support::{World, login};

/// Two logins of the store, sealed with its key.
async fn sealed() -> World {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                token_url = \"{sim}/v1/oauth/token\"\nauth = \"claude_oauth\"\nstrategy = \"round_robin\"\n\
                [[providers.anthropic.accounts]]\nname = \"a\"\n[[providers.anthropic.accounts]]\nname = \"b\"\n";
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).stored().config(text).start().await;
    renew(&world).await;
    world
}

/// Lets the tokens end and a request renew each.
async fn renew(world: &World) {
    world.advance(9 * 3600);
    for session in ["s", "t", "u", "v"] {
        assert!(world.turn(session, false).await.status.is_success());
    }
}

fn file(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(format!("accounts/claude/{name}.json"))).unwrap()
}

/// The id of the key that an account's access token is sealed with.
fn key_of(home: &Path, name: &str) -> String {
    let text = file(home, name);
    let (_, sealed) = text.split_once("duduclaw-sealed:1:").unwrap_or_else(|| panic!("{name} is not sealed: {text}"));
    sealed.split(':').next().unwrap().to_owned()
}

async fn secrets(home: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = bare(home);
    command.arg("secrets").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_new_key_beside_a_daemon_costs_no_request_and_no_login() {
    let mut world = sealed().await;
    let home = world.home.path().to_owned();
    let before = key_of(&home, "a");
    for _ in 0..3 {
        let (code, out, err) = secrets(&home, &["rekey"], "").await;
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains("4 values in 2 files"), "{out}");
        assert!(world.turn("w", false).await.status.is_success());
    }
    let after = key_of(&home, "a");
    assert_ne!(after, before);
    assert_eq!(key_of(&home, "b"), after);
    renew(&world).await;
    assert_eq!(key_of(&home, "a"), after, "what the daemon renews is sealed with the new key");
    world.restart().await;
    renew(&world).await;
}

#[tokio::test]
async fn without_anything_sealed_there_is_no_key_to_change() {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare(home.path());
    command.args(["secrets", "rekey"]);
    let (code, out, err) = run(command).await;
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("there is no key"), "{out}");
    assert!(!home.path().join("key").exists());
}

#[tokio::test]
async fn where_nothing_is_stored_there_is_nothing_to_carry_and_no_file_is_made() {
    let home = tempfile::tempdir().unwrap();
    let parcel = home.path().join("parcel.json");
    let words = ["export", parcel.to_str().unwrap(), "--stdin"];
    let (code, _, err) = secrets(home.path(), &words, "a passphrase of some length\n").await;
    assert!(code == 1 && err.contains("there is nothing to carry"), "{err}");
    assert!(!parcel.exists());
}

#[tokio::test]
async fn accounts_are_carried_to_another_home_under_a_passphrase_and_serve_there() {
    let mut world = sealed().await;
    let home = world.home.path().to_owned();
    let parcel = home.join("parcel.json");
    let parcel = parcel.to_str().unwrap();
    let passphrase = "a passphrase of some length\n";
    let (code, _, err) = secrets(&home, &["export", parcel, "--stdin"], "short\n").await;
    assert_eq!(code, 1, "{err}");
    assert!(!Path::new(parcel).exists());
    let (code, out, err) = secrets(&home, &["export", parcel, "--stdin"], passphrase).await;
    assert_eq!(code, 0, "{out}{err}");
    let carried = std::fs::read_to_string(parcel).unwrap();
    assert!(!carried.contains("sk-ant-") && !carried.contains(passphrase.trim()), "{carried}");
    let (code, _, err) = secrets(&home, &["export", parcel, "--stdin"], passphrase).await;
    assert_eq!(code, 1, "one that is there stays: {err}");
    assert_eq!(std::fs::read_to_string(parcel).unwrap(), carried);

    world.stop().await;
    for name in ["a", "b"] {
        std::fs::remove_file(home.join(format!("accounts/claude/{name}.json"))).unwrap();
    }
    for of_the_key in ["key", "key.id"] {
        std::fs::remove_file(home.join(of_the_key)).unwrap();
    }
    let (code, _, err) = secrets(&home, &["import", parcel, "--stdin"], "another passphrase\n").await;
    assert_eq!(code, 1);
    assert!(err.contains("does not open") && !err.contains("another passphrase"), "{err}");
    let elsewhere = tempfile::tempdir().unwrap();
    let (code, out, err) = secrets(&elsewhere.path().join("new"), &["import", parcel, "--stdin"], passphrase).await;
    assert_eq!(code, 0, "on a new machine the home is made: {out}{err}");
    std::fs::write(home.join("accounts/claude/b.json"), login(&world.sim, "b").to_string()).unwrap();
    let (code, out, err) = secrets(&home, &["import", parcel, "--stdin"], passphrase).await;
    assert_eq!(code, 3, "{out}{err}");
    assert_eq!(
        out,
        "claude/a: brought in\nclaude/b: there already, and left as it is; --replace takes the other one\n"
    );
    key_of(&home, "a");
    world.restart().await;
    renew(&world).await;
    assert_eq!(key_of(&home, "a"), key_of(&home, "b"));
}

/// Room that runs out is seen as a file that may not grow.
#[tokio::test]
async fn an_export_that_has_no_room_leaves_no_file_that_would_be_in_the_way() {
    let world = sealed().await;
    let home = world.home.path().to_owned();
    let parcel = home.join("parcel.json");
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" secrets export \"$1\" --stdin"]);
    command.arg(env!("CARGO_BIN_EXE_duduclaw")).arg(&parcel).env_clear().env("DUDUCLAW_HOME", &home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a passphrase of some length\n").await.unwrap();
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(!parcel.exists(), "it can be tried again");
}
