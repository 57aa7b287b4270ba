//! Page of one zone, region or catalog: its source, its outgoing transfers, and its history.
//!
//! Cost: O(members, primaries, secondaries) and O(changes of the versions that are listed).

use super::Shell;
use super::parts::{Cell, Grade, Mark, count, encode, number, rate, short, size, when, zone_link};
use super::picture::picture;
use super::rows::{Fact, drained, members, transfer_bars, zone_mark};
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, PinStatus};
use crate::merge::ConflictKind;
use crate::probe::{Problem, ServerCheck};
use crate::publish::Served;
use crate::transfer::{PrimaryStatus, TransferNote};
use crate::view::columns::{Column, Table, Value, table};
use crate::view::facts::{Facts, pinned_to, region_warnings};
use crate::view::history::{Version, Versions, list_versions};
use crate::view::outward::Outward;
use crate::view::remarks::remarks;
use crate::view::report::{RegionReport, Report, ZoneReport};
use crate::view::secondaries::SecondaryReport;
use crate::view::sizes::{Audience, SizesReport};
use crate::view::steering::{HomeReport, SteeringReport};
use crate::view::text::{format_seconds, printable};
use askama::Template;
use std::collections::HashMap;
use wire::name::Name;
use wire::serial::Serial;

/// Versions in the table.
const LISTED_VERSIONS: usize = 50;
/// Homes in the table.
const LISTED_HOMES: usize = 50;

/// The page of a zone.
#[derive(Default, Template)]
#[template(path = "zone.html")]
pub struct ZonePage {
    shell: Shell,
    name: String,
    /// Name as part of an address of the page.
    encoded: String,
    kind: &'static str,
    mark: Mark,
    remarks: String,
    facts: Vec<Fact>,
    timers: Vec<Fact>,
    /// Members, if the zone is a region.
    members: Table,
    /// What leads into it and out of it, if the zone is a region.
    picture: Cell,
    /// Homes of clients, if the zone is a region that steers them.
    homes: Table,
    more_homes: usize,
    uneven: String,
    conflicts: Table,
    conflicts_title: String,
    /// Regions that the zone is a member of.
    regions: Vec<Cell>,
    /// Drains and pins that operators have ordered.
    orders: Vec<(Mark, String)>,
    /// Which sets are large, and what follows from that.
    large: Option<(Mark, String, Vec<String>)>,
    primaries: Table,
    transfers: Cell,
    recent: Table,
    tree: Vec<Fact>,
    inventory: Vec<Fact>,
    broken: Vec<(String, String)>,
    services: Vec<(String, String)>,
    secondaries: Table,
    servers: Table,
    /// Time at which the name servers were asked.
    asked: Cell,
    queries: Vec<Fact>,
    history: Table,
    more: usize,
    reach: String,
}

