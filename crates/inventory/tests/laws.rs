//! Laws: whatever happens to an inventory, in whatever order, what a roster publishes is a function of what it knows.

mod cases;

use cases::{ACME, EXTERNAL, Zones, account, member, member_uuid, network, records};
use inventory::config::{Config, ForwardZone, Limits, Reverse, ReverseZone};
use inventory::contribution::reverse_name;
use inventory::damping::Group;
use inventory::kept::{Kept, List};
use inventory::model::{
    Change, Element, Inventory, Key, Metadata, Moment, Server, ServerStatus, State, Tag, TagValue, Uuid,
};
use inventory::roster::{Explanation, Health, Part, Reported, Roster};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use wire::name::Name;

const OTHER: &str = "8f1584a3-0000-4000-8000-00000000000b";
const FABRIC: &str = "fab00000-0000-4000-8000-000000000001";

/// What happens to an inventory.
#[derive(Clone, Debug)]
enum Event {
    Put(Instance),
    Gone(u8),
    Report { number: u8, up: bool, ttl: u8 },
    Withdraw(u8),
    Account { which: u8, enabled: bool, approved: bool, login: u8 },
    AccountGone(u8),
    NetworkGone(u8),
    Network(u8),
    Server { which: u8, status: u8, heartbeat: u16, boot: u8 },
    ServerGone(u8),
    Reconfigure(u8),
    Settle(u16),
    Restart,
}

/// An instance, each part by its number among a few.
#[derive(Clone, Debug)]
struct Instance {
    number: u8,
    tag: u8,
    state: u8,
    status: u8,
    network: u8,
    alias: u8,
    owner: u8,
    server: u8,
    mark: u8,
    addresses: u8,
}

