//! The HTTP client: GET from one server, over plain connections and TLS, for services that inventories are read from; and
//! POST to servers of our own.
//!
//! Connections are kept for the next request. A GET that fails on a kept connection, which the server may have
//! closed meanwhile, is sent once more on a new one; whoever asks repeats the others. A POST is sent once, on a new one.
//!
//! Invariants: a request ends within its time, name look-up and TLS included; a body is complete, as long as the server
//! said, and no longer than the limit; a body whose end only the end of the connection would show is refused, since it
//! may be cut off. Redirections are not followed.
//!
//! Cost: O(body); a round trip on a kept connection, two or three more on a new one.
//!
//! RFCs: 9110 sections 8.8.3 and 13.1.2 (ETag, If-None-Match), 9112 section 6.3 (length of bodies), 6750 section 2.1
//! (bearer tokens), 8446 (TLS).

use super::stream::{Stream, dial};
use super::tls::{Trust, connector};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH, TRANSFER_ENCODING,
};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Connections that are kept for the next request.
const MOST_IDLE: usize = 4;

/// Faults of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no TLS: {0}")]
    Tls(String),
    #[error("no answer within {0:?}")]
    Slow(Duration),
    #[error("the connection ended before the answer: {0}")]
    Broken(String),
    #[error("answered {0}")]
    Status(u16),
    #[error("the answer is longer than {0} octets")]
    TooLong(u64),
    #[error("the answer has neither Content-Length nor chunks, so that nobody can tell whether it is whole")]
    Unbounded,
    #[error("cannot be asked: {0}")]
    Request(String),
}

impl HttpError {
    /// All labels, for metrics.
    pub const LABELS: [&'static str; 8] =
        ["unreachable", "tls", "slow", "disconnected", "status", "too-long", "unbounded", "request"];

    /// The metric label.
    pub fn label(&self) -> &'static str {
        let index = match self {
            HttpError::Connect(_) => 0,
            HttpError::Tls(_) => 1,
            HttpError::Slow(_) => 2,
            HttpError::Broken(_) => 3,
            HttpError::Status(_) => 4,
            HttpError::TooLong(_) => 5,
            HttpError::Unbounded => 6,
            HttpError::Request(_) => 7,
        };
        HttpError::LABELS[index]
    }
}

/// Server and path that a URL names, and how it is reached.
pub struct Endpoint {
    host: String,
    port: u16,
    /// Value of the field Host.
    authority: String,
    /// Path and query of the URL.
    path: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Endpoint {
    /// Reads a URL of the scheme `http` or `https`. Servers of the latter show a certificate that one of `ca` has signed,
    /// or one that the system trusts where there is none. An error says what is wrong with URL or certificates.
    pub fn new(url: &Url, ca: Option<&str>) -> Result<Endpoint, String> {
        Endpoint::with_identity(url, ca, None)
    }

    /// The same, where we show who we are: `identity` is a PEM text with our certificate chain and its key.
    pub fn with_identity(url: &Url, ca: Option<&str>, identity: Option<&[u8]>) -> Result<Endpoint, String> {
        let (host, authority) = match url.host() {
            Some(Host::Domain(name)) => (name.to_owned(), name.to_owned()),
            Some(Host::Ipv4(address)) => (address.to_string(), address.to_string()),
            Some(Host::Ipv6(address)) => (address.to_string(), format!("[{address}]")),
            None => return Err("the URL names no server".to_owned()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL has a user or password; write a token into a file of its own".to_owned());
        }
        let Some(port) = url.port_or_known_default() else { return Err("the URL has no port".to_owned()) };
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                Some((connector(ca.map_or(Trust::System, Trust::Listed), identity)?, name))
            }
            other => return Err(format!("\"{other}\" is neither http nor https")),
        };
        let authority = url.port().map_or(authority.clone(), |port| format!("{authority}:{port}"));
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", url.path());
        Ok(Endpoint { host, port, authority, path, tls })
    }

    /// Value of the field Host.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query of something below the URL, or of the URL itself if `path` is empty.
    pub fn path(&self, path: &str) -> String {
        let base = if path.is_empty() { &self.path } else { self.path.trim_end_matches('/') };
        format!("{base}{path}")
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Box<dyn Stream>, HttpError> {
        let stream = dial(&self.host, self.port).await.map_err(|error| HttpError::Connect(error.to_string()))?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                Ok(Box::new(stream.map_err(|error| HttpError::Tls(error.to_string()))?))
            }
        }
    }
}

