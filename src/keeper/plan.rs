//! Plan of the keeper: the zones and regions to keep. The configuration makes it, and a reload replaces it as a whole.

use crate::acl::Prefix;
use crate::catalog::CatalogPlan;
use crate::clients::Clients;
use crate::cookie::Secrets;
use crate::merge::{AnswersPlan, Drain, RegionPlan};
use crate::publish::{Identity, Outgoing};
use crate::rate_limit::RateLimit;
use crate::source::Update;
use crate::state::Restored;
use crate::tap::Tap;
use crate::zone::{History, HistoryLimits};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;
use wire::tsig::Keyring;

/// The zones and regions to keep.
#[derive(Default)]
pub struct Plan {
    pub identity: Identity,
    /// The keys that requests may be signed with.
    pub keys: Arc<Keyring>,
    /// Resolvers whose word on the subnets of their clients is believed.
    pub subnet_from: Arc<[Prefix]>,
    /// Source zones and how long they may live without contact.
    pub zones: Vec<(Name, Lifetime)>,
    pub regions: Vec<RegionPlan>,
    /// Drains that the configuration orders.
    pub drains: Vec<Drain>,
    /// The catalog of all of them, if there is to be one.
    pub catalog: Option<CatalogPlan>,
    /// Rules for outgoing transfers by zone; a zone without an entry is not transferred.
    pub outgoing: HashMap<Name, Arc<Outgoing>>,
    /// Laws of answers by zone; a zone without an entry is answered with whole sets.
    pub answers: HashMap<Name, Arc<AnswersPlan>>,
    /// Whose clients are whose.
    pub clients: Arc<Clients>,
    /// Secrets of server cookies; none if cookies are not answered.
    pub cookies: Option<Arc<Secrets>>,
    pub rate_limit: Arc<RateLimit>,
    /// Who gets copies of queries and responses; none if nobody does.
    pub tap: Option<Arc<Tap>>,
    /// Zones that refuse names which they do not hold.
    pub refusing: HashSet<Name>,
    /// Zones that are made here and damped where they are made; regions do not damp them once more.
    pub made: HashSet<Name>,
    /// Source zones that no client reaches: parts of which zones of several members are made.
    pub hidden: HashSet<Name>,
    /// Limits on the history of each zone.
    pub history: HistoryLimits,
    /// Octets that zones, histories and transfers may take together; none for no end.
    pub memory: Option<u64>,
    /// The shortest time from one publication to the next.
    pub hold_down: Duration,
    /// Zones that are not kept yet and contents of pinned regions, as an earlier run of the program left them.
    pub restored: HashMap<Name, Restored>,
    /// Histories of the regions, as an earlier run of the program left them.
    pub past: HashMap<Name, History>,
    /// Serials under which other servers have regions of which nothing certain is remembered here.
    pub heard: HashMap<Name, Vec<Serial>>,
    /// News of zones that are known already, published with the plan.
    pub updates: Vec<Update>,
}

/// Bounds on the expire time that a zone's SOA asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub shortest: Duration,
    pub longest: Duration,
}

impl Lifetime {
    /// Lifetime of a zone that needs no contact with any server.
    pub const UNLIMITED: Lifetime = Lifetime { shortest: Duration::MAX, longest: Duration::MAX };
}

/// Changes that a new plan has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlanChanges {
    pub added: Vec<Name>,
    pub removed: Vec<Name>,
    /// Regions made anew because their plan changed.
    pub rebuilt: Vec<Name>,
    /// Regions of `rebuilt` that are pinned, so that clients see nothing of it until they are released.
    pub pinned: Vec<Name>,
    /// Regions that were pinned when they left.
    pub unpinned: Vec<Name>,
}

impl PlanChanges {
    /// The changes from what is planned now, regions with whether they are pinned, to other zones and regions. A reload and
    /// its preview both say this.
    ///
    /// Cost: O(zones + regions).
    pub fn between<'p>(
        present: (impl IntoIterator<Item = &'p Name>, impl IntoIterator<Item = (&'p RegionPlan, bool)>),
        zones: impl IntoIterator<Item = &'p Name>,
        regions: &'p [RegionPlan],
    ) -> PlanChanges {
        let mut changes = PlanChanges::default();
        let mut old_zones: HashSet<&Name> = present.0.into_iter().collect();
        let with_names = present.1.into_iter().map(|(plan, is_pinned)| (&plan.origin, (plan, is_pinned)));
        let mut old_regions: HashMap<&Name, (&RegionPlan, bool)> = with_names.collect();
        changes.added.extend(zones.into_iter().filter(|zone| !old_zones.remove(zone)).cloned());
        for region in regions {
            let origin = &region.origin;
            match old_regions.remove(origin) {
                Some((plan, _)) if plan == region => {}
                Some((_, is_pinned)) => {
                    changes.rebuilt.push(origin.clone());
                    changes.pinned.extend(is_pinned.then(|| origin.clone()));
                }
                None => {
                    // What was a zone of one source before stays, as a region.
                    old_zones.remove(origin);
                    changes.added.push(origin.clone());
                }
            }
        }
        let unpinned = old_regions.iter().filter(|(_, (_, is_pinned))| *is_pinned);
        changes.unpinned = unpinned.map(|(name, _)| (*name).clone()).collect();
        changes.removed = old_zones.into_iter().chain(old_regions.into_keys()).cloned().collect();
        changes.unpinned.sort_by(Name::canonical_cmp);
        changes.removed.sort_by(Name::canonical_cmp);
        changes
    }
}
