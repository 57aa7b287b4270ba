//! Changes and names as operators see them: `diff`, `notify`, `lookup`, and the serials that `status` shows.

mod harness;

use harness::{
    Aggregator, Client, Dname, Folder, Output, Settings, read_zone, rtype, start_unloadable_primary, wait_until,
};
use serde_json::Value;
use sim::instances::Datacenter;
use sim::primary::Primary;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use wire::name::Name;

const ZONE: &str = "us-west-1.cns.example.com";
const REGION: &str = "us-west.cns.example.com";
const CATALOG: &str = "catalog.example.com";
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon behind a primary, with a secondary that takes announcements and says nothing unless told to.
struct Scene {
    daemon: Aggregator,
    primary: Primary,
    site: Datacenter,
    secondary: UdpSocket,
    _folder: Folder,
}

impl Scene {
    async fn new() -> Scene {
        let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let site = Datacenter::new(Name::parse(ZONE).unwrap(), 0, 7, SystemTime::now()).unwrap();
        primary.publish(site.zone());
        let secondary = UdpSocket::bind("127.0.0.1:0").unwrap();
        secondary.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, target) = (primary.address(), secondary.local_addr().unwrap());
        let plan = format!(
            "[zones]\n\"{ZONE}\" = \"{address}\"\n[aggregations.\"{REGION}\"]\nmembers = [\"{ZONE}\"]\nnotify = []\n\
             [secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [\"{target}\"]\ncatalog = \"{CATALOG}\"\n\
             [transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n"
        );
        let folder = Folder::new();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &Settings::new(&plan));
        let scene = Scene { daemon, primary, site, secondary, _folder: folder };
        scene.wait_for(scene.site.serial().0);
        scene
    }

    /// Waits until the daemon serves a serial.
    fn wait_for(&self, serial: u32) {
        wait_until("the serial is served", PATIENCE, || (self.status(ZONE)["serial"] == serial).then_some(()));
    }

    /// Changes the zone at the primary and waits until the daemon has it; the serials before and after.
    async fn change(&mut self) -> [u32; 2] {
        let before = self.site.serial().0;
        self.site.scale_up("web", 1, SystemTime::now());
        self.primary.publish(self.site.zone());
        self.primary.notify(&Name::parse(ZONE).unwrap(), self.daemon.address()).await.unwrap();
        self.wait_for(self.site.serial().0);
        [before, self.site.serial().0]
    }

    /// Returns the status of a zone, region or catalog.
    fn status(&self, zone: &str) -> Value {
        let output = self.daemon.verb(&["status", zone, "--json"]);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let found = ["zones", "regions"].into_iter().find_map(|kind| report[kind].get(0));
        found.unwrap_or(&report["catalog"]).clone()
    }

    /// Takes announcements until one is about a zone, and acknowledges them all.
    fn acknowledge(&self, zone: &str) {
        let wire = Name::parse(zone).unwrap();
        let mut message = [0; 512];
        loop {
            let (length, from): (usize, SocketAddr) = self.secondary.recv_from(&mut message).expect("an announcement");
            // QR, so that it is the reply to itself (RFC 1996 section 4.7).
            message[2] |= 0x80;
            self.secondary.send_to(&message[..length], from).unwrap();
            if message[12..length].starts_with(wire.as_wire()) {
                return;
            }
        }
    }
}

