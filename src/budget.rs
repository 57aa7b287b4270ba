//! The budget of memory: what zones, their histories, the transfers in progress and buffers for the disk may take
//! together.
//!
//! A transfer claims octets as they arrive, as what they become in memory: names without compression, RDATA, nodes.
//! When all is taken, the zone that grows furthest over its share is refused, keeps the version that it has, and gives
//! back what it had claimed. Whole zones that take the place of others wait for their turn where there is no room for
//! both, and so do differences for which there is none beside them. How it is divided is told in `ledger`, how large it
//! is by default in `host`; `buffers` counts what waits for the disk.
//!
//! Octets are accounted, not measured: what is resident is at most about one and a half times as much, and what the
//! program takes without zones (`docs/memory.md` has figures). A transfer can have one message more than it has
//! claimed.
//!
//! Invariants: a claim ends with its value, so that nothing is lost when a transfer fails, is dropped or panics; who
//! waits in line holds nothing, and who waits for another has had that refused, so nobody waits for ever. A zone within
//! its share and a change that makes its zone no larger always get through.
//!
//! Cost: O(log zones) for each message of a transfer; nothing for queries, which know nothing of it.

pub mod buffers;
pub mod host;
mod ledger;

pub use buffers::Buffers;
pub use ledger::{Kept, Manner, Usage};

use indicatif::BinaryBytes;
use ledger::{Ledger, Verdict};
use parking_lot::Mutex;
use std::any::Any;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use wire::name::Name;

/// Interval at which the budget looks at what nobody tells of: versions that their last reader lets go, and what
/// reaches the disk.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Time for which a transfer waits for others to give way: they are gone within moments, and histories within seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reason to give a transfer no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the zone would take {} of memory with what regions hold of it; its share of the budget of {} is {}, and no more is free: \
     see \"memory\" of [server]",
    BinaryBytes(*octets), BinaryBytes(*budget), BinaryBytes(*share)
)]
pub struct Excess {
    /// Octets that the zone would have taken at that moment.
    pub octets: u64,
    pub share: u64,
    pub budget: u64,
}

/// The budget, which everybody shares. Without a plan it has no end.
#[derive(Default)]
pub struct Budget {
    ledger: Mutex<Ledger>,
    /// Rung when something was given back or refused.
    bell: Notify,
}

impl Budget {
    /// Sets how much there is, and for which zones, each with how often it is there: by itself, and in regions.
    pub fn configure(&self, octets: u64, zones: impl IntoIterator<Item = (Name, u64)>) {
        self.ledger.lock().configure(octets, zones);
        self.bell.notify_waiters();
    }

    /// Notes what a zone's published version takes by itself.
    pub fn publish(&self, zone: &Name, octets: u64) {
        self.ledger.lock().publish(zone, octets);
        self.bell.notify_waiters();
    }

    /// Notes what a zone's source keeps in memory beside the versions.
    pub fn set_beside(&self, zone: &Name, octets: u64) {
        self.ledger.lock().set_beside(zone, octets);
        self.bell.notify_waiters();
    }

    /// Notes what zones take that nobody transfers.
    pub fn set_kept(&self, kept: Kept) {
        self.ledger.lock().set_kept(kept);
        self.bell.notify_waiters();
    }

    /// Counts what waits for the disk from now on.
    pub fn set_buffers(&self, buffers: Buffers) {
        self.ledger.lock().set_buffers(buffers);
    }

    /// Notes what all histories take together.
    pub fn set_histories(&self, octets: u64) {
        self.ledger.lock().set_histories(octets);
        self.bell.notify_waiters();
    }

    /// Returns what histories may take together.
    pub fn room_for_histories(&self) -> u64 {
        self.ledger.lock().room_for_histories()
    }

    /// Returns true if histories are in the way of zones.
    pub fn has_too_much_history(&self) -> bool {
        self.ledger.lock().has_too_much_history()
    }

    /// Returns what is used for what. O(zones)
    pub fn usage(&self) -> Usage {
        self.ledger.lock().usage()
    }

    /// Begins a transfer of a zone.
    pub fn begin(self: &Arc<Self>, zone: &Name, manner: Manner) -> Claim {
        Claim {
            id: self.ledger.lock().begin(zone, manner),
            budget: self.clone(),
            asked: AtomicU64::new(0),
            replaced: None,
        }
    }

