use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::*;
use crate::credentials::keychain::fake::FakeKeychain;

const TOKEN: &str = "sk-ant-oat01-CANARY";

struct Home(tempfile::TempDir);

impl Home {
    /// Two files, of which one value each is sealed.
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            let place = Place { account: &format!("claude/{name}"), field: "claudeAiOauth.accessToken" };
            let sealed = Sealer::new(Sealing::On, home.places()).seal(TOKEN, place).unwrap();
            let text = format!("{{\n  \"claudeAiOauth\": {{\"accessToken\": \"{sealed}\"}},\n  \"n\": 1.50\n}}");
            fs::create_dir_all(home.0.path().join("accounts/claude")).unwrap();
            fs::write(home.file(name), text).unwrap();
        }
        home
    }

    fn places(&self) -> KeyPlaces {
        KeyPlaces::in_home(self.0.path().to_owned())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("accounts/claude/{name}.json"))
    }

    fn key(&self) -> KeyId {
        self.places().find().unwrap().unwrap().id().clone()
    }

    fn rekey(&self) -> Result<Option<Rekeyed>, RekeyError> {
        rekey(&self.places(), &self.0.path().join("accounts"), None)
    }

    /// What an account's value opens to.
    fn opened(&self, name: &str) -> Result<String, OpenError> {
        let document: Value = serde_json::from_slice(&fs::read(self.file(name)).unwrap()).unwrap();
        let sealed = document["claudeAiOauth"]["accessToken"].as_str().unwrap();
        let place = Place { account: &format!("claude/{name}"), field: "claudeAiOauth.accessToken" };
        Sealer::new(Sealing::On, self.places()).open(sealed, place).map(|plain| plain.to_string())
    }
}

#[test]
fn everything_is_sealed_with_a_new_key_and_the_old_one_opens_nothing() {
    let home = Home::new();
    let (before, old) = (home.key(), fs::read(home.0.path().join("key")).unwrap());
    let done = home.rekey().unwrap().unwrap();
    assert_eq!((done.values, done.files, &done.key), (2, 2, &home.key()));
    assert_ne!(home.key(), before);
    assert_eq!(home.opened("a").unwrap(), TOKEN);
    let mode = fs::metadata(home.0.path().join("key")).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode, home.0.path().join("key.next").exists()), (0o600, false));
    assert!(home.places().look().is_ok(), "the home knows its key");
    fs::write(home.0.path().join("key"), old).unwrap();
    assert!(home.opened("a").is_err());
}

/// Stopped after each of its steps: all opens, a second run ends it.
#[test]
fn interrupted_anywhere_everything_opens_and_the_next_run_ends_it() {
    for steps in 0..3 {
        let home = Home::new();
        let path = home.0.path().join("key");
        let sealer = Sealer::new(Sealing::On, home.places());
        let next = begin_beside(&path).unwrap();
        if steps > 0 {
            home.places().remember(next.id()).unwrap();
            let place = Place { account: "claude/c", field: "x" };
            let meanwhile = sealer.seal(TOKEN, place).expect("a renewed login is saved meanwhile, too");
            assert_eq!(sealed_by(&meanwhile).as_ref(), Some(next.id()), "the old key seals nothing");
            assert_eq!(sealer.open(&meanwhile, place).unwrap().as_str(), TOKEN);
        }
        if steps > 1 {
            reseal(&home.file("a"), &sealer, &next).unwrap();
        }
        assert_eq!((home.opened("a").unwrap(), home.opened("b").unwrap()), (TOKEN.into(), TOKEN.into()), "{steps}");
        let done = home.rekey().unwrap().unwrap();
        assert_eq!(&done.key, next.id(), "it goes on with the key it had begun");
        assert_eq!((home.opened("a").unwrap(), home.opened("b").unwrap()), (TOKEN.into(), TOKEN.into()), "{steps}");
    }
}

/// Its file is not there yet when the key is changed, and what will be in it is sealed with the old key already.
#[test]
fn an_account_that_is_added_meanwhile_comes_along() {
    let home = Home::new();
    let (old, path) = (home.key(), home.file("c"));
    let Held::Ours(lock) = hold(&path).unwrap() else { panic!("nobody else holds it") };
    let place = Place { account: "claude/c", field: "claudeAiOauth.accessToken" };
    let sealed = Sealer::new(Sealing::On, home.places()).seal(TOKEN, place).unwrap();
    std::thread::scope(|scope| {
        let rekeying = scope.spawn(|| home.rekey());
        while home.places().look().is_ok_and(|key| key.as_ref() == Some(&old)) && !rekeying.is_finished() {
            std::thread::yield_now();
        }
        fs::write(&path, format!("{{\"claudeAiOauth\": {{\"accessToken\": \"{sealed}\"}}}}")).unwrap();
        drop(lock);
        assert_eq!(rekeying.join().unwrap().unwrap().unwrap().files, 3);
    });
    assert_eq!(home.opened("c").unwrap(), TOKEN);
}

