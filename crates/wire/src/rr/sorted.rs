//! Sets as the sorted sequences that they are: records found by number, what two sets have apart and in common, a set with
//! a few other records, several sets in one.
//!
//! A set of hundreds of thousands of records changes by one of them. What is left of it is compared and copied as
//! octets, without a look at each record. Where all records of a type have one size, as addresses do, a record is found
//! where it must be; else all lengths are gone through once.
//!
//! Invariant: all that is given is sorted by canonical RDATA, and so is all that is made.
//!
//! Cost: O(octets) at the pace of memory for what stays, O(log records) for a record that is looked for; numbering
//! O(records) where they differ in size.

use super::set::put_head;
use super::{RRset, Set, compare, put_sized, take_sized};
use std::cmp::Ordering;
use std::ops::Range;

/// Octets that are compared at once, the most first.
const STRETCHES: [usize; 2] = [4096, 64];

//--- Numbered ---

/// The records of a set by number.
pub struct Numbered<'a> {
    set: Set<'a>,
    /// Where each record begins; none where all have one size.
    starts: Option<Box<[u32]>>,
}

impl<'a> Numbered<'a> {
    /// Numbers the records of a set.
    pub fn new(set: Set<'a>) -> Numbered<'a> {
        let starts = || set.with_offsets().map(|(offset, _)| offset).collect();
        Numbered { set, starts: (!set.has_one_size()).then(starts) }
    }

    /// The set.
    pub fn set(&self) -> Set<'a> {
        self.set
    }

    /// Where a record begins; where the last one ends for the number behind it.
    fn start(&self, number: usize) -> usize {
        match &self.starts {
            None => self.set.body.len() / self.set.count as usize * number,
            Some(starts) => starts.get(number).map_or(self.set.body.len(), |start| *start as usize),
        }
    }

    /// The RDATA of a record.
    pub fn get(&self, number: usize) -> &'a [u8] {
        take_sized(&mut &self.set.body[self.start(number)..])
    }

    /// Number of the first record in a range that is not meant by `is_in_front`, which means all in front of another.
    pub fn partition_point(&self, range: Range<usize>, is_in_front: impl Fn(&[u8]) -> bool) -> usize {
        let Range { mut start, mut end } = range;
        while start < end {
            let middle = start + (end - start) / 2;
            if is_in_front(self.get(middle)) { start = middle + 1 } else { end = middle }
        }
        start
    }

    /// Number of the record with the same canonical RDATA, or else of the one that it would stand in front of.
    pub fn search(&self, rdata: &[u8]) -> Result<usize, usize> {
        let count = self.set.count as usize;
        let order = |other: &[u8]| compare(self.set.rtype, other, rdata);
        let at = self.partition_point(0..count, |other| order(other) == Ordering::Less);
        if at < count && order(self.get(at)) == Ordering::Equal { Ok(at) } else { Err(at) }
    }

    /// Appends the set with another TTL, without the records of some numbers, which rise, and with others, which are
    /// sorted and differ from all that stay. A set of no record leaves nothing.
    pub fn write_changed(&self, ttl: u32, gone: &[u32], come: &[&[u8]], out: &mut Vec<u8>) {
        let Set { rtype, count, body, .. } = self.set;
        let range = |number: u32| self.start(number as usize)..self.start(number as usize + 1);
        let count = count + come.len() as u32 - gone.len() as u32;
        let lost: usize = gone.iter().map(|number| range(*number).len()).sum();
        let mut sized = Vec::with_capacity(come.iter().map(|rdata| rdata.len() + 3).sum());
        // Where the copied octets are left for a record that comes, up to which of its own octets that goes.
        let steps: Vec<(usize, usize)> = come
            .iter()
            .map(|rdata| {
                put_sized(&mut sized, rdata);
                let (Ok(number) | Err(number)) = self.search(rdata);
                (self.start(number), sized.len())
            })
            .collect();
        if count == 0 {
            return;
        }
        let length = body.len() + sized.len() - lost;
        out.reserve(length + 16);
        put_head(out, rtype, ttl, count, length);
        let (mut copied, mut written, mut gone) = (0, 0, gone.iter().map(|number| range(*number)).peekable());
        for (at, end) in steps.into_iter().chain([(body.len(), sized.len())]) {
            while let Some(lost) = gone.next_if(|lost| lost.start < at) {
                out.extend_from_slice(&body[copied..lost.start]);
                copied = lost.end;
            }
            // A record that goes may stand where one comes.
            if copied < at {
                out.extend_from_slice(&body[copied..at]);
                copied = at;
            }
            out.extend_from_slice(&sized[written..end]);
            written = end;
        }
    }
}

