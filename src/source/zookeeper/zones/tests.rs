//! Tests of the zones that trees become, by example and by law.

use super::*;
use proptest::prelude::*;
use registrar::payload::{self, Fields, HostPayload, Payload, ServicePayload};
use std::collections::HashMap;
use std::net::IpAddr;
use wire::serial::Serial;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn plan() -> Plan {
    let soa = SoaFields {
        mname: name("ns.example.net"),
        rname: name("hostmaster.emy-10.example.com"),
        ttl: 30,
        refresh: 30,
        retry: 60,
        expire: 1_209_600,
        minimum: 30,
    };
    Plan {
        origin: name("emy-10.example.com"),
        reverse: ["27.172.in-addr.arpa", "10.27.172.in-addr.arpa", "0.0.d.f.ip6.arpa"].map(name).to_vec(),
        soa,
        ns: vec![name("ns.example.net")],
        ns_ttl: 3600,
        serial_offset: 0,
    }
}

/// A tree with its zones as they are published.
struct Site {
    tree: Tree,
    published: HashMap<Name, Arc<Zone>>,
    zxid: i64,
}

impl Site {
    fn new() -> Site {
        Site { tree: Tree::new(plan()), published: HashMap::new(), zxid: 0x3_0000_0000 }
    }

    fn with(nodes: &[(&str, &str)]) -> Site {
        let mut site = Site::new();
        nodes.iter().for_each(|(path, data)| _ = site.set(path, data));
        site.publish();
        site
    }

    fn set(&mut self, path: &str, data: &str) -> Option<PayloadError> {
        self.zxid += 1;
        self.tree.set(path, data.as_bytes().to_vec(), self.zxid)
    }

    fn remove(&mut self, path: &str) {
        self.zxid += 1;
        self.tree.remove(path);
        self.tree.note_zxid(self.zxid);
    }

    /// Publishes what is new; returns the zones with the names that changed.
    fn publish(&mut self) -> Vec<(String, Vec<String>)> {
        let zones = self.tree.zones(|zone| self.published.get(zone).cloned()).unwrap();
        let mut told = Vec::new();
        for TreeZone { zone, loaded, .. } in zones {
            let mut touched: Vec<String> = loaded.touched.iter().map(Name::to_string).collect();
            touched.sort();
            told.push((zone.to_string(), touched));
            self.published.insert(zone, Arc::new(loaded.zone));
        }
        told
    }

    /// The records at a name of the forward zone, or of the reverse zone for an address.
    fn at(&self, text: &str) -> String {
        let (zone, owner) = match text.parse::<IpAddr>() {
            Ok(address) => {
                let owner = reverse::name_of(address);
                let zone = self.published.values().filter(|zone| owner.is_within(&zone.origin));
                (zone.max_by_key(|zone| zone.origin.label_count()).unwrap(), owner)
            }
            Err(_) => (&self.published[&plan().origin], name(&format!("{text}.emy-10.example.com"))),
        };
        let Some(node) = zone.get(owner.as_wire()) else { return "-".into() };
        let sets: Vec<String> = node.rrsets().map(|rrset| format!("{rrset:?}")).collect();
        sets.join("; ").replace(".emy-10.example.com.", ".@")
    }
}

/// Numbers of nodes, by kind.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    nodes: usize,
    hosts: usize,
    services: usize,
    /// Nodes with something wrong in their newest data.
    faulty: usize,
    /// Nodes whose names are none for DNS.
    unnamed: usize,
    /// Nodes whose owner name another node has.
    shadowed: usize,
}

fn counts(tree: &Tree) -> Counts {
    let mut counts = Counts::default();
    // A place without a parent is free, but for that of the domain's node.
    for (_, node) in tree.nodes.iter().enumerate().filter(|(id, node)| *id == 0 || node.parent.is_some()) {
        counts.nodes += 1;
        counts.hosts += usize::from(matches!(node.payload, Payload::Host(_)));
        counts.services += usize::from(matches!(node.payload, Payload::Service(_)));
        counts.faulty += usize::from(node.fault.is_some());
        counts.unnamed += usize::from(node.owner.is_none());
    }
    assert_eq!(counts.nodes as u64, tree.count());
    counts.shadowed = tree.owners.values().map(|claims| claims.iter().count() - 1).sum();
    counts
}

