//! The rules of an inventory, one by one.

mod cases;

use cases::{
    ACME, EXTERNAL, NOW, account, addressed, after, has, member, member_uuid, names, network, plain_config, put,
    records, roster, tagged,
};
use inventory::config::{Config, ForwardZone, Reverse, ReverseZone};
use inventory::model::{
    Change, Element, Interface, Inventory, Key, Mac, Metadata, Moment, Nic, Server, ServerStatus, State, Uuid, Vm,
};
use inventory::roster::{Health, Roster};
use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;

#[test]
fn logins_that_sanitise_alike_have_one_owner_who_keeps_the_label() {
    let config = Config { use_login: true, ..plain_config() };
    let second = "8f1584a3-0000-4000-8000-00000000000b";
    let mut inventory = addressed(0);
    inventory.accounts = vec![account(second, "jim-smith")];
    let mut roster = roster(config.clone(), inventory);
    let theirs = Vm { owner: Some(second.parse().unwrap()), ..member(2) };
    put(&mut roster, theirs, NOW);
    roster.settle(NOW);
    assert!(names(&roster).contains(&"web2.inst.jim-smith".to_owned()));
    // The other one has the lower UUID, and comes later.
    roster.apply(Change::Put(Element::Account(account(ACME, "jim.smith"))), NOW);
    put(&mut roster, member(1), NOW);
    roster.settle(NOW);
    assert!(names(&roster).contains(&"web2.inst.jim-smith".to_owned()));
    assert!(!names(&roster).contains(&"web1.inst.jim-smith".to_owned()));
    assert_eq!(roster.explain(member_uuid(1)).unwrap().reasons, ["login_conflict"]);
    assert_eq!(roster.counts().conflicts, 1);
    // It goes on to be theirs after a restart, without their element too.
    let kept = roster.keep();
    let (mut again, _) = Roster::restore(config, &kept, NOW);
    again.settle(NOW);
    assert_eq!(records(&again), records(&roster));
    // With the owner's account gone the label is free.
    roster.apply(Change::Gone(Key::Vm(member_uuid(2))), NOW);
    roster.apply(Change::Gone(Key::Account(second.parse().unwrap())), NOW);
    roster.settle(NOW);
    assert!(names(&roster).contains(&"web1.inst.jim-smith".to_owned()));
}

#[test]
fn the_older_instance_has_the_alias_and_uuids_win_over_aliases() {
    let mut roster = roster(plain_config(), addressed(0));
    let younger = Vm { alias: Some("a.b".into()), created: None, ..member(1) };
    let older = Vm { alias: Some("A_B".into()), created: Some(Moment(5)), ..member(2) };
    put(&mut roster, younger, NOW);
    put(&mut roster, older, NOW);
    roster.settle(NOW);
    let name = format!("a-b.inst.{ACME}");
    assert!(has(&roster, &name, "A 198.51.100.2") && !has(&roster, &name, "A 198.51.100.1"));
    assert_eq!(roster.explain(member_uuid(1)).unwrap().reasons, ["alias_conflict"]);
    // An alias that is the UUID of another instance, as long as that is there.
    put(&mut roster, Vm { alias: Some(member_uuid(4).to_string().into()), ..member(3) }, NOW);
    roster.settle(NOW);
    let name = format!("{}.inst.{ACME}", member_uuid(4));
    assert!(has(&roster, &name, "A 198.51.100.3"));
    put(&mut roster, member(4), NOW);
    roster.settle(NOW);
    assert!(has(&roster, &name, "A 198.51.100.4") && !has(&roster, &name, "A 198.51.100.3"));
    roster.apply(Change::Gone(Key::Vm(member_uuid(4))), NOW);
    roster.settle(NOW);
    assert!(has(&roster, &name, "A 198.51.100.3"));
    // Both in one batch, as after a restart.
    put(&mut roster, member(4), NOW);
    roster.settle(NOW);
    let (mut again, _) = Roster::restore(plain_config(), &roster.keep(), NOW);
    again.settle(NOW);
    assert!(has(&again, &name, "A 198.51.100.4") && !has(&again, &name, "A 198.51.100.3"));
}