//--- Differences ---

/// The RDATA that one of two sets of a type has and the other has not, in canonical order, each with whether the first
/// one has it. Names that are spelled in another way count.
pub fn differences<'a>(first: Set<'a>, second: Set<'a>, mut tell: impl FnMut(bool, &'a [u8])) {
    let (mut left, mut right) = (first.body, second.body);
    loop {
        let same = common_records(left, right, first);
        (left, right) = (&left[same..], &right[same..]);
        let (mut left_behind, mut right_behind) = (left, right);
        let take = |rest: &mut &'a [u8]| (!rest.is_empty()).then(|| take_sized(rest));
        let order = match (take(&mut left_behind), take(&mut right_behind)) {
            (None, None) => return,
            (Some(one), other) => match other.map(|other| (other, compare(first.rtype, one, other))) {
                None | Some((_, Ordering::Less)) => {
                    tell(true, one);
                    Ordering::Less
                }
                Some((other, Ordering::Greater)) => {
                    tell(false, other);
                    Ordering::Greater
                }
                Some((other, Ordering::Equal)) => {
                    tell(true, one);
                    tell(false, other);
                    Ordering::Equal
                }
            },
            (None, Some(other)) => {
                tell(false, other);
                Ordering::Greater
            }
        };
        if order.is_le() {
            left = left_behind;
        }
        if order.is_ge() {
            right = right_behind;
        }
    }
}

/// Octets of the records that two bodies of a type, or what is left of them, begin with in common.
fn common_records(left: &[u8], right: &[u8], set: Set<'_>) -> usize {
    let length = left.len().min(right.len());
    let mut same = 0;
    for stretch in STRETCHES {
        while same + stretch <= length && left[same..same + stretch] == right[same..same + stretch] {
            same += stretch;
        }
    }
    while same < length && left[same] == right[same] {
        same += 1;
    }
    if set.has_one_size() {
        return same - same % (set.body.len() / set.count as usize);
    }
    let (mut rest, mut whole) = (left, 0);
    while whole < same {
        take_sized(&mut rest);
        let end = left.len() - rest.len();
        if end > same {
            break;
        }
        whole = end;
    }
    whole
}

//--- Intersection ---

/// Numbers of those records of a set that another set of its type has, too. O(octets of both)
pub fn common_numbers(set: Set<'_>, other: Set<'_>) -> Vec<u32> {
    if set.body == other.body {
        return (0..set.count).collect();
    }
    let size = |set: Set<'_>| set.has_one_size().then(|| set.body.len() / set.count as usize);
    match (size(set), size(other)) {
        (Some(5), Some(5)) => common_sized::<5>(set.body, other.body),
        (Some(17), Some(17)) => common_sized::<17>(set.body, other.body),
        _ => common_any(set, other),
    }
}

/// Numbers of records that all take so many octets, the length in front included.
fn common_sized<const SIZE: usize>(set: &[u8], other: &[u8]) -> Vec<u32> {
    let ((records, _), (mut others, _)) = (set.as_chunks::<SIZE>(), other.as_chunks::<SIZE>());
    let mut common = Vec::with_capacity(records.len().min(others.len()));
    for (number, record) in (0..).zip(records) {
        while let [first, behind @ ..] = others
            && first < record
        {
            others = behind;
        }
        if others.first() == Some(record) {
            common.push(number);
        }
    }
    common
}

/// Numbers of records of any size.
fn common_any(set: Set<'_>, other: Set<'_>) -> Vec<u32> {
    let mut others = other.rdatas().peekable();
    let mut is_common = |rdata: &[u8]| {
        loop {
            match others.peek().map(|other| compare(set.rtype, other, rdata)) {
                Some(Ordering::Less) => _ = others.next(),
                order => break order == Some(Ordering::Equal),
            }
        }
    };
    (0..).zip(set.rdatas()).filter(|(_, rdata)| is_common(rdata)).map(|(number, _)| number).collect()
}

//--- Union ---

