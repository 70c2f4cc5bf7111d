//! One line for each account that holds a secret of its own: what its provider says of exactly that secret.
//!
//! Nothing is renewed: a login whose token has ended is one that will be renewed when it is used. What the daemon knows
//! and a provider would not say (a lost login, a secret that only this shell has) is said as well.

use std::time::Duration;

use chrono::{DateTime, Utc};
use duduclaw_actors::account::health::Verdict;
use duduclaw_actors::clock::Wall;
use duduclaw_actors::roster::Switch;
use futures_util::future::join_all;

use super::finding::{Finding, Group};
use super::{Daemon, Doctor, Network};
use crate::admin::PoolAccount;
use crate::config::topology::{Entry, Topology};
use crate::credentials::{Asked, Credential, Renewal, SecretSource, Shown, SourceError, Told, Trace, question};

/// How long before its end a token that cannot be renewed is worth a word.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// What was found, and what the providers' clocks say.
pub(super) struct Looked {
    pub(super) findings: Vec<Finding>,
    pub(super) readings: Vec<Reading>,
}

/// The time by a provider's clock, and by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) theirs: DateTime<Utc>,
    pub(super) ours: Wall,
}

pub(super) async fn look(doctor: &Doctor) -> Looked {
    let Some(ready) = doctor.ready() else {
        let finding = Finding::warn(Group::Accounts, "accounts", "not looked at, since the configuration has errors");
        return Looked { findings: vec![finding.advised("correct the configuration first")], readings: Vec::new() };
    };
    let topology = &ready.topology;
    let entries: Vec<_> = topology.accounts().filter_map(|account| topology.representative(account.id)).collect();
    if entries.is_empty() {
        let finding =
            Finding::warn(Group::Accounts, "accounts", "there is none").advised("duduclaw login claude --name NAME");
        return Looked { findings: vec![finding], readings: Vec::new() };
    }
    let looked = join_all(entries.into_iter().map(|entry| account(doctor, topology, entry))).await;
    let (findings, readings): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
    Looked { findings: findings.into_iter().flatten().collect(), readings: readings.into_iter().flatten().collect() }
}

/// One account. None is said of one that needs no secret.
async fn account(doctor: &Doctor, topology: &Topology, entry: &Entry) -> (Option<Finding>, Option<Reading>) {
    let what = entry.id.to_string();
    let said = |finding: Finding| (Some(finding), None);
    if entry.switch == Switch::Off {
        return said(Finding::pass(Group::Accounts, what, "switched off in the configuration; not asked"));
    }
    match Credential::read(&entry.source, &doctor.environment, &doctor.sealer) {
        Err(error) => said(unreadable(doctor, what, entry, &error)),
        Ok(None) if matches!(entry.source, SecretSource::Keychain { .. }) => said(Finding::pass(
            Group::Accounts,
            what,
            "skipped: its login is the command line tool's own, which holds the secret",
        )),
        Ok(None) => (None, None),
        Ok(Some(credential)) => match by_itself(doctor, &what, entry, &credential) {
            Some(finding) => said(finding),
            None => ask(doctor, topology, entry, credential).await,
        },
    }
}

fn unreadable(doctor: &Doctor, what: String, entry: &Entry, error: &SourceError) -> Finding {
    let advice = match &entry.source {
        // Whatever is saved now would be sealed with a key that is not the right one.
        _ if matches!(error, SourceError::Sealed { .. }) => "see the line about the key".to_owned(),
        _ if matches!(error, SourceError::Keychain { .. }) => "unlock the keychain, or answer it".to_owned(),
        SecretSource::CredentialsFile(_) => "log in with the program it belongs to".to_owned(),
        SecretSource::StoreFile(_) => format!("duduclaw login {} --name {}", family(doctor, entry), entry.id.name),
        SecretSource::TokenEnv(name) | SecretSource::ApiKeyEnv(name) => format!("set {name} where the daemon starts"),
        SecretSource::Keychain { .. } | SecretSource::None => "duduclaw check".to_owned(),
    };
    Finding::fail(Group::Accounts, what, format!("broken ({}): {error}", error.cause().as_str())).advised(advice)
}

/// What is known without asking, if that is enough.
fn by_itself(doctor: &Doctor, what: &str, entry: &Entry, credential: &Credential) -> Option<Finding> {
    let known = known(doctor, entry);
    if known.is_some_and(|known| known.needs_login) || is_remembered_as_lost(doctor, entry, credential) {
        let finding = Finding::fail(Group::Accounts, what, "its login has ended: the provider renews it no more");
        return Some(finding.advised(login(doctor, entry)));
    }
    if let Some(known) = known.filter(|known| known.state == "broken") {
        let cause = known.cause.as_deref().unwrap_or("unreadable");
        let finding = format!("can be read here, and the daemon cannot ({cause})");
        return Some(
            Finding::fail(Group::Accounts, what, finding)
                .advised("if that stays so, give the daemon the same variables and permissions, and start it again"),
        );
    }
    let ended = credential.expires_at.is_some_and(|at| at <= doctor.clock.now().wall);
    match (ended, credential.renewal) {
        (true, Renewal::OnUse) => Some(Finding::pass(Group::Accounts, what, "expired, will be refreshed on use")),
        (true, Renewal::Never) => {
            Some(Finding::fail(Group::Accounts, what, "expired, and cannot be renewed").advised(login(doctor, entry)))
        }
        (false, _) if doctor.network == Network::LeftAlone => Some(Finding::pass(
            Group::Accounts,
            what,
            format!("there{}; not asked (--offline)", ending(doctor, credential)),
        )),
        (false, _) => None,
    }
}

