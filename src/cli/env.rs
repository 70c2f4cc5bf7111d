//! `duduclaw env`: the variables that point a client here.

use clap::{Args, ValueEnum};

use super::{Exit, Globals, daemon, say};

/// Print the variables that point a client here.
#[derive(Debug, Args)]
pub struct EnvArgs {
    /// The shell that reads them.
    #[arg(long, value_enum, default_value_t = Shell::Sh)]
    shell: Shell,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// Also bash, zsh, dash and ksh, which read the same.
    #[value(aliases = ["bash", "zsh", "dash", "ksh"])]
    Sh,
    /// fish.
    Fish,
    /// PowerShell.
    Powershell,
}

/// The variables that send clients through a proxy.
const PROXIES: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// What clients send when the gateway asks for no token: Claude Code wants to send some.
const ANY_TOKEN: &str = "duduclaw";

pub(super) fn run(args: &EnvArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let url = daemon::address(globals)?;
    let mut variables = vec![("ANTHROPIC_BASE_URL", url.clone()), ("ANTHROPIC_AUTH_TOKEN", ANY_TOKEN.to_owned())];
    variables.extend(past_proxies(&url, |name| std::env::var(name).ok().filter(|value| !value.is_empty())));
    if args.json {
        let object: serde_json::Map<String, serde_json::Value> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
        return Ok(Exit::Done);
    }
    for (name, value) in variables {
        say(&format!("{}\n", line(args.shell, name, &value)))?;
    }
    Ok(Exit::Done)
}

/// Where the environment names a proxy, clients must be told that the way to the gateway is not through it.
fn past_proxies(url: &str, var: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let proxied = PROXIES.iter().any(|name| var(name).is_some());
    let host = host(url).filter(|_| proxied);
    let Some(host) = host else { return Vec::new() };
    let named = var("NO_PROXY").or_else(|| var("no_proxy")).unwrap_or_default();
    let known = named.split(',').any(|known| known.trim() == host || known.trim() == "*");
    let list = match (named.is_empty(), known) {
        (_, true) => named,
        (true, false) => host.to_owned(),
        (false, false) => format!("{named},{host}"),
    };
    vec![("NO_PROXY", list.clone()), ("no_proxy", list)]
}

/// The host of a base URL, as it stands in lists of hosts: IPv6 without brackets.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    let (host, _port) = authority.rsplit_once(':')?;
    Some(host.trim_start_matches('[').trim_end_matches(']'))
}

fn line(shell: Shell, name: &str, value: &str) -> String {
    match shell {
        Shell::Sh => format!("export {name}='{value}'"),
        Shell::Fish => format!("set -gx {name} '{value}'"),
        Shell::Powershell => format!("$env:{name} = '{value}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:8787";

    fn told(url: &str, vars: &[(&str, &str)]) -> Option<String> {
        let var = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let told = past_proxies(url, var);
        let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
        assert!(names.is_empty() || names == ["NO_PROXY", "no_proxy"]);
        told.into_iter().next().map(|(_, value)| value)
    }

    #[test]
    fn without_a_proxy_nothing_is_said_of_it() {
        assert_eq!(told(URL, &[("NO_PROXY", "corp.example")]), None);
    }

    /// C109.
    #[test]
    fn the_way_to_the_gateway_is_past_every_proxy() {
        assert_eq!(told(URL, &[("http_proxy", "http://p:3128")]).as_deref(), Some("127.0.0.1"));
        assert_eq!(told("http://[::1]:8787", &[("ALL_PROXY", "socks5h://p:1080")]).as_deref(), Some("::1"));
    }

    #[test]
    fn what_went_past_it_before_still_does() {
        let proxy = ("HTTPS_PROXY", "http://p:3128");
        let named = |list| told(URL, &[proxy, ("no_proxy", list)]);
        assert_eq!(named("corp.example,10.0.0.0/8").as_deref(), Some("corp.example,10.0.0.0/8,127.0.0.1"));
        assert_eq!(named("localhost, 127.0.0.1").as_deref(), Some("localhost, 127.0.0.1"));
        assert_eq!(named("*").as_deref(), Some("*"));
    }
}
