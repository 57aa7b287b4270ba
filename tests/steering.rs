//! Steering through the whole daemon: clients of three datacenters get their own, the next when that fails, and their own
//! again; nothing of it reaches transfers or serials; replicas and restarts agree (`docs/steering.md`).

mod harness;

use harness::*;
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const DATACENTERS: [&str; 3] = ["us-west-1.cns.example.com", "us-west-2.cns.example.com", "us-west-3.cns.example.com"];
const REGION: &str = "us-west.cns.example.com";
const PATIENCE: Duration = Duration::from_secs(30);
/// Addresses of `web` in each datacenter, and of `many`.
const WEB: usize = 3;
const MANY: usize = 40;
/// Nobody's home.
const ELSEWHERE: u8 = 9;

fn name(text: &str) -> Name {
    Name::parse(text).expect("name")
}

/// The address of an instance of a datacenter.
fn address(index: usize, number: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, index as u8 + 1, number as u8 + 1)
}

/// The zone of a datacenter; `web` has so many addresses.
fn datacenter(index: usize, serial: u32, web: usize) -> Zone {
    let owner = |labels: &str| name(&format!("{labels}.{}", DATACENTERS[index]));
    let server = name("ns1.example.com");
    let apex = Apex { mname: server.clone(), rname: name("hostmaster.example.com"), name_servers: vec![server] };
    let mut records = Vec::new();
    for number in 0..MANY {
        let target = owner(&format!("u{number}.inst.acme"));
        records.push((target.clone(), Data::A(address(index, number))));
        records.push((owner("many.svc.acme"), Data::A(address(index, number))));
        if number < web {
            records.push((owner("web.svc.acme"), Data::A(address(index, number))));
            records.push((owner("_http._tcp.web.svc.acme"), Data::Srv { priority: 0, weight: 10, port: 80, target }));
        }
    }
    records.push((owner("db.svc.acme"), Data::A(Ipv4Addr::new(10, 88, 0, index as u8 + 1))));
    records.push((owner("db.svc.acme"), Data::A(address(index, 200))));
    Zone::new(name(DATACENTERS[index]), apex, Serial(serial), records)
}

/// Primaries of the datacenters, and the beginning of a configuration.
async fn start_primaries() -> (Vec<Primary>, String) {
    let mut plan = String::from(
        "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n[zones]\n",
    );
    let mut primaries = Vec::new();
    for (index, origin) in DATACENTERS.iter().enumerate() {
        let primary = Primary::start("127.0.0.1:0".parse().expect("address")).await.expect("a primary");
        primary.publish(datacenter(index, 7, WEB));
        plan.push_str(&format!("\"{origin}\" = \"{}\"\n", primary.address()));
        primaries.push(primary);
    }
    (primaries, plan)
}

/// The rest of a configuration: clients 127.1.0.0/16 and so on, and a region that says this.
fn region(says: &str) -> String {
    let clients: String =
        (1..).zip(DATACENTERS).map(|(net, zone)| format!("\"{zone}\" = [\"127.{net}.0.0/16\"]\n")).collect();
    format!(
        "[clients]\n{clients}[aggregations.\"{REGION}\"]\nmembers = {DATACENTERS:?}\nns = [\"ns1.example.com\"]\n\
         allow_transfer = [\"127.0.0.1\"]\n{says}"
    )
}

/// A client of the datacenter of a number from 1, or of [`ELSEWHERE`].
fn client(net: u8, host: u16, server: SocketAddr) -> Client {
    let [high, low] = host.to_be_bytes();
    Client::between(IpAddr::V4(Ipv4Addr::new(127, net, high, low)), server)
}

/// The records that a client gets, in order.
fn ask(client: &mut Client, labels: &str, rtype: u16) -> Vec<Vec<u8>> {
    let query = Query::new(&Dname::parse(&format!("{labels}.{REGION}")), rtype);
    let answer = client.ask(&query).expect("an answer");
    let answer = if answer.is_truncated() { client.ask_tcp(&query).expect("an answer") } else { answer };
    assert_eq!(answer.rcode(), 0, "{labels}");
    answer.answer.into_iter().map(|record| record.rdata).collect()
}

/// The addresses of `web` that a client gets over TLS.
fn over_tls(server: SocketAddr, net: u8) -> BTreeSet<Vec<u8>> {
    let (port, source, name) = (server.port().to_string(), format!("127.{net}.0.1"), format!("web.svc.acme.{REGION}"));
    let mut kdig = Command::new("kdig");
    kdig.args(["@127.0.0.1", "-p", &port, "-b", &source, "+tls", "+short", &name, "A"]);
    let output = run_tool(&mut kdig);
    output.lines().map(|line| line.parse::<Ipv4Addr>().expect("an address").octets().to_vec()).collect()
}

