//! RRsets: all records of one owner name and type.
//!
//! A [`Set`] is a view of one, wherever its bytes are; an [`RRset`] owns its bytes. Beside type, TTL and count stands
//! the body: for each record the length of its RDATA and the RDATA. Numbers are as short as they can be, seven bits an
//! octet, so most cost one octet: there are millions of them.
//!
//! Invariants: records sorted by canonical RDATA without duplicates, one TTL (RFC 2181 section 5), names in RDATA
//! uncompressed and in the case in which they were received. So equal sets have equal bytes.
//!
//! Cost: O(bytes) for building, O(1) for a view, O(records) for going through one.

use super::{
    CLASS_IN, FIXED_BYTES, OWNER_AT_QUESTION, RdataText, TypeName, check_plain, clamp_ttl, compare, is_data_type, rtype,
};
use crate::name::{MAX_NAME_BYTES, NameBuf};
use std::cmp::Ordering;
use std::fmt;

/// Octets of RDATA that a transfer has room for beside header, fixed part, signature and the longest owner name.
const MAX_RDATA_ANYWHERE: usize = MAX_RECORD_BYTES - FIXED_BYTES_WITHOUT_OWNER - MAX_NAME_BYTES;
/// Octets of a record that a message has room for, beside a header of 12 and the longest signature (RFC 8945 section
/// 4.2): name of the key, of the algorithm, fixed part, times and lengths, and MAC.
const MAX_RECORD_BYTES: usize = u16::MAX as usize - 12 - (MAX_NAME_BYTES + 32 + 10 + 16 + 64);
/// Type, class, TTL and length of RDATA.
const FIXED_BYTES_WITHOUT_OWNER: usize = 10;

/// Returns true if a record fits every message that may carry it.
pub fn fits_message(owner: &[u8], rdata: &[u8]) -> bool {
    owner.len() + FIXED_BYTES_WITHOUT_OWNER + rdata.len() <= MAX_RECORD_BYTES
}

//--- Numbers ---

/// Appends a number, seven bits an octet, the lowest first.
pub fn put_number(out: &mut Vec<u8>, mut number: u32) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number that [`put_number`] wrote.
#[inline]
pub fn take_number(bytes: &mut &[u8]) -> u32 {
    let first = bytes[0];
    if first < 0x80 {
        *bytes = &bytes[1..];
        return u32::from(first);
    }
    let (mut number, mut shift, mut at) = (u32::from(first & 0x7f), 7, 1);
    loop {
        let octet = bytes[at];
        number |= u32::from(octet & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if octet < 0x80 {
            *bytes = &bytes[at..];
            return number;
        }
    }
}

/// Takes a number and as many octets.
#[inline]
pub fn take_sized<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = take_number(bytes) as usize;
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// Reads a number as [`take_number`] does, from bytes that may be anything; `None` where [`put_number`] would not have
/// written that.
pub fn read_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for (at, octet) in bytes.iter().take(5).enumerate() {
        number |= u64::from(octet & 0x7f) << (7 * at);
        if *octet < 0x80 {
            *bytes = &bytes[at + 1..];
            let is_shortest = at == 0 || *octet > 0;
            return u32::try_from(number).ok().filter(|_| is_shortest);
        }
    }
    None
}

/// Reads octets as [`take_sized`] does, from bytes that may be anything.
pub fn read_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_number(bytes)? as usize;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Appends octets with their number in front.
pub fn put_sized(out: &mut Vec<u8>, octets: &[u8]) {
    put_number(out, octets.len() as u32);
    out.extend_from_slice(octets);
}

/// Appends what stands in front of the body of a set. One record says itself how long it is.
pub(super) fn put_head(out: &mut Vec<u8>, rtype: u16, ttl: u32, count: u32, body: usize) {
    put_number(out, rtype.into());
    put_number(out, ttl);
    put_number(out, count);
    if count != 1 {
        put_number(out, body as u32);
    }
}

//--- Set ---

/// All records of one owner name and type, where they are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Set<'a> {
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Number of records.
    pub count: u32,
    pub(super) body: &'a [u8],
}

