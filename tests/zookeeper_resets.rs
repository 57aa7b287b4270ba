//! Ensembles that forget: wiped, restored from an old copy, or robbed of the domain's node. What was served is served on, over
//! restarts of ours, until the tree is back, or somebody says that it is right; what was never there is no loss.

mod harness;
// Made for other tests, which use all of it.
#[allow(dead_code)]
#[path = "zookeeper/site.rs"]
mod site;

use harness::*;
use site::*;
use std::process::Command;
use std::time::{Duration, Instant};

/// A ZooKeeper whose service has forty machines, and a daemon that serves them and keeps them on disk.
struct Scene {
    folder: Folder,
    server: ZooKeeper,
    daemon: Aggregator,
    resolver: Resolver,
}

impl Scene {
    fn start(more: &str) -> Scene {
        let folder = Folder::new();
        let server = ZooKeeper::start(&folder);
        make_service(&Znodes::connect(&[server.address()]), ROOT, 40);
        let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan(&[server.address()], more)) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut resolver = Resolver::new(&daemon);
        resolver.wait_served();
        wait_session(&daemon, "live");
        assert_eq!(lost(&daemon), [0.0; 3]);
        Scene { folder, server, daemon, resolver }
    }

    /// A client of the server.
    fn nodes(&self) -> Znodes {
        Znodes::connect(&[self.server.address()])
    }

    /// Ends the server, changes its data and starts it again.
    fn restart_server(&mut self, change: impl FnOnce(&ZooKeeper)) {
        self.server.kill();
        change(&self.server);
        self.server.restart();
    }

    /// Waits until a tree of so many nodes is held back for this reason, with an alarm; everything is served meanwhile.
    fn wait_held(&mut self, reason: &str, nodes: u64) {
        let (daemon, resolver) = (&self.daemon, &mut self.resolver);
        wait(&format!("a tree of {nodes} nodes is held back as {reason}"), || {
            assert_eq!(resolver.addresses("web").len(), 40, "{reason} {nodes}");
            let held = status(daemon)["source"]["held"].clone();
            (held["reason"] == reason && held["nodes"] == nodes).then_some(())
        });
        let alarm = ["missing", "anew", "older"].map(|label| if label == reason { 1.0 } else { 0.0 });
        assert_eq!(lost(daemon), alarm);
        assert_eq!(metric(daemon, &format!("transfer_held{{zone=\"{ZONE}\"}}")), Some(1.0));
    }

    /// Waits until nothing is held any more.
    fn wait_adopted(&self) {
        wait("nothing is held back", || status(&self.daemon)["source"]["held"].is_null().then_some(()));
        assert_eq!(lost(&self.daemon), [0.0; 3]);
    }

    /// Restarts the daemon.
    fn restart(&mut self) {
        self.daemon.kill_and_restart(|| {});
        self.resolver = Resolver::new(&self.daemon);
    }
}

/// The series of the alarm: missing, anew, older.
fn lost(daemon: &Aggregator) -> [f64; 3] {
    ["missing", "anew", "older"].map(|reason| {
        let series = format!("zookeeper_tree_reset{{reason=\"{reason}\",zone=\"{ZONE}\"}}");
        metric(daemon, &series).unwrap_or_else(|| panic!("{series} is missing"))
    })
}

/// Removes a service and the domain's node in one transaction.
fn delete_at_once(nodes: &Znodes) {
    let paths = nodes.tree(ROOT).into_keys().rev().collect::<Vec<_>>();
    nodes.delete_all(paths.iter().map(String::as_str));
    assert!(nodes.get(ROOT).is_none());
}

#[test]
fn a_wiped_ensemble_does_not_empty_its_zone() {
    for watches in ["auto", "each"] {
        let mut scene = Scene::start(&format!("regress_after = \"12s\"\nwatches = \"{watches}\""));
        scene.restart_server(ZooKeeper::wipe);
        scene.wait_held("missing", 0);
        let text = scene.daemon.verb(&["status"]).stdout;
        assert!(text.contains("tree held back: the domain's node is not there"), "{text}");
        // Time in which the same reading was believed once; a restart changes nothing.
        scene.restart();
        scene.wait_held("missing", 0);
        let nodes = scene.nodes();
        make_service(&nodes, ROOT, 3);
        scene.wait_held("anew", 5);
        scene.restart();
        scene.wait_held("anew", 5);
        let refused = scene.daemon.verb(&["retransfer", ZONE]);
        assert!(
            refused.code == 1 && refused.stderr.contains("it is adopted when it has had 21 nodes for 12s"),
            "{refused:?}"
        );
        // Half of 42 is there again, and stays.
        let more: Vec<(String, Vec<u8>)> =
            (3..30).map(|number| (format!("{ROOT}/web/h{number}"), host(address(number)))).collect();
        nodes.create_all(more.iter().map(|(path, data)| (&path[..], &data[..])));
        let started = Instant::now();
        scene.wait_held("anew", 32);
        scene.wait_adopted();
        assert!(started.elapsed() >= Duration::from_secs(10), "{:?}", started.elapsed());
        wait("the machines that came back", || (scene.resolver.addresses("web").len() == 30).then_some(()));
        nodes.create(&format!("{ROOT}/web/new"), &host(address(70)));
        scene.resolver.wait_address("new.web", address(70));
    }
}

