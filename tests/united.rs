//! A reverse zone of which two datacenters have parts: both parts are answered, each primary is told its own serial,
//! and everything that a region can do the zone can do.

mod harness;
#[path = "united/many.rs"]
mod many;

use harness::{Aggregator, Client, Dname, Folder, Query, Settings, rtype, wait_until};
use serde_json::Value;
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const ZONE: &str = "2.0.192.in-addr.arpa";
/// Addresses of the primaries of the two datacenters.
const SITES: [&str; 2] = ["127.0.0.31", "127.0.0.32"];
const PATIENCE: Duration = Duration::from_secs(20);
/// Timers that bring no poll while a test runs.
const NO_POLLS: &str = "[transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n";

/// A part of the zone with one PTR record for each host.
fn part(serial: u32, hosts: &[u8]) -> Zone {
    part_with(serial, hosts.iter().map(|host| (u32::from(*host), format!("host-{host}.example"))))
}

/// A part of the zone with PTR records of hosts.
fn part_with(serial: u32, records: impl IntoIterator<Item = (u32, String)>) -> Zone {
    let name = |text: &str| Name::parse(text).unwrap();
    let apex = Apex { mname: name("ns1.example"), rname: name("h.example"), name_servers: vec![name("ns1.example")] };
    let record = |(host, target): (u32, String)| (name(&format!("{host}.{ZONE}")), Data::Ptr(name(&target)));
    Zone::new(name(ZONE), apex, Serial(serial), records.into_iter().map(record))
}

/// Two primaries and the daemon that unites what they have.
struct Scene {
    primaries: Vec<Primary>,
    daemon: Aggregator,
    _folder: Folder,
}

