//! Tasks that run again after a panic: what they do must not silently stay undone for ever.
//!
//! Cost: one task more for each of them.

use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Pause before a task that panicked runs again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(5);

/// Runs a task, and another one each time that it panics, until one returns. `log_panic` writes the log line, since its
/// target is a constant.
pub async fn keep_running<F>(task: impl Fn() -> F, log_panic: impl Fn())
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        // The set ends its task when this one is ended.
        let mut running = JoinSet::new();
        running.spawn(task());
        match running.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                log_panic();
                sleep(PAUSE_AFTER_PANIC).await;
            }
            _ => return,
        }
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
