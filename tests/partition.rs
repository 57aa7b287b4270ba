//! Networks that break: three datacenters, two replicas and clients, each in a namespace of its own.
//!
//! A datacenter is cut off, a replica is cut off, a third of all packets gets lost, and each time all heals; meanwhile
//! clients ask both replicas, and every answer tells which versions it was made from. Packets get lost by nftables; the
//! way to the datacenters delays and reorders by a relay with a seed. Timers are those of CNS and of an empty
//! configuration.
//!
//! Needs root; `make test-partition` runs it. `make partitions` writes what it saw into docs/partitions.md.

#[path = "partition/client.rs"]
mod client;
mod harness;
#[path = "partition/site.rs"]
mod site;

use client::{Observation, ask_on};
use harness::*;
use site::Site;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REGION: &str = "us-west.cns.example.com.";
const SITES: [&str; 3] = ["dc1", "dc2", "dc3"];
const REPLICAS: [&str; 2] = ["replica1", "replica2"];
/// Clients that ask at the same time.
const CLIENTS: usize = 12;
/// Between two changes of one datacenter, which is ten seconds with CNS.
const CHANGE: Duration = Duration::from_secs(1);
/// Longest time that a heal may take: the longest pause between two tries of a primary is a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns the address of a machine.
fn address(node: &str) -> Ipv4Addr {
    let last = match node {
        "dc1" | "dc2" | "dc3" => 101 + node.as_bytes()[2] - b'1',
        "replica1" => 11,
        "replica2" => 12,
        _ => 21,
    };
    Ipv4Addr::new(10, 53, 0, last)
}

/// A replica of our daemon.
struct Replica {
    configuration: std::path::PathBuf,
    _process: Process,
}

impl Replica {
    /// Starts it with the configuration that an operator would write, and waits until it answers `status`.
    fn start(net: &Net, folder: &Folder, index: usize) -> Replica {
        let home = folder.subfolder(REPLICAS[index]);
        let configuration = home.join("config.toml");
        let zone = |site: usize| format!("us-west-{}.cns.example.com", site + 1);
        let zones: String = (0..3).map(|site| format!("\"{}\" = \"{}\"\n", zone(site), address(SITES[site]))).collect();
        let members: Vec<String> = (0..3).map(|site| format!("\"{}\"", zone(site))).collect();
        let text = format!(
            "[server]\nname = \"ns{}.example.com\"\n[state]\nfolder = \"state\"\n[control]\nsocket = \"control\"\n\
             [zones]\n{zones}[aggregations.\"{REGION}\"]\nmembers = [{}]\n",
            index + 1,
            members.join(", ")
        );
        write_file(&configuration, &text);
        let mut command = net.command(REPLICAS[index], env!("CARGO_BIN_EXE_aggregator").as_ref());
        command.args(["run", "-c"]).arg(&configuration).current_dir(&home);
        let mut process = Process::start(REPLICAS[index], &mut command, &home.join("log"));
        process.wait_ready("answers status", Duration::from_secs(20), || {
            (run_verb(&["status", "--json"], &configuration).code == 0).then_some(())
        });
        Replica { configuration, _process: process }
    }

    /// The records of the region as it is served.
    fn dump(&self) -> Vec<Record> {
        let output = run_verb(&["dump", REGION], &self.configuration);
        if output.code == 0 { read_zone(&output.stdout) } else { Vec::new() }
    }
}

/// Everything there is; processes end before the net does.
struct World {
    replicas: Vec<Replica>,
    sites: Vec<Site>,
    rows: Vec<Row>,
    net: Net,
    _folder: Folder,
}

/// Observations of clients in one phase.
struct Row {
    title: &'static str,
    /// Length of the phase, and the time that it took to heal, where there was something to heal.
    length: Duration,
    healed: Option<Duration>,
    observations: Vec<Observation>,
    /// Age of the data seen of each datacenter, in seconds, in order.
    ages: [Vec<f64>; 3],
}

impl Row {
    /// Questions that nobody answered.
    fn unanswered(&self) -> usize {
        self.observations.iter().filter(|seen| seen.versions.is_none()).count()
    }

    /// Questions that took so many tries or more, and were answered.
    fn answered_by(&self, tries: std::ops::RangeInclusive<usize>) -> usize {
        self.observations.iter().filter(|seen| seen.versions.is_some() && tries.contains(&seen.tries)).count()
    }

    /// Answers without the records of a datacenter.
    fn incomplete(&self) -> usize {
        let answers = self.observations.iter().filter_map(|seen| seen.versions);
        answers.filter(|versions| versions.iter().any(Option::is_none)).count()
    }

