//! Laws of steered answers, against what they say word by word.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// What a test knows of a set: for each record its givers, whether each of them holds it only, and who gets it.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// By record: the members that give it.
    pub givers: Vec<BTreeSet<u16>>,
    /// Records that a member holds, and that only its clients get.
    pub held: BTreeSet<(u16, u32)>,
    pub private: BTreeSet<(u16, u32)>,
    pub shares: Vec<u8>,
    pub steering: Steering,
    pub law: Law,
    pub stale: Vec<bool>,
    pub weights: Vec<u32>,
}

pub(super) const MEMBERS: usize = 4;

pub(super) fn members() -> Vec<Name> {
    (1..=MEMBERS).map(|number| Name::parse(&format!("w{number}.x")).unwrap()).collect()
}

impl World {
    /// A set in which every member gives records of its own.
    pub fn of(counts: [u32; MEMBERS], prefer: Prefer, at_least: u16) -> World {
        let each = |(member, count): (u16, u32)| (0..count).map(move |_| BTreeSet::from([member]));
        World {
            givers: (0..).zip(counts).flat_map(each).collect(),
            held: BTreeSet::new(),
            private: BTreeSet::new(),
            shares: vec![0; MEMBERS],
            steering: Steering { prefer, at_least, services: Services::Select },
            law: Law::ALL,
            stale: vec![false; MEMBERS],
            weights: Vec::new(),
        }
    }

    pub fn given(&self) -> Vec<Given> {
        let of = |member: u16| Given {
            records: (0..).zip(&self.givers).filter(|(_, givers)| givers.contains(&member)).map(|(n, _)| n).collect(),
            held: self.held.iter().filter(|(of, _)| *of == member).map(|(_, record)| *record).collect(),
            private: self.private.iter().filter(|(of, _)| *of == member).map(|(_, record)| *record).collect(),
            share: self.shares[usize::from(member)],
            is_lately: false,
        };
        (0..MEMBERS as u16).map(of).collect()
    }

    pub fn orders(&self) -> Orders {
        let weights: Vec<(Name, u32)> = members().into_iter().zip(self.weights.iter().copied()).collect();
        let homes = [members(), vec![Name::parse("elsewhere").unwrap()]].concat();
        let plan = OrdersPlan { homes: &homes, members: &members(), near: &[], weights: &weights, stale: &self.stale };
        Orders::new(&plan, None)
    }

    /// Members, the nearest first.
    fn order(&self, home: u16) -> Vec<u16> {
        let mut order = vec![home];
        order.extend((0..MEMBERS as u16).filter(|member| *member != home));
        let all_stale = self.stale.iter().all(|stale| *stale);
        order.sort_by_key(|member| !all_stale && self.stale[usize::from(*member)]);
        order
    }

    /// The records that a client may have: none of members that it is drained of, none that are for others' homes,
    /// unless nothing is left.
    fn allowed(&self, home: Option<u16>, client: Client) -> Vec<BTreeSet<u16>> {
        let owner = owner();
        let is_shut = |member: u16| {
            let name = &members()[usize::from(member)];
            let share = self.shares[usize::from(member)];
            share > 0 && client.percentile(&[&[], owner.as_wire()], name.as_wire()) < share
        };
        let take = |with_shares: bool, with_private: bool| -> Vec<BTreeSet<u16>> {
            let one = |(record, givers): (u32, &BTreeSet<u16>)| {
                let is_allowed = |member: &&u16| {
                    let is_home = home == Some(**member) || !self.private.contains(&(**member, record));
                    !(with_shares && is_shut(**member)) && (!with_private || is_home)
                };
                givers.iter().filter(is_allowed).copied().collect()
            };
            (0..).zip(&self.givers).map(one).collect()
        };
        let has_any = |allowed: &Vec<BTreeSet<u16>>| {
            allowed.iter().zip(&self.givers).any(|(allowed, givers)| !allowed.is_empty() || givers.is_empty())
        };
        let rules = [(true, true), (false, true), (false, false)];
        rules.into_iter().map(|(shares, private)| take(shares, private)).find(has_any).unwrap()
    }
}