    /// Waits until a question to the books has an answer, for so long.
    async fn wait_for<T>(&self, patience: Duration, mut ask: impl FnMut(&mut Ledger) -> Option<T>) -> Option<T> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            let mut rung = pin!(self.bell.notified());
            // Whatever happens from here on is heard.
            rung.as_mut().enable();
            if let Some(answer) = ask(&mut self.ledger.lock()) {
                return Some(answer);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            let _ = timeout(LOOK_AGAIN, rung).await;
        }
    }
}

/// Share of one transfer in the budget, until this is dropped.
pub struct Claim {
    budget: Arc<Budget>,
    id: u64,
    /// The most that was asked for, granted or not.
    asked: AtomicU64,
    /// The version whose place was taken.
    replaced: Option<Weak<dyn Any + Send + Sync>>,
}

impl Claim {
    /// Waits until the zone can be replaced, or changed in its turn. Returns at once for other transfers.
    pub async fn take_turn(&self) -> Result<(), Excess> {
        loop {
            // There is no end to its patience in the line, because that moves on.
            let come = |ledger: &mut Ledger| ledger.turn(self.id, false);
            let Some(verdict) = self.budget.wait_for(PATIENCE, come).await else { continue };
            if let Some(answer) = verdict.answer() {
                return answer;
            }
            // It is in front, and old versions are still read.
            let gone = |ledger: &mut Ledger| ledger.turn(self.id, false)?.answer();
            if let Some(answer) = self.budget.wait_for(PATIENCE, gone).await {
                return answer;
            }
            let late = self.budget.ledger.lock().turn(self.id, true);
            if let Some(answer) = late.and_then(Verdict::answer) {
                return answer;
            }
        }
    }

    /// Asks for so many octets in all.
    pub async fn grow(&self, octets: u64) -> Result<(), Excess> {
        self.grow_beside(octets, 0).await
    }

    /// Asks for so many octets in all, and for as many as the zone's source is to keep beside the versions, which no
    /// region has once more.
    pub async fn grow_beside(&self, octets: u64, beside: u64) -> Result<(), Excess> {
        self.asked.fetch_max(octets, Ordering::Relaxed);
        let ask = |ledger: &mut Ledger| ledger.grow(self.id, octets, beside).answer();
        // Mostly it is granted, and nobody waits.
        let first = ask(&mut self.budget.ledger.lock());
        let answer = match first {
            Some(answer) => answer,
            None => {
                self.budget.bell.notify_waiters();
                let late = || self.budget.ledger.lock().insist(self.id, octets, beside);
                self.budget.wait_for(PATIENCE, ask).await.unwrap_or_else(late)
            }
        };
        if answer.is_err() {
            self.budget.bell.notify_waiters();
        }
        answer
    }

    /// The most octets that were asked for, granted or not.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns what the transfer does, which may have become a replacement.
    pub fn manner(&self) -> Option<Manner> {
        self.budget.ledger.lock().manner(self.id)
    }

    /// Ready when the transfer has to give way to another.
    pub async fn refused(&self) -> Excess {
        loop {
            if let Some(excess) = self.budget.wait_for(PATIENCE, |ledger| ledger.refusal(self.id)).await {
                return excess;
            }
        }
    }

    /// Goes on as a replacement, because the primary has sent the whole zone.
    pub fn replace(&self) {
        self.budget.ledger.lock().turn_into_replacement(self.id);
    }

