//! Differences between two versions of a zone, for `aggregator diff` and the status page: the records that only one of
//! them has.
//!
//! Both versions are such that the zone's history still reaches them, and either may be the older one. Records are
//! lines of a zone file, in canonical order (RFC 4034 section 6.1), what was removed at a name before what was added
//! there.
//!
//! Cost: O(changes) between neighbours, else O(changes log changes), whatever the size of the zone; beside the text
//! little more memory than the history has for them.

use super::Handle;
use super::handle::read_zone;
use super::text::RecordText;
use crate::control::Reply;
use crate::publish::Served;
use crate::zone::{Block, Delta, Editor, History, OpenDelta, Record, Zone};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;
use wire::name::{Name, NameBuf, fmt_wire};
use wire::rr::rtype;
use wire::serial::Serial;

/// Records that JSON lists at most: each takes hundreds of octets there, and text has them all.
const JSON_RECORDS: usize = 10_000;
/// Serials that an error names at most.
const NAMED_SERIALS: usize = 10;

/// Error: there is no difference to show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    #[error("zone {0} has no valid data now: it was never transferred, or has expired")]
    NoData(Name),
    #[error("the history of zone {0} holds serial {1} alone; there is nothing to compare with")]
    NoHistory(Name, Serial),
    #[error("the history of zone {0} does not have serial {1}; it has {2}")]
    Unreachable(Name, Serial, String),
    #[error("the history of zone {0} begins with serial {1}; what was before is not known")]
    Oldest(Name, Serial),
    #[error("the history of zone {0} has a gap; try again")]
    Gap(Name),
}

/// The records in which two versions of a zone differ.
#[derive(Serialize, JsonSchema)]
pub struct Diff<'a> {
    zone: &'a Name,
    from: Serial,
    to: Serial,
    removed: Vec<RecordDiff>,
    added: Vec<RecordDiff>,
    /// Records that are left out.
    more: usize,
}

/// Records that only one of two versions of a zone has.
pub struct Changes {
    pub zone: Name,
    pub from: Serial,
    pub to: Serial,
    /// Difference; none if both are the same version.
    delta: Option<OpenDelta>,
}

impl Changes {
    /// Takes over a difference.
    fn of(zone: Name, delta: Arc<Delta>) -> Changes {
        Changes { zone, from: delta.from_serial(), to: delta.to_serial(), delta: Some(OpenDelta::new(&delta)) }
    }

    /// Returns the number of records removed and the number added, the SOA among them.
    pub fn counts(&self) -> [usize; 2] {
        let count = |block: &Block| 1 + block.records() as usize;
        self.delta.as_ref().map_or([0; 2], |open| [&open.delta.removed, &open.delta.added].map(count))
    }

    /// The records that came or went in the order of their lines, made one by one: there may be a million.
    pub fn iter(&self) -> impl Iterator<Item = RecordDiff> {
        let sides = self
            .delta
            .as_ref()
            .map(|OpenDelta { delta, removed, added }| [('-', &delta.from, removed), ('+', &delta.to, added)]);
        let [mut gone, mut come] = [0, 1].map(|side| {
            let records = sides.into_iter().flat_map(move |sides| {
                let (sign, soa, block) = sides[side];
                let owner = self.zone.as_wire();
                let soa = soa.rdatas().map(move |rdata| Record { owner, rtype: rtype::SOA, ttl: soa.ttl, rdata });
                soa.chain(block.iter()).filter_map(move |record| RecordDiff::new(sign, &record))
            });
            records.peekable()
        });
        // Either side is in order.
        std::iter::from_fn(move || match (gone.peek(), come.peek()) {
            (Some(went), Some(came)) if went.compare(came).is_gt() => come.next(),
            (Some(_), _) => gone.next(),
            (None, _) => come.next(),
        })
    }

    /// The changes as lines of zone files, with a sign before each.
    pub fn describe(&self) -> String {
        self.describe_first(usize::MAX)
    }

    /// Returns the first `limit` changes as lines of zone files, with a sign before each.
    pub fn describe_first(&self, limit: usize) -> String {
        if self.from == self.to {
            return String::new();
        }
        let mut text = format!("--- {} {}\n+++ {} {}\n", self.zone, self.from, self.zone, self.to);
        for change in self.iter().take(limit) {
            _ = writeln!(text, "{}{}", change.sign, change.line());
        }
        text
    }

    /// Returns the changes as JSON, at most 10,000 records, with the number of those left out.
    pub fn to_json(&self) -> Value {
        self.to_json_first(JSON_RECORDS)
    }

