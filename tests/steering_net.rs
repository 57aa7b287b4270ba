//! The nearest datacenter, as clients see it: three datacenters, each with a name server, a resolver and clients, each on a
//! machine of its own, and datacenters that are drained, lose a service, or are cut off.
//!
//! Name servers are BIND, NSD and Knot DNS. Resolvers are Unbound, BIND and Knot Resolver, whose addresses tell where their
//! clients are, and a central PowerDNS Recursor, which tells of their subnets. Clients are the resolvers of glibc and musl,
//! dnspython, and one that goes where SRV records lead. They ask all the time, and none of them may see an error, a mixture, or
//! a datacenter that it should not be sent to.
//!
//! Needs root; `make test-partition` runs it. `make partitions` writes the times into docs/steering.md.

#[path = "steering_net/client.rs"]
mod client;
#[path = "steering_net/datacenter.rs"]
mod datacenter;
mod harness;
#[path = "steering_net/resolver.rs"]
mod resolver;

use client::{Client, Kind, Programs};
use datacenter::Datacenter;
use harness::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Region in which a member that is not refreshed comes last, and one in which it stays until it expires.
const REGION: &str = "us-west.cns.example.com";
const STEADY: &str = "us-west-steady.cns.example.com";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 53);
const CENTRAL: Ipv4Addr = Ipv4Addr::new(10, 53, 9, 53);
/// Age at which a member comes last.
const STALE_AFTER: Duration = Duration::from_secs(3);
/// Longest time of a change: a second in which resolvers may keep an answer, which some round up, and what busy machines
/// take.
const CHANGE: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(60);
/// Where clients of each datacenter are to go next. In the first one that is written, else it is the order of members.
const NEXT: [u8; 3] = [3, 1, 1];

/// Clients of each datacenter.
const CLIENTS: [(&str, Kind); 6] = [
    ("glibc", Kind::Glibc),
    ("musl", Kind::Musl),
    ("dnspython", Kind::Python),
    (SERVICES, Kind::Services),
    (BY_SUBNET, Kind::Glibc),
    (UNTIL_EXPIRY, Kind::Glibc),
];
const SERVICES: &str = "SRV";
const BY_SUBNET: &str = "glibc by subnet";
const UNTIL_EXPIRY: &str = "glibc until expiry";

/// Everything there is; processes end before the net does.
struct World {
    clients: Vec<Client>,
    configuration: PathBuf,
    datacenters: Vec<Datacenter>,
    _processes: Vec<Process>,
    /// For each event the clients that went elsewhere, and when.
    rows: Vec<(&'static str, Vec<(&'static str, Duration)>)>,
    net: Net,
    _folder: Folder,
}

/// Name of a datacenter's machine.
fn machine(datacenter: u8) -> String {
    format!("dc{datacenter}")
}

/// The configuration that an operator would write, with short timers.
fn configuration() -> String {
    let each = |line: &dyn Fn(u8) -> String| (1..=3).map(line).collect::<String>();
    let zones = each(&|number| format!("\"{}\" = \"{}\"\n", datacenter::zone(number), datacenter::address(number)));
    let clients = each(&|number| format!("\"{}\" = [\"10.53.{number}.0/24\"]\n", datacenter::zone(number)));
    let members = [1, 2, 3].map(|number| format!("\"{}\"", datacenter::zone(number))).join(", ");
    let region = |name: &str, stale_after: &str| {
        format!(
            "[aggregations.\"{name}\"]\nmembers = [{members}]\nns = [\"ns1.example.com\"]\n\
             steering = {{ prefer = \"nearest\", at_least = 1, srv = \"priority\", stale_after = \"{stale_after}\" }}\n\
             near = {{ \"{}\" = [\"{}\"] }}\n",
            datacenter::zone(1),
            datacenter::zone(NEXT[0])
        )
    };
    format!(
        "[server]\nname = \"ns1.example.com\"\nlisten = [\"{SERVER}:53\"]\nclient_subnet_from = [\"{CENTRAL}\"]\n\
         [state]\nfolder = \"state\"\n[control]\nsocket = \"control\"\n\
         [transfer]\nretry_min = \"500ms\"\nretry_max = \"1s\"\nexpire_min = \"5s\"\nconnect_timeout = \"1s\"\n\
         [zones]\n{zones}[clients]\n{clients}{}{}",
        region(REGION, &format!("{}s", STALE_AFTER.as_secs())),
        region(STEADY, "never"),
    )
}

