//! The laws of intakes: what is taken depends on version, scope and what is held alone, and a region that follows what
//! an intake names is the one that is merged anew.

use super::super::tests::plan;
use super::super::{NamePattern, Region};
use super::*;
use crate::zone::tests::{arbitrary_text, load, zone};
use proptest::prelude::*;
use std::time::Instant;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn scope(whole: bool, patterns: &[&str]) -> Scope {
    let patterns = patterns.iter().map(|pattern| NamePattern::parse(pattern).unwrap()).collect();
    Scope { whole, patterns }
}

fn address(last: u8) -> Arc<RRset> {
    Arc::new(RRset::build(rtype::A, 20, vec![[192, 0, 2, last]]).unwrap())
}

fn text(zone: &Zone) -> String {
    format!("{zone:?}")
}

#[test]
fn without_drains_the_version_itself_is_taken() {
    let raw = Arc::new(zone("w1.x.", "@ 30 SOA 1\na 30 A 192.0.2.1"));
    let mut intake = Intake::default();
    assert_eq!(intake.take(None, None, Scope::default(), Held::new()), None);
    let first = intake.take(Some(raw.clone()), None, Scope::default(), Held::new());
    assert_eq!(first, Some(Touched::Everything));
    assert!(Arc::ptr_eq(intake.zone().unwrap(), &raw));
    assert_eq!(intake.take(Some(raw.clone()), None, Scope::default(), Held::new()), None, "nothing has come");
    let touched = Touched::Names(vec![name("a.w1.x")]);
    assert_eq!(intake.take(Some(raw), Some(&touched), Scope::default(), Held::new()), Some(touched));
}

#[test]
fn a_drained_member_keeps_serial_and_name_servers() {
    let lines = "@ 30 SOA 7\n@ 3600 NS ns1.x.\n@ 30 TXT t\na 30 A 192.0.2.1\n*.b 30 A 192.0.2.1\ns 30 NS ns.s";
    let raw = Arc::new(zone("w1.x.", lines));
    let mut intake = Intake::default();
    intake.take(Some(raw.clone()), None, Scope::default(), Held::new());
    let drained = intake.take(Some(raw.clone()), None, scope(true, &[]), Held::new());
    assert_eq!(drained, Some(Touched::Everything));
    let taken = intake.zone().unwrap();
    assert_eq!(text(taken), "w1.x. 30 IN SOA ns. h. 7 30 60 2592000 30\nw1.x. 3600 IN NS ns1.x.\n");
    assert_eq!((taken.names(), taken.cuts, taken.wildcards), (1, 0, 0));
    assert_eq!(intake.take(Some(raw.clone()), None, Scope::default(), Held::new()), Some(Touched::Everything));
    assert!(Arc::ptr_eq(intake.zone().unwrap(), &raw));
}

#[test]
fn a_pattern_touches_its_names_and_no_other() {
    let raw = Arc::new(zone(
        "w1.x.",
        "@ 30 SOA 7\nweb.svc.a 30 A 192.0.2.1\nweb.svc.b 30 A 192.0.2.1\ndb.svc.a 30 A 192.0.2.2",
    ));
    let mut intake = Intake::default();
    intake.take(Some(raw.clone()), None, Scope::default(), Held::new());
    let names = |touched: Option<Touched>| {
        let Some(Touched::Names(names)) = touched else { panic!("{touched:?}") };
        let mut names: Vec<String> = names.iter().map(Name::to_string).collect();
        names.sort();
        names
    };
    let drained = intake.take(Some(raw.clone()), None, scope(false, &["web.svc.*"]), Held::new());
    assert_eq!(names(drained), ["web.svc.a.w1.x.", "web.svc.b.w1.x."]);
    assert!(!text(intake.zone().unwrap()).contains("web.svc") && text(intake.zone().unwrap()).contains("db.svc.a"));
    let less = intake.take(Some(raw), None, scope(false, &["web.svc.a"]), Held::new());
    assert_eq!(names(less), ["web.svc.b.w1.x."]);
}

