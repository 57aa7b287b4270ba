//! Elements of an inventory out of the JSON of VMAPI, CNAPI and NAPI.
//!
//! Services answer with more than zones depend on, and now and then with less: what is absent, empty or of another type
//! has no value, and only an element without its key is none. So one odd element never hides the others.
//!
//! Cost: O(the JSON).
//!
//! RFCs: 4291 and 1123 (addresses as text), 3339 (points in time).

use inventory::model::{
    Element, Interface, METADATA, Mac, Metadata, Moment, Network, NetworkPool, Nic, Server, ServerStatus, State, TAGS,
    Tag, TagValue, Uuid, Vm,
};
use serde_json::Value;
use std::net::IpAddr;

/// The fields of an instance that are asked for.
pub const VM_FIELDS: &str =
    "uuid,alias,owner_uuid,server_uuid,state,destroyed,create_timestamp,tags,customer_metadata,nics";

/// Reads an instance.
pub fn vm(value: &Value) -> Option<Vm> {
    let tags = &value["tags"];
    let tags = TAGS.iter().filter_map(|(name, tag)| Some((*tag, tag_value(tags.get(*name)?))));
    let mut tags: Vec<(Tag, TagValue)> = tags.collect();
    tags.sort_by_key(|(tag, _)| *tag);
    let metadata = &value["customer_metadata"];
    let metadata = METADATA.iter().filter_map(|(name, key)| Some((*key, metadata.get(*name)?.as_str()?.into())));
    let metadata: Vec<(Metadata, Box<str>)> = metadata.collect();
    let nics = value["nics"].as_array().map(|nics| nics.iter().map(interface).collect()).unwrap_or_default();
    Some(Vm {
        uuid: uuid(&value["uuid"])?,
        alias: text(&value["alias"]),
        owner: uuid(&value["owner_uuid"]),
        server: uuid(&value["server_uuid"]),
        state: match value["state"].as_str() {
            Some("running") => State::Running,
            Some("failed") => State::Failed,
            Some("destroyed") => State::Destroyed,
            _ => State::Other,
        },
        destroyed: !matches!(&value["destroyed"], Value::Null | Value::Bool(false)) && value["destroyed"] != "",
        created: moment(&value["create_timestamp"]),
        tags: tags.into(),
        metadata: metadata.into(),
        nics,
    })
}

/// Reads a network.
pub fn network(value: &Value) -> Option<Element> {
    Some(Element::Network(Network {
        uuid: uuid(&value["uuid"])?,
        name: text(&value["name"]).unwrap_or_default(),
        owners: uuids(&value["owner_uuids"]),
        nic_tag: text(&value["nic_tag"]),
        vlan_id: number(&value["vlan_id"]),
    }))
}

/// Reads a pool of networks.
pub fn network_pool(value: &Value) -> Option<Element> {
    Some(Element::NetworkPool(NetworkPool { uuid: uuid(&value["uuid"])?, networks: uuids(&value["networks"]) }))
}

/// Reads a network interface as NAPI has it.
pub fn nic(value: &Value) -> Option<Nic> {
    let own = interface(value);
    Some(Nic {
        mac: own.mac?,
        belongs_to: uuid(&value["belongs_to_uuid"]),
        network: own.network,
        nic_tag: own.nic_tag,
        vlan_id: own.vlan_id,
        addresses: own.addresses,
        dynamic: own.dynamic,
    })
}

/// Reads a compute node.
pub fn server(value: &Value) -> Option<Server> {
    Some(Server {
        uuid: uuid(&value["uuid"])?,
        hostname: text(&value["hostname"]).unwrap_or_default(),
        setup: value["setup"] == true,
        status: match value["status"].as_str() {
            Some("running") => ServerStatus::Running,
            Some("rebooting") => ServerStatus::Rebooting,
            _ => ServerStatus::Unknown,
        },
        last_boot: moment(&value["last_boot"]),
        last_heartbeat: moment(&value["last_heartbeat"]),
        admin_nic_tag: text(&value["sysinfo"]["Admin NIC Tag"]),
    })
}

