//! A verb of the control API: what it is called at each door, what it takes and gives, who may ask for it, and what does
//! it. Everything else about it is made from this: routes, JSON-RPC, and the document that describes both.
//!
//! Never here: what any one verb does.

use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::desk::Desk;
use super::fault::Fault;
use crate::config::operators::Access;
use crate::gateway::live::Live;

/// What a verb works with.
#[derive(Clone)]
pub(crate) struct Call {
    /// The fleet and all around it.
    pub(crate) desk: Arc<Desk>,
    /// The configuration under which it was asked.
    pub(crate) live: Arc<Live>,
}

/// A verb.
pub(crate) struct Verb {
    /// Its name, which is its method in JSON-RPC.
    pub(crate) name: &'static str,
    /// Its HTTP method.
    pub(crate) method: Method,
    /// Its path below `/admin/api`, in which `{name}` stands for the parameter of this name.
    pub(crate) path: &'static str,
    /// Who may ask for it.
    pub(crate) access: Access,
    /// What it does, in a sentence.
    pub(crate) summary: &'static str,
    /// What it may be refused with, beside what any request may.
    pub(crate) refusals: &'static [u16],
    /// The schema of what it takes, an object; its own, since it is also read to tell numbers from text in a query.
    pub(crate) params: Value,
    /// The schema of what it gives, made among the others of a document.
    pub(crate) answer: fn(&mut SchemaGenerator) -> schemars::Schema,
    run: Box<Run>,
}

type Run = dyn Fn(Call, Value) -> Running + Send + Sync;
/// A verb at work; it needs nobody else to come to its end.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send>>;

impl Verb {
    /// A verb that anybody with a key may ask for, by `GET`.
    pub(crate) fn read<P, A, F>(
        name: &'static str,
        path: &'static str,
        summary: &'static str,
        run: impl Fn(Call, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
        F: Future<Output = Result<A, Fault>> + Send + 'static,
    {
        Self {
            name,
            method: Method::GET,
            path,
            access: Access::Read,
            summary,
            refusals: &[],
            params: params_of::<P>(),
            answer: |generator| generator.subschema_for::<A>(),
            run: Box::new(move |call, params| {
                let hidden = hidden_in(&params);
                match serde_json::from_value(with_whole_numbers(params)) {
                    Ok(params) => Box::pin(answered(run(call, params))),
                    Err(error) => Box::pin(std::future::ready(Err(unfit(&error, &hidden)))),
                }
            }),
        }
    }

    /// A verb that changes something.
    pub(crate) fn write<P, A, F>(
        name: &'static str,
        (method, path): (Method, &'static str),
        summary: &'static str,
        run: impl Fn(Call, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
        F: Future<Output = Result<A, Fault>> + Send + 'static,
    {
        Self { method, access: Access::Write, ..Self::read(name, path, summary, run) }
    }

    /// The same, with the statuses that it may be refused with.
    pub(crate) fn refusing(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    /// Does it.
    pub(crate) fn run(&self, call: Call, params: Value) -> Running {
        (self.run)(call, params)
    }
}

/// Parameters whose values are secrets.
const HIDDEN: [&str; 2] = ["secret", "code"];
/// How secrets begin that may have got into the wrong place.
const SECRETIVE: &str = "sk-";

/// What must not be repeated to whoever asked, nor written into a log: secrets, and what may be one.
fn hidden_in(params: &Value) -> Vec<String> {
    let given = params.as_object().into_iter().flatten();
    let hidden = given.flat_map(|(name, value)| {
        let value = value.as_str().filter(|text| HIDDEN.contains(&name.as_str()) || text.contains(SECRETIVE));
        value.into_iter().chain(name.contains(SECRETIVE).then_some(name.as_str()))
    });
    hidden.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// Why parameters do not fit, without what is hidden in them.
fn unfit(error: &serde_json::Error, hidden: &[String]) -> Fault {
    let text = error.to_string();
    if hidden.iter().any(|secret| text.contains(secret.as_str())) {
        return Fault::invalid("a secret stands in the wrong place, or a parameter has a name that is none");
    }
    Fault::invalid(text)
}

async fn answered<A: Serialize>(answer: impl Future<Output = Result<A, Fault>>) -> Result<Value, Fault> {
    let answer = answer.await?;
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "an answer of the control API cannot be written as JSON");
        Fault::internal()
    })
}

/// JSON knows one kind of number: `3.0` is 3.
fn with_whole_numbers(mut params: Value) -> Value {
    for value in params.as_object_mut().into_iter().flat_map(|params| params.values_mut()) {
        let whole = value.as_f64().filter(|n| value.is_f64() && n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0);
        if let Some(whole) = whole {
            *value = Value::from(whole as i64);
        }
    }
    params
}

/// An account's name, as a schema: `name` or `provider/name`, and nothing that a path could not hold.
pub(crate) const ACCOUNT_NAME: &str = r"^((?!\.{1,2}(;|/))[^/\\%\x00-\x1f\x7f]+/)?[a-z0-9-]+$";
/// What can be a header's value, as a schema.
pub(crate) const HEADER_VALUE: &str = r"^[^\x00-\x08\x0a-\x1f\x7f]*$";

/// The schema of what is asked with, on its own.
pub(crate) fn params_of<P: JsonSchema>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<P>().to_value()
}

/// What a verb takes that takes nothing.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}
