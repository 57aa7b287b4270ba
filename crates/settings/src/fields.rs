//! The tables of a file, read by the tables of keys.
//!
//! Invariants: every key that the file does not have is read from its default; a value that is wrong leaves the default in
//! force, and no key is wrong without a message.
//!
//! Cost: O(keys × entries) for each table.

use crate::error::Source;
use crate::read::{Reader, shorten};
use crate::schema::{Key, Kind, Table, did_you_mean, suggest};
use crate::tree::{self, Entry, Node, Value};
use std::path::Path;

impl<S> Table<S> {
    /// Puts all defaults into a draft.
    pub fn set_defaults(&self, draft: &mut S) {
        let mut reader = Reader::new(Source::new(Path::new(""), ""), Vec::new());
        for Key { name, default, kind, .. } in self.all() {
            if let Some(node) = default_of(default) {
                let right = kind.read(&mut reader, name, &node, draft);
                debug_assert!(right, "{name}");
            }
        }
    }

    /// Reads a table of the file into a draft, over the defaults, and reports keys that are not known; `place` names the
    /// table in messages. Returns its entries.
    pub fn read<'n>(&self, reader: &mut Reader<'_>, node: &'n Node, place: &str, draft: &mut S) -> Option<Fields<'n>> {
        self.read_with_advice(reader, node, place, draft, |_| None)
    }

    /// The same with advice of one's own for some keys that are not known.
    pub fn read_with_advice<'n>(
        &self,
        reader: &mut Reader<'_>,
        node: &'n Node,
        place: &str,
        draft: &mut S,
        advise: impl Fn(&str) -> Option<String>,
    ) -> Option<Fields<'n>> {
        self.set_defaults(draft);
        let Value::Table(entries) = &node.value else {
            return reader.refuse(node.at, format!("{place} is {}; write a table", node.kind()));
        };
        let mut fields = self.fields(entries);
        for entry in entries.iter().filter(|entry| !self.has(&entry.key)) {
            let known = || format!("known keys are {}", fields.names().collect::<Vec<_>>().join(", "));
            let advice = advise(&entry.key).unwrap_or_else(|| did_you_mean(&entry.key, fields.names(), known));
            let place = if place.is_empty() { String::new() } else { format!(" in {place}") };
            reader.error(entry.key_at, format!("unknown key \"{}\"{place}; {advice}", shorten(&entry.key)));
        }
        for Key { name, kind, .. } in self.all() {
            if let Some(entry) = fields.entry(name)
                && !kind.read(reader, name, &entry.node, draft)
            {
                fields.wrong.push(name);
            }
        }
        Some(fields)
    }

    /// Reads the section of the file that has this table's path, `[section]`; without one, all keys have their defaults.
    pub fn read_section<'n>(&self, reader: &mut Reader<'_>, root: &Fields<'n>, draft: &mut S) -> Fields<'n> {
        let section = root.entry(self.path.trim_matches(['[', ']']));
        let fields = section.and_then(|entry| self.read(reader, &entry.node, self.path, draft));
        fields.unwrap_or_else(|| {
            self.set_defaults(draft);
            self.fields(&[])
        })
    }

    /// Returns the entries of a table, none of which is read yet.
    fn fields<'n>(&self, entries: &'n [Entry]) -> Fields<'n> {
        let known = self.all().map(|key| (key.name, key.default)).collect();
        Fields { entries, known, wrong: Vec::new(), path: self.path }
    }
}

/// Returns a default as a value of a file.
fn default_of(default: &'static str) -> Option<Node> {
    (!default.is_empty()).then(|| tree::parse_value(default))
}

//--- Kinds ---

impl<S> Kind<S> {
    /// Reads a value into a draft. Returns false if it is wrong, which is reported, and leaves the draft as it is.
    fn read(&self, reader: &mut Reader<'_>, key: &str, node: &Node, draft: &mut S) -> bool {
        match self {
            Kind::Flag(set) => land(draft, set, reader.boolean(key, node)),
            Kind::Count(most, set) => land(draft, set, reader.integer(key, node, 1..=(*most).into())),
            Kind::Number(range, set) => land(draft, set, reader.integer(key, node, range.clone())),
            Kind::Number32(set) => land(draft, set, reader.integer(key, node, 0..=u32::MAX.into())),
            Kind::Number16(least, set) => {
                land(draft, set, reader.integer(key, node, (*least).into()..=u16::MAX.into()))
            }
            Kind::Share(set) => land(draft, set, reader.share(key, node)),
            Kind::Duration(set) => land(draft, set, reader.duration(key, node)),
            Kind::PositiveDuration(set) => land(draft, set, reader.positive_duration(key, node)),
            Kind::DurationWithin(range, set) => land(draft, set, reader.duration_within(key, node, range)),
            Kind::Size(set) => land(draft, set, reader.size(key, node)),
            Kind::PositiveSize(set) => land(draft, set, reader.positive_size(key, node)),
            Kind::SizeFrom(least, set) => land(draft, set, reader.size_from(key, node, *least)),
            Kind::Ttl(set) => land(draft, set, reader.ttl(key, node)),
            Kind::Name(set) => land(draft, set, reader.name(key, node)),
            Kind::Mailbox(set) => land(draft, set, reader.mailbox(key, node)),
            Kind::Path(set) => land(draft, set, reader.path(key, node)),
            Kind::SourceAddress(set) => land(draft, set, reader.source_address(key, node)),
            Kind::Word(words) => reader.choice(key, node, words).map(|set| set(draft)).is_some(),
            Kind::Own(_, read) => read(reader, key, node, draft),
            Kind::Bound(_) => true,
        }
    }
}

