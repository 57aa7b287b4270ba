//! Laws of the filter of addresses: what changed gives what everything gives, and a filtered member is one that never had
//! the addresses.

use super::*;
use crate::acl::Prefix;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Prefixes that filters are made of; addresses of members lie in and beside them.
const PREFIXES: [&str; 7] =
    ["10.0.0.0/8", "10.1.0.0/16", "10.1.0.1", "198.51.100.0/24", "fd00::/8", "2001:db8::/32", "0.0.0.0/0"];
const ADDRESSES: [&str; 8] =
    ["10.1.0.1", "10.1.0.2", "10.2.0.1", "192.168.0.1", "198.51.100.1", "fd00:1::1", "2001:db8::1", "::ffff:10.1.0.1"];

/// Lines of a member's zone, and the addresses at names of their own, which a filter may leave out.
#[derive(Clone, Debug)]
struct Text {
    serial: u32,
    others: Vec<(&'static str, &'static str)>,
    addresses: Vec<(&'static str, &'static str)>,
    /// A name that is an alias, or has an address; never both.
    alias: Option<bool>,
}

impl Text {
    /// The lines, without addresses that are left out.
    fn lines(&self, is_taken: impl Fn(&str) -> bool) -> String {
        let alias = self.alias.map(|alias| if alias { ("c", "CNAME web") } else { ("c", "A 10.1.0.1") });
        let (alias, address) = if self.alias == Some(true) { (alias, None) } else { (None, alias) };
        let mut text = format!("@ 30 SOA {}\n@ 3600 NS ns1.x.\n", self.serial);
        for (owner, data) in self.others.iter().chain(&alias) {
            text.push_str(&format!("{owner} 30 {data}\n"));
        }
        let written = address.map(|(owner, data)| (owner, data.trim_start_matches("A ")));
        for (owner, address) in self.addresses.iter().copied().chain(written).filter(|(_, address)| is_taken(address)) {
            let kind = if address.contains(':') { "AAAA" } else { "A" };
            text.push_str(&format!("{owner} 30 {kind} {address}\n"));
        }
        text
    }
}

fn arbitrary_lines() -> impl Strategy<Value = Text> {
    let owner = || prop::sample::select(vec!["@", "web", "a.web", "*.web", "s", "a.s", "b.a.s"]);
    let data = vec!["TXT t", "SRV 1 web", "NS ns.y.", "MX a.web", "TYPE65440 -", "RRSIG s"];
    let others = prop::collection::vec((owner(), prop::sample::select(data)), 0..4);
    let addresses = prop::collection::vec((owner(), prop::sample::select(ADDRESSES.to_vec())), 0..8);
    (any::<u32>(), others, addresses, any::<Option<bool>>()).prop_map(|(serial, mut others, addresses, alias)| {
        // The apex has name servers already.
        others.retain(|(owner, data)| *owner != "@" || !data.starts_with("NS"));
        Text { serial, others, addresses, alias }
    })
}

fn arbitrary_rules() -> impl Strategy<Value = AddressRules> {
    let prefixes = |least| {
        let some = prop::sample::subsequence(PREFIXES.to_vec(), least..4);
        some.prop_map(|texts| texts.into_iter().map(|text| text.parse().unwrap()).collect::<Vec<Prefix>>())
    };
    (prop::option::weighted(0.3, prefixes(1)), prefixes(0))
        .prop_map(|(only, exclude)| AddressRules { only: only.unwrap_or_default(), exclude })
}

/// Returns true if the rules let an address in, as the documents say it.
fn lets_in(rules: &AddressRules, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    let in_any = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| prefix.contains(address));
    (rules.only.is_empty() || in_any(&rules.only)) && !in_any(&rules.exclude)
}

