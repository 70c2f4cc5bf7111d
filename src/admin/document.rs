//! The OpenAPI 3.1 document, made from the table of verbs and the Rust types they take and give.
//!
//! Never here: a description of anything that is not in the table, but for the doors themselves.

use http::Method;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::activity::EventView;
use super::events;
use super::fault::ErrorView;
use super::rest;
use super::verb::{Verb, params_of};
use crate::config::operators::Access;

/// Where the document is.
pub(super) const PATH: &str = "/admin/api/openapi.json";

/// What any request may be refused with.
const ANY: [u16; 8] = [400, 401, 403, 404, 414, 421, 431, 503];
/// What a request with a body may be refused with beside that.
const WITH_BODY: [u16; 2] = [413, 415];

const DESCRIPTION: &str = "What operators see of the fleet and do to it. Every verb is also a method of JSON-RPC 2.0 at \
                           `POST /rpc`, under its `operationId` and with the same parameters by name. Accounts are named \
                           `name`, or `provider/name` where several have that name (`provider%2Fname` in a path). Times \
                           are epoch seconds unless they are text; money is US dollars.";

/// The document.
pub(super) fn document(verbs: &[Verb]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for verb in verbs {
        let path = paths.entry(format!("{}{}", rest::BASE, verb.path)).or_insert_with(|| json!({}));
        path[verb.method.as_str().to_ascii_lowercase()] = operation(verb, verbs, &mut schemas);
    }
    paths.insert(events::PATH.to_owned(), json!({"get": followed(&mut schemas)}));
    paths.insert(PATH.to_owned(), json!({"get": described()}));
    paths.insert("/rpc".to_owned(), json!({"post": rpc(verbs)}));
    let error = schemas.subschema_for::<ErrorView>();
    let responses = statuses().map(|(status, what)| {
        let content = json!({"application/json": {"schema": error}});
        (status.to_string(), json!({"description": what, "content": content}))
    });
    let responses: Map<_, _> = responses.collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "duduclaw control API", "version": env!("CARGO_PKG_VERSION"), "description": DESCRIPTION},
        "security": [{"bearer": []}, {"header": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "responses": responses,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-duduclaw-admin-token"},
            },
        },
    })
}

/// Every status that may tell a refusal, in words.
fn statuses() -> impl Iterator<Item = (u16, &'static str)> {
    [
        (400, "The request makes no sense as it is: its parameters, its body, or its path"),
        (401, "No token, or a wrong one"),
        (403, "The token may only read, or a web page of another origin asks"),
        (404, "There is no such thing; the nearest names are given"),
        (405, "The path stands, the method does not; `allow` names those that do"),
        (409, "The name means several accounts; all of them are named"),
        (413, "The body is larger than 64 KiB"),
        (414, "The URL is too long"),
        (415, "The body is not labelled as JSON"),
        (421, "`Host` names somebody else"),
        (422, "It is understood, and cannot be done as things are"),
        (431, "The headers are too large"),
        (503, "It cannot be done now, or it acts and may not survive a restart; the message says which"),
    ]
    .into_iter()
}

fn operation(verb: &Verb, verbs: &[Verb], schemas: &mut SchemaGenerator) -> Value {
    let answer = (verb.answer)(schemas);
    let mut good = json!({"description": "It is so", "content": {"application/json": {"schema": answer}}});
    if verb.name == "accounts.list" {
        good["links"] = links(verbs);
    }
    let mut operation = json!({
        "operationId": verb.name,
        "summary": verb.summary,
        "tags": [verb.name.split('.').next()],
        "x-duduclaw-access": access(verb.access),
    });
    let (parameters, body) = parameters(verb);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let mut refusals = [&ANY, verb.refusals].concat();
    if verb.method != Method::GET && verb.method != Method::DELETE {
        refusals.extend(WITH_BODY);
    }
    if let Some(body) = body {
        operation["requestBody"] = body;
    }
    operation["responses"] = responses(good, refusals);
    operation
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

/// What stands in path and query, and what in the body.
fn parameters(verb: &Verb) -> (Vec<Value>, Option<Value>) {
    let required = |name: &str| verb.params["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let in_path = |name: &str| verb.path.split('/').filter_map(rest::parameter).any(|found| found == name);
    let has_query = verb.method == Method::GET || verb.method == Method::DELETE;
    let none = Map::new();
    let mut parameters = Vec::new();
    let mut body = verb.params.clone();
    for (name, schema) in verb.params["properties"].as_object().unwrap_or(&none) {
        let place = if in_path(name) { "path" } else { "query" };
        if place == "query" && !has_query {
            continue;
        }
        let needed = place == "path" || required(name);
        parameters.push(parameter(name, place, needed, schema));
        leave_out(&mut body, name);
    }
    let left = body["properties"].as_object().is_some_and(|left| !left.is_empty());
    let body = left.then(|| json!({"required": true, "content": {"application/json": {"schema": body}}}));
    (parameters, body)
}

/// Neither a path nor a query can say null: there it is left out.
fn parameter(name: &str, place: &str, needed: bool, schema: &Value) -> Value {
    let mut schema = schema.clone();
    let what = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
    }
    if let Some(options) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        options.retain(|option| option["type"] != "null");
    }
    json!({"name": name, "in": place, "required": needed, "description": what, "schema": schema})
}

