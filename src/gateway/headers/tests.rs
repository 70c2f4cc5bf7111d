use http::header::CONTENT_ENCODING;
use proptest::prelude::*;

use super::response::{Relay, Stamp, relayed};
use super::*;

static AUTH_HEADER: HeaderName = HeaderName::from_static("x-duduclaw-token");

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn attempt(credential: Credential<'_>) -> Attempt<'_> {
    let (streaming, long_context) = (Streaming::Yes, LongContext::NotAsked);
    Attempt { credential, auth_header: &AUTH_HEADER, streaming, long_context }
}

fn sent(client: &[(&str, &str)], credential: Credential<'_>) -> HeaderMap {
    request(&map(client), &attempt(credential)).unwrap()
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

const OAUTH: Credential<'static> = Credential::ClaudeOauth("sk-ant-oat01-pool");
const KEY: Credential<'static> = Credential::ApiKey("sk-ant-api-pool");

#[test]
fn the_clients_own_headers_pass_with_their_values_in_order() {
    let client = [
        ("user-agent", "claude-cli/2.1.332 (external, cli)"),
        ("anthropic-version", "2023-06-01"),
        ("x-stainless-timeout", "NOT_GIVEN"),
        ("x-claude-code-session-id", "5f3b"),
        ("x-custom", "one"),
        ("x-custom", "two"),
        ("content-type", "application/json"),
    ];
    let headers = sent(&client, OAUTH);
    assert_eq!(values(&headers, "x-custom"), ["one", "two"]);
    for (name, value) in client.iter().filter(|(name, _)| *name != "x-custom") {
        assert_eq!(values(&headers, name), [*value]);
    }
    assert_eq!(headers.len(), client.len() + 3, "with credential, beta and accept-encoding");
}

#[test]
fn headers_of_the_clients_connection_and_for_us_stay_here() {
    let headers = sent(
        &[
            ("connection", "keep-alive, X-Per-Hop"),
            ("connection", "x-other-hop"),
            ("x-per-hop", "1"),
            ("x-other-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("proxy-authenticate", "Basic"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("host", "127.0.0.1:8787"),
            ("content-length", "48596"),
            ("cookie", "session=1"),
            ("x-duduclaw-token", "alice-token"),
            ("x-duduclaw-route", "x"),
            ("x-keep", "1"),
        ],
        Credential::None,
    );
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "x-keep"]);
}

/// C72: whatever credentials the client showed, in whichever slots and however often, one goes out: the account's.
#[test]
fn exactly_one_credential_goes_out_and_none_of_the_clients() {
    let client = [
        ("x-api-key", "local-key"),
        ("authorization", "Bearer sk-ant-oat01-desktop"),
        ("authorization", "Basic other"),
        ("x-goog-api-key", "local-goog"),
        ("x-duduclaw-token", "local-token"),
        ("x-duduclaw-token", "local-second"),
    ];
    let cases = [
        (OAUTH, "authorization", "Bearer sk-ant-oat01-pool"),
        (Credential::Bearer("sk-openai"), "authorization", "Bearer sk-openai"),
        (KEY, "x-api-key", "sk-ant-api-pool"),
        (Credential::GoogleKey("AIza"), "x-goog-api-key", "AIza"),
    ];
    for (credential, slot, value) in cases {
        let headers = sent(&client, credential);
        let slots = ["authorization", "x-api-key", "x-goog-api-key", "x-duduclaw-token"];
        let shown: Vec<_> =
            slots.iter().flat_map(|slot| values(&headers, slot).into_iter().map(move |v| (*slot, v))).collect();
        assert_eq!(shown, [(slot, value)]);
        assert!(headers[slot].is_sensitive());
        assert!(!format!("{headers:?}").contains(value));
    }
    let headers = sent(&client, Credential::None);
    assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept-encoding"]);
}

#[test]
fn a_configured_auth_header_of_any_name_stays_here() {
    let name = HeaderName::from_static("x-team-key");
    let plan = Attempt { auth_header: &name, ..attempt(KEY) };
    let headers = request(&map(&[("x-team-key", "a"), ("x-team-key", "b")]), &plan).unwrap();
    assert!(!headers.contains_key("x-team-key"));
}

#[test]
fn with_passthrough_only_what_is_ours_stays_here() {
    let ours = |token: &[u8]| token == b"alice-token";
    let client = [
        ("authorization", "bearer alice-token"),
        ("x-api-key", "sk-ant-their-own"),
        ("x-duduclaw-token", "anything"),
        ("anthropic-beta", "oauth-2025-04-20, a"),
        ("anthropic-beta", "a"),
    ];
    let headers = sent(&client, Credential::Passthrough(&ours));
    assert_eq!(values(&headers, "authorization"), [""; 0]);
    assert_eq!(values(&headers, "x-api-key"), ["sk-ant-their-own"]);
    assert!(!headers.contains_key("x-duduclaw-token"));
    assert_eq!(values(&headers, "anthropic-beta"), ["oauth-2025-04-20, a", "a"]);

    let headers =
        sent(&[("authorization", "Bearer theirs"), ("x-api-key", "alice-token")], Credential::Passthrough(&ours));
    assert_eq!(values(&headers, "authorization"), ["Bearer theirs"]);
    assert_eq!(values(&headers, "x-api-key"), [""; 0]);
}

/// C70.
#[test]
fn the_login_beta_joins_the_clients_list_once_and_at_its_end() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "oauth-2025-04-20"),
        (
            &["prompt-caching-scope-2026-01-05, context-management-2025-06-27"],
            "prompt-caching-scope-2026-01-05,context-management-2025-06-27,oauth-2025-04-20",
        ),
        (&["b,a", "c , b"], "b,a,c,oauth-2025-04-20"),
        (&["a", "a"], "a,oauth-2025-04-20"),
        (&["oauth-2025-04-20", "a"], "oauth-2025-04-20,a"),
        (&[" ,, a,"], "a,oauth-2025-04-20"),
    ];
    for (lines, expected) in cases {
        let client: Vec<_> = lines.iter().map(|line| ("Anthropic-Beta", *line)).collect();
        assert_eq!(values(&sent(&client, OAUTH), "anthropic-beta"), [expected], "{lines:?}");
    }
}

