//! HTTP: `/metrics`, `/healthz` and `/readyz` for monitoring, and whatever a [`Site`] has; one request a connection (RFC
//! 9110, RFC 9112), read and written by hyper.
//!
//! Health means that the process runs. Readiness means that clients get answers: every region, or every zone where no
//! region is configured, has valid data.
//!
//! Invariants: a connection ends after one response, or when its client has taken nothing for five seconds. Streams of
//! events have more patience, but there are fewer of them than connections, so that monitoring always finds a place. Beyond
//! a number of connections new ones are closed at once. Only GET and HEAD are served; bodies of requests are not read. What
//! is for monitoring is there under every host name, for probes and scrapers have names and addresses of all kinds; a site
//! learns the name and decides for itself.
//!
//! Cost: a task and at most 8 KiB of input for each connection; a scrape is O(series).

use crate::metrics::Metrics;
use crate::name::Name;
use crate::publish::{Published, State};
use crate::serve::stream::listen;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

/// Longest request line and header fields together; scrapers and browsers send a few hundred octets. hyper's least.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Connections at the same time.
const MAX_CONNECTIONS: usize = 64;
/// Streams of events among them.
const MAX_STREAMS: usize = 32;
/// How long a connection may be without progress: until its request is there and answered, then for each piece of the
/// response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of a piece.
const PIECE: usize = 64 << 10;
/// How much longer the client of a stream may leave it unread.
const STREAM_PATIENCE: u32 = 6;
/// What `/` says where there is no site.
const INDEX: &str = "/metrics  measurements for Prometheus\n/healthz  200 while the server runs\n\
                     /readyz   200 when every region, or every zone without regions, is served; else what is missing\n";
/// For people.
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is shown beside the measurements.
pub trait Site: Send + Sync {
    /// What there is at a path; none if there is nothing.
    fn respond(&self, asked: Asked) -> Answer;

    /// Why something at a path is refused, in the form that suits those who ask there.
    fn refuse(&self, path: &str, status: u16, why: &str) -> Content;
}

/// What somebody wants of a site.
#[derive(Debug, Default)]
pub struct Asked {
    pub path: String,
    pub query: String,
    /// The name or address by which the client knows this server, without a port; old clients do not tell.
    pub host: Option<String>,
}

/// What a site has, as soon as it knows.
pub type Answer = Pin<Box<dyn Future<Output = Option<Content>> + Send>>;

/// What there is at a path.
#[derive(Debug)]
pub enum Content {
    /// One body, with its media type and further header fields.
    Whole { status: u16, media_type: &'static str, fields: &'static [(&'static str, &'static str)], body: String },
    /// Server-sent events, until either end has enough.
    Events(mpsc::Receiver<String>),
}

