//! Properties of the books: random transfers of random zones, asked in any order.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

const BUDGET: u64 = 10_000;

fn name(index: usize) -> Name {
    Name::parse(&format!("z{index}.example")).unwrap()
}

fn ledger(weights: &[u64]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.configure(BUDGET, weights.iter().enumerate().map(|(index, weight)| (name(index), *weight)));
    ledger
}

/// Returns true if a transfer may begin now.
fn is_turn(ledger: &mut Ledger, id: u64) -> bool {
    ledger.turn(id, false) == Some(Verdict::Granted)
}

/// The next event.
#[derive(Clone, Debug)]
enum Event {
    Begin(usize, Manner),
    /// The transfer of a number wants so much more.
    Grow(usize, u64),
    /// It is published as it is, and the version before is read for a while.
    Publish(usize),
    Fail(usize),
    /// A reader lets an old version go.
    Forget,
    History(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..6usize, prop_oneof![Just(Manner::Change), Just(Manner::ChangeInTurn), Just(Manner::Replace)]).prop_map(|(zone, manner)| Event::Begin(zone, manner)),
        6 => (0..16usize, 1..2000u64).prop_map(|(transfer, more)| Event::Grow(transfer, more)),
        3 => (0..16usize).prop_map(Event::Publish),
        2 => (0..16usize).prop_map(Event::Fail),
        2 => Just(Event::Forget),
        1 => (0..BUDGET).prop_map(Event::History),
    ]
}

/// A transfer as its task sees it.
struct Running {
    id: u64,
    zone: usize,
    manner: Manner,
    has_turn: bool,
    octets: u64,
}

/// The world around the books.
struct World {
    ledger: Ledger,
    weights: Vec<u64>,
    published: Vec<u64>,
    running: Vec<Running>,
    readers: Vec<Arc<u64>>,
}

impl World {
    fn new(weights: &[u64]) -> World {
        let published = vec![0; weights.len()];
        World {
            ledger: ledger(weights),
            weights: weights.to_vec(),
            published,
            running: Vec::new(),
            readers: Vec::new(),
        }
    }

    fn happen(&mut self, event: &Event) {
        let zones = self.weights.len();
        match *event {
            Event::Begin(zone, manner) => {
                let zone = zone % zones;
                // A task has one transfer at a time.
                if self.running.iter().all(|running| running.zone != zone) {
                    let id = self.ledger.begin(&name(zone), manner);
                    self.running.push(Running { id, zone, manner, has_turn: manner == Manner::Change, octets: 0 });
                }
            }
            Event::Grow(index, more) => self.grow(index, more),
            Event::Publish(index) if index < self.running.len() && self.running[index].has_turn => {
                let Running { id, zone, manner, octets, .. } = self.running.swap_remove(index);
                let version = if manner == Manner::Change { self.published[zone] + octets } else { octets };
                self.published[zone] = version;
                self.ledger.publish(&name(zone), version);
                let old = Arc::new(id);
                let weak: Weak<u64> = Arc::downgrade(&old);
                self.readers.push(old);
                self.ledger.end(id, Some(weak));
            }
            Event::Fail(index) if index < self.running.len() => {
                let running = self.running.swap_remove(index);
                self.ledger.end(running.id, None);
            }
            Event::Forget => drop(self.readers.pop()),
            // What the keeper does in each batch.
            Event::History(octets) => {
                let room = self.ledger.room_for_histories();
                self.ledger.set_histories(octets.min(room));
            }
            _ => {}
        }
    }

