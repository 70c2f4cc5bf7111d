//! Reading the configuration, at the start and again: checked first, put in force as a whole, or not at all.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use duduclaw_actors::account::health::Health;
use duduclaw_actors::event::{Event, EventKind, Severity};
use duduclaw_actors::id::{EntryId, Family};
use duduclaw_actors::outcome::Evidence;
use duduclaw_actors::ports::EventSink;
use duduclaw_actors::root::Fleet;
use duduclaw_actors::roster::Cap;
use http::HeaderName;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::imported;
use super::news::Traces;
use super::trial::Trial;
use crate::admin::{AmendFault, ConfigKeeper, Keeping, Refused, Reloaded};
use crate::amend::{Amended, Change};
use crate::channels::Channels;
use crate::config::clients::{Client, Clients, Passthrough, TokenHash};
use crate::config::locate::{self, Named, Source};
use crate::config::reload::needs_restart;
use crate::config::report;
use crate::config::settings::{AuthMode, Gate};
use crate::config::surroundings::Surroundings;
use crate::config::topology::{Element, IdentityFacts, Ids, Lookups, Topology};
use crate::config::{self, Loaded, Ready};
use crate::credentials::{
    Assignment, CLAUDE_TOKEN_URL_VARIABLE, CODEX_TOKEN_URL_VARIABLE, Environment, Issuer, SecretSource, TokenEndpoint,
    TokenUrl, Vault, credential_kind, identity_facts, stored_accounts,
};
use crate::gateway::live::{DEFAULT_AUTH_HEADER, Live};

/// What the configuration looks at of the machine.
pub type Machine = Arc<dyn Surroundings + Send + Sync>;

/// Where the configuration comes from, and the ids it has given so far.
pub struct Configuration {
    named: Named,
    machine: Machine,
    ids: Ids,
    seen: Watched,
    only_client: Option<TokenHash>,
}

impl Configuration {
    /// The configuration that the command line names, on this machine.
    #[must_use]
    pub fn new(named: Named, machine: Machine) -> Self {
        Self { named, machine, ids: Ids::default(), seen: Watched::default(), only_client: None }
    }

    /// The same, with one client instead of those of `[server.auth]`: for a gateway that one program is to use, so
    /// that no other process of this machine can.
    #[must_use]
    pub fn for_one_client(self, token: TokenHash) -> Self {
        Self { only_client: Some(token), ..self }
    }

    /// Reads and checks it. What it looks at is noted before it is read, so that no change falls between the two.
    pub fn load(&mut self) -> Loaded {
        let seen = RefCell::new(Watched::default());
        if let Some(path) = self.file() {
            seen.borrow_mut().note(path);
        }
        let names = |family: Family, folder: &Path| {
            seen.borrow_mut().note(folder.join(family.as_str()));
            stored_names(family, folder)
        };
        let lookups = Lookups { names: &names, facts: &facts_of };
        let mut loaded = config::load(&self.named, &*self.machine, lookups, &mut self.ids);
        if let (Some(ready), Some(token)) = (&mut loaded.ready, self.only_client) {
            let header = loaded_header(ready);
            let settings = Arc::make_mut(&mut ready.settings);
            settings.server.auth = Some(Gate { header, clients: Clients::new(vec![the_client(token)]) });
        }
        self.seen = seen.into_inner();
        loaded
    }

    /// The machine that it looks at.
    #[must_use]
    pub fn machine(&self) -> Machine {
        Arc::clone(&self.machine)
    }

    /// A change of its file, to be tried.
    ///
    /// # Errors
    /// When there is no file: what is found on the machine is used.
    pub fn trial(&self) -> Result<Trial, AmendFault> {
        let path = self.file().unwrap_or_default();
        let home = locate::home(&self.named, &*self.machine).unwrap_or_default();
        match locate::source(&self.named, &home, &*self.machine) {
            Source::File(path) => {
                let (named, machine, ids) = (self.named.clone(), Arc::clone(&self.machine), self.ids.clone());
                Ok(Trial { path, named, machine, ids })
            }
            Source::BuiltIn => {
                let instead = config::built_in_text(&home, &*self.machine, LOOKUPS);
                Err(AmendFault::NoFile { path, instead })
            }
        }
    }

    /// The file it is read from, or would be if it were there.
    fn file(&self) -> Option<PathBuf> {
        let home = locate::home(&self.named, &*self.machine)?;
        Some(match locate::source(&self.named, &home, &*self.machine) {
            Source::File(path) => path,
            Source::BuiltIn => home.join("config.toml"),
        })
    }
}

fn loaded_header(ready: &Ready) -> HeaderName {
    ready.settings.server.auth.as_ref().map_or_else(|| DEFAULT_AUTH_HEADER.clone(), |gate| gate.header.clone())
}

