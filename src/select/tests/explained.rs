//! Explanations against the answers that they explain.

use super::steered::{MEMBERS, World, arbitrary_world, ask, client_of, members, set_of};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn explain(world: &World, kind: u16, home: Option<u16>, client: u32) -> Option<Explained> {
    let set = set_of(world, kind);
    let treatment = Treatment { law: world.law, steering: world.steering };
    let made = Selection::new(owner().as_wire(), set.as_set(), treatment, &world.given())?;
    let (owner, orders, client) = (owner(), world.orders(), client_of(client));
    let asker = Asker { turn: 7, client, home, owner: [&[], owner.as_wire()], orders: &orders, is_beside: false };
    Some(made.explain(&asker))
}

/// The numbers of members in the order of the candidates, with the records of the answer that count for them.
fn answered(told: &Explained) -> Vec<(u16, Option<u32>)> {
    told.candidates.iter().map(|one| (one.member.unwrap(), one.answered)).collect()
}

#[test]
fn the_end_of_an_answer_is_told_with_what_counts() {
    let mut world = World::of([2, 4, 3, 0], Prefer::Nearest, 3);
    world.held.insert((2, 6));
    world.stale[1] = true;
    let told = explain(&world, rtype::A, Some(2), 0).unwrap();
    assert_eq!(told.order, Order::Nearest);
    assert_eq!(answered(&told), [(2, Some(3)), (0, Some(2)), (1, Some(0))]);
    assert_eq!(told.reach, Some(Reach { wanted: 3, counted: 4 }));
    let [home, next, stale] = &told.candidates[..] else { panic!() };
    assert_eq!((home.records, home.held, home.counted, home.is_reached), (3, 1, 2, true));
    assert_eq!((next.records, next.is_reached, stale.is_reached), (2, true, false));
    assert!(matches!(&told.chosen, Chosen::Turning(records) if records.len() == 5));
    // Too few everywhere: then the answer has all.
    world.steering.at_least = 20;
    let told = explain(&world, rtype::A, Some(2), 0).unwrap();
    assert_eq!(told.reach, Some(Reach { wanted: 9, counted: 8 }));
    assert!(told.candidates.iter().all(|one| one.is_reached));
}

#[test]
fn weights_make_no_prophecy() {
    let world = World { weights: vec![3, 1, 1, 1], ..World::of([1, 1, 0, 1], Prefer::Nearest, 1) };
    let told = explain(&world, rtype::A, None, 1).unwrap();
    assert_eq!((told.order, told.reach, &told.chosen), (Order::Drawn, None, &Chosen::Changing));
    assert!(told.candidates.iter().all(|one| one.answered.is_none()));
    let all = World { steering: Steering { prefer: Prefer::Order, ..world.steering }, ..world };
    assert!(matches!(explain(&all, rtype::A, None, 1).unwrap().chosen, Chosen::Turning(records) if records.len() == 3));
}

#[test]
fn what_is_kept_from_a_client_is_told() {
    let mut world = World::of([2, 2, 0, 0], Prefer::Nearest, 1);
    world.private.insert((0, 1));
    world.shares[1] = 99;
    let told = explain(&world, rtype::A, Some(1), 0).unwrap();
    let [home, other] = &told.candidates[..] else { panic!() };
    assert_eq!((home.share, home.is_drained, home.is_reached, home.answered), (99, true, false, Some(0)));
    assert_eq!((other.withheld, other.is_reached, other.answered), (1, true, Some(1)));
    assert!(!told.has_no_shares && !told.has_no_home_only);
    world.private.insert((0, 0));
    let told = explain(&world, rtype::A, Some(1), 0).unwrap();
    assert!(told.has_no_shares && !told.has_no_home_only, "its own records are better than others' private ones");
    world.private.extend([(1, 2), (1, 3)]);
    world.steering.prefer = Prefer::Off;
    assert!(explain(&world, rtype::A, None, 0).unwrap().has_no_home_only);
}

proptest! {
    /// An explanation says what answers have, whoever asks and how often.
    #[test]
    fn explanations_agree_with_answers(
        world in arbitrary_world(),
        home in prop::option::of(0..=MEMBERS as u16),
        client: u32,
        turns in prop::collection::vec(any::<u32>(), 4),
        kind in prop::sample::select(vec![rtype::A, rtype::SRV]),
    ) {
        let Some(told) = explain(&world, kind, home, client) else { return Ok(()) };
        let set = set_of(&world, kind);
        let offsets: Vec<u32> = set.as_set().with_offsets().map(|(offset, _)| offset).collect();
        let number = |picked: &Picked| (offsets.binary_search(&picked.offset).unwrap() as u32, picked.priority);
        let reached: BTreeSet<u16> =
            told.candidates.iter().filter(|one| one.is_reached).filter_map(|one| one.member).collect();
        prop_assert!(told.candidates.iter().all(|one| usize::from(one.member.unwrap_or_default()) < members().len()));
        for turn in turns {
            let answer = ask(&world, kind, home, client, turn);
            prop_assert_eq!(answer.is_none(), told.chosen == Chosen::Whole);
            let answer = answer.unwrap_or_default();
            let sorted = |mut all: Vec<(u32, Option<u16>)>| { all.sort_unstable(); all };
            match &told.chosen {
                Chosen::Fixed(records) => prop_assert_eq!(&answer, &records.iter().map(number).collect::<Vec<_>>()),
                Chosen::Turning(records) => {
                    prop_assert_eq!(sorted(answer.clone()), sorted(records.iter().map(number).collect()));
                }
                Chosen::Whole | Chosen::Changing => {}
            }
            let counts: Option<Vec<u32>> = told.candidates.iter().map(|one| one.answered).collect();
            if let Some(counts) = counts.filter(|counts| !counts.is_empty() && told.chosen != Chosen::Whole) {
                prop_assert_eq!(counts.iter().sum::<u32>(), answer.len() as u32);
            }
            if kind == rtype::A && !told.candidates.is_empty() && told.chosen != Chosen::Whole {
                let is_of_reached = |(number, _): &(u32, Option<u16>)| {
                    let givers = &world.givers[*number as usize];
                    givers.is_empty() || !givers.is_disjoint(&reached) || told.order == Order::Drawn
                };
                prop_assert!(answer.iter().all(is_of_reached), "{:?} of {:?}", answer, reached);
            }
            if told.order == Order::Nearest && kind == rtype::A {
                // The nearest reached member that gives a record is the one for which it counts.
                for one in &told.candidates {
                    let counts = |number: u32| {
                        let givers = &world.givers[number as usize];
                        let mut order = told.candidates.iter().filter(|other| other.is_reached).filter_map(|one| one.member);
                        match one.member {
                            Some(member) => order.find(|other| givers.contains(other)) == Some(member),
                            None => givers.is_empty(),
                        }
                    };
                    let is_whole = world.private.is_empty();
                    let count = answer.iter().filter(|(number, _)| counts(*number)).count() as u32;
                    prop_assert!(!is_whole || one.answered == Some(count), "{:?} {} {:?}", one, count, answer);
                }
            }
        }
    }
}