#[test]
fn what_is_hard_leaves_at_once_while_reports_are_held() {
    let mut roster = roster(plain_config(), addressed(6));
    for number in 1..=6 {
        roster.report(member_uuid(number), Health::Down, None, NOW);
    }
    roster.settle(NOW);
    assert_eq!(roster.counts().held, 4);
    let held = roster.explain(member_uuid(6)).unwrap().services.remove(0);
    assert_eq!((held.is_in, held.held_since, held.held_until), (true, Some(NOW), Some(after(780))));
    put(&mut roster, Vm { state: State::Other, ..member(6) }, NOW);
    roster.apply(Change::Gone(Key::Vm(member_uuid(5))), NOW);
    roster.settle(NOW);
    let service = format!("web.svc.{ACME}");
    assert!(!has(&roster, &service, "A 198.51.100.6") && !has(&roster, &service, "A 198.51.100.5"));
    assert!(has(&roster, &service, "A 198.51.100.4") && roster.counts().held == 2);
    assert_eq!(roster.counts().hard_removals, 2);
    let name = Name::parse(&format!("{service}.dc1.cns.example.com")).unwrap();
    assert_eq!(roster.release(&name, NOW), 2);
    roster.settle(NOW);
    assert!(!has(&roster, &service, "A 198.51.100.4"));
}

#[test]
fn a_public_zone_is_not_emptied_while_internal_members_remain() {
    let zone =
        |origin: &str, name: &str| ForwardZone { origin: Name::parse(origin).unwrap(), networks: vec![name.into()] };
    let forward = vec![zone("dc1.cns.example.com", "external"), zone("in.example.com", "*")];
    let mut inventory = addressed(5);
    let internal: Uuid = "e0000000-0000-4000-8000-000000000002".parse().unwrap();
    inventory.networks.push(network(&internal.to_string(), "internal"));
    inventory.vms.iter_mut().skip(1).for_each(|vm| vm.nics[0].network = Some(internal));
    let mut roster = roster(Config { forward, ..plain_config() }, inventory);
    let service = format!("web.svc.{ACME}");
    roster.report(member_uuid(1), Health::Down, None, NOW);
    roster.settle(NOW);
    assert!(has(&roster, &service, "A 198.51.100.1"));
    // The one that is held holds nobody else.
    roster.report(member_uuid(2), Health::Down, None, after(1));
    roster.settle(after(1));
    assert!(!roster.explain(member_uuid(2)).unwrap().services[0].is_in);
    roster.settle(after(600));
    assert!(!has(&roster, &service, "A 198.51.100.1"));
}

#[test]
fn reports_override_metadata_until_they_lapse_or_are_withdrawn() {
    let mut roster = roster(plain_config(), addressed(3));
    let down = Vm { metadata: [(Metadata::Status, "down".into())].into(), ..member(4) };
    put(&mut roster, down, NOW);
    roster.settle(NOW);
    let service = format!("web.svc.{ACME}");
    assert!(has(&roster, &service, &format!("TXT \"verifying:{}\"", member_uuid(4))));
    assert!(roster.report(member_uuid(4), Health::Up, Some(Duration::from_secs(30)), NOW));
    let next = roster.settle(NOW).next;
    assert!(has(&roster, &service, "A 198.51.100.4") && next == Some(after(30)));
    roster.settle(after(30));
    assert!(!has(&roster, &service, "A 198.51.100.4"));
    assert!(roster.withdraw_report(member_uuid(4), after(31)) && !roster.withdraw_report(member_uuid(4), after(31)));
    assert!(!roster.report(member_uuid(9), Health::Up, None, after(31)));
}

