//! Laws: whatever happens to an inventory, in whatever order, what a roster publishes is a function of what it knows.

mod cases;

use cases::{ACME, EXTERNAL, Zones, account, member, member_uuid, network, records};
use inventory::config::{Config, ForwardZone, Limits};
use inventory::damping::Group;
use inventory::model::{Change, Element, Inventory, Key, Metadata, Moment, State, Tag, TagValue, Uuid};
use inventory::roster::{Health, Roster};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;

const OTHER: &str = "8f1584a3-0000-4000-8000-00000000000b";
const FABRIC: &str = "fab00000-0000-4000-8000-000000000001";

/// What happens to an inventory.
#[derive(Clone, Debug)]
enum Event {
    Put { number: u8, tag: u8, state: u8, status: u8, network: u8, alias: u8, owner: u8 },
    Gone(u8),
    Report(u8, bool),
    Withdraw(u8),
    Account { which: u8, enabled: bool, login: u8 },
    AccountGone(u8),
    NetworkGone(u8),
    Network(u8),
    Settle(u16),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (1..12u8, 0..6u8, 0..8u8, 0..6u8, 0..3u8, 0..6u8, 0..2u8).prop_map(
            |(number, tag, state, status, network, alias, owner)| Event::Put { number, tag, state, status, network, alias, owner }
        ),
        2 => (1..12u8).prop_map(Event::Gone),
        6 => (1..12u8, any::<bool>()).prop_map(|(number, up)| Event::Report(number, up)),
        1 => (1..12u8).prop_map(Event::Withdraw),
        2 => (0..2u8, any::<bool>(), 0..3u8).prop_map(|(which, enabled, login)| Event::Account { which, enabled, login }),
        1 => (0..2u8).prop_map(Event::AccountGone),
        1 => (0..2u8).prop_map(Event::NetworkGone),
        1 => (0..2u8).prop_map(Event::Network),
        8 => (0..900u16).prop_map(Event::Settle),
        1 => Just(Event::Restart),
    ]
}

fn config() -> Config {
    let zone = |origin: &str, networks: &[&str]| ForwardZone {
        origin: Name::parse(origin).unwrap(),
        networks: networks.iter().map(|name| Box::from(*name)).collect(),
    };
    let forward = vec![zone("dc1.cns.example.com", &["*"]), zone("pub.example.com", &["external"])];
    Config { use_login: true, cmon: true, forward, ..cases::plain_config() }
}

