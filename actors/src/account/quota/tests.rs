use super::*;
use crate::clock::{Boot, Deadline, Timestamp};
use crate::outcome::{QuotaReading, WindowReading};
use crate::roster::BurnRate;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const BASE: ModelScope = ModelScope::Base;
const FABLE: ModelScope = ModelScope::Fable;

/// The two clocks differ, so that a rule that mixes them up shows.
fn at(seconds: i64) -> Timestamp {
    Timestamp { wall: wall(seconds), boot: Boot(5_000_000 + seconds * 1000) }
}

fn wall(seconds: i64) -> Wall {
    Wall::from_secs(1_800_000_000 + seconds)
}

#[derive(Clone, Copy)]
struct Figures<'a> {
    window: &'a str,
    used: Option<f64>,
    reset: Option<i64>,
    status: Option<&'a str>,
}

fn used(window: &str, used: f64, reset: i64) -> Figures<'_> {
    Figures { window, used: Some(used), reset: Some(reset), status: None }
}

fn said<'a>(window: &'a str, status: &'a str) -> Figures<'a> {
    Figures { window, used: None, reset: None, status: Some(status) }
}

fn status(word: &str) -> QuotaStatus {
    match word {
        "allowed" => QuotaStatus::Allowed,
        "rejected" => QuotaStatus::Rejected,
        other => QuotaStatus::Unknown(other.to_owned()),
    }
}

fn window(figures: &Figures<'_>) -> WindowReading {
    WindowReading {
        window: Window::from_name(figures.window),
        utilization: figures.used,
        reset: figures.reset.map(wall),
        status: figures.status.map(status),
    }
}

