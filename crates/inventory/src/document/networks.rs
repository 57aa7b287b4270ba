//! Networks of a document, pools of them, and network interfaces.
//!
//! Invariant: a network is invented only where the document has no list of networks.
//!
//! Cost: O(networks).

use super::elements::Elements;
use super::values::{Addresses, Fields, Seen, addresses, full_text, mac, text, uuid, uuids, vlan};
use super::{derived, keys};
use crate::model::{Network, NetworkPool, Nic, Uuid};
use settings::read::Reader;
use settings::tree::Node;

/// Name of the network of instances whose addresses stand in the short form.
const DEFAULT: &str = "default";

/// Networks that were read or invented.
pub struct Networks<'i> {
    found: Vec<Network>,
    inventory: &'i str,
    has_list: bool,
    default: Option<Uuid>,
}

impl Networks<'_> {
    /// Reads the list of networks, if there is one.
    pub fn read<'i>(reader: &mut Reader<'_>, array: Option<&Elements<'_>>, inventory: &'i str) -> Networks<'i> {
        let mut networks = Networks { found: Vec::new(), inventory, has_list: array.is_some(), default: None };
        let (mut seen, mut defaults) = (Seen::new(), Seen::new());
        let Some(array) = array else { return networks };
        array.for_each(reader, |reader, node| {
            let Some((network, at)) = read_network(reader, node, inventory) else { return };
            let Network { uuid, .. } = network;
            if !seen.first(reader, at, uuid, || format!("network {uuid}")) {
                return;
            }
            // A network of some accounts is none that others could mean.
            if &*network.name == DEFAULT && network.owners.is_empty() {
                defaults.first(reader, at, (), || format!("network \"{DEFAULT}\""));
                networks.default = Some(uuid);
            }
            networks.found.push(network);
        });
        networks
    }

    /// The network of addresses that stand in the short form.
    pub fn default(&mut self, reader: &mut Reader<'_>, at: usize) -> Option<Uuid> {
        if self.default.is_none() {
            if self.has_list {
                let advice = "add it, or write \"nics\" instead of \"addresses\"";
                return reader.refuse(at, format!("\"networks\" has none of the name \"{DEFAULT}\"; {advice}"));
            }
            let uuid = derived(&["network", self.inventory, DEFAULT]);
            let (name, owners) = (DEFAULT.into(), Box::default());
            self.found.push(Network { uuid, name, owners, nic_tag: None, vlan_id: None });
            self.default = Some(uuid);
        }
        self.default
    }

    /// All networks.
    pub fn finish(self) -> Vec<Network> {
        self.found
    }
}

/// Reads a network.
fn read_network(reader: &mut Reader<'_>, node: &Node, inventory: &str) -> Option<(Network, usize)> {
    let fields = Fields::of(reader, node, &keys::NETWORK)?;
    let name = fields.required(reader, "name", "the name of the network", full_text);
    let written = fields.get("uuid").is_some();
    let uuid = fields.read(reader, "uuid", uuid);
    let owners = fields.read(reader, "owner_uuids", uuids).unwrap_or_default();
    let nic_tag = fields.read(reader, "nic_tag", text);
    let vlan_id = fields.read(reader, "vlan_id", vlan);
    let name = name?;
    let uuid = if written { uuid? } else { derived(&["network", inventory, &name]) };
    Some((Network { uuid, name, owners, nic_tag, vlan_id }, fields.at))
}

/// Reads the pools of networks.
pub fn read_pools(reader: &mut Reader<'_>, array: Option<&Elements<'_>>) -> Vec<NetworkPool> {
    let (mut found, mut seen) = (Vec::new(), Seen::new());
    let Some(array) = array else { return found };
    array.for_each(reader, |reader, node| {
        let Some(fields) = Fields::of(reader, node, &keys::POOL) else { return };
        let uuid = fields.required(reader, "uuid", "the UUID of the pool", uuid);
        let networks = fields.required(reader, "networks", "a list of UUIDs", uuids);
        if let (Some(uuid), Some(networks)) = (uuid, networks)
            && seen.first(reader, fields.at, uuid, || format!("network pool {uuid}"))
        {
            found.push(NetworkPool { uuid, networks });
        }
    });
    found
}

/// Reads the network interfaces that NAPI knows more of than VMAPI.
pub fn read_nics(reader: &mut Reader<'_>, array: Option<&Elements<'_>>) -> Vec<Nic> {
    let (mut found, mut seen) = (Vec::new(), Seen::new());
    let Some(array) = array else { return found };
    array.for_each(reader, |reader, node| {
        let Some(fields) = Fields::of(reader, node, &keys::NIC) else { return };
        let mac = fields.required(reader, "mac", "the address of the interface", mac);
        let belongs_to = fields.read(reader, "belongs_to_uuid", uuid);
        let network = fields.read(reader, "network_uuid", uuid);
        let nic_tag = fields.read(reader, "nic_tag", text);
        let vlan_id = fields.read(reader, "vlan_id", vlan).unwrap_or(0);
        let Addresses { fixed, dynamic } = addresses(reader, &fields);
        if let Some(mac) = mac
            && seen.first(reader, fields.at, mac, || "interface of this address".to_string())
        {
            found.push(Nic { mac, belongs_to, network, nic_tag, vlan_id, addresses: fixed.into(), dynamic });
        }
    });
    found
}
