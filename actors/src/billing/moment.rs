//! Moments as people write them to say from when to when: a day, a moment, or a span back from now.

use chrono::{DateTime, Days, NaiveDate};

use super::BillingCycle;
use crate::clock::Wall;

/// How a moment is written, as a regular expression; what fits may still be no day of the calendar.
pub const MOMENT: &str = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))?|[0-9]{1,5}[mhdw])$";

/// Which end of a period a moment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// From then on: a day begins with its first moment.
    From,
    /// Until then: a day belongs to the period.
    Until,
}

/// What is written is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no moment; write a day such as 2026-11-01, a moment such as 2026-11-01T08:00:00Z, or a span back from \
     now such as 7d, 36h or 90m"
)]
pub struct MomentError(pub String);

impl BillingCycle {
    /// The moment that is written. Days are those of the zone, and a span of days is so many times 24 hours.
    ///
    /// # Errors
    /// When it is none.
    pub fn moment(&self, text: &str, edge: Edge, now: Wall) -> Result<Wall, MomentError> {
        let day = Some(text).filter(|text| is_day(text)).and_then(|text| text.parse().ok());
        let moment = || DateTime::parse_from_rfc3339(text).ok().map(|at| Wall(at.timestamp_millis()));
        let found = day.and_then(|day| self.edge(day, edge)).or_else(moment).or_else(|| before(text, now));
        found.ok_or_else(|| MomentError(text.to_owned()))
    }

    fn edge(&self, day: NaiveDate, edge: Edge) -> Option<Wall> {
        match edge {
            Edge::From => Some(self.midnight(day)),
            Edge::Until => day.checked_add_days(Days::new(1)).map(|next| self.midnight(next)),
        }
    }
}

fn is_day(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// So long before now.
fn before(text: &str, now: Wall) -> Option<Wall> {
    let unit = text.chars().last()?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: i64 = digits.parse().ok().filter(|_| is_number)?;
    let back = count.checked_mul(minutes)?.checked_mul(60_000)?;
    now.0.checked_sub(back).map(Wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Midnight in Taipei, eight hours before Greenwich.
    const TODAY: &str = "2026-11-30T00:00:00+08:00";

    fn taipei(text: &str, edge: Edge) -> Result<Wall, MomentError> {
        let now = DateTime::parse_from_rfc3339(TODAY).expect("it is one").timestamp_millis();
        BillingCycle::new("Asia/Taipei", 1).expect("it is a zone").moment(text, edge, Wall(now + 3_600_000))
    }

    fn at(text: &str) -> Wall {
        Wall(DateTime::parse_from_rfc3339(text).expect("it is one").timestamp_millis())
    }

    #[test]
    fn a_day_is_the_zones_and_belongs_to_a_period_that_it_ends() {
        assert_eq!(taipei("2026-11-30", Edge::From), Ok(at(TODAY)));
        assert_eq!(taipei("2026-11-29", Edge::Until), Ok(at(TODAY)));
    }

    #[test]
    fn a_moment_is_the_same_at_either_end_whatever_its_zone() {
        for edge in [Edge::From, Edge::Until] {
            assert_eq!(taipei("2026-11-29T16:00:00Z", edge), Ok(at(TODAY)));
            assert_eq!(taipei(TODAY, edge), Ok(at(TODAY)));
        }
    }

    #[test]
    fn a_span_counts_back_from_now() {
        for text in ["60m", "1h"] {
            assert_eq!(taipei(text, Edge::From), Ok(at(TODAY)), "{text}");
        }
        assert_eq!(taipei("7d", Edge::From), taipei("1w", Edge::Until));
        assert_eq!(taipei("7d", Edge::From), Ok(at("2026-11-22T17:00:00Z")));
    }

    #[test]
    fn anything_else_is_refused_with_what_to_write() {
        for text in [
            "",
            "soon",
            "7",
            "d",
            "-7d",
            "+7d",
            "7 d",
            "2026-13-01",
            "2026-02-30",
            "2026-11-01T08:00",
            "1y",
            "100000m",
            "+2026-11-01",
            "é",
            " 7d",
            "2026-11-01 ",
        ] {
            let refused = taipei(text, Edge::From).expect_err(text);
            assert!(refused.to_string().contains("7d, 36h or 90m"), "{refused}");
        }
    }
}
