//! Streams: TCP and DNS over TLS, with pipelining, idle timeout and limits (RFC 7766, RFC 7858).
//!
//! A task a connection reads frames, answers each from the root published at that moment, and writes. Responses leave
//! in the order of the requests, which RFC 7766 section 7 allows; several that are waiting are written together. A
//! client that is silent, or does not take its answers, loses its connection after the idle timeout and costs nobody
//! else anything. TLS (`stream/secure.rs`) is a layer below that: what holds over TCP holds over TLS, limits,
//! signatures and transfers included (RFC 9103).
//!
//! A newcomer is accepted unless its network opens more connections than it may (`rate_limit`); where a limit on their number
//! is reached, another connection is closed for it ([`Places`]). A part of
//! the places is for addresses that may transfer zones.
//!
//! When a reload takes a listener away, its connections are answered for [`DRAIN`] more, so that requests on their way
//! are not lost, and a transfer that has begun runs to its end. When the process stops, it waits for connections no
//! longer than [`DRAIN`]: transfers that are not through by then are cut, and secondaries begin them again elsewhere or
//! later.
//!
//! A zone transfer (`stream/send.rs`) holds up the requests behind it on the same connection and nothing else. Only so
//! many run at once, in total and for one client (`stream/xfr_slots.rs`); one more waits a moment for its turn and then
//! gets SERVFAIL, as from BIND, and comes again.
//!
//! Cost: a connection holds a read buffer of a few KiB, and TLS some 40 KiB; an answer is composed in a buffer that
//! lives for one burst.

use crate::acl::{Prefix, Secured};
use crate::metrics::{Metrics, QueryCounters, Transport};
use crate::publish::Publisher;
use crate::rate_limit::{self, Mode};
use crate::serve::ListenPlan;
use crate::serve::listener::Listener;
use crate::serve::places::{Class, Place, Places, Room};
use crate::serve::respond::{Asked, Dispatched, Outbound, Responder};
use crate::serve::udp::DRAIN;
use crate::tap::{Exchange, Tap};
use arc_swap::ArcSwap;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

pub mod secure;
mod send;
mod xfr_slots;

use secure::{Security, Shown};
use send::{UNSENT_BYTES, send};
use wire::message::Question;
use xfr_slots::XfrSlots;

/// Answers are written when this many bytes are waiting, even if more requests are there.
const BURST_BYTES: usize = 64 << 10;
/// Share of all places, one in so many, for addresses that may transfer zones; at most [`MAX_RESERVED`] places.
const RESERVED_SHARE: usize = 8;
/// Most reserved places: as many as there are transfers at once, and as many again that wait or poll.
const MAX_RESERVED: usize = 2 * xfr_slots::MAX_TRANSFERS;
/// Octets read at once; pipelined requests are about 60 octets.
const READ_BYTES: usize = 4096;

/// State that all connections share.
pub struct StreamContext {
    pub publisher: Arc<Publisher>,
    pub responder: Arc<Responder>,
    pub metrics: Arc<Metrics>,
    counters: Arc<QueryCounters>,
    settings: ArcSwap<Settings>,
    places: Arc<Places>,
    rotation: AtomicU32,
    slots: XfrSlots,
}

/// Settings that a reload can change.
struct Settings {
    idle: Duration,
    /// Addresses whose connections have a right to reserved places.
    secondaries: Vec<Prefix>,
}

/// The places of a plan, some of them for secondaries if there are any.
fn room(plan: &ListenPlan, secondaries: &[Prefix]) -> Room {
    let total = plan.tcp_connections;
    let reserved = if secondaries.is_empty() { 0 } else { (total / RESERVED_SHARE).clamp(1, MAX_RESERVED) };
    Room { total, per_client: plan.tcp_connections_per_client, reserved: reserved.min(total / 2) }
}

impl StreamContext {
    /// Takes the limits from a plan.
    pub fn new(
        plan: &ListenPlan,
        publisher: Arc<Publisher>,
        responder: Arc<Responder>,
        metrics: Arc<Metrics>,
    ) -> Arc<StreamContext> {
        Arc::new(StreamContext {
            publisher,
            responder,
            counters: metrics.query_counters(),
            metrics,
            settings: ArcSwap::from_pointee(Settings { idle: plan.tcp_idle_timeout, secondaries: Vec::new() }),
            places: Places::new(room(plan, &[])),
            rotation: AtomicU32::default(),
            slots: XfrSlots::new(),
        })
    }

