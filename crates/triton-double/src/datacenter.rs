//! The inventory of a datacenter, in the services' own field names.
//!
//! Invariant: every change of an instance makes one item of the feed, with the sub-resources that differ.
//!
//! Cost: an instance O(log instances), a page O(its instances), everything else O(its array); the first page after a
//! change, and one with filters, O(instances) for their number.

use crate::directory::Directory;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Parts of an instance whose changes are fed.
const SUB_RESOURCES: [&str; 9] = [
    "alias",
    "customer_metadata",
    "destroyed",
    "internal_metadata",
    "nics",
    "owner_uuid",
    "server_uuid",
    "state",
    "tags",
];

/// Instances, compute nodes, networks, pools, NICs and accounts.
#[derive(Default)]
pub struct Datacenter {
    vms: BTreeMap<String, Value>,
    /// Instances that were changed, as they were before, or null if they were not there.
    touched: BTreeMap<String, Value>,
    /// Number of active instances, if it was counted since the last change.
    active: Option<usize>,
    /// Compute nodes, as CNAPI has them.
    pub servers: Vec<Value>,
    /// Networks, as NAPI has them.
    pub networks: Vec<Value>,
    /// Pools, as NAPI has them.
    pub network_pools: Vec<Value>,
    /// NICs that instances do not describe themselves.
    pub nics: Vec<Value>,
    /// Accounts, as UFDS has them, and their changes.
    pub directory: Directory,
}

/// Item of the feed before it is text.
pub struct Item {
    pub vm: Value,
    pub sub_resources: Vec<&'static str>,
}

/// Page of instances that is asked for.
#[derive(Default)]
pub struct Page {
    pub limit: usize,
    /// UUID of the last instance of the page before.
    pub marker: Option<String>,
    pub offset: usize,
    pub is_active: bool,
    /// Fields and what they must be.
    pub filters: Vec<(String, String)>,
}

impl Datacenter {
    pub(crate) fn new(inventory: &Value) -> Datacenter {
        let array = |name: &str| inventory[name].as_array().cloned().unwrap_or_default();
        let vms = array("vms").into_iter().map(|vm| (uuid_of(&vm), vm)).collect();
        Datacenter {
            vms,
            touched: BTreeMap::new(),
            active: None,
            servers: array("servers"),
            networks: array("networks"),
            network_pools: array("network_pools"),
            nics: array("nics"),
            directory: Directory::new(array("accounts")),
        }
    }

    /// An instance, to be changed; null, to be filled, where there is none.
    pub fn vm(&mut self, uuid: &str) -> &mut Value {
        self.active = None;
        let vm = self.vms.entry(uuid.to_owned()).or_default();
        self.touched.entry(uuid.to_owned()).or_insert_with(|| vm.clone());
        vm
    }

    /// Adds or replaces an instance.
    pub fn put_vm(&mut self, vm: Value) {
        let uuid = uuid_of(&vm);
        *self.vm(&uuid) = vm;
    }

    /// Forgets an instance as a database does that was restored: nothing is fed.
    pub fn forget_vm(&mut self, uuid: &str) {
        self.active = None;
        self.vms.remove(uuid);
        self.touched.remove(uuid);
    }

    /// Destroys an instance. It can still be asked for by its UUID.
    pub fn destroy_vm(&mut self, uuid: &str) {
        let vm = self.vm(uuid);
        vm["state"] = json!("destroyed");
        vm["destroyed"] = json!("2026-03-01T12:00:00.000Z");
    }

    /// An element of another array, by its `uuid`.
    pub fn server(&mut self, uuid: &str) -> Option<&mut Value> {
        self.servers.iter_mut().find(|server| server["uuid"] == uuid)
    }

    /// UUIDs of all instances, in ascending order.
    pub fn vm_uuids(&self) -> Vec<String> {
        self.vms.keys().cloned().collect()
    }

    pub(crate) fn find_vm(&self, uuid: &str) -> Option<&Value> {
        self.vms.get(uuid)
    }

    /// A page in descending order of UUIDs, and how many instances there are on all pages.
    pub(crate) fn page(&mut self, page: &Page) -> (Vec<&Value>, usize) {
        let matches = |vm: &&Value| {
            let active = !matches!(vm["state"].as_str(), Some("destroyed" | "failed"));
            (active || !page.is_active) && page.filters.iter().all(|(key, value)| vm[key] == *value)
        };
        let is_plain = page.is_active && page.filters.is_empty();
        let counted = self.active.filter(|_| is_plain);
        let total = counted.unwrap_or_else(|| self.vms.values().filter(matches).count());
        self.active = self.active.or(is_plain.then_some(total));
        let range = match &page.marker {
            Some(marker) => self.vms.range::<str, _>((Unbounded, Excluded(marker.as_str()))),
            None => self.vms.range::<str, _>((Unbounded, Unbounded)),
        };
        let vms = range.rev().map(|(_, vm)| vm).filter(matches).skip(page.offset).take(page.limit);
        (vms.collect(), total)
    }

    /// Items of the changes since the last call.
    pub(crate) fn take_items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        for (uuid, before) in std::mem::take(&mut self.touched) {
            let Some(vm) = self.vms.get(&uuid) else { continue };
            let changed = |name: &&&str| vm[**name] != before[**name];
            let sub_resources: Vec<&'static str> = SUB_RESOURCES.iter().filter(changed).copied().collect();
            if !sub_resources.is_empty() {
                items.push(Item { vm: vm.clone(), sub_resources });
            }
        }
        items
    }
}

/// UUID of an element, empty where it has none.
fn uuid_of(element: &Value) -> String {
    element["uuid"].as_str().unwrap_or_default().to_owned()
}
