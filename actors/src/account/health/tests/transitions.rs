//! The transition table of the module's documentation, made from [`Health::apply`].

use super::*;

const SOURCE: &str = include_str!("../../health.rs");
const BEGIN: &str = "//! <!-- transitions: begin -->\n";
const END: &str = "//! <!-- transitions: end -->\n";

/// When each account is in its state, when the request is sent, and when the event comes.
const SENT: i64 = 20;
const NOW: i64 = 21;

type Doing = fn(&mut Subject);

/// What an account may be in, and how it came there.
const STATES: &[(&str, Doing)] = &[
    ("healthy", |_| {}),
    ("strike", |account| drop(account.answer(10, 10, server_fault(None)))),
    ("erroring", |account| drop(account.answer(10, 10, server_fault(Some(600))))),
    ("rate_limited", |account| drop(account.answer(10, 10, quota_refused(Some(stated(HOUR)))))),
    ("scope", |account| drop(account.answer(10, 10, fable_refused(Some(stated(HOUR)))))),
    ("breather", |account| drop(account.answer(19, 19, throttled(Some(10))))),
    ("budget", |account| drop(account.hears(10, HealthEvent::BudgetReached { cycle_ends: stated(HOUR) }))),
    ("balance", |account| drop(account.answer(10, 10, Outcome::BalanceEmpty))),
    ("auth_dead", |account| drop(account.answer(10, 10, Outcome::Unauthorized))),
    ("awaits", |account| {
        account.is_asked_about(-1000);
        account.answer(-901, -901, Outcome::Unauthorized);
        account.tick(10);
    }),
    ("trial", |account| {
        account.answer(-901, -901, Outcome::Unauthorized);
        account.tick(10);
    }),
    ("broken", |account| drop(account.hears(10, HealthEvent::CredentialBroke { cause: Cause::Empty }))),
    ("needs_login", |account| drop(account.hears(10, HealthEvent::GrantLost { access_until: stated(HOUR) }))),
    ("paused", |account| drop(account.hears(10, HealthEvent::Paused))),
    ("unverified", |account| drop(account.hears(10, renewed(1, Check::Undecided)))),
];

/// What may happen to it.
const EVENTS: &[(&str, Doing)] = &[
    ("served", |account| drop(account.answer(SENT, NOW, Outcome::Served))),
    ("served, in the scope", |account| drop(account.in_scope(ModelScope::Fable).answer(SENT, NOW, Outcome::Served))),
    ("served, sent before", |account| drop(account.answer(-1000, NOW, Outcome::Served))),
    ("quota refused", |account| drop(account.answer(SENT, NOW, quota_refused(Some(stated(2 * HOUR)))))),
    ("quota refused for the scope", |account| drop(account.answer(SENT, NOW, fable_refused(Some(stated(2 * HOUR)))))),
    ("throttled, 5 s stated", |account| drop(account.answer(SENT, NOW, throttled(Some(5))))),
    ("throttled, 60 s stated", |account| drop(account.answer(SENT, NOW, throttled(Some(60))))),
    ("throttled, nothing stated", |account| drop(account.answer(SENT, NOW, throttled(None)))),
    ("credential refused (401)", |account| drop(account.answer(SENT, NOW, Outcome::Unauthorized))),
    ("credential refused, sent before", |account| drop(account.answer(-1000, NOW, Outcome::Unauthorized))),
    ("organisation refused (403)", |account| drop(account.answer(SENT, NOW, Outcome::OrgRefused))),
    ("balance empty", |account| drop(account.answer(SENT, NOW, Outcome::BalanceEmpty))),
    ("fault, unreachable, late, blank", |account| drop(account.answer(SENT, NOW, server_fault(None)))),
    ("fault, 20 s stated", |account| drop(account.answer(SENT, NOW, server_fault(Some(20))))),
    ("body broke", |account| account.ends(SENT, NOW, Close::Broken)),
    ("relayed, abandoned", |account| drop(account.answer(SENT, NOW, Outcome::Relayed))),
    ("body complete, client gone", |account| account.ends(SENT, NOW, Close::ClientGone)),
    ("fault of a side call", |account| {
        account.call = CallKind::Side;
        account.answer(SENT, NOW, server_fault(Some(20)));
    }),
    ("usage below the thresholds", |account| {
        let mut poll = poll(NOW, &[("5h", 0.1), ("7d", 0.1), ("7d_oi", 0.1)], HOUR);
        poll.generation = account.health.generation();
        account.hears(NOW, HealthEvent::UsagePolled(&poll));
    }),
    ("two days passed", |account| account.tick(2 * DAY)),
    ("credential renewed", |account| drop(account.hears(NOW, renewed(2, Check::Passed)))),
    ("credential broke", |account| drop(account.hears(NOW, HealthEvent::CredentialBroke { cause: Cause::Unreadable }))),
    ("source reads again", |account| {
        let generation = account.health.generation();
        account.hears(NOW, HealthEvent::CredentialRead { generation });
    }),
    ("grant lost", |account| drop(account.hears(NOW, HealthEvent::GrantLost { access_until: stated(HOUR) }))),
    ("grant regained", |account| drop(account.hears(NOW, HealthEvent::GrantRegained))),
    ("its end is told", |account| drop(account.hears(NOW, HealthEvent::ExpiryTold { ends: Some(wall(NOW)) }))),
    ("check says valid", |account| probed(account, Verdict::Valid)),
    ("check says refused", |account| probed(account, Verdict::InvalidToken)),
    ("check undecided", |account| probed(account, Verdict::Undecided)),
    ("its own question is refused", |account| asked(account, Verdict::OrgRefused)),
    ("its own question is undecided", |account| asked(account, Verdict::Undecided)),
    ("it cannot be asked", |account| drop(account.hears(NOW, HealthEvent::NotAskable { again: AGAIN }))),
    ("its CLI is logged in", |account| drop(account.hears(NOW, HealthEvent::CliLoggedIn { sent_at: at(SENT) }))),
    ("budget reached", |account| drop(account.hears(NOW, HealthEvent::BudgetReached { cycle_ends: stated(DAY) }))),
    ("budget raised", |account| drop(account.hears(NOW, HealthEvent::BudgetRaised))),
    ("paused", |account| drop(account.hears(NOW, HealthEvent::Paused))),
    ("resumed", |account| drop(account.hears(NOW, HealthEvent::Resumed))),
    ("cleared", |account| drop(account.hears(NOW, HealthEvent::Cleared))),
    ("settings changed", |account| drop(account.hears(NOW, HealthEvent::SettingsChanged(Settings::default())))),
    ("clock stepped", |account| drop(account.hears(NOW, HealthEvent::ClockStepped { by_ms: -5000 }))),
];

