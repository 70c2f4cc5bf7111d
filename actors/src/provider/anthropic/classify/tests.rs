//! Row by row, then case by case, then anything at all.

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::clock::Boot;

/// 2026-10-21T07:27:00Z, on a machine that has been up for an hour.
const NOW: Timestamp = Timestamp { wall: Wall(1_792_567_620_000), boot: Boot(3_600_000) };
const UNIFIED: &str = "anthropic-ratelimit-unified-";
const BASE: Asked = Asked { call: CallKind::Inference, scope: ModelScope::Base, credential: CredentialOwner::Account };
const FABLE: Asked = Asked { scope: ModelScope::Fable, ..BASE };
const SIDE: Asked = Asked { call: CallKind::Side, ..BASE };
const CLIENTS: Asked = Asked { credential: CredentialOwner::Client, ..BASE };

const EXTRA_USAGE: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}"#;
const LIMIT: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit"}}"#;
const NO_OAUTH: &str = r#"{"type":"error","error":{"type":"permission_error","message":"OAuth authentication is currently not allowed for this organization."}}"#;
const NOT_ALLOWED: &str = r#"{"type":"error","error":{"type":"permission_error","message":"Request not allowed"}}"#;
const NO_CREDIT: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API"}}"#;
const TOO_LONG: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 1186139 tokens > 1000000 maximum"}}"#;
const OVERLOADED_BODY: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#;

/// An answer in the making. A header of the unified family is named by what follows the prefix, after a colon.
#[derive(Clone, Debug)]
struct Given {
    status: u16,
    headers: HeaderMap,
    seen: Seen<'static>,
}

fn given(status: u16, headers: &[(&str, &str)], seen: Seen<'static>) -> Given {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = name.strip_prefix(':').map_or((*name).to_owned(), |field| format!("{UNIFIED}{field}"));
        let value = value.strip_prefix('T').map_or((*value).to_owned(), after);
        map.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    Given { status, headers: map, seen }
}

fn body(text: &'static str) -> Seen<'static> {
    Seen::Body(text.as_bytes())
}

fn event(name: Option<&'static str>, data: &'static str) -> Seen<'static> {
    Seen::Event { name, data: data.as_bytes() }
}

/// `T+60` in a header's value is Unix seconds, a minute from now.
fn after(offset: &str) -> String {
    (NOW.wall.as_secs() + offset.parse::<i64>().unwrap()).to_string()
}

fn classified(given: &Given, asked: Asked) -> Classified {
    let status = StatusCode::from_u16(given.status).unwrap();
    classify(Answer { status, headers: &given.headers, seen: given.seen }, asked, NOW)
}

fn outcome(status: u16, headers: &[(&str, &str)], seen: Seen<'static>, asked: Asked) -> Outcome {
    classified(&given(status, headers, seen), asked).outcome
}

fn wall(seconds: i64) -> Option<Deadline> {
    Some(Deadline::Wall(Wall(NOW.wall.0 + seconds * 1000)))
}

