//! Damping in the keeper: the dampers of the regions get what the members do, and the keeper's clock.
//!
//! Nothing of it is on disk: another process holds nothing, and begins a new serial where one was held.
//!
//! Cost: nothing for regions without damping; see [`Damper`].

use super::Keeper;
use super::regions::KeptRegion;
use crate::merge::{Damper, Held, MemberChange, Scope, Tally, Touched};
use crate::zone::Zone;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Results for an address that a member has withdrawn, as metric labels.
const RESULTS: [&str; 3] = ["released", "returned", "gone"];

impl Keeper {
    /// Gives a region a damper as its plan has it; one that has it already goes on.
    pub(super) fn set_damper(&self, kept: &mut KeptRegion) {
        let plan = &kept.region.plan;
        if kept.damper.as_ref().map(Damper::plan) == plan.damping.as_ref() {
            return;
        }
        kept.damper = plan.damping.map(Damper::new);
        // A counter that begins at its first event hides that event from `increase()`.
        let region = plan.origin.to_string();
        RESULTS
            .iter()
            .for_each(|result| drop(self.metrics.region_withdrawals.with_label_values(&[&region[..], result])));
    }

    /// Shows the members' present data to a region's damper. Returns the held addresses of each.
    pub(super) fn damp(
        &self,
        kept: &mut KeptRegion,
        after: &[Option<Arc<Zone>>],
        scopes: &[Scope],
        touched: &HashMap<Name, Touched>,
        now: Instant,
    ) -> Vec<Held> {
        let plan = &kept.region.plan;
        // What nobody has seen cannot be withdrawn.
        let Some(damper) = kept.damper.as_mut().filter(|_| kept.region.serial.was_served()) else { return Vec::new() };
        let change = |index: usize| MemberChange {
            // What comes as if it were new withdraws nothing.
            before: kept.intakes[index].raw().map(|raw| &**raw).filter(|_| !self.made.contains(&plan.members[index])),
            after: after[index].as_deref(),
            touched: touched.get(&plan.members[index]),
            scope_before: kept.intakes[index].scope(),
            scope: &scopes[index],
        };
        let changes: Vec<MemberChange<'_>> = (0..after.len()).map(change).collect();
        let tally = damper.update(plan, &changes, now);
        if !tally.is_empty() {
            let Tally { released, returned, gone } = tally;
            let (region, held) = (&plan.origin, damper.held_addresses());
            tracing::info!(%region, held, released, returned, gone, "members withdraw addresses of services");
            for (result, count) in RESULTS.into_iter().zip([released, returned, gone]) {
                self.metrics.region_withdrawals.with_label_values(&[&region.to_string(), result]).inc_by(count);
            }
        }
        damper.held(plan)
    }
}