#[test]
fn what_was_left_of_a_key_by_a_process_that_was_killed_goes() {
    let home = Home::new();
    let path = |name: &str| home.0.path().join(name);
    let (left, others) = (path("key.next.0123456789abcdef.new"), path("key.next.mine.new"));
    for path in [&left, &others] {
        fs::write(path, [7; 32]).unwrap();
    }
    home.rekey().unwrap();
    assert_eq!((left.exists(), others.exists()), (false, true));
}

#[test]
fn a_file_that_would_be_lost_stops_it_before_anything_changes() {
    let home = Home::new();
    let before = (home.key(), fs::read(home.file("a")).unwrap());
    let text = fs::read_to_string(home.file("b")).unwrap();
    for spoilt in [text.replace("claudeAiOauth", "elsewhere"), text[..text.len() - 3].to_owned()] {
        fs::write(home.file("b"), spoilt).unwrap();
        let error = home.rekey().unwrap_err();
        assert!(error.to_string().contains("b.json") && !error.to_string().contains("CANARY"), "{error}");
        assert_eq!((home.key(), fs::read(home.file("a")).unwrap()), before);
    }
}

#[test]
fn whatever_is_no_secret_stays_as_it_was_written() {
    let home = Home::new();
    home.rekey().unwrap();
    assert!(fs::read_to_string(home.file("a")).unwrap().ends_with("\"n\": 1.50\n}"));
}

#[test]
fn without_a_key_nothing_is_sealed_and_none_is_made() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(rekey(&KeyPlaces::in_home(home.path().to_owned()), &home.path().join("accounts"), None).unwrap(), None);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// A home on a machine with a keychain.
struct Mac {
    home: Home,
    fake: FakeKeychain,
}

impl Mac {
    fn new() -> Self {
        Self { home: Home::new(), fake: FakeKeychain::new() }
    }

    fn places(&self) -> KeyPlaces {
        KeyPlaces { keychain: Some(self.fake.keychain.clone()), ..self.home.places() }
    }

    fn rekey(&self, to: Option<FreePlace>) -> Result<Option<Rekeyed>, RekeyError> {
        rekey(&self.places(), &self.home.0.path().join("accounts"), to)
    }

    fn opened(&self, name: &str) -> String {
        let document: Value = serde_json::from_slice(&fs::read(self.home.file(name)).unwrap()).unwrap();
        let sealed = document["claudeAiOauth"]["accessToken"].as_str().unwrap().to_owned();
        let place = Place { account: &format!("claude/{name}"), field: "claudeAiOauth.accessToken" };
        Sealer::new(Sealing::On, self.places()).open(&sealed, place).unwrap().to_string()
    }

    fn key_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.0.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("key") && !name.ends_with(".lock") && name != "key.id").collect()
    }

    fn items(&self) -> usize {
        fs::read_dir(self.fake.file("items")).map_or(0, |items| items.count())
    }
}

#[test]
fn the_key_goes_into_the_keychain_and_out_of_it_and_is_never_in_two_places() {
    let mac = Mac::new();
    assert_eq!(mac.places().place().unwrap(), Some(KeyPlace::File(mac.home.0.path().join("key"))));
    let mut keys = BTreeSet::new();
    for (to, place) in [
        (Some(FreePlace::Keychain), FreePlace::Keychain),
        (None, FreePlace::Keychain),
        (Some(FreePlace::File), FreePlace::File),
        (None, FreePlace::File),
        (Some(FreePlace::Keychain), FreePlace::Keychain),
    ] {
        let done = mac.rekey(to).unwrap().unwrap();
        assert_eq!((done.values, done.files), (2, 2), "{to:?}");
        assert!(keys.insert(done.key.clone()), "each is another");
        assert_eq!(mac.places().look().unwrap(), Some(done.key));
        assert_eq!((mac.opened("a"), mac.opened("b")), (TOKEN.to_owned(), TOKEN.to_owned()));
        let (files, items) = if place == FreePlace::File { (vec!["key".to_owned()], 0) } else { (Vec::new(), 1) };
        assert_eq!((mac.key_files(), mac.items()), (files, items), "{to:?}");
    }
    assert!(!mac.fake.calls().contains("duduclaw-key:"), "it is no argument");
}

/// Killed again and again, before or after the home knew of the new key: none of all those keys stays.
#[test]
fn keys_of_changes_that_were_never_finished_do_not_stay_in_the_keychain() {
    for last in [FreePlace::Keychain, FreePlace::File] {
        let mac = Mac::new();
        mac.rekey(Some(FreePlace::Keychain)).unwrap();
        let places = mac.places();
        for (place, is_known) in [
            (FreePlace::Keychain, false),
            (FreePlace::Keychain, true),
            (FreePlace::File, true),
            (FreePlace::Keychain, true),
        ] {
            let mut old = places.leaving().unwrap();
            old.extend(places.home_id().unwrap());
            let next = begin(&places, &places.free(place).unwrap(), &old).unwrap();
            if is_known {
                places.remember(next.id()).unwrap();
            }
        }
        assert_eq!(mac.items(), 4);
        mac.rekey(Some(last)).unwrap();
        assert_eq!((mac.opened("a"), mac.opened("b")), (TOKEN.to_owned(), TOKEN.to_owned()));
        assert_eq!(mac.key_files().len() + mac.items(), 1, "{last:?}: {:?}", mac.key_files());
    }
}

