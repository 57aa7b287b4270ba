//! Random trees of every kind of node, asked for everything: ours against the oracle with all differences, and against
//! the oracle without one of them, which must then be wrong somewhere.

use super::cases::{Case, Nodes, Outcome, our_outcome};
use super::differences::{DIFFERENCES, Rule};
use super::harness::{Dname, Query, Random, rtype};
use super::memory::Memory;
use super::oracle::{Oracle, Switch, Way};
use super::stand::Stand;
use super::world::World;
use aggregator::publish::Unknown;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

const DOMAIN: &str = "emy-10.joyent.us";
const ROOT: &str = "/us/joyent/emy-10";
const KINDS: [&str; 8] =
    ["db_host", "host", "load_balancer", "moray_host", "ops_host", "redis_host", "rr_host", "database"];
const TTLS: [&str; 16] =
    ["", "", "", "", "", "10", "45", "60", "0", "0.4", "30.7", "2147483647", "null", "4294967295", "\"60\"", "-5"];
const PORTS: [&str; 10] = ["", "", "[]", "[80]", "[80,81]", "[8080,8081,8082]", "[\"80\"]", "[70000]", "8080", "null"];
const TYPES: [&str; 4] = ["A", "SRV", "PTR", "AAAA"];
/// Of these each name is asked for one or two.
const OTHER_TYPES: [&str; 8] = ["SOA", "ANY", "TXT", "NS", "MX", "CNAME", "DS", "AXFR"];
const SIZES: [Option<u16>; 14] = [
    None,
    None,
    None,
    Some(0),
    Some(100),
    Some(511),
    Some(512),
    Some(1232),
    Some(1232),
    Some(1233),
    Some(1400),
    Some(1470),
    Some(4096),
    Some(65_535),
];

/// One tree with the names to be asked for.
struct Forest {
    nodes: Nodes,
    names: BTreeSet<String>,
}

impl Forest {
    /// Makes a tree out of chance.
    fn grow(random: &mut Random, index: u64) -> Forest {
        let mut forest = Forest { nodes: Nodes::new(), names: BTreeSet::new() };
        for path in ["/us", "/us/joyent", ROOT] {
            forest.nodes.insert(path.to_string(), b"{}".to_vec());
        }
        // One set fits into no message, others into nothing but TCP, with names beyond the reach of pointers.
        if let 0..=2 = index {
            // The last is larger than our datagrams and not than Binder's, and fits into them without the addresses.
            let members = [3000, random.between(400, 1300), 31][index as usize];
            forest.plant_members(random, members, false);
            return forest;
        }
        if index == 3 {
            forest.plant_twins();
        }
        if random.chance(20) {
            let data = if random.chance(50) { forest.service(random) } else { forest.host(random, "moray_host") };
            forest.nodes.insert(ROOT.to_string(), data);
        }
        if index % 3 == 1 {
            let members = random.between(15, 70);
            forest.plant_members(random, members, true);
        }
        if random.chance(10) {
            forest.plant(random, ROOT, "elsewhere/deep");
        }
        for number in 0..random.between(3, 12) {
            let name = name_of(random, number);
            if random.chance(45) {
                forest.plant_service(random, ROOT, &name);
            } else if random.chance(20) {
                forest.plant_below_underscores(random, &name);
            } else if random.chance(20) {
                let data = hollow(random);
                forest.put(random, ROOT, &name, data);
                for number in 0..random.between(0, 3) {
                    let child = name_of(random, number);
                    forest.plant(random, &format!("{ROOT}/{name}"), &child);
                }
            } else {
                forest.plant(random, ROOT, &name);
            }
        }
        let more = [
            DOMAIN,
            "joyent.us",
            "nonesuch.emy-10.joyent.us",
            "_http._tcp.emy-10.joyent.us",
            "no_such+one.emy-10.joyent.us",
        ];
        forest.names.extend(more.map(str::to_string));
        forest.names.extend(["in-addr.arpa", "27.172.in-addr.arpa", "9.9.9.10.in-addr.arpa"].map(str::to_string));
        forest
    }

