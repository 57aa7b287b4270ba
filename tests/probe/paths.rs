//! Ways from the parent to the zone: through a zone between them, by glue, over TCP, or none; and servers that are ahead.

use crate::harness::*;
use crate::{PATIENCE, found, owned};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The parent's zone, which leaves the zone below it to others.
const PARENT: &str = "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns0 h 1 1 1 1000 1\n@ IN NS ns0\nns0 IN A 127.0.0.1\n\
    ns1 IN A 127.0.0.1\nmid IN NS ns.mid\nns.mid IN A 127.0.0.1\n";
/// Between the parent and the region; of the region's names one has another address here, and the delegation is secure,
/// though the region is not signed.
const MIDDLE: &str = "$ORIGIN mid.example.test.\n$TTL 60\n@ IN SOA ns h 1 1 1 1000 1\n@ IN NS ns\nns IN A 127.0.0.1\n\
    region IN NS a.region\nregion IN NS b.region\nregion IN NS c.region\na.region IN A 127.0.0.1\nb.region IN A 127.0.0.1\n\
    c.region IN A 127.0.0.1\nregion IN DS 12345 13 2 2BB183AF5F22588179A53B0A98631FAD1A292118DBF2B0D0A2B1A4E3D8A5C7E1\n";
const REGION: &str = "region.mid.example.test";
/// One name has no address, and one another than the delegation says.
const CHILD: &str = "$ORIGIN region.mid.example.test.\n$TTL 60\n@ IN SOA a h 7 30 60 10000 30\n@ IN NS a\n@ IN NS b\n@ IN NS c\n\
    a IN A 127.0.0.1\nc IN A 127.0.0.9\n";
const LOST: &str = "lost.example.test";

/// Looks at zones once.
fn look(folder: &Folder, plan: &str) -> Value {
    let path = folder.path().join("live.toml");
    write_file(&path, plan);
    let output = run_verb(&["check", "--live", "--json"], &path);
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(report["ok"] == true, output.code == 0, "{output:?}");
    report["zones"].clone()
}

/// Every word about a zone's name servers.
fn texts(zones: &Value, zone: &str) -> String {
    let all = zones.as_array().expect("zones").iter();
    all.filter(|check| check["zone"] == format!("{zone}.")).map(Value::to_string).collect()
}

#[test]
fn a_zone_is_found_through_another_and_by_glue_alone() {
    let folder = Folder::new();
    let zone = |name: &str, text: &str| (Dname::parse(name), text.to_string());
    let parent = Named::start(&folder, &[zone("example.test", PARENT)]);
    let middle = Nsd::start(&folder, &[zone("mid.example.test", MIDDLE)]);
    let lost =
        format!("$ORIGIN {LOST}.\n$TTL 60\n@ IN SOA ns1.example.test. h 1 30 60 10000 30\n@ IN NS ns1.example.test.\n");
    let child = Knotd::start(&folder, &[zone(REGION, CHILD), zone(LOST, &lost)]);
    let (child, port) = (child.address(), child.address().port());
    let zones = look(
        &folder,
        &format!(
            "[zones]\n\"{REGION}\" = \"{child}\"\n\"{LOST}\" = \"{child}\"\n[probe]\nresolver = \"{0}\"\ntimeout = \"1s\"\n\
             port = {port}\nparents = {{ \"example.test\" = \"{0}\" }}\nhosts = {{ \"ns.mid.example.test\" = \"{1}\" }}\n",
            parent.address(),
            middle.address(),
        ),
    );
    let at = |host: &str, ip: &str| format!("{host}.{REGION}. {ip}:{port}");
    let faults = [
        (format!("b.{REGION}."), "unresolved"),
        (format!("c.{REGION}."), "other-glue"),
        (at("c", "127.0.0.9"), "unreachable"),
        (format!("parent {}", parent.address()), "ds"),
    ];
    assert_eq!(found(&zones, REGION), Some(owned(faults.into())), "{zones:#}");
    assert!(
        texts(&zones, REGION).contains("it has no address in the zone, only 127.0.0.1 in the delegation"),
        "{zones:#}"
    );
    // The resolver knows its name server, which answers, and the parent does not know the zone.
    let faults = [(format!("parent {}", parent.address()), "undelegated")];
    assert_eq!(found(&zones, LOST), Some(owned(faults.into())), "{zones:#}");
    let serials = |zones: &Value| texts(zones, LOST).matches("\"serial\":1").count();
    assert_eq!(serials(&zones), 1, "{zones:#}");
}

