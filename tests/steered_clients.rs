//! Clients of several homes behind real resolvers, and beside them: each gets what is near to it, out of a cache, too, and
//! a resolver is told for whom an answer holds (RFC 7871, `docs/answers.md`).

mod harness;

use harness::*;
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const DATACENTERS: [&str; 3] =
    ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
const REGION: &str = "us-west.cns.example.com.";
const PATIENCE: Duration = Duration::from_secs(60);
/// Instances of the service in each datacenter.
const INSTANCES: u8 = 4;
/// The clients of the first and the second datacenter, a nested part that is the third's, and no others of IPv4 or IPv6.
const CLIENTS: &str = "[clients]\n\"us-west-1.cns.example.com.\" = [\"127.1.0.0/16\"]\n\
     \"us-west-2.cns.example.com.\" = [\"127.2.0.0/16\"]\n\"us-west-3.cns.example.com.\" = [\"127.2.3.0/24\"]\n";

fn name(text: &str) -> Name {
    Name::parse(text).expect("name")
}

/// Service of a zone.
fn service(zone: &str) -> String {
    format!("web.svc.acme.{zone}")
}

fn datacenter(index: usize) -> Zone {
    let origin = DATACENTERS[index];
    let address = |number: u8| Data::A(Ipv4Addr::new(198, 18, index as u8 + 1, number));
    let records = (1..=INSTANCES).map(|number| (name(&service(origin)), address(number)));
    let server = name("ns1.example.com");
    let apex = Apex { mname: server.clone(), rname: name("hostmaster.example.com"), name_servers: vec![server] };
    Zone::new(name(origin), apex, Serial(7), records)
}

/// A daemon that sends clients to the nearest of three datacenters, and what it needs.
struct World {
    daemon: Aggregator,
    folder: Folder,
    _primaries: Vec<Primary>,
}

impl World {
    async fn start() -> World {
        let (mut zones, mut primaries) = (String::from("[zones]\n"), Vec::new());
        for (index, origin) in DATACENTERS.iter().enumerate() {
            let primary = Primary::start("127.0.0.1:0".parse().expect("address")).await.expect("a primary");
            primary.publish(datacenter(index));
            zones.push_str(&format!("\"{origin}\" = \"{}\"\n", primary.address()));
            primaries.push(primary);
        }
        let region = format!(
            "[aggregations.\"{REGION}\"]\nmembers = {DATACENTERS:?}\nns = [\"ns1.example.com\"]\n\
             steering = {{ prefer = \"nearest\" }}\n"
        );
        let server = "client_subnet_from = [\"127.0.0.1\"]".to_owned();
        let settings = Settings { server, ..Settings::new(&format!("{zones}{region}{CLIENTS}")) };
        let folder = Folder::new();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        wait_until("the region is there", PATIENCE, || client.serial(&Dname::parse(REGION)));
        World { daemon, folder, _primaries: primaries }
    }

    /// Number of questions that came by UDP.
    fn asked(&self) -> u32 {
        let metrics = self.daemon.metrics();
        let count = |line: &str| line.strip_prefix("aggregator_queries_total{transport=\"udp\"} ")?.parse().ok();
        metrics.lines().find_map(count).expect("a count")
    }
}

