//! What to show for an outcome: the status, the names of the headers that decided, the provider's request id.
//!
//! Never here: a header's value but that id, or a body.

use http::HeaderMap;

use super::Answer;
use crate::outcome::{Evidence, Outcome, QuotaReading};
use crate::provider::anthropic::quota;
use crate::provider::wait;

/// What to show for an outcome.
pub(super) fn of(answer: Answer<'_>, outcome: &Outcome, quota: &QuotaReading) -> Evidence {
    Evidence {
        status: Some(answer.status.as_u16()),
        headers: deciding_headers(answer.headers, outcome, quota),
        upstream_request_id: request_id(answer.headers),
        request_id: None,
    }
}

fn deciding_headers(headers: &HeaderMap, outcome: &Outcome, quota: &QuotaReading) -> Vec<String> {
    let mut names = match outcome {
        Outcome::Quota(_) => quota_evidence(quota),
        Outcome::Throttled { .. } | Outcome::ServerFault { .. } => Vec::new(),
        Outcome::Served
        | Outcome::Unauthorized
        | Outcome::OrgRefused
        | Outcome::BalanceEmpty
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { .. }
        | Outcome::Blank
        | Outcome::Relayed
        | Outcome::Abandoned => return Vec::new(),
    };
    names.extend(wait::HEADERS.map(str::to_owned));
    names.retain(|name| headers.contains_key(name));
    names
}

fn quota_evidence(quota: &QuotaReading) -> Vec<String> {
    if super::refused(quota).next().is_none() {
        let fields = ["status", "reset", "representative-claim"];
        return fields.map(|field| format!("{}{field}", quota::PREFIX)).into();
    }
    super::refused(quota)
        .flat_map(|reading| ["status", "reset"].map(|field| quota::header_name(&reading.window, field)))
        .collect()
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("request-id").or_else(|| headers.get("x-request-id"))?;
    value.to_str().ok().map(str::to_owned)
}
