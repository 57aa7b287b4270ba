//! The elements that are asked for singly: which wait, which are on their way, which are asked again after a failure.
//!
//! Invariants: at most [`MOST_AT_ONCE`] are on their way; an element is on its way once at most; what is pushed while its
//! answer is on its way is asked for again afterwards, since that answer may be older; what fails is asked for until it
//! is answered.
//!
//! Cost: O(log of those that wait).

use inventory::model::Key;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Requests for single elements that may be on their way at a time.
pub const MOST_AT_ONCE: usize = 10;
/// Pause before the first repetition; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Elements that are asked for.
#[derive(Default)]
pub struct Queue {
    entries: HashMap<Key, Entry>,
    waiting: VecDeque<Key>,
    /// Those that failed, by the time at which they are asked for again.
    later: BTreeSet<(Instant, Key)>,
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
        self.waiting.push_back(key);
    }

    /// Takes the next one to ask for, if there is room.
    pub fn take(&mut self, now: Instant) -> Option<Key> {
        while let Some(&(at, key)) = self.later.first()
            && at <= now
        {
            self.later.pop_first();
            self.entries.entry(key).or_default().place = Place::Waiting;
            self.waiting.push_back(key);
        }
        if self.asked >= MOST_AT_ONCE {
            return None;
        }
        let key = self.waiting.pop_front()?;
        self.entries.entry(key).or_default().place = Place::Asked;
        self.asked += 1;
        Some(key)
    }

    /// Notes that an element was answered.
    pub fn answered(&mut self, key: Key) {
        self.asked = self.asked.saturating_sub(1);
        if let Some(entry) = self.entries.remove(&key)
            && entry.again
        {
            self.push(key);
        }
    }

    /// Notes that a request failed. It is repeated, later each time.
    pub fn failed(&mut self, key: Key, now: Instant) {
        self.asked = self.asked.saturating_sub(1);
        let entry = self.entries.entry(key).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(5)).min(LONGEST_PAUSE);
        entry.failures += 1;
        entry.again = false;
        entry.place = Place::Later(now + pause);
        self.later.insert((now + pause, key));
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
        self.entries.values().filter(|entry| entry.failures > 0).count()
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
        queue.answered(key(1));
        assert_eq!((queue.failing(), queue.contains(key(1))), (0, false));
    }
}
