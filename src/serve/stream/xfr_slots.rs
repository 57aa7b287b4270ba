//! XfrSlots: how many transfers run at once, in total and for one client.
//!
//! A transfer waits for its client's slot first and only then among all, so that a client with many connections never
//! stands in the way of others. Whoever waits for longer than [`WAIT`] is told to come again.
//!
//! Clients that take nothing do not hold their slots against others: after half of that time one transfer is cut for
//! the one that waits, by the rule of [`places`](crate::serve::places): of the client with the most, the one that has
//! taken the fewest octets within the last ten seconds. That is done for a client that will even then have no more than
//! the other has left; for others only where a transfer has stalled: one that was begun ten seconds ago and has since
//! taken less than the least rate.
//!
//! Invariant: a client is remembered while it has a slot or waits for one. Cost: O(1), and O(slots) where all are
//! taken.

use super::send::{FRAME_BYTES, LEAST_RATE};
use crate::serve::places::Connection;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

/// Transfers under way at once. Each costs a buffer of 128 KiB, and time to compose; more at once would not be faster.
pub(super) const MAX_TRANSFERS: usize = 32;
/// Transfers under way at once to one client: close to what secondaries ask for by themselves (BIND: 2, Knot: 10).
pub(super) const MAX_PER_CLIENT: usize = 8;
/// Longest time that a transfer may wait for its slot: less than secondaries wait for a first message (Knot: 5 s).
const WAIT: Duration = Duration::from_secs(2);

/// XfrSlots of transfers: decides which transfer may begin.
pub(super) struct XfrSlots {
    all: Semaphore,
    by_client: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    running: Mutex<HashMap<u64, Running>>,
}

/// A transfer under way.
struct Running {
    connection: Arc<Connection>,
    begun: Instant,
}

impl Running {
    /// Returns true if the transfer's client has taken next to nothing for long enough to tell.
    fn is_stalled(&self) -> bool {
        let least = LEAST_RATE * Connection::SPAN.as_secs();
        self.begun.elapsed() >= Connection::SPAN && self.connection.taken_lately() < least
    }
}

/// One transfer's slot; dropping it lets another begin.
pub(super) struct XfrSlot<'a> {
    // Given back before the client's place is looked at: fields are dropped in this order.
    _entry: Entry<'a>,
    _permits: (OwnedSemaphorePermit, SemaphorePermit<'a>),
    _place: Place<'a>,
    /// Room for the longest message with its length, behind others that are as long together. It comes with the slot,
    /// so that those who wait for one have none.
    pub frame: Vec<u8>,
}

/// A transfer's entry among those under way.
struct Entry<'a> {
    slots: &'a XfrSlots,
    id: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.slots.running.lock().remove(&self.id);
    }
}

/// A place in the queue of a client, which is forgotten with its last one.
struct Place<'a> {
    slots: &'a XfrSlots,
    client: IpAddr,
    queue: Option<Arc<Semaphore>>,
}

impl XfrSlots {
    /// All slots are free.
    pub fn new() -> XfrSlots {
        XfrSlots { all: Semaphore::new(MAX_TRANSFERS), by_client: Mutex::default(), running: Mutex::default() }
    }

