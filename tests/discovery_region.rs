//! A service that three datacenters have, two in ZooKeeper and one in a zone of Knot's, under one region name; and all
//! of it at real secondaries.
//!
//! Nobody polls: what changes was told by a watch, and what the secondaries have they were told to fetch.

mod harness;

use harness::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const ZONES: [&str; 3] = ["us-west-1.example.com.", "us-west-2.example.com.", "us-west-3.example.com."];
const DOCUMENT: &str = include_str!("../docs/verbs.md");
const REGION: &str = "us-west.example.com.";
const REVERSE: &str = "27.172.in-addr.arpa.";
/// Time for which a tree is served without its ensemble.
const SERVE_STALE: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the payload that Registrar writes for an instance.
fn host(address: Ipv4Addr) -> Vec<u8> {
    let inner = format!("{{\"address\":\"{address}\",\"ports\":[6379],\"ttl\":30}}");
    format!("{{\"type\":\"redis_host\",\"address\":\"{address}\",\"redis_host\":{inner}}}").into_bytes()
}
const SERVICE: &str = "{\"type\":\"service\",\"service\":{\"type\":\"service\",\"service\":\
    {\"srvce\":\"_redis\",\"proto\":\"_tcp\",\"port\":6379,\"ttl\":60},\"ttl\":60}}";

/// An instance's address in a datacenter.
fn address(datacenter: u8, instance: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 26 + datacenter, 10, instance)
}

/// Path of an instance's node, or of the service's.
fn path(datacenter: u8, instance: &str) -> String {
    format!("/com/example/us-west-{datacenter}/authcache{instance}")
}

/// The two trees, the zone of the third datacenter, and the daemon that unites them.
struct Scene {
    servers: [ZooKeeper; 2],
    nodes: [Znodes; 2],
    _primary: Peer,
    primary: SocketAddr,
    daemon: Aggregator,
    folder: Folder,
}

impl Scene {
    /// Starts everything, with two instances in each tree and one in the zone, and waits until the region has all five.
    fn start() -> Scene {
        let folder = Folder::new();
        let servers = [ZooKeeper::start(&folder), ZooKeeper::start(&folder)];
        let nodes = [0, 1].map(|index: usize| Znodes::connect(&[servers[index].address()]));
        for (datacenter, nodes) in [1, 2].into_iter().zip(&nodes) {
            nodes.create(&path(datacenter, ""), SERVICE.as_bytes());
            for instance in [1, 2] {
                nodes.create(&path(datacenter, &format!("/i{instance}")), &host(address(datacenter, instance)));
            }
        }
        let third = Dname::parse(ZONES[2]);
        let text = format!(
            "$ORIGIN {third}\n@ 3600 IN SOA ns1.test. hostmaster 7 86400 86400 2592000 30\n@ 3600 IN NS ns1.test.\n\
             authcache 30 IN A {0}\n_redis._tcp.authcache 60 IN SRV 0 10 6379 i1.authcache\ni1.authcache 20 IN A {0}\n",
            address(3, 1)
        );
        let primary_server = Knotd::start(&folder, &[(third, text)]);
        let primary = primary_server.address();
        let plan = plan(&servers, primary, &[]);
        let daemon = Aggregator::start(&folder, &plan);
        let scene = Scene { servers, nodes, _primary: primary_server, primary, daemon, folder };
        let all = [address(1, 1), address(1, 2), address(2, 1), address(2, 2), address(3, 1)];
        scene.wait_addresses(REGION, &all);
        scene
    }

    /// The addresses of the service under the name of a zone; none when there is no answer.
    fn addresses(&self, zone: &str) -> Option<BTreeSet<Ipv4Addr>> {
        let query = Query::new(&Dname::parse(&format!("authcache.{zone}")), rtype::A);
        let answer = Client::new(self.daemon.address()).ask(&query).ok()?;
        let addresses = answer.answer.iter().map(|record| <[u8; 4]>::try_from(&record.rdata[..]).expect("four octets"));
        (answer.rcode() == 0).then(|| addresses.map(Ipv4Addr::from).collect())
    }