    /// Puts a node somewhere, and its names among those to be asked for.
    fn put(&mut self, random: &mut Random, above: &str, name: &str, data: Vec<u8>) {
        let path = format!("{above}/{name}");
        let mut labels: Vec<&str> = path.split('/').filter(|label| !label.is_empty()).collect();
        labels.reverse();
        let full = labels.join(".");
        self.nodes.insert(path, data);
        let service =
            random.pick(&["_http._tcp", "_HTTP._tcp", "_http._udp", "_moray._tcp", "_a_b._tcp", "http._tcp", "_tcp"]);
        for front in
            ["_http._tcp.", "_moray._tcp.", "_tcp.", &format!("{service}."), "_x._http._tcp.", "_x._y._http._tcp.", ""]
        {
            self.names.insert(format!("{front}{full}"));
        }
        if random.chance(10) {
            self.names.insert(full.to_uppercase());
            self.names.insert(full.replace("joyent", "Joyent"));
        }
        for dotted in 1..name.split('.').count() {
            let parts: Vec<&str> = full.split('.').skip(dotted).collect();
            self.names.insert(parts.join("."));
            self.names.insert(format!("_http._tcp.{}", parts.join(".")));
        }
    }

    /// Puts a host or something broken.
    fn plant(&mut self, random: &mut Random, above: &str, name: &str) {
        let data = match random.below(100) {
            0..=74 => {
                let kind = *random.pick(&KINDS);
                self.host(random, kind)
            }
            75..=79 => self.service(random),
            80..=87 => hollow(random),
            _ => broken(random),
        };
        if name.contains('/') {
            let (first, last) = name.split_once('/').expect("a slash");
            let empty = hollow(random);
            self.put(random, above, first, empty);
            return self.put(random, &format!("{above}/{first}"), last, data);
        }
        self.put(random, above, name, data);
    }

    /// Puts a service and its children.
    fn plant_service(&mut self, random: &mut Random, above: &str, name: &str) {
        let data = self.service(random);
        self.put(random, above, name, data);
        for number in 0..random.between(0, 6) {
            let child = name_of(random, number);
            self.plant(random, &format!("{above}/{name}"), &child);
        }
    }

    /// Puts nodes below labels that look like those of SRV records, and may be those of a service above.
    fn plant_below_underscores(&mut self, random: &mut Random, name: &str) {
        let data = if random.chance(70) { self.service(random) } else { hollow(random) };
        self.put(random, ROOT, name, data);
        let outer = *random.pick(&["_tcp", "_tcp", "_u0"]);
        let inner = *random.pick(&["_http", "_http", "_u1"]);
        let above = format!("{ROOT}/{name}");
        self.plant(random, &above, outer);
        if random.chance(50) {
            self.plant_service(random, &format!("{above}/{outer}"), inner);
        } else {
            self.plant(random, &format!("{above}/{outer}"), inner);
        }
        if random.chance(30) {
            self.plant(random, &format!("{above}/{outer}/{inner}"), "_u2");
        }
    }

