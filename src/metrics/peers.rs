//! What secondaries have asked for and have, by address, as CNS tells of its peers.
//!
//! Invariants: only who was allowed to transfer a zone, or was asked for its serial, is here; at most [`MOST_PEERS`], the
//! one that was silent for longest makes room.
//!
//! Cost: O(1) for each transfer, O(peers) for a newcomer when the table is full.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::name::Name;
use wire::serial::Serial;

/// Peers that are known at a time.
const MOST_PEERS: usize = 1024;

/// Numbers of a peer's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerCounts {
    /// Requests that were answered with the SOA alone.
    pub soa: u64,
    /// Transfers of a whole zone.
    pub axfr: u64,
    /// Transfers of differences.
    pub ixfr: u64,
    /// Transfers that it has taken to their end.
    pub goodxfer: u64,
}

/// What a peer has asked for and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    pub counts: PeerCounts,
    /// The serials that it has, as far as they are known.
    pub serials: BTreeMap<String, Serial>,
    /// What it says of its software.
    pub version: Option<Box<str>>,
}

/// All peers.
#[derive(Default)]
pub struct Peers(Mutex<HashMap<IpAddr, (Instant, Peer)>>);

impl Peers {
    /// Counts a transfer by the label of its kind; `serial` is what the peer has now, if that is known.
    pub fn count(&self, address: IpAddr, kind: &str, zone: &Name, serial: Option<Serial>) {
        self.with_peer(address, |peer| {
            match kind {
                "axfr" | "ixfr-full" => peer.counts.axfr += 1,
                "ixfr" => peer.counts.ixfr += 1,
                _ => peer.counts.soa += 1,
            }
            if let Some(serial) = serial {
                peer.counts.goodxfer += u64::from(kind != "current");
                peer.serials.insert(zone.to_string(), serial);
            }
        });
    }

    /// Notes which serial a peer says it has.
    pub fn note_serial(&self, address: IpAddr, zone: &Name, serial: Serial) {
        self.with_peer(address, |peer| _ = peer.serials.insert(zone.to_string(), serial));
    }

    /// Notes what a peer says of its software; none if it says nothing.
    pub fn note_version(&self, address: IpAddr, version: Option<Box<str>>) {
        self.with_peer(address, |peer| peer.version = version);
    }

    /// The serial of a zone that a peer has, as far as it is known.
    pub fn serial(&self, address: IpAddr, zone: &Name) -> Option<Serial> {
        self.lock().get(&address.to_canonical())?.1.serials.get(&zone.to_string()).copied()
    }

    /// All peers, by address.
    pub fn all(&self) -> BTreeMap<IpAddr, Peer> {
        self.lock().iter().map(|(address, (_, peer))| (*address, peer.clone())).collect()
    }

    /// Forgets a peer. False: it was not known.
    pub fn forget(&self, address: IpAddr) -> bool {
        self.lock().remove(&address.to_canonical()).is_some()
    }

    /// Changes a peer, which may be a new one.
    fn with_peer(&self, address: IpAddr, change: impl FnOnce(&mut Peer)) {
        let address = address.to_canonical();
        let mut peers = self.lock();
        if peers.len() >= MOST_PEERS && !peers.contains_key(&address) {
            let silent = peers.iter().min_by_key(|(_, (seen, _))| *seen).map(|(address, _)| *address);
            silent.and_then(|address| peers.remove(&address));
        }
        let (seen, peer) = peers.entry(address).or_insert_with(|| (Instant::now(), Peer::default()));
        *seen = Instant::now();
        change(peer);
    }

    /// The peers, which no panic leaves half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, (Instant, Peer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_the_silent_make_room() {
        let peers = Peers::default();
        let zone = Name::parse("z.example").unwrap();
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        peers.count(one, "axfr", &zone, None);
        peers.count(one, "ixfr", &zone, Some(Serial(7)));
        peers.count("::ffff:192.0.2.1".parse().unwrap(), "current", &zone, Some(Serial(8)));
        let counts = PeerCounts { soa: 1, axfr: 1, ixfr: 1, goodxfer: 1 };
        let serials = BTreeMap::from([("z.example.".to_owned(), Serial(8))]);
        assert_eq!(peers.all(), BTreeMap::from([(one, Peer { counts, serials, version: None })]));
        assert_eq!(peers.serial("::ffff:192.0.2.1".parse().unwrap(), &zone), Some(Serial(8)));
        assert_eq!(peers.serial(one, &Name::parse("other.example").unwrap()), None);
        for number in 0..MOST_PEERS as u32 {
            peers.note_serial(IpAddr::V4((0x0a00_0000 + number).into()), &zone, Serial(1));
        }
        assert_eq!(peers.all().len(), MOST_PEERS);
        assert!(!peers.forget(one) && peers.forget("10.0.0.1".parse().unwrap()));
    }
}
