//! Accounts from other programs: told first, then saved and configured, each on its own.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context, bail};
use duduclaw_actors::id::{CredentialKind, Family};
use serde_json::{Value, json};

use super::{From, shown};
use crate::admin::{AmendFault, strategy_notes};
use crate::amend::{Amended, NewEntry, brought};
use crate::cli::control::Control;
use crate::cli::login::not_the_machines;
use crate::cli::saving::Files;
use crate::cli::{Exit, Globals, hint, prompt, say};
use crate::config::settings::Scope;
use crate::config::surroundings::Machine;
use crate::credentials::{Destination, NotSaved, Origin, Proof, SecretSource, Taken};
use crate::imports::{Plan, Planned, PlannedSource, Program, read};

pub(super) async fn run(program: Program, from: &From, globals: &Globals) -> anyhow::Result<Exit> {
    let path = from.path.as_ref().map(std::path::absolute).transpose()?;
    not_the_machines(Control::look(globals)?.as_ref())?;
    let plan = read(program, path.as_deref(), &Machine)?;
    let files = Files::open(globals)?;
    let (topology, settings) = (&files.ready.topology, &files.ready.settings);
    let to = Destination::find(topology, settings, from.provider.as_deref(), Some(Family::Claude))?;
    say(&told(&plan, &to))?;
    if !from.apply && !agreed()? {
        say("nothing was changed; --apply does it\n")?;
        return Ok(Exit::Done);
    }
    apply(plan, files, &to, globals).await
}

fn agreed() -> anyhow::Result<bool> {
    if !prompt::is_possible() {
        return Ok(false);
    }
    Ok(prompt::choice("Do it?", &["no", "yes"])? == 1)
}

/// What would be done, an account a line.
fn told(plan: &Plan, to: &Destination) -> String {
    let from = plan.from.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
    let mut text = format!("{} accounts for provider {}, from {from}:\n", plan.accounts.len(), to.provider);
    for account in &plan.accounts {
        let _ = write!(text, "  {}", account.name);
        if account.name != account.was {
            let _ = write!(text, " (there {:?})", account.was);
        }
        let _ = write!(text, ": {}", shown(&source(&account.source)));
        let comes = !matches!(account.source, PlannedSource::None(_));
        for (key, value) in account.keys.iter().filter(|_| comes) {
            let _ = write!(text, ", {key} = {}", shown(value.to_string().trim()));
        }
        text.push('\n');
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {}", shown(note));
    }
    text
}

fn source(source: &PlannedSource) -> String {
    match source {
        PlannedSource::Stored(fresh) => {
            let kind = match fresh.content.kind() {
                CredentialKind::Oauth => "a login",
                CredentialKind::SetupToken => "a setup token",
                CredentialKind::ApiKey => "an API key",
                CredentialKind::Keychain | CredentialKind::None => "nothing",
            };
            match &fresh.origin {
                Origin::Own => format!("{kind}, copied to the account store"),
                Origin::Linked(file) => format!("{kind}, linked to {}", file.display()),
            }
        }
        PlannedSource::File(file) => format!("the login in {}", file.display()),
        PlannedSource::Variable(_, name) => format!("the variable {name}"),
        PlannedSource::None(why) => format!("left out: {why}"),
    }
}