const SERVICE: &str =
    r#"{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp","ttl":60,"port":80}}}"#;

fn member(address: &str) -> String {
    format!(r#"{{"type":"load_balancer","load_balancer":{{"address":"{address}"}}}}"#)
}

//--- Examples ---

#[test]
fn what_a_deleted_node_was_is_not_kept_for_its_successor() {
    let host = r#"{"type":"host","host":{"address":"172.27.10.9"}}"#;
    for data in ["", "nonsense"] {
        let mut site = Site::new();
        site.tree.born("a", 5);
        site.set("a", host);
        site.publish();
        let addresses = |site: &Site| {
            let node = site.published[&name("emy-10.example.com")].get(name("a.emy-10.example.com").as_wire());
            node.is_some_and(|node| node.get(wire::rr::rtype::A).is_some())
        };
        site.tree.born("a", 5);
        site.set("a", data);
        site.publish();
        assert!(addresses(&site), "the same node keeps its value");
        site.tree.born("a", 7);
        site.set("a", data);
        site.publish();
        assert!(!addresses(&site), "another node, {data:?}");
        assert!(site.tree.explain(&name("9.10.27.172.in-addr.arpa")).is_empty());
    }
}

#[test]
fn a_service_gives_addresses_srv_records_and_reverse_records() {
    let mut site = Site::with(&[
        ("web", SERVICE),
        ("web/A1", r#"{"type":"load_balancer","ttl":20,"load_balancer":{"address":"172.27.10.1","ports":[81,82]}}"#),
        ("web/a2", &member("172.27.10.2")),
        ("web/six", &member("fd00::7")),
        ("web/db", r#"{"type":"db_host","db_host":{"address":"172.27.9.3"}}"#),
    ]);
    assert_eq!(site.at("web"), "20 A [172.27.10.1] [172.27.10.2]; 60 AAAA [fd00::7]");
    assert_eq!(
        site.at("_http._tcp.web"),
        "60 SRV [0 10 80 a2.web.@] [0 10 80 six.web.@] [0 10 81 A1.web.@] [0 10 82 A1.web.@]"
    );
    assert_eq!(site.at("a1.web"), "20 A [172.27.10.1]");
    assert_eq!(site.at("a2.web"), "30 A [172.27.10.2]");
    assert_eq!(site.at("172.27.10.1"), "20 PTR [a1.web.@]");
    assert_eq!(site.at("172.27.9.3"), "30 PTR [db.web.@]");
    assert_eq!(site.at("fd00::7"), "30 PTR [six.web.@]");
    // A member without a TTL has the service's when that is smaller than the one it would have by itself.
    site.set("web", &SERVICE.replace("60", "15"));
    site.publish();
    assert_eq!(site.at("a2.web"), "15 A [172.27.10.2]");
    assert_eq!(site.at("a1.web"), "20 A [172.27.10.1]");
    assert_eq!(site.at("web"), "15 A [172.27.10.1] [172.27.10.2]; 15 AAAA [fd00::7]");
}

#[test]
fn names_without_records_exist_and_broken_records_say_why() {
    let mut site = Site::with(&[
        ("dir/host", r#"{"type":"host","host":{"address":"172.27.1.1"}}"#),
        ("empty", "{}"),
        ("null", "null"),
        ("none", ""),
        ("idle", SERVICE),
        ("broken", r#"{"type":"host","host":{"address":"db0.example.com"}}"#),
        ("text", "\"host\""),
    ]);
    assert_eq!(site.at("dir"), "");
    for path in ["empty", "null", "none", "idle"] {
        assert_eq!(site.at(path), "30 TYPE65440 [\\# 0]", "{path}");
    }
    // The mere name of a service is no host.
    assert_eq!(site.at("_http._tcp.idle"), "30 TYPE65440 [\\# 1 00]");
    assert!(site.at("broken").starts_with("30 TYPE65440 [\\# 37 "), "{}", site.at("broken"));
    assert!(site.at("text").starts_with("30 TYPE65440 [\\# "), "{}", site.at("text"));
    assert_eq!(site.at("nonesuch"), "-");
    assert_eq!(counts(&site.tree).faulty, 2);
    site.set("empty/host", r#"{"type":"host","host":{"address":"172.27.1.2"}}"#);
    site.publish();
    assert_eq!(site.at("empty"), "");
    site.remove("empty/host");
    site.publish();
    assert_eq!(site.at("empty"), "30 TYPE65440 [\\# 0]");
}

#[test]
fn odd_payloads_are_read_as_binder_reads_them() {
    let site = Site::with(&[
        ("blank", " \n\t"),
        ("list", r#"{"type":"service","service":[{"srvce":"_http"}]}"#),
        ("list/a", &member("172.27.10.1")),
        ("inner", r#"{"type":"service","ttl":9,"service":{"service":[],"srvce":"_http","proto":"_tcp","port":80}}"#),
        ("inner/a", &member("172.27.10.2")),
        ("host", r#"{"type":"host","host":["172.27.10.3"]}"#),
        ("_dir/host", &member("172.27.10.4")),
    ]);
    assert!(site.at("blank").starts_with("30 TYPE65440 [\\# 19 "), "{}", site.at("blank"));
    assert_eq!((site.at("list"), site.at("_http._tcp.list")), ("30 A [172.27.10.1]".into(), "-".into()));
    assert_eq!((site.at("inner"), site.at("_http._tcp.inner")), ("9 A [172.27.10.2]".into(), "-".into()));
    assert!(site.at("host").starts_with("30 TYPE65440 [\\# 25 "), "{}", site.at("host"));
    assert_eq!(site.at("_dir"), "30 TYPE65440 [\\# 0]");
    let mut site = Site::new();
    let zxid = site.zxid + 1;
    let data = b"{\"type\":\"host\",\"note\":\"\xff\xc3(\",\"host\":{\"address\":\"172.27.10.5\"}}";
    assert_eq!(site.tree.set("octets", data.to_vec(), zxid), None);
    site.publish();
    assert_eq!(site.at("octets"), "30 A [172.27.10.5]");
}

#[test]
fn data_that_is_no_json_leaves_the_value_before_it() {
    let mut site = Site::with(&[("web", SERVICE), ("web/a", &member("172.27.10.1"))]);
    for (data, fault) in [("{\"type", Some(PayloadError::NotJson)), ("", None), ("7", Some(PayloadError::NotObject))] {
        assert_eq!(site.set("web/a", data), fault);
        site.publish();
        assert_eq!(site.at("a.web"), "30 A [172.27.10.1]", "{data}");
    }
    assert_eq!(counts(&site.tree).faulty, 1);
    site.set("web/a", "{}");
    site.publish();
    assert_eq!((site.at("a.web"), site.at("172.27.10.1")), ("30 TYPE65440 [\\# 0]".into(), "-".into()));
    assert_eq!(site.set("web/a", "[]"), Some(PayloadError::NotObject));
    site.publish();
    assert_ne!(site.at("a.web"), "30 TYPE65440 [\\# 0]");
    // Nothing good is there to be kept.
    site.set("web/a", "");
    site.publish();
    assert_eq!(site.at("a.web"), "30 TYPE65440 [\\# 0]");
}

#[test]
fn the_ptr_record_is_that_of_a_member_then_the_first_by_name() {
    let host = |ttl: u32| format!(r#"{{"type":"host","ttl":{ttl},"host":{{"address":"172.27.10.1"}}}}"#);
    let mut site =
        Site::with(&[("aaa", &host(1)), ("b", &host(2)), ("web", SERVICE), ("web/z", &member("172.27.10.1"))]);
    assert_eq!(site.at("172.27.10.1"), "30 PTR [z.web.@]");
    // What was a service is one no more.
    site.set("web", "{}");
    site.publish();
    assert_eq!(site.at("172.27.10.1"), "1 PTR [aaa.@]");
    site.remove("aaa");
    site.publish();
    assert_eq!(site.at("172.27.10.1"), "2 PTR [b.@]");
    site.remove("b");
    site.remove("web");
    site.publish();
    assert_eq!(site.at("172.27.10.1"), "-");
    let database = r#"{"type":"database","database":{"primary":"tcp://postgres@172.27.10.9:5432/moray"}}"#;
    site.set("db", database);
    site.publish();
    assert_eq!((site.at("db").as_str(), site.at("172.27.10.9").as_str()), ("30 A [172.27.10.9]", "-"));
}

#[test]
fn names_that_differ_in_case_or_by_a_dot_have_one_winner() {
    let mut site = Site::with(&[
        ("web", SERVICE),
        ("web/kid", &member("172.27.10.1")),
        ("web/KID", &member("172.27.10.2")),
        ("a/b.c", &member("172.27.10.3")),
        ("a/c/b", &member("172.27.10.4")),
        ("Web", &member("172.27.10.5")),
    ]);
    assert_eq!(site.at("kid.web"), "30 A [172.27.10.2]");
    assert_eq!(site.at("b.c.a"), "30 A [172.27.10.3]");
    assert_eq!(site.at("web"), "30 A [172.27.10.5]");
    assert_eq!(counts(&site.tree).shadowed, 3);
    site.remove("Web");
    site.remove("web/KID");
    site.publish();
    assert_eq!(site.at("web"), "60 A [172.27.10.1]");
    assert_eq!(site.at("_http._tcp.web"), "60 SRV [0 10 80 kid.web.@]");
    assert_eq!(site.at("172.27.10.5"), "-");
    assert_eq!(counts(&site.tree).shadowed, 1);
}

#[test]
fn names_that_dns_does_not_have_are_left_out() {
    let long = "x".repeat(64);
    let mut site = Site::with(&[("web", SERVICE), (&format!("web/{long}"), &member("172.27.10.1"))]);
    for path in ["sp ace", "plus+one", "a..b", "ü", ".", "sp ace/below"] {
        site.set(path, r#"{"type":"host","host":{"address":"172.27.10.9"}}"#);
    }
    site.publish();
    assert_eq!(counts(&site.tree).unnamed, 7);
    assert_eq!((site.at("172.27.10.9").as_str(), site.at("web").as_str()), ("-", "60 A [172.27.10.1]"));
    assert_eq!(site.at("_http._tcp.web"), "30 TYPE65440 [\\# 1 00]");
    assert_eq!(site.published[&plan().origin].names(), 4);
}

#[test]
fn serials_follow_the_newest_transaction_in_all_zones() {
    let mut site = Site::with(&[("web", SERVICE), ("web/a", &member("172.27.10.1"))]);
    let serials = |site: &Site| {
        let mut serials: Vec<u32> = site.published.values().map(|zone| zone.soa.serial.0).collect();
        serials.dedup();
        serials
    };
    assert_eq!(serials(&site), [(3 << 28) + 2]);
    assert_eq!(site.publish(), []);
    // A change that only the forward zone shows.
    site.set("dir", "{}");
    let told: Vec<String> = site.publish().into_iter().map(|(zone, names)| format!("{zone} {}", names.len())).collect();
    assert_eq!(
        told,
        ["emy-10.example.com. 2", "27.172.in-addr.arpa. 1", "10.27.172.in-addr.arpa. 1", "0.0.d.f.ip6.arpa. 1"]
    );
    assert_eq!(serials(&site), [(3 << 28) + 3]);
    // The second part of one transaction.
    site.zxid -= 1;
    site.set("other", "{}");
    site.publish();
    assert_eq!(site.published[&plan().origin].soa.serial, Serial((3 << 28) + 4));
    site.zxid += 7;
    site.set("third", "{}");
    site.publish();
    assert_eq!(serials(&site), [(3 << 28) + 11]);
}

#[test]
fn a_restart_keeps_the_version_and_an_ensemble_anew_does_not_turn_serials_back() {
    let nodes = [("web", SERVICE), ("web/a", &member("172.27.10.1"))];
    let before = Site::with(&nodes);
    let start = |zxid: i64, extra: Option<&str>| {
        let mut site = Site { published: before.published.clone(), zxid, ..Site::new() };
        nodes.iter().for_each(|(path, data)| _ = site.set(path, data));
        extra.into_iter().for_each(|path| _ = site.set(path, ""));
        let told = site.publish();
        (site, told)
    };
    let serial = |site: &Site| site.published[&plan().origin].soa.serial.0.wrapping_sub(3 << 28);
    let (site, told) = start(0x3_0000_0000, None);
    assert_eq!((serial(&site), told.len()), (2, 0));
    let (mut site, told) = start(0x1_0000_0000, None);
    assert_eq!((serial(&site), told.len()), (2, 0));
    site.set("web", "{}");
    site.publish();
    assert_eq!(serial(&site), 3);
    let (mut site, _) = start(0x1_0000_0000, Some("new"));
    assert_eq!(serial(&site), 3);
    site.zxid += 4;
    site.set("newer", "");
    assert_eq!(site.publish().len(), 4);
    assert_eq!(serial(&site), 8);
    let (site, told) = start(0x3_0000_0010, None);
    assert_eq!((serial(&site), told[0].1.len()), (18, 1));
}

#[test]
fn a_version_that_was_not_published_is_made_again() {
    let mut site = Site::with(&[("web", SERVICE)]);
    site.set("lost", "{}");
    let kept = site.published.clone();
    site.publish();
    site.published = kept;
    site.set("later", "{}");
    site.publish();
    assert_eq!(site.at("lost"), "30 TYPE65440 [\\# 0]");
    assert_eq!(site.at("later"), "30 TYPE65440 [\\# 0]");
}

#[test]
fn the_domain_node_can_be_a_service_and_goes_with_everything() {
    let mut site = Site::with(&[("", SERVICE), ("a", &member("172.27.10.1"))]);
    let origin = plan().origin;
    assert!(site.published[&origin].apex().get(wire::rr::rtype::A).is_some());
    assert_eq!(site.at("_http._tcp"), "60 SRV [0 10 80 a.@]");
    site.remove("");
    site.publish();
    assert_eq!(site.published[&origin].records, 2);
    assert_eq!(counts(&site.tree), Counts { nodes: 1, ..Counts::default() });
    assert_eq!((site.tree.contains("a"), site.tree.contains("")), (false, true));
}

#[test]
fn a_name_is_explained_by_its_nodes() {
    let site = Site::with(&[
        ("web", SERVICE),
        ("web/a", &member("172.27.10.1")),
        ("web/bad", "{"),
        ("alias", &member("172.27.10.1")),
        ("web/dir", "{}"),
        ("web/one", r#"{"type":"host","host":{"address":"172.27.10.6"}}"#),
        ("web/two", r#"{"type":"db_host","db_host":{"address":"172.27.10.7"}}"#),
        ("web/url", r#"{"type":"database","database":{"primary":"tcp://172.27.10.8:1/x"}}"#),
        ("web/own", SERVICE),
        ("web/Z", &member("172.27.10.9")),
        ("web/z", &member("172.27.10.10")),
    ]);
    let explain = |text: &str| {
        let told = site.tree.explain(&name(text));
        told.into_iter().map(|told| format!("{}: {}", told.path, told.role)).collect::<Vec<_>>()
    };
    assert_eq!(
        explain("web.emy-10.example.com"),
        [
            "web: service with TTL 60",
            "web/Z: member with address 172.27.10.9, TTL at most 60",
            "web/a: member with address 172.27.10.1, TTL at most 60",
            "web/bad: no member: the data is no JSON",
            "web/one: no member: hosts of type \"host\" are answered by name only",
            "web/own: no member: a service of its own",
            "web/two: no member: hosts of type \"db_host\" are answered by name only",
            "web/url: no member: hosts of type \"database\" are answered by name only",
            "web/z: no member: another node has the same name in DNS",
        ]
    );
    assert_eq!(
        explain("_http._tcp.web.emy-10.example.com"),
        [
            "web: service with SRV records of TTL 60",
            "web/Z: target Z, port 80 of the service",
            "web/a: target a, port 80 of the service"
        ]
    );
    assert_eq!(
        explain("1.10.27.172.in-addr.arpa"),
        [
            "web/a: named by the PTR record, TTL 30 (it names none)",
            "alias: has the address, but another node has the PTR record"
        ]
    );
    assert_eq!(explain("bad.web.emy-10.example.com"), ["web/bad: SERVFAIL: the data is no JSON"]);
    assert_eq!(explain("nonesuch.emy-10.example.com"), <[String; 0]>::default());
}

#[test]
fn paths_and_reverse_names() {
    assert_eq!(path_of(&name("EMY-10.example.com")), "/com/example/emy-10");
    let origin = |address: &str, bits| reverse::origin_of(address.parse().unwrap(), bits).map(|name| name.to_string());
    assert_eq!(origin("172.27.0.0", 16).as_deref(), Some("27.172.in-addr.arpa."));
    assert_eq!(origin("fd00::", 12).as_deref(), Some("0.d.f.ip6.arpa."));
    assert_eq!(origin("0.0.0.0", 0).as_deref(), Some("in-addr.arpa."));
    assert_eq!((origin("172.27.0.0", 12), origin("fd00::", 9), origin("10.0.0.0", 33)), (None, None, None));
    for address in ["172.27.0.9", "fd00::17"] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(reverse::address_of(&reverse::name_of(address)), Some(address));
    }
    assert_eq!(reverse::address_of(&name("062.010.027.172.in-addr.arpa")), None);
    assert_eq!(reverse::address_of(&name("27.172.in-addr.arpa")), None);
}

#[test]
fn payloads_are_written_as_registrar_writes_them() {
    let host = HostPayload {
        kind: "load_balancer".into(),
        address: "172.27.10.72".into(),
        ttl: Some(30.into()),
        ports: Some(vec![80.into(), 443.into()]),
    };
    let text = r#"{"type":"load_balancer","address":"172.27.10.72","ttl":30,"load_balancer":{"address":"172.27.10.72","ports":[80,443]}}"#;
    assert_eq!(host.to_json(), text);
    let bare = HostPayload { ttl: None, ports: None, ..host };
    assert_eq!(
        bare.to_json(),
        r#"{"type":"load_balancer","address":"172.27.10.72","load_balancer":{"address":"172.27.10.72"}}"#
    );
    let fields = |entries: Vec<(&str, serde_json::Value)>| {
        Fields(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    };
    let ports = vec![("srvce", "_http".into()), ("proto", "_tcp".into()), ("port", 80.into())];
    let service = fields([ports, vec![("x", vec![1].into()), ("ttl", 60.into())]].concat());
    let block = fields(vec![("type", "service".into())]);
    assert_eq!(
        ServicePayload { block, service }.to_json(),
        r#"{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp","port":80,"x":[1],"ttl":60}}}"#
    );
    assert!(matches!(payload::read(text.as_bytes()).payload, Some(Payload::Host(_))));
}

//--- Laws ---

/// Paths that meet each other in every way: below one another, in other cases, with dots, without names.
const PATHS: [&str; 16] = [
    "",
    "web",
    "Web",
    "web/a",
    "web/A",
    "web/b.c",
    "web/c/b",
    "web/c",
    "b.c.web",
    "_tcp",
    "web/_tcp/_http",
    "dir/x",
    "dir",
    "sp ace/x",
    "web/sp ace",
    "dir/x/y",
];

/// Data of every kind.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let address = prop::sample::select(vec!["172.27.10.1", "172.27.10.2", "172.27.9.1", "fd00::1", "10.0.0.1", "no"]);
    let kind = prop::sample::select(vec!["load_balancer", "host", "rr_host", "db_host", "zone"]);
    let ttl = prop::sample::select(vec!["", r#""ttl":10,"#, r#""ttl":0,"#, r#""ttl":"x","#, r#""ttl":99,"#]);
    let ports = prop::sample::select(vec!["", r#","ports":[80,81]"#, r#","ports":[]"#, r#","ports":["80"]"#]);
    let host = (kind, address, ttl.clone(), ports).prop_map(|(kind, address, ttl, ports)| {
        format!(r#"{{"type":"{kind}",{ttl}"{kind}":{{"address":"{address}"{ports}}}}}"#).into_bytes()
    });
    let service = (ttl, prop::sample::select(vec!["_http", "_HTTP", "http", "_x"])).prop_map(|(ttl, srvce)| {
        format!(r#"{{"type":"service","service":{{"srvce":"{srvce}","proto":"_tcp",{ttl}"port":1}}}}"#).into_bytes()
    });
    let other = prop::sample::select(vec!["", "{}", "null", "[]", "7", "{", r#"{"type":"service"}"#, r#"{"type":7}"#]);
    let database = Just(br#"{"type":"database","database":{"primary":"tcp://u@172.27.10.1:5432/x"}}"#.to_vec());
    prop_oneof![
        4 => host, 3 => service, 2 => other.prop_map(|text| text.as_bytes().to_vec()), 1 => database,
        1 => prop::collection::vec(any::<u8>(), 0..20)
    ]
}

/// One edit: a node's data, or its removal.
fn edit() -> impl Strategy<Value = (&'static str, Option<Vec<u8>>)> {
    (prop::sample::select(PATHS.to_vec()), prop::option::weighted(0.8, data()))
}

fn make(site: &mut Site, (path, data): &(&str, Option<Vec<u8>>)) {
    site.zxid += 1;
    match data {
        Some(data) => _ = site.tree.set(path, data.clone(), site.zxid),
        None => {
            site.tree.remove(path);
            site.tree.note_zxid(site.zxid);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]

    /// Versions made change by change are those that are made at once.
    #[test]
    fn incremental_is_full(edits in prop::collection::vec((edit(), any::<bool>()), 1..40)) {
        let mut site = Site::new();
        let mut whole = Site::new();
        for (index, (change, publish)) in edits.iter().enumerate() {
            make(&mut site, change);
            make(&mut whole, change);
            if !*publish && index + 1 < edits.len() {
                continue;
            }
            let before = site.published.clone();
            site.publish();
            whole.published.clear();
            whole.tree.versions.clear();
            whole.publish();
            for (zone, made) in &site.published {
                prop_assert_eq!(&**made, &*whole.published[zone]);
                prop_assert_eq!(made.records, whole.published[zone].records);
                let Some(old) = before.get(zone) else { continue };
                prop_assert!(made.soa.serial.newer_than(old.soa.serial));
            }
        }
        prop_assert_eq!(counts(&site.tree), counts(&whole.tree));
    }

    /// Names told as touched are exactly those that changed.
    #[test]
    fn touched_names_are_those_that_changed(edits in prop::collection::vec(edit(), 1..30)) {
        let mut site = Site::new();
        site.publish();
        for change in &edits {
            make(&mut site, change);
            let before = site.published.clone();
            for TreeZone { zone, loaded, base } in site.tree.zones(|zone| before.get(zone).cloned()).unwrap() {
                let old = base.unwrap();
                let differs = |name: &Name| {
                    let rrsets = |zone: &Zone| zone.get(name.as_wire()).map(|node| node.to_rrsets()).unwrap_or_default();
                    rrsets(&old) != rrsets(&loaded.zone)
                };
                let mut changed: Vec<Name> = old.iter().chain(loaded.zone.iter()).map(|(name, _)| name)
                    .filter(differs).collect();
                let mut touched = loaded.touched.clone();
                for names in [&mut changed, &mut touched] {
                    names.sort_by(Name::canonical_cmp);
                }
                changed.dedup();
                prop_assert_eq!(touched, changed);
                site.published.insert(zone, Arc::new(loaded.zone));
            }
        }
    }

    /// Nodes give the same zones in whatever order they come.
    #[test]
    fn order_does_not_matter(
        nodes in prop::collection::btree_map(prop::sample::select(PATHS.to_vec()), data(), 1..12),
        order in any::<prop::sample::Index>(),
    ) {
        let load = |nodes: Vec<(&&str, &Vec<u8>)>| {
            let mut site = Site::new();
            nodes.into_iter().for_each(|(path, data)| _ = site.tree.set(path, data.clone(), 9));
            site.publish();
            (site.published, counts(&site.tree))
        };
        let (forward, counts) = load(nodes.iter().collect());
        let (backward, other) = load(nodes.iter().rev().collect());
        let mut turned: Vec<_> = nodes.iter().collect();
        turned.rotate_left(order.index(nodes.len()));
        let (turned, _) = load(turned);
        prop_assert_eq!(&forward, &backward);
        prop_assert_eq!(&forward, &turned);
        prop_assert_eq!(counts, other);
    }

    /// No data and no path is too odd.
    #[test]
    fn nothing_is_too_odd(path in "\\PC{0,80}", data: Vec<u8>, text in "\\PC{0,60}") {
        let mut site = Site::new();
        site.tree.set(&path, data, i64::MIN);
        site.tree.set(&text, path.as_bytes().to_vec(), i64::MAX);
        let record = format!(r#"{{"type":"database","database":{{"primary":{text:?},"ttl":{text:?}}}}}"#);
        site.tree.set("a", record.as_bytes().to_vec(), 1);
        site.tree.set("b", record.replace("database", "host").replace("primary", "address").into_bytes(), 1);
        site.publish();
        site.tree.remove(&path);
        site.publish();
    }
}

#[test]
fn the_memory_of_nodes_is_known_before_and_given_back_after() {
    let mut tree = Tree::new(plan());
    let host = |pad: usize| {
        format!(r#"{{"type":"host","host":{{"address":"172.27.10.1"}},"x":"{}"}}"#, "x".repeat(pad)).into_bytes()
    };
    let nodes = [("", 0), ("a", 10), ("a/b", 5000), ("a/b/c.d", 0), ("a/b/not a name", 7)];
    nodes.iter().for_each(|(path, pad)| _ = tree.set(path, host(*pad), 1));
    let others = nodes[1..4].iter().map(|(path, pad)| tree.octets_of(path, &host(*pad))).sum::<u64>();
    // What has no owner takes less.
    let most = others + tree.octets_of("a/b/not a name", &host(7)) + host(0).len() as u64;
    assert!(tree.octets() > others && tree.octets() < most, "{others} < {} < {most}", tree.octets());
    // Other data, and none.
    let before = tree.octets();
    tree.set("a", br#"{"type":"host","host":{"address":"172.27.10.1","ports":[1,2,3]}}"#.to_vec(), 2);
    assert_ne!(tree.octets(), before);
    tree.set("a", host(10), 3);
    assert_eq!(tree.octets(), before);
    tree.born("a", 7);
    tree.born("a", 8);
    tree.remove("a");
    tree.remove("");
    assert_eq!(tree.octets(), 0);
}
