//! ZooKeeper that is away, comes back, forgets, or loses members: what is served then, and that nothing is removed wrongly.

mod harness;
#[path = "zookeeper/site.rs"]
mod site;

use harness::*;
use site::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Settings that keep zones on disk.
fn lasting(plan: &str) -> Settings {
    Settings { state: Some("state".to_owned()), ..Settings::new(plan) }
}

/// Asks a daemon all the time; every answer must be right.
struct Watch {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    /// Begins to ask for an address that must be there all the time.
    fn start(daemon: &Aggregator, name: &'static str) -> Watch {
        let (end, mut resolver) = (Arc::new(AtomicBool::new(false)), Resolver::new(daemon));
        let expected = resolver.addresses(name);
        assert!(!expected.is_empty());
        let stop = end.clone();
        let thread = std::thread::spawn(move || {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(resolver.addresses(name), expected, "{name} after {asked} questions");
                asked += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            asked
        });
        Watch { end, thread: Some(thread) }
    }

    /// Ends, and makes sure that there were questions.
    fn finish(mut self) {
        self.end.store(true, Ordering::Relaxed);
        let asked = self.thread.take().expect("finished once").join().expect("no wrong answer");
        assert!(asked > 10, "{asked} questions");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// The losses of a reason.
fn losses(daemon: &Aggregator, reason: &str) -> f64 {
    let series = format!("zookeeper_session_losses_total{{reason=\"{reason}\",zone=\"{ZONE}\"}}");
    metric(daemon, &series).unwrap_or_else(|| panic!("{series} is missing"))
}

#[test]
fn a_server_that_is_away_at_the_start_is_found_when_it_comes() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 3);
    server.kill();
    let settings = lasting(&plan(&[server.address()], ""));
    let mut daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let mut resolver = Resolver::new(&daemon);
    assert_eq!(resolver.ask(&format!("web.{ZONE}"), rtype::A).rcode(), 2, "SERVFAIL, not NXDOMAIN");
    let failed = wait("the failure is told", || {
        let status = status(&daemon);
        (status["source"]["failures"].as_u64() > Some(0)).then_some(status)
    });
    assert_eq!((&failed["state"], &failed["source"]["session"]), (&"not-ready".into(), &"disconnected".into()));
    let refused = daemon.verb(&["refresh", ZONE]);
    assert!(refused.code == 1 && refused.stderr.contains("cannot be reached"), "{refused:?}");
    server.restart();
    resolver.wait_served();
    assert_eq!(resolver.addresses("web").len(), 3);
    wait_session(&daemon, "live");
    let (serial, contents) = (resolver.serial(ZONE), daemon.dump(&Dname::parse(ZONE)));

    // From now on a restart has the zone before there is any ZooKeeper.
    server.kill();
    daemon.kill_and_restart(|| {});
    let mut resolver = Resolver::new(&daemon);
    assert_eq!(resolver.addresses("web").len(), 3);
    assert_eq!((resolver.serial(ZONE), resolver.serial(REVERSE)), (serial, serial));
    assert_eq!(resolver.ask("1.0.0.10.in-addr.arpa.", rtype::PTR).answer.len(), 1);
    let overview = daemon.verb(&["status"]).stdout;
    assert!(overview.contains("ZooKeeper: disconnected"), "{overview}");
    let watch = Watch::start(&daemon, "web");
    server.restart();
    wait_session(&daemon, "live");
    watch.finish();
    assert_eq!((resolver.serial(ZONE), daemon.dump(&Dname::parse(ZONE))), (serial, contents), "nothing has changed");
    nodes.create(&format!("{ROOT}/web/new"), &host(address(70)));
    resolver.wait_address("new.web", address(70));
}