async fn ask(
    doctor: &Doctor,
    topology: &Topology,
    entry: &Entry,
    credential: Credential,
) -> (Option<Finding>, Option<Reading>) {
    let element = &topology.elements()[entry.element];
    let at = Asked { base_url: &element.base_url, user_agent: element.user_agent.as_ref(), protocol: element.protocol };
    let shown = Shown { kind: credential.kind, secret: &credential.secret, account: entry.uuid.as_deref() };
    let told = question(&doctor.client, at, shown).await;
    let reading = told.reply.as_ref().and_then(|reply| reply.headers.get(http::header::DATE));
    let reading = reading.and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
    let ours = doctor.clock.now().wall;
    let reading = reading.map(|theirs| Reading { theirs: theirs.with_timezone(&Utc), ours });
    (Some(verdict(doctor, entry, &credential, &told)), reading)
}

fn verdict(doctor: &Doctor, entry: &Entry, credential: &Credential, told: &Told) -> Finding {
    let what = entry.id.to_string();
    let status = told.reply.as_ref().map(|reply| reply.status.as_u16());
    match (told.verdict, status) {
        (Verdict::Valid, _) if is_ending(doctor, credential) => {
            Finding::warn(Group::Accounts, what, format!("valid{}", ending(doctor, credential)))
                .advised(login(doctor, entry))
        }
        (Verdict::Valid, _) => match known(doctor, entry).filter(|known| known.state == "auth_dead") {
            Some(_) => Finding::warn(Group::Accounts, what, "valid, and the daemon does not know it yet")
                .advised(format!("duduclaw accounts probe {}", entry.id)),
            None => Finding::pass(Group::Accounts, what, "valid"),
        },
        (Verdict::InvalidToken, _) => {
            Finding::fail(Group::Accounts, what, "invalid token (401)").advised(login(doctor, entry))
        }
        (Verdict::OrgRefused, _) => Finding::fail(Group::Accounts, what, "disabled by the organisation (403)")
            .advised("ask the organisation's administrator, or use an API key"),
        (Verdict::Undecided, Some(status)) => {
            Finding::warn(Group::Accounts, what, format!("undecided: the provider answered {status}"))
                .advised("try again later; nothing is said of the credential by that")
        }
        (Verdict::Undecided, None) => Finding::warn(Group::Accounts, what, "unreachable: no answer from its provider")
            .advised("see whether this machine has a network, and what its proxy does"),
    }
}

fn is_ending(doctor: &Doctor, credential: &Credential) -> bool {
    let soon = doctor.clock.now().wall.0 + i64::try_from(SOON.as_millis()).unwrap_or(i64::MAX);
    credential.renewal == Renewal::Never && credential.expires_at.is_some_and(|at| at.0 <= soon)
}

fn ending(doctor: &Doctor, credential: &Credential) -> String {
    const DAY: i64 = 24 * 3600 * 1000;
    match credential.expires_at.filter(|_| is_ending(doctor, credential)) {
        Some(at) => match (at.0 - doctor.clock.now().wall.0) / DAY {
            0 => ", and ends today".to_owned(),
            1 => ", and ends in a day".to_owned(),
            days => format!(", and ends in {days} days"),
        },
        None => String::new(),
    }
}

fn login(doctor: &Doctor, entry: &Entry) -> String {
    match &entry.source {
        SecretSource::StoreFile(_) => format!("duduclaw login {} --name {}", family(doctor, entry), entry.id.name),
        SecretSource::CredentialsFile(path) => {
            format!("log in again with the program that {} belongs to", path.display())
        }
        SecretSource::TokenEnv(name) => format!("make a new token (claude setup-token) and set {name}"),
        SecretSource::ApiKeyEnv(name) => format!("make a new key and set {name}"),
        SecretSource::Keychain { .. } | SecretSource::None => "log in with its program".to_owned(),
    }
}

fn family(doctor: &Doctor, entry: &Entry) -> &'static str {
    let element = doctor.ready().and_then(|ready| ready.topology.elements().get(entry.element));
    element.map_or("claude", |element| element.family.as_str())
}

/// Whether the store knows of a renewal that the provider refused for good, where no daemon does.
fn is_remembered_as_lost(doctor: &Doctor, entry: &Entry, credential: &Credential) -> bool {
    let account = doctor.ready().and_then(|ready| ready.topology.account(entry.account));
    let trace = account.and_then(|account| doctor.remembered.get(&Trace::key(&account.identity)));
    trace.is_some_and(|trace| trace.has_lost(credential))
}

/// The account as the daemon has it.
fn known<'a>(doctor: &'a Doctor, entry: &Entry) -> Option<&'a PoolAccount> {
    let Daemon::Runs { pool, .. } = &doctor.daemon else { return None };
    let provider = pool.providers.iter().find(|provider| *provider.name == *entry.id.provider)?;
    provider.accounts.iter().find(|account| *account.name == *entry.id.name)
}
