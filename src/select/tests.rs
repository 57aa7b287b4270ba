//! Laws of windows.

use super::*;
use crate::select::point::{Client, Spread, seed};
use std::collections::HashMap;
use wire::name::Name;
use wire::rr::RRset;

fn owner() -> Name {
    Name::parse("web.svc.acme.us-west.cns.example.com").unwrap()
}

fn law(max: u32, pick: Pick) -> Law {
    Law { max: NonZeroU32::new(max), pick }
}

fn addresses(count: u32) -> RRset {
    let rdatas: Vec<[u8; 4]> = (0..count).map(|number| (0x0a00_0000 + number).to_be_bytes()).collect();
    RRset::build(rtype::A, 30, rdatas).unwrap()
}

/// Numbers of records by member, where the members' shares are in this proportion.
fn shares(count: u32, parts: &[u32]) -> Vec<Vec<u32>> {
    let all: u32 = parts.iter().sum();
    let mut gives = vec![Vec::new(); parts.len()];
    for number in 0..count {
        let mut at = number.wrapping_mul(0x9e37_79b1) % all;
        let member = parts.iter().position(|part| at.checked_sub(*part).is_none_or(|left| (at = left, false).1));
        gives[member.unwrap()].push(number);
    }
    gives
}

fn chosen(selection: &Selection, turn: u32, client: u32) -> Vec<u32> {
    let client = Client::from_source(std::net::IpAddr::V4(client.into()));
    let (owner, orders) = (owner(), Orders::default());
    let asker = Asker { turn, client, home: None, owner: [&[], owner.as_wire()], orders: &orders, is_beside: false };
    selection.turns(&asker);
    selection.window(&asker).map(|picked| picked.offset).collect()
}

/// What members give, by the numbers of the records.
fn given(numbers: &[Vec<u32>]) -> Vec<Given> {
    numbers.iter().map(|records| Given { records: records.clone(), ..Given::default() }).collect()
}

fn select(set: &RRset, law: Law, numbers: &[Vec<u32>]) -> Option<Selection> {
    Selection::new(owner().as_wire(), set.as_set(), Treatment { law, ..Treatment::PLAIN }, &given(numbers))
}

#[test]
fn windows_take_turns_equally() {
    for (count, parts) in [(101, &[1][..]), (101, &[1, 100]), (5000, &[1, 10, 100]), (100_000, &[1, 1, 1, 500])] {
        let (set, gives) = (addresses(count), shares(count, parts));
        for most in [8, 100] {
            let selection = select(&set, law(most, Pick::Rotate), &gives).unwrap();
            let mut times: HashMap<u32, u32> = HashMap::new();
            // As other questions between them leave it.
            for stride in [1u32, 2] {
                times.clear();
                let answers = 20 * count / most;
                for answer in 0..answers {
                    let turn = (answer * stride).wrapping_mul(0x9e37_79b1);
                    let window = chosen(&selection, turn, 0);
                    assert_eq!(window.len(), most as usize);
                    window.iter().for_each(|record| *times.entry(*record).or_default() += 1);
                }
                let expected = f64::from(answers * most) / f64::from(count);
                assert_eq!(times.len(), count as usize, "{count} {most}");
                for (record, times) in &times {
                    let off = (f64::from(*times) - expected).abs();
                    assert!(off <= expected * 0.05 + 3.0, "{record} of {count}: {times} of {expected}");
                }
            }
        }
    }
}

proptest::proptest! {
    /// What follows a change is what would be made anew.
    #[test]
    fn circles_follow_their_sets(
        gone in proptest::collection::btree_set(0..600u32, 0..12),
        come in proptest::collection::btree_set(0..1_400u32, 0..12),
        wide: bool,
    ) {
        let set_of = |numbers: &mut dyn Iterator<Item = u32>| match wide {
            false => RRset::build(rtype::A, 30, numbers.map(u32::to_be_bytes).collect()).unwrap(),
            true => RRset::build(rtype::AAAA, 30, numbers.map(|number| u128::from(number).to_be_bytes()).collect()).unwrap(),
        };
        let even = |number: &u32| 2 * number;
        let before = set_of(&mut (0..600).map(|number| even(&number)));
        let after = set_of(&mut (0..600).filter(|number| !gone.contains(number)).map(|number| even(&number)).chain(come));
        let all = |set: &RRset| select(set, law(100, Pick::Rotate), &[(0..set.count).collect()]).unwrap();
        let followed = all(&before).follow(owner().as_wire(), before.as_set(), after.as_set());
        proptest::prop_assert_eq!(followed, Some(all(&after)));
    }
}

