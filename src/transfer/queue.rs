//! Queues in front of primaries: how many transfers and how many polls run at once at one address and port, whatever
//! the zone.
//!
//! A name server has so many connections for all its clients together (NSD 100, BIND 150) and closes those beyond.
//! Whoever begins with thousands of zones at once would lose most of them to that, and take the places of everybody
//! else. So a transfer waits here until it may begin, in the order of coming, and its clocks run only from then on.
//!
//! Polls have queues of their own, so that no long transfer holds up the question whether another is needed. Each takes
//! descriptors while it lasts, and one that gets no answer lasts for seconds. [`polls_at_once`] shares `MOST_SOCKETS`
//! among the primaries, so that those which are away leave places to those which answer. Polls that somebody called for
//! pass those of timers: of these only one at a time stands in line, the others wait behind it at a gate.
//!
//! Questions for records, and the polls that confirm what a transfer brought, have queues of their own, too: a version
//! waits for their answers, and must not wait for the timers of other zones.
//!
//! Invariants: waiting is no failure; a zone with another primary to turn to waits no longer than it would for a
//! message; a queue is forgotten with the last who stands in it; nobody waits in one queue while having a turn from
//! another; a poll that was called for waits for one of a timer at most, beside those that run. Cost: O(1).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Sockets for polls of all primaries together, while there are not too many primaries for that.
const MOST_SOCKETS: usize = 256;
/// Sockets that one poll has at most: each datagram that is sent again has its own.
pub const SOCKETS_PER_POLL: usize = 3;
/// Polls of one primary at once. Where UDP does not get through they are connections, which together with those that
/// confirm transfers and the default number of transfers are fewer than the 100 that NSD has.
const MOST_POLLS_EACH: usize = 64;
/// The same, however many primaries there are.
const LEAST_POLLS_EACH: usize = 4;

/// Questions for records on the way to one primary at once.
const QUESTIONS_EACH: usize = 8;
/// Polls of one primary at once that confirm what a transfer brought.
const CONFIRMING_POLLS_EACH: usize = 4;
/// Sockets that doubts about what transfers brought have at most for one primary. A question has one at a time.
pub const DOUBT_SOCKETS_EACH: usize = QUESTIONS_EACH + SOCKETS_PER_POLL * CONFIRMING_POLLS_EACH;

/// Polls of one primary at once, by how many primaries there are.
pub fn polls_at_once(primaries: usize) -> usize {
    (MOST_SOCKETS / SOCKETS_PER_POLL / primaries.max(1)).clamp(LEAST_POLLS_EACH, MOST_POLLS_EACH)
}

/// Queues for transfers, polls and questions.
pub struct Turns {
    transfers: Arc<Queues>,
    polls: Arc<Queues>,
    questions: Arc<Queues>,
    confirming_polls: Arc<Queues>,
    polls_at_once: AtomicUsize,
    /// Microseconds from one publication to the next, at least: refreshes that bring changes come no faster.
    hold_down: AtomicU64,
}

impl Default for Turns {
    /// Nobody waits yet. The number of polls at once of one primary is that for a single primary until it is set.
    fn default() -> Turns {
        Turns {
            transfers: Arc::default(),
            polls: Arc::default(),
            questions: Arc::default(),
            confirming_polls: Arc::default(),
            polls_at_once: AtomicUsize::new(polls_at_once(1)),
            hold_down: AtomicU64::default(),
        }
    }
}

impl Turns {
    /// Sets how many polls of one primary run at once. It counts for a primary once nobody stands in its queue.
    pub fn set_polls_at_once(&self, polls: usize) {
        self.polls_at_once.store(polls, Relaxed);
    }

