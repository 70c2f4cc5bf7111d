//! launchd: a property list. The gateway opens its own sockets there.

use std::path::PathBuf;

use crate::quote::{self, Unwritable};
use crate::template::fill;
use crate::{File, Plan, Scope};

const PLIST: &str = include_str!("../templates/gateway.plist");
const NAME: &str = "com.duduclaw.gateway.plist";

/// The property list `com.duduclaw.gateway`.
///
/// # Errors
/// When a path cannot be written.
pub fn launchd(plan: &Plan) -> Result<File, Unwritable> {
    let command: Vec<_> = plan.command()?.into_iter().map(|word| format!("\t\t{}", string(word))).collect();
    let environment = plan.environment()?.map(|(name, value)| format!("\t\t{}\n\t\t{}", key(name), string(value)));
    let values = [
        ("command", command.join("\n")),
        ("user", user(plan)?),
        ("environment", environment.join("\n")),
        ("stop_within", plan.stop_within().to_string()),
        ("log", quote::xml(quote::text(&plan.home.join("gateway.log"))?)),
    ];
    Ok(File { path: folder(plan).join(NAME), text: fill(PLIST, &values) })
}

fn folder(plan: &Plan) -> PathBuf {
    match plan.scope {
        Scope::User => plan.user_home.join("Library/LaunchAgents"),
        Scope::System { .. } => PathBuf::from("/Library/LaunchDaemons"),
    }
}

fn user(plan: &Plan) -> Result<String, Unwritable> {
    match &plan.scope {
        Scope::User => Ok(String::new()),
        Scope::System { user } => Ok(format!("\t{}\n\t{}", key("UserName"), string(quote::text(user.as_ref())?))),
    }
}

fn key(name: &str) -> String {
    format!("<key>{name}</key>")
}

fn string(text: &str) -> String {
    format!("<string>{}</string>", quote::xml(text))
}
