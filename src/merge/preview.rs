//! Preview of a region as it would be if other things were taken of its members.
//!
//! The region is merged once more, from what would be taken, beside the one that is published; what differs is counted.
//!
//! Cost: O(names × members), beside the keeper; nothing published is touched.

use super::{Members, Outcome, Region, RegionPlan};
use crate::zone::{Node, Zone};
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Summary of what would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Names that would have other records.
    pub changed: usize,
    /// Records that would go, less those that would come.
    pub fewer_records: u64,
    /// Names that have addresses and would have none, in canonical order.
    pub without_address: Vec<Name>,
    /// True if the region has names below its apex and would have none.
    pub is_emptied: bool,
}

/// Merges a region from other intakes and compares it with what is published.
pub fn preview(plan: &RegionPlan, present: Option<&Arc<Zone>>, members: &Members, now: Instant) -> Preview {
    let Some(before) = present else { return Preview::default() };
    let mut region = Region::new(plan.clone());
    region.zone = Some(before.clone());
    let outcome = region.merge_all(members, now);
    let (Outcome::New { touched, .. }, Some(after)) = (outcome, &region.zone) else { return Preview::default() };
    let has_address = |zone: &Zone, name: &Name| zone.get(name.as_wire()).is_some_and(Node::has_address);
    let loses = |name: &&Name| has_address(before, name) && !has_address(after, name);
    let mut without_address: Vec<Name> = touched.iter().filter(loses).cloned().collect();
    without_address.sort_by(Name::canonical_cmp);
    Preview {
        changed: touched.iter().filter(|name| **name != plan.origin).count(),
        fewer_records: before.records.saturating_sub(after.records),
        without_address,
        is_emptied: before.names() > 1 && after.names() == 1,
    }
}
