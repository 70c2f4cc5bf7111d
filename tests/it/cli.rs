//! Commands and bad input: exactly what is said, and the exit code.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{Setting, ask, bare, client, free_port, run};

/// What a run said, with the home's path and the version taken out.
fn shown(home: &Path, (code, out, err): (i32, String, String)) -> String {
    let err: String = err.lines().map(|line| format!("{}\n", without_time(line))).collect();
    let text = format!("exit {code}\n--- out\n{out}--- err\n{err}");
    text.replace(&home.display().to_string(), "<home>")
}

/// A log line without the moment at its beginning.
fn without_time(line: &str) -> &str {
    let timed = line.split_once("Z ").filter(|(time, _)| time.len() == 26 && time.starts_with("20"));
    timed.map_or(line, |(_, rest)| rest)
}

/// What the program says about this configuration.
async fn said(text: &str, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), text).unwrap();
    let mut command = bare(home.path());
    command.args(arguments);
    shown(home.path(), run(command).await)
}

const PROVIDER: &str = "[providers.p]\nkind = \"anthropic\"\nauth = \"claude_oauth\"\n";

#[tokio::test]
async fn a_bad_configuration_is_shown_where_it_is_bad_and_nothing_starts() {
    let cases = [
        ("malformed", "[server\nbind = 1\n".to_owned()),
        ("unknown-key", "[server]\nbnd = \"127.0.0.1:1\"\nmax_concurent_requests = 1\n".to_owned()),
        ("unknown-table", "[servers]\n".to_owned()),
        ("off-origin", format!("{PROVIDER}base_url = \"https://anthropic.com.evil.example\"\n")),
        ("plain-http", format!("{PROVIDER}base_url = \"http://api.anthropic.com\"\n")),
        (
            "threshold",
            format!("[server.pool]\nhard_threshold = 1.7\n{PROVIDER}base_url = \"https://api.anthropic.com\"\n"),
        ),
        (
            "open-to-all",
            format!("[server]\nbind = \"0.0.0.0:8787\"\n{PROVIDER}base_url = \"https://api.anthropic.com\"\n"),
        ),
        ("bad-duration", "[server.timeouts]\nupstream_ttfb = \"soon\"\n".to_owned()),
        ("bad-bind", "[server]\nbind = \"here\"\n".to_owned()),
        (
            "doubled-account",
            format!(
                "{PROVIDER}base_url = \"https://api.anthropic.com\"\n[[providers.p.accounts]]\nname = \"a\"\ntoken_env = \"A\"\n[[providers.p.accounts]]\nname = \"a\"\ntoken_env = \"B\"\n"
            ),
        ),
    ];
    for (name, text) in cases {
        let check = said(&text, &["check"]).await;
        assert!(check.starts_with("exit 1\n"), "{name}: {check}");
        insta::assert_snapshot!(format!("check-{name}"), check);
        let serve = said(&text, &["serve"]).await;
        assert!(serve.starts_with("exit 1\n"), "{name}: {serve}");
        assert!(!serve.contains("listens on"), "{serve}");
    }
}

#[tokio::test]
async fn a_configuration_that_was_named_must_be_there() {
    let home = tempfile::tempdir().unwrap();
    for command in ["check", "serve", "status", "env"] {
        let mut named = bare(home.path());
        named.args([command, "--config"]).arg(home.path().join("nowhere.toml"));
        let said = shown(home.path(), run(named).await);
        assert!(said.starts_with(if command == "status" { "exit 4" } else { "exit 1" }), "{command}: {said}");
        insta::assert_snapshot!(format!("missing-config-{command}"), said);
    }
}

#[tokio::test]
async fn a_home_that_cannot_be_one_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut command = bare(&file.join("home"));
    command.args(["serve"]).env("ANTHROPIC_API_KEY", "sk-ant-api03-canary");
    let said = shown(folder.path(), run(command).await);
    assert!(said.starts_with("exit 1\n") && !said.contains("canary"), "{said}");
    insta::assert_snapshot!("home-below-a-file", said);
}

#[tokio::test]
async fn a_folder_in_the_place_of_the_configuration_is_said() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("config.toml")).unwrap();
    let mut command = bare(home.path());
    command.arg("check");
    insta::assert_snapshot!("config-is-a-folder", shown(home.path(), run(command).await));
}

#[tokio::test]
async fn without_any_account_it_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare(home.path());
    command.arg("check");
    insta::assert_snapshot!("nothing-found", shown(home.path(), run(command).await));
}