#[test]
fn what_has_no_room_in_a_datagram_is_asked_for_over_tcp() {
    let origin = "many.example.test";
    // Their names fit, but not with all addresses; the other zone's names do not fit either.
    let few: Vec<String> = (0..24).map(|number| format!("n{number}")).collect();
    let long: Vec<String> = (0..24).map(|number| format!("server-with-a-name-of-many-letters-{number}")).collect();
    let servers: [fn(&Folder, &[ZoneText]) -> Peer; 3] = [Named::start, Nsd::start, Knotd::start];
    for start in servers {
        for names in [&few, &long] {
            let folder = Folder::new();
            let ns: String =
                names.iter().map(|name| format!("many IN NS {name}.many\n{name}.many IN A 127.0.0.1\n")).collect();
            let parent = format!(
                "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns0 h 1 1 1 1000 1\n@ IN NS ns0\nns0 IN A 127.0.0.1\n{ns}"
            );
            let ns: String = names.iter().map(|name| format!("@ IN NS {name}\n{name} IN A 127.0.0.1\n")).collect();
            let zone = format!("$ORIGIN {origin}.\n$TTL 60\n@ IN SOA n0 h 1 30 60 10000 30\n{ns}");
            let parent = start(&folder, &[(Dname::parse("example.test"), parent)]);
            let child = start(&folder, &[(Dname::parse(origin), zone)]);
            // Without this, the test would show nothing.
            let answer =
                Client::new(parent.address()).ask(&Query::new(&Dname::parse(origin), rtype::NS)).expect("an answer");
            assert!(answer.is_truncated() || answer.additional.len() < names.len(), "{answer:?}");
            let (parent, child) = (parent.address(), child.address());
            let plan = format!(
                "[zones]\n\"{origin}\" = \"{child}\"\n[probe]\nport = {}\nparents = {{ \"example.test\" = \"{parent}\" }}\n",
                child.port(),
            );
            let zones = look(&folder, &plan);
            assert_eq!(found(&zones, origin), Some(BTreeSet::new()), "{zones:#}");
            assert_eq!(texts(&zones, origin).matches("\"serial\":1").count(), names.len(), "{zones:#}");
        }
    }
}

/// A zone whose second server is not ours.
fn two_servers(serial: u32) -> String {
    format!(
        "$ORIGIN dc.example.test.\n$TTL 60\n@ IN SOA ns1.example.test. h {serial} 1 1 10000 1\n@ IN NS ns1.example.test.\n\
         @ IN NS ns2.example.test.\n"
    )
}

#[test]
fn a_server_that_stays_ahead_is_told_until_we_have_caught_up() {
    let folder = Folder::new();
    let zone = Dname::parse("dc.example.test");
    let text = "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns0 h 1 1 1 1000 1\n@ IN NS ns0\nns0 IN A 127.0.0.1\n\
        dc IN NS ns1\ndc IN NS ns2\n";
    let parent = Named::start(&folder, &[(Dname::parse("example.test"), text.to_string())]);
    let primary = Knotd::start(&folder, &[(zone.clone(), two_servers(100))]);
    let other = Nsd::start(&folder, &[(zone.clone(), two_servers(100))]);
    let plan = |daemon: SocketAddr, every: &str, more: &str| {
        format!(
            "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\n[zones]\n\"{zone}\" = \"{}\"\n{more}[probe]\nevery = \"{every}\"\n\
             stale_after = \"1s\"\nparents = {{ \"example.test\" = \"{}\" }}\n\
             hosts = {{ \"ns1.example.test\" = \"{daemon}\", \"ns2.example.test\" = \"{}\" }}\n",
            primary.address(),
            parent.address(),
            other.address(),
        )
    };
    let daemon = Aggregator::start(&folder, &plan(primary.address(), "off", ""));
    let look = || {
        let report: Value = serde_json::from_str(&daemon.verb(&["status", "--json"]).stdout).expect("a report");
        found(&report["name_servers"], "dc.example.test")
    };
    daemon.write_plan(&plan(daemon.address(), "1s", ""));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    wait_until("all is well", PATIENCE, || (look()? == BTreeSet::new()).then_some(()));
    other.replace_zone(&zone, &read_zone(&two_servers(200)));
    let ahead = owned([(format!("ns2.example.test. {}", other.address()), "ahead")].into());
    wait_until("it is ahead", PATIENCE, || (look()? == ahead).then_some(()));
    let details = daemon.verb(&["status", "dc.example.test"]).stdout;
    assert!(details.contains("it has had serial 200 for a while, here is 100"), "{details}");
    // A reload that has nothing to do with it forgets nothing, nor one after which nobody is asked for an hour.
    let more = "\"more.example.test\" = \"127.0.0.1:9\"\n";
    daemon.write_plan(&plan(daemon.address(), "1h", more));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(look(), Some(ahead.clone()));
    let series = "aggregator_nameserver_problems{problem=\"ahead\"";
    assert!(daemon.metrics().contains(series), "{}", daemon.metrics());
    daemon.write_plan(&plan(daemon.address(), "1s", ""));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(look(), Some(ahead));
    primary.replace_zone(&zone, &read_zone(&two_servers(200)));
    wait_until("we have caught up", PATIENCE, || (look()? == BTreeSet::new()).then_some(()));
    assert!(!daemon.metrics().contains(series), "{}", daemon.metrics());
}
