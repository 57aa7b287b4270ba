//! Removals that must not be believed as they stand.
//!
//! CNS writes a version name by name while it is being transferred, and keeps equal records as often as it has them. So
//! a whole copy can hold part of the next version, and "one of two goes" then removes the only one that is left
//! (`docs/cns.md` 27). Which removals are in doubt is told by the version that they are put on: [`Mixed`] says for how
//! long the copy that it comes from may still be mixed, [`Repeated`] which records the primary may have more than once.
//! [`Vetoes`] are the records that stay all the same, and [`Marks`] is how both marks come through the journal.
//!
//! Cost: O(1) for a question; O(marks that are new) for a step, O(marks) where a whole copy replaces them.

use super::repeated::{Repeated, hash_record, well_known_hash};
use crate::zone::{ByteReader, Zone};
use std::collections::HashSet;
use wire::name::Name;
use wire::serial::Serial;

/// Serials up to which removals are in doubt whatever they remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixed {
    /// The version is whole.
    #[default]
    No,
    /// The primary had this serial when the copy was complete: the commit to the next one may be in it.
    Until(Serial),
    /// The serial that the primary had then is not known.
    Open,
}

impl Mixed {
    /// The mark of a whole copy with a serial, of a primary that had this one at its end.
    pub fn after_copy(copy: Serial, end: Option<Serial>) -> Mixed {
        end.map_or(Mixed::Open, |end| Mixed::Until(if end.newer_than(copy) { end } else { copy }))
    }

    /// The mark once the primary has had a serial, later than at the end of the copy.
    pub fn seen_at(self, serial: Serial) -> Mixed {
        if self == Mixed::Open { Mixed::Until(serial) } else { self }
    }

    /// Returns true if removals of a step that begins at a serial are in doubt: up to and including the step to the
    /// first newer one.
    pub fn doubts(self, from: Serial) -> bool {
        match self {
            Mixed::No => false,
            Mixed::Until(end) => !from.newer_than(end),
            Mixed::Open => true,
        }
    }

    /// The mark of the version to which steps have led.
    pub fn at(self, serial: Serial) -> Mixed {
        if self.doubts(serial) { self } else { Mixed::No }
    }

    /// The mark as a number, for files.
    pub(super) fn to_number(self) -> u64 {
        match self {
            Mixed::No => 0,
            Mixed::Until(serial) => 1 << 32 | u64::from(serial.0),
            Mixed::Open => 2 << 32,
        }
    }

    /// Reads a number; one that means nothing leaves everything open.
    pub(super) fn from_number(number: u64) -> Mixed {
        match number >> 32 {
            0 if number == 0 => Mixed::No,
            1 => Mixed::Until(Serial(number as u32)),
            _ => Mixed::Open,
        }
    }
}

impl Zone {
    /// Returns true if all that is known beside the records is the same as for another version.
    pub fn has_marks_of(&self, other: &Zone) -> bool {
        self.mixed == other.mixed && self.repeated == other.repeated && self.aside() == other.aside()
    }
}

/// A record whose removal is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Owner name in lowercase.
    pub owner: Name,
    pub rtype: u16,
    pub rdata: Vec<u8>,
}

/// Records that stay although they are removed.
#[derive(Clone, Debug, Default)]
pub struct Vetoes(HashSet<u64>);

impl Vetoes {
    /// Returns true if no record stays.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has a record stay.
    pub fn insert(&mut self, record: &Removal) {
        self.0.insert(hash_record(record.owner.as_wire(), record.rtype, &record.rdata));
    }

    /// Returns true if a record of a name (lowercase wire form) stays.
    pub(super) fn holds(&self, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(&hash_record(owner, rtype, rdata))
    }
}

/// The marks of a version as a step to it tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Marks {
    /// Nothing is known, so any removal is in doubt.
    #[default]
    Unknown,
    /// No removal is in doubt.
    Clear,
    /// Differences from the marks before.
    Changed { mixed: Mixed, lost: Box<[u64]>, gained: Box<[u64]> },
    /// All of them.
    All { mixed: Mixed, hashes: Box<[u64]> },
}

/// First octets of marks; the format before had the first two only.
const UNKNOWN: u8 = 0;
const CLEAR: u8 = 1;
const CHANGED: u8 = 2;
const ALL: u8 = 3;

impl Marks {
    /// Marks that the step from one version to another tells.
    pub fn between(old: &Repeated, new: &Repeated, mixed: Mixed) -> Marks {
        if new.unknown {
            return Marks::Unknown;
        }
        if new.is_none() && mixed == Mixed::No {
            return Marks::Clear;
        }
        if old.unknown {
            return Marks::All { mixed, hashes: new.hashes.iter().copied().collect() };
        }
        let (lost, gained) = new.changes_since(old);
        Marks::Changed { mixed, lost, gained }
    }

