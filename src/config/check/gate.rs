//! `[server.auth]`: the clients and their tokens.

use duduclaw_actors::roster::Cap;
use secrecy::{ExposeSecret, SecretString};
use wildmatch::WildMatch;

use super::Checker;
use super::server::bound;
use crate::config::clients::{Client, Clients, Passthrough, TokenHash};
use crate::config::document::{At, Mark};
use crate::config::problem::shown;
use crate::config::raw::{Raw, RawAuthGate, RawClient};
use crate::config::secret;
use crate::config::settings::{Gate, Unit};
use crate::config::surroundings::expand;

/// Tokens that begin so are the gateway's own, for jobs.
const JOB_PREFIX: &str = "ddj_";

impl Checker<'_> {
    pub(super) fn gate(&mut self, raw: &At<RawAuthGate>) -> Gate {
        let mut clients = self.listed_tokens(raw);
        for client in raw.clients.as_deref().into_iter().flatten() {
            let Some(client) = self.client(client).map(|c| (c, client.mark)) else { continue };
            self.add(&mut clients, client.0, client.1);
        }
        if clients.is_empty() {
            self.warn(raw.mark, "[server.auth] lets nobody in: no client has a token; name tokens_env or add clients");
        }
        Gate {
            header: self.header("server.auth.header", raw.header.as_ref(), "x-duduclaw-token"),
            clients: Clients::new(clients),
        }
    }

    fn listed_tokens(&mut self, raw: &RawAuthGate) -> Vec<Client> {
        let mut clients = Vec::new();
        for listed in self.token_list("server.auth.tokens_env", raw.tokens_env.as_ref(), "clients") {
            let client = unlimited(&listed.name, TokenHash::of(listed.token.expose_secret()));
            let whose = format!("client {}", shown(&client.name));
            self.refuse_job_token(listed.mark, &whose, listed.token.expose_secret());
            self.add(&mut clients, client, listed.mark);
        }
        clients
    }

    /// A variable that holds `name:token,name:token`; a token may itself hold colons.
    pub(super) fn token_list(&mut self, key: &str, raw: Option<&At<String>>, whose: &str) -> Vec<Listed> {
        let mut found = Vec::new();
        let Some(name) = self.variable(key, raw) else { return found };
        let mark = raw.map_or(Mark::default(), |key| key.mark);
        let Some(list) = self.surroundings.text_var(&name) else {
            let text = format!("the variable {name} is not set, or empty: the {whose} it would name are not let in");
            self.warn(mark, text);
            return found;
        };
        for (index, item) in list.split(',').enumerate().filter(|(_, item)| !item.trim().is_empty()) {
            match item.split_once(':').map(|(name, token)| (name.trim(), token.trim())) {
                Some((name, token)) if !name.is_empty() && !token.is_empty() => {
                    found.push(Listed { mark, name: name.to_owned(), token: SecretString::from(token) });
                }
                _ => self.error(
                    mark,
                    format!("entry {} of {name} is not name:token; write name:token,name:token", index + 1),
                ),
            }
        }
        found
    }

    fn add(&mut self, clients: &mut Vec<Client>, client: Client, mark: Mark) {
        if clients.iter().any(|other| other.name == client.name) {
            self.error(mark, format!("two clients are called {}; give each its own name", shown(&client.name)));
        } else if let Some(other) = clients.iter().find(|other| other.token == client.token) {
            let text = format!("clients {} and {} have the same token", shown(&other.name), shown(&client.name));
            self.error(mark, format!("{text}; give each its own"));
        } else {
            clients.push(client);
        }
    }

    fn client(&mut self, raw: &At<RawClient>) -> Option<Client> {
        let Some(name) = raw.name.as_ref().filter(|name| !name.trim().is_empty()) else {
            self.missing(raw.mark, "a client of [server.auth] has no name");
            return None;
        };
        let cap = self.cap(&format!("client {}", shown(name)), &raw.monthly_budget_usd, &raw.monthly_requests);
        let models = raw.models.as_ref().map(|globs| self.globs(name, globs));
        let token = self.client_token(raw, name)?;
        let open = raw.passthrough.as_deref().copied().unwrap_or(false);
        Some(Client {
            name: name.trim().into(),
            token,
            models,
            providers: raw.providers.as_deref().cloned(),
            max_concurrent: raw.max_concurrent_requests.as_deref().copied().and_then(bound),
            passthrough: if open { Passthrough::Open } else { Passthrough::Closed },
            cap,
        })
    }

    fn client_token(&mut self, raw: &At<RawClient>, name: &str) -> Option<TokenHash> {
        let given = [raw.token_sha256.is_some(), raw.token_env.is_some(), raw.token_file.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            let text = format!("client {} needs exactly one of token_sha256, token_env, token_file", shown(name));
            self.missing(raw.mark, text);
            return None;
        }
        if let Some(hex) = &raw.token_sha256 {
            let hash = TokenHash::from_hex(hex);
            if hash.is_none() {
                let text = "must be 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum";
                self.error(hex.mark, format!("token_sha256 of client {} {text}", shown(name)));
            }
            return hash;
        }
        self.kept_token(raw, name)
    }

    /// A token in a variable or file; without it this one client is not let in.
    fn kept_token(&mut self, raw: &At<RawClient>, name: &str) -> Option<TokenHash> {
        let (mark, read) = if let Some(path) = &raw.token_file {
            (path.mark, secret::from_file(&expand(path, self.surroundings), self.surroundings))
        } else {
            let variable = self.variable("token_env", raw.token_env.as_ref())?;
            (raw.token_env.as_ref()?.mark, secret::from_variable(&variable, self.surroundings))
        };
        match read {
            Ok(token) => Some(self.hashed(mark, name, &token)),
            Err(fault) => {
                self.warn(mark, format!("client {} is not let in: {fault}", shown(name)));
                None
            }
        }
    }

    fn hashed(&mut self, mark: Mark, name: &str, token: &SecretString) -> TokenHash {
        self.refuse_job_token(mark, &format!("client {}", shown(name)), token.expose_secret());
        TokenHash::of(token.expose_secret())
    }

    pub(super) fn refuse_job_token(&mut self, mark: Mark, whose: &str, token: &str) {
        if token.starts_with(JOB_PREFIX) {
            let text = format!("the token of {whose} begins with {JOB_PREFIX}, as tokens of jobs do");
            self.error(mark, format!("{text}; use another"));
        }
    }

    fn globs(&mut self, name: &str, globs: &At<Vec<String>>) -> Vec<WildMatch> {
        if globs.is_empty() || globs.iter().any(|glob| glob.trim().is_empty()) {
            let text = format!("models of client {} must be patterns such as \"claude-*\"", shown(name));
            self.error(globs.mark, format!("{text}; leave the key out to allow all"));
        }
        globs.iter().map(|glob| WildMatch::new(glob.trim())).collect()
    }

    /// The providers that clients are limited to must be there.
    pub(super) fn client_providers(&mut self, raw: &Raw, units: &[Unit]) {
        let gate = raw.server.as_deref().and_then(|server| server.auth.as_deref());
        for client in gate.and_then(|gate| gate.clients.as_deref()).into_iter().flatten() {
            let Some(providers) = &client.providers else { continue };
            for name in &providers.value {
                self.unit_named("providers of a client", &At { value: name.clone(), mark: providers.mark }, units);
            }
        }
    }
}

/// One entry of a list of tokens.
pub(super) struct Listed {
    pub(super) mark: Mark,
    pub(super) name: String,
    pub(super) token: SecretString,
}

fn unlimited(name: &str, token: TokenHash) -> Client {
    Client {
        name: name.into(),
        token,
        models: None,
        providers: None,
        max_concurrent: None,
        passthrough: Passthrough::Closed,
        cap: Cap::default(),
    }
}
