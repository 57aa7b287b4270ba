//! Table of clients: which home an address or subnet has, and for how wide a subnet an answer made for it holds.
//!
//! Prefixes are flattened to ranges that do not overlap, in the order of their addresses; the longest prefix that contains
//! an address counts. A first level, indexed by the bits in which the addresses begin to differ, says among which few
//! ranges to search. The scope of an answer to a question with EDNS Client Subnet (RFC 7871) follows from the neighbours
//! of a range.
//!
//! Invariants: the table is immutable; two subnets within one scope have the same home by the same law, so a resolver may
//! give the answer for one to the other (RFC 7871 section 7.3.1); scopes of nested prefixes do not overlap (section
//! 7.2.1).
//!
//! Cost: a look-up O(1) and a search among the ranges of one place of the first level; making one O(prefixes × log
//! prefixes); two ranges of 10 octets for an IPv4 prefix at most, of 22 for an IPv6 prefix, and 8 for the prefix; for the
//! first level four to eight octets a range, 4 MiB at most.

use crate::acl::Prefix;
use crate::zone::prefetch;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::name::Name;

/// Bits by which the first level is indexed, at most: so many that a million ranges have places of their own, since each
/// further step of a search may wait for memory.
const INDEX_BITS: u32 = 20;
/// No prefix: of a range, or above a prefix.
const NONE: u32 = u32::MAX;
/// No home: of a range.
const NO_HOME: Home = Home::MAX;

/// Home of the clients of a prefix, by its number among all homes.
pub type Home = u16;

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

/// What the table says of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub home: Option<Home>,
    /// Length of the prefix around the subnet for which the same holds, or that of the subnet where its parts differ.
    pub scope: u8,
}

/// Error: a prefix is there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the prefix is there twice")]
pub struct Twice {
    /// Their positions in the list.
    pub first: usize,
    pub second: usize,
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
        self.v4.prefixes.len() + self.v6.prefixes.len()
    }

    /// Number of prefixes of each home, by its number.
    pub fn prefixes_by_home(&self) -> Vec<usize> {
        let mut counts = vec![0; self.homes.len()];
        for prefix in self.v4.prefixes.iter().chain(&self.v6.prefixes) {
            counts.get_mut(usize::from(prefix.home)).into_iter().for_each(|count| *count += 1);
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
        self.v4.prefixes.is_empty() && self.v6.prefixes.is_empty()
    }

    /// Octets that the table takes in memory.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }
}

//--- Family ---

/// Addresses of one family as numbers.
trait Address: Copy + Ord + Default {
    const BITS: u32;
    fn wide(self) -> u128;
    fn narrow(wide: u128) -> Self;
    /// How far it is behind another, in units of a power of two.
    fn behind(self, other: Self, shift: u32) -> usize;
    /// The last address of the prefix of a length that begins with it.
    fn last(self, length: u8) -> Self;
    /// The address before it.
    fn before(self) -> Option<Self>;
    /// Length of the shortest prefix around it without another address.
    fn apart(self, other: Self) -> u8;
}

impl Address for u32 {
    const BITS: u32 = u32::BITS;

    fn wide(self) -> u128 {
        self.into()
    }

    fn narrow(wide: u128) -> u32 {
        wide as u32
    }

    #[inline]
    fn behind(self, other: u32, shift: u32) -> usize {
        ((self - other) >> shift) as usize
    }

    #[inline]
    fn last(self, length: u8) -> u32 {
        self | u32::MAX.checked_shr(length.into()).unwrap_or_default()
    }

    #[inline]
    fn before(self) -> Option<u32> {
        self.checked_sub(1)
    }

    #[inline]
    fn apart(self, other: u32) -> u8 {
        (self ^ other).leading_zeros() as u8 + 1
    }
}

impl Address for u128 {
    const BITS: u32 = u128::BITS;

    fn wide(self) -> u128 {
        self
    }

    fn narrow(wide: u128) -> u128 {
        wide
    }

    #[inline]
    fn behind(self, other: u128, shift: u32) -> usize {
        ((self - other) >> shift) as usize
    }

    #[inline]
    fn last(self, length: u8) -> u128 {
        self | u128::MAX.checked_shr(length.into()).unwrap_or_default()
    }

    #[inline]
    fn before(self) -> Option<u128> {
        self.checked_sub(1)
    }

    #[inline]
    fn apart(self, other: u128) -> u8 {
        (self ^ other).leading_zeros() as u8 + 1
    }
}

/// A prefix that is still to be taken in.
struct Written<A> {
    first: A,
    /// Its position in the list.
    index: u32,
    home: Home,
    length: u8,
}

