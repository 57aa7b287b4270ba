//! Captured zones of CNS, served by BIND, NSD and Knot, through our daemon.
//!
//! The zones of the datacenters must come out equal to what each primary transfers, record by record; the region must
//! equal a naive merge of these transfers (`harness/merge.rs`) under both policies for names in RDATA; and both must
//! follow when a primary changes, here from one captured state of CNS to a later one.

mod harness;

use harness::*;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/captures");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cns");
const KEPT: &str = "us-west.cns.example.com.";
const REWRITTEN: &str = "us-west.rewritten.example.com.";
/// Records of a set that BIND takes by default, and that an answer from a region has by default (`docs/answers.md`).
const MOST: usize = 100;

/// Reads the captured transfer of a zone in one state.
fn read_state(zone: &str, state: &str) -> Vec<Record> {
    let path = format!("{CAPTURES}/cns-axfr-{zone}{state}.txt");
    read_capture(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

/// Reads one of the golden zones.
fn read_golden(file: &str) -> Vec<Record> {
    let path = format!("{GOLDEN}/{file}");
    read_zone(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

/// The sets of a zone, by lowercase owner and type.
fn sets(records: &[Record]) -> BTreeMap<(Dname, u16), Vec<Record>> {
    let mut sets: BTreeMap<(Dname, u16), Vec<Record>> = BTreeMap::new();
    for record in records {
        sets.entry((record.owner.lower(), record.rtype)).or_default().push(record.clone());
    }
    sets
}

/// Starts the peer with this number, counted around. BIND loads no zone with a set above its limit: NSD stands in.
fn start_peer(number: usize, folder: &Folder, zone: &Dname, records: &[Record]) -> Peer {
    let zones = [(zone.clone(), write_zone(records))];
    match number % 3 {
        0 if sets(records).values().all(|set| set.len() <= MOST) => Named::start(folder, &zones),
        2 => Knotd::start(folder, &zones),
        _ => Nsd::start(folder, &zones),
    }
}

/// The plan of a daemon: short timers, the zones with their primaries, and regions.
fn write_plan(primaries: &[(Dname, &Peer)], regions: &str) -> String {
    let mut plan = String::from(
        "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n\n[zones]\n",
    );
    for (zone, peer) in primaries {
        plan.push_str(&format!("\"{zone}\" = \"{}\"\n", peer.address()));
    }
    plan + regions
}

/// Waits until the daemon's copy of a zone is as expected; the last difference is what a failure shows.
fn wait_for_zone(daemon: &Aggregator, zone: &Dname, expected: &[Record]) {
    let mut last = String::new();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        match daemon.dump(zone).map(|dump| difference(expected, &dump)) {
            Some(None) => return,
            Some(Some(text)) => last = text,
            None => last.replace_range(.., "no data"),
        }
        if std::time::Instant::now() > deadline {
            panic!("{zone} is not as expected (left) in the daemon (right): {last}\n{}", daemon.log_text());
        }
        // Only the rhythm of asking again.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks the daemon for every RRset of a region over TCP and compares the answers.
fn assert_served(daemon: &Aggregator, records: &[Record]) {
    let sets = sets(records);
    let mut client = Client::new(daemon.address());
    let cuts: Vec<Dname> =
        sets.keys().filter(|(_, rtype)| *rtype == rtype::NS).map(|(owner, _)| owner.clone()).collect();
    let apex = records.iter().find(|record| record.rtype == rtype::SOA).expect("SOA").owner.lower();
    for ((owner, rtype), mut set) in sets {
        // A delegation is no answer, and hides what lies below it.
        if cuts.iter().any(|cut| *cut != apex && owner.is_within(cut)) {
            continue;
        }
        let answer = client.ask_tcp(&Query::new(&owner, rtype)).expect("answer");
        assert!(answer.is_authoritative() && answer.rcode() == 0, "{answer:?}");
        // An alias is followed into the zone it leads to; its own RRset comes first.
        let first = &answer.answer[..set.len().min(MOST).min(answer.answer.len())];
        if set.len() > MOST {
            // A part of it, which is as large as it may be: what is not of the set shows below.
            let answered: HashSet<Record> = first.iter().map(Record::canonical).collect();
            assert_eq!(answered.len(), MOST, "{owner} {}", type_text(rtype));
            set.retain(|record| answered.contains(&record.canonical()));
        }
        if let Some(text) = difference(&set, first) {
            panic!("{owner} {}: {text}", type_text(rtype));
        }
    }
}

/// Adds what the captures lack: equal names with unequal TTLs, conflicts, names that tempt a replacement of text.
fn add_traps(zones: &[Dname; 3], states: &mut [Vec<Record>; 3]) {
    for record in states[1].iter_mut().filter(|record| !matches!(record.rtype, rtype::SOA | rtype::NS)) {
        record.ttl = 25;
    }
    let mut long = Dname::parse("long.us-west-3.cns.example.com.");
    while long.0.len() < 255 {
        let room = (254 - long.0.len()).clamp(1, 60);
        long = long.child(&vec![b'l'; room]).expect("room for a label");
    }
    let mut add = |index: usize, text: String| {
        let origin = format!("$ORIGIN {}\n", zones[index]);
        states[index].extend(read_zone(&(origin + &text)));
    };
    add(0, "shared 30 IN A 192.0.2.1\nMixed.Case 30 IN A 192.0.2.2\nalias-or-data 30 IN CNAME target\n".into());
    add(0, "two-aliases 30 IN CNAME a\n@ 30 IN MX 10 mail\nmail 30 IN A 192.0.2.3\na 30 IN A 192.0.2.30\n".into());
    add(0, "text 30 IN TXT \"see us-west-1.cns.example.com\"\ncut 30 IN NS ns.cut\nns.cut 30 IN A 192.0.2.4\n".into());
    add(0, "dn 30 IN DNAME elsewhere.example.\nmoves 30 IN DNAME a\nunknown 30 IN TYPE65280 \\# 4 00c00c01\n".into());
    add(1, "shared 25 IN A 192.0.2.1\nmixed.CASE 25 IN A 192.0.2.5\nalias-or-data 25 IN A 192.0.2.6\n".into());
    add(1, "two-aliases 30 IN CNAME b\nx.cut 25 IN A 192.0.2.7\ny.dn 25 IN A 192.0.2.8\nb 25 IN CNAME mail\n".into());
    // Targets in another member's zone stay, whatever the policy.
    add(1, format!("other 25 IN SRV 0 10 80 mail.{}\nother 25 IN SRV 0 10 81 mail.{}\n", zones[0], zones[1]));
    add(
        1,
        "_x._tcp 25 IN PTR inst._x._tcp\ninst._x._tcp 25 IN SRV 0 0 80 mail\ninst._x._tcp 25 IN TXT \"path=/\"\n"
            .into(),
    );
    add(1, "_services._dns-sd._udp 25 IN PTR _x._tcp\nplain 25 IN PTR shared\n".into());
    add(
        2,
        format!("shared 30 IN A 192.0.2.9\n*.dev 30 IN A 192.0.2.10\nweb.{}svc.acme 30 IN A 192.0.2.11\n", zones[2]),
    );
    // Delegations: alike, different, and one within another's.
    add(0, "alike 30 IN NS ns.example.\nbeside 30 IN NS ns.beside\nns.beside 30 IN A 192.0.2.13\n".into());
    add(1, "alike 25 IN NS NS.example.\nbeside 25 IN NS ns.beside\nns.beside 25 IN A 192.0.2.14\n".into());
    add(2, "in.beside 30 IN NS ns.beside\nns.in.beside 30 IN A 192.0.2.15\n".into());
    add(2, format!("{long} 30 IN A 192.0.2.12\nshort 30 IN CNAME {long}\n"));
}

/// Three datacenters, each behind another kind of primary, and the regions of both policies.
fn follow_captures(rotation: usize) {
    let folder = Folder::new();
    let names = ["us-west-1.cns.example.com", "us-west-2.cns.example.com", "us-west-3.cns.example.com"];
    let zones = names.map(Dname::parse);
    let mut states = [read_state(names[0], ".s0"), read_state(names[1], ".s0"), read_state(names[2], ".large")];
    add_traps(&zones, &mut states);
    let peers: Vec<Peer> =
        (0..3).map(|index| start_peer(rotation + index, &folder, &zones[index], &states[index])).collect();
    let members = names.map(|name| format!("\"{name}\"")).join(", ");
    let regions = format!(
        "\n[aggregations]\n\"{KEPT}\" = [{members}]\n\n[aggregations.\"{REWRITTEN}\"]\nmembers = [{members}]\n\
         rdata_names = \"rewrite\"\nns = [\"ns2.example.com\", \"ns1.example.com\"]\n"
    );
    let primaries: Vec<_> = zones.iter().cloned().zip(&peers).collect();
    let daemon = Aggregator::start(&folder, &write_plan(&primaries, &regions));
    let kept = Region { origin: Dname::parse(KEPT), rewrite: false, servers: None, mname: Dname::parse("ns1.test.") };
    let servers = ["ns2.example.com.", "ns1.example.com."].map(Dname::parse);
    let rewritten = Region {
        origin: Dname::parse(REWRITTEN),
        rewrite: true,
        mname: servers[0].clone(),
        servers: Some(servers.to_vec()),
    };
    check_all(&daemon, &zones, &peers, &states, [&kept, &rewritten]);

    // The first datacenter goes on to a later state, and the second loses one name and gains another.
    states[0] = read_state(names[0], ".s5");
    states[2][0] = states[2][0].with_serial(states[2][0].serial().wrapping_add(1));
    states[2].push(Record::new(&zones[2].child(b"shared").expect("name"), rtype::A, 30, [192, 0, 2, 13]));
    let soa = states[1][0].with_serial(states[1][0].serial().wrapping_add(10));
    states[1][0] = soa;
    let gone = states[1].pop().expect("records").owner;
    states[1].retain(|record| record.owner != gone);
    let fresh = zones[1].child(b"fresh").expect("name");
    states[1].push(Record::new(&fresh, rtype::A, 30, [192, 0, 2, 77]));
    for index in 0..3 {
        peers[index].replace_zone(&zones[index], &states[index]);
    }
    check_all(&daemon, &zones, &peers, &states, [&kept, &rewritten]);
}

/// Compares all datacenter zones with their primaries and all regions with the naive merge.
fn check_all(daemon: &Aggregator, zones: &[Dname], peers: &[Peer], states: &[Vec<Record>], regions: [&Region; 2]) {
    let mut members = Vec::new();
    for ((zone, peer), state) in zones.iter().zip(peers).zip(states) {
        let mut client = Client::new(peer.address());
        let what = format!("{} transfers {zone} as captured", peer.name());
        wait_until(&what, Duration::from_secs(10), || {
            difference(state, &client.transfer(zone).ok()?).is_none().then_some(())
        });
        wait_for_zone(daemon, zone, state);
        members.push((zone.clone(), state.clone()));
    }
    for region in regions {
        let expected = region.merge(&members);
        wait_for_zone(daemon, &region.origin, &expected);
        assert_served(daemon, &expected);
    }
}

#[test]
fn captures_behind_bind_nsd_knot() {
    follow_captures(0);
}

#[test]
fn captures_behind_nsd_knot_bind() {
    follow_captures(1);
}

#[test]
fn captures_behind_knot_bind_nsd() {
    follow_captures(2);
}

/// The golden datacenters with the region settings that the golden regions were made for.
fn start_golden(folder: &Folder, peers: &[(Dname, Peer)], region: &str, settings: &str) -> Aggregator {
    let primaries: Vec<_> = peers.iter().map(|(zone, peer)| (zone.clone(), peer)).collect();
    let members: Vec<String> = peers.iter().map(|(zone, _)| format!("\"{zone}\"")).collect();
    let regions = format!(
        "\n[aggregations.\"{region}\"]\nmembers = [{}]\nns = [\"ns1.example.com\", \"ns2.example.com\"]\n{settings}",
        members.join(", ")
    );
    Aggregator::start(folder, &write_plan(&primaries, &regions))
}

/// A golden region with the serial that its members give it.
fn golden_region(file: &str, members: &[Vec<Record>]) -> Vec<Record> {
    let serial = members.iter().fold(0_u32, |sum, records| sum.wrapping_add(records[0].serial()));
    let mut records = read_golden(file);
    records[0] = records[0].with_serial(serial);
    records
}

/// Runs one golden region through real primaries.
fn check_golden(members: &[&str], region: &str, file: &str, settings: &str) {
    let folder = Folder::new();
    let states: Vec<Vec<Record>> = members.iter().map(|zone| read_golden(&format!("{zone}.zone"))).collect();
    let peers: Vec<(Dname, Peer)> = members
        .iter()
        .zip(&states)
        .enumerate()
        .map(|(index, (zone, state))| {
            let zone = Dname::parse(zone);
            let peer = start_peer(index, &folder, &zone, state);
            (zone, peer)
        })
        .collect();
    let daemon = start_golden(&folder, &peers, region, settings);
    for ((zone, _), state) in peers.iter().zip(&states) {
        wait_for_zone(&daemon, zone, state);
    }
    let expected = golden_region(file, &states);
    wait_for_zone(&daemon, &Dname::parse(region), &expected);
    assert_served(&daemon, &expected);
}

#[test]
fn golden_region_with_names_kept() {
    let members = ["us-west-1.cns.example.com", "us-west-2.cns.example.com"];
    check_golden(&members, "us-west.cns.example.com", "us-west.cns.example.com.keep.zone", "");
}

#[test]
fn golden_region_with_names_rewritten() {
    let members = ["us-west-1.cns.example.com", "us-west-2.cns.example.com"];
    let settings = "rdata_names = \"rewrite\"\n";
    check_golden(&members, "us-west.cns.example.com", "us-west.cns.example.com.rewrite.zone", settings);
}

#[test]
fn golden_region_of_one_member() {
    let members = ["us-east-1.cns.example.com"];
    check_golden(&members, "us-east.cns.example.com", "us-east.cns.example.com.keep.zone", "");
}

/// The naive merge itself gives the golden regions: what the other tests lean on.
#[test]
fn naive_merge_gives_the_golden_regions() {
    let names = ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-east-1.cns.example.com."];
    let members = names.map(|name| (Dname::parse(name), read_golden(&format!("{}zone", name))));
    let servers = ["ns1.example.com.", "ns2.example.com."].map(Dname::parse);
    for (members, name, policy) in
        [(&members[..2], "us-west", "keep"), (&members[..2], "us-west", "rewrite"), (&members[2..], "us-east", "keep")]
    {
        let region = Region {
            origin: Dname::parse(&format!("{name}.cns.example.com.")),
            rewrite: policy == "rewrite",
            servers: Some(servers.to_vec()),
            mname: servers[0].clone(),
        };
        let states: Vec<_> = members.iter().map(|(_, records)| records.clone()).collect();
        let expected = golden_region(&format!("{name}.cns.example.com.{policy}.zone"), &states);
        if let Some(text) = difference(&expected, &region.merge(members)) {
            panic!("{name} {policy}: golden is left, naive merge is right: {text}");
        }
    }
}

/// The peers of the harness serve, transfer and follow; without this no other test here proves anything.
#[test]
fn primaries_serve_captures_and_follow_changes() {
    let steps = [
        ("us-west-1.cns.example.com", ".s0", ".s5"),
        ("us-west-2.cns.example.com", ".s0", ".s0"),
        ("us-west-2.pub.example.net", ".s0", ".s0"),
        ("us-west-3.cns.example.com", ".large", ".large"),
    ];
    let folder = Folder::new();
    for (name, first, second) in steps {
        let zone = Dname::parse(name);
        let (before, mut after) = (read_state(name, first), read_state(name, second));
        if first == second {
            after[0] = after[0].with_serial(after[0].serial() + 1);
        }
        for number in 0..3 {
            let peer = start_peer(number, &folder, &zone, &before);
            let mut client = Client::new(peer.address());
            assert_eq!(difference(&before, &client.transfer(&zone).expect("transfer")), None, "{}", peer.name());
            peer.replace_zone(&zone, &after);
        }
    }
}
