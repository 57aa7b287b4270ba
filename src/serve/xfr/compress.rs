//! Name compression within one message (RFC 1035 section 4.1.4).
//!
//! A [`Compressor`] remembers where the names of a message stand, label by label: a small hash table finds the position
//! of a label in front of a suffix whose position is known, beginning at the root. Equal means equal in every octet,
//! capitals included: a pointer never changes the spelling of a name.
//!
//! Invariants: a pointer leads backwards, to a place below 0x4000; a suffix is known by one position, that of its first
//! writing. The table only ever saves bytes: when it is crowded names are written out, so a zone made to collide costs
//! bytes, not time.
//!
//! Cost: O(octets + labels) for a name; clearing is 8 KiB for each message.

use wire::message::POINTER_LIMIT;
use wire::name;

/// Places in the table: several times as many as a message of 16 KiB has names.
const SLOTS: usize = 4096;
/// Places that one label may stand in.
const PROBES: usize = 4;
/// Most labels of a name: as many as fit into 255 octets, and one that is not there.
const MAX_LABELS: usize = 128;
/// The position of the root: nowhere, for it is an octet and shorter than any pointer.
const ROOT: u16 = 0;
/// An odd number with bits all over.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A message in the making: bytes are appended while there is room.
pub struct Cursor<'o> {
    out: &'o mut [u8],
    pub position: usize,
}

impl<'o> Cursor<'o> {
    /// Appends from a position on.
    pub fn new(out: &'o mut [u8], position: usize) -> Cursor<'o> {
        Cursor { out, position }
    }

    /// Appends bytes; `None` when there is no room for them.
    pub fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.get_mut(self.position..self.position + bytes.len())?.copy_from_slice(bytes);
        self.position += bytes.len();
        Some(())
    }

    /// Overwrites a number written before.
    pub fn set(&mut self, position: usize, number: u16) {
        self.out[position..position + 2].copy_from_slice(&number.to_be_bytes());
    }
}

/// Positions of the names of one message.
pub struct Compressor {
    /// Positions of labels; 0, within the header, for a free place.
    slots: Box<[u16; SLOTS]>,
}

impl Compressor {
    /// Starts with an empty message.
    pub fn new() -> Compressor {
        Compressor { slots: Box::new([0; SLOTS]) }
    }

    /// Starts over with an empty message.
    pub fn clear(&mut self) {
        self.slots.fill(0);
    }

    /// Appends an uncompressed name, with a pointer for the longest suffix that the message holds already. Returns
    /// where the message holds the name.
    pub fn write(&mut self, cursor: &mut Cursor<'_>, name: &[u8]) -> Option<usize> {
        let labels = name.strip_suffix(&[0])?;
        self.write_labels(cursor, labels, ROOT)
    }

    /// Appends the labels of a name in front of a suffix that stands at a position of the message, and that suffix.
    pub fn write_labels(&mut self, cursor: &mut Cursor<'_>, labels: &[u8], mut suffix: u16) -> Option<usize> {
        let mut starts = [0; MAX_LABELS];
        let mut fresh = 0;
        let mut position = 0;
        while position < labels.len() {
            starts[fresh] = position as u8;
            (fresh, position) = (fresh + 1, position + 1 + usize::from(labels[position]));
        }
        // From the right: where a suffix does not stand, no longer one can.
        let mut end = labels.len();
        let mut key = 0;
        while let Some(last) = fresh.checked_sub(1) {
            let label = &labels[usize::from(starts[last])..end];
            key = hash(label, suffix);
            let Some(found) = self.find(cursor.out, key, label, suffix) else { break };
            (suffix, fresh, end) = (found, last, usize::from(starts[last]));
        }
        let base = cursor.position;
        cursor.put(&labels[..end])?;
        match suffix {
            ROOT => cursor.put(&[0])?,
            found => cursor.put(&(0xc000 | found).to_be_bytes())?,
        }
        if fresh == 0 && suffix != ROOT {
            return Some(usize::from(suffix));
        }
        for index in (0..fresh).rev() {
            let start = usize::from(starts[index]);
            if base + start >= POINTER_LIMIT || !self.insert(key, base + start) {
                break;
            }
            suffix = (base + start) as u16;
            if let Some(next) = index.checked_sub(1) {
                key = hash(&labels[usize::from(starts[next])..start], suffix);
            }
        }
        Some(base)
    }

