//! The keeper's pulse: whether it works on a batch, and since when; and the end of the process once it has panicked.
//!
//! The keeper is the one writer: while it stands, nothing changes and nothing expires, and answers look as healthy as
//! before. So whoever watches is told for how long a batch has been worked on, also of one that ended in a panic.
//!
//! After a panic another process has to go on, from what is on disk: half a batch is nothing to go on from. The service
//! manager starts it, and keeps the sockets meanwhile. Should it be the data that makes the keeper panic, every process
//! would; so one that has only just started answers on, with what it has, before it ends. With [`LEAST_RUN`] between
//! two ends clients are answered for all but moments of the time.
//!
//! Cost: two stores for a batch.

use crate::metrics::Metrics;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Shortest time from the start to the end of a process whose keeper panics.
const LEAST_RUN: Duration = Duration::from_secs(300);
/// Time that a batch takes only where something is wrong: a merge of many millions of records takes less.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Time at which the present batch began.
pub struct Pulse {
    /// Time from which on moments are counted.
    base: Instant,
    /// Milliseconds from there to the beginning of the batch, plus one; 0 while there is none.
    began: AtomicU64,
}

impl Pulse {
    /// The pulse of a keeper that has nothing to do yet.
    pub fn new() -> Arc<Pulse> {
        Arc::new(Pulse { base: Instant::now(), began: AtomicU64::new(0) })
    }

    /// Milliseconds since the base, plus one.
    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Notes that a batch begins.
    pub fn begin(&self) {
        self.began.store(self.now(), Ordering::Relaxed);
    }

    /// Notes that the batch is done.
    pub fn end(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// Returns for how long the present batch has been worked on, or how long ago the one began that was the last.
    pub fn busy(&self) -> Duration {
        match self.began.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began => Duration::from_millis(self.now().saturating_sub(began)),
        }
    }

    /// Shows it whenever metrics are read.
    pub fn show_when_read(self: &Arc<Self>, metrics: &Metrics) {
        let pulse = self.clone();
        metrics.set_when_read("pulse", move |metrics| metrics.keeper_busy.set(pulse.busy().as_secs_f64()));
    }
}

/// Runs the keeper, and tells by `running` that it does. If it panics, `end` follows once the process has run for long
/// enough.
pub(super) async fn supervise(keeper: impl Future<Output = ()>, running: watch::Sender<()>, end: impl FnOnce()) {
    let least = Instant::now() + LEAST_RUN;
    let mut keeper = Box::pin(keeper);
    let has_panicked = std::future::poll_fn(|context| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| keeper.as_mut().poll(context))) {
            Ok(polled) => polled.map(|()| false),
            Err(_) => std::task::Poll::Ready(true),
        }
    });
    if !has_panicked.await {
        return;
    }
    // What is left of it is closed, so that nobody waits for it.
    drop((keeper, running));
    let ends_in = least.saturating_duration_since(Instant::now()).as_secs();
    tracing::error!(
        ends_in,
        "the keeper has panicked: answers stay as they are until the process ends, so that the service \
         manager starts another; please report what the log says"
    );
    sleep_until(least).await;
    end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use tokio::time::{advance, sleep};

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_busy_until_it_is_done() {
        let pulse = Pulse::new();
        assert_eq!(pulse.busy(), Duration::ZERO);
        advance(Duration::from_secs(7)).await;
        pulse.begin();
        advance(Duration::from_secs(90)).await;
        assert_eq!(pulse.busy(), Duration::from_secs(90));
        pulse.end();
        assert_eq!(pulse.busy(), Duration::ZERO);
    }

    /// Returns how long after its start a process ends whose keeper panics at some time; none if it does not end.
    async fn end_of(panics: Option<u64>) -> Option<u64> {
        let (running, mut ended) = watch::channel(());
        let (is_over, start) = (AtomicBool::new(false), Instant::now());
        let keeper = async {
            sleep(Duration::from_secs(panics.unwrap_or(1000))).await;
            assert!(panics.is_none(), "a panic that the test wants");
        };
        let supervised = supervise(keeper, running, || is_over.store(true, Ordering::Relaxed));
        // Nobody waits for a keeper that is gone, however long the process lives on.
        let waiting = async {
            assert!(ended.changed().await.is_err());
            start.elapsed().as_secs()
        };
        let ((), noticed) = tokio::join!(supervised, waiting);
        assert_eq!(noticed, panics.unwrap_or(1000));
        is_over.into_inner().then(|| start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_keeper_panics_early_answers_on_for_a_while() {
        assert_eq!(end_of(None).await, None);
        assert_eq!(end_of(Some(2)).await, Some(300));
        assert_eq!(end_of(Some(299)).await, Some(300));
        assert_eq!(end_of(Some(4000)).await, Some(4000));
    }
}
