//! The store, the log, and the tables of parts that are not built yet: those are validated, and left aside with a warning.

use std::path::{Path, PathBuf};

use tracing_subscriber::EnvFilter;

use super::Checker;
use crate::config::document::{At, Mark};
use crate::config::problem::shown;
use crate::config::raw::{Raw, RawDispatch, RawLocalModel, RawLog, RawRouter, RawSecrets, RawStore};
use crate::config::settings::{LogFormat, LogSettings, SecretsSettings, StoreSettings, StoreUrl};
use crate::config::surroundings::{Surroundings, expand};
use crate::credentials::Sealing;

/// Names another folder for the account store, whatever the file says.
const ACCOUNTS_DIR_VARIABLE: &str = "DUDUCLAW_ACCOUNTS_DIR";

const RUNTIMES: &[&str] = &[CLAUDE, "codex", "gemini"];
const CLAUDE: &str = "claude";

/// The account store's folder.
pub(super) fn accounts_dir(raw: Option<&RawSecrets>, home: &Path, surroundings: &dyn Surroundings) -> PathBuf {
    let written = raw.and_then(|raw| raw.accounts_dir.as_deref().cloned());
    let named = surroundings.text_var(ACCOUNTS_DIR_VARIABLE).or(written);
    named.map_or_else(|| home.join("accounts"), |path| expand(path.trim(), surroundings))
}