impl<'a> Set<'a> {
    /// Takes a set that [`Set::write`] wrote.
    #[inline]
    pub fn take(bytes: &mut &'a [u8]) -> Set<'a> {
        let rtype = take_number(bytes) as u16;
        let (ttl, count) = (take_number(bytes), take_number(bytes));
        if count != 1 {
            return Set { rtype, ttl, count, body: take_sized(bytes) };
        }
        // One record says itself how long it is.
        let start = *bytes;
        take_sized(bytes);
        Set { rtype, ttl, count, body: &start[..start.len() - bytes.len()] }
    }

    /// Takes a set from bytes that may be anything; `None` where [`Set::write`] would not have written that of any set.
    pub fn read(bytes: &mut &'a [u8]) -> Option<Set<'a>> {
        let rtype = u16::try_from(read_number(bytes)?).ok()?;
        let (ttl, count) = (read_number(bytes)?, read_number(bytes)?);
        if !is_data_type(rtype) || ttl > i32::MAX as u32 || count == 0 {
            return None;
        }
        let start = *bytes;
        let body = if count == 1 {
            read_sized(bytes)?;
            &start[..start.len() - bytes.len()]
        } else {
            read_sized(bytes)?
        };
        let (mut rest, mut before, mut found) = (body, None, 0);
        while !rest.is_empty() {
            let rdata = read_sized(&mut rest)?;
            let risen = before.is_none_or(|before| compare(rtype, before, rdata) == Ordering::Less);
            if !risen || rdata.len() > usize::from(u16::MAX) || !check_plain(rtype, rdata) {
                return None;
            }
            (before, found) = (Some(rdata), found + 1);
        }
        (found == count).then_some(Set { rtype, ttl, count, body })
    }

    /// Appends the set.
    pub fn write(self, out: &mut Vec<u8>) {
        put_head(out, self.rtype, self.ttl, self.count, self.body.len());
        out.extend_from_slice(self.body);
    }

    /// Appends a set of one record; returns its octets in an answer.
    pub fn write_single(rtype: u16, ttl: u32, rdata: &[u8], out: &mut Vec<u8>) -> usize {
        put_head(out, rtype, ttl, 1, 0);
        put_sized(out, rdata);
        FIXED_BYTES + rdata.len()
    }

    /// The set with another TTL.
    pub fn with_ttl(self, ttl: u32) -> Set<'a> {
        Set { ttl, ..self }
    }

    /// Iterates over the RDATA of the records.
    pub fn rdatas(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut rest = self.body;
        std::iter::from_fn(move || (!rest.is_empty()).then(|| take_sized(&mut rest)))
    }

    /// The RDATA of the record, if there is one only.
    #[inline]
    pub fn single(self) -> Option<&'a [u8]> {
        let mut body = self.body;
        (self.count == 1).then(|| take_sized(&mut body))
    }

