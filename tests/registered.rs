//! Agent and server together: what is registered here is answered there, and what is not is not.

mod harness;
// Made for other tests, which use all of it.
#[allow(dead_code)]
#[path = "zookeeper/site.rs"]
mod site;

use harness::*;
use site::*;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A session that no test waits for.
const LONG: Duration = Duration::from_secs(60);

/// An agent of a member of `web`, whose host and alias are `hN` and `aN`.
fn start_agent(folder: &Folder, servers: &[SocketAddr], number: u32, timeout: Duration, more: &str) -> Registrar {
    let (zone, address) = (ZONE.trim_end_matches('.'), address(number));
    let zookeeper = Registrar::zookeeper(servers, timeout);
    let text = format!(
        r#"{{{more} "adminIp":"{address}",
            "registration":{{"domain":"web.{zone}","type":"load_balancer","aliases":["a{number}.web.{zone}"],
                "service":{{"type":"service","service":{{"srvce":"_http","proto":"_tcp","port":80}}}}}},
            {zookeeper}}}"#
    );
    Registrar::start(folder, &format!("h{number}"), &text)
}

/// Waits until the service has exactly these members, whose aliases count as members, too.
fn wait_members(resolver: &mut Resolver, numbers: &[u32]) {
    let expected: Vec<Ipv4Addr> = numbers.iter().map(|number| address(*number)).collect();
    wait(&format!("the members are {numbers:?}"), || (resolver.addresses("web") == expected).then_some(()));
}

/// Somebody who asks all the time and wants the same address always.
struct Asker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Asker {
    fn start(daemon: &Aggregator, name: &'static str, number: u32) -> Asker {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, mut resolver) = (stop.clone(), Resolver::new(daemon));
        let thread = thread::spawn(move || {
            let mut asked = 0;
            while !seen.load(Ordering::Relaxed) {
                assert_eq!(resolver.addresses(name), [address(number)], "question {asked}");
                asked += 1;
            }
            asked
        });
        Asker { stop, thread: Some(thread) }
    }

    /// Returns the number of its questions; fails if it ever got another answer.
    fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().expect("every answer was right")
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn instances_come_and_go_in_dns() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let servers = [server.address()];
    let daemon = Aggregator::start(&folder, &plan(&servers, ""));
    let mut resolver = Resolver::new(&daemon);
    let file = folder.path().join("healthy");
    fs::write(&file, "").unwrap();
    let check = format!(
        r#""healthCheck":{{"command":"test -e {}","interval":20,"timeout":5000,"threshold":2}},"#,
        file.display()
    );

    // Registered: visible in every way.
    let mut first = start_agent(&folder, &servers, 1, LONG, &check);
    wait_members(&mut resolver, &[1]);
    resolver.wait_address("h1.web", address(1));
    resolver.wait_address("a1.web", address(1));
    let question = format!("_http._tcp.web.{ZONE}");
    assert_eq!(resolver.ask(&question, rtype::SRV).answer.len(), 2);
    let pointer = wait("the address has a name", || {
        resolver.ask("1.0.0.10.in-addr.arpa.", rtype::PTR).answer.first().and_then(Record::target)
    });
    assert_eq!(pointer, Dname::parse(&format!("a1.web.{ZONE}")), "the first of the service's members by name");
    let timeout = Duration::from_secs(4);
    let mut second = start_agent(&folder, &servers, 2, timeout, "");
    wait_members(&mut resolver, &[1, 2]);

    // Its check fails: gone, and back when it passes.
    for _ in 0..3 {
        fs::remove_file(&file).unwrap();
        wait_members(&mut resolver, &[2]);
        resolver.wait_gone("h1.web");
        resolver.wait_gone("a1.web");
        fs::write(&file, "").unwrap();
        wait_members(&mut resolver, &[1, 2]);
    }

    // Killed: gone when its session has timed out, and not before.
    second.kill();
    let start = Instant::now();
    wait_members(&mut resolver, &[1]);
    assert!(start.elapsed() > timeout / 4, "{:?}", start.elapsed());

    // Told to stop: gone at once, although the session may last a minute.
    let second = start_agent(&folder, &servers, 2, timeout, "");
    wait_members(&mut resolver, &[1, 2]);
    assert_eq!(first.stop().code(), Some(0));
    let start = Instant::now();
    wait_members(&mut resolver, &[2]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    // Its session expires: registered again.
    let nodes = Znodes::connect(&servers);
    let owner = || nodes.get(&format!("{ROOT}/web/h2")).map(|(_, stat)| stat.ephemeral_owner);
    let before = owner().expect("it is registered");
    server.expire(before);
    wait("another session has it", || owner().filter(|owner| *owner != before));
    wait_members(&mut resolver, &[2]);
    drop(second);
    wait("nobody is left, the service stays", || {
        let message = resolver.ask(&format!("web.{ZONE}"), rtype::A);
        (message.rcode() == 0 && message.answer.is_empty()).then_some(())
    });
}

/// Whoever is started again after a crash is in every answer meanwhile.
#[test]
fn a_restart_of_the_agent_is_not_seen() {
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let servers = [server.address()];
    let daemon = Aggregator::start(&folder, &plan(&servers, ""));
    let mut resolver = Resolver::new(&daemon);
    let mut agent = start_agent(&folder, &servers, 1, LONG, "");
    wait_members(&mut resolver, &[1]);
    let nodes = Znodes::connect(&servers);
    let owner = || nodes.get(&format!("{ROOT}/web/h1")).expect("it is always there").1.ephemeral_owner;
    let asker = Asker::start(&daemon, "web", 1);
    for _ in 0..5 {
        let before = owner();
        agent.kill();
        agent = start_agent(&folder, &servers, 1, LONG, "");
        wait("another session has it", || (owner() != before).then_some(()));
    }
    assert!(asker.finish() > 50);
}

/// Members of the ensemble go, the leader included: every answer has the instance.
#[test]
fn the_loss_of_members_is_not_seen() {
    let folder = Folder::new();
    let mut ensemble = Ensemble::start(&folder, 3);
    let servers = ensemble.addresses();
    let daemon = Aggregator::start(&folder, &plan(&servers, "").replace("\"4s\"", "\"20s\""));
    let mut resolver = Resolver::new(&daemon);
    let _agent = start_agent(&folder, &servers, 1, Duration::from_secs(20), "");
    wait_members(&mut resolver, &[1]);
    let nodes = Znodes::connect(&servers);
    let made = || nodes.get(&format!("{ROOT}/web/h1")).expect("it is there").1.czxid;
    let before = made();
    let asker = Asker::start(&daemon, "h1.web", 1);
    for round in 0..3 {
        let leader = ensemble.leader();
        let victim = if round == 0 { (leader + 1) % 3 } else { leader };
        ensemble.member(victim).kill();
        assert_ne!(ensemble.leader(), if round == 0 { 3 } else { victim });
        // Writes go through again, and what is written is seen.
        nodes.create(&format!("{ROOT}/round-{round}"), &host(address(100 + round)));
        resolver.wait_address(&format!("round-{round}"), address(100 + round));
        ensemble.member(victim).restart();
    }
    assert!(asker.finish() > 50);
    assert_eq!(made(), before);
}
