//! Instances of a document, in VMAPI's form and in the short one.
//!
//! The short form is `owner` for `owner_uuid`, `services` for a tag, `status` and `acme` for metadata, `addresses` for one
//! network interface. An instance may mix them, but say nothing twice.
//!
//! Invariant: an instance without a UUID has one that follows from the names of the inventory, its account and itself, so
//! that it is another one in each datacenter.
//!
//! Cost: O(instances).

use super::accounts::Accounts;
use super::elements::Elements;
use super::networks::Networks;
use super::values::{Addresses, Fields, Seen, address, addresses, full_text, mac, moment, text, uuid, vlan};
use super::{derived, keys};
use crate::model::{Interface, Metadata, State, Tag, TagValue, Uuid, Vm};
use settings::read::{Reader, shorten};
use settings::schema::suggest;
use settings::tree::{Entry, Node, Value};

/// States of VMAPI.
const STATES: [&str; 20] = [
    "running",
    "stopped",
    "provisioning",
    "configured",
    "down",
    "incomplete",
    "failed",
    "destroyed",
    "unknown",
    "creating",
    "installed",
    "ready",
    "receiving",
    "sending",
    "shutting_down",
    "stopping",
    "starting",
    "halting",
    "off",
    "mounted",
];

/// Reads the instances.
pub fn read(
    reader: &mut Reader<'_>,
    array: Option<&Elements<'_>>,
    inventory: &str,
    accounts: &mut Accounts,
    networks: &mut Networks<'_>,
) -> Vec<Vm> {
    let Some(array) = array else { return Vec::new() };
    // With the places of all, and whether a UUID stands there.
    let mut found: Vec<(Vm, usize, bool)> = Vec::with_capacity(array.len());
    array.for_each(reader, |reader, node| found.extend(read_vm(reader, node, accounts, networks)));
    let logins = accounts.logins();
    let mut seen = Seen::new();
    let mut vms = Vec::with_capacity(found.len());
    for (mut vm, at, is_written) in found {
        if let (false, Some(alias), Some(owner)) = (is_written, &vm.alias, vm.owner) {
            let login = logins.get(&owner).map(|login| login.to_string()).filter(|login| !login.is_empty());
            vm.uuid = derived(&["vm", inventory, &login.unwrap_or_else(|| owner.to_string()), alias]);
        }
        let what = || match &vm.alias {
            Some(alias) if !is_written => format!("instance \"{}\" of this account", shorten(alias)),
            _ => format!("instance {}", vm.uuid),
        };
        if seen.first(reader, at, vm.uuid, what) {
            vms.push(vm);
        }
    }
    vms
}

/// Reads an instance: its place, and whether its UUID stands there.
fn read_vm(
    reader: &mut Reader<'_>,
    node: &Node,
    accounts: &mut Accounts,
    networks: &mut Networks<'_>,
) -> Option<(Vm, usize, bool)> {
    let fields = Fields::of(reader, node, &keys::VM)?;
    let written = fields.get("uuid");
    let read_uuid = fields.read(reader, "uuid", uuid);
    let alias = fields.read(reader, "alias", text).filter(|alias| !alias.is_empty());
    if written.is_none() && alias.is_none() {
        reader.error(fields.at, "an instance has neither \"alias\" nor \"uuid\"; write one of them".to_string());
    }
    let owner = read_owner(reader, &fields, accounts);
    let server = fields.read(reader, "server_uuid", uuid);
    let state = fields.read(reader, "state", read_state).unwrap_or(State::Running);
    let destroyed = fields.read(reader, "destroyed", read_destroyed).unwrap_or(false);
    let created = fields.read(reader, "create_timestamp", moment);
    let tags = read_tags(reader, &fields);
    let metadata = read_metadata(reader, &fields);
    let nics = read_interfaces(reader, &fields, networks);
    let uuid = if written.is_some() { read_uuid? } else { Uuid::nil() };
    if written.is_none() && alias.is_none() {
        return None;
    }
    let vm = Vm { uuid, alias, owner: Some(owner?), server, state, destroyed, created, tags, metadata, nics };
    Some((vm, fields.at, written.is_some()))
}

/// Reads the account of an instance, by its UUID or in the short form.
fn read_owner(reader: &mut Reader<'_>, fields: &Fields<'_>, accounts: &mut Accounts) -> Option<Uuid> {
    match (fields.get("owner_uuid"), fields.get("owner")) {
        (Some(node), None) => uuid(reader, "owner_uuid", node),
        (None, Some(node)) => accounts.named(reader, "owner", node),
        (Some(_), Some(node)) => twice(reader, node, "owner", "owner_uuid"),
        (None, None) => {
            let message = "an instance has no account; write \"owner\" with a login, or \"owner_uuid\"";
            reader.refuse(fields.at, message.to_string())
        }
    }
}

/// Reports something that stands in both forms.
fn twice<T>(reader: &mut Reader<'_>, node: &Node, short: &str, full: &str) -> Option<T> {
    reader.refuse(node.at, format!("\"{short}\" and \"{full}\" say the same thing; keep one of them"))
}

