//! Tables of keys: everything a file may say, each key in one place.
//!
//! A [`Key`] has its name, its default, its help, and its [`Kind`], which reads the value and says where it lands. Reading,
//! the refusal of unknown keys, suggestions, and a reference for people follow from the tables. Keys that are understood
//! only together, or with other parts of the file, are of the kind [`Kind::Bound`]: a function beside the table reads them.
//!
//! Invariant: `default` is TOML that could stand in the file, or empty when there is none; it is read as if it stood there,
//! so that what is documented is what is in force.
//!
//! Cost: a suggestion takes O(candidates × length^2).

use crate::read::Reader;
use crate::tree::Node;
use crate::units::format_duration;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use strsim::damerau_levenshtein;
use wire::name::Name;

/// One key of a table whose values land in an `S`.
pub struct Key<S: 'static> {
    pub name: &'static str,
    /// Default as TOML; empty when the key has no fixed default.
    pub default: &'static str,
    pub help: &'static str,
    pub kind: Kind<S>,
}

/// One table of the file.
pub struct Table<S: 'static> {
    /// Path of the table, as it is written in the file.
    pub path: &'static str,
    pub help: &'static str,
    /// The keys in groups, which tables may share.
    pub keys: &'static [&'static [Key<S>]],
}

/// Words, and what each of them does to the place where values land.
pub type Words<S> = &'static [(&'static str, fn(&mut S))];

/// Values that a key takes, and the place where they land.
pub enum Kind<S: 'static> {
    Flag(fn(&mut S, bool)),
    /// A count from 1 to the number given.
    Count(u32, fn(&mut S, usize)),
    Number(RangeInclusive<u64>, fn(&mut S, u64)),
    /// Any number of 32 bits.
    Number32(fn(&mut S, u32)),
    /// A number of 16 bits, from the number given on.
    Number16(u16, fn(&mut S, u16)),
    /// A number from 0 to 1.
    Share(fn(&mut S, f64)),
    Duration(fn(&mut S, Duration)),
    PositiveDuration(fn(&mut S, Duration)),
    DurationWithin(RangeInclusive<Duration>, fn(&mut S, Duration)),
    Size(fn(&mut S, u64)),
    PositiveSize(fn(&mut S, u64)),
    /// A size of so many octets at least.
    SizeFrom(u64, fn(&mut S, u64)),
    Ttl(fn(&mut S, u32)),
    Name(fn(&mut S, Name)),
    Mailbox(fn(&mut S, Name)),
    Path(fn(&mut S, PathBuf)),
    /// An address of this machine.
    SourceAddress(fn(&mut S, IpAddr)),
    /// One of a few words.
    Word(Words<S>),
    /// Values of the table's own: their description, and their reader, which returns true if the value is right.
    Own(&'static str, fn(&mut Reader<'_>, &str, &Node, &mut S) -> bool),
    /// Values that are read with other parts of the file: their description.
    Bound(&'static str),
}

/// A key whose values are still to be said.
pub struct Entitled {
    name: &'static str,
    default: &'static str,
    help: &'static str,
}

/// Begins a key: its name, its default as TOML, or nothing without one, and its help.
pub const fn key(name: &'static str, default: &'static str, help: &'static str) -> Entitled {
    Entitled { name, default, help }
}

impl Entitled {
    /// Says what values the key takes, and where they land.
    pub const fn takes<S>(self, kind: Kind<S>) -> Key<S> {
        let Entitled { name, default, help } = self;
        Key { name, default, help, kind }
    }

    /// Leaves the values to a function that reads them with other parts of the file; `takes` describes them.
    pub const fn bound<S>(self, takes: &'static str) -> Key<S> {
        self.takes(Kind::Bound(takes))
    }
}

impl<S> Table<S> {
    /// All keys, in the order of the reference.
    pub fn all(&self) -> impl Iterator<Item = &'static Key<S>> {
        self.keys.iter().copied().flatten()
    }

    /// Returns true if the table has this key.
    pub fn has(&self, name: &str) -> bool {
        self.all().any(|key| key.name == name)
    }
}

//--- Reference ---

/// Description of a table.
pub struct TableText {
    pub path: &'static str,
    pub help: &'static str,
    pub keys: Vec<KeyText>,
}

/// Description of a key.
pub struct KeyText {
    pub name: &'static str,
    /// Values that the key takes, described for people.
    pub takes: String,
    pub default: &'static str,
    pub help: &'static str,
}

impl<S> Table<S> {
    /// Returns the description of the table.
    pub fn describe(&self) -> TableText {
        let text = |key: &Key<S>| {
            let Key { name, default, help, kind } = key;
            KeyText { name, takes: kind.takes(), default, help }
        };
        TableText { path: self.path, help: self.help, keys: self.all().map(text).collect() }
    }
}

impl<S> Kind<S> {
    /// Describes the values that a key takes.
    fn takes(&self) -> String {
        let text = match self {
            Kind::Flag(_) => "true or false",
            Kind::Count(most, _) => return format!("1 to {most}"),
            Kind::Number(range, _) => match (range.start(), range.end()) {
                (least, &u64::MAX) => return format!("{least} or more"),
                (least, most) => return format!("{least} to {most}"),
            },
            Kind::Number32(_) => return format!("0 to {}", u32::MAX),
            Kind::Number16(least, _) => return format!("{least} to {}", u16::MAX),
            Kind::Share(_) => "0 to 1",
            Kind::Duration(_) | Kind::PositiveDuration(_) => "duration",
            Kind::DurationWithin(range, _) => match (*range.start(), format_duration(*range.end())) {
                (Duration::ZERO, most) => return format!("0 to {most}"),
                (least, most) => return format!("{} to {most}", format_duration(least)),
            },
            Kind::Size(_) | Kind::PositiveSize(_) | Kind::SizeFrom(..) => "size",
            Kind::Ttl(_) => "seconds or duration",
            Kind::Name(_) => "domain name",
            Kind::Mailbox(_) => "mail address",
            Kind::Path(_) => "path",
            Kind::SourceAddress(_) => "address",
            Kind::Word(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                let (last, others) = words.split_last().expect("a choice has words");
                return format!("{} or {last}", others.join(", "));
            }
            Kind::Own(takes, _) | Kind::Bound(takes) => takes,
        };
        text.to_string()
    }
}

//--- Suggestions ---

/// Advice for a word that is not among those known: the one that was probably meant, or something else.
pub fn did_you_mean<'c>(
    written: &str,
    known: impl IntoIterator<Item = &'c str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    suggest(written, known).map_or_else(otherwise, |near| format!("did you mean \"{near}\"?"))
}

/// The candidate that was probably meant, the first of the nearest; none when nothing is near.
pub fn suggest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let length = written.chars().count();
    // A file holds a few long lines at most by mistake; comparing them would be quadratic in their length.
    if length > 300 {
        return None;
    }
    // One slip, and one more for each three characters; zone names are long and alike, so never more than five.
    let allowed = 1 + (length / 3).min(4);
    let scored = candidates.into_iter().map(|candidate| (damerau_levenshtein(written, candidate), candidate));
    scored.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, found)| found)
}
