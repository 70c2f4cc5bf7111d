//! The `anthropic-beta` list: the client's values stay, each once and in their order; only our two come and go.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Credential;
use crate::gateway::fields::LongContext;

const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");
/// Needed by Claude logins; means nothing to a key.
const OAUTH: &[u8] = b"oauth-2025-04-20";
/// The long context.
const LONG_CONTEXT: &[u8] = b"context-1m-2025-08-07";

/// Adapts the list to the credential. A list that needs no change keeps its header lines as they are.
pub(super) fn merge(headers: &mut HeaderMap, credential: &Credential<'_>, long_context: LongContext) {
    let lines: Vec<_> = headers.get_all(ANTHROPIC_BETA).into_iter().cloned().collect();
    let before = joined(&lines);
    let mut list = before.clone();
    if long_context == LongContext::Asked {
        add(&mut list, LONG_CONTEXT);
    }
    match credential {
        Credential::ClaudeOauth(_) => add(&mut list, OAUTH),
        Credential::Bearer(_) | Credential::ApiKey(_) | Credential::GoogleKey(_) | Credential::None => {
            list.retain(|beta| *beta != OAUTH);
        }
        Credential::Passthrough(_) => {}
    }
    if list != before || (lines.len() > 1 && matches!(credential, Credential::ClaudeOauth(_))) {
        set(headers, &list);
    }
}

/// The values of all lines, each once.
fn joined(lines: &[HeaderValue]) -> Vec<&[u8]> {
    let mut list = Vec::new();
    for line in lines {
        for beta in line.as_bytes().split(|byte| *byte == b',') {
            add(&mut list, beta.trim_ascii());
        }
    }
    list
}

fn add<'a>(list: &mut Vec<&'a [u8]>, beta: &'a [u8]) {
    if !beta.is_empty() && !list.contains(&beta) {
        list.push(beta);
    }
}

fn set(headers: &mut HeaderMap, list: &[&[u8]]) {
    headers.remove(ANTHROPIC_BETA);
    if !list.is_empty() {
        let value = HeaderValue::from_bytes(&list.join(&b","[..]));
        headers.insert(ANTHROPIC_BETA, value.expect("pieces of header values joined by commas are one"));
    }
}
