//! HTTP for monitoring: `/metrics`, `/healthz` and `/readyz`, one request a connection (RFC 9110, RFC 9112).
//!
//! Health means that the process runs. Readiness means that clients get answers: every region, or every zone where no
//! region is configured, has valid data.
//!
//! Invariants: a connection ends after one response or five seconds; beyond a number of connections new ones are
//! closed at once. Bodies of requests are not read.
//!
//! Cost: a task and at most 8 KiB for each connection; a scrape is O(series).

use crate::metrics::Metrics;
use crate::name::Name;
use crate::publish::{Published, State};
use crate::serve::stream::listen;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Longest request line and header fields together; scrapers send a few hundred octets.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Connections at the same time.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take from its first octet to its last.
const PATIENCE: Duration = Duration::from_secs(5);
/// What `/` says.
const INDEX: &str = "/metrics  measurements for Prometheus\n/healthz  200 while the server runs\n\
                     /readyz   200 when every region, or every zone without regions, is served; else what is missing\n";

/// What the responses are made of.
struct Context {
    metrics: Arc<Metrics>,
    ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    patience: Duration,
}

/// A listening address for monitoring. Dropping it stops accepting.
pub struct HttpListener {
    address: SocketAddr,
    listener: Option<std::net::TcpListener>,
    patience: Duration,
    stop: watch::Sender<bool>,
}

impl HttpListener {
    /// Binds an address without accepting yet.
    pub fn bind(address: SocketAddr) -> io::Result<HttpListener> {
        HttpListener::from_listener(listen(address)?)
    }