fn renewed(generation: u64, check: Check) -> HealthEvent<'static> {
    HealthEvent::CredentialRenewed { generation: Generation(generation), check }
}

fn probed(account: &mut Subject, verdict: Verdict) {
    let generation = account.health.generation();
    account.hears(NOW, HealthEvent::Probed { verdict, generation, sent_at: at(SENT), by: AskedBy::Operator });
}

fn asked(account: &mut Subject, verdict: Verdict) {
    let (generation, by) = (account.health.generation(), AskedBy::Schedule { again: AGAIN });
    account.hears(NOW, HealthEvent::Probed { verdict, generation, sent_at: at(SENT), by });
}

/// What an account is in: a name, and the episode where there is one.
fn parts(health: &Health) -> Vec<(&'static str, u64)> {
    let names = ["auth_dead", "erroring", "rate_limited", "scope", "budget", "balance"];
    let holds = names.into_iter().zip(health.holds());
    let mut parts: Vec<_> = holds.filter_map(|(name, hold)| hold.map(|hold| (name, hold.episode))).collect();
    let flags = [
        ("strike", health.erroring.strike.is_some()),
        ("breather", health.limits.breather.is_some()),
        ("awaits", health.auth.awaits),
        ("trial", health.auth.on_trial),
        ("broken", health.credential.is_broken()),
        ("needs_login", health.credential.state() != CredentialState::Usable && !health.credential.is_broken()),
        ("paused", health.paused == Paused::Yes),
        ("unverified", health.credential.unverified),
    ];
    parts.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| (name, 0)));
    parts
}

fn cell(before: &Health, after: &Health) -> String {
    let (before, after) = (parts(before), parts(after));
    let ended = before.iter().filter(|(name, _)| episode(&after, name).is_none()).map(|(name, _)| format!("−{name}"));
    let began = after.iter().filter_map(|(name, number)| match episode(&before, name) {
        None => Some(format!("+{name}")),
        Some(old) if old != *number => Some(format!("↻{name}")),
        Some(_) => None,
    });
    let changes: Vec<_> = ended.chain(began).collect();
    if changes.is_empty() { "·".to_owned() } else { changes.join(" ") }
}

fn episode(parts: &[(&str, u64)], name: &str) -> Option<u64> {
    parts.iter().find(|(other, _)| *other == name).map(|(_, episode)| *episode)
}

fn table() -> String {
    let names: Vec<_> = STATES.iter().map(|(name, _)| *name).collect();
    let mut lines =
        vec![format!("//! | | {} |", names.join(" | ")), format!("//! |{}", "---|".repeat(names.len() + 1))];
    for (event, happen) in EVENTS {
        let cells: Vec<_> = STATES.iter().map(|(_, come)| outcome(*come, *happen)).collect();
        lines.push(format!("//! | {event} | {} |", cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

fn outcome(come: Doing, happen: Doing) -> String {
    let mut account = Subject::default();
    come(&mut account);
    account.generation = account.health.generation();
    let before = account.health.clone();
    happen(&mut account);
    cell(&before, &account.health)
}

#[test]
fn the_documented_transitions_are_those_of_the_machine() {
    let (_, rest) = SOURCE.split_once(BEGIN).expect("the documentation has a place for the table");
    let (documented, _) = rest.split_once(END).expect("the place has an end");
    let right = table();
    assert!(documented == right, "the table in health.rs is stale; it must read:\n{right}");
}
