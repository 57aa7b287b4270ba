//! Zones out of a tree of ZooKeeper's: what is registered is served, and changes are seen at once.

mod harness;
#[path = "zookeeper/site.rs"]
mod site;

use harness::*;
use site::*;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// A running ZooKeeper with a client.
fn start_site(folder: &Folder) -> (ZooKeeper, Znodes) {
    let server = ZooKeeper::start(folder);
    let nodes = Znodes::connect(&[server.address()]);
    (server, nodes)
}

#[test]
fn what_is_registered_is_served_and_changes_are_seen() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 3);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], ""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    assert_eq!(resolver.addresses("web"), [address(0), address(1), address(2)]);
    assert_eq!(resolver.addresses("h1.web"), [address(1)]);
    assert_eq!(resolver.ask(&format!("_http._tcp.web.{ZONE}"), rtype::SRV).answer.len(), 3);
    let pointer = resolver.ask("1.0.0.10.in-addr.arpa.", rtype::PTR).answer[0].target();
    assert_eq!(pointer, Some(Dname::parse(&format!("h1.web.{ZONE}"))));
    assert_eq!(resolver.serial(ZONE), resolver.serial(REVERSE));

    // New, other and no payload; gone; gone and back.
    nodes.create(&format!("{ROOT}/web/h9"), &host(address(9)));
    resolver.wait_address("h9.web", address(9));
    nodes.set(&format!("{ROOT}/web/h9"), &host(address(99)));
    resolver.wait_address("h9.web", address(99));
    assert_eq!(resolver.ask("9.0.0.10.in-addr.arpa.", rtype::PTR).rcode(), 3);
    nodes.set(&format!("{ROOT}/web/h9"), b"{ broken");
    let broken = wait("the broken payload is told", || {
        let status = status(&daemon);
        (status["source"]["broken"] == 1).then_some(status)
    });
    assert_eq!(broken["source"]["broken_payloads"][0]["node"], format!("{ROOT}/web/h9"));
    assert_eq!(resolver.addresses("h9.web"), [address(99)], "the good value stays");
    nodes.delete(&format!("{ROOT}/web/h9"));
    resolver.wait_gone("h9.web");
    nodes.delete_tree(&format!("{ROOT}/web"));
    resolver.wait_gone("web");
    make_service(&nodes, ROOT, 2);
    wait("the service is back", || (resolver.addresses("web").len() == 2).then_some(()));
    // A directory and what is below it, made from the bottom of nothing.
    nodes.create(&format!("{ROOT}/a/b/c"), &host(address(7)));
    resolver.wait_address("c.b.a", address(7));

    let status = status(&daemon);
    let source = &status["source"];
    assert_eq!((&source["session"], &source["watches"]), (&"live".into(), &"recursive".into()));
    assert_eq!((&source["nodes"], &source["broken"]), (&7.into(), &0.into()), "{source}");
    assert_eq!((&source["path"], &source["member"]), (&ROOT.into(), &server.address().to_string().into()));
    let text = daemon.verb(&["status", ZONE]).stdout;
    for part in ["ZooKeeper: live", "7 nodes", "watches recursive", "reverse zone 10.in-addr.arpa."] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let reverse = daemon.verb(&["status", REVERSE]).stdout;
    assert!(reverse.contains(&format!("made of the tree of {ZONE}")), "{reverse}");
    for (series, value) in [
        (format!("zookeeper_session{{state=\"live\",zone=\"{ZONE}\"}}"), 1.0),
        (format!("zookeeper_session{{state=\"disconnected\",zone=\"{ZONE}\"}}"), 0.0),
        (format!("zookeeper_nodes{{zone=\"{ZONE}\"}}"), 7.0),
        (format!("zookeeper_broken_payloads{{zone=\"{ZONE}\"}}"), 0.0),
    ] {
        assert_eq!(metric(&daemon, &series), Some(value), "{series}");
    }
    assert_eq!(metric(&daemon, &format!("transfer_held{{zone=\"{ZONE}\"}}")), None, "there is no fault");
    assert!(metric(&daemon, &format!("zookeeper_events_total{{zone=\"{ZONE}\"}}")) > Some(5.0));
    let refreshed = daemon.verb(&["refresh", ZONE]);
    assert!(refreshed.code == 0 && refreshed.stdout.contains("7 nodes"), "{refreshed:?}");
    assert!(daemon.verb(&["retransfer", REVERSE]).stdout.contains("7 nodes"), "by the reverse zone, too");
    assert_eq!(
        metric(&daemon, &format!("zookeeper_session_losses_total{{reason=\"expired\",zone=\"{ZONE}\"}}")),
        Some(0.0)
    );
}

