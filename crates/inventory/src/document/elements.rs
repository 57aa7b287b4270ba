//! The parts of a document: the values at its top, and its arrays, element by element.
//!
//! A JSON array is a list of texts, each of which becomes a tree when its turn comes: 100,000 instances as one tree would
//! take gigabytes. serde_json finds where they begin and end, `settings` reads them with their positions.
//!
//! Invariant: positions of all nodes are those in the whole text.
//!
//! Cost: O(text) once to split it, 16 octets for each element of JSON.
//!
//! RFCs: 8259 (JSON).

use super::{MOST_ELEMENT_OCTETS, MOST_OCTETS, MOST_TOML_OCTETS, keys};
use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use settings::ConfigError;
use settings::error::Source;
use settings::read::{Reader, shorten};
use settings::schema::did_you_mean;
use settings::tree::{self, Node, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Parts of a document, under their keys.
#[derive(Default)]
pub struct Parts<'t> {
    values: HashMap<&'static str, Node>,
    arrays: HashMap<&'static str, Elements<'t>>,
}

/// An array of a document.
pub enum Elements<'t> {
    /// Of TOML: the trees.
    Trees(Vec<Node>),
    /// Of JSON: the texts, which are parts of the document's.
    Texts(Vec<&'t str>),
}

impl<'t> Parts<'t> {
    /// The value of a key that is no array.
    pub fn value(&self, key: &str) -> Option<&Node> {
        self.values.get(key)
    }

    /// The array of a key.
    pub fn array(&self, key: &str) -> Option<&Elements<'t>> {
        self.arrays.get(key)
    }
}

impl Elements<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::Trees(nodes) => nodes.len(),
            Elements::Texts(texts) => texts.len(),
        }
    }

    /// Goes through the elements; those that cannot be read are reported. It ends early once too much is wrong.
    pub fn for_each(&self, reader: &mut Reader<'_>, mut take: impl FnMut(&mut Reader<'_>, &Node)) {
        for place in 0..self.len() {
            if reader.is_full() {
                return;
            }
            if let Some(node) = self.node(reader, place) {
                take(reader, &node);
            }
        }
    }

    /// The element at a place, if it can be read.
    fn node(&self, reader: &mut Reader<'_>, place: usize) -> Option<Cow<'_, Node>> {
        let text = match self {
            Elements::Trees(nodes) => return Some(Cow::Borrowed(&nodes[place])),
            Elements::Texts(texts) => texts[place],
        };
        let at = offset(reader.source.text, text);
        if text.len() > MOST_ELEMENT_OCTETS {
            let most = MOST_ELEMENT_OCTETS >> 20;
            return reader.refuse(at, format!("element of {} octets; write at most {most} MiB", text.len()));
        }
        let (node, errors) = tree::parse_json_at(&reader.source, at..at + text.len());
        errors.into_iter().for_each(|error| reader.add(error));
        node.map(Cow::Owned)
    }
}

/// Where a part of a text begins in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// Splits a document into its parts; errors that leave nothing to be read come without any.
pub fn split<'t>(source: &Source<'t>) -> (Option<Parts<'t>>, Vec<ConfigError>) {
    let start = source.text.trim_start();
    // No TOML begins like this; a list of objects is refused as the JSON that it is.
    let is_json =
        start.starts_with('{') || start.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('{'));
    let (form, most) = if is_json { ("document", MOST_OCTETS) } else { ("document in TOML", MOST_TOML_OCTETS) };
    if source.text.len() > most {
        let advice = if is_json { "leave out what no zone needs" } else { "write it in JSON" };
        let message = format!("{form} of more than {} MiB; {advice}", most >> 20);
        return (None, vec![source.error(0, message)]);
    }
    if is_json { split_json(source) } else { split_toml(source) }
}

//--- JSON ---

