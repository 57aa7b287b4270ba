//! Laws of merging: a merge of what changed equals a merge of everything, and the shortcuts equal the general way.

use super::*;
use crate::select::{Law, Pick, Prefer, Services, Steering, Treatment};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// A set of member zones, each missing or out of lines that collide often.
fn arbitrary_members(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<Option<String>>> {
    prop::collection::vec(prop::option::weighted(0.9, text), 3)
}

/// Lines of a member that delegates at several levels and has data there.
pub fn arbitrary_delegations() -> impl Strategy<Value = String> {
    let owner = prop::sample::select(vec!["s", "a.s", "b.s", "b.a.s", "c.b.a.s", "b", "c.b"]);
    let data = prop::sample::select(vec![
        "NS ns.y.",
        "NS NS.Y.",
        "NS ns.z.",
        "NS a.s",
        "NS ns.y.",
        "A 192.0.2.1",
        "TXT t",
        "CNAME b.s",
        "DNAME c",
        "RRSIG s",
        "TYPE65440 broken",
    ]);
    let ttl = prop::sample::select(vec![5u32, 30]);
    (any::<u32>(), prop::collection::vec((owner, ttl, data), 0..6)).prop_map(|(serial, records)| {
        let lines = records.iter().map(|(owner, ttl, data)| format!("{owner} {ttl} {data}\n"));
        format!("@ 30 SOA {serial}\n@ 3600 NS ns.example.\n{}", lines.collect::<String>())
    })
}

/// Steps in which members keep what they have, while delegations and DNAMEs come and go above it.
fn arbitrary_cuts() -> impl Strategy<Value = Vec<Vec<Option<String>>>> {
    let kept = vec![
        "s 30 TXT t",
        "a.s 30 A 192.0.2.1",
        "b.a.s 30 A 192.0.2.2",
        "c.b.a.s 30 TXT t",
        "d.c.b.a.s 30 CNAME b.a.s",
        "b.s 30 DNAME d",
        "c.b 30 A 192.0.2.3",
        "d.c.b 30 NS ns.y.",
    ];
    let comes = vec![
        "s 30 NS ns.y.",
        "s 30 NS ns.z.",
        "a.s 30 NS ns.y.",
        "b.a.s 30 NS ns.y.",
        "b 30 NS ns.y.",
        "c.b 30 NS ns.z.",
        "a.s 30 DNAME d",
        "b 30 DNAME d",
    ];
    let step = prop::collection::vec(prop::option::weighted(0.9, prop::sample::subsequence(comes, 0..4)), 3);
    (prop::collection::vec(prop::sample::subsequence(kept, 0..=8), 3), prop::collection::vec(step, 3..7)).prop_map(
        |(kept, steps)| {
            let text = |serial: usize, kept: &[&str], comes: &[&str]| {
                format!("@ 30 SOA {serial}\n@ 3600 NS ns.example.\n{}\n", [kept, comes].concat().join("\n"))
            };
            let step = |(serial, step): (usize, Vec<Option<Vec<&str>>>)| {
                let members = step.iter().zip(&kept);
                members.map(|(comes, kept)| Some(text(serial + 1, kept, comes.as_ref()?))).collect()
            };
            steps.into_iter().enumerate().map(step).collect()
        },
    )
}

fn arbitrary_plan() -> impl Strategy<Value = RegionPlan> {
    (any::<bool>(), any::<bool>(), prop::option::weighted(0.3, 1..3u32)).prop_map(|(rewrite, exclude, max_set)| {
        let mut plan = plan(&["w1.x", "w2.x", "w3.x"]);
        plan.rdata_names = if rewrite { RdataNames::Rewrite } else { RdataNames::Keep };
        plan.max_set = max_set;
        plan.exclude = if exclude { vec![OwnerPattern { name: name("b"), below: true }] } else { Vec::new() };
        plan
    })
}

/// A plan like another under which nothing of a lone name needs a look, so that whole shards are taken.
fn even_plan(plan: &RegionPlan) -> RegionPlan {
    RegionPlan { rdata_names: RdataNames::Keep, exclude: Vec::new(), ..plan.clone() }
}

/// Lines of a member without records that need a look also where they are alone.
fn even_text(text: &str) -> String {
    let text = text.replace("DNAME b", "A 192.0.2.7").replace("PTR i._x._tcp", "TXT p");
    text.replace("RRSIG s", "TXT r").replace("\nA ", "\na ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The ways that only a merge takes (a sole node as it stands, a plain one, whole shards) give what the general one
    /// gives, which explanations go.
    #[test]
    fn shortcuts_agree_with_the_general_way(
        plan in arbitrary_plan(),
        texts in prop_oneof![arbitrary_members(arbitrary_text()), arbitrary_members(arbitrary_delegations())],
        even: bool,
    ) {
        let plan = if even { even_plan(&plan) } else { plan };
        let load = |(index, text): (usize, &Option<String>)| {
            let text = text.as_ref().map(|text| if even { even_text(text) } else { text.clone() })?;
            Some(Arc::new(zone(&format!("w{}.x.", index + 1), &text)))
        };
        let members: Vec<_> = texts.iter().enumerate().map(load).collect();
        let mut region = Region::new(plan.clone());
        region.merge_all(&members, Instant::now());
        let Some(merged) = &region.zone else { return Ok(()) };
        let names = members.iter().flatten().flat_map(|zone| zone.nodes().map(|node| node.owner()));
        for labels in names.filter(|labels| !labels.is_empty()) {
            let (name, owner) = (Name::join(labels, &plan.origin), Owner::new(labels));
            let mut general = region.merge_name(&members, &name, Silent);
            general.conflicts.sort_unstable();
            let expected = (format!("{:?}", general.rrsets), general.spelled);
            let given = |node: Node<'_>, spelled: Option<Arc<[u8]>>| (format!("{:?}", node.to_rrsets()), spelled);
            let node = merged.get(name.as_wire()).unwrap_or_default();
            prop_assert_eq!(given(node, node.spelled.map(Arc::from)), expected.clone(), "{}", name);
            let conflicts = region.conflicts.get(&Place { member: None, name: name.clone() });
            prop_assert_eq!(conflicts.cloned().unwrap_or_default(), general.conflicts.clone(), "{}", name);
            if let Some((node, spelled)) = region.sole(&members, &name, &owner) {
                prop_assert_eq!(given(node, spelled), expected.clone(), "{}", name);
                prop_assert!(general.conflicts.is_empty(), "{}", name);
            }
            let nodes: Vec<Node<'_>> = region.nodes(&members, &name).map(|(.., node)| node).collect();
            if let [node] = nodes[..] && region.is_plain(node) {
                prop_assert_eq!(given(node, None), expected, "{}", name);
                prop_assert!(general.conflicts.is_empty(), "{}", name);
            }
        }
    }

    /// Regions that are merged together come out as if each had been merged alone, at first and again.
    #[test]
    fn together_is_as_alone(
        regions in prop::collection::vec(
            (
                arbitrary_plan(),
                prop::bool::weighted(0.8),
                prop::sample::select(vec!["w.x", "v.x", "_tcp.x", "_x._tcp.x"]),
                prop_oneof![Just(vec![0, 1, 2]), prop::sample::subsequence(vec![0, 1, 2], 1..3), Just(vec![2, 0, 1])],
            ),
            1..6,
        ),
        steps in prop::collection::vec(arbitrary_members(arbitrary_text()), 2),
        even in prop::bool::weighted(0.8),
    ) {
        let plan = |(plan, even, origin, chosen): &(RegionPlan, bool, &str, Vec<usize>)| {
            let plan = if *even { even_plan(plan) } else { plan.clone() };
            let members = chosen.iter().map(|member| name(&format!("w{}.x", member + 1))).collect();
            RegionPlan { origin: name(origin), members, ..plan }
        };
        let now = Instant::now();
        let plans: Vec<RegionPlan> = regions.iter().map(plan).collect();
        let mut together: Vec<Region> = plans.iter().cloned().map(Region::new).collect();
        let mut alone: Vec<Region> = plans.into_iter().map(Region::new).collect();
        for step in steps {
            let load = |(index, text): (usize, &Option<String>)| {
                let text = text.as_ref().map(|text| if even { even_text(text) } else { text.clone() })?;
                Some(Arc::new(zone(&format!("w{}.x.", index + 1), &text)))
            };
            let zones: Vec<_> = step.iter().enumerate().map(load).collect();
            let members = |(.., chosen): &(_, _, _, Vec<usize>)| -> Vec<Option<Arc<Zone>>> {
                chosen.iter().map(|member| zones[*member].clone()).collect()
            };
            let members: Vec<_> = regions.iter().map(members).collect();
            let pairs = together.iter_mut().zip(&members);
            let outcomes = merge_together(&mut pairs.map(|(region, members)| Anew { region, members }).collect::<Vec<_>>(), now);
            prop_assert_eq!(outcomes.len(), together.len());
            for (((one, other), members), outcome) in together.iter().zip(&mut alone).zip(&members).zip(outcomes) {
                let sorted = |outcome| match outcome {
                    Outcome::New { mut conflicts, mut touched } => {
                        touched.sort_by(Name::canonical_cmp);
                        conflicts.sort_by(|(one, _), (other, _)| one.name.canonical_cmp(&other.name));
                        Outcome::New { conflicts, touched }
                    }
                    outcome => outcome,
                };
                prop_assert_eq!(sorted(outcome), sorted(other.merge_all(members, now)));
                prop_assert_eq!(&one.zone, &other.zone);
                let counts = |zone: &Zone| (zone.records, zone.owners, zone.cuts, zone.wildcards, zone.sizes.clone());
                prop_assert_eq!(one.zone.as_deref().map(counts), other.zone.as_deref().map(counts));
                prop_assert_eq!((&one.conflicts, &one.alike), (&other.conflicts, &other.alike));
                prop_assert_eq!((&one.aliases, one.ns_fallback), (&other.aliases, other.ns_fallback));
            }
        }
    }

    /// Merging what changed gives the zone, and the conflicts, that merging everything gives.
    #[test]
    fn incremental_equals_full(
        plan in arbitrary_plan(),
        steps in prop_oneof![
            prop::collection::vec(arbitrary_members(arbitrary_text()), 2..5),
            prop::collection::vec(arbitrary_members(arbitrary_delegations()), 2..5),
            arbitrary_cuts(),
        ],
        even: bool,
        pick in prop::sample::select(vec![Pick::Rotate, Pick::Client]),
        prefer in prop::sample::select(vec![Prefer::Off, Prefer::Nearest]),
    ) {
        let plan = if even { even_plan(&plan) } else { plan };
        let mut again = Region::new(plan.clone());
        let mut region = Region::new(plan.clone());
        let steering = Steering { prefer, at_least: 2, services: Services::Priority };
        let usual = Treatment { law: Law { max: NonZeroU32::new(1), pick }, steering };
        let laws = Arc::new(AnswersPlan { usual, ..AnswersPlan::new(Law::ALL) });
        let now = Instant::now();
        let mut selected: Option<Selected> = None;
        let mut members: Vec<Option<Arc<Zone>>> = vec![None; 3];
        for step in steps {
            let mut changed = Vec::new();
            for (index, text) in step.iter().enumerate() {
                let origin = format!("w{}.x.", index + 1);
                let base = members[index].take();
                let text = text.as_ref().map(|text| if even { even_text(text) } else { text.clone() });
                let loaded = text.map(|text| load(&origin, &text, base.as_deref()));
                match &loaded {
                    Some(loaded) if base.is_none() => changed.extend(loaded.zone.iter().map(|(name, _)| (index, name))),
                    Some(loaded) => changed.extend(loaded.touched.iter().map(|name| (index, name.clone()))),
                    None => changed.extend(base.iter().flat_map(|zone| zone.iter().map(|(name, _)| (index, name)))),
                }
                members[index] = loaded.map(|loaded| Arc::new(loaded.zone));
            }
            region.merge_changed(&members, changed, Instant::now());
            let mut fresh = Region::new(plan.clone());
            fresh.merge_all(&members, Instant::now());
            let before = again.zone.clone();
            if let Outcome::New { touched, .. } = again.merge_all(&members, Instant::now()) {
                prop_assert_eq!(again.zone.as_ref().map(|zone| zone.names()), fresh.zone.as_ref().map(|zone| zone.names()));
                let after = again.zone.clone().unwrap();
                let records = |zone: &Zone, name: &Name| zone.get(name.as_wire()).map(|node| format!("{node:?} {:?}", node.spelled)).unwrap_or_default();
                for (name, _) in before.iter().flat_map(|zone| zone.iter()).filter(|(name, _)| *name != plan.origin) {
                    let same = records(&after, &name).replace("[] None", "") == records(before.as_ref().unwrap(), &name).replace("[] None", "");
                    prop_assert!(same || touched.contains(&name), "{name}");
                }
                let new = |name: &&Name| before.as_ref().is_some_and(|zone| records(zone, name) == records(&after, name) && **name != plan.origin);
                prop_assert_eq!(touched.iter().find(new), None);
            }
            match (&region.zone, &fresh.zone) {
                (Some(zone), Some(expected)) => {
                    let without_soa = |zone: &Zone| {
                        let text = format!("{zone:?}");
                        text.lines().filter(|line| !line.contains(" SOA ")).map(str::to_owned).collect::<Vec<_>>()
                    };
                    prop_assert_eq!(without_soa(zone), without_soa(expected));
                    prop_assert_eq!(
                        (zone.records, zone.names(), zone.cuts, zone.wildcards, &zone.sizes),
                        (expected.records, expected.names(), expected.cuts, expected.wildcards, &expected.sizes)
                    );
                    prop_assert_eq!(&region.conflicts, &fresh.conflicts);
                    let givers = members.iter().map(|zone| Giver { zone: zone.clone(), ..Giver::default() });
                    let givers: Box<[Giver]> = givers.collect();
                    let select = |before, at| Selected::new(before, &laws, zone, Some(&plan), givers.clone(), at);
                    let kept = select(selected.take(), now);
                    // What members gave lately has been forgotten by then.
                    let next = select(Some(kept.clone()), now + Duration::from_secs(7200));
                    let of = |selected: &Selected| -> BTreeMap<Vec<u8>, String> {
                        selected.selections.iter().map(|(owner, made)| (owner.to_vec(), format!("{made:?}"))).collect()
                    };
                    let anew = select(None, now);
                    let counts = |selected: &Selected| (selected.selections.kept(), selected.selections.uneven());
                    prop_assert_eq!((of(&next), counts(&next)), (of(&anew), counts(&anew)));
                    selected = Some(kept);
                    for (_, node) in zone.iter() {
                        let cname = node.get(rtype::CNAME).is_some();
                        prop_assert!(!cname || node.rrsets().count() == 1);
                    }
                }
                (None, None) => {}
                _ => prop_assert!(false, "one has a zone, the other not"),
            }
        }
    }
}