    fn grow(&mut self, index: usize, more: u64) {
        let Some(running) = self.running.get_mut(index) else { return };
        running.has_turn = running.has_turn || is_turn(&mut self.ledger, running.id);
        if !running.has_turn {
            return;
        }
        let (wanted, id) = (running.octets + more, running.id);
        let published = self.published[running.zone];
        let in_floor = {
            // Old and new version together.
            let new = if running.manner == Manner::Change { wanted } else { wanted.max(published) };
            (published + new) * self.weights[running.zone] <= self.ledger.floor
        };
        match self.ledger.grow(id, wanted, 0) {
            Verdict::Granted => running.octets = wanted,
            Verdict::Wait if in_floor => {
                // Nothing but histories and versions that are still read can be in its way, and they go.
                self.readers.clear();
                let room = self.ledger.room_for_histories();
                let fewer = self.ledger.histories.min(room);
                self.ledger.set_histories(fewer);
                assert_eq!(self.ledger.grow(id, wanted, 0), Verdict::Granted, "the floor is reached");
                running.octets = wanted;
            }
            Verdict::Wait => {
                let gives_way = |running: &Running| self.ledger.refusal(running.id).is_some();
                let is_obstructed = self.ledger.wanted > 0 || !self.readers.is_empty();
                assert!(is_obstructed || self.running.iter().any(gives_way), "somebody gives way");
            }
            Verdict::Refused(excess) => {
                assert!(!in_floor, "{excess:?}");
                let running = self.running.swap_remove(index);
                self.ledger.end(running.id, None);
            }
        }
        self.end_refused();
    }

    /// Those that have to give way do.
    fn end_refused(&mut self) {
        let World { ledger, running, .. } = self;
        running.retain(|running| {
            let is_refused = ledger.refusal(running.id).is_some();
            if is_refused {
                ledger.end(running.id, None);
            }
            !is_refused
        });
    }

    /// Octets that are there: versions, transfers, old versions, histories.
    fn check(&mut self) {
        let running: u64 = self.running.iter().map(|running| running.octets * self.weights[running.zone]).sum();
        let published: u64 = self.published.iter().zip(&self.weights).map(|(version, weight)| version * weight).sum();
        let usage = self.ledger.usage();
        assert!(published + running <= usage.zones + usage.transfers, "all is accounted: {usage:?}");
        assert!(usage.zones + usage.transfers + usage.histories <= BUDGET, "{usage:?}");
        assert!(self.ledger.fits());
        assert_eq!(usage.zones, published);
        // The sums are those of the accounts.
        let sum = |of: &dyn Fn(&Account) -> u64| self.ledger.zones.values().map(of).sum::<u64>();
        assert_eq!(self.ledger.sums.filled, sum(&Account::used));
        assert_eq!(self.ledger.sums.used, sum(&|account| account.used().max(self.ledger.floor)));
        assert_eq!(self.ledger.sums.steady, sum(&|account| account.steady().max(self.ledger.floor)));
        assert_eq!(self.ledger.sums.claims.values().sum::<usize>(), self.ledger.zones.len());
    }

    /// Lets everybody in line come to an end, one after the other.
    fn settle(&mut self) {
        self.readers.clear();
        for _ in 0..100 * (1 + self.running.len()) {
            if self.running.is_empty() {
                break;
            }
            let room = self.ledger.room_for_histories();
            let fewer = self.ledger.histories.min(room);
            self.ledger.set_histories(fewer);
            // Whoever is not in line ends some time, because transfers have clocks.
            let ready =
                self.running.iter().position(|running| running.has_turn || is_turn(&mut self.ledger, running.id));
            match ready {
                Some(index) => self.ledger.end(self.running.swap_remove(index).id, None),
                None => assert!(self.ledger.wanted > 0, "somebody can go on, or histories have to go"),
            }
        }
        assert!(self.running.is_empty() && self.ledger.line.is_empty());
        assert_eq!(self.ledger.usage().transfers, 0, "all was given back");
        assert!(self.ledger.transfers.is_empty());
    }
}

