//! What a lookup tells of instances that are in, out or left out.

mod cases;

use cases::{ACME, NOW, addressed, member, member_uuid, plain_config, put, roster};
use inventory::config::Config;
use inventory::model::{Account, Change, Element, Interface, Key, State, Tag, TagValue, Uuid, Vm};
use inventory::roster::Roster;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use wire::name::Name;
use wire::rr::rtype;

fn zone() -> Name {
    Name::parse("dc1.cns.example.com").unwrap()
}

fn name(relative: &str) -> Name {
    Name::parse(&format!("{relative}.dc1.cns.example.com")).unwrap()
}

/// The instances that a lookup of a name tells, with their reasons.
fn told(roster: &Roster, relative: &str) -> Vec<(Uuid, Vec<&'static str>)> {
    let told = roster.explain_name(&zone(), &name(relative));
    told.into_iter().map(|instance| (instance.uuid, instance.reasons)).collect()
}

fn numbered(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number))
}

#[test]
fn addresses_of_a_large_set_are_those_of_the_instances_that_it_lists() {
    for tag in ["web:80", "web"] {
        let instance = |number: u32| Vm {
            uuid: numbered(number),
            alias: None,
            tags: [(Tag::Services, TagValue::Text(tag.into()))].into(),
            nics: [Interface { addresses: [address(number)].into(), ..member(1).nics[0].clone() }].into(),
            ..member(1)
        };
        let mut inventory = addressed(0);
        inventory.vms = (1..=1500).map(instance).collect();
        let mut roster = roster(plain_config(), inventory);
        let service = name(&format!("web.svc.{ACME}"));
        let sets = roster.records_at(&zone(), &service);
        let rdatas = |rtype| sets.iter().filter(move |set| set.rtype == rtype).flat_map(|set| set.rdatas());
        let octets = |rtype| rdatas(rtype).map(|rdata| rdata.len() + 12).sum::<usize>();
        assert!([rtype::A, rtype::TXT, rtype::SRV].into_iter().all(|rtype| octets(rtype) <= 65_000));
        let texts = rdatas(rtype::TXT).map(|text| std::str::from_utf8(&text[1..]).unwrap());
        let listed: BTreeSet<Uuid> = texts.map(|text| text.parse().unwrap()).collect();
        let last = listed.len() as u32;
        assert_eq!(last, 1326, "as many TXT records as fit");
        // The first by UUID.
        assert_eq!(listed, (1..=last).map(numbered).collect());
        let addresses: BTreeSet<IpAddr> =
            rdatas(rtype::A).map(|octets| <[u8; 4]>::try_from(octets).unwrap().into()).collect();
        assert_eq!(addresses, (1..=last).map(address).collect());
        // SRV records are longer, and their targets have addresses of their own.
        let services = rdatas(rtype::SRV).count();
        assert!(if tag == "web" { services == 0 } else { (500..600).contains(&services) }, "{services}");
        let tells = |roster: &Roster, number: u32| roster.explain(numbered(number)).unwrap();
        assert!(tells(&roster, last).reasons.is_empty() && tells(&roster, last).addressed.contains(&service));
        let left_out = tells(&roster, last + 1);
        assert_eq!((left_out.reasons, left_out.all_reasons), (vec!["too_many"], vec!["too_many"]));
        assert_eq!(left_out.addressed, [name(&format!("{}.inst.{ACME}", numbered(last + 1)))]);
        // One that goes makes room for the next.
        roster.apply(Change::Gone(Key::Vm(numbered(1))), NOW);
        roster.settle(NOW);
        assert!(tells(&roster, last + 1).reasons.is_empty());
        assert_eq!(tells(&roster, last + 2).reasons, ["too_many"]);
    }
}

/// The address of an instance.
fn address(number: u32) -> IpAddr {
    Ipv4Addr::from(0xc633_0000 + number).into()
}

