//! An event as it is shown and kept: flat, with every key always there.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::Wall;
use crate::event::{Event, Severity};
use crate::outcome::Evidence;
use crate::rows::EventRow;

/// One event of the feed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number; grows, also across restarts, and may leave some out.
    pub seq: u64,
    /// Its name: never given twice.
    pub id: String,
    /// When, RFC 3339.
    pub ts: String,
    /// What happened, by its name.
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// Why, where a cause is known.
    pub cause: Option<String>,
    /// What shows it.
    pub evidence: Evidence,
    /// Until when, RFC 3339, where it has an end.
    pub until: Option<String>,
    /// The agent it concerns.
    pub agent: Option<String>,
    /// The account it concerns, by its name in the provider.
    pub account: Option<String>,
    /// That account's provider.
    pub provider: Option<String>,
    /// Our id of the request it belongs to.
    pub request_id: Option<String>,
    /// One sentence for people.
    pub summary: String,
    /// What else is known, by its kind.
    pub detail: Value,
}

impl Entry {
    /// The event as it is shown.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let mut detail = serde_json::to_value(&event.kind).unwrap_or_default();
        let mut take = |key: &str| detail.as_object_mut().and_then(|fields| fields.shift_remove(key));
        let mut text = |key: &str| take(key).and_then(|value| value.as_str().map(ToOwned::to_owned));
        let (kind, cause, until) = (text("kind").unwrap_or_default(), text("cause"), text("until"));
        let mut evidence = event.evidence.clone();
        Self {
            seq: event.seq,
            id: format!("{:x}-{}", event.ts.wall.0, event.seq),
            ts: rfc3339(event.ts.wall),
            kind,
            severity: event.severity,
            cause,
            until,
            agent: None,
            account: event.account.as_ref().map(|entry| entry.name.to_string()),
            provider: event.account.as_ref().map(|entry| entry.provider.to_string()),
            request_id: evidence.request_id.take(),
            evidence,
            summary: event.summary(),
            detail,
        }
    }

    /// The event as it is kept.
    #[must_use]
    pub fn row(&self, at: Wall) -> EventRow {
        let account = self.provider.as_ref().zip(self.account.as_ref());
        EventRow {
            seq: self.seq,
            at,
            severity: self.severity,
            kind: self.kind.clone(),
            account: account.map(|(provider, name)| format!("{provider}/{name}")),
            agent: self.agent.clone(),
            request_id: self.request_id.clone(),
            json: serde_json::to_string(self).unwrap_or_default(),
        }
    }

    /// A kept event; none if it was kept in a shape that is not known any more.
    #[must_use]
    pub fn from_row(row: &EventRow) -> Option<Self> {
        serde_json::from_str(&row.json).ok()
    }
}

/// A moment as it is shown.
pub(super) fn rfc3339(at: Wall) -> String {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Deadline, Timestamp};
    use crate::event::EventKind;
    use crate::id::EntryId;
    use crate::outcome::{Cause, HoldScope};
    use crate::standing::{HoldKind, Stated};

    fn hold() -> Event {
        let kind = EventKind::HoldBegan {
            hold: HoldKind::RateLimited,
            scope: HoldScope::Account,
            cause: Cause::Quota,
            until: Deadline::Wall(Wall::from_secs(1_796_003_600)),
            stated: Stated::ByProvider,
        };
        let evidence = Evidence { status: Some(429), request_id: Some("abc".to_owned()), ..Evidence::default() };
        let account = Some(EntryId { provider: "anthropic".into(), name: "work".into() });
        Event {
            seq: 7,
            ts: Timestamp::at_millis(1_796_000_000_000),
            kind,
            severity: Severity::Warning,
            account,
            evidence,
        }
    }

    #[test]
    fn an_event_is_shown_flat_and_every_key_is_there() {
        insta::assert_json_snapshot!(Entry::of(&hold()), @r#"
        {
          "seq": 7,
          "id": "1a229f12800-7",
          "ts": "2026-11-30T00:53:20.000Z",
          "kind": "hold_began",
          "severity": "warning",
          "cause": "quota",
          "evidence": {
            "status": 429
          },
          "until": "2026-11-30T01:53:20.000Z",
          "agent": null,
          "account": "work",
          "provider": "anthropic",
          "request_id": "abc",
          "summary": "work is out: its quota window is used up, 1 h 0 min to go.",
          "detail": {
            "hold": "rate_limited",
            "scope": "account",
            "stated": "by_provider"
          }
        }
        "#);
    }

    #[test]
    fn a_kept_event_comes_back_as_it_was_shown() {
        let entry = Entry::of(&hold());
        let row = entry.row(Wall(5));
        assert_eq!((row.account.as_deref(), row.kind.as_str()), (Some("anthropic/work"), "hold_began"));
        assert_eq!(Entry::from_row(&row), Some(entry));
    }
}