/// Everything about a zone that can be seen.
fn seen(zone: &Zone) -> String {
    let text = format!("{zone:?}");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    format!("{lines:#?} {:?}", (zone.records, zone.names(), zone.owners, zone.cuts, zone.wildcards, &zone.sizes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_filtered_region_is_that_of_zones_without_the_addresses(
        all in arbitrary_rules(),
        own in arbitrary_rules(),
        steps in prop::collection::vec((0..2usize, prop::option::weighted(0.9, arbitrary_lines()), any::<bool>()), 1..9),
    ) {
        let members = ["w1.x", "w2.x"];
        let mut plan = plan(&members);
        plan.addresses = AddressPlan { all: all.clone(), members: vec![(name("w2.x"), own.clone())] };
        let is_taken = |member: usize, address: &str| lets_in(&all, address) && (member == 0 || lets_in(&own, address));
        let mut filtered = vec![Filtered::default(); 2];
        let (mut raws, mut taken, mut without) = (vec![None; 2], vec![None; 2], vec![None; 2]);
        let mut region = Region::new(plan.clone());
        for (member, text, known) in steps {
            let origin = format!("{}.", members[member]);
            let before: Option<Arc<Zone>> = raws[member].take();
            let loaded = text.as_ref().map(|text| load(&origin, &text.lines(|_| true), before.as_deref()));
            let touched = loaded.as_ref().filter(|_| known && before.is_some());
            let touched = touched.map_or(Touched::Everything, |loaded| Touched::Names(loaded.touched.clone()));
            raws[member] = loaded.map(|loaded| Arc::new(loaded.zone));
            let filter = plan.addresses.of(&plan.members[member]);
            let was: Option<Arc<Zone>> = taken[member].take();
            taken[member] = filtered[member].take(filter, raws[member].clone(), Some(&touched));
            without[member] = text.map(|text| Arc::new(zone(&origin, &text.lines(|address| is_taken(member, address)))));

            // However it was made, it is the zone that never had the addresses.
            let at_once = Filtered::default().take(filter, raws[member].clone(), None);
            prop_assert_eq!(taken[member].as_deref().map(seen), at_once.as_deref().map(seen));
            prop_assert_eq!(taken[member].as_deref().map(seen), without[member].as_deref().map(seen));
            if let (Some(raw), Some(taken)) = (&raws[member], &taken[member]) {
                prop_assert_eq!(&format!("{:?}", raw.soa), &format!("{:?}", taken.soa));
                let others = |zone: &Zone| -> BTreeSet<String> {
                    let all = zone.nodes().flat_map(|node| node.rrsets().map(move |set| (node, set)));
                    let others = all.filter(|(_, set)| !matches!(set.rtype, rtype::A | rtype::AAAA));
                    others.map(|(node, set)| format!("{:?} {set:?}", node.owner())).collect()
                };
                prop_assert_eq!(others(raw), others(taken), "nothing but addresses goes");
            }

            // The region follows the names that were touched in the whole zone.
            let names = match (&touched, &was, &taken[member]) {
                (Touched::Names(names), Some(_), Some(_)) => Some(names.clone()),
                _ => None,
            };
            match names {
                Some(names) => {
                    _ = region.merge_changed(&taken, names.into_iter().map(|name| (member, name)).collect(), Instant::now());
                }
                None => _ = region.merge_all(&taken, Instant::now()),
            }
            let mut expected = Region::new(plan.clone());
            expected.merge_all(&without, Instant::now());
            prop_assert_eq!(region.zone.is_some(), expected.zone.is_some());
            let (Some(merged), Some(clean)) = (&region.zone, &expected.zone) else { continue };
            let below = |zone: &Zone| seen(zone).lines().filter(|line| !line.contains(" SOA ")).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(below(merged), below(clean));
            prop_assert_eq!(&region.conflicts, &expected.conflicts);
            prop_assert_eq!(&region.alike, &expected.alike);

            // Explanations tell of each address that is left out, and of nothing else.
            let traced: Vec<TracedMember> = (0..2)
                .map(|index| TracedMember {
                    zone: raws[index].clone(),
                    taken: taken[index].clone(),
                    drained: Scope::default(),
                })
                .collect();
            for node in raws.iter().flatten().flat_map(|zone| zone.nodes()) {
                let there = Name::join(node.owner(), &plan.origin);
                for given in Trace::new(&plan, &traced, &there).contributions {
                    let address = super::super::filter::address_of(given.rtype, &given.rdata).map(|address| address.to_string());
                    let is_left_out = address.is_some_and(|address| !is_taken(given.member, &address));
                    prop_assert_eq!(given.left_out == Some(LeftOut::Address), is_left_out, "{} {:?}", there, given);
                    prop_assert!(!given.held, "{} {:?}", there, given);
                }
            }
        }
    }
}

/// Rules that leave out what these prefixes have.
fn without(prefixes: &[&str]) -> AddressRules {
    AddressRules { only: Vec::new(), exclude: prefixes.iter().map(|text| text.parse().unwrap()).collect() }
}

#[test]
fn without_anything_to_leave_out_the_version_itself_is_taken() {
    let raw = member("w1.x.", 1, "web 30 A 198.51.100.1").unwrap();
    let mut plan = AddressPlan::default();
    let mut filtered = Filtered::default();
    let is_same = |one: Option<Arc<Zone>>, other: &Arc<Zone>| one.is_some_and(|one| Arc::ptr_eq(&one, other));
    assert!(is_same(filtered.take(plan.of(&name("w1.x")), Some(raw.clone()), None), &raw));
    plan.all = without(&["10.0.0.0/8"]);
    assert!(is_same(filtered.take(plan.of(&name("w1.x")), Some(raw.clone()), None), &raw));
    let next = Arc::new(load("w1.x.", "@ 30 SOA 2\n@ 3600 NS ns1.x.\nweb 30 A 198.51.100.2", Some(&raw)).zone);
    let touched = Touched::Names(vec![name("web.w1.x")]);
    assert!(is_same(filtered.take(plan.of(&name("w1.x")), Some(next.clone()), Some(&touched)), &next));
    assert!(filtered.take(plan.of(&name("w1.x")), None, None).is_none());
}

#[test]
fn names_without_records_are_gone_and_the_others_have_no_data() {
    let (lines, conflicts) = merged(
        |plan| plan.addresses.all = without(&["10.0.0.0/8", "fd00::/8"]),
        "web 30 A 10.1.0.1\nweb 30 A 198.51.100.1\nfabric 30 A 10.1.0.2\nsvc 30 A 10.1.0.3\nsvc 30 TXT t\na.b 30 A 10.1.0.4\nb 30 AAAA fd00::1",
        "web 30 A 10.1.0.1\nfabric 30 AAAA fd00::1\nsvc 30 SRV 1 fabric",
    );
    let owners: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(owners, ["svc.w.x.", "svc.w.x.", "web.w.x."], "{lines:?}");
    assert_eq!(conflicts, []);
}

#[test]
fn rules_of_a_member_are_in_addition() {
    let (lines, _) = merged(
        |plan| {
            plan.addresses.all = without(&["10.0.0.0/8"]);
            plan.addresses.members = vec![(name("w2.x"), without(&["198.51.100.0/24"]))];
        },
        "web 30 A 10.1.0.1\nweb 30 A 198.51.100.1",
        "web 30 A 10.1.0.2\nweb 30 A 198.51.100.2\nweb 30 A 203.0.113.2",
    );
    let mut lines = lines.join("\n");
    lines.retain(|character| character != '"');
    assert!(lines.contains("198.51.100.1") && lines.contains("203.0.113.2"), "{lines}");
    assert!(!lines.contains("198.51.100.2") && !lines.contains("10.1."), "{lines}");
}

#[test]
fn the_rule_that_leaves_an_address_out_is_known() {
    let plan = AddressPlan {
        all: without(&["10.0.0.0/8"]),
        members: vec![(
            name("w2.x"),
            AddressRules { only: vec!["198.51.100.0/24".parse().unwrap()], exclude: Vec::new() },
        )],
    };
    let rule = |member: &str, address: [u8; 4]| plan.of(&name(member)).against(rtype::A, &address);
    let excluded = Some(AddressRule { of_member: false, excluded: Some("10.0.0.0/8".parse().unwrap()) });
    assert_eq!([rule("w1.x", [10, 1, 0, 1]), rule("w2.x", [10, 1, 0, 1])], [excluded; 2]);
    assert_eq!(rule("w1.x", [203, 0, 113, 1]), None);
    assert_eq!(rule("w2.x", [203, 0, 113, 1]), Some(AddressRule { of_member: true, excluded: None }));
    assert_eq!(plan.of(&name("w1.x")).against(rtype::TXT, &[10, 1, 0, 1]), None);
}

#[test]
fn names_with_addresses_that_are_alike_are_counted() {
    let members = [
        member("w1.x.", 1, "web 30 A 10.88.0.1\ndb 30 A 10.88.0.2\nown 30 A 10.88.0.3\npublic 30 A 198.51.100.1"),
        member("w2.x.", 1, "web 30 A 10.88.7.1\ndb 30 A 10.89.0.2\npublic 30 A 198.51.100.1"),
    ];
    let mut region = Region::new(plan(&["w1.x", "w2.x"]));
    region.merge_all(&members, Instant::now());
    let told = |region: &Region| region.alike.told(&region.plan.origin);
    let one = |example: &str| Some(Alike { names: 1, example: name(example) });
    assert_eq!(told(&region), one("web.w.x"));
    let next = member("w2.x.", 2, "db 30 A 10.88.0.2\npublic 30 A 198.51.100.1");
    let changed = ["web.w2.x", "db.w2.x"].map(|text| (1, name(text))).to_vec();
    region.merge_changed(&[members[0].clone(), next], changed, Instant::now());
    assert_eq!(told(&region), one("db.w.x"));
    region.merge_all(&[members[0].clone(), None], Instant::now());
    assert_eq!(told(&region), None);
}
