//! From a change of a node in ZooKeeper to the answer, in a tree as a large Manta has it; loading it, and its memory.
//!
//! The tree: services of nine hosts each, every host with two ports, so that a host stands in an A record of its own, in
//! the A and SRV records of its service, and in a PTR record. A change gives one host another address. The clock starts
//! before the change is sent to ZooKeeper, while the question is asked already; it stops at the first answer with the new
//! address. Each change comes a while after the one before, so that it is a lone one; then as many come at once.
//!
//! Cost: filling the tree half a minute, each lone change a fifth of a second.

use crate::daemon::Daemon;
use crate::harness::{Folder, Znodes, ZooKeeper};
use crate::memory::Memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::quiet;
use crate::scene::LONGEST;
use crate::table::{Figures, Table, mebibytes, thousands};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// The domain, and the path of its node.
const DOMAIN: &str = "emy-10.example.com";
const PATH: &str = "/com/example/emy-10";
/// Hosts of a service.
const HOSTS: usize = 9;
/// The time from one lone change to the next: longer than `hold_down`.
const APART: Duration = Duration::from_millis(150);
/// Steps from one changed host to the next, a prime, so that changes spread over the tree.
const STRIDE: usize = 7_919;

/// A host of the tree, counted through all services.
#[derive(Clone, Copy)]
struct Host(usize);

impl Host {
    /// Its service's part of names and paths.
    fn service(self) -> String {
        format!("service-{}", self.0 / HOSTS)
    }

    /// Path of its node.
    fn path(self) -> String {
        format!("{PATH}/{}/host-{}", self.service(), self.0 % HOSTS)
    }

    /// Its name in DNS.
    fn name(self) -> String {
        format!("host-{}.{}.{DOMAIN}", self.0 % HOSTS, self.service())
    }

    /// Its address after some changes.
    fn address(self, changes: usize) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0000 + (changes % 8) as u32 * 0x10_0000 + self.0 as u32)
    }

    /// What Registrar writes for it.
    fn payload(self, changes: usize) -> Vec<u8> {
        let address = self.address(changes);
        let inner = format!("{{\"address\":\"{address}\",\"ports\":[80,443]}}");
        format!("{{\"type\":\"load_balancer\",\"address\":\"{address}\",\"load_balancer\":{inner}}}").into_bytes()
    }
}

/// What Registrar writes for a service.
const SERVICE: &[u8] = b"{\"type\":\"service\",\"service\":{\"type\":\"service\",\"service\":\
    {\"srvce\":\"_http\",\"proto\":\"_tcp\",\"port\":80,\"ttl\":60},\"ttl\":60}}";

/// Measures everything about one tree and prints the tables.
pub fn measure(options: &Options) {
    let hosts = options.nodes / (HOSTS + 1) * HOSTS;
    eprintln!("{} nodes: filling ZooKeeper", thousands(options.nodes));
    let folder = Folder::new();
    let server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    fill(&nodes, hosts);
    let plan = format!("[zones.\"{DOMAIN}\"]\nzookeeper = \"{}\"\nreverse = \"10.0.0.0/8\"\n", server.address());
    eprintln!("{} nodes: first load", thousands(options.nodes));
    let start = Instant::now();
    let mut daemon = Daemon::start(&folder, &options.program, &plan);
    let mut probe = Probe::new(daemon.address());
    let last = Host(hosts - 1);
    let wait = |probe: &mut Probe, start: Instant| {
        probe.time_until(&last.name(), last.address(0), start, LONGEST).expect("the tree is loaded")
    };
    let loaded = wait(&mut probe, start);
    quiet::wait_quiet(&[daemon.id()]);
    let memory = Memory::take(daemon.id());
    let (acknowledged, visible) = change_one_by_one(&nodes, &mut probe, hosts, options.changes);
    let storm = change_at_once(&nodes, &mut probe, hosts, options.changes);
    quiet::wait_quiet(&[daemon.id()]);
    let changed = Memory::take(daemon.id());
    daemon.stop();
    let start = Instant::now();
    daemon.start_again();
    let restarted = wait(&mut probe, start);

    let mut times = Table::new(&["time from sending a change until", "p50", "p99", "max"]);
    let mut row = |what: &str, figures: &Figures| {
        times.row([what.to_string()].into_iter().chain(figures.spread()).collect());
    };
    row("ZooKeeper has acknowledged it", &acknowledged);
    row("the name has the new address in DNS", &visible);
    println!(
        "A tree of {} nodes in ZooKeeper, {} changes, one at a time:\n\n{times}",
        thousands(options.nodes),
        thousands(options.changes)
    );
    let mut whole = Table::new(&["", ""]);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    for (what, figure) in [
        ("first load, from the start of the program to an answer", seconds(loaded)),
        ("restart, from the state folder", seconds(restarted)),
        ("as many changes at once, until all are in DNS", seconds(storm)),
        ("memory when loaded", mebibytes(memory.resident)),
        ("highest until then", mebibytes(memory.highest)),
        ("memory after all changes", mebibytes(changed.resident)),
        ("highest during changes", mebibytes(changed.highest)),
    ] {
        whole.row(vec![what.to_string(), figure]);
    }
    println!("The same tree as a whole:\n\n{whole}");
}

