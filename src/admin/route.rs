//! `route.explain`: where a request for a model would go, and why: the whole order of every upstream it may use.

use std::sync::Arc;

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::failover::demand::{Ask, BindsThinking, Demand, Spent, Step, Via};
use duduclaw_actors::failover::{Band, Place, Ranked};
use duduclaw_actors::id::{ModelScope, Principal};
use duduclaw_actors::outcome::CallKind;
use duduclaw_actors::price::PriceList;
use http::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, FaultKind};
use super::verb::{Call, HEADER_VALUE};
use crate::config::settings::Protocol;
use crate::config::topology::{Element, Topology};
use crate::gateway::conversation::Conversation;
use crate::gateway::reason;

/// A request that is asked about.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// The model, as a client names it.
    model: String,
    /// Only this provider or upstream, also if the model would not be sent there.
    provider: Option<String>,
    /// The session, as Claude Code names it: where its conversation is at home counts.
    #[schemars(regex(pattern = HEADER_VALUE))]
    session: Option<String>,
    /// The subagent of that session.
    #[schemars(regex(pattern = HEADER_VALUE))]
    agent: Option<String>,
    /// The client who asks, by name; an open gateway knows none.
    client: Option<String>,
}

/// Where a request would go.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RouteView {
    /// The model that was asked about.
    pub model: String,
    /// The upstreams it may use, in the order in which they are tried.
    pub upstreams: Vec<RouteUpstream>,
}

/// One upstream of the way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RouteUpstream {
    /// Its name.
    pub upstream: String,
    /// Its provider.
    pub provider: String,
    /// What the model is called there.
    pub model: String,
    /// How its first choice is made.
    pub strategy: String,
    /// Its accounts, in the order in which they would be tried.
    pub candidates: Vec<RouteCandidate>,
}

/// One account of the order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RouteCandidate {
    /// The account, `provider/name`.
    pub account: String,
    /// Where it stands.
    pub place: RoutePlace,
    /// How good its standing is: `usable`, `near`, `over`, `holding`; null if it is out.
    pub band: Option<String>,
    /// Why it stands there, in words.
    pub reason: String,
    /// Until when what keeps it away lasts, epoch seconds, if known.
    pub until: Option<i64>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Time to the threshold at the mean pace, minus time to the reset, in seconds; null where nothing is known.
    pub headroom_secs: Option<f64>,
    /// When its weekly window begins anew, epoch seconds, if known.
    pub weekly_reset: Option<i64>,
}

/// Where an account stands in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutePlace {
    /// The request goes there.
    Chosen,
    /// The request waits a moment for it.
    Waits,
    /// It would be next.
    Ready,
    /// As many requests as it may have are on it.
    Full,
    /// It is held; now and then one request tries it.
    Probe,
    /// It cannot be used.
    Out,
}

/// Where it would go.
pub(super) async fn explain(call: Call, question: Question) -> Result<RouteView, Fault> {
    known_client(&call, question.client.as_deref())?;
    let (topology, prices) = (Arc::clone(&call.live.topology), &call.live.settings.prices);
    let principal = Arc::new(Principal { client: question.client.as_deref().map(Arc::from), ..Principal::default() });
    let conversation = conversation(&question, &principal)?;
    let mut upstreams = Vec::new();
    for (element, model) in steps(&topology, &question)? {
        let mut demand = demand(&topology, element, model, &question.model, (&principal, conversation));
        demand.ask = Some(Arc::new(ask(prices, element, model)));
        let order = call.desk.fleet.failover.explain(demand).await;
        let order = order.map_err(|error| Fault::unavailable(error.to_string()))?;
        let now = call.desk.clock.now();
        upstreams.push(RouteUpstream {
            upstream: element.name.to_string(),
            provider: element.provider.to_string(),
            model: model.to_owned(),
            strategy: strategy(element),
            candidates: order.iter().map(|ranked| candidate(ranked, now)).collect(),
        });
    }
    Ok(RouteView { model: question.model, upstreams })
}

/// A client that does not exist goes nowhere.
fn known_client(call: &Call, named: Option<&str>) -> Result<(), Fault> {
    let Some(named) = named else { return Ok(()) };
    let gate = call.live.settings.server.auth.as_ref();
    let names: Vec<_> = gate.iter().flat_map(|gate| gate.clients.iter()).map(|client| &*client.name).collect();
    if names.contains(&named) {
        return Ok(());
    }
    let hint = match names.is_empty() {
        true => "the gateway asks for no token, so it knows no client".to_owned(),
        false => format!("there are {}", names.join(", ")),
    };
    Err(Fault::new(FaultKind::NotFound, format!("there is no client {named:?}")).hint(hint))
}