/// The datacenters whose addresses an answer has, all of each.
fn datacenters(answer: &Message) -> Vec<u8> {
    let addresses: BTreeSet<&[u8]> = answer.answer.iter().map(|record| &record.rdata[..]).collect();
    let found: BTreeSet<u8> = addresses.iter().map(|address| address[2]).collect();
    assert_eq!(addresses.len(), found.len() * usize::from(INSTANCES), "{addresses:?}");
    found.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_of_a_resolver_gets_what_is_near_to_it() {
    let world = World::start().await;
    let owner = Dname::parse(&service(REGION));
    let all = [1, 2, 3];
    for resolver in PackagedResolver::start_telling(&world.folder, &Dname::parse(REGION), world.daemon.address()) {
        let ask = |source: &str| {
            let source: IpAddr = source.parse().expect("address");
            let answer = resolver.resolve_from(source, &owner, rtype::A).expect("answer");
            assert_eq!(answer.rcode(), 0, "{}: {source}", resolver.name());
            datacenters(&answer)
        };
        // The first one's answer must be nobody else's, though no client of its family has a home.
        for (source, expected) in [
            ("::1", &all[..]),
            ("127.9.0.1", &all),
            ("127.1.1.1", &[1]),
            ("127.2.128.1", &[2]),
            ("127.2.3.1", &[3]),
            ("127.2.2.1", &[2]),
            ("127.0.0.1", &all),
        ] {
            assert_eq!(ask(source), expected, "{}: {source}", resolver.name());
        }
        // Everybody around is answered from the cache, as far as each answer holds and no farther.
        let before = world.asked();
        for (source, expected) in [
            ("127.1.1.2", &[1][..]),
            ("127.1.200.1", &[1]),
            ("127.2.255.1", &[2]),
            ("127.2.3.200", &[3]),
            ("127.2.2.9", &[2]),
            ("127.9.7.1", &all),
        ] {
            assert_eq!(ask(source), expected, "{}: {source} from the cache", resolver.name());
        }
        assert_eq!(world.asked(), before, "{} has cached what holds for each", resolver.name());
        assert_eq!((ask("127.2.4.1"), ask("127.0.9.1")), (vec![2], all.to_vec()), "{}", resolver.name());
        assert!(world.asked() > before, "{} asks for others", resolver.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_told_for_whom_an_answer_holds() {
    let world = World::start().await;
    let (owner, origin) = (service(REGION), service(DATACENTERS[0]));
    let address = world.daemon.address();
    let run = |tool: &str, arguments: &[&str]| {
        let mut command = Command::new(program_path(tool));
        command.arg(format!("@{}", address.ip())).args(["-p", &address.port().to_string()]).args(arguments);
        let output = command.output().expect("a tool");
        assert!(output.status.success(), "{tool} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let networks = |printed: &str| -> BTreeSet<String> {
        let addresses =
            printed.lines().filter(|line| !line.starts_with(';')).filter_map(|line| line.split_whitespace().last());
        addresses.filter_map(|address| Some(address.strip_prefix("198.18.")?.split_once('.')?.0.to_owned())).collect()
    };
    let all = "1 2 3";
    for (owner, subnet, expected, scope) in [
        (&owner, "127.1.5.0/24", "1", "127.1.5.0/24/16"),
        (&owner, "127.1.0.0/16", "1", "127.1.0.0/16/16"),
        (&owner, "127.2.4.0/24", "2", "127.2.4.0/24/22"),
        (&owner, "127.2.3.77/32", "3", "127.2.3.77/32/24"),
        (&owner, "127.2.0.0/16", "2", "127.2.0.0/16/16"),
        (&owner, "192.0.2.0/24", all, "192.0.2.0/24/1"),
        (&owner, "2001:db8::/56", all, "2001:db8::/56/1"),
        (&owner, "0.0.0.0/0", all, "0.0.0.0/0/0"),
        (&origin, "127.2.4.0/24", "1", "127.2.4.0/24/0"),
    ] {
        for transport in ["+notcp", "+tcp"] {
            let printed = run("dig", &[transport, owner, "A", &format!("+subnet={subnet}")]);
            let found: Vec<String> = networks(&printed).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{subnet}: {printed}");
            // `dig` writes 0 for the address of no subnet.
            let told = scope.replace("0.0.0.0/0/0", "0/0/0");
            let line = printed.lines().find_map(|line| line.strip_prefix("; CLIENT-SUBNET: "));
            assert!(line == Some(&told) || line == Some(scope), "{subnet}: {printed}");
        }
    }
    let printed = run("kdig", &[&owner, "A", "+subnet=127.2.4.0/24"]);
    assert!(networks(&printed) == ["2".to_owned()].into() && printed.contains("127.2.4.0/24/22"), "{printed}");
    // Malformed, and from those who are not on the list.
    let printed = run("dig", &[&owner, "A", "+ednsopt=8:000118007f0100ff"]);
    assert!(printed.contains("status: FORMERR") && !printed.contains("CLIENT-SUBNET"), "{printed}");
    let printed = run("dig", &["-b", "127.1.0.9", &owner, "A", "+subnet=127.2.4.0/24"]);
    assert!(networks(&printed) == ["1".to_owned()].into() && !printed.contains("CLIENT-SUBNET"), "{printed}");
    let printed = run("dig", &["-b", "127.2.3.9", &owner, "A", "+ednsopt=8:000118007f0100ff"]);
    assert!(networks(&printed) == ["3".to_owned()].into() && printed.contains("status: NOERROR"), "{printed}");
}
