//! Fifty generated names and what `aggregator lookup` says of them, against a derivation of its own.
//!
//! Five regions of three members each, with CNAMEs beside data and beside each other, different TTLs, records in
//! common, names in RDATA that move or stay, names that are excluded and names that are drained. Each member changes
//! once, one after the other, so records come and go. What each region must have at each moment is worked out here,
//! record by record, from the definition of a region; `lookup` must tell the same records, where each came from, what
//! became of the others, and with which version each came or went.

mod harness;

use harness::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Settings that differ from region to region.
const POLICIES: [Policy; 5] = [
    Policy { rewrite: false, excluded: None, drained: None },
    Policy { rewrite: true, excluded: None, drained: None },
    Policy { rewrite: false, excluded: Some(3), drained: Some((1, 4)) },
    Policy { rewrite: true, excluded: Some(5), drained: None },
    Policy { rewrite: true, excluded: None, drained: Some((0, 6)) },
];
const MEMBERS: usize = 3;
const NAMES: usize = 10;
/// Versions of a region: the first, and one for each member that changes.
const VERSIONS: usize = 1 + MEMBERS;
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of a region.
struct Policy {
    rewrite: bool,
    /// A name, by its number.
    excluded: Option<usize>,
    /// A member and a name of it.
    drained: Option<(usize, usize)>,
}

/// Record of a member at a name: type, TTL, and data, in which `@` stands for the member's zone.
type Entry = (&'static str, u32, String);
/// Records of a member, name by name.
type Contents = Vec<Vec<Entry>>;

/// The zone of a member.
fn zone(region: usize, member: usize) -> String {
    format!("dc{member}.r{region}.example.com.")
}

fn region(number: usize) -> String {
    format!("all.r{number}.example.com.")
}

fn label(name: usize) -> String {
    format!("n{name}.svc")
}

/// Generates the records of a member.
fn generate(random: &mut Random) -> Contents {
    let ttl = |random: &mut Random| *random.pick(&[30, 60, 300]);
    // The last names are aliases as a rule, so that members differ about them.
    let name = |random: &mut Random, name: usize| match random.below(100) {
        0..25 => Vec::new(),
        chance @ 25..100 if chance < if name > 6 { 90 } else { 40 } => {
            let target = *random.pick(&["n0.svc.@", "n7.svc.@", "gone.@", "ext.example.net.", "other.example.net."]);
            vec![("CNAME", ttl(random), target.to_owned())]
        }
        _ => {
            let mut entries = Vec::new();
            let addresses: BTreeSet<usize> = (0..random.between(1, 3)).map(|_| random.below(4)).collect();
            let shared = ttl(random);
            entries.extend(addresses.iter().map(|last| ("A", shared, format!("192.0.2.{last}"))));
            if random.chance(40) {
                entries.push(("TXT", ttl(random), format!("\"t{}\"", random.below(3))));
            }
            if random.chance(50) {
                let target = *random.pick(&["n0.svc.@", "n1.svc.@", "ext.example.net."]);
                entries.push(("SRV", ttl(random), format!("0 10 80 {target}")));
            }
            entries
        }
    };
    (0..NAMES).map(|number| name(random, number)).collect()
}

/// Region by region the members' contents, version by version, in which everything occurs that the test is about. What
/// chance leaves out, it may bring at the next throw; with which it is done depends on the seed alone.
fn generate_worlds(random: &mut Random) -> Vec<Vec<Vec<Contents>>> {
    const THROWS: usize = 1000;
    let mut worlds = (0..THROWS).map(|_| POLICIES.iter().map(|_| generate_versions(random)).collect::<Vec<_>>());
    worlds.find(|worlds| lacks(worlds).is_empty()).expect("one of many worlds has everything")
}

/// The members' contents in one region: at first, and after each of them has changed.
fn generate_versions(random: &mut Random) -> Vec<Vec<Contents>> {
    let mut members: Vec<Contents> = (0..MEMBERS).map(|_| generate(random)).collect();
    let mut versions = vec![members.clone()];
    for member in 0..MEMBERS {
        let next = generate(random);
        // Half of the names stay as they are.
        for (name, entries) in next.into_iter().enumerate() {
            if random.chance(50) {
                members[member][name] = entries;
            }
        }
        versions.push(members.clone());
    }
    versions
}

/// Returns the features that no case shows.
fn lacks(worlds: &[Vec<Vec<Contents>>]) -> Vec<&'static str> {
    let (mut words, mut is_shared, mut is_empty) = (BTreeSet::new(), false, false);
    for (number, versions) in worlds.iter().enumerate() {
        for facts in (0..NAMES).map(|name| expect(number, versions, name)) {
            is_empty |= !facts.iter().any(|fact| fact.starts_with("record"));
            // One record that several members gave.
            let given: Vec<&str> = facts.iter().filter_map(|fact| Some(fact.split_once(" from ")?.0)).collect();
            is_shared |= given.windows(2).any(|pair| pair[0] == pair[1]);
            words.extend(facts.iter().flat_map(|fact| fact.split(' ').map(str::to_owned)));
        }
    }
    const WORDS: [&str; 10] =
        ["alias-beside-data", "different-aliases", "excluded", "drained", "before", "gone", "A", "CNAME", "SRV", "TXT"];
    let mut lacks: Vec<&str> = WORDS.into_iter().filter(|word| !words.contains(*word)).collect();
    lacks.extend([("shared", is_shared), ("empty", is_empty)].iter().filter(|(_, is)| !is).map(|(word, _)| *word));
    lacks
}

