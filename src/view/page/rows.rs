//! What several pages have: facts, members and drains as tables, and what is said of a zone.
//!
//! Cost: O(transfers that are remembered) a zone.

use super::parts::{Bar, Cell, Grade, Mark, count, number, rate, short, size, spark_bars};
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, MemberStatus};
use crate::source::zookeeper::status::Session;
use crate::transfer::TransferNote;
use crate::view::columns::{Column, Table, Value, table};
use crate::view::outward::behind;
use crate::view::report::{Report, ZoneReport};
use crate::view::text::because;
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

/// Returns the number of serials by which a zone is behind its primaries, as far as these are heard.
pub fn lag(here: Option<Serial>, there: Option<Serial>, is_heard: bool) -> Cell {
    match behind(here, there) {
        _ if !is_heard => Cell("unknown".to_owned()),
        Some(serials) => Cell(format!("<b>{}</b> behind", number(serials))),
        None if here.is_some() && there.is_some() => Cell("current".to_owned()),
        None => Cell::none(),
    }
}

/// Queries a second that lead to a zone, by what they get.
pub fn zone_rate(report: &Report, zone: &Name) -> Cell {
    let Some(rates) = report.queries.zones.get(&zone.to_string()) else { return Cell::none() };
    let parts = rates.rcodes.iter().filter(|(_, per_second)| **per_second > 0.0);
    let parts: Vec<String> = parts.map(|(kind, per_second)| format!("{kind} {}", rate(*per_second))).collect();
    let title = if parts.is_empty() { "none lately".to_owned() } else { parts.join(", ") };
    Cell(format!("<span title=\"{title}\">{}</span>", rate(rates.per_second)))
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
        SourceStatus::Inventory(source) => (source.held.is_some(), source.failures > 0),
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
    let Some(source) = zone.transfers() else { return Cell::none() };
    let notes = &source.transfers;
    let largest = notes.iter().map(|note| note.bytes).max().unwrap_or(0).max(1) as f64;
    // A full transfer beside differences of a few records must not make those invisible.
    let height = |bytes: u64| (bytes as f64 / largest).powf(0.3);
    let bar = |note: &TransferNote| Bar {
        height: height(note.bytes),
        failed: note.result != "ok",
        title: describe_transfer(note),
    };
    let bars: Vec<Bar> = notes.iter().map(bar).collect();
    let failed = bars.iter().filter(|bar| bar.failed).count();
    let label = notes.back().map_or("No transfers yet".to_owned(), |last| {
        let (transfers, last) = (count(notes.len(), "transfer", "transfers"), describe_transfer(last));
        format!("{transfers}, {failed} failed; the last: {last}")
    });
    spark_bars(&bars, BARS, &label)
}

/// Describes one transfer in words.
fn describe_transfer(note: &TransferNote) -> String {
    let kind = note.kind.to_uppercase();
    match note.result {
        "ok" => format!("{kind}, {} in {} ms", size(note.bytes), number(note.milliseconds)),
        result => format!("{kind} failed: {result}"),
    }
}

/// The state of a member in a region, and whether it will stay so.
pub fn member_mark(member: &MemberStatus, zone: Option<&ZoneReport>) -> Mark {
    let mark = Mark::of_member(member.state);
    match zone.and_then(trouble) {
        Some(trouble) if mark.grade == Grade::Good => Mark::new(Grade::Warn, format!("{}, {trouble}", mark.text)),
        _ => mark,
    }
}

/// A member of a region, with its zone.
pub struct Member<'r> {
    status: &'r MemberStatus,
    zone: Option<&'r ZoneReport>,
}

impl Member<'_> {
    /// Newest serial of its primaries.
    fn announced(&self) -> Option<Serial> {
        self.zone.and_then(ZoneReport::newest_at_primary)
    }

    /// A value of its zone.
    fn of_zone(&self, value: impl Fn(&ZoneReport) -> Value) -> Value {
        self.zone.map_or_else(Value::none, value)
    }
}

/// Writes the members of a region as a table.
pub fn members<'r>(
    members: impl IntoIterator<Item = &'r MemberStatus>,
    zones: &HashMap<&Name, &'r ZoneReport>,
    now: i64,
) -> Table {
    let member = |status: &'r MemberStatus| Member { status, zone: zones.get(&status.zone).copied() };
    let columns: [Column<Member<'_>>; 9] = [
        Column::page("Member", "", |member| Value::Name(member.status.zone.clone())),
        Column::page("State", "", |member| Value::Mark(member_mark(member.status, member.zone))),
        Column::page("Serial", "number", |member| Value::Serial(member.status.serial)),
        Column::page("At the primary", "number wide", |member| Value::Serial(member.announced())),
        Column::page("Lag", "", |member| {
            let is_heard = member.zone.is_none_or(ZoneReport::is_heard);
            Value::Html(lag(member.status.serial, member.announced(), is_heard))
        }),
        Column::page("Refreshed", "wide", |member| member.of_zone(|zone| Value::Ago(zone.kept.refreshed_seconds_ago))),
        Column::page("Expires", "wide", |member| member.of_zone(|zone| Value::Ahead(zone.kept.expires_in_seconds))),
        Column::page("Records", "number wide", |member| {
            member.zone.map_or_else(Value::empty, |zone| Value::Number(zone.kept.records))
        }),
        Column::page("Transfers", "wide", |member| member.of_zone(|zone| Value::Html(transfer_bars(zone)))),
    ];
    table(&columns, members.into_iter().map(member), now)
}

/// Writes drains as a table.
pub fn drains(drains: &[DrainStatus], now: i64) -> Table {
    let columns: [Column<&DrainStatus>; 7] = [
        Column::page("Datacenter", "", |drain| Value::Name(drain.target.member.clone())),
        Column::page("Names", "", |drain| Value::Text(drained_names(drain))),
        Column::page("Out of", "", |drain| Value::Text(drained_regions(drain))),
        Column::page("Since", "", |drain| Value::At(Some(drain.since))),
        Column::page("Until", "", |drain| match drain.until {
            Some(until) => Value::At(Some(until)),
            None => Value::Text("until undrained".to_owned()),
        }),
        Column::page("By", "wide", |drain| Value::Text(drained_by(drain).to_owned())),
        Column::page("Reason", "wide", |drain| Value::Text(because("", &drain.reason))),
    ];
    table(&columns, drains, now)
}

/// A drain in words.
pub fn drained(drain: &DrainStatus) -> (Mark, String) {
    let (regions, names, member) = (drained_regions(drain), drained_names(drain), short(&drain.target.member));
    let text = format!("out of {regions}: {names} of {member}{}", because("; ", &drain.reason));
    (Mark::new(Grade::Told, "drained"), text)
}

/// The names of a member that a drain takes out, or keeps a share of the clients from, in words.
pub fn drained_names(drain: &DrainStatus) -> String {
    let names = drain.target.names.as_ref().map_or_else(|| "all names".to_owned(), ToString::to_string);
    match drain.share_percent {
        Some(percent) => format!("{names} for {percent}% of clients"),
        None => names,
    }
}

/// The regions that a drain takes something out of, in words.
pub fn drained_regions(drain: &DrainStatus) -> String {
    let regions: Vec<String> = drain.regions.iter().map(short).collect();
    if regions.is_empty() { "no region".to_owned() } else { regions.join(", ") }
}

/// Who has ordered a drain.
pub fn drained_by(drain: &DrainStatus) -> &'static str {
    if drain.configured { "configuration" } else { "order" }
}
