//! The one value tree that TOML and JSON files become, with the byte offset of every key and value.
//!
//! Invariants: entries of a table stand in file order and no key occurs twice; the tree owns its text.
//!
//! Cost: O(file), and O(entries log entries) to restore the file order of TOML tables. Nesting is bounded by the
//! parsers (80 levels in TOML, 512 in JSON), so recursion over a tree is safe.
//!
//! RFCs: 8259 (JSON, strict: neither comments nor trailing commas).

use crate::error::{ConfigError, Source};
use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::collections::HashSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the offset of its first byte.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: usize,
    pub value: Value,
}

/// Value that a file can hold.
#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A date, a time, or both, as it is written.
    Date(String),
    /// Something no key takes: null, a number that fits no type.
    Unusable(&'static str),
}

/// One `key = value`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_at: usize,
    pub node: Node,
}

impl Node {
    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Table(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Returns true if the value is a string.
    pub fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Returns true if the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    /// Returns true if the value is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }

    /// The kind of value, with its article, for "found ...".
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Date(_) => "a date",
            Value::Unusable(kind) => kind,
        }
    }
}

/// Reads a file of either format; errors that leave no usable tree come without one.
pub fn parse(source: &Source<'_>) -> (Option<Node>, Vec<ConfigError>) {
    // Neither a TOML key nor a TOML table header can begin with a brace.
    if source.text.trim_start().starts_with('{') {
        parse_json(source, 0..source.text.len())
    } else {
        parse_toml(source)
    }
}

/// Reads one JSON value that a text holds at a place: positions are those in the whole text. Long lists are read with it
/// element by element, so that the tree of one of them is all that is in memory.
///
/// Cost: O(value).
pub fn parse_json_at(source: &Source<'_>, within: Range<usize>) -> (Option<Node>, Vec<ConfigError>) {
    parse_json(source, within)
}

/// Returns what can still be read of a file with errors, and true if nothing of it is missing.
pub fn salvage(source: &Source<'_>) -> (Option<Node>, bool) {
    match parse(source) {
        (Some(tree), _) => (Some(tree), true),
        (None, _) if source.text.trim_start().starts_with('{') => (None, false),
        (None, _) => {
            let (table, _) = DeTable::parse_recoverable(source.text);
            (Some(Node { at: table.span().start, value: convert_toml_table(table.get_ref()) }), false)
        }
    }
}

//--- TOML ---

/// Reads TOML. Duplicate keys are reported and the rest is still read; other errors end the reading.
fn parse_toml(source: &Source<'_>) -> (Option<Node>, Vec<ConfigError>) {
    let (table, errors) = DeTable::parse_recoverable(source.text);
    let mut usable = true;
    let errors = errors
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or(source.text.len()..source.text.len());
            if error.message().starts_with("duplicate key") {
                let key = source.text.get(span.clone()).unwrap_or_default().trim_matches(['"', '\'']);
                return source.error(span.start, duplicate_message(key));
            }
            usable = false;
            source.error(span.start, format!("{}; correct the TOML here", error.message().replace('\n', " ")))
        })
        .collect();
    let at = table.span().start;
    (usable.then(|| Node { at, value: convert_toml_table(table.get_ref()) }), errors)
}

/// Reads one TOML value that the program itself has written.
pub fn parse_value(text: &'static str) -> Node {
    convert_toml(&DeValue::parse(text).expect(text))
}

/// Converts a TOML table, sorted by position because the parser sorts by key.
fn convert_toml_table(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_at: key.span().start,
            node: convert_toml(value),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_at);
    Value::Table(entries)
}

/// Converts a TOML value.
fn convert_toml(spanned: &Spanned<DeValue<'_>>) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Value::Unusable("an integer of more than 64 bits"), Value::Integer),
        DeValue::Float(float) => {
            float.as_str().parse().map_or(Value::Unusable("a number that cannot be read"), Value::Float)
        }
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(convert_toml).collect()),
        DeValue::Table(table) => convert_toml_table(table),
    };
    Node { at: spanned.span().start, value }
}