    /// Notes that the transfer is published: its octets count until nobody has the version before any more.
    pub fn note_published<T: Send + Sync + 'static>(mut self, before: Option<Arc<T>>) {
        self.replaced = before.map(|before| {
            let weak: Weak<T> = Arc::downgrade(&before);
            weak as Weak<dyn Any + Send + Sync>
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.budget.ledger.lock().end(self.id, self.replaced.take());
        self.budget.bell.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// Two zones that take a third of a budget of 6,000 each, so that one of them can be replaced.
    fn full() -> Arc<Budget> {
        let budget = Arc::new(Budget::default());
        budget.configure(6000, [(name("a"), 1), (name("b"), 1)]);
        ["a", "b"].into_iter().for_each(|zone| budget.publish(&name(zone), 2000));
        budget
    }

    #[tokio::test]
    async fn whoever_waits_in_line_goes_on_when_the_one_before_ends() {
        let budget = full();
        let first = budget.begin(&name("a"), Manner::Replace);
        first.take_turn().await.unwrap();
        first.grow(2000).await.unwrap();
        let second = budget.begin(&name("b"), Manner::Replace);
        let waiting = tokio::spawn(async move {
            second.take_turn().await.unwrap();
            second.grow(2000).await
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        // The version before has a reader, who lets it go only after the transfer.
        let old = Arc::new(0u64);
        first.note_published(Some(old.clone()));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert_eq!(budget.usage().transfers, 2000);
        drop(old);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(budget.usage().transfers, 0);
    }

    #[tokio::test]
    async fn whoever_is_furthest_over_is_told_and_the_other_goes_on() {
        let budget = Arc::new(Budget::default());
        budget.configure(6000, [(name("a"), 1), (name("b"), 1), (name("c"), 1)]);
        let [hog, other] = ["a", "b"].map(|zone| budget.begin(&name(zone), Manner::Replace));
        hog.take_turn().await.unwrap();
        other.take_turn().await.unwrap();
        hog.grow(2000).await.unwrap();
        let told = tokio::spawn(async move {
            let excess = hog.refused().await;
            assert_eq!(hog.grow(2000).await, Err(excess));
            excess
        });
        other.grow(1500).await.unwrap();
        assert_eq!(told.await.unwrap(), Excess { octets: 2000, share: 1000, budget: 6000 });
        assert_eq!(budget.usage().transfers, 1500);
    }

    #[tokio::test(start_paused = true)]
    async fn histories_that_do_not_go_are_waited_for_only_so_long() {
        let budget = full();
        ["a", "b"].into_iter().for_each(|zone| budget.publish(&name(zone), 1500));
        budget.set_histories(1500);
        let replacement = budget.begin(&name("b"), Manner::Replace);
        replacement.take_turn().await.unwrap();
        let claim = budget.begin(&name("a"), Manner::Change);
        assert!(claim.grow(500).await.is_err());
        drop(claim);
        budget.set_histories(1500);
        let claim = budget.begin(&name("a"), Manner::Change);
        let keeper = async {
            while !budget.has_too_much_history() {
                tokio::task::yield_now().await;
            }
            budget.set_histories(budget.room_for_histories());
        };
        let (grown, ()) = tokio::join!(claim.grow(500), keeper);
        assert_eq!(grown, Ok(()));
    }

    /// A budget of 6,000 of which two zones have 2,000 each, and a third nothing; every floor is 1,000.
    fn tight() -> Arc<Budget> {
        let budget = Arc::new(Budget::default());
        budget.configure(6000, ["a", "b", "c"].map(|zone| (name(zone), 1)));
        ["a", "b"].into_iter().for_each(|zone| budget.publish(&name(zone), 2000));
        budget
    }

    /// Begins a transfer in its turn, and has it grow, within the time that others have to give way.
    async fn transfer(budget: &Arc<Budget>, zone: &str, manner: Manner, octets: u64) -> Result<Claim, Excess> {
        let claim = budget.begin(&name(zone), manner);
        let grown = async {
            claim.take_turn().await?;
            claim.grow(octets).await
        };
        timeout(PATIENCE * 3, grown).await.expect("an answer")?;
        Ok(claim)
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_holds_up_growth_beyond_floors_and_nothing_else() {
        let budget = tight();
        let buffers = Buffers::default();
        budget.set_buffers(buffers.clone());
        let hung = buffers.hold(1 << 20);
        let begun = Instant::now();
        transfer(&budget, "c", Manner::Replace, 1000).await.unwrap();
        transfer(&budget, "c", Manner::Change, 1000).await.unwrap();
        transfer(&budget, "a", Manner::ChangeInTurn, 2000).await.unwrap();
        transfer(&budget, "a", Manner::Replace, 2000).await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "nobody waits for it");
        [("a", 1500), ("b", 500)].into_iter().for_each(|(zone, octets)| budget.publish(&name(zone), octets));
        assert!(transfer(&budget, "c", Manner::Change, 1200).await.is_err());
        assert!((PATIENCE..2 * PATIENCE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        drop(hung);
        transfer(&budget, "c", Manner::Change, 1200).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_hangs_holds_up_a_zone_within_its_floor_only_so_long() {
        let budget = tight();
        let old = Arc::new(0u64);
        transfer(&budget, "a", Manner::Replace, 2000).await.unwrap().note_published(Some(old.clone()));
        let begun = Instant::now();
        transfer(&budget, "c", Manner::Change, 1000).await.unwrap();
        assert!((PATIENCE..2 * PATIENCE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Differences share what they do not change with the version that is read.
        transfer(&budget, "b", Manner::ChangeInTurn, 2000).await.unwrap();
        assert!(transfer(&budget, "b", Manner::Replace, 2000).await.is_err(), "another whole zone is too much");
        drop(old);
        transfer(&budget, "b", Manner::Replace, 2000).await.unwrap();
    }
}
