//! Two replicas, their datacenters and their secondaries, and what must be true of them.

use super::follower::{Follower, Visit, difference, is_newer};
use super::harness::*;
use super::site::Site;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

const REGION: &str = "us-west.cns.example.com.";
const SITES: [&str; 3] = ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
const SERVERS: [&str; 2] = ["ns1.example.com.", "ns2.example.com."];
/// Addresses that the replicas listen on and announce from, so that secondaries can tell them apart.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Only the rhythm of asking: what is waited for are conditions.
const RHYTHM: Duration = Duration::from_millis(5);

/// Configuration of the replicas, which differ in their names and timers only.
#[derive(Clone)]
pub struct Plan {
    pub members: Vec<usize>,
    pub offset: u32,
    /// Lines of the aggregation.
    pub aggregation: String,
    pub hold_down: &'static str,
    /// True if the second replica polls; the first always gets announcements.
    pub polls: bool,
    /// Secondaries that both announce the region to.
    pub notify: Vec<SocketAddr>,
}

impl Default for Plan {
    fn default() -> Plan {
        let aggregation = "mname = \"self\"".to_string();
        Plan { members: vec![0, 1, 2], offset: 0, aggregation, hold_down: "20ms", polls: true, notify: Vec::new() }
    }
}

/// Everything there is.
pub struct World {
    pub region: Dname,
    pub sites: Vec<Site>,
    pub plan: Plan,
    pub replicas: Vec<Aggregator>,
    pub follower: Follower,
    others: Vec<Secondary>,
    pub random: Random,
    /// Rests after which the replicas had the same serial, and all of them.
    aligned: (usize, usize),
    folder: Folder,
}

