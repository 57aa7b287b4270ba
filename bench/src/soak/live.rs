//! What may be answered in a moment, while datacenters change.
//!
//! The changes of a datacenter come one after the other, each gives one name its next address, and an address tells how
//! often its name has changed. So an answer tells which changes its version has at least, and which it has not. Versions
//! never go back: what an answer has shown, each later question must be answered with.
//!
//! Invariants: a change counts as made before its primary has it, and as seen after an answer with it was received.
//!
//! Cost: O(1) a question, without a lock; four octets a name.

use crate::load::Judge;
use crate::probe::{A, rdatas};
use crate::question::Questions;
use std::array;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Names change with this stride, a prime, so that those that change one after the other lie apart.
const STRIDE: u64 = 15_485_863;
/// Bits of an address that number the name, and how many versions the others tell apart.
const NUMBER_BITS: u32 = 20;
const VERSIONS: u64 = 1 << (32 - NUMBER_BITS);
/// Buckets of times: eight for each doubling, from a microsecond on.
const BUCKETS: usize = 256;
const BUCKETS_PER_DOUBLING: f64 = 8.0;

/// What is live of each datacenter, and how long answers took.
pub struct Live<'a> {
    questions: &'a Questions,
    datacenters: Vec<Changes>,
    times: [AtomicU64; BUCKETS],
}

/// The changes of one datacenter.
struct Changes {
    /// The change by which each name changes for the first time; they take turns.
    first: Vec<u32>,
    /// How many changes were made, and how many of them some answer has shown.
    made: AtomicU64,
    seen: AtomicU64,
}

impl Changes {
    /// The changes of so many names.
    fn new(names: usize) -> Changes {
        let mut first = vec![u32::MAX; names];
        (0..names).for_each(|change| first[name_of(change as u64, names)] = change as u32);
        assert!(!first.contains(&u32::MAX), "the stride meets every name");
        Changes { first, made: AtomicU64::new(0), seen: AtomicU64::new(0) }
    }

    /// How often a name has changed after so many changes.
    fn version(&self, name: usize, changes: u64) -> u64 {
        let names = self.first.len() as u64;
        (changes + names - 1 - u64::from(self.first[name])) / names
    }

    /// The version of a name that an address tells of, if it may be live now: one that was seen when `seen` changes were,
    /// or a newer one that was made.
    fn version_of(&self, name: usize, seen: u64, address: Ipv4Addr) -> Option<u64> {
        let bits = u32::from(address).wrapping_sub(u32::from(Ipv4Addr::new(10, 0, 0, 0)));
        let [oldest, newest] = [seen, self.made.load(Ordering::SeqCst)].map(|changes| self.version(name, changes));
        let is_own = u64::from(bits) % (1 << NUMBER_BITS) == name as u64;
        let version = oldest + (u64::from(bits >> NUMBER_BITS) + VERSIONS - oldest % VERSIONS) % VERSIONS;
        (is_own && version <= newest).then_some(version)
    }

    /// Notes that an answer has shown a version of a name.
    fn see(&self, name: usize, version: u64) {
        let before = version.checked_sub(1).map(|times| times * self.first.len() as u64 + u64::from(self.first[name]));
        self.seen.fetch_max(before.map_or(0, |change| change + 1), Ordering::SeqCst);
    }
}

/// The name that a change of a datacenter of so many names is for.
fn name_of(change: u64, names: usize) -> usize {
    (change % names as u64 * STRIDE % names as u64) as usize
}

