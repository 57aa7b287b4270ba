//! Turns: how many transfers run at once, in total and for one client.
//!
//! A transfer waits for its client's turn first and only then among all, so that a client with many connections never
//! stands in the way of others. Whoever waits for longer than [`WAIT`] is told to come again.
//!
//! Invariant: a client is remembered while it has a turn or waits for one. Cost: O(1).

use crate::access::client_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Transfers under way at once. Each costs a buffer of 128 KiB, and time to compose; more at once would not be faster.
pub(super) const MAX_TRANSFERS: usize = 32;
/// Transfers under way at once to one client: close to what secondaries ask for by themselves (BIND: 2, Knot: 10).
pub(super) const MAX_PER_CLIENT: usize = 8;
/// The longest message with its length in front.
pub(super) const FRAME_BYTES: usize = 2 + u16::MAX as usize;
/// How long a transfer may wait for its turn: less than secondaries wait for a first message (Knot: 5 s).
const WAIT: Duration = Duration::from_secs(2);

/// Who may begin a transfer.
pub(super) struct Turns {
    all: Semaphore,
    by_client: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// One transfer's turn; dropping it lets another begin.
pub(super) struct Turn<'a> {
    // Given back before the client's place is looked at: fields are dropped in this order.
    _permits: (OwnedSemaphorePermit, SemaphorePermit<'a>),
    _place: Place<'a>,
    /// Room for the longest message with its length, behind others that are as long together. It comes with the turn, so that those who wait for one have none.
    pub frame: Vec<u8>,
}

/// A place in the queue of a client, which is forgotten with its last one.
struct Place<'a> {
    turns: &'a Turns,
    client: IpAddr,
    queue: Option<Arc<Semaphore>>,
}

impl Turns {
    /// All turns are free.
    pub fn new() -> Turns {
        Turns { all: Semaphore::new(MAX_TRANSFERS), by_client: Mutex::default() }
    }

    /// Waits for the turn of a transfer to this address; `None` when it does not come in time.
    pub async fn take(&self, address: IpAddr) -> Option<Turn<'_>> {
        let client = client_of(address);
        let queue = {
            let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            by_client.entry(client).or_insert_with(|| Arc::new(Semaphore::new(MAX_PER_CLIENT))).clone()
        };
        let place = Place { turns: self, client, queue: Some(queue.clone()) };
        let both = async { Some((queue.acquire_owned().await.ok()?, self.all.acquire().await.ok()?)) };
        let permits = timeout(WAIT, both).await.ok()??;
        Some(Turn { _permits: permits, _place: place, frame: vec![0; 2 * FRAME_BYTES] })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut by_client = self.turns.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        self.queue = None;
        // Others of this client have the queue from here only, and under this lock.
        if by_client.get(&self.client).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            by_client.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[tokio::test(start_paused = true)]
    async fn each_client_has_its_own_turns_and_all_share_the_rest() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for index in 0..MAX_TRANSFERS {
            let begun = Instant::now();
            held.push(turns.take(address((index / MAX_PER_CLIENT) as u8)).await.expect("a turn"));
            assert_eq!(begun.elapsed(), Duration::ZERO);
            let full = index % MAX_PER_CLIENT == MAX_PER_CLIENT - 1;
            if full {
                assert!(turns.take(address((index / MAX_PER_CLIENT) as u8)).await.is_none());
                assert_eq!(begun.elapsed(), WAIT);
            }
        }
        assert!(turns.take(address(99)).await.is_none(), "all turns are taken");
        let (late, ()) = tokio::join!(turns.take(address(99)), async {
            tokio::time::sleep(WAIT / 2).await;
            held.pop();
        });
        drop(late.expect("the turn that was given back"));
        assert!(turns.take(address(3)).await.is_some(), "the client that gave one back can have it again");
        assert_eq!(turns.by_client.lock().unwrap().len(), MAX_TRANSFERS / MAX_PER_CLIENT);
        drop(held);
        assert!(turns.by_client.lock().unwrap().is_empty(), "clients are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ipv6_network_is_one_client() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for index in 0..MAX_PER_CLIENT {
            held.push(turns.take(format!("2001:db8::{index}").parse().unwrap()).await.expect("a turn"));
        }
        assert!(turns.take("2001:db8::ffff".parse().unwrap()).await.is_none());
        assert!(turns.take("2001:db8:0:1::1".parse().unwrap()).await.is_some());
    }
}
