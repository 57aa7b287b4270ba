//! Page of one zone, region or catalog: its source, its outgoing transfers, and its history.
//!
//! Cost: O(members, primaries, secondaries) and O(changes of the versions that are listed).

use super::Shell;
use super::parts::{Cell, Grade, Mark, ago, ahead, count, encode, number, rate, serial, short, size, when, zone_link};
use super::rows::{Fact, lag, members, transfer_bars, zone_mark};
use crate::daemon::sources::SourceStatus;
use crate::keeper::{DrainStatus, PinStatus};
use crate::probe::{Problem, ServerCheck};
use crate::publish::Served;
use crate::view::history::{Versions, list_versions};
use crate::view::lookup::printable;
use crate::view::outward::Outward;
use crate::view::remarks::remarks;
use crate::view::report::{RegionReport, Report, ZoneReport};
use crate::view::status::describe_pin;
use crate::view::text::format_seconds;
use crate::zone::Soa;
use askama::Template;
use serde::Serialize;
use std::collections::HashMap;
use wire::name::Name;

/// Versions in the table.
const LISTED_VERSIONS: usize = 50;

/// The page of a zone.
#[derive(Template)]
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
    members: Cell,
    conflicts: Vec<ConflictRow>,
    conflicts_title: String,
    /// Regions that the zone is a member of.
    regions: Vec<Cell>,
    /// Drains and pins that operators have ordered.
    orders: Vec<(Mark, String)>,
    primaries: Vec<PrimaryRow>,
    transfers: Cell,
    recent: Vec<TransferRow>,
    tree: Vec<Fact>,
    broken: Vec<(String, String)>,
    services: Vec<(String, String)>,
    secondaries: Vec<SecondaryRow>,
    servers: Vec<ServerRow>,
    /// Time at which the name servers were asked.
    asked: Cell,
    queries: Vec<Fact>,
    history: Vec<VersionRow>,
    more: usize,
    reach: String,
}

/// A conflict of a region.
struct ConflictRow {
    name: String,
    link: String,
    kind: &'static str,
    member: String,
    /// Member whose records caused it, if that is known.
    by: String,
    dropped: u32,
}

/// A primary of a zone.
struct PrimaryRow {
    address: String,
    mark: Mark,
    serial: Cell,
    success: Cell,
    result: String,
}

/// A transfer of a zone.
struct TransferRow {
    at: Cell,
    kind: String,
    mark: Mark,
    records: String,
    bytes: String,
    duration: String,
}

/// A secondary of a zone.
struct SecondaryRow {
    address: String,
    told: Cell,
    acknowledged: Cell,
    result: String,
}

/// A name server of a zone, or of its parent.
struct ServerRow {
    server: String,
    serial: Cell,
    mark: Mark,
    text: String,
}

/// A version of a zone.
struct VersionRow {
    serial: String,
    at: Cell,
    cause: String,
    names: String,
    removed: Cell,
    added: Cell,
    link: String,
}

/// Timers of the SOA, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timers {
    pub refresh: u32,
    pub retry: u32,
    pub expire: u32,
    pub minimum: u32,
}

impl Timers {
    /// Returns the timers of an SOA.
    pub fn of(soa: &Soa) -> Timers {
        Timers { refresh: soa.refresh, retry: soa.retry, expire: soa.expire, minimum: soa.minimum }
    }
}

impl ZonePage {
    /// Builds the page; none if there is no such zone.
    pub fn new(shell: Shell, report: &Report, served: &Served) -> Option<ZonePage> {
        let (name, now) = (&served.origin, shell.now);
        let mut page = ZonePage {
            name: short(name),
            encoded: encode(&short(name)),
            kind: "",
            mark: Mark::of_state(served.state),
            remarks: String::new(),
            facts: Vec::new(),
            timers: timer_facts(served),
            members: members(&[], &HashMap::new(), now),
            conflicts: Vec::new(),
            conflicts_title: String::new(),
            regions: Vec::new(),
            orders: report.drains.iter().filter(|drain| concerns(drain, name)).map(drained).collect(),
            primaries: Vec::new(),
            transfers: Cell::none(),
            recent: Vec::new(),
            tree: Vec::new(),
            broken: Vec::new(),
            services: Vec::new(),
            secondaries: Vec::new(),
            servers: Vec::new(),
            asked: Cell::none(),
            queries: Vec::new(),
            history: Vec::new(),
            more: 0,
            reach: String::new(),
            shell,
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
            page.facts =
                vec![Fact::new("serial", serial(catalog.serial)), Fact::new("records", number(catalog.records))];
            &catalog.outward
        };
        page.describe_ways_out(outward);
        if let Some(report) = report.name_servers.iter().find(|report| report.check.zone == *name) {
            page.asked = when(Some(report.asked), now);
            page.servers = report.check.servers.iter().flat_map(server_rows).collect();
        }
        page.queries = query_rows(report, name);
        page.list_history(list_versions(served, LISTED_VERSIONS), now);
        Some(page)
    }