#[test]
fn a_time_to_live_begins_anew_after_a_restart_and_not_with_other_rules() {
    let ttl = Some(Duration::from_secs(30));
    let mut roster = roster(plain_config(), addressed(2));
    roster.report(member_uuid(1), Health::Up, ttl, NOW);
    roster.settle(NOW);
    assert!(!roster.keep_changes().retained.is_empty());
    // The same again: only the moment is another.
    roster.report(member_uuid(1), Health::Up, ttl, after(10));
    assert!(roster.settle(after(10)).touched.is_empty() && roster.keep_changes().retained.is_empty());
    let until =
        |roster: &Roster, number| roster.explain(member_uuid(number)).unwrap().report.map(|report| report.until);
    assert_eq!((until(&roster, 1), until(&roster, 2)), (Some(Some(after(40))), None));
    let (mut again, _) = Roster::restore(plain_config(), &roster.keep(), after(20));
    again.settle(after(20));
    assert_eq!(until(&again, 1), Some(Some(after(50))));
    roster.reconfigure(Config { ttl: 60, ..plain_config() }, after(20));
    assert_eq!(until(&roster, 1), Some(Some(after(40))));
    assert_eq!(roster.settle(after(20)).next, Some(after(40)));
    // Silence is a soft reason, of which damping lets one through.
    roster.settle(after(40));
    let told = roster.explain(member_uuid(1)).unwrap();
    assert!(told.report.unwrap().is_lapsed && !told.services[0].is_in, "{told:?}");
    assert_eq!(told.addressed.len(), 2, "its own names alone: {:?}", told.addressed);
    assert_eq!(roster.counts().soft_removals, 1);
    roster.apply(Change::Gone(Key::Vm(member_uuid(1))), after(41));
    roster.settle(after(41));
    assert!(roster.keep().retained.iter().all(|entry| !entry.key.starts_with("report/")));
}

#[test]
fn suffixes_are_those_of_an_instance_with_the_same_networks() {
    let config = Config { use_login: true, ..plain_config() };
    let roster = roster(config, addressed(1));
    let (owner, external) = (ACME.parse().unwrap(), EXTERNAL.parse().unwrap());
    let told = roster.suffixes(owner, &[external, external]).unwrap();
    let texts: Vec<String> = told.iter().map(Name::to_string).collect();
    assert_eq!(texts, ["svc.acme.dc1.cns.example.com.", "inst.acme.dc1.cns.example.com."]);
    assert_eq!(roster.suffixes(external, &[]).unwrap_err().to_string(), format!("account {EXTERNAL} is unknown"));
    assert_eq!(roster.suffixes(owner, &[owner]).unwrap_err().to_string(), format!("network {ACME} is unknown"));
}

#[test]
fn lost_damping_is_presumed_from_the_zone_with_a_full_window() {
    let mut inventory = addressed(6);
    for vm in inventory.vms.iter_mut().take(4) {
        vm.metadata = [(Metadata::Status, "down".into())].into();
    }
    let mut roster = Roster::new(plain_config(), NOW);
    let name = Name::parse(&format!("web.svc.{ACME}.dc1.cns.example.com")).unwrap();
    roster.presume((2..=6).map(|number| (name.clone(), member_uuid(number))), NOW);
    roster.replace(inventory, NOW);
    roster.settle(NOW);
    let service = format!("web.svc.{ACME}");
    assert!(!has(&roster, &service, "A 198.51.100.1") && has(&roster, &service, "A 198.51.100.2"));
    roster.settle(after(59));
    assert!(has(&roster, &service, "A 198.51.100.2"));
    roster.settle(after(60));
    assert!(!has(&roster, &service, "A 198.51.100.2") && has(&roster, &service, "A 198.51.100.3"));
}

#[test]
fn compute_nodes_are_down_an_hour_after_they_were_last_seen() {
    let node = |status| Server { last_heartbeat: None, ..node(status) };
    let mut inventory = addressed(2);
    inventory.servers = vec![node(ServerStatus::Running)];
    inventory.vms[0].server = Some(Uuid::from_u128(7));
    let mut roster = roster(plain_config(), inventory);
    let service = format!("web.svc.{ACME}");
    let is_in = |roster: &Roster| has(roster, &service, "A 198.51.100.1");
    // Without a heartbeat a node that runs is up; one of which nothing is known has an hour.
    assert!(is_in(&roster));
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Unknown))), after(10));
    roster.settle(after(10));
    assert!(is_in(&roster));
    // The sighting outlives the process, and a restart within the hour.
    let kept = roster.keep();
    let (mut roster, unread) = Roster::restore(plain_config(), &kept, after(1800));
    assert_eq!(unread, 0);
    roster.settle(after(3610));
    assert!(is_in(&roster));
    roster.settle(after(3611));
    assert!(!is_in(&roster));
    // A planned restart counts at once; after a start two minutes pass; a start in the future is of a wrong clock.
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Running))), after(4000));
    roster.settle(after(4000));
    assert!(is_in(&roster));
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Rebooting))), after(4001));
    roster.settle(after(4001));
    assert!(!is_in(&roster));
    let boot = |moment| Server { last_boot: Some(moment), ..node(ServerStatus::Running) };
    roster.apply(Change::Put(Element::Server(boot(after(4050)))), after(4060));
    assert_eq!(roster.settle(after(4060)).next, Some(after(4170)));
    assert!(!is_in(&roster));
    roster.settle(after(4170));
    assert!(is_in(&roster));
    roster.apply(Change::Put(Element::Server(boot(after(900_000)))), after(4171));
    roster.settle(after(4171));
    assert!(is_in(&roster));
}

