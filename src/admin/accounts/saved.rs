//! What becomes of an account once its credential is saved: in which pools it serves, and what to write where in none.

use duduclaw_actors::account::health::{AskedBy, HealthEvent, Verdict};
use duduclaw_actors::id::{CredentialKind, EntryId};
use duduclaw_actors::roster::Strategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::act::deliver;
use super::list::kind;
use crate::admin::fault::Fault;
use crate::admin::pool::names;
use crate::admin::verb::Call;
use crate::amend::{Change, Form, entry_to_add, form_of};
use crate::config::topology::{Entry, Topology, Usable};
use crate::credentials::{Before, Destination, Proof, Saved, SecretSource};

/// A credential that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedAnswer {
    /// The account, by its provider and name.
    pub saved: String,
    /// What kind of secret it holds: `oauth`, `setup_token`, `api_key`.
    pub kind: String,
    /// Whether the provider knows it.
    pub check: SavedCheck,
    /// Its file in the account store.
    pub file: String,
    /// Other names of the same account, by their `provider/name`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The pools in which it stands now, by its `provider/name` there.
    pub in_use: Vec<String>,
    /// What to add to the configuration, where it stands in none.
    pub entry: Option<String>,
    /// What is to be known besides.
    pub notes: Vec<String>,
}

/// Whether the provider knows a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SavedCheck {
    /// It does.
    Valid,
    /// It could not be asked: the account serves behind the others until it can.
    Unverified,
}

/// What is to be done for the account to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Use {
    /// Nothing.
    AsItIs,
    /// Its entry is added to the configuration, where it stands in no pool.
    Configured,
}

/// Takes a saved account into use as far as the configuration goes, and says how far that is.
pub(in crate::admin) async fn put_to_use(
    call: &Call,
    to: &Destination,
    name: &str,
    saved: &Saved,
    wanted: Use,
) -> Result<SavedAnswer, Fault> {
    let mut notes = Vec::new();
    if let Err(refused) = call.desk.keeper.reload().await {
        notes.push(format!("the configuration is not good, so the account does not serve yet: {refused}"));
    }
    // A configuration that is not read again has the same files.
    call.desk.vault.reload_sources().await;
    let entry = EntryId { provider: to.provider.as_str().into(), name: name.into() };
    let is_wanted = wanted == Use::Configured && places(&call.desk.live.load().topology, saved).is_empty();
    if is_wanted && let Err(why) = call.desk.keeper.amend(vec![entry.clone()], Change::Add).await {
        let hint = why.hint(&call.desk.live.load().topology, Change::Add);
        notes.push(format!("its entry was not added: {why}{}", hint.map_or(String::new(), |h| format!("; {h}"))));
    }
    let live = call.desk.live.load_full();
    tell_found(&Call { live: live.clone(), ..call.clone() }, saved).await?;
    let form = form_of(call.desk.keeper.file().as_deref());
    let spending = strategy_notes(&call.live.topology, &live.topology);
    Ok(SavedAnswer::new(&live.topology, to, name, saved, form).with(notes).with(spending))
}

/// A credential that the provider knows ends what was held against it, also if it is the same as before.
async fn tell_found(call: &Call, saved: &Saved) -> Result<(), Fault> {
    let source = SecretSource::StoreFile(saved.path.clone());
    let entry = call.live.topology.entries().iter().find(|entry| entry.source == source);
    let Some(account) = entry.map(|entry| entry.account).filter(|_| saved.proof == Proof::Found) else {
        return Ok(());
    };
    let known = call.live.topology.roster().accounts.contains_key(&account);
    let generation = call.desk.vault.status(account).and_then(|status| status.generation);
    let Some(generation) = generation.filter(|_| known) else { return Ok(()) };
    let (verdict, sent_at, by) = (Verdict::Valid, saved.asked_at, AskedBy::Operator);
    let event = HealthEvent::Probed { verdict, generation, sent_at, by };
    deliver(call, account, event).await
}

/// The pools in which an account of this file stands.
fn places(topology: &Topology, saved: &Saved) -> Vec<String> {
    let source = SecretSource::StoreFile(saved.path.clone());
    let usable = |at: usize| topology.elements().get(at).is_some_and(|element| element.usable == Usable::Yes);
    let entries = topology.entries().iter().filter(|entry| entry.source == source && usable(entry.element));
    entries.map(|entry| entry.id.to_string()).collect()
}