#[test]
fn nodes_with_watches_of_their_own_tell_the_same() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 3);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], "watches = \"each\""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    for round in 1..4 {
        nodes.set(&format!("{ROOT}/web/h0"), &host(address(100 + round)));
        resolver.wait_address("h0.web", address(100 + round));
        nodes.create(&format!("{ROOT}/x{round}/y/z"), &host(address(200 + round)));
        resolver.wait_address(&format!("z.y.x{round}"), address(200 + round));
        nodes.delete(&format!("{ROOT}/x{round}/y/z"));
        resolver.wait_gone(&format!("z.y.x{round}"));
        nodes.create(&format!("{ROOT}/x{round}/y/z"), &host(address(300 + round)));
        resolver.wait_address(&format!("z.y.x{round}"), address(300 + round));
        nodes.delete_tree(&format!("{ROOT}/x{round}"));
        resolver.wait_gone(&format!("x{round}"));
    }
    assert_eq!(status(&daemon)["source"]["watches"], "each");
    let refreshed = daemon.verb(&["refresh", ZONE]);
    assert!(refreshed.code == 0 && refreshed.stdout.contains("5 nodes"), "{refreshed:?}");
    nodes.delete_tree(&format!("{ROOT}/web"));
    resolver.wait_gone("web");
    nodes.delete(ROOT);
    make_service(&nodes, ROOT, 1);
    resolver.wait_address("h0.web", address(0));
}

#[test]
fn a_huge_tree_is_read_in_seconds_and_changes_cost_the_same() {
    const MACHINES: u32 = 100_000;
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    // A hundred services, so that an SRV answer stays within what a message holds.
    for group in 0..100 {
        nodes.create(&format!("{ROOT}/s{group}"), &service());
    }
    let made: Vec<(String, Vec<u8>)> =
        (0..MACHINES).map(|number| (format!("{ROOT}/s{}/h{number}", number % 100), host(address(number)))).collect();
    nodes.create_all(made.iter().map(|(path, data)| (&path[..], &data[..])));
    let started = Instant::now();
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], ""));
    let mut resolver = Resolver::new(&daemon);
    wait_until("the tree is read", Duration::from_secs(120), || resolver.serial(ZONE));
    let took = started.elapsed();
    assert_eq!(resolver.addresses("h77777.s77"), [address(77_777)]);
    assert_eq!(status(&daemon)["source"]["nodes"], 100_101);
    assert!(took < Duration::from_secs(60), "{took:?} on a machine that has time for nothing else");
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        let started = Instant::now();
        nodes.set(&format!("{ROOT}/s5/h5"), &host(address(500_000 + round)));
        resolver.wait_address("h5.s5", address(500_000 + round));
        slowest = slowest.max(started.elapsed());
    }
    assert!(slowest < took.max(Duration::from_secs(2)), "a change costs as much as the whole tree: {slowest:?}");
}

