//! The plan of one inventory, which the configuration makes and the task follows.
//!
//! Automatic reverse zones are those that the inventory asks for by its addresses; a plan has those that are in force, and
//! they come without another task ([`InventoryPlan::continues`]).
//!
//! Invariants: an inventory feeds a forward zone at least, and the first one is the zone by which its source is known;
//! a token is never printed, and counts when two plans are compared.

use crate::acl::Prefix;
use crate::client::Server;
use crate::merge::DampingPlan;
use crate::source::inventory::triton::TritonPlan;
use crate::zone::SoaFields;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;
use zeroize::Zeroizing;

/// An inventory: where it comes from, the rules by which it makes records, and its zones.
#[derive(Clone, Debug, PartialEq)]
pub struct InventoryPlan {
    pub name: String,
    pub feeder: FeederPlan,
    pub rules: Rules,
    /// Zones of services and instances, in file order.
    pub forward: Vec<MadeZone>,
    /// Zones of PTR records that the configuration names.
    pub reverse: Vec<ReverseZone>,
    /// Zones of PTR records as addresses come, in place of those that are named.
    pub automatic: Option<AutomaticZones>,
    /// Time for which the last inventory is served without a good reading.
    pub serve_stale: Duration,
    /// Share of an array's elements below which it is doubted.
    pub shrink_share: f64,
    /// Time after which a second reading confirms a doubtful one.
    pub confirm_after: Duration,
    /// True if metrics count the names of each account.
    pub accounting: bool,
}

/// Where an inventory comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum FeederPlan {
    File(PathBuf),
    Url(UrlPlan),
    Triton(Box<TritonPlan>),
}

/// A document that is fetched.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlPlan {
    pub url: url::Url,
    /// The file of the token, and what it holds.
    pub token: Option<(PathBuf, Zeroizing<String>)>,
    /// The file with the certificates that sign the server's, and what it holds; none for those of the system.
    pub ca: Option<(PathBuf, String)>,
}

impl fmt::Debug for UrlPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrlPlan({})", self.url)
    }
}

/// The rules by which an inventory makes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub use_login: bool,
    pub use_alias: bool,
    /// True if an instance that says nothing of itself is in service.
    pub missing_is_up: bool,
    /// Age of a compute node's heartbeat at which it is down.
    pub cn_down_after: Duration,
    pub damping: DampingPlan,
    pub cmon: bool,
    pub operator_logins: bool,
    pub srv_weights: bool,
    pub ttl: u32,
}

/// A zone that is made of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeZone {
    pub origin: Name,
    /// UUIDs, names of networks without owners, or `*`.
    pub networks: Vec<String>,
    pub apex: ApexPlan,
}

/// A zone of PTR records: all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReverseZone {
    pub origin: Name,
    pub prefix: Prefix,
    pub apex: ApexPlan,
}

/// A zone of PTR records for each /24 and /64 with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomaticZones {
    pub apex: ApexPlan,
    /// Those that are in force, in canonical order.
    pub zones: Arc<[Name]>,
}

/// SOA and name servers of such a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApexPlan {
    pub soa: SoaFields,
    pub ns: Vec<Name>,
    pub ns_ttl: u32,
    /// Those that are told of changes; they know what was published.
    pub secondaries: Vec<Server>,
}

impl InventoryPlan {
    /// The zone by which the source is known.
    pub fn main_zone(&self) -> &Name {
        &self.forward[0].origin
    }

    /// All zones with their apexes, forward zones first.
    pub fn apexes(&self) -> impl Iterator<Item = (&Name, &ApexPlan)> {
        let reverse = self.reverse.iter().map(|zone| (&zone.origin, &zone.apex));
        let automatic = self.automatic.iter().flat_map(|all| all.zones.iter().map(|zone| (zone, &all.apex)));
        self.forward.iter().map(|zone| (&zone.origin, &zone.apex)).chain(reverse).chain(automatic)
    }

    /// Returns true if a task that follows an earlier plan can follow this one: at most, automatic zones have come.
    pub fn continues(&self, earlier: &InventoryPlan) -> bool {
        let (Some(now), Some(before)) = (&self.automatic, &earlier.automatic) else { return self == earlier };
        let is_there = |zone: &Name| now.zones.binary_search_by(|other| other.canonical_cmp(zone)).is_ok();
        before.zones.iter().all(is_there) && self.with_automatic(before.zones.clone()) == *earlier
    }

    /// The plan with these automatic zones, if it has any.
    pub fn with_automatic(&self, zones: Arc<[Name]>) -> InventoryPlan {
        let mut plan = self.clone();
        if let Some(automatic) = &mut plan.automatic {
            automatic.zones = zones;
        }
        plan
    }

    /// The automatic zones that are in force.
    pub fn automatic_zones(&self) -> Option<&Arc<[Name]>> {
        self.automatic.as_ref().map(|automatic| &automatic.zones)
    }

    /// Takes in who is told of changes of each zone that the configuration names.
    pub fn set_secondaries(&mut self, targets: &HashMap<Name, Vec<Server>>) {
        let reverse = self.reverse.iter_mut().map(|zone| (&zone.origin, &mut zone.apex));
        for (origin, apex) in self.forward.iter_mut().map(|zone| (&zone.origin, &mut zone.apex)).chain(reverse) {
            apex.secondaries = targets.get(origin).cloned().unwrap_or_default();
        }
    }

    /// All zones, the main zone first.
    pub fn zones(&self) -> impl Iterator<Item = &Name> {
        self.apexes().map(|(origin, _)| origin)
    }
}

impl FeederPlan {
    /// Returns true if each reading is complete in itself.
    pub fn is_document(&self) -> bool {
        match self {
            FeederPlan::File(_) | FeederPlan::Url(_) => true,
            FeederPlan::Triton(_) => false,
        }
    }

    /// The kind of feeder, as the file calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            FeederPlan::File(_) => "file",
            FeederPlan::Url(_) => "url",
            FeederPlan::Triton(_) => "triton",
        }
    }
}

impl fmt::Display for FeederPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeederPlan::File(path) => write!(f, "{}", path.display()),
            FeederPlan::Url(plan) => write!(f, "{}", plan.url),
            FeederPlan::Triton(plan) => write!(f, "{}", plan.vmapi),
        }
    }
}