    /// The age below which so many percent of what was seen of a datacenter were.
    fn age(&self, site: usize, percent: usize) -> f64 {
        let ages = &self.ages[site];
        ages.get((ages.len() * percent / 100).min(ages.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// The longest that a question took, in milliseconds.
    fn slowest(&self) -> u128 {
        let times = self.observations.iter().filter(|seen| seen.versions.is_some());
        times.map(|seen| (seen.answered - seen.asked).as_millis()).max().unwrap_or_default()
    }

    /// A line of the table.
    fn line(&self) -> String {
        let share = |count: usize| format!("{:.1} %", 100.0 * count as f64 / self.observations.len().max(1) as f64);
        let ages = (0..3).map(|site| format!("{:.1} … {:.1} s", self.age(site, 50), self.age(site, 100)));
        format!(
            "| {} | {:.0} s | {} | {} | {} | {} | {} | {} ms | {} | {} |\n",
            self.title,
            self.length.as_secs_f64(),
            self.observations.len(),
            share(self.answered_by(1..=1)),
            share(self.answered_by(2..=usize::MAX)),
            share(self.unanswered()),
            self.incomplete(),
            self.slowest(),
            ages.collect::<Vec<_>>().join(" | "),
            self.healed.map_or("–".to_string(), |time| format!("{:.1} s", time.as_secs_f64())),
        )
    }
}

impl World {
    /// Starts everything and waits until both replicas have all datacenters.
    fn start() -> World {
        let folder = Folder::new();
        let nodes: Vec<(&str, String)> = SITES
            .into_iter()
            .chain(REPLICAS)
            .chain(["client"])
            .map(|node| (node, format!("{}/24", address(node))))
            .collect();
        let net = Net::create(&nodes);
        let secondaries: Vec<SocketAddr> = REPLICAS.map(|replica| SocketAddr::from((address(replica), 53))).into();
        let sites = SITES.iter().zip(0..);
        let sites = sites.map(|(node, number)| Site::start(&net, node, number, address(node), secondaries.clone()));
        let mut sites: Vec<Site> = sites.collect();
        sites.iter_mut().for_each(|site| site.set_delay(5, 40));
        let replicas = (0..2).map(|index| Replica::start(&net, &folder, index)).collect();
        let mut world = World { replicas, sites, rows: Vec::new(), net, _folder: folder };
        world.wait_level();
        world
    }

    /// The region as it should be at rest, without SOA and NS: the naive union.
    fn expected(&self) -> Vec<Record> {
        let region = Dname::parse(REGION);
        let below = |labels: &[&str]| {
            labels.iter().rev().fold(region.clone(), |name, label| name.child(label.as_bytes()).expect("a short name"))
        };
        let mut records = Vec::new();
        for (number, site) in self.sites.iter().enumerate() {
            let version = site.published.len() - 1;
            let coded = [10, number as u8, (version >> 8) as u8, version as u8].to_vec();
            records.push(Record::new(&below(&["web", "svc", "acme"]), rtype::A, 30, coded));
            records.extend((1..=200).map(|instance| {
                let owner = below(&[&format!("i{number}-{instance}"), "inst", "acme"]);
                Record::new(&owner, rtype::A, 30, vec![192, 0, 2, instance])
            }));
        }
        records
    }

    /// Waits until both replicas serve the newest versions of all, record by record, under one serial. Returns how long
    /// that took.
    fn wait_level(&mut self) -> Duration {
        let began = Instant::now();
        let expected = self.expected();
        let sum: u32 = self.sites.iter().map(|site| 1000 + site.published.len() as u32 - 1).sum();
        wait_until("both replicas have everything", PATIENCE, || {
            self.sites.iter_mut().for_each(Site::repeat);
            let is_level = self.replicas.iter().all(|replica| {
                let dump = replica.dump();
                let serial = dump.iter().find(|record| record.rtype == rtype::SOA).map(Record::serial);
                let data: Vec<Record> =
                    dump.into_iter().filter(|record| ![rtype::SOA, rtype::NS].contains(&record.rtype)).collect();
                serial == Some(sum) && difference(&expected, &data).is_none()
            });
            is_level.then_some(())
        });
        began.elapsed()
    }

    /// Changes all datacenters for a while, or until all has healed, while clients ask.
    fn phase(&mut self, title: &'static str, length: Duration, heals: bool) {
        let servers: Vec<SocketAddr> = REPLICAS.map(|replica| SocketAddr::from((address(replica), 53))).into();
        let name = Dname::parse(&format!("web.svc.acme.{REGION}"));
        let end = AtomicBool::new(false);
        let began = Instant::now();
        let (net, sites, replicas) = (&self.net, &mut self.sites, &self.replicas);
        let mut healed = None;
        let observations: Vec<Observation> = std::thread::scope(|scope| {
            let (servers, name, end) = (&servers, &name, &end);
            let ask = |first| scope.spawn(move || net.enter("client", || ask_on(servers, name, first, end)));
            let clients: Vec<_> = (0..CLIENTS).map(ask).collect();
            // What a heal is measured by: the versions that are there when it begins.
            let wanted: Vec<Record> =
                sites.iter().enumerate().map(|(number, site)| coded(number, site.published.len() - 1)).collect();
            let mut next = Instant::now();
            while began.elapsed() < length || heals && healed.is_none() && began.elapsed() < PATIENCE {
                if Instant::now() >= next {
                    sites.iter_mut().for_each(Site::change);
                    next += CHANGE;
                }
                if heals && healed.is_none() && replicas.iter().all(|replica| has_all(&replica.dump(), &wanted)) {
                    healed = Some(began.elapsed());
                }
                // The rhythm of looking; changes come by the clock.
                std::thread::sleep(Duration::from_millis(20));
            }
            end.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        });
        assert!(!heals || healed.is_some(), "{title}: not healed within {PATIENCE:?}");
        let mut ages: [Vec<f64>; 3] = Default::default();
        for seen in &observations {
            for (site, version) in seen.versions.iter().flatten().enumerate() {
                let Some(version) = version else { continue };
                let published = &self.sites[site].published;
                assert!(*version < published.len(), "a version that never was: {seen:?}");
                // As old as its successor is, if that was there when the question was asked.
                let age = published
                    .get(version + 1)
                    .map_or(0.0, |next| seen.asked.saturating_duration_since(*next).as_secs_f64());
                ages[site].push(age);
            }
        }
        ages.iter_mut().for_each(|ages| ages.sort_by(f64::total_cmp));
        let row = Row { title, length: began.elapsed(), healed, observations, ages };
        print!("{}", row.line());
        self.rows.push(row);
    }
}

/// The record that has a version of a datacenter.
fn coded(number: usize, version: usize) -> Record {
    let owner = Dname::parse(&format!("web.svc.acme.{REGION}"));
    Record::new(&owner, rtype::A, 30, vec![10, number as u8, (version >> 8) as u8, version as u8])
}

/// Returns true if a region shows these versions or later ones.
fn has_all(region: &[Record], wanted: &[Record]) -> bool {
    wanted.iter().all(|want| {
        region.iter().any(|record| {
            record.owner == want.owner
                && record.rtype == want.rtype
                && record.rdata[1] == want.rdata[1]
                && record.rdata[2..] >= want.rdata[2..]
        })
    })
}

#[test]
#[ignore = "needs root: make test-partition"]
fn clients_are_served_through_every_partition() {
    let mut world = World::start();
    let seconds = Duration::from_secs;
    world.phase("all is well", seconds(6), false);
    world.net.lose("dc1", 100);
    world.phase("datacenter 1 cut off", seconds(8), false);
    world.net.lose("dc1", 0);
    world.phase("datacenter 1 back", seconds(5), true);
    world.net.lose("replica1", 100);
    world.phase("replica 1 cut off", seconds(8), false);
    world.net.lose("replica1", 0);
    world.phase("replica 1 back", seconds(5), true);
    let everybody = || SITES.into_iter().chain(REPLICAS).chain(["client"]);
    everybody().for_each(|node| world.net.lose(node, 30));
    world.phase("30 % of all packets lost", seconds(12), false);
    everybody().for_each(|node| world.net.lose(node, 0));
    world.phase("all healed", seconds(5), true);
    let level = world.wait_level();
    println!("level {level:?} after the last change");

    let table: String = world.rows.iter().map(Row::line).collect();
    let head = "| | length | questions | at once | by another try | never | incomplete | slowest | age of datacenter 1 | of 2 | of 3 | healed after |\n\
                |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    if std::env::var_os("AGGREGATOR_WRITE_DOCS").is_some() {
        write_table("docs/partitions.md", &format!("{head}{table}"));
    }
    for row in &world.rows {
        assert_eq!(row.incomplete(), 0, "a datacenter was missing from answers: {}", row.title);
        assert!(row.observations.len() > 100, "{}: {} questions", row.title, row.observations.len());
        let is_lossy = row.title.starts_with("30 %");
        assert!(row.unanswered() == 0 || is_lossy, "{}: {} questions never answered", row.title, row.unanswered());
        // With a third of all packets lost, half of the tries fail, and one question of two hundred has no luck eight
        // times.
        assert!(row.unanswered() * 25 < row.observations.len(), "{}: {}", row.title, row.unanswered());
    }
    let [well, without_datacenter, _, without_replica, _, lossy, _] = &world.rows[..] else { panic!("seven phases") };
    for site in 0..3 {
        assert!(well.age(site, 99) < 2.0 && without_replica.age(site, 99) < 2.0, "datacenter {site} was followed late");
    }
    // The last copy of the one, and the news of the others.
    assert!(without_datacenter.age(0, 100) > 5.0, "datacenter 1 was not cut off");
    assert!([1, 2].iter().all(|site| without_datacenter.age(*site, 99) < 2.0), "others were followed late");
    assert!(without_replica.answered_by(2..=usize::MAX) > 0, "replica 1 was not cut off");
    assert!(lossy.answered_by(2..=usize::MAX) * 5 > lossy.observations.len(), "nothing was lost");
}
