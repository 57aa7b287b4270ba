//! Scopes against what answers depend on (RFC 7871 section 7.3.1): whoever is within the scope of an answer would have
//! got the same.

use super::region::{Ask, World, option};
use super::*;
use crate::acl::Prefix;
use crate::clients::Home;
use crate::select::{Law, Pick, Prefer, Services, Steering, Treatment};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// Homes beside the members: one that is near to some, and one that is nothing to the region.
const HOMES: [&str; 5] = ["w1.x", "w2.x", "w3.x", "e.x", "f.x"];

/// An address, written with few digits at the places at which prefixes end, so that these collide often.
#[derive(Clone, Copy, Debug)]
struct Spot {
    is_v4: bool,
    high: u8,
    low: u8,
    rest: u8,
}

impl Spot {
    /// The address in the front of 128 bits.
    fn bits(self) -> u128 {
        // Of IPv4 the first 6 bits, the 6 that end 2 behind a /24, and the last 6; of IPv6 likewise around a /56.
        let (low, rest) = if self.is_v4 { (26, 32) } else { (58, 64) };
        let digit = |value: u8, end: u32| u128::from(value & 63) << (128 - end);
        digit(self.high, 6) | digit(self.low, low) | digit(self.rest, rest)
    }

    /// Bits of an address.
    fn width(self) -> u8 {
        if self.is_v4 { 32 } else { 128 }
    }

    /// Length of a prefix.
    fn length(self, place: u8) -> u8 {
        let length = if place < 8 { place } else { place + if self.is_v4 { 10 } else { 42 } };
        length.min(self.width())
    }

    fn address(self, bits: u128) -> IpAddr {
        if self.is_v4 { Ipv4Addr::from((bits >> 96) as u32).into() } else { std::net::Ipv6Addr::from(bits).into() }
    }

    /// The prefix of a length around the address.
    fn prefix(self, length: u8) -> String {
        format!("{}/{length}", self.address(self.bits() & mask(length)))
    }
}

/// The bits of a prefix.
fn mask(length: u8) -> u128 {
    !u128::MAX.checked_shr(length.into()).unwrap_or(0)
}

fn arbitrary_spot() -> impl Strategy<Value = Spot> {
    let digits = (any::<bool>(), 0..64u8, 0..64u8, 0..64u8);
    digits.prop_map(|(is_v4, high, low, rest)| Spot { is_v4, high, low, rest })
}

fn arbitrary_clients() -> impl Strategy<Value = Vec<(Prefix, Home)>> {
    // Few, so that prefixes are nested.
    let digit = || prop::sample::select(vec![0u8, 1, 2, 3, 32]);
    let one = (any::<bool>(), digit(), digit(), 0..20u8, 0..HOMES.len() as Home);
    let one = one.prop_map(|(is_v4, high, low, place, home)| {
        let spot = Spot { is_v4, high, low, rest: 0 };
        (spot.prefix(spot.length(place)).parse().unwrap(), home)
    });
    prop::collection::vec(one, 0..10).prop_map(|mut all: Vec<(Prefix, Home)>| {
        all.sort_by_key(|(prefix, _)| prefix.to_string());
        all.dedup_by_key(|(prefix, _)| *prefix);
        all
    })
}

fn arbitrary_world() -> impl Strategy<Value = World> {
    let record = prop::collection::btree_set(0..3usize, 1..3);
    let records = prop::collection::vec((record, prop::bool::weighted(0.2)), 1..24);
    let steering = (prop::sample::select(vec![Prefer::Off, Prefer::Order, Prefer::Nearest]), 1..6u16, any::<bool>());
    let law = (prop::option::of(1..8u32), prop::sample::select(vec![Pick::Rotate, Pick::Client]));
    let share = prop::sample::select(vec![0u8, 0, 0, 50]);
    let weights = prop::option::of([0..3u32, 0..3u32, 0..3u32]);
    let moment = ([share.clone(), share.clone(), share], [any::<bool>(), any::<bool>(), any::<bool>()], weights);
    let parts = (records, arbitrary_clients(), steering, law, moment);
    parts.prop_map(|(records, prefixes, (prefer, at_least, is_by_priority), (max, pick), (shares, stale, weights))| {
        let mut world = World::new([""; 3]);
        let add = |(number, (givers, is_private)): (usize, (BTreeSet<usize>, bool))| {
            let network = if is_private { 88 } else { 0 };
            for giver in givers {
                let line = format!("web 30 A 10.{network}.0.{number}\nweb 30 SRV {number} t.x.\n");
                world.lines[giver].push_str(&line);
            }
        };
        records.into_iter().enumerate().for_each(add);
        world.homes = HOMES.map(|home| Name::parse(home).unwrap()).to_vec();
        let services = if is_by_priority { Services::Priority } else { Services::Select };
        let law = Law { max: max.and_then(NonZeroU32::new), pick };
        world.region.usual = Treatment { law, steering: Steering { prefer, at_least, services } };
        world.region.near = vec![(world.homes[3].clone(), vec![world.homes[1].clone()])];
        world.region.home_only = vec!["10.88.0.0/16".parse().unwrap()];
        let members = world.homes[..3].iter().cloned();
        world.region.weights = weights.map_or_else(Vec::new, |weights| members.zip(weights).collect());
        World { prefixes, shares, stale, ..world }
    })
}

