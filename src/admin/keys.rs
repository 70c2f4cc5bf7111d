//! Who asks: the operator whose token is shown, or whom the way in vouches for.
//!
//! Never here: what they ask for.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::config::clients::TokenHash;
use crate::config::operators::Access;
use crate::config::settings::Server;
use crate::gateway::arrival::{Arrival, Door};
use crate::gateway::error::ApiError;
use crate::gateway::headers::token;

/// A slot for a token beside `Authorization`.
const ADMIN_TOKEN: &str = "x-duduclaw-admin-token";

/// Someone who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visitor {
    /// As whom.
    pub(super) name: Arc<str>,
    /// What they may do.
    pub(super) access: Access,
}

/// The key in the home directory: it opens everything, from this machine.
pub(super) struct HomeKey(TokenHash);

impl HomeKey {
    pub(super) fn new(key: &SecretString) -> Self {
        Self(TokenHash::of(key.expose_secret()))
    }

    /// Compared by hash, in constant time.
    pub(super) fn is(&self, token: &[u8]) -> bool {
        TokenHash::of_bytes(token).ct_eq(&self.0).into()
    }

    /// Lets a request in. Whoever is not on this machine finds nothing unless the configuration opens it.
    pub(super) fn admit(&self, server: &Server, headers: &HeaderMap, arrival: Arrival) -> Result<Visitor, ApiError> {
        if matches!(arrival.door, Door::Vouched(_)) {
            return Ok(Visitor { name: "control socket".into(), access: Access::Write });
        }
        if server.admin.is_none() && !arrival.is_near() {
            return Err(ApiError::NotFound("nothing is served at this path".to_owned()));
        }
        let mut shown = headers.get_all(AUTHORIZATION).iter().chain(headers.get_all(ADMIN_TOKEN));
        let known = shown.find_map(|value| self.visitor(server, token(value.as_bytes()), arrival));
        known.ok_or_else(|| {
            ApiError::Unauthenticated(
                "the control API asks for the key in <home>/admin-token or a token of [server.admin], as `Authorization: \
                 Bearer` or `x-duduclaw-admin-token`"
                    .to_owned(),
            )
        })
    }

    fn visitor(&self, server: &Server, token: &[u8], arrival: Arrival) -> Option<Visitor> {
        if self.is(token) && arrival.is_near() {
            return Some(Visitor { name: "admin-token".into(), access: Access::Write });
        }
        let operator = server.operator(token)?;
        Some(Visitor { name: Arc::clone(&operator.name), access: operator.access })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::operators::{Operator, Operators};
    use crate::config::settings::AdminSettings;
    use crate::gateway::arrival::Peers;

    fn server(admin: bool) -> Server {
        let mut server = crate::config::settings::testing::server();
        let operator = Operator { name: "o".into(), token: TokenHash::of("theirs"), access: Access::Read };
        server.admin = admin.then(|| AdminSettings {
            binds: Vec::new(),
            operators: Operators::new(vec![operator]),
            session_ttl: std::time::Duration::ZERO,
        });
        server
    }

    fn admitted(admin: bool, token: &str, address: &str, door: Door) -> Result<(String, Access), u16> {
        let key = HomeKey::new(&SecretString::from("ours"));
        let headers = [(AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"))].into_iter().collect();
        let arrival = Arrival { local: Some(address.parse().expect("an address")), door };
        let visitor = key.admit(&server(admin), &headers, arrival);
        visitor.map(|v| (v.name.to_string(), v.access)).map_err(|error| error.status().as_u16())
    }

    #[test]
    fn the_homes_key_opens_from_this_machine_alone() {
        let ours = Ok(("admin-token".to_owned(), Access::Write));
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(admitted(false, "ours", address, Door::Everybody), ours, "{address}");
        }
        assert_eq!(admitted(true, "ours", "10.0.0.1:1", Door::Everybody), Err(401));
        assert_eq!(admitted(false, "ours", "10.0.0.1:1", Door::Everybody), Err(404), "nothing is there");
    }

    #[test]
    fn an_operators_token_opens_from_anywhere_if_there_are_operators() {
        let theirs = Ok(("o".to_owned(), Access::Read));
        assert_eq!(admitted(true, "theirs", "10.0.0.1:1", Door::Operators), theirs);
        assert_eq!(admitted(false, "theirs", "127.0.0.1:1", Door::Everybody), Err(401));
        assert_eq!(admitted(true, "nobodys", "127.0.0.1:1", Door::Everybody), Err(401));
    }

    #[test]
    fn the_control_socket_asks_for_no_token() {
        let arrival = Arrival { local: None, door: Door::Vouched(Peers::Owner) };
        let visitor = HomeKey::new(&SecretString::from("ours")).admit(&server(false), &HeaderMap::new(), arrival);
        assert_eq!(visitor.expect("they are let in").access, Access::Write);
    }
}
