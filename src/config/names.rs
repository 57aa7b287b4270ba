//! Names of zones and keys as the file writes them: once each, in quotes where they have dots.
//!
//! Cost: O(text).

use settings::read::{Reader, shorten};
use settings::schema::{Table, suggest};
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

/// Names in file order, each with its entry.
pub type Named<'n> = Vec<(Name, &'n Entry)>;

/// Reads the names by which a section has its tables; `what` they are names of, and `split` says which were meant by an
/// entry without quotes. Reports what is no name, lacks its quotes, or was given before. Returns the names that are left, and
/// those that lack their quotes with their places.
pub fn read_names<'n>(
    reader: &mut Reader<'_>,
    entries: &'n [Entry],
    what: &str,
    split: impl Fn(&Entry) -> Option<Vec<String>>,
) -> (Named<'n>, Vec<(Name, usize)>) {
    let (mut named, mut unquoted, mut all) = (Named::new(), Vec::new(), Declared::new());
    for entry in entries {
        let (key, at) = (shorten(&entry.key), entry.key_at);
        if let Some(names) = split(entry) {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", shorten(name))).collect();
            let advice = format!("write {}", quoted.join(" and "));
            reader.error(at, format!("name that begins with \"{key}\" has dots but no quotes; {advice}"));
            for name in names.iter().filter_map(|name| Name::parse(name).ok()) {
                all.insert(name.clone(), at);
                unquoted.push((name, at));
            }
        } else if let Some(name) = reader.parse_name(at, &entry.key) {
            if let Some(first) = all.get(&name) {
                let line = reader.source.mention(*first);
                let why = "(neither case nor a final dot matters)";
                reader.error(at, format!("{what} \"{key}\" is given in {line} already {why}; remove one"));
                continue;
            }
            all.insert(name.clone(), at);
            named.push((name, entry));
        }
    }
    (named, unquoted)
}

/// Returns true if a table has one of the keys that mark its kind, or, without a mark of another kind, one misspelt.
pub fn is_marked(entry: &Entry, marks: &[&str], others: &[&str]) -> bool {
    let Value::Table(fields) = &entry.node.value else { return false };
    let has = |keys: &[&str]| fields.iter().any(|field| keys.contains(&field.key.as_str()));
    let near = |field: &Entry| suggest(&field.key, marks.iter().copied()).is_some();
    has(marks) || (!has(others) && fields.iter().any(near))
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
