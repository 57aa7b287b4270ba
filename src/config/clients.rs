//! The section `[clients]`: the zones whose clients are known, and the prefixes of their addresses, in the file itself or in
//! files that it names.
//!
//! A file of prefixes has one on a line; comments begin with `#`, and empty lines are skipped.
//!
//! Invariants: every home is a zone of this file, or one that a catalog may list; homes have their numbers in the order of
//! the file; no prefix is there twice. One mistake in a file of prefixes refuses the whole configuration.
//!
//! Cost: O(prefixes × log prefixes) without memory for a line; where a prefix is there twice, a map of all of them once.

use crate::acl::Prefix;
use crate::clients::{Clients, Home};
use crate::config::names::{Declared, read_names, unquoted_names};
use crate::config::secondaries::{parse_prefix, read_prefix};
use crate::config::sections::Sections;
use settings::error::Source;
use settings::fields::Fields;
use settings::not_utf8;
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, did_you_mean, key};
use settings::tree::{Entry, Node, Value};
use std::collections::HashMap;
use std::collections::hash_map;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::name::Name;

/// Homes are numbered with 16 bits.
const MAX_HOMES: usize = 65_000;
/// Largest file of prefixes; ten million of them are smaller.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// Mistakes of one file of prefixes that are told.
const MAX_TOLD: usize = 10;

/// Prefixes in a file of their own
pub static LIST: Table<Option<PathBuf>> = Table {
    path: "[clients] \"NAME\"",
    help: "Prefixes of the clients of a zone, in a file of their own",
    keys: &[&[key("file", "", "file with a prefix on each line; comments begin with #")
        .takes(Kind::Path(|file, path| *file = Some(path)))]],
};

/// What `[clients]` says.
#[derive(Default)]
pub struct ClientsSection {
    pub clients: Clients,
    /// The file of each home's prefixes, by the number of the home; none where they stand in the configuration.
    pub files: Vec<Option<PathBuf>>,
    /// The names of all homes, those with mistakes, too.
    pub named: Vec<Name>,
}

/// The prefixes of one home as they are written.
struct List<'n> {
    home: Name,
    entry: &'n Entry,
    written: Written,
}

/// Prefixes as they are written.
enum Written {
    /// In the configuration, with their positions.
    Here(Vec<(Prefix, usize)>),
    /// In a file, with its text.
    File(PathBuf, String),
}

/// Reads `[clients]` of a file with these zones. Where no file is to be read those of prefixes count as empty.
pub fn read_clients(
    reader: &mut Reader<'_>,
    root: &Fields<'_>,
    zones: [&Declared; 2],
    sections: &Sections<'_>,
) -> ClientsSection {
    let mut section = ClientsSection::default();
    let Some(clients) = root.entry("clients") else { return section };
    let Value::Table(entries) = &clients.node.value else {
        reader.wrong_type::<()>("clients", &clients.node, "a table of zone names and lists of prefixes");
        return section;
    };
    let (named, unquoted) = read_names(reader, entries, "home", |entry| unquoted_names(entry, &LIST));
    section.named = named.iter().map(|(name, _)| name).chain(unquoted.iter().map(|(name, _)| name)).cloned().collect();
    if named.len() > MAX_HOMES {
        let message = format!("[clients] has {} zones; write {MAX_HOMES} at most", named.len());
        reader.error(clients.key_at, message);
        return section;
    }
    let mut lists = Vec::with_capacity(named.len());
    for (home, entry) in named {
        if !sections.foreseen.as_ref().is_some_and(|foreseen| foreseen.has(&home)) {
            expect_zone(reader, root, zones, &home, entry);
        }
        if let Some(written) = read_list(reader, entry, sections.touch_disk) {
            lists.push(List { home, entry, written });
        }
    }
    let mut prefixes: Vec<(Prefix, Home)> = Vec::new();
    for (number, list) in (0..).zip(&lists) {
        list.gather(reader, number, &mut prefixes);
    }
    let homes = lists.iter().map(|list| list.home.clone()).collect();
    match Clients::new(homes, &prefixes) {
        Ok(clients) => section.clients = clients,
        Err(_) => refuse_repeated(reader, &lists),
    }
    section.files = lists.into_iter().map(|list| list.file()).collect();
    section
}