impl SavedAnswer {
    /// What is to be said of it under this configuration.
    #[must_use]
    pub fn new(topology: &Topology, to: &Destination, name: &str, saved: &Saved, form: Form) -> Self {
        let entry = EntryId { provider: to.provider.as_str().into(), name: name.into() };
        let in_use = places(topology, saved);
        let is_built = topology.elements().iter().any(|e| *e.name == *to.provider && e.usable == Usable::Yes);
        let mut notes = Vec::new();
        notes.extend(other_kind(saved));
        let same = Same::found(topology, to, &entry, saved);
        notes.extend(same.said(&entry));
        if saved.proof == Proof::Pending {
            notes.push(unverified(saved.status));
        }
        if saved.uuid.is_none() && saved.kind == CredentialKind::SetupToken {
            notes.push(
                "whose token it is, is not known: requests keep the account id that the client sends; --uuid tells it"
                    .to_owned(),
            );
        }
        if !is_built {
            notes.push(format!("this version cannot use provider {:?} yet; the account is kept", to.provider));
        }
        Self {
            saved: entry.to_string(),
            kind: kind(saved.kind).to_owned(),
            check: match saved.proof {
                Proof::Found => SavedCheck::Valid,
                Proof::Pending => SavedCheck::Unverified,
            },
            file: saved.path.display().to_string(),
            entry: (in_use.is_empty() && is_built).then(|| entry_to_add(&entry, form)),
            in_use,
            aliases: names(same.others.iter().copied()),
            notes,
        }
    }

    /// The same with more that is to be known.
    #[must_use]
    pub fn with(mut self, notes: Vec<String>) -> Self {
        self.notes.extend(notes);
        self
    }
}

/// That it is of another kind than the one that it replaced.
fn other_kind(saved: &Saved) -> Option<String> {
    match saved.before {
        Before::Account(Some(before)) if before != saved.kind => {
            Some(format!("the account was {} before, and is {} now", in_words(before), in_words(saved.kind)))
        }
        Before::Account(_) | Before::Nothing => None,
    }
}

fn in_words(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Oauth => "a login",
        CredentialKind::SetupToken => "a setup token",
        CredentialKind::ApiKey => "an API key",
        CredentialKind::Keychain => "a login of a CLI",
        CredentialKind::None => "nothing",
    }
}

/// The pools that choose otherwise now, since nobody said how and the kinds of their accounts are others.
#[must_use]
pub fn strategy_notes(before: &Topology, after: &Topology) -> Vec<String> {
    let changed = after.elements().iter().filter_map(|element| {
        let old = before.elements().iter().find(|old| old.name == element.name)?;
        (old.strategy != element.strategy).then_some((&element.name, old.strategy, element.strategy))
    });
    let text = |(pool, old, new): (&_, Strategy, Strategy)| {
        let why = match new {
            Strategy::LeastCost => "mixes subscriptions and metered keys now: subscriptions serve first, by",
            Strategy::RoundRobin | Strategy::Priority | Strategy::Failover => "chooses otherwise now: by",
        };
        let (old, new) = (old.as_str(), new.as_str());
        format!("{pool} {why} strategy = \"{new}\" in place of \"{old}\", unless the configuration says strategy")
    };
    changed.map(text).collect()
}

/// The other entries of an account that was saved, and which of all stands for it.
struct Same<'t> {
    others: Vec<&'t Entry>,
    stands: Option<&'t Entry>,
}

impl<'t> Same<'t> {
    fn found(topology: &'t Topology, to: &Destination, id: &EntryId, saved: &Saved) -> Self {
        if let Some(entry) = topology.entry(id) {
            return Self { others: topology.aliases(entry).collect(), stands: topology.stood_for_by(entry) };
        }
        // In no pool yet: known by what it says of its owner.
        let is_family = |entry: &Entry| topology.elements().get(entry.element).is_some_and(|e| e.family == to.family);
        let is_same = |entry: &&Entry| saved.uuid.is_some() && entry.uuid == saved.uuid && is_family(entry);
        let others: Vec<_> = topology.entries().iter().filter(is_same).collect();
        Self { stands: others.first().copied(), others }
    }

    fn said(&self, id: &EntryId) -> Option<String> {
        if self.others.is_empty() {
            return None;
        }
        let others = names(self.others.iter().copied()).join(", ");
        let which = match self.stands {
            Some(stands) => format!(
                "{} counts: only its secret and settings are used{}. Disable or remove it to use {} instead",
                stands.id,
                limited(stands.kind),
                id.name
            ),
            None => format!("{id} counts: only its secret and settings are used"),
        };
        Some(format!("{id} is the same account as {others}; {which}"))
    }
}

/// What a secret of this kind cannot do that a login can.
fn limited(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::SetupToken => " (a setup token, for inference alone)",
        CredentialKind::Oauth | CredentialKind::ApiKey | CredentialKind::Keychain | CredentialKind::None => "",
    }
}

fn unverified(status: Option<u16>) -> String {
    let how = match status {
        Some(status) => format!("the provider answered {status}"),
        None => "the provider was not asked, or did not answer".to_owned(),
    };
    format!("the credential could not be checked ({how}); it serves behind the others until it was")
}
