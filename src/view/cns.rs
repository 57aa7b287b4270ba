//! Inventories as Triton's CNS tells of its zones, peers and instances: for its REST paths, and for the tables of `cnsadm`.
//!
//! Names are without the final dot here, as CNS writes them. Fields that CNS does not have are additions; none of its own is left out.
//!
//! Parts: `zones`, `peers`, `vm` and `tag` what is told, `tables` how `cnsadm` lays it out.
//!
//! Cost: O(zones + peers) of an inventory, O(names) of an instance.

pub mod peers;
pub mod tables;
pub mod tag;
pub mod vm;
pub mod zones;

use super::Handle;
use crate::daemon::sources::Source;
use crate::source::inventory::{InventoryPlan, InventoryStatus, Mirrored};
use crate::source::shell;
use serde::Serialize;
use std::sync::Arc;
use wire::name::Name;

/// A name as CNS writes it.
pub fn plain(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(&text).to_owned()
}

/// The task of an inventory; none while a reload changes it. Nobody may keep it: its end ends the task.
pub fn source_of(view: &Handle, plan: &InventoryPlan) -> Option<Arc<shell::Handle<Mirrored>>> {
    match view.sources.lock().get(plan.main_zone()) {
        Some(Source::Inventory(source)) => Some(source.clone()),
        _ => None,
    }
}

/// How the inventories are, as one sees it of CNS.
#[derive(Serialize)]
pub struct Overview {
    pub zones: Vec<zones::ZoneLine>,
    pub peers: Vec<peers::PeerDetail>,
    pub inventories: Vec<InventoryStatus>,
}

impl Overview {
    /// Looks at all inventories.
    pub fn collect(view: &Handle) -> Overview {
        let config = view.config.load();
        let status = |plan| source_of(view, plan).map(|source| source.status());
        Overview {
            zones: config.inventories.iter().flat_map(|plan| zones::zones(view, plan)).collect(),
            peers: peers::all_peers(view),
            inventories: config.inventories.iter().filter_map(status).collect(),
        }
    }
}
