//! The catalog zone (RFC 9432, schema version 2): a zone whose records list the zones that are served, so that
//! secondaries take up new ones and let go of old ones by themselves.
//!
//! ```text
//! catalog.example.com.                    0 SOA ns1.example.com. invalid. serial …
//! catalog.example.com.                    0 NS  invalid.
//! version.catalog.example.com.            0 TXT "2"
//! <label>.zones.catalog.example.com.      0 PTR us-west-1.cns.example.com.
//! ```
//!
//! Invariants: a member's label depends on its name alone, so it is the same on every replica and after every restart:
//! a consumer that sees another label takes the zone for a new one and throws its data away (RFC 9432 section 5.4). Two
//! members never share a label. The zone is no member of itself.
//!
//! Whether the members have changed is known from `touched`: [`build`] with the last version's serial and that version
//! as base touches nothing when they have not. Otherwise the serial is that of [`next_serial`].
//!
//! [`listing`] is the other direction: it reads the catalogs of other servers.
//!
//! Cost: O(members).

pub mod listing;

use crate::zone::{Loaded, Loader, Soa, Zone};
use std::fmt::Write;
use wire::name::{MAX_NAME_BYTES, Name, NameBuf, NameError};
use wire::rr::rtype;
use wire::serial::Serial;

/// Records of a catalog are for transfers, not for caches.
const TTL: u32 = 0;
/// Seconds between polls of a consumer that missed the NOTIFY, and between polls that fail.
const REFRESH: u32 = 300;
const RETRY: u32 = 60;
/// 24 weeks, the most that BIND keeps a zone: an old list of zones is of more use than none.
const EXPIRE: u32 = 14_515_200;
/// The label of one member, a number of 128 bits in hexadecimal digits.
const LABEL_BYTES: usize = 32;

/// Settings of a catalog zone, beside its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogPlan {
    pub origin: Name,
    /// The server that publishes it, which stands as MNAME: the serials of two replicas have nothing to do with each
    /// other, and with MNAME a difference (RFC 1995) that continues the other's version is not found.
    pub server_name: Name,
}

impl CatalogPlan {
    /// Returns true if the names of members fit below the origin.
    pub fn has_room(&self) -> bool {
        let members = b"\x05zones".len() + 1 + LABEL_BYTES;
        self.origin.as_wire().len() + members <= MAX_NAME_BYTES
    }
}

/// Makes the catalog zone of these members, in any order; what is equal to the base version is shared with it.
///
/// An origin without room (see [`CatalogPlan::has_room`]) makes a catalog without members.
pub fn build(plan: &CatalogPlan, members: &[Name], serial: Serial, base: Option<&Zone>) -> Loaded {
    let mut loader = Loader::new(plan.origin.clone());
    let invalid = Name::parse("invalid").expect("one short label");
    let soa = Soa { serial, refresh: REFRESH, retry: RETRY, expire: EXPIRE, minimum: TTL };
    let apex = buffer(&plan.origin);
    loader.push(&apex, rtype::SOA, TTL, &soa.to_rdata(plan.server_name.as_wire(), invalid.as_wire()));
    // RFC 9432 section 4: nobody asks a catalog's name servers; one that cannot exist is what it recommends.
    loader.push(&apex, rtype::NS, TTL, invalid.as_wire());
    // RFC 9432 section 4.2.1.
    if let Ok(version) = plan.origin.prepend(b"version") {
        loader.push(&buffer(&version), rtype::TXT, TTL, b"\x012");
    }
    for member in members.iter().filter(|member| **member != plan.origin) {
        if let Ok(owner) = member_name(&plan.origin, member) {
            loader.push(&buffer(&owner), rtype::PTR, TTL, member.as_wire());
        }
    }
    loader.finish(base).expect("one SOA at the origin")
}

/// The serial of a catalog whose members have changed: the time, or one more than the last where that is not newer.
///
/// The time keeps it rising when what was last has been lost.
pub fn next_serial(last: Option<Serial>, unix: u64) -> Serial {
    // Serials are a circle of 32 bits (RFC 1982), on which the time keeps going round.
    let time = Serial(unix as u32);
    match last {
        Some(last) if !time.newer_than(last) => last.advance(1),
        _ => time,
    }
}