//--- JSON ---

/// JSON as RFC 8259 has it.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a part of a text as JSON. The parser stops at the first syntax error; all duplicate keys are reported.
fn parse_json(source: &Source<'_>, within: Range<usize>) -> (Option<Node>, Vec<ConfigError>) {
    let from = within.start;
    match parse_to_ast(source.text.get(within).unwrap_or_default(), &CollectOptions::default(), &STRICT) {
        Ok(result) => {
            let mut errors = Vec::new();
            let node = result.value.map(|value| convert_json(&value, from, source, &mut errors));
            (node, errors)
        }
        Err(error) => {
            let kind = error.kind().to_string();
            let what = kind[..1].to_lowercase() + &kind[1..];
            let advice = match error.kind() {
                ParseErrorKind::CommentsNotAllowed => "remove the comment, or write the file as TOML",
                ParseErrorKind::TrailingCommasNotAllowed => "remove the comma before the closing bracket",
                ParseErrorKind::MultipleRootJsonValues => "remove what follows the closing brace",
                _ => "correct the JSON here",
            };
            (None, vec![source.error(from + error.range().start, format!("{what}; {advice}"))])
        }
    }
}

/// Converts a JSON value of a text that begins at an offset.
fn convert_json(value: &ast::Value<'_>, from: usize, source: &Source<'_>, errors: &mut Vec<ConfigError>) -> Node {
    let at = from + value.range().start;
    let value = match value {
        ast::Value::StringLit(text) => Value::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => match (number.value.parse(), number.value.parse::<f64>()) {
            (Ok(integer), _) => Value::Integer(integer),
            (_, Ok(float)) if float.is_finite() => Value::Float(float),
            _ => Value::Unusable("a number that is too large"),
        },
        ast::Value::BooleanLit(boolean) => Value::Boolean(boolean.value),
        ast::Value::NullKeyword(_) => Value::Unusable("null"),
        ast::Value::Array(array) => {
            Value::List(array.elements.iter().map(|element| convert_json(element, from, source, errors)).collect())
        }
        ast::Value::Object(object) => {
            let mut seen = HashSet::new();
            let mut entries = Vec::with_capacity(object.properties.len());
            for property in &object.properties {
                let key = property.name.as_str();
                let key_at = from + property.name.range().start;
                // RFC 8259 section 4 leaves the meaning of a repeated name open, so it must not occur.
                if !seen.insert(key) {
                    errors.push(source.error(key_at, duplicate_message(key)));
                    continue;
                }
                let node = convert_json(&property.value, from, source, errors);
                entries.push(Entry { key: key.to_string(), key_at, node });
            }
            Value::Table(entries)
        }
    };
    Node { at, value }
}

/// Message for a key that occurs twice in one table.
fn duplicate_message(key: &str) -> String {
    format!("duplicate key \"{key}\"; keep one of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_part_of_a_text_has_its_places_in_the_whole() {
        let text = "[{\"a\": 1},\n {\"é\": [true], \"b\": 2, \"b\": 3},\n {\"c\" 4}]";
        let source = Source::new(Path::new("c"), text);
        let part = |wanted: &str| {
            let at = text.find(wanted).unwrap();
            parse_json_at(&source, at..at + wanted.len())
        };
        let (node, errors) = part("{\"é\": [true], \"b\": 2, \"b\": 3}");
        let node = node.unwrap();
        assert_eq!(source.position(node.at), "c:2:2");
        assert_eq!(source.position(node.get("é").unwrap().at), "c:2:8");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].to_string(), "c:2:24: duplicate key \"b\"; keep one of them");
        let (node, errors) = part("{\"c\" 4}");
        assert!(node.is_none());
        assert_eq!((errors[0].line, errors[0].column), (3, 7));
        assert!(parse_json_at(&source, 0..1000).0.is_none());
    }
}
