//! A whole version as bytes, for a file, and back again without a comparison or a sort.
//!
//! The bytes: number of owner names; for each its wire form as spelled, the length of its records and these in answer form;
//! then what is known of repeated records. RRsets are copied as they are held in memory. Whoever keeps the bytes guards
//! them with a checksum; reading checks the form of everything all the same, so no bytes make a zone that breaks the
//! invariants of [`Zone`].
//!
//! Cost: O(bytes); reading adds one insertion into the map for each name, and one look for each parent.

use crate::name::{self, Name};
use crate::rr::{RRset, rtype};
use crate::zone::{Editor, Node, RRsets, Repeated, Zone, ZoneError, hash_record, is_cut, is_wildcard, settle_aliases};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::sync::{Arc, mpsc};

/// In how many parts names are read: a part of the map that a million names have stays in a processor's cache. A power of
/// two, because the map takes the lowest bits of a hash first.
const PARTS: usize = 1024;
/// Names that one thread hands to the other at once; a zone of no more is not worth the second thread.
const BATCH: usize = 4096;

/// Why bytes are no image of a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("it ends too early")]
    Short,
    #[error("an owner name is malformed, outside of the zone, or there twice")]
    Owner,
    #[error("the records of {0} are malformed or out of order")]
    Records(Name),
    #[error("there are bytes behind its end")]
    Long,
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl Zone {
    /// Writes the version.
    pub fn write_image(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.owners.to_be_bytes())?;
        for (name, node) in self.iter().filter(|(_, node)| !node.rrsets.is_empty()) {
            out.write_all(node.spelled.as_deref().unwrap_or(name.as_wire()))?;
            let length: usize = node.rrsets.iter().map(|rrset| rrset.wire().len()).sum();
            out.write_all(&(length as u64).to_be_bytes())?;
            node.rrsets.iter().try_for_each(|rrset| out.write_all(rrset.wire()))?;
        }
        self.repeated.write(out)
    }

    /// Reads what [`Zone::write_image`] wrote for a zone. A second thread makes nodes out of bytes while this one puts
    /// them into the map.
    pub fn read_image(origin: &Name, bytes: &[u8]) -> Result<Zone, ImageError> {
        let mut reader = Reader { rest: bytes };
        let mut editor = Editor::new(origin.clone());
        let mut parents: HashMap<Name, u32> = HashMap::new();
        let places = reader.places(|owner| editor.nodes.0.hasher().hash_one(owner))?;
        let mut insert = |found: Result<Vec<Owner>, ImageError>| -> Result<(), ImageError> {
            for owner in found? {
                if owner.name != *origin {
                    let parent = name::parent(owner.name.as_wire()).unwrap_or_default();
                    match parents.get_mut(parent) {
                        Some(below) => *below += 1,
                        None => _ = parents.insert(Name::from_suffix(parent), 1),
                    }
                }
                editor.insert_new(owner)?;
            }
            Ok(())
        };
        let read = |places: &[usize]| Reader::owners(origin, bytes, places);
        if places.len() <= BATCH {
            insert(read(&places))?;
        } else {
            std::thread::scope(|scope| {
                let (batches, receiver) = mpsc::sync_channel(2);
                scope.spawn(move || places.chunks(BATCH).try_for_each(|places| batches.send(read(places))));
                receiver.into_iter().try_for_each(insert)
            })?;
        }
        for (parent, below) in parents {
            editor.add_below(parent, below);
        }
        editor.set_repeated(Repeated::read(&mut reader)?);
        if !reader.rest.is_empty() {
            return Err(ImageError::Long);
        }
        Ok(editor.finish()?)
    }
}

impl Editor {
    /// Takes a name that is not there yet; its parent does not hear of it.
    fn insert_new(&mut self, owner: Owner) -> Result<(), ImageError> {
        let Owner { name, spelled, rrsets } = owner;
        self.records += super::record_count(&rrsets);
        self.owners += 1;
        self.cuts += u32::from(is_cut(&rrsets, name == self.origin));
        self.wildcards += u32::from(is_wildcard(&name));
        let before = self.nodes.0.insert(name, Arc::new(Node { rrsets, below: 0, spelled }));
        if before.is_none() { Ok(()) } else { Err(ImageError::Owner) }
    }

    /// Counts names below a name, which is an empty non-terminal if it is not there.
    fn add_below(&mut self, name: Name, below: u32) {
        if let Some(node) = self.nodes.0.get_mut(&name) {
            Arc::make_mut(node).below += below;
        } else {
            self.nodes.0.insert(name.clone(), Arc::new(Node { rrsets: RRsets::default(), below, spelled: None }));
            self.link(&name);
        }
    }
}