/// C71: also after an attempt with a login, since every attempt starts from the client's own headers.
#[test]
fn a_key_gets_no_login_beta() {
    let client = map(&[("anthropic-beta", "a,oauth-2025-04-20"), ("anthropic-beta", "b")]);
    let with_login = request(&client, &attempt(OAUTH)).unwrap();
    assert_eq!(values(&with_login, "anthropic-beta"), ["a,oauth-2025-04-20,b"]);
    let with_key = request(&client, &attempt(KEY)).unwrap();
    assert_eq!(values(&with_key, "anthropic-beta"), ["a,b"]);
    assert!(!with_key.contains_key("authorization"));

    assert!(!sent(&[("anthropic-beta", "oauth-2025-04-20")], KEY).contains_key("anthropic-beta"));
    assert_eq!(
        values(&sent(&[("anthropic-beta", "a, b"), ("anthropic-beta", "c")], KEY), "anthropic-beta"),
        ["a, b", "c"]
    );
}

/// C75.
#[test]
fn the_long_context_beta_is_kept_or_added() {
    let ask = |client: &[(&str, &str)], credential| {
        let plan = Attempt { long_context: LongContext::Asked, ..attempt(credential) };
        values(&request(&map(client), &plan).unwrap(), "anthropic-beta").join("|")
    };
    assert_eq!(ask(&[], KEY), "context-1m-2025-08-07");
    assert_eq!(ask(&[("anthropic-beta", "context-1m-2025-08-07,a")], KEY), "context-1m-2025-08-07,a");
    assert_eq!(ask(&[("anthropic-beta", "a")], OAUTH), "a,context-1m-2025-08-07,oauth-2025-04-20");
    assert_eq!(values(&sent(&[("anthropic-beta", "context-1m-2025-08-07")], KEY), "anthropic-beta").len(), 1);
}

#[test]
fn what_may_come_compressed_depends_on_the_stream() {
    let accept = |streaming| {
        let client = map(&[("accept-encoding", "gzip, deflate"), ("accept-encoding", "br, zstd")]);
        let headers = request(&client, &Attempt { streaming, ..attempt(KEY) }).unwrap();
        values(&headers, "accept-encoding").join("|")
    };
    assert_eq!(accept(Streaming::Yes), "identity");
    assert_eq!(accept(Streaming::No), "gzip, identity");
}

#[test]
fn a_secret_that_no_header_carries_is_an_error_that_does_not_show_it() {
    let error = request(&HeaderMap::new(), &attempt(Credential::ApiKey("sk\nhidden"))).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hidden"));
}

#[test]
fn a_token_is_read_with_and_without_its_scheme() {
    assert_eq!(token(b"Bearer abc"), b"abc");
    assert_eq!(token(b"bEARER  abc "), b"abc");
    assert_eq!(token(b" abc"), b"abc");
    assert_eq!(token(b"Bearer"), b"Bearer");
    assert_eq!(token(b"name:with:colons"), b"name:with:colons");
}