    /// Puts a sound service with so many members.
    fn plant_members(&mut self, random: &mut Random, members: usize, some_ports: bool) {
        let service = br#"{"type":"service","service":{"srvce":"_moray","proto":"_tcp","port":2020}}"#;
        self.put(random, ROOT, "large", service.to_vec());
        for number in 0..members {
            let ports = field("ports", random.pick::<&str>(if some_ports { &["", "[80,81]"] } else { &[""] }));
            let address = format!("10.{}.{}.1", number / 250, number % 250);
            let data = format!(r#"{{"type":"moray_host","moray_host":{{"address":"{address}"{ports}}}}}"#);
            self.nodes.insert(format!("{ROOT}/large/m{number}"), data.into_bytes());
        }
    }

    /// Puts members that have one name in DNS, which chance does not make of every seed.
    fn plant_twins(&mut self) {
        let service = br#"{"type":"service","service":{"srvce":"_http","proto":"_tcp","port":80}}"#;
        self.nodes.insert(format!("{ROOT}/twins"), service.to_vec());
        for (name, address) in [("Kid", "172.27.7.1"), ("kid", "172.27.7.2")] {
            let data = format!(r#"{{"type":"rr_host","rr_host":{{"address":"{address}"}}}}"#);
            self.nodes.insert(format!("{ROOT}/twins/{name}"), data.into_bytes());
        }
        self.names.extend(["", "kid.", "_http._tcp."].map(|front| format!("{front}twins.{DOMAIN}")));
    }

    /// A host record.
    fn host(&mut self, random: &mut Random, kind: &str) -> Vec<u8> {
        let (outer, inner) = (random.pick(&TTLS), random.pick(&TTLS));
        let ports = random.pick(&PORTS);
        if kind == "database" {
            let host = random.pick(&["172.27.1.1", "172.27.1.2", "172.27.1.3.4", "db0.emy-10.joyent.us", ""]);
            let text = format!(
                r#"{{"type":"database","database":{{"primary":"tcp://pg@{host}:5432/x"{}}}{}}}"#,
                field("ttl", inner),
                field("ttl", outer)
            );
            return text.into_bytes();
        }
        let address = match random.below(100) {
            0..=69 => format!("\"172.27.{}.{}\"", random.below(3), random.between(1, 40)),
            70..=79 => format!("\"fd00::{:x}\"", random.between(1, 40)),
            80..=81 => format!("\"172.27.9.{}/24\"", random.between(1, 9)),
            82..=83 => format!("\"172.27.9.{}.7\"", random.between(1, 9)),
            84..=85 => format!("\"172.027.009.00{}\"", random.between(1, 9)),
            86..=88 => "null".to_string(),
            89..=91 => String::new(),
            92..=94 => "7".to_string(),
            _ => "\"db0.emy-10.joyent.us\"".to_string(),
        };
        if let Ok(address) = address.trim_matches('"').parse::<std::net::Ipv6Addr>() {
            let digits = format!("{:032x}", address.to_bits());
            let own = digits.chars().rev().map(|digit| format!("{digit}.")).collect::<String>() + "ip6.arpa";
            self.names.insert(own[2..].to_string());
            self.names.insert(own);
        } else if let Some(four) = address.trim_matches('"').split('/').next().filter(|text| text.starts_with("172")) {
            let mut labels: Vec<&str> = four.split('.').collect();
            labels.reverse();
            self.names.insert(format!("{}.in-addr.arpa", labels[1..].join(".")));
            self.names.insert(format!("9.{}.in-addr.arpa", labels.join(".")));
            self.names.insert(format!("{}.in-addr.arpa", labels.join(".")));
            self.names.insert(format!("{}.IN-ADDR.arpa", labels.join(".")));
        }
        let extra = random.pick(&["", "", "", "", "", "", r#","note":"\ud800""#, r#","note":1e999"#]);
        let address = field("address", &address);
        let (ports, inner) = (field("ports", ports), field("ttl", inner));
        let fields = format!("{address}{ports}{inner}");
        let fields = fields.trim_start_matches(',');
        format!(r#"{{"type":"{kind}","{kind}":{{{fields}}}{}{extra}}}"#, field("ttl", outer)).into_bytes()
    }

    /// A service record in any nesting.
    fn service(&mut self, random: &mut Random) -> Vec<u8> {
        let ttls: Vec<String> = (0..3).map(|_| field("ttl", random.pick::<&str>(&TTLS))).collect();
        let port = field("port", random.pick::<&str>(&["80", "80", "2020", "", "\"80\""]));
        let labels = random.pick(&[
            r#""srvce":"_http","proto":"_tcp""#,
            r#""srvce":"_http","proto":"_tcp""#,
            r#""srvce":"_http","proto":"_tcp""#,
            r#""srvce":"_moray","proto":"_tcp""#,
            r#""srvce":"_Http","proto":"_TCP""#,
            r#""srvce":"_a_b","proto":"_tcp""#,
            r#""srvce":"http","proto":"tcp""#,
            r#""srvce":"_b.c","proto":"_tcp""#,
            r#""srvce":"_h\u00f6","proto":"_tcp""#,
            r#""srvce":"_","proto":"_tcp""#,
            r#""srvce":7"#,
        ]);
        let text = match random.below(20) {
            0 => r#"{"type":"service","service":[]}"#.to_string(),
            1 => r#"{"type":"service","service":{"service":[1],"srvce":"_http","proto":"_tcp","port":80}}"#.to_string(),
            2 => format!(r#"{{"type":"service","service":{{"service":null,{labels}{port}}}}}"#),
            3..=9 => format!(r#"{{"type":"service","service":{{{labels}{port}{}}}{}}}"#, ttls[0], ttls[1]),
            _ => format!(
                r#"{{"type":"service","service":{{"type":"service","service":{{{labels}{port}{}}}{}}}{}}}"#,
                ttls[0], ttls[1], ttls[2]
            ),
        };
        text.into_bytes()
    }
}

/// A member of an object, or nothing.
fn field(key: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(r#","{key}":{value}"#) }
}

/// A name in some spelling: mostly that of the tree, else as resolvers spell it that mix the case (0x20), all of it or
/// what is below the domain, which Binder takes.
fn spelled(random: &mut Random, name: &str) -> String {
    let part = match random.below(10) {
        0 => name.len(),
        1 | 2 => name.to_lowercase().strip_suffix(DOMAIN).map_or(0, str::len),
        _ => 0,
    };
    let mixed = name.char_indices().map(|(at, letter)| match at < part && random.chance(50) {
        true if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        true => letter.to_ascii_lowercase(),
        false => letter,
    });
    mixed.collect()
}

/// The name of a node.
fn name_of(random: &mut Random, number: usize) -> String {
    match random.below(100) {
        0..=3 => format!("_u{number}"),
        4..=7 => format!("host{number}.with.dots"),
        8..=10 => "Kid".to_string(),
        11..=13 => "kid".to_string(),
        14..=17 => format!("Big{number}"),
        18 => format!("sp ace{number}"),
        19 => format!("p+lus{number}"),
        20 => format!("\u{fc}ber{number}"),
        21..=22 => format!("{}{number}", "x".repeat(63)),
        23..=25 => format!("under_score{number}"),
        _ => format!("n{number}"),
    }
}

/// The data of a part of a path.
fn hollow(random: &mut Random) -> Vec<u8> {
    random.pick(&["{}", "{}", "", "null"]).as_bytes().to_vec()
}

/// Data that is no record.
fn broken(random: &mut Random) -> Vec<u8> {
    let texts: [&[u8]; 19] = [
        b" \n\t{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"172.27.8.4\"}}\n ",
        b"{\"type\":\"ops_host\",\"type\":\"host\",\"host\":{\"address\":\"172.27.8.5\",\"address\":\"172.27.8.6\"}}",
        b"{\"type\":\"host\",\"address\":\"172.27.8.7\"}",
        b"{\"type\":\"host\"",
        b" \n\t ",
        b"\"host\"",
        b"42",
        b"true",
        b"[]",
        b"[{}]",
        b"{\"type\":\"load_balancer\"}",
        b"{\"type\":\"moray_host\",\"moray_host\":null}",
        b"{\"type\":\"host\",\"host\":\"172.27.0.1\"}",
        b"{\"type\":1,\"1\":{\"address\":\"172.27.0.1\"}}",
        b"{\"type\":\"zone\",\"zone\":{\"address\":\"172.27.0.1\"}}",
        b"{\"type\":\"rr_host\",\"rr_host\":[]}",
        b"{\"type\":\"host\",\"note\":\"\xff\xfe\",\"host\":{\"address\":\"172.27.8.1\"}}",
        b"{\"type\":\"host\",\"host\":{\"address\":\"172.27.8.2\"}}\xff",
        b"\xef\xbb\xbf{\"type\":\"host\",\"host\":{\"address\":\"172.27.8.3\"}}",
    ];
    random.pick(&texts).to_vec()
}

/// Returns the oracle's answer as the table changes it, apart from the changes of its switches.
fn expected(world: &World, case: &Case, outcome: Outcome) -> Outcome {
    let Outcome::Reply(mut reply) = outcome else { return outcome };
    let by_switch = |what: &str| Switch::ALL.iter().any(|(_, other)| *other == what);
    for difference in DIFFERENCES.iter().filter(|difference| !by_switch(difference.what)) {
        if let Rule::All(change) = &difference.rule {
            change(world, case, &mut reply);
        }
    }
    Outcome::Reply(reply)
}

/// Returns true if an answer is the expected one; in a loose comparison the additional part may be incomplete.
fn agrees(ours: &Outcome, due: &Outcome, loose: bool) -> bool {
    match (ours, due) {
        (Outcome::Reply(ours), Outcome::Reply(due)) if loose => {
            let whole = super::cases::Reply { additional: ours.additional.clone(), ..due.clone() };
            *ours == whole && ours.additional.is_subset(&due.additional)
        }
        _ => ours == due,
    }
}

/// Results of a comparison.
#[derive(Default)]
pub struct Findings {
    pub faults: Vec<String>,
    /// Switches without which some answer would be wrong.
    pub needed: BTreeSet<Switch>,
    pub questions: usize,
}

/// Compares over trees out of a seed.
pub fn compare(seed: u64, trees: u64) -> Findings {
    let mut findings = Findings::default();
    // The largest come last, when little is left that has to be shown by leaving it out.
    for number in (0..trees).rev() {
        let mut random = Random::new(seed, number);
        let forest = Forest::grow(&mut random, number);
        for refuses in [true, false] {
            forest.compare(&mut random, refuses, &mut findings);
        }
    }
    findings
}

impl Forest {
    /// Asks everything and compares.
    fn compare(&self, random: &mut Random, refuses: bool, findings: &mut Findings) {
        let unknown = if refuses { Unknown::Refused } else { Unknown::NxDomain };
        let mut ours = Memory::start(DOMAIN, &self.nodes, unknown);
        let world = World::new(DOMAIN, &self.nodes, &Rc::new(HashMap::new()), refuses);
        let oracle = |without: Option<Switch>| {
            let on = Switch::ALL.map(|(switch, _)| switch).into_iter().filter(|switch| Some(*switch) != without);
            let mut oracle = Oracle::new(DOMAIN, on, refuses);
            self.nodes.iter().for_each(|(path, data)| oracle.set(path, data));
            oracle
        };
        let all = oracle(None);
        let open = Switch::ALL.into_iter().filter(|(switch, _)| !findings.needed.contains(switch));
        let others: Vec<(Switch, Oracle)> = open.map(|(switch, _)| (switch, oracle(Some(switch)))).collect();
        let can_be_asked =
            |name: &&String| name.is_ascii() && name.split('.').all(|label| (1..64).contains(&label.len()));
        for name in self.names.iter().filter(can_be_asked) {
            let more = [random.pick(&OTHER_TYPES), random.pick(&OTHER_TYPES)];
            let mut asked: Vec<(&str, Way)> = Vec::new();
            for kind in TYPES.iter().chain(more).copied() {
                // A size that is too small for the question ends Binder's process; few of them are enough.
                let edns = *random.pick(&SIZES);
                asked.push((kind, Way { tcp: kind == "AXFR" || random.chance(30), edns }));
            }
            if name.starts_with("_moray._tcp.large.") {
                asked.push(("SRV", Way { tcp: true, edns: None }));
                asked.extend([1232, 4096].map(|size| ("SRV", Way { tcp: false, edns: Some(size) })));
            }
            for (kind, way) in asked {
                let known = rtype::NAMES.iter().find(|(_, text)| *text == kind);
                let number = known.map_or(rtype::AXFR, |(number, _)| *number);
                let is_here = world.zone_of(&format!("{}.", name.to_lowercase())).is_some();
                if kind == "AXFR" && !is_here {
                    continue;
                }
                let name = &spelled(random, name);
                let mut query = Query::new(&Dname::parse(&format!("{}.", name.replace(' ', "\\032"))), number);
                query.edns = way.edns;
                let case = Case {
                    id: "random".to_string(),
                    request: query.encode(7),
                    tcp: way.tcp,
                    edns: way.edns.is_some(),
                    name: format!("{}.", name.to_lowercase()),
                    rtype: kind.to_string(),
                    outcome: Outcome::NoReply,
                    listed_of: None,
                };
                let told = all.ask(name, kind, way);
                let due = expected(&world, &case, told.outcome);
                let said = our_outcome(&case, ours.ask(&case.request, case.tcp, true).as_deref(), &due);
                findings.questions += 1;
                if !agrees(&said, &due, told.loose) {
                    findings.faults.push(format!(
                        "{name} {kind} tcp {} edns {:?} compat {refuses}\n  due: {due:?}\n  ours: {said:?}\n  of {}",
                        way.tcp,
                        way.edns,
                        self.beside(name)
                    ));
                }
                for (switch, oracle) in
                    others.iter().filter(|(switch, _)| !findings.needed.contains(switch)).collect::<Vec<_>>()
                {
                    let told = oracle.ask(name, kind, way);
                    if !agrees(&said, &expected(&world, &case, told.outcome), told.loose) {
                        findings.needed.insert(*switch);
                    }
                }
            }
        }
    }

    /// The nodes that a name may have to do with.
    fn beside(&self, name: &str) -> String {
        let label =
            name.split('.').find(|label| !label.starts_with('_') || label.starts_with("_u")).unwrap_or_default();
        let nodes = self.nodes.iter().filter(|(path, _)| path.to_lowercase().contains(&label.to_lowercase()));
        nodes.take(8).map(|(path, data)| format!("\n    {path} {}", String::from_utf8_lossy(data))).collect()
    }
}