#[tokio::test]
async fn the_status_without_a_daemon_is_exit_code_4_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for arguments in [["status"].as_slice(), &["status", "--json"]] {
        let mut command = bare(&home);
        command.args(arguments).env("ANTHROPIC_API_KEY", "sk-ant-api03-x");
        let said = shown(&home, run(command).await);
        insta::assert_snapshot!("status-without-daemon", said);
    }
    assert!(!home.exists(), "who only looks makes no home");
}

#[tokio::test]
async fn the_status_shows_each_account_and_says_by_its_exit_code_whether_all_serve() {
    let setting = Setting::with(&["a", "b"], "").await;
    let mut daemon = setting.serve().await;
    let (code, out, err) = setting.run(&["status"]).await;
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!("status", out);
    let (code, out, _) = setting.run(&["status", "--json"]).await;
    assert_eq!(code, 0);
    let pool: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(pool["providers"][0]["accounts"][1]["name"], "b");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_fleet_of_which_nobody_serves_is_no_success_and_says_why() {
    let setting = Setting::with(&["a", "b"], "").await;
    let mut daemon = setting.serve().await;
    assert_eq!(setting.run(&["accounts", "pause", "a"]).await.0, 0);
    let (code, _, err) = setting.run(&["status"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "the other serves");
    assert_eq!(setting.run(&["accounts", "disable", "b"]).await.0, 0);
    for arguments in [["status"].as_slice(), &["status", "--json"]] {
        let (code, _, err) = setting.run(arguments).await;
        let said = "duduclaw: no account serves now: anthropic/a is paused, anthropic/b is disabled\n";
        assert_eq!((code, err.as_str()), (3, said));
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn what_does_not_exist_is_refused_and_what_never_happened_is_said() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let (code, out, err) = setting.run(&["activity", "--kind", "started,hold_begun"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("there is no kind of event \"hold_begun\"") && err.contains("nearest is hold_began"), "{err}");
    let (code, _, err) = setting.run(&["activity", "--kind", "bogus", "--follow"]).await;
    assert!(code == 1 && err.contains("there are state_changed, hold_began"), "{err}");
    let (code, out, err) = setting.run(&["activity", "--kind", "outage_began"]).await;
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", "duduclaw: nothing that is remembered matches\n"));
    let (code, out, err) = setting.run(&["activity", "--kind", "started"]).await;
    assert!(code == 0 && out.contains("The gateway serves at") && err.is_empty(), "{out}{err}");
    let route = ["route", "--explain", "--model", "claude-opus-5-5", "--client", "nope"];
    let (code, _, err) = setting.run(&route).await;
    assert!(code == 1 && err.contains("there is no client \"nope\"") && err.contains("knows no client"), "{err}");
    assert_eq!(setting.run(&route[..4]).await.0, 0);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn the_variables_are_printed_for_each_shell() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("config.toml"),
        format!("[server]\nbind = \"127.0.0.1:9\"\n{PROVIDER}base_url = \"https://api.anthropic.com\"\n"),
    )
    .unwrap();
    for arguments in [
        ["env"].as_slice(),
        &["env", "--shell", "fish"],
        &["env", "--shell", "powershell"],
        &["env", "--json"],
        &["env", "--shell", "csh"],
    ] {
        let mut command = bare(home.path());
        command.args(arguments);
        insta::assert_snapshot!(arguments.join("-"), shown(home.path(), run(command).await));
    }
    for shell in ["sh", "bash", "zsh", "dash", "ksh"] {
        let mut command = bare(home.path());
        command.args(["env", "--shell", shell]);
        insta::assert_snapshot!("env", shown(home.path(), run(command).await));
    }
}

#[tokio::test]
async fn completions_are_printed_and_an_unknown_shell_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let mut command = bare(home.path());
        command.args(["completions", shell]);
        let (code, out, err) = run(command).await;
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        assert!(out.contains("duduclaw") && out.contains("status"), "{shell}");
    }
    for arguments in [["completions", "tcsh"].as_slice(), &["nonsense"], &["serve", "--nonsense"], &[]] {
        let mut command = bare(home.path());
        command.args(arguments);
        assert_eq!(run(command).await.0, 2, "{arguments:?}");
    }
}

/// What is in the place of a login, and a word of what is said about it.
fn spoil(path: &Path, how: &str) {
    let whole = std::fs::read_to_string(path).unwrap();
    match how {
        "missing" => std::fs::remove_file(path).unwrap(),
        "empty" => std::fs::write(path, "").unwrap(),
        "half" => std::fs::write(path, &whole[..whole.len() / 2]).unwrap(),
        "stray" => std::fs::write(path, format!("{whole}}}")).unwrap(),
        "folder" => {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// C110, C111: a login that cannot be read breaks its account alone, is named wherever one looks, and is left as it is.
#[tokio::test]
async fn a_login_that_cannot_be_read_breaks_its_account_alone_and_is_named_everywhere() {
    for how in ["missing", "empty", "half", "stray", "folder"] {
        let setting = Setting::with(&["good", "spoilt"], "").await;
        let path = setting.home.path().join("spoilt.json");
        spoil(&path, how);
        let before = std::fs::read(&path).ok();
        let (code, out, _) = setting.run(&["check"]).await;
        assert_eq!(code, 3, "{how}: {out}");
        assert!(
            out.contains("spoilt.json") && out.contains("anthropic:spoilt") || out.contains("spoilt"),
            "{how}: {out}"
        );
        let check =
            out.replace(&setting.home.path().display().to_string(), "<home>").replace(&setting.sim.base_url(), "<sim>");
        insta::assert_snapshot!(format!("spoilt-{how}"), check);
        let mut daemon = setting.serve().await;
        daemon.until("spoilt").await;
        for _ in 0..3 {
            let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["x-duduclaw-account"], "good");
        }
        let (code, out, _) = setting.run(&["status"]).await;
        assert_eq!(code, 3, "{how}: {out}");
        assert!(out.lines().any(|line| line.contains("spoilt") && line.contains("broken")), "{how}: {out}");
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(std::fs::read(&path).ok(), before, "{how}: it is left as it was");
    }
}

/// C110: the same for files of the store, which are found by their names.
#[tokio::test]
async fn a_spoilt_file_of_the_store_hides_no_other_account() {
    for how in ["empty", "half", "stray", "folder"] {
        let setting = Setting::with(&["good", "spoilt"], "").await;
        let store = setting.home.path().join("accounts/claude");
        std::fs::create_dir_all(&store).unwrap();
        for name in ["good", "spoilt"] {
            std::fs::rename(setting.home.path().join(format!("{name}.json")), store.join(format!("{name}.json")))
                .unwrap();
        }
        let text = std::fs::read_to_string(setting.home.path().join("config.toml")).unwrap();
        let text = text.split("[[providers").next().unwrap().to_owned();
        std::fs::write(setting.home.path().join("config.toml"), text).unwrap();
        let path = store.join("spoilt.json");
        spoil(&path, how);
        let before = std::fs::read(&path).ok();
        let mut daemon = setting.serve().await;
        let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{how}: {}", daemon.said());
        let (_, out, _) = setting.run(&["status"]).await;
        if how != "folder" {
            assert!(out.lines().any(|line| line.contains("spoilt") && line.contains("broken")), "{how}: {out}");
        }
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(std::fs::read(&path).ok(), before, "{how}");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_in_the_environment_breaks_its_account_alone() {
    let setting = Setting::with(&["good"], "").await;
    let path = setting.home.path().join("config.toml");
    let more = "[[providers.anthropic.accounts]]\nname = \"unset\"\ntoken_env = \"NOT_SET_ANYWHERE\"\n";
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + more).unwrap();
    let (code, out, _) = setting.run(&["check"]).await;
    assert_eq!(code, 3);
    assert!(out.contains("NOT_SET_ANYWHERE"), "{out}");
    let mut daemon = setting.serve().await;
    daemon.until("NOT_SET_ANYWHERE").await;
    assert_eq!(ask(&client(), daemon.url(), "hi", false).send().await.unwrap().status(), 200);
    assert_eq!(setting.run(&["status"]).await.0, 3);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Secrets of every kind are given to a daemon that logs all it can, and looked for in all that comes out.
#[tokio::test]
async fn no_secret_comes_out_anywhere() {
    let setting = Setting::with(&["a", "b"], "[server.auth]\ntokens_env = \"CLIENTS\"\n").await;
    let held: Vec<_> = ["a", "b"].map(|name| setting.sim.credentials(name).unwrap()).into();
    let mut secrets: Vec<String> =
        held.iter().flat_map(|held| [Some(held.token.clone()), held.refresh_token.clone()]).flatten().collect();
    secrets.push("canary-client-token".to_owned());
    secrets.push("canary-wrong-token".to_owned());
    setting.sim.fault(duduclaw::sim::FaultRule::next("a", 1, duduclaw::sim::Fault::Unauthorized));
    setting.sim.fault(duduclaw::sim::FaultRule::next("b", 1, duduclaw::sim::Fault::ResetBeforeHead));
    let mut command = setting.command(&["-vv", "serve"]);
    command.env("CLIENTS", "c:canary-client-token");
    let mut daemon = crate::binary::Daemon::of(command).await;
    let mut out = String::new();
    for (token, prompt) in
        [("canary-client-token", "hi"), ("canary-client-token", "again"), ("canary-wrong-token", "hi")]
    {
        for stream in [true, false] {
            let answer = ask(&client(), daemon.url(), prompt, stream).bearer_auth(token).send().await.unwrap();
            out.push_str(&format!("{:?}", answer.headers()));
            out.push_str(&answer.text().await.unwrap());
        }
    }
    let admin = std::fs::read_to_string(setting.home.path().join("admin-token")).unwrap();
    for arguments in [["status"].as_slice(), &["status", "--json"], &["check"], &["-vv", "status"], &["env"]] {
        let mut command = setting.command(arguments);
        command.env("CLIENTS", "c:canary-client-token");
        let (_, stdout, stderr) = run(command).await;
        out.push_str(&stdout);
        out.push_str(&stderr);
    }
    assert_eq!(daemon.stop().await, Some(0));
    out.push_str(&daemon.said());
    secrets.push(admin.trim().to_owned());
    for secret in &secrets {
        assert!(secret.len() > 8 && !out.contains(secret.as_str()), "{secret} came out");
    }
    for entry in std::fs::read_dir(setting.home.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if ["a.json", "b.json", "admin-token"].contains(&name.as_str()) || entry.path().is_dir() {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{secret} is in {name}");
        }
    }
}

#[tokio::test]
async fn what_is_the_homes_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let setting = Setting::with(&["a"], "").await;
    let fresh = setting.home.path().join("fresh");
    let mut command = setting.command(&["serve", "--home"]);
    command.arg(&fresh).arg("--config").arg(setting.home.path().join("config.toml"));
    let mut daemon = crate::binary::Daemon::of(command).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fresh), 0o700);
    assert_eq!(mode(&fresh.join("admin-token")), 0o600);
    assert_eq!(mode(&fresh.join("daemon.lock")), 0o600);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Whoever reads less than there is ends the command quietly.
#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    for line in ["completions bash", "service print", "demo --json --fast"] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_duduclaw"))
            .args(line.split(' '))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "{line}");
    }
}