fn wait(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn boot(seconds: u64) -> Option<Deadline> {
    wait(seconds).map(|wait| Deadline::after(NOW, wait))
}

fn refusal(scope: HoldScope, windows: &[Window], until: Option<Deadline>) -> Outcome {
    Outcome::Quota(QuotaRefusal { scope, windows: windows.to_vec(), until })
}

fn fault(cause: Cause, wait: Option<Duration>) -> Outcome {
    Outcome::ServerFault { cause, wait }
}

/// The rows of the module's table: what is answered, an instance of it, and who asked.
fn rows() -> Vec<(&'static str, Given, Asked)> {
    let only_scope =
        given(429, &[(":7d_oi-status", "rejected"), (":5h-status", "allowed"), (":7d-status", "allowed")], body(LIMIT));
    vec![
        ("2xx with a good first event, or a body", given(200, &[], event(Some("message_start"), START)), BASE),
        ("2xx with nothing in it", given(200, &[], Seen::Empty), BASE),
        (
            "429 about the request: no window refused, the message names extra usage, long context, a plan or a model not available",
            given(429, &[(":status", "allowed")], body(EXTRA_USAGE)),
            BASE,
        ),
        ("429, only the scope's window refused, request in the scope", only_scope.clone(), FABLE),
        ("429, only the scope's window refused, any other request", only_scope, BASE),
        (
            "429, `5h`, `7d` or an unknown window refused",
            given(429, &[(":7d_x-status", "rejected")], body(LIMIT)),
            FABLE,
        ),
        (
            "429, no window with a status, the aggregate `rejected`",
            given(429, &[(":status", "rejected")], body(LIMIT)),
            BASE,
        ),
        ("429, anything else", given(429, &[("retry-after", "5")], body(LIMIT)), BASE),
        ("401", given(401, &[], Seen::Empty), BASE),
        ("403 naming the organisation, OAuth or subscription access", given(403, &[], body(NO_OAUTH)), BASE),
        ("other 403", given(403, &[], body(NOT_ALLOWED)), BASE),
        ("400 or 402 naming an empty balance or a spend limit", given(400, &[], body(NO_CREDIT)), BASE),
        ("529, or 5xx with an `overloaded_error`", given(529, &[], body(OVERLOADED_BODY)), BASE),
        ("other 5xx", given(503, &[], Seen::Empty), BASE),
        ("400, 404, 413, 422, anything else", given(400, &[], body(TOO_LONG)), BASE),
    ]
}

fn label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Served => "`Served`",
        Outcome::Quota(refusal) => match refusal.scope {
            HoldScope::Account => "`Quota`, all of the account",
            HoldScope::Model(_) => "`Quota`, the scope alone",
        },
        Outcome::Throttled { .. } => "`Throttled`, with the wait if stated",
        Outcome::Unauthorized => "`Unauthorized`",
        Outcome::OrgRefused => "`OrgRefused`",
        Outcome::BalanceEmpty => "`BalanceEmpty`",
        Outcome::ServerFault { cause: Cause::Overloaded, .. } => "`ServerFault`, overloaded",
        Outcome::ServerFault { .. } => "`ServerFault`",
        Outcome::Blank => "`Blank`",
        Outcome::Relayed => "`Relayed`",
        Outcome::Unreachable { .. } | Outcome::HeadTimeout { .. } | Outcome::Abandoned => "no answer",
    }
}

#[test]
fn the_table_of_the_module_is_true() {
    let documented: Vec<&str> =
        include_str!("../classify.rs").lines().filter_map(|line| line.strip_prefix("//! | ")).collect();
    let mut expected = vec!["answer | outcome |".to_owned()];
    for (answer, given, asked) in rows() {
        expected.push(format!("{answer} | {} |", label(&classified(&given, asked).outcome)));
    }
    assert_eq!(documented, expected, "the module's table should read:\n//! | {}", expected.join("\n//! | "));
}

/// C01.
#[test]
fn a_refused_window_holds_until_its_stated_reset() {
    let headers = [
        ("retry-after", "7999"),
        (":status", "rejected"),
        (":5h-status", "rejected"),
        (":5h-reset", "T7999"),
        (":7d-status", "allowed"),
        (":representative-claim", "five_hour"),
    ];
    let classified = classified(&given(429, &headers, body(LIMIT)), BASE);
    assert_eq!(classified.outcome, refusal(HoldScope::Account, &[Window::FiveHour], wall(7999)));
    let named = ["5h-status", "5h-reset"].map(|field| format!("{UNIFIED}{field}"));
    assert_eq!(classified.evidence.headers, [&named[0], &named[1], "retry-after"]);
    assert_eq!(classified.evidence.status, Some(429));
}

#[test]
fn of_several_refused_windows_the_latest_reset_counts() {
    let headers = [
        (":5h-status", "rejected"),
        (":5h-reset", "T60"),
        (":7d-status", "Rejected"),
        (":7d-reset", "T90000"),
        (":7d_oi-status", "allowed"),
        (":7d_oi-reset", "T100000"),
    ];
    let expected = refusal(HoldScope::Account, &[Window::FiveHour, Window::Weekly], wall(90_000));
    let found = outcome(429, &headers, body(LIMIT), FABLE);
    let Outcome::Quota(mut found) = found else { panic!("{found:?}") };
    found.windows.sort();
    assert_eq!(Outcome::Quota(found), expected);
}

