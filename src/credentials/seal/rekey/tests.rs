use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::*;

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
        rekey(&self.places(), &self.0.path().join("accounts"))
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
        let next = begin(&path).unwrap();
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
    assert_eq!(rekey(&KeyPlaces::in_home(home.path().to_owned()), &home.path().join("accounts")).unwrap(), None);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
