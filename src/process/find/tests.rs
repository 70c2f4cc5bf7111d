//! Tests with programs in folders of their own.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::config::surroundings::fake::Fake;

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
        std::fs::write(&path, "#!/bin/sh\n").expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
        path
    }

    fn search(&self, folders: &[&str]) -> Result<Found, FindError> {
        search(Tool::Claude, folders.iter().map(|name| self.path(name)).collect())
    }
}

#[test]
fn the_first_program_in_order_is_taken_and_the_others_are_told() {
    let machine = Machine::new();
    let (one, two) = (machine.program("one/claude", 0o755), machine.program("two/claude", 0o755));
    let found = machine.search(&["none", "one", "two"]).expect("two are there");
    assert_eq!(found, Found { path: one, others: vec![two] });
}

#[test]
fn only_regular_executable_files_count_and_links_are_followed() {
    let machine = Machine::new();
    machine.program("plain/claude", 0o644);
    std::fs::create_dir_all(machine.path("folder/claude")).expect("writable");
    for folder in ["circle", "dangling", "link", "again"] {
        std::fs::create_dir_all(machine.path(folder)).expect("writable");
    }
    symlink(machine.path("circle/claude"), machine.path("circle/claude")).expect("writable");
    symlink(machine.path("nothing"), machine.path("dangling/claude")).expect("writable");
    let genuine = machine.program("store/cli.js", 0o755);
    symlink(&genuine, machine.path("link/claude")).expect("writable");
    symlink(&genuine, machine.path("again/claude")).expect("writable");
    let found = machine.search(&["plain", "folder", "circle", "dangling", "link", "again"]).expect("one is there");
    assert_eq!(found, Found { path: machine.path("link/claude"), others: Vec::new() }, "one program, two links");
}

#[test]
fn a_link_to_ourselves_is_no_program() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("shim")).expect("writable");
    symlink(std::env::current_exe().expect("it runs"), machine.path("shim/claude")).expect("writable");
    assert!(matches!(machine.search(&["shim"]), Err(FindError::Nowhere { .. })));
    assert_eq!(flaw(&machine.path("shim/claude")), Some(Flaw::Ourselves));
}

#[test]
fn what_was_named_is_taken_or_nothing_is() {
    let machine = Machine::new();
    let (good, other) = (machine.program("a/my-claude", 0o755), machine.program("b/claude", 0o755));
    let bare = Fake::default().with_var("PATH", other.parent().expect("a folder").as_os_str());
    let variable = bare.clone().with_var("DUDUCLAW_CLAUDE_PATH", good.as_os_str());
    let found = |surroundings: &Fake, configured: Option<&Path>| find(Tool::Claude, configured, surroundings);
    assert_eq!(found(&variable, Some(&other)).expect("the variable wins").path, good);
    assert_eq!(found(&bare, Some(&good)).expect("the setting wins over PATH").path, good);
    assert_eq!(found(&bare, None).expect("PATH").path, other);
    let wrong = bare.with_var("DUDUCLAW_CLAUDE_PATH", "/nowhere/claude");
    let error = found(&wrong, None).expect_err("no other is taken instead").to_string();
    assert!(error.contains("$DUDUCLAW_CLAUDE_PATH") && error.contains("/nowhere/claude"), "{error}");
    assert!(error.contains("is not there"), "{error}");
}

#[test]
fn a_missing_program_is_told_with_all_places_and_what_to_do() {
    let machine = Machine::new();
    let error = machine.search(&["one", "two"]).expect_err("there is none").to_string();
    let root = machine.folder.path().display().to_string();
    insta::assert_snapshot!(error.replace(&root, "(root)"), @r"
    no program `claude` was found; install it (`npm install -g @anthropic-ai/claude-code`), or set DUDUCLAW_CLAUDE_PATH to its path
    searched:
      (root)/one
      (root)/two
    ");
}

#[test]
fn a_script_finds_the_node_that_was_installed_beside_it() {
    let machine = Machine::new();
    let tool = machine.program("nvm/bin/claude", 0o755);
    assert_eq!(path_for(&tool, OsStr::new("/usr/bin")), "/usr/bin", "no node is there");
    machine.program("nvm/bin/node", 0o755);
    let own = machine.path("nvm/bin").display().to_string();
    assert_eq!(path_for(&tool, OsStr::new("/usr/bin")), *format!("{own}:/usr/bin"));
    let known = format!("/bin:{own}");
    assert_eq!(path_for(&tool, OsStr::new(&known)), *known);
}
