//! `activity.list`: what happened, as it was kept.

use duduclaw_actors::activity::Entry;
use duduclaw_actors::event::{KINDS, Severity};
use duduclaw_actors::rows::{EventQuery, EventRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::{Fault, FaultKind};
use super::verb::Call;
use crate::config::problem::nearest;
use crate::config::topology::Topology;

/// How many events are given when nothing is said, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

/// One event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Its number; grows, also across restarts, and may leave some out.
    pub seq: u64,
    /// Its name: never given twice.
    pub id: String,
    /// When, RFC 3339.
    pub ts: String,
    /// What happened, by its name.
    pub kind: String,
    /// How much it matters.
    pub severity: SeverityWord,
    /// Why, where a cause is known.
    pub cause: Option<String>,
    /// What shows it: a status, names of headers, the provider's request id.
    pub evidence: Value,
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

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeverityWord {
    /// Counted; never in the feed.
    #[schemars(skip)]
    Trace,
    /// Worth a line.
    Info,
    /// Someone should look when there is time.
    Warning,
    /// Someone should look now.
    Error,
}

/// Events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActivityView {
    /// The events.
    pub events: Vec<EventView>,
    /// The number that was given last: ask for what is after it next time.
    pub last: u64,
}

/// Which events are wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Only those with a larger number.
    #[schemars(range(max = 18_446_744_073_709_551_615_u64))]
    since: Option<u64>,
    /// The newest so many; 100 if nothing is said, 1000 at most.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Only those of this kind; several with commas between them.
    kind: Option<String>,
    /// Only those that matter at least so much.
    severity: Option<SeverityWord>,
    /// Only those of this account: `name`, or `provider/name`, also of one that is not configured any more.
    account: Option<String>,
}

/// What happened.
pub(super) async fn list(call: Call, wanted: Wanted) -> Result<ActivityView, Fault> {
    let limit = wanted.limit.unwrap_or(USUAL);
    if limit == 0 || limit > MOST {
        return Err(Fault::invalid(format!("limit must be from 1 to {MOST}")));
    }
    let last = call.desk.fleet.feed.last();
    let Wanted { since, kind, severity, account, .. } = wanted;
    let ask = Filter { since, kind, severity, account }.query(&call.live.topology, limit)?;
    kept(&call, ask, last).await
}

/// The events that were kept.
pub(super) async fn kept(call: &Call, ask: EventQuery, last: u64) -> Result<ActivityView, Fault> {
    let rows = call.desk.fleet.journal.events(ask).await;
    let rows = rows.map_err(|error| Fault::unavailable(format!("what was kept cannot be read: {error}")))?;
    Ok(ActivityView { events: rows.iter().filter_map(EventView::of_row).collect(), last })
}

/// Which events are wanted, however they are asked for.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) since: Option<u64>,
    pub(super) kind: Option<String>,
    pub(super) severity: Option<SeverityWord>,
    pub(super) account: Option<String>,
}

impl Filter {
    pub(super) fn query(self, topology: &Topology, limit: usize) -> Result<EventQuery, Fault> {
        Ok(EventQuery {
            after: self.since.unwrap_or_default(),
            kinds: self.kind.map(kinds).transpose()?.unwrap_or_default(),
            at_least: self.severity.map(Severity::from),
            account: self.account.map(|name| named(topology, name)).transpose()?,
            limit,
        })
    }
}

/// The kinds that are named, with commas between them.
fn kinds(named: String) -> Result<Vec<String>, Fault> {
    let known = |kind: &str| {
        if KINDS.contains(&kind) {
            return Ok(kind.to_owned());
        }
        let hint = match nearest(kind, KINDS) {
            Some(nearest) => format!("the nearest is {nearest}"),
            None => format!("there are {}", KINDS.join(", ")),
        };
        Err(Fault::new(FaultKind::NotFound, format!("there is no kind of event {kind:?}")).hint(hint))
    };
    named.split(',').map(|kind| known(kind.trim())).collect()
}

/// An account's full name. One that is not configured any more is known by its full name alone.
fn named(topology: &Topology, name: String) -> Result<String, Fault> {
    if name.contains('/') {
        return Ok(name);
    }
    let account = topology.account_named(&name)?;
    Ok(topology.representative(account).map_or(name, |entry| entry.id.to_string()))
}

impl EventView {
    pub(crate) fn of_row(row: &EventRow) -> Option<Self> {
        Entry::from_row(row).map(Self::from)
    }
}

impl From<Entry> for EventView {
    fn from(entry: Entry) -> Self {
        let Entry {
            seq,
            id,
            ts,
            kind,
            severity,
            cause,
            evidence,
            until,
            agent,
            account,
            provider,
            request_id,
            summary,
            detail,
        } = entry;
        let evidence = serde_json::to_value(evidence).unwrap_or_default();
        let severity = severity.into();
        Self {
            seq,
            id,
            ts,
            kind,
            severity,
            cause,
            evidence,
            until,
            agent,
            account,
            provider,
            request_id,
            summary,
            detail,
        }
    }
}

impl From<SeverityWord> for Severity {
    fn from(word: SeverityWord) -> Self {
        match word {
            SeverityWord::Trace => Self::Trace,
            SeverityWord::Info => Self::Info,
            SeverityWord::Warning => Self::Warning,
            SeverityWord::Error => Self::Error,
        }
    }
}

impl From<Severity> for SeverityWord {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Trace => Self::Trace,
            Severity::Info => Self::Info,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}