pub(super) fn set_of(world: &World, kind: u16) -> RRset {
    let target = Name::parse("t.x").unwrap();
    let rdata = |number: u32| match kind {
        rtype::SRV => {
            // As many priorities as there are remainders.
            [&(number as u16 % 3).to_be_bytes()[..], &[0, 0], &(number as u16).to_be_bytes(), target.as_wire()].concat()
        }
        _ => (0x0a00_0000 + number).to_be_bytes().to_vec(),
    };
    RRset::build(kind, 30, (0..world.givers.len() as u32).map(rdata).collect()).unwrap()
}

/// The numbers of the records of an answer, with the priorities that they get, in order.
pub(super) fn ask(
    world: &World,
    kind: u16,
    home: Option<u16>,
    client: u32,
    turn: u32,
) -> Option<Vec<(u32, Option<u16>)>> {
    let set = set_of(world, kind);
    let treatment = Treatment { law: world.law, steering: world.steering };
    let made = Selection::new(owner().as_wire(), set.as_set(), treatment, &world.given())?;
    let (owner, orders, client) = (owner(), world.orders(), client_of(client));
    let asker = Asker { turn, client, home, owner: [&[], owner.as_wire()], orders: &orders, is_beside: false };
    let window = made.window(&asker);
    if matches!(window, Window::Whole) {
        return None;
    }
    let offsets: Vec<u32> = set.as_set().with_offsets().map(|(offset, _)| offset).collect();
    let number = |offset: u32| offsets.binary_search(&offset).unwrap() as u32;
    Some(window.map(|picked| (number(picked.offset), picked.priority)).collect())
}

pub(super) fn client_of(number: u32) -> Client {
    Client::from_source(IpAddr::V4(Ipv4Addr::from(number)))
}

fn numbers(world: &World, home: u16) -> Vec<u32> {
    ask(world, rtype::A, Some(home), 7, 3 << 30).unwrap().into_iter().map(|(number, _)| number).collect()
}

#[test]
fn the_nearest_alone_unless_it_has_too_little() {
    let sorted = |mut all: Vec<u32>| {
        all.sort_unstable();
        all
    };
    let world = World::of([2, 1, 0, 3], Prefer::Nearest, 1);
    assert_eq!(sorted(numbers(&world, 0)), [0, 1]);
    assert_eq!(numbers(&world, 1), [2]);
    assert_eq!(sorted(numbers(&world, 2)), [0, 1], "the next gives it");
    assert_eq!(sorted(numbers(&World { stale: vec![true, false, false, false], ..world.clone() }, 0)), [2]);
    let world = World::of([2, 1, 0, 3], Prefer::Nearest, 3);
    assert_eq!(numbers(&world, 1)[0], 2, "home first");
    assert_eq!(sorted(numbers(&world, 1)), [0, 1, 2]);
    assert_eq!(sorted(numbers(&world, 0)), [0, 1, 2]);
    let held = World { held: BTreeSet::from([(0, 0)]), ..World::of([2, 1, 0, 3], Prefer::Nearest, 2) };
    assert_eq!(sorted(numbers(&held, 0)), [0, 1, 2], "what is held does not count");
    let all = World::of([2, 1, 0, 3], Prefer::Order, 1);
    assert_eq!(numbers(&all, 3).len(), 6);
    assert_eq!(sorted(numbers(&all, 3)[..3].to_vec()), [3, 4, 5]);
}

