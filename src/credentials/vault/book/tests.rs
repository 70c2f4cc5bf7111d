use super::*;
use crate::credentials::identity::IdentityFacts;
use crate::credentials::kept::Room;
use crate::credentials::source::Copied;
use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;
use std::path::Path;

fn secret(text: &str) -> Secret {
    Secret::parse(text).expect("a token")
}

fn login(access: &str, refresh: Option<&str>) -> Login {
    let kind = if refresh.is_some() { CredentialKind::Oauth } else { CredentialKind::SetupToken };
    let facts = IdentityFacts { uuid: Some("u".into()), ..IdentityFacts::default() };
    Login {
        kind,
        access: secret(access),
        refresh: refresh.map(secret),
        expires_at: Some(Wall(1_000)),
        facts,
        proof: Proof::Found,
    }
}

fn reading(login: Login) -> Result<Option<Reading>, SourceError> {
    Ok(Some(Reading { login, stamp: None, copy: Copied::Same, room: Room::Enough }))
}

fn book(access: &str, refresh: Option<&str>) -> Book {
    let mut book = Book::default();
    assert!(book.take_reading(reading(login(access, refresh))).is_empty());
    book
}

fn tokens(access: &str, refresh: &str) -> NewTokens {
    NewTokens { access: secret(access), refresh: secret(refresh), expires_at: Wall(9_000) }
}

fn now() -> Timestamp {
    Timestamp::at_millis(500)
}

fn token_of(book: &Book) -> String {
    book.view().held().expect("a secret").secret.expose().to_owned()
}

#[test]
fn every_new_token_is_a_new_generation_and_the_same_one_is_not() {
    let mut book = book("a1", Some("r1"));
    assert_eq!(book.view().held().expect("a secret").generation, Generation(0));
    let news = book.take_renewal(tokens("a2", "r2"), Duration::from_secs(8));
    assert_eq!(news, Some(CredentialNews::Renewed { generation: Generation(1), expires_at: Wall(9_000) }));
    assert!(book.take_reading(reading(login("a2", Some("r3")))).is_empty(), "the same access token");
    assert_eq!(book.view().held().expect("a secret").generation, Generation(1));
    assert_eq!(
        book.take_reading(reading(login("a4", Some("r4")))),
        [CredentialNews::Adopted { generation: Generation(2) }]
    );
}

/// Two programs on one login would otherwise renew by turns, each finding the other's token due at once.
#[test]
fn a_short_life_that_was_learnt_holds_for_a_token_that_another_program_renewed() {
    let mut book = book("a1", Some("r1"));
    assert!(book.view().needs_renewal(now()));
    book.take_renewal(tokens("a2", "r2"), Duration::from_millis(600));
    book.take_reading(reading(login("a3", Some("r3"))));
    assert!(!book.view().needs_renewal(now()), "it has 500 ms, and 300 are the margin");
}

#[test]
fn ours_is_the_newer_pair_while_the_source_holds_the_one_it_came_from() {
    let mut book = book("a1", Some("r1"));
    book.take_renewal(tokens("a2", "r2"), Duration::from_secs(8));
    assert_eq!(book.is_saved(), Saved::No);
    assert!(book.take_reading(reading(login("a1", Some("r1")))).is_empty());
    assert_eq!(token_of(&book), "a2");
    assert_eq!(book.unsaved().expect("to be written").refresh.expose(), "r2");
    book.take_reading(reading(login("a9", Some("r9"))));
    assert_eq!((token_of(&book).as_str(), book.is_saved()), ("a9", Saved::Yes));
}

#[test]
fn what_is_no_renewal_of_the_same_account_is_a_replacement() {
    let replaced = [CredentialNews::Replaced { generation: Generation(1) }];
    let other = |text: &str| Login {
        facts: IdentityFacts { uuid: Some(text.into()), ..IdentityFacts::default() },
        ..login("a2", Some("r2"))
    };
    assert_eq!(book("a1", Some("r1")).take_reading(reading(other("v"))), replaced, "another account");
    assert_eq!(book("a1", None).take_reading(reading(login("a2", None))), replaced, "another setup token");
    assert_eq!(book("a1", Some("r1")).take_reading(reading(login("a2", None))), replaced, "another kind");
    let mut dead = book("a1", Some("r1"));
    dead.lose_grant(None, now());
    assert_eq!(dead.take_reading(reading(login("a2", Some("r2")))), replaced, "a login after a dead grant");
    let mut moved = book("a1", Some("r1")).moved();
    assert_eq!(moved.take_reading(reading(login("a2", Some("r2")))), replaced, "another source");
    let mut known = book("a1", Some("r1"));
    let unknown = Login { facts: IdentityFacts::default(), ..login("a2", Some("r2")) };
    assert_eq!(
        known.take_reading(reading(unknown)),
        [CredentialNews::Adopted { generation: Generation(1) }],
        "unknown is not another"
    );
}

#[test]
fn a_dead_refresh_token_is_dead_by_its_value() {
    let mut book = book("a1", Some("r1"));
    let until = Deadline::Wall(Wall(1_000));
    assert_eq!(book.lose_grant(None, now()), Some(CredentialNews::GrantLost { access_until: until }));
    assert!(book.living_refresh().is_none());
    book.take_reading(reading(login("a2", Some("r1"))));
    assert!(book.living_refresh().is_none(), "the same refresh token beside another access token");
    book.take_reading(reading(login("a3", Some("r3"))));
    assert!(book.living_refresh().is_some());
}