#[test]
fn a_domain_that_was_deleted_and_made_anew_is_told_from_the_one_before() {
    for watches in ["auto", "each"] {
        let mut scene = Scene::start(&format!("regress_after = \"4s\"\nwatches = \"{watches}\""));
        let nodes = scene.nodes();
        delete_at_once(&nodes);
        scene.wait_held("missing", 0);
        scene.restart();
        scene.wait_held("missing", 0);
        // While nobody looks.
        scene.daemon.signal(libc::SIGSTOP);
        make_service(&nodes, ROOT, 4);
        scene.daemon.signal(libc::SIGCONT);
        scene.wait_held("anew", 6);
        // Deleted and back within one look.
        delete_at_once(&nodes);
        make_service(&nodes, ROOT, 40);
        nodes.set(&format!("{ROOT}/web/h3"), &host(address(333)));
        scene.resolver.wait_address("h3.web", address(333));
        scene.wait_adopted();
        // Of what is right an operator can say so at once.
        delete_at_once(&nodes);
        scene.wait_held("missing", 0);
        let accepted = scene.daemon.verb(&["retransfer", ZONE, "--accept"]);
        assert_eq!(accepted.code, 0, "{accepted:?}");
        scene.resolver.wait_gone("web");
        scene.wait_adopted();
        scene.restart();
        wait_session(&scene.daemon, "live");
        // What has nothing to lose is not held.
        make_service(&nodes, ROOT, 2);
        wait("the service is back", || (scene.resolver.addresses("web").len() == 2).then_some(()));
    }
}

#[test]
fn an_ensemble_that_was_restored_from_an_old_copy_is_held_back() {
    let mut scene = Scene::start("regress_after = \"15s\"");
    let copy = scene.folder.path().join("copy");
    scene.server.kill();
    let copied = Command::new("cp").arg("-a").arg(scene.server.data()).arg(&copy).status().unwrap();
    assert!(copied.success());
    scene.server.restart();
    scene.nodes().set(&format!("{ROOT}/web/h3"), &host(address(333)));
    scene.resolver.wait_address("h3.web", address(333));
    scene.restart_server(|server| {
        std::fs::remove_dir_all(server.data()).unwrap();
        std::fs::rename(&copy, server.data()).unwrap();
    });
    scene.wait_held("older", 42);
    assert_eq!(scene.resolver.addresses("h3.web"), [address(333)]);
    // It has all its nodes, and is believed after the same time.
    scene.resolver.wait_address("h3.web", address(3));
    scene.wait_adopted();
}

#[test]
fn a_tree_that_stays_away_is_gone_after_half_of_serve_stale() {
    let mut scene = Scene::start("serve_stale = \"40s\"");
    let started = Instant::now();
    scene.restart_server(ZooKeeper::wipe);
    scene.wait_held("missing", 0);
    scene.restart();
    scene.wait_held("missing", 0);
    wait_until("the tree is believed to be gone", Duration::from_secs(60), || {
        (scene.resolver.ask(&format!("web.{ZONE}"), rtype::A).rcode() == 3).then_some(())
    });
    let took = started.elapsed();
    // Counted from before the restart, and not until the zone has expired.
    assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(38), "{took:?}");
    scene.wait_adopted();
}

#[test]
fn a_fresh_domain_is_ready_and_has_nothing_to_lose() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], ""));
    let mut resolver = Resolver::new(&daemon);
    // Registrar has never run here.
    resolver.wait_served();
    assert_eq!(lost(&daemon), [0.0; 3]);
    let nodes = Znodes::connect(&[server.address()]);
    nodes.create(ROOT, b"");
    let count = |nodes: u64| wait("the node is seen", || (status(&daemon)["source"]["nodes"] == nodes).then_some(()));
    count(1);
    nodes.delete(ROOT);
    count(0);
    assert_eq!(lost(&daemon), [0.0; 3]);
    make_service(&nodes, ROOT, 2);
    wait("the service is there", || (resolver.addresses("web").len() == 2).then_some(()));
    assert!(status(&daemon)["source"]["held"].is_null());
}
