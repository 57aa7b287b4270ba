//! The rows of the tables that several pages have: members, zones, drains, and the facts beside them.
//!
//! Cost: O(transfers that are remembered) a zone.

use super::parts::{
    Bar, Cell, Grade, Mark, When, count, id_of, number, rate, serial, short, size, spark_bars, when, zone_link,
};
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, MemberStatus};
use crate::source::zookeeper::status::Session;
use crate::transfer::TransferNote;
use crate::view::lookup::printable;
use crate::view::report::{Report, ZoneReport};
use crate::view::status::remarks;
use std::collections::HashMap;
use wire::name::Name;
use wire::serial::Serial;

/// Places of a zone's chart of transfers.
const BARS: usize = 32;

/// A number or a word with its name.
pub struct Fact {
    pub name: &'static str,
    pub value: Cell,
}

impl Fact {
    /// A fact of finished HTML.
    pub fn new(name: &'static str, value: impl ToString) -> Fact {
        Fact { name, value: Cell(value.to_string()) }
    }

    /// A fact of text.
    pub fn text(name: &'static str, text: &str) -> Fact {
        Fact { name, value: Cell::text(text) }
    }
}

/// A member of a region.
pub struct MemberRow {
    pub link: Cell,
    pub mark: Mark,
    pub serial: Cell,
    pub at_primary: Cell,
    pub lag: Cell,
    pub refreshed: Cell,
    pub expires: Cell,
    pub records: String,
    pub transfers: Cell,
}

/// A source zone.
pub struct ZoneRow {
    pub id: String,
    pub link: Cell,
    pub mark: Mark,
    pub serial: Cell,
    pub records: String,
    pub queries: Cell,
    pub refreshed: Cell,
    pub expires: Cell,
    pub transfers: Cell,
    pub remarks: String,
}

/// Drain as a row.
pub struct DrainRow {
    pub link: Cell,
    pub names: String,
    pub regions: String,
    pub since: Cell,
    pub until: Cell,
    pub by: &'static str,
    pub reason: String,
}

/// Returns the number of serials by which a zone is behind its primaries.
pub fn lag(here: Option<Serial>, there: Option<Serial>) -> Cell {
    match (here, there) {
        (Some(here), Some(there)) if there.newer_than(here) => {
            Cell(format!("<b>{}</b> behind", number(u64::from(there.0.wrapping_sub(here.0)))))
        }
        (Some(_), Some(_)) => Cell("current".to_owned()),
        _ => Cell::none(),
    }
}

/// A member as a row.
pub fn member_row(member: &MemberStatus, zones: &HashMap<&Name, &ZoneReport>, now: i64) -> MemberRow {
    let zone = zones.get(&member.zone);
    let announced = zone.and_then(|zone| zone.newest_at_primary());
    MemberRow {
        link: zone_link(&member.zone),
        mark: Mark::of_member(member),
        serial: serial(member.serial),
        at_primary: serial(announced),
        lag: lag(member.serial, announced),
        refreshed: zone.map_or_else(Cell::none, |zone| ago(zone.kept.refreshed_seconds_ago, now)),
        expires: zone.map_or_else(Cell::none, |zone| ahead(zone.kept.expires_in_seconds, now)),
        records: zone.map_or_else(String::new, |zone| number(zone.kept.records)),
        transfers: zone.map_or_else(Cell::none, |zone| transfer_bars(zone)),
    }
}

/// Returns the moment so many seconds ago as a cell.
pub fn ago(seconds: Option<u64>, now: i64) -> Cell {
    when(seconds.map(|seconds| now.saturating_sub_unsigned(seconds)), now)
}

/// Returns the moment so many seconds ahead as a cell; a dash stands for never.
pub fn ahead(seconds: Option<u64>, now: i64) -> Cell {
    const FOREVER: u64 = 100 * 365 * 86_400;
    when(seconds.filter(|seconds| *seconds < FOREVER).map(|seconds| now.saturating_add_unsigned(seconds)), now)
}

/// Queries a second that lead to a zone, by what they get.
pub fn zone_rate(report: &Report, zone: &Name) -> Cell {
    let Some(rates) = report.queries.zones.get(&zone.to_string()) else { return Cell::none() };
    let parts = rates.rcodes.iter().filter(|(_, per_second)| **per_second > 0.0);
    let parts: Vec<String> = parts.map(|(kind, per_second)| format!("{kind} {}", rate(*per_second))).collect();
    let title = if parts.is_empty() { "none lately".to_owned() } else { parts.join(", ") };
    Cell(format!("<span title=\"{title}\">{}</span>", rate(rates.per_second)))
}

