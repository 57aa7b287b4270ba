//! TCP: connections with pipelining, idle timeout and limits (RFC 7766).
//!
//! A task a connection reads frames, answers each from the root published at that moment, and writes. Responses leave in
//! the order of the requests, which RFC 7766 section 7 allows; several that are waiting are written together. A client
//! that is silent, or does not take its answers, loses its connection after the idle timeout and costs nobody else
//! anything. Connections beyond a limit are closed at once (RFC 7766 section 6.2.2).
//!
//! When a reload takes a listener away, its connections are answered for [`DRAIN`] more, so that requests on their way are
//! not lost, and a transfer that has begun runs to its end. When the process stops, it waits for connections no longer
//! than [`DRAIN`]: transfers that are not through by then are cut, and secondaries begin them again elsewhere or later.
//!
//! A zone transfer (`stream/send.rs`) holds up the requests behind it on the same connection and nothing else. Only so many
//! run at once, in total and for one client (`stream/turns.rs`); one more waits a moment for its turn and then gets
//! SERVFAIL, as from BIND, and comes again.
//!
//! Cost: a connection holds a read buffer of a few KiB; an answer is composed in a buffer that lives for one burst.

use crate::access::client_of;
use crate::metrics::{Metrics, QueryCounters, Transport};
use crate::publish::Publisher;
use crate::serve::ListenPlan;
use crate::serve::respond::{Asked, Outbound, Outcome, Responder};
use crate::serve::udp::{DRAIN, new_socket};
use arc_swap::ArcSwap;
use socket2::{Protocol, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

mod send;
mod turns;

use send::send;
use turns::Turns;

/// Connections that the kernel completes ahead of us.
const BACKLOG: i32 = 1024;
/// Answers are written when this many bytes are waiting, even if more requests are there.
const BURST_BYTES: usize = 64 << 10;
/// Read at once; pipelined requests are about 60 octets.
const READ_BYTES: usize = 4096;

/// Opens a TCP socket that takes connections; for tokio, but outside of it.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
    // A restart must not wait for the connections of the last run to time out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What all connections share.
pub struct StreamContext {
    publisher: Arc<Publisher>,
    responder: Arc<Responder>,
    metrics: Arc<Metrics>,
    counters: Arc<QueryCounters>,
    limits: ArcSwap<Limits>,
    open: Mutex<Open>,
    rotation: AtomicU32,
    turns: Turns,
}

/// Connections that are counted in.
#[derive(Default)]
struct Open {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// Limits on connections.
struct Limits {
    connections: usize,
    per_client: usize,
    idle: Duration,
}

impl Limits {
    /// The limits of a plan.
    fn from_plan(plan: &ListenPlan) -> Arc<Limits> {
        Arc::new(Limits {
            connections: plan.tcp_connections,
            per_client: plan.tcp_connections_per_client,
            idle: plan.tcp_idle_timeout,
        })
    }
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
            limits: ArcSwap::new(Limits::from_plan(plan)),
            open: Mutex::default(),
            rotation: AtomicU32::default(),
            turns: Turns::new(),
        })
    }

    /// Changes the limits; open connections stay and obey the new idle timeout.
    pub fn set_limits(&self, plan: &ListenPlan) {
        self.limits.store(Limits::from_plan(plan));
    }

    /// Counts a connection in, unless a limit is reached.
    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admission> {
        let client = client_of(address);
        let limits = self.limits.load();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = if open.total >= limits.connections {
            Some("total")
        } else if open.by_client.get(&client).is_some_and(|count| *count >= limits.per_client) {
            Some("client")
        } else {
            None
        };
        if let Some(limit) = reached {
            self.metrics.tcp_rejected.with_label_values(&[limit]).inc();
            return None;
        }
        open.total += 1;
        *open.by_client.entry(client).or_default() += 1;
        self.metrics.tcp_connections.inc();
        Some(Admission { context: self.clone(), address, client })
    }
}