/// Body of a request; empty with GET.
#[derive(Default)]
struct Payload(Bytes);

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let payload = std::mem::take(&mut self.0);
        Poll::Ready(Some(payload).filter(|payload| !payload.is_empty()).map(|payload| Ok(Frame::data(payload))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Request for one path.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// Path and query, which follow the endpoint's own path.
    pub path: &'a str,
    /// Tag of the answer that the asker has.
    pub etag: Option<&'a str>,
    /// Token that shows who asks.
    pub token: Option<&'a str>,
    /// Time for the whole request.
    pub time: Duration,
    /// Longest body that is taken.
    pub octets: u64,
}

/// JSON that is sent to a path.
#[derive(Clone, Debug)]
pub struct Post<'a> {
    /// Path and query, which follow the endpoint's own path.
    pub path: &'a str,
    pub json: Vec<u8>,
    /// Time for the whole request.
    pub time: Duration,
    /// Longest body that is taken.
    pub octets: u64,
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

/// Client of one server.
pub struct HttpClient {
    endpoint: Endpoint,
    idle: Mutex<Vec<SendRequest<Payload>>>,
}

impl HttpClient {
    /// Makes a client, which has no connection yet.
    pub fn new(endpoint: Endpoint) -> HttpClient {
        HttpClient { endpoint, idle: Mutex::default() }
    }

    /// Server that is asked.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks for a path. Every status is an answer.
    pub async fn get(&self, get: Get<'_>) -> Result<Answer, HttpError> {
        timeout(get.time, self.ask(get)).await.unwrap_or(Err(HttpError::Slow(get.time)))
    }

    async fn ask(&self, get: Get<'_>) -> Result<Answer, HttpError> {
        let kept = self.idle.lock().pop();
        if let Some(sender) = kept
            && let Ok(answer) = self.ask_on(sender, get).await
        {
            return Ok(answer);
        }
        self.ask_on(self.open().await?.0, get).await
    }

    /// Sends JSON to a path. Every status is an answer.
    pub async fn post(&self, post: Post<'_>) -> Result<Answer, HttpError> {
        let (time, octets) = (post.time, post.octets);
        let request = Request::post(self.endpoint.path(post.path)).header(HOST, self.endpoint.authority.as_str());
        let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
        let request = request.body(Payload(post.json.into())).map_err(|error| HttpError::Request(error.to_string()))?;
        let sent = async {
            let (sender, fault) = self.open().await?;
            let sent = self.send(sender, request, octets).await;
            // Why a connection ended only its stream knows, such as that our certificate is not believed.
            match (sent, fault.lock().take()) {
                (Err(HttpError::Broken(_)), Some(fault)) => Err(HttpError::Broken(fault)),
                (sent, _) => sent,
            }
        };
        timeout(time, sent).await.unwrap_or(Err(HttpError::Slow(time)))
    }

    /// Opens a connection for requests; with it comes what will have gone wrong with its stream.
    async fn open(&self) -> Result<(SendRequest<Payload>, Fault), HttpError> {
        let fault = Fault::default();
        let stream = TokioIo::new(Noted { stream: self.endpoint.connect().await?, fault: fault.clone() });
        let (sender, connection) =
            http1::handshake(stream).await.map_err(|error| HttpError::Broken(error.to_string()))?;
        // Ends when the sender is dropped; its errors are those of the request.
        tokio::spawn(connection);
        Ok((sender, fault))
    }

    /// Asks on a connection.
    async fn ask_on(&self, sender: SendRequest<Payload>, get: Get<'_>) -> Result<Answer, HttpError> {
        let unfit = |error: &dyn std::fmt::Display| HttpError::Request(error.to_string());
        let request = Request::get(self.endpoint.path(get.path)).header(HOST, self.endpoint.authority.as_str());
        let mut request =
            request.header(ACCEPT, "application/json").body(Payload::default()).map_err(|error| unfit(&error))?;
        if let Some(etag) = get.etag {
            let etag = HeaderValue::from_str(etag).map_err(|error| unfit(&error))?;
            request.headers_mut().insert(IF_NONE_MATCH, etag);
        }
        if let Some(token) = get.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| unfit(&error))?;
            bearer.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, bearer);
        }
        self.send(sender, request, get.octets).await
    }

    /// Sends a request on a connection, and keeps that if the answer was read to its end.
    async fn send(
        &self,
        mut sender: SendRequest<Payload>,
        request: Request<Payload>,
        octets: u64,
    ) -> Result<Answer, HttpError> {
        let broken = |error: hyper::Error| HttpError::Broken(error.to_string());
        sender.ready().await.map_err(broken)?;
        let (head, mut body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        let is_bounded = head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING);
        // Answers of these statuses have no body (RFC 9112, section 6.3).
        if !is_bounded && !matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
            return Err(HttpError::Unbounded);
        }
        let body = read_body(&mut body, octets).await?;
        let etag = head.headers.get(ETAG).and_then(|etag| Some(etag.to_str().ok()?.to_owned()));
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(sender);
        }
        Ok(Answer { status: head.status, etag, body })
    }
}

/// The first error of a stream.
type Fault = Arc<Mutex<Option<String>>>;

/// A stream that notes its first error.
struct Noted {
    stream: Box<dyn Stream>,
    fault: Fault,
}

impl Noted {
    /// Notes an error, if it is one and the first.
    fn note<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            self.fault.lock().get_or_insert_with(|| error.to_string());
        }
        result
    }
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(read)
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        // A server that has closed tells why to those who read.
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Reads a body to its end.
async fn read_body(body: &mut Incoming, limit: u64) -> Result<Vec<u8>, HttpError> {
    let fits = |length: u64| if length > limit { Err(HttpError::TooLong(limit)) } else { Ok(()) };
    fits(body.size_hint().lower())?;
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        let frame = frame.map_err(|error| HttpError::Broken(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            fits((octets.len() + data.len()) as u64)?;
            octets.extend_from_slice(&data);
        }
    }
    Ok(octets)
}

#[cfg(test)]
mod tests;
