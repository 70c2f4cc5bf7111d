//! Waiting for the browser: a listener on this machine for one answer. Whatever else knocks is answered and ignored.
//!
//! Never here: what the code is worth.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{LoginAttempt, LoginCode};

/// How long a browser may take.
const WITHIN: Duration = Duration::from_secs(300);
/// How long one knock may take to say what it wants.
const KNOCK_WITHIN: Duration = Duration::from_secs(10);
/// How long the last answer may take to be sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// A listener for one answer.
pub(crate) struct Listening {
    listener: TcpListener,
    path: &'static str,
    port: u16,
}

/// Why no code came back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallbackError {
    #[error("nobody came back from the login page within {} minutes", WITHIN.as_secs() / 60)]
    Late,
    #[error("the login page says that it was refused")]
    Refused,
    #[error("the login cannot come back to this machine: {0}")]
    Listen(#[from] io::Error),
}

/// What came back with our state.
enum Came {
    Code(LoginCode),
    Refusal,
}

impl Listening {
    /// Listens at this path on the first of these ports that is free; 0 is any.
    pub(crate) async fn on(ports: &[u16], path: &'static str) -> io::Result<Self> {
        let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port))).collect();
        let listener = TcpListener::bind(addresses.as_slice()).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, path, port })
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the code of this attempt.
    pub(crate) async fn wait(self, attempt: &Arc<LoginAttempt>) -> Result<LoginCode, CallbackError> {
        let (tell, mut came) = mpsc::channel(1);
        let knocks = TaskTracker::new();
        let came = tokio::select! {
            error = self.accept(attempt, &knocks, tell) => return Err(CallbackError::Listen(error)),
            came = tokio::time::timeout(WITHIN, came.recv()) => came.map_err(|_| CallbackError::Late)?,
        };
        knocks.close();
        let _ = tokio::time::timeout(FAREWELL, knocks.wait()).await;
        match came {
            Some(Came::Code(code)) => Ok(code),
            Some(Came::Refusal) => Err(CallbackError::Refused),
            None => Err(CallbackError::Late),
        }
    }
}

impl Listening {
    /// Answers whoever knocks, until the listener itself fails.
    async fn accept(&self, attempt: &Arc<LoginAttempt>, knocks: &TaskTracker, tell: mpsc::Sender<Came>) -> io::Error {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => drop(knocks.spawn(answer(stream, Arc::clone(attempt), self.path, tell.clone()))),
                Err(error) => return error,
            }
        }
    }
}

async fn answer(stream: TcpStream, attempt: Arc<LoginAttempt>, path: &'static str, tell: mpsc::Sender<Came>) {
    let service = service_fn(|request| {
        let answered = reply(&request, &attempt, path, &tell);
        std::future::ready(Ok::<_, Infallible>(answered))
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(KNOCK_WITHIN).keep_alive(false);
    // How a knock ended is nobody's concern.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn reply(
    request: &Request<Incoming>,
    attempt: &LoginAttempt,
    path: &str,
    tell: &mpsc::Sender<Came>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != path {
        return page(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    if request.method() != Method::GET {
        return page(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to be sent here.");
    }
    match came(request, attempt) {
        Some(Came::Code(code)) => {
            // A second answer of the same login changes nothing.
            let _ = tell.try_send(Came::Code(code));
            page(StatusCode::OK, "That was all. The login goes on in the terminal; this page can be closed.")
        }
        Some(Came::Refusal) => {
            let _ = tell.try_send(Came::Refusal);
            page(StatusCode::OK, "The login was refused. The terminal says how to go on.")
        }
        None => page(StatusCode::BAD_REQUEST, "This is not the answer to the login that is waited for."),
    }
}

fn came(request: &Request<Incoming>, attempt: &LoginAttempt) -> Option<Came> {
    let url = Url::parse(&format!("http://localhost/?{}", request.uri().query().unwrap_or_default())).ok()?;
    let value = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let state = value("state")?;
    match value("code") {
        Some(code) => attempt.accept(&code, &state).map(Came::Code),
        None => value("error").and_then(|_| attempt.accept("-", &state)).map(|_| Came::Refusal),
    }
}

fn page(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let html = format!("<!doctype html><meta charset=utf-8><title>duduclaw</title><p>{text}</p>\n");
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // The address has the code in it.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::LoginKind;
    use super::super::tests::attempt;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_longer_than_five_minutes() {
        let listening = Listening::on(&[0], "/callback").await.unwrap();
        let attempt = Arc::new(attempt(LoginKind::Claude));
        let waiting = listening.wait(&attempt);
        let late = tokio::time::timeout(WITHIN + Duration::from_millis(1), waiting).await.expect("no longer");
        assert!(matches!(late, Err(CallbackError::Late)), "{late:?}");
        let listening = Listening::on(&[0], "/callback").await.unwrap();
        let early = tokio::time::timeout(WITHIN - Duration::from_millis(1), listening.wait(&attempt)).await;
        assert!(early.is_err(), "no shorter");
    }

    async fn knock(port: u16, line: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split_whitespace().nth(1).unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn strays_are_answered_and_ignored_and_the_first_right_answer_counts() {
        let listening = Listening::on(&[0], "/callback").await.unwrap();
        let (port, attempt) = (listening.port(), Arc::new(attempt(LoginKind::Claude)));
        let state = attempt.state.to_string();
        let knocks = async {
            // One that says nothing holds nobody up.
            let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            assert_eq!(knock(port, "GET /favicon.ico").await, "404");
            assert_eq!(knock(port, &format!("POST /callback?code=c&state={state}")).await, "405");
            for stray in ["", "?code=c", "?state=x", "?code=c&state=x", "?error=access_denied&state=x", "?code=&state="]
            {
                assert_eq!(knock(port, &format!("GET /callback{stray}")).await, "400", "{stray}");
            }
            assert_eq!(knock(port, &format!("GET /callback?state={state}")).await, "400");
            assert_eq!(knock(port, &format!("GET /callback?code=right&state={state}")).await, "200");
            drop(silent);
        };
        let (came, ()) = tokio::join!(listening.wait(&attempt), knocks);
        assert_eq!(came.unwrap().0.as_str(), "right");
    }

    #[tokio::test]
    async fn a_no_with_our_state_ends_the_wait() {
        let listening = Listening::on(&[0], "/callback").await.unwrap();
        let (port, attempt) = (listening.port(), Arc::new(attempt(LoginKind::Claude)));
        let line = format!("GET /callback?error=access_denied&state={}", attempt.state.as_str());
        let (came, status) = tokio::join!(listening.wait(&attempt), knock(port, &line));
        assert!(matches!(came, Err(CallbackError::Refused)) && status == "200", "{came:?} {status}");
    }
}
