//! All texts of a stored account's file, each with the way to it: the names of its tables and its own, joined by dots,
//! by which it is sealed.
//!
//! Never here: which of them are secrets.

use serde_json::Value;

/// Looks at each text of a document; what fails ends it.
pub(crate) fn each_text<E>(root: &Value, look: &mut impl FnMut(&str, &str) -> Result<(), E>) -> Result<(), E> {
    walk(root, &mut String::new(), look)
}

fn walk<E>(value: &Value, way: &mut String, look: &mut impl FnMut(&str, &str) -> Result<(), E>) -> Result<(), E> {
    match value {
        Value::String(text) => look(way, text),
        Value::Object(table) => table.iter().try_for_each(|(name, value)| {
            let above = way.len();
            if !way.is_empty() {
                way.push('.');
            }
            way.push_str(name);
            let looked = walk(value, way, look);
            way.truncate(above);
            looked
        }),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_text_is_met_once_by_the_way_to_it() {
        let document = json!({"a": {"b": "1", "c": {"d": "2"}}, "e": "3", "f": ["4"], "g": 5, "h": "5"});
        let mut met = Vec::new();
        let looked = each_text(&document, &mut |way, text| {
            met.push(format!("{way}={text}"));
            if way == "e" { Err(()) } else { Ok(()) }
        });
        assert_eq!((met.join(" ").as_str(), looked), ("a.b=1 a.c.d=2 e=3", Err(())));
    }
}
