//! A keychain of a test, in a folder of its own.

use std::path::PathBuf;

use super::Keychain;

pub(crate) struct FakeKeychain {
    folder: tempfile::TempDir,
    pub(crate) keychain: Keychain,
}

impl FakeKeychain {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let program = folder.path().join("security");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/security.sh");
        // A link, not a copy: a program that another thread has open for writing while a process begins cannot be run.
        std::os::unix::fs::symlink(source, &program).expect("linked");
        let keychain = Keychain::asked_through(program, Some(folder.path().join("login.keychain-db")));
        Self { folder, keychain }
    }

    /// A file beside the program.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The arguments of all calls so far.
    pub(crate) fn calls(&self) -> String {
        std::fs::read_to_string(self.file("calls")).unwrap_or_default()
    }
}
