//! What `aggregator diff` shows: the records that two versions of a zone do not have in common.
//!
//! The older version is one that the zone's history still reaches; the newer one is what is served. Records are lines of
//! a zone file, in canonical order (RFC 4034 section 6.1), what was removed at a name before what was added there.
//!
//! Cost: O(changes log changes), whatever the size of the zone.

use crate::name::{Name, NameBuf, fmt_wire};
use crate::publish::Served;
use crate::rr::{RRset, RdataText, TypeName, rtype};
use crate::serial::Serial;
use crate::zone::{Block, Delta, History, Record};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

/// Serials that an error names at most.
const NAMED_SERIALS: usize = 10;

/// Why there is no difference to show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    #[error("zone {0} has not been transferred yet")]
    NoData(Name),
    #[error("the history of zone {0} holds serial {1} alone; there is nothing to compare with")]
    NoHistory(Name, Serial),
    #[error("the history of zone {0} does not have serial {1}; it has {2}")]
    Unreachable(Name, Serial, String),
    #[error("the history of zone {0} has a gap; try again")]
    Gap(Name),
}

/// Describes what changed since the version with a serial, or since the previous one, in words and for programs.
pub fn describe(served: &Served, from: Option<Serial>) -> Result<(String, Value), DiffError> {
    let origin = || served.origin.clone();
    let present = served.zone.as_ref().ok_or_else(|| DiffError::NoData(origin()))?.soa.serial;
    if from == Some(present) {
        return Ok((String::new(), describe_json(&served.origin, [present; 2], Vec::new())));
    }
    let steps = match from {
        Some(serial) => served.history.since_serial(serial),
        None => served.history.iter().last().map(|last| vec![last.clone()]),
    };
    let steps = steps.ok_or_else(|| match from {
        Some(serial) if !served.history.is_empty() => {
            DiffError::Unreachable(origin(), serial, name_serials(&served.history, present))
        }
        _ => DiffError::NoHistory(origin(), present),
    })?;
    let delta = Delta::concatenate(&steps).ok_or_else(|| DiffError::Gap(origin()))?;
    let changes = list_changes(&served.origin, &delta);
    let [from, to] = [delta.from_serial(), delta.to_serial()];
    let mut text = format!("--- {} {from}\n+++ {} {to}\n", served.origin, served.origin);
    for change in &changes {
        _ = writeln!(text, "{}{}", change.sign, change.line());
    }
    Ok((text, describe_json(&served.origin, [from, to], changes)))
}

/// The serials that the history begins its steps with, and the present one, the middle of a long list left out.
fn name_serials(history: &History, present: Serial) -> String {
    let mut serials: Vec<String> = history.iter().map(|delta| delta.from_serial().to_string()).collect();
    serials.push(present.to_string());
    if serials.len() > NAMED_SERIALS {
        let left_out = serials.len() - NAMED_SERIALS;
        serials.splice(1..=left_out, [format!("({left_out} more)")]);
    }
    serials.join(", ")
}

//--- Changes ---

/// A record that came or went.
struct Change {
    sign: char,
    /// For sorting.
    name: Name,
    owner: String,
    ttl: u32,
    rtype: u16,
    /// As zone files have it.
    data: String,
}

impl Change {
    /// Reads a record.
    fn new(sign: char, record: &Record<'_>) -> Option<Change> {
        let mut owner = String::new();
        fmt_wire(record.owner, &mut owner).ok()?;
        let name = NameBuf::from_wire(record.owner).ok()?.to_name();
        let data = RdataText(record.rtype, record.rdata).to_string();
        Some(Change { sign, name, owner, ttl: record.ttl, rtype: record.rtype, data })
    }

    /// The record as a line of a zone file.
    fn line(&self) -> String {
        format!("{} {} IN {} {}", self.owner, self.ttl, TypeName(self.rtype), self.data)
    }

    /// The order of the lines: names, then types with the SOA first, then what went before what came. Records of one set
    /// keep their order.
    fn compare(&self, other: &Change) -> Ordering {
        let rank = |change: &Change| (change.rtype != rtype::SOA, change.rtype, change.sign != '-');
        self.name.canonical_cmp(&other.name).then_with(|| rank(self).cmp(&rank(other)))
    }
}

/// All records that came or went, the SOA included, in order.
fn list_changes(origin: &Name, delta: &Delta) -> Vec<Change> {
    let mut changes = Vec::new();
    let soa = |sign: char, soa: &Arc<RRset>| {
        let rdata = soa.rdatas().next()?;
        Change::new(sign, &Record { owner: origin.as_wire(), rtype: rtype::SOA, ttl: soa.ttl, rdata })
    };
    changes.extend(soa('-', &delta.from));
    changes.extend(soa('+', &delta.to));
    let read = |sign: char, block: &Block| block.iter().filter_map(|record| Change::new(sign, &record)).collect();
    let both: [Vec<Change>; 2] = [read('-', &delta.removed), read('+', &delta.added)];
    changes.extend(both.into_iter().flatten());
    changes.sort_by(Change::compare);
    changes
}

