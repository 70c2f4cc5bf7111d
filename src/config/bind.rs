//! Where a listener listens: an address, `localhost` on both families, or a Unix socket.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::config::problem::shown;
use crate::config::surroundings::{Surroundings, expand};

/// The port when none is named.
pub const DEFAULT_PORT: u16 = 8787;

/// The longest path that every system takes as a socket's address.
pub const LONGEST_SOCKET_PATH: usize = 103;

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bind {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// `localhost`: 127.0.0.1, and ::1 where the machine has it, since clients may try either first.
    Localhost(u16),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl Bind {
    /// Reads `127.0.0.1:8787`, `[::1]:8787`, `::1`, `localhost`, `unix:/path`; without a port it is 8787.
    ///
    /// # Errors
    /// When it is none of those; the text says what to write.
    pub fn parse(text: &str, surroundings: &dyn Surroundings) -> Result<Self, String> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(&expand(path, surroundings));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        if let Some(ip) = bare_ip(text) {
            return Ok(Self::Tcp(SocketAddr::new(ip, DEFAULT_PORT)));
        }
        localhost(text).unwrap_or_else(|| Err(advice(text)))
    }

    /// Whether only programs on this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Localhost(_) | Self::Unix(_) => true,
        }
    }

    /// The base URL under which clients on this machine reach it, by its literal address; none for a Unix socket.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        match self {
            Self::Tcp(address) => Some(format!("http://{}", SocketAddr::new(reachable(address.ip()), address.port()))),
            Self::Localhost(port) => Some(format!("http://127.0.0.1:{port}")),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn unix(path: &Path) -> Result<Bind, String> {
    if !path.is_absolute() {
        return Err("a Unix socket needs an absolute path: \"unix:/run/duduclaw/gateway.sock\"".to_owned());
    }
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(format!("a Unix socket's path may have {LONGEST_SOCKET_PATH} bytes; use a shorter one"));
    }
    Ok(Bind::Unix(path.to_owned()))
}

fn bare_ip(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

fn localhost(text: &str) -> Option<Result<Bind, String>> {
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    if !host.eq_ignore_ascii_case("localhost") {
        return None;
    }
    let port = if text.contains(':') { port.parse().ok() } else { Some(DEFAULT_PORT) };
    Some(port.map(Bind::Localhost).ok_or_else(|| advice(text)))
}

fn advice(text: &str) -> String {
    let digits = text.trim_start_matches(['*', ':']);
    let port = if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) { digits } else { "8787" };
    let host = if text.starts_with('*') { "0.0.0.0" } else { "127.0.0.1" };
    format!(
        "{} is no address to listen on; write \"{host}:{port}\", \"[::1]:{port}\", \"localhost:{port}\" or \"unix:/path\"",
        shown(text)
    )
}

/// An unspecified address is no destination: the loopback address of its family is.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) | IpAddr::V6(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::surroundings::fake::Fake;

    fn parse(text: &str) -> Result<Bind, String> {
        Bind::parse(text, &Fake::default())
    }

    /// Case C108: IPv6 literals are read with and without brackets and port, and the URL is the literal address.
    #[test]
    fn addresses_of_both_families_are_read_with_and_without_a_port() {
        let cases = [
            ("127.0.0.1:1", "127.0.0.1:1", Some("http://127.0.0.1:1")),
            ("127.0.0.1", "127.0.0.1:8787", Some("http://127.0.0.1:8787")),
            ("[::1]", "[::1]:8787", Some("http://[::1]:8787")),
            ("[::1]:5", "[::1]:5", Some("http://[::1]:5")),
            ("::1", "[::1]:8787", Some("http://[::1]:8787")),
            ("::", "[::]:8787", Some("http://[::1]:8787")),
            ("0.0.0.0:80", "0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("localhost", "localhost:8787", Some("http://127.0.0.1:8787")),
            ("LocalHost:9", "localhost:9", Some("http://127.0.0.1:9")),
            ("unix:/run/d/g.sock", "unix:/run/d/g.sock", None),
            ("unix:~/g.sock", "unix:/home/me/g.sock", None),
        ];
        for (text, display, url) in cases {
            let bind = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(bind.to_string(), display, "{text}");
            assert_eq!(bind.url().as_deref(), url, "{text}");
        }
    }

    #[test]
    fn only_loopback_and_sockets_are_private() {
        for text in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost", "unix:/s"] {
            assert!(parse(text).expect(text).is_loopback(), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "::", "192.168.1.2:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!parse(text).expect(text).is_loopback(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_what_to_write() {
        let bad =
            ["8787", ":8787", "*:80", "gateway.example:1", "localhost:x", "127.0.0.1:99999", "", "unix:s", "[::1"];
        let said: Vec<_> = bad.iter().map(|text| parse(text).expect_err(text)).collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        "8787" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        ":8787" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        "*:80" is no address to listen on; write "0.0.0.0:80", "[::1]:80", "localhost:80" or "unix:/path"
        "gateway.example:1" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        "localhost:x" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        "127.0.0.1:99999" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        "" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        a Unix socket needs an absolute path: "unix:/run/duduclaw/gateway.sock"
        "[::1" is no address to listen on; write "127.0.0.1:8787", "[::1]:8787", "localhost:8787" or "unix:/path"
        "#);
        assert!(parse(&format!("unix:/{}", "x".repeat(103))).is_err());
    }
}
