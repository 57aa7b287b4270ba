//! Reverse zones as addresses come: a zone for each /24 and /64, which nobody has to write down.

use crate::harness::*;
use crate::site::*;
use serde_json::{Value, json};

const CATALOG: &str = "catalog.example.";
/// The reverse zones of the first instance, and of one that comes later.
const OF_IPV6: &str = "0.0.1.0.1.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
const LATER: &str = "113.0.203.in-addr.arpa.";

/// A plan with a catalog and automatic reverse zones; `more` stands in front.
fn plan(more: &str) -> String {
    format!(
        "{more}[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\ncatalog = \"{CATALOG}\"\n\
         [inventories.dc1]\nfile = \"inventory.json\"\nreverse = \"auto\"\n\
         [zones.\"{ZONE}\"]\ninventory = \"dc1\"\n"
    )
}

/// An instance with these addresses.
fn at(alias: &str, addresses: &[&str]) -> Value {
    json!({ "alias": alias, "owner": "acme", "addresses": addresses, "services": "web:8080" })
}

/// The zones that a catalog lists, sorted.
fn listed(daemon: &Aggregator) -> Vec<String> {
    let records = Client::new(daemon.address()).transfer(&Dname::parse(CATALOG)).expect("a catalog");
    let mut zones: Vec<String> = records
        .iter()
        .filter(|record| record.rtype == rtype::PTR)
        .filter_map(Record::target)
        .map(|zone| zone.to_string())
        .collect();
    zones.sort();
    zones
}

/// Waits until a name below a reverse zone points at an instance, or at nothing.
fn wait_pointer(resolver: &mut Resolver, name: &str, alias: Option<&str>) {
    let wanted = alias.map(|alias| Dname::parse(&format!("{alias}.inst.acme.{ZONE}")));
    let points = |resolver: &mut Resolver| {
        let answer = resolver.ask(name, rtype::PTR);
        let found = answer.answer.first().and_then(Record::target);
        // A refusal is no answer of the zone.
        (found == wanted && matches!(answer.rcode(), 0 | 3)).then_some(())
    };
    wait(&format!("{name} points at {alias:?}"), || points(resolver));
}

#[test]
fn reverse_zones_come_with_their_first_address_and_stay_until_a_reload() {
    let first = at("web1", &["198.51.100.1", "2001:db8:1:100::1"]);
    let mut site = Site::start_plan(&plan(""), std::slice::from_ref(&first));
    let mut resolver = site.resolver();
    wait_pointer(&mut resolver, "1.100.51.198.in-addr.arpa.", Some("web1"));
    let long = format!("1.{}{OF_IPV6}", "0.".repeat(15));
    wait_pointer(&mut resolver, &long, Some("web1"));
    assert_eq!(resolver.ask(&format!("1.{LATER}"), rtype::PTR).rcode(), 5, "nobody has an address there");
    let forward = resolver.serial();

    // A network of which nobody has told; the inventory's task goes on as it is.
    site.write(&[first.clone(), at("web2", &["203.0.113.2"])]);
    wait_pointer(&mut resolver, &format!("2.{LATER}"), Some("web2"));
    let source = site.wait_status("it is read", |source| source["readings"] == 2);
    assert_eq!(source["counts"]["vms"], 2);
    assert!(resolver.serial() > forward);
    assert_eq!(listed(&site.daemon), [OF_IPV6, REVERSE, LATER, ZONE], "secondaries take it up by the catalog");
    let copy = Client::new(site.daemon.address()).transfer(&Dname::parse(LATER)).expect("a transfer");
    assert!(copy.iter().any(|record| record.rtype == rtype::PTR), "{copy:?}");
    let told = site.daemon.verb(&["cns", "zones"]).stdout;
    assert!(told.contains(LATER.trim_end_matches('.')) && told.contains("(ip-reverse-lookup)"), "{told}");
    let log = site.daemon.log_text();
    assert!(log.contains("reverse zones follow the inventory") && log.contains(LATER), "{log}");

    // One that has emptied stays, with its apex.
    site.write(std::slice::from_ref(&first));
    wait_pointer(&mut resolver, &format!("2.{LATER}"), None);
    let serial = |resolver: &mut Resolver| resolver.ask(LATER, rtype::SOA).answer.first().map(Record::serial);
    let emptied = serial(&mut resolver);
    assert!(emptied.is_some());

    // Over a restart, too, though the inventory says nothing any more.
    std::fs::remove_file(site.file()).unwrap();
    site.daemon.kill_and_restart(|| {});
    let mut resolver = site.resolver();
    assert_eq!(serial(&mut resolver), emptied);
    wait_pointer(&mut resolver, "1.100.51.198.in-addr.arpa.", Some("web1"));

    // A reload lets go of it, and of nothing else.
    site.write(std::slice::from_ref(&first));
    site.wait_status("it is read", |source| source["reading"] == "current");
    let ahead = site.daemon.verb(&["reload", "--dry-run"]).stdout;
    assert!(ahead.contains(LATER), "{ahead}");
    let reloaded = site.daemon.verb(&["reload"]);
    assert!(reloaded.code == 0 && reloaded.stdout.contains(LATER), "{reloaded:?}");
    assert_eq!(resolver.ask(LATER, rtype::SOA).rcode(), 5);
    assert_eq!(listed(&site.daemon), [OF_IPV6, REVERSE, ZONE]);
    wait_pointer(&mut resolver, &long, Some("web1"));

    // What has gone can come again, with a newer serial.
    site.write(&[first, at("web2", &["203.0.113.2"])]);
    wait_pointer(&mut resolver, &format!("2.{LATER}"), Some("web2"));
    let newer = |emptied: u32| move |serial: u32| serial.wrapping_sub(emptied).cast_signed() > 0;
    assert!(serial(&mut resolver).is_some_and(newer(emptied.unwrap())));
}

#[test]
fn a_reverse_zone_that_the_file_has_is_not_made() {
    let mut closed = Port::reserve();
    closed.release();
    let more = format!("[zones.\"{REVERSE}\"]\nprimaries = [\"{}\"]\n", closed.address());
    let site = Site::start_plan(&plan(&more), &[at("web1", &["198.51.100.1", "2001:db8:1:100::1"])]);
    let mut resolver = site.resolver();
    wait_pointer(&mut resolver, &format!("1.{}{OF_IPV6}", "0.".repeat(15)), Some("web1"));
    assert_eq!(resolver.ask("1.100.51.198.in-addr.arpa.", rtype::PTR).rcode(), 2, "its primary is away");
    let log = site.daemon.log_text();
    assert!(log.contains("a reverse zone is not made") && log.contains(REVERSE), "{log}");
}

#[test]
fn a_thousand_reverse_zones_come_at_once() {
    let first = at("web", &["198.51.100.1"]);
    let site = Site::start_plan(&plan(""), std::slice::from_ref(&first));
    let mut resolver = site.resolver();
    wait_pointer(&mut resolver, "1.100.51.198.in-addr.arpa.", Some("web"));
    let many = (0..1000).map(|number| at(&format!("w{number}"), &[&format!("10.{}.{}.7", number / 250, number % 250)]));
    let many: Vec<Value> = std::iter::once(first).chain(many).collect();
    site.write(&many);
    wait_pointer(&mut resolver, "7.249.3.10.in-addr.arpa.", Some("w999"));
    wait_pointer(&mut resolver, "7.0.0.10.in-addr.arpa.", Some("w0"));
    assert_eq!(listed(&site.daemon).len(), 1002);
}
