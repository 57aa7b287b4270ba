//! Values that several kinds of elements have: UUIDs, times, addresses, flags.
//!
//! Invariant: a value that is null counts as absent, as in the answers of Triton's services.
//!
//! Cost: O(value).
//!
//! RFCs: 3339 (times), 9562 (UUIDs).

use super::keys::Keys;
use crate::model::{Mac, Moment, Uuid};
use chrono::DateTime;
use settings::read::{Reader, shorten};
use settings::schema::suggest;
use settings::tree::{Entry, Node, Value};
use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::Hash;
use std::net::IpAddr;

/// Returns true if a value is null.
pub fn is_null(node: &Node) -> bool {
    matches!(node.value, Value::Unusable("null"))
}

/// An element of an array: its entries, of which those that are null are not there.
#[derive(Clone, Copy)]
pub struct Fields<'n> {
    pub at: usize,
    entries: &'n [Entry],
    noun: &'static str,
}

impl<'n> Fields<'n> {
    /// Takes an element, and reports keys that are probably misspelt: all others that are not known have a meaning
    /// elsewhere in Triton.
    pub fn of(reader: &mut Reader<'_>, node: &'n Node, keys: &Keys) -> Option<Fields<'n>> {
        let Value::Table(entries) = &node.value else {
            let noun = keys.noun;
            return reader.refuse(node.at, format!("element of \"{noun}\" is {}; write a table", node.kind()));
        };
        for Entry { key, key_at, .. } in entries {
            if keys.known.contains(&key.as_str()) || keys.ignored.contains(&key.as_str()) {
                continue;
            }
            let meant = keys.meant.iter().find(|(word, _)| word == key).map(|(_, meant)| *meant);
            if let Some(near) = meant.or_else(|| suggest(key, keys.known.iter().copied())) {
                let (key, noun) = (shorten(key), keys.noun);
                reader.error(*key_at, format!("unknown key \"{key}\" in \"{noun}\"; did you mean \"{near}\"?"));
            }
        }
        Some(Fields { at: node.at, entries, noun: keys.noun })
    }

    /// The value of a key, if there is one.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!is_null(&entry.node)).then_some(&entry.node)
    }

    /// Reads a key by a function, if it is there.
    pub fn read<T>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        read: impl FnOnce(&mut Reader<'_>, &str, &'n Node) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|node| read(reader, key, node))
    }

    /// Reads a key that must be there.
    pub fn required<T>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&mut Reader<'_>, &str, &'n Node) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(node) => read(reader, key, node),
            None => reader.refuse(self.at, format!("\"{key}\" is missing in \"{}\"; write {wanted}", self.noun)),
        }
    }
}

//--- Values ---

/// Reads a text.
pub fn text(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Box<str>> {
    reader.text(key, node, "a string").map(Into::into)
}

/// Reads a text that is not empty.
pub fn full_text(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Box<str>> {
    let text = text(reader, key, node)?;
    if text.is_empty() {
        return reader.refuse(node.at, format!("\"{key}\" is empty; write a name, or leave the key out"));
    }
    Some(text)
}

/// Reads a UUID.
pub fn uuid(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Uuid> {
    let wanted = "a UUID such as \"2c2457f2-0000-4000-8000-00000000000a\"";
    let text = reader.text(key, node, wanted)?;
    parse_uuid(text)
        .or_else(|| reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text))))
}

/// Reads a UUID in the form that Triton writes, 8-4-4-4-12 digits (RFC 9562 section 4).
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() != 36 { None } else { Uuid::try_parse(text).ok() }
}

/// Reads UUIDs.
pub fn uuids(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Box<[Uuid]>> {
    reader.list(key, node, "a list of UUIDs", uuid).map(Into::into)
}

/// Reads the address of a network interface.
pub fn mac(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Mac> {
    let wanted = "an address such as \"90:b8:d0:00:00:01\"";
    let text = reader.text(key, node, wanted)?;
    parse_mac(text)
        .or_else(|| reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text))))
}

