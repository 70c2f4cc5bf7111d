//! What a log line looks like: one JSON object, or words for people.
//!
//! An event of the fleet comes as a field named `event`, which holds it as JSON, since no two kinds of event have the
//! same fields. Its members become fields of the line; one whose name the line has already is called `event_` and that.
//!
//! Never here: which lines are written, and where to.

use std::fmt;

use serde::Serializer as _;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The field that holds an event.
const EVENT: &str = "event";
/// What a person reads in the message, and in the level.
const SAID: [&str; 2] = ["kind", "severity"];
/// The field that a line's text comes in.
const MESSAGE: &str = "message";

/// The keys that every line has.
const OWN: [&str; 4] = ["timestamp", "level", MESSAGE, "target"];

/// Lines of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json;

/// The fields of lines for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let line = json(&time, event, Fields::of(|fields| event.record(fields))).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

fn json(time: &str, event: &Event<'_>, fields: Fields) -> serde_json::Result<String> {
    let mut line = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut line);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timestamp", time)?;
    map.serialize_entry("level", event.metadata().level().as_str())?;
    map.serialize_entry(MESSAGE, &fields.message)?;
    let mut taken: Vec<String> = OWN.iter().map(|name| (*name).to_owned()).collect();
    for (name, value) in fields.fields.into_iter().chain(fields.event) {
        let name = free(name, &taken);
        map.serialize_entry(&name, &value)?;
        taken.push(name);
    }
    map.serialize_entry("target", event.metadata().target())?;
    map.end()?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// A key that the line has not yet: one of the same name as another is called the event's.
fn free(mut name: String, taken: &[String]) -> String {
    while taken.contains(&name) {
        name.insert_str(0, "event_");
    }
    name
}

impl<'w> FormatFields<'w> for Plain {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let Fields { message, fields, event } = Fields::of(|all| fields.record(all));
        write!(writer, "{message}")?;
        let news = |(name, value): &(String, Value)| !SAID.contains(&name.as_str()) && !value.is_null();
        for (name, value) in fields.into_iter().chain(event).filter(news) {
            write!(writer, " {name}={}", word(&value))?;
        }
        Ok(())
    }
}

/// A value as people read it: an account by its name, no quotes around a word.
fn word(value: &Value) -> String {
    let part = |name: &str| value.get(name).and_then(Value::as_str);
    match (value, part("provider").zip(part("name"))) {
        (_, Some((provider, name))) => format!("{provider}/{name}"),
        (Value::String(text), None) if !text.contains(' ') => text.clone(),
        (other, None) => other.to_string(),
    }
}

/// What a line says.
#[derive(Default)]
struct Fields {
    message: String,
    fields: Vec<(String, Value)>,
    event: Map<String, Value>,
}

impl Fields {
    fn of(record: impl FnOnce(&mut Self)) -> Self {
        let mut fields = Self::default();
        record(&mut fields);
        fields
    }

    fn take(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name().to_owned(), value));
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            EVENT => self.event = serde_json::from_str(value).unwrap_or_default(),
            MESSAGE => value.clone_into(&mut self.message),
            _ => self.take(field, value.into()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            MESSAGE => self.message = text,
            _ => self.take(field, text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("one thread").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Sink {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("one thread").clone()).expect("text")
        }
    }

    fn tell() {
        let event = r#"{"from":{"name":"a","provider":"anthropic"},"kind":"failed_over","times":2,"why":"quota"}"#;
        let nobody: Option<&str> = None;
        tracing::info!(seq = 7, severity = "info", account = "anthropic/b", request_id = nobody, event, "failed over");
        tracing::warn!(error = %"it \"broke\"", "a connection");
    }

    fn json_lines() -> Vec<Value> {
        let sink = Sink::default();
        let subscriber = tracing_subscriber::fmt().with_writer(sink.clone()).event_format(Json).finish();
        tracing::subscriber::with_default(subscriber, tell);
        sink.text().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    #[test]
    fn what_happened_is_in_fields_of_the_line() {
        let lines = json_lines();
        let line = lines[0].as_object().expect("an object");
        let of = |name: &str| line.get(name).cloned().unwrap_or_default();
        assert_eq!((of("kind"), of("why"), of("times")), ("failed_over".into(), "quota".into(), 2.into()));
        assert_eq!(of("from")["name"], "a");
        assert_eq!((of("message"), of("level"), of("seq")), ("failed over".into(), "INFO".into(), 7.into()));
        assert_eq!(of("account"), "anthropic/b");
        assert!(!line.contains_key("request_id") && !line.contains_key("event"), "{line:?}");
        assert!(of("timestamp").as_str().is_some_and(|at| at.starts_with("20") && at.ends_with('Z')), "{line:?}");
    }

    /// What an event calls its own is never lost behind a key of the line, whichever that is.
    #[test]
    fn no_line_has_a_key_twice() {
        let names = ["timestamp", "level", "message", "target", "seq", "severity", "account", "request_id", "kind"];
        let event: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), format!("its {name}").into())).collect();
        let event = Value::from(event).to_string();
        let sink = Sink::default();
        let subscriber = tracing_subscriber::fmt().with_writer(sink.clone()).event_format(Json).finish();
        tracing::subscriber::with_default(subscriber, || {
            let event = event.as_str();
            tracing::info!(seq = 7, severity = "info", account = "anthropic/b", request_id = "r", event, "said");
            tracing::info!(level = "of a field", "said");
        });
        let text = sink.text();
        for line in text.lines() {
            let parsed: Map<String, Value> = serde_json::from_str(line).expect("a line of JSON");
            for name in parsed.keys() {
                assert_eq!(line.matches(&format!("\"{name}\":")).count(), 1, "{name}: {line}");
            }
        }
        let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        for name in &names[..8] {
            assert_eq!(first[format!("event_{name}")], format!("its {name}"), "{text}");
        }
        assert_eq!((&first["target"], &first["kind"]), (&module_path!().into(), &"its kind".into()));
        assert!(text.contains("\"event_level\":\"of a field\""), "{text}");
    }

    #[test]
    fn any_other_line_has_its_own_fields() {
        let lines = json_lines();
        assert_eq!((&lines[1]["message"], &lines[1]["error"]), (&"a connection".into(), &"it \"broke\"".into()));
        assert_eq!(lines[1]["target"], module_path!());
    }

    #[test]
    fn people_read_words() {
        let sink = Sink::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(sink.clone()).with_ansi(false).fmt_fields(Plain).finish();
        tracing::subscriber::with_default(subscriber, tell);
        let text = sink.text();
        let lines: Vec<&str> = text.lines().collect();
        let told = "failed over seq=7 account=anthropic/b from=anthropic/a times=2 why=quota";
        assert!(lines[0].ends_with(told), "{text}");
        assert!(lines[1].ends_with(r#"a connection error="it \"broke\"""#), "{text}");
    }
}
