//! The load: as many questions as a server can answer, from sockets that wait for its replies.
//!
//! Each socket is connected, unless questions come from addresses of their own (ip(7), IP_PKTINFO), and has a few questions under way; for every reply another goes out, both in batches. In
//! total there are fewer than fit into a receive buffer of the default size (some 160 datagrams of this length, 277 of the
//! shortest), so what is lost, the server has lost. Every reply is checked against its question.
//!
//! Cost: two system calls for up to [`WINDOW`] questions; the generator must have a processor of its own.

use crate::question::{HEADER_BYTES, Questions};
use crate::usage;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sockets of all threads together: enough for servers that spread clients over their threads.
const SOCKETS: usize = 16;
/// Questions under way on one socket.
const WINDOW: usize = 8;
/// After this time a question counts as lost, and another takes its place.
const PATIENCE: Duration = Duration::from_millis(300);
/// Replies are never longer: all questions with EDNS say so.
const REPLY_BYTES: usize = 1500;
/// How long to sleep in poll(2) when nothing comes, in milliseconds.
const NAP: libc::c_int = 20;

/// How a reply is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// It answers the question.
    Answer,
    /// It is the question, from the echo.
    Echo,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub answers: u64,
    pub wrong: u64,
    pub lost: u64,
}

/// A load that runs until it is stopped.
pub struct Load<'a> {
    questions: &'a Questions,
    server: SocketAddr,
    check: Check,
    stop: AtomicBool,
    answers: AtomicU64,
    wrong: AtomicU64,
    lost: AtomicU64,
}

impl<'a> Load<'a> {
    /// Runs the load with so many threads on these processors while `measure` runs.
    pub fn run<T>(
        questions: &'a Questions,
        (server, check): (SocketAddr, Check),
        (threads, processors): (usize, &[usize]),
        measure: impl FnOnce(&Load<'a>) -> T,
    ) -> T {
        let zero = AtomicU64::default;
        let stop = AtomicBool::new(false);
        let load = Load { questions, server, check, stop, answers: zero(), wrong: zero(), lost: zero() };
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let load = &load;
                scope.spawn(move || {
                    usage::pin_self(processors);
                    load.ask_always(thread, threads);
                });
            }
            let result = measure(&load);
            load.stop.store(true, Ordering::Relaxed);
            result
        })
    }

    /// What has come of it so far.
    pub fn outcome(&self) -> Outcome {
        let [answers, wrong, lost] =
            [&self.answers, &self.wrong, &self.lost].map(|counter| counter.load(Ordering::Relaxed));
        Outcome { answers, wrong, lost }
    }

    /// One thread's share of the sockets and of the questions.
    fn ask_always(&self, thread: usize, threads: usize) {
        let mut clients: Vec<Box<Client>> = (thread..SOCKETS)
            .step_by(threads)
            .map(|number| Client::new(self, number * self.questions.len() / SOCKETS))
            .collect();
        let mut files: Vec<libc::pollfd> = clients
            .iter()
            .map(|client| libc::pollfd { fd: client.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut received = 0;
            for client in &mut clients {
                received += client.receive(self);
                client.give_up_old(self, now);
                client.send(self, now);
            }
            if received == 0 {
                // SAFETY: the array is ours and has this length.
                unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, NAP) };
            }
        }
    }
}

/// A question under way.
#[derive(Clone, Copy)]
struct Slot {
    id: [u8; 2],
    question: usize,
    sent: Option<Instant>,
}

/// The source of a datagram, as sendmmsg(2) takes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Origin {
    header: libc::cmsghdr,
    info: libc::in_pktinfo,
}

/// One socket with what is under way on it.
struct Client {
    socket: UdpSocket,
    slots: [Slot; WINDOW],
    /// The question to send next.
    next: usize,
    /// Questions sent so far, which makes the ids.
    count: u16,
    buffers: [[u8; REPLY_BYTES]; WINDOW],
    /// Id and rest of each message to send, or room for each to receive.
    vectors: [[libc::iovec; 2]; WINDOW],
    messages: [libc::mmsghdr; WINDOW],
    /// The server, and the source of each message to send; nothing of it is looked at on a connected socket.
    server: libc::sockaddr_in,
    origins: [Origin; WINDOW],
}

