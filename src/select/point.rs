//! Points on the ring: of records, fixed by owner, type and canonical RDATA, and of clients.
//!
//! The hash is SipHash-2-4 with the key zero, over octets as they stand in messages, so that replicas and versions of
//! the program agree: of a record over owner (lowercase), type and canonical RDATA (RFC 4034 section 6.2). The points of a
//! record are made of its hash, the point of a client of its octets and the hash of the owner, by SplitMix64.
//!
//! Invariants: nothing here is ever changed: every change sends every client elsewhere.
//!
//! Cost: O(octets) for a record and an owner; a few multiplications for a client.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::rr;

/// What is added from one number to the next before they are mixed (Steele and others, OOPSLA 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a record, of which its points are made.
pub fn point(owner: &[u8], kind: u16, rdata: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(owner);
    hasher.write(&kind.to_be_bytes());
    hasher.write(&rr::fold(kind, rdata));
    hasher.finish()
}

/// The hash of an owner (lowercase wire form), which sends its clients to other points than those of others.
pub fn seed(owner: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(owner);
    hasher.finish()
}

/// How many points a record has: two to the power of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread(u32);

impl Spread {
    pub const FOUR: Spread = Spread(2);
    pub const EIGHT: Spread = Spread(3);

    /// Number of points.
    pub fn points(self) -> u32 {
        1 << self.0
    }

    /// The point of a record in one of as many equal parts of the ring.
    pub fn at(self, point: u64, part: u32) -> u32 {
        let within = mix(point.wrapping_add(STEP.wrapping_mul(u64::from(part)))) >> (32 + self.0);
        part << (32 - self.0) | within as u32
    }
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

    /// The point of the client among the records of an owner with this seed.
    #[inline]
    pub fn probe(&self, seed: u64) -> Probe {
        let octets = u64::from_be_bytes(self.octets);
        Probe(mix(seed ^ mix(octets.wrapping_add(STEP.wrapping_mul(self.length.into())))))
    }
}

/// The point of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe(u64);

impl Probe {
    /// A point that is the same for every client of an owner with this seed.
    pub fn of_all(seed: u64) -> Probe {
        Probe(mix(seed))
    }

    /// Where it lies on the ring.
    #[inline]
    pub fn at(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// One of so many numbers, whatever the place on the ring.
    pub fn choice(self, of: u32) -> u32 {
        (((self.0 & u64::from(u32::MAX)) * u64::from(of)) >> 32) as u32
    }
}

/// Mixes a number so that neighbours become unlike (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