static ACCOUNT_HEADER: HeaderName = HeaderName::from_static("x-duduclaw-account");

fn stamp(account: Option<&'static str>) -> Stamp<'static> {
    let (upstream, model) = (Some("claude"), Some("claude-opus-5-5"));
    Stamp { upstream, model, attempts: 2, request_id: "req_1", account_header: &ACCOUNT_HEADER, account }
}

#[test]
fn an_answer_keeps_the_providers_headers_and_gets_ours() {
    let upstream = map(&[
        ("content-type", "text/event-stream"),
        ("anthropic-ratelimit-unified-status", "allowed"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("connection", "close, x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("x-duduclaw-account", "forged"),
        ("x-duduclaw-other", "forged"),
        ("request-id", "req_theirs"),
    ]);
    let headers = relayed(&upstream, Relay::Unchanged, &stamp(Some("work")));
    let mut names: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "anthropic-ratelimit-unified-status: allowed",
            "content-type: text/event-stream",
            "request-id: req_theirs",
            "set-cookie: a=1",
            "set-cookie: b=2",
            "x-duduclaw-account: work",
            "x-duduclaw-attempts: 2",
            "x-duduclaw-model: claude-opus-5-5",
            "x-duduclaw-request-id: req_1",
            "x-duduclaw-upstream: claude",
        ]
    );
}

/// C66: the label and the length go with the bytes; the length goes when the bytes may change.
#[test]
fn coding_and_length_stay_true_to_the_bytes() {
    let upstream = map(&[("content-encoding", "gzip"), ("content-length", "42")]);
    let unchanged = relayed(&upstream, Relay::Unchanged, &stamp(None));
    assert_eq!(
        (&unchanged[CONTENT_ENCODING], &unchanged[CONTENT_LENGTH]),
        (&"gzip".parse().unwrap(), &"42".parse().unwrap())
    );
    let changed = relayed(&upstream, Relay::Changed, &stamp(None));
    assert_eq!(changed[CONTENT_ENCODING], "gzip");
    assert!(!changed.contains_key(CONTENT_LENGTH));
}

#[test]
fn the_account_is_shown_under_its_configured_name_or_not_at_all() {
    let name = HeaderName::from_static("x-served-by");
    let upstream = map(&[("x-served-by", "their cache")]);
    let named = Stamp { account_header: &name, ..stamp(Some("工作 50%")) };
    assert_eq!(values(&relayed(&upstream, Relay::Unchanged, &named), "x-served-by"), ["%E5%B7%A5%E4%BD%9C 50%25"]);
    let hidden = relayed(&upstream, Relay::Unchanged, &stamp(None));
    assert!(!hidden.contains_key("x-duduclaw-account"));
    assert_eq!(values(&hidden, "x-served-by"), ["their cache"]);
}

#[test]
fn a_name_of_any_length_leaves_the_answer_a_head_that_clients_take() {
    let long = "模".repeat(400_000);
    let stamped = relayed(&HeaderMap::new(), Relay::Unchanged, &Stamp { model: Some(&long), ..stamp(None) });
    let head: usize = stamped.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    assert!(head < 4096, "{head}");
}

proptest! {
    /// Whatever the client sends, no credential of its own goes out, and all else keeps its values in order.
    #[test]
    fn no_clients_credential_survives(
        pairs in proptest::collection::vec((proptest::sample::select(vec![
            "authorization", "x-api-key", "x-goog-api-key", "x-duduclaw-token", "cookie", "connection", "x-a", "x-b", "anthropic-beta",
        ]), "[a-z,]{1,8}"), 0..12)
    ) {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let headers = sent(&pairs, OAUTH);
        prop_assert_eq!(values(&headers, "authorization"), ["Bearer sk-ant-oat01-pool"]);
        for name in ["x-api-key", "x-goog-api-key", "x-duduclaw-token", "cookie", "connection"] {
            prop_assert!(!headers.contains_key(name));
        }
        for name in ["x-a", "x-b"] {
            let expected: Vec<_> = pairs.iter().filter(|(n, _)| *n == name).map(|(_, value)| *value).collect();
            prop_assert_eq!(values(&headers, name), expected);
        }
        let betas = values(&headers, "anthropic-beta");
        prop_assert_eq!(betas.len(), 1);
        prop_assert_eq!(betas[0].split(',').filter(|beta| *beta == "oauth-2025-04-20").count(), 1);
    }
}
