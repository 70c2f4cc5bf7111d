//! Why an account cannot serve a request, in words: for final answers and for whoever asks for the order.

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::failover::demand::Why;
use duduclaw_actors::failover::ledger::{OverBudget, Whose};
use duduclaw_actors::standing::Stated;

/// Why an account cannot serve, as part of a sentence that begins with its name.
pub(crate) fn words(name: &str, why: &Why, now: Timestamp) -> String {
    match why {
        Why::Disabled => format!("{name} is disabled in the configuration"),
        Why::Paused => format!("{name} is paused by the operator"),
        Why::NeedsPerson(cause) => format!("{name} needs a person ({})", cause.as_str()),
        Why::NeedsLogin => format!("{name} needs a login"),
        Why::Keychain => format!("{name} is a CLI's own login, which the gateway cannot use"),
        Why::Capped(Some(until)) => format!("{name} is at its cap until {}", moment(*until, now)),
        Why::Capped(None) => format!("{name} is at its cap"),
        Why::OverBudget(OverBudget { whose: Whose::Account, resets, .. }) => {
            format!("{name} has too little of its budget left until {}", moment(Deadline::Wall(*resets), now))
        }
        Why::OverBudget(OverBudget { whose: Whose::Client | Whose::Agent, .. }) => {
            format!("{name} costs more than the budget of whoever asks has left")
        }
        Why::Held { cause, until, stated: Stated::ByProvider } => {
            format!("{name} waits until {} ({})", moment(*until, now), cause.as_str())
        }
        Why::Held { cause, until, stated: Stated::Guessed } => {
            format!("{name} rests until about {} ({})", moment(*until, now), cause.as_str())
        }
        Why::Breather(until) => format!("{name} takes a breather until {}", moment(*until, now)),
        Why::Tried => format!("{name} was tried"),
        Why::Busy => format!("{name} has too many requests waiting"),
        Why::HopLimit | Why::RetryBudget => format!("{name} was not tried, to spare the provider further attempts"),
    }
}

/// A moment, for people.
pub(crate) fn moment(at: Deadline, now: Timestamp) -> String {
    let seconds = at.as_wall(now).as_secs();
    chrono::DateTime::from_timestamp(seconds, 0)
        .map_or_else(|| "a distant day".to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// When this is over, also where a person or a check must say whether the account is well again.
#[expect(clippy::wildcard_enum_match_arm, reason = "all but holds end when the candidate returns")]
pub(crate) fn ends_at(why: &Why) -> Option<Deadline> {
    match why {
        Why::Held { until, .. } => Some(*until),
        other => other.returns_at(),
    }
}
