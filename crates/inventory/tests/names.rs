//! Rules on labels, networks and sizes: which names an instance has.

mod cases;

use cases::{
    ACME, EXTERNAL, NOW, account, addressed, after, has, member, member_uuid, names, network, plain_config, put,
    records, roster, tagged,
};
use inventory::config::{Config, ForwardZone};
use inventory::model::{Account, Change, Element, Key, Metadata, State, Tag, TagValue, Vm};
use inventory::roster::Roster;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::name::Name;

const OTHER: &str = "8f1584a3-0000-4000-8000-00000000000b";

/// The forward zone of [`plain_config`] with other networks.
fn zone_of(networks: &[&str]) -> Config {
    let origin = Name::parse("dc1.cns.example.com").unwrap();
    let networks = networks.iter().map(|name| Box::from(*name)).collect();
    Config { forward: vec![ForwardZone { origin, networks }], ..plain_config() }
}

fn reasons(roster: &Roster, number: u8) -> Vec<&'static str> {
    roster.explain(member_uuid(number)).unwrap().reasons
}

/// The PTR records of 198.51.100.0/24.
fn pointers(roster: &Roster, number: u8) -> BTreeSet<String> {
    let zone = records(roster).remove("100.51.198.in-addr.arpa").unwrap_or_default();
    zone.get(&number.to_string()).cloned().unwrap_or_default()
}

fn one(text: String) -> BTreeSet<String> {
    BTreeSet::from([text])
}

//--- Labels ---

#[test]
fn the_uuid_of_an_account_beats_a_login_spelt_like_it() {
    let mut inventory = addressed(0);
    inventory.accounts = vec![account(OTHER, ACME)];
    let mut roster = roster(Config { use_login: true, ..plain_config() }, inventory);
    put(&mut roster, Vm { owner: Some(OTHER.parse().unwrap()), ..member(2) }, NOW);
    roster.settle(NOW);
    // As long as it is nobody's UUID.
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.2"));
    roster.apply(Change::Put(Element::Account(account(ACME, "acme"))), NOW);
    put(&mut roster, member(1), NOW);
    roster.settle(NOW);
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.1"));
    assert!(!has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.2"));
    assert!(has(&roster, &format!("web2.inst.{OTHER}"), "A 198.51.100.2"));
    assert_eq!(reasons(&roster, 2), ["login_conflict"]);
}

#[test]
fn an_alias_that_is_a_uuid_counts_once_its_instance_has_another_account() {
    let mut inventory = addressed(1);
    inventory.accounts.push(account(OTHER, "other"));
    inventory.vms[0].alias = Some(member_uuid(2).to_string().into());
    let mut roster = roster(plain_config(), inventory);
    let name = format!("{}.inst.{ACME}", member_uuid(2));
    for (owner, number) in [(ACME, 2), (OTHER, 1), (ACME, 2)] {
        put(&mut roster, Vm { owner: Some(owner.parse().unwrap()), ..member(2) }, NOW);
        roster.settle(NOW);
        let zone = &records(&roster)["dc1.cns.example.com"];
        let addresses: Vec<&String> = zone[&name].iter().filter(|record| record.starts_with("A ")).collect();
        assert_eq!(addresses, [&format!("A 198.51.100.{number}")], "{owner}");
    }
}

#[test]
fn an_instance_that_cannot_be_judged_follows_the_login_of_its_account() {
    let config = Config { use_login: true, ..plain_config() };
    let mut roster = roster(config, addressed(0));
    // The label stays the account's, for it may come again.
    roster.apply(Change::Gone(Key::Account(ACME.parse().unwrap())), NOW);
    roster.apply(Change::Put(Element::Account(account(OTHER, "jim-smith"))), NOW);
    roster.settle(NOW);
    roster.apply(Change::Put(Element::Account(account(ACME, "jim.smith"))), NOW);
    put(&mut roster, member(1), NOW);
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 1), ["login_conflict"]);
    roster.apply(Change::Gone(Key::Network(EXTERNAL.parse().unwrap())), NOW);
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 1), ["unknown_network", "login_conflict"]);
    roster.apply(Change::Put(Element::Account(account(ACME, "acme"))), NOW);
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 1), ["unknown_network"]);
    assert!(has(&roster, "web1.inst.acme", "A 198.51.100.1") && has(&roster, "web.svc.acme", "A 198.51.100.1"));
}

