//! The turns that a poll or a transfer waits for: a place in the queue in front of its primary, and for a transfer of
//! the whole zone, or of differences that memory has no room for beside it, room in memory.
//!
//! Invariant: whoever waits for the one holds nothing of the other, so that neither a slow primary nor a large zone
//! elsewhere keeps other zones waiting. Cost: O(1), beside the waiting.

use super::Task;
use crate::budget::{Claim, Manner as Purpose};
use crate::transfer::account::Kind;
use crate::transfer::error::TransferError;
use crate::transfer::queue::Turn;
use crate::transfer::status::Activity;
use tokio::time::timeout;

impl Task {
    /// Waits until a primary may be polled; whoever is not patient, only for a while. A refresh that somebody calls for
    /// goes before those of timers, even if it waits already.
    pub(super) async fn poll_turn(&self, index: usize, is_patient: bool) -> Option<Turn> {
        let primary = self.plan.primaries[index].address;
        let called = async {
            while !self.asked && self.shared.inbox.kind().is_none() {
                self.shared.inbox.rung().await;
            }
            self.turns.called_poll(primary).await
        };
        let turn = async {
            tokio::select! {
                turn = self.turns.timer_poll(primary), if !self.asked => turn,
                turn = called => turn,
            }
        };
        self.shared.status().turn_to(Activity::Queued);
        if is_patient {
            return Some(turn.await);
        }
        timeout(self.plan.limits.message_timeout, turn).await.ok()
    }

    /// Waits until a transfer from a primary may begin; where the zone has another primary, only for a while.
    pub(super) async fn transfer_turn(&self, index: usize, kind: Kind) -> Result<Turn, TransferError> {
        let (limits, primary) = (&self.plan.limits, self.plan.primaries[index].address);
        let turn = self.turns.transfer(primary, limits.per_primary);
        self.shared.status().turn_to(Activity::Queued);
        if self.plan.primaries.len() == 1 {
            return Ok(turn.await);
        }
        match timeout(limits.message_timeout, turn).await {
            Ok(turn) => Ok(turn),
            Err(_) => self.accounts.note(index, kind, Err(TransferError::Queue(limits.per_primary))),
        }
    }

    /// Waits until a primary has a place for the transfer of a whole zone, or of differences in their turn, and memory
    /// has room for it.
    pub(super) async fn turns(&self, index: usize, purpose: Purpose) -> Result<(Turn, Claim), TransferError> {
        let kind = if purpose == Purpose::Replace { Kind::Axfr } else { Kind::Ixfr };
        loop {
            let turn = self.transfer_turn(index, kind).await?;
            let claim = self.budget.begin(&self.plan.zone, purpose);
            if let Some(has_room) = at_once(claim.take_turn()).await {
                has_room?;
                return Ok((turn, claim));
            }
            drop(turn);
            self.shared.status().turn_to(Activity::Waiting);
            claim.take_turn().await?;
            let (primary, limit) = (self.plan.primaries[index].address, self.plan.limits.per_primary);
            if let Some(turn) = at_once(self.turns.transfer(primary, limit)).await {
                return Ok((turn, claim));
            }
        }
    }
}

/// Returns what comes of a future that need not be waited for.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        result = future => Some(result),
        () = std::future::ready(()) => None,
    }
}
