//! Orders about single instances, from operators and from those who look after them: reports, their withdrawal, an
//! instance to forget, holds to end.
//!
//! Orders that wait together are carried out by the inventory's task as one batch, and answered once it is kept on disk
//! and published.
//!
//! Invariants: whoever waits is answered, or learns that the task has gone or is busy; an order is carried out once, or
//! not at all.
//!
//! Cost: O(1) to wait in line, as the roster's to be carried out.

use super::Mirrored;
use super::book::Book;
use crate::source::shell::Handle;
use inventory::model::{Health, Moment, Uuid};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use wire::name::Name;

/// Orders that may wait; more are turned away.
const MOST_WAITING: usize = 4096;
/// Longest wait for an order: less than the patience of whoever asks over HTTP.
const PATIENCE: Duration = Duration::from_secs(4);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Take a report on an instance, which counts for so long.
    Report { vm: Uuid, health: Health, ttl: Option<Duration> },
    /// Withdraw the report on an instance.
    Withdraw(Uuid),
    /// Forget an instance and all its records.
    Forget(Uuid),
    /// End all holds at the name of a service.
    Release(Name),
}

impl Deed {
    /// Does it.
    fn carry_out(self, book: &mut Book, now: Moment) -> Result<(), OrderError> {
        let or = |is_done: bool, error: OrderError| if is_done { Ok(()) } else { Err(error) };
        match self {
            Deed::Report { vm, health, ttl } => or(book.report(vm, health, ttl, now), OrderError::NoInstance),
            Deed::Withdraw(vm) => or(book.withdraw_report(vm, now), OrderError::NoReport),
            Deed::Forget(vm) => or(book.forget(vm, now), OrderError::NoInstance),
            Deed::Release(name) => or(book.release(&name, now) > 0, OrderError::NothingHeld(name)),
        }
    }
}

/// Error: an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("VM not found")]
    NoInstance,
    #[error("there is no report on this instance")]
    NoReport,
    #[error("nothing is held at {0}")]
    NothingHeld(Name),
    #[error("too many orders wait for this inventory; try again")]
    Full,
    #[error("a reload changed the inventory meanwhile; try again")]
    Gone,
    #[error("the inventory is being read, or its disk is slow; the order may still be carried out")]
    Late,
}

/// The answer to an order.
type Done = oneshot::Sender<Result<(), OrderError>>;

/// Orders on their way to the task.
#[derive(Default)]
pub(super) struct Orders {
    waiting: Mutex<Vec<(Deed, Done)>>,
    bell: Notify,
}

/// Orders that were carried out and are not answered yet.
#[derive(Default)]
pub(super) struct Settling(Vec<(Done, Result<(), OrderError>)>);

impl Orders {
    /// Puts an order into the line; none if that is full.
    fn push(&self, deed: Deed) -> Option<oneshot::Receiver<Result<(), OrderError>>> {
        let (done, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MOST_WAITING {
            return None;
        }
        waiting.push((deed, done));
        drop(waiting);
        self.bell.notify_one();
        Some(answer)
    }

    /// Ready once an order has come since the last time.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Carries out all orders that wait.
    pub(super) fn carry_out(&self, book: &mut Book, now: Moment) -> Settling {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        Settling(waiting.into_iter().map(|(deed, done)| (done, deed.carry_out(book, now))).collect())
    }
}

impl Settling {
    /// Answers everyone, now that it is published, or that it is certain that this takes longer.
    pub(super) fn answer(self, is_served: bool) {
        for (done, result) in self.0 {
            // Whoever asked may have gone.
            let _ = done.send(result.and(if is_served { Ok(()) } else { Err(OrderError::Late) }));
        }
    }
}

impl Handle<Mirrored> {
    /// Has an order carried out, and waits until it is published; without the handle, whose end ends the task.
    pub fn order(&self, deed: Deed) -> impl Future<Output = Result<(), OrderError>> + Send + use<> {
        let answer = self.shared.own.orders.push(deed);
        async move {
            match timeout(PATIENCE, answer.ok_or(OrderError::Full)?).await {
                Ok(answer) => answer.map_err(|_| OrderError::Gone)?,
                Err(_) => Err(OrderError::Late),
            }
        }
    }
}
