//! Restart with many regions of large datacenters: from the start of the program to the first answer of every region.
//!
//! The datacenters are equal in size and share accounts and services, as CNS datacenters do. The regions are either all
//! of all datacenters, or each leaves out other ones than the region before, so that hardly two have the same members. The daemon
//! transfers everything from NSD once, which then goes; it is started again and again, politely ended or killed before.
//! The clock starts before the process does, and stops when each region has the last name of its last member.
//!
//! Cost: two starts for each number of regions in a round.

use crate::daemon::Daemon;
use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::memory::Memory;
use crate::options::Options;
use crate::primary::Primary;
use crate::probe::Probe;
use crate::quiet;
use crate::scene::LONGEST;
use crate::table::{Figures, Table, mebibytes, thousands};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of datacenters of each that the regions with other members leave out, of as many.
const LEFT_OUT: (usize, usize) = (3, 10);

/// A region with its members, by number.
struct Region {
    name: String,
    members: Vec<usize>,
}

/// Measures all numbers of regions, and prints the table.
pub fn measure(options: &Options) {
    let (count, records) = (options.datacenters, options.datacenter_records);
    eprintln!("{count} datacenters of {} records: starting NSD", thousands(records));
    let folder = Folder::new();
    let datacenters: Vec<Datacenter> =
        (0..count).map(|index| Datacenter::new(&format!("dc{index}.example.com"), index, records)).collect();
    let primary = Primary::start(&folder, &datacenters);
    let address = primary.address();
    let none = plan(&datacenters, &[], address);
    let mut daemon = Daemon::start(&folder, &options.program, &none);
    wait(&daemon, &datacenters, &[], Instant::now()).expect("all zones are transferred");
    quiet::wait_quiet(&[primary.id(), daemon.id()]);
    drop(primary);
    let mut table = Table::new(&["regions", "members", "after a polite end", "after a kill", "memory", "state folder"]);
    let counts = options.regions.iter().map(|regions| (*regions, true));
    for (regions, are_alike) in counts.chain(options.regions.iter().max().map(|most| (*most, false))) {
        let all = choose(count, regions, are_alike);
        let plan = plan(&datacenters, &all, address);
        daemon.stop();
        daemon.configure(&plan);
        daemon.start_again();
        wait(&daemon, &datacenters, &all, Instant::now()).expect("all regions are merged");
        quiet::wait_quiet(&[daemon.id()]);
        let mut figures = [Figures::default(), Figures::default()];
        let mut memory = 0;
        for round in 0..options.rounds {
            eprintln!("{regions} regions, restart, round {}", round + 1);
            for (is_killed, figures) in figures.iter_mut().enumerate() {
                if is_killed == 1 {
                    daemon.kill()
                } else {
                    daemon.stop()
                }
                let start = Instant::now();
                daemon.start_again();
                wait(&daemon, &datacenters, &all, start).into_iter().for_each(|time| figures.push(time));
                quiet::wait_quiet(&[daemon.id()]);
                memory = Memory::take(daemon.id()).resident;
            }
        }
        let members = if are_alike { "all".to_string() } else { format!("{} of {count}", all[0].members.len()) };
        let [polite, killed] = figures.map(|figures| figures.to_string());
        let folder = mebibytes(octets(&daemon.state_folder()) / 1024);
        table.row(vec![regions.to_string(), members, polite, killed, mebibytes(memory), folder]);
    }
    println!(
        "{count} datacenters of {} records, from the start of the program to the first answer of all regions:\n\n{table}",
        thousands(records)
    );
}

/// Chooses the members of so many regions of so many datacenters.
fn choose(datacenters: usize, regions: usize, are_alike: bool) -> Vec<Region> {
    let left_out = if are_alike { 0 } else { datacenters * LEFT_OUT.0 / LEFT_OUT.1 };
    let region = |number: usize| {
        // Steps by a number that grows, so that regions with the same first datacenter go on differently.
        let step = 1 + number / datacenters;
        let mut out = std::collections::BTreeSet::new();
        let mut next = number;
        while out.len() < left_out {
            while !out.insert(next % datacenters) {
                next += 1;
            }
            next += step;
        }
        let members = (0..datacenters).filter(|member| !out.contains(member)).collect();
        Region { name: format!("region{number}.example.com"), members }
    };
    (0..regions).map(region).collect()
}

/// The plan of the regions. Changes come by NOTIFY alone: no poll, no audit falls into a measurement.
fn plan(datacenters: &[Datacenter], regions: &[Region], primary: SocketAddr) -> String {
    let zones: String = datacenters.iter().map(|zone| format!("\"{}\" = \"{primary}\"\n", zone.zone)).collect();
    let member = |member: &usize| format!("\"{}\"", datacenters[*member].zone);
    let members = |region: &Region| region.members.iter().map(member).collect::<Vec<_>>().join(", ");
    let regions: String =
        regions.iter().map(|region| format!("\"{}\" = [{}]\n", region.name, members(region))).collect();
    format!("[zones]\n{zones}\n[aggregations]\n{regions}\n[transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n")
}

/// Waits until every region has the last name of its last member, or without regions every zone its own; the time of
/// that from `start` on.
fn wait(daemon: &Daemon, datacenters: &[Datacenter], regions: &[Region], start: Instant) -> Option<Duration> {
    let mut probe = Probe::new(daemon.address());
    let of_region = |region: &Region| {
        let last = *region.members.last().expect("a region has members");
        (region.name.clone(), &datacenters[last])
    };
    let mut waiting: Vec<(String, &Datacenter)> = regions.iter().map(of_region).collect();
    if regions.is_empty() {
        waiting = datacenters.iter().map(|zone| (zone.zone.clone(), zone)).collect();
    }
    for (zone, datacenter) in waiting {
        let name = datacenter.names() - 1;
        probe.time_until(&format!("{}.{zone}", datacenter.owner(name)), datacenter.address(name), start, LONGEST)?;
    }
    Some(start.elapsed())
}

/// Octets of all files in a folder.
fn octets(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => octets(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn regions_have_all_datacenters_or_different_ones() {
        assert!(choose(10, 50, true).iter().all(|region| region.members.len() == 10));
        let regions = choose(10, 50, false);
        assert!(regions.iter().all(|region| region.members.len() == 7));
        let kinds: BTreeSet<&Vec<usize>> = regions.iter().map(|region| &region.members).collect();
        assert!(kinds.len() >= 40, "{} kinds", kinds.len());
    }
}
