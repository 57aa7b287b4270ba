//! Queues in front of primaries: how many transfers run at once from one address and port, whatever the zone.
//!
//! A name server has so many connections for all its clients together (NSD 100, BIND 150) and closes those beyond. Whoever
//! begins with thousands of zones at once would lose most of them to that, and take the places of everybody else. So a
//! transfer waits here until it may begin, in the order of coming, and its clocks run only from then on.
//!
//! Invariants: waiting is no failure; a zone with another primary to turn to waits no longer than it would for a message; a
//! queue is forgotten with the last who stands in it. Cost: O(1).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queues of all primaries.
#[derive(Default)]
pub struct Queues(Mutex<HashMap<SocketAddr, Arc<Semaphore>>>);

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
    queue: Option<Arc<Semaphore>>,
}

impl Queues {
    /// Waits until a transfer from a primary may begin, of which so many may run at once. A limit that has changed counts once
    /// nobody stands in the queue.
    pub async fn take(self: &Arc<Self>, primary: SocketAddr, limit: usize) -> Turn {
        let queue = self.lock().entry(primary).or_insert_with(|| Arc::new(Semaphore::new(limit))).clone();
        let mut turn =
            Turn { permit: None, _place: Place { queues: self.clone(), primary, queue: Some(queue.clone()) } };
        // It is never closed.
        turn.permit = queue.acquire_owned().await.ok();
        turn
    }

    /// The queues, for a moment.
    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Semaphore>>> {
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
    use std::time::Duration;
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
}
