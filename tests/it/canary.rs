//! A whole life of a home with secrets of every kind, at the loudest: nothing that is said, answered or written has one of
//! them in it, and no process of ours has one among its arguments.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use duduclaw::sim::{AccountChange, Endpoint, Fault, FaultRule};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::binary::{Daemon, Setting, ask, client};
use crate::login::{setting, sweep};

/// All that came out of the programs.
#[derive(Default)]
struct Heard(Vec<String>);

impl Heard {
    /// A command, with something for its standard input.
    async fn run(&mut self, setting: &Setting, arguments: &[&str], input: &str) -> i32 {
        let mut command = setting.at_sim(arguments);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        self.0.push(String::from_utf8_lossy(&output.stdout).into_owned());
        self.0.push(String::from_utf8_lossy(&output.stderr).into_owned());
        output.status.code().unwrap_or(-1)
    }

    async fn answer(&mut self, request: reqwest::RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        self.0.push(format!("{:?}", answer.headers()));
        let text = answer.text().await.unwrap();
        self.0.push(text.clone());
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// The arguments of every process of ours, looked at again and again until the end.
fn watch_arguments(end: CancellationToken) -> (Arc<Mutex<BTreeSet<String>>>, std::thread::JoinHandle<()>) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let all = Arc::clone(&seen);
    let watching = std::thread::spawn(move || {
        while !end.is_cancelled() {
            let output = std::process::Command::new("ps").args(["-ww", "-A", "-o", "args="]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            all.lock().unwrap().extend(text.lines().filter(|line| line.contains("duduclaw")).map(str::to_owned));
        }
    });
    (seen, watching)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_comes_out_in_a_whole_life() {
    let setting = setting(&["login", "second"]).await;
    let mut heard = Heard::default();
    let end = CancellationToken::new();
    let (arguments, watching) = watch_arguments(end.clone());

    // Accounts of every kind, good and bad, before there is a daemon.
    let held = setting.sim.credentials("login").unwrap();
    assert_eq!(
        heard
            .run(
                &setting,
                &["-vv", "accounts", "add", "mine", "--provider", "anthropic", "--stdin"],
                &login_text(&setting, "login")
            )
            .await,
        0
    );
    assert_eq!(
        heard
            .run(
                &setting,
                &["-vv", "accounts", "add", "short", "--provider", "anthropic", "--stdin"],
                "sk-ant-at01-CANARY"
            )
            .await,
        1
    );
    assert_eq!(
        heard
            .run(
                &setting,
                &["-vv", "accounts", "add", "none", "--provider", "anthropic", "--stdin"],
                "sk-ant-oat01-CANARY"
            )
            .await,
        1
    );

    let mut command = setting.at_sim(&["-vv", "serve"]);
    command.env("RUST_BACKTRACE", "full");
    let mut daemon = Daemon::of(command).await;
    let (url, admin) = (daemon.url().to_owned(), setting.home.path().join("admin-token"));
    let admin = std::fs::read_to_string(admin).unwrap().trim().to_owned();
    let control = |path: &str| client().get(format!("{url}/admin/api{path}")).bearer_auth(&admin);

    // Served, refused, renewed, refused a renewal with an answer that repeats the token.
    for fault in [Fault::Unauthorized, Fault::OrgDisabled, Fault::ResetBeforeHead] {
        setting.sim.fault(FaultRule::next("login", 1, fault));
        heard.answer(ask(&client(), &url, "hi", false)).await;
    }
    let repeated = json!({"error": "invalid_request", "error_description": held.refresh_token}).to_string();
    let fault = Fault::Status { status: 400, headers: Vec::new(), body: repeated };
    setting.sim.fault(FaultRule::next("login", 2, fault).on(Endpoint::Token));
    let ended = AccountChange { expire_tokens: true, ..AccountChange::default() };
    setting.sim.change("login", &ended).unwrap();
    for _ in 0..3 {
        heard.answer(ask(&client(), &url, "hi", true)).await;
    }
    let gone = AccountChange { revoke: true, ..AccountChange::default() };
    setting.sim.change("login", &gone).unwrap();
    heard.answer(ask(&client(), &url, "hi", false)).await;

    // Everything that can be read of it.
    let document = heard.answer(control("/openapi.json")).await;
    let paths: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    for path in paths.iter().filter(|path| !path.contains('{') && !path.ends_with("/events")) {
        let path = path.trim_start_matches("/admin/api");
        heard.answer(control(path)).await;
    }
    let added =
        json!({"name": "second", "provider": "anthropic", "secret": setting.sim.credentials("second").unwrap().token});
    heard.answer(client().post(format!("{url}/admin/api/accounts")).bearer_auth(&admin).json(&added)).await;
    for verb in ["accounts.pause", "accounts.replace", "accounts.remove", "route.explain"] {
        let params = json!({"account": "sk-ant-api03-CANARY", "secret": "sk-ant-api03-CANARY", "model": "m"});
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": verb, "params": params});
        heard.answer(client().post(format!("{url}/rpc")).bearer_auth(&admin).json(&asked)).await;
        let only = json!({"jsonrpc": "2.0", "id": 1, "method": verb, "params": {"account": "sk-ant-api03-CANARY"}});
        heard.answer(client().post(format!("{url}/rpc")).bearer_auth(&admin).json(&only)).await;
    }
    let started = client().post(format!("{url}/admin/api/logins")).bearer_auth(&admin);
    let started = heard.answer(started.json(&json!({"name": "third", "provider": "anthropic"}))).await;
    let login = started["login"].as_str().unwrap_or_else(|| panic!("no login: {started}")).to_owned();
    let complete = client().post(format!("{url}/admin/api/logins/{login}")).bearer_auth(&admin);
    heard.answer(complete.json(&json!({"code": "CANARY#CANARY"}))).await;
    for path in ["/metrics", "/healthz", "/readyz", "/usage", "/api/oauth/usage"] {
        heard.answer(client().get(format!("{url}{path}"))).await;
    }

    // Every command that looks or changes.
    let parcel = setting.home.path().join("parcel").display().to_string();
    let commands: [&[&str]; 13] = [
        &["status", "--json"],
        &["accounts", "list", "--json"],
        &["accounts", "probe", "mine"],
        &["activity", "--json"],
        &["failures"],
        &["usage", "--by", "account", "--json"],
        &["route", "--explain", "--model", "claude-opus-5-5"],
        &["check"],
        &["doctor", "--json"],
        &["doctor", "--offline"],
        &["env", "--json"],
        &["secrets", "rekey"],
        &["secrets", "export", &parcel, "--stdin"],
    ];
    for arguments in commands {
        heard.run(&setting, &[&["-vv"], arguments].concat(), "CANARY as a passphrase").await;
    }
    assert!(std::path::Path::new(&parcel).exists(), "{:?}", heard.0.last());
    assert_eq!(daemon.stop().await, Some(0));
    heard.0.push(daemon.said());

    end.cancel();
    watching.join().unwrap();
    let arguments = arguments.lock().unwrap().clone();
    assert!(arguments.iter().any(|line| line.contains("serve")), "{arguments:?}");
    heard.0.extend(arguments);
    assert!(heard.0.iter().any(|text| text.contains("invalid_token")), "refusals were told");
    assert!(heard.0.iter().all(|text| !text.contains(&admin)), "the key to the control API came out");
    sweep::assert_clean(&setting, &heard.0.iter().map(|text| without_kinds(text)).collect::<Vec<_>>());
}

/// Advice names kinds of secrets by their first characters.
fn without_kinds(text: &str) -> String {
    ["sk-ant-at01-", "sk-ant-oat01-", "sk-ant-api"]
        .iter()
        .fold(text.to_owned(), |text, kind| text.replace(&format!("{kind}…"), ""))
}

fn login_text(setting: &Setting, name: &str) -> String {
    crate::support::login(&setting.sim, name).to_string()
}