    /// Returns the first `limit` changes as JSON, with the number of those left out.
    pub fn to_json_first(&self, limit: usize) -> Value {
        let more = self.counts().iter().sum::<usize>().saturating_sub(limit);
        let (removed, added): (Vec<RecordDiff>, Vec<RecordDiff>) =
            self.iter().take(limit).partition(|change| change.sign == '-');
        json!(Diff { zone: &self.zone, from: self.from, to: self.to, removed, added, more })
    }
}

/// Prints what changed in a zone.
pub fn diff(view: &Handle, zone: &str, from: Option<Serial>, to: Option<Serial>) -> Result<Reply, String> {
    let served = view.served(&read_zone(zone)?)?;
    let changes = compare(&served, from, to).map_err(|error| error.to_string())?;
    Ok(Reply { ok: true, text: changes.describe(), data: changes.to_json() })
}

/// Compares the version with one serial with that of another; without `to` it is the present version, without `from` it
/// is the version before the other.
pub fn compare(served: &Served, from: Option<Serial>, to: Option<Serial>) -> Result<Changes, DiffError> {
    let (zone, history) = (served.origin.clone(), &served.history);
    let present = served.zone.as_ref().ok_or_else(|| DiffError::NoData(zone.clone()))?.soa.serial;
    let place_of = |serial: Serial| match history.position(serial) {
        Some(place) => Ok(place),
        // Without steps there is no other version.
        None if serial == present => Ok(history.len()),
        None if history.is_empty() => Err(DiffError::NoHistory(zone.clone(), present)),
        None => Err(DiffError::Unreachable(zone.clone(), serial, name_serials(history, present))),
    };
    let to = to.unwrap_or(present);
    let end = place_of(to)?;
    let start = match from {
        Some(from) => place_of(from)?,
        None if history.is_empty() => return Err(DiffError::NoHistory(zone, present)),
        None => end.checked_sub(1).ok_or_else(|| DiffError::Oldest(zone.clone(), to))?,
    };
    if start == end {
        return Ok(Changes { zone, from: to, to, delta: None });
    }
    let whole = match &history.between(start.min(end)..start.max(end))[..] {
        [step] => Some(step.clone()),
        steps => Delta::concatenate(steps).map(Arc::new),
    };
    let whole = whole.ok_or_else(|| DiffError::Gap(zone.clone()))?;
    Ok(Changes::of(zone, if start < end { whole } else { Arc::new(whole.invert()) }))
}

