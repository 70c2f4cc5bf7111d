//! Every rule by which something ends, on every way through time: with the daemon running, stopped, the machine started
//! anew, asleep, its civil clock set back. What ends, ends at its moment, not before and not later.

use super::*;

/// A way from now to a moment that lies so many seconds of steady time ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The daemon runs and looks now and then.
    Awake,
    /// The machine sleeps: nobody looks until it is over.
    Asleep,
    /// The daemon is stopped and started.
    Restarted,
    /// The daemon is killed once more before it has written anything new.
    RestartedTwice,
    /// The machine is started anew: its steady clock begins from zero.
    Rebooted,
    /// The civil clock is set back by an hour, and the daemon notices.
    SetBack,
    /// The same while the daemon is stopped.
    SetBackWhileStopped,
}

const WAYS: [Way; 7] = [
    Way::Awake,
    Way::Asleep,
    Way::Restarted,
    Way::RestartedTwice,
    Way::Rebooted,
    Way::SetBack,
    Way::SetBackWhileStopped,
];

/// An account that goes through time.
#[derive(Clone)]
struct Traveller {
    health: Health,
    now: Timestamp,
}

impl Traveller {
    fn new(subject: Subject) -> Self {
        Self { health: subject.health, now: at(0) }
    }

    fn passes(&mut self, seconds: i64) {
        self.now = self.now.plus(Duration::from_secs(u64::try_from(seconds).expect("forward")));
    }

    fn looks(&mut self) {
        self.health.apply(HealthEvent::Ticked, self.now);
    }

    fn steps(&mut self, by: i64) {
        self.now.wall = Wall(self.now.wall.0 + by * 1000);
    }

    fn kept(&self) -> String {
        serde_json::to_string(&Snapshot::take(&self.health, self.now)).expect("it can be kept")
    }

    fn comes_back(&mut self, kept: &str) {
        let read: Snapshot = serde_json::from_str(kept).expect("it reads back");
        self.health = read.restore(AccountId(7), Settings::default(), self.now).expect("of this version");
        self.looks();
    }

    /// Goes so many seconds, by this way.
    fn goes(&mut self, way: Way, seconds: i64) {
        let (first, rest) = (seconds / 3, seconds - seconds / 3);
        self.passes(first);
        self.looks();
        let kept = self.kept();
        match way {
            Way::Awake => {
                for _ in 0..rest {
                    self.passes(1);
                    if self.health.next_deadline(self.now).is_some_and(|next| next.is_due(self.now)) {
                        self.looks();
                    }
                }
            }
            Way::Asleep => self.passes(rest),
            Way::Restarted => {
                self.passes(rest / 2);
                self.comes_back(&kept);
                self.passes(rest - rest / 2);
            }
            Way::RestartedTwice => {
                self.passes(rest / 2);
                self.clone().comes_back(&kept);
                self.passes(rest - rest / 2);
                self.comes_back(&kept);
            }
            Way::Rebooted => {
                self.passes(rest / 2);
                self.now.boot = Boot(9_000);
                self.comes_back(&kept);
                self.passes(rest - rest / 2);
            }
            Way::SetBack => {
                self.steps(-HOUR);
                self.health.apply(HealthEvent::ClockStepped { by_ms: -HOUR * 1000 }, self.now);
                self.passes(rest);
            }
            Way::SetBackWhileStopped => {
                self.passes(rest / 2);
                self.steps(-HOUR);
                self.comes_back(&kept);
                self.passes(rest - rest / 2);
            }
        }
        self.looks();
    }
}

/// What a rule ends, and when.
struct Rule {
    name: &'static str,
    subject: Subject,
    holds: fn(&Health, Timestamp) -> bool,
    lasts: Lasts,
}

#[derive(Clone, Copy)]
enum Lasts {
    /// So many seconds, whatever the civil clock shows.
    Seconds(i64),
    /// Until the civil moment that was so many seconds ahead when it was stated.
    UntilStated(i64),
}

impl Lasts {
    /// Seconds of steady time to its end, on this way.
    fn on(self, way: Way) -> i64 {
        match (self, way) {
            (Self::UntilStated(seconds), Way::SetBack | Way::SetBackWhileStopped) => seconds + HOUR,
            (Self::UntilStated(seconds) | Self::Seconds(seconds), _) => seconds,
        }
    }
}

fn window<'a>(health: &'a Health, name: &str) -> Option<&'a crate::account::quota::WindowState> {
    health.quota().windows.get(&Window::from_name(name))
}

fn has_hold(health: &Health, kind: HoldKind, now: Timestamp) -> bool {
    health.standing(0, EvidenceSeq(0), now).holds.iter().any(|hold| hold.kind == kind)
}

fn told_of(outcome: Outcome) -> Subject {
    let mut subject = Subject::default();
    subject.answer(0, 0, outcome);
    subject
}

fn showing(quota: QuotaReading) -> Subject {
    let mut subject = Subject::default();
    subject.shows(0, Outcome::Served, quota);
    subject
}

fn status_without_reset(name: &str) -> QuotaReading {
    let window = WindowReading {
        window: Window::from_name(name),
        utilization: None,
        reset: None,
        status: Some(QuotaStatus::Rejected),
    };
    QuotaReading { windows: vec![window], ..QuotaReading::default() }
}

