//! The state machine by its laws, with members that do whatever they like.

use super::*;
use crate::zone::tests::zone;
use proptest::prelude::*;
use std::collections::HashMap;

/// Time that a serial stays half way.
const PAUSE: Duration = Duration::from_secs(90);

#[test]
fn a_long_way_is_told_from_a_way_back() {
    let some = |serials: &[u32]| serials.iter().map(|serial| Some(Serial(*serial))).collect::<Vec<_>>();
    let far = 1 << 30;
    assert!(is_long_way(&some(&[0, 0]), &some(&[far, far])));
    assert!(!is_long_way(&some(&[0, 0]), &some(&[far, far - 1])), "one step will do");
    assert!(!is_long_way(&some(&[0, 5]), &some(&[far, 4])), "one went back");
    assert!(!is_long_way(&[Some(Serial(0)), None], &some(&[far, far])), "one is new");
    assert!(!is_long_way(&some(&[0; 4]), &some(&[far; 4])), "all around the circle");
}

proptest! {
    #[test]
    fn a_region_serial_always_rises(last: u32, sum: u32) {
        let serial = rise(Serial(last), Serial(sum));
        prop_assert!(serial.newer_than(Serial(last)));
        let drift = serial.0.wrapping_sub(sum);
        prop_assert_eq!(serial, Serial(sum).advance(drift));
    }

    /// After the longest step, the sum that is too far away for one is newer.
    #[test]
    fn a_long_way_is_two_steps(before: Vec<u32>, moves: Vec<u32>) {
        let before: Vec<_> = before.into_iter().map(Serial).collect();
        let after: Vec<_> = before.iter().enumerate()
            .map(|(index, serial)| serial.advance(moves.get(index).map_or(0, |way| way % (1 << 31)))).collect();
        let some = |serials: &[Serial]| serials.iter().copied().map(Some).collect::<Vec<_>>();
        let (last, sum) = (region_sum(0, before.clone()), region_sum(0, after.clone()));
        if is_long_way(&some(&before), &some(&after)) {
            prop_assert!(!sum.newer_than(last));
            let middle = last.advance(LONGEST_STEP);
            prop_assert!(middle.newer_than(last) && sum.newer_than(middle));
        }
    }

    #[test]
    fn the_sum_does_not_depend_on_order(offset: u32, mut members: Vec<u32>) {
        let forward = region_sum(offset, members.iter().map(|s| Serial(*s)));
        members.reverse();
        prop_assert_eq!(forward, region_sum(offset, members.into_iter().map(Serial)));
    }
}

//--- Law ---

/// Contents of a version: the plan, and which versions of the members are there; or those of a pin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contents {
    Merged { plan: u32, members: [Option<u32>; 2] },
    Pinned(Serial),
}

/// Event in the life of a region.
#[derive(Clone, Debug)]
enum Event {
    /// Both members have other versions: how far their serials move.
    Load([u32; 2]),
    /// A member gives nothing for a while, or again what it gave.
    Leave(usize),
    Return(usize),
    /// Another plan, with another offset.
    Plan {
        offset: u32,
    },
    /// Clients see the first version.
    Seen,
    Pin,
    Release,
    /// The pause half way is over.
    Pass,
    /// The program ends and begins again, by the same plan or by another one.
    Restart {
        is_same: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let way =
        || prop::sample::select(vec![0, 0, 1, 2, 1000, 1 << 30, (1 << 30) + 1, i32::MAX as u32, 1 << 31, u32::MAX]);
    prop_oneof![
        6 => [way(), way()].prop_map(Event::Load),
        1 => (0..2_usize).prop_map(Event::Leave),
        2 => (0..2_usize).prop_map(Event::Return),
        1 => prop_oneof![0..8_u32, any::<u32>()].prop_map(|offset| Event::Plan { offset }),
        8 => Just(Event::Seen),
        1 => Just(Event::Pin),
        2 => Just(Event::Release),
        2 => Just(Event::Pass),
        2 => any::<bool>().prop_map(|is_same| Event::Restart { is_same }),
    ]
}

/// A region with its members, and what its clients and its disk know.
struct World {
    serial: RegionSerial,
    now: Instant,
    plan: u32,
    offset: u32,
    /// The newest version of each member with its number, and whether the member gives it.
    members: [(Arc<Zone>, u32, bool); 2],
    made: Option<(Serial, Contents)>,
    shown: Option<(Serial, Contents)>,
    is_pinned: bool,
    /// What is on disk: what clients have seen last, and its drift.
    saved: Option<(Serial, u32, Contents)>,
    known: HashMap<Serial, Contents>,
}

impl World {
    fn new() -> World {
        let member = || (Arc::new(zone("w1.x.", "@ 30 SOA 5")), 0, true);
        let mut world = World {
            serial: RegionSerial::default(),
            now: Instant::now(),
            plan: 0,
            offset: 0,
            members: [member(), member()],
            made: None,
            shown: None,
            is_pinned: false,
            saved: None,
            known: HashMap::new(),
        };
        world.merge();
        world
    }

    fn given(&self) -> [Option<Arc<Zone>>; 2] {
        self.members.each_ref().map(|(zone, _, is_there)| Some(zone.clone()).filter(|_| *is_there))
    }

    fn sum(&self) -> Serial {
        Basis::new(&self.given()).sum(self.offset)
    }

