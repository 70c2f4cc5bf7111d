//! `duduclaw sim`: a simulated provider on a port of its own, for trying things without anybody's credential.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use duduclaw_actors::clock::SystemClock;
use serde_json::json;

use crate::sim::{AccountKind, AccountSpec, AccountView, Sim, SimConfig, SimHandle};

const HELP: &str = "\
Example:
  duduclaw sim --accounts 3

What the model does is written in the prompt, in double square brackets:
  [[say: TEXT]]                a text
  [[words: N]]                 a text of N words
  [[think]]                    thinking, if the request wants it
  [[recall]]                   how much of its earlier thinking it can see
  [[tool:NAME {JSON}]]         a tool call; what follows is for after its result
  [[agent: PROMPT]]            a subagent; the prompt may hold directives
  [[also:tool:NAME {JSON}]]    one more call at once
  [[result]]                   what the last tool said
  [[pause: MS]], [[pace: MS]]  a wait; a wait before each event from here on
  [[stop: REASON]]             the stop_reason";

/// Serve a simulated Anthropic on a loopback port.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct SimArgs {
    /// Where to listen; a loopback address.
    #[arg(long, default_value = "127.0.0.1:8788")]
    bind: SocketAddr,
    /// How many accounts with a login it has, named a, b, c …; a setup token `setup` and an API key `key` are there too.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=26))]
    accounts: u8,
    /// A scenario in JSON: accounts, faults, settings. Replaces --accounts.
    #[arg(long, value_name = "FILE", conflicts_with = "accounts")]
    scenario: Option<PathBuf>,
    /// Milliseconds before each event of a stream.
    #[arg(long, value_name = "MS")]
    pace: Option<u64>,
    /// Write each login to DIR/NAME.json, as Claude Code keeps its own.
    #[arg(long, value_name = "DIR")]
    credentials: Option<PathBuf>,
}

/// Serves until interrupted; tells on `out` how to use it.
///
/// # Errors
/// If the scenario makes no sense, the address cannot be had, or a file cannot be written.
pub async fn run(args: SimArgs, out: &mut (dyn Write + Send)) -> Result<()> {
    let sim = Sim::start(config(&args)?, Arc::new(SystemClock::default()), args.bind).await?;
    if let Some(folder) = &args.credentials {
        write_credentials(&sim, folder)?;
    }
    out.write_all(introduction(&sim).as_bytes())?;
    out.flush()?;
    tokio::signal::ctrl_c().await.context("cannot wait for an interrupt")?;
    sim.stop().await;
    Ok(())
}

fn config(args: &SimArgs) -> Result<SimConfig> {
    let mut config = match &args.scenario {
        Some(file) => scenario(file)?,
        None => SimConfig::with(usual_accounts(args.accounts)),
    };
    config.pace_millis = args.pace.unwrap_or(config.pace_millis);
    Ok(config)
}

fn scenario(file: &Path) -> Result<SimConfig> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the scenario {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("the scenario {} makes no sense", file.display()))
}

fn usual_accounts(logins: u8) -> Vec<AccountSpec> {
    let names = (b'a'..=b'z').take(usize::from(logins)).map(|letter| char::from(letter).to_string());
    let logins = names.map(|name| AccountSpec::oauth(&name));
    logins.chain([AccountSpec::setup_token("setup"), AccountSpec::api_key("key")]).collect()
}

fn write_credentials(sim: &SimHandle, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for account in sim.accounts().iter().filter(|account| account.credentials.kind == AccountKind::Oauth) {
        let file = folder.join(format!("{}.json", account.name));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&file)
            .with_context(|| format!("cannot write {}", file.display()))?;
        file.write_all(login_file(account).as_bytes())?;
    }
    Ok(())
}

fn login_file(account: &AccountView) -> String {
    let held = &account.credentials;
    json!({"claudeAiOauth": {
        "accessToken": held.token,
        "refreshToken": held.refresh_token,
        "expiresAt": held.expires_at,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }})
    .to_string()
}

