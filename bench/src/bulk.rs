//! Memory after bulk changes: how much a change of many names leaves behind in a large zone, and what a reload of many
//! prefixes of clients does.
//!
//! The zone comes from a scripted primary, so that versions follow each other as fast as the daemon takes them. Memory is
//! read ten seconds after the last of them: what was used for a change is to be given back by then. Histories stay, and
//! are told. Then the program is started again from its state folder, and read once more, as the measure of what the
//! same contents take.
//!
//! Cost: some 30 s and 1 GB for each case of a million records.

use crate::daemon::{Daemon, plan_region};
use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::memory::Memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::quiet;
use crate::scene::{LONGEST, RECORDS_OF_OTHERS, REGION};
use crate::scripted::Scripted;
use crate::server::Kind;
use crate::steering;
use crate::table::{Figures, Table, mebibytes, thousands};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time that memory may take to come back.
pub const SETTLE: Duration = Duration::from_secs(10);
/// Prefixes of the table of clients, and how often it is replaced.
const PREFIXES: u32 = 1_000_000;
const RELOADS: usize = 10;
/// A tenth of a second for each version, as many as a zone gets by NOTIFY; and one with pauses.
const PACES: [(&str, Duration); 2] = [("at once", Duration::ZERO), ("one a second", Duration::from_secs(1))];

/// Measures all sizes and prints the table.
pub fn measure_all(options: &Options) {
    let heads = ["records", "contents", "changes", "loaded", "highest", "10 s after", "÷ loaded", "of it histories"];
    let mut table = Table::new(&[&heads[..], &["restarted", "time of a change"]].concat());
    for records in &options.records {
        for has_region in [(Kind::Aggregator, false), (Kind::Region, true)]
            .into_iter()
            .filter(|(kind, _)| options.peers.contains(kind))
            .map(|(_, has_region)| has_region)
        {
            PACES.into_iter().for_each(|pace| measure_changes(options, *records, has_region, pace, &mut table));
        }
    }
    measure_reloads(options, &mut table);
    println!("Memory (resident) when loaded, and ten seconds after the last of many changes:\n\n{table}");
}

/// Bulk changes of a zone, alone or with a region of it and others.
fn measure_changes(options: &Options, records: usize, has_region: bool, pace: (&str, Duration), table: &mut Table) {
    let (pace, pause) = pace;
    let names = options.names.iter().copied().max().unwrap_or(1);
    let contents = match (has_region, options.others) {
        (false, _) => "zone".to_string(),
        (true, 0) => "zone and region".to_string(),
        (true, others) => format!("zone, {others} equal ones and region"),
    };
    eprintln!("{} records, {contents}: {} changes of {names}, {pace}", thousands(records), options.bulk);
    let folder = Folder::new();
    let mut zones = if has_region { datacenters(records, options.others) } else { vec![datacenter(0, records)] };
    let primaries: Vec<Scripted> = zones.iter().map(Scripted::start).collect();
    let plan = if has_region { plan(&zones, &primaries) } else { plan_zone(&zones[0], primaries[0].address()) };
    let mut daemon = Daemon::start(&folder, &options.program, &plan);
    let suffix = if has_region { REGION.to_string() } else { zones[0].zone.clone() };
    let mut probe = Probe::new(daemon.address());
    let mut visible = |zone: &Datacenter, name: usize| {
        let owner = format!("{}.{suffix}", zone.owner(name));
        let time = probe.time_until(&owner, zone.address(name), Instant::now(), LONGEST);
        time.expect("a version that is announced is served")
    };
    visible(&zones[0], 0);
    let loaded = settle(&daemon);
    let mut times = Figures::default();
    let mut announcer = Probe::new(daemon.address());
    for change in 0..options.bulk {
        let first = change * names;
        primaries[0].change(&mut zones[0], first, names);
        announcer.notify(&zones[0].zone);
        let time = visible(&zones[0], first + names - 1);
        times.push(time);
        std::thread::sleep(pause.saturating_sub(time));
    }
    let after = settle(&daemon);
    let histories = daemon.accounted("histories");
    daemon.stop();
    daemon.start_again();
    visible(&zones[0], 0);
    let restarted = settle(&daemon);
    let changes = format!("{} × {} names, {pace}", options.bulk, thousands(names));
    table.row(row((records, &contents, changes), [loaded, after, restarted], histories, &times));
}

