//! `[server.admin]`: who may use the control API, and where it listens.

use secrecy::ExposeSecret;

use super::Checker;
use super::gate::Listed;
use super::server::seconds;
use crate::config::bind::Bind;
use crate::config::clients::TokenHash;
use crate::config::document::At;
use crate::config::operators::{Access, Operator, Operators};
use crate::config::problem::shown;
use crate::config::raw::RawAdmin;
use crate::config::settings::{AdminSettings, Gate};

impl Checker<'_> {
    pub(super) fn admin(&mut self, raw: &At<RawAdmin>, gate: Option<&Gate>) -> AdminSettings {
        let binds = raw.bind.as_ref().map(|bind| self.binds("server.admin.bind", Some(bind))).unwrap_or_default();
        self.refuse_open_admin(raw, &binds);
        let mut operators = Vec::new();
        let lists = [
            ("server.admin.tokens_env", raw.tokens_env.as_ref(), Access::Write),
            ("server.admin.read_tokens_env", raw.read_tokens_env.as_ref(), Access::Read),
        ];
        for (key, list, access) in lists {
            for listed in self.token_list(key, list, "operators") {
                self.operator(&mut operators, listed, access, gate);
            }
        }
        AdminSettings {
            binds,
            operators: Operators::new(operators),
            session_ttl: seconds(raw.session_ttl_seconds.as_ref(), 3600),
        }
    }

    fn refuse_open_admin(&mut self, raw: &RawAdmin, binds: &[Bind]) {
        let Some(bind) = &raw.bind else { return };
        let guarded = raw.tokens_env.is_some() || raw.read_tokens_env.is_some();
        if !guarded && binds.iter().any(|bind| !bind.is_loopback()) {
            let text = "server.admin.bind can be reached from other machines; name tokens_env, or bind 127.0.0.1";
            self.error(bind.mark, text);
        }
    }

    fn operator(&mut self, operators: &mut Vec<Operator>, listed: Listed, access: Access, gate: Option<&Gate>) {
        let Listed { mark, name, token } = listed;
        let token = token.expose_secret();
        self.refuse_job_token(mark, &format!("operator {}", shown(&name)), token);
        let hash = TokenHash::of(token);
        if operators.iter().any(|other| *other.name == *name) {
            self.error(mark, format!("two operators are called {}; give each its own name", shown(&name)));
        } else if let Some(other) = operators.iter().find(|other| other.token == hash) {
            let text = format!("operators {} and {} have the same token", shown(&other.name), shown(&name));
            self.error(mark, format!("{text}; give each its own"));
        } else if let Some(client) = gate.and_then(|gate| gate.clients.authenticate(token)) {
            let text = format!("operator {} and client {} have the same token", shown(&name), shown(&client.name));
            self.error(mark, format!("{text}; a token opens either the control API or inference"));
        } else {
            operators.push(Operator { name: name.into(), token: hash, access });
        }
    }
}
