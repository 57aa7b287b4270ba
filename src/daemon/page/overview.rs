//! The first page: what needs attention, the regions with their members, all zones, queries, and the server itself.
//!
//! Cost: O(zones + members of all regions).

use super::Shell;
use super::parts::{
    Bar, Cell, Escaped, Grade, Mark, When, count, id_of, number, rate, serial, share, short, spark_bars, spark_line,
    when, zone_link,
};
use crate::config::format_size;
use crate::daemon::lookup::printable;
use crate::daemon::rates::Queries;
use crate::daemon::sources::SourceStatus;
use crate::daemon::status::{RegionReport, Report, ZoneReport, newest_at_primary, remarks};
use crate::keeper::{DrainStatus, MemberStatus};
use crate::name::Name;
use crate::publish::State;
use crate::serial::Serial;
use crate::source::zookeeper::TreeStatus;
use crate::source::zookeeper::status::Session;
use crate::transfer::TransferNote;
use askama::Template;
use std::collections::{HashMap, HashSet};

/// Zones in the table; who has more looks for one by its name.
const LISTED_ZONES: usize = 500;
/// Places of a zone's chart of transfers.
const BARS: usize = 32;

/// The first page.
#[derive(Template)]
#[template(path = "overview.html")]
pub struct Overview {
    shell: Shell,
    verdict: Mark,
    notes: Vec<Note>,
    facts: Vec<Fact>,
    regions: Vec<RegionCard>,
    zones: Vec<ZoneRow>,
    hidden_zones: usize,
    drains: Vec<DrainRow>,
    trees: Vec<TreeRow>,
    rcodes: Vec<RcodeRow>,
    transports: Vec<Fact>,
    queries: Cell,
    server: Vec<Fact>,
    catalog: Option<CatalogRow>,
}

/// Something that an operator should know.
pub struct Note {
    pub mark: Mark,
    /// What it is about.
    pub about: Cell,
    pub text: String,
}

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

