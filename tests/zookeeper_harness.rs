//! The harness' ZooKeeper does what tests rely on: it keeps data, it elects, it ends sessions.

mod harness;

use harness::{Ensemble, Folder, Znodes, ZooKeeper, wait_until};
use std::time::Duration;

/// Nodes are made, changed, read and removed; they survive a crash; what is ephemeral ends with its session.
#[test]
fn one_server_keeps_nodes_and_ends_sessions() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    nodes.create("/com/example/a", b"one");
    nodes.create("/com/example/a/b", b"two");
    nodes.set("/com/example/a", b"three");
    let expected = [("/com", ""), ("/com/example", ""), ("/com/example/a", "three"), ("/com/example/a/b", "two")];
    let expected = expected.map(|(path, data)| (path.to_string(), data.as_bytes().to_vec()));
    assert_eq!(nodes.tree("/com"), expected.clone().into());
    server.kill();
    server.restart();
    assert_eq!(nodes.tree("/com"), expected.into());
    nodes.delete_tree("/com/example/a");
    assert_eq!(nodes.get("/com/example/a"), None);

    let other = Znodes::connect(&[server.address()]);
    other.create_ephemeral("/com/short", b"");
    assert!(server.sessions().contains(&other.session()));
    server.expire(other.session());
    assert_eq!(nodes.get("/com/short"), None);
}

/// An ensemble has one leader, serves without it, and takes it back.
#[test]
fn an_ensemble_survives_its_leader() {
    let folder = Folder::new();
    let mut ensemble = Ensemble::start(&folder, 3);
    let nodes = Znodes::connect(&ensemble.addresses());
    nodes.create("/com/example", b"kept");
    let leader = ensemble.leader();
    ensemble.member(leader).kill();
    let next = ensemble.leader();
    assert_ne!(next, leader);
    wait_until("the rest serves", Duration::from_secs(30), || {
        nodes.get("/com/example").filter(|(data, _)| data == b"kept")
    });
    ensemble.member(leader).restart();
    assert_eq!(ensemble.leader(), next);
}
