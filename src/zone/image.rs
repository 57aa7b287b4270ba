//! A whole version as bytes, for a file, and back again without a comparison or a sort.
//!
//! The bytes: the table; then what is known of repeated records; since format 3 whether the version may be mixed; since
//! format 4 the records that are told beside it. Whoever keeps the bytes guards them with a checksum; reading checks
//! the form of everything all the same, so no bytes make a zone that breaks the invariants of [`Zone`].
//!
//! Cost: O(bytes).

use super::aside::AsideChanges;
use super::builder::Builder;
use super::editor::Editor;
use super::repeated::well_known_hash;
use super::table::{StoredTable, Table};
use crate::zone::{Aside, ByteReader, Mixed, Repeated, Zone, ZoneError};
use std::io::{self, Write};
use wire::name::Name;

/// The format that is written.
pub const IMAGE_FORMAT: u32 = 4;
/// The oldest format that is read.
pub const OLDEST_IMAGE_FORMAT: u32 = 2;

/// Error: bytes are no image of a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("it ends too early")]
    Short,
    #[error("an owner name is malformed, outside of the zone, or there twice")]
    Owner,
    #[error("the records of {0} are malformed or out of order")]
    Records(Name),
    #[error("names are not where they are looked for")]
    Place,
    #[error("names are missing above others, or do not know how many are below")]
    Above,
    #[error("what is told beside it is malformed")]
    Aside,
    #[error("there are bytes behind its end")]
    Long,
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl Zone {
    /// Writes the version.
    pub fn write_image(&self, out: &mut impl Write) -> io::Result<()> {
        self.table.write(out)?;
        self.repeated.write(out)?;
        out.write_all(&self.mixed.to_number().to_be_bytes())?;
        let none = Aside::default();
        let mut aside = Vec::new();
        AsideChanges::between([&none, &none], self.aside()).write(&mut aside);
        out.write_all(&aside)
    }

    /// Reads an image of a zone in a format from [`OLDEST_IMAGE_FORMAT`] to [`IMAGE_FORMAT`]. What an older one does
    /// not say is not known.
    pub fn read_image(origin: &Name, bytes: &[u8], format: u32) -> Result<Zone, ImageError> {
        let mut reader = ByteReader(bytes);
        let found = Table::read(origin, &mut reader)?;
        let repeated = Repeated::read(&mut reader).ok_or(ImageError::Short)?;
        let mixed = match format {
            3.. => Mixed::from_number(reader.u64().ok_or(ImageError::Short)?),
            _ => Mixed::Open,
        };
        let mut aside = Default::default();
        if format >= 4 {
            AsideChanges::read(origin, &mut reader).ok_or(ImageError::Aside)?.apply(&mut aside);
        }
        if !reader.0.is_empty() {
            return Err(ImageError::Long);
        }
        let mut editor = match found {
            StoredTable::Table(table, counts) => Editor::with_table(origin.clone(), table, *counts),
            StoredTable::Nodes(nodes) => {
                let mut builder = Builder::new(origin.clone());
                nodes.into_iter().for_each(|node| builder.push_sets(node.owner, node.spelled, node.sets));
                builder.sort(|_| Err(ImageError::Owner))?;
                builder.into_editor(None, &[]).0
            }
        };
        editor.repeated = repeated;
        editor.mixed = mixed;
        [editor.left_out, editor.unanswered] = aside;
        Ok(editor.finish()?)
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
    fn read(reader: &mut ByteReader<'_>) -> Option<Repeated> {
        let (unknown, hash, count) = (reader.u64()? != 0, reader.u64()?, reader.u64()?);
        let mut repeated = Repeated { unknown, ..Repeated::default() };
        for _ in 0..count {
            repeated.insert_hash(reader.u64()?);
        }
        Some(if hash == well_known_hash() || repeated.is_none() { repeated } else { Repeated::unknown() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arbitrary_text, zone};
    use super::*;
    use crate::zone::AsideRecord;
    use proptest::prelude::*;
    use wire::rr::rtype;
    use wire::serial::Serial;

    fn image(zone: &Zone) -> Vec<u8> {
        let mut bytes = Vec::new();
        zone.write_image(&mut bytes).unwrap();
        bytes
    }

    fn back(origin: &Name, bytes: &[u8]) -> Result<Zone, ImageError> {
        Zone::read_image(origin, bytes, IMAGE_FORMAT)
    }

    const TEXT: &str =
        "@ 30 SOA 1\n@ 30 NS ns.x.\nWeb 30 A 192.0.2.1\nweb 30 A 192.0.2.1\nb.c.d 5 TXT t\n*.d 5 A 192.0.2.1";

    #[test]
    fn what_is_known_of_copies_survives() {
        let zone = zone("z.", TEXT);
        let read = back(&zone.origin, &image(&zone)).unwrap();
        assert!(read.repeated.holds(b"\x03web\x01z\x00", rtype::A, &[192, 0, 2, 1]));
        assert!(!read.repeated.holds(b"\x01d\x01z\x00", rtype::A, &[192, 0, 2, 1]));
        let unknown = Zone { repeated: Repeated::unknown(), ..zone.clone() };
        assert!(!back(&zone.origin, &image(&unknown)).unwrap().repeated.is_none());
        assert_eq!(read.mixed, Mixed::No);
        let mixed = Zone { mixed: Mixed::Until(Serial(7)), ..zone.clone() };
        assert_eq!(back(&zone.origin, &image(&mixed)).unwrap().mixed, mixed.mixed);
        // The formats before ended here.
        let mut old = image(&mixed);
        old.truncate(old.len() - 8);
        assert_eq!(Zone::read_image(&zone.origin, &old, 3).unwrap().mixed, mixed.mixed);
        old.truncate(old.len() - 8);
        assert_eq!(Zone::read_image(&zone.origin, &old, 2).unwrap().mixed, Mixed::Open, "it did not say");
        // Hashes of another program.
        let mut bytes = image(&zone);
        let at = bytes.len() - 40;
        bytes[at] ^= 1;
        let read = back(&zone.origin, &bytes).unwrap();
        assert!(read.repeated.holds(b"\x01d\x01z\x00", rtype::A, &[192, 0, 2, 1]), "anything may be repeated");
    }

    #[test]
    fn what_is_told_beside_a_version_survives() {
        let mut zone =
            zone("z.", "@ 30 SOA 1\n@ 30 CNAME x\nweb 30 A 192.0.2.1\nweb 60 CNAME x\ntwo 30 DNAME b\ntwo 30 DNAME a");
        assert_eq!((zone.left_out.names(), zone.left_out.records()), (3, 3));
        let record = AsideRecord { rtype: rtype::A, ttl: 0, rdata: [192, 0, 2, 1].into() };
        zone.unanswered.add(Name::parse("web.z").unwrap(), vec![record]);
        let bytes = image(&zone);
        let read = back(&zone.origin, &bytes).unwrap();
        assert_eq!((&read, &read.left_out, &read.unanswered), (&zone, &zone.left_out, &zone.unanswered));
        assert_eq!(read.octets(), zone.octets());
        // What is not of the zone, or cut, is refused.
        let mut damaged = bytes.clone();
        *damaged.iter_mut().rev().nth(4 + 10 + 4).unwrap() ^= 1;
        assert_eq!(back(&zone.origin, &damaged).unwrap_err(), ImageError::Aside);
        assert_eq!(back(&zone.origin, &bytes[..bytes.len() - 1]).unwrap_err(), ImageError::Aside);
    }

    #[test]
    fn a_large_zone_comes_back() {
        let lines = (0..10_000).map(|index| format!("a{index}.b{} 30 A 192.0.2.1\n", index / 7));
        let zone = zone("z.", &format!("@ 30 SOA 1\n{}", lines.collect::<String>()));
        let bytes = image(&zone);
        let read = back(&zone.origin, &bytes).unwrap();
        assert!(read == zone && image(&read) == bytes);
        // Another process had other keys.
        let mut other = bytes.clone();
        other[3] ^= 1;
        let read = back(&zone.origin, &other).unwrap();
        assert!(read == zone && (read.records, read.names()) == (zone.records, zone.names()));
        // What a region shares with its members is written as if it were its own.
        let editor = Editor::from_zone(&zone).finish_beside(&[&zone]).unwrap();
        assert!(back(&zone.origin, &image(&editor)).unwrap() == zone);
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        let zone = zone("z.", TEXT);
        let other = Name::parse("y.").unwrap();
        assert_eq!(back(&other, &image(&zone)).unwrap_err(), ImageError::Owner);
        assert_eq!(back(&other, &[]).unwrap_err(), ImageError::Short);
        // Keys, one shard, the head of that, nothing repeated, and nothing beside it.
        let empty = [&[0; 28][..], &[0, 0, 0, 4], &[0; 4 + 40]].concat();
        assert_eq!(back(&other, &empty).unwrap_err(), ImageError::Zone(ZoneError::NoSoa));
        let more = [image(&zone), vec![0]].concat();
        assert_eq!(back(&zone.origin, &more).unwrap_err(), ImageError::Long);
    }

    proptest! {
        #[test]
        fn images_give_the_zone_back(text in arbitrary_text(), upper: bool) {
            let zone = zone("z.", &if upper { text.replace("\na ", "\nA ") } else { text });
            let read = back(&zone.origin, &image(&zone)).unwrap();
            prop_assert_eq!(&read, &zone);
            let counters = |zone: &Zone| (zone.records, zone.owners, zone.cuts, zone.wildcards, zone.soa);
            prop_assert_eq!(counters(&read), counters(&zone));
            prop_assert_eq!(&read.negative, &zone.negative);
            prop_assert_eq!((&read.left_out, &read.unanswered), (&zone.left_out, &zone.unanswered));
        }

        /// Damage is refused or gives a zone whose image gives that zone.
        #[test]
        fn damage_never_breaks_invariants(text in arbitrary_text(), at in any::<prop::sample::Index>(), flip in 1u8.., cut: bool) {
            let zone = zone("z.", &text);
            let mut bytes = image(&zone);
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
            if let Ok(read) = back(&zone.origin, &bytes) {
                prop_assert!(!cut);
                for (name, node) in read.iter() {
                    let below = read.iter().filter(|(other, _)| *other != read.origin && other.parent().as_ref() == Some(&name));
                    prop_assert_eq!(node.below as usize, below.count());
                    prop_assert!(name.is_within(&read.origin) && (name == read.origin || read.get(name.parent().unwrap().as_wire()).is_some()));
                }
                prop_assert_eq!(back(&zone.origin, &image(&read)).unwrap(), read);
            }
        }
    }
}