/// Has a value land, if it could be read; returns true then.
fn land<S, T>(draft: &mut S, set: &fn(&mut S, T), value: Option<T>) -> bool {
    value.map(|value| set(draft, value)).is_some()
}

/// Puts a value into its slot, if it could be read; returns true then.
pub fn put<T>(slot: &mut T, value: Option<T>) -> bool {
    value.map(|value| *slot = value).is_some()
}

//--- Fields ---

/// The entries of a table of the file, for what binds several keys.
pub struct Fields<'n> {
    entries: &'n [Entry],
    /// Name and default of each key of the table.
    known: Vec<(&'static str, &'static str)>,
    /// Keys whose values were wrong.
    wrong: Vec<&'static str>,
    path: &'static str,
}

impl<'n> Fields<'n> {
    /// The entry of a key of the table.
    pub fn entry(&self, key: &str) -> Option<&'n Entry> {
        debug_assert!(self.knows(key), "{key} is missing in the schema of {}", self.path);
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entry of a key whose value landed.
    pub fn landed(&self, key: &str) -> Option<&'n Entry> {
        self.entry(key).filter(|_| !self.wrong.contains(&key))
    }

    /// Returns true if a required key is missing; a misspelt one counts as present, because it was reported as such.
    pub fn lacks(&self, key: &str) -> bool {
        let stands_for = |entry: &Entry| match self.knows(&entry.key) {
            true => entry.key == key,
            false => suggest(&entry.key, self.names()) == Some(key),
        };
        !self.entries.iter().any(stands_for)
    }

    /// Reports a required key that is missing.
    pub fn need(&self, reader: &mut Reader<'_>, key: &str, at: usize, message: String) {
        if self.lacks(key) {
            reader.error(at, message);
        }
    }

    /// The converted value of a bound key, or of its default where it is absent; none if it is wrong.
    pub fn read<'t, T>(
        &self,
        reader: &mut Reader<'t>,
        key: &str,
        convert: impl FnOnce(&mut Reader<'t>, &str, &Node) -> Option<T>,
    ) -> Option<T> {
        if let Some(entry) = self.entry(key) {
            return convert(reader, key, &entry.node);
        }
        let (_, default) = self.known.iter().find(|(name, _)| *name == key)?;
        default_of(default).and_then(|default| convert(reader, key, &default))
    }

    /// Returns true if the table has this key.
    fn knows(&self, key: &str) -> bool {
        self.names().any(|name| name == key)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::key;

    /// What the table of these tests fills.
    #[derive(Debug, Default, PartialEq)]
    struct Draft {
        most: usize,
        loud: bool,
    }

    static TABLE: Table<Draft> = Table {
        path: "[section]",
        help: "A section",
        keys: &[&[
            key("most", "7", "how many").takes(Kind::Count(9, |draft, most| draft.most = most)),
            key("style", r#""loud""#, "how").takes(Kind::Word(&[
                ("loud", |draft| draft.loud = true),
                ("quiet", |draft| draft.loud = false),
                ("mute", |draft| draft.loud = false),
            ])),
            key("list", "[1]", "what").bound("numbers"),
        ]],
    };

    /// Reads a text by the table: the draft, the bound list, and the errors.
    fn read(text: &str) -> (Draft, Option<usize>, Vec<String>) {
        let source = Source::new(Path::new("c"), text);
        let node = tree::parse(&source).0.unwrap();
        let (mut reader, mut draft) = (Reader::new(source, Vec::new()), Draft::default());
        let fields = TABLE.read(&mut reader, &node, TABLE.path, &mut draft).unwrap();
        let count =
            |reader: &mut Reader<'_>, key: &str, node: &Node| reader.list(key, node, "numbers", |_, _, _| Some(()));
        let list = fields.read(&mut reader, "list", count).map(|list| list.len());
        let errors = reader.finish().err().map(|errors| errors.0).unwrap_or_default();
        (draft, list, errors.into_iter().map(|error| error.to_string()).collect())
    }

    #[test]
    fn what_is_absent_or_wrong_has_its_default() {
        assert_eq!(read(""), (Draft { most: 7, loud: true }, Some(1), vec![]));
        assert_eq!(read("most = 3\nstyle = \"mute\"\nlist = []"), (Draft { most: 3, loud: false }, Some(0), vec![]));
        let (draft, list, errors) = read("most = 10\nlist = 5\nstile = 1");
        assert_eq!((draft, list), (Draft { most: 7, loud: true }, None));
        assert_eq!(
            errors,
            [
                "c:1:8: \"most\" cannot be 10; write a whole number from 1 to 9",
                "c:2:8: \"list\" is an integer; write numbers",
                "c:3:1: unknown key \"stile\" in [section]; did you mean \"style\"?",
            ]
        );
    }

    #[test]
    fn a_key_describes_its_values() {
        let takes: Vec<String> = TABLE.describe().keys.into_iter().map(|key| key.takes).collect();
        assert_eq!(takes, ["1 to 9", "\"loud\", \"quiet\" or \"mute\"", "numbers"]);
    }
}
