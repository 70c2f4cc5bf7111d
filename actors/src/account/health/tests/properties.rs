//! What is true of every step of every history.

use super::history::Told;
use super::*;
use crate::account::quota::{KnownWindow, WindowState};

/// One step: the account just before (what was over has ended), and just after.
pub(super) struct Moment<'a> {
    pub(super) before: &'a Health,
    pub(super) after: &'a Health,
    pub(super) told: &'a Told,
    pub(super) effects: &'a [Effect],
    pub(super) now: Timestamp,
}

/// The places of holds, in the order of [`Health::holds`].
const AUTH: usize = 0;
const ERRORING: usize = 1;
const ACCOUNT: usize = 2;
const FABLE: usize = 3;
const BUDGET: usize = 4;
const BALANCE: usize = 5;

type Property = fn(&Moment<'_>) -> bool;

const PROPERTIES: &[(&str, Property)] = &[
    ("nothing that is over stays, no deadline lies in the past", nothing_is_overdue),
    ("no hold is shortened", no_hold_is_shortened),
    ("each hold ends only by its own rule", holds_end_by_their_rule),
    ("a served request ends what it must", a_served_request_ends_what_it_must),
    ("a served request verifies the credential", a_served_request_verifies),
    ("evidence of an older credential changes nothing", old_evidence_changes_nothing),
    ("what is the request's own affair teaches nothing", harmless_outcomes_teach_nothing),
    ("headers count whatever the outcome", headers_always_count),
    ("a refusal holds its scope until its stated end", a_refusal_holds_its_scope),
    ("a throttle holds as long as it says", a_throttle_holds_as_it_says),
    ("a balance and a budget hold for a day at most", money_holds_a_day),
    ("clear ends quota and money holds", clear_ends_what_it_must),
    ("a new credential ends auth holds and forgets figures", a_renewal_forgets),
    ("a stepped clock moves no end", a_step_moves_no_end),
    ("a usage poll touches no status", a_poll_touches_no_status),
    ("older figures change nothing", older_figures_change_nothing),
    ("the effects say what changed", effects_say_what_changed),
];

/// The first property that does not hold.
pub(super) fn broken(moment: &Moment<'_>) -> Option<&'static str> {
    PROPERTIES.iter().find(|(_, holds)| !holds(moment)).map(|(name, _)| *name)
}

/// What was seen of an attempt.
pub(super) struct Seen<'a> {
    pub(super) lease: LeaseId,
    pub(super) outcome: &'a Outcome,
    pub(super) scope: ModelScope,
    pub(super) call: CallKind,
    pub(super) sent_at: Timestamp,
    pub(super) generation: Generation,
    pub(super) answered_at: Timestamp,
}

const CUT: Outcome = Outcome::Unreachable { connecting: false };
const NOTHING: Outcome = Outcome::Abandoned;

pub(super) fn seen<'a>(told: &'a Told, now: Timestamp) -> Option<Seen<'a>> {
    match told {
        Told::Answered(Answered { lease, outcome, scope, call, sent_at, generation, answered_at, .. }) => {
            let (lease, scope, call, sent_at) = (*lease, *scope, *call, *sent_at);
            Some(Seen { lease, outcome, scope, call, sent_at, generation: *generation, answered_at: *answered_at })
        }
        Told::Ended(Ended { lease, close, scope, call, sent_at, generation, .. }) => {
            let outcome = match close {
                Close::Broken => &CUT,
                Close::ErrorEvent(Outcome::Served) | Close::Complete | Close::Stalled | Close::ClientGone => &NOTHING,
                Close::ErrorEvent(outcome) => outcome,
            };
            let (lease, scope, call, sent_at) = (*lease, *scope, *call, *sent_at);
            Some(Seen { lease, outcome, scope, call, sent_at, generation: *generation, answered_at: now })
        }
        Told::Polled(_) | Told::Other(_) | Told::Restarted { .. } => None,
    }
}

impl Moment<'_> {
    fn seen(&self) -> Option<Seen<'_>> {
        seen(self.told, self.now).filter(|seen| seen.generation == self.before.generation())
    }

    /// An inference call's outcome on the present credential.
    fn inference(&self) -> Option<Seen<'_>> {
        self.seen().filter(|seen| seen.call == CallKind::Inference)
    }

    fn served(&self) -> Option<Seen<'_>> {
        self.inference().filter(|seen| *seen.outcome == Outcome::Served)
    }

    fn event(&self) -> Option<HealthEvent<'_>> {
        self.told.event()
    }

    fn held(&self, slot: usize) -> (Option<&Hold>, Option<&Hold>) {
        (self.before.holds()[slot], self.after.holds()[slot])
    }

    fn renewed(&self) -> bool {
        self.after.generation() > self.before.generation()
    }
}

