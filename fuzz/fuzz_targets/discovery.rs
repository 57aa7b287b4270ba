//! Trees of any nodes: made step by step and at once they give the same zones, and nothing in a payload or a name makes
//! anything panic.
//!
//! A step is one octet for the node, one for what happens, and for data of the fuzzer's own one for its length and the data.

#![no_main]

use aggregator::source::zookeeper::zones::{Plan, SoaFields, Tree};
use aggregator::zone::Zone;
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::sync::Arc;
use wire::name::Name;

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

const DATA: [&str; 8] = [
    r#"{"type":"service","service":{"srvce":"_http","proto":"_tcp","ttl":9,"port":1}}"#,
    r#"{"type":"service","service":{"service":{"srvce":"_HTTP","proto":"_tcp"}},"ttl":50}"#,
    r#"{"type":"load_balancer","load_balancer":{"address":"172.27.10.1","ports":[80,81]}}"#,
    r#"{"type":"rr_host","ttl":10,"rr_host":{"address":"172.27.10.1"}}"#,
    r#"{"type":"host","host":{"address":"fd00::1"}}"#,
    r#"{"type":"load_balancer"}"#,
    "{}",
    "",
];

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn plan() -> Plan {
    let soa = SoaFields {
        mname: name("ns.test"),
        rname: name("hostmaster.test"),
        ttl: 30,
        refresh: 30,
        retry: 60,
        expire: 3600,
        minimum: 30,
    };
    let reverse = ["in-addr.arpa", "27.172.in-addr.arpa", "ip6.arpa"].map(name).to_vec();
    Plan { origin: name("d.test"), reverse, soa, ns: vec![name("ns.test")], ns_ttl: 30, serial_offset: 7 }
}

type Zones = HashMap<Name, Arc<Zone>>;

fn publish(tree: &mut Tree, zones: &mut Zones) {
    for made in tree.zones(|zone| zones.get(zone).cloned()).expect("an SOA is always there") {
        zones.insert(made.zone, Arc::new(made.loaded.zone));
    }
}

fuzz_target!(|input: &[u8]| {
    let (mut by_steps, mut at_once) = (Tree::new(plan()), Tree::new(plan()));
    let mut zones = Zones::new();
    let mut rest = input;
    let mut zxid = 1;
    while let [node, action, after @ ..] = rest {
        rest = after;
        let path = PATHS[usize::from(*node) % PATHS.len()];
        zxid += 1;
        let data = match action % 16 {
            0 => {
                for tree in [&mut by_steps, &mut at_once] {
                    tree.remove(path);
                    tree.note_zxid(zxid);
                }
                continue;
            }
            1 => {
                publish(&mut by_steps, &mut zones);
                continue;
            }
            2..=5 => {
                let Some((length, after)) = rest.split_first() else { break };
                let (data, after) = after.split_at(usize::from(*length).min(after.len()));
                rest = after;
                data
            }
            _ => DATA[usize::from(*action / 16) % DATA.len()].as_bytes(),
        };
        // A path of the fuzzer's own, from time to time.
        let own = String::from_utf8_lossy(data).into_owned();
        let path = if *node > 240 { &own } else { path };
        let told = by_steps.set(path, data.to_vec(), zxid);
        assert_eq!(told, at_once.set(path, data.to_vec(), zxid));
        for tree in [&by_steps, &at_once] {
            assert!(tree.contains(path));
            tree.explain(&name("web.d.test"));
            tree.explain(&name("1.10.27.172.in-addr.arpa"));
        }
    }
    publish(&mut by_steps, &mut zones);
    let mut whole = Zones::new();
    publish(&mut at_once, &mut whole);
    assert_eq!(zones, whole);
    assert_eq!(by_steps.count(), at_once.count());
});
