//! One instance, as CNS' `GET /vm/UUID` tells of it.
//!
//! Cost: O(names of the instance).

use super::{plain, source_of};
use crate::source::inventory::{Detail, InventoryPlan, Membership, Report};
use crate::view::Handle;
use inventory::model::Uuid;
use serde::Serialize;

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VmReport {
    pub uuid: String,
    /// Owner names in forward zones that have its addresses; out of service, those of its services are not among them.
    pub names: Vec<String>,
    /// Time at which its source was last read, Unix time in milliseconds.
    pub last_visit: i64,
    pub inventory: String,
    pub alias: Option<String>,
    pub owner: Option<String>,
    pub login: Option<String>,
    /// "in service", "listed" with a name and out of service, "not listed", or "undecided".
    pub state: &'static str,
    /// True if it has names of its own.
    pub listed: bool,
    /// The first reason of each group of rules, in the words of the metric labels.
    pub reasons: Vec<&'static str>,
    pub all_reasons: Vec<&'static str>,
    /// Services that it is held in although it reports itself down.
    pub held: Vec<String>,
    pub services: Vec<Membership>,
    /// The last report on it, which counts in place of its metadata.
    pub report: Option<Report>,
    /// Zones in which it has a name.
    pub zones: Vec<String>,
}

/// Describes an instance of an inventory; none if it is unknown.
pub fn vm(view: &Handle, plan: &InventoryPlan, uuid: Uuid) -> Option<VmReport> {
    let Detail { instance, owner, login, first, report, addressed, zones, heard } =
        source_of(view, plan)?.instance(uuid)?;
    let held = instance.services.iter().filter(|service| service.state == "held");
    Some(VmReport {
        uuid: instance.uuid,
        last_visit: heard,
        inventory: plan.name.clone(),
        alias: instance.alias,
        owner,
        login,
        state: instance.state,
        listed: !addressed.is_empty(),
        names: addressed.iter().map(plain).collect(),
        reasons: first,
        all_reasons: instance.reasons,
        held: held.map(|service| service.service.clone()).collect(),
        services: instance.services,
        report,
        zones: zones.iter().map(plain).collect(),
    })
}

/// Describes an instance of any inventory, with its plan's name; none if it is unknown.
pub fn find_vm(view: &Handle, uuid: Uuid) -> Option<VmReport> {
    view.config.load().inventories.iter().find_map(|plan| vm(view, plan, uuid))
}