#[test]
fn the_login_of_an_account_that_is_gone_outlives_a_restart() {
    let config = Config { use_login: true, ..plain_config() };
    let mut inventory = addressed(1);
    inventory.accounts.push(account(OTHER, "other"));
    let mut roster = roster(config.clone(), inventory);
    let mut kept = roster.keep();
    // The one instance leaves the account and another joins it, before it is gone: as told, there is always one.
    put(&mut roster, member(2), NOW);
    put(&mut roster, Vm { owner: Some(OTHER.parse().unwrap()), ..member(1) }, NOW);
    roster.settle(NOW);
    roster.apply(Change::Gone(Key::Account(ACME.parse().unwrap())), NOW);
    roster.settle(NOW);
    kept.elements.extend(roster.keep_changes().elements);
    let (mut again, _) = Roster::restore(config, &kept, NOW);
    again.settle(NOW);
    assert!(has(&again, "web2.inst.acme", "A 198.51.100.2"));
    assert_eq!(records(&again), records(&roster));
}

#[test]
fn srv_ptr_and_challenge_use_the_names_that_are_left() {
    let mut roster = roster(plain_config(), addressed(0));
    for number in [1, 2] {
        let metadata = [(Metadata::AcmeChallenge, format!("token{number}").into())].into();
        put(&mut roster, Vm { alias: Some("same".into()), metadata, ..member(number) }, NOW);
    }
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 2), ["alias_conflict"]);
    let service = format!("web.svc.{ACME}");
    let (loser, winner) = (format!("{}.inst.{ACME}", member_uuid(2)), format!("same.inst.{ACME}"));
    for (number, primary) in [(1, &winner), (2, &loser)] {
        assert!(has(&roster, &service, &format!("SRV 0 10 80 {primary}.dc1.cns.example.com.")));
        assert_eq!(pointers(&roster, number), one(format!("PTR {primary}.dc1.cns.example.com.")));
        assert!(has(&roster, &format!("_acme-challenge.{primary}"), &format!("TXT \"token{number}\"")));
        // The service has the tokens of both.
        assert!(has(&roster, &format!("_acme-challenge.{service}"), &format!("TXT \"token{number}\"")));
    }
    assert!(!has(&roster, &format!("_acme-challenge.{winner}"), "TXT \"token2\""));
}

#[test]
fn an_alias_of_more_than_62_units_is_no_name() {
    let mut roster = roster(plain_config(), addressed(0));
    put(&mut roster, Vm { alias: Some("x".repeat(62).into()), ..member(1) }, NOW);
    put(&mut roster, Vm { alias: Some("y".repeat(63).into()), ..member(2) }, NOW);
    // Units are counted before the label is made, and this character has two.
    put(&mut roster, Vm { alias: Some(format!("z{}", "\u{1f600}".repeat(30)).into()), ..member(3) }, NOW);
    put(&mut roster, Vm { alias: Some(format!("v{}", "\u{1f600}".repeat(31)).into()), ..member(4) }, NOW);
    roster.settle(NOW);
    let names = names(&roster);
    let own: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix(&format!(".inst.{ACME}"))).collect();
    let uuids = [1, 2, 3, 4].map(|number| member_uuid(number).to_string());
    let longest = "x".repeat(62);
    let wanted = [&*longest, "z-"].into_iter().chain(uuids.iter().map(|uuid| &**uuid)).collect();
    assert_eq!(own, wanted);
    let target = format!("SRV 0 10 80 {}.inst.{ACME}.dc1.cns.example.com.", member_uuid(2));
    assert!(has(&roster, &format!("web.svc.{ACME}"), &target));
    assert_eq!(pointers(&roster, 4), one(format!("PTR {}.inst.{ACME}.dc1.cns.example.com.", member_uuid(4))));
}

#[test]
fn bare_names_are_one_label_and_neither_svc_nor_inst() {
    let mut inventory = addressed(0);
    inventory.accounts = vec![account(ACME, "admin")];
    let mut roster = roster(Config { operator_logins: true, ..plain_config() }, inventory);
    put(&mut roster, tagged(1, "svc,inst,a.b,Papi:80"), NOW);
    roster.settle(NOW);
    let names = names(&roster);
    for refused in ["svc", "inst", "a.b"] {
        assert!(names.contains(&format!("{refused}.svc.{ACME}")) && !names.iter().any(|name| name == refused));
    }
    assert!(has(&roster, "papi", "A 198.51.100.1"));
    assert!(!records(&roster)["dc1.cns.example.com"]["papi"].iter().any(|record| record.starts_with("SRV ")));
}

//--- Leaving together ---

