//! The secondaries that CNS knows, and when it tells them of changes (`docs/cns.md` 20 and 26).
//!
//! A secondary is known once it answers for the zone that it was sent: CNS asks it for the SOA a moment after every
//! transfer, and writes down the serial. Whoever is behind gets NOTIFY again and again; whoever fails to reply five
//! times in a row, whatever the zone, gets none until some time after a transfer that was seen to arrive. CNS asks on
//! port 53; here each secondary has the port that it is given.
//!
//! Invariants: a failure stops the time that would end the silence; only what is asked for is followed, by address.
//!
//! Cost: a question for each transfer, a look at each zone in every interval.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};
use wire::name::{self, Name};
use wire::rr::{self, rtype};
use wire::serial::Serial;

/// Failures in a row after which a secondary is told nothing more.
const MOST_FAILURES: u32 = 5;

/// Longest time that a secondary may take to show its serial.
const PATIENCE: Duration = Duration::from_secs(2);

/// Intervals at which CNS deals with its secondaries.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time from a transfer to the question whether it arrived.
    pub check: Duration,
    /// Time between two rounds of NOTIFY, and for a reply to one.
    pub interval: Duration,
    /// Time from a transfer that arrived to the end of the silence.
    pub clear: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Times { check: seconds(2), interval: seconds(5), clear: seconds(300) }
    }
}

/// The secondaries, by address.
#[derive(Default)]
pub struct Peers(Mutex<HashMap<IpAddr, Peer>>);

/// One secondary.
struct Peer {
    server: SocketAddr,
    times: Times,
    /// The serials that it has shown.
    serials: HashMap<Name, Serial>,
    failures: u32,
    /// Time at which the failures are forgotten.
    clear: Option<Instant>,
    /// The announcements that wait for replies, by their ids.
    waiting: HashMap<u16, Instant>,
    next_id: u16,
    next_round: Instant,
    /// Transfers that are to be looked after.
    checks: Vec<(Instant, Name, Serial)>,
}

/// Action that is due now.
pub enum Errand {
    /// Send this NOTIFY.
    Announce(SocketAddr, Vec<u8>),
    /// Ask whether a transfer arrived.
    Check(SocketAddr, Name, Serial),
}

impl Peers {
    /// Follows a secondary from now on, which is reached at this address and port.
    pub fn follow(&self, server: SocketAddr, times: Times) {
        let peer = Peer {
            server,
            times,
            serials: HashMap::new(),
            failures: 0,
            clear: None,
            waiting: HashMap::new(),
            next_id: 0,
            next_round: Instant::now(),
            checks: Vec::new(),
        };
        self.0.lock().insert(server.ip(), peer);
    }

    /// Returns true if the secondary is told nothing.
    pub fn is_silent(&self, peer: IpAddr) -> bool {
        self.0.lock().get(&peer).is_some_and(|peer| peer.failures >= MOST_FAILURES)
    }

    /// Notes a transfer to an address.
    pub fn note_transfer(&self, client: IpAddr, zone: &Name, serial: Serial) {
        if let Some(peer) = self.0.lock().get_mut(&client) {
            peer.checks.push((Instant::now() + peer.times.check, zone.clone(), serial));
        }
    }

    /// Takes what a secondary showed after a transfer.
    pub fn note_serial(&self, client: IpAddr, zone: Name, sent: Serial, shown: Serial) {
        if let Some(peer) = self.0.lock().get_mut(&client)
            && shown.0 >= sent.0
        {
            peer.serials.insert(zone, shown);
            let clear = Instant::now() + peer.times.clear;
            peer.clear.get_or_insert(clear);
        }
    }

    /// Takes a reply to NOTIFY.
    pub fn note_reply(&self, client: SocketAddr, message: &[u8]) {
        if let Some(peer) = self.0.lock().get_mut(&client.ip())
            // NOERROR, and the question with it.
            && message.len() > 12 && message[3] & 0x0f == 0 && message[5] == 1
            && peer.waiting.remove(&u16::from_be_bytes([message[0], message[1]])).is_some()
        {
            peer.failures = 0;
        }
    }

    /// Returns the actions that are due now, given the serials of the zones.
    pub fn errands(&self, zones: &HashMap<Name, Serial>) -> Vec<Errand> {
        let now = Instant::now();
        let mut errands = Vec::new();
        for peer in self.0.lock().values_mut() {
            let before = peer.waiting.len();
            peer.waiting.retain(|_, due| now < *due);
            let failed = (before - peer.waiting.len()) as u32;
            if failed > 0 {
                (peer.failures, peer.clear) = (peer.failures + failed, None);
            }
            if peer.clear.is_some_and(|clear| clear <= now) {
                (peer.failures, peer.clear) = (0, None);
            }
            let due = peer.checks.extract_if(.., |(due, ..)| *due <= now);
            errands.extend(due.map(|(_, zone, serial)| Errand::Check(peer.server, zone, serial)));
            if peer.next_round > now {
                continue;
            }
            peer.next_round = now + peer.times.interval;
            // CNS compares numbers, not as RFC 1982 has it.
            let behind =
                peer.serials.iter().filter(|(zone, shown)| zones.get(*zone).is_some_and(|serial| shown.0 < serial.0));
            for (zone, _) in behind.filter(|_| peer.failures < MOST_FAILURES) {
                peer.next_id = peer.next_id.wrapping_add(1);
                peer.waiting.insert(peer.next_id, now + peer.times.interval);
                errands.push(Errand::Announce(peer.server, announcement(peer.next_id, zone)));
            }
        }
        errands
    }
}

