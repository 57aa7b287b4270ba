//! Threads for work that may have to wait for a disk, so that nothing else waits for it.
//!
//! A system call on a disk that does not answer cannot be ended. So it is made in a thread of its own, and whoever
//! asked for it may stop waiting; the end of the process ends the thread. The runtime's own threads for such work would
//! hold up the end of the runtime.
//!
//! Invariant: threads that were given up are few; beyond [`MOST_LOST`] nothing more is read until one of them is back.
//!
//! Cost: a thread for each call, which is for whole configurations and folders.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Threads that may wait for the disk although nobody waits for them any more.
const MOST_LOST: usize = 4;
/// Time after which the log tells that the server waits for the disk.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// Error: work on the disk was not done.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("cannot start a thread to {0}: {1}; raise the limit on processes and threads (ulimit -u, TasksMax=)")]
    Thread(&'static str, std::io::Error),
    #[error("the disk does not answer: to {0} takes longer than {1:?}")]
    Silent(&'static str, Duration),
    #[error("the disk does not answer: earlier work still waits for it, so that nothing more is begun to {0}")]
    Full(&'static str),
    #[error("a defect has ended the thread that was to {0}; the log has more")]
    Panicked(&'static str),
}

/// The work that is under way.
#[derive(Clone, Default)]
pub struct DiskWork(Arc<()>);

impl DiskWork {
    /// Does some work, described by a verb and what follows it; gives up after `patience`, if there is any limit.
    pub async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        patience: Option<Duration>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        if Arc::strong_count(&self.0) > MOST_LOST + 1 {
            return Err(DiskError::Full(what));
        }
        let (sender, result) = oneshot::channel();
        let counted = self.0.clone();
        let run = move || {
            // Whoever asked may have stopped waiting.
            let _ = sender.send(work());
            drop(counted);
        };
        let thread = std::thread::Builder::new().name("disk".into()).spawn(run);
        thread.map_err(|error| DiskError::Thread(what, error))?;
        let told = async {
            tokio::time::sleep(TELL_AFTER).await;
            tracing::warn!("waiting for the disk to {what}; it may not answer");
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            result = result => result.map_err(|_| DiskError::Panicked(what)),
            () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)) => Err(DiskError::Silent(what, patience.unwrap_or_default())),
            never = told => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn who_waits_too_long_is_told_and_nothing_is_lost_for_good() {
        let disk = DiskWork::default();
        assert_eq!(disk.run("count", None, || 7).await.unwrap(), 7);
        assert!(matches!(disk.run("count", None, || panic!("as planned")).await, Err::<(), _>(DiskError::Panicked(_))));
        let ends: Vec<_> = (0..=MOST_LOST).map(|_| mpsc::channel::<()>()).collect();
        let (ends, waits): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        for wait in waits {
            let result = disk.run("read", Some(Duration::from_millis(1)), move || wait.recv().is_err()).await;
            assert_eq!(result.unwrap_err().to_string(), "the disk does not answer: to read takes longer than 1ms");
        }
        assert!(matches!(disk.run("read", None, || ()).await, Err(DiskError::Full(_))));
        drop(ends);
        while disk.run("read", None, || ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
