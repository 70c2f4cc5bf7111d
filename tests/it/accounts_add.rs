//! Adding and replacing accounts: what is asked before anything is saved, what is saved, and where it serves.

mod told;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::binary::Setting;
use crate::seen::{Got, got};
use crate::support::World;

/// A pool that takes whatever the store has.
const WHOLE_STORE: &str = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\n\
                           base_url = \"{sim}\"\ntoken_url = \"{sim}/v1/oauth/token\"\nauth = \"claude_oauth\"\n";
/// A pool with a list.
const LISTED: &str =
    "[[providers.anthropic.accounts]]   # mine\nname = \"first\"\ncredentials = \"{creds}/first.json\"\n";

/// A provider that knows a login, a setup token and a key, and a home where none is stored.
async fn world(config: &str) -> World {
    let accounts = [AccountSpec::oauth("first"), AccountSpec::setup_token("token"), AccountSpec::api_key("key")];
    World::with(accounts).config(config).start().await
}

impl World {
    fn secret(&self, name: &str) -> String {
        self.sim.credentials(name).unwrap().token
    }

    async fn add(&self, params: Value) -> Got {
        got(self.control("POST", "/admin/api/accounts").json(&params)).await
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("accounts/claude/{name}.json"))
    }
}

fn on_models(fault: Fault) -> FaultRule {
    FaultRule { endpoint: Endpoint::Models, account: None, ..FaultRule::next("any", 1, fault) }
}

#[tokio::test]
async fn what_is_added_serves_at_once_and_lies_sealed() {
    let world = world(WHOLE_STORE).await;
    let added = world.add(json!({"name": "backup", "secret": format!(" {}\n", world.secret("token"))})).await;
    assert_eq!(added.status, 200, "{}", added.text());
    let said = added.json();
    assert_eq!(
        (&said["saved"], &said["kind"], &said["check"]),
        (&json!("anthropic/backup"), &json!("setup_token"), &json!("valid"))
    );
    assert_eq!((&said["in_use"], &said["entry"]), (&json!(["anthropic/backup"]), &Value::Null), "{said}");
    assert!(said["notes"].to_string().contains("--uuid"), "{said}");
    world.turn("s", false).await.served_by("backup");
    let file = world.stored("backup");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sk-ant-") && text.contains("duduclaw-sealed:1:"), "{text}");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let key = world.rpc("accounts.add", json!({"name": "metered", "secret": world.secret("key")})).await;
    assert_eq!((&key["result"]["kind"], &key["result"]["check"]), (&json!("api_key"), &json!("valid")), "{key}");
    assert_eq!(world.account("metered").await.state, "healthy");
    let asked = world.sim.hits("key", Endpoint::Models);
    assert!(asked[0].header("x-api-key").is_some());
    let mut check = crate::binary::bare(world.home.path());
    check.arg("check");
    let (code, out, _) = crate::binary::run(check).await;
    assert_eq!(code, 0, "a stored key is one as good as a login: {out}");
}

#[tokio::test]
async fn a_whole_login_is_taken_with_what_renews_it() {
    let mut world = world(WHOLE_STORE).await;
    let login = crate::support::login(&world.sim, "first").to_string();
    let added = world
        .add(json!({"name": "work", "kind": "oauth", "secret": login, "uuid": "5f0c1d6e-1111-4a2b-8c3d-000000000001"}))
        .await;
    assert_eq!(added.json()["kind"], "oauth", "{}", added.text());
    let text = std::fs::read_to_string(world.stored("work")).unwrap();
    assert!(!text.contains("sk-ant-") && text.contains("5f0c1d6e-1111-4a2b-8c3d-000000000001"), "{text}");
    world.advance(9 * 3600);
    world.turn("s", false).await.served_by("work");
    world.restart().await;
    world.turn("t", false).await.served_by("work");
}

#[tokio::test]
async fn where_there_is_a_list_the_entry_is_told_and_written_on_request() {
    let world = world(&format!("{WHOLE_STORE}{LISTED}")).await;
    let secret = world.secret("token");
    let said = world.add(json!({"name": "backup", "secret": secret})).await.json();
    assert_eq!(said["in_use"], json!([]));
    assert_eq!(said["entry"], "[[providers.anthropic.accounts]]\nname = \"backup\"");
    let params = json!({"name": "backup", "secret": secret, "replace": true, "write_config": true});
    let said = world.add(params).await.json();
    assert_eq!(said["in_use"], json!(["anthropic/backup"]), "{said}");
    let text = std::fs::read_to_string(world.home.path().join("config.toml")).unwrap();
    assert!(
        text.contains("# mine") && text.contains("[[providers.anthropic.accounts]]\nname = \"backup\"\n"),
        "{text}"
    );
    world.rpc("accounts.disable", json!({"account": "first"})).await;
    world.turn("s", false).await.served_by("backup");
}