#[test]
fn the_last_tree_is_served_while_zookeeper_is_away() {
    for watches in ["auto", "each"] {
        let folder = Folder::new();
        let mut server = ZooKeeper::start(&folder);
        let nodes = Znodes::connect(&[server.address()]);
        make_service(&nodes, ROOT, 40);
        let daemon = Aggregator::start(&folder, &plan(&[server.address()], &format!("watches = \"{watches}\"")));
        let mut resolver = Resolver::new(&daemon);
        resolver.wait_served();
        wait_session(&daemon, "live");
        let watch = Watch::start(&daemon, "h3.web");
        server.kill();
        let away = wait_session(&daemon, "disconnected");
        assert_eq!(away["state"], "ok");
        assert_eq!(metric(&daemon, &format!("zookeeper_session{{state=\"live\",zone=\"{ZONE}\"}}")), Some(0.0));
        assert_eq!(losses(&daemon, "disconnected"), 1.0);
        assert!(metric(&daemon, &format!("zookeeper_last_contact_timestamp_seconds{{zone=\"{ZONE}\"}}")) > Some(1e9));
        // A daemon that cannot come meanwhile finds what has changed when it can.
        daemon.signal(libc::SIGSTOP);
        server.restart();
        nodes.delete(&format!("{ROOT}/web/h7"));
        nodes.set(&format!("{ROOT}/web/h8"), &host(address(800)));
        nodes.create(&format!("{ROOT}/web/new"), &host(address(900)));
        daemon.signal(libc::SIGCONT);
        resolver.wait_address("new.web", address(900));
        assert_eq!(resolver.addresses("h8.web"), [address(800)]);
        assert_eq!(resolver.ask(&format!("h7.web.{ZONE}"), rtype::A).rcode(), 3);
        assert_eq!(resolver.addresses("web").len(), 40);
        nodes.set(&format!("{ROOT}/web/h8"), &host(address(801)));
        resolver.wait_address("h8.web", address(801));
        watch.finish();
    }
}

#[test]
fn a_session_that_ends_is_followed_by_another_at_once() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 5);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], ""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    wait_session(&daemon, "live");
    let serial = resolver.serial(ZONE);
    let watch = Watch::start(&daemon, "web");
    let since = |lost: u64| wait("another session", || (status(&daemon)["source"]["losses"] == lost).then_some(()));
    for lost in 1..4 {
        let session = server.sessions().into_iter().find(|session| *session != nodes.session()).expect("a session");
        server.expire(session);
        since(lost);
        wait_session(&daemon, "live");
    }
    assert_eq!(resolver.serial(ZONE), serial, "a tree that is the same is the same version");
    // A server that is there and says nothing.
    server.pause();
    since(4);
    server.resume();
    wait_session(&daemon, "live");
    watch.finish();
    nodes.create(&format!("{ROOT}/web/new"), &host(address(70)));
    resolver.wait_address("new.web", address(70));
}

#[test]
fn a_zone_expires_when_zookeeper_was_away_for_too_long() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 3);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], "serve_stale = \"5s\""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    // Longer than serve_stale: a session that lives keeps the zone alive, whether anything changes or not.
    let beats = || metric(&daemon, &format!("zone_refreshed_timestamp_seconds{{zone=\"{ZONE}\"}}")).unwrap();
    let first = beats();
    wait("the session proves itself", || (beats() > first + 6.0).then_some(()));
    assert_eq!(status(&daemon)["state"], "ok");
    server.kill();
    for zone in [ZONE, REVERSE] {
        wait(&format!("{zone} expires"), || (resolver.ask(zone, rtype::SOA).rcode() == 2).then_some(()));
    }
    assert_eq!(status(&daemon)["state"], "expired");
    server.restart();
    resolver.wait_served();
    assert_eq!(resolver.addresses("web").len(), 3);
    wait("the reverse zone is back", || resolver.serial(REVERSE));
}

