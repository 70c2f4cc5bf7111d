use super::*;
use crate::config::raw::Raw;
use crate::config::surroundings::fake::Fake;

fn problems(text: &str, machine: &Fake) -> String {
    let mut document = match Document::parse(text, "c.toml") {
        Ok(document) => document,
        Err(problem) => return problem.to_string(),
    };
    let mut all = document.overlay(machine);
    all.extend(document.read::<Raw>().1);
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_syntax_error_names_its_line_and_does_not_quote_it() {
    let text = "[server]\nbind = \"127.0.0.1:1\"\ntoken = sk-ant-oat01-canary\n";
    let said = problems(text, &Fake::default());
    assert!(said.starts_with("error: c.toml:3: this is not valid TOML"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn every_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = "
[server]
bimd = \"127.0.0.1:1\"
[servr]
[[providers.anthropic.accounts]]
name = \"a\"
[[providers.anthropic.accounts]]
treshold = 0.5
[[upstreams]]
auth = { mode = \"none\", acount = \"a\" }
[log]
colour = \"red\"
";
    insta::assert_snapshot!(problems(text, &Fake::default()), @r#"
    error: c.toml:3: unknown key "bimd" in [server]; did you mean "bind"?
    error: c.toml:4: unknown key "servr"; did you mean "server"?
    error: c.toml:8: unknown key "treshold" in [providers.anthropic.accounts[1]]; did you mean "threshold"?
    error: c.toml:10: unknown key "acount" in [upstreams[0].auth]; did you mean "account"?
    error: c.toml:12: unknown key "colour" in [log]; known here: level, format
    "#);
}

#[test]
fn every_value_of_a_wrong_type_is_named() {
    let text = "
[server]
max_concurrent_requests = -1
expose_accounts = \"yes\"
sse_keepalive_seconds = -3
hosts = [\"a\", 5]
[server.timeouts]
upstream_ttfb = 120
stream_idle = \"2 minutes\"
[rotation]
strategy = \"round-robin\"
[providers.a]
kind = \"sk-ant-oat01-canary\"
accounts = 5
";
    let said = problems(text, &Fake::default());
    insta::assert_snapshot!(said, @r#"
    error: c.toml:3: server.max_concurrent_requests: expected a whole number, 0 or more, found -1
    error: c.toml:4: server.expose_accounts: expected true or false, found a string
    error: c.toml:5: server.sse_keepalive_seconds: expected a number of seconds, 0 or more, or a duration such as "30s", "2m", "1h30m" or "500ms", found -3
    error: c.toml:6: server.hosts[1]: expected a string, found 5
    error: c.toml:8: server.timeouts.upstream_ttfb: expected a duration such as "30s", "2m", "1h30m" or "500ms", found 120
    error: c.toml:9: server.timeouts.stream_idle: expected a duration such as "30s", "2m", "1h30m" or "500ms"
    error: c.toml:11: rotation.strategy: unknown value "round-robin"; one of round_robin, priority, least_cost, failover; did you mean "round_robin"?
    error: c.toml:13: providers.a.kind: unknown value (not shown); one of anthropic, responses, chat, gemini
    error: c.toml:14: providers.a.accounts: expected an array, found 5
    "#);
    assert!(!said.contains("canary"));
}

#[test]
fn a_variable_lays_over_the_file_and_problems_name_it() {
    let machine = Fake::default()
        .with_var("DUDUCLAW_SERVER__MAX_CONCURRENT_REQUESTS", "7")
        .with_var("DUDUCLAW_PROVIDERS__MY_POOL__BASE_URL", "http://127.0.0.1:9")
        .with_var("DUDUCLAW_SERVER__BIND", "[\"127.0.0.1:1\", \"127.0.0.1:2\"]")
        .with_var("DUDUCLAW_SERVER__EXPOSE_ACCOUNTS", "canary")
        .with_var("DUDUCLAW_SERVER__BIMD", "canary")
        .with_var("DUDUCLAW_MODELS__ID", "x")
        .with_var("DUDUCLAW_CLIENT_TOKENS", "not a key");
    let text = "models = []\n[server]\nmax_concurrent_requests = 1\n[providers.my-pool]\nbase_url = \"x\"\n";
    let mut document = Document::parse(text, "c.toml").expect("it parses");
    let laid = document.overlay(&machine);
    let (raw, read) = document.read::<Raw>();
    let server = raw.server.expect("server").value;
    assert_eq!(server.max_concurrent_requests.as_deref(), Some(&7));
    assert_eq!(server.bind.expect("bind").0.len(), 2);
    let providers = raw.providers.expect("providers").value.0;
    assert_eq!(providers.len(), 1);
    assert_eq!(providers[0].1.base_url.as_deref().map(String::as_str), Some("http://127.0.0.1:9"));
    let said: Vec<_> = laid.iter().chain(&read).map(ToString::to_string).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    error: $DUDUCLAW_MODELS__ID: this variable points into something that is no table; set the whole value instead
    error: $DUDUCLAW_SERVER__BIMD: unknown key "bimd" in [server]; did you mean "bind"?
    error: $DUDUCLAW_SERVER__EXPOSE_ACCOUNTS: server.expose_accounts: expected true or false
    "#);
}

#[test]
fn a_reference_stands_for_a_whole_value_of_any_type() {
    let machine = Fake::default().with_var("N", "12").with_file("/run/host", "gw.example\n");
    let text = "
[server]
max_concurrent_requests = \"${N}\"
default_provider = \"$${N}\"
hosts = [\"${file:/run/host}\", \"a${N}\"]
";
    let mut document = Document::parse(text, "c.toml").expect("it parses");
    let warned = document.overlay(&machine);
    let (raw, read) = document.read::<Raw>();
    assert!(read.is_empty());
    let server = raw.server.expect("server").value;
    assert_eq!(server.max_concurrent_requests.as_deref(), Some(&12));
    assert_eq!(server.default_provider.as_deref().map(String::as_str), Some("${N}"));
    assert_eq!(*server.hosts.expect("hosts"), ["gw.example", "a${N}"]);
    assert_eq!(warned.len(), 1);
}

#[test]
fn a_reference_to_nothing_is_named_and_what_it_holds_is_never_shown() {
    let machine =
        Fake::default().with_var("SECRET", "canary").with_failing_file("/x", std::io::ErrorKind::PermissionDenied);
    let text = "
[server]
max_concurrent_requests = \"${SECRET}\"
default_provider = \"${UNSET}\"
account_header = \"${file:relative}\"
hosts = [\"${file:/x}\"]
quota_headers = \"${SECRET}\"
";
    let said = problems(text, &machine);
    insta::assert_snapshot!(said, @r#"
    error: c.toml:4: the variable UNSET is not set; set it
    error: c.toml:5: ${file:relative} needs an absolute path
    error: c.toml:6: cannot read /x: permission denied
    error: c.toml:3: server.max_concurrent_requests: expected a whole number
    error: c.toml:7: server.quota_headers: the value is none of those known here
    "#);
    assert!(!said.contains("canary"));
}

#[test]
fn providers_keep_the_order_of_the_file() {
    let text = "[providers.zebra]\n[providers.ant]\n[server]\n[providers.mole]\n[[providers.ant.accounts]]\n";
    let (raw, _) = Document::parse(text, "c.toml").expect("it parses").read::<Raw>();
    let names: Vec<_> = raw.providers.expect("providers").value.0.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["zebra", "ant", "mole"]);
}

impl Document {
    /// The keys that `T` knows in the tables of this document, but that stand in none of those tables.
    pub(in crate::config) fn keys_not_used<T: DeserializeOwned + Default>(&mut self) -> Vec<String> {
        let mut tables = Vec::new();
        table_paths(&self.root, &mut Vec::new(), &mut tables);
        let mut known: std::collections::BTreeMap<Vec<String>, (Vec<&str>, Vec<String>)> = Default::default();
        for path in tables {
            let Some(keys) = self.probe::<T>(&path) else { continue };
            let names = path.iter().filter_map(|segment| match segment {
                Segment::Key(key) => Some(key.clone()),
                Segment::Index(_) => None,
            });
            let mut shape: Vec<String> = names.collect();
            if shape.len() > 1 && ["providers", "runtimes"].contains(&shape[0].as_str()) {
                shape[1] = "*".to_owned();
            }
            if shape == ["upstreams", "auth", "accounts"] {
                shape = ["providers", "*", "accounts"].map(str::to_owned).to_vec();
            }
            let entry = known.entry(shape).or_default();
            entry.0 = keys.to_vec();
            let Value::Table(entries) = &self.at(&path).value else { continue };
            entry.1.extend(entries.iter().map(|entry| entry.key.clone()));
        }
        assert!(known.len() > 20, "too few tables were found: {known:?}");
        let missing = known.into_iter().flat_map(|(shape, (keys, used))| {
            let unused = keys.into_iter().filter(move |key| !used.iter().any(|used| used == key));
            unused.map(move |key| format!("{}.{key}", shape.join("."))).collect::<Vec<_>>()
        });
        missing.collect()
    }

    /// What is known in the table at this path, told by the error that a stray key makes.
    fn probe<T: DeserializeOwned>(&mut self, path: &[Segment]) -> Option<&'static [&'static str]> {
        let stray = Node { mark: Mark(0), value: Value::Flag(true) };
        let Value::Table(entries) = &mut self.at(path).value else { return None };
        entries.insert(0, Entry { key: "stray key".to_owned(), mark: Mark(0), node: stray });
        let known = T::deserialize(&self.root).err().and_then(|fault| fault.known_keys());
        let Value::Table(entries) = &mut self.at(path).value else { return None };
        entries.remove(0);
        known
    }

    fn at(&mut self, path: &[Segment]) -> &mut Node {
        path.iter().fold(&mut self.root, |node, segment| match (segment, &mut node.value) {
            (Segment::Key(key), Value::Table(entries)) => {
                &mut entries.iter_mut().find(|entry| entry.key == *key).expect("a key of the path").node
            }
            (Segment::Index(index), Value::List(items)) => &mut items[*index],
            _ => panic!("no such path"),
        })
    }
}

fn table_paths(node: &Node, path: &mut Vec<Segment>, found: &mut Vec<Vec<Segment>>) {
    match &node.value {
        Value::Table(entries) => {
            found.push(path.clone());
            for entry in entries {
                path.push(Segment::Key(entry.key.clone()));
                table_paths(&entry.node, path, found);
                path.pop();
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Segment::Index(index));
                table_paths(item, path, found);
                path.pop();
            }
        }
        Value::Text(_) | Value::Loose(_) | Value::Whole(_) | Value::Fraction(_) | Value::Flag(_) => {}
    }
}
