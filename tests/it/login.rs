//! Logging in against a simulated provider, with a scripted browser; and taking over the login of another program.

mod import;
pub mod keychain;
pub mod sweep;

use std::path::PathBuf;
use std::process::Stdio;

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::binary::{Setting, client};
use crate::seen::{Got, got};
use crate::support::{PATIENCE, World, at_terminal};

/// A home whose pool is the whole store, before a provider that knows these logins.
pub async fn setting(names: &[&str]) -> Setting {
    let setting = Setting::with(names, "").await;
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let codex = format!(
        "[providers.codex]\nkind = \"responses\"\nbase_url = \"{}/backend-api/codex\"\nauth = \"chatgpt_oauth\"\n",
        setting.sim.base_url()
    );
    std::fs::write(&config, format!("{}{codex}", &text[..text.find("[[").unwrap()])).unwrap();
    setting
}

impl Setting {
    /// The program, sent to the simulated login pages.
    pub fn at_sim(&self, arguments: &[&str]) -> Command {
        let url = self.sim.base_url();
        let mut command = self.command(arguments);
        command
            .env("DUDUCLAW_CLAUDE_TOKEN_URL", format!("{url}/v1/oauth/token"))
            .env("DUDUCLAW_CLAUDE_AUTHORIZE_URL", format!("{url}/cai/oauth/authorize"))
            .env("DUDUCLAW_CODEX_TOKEN_URL", format!("{url}/oauth/token"))
            .env("DUDUCLAW_CODEX_AUTHORIZE_URL", format!("{url}/oauth/authorize"));
        command
    }

    pub fn stored(&self, family: &str, name: &str) -> PathBuf {
        self.home.path().join(format!("accounts/{family}/{name}.json"))
    }

    pub fn stored_json(&self, family: &str, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.stored(family, name)).unwrap()).unwrap()
    }
}

/// A login under way.
pub struct Flow {
    child: Child,
    /// All that it said on standard error.
    pub said: String,
    read: usize,
}

impl Flow {
    pub fn begin(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap(), said: String::new(), read: 0 }
    }

    /// The page that it says to open.
    pub async fn page(&mut self) -> String {
        self.until("\n\nhttp").await;
        let begin = self.read - "http".len();
        self.until("\n").await;
        self.said[begin..self.read].trim().to_owned()
    }

    /// Waits until it said this, after what was waited for before.
    pub async fn until(&mut self, text: &str) {
        while !self.said[self.read..].contains(text) {
            let more = read_some(self.child.stderr.as_mut().unwrap(), text).await;
            self.said.push_str(&more);
        }
        self.read += self.said[self.read..].find(text).unwrap() + text.len();
    }

    /// Types a line.
    pub async fn paste(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// Its exit code, and all that it said.
    pub async fn ended(mut self) -> (i32, String, String) {
        drop(self.child.stdin.take());
        let (mut out, mut err) = (String::new(), self.said);
        let (mut stdout, mut stderr) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let ended = async {
            tokio::try_join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err)).unwrap();
            self.child.wait().await.unwrap().code().unwrap_or(-1)
        };
        let code = tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
        (code, out, err)
    }
}

