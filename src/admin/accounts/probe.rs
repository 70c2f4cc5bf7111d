//! `accounts.probe`: asks the provider now whether it knows an account's credential, and tells the account.

use duduclaw_actors::account::health::{AskedBy, HealthEvent, Verdict};
use duduclaw_actors::id::CredentialKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::act::{Which, answer, deliver};
use super::cure::cure;
use super::list::ListedAccount;
use crate::admin::fault::{Fault, FaultKind};
use crate::admin::verb::Call;
use crate::config::topology::Entry;
use crate::credentials::{Checked, NotNow, Subject};

/// What a check said.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProbeAnswer {
    /// What the provider said of the credential.
    pub verdict: ProbeVerdict,
    /// The same in a sentence.
    pub summary: String,
    /// The provider's status; null if it was not asked, or did not answer.
    pub status: Option<u16>,
    /// The `provider/name` that was meant: the account's own, or an alias of it.
    pub named: String,
    /// The account as it stands now; null if this version cannot use its provider yet.
    pub account: Option<ListedAccount>,
}

/// What a check said of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The provider knows it.
    Valid,
    /// The provider refuses it.
    InvalidToken,
    /// The organisation refuses.
    OrgRefused,
    /// Nothing was learnt.
    Undecided,
    /// There is nothing to ask with; why, says the summary.
    NotAsked,
}

/// Asks about an account's credential.
pub(in crate::admin) async fn probe(call: Call, which: Which) -> Result<ProbeAnswer, Fault> {
    let topology = &call.live.topology;
    let account = topology.account_named(&which.account)?;
    let subject = Subject::of(topology, account).ok_or_else(|| {
        Fault::new(FaultKind::Unprocessable, format!("{:?} has no credential of its own to ask about", which.account))
    })?;
    // What was put right a moment ago counts, be it not noticed yet.
    call.desk.vault.reload_sources().await;
    let checked = call.desk.checker.check(subject).await;
    let is_used = topology.roster().accounts.contains_key(&account);
    if let Ok(Checked { verdict, generation, sent_at, .. }) = checked
        && is_used
    {
        deliver(&call, account, HealthEvent::Probed { verdict, generation, sent_at, by: AskedBy::Operator }).await?;
    }
    let shown = if is_used { Some(answer(&call, account, &which.account).await?) } else { None };
    let named = shown.as_ref().map_or_else(|| which.account.clone(), |answer| answer.named.clone());
    let (verdict, summary) = match &checked {
        Ok(checked) => said(checked, topology.representative(account)),
        Err(why) => unasked(*why),
    };
    Ok(ProbeAnswer {
        verdict,
        summary,
        status: checked.ok().and_then(|checked| checked.status),
        named,
        account: shown.map(|answer| answer.account),
    })
}

fn said(checked: &Checked, entry: Option<&Entry>) -> (ProbeVerdict, String) {
    let refused = || match entry.map(|entry| (entry.kind, cure(entry))) {
        Some((CredentialKind::ApiKey, cure)) => format!("the provider refuses the key; {cure}"),
        Some((_, cure)) => format!("the provider refuses the credential; {cure}"),
        None => "the provider refuses the credential".to_owned(),
    };
    let (verdict, text) = match checked.verdict {
        Verdict::Valid => (ProbeVerdict::Valid, "the provider knows the credential".to_owned()),
        Verdict::InvalidToken => (ProbeVerdict::InvalidToken, refused()),
        Verdict::OrgRefused => {
            let text = "the organisation refuses it; use an API key, or ask its administrator";
            (ProbeVerdict::OrgRefused, text.to_owned())
        }
        Verdict::Undecided => (ProbeVerdict::Undecided, "nothing was learnt of the credential".to_owned()),
    };
    let how = match (checked.verdict, checked.status) {
        (Verdict::Undecided, Some(status)) => format!(": the provider answered {status}"),
        (Verdict::Undecided, None) => ": there was no answer".to_owned(),
        (Verdict::Valid | Verdict::InvalidToken | Verdict::OrgRefused, _) => String::new(),
    };
    (verdict, format!("{text}{how}"))
}

fn unasked(why: NotNow) -> (ProbeVerdict, String) {
    let verdict = match why {
        NotNow::Renewing | NotNow::Postponed(_) => ProbeVerdict::Undecided,
        NotNow::Unknown | NotNow::NoSecret | NotNow::Broken(_) | NotNow::LoginNeeded => ProbeVerdict::NotAsked,
    };
    (verdict, format!("the provider was not asked: {why}"))
}
