//! Claims of a tree's task on the budget of memory: a reading while it comes, and its zones before they are published.
//!
//! The nodes that are mirrored count beside the versions of the forward zone. A whole reading takes the place of
//! another, and waits for its turn like the transfer of a whole zone; one of events adds to what is there. Where there
//! is no room for that it takes a turn, too, and claims what comes of it: a tree that gets no larger by events needs no
//! more than that.
//!
//! Invariant: what is refused leaves the zones as they are, and the mirror empty if it had changed already. The session
//! ends; the next one begins later each time and reads the whole tree, which is always taken if it is no larger than
//! what is there. After events were refused that is no sign of room: the next events are, or a quiet time.
//!
//! Cost: O(1) for each answer and zone, beside the waiting.

use super::super::error::SessionError;
use super::super::link::Link;
use super::super::mirror::Mirror;
use super::super::reader::{Reading, read_touched};
use super::{Task, Touched};
use crate::budget::{Claim, Manner};
use crate::source::zookeeper::zones::TreeZone;
use crate::zone::Zone;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;

/// Time without events after which a tree counts as one that fits, once events were refused; longer than the alert
/// waits.
const QUIET: Duration = Duration::from_secs(600);

/// A claim on what a zone takes, and the version that it replaces.
type Replacing = (Claim, Option<Arc<Zone>>);

impl Task {
    /// Octets of the zone that is served.
    pub(super) fn octets(&self) -> u64 {
        let root = self.shared.facilities.publisher.load();
        root.get(self.plan.zone()).and_then(|served| served.zone.as_ref()).map_or(0, |zone| zone.octets())
    }

    /// Reads what events have touched, in a turn where there is no room for it beside the tree that is there.
    pub(super) async fn read_with_room(
        &self,
        link: &Link,
        touched: &Touched,
    ) -> Result<(Reading, Claim), SessionError> {
        let claim = self.budget.begin(self.plan.zone(), Manner::Change);
        match self.read_claimed(link, touched, &claim).await {
            Err(SessionError::Memory(_)) => drop(claim),
            read => return Ok((read?, claim)),
        }
        debug!(zone = self.account.zone(), "no room for events beside the tree; they wait for their turn");
        let claim = self.budget.begin(self.plan.zone(), Manner::ChangeInTurn);
        claim.take_turn().await?;
        Ok((self.read_claimed(link, touched, &claim).await?, claim))
    }

    /// Reads what events have touched, within a claim.
    async fn read_claimed(&self, link: &Link, touched: &Touched, claim: &Claim) -> Result<Reading, SessionError> {
        let children = |path: &str| self.shared.own.mirror().tree.children(path);
        let reading = granted(claim, read_touched(link, touched, &children, self.bounds(), claim)).await?;
        self.account.note_contact();
        if claim.manner() == Some(Manner::Change) {
            let octets = self.shared.own.mirror().octets_of(&reading);
            claim.grow_beside(0, octets).await?;
        } else {
            let octets = self.shared.own.mirror().octets_with(&reading);
            claim.grow_beside(self.octets(), octets).await?;
        }
        Ok(reading)
    }

    /// Notes that there is room for the tree, unless events were refused not long ago and none has been taken since.
    pub(super) fn note_room(&mut self, refused: Option<Instant>) {
        self.refused = refused.filter(|refused| refused.elapsed() < QUIET);
        if self.refused.is_none() {
            self.account.note_room();
        }
    }

    /// Claims what zones take more than before. Where there is no room for that, the tree that they were made of is let
    /// go of, so that what is served has room.
    pub(super) async fn claim(&self, changed: &[TreeZone]) -> Result<Vec<Replacing>, SessionError> {
        let mut claims = Vec::new();
        for TreeZone { zone, loaded, base } in changed {
            let before = base.as_ref().map_or(0, |base| base.octets());
            let claim = self.budget.begin(zone, Manner::Change);
            if let Err(excess) = claim.grow(loaded.zone.octets().saturating_sub(before)).await {
                *self.shared.own.mirror() = Mirror::new(&self.plan);
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