#[test]
fn what_leaves_leaves_all_zones_in_one_batch() {
    let config = Config { cmon: true, ..plain_config() };
    let off = Account { cns_enabled: false, ..account(ACME, "acme") };
    let disabled = [(Tag::Services, TagValue::Text("web".into())), (Tag::Disable, TagValue::Text("yes".into()))];
    let ends = [
        (Element::Account(off), "user_en_flag"),
        (Element::Account(Account { approved: false, ..account(ACME, "acme") }), "user_not_approved"),
        (Element::Vm(Vm { state: State::Destroyed, ..member(1) }), "destroyed"),
        (Element::Vm(Vm { destroyed: true, ..member(1) }), "destroyed"),
        (Element::Vm(Vm { tags: disabled.into(), ..member(1) }), "inst_en_tag"),
    ];
    for (end, reason) in ends {
        let mut roster = roster(config.clone(), addressed(1));
        let before: usize = records(&roster).values().map(|names| names.len()).sum();
        assert!(names(&roster).contains(&format!("{}.cmon", member_uuid(1))) && pointers(&roster, 1).len() == 1);
        roster.apply(Change::Put(end), after(1));
        let settled = roster.settle(after(1));
        assert_eq!(settled.touched.values().map(Vec::len).sum::<usize>(), before, "{reason}");
        assert!(records(&roster).is_empty(), "{reason}");
        assert_eq!(reasons(&roster, 1).last(), Some(&reason));
    }
}

#[test]
fn a_network_taken_out_of_a_zone_leaves_cmon() {
    let config = |networks: &[&str]| Config { cmon: true, ..zone_of(networks) };
    let mut roster = roster(config(&["external"]), addressed(1));
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.1"));
    roster.reconfigure(config(&["other"]), after(1));
    let touched = roster.settle(after(1)).touched;
    assert!(touched.contains_key(&Name::parse("100.51.198.in-addr.arpa").unwrap()));
    let cmon = format!("{}.cmon", member_uuid(1));
    assert_eq!(names(&roster), std::slice::from_ref(&cmon));
    assert!(has(&roster, &cmon, "CNAME cmon.dc1.cns.example.com.") && pointers(&roster, 1).is_empty());
    roster.reconfigure(config(&["external"]), after(2));
    roster.settle(after(2));
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.1") && pointers(&roster, 1).len() == 1);
}

//--- Networks ---

#[test]
fn a_name_of_two_networks_is_neither_and_a_fabric_has_none() {
    let mut inventory = addressed(1);
    let fabric = "fab00000-0000-4000-8000-000000000001";
    inventory.networks.push(network(fabric, "external"));
    inventory.networks[1].owners = [ACME.parse().unwrap()].into();
    let mut roster = roster(zone_of(&["external"]), inventory);
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.1") && roster.unresolved_networks().is_empty());
    let twin = "e0000000-0000-4000-8000-000000000002";
    roster.apply(Change::Put(Element::Network(network(twin, "external"))), NOW);
    roster.settle(NOW);
    assert!(records(&roster).is_empty());
    let both = vec![EXTERNAL.parse().unwrap(), twin.parse().unwrap()];
    assert_eq!(roster.unresolved_networks(), [("external".into(), both)]);
    roster.apply(Change::Gone(Key::Network(twin.parse().unwrap())), NOW);
    roster.settle(NOW);
    assert!(has(&roster, &format!("web.svc.{ACME}"), "A 198.51.100.1") && roster.unresolved_networks().is_empty());
}

#[test]
fn a_pointer_prefers_a_network_without_owners_to_a_shorter_target() {
    let fabric = "fab00000-0000-4000-8000-000000000001";
    let mut inventory = addressed(2);
    inventory.networks.push(network(fabric, "fabric"));
    inventory.networks[1].owners = [ACME.parse().unwrap()].into();
    inventory.vms[0].alias = Some("a".into());
    inventory.vms[0].nics[0].network = Some(fabric.parse().unwrap());
    inventory.vms[0].nics[0].addresses = [IpAddr::from([198, 51, 100, 2])].into();
    inventory.vms[1].alias = Some("much-longer".into());
    let mut roster = roster(plain_config(), inventory);
    let target = |head: &str| one(format!("PTR {head}.inst.{ACME}.dc1.cns.example.com."));
    assert_eq!(pointers(&roster, 2), target("much-longer"));
    roster.apply(Change::Gone(Key::Vm(member_uuid(2))), NOW);
    roster.settle(NOW);
    assert_eq!(pointers(&roster, 2), target("a"));
}

//--- Sizes ---

