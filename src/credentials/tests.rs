//! What holds a secret, shown as a panic shows it: an `expect` prints what it did not expect.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use duduclaw_actors::clock::Wall;

use super::document::{Document, NewTokens, Proof, Seals};
use super::seal::{Key, Sealer};
use super::source::{Credential, SecretSource, process_environment};
use super::{Content, Fresh, Origin, Secret};

const LOGIN: &str =
    r#"{"claudeAiOauth": {"accessToken": "sk-ant-at01-CANARY", "refreshToken": "sk-ant-ort01-CANARY"}}"#;

/// The text of a panic over this.
fn dying(of: impl Debug) -> String {
    let died = catch_unwind(AssertUnwindSafe(|| panic!("unexpected: {of:?} {of:#?}"))).expect_err("it panics");
    *died.downcast::<String>().expect("a panic's text")
}

fn secret() -> Secret {
    Secret::parse("sk-ant-oat01-CANARY").expect("a token")
}

#[test]
fn a_panic_over_what_holds_a_secret_shows_none() {
    let path = Path::new("/accounts/claude/work.json");
    let document = Document::parse(path, LOGIN.as_bytes()).expect("an object");
    let login = document.login(path, &Seals::FOREIGN).expect("a login");
    let content = document.content(login.clone()).expect("it can be renewed");
    let facts = login.facts.clone();
    let fresh = Fresh { content: content.clone(), facts, proof: Proof::Found, origin: Origin::Own };
    let tokens = NewTokens { access: secret(), refresh: secret(), expires_at: Wall(0) };
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("work.json");
    std::fs::write(&file, LOGIN).expect("written");
    let source = SecretSource::StoreFile(file);
    let reading = source.read(&process_environment(), &Sealer::none()).expect("readable");
    let credential = Credential::read(&source, &process_environment(), &Sealer::none()).expect("readable");
    let told = [
        dying(secret()),
        dying(&login),
        dying(&content),
        dying(Content::Key(secret())),
        dying(&fresh),
        dying(&tokens),
        dying(&reading),
        dying(&credential),
        dying(Key::random().expect("the machine has random numbers")),
    ];
    for text in told {
        assert!(text.len() > "unexpected:  ".len() && !text.contains("CANARY"), "{text}");
    }
}

/// Bytes of a key are digits in a panic's text, and not to be found by a word.
#[test]
fn a_panic_over_a_key_shows_its_id_alone() {
    let key = Key::random().expect("the machine has random numbers");
    assert_eq!(dying(&key), format!("unexpected: Key({id}) Key({id})", id = key.id()));
}

/// Errors are what an `expect` prints most.
#[test]
fn a_panic_over_an_error_shows_nothing_of_what_was_read() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("work.json");
    let texts = [
        "{\"claudeAiOauth\": {\"accessToken\": \"CANARY CANARY\"}}",
        "{\"claudeAiOauth\": {\"accessToken\": \"duduclaw-sealed:1:0123456789abcdef:CANARY\"}}",
        "{\"claudeAiOauth\": \"CANARY\"}",
        "{\"claudeAiOauth\": {\"accessToken\": 1, \"refreshToken\": \"CANARY\"}}",
        "{\"CANARY",
        "[\"CANARY\"]",
        "CANARY",
    ];
    for text in texts {
        std::fs::write(&file, text).expect("written");
        let error = SecretSource::StoreFile(file.clone()).read(&process_environment(), &Sealer::none());
        let told = dying(error.expect_err(text));
        assert!(!told.contains("CANARY"), "{text}: {told}");
    }
}