/// Reads six pairs of digits, with colons or without; illumos leaves out leading zeros.
fn parse_mac(text: &str) -> Option<Mac> {
    let mut octets = [0; 6];
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if text.len() == 12 && digits(text) {
        for (place, octet) in octets.iter_mut().enumerate() {
            *octet = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        return Some(Mac(octets));
    }
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()) && digits(part))?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(Mac(octets))
}

/// Reads a VLAN: none is 0.
pub fn vlan(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u16> {
    reader.integer(key, node, 0..=4095)
}

/// Reads a point in time: RFC 3339, as all services write it.
pub fn moment(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Moment> {
    let wanted = "a time such as \"2026-03-01T12:00:00.000Z\"";
    let text = match &node.value {
        Value::Date(text) | Value::Text(text) => text,
        _ => return reader.wrong_type(key, node, wanted),
    };
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| Moment(time.timestamp_millis()));
    time.or_else(|| reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text))))
}

/// Reads a flag of an account: a boolean, or as UFDS has it, a string that is neither empty nor "false".
pub fn flag(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<bool> {
    match &node.value {
        Value::Boolean(flag) => Some(*flag),
        Value::Text(text) => Some(!text.is_empty() && text != "false"),
        _ => reader.wrong_type(key, node, "true or false"),
    }
}

//--- Addresses ---

/// Addresses of an interface.
#[derive(Default)]
pub struct Addresses {
    pub fixed: Vec<IpAddr>,
    /// True if some are had from DHCP or from the router.
    pub dynamic: bool,
}

/// Reads the addresses of an interface: `ips` where it is there, and `ip` otherwise.
pub fn addresses(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Addresses {
    let mut found = Addresses::default();
    if let Some(node) = fields.get("ips") {
        if let Some(Value::List(items)) = Some(&node.value) {
            items.iter().for_each(|item| address(reader, "ips", item, &mut found));
        } else {
            reader.wrong_type::<()>("ips", node, "a list of addresses");
        }
        // It is still read, so that what is wrong with it is told.
        fields.get("ip").into_iter().for_each(|node| address(reader, "ip", node, &mut Addresses::default()));
    } else if let Some(node) = fields.get("ip") {
        address(reader, "ip", node, &mut found);
    }
    found
}

/// Reads one address: `ADDRESS`, `ADDRESS/LENGTH`, or where it is had from.
pub fn address(reader: &mut Reader<'_>, key: &str, node: &Node, found: &mut Addresses) {
    let wanted = "an address such as \"198.51.100.11\" or \"2001:db8::11/64\", \"dhcp\" or \"addrconf\"";
    let Some(text) = reader.text(key, node, wanted) else { return };
    match text {
        "dhcp" | "addrconf" => found.dynamic = true,
        "" if key == "ip" => {}
        _ => match parse_address(text) {
            Some(address) => {
                if reader.plain_address(node.at, address) {
                    found.fixed.push(address);
                }
            }
            None => reader.error(node.at, format!("\"{}\" is no address; write {wanted}", shorten(text))),
        },
    }
}

/// Reads an address with or without the length of its prefix.
fn parse_address(text: &str) -> Option<IpAddr> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let fits = |length: &str| length.parse::<u8>().is_ok_and(|length| length <= most);
    length.is_none_or(fits).then_some(address)
}

//--- Once ---

/// Keys that were seen, and where: none may stand twice.
pub struct Seen<K>(HashMap<K, usize>);

impl<K: Eq + Hash> Seen<K> {
    pub fn new() -> Seen<K> {
        Seen(HashMap::new())
    }

    /// Notes a key and returns true; one that was there before is reported, with both places.
    pub fn first(&mut self, reader: &mut Reader<'_>, at: usize, key: K, what: impl FnOnce() -> String) -> bool {
        match self.0.entry(key) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert(at);
                true
            }
            hash_map::Entry::Occupied(entry) => {
                let first = reader.source.position(*entry.get());
                reader.error(at, format!("{} is there already, at {first}; keep one of them", what()));
                false
            }
        }
    }
}
