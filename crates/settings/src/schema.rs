//! Keys and tables: what a file may say, and what was probably meant where it says something else.
//!
//! Invariant: `default` is TOML that could stand in the file, or empty when there is none.
//!
//! Cost: a suggestion takes O(candidates x length^2).

use strsim::damerau_levenshtein;

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    /// Values that the key takes, described for people.
    pub takes: &'static str,
    /// Default as TOML; empty when the key has no fixed default.
    pub default: &'static str,
    pub help: &'static str,
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Path of the table, as it is written in the file.
    pub path: &'static str,
    pub help: &'static str,
    pub keys: &'static [Key],
}

impl Table {
    /// Returns true if the table has this key.
    pub fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }
}

/// Shortens tables of keys.
pub const fn key(name: &'static str, takes: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, takes, default, help }
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
