//! Name compression within one message (RFC 1035 section 4.1.4).
//!
//! A [`Compressor`] remembers where the names of a message and all their suffixes stand, in a small hash table of
//! positions. Equal means equal in every octet, capitals included: a pointer never changes the spelling of a name.
//!
//! Invariants: a pointer leads backwards, to a place below 0x4000. The table only ever saves bytes: when it is crowded
//! names are written out, so a zone made to collide costs bytes, not time.
//!
//! Cost: O(octets + labels) for a name; clearing is 8 KiB for each message.

use crate::name;
use crate::serve::message::POINTER_LIMIT;

/// Places in the table: several times as many as a message of 16 KiB has names.
const SLOTS: usize = 4096;
/// Places that one suffix may stand in.
const PROBES: usize = 4;

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

/// Where the names of one message stand.
pub struct Compressor {
    /// Positions of suffixes; 0, within the header, for a free place.
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

    /// Appends an uncompressed name, with a pointer for the longest suffix that the message holds already. Returns where
    /// the message holds the name.
    pub fn write(&mut self, cursor: &mut Cursor<'_>, name: &[u8]) -> Option<usize> {
        let starts = name::label_starts(name);
        let mut hashes = [0; 128];
        let mut hash = 0;
        for (index, start) in starts.iter().enumerate().rev() {
            hash = hash_label(hash, &name[usize::from(*start)..]);
            hashes[index] = hash;
        }
        let base = cursor.position;
        let mut pointer = None;
        let mut fresh = starts.len();
        for (index, start) in starts.iter().enumerate() {
            if let Some(found) = self.find(cursor.out, hashes[index], &name[usize::from(*start)..]) {
                (pointer, fresh) = (Some(found), index);
                break;
            }
        }
        match pointer {
            Some(found) => {
                cursor.put(&name[..starts.get(fresh).map_or(0, |start| usize::from(*start))])?;
                cursor.put(&(0xc000 | found).to_be_bytes())?;
            }
            None => cursor.put(name)?,
        }
        for (index, start) in starts.iter().enumerate().take(fresh) {
            self.insert(hashes[index], base + usize::from(*start));
        }
        Some(pointer.filter(|_| fresh == 0).map_or(base, usize::from))
    }

    /// Where a suffix stands, if it does.
    fn find(&self, message: &[u8], hash: u64, suffix: &[u8]) -> Option<u16> {
        let places = (0..PROBES).map(|probe| self.slots[place(hash, probe)]).take_while(|position| *position != 0);
        places.into_iter().find(|position| stands_at(message, usize::from(*position), suffix))
    }

    /// Remembers a suffix, if it can be pointed to and there is a place.
    fn insert(&mut self, hash: u64, position: usize) {
        if position >= POINTER_LIMIT {
            return;
        }
        let free = (0..PROBES).map(|probe| place(hash, probe)).find(|place| self.slots[*place] == 0);
        if let Some(place) = free {
            self.slots[place] = position as u16;
        }
    }
}

/// The place of a hash at a probe.
fn place(hash: u64, probe: usize) -> usize {
    ((hash >> 48) as usize + probe) & (SLOTS - 1)
}

/// Adds a label, which begins with its length, to the hash of what follows it, eight octets at a time.
fn hash_label(hash: u64, label: &[u8]) -> u64 {
    let label = &label[..=usize::from(label[0])];
    // The upper bits of the product have seen all others.
    let add = |hash: u64, word: [u8; 8]| {
        let product = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    };
    let (words, rest) = label.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    add(words.iter().fold(hash, |hash, word| add(hash, *word)), last)
}

/// Whether the name at a position of our own message is this one, octet by octet.
fn stands_at(message: &[u8], mut position: usize, mut name: &[u8]) -> bool {
    loop {
        let length = message[position];
        if length >= 0xc0 {
            // Our own pointers lead backwards, so this ends.
            position = usize::from(length & 0x3f) << 8 | usize::from(message[position + 1]);
            continue;
        }
        let end = 1 + usize::from(length);
        if message.get(position..position + end) != name.get(..end) {
            return false;
        }
        if length == 0 {
            return true;
        }
        (position, name) = (position + end, &name[end..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameBuf;
    use proptest::prelude::*;

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