/// A verb that must succeed.
fn text(output: Output) -> String {
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_shows_what_changed() {
    let mut scene = Scene::new().await;
    let first = scene.site.serial().0;
    let nothing = scene.daemon.verb(&["diff", ZONE]);
    let alone = format!("the history of zone {ZONE}. holds serial {first} alone; there is nothing to compare with\n");
    assert_eq!((nothing.code, nothing.stderr), (1, alone));

    let [before, after] = scene.change().await;
    let diff = text(scene.daemon.verb(&["diff", ZONE]));
    let lines: Vec<&str> = diff.lines().collect();
    assert_eq!(lines[..2], [format!("--- {ZONE}. {before}"), format!("+++ {ZONE}. {after}")]);
    assert!(lines[2].starts_with(&format!("-{ZONE}. ")) && lines[2].contains(" IN SOA "), "{diff}");
    assert!(lines[3].starts_with(&format!("+{ZONE}. ")) && lines[3].contains(&format!(" {after} ")), "{diff}");
    let added = lines.iter().filter(|line| line.starts_with('+') && line.contains(" IN A ")).count();
    assert!(added >= 1 && !lines[4..].iter().any(|line| line.starts_with('-')), "{diff}");
    // The region has the same records under its own names.
    let region = text(scene.daemon.verb(&["diff", REGION]));
    assert_eq!(region.lines().filter(|line| line.starts_with('+') && line.contains(" IN A ")).count(), added);

    let [_, last] = scene.change().await;
    let since = text(scene.daemon.verb(&["diff", ZONE, "--from", &first.to_string()]));
    assert!(since.starts_with(&format!("--- {ZONE}. {first}\n+++ {ZONE}. {last}\n")), "{since}");
    assert!(since.lines().filter(|line| line.contains(" IN A ")).count() > added, "{since}");
    assert_eq!(text(scene.daemon.verb(&["diff", ZONE, "--from", &last.to_string()])), "");
    let json = text(scene.daemon.verb(&["diff", ZONE, "--from", &first.to_string(), "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let records = json["added"].as_array().unwrap().len() + json["removed"].as_array().unwrap().len();
    assert_eq!((&json["from"], records), (&first.into(), since.lines().count() - 2));

    let unknown = scene.daemon.verb(&["diff", ZONE, "--from", "1"]);
    let has = format!("the history of zone {ZONE}. does not have serial 1; it has {first}, {after}, {last}\n");
    assert_eq!((unknown.code, unknown.stderr), (1, has));
    let nowhere = scene.daemon.verb(&["diff", "other.example"]);
    assert_eq!(
        (nowhere.code, nowhere.stderr.as_str()),
        (1, "zone other.example. is not configured; see \"aggregator status\"\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notify_tells_secondaries_and_status_what_they_said() {
    let mut scene = Scene::new().await;
    let target = scene.secondary.local_addr().unwrap();
    scene.acknowledge(ZONE);
    let acknowledged = |scene: &Scene, zone: &str| {
        let status = scene.status(zone);
        let secondary = &status["secondaries"][0];
        assert_eq!(secondary["address"], target.to_string());
        (secondary["acknowledged"] == status["serial"] && secondary["notified"] == status["serial"]).then_some(())
    };
    wait_until("the first announcement is acknowledged", PATIENCE, || acknowledged(&scene, ZONE));
    scene.change().await;
    scene.acknowledge(ZONE);
    wait_until("the change is acknowledged", PATIENCE, || acknowledged(&scene, ZONE));
    let serial = scene.site.serial();
    let overview = text(scene.daemon.verb(&["status"]));
    assert!(overview.contains("\nstate folder off: ") && overview.contains("  catalog\n"), "{overview}");
    assert!(scene.daemon.metrics().contains("\naggregator_state_healthy 1\n"), "nothing is missing on disk");
    let status = text(scene.daemon.verb(&["status", ZONE]));
    for line in [
        format!("  serials: {serial} served, {serial} at the primary, {serial} told to secondaries\n"),
        format!("  secondary {target}: told {serial}, acknowledged {serial}, acknowledged for "),
        "  transfers from primaries: ".to_string(),
        "  history from serial ".to_string(),
    ] {
        assert!(status.contains(&line), "{line} in\n{status}");
    }

    // Without any change, because someone asks for it.
    assert!(text(scene.daemon.verb(&["notify", ZONE])).starts_with("announcements on their way: 1; "));
    scene.acknowledge(ZONE);
    assert!(text(scene.daemon.verb(&["notify"])).starts_with("announcements on their way: 2; "), "zone and catalog");
    scene.acknowledge(CATALOG);
    wait_until("the catalog is acknowledged", PATIENCE, || acknowledged(&scene, CATALOG));
    let catalog = text(scene.daemon.verb(&["status", CATALOG]));
    assert!(catalog.starts_with(&format!("catalog {CATALOG}.\n  serials: ")), "{catalog}");

    let refused = scene.daemon.verb(&["notify", REGION]);
    let reason = format!("zone {REGION}. has no secondaries to tell; set \"notify\" in the configuration\n");
    assert_eq!((refused.code, refused.stderr), (1, reason));
    let unknown = scene.daemon.verb(&["notify", "other.example"]);
    assert_eq!(
        (unknown.code, unknown.stderr.as_str()),
        (1, "zone other.example. is not configured; see \"aggregator status\"\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_tells_where_every_record_of_a_region_comes_from() {
    let mut scene = Scene::new().await;
    scene.change().await;
    let (daemon, serial) = (&scene.daemon, scene.site.serial());
    let served = |zone: &str| daemon.dump(&Dname::parse(zone)).expect("a zone that is served");
    let mut owners: Vec<Dname> = served(REGION).iter().map(|record| record.owner.clone()).collect();
    owners.sort();
    owners.dedup();
    let (region, zone) = (Dname::parse(REGION), Dname::parse(ZONE));
    for owner in owners.iter().step_by(owners.len().div_ceil(12)) {
        let output = text(daemon.verb(&["lookup", &owner.to_string(), "--json"]));
        let told: Value = serde_json::from_str(&output).unwrap();
        let step = &told["steps"][0];
        let count = served(REGION).iter().filter(|record| record.owner == *owner).count();
        assert_eq!(step["records"].as_array().unwrap().len(), count, "{owner} {told:#}");
        let there = owner.with_suffix(&region, &zone).unwrap();
        for record in step["records"].as_array().unwrap() {
            if matches!(record["type"].as_str(), Some("SOA" | "NS")) {
                continue;
            }
            let from = &record["from"][0];
            assert_eq!((&from["zone"], &from["serial"]), (&format!("{ZONE}.").into(), &serial.0.into()), "{told:#}");
            assert_eq!(from["owner"], there.to_string(), "{told:#}");
            let has =
                |known: &harness::Record| known.owner == there && known.ttl == record["ttl"].as_u64().unwrap() as u32;
            assert!(served(ZONE).iter().any(has), "{record:#}");
        }
    }
    let found = served(REGION).into_iter().find(|record| record.rtype == rtype::SRV).expect("a service");
    let told = text(daemon.verb(&["lookup", &found.owner.to_string(), "srv"]));
    let there = found.owner.with_suffix(&region, &zone).unwrap();
    for line in [
        format!("{}\n  NOERROR: ", found.owner),
        format!("  region {REGION}.: ok, serial {serial}\n  {} SRV ", found.ttl),
        format!("      {ZONE}. serial {serial}: {there}\n"),
        format!("  members\n    {ZONE}. ok, serial {serial}, refreshed "),
        format!("      primary {}: serial {serial}, ", scene.primary.address()),
    ] {
        assert!(told.contains(&line), "{line} in\n{told}");
    }
    let told = text(daemon.verb(&["lookup", &there.to_string()]));
    assert!(told.contains(&format!("  regions\n    {REGION}.: {}, ", found.owner)), "{told}");
    let told = text(daemon.verb(&["lookup", &format!("no.such.{ZONE}")]));
    assert!(told.contains("  NXDOMAIN: ") && told.contains("has no such name; the closest above it is "), "{told}");
    let foreign = daemon.verb(&["lookup", "example.org"]);
    assert!(foreign.code == 1 && foreign.stdout.contains("  REFUSED: no zone here holds the name\n"), "{foreign:?}");
    let refused = daemon.verb(&["lookup", ZONE, "AXFR"]);
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (1, "AXFR is no type of records; name one such as A, or none\n")
    );
    let wrong = daemon.verb(&["lookup", "a..b"]);
    assert_eq!((wrong.code, wrong.stderr.as_str()), (1, "no domain name: empty label\n"));
}

#[test]
fn what_a_zone_cannot_hold_is_told() {
    let folder = Folder::new();
    let zone = Dname::parse("z.test");
    let text = "$ORIGIN z.test.\n@ 60 IN SOA ns. h. 7 30 60 2592000 30\n@ 60 IN NS ns.dc.invalid.\n@ 60 IN CNAME web\n\
                web 30 IN A 192.0.2.1\nweb 30 IN CNAME old\ntwo 30 IN CNAME a\ntwo 30 IN CNAME b\n\
                dn 30 IN DNAME a\ndn 30 IN DNAME b\n";
    let is_away = Arc::new(AtomicBool::new(false));
    let address = start_unloadable_primary(read_zone(text), &is_away);
    let plan = format!("[zones]\n\"z.test\" = \"{address}\"\n");
    let settings = Settings { state: Some("state".to_string()), ..Settings::new(&plan) };
    let mut daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let mut client = Client::new(daemon.address());
    wait_until("the zone is served", PATIENCE, || client.serial(&zone));
    check_conflicts(&daemon);
    // All of it is on disk: there is no transfer that could tell.
    is_away.store(true, Ordering::SeqCst);
    daemon.kill_and_restart(|| ());
    check_conflicts(&daemon);
    assert!(!daemon.log_text().contains("zone transferred"), "{}", daemon.log_text());
}

/// Checks that status, lookup, metrics and log tell what the zone cannot hold.
fn check_conflicts(daemon: &Aggregator) {
    let status = daemon.verb(&["status", "z.test"]).stdout;
    for line in [
        "4 names with records that the zone cannot hold",
        "z.test. alias-at-apex: 1 record dropped",
        "web.z.test. alias-beside-data: 1 record dropped",
        "two.z.test. different-aliases: 1 record dropped",
        "dn.z.test. different-aliases: 1 record dropped",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let lookup = daemon.verb(&["lookup", "web.z.test"]).stdout;
    assert!(lookup.contains("not in the zone") && lookup.contains("alias-beside-data"), "{lookup}");
    wait_until("the gauge is set", PATIENCE, || {
        let line = "aggregator_zone_conflicts{kind=\"different-aliases\",zone=\"z.test.\"} 2";
        daemon.metrics().contains(line).then_some(())
    });
    let log = daemon.log_text();
    assert_eq!(log.matches("records conflict within the zone").count(), 4, "{log}");
}
