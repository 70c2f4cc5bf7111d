//! The gateway itself: every request comes in here, is admitted or refused, and goes to whoever answers its path.
//!
//! Never here: how a request is served; that is the exchange's.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use duduclaw_actors::account::quota::{Quota, WindowState};
use duduclaw_actors::clock::{SharedClock, Timestamp};
use duduclaw_actors::event::{Event, EventKind, Severity};
use duduclaw_actors::id::{AccountId, EntryId, Window};
use duduclaw_actors::outcome::{CallKind, Evidence, QuotaStatus, WindowReading};
use duduclaw_actors::ports::EventSink;
use duduclaw_actors::root::Fleet;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Admin;
use crate::config::settings::Settings;
use crate::config::topology::Topology;
use crate::credentials::{Held, Vault};
use crate::gateway::access::{self, Caller};
use crate::gateway::body::Room;
use crate::gateway::bounds::Bounds;
use crate::gateway::error::ApiError;
use crate::gateway::exchange::{Exchange, Leg};
use crate::gateway::hold::Holds;
use crate::gateway::inbound;
use crate::gateway::path::{self, Route};
use crate::gateway::ticket::Ticket;
use crate::metrics::Metrics;
use crate::upstream::client::Client;

/// The body of any answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;
/// Any answer.
pub type Answer = Response<AnswerBody>;

/// The header in which clients may show their token, where the configuration names none.
pub static DEFAULT_AUTH_HEADER: HeaderName = HeaderName::from_static("x-duduclaw-token");

/// The configuration in force, as one consistent whole.
#[derive(Debug)]
pub struct Live {
    /// The checked values.
    pub settings: Arc<Settings>,
    /// The fleet's shape.
    pub topology: Arc<Topology>,
}

impl Live {
    /// The header in which clients may show their token.
    #[must_use]
    pub fn auth_header(&self) -> &HeaderName {
        self.settings.server.auth.as_ref().map_or(&DEFAULT_AUTH_HEADER, |gate| &gate.header)
    }

    /// The account's id at its provider, by the configuration or by what its credential says.
    #[must_use]
    pub fn account_uuid(&self, held: Option<&Arc<Held>>, account: AccountId) -> Option<String> {
        let configured = self.topology.representative(account).and_then(|entry| entry.uuid.clone());
        configured.or_else(|| held?.facts.uuid.clone()).filter(|uuid| needs_no_escape(uuid))
    }
}

fn needs_no_escape(uuid: &str) -> bool {
    !uuid.is_empty() && uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// What the gateway is made of.
pub struct Gateway {
    /// The fleet behind it.
    pub fleet: Fleet,
    /// The secrets.
    pub vault: Vault,
    /// The way to the providers.
    pub client: Client,
    /// The configuration in force.
    pub live: ArcSwap<Live>,
    /// Tells the time.
    pub clock: SharedClock,
    /// Requests that wait for an account.
    pub holds: Holds,
    /// Room for bodies.
    pub room: Room,
    /// Requests at once.
    pub bounds: Bounds,
    /// Where tasks run.
    pub tasks: TaskTracker,
    /// No new work is taken on once this is cancelled.
    pub draining: CancellationToken,
    /// What still runs is ended once this is cancelled.
    pub stop: CancellationToken,
    /// The control API.
    pub admin: Admin,
    /// Figures.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl Gateway {
    /// The largest request head.
    #[must_use]
    pub fn max_header_bytes(&self) -> usize {
        saturated(self.live.load().settings.server.limits.request_headers)
    }

    /// Answers one request.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>, local: Option<SocketAddr>) -> Answer {
        let id = request_id();
        let closing = self.draining.is_cancelled();
        let mut answer = match Box::pin(Arc::clone(&self).route_until_stopped(request, local, &id)).await {
            Ok(answer) => answer,
            Err(error) => {
                self.metrics.refused(&error);
                tracing::info!(request = id, status = error.status().as_u16(), %error, "a request was refused");
                error.answer(&id)
            }
        };
        if closing || self.draining.is_cancelled() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// A request whose answer has not begun when the time to finish is over gets one all the same. Who waits for an
    /// account learns the truth by himself, so the route is asked first.
    async fn route_until_stopped(
        self: Arc<Self>,
        request: Request<Incoming>,
        local: Option<SocketAddr>,
        id: &str,
    ) -> Result<Answer, ApiError> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            answer = self.route(request, local, id) => answer,
            () = stop.cancelled() => Err(ApiError::Stopping),
        }
    }

    async fn route(
        self: Arc<Self>,
        request: Request<Incoming>,
        local: Option<SocketAddr>,
        id: &str,
    ) -> Result<Answer, ApiError> {
        let live = self.live.load_full();
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let route = path::check(&target).map_err(|error| ApiError::Invalid(error.to_string()))?;
        if route == Route::Healthz {
            return Ok(text("ok\n"));
        }
        check_size(&request, &live, &target)?;
        access::check_host(request.headers(), request.uri(), local, &live.settings.server)?;
        access::check_origin(request.headers())?;
        match route {
            Route::Root | Route::Hello => glance(request.method()),
            Route::Healthz => Ok(text("ok\n")),
            Route::Readyz => Ok(self.readiness().await),
            Route::Metrics => Ok(figures(&self.metrics)),
            Route::Admin | Route::Rpc => self.admin.answer(&self, &live, request, local).await,
            Route::Messages => self.serve(request, live, id, Kind::Messages).await,
            Route::CountTokens => self.serve(request, live, id, Kind::CountTokens).await,
            Route::Models => self.serve(request, live, id, Kind::Models).await,
            Route::Passthrough => self.serve(request, live, id, Kind::Passthrough).await,
            Route::Responses if request.headers().contains_key(UPGRADE) => Ok(no_web_socket()),
            Route::Responses | Route::ChatCompletions | Route::GoogleModels | Route::Google { .. } => {
                Err(ApiError::NotFound("no configured provider speaks the protocol of this path".to_owned()))
            }
            Route::Oauth => Err(ApiError::Forbidden("logins are never passed through this gateway".to_owned())),
            Route::Unknown => Err(ApiError::NotFound("nothing is served at this path".to_owned())),
        }
    }

    async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        live: Arc<Live>,
        id: &str,
        kind: Kind,
    ) -> Result<Answer, ApiError> {
        let began = self.clock.now();
        let caller = access::authenticate(request.headers(), &live, &self.admin)?;
        kind.check(&request, &caller)?;
        let permits = self.bounds.enter(&caller)?;
        let ticket = Ticket::new(Arc::clone(&self), id.to_owned(), began, permits);
        let read = inbound::read(&self, &live, &caller, request, id, kind, began).await;
        let (inbound, body) = match read {
            Ok(inbound) => inbound,
            Err(error) => return Err(ticket.refuse(error)),
        };
        let mut chain = match Leg::chain(&live, &inbound.asked.base, &caller) {
            Ok(chain) => chain,
            Err(error) => return Err(ticket.refuse(error)),
        };
        if kind != Kind::Messages {
            chain.truncate(1);
            chain.iter_mut().for_each(|leg| leg.is_last = true);
        }
        Ok(Box::pin(Exchange::new(self, live, caller, inbound, body, ticket).run(chain)).await)
    }

    async fn readiness(&self) -> Answer {
        let usable = self.fleet.failover.snapshot().await.is_ok_and(|snapshot| snapshot.has_usable());
        if usable && !self.draining.is_cancelled() {
            return text("ready\n");
        }
        let mut answer = text("no account can serve now\n");
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        answer
    }

    /// Tells the feed.
    pub fn tell(&self, kind: EventKind, severity: Severity, account: Option<EntryId>, evidence: Evidence) {
        self.fleet.feed.emit(Event { seq: 0, ts: self.clock.now(), kind, severity, account, evidence });
    }

    /// The windows by which an account was refused.
    #[must_use]
    pub fn refused_windows(&self, account: AccountId) -> Vec<WindowReading> {
        self.fleet.health(account).map(|health| refused(health.quota().clone(), self.clock.now())).unwrap_or_default()
    }
}

