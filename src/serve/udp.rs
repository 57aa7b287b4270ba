//! UDP: plain threads that receive, answer and send in batches.
//!
//! Each listening address has one socket, shared by its threads, so changing their number loses no datagram. A thread
//! takes the waiting requests that fit into a batch, loads the published root once, answers them all from it, and
//! sends. On a wildcard address replies leave with the destination address of the request as their source; elsewhere
//! that is the socket's own, and the system need not tell it with every request.
//!
//! A listener that is taken away answers what its socket still holds before it closes, but not for longer than
//! [`DRAIN`]: a flood must not keep a reload or the end of the server waiting.
//!
//! A request and its response are dealt with by [`Responder`], which knows nothing of sockets.
//!
//! Cost: two system calls a batch, and a look at the clock that is none; no allocation, no lock.

mod batch;

use crate::metrics::{AnswerTimes, Metrics, QueryCounters, Transport};
use crate::publish::Publisher;
use crate::rate_limit;
use crate::serve::prefetch::Prefetch;
use crate::serve::respond::{Asked, Dispatched, Responder};
use crate::tap::{Exchange, Tap};
use arc_swap::{ArcSwap, Cache};
use batch::Batch;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use wire::message::Edns;

/// Longest time that a thread waits for a request before it looks whether it should end.
const POLL: Duration = Duration::from_millis(200);
/// Time for which a listener that is taken away answers what is waiting: several times what a full kernel buffer takes.
pub const DRAIN: Duration = Duration::from_millis(500);
/// Of so many batches one is timed: a power of two.
const TIMED: u32 = 256;
/// Kernel buffers that hold a burst of some ten thousand requests while the threads are busy.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// The UDP threads of one listening address. Dropping it ends them.
pub struct UdpListener {
    address: SocketAddr,
    socket: Arc<UdpSocket>,
    /// Set once the threads are to end: when they leave at the latest, whatever is still waiting.
    leave_by: Arc<OnceLock<Instant>>,
    threads: Vec<JoinHandle<()>>,
}

/// Opens a socket with the options that listeners share, not yet bound.
pub fn new_socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // 0.0.0.0 and [::] are separate listeners.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

impl UdpListener {
    /// Binds an address without answering yet.
    pub fn bind(address: SocketAddr) -> io::Result<UdpListener> {
        let socket = new_socket(address, Type::DGRAM, Protocol::UDP)?;
        // Smaller buffers than asked for are the system's choice and no reason not to serve.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
        if address.ip().is_unspecified() {
            set_option(&socket, address, (libc::IP_PKTINFO, 1), (libc::IPV6_RECVPKTINFO, 1))?;
        }
        // Packets too big for the path are not fragmented by us but by nobody: with what an attacker says of the path
        // the system would fragment (RFC 9715 section 3.1). Responses of 1232 octets fit everywhere.
        #[cfg(target_os = "linux")]
        set_option(
            &socket,
            address,
            (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT),
            (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT),
        )?;
        socket.bind(&address.into())?;
        socket.set_read_timeout(Some(POLL))?;
        UdpListener::from_socket(socket.into())
    }

    /// Takes a socket that [`UdpListener::bind`] made in an earlier process, with what waits in it.
    pub fn from_socket(socket: UdpSocket) -> io::Result<UdpListener> {
        let address = socket.local_addr()?;
        Ok(UdpListener { address, socket: Arc::new(socket), leave_by: Arc::default(), threads: Vec::new() })
    }

    /// The socket, for a process that comes after this one.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The bound address, with the port that the system chose where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering with a number of threads.
    pub fn start(
        &mut self,
        threads: usize,
        publisher: &Arc<Publisher>,
        responder: &Arc<Responder>,
        metrics: &Metrics,
    ) -> io::Result<()> {
        for index in 0..threads {
            let worker = Worker {
                socket: self.socket.clone(),
                address: self.address,
                leave_by: self.leave_by.clone(),
                publisher: publisher.clone(),
                responder: responder.clone(),
                counters: metrics.query_counters(),
                times: metrics.answer_times.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("udp-{index}"));
            self.threads.push(thread.spawn(move || worker.run_always())?);
        }
        Ok(())
    }

    /// Ends the threads but keeps the socket, and what waits in it, for a successor on the same address.
    pub fn restart(mut self) -> UdpListener {
        let (address, socket) = (self.address, self.socket.clone());
        self.end(Instant::now());
        UdpListener { address, socket, leave_by: Arc::default(), threads: Vec::new() }
    }

