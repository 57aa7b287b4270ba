//! A zone of half a hundred members, one behind IPv6 and one that never answered: what each primary is told, and that a
//! name which many members have is right, whatever members come, go and say.

use super::harness::{Aggregator, Client, Dname, Folder, Query, Record, Settings, rtype, wait_until};
use super::{NO_POLLS, PATIENCE, ZONE, part_with};
use serde_json::Value;
use sim::primary::Primary;
use sim::zone::Zone;
use std::net::{IpAddr, SocketAddr};

/// Members with a primary that answers.
const MEMBERS: usize = 50;
/// The one with the most records under the common name.
const LARGEST: usize = 4;
/// The one whose primary is reached over IPv6.
const SIXTH: usize = 7;
/// The name that several members have records at, and how many; each has those of the smaller ones, too.
const COMMON: u32 = 200;
const COUNTS: [(usize, u32); 4] = [(1, 1), (2, 75), (3, 101), (LARGEST, 5_000)];
/// Address at which nobody answers.
const SILENT: &str = "127.0.4.1";

/// The address of a member's primary.
fn site(member: usize) -> IpAddr {
    if member == SIXTH { "::1".parse().unwrap() } else { IpAddr::from([127, 0, 3, member as u8 + 1]) }
}

/// The part of a member: a host of its own, and records at the common name.
fn member_part(member: usize, serial: u32, common: u32) -> Zone {
    let own = [(member as u32, format!("own-{member}.example"))];
    part_with(serial, own.into_iter().chain((0..common).map(|number| (COMMON, format!("host-{number}.example")))))
}

fn common_of(member: usize) -> u32 {
    COUNTS.iter().find(|(other, _)| *other == member).map_or(0, |(_, count)| *count)
}

/// The settings with these members and one that never answers.
fn settings(members: &[(usize, SocketAddr)]) -> Settings {
    let entries =
        members.iter().map(|(member, address)| format!("{{ id = \"m{member}\", primaries = [\"{address}\"] }}"));
    let silent = format!("{{ id = \"silent\", primaries = [\"{SILENT}:9\"] }}");
    let entries = entries.chain([silent]).collect::<Vec<_>>().join(",\n  ");
    let plan = format!(
        "[zones.\"{ZONE}\"]\nmembers = [\n  {entries},\n]\nns = [\"ns1.example\"]\npartial_after = \"0s\"\n\
         allow_transfer = [\"127.0.0.0/8\"]\n{NO_POLLS}"
    );
    let listen = vec!["0.0.0.0:{port}".to_owned(), "[::]:{port}".to_owned()];
    Settings { state: Some("state".to_owned()), listen, ..Settings::new(&plan) }
}

struct Crowd {
    primaries: Vec<Primary>,
    daemon: Aggregator,
    _folder: Folder,
}

