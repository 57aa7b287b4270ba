//! The oracle against the merge: same records, same TTLs, same conflicts, and the same fate of each record that the merge
//! does not take, whatever the members hold.

// In place of the oracle's own, this demands that the merge tells the same.
use super::super::{arbitrary_delegations, plan};
use super::super::{plain, traced as trace};
use super::*;
use crate::merge::{Held, Intake, NamePattern, Place, Region, Scope};
use crate::zone::tests::{arbitrary_text, zone};
use proptest::prelude::*;
use std::time::Instant;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// Members w1.x and so on out of lines; one that is withdrawn has a zone all the same.
fn members(texts: &[(&str, bool)]) -> Vec<TracedMember> {
    let member = |(index, (text, contributes)): (usize, &(&str, bool))| {
        let text = if text.contains(" SOA ") { (*text).to_owned() } else { format!("@ 30 SOA 1\n{text}") };
        plain(Some(Arc::new(zone(&format!("w{}.x.", index + 1), &text))), *contributes)
    };
    texts.iter().enumerate().map(member).collect()
}

/// The records of a traced name and where each comes from.
fn told(trace: &Trace) -> Vec<String> {
    let from = |record: &TracedRecord| {
        let given = record.from.iter().map(|index| &trace.contributions[*index]);
        given.map(|given| format!("{} {}", given.owner, given.ttl)).collect::<Vec<_>>().join(", ")
    };
    let line = |record: &TracedRecord| {
        let (rtype, data) = (rr::TypeName(record.rtype), rr::RdataText(record.rtype, &record.rdata));
        format!("{} {rtype} {data} < {}", record.ttl, from(record))
    };
    trace.records.iter().map(line).collect()
}

/// The records that are not in the region, with the reason.
fn left_out(trace: &Trace) -> Vec<String> {
    let given = trace.contributions.iter();
    given
        .filter_map(|given| {
            let reason = given.left_out?.label();
            Some(format!("{} {} {reason}", given.owner, rr::TypeName(given.rtype)))
        })
        .collect()
}

#[test]
fn each_record_is_told_with_all_who_gave_it() {
    let members = members(&[("Web 60 A 192.0.2.1\nweb 60 A 10.0.0.1", true), ("web 30 A 10.0.0.1", true)]);
    let trace = trace(&plan(&["w1.x", "w2.x"]), &members, &name("web.w.x"));
    assert_eq!(told(&trace), ["30 A 10.0.0.1 < Web.w1.x. 60, web.w2.x. 30", "30 A 192.0.2.1 < Web.w1.x. 60"]);
    assert_eq!(left_out(&trace), [""; 0]);
}