/// Starts our daemon, and waits until it has the region.
fn start_server(net: &Net, folder: &Folder) -> (Process, PathBuf) {
    let home = folder.subfolder("aggregator");
    let file = home.join("config.toml");
    write_file(&file, &configuration());
    let mut command = net.command("ns", env!("CARGO_BIN_EXE_aggregator").as_ref());
    command.args(["run", "-c"]).arg(&file).current_dir(&home);
    let mut process = Process::start("aggregator", &mut command, &home.join("log"));
    for region in [REGION, STEADY] {
        process.wait_ready("has all members", PATIENCE, || {
            let dump = run_verb(&["dump", region], &file).stdout;
            (1..=3).all(|number| dump.contains(&format!("i{number}-0.inst.acme"))).then_some(())
        });
    }
    (process, file)
}

/// Waits until a server answers for a name.
fn serves(net: &Net, server: Ipv4Addr, name: &str, is_recursive: bool) -> Option<()> {
    let query = Query { recursion_desired: is_recursive, ..Query::new(&Dname::parse(name), rtype::SOA) };
    net.enter("client1", || {
        let mut client =
            harness::Client::any(SocketAddr::new(IpAddr::V4(server), 53)).with_deadline(Duration::from_millis(500));
        let answer = client.ask(&query).ok()?;
        (answer.rcode() == 0 && answer.answer.len() == 1).then_some(())
    })
}

impl World {
    /// Starts everything, and waits until all clients are at home.
    fn start() -> World {
        let folder = Folder::new();
        let programs = Programs::make(&folder);
        let resolver = |number: u8| Ipv4Addr::new(10, 53, number, 53);
        let mut nodes = vec![("ns".to_string(), SERVER), ("central".to_string(), CENTRAL)];
        for number in 1..=3 {
            nodes.push((machine(number), datacenter::address(number)));
            nodes.push((format!("resolver{number}"), resolver(number)));
            nodes.push((format!("client{number}"), Ipv4Addr::new(10, 53, number, 100)));
        }
        let nodes: Vec<(&str, String)> =
            nodes.iter().map(|(node, address)| (&node[..], format!("{address}/16"))).collect();
        let net = Net::create(&nodes);

        let start = |number| Datacenter::start(&net, &folder, &machine(number), number, SERVER);
        let mut datacenters: Vec<Datacenter> = (1..=3).map(start).collect();
        for (number, datacenter) in (1..).zip(&mut datacenters) {
            let (address, zone) = (datacenter::address(number), datacenter::zone(number));
            datacenter.wait_serving(PATIENCE, || serves(&net, address, &zone, false));
        }
        let (server, configuration) = start_server(&net, &folder);
        let mut zones = vec![REGION.to_string(), STEADY.to_string()];
        zones.extend((1..=3).map(datacenter::zone));
        let mut processes = vec![server];
        for (kind, (node, address)) in (1..=3)
            .map(|number| (format!("resolver{number}"), resolver(number)))
            .chain([("central".into(), CENTRAL)])
            .enumerate()
        {
            let mut process = resolver::start(&net, &folder, &node, kind, [address, SERVER], &zones);
            for zone in &zones {
                process.wait_ready(&format!("resolves {zone}"), PATIENCE, || serves(&net, address, zone, true));
            }
            processes.push(process);
        }
        let mut clients = Vec::new();
        for home in 1..=3 {
            clients.extend(CLIENTS.map(|(title, kind)| {
                let region = if title == UNTIL_EXPIRY { STEADY } else { REGION };
                let resolver = if title == BY_SUBNET { CENTRAL } else { resolver(home) };
                let name = format!("web.svc.acme.{region}");
                Client::start((&net, &folder, &programs), (title, kind), home, resolver, &name)
            }));
        }
        let mut world = World {
            clients,
            configuration,
            datacenters,
            _processes: processes,
            rows: Vec::new(),
            net,
            _folder: folder,
        };
        world.wait(PATIENCE, &|home| home);
        world.clients.iter_mut().for_each(Client::forget);
        world
    }