async fn apply(plan: Plan, mut files: Files, to: &Destination, globals: &Globals) -> anyhow::Result<Exit> {
    // What is there is what was there before anything was saved.
    let (there, whole_store) = present(&files, to);
    let base = files.configuration.trial();
    let (mut entries, mut exit) = (Vec::new(), Exit::Done);
    for account in plan.accounts {
        match saved(&account, &files, to).await {
            Ok(what) => {
                say(&format!("{}: {}\n", account.name, shown(&what)))?;
                if !matches!(account.source, PlannedSource::None(_)) {
                    entries.push(entry(account));
                }
            }
            Err(why) => {
                exit = Exit::Failed;
                hint(&format!("{}: {why}", account.name));
            }
        }
    }
    let says_nothing = entries.iter().all(|entry| entry.keys.is_empty());
    if !(entries.is_empty() || whole_store && says_nothing) {
        configure(base, to, &there, &entries)?;
    }
    let now = files.reread();
    for note in strategy_notes(&files.ready.topology, &now.topology) {
        say(&format!("note: {note}\n"))?;
    }
    if let Some(daemon) = Control::look(globals)?
        && let Err(error) = daemon.call::<Value>("config.reload", json!({})).await
    {
        hint(&format!("the daemon has not taken it up yet: {error}"));
    }
    Ok(exit)
}

/// The provider's accounts of now, and whether it takes whatever is in the store.
fn present(files: &Files, to: &Destination) -> (Vec<NewEntry>, bool) {
    let topology = &files.ready.topology;
    let own = topology.entries().iter().filter(|entry| *entry.id.provider == *to.provider);
    let entries = own.map(|entry| {
        let keys = match &entry.source {
            SecretSource::CredentialsFile(path) => vec![("credentials", path.display().to_string().into())],
            SecretSource::TokenEnv(name) => vec![("token_env", name.as_str().into())],
            SecretSource::ApiKeyEnv(name) => vec![("api_key_env", name.as_str().into())],
            SecretSource::StoreFile(_) | SecretSource::Keychain { .. } | SecretSource::None => Vec::new(),
        };
        NewEntry { name: entry.id.name.to_string(), keys }
    });
    let unit = files.ready.settings.units.iter().find(|unit| *unit.name == *to.provider);
    (entries.collect(), unit.is_some_and(|unit| matches!(unit.scope, Scope::WholeStore)))
}

/// What was done for one account.
async fn saved(account: &Planned, files: &Files, to: &Destination) -> anyhow::Result<String> {
    let fresh = match &account.source {
        PlannedSource::Stored(fresh) => (**fresh).clone(),
        PlannedSource::File(_) | PlannedSource::Variable(..) => return Ok("configured".to_owned()),
        PlannedSource::None(why) => return Ok(format!("left out: {why}")),
    };
    match files.registrar.save(to, &account.name, fresh, Taken::Keep).await {
        Ok(saved) => Ok(match saved.proof {
            Proof::Found => "saved, the provider knows it".to_owned(),
            Proof::Pending => "saved, unverified".to_owned(),
        }),
        // What is there may have been renewed since: it is the better one.
        Err(NotSaved::Exists { .. }) => Ok("is in the store already; it stays as it is".to_owned()),
        Err(why) => Err(why.into()),
    }
}

fn entry(account: Planned) -> NewEntry {
    let source = match account.source {
        PlannedSource::File(path) => Some(("credentials", path.display().to_string().into())),
        PlannedSource::Variable(key, name) => Some((key, name.into())),
        PlannedSource::Stored(_) | PlannedSource::None(_) => None,
    };
    NewEntry { name: account.name, keys: source.into_iter().chain(account.keys).collect() }
}

fn configure(
    base: Result<crate::app::Trial, AmendFault>,
    to: &Destination,
    there: &[NewEntry],
    entries: &[NewEntry],
) -> anyhow::Result<()> {
    match base {
        Ok(trial) => {
            let done =
                trial.bring(&to.provider, there, entries).context("the accounts are saved, and not configured")?;
            if done == Amended::Written {
                say("the configuration has their entries now\n")?;
            }
        }
        Err(AmendFault::NoFile { path, instead }) => {
            let text = brought(&instead, &to.provider, there, entries)?;
            let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
            let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| format!("{} cannot be written", path.display()))?;
            say(&format!("{} was made, with all accounts in it\n", path.display()))?;
        }
        Err(why @ (AmendFault::Amend(_) | AmendFault::NotInForce(_))) => bail!("{why}"),
    }
    Ok(())
}