impl<'a> Live<'a> {
    /// Datacenters of so many names, none of which has changed.
    pub fn new(questions: &'a Questions, names: impl IntoIterator<Item = usize>) -> Live<'a> {
        let datacenters = names.into_iter().map(Changes::new).collect();
        Live { questions, datacenters, times: array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Counts the next change of a datacenter as made; the name that it is for.
    pub fn make(&self, datacenter: usize) -> usize {
        let changes = &self.datacenters[datacenter];
        name_of(changes.made.fetch_add(1, Ordering::SeqCst), changes.first.len())
    }

    /// The times within which half, and 99 of 100, of the answers since the last call came.
    pub fn take_times(&self) -> [Duration; 2] {
        let counts = self.times.each_ref().map(|count| count.swap(0, Ordering::Relaxed));
        let total: u64 = counts.iter().sum();
        [50, 99].map(|percent| {
            let mut left = (total * percent).div_ceil(100);
            let within = counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            Duration::from_secs_f64(((within.unwrap_or(0) + 1) as f64 / BUCKETS_PER_DOUBLING).exp2() / 1e6)
        })
    }
}

impl Judge for Live<'_> {
    fn note(&self, question: usize) -> u64 {
        let subject = self.questions.get(question).0.subject;
        subject.map_or(0, |(datacenter, _)| self.datacenters[datacenter].seen.load(Ordering::SeqCst))
    }

    fn allows(&self, question: usize, noted: u64, sent: Instant, reply: &[u8]) -> bool {
        let microseconds = (sent.elapsed().as_secs_f64() * 1e6).max(1.0);
        let bucket = (microseconds.log2() * BUCKETS_PER_DOUBLING) as usize;
        self.times[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        let Some((datacenter, name)) = self.questions.get(question).0.subject else { return true };
        let changes = &self.datacenters[datacenter];
        let found = rdatas(reply, A).first().and_then(|rdata| <[u8; 4]>::try_from(*rdata).ok());
        let version = found.and_then(|octets| changes.version_of(name, noted, octets.into()));
        version.inspect(|version| changes.see(name, *version)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Datacenter;

    #[test]
    fn what_was_made_may_be_answered_and_what_was_seen_must() {
        let mut datacenter = Datacenter::new("x.example", 0, 100);
        let questions = Questions::default();
        let live = Live::new(&questions, [datacenter.names()]);
        let changes = &live.datacenters[0];
        let names = datacenter.names();
        let mut history = vec![(0..names).map(|name| datacenter.address(name)).collect::<Vec<_>>()];
        for _ in 0..3 * names {
            datacenter.change(live.make(0), 1);
            history.push((0..names).map(|name| datacenter.address(name)).collect());
        }
        let made = history.len() as u64 - 1;
        for (seen, name) in (0..=made).step_by(5).flat_map(|seen| (0..names).map(move |name| (seen, name))) {
            for (version, addresses) in history.iter().enumerate() {
                let may = history[seen as usize..].iter().any(|live| live[name] == addresses[name]);
                let found = changes.version_of(name, seen, addresses[name]);
                assert_eq!(found, may.then(|| changes.version(name, version as u64)), "{seen} {name} {version}");
            }
        }
        assert_eq!(changes.version_of(0, 0, datacenter.address(1)), None, "that of another name");
        let last = name_of(made - 1, names);
        changes.see(last, changes.version(last, made));
        assert_eq!(changes.seen.load(Ordering::SeqCst), made);
        changes.see(last, 0);
        assert_eq!(changes.seen.load(Ordering::SeqCst), made, "which never goes back");
        datacenter.change(name_of(made, names), 1);
        let early = datacenter.address(name_of(made, names));
        assert_eq!(changes.version_of(name_of(made, names), 0, early), None, "what nobody made yet");
    }

    #[test]
    fn times_are_told_within_an_eighth_of_a_doubling() {
        let questions = Questions::new(&[Datacenter::new("x.example", 0, 100)], "x.example", 20);
        let live = Live::new(&questions, [8]);
        for _ in 0..100 {
            live.allows(19, 0, Instant::now() - Duration::from_millis(10), &[]);
        }
        let [half, most] = live.take_times();
        assert!(half == most && half > Duration::from_millis(9) && half < Duration::from_millis(13), "{half:?}");
    }
}
