//! `logins.start` and `logins.complete`: logging in through the control API, for whoever sits at another machine. The
//! page is opened there, and the code that it shows is handed over here.
//!
//! Few logins are under way at once, each for ten minutes and one use: of several who complete one, exactly one does.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounts::SavedAnswer;
use super::accounts::add::Hidden;
use super::accounts::saved::{Use, put_to_use};
use super::fault::{Fault, FaultKind};
use super::verb::Call;
use crate::credentials::{
    Destination, Environment, LoginAttempt, LoginFailure, LoginKind, LoginSite, NotSaved, PENDING_FOR, Pendings, Taken,
    TokenExchange, is_store_name, random, redeem,
};

/// Logins under way, and what trades their codes.
pub struct Logins {
    pending: Mutex<Pendings<Pending>>,
    exchange: TokenExchange,
    environment: Environment,
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Pending {
    attempt: LoginAttempt,
    to: Destination,
    name: String,
    wanted: Use,
}

impl Logins {
    /// None under way.
    #[must_use]
    pub fn new(exchange: TokenExchange, environment: Environment) -> Self {
        Self { pending: Mutex::default(), exchange, environment }
    }

    fn pending(&self) -> MutexGuard<'_, Pendings<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A login to be begun.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Starting {
    /// What the account is to be called; one of that name is replaced.
    #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
    name: String,
    /// Whose login it is.
    #[serde(default)]
    family: LoginFamily,
    /// What is to come of it.
    #[serde(default)]
    mode: LoginMode,
    /// The provider, where several take such logins.
    provider: Option<String>,
    /// Whether its entry is added to the configuration, where that is needed for it to serve.
    #[serde(default)]
    write_config: bool,
}

/// Whose login it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LoginFamily {
    /// Claude's.
    #[default]
    Claude,
    /// ChatGPT's, for Codex.
    Codex,
}

/// What comes of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LoginMode {
    /// A login that can be renewed.
    #[default]
    Oauth,
    /// A token for a year, for inference alone; Claude's only.
    SetupToken,
}

/// A login that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedAnswer {
    /// By what it is completed.
    pub login: String,
    /// The page to be opened in a browser.
    pub authorize_url: String,
    /// How long it may take.
    pub expires_in_seconds: u64,
}

/// A login to be finished.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Completing {
    /// The login, as it was begun.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]+$"))]
    login: String,
    /// What the page showed, `<code>#<state>`, or the whole address that it led to.
    code: Hidden,
}

/// Begins a login.
pub(super) async fn start(call: Call, starting: Starting) -> Result<StartedAnswer, Fault> {
    let kind = match (starting.family, starting.mode) {
        (LoginFamily::Claude, LoginMode::Oauth) => LoginKind::Claude,
        (LoginFamily::Claude, LoginMode::SetupToken) => LoginKind::ClaudeSetupToken,
        (LoginFamily::Codex, LoginMode::Oauth) => LoginKind::ChatGpt,
        (LoginFamily::Codex, LoginMode::SetupToken) => {
            let text = "a ChatGPT login has no setup token; leave mode out";
            return Err(Fault::new(FaultKind::Unprocessable, text));
        }
    };
    if !is_store_name(&starting.name) || starting.name.starts_with("sk-") {
        return Err(NotSaved::Name.into());
    }
    let (topology, settings) = (&call.live.topology, &call.live.settings);
    let to = Destination::find(topology, settings, starting.provider.as_deref(), Some(kind.family()))?;
    let site = LoginSite::of(&to, kind, &call.desk.logins.environment);
    let site = site.map_err(|why| Fault::new(FaultKind::Unprocessable, why.to_string()))?;
    let attempt = LoginAttempt::to_be_pasted(site).map_err(|_| Fault::internal())?;
    let (page, login) = (attempt.page(), random().map_err(|_| Fault::internal())?.to_string());
    let wanted = if starting.write_config { Use::Configured } else { Use::AsItIs };
    let pending = Pending { attempt, to, name: starting.name, wanted };
    let begun = call.desk.logins.pending().begin(login.clone(), pending, call.desk.clock.now());
    begun.map_err(|full| Fault::new(FaultKind::Conflict, full.to_string()))?;
    Ok(StartedAnswer { login, authorize_url: page.into(), expires_in_seconds: PENDING_FOR.as_secs() })
}

/// Finishes a login. A code that is not its own leaves it under way; one that is spends it, whatever comes of that.
pub(super) async fn complete(call: Call, completing: Completing) -> Result<SavedAnswer, Fault> {
    let (pending, code) = taken(&call, &completing)?;
    let now = call.desk.clock.now();
    let fresh = redeem(&call.desk.logins.exchange, &pending.attempt, &code, now).await?;
    let saved = call.desk.registrar.save(&pending.to, &pending.name, fresh, Taken::Replace).await?;
    put_to_use(&call, &pending.to, &pending.name, &saved, pending.wanted).await
}

fn taken(call: &Call, completing: &Completing) -> Result<(Pending, crate::credentials::LoginCode), Fault> {
    let now = call.desk.clock.now();
    let mut all = call.desk.logins.pending();
    let gone = || {
        let text = "this login is not under way: it was completed, took longer than 10 minutes, or never began";
        Fault::new(FaultKind::NotFound, text).hint("begin another with logins.start")
    };
    let code = all.look(&completing.login, now).ok_or_else(gone)?.attempt.paste(&completing.code.0);
    let code = code.map_err(|why| Fault::new(FaultKind::Unprocessable, why.to_string()))?;
    let pending = all.take(&completing.login, now).ok_or_else(gone)?;
    Ok((pending, code))
}

impl From<LoginFailure> for Fault {
    fn from(failure: LoginFailure) -> Self {
        let kind = match failure {
            LoginFailure::Unreachable(_) => FaultKind::Unavailable,
            LoginFailure::Refused(_) | LoginFailure::Unusable | LoginFailure::NoRefresh | LoginFailure::NoAccount => {
                FaultKind::Unprocessable
            }
        };
        Self::new(kind, failure.to_string())
    }
}