fn nothing_is_overdue(moment: &Moment<'_>) -> bool {
    let next = moment.after.next_deadline(moment.now);
    let holds = moment.after.holds();
    next.is_none_or(|next| !next.is_due(moment.now)) && holds.into_iter().flatten().all(|h| !h.until.is_due(moment.now))
}

fn no_hold_is_shortened(moment: &Moment<'_>) -> bool {
    (0..6).all(|slot| match moment.held(slot) {
        (Some(before), Some(after)) => after.until.as_wall(moment.now) >= before.until.as_wall(moment.now),
        (None, _) | (_, None) => true,
    })
}

fn holds_end_by_their_rule(moment: &Moment<'_>) -> bool {
    (0..6).all(|slot| match moment.held(slot) {
        (Some(before), None) => may_end(moment, slot, before),
        (None, _) | (_, Some(_)) => true,
    })
}

fn may_end(moment: &Moment<'_>, slot: usize, hold: &Hold) -> bool {
    let newer = |sent_at: Timestamp| sent_at.boot > hold.began.boot;
    let served = moment.served().filter(|seen| newer(seen.sent_at));
    let valid = match moment.event() {
        Some(HealthEvent::Probed { verdict: Verdict::Valid, sent_at, .. }) => newer(sent_at),
        _ => false,
    };
    let cleared = moment.event() == Some(HealthEvent::Cleared);
    match slot {
        AUTH => served.is_some() || valid || moment.renewed(),
        ERRORING => served.is_some() || valid && hold.cause == Cause::Network,
        ACCOUNT => served.is_some() || cleared || recovered(moment, &moment.before.limits.account),
        FABLE => {
            served.is_some_and(|seen| seen.scope == ModelScope::Fable)
                || cleared
                || recovered(moment, &moment.before.limits.fable)
        }
        BUDGET => cleared || moment.event() == Some(HealthEvent::BudgetRaised),
        _ => cleared,
    }
}

/// Whether every refused window was observed below its threshold since.
fn recovered(moment: &Moment<'_>, limit: &limits::Limit) -> bool {
    let thresholds = moment.after.settings.thresholds;
    let below = |window: &Window| {
        let Some(state) = moment.after.quota().windows.get(window) else { return false };
        let known = KnownWindow::of(window);
        let newer = state.observed_at.is_some_and(|at| at > limit.refused_at);
        newer && known.is_some_and(|known| state.utilization.is_some_and(|used| used < known.limit(&thresholds)))
    };
    !limit.windows.is_empty() && limit.windows.iter().all(below)
}

fn a_served_request_ends_what_it_must(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.served() else { return true };
    let slots: &[usize] =
        if seen.scope == ModelScope::Fable { &[ERRORING, ACCOUNT, FABLE] } else { &[ERRORING, ACCOUNT] };
    slots.iter().all(|slot| match moment.held(*slot) {
        (Some(before), Some(_)) => seen.sent_at.boot <= before.began.boot,
        (None, _) | (_, None) => true,
    })
}

fn a_served_request_verifies(moment: &Moment<'_>) -> bool {
    moment.served().is_none() || !moment.after.credential.unverified
}

fn old_evidence_changes_nothing(moment: &Moment<'_>) -> bool {
    let generation = match moment.told {
        Told::Answered(answered) => answered.generation,
        Told::Ended(ended) => ended.generation,
        Told::Polled(poll) => poll.generation,
        Told::Other(_) | Told::Restarted { .. } => return true,
    };
    generation >= moment.before.generation() || moment.before == moment.after && moment.effects.is_empty()
}

fn harmless_outcomes_teach_nothing(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.seen() else { return true };
    let harmless = match seen.outcome {
        Outcome::Relayed | Outcome::Abandoned | Outcome::HeadTimeout { streaming: false } => true,
        Outcome::Unauthorized | Outcome::OrgRefused => false,
        Outcome::Served
        | Outcome::Quota(_)
        | Outcome::Throttled { .. }
        | Outcome::BalanceEmpty
        | Outcome::ServerFault { .. }
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { .. }
        | Outcome::Blank => seen.call == CallKind::Side,
    };
    let began = (0..6).any(|slot| matches!(moment.held(slot), (None, Some(_))));
    let same = moment.before.auth == moment.after.auth
        && moment.before.erroring == moment.after.erroring
        && moment.before.spend == moment.after.spend
        && moment.before.limits.breather == moment.after.limits.breather;
    !harmless || same && !began
}

fn headers_always_count(moment: &Moment<'_>) -> bool {
    let Told::Answered(answered) = moment.told else { return true };
    if answered.generation != moment.before.generation() {
        return true;
    }
    let mut expected = moment.before.quota().clone();
    if !answered.quota.is_empty() {
        expected.apply(&answered.quota, answered.answered_at, moment.now);
    }
    *moment.after.quota() == expected
}

