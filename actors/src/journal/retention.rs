//! How long rows are kept.

use std::time::Duration;

use chrono::{DateTime, Datelike, Months};

use crate::clock::{Timestamp, Wall};
use crate::rows::Retention;

/// The months whose budgets may be asked for: a year, the one that runs, and one for zones and days of billing.
const MONTHS: Months = Months::new(14);

/// How long rows are kept, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Rows of usage and events are kept so long.
    pub rows: Duration,
    /// At most so many events are kept.
    pub events: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { rows: Duration::from_secs(90 * 24 * 3600), events: 100_000 }
    }
}

impl Keep {
    /// What that means at this moment.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Retention {
        let age = i64::try_from(self.rows.as_millis()).unwrap_or(i64::MAX);
        let before = Wall(now.wall.0.saturating_sub(age));
        Retention { before, events: self.events, months_from: months_from(now.wall) }
    }
}

/// The first day of the oldest month that is kept; of a moment that no calendar has, none is too old.
fn months_from(now: Wall) -> String {
    let now = DateTime::from_timestamp_millis(now.0);
    let oldest = now.and_then(|now| now.date_naive().checked_sub_months(MONTHS)).and_then(|day| day.with_day(1));
    oldest.map(|day| day.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_for_days_and_budgets_for_months() {
        let now = Timestamp::at_millis(1_796_000_000_000);
        let keep = Keep { rows: Duration::from_secs(24 * 3600), events: 5 }.at(now);
        assert_eq!(keep.before, Wall(1_796_000_000_000 - 24 * 3_600_000));
        assert_eq!(keep.months_from, "2025-09-01", "of 2026-11-30");
        assert_eq!(Keep::default().at(Timestamp::at_millis(i64::MIN)).months_from, "");
    }
}
