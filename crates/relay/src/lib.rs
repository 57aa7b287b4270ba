//! The relay between the client library and a server of ZooKeeper's, which sees to it that no reply is longer than
//! allowed.
//!
//! The library reads a reply into memory however long it says it is, and makes room for as many children as a list says
//! it has. It takes no stream of ours, only addresses, so it is sent to an address of this machine where this task
//! listens; from there on, TLS included, the connection is ours. What comes from the server is passed on frame by frame
//! as it arrives, once its beginning has been looked at.
//!
//! Invariants: a frame that is longer than the limit is not passed on, nor a list that says it has more children than
//! its frame holds; of a reply to many questions at once the library never gets the end if there is such a list in it,
//! or more answers than anybody asks for; only sockets of this process are served, whoever else finds the port is turned away; a server that
//! has sent such a frame is asked again only after a pause, which grows.
//!
//! Cost: O(1) memory for a connection; each octet is copied once more, through a socket of this machine; two
//! descriptors, and one to listen.

#![warn(clippy::undocumented_unsafe_blocks)]

mod answers;

use answers::pass_answers;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsConnector;
use tracing::{debug, warn};

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::source::zookeeper::relay";

/// The longest reply that is taken unless the configuration says otherwise: the names of several hundred thousand
/// children.
pub const DEFAULT_LIMIT: u32 = 32 << 20;
/// A list may have one child for so many octets that a reply may have: in memory a child takes several times that.
const LIMIT_PER_CHILD: u32 = 32;
/// The octets that a child takes in a reply at least: its length, and a name that is not empty.
const LEAST_PER_CHILD: u32 = 5;
/// Memory for what is on its way in one direction.
const BUFFER_BYTES: usize = 64 << 10;
/// Number and outcome, which every reply begins with.
const REPLY_HEADER: usize = 16;
/// Number of a list's children, which it begins with.
const COUNT: usize = 4;
/// Number and operation, which every request begins with.
const REQUEST_HEADER: usize = 8;
/// The operations whose replies begin with a list (`ZooDefs.java`).
const LISTS: [i32; 2] = [8, 12];
/// The operation that asks for many nodes at once (the same).
const MANY: i32 = 22;
/// The pause after the first frame that was refused; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Fault of a server that the library cannot recognize.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("announced a reply of {announced} octets, and {limit} are allowed")]
    TooLong { announced: u32, limit: u32 },
    #[error("sent a frame whose length is negative")]
    Length,
    #[error("announced a list of {0} children, more than its reply holds or may hold")]
    Children(u32),
    #[error("answered what it was not asked")]
    Unasked,
    #[error("cannot be reached by TLS: {0}")]
    Tls(String),
}

/// Server to which a relay leads.
#[derive(Clone)]
pub struct Target {
    /// Address or host name, and port.
    pub address: String,
    pub tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The longest frame that is taken from there.
    pub limit: u32,
}

/// A relay to one server, which ends when this is dropped.
pub struct Relay {
    server: String,
    address: SocketAddr,
    fault: Arc<Mutex<Option<Fault>>>,
    task: AbortHandle,
}

impl Relay {
    /// Listens for connections of this process. Must be called within a tokio runtime.
    pub async fn start(target: Target) -> io::Result<Relay> {
        let local: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
        let listener = TcpListener::bind(&local[..]).await?;
        let address = listener.local_addr()?;
        let fault = Arc::new(Mutex::new(None));
        let server = target.address.clone();
        let task = tokio::spawn(serve(listener, target, fault.clone())).abort_handle();
        Ok(Relay { server, address, fault, task })
    }

    /// Address or host name of the server, and port.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Address to which the library has to connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fault of the server when it was last asked, if any.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections of this process and joins each to one with the server.
async fn serve(listener: TcpListener, target: Target, fault: Arc<Mutex<Option<Fault>>>) {
    let mut connections = JoinSet::new();
    let (mut refusals, mut ready) = (0u32, Instant::now());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if ended.is_ok_and(|is_refused| is_refused) {
                    let now = Instant::now();
                    // Long ago is forgotten.
                    refusals = if now > ready + LONGEST_PAUSE { 1 } else { refusals.saturating_add(1) };
                    ready = now + pause_after(refusals);
                }
                continue;
            }
        };
        match accepted {
            Ok((mut stream, peer)) if is_ours(&stream, peer) => {
                let (target, fault) = (target.clone(), fault.clone());
                connections.spawn(async move {
                    sleep_until(ready).await;
                    let found = join(&mut stream, &target).await;
                    // The library learns of the end by the end of the stream; whoever asks why then finds it here.
                    fault.lock().clone_from(&found);
                    found.is_some()
                });
            }
            Ok((_, peer)) => {
                warn!(target: TARGET, %peer, "a connection that is not ours was turned away from the way to ZooKeeper")
            }
            Err(error) => {
                // Out of descriptors, mostly: that passes.
                debug!(target: TARGET, %error, "cannot accept a connection of our own");
                sleep_until(Instant::now() + FIRST_PAUSE).await;
            }
        }
    }
}