impl World {
    /// Starts datacenters and replicas, and waits until they are at rest.
    pub fn start(plan: Plan, serials: [u32; 3]) -> World {
        let seed = std::env::var("AGGREGATOR_REPLICAS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
        let mut random = Random::new(seed, 0);
        let folder = Folder::new();
        let sites: Vec<Site> =
            (0..3).map(|index| Site::start(SITES[index], index as u8 + 1, serials[index], &mut random)).collect();
        let settings = |index| settings(&plan, &sites, index);
        let replicas = (0..2)
            .map(|index| Aggregator::start_with(&folder.subfolder(&format!("replica{index}")), &settings(index)))
            .collect();
        let region = Dname::parse(REGION);
        let follower = Follower::new(&region);
        let (others, aligned) = (Vec::new(), (0, 0));
        let mut world = World { region, sites, plan, replicas, follower, others, random, aligned, folder };
        world.rest();
        world
    }

    /// Adds Knot and BIND as secondaries of both replicas, which announce to them from then on.
    pub fn add_secondaries(&mut self) {
        let plan = SecondaryPlan::new(self.address(0), &[&self.region]).with_other_primary(self.address(1));
        self.others = vec![Knotd::start_secondary(&self.folder, &plan), Named::start_secondary(&self.folder, &plan)];
        self.plan.notify = self.others.iter().map(Secondary::address).collect();
        self.reload();
    }

    /// Returns the address of a replica for secondaries.
    pub fn address(&self, replica: usize) -> SocketAddr {
        SocketAddr::new(ADDRESSES[replica].parse().expect("address"), self.replicas[replica].address().port())
    }

    /// Makes both replicas follow the present plan.
    pub fn reload(&mut self) {
        for (index, replica) in self.replicas.iter().enumerate() {
            replica.write_settings(&settings(&self.plan, &self.sites, index));
            let output = replica.verb(&["reload"]);
            assert_eq!(output.code, 0, "{output:?}");
        }
    }

    /// Tells a replica that these datacenters have changed.
    pub fn announce(&self, sites: &[usize], replica: usize) {
        sites.iter().for_each(|site| self.sites[*site].notify(self.replicas[replica].address()));
    }

    /// Returns the records that the region must hold, without its SOA: a merge written anew.
    pub fn expected(&self) -> BTreeSet<Record> {
        let mut expected: BTreeSet<Record> =
            SERVERS.iter().map(|server| Record::new(&self.region, rtype::NS, 3600, Dname::parse(server).0)).collect();
        for member in &self.plan.members {
            let site = &self.sites[*member];
            let records = site.records().into_iter().filter(|record| record.owner != site.zone);
            expected.extend(records.map(|record| {
                let owner = record.owner.with_suffix(&site.zone, &self.region).expect("a short name");
                Record { owner, ..record }
            }));
        }
        expected
    }

    /// The sum of the members' serials and the offset.
    pub fn sum(&self) -> u32 {
        self.plan.members.iter().fold(self.plan.offset, |sum, site| sum.wrapping_add(self.sites[*site].serial()))
    }

    /// The serial that a replica publishes.
    pub fn serial(&self, replica: usize) -> Option<u32> {
        Client::new(self.replicas[replica].address()).serial(&self.region)
    }

    /// The drift that a replica shows.
    pub fn drift(&self, replica: usize) -> u32 {
        let metrics = self.replicas[replica].metrics();
        let line = format!("aggregator_region_serial_drift{{region=\"{REGION}\"}} ");
        let found = metrics.lines().find_map(|found| found.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("no drift\n{metrics}")).parse().expect("a number")
    }

    /// A replica at random.
    pub fn pick(&mut self) -> usize {
        self.random.below(2)
    }

    /// Lets the follower ask a replica, and demands that nothing is damaged.
    pub fn visit(&mut self, replica: usize) {
        let address = self.address(replica);
        let visit = self.follower.visit(address);
        assert!(!matches!(visit, Visit::Corrupt(_)), "{visit:?} from replica {replica}");
        if matches!(visit, Visit::Whole | Visit::Differences) {
            self.follower.compare(address);
        }
    }

    /// Changes datacenters at random, by small steps so that sums meet, while the follower asks at random.
    pub fn churn(&mut self, changes: usize) {
        for _ in 0..changes {
            let (site, steps) = (self.random.below(3), self.random.between(1, 3) as u32);
            self.sites[site].change(steps, &mut self.random);
            // What is lost on the way comes with the next.
            if self.random.chance(80) {
                self.announce(&[site], 0);
            }
            for _ in 0..3 {
                let replica = self.pick();
                self.visit(replica);
                std::thread::sleep(RHYTHM);
            }
        }
    }

    /// Waits until both replicas have what the datacenters have, and all secondaries what the newer of both has.
    /// Returns the serials of the replicas.
    pub fn rest(&mut self) -> [u32; 2] {
        let expected = self.expected();
        let serials = [0, 1].map(|replica| {
            let mut last = String::new();
            let mut client = Client::new(self.replicas[replica].address());
            let start = std::time::Instant::now();
            loop {
                if let Ok(mut records) = client.transfer(&self.region) {
                    let soa = records.remove(0);
                    let records: BTreeSet<Record> = records.into_iter().collect();
                    // The contents can be there before a serial that a member has moved to without them.
                    let there = soa.serial() == self.sum().wrapping_add(self.drift(replica));
                    if records == expected && there {
                        return soa.serial();
                    }
                    last = format!("{soa}\n{}", difference(&records, &expected));
                }
                assert!(start.elapsed() < PATIENCE, "replica {replica} does not come to rest: {last}");
                self.announce(&self.plan.members, 0);
                if !self.plan.polls {
                    self.announce(&self.plan.members, 1);
                }
                std::thread::sleep(10 * RHYTHM);
            }
        });
        self.aligned.0 += usize::from(serials[0] == serials[1]);
        self.aligned.1 += 1;
        self.wait_secondaries(serials, &expected);
        serials
    }

    /// Waits until all secondaries have the newer of the two serials, and compares what they have.
    fn wait_secondaries(&mut self, serials: [u32; 2], expected: &BTreeSet<Record>) {
        let newest = if is_newer(serials[1], serials[0]) { serials[1] } else { serials[0] };
        let start = std::time::Instant::now();
        while self.follower.serial() != Some(newest) {
            let replica = self.pick();
            self.visit(replica);
            let have = self.follower.serial();
            assert!(start.elapsed() < PATIENCE, "the follower stays at {have:?}, the replicas have {serials:?}");
        }
        assert!(self.follower.records == *expected, "{}", difference(&self.follower.records, expected));
        for other in &mut self.others {
            other.wait_for_serial(&self.region, newest);
            let records = other.fetch(&self.region).into_iter().filter(|record| record.rtype != rtype::SOA).collect();
            assert!(records == *expected, "{}: {}", other.name(), difference(&records, expected));
        }
    }

    /// Demands that both replicas publish the plain sum.
    pub fn assert_aligned(&self, serials: [u32; 2]) {
        assert_eq!((serials, [self.drift(0), self.drift(1)]), ([self.sum(); 2], [0, 0]));
    }

    /// Says how often whom came what, and demands that enough of it was differences.
    pub fn report(&self) {
        let tally = &self.follower.tally;
        let total = tally.whole + tally.differences;
        println!(
            "follower: {total} transfers, {} of them differences; {} from another replica than before, {} of them \
             differences; {} compared; the replicas had one serial at {} rests of {}",
            tally.differences,
            tally.switches,
            tally.switched_differences,
            tally.compared,
            self.aligned.0,
            self.aligned.1
        );
        assert!(tally.differences * 4 >= total, "{tally:?}");
        assert!(tally.compared * 2 >= total, "{tally:?}");
        // Whoever names the primary of another replica gets the whole zone.
        assert!(tally.switches > 0 && tally.switched_differences == 0, "{tally:?}");
        for other in &self.others {
            let log = other.log_text();
            let (differences, whole) = match other.name() {
                "knotd" => {
                    let count = |kind: &str| {
                        let start = format!("{kind}, incoming, ");
                        log.lines().filter(|line| line.contains(&start) && line.contains(" finished, ")).count()
                    };
                    (count("IXFR"), count("AXFR"))
                }
                // It tells no more than the number of records, which is small for differences.
                _ => {
                    let records = log.lines().filter_map(|line| {
                        let (_, counts) = line.split_once("Transfer completed: ")?;
                        counts.split(' ').nth(2)?.parse::<usize>().ok()
                    });
                    let (few, many): (Vec<_>, Vec<_>) =
                        records.partition(|records| *records < self.expected().len() / 4);
                    (few.len(), many.len())
                }
            };
            println!("{}: {} transfers, {differences} of them differences", other.name(), whole + differences);
            assert!(whole > 0 && differences > 0, "{}: {whole} whole, {differences} differences", other.name());
        }
    }
}

/// The settings of a replica.
fn settings(plan: &Plan, sites: &[Site], replica: usize) -> Settings {
    let refresh = if replica == 1 && plan.polls { "100ms" } else { "1h" };
    let targets = plan.notify.iter();
    let targets: Vec<String> = targets
        .map(|address| format!("{{ address = \"{address}\", source_address = \"{}\" }}", ADDRESSES[replica]))
        .collect();
    let members: Vec<String> = plan.members.iter().map(|member| format!("\"{}\"", SITES[*member])).collect();
    let mut text = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [{}]\n\
         [transfer]\nrefresh_min = \"{refresh}\"\nrefresh_max = \"{refresh}\"\nretry_min = \"100ms\"\nretry_max = \"100ms\"\n\
         regress_after = \"1s\"\n\
         [aggregations.\"{REGION}\"]\nmembers = [{}]\nns = [\"{}\", \"{}\"]\nserial_offset = {}\n\
         soa_refresh = \"1s\"\nsoa_retry = \"1s\"\n{}\n[zones]\n",
        targets.join(", "),
        members.join(", "),
        SERVERS[0],
        SERVERS[1],
        plan.offset,
        plan.aggregation
    );
    for member in &plan.members {
        text.push_str(&format!("\"{}\" = \"{}\"\n", SITES[*member], sites[*member].address));
    }
    let mut settings = Settings::new(&text);
    settings.name = SERVERS[replica].to_string();
    settings.listen = ADDRESSES[..=replica].iter().map(|address| format!("{address}:{{port}}")).collect();
    settings.server = format!("hold_down = \"{}\"", plan.hold_down);
    settings.state = Some("state".to_string());
    settings
}
