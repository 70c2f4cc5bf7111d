//! Logging in by a browser: its page is opened here and comes back here; where it cannot, its code is pasted.

use std::process::Stdio;
use std::sync::Arc;

use anyhow::bail;

use crate::cli::login::Common;
use crate::cli::saving::{Files, Wanted, save, tell};
use crate::cli::{Exit, Globals, hint, prompt};
use crate::credentials::{
    CODEX_PORTS, CallbackError, Destination, Document, Fresh, Listening, LoginAttempt, LoginCode, LoginKind, LoginSite,
    Taken, TokenExchange, codex_redirect, process_environment, redeem,
};

/// How often a code may be pasted wrongly.
const PASTES: u32 = 3;

pub(super) async fn log_in(files: Files, kind: LoginKind, common: &Common, globals: &Globals) -> anyhow::Result<Exit> {
    let to = destination(&files, kind, common)?.saves(&files.ready.topology, &common.name)?;
    let site = LoginSite::of(&to, kind, &process_environment())?;
    let (attempt, code) = match common.manual {
        true => by_hand(site)?,
        false => match by_browser(site.clone()).await {
            Ok(done) => done,
            Err(why @ CallbackError::Refused) => bail!("{why}; nothing was saved"),
            Err(why) => {
                hint(&format!("{why}; the code can be pasted instead"));
                by_hand(site)?
            }
        },
    };
    let fresh = redeem(&TokenExchange::new()?, &attempt, &code, files.registrar.clock.now()).await?;
    keep(globals, &to, common, &fresh).await
}

pub(super) fn destination(files: &Files, kind: LoginKind, common: &Common) -> anyhow::Result<Destination> {
    let (topology, settings) = (&files.ready.topology, &files.ready.settings);
    Ok(Destination::find(topology, settings, common.provider.as_deref(), Some(kind.family()))?)
}

/// Has a login saved, in the place of one of that name.
pub(super) async fn keep(globals: &Globals, to: &Destination, common: &Common, fresh: &Fresh) -> anyhow::Result<Exit> {
    let wanted = Wanted {
        name: common.name.clone(),
        provider: Some(to.provider.clone()),
        kind: None,
        secret: Document::text_of(fresh),
        uuid: fresh.facts.uuid.clone(),
        organization: fresh.facts.organization.clone(),
        taken: Taken::Replace,
        write_config: common.write_config,
    };
    tell(&save(globals, wanted).await?, common.json)
}

async fn by_browser(site: LoginSite) -> Result<(Arc<LoginAttempt>, LoginCode), CallbackError> {
    let (listening, redirect) = match site.kind {
        LoginKind::Claude | LoginKind::ClaudeSetupToken => {
            let listening = Listening::on(&[0], "/callback").await?;
            let redirect = format!("http://127.0.0.1:{}/callback", listening.port());
            (listening, redirect)
        }
        LoginKind::ChatGpt => {
            let listening = Listening::on(&CODEX_PORTS, "/auth/callback").await?;
            let redirect = codex_redirect(listening.port());
            (listening, redirect)
        }
    };
    let attempt = Arc::new(LoginAttempt::new(site, redirect)?);
    let page = attempt.page();
    hint(&format!(
        "open this page to log in (a browser is opened if there is one); where it cannot come back to this machine, end this \
         with ^C and use --manual:\n\n{page}\n"
    ));
    open(page.as_str());
    let code = listening.wait(&attempt).await?;
    Ok((attempt, code))
}

fn by_hand(site: LoginSite) -> anyhow::Result<(Arc<LoginAttempt>, LoginCode)> {
    let attempt = Arc::new(LoginAttempt::to_be_pasted(site)?);
    hint(&format!("open this page, log in, and paste what it shows:\n\n{}\n", attempt.page()));
    let mut left = PASTES;
    loop {
        let question = "<code>#<state>, or the address it led to: ";
        // It is worth nothing to others, but need not stand in the terminal's history either.
        let pasted = if prompt::is_possible() { prompt::hidden(question) } else { prompt::line(question) };
        let Ok(pasted) = pasted else { bail!("nothing was pasted, so nothing was saved") };
        left -= 1;
        match attempt.paste(&pasted) {
            Ok(code) => return Ok((attempt, code)),
            Err(why) if left == 0 => bail!("{why}; nothing was saved"),
            Err(why) => hint(&why.to_string()),
        }
    }
}

/// Opens a page in the user's browser, if there is one. What it says is not for this terminal.
fn open(page: &str) {
    let named = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = named.or_else(|| which::which(usual).ok().map(Into::into));
    let Some(program) = program else { return };
    let mut command = std::process::Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(%error, "no browser could be opened");
    }
}
