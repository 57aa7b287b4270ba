//! A thousand random changes, all the way: BIND, NSD and Knot as primaries, our daemon, BIND, NSD and Knot as
//! secondaries.
//!
//! Nobody polls often enough to matter: announcements drive everything, and differences carry it. Two of the
//! primaries and all secondaries sign; BIND and Knot take what they follow from the catalog. At intervals and at the
//! end every copy of every zone must be what the test believes it to be, and every copy of the regions what a naive
//! merge of these beliefs is. Meanwhile serials go through 2^32, a primary loses its history, and a datacenter comes
//! and goes by reload.
//!
//! `AGGREGATOR_CHURN_CHANGES` asks for more changes, `AGGREGATOR_CHURN_SEED` for others.

#[path = "churn/changes.rs"]
mod changes;
mod harness;

use changes::Model;
use harness::*;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const ZONES: [&str; 3] = ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
const GUEST: &str = "us-east-1.cns.example.com.";
const GUEST_REGION: &str = "us-east.cns.example.com.";
const KEPT: &str = "us-west.cns.example.com.";
const REWRITTEN: &str = "us-west.rewritten.example.com.";
const CATALOG: &str = "catalog.example.com.";
const KEY: &str = "transfer.example.com";
/// The octets 0 to 31.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Address that the test's own transfers come from.
const READER: &str = "127.0.0.2";
/// Names that a zone begins with, and that a burst brings.
const NAMES: usize = 700;
const BURST: usize = 180;
/// The most changes that make one version.
const PER_VERSION: usize = 20;
/// Every how many rounds the version of a zone is a burst.
const ROUNDS_PER_BURST: usize = 9;
/// Rounds between comparisons of everything.
const ROUNDS_PER_CHECK: usize = 8;
/// Longest time until any change has arrived.
const PATIENCE: Duration = Duration::from_secs(60);

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Running servers, and the records that they should hold.
struct Scene {
    daemon: Aggregator,
    primaries: Vec<Primary>,
    secondaries: Vec<Secondary>,
    /// The zones of the primaries, in their order.
    models: Vec<Model>,
    /// A zone of the last primary that is not always followed.
    guest: Model,
    followed: bool,
    /// Transfers that the test itself has had from the daemon, by zone.
    own: std::collections::HashMap<String, u64>,
}

