//! Does this machine's clock agree with the providers'? Resets are stated by theirs.

use super::Network;
use super::accounts::Reading;
use super::finding::{Finding, Group};

/// More than this is no delay on the way: seconds.
const APART: i64 = 60;

pub(super) fn look(readings: &[Reading], network: Network) -> Vec<Finding> {
    const WHAT: &str = "clock";
    let apart = readings.iter().map(|reading| reading.ours.0 / 1000 - reading.theirs.timestamp());
    let finding = match apart.min_by_key(|apart| apart.abs()) {
        Some(apart) if apart.abs() <= APART => Finding::pass(Group::Clock, WHAT, "agrees with the providers'"),
        Some(apart) => {
            let way = if apart > 0 { "ahead of" } else { "behind" };
            let finding = format!("{} s {way} the providers'", apart.abs());
            Finding::warn(Group::Clock, WHAT, finding).advised("set it; resets and expiries are off by so much")
        }
        None if network == Network::LeftAlone => Finding::pass(Group::Clock, WHAT, "not compared (--offline)"),
        None => Finding::pass(Group::Clock, WHAT, "not compared: no provider answered"),
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use duduclaw_actors::clock::Wall;

    use super::super::Mark;
    use super::*;

    fn reading(ours: i64) -> Reading {
        Reading { theirs: DateTime::from_timestamp(1_796_000_000, 0).expect("a time"), ours: Wall(ours * 1000) }
    }

    #[test]
    fn a_clock_that_is_a_minute_off_is_told_by_how_much_and_which_way() {
        let of = |ours: &[i64]| {
            let readings: Vec<_> = ours.iter().map(|ours| reading(1_796_000_000 + ours)).collect();
            look(&readings, Network::Asked).remove(0)
        };
        assert_eq!(of(&[60]).mark, Mark::Pass);
        assert_eq!(of(&[-61]).finding, "61 s behind the providers'");
        assert_eq!(of(&[7200]).finding, "7200 s ahead of the providers'");
        assert_eq!(of(&[7200, 3]).mark, Mark::Pass, "one of them is wrong, and not we");
        assert_eq!(of(&[]).mark, Mark::Pass);
    }
}
