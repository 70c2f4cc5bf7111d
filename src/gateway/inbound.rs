//! Reading a request: its body once, its fields in one pass, off the async threads when it is large.

use bytes::Bytes;
use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::id::ModelScope;
use duduclaw_actors::outcome::CallKind;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;

use crate::config::clients::Client;
use crate::gateway::access::Caller;
use crate::gateway::body::Buffered;
use crate::gateway::bounds::saturated;
use crate::gateway::error::ApiError;
use crate::gateway::fields::estimate::input_tokens;
use crate::gateway::fields::{self, Fields, FieldsError, LongContext, Streaming, split_long_context};
use crate::gateway::kind::Kind;
use crate::gateway::live::Live;
use crate::gateway::service::Gateway;

/// Bodies above this are read off the async threads.
const INLINE_MAX: usize = 256 * 1024;

/// What a client sent.
pub(super) struct Inbound {
    /// Our id for it.
    pub id: String,
    /// Its method.
    pub method: Method,
    /// Its path and query, as they came.
    pub target: PathAndQuery,
    /// Its headers, as they came.
    pub headers: HeaderMap,
    /// What routing read in the body.
    pub asked: AskedModel,
    /// Whether a stream was asked for.
    pub streaming: Streaming,
    /// The place of `account_uuid` in the body.
    pub account_uuid: Option<std::ops::Range<usize>>,
    /// The models it concerns, as far as quota windows care.
    pub scope: ModelScope,
    /// What it is about.
    pub kind: Kind,
    /// Inference, or beside it.
    pub call: CallKind,
    /// How large it is.
    pub size: Size,
    /// When it arrived.
    pub began: Timestamp,
}

/// How many tokens a request has, and how many its answer may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Estimated, for inference.
    pub tokens: u64,
    /// As the client allows it.
    pub max_output: Option<u64>,
}

/// The model a client asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedModel {
    /// As it stands in the body, if it does.
    pub name: Option<String>,
    /// Without what asks for the long context.
    pub base: String,
    /// Where it stands, with its quotes.
    pub span: Option<std::ops::Range<usize>>,
    /// Whether the long context was asked for by the name.
    pub long_context: LongContext,
    /// Models of tools that ask for the long context: their places, and the names without it.
    pub tools: Vec<(std::ops::Range<usize>, String)>,
}

/// Reads a request of this caller.
///
/// # Errors
/// When it is too large, breaks off, or asks for what the caller may not have.
pub(super) async fn read(
    gateway: &Gateway,
    live: &Live,
    caller: &Caller,
    request: Request<Incoming>,
    id: &str,
    kind: Kind,
    began: Timestamp,
) -> Result<(Inbound, Buffered), ApiError> {
    let (head, body) = request.into_parts();
    let buffered = gateway.room.read(body, saturated(live.settings.server.limits.request)).await?;
    let (fields, tokens) = match kind {
        Kind::Messages | Kind::CountTokens => {
            let (fields, tokens) = seen(&buffered.bytes, kind).await;
            (understood(fields, caller)?, tokens)
        }
        Kind::Models | Kind::Passthrough => (Fields::default(), 0),
    };
    let asked = asked(&fields);
    if let Some(client) = &caller.client {
        may_use(client, &asked, &fields, kind)?;
    }
    let inbound = Inbound {
        id: id.to_owned(),
        method: head.method,
        target: head.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")),
        headers: head.headers,
        scope: scope(&asked, &fields),
        streaming: fields.streaming,
        account_uuid: fields.account_uuid.clone(),
        size: Size { tokens, max_output: fields.max_tokens },
        asked,
        kind,
        call: kind.call(),
        began,
    };
    Ok((inbound, buffered))
}

/// Every model in the request counts, those of its tools too; a limited client must name one.
fn may_use(client: &Client, asked: &AskedModel, fields: &Fields<'_>, kind: Kind) -> Result<(), ApiError> {
    if matches!(kind, Kind::Models | Kind::Passthrough) {
        return Ok(());
    }
    if client.models.is_some() && asked.base.is_empty() {
        return Err(ApiError::Invalid("this client is limited to some models; the request must name one".to_owned()));
    }
    let tools =
        fields.tools.iter().filter_map(|tool| tool.model.as_ref()).map(|model| split_long_context(&model.value).0);
    let named = std::iter::once(asked.base.as_str()).filter(|base| !base.is_empty()).chain(tools);
    match named.into_iter().find(|model| !client.may_use_model(model)) {
        Some(model) => Err(ApiError::Forbidden(format!("this client may not use the model {model:?}"))),
        None => Ok(()),
    }
}

/// The fields of a body, or why it has none, and how many tokens it has.
type Seen = (Result<Fields<'static>, FieldsError>, u64);

async fn seen(body: &Bytes, kind: Kind) -> Seen {
    if body.len() <= INLINE_MAX {
        return look(body, kind);
    }
    let body = body.clone();
    let seen = tokio::task::spawn_blocking(move || look(&body, kind)).await;
    seen.unwrap_or((Err(FieldsError::NotAnObject), 0))
}

/// Only inference is charged for.
fn look(body: &[u8], kind: Kind) -> Seen {
    let tokens = if kind.call() == CallKind::Inference { input_tokens(body) } else { 0 };
    (fields::read(body).map(Fields::into_owned), tokens)
}

/// What cannot be read is the provider's to refuse, unless we must know the model to keep a limit.
fn understood(read: Result<Fields<'static>, FieldsError>, caller: &Caller) -> Result<Fields<'static>, ApiError> {
    match read {
        Ok(fields) => Ok(fields),
        Err(error) if caller.is_limited() => Err(ApiError::Invalid(error.to_string())),
        Err(_) => Ok(Fields::default()),
    }
}

fn asked(fields: &Fields<'_>) -> AskedModel {
    let Some(model) = &fields.model else { return AskedModel::default() };
    let (base, long_context) = split_long_context(&model.value);
    let tools = fields.tools.iter().filter_map(|tool| tool.model.as_ref());
    let long_tools = tools.filter_map(|model| match split_long_context(&model.value) {
        (base, LongContext::Asked) => Some((model.span.clone(), base.to_owned())),
        (_, LongContext::NotAsked) => None,
    });
    AskedModel {
        name: Some(model.value.clone().into_owned()),
        base: base.to_owned(),
        span: Some(model.span.clone()),
        long_context,
        tools: long_tools.collect(),
    }
}

fn scope(asked: &AskedModel, fields: &Fields<'_>) -> ModelScope {
    let tools = fields.tools.iter().filter_map(|tool| tool.model.as_ref());
    tools.map(|model| ModelScope::of_model(&model.value)).fold(ModelScope::of_model(&asked.base), ModelScope::join)
}
