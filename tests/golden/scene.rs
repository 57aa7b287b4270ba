//! One daemon with everything that the outputs are about: zones and regions that are well, that are held back, expired,
//! missing, drained, pinned or in conflict, a zone of our own, one that two datacenters share, a catalog and a
//! secondary.
//!
//! Nothing moves by itself: refreshes are a day apart, and each step waits until it is done.

use crate::compare::Words;
use crate::harness::{Aggregator, Folder, Output, Settings, read_zone, wait_until};
use crate::primary::Primary;
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// The plan of the configuration; words in capitals are addresses.
const PLAN: &str = r#"
[zones]
"one.well.test" = "PRIMARY"
"two.well.test" = "PRIMARY"
"one.clash.test" = "PRIMARY"
"two.clash.test" = "PRIMARY"
"one.drain.test" = "PRIMARY"
"two.drain.test" = "PRIMARY"
"one.pin.test" = "PRIMARY"
"held.test" = "PRIMARY"
"absent.test" = "PRIMARY"

[zones."gone.test"]
primaries = "PRIMARY"
expire_min = "1s"
expire_max = "1s"

[zones."own.test"]
soa_ttl = 30
serial = 7
services = "os A 192.0.2.80"
openstack = { type = "identity", url = "https://os.own.test/v3" }

[zones."2.0.192.in-addr.arpa"]
ns = ["ns1.test"]
members = [
    { id = "west", primaries = ["PRIMARY"] },
    { id = "east", primaries = ["OTHER"] },
]

[aggregations."well.test"]
members = ["one.well.test", "two.well.test"]
ns = ["ns1.test"]

[aggregations."clash.test"]
members = ["one.clash.test", "two.clash.test"]
exclude = ["private"]
rdata_names = "rewrite"

[aggregations."drain.test"]
members = ["one.drain.test", "two.drain.test"]
ns = ["ns1.test"]

[aggregations."pin.test"]
members = ["one.pin.test"]
ns = ["ns1.test"]

[aggregations."part.test"]
members = ["held.test", "gone.test"]
ns = ["ns1.test", "ns.part.test"]

[aggregations."waiting.test"]
members = ["held.test", "absent.test"]
ns = ["ns1.test"]
partial_after = "1h"

[secondaries]
allow_transfer = ["127.0.0.0/8"]
notify = ["SECONDARY"]
catalog = "catalog.test"

[transfer]
refresh_min = "1d"
refresh_max = "1d"
retry_min = "1d"
retry_max = "1d"
confirm_after = "1d"
"#;

/// The daemon, what it talks to, and the words for what differs from run to run.
pub struct Scene {
    pub daemon: Aggregator,
    pub words: Words,
    primary: Primary,
    _other: Primary,
    _folder: Folder,
}

/// A version of a zone.
pub fn version(zone: &str, serial: u32, records: &str) -> Vec<crate::harness::Record> {
    read_zone(&format!(
        "$ORIGIN {zone}.\n$TTL 30\n@ IN SOA ns.{zone}. hostmaster.{zone}. {serial} 86400 86400 2592000 30\n\
         @ IN NS ns1.{zone}.\nns1 IN A 192.0.2.53\n{records}"
    ))
}

/// Returns the records of so many names.
fn hosts(count: u32) -> String {
    (1..=count).map(|number| format!("i{number}.inst IN A 192.0.2.{number}\n")).collect()
}

/// Acknowledges announcements, each with itself (RFC 1996 section 4.7).
pub fn acknowledge() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut message) {
            message[2] |= 0x80;
            _ = socket.send_to(&message[..length], from);
        }
    });
    address
}

