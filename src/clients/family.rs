//! The prefixes of one address family, flattened.
//!
//! They become ranges that do not overlap, in the order of their addresses. A first level, indexed by the bits in which
//! the addresses begin to differ, has the home of each place that lies in one range, and says where the few ranges of
//! another begin. The scope of an answer to a question with EDNS Client Subnet (RFC 7871) follows from the neighbours of
//! a range, so it is the same all over such a place, too.
//!
//! Cost: a look-up O(1), one access to memory for a place in one range, else a search among its ranges, and O(log ranges)
//! for a subnet that is wider than such a place; making one O(prefixes × log prefixes); two ranges of 10 octets for an
//! IPv4 prefix at most, of 22 for an IPv6 prefix, and 8 for the prefix; for the first level four to eight octets a range,
//! 4 MiB at most.

use crate::zone::{Piece, piece_of, prefetch};

/// Bits by which the first level is indexed, at most: so many that a million ranges have places of their own, since each
/// further step of a search may wait for memory.
const INDEX_BITS: u32 = 20;
/// No prefix: of a range, or above a prefix.
const NONE: u32 = u32::MAX;
/// No home: of a range.
const NO_HOME: Home = Home::MAX;

/// Home of the clients of a prefix, by its number among all homes.
pub type Home = u16;

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

/// Addresses of one family as numbers.
pub trait Address: Copy + Ord + Default {
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
pub struct Written<A> {
    pub first: A,
    /// Its position in the list.
    pub index: u32,
    pub home: Home,
    pub length: u8,
}

/// A prefix in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The next shorter prefix that contains it.
    above: u32,
    home: Home,
    pub length: u8,
}

/// A place of the first level, packed into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u32);

/// What a slot says.
enum Place {
    /// One range has all of it.
    Whole(Found),
    /// The last range that begins at or before it; others begin inside.
    From(usize),
}

impl Slot {
    /// Marks a place in one range.
    const WHOLE: u32 = 1 << 31;

    fn whole(home: Option<Home>, scope: u8) -> Slot {
        Slot(Slot::WHOLE | u32::from(home.unwrap_or(NO_HOME)) << 8 | u32::from(scope))
    }

    #[inline]
    fn read(self) -> Place {
        if self.0 & Slot::WHOLE == 0 {
            return Place::From(self.0 as usize);
        }
        let home = Some((self.0 >> 8) as Home).filter(|home| *home != NO_HOME);
        Place::Whole(Found { home, scope: self.0 as u8 })
    }
}

/// The prefixes of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family<A> {
    /// First address of each range; the first range begins at zero.
    starts: Box<[A]>,
    /// The home of each range, which most look-ups need alone.
    homes: Box<[Home]>,
    /// The longest prefix that contains each range.
    owners: Box<[u32]>,
    prefixes: Box<[Kept]>,
    /// The first level.
    index: Box<[Slot]>,
    /// The first and the last address that shares the bits in front of those by which the first level is indexed, as all
    /// that begin a range do.
    indexed: (A, A),
    /// Bits behind those by which the first level is indexed.
    shift: u32,
}

impl<A: Address> Family<A> {
    /// Flattens prefixes.
    pub fn new(mut written: Vec<Written<A>>) -> Result<Family<A>, Twice> {
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
        let mut range = 0;
        let slot = |number| {
            let first = place(number);
            let last = first | ((1 << self.shift) - 1);
            let begins_by = |range: usize, end: u128| self.starts.get(range).is_some_and(|start| start.wide() <= end);
            while begins_by(range + 1, first) {
                range += 1;
            }
            if begins_by(range + 1, last) {
                return Slot(range as u32);
            }
            Slot::whole(self.home_at(range), self.scope_in(range, A::narrow(first)))
        };
        self.index = (0..1u128 << bits).map(slot).collect();
    }

    /// What the first level says of an address; none in front of and behind all that it has.
    #[inline]
    fn slot_of(&self, address: A) -> Option<&Slot> {
        let (first, last) = self.indexed;
        (first <= address && address <= last && !self.index.is_empty())
            .then(|| &self.index[address.behind(first, self.shift)])
    }

    /// Number of the range that an address is in.
    fn range_of(&self, address: A) -> usize {
        match self.slot_of(address).map(|slot| slot.read()) {
            Some(Place::From(range)) => self.range_from(range, address),
            Some(Place::Whole(_)) => self.starts.partition_point(|start| *start <= address) - 1,
            // No range begins in front of the first level but the first, and none behind it.
            None if address < self.indexed.0 => 0,
            None => self.starts.len() - 1,
        }
    }

    /// Number of the range that an address is in, that one or one of those behind it. O(log ranges between).
    #[inline]
    fn range_from(&self, first: usize, address: A) -> usize {
        let (mut low, mut step) = (first, 1);
        while self.starts.get(low + step).is_some_and(|start| *start <= address) {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.starts.len());
        low + self.starts[low..high].partition_point(|start| *start <= address) - 1
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// The home of each prefix.
    pub fn homes(&self) -> impl Iterator<Item = Home> {
        self.prefixes.iter().map(|prefix| prefix.home)
    }

    /// The home that all addresses have; none if they have different ones.
    pub fn only_home(&self) -> Option<Option<Home>> {
        (self.starts.len() <= 1).then(|| self.home_at(0))
    }

    /// The first step of a look-up.
    #[inline]
    pub fn fetch_place(&self, address: A) {
        self.slot_of(address).into_iter().for_each(|slot| prefetch(slot));
    }

    /// The second step.
    #[inline]
    pub fn fetch_ranges(&self, address: A) {
        if let Some(Place::From(range)) = self.slot_of(address).map(|slot| slot.read()) {
            prefetch(&self.starts[range]);
            prefetch(&self.homes[range]);
        }
    }

    /// The home of an address.
    pub fn home_of(&self, address: A) -> Option<Home> {
        let range = match self.slot_of(address).map(|slot| slot.read()) {
            Some(Place::Whole(found)) => return found.home,
            Some(Place::From(range)) => self.range_from(range, address),
            None if self.starts.is_empty() => return None,
            None => self.range_of(address),
        };
        self.home_at(range)
    }

    /// The home of a range.
    #[inline]
    fn home_at(&self, range: usize) -> Option<Home> {
        self.homes.get(range).copied().filter(|home| *home != NO_HOME)
    }

    /// Notes the homes that both tables give, for each part of the addresses in which neither changes.
    pub fn compare(&self, other: &Family<A>, note: &mut impl FnMut(Option<Home>, Option<Home>)) {
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
    pub fn around(&self, address: A, length: u8) -> Option<Kept> {
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
    pub fn find(&self, address: A, length: u8) -> Found {
        if self.starts.is_empty() {
            return Found { home: None, scope: 0 };
        }
        // A subnet within a place is in one range where the place is.
        if u32::from(length) + self.shift >= A::BITS
            && let Some(Place::Whole(found)) = self.slot_of(address).map(|slot| slot.read())
        {
            return Found { scope: found.scope.min(length), ..found };
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
        Found { home: self.home_at(range), scope: self.scope_in(range, address).min(length) }
    }

    /// Length of the shortest prefix around an address that has no other range.
    fn scope_in(&self, range: usize, address: A) -> u8 {
        let apart = |other: A| address.apart(other);
        let before = self.starts[range].before().map_or(0, apart);
        before.max(self.starts.get(range + 1).copied().map_or(0, apart))
    }

    /// Memory that look-ups read all over.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        [piece_of(&self.index), piece_of(&self.starts), piece_of(&self.homes)].into_iter()
    }

    /// Octets in memory.
    pub fn octets(&self) -> usize {
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
