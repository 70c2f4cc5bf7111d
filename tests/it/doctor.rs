//! `duduclaw doctor`: the whole of what it says, for everything well and for each thing wrong, and that it changes
//! nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duduclaw::sim::{Endpoint, Fault, FaultRule};
use serde_json::{Value, json};

use crate::binary::{Daemon, Setting, bare, run};
use crate::support::login;

/// A home with two logins and a Claude Code that says it is logged in.
struct Patient {
    setting: Setting,
    daemon: Option<Daemon>,
    vars: Vec<(&'static str, String)>,
}

impl Patient {
    async fn new() -> Self {
        let setting = Setting::with(&["a", "b"], "").await;
        let home = setting.home.path();
        fs::set_permissions(home, fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["a", "b"] {
            private(&home.join(format!("{name}.json")));
        }
        let patient = Self { setting, daemon: None, vars: Vec::new() };
        patient.claude("echo '2.1.332 (Claude Code)'", "echo '{\"loggedIn\": true}'");
        patient
    }

    /// The same with a daemon.
    async fn served() -> Self {
        let mut patient = Self::new().await;
        patient.serve().await;
        patient
    }

    async fn serve(&mut self) {
        self.daemon = Some(Daemon::of(self.command(&["serve"])).await);
    }

    /// A stand-in for Claude Code that prints its version, and how it stands with its login.
    fn claude(&self, version: &str, status: &str) {
        let path = self.path("claude");
        let script = format!("#!/bin/sh\nif [ \"$1\" = --version ]; then {version}; else cat; {status}; fi\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.setting.home.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = self.setting.command(arguments);
        command.env("DUDUCLAW_CLAUDE_PATH", self.path("claude"));
        command.env("DUDUCLAW_CLAUDE_TOKEN_URL", self.setting.sim.token_url());
        command.envs(self.vars.iter().map(|(name, value)| (*name, value.as_str())));
        command
    }

    fn models(&self, account: &str, fault: Fault) {
        self.setting.sim.fault(FaultRule::standing(account, fault).on(Endpoint::Models));
    }

    fn rewrite(&self, name: &str, change: impl FnOnce(String) -> String) {
        let path = self.path(name);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// One account's file with another login.
    fn with_login(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut document = login(&self.setting.sim, name);
        change(&mut document["claudeAiOauth"]);
        fs::write(self.path(&format!("{name}.json")), document.to_string()).unwrap();
    }

    /// What it says, without what is of this run alone.
    async fn said(&self, arguments: &[&str]) -> String {
        let (code, out, err) = run(self.command(&[&["doctor"], arguments].concat())).await;
        assert_eq!(err, "");
        assert!(!out.contains("sk-ant-"), "{out}");
        let mut text = format!("exit {code}\n{out}").replace(&self.path("").display().to_string(), "<home>/");
        text = text.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "<home>");
        if let Some(daemon) = &self.daemon {
            let process = format!("process {}", daemon.child.id().unwrap_or_default());
            text = text.replace(&process, "process <id>");
            daemon.addresses.iter().for_each(|address| text = text.replace(address.as_str(), "<address>"));
        }
        let lines = text.lines().map(|line| match line.split_once(": sound, ") {
            Some((file, _)) => format!("{file}: sound, <size>"),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn private(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

const DAY: i64 = 24 * 3600 * 1000;

fn now() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

#[tokio::test]
async fn all_is_well() {
    let patient = Patient::served().await;
    insta::assert_snapshot!("doctor-well", patient.said(&[]).await);
    let json: Value = serde_json::from_str(patient.said(&["--json"]).await.trim_start_matches("exit 0\n")).unwrap();
    assert_eq!(json["verdict"], "pass");
    let of_a = json["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "anthropic/a").unwrap();
    let expected =
        json!({"group": "accounts", "mark": "pass", "what": "anthropic/a", "finding": "valid", "advice": null});
    assert_eq!(*of_a, expected);
}

#[tokio::test]
async fn nothing_is_configured() {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare(&home.path().join("none"));
    command.arg("doctor").env("DUDUCLAW_CLAUDE_PATH", home.path().join("claude"));
    let (code, out, _) = run(command).await;
    let shown = out.replace(&home.path().display().to_string(), "<home>");
    insta::assert_snapshot!("doctor-nothing", format!("exit {code}\n{shown}"));
    assert!(!home.path().join("none").exists(), "who only looks makes no home");
}

/// Without a network nobody is dead.
#[tokio::test]
async fn there_is_no_network() {
    let patient = Patient::served().await;
    for name in ["a", "b"] {
        patient.models(name, Fault::ResetBeforeHead);
    }
    insta::assert_snapshot!("doctor-no-network", patient.said(&[]).await);
    insta::assert_snapshot!("doctor-offline", patient.said(&["--offline"]).await);
    assert_eq!(patient.setting.sim.hits("a", Endpoint::Models).len(), 1, "--offline asks nobody");
}

#[tokio::test]
async fn each_answer_of_a_provider_is_named_right() {
    let patient = Patient::served().await;
    for (name, fault) in [
        ("401", Fault::Unauthorized),
        ("403", Fault::OrgDisabled),
        ("404", Fault::NoSuchModel),
        ("429", Fault::ThrottleUnstated),
        ("500", Fault::ServerError),
    ] {
        patient.models("a", fault);
        insta::assert_snapshot!(format!("doctor-answer-{name}"), patient.said(&[]).await);
        patient.setting.sim.clear_faults(None);
    }
}

/// Does something to a patient's files.
type Spoil<'a> = &'a dyn Fn(&Patient);

#[tokio::test]
async fn each_fault_of_an_account_s_secret_is_named_with_what_to_do() {
    let patient = Patient::new().await;
    let good = fs::read(patient.path("a.json")).unwrap();
    let broken: [(&str, Spoil<'_>); 8] = [
        ("expired", &|patient| patient.with_login("a", |login| login["expiresAt"] = json!(now() - DAY))),
        ("ended", &|patient| {
            patient.with_login("a", |login| {
                login["expiresAt"] = json!(now() - DAY);
                login["refreshToken"] = Value::Null;
            });
        }),
        ("ending", &|patient| {
            patient.with_login("a", |login| {
                login["expiresAt"] = json!(now() + 6 * DAY + DAY / 2);
                login["refreshToken"] = Value::Null;
            });
        }),
        ("truncated", &|patient| patient.rewrite("a.json", |text| text[..text.len() / 2].to_owned())),
        ("empty", &|patient| patient.rewrite("a.json", |_| String::new())),
        ("foreign", &|patient| patient.rewrite("a.json", |_| r#"{"installed": {"client_id": "x"}}"#.to_owned())),
        ("gone", &|patient| fs::remove_file(patient.path("a.json")).unwrap()),
        ("readable", &|patient| {
            fs::set_permissions(patient.path("a.json"), fs::Permissions::from_mode(0o640)).unwrap();
        }),
    ];
    for (name, spoil) in broken {
        spoil(&patient);
        insta::assert_snapshot!(format!("doctor-secret-{name}"), patient.said(&[]).await);
        fs::write(patient.path("a.json"), &good).unwrap();
        private(&patient.path("a.json"));
    }
}

/// C39: a login that its provider renews no more.
#[tokio::test]
async fn a_lost_login_is_said_as_long_as_the_daemon_knows_of_it() {
    let mut patient = Patient::new().await;
    patient.with_login("a", |login| login["expiresAt"] = json!(now() - DAY));
    patient.setting.sim.fault(FaultRule::standing("a", Fault::InvalidGrant).on(Endpoint::Token));
    patient.serve().await;
    let (code, out, err) = run(patient.command(&["accounts", "probe", "a"])).await;
    assert_eq!(code, 3, "{out}{err}");
    insta::assert_snapshot!("doctor-needs-login", patient.said(&[]).await);
    let mut daemon = patient.daemon.take().unwrap();
    assert_eq!(daemon.stop().await, Some(0));
    let said = patient.said(&[]).await;
    assert!(said.contains("FAIL  anthropic/a: its login has ended"), "the store remembers it: {said}");
    patient.with_login("a", |login| {
        login["expiresAt"] = json!(now() - DAY);
        login["refreshToken"] = json!("sk-ant-ort01-of-another-login");
    });
    let said = patient.said(&[]).await;
    assert!(said.contains("PASS  anthropic/a: expired, will be refreshed on use"), "and knows a new one: {said}");
}

/// A secret that this shell has and the daemon has not.
#[tokio::test]
async fn what_only_the_daemon_knows_is_said() {
    let mut patient = Patient::new().await;
    patient.rewrite("config.toml", |text| {
        text.replace(&format!("credentials = \"{}\"", patient.path("b.json").display()), "token_env = \"TOKEN_OF_B\"")
    });
    patient.serve().await;
    let held = patient.setting.sim.credentials("b").unwrap();
    patient.vars.push(("TOKEN_OF_B", held.token));
    insta::assert_snapshot!("doctor-daemon-lacks-variable", patient.said(&[]).await);
    let other = patient.path("other.toml");
    fs::copy(patient.path("config.toml"), &other).unwrap();
    let said = patient.said(&["--config", other.to_str().unwrap()]).await;
    let expected = "WARN  daemon: uses <home>/config.toml, which is not what was looked at here";
    assert!(said.contains(expected), "{said}");
}

#[tokio::test]
async fn each_other_fault_is_named_with_what_to_do() {
    let mut patient = Patient::new().await;
    insta::assert_snapshot!("doctor-no-daemon", patient.said(&[]).await);

    fs::write(patient.path("key"), [1; 31]).unwrap();
    private(&patient.path("key"));
    insta::assert_snapshot!("doctor-key-size", patient.said(&[]).await);
    fs::remove_file(patient.path("key")).unwrap();

    fs::write(patient.path("state.db"), "no database at all, but a text of some length").unwrap();
    private(&patient.path("state.db"));
    insta::assert_snapshot!("doctor-store", patient.said(&[]).await);
    fs::remove_file(patient.path("state.db")).unwrap();

    fs::set_permissions(patient.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    insta::assert_snapshot!("doctor-home-open", patient.said(&[]).await);
    fs::set_permissions(patient.path(""), fs::Permissions::from_mode(0o700)).unwrap();

    patient.claude("exit 1", "exit 1");
    insta::assert_snapshot!("doctor-claude", patient.said(&[]).await);
    patient.claude("echo 2.1.332", "echo '{\"loggedIn\": false}'");
    insta::assert_snapshot!("doctor-claude-out", patient.said(&[]).await);

    let good = fs::read_to_string(patient.path("config.toml")).unwrap();
    patient.rewrite("config.toml", |text| {
        format!("{text}[channels.webhook.ops]\nurl_env = \"OPS\"\n[notify]\nchannel = \"webhook\"\ntarget = \"ops\"\n")
    });
    insta::assert_snapshot!("doctor-channel", patient.said(&[]).await);
    patient.vars.push(("OPS", "not an address".to_owned()));
    insta::assert_snapshot!("doctor-channel-address", patient.said(&[]).await);

    patient.rewrite("config.toml", |_| good.replace("[server]\n", "[server]\nbnd = 1\n"));
    insta::assert_snapshot!("doctor-config", patient.said(&[]).await);
}

#[tokio::test]
async fn a_port_that_another_program_has_is_told_before_the_daemon_starts() {
    let patient = Patient::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    patient.rewrite("config.toml", |text| text.replace("127.0.0.1:0", &address));
    let said = patient.said(&[]).await;
    let expected = format!("FAIL  {address}: another program has this port → ");
    assert!(said.starts_with("exit 1\n") && said.contains(&expected), "{said}");
}

/// Every file of the home by its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&path)),
            kind if kind.is_file() => {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
            _ => {}
        }
    }
    found
}

/// C37: an ended token whose refresh token others share stays as it is.
#[tokio::test]
async fn it_renews_nothing_and_changes_no_byte_even_of_what_a_killed_daemon_left() {
    let mut patient = Patient::new().await;
    patient.with_login("a", |login| login["expiresAt"] = json!(now() - DAY));
    patient.serve().await;
    let mut daemon = patient.daemon.take().unwrap();
    daemon.child.kill().await.unwrap();
    let before = files(patient.setting.home.path());
    assert!(before.keys().any(|path| path.ends_with("state.db-wal")), "a killed daemon leaves a log");
    patient.said(&[]).await;
    assert_eq!(files(patient.setting.home.path()), before);
    patient.serve().await;
    let of_daemon = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
        // The daemon's own: what it writes while it runs.
        files.retain(|path, _| !path.file_name().unwrap().to_string_lossy().starts_with("state.db"));
        files
    };
    let before = of_daemon(files(patient.setting.home.path()));
    patient.said(&[]).await;
    assert_eq!(of_daemon(files(patient.setting.home.path())), before);
    assert!(patient.setting.sim.log().iter().all(|record| record.endpoint != Endpoint::Token), "nothing was renewed");
}

/// Providers that take the question and never answer: everything else is said, within twelve seconds.
#[tokio::test]
async fn providers_that_never_answer_hold_nobody_up() {
    let patient = Patient::served().await;
    for name in ["a", "b"] {
        patient.models(name, Fault::StallBeforeHead);
    }
    patient.claude("sleep 60", "sleep 60");
    let began = Instant::now();
    let said = patient.said(&[]).await;
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    insta::assert_snapshot!("doctor-stalled", said);
}