impl Client {
    /// A socket that asks from a question of the list on.
    fn new(load: &Load<'_>, next: usize) -> Box<Client> {
        let has_sources = load.questions.source(next).is_some();
        let local = if has_sources { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let socket = UdpSocket::bind(local).expect("a UDP port is free");
        if !has_sources {
            socket.connect(load.server).expect("loopback can be reached");
        }
        socket.set_nonblocking(true).expect("a socket can be made non-blocking");
        let slot = Slot { id: [0; 2], question: 0, sent: None };
        // SAFETY: plain C structures, for which zeroes are valid.
        let (vectors, messages, mut server, origins): (_, _, libc::sockaddr_in, _) = unsafe { std::mem::zeroed() };
        server.sin_family = libc::AF_INET as libc::sa_family_t;
        server.sin_port = load.server.port().to_be();
        server.sin_addr.s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
        let buffers = [[0; REPLY_BYTES]; WINDOW];
        Box::new(Client { socket, slots: [slot; WINDOW], next, count: 0, buffers, vectors, messages, server, origins })
    }

    /// Takes what is there and checks it; the number of datagrams.
    fn receive(&mut self, load: &Load<'_>) -> usize {
        for (index, buffer) in self.buffers.iter_mut().enumerate() {
            self.vectors[index][0] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: REPLY_BYTES };
            self.messages[index].msg_hdr.msg_iov = self.vectors[index].as_mut_ptr();
            self.messages[index].msg_hdr.msg_iovlen = 1;
        }
        (0..WINDOW).for_each(|index| self.set_source(index, None));
        let (file, messages) = (self.socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: every header points into `self`, which is not moved or touched during the call.
        let received =
            unsafe { libc::recvmmsg(file, messages, WINDOW as libc::c_uint, libc::MSG_DONTWAIT, std::ptr::null_mut()) };
        let Ok(received) = usize::try_from(received) else { return 0 };
        let (mut answers, mut wrong) = (0, 0);
        for index in 0..received {
            let reply = &self.buffers[index][..self.messages[index].msg_len as usize];
            // The lowest bits of an id are the slot's number; what came late finds another id there.
            let slot = &mut self.slots[reply.get(1).map_or(0, |low| usize::from(*low) % WINDOW)];
            let (question, sent) = load.questions.get(slot.question);
            if reply.len() < HEADER_BYTES || slot.sent.is_none() || reply[..2] != slot.id {
                continue;
            }
            slot.sent = None;
            let right = match load.check {
                Check::Answer => question.is_answered_by(sent, slot.id, reply),
                Check::Echo => reply[HEADER_BYTES..] == sent[HEADER_BYTES..],
            };
            answers += u64::from(right);
            wrong += u64::from(!right);
        }
        load.answers.fetch_add(answers, Ordering::Relaxed);
        load.wrong.fetch_add(wrong, Ordering::Relaxed);
        received
    }

    /// Has a message leave from an address; without one from that of the socket, to where it is connected.
    fn set_source(&mut self, index: usize, source: Option<Ipv4Addr>) {
        let header = &mut self.messages[index].msg_hdr;
        (header.msg_namelen, header.msg_controllen) = (0, 0);
        (header.msg_name, header.msg_control) = (std::ptr::null_mut(), std::ptr::null_mut());
        let Some(source) = source else { return };
        let origin = &mut self.origins[index];
        origin.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<libc::in_pktinfo>()) as _;
        (origin.header.cmsg_level, origin.header.cmsg_type) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
        origin.info.ipi_spec_dst.s_addr = u32::from(source).to_be();
        header.msg_control = (&raw mut *origin).cast();
        header.msg_controllen = size_of::<Origin>() as _;
        header.msg_name = (&raw mut self.server).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }

    /// Counts what has been waited for too long as lost.
    fn give_up_old(&mut self, load: &Load<'_>, now: Instant) {
        for slot in &mut self.slots {
            if slot.sent.is_some_and(|sent| now.saturating_duration_since(sent) > PATIENCE) {
                slot.sent = None;
                load.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends a question for every free slot.
    fn send(&mut self, load: &Load<'_>, now: Instant) {
        let (mut count, mut sources) = (0, [None; WINDOW]);
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.sent.is_none()) {
            self.count = self.count.wrapping_add(1);
            let id = (self.count as usize * WINDOW + index) as u16;
            *slot = Slot { id: id.to_be_bytes(), question: self.next, sent: Some(now) };
            self.next = (self.next + 1) % load.questions.len();
            let (_, message) = load.questions.get(slot.question);
            self.vectors[count] = [
                libc::iovec { iov_base: slot.id.as_mut_ptr().cast(), iov_len: 2 },
                libc::iovec { iov_base: message[2..].as_ptr().cast_mut().cast(), iov_len: message.len() - 2 },
            ];
            self.messages[count].msg_hdr.msg_iov = self.vectors[count].as_mut_ptr();
            self.messages[count].msg_hdr.msg_iovlen = 2;
            sources[count] = load.questions.source(slot.question);
            count += 1;
        }
        (0..count).for_each(|index| self.set_source(index, sources[index]));
        if count > 0 {
            // SAFETY: as in `receive`; the kernel only reads what is sent. What cannot be sent is lost.
            unsafe {
                libc::sendmmsg(self.socket.as_raw_fd(), self.messages.as_mut_ptr(), count as libc::c_uint, 0);
            }
        }
    }
}