/// A prefix in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// The next shorter prefix that contains it.
    above: u32,
    home: Home,
    length: u8,
}

/// The prefixes of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family<A> {
    /// First address of each range; the first range begins at zero.
    starts: Box<[A]>,
    /// The home of each range, which most look-ups need alone.
    homes: Box<[Home]>,
    /// The longest prefix that contains each range.
    owners: Box<[u32]>,
    prefixes: Box<[Kept]>,
    /// Number of the last range that begins at or before each place of the first level; one more for the end.
    index: Box<[u32]>,
    /// The first and the last address that shares the bits in front of those by which the first level is indexed, as all
    /// that begin a range do.
    indexed: (A, A),
    /// Bits behind those by which the first level is indexed.
    shift: u32,
}

impl<A: Address> Family<A> {
    /// Flattens prefixes.
    fn new(mut written: Vec<Written<A>>) -> Result<Family<A>, Twice> {
        if written.is_empty() {
            return Ok(Family::default());
        }
        written.sort_unstable_by_key(|prefix| (prefix.first, prefix.length, prefix.index));
        let same = |pair: &&[Written<A>]| (pair[0].first, pair[0].length) == (pair[1].first, pair[1].length);
        if let Some(pair) = written.windows(2).find(same) {
            return Err(Twice { first: pair[0].index as usize, second: pair[1].index as usize });
        }
        let mut ranges = Ranges { starts: vec![A::default()], owners: vec![NONE] };
        ranges.reserve(written.len());
        let mut prefixes: Vec<Kept> = Vec::with_capacity(written.len());
        // The prefixes that contain the present place, the longest last, with their last addresses.
        let mut open: Vec<(u32, u128)> = Vec::new();
        let close = |until: Option<u128>, open: &mut Vec<(u32, u128)>, ranges: &mut Ranges<A>| {
            while let Some((_, last)) = open.pop_if(|(_, last)| until.is_none_or(|until| *last < until)) {
                if last < last_of::<A>(0, 0) {
                    ranges.begin(A::narrow(last + 1), open.last().map_or(NONE, |(above, _)| *above));
                }
            }
        };
        for prefix in &written {
            let first = prefix.first.wide();
            close(Some(first), &mut open, &mut ranges);
            let number = prefixes.len() as u32;
            let above = open.last().map_or(NONE, |(above, _)| *above);
            prefixes.push(Kept { above, home: prefix.home, length: prefix.length });
            ranges.begin(prefix.first, number);
            open.push((number, last_of::<A>(first, prefix.length)));
        }
        close(None, &mut open, &mut ranges);
        drop(written);
        let Ranges { starts, owners } = ranges;
        let home = |owner: &u32| prefixes.get(*owner as usize).map_or(NO_HOME, |prefix| prefix.home);
        let homes = owners.iter().map(home).collect();
        let (starts, owners, prefixes) = (starts.into(), owners.into(), prefixes.into());
        let mut family = Family { starts, homes, owners, prefixes, ..Family::default() };
        family.make_index();
        Ok(family)
    }

    /// Makes the first level.
    fn make_index(&mut self) {
        let inner = &self.starts[self.starts.len().min(1)..];
        let (Some(first), Some(last)) = (inner.first(), inner.last()) else { return };
        let differing = first.wide() ^ last.wide();
        let skipped = differing.leading_zeros() - (u128::BITS - A::BITS);
        // As many places as there are ranges.
        let bits = INDEX_BITS.min(A::BITS - skipped).min(inner.len().ilog2() + 1);
        let rest = last_of::<A>(0, skipped as u8);
        let common = first.wide() & !rest;
        self.indexed = (A::narrow(common), A::narrow(common | rest));
        self.shift = A::BITS - skipped - bits;
        let place = |number: u128| common + (number << self.shift);
        let mut reached = 0;
        let at = |number| {
            while self.starts.get(reached + 1).is_some_and(|start| start.wide() <= place(number)) {
                reached += 1;
            }
            reached as u32
        };
        self.index = (0..1u128 << bits).map(at).chain([self.starts.len() as u32 - 1]).collect();
    }

    /// The place of an address in the first level; none in front of and behind all that it has.
    #[inline]
    fn place_of(&self, address: A) -> Option<usize> {
        let (first, last) = self.indexed;
        (first <= address && address <= last && !self.index.is_empty()).then(|| address.behind(first, self.shift))
    }

    /// The first and the last range of a place of the first level.
    #[inline]
    fn ranges_at(&self, place: usize) -> (usize, usize) {
        (self.index[place] as usize, self.index[place + 1] as usize)
    }

