use super::*;
use crate::credentials::seal::{KeyPlaces, Sealing};

const TOKEN: &str = "sk-ant-oat01-CANARY";
const PASSPHRASE: &str = "correct horse";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn sealer(&self) -> Sealer {
        Sealer::new(Sealing::On, KeyPlaces::in_home(self.0.path().to_owned()))
    }

    fn accounts(&self) -> PathBuf {
        self.0.path().join("accounts")
    }

    fn file(&self, name: &str) -> PathBuf {
        store_file(&self.accounts(), Family::Claude, name)
    }

    /// A stored login whose token is sealed, and something beside it.
    fn with(self, name: &str) -> Self {
        let place = Place { account: &format!("claude/{name}"), field: "claudeAiOauth.accessToken" };
        let sealed = self.sealer().seal(TOKEN, place).unwrap();
        let text = format!("{{\"claudeAiOauth\": {{\"accessToken\": \"{sealed}\"}}, \"other\": 1.50}}");
        file::private_folder(self.file(name).parent().unwrap()).unwrap();
        std::fs::write(self.file(name), text).unwrap();
        self
    }

    fn export(&self, name: &str) -> Vec<u8> {
        export(&[self.file(name)], &self.sealer(), PASSPHRASE).unwrap().0
    }

    fn import(&self, bytes: &[u8], if_there: IfThere) -> Result<Vec<Brought>, ImportError> {
        import(bytes, PASSPHRASE, &self.accounts(), &self.sealer(), if_there)
    }

    fn token(&self, name: &str) -> String {
        let document: Value = serde_json::from_slice(&std::fs::read(self.file(name)).unwrap()).unwrap();
        let sealed = document["claudeAiOauth"]["accessToken"].as_str().unwrap();
        assert!(is_sealed(sealed));
        let place = Place { account: &format!("claude/{name}"), field: "claudeAiOauth.accessToken" };
        self.sealer().open(sealed, place).unwrap().to_string()
    }
}

#[test]
fn what_was_carried_out_of_one_home_opens_in_another_with_a_key_of_its_own() {
    let (here, there) = (Home::new().with("a"), Home::new());
    let bytes = here.export("a");
    assert!(!String::from_utf8_lossy(&bytes).contains("CANARY"));
    let brought = there.import(&bytes, IfThere::Keep).unwrap();
    assert!(matches!(&brought[..], [Brought { account, fate: Ok(Fate::Written) }] if account == "claude/a"));
    assert_eq!(there.token("a"), TOKEN);
    assert!(std::fs::read_to_string(there.file("a")).unwrap().ends_with("\"other\": 1.50}"), "the rest is as it was");
    assert_ne!(here.sealer().places().look().unwrap(), there.sealer().places().look().unwrap());
}

#[test]
fn an_account_that_is_there_stays_unless_it_is_to_be_replaced() {
    let (here, there) = (Home::new().with("a"), Home::new().with("a"));
    let (bytes, before) = (here.export("a"), std::fs::read(there.file("a")).unwrap());
    assert!(matches!(there.import(&bytes, IfThere::Keep).unwrap()[0].fate, Ok(Fate::Kept)));
    assert_eq!(std::fs::read(there.file("a")).unwrap(), before);
    assert!(matches!(there.import(&bytes, IfThere::Replace).unwrap()[0].fate, Ok(Fate::Written)));
    assert_ne!(std::fs::read(there.file("a")).unwrap(), before);
    assert_eq!(there.token("a"), TOKEN);
}

#[test]
fn another_passphrase_or_a_changed_file_opens_nothing_and_writes_nothing() {
    let (here, there) = (Home::new().with("a"), Home::new());
    let bytes = here.export("a");
    let other = import(&bytes, "another one", &there.accounts(), &there.sealer(), IfThere::Keep);
    assert!(matches!(other, Err(ImportError::Closed)));
    let text = String::from_utf8(bytes).unwrap();
    let spoilt = [
        (text.replace("\"passes\": 3", "\"passes\": 2"), "does not open"),
        (text.replace("\"version\": 1", "\"version\": 9"), "newer"),
        (text.replace("\"memory_kib\": 65536", "\"memory_kib\": 4000000000"), "no file"),
        (text[..text.len() / 2].to_owned(), "no file"),
        (String::new(), "no file"),
    ];
    for (spoilt, expected) in spoilt {
        let error = there.import(spoilt.as_bytes(), IfThere::Keep).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(!there.accounts().exists());
}

#[test]
fn no_name_in_the_file_leads_out_of_the_store() {
    let there = Home::new();
    for account in ["claude/../../x", "claude", "nobody/a", "claude/", "/a", "claude/a/b"] {
        assert_eq!(place(account, &there.accounts()), None, "{account}");
    }
    assert_eq!(place("codex/a-1", &there.accounts()), Some(there.accounts().join("codex/a-1.json")));
}

#[test]
fn a_secret_that_does_not_open_stops_it_and_a_short_passphrase_is_none() {
    let home = Home::new().with("a");
    assert!(matches!(export(&[home.file("a")], &home.sealer(), "short"), Err(ExportError::Passphrase)));
    std::fs::write(home.0.path().join("key"), [7; 32]).unwrap();
    let error = export(&[home.file("a")], &home.sealer(), PASSPHRASE).unwrap_err();
    assert!(matches!(error, ExportError::Source(SourceError::Sealed { .. })), "{error}");
}