/// The datacenters, from 1, whose addresses a client gets.
fn served(client: &mut Client, labels: &str) -> BTreeSet<u8> {
    ask(client, labels, rtype::A).iter().map(|rdata| rdata[2]).collect()
}

/// Waits until a client gets the addresses of a datacenter alone.
fn wait_for(client: &mut Client, what: &str, datacenter: u8) {
    wait_until(what, PATIENCE, || (served(client, "web.svc.acme") == BTreeSet::from([datacenter])).then_some(()));
}

/// Waits until a client gets nothing of a datacenter.
fn wait_for_other(client: &mut Client, datacenter: u8) {
    wait_until("the service has left", PATIENCE, || {
        (!served(client, "web.svc.acme").contains(&datacenter)).then_some(())
    });
}

/// The serial and the records of the region as secondaries get them.
fn transferred(server: SocketAddr) -> BTreeSet<String> {
    let records = Client::new(server).transfer(&Dname::parse(REGION)).expect("a transfer");
    records.iter().map(|record| format!("{record:?}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_get_their_own_datacenter_and_the_next_when_it_fails() {
    let (primaries, plan) = start_primaries().await;
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    certify(&home);
    let mut tls = Port::reserve();
    let listen = format!("tls = {{ listen = \"{}\", certificate = \"cert.pem\", key = \"key.pem\" }}\n", tls.address());
    let settings =
        |says: &str| Settings { server: listen.clone(), ..Settings::new(&format!("{plan}{}", region(says))) };
    let tls = tls.release();
    let daemon = Aggregator::start_with(&home, &settings(""));
    let server = daemon.address();
    wait_until("the region is there", PATIENCE, || Client::new(server).serial(&Dname::parse(REGION)));
    let before = transferred(server);
    let mut clients = [1, 2, 3].map(|net| client(net, 1, server));
    let everything = BTreeSet::from([1, 2, 3]);
    assert!(clients.iter_mut().all(|client| served(client, "web.svc.acme") == everything), "nobody is steered yet");
    let steering = "steering = { prefer = \"nearest\", srv = \"priority\", stale_after = \"4s\" }\n";
    daemon.write_settings(&settings(steering));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(transferred(server), before, "steering moves no serial");
    for (net, client) in (1..).zip(&mut clients) {
        assert_eq!(served(client, "web.svc.acme"), BTreeSet::from([net]));
        let query = Query::new(&Dname::parse(&format!("web.svc.acme.{REGION}")), rtype::A);
        let of = |answer: Message| answer.answer.into_iter().map(|record| record.rdata).collect::<BTreeSet<_>>();
        let (udp, tcp) = (client.ask(&query).expect("an answer"), client.ask_tcp(&query).expect("an answer"));
        let udp = of(udp);
        assert_eq!((&udp, &udp), (&of(tcp), &over_tls(tls, net)), "over all transports alike");
    }
    assert_eq!(served(&mut client(ELSEWHERE, 1, server), "web.svc.acme"), everything, "who has no home gets all");
    // Services come with priorities: home, then the next, then the last.
    let mut targets: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
    for rdata in ask(&mut clients[1], "_http._tcp.web.svc.acme", rtype::SRV) {
        let text = String::from_utf8_lossy(&rdata[6..]).to_string();
        let datacenter = DATACENTERS.iter().find(|zone| text.contains(zone.split('.').next().expect("a label")));
        targets
            .entry(u16::from_be_bytes([rdata[0], rdata[1]]))
            .or_default()
            .insert(datacenter.expect("a datacenter").to_string());
    }
    let expected = [(0, 1), (1000, 0), (2000, 2)];
    let expected = expected.map(|(priority, index)| (priority, BTreeSet::from([DATACENTERS[index].to_owned()])));
    assert_eq!(targets, BTreeMap::from(expected));

    let home = &mut clients[1];
    assert_eq!(daemon.verb(&["drain", DATACENTERS[1], "--yes"]).code, 0);
    assert_eq!(served(home, "web.svc.acme"), BTreeSet::from([1]), "drained: with the order");
    assert_eq!(daemon.verb(&["undrain", DATACENTERS[1]]).code, 0);
    assert_eq!(served(home, "web.svc.acme"), BTreeSet::from([2]), "home again");

    primaries[1].publish(datacenter(1, 8, 0));
    wait_for(home, "the service has left", 1);
    assert_eq!(served(home, "many.svc.acme"), BTreeSet::from([2]), "other services are still at home");
    primaries[1].publish(datacenter(1, 9, 1));
    wait_for(home, "the service is back", 2);

    let before = transferred(server);
    primaries[1].set_away(true);
    wait_for(home, "the datacenter is cut off", 1);
    assert_eq!(transferred(server), before, "what is stale stays in the region");
    primaries.iter().for_each(|primary| primary.set_away(true));
    wait_for(home, "all are stale", 2);
    primaries.iter().for_each(|primary| primary.set_away(false));
    wait_for(&mut clients[2], "all are back", 3);
    assert_eq!(transferred(server), before);
}

/// What operators are shown of where clients are served.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_counted_by_home_and_member() {
    let (primaries, plan) = start_primaries().await;
    let folder = Folder::new();
    let steering = "steering = { prefer = \"nearest\" }\n";
    let daemon = Aggregator::start(&folder, &format!("{plan}{}", region(steering)));
    let server = daemon.address();
    wait_until("the region is there", PATIENCE, || Client::new(server).serial(&Dname::parse(REGION)));
    let [first, second] = [DATACENTERS[0], DATACENTERS[1]];
    let count = |family: &str, home: &str, served: &str| -> Option<u64> {
        let start = format!("aggregator_{family}_total{{home=\"{home}\",region=\"{REGION}.\",served=\"{served}\"}} ");
        daemon.metrics().lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
    };
    let steered = |home: &str, served: &str| count("steered_answers", &format!("{home}."), &format!("{served}."));
    // By the home of the second datacenter, and by others.
    let expected = || ["home", "elsewhere"].map(|served| count("home_answers", &format!("{second}."), served).unwrap());
    let wait_for = |what: &str, count: &dyn Fn() -> bool| wait_until(what, PATIENCE, || count().then_some(()));
    wait_for("series are there before the first answer", &|| steered(second, second) == Some(0));
    assert_eq!((steered(second, first), expected()), (None, [0, 0]));
    let mut home = client(2, 1, server);
    let mut ask_home = |number: usize, of: u8| {
        (0..number).for_each(|_| assert_eq!(served(&mut home, "web.svc.acme"), BTreeSet::from([of])));
    };
    ask_home(5, 2);
    served(&mut client(ELSEWHERE, 1, server), "web.svc.acme");
    wait_for("answers at home are counted", &|| expected() == [5, 0] && steered(second, second) == Some(5));
    wait_for("those to strangers, too", &|| count("steered_answers", "none", "any") == Some(1));

    primaries[1].publish(datacenter(1, 8, 0));
    wait_for_other(&mut client(ELSEWHERE, 1, server), 2);
    ask_home(7, 1);
    wait_for("answers from elsewhere are counted", &|| expected() == [5, 7] && steered(second, first) == Some(7));
    assert_eq!(daemon.verb(&["drain", second, "--yes"]).code, 0);
    ask_home(4, 1);
    wait_for("what was ordered was not expected", &|| steered(second, first) == Some(11));
    assert_eq!(expected(), [5, 7]);

    // Clients that are nobody's any more leave nothing behind.
    let without = region(steering).replace(&format!("\"{second}\" = [\"127.2.0.0/16\"]\n"), "");
    daemon.write_plan(&format!("{plan}{without}"));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    wait_for("the home is gone", &|| !daemon.metrics().contains(&format!("home=\"{second}.\"")));
    assert_eq!((steered(first, first), count("steered_answers", "none", "any") >= Some(1)), (Some(0), true));
    assert!(daemon.metrics().contains(&format!("aggregator_clients_prefixes{{home=\"{first}.\"}} 1\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_shares_and_weights_have_laws_of_their_own() {
    let (_primaries, plan) = start_primaries().await;
    let folder = Folder::new();
    let says = format!(
        "steering = {{ prefer = \"nearest\", at_least = 4 }}\nweights = {{ \"{}\" = 2, \"{}\" = 0 }}\n\
         near = {{ \"{}\" = [\"{}\"] }}\naddresses = {{ home_only = [\"10.0.0.0/8\"] }}\n\
         [[aggregations.\"{REGION}\".names]]\nmatch = \"many.svc.*\"\nsteering = {{ prefer = \"order\", at_least = 1 }}\n\
         answers = {{ max = 60 }}\n",
        DATACENTERS[0], DATACENTERS[2], DATACENTERS[0], DATACENTERS[2]
    );
    let daemon = Aggregator::start(&folder, &format!("{plan}{}", region(&says)));
    let server = daemon.address();
    wait_until("the region is there", PATIENCE, || Client::new(server).serial(&Dname::parse(REGION)));
    let before = transferred(server);
    let answer = ask(&mut client(1, 1, server), "web.svc.acme", rtype::A);
    let of: Vec<u8> = answer.iter().map(|rdata| rdata[2]).collect();
    assert_eq!(of, [1, 1, 1, 3, 3, 3], "at least four: those of the nearest come, too, behind those of home");
    let all = ask(&mut client(2, 1, server), "many.svc.acme", rtype::A);
    assert_eq!(all.len(), 60);
    assert!(all[..MANY].iter().all(|rdata| rdata[2] == 2) && all[MANY..].iter().all(|rdata| rdata[2] == 1));
    // What is for clients at home only; at_least takes the others' along.
    let private = |net: u8| -> Vec<u8> {
        let answer = ask(&mut client(net, 1, server), "db.svc.acme", rtype::A);
        answer.iter().filter(|rdata| rdata[0] == 10).map(|rdata| rdata[3]).collect()
    };
    assert_eq!([private(1), private(3), private(ELSEWHERE)], [vec![1], vec![3], vec![]]);
    // Two of three to the first, one of three to the second, none to the third.
    let mut stranger = client(ELSEWHERE, 1, server);
    let mut first = BTreeMap::<u8, u32>::new();
    (0..3000).for_each(|_| *first.entry(ask(&mut stranger, "web.svc.acme", rtype::A)[0][2]).or_default() += 1);
    assert!(first[&1].abs_diff(2000) <= 100 && first[&2].abs_diff(1000) <= 100 && first.len() == 2, "{first:?}");
    // Of many clients a share goes to the next, always the same ones, and a larger share has them all.
    let away = || -> BTreeSet<u16> {
        (1..=300).filter(|host| !served(&mut client(2, *host, server), "web.svc.acme").contains(&2)).collect()
    };
    assert!(away().is_empty());
    let mut last = BTreeSet::new();
    for (share, range) in [("20%", 35..=85), ("60%", 150..=210)] {
        assert_eq!(daemon.verb(&["drain", DATACENTERS[1], "--share", share, "--yes"]).code, 0);
        let now = away();
        assert!(range.contains(&now.len()) && now.is_superset(&last), "{share}: {} of 300", now.len());
        assert_eq!(away(), now);
        last = now;
    }
    assert_eq!(transferred(server), before, "a share takes nothing out of the region");
    assert_eq!(daemon.verb(&["undrain", DATACENTERS[1]]).code, 0);
    assert!(away().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_and_restarts_give_a_client_the_same() {
    let (_primaries, plan) = start_primaries().await;
    let folder = Folder::new();
    let says = "answers = { max = 8, pick = \"client\" }\n\
                [[aggregations.\"us-west.cns.example.com\".names]]\nmatch = \"web.svc.*\"\nsteering = { prefer = \"nearest\" }\n";
    let plan = format!("{plan}{}", region(says));
    let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan) };
    let start = |folder: &Folder, home: &str| {
        let daemon = Aggregator::start_with(&folder.subfolder(home), &settings);
        let server = daemon.address();
        wait_until("the region is there", PATIENCE, || Client::new(server).serial(&Dname::parse(REGION)));
        daemon
    };
    let (mut one, other) = (start(&folder, "one"), start(&folder, "other"));
    let answers = |daemon: &Aggregator| -> Vec<[Vec<Vec<u8>>; 2]> {
        let clients = (0..200).map(|host| (1 + (host % 9) as u8, host + 1));
        let both = |(net, host)| {
            let mut client = client(net, host, daemon.address());
            ["many.svc.acme", "web.svc.acme"].map(|labels| ask(&mut client, labels, rtype::A))
        };
        clients.map(both).collect()
    };
    let before = answers(&one);
    assert!(before.iter().all(|[many, _]| many.len() == 8));
    assert!(before.iter().map(|[many, _]| many).collect::<BTreeSet<_>>().len() > 150, "clients get their own");
    assert_eq!(answers(&one), before, "a client keeps its records");
    assert_eq!(answers(&other), before, "on all replicas");
    one.kill_and_restart(|| ());
    let server = one.address();
    wait_until("the region is there again", PATIENCE, || Client::new(server).serial(&Dname::parse(REGION)));
    assert_eq!(answers(&one), before, "after a restart");
}
