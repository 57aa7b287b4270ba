//! What the disk has refused, and when it is tried again: one thing at a time, ever less often, until it works.
//!
//! Invariant: it is told once when something fails and once when all works again.
//!
//! Cost: O(things that fail).

use super::Shared;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::Name;

/// First wait after the disk has refused something; each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Zones whose work the disk has refused; regions have no name.
pub struct Failures {
    shared: Arc<Shared>,
    /// The next to be tried first.
    failing: VecDeque<Option<Name>>,
    /// Time of the next try.
    pub next: Option<Instant>,
    delay: Duration,
}

impl Failures {
    /// Begins when nothing has failed.
    pub fn new(shared: Arc<Shared>) -> Failures {
        Failures { shared, failing: VecDeque::new(), next: None, delay: FIRST_RETRY }
    }

    /// Counts and tells a failure, and plans the next try.
    pub fn note(&mut self, name: Option<Name>, operation: &'static str, text: String) {
        self.shared.count(operation);
        if self.failing.is_empty() {
            tracing::error!(
                operation,
                "state on disk cannot be kept, and would be missing after a restart; serving goes on, and so do tries: {text}"
            );
        } else {
            tracing::debug!(operation, "state on disk cannot be kept: {text}");
        }
        if !self.failing.contains(&name) {
            self.failing.push_back(name);
        }
        self.shared.set_refusal(Some(text));
        if self.next.is_none() {
            self.next = Some(Instant::now() + self.delay);
            self.delay = (self.delay * 2).min(LAST_RETRY);
        }
    }

    /// Notes that something works that may have failed before.
    pub fn recover(&mut self, name: &Option<Name>) {
        let Some(index) = self.failing.iter().position(|failing| failing == name) else { return };
        self.failing.remove(index);
        self.delay = FIRST_RETRY;
        if self.failing.is_empty() {
            tracing::info!("state on disk is kept again");
            self.next = None;
            self.shared.set_refusal(None);
        } else {
            self.next = Some(Instant::now());
        }
    }

    /// What is to be tried again, if it is time.
    pub fn due(&mut self) -> Option<Option<Name>> {
        self.next.take_if(|at| *at <= Instant::now())?;
        let name = self.failing.front().cloned()?;
        self.failing.rotate_left(1);
        Some(name)
    }
}