impl Checker<'_> {
    pub(super) fn store(&mut self, raw: Option<&RawStore>) -> StoreSettings {
        let url = raw.and_then(|raw| raw.url.as_ref()).map_or(StoreUrl::Sqlite, |url| self.store_url(url));
        let retention_days = raw.and_then(|raw| raw.retention_days.as_ref());
        if let Some(zero) = retention_days.filter(|days| days.value == 0) {
            self.error(zero.mark, "store.retention_days must be at least 1");
        }
        StoreSettings { url, retention_days: retention_days.map_or(90, |days| days.value) }
    }

    fn store_url(&mut self, url: &At<String>) -> StoreUrl {
        let scheme = url.trim().split_once("://").map(|(scheme, _)| scheme);
        match (url.trim(), scheme) {
            ("sqlite", _) => StoreUrl::Sqlite,
            (postgres, Some("postgres" | "postgresql")) => {
                self.not_built(url.mark, "store.url = \"postgres://…\"; state is kept in the home's state.db");
                StoreUrl::Postgres(postgres.to_owned())
            }
            _ => {
                self.error(url.mark, "store.url must be \"sqlite\" or begin with postgres://");
                StoreUrl::Sqlite
            }
        }
    }

    pub(super) fn log(&mut self, raw: Option<&RawLog>) -> LogSettings {
        let level = raw.and_then(|raw| raw.level.as_ref());
        if let Some(bad) = level.filter(|level| EnvFilter::try_new(level.as_str()).is_err()) {
            let text = "is no level; trace, debug, info, warn, error, or e.g. \"duduclaw=debug,hyper=warn\"";
            self.error(bad.mark, format!("log.level {} {text}", shown(bad)));
        }
        if let Some(format) = raw.and_then(|raw| raw.format.as_ref()).filter(|f| ***f == LogFormat::Journald) {
            self.not_built(format.mark, "log.format = \"journald\"; lines go to standard error, which journald takes");
        }
        LogSettings {
            level: level.map_or_else(|| "info".to_owned(), |level| level.value.clone()),
            format: raw.and_then(|raw| raw.format.as_deref().copied()).unwrap_or(LogFormat::Auto),
        }
    }

    /// Validates what no part uses yet, and warns once for each table or key in use.
    pub(super) fn unbuilt(&mut self, raw: &Raw) {
        self.unbuilt_server(raw);
        if let Some(router) = &raw.router {
            self.router(router);
        }
        if let Some(dispatch) = &raw.dispatch {
            self.dispatch(dispatch);
        }
        self.runtimes(raw);
    }

    fn unbuilt_server(&mut self, raw: &Raw) {
        let Some(server) = raw.server.as_deref() else { return };
        if let Some(ttl) = server.admin.as_deref().and_then(|admin| admin.session_ttl_seconds.as_ref()) {
            self.not_built(ttl.mark, "server.admin.session_ttl_seconds, since there are no browser sessions");
        }
    }

    fn router(&mut self, router: &At<RawRouter>) {
        self.not_built(router.mark, "[router]");
        let high = self.fraction("router.high", router.high.as_ref()).unwrap_or(0.7);
        let low = self.fraction("router.low", router.low.as_ref()).unwrap_or(0.35);
        if low > high {
            self.error(router.mark, format!("router.low ({low}) must not be above router.high ({high})"));
        }
        for (key, local) in [("local_fast", &router.local_fast), ("local_strong", &router.local_strong)] {
            if let Some(local) = local {
                self.local_model(&format!("router.{key}"), local);
            }
        }
    }

    fn local_model(&mut self, key: &str, local: &At<RawLocalModel>) {
        let (Some(provider), Some(_)) = (&local.provider, &local.model) else {
            return self.missing(local.mark, format!("{key} needs provider and model"));
        };
        self.must_be_declared(key, provider);
    }

    /// Whether stored secrets are sealed, and with which key.
    pub(super) fn secrets(&mut self, raw: &Raw) -> SecretsSettings {
        let secrets = raw.secrets.as_deref();
        let seal = secrets.and_then(|secrets| secrets.seal.as_ref()).is_none_or(|seal| seal.value);
        let written = secrets.and_then(|secrets| secrets.key_file.as_ref());
        let key_file = written.map(|path| expand(path.trim(), self.surroundings));
        if let (Some(written), Some(path)) = (written, &key_file)
            && !path.is_absolute()
        {
            self.error(written.mark, "secrets.key_file must be an absolute path");
        }
        SecretsSettings { sealing: if seal { Sealing::On } else { Sealing::Off }, key_file }
    }

    fn dispatch(&mut self, dispatch: &At<RawDispatch>) {
        self.not_built(dispatch.mark, "[dispatch]");
        if let Some(zero) = dispatch.max_parallel.as_ref().filter(|parallel| parallel.value == 0) {
            self.error(zero.mark, "dispatch.max_parallel must be at least 1");
        }
        if let Some(zero) = dispatch.timeout.as_ref().filter(|timeout| timeout.0.is_zero()) {
            self.error(zero.mark, "dispatch.timeout must be longer than nothing; the default is \"30m\"");
        }
        if let Some(names) = &dispatch.pass_env {
            for name in &names.value {
                self.variable("dispatch.pass_env", Some(&At { value: name.clone(), mark: names.mark }));
            }
        }
    }

    fn runtimes(&mut self, raw: &Raw) {
        let Some(runtimes) = &raw.runtimes else { return };
        for (name, runtime) in &runtimes.0 {
            if RUNTIMES.contains(&name.as_str()) {
                self.not_yet_run(name, runtime.mark);
            } else {
                self.error(runtime.mark, format!("[runtimes.{name}] is none of {}", RUNTIMES.join(", ")));
            }
            if let Some(path) = runtime.path.as_ref().filter(|path| !expand(path, self.surroundings).is_absolute()) {
                self.error(path.mark, format!("path of [runtimes.{name}] must be absolute"));
            }
        }
    }

    /// Claude Code is run by `duduclaw claude`; the others wait for jobs.
    fn not_yet_run(&mut self, name: &str, mark: Mark) {
        if name != CLAUDE {
            self.not_built(mark, &format!("[runtimes.{name}]"));
        }
    }

    /// `[runtimes.claude] path`; one that is not absolute was told already.
    pub(super) fn claude_path(&self, raw: &Raw) -> Option<PathBuf> {
        let runtimes = raw.runtimes.as_deref()?;
        let (_, runtime) = runtimes.0.iter().find(|(name, _)| name == CLAUDE)?;
        let path = expand(runtime.path.as_ref()?, self.surroundings);
        path.is_absolute().then_some(path)
    }
}