    /// Adds the facts about a region.
    fn describe_region(&mut self, report: &Report, RegionReport { kept: region, .. }: &RegionReport, now: i64) {
        let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
        self.kind = "region";
        self.facts = vec![
            Fact::new("serial", serial(region.serial)),
            Fact::new("records", number(region.records)),
            Fact::new("names", number(region.names as u64)),
            Fact::new("drift of the serial", number(region.drift.into())),
            Fact::new("held addresses", number(region.held_addresses as u64)),
        ];
        let pinned = |pin: &PinStatus| (Mark::new(Grade::Told, "pinned"), pinned_to(pin));
        self.orders.extend(region.pinned.iter().map(pinned));
        let mut remarks = Vec::new();
        if region.ns_fallback {
            remarks.push(
                "the members' NS sets have nothing in common: this server is listed alone; set \"ns\"".to_owned(),
            );
        }
        let without = region.servers_without_address.iter();
        remarks.extend(without.map(|server| format!("name server {} has no address in the region", short(server))));
        self.remarks = remarks.join("; ");
        self.members = members(&region.members, &zones, now);
        self.conflicts_title = format!("Conflicts at {}", count(region.conflict_names, "name", "names"));
        let rows = region
            .conflicts
            .iter()
            .flat_map(|(name, conflicts)| conflicts.iter().map(move |conflict| (name, conflict)));
        let row = |(name, conflict): (&String, &crate::merge::Conflict)| ConflictRow {
            name: name.trim_end_matches('.').to_owned(),
            link: format!("/lookup?name={}", encode(name)),
            kind: conflict.kind.label(),
            member: short(&region.members[conflict.member].zone),
            by: conflict.by.map(|by| short(&region.members[by].zone)).unwrap_or_default(),
            dropped: conflict.dropped,
        };
        self.conflicts = rows.map(row).collect();
    }

    /// Adds the facts about a source zone.
    fn describe_zone(&mut self, report: &Report, zone: &ZoneReport, now: i64) {
        let kept = &zone.kept;
        self.kind = "zone";
        self.mark = zone_mark(zone);
        self.facts = vec![
            Fact::new("serial", serial(kept.serial)),
            Fact::new("records", number(kept.records)),
            Fact::new("names", number(kept.names as u64)),
            Fact::new("refreshed", ago(kept.refreshed_seconds_ago, now)),
            Fact::new("expires", ahead(kept.expires_in_seconds, now)),
        ];
        self.remarks = remarks(zone);
        self.conflicts_title = format!("Conflicts at {}", count(kept.conflict_names, "name", "names"));
        let rows = kept.conflicts.iter().flat_map(|(name, conflicts)| conflicts.iter().map(move |told| (name, told)));
        let row = |(name, conflict): (&String, &crate::keeper::ZoneConflict)| ConflictRow {
            name: name.trim_end_matches('.').to_owned(),
            link: format!("/lookup?name={}", encode(name)),
            kind: conflict.kind.label(),
            member: String::new(),
            by: String::new(),
            dropped: conflict.dropped,
        };
        self.conflicts = rows.map(row).collect();
        let regions =
            report.regions.iter().filter(|region| region.kept.members.iter().any(|member| member.zone == kept.zone));
        self.regions = regions.map(|region| zone_link(&region.kept.region)).collect();
        match &zone.source {
            Some(SourceStatus::Primaries(source)) => {
                let announced = zone.newest_at_primary();
                self.facts.insert(1, Fact::new("at the primary", serial(announced)));
                self.facts.insert(2, Fact::new("lag", lag(kept.serial, announced)));
                self.facts.push(Fact::new("next refresh", when(source.next_refresh, now)));
                let primary = |primary: &crate::transfer::PrimaryStatus| PrimaryRow {
                    address: primary.address.to_string(),
                    mark: match primary.failures {
                        0 if primary.success.is_none() => Mark::new(Grade::Warn, "not asked yet"),
                        0 => Mark::new(Grade::Good, "ok"),
                        failures => {
                            Mark::new(Grade::Warn, format!("failed {}", count(failures as usize, "time", "times")))
                        }
                    },
                    serial: serial(primary.announced),
                    success: when(primary.success, now),
                    result: printable(&primary.result),
                };
                self.primaries = source.primaries.iter().map(primary).collect();
                self.transfers = transfer_bars(zone);
                let row = |note: &crate::transfer::TransferNote| TransferRow {
                    at: when(Some(note.at), now),
                    kind: note.kind.to_uppercase(),
                    mark: Mark::new(if note.result == "ok" { Grade::Good } else { Grade::Warn }, note.result),
                    records: number(note.records),
                    bytes: size(note.bytes),
                    duration: format!("{} ms", number(note.milliseconds)),
                };
                self.recent = source.transfers.iter().rev().take(10).map(row).collect();
            }
            Some(SourceStatus::Tree(tree)) => {
                self.tree = vec![
                    Fact::new(
                        "session",
                        Mark::new(if tree.error.is_none() { Grade::Good } else { Grade::Warn }, tree.session.label()),
                    ),
                    Fact::text("member", tree.member.as_deref().unwrap_or("none yet")),
                    Fact::text("path", &tree.path),
                    Fact::new("nodes", tree.nodes.map_or_else(Cell::none, |nodes| Cell(number(nodes)))),
                    Fact::new("session begun", when(tree.since, now)),
                    Fact::new("last answer", when(tree.last_contact, now)),
                    Fact::new("events", number(tree.events)),
                    Fact::new("sessions lost", number(tree.losses)),
                ];
                let payloads = tree.broken_payloads.iter();
                self.broken = payloads.map(|payload| (printable(&payload.node), printable(&payload.error))).collect();
            }
            Some(SourceStatus::Services(own)) => {
                self.facts.push(Fact::new("configured", when(Some(own.configured), now)));
                self.services =
                    own.openstack.iter().map(|service| (service.kind.clone(), service.url.clone())).collect();
            }
            None => {}
        }
    }

