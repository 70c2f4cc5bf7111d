//! Switches that break one rule each, so that the tests can show that a property watches it.
//!
//! Outside the tests every rule stands: [`broken`] is a constant `false`.

/// A rule of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A paused account gets no lease.
    PausedIsRemoved,
    /// A disabled account gets no lease.
    DisabledIsRemoved,
    /// An account at its cap gets no lease.
    CappedIsRemoved,
    /// A refused credential gets no lease.
    DeadAuthIsRemoved,
    /// An account is tried once per request.
    TriedIsExcluded,
    /// A better band goes first.
    BandsAreOrdered,
    /// A conversation stays on its usable account.
    BoundComesFirst,
    /// A membership change moves few new placements.
    RendezvousPlaces,
    /// Equal inputs give equal plans.
    PlansAreEqual,
    /// A held account is used through its probe slot, one at a time.
    OneProbeInFlight,
    /// A probe waits for its due time.
    ProbeWaitsUntilDue,
    /// A request spends one probe.
    OneProbePerRequest,
    /// Local knowledge never empties the plan.
    NearServes,
    /// A trial is one request at a time.
    OneTrialInFlight,
    /// Near a cap one request at a time.
    CapGuardIsOne,
    /// A local server's bound is kept.
    ConcurrencyIsBounded,
    /// A cold account starts with few.
    RampStartsLow,
    /// Retries are bounded.
    RetryBudgetBounds,
    /// A lease that ends is returned.
    EndedIsReturned,
    /// An unsent lease leaves no trace.
    UnsentLeavesNoTrace,
    /// A breather is waited out only by those bound to it.
    BreatherSendsOthersAway,
    /// The last answer counts at once.
    LastAnswerCountsAtOnce,
    /// A 429 that states nothing allows one hop.
    OneHopUnstated,
    /// Three detours move a conversation.
    DetoursMove,
    /// A request that would exceed a budget gets no lease.
    BudgetsAreKept,
    /// What is set aside is not there for others.
    SetAsideCounts,
    /// What is settled is spent.
    SettledIsSpent,
    /// What was set aside for a settled lease is given back.
    SettledIsGivenBack,
    /// What was set aside for a lease that came to nothing is given back.
    ReleaseGivesBack,
    /// A stream adds to what was set aside for it.
    StreamsExtend,
    /// Each month has its own.
    MonthsAreApart,
}

#[cfg(test)]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Whether a test has broken this rule.
#[cfg(test)]
pub(super) fn broken(rule: Rule) -> bool {
    BROKEN.get() == Some(rule)
}

/// No rule is broken.
#[cfg(not(test))]
pub(super) const fn broken(_rule: Rule) -> bool {
    false
}

/// Runs `body` with one rule broken.
#[cfg(test)]
pub(super) fn with_broken<T>(rule: Rule, body: impl FnOnce() -> T) -> T {
    BROKEN.set(Some(rule));
    let result = body();
    BROKEN.set(None);
    result
}
