//! The control API: what operators see of the fleet and do to it, for whoever shows a key.
//!
//! Every verb stands once in `table`, and is asked for at two doors: by its HTTP path (`rest`) and by its name in
//! JSON-RPC (`rpc`). The document that describes both is made from the same table. A new verb is a function and a line.
//!
//! Never here: inference. The keys open nothing there, and client tokens open nothing here.

mod accounts;
mod activity;
mod body;
mod config;
mod conversations;
mod counts;
mod desk;
mod document;
mod events;
mod failures;
mod fault;
mod health;
mod keys;
mod logins;
mod pool;
mod rest;
mod route;
mod rpc;
mod state;
mod store;
mod table;
mod usage;
mod verb;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use secrecy::SecretString;
use serde_json::{Map, Value};

use self::fault::{Fault, FaultKind};
use self::keys::{HomeKey, Visitor};
use self::rpc::{Item, Message, Params};
use self::verb::{Call, Verb};
use crate::config::operators::Access;
use crate::config::topology::printable;
use crate::gateway::answer::{self, Answer, json};
use crate::gateway::arrival::Arrival;
use crate::gateway::control::{Answering, Control};
use crate::gateway::live::Live;

pub use accounts::{
    AccountAnswer, AccountsView, ListedAccount, ProbeAnswer, ProbeVerdict, RemovedAnswer, SavedAnswer, SavedCheck,
    strategy_notes,
};
pub use activity::{ActivityView, EventView, SeverityWord};
pub use counts::Counts;
pub use desk::{AmendFault, ConfigKeeper, Desk, Keeping, Refused, Reloaded};
pub use events::FOLLOWERS;
pub use failures::{FAILURES_MOST, FailuresAsk};
pub use health::HealthView;
pub use logins::{Logins, StartedAnswer};
pub use pool::{PoolAccount, PoolProvider, PoolView, SpendView, WindowView};
pub use route::{RouteCandidate, RoutePlace, RouteUpstream, RouteView};
pub use state::StateAnswer;
pub use store::{StoreView, StoreWord};
pub use usage::{Tokens, UsageAsk, UsageLine, UsageOf, UsageView, UsageWord};

/// The control API.
pub struct Admin {
    key: HomeKey,
    desk: Arc<Desk>,
    verbs: Vec<Verb>,
    events_wanted: Value,
    document: OnceLock<Bytes>,
}

/// A request that was let in.
struct Asked<'a> {
    live: Arc<Live>,
    visitor: &'a Visitor,
    id: &'a str,
}

impl Control for Admin {
    fn is_key(&self, live: &Live, token: &[u8]) -> bool {
        self.key.is(token) || live.settings.server.operator(token).is_some()
    }

    fn answer<'a>(
        &'a self,
        live: Arc<Live>,
        request: Request<Incoming>,
        arrival: Arrival,
        id: &'a str,
    ) -> Answering<'a> {
        Box::pin(async move {
            let visitor = self.key.admit(&live.settings.server, request.headers(), arrival)?;
            let asked = Asked { live, visitor: &visitor, id };
            Ok(self.serve(&asked, request).await.unwrap_or_else(|fault| fault.answer(id)))
        })
    }
}

impl Admin {
    /// The API that this key opens, beside the tokens of the configuration.
    #[must_use]
    pub fn new(key: &SecretString, desk: Desk) -> Self {
        Self {
            key: HomeKey::new(key),
            desk: Arc::new(desk),
            verbs: table::verbs(),
            events_wanted: verb::params_of::<events::Wanted>(),
            document: OnceLock::new(),
        }
    }

    async fn serve(&self, asked: &Asked<'_>, request: Request<Incoming>) -> Result<Answer, Fault> {
        match request.uri().path() {
            "/rpc" => self.rpc(asked, request).await,
            events::PATH => self.events(asked, &request).await,
            document::PATH => only(Method::GET, &request).map(|()| self.described()),
            _ => self.rest(asked, request).await,
        }
    }

    async fn rest(&self, asked: &Asked<'_>, request: Request<Incoming>) -> Result<Answer, Fault> {
        let (verb, mut params) = rest::find(&self.verbs, request.method(), request.uri().path())?;
        may(asked.visitor, verb)?;
        rest::add_query(&verb.params, request.uri().query().unwrap_or_default(), &mut params)?;
        if verb.method != Method::GET && verb.method != Method::DELETE {
            let body = body::read(request).await?;
            if !body.is_empty() {
                let given = serde_json::from_slice(&body);
                rest::add_body(given.map_err(|e| Fault::invalid(format!("the body is no JSON: {e}")))?, &mut params)?;
            }
        }
        Ok(json(&self.perform(asked, verb, params).await?))
    }