/// Compares two versions of a zone of which no history knows both. O(names that are not shared).
pub fn compare_zones(old: &Zone, new: &Zone) -> Changes {
    let touched = Editor::from_zone(new).differing(old);
    Changes::of(new.origin.clone(), Arc::new(Delta::between(old, new, touched)))
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
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangedRecord")]
pub struct RecordDiff {
    /// `+` or `-`.
    #[serde(skip)]
    pub sign: char,
    /// Owner name, for sorting.
    #[serde(skip)]
    name: Name,
    #[serde(rename = "name")]
    owner: String,
    #[serde(skip)]
    rtype: u16,
    #[serde(flatten)]
    text: RecordText,
}

impl RecordDiff {
    /// Reads a record.
    pub fn new(sign: char, record: &Record<'_>) -> Option<RecordDiff> {
        let mut owner = String::new();
        fmt_wire(record.owner, &mut owner).ok()?;
        let name = NameBuf::from_wire(record.owner).ok()?.to_name();
        let text = RecordText::new(record.rtype, record.ttl, record.rdata);
        Some(RecordDiff { sign, name, owner, rtype: record.rtype, text })
    }

    /// Returns true for the SOA.
    pub fn is_soa(&self) -> bool {
        self.rtype == rtype::SOA
    }

    /// The record as a line of a zone file.
    pub fn line(&self) -> String {
        format!("{} {} IN {} {}", self.owner, self.text.ttl, self.text.rtype, self.text.data)
    }

    /// The order of the lines: names, then types with the SOA first, then what went before what came. Records of one
    /// set keep their order.
    fn compare(&self, other: &RecordDiff) -> Ordering {
        let rank = |change: &RecordDiff| (change.rtype != rtype::SOA, change.rtype, change.sign != '-');
        self.name.canonical_cmp(&other.name).then_with(|| rank(self).cmp(&rank(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::State;
    use crate::zone::{HistoryLimits, Loader, Zone};
    use std::sync::Arc;

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

    /// The changes of the zone in words.
    fn tell(from: Option<u32>, to: Option<u32>) -> String {
        compare(&served(), from.map(Serial), to.map(Serial)).unwrap().describe()
    }

    #[test]
    fn the_previous_version_is_compared_unless_asked_otherwise() {
        let soa = |sign: char, serial: u32| format!("{sign}z. 60 IN SOA ns. host. {serial} 1 2 3 4\n");
        let expected = format!(
            "--- z. 2\n+++ z. 3\n{}{}-B.z. 60 IN A 192.0.2.1\n-a.B.z. 60 IN A 192.0.2.2\n+a.B.z. 60 IN A 192.0.2.3\n",
            soa('-', 2),
            soa('+', 3)
        );
        assert_eq!(tell(None, None), expected);
        assert_eq!(tell(None, Some(3)), expected);
        let expected = format!(
            "--- z. 1\n+++ z. 3\n{}{}-B.z. 60 IN A 192.0.2.1\n+a.B.z. 60 IN A 192.0.2.3\n",
            soa('-', 1),
            soa('+', 3)
        );
        assert_eq!(tell(Some(1), None), expected);
        assert!(tell(None, Some(2)).starts_with("--- z. 1\n+++ z. 2\n"));
        let data = compare(&served(), Some(Serial(1)), None).unwrap().to_json();
        assert_eq!((&data["from"], &data["to"]), (&json!(1), &json!(3)));
        assert_eq!(data["added"][1], json!({ "name": "a.B.z.", "ttl": 60, "type": "A", "data": "192.0.2.3" }));
        assert_eq!((data["removed"].as_array().unwrap().len(), &data["more"]), (2, &json!(0)));
        assert_eq!(tell(Some(3), None), "", "the present one");
        assert_eq!(tell(Some(2), Some(2)), "");
        let back = format!("--- z. 2\n+++ z. 1\n{}{}-a.B.z. 60 IN A 192.0.2.2\n", soa('-', 2), soa('+', 1));
        assert_eq!(tell(Some(2), Some(1)), back, "the way back");
    }

    #[test]
    fn two_versions_without_a_history_are_compared() {
        let (old, new) = (version(1, &[("a.z", 1), ("b.z", 2)]), version(9, &[("b.z", 2), ("c.z", 3)]));
        let lines: Vec<String> = compare_zones(&old, &new).describe().lines().skip(4).map(str::to_owned).collect();
        assert_eq!(lines, ["-a.z. 60 IN A 192.0.2.1", "+c.z. 60 IN A 192.0.2.3"]);
    }

    #[test]
    fn a_large_difference_is_cut_for_programs_alone() {
        let many: Vec<(String, u8)> = (0..JSON_RECORDS).map(|host| (format!("h{host}.z"), 1)).collect();
        let hosts: Vec<(&str, u8)> = many.iter().map(|(owner, last)| (&owner[..], *last)).collect();
        let changes = compare_zones(&version(1, &[("h7.z", 2), ("a.z", 2)]), &version(2, &hosts));
        assert_eq!(changes.counts(), [3, 1 + JSON_RECORDS]);
        let (data, text) = (changes.to_json(), changes.describe());
        let listed = ["removed", "added"].map(|side| data[side].as_array().unwrap().len());
        assert_eq!((listed.iter().sum::<usize>(), &data["more"]), (JSON_RECORDS, &json!(4)));
        let mut lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!((lines.len(), changes.describe_first(3).lines().count()), (JSON_RECORDS + 4, 5));
        let place = lines.iter().position(|line| line.starts_with("-h7.z. ")).unwrap();
        assert_eq!(lines[place + 1], "+h7.z. 60 IN A 192.0.2.1", "what went before what came");
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), JSON_RECORDS + 4);
    }

    #[test]
    fn what_cannot_be_reached_is_said() {
        for (from, to) in [(Some(7), None), (None, Some(7)), (Some(1), Some(7)), (Some(7), Some(7))] {
            let error = compare(&served(), from.map(Serial), to.map(Serial)).err().unwrap();
            assert_eq!(error.to_string(), "the history of zone z. does not have serial 7; it has 1, 2, 3");
        }
        assert_eq!(compare(&served(), None, Some(Serial(1))).err(), Some(DiffError::Oldest(name("z"), Serial(1))));
        let fresh = Served { history: History::default(), ..served() };
        assert!(matches!(compare(&fresh, None, None), Err(DiffError::NoHistory(..))));
        assert!(matches!(compare(&fresh, Some(Serial(1)), None), Err(DiffError::NoHistory(..))));
        let empty = Served::new(name("z"), State::NotReady, None);
        assert_eq!(compare(&empty, None, None).err(), Some(DiffError::NoData(name("z"))));
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