    /// Tells the threads until when to answer, and waits for them.
    fn end(&mut self, leave_by: Instant) {
        self.leave_by.get_or_init(|| leave_by);
        for thread in self.threads.drain(..) {
            // A worker catches its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for UdpListener {
    fn drop(&mut self) {
        self.end(Instant::now() + DRAIN);
    }
}

/// One thread's view.
struct Worker {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    leave_by: Arc<OnceLock<Instant>>,
    publisher: Arc<Publisher>,
    responder: Arc<Responder>,
    counters: Arc<QueryCounters>,
    times: AnswerTimes,
}

impl Worker {
    /// Answers until told to end. A request that makes the program panic costs its batch and a log line, not the
    /// thread.
    fn run_always(self) {
        while catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            tracing::error!("a UDP thread has panicked and goes on; please report what the log says before this");
        }
    }

    /// Answers until told to end.
    fn run(&self) {
        let (mut batch, mut prefetch) = (Batch::new(self.address.ip().is_unspecified()), Prefetch::default());
        let pointer: &ArcSwap<_> = self.publisher.pointer();
        let mut cache = Cache::new(pointer);
        let (mut rotation, mut batches) = (0u32, 0u32);
        loop {
            let leave_by = self.leave_by.get();
            if leave_by.is_some_and(|at| *at <= Instant::now()) {
                return;
            }
            let stopping = leave_by.is_some();
            let received = match batch.receive(&self.socket, !stopping) {
                Ok(received) => received,
                Err(error) if is_idle(&error) && stopping => return,
                Err(error) if is_idle(&error) => {
                    // Lets go of a version that was replaced while nobody asked.
                    cache.load();
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot receive over UDP");
                    std::thread::sleep(POLL);
                    continue;
                }
            };
            let started = batches.is_multiple_of(TIMED).then(Instant::now);
            batches = batches.wrapping_add(1);
            let published = cache.load();
            let tapped = published.tap.as_ref().map(|tap| (tap, SystemTime::now()));
            let now = rate_limit::clock();
            let mut places = prefetch.read(published, (0..received).map(|index| batch.request(index)));
            prefetch.look_aside(published, &mut places, |index| batch.peer(index));
            for (index, place) in places.into_iter().enumerate().take(received) {
                rotation = rotation.wrapping_add(1);
                batch.exchange(index, |message, peer, out| {
                    let asked = Asked { message, peer, datagram: true, rotation, now, secured: None };
                    let request = prefetch.request_mut(index);
                    let rtype = request.question.as_ref().map(|question| question.rtype);
                    let respond = |place| self.responder.respond_to(published, request, place, asked, out);
                    let response = match place.map_or(Dispatched::Nothing, respond) {
                        Dispatched::Response(response) => Some(response),
                        Dispatched::Limited(response, class) => {
                            self.counters.count_limited(class as usize);
                            Some(response)
                        }
                        // Over UDP there are no transfers.
                        Dispatched::Nothing | Dispatched::Transfer(_) => None,
                    };
                    match response {
                        Some(response) => {
                            self.counters.count(response.counted(Transport::Udp, rtype));
                            if let Some(shown) = request.edns.as_ref().and_then(Edns::shown_cookie) {
                                self.counters.count_cookie(shown as usize);
                            }
                        }
                        None => self.counters.count_dropped(message),
                    }
                    response
                });
            }
            batch.send(&self.socket, received);
            if let Some(started) = started {
                self.times.observe(Transport::Udp, started.elapsed());
            }
            if let Some((tap, at)) = tapped {
                self.give_copies(tap, at, &batch, received);
            }
        }
    }

    /// Gives copies of a batch that came at a time to those who watch.
    #[cold]
    fn give_copies(&self, tap: &Tap, at: SystemTime, batch: &Batch, received: usize) {
        tap.take(batch.exchanged(received).map(|(client, destination, query, response)| {
            let server = SocketAddr::new(destination.unwrap_or(self.address.ip()), self.address.port());
            Exchange { transport: Transport::Udp, client, server, received: at, query, response }
        }));
    }
}

/// Returns true if an error only says that nothing has come in.
fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Sets the option that has the address's family, with its value.
fn set_option(
    socket: &Socket,
    address: SocketAddr,
    (v4, v4_value): (libc::c_int, libc::c_int),
    (v6, v6_value): (libc::c_int, libc::c_int),
) -> io::Result<()> {
    let (level, option, value) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, v4, v4_value),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, v6, v6_value),
    };
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: these options take an int, and `value` outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
