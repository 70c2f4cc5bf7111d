//! The gateway itself: every request comes in here, is admitted or refused, and goes to whoever answers its path.
//!
//! Never here: how a request is served; that is the exchange's.

use std::sync::Arc;

use arc_swap::ArcSwap;
use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::event::{Event, EventKind, Severity};
use duduclaw_actors::id::{AccountId, EntryId};
use duduclaw_actors::journal::{self, StoreState};
use duduclaw_actors::outcome::{CallKind, Evidence, QuotaStatus, WindowReading};
use duduclaw_actors::ports::EventSink;
use duduclaw_actors::root::Fleet;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::credentials::Vault;
use crate::gateway::access;
use crate::gateway::answer::{self, Answer, text};
use crate::gateway::arrival::{Arrival, Door};
use crate::gateway::body::Room;
use crate::gateway::bounds::{Bounds, saturated};
use crate::gateway::chain::Leg;
use crate::gateway::control::Control;
use crate::gateway::error::ApiError;
use crate::gateway::exchange::Exchange;
use crate::gateway::hold::Holds;
use crate::gateway::inbound;
use crate::gateway::kind::Kind;
use crate::gateway::live::Live;
use crate::gateway::path::{self, Route};
use crate::gateway::pool_quota;
use crate::gateway::pool_usage;
use crate::gateway::ticket::{Ticket, request_id};
use crate::metrics::Metrics;
use crate::upstream::client::Client;

/// Whoever cannot write down what a request costs must not serve it for ever.
const NO_ROOM: &str = "the store cannot be written, and too much waits for it already; `duduclaw status` says why";

