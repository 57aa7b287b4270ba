//! New versions of the zones of an inventory.
//!
//! A zone is made whole when it is the first time, or when the version that was made last is not the one that is
//! published; otherwise only the names that changes touched are made anew. Both ways lead to the same zone.
//!
//! **Serials.** A new version has the tick of its moment plus one, as CNS has it (`docs/cns.md`), or the serial after the
//! last one where that is newer (RFC 1982); so an inventory whose state was lost does not fall behind what it has
//! published, unless it published faster than one version in ten seconds or its clock is wrong: then what its secondaries
//! have counts as the last one (`elsewhere`). A document may have a serial of its own, which
//! counts when it is newer than the last. Each zone counts by itself, and one whose records are as they were keeps its
//! version.
//!
//! Cost: O(touched names and their records), or O(records) for what is made whole.
//!
//! RFCs: 1982 (serials).

use super::plan::ApexPlan;
use crate::zone::{Anomalies, Editor, Loaded, RRsets, Repeated, Zone, ZoneError, apex_rrsets};
use chrono::{DateTime, Datelike, Timelike};
use std::collections::HashSet;
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// Takes the records of a name.
pub type Take<'t> = &'t mut dyn FnMut(&Name, RRsets);

/// Names that are to be made.
pub enum Names<'n> {
    /// All that the zone has, each told once with its records.
    All(&'n dyn Fn(Take<'_>)),
    /// Those that a change touched.
    Some(Vec<Name>),
}

/// A new version of a zone.
pub struct NewVersion {
    pub zone: Name,
    pub loaded: Loaded,
    /// The version that it was compared with.
    pub base: Option<Arc<Zone>>,
}

/// What a version is made with.
pub struct Making<'m> {
    pub origin: &'m Name,
    pub apex: &'m ApexPlan,
    pub base: Option<Arc<Zone>>,
    /// Milliseconds since the epoch.
    pub now: u64,
    /// The document's own serial.
    pub serial: Option<Serial>,
    /// Serial of the zone elsewhere, which is not known here.
    pub elsewhere: Option<Serial>,
}

impl Making<'_> {
    /// Makes the version; none if the zone is what the base is.
    pub fn make(self, names: Names<'_>, records: impl Fn(&Name) -> RRsets) -> Result<Option<NewVersion>, ZoneError> {
        let Making { origin, apex, base, now, serial, elsewhere } = self;
        let mut editor = base.as_ref().map_or_else(|| Editor::new(origin.clone()), |base| Editor::from_zone(base));
        editor.repeated = Repeated::default();
        let mut touched = Vec::new();
        let mut set = |name: &Name, records: RRsets| {
            if name != origin && editor.set(name, records, None) {
                touched.push(name.clone());
            }
        };
        match names {
            Names::Some(names) => names.iter().for_each(|name| set(name, records(name))),
            Names::All(tell) => {
                let mut kept: HashSet<Name> = HashSet::new();
                tell(&mut |name, records| {
                    if base.is_some() {
                        kept.insert(name.clone());
                    }
                    set(name, records);
                });
                let gone = base.iter().flat_map(|base| base.iter()).filter(|(name, _)| !kept.contains(name));
                gone.for_each(|(name, _)| set(&name, RRsets::default()));
            }
        }
        let at_apex = records(origin);
        let rrsets = |serial| apex_rrsets(&apex.soa, &apex.ns, apex.ns_ttl, &at_apex, serial);
        let last = base.as_ref().map(|base| base.soa.serial).or(elsewhere);
        let newer = serial.filter(|serial| last.is_none_or(|last| serial.newer_than(last)));
        let same = base.as_ref().map(|base| base.soa.serial);
        let changed = same.is_none_or(|same| editor.set(origin, rrsets(same), None)) || !touched.is_empty();
        if !changed && newer.is_none() {
            return Ok(None);
        }
        editor.set(origin, rrsets(newer.unwrap_or_else(|| next_serial(last, now))), None);
        touched.push(origin.clone());
        let zone = editor.finish()?;
        let loaded = Loaded { zone, touched, anomalies: Anomalies::default() };
        Ok(Some(NewVersion { zone: origin.clone(), loaded, base }))
    }
}

/// The serial after the last one at a moment.
fn next_serial(last: Option<Serial>, now: u64) -> Serial {
    let own = Serial(tick(now)).advance(1);
    match last.map(|last| last.advance(1)) {
        Some(next) if !own.newer_than(next) => next,
        _ => own,
    }
}