/// Two names of one account are told at once, with the one that counts: here a token for inference alone, since it comes
/// first.
/// What would be stored beside it would never be used.
#[tokio::test]
async fn an_account_whose_secret_is_elsewhere_gets_none_in_the_store() {
    let world = world(&format!("{WHOLE_STORE}{LISTED}")).await;
    for replace in [false, true] {
        let params = json!({"name": "first", "secret": world.secret("key"), "replace": replace, "write_config": true});
        let got = world.add(params).await;
        let said = String::from_utf8_lossy(&got.body).into_owned();
        assert!(got.status == 409 && said.contains("anthropic/first has its secret elsewhere"), "{said}");
    }
    assert!(!world.stored("first").exists());
}

#[tokio::test]
async fn what_is_saved_twice_says_so_and_which_one_counts() {
    let world = world(WHOLE_STORE).await;
    let first = world
        .add(json!({"name": "bk3", "secret": world.secret("token"), "uuid": "5f0c1d6e-1111-4a2b-8c3d-000000000001"}))
        .await
        .json();
    assert_eq!(first["aliases"], json!([]), "{first}");
    let login = crate::support::login(&world.sim, "first").to_string();
    let second =
        json!({"name": "work2", "kind": "oauth", "secret": login, "uuid": "5f0c1d6e-1111-4a2b-8c3d-000000000001"});
    let second = world.add(second).await.json();
    assert_eq!(second["aliases"], json!(["anthropic/bk3"]), "{second}");
    let note = "anthropic/work2 is the same account as anthropic/bk3; anthropic/bk3 counts: only its secret and settings \
                are used (a setup token, for inference alone). Disable or remove it to use work2 instead";
    assert_eq!(second["notes"][0], note, "{second}");
    world.turn("s", false).await.served_by("bk3");
    let replaced = world.rpc("accounts.replace", json!({"account": "bk3", "secret": world.secret("token")})).await;
    let said = replaced["result"]["notes"].to_string();
    assert!(said.contains("anthropic/bk3 is the same account as anthropic/work2; anthropic/bk3 counts"), "{replaced}");
}

/// A scope that names the account takes it up without a word more.
#[tokio::test]
async fn a_scope_that_names_it_has_it_at_once() {
    let upstreams = "[server]\nbind = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"one\"\nprovider = \"anthropic\"\n\
        base_url = \"{sim}\"\nauth = { mode = \"claude_oauth\", account = \"backup\" }\n";
    let world = world(upstreams).await;
    world.until_state("backup", "broken").await;
    let said = world.add(json!({"name": "backup", "secret": world.secret("token")})).await.json();
    assert_eq!(said["in_use"], json!(["one/backup"]), "{said}");
    world.turn("s", false).await.served_by("backup");
    let said = world.add(json!({"name": "more", "secret": world.secret("key"), "write_config": true})).await.json();
    assert_eq!(said["in_use"], json!(["one/more"]), "{said}");
    let text = std::fs::read_to_string(world.home.path().join("config.toml")).unwrap();
    assert!(text.contains("accounts = [\"backup\", \"more\"]"), "{text}");
}