/// Reports a home that is no zone of the file.
fn expect_zone(reader: &mut Reader<'_>, root: &Fields<'_>, zones: [&Declared; 2], home: &Name, entry: &Entry) {
    // A file without zones was reported, which says it all.
    if zones.iter().any(|zones| zones.contains_key(home)) || zones.iter().all(|zones| zones.is_empty()) {
        return;
    }
    let text = shorten(&entry.key);
    let is_region = |entry: &Entry| Name::parse(&entry.key).is_ok_and(|name| name == *home);
    let regions = root.entry("aggregations").map(|section| &section.node.value);
    let advice = match regions {
        Some(Value::Table(regions)) if regions.iter().any(is_region) => {
            format!("[clients] names \"{text}\", which is an aggregation; write the zones of that one instead")
        }
        _ => {
            let mut known: Vec<(usize, String)> =
                zones.iter().flat_map(|zones| zones.iter()).map(|(zone, at)| (*at, without_dot(zone))).collect();
            known.sort();
            let otherwise = || "add it to [zones] or remove it here".to_string();
            let advice = did_you_mean(&without_dot(home), known.iter().map(|(_, zone)| zone.as_str()), otherwise);
            format!("[clients] names unknown zone \"{text}\"; {advice}")
        }
    };
    reader.error(entry.key_at, advice);
}

/// Reads the prefixes of one home: a list, or the file that has it.
fn read_list(reader: &mut Reader<'_>, entry: &Entry, touch_disk: bool) -> Option<Written> {
    let (key, node) = (shorten(&entry.key), &entry.node);
    match &node.value {
        Value::List(items) if items.is_empty() => {
            let advice = "write prefixes such as [\"10.1.0.0/16\", \"2001:db8:1::/48\"], or remove it";
            reader.refuse(node.at, format!("clients of \"{key}\" have no prefixes; {advice}"))
        }
        Value::List(items) => {
            let read = |item: &Node| Some((read_prefix(reader, &key, item, "")?, item.at));
            Some(Written::Here(items.iter().filter_map(read).collect()))
        }
        Value::Table(_) => {
            let (mut file, place) = (None, format!("clients of \"{key}\""));
            let fields = LIST.read(reader, node, &place, &mut file)?;
            fields.need(reader, "file", node.at, format!("{place} name no file; write {{ file = \"PATH\" }}"));
            let file = file?;
            let at = fields.entry("file").map_or(node.at, |field| field.node.at);
            let text = if touch_disk { read_file(reader, &file, at)? } else { String::new() };
            Some(Written::File(file, text))
        }
        _ => reader.wrong_type(&key, node, "a list of prefixes such as [\"10.1.0.0/16\"], or { file = \"PATH\" }"),
    }
}

impl List<'_> {
    /// The file of the prefixes.
    fn file(self) -> Option<PathBuf> {
        match self.written {
            Written::Here(_) => None,
            Written::File(path, _) => Some(path),
        }
    }

    /// Adds the prefixes to those of other homes, and reports what is none.
    fn gather(&self, reader: &mut Reader<'_>, home: Home, prefixes: &mut Vec<(Prefix, Home)>) {
        let (path, text) = match &self.written {
            Written::Here(list) => return prefixes.extend(list.iter().map(|(prefix, _)| (*prefix, home))),
            Written::File(path, text) => (path, text),
        };
        prefixes.reserve(text.bytes().filter(|octet| *octet == b'\n').count() + 1);
        let mut source = None;
        let faults = read_prefixes(text).filter_map(|(at, read)| match read {
            Ok(prefix) => {
                prefixes.push((prefix, home));
                None
            }
            Err(problem) => Some((at, problem)),
        });
        for (told, (at, problem)) in faults.take(MAX_TOLD + 1).enumerate() {
            let source = source.get_or_insert_with(|| Source::new(path, text));
            let more = || "more lines from here on are no prefixes; correct those above first".to_string();
            reader.error_elsewhere(source.error(at, if told < MAX_TOLD { problem } else { more() }));
        }
    }

    /// All prefixes with their positions.
    fn places(&self) -> Box<dyn Iterator<Item = (Prefix, usize)> + '_> {
        match &self.written {
            Written::Here(list) => Box::new(list.iter().copied()),
            Written::File(_, text) => Box::new(read_prefixes(text).filter_map(|(at, read)| Some((read.ok()?, at)))),
        }
    }

    /// A position in words.
    fn describe(&self, reader: &Reader<'_>, at: usize) -> String {
        match &self.written {
            Written::Here(_) => reader.source.position(at),
            Written::File(path, text) => Source::new(path, text).position(at),
        }
    }

    /// Reports a mistake.
    fn refuse(&self, reader: &mut Reader<'_>, at: usize, message: String) {
        match &self.written {
            Written::Here(_) => reader.error(at, message),
            Written::File(path, text) => reader.error_elsewhere(Source::new(path, text).error(at, message)),
        }
    }
}