#[test]
fn clocks_that_were_ahead_freeze_nothing() {
    let mut roster = Roster::new(plain_config(), after(1_000_000));
    roster.replace(addressed(6), after(1_000_000));
    roster.settle(after(1_000_000));
    for number in 1..=6 {
        roster.report(member_uuid(number), Health::Down, None, after(1_000_000));
    }
    roster.settle(after(1_000_000));
    let kept = roster.keep();
    let (mut again, _) = Roster::restore(plain_config(), &kept, NOW);
    again.settle(NOW);
    assert_eq!(again.counts().held, 4);
    again.settle(after(60));
    assert_eq!(again.counts().held, 3);
}

#[test]
fn either_list_may_be_lost() {
    let mut roster = roster(plain_config(), addressed(3));
    for number in 1..=3 {
        roster.report(member_uuid(number), Health::Down, None, NOW);
    }
    roster.settle(NOW);
    let mut kept = roster.keep();
    kept.elements.clear();
    let (mut again, _) = Roster::restore(plain_config(), &kept, after(1));
    again.settle(after(1));
    assert_eq!(again.keep().retained, kept.retained);
    again.replace(addressed(3), after(2));
    again.settle(after(2));
    assert_eq!(again.counts().held, 2);
}

#[test]
fn a_reconfiguration_keeps_holds_and_tells_names_of_both() {
    let mut roster = roster(plain_config(), addressed(3));
    for number in 1..=3 {
        roster.report(member_uuid(number), Health::Down, None, NOW);
    }
    roster.settle(NOW);
    let before = roster.counts();
    let config = Config { use_alias: false, ..plain_config() };
    roster.reconfigure(config, after(1));
    let settled = roster.settle(after(1));
    let zone = Name::parse("dc1.cns.example.com").unwrap();
    let gone = Name::parse(&format!("web1.inst.{ACME}.dc1.cns.example.com")).unwrap();
    assert!(settled.touched[&zone].contains(&gone) && roster.records_at(&zone, &gone).is_empty());
    assert_eq!((roster.counts().held, roster.counts().soft_removals), (before.held, before.soft_removals));
}

#[test]
fn hostile_tags_lose_what_does_not_fit() {
    let mut roster = roster(plain_config(), addressed(0));
    let long = "x".repeat(64);
    put(&mut roster, tagged(1, &format!("{long}:80,a..b,web:0,api:65536,ok:port=x,fine:8080")), NOW);
    let many: Vec<String> = (0..100).map(|number| format!("s{number}:{}", number + 1)).collect();
    put(&mut roster, tagged(2, &many.join(",")), NOW);
    put(&mut roster, tagged(3, &"a,".repeat(9000)), NOW);
    roster.settle(NOW);
    let said = roster.explain(member_uuid(1)).unwrap();
    assert_eq!(said.reasons, ["invalid_name", "invalid_port"]);
    let services: Vec<(&str, &[u16])> = said.services.iter().map(|one| (&*one.service, &*one.ports)).collect();
    assert_eq!(services, [("web", &[][..]), ("api", &[]), ("ok", &[]), ("fine", &[8080])]);
    assert_eq!(roster.explain(member_uuid(2)).unwrap().reasons, ["too_many"]);
    assert_eq!(roster.explain(member_uuid(2)).unwrap().services.len(), 64);
    assert_eq!(roster.explain(member_uuid(3)).unwrap().reasons, ["invalid_tag"]);
}

