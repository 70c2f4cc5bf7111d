//! What the roles share: listening, and connecting with small packets sent at once.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no free port on the loopback")?;
    Ok(listener.local_addr()?)
}

/// Two threads, as many as the proxy and the machine of a small CI run have.
pub(crate) fn two_workers() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Serves HTTP/1.1 until the process is stopped.
#[expect(clippy::disallowed_methods, reason = "a process that is killed at its end has no shutdown to wait for")]
pub(crate) async fn serve<S, B>(listen: SocketAddr, service: S) -> Result<()>
where
    S: HttpService<Incoming, ResBody = B> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone()));
    }
}

/// One connection of the client's own.
#[expect(clippy::disallowed_methods, reason = "the connection ends with the process")]
pub(crate) async fn connect(target: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(target).await.with_context(|| format!("cannot connect to {target}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// The error of a body that cannot fail.
pub(crate) type Never = Infallible;