/// Reloads that replace all prefixes of clients; the region has few records.
fn measure_reloads(options: &Options, table: &mut Table) {
    eprintln!("{} reloads of {} prefixes", RELOADS, thousands(PREFIXES as usize));
    let folder = Folder::new();
    let zones: Vec<Datacenter> = (0..3).map(|index| datacenter(index, RECORDS_OF_OTHERS)).collect();
    let primaries: Vec<Scripted> = zones.iter().map(Scripted::start).collect();
    let files = zones.iter().map(|Datacenter { zone, .. }| format!("\"{zone}\" = {{ file = \"{zone}.prefixes\" }}\n"));
    let plan = format!("{}\n[clients]\n{}", plan(&zones, &primaries), files.collect::<String>());
    let home = folder.subfolder("aggregator");
    steering::write_prefixes(&home, PREFIXES);
    let mut daemon = Daemon::start(&folder, &options.program, &plan);
    let wait = |daemon: &Daemon| {
        let (mut probe, owner) = (Probe::new(daemon.address()), format!("{}.{REGION}", zones[0].owner(0)));
        let time = probe.time_until(&owner, zones[0].address(0), Instant::now(), LONGEST);
        time.expect("the region is served");
        settle(daemon)
    };
    let loaded = wait(&daemon);
    let mut times = Figures::default();
    for fewer in (0..RELOADS as u32).rev() {
        steering::write_prefixes(&home, PREFIXES - fewer);
        times.push(daemon.reload());
    }
    let after = settle(&daemon);
    daemon.stop();
    daemon.start_again();
    let restarted = wait(&daemon);
    let changes = format!("{RELOADS} reloads of {} prefixes", thousands(PREFIXES as usize));
    table.row(row((RECORDS_OF_OTHERS, "prefixes", changes), [loaded, after, restarted], 0, &times));
}

/// A row of the table: memory when loaded, after the changes and after a restart.
fn row(
    (records, contents, changes): (usize, &str, String),
    [loaded, after, restarted]: [Memory; 3],
    histories: u64,
    times: &Figures,
) -> Vec<String> {
    vec![
        thousands(records),
        contents.to_string(),
        changes,
        mebibytes(loaded.resident),
        mebibytes(after.highest),
        mebibytes(after.resident),
        format!("{:.2}", after.resident as f64 / loaded.resident as f64),
        mebibytes(histories / 1024),
        mebibytes(restarted.resident),
        times.to_string(),
    ]
}

/// A datacenter of so many records, and beside it others of the same size or, if there are none, two small ones.
pub fn datacenters(records: usize, others: usize) -> Vec<Datacenter> {
    let others = if others == 0 { vec![RECORDS_OF_OTHERS; 2] } else { vec![records; others] };
    [vec![records], others]
        .concat()
        .into_iter()
        .enumerate()
        .map(|(index, records)| datacenter(index, records))
        .collect()
}

/// A datacenter by number.
fn datacenter(index: usize, records: usize) -> Datacenter {
    Datacenter::new(&format!("us-west-{}.cns.example.com", index + 1), index, records)
}

/// Memory when the daemon has nothing left to do, and time has passed.
pub fn settle(daemon: &Daemon) -> Memory {
    quiet::wait_quiet(&[daemon.id()]);
    std::thread::sleep(SETTLE);
    Memory::take(daemon.id())
}

/// The plan of a region of zones with a primary each.
pub fn plan(zones: &[Datacenter], primaries: &[Scripted]) -> String {
    let addresses = primaries.iter().map(Scripted::address);
    let (first, mut plan) = (primaries[0].address(), plan_region(REGION, zones, primaries[0].address()));
    for (zone, address) in zones.iter().zip(addresses) {
        plan = plan.replace(&format!("\"{}\" = \"{first}\"", zone.zone), &format!("\"{}\" = \"{address}\"", zone.zone));
    }
    plan
}

/// The plan of one zone.
fn plan_zone(zone: &Datacenter, primary: SocketAddr) -> String {
    format!("[zones]\n\"{}\" = \"{primary}\"\n\n[transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n", zone.zone)
}