/// Reports prefixes that are there twice.
fn refuse_repeated(reader: &mut Reader<'_>, lists: &[List<'_>]) {
    let mut firsts: HashMap<Prefix, (usize, usize)> = HashMap::new();
    for (number, list) in lists.iter().enumerate() {
        let repeated = list.places().filter_map(|(prefix, at)| match firsts.entry(prefix) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert((number, at));
                None
            }
            hash_map::Entry::Occupied(entry) => Some((prefix, at, *entry.get())),
        });
        // All of the list, because other lists are compared with it.
        let repeated: Vec<_> = repeated.collect();
        for (prefix, at, (other, first)) in repeated.into_iter().take(MAX_TOLD) {
            let (owner, first) = (shorten(&lists[other].entry.key), lists[other].describe(reader, first));
            let message = match other == number {
                true => format!("{prefix} is there twice, first at {first}; remove one"),
                false => format!(
                    "{prefix} is a prefix of \"{owner}\" already, at {first}; a client has one home, remove one"
                ),
            };
            list.refuse(reader, at, message);
        }
    }
}

//--- Files of prefixes ---

/// Error: a file gives no prefixes.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot be read: {0}; write the path of a file with a prefix on each line")]
    Read(#[from] io::Error),
    #[error("is no plain file; write the path of a file with a prefix on each line")]
    NoFile,
    #[error("is larger than any list of prefixes; write the path of a file with a prefix on each line")]
    Large,
}

/// Reads the text of a file that is named at a position.
fn read_file(reader: &mut Reader<'_>, path: &Path, at: usize) -> Option<String> {
    let octets = match read_octets(path) {
        Ok(octets) => octets,
        Err(error) => {
            let is_absent = matches!(error, FileError::Read(_));
            return reader.refuse_file(at, format!("\"file\" {} {error}", path.display()), is_absent);
        }
    };
    let mut text = match String::from_utf8(octets) {
        Ok(text) => text,
        Err(error) => {
            reader.error_elsewhere(not_utf8(path, error));
            return None;
        }
    };
    // Editors put a byte order mark in front.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    if read_prefixes(&text).next().is_none() {
        let message = "the file has no prefixes; write one on a line, such as 10.1.0.0/16".to_string();
        reader.error_elsewhere(Source::new(path, &text).error(0, message));
        return None;
    }
    Some(text)
}

/// Reads a file.
fn read_octets(path: &Path) -> Result<Vec<u8>, FileError> {
    // A named pipe would wait for its other end.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileError::NoFile);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(FileError::Large);
    }
    let mut octets = Vec::new();
    file.read_to_end(&mut octets)?;
    Ok(octets)
}

/// The lines of a file of prefixes that are not empty, with the offsets at which they begin: a prefix, or what is wrong.
pub fn read_prefixes(text: &str) -> impl Iterator<Item = (usize, Result<Prefix, String>)> {
    let mut next = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = next;
        next += line.len();
        let written = line.split('#').next().unwrap_or_default();
        let prefix = written.trim_ascii_start();
        let at = start + written.len() - prefix.len();
        let prefix = prefix.trim_ascii_end();
        (!prefix.is_empty()).then(|| (at, read_line(prefix)))
    })
}

/// Reads a line without comment.
fn read_line(text: &str) -> Result<Prefix, String> {
    let read = parse_prefix(text, ", without quotes");
    match text.contains(|c: char| c.is_ascii_whitespace() || c == ',') {
        true if read.is_err() => {
            Err(format!("\"{}\" is no address prefix; write one alone on its line", shorten(text)))
        }
        _ => read,
    }
}

/// A name as people write it.
fn without_dot(name: &Name) -> String {
    name.to_string().trim_end_matches('.').to_string()
}
