//! The provider's own address, for a program that asks there whatever it is told: an HTTPS proxy that ends the TLS of
//! `platform.claude.com` with a certificate of the test's and brings token requests to the simulator. Nothing else that is
//! asked for through it is found, and nothing leaves the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// Where tokens are renewed.
const TOKENS: &str = "platform.claude.com";
/// What else the client asks there, which is none of this test.
const OTHERS: [&str; 4] = ["api.anthropic.com", "claude.ai", "mcp-proxy.anthropic.com", "downloads.claude.ai"];
const NOT_FOUND: &str = r#"{"type":"error","error":{"type":"not_found_error","message":"nothing is here"}}"#;

/// The proxy.
pub struct Detour {
    /// Its address, for `HTTPS_PROXY`.
    pub url: String,
    /// The certificate of who vouches for it, for `NODE_EXTRA_CA_CERTS`.
    pub authority: PathBuf,
}

impl Detour {
    /// One that brings token requests there.
    pub async fn to(token_url: &str, folder: &Path) -> Self {
        // Another test of this process may have installed it.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let (authority, acceptor) = certified();
        let file = folder.join("authority.pem");
        std::fs::write(&file, authority).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let token_url = token_url.to_owned();
        detached(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, token_url) = (acceptor.clone(), token_url.clone());
                detached(async move {
                    // A client that breaks off is none of the test's business.
                    let _ = tunnel(connection, acceptor, &token_url).await;
                });
            }
        });
        Self { url, authority: file }
    }
}

#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
fn detached(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// An authority, and a server that it vouches for.
fn certified() -> (String, TlsAcceptor) {
    // Two names: a certificate that is issued by its own name counts as self-signed.
    let named = |names: Vec<String>, name: &str| {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut params = named(Vec::new(), "authority of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<String> = std::iter::once(TOKENS).chain(OTHERS).map(str::to_owned).collect();
    let key = KeyPair::generate().unwrap();
    let certificate = named(names, TOKENS).signed_by(&key, &authority).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
    (authority.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// `CONNECT`, TLS, and one request after another.
async fn tunnel(connection: TcpStream, acceptor: TlsAcceptor, token_url: &str) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let host = head(&mut connection).await?.0;
    let host = host.split_whitespace().nth(1).unwrap_or_default().to_owned();
    connection.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let mut inside = BufReader::new(acceptor.accept(connection.into_inner()).await?);
    loop {
        let (line, length) = head(&mut inside).await?;
        if line.is_empty() {
            return Ok(());
        }
        let mut body = vec![0; length];
        inside.read_exact(&mut body).await?;
        let is_token = host.starts_with(TOKENS) && line.starts_with("POST /v1/oauth/token ");
        let (status, answer) = if is_token { renewed(token_url, body).await } else { (404, NOT_FOUND.to_owned()) };
        respond(&mut inside, status, &answer).await?;
    }
}

/// A request's first line, and the length of its body.
async fn head(from: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<(String, usize)> {
    let (mut first, mut length) = (String::new(), 0);
    from.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).await? == 0 || line.trim().is_empty() {
            return Ok((first.trim().to_owned(), length));
        }
        let value = line.to_ascii_lowercase().strip_prefix("content-length:").map(|value| value.trim().parse());
        length = value.and_then(Result::ok).unwrap_or(length);
    }
}

async fn renewed(token_url: &str, body: Vec<u8>) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(token_url).header("content-type", "application/json").body(body);
    match request.send().await {
        Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
        Err(error) => (502, format!("{{\"error\": \"{error}\"}}")),
    }
}

async fn respond(to: &mut (impl AsyncWrite + Unpin), status: u16, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    to.write_all(head.as_bytes()).await?;
    to.write_all(body.as_bytes()).await?;
    to.flush().await
}
