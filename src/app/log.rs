//! Every event worth a line, as a line of the log.

use duduclaw_actors::event::{Event, Severity};
use duduclaw_actors::ports::Observer;

/// Writes events to the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventLog;

impl Observer for EventLog {
    fn observe(&mut self, event: &Event) {
        if event.severity == Severity::Trace && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let account = event.account.as_ref().map(ToString::to_string).unwrap_or_default();
        let what = serde_json::to_string(&event.kind).unwrap_or_default();
        let request = event.evidence.request_id.as_deref().unwrap_or_default();
        let seq = event.seq;
        match event.severity {
            Severity::Trace => tracing::debug!(seq, account, request, "{what}"),
            Severity::Info => tracing::info!(seq, account, request, "{what}"),
            Severity::Warning => tracing::warn!(seq, account, request, "{what}"),
            Severity::Error => tracing::error!(seq, account, request, "{what}"),
        }
    }
}