    async fn events(&self, asked: &Asked<'_>, request: &Request<Incoming>) -> Result<Answer, Fault> {
        only(Method::GET, request)?;
        let mut wanted = Map::new();
        rest::add_query(&self.events_wanted, request.uri().query().unwrap_or_default(), &mut wanted)?;
        let wanted = serde_json::from_value(wanted.into()).map_err(|error| Fault::invalid(error.to_string()))?;
        events::follow(&self.call(asked), request.headers(), wanted).await
    }

    fn call(&self, asked: &Asked<'_>) -> Call {
        Call { desk: Arc::clone(&self.desk), live: Arc::clone(&asked.live) }
    }

    async fn rpc(&self, asked: &Asked<'_>, request: Request<Incoming>) -> Result<Answer, Fault> {
        only(Method::POST, &request)?;
        match rpc::read(&body::read(request).await?) {
            Message::Hopeless(why) => Ok(json(&why)),
            Message::Single(item) => Ok(self.single(asked, item).await),
            Message::Batch(items) => {
                let mut answers = Vec::new();
                for item in items {
                    answers.extend(self.item(asked, item).await.0);
                }
                Ok(if answers.is_empty() { nothing_to_say() } else { json(&answers) })
            }
        }
    }

    /// One request that is no batch: whoever may not do it is told so by the status too.
    async fn single(&self, asked: &Asked<'_>, item: Item) -> Answer {
        let (said, kind) = self.item(asked, item).await;
        let Some(said) = said else { return nothing_to_say() };
        let mut answer = json(&said);
        if kind == Some(FaultKind::Forbidden) {
            *answer.status_mut() = StatusCode::FORBIDDEN;
        }
        answer
    }

    /// What is said to one request, and why it was refused.
    async fn item(&self, asked: &Asked<'_>, item: Item) -> (Option<Value>, Option<FaultKind>) {
        let request = match item {
            Item::Wrong(why) => return (Some(why), None),
            Item::Request(request) => request,
        };
        let Some(verb) = self.verbs.iter().find(|verb| verb.name == request.method) else {
            return (request.id.map(|id| rpc::no_such_method(&id, &request.method)), None);
        };
        let done = match request.params {
            Params::Named(params) => match may(asked.visitor, verb) {
                Ok(()) => self.perform(asked, verb, params).await,
                Err(fault) => Err(fault),
            },
            Params::Positional => Err(Fault::invalid("parameters are given by name, as an object")),
        };
        let kind = done.as_ref().err().map(|fault| fault.kind.clone());
        let said = request.id.map(|id| match done {
            Ok(result) => rpc::result_answer(&id, result),
            Err(fault) => rpc::fault_answer(&id, &fault, asked.id),
        });
        (said, kind)
    }

    /// What changes something is done to its end, also when whoever asked for it has gone away.
    async fn perform(&self, asked: &Asked<'_>, verb: &Verb, params: Map<String, Value>) -> Result<Value, Fault> {
        let call = self.call(asked);
        if verb.access == Access::Read {
            return verb.run(call, Value::Object(params)).await;
        }
        let on = params.get("account").and_then(Value::as_str).unwrap_or_default().to_owned();
        let done = self.desk.tasks.spawn(verb.run(call, Value::Object(params))).await;
        let done = done.unwrap_or_else(|_| Err(Fault::internal()));
        let outcome = done.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
        tracing::info!(
            request = asked.id,
            operator = &*asked.visitor.name,
            verb = verb.name,
            account = printable(&on),
            outcome,
            "control"
        );
        done
    }

    fn described(&self) -> Answer {
        let made = || serde_json::to_vec(&document::document(&self.verbs)).unwrap_or_default().into();
        let mut answer = answer::whole(self.document.get_or_init(made).clone());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

fn may(visitor: &Visitor, verb: &Verb) -> Result<(), Fault> {
    if visitor.access >= verb.access {
        return Ok(());
    }
    let text = format!("the token of {:?} may only read, and {} changes something", visitor.name, verb.name);
    Err(Fault::new(FaultKind::Forbidden, text).hint("use a token of [server.admin] tokens_env"))
}

fn only(method: Method, request: &Request<Incoming>) -> Result<(), Fault> {
    if *request.method() == method { Ok(()) } else { Err(rest::refused(method.to_string())) }
}

/// The answer to notifications alone.
fn nothing_to_say() -> Answer {
    let mut answer = answer::whole("");
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}