/// Time for which a server is left alone after so many faults in a row.
fn pause_after(refusals: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << refusals.saturating_sub(1).min(10)).min(LONGEST_PAUSE)
}

//--- Whose connection it is ---

/// Returns true if a socket of this process is at the other end of a connection. Anybody on this machine can find the
/// port, and would speak to the ensemble in our name.
fn is_ours(stream: &TcpStream, peer: SocketAddr) -> bool {
    let Ok(local) = stream.local_addr() else { return false };
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return false };
    let mut descriptors = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    descriptors.any(|descriptor| {
        // SAFETY: it is asked for its addresses only; one that is closed meanwhile, or is no socket, has none, and one
        // that is opened in its place is ours as well.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let socket = SockRef::from(&descriptor);
        let is =
            |found: io::Result<socket2::SockAddr>, address| found.is_ok_and(|found| found.as_socket() == Some(address));
        is(socket.local_addr(), peer) && is(socket.peer_addr(), local)
    })
}

//--- One connection ---

/// Connects to the server and passes on what both say until one of them ends; what was wrong with the server.
async fn join(stream: &mut TcpStream, target: &Target) -> Option<Fault> {
    let connecting = TcpStream::connect(&target.address);
    // A server that lets us wait is left when the library does not want to wait any longer.
    let upstream = tokio::select! {
        connected = connecting => connected.ok()?,
        () = hung_up(stream) => return None,
    };
    // Requests are short, and somebody waits for each.
    let _ = (stream.set_nodelay(true), upstream.set_nodelay(true));
    let Some((connector, name)) = &target.tls else { return pass(stream, upstream, target.limit).await };
    let connecting = connector.connect(name.clone(), upstream);
    let secured = tokio::select! {
        secured = connecting => secured,
        () = hung_up(stream) => return None,
    };
    match secured {
        Ok(upstream) => pass(stream, upstream, target.limit).await,
        Err(error) => Some(Fault::Tls(error.to_string())),
    }
}

/// Ready when the library has closed its end.
async fn hung_up(stream: &TcpStream) {
    loop {
        // What it wants to say waits there, too, so this is asked now and then.
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => sleep_until(Instant::now() + FIRST_PAUSE).await,
            _ => return,
        }
    }
}

/// Passes frames on in both directions until either end closes.
async fn pass<S: AsyncRead + AsyncWrite>(stream: &mut TcpStream, upstream: S, limit: u32) -> Option<Fault> {
    let (from_library, to_library) = stream.split();
    let (from_server, to_server) = tokio::io::split(upstream);
    let asked = Asked::default();
    let mut to_library = BufWriter::with_capacity(BUFFER_BYTES, to_library);
    let ended = tokio::select! {
        ended = pass_requests(from_library, to_server, &asked) => ended,
        ended = pass_replies(from_server, &mut to_library, &asked, limit) => ended,
    };
    // What was good before the end is good.
    let _ = to_library.flush().await;
    match ended {
        Err(End::Refused(fault)) => Some(fault),
        Ok(()) | Err(End::Closed) => None,
    }
}

/// Reason for which nothing more is passed on.
enum End {
    /// One side has closed the connection, or lost it.
    Closed,
    Refused(Fault),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Closed
    }
}

/// The numbers of the requests whose replies have not come, and what is in those.
type Asked = Mutex<HashMap<i32, Kind>>;

/// Kinds of replies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Names of children first.
    List,
    /// Answers to many questions.
    Many,
    /// Nothing that needs to be looked at.
    Other,
}

