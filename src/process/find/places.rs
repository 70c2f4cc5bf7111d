//! Where installers put command line tools.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use crate::config::surroundings::{Surroundings, expand};

/// The usual places, in the order in which they are looked at.
pub(super) fn usual(machine: &dyn Surroundings) -> Vec<PathBuf> {
    let home = |rest: &str| machine.user_home().map(|home| home.join(rest));
    let of = |variable: &str| machine.text_var(variable).map(|text| expand(text.trim(), machine));
    let below = |root: Option<PathBuf>, rest: &str| root.map(|root| root.join(rest));
    let fixed = |path: &str| Some(PathBuf::from(path));
    let mut places = vec![
        fixed("/opt/homebrew/bin"),
        fixed("/usr/local/bin"),
        fixed("/home/linuxbrew/.linuxbrew/bin"),
        below(of("BUN_INSTALL").or_else(|| home(".bun")), "bin"),
        below(of("VOLTA_HOME").or_else(|| home(".volta")), "bin"),
        home(".npm-global/bin"),
        below(npm_prefix(machine), "bin"),
        home(".claude/bin"),
        home(".claude/local"),
        home(".local/bin"),
        below(of("ASDF_DATA_DIR").or_else(|| home(".asdf")), "shims"),
        below(of("MISE_DATA_DIR").or_else(|| home(".local/share/mise")), "shims"),
        of("PNPM_HOME"),
        home(".local/share/pnpm"),
        home("Library/pnpm"),
        below(of("FNM_DIR").or_else(|| home(".local/share/fnm")), "aliases/default/bin"),
        below(of("NODENV_ROOT").or_else(|| home(".nodenv")), "shims"),
    ];
    let nvm = of("NVM_DIR").or_else(|| home(".nvm"));
    places.extend(nvm.iter().flat_map(|root| nvm_versions(root)).map(Some));
    places.extend([fixed("/usr/bin"), fixed("/snap/bin")]);
    places.into_iter().flatten().collect()
}

/// The prefix that npm is configured with, by its variable or the user's `.npmrc`.
fn npm_prefix(machine: &dyn Surroundings) -> Option<PathBuf> {
    let variable = machine.text_var("npm_config_prefix").or_else(|| machine.text_var("NPM_CONFIG_PREFIX"));
    let text = variable.or_else(|| {
        let file = machine.read(&machine.user_home()?.join(".npmrc")).ok()?;
        prefix_in(&String::from_utf8_lossy(&file))
    })?;
    let home = machine.user_home().unwrap_or_default();
    Some(expand(&text.trim().replace("${HOME}", &home.display().to_string()), machine))
}

fn prefix_in(npmrc: &str) -> Option<String> {
    let pairs = npmrc.lines().filter_map(|line| line.split_once('='));
    let value = pairs.filter(|(key, _)| key.trim() == "prefix").map(|(_, value)| value.trim()).next_back()?;
    let value = value.trim_matches(|c| c == '"' || c == '\'');
    (!value.is_empty()).then(|| value.to_owned())
}

/// The `bin` folders of nvm's Node versions, newest first.
fn nvm_versions(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("versions/node")).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u64>, PathBuf)> =
        entries.filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path().join("bin")))).collect();
    versions.sort_by_key(|(version, _)| Reverse(version.clone()));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn version(name: &str) -> Option<Vec<u64>> {
    name.strip_prefix('v')?.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::surroundings::fake::Fake;

    #[test]
    fn the_newest_node_of_nvm_comes_first_by_number_and_not_by_letter() {
        let root = tempfile::tempdir().expect("a folder");
        for name in ["v9.11.2", "v22.3.0", "v22.10.0", "system", "v18.x"] {
            std::fs::create_dir_all(root.path().join("versions/node").join(name)).expect("writable");
        }
        let found = nvm_versions(root.path());
        let names: Vec<&str> = found.iter().filter_map(|path| path.parent()?.file_name()?.to_str()).collect();
        assert_eq!(names, ["v22.10.0", "v22.3.0", "v9.11.2"]);
        let machine = Fake::default().with_var("NVM_DIR", root.path().as_os_str());
        assert!(usual(&machine).contains(&root.path().join("versions/node/v22.10.0/bin")));
    }

    #[test]
    fn the_prefix_of_npm_is_a_place() {
        let npmrc = "registry=https://example.org\n prefix = \"${HOME}/.packages\"\n";
        let machine = Fake::default().with_file("/home/me/.npmrc", npmrc);
        assert!(usual(&machine).contains(&PathBuf::from("/home/me/.packages/bin")));
        let machine = machine.with_var("NPM_CONFIG_PREFIX", "/opt/npm");
        assert!(usual(&machine).contains(&PathBuf::from("/opt/npm/bin")));
    }

    #[test]
    fn installers_are_looked_at_before_the_system_and_homebrew_first() {
        let places = usual(&Fake::default());
        let at = |path: &str| places.iter().position(|place| place == Path::new(path)).expect("a usual place");
        let order = [
            "/opt/homebrew/bin",
            "/usr/local/bin",
            "/home/linuxbrew/.linuxbrew/bin",
            "/home/me/.bun/bin",
            "/home/me/.volta/bin",
            "/home/me/.npm-global/bin",
            "/home/me/.claude/bin",
            "/home/me/.claude/local",
            "/home/me/.local/bin",
            "/home/me/.asdf/shims",
            "/home/me/.local/share/mise/shims",
            "/home/me/.local/share/pnpm",
            "/home/me/.local/share/fnm/aliases/default/bin",
            "/home/me/.nodenv/shims",
            "/usr/bin",
            "/snap/bin",
        ];
        assert!(order.map(at).is_sorted(), "{places:?}");
    }
}