    /// Waits until the service has exactly these addresses.
    fn wait_addresses(&self, zone: &str, expected: &[Ipv4Addr]) {
        let expected: BTreeSet<Ipv4Addr> = expected.iter().copied().collect();
        let mut last = None;
        let start = Instant::now();
        while last.as_ref() != Some(&expected) {
            assert!(start.elapsed() < PATIENCE, "{zone} has {last:?} and not {expected:?}\n{}", self.daemon.log_text());
            last = self.addresses(zone);
        }
    }

    /// The records of a zone as the daemon has them.
    fn dump(&self, zone: &str) -> Vec<Record> {
        self.daemon.dump(&Dname::parse(zone)).unwrap_or_else(|| panic!("no {zone}"))
    }

    /// Demands that the region is what a naive merge makes of these members.
    fn check_region(&self, members: &[&str]) {
        let (origin, mname) = (Dname::parse(REGION), Dname::parse("ns1.test."));
        let members: Vec<(Dname, Vec<Record>)> =
            members.iter().map(|zone| (Dname::parse(zone), self.dump(zone))).collect();
        let naive = Region { origin, rewrite: false, servers: None, mname };
        let without_soa = |records: Vec<Record>| -> Vec<Record> {
            // The serial has a drift after a member was away.
            records.into_iter().filter(|record| record.rtype != rtype::SOA).collect()
        };
        let expected = without_soa(naive.merge(&members));
        assert_eq!(difference(&expected, &without_soa(self.dump(REGION))), None);
    }

    /// Demands that the region's serial is the sum of the members'.
    fn check_serial(&self) {
        let serial = |zone: &str| Client::new(self.daemon.address()).serial(&Dname::parse(zone)).expect("a serial");
        let sum = ZONES.iter().fold(0u32, |sum, zone| sum.wrapping_add(serial(zone)));
        assert_eq!(serial(REGION), sum);
    }

    /// Returns the output of `lookup` for the service's name in the region.
    fn lookup(&self) -> Value {
        let output = self.daemon.verb(&["lookup", &format!("authcache.{REGION}"), "A", "--json"]);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
        serde_json::from_str::<Value>(&output.stdout).unwrap()["steps"][0].take()
    }
}

/// The daemon's plan.
fn plan(servers: &[ZooKeeper; 2], primary: SocketAddr, secondaries: &[Secondary]) -> String {
    let notify: Vec<String> = secondaries.iter().map(|secondary| format!("\"{}\"", secondary.address())).collect();
    let mut text = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [{}]\n\
         [aggregations.\"{REGION}\"]\nmembers = {ZONES:?}\nsoa_refresh = \"1d\"\nsoa_retry = \"1d\"\n\
         [zones]\n\"{}\" = \"{primary}\"\n",
        notify.join(", "),
        ZONES[2]
    );
    for (index, server) in servers.iter().enumerate() {
        let reverse = format!("172.{}.0.0/16", 27 + index);
        text.push_str(&format!(
            "[zones.\"{}\"]\nzookeeper = \"{}\"\nsession_timeout = \"3s\"\nserve_stale = \"{}s\"\n\
             reverse = \"{reverse}\"\n",
            ZONES[index],
            server.address(),
            SERVE_STALE.as_secs()
        ));
    }
    text
}

/// The number behind a line of the metrics page; zero when the line is not there.
fn counted(daemon: &Aggregator, line: &str) -> u64 {
    let metrics = daemon.metrics();
    metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0)
}

/// Returns the number of incremental and of full transfers of a zone to secondaries.
fn sent(daemon: &Aggregator, zone: &str) -> (u64, u64) {
    let count = |kind: &str| {
        counted(daemon, &format!("aggregator_xfr_served_total{{kind=\"{kind}\",result=\"ok\",zone=\"{zone}\"}}"))
    };
    (count("ixfr"), count("axfr") + count("ixfr-full"))
}