proptest! {
    #[test]
    fn books_are_never_over_and_everybody_comes_to_an_end(
        weights in prop::collection::vec(1..4u64, 1..6),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut world = World::new(&weights);
        for event in &events {
            world.happen(event);
            world.check();
        }
        world.settle();
        world.check();
    }

    /// However large others have become.
    #[test]
    fn every_zone_reaches_its_floor(zones in 1..50usize, hog in 1..BUDGET) {
        let mut ledger = ledger(&vec![1; zones]);
        let floor = BUDGET / (2 * zones as u64);
        let id = ledger.begin(&name(0), Manner::Replace);
        assert!(is_turn(&mut ledger, id));
        let mut octets = 0;
        while octets < hog && ledger.grow(id, octets + 100, 0) == Verdict::Granted {
            octets += 100;
        }
        prop_assert!(octets + 100 > floor || octets >= hog);
        ledger.publish(&name(0), octets);
        ledger.end(id, None);
        for zone in 1..zones {
            let id = ledger.begin(&name(zone), Manner::Replace);
            prop_assert!(is_turn(&mut ledger, id));
            prop_assert_eq!(ledger.grow(id, floor, 0), Verdict::Granted);
            ledger.publish(&name(zone), floor);
            ledger.end(id, None);
        }
        // And then each can be replaced.
        for zone in 0..zones {
            let id = ledger.begin(&name(zone), Manner::Replace);
            prop_assert!(is_turn(&mut ledger, id));
            let octets = ledger.zones[&name(zone)].version;
            prop_assert_eq!(ledger.grow(id, octets, 0), Verdict::Granted);
            ledger.end(id, None);
        }
    }

    /// Whatever was loaded from disk, and whatever others never let go: readers of old versions, a disk that hangs, and
    /// transfers within their floors.
    #[test]
    fn nothing_waits_for_ever(
        zones in prop::collection::vec((0..BUDGET, 1..4u64), 2..8),
        (buffered, read, histories) in (0..2 * BUDGET, 0..2 * BUDGET, 0..BUDGET),
    ) {
        let weights: Vec<u64> = zones.iter().map(|(_, weight)| *weight).collect();
        let mut ledger = ledger(&weights);
        let buffers = Buffers::default();
        ledger.set_buffers(buffers.clone());
        let _hung = buffers.hold(buffered as usize);
        let version = Arc::new(0u64);
        let reader: Weak<u64> = Arc::downgrade(&version);
        ledger.leaving.push(Leaving { octets: read, version: reader });
        let floor = ledger.floor;
        let (busy, others) = zones.split_last().unwrap();
        let busy_octets = busy.0.min(floor / (2 * busy.1));
        ledger.publish(&name(others.len()), busy_octets);
        others.iter().enumerate().for_each(|(zone, (octets, _))| ledger.publish(&name(zone), *octets));
        ledger.set_histories(histories);
        let within = ledger.begin(&name(others.len()), Manner::Replace);
        prop_assert_eq!(ledger.turn(within, true), Some(Verdict::Granted));
        prop_assert_eq!(ledger.insist(within, busy_octets, 0), Ok(()));
        for (zone, (octets, weight)) in others.iter().enumerate() {
            // What gets no larger always gets through.
            let id = ledger.begin(&name(zone), Manner::ChangeInTurn);
            prop_assert_eq!(ledger.turn(id, true), Some(Verdict::Granted));
            prop_assert_eq!(ledger.grow(id, *octets, 0), Verdict::Granted);
            ledger.end(id, None);
            let id = ledger.begin(&name(zone), Manner::Replace);
            let verdict = ledger.turn(id, true);
            prop_assert!(matches!(verdict, Some(Verdict::Granted | Verdict::Refused(_))), "{:?}", verdict);
            ledger.end(id, None);
            // The floor is reached.
            let id = ledger.begin(&name(zone), Manner::Change);
            prop_assert_eq!(ledger.insist(id, floor.saturating_sub(octets * weight) / weight, 0), Ok(()));
            ledger.end(id, None);
        }
    }
}