/// A NOTIFY message in CNS' form: no AA, no answer, no EDNS.
pub fn announcement(id: u16, zone: &Name) -> Vec<u8> {
    // Opcode 4 is NOTIFY.
    message(id, 4 << 11, zone)
}

/// A message that asks for the SOA of a zone.
fn message(id: u16, flags: u16, zone: &Name) -> Vec<u8> {
    let mut message = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    message.extend_from_slice(zone.as_wire());
    message.extend([rtype::SOA, 1].map(u16::to_be_bytes).concat());
    message
}

/// Asks a secondary for its serial of a zone, as CNS does: without EDNS, over UDP; none if its answer is of no use.
pub async fn ask_serial(server: SocketAddr, zone: &Name) -> Option<Serial> {
    let any: SocketAddr =
        if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).await.ok()?;
    socket.connect(server).await.ok()?;
    let id = socket.local_addr().ok()?.port();
    let question = message(id, 0, zone);
    socket.send(&question).await.ok()?;
    let mut answer = [0; 512];
    let length = timeout(PATIENCE, socket.recv(&mut answer)).await.ok()?.ok()?;
    let answer = answer.get(..length)?;
    // Our number and question; a response with NOERROR and an answer.
    let is_ours =
        answer.len() > question.len() && answer[..2] == question[..2] && answer[12..question.len()] == question[12..];
    if !is_ours || answer[2] & 0x80 == 0 || answer[3] & 0x0f != 0 || answer[6..8] == [0, 0] {
        return None;
    }
    let (rtype, _, _, start, _) = rr::read_fixed(answer, name::skip(answer, question.len())?)?;
    let serial = name::skip(answer, name::skip(answer, start)?)?;
    (rtype == rtype::SOA).then_some(())?;
    Some(Serial(u32::from_be_bytes(answer.get(serial..serial + 4)?.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "192.0.2.1:53";

    fn zone() -> Name {
        Name::parse("z.example").unwrap()
    }

    /// A secondary that CNS knows at serial 1, with times that are over at once but for the last.
    fn known(clear: Duration) -> (Peers, SocketAddr) {
        let (peers, client) = (Peers::default(), CLIENT.parse().unwrap());
        peers.follow(client, Times { check: Duration::ZERO, interval: Duration::ZERO, clear });
        peers.note_serial(client.ip(), zone(), Serial(1), Serial(1));
        (peers, client)
    }

    /// The announcements of a round while CNS has this serial.
    fn announcements(peers: &Peers, serial: u32) -> Vec<Vec<u8>> {
        let errands = peers.errands(&HashMap::from([(zone(), Serial(serial))]));
        let messages = errands.into_iter().map(|errand| match errand {
            Errand::Announce(_, message) => message,
            Errand::Check(..) => panic!("no transfer was made"),
        });
        messages.collect()
    }

    #[test]
    fn five_failures_in_a_row_make_it_silent_and_a_reply_starts_over() {
        let (peers, client) = known(Duration::from_secs(300));
        assert!(announcements(&peers, 1).is_empty(), "nothing is new");
        for round in 0..4 {
            assert_eq!(announcements(&peers, 2).len(), 1, "{round}");
        }
        let mut reply = announcements(&peers, 2).remove(0);
        let without_question = [&reply[..5], &[0], &reply[6..]].concat();
        peers.note_reply(client, &without_question);
        assert_eq!(peers.0.lock()[&client.ip()].failures, 4);
        reply[2] |= 0x80;
        peers.note_reply(client, &reply);
        assert_eq!(peers.0.lock()[&client.ip()].failures, 0);
        (0..6).for_each(|_| drop(announcements(&peers, 2)));
        assert!(peers.is_silent(client.ip()) && announcements(&peers, 3).is_empty());
    }

    #[test]
    fn only_a_transfer_that_arrived_ends_the_silence_and_not_at_once() {
        for (clear, shown, expected) in
            [(Duration::ZERO, 2, false), (Duration::ZERO, 1, true), (Duration::from_secs(300), 2, true)]
        {
            let (peers, client) = known(clear);
            (0..6).for_each(|_| drop(announcements(&peers, 2)));
            // What was confirmed before the failures counts no more.
            assert!(peers.is_silent(client.ip()));
            peers.note_serial(client.ip(), zone(), Serial(2), Serial(shown));
            drop(announcements(&peers, 2));
            assert_eq!(peers.is_silent(client.ip()), expected, "{clear:?} {shown}");
        }
    }
}
