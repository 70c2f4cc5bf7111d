//! The minimal proxy everything is compared with: HTTP/1.1 on both legs, bodies streamed both ways, two workers,
//! small packets sent at once on both legs, pooled connections. It decides nothing and reads nothing.

use std::net::SocketAddr;

use anyhow::Result;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;

use crate::net;

/// Forwards everything that comes to `listen` to `upstream`.
pub(crate) fn serve(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let forward = service_fn(move |request| forward(client.clone(), upstream, request));
    net::two_workers()?.block_on(net::serve(listen, forward))
}

async fn forward(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = format!("http://{upstream}{path}").parse::<Uri>();
    *request.uri_mut() = uri.expect("a path that was parsed once parses again behind an address");
    request.headers_mut().remove(HOST);
    request.headers_mut().remove(CONNECTION);
    client.request(request).await
}
