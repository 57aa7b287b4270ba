//! Addresses that stay at home, as the keeper publishes what is left.

use super::*;
use crate::merge::{AddressPlan, AddressRules, DampingPlan};

const MEMBERS: [&str; 2] = ["w1.x", "w2.x"];
const NAME: &str = "web.svc.acme.w.x";

/// The region, with these prefixes left out.
fn without(prefixes: &[&str]) -> RegionPlan {
    let exclude = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    let addresses = AddressPlan { all: AddressRules { only: Vec::new(), exclude }, members: Vec::new() };
    let damping = DampingPlan { max_removed: (1, 3), window: Duration::from_secs(60), last: Duration::from_secs(600) };
    RegionPlan { addresses, damping: Some(damping), ..region("w.x", &MEMBERS) }
}

/// A version of a member whose instances have an address in the fabric network and one outside; some are in service.
fn version(serial: u32, member: u8, there: u8, up: u8) -> String {
    let instance = |last: u8| {
        let addresses = [format!("10.88.{member}.{last}"), format!("198.51.100.{}", 10 * member + last)];
        let at = |owner: &str| addresses.iter().map(|address| format!("{owner} 30 A {address}\n")).collect::<String>();
        let (state, served) = if last <= up { ("", at("web.svc.acme")) } else { ("verifying:", String::new()) };
        format!("{}web.svc.acme 30 TXT {state}u{last}\n{served}", at(&format!("u{last}.inst.acme")))
    };
    let fabric = format!("only.inst.acme 30 A 10.88.{member}.200\n");
    format!("@ 30 SOA {serial}\n{fabric}{}", (1..=there).map(instance).collect::<String>())
}

fn serial(bench: &Bench) -> Serial {
    bench.publisher.load().get(&name("w.x")).unwrap().zone.as_ref().unwrap().soa.serial
}

#[test]
fn a_filter_holds_for_all_that_comes_and_ends_what_is_held() {
    let mut bench = Bench::new(&MEMBERS, vec![without(&["10.0.0.0/8"])]);
    bench.load("w1.x.", &version(1, 1, 6, 6), ZERO);
    bench.load("w2.x.", &version(1, 2, 2, 2), ZERO);
    assert_eq!((bench.ask(NAME), bench.ask("web.svc.acme.w1.x")), ((0, 8), (0, 12)), "zones are as they were");
    assert_eq!((bench.ask("only.inst.acme.w.x"), bench.ask("only.inst.acme.w1.x")), ((3, 0), (0, 1)));
    assert!(bench.status().regions[0].alike_addresses.is_none());

    // What is held are addresses that were there, and no others.
    bench.load("w1.x.", &version(2, 1, 6, 0), ZERO);
    assert_eq!((bench.ask(NAME), bench.status().regions[0].held_addresses), ((0, 6), 4));

    // Another filter is told, makes the region anew, and ends what is held.
    let before = serial(&bench);
    assert_eq!(bench.plan(&MEMBERS, vec![without(&[])]).rebuilt, [name("w.x")]);
    assert_eq!((bench.ask(NAME), bench.status().regions[0].held_addresses), ((0, 4), 0));
    assert!(serial(&bench).newer_than(before));
    let alike = bench.status().regions[0].alike_addresses.clone().expect("both members have addresses of 10.88");
    assert_eq!(alike, crate::merge::Alike { names: 3, example: name("u1.inst.acme.w.x") });
    let metrics = bench.keeper.metrics.render();
    assert!(metrics.contains("aggregator_region_alike_addresses{region=\"w.x.\"} 3"), "{metrics}");

    // Damping begins again with what the filter lets in.
    bench.plan(&MEMBERS, vec![without(&["198.51.100.0/24"])]);
    assert_eq!((bench.ask(NAME), bench.ask("only.inst.acme.w.x")), ((0, 2), (0, 2)));
    bench.load("w2.x.", &version(2, 2, 2, 0), ZERO);
    assert_eq!((bench.ask(NAME), bench.status().regions[0].held_addresses), ((0, 1), 1));

    // A drain goes for what is left, and the same plan again changes nothing.
    bench.drain("w2.x", None, true);
    assert_eq!((bench.ask(NAME).1, bench.ask("only.inst.acme.w.x")), (0, (0, 1)));
    bench.drain("w2.x", None, false);
    let before = serial(&bench);
    assert_eq!(bench.plan(&MEMBERS, vec![without(&["198.51.100.0/24"])]).rebuilt, []);
    assert_eq!(serial(&bench), before);
}

/// A service whose target is in the zone of a datacenter leads to addresses that the filter leaves out of the region.
#[test]
fn records_that_lead_to_unfiltered_zones_are_told() {
    let mut bench = Bench::new(&MEMBERS, vec![without(&["10.0.0.0/8"])]);
    bench.load("w1.x.", "@ 30 SOA 1\nhost 30 A 10.1.0.1\nweb 30 A 198.51.100.1\nweb 30 SRV 1 web.w.x.", ZERO);
    bench.load("w2.x.", "@ 30 SOA 1\nelse 30 CNAME elsewhere.y.", ZERO);
    let unfiltered = |bench: &Bench| {
        let found = bench.status().regions[0].unfiltered.clone()?;
        Some([found.name, found.target, found.zone].map(|name| name.to_string()))
    };
    assert_eq!(unfiltered(&bench), None);
    bench.load("w2.x.", "@ 30 SOA 2\nalias 30 CNAME host.w1.x.", ZERO);
    assert_eq!(unfiltered(&bench), Some(["alias.w.x.", "host.w1.x.", "w1.x."].map(str::to_owned)));
    bench.load("w2.x.", "@ 30 SOA 3\nweb 30 SRV 1 host", ZERO);
    assert_eq!(unfiltered(&bench), Some(["web.w.x.", "host.w2.x.", "w2.x."].map(str::to_owned)));
    bench.plan(&MEMBERS, vec![without(&[])]);
    assert_eq!(unfiltered(&bench), None, "nothing is filtered");
}
