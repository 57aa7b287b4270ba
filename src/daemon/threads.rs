//! Number of threads that a server needs, checked before the start.
//!
//! A system that gives fewer threads than a server needs (`RLIMIT_NPROC`, `pids.max`) would let it start in part: the
//! runtime ends the process with a defect, listeners fail after others have begun. So as many threads as a start needs
//! are there once at the same time, and gone again, before anything is promised to anybody.
//!
//! Cost: some tens of microseconds a thread, once.

use crate::config::Config;
use std::time::{Duration, Instant};

/// Threads beside those of the runtime and of UDP: one that writes the log, two for the state on disk, one that reads
/// it, and some for work on zones, which do without if there are none.
const OTHERS: usize = 9;
/// Longest time that the system may take to forget a thread that has ended.
const FORGETTING: Duration = Duration::from_secs(1);

/// The system gives too few threads.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system gives this process {given} of the {wanted} threads that it needs ({error}); raise the limit on processes and \
     threads (ulimit -u, TasksMax= of systemd, pids.max), or listen on fewer addresses with fewer udp_threads"
)]
pub struct TooFewThreads {
    given: usize,
    wanted: usize,
    error: std::io::Error,
}

/// Makes sure that the system gives the threads that a server needs. Returns the number of those for the runtime.
pub fn reserve(config: &Config) -> Result<usize, TooFewThreads> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = workers + config.listen.dns.len() * config.listen.udp_threads + OTHERS;
    let before = count();
    let mut threads = Vec::new();
    let mut failed = None;
    for _ in 0..wanted {
        // Each waits until all are made; to wake up before costs nothing but exactness.
        match std::thread::Builder::new().spawn(std::thread::park) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let given = threads.len();
    for thread in threads {
        thread.thread().unpark();
        // It does nothing that could panic.
        let _ = thread.join();
    }
    let deadline = Instant::now() + FORGETTING;
    while count() > before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    failed.map_or(Ok(workers), |error| Err(TooFewThreads { given, wanted, error }))
}

/// Returns the number of threads that this process has; 0 if the system does not tell.
fn count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