/// A source zone as a row, with how much it matters.
pub fn zone_row(report: &Report, zone: &ZoneReport, now: i64) -> (Grade, ZoneRow) {
    let kept = &zone.kept;
    let remarks = zone.source.as_ref().map(remarks).unwrap_or_default();
    let row = ZoneRow {
        id: id_of("zone", &kept.zone),
        link: zone_link(&kept.zone),
        serial: serial(kept.serial),
        records: number(kept.records),
        queries: zone_rate(report, &kept.zone),
        refreshed: ago(kept.refreshed_seconds_ago, now),
        expires: ahead(kept.expires_in_seconds, now),
        transfers: transfer_bars(zone),
        remarks,
        mark: zone_mark(zone),
    };
    (row.mark.grade, row)
}

/// The state of a source zone, and whether it will stay so.
pub fn zone_mark(zone: &ZoneReport) -> Mark {
    let mark = Mark::of_state(zone.kept.state);
    match trouble(zone) {
        Some(trouble) if mark.grade == Grade::Good => Mark::new(Grade::Warn, format!("{}, {trouble}", mark.text)),
        _ => mark,
    }
}

/// Returns the trouble of a zone's source in a few words; none if there is none.
pub fn trouble(zone: &ZoneReport) -> Option<&'static str> {
    let (held, failing) = match zone.source.as_ref()? {
        SourceStatus::Primaries(source) if source.regression.is_some() => return Some("primaries older"),
        SourceStatus::Primaries(source) => {
            (source.held.is_some(), source.primaries.iter().any(|primary| primary.failures > 0))
        }
        SourceStatus::Tree(source) => (source.held.is_some(), source.session == Session::Disconnected),
        SourceStatus::Services(_) => (false, false),
    };
    match (held, failing) {
        (true, _) => Some("held back"),
        (false, true) => Some("source fails"),
        (false, false) => None,
    }
}

/// Draws the last transfers of a zone; nothing for one that is not transferred.
pub fn transfer_bars(zone: &ZoneReport) -> Cell {
    let Some(SourceStatus::Primaries(source)) = &zone.source else { return Cell::none() };
    let notes: Vec<&TransferNote> = source.transfers.iter().collect();
    let largest = notes.iter().map(|note| note.bytes).max().unwrap_or(0).max(1) as f64;
    // A full transfer beside differences of a few records must not make those invisible.
    let height = |bytes: u64| (bytes as f64 / largest).powf(0.3);
    let bar = |note: &&TransferNote| Bar {
        height: height(note.bytes),
        failed: note.result != "ok",
        title: describe_transfer(note),
    };
    let failed = notes.iter().filter(|note| note.result != "ok").count();
    let label = match notes.last() {
        None => "No transfers yet".to_owned(),
        Some(last) => format!(
            "{}, {failed} failed; the last: {}",
            count(notes.len(), "transfer", "transfers"),
            describe_transfer(last)
        ),
    };
    spark_bars(&notes.iter().map(bar).collect::<Vec<_>>(), BARS, &label)
}

/// Describes one transfer in words.
fn describe_transfer(note: &TransferNote) -> String {
    let kind = note.kind.to_uppercase();
    match note.result {
        "ok" => format!("{kind}, {} in {} ms", size(note.bytes), number(note.milliseconds)),
        result => format!("{kind} failed: {result}"),
    }
}

/// A drain as a row.
pub fn drain_row(drain: &DrainStatus, now: i64) -> DrainRow {
    let regions: Vec<String> = drain.regions.iter().map(short).collect();
    DrainRow {
        link: zone_link(&drain.target.member),
        names: drain.target.names.as_ref().map_or_else(|| "all names".to_owned(), ToString::to_string),
        regions: if regions.is_empty() { "no region".to_owned() } else { regions.join(", ") },
        since: when(Some(drain.since), now),
        until: drain
            .until
            .map_or_else(|| Cell("until undrained".to_owned()), |until| Cell(When::new(until, now).to_string())),
        by: if drain.configured { "configuration" } else { "order" },
        reason: drain.reason.as_deref().map(printable).unwrap_or_default(),
    }
}
