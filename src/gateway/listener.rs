//! Where clients come in: sockets, and one task a connection.
//!
//! Accepted sockets have TCP_NODELAY set: without it every streamed answer stalls for the length of a delayed
//! acknowledgement. Never here: what a request means.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::gateway::answer::Answer;
use crate::gateway::arrival::{Arrival, Door};
use crate::gateway::service::Gateway;

/// How long a client may take to send a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long to rest after an accept failed for want of descriptors, so as not to spin.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A bound socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket; the path is removed again when a listener we bound is dropped.
    Unix(UnixListener, Option<SocketPath>),
}

/// The path of a Unix socket that we made.
#[derive(Debug)]
pub struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has it.
    #[error(
        "{address} is taken: another program, perhaps another duduclaw, listens there; stop it or set [server] bind"
    )]
    Taken {
        /// Where.
        address: Address,
    },
    /// Anything else.
    #[error("cannot listen on {address}; set [server] bind to an address of this machine")]
    Failed {
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
}

impl Listener {
    /// Binds an address.
    ///
    /// # Errors
    /// When it is taken or not ours.
    pub async fn bind(address: &Address) -> Result<Self, BindError> {
        let bound = match address {
            Address::Tcp(socket) => TcpListener::bind(socket).await.map(Self::Tcp),
            Address::Unix(path) => bind_unix(path),
        };
        bound.map_err(|source| {
            if source.kind() == io::ErrorKind::AddrInUse {
                return BindError::Taken { address: address.clone() };
            }
            BindError::Failed { address: address.clone(), source }
        })
    }

    /// The listeners that a service manager handed over, if any.
    ///
    /// # Errors
    /// When a descriptor is no listening socket.
    pub fn inherited() -> io::Result<Vec<Self>> {
        let mut handed = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for index in 0..handed.len() {
            if let Ok(Some(tcp)) = handed.take_tcp_listener(index) {
                tcp.set_nonblocking(true)?;
                listeners.push(Self::Tcp(TcpListener::from_std(tcp)?));
            } else if let Some(unix) = handed.take_unix_listener(index)? {
                unix.set_nonblocking(true)?;
                listeners.push(Self::Unix(UnixListener::from_std(unix)?, None));
            }
        }
        Ok(listeners)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket cannot say.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(listener, _) => {
                let address = listener.local_addr()?;
                Ok(Address::Unix(address.as_pathname().unwrap_or(Path::new("")).to_owned()))
            }
        }
    }
}

/// A socket file that nobody answers on is a leftover of a killed daemon and is replaced.
fn bind_unix(path: &Path) -> io::Result<Listener> {
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_leftover(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    };
    bound.map(|listener| Listener::Unix(listener, Some(SocketPath(path.to_owned()))))
}

fn is_leftover(path: &Path) -> bool {
    if !std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        return false;
    }
    let refused = std::os::unix::net::UnixStream::connect(path);
    refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What a connection task needs.
#[derive(Clone)]
pub struct Accepting {
    /// Who answers.
    pub gateway: Arc<Gateway>,
    /// Where connection tasks run.
    pub connections: TaskTracker,
    /// No more connections are accepted once this is cancelled.
    pub stop_accepting: CancellationToken,
    /// Connections close as soon as they are idle once this is cancelled.
    pub close_idle: CancellationToken,
}

/// Accepts connections until told to stop; the socket closes then, unless a service manager keeps it too.
pub async fn accept(listener: Listener, door: Door, accepting: Accepting) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = accepting.stop_accepting.cancelled() => return,
            accepted = next(&listener) => accepted,
        };
        match accepted {
            Ok(Socket::Tcp(stream)) => {
                let _ = stream.set_nodelay(true);
                let arrival = Arrival { local: stream.local_addr().ok(), door };
                let accepting = accepting.clone();
                accepting.connections.clone().spawn(serve(stream, arrival, accepting));
            }
            Ok(Socket::Unix(stream)) if !is_admitted(&stream, door) => {}
            Ok(Socket::Unix(stream)) => {
                let arrival = Arrival { local: None, door };
                let accepting = accepting.clone();
                accepting.connections.clone().spawn(serve(stream, arrival, accepting));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

enum Socket {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn next(listener: &Listener) -> io::Result<Socket> {
    match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
        Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
    }
}

/// Whether the one at the other end may come in, by what the system says of it.
fn is_admitted(stream: &tokio::net::UnixStream, door: Door) -> bool {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if door.admits(peer.uid(), own) => true,
        Ok(peer) => {
            tracing::warn!(user = peer.uid(), "a connection of another user was closed");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection was closed: the system does not say whose it is");
            matches!(door, Door::Everybody | Door::Clients)
        }
    }
}

async fn serve<S>(stream: S, arrival: Arrival, accepting: Accepting)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Accepting { gateway, close_idle, .. } = accepting;
    let builder = builder(gateway.max_header_bytes());
    converse(&builder, stream, &close_idle, move |request| Arc::clone(&gateway).answer(request, arrival)).await;
}

/// One connection from its first byte to its last. The builder's own limit for a head begins when it knows which HTTP is
/// spoken, so a connection that never says enough for that would keep its descriptor for good.
async fn converse<S, F>(
    builder: &auto::Builder<TokioExecutor>,
    stream: S,
    close_idle: &CancellationToken,
    answer: impl Fn(http::Request<Incoming>) -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let asked = CancellationToken::new();
    let service = service_fn(|request| {
        asked.cancel();
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let silent = async {
        if tokio::time::timeout(HEAD_WITHIN, asked.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silent => return,
        () = close_idle.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Heads beyond twice the stated limit are refused while they are read; the rest is judged with a proper error body.
fn builder(max_header_bytes: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(2 * max_header_bytes.max(16 * 1024));
    builder
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn hello(_: http::Request<Incoming>) -> Answer {
        crate::gateway::answer::text("hello")
    }

    /// Whether a client that says this much, and no more, is let go within a minute.
    async fn is_let_go(said: &str) -> bool {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(said.as_bytes()).await.expect("room");
        let (builder, stop) = (builder(1024), CancellationToken::new());
        let served = converse(&builder, server, &stop, hello);
        tokio::time::timeout(Duration::from_secs(60), served).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_asks_anything_is_let_go() {
        for said in [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "POST /v1/messages HTTP/1.1\r\nhost",
        ] {
            assert!(is_let_go(said).await, "{said:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asked_is_not_cut_while_it_is_answered() {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await.expect("room");
        let (builder, stop) = (builder(1024), CancellationToken::new());
        let slowly = |request| async move {
            tokio::time::sleep(HEAD_WITHIN * 10).await;
            hello(request).await
        };
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        let ((), read) = tokio::join!(converse(&builder, server, &stop, slowly), read);
        assert!(read.is_ok() && answer.ends_with("hello"), "{answer}");
    }
}
