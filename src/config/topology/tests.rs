use std::collections::BTreeMap;

use super::*;
use crate::config::surroundings::fake::Fake;
use crate::config::tests::nothing_known;
use crate::config::{Loaded, Named, load};

/// A fleet from text, with these names in the store and these facts per source file or variable.
struct Bench {
    text: String,
    stored: Vec<String>,
    facts: BTreeMap<String, IdentityFacts>,
    ids: Ids,
}

impl Bench {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), stored: Vec::new(), facts: BTreeMap::new(), ids: Ids::default() }
    }

    fn storing(mut self, names: &[&str]) -> Self {
        self.stored = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn knowing(mut self, source: &str, uuid: &str, organization: Option<&str>) -> Self {
        let facts =
            IdentityFacts { uuid: Some(uuid.to_owned()), organization: organization.map(str::to_owned), kind: None };
        self.facts.insert(source.to_owned(), facts);
        self
    }

    fn load(&mut self) -> Loaded {
        let machine = Fake::default().with_file("/c.toml", &self.text);
        let named = Named { home: Some("/h".into()), config: Some("/c.toml".into()) };
        let names = |_: Family, _: &Path| Ok(self.stored.clone());
        let facts = |_: &EntryId, source: &SecretSource| match source {
            SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => {
                self.facts.get(&path.display().to_string()).cloned().unwrap_or_default()
            }
            SecretSource::TokenEnv(name) | SecretSource::ApiKeyEnv(name) => {
                self.facts.get(name).cloned().unwrap_or_default()
            }
            SecretSource::Keychain { .. } | SecretSource::None => IdentityFacts::default(),
        };
        load(&named, &machine, Lookups { names: &names, facts: &facts }, &mut self.ids)
    }

    fn topology(&mut self) -> Arc<Topology> {
        let loaded = self.load();
        loaded.ready.unwrap_or_else(|| panic!("{:?}", loaded.report.problems)).topology
    }
}

fn accounts_of(topology: &Topology, element: &str) -> Vec<String> {
    let element = topology.elements().iter().find(|e| &*e.name == element).expect("the element");
    let entries = element.accounts.iter().map(|id| topology.representative(*id).expect("an entry"));
    entries.map(|entry| entry.id.to_string()).collect()
}

fn chain(topology: &Topology, model: &str) -> Result<Vec<(String, String)>, NoRoute> {
    let chain = topology.resolve(model, Protocol::Anthropic)?;
    Ok(chain.steps().map(|step| (step.element.name.to_string(), step.model.to_owned())).collect())
}

fn pairs(expected: &[(&str, &str)]) -> Result<Vec<(String, String)>, NoRoute> {
    Ok(expected.iter().map(|(element, model)| ((*element).to_owned(), (*model).to_owned())).collect())
}

const PINNED: &str = r#"
[server]
default_provider = "anthropic"

[[upstreams]]
name = "anthropic-sonnet55"
provider = "anthropic"
auth = { mode = "claude_oauth", account = "primary" }

[[upstreams]]
name = "anthropic"
provider = "anthropic"
auth = "claude_oauth"

[[models]]
id = "claude-sonnet-5-5"
[models.upstream_model]
anthropic = "claude-sonnet-5-5"
anthropic-sonnet55 = "claude-sonnet-5-5"
"#;

/// One model is pinned to one account, all others use the whole store; the pinned account is one account in both.
#[test]
fn a_pinned_model_goes_to_its_account_first_and_then_to_the_whole_store() {
    let topology = Bench::new(PINNED).storing(&["backup", "primary"]).topology();
    let pinned = [("anthropic-sonnet55", "claude-sonnet-5-5"), ("anthropic", "claude-sonnet-5-5")];
    assert_eq!(chain(&topology, "claude-sonnet-5-5"), pairs(&pinned));
    assert_eq!(chain(&topology, "claude-sonnet-5-5[1m]"), pairs(&pinned));
    assert_eq!(chain(&topology, "claude-opus-5"), pairs(&[("anthropic", "claude-opus-5")]));
    assert_eq!(accounts_of(&topology, "anthropic-sonnet55"), ["anthropic-sonnet55/primary"]);
    assert_eq!(accounts_of(&topology, "anthropic"), ["anthropic/backup", "anthropic-sonnet55/primary"]);
    assert_eq!(topology.accounts().count(), 2);
    let roster = topology.roster();
    assert_eq!(roster.upstreams.len(), 2);
    assert_eq!(&*roster.upstreams[0].provider, "anthropic");
}