    /// Adds the facts about secondaries.
    fn describe_ways_out(&mut self, outward: &Outward) {
        let counts = |counts: crate::view::outward::TransferCounts| {
            format!("{} incremental, {} full", number(counts.incremental), number(counts.full))
        };
        if self.kind == "zone" && !self.primaries.is_empty() {
            self.facts.push(Fact::new("transfers in", counts(outward.received)));
        }
        self.facts.push(Fact::new("transfers out", counts(outward.sent)));
        let row = |target: &crate::notify::TargetStatus| SecondaryRow {
            address: target.address.to_string(),
            told: serial(target.notified),
            acknowledged: serial(target.acknowledged),
            result: target.result.clone(),
        };
        self.secondaries = outward.secondaries.iter().map(row).collect();
        if let Some(from) = outward.history.from {
            let (versions, size) =
                (count(outward.history.versions, "version", "versions"), size(outward.history.bytes as u64));
            self.reach = format!("{versions} since serial {from}, {size}");
        }
    }

    /// The versions of the past.
    fn list_history(&mut self, versions: Versions, now: i64) {
        let row = |version: &crate::view::history::Version| VersionRow {
            serial: version.serial.to_string(),
            at: when(version.at, now),
            cause: version.cause.clone(),
            names: number(version.names as u64),
            removed: signed("minus", '−', version.removed),
            added: signed("plus", '+', version.added),
            link: format!("/zone/{}/diff?from={}&to={}", self.encoded, version.from, version.serial),
        };
        self.history = versions.versions.iter().map(row).collect();
        self.more = versions.more;
    }
}

/// Returns the rows of a name server: one for each fault, or a single one without faults.
fn server_rows(server: &ServerCheck) -> Vec<ServerRow> {
    let row = |mark, text| ServerRow { server: server.label(), serial: serial(server.serial), mark, text };
    if server.findings.is_empty() {
        return vec![match &server.note {
            Some(note) => row(Mark::new(Grade::Told, "note"), printable(note)),
            None => row(Mark::new(Grade::Good, "ok"), String::new()),
        }];
    }
    let grade = |problem| if problem == Problem::Unknown { Grade::Told } else { Grade::Warn };
    let faults = server.findings.iter();
    faults.map(|fault| row(Mark::new(grade(fault.problem), fault.problem.label()), printable(&fault.text))).collect()
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

/// A pin in words that follow the word itself.
pub fn pinned_to(pin: &PinStatus) -> String {
    describe_pin(pin).trim_start_matches("pinned ").to_owned()
}

/// A drain in words.
fn drained(drain: &DrainStatus) -> (Mark, String) {
    let names = drain.target.names.as_ref().map_or_else(|| "all names".to_owned(), ToString::to_string);
    let regions: Vec<String> = drain.regions.iter().map(short).collect();
    let reason = drain.reason.as_deref().map(|reason| format!("; {}", printable(reason))).unwrap_or_default();
    let text = format!("out of {}: {names} of {}{reason}", regions.join(", "), short(&drain.target.member));
    (Mark::new(Grade::Told, "drained"), text)
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