/// What comes next.
async fn read_some(stream: &mut (impl tokio::io::AsyncRead + Unpin), wanted: &str) -> String {
    let mut piece = [0; 4096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await;
    let length = read.unwrap_or_else(|_| panic!("{wanted:?} does not come")).unwrap();
    assert_ne!(length, 0, "{wanted:?} did not come");
    String::from_utf8_lossy(&piece[..length]).into_owned()
}

/// Says yes on a page as this account, and gives what it leads to.
pub async fn say_yes(page: &str, account: &str) -> String {
    let answer = client_without_redirects().get(format!("{page}&sim_account={account}")).send().await.unwrap();
    match answer.headers().get("location") {
        Some(location) => location.to_str().unwrap().to_owned(),
        None => {
            let text = answer.text().await.unwrap();
            let shown = text.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>"));
            shown.unwrap_or_else(|| panic!("no code: {text}")).0.to_owned()
        }
    }
}

fn client_without_redirects() -> reqwest::Client {
    let _ = client();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

const OAUTH: [&str; 6] = ["login", "claude", "--name", "work", "--mode", "oauth"];

#[tokio::test]
async fn a_browser_comes_back_once_and_strays_are_ignored() {
    let setting = setting(&["first"]).await;
    let mut flow = Flow::begin(setting.at_sim(&OAUTH));
    let page = flow.page().await;
    let back = say_yes(&page, "first").await;
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    let root = back.split_once("/callback").unwrap().0.to_owned();
    let stray = async |path: &str| client().get(format!("{root}{path}")).send().await.unwrap().status().as_u16();
    assert_eq!(stray("/favicon.ico").await, 404);
    assert_eq!(stray("/callback?code=mine&state=guessed").await, 400);
    let done = client().get(&back).send().await.unwrap();
    assert_eq!(done.status(), 200);
    assert!(!done.text().await.unwrap().contains("code-sim"), "the page repeats nothing");
    let (code, out, err) = flow.ended().await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "anthropic/work: oauth saved, the provider knows it\nin use as anthropic/work\n");
    let stored = setting.stored_json("claude", "work");
    let known = setting.sim.credentials("first").unwrap();
    assert_eq!(
        (&stored["duduclawAccountUuid"], &stored["duduclawOrganizationUuid"]),
        (&json!(known.uuid), &json!(known.organization))
    );
    let mut daemon = setting.serve().await;
    let asked = crate::binary::ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap();
    assert_eq!(asked.headers()["x-duduclaw-account"], "work");
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[out, err, daemon.said()]);
}

#[tokio::test]
async fn a_code_is_pasted_and_must_have_the_state_of_this_login() {
    let setting = setting(&["first"]).await;
    let mut manual = OAUTH.to_vec();
    manual.push("--manual");
    let mut flow = Flow::begin(setting.at_sim(&manual));
    let page = flow.page().await;
    assert!(page.contains("redirect_uri=https%3A%2F%2Fplatform.claude.com%2Foauth%2Fcode%2Fcallback"), "{page}");
    let code = say_yes(&page, "first").await;
    flow.paste("nonsense").await;
    flow.until("is not a code").await;
    flow.paste(&format!("{}#other", code.split_once('#').unwrap().0)).await;
    flow.until("belongs to another login").await;
    flow.paste(&code).await;
    let (exit, out, err) = flow.ended().await;
    assert_eq!(exit, 0, "{err}");
    assert!(out.contains("the provider knows it"), "{out}");
    let again = setting.at_sim(&manual);
    let mut flow = Flow::begin(again);
    flow.page().await;
    flow.paste(&code).await;
    flow.until("belongs to another login").await;
    let (exit, _, err) = flow.ended().await;
    assert_eq!(exit, 1);
    assert!(err.contains("nothing was saved"), "{err}");
}

