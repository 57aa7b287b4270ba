//! The way out: BIND, NSD and Knot as our secondaries, and as consumers of our catalog.
//!
//! Nobody polls while these tests run: what a secondary has, it has because it was told to come, with a signature.

mod harness;

use harness::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const WEST: &str = "us-west-1.cns.example.com.";
const EAST: &str = "us-east-1.cns.example.com.";
const REGION: &str = "us-west.cns.example.com.";
const CATALOG: &str = "catalog.example.com.";
const KEY: &str = "transfer.example.com";
/// The octets 0 to 31.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Many names, of which every version has another first address.
fn zone_text(zone: &str, serial: u32) -> String {
    let mut text = format!(
        "$ORIGIN {zone}\n@ 30 IN SOA ns. h. {serial} 86400 86400 2592000 30\n@ 30 IN NS ns.\nWeb.svc.acme 30 IN A 192.0.2.{serial}\n"
    );
    for number in 0..200 {
        text.push_str(&format!("i{number}.inst.acme 30 IN A 198.51.100.{number}\n"));
    }
    text
}

/// Configuration that the daemon is to have.
struct Plan<'a> {
    primary: &'a Peer,
    zones: Vec<&'a str>,
    notify: Vec<String>,
}

impl Plan<'_> {
    fn text(&self) -> String {
        let mut text = format!(
            "[keys.\"{KEY}\"]\nsecret_file = \"secret\"\n\
             [secondaries]\nallow_transfer = [{{ prefix = \"127.0.0.0/8\", key = \"{KEY}\" }}]\n\
             catalog = \"{CATALOG}\"\nnotify = [{}]\n\
             [transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n\
             [aggregations.\"{REGION}\"]\nmembers = [\"{WEST}\"]\nmname = \"self\"\nsoa_refresh = \"1d\"\n\n[zones]\n",
            self.notify.join(", ")
        );
        for zone in &self.zones {
            text.push_str(&format!("\"{zone}\" = \"{}\"\n", self.primary.address()));
        }
        text
    }

    /// Names the secondaries as targets.
    fn notify(&mut self, secondaries: &[Secondary]) {
        let entry = |secondary: &Secondary| format!("{{ address = \"{}\", key = \"{KEY}\" }}", secondary.address());
        self.notify = secondaries.iter().map(entry).collect();
    }
}

