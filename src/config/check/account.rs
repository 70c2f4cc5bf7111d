//! One account: its name, its one source of secret, its limits.

use duduclaw_actors::id::Family;
use duduclaw_actors::roster::{Switch, WindowCaps, WindowLimits};

use super::Checker;
use super::forms::{Draft, DraftAccount, Written};
use crate::config::document::{At, Mark};
use crate::config::problem::shown;
use crate::config::raw::RawAccount;
use crate::config::secret::{SecretSource, store_file};
use crate::config::settings::{AccountDefaults, AccountEntry, AuthMode};
use crate::config::surroundings::expand;

/// Lower is preferred.
pub(super) const DEFAULT_PRIORITY: u32 = 100;

const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// Whether a name can be an account's: small letters, digits and hyphens, so that it can be a file's name anywhere.
fn is_account_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl Checker<'_> {
    pub(super) fn account(
        &mut self,
        draft: &Draft<'_>,
        written: &DraftAccount<'_>,
        auth: AuthMode,
        family: Family,
        defaults: &AccountDefaults,
    ) -> Option<AccountEntry> {
        let name = self.account_name(draft, written)?;
        let empty = RawAccount::default();
        let raw = match &written.written {
            Written::Name(_) => &empty,
            Written::Table(raw) => raw,
        };
        let whose = format!("account {name:?} of {}", draft.label);
        let source = self.source(&whose, written.mark, raw, &name, auth, family)?;
        let budget = self.account_cap(&whose, raw, &source);
        Some(AccountEntry {
            source,
            uuid: self.uuid(&whose, raw),
            priority: raw.priority.as_deref().copied().unwrap_or(DEFAULT_PRIORITY),
            switch: if raw.disabled.as_deref().copied().unwrap_or(false) { Switch::Off } else { Switch::On },
            thresholds: self.thresholds(&whose, raw, defaults),
            caps: self.caps(&whose, raw, defaults),
            budget,
            place: self.document.place(written.mark),
            name: name.into(),
        })
    }

    fn account_name(&mut self, draft: &Draft<'_>, written: &DraftAccount<'_>) -> Option<String> {
        let Some(name) = written.written.name() else {
            self.missing(written.mark, format!("an account of {} has no name", draft.label));
            return None;
        };
        if is_account_name(name) && !name.starts_with("sk-") {
            return Some(name.to_owned());
        }
        let text = format!("account name {} of {} may hold", shown(name), draft.label);
        self.error(written.mark, format!("{text} only small letters a–z, digits and hyphens"));
        None
    }

    fn source(
        &mut self,
        whose: &str,
        mark: Mark,
        raw: &RawAccount,
        name: &str,
        auth: AuthMode,
        family: Family,
    ) -> Option<SecretSource> {
        let keychain = raw.keychain.as_ref().filter(|keychain| keychain.value);
        let given: Vec<&str> = [
            ("credentials", raw.credentials.is_some()),
            ("token_env", raw.token_env.is_some()),
            ("api_key_env", raw.api_key_env.is_some()),
            ("keychain", keychain.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
        .collect();
        if given.len() > 1 {
            let text = "an account has one source, or none for the store's file of its name";
            self.error(mark, format!("{whose} has {}; {text}", given.join(" and ")));
            return None;
        }
        self.stray_config_dir(whose, raw);
        self.source_fits(whose, mark, given.first().copied(), auth);
        if let Some(path) = &raw.credentials {
            return Some(SecretSource::CredentialsFile(expand(path, self.surroundings)));
        }
        if let Some(keychain) = keychain {
            self.not_built(keychain.mark, &format!("{whose}: keychain logins, which serve jobs only"));
            let config_dir = raw.config_dir.as_ref().map(|dir| expand(dir, self.surroundings));
            return Some(SecretSource::Keychain { config_dir });
        }
        if raw.token_env.is_some() {
            return self.variable("token_env", raw.token_env.as_ref()).map(SecretSource::TokenEnv);
        }
        if raw.api_key_env.is_some() {
            return self.variable("api_key_env", raw.api_key_env.as_ref()).map(SecretSource::ApiKeyEnv);
        }
        Some(SecretSource::StoreFile(store_file(&self.accounts_dir, family, name)))
    }

    fn stray_config_dir(&mut self, whose: &str, raw: &RawAccount) {
        if let (Some(dir), None) = (&raw.config_dir, raw.keychain.as_ref().filter(|keychain| keychain.value)) {
            self.error(dir.mark, format!("{whose} has config_dir, which goes with keychain = true only"));
        }
    }

    fn source_fits(&mut self, whose: &str, mark: Mark, key: Option<&str>, auth: AuthMode) {
        let login = matches!(key, Some("credentials" | "token_env" | "keychain"));
        if auth == AuthMode::ApiKey && login {
            let key = key.unwrap_or_default();
            let text = format!("{whose} has {key}, a login, but auth = \"api_key\"");
            self.error(mark, format!("{text}; set auth = \"claude_oauth\", which takes keys too, or use api_key_env"));
        }
    }

    /// Blank is the same as none.
    fn uuid(&mut self, whose: &str, raw: &RawAccount) -> Option<String> {
        let uuid = raw.uuid.as_ref().filter(|uuid| !uuid.trim().is_empty())?;
        if uuid.trim() == NO_UUID {
            self.warn(
                uuid.mark,
                format!("uuid of {whose} is all zeros, a placeholder; give the real one or remove it"),
            );
        }
        Some(uuid.trim().to_owned())
    }

    /// The window's own, the account's, the pool's for the window (which already falls back): never above the hard one.
    fn thresholds(&mut self, whose: &str, raw: &RawAccount, defaults: &AccountDefaults) -> WindowLimits {
        let hard = defaults.hard_threshold;
        let all = self.fraction(&format!("threshold of {whose}"), raw.threshold.as_ref());
        let mut resolved = |key: &str, own: Option<&At<f64>>, pool: f64| {
            let own = self.fraction(&format!("{key} of {whose}"), own);
            own.or(all).unwrap_or(pool).min(hard)
        };
        WindowLimits {
            five_hour: resolved("threshold_5h", raw.threshold_5h.as_ref(), defaults.thresholds.five_hour),
            weekly: resolved("threshold_7d", raw.threshold_7d.as_ref(), defaults.thresholds.weekly),
            fable: resolved("threshold_fable", raw.threshold_fable.as_ref(), defaults.thresholds.fable),
        }
    }

    fn caps(&mut self, whose: &str, raw: &RawAccount, defaults: &AccountDefaults) -> WindowCaps {
        let all = self.fraction(&format!("max_utilization of {whose}"), raw.max_utilization.as_ref());
        let mut resolved = |key: &str, own: Option<&At<f64>>, pool: Option<f64>| {
            self.fraction(&format!("{key} of {whose}"), own).or(all).or(pool)
        };
        WindowCaps {
            five_hour: resolved("max_utilization_5h", raw.max_utilization_5h.as_ref(), defaults.caps.five_hour),
            weekly: resolved("max_utilization_7d", raw.max_utilization_7d.as_ref(), defaults.caps.weekly),
            fable: resolved("max_utilization_fable", raw.max_utilization_fable.as_ref(), defaults.caps.fable),
        }
    }
}