#[test]
fn the_growth_furthest_over_its_share_gives_way() {
    let mut ledger = ledger(&[1; 5]);
    let [large, small, third] = [0, 1, 2].map(|zone| ledger.begin(&name(zone), Manner::Replace));
    [large, small, third].into_iter().for_each(|id| assert!(is_turn(&mut ledger, id)));
    let mut octets = 0;
    while ledger.grow(large, octets + 1, 0) == Verdict::Granted {
        octets += 1;
    }
    // Four others have floors of a thousand; half of what is left is for its replacement.
    assert_eq!(octets, 3000);
    assert!(ledger.refusal(large).is_some(), "nobody was further over");
    ledger.end(large, None);
    let large = ledger.begin(&name(0), Manner::Replace);
    assert!(is_turn(&mut ledger, large));
    assert_eq!(ledger.grow(large, 2900, 0), Verdict::Granted);
    assert_eq!(ledger.grow(small, 1000, 0), Verdict::Granted, "its floor");
    assert_eq!(ledger.grow(small, 1500, 0), Verdict::Wait);
    assert_eq!(ledger.refusal(large).map(|excess| (excess.octets, excess.share)), Some((2900, 1000)));
    assert_eq!((ledger.refusal(small), ledger.refusal(third)), (None, None));
    assert!(matches!(ledger.grow(large, 2901, 0), Verdict::Refused(_)));
    ledger.end(large, None);
    assert_eq!(ledger.grow(small, 1500, 0), Verdict::Granted);
    // What is published stays.
    ledger.publish(&name(1), 2900);
    ledger.end(small, None);
    assert!(matches!(ledger.grow(third, 2900, 0), Verdict::Refused(_)));
}

#[test]
fn replacements_wait_for_each_other_and_small_ones_do_not() {
    let mut ledger = ledger(&[1; 4]);
    // Floors of 1,250 and a reserve of 1,800; 200 are free.
    [(0, 1800), (1, 1800), (2, 1800), (3, 600)]
        .into_iter()
        .for_each(|(zone, octets)| ledger.publish(&name(zone), octets));
    let [first, second, third, small] = [0, 1, 2, 3].map(|zone| ledger.begin(&name(zone), Manner::Replace));
    assert!(!is_turn(&mut ledger, second), "not before the first");
    assert!(is_turn(&mut ledger, first) && !is_turn(&mut ledger, second) && !is_turn(&mut ledger, third));
    assert!(is_turn(&mut ledger, small), "both versions fit within its floor");
    assert_eq!(ledger.grow(first, 1800, 0), Verdict::Granted);
    let old = Arc::new(0u64);
    let weak: Weak<u64> = Arc::downgrade(&old);
    ledger.end(first, Some(weak));
    assert!(!is_turn(&mut ledger, third));
    drop(old);
    ledger.end(second, None);
    assert!(is_turn(&mut ledger, third), "whoever leaves the line is not waited for");
}

#[test]
fn what_nobody_transfers_counts_and_what_waits_for_the_disk_is_waited_for() {
    let mut ledger = ledger(&[1, 1]);
    let buffers = Buffers::default();
    ledger.set_buffers(buffers.clone());
    // Floors of 2,500; without anything else one zone may take 5,000 and be replaced.
    let id = ledger.begin(&name(0), Manner::Change);
    assert_eq!(ledger.grow(id, 3750, 0), Verdict::Granted);
    assert!(matches!(ledger.grow(id, 3751, 0), Verdict::Refused(_)));
    ledger.end(id, None);
    ledger.set_kept(Kept { pinned: 850, catalog: 100, answers: 50 });
    let id = ledger.begin(&name(0), Manner::Change);
    assert_eq!(ledger.grow(id, 3250, 0), Verdict::Granted);
    let held = buffers.hold(5751);
    assert_eq!(ledger.grow(id, 3251, 0), Verdict::Refused(Excess { octets: 3251, share: 2500, budget: BUDGET }));
    ledger.end(id, None);
    let id = ledger.begin(&name(0), Manner::Change);
    assert_eq!(ledger.grow(id, 3250, 0), Verdict::Wait, "until the disk has it");
    let Usage { transfers, pinned, catalog, answers, disk, .. } = ledger.usage();
    assert_eq!((transfers, pinned, catalog, answers, disk), (0, 850, 100, 50, 5751));
    assert_eq!(ledger.usage().octets(), 6751);
    assert_eq!(ledger.room_for_histories(), 2500);
    drop(held);
    assert_eq!(ledger.grow(id, 3250, 0), Verdict::Granted);
    ledger.end(id, None);
    ledger.set_kept(Kept { pinned: 2 * BUDGET, ..Kept::default() });
    let id = ledger.begin(&name(0), Manner::Change);
    assert_eq!(ledger.grow(id, 2500, 0), Verdict::Granted, "its floor, whatever is kept");
    assert_eq!(ledger.room_for_histories(), 0);
}

