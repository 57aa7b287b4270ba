//! Two replicas of our daemon over three datacenters that change all the time, and secondaries that both replicas feed.
//!
//! The replicas have one configuration but for their name; one is told of changes, of most of them, the other asks. So they
//! often hold different versions of the members, now and then with the same sum of serials. One secondary is written here
//! and asks now the one, now the other; Knot and BIND know both.

mod harness;
#[path = "replicas/follower.rs"]
mod follower;
#[path = "replicas/site.rs"]
mod site;

use follower::{Follower, Visit, difference, is_newer};
use harness::*;
use site::Site;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

const REGION: &str = "us-west.cns.example.com.";
const SITES: [&str; 3] = ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
const SERVERS: [&str; 2] = ["ns1.example.com.", "ns2.example.com."];
/// Where the replicas listen and announce from, so that secondaries can tell them apart.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
const PATIENCE: Duration = Duration::from_secs(30);
/// Only the rhythm of asking: what is waited for are conditions.
const RHYTHM: Duration = Duration::from_millis(5);

/// How the replicas are configured: both the same, but for their names and timers.
#[derive(Clone)]
struct Plan {
    members: Vec<usize>,
    offset: u32,
    /// Lines of the aggregation.
    aggregation: String,
    hold_down: &'static str,
    /// Whether the second replica polls; the first is always told.
    polls: bool,
    notify: Vec<SocketAddr>,
}

impl Default for Plan {
    fn default() -> Plan {
        let aggregation = "mname = \"self\"".to_string();
        Plan { members: vec![0, 1, 2], offset: 0, aggregation, hold_down: "20ms", polls: true, notify: Vec::new() }
    }
}

/// Everything there is.
struct World {
    region: Dname,
    sites: Vec<Site>,
    plan: Plan,
    replicas: Vec<Aggregator>,
    follower: Follower,
    others: Vec<Secondary>,
    random: Random,
    /// Rests after which the replicas had the same serial, and all of them.
    aligned: (usize, usize),
    _folder: Folder,
}

impl World {
    /// Starts datacenters and replicas, and waits until they are at rest.
    fn start(plan: Plan, serials: [u32; 3]) -> World {
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
        let mut world =
            World { region, sites, plan, replicas, follower, others, random, aligned, _folder: folder };
        world.rest();
        world
    }

    /// Adds Knot and BIND as secondaries of both replicas, which announce to them from then on.
    fn add_secondaries(&mut self) {
        let plan = SecondaryPlan::new(self.address(0), &[&self.region]).with_other_primary(self.address(1));
        self.others = vec![
            Knotd::start_secondary(&self._folder, &plan),
            Named::start_secondary(&self._folder, &plan),
        ];
        self.plan.notify = self.others.iter().map(Secondary::address).collect();
        self.reload();
    }

    /// Where secondaries find a replica.
    fn address(&self, replica: usize) -> SocketAddr {
        SocketAddr::new(ADDRESSES[replica].parse().expect("address"), self.replicas[replica].address().port())
    }

    /// Makes both replicas follow the present plan.
    fn reload(&mut self) {
        for (index, replica) in self.replicas.iter().enumerate() {
            replica.write_settings(&settings(&self.plan, &self.sites, index));
            let output = replica.verb(&["reload"]);
            assert_eq!(output.code, 0, "{output:?}");
        }
    }

    /// Tells a replica that these datacenters have changed.
    fn announce(&self, sites: &[usize], replica: usize) {
        sites.iter().for_each(|site| self.sites[*site].notify(self.replicas[replica].address()));
    }