    /// Iterates over the RDATA from one record on, around the end. `turn` says how far into the set that is, in parts of
    /// 2^32. Other than the first only for addresses, services and texts, which clients take as they come.
    pub fn rdatas_from(self, turn: u32) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (before, after) = self.body.split_at(self.start_of(turn));
        Set { body: after, ..self }.rdatas().chain(Set { body: before, ..self }.rdatas())
    }

    /// The addresses of a set of such, of so many octets each, in the order of [`Set::rdatas_from`]: those from the first
    /// on, then those in front of it.
    #[inline]
    pub fn addresses_from<const BYTES: usize>(self, turn: u32) -> [impl Iterator<Item = &'a [u8; BYTES]>; 2] {
        let (before, after) = self.body.split_at((1 + BYTES) * self.number_of(turn));
        [after, before].map(|part| part.chunks_exact(1 + BYTES).filter_map(|sized| sized.last_chunk()))
    }

    /// Iterates over the RDATA as [`Set::rdatas_from`] does, of services those of the smallest priority first (RFC 2782),
    /// among which it begins.
    pub fn best_from(self, turn: u32) -> impl Iterator<Item = &'a [u8]> {
        let is_best = move |rdata: &&[u8]| {
            self.rtype != rtype::SRV || rdata.get(..2) == self.rdatas().next().and_then(|first| first.get(..2))
        };
        // Services are sorted by priority.
        let best = self.rdatas().take_while(is_best).count();
        let start = ((u64::from(turn) * best as u64) >> 32) as usize;
        self.rdatas().take(best).skip(start).chain(self.rdatas().take(start)).chain(self.rdatas().skip(best))
    }

    /// Offset of the record at a part of the set.
    fn start_of(self, turn: u32) -> usize {
        let number = self.number_of(turn);
        if self.has_one_size() {
            return self.body.len() / self.count as usize * number;
        }
        if !matches!(self.rtype, rtype::SRV | rtype::TXT) {
            return 0;
        }
        let mut rest = self.body;
        (0..number).for_each(|_| _ = take_sized(&mut rest));
        self.body.len() - rest.len()
    }

    /// Number of the record at a part of the set.
    #[inline]
    fn number_of(self, turn: u32) -> usize {
        ((u64::from(turn) * u64::from(self.count)) >> 32) as usize
    }

    /// Octets of the set but for type, TTL and count: equal for the same set.
    pub fn body_bytes(self) -> u32 {
        self.body.len() as u32
    }

    /// Returns true if another set has the same records, in the same spelling.
    pub fn has_records_of(self, other: Set<'_>) -> bool {
        (self.rtype, self.body) == (other.rtype, other.body)
    }

    /// Iterates over the RDATA with the offset of each record.
    pub fn with_offsets(self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let mut rest = self.body;
        std::iter::from_fn(move || {
            let offset = (self.body.len() - rest.len()) as u32;
            (!rest.is_empty()).then(|| (offset, take_sized(&mut rest)))
        })
    }

    /// The RDATA of the record at an offset that [`Set::with_offsets`] gave for this set.
    #[inline]
    pub fn at(self, offset: u32) -> &'a [u8] {
        take_sized(&mut &self.body[offset as usize..])
    }

    /// The address, of so many octets, of the record at an offset that [`Set::with_offsets`] gave for this set of such;
    /// none at any other.
    #[inline]
    pub fn address_at<const BYTES: usize>(self, offset: u32) -> Option<&'a [u8; BYTES]> {
        self.body.get(offset as usize + 1..)?.first_chunk()
    }

    /// Returns true if all records have one size.
    pub(super) fn has_one_size(self) -> bool {
        matches!(self.rtype, rtype::A | rtype::AAAA)
    }

    /// Octets of all RDATA.
    pub fn rdata_bytes(self) -> usize {
        if let Some(rdata) = self.single() {
            return rdata.len();
        }
        if self.has_one_size() {
            return self.body.len() - self.count as usize;
        }
        self.rdatas().map(<[u8]>::len).sum()
    }

    /// Returns true if all records together are so long that one of them may fit no message under some owner name.
    pub fn may_not_fit(self) -> bool {
        self.body.len() > MAX_RDATA_ANYWHERE && !self.has_one_size()
    }

    /// Octets of the records in an answer.
    pub fn wire_bytes(self) -> usize {
        FIXED_BYTES * self.count as usize + self.rdata_bytes()
    }

    /// Octets of the records in an answer as far as they are few: of a set that fits no message a number above
    /// 65,535, which is told at once.
    pub fn wire_bytes_about(self) -> usize {
        let least = FIXED_BYTES * self.count as usize;
        if least > usize::from(u16::MAX) { least } else { self.wire_bytes() }
    }

    /// Appends the records as they stand in an answer to a question for their owner name.
    pub fn write_wire(self, out: &mut Vec<u8>) {
        for rdata in self.rdatas() {
            out.extend_from_slice(&self.fixed(rdata.len()));
            out.extend_from_slice(rdata);
        }
    }

    /// A record in answer form up to its RDATA.
    #[inline]
    pub fn fixed(self, length: usize) -> [u8; FIXED_BYTES] {
        let [owner, kind, class, length] =
            [u16::from_be_bytes(OWNER_AT_QUESTION), self.rtype, CLASS_IN, length as u16].map(u16::to_be_bytes);
        let ttl = self.ttl.to_be_bytes();
        let mut fixed = [0; FIXED_BYTES];
        fixed[..2].copy_from_slice(&owner);
        fixed[2..4].copy_from_slice(&kind);
        fixed[4..6].copy_from_slice(&class);
        fixed[6..10].copy_from_slice(&ttl);
        fixed[10..].copy_from_slice(&length);
        fixed
    }

    /// The name at `offset` in the first record's RDATA.
    pub fn first_name(self, offset: usize) -> Option<NameBuf> {
        NameBuf::read_plain(self.rdatas().next()?, offset).ok().map(|(name, _)| name)
    }

    /// Returns true if both are the same bytes in memory.
    pub fn is(self, other: Set<'_>) -> bool {
        std::ptr::eq(self.body, other.body)
    }

    /// A copy that stands by itself.
    pub fn to_rrset(self) -> RRset {
        RRset { rtype: self.rtype, ttl: self.ttl, count: self.count, body: self.body.into() }
    }
}

impl fmt::Debug for Set<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ttl, TypeName(self.rtype))?;
        self.rdatas().try_for_each(|rdata| write!(f, " [{}]", RdataText(self.rtype, rdata)))
    }
}

//--- RRset ---

/// All records of one owner name and type, by themselves.
#[derive(Clone, PartialEq, Eq)]
pub struct RRset {
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Number of records.
    pub count: u32,
    pub(super) body: Box<[u8]>,
}

impl RRset {
    /// Sorts RDATA, removes duplicates and makes the set. `None` when there is no RDATA.
    pub fn build<R: AsRef<[u8]>>(rtype: u16, ttl: u32, mut rdatas: Vec<R>) -> Option<RRset> {
        if rdatas.len() > 1 {
            rdatas.sort_by(|a, b| compare(rtype, a.as_ref(), b.as_ref()).then_with(|| a.as_ref().cmp(b.as_ref())));
            rdatas.dedup_by(|a, b| compare(rtype, a.as_ref(), b.as_ref()) == Ordering::Equal);
        }
        let mut body = Vec::with_capacity(rdatas.iter().map(|rdata| 2 + rdata.as_ref().len()).sum());
        for rdata in &rdatas {
            put_sized(&mut body, rdata.as_ref());
        }
        let (ttl, count) = (clamp_ttl(ttl), rdatas.len() as u32);
        (count > 0).then(|| RRset { rtype, ttl, count, body: body.into() })
    }