#[test]
fn what_a_source_keeps_beside_its_zone_counts_once() {
    let mut ledger = ledger(&[3]);
    ledger.publish(&name(0), 300);
    ledger.set_beside(&name(0), 1000);
    assert_eq!(ledger.usage().zones, 1900);
    let id = ledger.begin(&name(0), Manner::Replace);
    assert!(is_turn(&mut ledger, id));
    assert_eq!(ledger.usage().transfers, 1900);
    assert_eq!(ledger.grow(id, 1000, 2000), Verdict::Granted);
    assert_eq!(ledger.usage().transfers, 5000);
    assert!(matches!(ledger.grow(id, 1000, 2001), Verdict::Refused(_)));
    ledger.end(id, None);
    ledger.configure(BUDGET, [(name(0), 1)]);
    assert_eq!(ledger.usage().zones, 1300);
}

#[test]
fn what_comes_from_disk_is_never_refused_but_counts() {
    let mut ledger = ledger(&[1, 2]);
    ledger.publish(&name(0), 3 * BUDGET);
    assert_eq!(ledger.usage().zones, 3 * BUDGET);
    let id = ledger.begin(&name(1), Manner::Change);
    assert_eq!(ledger.grow(id, 1250, 0), Verdict::Granted, "its floor, once for itself and once for a region");
    assert!(matches!(ledger.grow(id, 1251, 0), Verdict::Refused(_)));
    ledger.end(id, None);
    // One that is too large can be replaced by one that is not larger.
    let id = ledger.begin(&name(0), Manner::Replace);
    assert!(is_turn(&mut ledger, id));
    assert_eq!(ledger.grow(id, 3 * BUDGET, 0), Verdict::Granted);
    assert!(matches!(ledger.grow(id, 3 * BUDGET + 1, 0), Verdict::Refused(_)));
    ledger.end(id, None);
    // Another plan knows what is there.
    ledger.configure(2 * BUDGET, [(name(0), 1), (name(2), 1)]);
    assert_eq!((ledger.usage().zones, ledger.floor), (3 * BUDGET, BUDGET / 2));
}

#[test]
fn a_change_takes_the_turn_that_a_replacement_would_have() {
    let mut ledger = Ledger::default();
    ledger.configure(6000, [(name(0), 1), (name(1), 1)]);
    [0, 1].into_iter().for_each(|zone| ledger.publish(&name(zone), 2000));
    let id = ledger.begin(&name(0), Manner::Change);
    assert!(matches!(ledger.grow(id, 10, 0), Verdict::Refused(_)));
    ledger.end(id, None);
    let id = ledger.begin(&name(0), Manner::ChangeInTurn);
    assert!(is_turn(&mut ledger, id));
    assert_eq!(ledger.grow(id, 10, 0), Verdict::Granted, "what it holds in between");
    assert_eq!(ledger.grow(id, 2000, 0), Verdict::Granted, "what comes of it");
    assert!(matches!(ledger.grow(id, 2010, 0), Verdict::Refused(_)), "growth");
}
