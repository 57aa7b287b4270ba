//! The wakes that wait for a source's task.
//!
//! Invariant: wakes that wait together become one, the strongest, and are answered together; whoever waits is answered,
//! or learns that the task has ended.
//!
//! Cost: O(1).

use crate::source::{Wake, WakeKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Requests that may wait for an answer at a time; more are turned away.
const MOST_WAITING: usize = 64;

/// The answer to whoever sent a wake.
pub type Answer = oneshot::Sender<Result<String, String>>;

/// Requests that wait together.
#[derive(Default)]
pub struct Call {
    /// The strongest of them.
    pub kind: Option<WakeKind>,
    /// When the first of them came.
    pub since: Option<Instant>,
    pub answers: Vec<Answer>,
}

impl Call {
    /// Answers everyone, and leaves no request.
    pub fn answer(&mut self, result: &Result<String, String>) {
        for done in std::mem::take(self).answers {
            // Whoever asked may have gone.
            let _ = done.send(result.clone());
        }
    }
}

/// Wakes on their way to a task.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

/// Requests that wait for the task, as long as there is one.
#[derive(Default)]
struct Waiting {
    call: Call,
    ended: bool,
}

impl Inbox {
    /// Takes a wake and rings.
    pub fn push(&self, wake: Wake) {
        let mut waiting = self.lock();
        if let Some(done) = wake.done {
            let refusal = if waiting.ended {
                Some("the zone's task has ended")
            } else if waiting.call.answers.len() >= MOST_WAITING {
                Some("too many requests for this zone are waiting")
            } else {
                None
            };
            if let Some(refusal) = refusal {
                // Whoever asked may have gone.
                let _ = done.send(Err(refusal.to_owned()));
                return;
            }
            waiting.call.answers.push(done);
        }
        waiting.call.kind = Some(stronger(waiting.call.kind, wake.kind));
        waiting.call.since.get_or_insert_with(Instant::now);
        drop(waiting);
        self.bell.notify_one();
    }

    /// The wakes, for a moment.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The strongest request that waits.
    pub fn kind(&self) -> Option<WakeKind> {
        self.lock().call.kind
    }

    /// Takes all that wait.
    pub fn take(&self) -> Call {
        std::mem::take(&mut self.lock().call)
    }

    /// Ready once there was a wake since the last time.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Turns everyone away from now on.
    pub fn end(&self) {
        *self.lock() = Waiting { call: Call::default(), ended: true };
    }
}

/// The stronger of two requests, which does what the weaker asks for, too.
fn stronger(waiting: Option<WakeKind>, new: WakeKind) -> WakeKind {
    let reach = |kind: WakeKind| match kind {
        WakeKind::Announced => 0,
        WakeKind::Refresh => 1,
        WakeKind::Audit => 2,
        WakeKind::Retransfer { accept: false } => 3,
        WakeKind::Retransfer { accept: true } => 4,
    };
    waiting.filter(|kind| reach(*kind) >= reach(new)).unwrap_or(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_wake_wins_and_all_are_answered() {
        let inbox = Inbox::default();
        let (done, mut answer) = oneshot::channel();
        inbox.push(Wake { kind: WakeKind::Audit, done: Some(done) });
        inbox.push(Wake { kind: WakeKind::Refresh, done: None });
        {
            let Waiting { call, .. } = &*inbox.lock();
            assert_eq!((call.kind, call.answers.len()), (Some(WakeKind::Audit), 1));
        }
        inbox.end();
        assert!(answer.try_recv().is_err());
        let (done, mut answer) = oneshot::channel();
        inbox.push(Wake { kind: WakeKind::Refresh, done: Some(done) });
        assert_eq!(answer.try_recv().unwrap(), Err("the zone's task has ended".to_owned()));
    }
}
