//! What a tree's task claims of the budget of memory: a reading while it comes, and its zones before they are published.
//!
//! The nodes that are mirrored count beside the versions of the forward zone. A whole reading takes the place of another, and
//! waits for its turn like the transfer of a whole zone; one of events adds to what is there.
//!
//! Invariant: what is refused leaves the zones as they are, and the mirror empty if it had changed already. The session ends;
//! the next one begins later each time and reads the whole tree, which is always taken if it is no larger than what is there.
//!
//! Cost: O(1) for each answer and zone, beside the waiting.

use super::super::error::SessionError;
use super::super::mirror::Mirror;
use super::Task;
use crate::budget::{Claim, Manner};
use crate::discovery::TreeZone;
use crate::zone::Zone;
use std::sync::Arc;

/// A claim on what a zone takes, and the version that it replaces.
type Replacing = (Claim, Option<Arc<Zone>>);

impl Task {
    /// Octets of the zone that is served.
    pub(super) fn octets(&self) -> u64 {
        let root = self.publisher.load();
        root.get(self.plan.zone()).and_then(|served| served.zone.as_ref()).map_or(0, |zone| zone.octets())
    }

    /// Claims what zones take more than before. Where there is no room for that, the tree that they were made of is let go of,
    /// so that what is served has room.
    pub(super) async fn claim(&self, changed: &[TreeZone]) -> Result<Vec<Replacing>, SessionError> {
        let mut claims = Vec::new();
        for TreeZone { zone, loaded, base } in changed {
            let before = base.as_ref().map_or(0, |base| base.octets());
            let claim = self.budget.begin(zone, Manner::Change);
            if let Err(excess) = claim.grow(loaded.zone.octets().saturating_sub(before)).await {
                *self.shared.mirror() = Mirror::new(&self.plan);
                self.budget.set_beside(self.plan.zone(), 0);
                return Err(excess.into());
            }
            claims.push((claim, base.clone()));
        }
        Ok(claims)
    }
}

/// Reads for as long as the claim on memory holds.
pub(super) async fn granted<T>(
    claim: &Claim,
    reading: impl Future<Output = Result<T, SessionError>>,
) -> Result<T, SessionError> {
    tokio::select! {
        biased;
        excess = claim.refused() => Err(excess.into()),
        read = reading => read,
    }
}