    /// Takes a socket that [`listen`] made, perhaps in an earlier process.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<HttpListener> {
        let address = listener.local_addr()?;
        Ok(HttpListener { address, listener: Some(listener), patience: PATIENCE, stop: watch::Sender::new(false) })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts accepting. `ready` says whether clients get answers, or else what is missing, one thing a line.
    pub fn start(
        &mut self,
        metrics: Arc<Metrics>,
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> io::Result<()> {
        if let Some(listener) = self.listener.take() {
            let listener = TcpListener::from_std(listener)?;
            let context = Arc::new(Context { metrics, ready: Box::new(ready), patience: self.patience });
            tokio::spawn(accept(listener, context, self.stop.subscribe()));
        }
        Ok(())
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Whether everything that is published can be answered from; only the regions count if there are any.
pub fn readiness(published: &Published, regions: &[Name]) -> Result<(), String> {
    let state_of = |origin: &Name| published.get(origin).map_or(State::NotReady, |served| served.state);
    let mut states: Vec<(Name, State)> = if regions.is_empty() {
        published.iter().map(|served| (served.origin.clone(), served.state)).collect()
    } else {
        regions.iter().map(|origin| (origin.clone(), state_of(origin))).collect()
    };
    if states.is_empty() {
        return Err("no zones yet\n".to_string());
    }
    states.retain(|(_, state)| *state != State::Ok);
    states.sort_by(|(one, _), (other, _)| one.canonical_cmp(other));
    let missing: String = states.iter().map(|(origin, state)| format!("{origin} {}\n", state.label())).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// Accepts connections until told to stop.
async fn accept(listener: TcpListener, context: Arc<Context>, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Ok(place) = places.clone().try_acquire_owned() {
                    let context = context.clone();
                    tokio::spawn(async move {
                        // Whatever goes wrong with a connection concerns its client alone.
                        let _ = timeout(context.patience, serve(stream, &context)).await;
                        drop(place);
                    });
                }
            }
            Err(error) => {
                // Out of file descriptors, most likely: accepting again at once would only spin.
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection.
async fn serve(mut stream: TcpStream, context: &Context) -> io::Result<()> {
    let mut input = Vec::new();
    let head_bytes = loop {
        if let Some(end) = find_head_end(&input) {
            break Some(end);
        }
        if input.len() >= MAX_HEAD_BYTES {
            break None;
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    };
    let response = match head_bytes {
        Some(end) => respond(&input[..end], context),
        None => Response::plain("431 Request Header Fields Too Large", "the request is too long\n"),
    };
    stream.write_all(&response.into_bytes()).await?;
    stream.shutdown().await?;
    // Closing with octets unread would reset the connection and could take the response with it (RFC 9112 section 9.6).
    input.clear();
    while stream.read_buf(&mut input).await? > 0 {
        input.clear();
    }
    Ok(())
}

/// Where the empty line after the header fields ends; a lone line feed ends a line too (RFC 9112 section 2.2).
fn find_head_end(input: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, _) in input.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        let line = &input[line_start..at];
        // Empty lines before the request line are to be ignored (RFC 9112 section 2.2).
        if line.strip_suffix(b"\r").unwrap_or(line).is_empty() && !input[..line_start].trim_ascii().is_empty() {
            return Some(at + 1);
        }
        line_start = at + 1;
    }
    None
}

/// What is sent back.
struct Response {
    status: &'static str,
    content_type: &'static str,
    /// A further header field with its line end, or nothing.
    field: &'static str,
    body: String,
    /// HEAD asks for the fields alone (RFC 9110 section 9.3.2).
    without_body: bool,
}

impl Response {
    /// A response for people.
    fn plain(status: &'static str, body: impl Into<String>) -> Response {
        let content_type = "text/plain; charset=utf-8";
        Response { status, content_type, field: "", body: body.into(), without_body: false }
    }

    /// The response as it is sent.
    fn into_bytes(self) -> Vec<u8> {
        let Response { status, content_type, field, body, .. } = &self;
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n{field}\r\n"
        )
        .into_bytes();
        if !self.without_body {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

/// Answers a complete request.
fn respond(head: &[u8], context: &Context) -> Response {
    let malformed = || Response::plain("400 Bad Request", "the request is no HTTP/1.1\n");
    let Ok(head) = std::str::from_utf8(head) else { return malformed() };
    let mut lines = head.trim_start().lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { return malformed() };
    match version {
        "HTTP/1.0" => {}
        // A request without a host is an error (RFC 9112 section 3.2).
        "HTTP/1.1" if lines.any(|line| line.len() >= 5 && line.as_bytes()[..5].eq_ignore_ascii_case(b"host:")) => {}
        _ => return malformed(),
    }
    let path = match target.split_once("://") {
        // The whole address, as a proxy would get it (RFC 9112 section 3.2.2).
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = path.split('?').next().unwrap_or_default();
    if !path.starts_with('/') {
        return malformed();
    }
    if !matches!(path, "/" | "/metrics" | "/healthz" | "/readyz") {
        return Response::plain("404 Not Found", INDEX);
    }
    if !matches!(method, "GET" | "HEAD") {
        let refused = Response::plain("405 Method Not Allowed", "only GET and HEAD are served\n");
        return Response { field: "Allow: GET, HEAD\r\n", ..refused };
    }
    let mut response = match path {
        "/metrics" => Response {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..Response::plain("200 OK", context.metrics.render())
        },
        "/healthz" => Response::plain("200 OK", "ok\n"),
        "/readyz" => match (context.ready)() {
            Ok(()) => Response::plain("200 OK", "ok\n"),
            Err(missing) => Response::plain("503 Service Unavailable", missing),
        },
        _ => Response::plain("200 OK", INDEX),
    };
    response.without_body = method == "HEAD";
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Identity, Served};
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn start(patience: Duration, ready: Arc<AtomicBool>) -> HttpListener {
        let mut listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.patience = patience;
        let ready = move || if ready.load(Ordering::SeqCst) { Ok(()) } else { Err("a.example. expired\n".into()) };
        listener.start(Arc::new(Metrics::new()), ready).unwrap();
        listener
    }

    /// Sends octets and returns everything that comes back.
    async fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let request = request.to_vec();
        let exchange = move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(&request).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            response
        };
        tokio::task::spawn_blocking(exchange).await.unwrap()
    }

    #[tokio::test]
    async fn paths_methods_and_mistakes() {
        let ready = Arc::new(AtomicBool::new(false));
        let listener = start(PATIENCE, ready.clone());
        let get =
            async |line: &str| exchange(listener.address(), format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).await;
        let metrics = get("GET /metrics HTTP/1.1").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        assert!(metrics.contains("\r\nConnection: close\r\n") && metrics.contains("\naggregator_build_info{"));
        assert_eq!(get("GET http://x:9153/healthz?verbose HTTP/1.1").await.split("\r\n\r\n").last(), Some("ok\n"));
        let head = get("HEAD /healthz HTTP/1.1").await;
        assert!(head.contains("\r\nContent-Length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(get("GET /readyz HTTP/1.1").await.ends_with("\r\n\r\na.example. expired\n"));
        assert!(get("GET /readyz HTTP/1.1").await.starts_with("HTTP/1.1 503 "));
        ready.store(true, Ordering::SeqCst);
        assert!(get("GET /readyz HTTP/1.1").await.starts_with("HTTP/1.1 200 "));
        assert!(get("GET / HTTP/1.1").await.contains("/readyz"));
        assert!(get("GET /metric HTTP/1.1").await.starts_with("HTTP/1.1 404 "));
        let post = get("POST /metrics HTTP/1.1").await;
        assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
        for bad in ["GET", "GET /metrics", "GET  /metrics HTTP/1.1", "GET /metrics HTTP/2", "GET metrics HTTP/1.1"] {
            assert!(get(bad).await.starts_with("HTTP/1.1 400 "), "{bad}");
        }
        for (request, status) in [
            (&b"GET /healthz HTTP/1.1\r\n\r\n"[..], "400"),
            (b"\xff /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
            (b"\r\nGET /healthz HTTP/1.0\n\n", "200"),
            (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789", "405"),
            (&[b'x'; 100_000], "431"),
        ] {
            let response = exchange(listener.address(), request).await;
            assert_eq!(response.get(9..12), Some(status), "{response}");
        }
    }

    #[tokio::test]
    async fn slow_and_many_clients_end() {
        let listener = start(Duration::from_millis(300), Arc::default());
        let address = listener.address();
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
            held.push(stream);
        }
        for mut stream in held {
            assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
        }
        // Their places are free again.
        let response = exchange(address, b"GET /healthz HTTP/1.0\r\n\r\n").await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        drop(listener);
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed_at_once() {
        let listener = start(Duration::from_secs(3600), Arc::default());
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            held.push(TcpStream::connect(listener.address()).await.unwrap());
        }
        let mut extra = TcpStream::connect(listener.address()).await.unwrap();
        assert_eq!(extra.read(&mut [0]).await.unwrap_or(0), 0);
        held[0].write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        let mut response = String::new();
        held[0].read_to_string(&mut response).await.unwrap();
        assert!(response.ends_with("ok\n"));
    }

    #[test]
    fn regions_decide_where_there_are_any() {
        let name = |text: &str| Name::parse(text).unwrap();
        let published = |states: &[(&str, State)]| {
            let served = |(origin, state): &(&str, State)| Arc::new(Served::new(name(origin), *state, None));
            Published::new(Identity::default(), states.iter().map(served), 1)
        };
        let one_down = published(&[("b", State::Expired), ("a", State::NotReady), ("r", State::Ok)]);
        assert_eq!(readiness(&one_down, &[name("r")]), Ok(()));
        assert_eq!(readiness(&one_down, &[]), Err("a. not-ready\nb. expired\n".to_string()));
        assert_eq!(readiness(&one_down, &[name("b")]), Err("b. expired\n".to_string()));
        assert_eq!(readiness(&one_down, &[name("new")]), Err("new. not-ready\n".to_string()));
        assert_eq!(readiness(&published(&[("a", State::Ok)]), &[]), Ok(()));
        assert!(readiness(&Published::default(), &[]).is_err());
    }
}