#[test]
fn a_lookup_tells_of_instances_that_are_not_listed() {
    let mut roster = roster(Config { use_login: true, ..plain_config() }, addressed(1));
    let disabled = [(Tag::Services, TagValue::Text("web".into())), (Tag::Disable, TagValue::Flag(true))];
    put(&mut roster, Vm { tags: disabled.into(), ..member(2) }, NOW);
    put(&mut roster, Vm { state: State::Destroyed, ..member(3) }, NOW);
    let mut lost = member(4);
    lost.nics[0].network = Some(Uuid::from_u128(9));
    put(&mut roster, lost, NOW);
    put(&mut roster, Vm { tags: Box::default(), ..member(5) }, NOW);
    roster.settle(NOW);
    let out = [
        (member_uuid(2), vec!["inst_en_tag"]),
        (member_uuid(3), vec!["vm_down", "destroyed"]),
        (member_uuid(4), vec!["unknown_network"]),
    ];
    for account in ["acme", ACME, "ACME"] {
        let all = [vec![(member_uuid(1), vec![])], out.to_vec()].concat();
        assert_eq!(told(&roster, &format!("web.svc.{account}")), all);
        assert_eq!(told(&roster, &format!("_acme-challenge.web.svc.{account}")), all);
        for (number, told_of) in (2..).zip(&out) {
            assert_eq!(told(&roster, &format!("web{number}.inst.{account}")), std::slice::from_ref(told_of));
            assert_eq!(
                told(&roster, &format!("{}.inst.{account}", member_uuid(number))),
                std::slice::from_ref(told_of)
            );
        }
    }
    assert_eq!(told(&roster, "api.svc.acme"), []);
    assert_eq!(told(&roster, "web2.inst.other"), []);
    assert_eq!(told(&roster, "web2.web.acme"), []);
    assert_eq!(told(&roster, "acme"), []);
    assert!(roster.explain_name(&Name::parse("100.51.198.in-addr.arpa").unwrap(), &name("web2.inst.acme")).is_empty());
    // The account is off: nobody has a name.
    let off = Account { cns_enabled: false, ..cases::account(ACME, "acme") };
    roster.apply(Change::Put(Element::Account(off)), NOW);
    roster.settle(NOW);
    let reasons = |number: u8| roster.explain(member_uuid(number)).unwrap().reasons;
    assert_eq!(told(&roster, "web1.inst.acme"), [(member_uuid(1), vec!["user_en_flag"])]);
    let services = told(&roster, "web.svc.acme");
    assert_eq!(services, (1..=4).map(|number| (member_uuid(number), reasons(number))).collect::<Vec<_>>());
    // Its account is unknown, and no login can lead to it.
    let stranger = Uuid::from_u128(77);
    put(&mut roster, Vm { owner: Some(stranger), ..member(6) }, NOW);
    roster.settle(NOW);
    assert_eq!(told(&roster, &format!("web6.inst.{stranger}")), [(member_uuid(6), vec!["unknown_owner"])]);
}

#[test]
fn a_lookup_tells_of_those_whose_label_is_another_s_and_of_a_network_in_front() {
    let mut inventory = addressed(2);
    inventory.networks[0].owners = [ACME.parse().unwrap()].into();
    inventory.networks[0].name = "My Fabric".into();
    inventory.vms.iter_mut().for_each(|vm| vm.alias = Some("same".into()));
    let mut roster = roster(plain_config(), inventory);
    let both = [(member_uuid(1), vec![]), (member_uuid(2), vec!["alias_conflict"])];
    assert_eq!(told(&roster, &format!("same.inst.{ACME}")), both);
    put(&mut roster, Vm { state: State::Failed, ..member(2) }, NOW);
    roster.settle(NOW);
    let failed = [(member_uuid(2), vec!["vm_down", "destroyed"])];
    assert_eq!(told(&roster, &format!("my-fabric.web2.inst.{ACME}")), failed);
    assert_eq!(told(&roster, &format!("my-fabric.web.svc.{ACME}")), [both[0].clone(), failed[0].clone()]);
    assert_eq!(told(&roster, &format!("other.web.svc.{ACME}")), []);
}

#[test]
fn a_lookup_tells_at_most_a_hundred() {
    let mut inventory = addressed(150);
    inventory.vms.iter_mut().skip(30).for_each(|vm| vm.state = State::Destroyed);
    let roster = roster(plain_config(), inventory);
    let told = told(&roster, &format!("web.svc.{ACME}"));
    assert_eq!(told.len(), 100);
    assert_eq!(told.iter().filter(|(_, reasons)| reasons.is_empty()).count(), 30);
}