#[test]
fn sets_of_several_members_are_laid_out_anew() {
    let (before, after) = (addresses(600), addresses(601));
    let selection = select(&before, law(100, Pick::Rotate), &shares(600, &[1, 1])).unwrap();
    assert_eq!(selection.follow(owner().as_wire(), before.as_set(), after.as_set()), None);
}

#[test]
fn a_window_has_each_members_share() {
    let (set, gives) = (addresses(1110), shares(1110, &[1, 10, 100]));
    let selection = select(&set, law(111, Pick::Rotate), &gives).unwrap();
    let offsets: Vec<u32> = set.as_set().with_offsets().map(|(offset, _)| offset).collect();
    let member: HashMap<u32, usize> = gives
        .iter()
        .enumerate()
        .flat_map(|(member, gives)| gives.iter().map(move |number| (*number, member)))
        .collect();
    for turn in (0..1000u32).map(|turn| turn.wrapping_mul(0x9e37_79b1)) {
        let mut counts = [0i64; 3];
        for offset in chosen(&selection, turn, 0) {
            counts[member[&(offsets.binary_search(&offset).unwrap() as u32)]] += 1;
        }
        for (member, count) in counts.iter().enumerate() {
            let share = 111.0 * gives[member].len() as f64 / 1110.0;
            assert!((*count as f64 - share).abs() <= 2.0, "{counts:?}");
        }
    }
}

#[test]
fn a_client_keeps_its_records() {
    let (set, gives) = (addresses(1000), shares(1000, &[1, 1, 1]));
    let all = select(&set, law(8, Pick::Client), &gives).unwrap();
    let rdata = |set: &RRset, offset: u32| set.as_set().at(offset).to_vec();
    let mut loads: HashMap<Vec<u8>, u32> = HashMap::new();
    for client in 0..10_000u32 {
        let window = chosen(&all, client, client * 7919);
        assert_eq!(window, chosen(&all, 0, client * 7919), "whatever the turn");
        assert_eq!(window.iter().collect::<std::collections::HashSet<_>>().len(), 8);
        window.iter().for_each(|offset| *loads.entry(rdata(&set, *offset)).or_default() += 1);
    }
    let member = |offset: u32| gives.iter().position(|gives| gives.contains(&(offset / 5))).unwrap();
    let mut leads = [0; 3];
    (0..3000).for_each(|client| leads[member(chosen(&all, 0, client * 7919)[0])] += 1);
    assert!(leads.iter().all(|times| (700..=1300).contains(times)), "the first record is of any member: {leads:?}");
    let most = loads.values().max().unwrap();
    assert!(*most <= 160, "{most} of 80 on average");
    // One record leaves.
    let gone = 500usize;
    let mut rest: Vec<Vec<u8>> = set.rdatas().map(<[u8]>::to_vec).collect();
    let left = rest.remove(gone);
    let smaller = RRset::build(rtype::A, 30, rest).unwrap();
    let without = |numbers: &Vec<u32>| -> Vec<u32> {
        let others = numbers.iter().filter(|number| **number as usize != gone);
        others.map(|number| number - u32::from(*number as usize > gone)).collect()
    };
    let fewer: Vec<Vec<u32>> = gives.iter().map(without).collect();
    let after = select(&smaller, law(8, Pick::Client), &fewer).unwrap();
    let mut changed = 0;
    for client in (0..10_000u32).map(|client| client * 7919) {
        let sorted = |set: &RRset, window: Vec<u32>| -> std::collections::BTreeSet<Vec<u8>> {
            window.into_iter().map(|offset| rdata(set, offset)).collect()
        };
        let (before, now) = (sorted(&set, chosen(&all, 0, client)), sorted(&smaller, chosen(&after, 0, client)));
        if before.contains(&left) {
            assert_eq!(before.difference(&now).count(), 1, "that record only");
            changed += 1;
        } else {
            assert_eq!(before, now);
        }
    }
    assert!(changed > 0);
}