fn instance() -> impl Strategy<Value = Instance> {
    let parts = (1..12u8, 0..6u8, 0..8u8, 0..6u8, 0..3u8, 0..6u8, 0..2u8, 0..6u8, 0..8u8, 0..6u8);
    parts.prop_map(|(number, tag, state, status, network, alias, owner, server, mark, addresses)| Instance {
        number,
        tag,
        state,
        status,
        network,
        alias,
        owner,
        server,
        mark,
        addresses,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => instance().prop_map(Event::Put),
        2 => (1..12u8).prop_map(Event::Gone),
        6 => (1..12u8, any::<bool>(), 0..6u8).prop_map(|(number, up, ttl)| Event::Report { number, up, ttl }),
        1 => (1..12u8).prop_map(Event::Withdraw),
        2 => (0..2u8, any::<bool>(), 0..4u8, 0..3u8).prop_map(
            |(which, enabled, approved, login)| Event::Account { which, enabled, approved: approved > 0, login }
        ),
        1 => (0..2u8).prop_map(Event::AccountGone),
        1 => (0..2u8).prop_map(Event::NetworkGone),
        1 => (0..2u8).prop_map(Event::Network),
        3 => (0..2u8, 0..4u8, 0..9000u16, 0..4u8).prop_map(
            |(which, status, heartbeat, boot)| Event::Server { which, status, heartbeat, boot }
        ),
        1 => (0..2u8).prop_map(Event::ServerGone),
        1 => (0..5u8).prop_map(Event::Reconfigure),
        8 => (0..900u16).prop_map(Event::Settle),
        1 => Just(Event::Restart),
    ]
}

/// One of several configurations.
fn config(which: u8) -> Config {
    let zone = |origin: &str, networks: &[&str]| ForwardZone {
        origin: Name::parse(origin).unwrap(),
        networks: networks.iter().map(|name| Box::from(*name)).collect(),
    };
    let first = zone("dc1.cns.example.com", &["*"]);
    let forward = vec![first.clone(), zone("pub.example.com", &["external"])];
    let plain = Config { use_login: true, cmon: true, forward, ..cases::plain_config() };
    let listed = [("100.51.198.in-addr.arpa", "198.51.100.0", 24), ("8.b.d.0.1.0.0.2.ip6.arpa", "2001:db8::", 32)];
    let listed = listed.map(|(origin, first, bits)| ReverseZone {
        origin: Name::parse(origin).unwrap(),
        prefix: (first.parse().unwrap(), bits),
    });
    match which {
        // A network that no zone has any more, a zone less, other names, other reverse zones.
        1 => Config { forward: vec![zone("dc1.cns.example.com", &[FABRIC])], ..plain },
        2 => Config { forward: vec![zone("pub.example.com", &["external"]), first], use_alias: false, ..plain },
        3 => Config { use_login: false, cmon: false, cn_down_after: Duration::ZERO, ..plain },
        4 => Config { reverse: Reverse::Listed(listed.into()), missing_is_up: false, ..plain },
        _ => plain,
    }
}

fn uuid(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn apply(roster: &mut Roster, event: &Event, now: Moment) {
    match event {
        Event::Put(instance) => put_instance(roster, instance, now),
        Event::Gone(number) => roster.apply(Change::Gone(Key::Vm(member_uuid(*number))), now),
        Event::Report { number, up, ttl } => {
            let health = if *up { Health::Up } else { Health::Down };
            let ttl = [Some(0), Some(30), Some(700)].get(usize::from(*ttl)).copied().flatten();
            roster.report(member_uuid(*number), health, ttl.map(Duration::from_secs), now);
        }
        Event::Withdraw(number) => {
            roster.withdraw_report(member_uuid(*number), now);
        }
        Event::Account { which, enabled, approved, login } => {
            let logins = ["jim.smith", "jim-smith", "acme"];
            let mut account = account([ACME, OTHER][usize::from(*which)], logins[usize::from(*login)]);
            (account.cns_enabled, account.approved) = (*enabled, *approved);
            roster.apply(Change::Put(Element::Account(account)), now);
        }
        Event::AccountGone(which) => {
            roster.apply(Change::Gone(Key::Account(uuid([ACME, OTHER][usize::from(*which)]))), now);
        }
        Event::NetworkGone(which) => {
            roster.apply(Change::Gone(Key::Network(uuid([EXTERNAL, FABRIC][usize::from(*which)]))), now);
        }
        Event::Network(which) => put_network(roster, *which, now),
        Event::Server { which, status, heartbeat, boot } => {
            let ago = |seconds: u16| Moment(now.0 - i64::from(seconds) * 1000);
            let statuses = [ServerStatus::Running, ServerStatus::Rebooting, ServerStatus::Unknown];
            let server = Server {
                uuid: server_uuid(*which),
                hostname: format!("cn{which}").into(),
                setup: usize::from(*status) < statuses.len(),
                status: statuses.get(usize::from(*status)).copied().unwrap_or(ServerStatus::Running),
                last_boot: [Some(ago(60)), Some(ago(9000)), Some(now.plus(Duration::from_secs(50)))]
                    .get(usize::from(*boot))
                    .copied()
                    .flatten(),
                last_heartbeat: (heartbeat % 3 > 0).then(|| ago(*heartbeat)),
                admin_nic_tag: None,
            };
            roster.apply(Change::Put(Element::Server(server)), now);
        }
        Event::ServerGone(which) => roster.apply(Change::Gone(Key::Server(server_uuid(*which))), now),
        Event::Reconfigure(which) => roster.reconfigure(config(*which), now),
        Event::Settle(_) | Event::Restart => {}
    }
}

fn server_uuid(which: u8) -> Uuid {
    Uuid::from_u128(0xc000 + u128::from(which))
}

fn put_instance(roster: &mut Roster, instance: &Instance, now: Moment) {
    let mut vm = member(instance.number);
    let tags = ["", "web:80", "web,api:443", "api", "web:80:port=x", "a b"];
    let mut all = Vec::new();
    match tags[usize::from(instance.tag)] {
        "" => {}
        text => all.push((Tag::Services, TagValue::Text(text.into()))),
    }
    if instance.mark == 0 {
        all.push((Tag::Disable, TagValue::Flag(true)));
    }
    if matches!(instance.mark, 1 | 2) {
        all.push((Tag::ReversePtr, TagValue::Text("chosen.example.net".into())));
    }
    vm.tags = all.into();
    vm.state = [State::Other, State::Destroyed].get(usize::from(instance.state)).copied().unwrap_or(State::Running);
    let status = ["up", "down", "disabled"].get(usize::from(instance.status)).copied();
    let tokens = matches!(instance.mark, 2 | 3).then_some("one two  three");
    let status = status.map(|status| (Metadata::Status, status.into()));
    vm.metadata = status.into_iter().chain(tokens.map(|tokens| (Metadata::AcmeChallenge, tokens.into()))).collect();
    let networks = [EXTERNAL, FABRIC, "00000000-0000-4000-8000-000000000099"];
    vm.nics[0].network = Some(uuid(networks[usize::from(instance.network)]));
    let twin = member_uuid(2).to_string();
    let aliases = ["same", "Same", "sa.me", "sa-me", &twin, "one"];
    vm.alias = Some(aliases[usize::from(instance.alias)].into());
    vm.owner = Some(uuid([ACME, OTHER][usize::from(instance.owner)]));
    vm.server = (instance.server < 2).then(|| server_uuid(instance.server));
    let [v4, other, v6] = addresses_of(instance.number);
    // Two accounts with one service are two groups.
    let v4 = if instance.owner == 1 { other } else { v4 };
    vm.nics[0].addresses = match instance.addresses {
        0 => Box::default(),
        1 => [v6].into(),
        2 | 3 => [v4, v6].into(),
        _ => [v4].into(),
    };
    vm.nics[0].dynamic = true;
    roster.apply(Change::Put(Element::Vm(vm)), now);
}

/// The addresses that an instance may have, and no other.
fn addresses_of(number: u8) -> [IpAddr; 3] {
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into());
    [[198, 51, 100, number].into(), [203, 0, 113, number].into(), v6.into()]
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
    let mut roster = Roster::new(config(0), now);
    let accounts = vec![account(ACME, "acme"), account(OTHER, "jim.smith")];
    roster.replace(Inventory { accounts, ..Inventory::default() }, now);
    put_network(&mut roster, 0, now);
    put_network(&mut roster, 1, now);
    roster.settle(now);
    roster
}

/// What is told of each instance, but for moments that a restart makes anew.
fn told(roster: &Roster) -> Vec<Explanation> {
    let all = (1..12).filter_map(|number| roster.explain(member_uuid(number)));
    all.map(|told| Explanation {
        undecided: told.undecided.map(|(reason, _)| (reason, Moment::default())),
        report: told.report.map(|report| Reported { until: None, ..report }),
        ..told
    })
    .collect()
}

fn is_address(record: &str) -> bool {
    record.starts_with("A ") || record.starts_with("AAAA ")
}

/// An instance that has neither flag, nor had any when it could still be judged, has no record anywhere.
fn check_absent(roster: &Roster, zones: &Zones) {
    for number in 1..12 {
        let uuid = member_uuid(number);
        let told = roster.explain(uuid);
        if told.as_ref().is_some_and(|told| told.instance || told.service || told.undecided.is_some()) {
            continue;
        }
        assert!(told.is_none_or(|told| told.names.is_empty() && told.addressed.is_empty()), "{uuid} has names");
        let texts = [format!("TXT \"{uuid}\""), format!("TXT \"verifying:{uuid}\"")];
        let addresses = addresses_of(number);
        let records = addresses.map(|address| format!("{} {address}", if address.is_ipv4() { "A" } else { "AAAA" }));
        let reverse = addresses.map(|address| reverse_name(address).unwrap().to_string());
        let cmon = format!("{uuid}.cmon");
        for (zone, names) in zones {
            assert!(!names.contains_key(&cmon), "{uuid} has an alias of CMON");
            for (name, set) in names {
                assert!(texts.iter().chain(&records).all(|record| !set.contains(record)), "{name}.{zone}: {uuid}");
                assert!(!reverse.contains(&format!("{name}.{zone}.")), "{name}.{zone}: {uuid}");
            }
        }
    }
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
                assert!(names[relative].iter().any(|record| is_address(record)), "{target} has no address");
            }
            if name.contains(".svc.") && records.iter().any(|record| is_address(record)) {
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
                for address in records.iter().filter(|record| is_address(record)) {
                    assert!(given.contains(address), "{name}.{zone}: {address} is nobody's");
                }
            }
        }
    }
}