/// Whether clients get answers, or else what is missing, one thing a line.
type Ready = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the responses are made of.
struct Context {
    metrics: Arc<Metrics>,
    ready: Ready,
    site: Option<Arc<dyn Site>>,
    patience: Duration,
    streams: Arc<Semaphore>,
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
        site: Option<Arc<dyn Site>>,
    ) -> io::Result<()> {
        if let Some(listener) = self.listener.take() {
            let listener = TcpListener::from_std(listener)?;
            let streams = Arc::new(Semaphore::new(MAX_STREAMS));
            let context = Context { metrics, ready: Box::new(ready), site, patience: self.patience, streams };
            tokio::spawn(accept(listener, Arc::new(context), self.stop.subscribe()));
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
                    let (context, mut stop) = (context.clone(), stop.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = serve(stream, context) => {}
                            _ = stop.wait_for(|stop| *stop) => {}
                        }
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
async fn serve(stream: TcpStream, context: Arc<Context>) {
    let patience = context.patience;
    let progress = Arc::new(Progress::default());
    let made = progress.clone();
    let service = service_fn(move |request| {
        let (context, progress) = (context.clone(), progress.clone());
        Box::pin(async move { Ok::<_, Infallible>(respond(request, &context, progress).await) })
    });
    let mut settings = http1::Builder::new();
    settings.max_buf_size(MAX_HEAD_BYTES).keep_alive(false).header_read_timeout(None).title_case_headers(true);
    let mut connection = settings.serve_connection(TokioIo::new(stream), service);
    let mut seen = 0;
    // Whatever goes wrong with a connection concerns its client alone.
    while timeout(made.patience(patience), poll_fn(|task| connection.poll_without_shutdown(task))).await.is_err() {
        let pieces = made.pieces.load(Ordering::Relaxed);
        if pieces == seen {
            return;
        }
        seen = pieces;
    }
    let _ = timeout(patience, close(connection.into_parts().io.into_inner())).await;
}

/// Ends a connection. Closing with octets unread would reset it and could take the response with it (RFC 9112 section
/// 9.6).
async fn close(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

//--- Responses ---

/// How far a response has come.
#[derive(Default)]
struct Progress {
    /// Pieces or events that the client has taken.
    pieces: AtomicU64,
    /// Whether these are events.
    streams: AtomicBool,
}

impl Progress {
    /// How long the next piece may take.
    fn patience(&self, patience: Duration) -> Duration {
        if self.streams.load(Ordering::Relaxed) { patience * STREAM_PATIENCE } else { patience }
    }
}

/// The body of a response.
struct Sent {
    content: Sending,
    progress: Arc<Progress>,
}

/// What is left to send.
enum Sending {
    Whole(Bytes),
    Stream { events: mpsc::Receiver<String>, _place: OwnedSemaphorePermit },
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.content {
            Sending::Whole(rest) if rest.is_empty() => None,
            Sending::Whole(rest) => Some(rest.split_to(rest.len().min(PIECE))),
            Sending::Stream { events, .. } => ready!(events.poll_recv(task)).map(Bytes::from),
        };
        self.progress.pieces.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Sending::Whole(rest) if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Sending::Whole(rest) => SizeHint::with_exact(rest.len() as u64),
            Sending::Stream { .. } => SizeHint::default(),
        }
    }
}

/// A response.
fn respond_with<T>(status: StatusCode, media_type: &'static str, body: T) -> Response<T> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A response with one body.
fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Sending> {
    respond_with(status, media_type, Sending::Whole(body.into()))
}

/// The name or address by which a client knows this server; none if an old one does not tell, an error if it is told as
/// no client may (RFC 9112 sections 3.2 and 3.2.2).
fn host_of(uri: &Uri, version: Version, fields: &HeaderMap) -> Result<Option<String>, ()> {
    let mut told = fields.get_all(HOST).iter();
    let host = match (told.next(), told.next()) {
        (Some(host), None) => Some(host.to_str().map_err(|_| ())?),
        (None, _) if version == Version::HTTP_10 => None,
        _ => return Err(()),
    };
    // A whole address says it better than the field.
    let authority = match (uri.authority(), host) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some("") | None) => None,
        (None, Some(host)) => Some(Authority::try_from(host).map_err(|_| ())?),
    };
    match authority {
        Some(authority) if authority.as_str().contains('@') => Err(()),
        Some(authority) => Ok(Some(authority.host().to_owned())),
        None => Ok(host.map(str::to_owned)),
    }
}

/// Answers a request.
async fn respond(request: Request<Incoming>, context: &Context, progress: Arc<Progress>) -> Response<Sent> {
    let response = answer(request, context).await;
    progress.streams.store(matches!(response.body(), Sending::Stream { .. }), Ordering::Relaxed);
    // The answer itself is progress.
    progress.pieces.fetch_add(1, Ordering::Relaxed);
    response.map(|content| Sent { content, progress })
}

