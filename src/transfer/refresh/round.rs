//! A round through the primaries: in which order they are asked, and when it ends.
//!
//! Invariant: a primary at which there is no place for a poll has not failed; it is asked later in the same round.
//!
//! Cost: O(primaries), beside what is asked.

use super::{Refreshed, Task};
use crate::source::WakeKind;
use crate::transfer::serial_regression::Answers;
use crate::transfer::timers;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Every how many refreshes the primaries are gone through in their order, whichever was good last.
const ROUNDS_WITH_THE_SAME: u32 = 16;

impl Task {
    /// Goes through the primaries until one is good.
    pub(super) async fn refresh(&mut self, kind: WakeKind) -> Result<Refreshed, String> {
        let mut problems = Vec::new();
        let mut answers = Answers::default();
        let mut order: Vec<usize> = (0..self.plan.primaries.len()).collect();
        // A primary further down is kept while it is good, but the order means something: now and then it is followed.
        self.rounds = self.rounds.wrapping_add(1);
        if !self.rounds.is_multiple_of(ROUNDS_WITH_THE_SAME) {
            order.sort_by_key(|index| *index != self.good);
        }
        // Whoever has no place for a poll is asked when all others were, however long that takes.
        let mut order: VecDeque<(usize, bool)> =
            order.into_iter().map(|index| (index, self.plan.primaries.len() == 1)).collect();
        while let Some((index, is_patient)) = order.pop_front() {
            let result = if kind == WakeKind::Refresh {
                let Some(turn) = self.poll_turn(index, is_patient).await else {
                    order.push_back((index, true));
                    continue;
                };
                self.try_primary(index, turn, &mut answers).await
            } else {
                self.try_copy(index, kind, &mut answers).await
            };
            match result {
                Ok(outcome) => {
                    self.good = index;
                    self.regression.older = None;
                    return Ok(outcome);
                }
                Err(error) => problems.push(format!("{}: {error}", self.accounts.primary(index))),
            }
        }
        // Requests may come as fast as they like; what counts is as far apart as the first try after a failure.
        let pause = timers::after_failure(&self.plan.zone, None, 1, &self.plan.timers);
        if let Some(older) = self.regression.count(&answers, self.plan.primaries.len(), pause, Instant::now()) {
            match self.go_back(kind, &older).await {
                Some(Ok(outcome)) => return Ok(outcome),
                Some(Err(error)) => problems.push(format!("{}: {error}", self.accounts.primary(older.primary))),
                None => {
                    problems.push(format!("all that answer are older, and ours is kept {}", self.describe_wait(&older)))
                }
            }
        }
        Err(problems.join("; "))
    }
}