#[test]
fn a_retry_after_counts_only_where_it_is_later() {
    let until = |after: &str| {
        let headers = [(":5h-status", "rejected"), (":5h-reset", "T600"), ("retry-after", after)];
        let Outcome::Quota(refusal) = outcome(429, &headers, body(LIMIT), BASE) else { panic!() };
        refusal.until
    };
    assert_eq!(until("30"), wall(600));
    assert_eq!(until("7200"), boot(7200));
    assert_eq!(until("Wed, 21 Oct 2026 09:27:00 GMT"), boot(7200));
    assert_eq!(until("7200000"), wall(600), "milliseconds for seconds are no statement");
    assert_eq!(until("0"), wall(600));
}

#[test]
fn an_absurd_reset_states_nothing() {
    for absurd in ["T-1", "T0", "T19801", "1792575619000", "0", "-5", "NaN", "soon", "7999"] {
        let headers = [(":5h-status", "rejected"), (":5h-reset", absurd)];
        assert_eq!(
            outcome(429, &headers, body(LIMIT), BASE),
            refusal(HoldScope::Account, &[Window::FiveHour], None),
            "{absurd}"
        );
    }
}

/// The aggregate's reset stands in only for the window it speaks of.
#[test]
fn a_refused_window_without_a_reset_takes_the_aggregates() {
    let until = |claim: &str| {
        let headers = [(":5h-status", "rejected"), (":reset", "T600"), (":representative-claim", claim)];
        let Outcome::Quota(refusal) = outcome(429, &headers, body(LIMIT), BASE) else { panic!() };
        refusal.until
    };
    assert_eq!(until("five_hour"), wall(600));
    assert_eq!(until(""), wall(600));
    assert_eq!(until("seven_day"), None);
}

/// C07.
#[test]
fn a_scope_window_bars_only_its_models_for_a_request_among_them() {
    let headers = [
        (":7d_oi-status", "rejected"),
        (":7d_oi-reset", "T5000"),
        (":5h-status", "allowed"),
        (":7d-status", "allowed"),
    ];
    let fable = refusal(HoldScope::Model(ModelScope::Fable), &[Window::WeeklyFable], wall(5000));
    assert_eq!(outcome(429, &headers, body(LIMIT), FABLE), fable);
    let other = refusal(HoldScope::Account, &[Window::WeeklyFable], wall(5000));
    assert_eq!(outcome(429, &headers, body(LIMIT), BASE), other);
}

#[test]
fn a_scope_window_refused_beside_a_shared_one_bars_everything() {
    for shared in [":5h-status", ":7d-status", ":30d_zz-status"] {
        let headers = [(":7d_oi-status", "rejected"), (shared, "rejected")];
        let Outcome::Quota(refusal) = outcome(429, &headers, body(LIMIT), FABLE) else { panic!("{shared}") };
        assert_eq!((refusal.scope, refusal.windows.len()), (HoldScope::Account, 2), "{shared}");
    }
}

#[test]
fn the_aggregate_alone_refuses_until_its_reset_and_its_claim_names_the_window() {
    let refused = |extra: &[(&str, &str)]| {
        let headers = [&[(":status", "rejected")], extra].concat();
        outcome(429, &headers, body(LIMIT), FABLE)
    };
    let account = |windows: &[Window], until| refusal(HoldScope::Account, windows, until);
    let claimed = [(":reset", "T600"), (":representative-claim", "seven_day"), ("retry-after", "30")];
    assert_eq!(refused(&claimed), account(&[Window::Weekly], wall(600)));
    assert_eq!(refused(&[("retry-after", "30")]), account(&[], boot(30)));
    assert_eq!(refused(&[(":reset", "T-60"), ("retry-after", "30")]), account(&[], boot(30)));
    assert_eq!(refused(&[]), account(&[], None));
    assert_eq!(refused(&[(":5h-utilization", "1.0")]), account(&[], None), "a share is no status");
}

#[test]
fn the_aggregate_counts_only_where_no_window_has_a_status() {
    let headers = [(":status", "rejected"), (":5h-status", "allowed"), ("retry-after", "30")];
    assert_eq!(outcome(429, &headers, body(LIMIT), BASE), Outcome::Throttled { wait: wait(30) });
}

