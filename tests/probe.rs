//! Name servers with every fault, real ones, as `check --live` and the running daemon see them.
//!
//! BIND has the parent zone and knows all names, NSD the region twice, once an old copy, and Knot a datacenter's zone,
//! but not the region.

mod harness;
#[path = "probe/odd.rs"]
mod odd;
#[path = "probe/paths.rs"]
mod paths;

use harness::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

const ZONE: &str = "dc.example.test";
const REGION: &str = "region.example.test";
const PATIENCE: Duration = Duration::from_secs(30);

/// The name servers that the region shall have.
const LISTED: [&str; 6] = ["ns1", "ns2", "ns3", "ns4", "ns5", "ns6"];

/// The parent's zone: ns5 is an alias, ns6 is not there; the delegation has another name instead, without glue.
const PARENT: &str = "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns0 h 1 1 1 1000 1\n@ IN NS ns0\nns0 IN A 127.0.0.1\n\
    ns1 IN A 127.0.0.1\nns2 IN A 127.0.0.1\nns3 IN A 127.0.0.1\nns4 IN A 127.0.0.1\nns5 IN CNAME other\nother IN TXT x\n\
    dc IN NS ns3\nregion IN NS ns1\nregion IN NS ns2\nregion IN NS ns3\nregion IN NS ns4\nregion IN NS ns5\n\
    region IN NS inner.region\n";

/// A copy of the region as it should be, apart from serial and name servers.
fn copy(serial: u32, servers: &[&str]) -> String {
    let ns: String = servers.iter().map(|server| format!("@ IN NS {server}.example.test.\n")).collect();
    format!("$ORIGIN {REGION}.\n$TTL 60\n@ IN SOA ns1.example.test. h.example.test. {serial} 30 60 10000 30\n{ns}")
}

/// All servers.
struct Scene {
    parent: Peer,
    good: Peer,
    old: Peer,
    primary: Peer,
    dead: SocketAddr,
    folder: Folder,
}

impl Scene {
    fn start() -> Scene {
        let folder = Folder::new();
        let zone = |name: &str, text: String| (Dname::parse(name), text);
        let datacenter = format!(
            "$ORIGIN {ZONE}.\n$TTL 60\n@ IN SOA ns3.example.test. h.example.test. 100 30 60 10000 30\n\
             @ IN NS ns3.example.test.\nweb.svc.acme IN A 192.0.2.1\n"
        );
        Scene {
            parent: Named::start(&folder, &[zone("example.test", PARENT.to_string())]),
            good: Nsd::start(&folder, &[zone(REGION, copy(100, &LISTED))]),
            old: Nsd::start(&folder, &[zone(REGION, copy(90, &["ns1"]))]),
            primary: Knotd::start(&folder, &[zone(ZONE, datacenter)]),
            dead: Port::reserve().release(),
            folder,
        }
    }

    /// The plan, with the region's first server at an address.
    fn plan(&self, first: SocketAddr, every: &str) -> String {
        let listed = LISTED.map(|server| format!("\"{server}.example.test\"")).join(", ");
        let hosts = [
            ("ns0", self.parent.address()),
            ("ns1", first),
            ("ns2", self.old.address()),
            ("ns3", self.primary.address()),
            ("ns4", self.dead),
        ];
        let hosts = hosts.map(|(name, address)| format!("\"{name}.example.test\" = \"{address}\"")).join(", ");
        let (primary, resolver) = (self.primary.address(), self.parent.address());
        format!(
            "[zones]\n\"{ZONE}\" = \"{primary}\"\n[aggregations.\"{REGION}\"]\nmembers = [\"{ZONE}\"]\nns = [{listed}]\n\
             [probe]\nevery = \"{every}\"\nresolver = \"{resolver}\"\nstale_after = \"1s\"\ntimeout = \"1s\"\nhosts = {{ {hosts} }}\n"
        )
    }

    /// Returns the faults of the region, as the server's label and the problem.
    fn faults(&self) -> BTreeSet<(String, &'static str)> {
        let at = |name: &str, address: SocketAddr| format!("{name}.example.test. {address}");
        let parent = format!("parent {}", self.parent.address());
        [
            (parent.clone(), "foreign"),
            (parent, "no-glue"),
            ("inner.region.example.test.".to_string(), "unknown"),
            (at("ns2", self.old.address()), "stale"),
            (at("ns2", self.old.address()), "foreign"),
            (at("ns3", self.primary.address()), "lame"),
            (at("ns4", self.dead), "unreachable"),
            ("ns5.example.test.".to_string(), "alias"),
            ("ns6.example.test.".to_string(), "unresolved"),
        ]
        .into()
    }
}

