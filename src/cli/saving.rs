//! Having a credential saved: by the daemon that runs, else by ourselves, with the same care and the same words.
//!
//! Never here: where the credential comes from.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use duduclaw_actors::clock::SystemClock;
use duduclaw_actors::id::EntryId;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::control::Control;
use super::{Ended, Exit, Globals, say};
use crate::admin::{SavedAnswer, SavedCheck, strategy_notes};
use crate::amend::{Change, form_of};
use crate::app::{Configuration, sealer};
use crate::config::Ready;
use crate::config::locate::Source;
use crate::config::surroundings::Machine;
use crate::credentials::{Destination, Offer, OfferedKind, Registrar, Saved, SecretSource, Taken, process_environment};
use crate::upstream::client::Client;

/// A credential, and whose it is to be.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) provider: Option<String>,
    pub(super) kind: Option<OfferedKind>,
    pub(super) secret: Zeroizing<String>,
    pub(super) uuid: Option<String>,
    pub(super) organization: Option<String>,
    pub(super) taken: Taken,
    pub(super) write_config: bool,
}

/// The configuration and what saves under it, where no daemon does.
pub(super) struct Files {
    pub(super) configuration: Configuration,
    pub(super) ready: Ready,
    pub(super) registrar: Registrar,
    pub(super) home: PathBuf,
    source: Source,
}

impl Files {
    /// Of the home that the command line names.
    pub(super) fn open(globals: &Globals) -> anyhow::Result<Self> {
        let mut configuration = Configuration::new(globals.named(), Arc::new(Machine));
        let loaded = configuration.load();
        let source = loaded.report.source.clone();
        let ready = loaded.ready.with_context(
            || "the configuration has errors, so it is not known where accounts belong; `duduclaw check` shows them",
        )?;
        let client = Client::new(ready.settings.server.timeouts.connect)?;
        let sealer = sealer(&ready.settings, &loaded.home, &process_environment());
        let registrar = Registrar { client, sealer, clock: Arc::new(SystemClock::default()) };
        Ok(Self { configuration, ready, registrar, home: loaded.home, source })
    }

    /// What is to be said of what was saved, once its entry is where it is wanted.
    pub(super) fn settle(
        mut self,
        to: &Destination,
        name: &str,
        saved: &Saved,
        write_config: bool,
    ) -> anyhow::Result<SavedAnswer> {
        let file = match &self.source {
            Source::File(path) => Some(path.clone()),
            Source::BuiltIn => None,
        };
        let mut ready = self.reread();
        let answer = |ready: &Ready| SavedAnswer::new(&ready.topology, to, name, saved, form_of(file.as_deref()));
        let first = answer(&ready);
        if !write_config || first.entry.is_none() {
            return Ok(first.with(strategy_notes(&self.ready.topology, &ready.topology)));
        }
        let entry = EntryId { provider: to.provider.as_str().into(), name: name.into() };
        let done = self.configuration.trial().and_then(|trial| trial.amend(&[entry], Change::Add));
        if let Err(why) = done {
            let hint = why.hint(&ready.topology, Change::Add).map_or(String::new(), |hint| format!("; {hint}"));
            let notes = [first.notes.clone(), vec![format!("its entry was not added: {why}{hint}")]].concat();
            return Ok(SavedAnswer { notes, ..first });
        }
        ready = self.reread();
        Ok(answer(&ready).with(strategy_notes(&self.ready.topology, &ready.topology)))
    }

    pub(super) fn reread(&mut self) -> Ready {
        self.configuration.load().ready.unwrap_or_else(|| self.ready.clone())
    }
}

/// Has it saved.
pub(super) async fn save(globals: &Globals, wanted: Wanted) -> anyhow::Result<SavedAnswer> {
    match Control::look(globals)? {
        Some(daemon) => by_daemon(&daemon, wanted).await,
        None => by_ourselves(globals, wanted).await,
    }
}

async fn by_daemon(daemon: &Control, wanted: Wanted) -> anyhow::Result<SavedAnswer> {
    let secret: &str = &wanted.secret;
    let mut params = json!({"secret": secret});
    let mut give = |name: &str, value: Value| {
        if !value.is_null() {
            params[name] = value;
        }
    };
    give("kind", json!(wanted.kind));
    give("uuid", json!(wanted.uuid));
    give("organization", json!(wanted.organization));
    match wanted.taken {
        Taken::Renew => {
            give("account", json!(wanted.name));
            daemon.call("accounts.replace", params).await
        }
        Taken::Keep | Taken::Replace => {
            give("name", json!(wanted.name));
            give("provider", json!(wanted.provider));
            give("replace", json!(wanted.taken == Taken::Replace));
            give("write_config", json!(wanted.write_config));
            daemon.call("accounts.add", params).await
        }
    }
}

async fn by_ourselves(globals: &Globals, wanted: Wanted) -> anyhow::Result<SavedAnswer> {
    let files = Files::open(globals)?;
    let (to, name) = files.place(&wanted)?;
    let Wanted { kind, secret: text, uuid, organization, .. } = wanted;
    let offer = Offer { text, kind, uuid, organization };
    let saved = files.registrar.take(&to, &name, &offer, wanted.taken).await?;
    files.settle(&to, &name, &saved, wanted.write_config)
}

impl Files {
    /// The provider and the name that are meant.
    fn place(&self, wanted: &Wanted) -> anyhow::Result<(Destination, String)> {
        let Ready { settings, topology } = &self.ready;
        let find = |provider: Option<&str>| Destination::find(topology, settings, provider, None);
        if wanted.taken != Taken::Renew {
            let to = find(wanted.provider.as_deref())?.saves(topology, &wanted.name)?;
            return Ok((to, wanted.name.clone()));
        }
        if let Ok(entry) = topology.entry_named(&wanted.name) {
            if let SecretSource::StoreFile(_) = entry.source {
                return Ok((find(Some(&entry.id.provider))?, entry.id.name.to_string()));
            }
            let text = format!("the secret of {} is not in the account store; change it where it is", entry.id);
            return Err(Ended::error(Exit::Failed, text));
        }
        let (provider, name) = match wanted.name.rsplit_once('/') {
            Some((provider, name)) => (Some(provider), name),
            None => (wanted.provider.as_deref(), wanted.name.as_str()),
        };
        Ok((find(provider)?, name.to_owned()))
    }
}

/// Says what became of it.
pub(super) fn tell(answer: &SavedAnswer, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        say(&format!("{}\n", serde_json::to_string_pretty(answer)?))?;
        return Ok(Exit::Done);
    }
    let checked = match answer.check {
        SavedCheck::Valid => "the provider knows it",
        SavedCheck::Unverified => "unverified",
    };
    let mut text = format!("{}: {} saved, {checked}\n", answer.saved, answer.kind.replace('_', " "));
    match (&answer.in_use.as_slice(), &answer.entry) {
        ([], Some(entry)) => {
            text.push_str(&format!(
                "it is stored, but in no pool; to use it, add to the configuration:\n\n{entry}\n\n"
            ));
        }
        ([], None) => {}
        (pools, _) if !answer.aliases.is_empty() => text.push_str(&format!("known as {}\n", pools.join(", "))),
        (pools, _) => text.push_str(&format!("in use as {}\n", pools.join(", "))),
    }
    for note in &answer.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    say(&text)?;
    Ok(Exit::Done)
}
