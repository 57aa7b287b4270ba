//! Addresses that stay at home, through the whole daemon: two datacenters whose fabric networks are numbered alike, with
//! the filter from a reload on and from the start on, damping, a drain, and a secondary (`docs/regions.md` 33).

mod harness;

use harness::*;
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const DATACENTERS: [&str; 2] = ["us-west-1.cns.example.com", "us-west-2.cns.example.com"];
const REGION: &str = "us-west.cns.example.com";
/// Instances of the service `web` in each datacenter.
const INSTANCES: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(30);
const RULES: &str = "addresses = { exclude = [\"10.0.0.0/8\"] }\n";
const DAMPING: &str = "damping = { max_removed = \"1/3\", window = \"1h\", last = \"2h\" }\n";

fn name(text: &str) -> Name {
    Name::parse(text).expect("name")
}

/// The zone of a datacenter: instances with an address in the fabric network and one outside, and a service of those
/// that are up; beside them a host that is in the fabric network alone.
fn datacenter(index: usize, serial: u32, up: bool) -> Zone {
    let origin = DATACENTERS[index];
    let owner = |labels: &str| name(&format!("{labels}.{origin}"));
    let mut records = vec![(owner("db.svc.acme"), Data::A(Ipv4Addr::new(10, 88, 0, 200)))];
    for number in 1..=INSTANCES {
        let uuid = format!("u{index}{number}");
        let addresses =
            [Ipv4Addr::new(10, 88, index as u8, number), Ipv4Addr::new(198, 51, 100, 10 * index as u8 + number)];
        let state = if up { "" } else { "verifying:" };
        records.push((owner("web.svc.acme"), Data::Txt(format!("{state}{uuid}").into_bytes())));
        let instance = owner(&format!("{uuid}.inst.acme"));
        let target = instance.clone();
        records.push((owner("api.svc.acme"), Data::Srv { priority: 0, weight: 10, port: 443, target }));
        for address in addresses {
            records.push((instance.clone(), Data::A(address)));
            records.extend(up.then(|| (owner("web.svc.acme"), Data::A(address))));
        }
    }
    zone(index, serial, records)
}

/// A datacenter's zone of these records.
fn zone(index: usize, serial: u32, records: Vec<(Name, Data)>) -> Zone {
    let server = name("ns1.example.com");
    let apex = Apex { mname: server.clone(), rname: name("hostmaster.example.com"), name_servers: vec![server] };
    Zone::new(name(DATACENTERS[index]), apex, Serial(serial), records)
}

/// Starts primaries of these zones; returns also the beginning of a configuration.
async fn start_primaries(zones: [Zone; 2]) -> (Vec<Primary>, String) {
    let mut primaries = Vec::new();
    let mut plan = String::from("[zones]\n");
    for (zone, origin) in zones.into_iter().zip(DATACENTERS) {
        let primary = Primary::start("127.0.0.1:0".parse().expect("address")).await.expect("a primary");
        primary.publish(zone);
        plan.push_str(&format!("\"{origin}\" = \"{}\"\n", primary.address()));
        primaries.push(primary);
    }
    (primaries, plan)
}

/// The addresses of a name in what was transferred or dumped.
fn addresses(zone: &[Record], owner: &str) -> BTreeSet<Ipv4Addr> {
    let owner = Dname::parse(owner);
    let of_owner = zone.iter().filter(|record| record.owner == owner && record.rtype == rtype::A);
    of_owner.map(|record| <[u8; 4]>::try_from(&record.rdata[..]).expect("an address").into()).collect()
}

/// Returns true if a zone has any address of the fabric network.
fn has_fabric(zone: &[Record]) -> bool {
    zone.iter().any(|record| record.rtype == rtype::A && record.rdata[0] == 10)
}