    /// Number of the range that an address is in.
    #[inline]
    fn range_of(&self, address: A) -> usize {
        let (low, high) = match self.place_of(address) {
            Some(place) => self.ranges_at(place),
            None if self.index.is_empty() => (0, self.starts.len() - 1),
            None if address < self.indexed.0 => return 0,
            None => return self.starts.len() - 1,
        };
        low + self.starts[low..=high].partition_point(|start| *start <= address) - 1
    }

    /// The home that all addresses have; none if they have different ones.
    fn only_home(&self) -> Option<Option<Home>> {
        (self.starts.len() <= 1).then(|| self.home_at(0))
    }

    /// The first step of a look-up.
    #[inline]
    fn fetch_place(&self, address: A) {
        self.place_of(address).iter().for_each(|place| prefetch(&self.index[*place]));
    }

    /// The second step. What a search looks at first lies in the middle; lines come in pairs.
    #[inline]
    fn fetch_ranges(&self, address: A) {
        let Some((low, high)) = self.place_of(address).map(|place| self.ranges_at(place)) else { return };
        [low, high].iter().for_each(|range| prefetch(&self.starts[*range]));
        prefetch(&self.homes[low.midpoint(high)]);
    }

    /// The home of an address.
    fn home_of(&self, address: A) -> Option<Home> {
        if self.starts.is_empty() {
            return None;
        }
        self.home_at(self.range_of(address))
    }

    /// The home of a range.
    #[inline]
    fn home_at(&self, range: usize) -> Option<Home> {
        self.homes.get(range).copied().filter(|home| *home != NO_HOME)
    }

    /// Notes the homes that both tables give, for each part of the addresses in which neither changes.
    fn compare(&self, other: &Family<A>, note: &mut impl FnMut(Option<Home>, Option<Home>)) {
        let (mut ours, mut theirs) = (0, 0);
        loop {
            note(self.home_at(ours), other.home_at(theirs));
            let next = (self.starts.get(ours + 1), other.starts.get(theirs + 1));
            let Some(first) = next.0.into_iter().chain(next.1).min() else { return };
            ours += usize::from(next.0 == Some(first));
            theirs += usize::from(next.1 == Some(first));
        }
    }

    /// The longest prefix that contains all of a subnet.
    fn around(&self, address: A, length: u8) -> Option<Kept> {
        if self.starts.is_empty() {
            return None;
        }
        let mut owner = self.prefixes.get(self.owners[self.range_of(address)] as usize);
        while let Some(longer) = owner.filter(|prefix| prefix.length > length) {
            owner = self.prefixes.get(longer.above as usize);
        }
        owner.copied()
    }

    /// The home and the scope of a subnet.
    fn find(&self, address: A, length: u8) -> Found {
        if self.starts.is_empty() {
            return Found { home: None, scope: 0 };
        }
        let range = self.range_of(address);
        let next = self.starts.get(range + 1).copied();
        if next.is_some_and(|next| next <= address.last(length)) {
            let mut owner = self.prefixes.get(self.owners[range] as usize);
            // Longer prefixes inside do not count, but no wider answer holds for the subnet.
            while let Some(longer) = owner.filter(|prefix| prefix.length > length) {
                owner = self.prefixes.get(longer.above as usize);
            }
            return Found { home: owner.map(|prefix| prefix.home), scope: length };
        }
        let apart = |other: A| address.apart(other);
        let before = self.starts[range].before().map_or(0, apart);
        let scope = before.max(next.map_or(0, apart)).min(length);
        Found { home: self.home_at(range), scope }
    }

    /// Octets in memory.
    fn octets(&self) -> usize {
        size_of_val(&*self.starts)
            + size_of_val(&*self.homes)
            + size_of_val(&*self.owners)
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.index)
    }
}

/// The last address of a prefix.
fn last_of<A: Address>(first: u128, length: u8) -> u128 {
    let host = A::BITS - u32::from(length);
    first | (u128::MAX >> (u128::BITS - A::BITS)).checked_shr(u32::from(length)).filter(|_| host > 0).unwrap_or(0)
}

/// Ranges that are being made, in the order of their addresses.
struct Ranges<A> {
    starts: Vec<A>,
    owners: Vec<u32>,
}

impl<A: Address> Ranges<A> {
    /// Makes room for the ranges of so many prefixes.
    fn reserve(&mut self, prefixes: usize) {
        self.starts.reserve_exact(2 * prefixes);
        self.owners.reserve_exact(2 * prefixes);
    }

    /// Begins a range; one that begins at the same address was empty.
    fn begin(&mut self, start: A, owner: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.owners.pop();
        }
        if self.owners.last() != Some(&owner) {
            self.starts.push(start);
            self.owners.push(owner);
        }
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