#[test]
fn a_record_of_several_members_counts_for_the_nearest() {
    let mut world = World::of([2, 2, 0, 0], Prefer::Order, 1);
    world.givers[0].insert(1);
    let order = numbers(&world, 1);
    assert_eq!(order.len(), 4, "and comes once");
    assert_eq!(order.iter().position(|number| *number == 1), Some(3), "{order:?}");
    world.steering = Steering { prefer: Prefer::Nearest, at_least: 3, ..world.steering };
    assert_eq!(numbers(&world, 1).len(), 3);
    assert!(!numbers(&world, 1).contains(&1));
    world.givers.push(BTreeSet::new());
    world.steering.prefer = Prefer::Order;
    assert_eq!(numbers(&world, 0)[4], 4, "what nobody gives comes last");
}

/// Behind a pin, what was for clients at home is for nobody once nobody gives it.
#[test]
fn addresses_that_nobody_gives_stay_at_home() {
    let mut world = World::of([1, 1, 0, 0], Prefer::Order, 1);
    world.givers.push(BTreeSet::new());
    assert_eq!(numbers(&world, 0), [0, 1, 2]);
    world.private = BTreeSet::from([(0, 2), (3, 2)]);
    assert_eq!((numbers(&world, 0), numbers(&world, 1)), (vec![0, 1], vec![1, 0]));
    world.givers[..2].iter_mut().for_each(BTreeSet::clear);
    assert_eq!(numbers(&world, 0).len(), 2, "something else that nobody gives");
    world.private = (0..3).map(|record| (0, record)).collect();
    assert_eq!(numbers(&world, 0).len(), 3, "nothing else is there");
}

#[test]
fn services_fail_over_by_priorities() {
    let mut world = World::of([3, 3, 3, 0], Prefer::Nearest, 1);
    world.steering.services = Services::Priority;
    world.law = Law { max: NonZeroU32::new(8), pick: Pick::Rotate };
    let told: BTreeSet<(u32, Option<u16>)> = ask(&world, rtype::SRV, Some(1), 0, 0).unwrap().into_iter().collect();
    assert_eq!(told.len(), 8);
    for (number, priority) in &told {
        // The set is sorted by priority: members of records are those of their numbers in the set.
        let member = world.givers[*number as usize].first().unwrap();
        let rank = world.order(1).iter().position(|other| other == member).unwrap() as u16;
        assert_eq!(priority.unwrap() / 1000, rank, "{number}");
    }
    // Home has at most N − ⌈N/4⌉ places while others have records.
    let mut much = World {
        law: Law { max: NonZeroU32::new(8), pick: Pick::Client },
        ..World::of([30, 1, 1, 0], Prefer::Order, 1)
    };
    much.steering.services = Services::Priority;
    let at_home = |world: &World| {
        let answer = ask(world, rtype::SRV, Some(0), 0, 0).unwrap();
        assert_eq!(answer.iter().map(|(number, _)| number).collect::<BTreeSet<_>>().len(), 8);
        answer.iter().filter(|(_, priority)| priority.unwrap() < 1000).count()
    };
    assert_eq!(at_home(&much), 6);
    much.givers.truncate(31);
    assert_eq!(at_home(&much), 7, "what others leave");
    much.givers.truncate(30);
    assert_eq!(ask(&much, rtype::SRV, Some(0), 0, 0).unwrap().len(), 8, "and all of it where nobody else has any");
}

#[test]
fn weights_draw_members_for_clients_without_a_home() {
    let mut world = World::of([1, 1, 0, 1], Prefer::Nearest, 1);
    world.weights = vec![3, 1, 5, 0];
    let mut times = [0u32; 3];
    for turn in (0..10_000u32).map(|turn| turn.wrapping_mul(0x9e37_79b1)) {
        let answer = ask(&world, rtype::A, None, 1, turn).unwrap();
        assert_eq!(answer.len(), 1);
        times[answer[0].0 as usize] += 1;
    }
    assert!((7125..=7875).contains(&times[0]) && (2375..=2625).contains(&times[1]), "{times:?}");
    assert_eq!(times[2], 0, "weight 0: only where nobody else has any");
    // Behind the one that was drawn, and among those of weight 0, stale members come last.
    let stale = World { stale: vec![true, false, false, false], ..World::of([1, 1, 1, 0], Prefer::Order, 1) };
    for weights in [vec![1, 1, 1, 1], vec![3, 0, 0, 0]] {
        let world = World { weights, ..stale.clone() };
        for turn in (0..100u32).map(|turn| turn.wrapping_mul(0x9e37_79b1)) {
            let answer = ask(&world, rtype::A, None, 1, turn).unwrap();
            assert_eq!((answer.len(), answer[2].0), (3, 0), "{answer:?}");
        }
    }
    let alone = World { weights: vec![0, 0, 5, 0], ..World::of([0, 2, 0, 2], Prefer::Nearest, 1) };
    assert_eq!(ask(&alone, rtype::A, None, 1, 0).unwrap().len(), 2);
}

