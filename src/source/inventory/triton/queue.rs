//! The elements that are asked for singly: which wait, which are on their way, which are asked again after a failure.
//!
//! Invariants: at most [`MOST_AT_ONCE`] are on their way to a service, and one that does not answer delays those of no
//! other; an element is on its way once at most; what is pushed while its
//! answer is on its way is asked for again afterwards, since that answer may be older; what fails is asked for until it
//! is answered.
//!
//! Cost: O(log of those that wait).

use inventory::model::Key;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Requests for single elements that may be on their way to a service at a time.
pub const MOST_AT_ONCE: usize = 10;
/// Pause before the first repetition; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Elements that are asked for.
#[derive(Default)]
pub struct Queue {
    entries: HashMap<Key, Entry>,
    lanes: [Lane; 4],
    /// Those that failed, by the time at which they are asked for again.
    later: BTreeSet<(Instant, Key)>,
    /// Number of those whose last request failed.
    failing: usize,
}

/// What one service is asked for.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Key>,
    /// Requests on their way.
    asked: usize,
}

#[derive(Default)]
struct Entry {
    place: Place,
    failures: u32,
    /// True if it was pushed while its answer was on its way.
    again: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Waiting,
    Asked,
    Later(Instant),
}

impl Queue {
    /// Asks for an element as soon as there is room.
    pub fn push(&mut self, key: Key) {
        let is_new = !self.entries.contains_key(&key);
        let entry = self.entries.entry(key).or_default();
        match entry.place {
            Place::Waiting if !is_new => return,
            Place::Asked => {
                entry.again = true;
                return;
            }
            Place::Waiting => {}
            Place::Later(at) => {
                self.later.remove(&(at, key));
            }
        }
        entry.place = Place::Waiting;
        self.lane(key).waiting.push_back(key);
    }

    /// Takes the next one to ask for, if there is room.
    pub fn take(&mut self, now: Instant) -> Option<Key> {
        while let Some(&(at, key)) = self.later.first()
            && at <= now
        {
            self.later.pop_first();
            self.entries.entry(key).or_default().place = Place::Waiting;
            self.lane(key).waiting.push_back(key);
        }
        let lane = self.lanes.iter_mut().find(|lane| lane.asked < MOST_AT_ONCE && !lane.waiting.is_empty())?;
        let key = lane.waiting.pop_front()?;
        lane.asked += 1;
        self.entries.entry(key).or_default().place = Place::Asked;
        Some(key)
    }

    /// Notes that an element was answered.
    pub fn answered(&mut self, key: Key) {
        self.end_request(key);
        let Some(entry) = self.entries.remove(&key) else { return };
        self.failing -= usize::from(entry.failures > 0);
        if entry.again {
            self.push(key);
        }
    }

    /// Notes that a request failed. It is repeated, later each time.
    pub fn failed(&mut self, key: Key, now: Instant) {
        self.end_request(key);
        let entry = self.entries.entry(key).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(5)).min(LONGEST_PAUSE);
        self.failing += usize::from(entry.failures == 0);
        entry.failures += 1;
        entry.again = false;
        entry.place = Place::Later(now + pause);
        self.later.insert((now + pause, key));
    }

    fn end_request(&mut self, key: Key) {
        let lane = self.lane(key);
        lane.asked = lane.asked.saturating_sub(1);
    }

    /// The lane of the service that has an element.
    fn lane(&mut self, key: Key) -> &mut Lane {
        &mut self.lanes[match key {
            Key::Vm(_) => 0,
            Key::Server(_) => 1,
            Key::Network(_) | Key::NetworkPool(_) | Key::Nic(_) => 2,
            Key::Account(_) => 3,
        }]
    }

    /// Asks at once for those that failed, as far as `is_wanted` says so: what they failed for has passed.
    pub fn hurry(&mut self, is_wanted: impl Fn(Key) -> bool) {
        let wanted: Vec<Key> = self.later.iter().map(|(_, key)| *key).filter(|key| is_wanted(*key)).collect();
        wanted.into_iter().for_each(|key| self.push(key));
    }

    /// Time at which something is to be asked for again.
    pub fn next(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Number of elements whose last request failed.
    pub fn failing(&self) -> usize {
        self.failing
    }

    /// True if an element is waited for.
    pub fn contains(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inventory::model::Uuid;

    fn key(number: u128) -> Key {
        Key::Vm(Uuid::from_u128(number))
    }

    #[test]
    fn ten_at_once_and_each_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for number in (0..20).chain(0..20) {
            queue.push(key(number));
        }
        let first: Vec<Key> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!(first, (0..10).map(key).collect::<Vec<Key>>());
        queue.push(key(3));
        queue.answered(key(3));
        assert_eq!(queue.take(now), Some(key(10)));
        for number in (0..11).filter(|number| *number != 3) {
            queue.answered(key(number));
        }
        let rest: Vec<Key> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!(rest, (11..20).chain([3]).map(key).collect::<Vec<Key>>(), "a change meanwhile is asked for again");
    }

    #[test]
    fn a_service_that_does_not_answer_delays_no_other() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (0..20).map(|number| Key::Network(Uuid::from_u128(number))).for_each(|network| queue.push(network));
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), MOST_AT_ONCE);
        let account = Key::Account(Uuid::nil());
        queue.push(account);
        assert_eq!((queue.take(now), queue.take(now)), (Some(account), None));
    }

    #[test]
    fn failures_are_repeated_later_and_counted() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key(1));
        let mut at = now;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(queue.take(at), Some(key(1)));
            queue.failed(key(1), at);
            assert_eq!((queue.take(at), queue.failing()), (None, 1));
            pauses.push((queue.next().unwrap() - at).as_secs());
            at = queue.next().unwrap();
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        queue.hurry(|_| false);
        assert!(queue.next().is_some());
        queue.hurry(|failed| failed == key(1));
        assert_eq!(queue.next(), None, "it is asked for at once");
        assert_eq!(queue.take(at), Some(key(1)));
        queue.push(key(2));
        assert_eq!(queue.take(at), Some(key(2)));
        queue.failed(key(2), at);
        assert_eq!(queue.failing(), 2);
        queue.push(key(1));
        queue.answered(key(1));
        assert_eq!((queue.failing(), queue.contains(key(1))), (1, true), "it is asked for again, and has not failed");
    }
}
