use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_key_is_made_once_and_for_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let places = KeyPlaces::in_home(home.path().to_owned());
    assert!(places.find().unwrap().is_none());
    let made = places.find_or_make().unwrap();
    assert_eq!(places.find_or_make().unwrap().id(), made.id());
    let meta = fs::metadata(home.path().join("key")).unwrap();
    assert_eq!((meta.len(), meta.permissions().mode() & 0o777), (32, 0o600));
    assert_eq!(fs::read_to_string(home.path().join("key.id")).unwrap(), made.id().to_string());
}

#[test]
fn processes_that_make_a_key_at_once_have_the_same() {
    let home = tempfile::tempdir().unwrap();
    let make = || KeyPlaces::in_home(home.path().to_owned()).make().unwrap().id().clone();
    let ids: Vec<KeyId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_file_that_cannot_be_a_key_is_an_error_and_stays_as_it_is() {
    for bytes in [&b""[..], b"short", &[1; 33]] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("key"), bytes).unwrap();
        let error = KeyPlaces::in_home(home.path().to_owned()).find_or_make().unwrap_err();
        assert!(matches!(error, KeyError::Size { .. }), "{error}");
        assert_eq!(fs::read(home.path().join("key")).unwrap(), bytes);
    }
}

#[test]
fn no_key_is_made_while_something_is_sealed() {
    let home = tempfile::tempdir().unwrap();
    let family = home.path().join("accounts/claude");
    fs::create_dir_all(&family).unwrap();
    fs::write(family.join("work.json"), r#"{"t": "duduclaw-sealed:1:0123456789abcdef:AAAA"}"#).unwrap();
    let error = KeyPlaces::in_home(home.path().to_owned()).find_or_make().unwrap_err();
    assert!(error.to_string().contains("work.json"), "{error}");
    assert!(!home.path().join("key").exists());
}

#[test]
fn the_places_are_asked_in_order_and_a_named_one_must_have_a_key() {
    let (home, named) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |name: &str, byte: u8| {
        let path = named.path().join(name);
        fs::write(&path, [byte; 32]).unwrap();
        path
    };
    let (variable, configured) = (write("variable", 1), write("configured", 2));
    write(CREDENTIAL, 3);
    fs::write(home.path().join("key"), [4; 32]).unwrap();
    let mut places = KeyPlaces::in_home(home.path().to_owned());
    let first = |places: &KeyPlaces| places.find().unwrap().unwrap().bytes()[0];
    assert_eq!(first(&places), 4);
    places.configured = Some(configured);
    assert_eq!(first(&places), 2);
    places.variable = Some(variable);
    assert_eq!(first(&places), 1);
    places.credentials = Some(named.path().to_owned());
    assert_eq!(first(&places), 3);
    places = KeyPlaces { configured: Some(home.path().join("gone")), ..KeyPlaces::in_home(home.path().to_owned()) };
    assert!(matches!(places.find(), Err(KeyError::Unreadable { .. })), "the home's key is not taken in its place");
    let own = Some(home.path().join("key"));
    fs::remove_file(home.path().join("key")).unwrap();
    places = KeyPlaces { configured: own, ..KeyPlaces::in_home(home.path().to_owned()) };
    assert!(places.find_or_make().is_ok(), "the home's own key, named, is made like it");
}

#[test]
fn a_home_that_is_sealed_with_another_key_is_not_sealed_with_this_one() {
    let home = tempfile::tempdir().unwrap();
    let places = KeyPlaces::in_home(home.path().to_owned());
    places.find_or_make().unwrap();
    fs::write(home.path().join("other"), [9; 32]).unwrap();
    let other = KeyPlaces { configured: Some(home.path().join("other")), ..places };
    assert!(matches!(other.find_or_make(), Err(KeyError::Other { .. })));
}