#[test]
fn records_of_members_that_are_drawn_come_equally_often() {
    for weights in [vec![1, 1, 1, 1], vec![0, 3, 0, 1], vec![0, 0, 5, 5]] {
        for most in [1u32, 3] {
            let world = World {
                weights: weights.clone(),
                law: Law { max: NonZeroU32::new(most), pick: Pick::Rotate },
                ..World::of([8, 8, 0, 0], Prefer::Nearest, 1)
            };
            let mut times: HashMap<u32, u32> = HashMap::new();
            for turn in (0..8000u32).map(|turn| turn.wrapping_mul(0x9e37_79b1)) {
                let answer = ask(&world, rtype::A, None, 1, turn).unwrap();
                answer.iter().for_each(|(number, _)| *times.entry(*number).or_default() += 1);
            }
            let drawn: Vec<u32> =
                (0..2).filter(|member| weights[*member as usize] > 0 || weights[..2] == [0, 0]).collect();
            let expected = f64::from(8000 * most) / (8 * drawn.len()) as f64;
            assert_eq!(times.len(), 8 * drawn.len(), "{weights:?} {most}");
            assert!(
                times.values().all(|times| (f64::from(*times) - expected).abs() <= expected * 0.05 + 3.0),
                "{times:?}"
            );
        }
    }
}

#[test]
fn a_share_only_adds_clients_and_takes_nothing_out_of_the_set() {
    let mut world = World::of([2, 2, 0, 0], Prefer::Nearest, 1);
    let mut before: BTreeSet<u32> = BTreeSet::new();
    for (share, range) in [(1u8, 60..=140), (30, 2800..=3200), (99, 9850..=9950)] {
        world.shares[0] = share;
        let away = |client: &u32| ask(&world, rtype::A, Some(0), client * 7919, 0).unwrap().iter().all(|(n, _)| *n > 1);
        let now: BTreeSet<u32> = (0..10_000).filter(away).collect();
        assert!(range.contains(&now.len()), "{share}: {}", now.len());
        assert!(before.is_subset(&now), "a growing share only adds");
        before = now;
    }
    world.shares = vec![99, 99, 0, 0];
    assert!((0..2000).all(|client| !ask(&world, rtype::A, Some(0), client, 0).unwrap_or(vec![(0, None)]).is_empty()));
    let alone = World { shares: vec![99, 0, 0, 0], ..World::of([3, 0, 0, 0], Prefer::Off, 1) };
    assert_eq!(ask(&alone, rtype::A, None, 0, 0), None, "whoever gives a name alone answers it");
}

