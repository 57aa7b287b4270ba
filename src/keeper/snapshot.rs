//! Everything that the keeper knows at one moment, published beside the root for those who show it.
//!
//! Views read it and never ask the keeper, which may be merging a region for seconds. It is replaced with every batch,
//! before anybody hears that an order is carried out. What depends on the clock is worked out by whoever reads: states
//! of members, ages, times of expiry.
//!
//! Invariant: the root, the members' zones and their states belong to each other, because only the keeper changes them.
//! They are shared, not copied. The time of the last contact is the present one: most polls tell that a zone is as it
//! was, and are worth no snapshot.
//!
//! Cost: O(regions) reference counts for a batch; O(members) for each region that it concerned, and O(conflicts) for one
//! that was merged.

use super::Keeper;
use super::conflicts::RegionConflicts;
use super::sources::SourceZones;
use crate::merge::{Alike, AnswersPlan, Damper, Drain, Pin, RegionPlan, TracedMember};
use crate::publish::{Published, State};
use crate::zone::Zone;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;
use wire::serial::Serial;

/// The pointer to the present snapshot.
pub type Snapshots = Arc<ArcSwap<Snapshot>>;

/// Everything that the keeper knows, at one moment.
#[derive(Default)]
pub struct Snapshot {
    pub published: Arc<Published>,
    pub sources: SourceZones,
    pub regions: HashMap<Name, Arc<RegionSnapshot>>,
    /// Drains in force.
    pub drains: Vec<Drain>,
    /// Laws of answers by zone; a zone without an entry is answered with whole sets.
    pub answers: HashMap<Name, Arc<AnswersPlan>>,
}

/// A region at one moment.
pub struct RegionSnapshot {
    pub plan: RegionPlan,
    pub state: State,
    /// The zone that clients see.
    pub served: Option<Arc<Zone>>,
    /// The merged zone, which clients see unless the region is pinned.
    pub merged: Option<Arc<Zone>>,
    /// When it is served without members that never were transferred, if it never was served.
    pub partial_at: Option<Instant>,
    /// The published serial minus the members' sum; 0 while the region is pinned.
    pub drift: u32,
    pub pin: Option<Pin>,
    /// Damper, which keeps withdrawn addresses of services for a while.
    pub damper: Option<Damper>,
    pub ns_fallback: bool,
    pub followed: Option<Serial>,
    pub newer_elsewhere: Option<Serial>,
    pub servers_without_address: Vec<Name>,
    /// Names at which members have addresses of one private network.
    pub alike: Option<Alike>,
    /// Members, in the plan's order, with what was taken of them at the last merge: the clock may have moved on since,
    /// the region has not. One that still waits for its members has taken nothing of anybody.
    pub members: Vec<TracedMember>,
    pub conflicts: Arc<RegionConflicts>,
}

impl Keeper {
    /// Replaces the snapshot: everything as it is now, with the root that shows it.
    pub(super) fn publish_snapshot(&mut self, published: Arc<Published>) {
        let (sources, drains, answers) = (self.sources.clone(), self.drains.all.clone(), self.answers.clone());
        let regions = self.regions.iter_mut().map(|(name, kept)| (name.clone(), kept.snapshot(&sources))).collect();
        self.snapshots.store(Arc::new(Snapshot { published, sources, regions, drains, answers }));
    }
}