/// The zone file of a member.
fn zone_text(origin: &str, serial: usize, contents: &Contents) -> String {
    let mut text =
        format!("$ORIGIN {origin}\n@ 30 IN SOA ns. h. {serial} 1 1 2592000 30\n@ 30 IN NS ns.example.net.\n");
    for (name, entries) in contents.iter().enumerate() {
        for (rtype, ttl, data) in entries {
            text.push_str(&format!("{} {ttl} IN {rtype} {}\n", label(name), data.replace('@', origin)));
        }
    }
    text
}

//--- Derivation ---

/// A record of a member on its way into the region.
#[derive(Clone, Debug)]
struct Given {
    member: usize,
    rtype: &'static str,
    ttl: u32,
    /// Record in the member's zone, and in the region.
    here: String,
    there: String,
    reason: Option<&'static str>,
}

/// Records of a region at a name.
struct Outcome {
    given: Vec<Given>,
    /// TTL by type and data.
    records: BTreeMap<(String, String), u32>,
}

/// Works out what a region has at a name.
fn derive(number: usize, members: &[Contents], name: usize) -> Outcome {
    let policy = &POLICIES[number];
    let is_excluded = |name: usize| policy.excluded == Some(name);
    let is_drained = |member: usize, name: usize| policy.drained == Some((member, name));
    let exists = |target: usize| {
        !is_excluded(target)
            && (0..MEMBERS).any(|member| !is_drained(member, target) && !members[member][target].is_empty())
    };
    let mut given = Vec::new();
    for (member, contents) in members.iter().enumerate() {
        for (rtype, ttl, data) in &contents[name] {
            let target = data.split("n").nth(1).and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
            let moves = policy.rewrite
                && match *rtype {
                    "SRV" => true,
                    "CNAME" => target.is_some_and(exists),
                    _ => false,
                };
            let origin = if moves { region(number) } else { zone(number, member) };
            let reason = match () {
                () if is_excluded(name) => Some("excluded"),
                () if is_drained(member, name) => Some("drained"),
                () => None,
            };
            let (here, there) = (data.replace('@', &zone(number, member)), data.replace('@', &origin));
            given.push(Given { member, rtype, ttl: *ttl, here, there, reason });
        }
    }
    let left = |given: &[Given], rtype: &str| given.iter().any(|one| one.reason.is_none() && one.rtype == rtype);
    if left(&given, "CNAME") && ["A", "TXT", "SRV"].iter().any(|rtype| left(&given, rtype)) {
        given
            .iter_mut()
            .filter(|one| one.rtype == "CNAME" && one.reason.is_none())
            .for_each(|one| one.reason = Some("alias-beside-data"));
    }
    let first = given.iter().find(|one| one.rtype == "CNAME" && one.reason.is_none()).map(|one| one.there.clone());
    if let Some(first) = first {
        let others = given.iter_mut().filter(|one| one.rtype == "CNAME" && one.reason.is_none() && one.there != first);
        others.for_each(|one| one.reason = Some("different-aliases"));
    }
    // An alias that gave way to another still says how long an answer may be kept.
    let counts = |one: &&Given| matches!(one.reason, None | Some("different-aliases"));
    let ttl =
        |rtype: &str| given.iter().filter(counts).filter(|one| one.rtype == rtype).map(|one| one.ttl).min().unwrap();
    let kept = given.iter().filter(|one| one.reason.is_none());
    let records = kept.map(|one| ((one.rtype.to_owned(), one.there.clone()), ttl(one.rtype))).collect();
    Outcome { given, records }
}

