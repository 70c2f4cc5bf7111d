//! What is used when there is no configuration: the logins and keys found on this machine, as one pool.
//!
//! The pool mixes kinds, so its strategy is `least_cost`: subscriptions come before metered keys. The key also has a
//! worse priority, so that it stays behind among accounts that are equally (un)usable. And a subscription counts as near
//! its end only when it is at it: money is spent when no subscription can serve, and not a moment before.

use std::path::PathBuf;

use super::surroundings::Surroundings;

/// What was found, written as a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) text: String,
    pub(crate) anything: bool,
}

const POOL: &str = "[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"https://api.anthropic.com\"\n\
                    auth = \"claude_oauth\"\nstrategy = \"least_cost\"\n";

/// Beside a key, a subscription is used to its last.
const TO_THE_LAST: &str = "[server.pool]\nhard_threshold = 1.0\n";

/// Looks for Claude Code's login, its token variable, an API key, and the names in the account store.
///
/// With nothing found the pool is the whole store, so that the first login serves at once.
pub(crate) fn discover(stored: &[String], surroundings: &dyn Surroundings) -> Discovered {
    let free = |name: &str| free_name(name, stored);
    let mut accounts = String::new();
    if let Some(path) = claude_code_login(surroundings) {
        let source = format!("credentials = {}", quoted(&path.to_string_lossy()));
        accounts += &account(&free("claude-code"), &source);
    }
    for name in stored {
        accounts += &account(name, "");
    }
    if surroundings.text_var("CLAUDE_CODE_OAUTH_TOKEN").is_some() {
        accounts += &account(&free("claude-code-token"), "token_env = \"CLAUDE_CODE_OAUTH_TOKEN\"");
    }
    if surroundings.text_var("ANTHROPIC_API_KEY").is_some() {
        accounts += &account(&free("anthropic-api-key"), "api_key_env = \"ANTHROPIC_API_KEY\"\npriority = 200");
        accounts += TO_THE_LAST;
    }
    Discovered { text: format!("{POOL}{accounts}"), anything: !accounts.is_empty() }
}

/// The name, or one made of it that the store does not have.
fn free_name(name: &str, stored: &[String]) -> String {
    let taken = stored.iter().any(|other| other == name);
    if taken { free_name(&format!("{name}-found"), stored) } else { name.to_owned() }
}

fn claude_code_login(surroundings: &dyn Surroundings) -> Option<PathBuf> {
    let configured = surroundings.text_var("CLAUDE_CONFIG_DIR").map(|dir| PathBuf::from(dir.trim()));
    let folder = configured.or_else(|| surroundings.user_home().map(|home| home.join(".claude")))?;
    let path = folder.join(".credentials.json");
    surroundings.has_secret(&path).then_some(path)
}

fn account(name: &str, source: &str) -> String {
    format!("[[providers.anthropic.accounts]]\nname = {}\n{source}\n", quoted(name))
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::surroundings::fake::Fake;

    #[test]
    fn the_key_stands_behind_every_subscription() {
        let machine = Fake::default()
            .with_var("ANTHROPIC_API_KEY", "sk-ant-api03-canary")
            .with_var("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-canary")
            .with_file("/home/me/.claude/.credentials.json", "{}");
        let found = discover(&["team".to_owned()], &machine);
        assert!(found.anything);
        insta::assert_snapshot!(found.text, @r#"
        [providers.anthropic]
        kind = "anthropic"
        base_url = "https://api.anthropic.com"
        auth = "claude_oauth"
        strategy = "least_cost"
        [[providers.anthropic.accounts]]
        name = "claude-code"
        credentials = "/home/me/.claude/.credentials.json"
        [[providers.anthropic.accounts]]
        name = "team"

        [[providers.anthropic.accounts]]
        name = "claude-code-token"
        token_env = "CLAUDE_CODE_OAUTH_TOKEN"
        [[providers.anthropic.accounts]]
        name = "anthropic-api-key"
        api_key_env = "ANTHROPIC_API_KEY"
        priority = 200
        [server.pool]
        hard_threshold = 1.0
        "#);
    }

    #[test]
    fn another_profile_is_looked_for_where_claude_code_looks() {
        let machine = Fake::default()
            .with_var("CLAUDE_CONFIG_DIR", "/profiles/claude \"x\"")
            .with_file("/profiles/claude \"x\"/.credentials.json", "{}")
            .with_file("/home/me/.claude/.credentials.json", "{}");
        let text = discover(&[], &machine).text;
        assert!(text.contains("/profiles/claude") && !text.contains("/home/me"), "{text}");
    }

    #[test]
    fn what_is_found_takes_no_name_of_the_store() {
        let machine = Fake::default().with_file("/home/me/.claude/.credentials.json", "{}");
        let text = discover(&["claude-code".to_owned()], &machine).text;
        assert!(text.contains("name = \"claude-code-found\"") && text.contains("name = \"claude-code\""), "{text}");
    }

    #[test]
    fn nothing_found_is_the_whole_store() {
        assert_eq!(discover(&[], &Fake::default().with_var("ANTHROPIC_API_KEY", " ")).text, POOL);
    }
}