#[test]
fn what_is_left_out_has_its_reason() {
    let at = |name_at: &str, edit: fn(&mut RegionPlan), texts: &[(&str, bool)]| {
        let mut plan = plan(&["w1.x", "w2.x"]);
        edit(&mut plan);
        left_out(&trace(&plan, &members(texts), &name(name_at)))
    };
    let nothing = |_: &mut RegionPlan| ();
    let exclude = |plan: &mut RegionPlan| plan.exclude = vec![OwnerPattern { name: name("api"), below: false }];
    for (expected, found) in [
        (vec!["a.w2.x. A withdrawn"], at("a.w.x", nothing, &[("", true), ("a 30 A 192.0.2.1", false)])),
        (vec!["api.w1.x. A excluded"], at("api.w.x", exclude, &[("api 30 A 192.0.2.1", true)])),
        (vec!["a.w1.x. RRSIG dnssec"], at("a.w.x", nothing, &[("a 30 RRSIG s\na 30 A 192.0.2.1", true)])),
        (vec!["w1.x. NS own-apex", "w1.x. SOA own-apex"], at("w.x", nothing, &[("@ 30 NS ns.y.", true)])),
        (
            vec!["a.w1.x. CNAME alias-beside-data"],
            at("a.w.x", nothing, &[("a 30 CNAME b", true), ("a 30 A 192.0.2.1", true)]),
        ),
        (
            vec!["a.w1.x. TYPE65440 placeholder"],
            at("a.w.x", nothing, &[("a 30 TYPE65440 broken", true), ("a 30 A 192.0.2.1", true)]),
        ),
        (
            vec!["a.w2.x. CNAME different-aliases"],
            at("a.w.x", nothing, &[("a 30 CNAME b", true), ("a 30 CNAME b", true)]),
        ),
        (
            vec!["a.w1.x. DNAME dname-above-data"],
            at("a.w.x", nothing, &[("a 30 DNAME b", true), ("b.a 30 A 192.0.2.1", true)]),
        ),
        (
            vec!["i._os._tcp.w2.x. TXT service-text"],
            at(
                "i._os._tcp.w.x",
                nothing,
                &[("i._os._tcp 30 SRV 1 a\ni._os._tcp 30 TXT path=/1", true), ("i._os._tcp 30 TXT path=/2", true)],
            ),
        ),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_drained_or_held_is_told_as_such() {
    let mut members = members(&[("a 30 A 192.0.2.1", true), ("a 60 A 192.0.2.2", true)]);
    let mut take = |index: usize, patterns: &[&str], held: Held| {
        let patterns = patterns.iter().map(|pattern| NamePattern::parse(pattern).unwrap()).collect();
        members[index].drained = Scope { whole: false, patterns };
        let mut intake = Intake::default();
        intake.take(members[index].zone.clone(), None, members[index].drained.clone(), held);
        members[index].taken = intake.zone().cloned();
    };
    let address = Arc::new(RRset::build(rtype::A, 20, vec![[192, 0, 2, 9]]).unwrap());
    take(0, &["a"], Held::new());
    take(1, &[], Held::from([(name("a.w2.x"), vec![address])]));
    let trace = trace(&plan(&["w1.x", "w2.x"]), &members, &name("a.w.x"));
    assert_eq!(told(&trace), ["20 A 192.0.2.2 < a.w2.x. 60", "20 A 192.0.2.9 < a.w2.x. 20"]);
    assert_eq!(left_out(&trace), ["a.w1.x. A drained"]);
    let held: Vec<bool> = trace.contributions.iter().map(|given| given.held).collect();
    assert_eq!(held, [false, false, true]);
}

#[test]
fn name_servers_are_told_with_who_lists_them() {
    let texts = [("@ 9 NS A.y.\n@ 9 NS b.y.", true), ("@ 9 NS B.y.\n@ 9 NS c.y.", true)];
    let servers = |ns: NsPolicy| {
        let mut plan = plan(&["w1.x", "w2.x"]);
        plan.ns = ns;
        told(&trace(&plan, &members(&texts), &name("w.x")))
    };
    assert_eq!(servers(NsPolicy::Intersection), ["3600 NS b.y. < w1.x. 9, w2.x. 9"]);
    assert_eq!(
        servers(NsPolicy::Union),
        ["3600 NS a.y. < w1.x. 9", "3600 NS b.y. < w1.x. 9, w2.x. 9", "3600 NS c.y. < w2.x. 9"]
    );
    assert_eq!(servers(NsPolicy::Listed(vec![name("n.y")])), ["3600 NS n.y. < "]);
}

#[test]
fn a_name_too_long_in_the_member_has_no_place_there() {
    let mut plan = plan(&["a-much-longer-member.x"]);
    plan.origin = name("w");
    let label = "l".repeat(61);
    let long = name(&format!("{label}.{label}.{label}.{label}.w"));
    let member = zone("a-much-longer-member.x.", "@ 30 SOA 1");
    let members = [plain(Some(Arc::new(member)), true)];
    assert!(trace(&plan, &members, &long).contributions.is_empty());
}

/// Lines that differ in case, lead to other members or become equal under `rewrite`.
fn arbitrary_extras() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "@ 60 NS NS.example.",
        "@ 60 NS a.example.",
        "@ 60 TXT apex",
        "@ 60 DS 1",
        "@ 60 SRV 80 a.w1.x.",
        "A.b 30 SRV 80 A",
        "a.b 9 SRV 80 a.w.x.",
        "a 9 SRV 80 a.w.x.",
        "a 30 SRV 80 A.w2.x.",
        "b 30 CNAME A",
        "b 30 CNAME Gone",
        "_x._tcp 30 PTR I._x._TCP",
        "_x._tcp 30 PTR i._x._tcp.w2.x.",
        "i._x._tcp 30 TXT uuid",
        "sub 30 RRSIG s",
        "sub 30 DS 1",
        "a 30 TYPE65440 broken",
        "b 30 TYPE65440 -",
        "sub 30 TYPE65440 broken",
        "only 30 TYPE65440 broken",
    ]);
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

fn arbitrary_plan() -> impl Strategy<Value = RegionPlan> {
    (any::<bool>(), 0..3usize, 0..3usize).prop_map(|(rewrite, ns, exclude)| {
        let mut plan = plan(&["w1.x", "w2.x", "w3.x"]);
        plan.rdata_names = if rewrite { RdataNames::Rewrite } else { RdataNames::Keep };
        plan.ns =
            [NsPolicy::Intersection, NsPolicy::Union, NsPolicy::Listed(vec![name("n.y"), name("m.y")])][ns].clone();
        let pattern = |below| vec![OwnerPattern { name: name("b"), below }];
        plan.exclude = [Vec::new(), pattern(true), pattern(false)][exclude].clone();
        plan
    })
}