/// Returns the facts that `lookup` must give for a name, a line each.
fn expect(number: usize, versions: &[Vec<Contents>], name: usize) -> BTreeSet<String> {
    let outcomes: Vec<Outcome> = versions.iter().map(|members| derive(number, members, name)).collect();
    let last = outcomes.last().unwrap();
    // The sum of three serials of 1, and one more with each change.
    let serial = |version: usize| MEMBERS + version;
    let came = |key: &(String, String), until: usize| {
        let first =
            (0..=until).rev().take_while(|version| outcomes[*version].records.contains_key(key)).last().unwrap();
        if first == 0 { format!("before {}", serial(0)) } else { serial(first).to_string() }
    };
    let mut facts = BTreeSet::new();
    for (key, ttl) in &last.records {
        let (rtype, data) = key;
        facts.insert(format!("record {ttl} {rtype} {data} since {}", came(key, VERSIONS - 1)));
        for one in last.given.iter().filter(|one| one.reason.is_none() && one.rtype == rtype && one.there == *data) {
            facts.insert(format!("record {rtype} {data} from {}", tell(number, name, one)));
        }
    }
    for one in &last.given {
        if let Some(reason) = one.reason {
            facts.insert(format!("left out {} {reason}", tell(number, name, one)));
        }
    }
    let all: BTreeSet<&(String, String)> = outcomes.iter().flat_map(|outcome| outcome.records.keys()).collect();
    for key in all.into_iter().filter(|key| !last.records.contains_key(key)) {
        let until = (0..VERSIONS).rev().find(|version| outcomes[*version].records.contains_key(key)).unwrap();
        let (ttl, since) = (outcomes[until].records[key], came(key, until));
        facts.insert(format!(
            "gone {ttl} {} {} since {since} last {} gone {}",
            key.0,
            key.1,
            serial(until),
            serial(until + 1)
        ));
    }
    facts
}

/// A member's record in words.
fn tell(number: usize, name: usize, given: &Given) -> String {
    let zone = zone(number, given.member);
    format!("{zone} 2 {}.{zone} {} {} {}", label(name), given.ttl, given.rtype, given.here)
}

//--- Lookup ---

/// Returns the facts that `lookup` gives for a name, a line each.
fn read(step: &Value) -> BTreeSet<String> {
    let text = |value: &Value, key: &str| value[key].as_str().map_or_else(|| value[key].to_string(), str::to_owned);
    let list = |key: &str| step[key].as_array().unwrap().clone();
    let record = |value: &Value| format!("{} {} {}", text(value, "ttl"), text(value, "type"), text(value, "data"));
    let given = |value: &Value| {
        format!("{} {} {} {}", text(value, "zone"), text(value, "serial"), text(value, "owner"), record(value))
    };
    let since = |value: &Value| {
        let before = if value["seen"]["before"] == true { "before " } else { "" };
        assert!(value["seen"]["before"] == true || value["seen"]["at"].is_i64(), "{value}");
        format!("since {before}{}", text(&value["seen"], "serial"))
    };
    let mut facts = BTreeSet::new();
    for found in list("records") {
        facts.insert(format!("record {} {}", record(&found), since(&found)));
        for from in found["from"].as_array().unwrap() {
            facts.insert(format!("record {} {} from {}", text(&found, "type"), text(&found, "data"), given(from)));
        }
    }
    for left_out in list("left_out") {
        facts.insert(format!("left out {} {}", given(&left_out), text(&left_out, "reason")));
    }
    for gone in list("gone") {
        let (last, went) = (text(&gone, "last"), text(&gone, "gone"));
        facts.insert(format!("gone {} {} last {last} gone {went}", record(&gone), since(&gone)));
    }
    facts
}