impl Scene {
    pub fn new() -> Scene {
        let (primary, other, secondary) = (Primary::start(), Primary::start(), acknowledge());
        let web = "web.svc.acme IN A 192.0.2.1\nweb.svc.acme IN TXT \"1\"\n";
        for (zone, records) in [
            ("one.well.test", web),
            ("two.well.test", "web.svc.acme IN A 192.0.2.2\n*.wild IN A 192.0.2.9\nsub IN NS ns.elsewhere.\n"),
            (
                "one.clash.test",
                "clash IN CNAME web\nweb IN A 192.0.2.1\nprivate IN A 192.0.2.7\nmx IN MX 10 web.one.clash.test.\n",
            ),
            ("two.clash.test", "clash IN A 192.0.2.2\nweb 60 IN A 192.0.2.2\n"),
            ("one.drain.test", web),
            ("two.drain.test", "web.svc.acme IN A 192.0.2.2\n"),
            ("one.pin.test", web),
            ("held.test", &hosts(40)),
            ("gone.test", "old IN A 192.0.2.3\n"),
            ("2.0.192.in-addr.arpa", "1 IN PTR one.well.test.\n"),
        ] {
            primary.publish(version(zone, 10, records));
        }
        other.publish(version("2.0.192.in-addr.arpa", 20, "2 IN PTR two.well.test.\n"));
        let mut plan = PLAN.replace("PRIMARY", &primary.address().to_string());
        plan = plan.replace("OTHER", &other.address().to_string()).replace("SECONDARY", &secondary.to_string());
        let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan) };
        let folder = Folder::new();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let catalog = wait_until("the catalog is told", PATIENCE, || {
            let status: Value =
                serde_json::from_str(&daemon.verb(&["status", "catalog.test", "--json"]).stdout).ok()?;
            status["catalog"]["secondaries"][0]["acknowledged"].as_u64()
        });
        let words = Words::new(&[
            (&folder.path().display().to_string(), "HOME"),
            (&primary.address().to_string(), "PRIMARY"),
            (&other.address().to_string(), "OTHER"),
            (&secondary.to_string(), "SECONDARY"),
            (&daemon.address().to_string(), "SERVER"),
            (&daemon.metrics_address().to_string(), "METRICS"),
            // The time of its first version.
            (&catalog.to_string(), "CATALOG_SERIAL"),
        ]);
        let scene = Scene { daemon, words, primary, _other: other, _folder: folder };
        for region in ["well.test", "clash.test", "drain.test", "pin.test", "2.0.192.in-addr.arpa"] {
            scene.wait_for(region, |status| status["state"] == "ok");
        }
        scene.prepare();
        scene
    }

    /// Brings everything into its state, but for what operators order.
    fn prepare(&self) {
        self.wait_for("part.test", |status| status["state"] == "ok");
        self.primary.refuse("gone.test");
        self.wait_for("gone.test", |status| status["state"] == "expired" && status["source"]["failures"] == 1);
        for (zone, records) in [
            ("one.well.test", "web.svc.acme IN A 192.0.2.1\nnew IN A 192.0.2.4\n"),
            ("one.pin.test", "web.svc.acme IN A 192.0.2.5\n"),
        ] {
            self.primary.publish(version(zone, 11, records));
            self.text(&["refresh", zone]);
            self.wait_for(zone, |status| status["serial"] == 11);
        }
        self.wait_for("pin.test", |status| status["serial"] == 11);
        self.primary.publish(version("held.test", 11, &hosts(2)));
    }

    /// Waits until all secondaries have what is served, and nothing is under way.
    pub fn settle(&self) {
        wait_until("everything is told", PATIENCE, || {
            let report: Value = serde_json::from_str(&self.daemon.verb(&["status", "--json"]).stdout).ok()?;
            let kinds = ["zones", "regions"].into_iter().filter_map(|kind| report[kind].as_array());
            let mut all: Vec<&Value> = kinds.flatten().collect();
            all.push(&report["catalog"]);
            let is_told = |zone: &&&Value| {
                let secondaries = zone["secondaries"].as_array().into_iter().flatten();
                secondaries.into_iter().all(|target| target["acknowledged"] == zone["serial"])
            };
            (all.iter().filter(is_told).count() == all.len()).then_some(())
        });
    }

    /// Waits until something holds of the status of a zone, region or catalog.
    pub fn wait_for(&self, zone: &str, holds: impl Fn(&Value) -> bool) {
        wait_until(&format!("{zone} is as expected"), PATIENCE, || {
            let output = self.daemon.verb(&["status", zone, "--json"]);
            let report: Value = serde_json::from_str(&output.stdout).ok()?;
            let found = ["zones", "regions"].into_iter().find_map(|kind| report[kind].get(0));
            holds(found.unwrap_or(&report["catalog"])).then_some(())
        });
    }

    /// A verb that must succeed.
    pub fn text(&self, arguments: &[&str]) -> String {
        let output = self.daemon.verb(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs a verb, and returns its output and exit code in words.
    pub fn outcome(&self, arguments: &[&str]) -> String {
        let Output { code, stdout, stderr } = self.daemon.verb(arguments);
        let mut text = format!("==== aggregator {}\n", arguments.join(" "));
        let json = arguments.contains(&"--json");
        let printed = if json { self.words.json(&stdout) } else { self.words.text(&stdout) };
        text.push_str(&printed);
        for line in self.words.text(&stderr).lines() {
            text.push_str(&format!("stderr: {line}\n"));
        }
        if code != 0 {
            text.push_str(&format!("exit code {code}\n"));
        }
        text
    }
}
