use super::fake::FakeKeychain;
use super::*;

fn item() -> Item {
    Item::named("Claude Code-credentials", "me").unwrap()
}

fn read(fake: &FakeKeychain) -> Option<String> {
    fake.keychain.read(&item()).unwrap().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn what_is_written_is_read_again_whatever_letters_it_has() {
    let fake = FakeKeychain::new();
    assert_eq!(read(&fake), None);
    for text in [r#"{"a": "b c", "d": "'\"$(x)"}"#, "{\"name\": \"Zoë\"}", "{\n  \"a\": 1\n}", "duduclaw key 7b7b7b"] {
        fake.keychain.write(&item(), text.as_bytes()).unwrap();
        assert_eq!(read(&fake).as_deref(), Some(text));
    }
    fake.keychain.remove(&item()).unwrap();
    assert_eq!(read(&fake), None);
    fake.keychain.remove(&item()).unwrap();
}

#[test]
fn nothing_that_is_kept_is_an_argument() {
    let fake = FakeKeychain::new();
    fake.keychain.write(&item(), b"{\"token\": \"CANARY\"}").unwrap();
    read(&fake);
    assert!(fake.calls().lines().count() >= 2, "{}", fake.calls());
    assert!(!fake.calls().contains("CANARY") && !fake.calls().contains(hex(b"CANARY").as_str()), "{}", fake.calls());
}

#[test]
fn it_is_asked_again_only_when_something_changed() {
    let fake = FakeKeychain::new();
    fake.keychain.write(&item(), b"{}").unwrap();
    read(&fake);
    let calls = fake.calls();
    read(&fake);
    assert_eq!(fake.calls(), calls);
    fake.keychain.write(&Item::named("another", "me").unwrap(), b"{}").unwrap();
    let calls = fake.calls();
    read(&fake);
    assert_ne!(fake.calls(), calls);
}

#[test]
fn what_does_not_fit_into_a_line_is_refused_and_changes_nothing() {
    let fake = FakeKeychain::new();
    fake.keychain.write(&item(), b"{}").unwrap();
    let room = (LONGEST_LINE - item().command("").len()) / 2;
    for (length, fits) in [(room, true), (room + 1, false)] {
        let text = vec![b'x'; length];
        assert_eq!(item().has_room_for(length), fits);
        assert_eq!(fake.keychain.write(&item(), &text).is_ok(), fits);
    }
    assert_eq!(read(&fake).map(|text| text.len()), Some(room));
}

#[test]
fn a_locked_keychain_is_told_from_an_item_that_is_not_there() {
    let fake = FakeKeychain::new();
    std::fs::write(fake.file("locked"), "").unwrap();
    let error = fake.keychain.read(&item()).unwrap_err();
    assert!(error.to_string().contains("unlock"), "{error}");
    assert!(fake.keychain.write(&item(), b"{}").is_err());
    let nowhere = Keychain::asked_through(fake.file("no-such-program"), None);
    assert!(matches!(nowhere.read(&item()), Err(KeychainError::NoProgram { .. })));
}

#[test]
fn a_name_that_would_end_a_line_of_commands_names_nothing() {
    for name in ["a\"b", "a\nb", "a\\", "", "o'b"] {
        assert_eq!(Item::named(name, "me"), None, "{name}");
        assert_eq!(Item::named("service", name), None, "{name}");
    }
}

/// Questions to one that hangs would add up otherwise: a configuration asks a few for each login.
#[test]
fn one_that_gives_no_answer_is_waited_for_once() {
    for name in ["silent", "mute"] {
        let fake = FakeKeychain::new();
        let keychain = Keychain::patient(fake.file("security"), None, Duration::from_millis(500));
        std::fs::write(fake.file(name), "").unwrap();
        for _ in 0..20 {
            assert!(matches!(keychain.read(&item()), Err(KeychainError::Late)), "{name}");
        }
        assert!(fake.calls().lines().count() <= 1, "{name}: {}", fake.calls());
    }
}

#[test]
fn one_that_never_stops_talking_is_not_listened_to_for_ever() {
    let fake = FakeKeychain::new();
    std::fs::write(fake.file("endless"), "").unwrap();
    assert!(matches!(fake.keychain.read(&item()), Err(KeychainError::TooMuch)));
}

/// The item may lie in another keychain than the one whose file is known.
#[test]
fn a_look_that_something_hangs_on_asks_whatever_the_file_says() {
    let fake = FakeKeychain::new();
    std::fs::write(fake.file("still"), "").unwrap();
    let other = Keychain::asked_through(fake.file("security"), Some(fake.file("still")));
    other.write(&item(), b"{\"n\": 1}").unwrap();
    assert!(other.read(&item()).unwrap().is_some());
    fake.keychain.write(&item(), b"{\"n\": 2}").unwrap();
    other.look_anew();
    assert_eq!(other.read(&item()).unwrap().unwrap().as_slice(), b"{\"n\": 2}");
}