/// A pipe that nobody reads any more.
fn nobody() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_neither_the_daemon_nor_an_answer() {
    let port = free_port();
    let setting = Setting::with(&["a"], &format!("bind = \"127.0.0.1:{port}\"\n")).await;
    let (client, url) = (client(), format!("http://127.0.0.1:{port}"));
    let mut command = setting.command(&["-v", "serve"]);
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(nobody()).spawn().unwrap();
    while client.get(format!("{url}/healthz")).send().await.is_err() {
        assert_eq!(daemon.try_wait().unwrap(), None, "it has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..3 {
        let answer = ask(&client, &url, "[[say: hello]]", true).send().await.unwrap();
        assert!(answer.status().is_success() && answer.text().await.unwrap().contains("message_stop"));
    }
    drop(client);
    kill_process(Pid::from_raw(i32::try_from(daemon.id().unwrap()).unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(daemon.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_command_that_nobody_listens_to_ends_with_its_own_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare(home.path());
    let ended = command.args(["accounts", "pause", "work"]).stderr(nobody()).status().await.unwrap();
    assert_eq!(ended.code(), Some(4));
}

/// Whoever opened a pipe would wait until somebody writes into it.
#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_holds_nothing_up() {
    let setting = Setting::with(&["a", "b"], "").await;
    let accounts = setting.home.path().join("accounts/claude");
    std::fs::create_dir_all(&accounts).unwrap();
    std::fs::remove_file(setting.home.path().join("b.json")).unwrap();
    for path in ["b.json", "key", "state.db", "accounts/claude/c.json"].map(|name| setting.home.path().join(name)) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    for (arguments, expected) in [(["doctor", "--offline"].as_slice(), 1), (&["check"], 3), (&["usage"], 1)] {
        let (code, out, err) = setting.run(arguments).await;
        assert_eq!(code, expected, "{arguments:?}: {out}{err}");
    }
    let mut daemon = setting.serve().await;
    let answer = ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap();
    assert!(answer.status().is_success(), "only the account of the pipe is broken");
    assert_eq!(daemon.stop().await, Some(0));
}
