//! The vault against a token endpoint on loopback whose refresh tokens work once.

mod renewing;
mod sources;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use duduclaw_actors::clock::{Clock, ManualClock, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::credentials::exchange::{Issuer, TokenUrl};

const ACCOUNT: AccountId = AccountId(7);
/// The time at which tests begin, in milliseconds.
const T0: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

/// What an endpoint does with one call instead of its duty.
type Answer = Box<dyn FnOnce() -> Response + Send>;

/// A token endpoint: `rt-1` gives `at-2` and `rt-2`, once; `rt-2` gives `at-3` and `rt-3`, once; and so on.
struct Endpoint {
    url: TokenUrl,
    state: Arc<EndpointState>,
}

struct EndpointState {
    generation: Mutex<u32>,
    calls: Mutex<Vec<Value>>,
    script: Mutex<VecDeque<Answer>>,
    called: Notify,
    delay: Duration,
}

impl Endpoint {
    async fn start(delay: Duration) -> Self {
        let state = Arc::new(EndpointState {
            generation: Mutex::new(1),
            calls: Mutex::default(),
            script: Mutex::default(),
            called: Notify::new(),
            delay,
        });
        let app = Router::new().route("/token", post(serve)).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/token", listener.local_addr().expect("an address"));
        TaskTracker::new().spawn(async move { axum::serve(listener, app).await });
        Self { url: TokenUrl::parse(&url).expect("loopback"), state }
    }

    /// Answers the next call so, whatever it asks.
    fn answer(&self, status: u16, body: &'static str) {
        let status = StatusCode::from_u16(status).expect("a status");
        self.script(move || (status, body).into_response());
    }

    fn script(&self, answer: impl FnOnce() -> Response + Send + 'static) {
        self.state.script.lock().expect("unpoisoned").push_back(Box::new(answer));
    }

    /// The refresh tokens that were spent, in order.
    fn spent(&self) -> Vec<String> {
        let calls = self.state.calls.lock().expect("unpoisoned");
        calls.iter().map(|call| call["refresh_token"].as_str().expect("a token").to_owned()).collect()
    }

