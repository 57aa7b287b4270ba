//! A whole version as bytes, for a file, and back again without a comparison or a sort.
//!
//! The bytes: number of owner names; for each its wire form as spelled, the length of its records and these in answer form;
//! then what is known of repeated records. Whoever keeps the bytes guards them with a checksum; reading checks the form of
//! everything all the same, so no bytes make a zone that breaks the invariants of [`Zone`].
//!
//! Cost: O(bytes); reading also sorts the names by their hashes.

use super::builder::Builder;
use super::node;
use super::repeated::hash_record;
use crate::name::{self, Name};
use crate::rr::{RRset, rtype};
use crate::zone::{Repeated, Zone, ZoneError, settle_aliases};
use std::io::{self, Write};
use std::sync::Arc;

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
        let mut records = Vec::new();
        for node in self.nodes().filter(|node| !node.is_empty()) {
            self.owner_of(node).into_iter().try_for_each(|part| out.write_all(part))?;
            records.clear();
            node.rrsets().for_each(|set| set.write_wire(&mut records));
            out.write_all(&(records.len() as u64).to_be_bytes())?;
            out.write_all(&records)?;
        }
        self.repeated.write(out)
    }

    /// Reads what [`Zone::write_image`] wrote for a zone.
    pub fn read_image(origin: &Name, bytes: &[u8]) -> Result<Zone, ImageError> {
        let mut reader = Reader { rest: bytes };
        let mut builder = Builder::new(origin.clone());
        let mut sets = Vec::new();
        for _ in 0..reader.number()? {
            reader.owner(origin, &mut sets, &mut builder)?;
        }
        builder.sort(|_| Err(ImageError::Owner))?;
        let repeated = Repeated::read(&mut reader)?;
        if !reader.rest.is_empty() {
            return Err(ImageError::Long);
        }
        let (mut editor, _) = builder.into_editor(None, &[]);
        editor.set_repeated(repeated);
        Ok(editor.finish()?)
    }
}

/// What is left to read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// Takes a number.
    fn number(&mut self) -> Result<u64, ImageError> {
        let (number, rest) = self.rest.split_first_chunk().ok_or(ImageError::Short)?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*number))
    }

    /// Takes a name with its records.
    fn owner(&mut self, origin: &Name, sets: &mut Vec<u8>, builder: &mut Builder<'_>) -> Result<(), ImageError> {
        let end = name::plain_end(self.rest).ok_or(ImageError::Owner)?;
        let (wire, rest) = self.rest.split_at(end);
        self.rest = rest;
        let mut lower = [0; name::MAX_NAME_BYTES];
        let lower = &mut lower[..wire.len()];
        lower.copy_from_slice(wire);
        lower.make_ascii_lowercase();
        let cut = name::suffix_offset(lower, origin.as_wire()).ok_or(ImageError::Owner)?;
        let length = usize::try_from(self.number()?).map_err(|_| ImageError::Short)?;
        let (records, rest) = self.rest.split_at_checked(length).ok_or(ImageError::Short)?;
        self.rest = rest;
        if !read_sets(records, cut == 0, sets) {
            return Err(ImageError::Records(Name::from_suffix(lower)));
        }
        builder.push_sets(&lower[..cut], (lower != wire).then_some(wire), sets);
        Ok(())
    }
}

/// Turns the records of a name in answer form into sets. False when no name of a zone holds such.
fn read_sets(mut records: &[u8], at_origin: bool, sets: &mut Vec<u8>) -> bool {
    sets.clear();
    let (mut last, mut aliases) = (None, false);
    while !records.is_empty() {
        let Some((rtype, rest)) = RRset::read_wire(records, sets) else { return false };
        let in_order = last.is_none_or(|last| last < rtype);
        if !in_order || rtype == rtype::SOA && !at_origin {
            return false;
        }
        aliases |= matches!(rtype, rtype::CNAME | rtype::DNAME);
        (last, records) = (Some(rtype), rest);
    }
    let is_settled = || {
        let mut rrsets = node::sets(sets).map(|set| Arc::new(set.to_rrset())).collect();
        settle_aliases(&mut rrsets) == 0
    };
    last.is_some() && (!aliases || is_settled())
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
    fn a_large_zone_comes_back() {
        let lines = (0..10_000).map(|index| format!("a{index}.b{} 30 A 192.0.2.1\n", index / 7));
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
                    let below = read.iter().filter(|(other, _)| *other != read.origin && other.parent().as_ref() == Some(&name));
                    prop_assert_eq!(node.below as usize, below.count());
                    prop_assert!(name.is_within(&read.origin) && (name == read.origin || read.get(name.parent().unwrap().as_wire()).is_some()));
                }
                prop_assert_eq!(Zone::read_image(&zone.origin, &image(&read)).unwrap(), read);
            }
        }
    }
}