/// A region.
struct RegionCard {
    id: String,
    link: Cell,
    mark: Mark,
    serial: Cell,
    facts: Vec<Fact>,
    members: Vec<MemberRow>,
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
struct ZoneRow {
    id: String,
    link: Cell,
    mark: Mark,
    serial: Cell,
    records: String,
    queries: Cell,
    refreshed: Cell,
    expires: Cell,
    transfers: Cell,
    remarks: String,
}

/// What regions go without.
struct DrainRow {
    link: Cell,
    names: String,
    regions: String,
    since: Cell,
    until: Cell,
    by: &'static str,
    reason: String,
}

/// A tree of ZooKeeper's.
struct TreeRow {
    link: Cell,
    mark: Mark,
    path: String,
    member: String,
    nodes: Cell,
    contact: Cell,
    losses: String,
}

/// A response code.
struct RcodeRow {
    name: &'static str,
    rate: String,
    share: Cell,
    history: Cell,
}

/// The catalog zone.
struct CatalogRow {
    link: Cell,
    serial: Cell,
    records: String,
    secondaries: String,
}

impl Overview {
    /// Puts the page together.
    pub fn new(shell: Shell, report: &Report, queries: &Queries) -> Overview {
        let now = shell.now;
        let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
        let notes = collect_notes(report);
        let mut rows: Vec<(Grade, ZoneRow)> = report.zones.iter().map(|zone| zone_row(report, zone, now)).collect();
        // Trouble comes first; else they keep their order.
        rows.sort_by_key(|(grade, _)| std::cmp::Reverse(if *grade == Grade::Told { Grade::Good } else { *grade }));
        let hidden_zones = rows.len().saturating_sub(LISTED_ZONES);
        let regions = report.regions.iter().map(|region| region_card(report, region, &zones, now)).collect();
        Overview {
            verdict: judge(report, &notes),
            notes,
            facts: sum_up(report, queries, now),
            regions,
            zones: rows.into_iter().take(LISTED_ZONES).map(|(_, row)| row).collect(),
            hidden_zones,
            drains: report.drains.iter().map(|drain| drain_row(drain, now)).collect(),
            trees: tree_rows(report, now),
            rcodes: rcode_rows(queries),
            transports: queries
                .rates
                .transports
                .iter()
                .map(|(name, per_second)| Fact::new(transport(name), rate(*per_second)))
                .collect(),
            queries: spark_line(&queries.history, &describe_rates(queries)),
            server: server_facts(report, now),
            catalog: report.catalog.as_ref().map(|catalog| CatalogRow {
                link: zone_link(&catalog.zone),
                serial: serial(catalog.serial),
                records: number(catalog.records),
                secondaries: count(catalog.outward.secondaries.len(), "secondary", "secondaries"),
            }),
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

/// One sentence about everything.
fn judge(report: &Report, notes: &[Note]) -> Mark {
    let grade = notes.iter().map(|note| note.mark.grade).max().unwrap_or(Grade::Good);
    let failing = |grade: Grade| notes.iter().filter(|note| note.mark.grade == grade).count();
    let dead = report.regions.iter().filter(|region| region.kept.state != State::Ok).count();
    let text = match grade {
        Grade::Bad if dead > 0 => format!("{dead} of {} not served", count(report.regions.len(), "region", "regions")),
        Grade::Bad => format!("{} broken", count(failing(Grade::Bad), "thing", "things")),
        Grade::Warn => format!("Serving; {} to look at", count(failing(Grade::Warn), "thing", "things")),
        Grade::Told if report.drains.is_empty() => "Serving; withdrawn addresses are held".to_owned(),
        Grade::Told => "Serving; datacenters are drained".to_owned(),
        Grade::Good if report.zones.is_empty() && report.regions.is_empty() => "No zones are configured".to_owned(),
        Grade::Good => "Everything is well".to_owned(),
    };
    Mark::new(grade, text)
}

/// The numbers at the top.
fn sum_up(report: &Report, queries: &Queries, now: i64) -> Vec<Fact> {
    let serving = |states: &mut dyn Iterator<Item = State>| states.filter(|state| *state == State::Ok).count();
    let regions = serving(&mut report.regions.iter().map(|region| region.kept.state));
    let zones = serving(&mut report.zones.iter().map(|zone| zone.kept.state));
    let records: u64 = report
        .zones
        .iter()
        .map(|zone| zone.kept.records)
        .chain(report.regions.iter().map(|region| region.kept.records))
        .sum();
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
        Fact::new("started", When::new(now - uptime, now)),
    ]
}

/// What the chart of queries shows.
fn describe_rates(queries: &Queries) -> String {
    let largest = queries.history.iter().copied().fold(0.0, f64::max);
    let minutes = (queries.history.len() as f64 * queries.interval_seconds / 60.0).ceil();
    format!(
        "Queries a second over {minutes} minutes: now {}, at most {}",
        rate(queries.rates.per_second),
        rate(largest)
    )
}

/// Response codes with their rates.
fn rcode_rows(queries: &Queries) -> Vec<RcodeRow> {
    let whole: f64 = queries.rates.rcodes.values().sum();
    let row = |(name, per_second): (&&'static str, &f64)| RcodeRow {
        name,
        rate: rate(*per_second),
        share: share(*per_second, whole),
        history: spark_line(
            queries.rcode_history.get(name).map_or(&[], Vec::as_slice),
            &format!("{name} a second, last minutes"),
        ),
    };
    let mut codes: Vec<_> = queries.rates.rcodes.iter().collect();
    codes.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    codes.into_iter().map(row).collect()
}

/// What is to be known of the process.
fn server_facts(report: &Report, now: i64) -> Vec<Fact> {
    let state = &report.state;
    let folder = match (&state.folder, &state.error) {
        (None, _) => Cell::text("off: a restart begins without zones"),
        (Some(folder), Some(error)) => {
            let text = Escaped(error).to_string();
            Cell(format!("{} {} {text}", Escaped(&folder.display().to_string()), Mark::new(Grade::Bad, "failing")))
        }
        (Some(folder), None) => Cell(format!(
            "{} {} {}",
            Escaped(&folder.display().to_string()),
            Mark::new(Grade::Good, "healthy"),
            format_size(state.bytes)
        )),
    };
    vec![
        Fact::text("version", report.version),
        Fact::text("configuration", &report.config),
        Fact { name: "state folder", value: folder },
        Fact { name: "last written", value: when(state.last_written, now) },
        Fact { name: "next audit", value: when(report.next_audit, now) },
    ]
}

//--- Zones, members ---

/// How far a zone is behind its primaries.
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
    let announced = zone.and_then(|zone| newest_at_primary(zone));
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

/// So many seconds ago.
pub fn ago(seconds: Option<u64>, now: i64) -> Cell {
    when(seconds.map(|seconds| now.saturating_sub_unsigned(seconds)), now)
}

/// So many seconds ahead; what never comes is a dash.
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

/// A region as a card.
fn region_card(whole: &Report, report: &RegionReport, zones: &HashMap<&Name, &ZoneReport>, now: i64) -> RegionCard {
    let region = &report.kept;
    let mut facts = vec![
        Fact::new("records", number(region.records)),
        Fact::new("names", number(region.names as u64)),
        Fact::new("conflicts", number(region.conflict_names as u64)),
    ];
    facts.push(Fact::new("queries/s", zone_rate(whole, &region.region)));
    if region.held_addresses > 0 {
        facts.push(Fact::new("held addresses", number(region.held_addresses as u64)));
    }
    if region.drift != 0 {
        facts.push(Fact::new("drift", number(region.drift.into())));
    }
    if !report.outward.secondaries.is_empty() {
        let secondaries = &report.outward.secondaries;
        let is_current = |acknowledged: Option<Serial>| acknowledged.is_some() && acknowledged == region.serial;
        let current = secondaries.iter().filter(|target| is_current(target.acknowledged)).count();
        facts.push(Fact::new("secondaries told", format!("{current} of {}", secondaries.len())));
    }
    RegionCard {
        id: id_of("region", &region.region),
        link: zone_link(&region.region),
        mark: Mark::of_state(region.state),
        serial: serial(region.serial),
        facts,
        members: region.members.iter().map(|member| member_row(member, zones, now)).collect(),
    }
}

/// A source zone as a row, with how much it matters.
fn zone_row(report: &Report, zone: &ZoneReport, now: i64) -> (Grade, ZoneRow) {
    let kept = &zone.kept;
    let remarks = zone.source.as_ref().map(remarks).unwrap_or_default();
    let mark = Mark::of_state(kept.state);
    let failing = zone.source.as_ref().is_some_and(is_failing);
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
        mark: if failing && mark.grade == Grade::Good { Mark::new(Grade::Warn, "ok, source fails") } else { mark },
    };
    (row.mark.grade, row)
}

/// Whether a way in is not as it should be.
fn is_failing(source: &SourceStatus) -> bool {
    match source {
        SourceStatus::Primaries(source) => {
            source.held.is_some() || source.primaries.iter().any(|primary| primary.failures > 0)
        }
        SourceStatus::Tree(source) => source.held.is_some() || source.session == Session::Disconnected,
        SourceStatus::Services(_) => false,
    }
}

/// The last transfers of a zone; nothing for one that is not transferred.
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

/// One transfer in words.
fn describe_transfer(note: &TransferNote) -> String {
    let kind = note.kind.to_uppercase();
    match note.result {
        "ok" => format!("{kind}, {} in {} ms", format_size(note.bytes), number(note.milliseconds)),
        result => format!("{kind} failed: {result}"),
    }
}

/// Trees, each once.
fn tree_rows(report: &Report, now: i64) -> Vec<TreeRow> {
    let trees = report.zones.iter().filter_map(|zone| match &zone.source {
        Some(SourceStatus::Tree(tree)) if tree.tree == zone.kept.zone => Some(&**tree),
        _ => None,
    });
    let row = |tree: &TreeStatus| TreeRow {
        link: zone_link(&tree.tree),
        mark: Mark::new(if tree.session == Session::Live { Grade::Good } else { Grade::Warn }, tree.session.label()),
        path: tree.path.clone(),
        member: tree.member.clone().unwrap_or_else(|| "none yet".to_owned()),
        nodes: tree.nodes.map_or_else(Cell::none, |nodes| Cell(number(nodes))),
        contact: when(tree.last_contact, now),
        losses: number(tree.losses),
    };
    trees.map(row).collect()
}

/// A drain as a row.
fn drain_row(drain: &DrainStatus, now: i64) -> DrainRow {
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

//--- Attention ---

/// Everything that an operator should look at, the worst first.
fn collect_notes(report: &Report) -> Vec<Note> {
    let (mut notes, mut told) = (Vec::new(), HashSet::new());
    let why = |zone: &Name| {
        let source = report.zones.iter().find(|report| report.kept.zone == *zone).and_then(|zone| zone.source.as_ref());
        let remarks = source.map(remarks).unwrap_or_default();
        if remarks.is_empty() { "nothing has come from its source for too long".to_owned() } else { remarks }
    };
    let mut add = |grade: Grade, label: &str, about: Cell, text: String| {
        notes.push(Note { mark: Mark::new(grade, label), about, text })
    };
    if let Some(error) = &report.state.error {
        add(Grade::Bad, "state folder", Cell::text("disk"), format!("{error}; a restart would begin with older zones"));
    }
    for RegionReport { kept: region, .. } in &report.regions {
        let link = || zone_link(&region.region);
        match region.state {
            State::Ok => {}
            State::NotReady => add(
                Grade::Bad,
                "not ready",
                link(),
                "waits for members that were never transferred; clients get SERVFAIL".to_owned(),
            ),
            State::Expired => {
                add(Grade::Bad, "expired", link(), "no member is valid any more; clients get SERVFAIL".to_owned())
            }
        }
        for member in &region.members {
            let name = short(&member.zone);
            let why = why(&member.zone);
            match member.state {
                "stale" => add(Grade::Warn, "stale", link(), format!("{name} is served as it was: {why}")),
                "missing" => add(Grade::Bad, "missing", link(), format!("{name} is not in the region: {why}")),
                "expired" => add(Grade::Bad, "expired", link(), format!("{name} is not in the region any more: {why}")),
                _ => continue,
            }
            told.insert(&member.zone);
        }
        if region.ns_fallback {
            add(
                Grade::Warn,
                "name servers",
                link(),
                "the members' NS sets have nothing in common: this server is listed alone".to_owned(),
            );
        }
        for server in &region.servers_without_address {
            add(Grade::Warn, "name servers", link(), format!("{} has no address in the region", short(server)));
        }
        if region.held_addresses > 0 {
            add(
                Grade::Told,
                "held",
                link(),
                format!(
                    "{} that members have withdrawn stay for a while",
                    count(region.held_addresses, "address", "addresses")
                ),
            );
        }
    }
    for zone in report.zones.iter().filter(|zone| !told.contains(&zone.kept.zone)) {
        let (name, why) = (&zone.kept.zone, why(&zone.kept.zone));
        match (zone.kept.state, &zone.source) {
            (State::NotReady, _) => add(Grade::Bad, "not ready", zone_link(name), why),
            (State::Expired, _) => add(Grade::Bad, "expired", zone_link(name), why),
            (State::Ok, Some(source)) if is_failing(source) => add(Grade::Warn, "source", zone_link(name), why),
            (State::Ok, _) => {}
        }
    }
    for drain in &report.drains {
        let row = drain_row(drain, 0);
        let reason = if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) };
        add(Grade::Told, "drained", row.link, format!("{} out of {}, by {}{reason}", row.names, row.regions, row.by));
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.mark.grade));
    notes
}
