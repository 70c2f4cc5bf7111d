//! Which conversation a request belongs to: told by the headers of the genuine clients.

use duduclaw_actors::id::{ConversationKey, Principal};
use http::HeaderMap;
use xxhash_rust::xxh3::Xxh3;

/// Session headers, the first that is there counts.
const SESSION: [&str; 3] = ["x-claude-code-session-id", "session-id", "session_id"];
/// A subagent of a session.
const AGENT: &str = "x-claude-code-agent-id";

/// A request's conversation, and that of its parent if a subagent asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Its own.
    pub key: Option<ConversationKey>,
    /// The session that the subagent works for.
    pub parent: Option<ConversationKey>,
}

impl Conversation {
    /// The conversation that these headers name for this principal. Blank is absent; one principal's sessions never
    /// meet another's.
    #[must_use]
    pub fn of(headers: &HeaderMap, principal: &Principal) -> Self {
        let Some(session) = SESSION.iter().find_map(|name| value(headers, name)) else { return Self::default() };
        let own = key(principal, session, None);
        match value(headers, AGENT) {
            None => Self { key: Some(own), parent: None },
            Some(agent) => Self { key: Some(key(principal, session, Some(agent))), parent: Some(own) },
        }
    }
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    headers.get(name).map(|value| value.as_bytes().trim_ascii()).filter(|value| !value.is_empty())
}

/// Each part is hashed with its length, so that no two splittings of the same bytes agree.
fn key(principal: &Principal, session: &[u8], agent: Option<&[u8]>) -> ConversationKey {
    let mut hash = Xxh3::new();
    let names = [&principal.client, &principal.agent, &principal.job];
    for name in names {
        part(&mut hash, name.as_ref().map(|name| name.as_bytes()));
    }
    part(&mut hash, Some(session));
    part(&mut hash, agent);
    ConversationKey(hash.digest128())
}

fn part(hash: &mut Xxh3, bytes: Option<&[u8]>) {
    match bytes {
        None => hash.update(&[0]),
        Some(bytes) => {
            hash.update(&[1]);
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn of(pairs: &[(&'static str, &str)]) -> Conversation {
        Conversation::of(&headers(pairs), &Principal::default())
    }

    #[test]
    fn a_blank_session_is_none() {
        assert_eq!(of(&[(SESSION[0], "  ")]), Conversation::default());
        assert_eq!(of(&[(AGENT, "a1")]), Conversation::default());
    }

    #[test]
    fn a_subagent_is_a_conversation_of_its_own_with_its_sessions_as_parent() {
        let session = of(&[(SESSION[0], "s")]);
        let agent = of(&[(SESSION[0], "s"), (AGENT, "a1")]);
        assert_eq!(agent.parent, session.key);
        assert_ne!(agent.key, session.key);
        assert_eq!(of(&[(SESSION[0], "s"), (AGENT, "")]), session);
    }

    #[test]
    fn one_client_cannot_steer_anothers_conversation() {
        let named = |name: &str| Principal { client: Some(Arc::from(name)), ..Principal::default() };
        let sent = headers(&[(SESSION[0], "s")]);
        assert_ne!(Conversation::of(&sent, &named("a")), Conversation::of(&sent, &named("b")));
        assert_ne!(Conversation::of(&sent, &named("a")), Conversation::of(&sent, &Principal::default()));
    }

    #[test]
    fn the_older_names_of_the_session_header_count_too() {
        assert_eq!(of(&[("session_id", "s")]), of(&[("session-id", "s")]));
        assert_eq!(of(&[("session-id", "s")]), of(&[(SESSION[0], "s")]));
    }
}