/// A conflict at a name, with the members of the region.
type ConflictLine<'r> = (&'r str, ConflictKind, u32, [Option<&'r Name>; 2]);

/// A name server of a zone, or of its parent, with a fault or a note.
type ServerLine = (String, Option<Serial>, Mark, String);

impl ZonePage {
    /// Builds the page; none if there is no such zone.
    pub fn new(shell: Shell, report: &Report, served: &Served) -> Option<ZonePage> {
        let (name, now) = (&served.origin, shell.now);
        let mut page = ZonePage {
            name: short(name),
            encoded: encode(&short(name)),
            mark: Mark::of_state(served.state),
            timers: timer_facts(served),
            members: members(&[], &HashMap::new(), now),
            homes: home_table(std::iter::empty()),
            conflicts: conflict_table(std::iter::empty()),
            orders: report.drains.iter().filter(|drain| concerns(drain, name)).map(drained).collect(),
            primaries: primary_table(&[], now),
            transfers: Cell::none(),
            servers: server_table(&[], now),
            asked: Cell::none(),
            queries: query_rows(report, name),
            shell,
            ..ZonePage::default()
        };
        let outward = if let Some(region) = report.regions.iter().find(|region| region.kept.region == *name) {
            page.describe_region(report, region, now);
            &region.outward
        } else if let Some(zone) = report.zones.iter().find(|zone| zone.kept.zone == *name) {
            page.describe_zone(report, zone, now);
            &zone.outward
        } else {
            let catalog = report.catalog.as_ref().filter(|catalog| catalog.zone == *name)?;
            page.kind = "catalog";
            page.facts = Facts::of_catalog(catalog).values(now);
            &catalog.outward
        };
        page.describe_ways_out(outward);
        if let Some(report) = report.name_servers.iter().find(|report| report.check.zone == *name) {
            page.asked = when(Some(report.asked), now);
            page.servers = server_table(&report.check.servers, now);
        }
        page.list_history(list_versions(served, LISTED_VERSIONS), now);
        Some(page)
    }

    /// Adds the facts about a region.
    fn describe_region(&mut self, report: &Report, whole: &RegionReport, now: i64) {
        let region = &whole.kept;
        let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
        self.kind = "region";
        self.facts = Facts::of_region(whole).values(now);
        let pinned = |pin: &PinStatus| (Mark::new(Grade::Told, "pinned"), pinned_to(pin));
        self.orders.extend(region.pinned.iter().map(pinned));
        self.remarks = region_warnings(region, short).join("; ");
        self.describe_sizes(whole.sizes, true);
        self.members = members(&region.members, &zones, now);
        self.picture = picture(report, &self.shell.server, Some(&region.region));
        if let Some(steering) = &whole.steering {
            self.describe_steering(steering);
        }
        self.conflicts_title = format!("Conflicts at {}", count(region.conflict_names, "name", "names"));
        let member = |index: usize| Some(&region.members[index].zone);
        let rows = region.conflicts.iter().flat_map(|(name, told)| told.iter().map(move |told| (name, told)));
        self.conflicts = conflict_table(rows.map(|(name, conflict)| {
            (&**name, conflict.kind, conflict.dropped, [member(conflict.member), conflict.by.and_then(member)])
        }));
    }

    /// Adds whose clients are known, and where their answers come from.
    fn describe_steering(&mut self, steering: &SteeringReport) {
        self.homes = home_table(steering.homes.iter().take(LISTED_HOMES));
        self.more_homes = steering.homes.len().saturating_sub(LISTED_HOMES);
        self.uneven = steering.uneven().unwrap_or_default();
    }

    /// Adds the facts about a source zone.
    fn describe_zone(&mut self, report: &Report, zone: &ZoneReport, now: i64) {
        let kept = &zone.kept;
        self.kind = "zone";
        self.mark = zone_mark(zone);
        self.facts = Facts::of_zone(zone).values(now);
        self.remarks = remarks(zone);
        self.describe_sizes(zone.sizes, false);
        self.conflicts_title = format!("Conflicts at {}", count(kept.conflict_names, "name", "names"));
        let rows = kept.conflicts.iter().flat_map(|(name, told)| told.iter().map(move |told| (name, told)));
        self.conflicts =
            conflict_table(rows.map(|(name, conflict)| (&**name, conflict.kind, conflict.dropped, [None; 2])));
        let regions =
            report.regions.iter().filter(|region| region.kept.members.iter().any(|member| member.zone == kept.zone));
        self.regions = regions.map(|region| zone_link(&region.kept.region)).collect();
        match &zone.source {
            Some(SourceStatus::Primaries(source)) => {
                self.primaries = primary_table(&source.primaries, now);
                self.transfers = transfer_bars(zone);
                self.recent = transfer_table(source.transfers.iter().rev().take(10), now);
            }
            Some(SourceStatus::Tree(tree)) => {
                self.tree = Facts::of_tree(zone, tree).values(now);
                let payloads = tree.broken_payloads.iter();
                self.broken = payloads.map(|payload| (printable(&payload.node), printable(&payload.error))).collect();
            }
            Some(SourceStatus::Inventory(inventory)) => {
                self.inventory = Facts::of_inventory(zone, inventory).values(now);
            }
            Some(SourceStatus::Services(own)) => {
                self.services =
                    own.openstack.iter().map(|service| (service.kind.clone(), service.url.clone())).collect();
            }
            None => {}
        }
    }

    /// Adds which sets are large, and what follows from that.
    fn describe_sizes(&mut self, sizes: SizesReport, is_region: bool) {
        let grade = if sizes.is_harmful() { Grade::Warn } else { Grade::Told };
        let consequences = sizes.consequences(Audience { is_region, has_secondaries: true });
        self.large = sizes.counts().map(|counts| (Mark::new(grade, "large sets"), counts, consequences));
    }

    /// Adds the facts about secondaries.
    fn describe_ways_out(&mut self, outward: &Outward) {
        self.secondaries = secondary_table(&outward.secondaries, self.shell.now);
        if let Some(from) = outward.history.from {
            let versions = count(outward.history.versions, "version", "versions");
            self.reach = format!("{versions} since serial {from}, {}", size(outward.history.bytes as u64));
        }
    }

    /// The versions of the past.
    fn list_history(&mut self, versions: Versions, now: i64) {
        let columns: [Column<(&Version, &str)>; 7] = [
            Column::page("Serial", "", |(version, _)| Value::Serial(Some(version.serial))),
            Column::page("When", "", |(version, _)| Value::At(version.at)),
            Column::remark("Cause", "wide", |(version, _)| Value::Text(version.cause.clone())),
            Column::page("Names", "number", |(version, _)| Value::Number(version.names as u64)),
            Column::page("Removed", "number", |(version, _)| Value::Html(signed("minus", '−', version.removed))),
            Column::page("Added", "number", |(version, _)| Value::Html(signed("plus", '+', version.added))),
            Column::page("Changes", "", |(version, zone)| {
                let (from, to) = (version.from, version.serial);
                let link = Cell::text(&format!("/zone/{zone}/diff?from={from}&to={to}"));
                let what = format!("<span class=\"hidden\"> what changed in {to}</span>");
                Value::Html(Cell(format!("<a href=\"{link}\">show{what}</a>")))
            }),
        ];
        self.history = table(&columns, versions.versions.iter().map(|version| (version, &*self.encoded)), now);
        self.more = versions.more;
    }
}

/// Writes the homes of clients as a table.
fn home_table<'r>(homes: impl Iterator<Item = &'r HomeReport>) -> Table {
    let columns: [Column<&HomeReport>; 5] = [
        Column::page("Home", "", |home| Value::Name(home.home.clone())),
        Column::page("Prefixes", "number", |home| Value::Number(home.prefixes as u64)),
        Column::page("Answers from home", "number", |home| Value::Number(home.answers_home)),
        Column::page("From others", "number", |home| Value::Number(home.answers_elsewhere)),
        Column::remark("Members, the nearest first", "", |home| {
            Value::Text(if home.members.is_empty() { "no home in this region".to_owned() } else { home.order() })
        }),
    ];
    table(&columns, homes, 0)
}

