//! Explanations against the answers that they explain, and in words.

use super::*;
use crate::clients::Clients;
use crate::keeper::{Contact, Lifetime, RegionSnapshot, SourceZone};
use crate::merge::tests::{plain, plan};
use crate::merge::{
    AnswersPlan, Giver, NamePattern, OwnerPattern, RdataNames, Region, RegionPlan, Selected, Shares, TracedMember,
};
use crate::publish::{Identity, Published, Unknown};
use crate::select::{Law, Orders, OrdersPlan, Pick, Treatment};
use crate::zone::History;
use crate::zone::tests::{arbitrary_text, zone};
use proptest::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod client;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The region w.x of w1.x, w2.x and so on, each out of lines, none for one that was never loaded; `d.x` is delegated
/// nowhere and not loaded.
fn view(plan: RegionPlan, texts: &[Option<String>], refusing: bool) -> Snapshot {
    let zones: Vec<Option<Arc<Zone>>> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| Some(Arc::new(zone(&plan.origin_of(index).to_string(), text.as_ref()?))))
        .collect();
    let mut region = Region::new(plan.clone());
    region.merge_all(&zones, Instant::now());
    let state = |zone: &Option<Arc<Zone>>| if zone.is_some() { State::Ok } else { State::NotReady };
    let members = zones.iter().map(|zone| plain(zone.clone(), zone.is_some())).collect();
    // Not quite a second is left for the explanation.
    let lifetime = Duration::from_millis(70_900);
    let source = |(zone, origin): (&Option<Arc<Zone>>, &Name)| {
        let contact = Contact::default();
        contact.set(Instant::now().checked_sub(Duration::from_secs(5)).filter(|_| zone.is_some()));
        let lifetime = Lifetime { shortest: lifetime, longest: lifetime };
        let (zone, state, history) = (zone.clone(), state(zone), History::default());
        (origin.clone(), SourceZone { zone, state, contact, lifetime, history })
    };
    let sources = zones.iter().zip(&plan.members).map(source).collect();
    let served = zones.iter().zip(&plan.members).map(|(zone, origin)| (origin.clone(), zone.clone()));
    // The members of a united zone are no zones to clients.
    let served = served.filter(|_| !plan.is_united).chain([(plan.origin.clone(), region.zone.clone())]);
    let served = served.map(|(origin, zone)| {
        let mut served = Served::new(origin, state(&zone), zone);
        // The first member is one of those that do as Binder does.
        if refusing && served.origin == plan.members[0] {
            served.unknown = Unknown::Refused;
        }
        Arc::new(served)
    });
    let published = Published::new(Identity::default(), served, 7);
    let (drift, merged) = (region.serial.drift(), region.zone.clone());
    let region = RegionSnapshot {
        plan,
        state: state(&merged),
        served: merged.clone(),
        merged,
        partial_at: None,
        drift,
        pin: None,
        damper: None,
        ns_fallback: false,
        followed: None,
        newer_elsewhere: None,
        servers_without_address: Vec::new(),
        alike: None,
        members,
        conflicts: Arc::default(),
    };
    let regions = HashMap::from([(region.plan.origin.clone(), Arc::new(region))]);
    Snapshot { published: Arc::new(published), sources, regions, drains: Vec::new(), answers: HashMap::new() }
}

/// Two members out of lines, with their apexes.
pub fn two(edit: impl FnOnce(&mut RegionPlan), first: &str, second: &str) -> Snapshot {
    let mut plan = plan(&["w1.x", "w2.x"]);
    edit(&mut plan);
    let text = |serial: u32, lines: &str| Some(format!("@ 30 SOA {serial}\n@ 3600 NS ns.w1.x.\n{lines}"));
    view(plan, &[text(10, first), text(20, second)], false)
}

