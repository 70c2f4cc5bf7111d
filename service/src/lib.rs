//! The files with which a service manager runs the gateway: systemd units, and a property list for launchd.
//!
//! Pure text: a [`Plan`] goes in, [`File`]s come out. Never here: talking to a service manager, or looking at the machine.

mod launchd;
mod quote;
mod systemd;
mod template;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use launchd::launchd;
pub use quote::Unwritable;
pub use systemd::systemd;

/// The exit status of a command line that makes no sense, which no restart mends either.
const USAGE: u8 = 2;
/// What a stop may take beyond the time that answers in flight have: the fleet writes down what it knows.
const STOP_MARGIN: Duration = Duration::from_secs(15);

/// All that the files depend on. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whose service it is.
    pub scope: Scope,
    /// The program.
    pub program: PathBuf,
    /// Its home, the one place it writes to.
    pub home: PathBuf,
    /// The configuration file, if it was named.
    pub config: Option<PathBuf>,
    /// The home directory of the user it runs as.
    pub user_home: PathBuf,
    /// Where programs are found.
    pub path: String,
    /// The sockets that the service manager keeps for it; with none it opens its own.
    pub listen: Vec<Listen>,
    /// How long answers in flight have when it stops.
    pub shutdown_timeout: Duration,
    /// How restarts are spaced.
    pub delays: Delays,
}

/// Whose service it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user's own, beside their session.
    User,
    /// The machine's, from its start on.
    System {
        /// The user it runs as.
        user: String,
    },
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// How systemd spaces restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// Always alike: all that systemd before 254 can do.
    Even,
    /// Longer each time.
    Growing,
}

/// A rendered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it belongs.
    pub path: PathBuf,
    /// What stands in it.
    pub text: String,
}

impl Plan {
    /// The program with its arguments.
    fn command(&self) -> Result<Vec<&str>, Unwritable> {
        let mut words = vec![quote::text(&self.program)?, "--home", quote::text(&self.home)?];
        if let Some(config) = &self.config {
            words.extend(["--config", quote::text(config)?]);
        }
        words.push("serve");
        Ok(words)
    }

    /// What it finds in its environment: little, and the same however it is started.
    fn environment(&self) -> Result<[(&'static str, &str); 2], Unwritable> {
        Ok([("HOME", quote::text(&self.user_home)?), ("PATH", quote::text(self.path.as_ref())?)])
    }

    /// The longest that a stop may take, in whole seconds.
    fn stop_within(&self) -> u64 {
        let within = self.shutdown_timeout + STOP_MARGIN;
        within.as_secs() + u64::from(within.subsec_nanos() > 0)
    }
}
