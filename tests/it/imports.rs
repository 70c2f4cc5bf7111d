//! Coming over from other programs: their accounts, their settings, and what they knew of quota.

mod genuine;

use std::path::PathBuf;

use duduclaw::sim::{AccountSpec, Endpoint};
use serde_json::{Value, json};

use crate::binary::{Daemon, Setting, ask, client};
use crate::login::{setting, sweep};
use crate::support::{World, login};

fn foreign(setting: &Setting, name: &str, text: &str) -> PathBuf {
    let path = setting.home.path().join("foreign").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn config(setting: &Setting) -> String {
    std::fs::read_to_string(setting.home.path().join("config.toml")).unwrap()
}

async fn import(setting: &Setting, program: &str, path: &std::path::Path, more: &[&str]) -> (i32, String, String) {
    let arguments = [&["import", program, path.to_str().unwrap()], more].concat();
    crate::binary::run(setting.at_sim(&arguments)).await
}

fn teamclaude(setting: &Setting) -> PathBuf {
    let held = |name: &str| setting.sim.credentials(name).unwrap();
    let (first, second) = (held("first"), held("second"));
    let text = json!({
        "proxy": {"port": 3456, "apiKey": "tc-secret"},
        "switchThreshold": 0.9,
        "accounts": [
            {"name": "me@example.com (Acme)", "type": "oauth", "accountUuid": first.uuid, "orgUuid": first.organization,
             "priority": 2, "accessToken": first.token, "refreshToken": first.refresh_token, "expiresAt": first.expires_at,
             "switchThreshold": {"unified7dFable": 0.5}, "maxUsage": 0.95},
            {"name": "second", "type": "oauth", "accessToken": second.token, "refreshToken": second.refresh_token,
             "expiresAt": second.expires_at, "disabled": true},
            {"name": "dead", "type": "apikey", "apiKey": "sk-ant-api03-CANARY"},
            {"name": "deepseek", "type": "apikey", "apiKey": "sk-x", "upstream": "https://api.deepseek.com/anthropic"},
            {"name": "own", "type": "oauth", "importFrom": "/nowhere/.credentials.json"},
        ],
    });
    foreign(setting, "teamclaude.json", &text.to_string())
}

#[tokio::test]
async fn teamclaude_is_told_first_and_then_brought_over_with_its_settings() {
    let setting = setting(&["first", "second"]).await;
    let path = teamclaude(&setting);
    let (before, file) = (config(&setting), std::fs::read(&path).unwrap());
    let (code, dry, err) = import(&setting, "teamclaude", &path, &[]).await;
    assert_eq!(code, 0, "{err}");
    for part in [
        "5 accounts for provider anthropic",
        "me-example-com-acme (there \"me@example.com (Acme)\"): a login, copied to the account store, priority = 2",
        "threshold_5h = 0.9, threshold_7d = 0.9, threshold_fable = 0.5, max_utilization = 0.95",
        "second: a login, copied to the account store, priority = 0, threshold = 0.9, disabled = true",
        "deepseek: left out: it is of another provider",
        "own: the login in /nowhere/.credentials.json",
        "stop teamclaude before",
        "nothing was changed; --apply does it",
    ] {
        assert!(dry.contains(part), "{part}: {dry}");
    }
    assert_eq!(config(&setting), before);
    assert!(!setting.home.path().join("accounts").exists());
    let (code, out, err) = import(&setting, "teamclaude", &path, &["--apply"]).await;
    assert_eq!(code, 1, "one is refused by the provider: {out}");
    assert!(err.contains("dead: the provider refuses this credential (401)"), "{err}");
    assert!(out.contains("me-example-com-acme: saved, the provider knows it"), "{out}");
    let text = config(&setting);
    let entry = "name = \"me-example-com-acme\"\npriority = 2\nthreshold_5h = 0.9\nthreshold_7d = 0.9\nthreshold_fable = 0.5\nmax_utilization = 0.95\n";
    assert!(text.contains(entry) && text.contains("name = \"second\"") && !text.contains("\"dead\""), "{text}");
    let stored = setting.stored_json("claude", "me-example-com-acme");
    assert_eq!(stored["duduclawAccountUuid"], json!(setting.sim.credentials("first").unwrap().uuid));
    let mut daemon = Daemon::of(setting.at_sim(&["-vv", "serve"])).await;
    let asked = ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap();
    assert_eq!(asked.headers()["x-duduclaw-account"], "me-example-com-acme");
    // Once more changes nothing: what is here may be newer by now.
    let (stored, text) = (std::fs::read(setting.stored("claude", "me-example-com-acme")).unwrap(), config(&setting));
    let (_, again, _) = import(&setting, "teamclaude", &path, &["--apply"]).await;
    assert!(again.contains("is in the store already; it stays as it is"), "{again}");
    assert_eq!(
        (std::fs::read(setting.stored("claude", "me-example-com-acme")).unwrap(), config(&setting)),
        (stored, text)
    );
    assert_eq!(std::fs::read(&path).unwrap(), file, "their file is left alone");
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[dry, out, err.replace("CANARY", ""), again, daemon.said()]);
}