#[test]
fn a_service_of_three_datacenters_is_one_name() {
    let scene = Scene::start();
    scene.check_region(&ZONES);
    scene.check_serial();
    // Targets stay those of their datacenters, and their addresses come along.
    let query = Query::new(&Dname::parse(&format!("_redis._tcp.authcache.{REGION}")), rtype::SRV);
    let answer = Client::new(scene.daemon.address()).ask_tcp(&query).unwrap();
    let targets: BTreeSet<String> = answer.answer.iter().map(|record| record.target().unwrap().to_string()).collect();
    let of = |zone: &str, instance: u8| format!("i{instance}.authcache.{zone}");
    let expected = [of(ZONES[0], 1), of(ZONES[0], 2), of(ZONES[1], 1), of(ZONES[1], 2), of(ZONES[2], 1)];
    assert_eq!(targets, expected.into());
    let added = answer.additional.iter().filter(|record| record.rtype == rtype::A);
    assert_eq!(added.map(|record| record.owner.to_string()).collect::<BTreeSet<_>>(), targets);

    // Each address with its way here: the zone, the node, its data.
    let told = scene.lookup();
    let records = told["records"].as_array().unwrap();
    assert_eq!((records.len(), &told["zone"]["kind"]), (5, &Value::from("region")), "{told:#}");
    for (zone, data) in [(ZONES[0], address(1, 2)), (ZONES[1], address(2, 1)), (ZONES[2], address(3, 1))] {
        let record = records.iter().find(|record| record["data"] == data.to_string()).expect("the record");
        assert_eq!((&record["from"][0]["zone"], &record["from"][1]), (&Value::from(zone), &Value::Null), "{told:#}");
    }
    let sources = told["sources"].as_array().unwrap();
    let nodes = sources[1]["tree"]["nodes"].as_array().unwrap();
    let member = nodes.iter().find(|node| node["path"] == path(2, "/i1")).unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(member["payload"], String::from_utf8(host(address(2, 1))).unwrap());
    assert_eq!(sources[1]["tree"]["ensemble"][0], scene.servers[1].address().to_string());
    assert_eq!(sources[2]["primaries"][0]["address"], scene.primary.to_string());

    // What the document shows is what it prints, but for addresses and what the clock says.
    let output = scene.daemon.verb(&["lookup", &format!("i1.authcache.{REGION}"), "A"]);
    assert_eq!(output.code, 0, "{output:?}");
    let servers = [scene.servers[0].address(), scene.servers[1].address(), scene.primary];
    let shown = servers
        .iter()
        .zip(["10.1.0.21:2181", "10.2.0.21:2181", "10.3.0.10:53"])
        .fold(output.stdout.clone(), |text, (address, instead)| text.replace(&address.to_string(), instead));
    let blocks = DOCUMENT.split("```text\n").filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.starts_with(&format!("i1.authcache.{REGION}\n")));
    assert_eq!(without_moment(block.expect("a block with the output")), without_moment(&shown), "{}", output.stdout);
}

/// The text without ages and serials, which are others at each moment.
fn without_moment(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let moment =
            matches!(words[..], [.., "refreshed" | "serial" | "zxid" | "version" | "of"] | [.., "expires", "in"]);
        let is_moment = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | ':');
        words.push(if moment { word.trim_start_matches(is_moment) } else { word });
    }
    words.join(" ")
}