/// The difference for programs.
fn describe_json(zone: &Name, [from, to]: [Serial; 2], changes: Vec<Change>) -> Value {
    let list = |sign: char| -> Vec<Value> {
        let records = changes.iter().filter(|change| change.sign == sign);
        let describe = |change: &Change| json!({ "name": change.owner, "ttl": change.ttl, "type": TypeName(change.rtype).to_string(), "data": change.data });
        records.map(describe).collect()
    };
    json!({ "zone": zone, "from": from, "to": to, "removed": list('-'), "added": list('+') })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::State;
    use crate::zone::{HistoryLimits, Loader, Zone};

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A version of zone `z.` with A records.
    fn version(serial: u32, hosts: &[(&str, u8)]) -> Zone {
        let soa = crate::zone::Soa { serial: Serial(serial), refresh: 1, retry: 2, expire: 3, minimum: 4 };
        let mut loader = Loader::new(name("z"));
        let wire = |text: &str| NameBuf::parse(text).unwrap();
        let rdata = soa.to_rdata(wire("ns").as_wire(), wire("host").as_wire());
        loader.push(&wire("z"), rtype::SOA, 60, &rdata);
        hosts.iter().for_each(|(owner, last)| loader.push(&wire(owner), 1, 60, &[192, 0, 2, *last]));
        loader.finish(None).unwrap().zone
    }

    /// A zone that went through versions with one, two and no host.
    fn served() -> Served {
        let versions =
            [version(1, &[("B.z", 1)]), version(2, &[("B.z", 1), ("a.B.z", 2)]), version(3, &[("a.B.z", 3)])];
        let mut served = Served::new(name("z"), State::Ok, Some(Arc::new(versions[2].clone())));
        for pair in versions.windows(2) {
            let delta = Delta::between(&pair[0], &pair[1], [name("b.z"), name("a.b.z")]);
            served.history.push(Arc::new(delta), &HistoryLimits::default());
        }
        served
    }

    #[test]
    fn the_previous_version_is_compared_unless_asked_otherwise() {
        let (text, _) = describe(&served(), None).unwrap();
        let soa = |sign: char, serial: u32| format!("{sign}z. 60 IN SOA ns. host. {serial} 1 2 3 4\n");
        let expected = format!(
            "--- z. 2\n+++ z. 3\n{}{}-B.z. 60 IN A 192.0.2.1\n-a.B.z. 60 IN A 192.0.2.2\n+a.B.z. 60 IN A 192.0.2.3\n",
            soa('-', 2),
            soa('+', 3)
        );
        assert_eq!(text, expected);
        let (text, data) = describe(&served(), Some(Serial(1))).unwrap();
        let expected = format!(
            "--- z. 1\n+++ z. 3\n{}{}-B.z. 60 IN A 192.0.2.1\n+a.B.z. 60 IN A 192.0.2.3\n",
            soa('-', 1),
            soa('+', 3)
        );
        assert_eq!(text, expected);
        assert_eq!((&data["from"], &data["to"]), (&json!(1), &json!(3)));
        assert_eq!(data["added"][1], json!({ "name": "a.B.z.", "ttl": 60, "type": "A", "data": "192.0.2.3" }));
        assert_eq!(data["removed"].as_array().unwrap().len(), 2);
        assert_eq!(describe(&served(), Some(Serial(3))).unwrap().0, "", "the present one");
    }

    #[test]
    fn what_cannot_be_reached_is_said() {
        let error = describe(&served(), Some(Serial(7))).unwrap_err();
        assert_eq!(error.to_string(), "the history of zone z. does not have serial 7; it has 1, 2, 3");
        let fresh = Served { history: History::default(), ..served() };
        assert!(matches!(describe(&fresh, None), Err(DiffError::NoHistory(..))));
        assert!(matches!(describe(&fresh, Some(Serial(1))), Err(DiffError::NoHistory(..))));
        let empty = Served::new(name("z"), State::NotReady, None);
        assert_eq!(describe(&empty, None).unwrap_err(), DiffError::NoData(name("z")));
    }

    #[test]
    fn a_long_history_is_named_by_its_ends() {
        let mut history = History::default();
        let versions: Vec<Zone> = (1..=20).map(|serial| version(serial, &[])).collect();
        for pair in versions.windows(2) {
            history.push(Arc::new(Delta::between(&pair[0], &pair[1], [])), &HistoryLimits::default());
        }
        assert_eq!(name_serials(&history, Serial(20)), "1, (10 more), 12, 13, 14, 15, 16, 17, 18, 19, 20");
    }
}
