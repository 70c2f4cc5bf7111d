//! One failover unit: where it is, whose credential it takes, and which accounts it has.

use duduclaw_actors::id::Family;
use duduclaw_actors::roster::{Cap, Strategy, Switch};
use reqwest::Url;

use super::Checker;
use super::forms::{Draft, Written};
use super::server::bound;
use crate::config::document::{At, Mark};
use crate::config::origin::{BaseUrl, is_loopback, may_carry, speaks};
use crate::config::problem::{Place, Problem, Severity, shown};
use crate::config::secret::SecretSource;
use crate::config::settings::{AccountDefaults, AccountEntry, AuthMode, Protocol, Scope, Unit};

/// The name of the account that stands for a provider without a list of accounts.
pub(super) const SOLE_ACCOUNT: &str = "default";

impl Checker<'_> {
    pub(super) fn unit(
        &mut self,
        draft: &Draft<'_>,
        defaults: &AccountDefaults,
        global: Option<Strategy>,
    ) -> Option<Unit> {
        let protocol = self.protocol(draft);
        let auth = self.auth(draft);
        let base_url = self.base_url(draft);
        if let (Some(protocol), Some(base_url)) = (protocol, &base_url) {
            self.direction(draft, protocol, auth, base_url);
        }
        let protocol = protocol?;
        let family = family(protocol, draft.local);
        if draft.local && auth.is_login() {
            let text = format!("{} is local, but auth = {:?} is a login with a provider", draft.label, auth.as_str());
            self.error(draft.mark, format!("{text}; remove local, or set auth = \"none\" or \"api_key\""));
        }
        self.unbuilt_unit(draft, protocol, auth);
        let scope = self.scope(draft, auth, family, defaults);
        let login = if auth.is_login() { Login::Of(family) } else { Login::None };
        let token_url = self.token_url(draft, "token_url", draft.token_url, login);
        let authorize_url = self.token_url(draft, "authorize_url", draft.authorize_url, login);
        let user_agent = self.user_agent(draft);
        Some(Unit {
            name: draft.name.as_str().into(),
            provider: draft.provider.as_str().into(),
            protocol,
            family,
            base_url: base_url?,
            auth,
            strategy: draft.strategy.or(global),
            token_url,
            authorize_url,
            user_agent,
            max_concurrent: draft.max_concurrent.and_then(bound),
            scope,
            place: self.document.place(draft.mark),
        })
    }

    fn protocol(&mut self, draft: &Draft<'_>) -> Option<Protocol> {
        let protocol = draft.kind.as_deref().copied().or(draft.preset.map(|preset| preset.kind));
        if protocol.is_none() {
            self.missing(draft.mark, format!("{} has no kind; one of anthropic, responses, chat, gemini", draft.label));
        }
        protocol
    }

    fn auth(&mut self, draft: &Draft<'_>) -> AuthMode {
        if let Some(auth) = &draft.auth {
            return auth.value;
        }
        if draft.api_key_env.is_some() {
            return AuthMode::ApiKey;
        }
        if !draft.accounts.is_empty() {
            self.missing(draft.mark, format!("{} has accounts but no auth; e.g. auth = \"claude_oauth\"", draft.label));
            return AuthMode::ClaudeOauth;
        }
        draft.preset.map_or(AuthMode::Passthrough, |preset| preset.auth)
    }

    fn base_url(&mut self, draft: &Draft<'_>) -> Option<BaseUrl> {
        let Some(written) = draft.base_url else {
            let preset = draft.preset.filter(|preset| draft.kind.as_deref().is_none_or(|kind| *kind == preset.kind));
            if preset.is_none() {
                self.missing(draft.mark, format!("{} has no base_url", draft.label));
            }
            return preset.and_then(|preset| BaseUrl::parse(preset.base_url).ok());
        };
        match BaseUrl::parse(written) {
            Ok(url) => Some(url),
            Err(why) => {
                self.error(written.mark, format!("base_url of {} {why}", draft.label));
                None
            }
        }
    }

    /// Whether credentials of this mode may go to this endpoint.
    fn direction(&mut self, draft: &Draft<'_>, protocol: Protocol, auth: AuthMode, base_url: &BaseUrl) {
        let auth_mark = draft.auth.as_ref().map_or(draft.mark, |auth| auth.mark);
        let url_mark = draft.base_url.map_or(draft.mark, |url| url.mark);
        if let Err(why) = speaks(auth, protocol) {
            self.error(auth_mark, format!("{}: {why}", draft.label));
        }
        if let Err(why) = may_carry(auth, base_url.url()) {
            self.error(url_mark, format!("base_url of {}: {why}", draft.label));
        }
        if auth == AuthMode::ApiKey && base_url.url().scheme() == "http" && !base_url.is_loopback() {
            let text = "is plain http to another machine: the key travels unencrypted; use https";
            self.warn(url_mark, format!("base_url of {} {text}", draft.label));
        }
    }

    /// Tokens and codes go there: https, or this machine. Without the key a variable such as `DUDUCLAW_CLAUDE_TOKEN_URL`
    /// may name it for a family's logins.
    fn token_url(&mut self, draft: &Draft<'_>, key: &str, written: Option<&At<String>>, login: Login) -> Option<Url> {
        let Some(written) = written else { return self.token_url_variable(key, login) };
        let url = safe_url(written);
        if url.is_none() {
            self.error(written.mark, format!("{key} of {} must be an https URL (loopback: http too)", draft.label));
        }
        url
    }

    fn token_url_variable(&mut self, key: &str, login: Login) -> Option<Url> {
        let Login::Of(family) = login else { return None };
        let name = format!("DUDUCLAW_{}_{}", family.as_str(), key).to_ascii_uppercase();
        let url = safe_url(&self.surroundings.text_var(&name)?);
        if url.is_none() {
            let text = "must be an https URL (loopback: http too)".to_owned();
            self.problems.push(Problem { severity: Severity::Error, place: Place::Variable(name), text });
        }
        url
    }

    fn user_agent(&mut self, draft: &Draft<'_>) -> Option<http::HeaderValue> {
        let written = draft.user_agent?;
        let value = http::HeaderValue::from_str(written.trim()).ok().filter(|value| !value.is_empty());
        if value.is_none() {
            self.error(written.mark, format!("user_agent of {} is no header value", draft.label));
        }
        value
    }

    fn scope(&mut self, draft: &Draft<'_>, auth: AuthMode, family: Family, defaults: &AccountDefaults) -> Scope {
        if let Some(key) = draft.api_key_env.filter(|_| !draft.accounts.is_empty()) {
            let text = "has both api_key_env and accounts; write the key as an account of its own";
            self.error(key.mark, format!("{} {text}", draft.label));
        }
        if draft.accounts.is_empty() {
            return self.short_scope(draft, auth, defaults);
        }
        if matches!(auth, AuthMode::Passthrough | AuthMode::None) {
            let text = format!("{} has accounts, but auth = {:?} uses none", draft.label, auth.as_str());
            self.error(draft.mark, format!("{text}; set auth = \"claude_oauth\" or \"api_key\", or remove them"));
        }
        let mut entries: Vec<AccountEntry> = Vec::new();
        for account in &draft.accounts {
            let Some(entry) = self.account(draft, account, auth, family, defaults) else { continue };
            if entries.iter().any(|other| other.name == entry.name) {
                let text = format!("{} has two accounts named {}", draft.label, shown(&entry.name));
                self.error(account.mark, format!("{text}; give each its own name"));
            }
            entries.push(entry);
        }
        Scope::Listed(entries)
    }

    /// No list of accounts: a key by its variable, the whole store, or one account without a secret.
    fn short_scope(&mut self, draft: &Draft<'_>, auth: AuthMode, defaults: &AccountDefaults) -> Scope {
        let preset_key = draft.preset.and_then(|preset| preset.key_env);
        let source = match auth {
            AuthMode::Passthrough | AuthMode::None => SecretSource::None,
            AuthMode::ClaudeOauth | AuthMode::ChatgptOauth | AuthMode::KimiOauth => {
                if let Some(key) = draft.api_key_env {
                    let text = "has api_key_env beside a login; write the key as an account of its own";
                    self.error(key.mark, format!("{} {text}", draft.label));
                }
                return Scope::WholeStore;
            }
            AuthMode::ApiKey => match (self.variable("api_key_env", draft.api_key_env), preset_key) {
                (Some(name), _) => SecretSource::ApiKeyEnv(name),
                (None, Some(name)) if draft.api_key_env.is_none() => SecretSource::ApiKeyEnv(name.to_owned()),
                (None, _) => {
                    self.missing_key(draft);
                    return Scope::Listed(Vec::new());
                }
            },
        };
        Scope::Listed(vec![self.sole_account(draft, source, defaults)])
    }

    fn missing_key(&mut self, draft: &Draft<'_>) {
        if draft.api_key_env.is_none() {
            let text = "has auth = \"api_key\" but no key; set api_key_env = \"THE_VARIABLE\" or add accounts";
            self.missing(draft.mark, format!("{} {text}", draft.label));
        }
    }

    fn sole_account(&mut self, draft: &Draft<'_>, source: SecretSource, defaults: &AccountDefaults) -> AccountEntry {
        AccountEntry {
            name: SOLE_ACCOUNT.into(),
            source,
            uuid: None,
            priority: super::account::DEFAULT_PRIORITY,
            switch: Switch::On,
            thresholds: defaults.thresholds,
            caps: defaults.caps,
            budget: Cap::default(),
            place: self.document.place(draft.api_key_env.map_or(draft.mark, |key| key.mark)),
        }
    }

    fn unbuilt_unit(&mut self, draft: &Draft<'_>, protocol: Protocol, auth: AuthMode) {
        let kind_mark = draft.kind.as_ref().map_or(draft.mark, |kind| kind.mark);
        if protocol != Protocol::Anthropic {
            self.not_built(kind_mark, &format!("{}: kind = {:?}", draft.label, protocol.as_str()));
        } else if auth == AuthMode::KimiOauth {
            self.not_built(draft.mark, &format!("{}: auth = \"kimi_oauth\"", draft.label));
        }
    }

    pub(super) fn not_built(&mut self, mark: Mark, what: &str) {
        self.warn(mark, format!("not built yet: {what}"));
    }
}

/// Whether accounts are logins, and of which family.
#[derive(Clone, Copy)]
enum Login {
    Of(Family),
    None,
}

fn safe_url(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url))).then_some(url)
}

fn family(protocol: Protocol, local: bool) -> Family {
    match protocol {
        _ if local => Family::Local,
        Protocol::Anthropic => Family::Claude,
        Protocol::Responses | Protocol::Chat => Family::Codex,
        Protocol::Gemini => Family::Gemini,
    }
}

impl Written<'_> {
    /// The account's name as written.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Table(account) => account.name.as_deref().map(String::as_str),
        }
    }
}
