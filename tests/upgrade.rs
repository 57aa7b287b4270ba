//! Restart and upgrade under a storm of queries: the service manager keeps the sockets, requests wait in them while no
//! process runs, and nothing is lost.
//!
//! `AGGREGATOR_PREVIOUS` names the program that is replaced, such as that of the release before; otherwise it is a copy of
//! this one. Every query is sent once: who would have to ask again has lost something.

mod harness;

use harness::{
    Client, Dname, Folder, Nsd, Port, Query, ServiceManager, Storm, StormPlan, decode, rtype, run_verb, wait_until,
    write_file,
};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Restarts of the storm.
const RESTARTS: usize = 6;
/// A query that is not answered by then is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Between two queries of a thread: what the socket's buffer holds for a second of absence, on any system.
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);
/// Threads that ask over UDP.
const THREADS: usize = 2;
const REGION: &str = "region.test";

/// The program that is replaced.
fn previous_program(folder: &Folder) -> PathBuf {
    if let Some(path) = std::env::var_os("AGGREGATOR_PREVIOUS") {
        return path.into();
    }
    let copy = folder.path().join("previous");
    std::fs::copy(env!("CARGO_BIN_EXE_aggregator"), &copy).expect("copy of the program");
    copy
}

fn configuration(server: SocketAddr, primary: SocketAddr, folder: &Path, more: &str) -> String {
    let home = folder.display();
    format!(
        "[server]\nname = \"ns.test\"\nlisten = [\"{server}\"{more}]\n[state]\nfolder = \"{home}/state\"\n\
         [metrics]\nlisten = []\n[control]\nsocket = \"{home}/control\"\n[zones]\n\"dc.test\" = \"{primary}\"\n\
         [aggregations]\n\"{REGION}\" = [\"dc.test\"]\n"
    )
}

#[test]
fn a_restart_and_an_upgrade_lose_no_query() {
    let folder = Folder::new();
    let zone = "$ORIGIN dc.test.\n$TTL 30\n@ IN SOA ns.dc.test. h.dc.test. 1 30 60 2592000 30\n@ IN NS ns.dc.test.\n\
                web IN A 192.0.2.1\n";
    let nsd = Nsd::start(&folder, &[(Dname::parse("dc.test"), zone.to_owned())]);
    let mut port = Port::reserve();
    let server = port.release();
    let home = folder.subfolder("aggregator");
    let file = home.join("config.toml");
    write_file(&file, &configuration(server, nsd.address(), &home, ""));
    let programs = [previous_program(&folder), PathBuf::from(env!("CARGO_BIN_EXE_aggregator"))];
    let mut manager = ServiceManager::new(folder.path());
    let start = |manager: &mut ServiceManager, program: &Path| {
        let process = manager.start(program, &["run", "-c", file.to_str().unwrap()], None, &home.join("log"));
        manager.wait_for("READY=1");
        process
    };
    let mut process = start(&mut manager, &programs[0]);
    let mut client = Client::new(server);
    let query = Query::new(&Dname::parse(&format!("web.{REGION}")), rtype::A);
    wait_until("the region is served", Duration::from_secs(20), || {
        client.ask(&query).is_ok_and(|answer| answer.answer.len() == 1).then_some(())
    });
    assert_eq!(manager.kept().len(), 2, "UDP and TCP are kept");

    let plan = StormPlan { server, query: query.clone(), records: 1, pause: PAUSE, lost_after: LOST_AFTER };
    let storm = Storm::start(&plan, THREADS);
    for _ in 0..RESTARTS {
        storm.wait_for_queries(100, PATIENCE);
        manager.take_heard();
        let status = process.stop(Duration::from_secs(10)).expect("the daemon ends");
        assert!(status.success(), "{status}");
        assert!(manager.take_heard().contains(&"STOPPING=1".to_owned()));
        // The port has no process here, and queries go on.
        process = start(&mut manager, &programs[1]);
    }
    storm.wait_for_queries(100, PATIENCE);
    let toll = storm.end();
    eprintln!("{RESTARTS} restarts: {toll:?}");
    assert!(toll.asked > 500, "{toll:?} is no storm");
    assert_eq!(toll.lost, 0, "{toll:?}");

    // Without a polite end: who asks while nobody is there waits for the next process.
    process.kill();
    client.send_udp(&query.encode(999)).unwrap();
    process = start(&mut manager, &programs[1]);
    let answer = decode(&client.receive_udp(999).expect("an answer to what was asked before the start")).unwrap();
    assert_eq!(answer.answer.len(), 1);
    drop(process);
}

#[test]
fn the_manager_is_told_everything() {
    let folder = Folder::new();
    let (mut first, mut second) = (Port::reserve(), Port::reserve());
    let (server, other) = (first.release(), second.release());
    let home = folder.subfolder("aggregator");
    let file = home.join("config.toml");
    let primary = "127.0.0.1:1".parse().unwrap();
    write_file(&file, &configuration(server, primary, &home, &format!(", \"{other}\"")));
    let mut manager = ServiceManager::new(folder.path());
    let program = PathBuf::from(env!("CARGO_BIN_EXE_aggregator"));
    let arguments = ["run", "-c", file.to_str().unwrap()];
    let mut process = manager.start(&program, &arguments, Some(Duration::from_millis(200)), &home.join("log"));
    manager.wait_for("READY=1");
    manager.wait_for("STATUS=zones: 1, regions: 1, serving");
    manager.wait_for("WATCHDOG=1");
    let names = |addresses: &[SocketAddr]| {
        let named = |kind: &str| addresses.iter().map(|at| format!("{kind}-{}_{}", at.ip(), at.port())).collect();
        let [mut tcp, udp]: [Vec<String>; 2] = [named("tcp"), named("udp")];
        tcp.extend(udp);
        tcp.sort();
        tcp
    };
    assert_eq!(manager.kept(), names(&[server, other]));

    // A listener that a reload takes away is not kept, and is really closed.
    manager.take_heard();
    write_file(&file, &configuration(server, primary, &home, ""));
    assert_eq!(run_verb(&["reload"], &file).code, 0);
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    wait_until("the manager forgets the listener", Duration::from_secs(10), || {
        (manager.kept() == names(&[server])).then_some(())
    });
    UdpSocket::bind(other).expect("the port is free");

    // What a start does not need any more is closed as well.
    let status = process.stop(Duration::from_secs(10)).expect("the daemon ends");
    assert!(status.success());
    manager.wait_for("STOPPING=1");
    write_file(&file, &configuration(other, primary, &home, ""));
    manager.take_heard();
    let _process = manager.start(&program, &arguments, None, &home.join("log"));
    manager.wait_for("READY=1");
    wait_until("the manager keeps the new address only", Duration::from_secs(10), || {
        (manager.kept() == names(&[other])).then_some(())
    });
    UdpSocket::bind(server).expect("the port is free");
}
