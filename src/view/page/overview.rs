//! Overview: everything that needs attention, the regions with their members, all zones, queries, and the server
//! itself.
//!
//! Cost: O(zones + members of all regions).

use super::Shell;
use super::chart::chart;
use super::parts::{
    Cell, Grade, Mark, count, id_of, number, rate, serial, share, size, spark_line, time, when, zone_link,
};
use super::rows::{Fact, drains, members, zone_mark, zone_rate};
use crate::daemon::sources::SourceStatus;
use crate::keeper::MemberStatus;
use crate::publish::State;
use crate::source::inventory::InventoryStatus;
use crate::source::inventory::status::Reading;
use crate::source::zookeeper::TreeStatus;
use crate::source::zookeeper::status::Session;
use crate::view::columns::{Column, Table, Value, cells, heads, table};
use crate::view::judgement::{Judgement, Note, noted};
use crate::view::rates::{Queries, Range};
use crate::view::report::{CatalogReport, RegionReport, Report, ZoneReport};
use crate::view::zones::{Line, columns};
use askama::Template;
use std::cmp::Reverse;
use std::collections::HashMap;
use strum::IntoEnumIterator;
use wire::name::Name;

/// Zones in the table, regions, members of each and notes; who has more looks in the list, or at the region. Where there
/// are more zones, only those with trouble are in the table.
const LISTED_ZONES: usize = 100;
const LISTED_REGIONS: usize = 100;
/// Regions that are shown with their members; where there are more, these are the worst.
const OPEN_REGIONS: usize = 8;
const LISTED_MEMBERS: usize = 10;
const LISTED_NOTES: usize = 100;

/// Overview, which is the first page.
#[derive(Template)]
#[template(path = "overview.html")]
pub struct Overview {
    shell: Shell,
    verdict: Mark,
    notes: Vec<Note>,
    hidden_notes: usize,
    facts: Vec<Fact>,
    regions: Vec<RegionCard>,
    /// All regions in a table, if there are more than have cards.
    all_regions: Table,
    hidden_regions: usize,
    /// The columns of zones, and each zone with its id and cells.
    zone_heads: Cell,
    zones: Vec<(String, Cell)>,
    hidden_zones: usize,
    /// True if the table has all zones.
    all_zones: bool,
    drains: Table,
    trees: Table,
    inventories: Table,
    rcodes: Vec<RcodeRow>,
    transports: Vec<Fact>,
    charts: Vec<Charts>,
    server: Vec<Fact>,
}

/// Charts of a range of time.
struct Charts {
    id: &'static str,
    title: &'static str,
    queries: Cell,
    publications: Cell,
}

/// A region.
struct RegionCard {
    id: String,
    link: Cell,
    mark: Mark,
    serial: Cell,
    facts: Vec<Fact>,
    members_title: String,
    members: Table,
    hidden_members: usize,
}

/// A response code.
struct RcodeRow {
    name: &'static str,
    rate: String,
    share: Cell,
    history: Cell,
}

impl Overview {
    /// Puts the page together.
    pub fn new<'r>(shell: Shell, report: &'r Report, histories: &[Queries]) -> Overview {
        let nothing = Queries::default();
        let queries = histories.first().unwrap_or(&nothing);
        let now = shell.now;
        let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
        let judgement = Judgement::of(report);
        let Judgement { grade, verdict, notes } = &judgement;
        let verdict = Mark::new(*grade, &**verdict);
        let hidden_notes = notes.len().saturating_sub(LISTED_NOTES);
        let notes = notes.iter().take(LISTED_NOTES).cloned().collect();
        let mut listed: Vec<&ZoneReport> = report.zones.iter().collect();
        // Trouble comes first; else they keep their order.
        let trouble = |grade: Grade| if grade == Grade::Told { Grade::Good } else { grade };
        listed.sort_by_cached_key(|zone| Reverse(trouble(zone_mark(zone).grade)));
        let all_zones = listed.len() <= LISTED_ZONES;
        if !all_zones {
            listed.truncate(listed.partition_point(|zone| zone_mark(zone).grade >= Grade::Warn).min(LISTED_ZONES));
        }
        let hidden_zones = report.zones.len() - listed.len();
        let columns = columns();
        let row =
            |zone: &'r ZoneReport| (id_of("zone", &zone.kept.zone), cells(&columns, &Line::new(report, zone), now));
        let transports = queries.rates.transports.iter();
        let worst = judgement.worst();
        let mut regions: Vec<&RegionReport> = report.regions.iter().collect();
        let note_of = |region: &RegionReport| worst.get(&region.kept.region).copied();
        let mut all_regions = Table::default();
        let hidden_regions = regions.len().saturating_sub(LISTED_REGIONS);
        if regions.len() > OPEN_REGIONS {
            regions.sort_by_key(|region| Reverse(note_of(region).map(|note| note.grade)));
            all_regions =
                region_table(report, regions.iter().take(LISTED_REGIONS).map(|region| (*region, note_of(region))), now);
            regions.retain(|region| note_of(region).is_some_and(|note| note.grade >= Grade::Warn));
        }
        let regions = regions.into_iter().take(OPEN_REGIONS);
        let regions = regions.map(|region| region_card(report, region, &zones, note_of(region), now)).collect();
        Overview {
            verdict,
            notes,
            hidden_notes,
            facts: sum_up(report, queries, now),
            regions,
            all_regions,
            hidden_regions,
            zone_heads: heads(&columns),
            zones: listed.into_iter().map(row).collect(),
            hidden_zones,
            all_zones,
            drains: drains(&report.drains, now),
            trees: trees(report, now),
            inventories: inventories(report, now),
            rcodes: rcode_rows(queries),
            transports: transports.map(|(name, rates)| Fact::new(transport(name), rate(*rates))).collect(),
            charts: Range::iter().zip(histories).map(|(range, queries)| charts(range, queries)).collect(),
            server: server_facts(report, now),
            shell,
        }
    }
}

