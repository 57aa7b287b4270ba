//! Points on the ring: of records, fixed by owner, type and canonical RDATA, and of clients.
//!
//! The hash is SipHash-2-4 with the key zero, over octets as they stand in messages, so that replicas and versions of
//! the program agree: of a record over owner (lowercase), type and canonical RDATA (RFC 4034 section 6.2); of a client
//! over the octets of its subnet and the owner. A client has [`PROBES`] points: records near any of them come first, so
//! that the room in front of a record does not decide how often it is chosen.
//!
//! Invariants: nothing here is ever changed: every change sends every client elsewhere.
//!
//! Cost: O(octets).

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::rr;

/// Points of a client.
pub const PROBES: usize = 8;
/// What is added from one point of a client to the next before they are mixed (Steele and others, OOPSLA 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The point of a record.
pub fn point(owner: &[u8], kind: u16, rdata: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(owner);
    hasher.write(&kind.to_be_bytes());
    hasher.write(&rr::fold(kind, rdata));
    hasher.finish()
}

/// Whoever gets an answer: an IPv4 address or an IPv6 network of 64 bits, of subnets the first 24 or 56 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    octets: [u8; 8],
    length: u8,
}

impl Client {
    /// The client behind a source address.
    pub fn from_source(address: IpAddr) -> Client {
        Client::cut(address.to_canonical(), 4, 8)
    }

    /// The client behind a subnet that a resolver tells of, cut to 24 or 56 bits.
    pub fn from_subnet(first: IpAddr) -> Client {
        Client::cut(first, 3, 7)
    }

    /// So many octets of an IPv4 or an IPv6 address.
    fn cut(address: IpAddr, of_v4: u8, of_v6: u8) -> Client {
        let mut octets = [0; 8];
        let length = match address {
            IpAddr::V4(address) => {
                octets[..4].copy_from_slice(&address.octets());
                of_v4
            }
            IpAddr::V6(address) => {
                octets.copy_from_slice(&address.octets()[..8]);
                of_v6
            }
        };
        octets[usize::from(length)..].fill(0);
        Client { octets, length }
    }

    /// Length of the prefix whose clients all have the same points, in bits.
    pub fn prefix_bits(&self) -> u8 {
        self.length * 8
    }

    /// The place of the client among all clients of an owner (lowercase wire form, in parts), as a member (wire form) sees
    /// it, from 0 to 99. A share of a drain concerns those below it.
    pub fn percentile(&self, owner: &[&[u8]], member: &[u8]) -> u8 {
        let mut hasher = SipHasher24::new();
        hasher.write(&self.octets[..self.length.into()]);
        owner.iter().for_each(|part| hasher.write(part));
        hasher.write(member);
        ((u128::from(hasher.finish()) * 100) >> 64) as u8
    }

    /// The points of the client among the records of an owner (lowercase wire form, in parts).
    pub fn probes(&self, owner: &[&[u8]]) -> Probes {
        Probes::new(&self.octets[..self.length.into()], owner)
    }
}

/// Points of a client, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes(pub [u64; PROBES]);

impl Probes {
    /// Points that are the same for every client.
    pub fn of_owner(owner: &[&[u8]]) -> Probes {
        Probes::new(&[], owner)
    }

    /// Points of octets.
    fn new(octets: &[u8], owner: &[&[u8]]) -> Probes {
        let mut hasher = SipHasher24::new();
        hasher.write(octets);
        owner.iter().for_each(|part| hasher.write(part));
        let mut state = hasher.finish();
        let points = [0; PROBES].map(|_: u64| {
            state = state.wrapping_add(STEP);
            mix(state)
        });
        Probes(sorted(points))
    }
}

/// Sorts numbers, always in the same steps (Batcher's network): which of two comes first cannot be predicted.
fn sorted(mut numbers: [u64; PROBES]) -> [u64; PROBES] {
    #[rustfmt::skip]
    const PAIRS: [(usize, usize); 19] = [
        (0, 1), (2, 3), (4, 5), (6, 7),
        (0, 2), (1, 3), (4, 6), (5, 7),
        (1, 2), (5, 6),
        (0, 4), (1, 5), (2, 6), (3, 7),
        (2, 4), (3, 5),
        (1, 2), (3, 4), (5, 6),
    ];
    for (one, other) in PAIRS {
        (numbers[one], numbers[other]) = (numbers[one].min(numbers[other]), numbers[one].max(numbers[other]));
    }
    numbers
}

/// Mixes a number so that neighbours become unlike (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