impl Crowd {
    async fn new() -> Crowd {
        let mut primaries = Vec::new();
        // One more, which becomes a member later.
        for member in 0..=MEMBERS {
            let primary = Primary::start(SocketAddr::new(site(member), 0)).await.unwrap();
            primary.publish(member_part(member, 1_000 + member as u32, common_of(member)));
            primaries.push(primary);
        }
        let folder = Folder::new();
        let members: Vec<_> = (0..MEMBERS).map(|member| (member, primaries[member].address())).collect();
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings(&members));
        Crowd { primaries, daemon, _folder: folder }
    }

    /// A client with an address of its own.
    fn client(&self, source: IpAddr) -> Client {
        let here: IpAddr = if source.is_ipv6() { "::1".parse().unwrap() } else { [127, 0, 0, 1].into() };
        Client::between(source, SocketAddr::new(here, self.daemon.address().port()))
    }

    /// The response code and the serial that an address is told.
    fn told(&self, source: IpAddr) -> (u8, Option<u32>) {
        let query = Query::new(&Dname::parse(&format!("{ZONE}.")), rtype::SOA);
        let answer = self.client(source).ask(&query).unwrap();
        (answer.rcode(), answer.answer.first().map(Record::serial))
    }

    /// The records of a name, transferred with the zone.
    fn records(&self, host: u32) -> usize {
        let owner = Dname::parse(&format!("{host}.{ZONE}."));
        let records = self.client([127, 0, 0, 1].into()).transfer(&Dname::parse(&format!("{ZONE}.")));
        records.map_or(0, |records| records.iter().filter(|record| record.owner == owner).count())
    }

    /// Waits until everybody but members is told a serial.
    fn await_serial(&self, serial: u32) {
        let all = || (self.told([127, 0, 0, 1].into()) == (0, Some(serial))).then_some(());
        wait_until(&format!("the zone has serial {serial}"), PATIENCE, all);
    }

    fn verb(&self, arguments: &[&str]) -> String {
        let output = self.daemon.verb(arguments);
        assert_eq!(output.code, 0, "{arguments:?} {output:?}");
        output.stdout
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.verb(&["status", "--json"])).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_members_are_one_zone_and_each_primary_hears_of_its_own() {
    let crowd = Crowd::new().await;
    let sum = |members: &[usize]| members.iter().map(|member| 1_000 + *member as u32).sum::<u32>();
    let all: Vec<usize> = (0..MEMBERS).collect();
    crowd.await_serial(sum(&all));
    for member in 0..MEMBERS {
        assert_eq!(crowd.told(site(member)), (0, Some(1_000 + member as u32)), "{member}");
    }
    // Never the zone's own serial, which CNS would take for one that it never had.
    assert_eq!(crowd.told(SILENT.parse().unwrap()), (2, None));
    assert_eq!(crowd.records(COMMON), 5_000);

    let status = crowd.status();
    let members = status["regions"][0]["members"].as_array().unwrap();
    assert_eq!(members.len(), MEMBERS + 1);
    let state = |at: usize| (members[at]["state"].as_str().unwrap(), members[at]["serial"].as_u64());
    assert_eq!((state(3), state(MEMBERS)), (("ok", Some(1_003)), ("missing", None)));
    let lookup = crowd.verb(&["lookup", &format!("{COMMON}.{ZONE}"), "PTR"]);
    // The record that is shared by three members, and who they are.
    let mut lines = lookup.lines().skip_while(|line| !line.ends_with(" PTR host-74.example.")).skip(1);
    assert!([2, 3, LARGEST].iter().all(|member| lines.next().unwrap().trim().starts_with(&format!("m{member}:"))));
    assert!(!lines.next().unwrap().trim().starts_with('m'));
    let hosts = lookup.lines().filter(|line| line.contains(" PTR host-")).count();
    assert_eq!(hosts, 5_000);

    // Without the largest the others' records stay, those of its own go; so it is for pattern and member.
    let largest = format!("m{LARGEST}:{ZONE}");
    crowd.verb(&["drain", &largest, "--name", &COMMON.to_string(), "--yes"]);
    wait_until("the name is drained", PATIENCE, || (crowd.records(COMMON) == 101).then_some(()));
    assert_eq!(crowd.records(LARGEST as u32), 1);
    let lookup = crowd.verb(&["lookup", &format!("{COMMON}.{ZONE}"), "PTR"]);
    let told = format!("drained: {largest}. \"{COMMON}\" from all its regions");
    assert!(lookup.contains(&told), "{}", lookup.lines().last().unwrap());
    let full = crowd.daemon.verb(&["drain", &largest, "--name", &format!("{COMMON}.{ZONE}"), "--yes"]);
    assert!(full.code != 0 && full.stderr.contains("is a full name"), "{full:?}");
    crowd.verb(&["undrain", &largest, "--name", &COMMON.to_string()]);
    crowd.verb(&["drain", &largest, "--yes"]);
    wait_until("the member is drained", PATIENCE, || (crowd.records(LARGEST as u32) == 0).then_some(()));
    assert_eq!((crowd.records(COMMON), crowd.told(site(LARGEST))), (101, (0, Some(1_000 + LARGEST as u32))));
    crowd.verb(&["undrain", &largest]);
    wait_until("the member is back", PATIENCE, || (crowd.records(COMMON) == 5_000).then_some(()));

    // An order concerns one member only.
    let asked = |crowd: &Crowd| crowd.primaries.iter().map(|primary| primary.tally().whole).collect::<Vec<_>>();
    let before = asked(&crowd);
    crowd.primaries[3].publish(member_part(3, 2_003, 90));
    crowd.verb(&["retransfer", &format!("m3:{ZONE}")]);
    wait_until("its primary is told the new serial", PATIENCE, || {
        (crowd.told(site(3)) == (0, Some(2_003))).then_some(())
    });
    let more: Vec<u64> = asked(&crowd).iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!((more[3], more.iter().sum::<u64>()), (1, 1));

    // By a reload one member goes and another comes.
    let serial = crowd.told([127, 0, 0, 1].into()).1.unwrap();
    let members = (1..=MEMBERS).map(|member| (member, crowd.primaries[member].address()));
    crowd.daemon.write_settings(&settings(&members.collect::<Vec<_>>()));
    crowd.verb(&["reload"]);
    wait_until("the other member is there", PATIENCE, || (crowd.records(MEMBERS as u32) == 1).then_some(()));
    wait_until("the member has gone", PATIENCE, || (crowd.records(0) == 0).then_some(()));
    assert_eq!(crowd.told(site(MEMBERS)), (0, Some(1_000 + MEMBERS as u32)));
    let (everybody, former) = (crowd.told([127, 0, 0, 1].into()), crowd.told(site(0)));
    assert_eq!(everybody, former, "whoever is no member any more is told what everybody is");
    let after = everybody.1.unwrap();
    assert!(after.wrapping_sub(serial) < 1 << 31 && after != serial, "{serial} to {after}");
    assert_eq!(crowd.status()["regions"][0]["members"].as_array().unwrap().len(), MEMBERS + 1);
    assert_eq!(crowd.records(COMMON), 5_000);
    assert!(!crowd.daemon.log_text().contains("ERROR"), "{}", crowd.daemon.log_text());
}