    /// What the region must hold, without its SOA: a merge written anew.
    fn expected(&self) -> BTreeSet<Record> {
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
    fn sum(&self) -> u32 {
        self.plan.members.iter().fold(self.plan.offset, |sum, site| sum.wrapping_add(self.sites[*site].serial()))
    }

    /// The serial that a replica publishes.
    fn serial(&self, replica: usize) -> Option<u32> {
        Client::new(self.replicas[replica].address()).serial(&self.region)
    }

    /// The drift that a replica shows.
    fn drift(&self, replica: usize) -> u32 {
        let metrics = self.replicas[replica].metrics();
        let line = format!("aggregator_region_serial_drift{{region=\"{REGION}\"}} ");
        let found = metrics.lines().find_map(|found| found.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("no drift\n{metrics}")).parse().expect("a number")
    }

    /// A replica at random.
    fn pick(&mut self) -> usize {
        self.random.below(2)
    }

    /// Lets the follower ask a replica, and demands that nothing is damaged.
    fn visit(&mut self, replica: usize) {
        let address = self.address(replica);
        let visit = self.follower.visit(address);
        assert!(!matches!(visit, Visit::Corrupt(_)), "{visit:?} from replica {replica}");
        if matches!(visit, Visit::Whole | Visit::Differences) {
            self.follower.compare(address);
        }
    }

    /// Changes datacenters at random, by small steps so that sums meet, while the follower asks at random.
    fn churn(&mut self, changes: usize) {
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

    /// Waits until both replicas have what the datacenters have, and all secondaries what the newer of both has. Returns
    /// the serials of the replicas.
    fn rest(&mut self) -> [u32; 2] {
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
    fn assert_aligned(&self, serials: [u32; 2]) {
        assert_eq!((serials, [self.drift(0), self.drift(1)]), ([self.sum(); 2], [0, 0]));
    }

    /// Says how often whom came what, and demands that enough of it was differences.
    fn report(&self) {
        let tally = &self.follower.tally;
        let total = tally.whole + tally.differences;
        println!(
            "follower: {total} transfers, {} of them differences; {} from another replica than before, {} of them \
             differences; {} compared; the replicas had one serial at {} rests of {}",
            tally.differences, tally.switches, tally.switched_differences, tally.compared, self.aligned.0, self.aligned.1
        );
        assert!(tally.differences * 4 >= total, "{tally:?}");
        assert!(tally.compared * 2 >= total, "{tally:?}");
        // Whoever names the primary of another replica gets the whole zone.
        assert!(tally.switches > 0 && tally.switched_differences == 0, "{tally:?}");
        for other in &self.others {
            let log = other.log_text();
            let count = |texts: [&str; 2]| log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count();
            let (differences, whole) = match other.name() {
                "knotd" => (count(["IXFR, incoming", "finished"]), count(["AXFR, incoming", "finished"])),
                _ => (0, count(["Transfer status: success", ""])),
            };
            println!("{}: {whole} whole or undetermined, {differences} differences", other.name());
            assert!(whole > 0, "{} has transferred nothing", other.name());
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

#[test]
fn replicas_agree_and_secondaries_of_both_are_never_damaged() {
    let mut world = World::start(Plan::default(), [1_760_000_000, 1_760_000_100, 1_760_000_200]);
    world.add_secondaries();
    world.churn(100);
    let serials = world.rest();
    world.assert_aligned(serials);
    // One replica is killed; meanwhile there is the other, and it comes back with what it had.
    let mut second = world.replicas.pop().expect("two replicas");
    let first = world.address(0);
    second.kill_and_restart(|| {
        for _ in 0..10 {
            let site = world.random.below(3);
            world.sites[site].change(1, &mut world.random);
            world.announce(&[site], 0);
            assert!(!matches!(world.follower.visit(first), Visit::Corrupt(_)));
        }
    });
    world.replicas.push(second);
    world.churn(40);
    let serials = world.rest();
    world.assert_aligned(serials);
    // A datacenter leaves both: the sum falls by its serial, both serials rise by one.
    world.plan.members = vec![0, 1];
    world.reload();
    let without = world.rest();
    assert_eq!(without, [serials[0] + 1; 2]);
    assert_eq!([world.drift(0), world.drift(1)], [without[0] - world.sum(); 2]);
    // From then on each publication is one step, and who publishes more often is ahead.
    world.churn(40);
    let apart = world.rest();
    println!("without a member: {apart:?}, drifts {:?}", [world.drift(0), world.drift(1)]);
    // Its serial is a clock, and has gone on when it comes back: the sum alone is newer, and both are on it at once.
    world.sites[2].change(1000, &mut world.random);
    world.plan.members = vec![0, 1, 2];
    world.reload();
    let serials = world.rest();
    world.assert_aligned(serials);
    world.churn(20);
    let serials = world.rest();
    world.assert_aligned(serials);
    world.report();
}

#[test]
fn a_member_that_goes_back_leaves_a_drift_that_heals_or_that_an_offset_heals() {
    let mut world = World::start(Plan::default(), [5000, 3_000_000, 20_000]);
    world.churn(10);
    let before = world.rest();
    // At rest both replicas go one on, with the same drift.
    world.sites[0].fall_back(20, &mut world.random);
    let serials = world.rest();
    assert_eq!((serials, [world.drift(0), world.drift(1)]), ([before[0] + 1; 2], [21; 2]));
    // The serials of the members move by two on average, those of the region by one: the drift is made up for.
    world.churn(60);
    let serials = world.rest();
    world.assert_aligned(serials);
    // So far back that nothing makes up for it, and in the middle of changes.
    world.churn(5);
    world.sites[1].fall_back(1_000_000, &mut world.random);
    world.churn(40);
    let apart = world.rest();
    let drifts = [world.drift(0), world.drift(1)];
    println!("after a long way back: {apart:?}, drifts {drifts:?}");
    for (replica, drift) in world.replicas.iter().zip(drifts) {
        let advice = format!("serial_offset = {drift} on all replicas");
        assert!(replica.log_text().contains(&advice), "{advice}\n{}", replica.log_text());
    }
    // The larger of what the two logs advise aligns both, at once.
    world.plan.offset = drifts[0].max(drifts[1]);
    world.reload();
    let serials = world.rest();
    assert_eq!(serials, [apart[0].max(apart[1]); 2]);
    world.assert_aligned(serials);
    world.churn(20);
    let serials = world.rest();
    world.assert_aligned(serials);
    world.report();
}

#[test]
fn serials_that_jump_far_are_followed_in_two_steps() {
    let plan = Plan { hold_down: "3s", ..Plan::default() };
    let start = [1_760_000_000, 1_760_000_100, 7];
    let mut world = World::start(plan, start);
    world.add_secondaries();
    // A publication, behind which what comes in the next three seconds waits, to be published together.
    let before = world.rest()[0];
    world.sites[2].change(1, &mut world.random);
    world.announce(&[2], 0);
    let next = before.wrapping_add(1);
    wait_until("both have published", PATIENCE, || {
        [0, 1].iter().all(|replica| world.serial(*replica) == Some(next)).then_some(())
    });
    let far = (1 << 30) + 50;
    world.sites[0].change(far, &mut world.random);
    world.sites[1].change(far, &mut world.random);
    world.announce(&[0, 1], 0);
    let half_way = next.wrapping_add((1 << 31) - 1);
    assert!(!is_newer(world.sum(), next) && is_newer(world.sum(), half_way), "too far for one step, not for two");
    let mut stops = [Vec::new(), Vec::new()];
    let mut followed = vec![world.follower.serial()];
    wait_until("both have arrived", PATIENCE, || {
        for replica in 0..2 {
            let serial = world.serial(replica);
            if stops[replica].last() != Some(&serial) {
                stops[replica].push(serial);
            }
        }
        let replica = world.pick();
        world.visit(replica);
        if followed.last() != Some(&world.follower.serial()) {
            followed.push(world.follower.serial());
        }
        let sum = Some(world.sum());
        (stops.iter().all(|stops| *stops.last().expect("a stop") == sum) && *followed.last().expect("a stop") == sum)
            .then_some(())
    });
    let way: Vec<Option<u32>> = [next, half_way, world.sum()].map(Some).into();
    assert_eq!(stops, [way.clone(), way.clone()]);
    assert!(followed.ends_with(&way[1..]), "{followed:?}");
    let serials = world.rest();
    world.assert_aligned(serials);
    assert!(world.replicas.iter().all(|replica| replica.log_text().contains("follows in two")));
}

/// How often a secondary was damaged, and how often it got differences, when replicas had one serial over different
/// contents: in each round two datacenters change, each replica learns of one of them first, and the secondary goes from
/// one replica to the other.
fn cross(aggregation: &str, rounds: usize) -> (usize, usize) {
    let plan = Plan { aggregation: aggregation.to_string(), polls: false, ..Plan::default() };
    let mut world = World::start(plan, [100, 200, 300]);
    for round in 0..rounds {
        let serial = world.serial(0).expect("a serial");
        (0..2).for_each(|site| world.sites[site].change(1, &mut world.random));
        let arrive = |world: &World, steps: u32| {
            wait_until("the replicas have published", PATIENCE, || {
                [0, 1].iter().all(|replica| world.serial(*replica) == Some(serial + steps)).then_some(())
            });
        };
        (0..2).for_each(|site| world.announce(&[site], site));
        arrive(&world, 1);
        let first = round % 2;
        let _ = world.follower.visit(world.address(first));
        (0..2).for_each(|site| world.announce(&[1 - site], site));
        arrive(&world, 2);
        let _ = world.follower.visit(world.address(1 - first));
        if world.follower.soa.is_some() {
            let expected = world.expected();
            let equal = world.follower.records == expected;
            assert!(equal, "damage without a sign: {}", difference(&world.follower.records, &expected));
        }
    }
    println!("{aggregation}: {:?}", world.follower.tally);
    (world.follower.tally.corrupt.len(), world.follower.tally.differences)
}

#[test]
fn one_serial_over_two_contents_damages_nobody() {
    let (corrupt, differences) = cross("mname = \"self\"", 6);
    assert_eq!(corrupt, 0);
    // From the replica that the secondary stays with.
    assert!(differences > 0);
}

#[test]
fn under_a_common_mname_nobody_gets_differences() {
    assert_eq!(cross("mname = \"ns1.example.com\"", 3), (0, 0));
}

/// The danger is real, and these tests would see it: without a guard every round ends in damage.
#[test]
fn under_a_common_mname_forced_differences_damage() {
    let (corrupt, _) = cross("mname = \"ns1.example.com\"\nixfr_out = true", 6);
    assert_eq!(corrupt, 6);
}