/// Writes conflicts as a table.
fn conflict_table<'r>(conflicts: impl Iterator<Item = ConflictLine<'r>>) -> Table {
    let columns: [Column<ConflictLine<'r>>; 5] = [
        Column::page("Name", "", |(name, ..)| {
            let (link, name) = (encode(name), Cell::text(name.trim_end_matches('.')));
            Value::Html(Cell(format!("<a href=\"/lookup?name={link}\">{name}</a>")))
        }),
        Column::page("Kind", "", |(_, kind, ..)| Value::Text(kind.label().to_owned())),
        Column::page("Member", "", |(.., [member, _])| member_name(*member)),
        Column::page("Because of", "", |(.., [_, by])| member_name(*by)),
        Column::page("Records dropped", "number", |(_, _, dropped, _)| Value::Text(dropped.to_string())),
    ];
    table(&columns, conflicts, 0)
}

/// The name of a member, if there is one to tell.
fn member_name(name: Option<&Name>) -> Value {
    Value::Text(name.map(short).unwrap_or_default())
}

/// Writes primaries as a table.
fn primary_table(primaries: &[PrimaryStatus], now: i64) -> Table {
    let columns: [Column<&PrimaryStatus>; 5] = [
        Column::page("Address", "", |primary| Value::Text(primary.place())),
        Column::page("State", "", |primary| {
            Value::Mark(match primary.failures {
                0 if primary.success.is_none() => Mark::new(Grade::Warn, "not asked yet"),
                0 => Mark::new(Grade::Good, "ok"),
                failures => Mark::new(Grade::Warn, format!("failed {}", count(failures, "time", "times"))),
            })
        }),
        Column::page("Serial", "number", |primary| Value::Serial(primary.announced)),
        Column::page("Last success", "", |primary| Value::At(primary.success)),
        Column::remark("What came of the last attempt", "wide", |primary| Value::Text(printable(&primary.result))),
    ];
    table(&columns, primaries, now)
}