#[test]
fn clients_are_spread_over_the_records() {
    for (count, most, clients) in [(101, 8, 10_000), (5_000, 8, 100_000), (5_000, 100, 10_000), (100_000, 16, 300_000)]
    {
        let (set, gives) = (addresses(count), shares(count, &[1, 1, 1]));
        let selection = select(&set, law(most, Pick::Client), &gives).unwrap();
        let (mut loads, mut leads) = (vec![0; count as usize], vec![0; count as usize]);
        for client in 0..clients {
            let window = chosen(&selection, 0, client * 256);
            window.iter().for_each(|offset| loads[(offset / 5) as usize] += 1);
            leads[(window[0] / 5) as usize] += 1;
        }
        // Most clients try the first record that they get.
        for (times, records, chance) in [(loads, most, 4.0), (leads, 1, 6.0)] {
            let average = f64::from(clients * records) / f64::from(count);
            // What chance does to so few answers is not the ring's.
            let chance: f64 = chance * average.sqrt();
            let range = average / 2.0 - chance..=average * 2.0 + chance;
            for times in times {
                assert!(range.contains(&f64::from(times)), "{count} {most}: {times} of {average} on average");
            }
        }
    }
}

#[test]
fn a_record_that_leaves_changes_the_answers_that_had_it() {
    for (count, parts, most) in [(200, &[1, 20][..], 16), (120, &[1, 1, 3, 3, 9, 27, 60], 8), (150, &[1], 100)] {
        let (set, gives) = (addresses(count), shares(count, parts));
        let all = select(&set, law(most, Pick::Client), &gives).unwrap();
        let rdatas = |set: &RRset, window: Vec<u32>| -> std::collections::BTreeSet<Vec<u8>> {
            window.into_iter().map(|offset| set.as_set().at(offset).to_vec()).collect()
        };
        for gone in (0..count).step_by(3) {
            let left = set.as_set().at(gone * 5).to_vec();
            let rest = set.rdatas().filter(|rdata| *rdata != left).map(<[u8]>::to_vec).collect();
            let smaller = RRset::build(rtype::A, 30, rest).unwrap();
            let without = |numbers: &Vec<u32>| -> Vec<u32> {
                let others = numbers.iter().filter(|number| **number != gone);
                others.map(|number| number - u32::from(*number > gone)).collect()
            };
            let fewer: Vec<Vec<u32>> = gives.iter().map(without).collect();
            let after = select(&smaller, law(most, Pick::Client), &fewer).unwrap();
            for client in (0..100u32).map(|client| client * 7919) {
                let (before, now) =
                    (rdatas(&set, chosen(&all, 0, client)), rdatas(&smaller, chosen(&after, 0, client)));
                match before.contains(&left) {
                    true => assert_eq!(before.difference(&now).collect::<Vec<_>>(), [&left]),
                    false => assert_eq!(before, now),
                }
            }
        }
    }
}

/// The same as the text says: from all distances.
fn nearest(set: &RRset, gives: &[Vec<u32>], max: usize, client: u32) -> Vec<u32> {
    let owner = owner();
    let probe = Client::from_source(std::net::IpAddr::V4(client.into())).probe(seed(owner.as_wire())).at();
    let spread = if max < 16 { Spread::EIGHT } else { Spread::FOUR };
    let distance = |rdata: &[u8]| {
        let point = point(owner.as_wire(), rtype::A, rdata);
        (0..spread.points()).map(|part| spread.at(point, part).wrapping_sub(probe)).min().unwrap()
    };
    let mut all: Vec<(u32, u32)> =
        set.as_set().with_offsets().map(|(offset, rdata)| (distance(rdata), offset)).collect();
    all.sort_unstable();
    let giver = |offset: u32| gives.iter().position(|gives| gives.contains(&(offset / 5)));
    let mut seen = std::collections::HashSet::new();
    let is_first = |(_, offset): &&(u32, u32)| giver(*offset).is_some_and(|giver| seen.insert(giver));
    let mut window: Vec<u32> = all.iter().filter(is_first).map(|(_, offset)| *offset).take(max).collect();
    let rest: Vec<u32> = all.iter().map(|(_, offset)| *offset).filter(|offset| !window.contains(offset)).collect();
    window.extend(rest.into_iter().take(max - window.len()));
    window.sort_unstable();
    window
}