#[test]
fn reverse_zones_of_a_list_hold_by_the_longest_prefix() {
    let zone = |origin: &str, prefix: &str, bits| ReverseZone {
        origin: Name::parse(origin).unwrap(),
        prefix: (prefix.parse().unwrap(), bits),
    };
    let zones = vec![
        zone("198.in-addr.arpa", "198.0.0.0", 8),
        zone("100.51.198.in-addr.arpa", "198.51.100.0", 24),
        zone("10.in-addr.arpa", "10.0.0.0", 8),
    ];
    let roster = roster(Config { reverse: Reverse::Listed(zones), ..plain_config() }, addressed(1));
    let zones = records(&roster);
    assert!(zones["100.51.198.in-addr.arpa"].contains_key("1") && !zones.contains_key("198.in-addr.arpa"));
    assert_eq!(roster.zones().len(), 4);
}

#[test]
fn a_network_that_is_gone_keeps_the_records_until_the_instance_is_forgotten() {
    let mut roster = roster(plain_config(), addressed(1));
    let before = records(&roster);
    roster.apply(Change::Gone(Key::Network(EXTERNAL.parse().unwrap())), after(1));
    roster.settle(after(1));
    assert_eq!(records(&roster), before);
    assert_eq!(roster.explain(member_uuid(1)).unwrap().undecided, Some(("unknown_network", after(1))));
    assert_eq!(roster.counts().undecided, 1);
    assert!(roster.forget(member_uuid(1), after(2)));
    roster.settle(after(2));
    assert!(records(&roster).is_empty() && roster.counts().undecided == 0);
}

#[test]
fn a_survey_has_the_first_of_each_kind_and_finds_by_a_part_of_a_name() {
    let other = "8f1584a3-0000-4000-8000-00000000000b";
    let mut inventory = addressed(3);
    inventory.accounts.push(account(other, "quiet"));
    let mut roster = roster(plain_config(), inventory);
    for number in 1..=3 {
        roster.report(member_uuid(number), Health::Down, None, NOW);
    }
    put(&mut roster, Vm { owner: Some(Uuid::from_u128(9)), ..tagged(4, "lost") }, after(1));
    put(&mut roster, tagged(5, "api"), after(1));
    roster.settle(after(1));
    let all = roster.survey("", 100);
    let accounts: Vec<_> = all.accounts.first.iter().map(|one| (one.login.as_deref(), one.instances)).collect();
    assert_eq!(accounts, [(Some("acme"), 4), (None, 1), (Some("quiet"), 0)]);
    let acme = &all.accounts.first[0];
    assert_eq!((acme.listed, acme.in_service, acme.held, acme.undecided), (4, 1, 2, 0));
    assert_eq!(all.accounts.first[1].undecided, 1);
    let services: Vec<_> =
        all.services.first.iter().map(|one| (&*one.service, one.in_service, one.held, one.out)).collect();
    assert_eq!(services, [("web", 0, 2, 1), ("api", 1, 0, 0)]);
    // Only those that need a look, the undecided one first.
    let uuids = |survey: &inventory::roster::Survey| -> Vec<Uuid> {
        survey.instances.first.iter().map(|instance| instance.uuid).collect()
    };
    assert_eq!((all.instances.found, uuids(&all)[0]), (3, member_uuid(4)));
    assert!(uuids(&all)[1..].iter().all(|uuid| roster.explain(*uuid).unwrap().services[0].held_since == Some(NOW)));
    // The names of its instances by UUID and alias, and of its services.
    assert_eq!(roster.names_by_account(1), [(ACME.parse().unwrap(), Some("acme"), 4 * 2 + 2)]);
    // Whatever is looked for is found in any state, by its own name, its service's or its account's.
    assert_eq!(uuids(&roster.survey("API", 100)), [member_uuid(5)]);
    let acme = roster.survey("acme", 2);
    assert_eq!((acme.accounts.found, acme.services.found, acme.instances.found), (1, 2, 4));
    assert_eq!(acme.instances.first.len(), 2);
    assert_eq!(uuids(&roster.survey(&member_uuid(5).to_string()[20..], 100)), [member_uuid(5)]);
    let none = roster.survey("no such", 100);
    assert_eq!((none.accounts.found, none.services.found, none.instances.found), (0, 0, 0));
    assert_eq!(roster.survey("", 0).instances.found, 3);
    roster.replace(Inventory::default(), after(2));
    roster.settle(after(2));
    assert_eq!(roster.names_by_account(9), []);
}