    /// Waits until the clients of each datacenter are sent where they should be.
    fn wait(&self, limit: Duration, target: &dyn Fn(u8) -> u8) {
        let began = Instant::now();
        wait_until("clients are where they should be", limit * 2, || {
            let is_away = |client: &&Client| client.last() != Some(Ok(target(client.home)));
            let away: Vec<_> = self.clients.iter().filter(is_away).collect();
            let tell =
                |client: &&Client| format!("{} of datacenter {}: {:?}", client.title, client.home, client.last());
            let told: Vec<String> = away.iter().map(tell).collect();
            assert!(began.elapsed() < limit, "after {limit:?} elsewhere: {told:#?}");
            away.is_empty().then_some(())
        });
    }

    /// Makes something happen, and waits until all clients are sent where they should be, within a time. Prints and returns the
    /// time of each client that has gone elsewhere.
    fn phase(
        &mut self,
        title: &'static str,
        limit: Duration,
        target: &dyn Fn(u8) -> u8,
        happen: impl FnOnce(&mut World),
    ) -> Vec<(&'static str, Duration)> {
        let event = Instant::now();
        happen(self);
        self.wait(limit, target);
        let mut times = Vec::new();
        for client in &mut self.clients {
            let (at, target) = (client.at, target(client.home));
            let time = client.judge(event, target);
            if at != target {
                let way = format!("datacenter {} from {at} to {target}", client.home);
                println!("{title}: {} of {way} after {:.2} s", client.title, time.as_secs_f64());
                times.push((client.title, time));
            }
        }
        self.rows.push((title, times.clone()));
        times
    }

    /// The shortest and the longest times of all clients of a kind, by event.
    fn table(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for (title, _) in &self.rows {
            if !titles.contains(title) {
                titles.push(title);
            }
        }
        let kinds = CLIENTS.map(|(kind, _)| kind);
        let mut table = format!("| | {} |\n|---|{}\n", kinds.join(" | "), "---:|".repeat(kinds.len()));
        for title in &titles {
            let rows = || self.rows.iter().filter(|(other, _)| other == title).flat_map(|(_, times)| times);
            let times = kinds.map(|kind| {
                let [first, last] = range(rows(), |other| other == kind).map(|time| time.as_secs_f64());
                format!("{first:.1} … {last:.1} s")
            });
            table.push_str(&format!("| {title} | {} |\n", times.join(" | ")));
        }
        table
    }