fn uuid(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn apply(roster: &mut Roster, event: &Event, now: Moment) {
    match event {
        Event::Put { number, tag, state, status, network, alias, owner } => {
            let mut vm = member(*number);
            let tags = ["", "web:80", "web,api:443", "api", "web:80:port=x", "a b"];
            vm.tags = match tags[usize::from(*tag)] {
                "" => Box::default(),
                text => [(Tag::Services, TagValue::Text(text.into()))].into(),
            };
            vm.state = [State::Other, State::Destroyed].get(usize::from(*state)).copied().unwrap_or(State::Running);
            let status = ["up", "down", "disabled"].get(usize::from(*status)).copied();
            vm.metadata = status.into_iter().map(|status| (Metadata::Status, status.into())).collect();
            let networks = [EXTERNAL, FABRIC, "00000000-0000-4000-8000-000000000099"];
            vm.nics[0].network = Some(uuid(networks[usize::from(*network)]));
            let twin = member_uuid(2).to_string();
            let aliases = ["same", "Same", "sa.me", "sa-me", &twin, "one"];
            vm.alias = Some(aliases[usize::from(*alias)].into());
            vm.owner = Some(uuid([ACME, OTHER][usize::from(*owner)]));
            if *owner == 1 {
                // Two accounts with one service are two groups.
                vm.nics[0].addresses = [IpAddr::from([203, 0, 113, *number])].into();
            }
            roster.apply(Change::Put(Element::Vm(vm)), now);
        }
        Event::Gone(number) => roster.apply(Change::Gone(Key::Vm(member_uuid(*number))), now),
        Event::Report(number, up) => {
            let health = if *up { Health::Up } else { Health::Down };
            roster.report(member_uuid(*number), health, None, now);
        }
        Event::Withdraw(number) => {
            roster.withdraw_report(member_uuid(*number), now);
        }
        Event::Account { which, enabled, login } => {
            let logins = ["jim.smith", "jim-smith", "acme"];
            let mut account = account([ACME, OTHER][usize::from(*which)], logins[usize::from(*login)]);
            account.cns_enabled = *enabled;
            roster.apply(Change::Put(Element::Account(account)), now);
        }
        Event::AccountGone(which) => {
            roster.apply(Change::Gone(Key::Account(uuid([ACME, OTHER][usize::from(*which)]))), now);
        }
        Event::NetworkGone(which) => {
            roster.apply(Change::Gone(Key::Network(uuid([EXTERNAL, FABRIC][usize::from(*which)]))), now);
        }
        Event::Network(which) => put_network(roster, *which, now),
        Event::Settle(_) | Event::Restart => {}
    }
}

fn put_network(roster: &mut Roster, which: u8, now: Moment) {
    let mut element = network([EXTERNAL, FABRIC][usize::from(which)], ["external", "My Fabric"][usize::from(which)]);
    if which == 1 {
        element.owners = [uuid(ACME)].into();
    }
    roster.apply(Change::Put(Element::Network(element)), now);
}

/// A roster with both accounts and networks and nothing else.
fn start(now: Moment) -> Roster {
    let mut roster = Roster::new(config(), now);
    let accounts = vec![account(ACME, "acme"), account(OTHER, "jim.smith")];
    roster.replace(Inventory { accounts, ..Inventory::default() }, now);
    put_network(&mut roster, 0, now);
    put_network(&mut roster, 1, now);
    roster.settle(now);
    roster
}

/// What holds of the records of any roster.
fn check(zones: &Zones) {
    for (zone, names) in zones.iter().filter(|(zone, _)| !zone.ends_with(".arpa")) {
        for (name, records) in names {
            assert!(!records.is_empty(), "{name}.{zone} is empty");
            let has = |rtype: &str| records.iter().any(|record| record.starts_with(rtype));
            assert!(!has("CNAME ") || records.len() == 1, "{name}.{zone}: {records:?}");
            for target in records.iter().filter_map(|record| record.strip_prefix("SRV ")) {
                let target = target.rsplit(' ').next().unwrap();
                let relative =
                    target.strip_suffix(&format!(".{zone}.")).unwrap_or_else(|| panic!("{target} is not in {zone}"));
                assert!(names[relative].iter().any(|record| record.starts_with("A ")), "{target} has no address");
            }
            if name.contains(".svc.") && has("A ") {
                // Every address of a service is that of an instance that its TXT records tell.
                let (_, account) = name.rsplit_once('.').unwrap();
                let listed = records.iter().filter_map(|record| record.strip_prefix("TXT \"")?.strip_suffix('"'));
                let given: BTreeSet<&String> = listed
                    .filter_map(|uuid| {
                        let own = format!("{uuid}.inst.{account}");
                        // A name with the network in front has those of the network.
                        names.get(&own)
                    })
                    .flatten()
                    .collect();
                for address in records.iter().filter(|record| record.starts_with("A ")) {
                    assert!(given.contains(address), "{name}.{zone}: {address} is nobody's");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn incremental_is_full(events in prop::collection::vec(event(), 1..60)) {
        let mut now = Moment(1_700_000_000_000);
        let mut roster = start(now);
        let mut before = records(&roster);
        for event in &events {
            apply(&mut roster, event, now);
            if let Event::Settle(seconds) = event {
                now = now.plus(Duration::from_secs(u64::from(*seconds)));
            }
            if matches!(event, Event::Restart) {
                roster.settle(now);
                let kept = roster.keep();
                let (mut again, unread) = Roster::restore(config(), &kept, now);
                prop_assert_eq!(unread, 0);
                again.settle(now);
                prop_assert_eq!(records(&again), records(&roster));
                before = records(&again);
                roster = again;
            }
            if matches!(event, Event::Settle(_)) {
                let settled = roster.settle(now);
                let after = records(&roster);
                // Every change was told.
                for (zone, name) in differing(&before, &after) {
                    let told = settled.touched.iter().any(|(origin, names)| {
                        origin.to_string() == format!("{zone}.")
                            && names.iter().any(|owner| owner.to_string() == format!("{name}.{zone}."))
                    });
                    prop_assert!(told, "{name}.{zone} was not told");
                }
                check(&after);
                before = after;
                // The same from what is kept.
                let kept = roster.keep();
                let (mut again, _) = Roster::restore(config(), &kept, now);
                again.settle(now);
                prop_assert_eq!(records(&again), before.clone());
            }
        }
        // Nothing is left when everything has gone.
        cases::publish_all(&mut roster, now);
    }

    #[test]
    fn no_window_sees_more_removals_than_the_rule(
        size in 1..40u8,
        steps in prop::collection::vec((0..40u8, 0..4u8, 0..30_000i64), 1..200),
    ) {
        let limits = Limits::default();
        let mut group: Group<u8, Moment, u8> = Group::default();
        let places = |member: u8| -> Vec<u8> { if member.is_multiple_of(7) { vec![0, 1] } else { vec![0] } };
        (0..size).for_each(|member| {
            group.join(member, &places(member));
        });
        let mut now = Moment(0);
        group.evaluate(&limits, now, None);
        // Removals with the size of the group just before.
        let mut removals: Vec<(Moment, usize)> = Vec::new();
        let mut alone: BTreeMap<u8, Moment> = BTreeMap::new();
        for (member, what, pause) in steps {
            let until = now.plus(Duration::from_millis(pause as u64));
            loop {
                let moment = group.next().filter(|next| *next > now && *next <= until).unwrap_or(until);
                now = moment;
                if now == until {
                    match what {
                        0 => { group.remove(&member); }
                        1 => { group.join(member, &places(member)); }
                        _ => group.withdraw(member, &places(member), now),
                    }
                }
                let lonely = |group: &Group<u8, Moment, u8>, place: u8| {
                    (0..40u8).filter(|member| group.contains(member) && places(*member).contains(&place)).count() == 1
                };
                for place in 0..2 {
                    if lonely(&group, place) { alone.entry(place).or_insert(now); } else { alone.remove(&place); }
                }
                let size = group.size();
                let was: Vec<u8> = (0..40u8).filter(|member| group.contains(member)).collect();
                for gone in group.evaluate(&limits, now, None) {
                    removals.push((now, size));
                    prop_assert!(was.contains(&gone));
                    for place in places(gone) {
                        let rest = (0..40u8).any(|member| group.contains(&member) && places(member).contains(&place));
                        let since = alone.get(&place).copied();
                        prop_assert!(rest || since.is_some_and(|since| since.plus(limits.last) <= now), "place {place} is empty");
                    }
                }
                for place in 0..2 {
                    if lonely(&group, place) { alone.entry(place).or_insert(now); } else { alone.remove(&place); }
                }
                if now == until { break; }
            }
        }
        for (index, (at, size)) in removals.iter().enumerate() {
            let window = removals[..=index].iter().filter(|(other, _)| other.plus(limits.window) > *at).count();
            prop_assert!(window <= limits.quota(*size), "{window} within a window of {size}");
        }
    }
}

/// Names whose records differ.
fn differing(before: &Zones, after: &Zones) -> Vec<(String, String)> {
    let zones: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut all = Vec::new();
    for zone in zones {
        let empty = BTreeMap::new();
        let (old, new) = (before.get(zone).unwrap_or(&empty), after.get(zone).unwrap_or(&empty));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        all.extend(
            names.into_iter().filter(|name| old.get(*name) != new.get(*name)).map(|name| (zone.clone(), name.clone())),
        );
    }
    all
}
