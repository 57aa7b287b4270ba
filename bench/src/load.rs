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
#[derive(Clone, Copy)]
pub enum Check<'a> {
    /// It answers the question.
    Answer,
    /// It is the question, from the echo.
    Echo,
    /// It answers the question, and somebody knows what may be answered in this moment.
    Live(&'a dyn Judge),
}

/// Who knows what may be answered while it changes.
pub trait Judge: Sync {
    /// What is noted of a question when it is sent.
    fn note(&self, question: usize) -> u64;

    /// Whether the reply to a question, which was sent at a time, may say what it says.
    fn allows(&self, question: usize, noted: u64, sent: Instant, reply: &[u8]) -> bool;
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
    check: Check<'a>,
    /// Questions a second of each thread at most.
    pace: f64,
    stop: AtomicBool,
    answers: AtomicU64,
    wrong: AtomicU64,
    lost: AtomicU64,
}

impl<'a> Load<'a> {
    /// Runs the load with so many threads on these processors while `measure` runs, as fast as the server takes it.
    pub fn run<T>(
        questions: &'a Questions,
        asked: (SocketAddr, Check<'a>),
        by: (usize, &[usize]),
        measure: impl FnOnce(&Load<'a>) -> T,
    ) -> T {
        Load::run_at(f64::INFINITY, questions, asked, by, measure)
    }

    /// The same, with so many questions a second at most.
    pub fn run_at<T>(
        rate: f64,
        questions: &'a Questions,
        (server, check): (SocketAddr, Check<'a>),
        (threads, processors): (usize, &[usize]),
        measure: impl FnOnce(&Load<'a>) -> T,
    ) -> T {
        let zero = AtomicU64::default;
        let (pace, stop) = (rate / threads as f64, AtomicBool::new(false));
        let load = Load { questions, server, check, pace, stop, answers: zero(), wrong: zero(), lost: zero() };
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
        let (mut last, mut due) = (Instant::now(), 0.0);
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            // What was not asked for want of free slots is not made up for.
            due = (due + self.pace * (now - last).as_secs_f64()).min((SOCKETS * WINDOW) as f64);
            last = now;
            let mut received = 0;
            for client in &mut clients {
                received += client.receive(self);
                client.give_up_old(self, now);
                due -= client.send(self, now, due as usize) as f64;
            }
            // The next client to send first is another one, where there are fewer questions than slots.
            if self.pace.is_finite() {
                clients.rotate_left(1);
            }
            if received == 0 {
                let nap = if self.pace.is_finite() { 1 } else { NAP };
                // SAFETY: the array is ours and has this length.
                unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, nap) };
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
    /// What is noted of it.
    noted: u64,
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
        let slot = Slot { id: [0; 2], question: 0, sent: None, noted: 0 };
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
            let Some(at) = slot.sent.filter(|_| reply.len() >= HEADER_BYTES && reply[..2] == slot.id) else { continue };
            slot.sent = None;
            let right = match load.check {
                Check::Answer => question.is_answered_by(sent, slot.id, reply),
                Check::Echo => reply[HEADER_BYTES..] == sent[HEADER_BYTES..],
                Check::Live(judge) => {
                    question.is_answered_by(sent, slot.id, reply) && judge.allows(slot.question, slot.noted, at, reply)
                }
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

    /// Sends a question for every free slot, but no more than are due; how many.
    fn send(&mut self, load: &Load<'_>, now: Instant, due: usize) -> usize {
        let (mut count, mut sources) = (0, [None; WINDOW]);
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.sent.is_none()).take(due) {
            self.count = self.count.wrapping_add(1);
            let id = (self.count as usize * WINDOW + index) as u16;
            let noted = if let Check::Live(judge) = load.check { judge.note(self.next) } else { 0 };
            *slot = Slot { id: id.to_be_bytes(), question: self.next, sent: Some(now), noted };
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
        count
    }
}