/// The name of a transport for people.
fn transport(label: &str) -> &'static str {
    match label {
        "udp" => "UDP",
        "tcp" => "TCP",
        _ => "TLS",
    }
}

/// The numbers at the top.
fn sum_up(report: &Report, queries: &Queries, now: i64) -> Vec<Fact> {
    let regions = report.regions.iter().filter(|region| region.kept.state == State::Ok).count();
    let zones = report.zones.iter().filter(|zone| zone.kept.state == State::Ok).count();
    let records = report.zones.iter().map(|zone| zone.kept.records);
    let records: u64 = records.chain(report.regions.iter().map(|region| region.kept.records)).sum();
    let of = |serving: usize, all: usize| {
        if serving == all { serving.to_string() } else { format!("{serving}<small> of {all}</small>") }
    };
    let uptime = i64::try_from(report.uptime_seconds).unwrap_or(i64::MAX);
    vec![
        Fact::new("queries a second", rate(queries.rates.per_second)),
        Fact::new("regions", of(regions, report.regions.len())),
        Fact::new("zones", of(zones, report.zones.len())),
        Fact::new("records", number(records)),
        Fact::new("publications", number(report.generation)),
        Fact::new("started", time(now - uptime, now)),
    ]
}

/// Charts of what was counted in a range of time.
fn charts(range: Range, queries: &Queries) -> Charts {
    let title = match range {
        Range::Minutes => "5 minutes",
        Range::Hour => "1 hour",
        Range::Day => "1 day",
    };
    Charts {
        id: range.into(),
        title,
        queries: chart(&queries.history, range, "Queries a second"),
        publications: chart(&queries.publications, range, "Publications a minute"),
    }
}

/// Response codes with their rates.
fn rcode_rows(queries: &Queries) -> Vec<RcodeRow> {
    let whole: f64 = queries.rates.rcodes.values().sum();
    let row = |(name, per_second): (&&'static str, &f64)| {
        let history = queries.rcode_history.get(name).map_or(&[][..], Vec::as_slice);
        let history = spark_line(history, &format!("{name} a second, last minutes"));
        RcodeRow { name, rate: rate(*per_second), share: share(*per_second, whole), history }
    };
    let mut codes: Vec<_> = queries.rates.rcodes.iter().collect();
    codes.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    codes.into_iter().map(row).collect()
}

/// Returns the facts about the process.
fn server_facts(report: &Report, now: i64) -> Vec<Fact> {
    let state = &report.state;
    let folder = state.folder.as_ref().map_or("off: a restart begins without zones".to_owned(), |folder| {
        let (mark, text) = match &state.error {
            Some(error) => (Mark::new(Grade::Bad, "failing"), error.clone()),
            None => (Mark::new(Grade::Good, "healthy"), size(state.bytes)),
        };
        format!("{} {mark} {}", Cell::text(&folder.display().to_string()), Cell::text(&text))
    });
    let catalog = |catalog: &CatalogReport| {
        let secondaries = count(catalog.outward.secondaries.len(), "secondary", "secondaries");
        let (link, serial, records) = (zone_link(&catalog.zone), serial(catalog.serial), number(catalog.records));
        format!("{link}, serial {serial}, {records} records, {secondaries}")
    };
    vec![
        Fact::text("version", report.version),
        Fact::text("configuration", &report.config),
        Fact::new("state folder", folder),
        Fact::new("last written", when(state.last_written, now)),
        Fact::new("next audit", when(report.next_audit, now)),
        Fact::new("catalog", report.catalog.as_ref().map_or("none".to_owned(), catalog)),
    ]
}