#[test]
fn a_storm_of_changes_is_few_updates_and_ends_right() {
    const MACHINES: u32 = 2_000;
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 1);
    let settings = Settings::new(&plan(&[server.address()], ""));
    let first = Aggregator::start_with(&folder.subfolder("first"), &settings);
    let second = Aggregator::start_with(&folder.subfolder("second"), &settings);
    let (mut resolver, mut other) = (Resolver::new(&first), Resolver::new(&second));
    resolver.wait_served();
    other.wait_served();
    let before = metric(&first, "publishes_total").unwrap();
    for round in 0..5 {
        let made: Vec<(String, Vec<u8>)> = (0..MACHINES)
            .map(|number| (format!("{ROOT}/storm{round}-{number}"), host(address(1000 + number))))
            .collect();
        nodes.create_all(made.iter().map(|(path, data)| (&path[..], &data[..])));
        if round > 0 {
            (0..200).for_each(|number| nodes.delete(&format!("{ROOT}/storm{}-{number}", round - 1)));
        }
    }
    nodes.create(&format!("{ROOT}/last"), &host(address(1)));
    resolver.wait_address("last", address(1));
    other.wait_address("last", address(1));
    let published = metric(&first, "publishes_total").unwrap() - before;
    assert!(published < 1_000.0, "{published} publications of 10801 changes");
    assert_eq!(status(&first)["source"]["nodes"], 2 + 1 + 5 * 2_000 - 4 * 200 + 1);
    // At rest replicas agree, serial and all.
    wait("both have the same serial", || (resolver.serial(ZONE)? == other.serial(ZONE)?).then_some(()));
    assert_eq!(resolver.serial(REVERSE), other.serial(REVERSE));
    let without_soa = |daemon: &Aggregator| {
        let mut records = daemon.dump(&Dname::parse(ZONE)).unwrap();
        records.retain(|record| record.rtype != rtype::SOA);
        records
    };
    assert_eq!(difference(&without_soa(&first), &without_soa(&second)), None);
    // One that reads the tree anew has the serial of those who have followed it.
    let third = Aggregator::start_with(&folder.subfolder("third"), &settings);
    let mut newcomer = Resolver::new(&third);
    newcomer.wait_served();
    assert_eq!(newcomer.serial(ZONE), resolver.serial(ZONE));
}

#[test]
fn a_chroot_and_another_domain_name_the_tree() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, "/sdc/net/inner/dc", 2);
    make_service(&nodes, ROOT, 3);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], "chroot = \"/sdc\"\ndomain = \"dc.inner.net\""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    assert_eq!(resolver.addresses("web").len(), 2);
    nodes.set("/sdc/net/inner/dc/web/h0", &host(address(50)));
    resolver.wait_address("h0.web", address(50));
    assert_eq!(status(&daemon)["source"]["path"], "/sdc/net/inner/dc");
}