#[test]
fn clients_that_a_share_leaves_without_a_member_take_turns_with_the_rest() {
    let mut world = World::of([50, 10, 20, 30], Prefer::Off, 1);
    world.shares[0] = 99;
    for (pick, most) in [(Pick::Rotate, 6u32), (Pick::Rotate, 24), (Pick::Client, 6)] {
        world.law = Law { max: NonZeroU32::new(most), pick };
        let (mut times, mut first): (HashMap<u32, u32>, HashMap<u32, u32>) = Default::default();
        let mut answers = 0;
        for turn in 0..3000u32 {
            let client = if pick == Pick::Client { turn * 7919 } else { 1 };
            if client_of(client).percentile(&[&[], owner().as_wire()], members()[0].as_wire()) == 99 {
                continue;
            }
            answers += 1;
            let answer = ask(&world, rtype::A, None, client, turn.wrapping_mul(0x9e37_79b1)).unwrap();
            assert_eq!(answer.iter().collect::<BTreeSet<_>>().len(), most as usize);
            let of = |member: u16| answer.iter().filter(|(n, _)| world.givers[*n as usize].contains(&member)).count();
            assert_eq!(of(0), 0);
            for (member, size) in [(1, 10), (2, 20), (3, 30)] {
                let share = most as f64 * f64::from(size) / 60.0;
                assert!(pick == Pick::Client && of(member) > 0 || (of(member) as f64 - share).abs() <= 2.0, "{member}");
            }
            *first.entry(answer[0].0).or_default() += 1;
            answer.iter().for_each(|(number, _)| *times.entry(*number).or_default() += 1);
        }
        if pick == Pick::Rotate {
            let expected = f64::from(answers * most) / 60.0;
            assert!(times.values().all(|times| (f64::from(*times) - expected).abs() <= expected * 0.1), "{times:?}");
        }
        assert_eq!(times.len(), 60);
        // None of the members comes first for everyone, nor has nearly all places.
        for (numbers, most) in [(50..60, most), (60..80, most), (80..110, most)] {
            let of = |times: &HashMap<u32, u32>| numbers.clone().filter_map(|number| times.get(&number)).sum::<u32>();
            assert!(of(&first) > answers / 8, "{numbers:?}: {first:?}");
            assert!(of(&times) > answers * most / 8, "{numbers:?}: {times:?}");
        }
    }
}

pub(super) fn arbitrary_world() -> impl Strategy<Value = World> {
    let record = prop::collection::btree_set(0..MEMBERS as u16, 0..3);
    let marks = || prop::collection::btree_set((0..MEMBERS as u16, 0..12u32), 0..6);
    let steering = (
        prop::sample::select(vec![Prefer::Off, Prefer::Order, Prefer::Nearest]),
        1..6u16,
        prop::sample::select(vec![Services::Select, Services::Priority]),
    );
    let steering = steering.prop_map(|(prefer, at_least, services)| Steering { prefer, at_least, services });
    let law = (prop::option::of(1..8u32), prop::sample::select(vec![Pick::Rotate, Pick::Client]));
    let law = law.prop_map(|(max, pick)| Law { max: max.and_then(NonZeroU32::new), pick });
    let shares = prop::collection::vec(prop::sample::select(vec![0, 0, 0, 50, 99]), MEMBERS);
    let stale = prop::collection::vec(prop::bool::weighted(0.2), MEMBERS);
    let weights = prop_oneof![Just(Vec::new()), prop::collection::vec(0..3u32, MEMBERS)];
    let parts = (prop::collection::vec(record, 1..12), marks(), marks(), shares, steering, law, stale, weights);
    parts.prop_map(|(givers, held, private, shares, steering, law, stale, weights)| {
        let of_records = |marks: BTreeSet<(u16, u32)>| {
            let is_given = |(member, record): &(u16, u32)| {
                givers.get(*record as usize).is_some_and(|givers: &BTreeSet<u16>| givers.contains(member))
            };
            marks.into_iter().filter(is_given).collect()
        };
        let (held, private) = (of_records(held), of_records(private));
        World { givers, held, private, shares, steering, law, stale, weights }
    })
}