/// Reads the state of an instance; one that VMAPI does not have is refused if it resembles one that it has.
fn read_state(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<State> {
    let text = reader.text(key, node, "a state such as \"running\"")?;
    match text {
        "running" => Some(State::Running),
        "failed" => Some(State::Failed),
        "destroyed" => Some(State::Destroyed),
        _ if STATES.contains(&text) => Some(State::Other),
        _ => match suggest(text, STATES) {
            Some(near) => {
                let text = shorten(text);
                reader.refuse(node.at, format!("\"{key}\" cannot be \"{text}\"; did you mean \"{near}\"?"))
            }
            None => Some(State::Other),
        },
    }
}

/// Reads whether an instance has a time of destruction.
fn read_destroyed(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<bool> {
    match &node.value {
        Value::Text(text) => Some(!text.is_empty()),
        Value::Date(_) => Some(true),
        _ => reader.wrong_type(key, node, "a time such as \"2026-03-01T12:00:00.000Z\", or leave the key out"),
    }
}

//--- Tags and metadata ---

/// Reads the tags that zones depend on, and the short form of one.
fn read_tags(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Box<[(Tag, TagValue)]> {
    let mut tags: Vec<(Tag, TagValue)> = Vec::new();
    for Entry { key, key_at, node } in entries(reader, fields, "tags", "a table of tags") {
        let Some(tag) = Tag::named(key) else {
            if key.starts_with("triton.cns.") {
                let advice = "no zone depends on it; those are services, disable and reverse_ptr";
                reader.warn(*key_at, format!("tag \"{}\" is not known: {advice}", shorten(key)));
            }
            continue;
        };
        let value = match &node.value {
            Value::Text(text) => TagValue::Text(text.as_str().into()),
            Value::Boolean(flag) => TagValue::Flag(*flag),
            Value::Integer(_) | Value::Float(_) => TagValue::Other,
            _ => {
                reader.wrong_type::<()>(key, node, "a string, a boolean or a number");
                continue;
            }
        };
        tags.push((tag, value));
    }
    if let Some(node) = fields.get("services") {
        if tags.iter().any(|(tag, _)| *tag == Tag::Services) {
            twice::<()>(reader, node, "services", "triton.cns.services");
        }
        let text = reader.text("services", node, "a string such as \"web:8080,frontdoor\"");
        tags.extend(text.map(|text| (Tag::Services, TagValue::Text(text.into()))));
    }
    tags.sort_by_key(|(tag, _)| *tag);
    tags.into()
}

/// Reads the metadata that zones depend on, and the short forms.
fn read_metadata(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Box<[(Metadata, Box<str>)]> {
    let mut found: Vec<(Metadata, Box<str>)> = Vec::new();
    for Entry { key, node, .. } in entries(reader, fields, "customer_metadata", "a table of strings") {
        if let Some(metadata) = Metadata::named(key) {
            found.extend(text(reader, key, node).map(|text| (metadata, text)));
        }
    }
    for (short, metadata, full) in [
        ("status", Metadata::Status, "triton.cns.status"),
        ("acme", Metadata::AcmeChallenge, "triton.cns.acme-challenge"),
    ] {
        let Some(node) = fields.get(short) else { continue };
        if found.iter().any(|(other, _)| *other == metadata) {
            twice::<()>(reader, node, short, full);
        }
        found.extend(text(reader, short, node).map(|text| (metadata, text)));
    }
    found.sort_by_key(|(metadata, _)| *metadata);
    found.into()
}

/// The entries of a table, none if it is not there.
fn entries<'n>(reader: &mut Reader<'_>, fields: &Fields<'n>, key: &str, wanted: &str) -> &'n [Entry] {
    match fields.get(key) {
        None => &[],
        Some(Node { value: Value::Table(entries), .. }) => entries,
        Some(node) => reader.wrong_type(key, node, wanted).unwrap_or(&[]),
    }
}

//--- Network interfaces ---

/// Reads the network interfaces, and the short form of one.
fn read_interfaces(reader: &mut Reader<'_>, fields: &Fields<'_>, networks: &mut Networks<'_>) -> Box<[Interface]> {
    let mut found = Vec::new();
    if let Some(node) = fields.get("nics") {
        found.extend(reader.list("nics", node, "a list of tables", |reader, _, node| read_interface(reader, node)));
    }
    let mut found: Vec<Interface> = found.into_iter().flatten().collect();
    let Some(node) = fields.get("addresses") else { return found.into() };
    if let Some(nics) = fields.get("nics") {
        twice::<()>(reader, nics, "addresses", "nics");
    }
    let mut addresses = Addresses::default();
    for item in reader.items("addresses", node, node.is_text(), "a list of addresses").unwrap_or_default() {
        address(reader, "addresses", item, &mut addresses);
    }
    let network = networks.default(reader, node.at);
    let Addresses { fixed, dynamic } = addresses;
    found.push(Interface { mac: None, nic_tag: None, vlan_id: 0, network, addresses: fixed.into(), dynamic });
    found.into()
}

/// Reads a network interface.
fn read_interface(reader: &mut Reader<'_>, node: &Node) -> Option<Interface> {
    let fields = Fields::of(reader, node, &keys::INTERFACE)?;
    let mac = fields.read(reader, "mac", mac);
    let nic_tag = fields.read(reader, "nic_tag", full_text);
    let vlan_id = fields.read(reader, "vlan_id", vlan).unwrap_or(0);
    let network = fields.read(reader, "network_uuid", uuid);
    let Addresses { fixed, dynamic } = addresses(reader, &fields);
    Some(Interface { mac, nic_tag, vlan_id, network, addresses: fixed.into(), dynamic })
}
