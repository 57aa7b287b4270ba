//! Members of regions that catalogs may bring: which zones those are is known after the file.
//!
//! A region has zones of catalogs as members by a pattern or by name. Names stand at their place among the members of the
//! file, which settles conflicts; zones that match a pattern come behind.
//!
//! Cost: O(rules × zones) to find members, each a comparison of two names.

use crate::acl::Prefix;
use crate::config::names::Declared;
use crate::config::zone_pattern::{matches, matches_text};
use crate::merge::AddressRules;
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

    /// The zones that it means among those of catalogs, in their order; `texts` has their names as text.
    pub fn find<'z>(&self, zones: &[&'z Name], texts: &[String]) -> Vec<&'z Name> {
        match &self.meant {
            Meant::Like(pattern) => {
                let pattern = pattern.to_ascii_lowercase();
                let found = zones.iter().zip(texts).filter(|(_, text)| matches_text(&pattern, text));
                found.map(|(zone, _)| *zone).collect()
            }
            Meant::Named { zone, .. } => zones.iter().copied().filter(|other| *other == zone).collect(),
        }
    }
}

/// The zones that the catalogs of a file may list.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    /// Of all catalogs that list some names only.
    patterns: Vec<String>,
    /// True if a catalog may list any zone.
    is_any: bool,
    /// The catalogs, which are no zones.
    catalogs: Vec<Name>,
}

impl Foreseen {
    /// Those of the catalogs of a file, by the patterns of each; what one with mistakes may list is not known.
    pub fn new<'c>(patterns: impl ExactSizeIterator<Item = &'c [String]>, declared: &Declared) -> Foreseen {
        let mut foreseen = Foreseen { is_any: patterns.len() < declared.len(), ..Foreseen::default() };
        foreseen.catalogs.extend(declared.keys().cloned());
        for own in patterns {
            foreseen.is_any |= own.is_empty();
            foreseen.patterns.extend_from_slice(own);
        }
        foreseen
    }

    /// Returns true if a catalog may list a zone.
    pub fn has(&self, zone: &Name) -> bool {
        !self.catalogs.contains(zone) && (self.is_any || self.patterns.iter().any(|pattern| matches(pattern, zone)))
    }
}
