//! Where the home directory and the configuration file are.

use std::path::{Path, PathBuf};

use super::surroundings::{Surroundings, expand};

const HOME_VARIABLE: &str = "DUDUCLAW_HOME";
const CONFIG_VARIABLE: &str = "DUDUCLAW_CONFIG";

/// What the command line named.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// `--home`.
    pub home: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This file. One that was named must be there.
    File(PathBuf),
    /// No file: what is found on the machine.
    BuiltIn,
}

/// The home directory: `--home`, `$DUDUCLAW_HOME`, `~/.duduclaw`; none when the user has no home directory either.
#[must_use]
pub fn home(named: &Named, surroundings: &dyn Surroundings) -> Option<PathBuf> {
    let variable = || surroundings.text_var(HOME_VARIABLE).map(|path| expand(path.trim(), surroundings));
    let default = || surroundings.user_home().map(|home| home.join(".duduclaw"));
    named.home.clone().or_else(variable).or_else(default)
}

/// The configuration file: `--config`, `$DUDUCLAW_CONFIG`, then `<home>/config.toml` if it is there.
#[must_use]
pub fn source(named: &Named, home: &Path, surroundings: &dyn Surroundings) -> Source {
    let variable = || surroundings.text_var(CONFIG_VARIABLE).map(|path| expand(path.trim(), surroundings));
    if let Some(path) = named.config.clone().or_else(variable) {
        return Source::File(path);
    }
    let usual = home.join("config.toml");
    match surroundings.read(&usual) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Source::BuiltIn,
        Ok(_) | Err(_) => Source::File(usual),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::surroundings::fake::Fake;

    #[test]
    fn the_command_line_wins_over_the_variable_over_the_usual_place() {
        let machine = Fake::default().with_var("DUDUCLAW_HOME", "~/v").with_var("DUDUCLAW_CONFIG", "/v.toml");
        let named = Named { home: Some("/n".into()), config: Some("/n.toml".into()) };
        assert_eq!(home(&named, &machine), Some("/n".into()));
        assert_eq!(source(&named, Path::new("/n"), &machine), Source::File("/n.toml".into()));
        assert_eq!(home(&Named::default(), &machine), Some("/home/me/v".into()));
        assert_eq!(source(&Named::default(), Path::new("/n"), &machine), Source::File("/v.toml".into()));
        let plain = Fake::default().with_var("DUDUCLAW_HOME", " ");
        assert_eq!(home(&Named::default(), &plain), Some("/home/me/.duduclaw".into()));
    }

    #[test]
    fn the_usual_file_counts_only_if_it_is_there_and_one_that_cannot_be_read_is_there() {
        let of = |machine: Fake| source(&Named::default(), Path::new("/h"), &machine);
        assert_eq!(of(Fake::default()), Source::BuiltIn);
        assert_eq!(of(Fake::default().with_file("/h/config.toml", "")), Source::File("/h/config.toml".into()));
        let locked = Fake::default().with_failing_file("/h/config.toml", std::io::ErrorKind::PermissionDenied);
        assert_eq!(of(locked), Source::File("/h/config.toml".into()));
    }
}
