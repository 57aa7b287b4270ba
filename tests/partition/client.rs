//! Clients that ask as resolvers do: one server after the other, half a second for each at most, and what they saw.

use super::harness::{Dname, Query, decode, rtype};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait of a resolver for one server.
const TRY: Duration = Duration::from_millis(500);
/// Tries for one question, among both servers in turn, before a client is told that nobody answers.
const TRIES: usize = 8;
/// Between two questions of a client.
const PAUSE: Duration = Duration::from_millis(20);

/// Result of a question.
#[derive(Clone, Debug)]
pub struct Observation {
    pub asked: Instant,
    pub answered: Instant,
    /// Tries that it took.
    pub tries: usize,
    /// The version of each datacenter in the answer; none for a datacenter that is missing. Without an answer, nothing.
    pub versions: Option<[Option<usize>; 3]>,
}

/// Asks until it is told to end.
pub fn ask_on(servers: &[SocketAddr], name: &Dname, first: usize, end: &AtomicBool) -> Vec<Observation> {
    let mut seen = Vec::new();
    let query = Query { edns: Some(1232), ..Query::new(name, rtype::A) };
    let mut id = first as u16 * 4096;
    while !end.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let (mut tries, mut versions) = (0, None);
        while versions.is_none() && tries < TRIES {
            id = id.wrapping_add(1);
            versions = ask_once(servers[(first + seen.len() + tries) % servers.len()], &query, id);
            tries += 1;
        }
        seen.push(Observation { asked, answered: Instant::now(), tries, versions });
        // The rhythm of a client; nothing is waited for.
        std::thread::sleep(PAUSE);
    }
    seen
}

/// Asks one server once, from a port of its own.
fn ask_once(server: SocketAddr, query: &Query, id: u16) -> Option<[Option<usize>; 3]> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("UDP socket");
    socket.connect(server).ok()?;
    socket.send(&query.encode(id)).ok()?;
    let limit = Instant::now() + TRY;
    let mut buffer = [0; 4096];
    loop {
        let left = limit.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
        let length = socket.recv(&mut buffer).ok()?;
        if buffer[..2] != id.to_be_bytes() {
            continue;
        }
        let answer = decode(&buffer[..length]).expect("an answer that can be read");
        assert!(answer.rcode() == 0 && answer.is_authoritative(), "{answer:?}");
        let mut versions = [None; 3];
        for record in answer.answer.iter().filter(|record| record.rtype == rtype::A) {
            let [10, site, high, low] = record.rdata[..] else { panic!("{record}") };
            let version = &mut versions[usize::from(site)];
            assert_eq!(*version, None, "two versions of one datacenter: {answer:?}");
            *version = Some(usize::from(high) << 8 | usize::from(low));
        }
        return Some(versions);
    }
}