proptest! {
    /// Answers are what the laws say, whoever asks.
    #[test]
    fn answers_keep_the_laws(
        world in arbitrary_world(),
        home in prop::option::of(0..=MEMBERS as u16),
        client: u32,
        turn: u32,
        kind in prop::sample::select(vec![rtype::A, rtype::SRV]),
    ) {
        let all = world.givers.len() as u32;
        let most = world.law.max.map_or(all, |max| max.get().min(all));
        let Some(answer) = ask(&world, kind, home, client, turn) else { return Ok(()) };
        let home = home.filter(|home| usize::from(*home) < MEMBERS);
        let allowed = world.allowed(home, client_of(client));
        let numbers: Vec<u32> = answer.iter().map(|(number, _)| *number).collect();
        let records: BTreeSet<u32> = numbers.iter().copied().collect();
        prop_assert_eq!(records.len(), numbers.len(), "once each");
        prop_assert!(!records.is_empty() && records.len() <= most as usize);
        // Of SRV sets, the order of the records is another than that of their numbers, so a test knows their members only.
        let may_have = |number: u32| !allowed[number as usize].is_empty() || world.givers[number as usize].is_empty();
        prop_assert!(records.iter().all(|number| may_have(*number)), "{:?} of {:?}", records, allowed);
        let Some(home) = home.filter(|_| world.steering.prefer != Prefer::Off) else { return Ok(()) };
        let order = world.order(home);
        let rank = |number: u32| {
            let of = |member: &u16| order.iter().position(|other| other == member).unwrap();
            allowed[number as usize].iter().map(of).min().unwrap_or(MEMBERS)
        };
        // Whose records one member alone gives to everyone, or nobody, gets the same from all: there is nothing to tell.
        let gives = |givers: &BTreeSet<u16>| if givers.is_empty() { vec![MEMBERS as u16] } else { Vec::from_iter(givers.clone()) };
        let is_alike = world.private.is_empty() && world.givers.iter().flat_map(gives).collect::<BTreeSet<u16>>().len() == 1;
        let is_by_priority = kind == rtype::SRV && world.steering.services == Services::Priority && !is_alike;
        if is_by_priority {
            let told = |number: u32| if rank(number) == MEMBERS { 64 } else { rank(number) as u16 };
            let is_told = answer.iter().all(|(number, priority)| priority.unwrap() / 1000 == told(*number));
            prop_assert!(is_told, "{answer:?}");
            prop_assert_eq!(records.len() as u32, most.min((0..all).filter(|number| may_have(*number)).count() as u32));
            return Ok(());
        }
        prop_assert!(answer.iter().all(|(_, priority)| priority.is_none()));
        // The ranks of which records are taken.
        let is_counted = |number: u32| {
            let held = |member: &u16| world.held.contains(&(*member, number));
            !allowed[number as usize].iter().any(|member| order[rank(number)] == *member && held(member))
        };
        let (mut last, mut found) = (MEMBERS, 0);
        if world.steering.prefer == Prefer::Nearest {
            for at in 0..MEMBERS {
                let here: Vec<u32> = (0..all).filter(|number| may_have(*number) && rank(*number) == at).collect();
                found += here.iter().filter(|number| is_counted(**number)).count();
                if found >= usize::from(world.steering.at_least).min(most as usize) {
                    last = at;
                    break;
                }
            }
        }
        let candidates: BTreeSet<u32> = (0..all).filter(|number| may_have(*number) && rank(*number) <= last).collect();
        if !(world.held.is_empty()) {
            // A held record that a nearer member gives, too, may count or not.
            prop_assert!(records.len() >= usize::from(world.steering.at_least).min(most as usize).min(candidates.len()).min(1));
            return Ok(());
        }
        prop_assert!(records.is_subset(&candidates), "{:?} of {:?}", records, candidates);
        prop_assert_eq!(records.len(), candidates.len().min(most as usize));
        if kind == rtype::A {
            let ranks: Vec<usize> = numbers.iter().map(|number| rank(*number)).collect();
            prop_assert!(ranks.is_sorted(), "the nearest first: {:?}", ranks);
            // Nothing farther as long as something nearer is left out.
            let farthest = ranks.last().copied().unwrap_or_default();
            prop_assert!(candidates.iter().all(|number| rank(*number) >= farthest || records.contains(number)));
        }
    }
}