#[tokio::test]
async fn a_login_that_is_refused_or_fails_saves_nothing_and_spoils_nothing() {
    let setting = setting(&["first"]).await;
    let mut flow = Flow::begin(setting.at_sim(&OAUTH));
    let page = flow.page().await;
    let no = client_without_redirects().get(format!("{page}&sim_refuse=1")).send().await.unwrap();
    client().get(no.headers()["location"].to_str().unwrap()).send().await.unwrap();
    let (exit, _, err) = flow.ended().await;
    assert_eq!(exit, 1);
    assert!(err.contains("refused"), "{err}");
    for (fault, expected) in [
        (Fault::ServerError, "status 500"),
        (
            Fault::Status {
                status: 200,
                headers: Vec::new(),
                body: r#"{"access_token":"sk-ant-oat01-CANARY"}"#.into(),
            },
            "no refresh token",
        ),
        (Fault::Status { status: 400, headers: Vec::new(), body: r#"{"error":"CANARY"}"#.into() }, "status 400"),
    ] {
        setting.sim.fault(FaultRule { account: None, endpoint: Endpoint::Token, ..FaultRule::next("x", 1, fault) });
        let mut flow = Flow::begin(setting.at_sim(&OAUTH));
        let back = say_yes(&flow.page().await, "first").await;
        client().get(&back).send().await.unwrap();
        let (exit, out, err) = flow.ended().await;
        assert_eq!(exit, 1, "{out}");
        assert!(err.contains(expected) && !err.contains("CANARY"), "{err}");
        assert!(!setting.stored("claude", "work").exists());
    }
}

#[tokio::test]
async fn a_setup_token_is_for_a_year_and_knows_whose_it_is() {
    let setting = setting(&["first"]).await;
    for arguments in [
        vec!["login", "claude", "--name", "work", "--mode", "setup-token"],
        vec!["login", "claude", "--name", "work", "--long-lived"],
    ] {
        let mut flow = Flow::begin(setting.at_sim(&arguments));
        let page = flow.page().await;
        assert!(page.contains("scope=user%3Ainference&"), "{page}");
        let back = say_yes(&page, "first").await;
        client().get(&back).send().await.unwrap();
        let (exit, out, err) = flow.ended().await;
        assert_eq!(exit, 0, "{err}");
        assert!(out.starts_with("anthropic/work: setup token saved, the provider knows it"), "{out}");
        assert_eq!(err.contains("old name"), arguments.contains(&"--long-lived"), "{err}");
        sweep::assert_clean(&setting, &[out, err]);
    }
    let stored = setting.stored_json("claude", "work");
    assert_eq!(stored["duduclawAccountUuid"], json!(setting.sim.credentials("first").unwrap().uuid));
    let year = stored["claudeAiOauth"]["expiresAt"].as_i64().unwrap() - chrono::Utc::now().timestamp_millis();
    assert!((364 * 86_400_000..=365 * 86_400_000).contains(&year), "{year}");
    assert!(stored["claudeAiOauth"].get("refreshToken").is_none());
    let bare = r#"{"access_token":"sk-ant-oat01-CANARY","expires_in":31536000}"#.to_owned();
    let fault = Fault::Status { status: 200, headers: Vec::new(), body: bare };
    setting.sim.fault(FaultRule { account: None, endpoint: Endpoint::Token, ..FaultRule::next("x", 1, fault) });
    let mut flow = Flow::begin(setting.at_sim(&["login", "claude", "--name", "other", "--mode", "setup-token"]));
    let back = say_yes(&flow.page().await, "first").await;
    client().get(&back).send().await.unwrap();
    let (exit, _, err) = flow.ended().await;
    assert_eq!(exit, 1);
    assert!(err.contains("whose account") && !err.contains("CANARY"), "{err}");
}

/// Through the daemon, which seals and takes it into use at once.
#[tokio::test]
async fn with_a_daemon_the_login_serves_at_once_and_takes_the_place_of_one_of_its_name() {
    let setting = setting(&["first", "second"]).await;
    let mut daemon = crate::binary::Daemon::of(setting.at_sim(&["-vv", "serve"])).await;
    for account in ["first", "second"] {
        let mut flow = Flow::begin(setting.at_sim(&["-vv", "login", "claude", "--name", "work", "--mode", "oauth"]));
        let back = say_yes(&flow.page().await, account).await;
        client().get(&back).send().await.unwrap();
        let (exit, out, err) = flow.ended().await;
        assert_eq!(exit, 0, "{err}");
        assert!(out.contains("in use as anthropic/work"), "{out}");
        let asked = crate::binary::ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap();
        assert_eq!(asked.headers()["x-duduclaw-account"], "work");
        let seen = setting.sim.hits(account, Endpoint::Messages);
        assert_eq!(seen.len(), 1, "{account} was used");
        sweep::assert_clean(&setting, &[out, err]);
    }
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[daemon.said()]);
}

/// At a terminal it is asked how, and Enter is a new login in the browser.
#[tokio::test]
async fn at_a_terminal_it_is_asked_how_to_log_in() {
    let setting = setting(&["first"]).await;
    let inner = format!("{} login claude --name work", env!("CARGO_BIN_EXE_duduclaw"));
    let model = setting.at_sim(&[]);
    let Some(mut command) = at_terminal(&inner) else { return };
    command.kill_on_drop(true).envs(model.as_std().get_envs().filter_map(|(key, value)| Some((key, value?))));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("[1] ") {
        said.push_str(&read_some(&mut stdout, "[1] ").await);
    }
    for option in ["1) a new login", "2) the login that Claude Code has", "3) a token for a year"] {
        assert!(said.contains(option), "{said}");
    }
    stdin.write_all(b"\r").await.unwrap();
    let is_whole = |said: &str| said.find("http").is_some_and(|at| said[at..].contains('\n'));
    while !is_whole(&said) {
        said.push_str(&read_some(&mut stdout, "a page").await);
    }
    let page = said[said.find("http").unwrap()..].lines().next().unwrap().trim().to_owned();
    client().get(say_yes(&page, "first").await).send().await.unwrap();
    let rest = crate::support::read_all(&mut stdout).await;
    assert!(rest.contains("anthropic/work: oauth saved, the provider knows it"), "{said}{rest}");
    sweep::assert_clean(&setting, &[said, rest]);
}

/// The user's browser is opened with the page.
#[tokio::test]
async fn the_browser_is_opened_with_the_page() {
    use std::os::unix::fs::PermissionsExt;
    let setting = setting(&["first"]).await;
    let (script, seen) = (setting.home.path().join("browser"), setting.home.path().join("opened"));
    std::fs::write(&script, format!("#!/bin/sh\nprintf %s \"$1\" > {0}.part && mv {0}.part {0}\n", seen.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = setting.at_sim(&OAUTH);
    command.env("BROWSER", &script);
    let mut flow = Flow::begin(command);
    let page = flow.page().await;
    let opened = crate::support::eventually(|| std::fs::read_to_string(&seen).ok()).await;
    assert_eq!(opened, page);
    let back = say_yes(&opened, "first").await;
    client().get(&back).send().await.unwrap();
    assert_eq!(flow.ended().await.0, 0);
}

#[tokio::test]
async fn a_chatgpt_login_is_kept_in_codexs_shape_with_its_account() {
    let setting = setting(&["first"]).await;
    let known = setting.sim.credentials("first").unwrap();
    let mut flow = Flow::begin(setting.at_sim(&["login", "codex", "--name", "gpt"]));
    let back = say_yes(&flow.page().await, "first").await;
    assert!(back.starts_with("http://localhost:145"), "{back}");
    let local = back.replacen("localhost", "127.0.0.1", 1);
    client().get(&local).send().await.unwrap();
    let (exit, out, err) = flow.ended().await;
    assert_eq!(exit, 0, "{err}");
    assert!(out.starts_with("codex/gpt: oauth saved, the provider knows it"), "{out}");
    assert!(out.contains("cannot use provider \"codex\" yet"), "{out}");
    let stored = setting.stored_json("codex", "gpt");
    assert_eq!(stored["tokens"]["account_id"], json!(known.uuid));
    for key in ["id_token", "access_token", "refresh_token"] {
        assert!(stored["tokens"][key].as_str().unwrap().starts_with("duduclaw-sealed:1:"), "{stored}");
    }
    // The ports are taken: the address is pasted.
    let _taken: Vec<_> = [1455, 1457].iter().map(|port| std::net::TcpListener::bind(("127.0.0.1", *port))).collect();
    let mut flow = Flow::begin(setting.at_sim(&["login", "codex", "--name", "gpt"]));
    flow.until("can be pasted instead").await;
    let back = say_yes(&flow.page().await, "first").await;
    flow.paste(&back).await;
    let (exit, out2, err2) = flow.ended().await;
    assert_eq!(exit, 0, "{err2}");
    sweep::assert_clean(&setting, &[out, err, out2, err2]);
}

/// A stored ChatGPT login is renewed and asked about, though nothing is served by it yet.
#[tokio::test]
async fn a_chatgpt_login_is_renewed_and_checked() {
    let setting = setting(&["first"]).await;
    let mut flow = Flow::begin(setting.at_sim(&["login", "codex", "--name", "gpt", "--manual"]));
    let back = say_yes(&flow.page().await, "first").await;
    flow.paste(&back).await;
    let (exit, _, err) = flow.ended().await;
    assert_eq!(exit, 0, "{err}");
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[[providers.codex.accounts]]\nname = \"gpt\"\n")).unwrap();
    let mut daemon = crate::binary::Daemon::of(setting.at_sim(&["-vv", "serve"])).await;
    let probe = ["accounts", "probe", "gpt"];
    let (code, out, err) = setting.run(&probe).await;
    assert_eq!((code, out.as_str()), (0, "gpt: the provider knows the credential\n"), "{err}");
    let expire = AccountChange { expire_tokens: true, ..AccountChange::default() };
    setting.sim.change("first", &expire).unwrap();
    let before = setting.stored_json("codex", "gpt");
    let spent = setting.sim.log().iter().filter(|record| record.endpoint == Endpoint::Token).count();
    let (code, out, err) = setting.run(&probe).await;
    assert_eq!((code, out.as_str()), (0, "gpt: the provider knows the credential\n"), "{err}");
    let after = setting.stored_json("codex", "gpt");
    assert_ne!(before["tokens"]["refresh_token"], after["tokens"]["refresh_token"]);
    assert_eq!(before["tokens"]["account_id"], after["tokens"]["account_id"]);
    let tokens = setting.sim.log().iter().filter(|record| record.endpoint == Endpoint::Token).count();
    assert_eq!(tokens, spent + 1, "a refusal that a renewal cures is none");
    setting.sim.change("first", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
    let (code, out, _) = setting.run(&probe).await;
    assert_eq!((code, out.as_str()), (3, "gpt: the provider refuses the credential; log in again\n"));
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[out, err, daemon.said()]);
}

#[tokio::test]
async fn a_device_code_is_typed_elsewhere() {
    let setting = setting(&["first"]).await;
    let mut flow = Flow::begin(setting.at_sim(&["login", "codex", "--name", "gpt", "--mode", "device"]));
    flow.until("SIM-").await;
    flow.until("\n").await;
    let code = flow.said[flow.said.find("SIM-").unwrap()..].lines().next().unwrap().to_owned();
    let page = format!("{}/codex/device?user_code={code}&sim_account=first", setting.sim.base_url());
    let answer = client().get(page).send().await.unwrap();
    assert!(answer.text().await.unwrap().contains("Thank you"));
    let (exit, out, err) = flow.ended().await;
    assert_eq!(exit, 0, "{err}");
    assert!(out.starts_with("codex/gpt: oauth saved, the provider knows it"), "{out}");
    sweep::assert_clean(&setting, &[out, err]);
}

/// A gateway whose pool is the whole store, in this process, with login pages of the simulator.
async fn world() -> World {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                token_url = \"{sim}/v1/oauth/token\"\nauthorize_url = \"{sim}/cai/oauth/authorize\"\nauth = \"claude_oauth\"\n";
    World::with(["first", "second"].map(AccountSpec::oauth)).config(text).start().await
}

impl World {
    async fn start_login(&self, params: Value) -> Got {
        got(self.control("POST", "/admin/api/logins").json(&params)).await
    }

    async fn complete_login(&self, login: &str, code: &str) -> Got {
        got(self.control("POST", &format!("/admin/api/logins/{login}")).json(&json!({"code": code}))).await
    }
}

#[tokio::test]
async fn of_several_who_complete_a_login_exactly_one_does() {
    let world = world().await;
    for mode in ["oauth", "setup_token"] {
        let begun = world.start_login(json!({"name": "work", "mode": mode})).await;
        assert_eq!(begun.status, 200, "{}", begun.text());
        assert_eq!(begun.json()["expires_in_seconds"], 600);
        let login = begun.json()["login"].as_str().unwrap().to_owned();
        let code = say_yes(begun.json()["authorize_url"].as_str().unwrap(), "first").await;
        let wrong = world.complete_login(&login, "code#state").await;
        assert_eq!(wrong.status, 422, "{}", wrong.text());
        let all = futures_util::future::join_all((0..8).map(|_| world.complete_login(&login, &code))).await;
        let mut statuses: Vec<u16> = all.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404, 404, 404, 404, 404, 404]);
        let saved = all.iter().find(|answer| answer.status == 200).unwrap().json();
        assert_eq!(
            (&saved["saved"], &saved["kind"], &saved["check"]),
            (&json!("anthropic/work"), &json!(mode), &json!("valid"))
        );
        for answer in &all {
            assert!(!answer.text().contains("sk-ant-") && !answer.text().contains("code-sim"), "{}", answer.text());
        }
        world.turn("s", false).await.served_by("work");
        let told = world.rpc("logins.complete", json!({"login": login, "code": code})).await;
        assert_eq!(told["error"]["code"], -32004, "{told}");
    }
    let exchanges = world.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Token).count();
    assert_eq!(exchanges, 2, "a code is shown to the provider once");
}