/// The owner name of a member's PTR record (RFC 9432 section 4.1).
fn member_name(origin: &Name, member: &Name) -> Result<Name, NameError> {
    let mut label = String::with_capacity(LABEL_BYTES);
    write!(label, "{:032x}", hash(member.as_wire())).expect("a string takes everything");
    origin.prepend(b"zones")?.prepend(label.as_bytes())
}

/// FNV-1a of 128 bits: the same in every process and version, and wide enough that two members never meet in it.
fn hash(wire: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    wire.iter().fold(BASIS, |hash, octet| (hash ^ u128::from(*octet)).wrapping_mul(PRIME))
}

/// The name as the loader takes it.
fn buffer(name: &Name) -> NameBuf {
    NameBuf::from_wire(name.as_wire()).expect("a name is its own wire form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn plan() -> CatalogPlan {
        CatalogPlan { origin: name("catalog.example.com"), server_name: name("ns1.example.com") }
    }

    fn members() -> Vec<Name> {
        ["us-west-1.cns.example.com", "us-west.cns.example.com", "51.198.in-addr.arpa", "catalog.example.com"]
            .map(name)
            .into()
    }

    #[test]
    fn the_zone_lists_every_member_but_itself() {
        let zone = build(&plan(), &members(), Serial(7), None).zone;
        let text = format!("{zone:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "catalog.example.com. 0 IN SOA ns1.example.com. invalid. 7 300 60 14515200 0",
                "catalog.example.com. 0 IN NS invalid.",
                "version.catalog.example.com. 0 IN TXT \"2\"",
            ]
        );
        assert_eq!(lines.len(), 6);
        for member in &members()[..3] {
            let tail = format!(".zones.catalog.example.com. 0 IN PTR {member}");
            let line = lines.iter().find(|line| line.ends_with(&tail)).unwrap();
            assert_eq!(line.find('.'), Some(LABEL_BYTES));
        }
        // Written down, because it must stay what it is from version to version.
        assert!(
            text.contains("\n1f148d859691c89efc93f293b4114b78.zones.catalog.example.com. 0 IN PTR us-west-1."),
            "{text}"
        );
    }

    #[test]
    fn the_label_is_the_known_hash() {
        // Of the test vectors that its authors publish: the empty string and "a".
        assert_eq!(hash(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(hash(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }

    #[test]
    fn equal_members_touch_nothing() {
        let first = build(&plan(), &members(), Serial(7), None).zone;
        let mut reversed = members();
        reversed.reverse();
        assert!(build(&plan(), &reversed, Serial(7), Some(&first)).touched.is_empty());
        let fewer = build(&plan(), &members()[1..], Serial(7), Some(&first));
        assert_eq!(fewer.touched.len(), 1);
        let next = build(&plan(), &members()[1..], Serial(8), Some(&first));
        assert_eq!(next.touched.len(), 2);
        assert_eq!(next.zone, build(&plan(), &members()[1..], Serial(8), None).zone);
    }

    #[test]
    fn an_origin_without_room_is_told() {
        let label = "a".repeat(63);
        let long = CatalogPlan { origin: name(&format!("{label}.{label}.{label}.{}", "a".repeat(22))), ..plan() };
        assert_eq!(long.origin.as_wire().len(), 216);
        assert!(long.has_room());
        assert_eq!(build(&long, &members(), Serial(1), None).zone.records, 7);
        let longer = CatalogPlan { origin: name(&format!("{label}.{label}.{label}.{}", "a".repeat(23))), ..plan() };
        assert!(!longer.has_room());
        assert_eq!(build(&longer, &members(), Serial(1), None).zone.records, 3);
    }

    proptest! {
        #[test]
        fn the_serial_always_rises(last: u32, unix: u64) {
            let next = next_serial(Some(Serial(last)), unix);
            prop_assert!(next.newer_than(Serial(last)));
            prop_assert!(next == Serial(unix as u32) || next == Serial(last).advance(1));
        }
    }

    #[test]
    fn the_first_serial_is_the_time() {
        assert_eq!(next_serial(None, 1_900_000_000), Serial(1_900_000_000));
        assert_eq!(next_serial(Some(Serial(5)), 1_900_000_000), Serial(1_900_000_000));
        assert_eq!(next_serial(Some(Serial(1_900_000_000)), 1_900_000_000), Serial(1_900_000_001));
    }
}
