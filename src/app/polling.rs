//! Reads the usage pages of logins now and then, so that what other programs use of an account is known here, too.
//!
//! Only logins that can be refreshed have such a page. A page that cannot be read teaches nothing: neither that the
//! account is well nor that it is not. What it teaches is the account's affair.

use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::UsagePoll;
use duduclaw_actors::clock::{Deadline, sleep_until};
use duduclaw_actors::id::{AccountId, CredentialKind};
use duduclaw_actors::provider::anthropic::usage_page;
use duduclaw_actors::roster::Switch;
use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use tokio_util::sync::CancellationToken;

use crate::config::settings::AuthMode;
use crate::config::topology::Element;
use crate::credentials::{Held, OWN_USER_AGENT, Patience};
use crate::gateway::service::Gateway;
use crate::upstream::question::{AskError, ask};

/// How long one page may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How many are asked for at once.
const AT_ONCE: usize = 4;
/// How often it is looked whether the configuration asks for pages by now.
const LOOK: Duration = Duration::from_secs(60);

const PATH: &str = "/api/oauth/usage";
const BETA: &str = "oauth-2025-04-20";
const VERSION: &str = "2023-06-01";

/// Reads pages until cancelled: at once, then as often as the configuration says.
pub(super) fn poll(gateway: Arc<Gateway>, stop: CancellationToken) {
    let tasks = gateway.tasks.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = run(&gateway) => {}
        }
    });
}

async fn run(gateway: &Gateway) {
    loop {
        let every = gateway.live.load().settings.usage_refresh;
        if every.is_some() {
            round(gateway).await;
        }
        let next = Deadline::after(gateway.clock.now(), every.unwrap_or(LOOK));
        sleep_until(&*gateway.clock, next).await;
    }
}

/// Asks once for each account that has a page.
async fn round(gateway: &Gateway) {
    let asked: Vec<Question> = questions(gateway);
    futures_util::stream::iter(asked).for_each_concurrent(AT_ONCE, |question| question.ask(gateway)).await;
}

/// An account whose page is to be read, and where it stands.
struct Question {
    account: AccountId,
    url: String,
    user_agent: HeaderValue,
}

fn questions(gateway: &Gateway) -> Vec<Question> {
    let live = gateway.live.load();
    let roster = live.topology.roster();
    let mut questions: Vec<Question> = Vec::new();
    for element in live.topology.elements().iter().filter(|element| element.auth == AuthMode::ClaudeOauth) {
        for account in &element.accounts {
            let has_page = roster
                .accounts
                .get(account)
                .is_some_and(|spec| spec.kind == CredentialKind::Oauth && spec.switch == Switch::On);
            if has_page && questions.iter().all(|known| known.account != *account) {
                questions.push(Question::about(*account, element));
            }
        }
    }
    questions
}

impl Question {
    fn about(account: AccountId, element: &Element) -> Self {
        let own = || HeaderValue::from_static(OWN_USER_AGENT);
        let user_agent = element.user_agent.clone().unwrap_or_else(own);
        Self { account, url: element.base_url.join(PATH), user_agent }
    }

    async fn ask(self, gateway: &Gateway) {
        let Ok(held) = gateway.vault.fresh(self.account, Patience::Short).await else { return };
        match self.page(gateway, &held).await {
            Ok(windows) if windows.is_empty() => {}
            Ok(windows) => {
                let answered_at = gateway.clock.now();
                let poll = UsagePoll { generation: held.generation, answered_at, windows };
                gateway.fleet.tell(self.account, Fact::UsagePolled(Arc::new(poll)));
            }
            Err(error) => tracing::debug!(account = self.account.0, %error, "a usage page cannot be read"),
        }
    }

    async fn page(
        &self,
        gateway: &Gateway,
        held: &Held,
    ) -> Result<Vec<duduclaw_actors::outcome::WindowReading>, PageError> {
        let mut request = reqwest::Request::new(http::Method::GET, self.url.parse().map_err(|_| PageError::Url)?);
        *request.headers_mut() = self.headers(held)?;
        let reply = ask(&gateway.client, request, WITHIN).await?;
        if !reply.status.is_success() {
            return Err(PageError::Status(reply.status.as_u16()));
        }
        usage_page::read(&reply.body).ok_or(PageError::Shape)
    }

    fn headers(&self, held: &Held) -> Result<HeaderMap, PageError> {
        let mut token =
            HeaderValue::from_str(&format!("Bearer {}", held.secret.expose())).map_err(|_| PageError::Secret)?;
        token.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, token);
        headers.insert("anthropic-beta", HeaderValue::from_static(BETA));
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, self.user_agent.clone());
        Ok(headers)
    }
}

/// Why a page was not read.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("its address cannot be made")]
    Url,
    #[error("the token cannot stand in a header")]
    Secret,
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("status {0}")]
    Status(u16),
    #[error("the answer is no usage page")]
    Shape,
}
