use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_796_000_000;

fn window(used: Option<f64>, resets_in: Option<i64>, cap: Option<f64>) -> Value {
    let reset = resets_in.map(|left| NOW + left);
    json!({"utilization": used, "reset": reset, "status": null, "threshold": 0.9, "max_utilization": cap})
}

fn account(name: &str, change: Value) -> Value {
    let mut account = json!({
        "name": name, "state": "healthy", "cause": null, "available": true, "near_quota": false, "capped": false,
        "capped_scopes": [], "paused": false, "disabled": false, "needs_login": false, "unverified": false,
        "expiring": false, "on_trial": false, "priority": 100, "cooldown_secs_remaining": 0, "scope_cooldowns": {},
        "windows": {}, "max_utilization_5h": null, "max_utilization_7d": null, "max_utilization_fable": null,
        "spend": {"month": null, "cap": null, "reserved": null}, "plan": null, "expires_at": null, "last_probe": null,
        "requests": {"attempted": 0, "succeeded": 0, "failed": 0, "cancelled": 0}, "mean_latency_ms": null,
        "in_flight": 0, "conversations": 0,
    });
    for (key, value) in change.as_object().expect("changes") {
        account[key] = value.clone();
    }
    account
}

fn seen(accounts: Vec<Value>) -> Seen {
    let health = json!({
        "status": "degraded", "version": "0.1.0", "pid": 1, "started_at": NOW - 11_520, "uptime_secs": 11_520,
        "addresses": [], "config": null, "accounts": accounts.len(), "usable": 2, "in_flight": 4, "conversations": 12,
        "store": {"state": "fine", "since": null, "for_secs": null, "why": null},
    });
    let pool = json!({
        "providers": [{"name": "anthropic", "family": "claude", "auth": "claude_oauth", "accounts": accounts}],
        "store": {"state": "fine", "since": null, "for_secs": null, "why": null},
    });
    Seen { health: serde_json::from_value(health).expect("health"), pool: serde_json::from_value(pool).expect("pool") }
}

fn fleet() -> Seen {
    seen(vec![
        account(
            "work",
            json!({"in_flight": 4, "conversations": 9, "windows": {
                "5h": window(Some(0.62), Some(7_800), None), "7d": window(Some(0.41), Some(273_600), Some(0.8)),
            }}),
        ),
        account(
            "home",
            json!({"state": "rate_limited", "cause": "quota", "available": false,
                "cooldown_secs_remaining": 552, "windows": {
                    "5h": window(Some(1.0), Some(552), None), "7d": window(Some(0.93), None, None), "7d_oi": window(None, None, None),
            }}),
        ),
        account("spare", json!({"paused": true, "available": false})),
        account(
            "old",
            json!({"state": "auth_dead", "cause": "invalid_token", "available": false, "cooldown_secs_remaining": 840}),
        ),
        account("metered", json!({"spend": {"month": 3.2, "cap": 20.0, "reserved": 0.1}})),
    ])
}

fn view() -> View {
    let mut view = View::default();
    view.see(fleet());
    view
}

fn text(view: &View, size: Size) -> String {
    let lines = view.lines(size);
    assert!(lines.len() <= size.1, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.width() <= size.0));
    lines.iter().map(Line::text).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_wide_screen_shows_windows_side_by_side() {
    let mut view = view();
    view.choose_below();
    view.say("anthropic/home: asking the provider …".to_owned());
    insta::assert_snapshot!(text(&view, (100, 20)));
}

#[test]
fn a_usual_screen_shows_every_window_on_its_line() {
    insta::assert_snapshot!(text(&view(), (80, 24)));
}

#[test]
fn a_small_screen_follows_what_is_chosen() {
    let mut view = view();
    insta::assert_snapshot!("first", text(&view, (40, 10)));
    view.choose_last();
    insta::assert_snapshot!("last", text(&view, (40, 10)));
    for _ in 0..3 {
        view.choose_above();
    }
    assert_eq!(view.chosen(), Some("anthropic/home"));
    insta::assert_snapshot!("between", text(&view, (40, 10)));
}

#[test]
fn a_screen_that_is_too_small_says_so_and_none_breaks() {
    for columns in 0..30 {
        for rows in 1..9 {
            assert!(!text(&view(), (columns, rows)).is_empty() || columns == 0);
        }
    }
}

#[test]
fn before_the_first_answer_and_without_one_it_says_so() {
    let mut view = View::default();
    insta::assert_snapshot!("before", text(&view, (80, 8)));
    view.see(seen(Vec::new()));
    assert!(text(&view, (80, 8)).contains("no account is configured"));
    view.see(fleet());
    view.lose("the daemon at /h/control.sock does not answer".to_owned());
    insta::assert_snapshot!("silent", text(&view, (80, 12)));
}

#[test]
fn what_is_chosen_stays_chosen_while_accounts_come_and_go() {
    let mut view = view();
    view.choose_below();
    view.choose_below();
    assert_eq!((view.chosen(), view.chosen_is_paused()), (Some("anthropic/spare"), true));
    view.see(seen(vec![account("new", json!({})), account("spare", json!({}))]));
    assert_eq!((view.chosen(), view.chosen_is_paused()), (Some("anthropic/spare"), false));
    view.see(seen(vec![account("new", json!({}))]));
    assert_eq!(view.chosen(), Some("anthropic/new"));
    view.choose_below();
    assert_eq!(view.chosen(), Some("anthropic/new"), "the last one stays the last");
}
