//! Waiting for conditions.

use std::time::{Duration, Instant};

/// Calls `probe` until it returns a value; panics with `what` after `deadline`.
pub fn wait_until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < deadline, "waited {deadline:?} in vain until {what}");
        // Only the rhythm of asking again; the condition decides.
        std::thread::sleep(Duration::from_millis(10));
    }
}
