//! UDP: plain threads that receive, answer and send in batches.
//!
//! Each listening address has one socket, shared by its threads, so changing their number loses no datagram. A thread
//! takes up to 16 waiting requests, loads the published root once, answers them all from it, and sends. Replies
//! leave with the destination address of the request as their source, which matters on wildcard addresses.
//!
//! A listener that is taken away answers what its socket still holds before it closes, but not for longer than
//! [`DRAIN`]: a flood must not keep a reload or the end of the server waiting.
//!
//! A request and its response are dealt with by [`Responder`], which knows nothing of sockets.
//!
//! Cost: two system calls a batch, no allocation, no lock.

use crate::metrics::{Metrics, QueryCounters, Transport};
use crate::publish::Publisher;
use crate::serve::answer::Response;
use crate::serve::message::MAX_UDP_BYTES;
use crate::serve::respond::{Asked, Outcome, Responder};
use arc_swap::{ArcSwap, Cache};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests taken at once: with 8 or more the system calls' share stops falling, and 16 keep a batch short.
const BATCH: usize = 16;
/// Requests longer than this are cut off, and answered with FORMERR if that cuts a record; no sane question comes near.
const REQUEST_BYTES: usize = 4096;
/// Room for one address in control messages, both families (`in6_pktinfo` is 20 octets, headers 16).
const CONTROL_BYTES: usize = 64;
/// How long a thread waits for a request before it looks whether it should end.
const POLL: Duration = Duration::from_millis(200);
/// How long a listener that is taken away answers what is waiting: several times what a full kernel buffer takes.
pub const DRAIN: Duration = Duration::from_millis(500);
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
        set_option(&socket, address, (libc::IP_PKTINFO, 1), (libc::IPV6_RECVPKTINFO, 1))?;
        // Packets too big for the path are not fragmented by us but by nobody: with what an attacker says of the path the
        // system would fragment (RFC 9715 section 3.1). Responses of 1232 octets fit everywhere.
        let (v4, v6) = (libc::IP_PMTUDISC_OMIT, libc::IPV6_PMTUDISC_OMIT);
        set_option(&socket, address, (libc::IP_MTU_DISCOVER, v4), (libc::IPV6_MTU_DISCOVER, v6))?;
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
                leave_by: self.leave_by.clone(),
                publisher: publisher.clone(),
                responder: responder.clone(),
                counters: metrics.query_counters(),
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
    leave_by: Arc<OnceLock<Instant>>,
    publisher: Arc<Publisher>,
    responder: Arc<Responder>,
    counters: Arc<QueryCounters>,
}

impl Worker {
    /// Answers until told to end. A request that makes the program panic costs its batch and a log line, not the thread.
    fn run_always(self) {
        while catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            tracing::error!("a UDP thread has panicked and goes on; please report what the log says before this");
        }
    }

    /// Answers until told to end.
    fn run(&self) {
        let mut batch = Batch::new();
        let pointer: &ArcSwap<_> = self.publisher.pointer();
        let mut cache = Cache::new(pointer);
        let mut rotation = 0u32;
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
            let published = cache.load();
            for index in 0..received {
                rotation = rotation.wrapping_add(1);
                batch.exchange(index, |request, peer, out| {
                    let asked = Asked { message: request, peer: address_of(peer), datagram: true, rotation };
                    let response = match self.responder.respond(published, asked, out) {
                        Outcome::Response(response) => Some(response),
                        // Over UDP there are no transfers.
                        Outcome::Nothing | Outcome::Transfer(_) => None,
                    };
                    match response {
                        Some(response) => self.counters.count(Transport::Udp, response.rcode, response.truncated),
                        None => self.counters.count_dropped(request),
                    }
                    response
                });
            }
            batch.send(&self.socket);
        }
    }
}

/// Whether an error only says that nothing has come in.
fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

//--- System calls ---

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

/// One request and its reply: buffers that the kernel fills and reads.
struct Slot {
    request: [u8; REQUEST_BYTES],
    reply: [u8; MAX_UDP_BYTES],
    /// Length of the reply; 0 for none.
    length: usize,
    peer: libc::sockaddr_storage,
    control: Control,
}

