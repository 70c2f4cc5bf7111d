//! Rules that tests break on purpose: for each of them some property must fail, else nothing guards the rule.

use std::cell::Cell;

/// One rule, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An older observation overwrites a newer one.
    StaleFiguresApply,
    /// A later figure moves the boundary of a status.
    BoundaryMoves,
    /// Evidence of a credential that is no longer in use counts.
    OldGenerationCounts,
    /// A new hold replaces a longer one.
    HoldShortened,
    /// A success ends a hold that began after it was sent.
    LateSuccessEnds,
    /// A stated wait is cut to a quarter of an hour.
    StatedWaitClamped,
    /// A success outside the scope ends the scope's hold too.
    BaseSuccessEndsFable,
    /// A refusal of a scope holds the whole account.
    ScopeRefusalHoldsAll,
    /// An observation ends a hold of which one refused window is still over its threshold.
    OneWindowIsEnough,
    /// An observation as old as the refusal ends the hold.
    OldObservationEnds,
    /// Windows that did not refuse end a throttle.
    ObservationEndsThrottle,
    /// Every bare throttle waits five seconds.
    LadderStuck,
    /// Parallel throttles climb the ladder.
    ParallelClimbs,
    /// A short stated throttle is a hold.
    BreatherHolds,
    /// Parallel refusals of a credential add strikes.
    ParallelStrikes,
    /// A refused probe during an auth hold adds a strike.
    ProbeStrikes,
    /// Strikes do not double the hold.
    StrikesForgotten,
    /// An ended auth hold is simply healthy.
    NoTrial,
    /// A served request leaves an account on trial.
    TrialNeverHeals,
    /// The first failure begins the hold.
    FirstFailureHolds,
    /// Two failures count however far apart.
    StrikeNeverAges,
    /// A success between two failures does not count.
    SuccessKeepsStrike,
    /// A stream that breaks has forgiven what was before it all the same.
    BrokenForgives,
    /// Parallel failures double the back-off.
    ParallelDoubles,
    /// The back-off does not double.
    NeverDoubles,
    /// The back-off has no upper end.
    BackOffUnbounded,
    /// A success leaves the doubling.
    DoublingKept,
    /// A client's own error counts as a failure.
    ClientErrorCounts,
    /// A call beside inference counts as a failure.
    SideCallCounts,
    /// A served request ends the hold of an empty balance.
    ServedEndsBalance,
    /// A raised cap ends the hold of an empty balance.
    RaiseEndsBalance,
    /// A cap's hold outlasts the billing cycle.
    BudgetOutlastsCycle,
    /// A new credential leaves auth holds.
    RenewalKeepsAuth,
    /// A new credential leaves the old figures.
    RenewalKeepsFigures,
    /// A new credential ends a quota hold.
    RenewalEndsQuotaHold,
    /// Clear ends an auth hold.
    ClearEndsAuth,
    /// A probe ends a quota hold.
    ProbeEndsQuotaHold,
    /// A probe ends a back-off whatever its cause.
    ProbeEndsAnyBackOff,
    /// A stepped clock moves a stated reset.
    StepMovesReset,
    /// Time that passed while stopped does not count.
    RestartStopsClock,
    /// A hold that is over stays.
    HoldsNeverEnd,
    /// Headers of a relayed answer are not read.
    RelayedQuotaIgnored,
    /// A judgement counts a figure whose reset is past.
    OldFigureJudged,
    /// A judgement counts a status whose boundary is past.
    OldStatusJudged,
    /// Unverified stays after a served request.
    NeverVerified,
}

impl Fault {
    pub(crate) const ALL: &'static [Self] = &[
        Self::StaleFiguresApply,
        Self::BoundaryMoves,
        Self::OldGenerationCounts,
        Self::HoldShortened,
        Self::LateSuccessEnds,
        Self::StatedWaitClamped,
        Self::BaseSuccessEndsFable,
        Self::ScopeRefusalHoldsAll,
        Self::OneWindowIsEnough,
        Self::OldObservationEnds,
        Self::ObservationEndsThrottle,
        Self::LadderStuck,
        Self::ParallelClimbs,
        Self::BreatherHolds,
        Self::ParallelStrikes,
        Self::ProbeStrikes,
        Self::StrikesForgotten,
        Self::NoTrial,
        Self::TrialNeverHeals,
        Self::FirstFailureHolds,
        Self::StrikeNeverAges,
        Self::SuccessKeepsStrike,
        Self::BrokenForgives,
        Self::ParallelDoubles,
        Self::NeverDoubles,
        Self::BackOffUnbounded,
        Self::DoublingKept,
        Self::ClientErrorCounts,
        Self::SideCallCounts,
        Self::ServedEndsBalance,
        Self::RaiseEndsBalance,
        Self::BudgetOutlastsCycle,
        Self::RenewalKeepsAuth,
        Self::RenewalKeepsFigures,
        Self::RenewalEndsQuotaHold,
        Self::ClearEndsAuth,
        Self::ProbeEndsQuotaHold,
        Self::ProbeEndsAnyBackOff,
        Self::StepMovesReset,
        Self::RestartStopsClock,
        Self::HoldsNeverEnd,
        Self::RelayedQuotaIgnored,
        Self::OldFigureJudged,
        Self::OldStatusJudged,
        Self::NeverVerified,
    ];
}

thread_local! {
    static ON: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Whether this rule is broken on this thread.
pub(crate) fn is_on(fault: Fault) -> bool {
    ON.get() == Some(fault)
}

/// Runs with this rule broken on this thread.
pub(crate) fn with<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
    ON.set(Some(fault));
    let result = run();
    ON.set(None);
    result
}
