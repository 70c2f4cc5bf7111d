//! `duduclaw login codex`.

use crate::cli::login::claude::named_well;
use crate::cli::login::{CodexArgs, CodexMode, browser};
use crate::cli::saving::Files;
use crate::cli::{Exit, Globals, hint};
use crate::credentials::{DeviceCode, LoginKind, LoginSite, TokenExchange, process_environment, redeem};

pub(super) async fn run(args: CodexArgs, globals: &Globals) -> anyhow::Result<Exit> {
    named_well(&args.common.name)?;
    let files = Files::open(globals)?;
    match args.mode {
        CodexMode::Oauth => browser::log_in(files, LoginKind::ChatGpt, &args.common, globals).await,
        CodexMode::Device => by_device(files, &args, globals).await,
    }
}

async fn by_device(files: Files, args: &CodexArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let to = browser::destination(&files, LoginKind::ChatGpt, &args.common)?;
    let site = LoginSite::of(&to, LoginKind::ChatGpt, &process_environment())?;
    let exchange = TokenExchange::new()?;
    let device = DeviceCode::begin(&exchange, site).await?;
    hint(&format!(
        "open {} on any machine, log in, and type this code there (never one that somebody sent you):\n\n  {}\n",
        device.page, device.user_code
    ));
    let (attempt, code) = device.wait(&exchange).await?;
    let fresh = redeem(&exchange, &attempt, &code, files.registrar.clock.now()).await?;
    browser::keep(globals, &to, &args.common, &fresh).await
}
