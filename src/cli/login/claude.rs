//! `duduclaw login claude`.

use crate::cli::login::{ClaudeArgs, ClaudeMode, browser, import};
use crate::cli::saving::Files;
use crate::cli::{Ended, Exit, Globals, hint, prompt};
use crate::credentials::{LoginKind, is_store_name};

pub(super) async fn run(args: ClaudeArgs, globals: &Globals) -> anyhow::Result<Exit> {
    named_well(&args.common.name)?;
    let kind = match mode(&args)? {
        ClaudeMode::Import => return import::run(&args, globals).await,
        ClaudeMode::Oauth => LoginKind::Claude,
        ClaudeMode::SetupToken => LoginKind::ClaudeSetupToken,
    };
    let files = Files::open(globals)?;
    browser::log_in(files, kind, &args.common, globals).await
}

/// Before anybody logs in for nothing.
pub(super) fn named_well(name: &str) -> anyhow::Result<()> {
    if is_store_name(name) && !name.starts_with("sk-") {
        return Ok(());
    }
    let text = "an account's name may hold only small letters a–z, digits and hyphens";
    Err(Ended::error(Exit::Usage, text.to_owned()))
}

fn mode(args: &ClaudeArgs) -> anyhow::Result<ClaudeMode> {
    const MODES: [ClaudeMode; 3] = [ClaudeMode::Oauth, ClaudeMode::Import, ClaudeMode::SetupToken];
    if args.long_lived {
        hint("--long-lived is an old name; use --mode setup-token");
        return Ok(ClaudeMode::SetupToken);
    }
    if let Some(mode) = args.mode {
        return Ok(mode);
    }
    if args.from.is_some() || !prompt::is_possible() {
        return Ok(ClaudeMode::Import);
    }
    let asked = prompt::choice(
        "How is the account to log in?",
        &[
            "a new login in the browser, which renews itself",
            "the login that Claude Code has on this machine",
            "a token for a year, for inference alone",
        ],
    )?;
    Ok(MODES.get(asked).copied().unwrap_or(ClaudeMode::Oauth))
}