/// Both lists in parts.
fn all_parts(roster: &Roster) -> Vec<(List, Part)> {
    [List::Elements, List::Retained]
        .into_iter()
        .flat_map(|list| roster.parts(list).into_iter().map(move |part| (list, part)))
        .collect()
}

/// Writes the last one of some parts, if there is any.
fn write_part(roster: &Roster, parts: &mut Vec<(List, Part)>, kept: &mut Kept) {
    let Some((list, part)) = parts.pop() else { return };
    match list {
        List::Elements => kept.elements.extend(roster.kept(&part)),
        List::Retained => kept.retained.extend(roster.kept(&part)),
    }
}

proptest! {
    #[test]
    fn incremental_is_full(events in prop::collection::vec(event(), 1..60)) {
        let mut now = Moment(1_700_000_000_000);
        let mut roster = start(now);
        let mut before = records(&roster);
        let mut journal = roster.keep();
        let mut parts = all_parts(&roster);
        let mut anew = Kept::default();
        for event in &events {
            apply(&mut roster, event, now);
            // A part is written at any moment, in the middle of a batch, too.
            write_part(&roster, &mut parts, &mut anew);
            if let Event::Settle(seconds) = event {
                now = now.plus(Duration::from_secs(u64::from(*seconds)));
            }
            if matches!(event, Event::Restart) {
                roster.settle(now);
                let kept = roster.keep();
                let (mut again, unread) = Roster::restore(roster.config().clone(), &kept, now);
                prop_assert_eq!(unread, 0);
                again.settle(now);
                prop_assert_eq!(records(&again), records(&roster));
                before = records(&again);
                roster = again;
                journal = roster.keep();
                (parts, anew) = (all_parts(&roster), Kept::default());
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
                check_absent(&roster, &after);
                before = after;
                // The same from what is kept, all at once or change by change.
                let changes = roster.keep_changes();
                journal.elements.extend(changes.elements.clone());
                journal.retained.extend(changes.retained.clone());
                // Or in parts, with what changed meanwhile behind them.
                while !parts.is_empty() {
                    write_part(&roster, &mut parts, &mut anew);
                }
                anew.elements.extend(changes.elements);
                anew.retained.extend(changes.retained);
                let written = std::mem::take(&mut anew);
                parts = all_parts(&roster);
                for kept in [&roster.keep(), &journal, &written] {
                    let (mut again, unread) = Roster::restore(roster.config().clone(), kept, now);
                    prop_assert_eq!(unread, 0);
                    again.settle(now);
                    prop_assert_eq!(records(&again), before.clone());
                    prop_assert_eq!(told(&again), told(&roster));
                }
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