/// What a request gets.
async fn answer(request: Request<Incoming>, context: &Context) -> Response<Sending> {
    let path = request.uri().path();
    let host = host_of(request.uri(), request.version(), request.headers());
    let (Ok(host), true) = (host, path.starts_with('/')) else {
        return whole(StatusCode::BAD_REQUEST, PLAIN, "the request is no HTTP/1.1\n");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let why = "only GET and HEAD are served";
        let mut response = match &context.site {
            Some(site) => send(site.refuse(path, StatusCode::METHOD_NOT_ALLOWED.as_u16(), why), context),
            None => whole(StatusCode::METHOD_NOT_ALLOWED, PLAIN, format!("{why}\n")),
        };
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match (path, &context.site) {
        ("/metrics", _) => whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", context.metrics.render()),
        ("/healthz", _) => whole(StatusCode::OK, PLAIN, "ok\n"),
        ("/readyz", _) => match (context.ready)() {
            Ok(()) => whole(StatusCode::OK, PLAIN, "ok\n"),
            Err(missing) => whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, missing),
        },
        ("/", None) => whole(StatusCode::OK, PLAIN, INDEX),
        (_, Some(site)) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            match site.respond(Asked { path: path.to_owned(), query, host }).await {
                // Nobody reads the events of an answer without a body.
                Some(Content::Events(_)) if request.method() == Method::HEAD => whole(StatusCode::OK, EVENT_STREAM, ""),
                Some(content) => send(content, context),
                None if path == "/" => whole(StatusCode::OK, PLAIN, INDEX),
                None => whole(StatusCode::NOT_FOUND, PLAIN, INDEX),
            }
        }
        _ => whole(StatusCode::NOT_FOUND, PLAIN, INDEX),
    }
}