/// Passes on what the library sends.
async fn pass_requests(from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin, asked: &Asked) -> Result<(), End> {
    let (mut from, mut to) = (BufReader::with_capacity(BUFFER_BYTES, from), BufWriter::with_capacity(BUFFER_BYTES, to));
    let mut is_first = true;
    loop {
        let length = read_length(&mut from, &mut to).await?;
        let length = u32::try_from(length).map_err(|_| End::Closed)?;
        let mut head = [0; REQUEST_HEADER];
        let head = &mut head[..REQUEST_HEADER.min(length as usize)];
        from.read_exact(head).await?;
        // The first frame begins the session and has no header.
        if let ([number, operation], []) = head.as_chunks::<4>()
            && !std::mem::take(&mut is_first)
        {
            let kind = match i32::from_be_bytes(*operation) {
                MANY => Kind::Many,
                operation if LISTS.contains(&operation) => Kind::List,
                _ => Kind::Other,
            };
            asked.lock().insert(i32::from_be_bytes(*number), kind);
        }
        pass_frame(&mut from, &mut to, length, head).await?;
    }
}

/// Passes on what the server sends, as far as it is allowed.
async fn pass_replies(
    from: impl AsyncRead + Unpin,
    to: &mut BufWriter<impl AsyncWrite + Unpin>,
    asked: &Asked,
    limit: u32,
) -> Result<(), End> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    let mut is_first = true;
    loop {
        let length = read_length(&mut from, to).await?;
        let announced = u32::try_from(length).map_err(|_| End::Refused(Fault::Length))?;
        if announced > limit {
            return Err(End::Refused(Fault::TooLong { announced, limit }));
        }
        let mut head = [0; REPLY_HEADER + COUNT];
        let mut known = REPLY_HEADER.min(announced as usize);
        from.read_exact(&mut head[..known]).await?;
        // The first frame is the session's, and has no header either.
        let kind = match head[..known].first_chunk() {
            Some(number) if !is_first => kind_of(i32::from_be_bytes(*number), asked)?,
            _ => Kind::Other,
        };
        is_first = false;
        // An error has no list.
        if kind == Kind::List && announced as usize >= head.len() {
            let count = &mut head[REPLY_HEADER..];
            from.read_exact(count).await?;
            known += COUNT;
            judge_list(count, announced, limit)?;
        }
        if kind == Kind::Many {
            pass_answers(&mut from, to, announced, &head[..known], limit).await?;
        } else {
            pass_frame(&mut from, to, announced, &head[..known]).await?;
        }
    }
}

/// Returns what is in the reply to a request with this number.
fn kind_of(number: i32, asked: &Asked) -> Result<Kind, End> {
    let found = asked.lock().remove(&number);
    // Negative numbers are those of events and of what is never a list. One that nobody has asked with yet could
    // otherwise be the reply to a list before that is known to be one.
    found.or((number < 0).then_some(Kind::Other)).ok_or(End::Refused(Fault::Unasked))
}

/// Judges how many children a list says it has.
fn judge_list(count: &[u8], length: u32, limit: u32) -> Result<(), End> {
    let count = count.first_chunk().map_or(0, |count| i32::from_be_bytes(*count));
    // The library reads a negative number as none.
    judge_count(u32::try_from(count).unwrap_or(0), length, limit)
}

/// Judges how many children a reply of this length says it has.
fn judge_count(count: u32, length: u32, limit: u32) -> Result<(), End> {
    let most = (length / LEAST_PER_CHILD).min(limit.max(DEFAULT_LIMIT) / LIMIT_PER_CHILD);
    if count <= most { Ok(()) } else { Err(End::Refused(Fault::Children(count))) }
}

/// Reads a frame's length. Before it waits for one, everything that has come is passed on.
async fn read_length<R, W>(from: &mut BufReader<R>, to: &mut BufWriter<W>) -> io::Result<i32>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if from.buffer().len() < 4 {
        to.flush().await?;
    }
    from.read_i32().await
}

/// Passes a frame on whose beginning was read: what has come of it, not all that is to come.
async fn pass_frame<R, W>(from: &mut BufReader<R>, to: &mut BufWriter<W>, length: u32, head: &[u8]) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    to.write_u32(length).await?;
    to.write_all(head).await?;
    pass_octets(from, to, length as usize - head.len()).await
}

/// Passes so many octets on.
async fn pass_octets<R, W>(from: &mut BufReader<R>, to: &mut BufWriter<W>, mut octets: usize) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while octets > 0 {
        if from.buffer().is_empty() {
            to.flush().await?;
        }
        let come = from.fill_buf().await?;
        if come.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = come.len().min(octets);
        to.write_all(&come[..taken]).await?;
        from.consume(taken);
        octets -= taken;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
