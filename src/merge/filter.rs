//! Filter of addresses: those of a member that a region takes, by prefixes of the configuration.
//!
//! It acts on A and AAAA before anything else, so that damping, drains and the merge are given a zone that looks as if
//! the member had never had the addresses that stay at home (`docs/regions.md` 33).
//!
//! Invariants: [`Filtered::take`] depends on the version and the filter, not on the way there, and gives the member's
//! version itself as long as nothing is left out. Nothing but A and AAAA differs, and what is told beside the records is
//! the version's. It differs from the one before where the version does, and nowhere else. One [`Filtered`] sees one
//! filter; another filter needs another.
//!
//! Cost: O(changed names) for a change, O(names) for the first version; nothing without a filter.

use super::Touched;
use crate::acl::Prefix;
use crate::zone::{Editor, Node, RRsets, Zone};
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{RRset, Set, rtype};

//--- Plan ---

/// Prefixes of addresses that are taken, and that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// If there are any, only these are taken.
    pub only: Vec<Prefix>,
    pub exclude: Vec<Prefix>,
}

/// Rules of a region for the addresses of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPlan {
    /// Rules for all members.
    pub all: AddressRules,
    /// Rules for single members, in addition, in the order of the members.
    pub members: Vec<(Name, AddressRules)>,
}

/// Rule by which an address is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRule {
    /// True if the rule is one for this member alone.
    pub of_member: bool,
    /// The excluded prefix that the address is in; none if it is in none of those that alone are taken.
    pub excluded: Option<Prefix>,
}

impl AddressRules {
    /// Returns true if all addresses are taken.
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.exclude.is_empty()
    }

    /// The rule by which an address is left out: what a prefix excludes, else that no other one has it.
    fn against(&self, address: IpAddr, of_member: bool) -> Option<AddressRule> {
        let excluded = self.exclude.iter().find(|prefix| prefix.contains(address)).copied();
        let is_missing = || !self.only.is_empty() && !self.only.iter().any(|prefix| prefix.contains(address));
        (excluded.is_some() || is_missing()).then_some(AddressRule { of_member, excluded })
    }
}

impl AddressPlan {
    /// Returns true if all addresses of all members are taken.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.members.is_empty()
    }

    /// The filter of a member.
    pub fn of(&self, member: &Name) -> Filter<'_> {
        let own = self.members.iter().find(|(name, _)| name == member).map(|(_, rules)| rules);
        Filter { all: &self.all, own }
    }
}

//--- Filter ---

/// Filter of one member.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'p> {
    all: &'p AddressRules,
    own: Option<&'p AddressRules>,
}

impl Filter<'_> {
    /// The rule by which a record is left out.
    pub fn against(self, rtype: u16, rdata: &[u8]) -> Option<AddressRule> {
        let address = address_of(rtype, rdata)?;
        self.all.against(address, false).or_else(|| self.own?.against(address, true))
    }

    /// Returns true if all addresses are taken.
    fn is_empty(self) -> bool {
        self.all.is_empty() && self.own.is_none_or(AddressRules::is_empty)
    }

    /// Returns true if a set has a record that is left out.
    fn cuts(self, set: Set<'_>) -> bool {
        is_address(set.rtype) && set.rdatas().any(|rdata| self.against(set.rtype, rdata).is_some())
    }

    /// The RRsets of a node without what is left out.
    fn sets(self, node: Node<'_>) -> RRsets {
        let keep = |set: Set<'_>| match self.cuts(set) {
            true => {
                let kept = set.rdatas().filter(|rdata| self.against(set.rtype, rdata).is_none());
                RRset::build(set.rtype, set.ttl, kept.collect()).map(Arc::new)
            }
            false => Some(Arc::new(set.to_rrset())),
        };
        node.rrsets().filter_map(keep).collect()
    }

    /// The version without what is left out; where the names are known at which it differs from an earlier one, out of
    /// that.
    fn shape(self, raw: &Arc<Zone>, known: Option<(&[Name], &Versions)>) -> Arc<Zone> {
        let is_cut = |node: Node<'_>| node.rrsets().any(|set| self.cuts(set));
        let (mut editor, names) = match known {
            Some((names, before)) if !Arc::ptr_eq(&before.raw, &before.zone) => {
                let mut editor = Editor::from_zone(&before.zone);
                (editor.repeated, editor.mixed) = (raw.repeated.clone(), raw.mixed);
                (editor.left_out, editor.unanswered) = (raw.left_out.clone(), raw.unanswered.clone());
                (editor, names.iter().chain([&raw.origin]).cloned().collect())
            }
            known => {
                let names: Vec<Name> = match known {
                    Some((names, _)) => {
                        names.iter().filter(|name| raw.get(name.as_wire()).is_some_and(is_cut)).cloned().collect()
                    }
                    None => raw.nodes().filter(|node| is_cut(*node)).map(|node| raw.name_of(node)).collect(),
                };
                if names.is_empty() {
                    return raw.clone();
                }
                (Editor::from_zone(raw), names)
            }
        };
        for name in names {
            let node = raw.get(name.as_wire()).unwrap_or_default();
            editor.set(&name, self.sets(node), node.spelled.map(Arc::from));
        }
        Arc::new(editor.finish_beside(&[raw]).expect("the apex of a member has one SOA"))
    }
}

/// Returns true if records of a type are addresses of hosts.
fn is_address(rtype: u16) -> bool {
    matches!(rtype, rtype::A | rtype::AAAA)
}

/// The address that a record has.
pub(super) fn address_of(rtype: u16, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        rtype::A => <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from),
        rtype::AAAA => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        _ => None,
    }
}

//--- Filtered ---

/// A member's version, and what the filter leaves of it.
#[derive(Clone, Debug)]
struct Versions {
    raw: Arc<Zone>,
    zone: Arc<Zone>,
}

/// A member as its filter leaves it.
#[derive(Clone, Debug, Default)]
pub struct Filtered {
    /// None while nothing is taken of the member, and without a filter.
    versions: Option<Versions>,
}

impl Filtered {
    /// Takes a version, which differs from the one before where it was touched if at all. Returns what is left of it.
    pub fn take(&mut self, filter: Filter<'_>, raw: Option<Arc<Zone>>, touched: Option<&Touched>) -> Option<Arc<Zone>> {
        let before = self.versions.take();
        let raw = raw?;
        if filter.is_empty() {
            return Some(raw);
        }
        let zone = match (&before, touched) {
            (Some(before), _) if Arc::ptr_eq(&before.raw, &raw) => before.zone.clone(),
            (Some(before), Some(Touched::Names(names))) => filter.shape(&raw, Some((names, before))),
            _ => filter.shape(&raw, None),
        };
        self.versions = Some(Versions { raw, zone: zone.clone() });
        Some(zone)
    }
}
