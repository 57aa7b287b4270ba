//! Forecast of a region under another plan: what would come and go if it were merged from other intakes.
//!
//! Invariant: what is counted is what a merge of these intakes changes, the SOA aside; a test holds both together.
//!
//! Cost: O(names × members), beside the keeper; nothing published is touched.

use super::{Members, Outcome, Region, RegionPlan};
use crate::zone::{Delta, Node, Zone};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// What would change in a zone or region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// Names that would have other records than now.
    pub names: usize,
    /// Records that would come, without the SOA.
    pub come: usize,
    /// Records that would go, without the SOA.
    pub go: usize,
    /// Names that have addresses and would have none, in canonical order.
    pub without_address: Vec<Name>,
}

impl Forecast {
    /// Merges a region from other intakes and compares it with the version that there is, if any.
    pub fn of_region(plan: &RegionPlan, present: Option<&Arc<Zone>>, members: &Members, now: Instant) -> Forecast {
        let mut region = Region::new(plan.clone());
        region.zone = present.cloned();
        let outcome = region.merge_all(members, now);
        match (outcome, present, &region.zone) {
            (Outcome::New { touched, .. }, Some(before), Some(after)) => Forecast::between(before, after, touched),
            (Outcome::New { .. }, None, Some(after)) => Forecast::of_new(after),
            _ => Forecast::default(),
        }
    }

    /// All of a zone comes.
    pub fn of_new(zone: &Zone) -> Forecast {
        Forecast { names: named(zone), come: without_soa(zone), ..Forecast::default() }
    }

    /// All of a zone goes.
    pub fn of_removed(zone: &Zone) -> Forecast {
        Forecast { names: named(zone), go: without_soa(zone), ..Forecast::default() }
    }

    /// Compares two versions that may differ at these names.
    fn between(before: &Zone, after: &Zone, touched: Vec<Name>) -> Forecast {
        let has_address = |zone: &Zone, name: &Name| zone.get(name.as_wire()).is_some_and(Node::has_address);
        let loses = |name: &&Name| has_address(before, name) && !has_address(after, name);
        let mut without_address: Vec<Name> = touched.iter().filter(loses).cloned().collect();
        without_address.sort_by(Name::canonical_cmp);
        let names = touched.len();
        let delta = Delta::between(before, after, touched);
        Forecast { names, come: delta.added.records() as usize, go: delta.removed.records() as usize, without_address }
    }

    /// Returns true if nothing would change.
    pub fn is_nothing(&self) -> bool {
        self.names == 0 && self.come == 0 && self.go == 0
    }
}

/// The number of records beside the SOA.
fn without_soa(zone: &Zone) -> usize {
    usize::try_from(zone.records.saturating_sub(1)).unwrap_or(usize::MAX)
}

/// The number of names that have records; the others only lead to them.
fn named(zone: &Zone) -> usize {
    zone.nodes().filter(|node| !node.is_empty()).count()
}