fn rules() -> Vec<Rule> {
    let rule = |name, subject, holds, lasts| Rule { name, subject, holds, lasts };
    let mut struck = told_of(server_fault(None));
    struck.answer(1, 1, server_fault(None));
    vec![
        rule(
            "a figure until its reset",
            showing(figures(&[("5h", 0.98)], 2 * HOUR)),
            |health, _| window(health, "5h").is_some_and(|state| state.utilization.is_some()),
            Lasts::UntilStated(2 * HOUR),
        ),
        rule(
            "a figure as long as its window, if its reset is later",
            showing(figures(&[("5h", 0.98)], 5 * HOUR + 1000)),
            |health, _| window(health, "5h").is_some_and(|state| state.utilization.is_some()),
            Lasts::Seconds(5 * HOUR),
        ),
        rule(
            "the reset itself longer than its figure",
            showing(figures(&[("5h", 0.98)], 5 * HOUR + 1000)),
            |health, _| window(health, "5h").is_some_and(|state| state.reset.is_some()),
            Lasts::UntilStated(5 * HOUR + 1000),
        ),
        rule(
            "a refusal's status until the reset that was known",
            showing(rejected("7d", 3 * HOUR)),
            |health, _| window(health, "7d").is_some_and(|state| state.status.is_some()),
            Lasts::UntilStated(3 * HOUR),
        ),
        rule(
            "a status without a reset as long as its window",
            showing(status_without_reset("5h")),
            |health, _| window(health, "5h").is_some_and(|state| state.status.is_some()),
            Lasts::Seconds(5 * HOUR),
        ),
        rule(
            "an unknown window for a week",
            showing(status_without_reset("30d")),
            |health, _| window(health, "30d").is_some(),
            Lasts::Seconds(7 * DAY),
        ),
        rule(
            "the aggregate for a week",
            showing(QuotaReading { status: Some(QuotaStatus::Rejected), ..QuotaReading::default() }),
            |health, _| health.quota().aggregate.is_some(),
            Lasts::Seconds(7 * DAY),
        ),
        rule(
            "a hold with a stated end",
            told_of(quota_refused(Some(stated(4 * HOUR)))),
            |health, now| has_hold(health, HoldKind::RateLimited, now),
            Lasts::UntilStated(4 * HOUR),
        ),
        rule(
            "a hold of a model scope",
            told_of(fable_refused(Some(stated(4 * HOUR)))),
            |health, now| health.standing(0, EvidenceSeq(0), now).fable_hold.is_some(),
            Lasts::UntilStated(4 * HOUR),
        ),
        rule(
            "a throttle's wait",
            told_of(throttled(Some(4000))),
            |health, now| has_hold(health, HoldKind::RateLimited, now),
            Lasts::Seconds(4000),
        ),
        rule(
            "an empty balance for a day",
            told_of(Outcome::BalanceEmpty),
            |health, now| has_hold(health, HoldKind::BudgetExhausted, now),
            Lasts::Seconds(DAY),
        ),
        rule(
            "a refused credential",
            told_of(Outcome::Unauthorized),
            |health, now| has_hold(health, HoldKind::AuthDead, now),
            Lasts::Seconds(15 * MINUTE),
        ),
        rule(
            "the wait after errors",
            struck,
            |health, now| has_hold(health, HoldKind::Erroring, now),
            Lasts::Seconds(31),
        ),
        rule(
            "a stated wait after an error",
            told_of(server_fault(Some(600))),
            |health, now| has_hold(health, HoldKind::Erroring, now),
            Lasts::Seconds(600),
        ),
    ]
}

#[test]
fn whatever_ends_does_so_at_its_moment_on_every_way_through_time() {
    for rule in rules() {
        for way in WAYS {
            let lasts = rule.lasts.on(way);
            for (seconds, there) in [(lasts - 1, true), (lasts, false)] {
                let mut account = Traveller::new(rule.subject.clone());
                assert!((rule.holds)(&account.health, account.now), "{} at its beginning", rule.name);
                account.goes(way, seconds);
                let is_there = (rule.holds)(&account.health, account.now);
                assert_eq!(is_there, there, "{}, {way:?}, after {seconds} of {lasts} s", rule.name);
            }
        }
    }
}

/// Strikes, a pause and what an operator did have no end of their own.
#[test]
fn what_has_no_end_is_there_after_every_way() {
    for way in WAYS {
        let mut account = told_of(Outcome::Unauthorized);
        account.hears(1, HealthEvent::Paused);
        let mut account = Traveller::new(account);
        account.goes(way, 30 * DAY);
        assert_eq!(account.health.strikes(), 1, "{way:?}");
        let standing = account.health.standing(0, EvidenceSeq(0), account.now);
        assert_eq!((standing.paused, standing.on_trial), (Paused::Yes, true), "{way:?}");
    }
}

/// Case C43: nothing but a provider's word may bring an account back whose figures are of before.
#[test]
fn a_new_credential_or_a_clear_forgets_the_figures_of_before_on_every_way() {
    for way in WAYS {
        for event in
            [HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed }, HealthEvent::Cleared]
        {
            let mut account = Traveller::new(showing(figures(&[("7d", 0.98)], 3 * DAY)));
            account.goes(way, DAY);
            let near = |account: &Traveller| {
                let limits = WindowLimits::all(0.98);
                account.health.quota().near(ModelScope::Base, &limits, crate::roster::BurnRate::Ignore, account.now)
            };
            assert!(near(&account).is_some(), "{way:?}");
            account.health.apply(event, account.now);
            assert_eq!(near(&account), None, "{way:?}");
        }
    }
}