fn refused(mut quota: Quota, now: Timestamp) -> Vec<WindowReading> {
    quota.expire(now);
    let refused = quota.windows.iter().filter(|(_, state)| state.status == Some(QuotaStatus::Rejected));
    let reading = |(window, state): (Window, &WindowState)| WindowReading {
        window,
        utilization: state.utilization,
        reset: state.reset,
        status: state.status.clone(),
    };
    refused.map(reading).collect()
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inference.
    Messages,
    /// Counting tokens.
    CountTokens,
    /// The list of models.
    Models,
    /// Any other path of the provider.
    Passthrough,
}

impl Kind {
    /// Whether it is inference.
    #[must_use]
    pub fn call(self) -> CallKind {
        match self {
            Self::Messages => CallKind::Inference,
            Self::CountTokens | Self::Models | Self::Passthrough => CallKind::Side,
        }
    }

    fn check(self, request: &Request<Incoming>, caller: &Caller) -> Result<(), ApiError> {
        match (self, request.method()) {
            // What a provider makes of TRACE is to send back the request, with the credential that we put in.
            (Self::Passthrough, &Method::TRACE | &Method::CONNECT) => Err(ApiError::Method("GET, POST, PUT, DELETE")),
            (Self::Messages | Self::CountTokens, &Method::POST) | (Self::Models, &Method::GET) => Ok(()),
            (Self::Messages | Self::CountTokens, _) => Err(ApiError::Method("POST")),
            (Self::Models, _) => Err(ApiError::Method("GET")),
            (Self::Passthrough, _) if caller.may_pass_through() => Ok(()),
            (Self::Passthrough, _) => Err(ApiError::Forbidden(
                "this client may use inference paths only; set passthrough = true for it to open others".to_owned(),
            )),
        }
    }
}

fn check_size(request: &Request<Incoming>, live: &Live, target: &str) -> Result<(), ApiError> {
    let limits = &live.settings.server.limits;
    if target.len() as u64 > limits.url {
        return Err(ApiError::UrlTooLong(saturated(limits.url)));
    }
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers as u64 > limits.request_headers {
        return Err(ApiError::HeadersTooLarge(saturated(limits.request_headers)));
    }
    Ok(())
}

/// Clients look whether anybody is there, before every run and without a credential.
fn glance(method: &Method) -> Result<Answer, ApiError> {
    match *method {
        Method::HEAD | Method::GET => Ok(Response::new(AnswerBody::new(Empty::new().map_err(|never| match never {})))),
        _ => Err(ApiError::Method("GET, HEAD")),
    }
}

/// Codex asks for a WebSocket first and takes this for an answer at once; a 404 makes it try seven times.
fn no_web_socket() -> Answer {
    let mut answer = text("this gateway speaks HTTP here, not WebSocket\n");
    *answer.status_mut() = StatusCode::UPGRADE_REQUIRED;
    answer
}

/// A plain text answer.
#[must_use]
pub fn text(text: &str) -> Answer {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut answer = Response::new(AnswerBody::new(body.map_err(|never| match never {})));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}

/// The text format in which counters are named as they are here.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

fn figures(metrics: &Metrics) -> Answer {
    let mut answer = text(&metrics.render());
    answer.headers_mut().insert(http::header::CONTENT_TYPE, OPEN_METRICS);
    answer
}

/// A size as this machine counts.
#[must_use]
pub fn saturated(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn request_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