/// A region as a card.
fn region_card(
    whole: &Report,
    report: &RegionReport,
    zones: &HashMap<&Name, &ZoneReport>,
    worst: Option<&Note>,
    now: i64,
) -> RegionCard {
    let region = &report.kept;
    let mut facts = vec![
        Fact::new("records", number(region.records)),
        Fact::new("names", number(region.names as u64)),
        Fact::new("conflicts", number(region.conflict_names as u64)),
        Fact::new("queries/s", zone_rate(whole, &region.region)),
    ];
    if report.sizes.remark().is_some() {
        facts.push(Fact::new("largest set", number(report.sizes.most_records.into())));
    }
    if region.held_addresses > 0 {
        facts.push(Fact::new("held addresses", number(region.held_addresses as u64)));
    }
    if region.drift != 0 {
        facts.push(Fact::new("drift", number(region.drift.into())));
    }
    if !report.outward.secondaries.is_empty() {
        let secondaries = &report.outward.secondaries;
        let current = secondaries.iter().filter(|target| target.behind_since.is_none()).count();
        facts.push(Fact::new("secondaries current", format!("{current} of {}", secondaries.len())));
    }
    let mut listed: Vec<&MemberStatus> = region.members.iter().collect();
    if listed.len() > LISTED_MEMBERS {
        listed.sort_by_key(|member| member.state == "ok");
    }
    let hidden_members = listed.len().saturating_sub(LISTED_MEMBERS);
    listed.truncate(LISTED_MEMBERS);
    RegionCard {
        id: id_of("region", &region.region),
        link: zone_link(&region.region),
        mark: noted(Mark::of_state(region.state), worst),
        serial: serial(region.serial),
        facts,
        members_title: count(region.members.len(), "member", "members"),
        members: members(listed, zones, now),
        hidden_members,
    }
}

/// Regions in a table, each with the worst note of it.
fn region_table<'r>(
    report: &'r Report,
    regions: impl Iterator<Item = (&'r RegionReport, Option<&'r Note>)>,
    now: i64,
) -> Table {
    type Row<'r> = (&'r Report, &'r RegionReport, Option<&'r Note>);
    let columns: [Column<Row<'_>>; 7] = [
        Column::page("Region", "", |(_, region, _)| Value::Name(region.kept.region.clone())),
        Column::page("State", "", |(_, region, note)| Value::Mark(noted(Mark::of_state(region.kept.state), *note))),
        Column::page("Serial", "number", |(_, region, _)| Value::Serial(region.kept.serial)),
        Column::page("Members ok", "number", |(_, region, _)| {
            let members = &region.kept.members;
            let fine = members.iter().filter(|member| member.state == "ok").count();
            Value::Text(format!("{} of {}", number(fine as u64), number(members.len() as u64)))
        }),
        Column::page("Records", "number", |(_, region, _)| Value::Number(region.kept.records)),
        Column::page("Queries/s", "number wide", |(report, region, _)| {
            Value::Html(zone_rate(report, &region.kept.region))
        }),
        Column::page("Conflicts", "number wide", |(_, region, _)| Value::Number(region.kept.conflict_names as u64)),
    ];
    table(&columns, regions.map(|(region, note)| (report, region, note)), now)
}

/// Inventories, each once.
fn inventories(report: &Report, now: i64) -> Table {
    let inventories = report.zones.iter().filter_map(|zone| match &zone.source {
        Some(SourceStatus::Inventory(found)) if found.main == zone.kept.zone => Some(&**found),
        _ => None,
    });
    let columns: [Column<&InventoryStatus>; 8] = [
        Column::page("Inventory of", "", |found| Value::Name(found.main.clone())),
        Column::page("Reading", "", |found| {
            let grade = if found.reading == Reading::Failing { Grade::Warn } else { Grade::Good };
            Value::Mark(Mark::new(grade, found.reading.label()))
        }),
        Column::page("Instances", "number", |found| Value::Number(found.counts.vms)),
        Column::page("With names", "number", |found| Value::Number(found.counts.listed)),
        Column::page("Held", "number", |found| Value::Number(found.counts.held)),
        Column::page("Undecided", "number wide", |found| Value::Number(found.counts.undecided)),
        Column::page("From", "wide", |found| Value::Text(found.place.clone())),
        Column::page("Last read", "", |found| Value::At(found.last_reading)),
    ];
    table(&columns, inventories, now)
}

/// Trees, each once.
fn trees(report: &Report, now: i64) -> Table {
    let trees = report.zones.iter().filter_map(|zone| match &zone.source {
        Some(SourceStatus::Tree(tree)) if tree.tree == zone.kept.zone => Some(&**tree),
        _ => None,
    });
    let columns: [Column<&TreeStatus>; 7] = [
        Column::page("Tree of", "", |tree| Value::Name(tree.tree.clone())),
        Column::page("Session", "", |tree| {
            let grade = if tree.session == Session::Live { Grade::Good } else { Grade::Warn };
            Value::Mark(Mark::new(grade, tree.session.label()))
        }),
        Column::page("Nodes", "number", |tree| tree.nodes.map_or_else(Value::none, Value::Number)),
        Column::page("Path", "wide", |tree| Value::Text(tree.path.clone())),
        Column::page("Member", "wide", |tree| {
            Value::Text(tree.member.clone().unwrap_or_else(|| "none yet".to_owned()))
        }),
        Column::page("Last answer", "", |tree| Value::At(tree.last_contact)),
        Column::page("Sessions lost", "number wide", |tree| Value::Number(tree.losses)),
    ];
    table(&columns, trees, now)
}