/// Starts the daemon in a folder that holds the secret.
fn start(folder: &Folder, plan: &Plan) -> Aggregator {
    let home: PathBuf = folder.subfolder("aggregator");
    write_file(&home.join("secret"), &format!("{SECRET}\n"));
    std::fs::set_permissions(home.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    Aggregator::start_in(&home, &plan.text())
}

/// Makes the daemon follow another plan.
fn reload(daemon: &Aggregator, plan: &Plan) {
    daemon.write_plan(&plan.text());
    let output = daemon.verb(&["reload"]);
    assert_eq!(output.code, 0, "{output:?}");
}

/// The serial that the daemon itself serves.
fn served(daemon: &Aggregator, zone: &Dname) -> Option<u32> {
    Client::new(daemon.address()).serial(zone)
}

/// The number behind a line of the metrics page; zero when the line is not there.
fn counted(daemon: &Aggregator, line: &str) -> u64 {
    let metrics = daemon.metrics();
    let found = metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Waits until each secondary has what the daemon serves, record by record.
fn wait_equal(daemon: &Aggregator, zone: &Dname, secondaries: &mut [Secondary]) {
    let ours = daemon.dump(zone).unwrap_or_else(|| panic!("the daemon has no {zone}"));
    let serial = ours.iter().find(|record| record.rtype == rtype::SOA).expect("SOA").serial();
    for secondary in secondaries {
        secondary.wait_for_serial(zone, serial);
        assert_eq!(difference(&ours, &secondary.fetch(zone)), None, "{} and {zone}", secondary.name());
    }
}

#[test]
fn secondaries_follow_by_differences() {
    let folder = Folder::new();
    let [zone, region] = [WEST, REGION].map(Dname::parse);
    let primary = Named::start(&folder, &[(zone.clone(), zone_text(WEST, 1))]);
    let mut plan = Plan { primary: &primary, zones: vec![WEST], notify: Vec::new() };
    let daemon = start(&folder, &plan);
    let there = || (served(&daemon, &zone).is_some() && served(&daemon, &region).is_some()).then_some(());
    wait_until("the daemon has zone and region", Duration::from_secs(20), there);
    let key = TsigKey::new(KEY, SECRET);
    let follow = SecondaryPlan::new(daemon.address(), &[&zone, &region]).with_key(&key);
    let starts = [Named::start_secondary, Nsd::start_secondary, Knotd::start_secondary];
    let mut secondaries: Vec<Secondary> = starts.iter().map(|start| start(&folder, &follow)).collect();
    for zone in [&zone, &region] {
        wait_equal(&daemon, zone, &mut secondaries);
    }
    plan.notify(&secondaries);
    reload(&daemon, &plan);
    for serial in 2..6 {
        let before = served(&daemon, &region);
        primary.replace_zone(&zone, &read_zone(&zone_text(WEST, serial)));
        wait_until("the daemon has the new version", Duration::from_secs(20), || {
            (served(&daemon, &zone) == Some(serial) && served(&daemon, &region) != before).then_some(())
        });
        for zone in [&zone, &region] {
            wait_equal(&daemon, zone, &mut secondaries);
        }
    }
    for zone in [WEST, REGION] {
        let sent = |kind: &str| {
            counted(&daemon, &format!("aggregator_xfr_served_total{{kind=\"{kind}\",result=\"ok\",zone=\"{zone}\"}} "))
        };
        // Four versions for each of three; only the first came whole.
        assert!(sent("ixfr") >= 12, "{zone} by difference: {}\n{}", sent("ixfr"), daemon.metrics());
        assert_eq!(sent("axfr") + sent("ixfr-full"), 3, "{zone} as a whole\n{}", daemon.metrics());
        let acknowledged =
            counted(&daemon, &format!("aggregator_notify_sent_total{{result=\"acknowledged\",zone=\"{zone}\"}} "));
        assert!(acknowledged >= 12, "{zone}: {acknowledged}\n{}", daemon.metrics());
    }
    // Those without the key get nothing.
    let stranger = Client::new(daemon.address()).transfer(&zone);
    assert!(stranger.is_err(), "{stranger:?}");
}

#[test]
fn consumers_follow_the_catalog() {
    let folder = Folder::new();
    let [west, east, region, catalog] = [WEST, EAST, REGION, CATALOG].map(Dname::parse);
    let zones = [(west.clone(), zone_text(WEST, 1)), (east.clone(), zone_text(EAST, 1))];
    let primary = Knotd::start(&folder, &zones);
    let mut plan = Plan { primary: &primary, zones: vec![WEST], notify: Vec::new() };
    let daemon = start(&folder, &plan);
    let has = |zone: &Dname| {
        wait_until(&format!("the daemon has {zone}"), Duration::from_secs(20), || served(&daemon, zone));
    };
    [&west, &region, &catalog].into_iter().for_each(has);
    let follow = SecondaryPlan::new(daemon.address(), &[]).with_key(&TsigKey::new(KEY, SECRET)).with_catalog(&catalog);
    let mut consumers = [Named::start_secondary, Knotd::start_secondary].map(|start| start(&folder, &follow));
    for zone in [&west, &region] {
        wait_equal(&daemon, zone, &mut consumers);
    }
    plan.notify(&consumers);
    plan.zones.push(EAST);
    reload(&daemon, &plan);
    has(&east);
    wait_equal(&daemon, &east, &mut consumers);
    plan.zones.pop();
    reload(&daemon, &plan);
    for consumer in &mut consumers {
        consumer.wait_gone(&east);
    }
    // What stays was never away.
    for zone in [&west, &region] {
        wait_equal(&daemon, zone, &mut consumers);
    }
}