#[test]
fn what_is_held_stands_beside_what_is_there() {
    let raw = Arc::new(zone("w1.x.", "@ 30 SOA 7\na 30 A 192.0.2.1\na 30 TXT t"));
    let mut intake = Intake::default();
    intake.take(Some(raw.clone()), None, Scope::default(), Held::new());
    let held = Held::from([(name("a.w1.x"), vec![address(2)]), (name("b.c.w1.x"), vec![address(3)])]);
    let Some(Touched::Names(names)) = intake.take(Some(raw.clone()), None, Scope::default(), held.clone()) else {
        panic!("names are known");
    };
    assert_eq!(names.len(), 2);
    let lines = text(intake.zone().unwrap());
    for line in [
        "a.w1.x. 20 IN A 192.0.2.1\n",
        "a.w1.x. 20 IN A 192.0.2.2\n",
        "a.w1.x. 30 IN TXT \"t\"\n",
        "b.c.w1.x. 20 IN A 192.0.2.3\n",
    ] {
        assert!(lines.contains(line), "{line} in {lines}");
    }
    intake.take(Some(raw.clone()), None, scope(false, &["a"]), held);
    let lines = text(intake.zone().unwrap());
    assert!(!lines.contains("\na.w1.x.") && lines.contains("b.c.w1.x."), "a drain counts more: {lines}");
    assert_eq!(raw.records, 3, "the member's own version is as it was");
}

//--- Laws ---

/// Change of one of three members.
#[derive(Clone, Debug)]
struct Step {
    member: usize,
    /// The next version; none for one that is withdrawn.
    text: Option<String>,
    /// True if it is known what the next version changes.
    known: bool,
    scope: Scope,
    held: Held,
}

fn arbitrary_scope() -> impl Strategy<Value = Scope> {
    let pattern = prop::sample::select(vec!["a", "*.b", "b", "*", "a.*", "c.*.b", "_x._tcp"]);
    (prop::bool::weighted(0.15), prop::collection::vec(pattern, 0..3)).prop_map(|(whole, patterns)| {
        let mut made = scope(whole, &[]);
        for names in patterns {
            let names = Some(NamePattern::parse(names).unwrap());
            made.add(&super::super::DrainTarget { member: name("w.x"), region: None, names });
        }
        made
    })
}

fn arbitrary_step() -> impl Strategy<Value = Step> {
    let held = prop::collection::vec((prop::sample::select(vec!["only", "a.held", "e.a.held"]), 1..4u8), 0..3);
    let text = prop::option::weighted(0.9, arbitrary_text());
    (0..3usize, text, any::<bool>(), arbitrary_scope(), held).prop_map(|(member, text, known, scope, held)| {
        let origin = format!("w{}.x", member + 1);
        let held = held.into_iter().map(|(owner, last)| (name(&format!("{owner}.{origin}")), vec![address(last)]));
        Step { member, text, known, scope, held: held.collect() }
    })
}

