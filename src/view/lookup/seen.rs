//! Explanation of a record's past: the version with which it came, and the records that the name had before.
//!
//! It reaches as far back as the zone's history. A record that only got another TTL or spelling has not come with that.
//!
//! Cost: O(octets of the history).

use super::report::{GoneReport, LookupStep, SeenReport};
use crate::metrics::unix_seconds;
use crate::publish::Served;
use crate::view::text::RecordText;
use crate::zone::{HistoryStep, OpenBlock, OpenDelta, Record};
use std::collections::{BTreeMap, HashSet};
use wire::rr;

/// A record's type and its data, case aside where it does not count.
type Key = (u16, Vec<u8>);

/// Arrival and removal of one record, as the history has them.
#[derive(Default)]
struct Trail<'h> {
    /// The step with which it came last; none when that was before.
    came: Option<&'h HistoryStep>,
    /// The step with which it went, and what it was then; none when it is there.
    went: Option<(&'h HistoryStep, RecordText)>,
}

/// Adds to a step since when its records are there, and the records that have gone from its name.
pub fn add_times(served: &Served, wanted: Option<u16>, step: &mut LookupStep) {
    let name = step.asked().clone();
    let at_name = |record: &Record<'_>| record.owner.eq_ignore_ascii_case(name.as_wire());
    let mut trails: BTreeMap<Key, Trail<'_>> = BTreeMap::new();
    for passed in served.history.steps() {
        let OpenDelta { removed, added, .. } = OpenDelta::new(&passed.delta);
        let keys = |block: &OpenBlock| block.iter().filter(at_name).map(|record| key_of(&record)).collect();
        let (gone, come): (HashSet<Key>, HashSet<Key>) = (keys(&removed), keys(&added));
        for record in removed.iter().filter(at_name).filter(|record| !come.contains(&key_of(record))) {
            let text = RecordText::new(record.rtype, record.ttl, record.rdata);
            trails.entry(key_of(&record)).or_default().went = Some((passed, text));
        }
        for key in come.difference(&gone) {
            trails.insert(key.clone(), Trail { came: Some(passed), went: None });
        }
    }
    for record in &mut step.records {
        // A change of serial is no other SOA.
        if record.code != rr::rtype::SOA {
            let trail = trails.get(&(record.code, rr::fold(record.code, &record.rdata)));
            record.seen = since(served, trail.and_then(|trail| trail.came));
        }
    }
    let is_meant = |(rtype, _): &Key| wanted.is_none_or(|wanted| wanted == *rtype);
    let gone = trails.into_iter().filter(|(key, _)| is_meant(key)).filter_map(|(_, trail)| {
        let (passed, text) = trail.went?;
        Some(GoneReport {
            text,
            seen: since(served, trail.came),
            last: passed.delta.from_serial(),
            gone: passed.delta.to_serial(),
            gone_at: passed.at.map(unix_seconds),
        })
    });
    step.gone = gone.collect();
}

/// Returns the key that tells one record of a name from another.
fn key_of(record: &Record<'_>) -> Key {
    (record.rtype, rr::fold(record.rtype, record.rdata))
}

/// The version with which something came, or the oldest one that is known, which had it; none when nothing is known.
fn since(served: &Served, came: Option<&HistoryStep>) -> Option<SeenReport> {
    if let Some(came) = came {
        let (serial, at) = (came.delta.to_serial(), came.at.map(unix_seconds));
        return Some(SeenReport { serial, at, before: false });
    }
    let oldest = served.history.iter().next().map(|delta| delta.from_serial());
    let begun = served.history.begun().map(unix_seconds);
    let serial = oldest.or(served.zone.as_ref().map(|zone| zone.soa.serial).filter(|_| begun.is_some()))?;
    Some(SeenReport { serial, at: begun, before: true })
}
