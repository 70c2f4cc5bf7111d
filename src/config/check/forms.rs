//! The two forms of a fleet, brought to one: `[providers.<name>]` and `[[upstreams]]` both become drafts of units.

use duduclaw_actors::roster::Strategy;

use super::Checker;
use crate::config::document::{At, Mark, Ordered};
use crate::config::problem::shown;
use crate::config::raw::{Key, Raw, RawAccount, RawAuth, RawProvider, RawScopeItem, RawUpstream};
use crate::config::settings::{AuthMode, Protocol};

/// A failover unit as written, whichever form it was written in.
pub(super) struct Draft<'a> {
    pub(super) label: String,
    pub(super) name: String,
    pub(super) provider: String,
    pub(super) mark: Mark,
    pub(super) preset: Option<&'static Preset>,
    pub(super) kind: Option<At<Protocol>>,
    pub(super) base_url: Option<&'a At<String>>,
    pub(super) auth: Option<At<AuthMode>>,
    pub(super) strategy: Option<Strategy>,
    pub(super) token_url: Option<&'a At<String>>,
    pub(super) authorize_url: Option<&'a At<String>>,
    pub(super) user_agent: Option<&'a At<String>>,
    pub(super) api_key_env: Option<&'a At<String>>,
    pub(super) local: bool,
    pub(super) max_concurrent: Option<u32>,
    pub(super) accounts: Vec<DraftAccount<'a>>,
}

/// One account of a draft.
pub(super) struct DraftAccount<'a> {
    pub(super) mark: Mark,
    pub(super) written: Written<'a>,
}

/// How an account is written.
pub(super) enum Written<'a> {
    Name(&'a str),
    Table(&'a RawAccount),
}

/// What is known of a provider by its name alone.
pub(super) struct Preset {
    name: &'static str,
    pub(super) kind: Protocol,
    pub(super) base_url: &'static str,
    pub(super) auth: AuthMode,
    pub(super) key_env: Option<&'static str>,
    pub(super) local: bool,
}

const PRESETS: &[Preset] = &[
    Preset {
        name: "anthropic",
        kind: Protocol::Anthropic,
        base_url: "https://api.anthropic.com",
        auth: AuthMode::Passthrough,
        key_env: Some("ANTHROPIC_API_KEY"),
        local: false,
    },
    Preset {
        name: "codex",
        kind: Protocol::Responses,
        base_url: "https://chatgpt.com/backend-api/codex",
        auth: AuthMode::ChatgptOauth,
        key_env: None,
        local: false,
    },
    Preset {
        name: "openai",
        kind: Protocol::Responses,
        base_url: "https://api.openai.com/v1",
        auth: AuthMode::ApiKey,
        key_env: Some("OPENAI_API_KEY"),
        local: false,
    },
    Preset {
        name: "gemini",
        kind: Protocol::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        auth: AuthMode::ApiKey,
        key_env: Some("GEMINI_API_KEY"),
        local: false,
    },
    Preset {
        name: "ollama",
        kind: Protocol::Chat,
        base_url: "http://127.0.0.1:11434/v1",
        auth: AuthMode::None,
        key_env: None,
        local: true,
    },
    Preset {
        name: "kimi",
        kind: Protocol::Anthropic,
        base_url: "https://api.kimi.com/coding",
        auth: AuthMode::KimiOauth,
        key_env: None,
        local: false,
    },
];

fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Checker<'_> {
    pub(super) fn drafts<'r>(&mut self, raw: &'r Raw) -> Vec<Draft<'r>> {
        match (&raw.providers, &raw.upstreams) {
            (Some(providers), Some(upstreams)) => {
                self.error(upstreams.mark, both_forms(providers));
                self.by_provider(providers)
            }
            (Some(providers), None) => self.by_provider(providers),
            (None, Some(upstreams)) => upstreams.iter().filter_map(|upstream| self.by_upstream(upstream)).collect(),
            (None, None) => {
                self.missing(Mark::default(), "no provider is declared; add [providers.anthropic] or [[upstreams]]");
                Vec::new()
            }
        }
    }

    fn by_provider<'r>(&mut self, providers: &'r Ordered<RawProvider>) -> Vec<Draft<'r>> {
        providers.0.iter().map(|(name, provider)| provider_draft(name, provider)).collect()
    }

    fn by_upstream<'r>(&mut self, raw: &'r At<RawUpstream>) -> Option<Draft<'r>> {
        let Some(name) = raw.name.as_ref().filter(|name| !name.trim().is_empty()) else {
            self.missing(raw.mark, "an entry of [[upstreams]] has no name");
            return None;
        };
        let provider = raw.provider.as_ref().map_or(name.as_str(), |provider| provider.as_str());
        let preset = preset(provider);
        if let (Some(unknown), None) = (raw.provider.as_ref().filter(|_| preset.is_none()), &raw.kind) {
            let known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
            self.error(
                unknown.mark,
                format!("upstream {:?}: provider is none of {known}; give kind and base_url", name.trim()),
            );
            return None;
        }
        Some(Draft {
            label: format!("upstream {:?}", name.trim()),
            name: name.trim().to_owned(),
            provider: provider.trim().to_owned(),
            mark: raw.mark,
            preset,
            kind: raw.kind,
            base_url: raw.base_url.as_ref(),
            auth: self.upstream_mode(name, raw.auth.as_ref()),
            strategy: raw.strategy.as_deref().copied(),
            token_url: raw.token_url.as_ref(),
            authorize_url: raw.authorize_url.as_ref(),
            user_agent: raw.user_agent.as_ref(),
            api_key_env: raw.api_key_env.as_ref(),
            local: raw.local.as_deref().copied().unwrap_or(preset.is_some_and(|preset| preset.local)),
            max_concurrent: raw.max_concurrent_requests.as_deref().copied(),
            accounts: self.scope_items(name, raw.auth.as_ref()),
        })
    }

    fn upstream_mode(&mut self, name: &str, auth: Option<&At<RawAuth>>) -> Option<At<AuthMode>> {
        let auth = auth?;
        if auth.mode.is_none() && auth.short.is_none() {
            self.missing(auth.mark, format!("auth of upstream {name:?} has no mode; e.g. mode = \"claude_oauth\""));
        }
        auth.mode.or_else(|| auth.short.map(|value| At { value, mark: auth.mark }))
    }

    fn scope_items<'r>(&mut self, name: &str, auth: Option<&'r At<RawAuth>>) -> Vec<DraftAccount<'r>> {
        let Some(auth) = auth else { return Vec::new() };
        let one = auth.account.as_ref();
        let many = auth.accounts.as_ref();
        if let (Some(one), Some(_)) = (one, many) {
            self.error(one.mark, format!("auth of upstream {name:?} has both account and accounts; keep one"));
        }
        if let Some(empty) = many.filter(|many| many.is_empty()) {
            let text = "has an empty accounts list; name accounts, or leave the key out for the whole store";
            self.error(empty.mark, format!("auth of upstream {name:?} {text}"));
        }
        one.into_iter().chain(many.into_iter().flat_map(|many| many.iter())).map(scope_item).collect()
    }
}