/// One name of the zone.
struct Owner {
    name: Name,
    /// As the primary spells it, where that is not lowercase.
    spelled: Option<Arc<[u8]>>,
    rrsets: RRsets,
}

/// What is left to read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Takes a number.
    fn number(&mut self) -> Result<u64, ImageError> {
        let (number, rest) = self.rest.split_first_chunk().ok_or(ImageError::Short)?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*number))
    }

    /// Takes all names with their records; returns where each begins, those next to each other that the map holds next to
    /// each other. In the order of the bytes, each insertion would have to fetch another part of the map from memory.
    fn places(&mut self, hash: impl Fn(&[u8]) -> u64) -> Result<Vec<usize>, ImageError> {
        let count = self.number()?;
        let mut begun = self.rest.len();
        let mut places = Vec::new();
        let mut starts = [0usize; PARTS + 1];
        let whole = begun + size_of::<u64>();
        for _ in 0..count {
            let (owner, rest) = self.rest.split_at(name::plain_end(self.rest).ok_or(ImageError::Owner)?);
            let mut lower = [0; name::MAX_NAME_BYTES];
            let lower = &mut lower[..owner.len()];
            lower.copy_from_slice(owner);
            lower.make_ascii_lowercase();
            let part = hash(lower) as usize % PARTS;
            places.push((part, whole - begun));
            starts[part + 1] += 1;
            self.rest = rest;
            let length = usize::try_from(self.number()?).map_err(|_| ImageError::Short)?;
            self.rest = self.rest.get(length..).ok_or(ImageError::Short)?;
            begun = self.rest.len();
        }
        for part in 0..PARTS {
            starts[part + 1] += starts[part];
        }
        let mut sorted = vec![0; places.len()];
        for (part, place) in places {
            sorted[starts[part]] = place;
            starts[part] += 1;
        }
        Ok(sorted)
    }

    /// Reads the names at these places.
    fn owners(origin: &Name, bytes: &[u8], places: &[usize]) -> Result<Vec<Owner>, ImageError> {
        let mut scratch = Vec::new();
        places.iter().map(|&at| Reader { rest: &bytes[at..] }.owner(origin, &mut scratch)).collect()
    }

    /// Takes a name with its records.
    fn owner(&mut self, origin: &Name, scratch: &mut Vec<Arc<RRset>>) -> Result<Owner, ImageError> {
        let end = name::plain_end(self.rest).ok_or(ImageError::Owner)?;
        let (wire, rest) = self.rest.split_at(end);
        self.rest = rest;
        let lower = wire.iter().all(|byte| !byte.is_ascii_uppercase());
        let name = if lower { Name::from_suffix(wire) } else { Name::from_suffix(&wire.to_ascii_lowercase()) };
        if !name.is_within(origin) {
            return Err(ImageError::Owner);
        }
        let rrsets = self.rrsets(&name, origin, scratch)?;
        Ok(Owner { name, spelled: (!lower).then(|| wire.into()), rrsets })
    }

    /// Takes the records of a name.
    fn rrsets(&mut self, owner: &Name, origin: &Name, found: &mut Vec<Arc<RRset>>) -> Result<RRsets, ImageError> {
        let wrong = || ImageError::Records(owner.clone());
        let length = usize::try_from(self.number()?).map_err(|_| ImageError::Short)?;
        let (mut records, rest) = self.rest.split_at_checked(length).ok_or(ImageError::Short)?;
        self.rest = rest;
        found.clear();
        while !records.is_empty() {
            let (rrset, rest) = RRset::read_wire(records).ok_or_else(wrong)?;
            let in_order = found.last().is_none_or(|last| last.rtype < rrset.rtype);
            if !in_order || rrset.rtype == rtype::SOA && owner != origin {
                return Err(wrong());
            }
            records = rest;
            found.push(Arc::new(rrset));
        }
        let aliases = found.iter().any(|rrset| matches!(rrset.rtype, rtype::CNAME | rtype::DNAME));
        if found.is_empty() || aliases && settle_aliases(found) > 0 {
            return Err(wrong());
        }
        Ok(found.drain(..).collect())
    }
}

impl Repeated {
    /// Writes what is known: whether anything is, the hash of a well-known record, number of hashes, hashes.
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&u64::from(self.unknown).to_be_bytes())?;
        out.write_all(&well_known_hash().to_be_bytes())?;
        out.write_all(&(self.hashes.len() as u64).to_be_bytes())?;
        self.hashes.iter().try_for_each(|hash| out.write_all(&hash.to_be_bytes()))
    }

    /// Reads what was known. Hashes of another build of the program mean nothing here, as the well-known one tells.
    fn read(reader: &mut Reader<'_>) -> Result<Repeated, ImageError> {
        let (unknown, hash, count) = (reader.number()? != 0, reader.number()?, reader.number()?);
        let mut repeated = Repeated { unknown, ..Repeated::default() };
        for _ in 0..count {
            repeated.hashes.insert(reader.number()?);
        }
        Ok(if hash == well_known_hash() || repeated.is_none() { repeated } else { Repeated::unknown() })
    }
}

