//! The environment of a client that is to talk to our gateway and to nobody else: the user's, without credentials and
//! settings for the provider itself, plus ours.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// Every variable that begins so is about another way to the provider.
const PREFIX: &str = "ANTHROPIC_";
/// Credentials that the client must not have.
const CREDENTIALS: [&str; 4] = ["CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Our own variables with this in their names hold tokens of clients and of the control API.
const OUR_TOKENS: (&str, &str) = ("DUDUCLAW_", "TOKEN");
/// Both spellings are in use; programs differ in which they read.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A client's variables.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// The user's environment without what leads to a provider. `secrets` are the variables that the configuration names as
/// holding an account's secret.
pub(super) fn without_ways_to_providers(
    users: impl IntoIterator<Item = (OsString, OsString)>,
    secrets: &BTreeSet<String>,
) -> Variables {
    users.into_iter().filter(|(name, _)| !is_taken_out(name, secrets)).collect()
}

/// Leads the client to our gateway.
pub(super) fn lead(all: &mut Variables, url: &str, token: &str) {
    all.insert("ANTHROPIC_BASE_URL".into(), url.into());
    all.insert("ANTHROPIC_AUTH_TOKEN".into(), token.into());
    let known = NO_PROXY.map(|name| all.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned());
    let [upper, lower] = known;
    for (name, value) in NO_PROXY.into_iter().zip([upper.clone().or(lower.clone()), lower.or(upper)]) {
        all.insert(name.into(), exempt(value, host(url)));
    }
}

fn is_taken_out(name: &OsStr, secrets: &BTreeSet<String>) -> bool {
    name.to_str().is_some_and(|name| {
        let (begin, part) = OUR_TOKENS;
        name.starts_with(PREFIX)
            || CREDENTIALS.contains(&name)
            || secrets.contains(name)
            || (name.starts_with(begin) && name.contains(part))
    })
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// The list with our host in it.
fn exempt(list: Option<OsString>, host: &str) -> OsString {
    let Some(mut list) = list else { return host.into() };
    let named = list.to_string_lossy().split(',').any(|item| ["*", host].contains(&item.trim()));
    if !named {
        list.push(",");
        list.push(host);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(users: &[(&str, &str)]) -> BTreeMap<String, String> {
        let users = users.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let text = |value: OsString| value.into_string().expect("it is text");
        let mut made = without_ways_to_providers(users, &BTreeSet::from(["TEAM_TOKEN".to_owned()]));
        lead(&mut made, "http://127.0.0.1:4711", "token");
        made.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn credentials_and_settings_for_the_provider_are_taken_out_and_the_rest_stays() {
        let users = [
            ("ANTHROPIC_API_KEY", "secret"),
            ("ANTHROPIC_BASE_URL", "https://elsewhere"),
            ("ANTHROPIC_CUSTOM_HEADERS", "x: y"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "secret"),
            ("OPENAI_API_KEY", "secret"),
            ("TEAM_TOKEN", "secret"),
            ("DUDUCLAW_CLIENT_TOKENS", "laptop:secret"),
            ("DUDUCLAW_CLIENT_TOKEN", "secret"),
            ("GEMINI_API_KEY", "secret"),
            ("GOOGLE_API_KEY", "secret"),
            ("CLAUDE_CODE_MAX_RETRIES", "3"),
            ("MY_ANTHROPIC_NOTE", "kept"),
            ("LANG", "C"),
        ];
        let made = of(&users);
        insta::assert_snapshot!(made.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>(), @r"
        ANTHROPIC_AUTH_TOKEN=token
        ANTHROPIC_BASE_URL=http://127.0.0.1:4711
        CLAUDE_CODE_MAX_RETRIES=3
        LANG=C
        MY_ANTHROPIC_NOTE=kept
        NO_PROXY=127.0.0.1
        no_proxy=127.0.0.1
        ");
    }

    /// C109: a proxy in the environment must not swallow what goes to this machine.
    #[test]
    fn our_address_is_exempt_from_proxies_and_what_was_exempt_stays() {
        let of_list = |users: &[(&str, &str)]| {
            let made = of(users);
            (made["NO_PROXY"].clone(), made["no_proxy"].clone())
        };
        let both = |list: &str| (list.to_owned(), list.to_owned());
        assert_eq!(of_list(&[]), both("127.0.0.1"));
        assert_eq!(of_list(&[("NO_PROXY", "")]), both("127.0.0.1"));
        assert_eq!(of_list(&[("NO_PROXY", "10.0.0.0/8")]), both("10.0.0.0/8,127.0.0.1"));
        assert_eq!(of_list(&[("no_proxy", "a, 127.0.0.1 ")]), both("a, 127.0.0.1 "));
        assert_eq!(of_list(&[("NO_PROXY", "*")]), both("*"));
        let own = of_list(&[("NO_PROXY", "a"), ("no_proxy", "b")]);
        assert_eq!(own, ("a,127.0.0.1".to_owned(), "b,127.0.0.1".to_owned()), "each program keeps what it read");
    }

    #[test]
    fn the_host_is_what_stands_before_the_port() {
        assert_eq!(host("http://127.0.0.1:8787"), "127.0.0.1");
        assert_eq!(host("http://[::1]:8787"), "[::1]");
        assert_eq!(host("http://localhost/"), "localhost");
    }
}
