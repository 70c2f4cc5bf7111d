//! `duduclaw accounts add` and `replace`: a token or key, asked for without being shown, or from standard input; never
//! an argument, which every process of the machine can read.

use clap::Args;
use zeroize::Zeroizing;

use crate::cli::saving::{Wanted, save, tell};
use crate::cli::{Ended, Exit, Globals, prompt};
use crate::credentials::{OfferedKind, SecretShape, Taken, UUID_LIKE, is_uuid};

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// What the account is to be called: small letters, digits and hyphens.
    #[arg(value_name = "NAME")]
    name: String,
    /// The provider, by its name in the configuration; needed where several take accounts.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Put it in the place of the account of that name.
    #[arg(long)]
    replace: bool,
    /// Add its entry to the configuration, where it needs one to serve.
    #[arg(long)]
    write_config: bool,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Args)]
pub(super) struct ReplaceArgs {
    /// The account: its name, or provider/name where several have that name.
    #[arg(value_name = "ACCOUNT")]
    account: String,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Args)]
struct SecretArgs {
    /// What it is, where its first characters do not tell.
    #[arg(long, value_enum)]
    kind: Option<OfferedKind>,
    /// The provider's id of the account, for `account_uuid` in requests.
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    uuid: Option<String>,
    /// Read the secret from standard input; for a login the whole credentials file.
    #[arg(long)]
    stdin: bool,
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

/// Blank is the same as none.
fn uuid(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || is_uuid(text) {
        return Ok(text.to_owned());
    }
    Err(format!("an account's uuid looks like {UUID_LIKE}"))
}

pub(super) async fn add(args: AddArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let taken = if args.replace { Taken::Replace } else { Taken::Keep };
    run(globals, args.name, args.provider, taken, args.write_config, args.secret).await
}

pub(super) async fn replace(args: ReplaceArgs, globals: &Globals) -> anyhow::Result<Exit> {
    run(globals, args.account, None, Taken::Renew, false, args.secret).await
}

async fn run(
    globals: &Globals,
    name: String,
    provider: Option<String>,
    taken: Taken,
    write_config: bool,
    args: SecretArgs,
) -> anyhow::Result<Exit> {
    if name.contains("sk-") {
        let text = "a secret is no name, and no argument: it is asked for, or read with --stdin";
        return Err(Ended::error(Exit::Usage, text.to_owned()));
    }
    let secret = secret(&args)?;
    let kind = match args.kind {
        None => asked_kind(&secret)?,
        said => said,
    };
    let wanted = Wanted { name, provider, kind, secret, uuid: args.uuid, organization: None, taken, write_config };
    tell(&save(globals, wanted).await?, args.json)
}

fn secret(args: &SecretArgs) -> anyhow::Result<Zeroizing<String>> {
    if args.stdin {
        return Ok(prompt::standard_input()?);
    }
    if !prompt::is_possible() {
        let text = "nobody is there to be asked for the secret; pipe it in, with --stdin";
        return Err(Ended::error(Exit::Usage, text.to_owned()));
    }
    Ok(prompt::hidden("The token or key (it is not shown): ")?)
}

/// Asks what it is, where its first characters do not tell and somebody is there.
fn asked_kind(secret: &str) -> anyhow::Result<Option<OfferedKind>> {
    let is_plain = SecretShape::of(secret.trim()) == SecretShape::Unknown && !secret.trim_start().starts_with('{');
    if !is_plain || secret.trim().is_empty() || !prompt::is_possible() {
        return Ok(None);
    }
    let kinds = [OfferedKind::ApiKey, OfferedKind::SetupToken];
    let at = prompt::choice("What is it?", &["an API key", "a long-lived OAuth token"])?;
    Ok(kinds.get(at).copied())
}
