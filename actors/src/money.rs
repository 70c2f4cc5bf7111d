//! Money as the program counts it: whole micro-dollars, so that sums are exact.
//!
//! Never here: prices, budgets.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Above this many dollars an amount is a slip of the pen.
const MOST_DOLLARS: f64 = 1e9;

/// An amount in micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub i64);

impl Micros {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many US dollars, to the nearest micro-dollar. None if that is no amount: negative, infinite, no number, or more
    /// than a billion.
    #[must_use]
    pub fn of_dollars(dollars: f64) -> Option<Self> {
        (0.0..=MOST_DOLLARS).contains(&dollars).then(|| Self((dollars * 1e6).round() as i64))
    }

    /// The same in US dollars, for JSON and people.
    #[must_use]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// In dollars, with as many decimals as it has, and at least two: `$12.50`, `$0.0884`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.0.unsigned_abs();
        let decimals = format!("{:06}", amount % 1_000_000);
        let (cents, more) = decimals.split_at(2);
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}${}.{cents}{}", amount / 1_000_000, more.trim_end_matches('0'))
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Micros {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Micros {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Micros {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_amount_is_none() {
        assert_eq!(Micros::of_dollars(7.75), Some(Micros(7_750_000)));
        assert_eq!(Micros::of_dollars(0.0884), Some(Micros(88_400)));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.01, 1e10] {
            assert_eq!(Micros::of_dollars(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_amount_is_shown_to_the_micro_dollar() {
        assert_eq!(serde_json::to_string(&Micros(7_750_000).dollars()).unwrap(), "7.75");
        assert_eq!(serde_json::to_string(&Micros(1).dollars()).unwrap(), "1e-6");
        assert_eq!([Micros(3), Micros(-1)].into_iter().sum::<Micros>(), Micros(2));
    }
}