/// A member's zone, whether it contributes, what is drained, and where an address is held.
type Drawn = (Option<String>, bool, Option<&'static str>, Option<&'static str>);

/// Members that are missing, withdrawn, or there, some of them drained or with an address that is held.
fn arbitrary_members() -> impl Strategy<Value = Vec<TracedMember>> {
    let mixed = (arbitrary_text(), arbitrary_extras()).prop_map(|(text, extras)| format!("{text}{extras}"));
    let text = prop_oneof![mixed, arbitrary_delegations()];
    let drained = prop::sample::select(vec![None, None, None, Some(""), Some("a"), Some("*.b"), Some("sub")]);
    let held = prop::sample::select(vec![None, None, Some("a"), Some("held")]);
    let member = (prop::option::weighted(0.9, text), prop::bool::weighted(0.8), drained, held);
    prop::collection::vec(member, 3).prop_map(|members| {
        let load = |(index, (text, contributes, drained, held)): (usize, Drawn)| {
            let origin = format!("w{}.x.", index + 1);
            let zone = text.map(|text| Arc::new(zone(&origin, &text)));
            let mut scope = Scope { whole: drained == Some(""), patterns: Vec::new() };
            scope.patterns.extend(drained.and_then(|names| NamePattern::parse(names).ok()));
            let address = RRset::build(rtype::A, 7, vec![[192, 0, 2, 7 + index as u8]]).map(Arc::new);
            let held = held.map(|owner| (name(&format!("{owner}.{origin}")), address.into_iter().collect()));
            // An address is never held beside an alias, which stands alone in a member.
            let is_alias = |name: &Name| {
                zone.as_ref()
                    .is_some_and(|zone| zone.get(name.as_wire()).is_some_and(|node| node.get(rtype::CNAME).is_some()))
            };
            let held = held.into_iter().filter(|(name, _)| !is_alias(name)).collect();
            let mut intake = Intake::default();
            intake.take(zone.clone().filter(|_| contributes), None, scope.clone(), held);
            TracedMember { zone, taken: intake.zone().cloned(), drained: scope }
        };
        members.into_iter().enumerate().map(load).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// At every name that the region or any member has, the trace has the region's records and conflicts.
    #[test]
    fn the_trace_agrees_with_the_merge(plan in arbitrary_plan(), members in arbitrary_members()) {
        let zones: Vec<_> = members.iter().map(|member| member.taken.clone()).collect();
        let mut region = Region::new(plan.clone());
        region.merge_all(&zones, Instant::now());
        let Some(merged) = &region.zone else { return Ok(()) };
        let mut names: BTreeSet<Vec<u8>> = merged.iter().map(|(name, _)| name.as_wire().to_vec()).collect();
        for (member, origin) in members.iter().zip(&plan.members) {
            let theirs = member.zone.iter().flat_map(|zone| zone.iter().map(|(name, _)| name));
            names.extend(theirs.map(|name| name.replace_suffix(origin, &plan.origin).unwrap().unwrap().as_wire().to_vec()));
        }
        names.insert(name("nowhere.w.x").as_wire().to_vec());
        for wire in names {
            let at = NameBuf::from_wire(&wire).unwrap().to_name();
            let trace = trace(&plan, &members, &at);
            let traced: Vec<(u16, u32, Vec<u8>)> =
                trace.records.iter().map(|record| (record.rtype, record.ttl, record.rdata.clone())).collect();
            let sets = merged.get(&wire).into_iter().flat_map(|node| node.rrsets());
            let sets = sets.filter(|set| set.rtype != rtype::SOA);
            let expected: Vec<(u16, u32, Vec<u8>)> = sets
                .flat_map(|set| set.rdatas().map(move |rdata| (set.rtype, set.ttl, rdata.to_vec())))
                .collect();
            prop_assert_eq!(&traced, &expected, "{}", at);
            let place = Place { member: None, name: at.clone() };
            let conflicts = region.conflicts.get(&place).cloned().unwrap_or_default();
            prop_assert_eq!(&trace.conflicts, &conflicts, "{}", at);
            // Every record has a fate: in some record of the region, or left out.
            let used: BTreeSet<usize> = trace.records.iter().flat_map(|record| record.from.iter().copied()).collect();
            for (index, given) in trace.contributions.iter().enumerate() {
                prop_assert_eq!(used.contains(&index), given.left_out.is_none(), "{} {:?}", at, given);
            }
        }
    }
}