/// CNS' count of ten seconds, in UTC: months have 31 days.
fn tick(now: u64) -> u32 {
    let Some(at) = i64::try_from(now).ok().and_then(DateTime::from_timestamp_millis) else { return 0 };
    let years = u32::try_from(at.year() - 1900).unwrap_or(0);
    let days = years.wrapping_mul(12).wrapping_add(at.month0()).wrapping_mul(31).wrapping_add(at.day0());
    days.wrapping_mul(24 * 60 * 6).wrapping_add(at.hour() * 360 + at.minute() * 6 + at.second() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::SoaFields;
    use wire::rr::{RRset, rtype};

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn address(last: u8) -> RRsets {
        vec![Arc::new(RRset::build(rtype::A, 30, vec![&[192, 0, 2, last]]).unwrap())].into()
    }

    /// Makes a version with these names and no others, or with these made anew.
    fn make(
        base: Option<&Arc<Zone>>,
        now: u64,
        serial: Option<u32>,
        (is_all, names): (bool, &[&str]),
        last: u8,
    ) -> Option<Arc<Zone>> {
        let mname = name("ns.");
        let soa = SoaFields { rname: mname.clone(), mname, ttl: 30, refresh: 30, retry: 60, expire: 600, minimum: 30 };
        let apex = ApexPlan { soa, ns: vec![name("ns.")], ns_ttl: 3600, secondaries: Vec::new() };
        let origin = name("z.example");
        let serial = serial.map(Serial);
        let making = Making { origin: &origin, apex: &apex, base: base.cloned(), now, serial, elsewhere: None };
        let records = |name: &Name| if *name == origin { RRsets::default() } else { address(last) };
        let names: Vec<Name> = names.iter().map(|text| name(text)).collect();
        let tell = |take: Take<'_>| names.iter().for_each(|name| take(name, records(name)));
        let names = if is_all { Names::All(&tell) } else { Names::Some(names.clone()) };
        making.make(names, records).unwrap().map(|new| Arc::new(new.loaded.zone))
    }

    #[test]
    fn a_tick_is_that_of_cns() {
        // A serial that CNS published at 2026-02-01T10:00:00Z was the tick and one.
        let at = DateTime::parse_from_rfc3339("2026-02-01T10:00:09.999Z").unwrap();
        let expected = ((((126 * 12 + 1) * 31) * 24 + 10) * 60) * 6;
        assert_eq!(tick(at.timestamp_millis().unsigned_abs()), expected);
        assert_eq!(tick(at.timestamp_millis().unsigned_abs() + 1), expected + 1);
    }

    #[test]
    fn serials_rise_with_changes_only() {
        let now = 1_800_000_000_000;
        let all = (true, &["a.z.example", "b.z.example"][..]);
        let first = make(None, now, None, all, 1).unwrap();
        assert_eq!(first.soa.serial, Serial(tick(now) + 1));
        assert!(make(Some(&first), now + 99_000, None, all, 1).is_none(), "nothing has changed");
        let second = make(Some(&first), now, None, all, 2).unwrap();
        assert_eq!(second.soa.serial, Serial(tick(now) + 2), "faster than ticks");
        let later = make(Some(&second), now + 60_000, None, (false, &["a.z.example"]), 3).unwrap();
        assert_eq!(later.soa.serial, Serial(tick(now) + 7), "the tick again");
        let back = make(Some(&later), now - 3_600_000, None, all, 4).unwrap();
        assert_eq!(back.soa.serial, Serial(tick(now) + 8), "a clock that was set back");
        let own = make(Some(&back), now, Some(back.soa.serial.0 + 1000), all, 4).unwrap();
        assert_eq!(own.soa.serial, Serial(tick(now) + 1008), "a newer serial of the document counts by itself");
        assert!(make(Some(&own), now, Some(7), all, 4).is_none(), "an older one does not");
    }

    #[test]
    fn names_that_are_gone_leave() {
        let first = make(None, 0, Some(1), (true, &["a.z.example", "b.z.example"]), 1).unwrap();
        let second = make(Some(&first), 0, Some(2), (true, &["b.z.example"]), 1).unwrap();
        assert!(second.get(name("a.z.example").as_wire()).is_none());
        assert!(second.get(name("b.z.example").as_wire()).is_some());
    }
}