/// What stands on every answer of an organisation that buys no extra usage.
#[test]
fn the_paid_budget_refuses_nothing() {
    let headers = [
        (":5h-status", "allowed"),
        (":overage-status", "rejected"),
        (":overage-disabled-reason", "org_level_disabled"),
    ];
    assert_eq!(outcome(429, &headers, body(LIMIT), BASE), Outcome::Throttled { wait: None });
    assert_eq!(outcome(200, &headers, event(Some("message_start"), START), BASE), Outcome::Served);
}

/// C05: with a refused window it is quota, whatever the message.
#[test]
fn a_429_about_the_request_teaches_nothing_unless_a_window_refused() {
    assert_eq!(
        outcome(429, &[(":status", "allowed"), (":5h-status", "allowed")], body(EXTRA_USAGE), BASE),
        Outcome::Relayed
    );
    assert_eq!(outcome(429, &[("retry-after", "5")], body(EXTRA_USAGE), BASE), Outcome::Relayed);
    let refused = [(":7d-status", "rejected")];
    assert_eq!(outcome(429, &refused, body(EXTRA_USAGE), BASE), refusal(HoldScope::Account, &[Window::Weekly], None));
    let other_place = r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit"},"echo":"long context"}"#;
    assert_eq!(outcome(429, &[], body(other_place), BASE), Outcome::Throttled { wait: None });
}

/// C03, C20, C21, C44.
#[test]
fn a_429_without_a_refused_window_is_a_throttle_with_its_stated_wait() {
    let throttled = |headers: &[(&str, &str)]| outcome(429, headers, body(LIMIT), BASE);
    assert_eq!(throttled(&[("request-id", "req_1")]), Outcome::Throttled { wait: None });
    assert_eq!(throttled(&[("retry-after", "3600")]), Outcome::Throttled { wait: wait(3600) });
    assert_eq!(throttled(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), Outcome::Throttled { wait: wait(60) });
    for unreadable in ["Wed, 99 Foo 2026", "soon", "", "Wed, 21 Oct 2026 06:27:00 GMT", "0", "-1", "NaN"] {
        assert_eq!(throttled(&[("retry-after", unreadable)]), Outcome::Throttled { wait: None }, "{unreadable}");
    }
    assert_eq!(throttled(&[(":5h-status", "rejected_soon")]), Outcome::Throttled { wait: None }, "an unknown word");
}

/// C08.
#[test]
fn an_overload_is_a_fault_of_the_server_with_its_stated_wait_and_says_nothing_of_quota() {
    let headers = [(":status", "allowed"), ("retry-after", "Wed, 21 Oct 2026 07:27:20 GMT")];
    let classified = classified(&given(529, &headers, body(OVERLOADED_BODY)), BASE);
    assert_eq!(classified.outcome, fault(Cause::Overloaded, wait(20)));
    assert_eq!(classified.quota.status, Some(QuotaStatus::Allowed));
    assert!(classified.quota.windows.is_empty());
    assert_eq!(classified.evidence.headers, ["retry-after"]);
}

#[test]
fn every_5xx_is_a_fault_of_the_server() {
    for status in [500, 501, 502, 503, 504, 520, 599] {
        assert_eq!(
            outcome(status, &[("retry-after", "3")], Seen::Empty, BASE),
            fault(Cause::ServerError, wait(3)),
            "{status}"
        );
        assert_eq!(outcome(status, &[], body(OVERLOADED_BODY), BASE), fault(Cause::Overloaded, None), "{status}");
    }
    assert_eq!(outcome(529, &[], Seen::Body(b"<html>"), BASE), fault(Cause::Overloaded, None));
}

/// C09.
#[test]
fn only_a_403_by_the_organisation_concerns_the_account() {
    assert_eq!(outcome(403, &[], body(NO_OAUTH), BASE), Outcome::OrgRefused);
    for other in [NOT_ALLOWED, "", "<html>organization firewall</html>", r#"{"detail":"organization"}"#] {
        assert_eq!(outcome(403, &[], body(other), BASE), Outcome::Relayed, "{other}");
    }
}

/// C10, and every other error that is the request's own.
#[test]
fn what_is_the_requests_own_teaches_nothing() {
    assert_eq!(outcome(400, &[], body(TOO_LONG), BASE), Outcome::Relayed);
    for status in [100, 304, 302, 402, 404, 405, 408, 409, 413, 415, 422, 431, 451, 499, 600] {
        assert_eq!(outcome(status, &[("retry-after", "9")], body(TOO_LONG), BASE), Outcome::Relayed, "{status}");
    }
}

