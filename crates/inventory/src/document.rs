//! Documents: a whole inventory as one TOML or JSON text, which a file or an answer over HTTP holds.
//!
//! A document has arrays of elements under the field names of Triton's services, and short forms, which are expanded here;
//! nothing else knows them. `docs/inventory-file.md` is the reference.
//!
//! Invariants: an inventory comes out only if nothing in the text is wrong, and then no UUID occurs twice in an array; what
//! is wrong is reported together, each with its line and column; UUIDs that are not written follow from names, the same
//! ones at each reading.
//!
//! Cost: O(text). Of JSON, one element's tree is in memory at a time; TOML is read as a whole, and thus limited in size.
//!
//! RFCs: 8259 (JSON), 9562 (UUIDs).

mod accounts;
mod elements;
mod keys;
mod networks;
mod servers;
mod values;
mod vms;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use crate::model::{Inventory, Uuid};
pub use values::parse_uuid;

use accounts::Accounts;
use elements::Parts;
use networks::Networks;
use settings::ConfigErrors;
use settings::error::Source;
use settings::read::Reader;
use settings::tree::{Node, Value};
use std::path::Path;

/// The only format there is.
const FORMAT: i64 = 1;

/// Octets of the longest document.
pub const MOST_OCTETS: usize = 1 << 30;

/// Octets of the longest document in TOML.
pub const MOST_TOML_OCTETS: usize = 64 << 20;

/// Octets of the longest element.
pub const MOST_ELEMENT_OCTETS: usize = 1 << 20;

/// Namespace of all UUIDs that follow from names.
const NAMESPACE: Uuid = Uuid::from_u128(0xee9d_fa77_cf3f_4cb0_b621_0aa9_3d8f_65da);

/// What a document says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub inventory: Inventory,
    /// The serial that its zones are to have, where it is newer than theirs.
    pub serial: Option<u32>,
    /// What is probably not meant, with its place.
    pub warnings: Vec<String>,
}

/// Reads a document; `inventory` is the name that the configuration has for it.
pub fn read(path: &Path, text: &str, inventory: &str) -> Result<Document, ConfigErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(path, text);
    let mut document = Document::default();
    // What a list of instances is where there are none.
    if text.trim_start().strip_prefix('[').is_some_and(|rest| rest.trim() == "]") {
        return Ok(document);
    }
    let (parts, errors) = elements::split(&source);
    let mut reader = Reader::new(source, errors);
    if let Some(parts) = parts {
        read_parts(&mut reader, &parts, inventory, &mut document);
    }
    document.warnings = reader.finish()?;
    Ok(document)
}

/// Reads all parts of a document. Accounts and networks come first: what names them follows.
fn read_parts(reader: &mut Reader<'_>, parts: &Parts<'_>, inventory: &str, document: &mut Document) {
    document.serial = read_head(reader, parts);
    let mut accounts = Accounts::read(reader, parts.array("accounts"));
    let mut networks = Networks::read(reader, parts.array("networks"), inventory);
    let has_servers = parts.array("servers").is_some();
    let found = &mut document.inventory;
    found.vms = vms::read(reader, parts.array("vms"), inventory, &mut accounts, &mut networks);
    if !has_servers {
        // A document that tells of no compute nodes has no rules for them.
        found.vms.iter_mut().for_each(|vm| vm.server = None);
    }
    found.network_pools = networks::read_pools(reader, parts.array("network_pools"));
    found.nics = networks::read_nics(reader, parts.array("nics"));
    found.servers = servers::read(reader, parts.array("servers"));
    found.accounts = accounts.finish();
    found.networks = networks.finish();
    check_count(reader, parts);
}

/// Reads what a document says of itself: its format, and its serial.
fn read_head(reader: &mut Reader<'_>, parts: &Parts<'_>) -> Option<u32> {
    match parts.value("format") {
        None => reader.error(0, format!("\"format\" is missing; it is {FORMAT}")),
        Some(Node { value: Value::Integer(FORMAT), .. }) => {}
        Some(node) => reader.error(node.at, format!("\"format\" is none that is known; write {FORMAT}")),
    }
    let serial = parts.value("serial").filter(|node| !values::is_null(node))?;
    reader.integer("serial", serial, 0..=u32::MAX.into())
}

/// Compares the number of instances with what the document says of it: one that was cut off is refused.
fn check_count(reader: &mut Reader<'_>, parts: &Parts<'_>) {
    let Some(node) = parts.value("count").filter(|node| !values::is_null(node)) else { return };
    let Some(count) = reader.integer::<u64>("count", node, 0..=u64::MAX) else { return };
    let there = parts.array("vms").map_or(0, elements::Elements::len);
    if count != there as u64 {
        reader
            .error(node.at, format!("\"count\" is {count}, but there are {there} instances; write the whole document"));
    }
}

/// The UUID that follows from a name.
fn derived(parts: &[&str]) -> Uuid {
    Uuid::new_v5(&NAMESPACE, parts.join("/").as_bytes())
}