/// Splits a document of JSON.
fn split_json<'t>(source: &Source<'t>) -> (Option<Parts<'t>>, Vec<ConfigError>) {
    let mut json = serde_json::Deserializer::from_str(source.text);
    let entries = json.deserialize_map(Entries).and_then(|entries| json.end().map(|()| entries));
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return (None, vec![syntax_error(source, &error)]),
    };
    let (mut parts, mut errors) = (Parts::default(), Vec::new());
    for (key, value) in entries {
        let (key_at, at) = (offset(source.text, key), offset(source.text, value));
        let Some(key) = known_key(source, key_at, unquoted(key), &mut errors) else { continue };
        if parts.values.contains_key(key) || parts.arrays.contains_key(key) {
            errors.push(source.error(key_at, format!("duplicate key \"{key}\"; keep one of them")));
            continue;
        }
        if keys::ARRAYS.contains(&key) && value.starts_with('[') {
            match serde_json::from_str::<Vec<&'t RawValue>>(value) {
                Ok(texts) => {
                    parts.arrays.insert(key, Elements::Texts(texts.into_iter().map(RawValue::get).collect()));
                }
                // Cannot be: the text was read as JSON before.
                Err(error) => errors.push(source.error(at, error.to_string())),
            }
            continue;
        }
        if value.len() > MOST_ELEMENT_OCTETS {
            errors.push(source.error(at, format!("\"{key}\" is not what is expected; see the reference")));
            continue;
        }
        let (node, mut wrong) = tree::parse_json_at(source, at..at + value.len());
        errors.append(&mut wrong);
        if let Some(node) = node {
            place(source, &mut parts, key, node, &mut errors);
        }
    }
    (Some(parts), errors)
}

/// The text between the quotes of a key; a key of ours has no escapes.
fn unquoted(key: &str) -> &str {
    key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(key)
}

/// The error of a text that is no JSON, with serde_json's place.
fn syntax_error(source: &Source<'_>, error: &serde_json::Error) -> ConfigError {
    let before = source.text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = before + error.column().saturating_sub(1);
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    source.error(at, format!("{what}; correct the JSON here"))
}

/// Reads the keys and values of an object, as they are written.
struct Entries;

impl<'t> Visitor<'t> for Entries {
    type Value = Vec<(&'t str, &'t str)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with \"format\" and \"vms\"")
    }

    fn visit_map<M: MapAccess<'t>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<&'t RawValue>()? {
            entries.push((key.get(), map.next_value::<&'t RawValue>()?.get()));
            if entries.len() > 1000 {
                return Err(M::Error::custom("more than 1000 keys"));
            }
        }
        Ok(entries)
    }
}

//--- TOML ---

/// Splits a document of TOML.
fn split_toml<'t>(source: &Source<'t>) -> (Option<Parts<'t>>, Vec<ConfigError>) {
    let (root, mut errors) = tree::parse(source);
    let Some(Value::Table(entries)) = root.map(|root| root.value) else { return (None, errors) };
    let mut parts = Parts::default();
    for entry in entries {
        if let Some(key) = known_key(source, entry.key_at, &entry.key, &mut errors) {
            place(source, &mut parts, key, entry.node, &mut errors);
        }
    }
    (Some(parts), errors)
}

//--- Both ---

/// Finds a key among those that a document has.
fn known_key(source: &Source<'_>, at: usize, key: &str, errors: &mut Vec<ConfigError>) -> Option<&'static str> {
    let known = || keys::HEAD.iter().chain(&keys::ARRAYS).copied();
    let found = known().find(|known| *known == key);
    if found.is_none() {
        let all = || format!("known keys are {}", known().collect::<Vec<_>>().join(", "));
        let advice = did_you_mean(key, known(), all);
        errors.push(source.error(at, format!("unknown key \"{}\"; {advice}", shorten(key))));
    }
    found
}

/// Puts a value where it belongs.
fn place(source: &Source<'_>, parts: &mut Parts<'_>, key: &'static str, node: Node, errors: &mut Vec<ConfigError>) {
    if !keys::ARRAYS.contains(&key) {
        parts.values.insert(key, node);
        return;
    }
    match node.value {
        Value::List(nodes) => {
            parts.arrays.insert(key, Elements::Trees(nodes));
        }
        // An array that is null is not there.
        Value::Unusable("null") => {}
        _ => errors.push(source.error(node.at, format!("\"{key}\" is {}; write a list of tables", node.kind()))),
    }
}