fn introduction(sim: &SimHandle) -> String {
    let url = sim.base_url();
    let accounts = sim.accounts();
    let mut text = format!("A simulated Anthropic listens on {url}. Nobody's credential is used.\n\n");
    for account in &accounts {
        text.push_str(&format!("  {:8} {:12} {}\n", account.name, kind(account), account.credentials.token));
    }
    text.push_str(&format!("\nToken endpoint: {}\nControls:       {url}/_sim\n", sim.token_url()));
    if let Some(account) = accounts.first() {
        text.push_str(&format!(
            "\nThe genuine Claude Code against it, without a gateway:\n\n{}\n",
            example(account, &url)
        ));
    }
    text.push_str(
        "\nThe model follows directives in the prompt: [[say: TEXT]], [[tool:NAME {JSON}]], [[agent: PROMPT]],\n",
    );
    text.push_str("[[think]], [[result]], [[words: N]], [[pace: MS]], [[stop: REASON]]. Interrupt to stop.\n");
    text
}

fn kind(account: &AccountView) -> &'static str {
    match account.credentials.kind {
        AccountKind::Oauth => "login",
        AccountKind::SetupToken => "setup token",
        AccountKind::ApiKey => "API key",
    }
}

fn example(account: &AccountView, url: &str) -> String {
    let variable = match account.credentials.kind {
        AccountKind::Oauth | AccountKind::SetupToken => "CLAUDE_CODE_OAUTH_TOKEN",
        AccountKind::ApiKey => "ANTHROPIC_API_KEY",
    };
    let token = &account.credentials.token;
    let prompt = r#"[[tool:Bash {"command":"echo hello"}]] [[result]]"#;
    format!("  ANTHROPIC_BASE_URL={url} {variable}={token} \\\n    claude -p '{prompt}' --allowedTools Bash")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn args(scenario: Option<PathBuf>) -> SimArgs {
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        SimArgs { bind, accounts: 2, scenario, pace: Some(7), credentials: None }
    }

    #[test]
    fn the_usual_provider_has_logins_a_setup_token_and_a_key() {
        let config = config(&args(None)).expect("no file is read");
        let names: Vec<&str> = config.accounts.iter().map(|account| account.name.as_str()).collect();
        assert_eq!((names, config.pace_millis), (vec!["a", "b", "setup", "key"], 7));
    }

    #[test]
    fn a_scenario_that_makes_no_sense_is_named_with_the_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("scenario.json");
        std::fs::write(&file, r#"{"accounts": [{"name": "a", "colour": "red"}]}"#).expect("writable");
        let error = format!("{:#}", config(&args(Some(file.clone()))).expect_err("an unknown key"));
        assert!(error.contains("scenario.json") && error.contains("colour") && error.contains("line 1"), "{error}");
        std::fs::write(&file, r#"{"accounts": [{"name": "a"}], "faults": [{"faults": [{"fault": "529"}]}]}"#)
            .expect("writable");
        assert_eq!(config(&args(Some(file))).expect("valid").faults.len(), 1);
    }

    #[tokio::test]
    async fn logins_are_written_for_their_owner_alone() {
        let sim =
            Sim::start(config(&args(None)).expect("usual"), Arc::new(SystemClock::default()), args(None).bind).await;
        let sim = sim.expect("loopback has a free port");
        let folder = tempfile::tempdir().expect("a folder");
        write_credentials(&sim, folder.path()).expect("writable");
        let file = folder.path().join("b.json");
        assert_eq!(std::fs::metadata(&file).expect("written").permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(file).expect("readable");
        assert!(text.contains("sk-ant-ort01-sim-b-1"));
        assert!(!folder.path().join("key.json").exists(), "a key is no login");
        assert!(introduction(&sim).contains(&sim.base_url()));
    }
}