#[tokio::test]
async fn what_the_provider_refuses_is_not_saved() {
    let world = world(WHOLE_STORE).await;
    let unknown = world.add(json!({"name": "x", "secret": "sk-ant-oat01-CANARY-unknown"})).await;
    assert_eq!(unknown.status, 422);
    assert!(unknown.text().contains("401") && !unknown.text().contains("CANARY"), "{}", unknown.text());
    world.sim.fault(on_models(Fault::OrgDisabled));
    let refused = world.add(json!({"name": "x", "secret": world.secret("token")})).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("API key") && refused.text().contains("administrator"), "{}", refused.text());
    assert!(!world.stored("x").exists());
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_without_asking_anybody() {
    let world = world(WHOLE_STORE).await;
    let cases = [
        (json!({"secret": "sk-ant-at01-CANARY"}), "claude setup-token"),
        (json!({"secret": "sk-ant-oat01-CANARY", "kind": "api_key"}), "OAuth token"),
        (json!({"secret": "sk-ant-api03-CANARY", "kind": "setup_token"}), "API key"),
        (json!({"secret": "two CANARY words"}), "white space"),
        (json!({"secret": ""}), "is empty"),
        (json!({"secret": "sk-ant-api03-CANARY", "name": "sk-ant-api03-CANARY"}), "small letters"),
        (json!({"secret": "sk-ant-api03-CANARY", "name": "../x"}), "small letters"),
        (json!({"secret": "sk-ant-api03-CANARY", "kind": "sk-ant-api03-CANARY"}), "wrong place"),
        (json!({"secret": 5, "kind": "sk-ant-api03-CANARY"}), ""),
        (json!({"secret": "CANARYCANARY", "sk-ant-api03-CANARY": 1}), "wrong place"),
        (json!({"secret": {"CANARY": 1}}), "invalid type"),
        (json!({"secret": "sk-ant-api03-CANARY", "provider": "nobody"}), "there is no provider"),
    ];
    for (mut params, expected) in cases {
        if params.get("name").is_none() {
            params["name"] = json!("x");
        }
        let refused = world.add(params.clone()).await;
        assert!(refused.status.is_client_error(), "{params}: {}", refused.text());
        assert!(
            refused.text().contains(expected) && !refused.text().contains("CANARY"),
            "{params}: {}",
            refused.text()
        );
        let told = world.rpc("accounts.add", params.clone()).await;
        assert!(told["error"]["message"].is_string() && !told.to_string().contains("CANARY"), "{params}: {told}");
    }
    assert!(world.sim.log().iter().all(|record| record.endpoint != Endpoint::Models), "nobody was asked");
    assert!(!world.home.path().join("accounts").exists());
}

#[tokio::test]
async fn what_could_not_be_checked_is_saved_and_goes_behind_the_others() {
    for fault in [Fault::Overloaded { retry_after: None }, Fault::ResetBeforeHead] {
        let mut world = world(WHOLE_STORE).await;
        world.sim.fault(on_models(fault));
        let said = world.add(json!({"name": "backup", "secret": world.secret("token")})).await.json();
        assert_eq!(said["check"], "unverified", "{said}");
        assert!(said["notes"].to_string().contains("could not be checked"), "{said}");
        assert!(world.account("backup").await.unverified);
        world.restart().await;
        assert!(world.account("backup").await.unverified, "it is remembered");
        world.rpc("accounts.probe", json!({"account": "backup"})).await;
        assert!(!world.account("backup").await.unverified);
        world.restart().await;
        assert!(!world.account("backup").await.unverified, "and so is that it was checked since");
    }
}

#[tokio::test]
async fn an_account_of_that_name_stays_unless_it_is_to_be_replaced_or_is_broken() {
    let world = world(WHOLE_STORE).await;
    let add = async |replace: bool| {
        let params = json!({"name": "backup", "secret": world.secret("token"), "replace": replace});
        world.add(params).await
    };
    assert_eq!(add(false).await.status, 200);
    let again = add(false).await;
    assert_eq!(again.status, 409, "{}", again.text());
    assert!(again.text().contains("--replace"), "{}", again.text());
    assert_eq!(add(true).await.status, 200);
    std::fs::write(world.stored("backup"), "{ not JSON").unwrap();
    world.until_state("backup", "broken").await;
    assert_eq!(add(false).await.status, 200, "a broken one needs no word more");
    world.until_state("backup", "healthy").await;
    let aside = world.stored("backup").with_extension("json.aside-1");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{ not JSON", "no byte of it is lost");
    assert_eq!(world.pool().await.providers[0].accounts.len(), 1);
}

/// Also the same token once more: that its provider knows it now is news.
#[tokio::test]
async fn a_newly_saved_credential_ends_what_was_held_against_it() {
    let world = world(WHOLE_STORE).await;
    world
        .add(json!({"name": "backup", "secret": world.secret("token"), "uuid": "5f0c1d6e-9999-4a2b-8c3d-000000000009"}))
        .await;
    world.sim.fault(FaultRule::next("token", 1, Fault::Unauthorized));
    world.turn("s", false).await;
    world.until_state("backup", "auth_dead").await;
    let told = world.rpc("accounts.replace", json!({"account": "backup", "secret": world.secret("token")})).await;
    assert_eq!(told["result"]["check"], "valid", "{told}");
    assert_eq!(world.account("backup").await.state, "healthy");
    let text = std::fs::read_to_string(world.stored("backup")).unwrap();
    assert!(text.contains("5f0c1d6e-9999-4a2b-8c3d-000000000009"), "it stays who it is: {text}");
    let put = got(world.control("PUT", "/admin/api/accounts/nobody").json(&json!({"secret": "sk-ant-api03-x"}))).await;
    assert_eq!(put.status, 404, "{}", put.text());
}

#[tokio::test]
async fn fields_of_others_stay_in_the_file() {
    let world = world(WHOLE_STORE).await;
    world.add(json!({"name": "backup", "secret": world.secret("token")})).await;
    let file = world.stored("backup");
    let mut login: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    login["theirs"] = json!({"deep": [1, 2]});
    std::fs::write(&file, login.to_string()).unwrap();
    world.rpc("accounts.replace", json!({"account": "backup", "secret": world.secret("key")})).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"theirs\":{\"deep\":[1,2]}") && !text.contains("claudeAiOauth"), "{text}");
}

