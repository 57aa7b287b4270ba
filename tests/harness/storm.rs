//! A storm of queries on one server, each sent once: who would have to ask again has lost something.

use super::{Client, Query, decode, wait_until};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Questions of a storm, and the way in which they are put.
#[derive(Clone, Debug)]
pub struct StormPlan {
    pub server: SocketAddr,
    pub query: Query,
    /// The number of records in a good answer.
    pub records: usize,
    /// Pause between two queries of a thread over UDP.
    pub pause: Duration,
    /// A query that is not answered by then is lost.
    pub lost_after: Duration,
}

/// Result of a storm.
#[derive(Debug)]
pub struct Toll {
    pub asked: u64,
    pub lost: u64,
    /// The longest time to an answer.
    pub longest: Duration,
}

#[derive(Default)]
struct Tally {
    asked: AtomicU64,
    lost: AtomicU64,
    longest_ms: AtomicU64,
    is_over: AtomicBool,
}

impl Tally {
    fn answered(&self, sent: Instant) {
        self.longest_ms.fetch_max(sent.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Threads that ask until they are told to stop: some over UDP, one over TCP.
pub struct Storm {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

impl Storm {
    /// Begins.
    pub fn start(plan: &StormPlan, udp_threads: usize) -> Storm {
        let tally = Arc::new(Tally::default());
        let start = |run: fn(&StormPlan, &Tally)| {
            let (plan, tally) = (plan.clone(), tally.clone());
            std::thread::spawn(move || run(&plan, &tally))
        };
        let mut threads: Vec<_> = (0..udp_threads).map(|_| start(ask_udp)).collect();
        threads.push(start(ask_tcp));
        Storm { tally, threads }
    }

    /// Waits until as many queries more have been sent.
    pub fn wait_for_queries(&self, count: u64, patience: Duration) {
        let before = self.tally.asked.load(Ordering::Relaxed);
        wait_until("the storm goes on", patience, || {
            (self.tally.asked.load(Ordering::Relaxed) > before + count).then_some(())
        });
    }

    /// Ends, once every query is answered or lost.
    pub fn end(self) -> Toll {
        self.tally.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the storm sees whole answers only"));
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.tally;
        let longest = Duration::from_millis(count(&tally.longest_ms));
        Toll { asked: count(&tally.asked), lost: count(&tally.lost), longest }
    }
}

/// Sends a query every so often, whether earlier ones are answered or not.
fn ask_udp(plan: &StormPlan, tally: &Tally) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(plan.server).unwrap();
    socket.set_read_timeout(Some(plan.pause)).unwrap();
    let mut open: HashMap<u16, Instant> = HashMap::new();
    let mut next_id = 0u16;
    let mut buffer = [0; 4096];
    let mut next_send = Instant::now();
    while !tally.is_over() || !open.is_empty() {
        if !tally.is_over() && Instant::now() >= next_send {
            next_id = next_id.wrapping_add(1);
            socket.send(&plan.query.encode(next_id)).expect("the port is never closed");
            open.insert(next_id, Instant::now());
            tally.asked.fetch_add(1, Ordering::Relaxed);
            next_send = Instant::now() + plan.pause;
        }
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let answer = decode(&buffer[..length]).expect("a whole answer");
                assert_eq!((answer.flags & 15, answer.answer.len()), (0, plan.records), "{answer:?}");
                tally.answered(open.remove(&answer.id).expect("one answer for each query"));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // A closed port, which must not be seen: the query that met it is gone.
            Err(error) => panic!("{error}"),
        }
        let before = open.len();
        open.retain(|_, sent| sent.elapsed() < plan.lost_after);
        tally.lost.fetch_add((before - open.len()) as u64, Ordering::Relaxed);
    }
}

/// Opens a connection for each query, one after the other.
fn ask_tcp(plan: &StormPlan, tally: &Tally) {
    while !tally.is_over() {
        let sent = Instant::now();
        tally.asked.fetch_add(1, Ordering::Relaxed);
        match Client::new(plan.server).with_deadline(plan.lost_after).ask_tcp(&plan.query) {
            Ok(answer) if answer.answer.len() == plan.records => tally.answered(sent),
            other => {
                eprintln!("lost over TCP: {other:?}");
                tally.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