#[test]
fn an_instance_has_64_ports_64_addresses_and_16_tokens() {
    let mut roster = roster(plain_config(), addressed(0));
    let ports: Vec<String> = (1..=65).map(|port| format!("web:{port}")).collect();
    put(&mut roster, tagged(1, &ports.join(",")), NOW);
    let mut many = member(2);
    many.nics[0].addresses = (1..=65).map(|number| IpAddr::from([203, 0, 113, number])).collect();
    put(&mut roster, many, NOW);
    let tokens: Vec<String> = (1..=17).map(|number| format!("token{number}")).collect();
    let challenge = |text: &str| [(Metadata::AcmeChallenge, text.into())].into();
    put(&mut roster, Vm { metadata: challenge(&tokens.join(" ")), ..member(3) }, NOW);
    let (fits, long) = ("x".repeat(255), "y".repeat(256));
    put(&mut roster, Vm { metadata: challenge(&format!("  {fits} {long} z ")), ..member(4) }, NOW);
    roster.settle(NOW);
    for number in 1..=4 {
        assert_eq!(reasons(&roster, number), ["too_many"]);
    }
    let zone = &records(&roster)["dc1.cns.example.com"];
    let count = |name: &str, start: &str| zone[name].iter().filter(|record| record.starts_with(start)).count();
    let own = |number: u8| format!("{}.inst.{ACME}", member_uuid(number));
    let target = format!("web1.inst.{ACME}.dc1.cns.example.com.");
    let ports = zone[&format!("web.svc.{ACME}")].iter().filter(|record| record.ends_with(&target));
    assert_eq!(ports.count(), 64);
    assert_eq!(count(&own(2), "A "), 64);
    assert!(!has(&roster, &own(2), "A 203.0.113.65") && records(&roster)["113.0.203.in-addr.arpa"].len() == 64);
    assert_eq!(count(&format!("_acme-challenge.{}", own(3)), "TXT "), 16);
    let wanted = BTreeSet::from([format!("TXT \"{fits}\""), "TXT \"z\"".to_owned()]);
    assert_eq!(zone[&format!("_acme-challenge.{}", own(4))], wanted);
}

#[test]
fn an_instance_has_10_000_records_its_own_names_first() {
    let config = Config { use_login: true, cmon: true, ..plain_config() };
    let mut roster = roster(config, addressed(0));
    let services: Vec<String> = (1..=64).map(|number| format!("s{number}")).collect();
    let mut vm = tagged(1, &services.join(","));
    vm.nics[0].addresses = (1..=64).map(|number| IpAddr::from([203, 0, 113, number])).collect();
    let tokens: Vec<String> = (1..=16).map(|number| format!("token{number}")).collect();
    vm.metadata = [(Metadata::AcmeChallenge, tokens.join(" ").into())].into();
    put(&mut roster, vm, NOW);
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 1), ["too_many"]);
    let count: usize = records(&roster).values().flat_map(|names| names.values()).map(BTreeSet::len).sum();
    assert!((9_900..=10_000).contains(&count), "{count}");
    for own in ["web1".to_owned(), member_uuid(1).to_string()] {
        for account in ["acme", ACME] {
            assert_eq!(records(&roster)["dc1.cns.example.com"][&format!("{own}.inst.{account}")].len(), 65);
        }
    }
    // Another look at it finds the same.
    roster.apply(Change::Put(Element::Account(account(ACME, "Acme"))), NOW);
    roster.settle(NOW);
    assert_eq!(reasons(&roster, 1), ["too_many"]);
    assert_eq!(roster.counts().reasons["too_many"], 1);
    // Fewer addresses, and all fit.
    put(&mut roster, tagged(1, &services.join(",")), NOW);
    roster.settle(NOW);
    assert!(reasons(&roster, 1).is_empty() && names(&roster).contains(&"s64.svc.acme".to_owned()));
}

#[test]
fn priorities_and_weights_count_only_where_they_are_wanted() {
    let tag = "web:80:priority=1:weight=7,api:443";
    for (srv_weights, order) in [(false, "0 10"), (true, "1 7")] {
        let mut roster = roster(Config { srv_weights, ..plain_config() }, addressed(0));
        put(&mut roster, tagged(1, tag), NOW);
        roster.settle(NOW);
        let target = format!("web1.inst.{ACME}.dc1.cns.example.com.");
        assert!(has(&roster, &format!("web.svc.{ACME}"), &format!("SRV {order} 80 {target}")));
        assert!(has(&roster, &format!("api.svc.{ACME}"), &format!("SRV 0 10 443 {target}")));
    }
}
