//! Transfers of differences, and the room in memory that they need.
//!
//! They are claimed as they come, removals included, beside the version that is there. Where memory has no room for
//! that they are asked for once more in a turn, as a whole zone would be, and may then take as much as the zone that is
//! there until the version is made, which claims what it takes more than the one before. So removals get through
//! whatever the budget, and differences that would make the zone too large are asked for again later. The whole zone,
//! which may fit where they do not, is transferred at once the first time that they take more than the zone that is
//! there, and then ever less often until differences are taken again.
//!
//! Cost: one round trip, and another one where memory is full; O(records at the names that changed).

use super::{Aim, Candidate, Refreshed, Task};
use crate::budget::{Claim, Manner as Purpose};
use crate::client::random_id;
use crate::source::WakeKind;
use crate::transfer::account::Kind;
use crate::transfer::connection::{self, Traffic};
use crate::transfer::error::TransferError;
use crate::transfer::ixfr;
use crate::transfer::queue::Turn;
use crate::transfer::reader::{Reader, Received};
use crate::transfer::recourse::Recourse;
use crate::transfer::version::Version;
use crate::zone::Zone;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;
use wire::serial::Serial;

/// The shortest pause between two whole zones in place of differences for which there is no room.
const SHORTEST: Duration = Duration::from_secs(60);
/// The longest of these pauses, in which there is an audit as a rule.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The whole zones that are transferred because memory has no room for differences.
#[derive(Default)]
pub(super) struct Detours {
    pause: Option<Duration>,
    /// Time from which there may be another one.
    again: Option<Instant>,
}

impl Detours {
    /// Takes the whole zone that may be transferred now.
    fn take(&mut self, now: Instant) -> bool {
        let is_time = self.again.is_none_or(|again| now >= again);
        if is_time {
            let pause = self.pause.map_or(SHORTEST, |pause| pause.saturating_mul(2).min(LONGEST));
            (self.pause, self.again) = (Some(pause), Some(now + pause));
        }
        is_time
    }
}

impl Task {
    /// Transfers what has changed up to the serial that the poll brought. `None` when that did not come about and the
    /// whole zone must be asked for.
    pub(super) async fn transfer_changes(
        &mut self,
        index: usize,
        before: Arc<Zone>,
        polled: Serial,
    ) -> Result<Option<Refreshed>, TransferError> {
        let turn = self.transfer_turn(index, Kind::Ixfr).await?;
        let (mut heard, ours) = (Instant::now(), before.soa.serial);
        self.accounts.note_begin(index, Kind::Ixfr, None);
        let aim = Aim { polled: Some(polled), ..Aim::of(WakeKind::Refresh) };
        let mut claim = self.budget.begin(&self.plan.zone, Purpose::Change);
        let mut fetched = self.fetch_changes(index, &before, polled, (turn, &claim)).await;
        // A whole zone that came in place of differences is asked for as such.
        let is_change = claim.manner() == Some(Purpose::Change);
        if matches!(fetched, Err(TransferError::Memory(_))) && is_change && claim.asked() <= before.octets() {
            debug!(zone = %self.accounts.zone(), "no room for differences beside the zone; they wait for their turn");
            drop(claim);
            let turn;
            (turn, claim) = self.turns(index, Purpose::ChangeInTurn).await?;
            self.accounts.note_begin(index, Kind::Ixfr, None);
            heard = Instant::now();
            fetched = self.fetch_changes(index, &before, polled, (turn, &claim)).await;
        }
        let candidate = match fetched {
            // Nothing else happened under our serial, and CNS has seen a transfer.
            Ok((Received::NotNewer(soa), _)) if polled == ours && soa.serial == ours => {
                self.ears.note_nothing(index, Some(&soa));
                return Ok(None);
            }
            Ok((received, traffic)) => self.examine(index, received, traffic, aim).await,
            Err(error) => Err(error),
        };
        match candidate.and_then(|candidate| self.weigh(index, candidate)) {
            Ok(candidate) if candidate.may_lack_names() => {
                self.accounts.note_mixed(index);
                Ok(None)
            }
            Ok(candidate) => {
                self.manners[index].note_answer();
                self.accounts.note_differences(index);
                let candidate = self.accounts.note(index, candidate.kind, candidate.weigh_growth(&claim).await)?;
                self.detours = Detours::default();
                let outcome = self.adopt(index, aim.kind, candidate, heard).await?;
                if !self.serves(Some(&before)) {
                    claim.note_published(Some(before));
                }
                Ok(Some(outcome))
            }
            Err(error) if ixfr::is_unreachable(&error) => self.accounts.note(index, Kind::Ixfr, Err(error)),
            // A whole zone that came in place of differences had no turn, and needs one.
            Err(error @ TransferError::Memory(_))
                if claim.manner() != Some(Purpose::Replace) && !self.detours.take(Instant::now()) =>
            {
                self.accounts.note(index, Kind::Ixfr, Err(error))
            }
            Err(error) => {
                let pause = self.manners[index].note_failure(&error, Instant::now());
                self.accounts.note_no_differences(index, &error, pause);
                Ok(None)
            }
        }
    }

    /// Asks a primary for differences, and reads the answer. The primary has just announced the serial `polled`; if that
    /// is ours, what else happened under it is asked for.
    async fn fetch_changes(
        &mut self,
        index: usize,
        base: &Arc<Zone>,
        polled: Serial,
        (turn, claim): (Turn, &Claim),
    ) -> Result<(Received, Traffic), TransferError> {
        let asked = Instant::now();
        let (primary, limits, tally) = (&self.plan.primaries[index], &self.plan.limits, &self.shared.own.tally);
        let reader = Reader::ixfr(base.clone(), random_id()).doubting(base.mixed.seen_at(polled));
        let reader = if polled == base.soa.serial { reader.with_same_serial() } else { reader };
        let fetched = connection::fetch(reader, primary, limits, tally, claim).await;
        drop(turn);
        self.note_step("IXFR", asked);
        fetched
    }

    /// Notes what was done about removals in doubt. If some got no answer the whole zone may be wanted in place of the
    /// version.
    fn weigh(&mut self, index: usize, mut candidate: Candidate) -> Result<Candidate, TransferError> {
        self.accounts.note_doubts(index, &candidate.remaining);
        let unanswered = &candidate.remaining.unanswered;
        if !unanswered.is_empty() && self.recourse.wants_whole(unanswered, Instant::now()) {
            return Err(TransferError::Unanswered(unanswered.len()));
        }
        if let Some(Version { loaded, .. }) = &mut candidate.version {
            Recourse::tell(&mut loaded.zone, &loaded.touched, unanswered);
        }
        Ok(candidate)
    }
}

impl Candidate {
    /// Claims what the version takes in place of the one before, unless its differences have been claimed as growth, or
    /// only remove.
    async fn weigh_growth(self, claim: &Claim) -> Result<Candidate, TransferError> {
        let is_claimed = claim.manner() == Some(Purpose::Change);
        if let Some(version) = self.version.as_ref().filter(|version| version.adds && !is_claimed) {
            claim.grow(version.loaded.zone.octets()).await?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_zones_in_place_of_differences_are_ever_rarer() {
        let (mut detours, mut now) = (Detours::default(), Instant::now());
        for minutes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440] {
            assert!(detours.take(now));
            now += SHORTEST * minutes;
            assert!(!detours.take(now - SHORTEST / 2));
        }
    }
}