/// Without a line for the pool the pin is strict; with another scope the account is kept for that model alone.
#[test]
fn a_pin_is_strict_if_only_the_pinned_upstream_is_mapped() {
    let strict = PINNED.replace("anthropic = \"claude-sonnet-5-5\"\n", "");
    let topology = Bench::new(&strict).storing(&["backup", "primary"]).topology();
    assert_eq!(chain(&topology, "claude-sonnet-5-5"), pairs(&[("anthropic-sonnet55", "claude-sonnet-5-5")]));
    let kept =
        PINNED.replace("\"claude_oauth\"\n", "{ mode = \"claude_oauth\", accounts = [\"backup\", \"team-2\"] }\n");
    let topology = Bench::new(&kept).topology();
    assert_eq!(accounts_of(&topology, "anthropic"), ["anthropic/backup", "anthropic/team-2"]);
}

const TWO: &str = "[providers.a]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"claude_oauth\"\n\
                   [[providers.a.accounts]]\nname = \"one\"\ncredentials = \"/one\"\n[[providers.a.accounts]]\n\
                   name = \"two\"\ncredentials = \"/two\"\npriority = 5\n[[providers.a.accounts]]\nname = \"three\"\n\
                   credentials = \"/three\"\npriority = 5\n";

/// Case C48: the same account id in two organisations is two accounts, as is one whose organisation is unknown.
#[test]
fn one_account_in_two_organisations_is_two_accounts() {
    let topology = Bench::new(TWO)
        .knowing("/one", "u", Some("o-1"))
        .knowing("/two", "u", Some("o-2"))
        .knowing("/three", "u", None)
        .topology();
    assert_eq!(accounts_of(&topology, "a"), ["a/one", "a/two", "a/three"]);
    let organizations: Vec<_> = topology.entries().iter().map(|entry| entry.organization.as_deref()).collect();
    assert_eq!(organizations, [Some("o-1"), Some("o-2"), None]);
}

#[test]
fn entries_of_one_identity_are_one_account_with_the_settings_of_the_first_of_lowest_priority() {
    let same = |bench: Bench| {
        bench.knowing("/one", "u", None).knowing("/two", "u", None).knowing("/three", "u", None).topology()
    };
    assert_eq!(accounts_of(&same(Bench::new(TWO)), "a"), ["a/two"]);
    let off = TWO.replacen("priority = 5", "priority = 5\ndisabled = true", 1);
    let topology = same(Bench::new(&off));
    assert_eq!(accounts_of(&topology, "a"), ["a/three"]);
    let both_off = TWO.replace("priority = 5", "priority = 5\ndisabled = true");
    assert_eq!(accounts_of(&same(Bench::new(&both_off)), "a"), ["a/one"]);
    let account = topology.accounts().next().expect("one");
    assert_eq!(account.entries.len(), 3);
    let spec = &topology.roster().accounts[&account.id];
    assert_eq!((spec.priority, spec.switch, &spec.entry), (5, Switch::On, &topology.entries()[2].id));
}

/// The id in the configuration counts before the one in the credential; a blank one is none.
#[test]
fn a_configured_id_counts_before_the_credentials_own() {
    let text = TWO.replacen("credentials = \"/one\"", "credentials = \"/one\"\nuuid = \"mine\"", 1);
    let topology = Bench::new(&text).knowing("/one", "theirs", Some("o")).knowing("/two", " ", None).topology();
    let identities: Vec<_> = topology.accounts().map(|account| account.identity.clone()).collect();
    let verified =
        IdentityKey::Verified { family: Family::Claude, uuid: "mine".into(), organization: Some("o".into()) };
    assert_eq!(identities[0], verified);
    assert_eq!(identities[1], IdentityKey::Inline { upstream: "a".into(), name: "two".into() });
}