#[tokio::test]
async fn few_logins_are_under_way_and_none_for_long() {
    let world = world().await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(world.start_login(json!({"name": "work"})).await.json());
    }
    let sixth = world.start_login(json!({"name": "work"})).await;
    assert_eq!(sixth.status, 409, "{}", sixth.text());
    assert!(sixth.text().contains("5 logins are under way"), "{}", sixth.text());
    let code = say_yes(begun[0]["authorize_url"].as_str().unwrap(), "first").await;
    world.advance(599);
    let other = world.complete_login(begun[1]["login"].as_str().unwrap(), &code).await;
    assert_eq!(other.status, 422, "the code of one login is none of another: {}", other.text());
    assert_eq!(world.complete_login(begun[0]["login"].as_str().unwrap(), &code).await.status, 200);
    let late = say_yes(begun[2]["authorize_url"].as_str().unwrap(), "first").await;
    world.advance(1);
    let late = world.complete_login(begun[2]["login"].as_str().unwrap(), &late).await;
    assert_eq!(late.status, 404, "{}", late.text());
    assert_eq!(world.start_login(json!({"name": "work"})).await.status, 200);
    for (params, status) in [
        (json!({"name": "../x"}), 400),
        (json!({"name": "work", "family": "codex"}), 422),
        (json!({"name": "sk-ant-oat01-x"}), 400),
        (json!({"name": "work", "family": "codex", "mode": "setup_token"}), 422),
        (json!({"name": "work", "provider": "nobody"}), 404),
    ] {
        assert_eq!(world.start_login(params.clone()).await.status, status, "{params}");
    }
}

/// A code that the provider does not take is spent, and what was stored stays.
#[tokio::test]
async fn a_failed_exchange_leaves_the_account_as_it_was() {
    let world = world().await;
    let begin = async || {
        let begun = world.start_login(json!({"name": "work"})).await.json();
        let code = say_yes(begun["authorize_url"].as_str().unwrap(), "first").await;
        (begun["login"].as_str().unwrap().to_owned(), code)
    };
    let (login, code) = begin().await;
    assert_eq!(world.complete_login(&login, &code).await.status, 200);
    let before = std::fs::read(world.home.path().join("accounts/claude/work.json")).unwrap();
    for (fault, status) in [(Fault::ServerError, 422), (Fault::ResetBeforeHead, 503)] {
        let (login, code) = begin().await;
        world.sim.fault(FaultRule { account: None, endpoint: Endpoint::Token, ..FaultRule::next("x", 1, fault) });
        let failed = world.complete_login(&login, &code).await;
        assert_eq!(failed.status, status, "{}", failed.text());
        assert_eq!(world.complete_login(&login, &code).await.status, 404, "it is for one use");
        assert_eq!(std::fs::read(world.home.path().join("accounts/claude/work.json")).unwrap(), before);
    }
}