/// The hash of a record that never changes.
fn well_known_hash() -> u64 {
    hash_record(b"\x09aggregator\x00", rtype::TXT, b"\x05hello")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arbitrary_text, zone};
    use super::*;
    use proptest::prelude::*;

    fn image(zone: &Zone) -> Vec<u8> {
        let mut bytes = Vec::new();
        zone.write_image(&mut bytes).unwrap();
        bytes
    }

    const TEXT: &str =
        "@ 30 SOA 1\n@ 30 NS ns.x.\nWeb 30 A 192.0.2.1\nweb 30 A 192.0.2.1\nb.c.d 5 TXT t\n*.d 5 A 192.0.2.1";

    #[test]
    fn what_is_known_of_copies_survives() {
        let zone = zone("z.", TEXT);
        let read = Zone::read_image(&zone.origin, &image(&zone)).unwrap();
        assert!(read.repeated.holds(b"\x03web\x01z\x00", rtype::A, &[192, 0, 2, 1]));
        assert!(!read.repeated.holds(b"\x01d\x01z\x00", rtype::A, &[192, 0, 2, 1]));
        let unknown = Zone { repeated: Repeated::unknown(), ..zone.clone() };
        assert!(!Zone::read_image(&zone.origin, &image(&unknown)).unwrap().repeated.is_none());
        // Hashes of another program.
        let mut bytes = image(&zone);
        let at = bytes.len() - 24;
        bytes[at] ^= 1;
        let read = Zone::read_image(&zone.origin, &bytes).unwrap();
        assert!(read.repeated.holds(b"\x01d\x01z\x00", rtype::A, &[192, 0, 2, 1]), "anything may be repeated");
    }

    #[test]
    fn a_large_zone_is_read_by_two_threads() {
        let lines = (0..3 * BATCH).map(|index| format!("a{index}.b{} 30 A 192.0.2.1\n", index / 7));
        let zone = zone("z.", &format!("@ 30 SOA 1\n{}", lines.collect::<String>()));
        let mut bytes = image(&zone);
        assert!(Zone::read_image(&zone.origin, &bytes).unwrap() == zone);
        // The class of the last record.
        let at = bytes.len() - 24 - 12;
        bytes[at] = 9;
        assert!(matches!(Zone::read_image(&zone.origin, &bytes), Err(ImageError::Records(_))));
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        let zone = zone("z.", TEXT);
        let other = Name::parse("y.").unwrap();
        assert_eq!(Zone::read_image(&other, &image(&zone)).unwrap_err(), ImageError::Owner);
        assert_eq!(Zone::read_image(&other, &[]).unwrap_err(), ImageError::Short);
        assert_eq!(Zone::read_image(&other, &[0; 32]).unwrap_err(), ImageError::Zone(ZoneError::NoSoa));
        let more = [image(&zone), vec![0]].concat();
        assert_eq!(Zone::read_image(&zone.origin, &more).unwrap_err(), ImageError::Long);
    }

    proptest! {
        #[test]
        fn images_give_the_zone_back(text in arbitrary_text(), upper: bool) {
            let zone = zone("z.", &if upper { text.replace("\na ", "\nA ") } else { text });
            let read = Zone::read_image(&zone.origin, &image(&zone)).unwrap();
            prop_assert_eq!(&read, &zone);
            let counters = |zone: &Zone| (zone.records, zone.owners, zone.cuts, zone.wildcards, zone.soa);
            prop_assert_eq!(counters(&read), counters(&zone));
            prop_assert_eq!(&read.negative, &zone.negative);
        }

        /// Damage is refused or gives a zone whose image gives that zone.
        #[test]
        fn damage_never_breaks_invariants(text in arbitrary_text(), at in any::<prop::sample::Index>(), flip in 1u8.., cut: bool) {
            let zone = zone("z.", &text);
            let mut bytes = image(&zone);
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
            if let Ok(read) = Zone::read_image(&zone.origin, &bytes) {
                prop_assert!(!cut);
                for (name, node) in read.iter() {
                    let below = read.iter().filter(|(other, _)| **other != read.origin && other.parent().as_ref() == Some(name));
                    prop_assert_eq!(node.below as usize, below.count());
                    prop_assert!(name.is_within(&read.origin) && (*name == read.origin || read.get(name.parent().unwrap().as_wire()).is_some()));
                }
                prop_assert_eq!(Zone::read_image(&zone.origin, &image(&read)).unwrap(), read);
            }
        }
    }
}