fn the_client(token: TokenHash) -> Client {
    Client {
        name: Arc::from("companion"),
        token,
        models: None,
        providers: None,
        max_concurrent: None,
        passthrough: Passthrough::Open,
        cap: Cap::default(),
    }
}

/// What the account store knows.
const LOOKUPS: Lookups<'static> = Lookups { names: &stored_names, facts: &facts_of };

/// Reads and checks a configuration, and remembers nothing of it but the ids.
pub(super) fn load(named: &Named, machine: &dyn Surroundings, ids: &mut Ids) -> Loaded {
    config::load(named, machine, LOOKUPS, ids)
}

fn stored_names(family: Family, folder: &Path) -> std::io::Result<Vec<String>> {
    let found = stored_accounts(folder, family).map_err(std::io::Error::other)?;
    Ok(found.into_iter().map(|account| account.name).collect())
}

/// A file that cannot be read breaks its account when its secret is wanted; here it merely tells nothing.
fn facts_of(_: &EntryId, source: &SecretSource) -> IdentityFacts {
    let facts = identity_facts(source).unwrap_or_default();
    let kind = credential_kind(source).unwrap_or_default();
    IdentityFacts { uuid: facts.uuid, organization: facts.organization, kind }
}

/// Every account of the fleet with its secret's source and where that is renewed.
pub(super) fn assignments(
    topology: &Topology,
    fleet: &Fleet,
    traces: &Traces,
    environment: &Environment,
) -> Vec<Assignment> {
    let accounts =
        topology.accounts().filter_map(|account| topology.representative(account.id).map(|e| (account.id, e)));
    let assigned = accounts.map(|(account, entry)| {
        let health = fleet.health(account);
        Assignment {
            account,
            source: entry.source.clone(),
            endpoint: endpoint(&topology.elements()[entry.element], environment),
            generation: health.as_ref().map(Health::generation).unwrap_or_default(),
            trace: fleet.identity(account).and_then(|identity| traces.of(&identity)),
            broken: health.and_then(|health| health.broken()),
        }
    });
    assigned.collect()
}

fn endpoint(element: &Element, environment: &Environment) -> Option<TokenEndpoint> {
    let (issuer, name) = match element.auth {
        AuthMode::ClaudeOauth => (Issuer::Anthropic, CLAUDE_TOKEN_URL_VARIABLE),
        AuthMode::ChatgptOauth => (Issuer::OpenAi, CODEX_TOKEN_URL_VARIABLE),
        AuthMode::Passthrough | AuthMode::ApiKey | AuthMode::KimiOauth | AuthMode::None => return None,
    };
    let variable = environment(name).and_then(|value| value.into_string().ok());
    let configured = element.token_url.as_ref().map(reqwest::Url::as_str);
    let url = TokenUrl::of(issuer, variable.as_deref(), configured)
        .inspect_err(|error| tracing::error!(%error, "{name} is not used: it"))
        .ok()?;
    let user_agent = element.user_agent.as_ref().and_then(|agent| agent.to_str().ok()).map(str::to_owned);
    Some(TokenEndpoint { url, user_agent, issuer })
}

/// Puts changed configurations in force.
pub(super) struct Reloader {
    configuration: Arc<Mutex<Configuration>>,
    /// Where the configuration in force came from.
    source: ArcSwap<Source>,
    parts: ReloaderParts,
}

/// What a configuration is put in force upon.
pub(super) struct ReloaderParts {
    /// The configuration in force.
    pub(super) live: Arc<ArcSwap<Live>>,
    /// The fleet.
    pub(super) fleet: Fleet,
    /// Its secrets.
    pub(super) vault: Vault,
    /// The ways to people.
    pub(super) channels: Arc<Channels>,
    /// Where variables are read.
    pub(super) environment: Environment,
    /// Where its tasks run.
    pub(super) tasks: TaskTracker,
}