    /// Position at which the message holds a name, if it does.
    pub fn position_of(&self, cursor: &Cursor<'_>, name: &[u8]) -> Option<u16> {
        let starts = name::label_starts(name);
        let mut end = name.len() - 1;
        let mut suffix = ROOT;
        for start in starts.iter().rev().map(|start| usize::from(*start)) {
            let label = &name[start..end];
            (suffix, end) = (self.find(cursor.out, hash(label, suffix), label, suffix)?, start);
        }
        Some(suffix).filter(|suffix| *suffix != ROOT)
    }

    /// Position of a label in front of a suffix, if the message holds it.
    fn find(&self, message: &[u8], key: u32, label: &[u8], suffix: u16) -> Option<u16> {
        let positions = (0..PROBES).map(|probe| self.slots[place(key, probe)]).take_while(|position| *position != 0);
        positions.into_iter().find(|position| {
            let behind = usize::from(*position) + label.len();
            message[usize::from(*position)..].starts_with(label)
                && match suffix {
                    ROOT => message[behind] == 0,
                    _ => {
                        behind == usize::from(suffix) || message[behind..].starts_with(&(0xc000 | suffix).to_be_bytes())
                    }
                }
        })
    }

    /// Remembers where a label stands, if there is a place.
    fn insert(&mut self, key: u32, position: usize) -> bool {
        let free = (0..PROBES).map(|probe| place(key, probe)).find(|place| self.slots[*place] == 0);
        free.map(|place| self.slots[place] = position as u16).is_some()
    }
}

/// The place of a hash at a probe.
fn place(key: u32, probe: usize) -> usize {
    (key as usize + probe) & (SLOTS - 1)
}

/// The hash of a label, which begins with its length, in front of a suffix.
#[inline]
fn hash(label: &[u8], suffix: u16) -> u32 {
    let (words, rest) = label.as_chunks::<8>();
    let rest = rest.iter().fold(u64::from(suffix), |word, byte| word << 8 | u64::from(*byte));
    let state = words.iter().fold(rest, |state, word| (state ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD));
    // The upper bits of the product have seen all others.
    ((state ^ state >> 29).wrapping_mul(SPREAD) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::name::NameBuf;

    fn written(names: &[&str]) -> Vec<u8> {
        let mut out = [0; 4096];
        let mut cursor = Cursor::new(&mut out, 12);
        let mut compressor = Compressor::new();
        for name in names {
            compressor.write(&mut cursor, NameBuf::parse(name).unwrap().as_wire()).unwrap();
        }
        let end = cursor.position;
        out[12..end].to_vec()
    }

    #[test]
    fn suffixes_are_pointed_to_and_spelling_is_kept() {
        assert_eq!(written(&["a.b", "a.b", "c.b", ".", "c.B"]), b"\x01a\x01b\0\xc0\x0c\x01c\xc0\x0e\0\x01c\x01B\0");
        // A suffix that itself ends in a pointer.
        assert_eq!(written(&["b", "a.b", "c.a.b"]), b"\x01b\0\x01a\xc0\x0c\x01c\xc0\x0f");
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let mut out = [0; 16];
        let mut cursor = Cursor::new(&mut out, 12);
        assert_eq!(Compressor::new().write(&mut cursor, b"\x03abc\0"), None);
    }

    proptest! {
        /// Whatever is written, behind whatever else, is read back as it was.
        #[test]
        fn names_survive(labels in prop::collection::vec(prop::collection::vec("[aAb]{1,3}", 0..6), 1..400)) {
            let mut out = vec![0; 32 << 10];
            let mut cursor = Cursor::new(&mut out, POINTER_LIMIT - 2000);
            let mut compressor = Compressor::new();
            let names: Vec<NameBuf> =
                labels.iter().map(|labels| NameBuf::parse(&format!("{}.", labels.join("."))).unwrap()).collect();
            let mut places = Vec::new();
            for name in &names {
                places.push(cursor.position);
                compressor.write(&mut cursor, name.as_wire()).unwrap();
            }
            for (place, name) in places.into_iter().zip(&names) {
                let (read, _) = NameBuf::read(&out, place).unwrap();
                prop_assert_eq!(read.as_wire(), name.as_wire());
            }
        }
    }
}