#[test]
fn a_client_gets_the_nearest_of_each_member_then_of_all() {
    let one_of_each = vec![1; 200];
    let cases: [(u32, &[u32], u32); 6] = [
        (1000, &[1, 1, 1], 16),
        (501, &[1, 1, 1, 500], 8),
        (300, &[1, 20, 300, 4000], 3),
        (200, &one_of_each, 16),
        (900, &one_of_each, 100),
        (150, &[1], 100),
    ];
    for (count, parts, max) in cases {
        let (set, mut gives) = (addresses(count), shares(count, parts));
        for shared in [0, 7] {
            // Some records of other members, and some of nobody.
            let more: Vec<u32> = gives.iter().flatten().copied().filter(|number| number % 10 < shared).collect();
            gives[0].extend(more);
            gives[0].sort_unstable();
            gives[0].dedup();
            gives.iter_mut().for_each(|gives| gives.retain(|number| shared == 0 || number % 13 > 0));
            let selection = select(&set, law(max, Pick::Client), &gives).unwrap();
            for client in (0..200u32).map(|client| client * 7919) {
                let mut window = chosen(&selection, 0, client);
                window.sort_unstable();
                assert_eq!(window, nearest(&set, &gives, max as usize, client), "{count} {max} {shared} {client}");
            }
        }
    }
}

#[test]
fn the_last_place_goes_to_the_next_priority() {
    let target = Name::parse("a.x").unwrap();
    let record = |priority: u16, port: u16| {
        [&priority.to_be_bytes()[..], &[0, 0], &port.to_be_bytes(), target.as_wire()].concat()
    };
    let set = |sizes: &[u16]| {
        let records = (0u16..).zip(sizes).flat_map(|(priority, size)| (0..*size).map(move |port| (priority, port)));
        RRset::build(rtype::SRV, 30, records.map(|(priority, port)| record(priority, port)).collect()).unwrap()
    };
    let priorities = |sizes: &[u16], most: u32| -> Vec<u16> {
        let set = set(sizes);
        let gives = [(0..set.count).collect::<Vec<u32>>()];
        let made = select(&set, law(most, Pick::Rotate), &gives).unwrap();
        chosen(&made, 7, 0).iter().map(|offset| priority(rtype::SRV, set.as_set().at(*offset))).collect()
    };
    assert_eq!(priorities(&[20], 4), [0, 0, 0, 0]);
    assert_eq!(priorities(&[20, 5], 4), [0, 0, 0, 1]);
    assert_eq!(priorities(&[20, 5, 5], 4), [0, 0, 0, 1]);
    assert_eq!(priorities(&[20, 5], 1), [0]);
    assert_eq!(priorities(&[1, 20], 4), [0, 1, 1, 1]);
    assert_eq!(priorities(&[1, 20, 3], 4), [0, 1, 1, 2]);
}

#[test]
fn what_holds_zones_together_is_never_cut() {
    let names: Vec<Vec<u8>> = (0..200).map(|n| Name::parse(&format!("n{n}.x")).unwrap().as_wire().to_vec()).collect();
    let gives = [(0..200).collect::<Vec<u32>>()];
    let cut = |kind: u16| {
        let set = RRset::build(kind, 30, names.clone()).unwrap();
        select(&set, law(8, Pick::Rotate), &gives)
    };
    assert!(cut(rtype::NS).is_none());
    let list = cut(rtype::PTR).unwrap();
    assert_eq!(chosen(&list, 0, 0).len(), 100, "lists are cut where resolvers refuse them");
    assert_eq!(chosen(&list, 0, 0), chosen(&list, 1 << 31, 77), "and for all clients alike");
}