/// A verb that must succeed.
fn text(output: Output) -> String {
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn fabric_addresses_stay_in_their_datacenters() {
    let (primaries, mut plan) = start_primaries([datacenter(0, 7, true), datacenter(1, 7, true)]).await;
    plan.push_str(&format!(
        "[transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n\
         [aggregations.\"{REGION}\"]\nmembers = {DATACENTERS:?}\nns = [\"ns1.example.com\"]\nmname = \"self\"\n{DAMPING}"
    ));
    let folder = Folder::new();
    let mut daemon = Aggregator::start(&folder, &plan);
    let region = Dname::parse(REGION);
    let mut client = Client::new(daemon.address());
    let web = format!("web.svc.acme.{REGION}");
    let mut settled = |members: usize| {
        wait_until("the region is there", PATIENCE, || {
            client.serial(&region)?;
            Some(client.transfer(&region).ok()?).filter(|zone| addresses(zone, &web).len() == members)
        })
    };
    let before = settled(4 * usize::from(INSTANCES));
    assert!(has_fabric(&before));
    let status = text(daemon.verb(&["status", REGION]));
    let warning = format!(
        "2 names have addresses of one private network from several members, which nobody can tell apart, such as \
         db.svc.acme.{REGION}.; leave them out with \"addresses\""
    );
    // The fabric networks are 10.88.0.0/16 in both: web and db are in both datacenters, instances in one.
    assert!(status.contains(&warning), "{status}");
    assert!(text(daemon.verb(&["status"])).contains("2 names with private addresses alike"));
    assert!(daemon.metrics().contains(&format!("aggregator_region_alike_addresses{{region=\"{REGION}.\"}} 2\n")));

    let check = text(daemon.verb(&["check"]));
    assert!(check.contains(&format!("warning: region {REGION}.: {warning}\n")), "{check}");

    // A reload leaves them out, and a secondary follows by differences.
    let mut secondary = Knotd::start_secondary(&folder, &SecondaryPlan::new(daemon.address(), &[&region]));
    secondary.wait_for_serial(&region, before[0].serial());
    let told = format!("notify = [\"{}\"]\n", secondary.address());
    let filtered = format!("{plan}{told}{RULES}");
    daemon.write_plan(&filtered);
    assert!(!text(daemon.verb(&["check"])).contains("nobody can tell apart"), "the file has the remedy");
    text(daemon.verb(&["reload"]));
    let after = settled(2 * usize::from(INSTANCES));
    assert!(!has_fabric(&after) && after[0].serial() > before[0].serial());
    secondary.wait_for_serial(&region, after[0].serial());
    assert_eq!(difference(&after, &secondary.fetch(&region)), None);
    let series = format!("aggregator_xfr_served_total{{kind=\"ixfr\",result=\"ok\",zone=\"{REGION}.\"}} 1");
    wait_until("the secondary was sent a difference", PATIENCE, || daemon.metrics().contains(&series).then_some(()));
    let others = |zone: &[Record]| -> BTreeSet<Record> {
        zone.iter().filter(|record| !matches!(record.rtype, rtype::A | rtype::SOA)).cloned().collect()
    };
    assert_eq!(others(&before), others(&after), "nothing but addresses goes");
    let mut client = Client::new(daemon.address());
    let mut ask = |labels: &str, zone: &str| {
        let reply = client.ask_tcp(&Query::new(&Dname::parse(&format!("{labels}.{zone}")), rtype::A)).expect("answer");
        (reply.rcode(), reply.answer.len())
    };
    assert_eq!((ask("db.svc.acme", REGION), ask("db.svc.acme", DATACENTERS[0])), ((3, 0), (0, 1)));
    assert_eq!((ask("api.svc.acme", REGION), ask("web.svc.acme", DATACENTERS[0])), ((0, 0), (0, 6)));

    // Operators are told each rule, and where clients get past it.
    let lookup = text(daemon.verb(&["lookup", &format!("db.svc.acme.{REGION}")]));
    let rule = "10.0.0.0/8 in \"exclude\" of \"addresses\" of the region leaves the address out";
    assert_eq!(lookup.matches(rule).count(), 2, "{lookup}");
    let status = text(daemon.verb(&["status", REGION]));
    let past = format!("  api.svc.acme.{REGION}. leads to u");
    assert!(status.contains(&past) && status.contains(" is not filtered as the region is\n"), "{status}");
    assert!(!status.contains("private"), "{status}");
    let check = text(daemon.verb(&["check"]));
    assert!(check.contains(&format!("warning: region {REGION}.: {}", past.trim_start())), "{check}");
    let json: serde_json::Value =
        serde_json::from_str(&text(daemon.verb(&["status", REGION, "--json"]))).expect("JSON");
    assert_eq!(json["regions"][0]["alike_addresses"], serde_json::Value::Null);
    assert_eq!(json["regions"][0]["unfiltered"]["name"], format!("api.svc.acme.{REGION}."));

    // All of a datacenter's health checks fail: damping holds what the region had, not what it never had.
    primaries[0].publish(datacenter(0, 8, false));
    primaries[0].notify(&name(DATACENTERS[0]), daemon.address()).await.expect("notify");
    let held = settled(4);
    assert!(!has_fabric(&held));
    secondary.wait_for_serial(&region, held[0].serial());
    assert_eq!(difference(&held, &secondary.fetch(&region)), None);
    let status = text(daemon.verb(&["status", REGION]));
    assert!(status.contains("  1 address that members have withdrawn is held; "), "{status}");

    // A drain is previewed from what the region has, and takes that.
    let preview = text(daemon.verb(&["drain", "us-west-2", "--name", "web.svc.*", "--dry-run"]));
    // Three addresses and three records of TXT.
    assert!(
        preview.contains(" 1 name changes, 6 records fewer\n    names that lose their last address: 0\n"),
        "{preview}"
    );
    text(daemon.verb(&["drain", "us-west-2", "--name", "web.svc.*", "--yes"]));
    let drained = settled(1);
    assert!(!has_fabric(&drained));
    secondary.wait_for_serial(&region, drained[0].serial());
    assert_eq!(difference(&drained, &secondary.fetch(&region)), None);

    // Other rules end what is held, for a member alone, too.
    let own = format!("{{ zone = \"{}\", addresses = {{ only = [\"10.0.0.0/8\"] }} }}", DATACENTERS[1]);
    let (all, one) = (format!("members = {DATACENTERS:?}"), format!("members = [\"{}\", {own}]", DATACENTERS[0]));
    daemon.write_plan(&filtered.replace(RULES, "").replace(&all, &one));
    text(daemon.verb(&["reload"]));
    text(daemon.verb(&["undrain", "us-west-2"]));
    let turned = settled(usize::from(INSTANCES));
    assert!(addresses(&turned, &web).iter().all(|address| address.octets()[..3] == [10, 88, 1]), "{turned:?}");
    let lookup = text(daemon.verb(&["lookup", &web]));
    let rule = format!("\"only\" of \"addresses\" of member {}. has no prefix with the address", DATACENTERS[1]);
    assert_eq!(lookup.matches(&rule).count(), usize::from(INSTANCES), "{lookup}");

    // From the start on.
    daemon.write_plan(&filtered);
    daemon.kill_and_restart(|| primaries[0].publish(datacenter(0, 9, true)));
    assert!(!has_fabric(&settled(2 * usize::from(INSTANCES))));
}

/// What a filter leaves out counts for nothing: a reload must not drain the last datacenter that gives the region anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_datacenter_of_fabric_addresses_alone_does_not_keep_a_region() {
    let fabric = (name(&format!("db.svc.acme.{}", DATACENTERS[1])), Data::A(Ipv4Addr::new(10, 88, 0, 200)));
    let (_primaries, zones) = start_primaries([datacenter(0, 7, true), zone(1, 7, vec![fabric])]).await;
    let plan = format!("{zones}[aggregations.\"{REGION}\"]\nmembers = {DATACENTERS:?}\nns = [\"ns1.example.com\"]\n");
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, &plan);
    let mut client = Client::new(daemon.address());
    wait_until("the region is there", PATIENCE, || client.serial(&Dname::parse(REGION)));
    let drain = format!("[[drains]]\nmember = \"{}\"\n", DATACENTERS[0]);
    daemon.write_plan(&format!("{plan}{RULES}{drain}"));
    let refused = daemon.verb(&["reload"]);
    assert!(refused.code != 0 && refused.stderr.contains("would be left without any data"), "{refused:?}");
    daemon.write_plan(&format!("{plan}{drain}"));
    text(daemon.verb(&["reload"]));
}