    fn endpoint(&self) -> TokenEndpoint {
        TokenEndpoint { url: self.url.clone(), user_agent: None, issuer: Issuer::Anthropic }
    }
}

async fn serve(State(state): State<Arc<EndpointState>>, body: String) -> Response {
    let call: Value = serde_json::from_str(&body).expect("JSON");
    let token = call["refresh_token"].as_str().expect("a token").to_owned();
    state.calls.lock().expect("unpoisoned").push(call);
    let scripted = state.script.lock().expect("unpoisoned").pop_front();
    let answer = scripted.map_or_else(|| exchange(&state, &token), |answer| answer());
    state.called.notify_one();
    tokio::time::sleep(state.delay).await;
    answer
}

fn exchange(state: &EndpointState, token: &str) -> Response {
    let mut generation = state.generation.lock().expect("unpoisoned");
    if token != format!("rt-{generation}") {
        return (StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#).into_response();
    }
    *generation += 1;
    let (access, refresh) = (format!("at-{generation}"), format!("rt-{generation}"));
    axum::Json(json!({"access_token": access, "refresh_token": refresh, "expires_in": 28800})).into_response()
}

/// A credential file of Claude Code in a profile of its own.
struct Profile {
    home: tempfile::TempDir,
    file: PathBuf,
}

impl Profile {
    /// A login `at-1`, `rt-1` whose access token ends that many milliseconds after the tests begin.
    fn ending(after: i64) -> Self {
        let home = tempfile::tempdir().expect("a home");
        let dir = home.path().join(".claude");
        fs::create_dir(&dir).expect("made");
        let profile = Self { file: dir.join(".credentials.json"), home };
        profile.write("at-1", "rt-1", T0 + after);
        profile
    }

    fn write(&self, access: &str, refresh: &str, ends: i64) {
        write_login(&self.file, access, refresh, ends);
    }

    fn login(&self) -> Value {
        let text = fs::read_to_string(&self.file).expect("readable");
        serde_json::from_str::<Value>(&text).expect("JSON")["claudeAiOauth"].clone()
    }

    fn refresh_token(&self) -> String {
        self.login()["refreshToken"].as_str().expect("a token").to_owned()
    }

    fn source(&self) -> SecretSource {
        SecretSource::CredentialsFile(self.file.clone())
    }

    /// The same login as a stored account.
    fn stored(&self) -> SecretSource {
        let path = self.home.path().join("stored.json");
        fs::copy(&self.file, &path).expect("copied");
        SecretSource::StoreFile(path)
    }

    fn lock_folder(&self) -> PathBuf {
        self.file.with_file_name(".oauth_refresh.lock")
    }
}

/// Another program writes a login: beside, then in place, as they all should.
fn write_login(file: &Path, access: &str, refresh: &str, ends: i64) {
    let login = json!({"claudeAiOauth":
        {"accessToken": access, "refreshToken": refresh, "expiresAt": ends, "subscriptionType": "max", "kept": [1]}});
    let beside = file.with_extension("other");
    fs::write(&beside, login.to_string()).expect("written");
    fs::rename(&beside, file).expect("in place");
}

#[derive(Default)]
struct Recorder {
    news: Mutex<Vec<CredentialNews>>,
    trace: Mutex<Option<Trace>>,
    told: Notify,
}

impl CredentialEvents for Recorder {
    fn happened(&self, account: AccountId, news: CredentialNews) {
        assert_eq!(account, ACCOUNT);
        self.news.lock().expect("unpoisoned").push(news);
        self.told.notify_one();
    }

    fn name(&self, _: AccountId) -> String {
        "anthropic/work".to_owned()
    }

    fn remember(&self, account: AccountId, trace: &Trace) {
        assert_eq!(account, ACCOUNT);
        *self.trace.lock().expect("unpoisoned") = Some(trace.clone());
    }
}

impl Recorder {
    fn all(&self) -> Vec<CredentialNews> {
        self.news.lock().expect("unpoisoned").clone()
    }

    /// Waits until something that fits has been told.
    async fn wait_for(&self, fits: impl Fn(&CredentialNews) -> bool) -> CredentialNews {
        let found = async {
            loop {
                if let Some(news) = self.all().into_iter().find(|news| fits(news)) {
                    return news;
                }
                self.told.notified().await;
            }
        };
        timeout(Duration::from_secs(5), found).await.expect("told within five seconds")
    }
}

/// One daemon, as far as credentials go.
struct Daemon {
    vault: Vault,
    recorder: Arc<Recorder>,
    clock: Arc<ManualClock>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Daemon {
    async fn on(source: SecretSource, endpoint: Option<TokenEndpoint>) -> Self {
        let daemon = Self::empty(&[]);
        daemon.assign(source, endpoint).await;
        daemon
    }

    fn empty(variables: &'static [(&'static str, &'static str)]) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(T0)));
        Self::with_clock(clock.clone(), clock, variables)
    }

    fn with_clock(
        clock: Arc<ManualClock>,
        used: SharedClock,
        variables: &'static [(&'static str, &'static str)],
    ) -> Self {
        let (recorder, tracker, shutdown) = (Arc::<Recorder>::default(), TaskTracker::new(), CancellationToken::new());
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        let vault = Vault::new(VaultParts {
            clock: used,
            tracker: tracker.clone(),
            shutdown: shutdown.clone(),
            events: recorder.clone(),
            exchange: TokenExchange::new().expect("a client"),
            environment: Arc::new(find),
            sealer: Sealer::none(),
        });
        Self { vault, recorder, clock, tracker, shutdown }
    }

    async fn assign(&self, source: SecretSource, endpoint: Option<TokenEndpoint>) {
        let to =
            Assignment { account: ACCOUNT, source, endpoint, generation: Generation(1), trace: None, broken: None };
        self.vault.assign(vec![to]).await;
    }

    /// The present token's text.
    fn token(&self) -> Result<String, NotNow> {
        self.vault.current(ACCOUNT).map(|held| held.secret.expose().to_owned())
    }

    async fn fresh(&self, patience: Patience) -> Result<String, NotNow> {
        self.vault.fresh(ACCOUNT, patience).await.map(|held| held.secret.expose().to_owned())
    }

    async fn rejected(&self, token: &str) -> (&'static str, Option<String>) {
        let rejection = self.vault.refresh_rejected(ACCOUNT, Fingerprint::of(token), Patience::Full).await;
        let text = |held: Arc<Held>| Some(held.secret.expose().to_owned());
        match rejection {
            Rejection::Refreshed(held) => ("refreshed", text(held)),
            Rejection::Adopted(held) => ("adopted", text(held)),
            Rejection::StillSame => ("still same", None),
            Rejection::GrantLost => ("grant lost", None),
            Rejection::Failed => ("failed", None),
            Rejection::StillRenewing => ("still renewing", None),
            Rejection::Broken(_) => ("broken", None),
        }
    }

    /// Waits until the renewal is blocked by the lock of another.
    async fn blocked(&self) {
        let slot = self.vault.slot(ACCOUNT).expect("assigned");
        let mut flight = slot.fly(&self.vault.world, Purpose::Due);
        let blocked = flight.wait_for(|progress| matches!(progress, Progress::Blocked { .. }));
        timeout(Duration::from_secs(10), blocked).await.expect("within ten seconds").expect("still flying");
    }

    /// Waits for all renewals to be over.
    async fn settle(&self) {
        self.tracker.close();
        timeout(Duration::from_secs(10), self.tracker.wait()).await.expect("over within ten seconds");
        self.tracker.reopen();
    }
}

fn is_renewed(news: &CredentialNews) -> bool {
    matches!(news, CredentialNews::Renewed { .. })
}

fn is_failed(news: &CredentialNews) -> bool {
    matches!(news, CredentialNews::RefreshFailed { .. })
}
