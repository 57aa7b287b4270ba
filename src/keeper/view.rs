//! View of everything published at one moment, with the data that the regions in it are made of.
//!
//! Cost: O(zones + members of all regions) reference counts.

use super::snapshot::RegionSnapshot;
use super::{MemberStatus, Snapshot, ZoneStatus};
use crate::merge::{Damper, Drain, Pin, RegionPlan, TracedMember};
use crate::publish::Published;
use crate::zone::Zone;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Published versions and the data that regions are made of, at one moment.
pub struct View {
    pub published: Arc<Published>,
    /// The source zones.
    pub zones: HashMap<Name, ZoneStatus>,
    pub regions: HashMap<Name, RegionView>,
    /// Drains in force.
    pub drains: Vec<Drain>,
}

/// Data that a region is made of.
pub struct RegionView {
    pub plan: RegionPlan,
    /// The published serial minus the members' sum.
    pub drift: u32,
    /// Members, in the plan's order.
    pub members: Vec<MemberView>,
    /// Damper, which keeps withdrawn addresses of services for a while.
    pub damper: Option<Damper>,
    /// Merged zone, which is published unless the region is pinned.
    pub merged: Option<Arc<Zone>>,
    pub pin: Option<Pin>,
}

/// A member of a region.
pub struct MemberView {
    pub status: MemberStatus,
    pub traced: TracedMember,
}

impl Snapshot {
    /// Gives out the published versions.
    pub fn view(&self, now: Instant) -> View {
        let zones = self.sources.iter().map(|(name, source)| (name.clone(), source.status(name, now)));
        let region = |(name, region): (&Name, &RegionSnapshot)| {
            let member = |(index, status): (usize, MemberStatus)| {
                let zone = self.sources.get(&status.zone).and_then(|source| source.zone.clone());
                // As it was at the last merge: the clock may have moved on since, the region has not. One that still
                // waits for its members has taken nothing of anybody.
                let (taken, drained) = region.taken.get(index).cloned().unwrap_or_default();
                MemberView { status, traced: TracedMember { zone, taken, drained } }
            };
            let members = self.member_statuses(&region.plan, now).into_iter().enumerate().map(member).collect();
            let (plan, damper) = (region.plan.clone(), region.damper.clone());
            let (drift, merged, pin) = (region.drift, region.merged.clone(), region.pin.clone());
            (name.clone(), RegionView { plan, drift, members, damper, merged, pin })
        };
        View {
            published: self.published.clone(),
            zones: zones.collect(),
            regions: self.regions.iter().map(region).collect(),
            drains: self.drains.clone(),
        }
    }
}