fn scope_item(item: &At<RawScopeItem>) -> DraftAccount<'_> {
    let written = match &item.value {
        RawScopeItem::Name(name) => Written::Name(name),
        RawScopeItem::Inline(account) => Written::Table(account),
    };
    DraftAccount { mark: item.mark, written }
}

fn provider_draft<'r>(name: &str, raw: &'r At<RawProvider>) -> Draft<'r> {
    let preset = preset(name);
    let accounts = raw.accounts.as_deref().into_iter().flatten();
    Draft {
        label: format!("providers.{name}"),
        name: name.to_owned(),
        provider: name.to_owned(),
        mark: raw.mark,
        preset,
        kind: raw.kind,
        base_url: raw.base_url.as_ref(),
        auth: raw.auth,
        strategy: raw.strategy.as_deref().copied(),
        token_url: raw.token_url.as_ref(),
        authorize_url: raw.authorize_url.as_ref(),
        user_agent: raw.user_agent.as_ref(),
        api_key_env: raw.api_key_env.as_ref(),
        local: raw.local.as_deref().copied().unwrap_or(preset.is_some_and(|preset| preset.local)),
        max_concurrent: raw.max_concurrent_requests.as_deref().copied(),
        accounts: accounts.map(|a| DraftAccount { mark: a.mark, written: Written::Table(&a.value) }).collect(),
    }
}

/// The error for a file with both forms, with the providers written as upstreams.
fn both_forms(providers: &Ordered<RawProvider>) -> String {
    let mut text =
        "[providers.*] and [[upstreams]] are two forms of the same thing, and this file has both; write the \
                    providers as upstreams:"
            .to_owned();
    for (name, provider) in &providers.0 {
        text.push_str(&format!("\n    [[upstreams]]\n    name = {name:?}\n    provider = {name:?}"));
        if preset(name).is_none() {
            let kind = provider.kind.as_deref().map_or("anthropic", |kind| kind.as_str());
            text.push_str(&format!("\n    kind = {kind:?}"));
        }
        if let Some(url) = &provider.base_url {
            text.push_str(&format!("\n    base_url = {}", shown(url)));
        }
        text.push_str(&format!("\n    auth = {}", rewritten_auth(provider)));
    }
    text
}

fn rewritten_auth(provider: &RawProvider) -> String {
    let mode = provider.auth.as_deref().map_or("passthrough", |auth| auth.as_str());
    let accounts: Vec<_> = provider.accounts.as_deref().into_iter().flatten().map(|a| rewritten_account(a)).collect();
    if accounts.is_empty() {
        return format!("{mode:?}");
    }
    format!("{{ mode = {mode:?}, accounts = [{}] }}", accounts.join(", "))
}

fn rewritten_account(account: &RawAccount) -> String {
    let name = account.name.as_deref().map_or("…", String::as_str);
    let others: [(&str, &Key<String>); 4] = [
        ("credentials", &account.credentials),
        ("token_env", &account.token_env),
        ("api_key_env", &account.api_key_env),
        ("uuid", &account.uuid),
    ];
    let given =
        others.iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} = {}", shown(value))));
    let given: Vec<_> = given.collect();
    if given.is_empty() { format!("{name:?}") } else { format!("{{ name = {name:?}, {} }}", given.join(", ")) }
}
