//! HTTP: `/metrics`, `/healthz` and `/readyz` for monitoring, and whatever a [`Site`] has; one request a connection
//! (RFC 9110, RFC 9112), read and written by hyper.
//!
//! Health means that the process runs. Readiness means that clients get answers: every region, or every zone where no
//! region is configured, has valid data.
//!
//! Invariants: a connection ends after one response, or when its client has taken nothing for five seconds. Streams of
//! events have more patience, but there are fewer of them than connections. A newcomer is always accepted; beyond a
//! number of connections another is closed for it ([`Places`]), and whoever has asked for what is for monitoring has a
//! right to places that nobody else may take. Where there is a [`Gate`], nobody is answered without a certificate, and an
//! order may take as long as a transfer does. Only GET and HEAD are served, unless a site has
//! other methods at a path; then at most 64 KiB of a body are read. What is
//! for monitoring is there under every host name, for probes and scrapers have names and addresses of all kinds; a site
//! learns the name and decides for itself.
//!
//! Cost: a task and at most 8 KiB of input for each connection; a scrape is O(series).

mod gzip;
mod operators;

use crate::metrics::Metrics;
use crate::publish::{Published, State};
use crate::serve::listener::Listener;
use crate::serve::places::{Class, Place, Places, Room};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
pub use operators::Gate;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use wire::name::Name;

/// Longest request line and header fields together; scrapers and browsers send a few hundred octets. hyper's least.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Longest body of a request; what a site is told is far shorter.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Connections at the same time.
pub const MAX_CONNECTIONS: usize = 64;
/// Connections among them that only monitoring may take: several scrapers and probes at once.
const RESERVED: usize = 16;
/// Streams of events among them.
const MAX_STREAMS: usize = 32;
/// Longest time that a connection may be without progress: until its request is there and answered, then for each piece
/// of the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of a piece.
const PIECE: usize = 64 << 10;
/// Longest time that an order may take: that of a transfer, and a minute more.
const LONGEST_ORDER: Duration = Duration::from_secs(3660);
/// Factor by which the client of a stream may leave it unread for longer.
const STREAM_PATIENCE: u32 = 6;
/// Methods that change nothing and have no body.
pub const READING: &[Method] = &[Method::GET, Method::HEAD];
/// Paths that monitoring asks for.
const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
const READINESS: &str = "/readyz";
/// Body of `/` where there is no site.
const INDEX: &str = "/metrics  measurements for Prometheus\n/healthz  200 while the server runs\n\
                     /readyz   200 once every region, or every zone without regions, is served, and while any is; else what is missing\n";
/// Media type of text for people.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Pages that are shown beside the measurements.
pub trait Site: Send + Sync {
    /// Responds to a request for a path; none if there is nothing.
    fn respond(&self, asked: Asked) -> Answer;

    /// The methods that are served at a path.
    fn methods(&self, _path: &str) -> &'static [Method] {
        READING
    }

    /// Page that says why something at a path is refused, in the form that suits those who ask there.
    fn refuse(&self, path: &str, status: u16, why: &str) -> Content;
}

/// Request to a site.
#[derive(Debug, Default)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: String,
    /// The name or address by which the client knows this server, without a port; old clients do not tell.
    pub host: Option<String>,
    /// The field Authorization, as far as it is text.
    pub authorization: Option<String>,
    /// The media type of the body.
    pub media_type: Option<String>,
    /// Empty for GET and HEAD.
    pub body: Vec<u8>,
    /// The name of the operator who asks, as the certificate has it; none where nobody has to show one.
    pub operator: Option<String>,
}

/// Content of a site, as soon as the site knows it.
pub type Answer = Pin<Box<dyn Future<Output = Option<Content>> + Send>>;

/// Content at a path.
#[derive(Debug)]
pub enum Content {
    /// One body, with its media type and further header fields.
    Whole { status: u16, media_type: &'static str, fields: &'static [(&'static str, &'static str)], body: String },
    /// Server-sent events, until either end has enough.
    Events(mpsc::Receiver<String>),
}

/// Test of readiness: succeeds if clients get answers, or else says what is missing, one thing a line.
type Ready = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// State from which the responses are made.
struct Context {
    metrics: Arc<Metrics>,
    ready: Ready,
    site: Option<Arc<dyn Site>>,
    patience: Duration,
    streams: Arc<Semaphore>,
    /// Who is let in; none where everybody is.
    gate: Option<Arc<Gate>>,
}