#[test]
fn a_tree_that_was_lost_is_not_believed_at_once() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 40);
    let zone = plan(&[server.address()], "").replace("confirm_after = \"2s\"", "confirm_after = \"1h\"");
    let daemon = Aggregator::start(&folder, &zone);
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    wait_session(&daemon, "live");
    let serial = resolver.serial(ZONE);
    let watch = Watch::start(&daemon, "web");
    drop(nodes);
    server.kill();
    server.wipe();
    server.restart();
    let held = |nodes: u64| {
        wait(&format!("a tree of {nodes} nodes is held back"), || {
            let status = status(&daemon);
            (status["source"]["held"]["nodes"] == nodes).then_some(status)
        })
    };
    let missing = held(0);
    assert_eq!(missing["source"]["held"]["reason"], "missing");
    assert_eq!((&missing["source"]["session"], &missing["source"]["nodes"]), (&"live".into(), &42.into()));
    assert_eq!(metric(&daemon, &format!("transfer_held{{zone=\"{ZONE}\"}}")), Some(1.0));
    assert!(daemon.verb(&["status"]).stdout.contains("tree held back: the domain's node is not there"));
    let refused = daemon.verb(&["retransfer", ZONE]);
    assert!(refused.code == 1 && refused.stderr.contains("held back: there is no node"), "{refused:?}");
    // It comes back by and by, with other numbers of transactions.
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 3);
    held(5);
    watch.finish();
    let accepted = daemon.verb(&["retransfer", ZONE, "--accept"]);
    assert!(accepted.code == 0 && accepted.stdout.contains("5 nodes"), "{accepted:?}");
    assert_eq!(resolver.addresses("web").len(), 3);
    let newer = |serial: Option<u32>, than: Option<u32>| (serial.unwrap().wrapping_sub(than.unwrap()) as i32) > 0;
    assert!(newer(resolver.serial(ZONE), serial), "secondaries must see it");
    let serial = resolver.serial(ZONE);
    nodes.create(&format!("{ROOT}/web/new"), &host(address(70)));
    resolver.wait_address("new.web", address(70));
    assert!(newer(resolver.serial(ZONE), serial));
    assert_eq!(status(&daemon)["source"]["held"], serde_json::Value::Null);
}

#[test]
fn a_tree_that_stays_away_is_gone_after_a_second_look() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 40);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], ""));
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    wait_session(&daemon, "live");
    server.kill();
    daemon.signal(libc::SIGSTOP);
    server.restart();
    nodes.delete_tree(&format!("{ROOT}/web"));
    daemon.signal(libc::SIGCONT);
    wait("the tree is held back", || {
        let status = status(&daemon);
        (status["source"]["held"]["reason"] == "shrunk").then_some(())
    });
    assert_eq!(resolver.addresses("web").len(), 40);
    resolver.wait_gone("web");
    assert_eq!(status(&daemon)["source"]["held"], serde_json::Value::Null);
    // While a session lasts, ZooKeeper's word is enough.
    make_service(&nodes, ROOT, 40);
    wait("the service is back", || (resolver.addresses("web").len() == 40).then_some(()));
    nodes.delete_tree(&format!("{ROOT}/web"));
    resolver.wait_gone("web");
    assert_eq!(status(&daemon)["source"]["held"], serde_json::Value::Null);
    make_service(&nodes, ROOT, 2);
    wait("the service is back", || (resolver.addresses("web").len() == 2).then_some(()));
}

#[test]
fn an_ensemble_may_lose_any_member() {
    let folder = Folder::new();
    let mut ensemble = Ensemble::start(&folder, 3);
    let addresses: Vec<SocketAddr> = ensemble.addresses();
    let nodes = Znodes::connect(&addresses);
    make_service(&nodes, ROOT, 20);
    let settings = Settings::new(&plan(&addresses, ""));
    let daemons = ["first", "second"].map(|name| Aggregator::start_with(&folder.subfolder(name), &settings));
    let mut resolvers = daemons.each_ref().map(Resolver::new);
    resolvers.iter_mut().for_each(Resolver::wait_served);
    let watches = daemons.each_ref().map(|daemon| Watch::start(daemon, "web"));
    let leader = ensemble.leader();
    // The leader last, so that each election is by those who have seen everything.
    let mut order: Vec<usize> = (0..3).collect();
    order.sort_by_key(|member| *member == leader);
    for (round, member) in order.into_iter().enumerate() {
        ensemble.member(member).kill();
        let (name, address) = (format!("round{round}"), address(1000 + round as u32));
        nodes.create(&format!("{ROOT}/{name}"), &host(address));
        resolvers.iter_mut().for_each(|resolver| resolver.wait_address(&name, address));
        ensemble.member(member).restart();
    }
    let [first, second] = &mut resolvers;
    wait("both have the same serial", || (first.serial(ZONE)? == second.serial(ZONE)?).then_some(()));
    assert_eq!(first.serial(REVERSE), second.serial(REVERSE));
    watches.into_iter().for_each(Watch::finish);
    for daemon in &daemons {
        wait_session(daemon, "live");
        assert_eq!(status(daemon)["source"]["held"], serde_json::Value::Null);
    }
}
