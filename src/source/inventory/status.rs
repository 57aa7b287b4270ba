//! Status of one inventory, for operators.
//!
//! Invariant: written only by the inventory's task, read by anyone. Times are Unix seconds, for people and for JSON.
//!
//! Cost: O(zones of the inventory).

use super::guard::{ARRAYS, Held};
use super::plan::InventoryPlan;
use schemars::JsonSchema;
use serde::Serialize;
use wire::name::Name;

/// How an inventory is read at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reading {
    /// Nothing was read to its end since the start; what an earlier run left is served.
    #[default]
    Starting,
    /// The last reading was good.
    Current,
    /// The last reading failed; what was read before is served.
    Failing,
}

impl Reading {
    /// The word in texts.
    pub fn label(self) -> &'static str {
        match self {
            Reading::Starting => "starting",
            Reading::Current => "current",
            Reading::Failing => "failing",
        }
    }
}

/// A document that waits for confirmation because it has shrunk sharply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldDocument {
    /// The array that has shrunk.
    pub array: &'static str,
    pub elements: u64,
    pub served_elements: u64,
}

impl HeldDocument {
    /// Explains in words why.
    pub fn describe(&self) -> String {
        let HeldDocument { array, elements, served_elements } = self;
        format!("inventory held back: {elements} of {served_elements} {array}")
    }
}

impl From<&Held> for HeldDocument {
    fn from(held: &Held) -> HeldDocument {
        let array = held.array;
        HeldDocument { array: ARRAYS[array], elements: held.found[array], served_elements: held.served[array] }
    }
}

/// Numbers of an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InventoryCounts {
    pub vms: u64,
    pub accounts: u64,
    pub networks: u64,
    pub servers: u64,
    /// Instances that have names.
    pub listed: u64,
    /// Instances of which something is not known; what they had stays.
    pub undecided: u64,
    /// Memberships in services that are held for a while although the instance reports itself down.
    pub held: u64,
    /// Time of the oldest such report.
    pub held_since: Option<i64>,
    /// Labels that more than one account or instance claims.
    pub conflicts: u64,
    /// Memberships that ended by the instance's own report, since the start.
    pub soft_removals: u64,
    /// Memberships that ended for another reason, since the start.
    pub hard_removals: u64,
    /// Held memberships whose instance reported up again, since the start.
    pub returned: u64,
    /// Holds that an operator ended, since the start.
    pub released: u64,
    /// Instances by the reasons for which they are not listed or not in service.
    pub reasons: Vec<ReasonCount>,
}

/// Number of instances with a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonCount {
    pub reason: &'static str,
    pub instances: u64,
}

/// Status of a zone that is made of an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Inventory")]
pub struct InventoryStatus {
    pub inventory: String,
    /// The zone by which the source is known: the first forward zone.
    pub main: Name,
    /// All its zones, forward zones first.
    pub zones: Vec<Name>,
    /// "file" or "url".
    pub feeder: &'static str,
    /// The file or URL.
    pub place: String,
    pub reading: Reading,
    pub counts: InventoryCounts,
    pub held: Option<HeldDocument>,
    /// Time of the last good reading.
    pub last_reading: Option<i64>,
    /// Readings since the start that had something new.
    pub readings: u64,
    /// Readings in a row that failed.
    pub failures: u32,
    /// Result of the last of them, in words.
    pub error: Option<String>,
    /// Time of the next one.
    pub next_attempt: Option<i64>,
    /// Single elements that cannot be read at present, and why.
    pub unreadable: u64,
    pub unreadable_error: Option<String>,
    /// True while changes are told as they come, false while they are seen only in listings; none for documents.
    pub following: Option<bool>,
    /// Networks that the configuration names and the inventory does not have, or has more than once, and addresses without
    /// a reverse zone, in words.
    pub unresolved: Vec<String>,
    /// What a secondary has that was not made here, in words.
    pub second_builder: Option<String>,
    /// Errors of the state folder.
    pub state_error: Option<String>,
    /// Label of why no version can be made, until one is.
    #[serde(skip)]
    pub reason: Option<&'static str>,
}

impl InventoryStatus {
    /// The status before anything has happened.
    pub fn new(plan: &InventoryPlan) -> InventoryStatus {
        InventoryStatus {
            inventory: plan.name.clone(),
            main: plan.main_zone().clone(),
            zones: plan.zones().cloned().collect(),
            feeder: plan.feeder.kind(),
            place: plan.feeder.to_string(),
            ..InventoryStatus::default()
        }
    }
}