fn leave_out(schema: &mut Value, name: &str) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.shift_remove(name);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|other| other != name);
    }
}

fn responses(good: Value, mut refusals: Vec<u16>) -> Value {
    refusals.sort_unstable();
    refusals.dedup();
    let mut responses = Map::from_iter([("200".to_owned(), good)]);
    for status in refusals {
        responses.insert(status.to_string(), json!({"$ref": format!("#/components/responses/{status}")}));
    }
    responses.into()
}

/// What may be asked about an account that the list names.
fn links(verbs: &[Verb]) -> Value {
    let about = verbs.iter().filter(|verb| verb.path.contains("{account}"));
    let link = |verb: &Verb| {
        let link = json!({"operationId": verb.name, "parameters": {"account": "$response.body#/accounts/0/id"}});
        (verb.name.replace('.', "-"), link)
    };
    about.map(link).collect::<Map<_, _>>().into()
}

fn followed(schemas: &mut SchemaGenerator) -> Value {
    let event = schemas.subschema_for::<EventView>();
    let none = Map::new();
    let wanted = params_of::<events::Wanted>();
    let wanted = wanted["properties"].as_object().unwrap_or(&none).iter();
    let mut parameters: Vec<_> = wanted.map(|(name, schema)| parameter(name, "query", false, schema)).collect();
    let number = json!({"type": "integer", "minimum": 0});
    let mut last = parameter("last-event-id", "header", false, &number);
    last["description"] = "The number of the last event that was seen".into();
    parameters.push(last);
    let what = "Server-sent events without an end: `id` is an event's number, `data` the event; `event: gap` says that \
                some before the next are missing";
    let good = json!({"description": what, "content": {"text/event-stream": {"schema": {"type": "string"},
        "x-data": event}}});
    json!({"operationId": "events", "summary": "Everything that happens, as it happens", "tags": ["events"],
        "x-duduclaw-access": "read", "parameters": parameters, "responses": responses(good, [&ANY[..], &[409]].concat())})
}

fn described() -> Value {
    let good = json!({"description": "The document", "content": {"application/json": {"schema": {"type": "object"}}}});
    json!({"operationId": "openapi", "summary": "This document", "tags": ["openapi"], "x-duduclaw-access": "read",
        "responses": responses(good, ANY.to_vec())})
}

fn rpc(verbs: &[Verb]) -> Value {
    let names: Vec<_> = verbs.iter().map(|verb| verb.name).collect();
    let request = json!({
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "method": {"enum": names},
            "params": {"type": "object", "description": "What the verb takes, by name"},
            "id": {"type": ["string", "number", "null"], "description": "Left out, it is a notification"},
        },
    });
    let body =
        json!({"oneOf": [request, {"type": "array", "items": request, "minItems": 1, "description": "At most 100"}]});
    let single = json!({"type": "object", "required": ["jsonrpc", "id"], "properties": {
        "jsonrpc": {"const": "2.0"}, "id": {}, "result": {},
        "error": {"type": "object", "required": ["code", "message"], "properties": {
            "code": {"type": "integer"}, "message": {"type": "string"}, "data": {"type": "object"}}},
    }});
    let answer = json!({"oneOf": [single, {"type": "array", "items": single}]});
    let good = json!({"description": "What each request came to, refusals too",
        "content": {"application/json": {"schema": answer}}});
    let mut responses = responses(good, [ANY.as_slice(), &WITH_BODY].concat());
    responses["204"] = json!({"description": "There were notifications only"});
    responses["403"] = json!({"description": "The token may only read, and the one request changes something; or a web \
        page of another origin asks", "content": {"application/json": {"schema": {"type": "object"}}}});
    json!({"operationId": "rpc", "summary": "Every verb as JSON-RPC 2.0", "tags": ["rpc"],
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}}, "responses": responses})
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn every_verb_stands_in_the_document_under_its_path_with_what_it_may_be_refused_with() {
        let verbs = table::verbs();
        let document = document(&verbs);
        for verb in &verbs {
            let path = format!("{}{}", rest::BASE, verb.path);
            let operation = &document["paths"][&path][verb.method.as_str().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], verb.name);
            for status in [ANY.as_slice(), verb.refusals].concat() {
                assert!(operation["responses"][status.to_string()].is_object(), "{}: {status}", verb.name);
                assert!(document["components"]["responses"][status.to_string()].is_object(), "{status}");
            }
        }
        assert!(document["components"]["schemas"]["PoolView"].is_object());
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document(&table::verbs());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let to = document.pointer(reference.strip_prefix('#').expect("inside the document"));
            assert!(to.is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn no_schema_has_a_key_that_says_nothing() {
        fn look(value: &Value, at: &str) {
            match value {
                Value::Null => assert!(["default", "const"].contains(&at), "{at} is null"),
                Value::Object(map) => map.iter().for_each(|(key, value)| look(value, key)),
                Value::Array(list) => list.iter().for_each(|value| look(value, "item")),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        look(&document(&table::verbs()), "document");
    }

    #[test]
    fn names_of_verbs_and_their_places_are_unique() {
        let verbs = table::verbs();
        for (at, verb) in verbs.iter().enumerate() {
            let others = &verbs[at + 1..];
            assert!(others.iter().all(|o| o.name != verb.name && (o.path != verb.path || o.method != verb.method)));
        }
    }
}