/// The configuration of all regions.
fn plan(primary: &Peer) -> String {
    let address = primary.address();
    let mut text =
        "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"1s\"\nretry_max = \"1s\"\n".to_owned();
    for (number, policy) in POLICIES.iter().enumerate() {
        let members: Vec<String> = (0..MEMBERS).map(|member| zone(number, member)).collect();
        let excluded: Vec<String> = policy.excluded.iter().map(|name| label(*name)).collect();
        let names = if policy.rewrite { "rewrite" } else { "keep" };
        text.push_str(&format!(
            "[aggregations.\"{}\"]\nmembers = {members:?}\nns = [\"ns1.example\"]\nrdata_names = \"{names}\"\nexclude = {excluded:?}\n",
            region(number)
        ));
        if let Some((member, name)) = policy.drained {
            let member = zone(number, member);
            text.push_str(&format!("[[drains]]\nmember = \"{member}\"\nnames = \"{}\"\n", label(name)));
        }
    }
    text.push_str("[zones]\n");
    for number in 0..POLICIES.len() {
        (0..MEMBERS).for_each(|member| text.push_str(&format!("\"{}\" = \"{address}\"\n", zone(number, member))));
    }
    text
}

#[test]
fn lookup_agrees_with_a_derivation_of_its_own() {
    let seed = std::env::var("AGGREGATOR_LOOKUP_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let worlds = generate_worlds(&mut Random::new(seed, 0));
    let folder = Folder::new();
    let at = |number: usize, member: usize| Dname::parse(&zone(number, member));
    let all = || (0..POLICIES.len()).flat_map(|number| (0..MEMBERS).map(move |member| (number, member)));
    let zones = all()
        .map(|(number, member)| (at(number, member), zone_text(&zone(number, member), 1, &worlds[number][0][member])));
    let primary = Named::start(&folder, &zones.collect::<Vec<_>>());
    let daemon = Aggregator::start(&folder, &plan(&primary));
    let wait_for = |serial: usize| {
        for number in 0..POLICIES.len() {
            wait_until(&format!("region {number} has {serial}"), PATIENCE, || {
                (Client::new(daemon.address()).serial(&Dname::parse(&region(number))) == Some(serial as u32))
                    .then_some(())
            });
        }
    };
    wait_for(MEMBERS);
    for member in 0..MEMBERS {
        for (number, versions) in worlds.iter().enumerate() {
            let text = zone_text(&zone(number, member), 2, &versions[member + 1][member]);
            primary.replace_zone(&at(number, member), &read_zone(&text));
        }
        wait_for(MEMBERS + member + 1);
    }
    let mut cases = 0;
    for (number, versions) in worlds.iter().enumerate() {
        for name in 0..NAMES {
            let owner = format!("{}.{}", label(name), region(number));
            let output = daemon.verb(&["lookup", &owner, "--json"]);
            let lookup: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
            let expected = expect(number, versions, name);
            assert_eq!(
                read(&lookup["steps"][0]),
                expected,
                "seed {seed}, {owner}: {}",
                daemon.verb(&["lookup", &owner]).stdout
            );
            let is_there = expected.iter().any(|fact| fact.starts_with("record"));
            assert_eq!(lookup["steps"][0]["rcode"], if is_there { "NOERROR" } else { "NXDOMAIN" }, "{owner}");
            cases += 1;
        }
    }
    assert_eq!(cases, 50);
}