/// The upstreams of the model's chain, or the one that is named.
fn steps<'t>(topology: &'t Topology, question: &'t Question) -> Result<Vec<(&'t Element, &'t str)>, Fault> {
    let chain = topology.resolve(&question.model, Protocol::Anthropic);
    let Some(named) = &question.provider else {
        let chain = chain.map_err(|no| Fault::new(FaultKind::NotFound, no.to_string()))?;
        return Ok(chain.steps().map(|step| (step.element, step.model)).collect());
    };
    let is_named = |element: &Element| *element.name == **named || *element.provider == **named;
    let on_the_way: Vec<_> = chain.iter().flat_map(|chain| chain.steps()).filter(|s| is_named(s.element)).collect();
    if !on_the_way.is_empty() {
        return Ok(on_the_way.into_iter().map(|step| (step.element, step.model)).collect());
    }
    let beside = topology.elements().iter().find(|element| is_named(element));
    let beside = beside.ok_or_else(|| {
        let names: Vec<_> = topology.elements().iter().map(|element| &*element.name).collect();
        Fault::new(FaultKind::NotFound, format!("there is no provider {named:?}"))
            .hint(format!("there are {}", names.join(", ")))
    })?;
    Ok(vec![(beside, question.model.as_str())])
}

/// The conversation's key is made as for a real request.
fn conversation(question: &Question, principal: &Principal) -> Result<Conversation, Fault> {
    let mut headers = HeaderMap::new();
    let named = [("x-claude-code-session-id", &question.session), ("x-claude-code-agent-id", &question.agent)];
    for (name, value) in named {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_bytes(value.as_bytes());
        headers.insert(name, value.map_err(|_| Fault::invalid(format!("{name} cannot be a header's value")))?);
    }
    Ok(Conversation::of(&headers, principal))
}

fn demand(
    topology: &Topology,
    element: &Element,
    model: &str,
    asked: &str,
    (principal, conversation): (&Arc<Principal>, Conversation),
) -> Demand {
    let binds = topology.binds_thinking(asked, model) == crate::config::topology::Binding::Bound;
    Demand {
        upstream: element.id,
        principal: Arc::clone(principal),
        conversation: conversation.key,
        parent: conversation.parent,
        scope: ModelScope::of_model(asked).join(ModelScope::of_model(model)),
        call: CallKind::Inference,
        via: Via::Gateway,
        tried: Vec::new(),
        renewing: Vec::new(),
        last: None,
        step: Step::First,
        binds_thinking: if binds { BindsThinking::Yes } else { BindsThinking::No },
        spent: Spent::default(),
        ask: None,
    }
}

/// What a short request for an answer of the usual length may cost.
fn ask(prices: &PriceList, element: &Element, model: &str) -> Ask {
    Ask { model: Arc::from(model), priced: prices.priced(element.family, model), input: 0, max_output: None }
}

fn candidate(ranked: &Ranked, now: Timestamp) -> RouteCandidate {
    let (place, band) = standing(&ranked.place);
    RouteCandidate {
        account: ranked.entry.to_string(),
        place,
        band: band.map(str::to_owned),
        reason: words(&ranked.place, &ranked.entry.name, now),
        until: until(&ranked.place).map(|at| at.as_wall(now).as_secs()),
        in_flight: ranked.in_flight,
        headroom_secs: ranked.headroom.is_finite().then_some(ranked.headroom),
        weekly_reset: ranked.weekly_reset.map(|at| at.as_secs()),
    }
}

fn standing(place: &Place) -> (RoutePlace, Option<&'static str>) {
    match place {
        Place::Chosen(band) => (RoutePlace::Chosen, Some(name(*band))),
        Place::Waits(_) => (RoutePlace::Waits, None),
        Place::Ready(band) => (RoutePlace::Ready, Some(name(*band))),
        Place::Full(band) => (RoutePlace::Full, Some(name(*band))),
        Place::Probe { .. } => (RoutePlace::Probe, Some(name(Band::Holding))),
        Place::Out(_) => (RoutePlace::Out, None),
    }
}

fn name(band: Band) -> &'static str {
    match band {
        Band::Usable => "usable",
        Band::Near => "near",
        Band::Over => "over",
        Band::Holding => "holding",
    }
}

fn until(place: &Place) -> Option<Deadline> {
    match place {
        Place::Waits(at) => Some(*at),
        Place::Probe { why, .. } | Place::Out(why) => reason::ends_at(why),
        Place::Chosen(_) | Place::Ready(_) | Place::Full(_) => None,
    }
}

fn words(place: &Place, account: &str, now: Timestamp) -> String {
    let by_band = |band: &Band| match band {
        Band::Usable => "it is well",
        Band::Near => "it is near its quota, and none that is not is left",
        Band::Over => "it is at the end of its quota, and none better is left",
        Band::Holding => "it is held, and its probe is due",
    };
    match place {
        Place::Chosen(band) => format!("the request goes there: {}", by_band(band)),
        Place::Ready(band) => format!("it would be next in its turn: {}", by_band(band)),
        Place::Waits(_) => "the request waits a moment for it, since its conversation is at home there".to_owned(),
        Place::Full(_) => "as many requests as it may have are on it".to_owned(),
        Place::Probe { why, .. } | Place::Out(why) => reason::words(account, why, now),
    }
}

fn strategy(element: &Element) -> String {
    serde_json::to_value(element.strategy).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
