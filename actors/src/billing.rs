//! Months as they are billed: calendar months of a time zone, from a day of the month on.
//!
//! A month begins at midnight of that day; in a month without it, of the month's last day. Where clocks skip that
//! midnight it begins with the first moment after it, where they repeat it with the first of the two. So the month of a
//! moment depends on nothing but the moment.
//!
//! Never here: a clock, money.

mod moment;

use chrono::{
    DateTime, Datelike, Days, MappedLocalTime, Months, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta,
    TimeZone, Utc,
};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::clock::Wall;

pub use moment::{Edge, MOMENT, MomentError};

/// No zone ever skipped more than a day.
const LONGEST_GAP: TimeDelta = TimeDelta::hours(26);

/// How months are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BillingCycle {
    zone: Tz,
    day: u32,
}

/// One month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Month {
    /// Its first day.
    pub first: NaiveDate,
    /// Its first moment.
    pub begins: Wall,
    /// The first moment of the next.
    pub ends: Wall,
}

/// One day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Which.
    pub date: NaiveDate,
    begins: Wall,
    ends: Wall,
}

impl Default for BillingCycle {
    /// Calendar months of Greenwich.
    fn default() -> Self {
        Self { zone: Tz::UTC, day: 1 }
    }
}

impl BillingCycle {
    /// Months of the zone of this IANA name, from this day of the month on, 1 to 31. None if there is no such zone or day.
    #[must_use]
    pub fn new(zone: &str, day: u32) -> Option<Self> {
        let zone = zone.parse().ok()?;
        (1..=31).contains(&day).then_some(Self { zone, day })
    }

    /// The name of the zone.
    #[must_use]
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// The names of all zones.
    pub fn zones() -> impl Iterator<Item = &'static str> {
        TZ_VARIANTS.iter().map(|zone| zone.name())
    }

    /// The month of a moment.
    #[must_use]
    pub fn month(&self, at: Wall) -> Month {
        let local = self.local_date(at);
        let here = self.first_day(local.year(), local.month());
        let first = if self.midnight(here) <= at { here } else { self.neighbour(here, Months::new(1), Toward::Past) };
        let next = self.neighbour(first, Months::new(1), Toward::Future);
        Month { first, begins: self.midnight(first), ends: self.midnight(next) }
    }

    /// The day of a moment.
    #[must_use]
    pub fn day(&self, at: Wall) -> Day {
        let local = self.local_date(at);
        // Clocks that go back over midnight show yesterday's date again.
        let date =
            if self.midnight(local) <= at { local } else { local.checked_sub_days(Days::new(1)).unwrap_or(local) };
        let begins = self.midnight(date);
        let days = (1..=2).filter_map(|days| date.checked_add_days(Days::new(days)));
        let ends = days.map(|next| self.midnight(next)).find(|ends| *ends > at).unwrap_or(Wall(i64::MAX));
        Day { date, begins, ends }
    }

    /// The first moment of a day, by the zone.
    #[must_use]
    pub fn midnight(&self, date: NaiveDate) -> Wall {
        let midnight = date.and_time(NaiveTime::MIN);
        Wall(self.first_moment_at(midnight).timestamp_millis())
    }

    /// A moment as the zone's clocks show it, RFC 3339.
    #[must_use]
    pub fn shown(&self, at: Wall) -> String {
        let moment = DateTime::from_timestamp_millis(at.0).unwrap_or_default();
        moment.with_timezone(&self.zone).to_rfc3339_opts(SecondsFormat::AutoSi, false)
    }

    fn local_date(&self, at: Wall) -> NaiveDate {
        let moment = DateTime::from_timestamp_millis(at.0).unwrap_or_default();
        moment.with_timezone(&self.zone).date_naive()
    }

    fn first_day(&self, year: i32, month: u32) -> NaiveDate {
        let days = (1..=self.day).rev().filter_map(|day| NaiveDate::from_ymd_opt(year, month, day));
        days.into_iter().next().unwrap_or_default()
    }

    fn neighbour(&self, first: NaiveDate, months: Months, toward: Toward) -> NaiveDate {
        let of_month = first.with_day(1).unwrap_or(first);
        let moved = match toward {
            Toward::Past => of_month.checked_sub_months(months),
            Toward::Future => of_month.checked_add_months(months),
        };
        moved.map_or(first, |moved| self.first_day(moved.year(), moved.month()))
    }

    /// The first moment at which clocks of the zone show this time, or one that they skipped to.
    fn first_moment_at(&self, local: NaiveDateTime) -> DateTime<Utc> {
        let shown = |local: &NaiveDateTime| match self.zone.from_local_datetime(local) {
            MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => Some(at.to_utc()),
            MappedLocalTime::None => None,
        };
        let minutes = (0..=LONGEST_GAP.num_minutes()).map(TimeDelta::minutes);
        let later = minutes.filter_map(|minutes| local.checked_add_signed(minutes));
        later.into_iter().find_map(|local| shown(&local)).unwrap_or_else(|| local.and_utc())
    }
}

#[derive(Clone, Copy, Debug)]
enum Toward {
    Past,
    Future,
}

impl Month {
    /// Whether a moment falls in it.
    #[must_use]
    pub fn has(&self, at: Wall) -> bool {
        self.begins <= at && at < self.ends
    }

    /// How it is called: by its first day.
    #[must_use]
    pub fn name(&self) -> String {
        self.first.to_string()
    }
}

impl Day {
    /// Whether a moment falls on it.
    #[must_use]
    pub fn has(&self, at: Wall) -> bool {
        self.begins <= at && at < self.ends
    }
}

#[cfg(test)]
mod tests;