#[test]
fn a_user_and_password_open_the_tree() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 2);
    nodes.create_for("reader:secret", &format!("{ROOT}/closed"), &host(address(40)));
    let home = folder.subfolder("aggregator");
    let write_digest = |text: &str| {
        write_file(&home.join("digest"), text);
        std::fs::set_permissions(home.join("digest"), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write_digest("reader:wrong\n");
    let daemon = Aggregator::start_in(&home, &plan(&[server.address()], "digest = \"digest\""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    let source = status(&daemon)["source"].clone();
    assert_eq!(source["closed"], 1, "{source}");
    assert!(resolver.addresses("closed").is_empty());
    write_digest("reader:secret\n");
    let reloaded = daemon.verb(&["reload"]);
    assert!(reloaded.stdout.contains(ZONE), "{reloaded:?}");
    resolver.wait_address("closed", address(40));
    assert_eq!(resolver.addresses("web").len(), 2);
    assert_eq!(status(&daemon)["source"]["closed"], 0);
    assert!(!daemon.verb(&["check", "--json"]).stdout.contains("secret\""), "no plan shows it");
}

#[test]
fn unknown_names_are_refused_as_binder_does() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 1);
    let settings = plan(&[server.address()], "binder_compat = true").replace("reverse = [\"10.0.0.0/8\"]\n", "");
    let daemon = Aggregator::start(&folder, &settings);
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    assert_eq!(resolver.addresses("h0.web"), [address(0)]);
    for name in [&format!("nothing.{ZONE}")[..], "1.1.1.1.in-addr.arpa.", "1.ip6.arpa."] {
        assert_eq!(resolver.ask(name, rtype::A).rcode(), 5, "{name}");
    }
    assert_eq!(resolver.ask("0.0.0.10.in-addr.arpa.", rtype::PTR).answer.len(), 1);
}

#[test]
fn zones_of_trees_are_merged_transferred_and_listed_like_any_other() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, &format!("/one{ROOT}"), 2);
    nodes.create("/two/com/example/emy-11/web", &service());
    nodes.create("/two/com/example/emy-11/web/h7", &host(address(7)));
    let address_of_server = server.address();
    let daemon = Aggregator::start(
        &folder,
        &format!(
            "{}[zones.\"emy-11.example.com\"]\nzookeeper = \"{address_of_server}\"\nchroot = \"/two\"\n\
             [aggregations.\"us.example.com\"]\nmembers = [\"emy-10.example.com\", \"emy-11.example.com\"]\n\
             ns = [\"ns1.test\"]\nrdata_names = \"rewrite\"\n\
             [secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\ncatalog = \"catalog.test\"\n",
            plan(&[address_of_server], "chroot = \"/one\"")
        ),
    );
    let mut resolver = Resolver::new(&daemon);
    let members = |resolver: &mut Resolver| resolver.ask("web.us.example.com.", rtype::A).answer.len();
    wait("the region has the machines of both", || (members(&mut resolver) == 3).then_some(()));
    let services = resolver.ask("_http._tcp.web.us.example.com.", rtype::SRV).answer;
    let targets: Vec<String> = services.iter().filter_map(|record| Some(record.target()?.to_string())).collect();
    assert!(targets.len() == 3 && targets.iter().all(|target| target.ends_with("web.us.example.com.")), "{targets:?}");
    nodes.create("/two/com/example/emy-11/web/h8", &host(address(8)));
    wait("a change is in the region", || (members(&mut resolver) == 4).then_some(()));

    let mut secondary = Client::new(daemon.address());
    for zone in [ZONE, REVERSE, "emy-11.example.com.", "us.example.com."] {
        let records = secondary.transfer(&Dname::parse(zone)).expect("a transfer");
        assert!(records.len() >= 4, "{zone}: {records:?}");
    }
    let listed = secondary.transfer(&Dname::parse("catalog.test.")).expect("a transfer");
    let listed: Vec<String> = listed.iter().filter_map(|record| Some(record.target()?.to_string())).collect();
    for zone in [ZONE, REVERSE, "emy-11.example.com.", "us.example.com."] {
        assert!(listed.iter().any(|target| target == zone), "{zone} in {listed:?}");
    }
    let told = daemon.verb(&["lookup", "h7.web.emy-11.example.com", "A"]).stdout;
    assert!(told.contains("/two/com/example/emy-11/web/h7: ") && told.contains("load_balancer"), "{told}");
    let told = daemon.verb(&["lookup", "web.us.example.com", "A"]).stdout;
    assert!(told.contains("/one/com/example/emy-10/web/h1: ") && told.contains("/two/"), "{told}");
}

#[test]
fn a_zone_changes_from_primaries_to_a_tree_and_back() {
    let folder = Folder::new();
    let (server, nodes) = start_site(&folder);
    make_service(&nodes, ROOT, 2);
    let zone = ZONE.trim_end_matches('.');
    let from_nobody = format!("[zones]\n\"{zone}\" = \"127.0.0.1:9\"\n");
    let daemon = Aggregator::start(&folder, &from_nobody);
    let mut resolver = Resolver::new(&daemon);
    assert_eq!(resolver.ask(ZONE, rtype::SOA).rcode(), 2);
    daemon.write_plan(&plan(&[server.address()], ""));
    let reloaded = daemon.verb(&["reload"]);
    assert!(reloaded.code == 0 && reloaded.stdout.contains("added 10.in-addr.arpa."), "{reloaded:?}");
    assert!(reloaded.stdout.contains(&format!("transfers changed {ZONE}")), "{reloaded:?}");
    resolver.wait_served();
    let serial = resolver.serial(ZONE);
    // The same again changes nothing: the session goes on.
    let since = status(&daemon)["source"]["since"].clone();
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(status(&daemon)["source"]["since"], since);
    daemon.write_plan(&from_nobody);
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert!(resolver.serial(ZONE) == serial, "the data stays until its primary says otherwise");
    assert_eq!(resolver.ask("0.0.0.10.in-addr.arpa.", rtype::PTR).rcode(), 5);
    assert!(status(&daemon)["source"]["primaries"].is_array());
    assert!(!daemon.metrics().contains("aggregator_zookeeper_session{"), "no series stays behind");
    daemon.write_plan(&plan(&[server.address()], ""));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    wait_session(&daemon, "live");
    nodes.set(&format!("{ROOT}/web/h0"), &host(address(70)));
    resolver.wait_address("h0.web", address(70));
}
