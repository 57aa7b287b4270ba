//! The way from a feeder to the task of its inventory.
//!
//! A feeder reads what an inventory is made of, a file or other services, and tells of it in [`Event`]s; it knows nothing
//! of zones. The task gives it a [`Feed`], through which it tells, and hears of an operator's wish to have everything read
//! again.
//!
//! A feeder of documents tells each one as [`Event::Whole`]. A feeder that lists and then follows begins with
//! [`Event::Changes`] for all that its listing has, ends the listing with [`Event::Listed`], and goes on with changes;
//! what it learns is gone it tells by [`Change::Gone`], nothing else removes an element.
//!
//! Invariants: events are taken in the order in which they were sent; an order is never lost, however many events wait,
//! and is answered by the first event whose reading began after it; a feeder ends with its task.
//!
//! Cost: O(1) beside what an event carries.

use inventory::model::{Change, Inventory};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Events that may wait for the task; a feeder that has more waits itself.
const MOST_WAITING: usize = 64;

/// Number of an operator's order; each is larger than the one before, and 0 is none.
pub type Order = u64;

/// What a feeder tells.
#[derive(Debug)]
pub enum Event {
    /// A complete document: what is not in it is gone. `serial` is its own, if it has one.
    Whole { inventory: Box<Inventory>, serial: Option<u32> },
    /// Changes that belong together, in order.
    Changes(Vec<Change>),
    /// Everything was listed, and all of it was told.
    Listed,
    /// The source was asked and has nothing new.
    Current,
    /// The source cannot be read, or not all of it; what is known stays. `again` is the pause before the next attempt.
    Failed { failure: Failure, again: Option<Duration> },
    /// Changes are told as they come, or only with the next listing. Feeders of documents never tell it.
    Following(bool),
    /// Single elements cannot be read at present: how many, and why. 0 ends it.
    Partial { elements: usize, failure: Option<Failure> },
}

/// Reason why a source cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The metric label: one of a feeder's few.
    pub label: &'static str,
    /// The reason in words, on one line or several.
    pub text: String,
}

impl Failure {
    /// Returns a failure.
    pub fn new(label: &'static str, text: impl Into<String>) -> Failure {
        Failure { label, text: text.into() }
    }
}

/// An event with the newest order that was there when its reading began.
#[derive(Debug)]
pub struct Told {
    pub event: Event,
    pub order: Order,
    /// Time at which the source's word was heard; expiry counts from here.
    pub heard: Instant,
}

/// A source of inventories.
pub trait Feeder: Send + 'static {
    /// Reads and tells until the task has gone. A feeder that panics is run again, with its task.
    fn run(self, feed: Feed) -> impl Future<Output = ()> + Send;
}

/// The feeder's end of the way.
pub struct Feed {
    told: mpsc::Sender<Told>,
    orders: watch::Receiver<Order>,
    /// Order that the present reading began after.
    order: Order,
    /// The newest order after which a reading began that was not put off.
    begun: Order,
    /// The same before the present reading.
    before: Order,
    heard: Instant,
}

/// The task's end of the way.
pub struct Intake {
    pub told: mpsc::Receiver<Told>,
    pub orders: watch::Sender<Order>,
}

/// Makes a way.
pub fn way() -> (Feed, Intake) {
    let (told, receiver) = mpsc::channel(MOST_WAITING);
    let (orders, seen) = watch::channel(0);
    let feed = Feed { told, orders: seen, order: 0, begun: 0, before: 0, heard: Instant::now() };
    (feed, Intake { told: receiver, orders })
}

impl Feed {
    /// Begins a reading: it answers the orders that are there now, and counts from this moment. Returns true if there is
    /// an order that no reading has begun after yet.
    pub fn begin(&mut self) -> bool {
        let order = *self.orders.borrow_and_update();
        let is_new = order > self.begun;
        (self.before, self.order, self.begun, self.heard) = (self.begun, order, order, Instant::now());
        is_new
    }

    /// Takes back that a reading has begun: what is told next does not answer the orders that it would have answered.
    pub fn put_off(&mut self) {
        self.begun = self.before;
    }

    /// Tells the task; false when it has gone.
    pub async fn tell(&self, event: Event) -> bool {
        let told = Told { event, order: self.order, heard: self.heard };
        self.told.send(told).await.is_ok()
    }

    /// Ready when an operator wants everything read again, as an order that no reading has begun after yet.
    pub async fn ordered(&mut self) {
        if self.orders.changed().await.is_err() {
            // The task has gone; whoever tells it something learns of that.
            std::future::pending().await
        }
    }

    /// Waits for a time, or for an order. False when the task has gone.
    pub async fn pause(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let told = self.told.clone();
        tokio::select! {
            () = sleep_until(until) => true,
            () = self.ordered() => true,
            () = told.closed() => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_cuts_a_pause_short_and_is_answered_by_the_next_reading() {
        let (mut feed, mut intake) = way();
        feed.begin();
        assert!(feed.tell(Event::Current).await);
        intake.orders.send_replace(1);
        assert!(feed.pause(Duration::from_secs(3600)).await);
        assert!(feed.tell(Event::Current).await, "this reading began before the order");
        feed.begin();
        assert!(feed.tell(Event::Listed).await);
        let orders: Vec<Order> = [intake.told.recv().await, intake.told.recv().await, intake.told.recv().await]
            .into_iter()
            .flatten()
            .map(|told| told.order)
            .collect();
        assert_eq!(orders, [0, 0, 1]);
        drop(intake);
        assert!(!feed.pause(Duration::from_secs(3600)).await && !feed.tell(Event::Current).await);
    }
}