    /// Changes the limits and who has a right to reserved places; open connections stay and obey the new idle timeout.
    pub fn configure(&self, plan: &ListenPlan, secondaries: Vec<Prefix>) {
        self.places.set_room(room(plan, &secondaries));
        self.settings.store(Arc::new(Settings { idle: plan.tcp_idle_timeout, secondaries }));
    }

    /// Returns false if a client's network has opened more connections than it may, and this one is to be reset.
    fn is_within_rate(&self, peer: IpAddr) -> bool {
        let published = self.publisher.load();
        let rate_limit = &*published.rate_limit;
        let class = rate_limit::Class::Connection;
        if rate_limit.mode() == Mode::Off
            || self.responder.limiter().admits(rate_limit, peer, class, rate_limit::clock())
        {
            return true;
        }
        self.counters.count_limited(class as usize);
        rate_limit.mode() == Mode::Log
    }

    /// Counts a connection in, for which another may have to go.
    fn admit(self: &Arc<Self>, stream: &TcpStream, client: SocketAddr) -> Admission {
        let peer = client.ip();
        let may_transfer = self.settings.load().secondaries.iter().any(|prefix| prefix.contains(peer));
        let class = if may_transfer { Class::Reserved } else { Class::General };
        let (place, reached) = self.places.enter(peer, class);
        if let Some(limit) = reached {
            self.metrics.tcp_rejected.with_label_values(&[limit.label()]).inc();
        }
        self.metrics.tcp_connections.inc();
        // A connection that is gone already has no address any more, and nobody to be answered.
        let server = stream.local_addr().unwrap_or(client);
        Admission { context: self.clone(), peer, client, server, place }
    }

    /// Longest time that a connection may be silent.
    fn idle(&self) -> Duration {
        self.settings.load().idle
    }
}

/// A counted connection; dropping it counts it out.
struct Admission {
    context: Arc<StreamContext>,
    peer: IpAddr,
    /// Both ends, for those who watch.
    client: SocketAddr,
    server: SocketAddr,
    place: Place,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.context.metrics.tcp_connections.dec();
    }
}

/// Starts accepting DNS over TCP, or over TLS if there is something to show. Open connections end soon after the
/// listener.
pub fn start(listener: &mut Listener, context: &Arc<StreamContext>, shown: Option<Arc<Shown>>) -> io::Result<()> {
    let (context, security) = (context.clone(), shown.map(Security));
    let what = if security.is_some() { "a TLS connection" } else { "a TCP connection" };
    listener.start(what, move |stream, peer, stop| match context.is_within_rate(peer.ip()) {
        true => {
            let admission = context.admit(&stream, peer);
            Some(serve(stream, admission, security.clone(), stop))
        }
        false => {
            // A reset leaves nothing behind: a connection that is closed in order stays in the kernel for a minute.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            None
        }
    })
}

/// Serves one connection to its end, or until its place is given to another.
async fn serve(stream: TcpStream, admission: Admission, security: Option<Security>, stop: watch::Receiver<bool>) {
    // Answers are written in bursts already; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    // A kernel that has no such bound only reports later what a client has taken.
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
    let mut stream = admission.place.connection.measure(stream);
    let plain = Conversation { admission: &admission, transport: Transport::Tcp, has_transfers: true, secured: None };
    let served = async {
        match security {
            None => plain.run(&mut stream, stop).await,
            Some(security) => security.serve(stream, &admission, stop).await,
        }
    };
    tokio::select! {
        // A transfer that is cut says so itself.
        biased;
        () = served => {}
        () = admission.place.connection.displaced() => {}
    }
}

/// The requests and responses of one connection.
#[derive(Clone, Copy)]
struct Conversation<'a> {
    admission: &'a Admission,
    transport: Transport,
    /// True if transfers may be sent over the connection.
    has_transfers: bool,
    /// What TLS shows of the client.
    secured: Option<&'a dyn Secured>,
}