/// What the gateway is made of.
pub struct Gateway {
    /// The fleet behind it.
    pub fleet: Fleet,
    /// The secrets.
    pub(crate) vault: Vault,
    /// The way to the providers.
    pub(crate) client: Client,
    /// The configuration in force.
    pub(crate) live: Arc<ArcSwap<Live>>,
    /// Tells the time.
    pub(crate) clock: SharedClock,
    /// Requests that wait for an account.
    pub(crate) holds: Holds,
    /// Room for bodies.
    pub(crate) room: Room,
    /// Requests at once.
    pub(crate) bounds: Bounds,
    /// Where tasks run.
    pub tasks: TaskTracker,
    /// No new work is taken on once this is cancelled.
    pub(crate) draining: CancellationToken,
    /// What still runs is ended once this is cancelled.
    pub(crate) stop: CancellationToken,
    /// The control API.
    pub(crate) control: Box<dyn Control>,
    /// Figures.
    pub(crate) metrics: Arc<Metrics>,
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
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>, arrival: Arrival) -> Answer {
        let id = request_id(self.clock.now().wall);
        let closing = self.draining.is_cancelled();
        let control = path::is_control(request.uri().path());
        let mut answer = match Box::pin(Arc::clone(&self).route_until_stopped(request, arrival, &id)).await {
            Ok(answer) => answer,
            Err(error) => {
                self.metrics.refused(error.status());
                tracing::info!(request_id = id, status = error.status().as_u16(), %error, "a request was refused");
                error.answer(&id)
            }
        };
        if control {
            answer::keep_private(&mut answer);
        }
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
        arrival: Arrival,
        id: &str,
    ) -> Result<Answer, ApiError> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            answer = self.route(request, arrival, id) => answer,
            () = stop.cancelled() => Err(ApiError::Stopping),
        }
    }

    async fn route(
        self: Arc<Self>,
        request: Request<Incoming>,
        arrival: Arrival,
        id: &str,
    ) -> Result<Answer, ApiError> {
        let live = self.live.load_full();
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let route = path::check(&target).map_err(|error| ApiError::Invalid(error.to_string()))?;
        if route == Route::Healthz {
            return Ok(self.pulse());
        }
        check_size(&request, &live, &target)?;
        access::check_host(request.headers(), request.uri(), arrival.local, &live.settings.server)?;
        access::check_origin(request.headers())?;
        if !is_served(route, arrival.door) {
            return Err(nothing());
        }
        match route {
            Route::Root | Route::Hello => glance(request.method()),
            Route::Healthz => Ok(self.pulse()),
            Route::Readyz => Ok(self.readiness().await),
            Route::Metrics => Ok(figures(&self)),
            Route::Usage => self.usage(&request, &live).await,
            Route::OwnUsage => self.own_usage(request, live, id).await,
            Route::Admin | Route::Rpc => self.control.answer(live, request, arrival, id).await,
            Route::Messages => self.serve(request, live, id, Kind::Messages).await,
            Route::CountTokens => self.serve(request, live, id, Kind::CountTokens).await,
            Route::Models => self.serve(request, live, id, Kind::Models).await,
            Route::Passthrough => self.serve(request, live, id, Kind::Passthrough).await,
            Route::Responses if request.headers().contains_key(UPGRADE) => Ok(no_web_socket()),
            Route::Responses | Route::ChatCompletions | Route::GoogleModels | Route::Google { .. } => {
                Err(ApiError::NotFound("no configured provider speaks the protocol of this path".to_owned()))
            }
            Route::Oauth => Err(ApiError::Forbidden("logins are never passed through this gateway".to_owned())),
            Route::Unknown => Err(nothing()),
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
        let caller = access::authenticate(request.headers(), &live, &*self.control)?;
        kind.check(request.method(), &caller)?;
        if kind.call() == CallKind::Inference && self.fleet.journal.room() == journal::Room::None {
            return Err(ApiError::Overloaded(NO_ROOM));
        }
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

    async fn usage(&self, request: &Request<Incoming>, live: &Live) -> Result<Answer, ApiError> {
        access::authenticate(request.headers(), live, &*self.control)?;
        match *request.method() {
            Method::GET => Ok(answer::json(&pool_usage::usage(self, live).await)),
            _ => Err(ApiError::Method("GET")),
        }
    }

    /// The pool's figures; where clients bring accounts of their own, their own page.
    async fn own_usage(
        self: Arc<Self>,
        request: Request<Incoming>,
        live: Arc<Live>,
        id: &str,
    ) -> Result<Answer, ApiError> {
        access::authenticate(request.headers(), &live, &*self.control)?;
        match (request.method(), pool_usage::own_page(&self, &live).await) {
            (_, None) => self.serve(request, live, id, Kind::Passthrough).await,
            (&Method::GET, Some(page)) => Ok(answer::json(&page)),
            (_, Some(_)) => Err(ApiError::Method("GET")),
        }
    }

    /// The process is alive, whatever its store does; that is said all the same.
    fn pulse(&self) -> Answer {
        let now = self.clock.now();
        match self.fleet.journal.state(now) {
            StoreState::Fine => text("ok\n"),
            StoreState::Slow { since } => text(format!("ok\nstore: slow for {} s\n", now.since(since).as_secs())),
            StoreState::Failing { since, .. } => {
                text(format!("ok\nstore: failing for {} s\n", now.since(since).as_secs()))
            }
        }
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
        let quota = self.fleet.health(account).map(|health| health.quota().clone()).unwrap_or_default();
        let windows = pool_quota::observed(quota, self.clock.now()).into_iter();
        windows.filter(|window| window.status == Some(QuotaStatus::Rejected)).collect()
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

/// Whether a path is served by this door.
fn is_served(route: Route<'_>, door: Door) -> bool {
    match route {
        Route::Admin | Route::Rpc => door.serves_operators(),
        Route::Root | Route::Hello | Route::Healthz | Route::Readyz | Route::Metrics | Route::Unknown => true,
        Route::Messages
        | Route::CountTokens
        | Route::Models
        | Route::Responses
        | Route::ChatCompletions
        | Route::GoogleModels
        | Route::Google { .. }
        | Route::Passthrough
        | Route::Usage
        | Route::OwnUsage
        | Route::Oauth => door.serves_clients(),
    }
}

fn nothing() -> ApiError {
    ApiError::NotFound("nothing is served at this path".to_owned())
}

/// Clients look whether anybody is there, before every run and without a credential.
fn glance(method: &Method) -> Result<Answer, ApiError> {
    match *method {
        Method::HEAD | Method::GET => Ok(answer::whole("")),
        _ => Err(ApiError::Method("GET, HEAD")),
    }
}

/// Codex asks for a WebSocket first and takes this for an answer at once; a 404 makes it try seven times.
fn no_web_socket() -> Answer {
    let mut answer = text("this gateway speaks HTTP here, not WebSocket\n");
    *answer.status_mut() = StatusCode::UPGRADE_REQUIRED;
    answer
}

/// The text format in which counters are named as they are here.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

fn figures(gateway: &Gateway) -> Answer {
    let mut answer = text(gateway.metrics.render(&gateway.fleet.till.cache_shares()));
    answer.headers_mut().insert(http::header::CONTENT_TYPE, OPEN_METRICS);
    answer
}