/// Whoever changes one of these sends every client of every region elsewhere.
#[test]
fn points_are_what_they_were() {
    assert_eq!(point(owner().as_wire(), rtype::A, &[10, 0, 0, 1]), 0x25be_3996_35de_b9a1);
    assert_eq!(
        [0, 1, 2, 3].map(|part| Spread::FOUR.at(0x25be_3996_35de_b9a1, part)),
        [0x1aab_6f7d, 0x7127_dc4d, 0xbcfa_06ac, 0xf97b_1b21]
    );
    assert_eq!(
        [0, 3, 7].map(|part| Spread::EIGHT.at(0x25be_3996_35de_b9a1, part)),
        [0x0d55_b7be, 0x7cbd_8d90, 0xf7c9_cf28]
    );
    let client = Client::from_source([192, 0, 2, 1].into());
    let probe = client.probe(seed(owner().as_wire()));
    assert_eq!((probe.at(), probe.choice(1000)), (0x546c_8c73, 583));
    let subnet = Client::from_subnet([192, 0, 2, 0].into());
    assert_ne!(subnet.probe(7).at(), Client::from_source([192, 0, 2, 0].into()).probe(7).at());
    let mapped = Client::from_source("::ffff:192.0.2.1".parse().unwrap());
    assert_eq!(mapped, Client::from_source([192, 0, 2, 1].into()));
}

#[test]
fn many_priorities_are_made_at_once_and_no_more_than_a_window_reaches() {
    let target = Name::parse("a.x").unwrap();
    let record = |n: u16| [&n.to_be_bytes()[..], &[0, 0, 0, 80], target.as_wire()].concat();
    let set = RRset::build(rtype::SRV, 30, (0..30_000).map(record).collect()).unwrap();
    let gives = [(0..set.count).collect::<Vec<u32>>(), (0..set.count).step_by(3).collect()];
    for pick in [Pick::Rotate, Pick::Client] {
        let made = select(&set, law(16, pick), &gives).unwrap();
        let window = chosen(&made, 9, 9);
        let priorities: Vec<u16> = window.iter().map(|offset| priority(rtype::SRV, set.as_set().at(*offset))).collect();
        assert_eq!(priorities, (0..16).collect::<Vec<u16>>());
        assert!(made.tiers.len() < 20);
    }
}

/// Numbers of sets over each limit, of which none of many windows is.
fn kept_of(sets: &[(RRset, Selection)], owner: &[u8]) -> Large {
    let count = |(set, selection): &(RRset, Selection)| {
        let set = set.as_set();
        let size = |offset: u32| set.at(offset).len() + rr::FIXED_BYTES;
        let windows = (0..50u32).map(|turn| {
            let window = chosen(selection, turn.wrapping_mul(0x9e37_79b1), turn);
            Large::of(window.len() as u32, window.into_iter().map(size).sum(), owner.len())
        });
        let widest = windows.reduce(|a, b| {
            let worst = |a: u32, b: u32| a.max(b);
            Large {
                datagram: worst(a.datagram, b.datagram),
                resolvers: worst(a.resolvers, b.resolvers),
                message: worst(a.message, b.message),
            }
        });
        Large::of(set.count, set.wire_bytes(), owner.len()).without(widest.unwrap())
    };
    sets.iter().map(count).fold(Large::default(), Large::with)
}

#[test]
fn what_answers_are_not_over_is_counted_as_sets_come_and_go() {
    let owners: [&[u8]; 3] = [b"\x03web", b"\x01a\x03web", b""];
    let mut selections = Selections::new(8);
    let mut there: HashMap<&[u8], Vec<(RRset, Selection)>> = HashMap::new();
    let sizes =
        [(9u32, 8), (100, 8), (101, 100), (101, 8), (5_000, 100), (5_000, 8), (300, 120), (0, 1), (5_000, 4_999)];
    for step in 0..60usize {
        let (labels, (count, most)) = (owners[step % owners.len()], sizes[step * 7 % sizes.len()]);
        let pick = if step % 2 == 0 { Pick::Rotate } else { Pick::Client };
        let make = || {
            let (set, gives) = (addresses(count), shares(count, &[1, 2]));
            select(&set, law(most, pick), &gives).map(|made| (set, made))
        };
        let make = || if count == 0 { None } else { make() };
        let made = make().into_iter().map(|(_, made)| made).collect();
        selections.set(labels, Entry { selections: made, is_uneven: false });
        there.insert(labels, make().into_iter().collect());
        let expected = there.iter().map(|(labels, sets)| kept_of(sets, labels)).fold(Large::default(), Large::with);
        assert_eq!(selections.kept(), expected, "{step}");
    }
    assert_ne!(selections.kept(), Large::default());
}

mod explained;
mod steered;
