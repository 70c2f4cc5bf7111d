//! `duduclaw claude` with a stand-in for Claude Code: a script that writes down what it was given.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::seen::{Got, got};
use crate::support::{World, eventually};

/// A folder with a stand-in that does what its script says.
struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claude");
        let told =
            "cd \"$(dirname \"$0\")\"\nenv > env.part; mv env.part env\nfor one in \"$@\"; do echo \"[$one]\"; done\n";
        std::fs::write(&path, format!("#!/bin/sh\n{told}{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command, with nothing of the tester's own environment.
    fn command(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duduclaw"));
        command.arg("--home").arg(home).arg("claude").args(args).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        command.env("DUDUCLAW_CLAUDE_PATH", self.path("claude"));
        command
    }

    fn run(&self, home: &Path, args: &[&str]) -> Output {
        self.command(home, args).stdin(Stdio::null()).output().unwrap()
    }

    /// The environment that it was given, once it runs.
    async fn environment(&self) -> BTreeMap<String, String> {
        let text = eventually(|| std::fs::read_to_string(self.path("env")).ok()).await;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A home whose daemon has stopped: its configuration is there, and its provider still runs.
async fn without_daemon() -> World {
    let mut world = World::with([AccountSpec::oauth("a")]).start().await;
    world.stop().await;
    world
}

/// A command that runs; gone with the test, however that ends.
struct Run(Child);

impl Run {
    fn of(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn tell(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn end(mut self) -> Option<i32> {
        eventually(|| self.0.try_wait().unwrap()).await.code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let over = self.0.try_wait().is_ok_and(|status| status.is_some());
        if !over {
            self.tell(Signal::TERM);
            self.0.wait().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_terminal_and_exit_code_are_the_programs_own() {
    let world = without_daemon().await;
    let stand_in = StandIn::new("cat; echo oh >&2; exit 7");
    let args = ["--help", "-v", "--home", "/x", "-p", "two words", "--", "-q", ""];
    let mut child = stand_in.command(world.home.path(), &args);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from the terminal\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "[--help]\n[-v]\n[--home]\n[/x]\n[-p]\n[two words]\n[--]\n[-q]\n[]\nfrom the terminal\n"
    );
    assert_eq!((text(&output.stderr), output.status.code()), ("oh\n".to_owned(), Some(7)), "and not a word of ours");
    assert!(world.home.path().join("logs/claude.log").is_file(), "its gateway writes there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_of_its_own_serves_this_run_and_nobody_else() {
    let world = without_daemon().await;
    let stand_in = StandIn::new("while [ ! -e go ]; do sleep 0.02; done");
    let mut command = stand_in.command(world.home.path(), &[]);
    command.env("ANTHROPIC_API_KEY", "sk-ant-api03-users").env("ANTHROPIC_BASE_URL", "https://elsewhere.example");
    command.env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-users").env("HTTP_PROXY", "http://127.0.0.1:9");
    let run = Run::of(&mut command);
    let given = stand_in.environment().await;
    assert_eq!(given.get("ANTHROPIC_API_KEY").or(given.get("CLAUDE_CODE_OAUTH_TOKEN")), None);
    assert_eq!((given["NO_PROXY"].as_str(), given["no_proxy"].as_str()), ("127.0.0.1", "127.0.0.1"));
    assert_eq!(given["HTTP_PROXY"], "http://127.0.0.1:9");
    let ask = |token: &str| {
        let body =
            json!({"model": "claude-opus-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
        let request = world.client.post(format!("{}/v1/messages", given["ANTHROPIC_BASE_URL"])).bearer_auth(token);
        request.header("anthropic-version", "2023-06-01").json(&body).send()
    };
    assert_eq!(ask(&given["ANTHROPIC_AUTH_TOKEN"]).await.unwrap().status(), 200);
    assert_eq!(world.hits("a"), 1, "by the account of the configuration");
    assert_eq!(ask("duduclaw").await.unwrap().status(), 401);
    assert_eq!(ask("").await.unwrap().status(), 401);
    // A changed configuration does not open the door.
    let config = world.home.path().join("config.toml");
    let changed = std::fs::read_to_string(&config).unwrap().replace("[server]", "[server]\nhosts = [\"more\"]");
    std::fs::write(&config, changed).unwrap();
    let log = world.home.path().join("logs/claude.log");
    eventually(|| std::fs::read_to_string(&log).ok().filter(|text| text.contains("config reloaded"))).await;
    assert_eq!(ask("duduclaw").await.unwrap().status(), 401);
    assert_eq!(ask(&given["ANTHROPIC_AUTH_TOKEN"]).await.unwrap().status(), 200);
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(!written.contains(&given["ANTHROPIC_AUTH_TOKEN"]), "its token is in no log");
    std::fs::write(stand_in.path("go"), "").unwrap();
    assert_eq!(run.end().await, Some(0));
}

/// What a client with this environment gets.
async fn served(world: &World, given: &BTreeMap<String, String>, session: &str) -> Got {
    let body = json!({"model": "claude-opus-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    let request = world.client.post(format!("{}/v1/messages", given["ANTHROPIC_BASE_URL"])).json(&body);
    let request = request.bearer_auth(&given["ANTHROPIC_AUTH_TOKEN"]).header("anthropic-version", "2023-06-01");
    got(request.header("x-claude-code-session-id", session).header("connection", "close")).await
}

/// Who never runs a daemon is remembered all the same, from one run to the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_daemon_goes_on_from_what_the_last_one_learnt() {
    let mut world = World::with(["a", "b"].map(AccountSpec::oauth)).provider("strategy = \"failover\"").start().await;
    world.stop().await;
    world.sim.fault(FaultRule::standing("a", Fault::BalanceEmpty));
    for run in 0..3 {
        let stand_in = StandIn::new("while [ ! -e go ]; do sleep 0.02; done");
        let running = Run::of(&mut stand_in.command(world.home.path(), &[]));
        let given = stand_in.environment().await;
        served(&world, &given, &format!("s{run}")).await.served_by("b");
        std::fs::write(stand_in.path("go"), "").unwrap();
        assert_eq!(running.end().await, Some(0));
        assert_eq!(world.hits("a"), 1, "its balance was asked about once, by the first run");
    }
    world.restart().await;
    assert_eq!(world.account("a").await.cause.as_deref(), Some("balance"), "and a daemon knows it, too");
}

/// Two at once would write over each other: the second remembers for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_beside_the_first_leaves_the_store_to_it() {
    let world = without_daemon().await;
    let stand_ins = [0, 1].map(|_| StandIn::new("while [ ! -e go ]; do sleep 0.02; done"));
    let mut runs = Vec::new();
    for stand_in in &stand_ins {
        runs.push(Run::of(&mut stand_in.command(world.home.path(), &[])));
        served(&world, &stand_in.environment().await, "s").await.served_by("a");
    }
    let log = std::fs::read_to_string(world.home.path().join("logs/claude.log")).unwrap();
    assert!(!log.contains("store_failing") && !log.contains("ERROR"), "{log}");
    stand_ins.iter().for_each(|stand_in| std::fs::write(stand_in.path("go"), "").unwrap());
    for run in runs {
        assert_eq!(run.end().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_starts_beside_a_run_takes_the_store_over_with_what_the_run_learnt() {
    let mut world = World::with(["a", "b"].map(AccountSpec::oauth)).provider("strategy = \"failover\"").start().await;
    world.stop().await;
    world.sim.fault(FaultRule::standing("a", Fault::BalanceEmpty));
    let stand_in = StandIn::new("while [ ! -e go ]; do sleep 0.02; done");
    let run = Run::of(&mut stand_in.command(world.home.path(), &[]));
    let given = stand_in.environment().await;
    served(&world, &given, "s").await.served_by("b");
    world.restart().await;
    assert_eq!(world.account("a").await.cause.as_deref(), Some("balance"));
    assert_eq!(world.events.of("store_failing").len(), 0, "it waited for it");
    let paused = got(world.control("POST", "/admin/api/accounts/b/pause")).await;
    assert_eq!(paused.status, 200, "it may write: {}", paused.text());
    served(&world, &given, "s").await.served_by("b");
    std::fs::write(stand_in.path("go"), "").unwrap();
    assert_eq!(run.end().await, Some(0));
    world.restart().await;
    assert!(world.account("b").await.paused, "the run wrote nothing over it");
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_end_the_program_and_not_us_before_it() {
    let world = without_daemon().await;
    let killed = StandIn::new("kill -KILL $$");
    assert_eq!(killed.run(world.home.path(), &[]).status.code(), Some(137), "as a shell tells it");
    let stand_in =
        StandIn::new("trap 'touch interrupted' INT\ntrap 'exit 9' TERM\ntouch ready\nwhile :; do sleep 0.02; done");
    let run = Run::of(&mut stand_in.command(world.home.path(), &[]));
    eventually(|| stand_in.path("ready").exists().then_some(())).await;
    run.tell(Signal::INT);
    run.tell(Signal::QUIT);
    run.tell(Signal::TERM);
    assert_eq!(run.end().await, Some(9), "the program's own answer to the signal that we passed on");
    assert!(!stand_in.path("interrupted").exists(), "keys of the terminal reach it by themselves");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_daemon_of_the_home_is_used() {
    let world = World::with([AccountSpec::oauth("a")]).start().await;
    let stand_in = StandIn::new("exit 0");
    let home = world.home.path().to_owned();
    assert_eq!(stand_in.run(&home, &[]).status.code(), Some(0));
    let given = stand_in.environment().await;
    assert_eq!(
        (given["ANTHROPIC_BASE_URL"].as_str(), given["ANTHROPIC_AUTH_TOKEN"].as_str()),
        (&*world.url, "duduclaw")
    );
    assert!(!home.join("logs").exists(), "no gateway of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_asks_for_tokens_gets_the_users_or_the_user_is_told() {
    let gate = "[[server.auth.clients]]\nname = \"me\"\ntoken_env = \"MY_TOKEN\"";
    let world = World::with([AccountSpec::oauth("a")]).tables(gate).var("MY_TOKEN", "mine").start().await;
    let stand_in = StandIn::new("exit 0");
    let output = stand_in.run(world.home.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("DUDUCLAW_CLIENT_TOKEN") && said.contains(&world.url), "{said}");
    assert!(!stand_in.path("env").exists(), "it was not begun");
    let mut command = stand_in.command(world.home.path(), &[]);
    assert_eq!(command.env("DUDUCLAW_CLIENT_TOKEN", "mine").output().unwrap().status.code(), Some(0));
    assert_eq!(stand_in.environment().await["ANTHROPIC_AUTH_TOKEN"], "mine");
}

#[test]
fn a_program_that_is_not_there_is_told_with_where_it_was_named() {
    let stand_in = StandIn::new("exit 0");
    let mut command = stand_in.command(&stand_in.path("home"), &["-p", "hi"]);
    let output = command.env("DUDUCLAW_CLAUDE_PATH", "/nowhere/claude").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    insta::assert_snapshot!(text(&output.stderr), @"duduclaw: $DUDUCLAW_CLAUDE_PATH names /nowhere/claude, which is not there; correct it, or remove it to have the usual places searched");
    // The configuration names one too; its path is final as well.
    std::fs::create_dir_all(stand_in.path("home")).unwrap();
    std::fs::write(stand_in.path("home/config.toml"), "[runtimes.claude]\npath = \"/\"\n[providers.a]\nkind = \"anthropic\"\nauth = \"passthrough\"\nbase_url = \"http://127.0.0.1:9\"\n").unwrap();
    let output = stand_in.command(&stand_in.path("home"), &[]).env_remove("DUDUCLAW_CLAUDE_PATH").output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("[runtimes.claude] path names /, which is not a regular file"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn without_any_account_it_is_said_what_to_do_and_nothing_is_begun() {
    let stand_in = StandIn::new("exit 0");
    let output = stand_in.run(&stand_in.path("home"), &["-p", "hi"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no account") && said.contains("CLAUDE_CODE_OAUTH_TOKEN"), "{said}");
    assert!(!stand_in.path("env").exists());
}

#[test]
fn what_it_can_do_is_told_without_any_account_and_without_a_way_to_a_provider() {
    let stand_in = StandIn::new("exit 0");
    for words in [&["--help"][..], &["mcp", "add", "-h"], &["--version"]] {
        let mut command = stand_in.command(&stand_in.path("home"), words);
        let output = command.env("ANTHROPIC_BASE_URL", "https://elsewhere").stdin(Stdio::null()).output().unwrap();
        let expected: String = words.iter().map(|word| format!("[{word}]\n")).collect();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected));
        assert!(!std::fs::read_to_string(stand_in.path("env")).unwrap().contains("ANTHROPIC"));
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_the_exit_status_says_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_duduclaw")).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    let said = text(&output.stderr);
    assert!(said.contains("Usage: duduclaw") && said.contains("  demo ") && said.contains("  claude "), "{said}");
    let help = Command::new(env!("CARGO_BIN_EXE_duduclaw")).args(["help", "claude"]).output().unwrap();
    assert!(text(&help.stdout).contains("Example") && help.status.success());
}