impl Scene {
    async fn new(parts: [Zone; 2]) -> Scene {
        let mut primaries = Vec::new();
        for (site, zone) in SITES.iter().zip(parts) {
            let primary = Primary::start(SocketAddr::new(site.parse().unwrap(), 0)).await.unwrap();
            primary.publish(zone);
            primaries.push(primary);
        }
        let folder = Folder::new();
        let member =
            |id: &str, at: usize| format!("{{ id = \"{id}\", primaries = [\"{}\"] }}", primaries[at].address());
        let plan = format!(
            "[zones.\"{ZONE}\"]\nmembers = [{}, {}]\nns = [\"ns1.example\"]\nallow_transfer = [\"127.0.0.0/8\"]\n{NO_POLLS}",
            member("west-1", 0),
            member("west-2", 1)
        );
        let listen = vec!["0.0.0.0:{port}".to_owned()];
        let settings = Settings { state: Some("state".to_owned()), listen, ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        Scene { primaries, daemon, _folder: folder }
    }

    /// A client with an address of its own.
    fn client(&self, source: &str) -> Client {
        let to = SocketAddr::from(([127, 0, 0, 1], self.daemon.address().port()));
        Client::new(to).with_source(source.parse::<IpAddr>().unwrap())
    }

    /// The serial that an address is told.
    fn serial(&self, source: &str) -> Option<u32> {
        self.client(source).serial(&Dname::parse(&format!("{ZONE}.")))
    }

    /// Returns the number of PTR records of a host.
    fn count(&self, host: u8) -> usize {
        let query = Query::new(&Dname::parse(&format!("{host}.{ZONE}.")), rtype::PTR);
        self.client("127.0.0.1").ask(&query).map_or(0, |answer| answer.answer.len())
    }

    /// Waits until the zone has a serial for everybody.
    fn await_serial(&self, serial: u32) {
        wait_until("the zone has its serial", PATIENCE, || (self.serial("127.0.0.1") == Some(serial)).then_some(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_reverse_zone_are_one_zone_and_each_primary_is_told_its_own_serial() {
    let scene = Scene::new([part(100, &[1, 2]), part(200, &[2, 3])]).await;
    scene.await_serial(300);
    assert_eq!([1, 2, 3, 4].map(|host| scene.count(host)), [1, 1, 1, 0]);
    // What a CNS asks after a transfer, from the address that we transferred from; by TCP, too.
    assert_eq!(SITES.map(|site| scene.serial(site)), [Some(100), Some(200)]);
    let soa = Query::new(&Dname::parse(&format!("{ZONE}.")), rtype::SOA);
    let told = scene.client(SITES[1]).ask_tcp(&soa).unwrap();
    assert!(told.is_authoritative() && told.answer[0].to_string().contains(" 200 "), "{:?}", told.answer);
    // Its other questions are answered as anybody's.
    let query = Query::new(&Dname::parse(&format!("1.{ZONE}.")), rtype::PTR);
    assert_eq!(scene.client(SITES[1]).ask(&query).unwrap().answer.len(), 1);

    // NOTIFY goes to the member whose source sent it, and to no other.
    scene.primaries[0].publish(part(101, &[1, 2]));
    scene.primaries[1].publish(part(201, &[3]));
    let to = SocketAddr::from(([127, 0, 0, 1], scene.daemon.address().port()));
    scene.primaries[1].notify(&Name::parse(ZONE).unwrap(), to).await.unwrap();
    scene.await_serial(301);
    assert_eq!(SITES.map(|site| scene.serial(site)), [Some(100), Some(201)]);
    assert_eq!(scene.count(2), 1, "the other member still has it");
    scene.primaries[0].publish(part(102, &[1]));
    scene.primaries[0].notify(&Name::parse(ZONE).unwrap(), to).await.unwrap();
    scene.await_serial(303);
    assert_eq!([1, 2, 3].map(|host| scene.count(host)), [1, 0, 1]);

    // Secondaries get the whole zone with its own serial, and no member is a zone to clients.
    let records = scene.client("127.0.0.1").transfer(&Dname::parse(&format!("{ZONE}."))).unwrap();
    assert_eq!(records.iter().filter(|record| record.rtype == rtype::PTR).count(), 2);
    let hidden = Query::new(&Dname::parse(&format!("1.west-1:{ZONE}.")), rtype::PTR);
    assert!(scene.client("127.0.0.1").ask(&hidden).unwrap().answer.is_empty());
    assert!(scene.client("127.0.0.1").transfer(&Dname::parse(&format!("west-1:{ZONE}."))).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_told_of_drained_and_remembered_by_their_ids() {
    let mut scene = Scene::new([part(100, &[1, 2]), part(200, &[2, 3])]).await;
    scene.await_serial(300);
    let member = |id: &str| format!("{id}:{ZONE}.");
    let status: Value = serde_json::from_str(&scene.daemon.verb(&["status", "--json"]).stdout).unwrap();
    let members: Vec<&str> = status["regions"][0]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["zone"].as_str().unwrap())
        .collect();
    assert_eq!(members, [member("west-1"), member("west-2")]);
    let lookup = scene.daemon.verb(&["lookup", &format!("2.{ZONE}"), "PTR"]).stdout;
    assert!(lookup.contains("west-1:2") && lookup.contains("west-2:2"), "{lookup}");
    for id in ["west-1", "west-2"] {
        let line = format!("aggregator_zone_serial{{zone=\"{}\"}}", member(id));
        assert!(scene.daemon.metrics().contains(&line), "{}", scene.daemon.metrics());
    }

    let drained = scene.daemon.verb(&["drain", &member("west-2"), "--yes"]);
    assert!(drained.code == 0, "{drained:?}");
    wait_until("the member is out", PATIENCE, || (scene.count(3) == 0).then_some(()));
    assert_eq!([1, 2].map(|host| scene.count(host)), [1, 1]);
    assert!(scene.daemon.verb(&["undrain", &member("west-2")]).code == 0);
    wait_until("the member is back", PATIENCE, || (scene.count(3) == 1).then_some(()));

    // After a kill everything is there from the disk, although no primary answers.
    let before = scene.serial("127.0.0.1");
    scene.primaries.iter().for_each(|primary| primary.set_away(true));
    scene.daemon.kill_and_restart(|| ());
    wait_until("the zone is back", PATIENCE, || (scene.serial("127.0.0.1") == before).then_some(()));
    assert_eq!([1, 2, 3].map(|host| scene.count(host)), [1, 1, 1]);
    assert_eq!(SITES.map(|site| scene.serial(site)), [Some(100), Some(200)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_becomes_one_of_members_by_a_reload_and_its_serial_rises() {
    let scene = Scene::new([part(4_000_000_000, &[1]), part(200, &[3])]).await;
    scene.await_serial(4_000_000_200);
    let [first, second] = [&scene.primaries[0], &scene.primaries[1]].map(Primary::address);
    let plain = format!("[zones]\n\"{ZONE}\" = \"{first}\"\n{NO_POLLS}");
    let listen = vec!["0.0.0.0:{port}".to_owned()];
    let settings =
        |plan: &str| Settings { state: Some("state".to_owned()), listen: listen.clone(), ..Settings::new(plan) };
    scene.daemon.write_settings(&settings(&plain));
    assert!(scene.daemon.verb(&["reload"]).code == 0);
    scene.await_serial(4_000_000_000);
    let united = format!(
        "[zones.\"{ZONE}\"]\nmembers = [{{ id = \"b\", primaries = [\"{second}\"] }}]\nns = [\"ns1.example\"]\n{NO_POLLS}"
    );
    scene.daemon.write_settings(&settings(&united));
    assert!(scene.daemon.verb(&["reload"]).code == 0);
    wait_until("the parts are served", PATIENCE, || (scene.count(3) == 1 && scene.count(1) == 0).then_some(()));
    let serial = scene.serial("127.0.0.1").unwrap();
    assert!(serial.wrapping_sub(4_000_000_000) < 1 << 31 && serial != 4_000_000_000, "{serial} is not newer");
}