/// Lists the records that should be taken, one by one.
fn expected(raw: &Zone, scope: &Scope, held: &Held) -> Vec<String> {
    let line = |name: &Name, set: wire::rr::Set<'_>, ttl: u32, rdata: &[u8]| {
        format!("{name} {ttl} {} {}", wire::rr::TypeName(set.rtype), wire::rr::RdataText(set.rtype, rdata))
    };
    let mut lines = Vec::new();
    for (name, node) in raw.iter() {
        let owner = name.to_string();
        let owner = owner.strip_suffix(&raw.origin.to_string()).unwrap().trim_end_matches('.');
        let labels: Vec<&str> = owner.split('.').collect();
        let matches = |pattern: &NamePattern| {
            let text = pattern.to_string();
            let wanted: Vec<&str> = text.split('.').collect();
            let more = labels.len().checked_sub(wanted.len());
            let same = |more: usize| {
                labels[more..].iter().zip(&wanted).all(|(label, wanted)| *wanted == "*" || label == wanted)
            };
            more.is_some_and(|more| (more == 0 || wanted[0] == "*") && same(more))
        };
        let apex = owner.is_empty();
        let drained = scope.whole || !apex && scope.patterns.iter().any(matches);
        for set in node.rrsets() {
            if !drained || apex && matches!(set.rtype, rtype::SOA | rtype::NS) {
                lines.extend(set.rdatas().map(|rdata| line(&name, set, set.ttl, rdata)));
            }
        }
    }
    for (name, sets) in held {
        if !scope.covers(name.owner_in(&raw.origin)) {
            lines
                .extend(sets.iter().flat_map(|set| set.rdatas().map(|rdata| line(name, set.as_set(), set.ttl, rdata))));
        }
    }
    lines.sort();
    lines
}

fn lines(zone: &Zone) -> Vec<String> {
    expected(zone, &Scope::default(), &Held::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the way: the zone that is taken is what scope and held say, the names that are told are those that
    /// differ, and the region that follows them is the one that is merged of everything.
    #[test]
    fn intakes_keep_the_laws_of_the_merge(steps in prop::collection::vec(arbitrary_step(), 1..8)) {
        let mut intakes = vec![Intake::default(); 3];
        let mut region = Region::new(plan(&["w1.x", "w2.x", "w3.x"]));
        for Step { member, text, known, scope, held } in steps {
            let (origin, intake) = (format!("w{}.x.", member + 1), &mut intakes[member]);
            let before = intake.zone().cloned();
            let loaded = text.map(|text| load(&origin, &text, intake.raw().map(|raw| &**raw)));
            let touched = match &loaded {
                Some(loaded) if known && intake.raw().is_some() => Touched::Names(loaded.touched.clone()),
                _ => Touched::Everything,
            };
            let raw = loaded.map(|loaded| Arc::new(loaded.zone));
            let told = intake.take(raw.clone(), Some(&touched), scope.clone(), held.clone());
            prop_assert_eq!(intake.zone().is_some(), raw.is_some());
            if let (Some(raw), Some(taken)) = (&raw, intake.zone()) {
                prop_assert_eq!(lines(taken), expected(raw, &scope, &held));
                prop_assert_eq!(taken.records, taken.iter().map(|(_, node)| node.records()).sum::<u64>());
                prop_assert_eq!(taken.soa.serial, raw.soa.serial);
                if let (Some(Touched::Names(names)), Some(before)) = (&told, &before) {
                    let at = |zone: &Zone, name: &Name| zone.get(name.as_wire()).unwrap_or_default().to_rrsets();
                    for (name, _) in before.iter().chain(taken.iter()).filter(|(name, _)| *name != raw.origin) {
                        prop_assert!(names.contains(&name) || at(before, &name) == at(taken, &name), "{}", name);
                    }
                }
            }
            let members: Vec<_> = intakes.iter().map(|intake| intake.zone().cloned()).collect();
            match told {
                Some(Touched::Names(names)) => {
                    _ = region.merge_changed(&members, names.into_iter().map(|name| (member, name)).collect(), Instant::now());
                }
                Some(Touched::Everything) => _ = region.merge_all(&members, Instant::now()),
                None => {}
            }
            let mut anew = Region::new(plan(&["w1.x", "w2.x", "w3.x"]));
            anew.merge_all(&members, Instant::now());
            let below = |region: &Region| {
                let zone = region.zone.as_ref()?;
                Some(lines(zone).into_iter().filter(|line| !line.contains(" SOA ")).collect::<Vec<_>>())
            };
            prop_assert_eq!(below(&region), below(&anew));
            prop_assert_eq!(&region.conflicts, &anew.conflicts);
        }
    }
}