fn reading(figures: &[Figures<'_>]) -> QuotaReading {
    QuotaReading { windows: figures.iter().map(window).collect(), ..QuotaReading::default() }
}

fn aggregate(word: &str) -> QuotaReading {
    QuotaReading { status: Some(status(word)), ..QuotaReading::default() }
}

fn seen(figures: &[Figures<'_>]) -> Quota {
    let mut quota = Quota::default();
    quota.apply(&reading(figures), at(0), at(0));
    quota
}

fn state(quota: &Quota, name: &str) -> WindowState {
    quota.windows.get(&Window::from_name(name)).cloned().unwrap_or_default()
}

fn limits() -> WindowLimits {
    WindowLimits { five_hour: 0.9, weekly: 0.8, fable: 0.7 }
}

fn near(quota: &Quota, scope: ModelScope, seconds: i64) -> Option<NearCause> {
    quota.near(scope, &limits(), BurnRate::Ignore, at(seconds))
}

#[test]
fn a_figure_is_forgotten_with_its_reset() {
    let mut quota = seen(&[used("5h", 0.95, HOUR)]);
    assert_eq!(near(&quota, BASE, HOUR - 1), Some(NearCause::Threshold(KnownWindow::FiveHour)));
    assert_eq!(near(&quota, BASE, HOUR), None, "judged without a write");
    quota.expire(at(HOUR));
    assert_eq!(state(&quota, "5h"), WindowState::default());
}

#[test]
fn an_old_observation_is_forgotten_and_its_reset_kept() {
    let mut quota = seen(&[used("7d", 0.95, 7 * DAY + HOUR)]);
    assert_eq!(near(&quota, BASE, 7 * DAY - 1), Some(NearCause::Threshold(KnownWindow::Weekly)));
    assert_eq!(near(&quota, BASE, 7 * DAY), None);
    assert_eq!(quota.weekly_reset(BASE, at(7 * DAY)), Some(wall(7 * DAY + HOUR)));
    quota.expire(at(7 * DAY));
    let bare = WindowState { reset: Some(wall(7 * DAY + HOUR)), ..WindowState::default() };
    assert_eq!(state(&quota, "7d"), bare);
}

#[test]
fn an_unknown_window_lives_for_a_week() {
    let quota = seen(&[said("30d_zz", "rejected")]);
    assert!(quota.rejected(BASE, at(7 * DAY - 1)));
    assert!(!quota.rejected(BASE, at(7 * DAY)));
}

#[test]
fn a_status_ends_at_the_reset_that_was_known_when_it_was_seen() {
    let mut quota = seen(&[Figures { status: Some("rejected"), ..used("5h", 1.0, HOUR) }]);
    quota.apply(&reading(&[used("5h", 0.2, 4 * HOUR)]), at(60), at(60));
    assert_eq!(state(&quota, "5h").status_boundary, Some(wall(HOUR)), "a later update does not move it");
    assert!(quota.rejected(BASE, at(HOUR - 1)));
    assert!(!quota.rejected(BASE, at(HOUR)));
    quota.expire(at(HOUR));
    let left = state(&quota, "5h");
    assert_eq!((left.status, left.status_observed_at, left.status_boundary), (None, None, None));
    assert_eq!(left.utilization, Some(0.2), "the utilization has a life of its own");
}

#[test]
fn a_status_without_a_known_reset_lives_as_long_as_its_window() {
    let mut quota = seen(&[said("5h", "rejected")]);
    quota.apply(&reading(&[Figures { status: None, used: None, ..used("5h", 0.0, 4 * HOUR) }]), at(60), at(60));
    assert_eq!(state(&quota, "5h").status_boundary, None, "a reset that came later is not its boundary");
    assert!(quota.rejected(BASE, at(5 * HOUR - 1)));
    assert!(!quota.rejected(BASE, at(5 * HOUR)));
}

#[test]
fn a_write_without_a_reset_keeps_the_stored_one_only_while_it_is_ahead() {
    let mut quota = seen(&[used("5h", 0.5, HOUR)]);
    let bare = Figures { reset: None, status: Some("allowed"), ..used("5h", 0.6, 0) };
    quota.apply(&reading(&[bare]), at(60), at(60));
    assert_eq!(state(&quota, "5h").reset, Some(wall(HOUR)));
    assert_eq!(state(&quota, "5h").status_boundary, Some(wall(HOUR)));
    quota.apply(&reading(&[bare]), at(HOUR), at(HOUR));
    let after = state(&quota, "5h");
    assert_eq!((after.utilization, after.reset, after.status_boundary), (Some(0.6), None, None));
}

#[test]
fn figures_apply_only_if_they_are_not_older_than_the_stored_ones() {
    let mut quota = seen(&[used("5h", 0.5, HOUR)]);
    quota.apply(&reading(&[used("5h", 0.1, 2 * HOUR)]), at(-1), at(5));
    assert_eq!((state(&quota, "5h").utilization, state(&quota, "5h").reset), (Some(0.5), Some(wall(HOUR))));
    quota.apply(&reading(&[used("5h", 0.6, HOUR)]), at(0), at(5));
    assert_eq!(state(&quota, "5h").utilization, Some(0.6), "of the same moment is not older");
    assert_eq!(state(&quota, "5h").observed_at, Some(wall(0)));
}

#[test]
fn an_older_status_does_not_replace_a_newer_one() {
    let mut quota = seen(&[said("5h", "rejected")]);
    quota.apply(&reading(&[said("5h", "allowed")]), at(-1), at(5));
    assert!(quota.rejected(BASE, at(5)));
    quota.apply(&reading(&[said("5h", "allowed")]), at(1), at(5));
    assert!(!quota.rejected(BASE, at(5)));
}

#[test]
fn absurd_resets_and_shares_count_as_not_stated() {
    for reset in [-1, 0, 5 * HOUR + 1801, i64::MAX / 4000] {
        let after = state(&seen(&[used("5h", 0.5, reset)]), "5h");
        assert_eq!((after.utilization, after.reset), (Some(0.5), None), "{reset}");
    }
    assert_eq!(state(&seen(&[used("5h", 0.5, 5 * HOUR + 1800)]), "5h").reset, Some(wall(5 * HOUR + 1800)));
    for share in [f64::NAN, f64::INFINITY, -0.1] {
        assert_eq!(state(&seen(&[used("5h", share, HOUR)]), "5h").utilization, None, "{share}");
    }
}

#[test]
fn a_figure_whose_window_is_over_when_it_arrives_is_not_kept() {
    let mut quota = Quota::default();
    quota.apply(&reading(&[used("5h", 0.97, 10)]), at(5), at(11));
    assert_eq!(state(&quota, "5h"), WindowState::default());
}

#[test]
fn a_usage_poll_writes_figures_and_never_a_status() {
    let mut quota = seen(&[Figures { status: Some("rejected"), ..used("5h", 1.0, HOUR) }, used("7d", 0.3, DAY)]);
    let before = state(&quota, "5h");
    let poll = [window(&Figures { status: Some("allowed"), ..used("5h", 0.1, 4 * HOUR) })];
    quota.apply_usage(&poll, at(60), at(60));
    let after = state(&quota, "5h");
    assert_eq!((after.utilization, after.reset), (Some(0.1), Some(wall(4 * HOUR))));
    assert_eq!(after.observed_at, Some(wall(60)));
    assert_eq!(
        (after.status, after.status_observed_at, after.status_boundary),
        (before.status, before.status_observed_at, before.status_boundary)
    );
    assert_eq!(state(&quota, "7d").utilization, Some(0.3), "what it does not name keeps its value");
}

#[test]
fn the_aggregate_counts_only_while_no_window_has_a_status() {
    let mut quota = Quota::default();
    quota.apply(&aggregate("rejected"), at(0), at(0));
    assert_eq!(near(&quota, BASE, 0), Some(NearCause::AggregateRejected));
    quota.apply(&reading(&[said("5h", "allowed")]), at(1), at(1));
    assert_eq!(near(&quota, BASE, 1), None);
    assert_eq!(near(&quota, BASE, 1 + 5 * HOUR), Some(NearCause::AggregateRejected), "the window's status is over");
    assert_eq!(near(&quota, BASE, 7 * DAY), None, "it lives for a week of its own");
    quota.expire(at(7 * DAY));
    assert_eq!(quota.aggregate, None);
}

#[test]
fn another_windows_expiry_leaves_the_aggregate_alone() {
    let mut quota = seen(&[used("5h", 0.5, HOUR)]);
    quota.apply(&aggregate("rejected"), at(0), at(0));
    quota.expire(at(HOUR));
    assert!(quota.aggregate.is_some());
    quota.apply(&aggregate("allowed"), at(-5), at(HOUR));
    assert!(quota.rejected(BASE, at(HOUR)), "an older word does not replace it");
}

#[test]
fn the_weekly_window_of_a_scope_governs_once_its_utilization_is_known() {
    let quota = seen(&[said("7d_oi", "allowed"), used("7d", 0.1, DAY)]);
    assert_eq!(quota.governing(FABLE, at(0)), [KnownWindow::FiveHour, KnownWindow::Weekly]);
    let quota = seen(&[used("7d_oi", 0.0, DAY), used("7d", 0.1, 2 * DAY)]);
    assert_eq!(quota.governing(FABLE, at(0)), [KnownWindow::FiveHour, KnownWindow::WeeklyFable]);
    assert_eq!(quota.governing(BASE, at(0)), [KnownWindow::FiveHour, KnownWindow::Weekly]);
    assert_eq!(quota.weekly_reset(FABLE, at(0)), Some(wall(DAY)));
    assert_eq!(quota.weekly_reset(BASE, at(0)), Some(wall(2 * DAY)));
    assert_eq!(quota.governing(FABLE, at(DAY)), [KnownWindow::FiveHour, KnownWindow::Weekly], "until it is over");
}

/// Every cause of nearness, for a request outside and inside the scope.
#[test]
fn nearness_follows_the_table() {
    use NearCause::{Rejected, Threshold};
    let cases: &[(&str, Figures<'_>, Option<NearCause>, Option<NearCause>)] = &[
        ("5h rejected", said("5h", "rejected"), Some(Rejected), Some(Rejected)),
        ("7d rejected", said("7d", "rejected"), Some(Rejected), Some(Rejected)),
        ("scope rejected", said("7d_oi", "rejected"), None, Some(Rejected)),
        ("unknown rejected", said("30d_zz", "rejected"), Some(Rejected), Some(Rejected)),
        ("unknown word", said("5h", "perhaps"), None, None),
        (
            "5h at",
            used("5h", 0.9, HOUR),
            Some(Threshold(KnownWindow::FiveHour)),
            Some(Threshold(KnownWindow::FiveHour)),
        ),
        ("5h below", used("5h", 0.89, HOUR), None, None),
        ("7d at", used("7d", 0.8, DAY), Some(Threshold(KnownWindow::Weekly)), Some(Threshold(KnownWindow::Weekly))),
        ("scope at", used("7d_oi", 0.7, DAY), None, Some(Threshold(KnownWindow::WeeklyFable))),
        ("unknown full", used("30d_zz", 1.0, DAY), None, None),
    ];
    for (name, figures, base, fable) in cases {
        let quota = seen(&[*figures]);
        assert_eq!(near(&quota, BASE, 0), *base, "{name}, outside the scope");
        assert_eq!(near(&quota, FABLE, 0), *fable, "{name}, inside the scope");
    }
}

#[test]
fn a_known_scope_window_takes_the_place_of_the_shared_one() {
    let quota = seen(&[used("7d_oi", 0.1, DAY), used("7d", 0.95, DAY)]);
    assert_eq!(near(&quota, FABLE, 0), None);
    assert_eq!(near(&quota, BASE, 0), Some(NearCause::Threshold(KnownWindow::Weekly)));
    assert!(quota.over_hard(BASE, 0.95, at(0)));
    assert!(!quota.over_hard(BASE, 0.96, at(0)));
    assert!(!quota.over_hard(FABLE, 0.95, at(0)));
}

#[test]
fn an_account_that_will_not_last_is_near_only_where_that_is_asked_for() {
    let quota = seen(&[used("5h", 0.6, 4 * HOUR)]);
    assert_eq!(quota.near(BASE, &limits(), BurnRate::Avoid, at(0)), Some(NearCause::BurnRate));
    assert_eq!(quota.near(BASE, &limits(), BurnRate::Ignore, at(0)), None);
}

#[test]
fn headroom_is_time_to_the_threshold_minus_time_to_the_reset() {
    // Half used in 2.5 of 5 hours: 0.4 more take 2 hours, the reset comes in 2.5.
    let quota = seen(&[used("5h", 0.5, 5 * HOUR / 2)]);
    assert!((quota.headroom(BASE, &limits(), at(0)) - -1800.0).abs() < 1e-6);
    // A fifth used in half a week: 0.6 more take 10.5 days, the reset comes in 3.5.
    let quota = seen(&[used("7d", 0.2, 7 * DAY / 2)]);
    assert!((quota.headroom(BASE, &limits(), at(0)) - 7.0 * 86_400.0).abs() < 1e-3);
    // The least of the governing windows counts: a tenth used in 4 hours, 0.8 more take 32, the reset comes in one.
    let quota = seen(&[used("5h", 0.1, HOUR), used("7d", 0.2, 7 * DAY / 2)]);
    assert!((quota.headroom(BASE, &limits(), at(0)) - 31.0 * 3600.0).abs() < 1e-3);
}

#[test]
fn headroom_is_infinite_where_nothing_is_known_and_gone_where_nothing_is_left() {
    let cases: &[(&str, Figures<'_>, f64)] = &[
        ("unobserved", said("5h", "allowed"), f64::INFINITY),
        ("nothing used", used("5h", 0.0, HOUR), f64::INFINITY),
        ("no reset", Figures { reset: None, ..used("5h", 0.5, 0) }, f64::INFINITY),
        ("at the threshold", used("5h", 0.9, HOUR), f64::NEG_INFINITY),
        ("rejected", said("5h", "rejected"), f64::NEG_INFINITY),
        ("rejected, little used", Figures { status: Some("rejected"), ..used("5h", 0.1, HOUR) }, f64::NEG_INFINITY),
    ];
    for (name, figures, expected) in cases {
        assert_eq!(seen(&[*figures]).headroom(BASE, &limits(), at(0)), *expected, "{name}");
    }
    let quota = seen(&[used("5h", 0.5, HOUR), used("7d", 0.2, DAY)]);
    assert_eq!(quota.remaining(BASE, at(0)), 0.5);
    assert_eq!(quota.remaining(BASE, at(HOUR)), 0.8, "an unobserved window counts as untouched");
}

#[test]
fn a_reset_farther_than_its_window_still_gives_a_pace() {
    let quota = seen(&[used("5h", 0.5, 5 * HOUR + 1800)]);
    assert!(quota.headroom(BASE, &limits(), at(0)).is_finite());
}

#[test]
fn caps_remove_and_return_at_the_latest_of_their_windows() {
    let caps = WindowCaps { five_hour: Some(0.5), weekly: Some(0.6), fable: Some(0.3) };
    let quota = seen(&[used("5h", 0.5, HOUR), used("7d", 0.59, DAY)]);
    assert_eq!(quota.capped(BASE, &caps, at(0)), Some(Capped { until: Some(Deadline::Wall(wall(HOUR))) }));
    let quota = seen(&[used("5h", 0.5, HOUR), used("7d", 0.6, DAY)]);
    assert_eq!(quota.capped(FABLE, &caps, at(0)), Some(Capped { until: Some(Deadline::Wall(wall(DAY))) }));
    assert_eq!(quota.capped(BASE, &caps, at(DAY)), None, "it returns by its reset");
    let bare = seen(&[Figures { reset: None, ..used("5h", 0.7, 0) }]);
    let until = Some(Deadline::Wall(wall(5 * HOUR)));
    assert_eq!(bare.capped(BASE, &caps, at(9)), Some(Capped { until }), "without a reset: when it is too old");
    assert_eq!(bare.capped(BASE, &WindowCaps { five_hour: Some(0.71), ..caps }, at(9)), None, "a raised cap");
}

#[test]
fn a_scopes_cap_binds_only_the_scope_and_only_once_observed() {
    let caps = WindowCaps { five_hour: None, weekly: None, fable: Some(0.3) };
    assert_eq!(seen(&[used("7d", 0.9, DAY)]).capped(FABLE, &caps, at(0)), None);
    let quota = seen(&[used("7d_oi", 0.3, DAY)]);
    assert!(quota.capped(FABLE, &caps, at(0)).is_some());
    assert_eq!(quota.capped(BASE, &caps, at(0)), None);
    assert_eq!(Quota::default().capped(FABLE, &WindowCaps { fable: Some(0.0), ..caps }, at(0)), None);
}

#[test]
fn within_the_margin_of_a_cap_one_at_a_time() {
    let caps = WindowCaps { five_hour: Some(0.9), weekly: None, fable: Some(0.5) };
    for (share, expected) in [(0.87, false), (0.88, true), (0.95, true)] {
        let quota = seen(&[used("5h", share, HOUR)]);
        assert_eq!(quota.near_cap(BASE, &caps, CAP_MARGIN, at(0)), expected, "{share}");
    }
    assert!(!seen(&[used("7d_oi", 0.49, DAY)]).near_cap(BASE, &caps, CAP_MARGIN, at(0)));
    assert!(seen(&[used("7d_oi", 0.49, DAY)]).near_cap(FABLE, &caps, CAP_MARGIN, at(0)));
}

/// C43: a new login may stand for another plan; what the old one had used says nothing.
#[test]
fn a_new_credential_forgets_utilization_and_status() {
    let mut quota = seen(&[Figures { status: Some("rejected"), ..used("7d", 0.98, DAY) }, said("30d_zz", "rejected")]);
    quota.apply(&aggregate("rejected"), at(0), at(0));
    quota.forget();
    assert_eq!(near(&quota, BASE, 0), None);
    assert_eq!(quota.weekly_reset(BASE, at(0)), Some(wall(DAY)), "a reset alone is bare metadata");
}

#[test]
fn a_stepped_clock_moves_stamps_and_no_reset() {
    let mut quota = seen(&[Figures { status: Some("rejected"), ..used("5h", 0.5, HOUR) }]);
    quota.step(-7_200_000);
    let after = state(&quota, "5h");
    assert_eq!(after.observed_at, Some(wall(-7200)));
    assert_eq!(after.status_observed_at, Some(wall(-7200)));
    assert_eq!((after.reset, after.status_boundary), (Some(wall(HOUR)), Some(wall(HOUR))));
}

#[test]
fn stamps_in_the_future_are_clamped_to_now() {
    let mut quota = seen(&[Figures { status: Some("rejected"), ..used("5h", 0.5, HOUR) }]);
    quota.apply(&aggregate("rejected"), at(0), at(0));
    quota.expire(at(-60));
    assert_eq!(state(&quota, "5h").observed_at, Some(wall(-60)));
    assert_eq!(state(&quota, "5h").status_observed_at, Some(wall(-60)));
    assert_eq!(quota.aggregate.map(|aggregate| aggregate.observed_at), Some(wall(-60)));
}

/// An answer that was under way when the civil clock was stepped is as old as the steady clock says.
#[test]
fn an_answer_is_dated_by_the_present_civil_clock() {
    let mut quota = Quota::default();
    let before_step = at(0);
    let after_step = Timestamp { wall: wall(3600 + 2), boot: at(2).boot };
    quota.apply(&reading(&[used("5h", 0.5, 2 * HOUR)]), before_step, after_step);
    assert_eq!(state(&quota, "5h").observed_at, Some(wall(3600)));
}

#[test]
fn the_kept_form_names_windows_and_reads_back() {
    let quota = seen(&[used("5h", 0.5, HOUR), said("30d_zz", "odd")]);
    let json = serde_json::to_value(&quota).expect("a quota can be kept");
    let names = json["windows"].as_object().map(|windows| windows.keys().cloned().collect::<Vec<_>>());
    assert_eq!(names, Some(vec!["5h".to_owned(), "30d_zz".to_owned()]));
    assert_eq!(serde_json::from_value::<Quota>(json).expect("it reads back"), quota);
}