#[test]
fn a_changed_node_reaches_secondaries_as_a_difference() {
    let scene = Scene::start();
    let followed = [ZONES[0], REVERSE, REGION];
    let zones = followed.map(Dname::parse);
    let plan_of = SecondaryPlan::new(scene.daemon.address(), &[&zones[0], &zones[1], &zones[2]]);
    let mut secondaries = [Nsd::start_secondary, Knotd::start_secondary].map(|start| start(&scene.folder, &plan_of));
    scene.daemon.write_plan(&plan(&scene.servers, scene.primary, &secondaries));
    let reloaded = scene.daemon.verb(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    let mut wait_equal = |scene: &Scene| {
        for zone in followed {
            let ours = scene.dump(zone);
            let serial = ours.iter().find(|record| record.rtype == rtype::SOA).expect("SOA").serial();
            for secondary in &mut secondaries {
                secondary.wait_for_serial(&Dname::parse(zone), serial);
                let theirs = secondary.fetch(&Dname::parse(zone));
                assert_eq!(difference(&ours, &theirs), None, "{} and {zone}", secondary.name());
            }
        }
    };
    wait_equal(&scene);
    let before = followed.map(|zone| sent(&scene.daemon, zone));
    let others = [address(2, 1), address(2, 2), address(3, 1)];
    let steps: [(&dyn Fn(), &[Ipv4Addr]); 3] = [
        (&|| scene.nodes[0].set(&path(1, "/i1"), &host(address(1, 71))), &[address(1, 71), address(1, 2)]),
        (
            &|| scene.nodes[0].create(&path(1, "/i3"), &host(address(1, 3))),
            &[address(1, 71), address(1, 2), address(1, 3)],
        ),
        (&|| scene.nodes[0].delete(&path(1, "/i2")), &[address(1, 71), address(1, 3)]),
    ];
    for (change, own) in steps {
        change();
        let all: Vec<Ipv4Addr> = own.iter().chain(&others).copied().collect();
        scene.wait_addresses(REGION, &all);
        scene.wait_addresses(ZONES[0], own);
        wait_equal(&scene);
    }
    scene.check_region(&ZONES);
    scene.check_serial();
    for (zone, (differences, full)) in followed.into_iter().zip(before) {
        let now = sent(&scene.daemon, zone);
        assert!(now.0 >= differences + 3, "{zone} was sent as a difference {} times", now.0 - differences);
        assert_eq!(now.1, full, "{zone} was sent in full again");
    }
}

#[test]
fn a_tree_without_its_ensemble_stays_for_a_while_and_comes_back() {
    let mut scene = Scene::start();
    let (own, others) = ([address(1, 1), address(1, 2)], [address(2, 1), address(2, 2), address(3, 1)]);
    let all: Vec<Ipv4Addr> = own.iter().chain(&others).copied().collect();
    let line = format!("aggregator_zookeeper_session{{state=\"live\",zone=\"{}\"}}", ZONES[0]);
    wait_until("the session is known", PATIENCE, || (counted(&scene.daemon, &line) == 1).then_some(()));
    let killed = Instant::now();
    scene.servers[0].kill();
    wait_until("the loss is noticed", PATIENCE, || (counted(&scene.daemon, &line) == 0).then_some(()));
    if killed.elapsed() < SERVE_STALE / 2 {
        assert_eq!(scene.addresses(REGION), Some(all.iter().copied().collect()), "the last tree is served");
        assert_eq!(scene.addresses(ZONES[0]), Some(own.into()));
    }
    scene.wait_addresses(REGION, &others);
    assert!(killed.elapsed() > SERVE_STALE / 2, "gone after {:?} already", killed.elapsed());
    assert_eq!(scene.addresses(ZONES[0]), None, "an expired zone has no answers");
    scene.check_region(&ZONES[1..]);
    let told = scene.lookup();
    let reasons: BTreeSet<&str> =
        told["left_out"].as_array().unwrap().iter().map(|record| record["reason"].as_str().unwrap()).collect();
    assert_eq!((reasons, &told["sources"][0]["state"]), (["withdrawn"].into(), &Value::from("expired")), "{told:#}");

    scene.servers[0].restart();
    scene.wait_addresses(REGION, &all);
    scene.wait_addresses(ZONES[0], &own);
    scene.check_region(&ZONES);
}
