//! The whole way from text to report.

use std::io;

use duduclaw_actors::id::EntryId;

use super::report::{Verdict, render};
use super::secret::SecretSource;
use super::surroundings::fake::Fake;
use super::topology::IdentityFacts;
use super::*;

const EXAMPLE: &str = include_str!("../../docs/config.example.toml");

pub(super) fn nothing_stored(_: Family, _: &Path) -> io::Result<Vec<String>> {
    Ok(Vec::new())
}

pub(super) fn nothing_known(_: &EntryId, _: &SecretSource) -> IdentityFacts {
    IdentityFacts::default()
}

pub(super) const BARE: Lookups<'static> = Lookups { names: &nothing_stored, facts: &nothing_known };

/// Loads `text` as the file of a machine.
pub(super) fn load_on(text: &str, machine: &Fake) -> Loaded {
    let machine = machine.clone().with_file("/c.toml", text);
    let named = Named { home: Some("/h".into()), config: Some("/c.toml".into()) };
    load(&named, &machine, BARE, &mut Ids::default())
}

fn said(loaded: &Loaded) -> String {
    loaded.report.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The example with its switched-off keys on: both forms, every key.
fn whole_example() -> String {
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => rest.to_owned(),
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_documented_example_has_no_error_and_says_what_is_missing() {
    let loaded = load_on(EXAMPLE, &Fake::default());
    assert_eq!(loaded.report.verdict(), Verdict::Doubtful, "{}", said(&loaded));
    assert_eq!(loaded.report.verdict().exit_code(), 3);
    assert!(loaded.report.may_start());
    insta::assert_snapshot!(render(&loaded.report), @r#"
    config ok, with 19 warnings: /c.toml
      listens on 127.0.0.1:8787 (1 client)
      anthropic: anthropic claude_oauth: primary, backup, metered, host-login
      codex: responses chatgpt_oauth: no account in the store
      openai: responses api_key: default
      ollama: chat none: default
    warning: /c.toml:58: the variable DUDUCLAW_CLIENT_TOKENS is not set, or empty: the clients it would name are not let in
    warning: /c.toml:76: client "build-server" is not let in: the variable BUILD_SERVER_TOKEN is not set
    warning: /c.toml:80: client "nightly" is not let in: /home/me/.config/nightly.token is not there
    warning: /c.toml:83: the variable DUDUCLAW_ADMIN_TOKENS is not set, or empty: the operators it would name are not let in
    warning: /c.toml:84: the variable DUDUCLAW_ADMIN_READ_TOKENS is not set, or empty: the operators it would name are not let in
    warning: /c.toml:85: not built yet: server.admin.session_ttl_seconds, since there are no browser sessions
    warning: /c.toml:179: not built yet: account "host-login" of providers.anthropic: keychain logins, which serve jobs only
    warning: /c.toml:183: not built yet: providers.codex: kind = "responses"
    warning: /c.toml:188: not built yet: providers.openai: kind = "responses"
    warning: /c.toml:195: not built yet: providers.ollama: kind = "chat"
    warning: /c.toml:267: not built yet: [router]
    warning: /c.toml:286: not built yet: [dispatch]
    warning: /c.toml:299: channels.webhook.ops: the variable OPS_WEBHOOK_URL is not set, so nothing can be sent; set it
    warning: /c.toml:301: channels.webhook.ops: the variable OPS_WEBHOOK_SECRET is not set, so nothing can be sent; set it
    warning: /c.toml:303: not built yet: [channels.telegram]
    warning: /c.toml:147: account anthropic/primary is not logged in (unreadable): /home/me/.claude/.credentials.json is not there; log in with the program it belongs to, or correct the path
    warning: /c.toml:163: account anthropic/backup is broken (unreadable): the variable CLAUDE_BACKUP_OAUTH_TOKEN is not set; set it
    warning: /c.toml:169: account anthropic/metered is broken (unreadable): the variable ANTHROPIC_API_KEY is not set; set it
    warning: /c.toml:192: account openai/default is broken (unreadable): the variable OPENAI_API_KEY is not set; set it
    "#);
}

#[test]
fn every_key_stands_in_the_documented_example() {
    let mut document = Document::parse(&whole_example(), "example").expect("it parses");
    let (_, misfits) = document.read::<raw::Raw>();
    assert!(misfits.is_empty(), "{misfits:?}");
    let missing = document.keys_not_used::<raw::Raw>();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_small_file_is_well() {
    let machine = Fake::default().with_var("TOKEN", "sk-ant-oat01-canary");
    let text = "[providers.anthropic]\nauth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"a\"\n\
                token_env = \"TOKEN\"\n";
    let loaded = load_on(text, &machine);
    insta::assert_snapshot!(render(&loaded.report), @r#"
    config ok: /c.toml
      listens on 127.0.0.1:8787 (open to this machine)
      anthropic: anthropic claude_oauth: a
    "#);
    assert!(loaded.report.may_start());
}

#[test]
fn a_named_file_must_be_there_and_readable() {
    let of = |machine: &Fake, config: &str| {
        let named = Named { home: Some("/h".into()), config: Some(config.into()) };
        load(&named, machine, BARE, &mut Ids::default())
    };
    let machine = Fake::default().with_failing_file("/locked", io::ErrorKind::PermissionDenied);
    let missing = of(&machine, "/missing.toml");
    assert_eq!(missing.report.verdict().exit_code(), 1);
    assert!(missing.ready.is_none());
    insta::assert_snapshot!([said(&missing), said(&of(&machine, "/locked"))].join("\n"), @r#"
    error: /missing.toml: the configuration file cannot be read: entity not found
    error: /locked: the configuration file cannot be read: permission denied
    "#);
}

#[test]
fn without_a_file_the_logins_and_keys_of_the_machine_serve() {
    let machine = Fake::default()
        .with_file(
            "/home/me/.claude/.credentials.json",
            "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-canary\"}}",
        )
        .with_var("ANTHROPIC_API_KEY", "sk-ant-api03-canary");
    let loaded = load(&Named::default(), &machine, BARE, &mut Ids::default());
    insta::assert_snapshot!(render(&loaded.report), @r#"
    config ok: no config file; using what was found on this machine
      listens on 127.0.0.1:8787 (open to this machine)
      anthropic: anthropic claude_oauth: claude-code, anthropic-api-key
    "#);
    let empty = load(&Named::default(), &Fake::default(), BARE, &mut Ids::default());
    assert_eq!(empty.report.verdict(), Verdict::Doubtful);
    insta::assert_snapshot!(said(&empty), @"warning: built-in defaults: found no login and no key; run `claude` and log in, or `duduclaw login claude --name NAME`, or set CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_API_KEY");
}

/// Case C46: each kind of secret in the other's place, from a variable, a login file and the store's; C50: an account
/// that nobody logged in to.
#[test]
fn a_secret_of_the_wrong_kind_is_an_error_and_a_missing_one_breaks_its_account_alone() {
    let login = |token: &str| format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{token}\"}}}}");
    let machine = Fake::default()
        .with_var("OAT", "sk-ant-oat01-canary")
        .with_var("API", " sk-ant-api03-canary\n")
        .with_var("AT", "\"sk-ant-at01-canary\"")
        .with_var("ORT", "sk-ant-ort01-canary")
        .with_var("SPACED", "canary canary")
        .with_var("EMPTY", " ")
        .with_file("/key.json", &login("sk-ant-api03-canary"))
        .with_file("/h/accounts/claude/stored.json", &login("sk-ant-oat01-canary"))
        .with_file("/h/accounts/claude/half.json", "{\"claudeAiOauth\":{\"accessToken\":\"canary");
    let mut text = "[providers.anthropic]\nauth = \"claude_oauth\"\n".to_owned();
    let accounts = [
        ("oat-as-key", "api_key_env = \"OAT\""),
        ("key-as-token", "token_env = \"API\""),
        ("short-lived", "token_env = \"AT\""),
        ("refresh", "token_env = \"ORT\""),
        ("at-as-key", "api_key_env = \"AT\""),
        ("key-file", "credentials = \"/key.json\""),
        ("stored", ""),
        ("half", ""),
        ("nobody", ""),
        ("spaced", "token_env = \"SPACED\""),
        ("empty", "token_env = \"EMPTY\""),
        ("unset", "api_key_env = \"UNSET\""),
        ("off", "token_env = \"UNSET\"\ndisabled = true"),
        ("pasted", "token_env = \"sk-ant-oat01-canary\""),
    ];
    for (name, source) in accounts {
        text += &format!("[[providers.anthropic.accounts]]\nname = \"{name}\"\n{source}\n");
    }
    let loaded = load_on(&text, &machine);
    assert_eq!(loaded.report.verdict(), Verdict::Wrong);
    let text = render(&loaded.report);
    insta::assert_snapshot!(text, @r#"
    config has 7 errors: /c.toml
    error: /c.toml:45: token_env takes the name of an environment variable, not a value; put the secret into a variable and its name here
    error: /c.toml:3: account anthropic/oat-as-key: the variable OAT holds an OAuth token (sk-ant-oat01-…), not an API key; name it as token_env
    error: /c.toml:6: account anthropic/key-as-token: the variable API holds an API key (sk-ant-api03-…), not an OAuth token; name it as api_key_env
    error: /c.toml:9: account anthropic/short-lived: the variable AT holds a short-lived access token (sk-ant-at01-…), which ends within hours; run `claude setup-token` and use the sk-ant-oat01-… it prints
    error: /c.toml:12: account anthropic/refresh: the variable ORT holds a refresh token (sk-ant-ort01-…), which cannot be sent; run `claude setup-token` and use the sk-ant-oat01-… it prints
    error: /c.toml:15: account anthropic/at-as-key: the variable AT holds a token of a login (sk-ant-at01-…), not an API key; create a key in the provider's console
    error: /c.toml:18: account anthropic/key-file: /key.json holds an API key (sk-ant-api03-…), not an OAuth token; name it as api_key_env
    warning: /c.toml:24: account anthropic/half is broken (unreadable): /h/accounts/claude/half.json cannot be used: it is not JSON of the expected shape; it is left as it is
    warning: /c.toml:27: account anthropic/nobody is not logged in (unreadable): /h/accounts/claude/nobody.json is not there; `duduclaw login claude --name nobody` or `duduclaw accounts add nobody` puts it there
    warning: /c.toml:30: account anthropic/spaced is broken (unreadable): the variable SPACED has blanks inside, which no token has; correct it
    warning: /c.toml:33: account anthropic/empty is broken (empty): the variable EMPTY is empty; set it
    warning: /c.toml:36: account anthropic/unset is broken (unreadable): the variable UNSET is not set; set it
    "#);
    assert!(!text.contains("canary"));
}

#[test]
fn a_key_in_the_account_store_is_as_it_should_be() {
    let entry = "[[providers.anthropic.accounts]]\nname = \"metered\"\n";
    let text = format!("[providers.anthropic]\nauth = \"claude_oauth\"\n{entry}");
    for key in ["sk-ant-api03-canary", "duduclaw-sealed:1:0123456789abcdef:AAAA"] {
        let file = format!("{{\"duduclawApiKey\": \"{key}\"}}");
        let machine = Fake::default().with_file("/h/accounts/claude/metered.json", &file);
        let loaded = load_on(&text, &machine);
        assert_eq!((loaded.report.verdict(), said(&loaded).as_str()), (Verdict::Fine, ""));
    }
}

/// The canary stands in every place a secret can come from; nothing that is printed or debugged shows it.
#[test]
fn no_output_holds_a_secret() {
    let canary = "sk-ant-oat01-canary";
    let machine = Fake::default()
        .with_var("TOKEN", canary)
        .with_var("LIST", "one:canary-one,two:canary:two,broken-canary")
        .with_var("CLIENT", "canary-client")
        .with_var("DATABASE", "mysql://u:canary@host/db")
        .with_var("DUDUCLAW_SERVER__BIND", "127.0.0.1:x")
        .with_var("DUDUCLAW_SERVER__LIMITS__MAX_URL_LENGTH", "canary")
        .with_file("/client", "canary-file");
    let text = format!(
        "[server.auth]\ntokens_env = \"LIST\"\n[[server.auth.clients]]\nname = \"c\"\ntoken_env = \"CLIENT\"\n\
         [[server.auth.clients]]\nname = \"f\"\ntoken_file = \"/client\"\n[[server.auth.clients]]\nname = \"h\"\n\
         token_sha256 = \"{canary}\"\n[store]\nurl = \"${{DATABASE}}\"\n[providers.a]\nkind = \"anthropic\"\n\
         base_url = \"https://u:{canary}@h/\"\nauth = \"claude_oauth\"\ntoken_url = \"http://{canary}/\"\n\
         user_agent = \"{canary}\\u0001\"\n[[providers.a.accounts]]\nname = \"{canary}\"\n[[providers.a.accounts]]\n\
         name = \"ok\"\ntoken_env = \"{canary}\"\n[[providers.a.accounts]]\nname = \"env\"\ntoken_env = \"TOKEN\"\n\
         uuid = \"x\"\nthreshold = \"{canary}\"\n[[routes]]\nmodel = \"m\"\nprovider = \"${{CLIENT}}\"\n\
         [log]\nlevel = \"{canary}=\"\nformat = \"{canary}\"\n"
    );
    let loaded = load_on(&text, &machine);
    assert_eq!(loaded.report.verdict(), Verdict::Wrong);
    let printed = format!("{}{loaded:?}", render(&loaded.report));
    assert!(!printed.contains("canary"), "{printed}");

    let fine = "[server.auth]\ntokens_env = \"GOOD\"\n[store]\nurl = \"postgres://u:canary@h/db\"\n[providers.anthropic]\n\
                auth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"a\"\ntoken_env = \"TOKEN\"\n";
    let loaded = load_on(fine, &Fake::default().with_var("TOKEN", canary).with_var("GOOD", "a:canary"));
    assert!(loaded.report.may_start(), "{}", said(&loaded));
    let printed = format!("{}{loaded:?}", render(&loaded.report));
    assert!(!printed.contains("canary"), "{printed}");
}

#[test]
fn an_invalid_reload_leaves_the_ids_alone_and_a_valid_one_keeps_them() {
    let machine = Fake::default().with_var("A", "x").with_var("B", "y");
    let text = |order: [&str; 2]| {
        let account = |n: &str| {
            format!("[[providers.p.accounts]]\nname = \"{}\"\napi_key_env = \"{n}\"\n", n.to_ascii_lowercase())
        };
        let head = "[providers.p]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"api_key\"\n";
        [head.to_owned(), account(order[0]), account(order[1])].concat()
    };
    let mut ids = Ids::default();
    let mut load = |text: &str| {
        let machine = machine.clone().with_file("/c.toml", text);
        let named = Named { home: Some("/h".into()), config: Some("/c.toml".into()) };
        load(&named, &machine, BARE, &mut ids)
    };
    let id_of = |loaded: &Loaded, name: &str| {
        let topology = &loaded.ready.as_ref().expect("ready").topology;
        topology.entries().iter().find(|entry| &*entry.id.name == name).expect(name).account
    };
    let first = load(&text(["A", "B"]));
    let broken = load(&text(["B", "A"]).replace("api_key_env", "api_key_envy"));
    assert!(broken.ready.is_none());
    let second = load(&text(["B", "A"]));
    for name in ["a", "b"] {
        assert_eq!(id_of(&first, name), id_of(&second, name));
    }
    assert_eq!(second.ready.expect("ready").topology.roster().revision, 2);
}

#[test]
fn only_listeners_store_and_limits_need_a_restart() {
    let settings = |text: &str| {
        let text = format!("{text}\n[providers.anthropic]\n");
        let loaded = load_on(&text, &Fake::default());
        loaded.ready.unwrap_or_else(|| panic!("{:?}", loaded.report)).settings
    };
    let old = settings("");
    assert!(
        reload::needs_restart(&old, &settings("[server]\nsse_keepalive_seconds = 5\n[rotation]\ncooldown_seconds = 9"))
            .is_empty()
    );
    let new = settings(
        "[server]\nbind = \"[::1]\"\nmax_concurrent_requests = 2\n[server.limits]\nmax_url_length = 9\n[server.admin]\n\
         bind = \"127.0.0.1:9\"\n[store]\nretention_days = 2",
    );
    let parts = ["server.bind", "server.admin.bind", "server.limits", "server.max_concurrent_requests", "store"];
    assert_eq!(reload::needs_restart(&old, &new), parts);
}
