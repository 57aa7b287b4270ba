//! Table of clients: which home an address or subnet has, and for how wide a subnet an answer made for it holds.
//!
//! The longest prefix that contains an address counts; `family` has the prefixes of one address family. With IPv4
//! addresses that IPv6 maps, a client is looked up as what it is.
//!
//! Invariants: the table is immutable; two subnets within one scope have the same home by the same law, so a resolver may
//! give the answer for one to the other (RFC 7871 section 7.3.1); scopes of nested prefixes do not overlap (section
//! 7.2.1).
//!
//! Cost: that of the families.

mod family;

pub use family::{Found, Home, Twice};

use crate::acl::Prefix;
use crate::zone::Piece;
use family::{Family, Written};
use std::collections::HashMap;
use std::net::IpAddr;
use wire::name::Name;

/// Which home clients have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// The zones that are homes, by number.
    homes: Box<[Name]>,
    v4: Family<u32>,
    v6: Family<u128>,
}

/// Subnet of a client (RFC 7871), or a whole address. The bits behind its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub address: IpAddr,
    pub length: u8,
}

impl Clients {
    /// Makes the table of the zones that are homes, and of prefixes with the homes of their clients.
    pub fn new(homes: Vec<Name>, prefixes: &[(Prefix, Home)]) -> Result<Clients, Twice> {
        let v4_count = prefixes.iter().filter(|(prefix, _)| prefix.address().is_ipv4()).count();
        let mut v4: Vec<Written<u32>> = Vec::with_capacity(v4_count);
        let mut v6: Vec<Written<u128>> = Vec::with_capacity(prefixes.len() - v4_count);
        for (index, (prefix, home)) in (0..).zip(prefixes) {
            let (length, home) = (prefix.length(), *home);
            match prefix.address() {
                IpAddr::V4(first) => v4.push(Written { first: first.into(), index, home, length }),
                IpAddr::V6(first) => v6.push(Written { first: first.into(), index, home, length }),
            }
        }
        Ok(Clients { homes: homes.into(), v4: Family::new(v4)?, v6: Family::new(v6)? })
    }

    /// The zones that are homes, by number.
    pub fn homes(&self) -> &[Name] {
        &self.homes
    }

    /// Number of prefixes.
    pub fn prefixes(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Number of prefixes of each home, by its number.
    pub fn prefixes_by_home(&self) -> Vec<usize> {
        let mut counts = vec![0; self.homes.len()];
        for home in self.v4.homes().chain(self.v6.homes()) {
            counts.get_mut(usize::from(home)).into_iter().for_each(|count| *count += 1);
        }
        counts
    }

    /// Number of homes that some address has in one of two tables only.
    pub fn count_changed(&self, other: &Clients) -> usize {
        // One number for a home in both tables; homes may stand in another order there.
        let mut numbers: HashMap<&Name, usize> = HashMap::new();
        let mut number = |home| {
            let next = numbers.len();
            *numbers.entry(home).or_insert(next)
        };
        let ours: Vec<usize> = self.homes.iter().map(&mut number).collect();
        let theirs: Vec<usize> = other.homes.iter().map(&mut number).collect();
        let mut changed = vec![false; numbers.len()];
        let mut note = |one: Option<Home>, other: Option<Home>| {
            let pair = [
                one.and_then(|home| ours.get(usize::from(home))),
                other.and_then(|home| theirs.get(usize::from(home))),
            ];
            if pair[0] != pair[1] {
                pair.into_iter().flatten().for_each(|number| changed[*number] = true);
            }
        };
        self.v4.compare(&other.v4, &mut note);
        self.v6.compare(&other.v6, &mut note);
        changed.into_iter().filter(|changed| *changed).count()
    }

    /// Asks the processor for the memory that a look-up of an address needs first. The second step reads that and asks for
    /// the rest, so many look-ups together wait for memory twice instead of twice each.
    #[inline]
    pub fn fetch_place(&self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.fetch_place(u32::from(address)),
            IpAddr::V6(address) => self.v6.fetch_place(u128::from(address)),
        }
    }