    /// The marks after the step.
    pub fn apply(&self, before: &Repeated) -> (Repeated, Mixed) {
        match self {
            Marks::Unknown => (Repeated::unknown(), Mixed::Open),
            Marks::Clear => (Repeated::default(), Mixed::No),
            Marks::Changed { mixed, lost, gained } => (before.changed(lost, gained), *mixed),
            Marks::All { mixed, hashes } => (Repeated::default().changed(&[], hashes), *mixed),
        }
    }

    /// Octets that they take in a step.
    pub fn len_bytes(&self) -> usize {
        let count = match self {
            Marks::Unknown | Marks::Clear => 0,
            Marks::Changed { lost, gained, .. } => lost.len() + gained.len(),
            Marks::All { hashes, .. } => hashes.len(),
        };
        count * size_of::<u64>()
    }

    /// Appends the marks: what kind, and for two of the kinds the hash of a well-known record, the mark of the copy,
    /// and hashes with their number in front.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, mixed, lists) = match self {
            Marks::Unknown => return out.push(UNKNOWN),
            Marks::Clear => return out.push(CLEAR),
            Marks::Changed { mixed, lost, gained } => (CHANGED, mixed, vec![lost, gained]),
            Marks::All { mixed, hashes } => (ALL, mixed, vec![hashes]),
        };
        out.push(kind);
        let mut put = |number: u64| out.extend_from_slice(&number.to_be_bytes());
        put(well_known_hash());
        put(mixed.to_number());
        for list in lists {
            put(list.len() as u64);
            list.iter().for_each(|hash| put(*hash));
        }
    }

    /// Takes marks from the front of bytes. Hashes of another build of the program mean nothing here.
    pub fn read(reader: &mut ByteReader<'_>) -> Option<Marks> {
        let count = match reader.u8()? {
            UNKNOWN => return Some(Marks::Unknown),
            CLEAR => return Some(Marks::Clear),
            CHANGED => 2,
            ALL => 1,
            _ => return None,
        };
        let (hash, mixed) = (reader.u64()?, Mixed::from_number(reader.u64()?));
        let mut list = || (0..reader.u64()?).map(|_| reader.u64()).collect::<Option<Box<[u64]>>>();
        let (first, second) = (list()?, if count == 2 { list()? } else { Box::default() });
        Some(match count {
            _ if hash != well_known_hash() => Marks::Unknown,
            2 => Marks::Changed { mixed, lost: first, gained: second },
            _ => Marks::All { mixed, hashes: first },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_lasts_up_to_the_first_newer_serial() {
        let mixed = Mixed::after_copy(Serial(5), Some(Serial(7)));
        assert_eq!(mixed, Mixed::Until(Serial(7)));
        assert!([5, 6, 7].into_iter().all(|from| mixed.doubts(Serial(from))) && !mixed.doubts(Serial(8)));
        assert_eq!((mixed.at(Serial(7)), mixed.at(Serial(9))), (mixed, Mixed::No));
        assert_eq!(Mixed::after_copy(Serial(5), Some(Serial(4))), Mixed::Until(Serial(5)), "a clock that was set back");
        let open = Mixed::after_copy(Serial(5), None);
        assert!(open.doubts(Serial(99)) && open.at(Serial(99)) == Mixed::Open);
        assert_eq!(open.seen_at(Serial(9)), Mixed::Until(Serial(9)));
        assert_eq!(mixed.seen_at(Serial(9)), mixed);
        for mark in [Mixed::No, mixed, Mixed::Open, Mixed::Until(Serial(u32::MAX)), Mixed::Until(Serial(0))] {
            assert_eq!(Mixed::from_number(mark.to_number()), mark);
        }
    }

    fn repeated(hashes: &[u64], unknown: bool) -> Repeated {
        Repeated { unknown, ..Repeated::default().changed(&[], hashes) }
    }

    fn arbitrary() -> impl Strategy<Value = (Vec<u64>, bool)> {
        (prop::collection::vec(0..20u64, 0..8), prop::bool::weighted(0.2))
    }

    proptest! {
        /// A step tells the marks of the version that it leads to, through bytes, wherever it starts.
        #[test]
        fn steps_tell_marks(old in arbitrary(), new in arbitrary(), grows: bool, mark in 0..3u64) {
            let (old, mixed) = (repeated(&old.0, old.1), Mixed::from_number(mark << 32));
            let new = if grows {
                let mut grown = old.growing();
                new.0.iter().for_each(|hash| grown.insert_hash(*hash));
                grown
            } else {
                repeated(&new.0, new.1)
            };
            let marks = Marks::between(&old, &new, mixed);
            let mut bytes = Vec::new();
            marks.write(&mut bytes);
            let mut reader = ByteReader(&bytes);
            prop_assert_eq!(Marks::read(&mut reader), Some(marks.clone()));
            prop_assert!(reader.0.is_empty());
            (0..bytes.len()).for_each(|end| assert!(Marks::read(&mut ByteReader(&bytes[..end])).is_none()));
            let (told, told_mixed) = marks.apply(&old);
            prop_assert_eq!(told.unknown, new.unknown);
            if !new.unknown {
                prop_assert_eq!((told.hashes, told_mixed), (new.hashes, mixed));
            }
        }
    }
}