impl Scene {
    /// Starts all of it; the daemon has to be there first, because primaries are told where it is.
    fn start(folder: &Folder, seed: u64) -> Scene {
        let home = folder.subfolder("aggregator");
        write_file(&home.join("secret"), &format!("{SECRET}\n"));
        std::fs::set_permissions(home.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let daemon = Aggregator::start_in(&home, "[zones]\n\"nowhere.test\" = \"127.0.0.1:1\"\n");
        // The first two pass 2^32 after this many versions at the latest, the third does not.
        let starts = [u32::MAX - 20, u32::MAX - 30, 2_026_112_000];
        let models: Vec<Model> = (0..3)
            .map(|index| Model::new(ZONES[index], starts[index], NAMES, Random::new(seed, index as u64), index == 0))
            .collect();
        let guest = Model::new(GUEST, 7, 20, Random::new(seed, 9), false);
        let key = TsigKey::new(KEY, SECRET);
        let plan = |key: Option<&TsigKey>| PrimaryPlan { notify: daemon.address(), key: key.cloned() };
        let zone = |model: &Model| (model.origin.clone(), model.records());
        let primaries = vec![
            Primary::start_named(folder, &[zone(&models[0])], &plan(Some(&key))),
            Primary::start_nsd(folder, &[zone(&models[1])], &plan(Some(&key))),
            Primary::start_knotd(folder, &[zone(&models[2]), zone(&guest)], &plan(None)),
        ];
        let own = std::collections::HashMap::new();
        let mut scene = Scene { daemon, primaries, secondaries: Vec::new(), models, guest, followed: false, own };
        scene.reload();
        scene.wait_for_zones();
        let names = ZONES.iter().chain(&[KEPT, REWRITTEN]).map(|name| Dname::parse(name)).collect::<Vec<_>>();
        let names: Vec<&Dname> = names.iter().collect();
        let follow = SecondaryPlan::new(scene.daemon.address(), &[]).with_key(&key);
        let consume = follow.clone().with_catalog(&Dname::parse(CATALOG));
        let listed = SecondaryPlan::new(scene.daemon.address(), &names).with_key(&key);
        scene.secondaries = vec![
            Named::start_secondary(folder, &consume),
            Knotd::start_secondary(folder, &consume),
            Nsd::start_secondary(folder, &listed),
        ];
        scene.reload();
        scene
    }

    /// Returns the configuration that the daemon is to have now.
    fn plan(&self) -> String {
        let notify: Vec<String> = self
            .secondaries
            .iter()
            .map(|secondary| format!("{{ address = \"{}\", key = \"{KEY}\" }}", secondary.address()))
            .collect();
        let members = ZONES.map(|name| format!("\"{name}\"")).join(", ");
        let mut text = format!(
            "[keys.\"{KEY}\"]\nsecret_file = \"secret\"\n\
             [secondaries]\nallow_transfer = [{{ prefix = \"127.0.0.1\", key = \"{KEY}\" }}, \"{READER}\"]\n\
             catalog = \"{CATALOG}\"\nnotify = [{}]\n\
             [transfer]\nrefresh_min = \"30s\"\nrefresh_max = \"30s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n\
             [aggregations.\"{KEPT}\"]\nmembers = [{members}]\nmname = \"self\"\n\
             [aggregations.\"{REWRITTEN}\"]\nmembers = [{members}]\nmname = \"self\"\nrdata_names = \"rewrite\"\n",
            notify.join(", ")
        );
        let guest = self.followed.then_some((GUEST, &self.primaries[2]));
        if self.followed {
            text.push_str(&format!("[aggregations.\"{GUEST_REGION}\"]\nmembers = [\"{GUEST}\"]\nmname = \"self\"\n"));
        }
        for (index, (zone, primary)) in ZONES.into_iter().zip(&self.primaries).chain(guest).enumerate() {
            let key = if index < 2 { format!("key = \"{KEY}\"\n") } else { String::new() };
            text.push_str(&format!("[zones.\"{zone}\"]\nprimaries = [\"{}\"]\n{key}", primary.address()));
        }
        text
    }

    /// Makes the daemon follow the plan.
    fn reload(&self) {
        self.daemon.write_plan(&self.plan());
        let output = self.daemon.verb(&["reload"]);
        assert_eq!(output.code, 0, "{output:?}");
    }

    /// Waits until the daemon has the last version of a zone.
    fn wait_for_zone(&self, model: &Model) {
        let mut client = Client::new(self.daemon.address());
        let deadline = Instant::now() + PATIENCE;
        while client.serial(&model.origin) != Some(model.serial()) {
            let (zone, serial) = (&model.origin, model.serial());
            assert!(Instant::now() < deadline, "the daemon has no {zone} {serial}:\n{}", self.daemon.metrics());
            // Only the rhythm of asking again.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_zones(&self) {
        self.models.iter().for_each(|model| self.wait_for_zone(model));
    }

    /// Carries out a version of a zone at its primary.
    fn apply(&mut self, index: usize, edit: &Edit) {
        self.primaries[index].change(&self.models[index].origin, edit);
    }

    /// Compares every copy of everything.
    fn check(&mut self) {
        let mut members = Vec::new();
        for index in 0..3 {
            let (zone, records) = (self.models[index].origin.clone(), self.models[index].records());
            self.primaries[index].wait_for(&zone, &records);
            self.check_copies(&zone, &records, 3);
            members.push((zone, records));
        }
        for (origin, rewrite) in [(KEPT, false), (REWRITTEN, true)] {
            self.check_copies(&Dname::parse(origin), &merge(origin, rewrite, &members), 3);
        }
        if self.followed {
            let (zone, records) = (self.guest.origin.clone(), self.guest.records());
            self.primaries[2].wait_for(&zone, &records);
            // NSD knows no catalogs and is not told of guests.
            self.check_copies(&zone, &records, 2);
            let region = merge(GUEST_REGION, false, &[(zone, records)]);
            self.check_copies(&Dname::parse(GUEST_REGION), &region, 2);
        }
    }

    /// Compares the daemon's copy of a zone, and those of the first secondaries, with what is expected.
    fn check_copies(&mut self, zone: &Dname, expected: &[Record], secondaries: usize) {
        let reader: IpAddr = READER.parse().unwrap();
        let mut client = Client::new(self.daemon.address()).with_source(reader).with_deadline(PATIENCE);
        let serial = expected[0].serial();
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Asked for once when the serial says that it is there, so that few transfers are the test's own.
            let arrived = client.serial(zone) == Some(serial) || Instant::now() > deadline;
            if arrived {
                *self.own.entry(zone.to_string()).or_default() += 1;
                let ours = client.transfer(zone).unwrap();
                if let Some(text) = difference(expected, &ours) {
                    panic!("{zone} is not as expected (left) in the daemon (right): {text}");
                }
                break;
            }
            // Only the rhythm of asking again.
            std::thread::sleep(Duration::from_millis(10));
        }
        for secondary in &mut self.secondaries[..secondaries] {
            secondary.wait_for_serial(zone, serial);
            let deadline = Instant::now() + PATIENCE;
            loop {
                let text = match secondary.try_fetch(zone) {
                    Ok(theirs) => difference(expected, &theirs),
                    Err(error) => Some(error.to_string()),
                };
                let Some(text) = text else { break };
                assert!(Instant::now() < deadline, "{zone} (left) is another at {} (right): {text}", secondary.name());
                // Processes of NSD that are about to end answer beside the new ones, or end with a transfer half way.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The primary of the last zone forgets its history while the daemon does not look.
    fn lose_history(&mut self) {
        self.wait_for_zones();
        self.daemon.signal(libc::SIGSTOP);
        for _ in 0..2 {
            let edit = self.models[2].change(PER_VERSION);
            self.apply(2, &edit);
        }
        self.primaries[2].drop_history(&self.models[2].origin);
        self.daemon.signal(libc::SIGCONT);
        self.wait_for_zones();
    }

    /// Sums the samples of a metric family by what `select` finds in their labels.
    fn sum(&self, family: &str, labels: &[(&str, &str)]) -> u64 {
        let metrics = self.daemon.metrics();
        let samples =
            metrics.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix('{')?.rsplit_once("} "));
        samples
            .filter(|(found, _)| labels.iter().all(|(name, value)| found.contains(&format!("{name}=\"{value}\""))))
            .map(|(_, value)| value.parse::<u64>().expect("a count"))
            .sum()
    }
}

/// The naive region; its SOA first.
fn merge(origin: &str, rewrite: bool, members: &[(Dname, Vec<Record>)]) -> Vec<Record> {
    let region = Region { origin: Dname::parse(origin), rewrite, servers: None, mname: Dname::parse("ns1.test.") };
    let mut records = region.merge(members);
    records.sort_by_key(|record| record.rtype != rtype::SOA);
    records
}

/// Transfers by difference and in whole, in and out, of one zone or region.
#[derive(Clone, Copy, Default)]
struct Counts {
    differences: u64,
    wholes: u64,
}

impl Counts {
    /// Counts the transfers from primaries.
    fn received(scene: &Scene, zone: &str) -> Counts {
        let (differences, wholes) = scene.daemon.received(zone);
        Counts { differences, wholes }
    }

    /// Counts the transfers to secondaries, without those of the test itself.
    fn sent(scene: &Scene, zone: &str) -> Counts {
        let count =
            |kind| scene.sum("aggregator_xfr_served_total", &[("zone", zone), ("kind", kind), ("result", "ok")]);
        let own = scene.own.get(zone).copied().unwrap_or(0);
        // A transfer is counted a moment after its receiver has seen the end.
        wait_until("the test's own transfers are counted", PATIENCE, || (count("axfr") >= own).then_some(()));
        Counts { differences: count("ixfr"), wholes: count("axfr") + count("ixfr-full") - own }
    }

    /// Returns the difference to an earlier count.
    fn since(self, before: Counts) -> Counts {
        Counts { differences: self.differences - before.differences, wholes: self.wholes - before.wholes }
    }

    /// Adds two of them.
    fn plus(self, other: Counts) -> Counts {
        Counts { differences: self.differences + other.differences, wholes: self.wholes + other.wholes }
    }

    /// Per cent that were differences.
    fn share(self) -> u64 {
        100 * self.differences / (self.differences + self.wholes).max(1)
    }
}

/// The counts of all zones that are there throughout.
fn count_all(scene: &Scene) -> Vec<(&'static str, Counts, Counts)> {
    let names = ZONES.into_iter().chain([KEPT, REWRITTEN]);
    names.map(|zone| (zone, Counts::received(scene, zone), Counts::sent(scene, zone))).collect()
}

#[test]
fn a_thousand_changes_arrive_everywhere() {
    let seed = number("AGGREGATOR_CHURN_SEED").unwrap_or(20_261_120);
    let wanted = number("AGGREGATOR_CHURN_CHANGES").unwrap_or(0).max(1000) as usize;
    println!("seed {seed}: AGGREGATOR_CHURN_SEED={seed} repeats this run");
    let folder = Folder::new();
    let begin = Instant::now();
    let mut scene = Scene::start(&folder, seed);
    scene.check();
    println!("{:?}: everything runs and is equal", begin.elapsed());
    let before = count_all(&scene);
    let mut random = Random::new(seed, 99);
    let (mut done, mut rounds, mut lost, mut came, mut left) = (0, 0, false, false, false);
    while done < wanted {
        rounds += 1;
        for index in 0..3 {
            let count = random.between(0, PER_VERSION).min(wanted - done);
            let (edit, count) = match count {
                _ if rounds % ROUNDS_PER_BURST == 2 * index + 1 => (scene.models[index].burst(BURST), 1),
                // A zone may rest for a round.
                0 => continue,
                count => (scene.models[index].change(count), count),
            };
            scene.apply(index, &edit);
            done += count;
        }
        if scene.followed {
            let edit = scene.guest.change(3);
            scene.primaries[2].change(&scene.guest.origin, &edit);
        }
        // At times several versions come together.
        if random.chance(70) {
            scene.wait_for_zones();
        }
        if !came && done > wanted / 4 {
            (came, scene.followed) = (true, true);
            scene.reload();
        }
        if !lost && done > wanted / 2 {
            lost = true;
            scene.lose_history();
        }
        if !left && done > wanted * 3 / 4 {
            scene.check();
            (left, scene.followed) = (true, false);
            scene.reload();
            for zone in [GUEST, GUEST_REGION] {
                let zone = Dname::parse(zone);
                scene.secondaries[..2].iter_mut().for_each(|consumer| consumer.wait_gone(&zone));
            }
        }
        if rounds % ROUNDS_PER_CHECK == 0 {
            scene.check();
            println!("{:?}: {done} changes in {rounds} rounds, all copies equal", begin.elapsed());
        }
    }
    scene.check();
    println!("{:?}: {done} changes in {rounds} rounds, all copies equal", begin.elapsed());
    assert!(lost && came && left, "everything that was to happen has happened");
    assert!(scene.models[..2].iter().all(|model| model.serial() < 1 << 31), "serials have passed 2^32");
    report(&scene, &before);
}

/// Prints how much came and went by difference, and holds it against what it should be.
fn report(scene: &Scene, before: &[(&str, Counts, Counts)]) {
    let (mut all_in, mut all_out) = (Counts::default(), Counts::default());
    println!("by difference and in whole: in, out");
    for ((zone, received, sent), (_, received_before, sent_before)) in count_all(scene).into_iter().zip(before) {
        let (received, sent) = (received.since(*received_before), sent.since(*sent_before));
        println!("{zone:34} {:4} {:2} {:5} {:2}", received.differences, received.wholes, sent.differences, sent.wholes);
        (all_in, all_out) = (all_in.plus(received), all_out.plus(sent));
    }
    println!("{} % in and {} % out were incremental", all_in.share(), all_out.share());
    let metrics = scene.daemon.metrics();
    let failures: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("aggregator_transfer_failures_total")).collect();
    println!("failed polls and transfers: {failures:#?}");
    for zone in ZONES {
        assert!(scene.sum("aggregator_notify_received_total", &[("zone", zone), ("result", "accepted")]) > 5, "{zone}");
        assert_eq!(scene.sum("aggregator_transfer_failures_total", &[("zone", zone), ("kind", "ixfr")]), 0, "{zone}");
        assert_eq!(scene.sum("aggregator_transfer_failures_total", &[("zone", zone), ("kind", "axfr")]), 0, "{zone}");
    }
    let log = scene.daemon.log_text();
    let is_long =
        |line: &str| line.contains("transfer out") && line.contains("\"ixfr\"") && !line.contains(" messages=1 ");
    assert!(log.lines().any(is_long), "a burst has been more than one message");
    assert_eq!(all_in.wholes, 1, "only the primary that lost its history sends the zone in whole");
    assert!(all_in.share() >= 90 && all_in.differences > 20, "{} % in", all_in.share());
    assert!(all_out.share() >= 90 && all_out.differences > 100, "{} % out", all_out.share());
}