    /// Merges as a region does.
    fn merge(&mut self) {
        let members = self.given();
        if members.iter().all(Option::is_none) {
            self.serial.emptied();
            self.made = None;
            return;
        }
        let numbers = self.members.each_ref().map(|(_, number, is_there)| Some(*number).filter(|_| *is_there));
        let contents = Contents::Merged { plan: self.plan, members: numbers };
        if self.saved.is_none_or(|(.., saved)| saved != contents) && !self.serial.was_served() {
            self.serial.doubted();
        }
        let (basis, sum) = (Basis::new(&members), self.sum());
        let is_other = self.made.is_none_or(|(_, made)| made != contents);
        if let Some(serial) = self.serial.merged(sum, &basis, is_other) {
            self.serial.made(serial, sum, basis, self.now + PAUSE);
            self.made = Some((serial, contents));
        }
    }

    /// Shows clients what is made, and saves it.
    fn show(&mut self) {
        if let (false, Some((serial, contents))) = (self.is_pinned, self.made) {
            self.serial.seen();
            self.shown = self.made;
            self.saved = Some((serial, self.serial.drift(), contents));
        }
    }

    fn suffer(&mut self, event: &Event) {
        match event {
            Event::Load(ways) => {
                for ((zone, number, is_there), way) in self.members.iter_mut().zip(ways) {
                    let serial = zone.soa.serial.advance(*way);
                    *zone = Arc::new(crate::zone::tests::zone("w1.x.", &format!("@ 30 SOA {serial}")));
                    (*number, *is_there) = (*number + 1, true);
                }
            }
            Event::Leave(member) => self.members[*member].2 = false,
            Event::Return(member) => self.members[*member].2 = true,
            Event::Plan { offset } => {
                (self.plan, self.offset) = (self.plan + 1, *offset);
                self.serial.doubted();
            }
            Event::Seen => return self.show(),
            Event::Pin => {
                let is_served = self.serial.was_served() && self.made.is_some();
                let Some((serial, _)) = self.shown.filter(|_| is_served) else { return };
                let pinned = serial.advance(1);
                self.serial.hidden_behind(pinned);
                self.is_pinned = true;
                self.shown = Some((pinned, Contents::Pinned(pinned)));
                self.saved = Some((pinned, 0, Contents::Pinned(pinned)));
            }
            Event::Release => {
                if std::mem::take(&mut self.is_pinned) {
                    self.serial.seen();
                    self.show();
                }
            }
            Event::Pass => {
                self.now += PAUSE;
                self.serial.passed(self.now);
            }
            Event::Restart { is_same } => {
                self.serial = RegionSerial::default();
                if let Some((last, drift, _)) = self.saved {
                    self.serial.remembered(last, Some(drift));
                }
                if let (true, Some((shown, _))) = (self.is_pinned, self.shown) {
                    self.serial.hidden_behind(shown);
                }
                self.made = None;
                self.plan += u32::from(!is_same);
            }
        }
        self.merge();
        if self.serial.was_served() {
            self.show();
        }
    }

    /// Checks what clients see now, and how far what is made is from the sum.
    fn check(&mut self) -> Result<(), TestCaseError> {
        if let Some((serial, contents)) = self.shown {
            // Half way around the circle nobody knows a serial any more, and it may come again.
            self.known.retain(|other, _| !other.newer_than(serial) && !serial.undefined_against(*other));
            prop_assert_eq!(*self.known.entry(serial).or_insert(contents), contents, "{} for two contents", serial);
        }
        if let Some((serial, _)) = self.made {
            let sum = self.sum();
            prop_assert_eq!(serial, sum.advance(self.serial.drift()));
            prop_assert!(!self.serial.is_half_way() || sum.newer_than(serial));
            let shown = self.shown.filter(|_| self.is_pinned);
            prop_assert!(shown.is_none_or(|(shown, _)| serial.newer_than(shown)), "{:?} and {} behind", shown, serial);
        }
        Ok(())
    }
}

proptest! {
    /// What clients see never falls, no serial stands for two contents, and at rest the serial is on the sum or above it.
    #[test]
    fn whatever_happens_serials_rise_and_come_to_rest(events in prop::collection::vec(event(), 1..40)) {
        let mut world = World::new();
        for event in &events {
            let before = world.shown;
            world.suffer(event);
            world.check()?;
            if let (Some((before, _)), Some((shown, _))) = (before, world.shown) {
                prop_assert!(shown == before || shown.newer_than(before), "{} then {}", before, shown);
            }
        }
        // At rest.
        world.suffer(&Event::Release);
        for _ in 0..2 {
            world.suffer(&Event::Pass);
            world.suffer(&Event::Seen);
            world.check()?;
        }
        prop_assert!(!world.serial.is_half_way());
        let Some((serial, _)) = world.made else { return Ok(()) };
        prop_assert!(!world.sum().newer_than(serial));
        // What is on disk makes it come again.
        let drift = world.serial.drift();
        world.suffer(&Event::Restart { is_same: true });
        world.suffer(&Event::Seen);
        prop_assert_eq!((world.shown.map(|(shown, _)| shown), world.serial.drift()), (Some(serial), drift));
    }
}

#[test]
fn a_serial_that_is_remembered_half_way_is_half_way_again() {
    let mut world = World::new();
    let far = (1 << 30) + 7;
    for event in [Event::Seen, Event::Load([far; 2]), Event::Seen] {
        world.suffer(&event);
    }
    let half_way = world.shown;
    assert!(world.serial.is_half_way());
    for event in [Event::Restart { is_same: true }, Event::Seen] {
        world.suffer(&event);
    }
    assert!(world.serial.is_half_way() && world.shown == half_way);
    for event in [Event::Pass, Event::Seen] {
        world.suffer(&event);
    }
    assert_eq!((world.shown.unwrap().0, world.serial.drift()), (world.sum(), 0));
}