/// Reads the address of an interface, with or without colons.
fn mac(value: &Value) -> Option<Mac> {
    let digits: String = value.as_str()?.chars().filter(|character| !matches!(character, ':' | '-')).collect();
    if digits.len() != 12 || !digits.is_ascii() {
        return None;
    }
    let mut octets = [0; 6];
    for (octet, at) in octets.iter_mut().zip((0..12).step_by(2)) {
        *octet = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(Mac(octets))
}

fn interface(value: &Value) -> Interface {
    let listed = value["ips"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut listed: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
    // The list wins, and the single address counts only where there is none.
    if listed.is_empty() {
        listed.extend(value["ip"].as_str());
    }
    let dynamic = listed.iter().any(|text| matches!(*text, "dhcp" | "addrconf"));
    let address = |text: &&str| text.split('/').next()?.parse::<IpAddr>().ok();
    Interface {
        mac: mac(&value["mac"]),
        nic_tag: text(&value["nic_tag"]),
        vlan_id: number(&value["vlan_id"]).unwrap_or_default(),
        network: uuid(&value["network_uuid"]),
        addresses: listed.iter().filter_map(address).collect(),
        dynamic,
    }
}

fn tag_value(value: &Value) -> TagValue {
    match value {
        Value::String(text) => TagValue::Text(text.as_str().into()),
        Value::Bool(flag) => TagValue::Flag(*flag),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => TagValue::Other,
    }
}

fn text(value: &Value) -> Option<Box<str>> {
    value.as_str().filter(|text| !text.is_empty()).map(Into::into)
}

/// Reads a UUID; none where there is none or something else.
pub fn uuid(value: &Value) -> Option<Uuid> {
    Uuid::try_parse(value.as_str()?).ok()
}

fn uuids(value: &Value) -> Box<[Uuid]> {
    value.as_array().map(|elements| elements.iter().filter_map(uuid).collect()).unwrap_or_default()
}

fn number(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok()
}

fn moment(value: &Value) -> Option<Moment> {
    let time = chrono::DateTime::parse_from_rfc3339(value.as_str()?).ok()?;
    Some(Moment(time.timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_example_of_an_instance_is_read_whole() {
        let read = vm(&json!({
            "uuid": "11110000-0000-4000-8000-00000000000b", "alias": "web11",
            "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a", "server_uuid": "c0000000-0000-4000-8000-000000000001",
            "state": "running", "destroyed": null, "create_timestamp": "1970-01-01T00:00:01.500Z",
            "tags": { "triton.cns.services": "web:8080", "other": "x", "triton.cns.disable": false },
            "customer_metadata": { "triton.cns.status": "up", "user-script": "long" },
            "nics": [{ "mac": "90:b8:d0:00:00:01", "nic_tag": "external", "vlan_id": 7,
                       "network_uuid": "e0000000-0000-4000-8000-000000000001", "ip": "198.51.100.99",
                       "ips": ["198.51.100.11/24", "dhcp", "2001:db8::11/64"] }],
        }));
        let read = read.unwrap();
        assert_eq!((read.alias.as_deref(), read.state, read.destroyed), (Some("web11"), State::Running, false));
        assert_eq!(read.created, Some(Moment(1500)));
        assert_eq!(
            read.tags[..],
            [(Tag::Services, TagValue::Text("web:8080".into())), (Tag::Disable, TagValue::Flag(false))]
        );
        assert_eq!(read.metadata[..], [(Metadata::Status, "up".into())]);
        let nic = &read.nics[0];
        assert_eq!((nic.mac, nic.vlan_id, nic.dynamic), (Some(Mac([0x90, 0xb8, 0xd0, 0, 0, 1])), 7, true));
        let addresses: Vec<String> = nic.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["198.51.100.11", "2001:db8::11"]);
    }

    #[test]
    fn odd_elements_have_what_can_be_read_of_them() {
        assert_eq!(vm(&json!({ "alias": "x" })), None);
        assert_eq!(vm(&json!("nothing")), None);
        let odd = json!({ "uuid": "11110000-0000-4000-8000-00000000000b", "alias": 7, "tags": [], "nics": [{ "ip": "x" }, 7],
                          "state": null, "destroyed": "2026-01-01T00:00:00Z", "create_timestamp": "yesterday" });
        let odd = vm(&odd).unwrap();
        assert_eq!((odd.alias, odd.state, odd.destroyed, odd.created), (None, State::Other, true, None));
        assert_eq!(odd.nics.len(), 2);
        let odd = server(&json!({ "uuid": "c0000000-0000-4000-8000-000000000001", "last_heartbeat": null })).unwrap();
        assert_eq!((odd.setup, odd.status, odd.last_heartbeat), (false, ServerStatus::Unknown, None));
        let read = nic(&json!({ "mac": "90b8d0aa0001", "ip": "198.51.100.11", "belongs_to_uuid": "x" })).unwrap();
        assert_eq!((read.mac, read.addresses.len(), read.belongs_to), (Mac([0x90, 0xb8, 0xd0, 0xaa, 0, 1]), 1, None));
        assert_eq!(nic(&json!({ "mac": "90b8d0aa00é" })), None);
    }
}