#[test]
fn an_empty_balance_is_told_under_400_and_402_only() {
    let billing = r#"{"type":"error","error":{"type":"billing_error","message":"no"}}"#;
    for status in [400, 402] {
        assert_eq!(outcome(status, &[], body(NO_CREDIT), BASE), Outcome::BalanceEmpty);
        assert_eq!(outcome(status, &[], body(billing), BASE), Outcome::BalanceEmpty);
    }
    assert_eq!(outcome(404, &[], body(NO_CREDIT), BASE), Outcome::Relayed);
    assert_eq!(outcome(422, &[], body(NO_CREDIT), BASE), Outcome::Relayed);
}

/// C66: what is labelled gzip and is not, what is gzip and was not unpacked, and half a body.
#[test]
fn a_body_that_cannot_be_read_says_nothing() {
    for unreadable in
        [b"\x1f\x8b\x08\x00\xff\xff".as_slice(), b"plain", b"\xff\xfe", b"{\"error\":\"spend limit, OAuth", b"\0"]
    {
        let seen = |status| outcome(status, &[], Seen::Body(unreadable), BASE);
        assert_eq!(seen(403), Outcome::Relayed);
        assert_eq!(seen(400), Outcome::Relayed);
        assert_eq!(seen(429), Outcome::Throttled { wait: None });
        assert_eq!(seen(200), Outcome::Served);
    }
}

/// C56.
#[test]
fn an_error_that_comes_first_means_what_its_status_would() {
    let first = |kind: &str, message: &str, headers: &[(&str, &str)]| {
        let data: &'static str =
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#).leak();
        let named = outcome(200, headers, event(Some("error"), data), BASE);
        assert_eq!(named, outcome(200, headers, event(None, data), BASE), "without its name: {data}");
        assert_eq!(named, outcome(200, headers, body(data), BASE), "as a body: {data}");
        named
    };
    let allowed = [(":status", "allowed")];
    assert_eq!(first("overloaded_error", "Overloaded", &allowed), fault(Cause::Overloaded, None));
    assert_eq!(first("api_error", "Internal", &[("retry-after", "4")]), fault(Cause::ServerError, wait(4)));
    assert_eq!(first("timeout_error", "late", &[]), fault(Cause::ServerError, None));
    assert_eq!(first("authentication_error", "no", &[]), Outcome::Unauthorized);
    assert_eq!(first("permission_error", "no OAuth for this organization", &[]), Outcome::OrgRefused);
    assert_eq!(first("permission_error", "no", &[]), Outcome::Relayed);
    assert_eq!(first("billing_error", "no", &[]), Outcome::BalanceEmpty);
    assert_eq!(first("invalid_request_error", "Your credit balance is too low", &[]), Outcome::BalanceEmpty);
    for own in ["invalid_request_error", "not_found_error", "request_too_large", "error_of_tomorrow"] {
        assert_eq!(first(own, "no", &[]), Outcome::Relayed, "{own}");
    }
    assert_eq!(first("rate_limit_error", "limit", &allowed), Outcome::Throttled { wait: None });
    let refused = [(":5h-status", "rejected"), (":5h-reset", "T600")];
    assert_eq!(
        first("rate_limit_error", "limit", &refused),
        refusal(HoldScope::Account, &[Window::FiveHour], wall(600))
    );
    assert_eq!(first("rate_limit_error", "Extra usage is required", &allowed), Outcome::Relayed);
}

#[test]
fn an_unreadable_error_that_comes_first_is_the_servers_fault() {
    for data in ["", "{}", "garbage", r#"{"type":"error"}"#, r#"{"error":"text"}"#] {
        assert_eq!(outcome(200, &[], event(Some("error"), data), BASE), fault(Cause::ServerError, None), "{data}");
    }
}

