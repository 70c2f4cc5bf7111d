//! Every event worth a line, as a line of the log.
//!
//! Never here: what a line looks like. The field `event` holds the event as JSON for whoever writes the line.

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
        let told = serde_json::to_value(&event.kind).unwrap_or_default();
        let what = told["kind"].as_str().unwrap_or_default().replace('_', " ");
        let account = event.account.as_ref().map(ToString::to_string);
        let (account, request_id) = (account.as_deref(), event.evidence.request_id.as_deref());
        let (seq, severity, event) = (event.seq, event.severity, told.to_string());
        let event = event.as_str();
        match severity {
            Severity::Trace => {
                tracing::debug!(parent: None, seq, severity = "trace", account, request_id, event, "{what}")
            }
            Severity::Info => {
                tracing::info!(parent: None, seq, severity = "info", account, request_id, event, "{what}")
            }
            Severity::Warning => {
                tracing::warn!(parent: None, seq, severity = "warning", account, request_id, event, "{what}")
            }
            Severity::Error => {
                tracing::error!(parent: None, seq, severity = "error", account, request_id, event, "{what}")
            }
        }
    }
}
