//! Names of zones and keys as the file writes them: once each, in quotes where they have dots.
//!
//! Cost: O(text).

use settings::read::{Reader, shorten};
use settings::schema::Table;
use settings::tree::{Entry, Node, Value};
use std::collections::HashMap;
use wire::name::Name;

/// Value of `mname` that stands for this server's own name.
pub const SELF: &str = "self";

/// Reads the primary in a SOA; `own` is the name of this server.
pub fn read_mname(reader: &mut Reader<'_>, key: &str, node: &Node, own: &Name) -> Option<Name> {
    match &node.value {
        Value::Text(text) if text == SELF => Some(own.clone()),
        _ => reader.name(key, node),
    }
}

/// The zones that the file names, also those with mistakes in their details, and where it names them.
pub type Declared = HashMap<Name, usize>;

/// Reports a name that was given before.
pub fn report_twice(reader: &mut Reader<'_>, what: &str, entry: &Entry, first: usize) {
    let (line, _) = reader.source.locate(first);
    let key = shorten(&entry.key);
    reader.error(
        entry.key_at,
        format!("{what} \"{key}\" is given in line {line} already (neither case nor a final dot matters); remove one"),
    );
}

/// The names that were meant where TOML read the dots of an unquoted name as nested tables.
pub fn unquoted_names<S>(entry: &Entry, table: &Table<S>) -> Option<Vec<String>> {
    let Value::Table(inner) = &entry.node.value else { return None };
    if entry.key.contains('.') || inner.is_empty() || inner.iter().any(|field| table.has(&field.key)) {
        return None;
    }
    let mut names = Vec::new();
    // The end of a name is what is no table, or a table with keys of the schema.
    let mut open: Vec<(String, &Entry)> = inner.iter().rev().map(|field| (entry.key.clone(), field)).collect();
    while let Some((prefix, field)) = open.pop() {
        let name = format!("{prefix}.{}", field.key);
        match &field.node.value {
            Value::Table(deeper) if !deeper.is_empty() && !deeper.iter().any(|field| table.has(&field.key)) => {
                open.extend(deeper.iter().rev().map(|field| (name.clone(), field)));
            }
            _ => names.push(name),
        }
    }
    Some(names)
}

/// Reports names that need quotes.
pub fn report_unquoted(reader: &mut Reader<'_>, entry: &Entry, names: &[String]) {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", shorten(name))).collect();
    let key = shorten(&entry.key);
    reader.error(
        entry.key_at,
        format!("name that begins with \"{key}\" has dots but no quotes; write {}", quoted.join(" and ")),
    );
}
