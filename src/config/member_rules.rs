//! Members of regions that catalogs may bring: which zones those are is known after the file.
//!
//! A region has zones of catalogs as members by a pattern or by name. Names stand at their place among the members of the
//! file, which settles conflicts; zones that match a pattern come behind.
//!
//! Cost: to find members O(zones) for a pattern and O(log zones) for a name, each a comparison of two names.

use crate::acl::Prefix;
use crate::config::zone_pattern::{matches, matches_text};
use crate::merge::AddressRules;
use std::collections::HashSet;
use wire::name::Name;

/// A rule for members of a region, which zones of catalogs may match.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberRule {
    pub region: Name,
    pub meant: Meant,
    pub addresses: AddressRules,
    /// Prefixes of addresses that only clients at home get.
    pub home_only: Vec<Prefix>,
}

/// What a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// All zones with names of a pattern.
    Like(String),
    /// One zone; so many members of the file that have names are in front of it.
    Named { zone: Name, place: usize },
}

impl MemberRule {
    /// Returns true if a zone may be a member by this rule.
    pub fn may_bring(&self, zone: &Name) -> bool {
        match &self.meant {
            Meant::Like(pattern) => matches(pattern, zone),
            Meant::Named { zone: named, .. } => named == zone,
        }
    }

    /// The zones that it means among those of catalogs, which are in canonical order; `texts` has their names as text.
    pub fn find<'z>(&self, zones: &[&'z Name], texts: &[String]) -> Vec<&'z Name> {
        match &self.meant {
            Meant::Like(pattern) => {
                let pattern = pattern.to_ascii_lowercase();
                let found = zones.iter().zip(texts).filter(|(_, text)| matches_text(&pattern, text));
                found.map(|(zone, _)| *zone).collect()
            }
            Meant::Named { zone, .. } => {
                let found = zones.binary_search_by(|other| other.canonical_cmp(zone));
                found.into_iter().map(|index| zones[index]).collect()
            }
        }
    }
}

/// The zones that the catalogs of a file may list.
#[derive(Debug, Default)]
pub struct Foreseen {
    /// Of all catalogs that list some names only.
    patterns: Vec<String>,
    /// True if a catalog may list any zone.
    is_any: bool,
    /// Zones, regions and catalogs of the file, which no catalog can bring.
    taken: HashSet<Name>,
}

impl Foreseen {
    /// Those of so many catalogs, by the patterns of each that is known; of others nobody knows what they may list.
    pub fn new<'c>(
        catalogs: usize,
        patterns: impl ExactSizeIterator<Item = &'c [String]>,
        taken: HashSet<Name>,
    ) -> Foreseen {
        let mut foreseen = Foreseen { patterns: Vec::new(), is_any: patterns.len() < catalogs, taken };
        for own in patterns {
            foreseen.is_any |= own.is_empty();
            foreseen.patterns.extend_from_slice(own);
        }
        foreseen
    }

    /// Returns true if a catalog may list a zone.
    pub fn has(&self, zone: &Name) -> bool {
        !self.taken.contains(zone) && (self.is_any || self.patterns.iter().any(|pattern| matches(pattern, zone)))
    }
}