/// A counted connection; dropping it counts it out.
struct Admission {
    context: Arc<StreamContext>,
    address: IpAddr,
    /// What the address counts as.
    client: IpAddr,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut open = self.context.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        if let Some(count) = open.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.by_client.remove(&self.client);
            }
        }
        self.context.metrics.tcp_connections.dec();
    }
}

/// A listening TCP address. Dropping it stops accepting; open connections end soon after.
pub struct StreamListener {
    address: SocketAddr,
    listener: Option<std::net::TcpListener>,
    accepting: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl StreamListener {
    /// Binds an address without accepting yet.
    pub fn bind(address: SocketAddr) -> io::Result<StreamListener> {
        StreamListener::from_listener(listen(address)?)
    }

    /// Takes a socket that [`listen`] made, perhaps in an earlier process.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<StreamListener> {
        let address = listener.local_addr()?;
        Ok(StreamListener { address, listener: Some(listener), accepting: None, stop: watch::Sender::new(false) })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts accepting.
    pub fn start(&mut self, context: &Arc<StreamContext>) -> io::Result<()> {
        if let Some(listener) = self.listener.take() {
            let listener = TcpListener::from_std(listener)?;
            self.accepting = Some(tokio::spawn(accept(listener, context.clone(), self.stop.subscribe())));
        }
        Ok(())
    }

    /// Stops accepting; when this returns, the address is closed and can be bound again.
    pub async fn end(mut self) {
        self.stop.send_replace(true);
        if let Some(accepting) = self.accepting.take() {
            // It cannot fail but with the runtime, and then the socket is closed as well.
            let _ = accepting.await;
        }
    }
}

impl Drop for StreamListener {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Accepts connections until told to stop.
async fn accept(listener: TcpListener, context: Arc<StreamContext>, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            // Connections that the kernel has completed already come first.
            biased;
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(admission) = context.admit(peer.ip()) {
                    tokio::spawn(serve(stream, admission, stop.clone()));
                }
            }
            Err(error) => {
                // Out of file descriptors, most likely: accepting again at once would only spin.
                tracing::warn!(%error, "cannot accept a TCP connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn serve(mut stream: TcpStream, admission: Admission, mut stop: watch::Receiver<bool>) {
    let context = &admission.context;
    // Answers are written in bursts already; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    let mut input = Vec::with_capacity(READ_BYTES);
    let mut leave_by = None;
    // Silence is time without a whole request: octets now and then must not hold a connection.
    let mut last_request = Instant::now();
    loop {
        let idle = context.limits.load().idle;
        let Burst { output, complete, transfer } = answer_frames(&mut input, context, admission.address);
        if complete {
            last_request = Instant::now();
        }
        if !output.is_empty() && !write(&mut stream, &output, idle).await {
            return;
        }
        if let Some(outbound) = transfer {
            if !send(&mut stream, *outbound, context, admission.address).await {
                return;
            }
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

/// Writes octets, unless the client does not take them in time; whether it did.
async fn write(stream: &mut TcpStream, octets: &[u8], patience: Duration) -> bool {
    matches!(timeout(patience, stream.write_all(octets)).await, Ok(Ok(())))
}

/// What came of the frames that were there.
struct Burst {
    output: Vec<u8>,
    /// Whether there was a complete frame.
    complete: bool,
    /// The transfer that the last of them asks for, to be sent behind the output.
    transfer: Option<Box<Outbound>>,
}

/// Answers the complete frames in `input`, up to a burst's worth or a transfer, and removes them.
fn answer_frames(input: &mut Vec<u8>, context: &StreamContext, peer: IpAddr) -> Burst {
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
        let asked = Asked { message, peer, datagram: false, rotation };
        match context.responder.respond(&context.publisher.load(), asked, &mut scratch) {
            Outcome::Response(response) => {
                context.counters.count_shared(Transport::Tcp, response.rcode, response.truncated);
                burst.output.extend_from_slice(&(response.length as u16).to_be_bytes());
                burst.output.extend_from_slice(&scratch[..response.length]);
            }
            Outcome::Transfer(outbound) => burst.transfer = Some(outbound),
            Outcome::Nothing => context.counters.count_dropped_shared(message),
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

#[cfg(test)]
mod tests;