/// A compute node that has run for long.
fn node(status: ServerStatus) -> Server {
    Server {
        uuid: Uuid::from_u128(7),
        hostname: "cn1".into(),
        setup: true,
        status,
        last_boot: Some(Moment(0)),
        last_heartbeat: Some(NOW),
        admin_nic_tag: None,
    }
}

#[test]
fn members_without_a_published_address_are_none_of_the_group() {
    // Of six, two could leave at once.
    for (without_address, held) in [(0, 1), (3, 2)] {
        let mut inventory = addressed(6);
        for vm in inventory.vms.iter_mut().skip(6 - without_address) {
            (vm.nics[0].addresses, vm.nics[0].dynamic) = (Box::default(), true);
        }
        let mut roster = roster(plain_config(), inventory);
        let service = format!("web.svc.{ACME}");
        assert!(!has(&roster, &service, &format!("TXT \"{}\"", member_uuid(6))) || without_address == 0);
        for number in 1..=3 {
            roster.report(member_uuid(number), Health::Down, None, NOW);
        }
        roster.settle(NOW);
        assert_eq!(roster.counts().held, held);
        // Neither is a report of theirs held, nor does it say at the name that somebody is being verified.
        roster.report(member_uuid(6), Health::Down, None, after(1));
        roster.settle(after(1));
        let verifying = format!("TXT \"verifying:{}\"", member_uuid(6));
        assert!(!has(&roster, &service, &verifying));
        assert_eq!(roster.counts().held, held + usize::from(without_address == 0));
    }
}

#[test]
fn a_node_may_be_down_as_soon_as_it_does_not_run() {
    let mut inventory = addressed(2);
    inventory.servers = vec![node(ServerStatus::Running)];
    inventory.vms[0].server = Some(Uuid::from_u128(7));
    let mut roster = roster(Config { cn_down_after: Duration::ZERO, ..plain_config() }, inventory);
    let service = format!("web.svc.{ACME}");
    assert!(has(&roster, &service, "A 198.51.100.1"));
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Unknown))), after(1));
    roster.settle(after(1));
    assert!(!has(&roster, &service, "A 198.51.100.1") && has(&roster, &service, "A 198.51.100.2"));
    assert_eq!(roster.explain(member_uuid(1)).unwrap().reasons, ["cn_down"]);
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Running))), after(2));
    roster.settle(after(2));
    assert!(has(&roster, &service, "A 198.51.100.1"));
}

#[test]
fn silence_may_mean_down() {
    let mut inventory = addressed(3);
    inventory.vms[1].metadata = [(Metadata::Status, "up".into())].into();
    inventory.vms[2].metadata = [(Metadata::Status, "".into())].into();
    let mut roster = roster(Config { missing_is_up: false, ..plain_config() }, inventory.clone());
    let service = format!("web.svc.{ACME}");
    let is_in = |roster: &Roster| [1, 2, 3].map(|number| has(roster, &service, &format!("A 198.51.100.{number}")));
    assert_eq!(is_in(&roster), [false, true, false]);
    assert!(has(&roster, &service, &format!("TXT \"verifying:{}\"", member_uuid(1))));
    assert_eq!(roster.explain(member_uuid(1)).unwrap().reasons, ["inst_en_flag"]);
    roster.report(member_uuid(1), Health::Up, None, NOW);
    roster.settle(NOW);
    assert_eq!(is_in(&roster), [true, true, false]);
    assert_eq!(is_in(&self::roster(plain_config(), inventory)), [true, true, false]);
}

#[test]
fn a_hold_that_ended_hard_is_over_after_a_restart() {
    let mut roster = roster(plain_config(), addressed(1));
    roster.report(member_uuid(1), Health::Down, None, NOW);
    roster.settle(NOW);
    let mut kept = roster.keep();
    assert_eq!(roster.counts().held, 1);
    // It stops, and starts again: who comes with a bad report is not put in.
    for state in [State::Other, State::Running] {
        put(&mut roster, Vm { state, ..member(1) }, after(1));
        roster.settle(after(1));
        let changes = roster.keep_changes();
        kept.elements.extend(changes.elements);
        kept.retained.extend(changes.retained);
    }
    let (mut again, _) = Roster::restore(plain_config(), &kept, after(2));
    again.settle(after(2));
    assert_eq!((roster.counts().held, again.counts().held), (0, 0));
    assert_eq!(records(&again), records(&roster));
}

