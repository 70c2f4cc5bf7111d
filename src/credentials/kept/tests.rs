use super::*;
use crate::credentials::keychain::fake::FakeKeychain;

struct Machine {
    home: tempfile::TempDir,
    fake: FakeKeychain,
}

impl Machine {
    fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a folder for the test"), fake: FakeKeychain::new() }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join(".credentials.json")
    }

    fn item(&self) -> Item {
        items(self.home.path()).pop().expect("a name that can be said")
    }

    fn keep(&self, text: &str) {
        self.fake.keychain.write(&self.item(), text.as_bytes()).expect("kept");
    }

    fn read(&self) -> Result<(String, Place), SourceError> {
        let kept = read_beside(&self.path(), Some(&self.fake.keychain))?;
        Ok((String::from_utf8(kept.bytes.to_vec()).expect("text"), kept.place))
    }

    fn is_as_seen(&self, seen: &[Seen]) -> bool {
        seen.iter().all(|(path, stamp)| FileStamp::at(path) == *stamp)
    }
}

#[test]
fn claude_codes_login_is_in_the_keychain_before_it_is_in_its_file() {
    let machine = Machine::new();
    assert!(matches!(machine.read(), Err(SourceError::Missing { .. })));
    std::fs::write(machine.path(), "{\"in\":\"file\"}").unwrap();
    assert_eq!(machine.read().unwrap(), ("{\"in\":\"file\"}".to_owned(), Place::File));
    machine.keep("{\"in\":\"item\"}");
    assert_eq!(machine.read().unwrap(), ("{\"in\":\"item\"}".to_owned(), Place::Item(machine.item())));
}

#[test]
fn a_locked_keychain_leaves_the_file_and_is_told_where_there_is_none() {
    let machine = Machine::new();
    machine.keep("{}");
    std::fs::write(machine.fake.file("locked"), "").unwrap();
    std::fs::remove_file(machine.fake.file("login.keychain-db")).unwrap();
    let error = machine.read().unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    std::fs::write(machine.path(), "{}").unwrap();
    assert_eq!(machine.read().unwrap().1, Place::File);
}

#[test]
fn what_is_replaced_in_the_keychain_leaves_the_file_alone() {
    let machine = Machine::new();
    std::fs::write(machine.path(), "{\"in\":\"file\"}").unwrap();
    machine.keep("{\"in\":\"item\"}");
    let place = machine.read().unwrap().1;
    let seen = replace_beside(&machine.path(), &place, b"{\"new\":1}", Some(&machine.fake.keychain)).unwrap();
    assert_eq!(machine.read().unwrap().0, "{\"new\":1}");
    assert_eq!(std::fs::read_to_string(machine.path()).unwrap(), "{\"in\":\"file\"}");
    assert!(!seen.is_empty() && machine.is_as_seen(&seen));
}

#[test]
fn a_change_of_either_place_is_seen() {
    let machine = Machine::new();
    std::fs::write(machine.path(), "{}").unwrap();
    let seen = read_beside(&machine.path(), Some(&machine.fake.keychain)).unwrap().seen;
    assert!(machine.is_as_seen(&seen));
    machine.keep("{}");
    assert!(!machine.is_as_seen(&seen), "logged in there");
    let seen = read_beside(&machine.path(), Some(&machine.fake.keychain)).unwrap().seen;
    assert!(machine.is_as_seen(&seen));
    machine.fake.keychain.remove(&machine.item()).unwrap();
    assert!(!machine.is_as_seen(&seen), "logged out there");
}

#[test]
fn other_files_are_never_looked_for_in_the_keychain() {
    let machine = Machine::new();
    let path = machine.home.path().join("work.json");
    std::fs::write(&path, "{}").unwrap();
    assert_eq!(read_beside(&path, Some(&machine.fake.keychain)).unwrap().place, Place::File);
    assert_eq!(machine.fake.calls(), "");
}

/// The names are Claude Code's: of a chosen folder the first digits of a hash of its path.
#[test]
fn items_are_called_as_claude_code_calls_them() {
    assert_eq!(service_of_chosen("/Users/me/.claude-work"), "Claude Code-credentials-1e91dd84");
    let home = directories::BaseDirs::new().unwrap().home_dir().to_owned();
    let services: Vec<_> = items(&home.join(".claude")).iter().map(|item| item.service().to_owned()).collect();
    assert_eq!(services.first().map(String::as_str), Some("Claude Code-credentials"));
    assert_eq!(services.len(), 2);
    let account = |names: [&str; 2]| account(&names.map(str::to_owned));
    assert_eq!(account(["me", "other"]), "me");
    assert_eq!(account(["", "other"]), "other");
    assert_eq!(account(["Zoë Müller", ""]), "claude-code-user");
    assert_eq!(account(["", ""]), "claude-code-user");
}

#[test]
fn an_item_that_could_not_be_written_again_says_so_before_anything_is_spent() {
    let item = Place::Item(Machine::new().item());
    assert_eq!((item.room(1_000), item.room(4_000)), (Room::Enough, Room::TooLittle));
    assert_eq!(Place::File.room(1_000_000), Room::Enough);
}