/// Makes all nodes.
fn fill(nodes: &Znodes, hosts: usize) {
    nodes.create(PATH, b"");
    let services: Vec<(String, Vec<u8>)> =
        (0..hosts).step_by(HOSTS).map(|host| (format!("{PATH}/{}", Host(host).service()), SERVICE.to_vec())).collect();
    let hosts = (0..hosts).map(|host| (Host(host).path(), Host(host).payload(0)));
    let all: Vec<(String, Vec<u8>)> = services.into_iter().chain(hosts).collect();
    nodes.create_all(all.iter().map(|(path, data)| (path.as_str(), data.as_slice())));
}

/// The host that a change is about, and how many changes it has had with this one. The last host stays as it is: the
/// answer to it tells when everything is loaded.
fn choose(change: usize, hosts: usize) -> (Host, usize) {
    let others = hosts - 1;
    (Host(change * STRIDE % others), 1 + change / others)
}

/// Changes one host after the other: the times until ZooKeeper had the change, and until DNS had it.
fn change_one_by_one(nodes: &Znodes, probe: &mut Probe, hosts: usize, changes: usize) -> (Figures, Figures) {
    let (mut acknowledged, mut visible) = (Figures::default(), Figures::default());
    for change in 0..changes {
        if change % 100 == 0 {
            eprintln!("change {} of {}", thousands(change + 1), thousands(changes));
        }
        let (host, count) = choose(change, hosts);
        let (name, path, data) = (host.name(), host.path(), host.payload(count));
        std::thread::sleep(APART);
        let start = Instant::now();
        let both = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                nodes.set(&path, &data);
                start.elapsed()
            });
            let visible = probe.time_until(&name, host.address(count), start, LONGEST);
            (writer.join().expect("ZooKeeper takes the change"), visible)
        });
        acknowledged.push(both.0);
        visible.push(both.1.expect("a change of a node reaches DNS"));
        let service = format!("{}.{DOMAIN}", host.service());
        assert!(probe.has_address(&service, host.address(count)), "{service} is as old as {name} was");
    }
    (acknowledged, visible)
}

/// Changes as many hosts as fast as ZooKeeper takes it; the time until all of them are in DNS.
fn change_at_once(nodes: &Znodes, probe: &mut Probe, hosts: usize, changes: usize) -> Duration {
    eprintln!("{} changes at once", thousands(changes));
    let chosen: Vec<(Host, usize)> = (changes..2 * changes).map(|change| choose(change, hosts)).collect();
    let payloads: Vec<(String, Vec<u8>)> =
        chosen.iter().map(|(host, count)| (host.path(), host.payload(*count))).collect();
    let start = Instant::now();
    nodes.set_all(payloads.iter().map(|(path, data)| (path.as_str(), data.as_slice())));
    for (index, (host, count)) in chosen.iter().enumerate() {
        // A small tree has each host several times; only its newest address will be there.
        if chosen[index + 1..].iter().any(|(later, _)| later.0 == host.0) {
            continue;
        }
        let time = probe.time_until(&host.name(), host.address(*count), start, LONGEST);
        time.expect("a change of a node reaches DNS");
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_host_has_an_address_that_no_other_host_has_or_had() {
        let hosts = 90_000;
        let mut seen: std::collections::HashSet<Ipv4Addr> = (0..hosts).map(|host| Host(host).address(0)).collect();
        assert_eq!(seen.len(), hosts);
        for change in 0..2_000 {
            let (host, count) = choose(change, hosts);
            assert!(seen.insert(host.address(count)) && host.0 < hosts - 1, "{change}");
        }
        assert_eq!(Host(10).path(), "/com/example/emy-10/service-1/host-1");
        assert_eq!(Host(10).name(), "host-1.service-1.emy-10.example.com");
    }
}