impl Conversation<'_> {
    /// Answers requests until the client has had enough, or is silent, or the listener has gone.
    async fn run<S: AsyncRead + AsyncWrite + Unpin>(self, stream: &mut S, mut stop: watch::Receiver<bool>) {
        let Admission { context, place, .. } = self.admission;
        let mut input = Vec::with_capacity(READ_BYTES);
        let mut leave_by = None;
        // Silence is time without a whole request: octets now and then must not hold a connection.
        let mut last_request = Instant::now();
        loop {
            let (idle, begun) = (context.idle(), Instant::now());
            let Burst { output, complete, transfer } = self.answer_frames(&mut input);
            if complete {
                last_request = Instant::now();
                place.connection.note_request();
            }
            if !output.is_empty() {
                if !write(stream, &output, idle).await {
                    return;
                }
                context.metrics.answer_times.observe(self.transport, begun.elapsed());
            }
            if let Some(outbound) = transfer {
                place.begin_answer();
                if !send(stream, *outbound, self).await {
                    return;
                }
                place.end_answer();
                last_request = Instant::now();
                continue;
            }
            if !output.is_empty() {
                continue;
            }
            let silent_until = last_request + idle;
            let until = leave_by.map_or(silent_until, |at| silent_until.min(at));
            let read = tokio::select! {
                read = timeout_at(until, stream.read_buf(&mut input)) => read,
                _ = stop.wait_for(|stop| *stop), if leave_by.is_none() => {
                    leave_by = Some(Instant::now() + DRAIN);
                    continue;
                }
            };
            match read {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    }

    /// Answers the complete frames in `input`, up to a burst's worth or a transfer, and removes them.
    fn answer_frames(self, input: &mut Vec<u8>) -> Burst {
        let Admission { context, peer, .. } = self.admission;
        let mut burst = Burst { output: Vec::new(), complete: false, transfer: None };
        let mut scratch = Vec::new();
        let mut start = 0;
        while burst.output.len() < BURST_BYTES
            && burst.transfer.is_none()
            && let Some(head) = input.get(start..start + 2)
            && let length = usize::from(u16::from_be_bytes([head[0], head[1]]))
            && let Some(message) = input.get(start + 2..start + 2 + length)
        {
            scratch.resize(usize::from(u16::MAX), 0);
            let rotation = context.rotation.fetch_add(1, Ordering::Relaxed);
            let asked = Asked { message, peer: *peer, datagram: false, rotation, now: 0, secured: self.secured };
            let published = context.publisher.load();
            let mut answered = 0;
            match context.responder.respond(&published, asked, &mut scratch) {
                // Over a connection there is no limit.
                Dispatched::Response(response) | Dispatched::Limited(response, _) => {
                    answered = response.length;
                    let rtype = Question::read(message).ok().map(|(question, _)| question.rtype);
                    context.counters.count_shared(response.counted(self.transport, rtype));
                    burst.output.extend_from_slice(&(response.length as u16).to_be_bytes());
                    burst.output.extend_from_slice(&scratch[..response.length]);
                }
                Dispatched::Transfer(outbound) => burst.transfer = Some(outbound),
                Dispatched::Nothing => context.counters.count_dropped_shared(message),
            }
            if let Some(tap) = &published.tap {
                self.give_copy(tap, message, &scratch[..answered]);
            }
            start += 2 + length;
            burst.complete = true;
        }
        input.drain(..start);
        if input.is_empty() {
            // One long frame must not hold its room for the rest of the connection.
            input.shrink_to(READ_BYTES);
        }
        burst
    }

    /// Gives a copy of a request, and of the response to it, to those who watch.
    #[cold]
    fn give_copy(self, tap: &Tap, query: &[u8], response: &[u8]) {
        let Admission { client, server, .. } = *self.admission;
        let received = SystemTime::now();
        tap.take([Exchange { transport: self.transport, client, server, received, query, response }].into_iter());
    }
}

/// Writes octets; returns false if the client does not take them in time.
async fn write(stream: &mut (impl AsyncWrite + Unpin), octets: &[u8], patience: Duration) -> bool {
    let written = async {
        stream.write_all(octets).await?;
        // TLS keeps what the connection had no room for.
        stream.flush().await
    };
    matches!(timeout(patience, written).await, Ok(Ok(())))
}

/// Result of the frames that were there.
struct Burst {
    output: Vec<u8>,
    /// True if there was a complete frame.
    complete: bool,
    /// The transfer that the last of them asks for, to be sent behind the output.
    transfer: Option<Box<Outbound>>,
}

#[cfg(test)]
mod tests;