/// Returns the findings about one zone in a list of zones.
fn found(zones: &Value, zone: &str) -> Option<BTreeSet<(String, String)>> {
    let check = zones.as_array()?.iter().find(|check| check["zone"] == format!("{zone}."))?;
    let mut found = BTreeSet::new();
    for server in check["servers"].as_array()? {
        let name = server["name"].as_str().unwrap_or("parent");
        let label = server["address"].as_str().map_or(name.to_string(), |address| format!("{name} {address}"));
        for finding in server["findings"].as_array()? {
            assert!(finding["text"].as_str().is_some_and(|text| !text.is_empty()), "{server}");
            found.insert((label.clone(), finding["problem"].as_str()?.to_string()));
        }
    }
    Some(found)
}

/// Faults in the form in which they are found.
fn owned(faults: BTreeSet<(String, &str)>) -> BTreeSet<(String, String)> {
    faults.into_iter().map(|(server, problem)| (server, problem.to_string())).collect()
}

#[test]
fn a_look_without_a_server_finds_every_fault() {
    let scene = Scene::start();
    let path = scene.folder.path().join("live.toml");
    write_file(&path, &scene.plan(scene.good.address(), "off"));
    let output = run_verb(&["check", "--live", "--json"], &path);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((output.code, &report["ok"]), (1, &Value::from(false)), "{output:?}");
    assert_eq!(found(&report["zones"], REGION), Some(owned(scene.faults())), "{report:#}");
    assert_eq!(found(&report["zones"], ZONE), Some(BTreeSet::new()), "{report:#}");

    let well = run_verb(&["check", "--live", "--zone", ZONE], &path);
    assert_eq!((well.code, well.stderr.as_str()), (0, ""), "{well:?}");
    let lines: Vec<Vec<&str>> = well.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ZONE", "SERVER", "ADDRESS", "SERIAL", "RESULT"]);
    let (parent, primary) = (scene.parent.address().to_string(), scene.primary.address().to_string());
    assert_eq!(lines[1], ["dc.example.test.", "parent", &parent, "-", "ok"]);
    assert_eq!(lines[2], ["dc.example.test.", "ns3.example.test.", &primary, "100", "ok"]);
    let unknown = run_verb(&["check", "--live", "--zone", "other.test"], &path);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("other.test. is none of the zones"), "{unknown:?}");
    assert_eq!(run_verb(&["check", "--zone", ZONE], &path).code, 2, "a zone means nothing without --live");
}

#[test]
fn the_daemon_sees_faults_come_and_go() {
    let scene = Scene::start();
    let daemon = Aggregator::start(&scene.folder, &scene.plan(scene.good.address(), "off"));
    let look = |zone: &str| {
        let output = daemon.verb(&["status", "--json"]);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        found(&report["name_servers"], zone)
    };
    assert_eq!(look(REGION), None);
    let metrics = daemon.metrics();
    assert!(!metrics.contains("aggregator_nameserver_"), "{metrics}");
    // The daemon itself is the first server now.
    daemon.write_plan(&scene.plan(daemon.address(), "1s"));
    let reload = daemon.verb(&["reload"]);
    assert_eq!((reload.code, reload.stdout.as_str()), (0, "name servers are now looked at every 1s\n"), "{reload:?}");
    let faults = owned(scene.faults());
    wait_until("every fault is found", PATIENCE, || (look(REGION)? == faults).then_some(()));
    wait_until("the zone is well", PATIENCE, || look(ZONE)?.is_empty().then_some(()));
    let metrics = daemon.metrics();
    for (server, problem) in &faults {
        let series =
            format!("aggregator_nameserver_problems{{problem=\"{problem}\",server=\"{server}\",zone=\"{REGION}.\"}} 1");
        assert!(metrics.contains(&series), "{series} in\n{metrics}");
    }
    let details = daemon.verb(&["status", REGION]).stdout;
    assert!(details.contains("lame: it answers REFUSED") && details.contains("unreachable: "), "{details}");
    // One is only unknown.
    let overview = daemon.verb(&["status"]).stdout;
    assert!(overview.contains(&format!("{} faults of NS", faults.len() - 1)), "{overview}");
    let (status, page) = daemon.http(&format!("/zone/{REGION}"));
    assert!(status == 200 && page.contains("it is an alias of other.example.test."), "{page}");

    let old = format!("ns2.example.test. {}", scene.old.address());
    scene.old.replace_zone(&Dname::parse(REGION), &read_zone(&copy(100, &LISTED)));
    wait_until("the server is well", PATIENCE, || {
        let found = look(REGION)?;
        (!found.iter().any(|(server, _)| *server == old) && !found.is_empty()).then_some(())
    });
    assert!(!daemon.metrics().contains(&format!("server=\"{old}\"")), "a series without its fault");

    daemon.write_plan(&scene.plan(daemon.address(), "off"));
    assert_eq!(daemon.verb(&["reload"]).stdout, "name servers are now looked at never\n");
    assert_eq!(look(REGION), None);
    let metrics = daemon.metrics();
    assert!(!metrics.contains("aggregator_nameserver_"), "{metrics}");
}
