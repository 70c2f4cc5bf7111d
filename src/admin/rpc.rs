//! The second door: JSON-RPC 2.0. A request, a batch of them, notifications; errors by the standard's codes, with our
//! kind, status and hint in `data`.
//!
//! Never here: what a verb does.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::Fault;

/// The text is no JSON.
const PARSE_ERROR: i64 = -32700;
/// It is JSON, and no request.
const INVALID_REQUEST: i64 = -32600;
/// There is no verb of this name.
const METHOD_NOT_FOUND: i64 = -32601;
/// Most requests in one batch.
const BATCH_MAX: usize = 100;

/// What a body holds.
#[derive(Debug)]
pub(super) enum Message {
    /// One request.
    Single(Item),
    /// Several, answered together.
    Batch(Vec<Item>),
    /// Nothing that can be answered one by one: this is the answer.
    Hopeless(Value),
}

/// One thing that may be a request.
#[derive(Debug)]
pub(super) enum Item {
    /// It is one.
    Request(Request),
    /// It is not: this is the answer.
    Wrong(Value),
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// What its answer is to be told apart by; none for a notification, which gets no answer.
    pub(super) id: Option<Value>,
    /// The verb.
    pub(super) method: String,
    /// What it takes.
    pub(super) params: Params,
}

/// A request's parameters.
#[derive(Debug)]
pub(super) enum Params {
    /// By name.
    Named(Map<String, Value>),
    /// By position, which no verb takes.
    Positional,
}

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Message {
    match serde_json::from_slice(body) {
        Err(error) => Message::Hopeless(error_answer(&Value::Null, PARSE_ERROR, &format!("this is no JSON: {error}"))),
        Ok(Value::Array(items)) if items.is_empty() => Message::Hopeless(invalid(&Value::Null, "the batch is empty")),
        Ok(Value::Array(items)) if items.len() > BATCH_MAX => {
            Message::Hopeless(invalid(&Value::Null, &format!("a batch may have {BATCH_MAX} requests")))
        }
        Ok(Value::Array(items)) => Message::Batch(items.into_iter().map(item).collect()),
        Ok(one) => Message::Single(item(one)),
    }
}

fn item(value: Value) -> Item {
    #[derive(Deserialize)]
    struct Written {
        jsonrpc: Value,
        method: String,
        #[serde(default)]
        params: Value,
    }
    let id = value.get("id").cloned();
    let known = match &id {
        None | Some(Value::Null | Value::String(_) | Value::Number(_)) => id.clone().unwrap_or(Value::Null),
        Some(_) => return Item::Wrong(invalid(&Value::Null, "id must be text, a number or null")),
    };
    let wrong = |why: &str| Item::Wrong(invalid(&known, why));
    if !value.is_object() {
        return wrong("a request is a JSON object");
    }
    let Ok(Written { jsonrpc, method, params }) = serde_json::from_value(value) else {
        return wrong("a request has jsonrpc and a method");
    };
    if jsonrpc != "2.0" {
        return wrong("jsonrpc must be \"2.0\"");
    }
    let params = match params {
        Value::Null => Params::Named(Map::new()),
        Value::Object(named) => Params::Named(named),
        Value::Array(list) if list.is_empty() => Params::Named(Map::new()),
        Value::Array(_) => Params::Positional,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => return wrong("params must be an object"),
    };
    Item::Request(Request { id, method, params })
}

/// The answer that gives a result.
pub(super) fn result_answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The answer to a request that names no verb.
pub(super) fn no_such_method(id: &Value, method: &str) -> Value {
    error_answer(id, METHOD_NOT_FOUND, &format!("there is no method {method:?}"))
}

/// The answer that tells a verb's refusal.
pub(super) fn fault_answer(id: &Value, fault: &Fault, request_id: &str) -> Value {
    let data = json!({
        "type": fault.kind.as_str(), "status": fault.kind.status().as_u16(), "hint": fault.hint, "request_id": request_id,
    });
    let error = json!({"code": fault.kind.code(), "message": fault.message, "data": data});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

fn invalid(id: &Value, why: &str) -> Value {
    error_answer(id, INVALID_REQUEST, why)
}

fn error_answer(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(body: &str) -> i64 {
        let (Message::Hopeless(answer) | Message::Single(Item::Wrong(answer))) = read(body.as_bytes()) else {
            panic!("{body} is taken for a request")
        };
        assert_eq!(answer["jsonrpc"], "2.0");
        answer["error"]["code"].as_i64().expect("a code")
    }

    #[test]
    fn what_is_no_json_no_request_or_no_batch_is_told_by_the_standards_codes() {
        for body in ["", "{", "[1,", "{\"jsonrpc\": \"2.0\", \"method\": \"foobar, \"params\": \"bar\", \"baz]"] {
            assert_eq!(code_of(body), PARSE_ERROR, "{body}");
        }
        for body in [
            "[]",
            "1",
            "\"pool\"",
            "{}",
            "{\"method\": \"pool\"}",
            "{\"jsonrpc\": \"1.0\", \"method\": \"pool\"}",
            "{\"jsonrpc\": \"2.0\", \"method\": 1, \"params\": \"bar\"}",
            "{\"jsonrpc\": \"2.0\", \"method\": \"pool\", \"params\": 1}",
            "{\"jsonrpc\": \"2.0\", \"method\": \"pool\", \"id\": {}}",
        ] {
            assert_eq!(code_of(body), INVALID_REQUEST, "{body}");
        }
        assert_eq!(code_of(&format!("[{}1]", "1,".repeat(BATCH_MAX))), INVALID_REQUEST);
    }

    #[test]
    fn a_request_without_an_id_is_a_notification_and_one_with_null_is_not() {
        let id = |body: &str| {
            let Message::Single(Item::Request(request)) = read(body.as_bytes()) else { panic!("{body} is a request") };
            request.id
        };
        assert_eq!(id("{\"jsonrpc\": \"2.0\", \"method\": \"pool\"}"), None);
        assert_eq!(id("{\"jsonrpc\": \"2.0\", \"method\": \"pool\", \"id\": null}"), Some(Value::Null));
        assert_eq!(id("{\"jsonrpc\": \"2.0\", \"method\": \"pool\", \"id\": \"x\"}"), Some("x".into()));
    }

    #[test]
    fn a_wrong_item_of_a_batch_leaves_the_others_alone() {
        let Message::Batch(items) = read(b"[1, {\"jsonrpc\": \"2.0\", \"method\": \"pool\", \"id\": 1}]") else {
            panic!("it is a batch")
        };
        assert!(matches!(&items[0], Item::Wrong(answer) if answer["id"].is_null()));
        assert!(matches!(&items[1], Item::Request(request) if request.method == "pool"));
    }
}