#[test]
fn an_instance_waits_for_its_node_and_keeps_what_it_had() {
    let mut roster = roster(plain_config(), addressed(1));
    let placed = |number| Vm { server: Some(Uuid::from_u128(7)), ..member(number) };
    put(&mut roster, placed(1), after(1));
    put(&mut roster, placed(2), after(1));
    roster.settle(after(1));
    let service = format!("web.svc.{ACME}");
    assert!(has(&roster, &service, "A 198.51.100.1") && !has(&roster, &service, "A 198.51.100.2"));
    for number in [1, 2] {
        assert_eq!(roster.explain(member_uuid(number)).unwrap().undecided, Some(("unknown_server", after(1))));
    }
    roster.apply(Change::Put(Element::Server(node(ServerStatus::Running))), after(2));
    roster.settle(after(2));
    assert!(has(&roster, &service, "A 198.51.100.1") && has(&roster, &service, "A 198.51.100.2"));
    assert_eq!(roster.counts().undecided, 0);
}

#[test]
fn an_instance_that_leaves_while_it_cannot_be_judged_is_out_after_a_restart() {
    let mut roster = roster(plain_config(), addressed(1));
    roster.report(member_uuid(1), Health::Down, None, NOW);
    roster.settle(NOW);
    roster.apply(Change::Gone(Key::Network(EXTERNAL.parse().unwrap())), after(1));
    roster.settle(after(1));
    let mut kept = roster.keep();
    let service = format!("web.svc.{ACME}");
    assert!(has(&roster, &service, "A 198.51.100.1"));
    roster.settle(after(600));
    assert!(!has(&roster, &service, "A 198.51.100.1"));
    let changes = roster.keep_changes();
    kept.elements.extend(changes.elements);
    kept.retained.extend(changes.retained);
    let (mut again, _) = Roster::restore(plain_config(), &kept, after(700));
    again.settle(after(700));
    assert_eq!(records(&again), records(&roster));
}

#[test]
fn the_first_of_what_is_unknown_is_the_reason() {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let second = "8f1584a3-0000-4000-8000-00000000000b";
    let mut vm = Vm { owner: Some(second.parse().unwrap()), server: Some(Uuid::from_u128(7)), ..member(1) };
    let network_of_another = Uuid::from_u128(9);
    // The first interface is on an unknown network, the second belongs to another instance.
    vm.nics = [
        Interface { network: Some(network_of_another), ..vm.nics[0].clone() },
        Interface { mac: Some(mac), addresses: Box::default(), ..vm.nics[0].clone() },
    ]
    .into();
    let mut roster = roster(plain_config(), addressed(0));
    let nic = |owner| {
        let addresses = [IpAddr::from([198, 51, 100, 99])].into();
        let network = Some(EXTERNAL.parse().unwrap());
        Nic { mac, belongs_to: Some(owner), network, nic_tag: None, vlan_id: 0, addresses, dynamic: false }
    };
    roster.apply(Change::Put(Element::Nic(nic(member_uuid(2)))), NOW);
    put(&mut roster, vm, NOW);
    let steps = [
        ("unknown_owner", Element::Account(account(second, "other"))),
        ("unknown_server", Element::Server(node(ServerStatus::Running))),
        ("unknown_network", Element::Network(network(&network_of_another.to_string(), "other"))),
        ("nic_mismatch", Element::Nic(nic(member_uuid(1)))),
    ];
    for (reason, mend) in steps {
        roster.settle(NOW);
        let told = roster.explain(member_uuid(1)).unwrap();
        assert_eq!((told.undecided, told.reasons), (Some((reason, NOW)), vec![reason]));
        assert!(records(&roster).is_empty());
        roster.apply(Change::Put(mend), NOW);
    }
    roster.settle(NOW);
    assert!(has(&roster, &format!("web.svc.{second}"), "A 198.51.100.1"));
    assert!(has(&roster, &format!("web.svc.{second}"), "A 198.51.100.99"));
}
