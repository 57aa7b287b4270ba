//! The golden cases: records and reasons of 22 inventories as Triton's CNS has them, and eleven timelines of damping, each
//! also with a restart after each step.

mod cases;

use cases::{addressed, config_of, inventory_of, moment, publish_all, records, upstream};
use inventory::config::Limits;
use inventory::damping::Group;
use inventory::kept::Kept;
use inventory::model::{Change, Element, Moment};
use inventory::roster::{Health, Roster};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;

#[test]
fn every_case_publishes_what_upstream_does() {
    let all = upstream();
    assert_eq!(all["cases"].as_array().unwrap().len(), 22);
    for case in all["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let now = moment(&case["now"]);
        let mut roster = Roster::new(config_of(&case["config"]), now);
        roster.replace(inventory_of(case), now);
        let settled = roster.settle(now);
        let expected: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> =
            serde_json::from_value(case["expect"]["zones"].clone()).unwrap();
        assert_eq!(records(&roster), expected, "{id}");
        let touched: BTreeSet<(String, String)> = settled
            .touched
            .iter()
            .flat_map(|(zone, names)| names.iter().map(move |name| (zone.to_string(), name.to_string())))
            .collect();
        for (zone, names) in records(&roster) {
            for name in names.keys() {
                assert!(touched.contains(&(format!("{zone}."), format!("{name}.{zone}."))), "{id}: {name}.{zone}");
            }
        }
        for (uuid, wanted) in case["expect"]["instances"].as_object().unwrap() {
            let said = roster.explain(uuid.parse().unwrap()).unwrap();
            let listed = match (said.undecided.is_some(), said.instance, said.service) {
                (true, ..) => "undecided",
                (_, true, true) => "instance+service",
                (_, true, false) => "instance",
                _ => "none",
            };
            assert_eq!(listed, wanted["listed"].as_str().unwrap(), "{id}: {uuid}");
            let reasons: Vec<&str> =
                wanted["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
            assert_eq!(said.reasons, reasons, "{id}: {uuid}");
        }
        // The same after a restart, and once more when nothing changes.
        let kept = roster.keep();
        let (mut again, unread) = Roster::restore(config_of(&case["config"]), &kept, now);
        assert_eq!(unread, 0, "{id}");
        again.settle(now);
        assert_eq!(records(&again), expected, "{id} restored");
        assert!(again.settle(now).touched.is_empty(), "{id}");
        assert!(again.keep_changes().elements.is_empty(), "{id}");
        roster.replace(inventory_of(case), now);
        assert!(roster.settle(now).touched.is_empty(), "{id}");
        publish_all(&mut roster, now);
    }
}

fn steps(timeline: &Value) -> BTreeMap<i64, Vec<(String, String)>> {
    let mut steps: BTreeMap<i64, Vec<(String, String)>> = BTreeMap::new();
    for event in timeline["events"].as_array().unwrap() {
        let (what, member) = (event["event"].as_str().unwrap(), event["member"].as_str().unwrap());
        steps.entry(event["t"].as_i64().unwrap()).or_default().push((what.into(), member.into()));
    }
    steps
}

/// Moment, change and member of what is expected, with `n` for removals.
fn expected(timeline: &Value) -> Vec<(i64, String, String, Option<usize>)> {
    let all = timeline["expect"].as_array().unwrap().iter().map(|change| {
        let n = change["n"].as_u64().map(|n| n as usize);
        let text = |key: &str| change[key].as_str().unwrap().to_owned();
        (change["t"].as_i64().unwrap(), text("change"), text("member"), n)
    });
    all.collect()
}

#[test]
fn groups_follow_every_timeline() {
    let limits = Limits::default();
    for timeline in upstream()["damping"].as_array().unwrap() {
        let at = |t: i64| Moment(t * 1000);
        let mut group: Group<String, Moment, ()> = Group::default();
        let members: Vec<String> = serde_json::from_value(timeline["members"].clone()).unwrap();
        members.into_iter().for_each(|member| {
            group.join(member, &[()]);
        });
        group.evaluate(&limits, at(-1000), None);
        let mut steps = steps(timeline);
        let mut seen = Vec::new();
        loop {
            let event = steps.first_key_value().map(|(t, _)| *t);
            let due = group.next().filter(|_| group.held().len() > 0).map(|next| next.0 / 1000);
            let Some(t) = [event, due].into_iter().flatten().min() else { break };
            for (what, member) in steps.remove(&t).unwrap_or_default() {
                match what.as_str() {
                    "down" => group.withdraw(member, &[()], at(t)),
                    "hard" => {
                        assert!(group.remove(&member));
                        seen.push((t, "hard".to_owned(), member, None));
                    }
                    _ => {
                        let was_in = group.contains(&member);
                        group.join(member.clone(), &[()]);
                        if !was_in {
                            seen.push((t, "add".to_owned(), member, None));
                        }
                    }
                }
            }
            for member in group.evaluate(&limits, at(t), None) {
                seen.push((t, "remove".to_owned(), member, Some(group.size())));
            }
        }
        assert_eq!(seen, expected(timeline), "{}", timeline["id"]);
    }
}

#[test]
fn rosters_follow_every_timeline_over_restarts() {
    for timeline in upstream()["damping"].as_array().unwrap() {
        let steps = steps(timeline);
        let wanted: Vec<_> = expected(timeline).into_iter().map(|(t, _, member, _)| (t, member)).collect();
        let moments: BTreeSet<i64> = steps.keys().copied().chain(wanted.iter().map(|(t, _)| *t)).collect();
        // Without a restart, and with one after each step, before the next.
        for restart in std::iter::once(None).chain(moments.iter().map(|t| Some(*t))) {
            assert_eq!(run(timeline, &steps, restart), wanted, "{} restarted at {restart:?}", timeline["id"]);
        }
    }
}

/// Follows a timeline, and returns at which second which member came or went.
fn run(timeline: &Value, steps: &BTreeMap<i64, Vec<(String, String)>>, restart: Option<i64>) -> Vec<(i64, String)> {
    let base = 1_700_000_000_000;
    let at = |t: i64| Moment(base + t * 1000);
    let number = |member: &str| member[1..].parse::<u8>().unwrap();
    let mut roster = Roster::new(cases::plain_config(), at(-1000));
    roster.replace(addressed(0), at(-1000));
    let members: Vec<String> = serde_json::from_value(timeline["members"].clone()).unwrap();
    for member in &members {
        roster.apply(Change::Put(Element::Vm(cases::member(number(member)))), at(-1000));
    }
    let mut next = roster.settle(at(-1000)).next;
    let mut last = roster.keep();
    let zone = Name::parse("dc1.cns.example.com").unwrap();
    let owner = Name::parse(&format!("web.svc.{}.dc1.cns.example.com", cases::ACME)).unwrap();
    let standing = |roster: &Roster| -> BTreeSet<String> {
        let sets = roster.records_at(&zone, &owner);
        let addresses = sets.iter().filter(|set| set.rtype == wire::rr::rtype::A);
        addresses.flat_map(|set| set.rdatas().map(|rdata| format!("m{:02}", rdata[3])).collect::<Vec<_>>()).collect()
    };
    let mut before = standing(&roster);
    let mut seen = Vec::new();
    let mut steps = steps.clone();
    loop {
        let event = steps.first_key_value().map(|(t, _)| *t);
        let due = next.map(|next| (next.0 - base) / 1000);
        let Some(t) = [event, due].into_iter().flatten().min() else { break };
        if restart.is_some_and(|restart| restart < t) && !last.retained.is_empty() | !last.elements.is_empty() {
            let (mut again, unread) = Roster::restore(cases::plain_config(), &last, at(t - 1));
            assert_eq!(unread, 0);
            again.settle(at(t - 1));
            assert_eq!(standing(&again), before);
            roster = again;
            last = Kept::default();
        }
        for (what, member) in steps.remove(&t).unwrap_or_default() {
            let uuid = cases::member_uuid(number(&member));
            match what.as_str() {
                "down" => assert!(roster.report(uuid, Health::Down, None, at(t))),
                "up" => assert!(roster.report(uuid, Health::Up, None, at(t))),
                "hard" => roster.apply(Change::Gone(inventory::model::Key::Vm(uuid)), at(t)),
                _ => roster.apply(Change::Put(Element::Vm(cases::member(number(&member)))), at(t)),
            }
        }
        let settled = roster.settle(at(t));
        next = settled.next.filter(|next| *next > at(t));
        let now = standing(&roster);
        let changed: BTreeSet<String> = before.symmetric_difference(&now).cloned().collect();
        // Within one second what joins and what is gone comes first.
        let (left, joined): (Vec<_>, Vec<_>) = changed.into_iter().partition(|member| before.contains(member));
        seen.extend(joined.into_iter().chain(left).map(|member| (t, member)));
        before = now;
        if restart.is_some_and(|restart| restart >= t) {
            last = roster.keep();
        }
        if next.is_some_and(|next| next > at(100_000)) {
            break;
        }
    }
    seen
}