/// The explanation of a name as text, without the parts about members and regions.
fn told(view: &Snapshot, at: &str, rtype: Option<u16>) -> String {
    let text = explain(view, &name(at), rtype, None).describe();
    let lines = text.lines().scan(false, |aside, line| {
        *aside = matches!(line, "  members" | "  source" | "  regions") || *aside && line.starts_with("    ");
        Some((!*aside).then_some(line))
    });
    lines.flatten().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_region_name_tells_who_gave_what() {
    let first = "Web.svc 60 A 10.0.0.1\nweb.svc 60 A 192.0.2.1\nweb.svc 30 SRV 80 a";
    let view = two(|plan| plan.rdata_names = RdataNames::Rewrite, first, "web.svc 30 A 10.0.0.1\nweb.svc 9 CNAME b");
    let text = explain(&view, &name("web.svc.w.x"), None, None).describe();
    let expected = "\
web.svc.w.x.
  NOERROR: 3 records in region w.x.
  region w.x.: ok, serial 30
  30 A 10.0.0.1
      w1.x. serial 10: Web.svc.w1.x., TTL 60 there
      w2.x. serial 20: web.svc.w2.x.
  30 A 192.0.2.1
      w1.x. serial 10: Web.svc.w1.x., TTL 60 there
  30 SRV 0 10 80 a.w.x.
      w1.x. serial 10: Web.svc.w1.x., 0 10 80 a.w1.x. there
  members
    w1.x. ok, serial 10, refreshed 5s ago, expires in 1m05s
    w2.x. ok, serial 20, refreshed 5s ago, expires in 1m05s
";
    assert_eq!(text, expected);
}

#[test]
fn what_a_member_of_a_united_zone_cannot_hold_is_told_by_the_zone() {
    let view = two(|plan| plan.is_united = true, "x 30 CNAME a\nx 30 A 192.0.2.1", "x 30 A 192.0.2.2");
    let expected = "\
x.w.x.
  NOERROR: 2 records in region w.x.
  region w.x.: ok, serial 30
  30 A 192.0.2.1
      w1.x. serial 10: x.w.x.
  30 A 192.0.2.2
      w2.x. serial 20: x.w.x.
  not in the region
    30 CNAME a.w.x.
      w1.x. serial 10: x.w.x.
      alias-beside-data: other data at the name wins over a CNAME (RFC 2181 section 10.1)
";
    assert_eq!(told(&view, "x.w.x", None), expected);
}

#[test]
fn what_is_not_in_the_region_is_told_with_the_rule() {
    let exclude = |plan: &mut RegionPlan| plan.exclude = vec![OwnerPattern { name: name("api"), below: false }];
    let view = two(exclude, "x 30 CNAME a\napi 30 A 192.0.2.1\na 9 A 192.0.2.3", "x 30 A 192.0.2.2");
    let expected = "\
x.w.x.
  NOERROR: 1 record in region w.x.
  region w.x.: ok, serial 30
  30 A 192.0.2.2
      w2.x. serial 20: x.w2.x.
  not in the region
    30 CNAME a.w1.x.
      w1.x. serial 10: x.w1.x.
      alias-beside-data: other data at the name wins over a CNAME (RFC 2181 section 10.1)
";
    assert_eq!(told(&view, "x.w.x", None), expected);
    let expected = "\
api.w.x.
  NXDOMAIN: region w.x. has no such name; the closest above it is w.x.
  region w.x.: ok, serial 30
  not in the region
    30 A 192.0.2.1
      w1.x. serial 10: api.w1.x.
      excluded: \"api\" in \"exclude\" of the region leaves the name out
";
    assert_eq!(told(&view, "api.w.x", Some(rtype::A)), expected);
    // The member's own name tells where its records go, and an alias is followed.
    let expected = "\
x.w1.x.
  NOERROR: an alias in zone w1.x., for a.w1.x.
  zone w1.x.: ok, serial 10
  30 CNAME a.w1.x.
  source
    w1.x. ok, serial 10, refreshed 5s ago, expires in 1m05s
  regions
    w.x.: x.w.x., 0 of 1 record
      30 CNAME a.w1.x.
        alias-beside-data: other data at the name wins over a CNAME (RFC 2181 section 10.1)
a.w1.x.
  NOERROR: 1 record in zone w1.x.
  zone w1.x.: ok, serial 10
  9 A 192.0.2.3
  source
    w1.x. ok, serial 10, refreshed 5s ago, expires in 1m05s
  regions
    w.x.: a.w.x., 1 of 1 record
";
    assert_eq!(explain(&view, &name("x.w1.x"), Some(rtype::A), None).describe(), expected);
}

#[test]
fn names_without_records_tell_why() {
    let lines = "a.b 30 A 192.0.2.1\n*.s 30 TXT t\nsub 30 NS ns.sub\nns.sub 30 A 192.0.2.9\nd 30 DNAME far.example.";
    let view = two(|_| (), lines, "");
    let outcome = |at: &str, rtype: Option<u16>| {
        let lookup = explain(&view, &name(at), rtype, None);
        let last = lookup.steps.last().unwrap();
        format!("{} {}", lookup.rcode, last.explanation)
    };
    for (at, rtype, expected) in [
        ("b.w.x", None, "NOERROR region w.x. has no records at the name, but 1 name below it (RFC 8020)"),
        ("a.b.w.x", Some(rtype::TXT), "NOERROR region w.x. has the name, with A only"),
        ("no.such.w1.x", None, "NXDOMAIN zone w1.x. has no such name; the closest above it is w1.x."),
        ("x.b.w.x", None, "NXDOMAIN region w.x. has no such name; the closest above it is b.w.x."),
        ("any.s.w.x", None, "NOERROR 1 record in region w.x., by the wildcard *.s.w.x. (RFC 4592)"),
        ("h.sub.w.x", None, "NOERROR region w.x. delegates sub.w.x. to the servers below"),
        (
            "ns.sub.w.x",
            None,
            "NOERROR region w.x. delegates sub.w.x. to the servers below; it hides 1 record at the name",
        ),
        ("h.d.w.x", None, "NOERROR no zone here holds the name"),
        ("example.org", None, "REFUSED no zone here holds the name"),
    ] {
        assert_eq!(outcome(at, rtype), expected, "{at}");
    }
    let dname = &explain(&view, &name("h.d.w.x"), None, None).steps[0];
    assert_eq!(dname.explanation, "the DNAME of d.w.x. in region w.x. leads to h.far.example.");
    let text = "@ 30 SOA 1\na 30 TYPE65440 broken\nb 30 TYPE65440 -";
    let placeholders = self::view(plan(&["w1.x"]), &[Some(text.into())], true);
    let at = |at: &str, rtype: Option<u16>| {
        let lookup = explain(&placeholders, &name(at), rtype, None);
        format!("{} {}", lookup.rcode, lookup.steps[0].explanation)
    };
    assert_eq!(at("a.w.x", None), "SERVFAIL region w.x. has the name, whose data cannot be read: broken");
    assert_eq!(at("b.w1.x", None), "NOERROR zone w1.x. has the name, without any record");
    assert_eq!(at("_s._tcp.b.w1.x", Some(rtype::SRV)), "NOERROR zone w1.x. has the host without this service");
    let refused = "REFUSED zone w1.x. has no such name and refuses unknown ones; the closest above it is w1.x.";
    assert_eq!(at("c.w1.x", None), refused);
    let waiting = self::view(plan(&["w1.x"]), &[None], false);
    let at = |at: &str| {
        let lookup = explain(&waiting, &name(at), None, None);
        format!("{} {}", lookup.rcode, lookup.steps[0].explanation)
    };
    assert_eq!(at("a.w1.x"), "SERVFAIL zone w1.x. has not been loaded yet");
    assert_eq!(at("a.w.x"), "SERVFAIL region w.x. waits for members that were never loaded");
}

#[test]
fn what_the_region_makes_itself_is_said() {
    let view = two(|plan| plan.serial_offset = 5, "@ 30 TXT t", "");
    let text = told(&view, "w.x", None);
    assert!(text.contains("NS ns1.x.\n      listed in \"ns\" of the region\n"), "{text}");
    let made = "      made here; serials of the members 10 + 20, serial_offset 5, drift 0\n";
    assert!(text.contains(made), "{text}");
    assert!(text.contains("TXT \"t\"\n      w1.x. serial 10: w1.x.\n"), "{text}");
}

#[test]
fn a_name_too_long_for_the_region_is_told_at_its_member() {
    let label = "l".repeat(61);
    let mut plan = plan(&["w1.x"]);
    plan.origin = name("a-much-longer-region.x");
    let long = format!("{label}.{label}.{label}.{}", "l".repeat(55));
    let view = view(plan, &[Some(format!("@ 30 SOA 1\n{long} 30 A 192.0.2.1"))], false);
    let text = explain(&view, &name(&format!("{long}.w1.x")), None, None).describe();
    assert!(
        text.ends_with("a-much-longer-region.x.: name-too-long: the name would be longer than 255 octets there\n"),
        "{text}"
    );
}

/// Gives the region w.x of a view laws of answers, one of them for the names below `seeds`.
pub fn answer_by(view: &mut Snapshot, [usual, seeds]: [Law; 2]) {
    let names = vec![(NamePattern::parse("*.seeds").unwrap(), Treatment { law: seeds, ..Treatment::PLAIN })];
    steer(view, AnswersPlan { names, ..AnswersPlan::new(usual) }, &Clients::default(), &[]);
}

/// Gives the region w.x of a view a plan of its answers, clients, and members that are stale.
fn steer(view: &mut Snapshot, plan: AnswersPlan, clients: &Clients, stale: &[bool]) {
    let (origin, plan) = (name("w.x"), Arc::new(plan));
    let region = &view.regions[&origin];
    let zone = region.served.clone().unwrap();
    let shares = view.drains.iter().filter_map(|drain| Some((&drain.target.member, drain.share?)));
    let shares: HashMap<&Name, u8> = shares.collect();
    let giver = |(member, name): (&TracedMember, &Name)| {
        let mut own = Shares::default();
        shares.get(name).into_iter().for_each(|share| own.add(None, *share));
        Giver { zone: member.taken.clone(), shares: own, ..Giver::default() }
    };
    let members = region.members.iter().zip(&region.plan.members).map(giver).collect();
    let selected = Selected::new(None, &plan, &zone, Some(&region.plan), members, Instant::now());
    let mut served = Served::clone(view.published.get(&origin).unwrap());
    served.selections = selected.selections;
    let (homes, members) = (clients.homes(), &region.plan.members);
    let orders = OrdersPlan { homes, members, near: &plan.near, weights: &plan.weights, stale };
    served.selections.orders = Arc::new(Orders::new(&orders, None));
    let all = view.published.iter().filter(|other| other.origin != origin).cloned().chain([Arc::new(served)]);
    let mut published = Published::new(Identity::default(), all.collect::<Vec<_>>(), 7);
    published.clients = Arc::new(clients.clone());
    view.published = Arc::new(published);
    view.answers = HashMap::from([(origin, plan)]);
}

#[test]
fn what_answers_have_of_a_large_set_is_told_with_the_law() {
    let many = |owner: &str, count: u32| -> String {
        let line = |n: u32| format!("{owner} 30 A 10.0.{}.{}\n", n / 250, n % 250);
        (0..count).map(line).collect()
    };
    let texts = (0..120).map(|n| format!("list 30 PTR p{n}\n")).collect::<String>();
    let first = [&many("web", 120)[..], &many("a.seeds", 20), &many("few", 5), &texts].concat();
    let mut view = two(|_| (), &first, &many("*.wild", 9));
    let law = |max, pick| Law { max: NonZeroU32::new(max), pick };
    answer_by(&mut view, [law(8, Pick::Rotate), law(16, Pick::Client)]);
    let told = |view: &Snapshot, at: &str| -> Vec<String> {
        explain(view, &name(at), None, None).steps[0].sets.iter().map(SetReport::describe).collect()
    };
    for (at, expected) in [
        ("web.w.x", "A: 120 records, more than a datagram, 100 records; an answer has 8, others each time (max = 8)"),
        ("a.seeds.w.x", "A: 20 records; an answer has 16, the same for a client (max = 16 for \"*.seeds\")"),
        ("b.wild.w.x", "A: 9 records; an answer has 8, others each time (max = 8)"),
        (
            "list.w.x",
            "PTR: 120 records, more than a datagram, 100 records; an answer has 100, always the same (max = 8)",
        ),
        ("web.w1.x", "A: 120 records, more than a datagram, 100 records; answers have all of them"),
    ] {
        assert_eq!(told(&view, at), [expected], "{at}");
        let text = explain(&view, &name(at), None, None).describe();
        assert!(text.contains(&format!("\n  {expected}\n")), "{text}");
        // A question has as many records as are told.
        let kind = if at.starts_with("list") { rtype::PTR } else { rtype::A };
        let mut out = vec![0; 65_535];
        answer::answer(&view.published, &question(&name(at), kind), false, 0, &mut out).unwrap();
        let step = &explain(&view, &name(at), Some(kind), None).steps[0];
        assert_eq!(u32::from(u16::from_be_bytes([out[6], out[7]])), step.sets[0].answered, "{at}");
    }
    assert_eq!(told(&view, "few.w.x"), Vec::<String>::new());
    assert_eq!(explain(&view, &name("web.w.x"), Some(rtype::TXT), None).steps[0].sets, []);
    let data = serde_json::json!(explain(&view, &name("a.seeds.w.x"), Some(rtype::A), None));
    let expected = serde_json::json!([{
        "type": "A", "records": 20, "answered": 16, "by_home": false, "over": [],
        "law": { "max": 16, "pick": "client", "match": "*.seeds" },
    }]);
    assert_eq!(data["steps"][0]["sets"], expected);
}

#[test]
fn programs_get_the_same() {
    let view = two(|_| (), "a 30 A 192.0.2.1", "a 60 A 192.0.2.1");
    let data = serde_json::json!(explain(&view, &name("a.w.x"), Some(rtype::A), None));
    assert_eq!((&data["rcode"], &data["type"], &data["generation"]), (&"NOERROR".into(), &"A".into(), &7.into()));
    let step = &data["steps"][0];
    assert_eq!((&step["outcome"], &step["zone"]["kind"]), (&"records".into(), &"region".into()));
    let from = &step["records"][0]["from"][1];
    let expected = serde_json::json!(
        { "zone": "w2.x.", "serial": 20, "owner": "a.w2.x.", "ttl": 60, "type": "A", "data": "192.0.2.1",
          "held_seconds": null }
    );
    assert_eq!(from, &expected);
}

/// A question in wire form.
fn question(name: &Name, qtype: u16) -> Vec<u8> {
    let header = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], name.as_wire(), &qtype.to_be_bytes(), &[0, 1]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The explanation has the response code and the number of records of the server's own answer, and every record of
    /// a region is explained.
    #[test]
    fn the_explanation_agrees_with_the_answer(
        texts in prop::collection::vec(prop::option::weighted(0.9, arbitrary_text()), 2),
        (rewrite, refusing) in any::<(bool, bool)>(),
        extras in prop::collection::vec(
            prop::sample::select(vec!["a 30 TYPE65440 broken", "b 30 TYPE65440 -", "b.b 30 TYPE65440 broken", "sub 9 TYPE65440 -"]),
            0..4,
        ),
        asked in prop::collection::vec(
            (
                prop::sample::select(vec!["", "a.", "b.", "a.b.", "x.b.", "c.a.b.", "d.c.a.b.", "y.d.a.", "_y._tcp.a.", "_y._tcp.b.b.", "_y._tcp.no.", "b.b.", "i._x._tcp.", "sub.", "w.sub.", "no."]),
                prop::sample::select(vec!["w.x", "w1.x", "w2.x"]),
                prop::sample::select(vec![rtype::A, rtype::TXT, rtype::SRV, rtype::CNAME, rtype::NS, rtype::DS, rtype::SOA]),
            ),
            20,
        ),
    ) {
        let mut plan = plan(&["w1.x", "w2.x"]);
        plan.rdata_names = if rewrite { RdataNames::Rewrite } else { RdataNames::Keep };
        let mut texts = texts;
        texts[0].iter_mut().for_each(|text| extras.iter().for_each(|line| *text += &format!("{line}\n")));
        let view = view(plan, &texts, refusing);
        for (labels, origin, qtype) in asked {
            let at = name(&format!("{labels}{origin}"));
            let lookup = explain(&view, &at, Some(qtype), None);
            let mut out = vec![0; 65_535];
            let response = answer::answer(&view.published, &question(&at, qtype), false, 0, &mut out).unwrap();
            let rcode = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN"][usize::from(response.rcode)];
            prop_assert_eq!(lookup.rcode, rcode, "{} {}", at, qtype);
            let mut dnames = std::collections::BTreeSet::new();
            let records: usize = lookup.steps.iter().map(|step| match &step.outcome {
                RecordFate::Records => step.records.len(),
                RecordFate::Alias { .. } => 1,
                RecordFate::Dname { .. } => 1 + usize::from(dnames.insert(step.owner.clone().unwrap().as_wire().to_vec())),
                RecordFate::TargetTooLong => usize::from(dnames.insert(step.owner.clone().unwrap().as_wire().to_vec())),
                _ => 0,
            }).sum();
            prop_assert_eq!(records, usize::from(u16::from_be_bytes([out[6], out[7]])), "{} {}", at, qtype);
            for step in &lookup.steps {
                let region = step.zone.as_ref().is_some_and(|zone| zone.kind == "region");
                for record in step.records.iter().filter(|_| region) {
                    prop_assert!(!record.from.is_empty() || matches!(record.code, rtype::SOA | rtype::NS), "{} {:?}", at, record);
                }
            }
        }
    }
}
