//! Each kind of event as its line.

use duduclaw_actors::clock::{Boot, Deadline, Wall};
use duduclaw_actors::event::{EndedBy, FailoverReason, MoveReason, Severity, ThinkingLoss, span};
use duduclaw_actors::outcome::{Cause, Evidence, HoldScope, Usage};
use duduclaw_actors::standing::{HoldKind, State, Stated};

use super::*;

fn entry(name: &str) -> EntryId {
    EntryId { provider: "anthropic".into(), name: name.into() }
}

fn event(kind: EventKind) -> Event {
    let evidence = Evidence { request_id: Some("r".to_owned()), ..Evidence::default() };
    let ts = Timestamp::at_millis(5_000);
    Event { seq: 1, ts, kind, severity: Severity::Info, account: Some(entry("work")), evidence }
}

fn answered() -> EventKind {
    EventKind::AttemptAnswered { outcome: AttemptResult::Served, head_ms: 3 }
}

fn over_with(status: u16, attempts: u32, close: RequestClose) -> EventKind {
    EventKind::RequestEnded { status, attempts, close, total_ms: 4, usage: Usage::default() }
}

fn texts(events: impl IntoIterator<Item = EventKind>) -> Vec<String> {
    let mut teller = Teller::default();
    let mut lines: Vec<Line> = events.into_iter().flat_map(|kind| teller.tell(&event(kind))).collect();
    lines.extend(teller.flush());
    lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn plain_answers_are_gathered_until_something_else_happens() {
    let plain = || [answered(), over_with(200, 1, RequestClose::Complete)];
    let events = plain().into_iter().chain(plain()).chain([EventKind::TokenRefreshed]).chain(plain());
    assert_eq!(
        texts(events),
        [
            "2 requests were answered: work 2.",
            "The access token of work was renewed.",
            "A request was answered by work.",
        ]
    );
}

#[test]
fn every_kind_of_event_is_a_line_of_its_own_words_that_fits_a_terminal() {
    let until = Deadline::Wall(Wall(5_000 + 7_140_000));
    let moment = Deadline::Boot(Boot(15_000));
    let hold = |hold, cause, until| EventKind::HoldBegan {
        hold,
        scope: HoldScope::Account,
        cause,
        until,
        stated: Stated::ByProvider,
    };
    let thinking = ThinkingLoss::None;
    let from = || entry("personal");
    let events = [
        EventKind::Started { addresses: vec!["http://127.0.0.1:40000".to_owned()] },
        hold(HoldKind::RateLimited, Cause::Quota, until),
        hold(HoldKind::RateLimited, Cause::Throttled, moment),
        hold(HoldKind::AuthDead, Cause::OrgDisabled, until),
        hold(HoldKind::Erroring, Cause::Overloaded, moment),
        EventKind::HoldEnded { hold: HoldKind::RateLimited, scope: HoldScope::Account, by: EndedBy::Time },
        EventKind::HoldEnded { hold: HoldKind::AuthDead, scope: HoldScope::Account, by: EndedBy::Served },
        EventKind::TrialBegan,
        EventKind::ConversationMoved { from: from(), why: MoveReason::Quota, thinking },
        EventKind::Detoured { from: from(), thinking },
        EventKind::Returned { from: from(), thinking },
        EventKind::FailedOver { from: from(), why: FailoverReason::ServerError },
        EventKind::RequestHeld { until: Some(moment) },
        EventKind::RequestReleased,
        answered(),
        over_with(200, 2, RequestClose::Complete),
        over_with(200, 1, RequestClose::Cut),
        over_with(429, 3, RequestClose::Complete),
        EventKind::StateChanged { from: State::Healthy, to: State::Erroring },
        EventKind::Draining,
    ];
    let lines = texts(events);
    assert!(lines.iter().all(|line| line.chars().count() <= 67), "{lines:#?}");
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn spans_are_told_in_two_units_and_never_as_sixty_minutes() {
    let of = |seconds: u64| span(Duration::from_secs(seconds));
    assert_eq!(
        [of(0), of(119), of(120), of(3569), of(3570), of(17_999)],
        ["0 s", "119 s", "2 min", "59 min", "1 h 0 min", "5 h 0 min"]
    );
}