    /// Waits for the slot of a transfer over this connection; `None` when it does not come in time.
    pub async fn take(&self, connection: &Arc<Connection>) -> Option<XfrSlot<'_>> {
        let client = connection.client;
        let queue = {
            let mut by_client = self.by_client.lock();
            by_client.entry(client).or_insert_with(|| Arc::new(Semaphore::new(MAX_PER_CLIENT))).clone()
        };
        let place = Place { slots: self, client, queue: Some(queue.clone()) };
        let mut both = pin!(async { Some((queue.acquire_owned().await.ok()?, self.all.acquire().await.ok()?)) });
        let permits = match timeout(WAIT / 2, &mut both).await {
            Ok(permits) => permits?,
            Err(_) => {
                self.make_room(client);
                timeout(WAIT / 2, both).await.ok()??
            }
        };
        let id = connection.id;
        self.running.lock().insert(id, Running { connection: connection.clone(), begun: Instant::now() });
        Some(XfrSlot {
            _entry: Entry { slots: self, id },
            _permits: permits,
            _place: place,
            frame: vec![0; 2 * FRAME_BYTES],
        })
    }

    /// Cuts a transfer that must not keep a client from its slot, if there is one.
    fn make_room(&self, client: IpAddr) {
        let mut running = self.running.lock();
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        running.values().for_each(|running| *counts.entry(running.connection.client).or_default() += 1);
        let own = counts.get(&client).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let may_go = |running: &&Running| {
            let theirs = running.connection.client;
            if own >= MAX_PER_CLIENT {
                theirs == client && running.is_stalled()
            } else if own + 1 < most {
                counts[&theirs] == most
            } else {
                running.is_stalled()
            }
        };
        let candidates = running.values().filter(may_go).map(|running| &running.connection);
        let first =
            candidates.min_by_key(|connection| (connection.taken_lately(), connection.id)).map(|first| first.id);
        if let Some(chosen) = first.and_then(|id| running.remove(&id)) {
            chosen.connection.displace();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut by_client = self.slots.by_client.lock();
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
    use crate::serve::places::{self, Class, Places, Room};

    /// Connections of clients.
    struct Clients(Arc<Places>);

    impl Clients {
        fn new() -> Clients {
            Clients(Places::new(Room { total: 1000, per_client: 1000, reserved: 0 }))
        }

        fn open(&self, address: &str) -> places::Place {
            self.0.enter(address.parse().unwrap(), Class::General).0
        }

        fn of(&self, last: usize) -> places::Place {
            self.open(&format!("192.0.2.{last}"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_client_has_its_own_turns_and_all_share_the_rest() {
        let (slots, clients) = (XfrSlots::new(), Clients::new());
        let places: Vec<_> = (0..MAX_TRANSFERS).map(|index| clients.of(index / MAX_PER_CLIENT)).collect();
        let (begun, mut held) = (Instant::now(), Vec::new());
        for place in &places {
            held.push(slots.take(&place.connection).await.expect("a slot"));
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // They have only just begun, and are not stalled.
        let begun = Instant::now();
        assert!(slots.take(&clients.of(0).connection).await.is_none());
        assert_eq!(begun.elapsed(), WAIT);
        let newcomer = clients.of(0);
        let (late, ()) = tokio::join!(slots.take(&newcomer.connection), async {
            tokio::time::sleep(WAIT / 4).await;
            held.remove(0);
        });
        drop(late.expect("the slot that was given back"));
        drop(held);
        assert!(slots.by_client.lock().is_empty() && slots.running.lock().is_empty(), "clients are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_less_is_let_in_by_the_client_with_most() {
        let (slots, clients) = (XfrSlots::new(), Clients::new());
        let places: Vec<_> = (0..MAX_TRANSFERS).map(|index| clients.of(index / MAX_PER_CLIENT)).collect();
        let mut held = Vec::new();
        for place in &places {
            held.push(Some(slots.take(&place.connection).await.expect("a slot")));
        }
        let newcomer = clients.of(99);
        let begun = Instant::now();
        let cut = async {
            places[0].connection.displaced().await;
            held[0] = None;
        };
        let (slot, ()) = tokio::join!(slots.take(&newcomer.connection), cut);
        assert_eq!((slot.is_some(), begun.elapsed()), (true, WAIT / 2));
        assert_eq!(slots.running.lock().len(), MAX_TRANSFERS);
        // Clients with one each take slots from each other only where one has stalled.
        drop(held);
        drop(slot);
        let places: Vec<_> = (0..MAX_TRANSFERS).map(|index| clients.of(100 + index)).collect();
        let mut held = Vec::new();
        for place in &places {
            held.push(Some(slots.take(&place.connection).await.expect("a slot")));
        }
        assert!(slots.take(&newcomer.connection).await.is_none());
        tokio::time::sleep(Connection::SPAN).await;
        let cut = async {
            places[0].connection.displaced().await;
            held[0] = None;
        };
        let (slot, ()) = tokio::join!(slots.take(&newcomer.connection), cut);
        assert!(slot.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ipv6_network_is_one_client() {
        let (slots, clients) = (XfrSlots::new(), Clients::new());
        let places: Vec<_> = (0..MAX_PER_CLIENT).map(|index| clients.open(&format!("2001:db8::{index}"))).collect();
        let mut held = Vec::new();
        for place in &places {
            held.push(slots.take(&place.connection).await.expect("a slot"));
        }
        assert!(slots.take(&clients.open("2001:db8::ffff").connection).await.is_none());
        assert!(slots.take(&clients.open("2001:db8:0:1::1").connection).await.is_some());
    }
}