impl Setting {
    /// The same with this on standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }
}

#[tokio::test]
async fn the_command_saves_with_a_daemon_and_without() {
    let setting = Setting::with(&["first", "second"], "").await;
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, &text[..text.find("[[").unwrap()]).unwrap();
    let token = setting.sim.credentials("first").unwrap().token;
    let add = |name: &'static str| ["accounts", "add", name, "--provider", "anthropic", "--stdin"];
    let (code, out, err) = setting.run_with(&add("one"), &token).await;
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("anthropic/one: setup token saved, the provider knows it\nin use as anthropic/one\n"),
        "{out}"
    );
    let (code, _, err) = setting.run_with(&add("one"), &token).await;
    assert_eq!(code, 1);
    assert!(err.contains("--replace"), "{err}");
    let (code, _, err) = setting.run(&["accounts", "add", "two"]).await;
    assert_eq!(code, 2, "nobody is there to be asked");
    assert!(err.contains("--stdin"), "{err}");
    let (code, _, err) = setting.run(&["accounts", "add", &token]).await;
    assert_eq!(code, 2, "{err}");
    assert!(!err.contains(&token), "{err}");
    let mut daemon = setting.serve().await;
    let second = setting.sim.credentials("second").unwrap().token;
    let (code, out, err) = setting.run_with(&add("two"), &second).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("in use as anthropic/two"), "{out}");
    let (code, out, err) = setting.run_with(&["accounts", "replace", "two", "--stdin", "--json"], &second).await;
    assert_eq!(code, 0, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["check"], "valid");
    let (_, list, _) = setting.run(&["accounts", "list"]).await;
    assert!(list.contains("anthropic/one") && list.contains("anthropic/two"), "{list}");
    assert_eq!(daemon.stop().await, Some(0));
    for said in [out, list, daemon.said()] {
        assert!(!said.contains("sk-ant-"), "{said}");
    }
}

/// Typed or pasted at a terminal, it is not shown.
#[tokio::test]
async fn at_a_terminal_the_secret_is_asked_for_and_not_shown() {
    let setting = Setting::with(&["first"], "").await;
    let token = setting.sim.credentials("first").unwrap().token;
    let inner = format!("{} accounts add one --provider anthropic --write-config", env!("CARGO_BIN_EXE_duduclaw"));
    let Some(mut typed) = crate::support::at_terminal(&inner) else { return };
    typed.env("DUDUCLAW_HOME", setting.home.path()).env("HOME", setting.home.path()).env("PATH", "/usr/bin:/bin");
    let mut child = typed.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let asked = crate::support::read_until(&mut stdout, "not shown").await;
    stdin.write_all(format!("{token}\r").as_bytes()).await.unwrap();
    let rest = crate::support::read_all(&mut stdout).await;
    assert!(!format!("{asked}{rest}").contains("sk-ant-"), "{asked}{rest}");
    assert!(rest.contains("saved, the provider knows it"), "{rest}");
    assert!(setting.home.path().join("accounts/claude/one.json").exists());
}
