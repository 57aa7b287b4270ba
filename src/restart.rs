//! Panics: how many there were, and tasks that run again after one: what they do must not silently stay undone for ever.
//!
//! Cost: none beside the task.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// Pause before a task that panicked runs again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(5);

/// Panics of this process so far, whatever became of them.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts a panic.
pub fn note_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Number of panics so far.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Runs a task, and another one each time that it panics, until one returns. `log_panic` writes the log line, since its
/// target is a constant.
pub async fn keep_running<F: Future<Output = ()>>(task: impl Fn() -> F, log_panic: impl Fn()) {
    loop {
        {
            let mut running = pin!(task());
            let is_done = poll_fn(|context| {
                // What a panic leaves is dropped, and nothing looks at it.
                let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context)));
                polled.map_or(Poll::Ready(false), |polled| polled.map(|()| true))
            });
            if is_done.await {
                return;
            }
        }
        log_panic();
        sleep(PAUSE_AFTER_PANIC).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_runs_again_until_one_returns() {
        let (begun, logged) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
        let task = || {
            let begun = begun.clone();
            async move { assert!(begun.fetch_add(1, Relaxed) == 2, "a panic that the test wants") }
        };
        let log_panic = || {
            logged.fetch_add(1, Relaxed);
        };
        let start = tokio::time::Instant::now();
        keep_running(task, log_panic).await;
        assert_eq!((begun.load(Relaxed), logged.load(Relaxed)), (3, 2));
        assert_eq!(start.elapsed(), 2 * PAUSE_AFTER_PANIC);
    }
}
