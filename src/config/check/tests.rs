//! One mistake at a time: what is said of it, and nothing else.

use std::io;
use std::path::Path;

use duduclaw_actors::id::Family;
use duduclaw_actors::outcome::Usage;
use duduclaw_actors::roster::{Affinity, BurnRate, PoolSettings, RotationSettings, TieOrder, WindowCaps, WindowLimits};

use super::*;
use crate::config::settings::{Scope, Settings};
use crate::config::surroundings::fake::Fake;

const FLEET: &str = "[providers.anthropic]\nauth = \"claude_oauth\"\n";

fn checked_on(text: &str, machine: &Fake) -> (Settings, Vec<Problem>) {
    let mut document = Document::parse(text, "c").unwrap_or_else(|why| panic!("{why}"));
    let (raw, misfits) = document.read();
    check(&raw, &document, Path::new("/h"), machine, misfits)
}

fn checked(text: &str) -> Settings {
    let (settings, problems) = checked_on(text, &Fake::default());
    assert!(problems.is_empty(), "{problems:?}");
    settings
}

fn said_on(text: &str, machine: &Fake) -> String {
    checked_on(text, machine).1.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What is said of some tables beside a sound fleet.
fn said(text: &str) -> String {
    said_on(&format!("{text}\n{FLEET}"), &Fake::default())
}

/// What is said of a provider's keys.
fn said_of_provider(keys: &str) -> String {
    said_on(&format!("[providers.p]\n{keys}"), &Fake::default())
}

/// What is said of an account's keys.
fn said_of_account(keys: &str) -> String {
    said_on(&format!("{FLEET}[[providers.anthropic.accounts]]\nname = \"a\"\n{keys}"), &Fake::default())
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let settings = checked(FLEET);
    assert_eq!(settings.server.binds[0].to_string(), "127.0.0.1:8787");
    assert_eq!(settings.server.max_concurrent, Some(1024));
    assert_eq!(settings.server.shutdown_timeout.as_secs(), 30);
    assert_eq!(settings.server.sse_keepalive.map(|d| d.as_secs()), Some(30));
    assert_eq!(settings.server.account_header.as_ref().map(|h| h.as_str()), Some("x-duduclaw-account"));
    let limits = settings.server.limits;
    assert_eq!(
        (limits.request, limits.request_headers, limits.url, limits.buffered),
        (33_554_432, 65_536, 8192, 268_435_456)
    );
    let timeouts = settings.server.timeouts;
    let seconds = [timeouts.connect, timeouts.ttfb, timeouts.ttfb_nonstream, timeouts.stream_idle].map(|d| d.as_secs());
    assert_eq!(seconds, [10, 120, 600, 120]);
    assert_eq!(settings.pool, PoolSettings::default());
    assert_eq!(settings.rotation, RotationSettings::default());
    assert_eq!(settings.rotation.health_interval.as_secs(), 60);
    assert_eq!(settings.usage_refresh, None);
    assert_eq!(settings.account_defaults.thresholds, WindowLimits::all(0.98));
    assert_eq!(settings.account_defaults.caps, WindowCaps::default());
    assert_eq!(settings.accounts_dir, Path::new("/h/accounts"));
    assert_eq!(settings.store.retention_days, 90);
    assert_eq!(settings.default_unit, Some(0));
    assert_eq!(settings.units[0].base_url.as_str(), "https://api.anthropic.com");
    assert!(matches!(settings.units[0].scope, Scope::WholeStore));
}

#[test]
fn zero_means_off_where_the_documentation_says_so() {
    let settings = checked(&format!(
        "[server]\nmax_concurrent_requests = 0\nsse_keepalive_seconds = 0\nexpose_accounts = false\n{FLEET}\
         max_concurrent_requests = 0"
    ));
    assert_eq!(settings.server.max_concurrent, None);
    assert_eq!(settings.rotation.max_concurrent, u32::MAX);
    assert_eq!(settings.server.sse_keepalive, None);
    assert_eq!(settings.server.account_header, None);
    assert_eq!(settings.units[0].max_concurrent, None);
}

#[test]
fn pool_and_rotation_are_resolved() {
    let text = format!(
        "[server.pool]\nburn_rate_avoidance = true\nusage_refresh_seconds = 7\nramp_initial_concurrency = 2\n\
         hold_seconds = 60\nreprobe_seconds = \"1m\"\n[rotation]\nsession_affinity = false\ncooldown_seconds = 5\n{FLEET}"
    );
    let (settings, _) = checked_on(&text, &Fake::default());
    assert_eq!((settings.pool.order, settings.pool.burn_rate), (TieOrder::Headroom, BurnRate::Avoid));
    assert_eq!(
        (settings.pool.ramp_initial, settings.pool.hold.as_secs(), settings.pool.reprobe.as_secs()),
        (2, 60, 60)
    );
    assert_eq!(settings.usage_refresh.map(|d| d.as_secs()), Some(60), "asked for at most once a minute");
    assert_eq!((settings.rotation.affinity, settings.rotation.cooldown.as_secs()), (Affinity::Free, 5));
}

/// Soft thresholds: the account's for the window, the account's, the pool's for the window, the pool's, the hard one;
/// never above the hard one. Caps: the same without the hard one.
#[test]
fn thresholds_and_caps_fall_back_step_by_step() {
    let of = |pool: &str, account: &str| {
        let text = format!("[server.pool]\n{pool}\n{FLEET}[[providers.anthropic.accounts]]\nname = \"a\"\n{account}");
        let Scope::Listed(entries) = checked(&text).units[0].scope.clone() else { panic!("not listed") };
        (entries[0].thresholds, entries[0].caps)
    };
    let limits = |five_hour, weekly, fable| WindowLimits { five_hour, weekly, fable };
    let caps = |five_hour, weekly, fable| WindowCaps { five_hour, weekly, fable };
    let pool = "default_threshold = 0.8\ndefault_threshold_5h = 0.7\ndefault_max_utilization = 0.9\n\
                default_max_utilization_fable = 1.0";
    let cases = [
        ("", "", limits(0.98, 0.98, 0.98), caps(None, None, None)),
        ("hard_threshold = 0.5", "threshold = 0.9", limits(0.5, 0.5, 0.5), caps(None, None, None)),
        (pool, "", limits(0.7, 0.8, 0.8), caps(Some(0.9), Some(0.9), Some(1.0))),
        (pool, "threshold = 0.6\nthreshold_7d = 0.95", limits(0.6, 0.95, 0.6), caps(Some(0.9), Some(0.9), Some(1.0))),
        (
            pool,
            "max_utilization = 0.3\nmax_utilization_fable = 0",
            limits(0.7, 0.8, 0.8),
            caps(Some(0.3), Some(0.3), Some(0.0)),
        ),
        ("hard_threshold = 0.9\ndefault_threshold = 0.95", "", limits(0.9, 0.9, 0.9), caps(None, None, None)),
    ];
    for (pool, account, thresholds, caps) in cases {
        assert_eq!(of(pool, account), (thresholds, caps), "{pool} / {account}");
    }
    let whole_store = checked(&format!("[server.pool]\nhard_threshold = 0.9\ndefault_threshold = 0.95\n{FLEET}"));
    assert_eq!(whole_store.account_defaults.thresholds, WindowLimits::all(0.9));
}

#[test]
fn a_fraction_outside_0_to_1_or_no_number_is_refused() {
    let text = "[server.pool]\nhard_threshold = 1.01\ndefault_threshold = nan\ndefault_threshold_5h = -0.1\n\
                default_threshold_7d = inf\ndefault_max_utilization_fable = 98\n[router]\nhigh = 2";
    insta::assert_snapshot!(said(text), @r#"
    error: c:2: server.pool.hard_threshold must be between 0.0 and 1.0, but is 1.01
    error: c:3: server.pool.default_threshold must be between 0.0 and 1.0, but is NaN
    error: c:4: server.pool.default_threshold_5h must be between 0.0 and 1.0, but is -0.1
    error: c:5: server.pool.default_threshold_7d must be between 0.0 and 1.0, but is inf
    error: c:6: server.pool.default_max_utilization_fable must be between 0.0 and 1.0, but is 98
    warning: c:7: not built yet: [router]
    error: c:8: router.high must be between 0.0 and 1.0, but is 2
    "#);
    insta::assert_snapshot!(said_of_account("threshold = 1.5\nmax_utilization_5h = -1"), @r#"
    error: c:5: threshold of account "a" of providers.anthropic must be between 0.0 and 1.0, but is 1.5
    error: c:6: max_utilization_5h of account "a" of providers.anthropic must be between 0.0 and 1.0, but is -1
    "#);
}

#[test]
fn an_open_listener_that_others_can_reach_is_refused() {
    let open = |bind: &str| said(&format!("[server]\nbind = {bind}"));
    insta::assert_snapshot!(open("[\"127.0.0.1:1\", \"0.0.0.0:1\"]"), @"error: c:2: server.bind 0.0.0.0:1 can be reached from other machines, and there is no [server.auth]: anyone could spend your accounts; add [server.auth] with clients, or bind 127.0.0.1");
    for bind in ["\"::\"", "\"[::]:1\"", "\"192.168.0.1\"", "\"[::ffff:10.0.0.1]:1\""] {
        assert!(open(bind).starts_with("error:"), "{bind}");
    }
    for bind in ["\"[::1]\"", "\"localhost\"", "\"unix:/run/g.sock\"", "\"127.0.0.2:1\""] {
        assert_eq!(open(bind), "", "{bind}");
    }
    let guarded = "[server]\nbind = \"0.0.0.0:1\"\n[server.auth]\ntokens_env = \"T\"\n";
    assert_eq!(said_on(&format!("{guarded}{FLEET}"), &Fake::default().with_var("T", "a:b")), "");
}

#[test]
fn what_a_listener_cannot_be_is_named() {
    insta::assert_snapshot!(said("[server]\nbind = []"), @"error: c:2: server.bind is empty; name at least one address, or leave the key out");
    insta::assert_snapshot!(said("[server]\nbind = [\"::1\", \"[::1]:8787\", \"nowhere\"]"), @r#"
    error: c:2: server.bind names [::1]:8787 twice
    error: c:2: server.bind: "nowhere" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
    "#);
    insta::assert_snapshot!(said("[server.admin]\nbind = \"0.0.0.0:1\""), @r#"
    error: c:2: server.admin.bind can be reached from other machines; name tokens_env, or bind 127.0.0.1
    "#);
}

#[test]
fn values_of_the_server_that_make_no_sense_are_named() {
    let text = "[server]\naccount_header = \"x y\"\nhosts = [\"http://h/\", \"\"]\ndefault_provider = \"anthropc\"\n\
                [server.limits]\nmax_request_bytes = 0\n[server.timeouts]\nupstream_ttfb = \"0s\"\n[rotation]\n\
                cooldown_seconds = 0\nhealth_interval_seconds = 0";
    insta::assert_snapshot!(said(text), @r#"
    error: c:2: server.account_header "x y" is no header name; letters, digits and hyphens
    error: c:3: server.hosts: "http://h/" is no host name; without scheme and path
    error: c:3: server.hosts: "" is no host name; without scheme and path
    error: c:4: server.default_provider names "anthropc", which is not declared; did you mean "anthropic"?
    error: c:6: server.limits.max_request_bytes must be at least 1
    error: c:8: server.timeouts.upstream_ttfb must be longer than nothing; the default is "120s"
    error: c:10: rotation.cooldown_seconds must be at least 1
    error: c:11: rotation.health_interval_seconds must be at least 1
    "#);
}

#[test]
fn clients_need_a_name_and_exactly_one_token() {
    let text = "[[server.auth.clients]]\ntoken_env = \"A\"\n[[server.auth.clients]]\nname = \"none\"\n\
                [[server.auth.clients]]\nname = \"two\"\ntoken_env = \"A\"\ntoken_file = \"/f\"\n\
                [[server.auth.clients]]\nname = \"hash\"\ntoken_sha256 = \"abc\"\n[[server.auth.clients]]\n\
                name = \"globs\"\ntoken_env = \"A\"\nmodels = []\nproviders = [\"antropic\"]\n";
    insta::assert_snapshot!(said_on(&format!("{text}{FLEET}"), &Fake::default().with_var("A", "t")), @r#"
    error: c:1: a client of [server.auth] has no name
    error: c:3: client "none" needs exactly one of token_sha256, token_env, token_file
    error: c:5: client "two" needs exactly one of token_sha256, token_env, token_file
    error: c:11: token_sha256 of client "hash" must be 64 hexadecimal digits: printf %s "$TOKEN" | sha256sum
    error: c:15: models of client "globs" must be patterns such as "claude-*"; leave the key out to allow all
    error: c:16: providers of a client names "antropic", which is not declared; did you mean "anthropic"?
    "#);
}

#[test]
fn a_list_of_tokens_is_read_whole_or_named() {
    let gate = |list: &str| {
        let text = format!("[server.auth]\ntokens_env = \"T\"\n{FLEET}");
        let (settings, problems) = checked_on(&text, &Fake::default().with_var("T", list));
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        (settings.server.auth.expect("a gate").clients, said.join("\n"))
    };
    let (clients, problems) = gate(" a:one , b:two:with:colons ,");
    assert_eq!(problems, "");
    assert_eq!(clients.authenticate("two:with:colons").map(|client| &*client.name), Some("b"));
    assert_eq!(clients.authenticate("one").map(|client| &*client.name), Some("a"));
    let bad = ["a", ":t", "a:", "a:one,a:two", "a:one,b:one", "a:ddj_x", " "];
    let said: Vec<_> = bad.iter().map(|list| gate(list).1).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    warning: c:1: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    error: c:2: entry 1 of T is not name:token; write name:token,name:token
    warning: c:1: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    error: c:2: entry 1 of T is not name:token; write name:token,name:token
    warning: c:1: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    error: c:2: entry 1 of T is not name:token; write name:token,name:token
    error: c:2: two clients are called "a"; give each its own name
    error: c:2: clients "a" and "b" have the same token; give each its own
    error: c:2: the token of client "a" begins with ddj_, as tokens of jobs do; use another
    warning: c:1: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    warning: c:2: the variable T is not set, or empty: the clients it would name are not let in
    "#);
}

#[test]
fn a_monthly_limit_is_an_amount() {
    let text =
        "[[server.auth.clients]]\nname = \"c\"\ntoken_env = \"A\"\nmonthly_requests = 5\nmonthly_budget_usd = 1.5\n";
    let machine = Fake::default().with_var("A", "t");
    let (settings, problems) = checked_on(&format!("{text}{FLEET}"), &machine);
    assert_eq!(problems, []);
    let clients = settings.server.auth.unwrap().clients;
    let cap = clients.authenticate("t").unwrap().cap;
    assert_eq!((cap.money.map(|money| money.0), cap.requests), (Some(1_500_000), Some(5)));
    let said: Vec<_> = ["nan", "inf", "-inf", "-0.01", "1e12"]
        .map(|amount| said_of_account(&format!("monthly_budget_usd = {amount}")))
        .into();
    insta::assert_snapshot!(said.join("\n"), @r#"
    error: c:5: monthly_budget_usd of account "a" of providers.anthropic must be an amount of dollars, 0 or more
    error: c:5: monthly_budget_usd of account "a" of providers.anthropic must be an amount of dollars, 0 or more
    error: c:5: monthly_budget_usd of account "a" of providers.anthropic must be an amount of dollars, 0 or more
    error: c:5: monthly_budget_usd of account "a" of providers.anthropic must be an amount of dollars, 0 or more
    error: c:5: monthly_budget_usd of account "a" of providers.anthropic must be an amount of dollars, 0 or more
    "#);
}

#[test]
fn a_budget_of_a_subscription_is_said_never_to_act() {
    insta::assert_snapshot!(said_of_account("token_env = \"T\"\nmonthly_budget_usd = 5.0"), @r#"warning: c:6: monthly_budget_usd of account "a" of providers.anthropic never acts: the requests of a subscription cost nothing"#);
}

#[test]
fn a_login_goes_only_to_an_endpoint_of_its_own_provider() {
    let cases = [
        "kind = \"responses\"\nbase_url = \"https://api.anthropic.com\"\nauth = \"claude_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"https://anthropic.com.evil.example\"\nauth = \"claude_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"https://evilanthropic.com\"\nauth = \"claude_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"http://api.anthropic.com\"\nauth = \"claude_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"https://chatgpt.com\"\nauth = \"chatgpt_oauth\"",
        "kind = \"responses\"\nbase_url = \"https://chatgpt.com.evil.example\"\nauth = \"chatgpt_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"https://kimi.example\"\nauth = \"kimi_oauth\"",
        "kind = \"anthropic\"\nbase_url = \"http://proxy.example\"\nauth = \"api_key\"\napi_key_env = \"K\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"claude_oauth\"\nlocal = true",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"claude_oauth\"\ntoken_url = \"http://h/t\"",
        "kind = \"anthropic\"\nbase_url = \"api.anthropic.com\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nuser_agent = \"a\\nb\"",
    ];
    let said: Vec<_> = cases.iter().map(|keys| said_of_provider(keys)).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    warning: c:2: not built yet: providers.p: kind = "responses"
    error: c:4: providers.p: auth = "claude_oauth" needs kind = "anthropic"
    error: c:3: base_url of providers.p: auth = "claude_oauth" sends its tokens only to anthropic.com and hosts below it (loopback is exempt), not to anthropic.com.evil.example
    error: c:3: base_url of providers.p: auth = "claude_oauth" sends its tokens only to anthropic.com and hosts below it (loopback is exempt), not to evilanthropic.com
    error: c:3: base_url of providers.p: auth = "claude_oauth" needs https (loopback is exempt)
    error: c:4: providers.p: auth = "chatgpt_oauth" needs kind = "responses"
    warning: c:2: not built yet: providers.p: kind = "responses"
    error: c:3: base_url of providers.p: auth = "chatgpt_oauth" sends its tokens only to chatgpt.com, openai.com and hosts below it (loopback is exempt), not to chatgpt.com.evil.example
    warning: c:1: not built yet: providers.p: auth = "kimi_oauth"
    error: c:3: base_url of providers.p: auth = "kimi_oauth" sends its tokens only to kimi.com and hosts below it (loopback is exempt), not to kimi.example
    warning: c:3: base_url of providers.p is plain http to another machine: the key travels unencrypted; use https
    error: c:1: providers.p is local, but auth = "claude_oauth" is a login with a provider; remove local, or set auth = "none" or "api_key"
    error: c:5: token_url of providers.p must be an https URL (loopback: http too)
    error: c:3: base_url of providers.p is no URL (relative URL without a base); write https://host/path
    error: c:4: user_agent of providers.p is no header value
    "#);
    let loopback = "kind = \"anthropic\"\nbase_url = \"http://[::1]:1\"\nauth = \"claude_oauth\"";
    assert_eq!(said_of_provider(loopback), "");
}

#[test]
fn a_provider_needs_what_its_name_does_not_tell() {
    let cases = [
        "",
        "kind = \"anthropic\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"api_key\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\n[[providers.p.accounts]]\nname = \"a\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"none\"\n[[providers.p.accounts]]\nname = \"a\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"claude_oauth\"\napi_key_env = \"K\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"api_key\"\napi_key_env = \"K\"\n\
         [[providers.p.accounts]]\nname = \"a\"\napi_key_env = \"L\"",
        "kind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"api_key\"\n[[providers.p.accounts]]\n\
         name = \"a\"\ntoken_env = \"L\"",
    ];
    let said: Vec<_> = cases.iter().map(|keys| said_of_provider(keys)).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    error: c:1: providers.p has no kind; one of anthropic, responses, chat, gemini
    error: c:1: providers.p has no base_url
    error: c:1: providers.p has no base_url
    error: c:1: providers.p has auth = "api_key" but no key; set api_key_env = "THE_VARIABLE" or add accounts
    error: c:1: providers.p has accounts but no auth; e.g. auth = "claude_oauth"
    error: c:1: providers.p has accounts, but auth = "none" uses none; set auth = "claude_oauth" or "api_key", or remove them
    error: c:5: providers.p has api_key_env beside a login; write the key as an account of its own
    error: c:5: providers.p has both api_key_env and accounts; write the key as an account of its own
    error: c:5: account "a" of providers.p has token_env, a login, but auth = "api_key"; set auth = "claude_oauth", which takes keys too, or use api_key_env
    "#);
    insta::assert_snapshot!(said_on("[server]\n", &Fake::default()), @"error: c: no provider is declared; add [providers.anthropic] or [[upstreams]]");
}

#[test]
fn an_account_has_a_plain_name_and_one_source() {
    insta::assert_snapshot!(said_of_account("credentials = \"/c\"\ntoken_env = \"T\""), @r#"error: c:3: account "a" of providers.anthropic has credentials and token_env; an account has one source, or none for the store's file of its name"#);
    insta::assert_snapshot!(said_of_account("api_key_env = \"K\"\nkeychain = true"), @r#"error: c:3: account "a" of providers.anthropic has api_key_env and keychain; an account has one source, or none for the store's file of its name"#);
    insta::assert_snapshot!(said_of_account("config_dir = \"/d\""), @r#"error: c:5: account "a" of providers.anthropic has config_dir, which goes with keychain = true only"#);
    insta::assert_snapshot!(said_of_account("uuid = \"00000000-0000-0000-0000-000000000000\""), @r#"warning: c:5: uuid of account "a" of providers.anthropic is all zeros, a placeholder; give the real one or remove it"#);
    assert_eq!(said_of_account("uuid = \" \"\nkeychain = false"), "");
    let names = ["A", "a_b", "a b", "", "../a", "ä"];
    let text: String = names.iter().map(|n| format!("[[providers.anthropic.accounts]]\nname = \"{n}\"\n")).collect();
    let twice = "[[providers.anthropic.accounts]]\nname = \"b\"\n".repeat(2);
    let nameless = "[[providers.anthropic.accounts]]\ntoken_env = \"T\"\n";
    insta::assert_snapshot!(said_on(&[FLEET, &text, &twice, nameless].concat(), &Fake::default()), @r#"
    error: c:3: account name "A" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:5: account name "a_b" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:7: account name "a b" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:9: account name "" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:11: account name "../a" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:13: account name "ä" of providers.anthropic may hold only small letters a–z, digits and hyphens
    error: c:17: providers.anthropic has two accounts named "b"; give each its own name
    error: c:19: an account of providers.anthropic has no name
    "#);
}

#[test]
fn both_forms_in_one_file_are_refused_with_the_rewrite() {
    let text = "[providers.anthropic]\nauth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"a\"\n\
                [[providers.anthropic.accounts]]\nname = \"b\"\ntoken_env = \"T\"\n[providers.mine]\nkind = \"anthropic\"\n\
                base_url = \"http://127.0.0.1:1\"\n[[upstreams]]\nname = \"u\"\nprovider = \"anthropic\"\nauth = \"none\"\n";
    insta::assert_snapshot!(said_on(text, &Fake::default()), @r#"
    error: c:11: [providers.*] and [[upstreams]] are two forms of the same thing, and this file has both; write the providers as upstreams:
        [[upstreams]]
        name = "anthropic"
        provider = "anthropic"
        auth = { mode = "claude_oauth", accounts = ["a", { name = "b", token_env = "T" }] }
        [[upstreams]]
        name = "mine"
        provider = "mine"
        kind = "anthropic"
        base_url = "http://127.0.0.1:1"
        auth = "passthrough"
    "#);
}

#[test]
fn an_upstream_needs_a_name_a_provider_and_one_scope() {
    let text = "[[upstreams]]\nprovider = \"anthropic\"\n\
                [[upstreams]]\nname = \"a\"\nprovider = \"anthropc\"\n\
                [[upstreams]]\nname = \"b\"\nprovider = \"anthropic\"\nauth = { accounts = [\"x\"] }\n\
                [[upstreams]]\nname = \"c\"\nprovider = \"anthropic\"\nauth = { mode = \"claude_oauth\", accounts = [] }\n\
                [[upstreams]]\nname = \"d\"\nprovider = \"anthropic\"\n\
                auth = { mode = \"claude_oauth\", account = \"x\", accounts = [\"y\"] }\n\
                [[upstreams]]\nname = \"e\"\nprovider = \"anthropic\"\n\
                auth = { mode = \"claude_oauth\", accounts = [\" \", \"x\", \"x\"] }\n\
                [[upstreams]]\nname = \"e\"\nprovider = \"anthropic\"\n";
    insta::assert_snapshot!(said_on(text, &Fake::default()), @r#"
    error: c:1: an entry of [[upstreams]] has no name
    error: c:5: upstream "a": provider is none of anthropic, codex, openai, gemini, ollama, kimi; give kind and base_url
    error: c:6: upstream "b" has accounts but no auth; e.g. auth = "claude_oauth"
    error: c:9: auth of upstream "b" has no mode; e.g. mode = "claude_oauth"
    error: c:13: auth of upstream "c" has an empty accounts list; name accounts, or leave the key out for the whole store
    error: c:17: auth of upstream "d" has both account and accounts; keep one
    error: c:21: account name " " of upstream "e" may hold only small letters a–z, digits and hyphens
    error: c:21: upstream "e" has two accounts named "x"; give each its own name
    error: c:22: upstream "e" is declared twice; give each its own name
    "#);
}

#[test]
fn models_and_routes_name_what_is_there_once() {
    let text = "
[[models]]
id = \"m[1m]\"
[models.upstream_model]
anthropic = \"m\"
[[models]]
id = \"empty\"
[models.upstream_model]
[[models]]
id = \"no-map\"
[[models]]
id = \"blank\"
[models.upstream_model]
anthropic = \" \"
[[models]]
id = \"unknown\"
[models.upstream_model]
antropic = \"m\"
[[models]]
id = \"long\"
[models.upstream_model]
anthropic = \"m[1M]\"
[[models]]
id = \"twice\"
[models.upstream_model]
anthropic = \"m\"
[[models]]
id = \"twice\"
[models.upstream_model]
anthropic = \"m\"
[[models]]
display_name = \"nameless\"
[[routes]]
model = \"twice\"
provider = \"anthropic\"
[[routes]]
model = \"r\"
provider = \"nobody\"
[[routes]]
model = \"s\"
provider = \"anthropic\"
[[routes]]
model = \"s\"
provider = \"anthropic\"
[[routes]]
provider = \"anthropic\"
[[route_prefixes]]
prefix = \"p\"
provider = \"nobody\"
[[route_prefixes]]
prefix = \"q\"
";
    insta::assert_snapshot!(said(text), @r#"
    error: c:2: model "m[1m]": [1m] never reaches a provider; write "m"
    error: c:8: model "empty" has an empty [models.upstream_model]; name an upstream and its id of the model
    error: c:9: model "no-map" has no [models.upstream_model]
    error: c:14: [models.upstream_model] of "blank" maps "anthropic" to nothing; write the model's id there
    error: c:18: [models.upstream_model] of "unknown" names "antropic", which is not declared; did you mean "anthropic"?
    error: c:22: [models.upstream_model] of "long": [1m] never reaches a provider; leave it out
    error: c:27: [[models]] has "twice" twice; join the two
    error: c:31: an entry of [[models]] has no id
    error: c:33: "twice" stands in [[models]] and in [[routes]]; the map decides already, so remove the route
    error: c:38: [[routes]] names "nobody", which is not declared
    error: c:42: [[routes]] has "s" twice; keep one
    error: c:45: an entry of [[routes]] has no model
    error: c:49: [[route_prefixes]] names "nobody", which is not declared
    error: c:50: [[route_prefixes]]: "q" has no provider
    "#);
}

#[test]
fn months_and_prices_that_make_no_sense_are_named() {
    let text = "
[billing]
timezone = \"Asia/Taipeh\"
cycle_day = 32
[[prices]]
input = -1
[[prices]]
model = \"claude-opus-5-5\"
output = nan
long_context = [{ above = 10, input = inf }]
[[prices]]
model = \"own\"
input = 1
[[prices]]
model = \"gpt-5.5\"
input = 4
[[prices]]
model = \"GPT-5.5\"
long_context = [{ input = 1, output = 2 }]
[[prices]]
model = \"gpt-5.5\"
input = 4
";
    insta::assert_snapshot!(said(text), @r#"
    error: c:3: billing.timezone "Asia/Taipeh" is no time zone; did you mean "Asia/Taipei"?
    error: c:4: billing.cycle_day must be a day of the month, 1 to 31
    error: c:5: an entry of [[prices]] has no model
    error: c:6: a price is dollars per million tokens, 0 or more
    error: c:9: a price is dollars per million tokens, 0 or more
    error: c:10: a price is dollars per million tokens, 0 or more
    error: c:11: the price of "own", which is not listed, has no output
    error: c:17: a long_context of the price of "GPT-5.5" has no above
    error: c:20: [[prices]] has "gpt-5.5" twice
    "#);
    insta::assert_snapshot!(said("[billing]\ntimezone = \"a moon base\""), @r#"error: c:2: billing.timezone "a moon base" is no time zone; e.g. "Asia/Taipei""#);
}

#[test]
fn a_price_of_ones_own_replaces_what_it_states_of_the_listed_one() {
    let text = "
[[prices]]
model = \"claude-haiku-5-5\"
output = 0.4
[[prices]]
model = \"own-model\"
input = 8
output = 16
";
    let settings = checked(&format!("{text}{FLEET}"));
    let cost = |model: &str, usage| settings.prices.priced(Family::Claude, model).price.cost(&usage).dollars();
    let million = |input, output, write| Usage { input, output, cache_write_1h: write, ..Usage::default() };
    assert_eq!(cost("claude-haiku-5-5", million(1_000_000, 1_000_000, 0)), 0.5, "no price for long prompts is stated");
    assert_eq!(cost("own-model", million(1_000_000, 0, 1_000_000)), 24.0, "a write for an hour is twice the input");
    assert_eq!(cost("claude-opus-5-5", million(1_000_000, 0, 0)), 4.0, "others stay");
}

#[test]
fn parts_that_are_not_built_yet_are_validated_all_the_same() {
    let text = "
[router]
high = 0.1
low = 0.5
local_fast = { provider = \"nobody\", model = \"m\" }
local_strong = { provider = \"anthropic\" }
[secrets]
seal = true
[store]
url = \"mysql://h\"
retention_days = 0
[dispatch]
max_parallel = 0
timeout = \"0s\"
pass_env = [\"A B\"]
[runtimes.cursor]
path = \"bin/cursor\"
[notify]
channel = \"webhook\"
target = \"nowhere\"
[channels.webhook.ops]
secret_env = \"S\"
[channels.telegram]
[log]
level = \"duduclaw=loud\"
";
    insta::assert_snapshot!(said(text), @r#"
    warning: c:2: not built yet: [router]
    error: c:2: router.low (0.5) must not be above router.high (0.1)
    error: c:5: router.local_fast names "nobody", which is not declared
    error: c:6: router.local_strong needs provider and model
    error: c:10: store.url must be "sqlite" or begin with postgres://
    error: c:11: store.retention_days must be at least 1
    warning: c:12: not built yet: [dispatch]
    error: c:13: dispatch.max_parallel must be at least 1
    error: c:14: dispatch.timeout must be longer than nothing; the default is "30m"
    error: c:15: dispatch.pass_env takes the name of an environment variable, not a value; put the secret into a variable and its name here
    error: c:16: [runtimes.cursor] is none of claude, codex, gemini
    error: c:17: path of [runtimes.cursor] must be absolute
    error: c:19: [notify] names channel "webhook" target "nowhere", which [channels] does not declare
    error: c:21: [channels.webhook.ops] has no url_env
    warning: c:23: not built yet: [channels.telegram]
    error: c:23: [channels.telegram] has no token_env
    error: c:23: [channels.telegram] has no agent
    error: c:23: [channels.telegram] has no allow
    error: c:25: log.level "duduclaw=loud" is no level; trace, debug, info, warn, error, or e.g. "duduclaw=debug,hyper=warn"
    "#);
    insta::assert_snapshot!(
        said("[store]\nurl = \"postgres://u:secret@h/db\""),
        @r#"warning: c:2: not built yet: store.url = "postgres://…"; state is kept in the home's state.db"#
    );
    insta::assert_snapshot!(said("[notify]\nchannel = \"pigeon\"\ntarget = \"t\""), @r#"
    error: c:2: notify.channel "pigeon" is none of webhook, telegram
    "#);
}

#[test]
fn the_store_folder_follows_the_variable_then_the_file_then_the_home() {
    let folder = |text: &str, machine: &Fake| checked_on(&format!("{text}\n{FLEET}"), machine).0.accounts_dir;
    let written = "[secrets]\naccounts_dir = \"~/a\"";
    assert_eq!(folder("", &Fake::default()), Path::new("/h/accounts"));
    assert_eq!(folder(written, &Fake::default()), Path::new("/home/me/a"));
    assert_eq!(folder(written, &Fake::default().with_var("DUDUCLAW_ACCOUNTS_DIR", "/v")), Path::new("/v"));
}

#[test]
fn a_client_whose_token_cannot_be_had_is_not_let_in() {
    let text = "[[server.auth.clients]]\nname = \"a\"\ntoken_env = \"UNSET\"\n[[server.auth.clients]]\nname = \"b\"\n\
                token_file = \"/locked\"\n[[server.auth.clients]]\nname = \"c\"\ntoken_file = \"/missing\"\n";
    let machine = Fake::default().with_failing_file("/locked", io::ErrorKind::PermissionDenied);
    insta::assert_snapshot!(said_on(&format!("{text}{FLEET}"), &machine), @r#"
    warning: c:1: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    warning: c:3: client "a" is not let in: the variable UNSET is not set
    warning: c:6: client "b" is not let in: /locked cannot be used: permission denied
    warning: c:9: client "c" is not let in: /missing is not there
    "#);
}

/// What is left out because it does not fit hides only that it is missing, in its own table.
#[test]
fn one_mistake_hides_no_other() {
    let text = "[server]\nbimd = 1\ndefault_provider = \"b\"\n[providers.a]\nkind = 5\nbase_url = \"http://127.0.0.1:1\"\n\
                [providers.b]\nbase_url = \"http://127.0.0.1:1\"\n[[routes]]\nmodel = \"m\"\nprovider = \"a\"\n\
                [[routes]]\nmodel = \"n\"\nprovider = \"c\"\n[[server.auth.clients]]\ntoken_env = \"A\"\n";
    insta::assert_snapshot!(said_on(text, &Fake::default()), @r#"
    error: c:2: unknown key "bimd" in [server]; did you mean "bind"?
    error: c:5: providers.a.kind: expected one of its words, in quotes, found 5
    error: c:7: providers.b has no kind; one of anthropic, responses, chat, gemini
    error: c:14: [[routes]] names "c", which is not declared
    error: c:15: a client of [server.auth] has no name
    warning: c:15: [server.auth] lets nobody in: no client has a token; name tokens_env or add clients
    "#);
}

#[test]
fn endpoints_of_logins_may_come_from_variables_if_they_are_safe() {
    let of = |value: &str| checked_on(FLEET, &Fake::default().with_var("DUDUCLAW_CLAUDE_TOKEN_URL", value));
    let (settings, problems) = of("http://127.0.0.1:9/token");
    assert_eq!(settings.units[0].token_url.as_ref().map(|url| url.as_str()), Some("http://127.0.0.1:9/token"));
    assert!(problems.is_empty());
    let (settings, problems) = of("http://canary.example/token");
    assert_eq!((settings.units[0].token_url.as_ref(), problems.len()), (None, 1));
    insta::assert_snapshot!(problems[0], @"error: $DUDUCLAW_CLAUDE_TOKEN_URL: must be an https URL (loopback: http too)");
    let with_key = format!("{FLEET}token_url = \"https://h/t\"");
    let machine = Fake::default().with_var("DUDUCLAW_CLAUDE_TOKEN_URL", "https://other/t");
    let (settings, _) = checked_on(&with_key, &machine);
    assert_eq!(settings.units[0].token_url.as_ref().map(|url| url.as_str()), Some("https://h/t"));
}