/// Sends what a site has.
fn send(content: Content, context: &Context) -> Response<Sending> {
    match content {
        Content::Whole { status, media_type, fields, body } => {
            let mut response = whole(StatusCode::from_u16(status).unwrap_or_default(), media_type, body);
            for (name, value) in fields {
                response.headers_mut().insert(*name, HeaderValue::from_static(value));
            }
            response
        }
        Content::Events(events) => match context.streams.clone().try_acquire_owned() {
            Ok(place) => respond_with(StatusCode::OK, EVENT_STREAM, Sending::Stream { events, _place: place }),
            Err(_) => {
                let mut response = whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "too many pages are watching\n");
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
                response
            }
        },
    }
}

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Identity, Served};
    use std::io::{Read, Write};

    fn start(patience: Duration, ready: Arc<AtomicBool>) -> HttpListener {
        let mut listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.patience = patience;
        let ready = move || if ready.load(Ordering::SeqCst) { Ok(()) } else { Err("a.example. expired\n".into()) };
        listener.start(Arc::new(Metrics::new()), ready, None).unwrap();
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
        assert!(response.starts_with("HTTP/1.0 200 "), "{response}");
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

    /// A site with a page, and streams whose events are as long as the query says.
    struct Events;

    impl Site for Events {
        fn respond(&self, asked: Asked) -> Answer {
            Box::pin(async move {
                let Asked { path, query, host } = asked;
                let fields: &[(&str, &str)] = &[("x-field", "value")];
                match path.as_str() {
                    "/host" => Some(Events.refuse(&path, 200, &host.unwrap_or_default())),
                    "/large" => Some(Events.refuse(&path, 200, &"x".repeat(query.parse().unwrap()))),
                    "/page" => Some(Content::Whole { status: 418, media_type: "text/html", fields, body: query }),
                    "/events" => {
                        let (sender, events) = mpsc::channel(1);
                        let event = format!("data: {}\n\n", "x".repeat(query.parse().unwrap()));
                        tokio::spawn(async move {
                            while sender.send(event.clone()).await.is_ok() {
                                tokio::time::sleep(Duration::from_millis(10)).await;
                            }
                        });
                        Some(Content::Events(events))
                    }
                    _ => None,
                }
            })
        }

        fn refuse(&self, path: &str, status: u16, why: &str) -> Content {
            let body = if status == 200 { why.to_owned() } else { format!("{path}: {why}") };
            Content::Whole { status, media_type: PLAIN, fields: &[], body }
        }
    }

    fn start_site(patience: Duration) -> HttpListener {
        let mut listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.patience = patience;
        let site: Arc<dyn Site> = Arc::new(Events);
        listener.start(Arc::new(Metrics::new()), || Ok(()), Some(site)).unwrap();
        listener
    }

    #[tokio::test]
    async fn sites_learn_the_host() {
        let listener = start_site(PATIENCE);
        for (request, wanted) in [
            ("GET /host HTTP/1.1\r\nHost: A.example:99", "A.example"),
            ("GET /host HTTP/1.1\r\nHost: [::1]:9153", "[::1]"),
            ("GET /host HTTP/1.1\r\nHost:", ""),
            ("GET /host HTTP/1.0", ""),
            ("GET http://b.example/host HTTP/1.1\r\nHost: a.example", "b.example"),
        ] {
            let response = exchange(listener.address(), format!("{request}\r\n\r\n").as_bytes()).await;
            assert_eq!(response.split("\r\n\r\n").nth(1), Some(wanted), "{request}: {response}");
        }
        for wrong in [
            "GET /host HTTP/1.1\r\nHost: a\r\nHost: b",
            "GET /host HTTP/1.1\r\nHost: u@a",
            "GET /host HTTP/1.1\r\nHost: a/b",
            "GET /host HTTP/1.1\r\nHost: \u{e9}",
            "GET http://a/host HTTP/1.1",
        ] {
            let response = exchange(listener.address(), format!("{wrong}\r\n\r\n").as_bytes()).await;
            assert!(response.starts_with("HTTP/1.1 400 "), "{wrong}: {response}");
        }
        let refused = exchange(listener.address(), b"PUT /host HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
        assert!(refused.ends_with("/host: only GET and HEAD are served"), "{refused}");
    }

    #[tokio::test]
    async fn large_responses_take_their_time_and_not_for_ever() {
        const LENGTH: usize = 32 << 20;
        let listener = start_site(Duration::from_millis(400));
        let request = format!("GET /large?{LENGTH} HTTP/1.0\r\n\r\n");
        let mut reader = TcpStream::connect(listener.address()).await.unwrap();
        let mut idler = TcpStream::connect(listener.address()).await.unwrap();
        let started = std::time::Instant::now();
        reader.write_all(request.as_bytes()).await.unwrap();
        idler.write_all(request.as_bytes()).await.unwrap();
        let (mut piece, mut length) = (vec![0; 256 << 10], 0);
        while let Ok(read @ 1..) = reader.read(&mut piece).await {
            length += read;
            // Slower than the patience in all, faster in each part.
            if started.elapsed() < listener.patience * 3 {
                tokio::time::sleep(listener.patience / 40).await;
            }
        }
        assert!(length > LENGTH && started.elapsed() > listener.patience * 2, "{length} in {:?}", started.elapsed());
        // Who has read nothing meanwhile finds what was under way, and then an end.
        let mut length = 0;
        while let Ok(read @ 1..) = idler.read(&mut piece).await {
            length += read;
        }
        assert!(length < LENGTH, "{length}");
    }

    #[tokio::test]
    async fn streams_go_on_and_are_limited() {
        let listener = start_site(Duration::from_millis(200));
        let address = listener.address();
        let page = exchange(address, b"GET /page?a=b HTTP/1.0\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.0 418 ") && page.contains("\r\nX-Field: value\r\n"), "{page}");
        assert!(page.ends_with("\r\n\r\na=b"), "{page}");
        assert!(exchange(address, b"GET / HTTP/1.0\r\n\r\n").await.contains("/readyz"));
        assert!(exchange(address, b"HEAD /events?1 HTTP/1.0\r\n\r\n").await.contains("text/event-stream"));
        let open = async |length: usize| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET /events?{length} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut start = [0; 12];
            stream.read_exact(&mut start).await.unwrap();
            (stream, String::from_utf8(start.to_vec()).unwrap())
        };
        let mut held = Vec::new();
        for _ in 1..MAX_STREAMS {
            held.push(open(1).await.0);
        }
        // The last one leaves so much unread that no more can be sent.
        let (stuck, status) = open(1 << 20).await;
        assert_eq!(status, "HTTP/1.1 200");
        assert_eq!(open(1).await.1, "HTTP/1.1 503");
        assert!(exchange(address, b"GET /metrics HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 "));
        let started = std::time::Instant::now();
        while open(1).await.1 != "HTTP/1.1 200" {
            assert!(started.elapsed() < Duration::from_secs(20), "a stuck stream never ends");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(stuck);
        // All others have gone on for longer than other connections may.
        assert!(started.elapsed() > listener.patience);
        for mut stream in held {
            let mut event = [0; 256];
            assert!(stream.read(&mut event).await.unwrap() > 0);
        }
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
