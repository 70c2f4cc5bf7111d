//! No secret outside the store: not in what programs say, not in any file of the home.

use std::path::{Path, PathBuf};

use duduclaw::sim::SimHandle;

use crate::binary::Setting;
use crate::support::login;

/// What the simulator's secrets begin with, whoever they are of.
const MARKS: [&str; 6] = ["sk-ant-", "rt-sim-", "eyJhbGciOiJub25lIn0.", "code-sim-", "verifier-device", "CANARY"];

/// Nothing that was said, and no file but the files of the test itself, holds a secret.
pub fn assert_clean(setting: &Setting, said: &[String]) {
    for text in said {
        let found = MARKS.iter().find(|mark| text.contains(**mark));
        assert!(found.is_none(), "{found:?} in {text}");
    }
    for path in files(setting.home.path()) {
        if is_the_tests(&setting.sim, setting.home.path(), &path) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = MARKS.iter().find(|mark| memchr::memmem::find(&bytes, mark.as_bytes()).is_some());
        assert!(found.is_none(), "{found:?} in {}", path.display());
    }
}

/// The logins that the test wrote by itself.
fn is_the_tests(_: &SimHandle, home: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(home).unwrap_or(path);
    let is_plain = below.components().count() == 1 && below.extension().is_some_and(|ending| ending == "json");
    is_plain
        || below.starts_with(".claude")
        || below.starts_with("foreign")
        || below.starts_with("Library/Keychains/items")
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// The sweep itself notices what it is there for.
#[tokio::test]
async fn a_sweep_notices_a_secret() {
    let setting = super::setting(&["first"]).await;
    assert_clean(&setting, &[]);
    std::fs::write(setting.home.path().join("stray.txt"), login(&setting.sim, "first").to_string()).unwrap();
    let swept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_clean(&setting, &[])));
    assert!(swept.is_err());
}