impl RRset {
    /// The records of several sets of a type, each once, with a TTL; none of no set.
    pub fn unite(ttl: u32, sets: &[Set<'_>]) -> Option<RRset> {
        let (first, rest) = sets.split_first()?;
        let mut united = RRset { ttl, ..first.to_rrset() };
        for set in rest {
            let (count, body) = merge(united.as_set(), *set);
            (united.count, united.body) = (count, body.into());
        }
        Some(united)
    }
}

/// Number and octets of the records that two sets of a type have together.
fn merge(one: Set<'_>, other: Set<'_>) -> (u32, Vec<u8>) {
    let mut body = Vec::with_capacity(one.body.len() + other.body.len());
    let count = match (one.has_one_size(), one.body.len() / one.count as usize) {
        (true, 5) => merge_sized::<5>(one.body, other.body, &mut body),
        (true, 17) => merge_sized::<17>(one.body, other.body, &mut body),
        _ => merge_any(one, other, &mut body),
    };
    (count, body)
}

/// Merges records that all take so many octets, the length in front included; returns their number.
fn merge_sized<const SIZE: usize>(one: &[u8], other: &[u8], out: &mut Vec<u8>) -> u32 {
    let ((mut left, _), (mut right, _)) = (one.as_chunks::<SIZE>(), other.as_chunks::<SIZE>());
    while let ([first, left_behind @ ..], [second, right_behind @ ..]) = (left, right) {
        let order = first.cmp(second);
        out.extend_from_slice(if order.is_le() { first } else { second });
        if order.is_le() {
            left = left_behind;
        }
        if order.is_ge() {
            right = right_behind;
        }
    }
    out.extend_from_slice(left.as_flattened());
    out.extend_from_slice(right.as_flattened());
    (out.len() / SIZE) as u32
}

/// Merges records of any size; returns their number. Of equal ones that are spelled differently the first by octets
/// stays.
fn merge_any(one: Set<'_>, other: Set<'_>, out: &mut Vec<u8>) -> u32 {
    let (mut left, mut right, mut count) = (one.rdatas().peekable(), other.rdatas().peekable(), 0);
    loop {
        let rdata = match (left.peek(), right.peek()) {
            (None, None) => return count,
            (Some(first), Some(second)) => match compare(one.rtype, first, second) {
                Ordering::Less => left.next(),
                Ordering::Greater => right.next(),
                Ordering::Equal => left.next().min(right.next()),
            },
            (Some(_), None) => left.next(),
            (None, Some(_)) => right.next(),
        };
        rdata.into_iter().for_each(|rdata| put_sized(out, rdata));
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rr::rtype;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// RDATA of a type: addresses, or names in capitals or not.
    fn rdata(rtype: u16, number: u8, is_upper: bool) -> Vec<u8> {
        match rtype {
            rtype::A => vec![10, 0, 0, number],
            rtype::AAAA => [&[0x20; 15][..], &[number]].concat(),
            _ => {
                let label = vec![if is_upper { b'N' } else { b'n' }; 1 + usize::from(number % 5)];
                [&[number / 5, 0, label.len() as u8][..], &label, &[0]].concat()
            }
        }
    }

    fn types() -> impl Strategy<Value = u16> {
        prop::sample::select(vec![rtype::A, rtype::AAAA, rtype::MX])
    }

    fn numbers() -> impl Strategy<Value = Vec<(u8, bool)>> {
        prop::collection::vec((0..40u8, any::<bool>()), 1..30)
    }

    fn build(rtype: u16, numbers: &[(u8, bool)]) -> RRset {
        let rdatas = numbers.iter().map(|(number, is_upper)| rdata(rtype, *number, *is_upper)).collect();
        RRset::build(rtype, 30, rdatas).unwrap()
    }

    proptest! {
        #[test]
        fn each_record_is_found(rtype in types(), numbers in numbers(), wanted in 0..40u8) {
            let set = build(rtype, &numbers);
            let numbered = Numbered::new(set.as_set());
            for (number, own) in set.rdatas().enumerate() {
                prop_assert_eq!((numbered.get(number), numbered.search(own)), (own, Ok(number)));
            }
            let wanted = rdata(rtype, wanted, true);
            let before = set.rdatas().filter(|own| compare(rtype, own, &wanted).is_lt()).count();
            let is_there = set.rdatas().any(|own| compare(rtype, own, &wanted).is_eq());
            prop_assert_eq!(numbered.search(&wanted), if is_there { Ok(before) } else { Err(before) });
        }

        /// A changed set is the one that would be built.
        #[test]
        fn changed_sets_are_those_that_are_built(rtype in types(), old in numbers(), new in numbers(), mask: u32) {
            let (old, new) = (build(rtype, &old), build(rtype, &new));
            let numbered = Numbered::new(old.as_set());
            let gone: Vec<u32> = (0..old.count).filter(|number| mask >> (number % 32) & 1 == 1).collect();
            let stays = |rdata: &[u8]| numbered.search(rdata).is_ok_and(|number| !gone.contains(&(number as u32)));
            let come: Vec<&[u8]> = new.rdatas().filter(|rdata| !stays(rdata)).collect();
            let left = (0..).zip(old.rdatas()).filter(|(number, _)| !gone.contains(number)).map(|(_, rdata)| rdata);
            let expected = RRset::build(rtype, 60, left.chain(come.iter().copied()).collect());
            let (mut made, mut built) = (Vec::new(), Vec::new());
            numbered.write_changed(60, &gone, &come, &mut made);
            expected.iter().for_each(|set| set.as_set().write(&mut built));
            prop_assert_eq!(made, built);
        }

        #[test]
        fn what_differs_is_told_in_order(rtype in types(), old in numbers(), new in numbers()) {
            let (old, new) = (build(rtype, &old), build(rtype, &new));
            let (mut gone, mut come) = (Vec::new(), Vec::new());
            differences(old.as_set(), new.as_set(), |is_first, rdata| if is_first { gone.push(rdata) } else { come.push(rdata) });
            let lacking = |set: &RRset, other: &RRset| -> Vec<Vec<u8>> {
                let others: BTreeSet<&[u8]> = other.rdatas().collect();
                set.rdatas().filter(|rdata| !others.contains(rdata)).map(<[u8]>::to_vec).collect()
            };
            prop_assert_eq!((lacking(&old, &new), lacking(&new, &old)), (gone.iter().map(|rdata| rdata.to_vec()).collect(), come.iter().map(|rdata| rdata.to_vec()).collect()));
        }

        #[test]
        fn common_records_are_those_of_both(rtype in types(), one in numbers(), other in numbers()) {
            let (one, other) = (build(rtype, &one), build(rtype, &other));
            let is_common = |rdata: &[u8]| other.rdatas().any(|other| compare(rtype, other, rdata).is_eq());
            let expected: Vec<u32> = (0..).zip(one.rdatas()).filter(|(_, rdata)| is_common(rdata)).map(|(number, _)| number).collect();
            prop_assert_eq!(common_numbers(one.as_set(), other.as_set()), expected);
            let all: Vec<u32> = (0..one.count).collect();
            prop_assert_eq!(common_numbers(one.as_set(), one.as_set()), all);
        }

        #[test]
        fn united_sets_are_those_that_are_built(rtype in types(), all in prop::collection::vec(numbers(), 1..4)) {
            let sets: Vec<RRset> = all.iter().map(|numbers| build(rtype, numbers)).collect();
            let expected = RRset::build(rtype, 60, sets.iter().flat_map(RRset::rdatas).collect());
            let views: Vec<Set<'_>> = sets.iter().map(RRset::as_set).collect();
            prop_assert_eq!(RRset::unite(60, &views), expected);
        }
    }

    #[test]
    fn long_sets_differ_where_they_do() {
        let all: Vec<[u8; 4]> = (0..5_000u32).map(u32::to_be_bytes).collect();
        let without = |gone: &[usize]| -> RRset {
            let left = (0..).zip(&all).filter(|(number, _)| !gone.contains(number)).map(|(_, rdata)| *rdata);
            RRset::build(rtype::A, 30, left.collect()).unwrap()
        };
        let (old, new) = (without(&[0, 4_000]), without(&[17, 4_999]));
        let mut told = Vec::new();
        differences(old.as_set(), new.as_set(), |is_first, rdata| told.push((is_first, rdata.to_vec())));
        let expected = [(false, 0usize), (true, 17), (false, 4_000), (true, 4_999)];
        assert_eq!(told, expected.map(|(is_first, number)| (is_first, all[number].to_vec())));
    }
}