#[test]
fn a_break_is_told_once_and_its_healing_too() {
    let missing = || SourceError::Missing { path: Path::new("/f").to_owned() };
    let mut book = book("a1", Some("r1"));
    assert_eq!(book.take_reading(Err(missing())).len(), 1);
    assert!(book.take_reading(Err(missing())).is_empty());
    assert_eq!(book.view().current(now()).expect_err("broken"), super::super::NotNow::Broken(Cause::Unreadable));
    let again = book.take_reading(reading(login("a1", Some("r1"))));
    assert_eq!(again, [CredentialNews::ReadAgain { generation: Generation(0) }]);
}

#[test]
fn pauses_grow_to_a_minute_and_a_stated_wait_is_kept() {
    let mut book = book("a1", Some("r1"));
    let mut pause = |stated| {
        book.postpone("x".into(), stated, now());
        book.view().pause(now()).expect("a pause").remaining(now()).as_secs()
    };
    let pauses: Vec<_> = (0..8).map(|_| pause(None)).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause(Some(Duration::from_secs(90))), 90);
}

/// The trace that a book leaves, as it is kept.
fn kept(book: &Book) -> Trace {
    let kept = serde_json::to_string(&book.trace().expect("a trace")).expect("it can be kept");
    for part in ["a1", "a2", "r1", "r2"] {
        assert!(!kept.contains(part), "{part} is in {kept}");
    }
    serde_json::from_str(&kept).expect("it reads back")
}

/// What a restart makes of the login that is there by then, with the generation that the account's health knows.
fn after_restart(trace: Trace, generation: u64, login: Login) -> Vec<CredentialNews> {
    Book::after(Generation(generation), Some(trace), None).take_reading(reading(login))
}

#[test]
fn a_restart_knows_the_same_credential_again_and_another_for_another() {
    let renewed = [CredentialNews::Adopted { generation: Generation(1) }];
    let replaced = [CredentialNews::Replaced { generation: Generation(1) }];
    let oauth = || kept(&book("a1", Some("r1")));
    assert_eq!(after_restart(oauth(), 0, login("a1", Some("r1"))), []);
    assert_eq!(after_restart(oauth(), 0, login("a2", Some("r2"))), renewed, "another program went on with it");
    assert_eq!(after_restart(oauth(), 0, login("a2", None)), replaced);
    assert_eq!(after_restart(kept(&book("a1", None)), 0, login("a2", None)), replaced, "another key");
    let other = IdentityFacts { uuid: Some("v".into()), ..IdentityFacts::default() };
    assert_eq!(after_restart(oauth(), 0, Login { facts: other, ..login("a2", Some("r2")) }), replaced);
}

/// What was used up of the smaller plan says nothing of the larger one.
#[test]
fn a_login_with_another_plan_is_a_replacement() {
    let plan = |plan: &str, access: &str, refresh| {
        let login = login(access, Some(refresh));
        Login { facts: IdentityFacts { plan: Some(plan.into()), ..login.facts.clone() }, ..login }
    };
    let mut book = Book::default();
    book.take_reading(reading(plan("pro", "a1", "r1")));
    let news = book.take_reading(reading(plan("max", "a2", "r2")));
    assert_eq!(news, [CredentialNews::Replaced { generation: Generation(1) }]);
    assert_eq!(book.take_reading(reading(plan("max", "a3", "r3"))).len(), 1);
    assert!(matches!(book.take_reading(reading(plan("max", "a4", "r4")))[..], [CredentialNews::Adopted { .. }]));
}

#[test]
fn a_refresh_token_that_was_dead_is_dead_after_a_restart_and_a_login_in_its_place_is_not() {
    let mut lost = book("a1", Some("r1"));
    lost.lose_grant(None, now());
    let mut again = Book::after(Generation(0), Some(kept(&lost)), None);
    assert_eq!(again.take_reading(reading(login("a1", Some("r1")))), []);
    assert_eq!(again.view().grant, Grant::Lost);
    let replaced = [CredentialNews::Replaced { generation: Generation(1) }];
    assert_eq!(after_restart(kept(&lost), 0, login("a2", Some("r2"))), replaced);
}

/// The two are written one after the other, and a kill may come in between.
#[test]
fn a_trace_that_does_not_fit_the_health_condemns_no_credential() {
    let mut newer = book("a1", Some("r1"));
    newer.take_renewal(tokens("a2", "r2"), Duration::from_secs(8));
    let replaced = |generation| [CredentialNews::Replaced { generation: Generation(generation) }];
    assert_eq!(after_restart(kept(&newer), 0, login("a2", Some("r2"))), replaced(2));
    assert_eq!(after_restart(kept(&book("a1", Some("r1"))), 5, login("a1", Some("r1"))), replaced(6));
}

#[test]
fn a_secret_that_was_missing_before_a_restart_and_is_there_after_it_is_news() {
    let trace = || Some(kept(&book("a1", None)));
    let broken = || Some(Cause::Unreadable);
    let mut found = Book::after(Generation(0), trace(), broken());
    let again = CredentialNews::ReadAgain { generation: Generation(0) };
    assert_eq!(found.take_reading(reading(login("a1", None))), std::slice::from_ref(&again));
    let mut never_read = Book::after(Generation(0), None, broken());
    assert_eq!(never_read.take_reading(reading(login("a1", None))), [again]);
    let mut still = Book::after(Generation(0), trace(), broken());
    let missing = || Err(SourceError::Missing { path: Path::new("/f").to_owned() });
    assert!(matches!(still.take_reading(missing())[..], [CredentialNews::Broke { .. }]), "it is said at each start");
}
