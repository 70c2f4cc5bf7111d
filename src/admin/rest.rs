//! The first door: a verb by its HTTP method and path, its parameters from path, query and body.
//!
//! All of them become one JSON object, the same that JSON-RPC takes. Never here: what a verb does.

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::verb::Verb;

/// Where the verbs' paths begin.
pub(super) const BASE: &str = "/admin/api";

/// The verb of a method and path, with the parameters that stand in the path.
pub(super) fn find<'v>(
    verbs: &'v [Verb],
    method: &Method,
    path: &str,
) -> Result<(&'v Verb, Map<String, Value>), Fault> {
    let nothing = || Fault::new(FaultKind::NotFound, "the control API has nothing at this path").hint(HINT);
    let rest = path.strip_prefix(BASE).ok_or_else(nothing)?;
    let mut there = Vec::new();
    for verb in verbs {
        let Some(found) = fit(verb.path, rest)? else { continue };
        if verb.method == *method {
            return Ok((verb, found));
        }
        there.push(verb.method.as_str());
    }
    if there.is_empty() { Err(nothing()) } else { Err(refused(there.join(", "))) }
}

const HINT: &str = "GET /admin/api/openapi.json describes what there is; the slash of provider/name is written %2F";

/// The refusal of a method where only these are answered.
pub(super) fn refused(allowed: String) -> Fault {
    Fault::new(FaultKind::Method(allowed.clone()), format!("this path answers {allowed} only"))
}

/// The parameters in a path, if it has this shape.
fn fit(shape: &str, path: &str) -> Result<Option<Map<String, Value>>, Fault> {
    let (wanted, given): (Vec<_>, Vec<_>) = (shape.split('/').collect(), path.split('/').collect());
    let mut found = Map::new();
    if wanted.len() != given.len() {
        return Ok(None);
    }
    for (wanted, given) in wanted.into_iter().zip(given) {
        match parameter(wanted) {
            Some(name) if !given.is_empty() => {
                found.insert(name.to_owned(), Value::String(decoded(given)?));
            }
            None if wanted == given => {}
            Some(_) | None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The name of the parameter that a segment of a shape stands for.
pub(super) fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

fn decoded(segment: &str) -> Result<String, Fault> {
    let text = percent_decode_str(segment).decode_utf8();
    text.map(Into::into).map_err(|_| Fault::invalid("the path is not UTF-8"))
}

/// Adds what stands in the query. The schema says which values are numbers.
pub(super) fn add_query(schema: &Value, query: &str, params: &mut Map<String, Value>) -> Result<(), Fault> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (form_decoded(name)?, form_decoded(value)?);
        let value = typed(&schema["properties"][&name], value);
        add(params, name, value)?;
    }
    Ok(())
}

/// Adds what stands in the body.
pub(super) fn add_body(body: Value, params: &mut Map<String, Value>) -> Result<(), Fault> {
    let Value::Object(given) = body else {
        return Err(Fault::invalid("the body must be a JSON object"));
    };
    given.into_iter().try_for_each(|(name, value)| add(params, name, value))
}

fn add(params: &mut Map<String, Value>, name: String, value: Value) -> Result<(), Fault> {
    if params.contains_key(&name) {
        return Err(Fault::invalid(format!("the parameter {name:?} is given twice")));
    }
    params.insert(name, value);
    Ok(())
}

fn form_decoded(text: &str) -> Result<String, Fault> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(Into::into).map_err(|_| Fault::invalid("the query is not UTF-8"))
}

/// A number or truth value where the schema wants one and the text is one; else the text, which the verb then refuses.
fn typed(schema: &Value, text: String) -> Value {
    let types = &schema["type"];
    let wants = |name: &str| types == name || types.as_array().is_some_and(|types| types.iter().any(|t| t == name));
    if !["integer", "number", "boolean"].iter().any(|name| wants(name)) {
        return Value::String(text);
    }
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        Ok(_) | Err(_) => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn found(method: &Method, path: &str) -> Result<(&'static str, Value), Fault> {
        find(&table::verbs(), method, path).map(|(verb, params)| (verb.name, Value::Object(params)))
    }

    #[test]
    fn a_verb_is_found_by_method_and_path_with_the_name_in_it() {
        let pause = |path: &str| found(&Method::POST, path);
        assert_eq!(
            pause("/admin/api/accounts/work/pause"),
            Ok(("accounts.pause", serde_json::json!({"account": "work"})))
        );
        assert_eq!(
            pause("/admin/api/accounts/anthropic%2Fw%20k/pause").map(|(_, params)| params["account"].clone()),
            Ok("anthropic/w k".into())
        );
        for path in ["/admin/api/accounts//pause", "/admin/api/accounts/a/b/pause", "/admin/api", "/admin/api/", "/rpc"]
        {
            assert_eq!(pause(path).map_err(|fault| fault.kind), Err(FaultKind::NotFound), "{path}");
        }
    }

    #[test]
    fn another_method_is_told_the_right_ones() {
        let why = found(&Method::PATCH, "/admin/api/pool").expect_err("it does not stand");
        assert_eq!(why.kind, FaultKind::Method("GET".to_owned()));
    }

    #[test]
    fn numbers_in_a_query_are_numbers_where_the_verb_wants_them() {
        let schema = serde_json::json!({"type": ["integer", "null"]});
        assert_eq!(typed(&schema, "12".to_owned()), 12);
        assert_eq!(typed(&schema, "x".to_owned()), "x");
        assert_eq!(typed(&serde_json::json!({"type": "string"}), "12".to_owned()), "12");
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        let mut params = Map::new();
        add_body(serde_json::json!({"account": "a"}), &mut params).expect("once");
        assert!(add_body(serde_json::json!({"account": "b"}), &mut params).is_err());
        assert!(add_body(serde_json::json!([1]), &mut Map::new()).is_err());
    }
}