/// Starts to serve monitoring and a site. `ready` says whether clients get answers, or else what is missing, one thing a
/// line. With a gate it is HTTPS, only operators are let in, and what they ask for may take long.
pub fn start(
    listener: &mut Listener,
    metrics: Arc<Metrics>,
    ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    site: Option<Arc<dyn Site>>,
    gate: Option<Arc<Gate>>,
) -> io::Result<()> {
    let streams = Arc::new(Semaphore::new(MAX_STREAMS));
    start_with(listener, Context { metrics, ready: Box::new(ready), site, patience: PATIENCE, streams, gate })
}

/// Starts to serve from this state. A connection ends with the listener.
fn start_with(listener: &mut Listener, context: Context) -> io::Result<()> {
    let places = Places::new(Room { total: MAX_CONNECTIONS, per_client: MAX_CONNECTIONS, reserved: RESERVED });
    let context = Arc::new(context);
    let what = if context.gate.is_some() { "an HTTPS connection" } else { "an HTTP connection" };
    listener.start(what, move |stream, peer, mut stop| {
        let (place, _) = places.enter(peer.ip(), Class::General);
        let (place, context) = (Arc::new(place), context.clone());
        Some(async move {
            tokio::select! {
                () = serve(stream, peer, &place, context) => {}
                () = place.connection.displaced() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        })
    })
}

/// Succeeds if everything that is published can be answered from; only the regions count if there are any. One of them
/// is enough for who was ready before: a region that a reload has added, or that has expired, is no reason to take all
/// others from clients, at all replicas at once.
pub fn readiness(published: &Published, regions: &[Name], was_ready: bool) -> Result<(), String> {
    let state_of = |origin: &Name| published.get(origin).map_or(State::NotReady, |served| served.state);
    let mut states: Vec<(Name, State)> = if regions.is_empty() {
        published.iter().map(|served| (served.origin.clone(), served.state)).collect()
    } else {
        regions.iter().map(|origin| (origin.clone(), state_of(origin))).collect()
    };
    if states.is_empty() {
        return Err("no zones yet\n".to_string());
    }
    if was_ready && states.iter().any(|(_, state)| *state == State::Ok) {
        return Ok(());
    }
    states.retain(|(_, state)| *state != State::Ok);
    states.sort_by(|(one, _), (other, _)| one.canonical_cmp(other));
    let missing: String = states.iter().map(|(origin, state)| format!("{origin} {}\n", state.label())).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// Serves one connection, after a handshake where there is a gate.
async fn serve(stream: TcpStream, peer: SocketAddr, place: &Arc<Place>, context: Arc<Context>) {
    let stream = place.connection.measure(stream);
    let Some(gate) = &context.gate else { return serve_on(stream, Client::Anybody, place, context).await };
    match gate.admit(stream, peer, context.patience).await {
        Ok((stream, operator)) => {
            serve_on(stream, operator.map_or(Client::Stranger, Client::Operator), place, context).await;
        }
        // With the request unread, which it may have sent already, a reset would take the reason with it.
        Err(Some(stream)) => _ = timeout(context.patience, close(stream)).await,
        Err(None) => {}
    }
}

/// Who asks.
#[derive(Clone)]
enum Client {
    Anybody,
    /// By name.
    Operator(String),
    /// One with a certificate in which no name is an operator's.
    Stranger,
}

/// Serves what comes on a stream.
async fn serve_on<S>(stream: S, client: Client, place: &Arc<Place>, context: Arc<Context>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let patience = context.patience;
    let progress = Arc::new(Progress::default());
    let made = progress.clone();
    let asking = place.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        // One request a connection: from now on it is answered.
        asking.begin_answer();
        if matches!(request.uri().path(), METRICS | HEALTH | READINESS) {
            asking.reserve();
        }
        let (context, progress, client) = (context.clone(), progress.clone(), client.clone());
        Box::pin(async move { Ok::<_, Infallible>(respond(request, client, &context, progress).await) })
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
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

//--- Responses ---

/// Progress of a response.
#[derive(Default)]
struct Progress {
    /// Pieces or events that the client has taken.
    pieces: AtomicU64,
    /// True if these are events.
    streams: AtomicBool,
    /// True while an operator's order is carried out.
    is_waiting: AtomicBool,
}

impl Progress {
    /// Longest time that the next piece may take.
    fn patience(&self, patience: Duration) -> Duration {
        match (self.is_waiting.load(Ordering::Relaxed), self.streams.load(Ordering::Relaxed)) {
            (true, _) => LONGEST_ORDER,
            (false, true) => patience * STREAM_PATIENCE,
            (false, false) => patience,
        }
    }
}

/// The body of a response.
struct Sent {
    content: Sending,
    progress: Arc<Progress>,
}

/// Part of a response that is left to send.
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

/// Answers a request and counts the answer as progress.
async fn respond(
    request: Request<Incoming>,
    client: Client,
    context: &Context,
    progress: Arc<Progress>,
) -> Response<Sent> {
    let accepts_gzip = gzip::is_accepted(request.headers());
    let operator = match client {
        Client::Stranger => {
            let why = "the certificate has none of the names in \"operators\"\n";
            return whole(StatusCode::FORBIDDEN, PLAIN, why).map(|content| Sent { content, progress });
        }
        Client::Operator(name) => Some(name),
        Client::Anybody => None,
    };
    progress.is_waiting.store(operator.is_some(), Ordering::Relaxed);
    // Who waited for the request looks at its patience again.
    progress.pieces.fetch_add(1, Ordering::Relaxed);
    let response = shorten(answer(request, operator, context).await, accepts_gzip).await;
    progress.is_waiting.store(false, Ordering::Relaxed);
    progress.streams.store(matches!(response.body(), Sending::Stream { .. }), Ordering::Relaxed);
    // The answer itself is progress.
    progress.pieces.fetch_add(1, Ordering::Relaxed);
    response.map(|content| Sent { content, progress })
}

/// Compresses a response that is worth it, if its client takes that; caches learn that there are both.
async fn shorten(mut response: Response<Sending>, accepts_gzip: bool) -> Response<Sending> {
    let Sending::Whole(body) = response.body() else { return response };
    if body.len() < gzip::LEAST {
        return response;
    }
    let body = body.clone();
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if accepts_gzip && let Ok(short) = gzip::compress(body).await {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        *response.body_mut() = Sending::Whole(short);
    }
    response
}

/// Reads the body of a request to its end; an error if there is too much of it, or none any more.
async fn read_body(body: &mut Incoming) -> Result<Vec<u8>, ()> {
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await {
        let data = frame.map_err(|_| ())?.into_data().unwrap_or_default();
        if octets.len() + data.len() > MAX_BODY_BYTES {
            return Err(());
        }
        octets.extend_from_slice(&data);
    }
    Ok(octets)
}

/// Finds the answer to a request.
async fn answer(mut request: Request<Incoming>, operator: Option<String>, context: &Context) -> Response<Sending> {
    let path = request.uri().path().to_owned();
    let path = &path[..];
    let host = host_of(request.uri(), request.version(), request.headers());
    let (Ok(host), true) = (host, path.starts_with('/')) else {
        return whole(StatusCode::BAD_REQUEST, PLAIN, "the request is no HTTP/1.1\n");
    };
    let refuse = |status: StatusCode, why: &str| match &context.site {
        Some(site) => send(site.refuse(path, status.as_u16(), why), context),
        None => whole(status, PLAIN, format!("{why}\n")),
    };
    let methods = context.site.as_ref().map_or(READING, |site| site.methods(path));
    if !methods.contains(request.method()) {
        let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let why = match &methods[..] {
            [most @ .., last] if !most.is_empty() => format!("only {} and {last} are served", most.join(", ")),
            one => format!("only {} is served", one.concat()),
        };
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &why);
        if let Ok(allowed) = HeaderValue::from_str(&methods.join(", ")) {
            response.headers_mut().insert(ALLOW, allowed);
        }
        return response;
    }
    let body = if READING.contains(request.method()) { Ok(Vec::new()) } else { read_body(request.body_mut()).await };
    let Ok(body) = body else {
        let most = MAX_BODY_BYTES >> 10;
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is broken, or longer than {most} KiB"));
    };
    match (path, &context.site) {
        (METRICS, _) => {
            let metrics = context.metrics.clone();
            // It takes longer with many zones, and other tasks wait for this thread.
            match tokio::task::spawn_blocking(move || metrics.render()).await {
                Ok(page) => whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page),
                Err(error) => whole(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
            }
        }
        (HEALTH, _) => whole(StatusCode::OK, PLAIN, "ok\n"),
        (READINESS, _) => match (context.ready)() {
            Ok(()) => whole(StatusCode::OK, PLAIN, "ok\n"),
            Err(missing) => whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, missing),
        },
        ("/", None) => whole(StatusCode::OK, PLAIN, INDEX),
        (_, Some(site)) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let method = request.method().clone();
            let field = |name| request.headers().get(name).and_then(|field| field.to_str().ok()).map(str::to_owned);
            let (authorization, media_type) = (field(AUTHORIZATION), field(CONTENT_TYPE));
            let path = path.to_owned();
            let asked = Asked { method, path, query, host, authorization, media_type, body, operator };
            match site.respond(asked).await {
                // Nobody reads the events of an answer without a body.
                Some(Content::Events(_)) if request.method() == Method::HEAD => whole(StatusCode::OK, EVENT_STREAM, ""),
                Some(content) => send(content, context),
                None if request.uri().path() == "/" => whole(StatusCode::OK, PLAIN, INDEX),
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
mod tests;