#[test]
fn an_account_that_is_off_in_one_element_serves_the_other() {
    let text =
        PINNED.replace("account = \"primary\"", "accounts = [{ name = \"primary\", disabled = true }, \"backup\"]");
    let topology = Bench::new(&text).storing(&["primary"]).topology();
    assert_eq!(accounts_of(&topology, "anthropic-sonnet55"), ["anthropic-sonnet55/backup"]);
    assert_eq!(accounts_of(&topology, "anthropic"), ["anthropic/primary"]);
    let alone = TWO.replace("credentials = \"/one\"", "credentials = \"/one\"\ndisabled = true");
    let topology = Bench::new(&alone).topology();
    assert_eq!(topology.elements()[0].accounts.len(), 3);
    let first = &topology.roster().accounts[&topology.elements()[0].accounts[0]];
    assert_eq!(first.switch, Switch::Off);
}

/// What is learnt of an account later keeps its id, or names the account that it turned out to be.
#[test]
fn an_account_that_becomes_known_keeps_its_id_or_names_the_other() {
    let mut bench = Bench::new(TWO);
    let before = bench.topology();
    bench = bench.knowing("/one", "u", None);
    let after = bench.topology();
    assert_eq!(before.entries()[0].account, after.entries()[0].account);
    assert_eq!(after.rekeyed.len(), 1);
    assert_eq!(after.rekeyed[0].was, IdentityKey::Inline { upstream: "a".into(), name: "one".into() });
    bench = bench.knowing("/two", "u", None);
    let joined = bench.topology();
    assert_eq!(joined.entries()[1].account, before.entries()[0].account);
    assert_eq!(joined.rekeyed[0].before, before.entries()[1].account);
    assert_eq!(joined.rekeyed[0].now, before.entries()[0].account);
    bench = bench.knowing("/one", "u", Some("o")).knowing("/two", "u", Some("o"));
    let organized = bench.topology();
    assert_eq!(organized.entries()[0].account, before.entries()[0].account);
    assert!(bench.topology().rekeyed.is_empty());
}

/// One entry of an account is told apart by its configuration; the account stays with the others.
#[test]
fn an_account_keeps_its_id_for_the_entries_that_stay() {
    let mut bench = Bench::new(PINNED).storing(&["primary"]);
    let before = bench.topology();
    bench.text = PINNED.replace("account = \"primary\"", "account = { name = \"primary\", uuid = \"other\" }");
    let after = bench.topology();
    assert_eq!(after.entries()[1].account, before.entries()[1].account);
    assert_ne!(after.entries()[0].account, before.entries()[0].account);
    assert!(after.rekeyed.is_empty());
}

#[test]
fn a_pool_that_mixes_subscriptions_and_keys_spends_subscriptions_first_unless_told_otherwise() {
    let mixed = "[providers.a]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nauth = \"claude_oauth\"\n\
                 [[providers.a.accounts]]\nname = \"t\"\ntoken_env = \"T\"\n[[providers.a.accounts]]\nname = \"k\"\n\
                 api_key_env = \"K\"\n";
    let strategy = |text: &str| Bench::new(text).topology().elements()[0].strategy;
    assert_eq!(strategy(mixed), Strategy::LeastCost);
    assert_eq!(strategy(&mixed.replace("api_key_env", "token_env")), Strategy::RoundRobin);
    assert_eq!(strategy(&format!("{mixed}[rotation]\nstrategy = \"priority\"")), Strategy::Priority);
    let own = mixed.replace("auth =", "strategy = \"failover\"\nauth =");
    assert_eq!(strategy(&format!("{own}[rotation]\nstrategy = \"priority\"")), Strategy::Failover);
    let kinds: Vec<_> = Bench::new(mixed).topology().entries().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [CredentialKind::SetupToken, CredentialKind::ApiKey]);
}

const ROUTED: &str = r#"
[providers.codex]
[providers.first]
kind = "anthropic"
base_url = "http://127.0.0.1:1"
[providers.second]
kind = "anthropic"
base_url = "http://127.0.0.1:2"
[[models]]
id = "mapped"
[models.upstream_model]
second = "second-name"
codex = "codex-name"
first = "first-name"
[[models]]
id = "codex-only"
[models.upstream_model]
codex = "c"
[[routes]]
model = "claude-exact"
provider = "second"
[[route_prefixes]]
prefix = "claude-"
provider = "first"
[[route_prefixes]]
prefix = "claude-opus"
provider = "second"
[[route_prefixes]]
prefix = "gpt-"
provider = "codex"
"#;