/// The home of an address, by going through all prefixes.
fn home_of(prefixes: &[(Prefix, Home)], address: IpAddr) -> Option<Home> {
    let around = prefixes.iter().filter(|(prefix, _)| prefix.contains(address));
    around.max_by_key(|(prefix, _)| prefix.length()).map(|(_, home)| *home)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Answers for two subnets are the same where one is within the scope of the other, and have the same scope.
    #[test]
    fn whoever_is_in_the_scope_gets_the_same(
        world in arbitrary_world(),
        (one, place) in (arbitrary_spot(), 1..24u8),
        (other, longer) in (arbitrary_spot(), 0..24u8),
        qtype in prop::sample::select(vec![rtype::A, rtype::SRV]),
        turn: u32,
    ) {
        let published = world.published();
        let source = one.length(place);
        let ask = |subnet: &str| Ask { turn, ..Ask::of("web.w.x", qtype, subnet) }.send(&published);
        let told = ask(&one.prefix(source));
        let scope = told.scope().unwrap();
        prop_assert!(!told.records.is_empty() && scope <= source);
        if scope == source {
            // A subnet that is wider than what decides: its parts may get something else.
            return Ok(());
        }
        // What holds for nobody in particular holds for the other family, too.
        let (spot, bits) = match scope {
            0 => (other, other.bits()),
            _ => (one, one.bits() & mask(scope) | other.bits() & !mask(scope)),
        };
        let length = spot.length(longer).max(scope).max(1);
        let neighbour = ask(&format!("{}/{length}", spot.address(bits & mask(length))));
        prop_assert_eq!(&neighbour.records, &told.records, "{} of {}", length, scope);
        prop_assert_eq!(neighbour.scope(), Some(scope));
        // A resolver of such a client's own gets the same, where more than its home does not decide.
        let peer = spot.address(bits);
        let is_by_home = world.region.usual.law.pick == Pick::Rotate && world.shares == [0; 3];
        if is_by_home && peer.to_canonical() == peer {
            let direct = Ask { turn, peer, ..Ask::new("web.w.x", qtype) }.send(&published);
            prop_assert_eq!(direct.records, told.records);
        }
        // Whoever asks, what a resolver writes back is what it sent.
        prop_assert_eq!(&told.option.unwrap()[4..], &option(&one.prefix(source))[4..]);
    }

    /// A subnet has the home of the longest prefix around all of it.
    #[test]
    fn a_subnet_gets_what_its_home_gets(
        world in arbitrary_world(),
        (spot, place) in (arbitrary_spot(), 1..24u8),
        turn: u32,
    ) {
        let published = world.published();
        let source = spot.length(place);
        let fits = |(prefix, _): &&(Prefix, Home)| prefix.length() <= source;
        let wide: Vec<(Prefix, Home)> = world.prefixes.iter().filter(fits).copied().collect();
        let first = spot.address(spot.bits() & mask(source));
        prop_assume!(first.to_canonical() == first);
        let home = home_of(&wide, first);
        // Another client of the same home, whom no other prefix is about.
        let address: IpAddr = "203.0.113.1".parse().unwrap();
        let mut same = world.clone();
        same.prefixes = home.map(|home| (Prefix::host(address), home)).into_iter().collect();
        let told = Ask { turn, ..Ask::of("web.w.x", rtype::A, &spot.prefix(source)) }.send(&published);
        let direct = Ask { turn, peer: address, ..Ask::new("web.w.x", rtype::A) }.send(&same.published());
        if world.region.usual.law.pick == Pick::Rotate && world.shares == [0; 3] {
            prop_assert_eq!(told.records, direct.records);
        } else if world.shares == [0; 3] {
            prop_assert_eq!(told.records.len(), direct.records.len());
        }
    }
}