    /// Sets the shortest time from one publication to the next.
    pub fn set_hold_down(&self, hold_down: Duration) {
        self.hold_down.store(u64::try_from(hold_down.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns the shortest time from one publication to the next.
    pub fn hold_down(&self) -> Duration {
        Duration::from_micros(self.hold_down.load(Relaxed))
    }

    /// Returns the number of polls of one primary that run at once.
    fn polls_at_once(&self) -> usize {
        self.polls_at_once.load(Relaxed)
    }

    /// Waits until a transfer from a primary may begin, of which so many may run at once.
    pub async fn transfer(&self, primary: SocketAddr, limit: usize) -> Turn {
        self.transfers.take(primary, limit).await
    }

    /// Waits until a primary may be polled because somebody called for it, in front of timers.
    pub async fn called_poll(&self, primary: SocketAddr) -> Turn {
        self.polls.take(primary, self.polls_at_once()).await
    }

    /// Waits until a primary may be polled by a timer.
    pub async fn timer_poll(&self, primary: SocketAddr) -> Turn {
        self.polls.take_last(primary, self.polls_at_once()).await
    }

    /// Waits until a primary may be asked for records.
    pub async fn question(&self, primary: SocketAddr) -> Turn {
        self.questions.take(primary, QUESTIONS_EACH).await
    }

    /// Waits until a primary may be polled to confirm what a transfer brought.
    pub async fn confirming_poll(&self, primary: SocketAddr) -> Turn {
        self.confirming_polls.take(primary, CONFIRMING_POLLS_EACH).await
    }
}

/// The queues of all primaries.
#[derive(Default)]
struct Queues(Mutex<HashMap<SocketAddr, Arc<Queue>>>);

/// The queue of one primary.
struct Queue {
    turns: Arc<Semaphore>,
    /// The one place in line for all that let others pass.
    gate: Arc<Semaphore>,
}

/// A turn, or a place in a queue; dropping it lets another begin.
pub struct Turn {
    // Given back before the queue is looked at: fields are dropped in this order.
    permit: Option<OwnedSemaphorePermit>,
    _place: Place,
}

/// A place in a queue, which is forgotten with its last one.
struct Place {
    queues: Arc<Queues>,
    primary: SocketAddr,
    queue: Option<Arc<Queue>>,
}

impl Queues {
    /// Waits for a turn at a primary, of which there are so many at once. A limit that has changed counts once nobody
    /// stands in the queue.
    async fn take(self: &Arc<Self>, primary: SocketAddr, limit: usize) -> Turn {
        let (mut turn, turns, _) = self.stand(primary, limit);
        // It is never closed.
        turn.permit = turns.acquire_owned().await.ok();
        turn
    }

    /// Waits for a turn as others do, and to begin with for those who wait like this.
    async fn take_last(self: &Arc<Self>, primary: SocketAddr, limit: usize) -> Turn {
        let (mut turn, turns, gate) = self.stand(primary, limit);
        let _first = gate.acquire_owned().await;
        turn.permit = turns.acquire_owned().await.ok();
        turn
    }

    /// A place in the queue, and what there is to wait for: the turn, and the gate in front of it.
    fn stand(self: &Arc<Self>, primary: SocketAddr, limit: usize) -> (Turn, Arc<Semaphore>, Arc<Semaphore>) {
        let new = || Arc::new(Queue { turns: Arc::new(Semaphore::new(limit)), gate: Arc::new(Semaphore::new(1)) });
        let queue = self.lock().entry(primary).or_insert_with(new).clone();
        let (turns, gate) = (queue.turns.clone(), queue.gate.clone());
        (Turn { permit: None, _place: Place { queues: self.clone(), primary, queue: Some(queue) } }, turns, gate)
    }

    /// The queues, for a moment.
    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Queue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        self.queue = None;
        // Others have the queue from here only, and under this lock.
        if queues.get(&self.primary).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.primary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn each_primary_has_its_own_queue() {
        let queues = Arc::new(Queues::default());
        let (one, other) = ("192.0.2.1:53".parse().unwrap(), "192.0.2.1:5353".parse().unwrap());
        let held = [queues.take(one, 2).await, queues.take(one, 2).await];
        let patience = Duration::from_secs(1);
        assert!(timeout(patience, queues.take(one, 2)).await.is_err());
        let elsewhere = timeout(patience, queues.take(other, 2)).await.expect("a turn");
        let late = tokio::spawn({
            let queues = queues.clone();
            async move { queues.take(one, 2).await }
        });
        tokio::time::sleep(patience).await;
        drop(held);
        let late = late.await.unwrap();
        assert_eq!(queues.lock().len(), 2);
        drop((late, elsewhere));
        assert!(queues.lock().is_empty(), "queues are forgotten");
        // Another limit counts from then on.
        let _held = [queues.take(one, 3).await, queues.take(one, 3).await, queues.take(one, 3).await];
    }

    #[tokio::test(start_paused = true)]
    async fn polls_wait_for_polls_alone_and_are_fewer_where_primaries_are_many() {
        assert_eq!([0, 1, 2, 4, 10, 1000].map(polls_at_once), [64, 64, 42, 21, 8, 4]);
        for primaries in 1..=21 {
            assert!(primaries * polls_at_once(primaries) * SOCKETS_PER_POLL <= MOST_SOCKETS, "{primaries}");
        }
        let (turns, primary, patience) = (Turns::default(), "192.0.2.1:53".parse().unwrap(), Duration::from_secs(1));
        turns.set_polls_at_once(2);
        let transfer = turns.transfer(primary, 1).await;
        let polls = [turns.timer_poll(primary).await, turns.called_poll(primary).await];
        assert!(timeout(patience, turns.timer_poll(primary)).await.is_err());
        assert!(timeout(patience, turns.called_poll(primary)).await.is_err());
        assert!(timeout(patience, turns.transfer(primary, 1)).await.is_err());
        let doubting = async { (turns.question(primary).await, turns.confirming_poll(primary).await) };
        timeout(patience, doubting).await.expect("what is asked about a transfer waits for neither");
        drop(polls);
        timeout(patience, turns.timer_poll(primary)).await.expect("a turn");
        drop(transfer);
    }

    #[tokio::test(start_paused = true)]
    async fn polls_that_were_called_for_pass_those_of_timers() {
        let (turns, primary, second) =
            (Arc::new(Turns::default()), "192.0.2.1:53".parse().unwrap(), Duration::from_secs(1));
        turns.set_polls_at_once(1);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let begin = |is_called: bool, number: u32| {
            let (turns, tell) = (turns.clone(), tell.clone());
            tokio::spawn(async move {
                let _turn = if is_called { turns.called_poll(primary).await } else { turns.timer_poll(primary).await };
                tell.send((is_called, number)).unwrap();
                tokio::time::sleep(second).await;
            })
        };
        for number in 0..50 {
            begin(false, number);
        }
        tokio::time::sleep(second / 2).await;
        begin(true, 0);
        begin(true, 1);
        let mut order = Vec::new();
        for _ in 0..52 {
            order.push(told.recv().await.unwrap());
        }
        // The first was under way, the second stood in line.
        assert_eq!(order[..5], [(false, 0), (false, 1), (true, 0), (true, 1), (false, 2)]);
        assert_eq!(order[51], (false, 49), "all have their turn, in the order of coming");
        tokio::time::sleep(2 * second).await;
        assert!(turns.polls.lock().is_empty(), "queues are forgotten");
    }
}