    /// The view of the set.
    pub fn as_set(&self) -> Set<'_> {
        Set { rtype: self.rtype, ttl: self.ttl, count: self.count, body: &self.body }
    }

    /// Iterates over the RDATA of the records.
    pub fn rdatas(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.as_set().rdatas()
    }
}

impl fmt::Debug for RRset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_set().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_are_sorted_without_duplicates_and_case_of_names_is_kept() {
        let set =
            RRset::build(rtype::NS, 30, vec![&b"\x02NS\x01b\x00"[..], b"\x02ns\x01a\x00", b"\x02ns\x01B\x00"]).unwrap();
        assert_eq!(format!("{set:?}"), "30 NS [ns.a.] [NS.b.]");
        assert_eq!(set.count, 2);
        let txt = RRset::build(rtype::TXT, 30, vec![&b"\x01a"[..], b"\x01A"]).unwrap();
        assert_eq!(txt.count, 2);
    }

    #[test]
    fn a_ttl_with_the_top_bit_set_counts_as_zero() {
        let ttl = |ttl: u32| RRset::build(rtype::A, ttl, vec![[192, 0, 2, 1]]).unwrap().ttl;
        assert_eq!([0, 30, 0x7fff_ffff, 0x8000_0000, u32::MAX].map(ttl), [0, 30, 0x7fff_ffff, 0, 0]);
    }

    #[test]
    fn addresses_services_and_texts_rotate_and_other_records_do_not() {
        let firsts = |set: &RRset| {
            [0, 1 << 31, u32::MAX]
                .map(|first| set.as_set().rdatas_from(first).map(|rdata| rdata[0]).collect::<Vec<_>>())
        };
        let addresses = RRset::build(rtype::A, 30, vec![[1, 0, 2, 1], [2, 0, 2, 1], [3, 0, 2, 1]]).unwrap();
        assert_eq!(firsts(&addresses), [[1, 2, 3], [2, 3, 1], [3, 1, 2]]);
        let services =
            [&[1u8, 0, 0, 0, 0, 80, 1, b'a', 0][..], &[2, 0, 0, 0, 0, 80, 0], &[3, 0, 0, 0, 0, 80, 1, b'c', 0]];
        let services = RRset::build(rtype::SRV, 30, services.to_vec()).unwrap();
        assert_eq!(firsts(&services), [[1, 2, 3], [2, 3, 1], [3, 1, 2]]);
        let texts = RRset::build(rtype::TXT, 30, vec![&[0u8][..], &[1, 7]]).unwrap();
        assert_eq!(firsts(&texts), [[0, 1], [1, 0], [1, 0]]);
        let names = RRset::build(rtype::PTR, 30, vec![&[0u8][..], &[1, b'a', 0]]).unwrap();
        assert_eq!(firsts(&names), [[0, 1], [0, 1], [0, 1]]);
    }

    proptest! {
        #[test]
        fn numbers_survive(number: u32, behind in prop::collection::vec(any::<u8>(), 0..3)) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            bytes.extend_from_slice(&behind);
            let mut rest = &bytes[..];
            prop_assert_eq!((take_number(&mut rest), rest), (number, &behind[..]));
            let mut rest = &bytes[..];
            prop_assert_eq!((read_number(&mut rest), rest), (Some(number), &behind[..]));
        }

        #[test]
        fn sets_survive(rtype in 65280u16.., ttl: u32, rdatas in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5)) {
            let set = RRset::build(rtype, ttl, rdatas).unwrap();
            let mut bytes = Vec::new();
            set.as_set().write(&mut bytes);
            bytes.push(7);
            let mut rest = &bytes[..];
            prop_assert_eq!((&Set::take(&mut rest).to_rrset(), rest), (&set, &[7u8][..]));
            let mut wire = Vec::new();
            set.as_set().write_wire(&mut wire);
            prop_assert_eq!(wire.len(), set.as_set().wire_bytes());
            let mut rest = &bytes[..];
            prop_assert_eq!((Set::read(&mut rest), rest), (Some(set.as_set()), &[7u8][..]));
        }

        /// Whatever is read is written like that.
        #[test]
        fn bytes_that_are_no_set_are_refused(bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..12)) {
            let mut rest = &bytes[..];
            if let Some(set) = Set::read(&mut rest) {
                let mut again = Vec::new();
                set.write(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
                prop_assert_eq!(RRset::build(set.rtype, set.ttl, set.rdatas().collect()), Some(set.to_rrset()));
            }
        }
    }
}