#[test]
fn a_good_first_event_serves_known_or_not() {
    for (name, data) in [(Some("message_start"), START), (None, START), (Some("tomorrow"), "{}"), (None, "[DONE]")] {
        assert_eq!(outcome(200, &[], event(name, data), BASE), Outcome::Served, "{name:?} {data}");
    }
    assert_eq!(outcome(200, &[], body(r#"{"type":"message","content":[]}"#), BASE), Outcome::Served);
    assert_eq!(outcome(201, &[], body("x"), BASE), Outcome::Served);
}

#[test]
fn a_good_status_with_nothing_in_it_is_blank() {
    for status in [200, 204] {
        for nothing in [Seen::Empty, body(""), body(" \r\n\t ")] {
            assert_eq!(outcome(status, &[], nothing, BASE), Outcome::Blank, "{status} {nothing:?}");
        }
    }
}

/// C73: whatever happens to `count_tokens`, inference goes on; what is said of credential and quota still counts.
#[test]
fn a_call_beside_inference_teaches_only_credential_and_quota() {
    let quota = [(":5h-status", "rejected"), (":5h-utilization", "1.0")];
    for (status, text) in
        [(200, "{}"), (200, ""), (429, LIMIT), (529, OVERLOADED_BODY), (500, ""), (400, NO_CREDIT), (404, "")]
    {
        let classified = classified(&given(status, &quota, body(text)), SIDE);
        assert_eq!(classified.outcome, Outcome::Relayed, "{status}");
        assert_eq!(classified.quota.windows.len(), 1);
    }
    assert_eq!(outcome(401, &[], body(""), SIDE), Outcome::Unauthorized);
    assert_eq!(outcome(403, &[], body(NO_OAUTH), SIDE), Outcome::OrgRefused);
    assert_eq!(outcome(403, &[], body(NOT_ALLOWED), SIDE), Outcome::Relayed);
}

/// A setup token may ask for inference and nothing else; being refused the profile does not make it useless.
#[test]
fn a_token_without_the_scope_of_another_endpoint_is_not_refused_as_a_whole() {
    let profile = r#"{"type":"error","error":{"type":"permission_error","message":"OAuth token does not meet scope requirement user:profile"}}"#;
    assert_eq!(outcome(403, &[], body(profile), SIDE), Outcome::Relayed);
    assert_eq!(outcome(403, &[], body(profile), BASE), Outcome::OrgRefused);
}

#[test]
fn nothing_but_quota_is_learnt_from_a_clients_own_credential() {
    for (_, given, asked) in rows() {
        let classified = classified(&given, Asked { scope: asked.scope, ..CLIENTS });
        assert_eq!(classified.outcome, Outcome::Relayed);
        assert_eq!(classified.quota, quota_reading(&given.headers, NOW));
    }
}

#[test]
fn the_evidence_names_the_providers_request_and_no_value() {
    let headers = [("request-id", "req_7"), ("x-request-id", "other"), (":status", "rejected"), ("retry-after", "77")];
    let evidence = classified(&given(429, &headers, body(LIMIT)), BASE).evidence;
    assert_eq!(evidence.upstream_request_id.as_deref(), Some("req_7"));
    assert!(
        evidence.headers.iter().all(|name| given(429, &headers, Seen::Empty).headers.contains_key(name)),
        "{evidence:?}"
    );
    let served = classified(&given(200, &headers, event(Some("message_start"), START)), BASE).evidence;
    assert!(served.headers.is_empty());
}

#[test]
fn after_output_only_overload_and_rate_limits_count() {
    let told = |kind: &str, headers: &[(&str, &str)], asked| {
        let data = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
        error_event(data.as_bytes(), &given(200, headers, Seen::Empty).headers, asked, NOW)
    };
    assert_eq!(told("overloaded_error", &[], BASE), Some(fault(Cause::Overloaded, None)));
    assert_eq!(told("rate_limit_error", &[], BASE), Some(Outcome::Throttled { wait: None }));
    let refused = [(":7d_oi-status", "rejected"), (":7d_oi-reset", "T60")];
    let scoped = refusal(HoldScope::Model(ModelScope::Fable), &[Window::WeeklyFable], wall(60));
    assert_eq!(told("rate_limit_error", &refused, FABLE), Some(scoped));
    for other in
        ["api_error", "timeout_error", "authentication_error", "billing_error", "invalid_request_error", "tomorrow"]
    {
        assert_eq!(told(other, &[], BASE), None, "{other}");
    }
    assert_eq!(told("overloaded_error", &[], CLIENTS), None);
    assert_eq!(told("rate_limit_error", &[], SIDE), None);
    assert_eq!(error_event(EXTRA_USAGE.as_bytes(), &HeaderMap::new(), BASE, NOW), None);
    assert_eq!(error_event(b"garbage", &HeaderMap::new(), BASE, NOW), None);
}

fn any_headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let unified = "(5h|7d|7d_oi|x|overage|)-(status|reset|utilization)|status|reset|representative-claim|-";
    let name = prop_oneof![
        unified.prop_map(|field| format!("{UNIFIED}{field}")),
        Just("retry-after".to_owned()),
        Just("retry-after-ms".to_owned()),
        Just("request-id".to_owned()),
    ];
    let value = prop_oneof![
        "rejected|allowed|REJECTED|five_hour|1|0\\.5|179257[0-9]{4}|[0-9]{1,20}|inf|NaN|-1"
            .prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec((name, value), 0..8)
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let known =
        [EXTRA_USAGE, LIMIT, NO_OAUTH, NO_CREDIT, TOO_LONG, OVERLOADED_BODY, START, "", r#"{"error":"spend limit"}"#];
    let known = (proptest::sample::select(known.to_vec()), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let broken = known.prop_map(|(text, at, byte, whole)| {
        let mut bytes = text.as_bytes().to_vec();
        if !whole && !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    });
    prop_oneof![broken, proptest::collection::vec(any::<u8>(), 0..100)]
}

fn any_status() -> impl Strategy<Value = u16> {
    prop_oneof![Just(200_u16), Just(429), Just(400), Just(401), Just(403), Just(529), 100..1000_u16]
}

fn any_asked() -> impl Strategy<Value = Asked> {
    proptest::sample::select(vec![BASE, FABLE, SIDE, CLIENTS])
}

proptest! {
    #[test]
    fn whatever_comes_is_survived_and_nothing_absurd_is_learnt(
        status in any_status(), headers in any_headers(), bytes in any_body(), name in proptest::option::of("error|ping|message_start|\\PC{0,5}"),
        stream in any::<bool>(), asked in any_asked(),
    ) {
        let pairs = headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::from_bytes(value).ok()?))
        });
        let mut headers = HeaderMap::new();
        pairs.for_each(|(name, value)| { headers.append(name, value); });
        let seen = if stream { Seen::Event { name: name.as_deref(), data: &bytes } } else { Seen::Body(&bytes) };
        let answer = Answer { status: StatusCode::from_u16(status).unwrap(), headers: &headers, seen };
        let Classified { outcome, quota, evidence } = classify(answer, asked, NOW);

        prop_assert_eq!(&quota, &quota_reading(&headers, NOW), "quota is read whatever it came to");
        prop_assert!(evidence.headers.iter().all(|name| headers.contains_key(name)));
        match &outcome {
            Outcome::Served | Outcome::Blank => prop_assert!((200..300).contains(&status)),
            Outcome::Quota(refusal) => {
                let longest = Duration::from_secs(8 * 24 * 3600);
                let credible = |until: Deadline| !until.is_due(NOW) && until.remaining(NOW) <= longest;
                prop_assert!(refusal.until.is_none_or(credible), "{refusal:?}");
                let said = quota.windows.iter().any(|reading| reading.status == Some(QuotaStatus::Rejected));
                prop_assert!(said || quota.status == Some(QuotaStatus::Rejected), "nobody refused");
                let scoped = refusal.scope == HoldScope::Account || asked.scope == ModelScope::Fable;
                prop_assert!(scoped, "a scope hold for a request outside the scope");
            }
            Outcome::Throttled { wait } | Outcome::ServerFault { wait, .. } => {
                prop_assert!(wait.is_none_or(|wait| !wait.is_zero() && wait <= wait::LONGEST_WAIT));
            }
            Outcome::Unauthorized | Outcome::OrgRefused | Outcome::BalanceEmpty | Outcome::Relayed => {}
            Outcome::Unreachable { .. } | Outcome::HeadTimeout { .. } | Outcome::Abandoned => prop_assert!(false, "there was an answer"),
        }
        if asked.call == CallKind::Side {
            prop_assert!(matches!(outcome, Outcome::Relayed | Outcome::Unauthorized | Outcome::OrgRefused));
        }
        if asked.credential == CredentialOwner::Client {
            prop_assert_eq!(&outcome, &Outcome::Relayed);
        }
        let _ = error_event(&bytes, &headers, asked, NOW);
    }
}