impl Reloader {
    /// `source` is where the configuration in force came from.
    pub(super) fn new(configuration: Configuration, source: Source, parts: ReloaderParts) -> Self {
        Self { configuration: Arc::new(Mutex::new(configuration)), source: ArcSwap::from_pointee(source), parts }
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// When it is not good, and why; the old one stays in force.
    pub(super) async fn reload(&self) -> Result<Reloaded, Refused> {
        let mut configuration = Arc::clone(&self.configuration).lock_owned().await;
        // It looks at files and keychains, which may take their time. Nobody else reads it before it is in force.
        let (_configuration, loaded) = aside(move || {
            let loaded = configuration.load();
            (configuration, loaded)
        })
        .await;
        if let (Source::File(path), Source::BuiltIn) = (&**self.source.load(), &loaded.report.source) {
            return Err(self.refuse(format!("{} is not there any more", path.display())));
        }
        let warnings = loaded.report.problems.iter().map(ToString::to_string).collect();
        match loaded.ready.filter(|_| loaded.report.may_start()) {
            Some(ready) => {
                let needs_restart = self.put_in_force(ready).await?;
                self.source.store(Arc::new(loaded.report.source));
                Ok(Reloaded { warnings, needs_restart })
            }
            None => Err(self.refuse(report::render(&loaded.report))),
        }
    }

    async fn put_in_force(&self, Ready { settings, topology }: Ready) -> Result<Vec<String>, Refused> {
        let ReloaderParts { live, fleet, vault, channels, environment, .. } = &self.parts;
        let old = live.load_full();
        let needs_restart = needs_restart(&old.settings, &settings);
        for part in &needs_restart {
            tracing::warn!(part, "this part of the configuration changed and acts only after a restart");
        }
        fleet.introduce(topology.roster()).await;
        let traces = Traces::recall(fleet).await;
        vault.assign(self.with_newcomers(&old.topology, &topology, &traces)).await;
        if let Err(error) = fleet.reload(topology.roster().as_ref().clone()).await {
            return Err(self.refuse(error.to_string()));
        }
        for rekeyed in &topology.rekeyed {
            fleet.join(rekeyed.before, rekeyed.now);
        }
        vault.assign(assignments(&topology, fleet, &traces, environment)).await;
        imported::look(fleet, &topology).await;
        channels.replace(settings.webhooks.clone());
        live.store(Arc::new(Live::new(settings, topology)));
        vault.reload_sources().await;
        self.tell(EventKind::ConfigReloaded, Severity::Info);
        Ok(needs_restart.into_iter().map(str::to_owned).collect())
    }

    /// The secrets of before and those of accounts that come in: an account may be given to a request as soon as the fleet
    /// knows it, and then its secret must be there.
    fn with_newcomers(&self, old: &Topology, new: &Topology, traces: &Traces) -> Vec<Assignment> {
        let of = |topology| assignments(topology, &self.parts.fleet, traces, &self.parts.environment);
        let is_newcomer = |assigned: &Assignment| {
            old.account(assigned.account).is_none() && new.rekeyed.iter().all(|rekeyed| rekeyed.now != assigned.account)
        };
        of(old).into_iter().chain(of(new).into_iter().filter(is_newcomer)).collect()
    }

    fn refuse(&self, detail: String) -> Refused {
        tracing::error!(detail, "the changed configuration is not used; the old one stays in force");
        self.tell(EventKind::ConfigRefused { detail: detail.clone() }, Severity::Error);
        Refused(detail)
    }

    fn tell(&self, kind: EventKind, severity: Severity) {
        let (ts, evidence) = (self.parts.fleet.now(), Evidence::default());
        self.parts.fleet.feed.emit(Event { seq: 0, ts, kind, severity, account: None, evidence });
    }

    /// Where its tasks run.
    pub(super) fn tasks(&self) -> TaskTracker {
        self.parts.tasks.clone()
    }

    /// The files and folders whose change calls for a reload, each with what it looked like when it was read.
    pub(super) async fn seen(&self) -> Watched {
        self.configuration.lock().await.seen.clone()
    }
}

/// Does what blocks, off the threads that serve.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|death| std::panic::resume_unwind(death.into_panic()))
}

impl ConfigKeeper for Reloader {
    fn file(&self) -> Option<PathBuf> {
        match &**self.source.load() {
            Source::File(path) => Some(path.clone()),
            Source::BuiltIn => None,
        }
    }

    fn reload(&self) -> Keeping<'_, Result<Reloaded, Refused>> {
        Box::pin(Reloader::reload(self))
    }

    fn amend(&self, entries: Vec<EntryId>, change: Change) -> Keeping<'_, Result<Reloaded, AmendFault>> {
        Box::pin(async move {
            let trial = self.configuration.lock().await.trial()?;
            match aside(move || trial.amend(&entries, change)).await? {
                // Somebody may have written it who is still waiting for it to be in force.
                Amended::Written | Amended::AsItWas => self.reload().await.map_err(AmendFault::NotInForce),
            }
        })
    }
}

/// What watched files and folders looked like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    stamps: HashMap<PathBuf, Option<Stamp>>,
}

impl Watched {
    fn note(&mut self, path: PathBuf) {
        let stamp = stamp(&path);
        self.stamps.insert(path, stamp);
    }

    /// Whether any of it looks different now.
    pub(super) fn has_changed(&self) -> bool {
        self.stamps.iter().any(|(path, seen)| stamp(path) != *seen)
    }

    /// The folders to watch: a file may be replaced by renaming another over it.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.stamps.keys().filter_map(|path| path.parent()).chain(self.stamps.keys().map(PathBuf::as_path))
    }
}

type Stamp = (Option<std::time::SystemTime>, u64, Vec<String>);

/// A file's time and size; a folder's names.
fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    if meta.is_dir() {
        let entries = std::fs::read_dir(path).ok()?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|n| n.ends_with(".json"))
            .collect();
        names.sort();
        return Some((None, 0, names));
    }
    Some((meta.modified().ok(), meta.len(), Vec::new()))
}