    /// Cuts the server off from all datacenters until all are stale, and not longer than until they expire. No client may get
    /// anything but answers of one datacenter, and all are at home in the end; in between, while the members that were refreshed
    /// first are stale alone, some are not.
    fn lose_all(&mut self) {
        let event = Instant::now();
        self.net.lose_from("ns", &[1, 2, 3].map(datacenter::address));
        // Stale, seen to be, and forgotten by resolvers.
        let age = STALE_AFTER.as_secs() + 3;
        wait_until("all members are stale", PATIENCE, || {
            let status = self.verb(&["status", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
            let ages =
                status["zones"].as_array().expect("zones").iter().map(|zone| zone["refreshed_seconds_ago"].as_u64());
            ages.flatten().filter(|seconds| *seconds > age).count().eq(&3).then_some(())
        });
        self.wait(Duration::from_secs(1), &|home| home);
        let away = self.clients.iter_mut().map(|client| client.pass(event)).max().unwrap_or_default();
        println!("no datacenter reached: a client was elsewhere for {:.2} s at most", away.as_secs_f64());
        assert!(away < CHANGE, "members become stale within two polls, and all of them are then");
        self.net.lose("ns", 0);
    }

    /// Runs a verb, which must succeed.
    fn verb(&self, words: &[&str]) -> String {
        let output = run_verb(words, &self.configuration);
        assert_eq!(output.code, 0, "{words:?}: {output:?}");
        output.stdout
    }

    fn drain(&self, datacenter: u8) {
        self.verb(&["drain", &datacenter::zone(datacenter), "--for", "1h", "--yes"]);
    }

    fn undrain(&self, datacenter: u8) {
        self.verb(&["undrain", &datacenter::zone(datacenter)]);
    }

    fn publish(&mut self, datacenter: u8, has_service: bool) {
        self.datacenters[usize::from(datacenter) - 1].publish(has_service);
    }
}

/// Returns where the clients of each datacenter go while some datacenters are away.
fn away_from<const COUNT: usize>(away: [u8; COUNT]) -> impl Fn(u8) -> u8 {
    move |home| {
        let order = [home, NEXT[usize::from(home) - 1], 1, 2, 3];
        order.into_iter().find(|datacenter| !away.contains(datacenter)).expect("a datacenter")
    }
}

/// The shortest and the longest time of the clients for which something holds.
fn range<'t>(
    times: impl IntoIterator<Item = &'t (&'static str, Duration)>,
    is_meant: impl Fn(&str) -> bool,
) -> [Duration; 2] {
    let meant: Vec<Duration> = times.into_iter().filter(|(title, _)| is_meant(title)).map(|(_, time)| *time).collect();
    [*meant.iter().min().expect("a client"), *meant.iter().max().expect("a client")]
}

#[test]
#[ignore = "needs root: make test-partition"]
fn clients_go_to_the_next_datacenter_and_come_home() {
    let mut world = World::start();
    let home = |home: u8| home;
    for number in 1..=3 {
        let away = away_from([number]);
        world.phase("drained", CHANGE, &away, |world| world.drain(number));
        world.phase("no longer drained", CHANGE, &home, |world| world.undrain(number));
        world.phase("without the service", CHANGE, &away, |world| world.publish(number, false));
        world.phase("with the service again", CHANGE, &home, |world| world.publish(number, true));

        let expire = Duration::from_secs(datacenter::EXPIRE);
        let cut_off = |world: &mut World| world.net.lose(&machine(number), 100);
        let times = world.phase("cut off", expire + CHANGE, &away, cut_off);
        let [_, connected] = range(&times, |title| title == SERVICES);
        let [first, last] = range(&times, |title| ![SERVICES, UNTIL_EXPIRY].contains(&title));
        let [expired, _] = range(&times, |title| title == UNTIL_EXPIRY);
        // Whoever follows priorities waits for nobody. All others wait until the datacenter is stale, or has expired.
        assert!(connected < first && first < STALE_AFTER + CHANGE && last < expired, "{times:?}");
        // The last contact is as old as the pause between two polls, half of the time after which it is stale.
        assert!(first > STALE_AFTER / 3 && expired > expire - STALE_AFTER, "{times:?}");
        let heal = |world: &mut World| world.net.lose(&machine(number), 0);
        world.phase("back", CHANGE * 2, &home, heal);
    }
    if std::env::var_os("AGGREGATOR_WRITE_DOCS").is_some() {
        write_table("docs/steering.md", &world.table());
    }
    // Where the next one is away, too, it is the one behind.
    world.phase("1 drained", CHANGE, &away_from([1]), |world| world.drain(1));
    world.phase("3 without the service, too", CHANGE, &away_from([1, 3]), |world| world.publish(3, false));
    world.phase("3 with the service again", CHANGE, &away_from([1]), |world| world.publish(3, true));
    world.phase("1 no longer drained", CHANGE, &home, |world| world.undrain(1));
    // A server that reaches nobody sends everybody home.
    world.lose_all();
}
