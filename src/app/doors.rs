//! The doors: every socket that is listened on, and for whom.
//!
//! Clients come in where `[server] bind` says, or by the sockets that a service manager hands over. Operators come in
//! there too, unless `[server.admin] bind` gives them a listener of their own; and by the control socket, over which the
//! system says who is at the other end, so that no token is asked for. Never here: what is served.

use std::fs::Permissions;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::home::Home;
use super::{Role, StartError};
use crate::config::bind::{Bind, LONGEST_SOCKET_PATH};
use crate::config::settings::Server;
use crate::credentials::Environment;
use crate::gateway::arrival::{Door, Peers};
use crate::gateway::listener::{Address, BindError, Listener};

/// What systemd tells a service of the folder that it made for it, `/run/duduclaw` for the machine's own service.
const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";

/// Opens them all, or none.
pub(super) async fn open(
    server: &Server,
    home: &Home,
    role: Role,
    environment: &Environment,
) -> Result<Vec<(Listener, Door)>, StartError> {
    if role == Role::Companion {
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        return Ok(vec![(Listener::bind(&any).await?, Door::Everybody)]);
    }
    let own = server.admin.as_ref().map(|admin| admin.binds.as_slice()).unwrap_or_default();
    let first = if own.is_empty() { Door::Everybody } else { Door::Clients };
    let mut doors = Vec::new();
    let inherited = Listener::inherited().map_err(StartError::Inherited)?;
    if inherited.is_empty() {
        for bind in &server.binds {
            doors.extend(bound(bind).await?.into_iter().map(|listener| (listener, first)));
        }
    } else {
        doors.extend(inherited.into_iter().map(|listener| (listener, first)));
    }
    for bind in own {
        doors.extend(bound(bind).await?.into_iter().map(|listener| (listener, Door::Operators)));
    }
    doors.extend(control_socket(home, environment).await?);
    Ok(doors)
}

/// Where those doors are that are wanted.
pub(super) fn addresses(doors: &[(Listener, Door)], wanted: impl Fn(Door) -> bool) -> Result<Vec<Address>, StartError> {
    let found = doors.iter().filter(|(_, door)| wanted(*door)).map(|(listener, _)| listener.address());
    found.collect::<Result<_, _>>().map_err(StartError::Socket)
}

/// `localhost` is both families, where the machine has both, on one port.
async fn bound(bind: &Bind) -> Result<Vec<Listener>, BindError> {
    match bind {
        Bind::Tcp(address) => Ok(vec![Listener::bind(&Address::Tcp(*address)).await?]),
        Bind::Unix(path) => Ok(vec![Listener::bind(&Address::Unix(path.clone())).await?]),
        Bind::Localhost(port) => {
            let first = Listener::bind(&Address::Tcp(([127, 0, 0, 1], *port).into())).await?;
            let port = match first.address() {
                Ok(Address::Tcp(address)) => address.port(),
                Ok(Address::Unix(_)) | Err(_) => *port,
            };
            let six = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
            match Listener::bind(&Address::Tcp(six)).await {
                Ok(second) => Ok(vec![first, second]),
                Err(error @ BindError::Taken { .. }) => Err(error),
                Err(BindError::Failed { .. }) => Ok(vec![first]),
            }
        }
    }
}

/// The control socket. Where none can be made the daemon runs without: its address and the key in the home do as well.
async fn control_socket(home: &Home, environment: &Environment) -> Result<Option<(Listener, Door)>, BindError> {
    let (path, peers) = place(home, environment);
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        tracing::warn!(path = %path.display(), "there is no control socket: its path would be too long for a socket");
        return Ok(None);
    }
    match Listener::bind(&Address::Unix(path.clone())).await {
        Ok(listener) => {
            permit(&path, peers)?;
            Ok(Some((listener, Door::Vouched(peers))))
        }
        Err(error @ BindError::Taken { .. }) => Err(error),
        Err(BindError::Failed { source, .. }) => {
            tracing::warn!(path = %path.display(), error = %source, "there is no control socket: it cannot be made");
            Ok(None)
        }
    }
}

fn place(home: &Home, environment: &Environment) -> (PathBuf, Peers) {
    let folder = environment(RUNTIME_DIRECTORY).and_then(|folders| folders.into_string().ok());
    // Several folders stand with colons between them; ours is the first.
    let folder = folder.as_deref().and_then(|folders| folders.split(':').next()).filter(|folder| !folder.is_empty());
    match folder {
        Some(folder) => (Path::new(folder).join("control.sock"), Peers::Permitted),
        None => (home.control_socket(), Peers::Owner),
    }
}

fn permit(path: &Path, peers: Peers) -> Result<(), BindError> {
    let mode = match peers {
        Peers::Owner => 0o600,
        Peers::Permitted => 0o660,
    };
    let permitted = std::fs::set_permissions(path, Permissions::from_mode(mode));
    permitted.map_err(|source| BindError::Failed { address: Address::Unix(path.to_owned()), source })
}
