use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::sim::account::AccountSpec;
use crate::sim::answer::{Break, Step};
use crate::sim::cache::InputUsage;
use crate::sim::fault::FaultRule;
use crate::sim::quota::{QuotaLimits, SimWindow};

const T0: i64 = 1_800_000_000;
const OAUTH: &str = "oauth-2025-04-20";

fn at(seconds: u64) -> Timestamp {
    Timestamp::at_millis(T0 * 1000).plus(Duration::from_secs(seconds))
}

fn world(accounts: impl IntoIterator<Item = AccountSpec>) -> World {
    World::new(SimConfig::with(accounts), at(0))
}

fn post(path: &str, headers: &[(&str, &str)], body: &Value) -> Arrived {
    let fixed = [("anthropic-version", "2023-06-01")];
    let headers = fixed.iter().chain(headers).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Arrived {
        connection: 1,
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: headers.collect(),
        body: Bytes::from(body.to_string()),
    }
}

fn send(world: &mut World, arrived: &Arrived, now: Timestamp) -> Answer {
    let body = serde_json::from_slice(&arrived.body).ok();
    world.answer(arrived, body.as_ref(), now).answer
}

fn bearer(world: &World, account: usize) -> String {
    format!("Bearer {}", world.accounts[account].credentials().token)
}

fn ask(world: &mut World, account: usize, body: &Value, now: Timestamp) -> Answer {
    let bearer = bearer(world, account);
    let arrived = post("/v1/messages?beta=true", &[("authorization", &bearer), ("anthropic-beta", OAUTH)], body);
    send(world, &arrived, now)
}

fn hello(model: &str) -> Value {
    json!({"model": model, "max_tokens": 1000, "messages": [{"role": "user", "content": "hi"}]})
}