#[test]
fn what_is_sealed_first_may_be_sealed_with_a_key_in_the_keychain() {
    let (home, fake) = (tempfile::tempdir().unwrap(), FakeKeychain::new());
    let places = KeyPlaces { keychain: Some(fake.keychain.clone()), ..KeyPlaces::in_home(home.path().to_owned()) };
    let done = rekey(&places, &home.path().join("accounts"), Some(FreePlace::Keychain)).unwrap().unwrap();
    assert_eq!(places.find_or_make().unwrap().id(), &done.key);
    assert!(!home.path().join("key").exists());
}

#[test]
fn a_key_is_put_into_no_keychain_where_there_is_none_and_nowhere_if_its_place_is_named() {
    let home = Home::new();
    let before = home.key();
    let to_keychain = |places: &KeyPlaces| rekey(places, &home.0.path().join("accounts"), Some(FreePlace::Keychain));
    assert!(matches!(to_keychain(&home.places()), Err(RekeyError::Key(KeyError::NoKeychain))));
    let named = home.0.path().join("named");
    fs::copy(home.0.path().join("key"), &named).unwrap();
    let fake = FakeKeychain::new();
    let keychain = Some(fake.keychain.clone());
    let places = KeyPlaces { configured: Some(named), keychain: keychain.clone(), ..home.places() };
    assert!(matches!(to_keychain(&places), Err(RekeyError::Key(KeyError::Named(_)))));
    fs::copy(home.0.path().join("key"), home.0.path().join("duduclaw.key")).unwrap();
    let places = KeyPlaces { credentials: Some(home.0.path().to_owned()), keychain, ..home.places() };
    assert!(matches!(to_keychain(&places), Err(RekeyError::Key(KeyError::Given(_)))));
    assert_eq!((home.key(), home.opened("a").unwrap()), (before, TOKEN.to_owned()));
}

/// Killed anywhere on the way into the keychain or out of it: all opens, what is sealed meanwhile opens, and doing it again
/// ends it.
#[test]
fn interrupted_on_the_way_into_the_keychain_or_out_of_it_everything_opens() {
    for (first, then) in [
        (None, FreePlace::Keychain),
        (Some(FreePlace::Keychain), FreePlace::File),
        (Some(FreePlace::Keychain), FreePlace::Keychain),
    ] {
        for again in [None, Some(FreePlace::Keychain), Some(FreePlace::File)] {
            let mac = Mac::new();
            if first.is_some() {
                mac.rekey(first).unwrap();
            }
            let places = mac.places();
            let to = places.free(then).unwrap();
            let next = begin(&places, &to, &BTreeSet::new()).unwrap();
            assert_eq!(mac.opened("a"), TOKEN, "a key was made");
            places.remember(next.id()).unwrap();
            assert_eq!((mac.opened("a"), places.look().unwrap().as_ref()), (TOKEN.to_owned(), Some(next.id())));
            reseal(&mac.home.file("a"), &Sealer::new(Sealing::On, places.clone()), &next).unwrap();
            assert_eq!((mac.opened("a"), mac.opened("b")), (TOKEN.to_owned(), TOKEN.to_owned()), "half was sealed");
            assert_eq!(places.find_or_make().unwrap().id(), next.id(), "what is new is sealed with the new one");
            mac.rekey(again).unwrap().expect("there is something to do");
            assert_eq!((mac.opened("a"), mac.opened("b")), (TOKEN.to_owned(), TOKEN.to_owned()), "{then:?} {again:?}");
            assert_eq!(mac.key_files().len() + mac.items(), 1, "{first:?} {then:?} {again:?}: {:?}", mac.key_files());
        }
    }
}

#[test]
fn a_locked_keychain_opens_nothing_and_no_other_key_is_made() {
    let mac = Mac::new();
    mac.rekey(Some(FreePlace::Keychain)).unwrap();
    fs::write(mac.fake.file("locked"), "").unwrap();
    // Nothing is known of it any more, as in a program that begins.
    fs::write(mac.fake.file("login.keychain-db"), "changed").unwrap();
    let error = mac.places().find_or_make().unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    assert!(mac.rekey(None).is_err() && mac.rekey(Some(FreePlace::File)).is_err());
    assert_eq!(mac.key_files(), Vec::<String>::new());
    fs::remove_file(mac.fake.file("locked")).unwrap();
    assert_eq!(mac.opened("a"), TOKEN);
}

#[test]
fn a_lost_key_is_said_and_not_taken_for_none() {
    let home = Home::new();
    fs::remove_file(home.0.path().join("key")).unwrap();
    for id in ["kept", "gone"] {
        let error = home.rekey().unwrap_err();
        assert!(matches!(error, RekeyError::Key(KeyError::Lost { .. })), "{id}: {error}");
        let _ = fs::remove_file(home.0.path().join("key.id"));
    }
}