    /// The second step.
    #[inline]
    pub fn fetch_ranges(&self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.fetch_ranges(u32::from(address)),
            IpAddr::V6(address) => self.v6.fetch_ranges(u128::from(address)),
        }
    }

    /// The home of the client with an address.
    pub fn home_of(&self, address: IpAddr) -> Option<Home> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.home_of(u32::from(address)),
            IpAddr::V6(address) => self.v6.home_of(u128::from(address)),
        }
    }

    /// The home of the clients of a subnet, and the scope of an answer that depends on nothing else.
    ///
    /// Resolvers give an answer of scope 0 to everyone, whatever the family (RFC 7871 section 7.3.1), so the scope is 0
    /// only where all clients of both families have one home.
    pub fn find(&self, subnet: Subnet) -> Found {
        let (found, others) = match subnet.address {
            IpAddr::V4(address) => (self.v4.find(u32::from(address), subnet.length), self.v6.only_home()),
            IpAddr::V6(address) => (self.v6.find(u128::from(address), subnet.length), self.v4.only_home()),
        };
        let least = if others == Some(found.home) { 0 } else { subnet.length.min(1) };
        Found { scope: found.scope.max(least), ..found }
    }

    /// The longest prefix that contains all of a subnet, which gives its clients their home.
    pub fn prefix_around(&self, subnet: Subnet) -> Option<Prefix> {
        let length = match subnet.address {
            IpAddr::V4(address) => self.v4.around(u32::from(address), subnet.length)?.length,
            IpAddr::V6(address) => self.v6.around(u128::from(address), subnet.length)?.length,
        };
        Some(Prefix::around(subnet.address, length))
    }

    /// Returns true if there are no prefixes, so that no client has a home.
    pub fn is_empty(&self) -> bool {
        self.prefixes() == 0
    }

    /// Memory that look-ups read all over.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.v4.pieces().chain(self.v6.pieces())
    }

    /// Octets that the table takes in memory.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clients(prefixes: &[(&str, Home)]) -> Clients {
        let read = |(prefix, home): &(&str, Home)| (prefix.parse().unwrap(), *home);
        Clients::new(Vec::new(), &prefixes.iter().map(read).collect::<Vec<_>>()).unwrap()
    }

    fn subnet(text: &str) -> Subnet {
        let (address, length) = text.split_once('/').unwrap();
        Subnet { address: address.parse().unwrap(), length: length.parse().unwrap() }
    }

    #[test]
    fn scopes_beside_nested_prefixes() {
        let table = clients(&[("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("2001:db8::/32", 3)]);
        let found = |text| {
            let Found { home, scope } = table.find(subnet(text));
            (home, scope)
        };
        assert_eq!(found("10.1.2.0/24"), (Some(2), 16));
        assert_eq!(found("10.0.0.0/16"), (Some(1), 16), "the other half of a /15 is another's");
        assert_eq!(found("10.2.0.0/24"), (Some(1), 15));
        assert_eq!(found("10.128.0.0/24"), (Some(1), 9));
        assert_eq!(found("10.0.0.0/8"), (Some(1), 8), "longer prefixes inside are ignored");
        assert_eq!(found("10.0.0.0/7"), (None, 7), "a subnet that is wider than the prefix has no home");
        assert_eq!(found("11.0.0.0/24"), (None, 8));
        assert_eq!(found("192.0.2.0/24"), (None, 1));
        assert_eq!(found("0.0.0.0/0"), (None, 0));
        assert_eq!(found("2001:db8:1::/48"), (Some(3), 32));
        assert_eq!(found("2001:db9::/48"), (None, 32));
        assert_eq!(clients(&[]).find(subnet("192.0.2.0/24")), Found { home: None, scope: 0 });
        let found = |prefixes: &[(&str, Home)], text| {
            let Found { home, scope } = clients(prefixes).find(subnet(text));
            (home, scope)
        };
        // An answer of scope 0 is one for both families.
        assert_eq!(found(&[("0.0.0.0/0", 1)], "192.0.2.0/24"), (Some(1), 1));
        assert_eq!(found(&[("0.0.0.0/0", 1)], "2001:db8::/32"), (None, 1));
        assert_eq!(found(&[("10.0.0.0/8", 1)], "2001:db8::/32"), (None, 1));
        assert_eq!(found(&[("0.0.0.0/0", 1), ("::/0", 1)], "192.0.2.0/24"), (Some(1), 0));
        assert_eq!(found(&[("0.0.0.0/0", 1), ("::/0", 2)], "2001:db8::/32"), (Some(2), 1));
        assert_eq!(table.home_of("::ffff:10.1.0.1".parse().unwrap()), Some(2));
    }

    #[test]
    fn a_prefix_stands_once() {
        let twice: Vec<(Prefix, Home)> =
            ["10.0.0.0/8", "10.0.0.0/9", "10.0.0.0/8"].map(|text| (text.parse().unwrap(), 1)).to_vec();
        assert_eq!(Clients::new(Vec::new(), &twice).unwrap_err(), Twice { first: 0, second: 2 });
    }

    #[test]
    fn homes_are_counted_whose_clients_changed() {
        let table = |homes: &[&str], prefixes: &[(&str, Home)]| {
            let homes = homes.iter().map(|home| Name::parse(home).unwrap()).collect();
            let read = |(prefix, home): &(&str, Home)| (prefix.parse().unwrap(), *home);
            Clients::new(homes, &prefixes.iter().map(read).collect::<Vec<_>>()).unwrap()
        };
        let old = table(&["a.test", "b.test"], &[("10.0.0.0/8", 0), ("10.1.0.0/16", 1), ("2001:db8::/32", 1)]);
        let changed = |homes: &[&str], prefixes: &[(&str, Home)]| {
            let new = table(homes, prefixes);
            assert_eq!(old.count_changed(&new), new.count_changed(&old));
            old.count_changed(&new)
        };
        let (both, same) = (["a.test", "b.test"], [("10.0.0.0/8", 0), ("10.1.0.0/16", 1), ("2001:db8::/32", 1)]);
        assert_eq!(changed(&both, &same), 0);
        assert_eq!(
            changed(&["b.test", "a.test"], &same.map(|(prefix, home)| (prefix, 1 - home))),
            0,
            "in another order"
        );
        assert_eq!(changed(&["a.test", "c.test"], &same), 2, "one went and one came");
        assert_eq!(changed(&both, &same[..2]), 1);
        assert_eq!(changed(&both, &[("10.0.0.0/8", 0), ("10.0.0.0/15", 1), ("2001:db8::/32", 1)]), 2);
        assert_eq!(changed(&[], &[]), 2);
        assert_eq!(old.prefixes_by_home(), [1, 2]);
        assert_eq!(table(&[], &[]).count_changed(&table(&[], &[])), 0);
    }

    /// Prefixes that collide often, at the front or at the end of the addresses.
    fn arbitrary_prefixes(is_v4: bool) -> impl Strategy<Value = Vec<(Prefix, Home)>> {
        let bits = if is_v4 { 32u8 } else { 128 };
        let one = (0..16u8, 0..=6u8, any::<bool>(), 0..4u16).prop_map(move |(high, length, is_deep, home)| {
            let (value, length) =
                if is_deep { (u128::from(high), bits - 6 + length) } else { (u128::from(high) << (bits - 6), length) };
            let value = value & !(u128::MAX.checked_shr(128 - u32::from(bits - length)).unwrap_or(0));
            let address: IpAddr = if is_v4 {
                std::net::Ipv4Addr::from(value as u32).into()
            } else {
                std::net::Ipv6Addr::from(value).into()
            };
            (format!("{address}/{length}").parse().unwrap(), home)
        });
        prop::collection::vec(one, 0..12).prop_map(|mut all: Vec<(Prefix, Home)>| {
            all.sort_by_key(|(prefix, _)| prefix.to_string());
            all.dedup_by_key(|(prefix, _)| *prefix);
            all
        })
    }

    /// The longest prefix, by going through all of them.
    fn entry(prefixes: &[(Prefix, Home)], address: IpAddr, most: u8) -> Option<(Prefix, Home)> {
        let fits = prefixes.iter().filter(|(prefix, _)| prefix.length() <= most && prefix.contains(address));
        fits.max_by_key(|(prefix, _)| prefix.length()).copied()
    }

    proptest! {
        /// Homes and scopes are those of the rules, address by address.
        #[test]
        fn look_ups_are_what_the_rules_say(prefixes in arbitrary_prefixes(true), high in 0..64u32, low in 0..64u32, length in 0..=32u8) {
            let table = Clients::new(Vec::new(), &prefixes).unwrap();
            let address = |value: u32| IpAddr::from(std::net::Ipv4Addr::from(value));
            let value = high << 26 | low;
            prop_assert_eq!(table.home_of(address(value)), entry(&prefixes, address(value), 32).map(|(_, home)| home));
            let first = value & !u32::MAX.checked_shr(length.into()).unwrap_or(0);
            let found = table.find(Subnet { address: address(first), length });
            let longest = entry(&prefixes, address(first), length);
            prop_assert_eq!(found.home, longest.map(|(_, home)| home));
            let around = table.prefix_around(Subnet { address: address(first), length });
            prop_assert_eq!(around, longest.map(|(prefix, _)| prefix));
            // Every address at which anything changes.
            let inside = |first: u32, length: u8| {
                let last = first | u32::MAX.checked_shr(length.into()).unwrap_or(0);
                let ends = (0..64u32).flat_map(|high| (0..64).map(move |low| high << 26 | low));
                let ends = ends.chain((0..64).map(|high| high << 26 | 0x03ff_ffff)).chain([first, last]);
                ends.filter(move |end| (first..=last).contains(end))
            };
            let entries = |first, length| inside(first, length).map(|end| entry(&prefixes, address(end), 32)).collect::<std::collections::HashSet<_>>();
            if entries(first, length).len() > 1 {
                prop_assert_eq!(found.scope, length);
            } else {
                let around = |scope: u8| first & !u32::MAX.checked_shr(scope.into()).unwrap_or(0);
                prop_assert_eq!(entries(around(found.scope), found.scope).len(), 1);
                // IPv6 clients have no home here.
                let is_everyone = found.scope == 1 && found.home.is_some() && entries(0, 0).len() == 1;
                let is_shorter = found.scope > 0 && entries(around(found.scope - 1), found.scope - 1).len() == 1;
                prop_assert!(!is_shorter || is_everyone);
            }
        }

        /// The same in IPv6, as far as addresses go.
        #[test]
        fn both_families_are_alike(prefixes in arbitrary_prefixes(false), high in 0..64u128, low in 0..64u128) {
            let table = Clients::new(Vec::new(), &prefixes).unwrap();
            let address = IpAddr::from(std::net::Ipv6Addr::from(high << 122 | low));
            // Those that stand for IPv4 are in the other table.
            prop_assume!(address.to_canonical() == address);
            prop_assert_eq!(table.home_of(address), entry(&prefixes, address, 128).map(|(_, home)| home));
        }
    }
}