fn body(answer: &Answer) -> Value {
    let bytes: Vec<u8> = answer
        .steps
        .iter()
        .flat_map(|step| if let Step::Send(bytes) = step { bytes.to_vec() } else { Vec::new() })
        .collect();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn message(answer: &Answer) -> String {
    body(answer).pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Field case C01: what the refusal states is when the account serves again, to the second.
#[test]
fn a_full_window_refuses_until_its_reset_and_states_it() {
    let limits = QuotaLimits { five_hours: 20, ..QuotaLimits::default() };
    let mut world = world([AccountSpec::oauth("a").with_limits(limits)]);
    let sonnet = hello("claude-sonnet-5");
    let first = ask(&mut world, 0, &sonnet, at(0));
    assert_eq!(first.status, 200);
    assert_eq!(header(&first, "anthropic-ratelimit-unified-5h-status"), Some("allowed"));
    assert_eq!(ask(&mut world, 0, &sonnet, at(1)).status, 200);
    let refused = ask(&mut world, 0, &sonnet, at(2));
    assert_eq!((refused.status, header(&refused, "retry-after")), (429, Some("17998")));
    assert_eq!(header(&refused, "anthropic-ratelimit-unified-5h-status"), Some("rejected"));
    assert_eq!(header(&refused, "anthropic-ratelimit-unified-7d-status"), Some("allowed"));
    assert_eq!(header(&refused, "anthropic-ratelimit-unified-representative-claim"), Some("five_hour"));
    assert_eq!(header(&refused, "anthropic-ratelimit-unified-reset"), Some("1800018000"));
    assert_eq!(ask(&mut world, 0, &sonnet, at(17_999)).status, 429);
    assert_eq!(ask(&mut world, 0, &sonnet, at(18_000)).status, 200);
}

/// Field case C07: the cap of one model family leaves the others alone.
#[test]
fn a_full_fable_window_refuses_fable_alone() {
    let mut world = world([AccountSpec::oauth("a")]);
    world.accounts[0].quota.set_share(SimWindow::Fable, 1.0, at(0));
    let fable = ask(&mut world, 0, &hello("claude-fable-5"), at(1));
    assert_eq!(fable.status, 429);
    assert_eq!(header(&fable, "anthropic-ratelimit-unified-7d_oi-status"), Some("rejected"));
    let sonnet = ask(&mut world, 0, &hello("claude-sonnet-5"), at(1));
    assert_eq!((sonnet.status, header(&sonnet, "anthropic-ratelimit-unified-7d_oi-status")), (200, None));
}

#[test]
fn an_api_key_has_no_windows() {
    let limits = QuotaLimits { five_hours: 1, ..QuotaLimits::default() };
    let mut world = world([AccountSpec::api_key("k").with_limits(limits)]);
    let key = world.accounts[0].credentials().token;
    for credential in [("x-api-key", key.clone()), ("authorization", format!("Bearer {key}"))] {
        let arrived = post("/v1/messages", &[(credential.0, &credential.1)], &hello("claude-sonnet-5"));
        let answer = send(&mut world, &arrived, at(0));
        assert_eq!(answer.status, 200, "{}", credential.0);
        assert!(answer.headers.iter().all(|(name, _)| !name.contains("unified")));
    }
}

/// Field cases C70 to C72: what must not reach the provider does not pass it either.
#[test]
fn credentials_are_checked_as_the_provider_does() {
    let mut world = world([AccountSpec { token_seconds: Some(60), ..AccountSpec::oauth("a") }]);
    let token = world.accounts[0].credentials().token;
    let bearer = bearer(&world, 0);
    let oauth = ("anthropic-beta", "claude-code-20250219, oauth-2025-04-20");
    type Case<'c> = (&'c [(&'c str, &'c str)], u64, u16, &'c str);
    let cases: [Case<'_>; 7] = [
        (&[("authorization", &bearer), oauth], 0, 200, ""),
        (&[("authorization", &bearer)], 0, 401, "OAuth authentication is currently not supported."),
        (&[("x-api-key", &token), oauth], 0, 401, "invalid x-api-key"),
        (
            &[("authorization", &bearer), ("x-api-key", "local"), oauth],
            0,
            400,
            "two credentials in one request: send one",
        ),
        (&[("authorization", "Bearer sk-ant-oat01-unknown"), oauth], 0, 401, "Invalid bearer token"),
        (&[], 0, 401, "x-api-key header is required"),
        (&[("authorization", &bearer), oauth], 60, 401, "OAuth token has expired."),
    ];
    for (headers, seconds, status, text) in cases {
        let answer = send(&mut world, &post("/v1/messages", headers, &hello("claude-sonnet-5")), at(seconds));
        assert_eq!((answer.status, message(&answer).as_str()), (status, text), "{headers:?}");
        assert!(header(&answer, "request-id").is_some_and(|id| id.starts_with("req_")));
    }
}

fn renew(world: &mut World, token: &str, now: Timestamp) -> Answer {
    let body = json!({"grant_type": "refresh_token", "refresh_token": token, "client_id": "c"});
    send(world, &post("/v1/oauth/token", &[], &body), now)
}

/// Field cases C30 and C34.
#[test]
fn the_token_endpoint_takes_a_refresh_token_once_and_logs_every_try() {
    let mut world = world([AccountSpec::oauth("a")]);
    world.config.token_delay_millis = 300;
    let old = world.accounts[0].credentials();
    let spent = old.refresh_token.expect("a login has one");
    world.accounts[0].expire(at(1));
    let first = renew(&mut world, &spent, at(2));
    assert_eq!((first.status, first.before.delay), (200, Duration::from_millis(300)));
    assert_eq!(body(&first)["expires_in"], 28_800);
    assert_ne!(body(&first)["refresh_token"], json!(spent));
    let second = renew(&mut world, &spent, at(3));
    assert_eq!((second.status, body(&second)["error"].as_str()), (400, Some("invalid_grant")));
    assert_eq!(ask(&mut world, 0, &hello("claude-sonnet-5"), at(4)).status, 200, "the second try revoked nothing");
    let tries = world.log.since(0).into_iter().filter(|record| record.endpoint == Endpoint::Token);
    let accounts: Vec<_> = tries.map(|record| (record.account.clone(), record.request_body())).collect();
    assert_eq!(accounts, vec![(Some("a".to_owned()), None); 2], "known by account, without the token");
}

/// Field case C32: a hiccup of the token endpoint spends no token.
#[test]
fn a_fault_at_the_token_endpoint_spends_nothing_but_a_lost_answer_does() {
    let mut world = world([AccountSpec::oauth("a")]);
    let token = world.accounts[0].credentials().refresh_token.expect("a login has one");
    world.faults.add(FaultRule::next("a", 1, Fault::Firewall).on(Endpoint::Token));
    assert_eq!(renew(&mut world, &token, at(0)).status, 403);
    world.faults.add(FaultRule::next("a", 1, Fault::CutAfter { events: 0 }).on(Endpoint::Token));
    assert_eq!(renew(&mut world, &token, at(1)).steps, [Step::Break(Break::Close)]);
    assert_eq!(renew(&mut world, &token, at(2)).status, 400, "it was spent though the answer was lost");
}

fn thought(model: &str, prompt: &str, signature: &str) -> Value {
    json!({"model": model, "max_tokens": 1000, "thinking": {"type": "adaptive"}, "messages": [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": signature}]},
        {"role": "user", "content": prompt},
    ]})
}

fn signature(world: &mut World, account: usize, model: &str) -> String {
    let request = json!({"model": model, "max_tokens": 1000, "thinking": {"type": "adaptive"},
                         "messages": [{"role": "user", "content": "[[think]][[say: done]]"}]});
    let answer = body(&ask(world, account, &request, at(0)));
    answer["content"][0]["signature"].as_str().expect("signed thinking").to_owned()
}

fn recalled(answer: &Answer) -> String {
    body(answer)["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn bound_thinking_of_another_account_is_dropped_without_a_word() {
    let mut world = world([AccountSpec::oauth("a"), AccountSpec::oauth("b")]);
    for (model, by_b) in [("claude-sonnet-5-5-20270101", 0), ("claude-opus-5-5", 1)] {
        let signature = signature(&mut world, 0, model);
        let request = thought(model, "[[recall]]", &signature);
        let own = ask(&mut world, 0, &request, at(1));
        assert_eq!(recalled(&own), "I can see 1 earlier thinking blocks.");
        let foreign = ask(&mut world, 1, &request, at(2));
        assert_eq!((foreign.status, recalled(&foreign)), (200, format!("I can see {by_b} earlier thinking blocks.")));
        let record = world.log.since(0).pop().expect("the last request");
        assert_eq!((record.dropped_thinking, record.seen_thinking), (1 - by_b, by_b));
    }
}

#[test]
fn an_invented_signature_is_refused_with_its_place() {
    let mut world = world([AccountSpec::oauth("a")]);
    let answer = ask(&mut world, 0, &thought("claude-sonnet-5-5", "hi", "garbage"), at(0));
    assert_eq!(answer.status, 400);
    assert_eq!(message(&answer), "messages.1.content.0: Invalid `signature` in `thinking` block");
}

#[test]
fn the_cache_is_the_organisations_and_its_use_is_told_and_counted() {
    let shared = AccountSpec { organization: Some("org".to_owned()), ..AccountSpec::oauth("b") };
    let mut world = world([AccountSpec { name: "a".to_owned(), ..shared.clone() }, shared, AccountSpec::oauth("c")]);
    let mut request = hello("claude-sonnet-5");
    request["system"] = json!([{"type": "text", "text": "x".repeat(8000), "cache_control": {"type": "ephemeral"}}]);
    let mut used = |account| {
        ask(&mut world, account, &request, at(1));
        world.log.since(0).pop().and_then(|record| record.usage).expect("the model was asked")
    };
    let written = InputUsage { input: 1, cache_write_5m: 2000, ..InputUsage::default() };
    let read = InputUsage { input: 1, cache_read: 2000, ..InputUsage::default() };
    assert_eq!([used(0), used(1), used(2)], [written, read, written]);
}

/// Field cases C10 and C75: what the provider says of requests that are wrong in themselves.
#[test]
fn wrong_requests_are_refused_in_the_providers_words() {
    let mut world = world([AccountSpec::oauth("a")]);
    world.config.context_tokens = Some(100);
    let mut no_limit = hello("claude-sonnet-5");
    no_limit.as_object_mut().expect("an object").shift_remove("max_tokens");
    let mut long = hello("claude-sonnet-5");
    long["system"] = json!("x".repeat(4000));
    let cases = [
        (no_limit, 400, "max_tokens: Field required"),
        (long, 400, "prompt is too long: 1001 tokens > 100 maximum"),
        (hello("claude-x-4-6[1m]"), 404, "model: claude-x-4-6[1m]"),
        (hello("gpt-5"), 404, "model: gpt-5"),
        (
            json!({"model": "claude-sonnet-5", "max_tokens": 1, "messages": []}),
            400,
            "messages: at least one message is required",
        ),
    ];
    for (request, status, text) in cases {
        let answer = ask(&mut world, 0, &request, at(0));
        assert_eq!((answer.status, message(&answer).as_str()), (status, text));
    }
}

/// Field case C73.
#[test]
fn tokens_are_counted_without_being_spent() {
    let mut world = world([AccountSpec::oauth("a")]);
    let bearer = bearer(&world, 0);
    let headers = [("authorization", bearer.as_str()), ("anthropic-beta", OAUTH)];
    let mut request = hello("claude-sonnet-5");
    request["system"] = json!("x".repeat(400));
    let answer = send(&mut world, &post("/v1/messages/count_tokens?beta=true", &headers, &request), at(0));
    assert_eq!((answer.status, body(&answer)), (200, json!({"input_tokens": 101})));
    assert_eq!(world.accounts[0].quota.states(at(0))[0].reset, None);
}

fn get(world: &mut World, account: usize, path: &str) -> Answer {
    let bearer = bearer(world, account);
    let mut arrived = post(path, &[("authorization", &bearer), ("anthropic-beta", OAUTH)], &Value::Null);
    arrived.method = "GET".to_owned();
    send(world, &arrived, at(10))
}

#[test]
fn the_usage_api_tells_windows_that_were_opened() {
    let mut world = world([AccountSpec::oauth("a"), AccountSpec::setup_token("s")]);
    assert_eq!(body(&get(&mut world, 0, "/api/oauth/usage"))["five_hour"], Value::Null);
    world.accounts[0].quota.set_share(SimWindow::FiveHours, 0.42, at(0));
    world.accounts[0].quota.set_share(SimWindow::Fable, 0.5, at(0));
    let usage = body(&get(&mut world, 0, "/api/oauth/usage"));
    assert_eq!(usage["five_hour"], json!({"utilization": 42.0, "resets_at": "2027-01-15T13:00:00.000000+00:00"}));
    assert_eq!(usage["limits"][1]["kind"], "weekly_scoped");
    assert_eq!(usage["limits"][1]["scope"]["model"]["display_name"], "Fable");
    assert_eq!(get(&mut world, 1, "/api/oauth/usage").status, 403, "a setup token has not that scope");
}

#[test]
fn models_are_listed_and_unknown_paths_are_not_found() {
    let mut world = world([AccountSpec::oauth("a")]);
    assert_eq!(body(&get(&mut world, 0, "/v1/models?limit=1000"))["data"][0]["id"], "claude-opus-5-5");
    assert_eq!(get(&mut world, 0, "/v1/models/claude-nothing").status, 404);
    let unknown = get(&mut world, 0, "/v1/files");
    assert_eq!((unknown.status, body(&unknown)["error"]["type"].as_str()), (404, Some("not_found_error")));
}

/// Field cases C03, C05, C08, C09, C20, C21 and C56 have their inputs here: each fault, its status and type.
#[test]
fn every_row_of_the_table_of_answers_can_be_asked_for() {
    let retry = |value: &str| value.to_owned();
    let rows = [
        (Fault::Quota5h { resets_in: None }, 429, "rate_limit_error"),
        (Fault::Quota7d { resets_in: None }, 429, "rate_limit_error"),
        (Fault::ScopeFable { resets_in: None }, 429, "rate_limit_error"),
        (Fault::ScopeUnknown { window: retry("7d_zz"), resets_in: None }, 429, "rate_limit_error"),
        (Fault::AggregateRejected { resets_in: None, retry_after: None }, 429, "rate_limit_error"),
        (Fault::Throttle { retry_after: retry("5") }, 429, "rate_limit_error"),
        (Fault::ThrottleUnstated, 429, "rate_limit_error"),
        (Fault::LongContext, 429, "rate_limit_error"),
        (Fault::Unauthorized, 401, "authentication_error"),
        (Fault::OrgDisabled, 403, "permission_error"),
        (Fault::Forbidden, 403, "permission_error"),
        (Fault::BalanceEmpty, 400, "invalid_request_error"),
        (Fault::SpendLimit, 402, "billing_error"),
        (Fault::Overloaded { retry_after: Some(retry("Wed, 21 Oct 2026 07:28:00 GMT")) }, 529, "overloaded_error"),
        (Fault::ServerError, 500, "api_error"),
        (Fault::Unavailable { retry_after: retry("2") }, 503, "api_error"),
        (Fault::TooLong, 400, "invalid_request_error"),
        (Fault::NoSuchModel, 404, "not_found_error"),
        (Fault::TooLarge, 413, "request_too_large"),
        (Fault::FirstEventError { kind: retry("overloaded_error") }, 529, "overloaded_error"),
    ];
    let mut world = world([AccountSpec::oauth("a")]);
    for (fault, status, kind) in rows {
        world.faults.add(FaultRule::next("a", 1, fault.clone()));
        let answer = ask(&mut world, 0, &hello("claude-sonnet-5"), at(0));
        assert_eq!((answer.status, body(&answer)["error"]["type"].as_str()), (status, Some(kind)), "{fault:?}");
        assert_eq!(world.log.since(0).pop().map(|record| record.faults), Some(vec![fault.name()]));
    }
    assert_eq!(ask(&mut world, 0, &hello("claude-sonnet-5"), at(0)).status, 200);
}

#[test]
fn an_exact_answer_is_given_as_it_was_asked_for() {
    let mut world = world([AccountSpec::oauth("a")]);
    let headers =
        vec![("retry-after".to_owned(), "soon".to_owned()), ("content-type".to_owned(), "text/html".to_owned())];
    world.faults.add(FaultRule::next("a", 1, Fault::Status { status: 418, headers, body: "<p>".to_owned() }));
    let answer = ask(&mut world, 0, &hello("claude-sonnet-5"), at(0));
    assert_eq!(
        (answer.status, header(&answer, "content-type"), header(&answer, "retry-after")),
        (418, Some("text/html"), Some("soon"))
    );
    assert_eq!(answer.steps, [Step::Send(Bytes::from_static(b"<p>"))]);
}

#[test]
fn an_account_can_have_headers_of_its_own_on_every_answer() {
    let overage = ("anthropic-ratelimit-unified-overage-status".to_owned(), "rejected".to_owned());
    let mut world = world([AccountSpec { headers: vec![overage], ..AccountSpec::oauth("a") }]);
    let answer = ask(&mut world, 0, &hello("claude-sonnet-5"), at(0));
    assert_eq!(header(&answer, "anthropic-ratelimit-unified-overage-status"), Some("rejected"));
}

#[test]
fn a_reset_brings_back_the_start() {
    let mut world = world([AccountSpec::oauth("a")]);
    let token = world.accounts[0].credentials();
    ask(&mut world, 0, &hello("claude-sonnet-5"), at(0));
    world.accounts[0].revoke(at(1));
    world.faults.add(FaultRule::standing("a", Fault::ServerError));
    world.reset(at(2));
    assert_eq!(world.accounts[0].credentials().token, token.token);
    assert!(world.log.since(0).is_empty());
    assert_eq!(ask(&mut world, 0, &hello("claude-sonnet-5"), at(3)).status, 200);
    assert_eq!(world.log.since(0)[0].id, 2, "numbers go on");
}
