//! What secondaries have of a zone that is made here: a builder without state goes on above it, and one that is not alone
//! is told so.

use crate::harness::*;
use crate::site::*;

/// Years ahead of CNS' serials.
const FAR: u32 = 900_000_000;

/// A server that has versions of both zones from elsewhere.
fn start_secondary(folder: &Folder, serial: u32) -> Peer {
    let zone = |origin: &str| {
        let text = format!(
            "$ORIGIN {origin}\n@ 3600 IN SOA ns1.test. hostmaster {serial} 86400 86400 2592000 30\n@ 3600 IN NS ns1.test.\n"
        );
        (Dname::parse(origin), text)
    };
    Nsd::start(folder, &[zone(ZONE), zone(REVERSE)])
}

#[test]
fn a_builder_without_state_begins_above_what_its_secondaries_have() {
    let folder = Folder::new();
    let secondary = start_secondary(&folder, FAR);
    let mut free = Port::reserve();
    free.release();
    // One of them is away; one answer is enough.
    let site = Site::start_beside(folder, &[vm("web1", "acme", 1)], "", &[free.address(), secondary.address()]);
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    assert_eq!(resolver.serial(), Some(FAR + 1));
    site.write(&[vm("web1", "acme", 1), vm("web2", "acme", 2)]);
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    assert_eq!(resolver.serial(), Some(FAR + 2));
}

#[test]
fn without_any_answer_a_builder_without_state_waits_for_an_operator() {
    let mut free = Port::reserve();
    free.release();
    let site = Site::start_beside(Folder::new(), &[vm("web1", "acme", 1)], "", &[free.address()]);
    let mut resolver = site.resolver();
    let status = site.wait_status("it waits", |source| source["reading"] == "failing");
    assert!(status["error"].as_str().unwrap().contains("no secondary says which serial it has"), "{status}");
    assert!(site.metric("inventory_failed_readings_total", &[("reason", "serial")]) >= Some(1.0));
    assert_eq!(resolver.serial(), None);
    let accepted = site.daemon.verb(&["retransfer", ZONE, "--accept"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    resolver.wait_addresses("web.svc.acme", &[1]);
}

#[test]
fn a_second_builder_is_told_of() {
    let folder = Folder::new();
    let secondary = start_secondary(&folder, FAR);
    let site = Site::start_beside(folder, &[vm("web1", "acme", 1)], "", &[]);
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    assert_eq!(site.metric("inventory_second_builder", &[]), Some(0.0));
    site.notify(&[secondary.address()]);
    let status = site.wait_status("it is told", |source| !source["second_builder"].is_null());
    let told = status["second_builder"].as_str().unwrap();
    assert!(told.contains(&format!("{} has serial {FAR} of ", secondary.address())), "{told}");
    assert_eq!(site.metric("inventory_second_builder", &[]), Some(1.0));
    // Which software it is, it says itself.
    let peers: serde_json::Value = serde_json::from_str(&site.daemon.verb(&["cns", "peers", "--json"]).stdout).unwrap();
    assert!(peers[0]["version"].as_str().is_some_and(|version| version.starts_with("NSD ")), "{peers}");
    let problems = site.daemon.verb(&["status", ZONE]).stdout;
    assert!(problems.contains("another builder: "), "{problems}");
    // Ours go on as they were.
    assert!(resolver.serial().is_some_and(|serial| serial < FAR));
}

/// Neither a reload nor another reading lets a builder forget that nobody has told it what there is.
#[test]
fn a_reload_does_not_end_the_wait() {
    let folder = Folder::new();
    let secondary = start_secondary(&folder, FAR);
    let mut free = [Port::reserve(), Port::reserve()];
    for port in &mut free {
        port.release();
    }
    let site = Site::start_beside(folder, &[vm("web1", "acme", 1)], "", &[free[0].address()]);
    let mut resolver = site.resolver();
    let is_waiting =
        |source: &serde_json::Value| source["error"].as_str().is_some_and(|text| text.contains("no secondary says"));
    site.wait_status("it waits", is_waiting);
    site.notify(&[free[1].address()]);
    site.write(&[vm("web1", "acme", 1), vm("web2", "acme", 2)]);
    site.refresh();
    site.wait_status("it waits again", is_waiting);
    assert_eq!(resolver.serial(), None);
    site.notify(&[secondary.address()]);
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    assert_eq!(resolver.serial(), Some(FAR + 1));
}

/// A zone that waits for what its secondaries have keeps no other from following the inventory.
#[test]
fn a_new_zone_waits_alone() {
    let folder = Folder::new();
    let secondary = start_secondary(&folder, FAR);
    let mut free = Port::reserve();
    free.release();
    let site = Site::start_beside(folder, &[vm("web1", "acme", 1)], "", &[secondary.address()]);
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    let serial = resolver.serial().unwrap();
    let more = "198.51.100.0/24\", \"2001:db8:1:100::/64";
    site.reverse(more, &[free.address()]);
    site.write(&[vm("web1", "acme", 1), vm("web2", "acme", 2)]);
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    assert!(resolver.serial().unwrap() > serial);
    let reverse = "0.0.1.0.1.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
    assert_eq!(resolver.ask(reverse, rtype::SOA).rcode(), 2, "it is not there yet");
    assert_eq!(site.daemon.verb(&["retransfer", ZONE, "--accept"]).code, 0);
    wait("it is made", || (resolver.ask(reverse, rtype::SOA).rcode() == 0).then_some(()));
}

/// What is served here is held against what another server has.
#[test]
fn a_zone_is_compared_with_that_of_another_server() {
    let site = Site::start(&[vm("web1", "acme", 1)], "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1]);
    let peer = start_secondary(&site.folder, 7);
    let address = peer.address().to_string();
    let differing = site.daemon.verb(&["diff", ZONE, "--with", &address]);
    let is_told = |line: &&str| line.starts_with("+web.svc.acme.") && line.contains(" IN A 198.51.100.1");
    assert_eq!((differing.code, differing.stdout.lines().filter(is_told).count()), (0, 1), "{differing:?}");
    let own = site.daemon.address().to_string();
    let equal = site.daemon.verb(&["diff", ZONE, "--with", &own, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&equal.stdout).expect("JSON");
    assert_eq!((equal.code, &told["equal"]), (0, &true.into()), "{told}");
}