#[tokio::test]
async fn shunts_logins_stay_linked_to_its_files_and_keep_their_thresholds() {
    let setting = setting(&["first", "second"]).await;
    let toml = "[server.pool]\ndefault_threshold = 0.8\ndefault_max_utilization_5h = 0.9\n\
        [providers.anthropic]\nkind = \"anthropic\"\nauth = \"claude_oauth\"\n\
        [[providers.anthropic.accounts]]\nname = \"first\"\npriority = 1\nthreshold = 0.5\n\
        [[providers.anthropic.accounts]]\nname = \"env\"\ntoken_env = \"A_TOKEN\"\n\
        [[providers.anthropic.accounts]]\nname = \"gone\"\n";
    foreign(&setting, "shunt/shunt.toml", toml);
    let mut file = login(&setting.sim, "first");
    file["shuntAccountUuid"] = json!(setting.sim.credentials("first").unwrap().uuid);
    let theirs = foreign(&setting, "shunt/accounts/claude/first.json", &file.to_string());
    foreign(&setting, "shunt/accounts/claude/second.json", &login(&setting.sim, "second").to_string());
    let folder = setting.home.path().join("foreign/shunt");
    let (code, out, err) = import(&setting, "shunt", &folder, &["--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&format!("first: a login, linked to {}", theirs.display())), "{out}");
    assert!(out.contains("gone: left out:") && out.contains("does not exist"), "{out}");
    let text = config(&setting);
    assert!(text.contains("name = \"first\"\npriority = 1\nthreshold = 0.5\nmax_utilization_5h = 0.9\n"), "{text}");
    assert!(text.contains("name = \"env\"\ntoken_env = \"A_TOKEN\"\nthreshold = 0.8\n"), "{text}");
    let second = "name = \"second\"\ndisabled = true\nthreshold = 0.8\n";
    assert!(text.contains(second) && !text.contains("gone"), "{text}");
    let stored = setting.stored_json("claude", "first");
    assert_eq!(stored["duduclawLinkedTo"], json!(theirs));
    assert_eq!(stored["duduclawAccountUuid"], file["shuntAccountUuid"]);
    let yaml = foreign(&setting, "shunt.yaml", "server: [CANARY\n");
    let (code, _, broken) = import(&setting, "shunt", &yaml, &[]).await;
    assert_eq!(code, 1);
    assert!(broken.contains("it is not valid YAML") && !broken.contains("CANARY"), "{broken}");
    sweep::assert_clean(&setting, &[out, err]);
}

#[tokio::test]
async fn ccflares_database_is_read_and_left_alone() {
    let setting = setting(&["first", "second"]).await;
    let path = foreign(&setting, "ccflare.db", "");
    let database = rusqlite::Connection::open(&path).unwrap();
    // The columns of its first schema, and two that came later.
    database
        .execute_batch(
            "CREATE TABLE accounts (id TEXT PRIMARY KEY, name TEXT NOT NULL, provider TEXT DEFAULT 'anthropic', \
             api_key TEXT, refresh_token TEXT NOT NULL, access_token TEXT, expires_at INTEGER, \
             created_at INTEGER NOT NULL, priority INTEGER DEFAULT 0, paused INTEGER DEFAULT 0)",
        )
        .unwrap();
    let held = setting.sim.credentials("first").unwrap();
    let insert = "INSERT INTO accounts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let none: Option<&str> = None;
    database
        .execute(
            insert,
            rusqlite::params![
                "1",
                "Max 1",
                "anthropic",
                none,
                held.refresh_token,
                held.token,
                held.expires_at,
                1,
                5,
                1
            ],
        )
        .unwrap();
    database.execute(insert, rusqlite::params!["2", "zai", "zai", "k", "k", "k", 0, 2, 0, 0]).unwrap();
    database
        .execute(insert, rusqlite::params!["3", "new", "anthropic", none, "sk-ant-ort01-x", none, 0, 3, 0, 0])
        .unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let (code, out, err) = import(&setting, "ccflare", &path, &["--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("max-1: saved, the provider knows it"), "{out}");
    assert!(out.contains("zai: left out: it is of another provider (zai)"), "{out}");
    assert!(out.contains("new: left out: it has no access token yet"), "{out}");
    let text = config(&setting);
    assert!(text.contains("name = \"max-1\"\npriority = 5\ndisabled = true\n"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    for (name, text) in [("none.db", None), ("odd.db", Some("this is no database, however long it is"))] {
        let path = setting.home.path().join("foreign").join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let (code, _, err) = import(&setting, "ccflare", &path, &["--apply"]).await;
        assert_eq!(code, 1);
        assert!(err.contains(name), "{err}");
        assert_eq!(path.exists(), text.is_some(), "nothing is made");
    }
    sweep::assert_clean(&setting, &[out]);
}

/// Where there is no configuration, what would be used is written down, with the settings that came over.
#[tokio::test]
async fn without_a_configuration_one_is_made() {
    let setting = setting(&["first", "second"]).await;
    let path = teamclaude(&setting);
    std::fs::remove_file(setting.home.path().join("config.toml")).unwrap();
    // Nobody is reached: the built-in configuration asks the real provider, which is not there.
    let mut command = setting.at_sim(&["import", "teamclaude", path.to_str().unwrap(), "--apply"]);
    command.env("HTTPS_PROXY", "http://127.0.0.1:1").env("https_proxy", "http://127.0.0.1:1");
    let (code, out, err) = crate::binary::run(command).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("second: saved, unverified") && out.contains("config.toml was made"), "{out}");
    let text = config(&setting);
    assert!(text.contains("name = \"second\"\npriority = 0\nthreshold = 0.9\ndisabled = true\n"), "{text}");
    let (code, out, err) = setting.run(&["check"]).await;
    assert!(matches!(code, 0 | 3), "{out}{err}");
}

fn state(now: i64) -> Value {
    let key = |identity: Value| json!({"store_family": "claude", "identity": identity});
    json!({"version": 2, "accounts": [
        {"key": key(json!({"kind": "store_entry", "name": "first"})),
         "quota": {"utilization_5h": 0.61, "observed_at_5h": now - 60, "reset_5h": now + 3600, "status_5h": "allowed",
                   "utilization_7d": 0.3, "reset_7d": now + 90_000, "status": "rejected"}},
        {"key": key(json!({"kind": "verified", "id": "5f0c1d6e-4444-4a2b-8c3d-000000000004"})),
         "quota": {"utilization_7d": 0.77, "observed_at_7d": now - 60, "reset_7d": now + 90_000}},
        {"key": key(json!({"kind": "upstream_inline", "upstream": "other", "name": "x"})),
         "quota": {"utilization_5h": 0.1, "observed_at_5h": now - 6 * 3600, "reset_5h": now - 3600}},
    ]})
}

/// What is known of quota by this daemon's own word.
fn windows(account: &duduclaw::admin::PoolAccount) -> Value {
    serde_json::to_value(&account.windows).unwrap()
}

#[tokio::test]
async fn what_shunt_knew_of_quota_is_known_and_a_second_import_changes_nothing() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                token_url = \"{sim}/v1/oauth/token\"\nauth = \"claude_oauth\"\n";
    let accounts = [AccountSpec::oauth("first"), AccountSpec::setup_token("later")];
    let mut world = World::with(accounts).config(text).stored().start().await;
    let state = state(world.now()).to_string();
    let import = async |world: &World| {
        let told = world.rpc("state.import", json!({"state": state})).await;
        assert!(told["error"].is_null(), "{told}");
        told["result"].clone()
    };
    let took = import(&world).await;
    assert_eq!(
        took,
        json!({"accounts": ["anthropic/first"], "orphans": ["claude account 5f0c1d6e-4444-4a2b-8c3d-000000000004"]})
    );
    let known = windows(&world.account("first").await);
    assert_eq!((&known["5h"]["utilization"], &known["7d"]["utilization"]), (&json!(0.61), &json!(0.3)), "{known}");
    assert_eq!(known["5h"]["reset"], json!(world.now() + 3600), "{known}");
    world.advance(60);
    assert_eq!(import(&world).await, took);
    assert_eq!(windows(&world.account("first").await), known, "the same file is of the same moment");
    world.restart().await;
    assert_eq!(windows(&world.account("first").await), known);
    // The orphan's account comes, and finds what waited for it.
    let secret = world.sim.credentials("later").unwrap().token;
    let added = world
        .rpc(
            "accounts.add",
            json!({"name": "later", "secret": secret, "uuid": "5f0c1d6e-4444-4a2b-8c3d-000000000004", "replace": true}),
        )
        .await;
    assert!(added["error"].is_null(), "{added}");
    let later = windows(&world.account("later").await);
    assert_eq!(later["7d"]["utilization"], json!(0.77), "{later}");
    let again = world.rpc("state.import", json!({"state": state})).await;
    assert_eq!(again["result"]["orphans"], json!([]), "{again}");
    assert_eq!(world.sim.log().iter().filter(|record| record.endpoint == Endpoint::Messages).count(), 0);
    for odd in ["", "{}", "{\"version\": 1, \"accounts\": []}"] {
        let told = world.rpc("state.import", json!({"state": odd})).await;
        assert_eq!(told["error"]["code"], -32022, "{told}");
    }
}

/// Without a daemon it goes into the store, from which the next daemon takes it.
#[tokio::test]
async fn without_a_daemon_the_state_waits_for_the_next_one() {
    let setting = setting(&["first"]).await;
    let login = login(&setting.sim, "first").to_string();
    let (code, _, err) =
        setting.run_with(&["accounts", "add", "first", "--provider", "anthropic", "--stdin"], &login).await;
    assert_eq!(code, 0, "{err}");
    let path = foreign(&setting, "state.json", &state(chrono::Utc::now().timestamp()).to_string());
    let arguments = ["import", "shunt-state", path.to_str().unwrap()];
    let (code, out, err) = setting.run(&arguments).await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        out,
        "anthropic/first: its quota is known\nclaude account 5f0c1d6e-4444-4a2b-8c3d-000000000004: no such account here; what is known of it waits for one\n"
    );
    assert_eq!(setting.run(&arguments).await.1, out);
    let mut daemon = setting.serve().await;
    let (_, status, _) = setting.run(&["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    let text = status.to_string();
    assert!(text.contains("0.61"), "{text}");
    let (code, by_daemon, err) = setting.run(&arguments).await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(by_daemon, out);
    assert_eq!(daemon.stop().await, Some(0));
    let (code, _, err) = setting.run(&["import", "shunt-state", "/nowhere.json"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("/nowhere.json"), "{err}");
}

/// Whoever opened a pipe would wait for ever; what never ends fills the memory.
#[tokio::test]
async fn what_is_no_file_of_theirs_is_an_error_at_once() {
    let setting = setting(&["first"]).await;
    let within = std::time::Duration::from_secs(20);
    for (program, name) in [
        ("teamclaude", "p.json"),
        ("shunt", "p.toml"),
        ("shunt", "p.yaml"),
        ("ccflare", "p.db"),
        ("shunt-state", "p.json"),
    ] {
        let pipe = setting.home.path().join(name);
        let _ = std::fs::remove_file(&pipe);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), std::path::Path::new("/dev/zero")] {
            let (code, _, err) = tokio::time::timeout(within, import(&setting, program, path, &[])).await.unwrap();
            assert_eq!(code, 1, "{program}: {err}");
            assert!(err.contains("it is no file"), "{program}: {err}");
        }
    }
}

#[tokio::test]
async fn a_view_in_the_place_of_the_table_is_not_followed() {
    let setting = setting(&["first"]).await;
    let path = setting.home.path().join("ccflare.db");
    let endless = "CREATE VIEW accounts AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                   SELECT 'n' AS name, x AS created_at FROM c";
    rusqlite::Connection::open(&path).unwrap().execute_batch(endless).unwrap();
    let within = std::time::Duration::from_secs(20);
    let (code, _, err) = tokio::time::timeout(within, import(&setting, "ccflare", &path, &[])).await.unwrap();
    assert_eq!(code, 1);
    assert!(err.contains("is not what ccflare writes"), "{err}");
}

/// A terminal would obey it: another colour, a line that says something else, a title.
#[tokio::test]
async fn what_others_wrote_is_shown_without_what_a_terminal_obeys() {
    let setting = setting(&["first"]).await;
    let text = json!({"accounts": [
        {"name": "x\u{1b}[31m\nnote: all is well", "type": "oauth", "routing": "p", "importFrom": "/tmp/\u{1b}]0;x\u{7}"},
        {"name": "y\u{9b}31m", "type": "oauth", "routing": "p", "provider": "\u{1b}c"},
    ]});
    let path = foreign(&setting, "teamclaude.json", &text.to_string());
    for more in [&[][..], &["--apply"]] {
        let (_, out, err) = import(&setting, "teamclaude", &path, more).await;
        let obeyed = |text: &str| text.contains(|c: char| c.is_control() && c != '\n');
        assert!(!obeyed(&out) && !obeyed(&err), "{out:?} {err:?}");
        assert!(!out.contains("\nnote: all is well"), "{out}");
    }
}