/// Control messages need the alignment of their header.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The slots of a thread and the kernel's view of them.
struct Batch {
    slots: Box<[Slot; BATCH]>,
    vectors: [libc::iovec; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

impl Batch {
    /// Buffers for a batch.
    fn new() -> Batch {
        // SAFETY: all of these are plain C structures and byte arrays, for which zeroes are valid.
        unsafe {
            Batch { slots: Box::new(std::mem::zeroed()), vectors: std::mem::zeroed(), messages: std::mem::zeroed() }
        }
    }

    /// Waits for at least one request, if `wait`; takes all that are there, up to the batch's size.
    fn receive(&mut self, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            self.vectors[index] = libc::iovec { iov_base: slot.request.as_mut_ptr().cast(), iov_len: REQUEST_BYTES };
            let header = &mut self.messages[index].msg_hdr;
            header.msg_name = (&raw mut slot.peer).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = slot.control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let (messages, count) = (self.messages.as_mut_ptr(), BATCH as libc::c_uint);
        // SAFETY: every header points into `self`, which is not moved or touched during the call. C libraries differ in the
        // type of flags.
        let received = unsafe { libc::recvmmsg(socket.as_raw_fd(), messages, count, flags as _, std::ptr::null_mut()) };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Lets `answer` turn a request into a reply.
    fn exchange(
        &mut self,
        index: usize,
        answer: impl FnOnce(&[u8], &libc::sockaddr_storage, &mut [u8]) -> Option<Response>,
    ) {
        let slot = &mut self.slots[index];
        let length = (self.messages[index].msg_len as usize).min(REQUEST_BYTES);
        let response = answer(&slot.request[..length], &slot.peer, &mut slot.reply);
        slot.length = response.map_or(0, |response| response.length);
    }

    /// Sends the replies of the slots that have one, packed to the front of the kernel's view.
    fn send(&mut self, socket: &UdpSocket) {
        let mut count = 0;
        for index in 0..BATCH {
            let slot = &mut self.slots[index];
            if slot.length == 0 {
                continue;
            }
            let received = self.messages[index].msg_hdr;
            self.vectors[count] = libc::iovec { iov_base: slot.reply.as_mut_ptr().cast(), iov_len: slot.length };
            slot.length = 0;
            let header = &mut self.messages[count].msg_hdr;
            *header = received;
            header.msg_iov = &raw mut self.vectors[count];
            header.msg_name = (&raw mut slot.peer).cast();
            header.msg_control = slot.control.0.as_mut_ptr().cast();
            header.msg_flags = 0;
            // The destination of the request becomes the source of the reply; a link-local one keeps its interface.
            forget_interface(header);
            count += 1;
        }
        let mut sent = 0;
        while sent < count {
            let messages = self.messages[sent..count].as_mut_ptr();
            // SAFETY: as in `receive`; the control messages are those that the kernel wrote.
            let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, (count - sent) as libc::c_uint, 0) };
            match usize::try_from(result) {
                Ok(done) => sent += done.max(1),
                // One peer that cannot be reached must not keep replies from the others.
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                Err(_) => sent += 1,
            }
        }
    }
}

/// The address in a socket address that the kernel wrote, of the family of one of our sockets.
fn address_of(peer: &libc::sockaddr_storage) -> IpAddr {
    // SAFETY: the family tells which structure it is, and the storage has room and alignment for each.
    unsafe {
        let peer = std::ptr::from_ref(peer);
        match libc::c_int::from((*peer).ss_family) {
            libc::AF_INET6 => IpAddr::from((*peer.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr),
            _ => IpAddr::from((*peer.cast::<libc::sockaddr_in>()).sin_addr.s_addr.to_ne_bytes()),
        }
    }
}

/// Clears the interface in packet information, so that routing decides how the reply leaves. A link-local peer's
/// address carries its interface itself.
fn forget_interface(header: &mut libc::msghdr) {
    // SAFETY: the kernel wrote these control messages; `CMSG_FIRSTHDR` checks that one is there.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header);
        if control.is_null() {
            return;
        }
        match ((*control).cmsg_level, (*control).cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                (*libc::CMSG_DATA(control).cast::<libc::in_pktinfo>()).ipi_ifindex = 0;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                (*libc::CMSG_DATA(control).cast::<libc::in6_pktinfo>()).ipi6_ifindex = 0;
            }
            _ => {}
        }
    }
}