/// Writes transfers as a table.
fn transfer_table<'n>(transfers: impl Iterator<Item = &'n TransferNote>, now: i64) -> Table {
    let columns: [Column<&TransferNote>; 6] = [
        Column::unnamed("When", "", |note| Value::At(Some(note.at))),
        Column::page("Kind", "", |note| Value::Text(note.kind.to_uppercase())),
        Column::page("Result", "", |note| {
            Value::Mark(Mark::new(if note.result == "ok" { Grade::Good } else { Grade::Warn }, note.result))
        }),
        Column::page("Records", "number", |note| Value::Number(note.records)),
        Column::page("Size", "number", |note| Value::Text(size(note.bytes))),
        Column::page("Time", "number wide", |note| Value::Text(format!("{} ms", number(note.milliseconds)))),
    ];
    table(&columns, transfers, now)
}

/// Writes secondaries as a table.
fn secondary_table(secondaries: &[SecondaryReport], now: i64) -> Table {
    let columns: [Column<&SecondaryReport>; 8] = [
        Column::page("Address", "", |target| Value::Text(target.status.address.to_string())),
        Column::page("State", "", |target| Value::Mark(secondary_mark(target))),
        Column::page("Told", "number", |target| Value::Serial(target.status.notified)),
        Column::page("Acknowledged", "number wide", |target| Value::Serial(target.status.acknowledged)),
        Column::page("Fetched", "number", |target| Value::Serial(target.status.fetched)),
        Column::page("Behind since", "", |target| Value::At(target.behind_since)),
        Column::remark("Result", "", |target| Value::Text(target.status.result.clone())),
        Column::page("Since", "wide", |target| Value::At(target.status.since)),
    ];
    table(&columns, secondaries, now)
}

/// Tells whether a secondary follows.
fn secondary_mark(target: &SecondaryReport) -> Mark {
    match target.behind_since {
        None => Mark::new(Grade::Good, "current"),
        Some(_) if target.is_late() => Mark::new(Grade::Warn, "behind"),
        Some(_) => Mark::new(Grade::Good, "following"),
    }
}

/// Writes name servers as a table: a row for each fault, or a single one without faults.
fn server_table(servers: &[ServerCheck], now: i64) -> Table {
    let columns: [Column<ServerLine>; 4] = [
        Column::page("Server", "", |(server, ..)| Value::Text(server.clone())),
        Column::page("Serial", "number wide", |(_, serial, ..)| Value::Serial(*serial)),
        Column::page("State", "", |(_, _, mark, _)| Value::Mark(mark.clone())),
        Column::remark("Fault", "", |(.., text)| Value::Text(text.clone())),
    ];
    table(&columns, servers.iter().flat_map(server_lines), now)
}

/// Returns the lines of a name server.
fn server_lines(server: &ServerCheck) -> Vec<ServerLine> {
    let line = |mark, text| (server.label(), server.serial, mark, text);
    if server.findings.is_empty() {
        return vec![match &server.note {
            Some(note) => line(Mark::new(Grade::Told, "note"), printable(note)),
            None => line(Mark::new(Grade::Good, "ok"), String::new()),
        }];
    }
    let grade = |problem| if problem == Problem::Unknown { Grade::Told } else { Grade::Warn };
    let faults = server.findings.iter();
    faults.map(|fault| line(Mark::new(grade(fault.problem), fault.problem.label()), printable(&fault.text))).collect()
}

/// A number of records with its sign; none is no number.
fn signed(class: &str, sign: char, records: u32) -> Cell {
    if records == 0 {
        return Cell::none();
    }
    Cell(format!("<span class=\"{class}\">{sign}{}</span>", number(records.into())))
}

/// Returns true if a drain concerns the zone, as the region or as the member.
fn concerns(drain: &DrainStatus, name: &Name) -> bool {
    drain.target.member == *name || drain.regions.contains(name)
}

/// The timers of the SOA.
fn timer_facts(served: &Served) -> Vec<Fact> {
    let Some(zone) = &served.zone else { return Vec::new() };
    let soa = &zone.soa;
    let seconds = |seconds: u32| format_seconds(seconds.into());
    vec![
        Fact::new("refresh", seconds(soa.refresh)),
        Fact::new("retry", seconds(soa.retry)),
        Fact::new("expire", seconds(soa.expire)),
        Fact::new("negative answers", seconds(soa.minimum)),
    ]
}

/// Returns the rates of queries that led to the zone, in all and by result.
fn query_rows(report: &Report, name: &Name) -> Vec<Fact> {
    let Some(rates) = report.queries.zones.get(&name.to_string()) else { return Vec::new() };
    let parts = rates.rcodes.iter().map(|(kind, per_second)| Fact::new(kind, rate(*per_second)));
    std::iter::once(Fact::new("all", rate(rates.per_second))).chain(parts).collect()
}