fn a_refusal_holds_its_scope(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.inference() else { return true };
    let Outcome::Quota(refusal) = seen.outcome else { return true };
    let (slot, other) = match refusal.scope {
        HoldScope::Model(ModelScope::Fable) => (FABLE, ACCOUNT),
        HoldScope::Account | HoldScope::Model(ModelScope::Base) => (ACCOUNT, FABLE),
    };
    let stated = refusal.until.filter(|until| !until.is_due(moment.now));
    let expected = stated.unwrap_or(Deadline::after(moment.now, Duration::from_secs(120)));
    let (other_before, other_after) = moment.held(other);
    let alone = other_after.is_none() || other_before.is_some();
    let holds = match moment.held(slot) {
        (_, None) => false,
        (None, Some(hold)) => hold.until == expected,
        (Some(_), Some(hold)) => hold.until.as_wall(moment.now) >= expected.as_wall(moment.now),
    };
    alone && holds
}

fn a_throttle_holds_as_it_says(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.inference() else { return true };
    let Outcome::Throttled { wait: Some(wait) } = *seen.outcome else { return true };
    let until = Deadline::after(seen.answered_at, wait);
    let expected = (!until.is_due(moment.now)).then_some(until);
    if wait <= Duration::from_secs(10) {
        let (before, after) = moment.held(ACCOUNT);
        let breathes = expected.is_none() || moment.after.limits.breather.is_some();
        return breathes && (before.is_some() || after.is_none());
    }
    match moment.held(ACCOUNT) {
        (None, after) => after.map(|hold| hold.until) == expected,
        (Some(_), after) => after.is_some(),
    }
}

fn money_holds_a_day(moment: &Moment<'_>) -> bool {
    let day = Deadline::after(moment.now, Duration::from_secs(86_400));
    let budget = match (moment.event(), moment.held(BUDGET)) {
        (Some(HealthEvent::BudgetReached { cycle_ends }), (None, after)) => {
            let until = day.sooner(cycle_ends, moment.now);
            after.map(|hold| hold.until) == (!until.is_due(moment.now)).then_some(until)
        }
        _ => true,
    };
    let empty = moment.inference().is_some_and(|seen| *seen.outcome == Outcome::BalanceEmpty);
    let balance = match moment.held(BALANCE) {
        (None, after) => after.map(|hold| hold.until) == empty.then_some(day),
        (Some(_), _) => true,
    };
    budget && balance
}

fn clear_ends_what_it_must(moment: &Moment<'_>) -> bool {
    let ended = [ACCOUNT, FABLE, BUDGET, BALANCE].iter().all(|slot| moment.held(*slot).1.is_none());
    moment.event() != Some(HealthEvent::Cleared)
        || ended && !moment.after.quota().rejected(ModelScope::Fable, moment.now)
}

fn a_renewal_forgets(moment: &Moment<'_>) -> bool {
    let known = |(_, state): (Window, &WindowState)| state.utilization.is_some() || state.status.is_some();
    let Some(HealthEvent::CredentialRenewed { .. }) = moment.event() else { return true };
    let auth = moment.held(AUTH).1.is_none() && !moment.after.auth.on_trial && moment.after.strikes() == 0;
    !moment.renewed() || auth && !moment.after.quota().windows.iter().any(known)
}

fn a_step_moves_no_end(moment: &Moment<'_>) -> bool {
    let Some(HealthEvent::ClockStepped { .. }) = moment.event() else { return true };
    (0..6).all(|slot| moment.held(slot).0.map(|hold| hold.until) == moment.held(slot).1.map(|hold| hold.until))
}

fn a_poll_touches_no_status(moment: &Moment<'_>) -> bool {
    let Told::Polled(_) = moment.told else { return true };
    let statuses = |health: &Health| -> Vec<_> {
        let all = health.quota().windows.iter();
        all.filter(|(_, state)| state.status.is_some())
            .map(|(window, state)| (window, state.status.clone(), state.status_boundary, state.status_observed_at))
            .collect()
    };
    moment.renewed() || statuses(moment.before) == statuses(moment.after)
}

fn older_figures_change_nothing(moment: &Moment<'_>) -> bool {
    let Told::Answered(answered) = moment.told else { return true };
    let dated = Deadline::Boot(answered.answered_at.boot).as_wall(moment.now);
    answered.quota.windows.iter().all(|reading| {
        let before = moment.before.quota().windows.get(&reading.window);
        let newer = before.and_then(|state| state.observed_at.map(|at| (at, state.utilization)));
        let after = moment.after.quota().windows.get(&reading.window).and_then(|state| state.utilization);
        moment.renewed() || newer.is_none_or(|(at, used)| at <= dated || after == used)
    })
}

fn effects_say_what_changed(moment: &Moment<'_>) -> bool {
    let standing = |health: &Health| health.standing(0, EvidenceSeq(0), moment.now);
    let published = moment.effects.contains(&Effect::Publish) || standing(moment.before) == standing(moment.after);
    let kept = moment.effects.contains(&Effect::Persist) || moment.before == moment.after;
    published && kept && moment.after.shown == standing(moment.after).state(moment.now)
}