#[test]
fn maps_come_before_routes_before_prefixes_before_the_default() {
    let topology = Bench::new(ROUTED).topology();
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("mapped", &[("first", "first-name"), ("second", "second-name")]),
        ("claude-exact", &[("second", "claude-exact")]),
        ("claude-exact[1M]", &[("second", "claude-exact")]),
        ("claude-haiku", &[("first", "claude-haiku")]),
        ("claude-opus-5", &[("second", "claude-opus-5")]),
        ("unheard-of", &[("first", "unheard-of")]),
    ];
    for (model, expected) in cases {
        assert_eq!(chain(&topology, model), pairs(expected), "{model}");
    }
    let named = ROUTED.replace("[providers.codex]", "[server]\ndefault_provider = \"second\"\n[providers.codex]");
    assert_eq!(chain(&Bench::new(&named).topology(), "unheard-of"), pairs(&[("second", "unheard-of")]));
}

#[test]
fn a_model_that_no_provider_of_the_protocol_serves_has_no_route_and_it_is_said_why() {
    let topology = Bench::new(ROUTED).topology();
    let why = |model: &str, protocol| topology.resolve(model, protocol).expect_err(model).to_string();
    insta::assert_snapshot!(
        [why("gpt-5.5", Protocol::Anthropic), why("codex-only", Protocol::Anthropic), why("x", Protocol::Gemini)].join("\n"),
        @r#"
    the model "gpt-5.5" is served by "codex", which speaks the responses protocol
    the model "codex-only" is served by "codex", which speaks the responses protocol
    no configured provider speaks the gemini protocol
    "#
    );
}

#[test]
fn elements_that_are_not_built_stay_out_of_the_roster() {
    let topology = Bench::new(ROUTED).topology();
    assert_eq!(topology.elements()[0].usable, Usable::NotBuilt);
    let names: Vec<_> = topology.roster().upstreams.iter().map(|upstream| upstream.name.to_string()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(topology.roster().accounts.len(), 2);
}

#[test]
fn the_table_of_bound_models_may_be_added_to_or_cleared() {
    let text = |binds: &str| {
        format!(
            "{PINNED}[[models]]\nid = \"alias\"\nbinds_thinking = {binds}\n[models.upstream_model]\nanthropic = \"m\"\n"
        )
    };
    let topology = Bench::new(&text("true")).topology();
    assert_eq!(topology.binds_thinking("claude-sonnet-5-5-20260901", "claude-sonnet-5-5-20260901"), Binding::Bound);
    assert_eq!(topology.binds_thinking("best", "claude-sonnet-5-5"), Binding::Bound);
    assert_eq!(topology.binds_thinking("claude-opus-5", "claude-opus-5"), Binding::Free);
    assert_eq!(topology.binds_thinking("alias", "m"), Binding::Bound);
    let cleared = PINNED.replace("id = \"claude-sonnet-5-5\"", "id = \"claude-sonnet-5-5\"\nbinds_thinking = false");
    let topology = Bench::new(&cleared).topology();
    assert_eq!(topology.binds_thinking("claude-sonnet-5-5[1m]", "claude-sonnet-5-5"), Binding::Free);
}

/// Case C110: a store that cannot be read is not an empty store.
#[test]
fn a_store_that_cannot_be_read_is_said() {
    let machine = Fake::default().with_file("/c.toml", "[providers.anthropic]\nauth = \"claude_oauth\"\n");
    let named = Named { home: Some("/h".into()), config: Some("/c.toml".into()) };
    let names = |_: Family, _: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let loaded = load(&named, &machine, Lookups { names: &names, facts: &nothing_known }, &mut Ids::default());
    let built_in = load(
        &Named::default(),
        &Fake::default(),
        Lookups { names: &names, facts: &nothing_known },
        &mut Ids::default(),
    );
    assert!(built_in.report.problems[0].text.contains("cannot be read"));
    let said: Vec<_> = loaded.report.problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(said.join("\n"), @"warning: /c.toml:1: the account store /h/accounts/claude cannot be read: permission denied");
}
