//! Judgement of a version that a transfer has brought: whether it may replace the served one, has to wait, or is refused.
//!
//! Cost: O(1); for a catalog O(names).

use super::Task;
use crate::catalog::listing::Listing;
use crate::source::WakeKind;
use crate::transfer::guard::{Held, Verdict};
use crate::zone::Zone;
use tokio::time::Instant;
use tracing::{debug, warn};
use wire::name::Name;
use wire::serial::Serial;

/// Zones that a message names at most.
const NAMED: usize = 5;

impl Task {
    /// Judges a version that would replace another one. Returns why it has to wait, in words; none if it may be adopted.
    pub(super) fn judge(
        &mut self,
        index: usize,
        wake: WakeKind,
        (new, listing): (&Zone, Option<Listing>),
        served: Option<&Zone>,
    ) -> Option<String> {
        let (limits, now) = (&self.plan.limits, Instant::now());
        let is_accepted = wake == (WakeKind::Retransfer { accept: true });
        let before = self.guard.held().map(|held| held.serial);
        if is_accepted {
            self.guard.accept();
            return None;
        }
        let verdict = match self.plan.catalog.zip(listing) {
            Some((catalog, listing)) => {
                // What is served may be from before the zone was taken for a catalog.
                let served = served.and_then(|served| Listing::read(served, usize::MAX).ok()).unwrap_or_default();
                let judged = (new.soa.serial, &listing);
                self.guard.judge_catalog(&served, judged, wake, (limits, catalog.hold_share), now)
            }
            None => {
                let names = served.map_or(0, |zone| zone.owners);
                self.guard.judge(names, (new.soa.serial, new.owners), wake, limits, now)
            }
        };
        let held = self.guard.held().filter(|_| verdict == Verdict::Hold);
        held.map(|held| self.tell_of_hold(index, held, before))
    }

    /// Tells that a version has to wait, aloud unless it did before.
    fn tell_of_hold(&self, index: usize, held: &Held, before: Option<Serial>) -> String {
        let (serial, pause) = (held.serial, self.plan.limits.confirm_after);
        let text = match &held.leaving {
            None => {
                let Held { names, served_names, peak_names, .. } = held;
                let peak = Some(peak_names).filter(|peak| *peak > served_names);
                let peak = peak.map(|peak| format!(" and an earlier one had {peak}")).unwrap_or_default();
                format!(
                    "serial {serial} is held back: {names} names with records, the served version has {served_names}{peak}; \
                     it is transferred again in {pause:?}, or adopt it now with an accepted retransfer"
                )
            }
            Some(leaving) => {
                let mut zones: Vec<&Name> = leaving.zones.iter().collect();
                zones.sort_by(|one, other| one.canonical_cmp(other));
                let more = zones.len().saturating_sub(NAMED);
                let named: Vec<String> = zones.iter().take(NAMED).map(ToString::to_string).collect();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let next = match leaving.needs_operator {
                    true => "they stay until an accepted retransfer lets them go".to_owned(),
                    false => {
                        format!("it is transferred again in {pause:?}, or adopt it now with an accepted retransfer")
                    }
                };
                format!(
                    "serial {serial} is held back: {} of {} listed zones would leave, {}{more}; {next}",
                    zones.len(),
                    held.served_names,
                    named.join(", ")
                )
            }
        };
        let (zone, primary) = (self.accounts.zone(), self.accounts.primary(index));
        if held.leaving.is_some() && before == Some(serial) {
            debug!(%zone, %primary, "{text}");
        } else {
            warn!(%zone, %primary, "{text}");
        }
        self.accounts.note_result(index, format!("serial {serial} received, held back"));
        text
    }
}
