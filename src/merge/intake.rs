//! Intake of one member: its zone as a region takes it, as it is, or without what is drained and with addresses
//! that services keep for a while.
//!
//! The merge knows nothing of drains: it is given a zone in which the drained names are missing and the addresses that
//! are held still stand. So the law that a merge of what changed equals a merge of everything holds for these zones as
//! for any.
//!
//! Invariants: [`Intake::zone`] is the member's version itself wherever nothing is to be changed about it, and has the
//! member's SOA and NS set in any case; it depends on the version, the scope and what is held, not on the way there.
//! [`Intake::take`] names every name at which the zone differs from the one before.
//!
//! Cost: O(names touched) as long as the scope stays, O(names) when it changes; O(1) without drains.

use super::Scope;
use super::reasons::LeftOut;
use crate::zone::{Editor, Node, RRsets, Zone};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{RRset, rtype};

/// Address sets that are still given at names of the member, beside those that it has.
pub type Held = HashMap<Name, Vec<Arc<RRset>>>;

/// Names at which a region has to look after a member has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// At these names of the member; without any, only its SOA may have changed.
    Names(Vec<Name>),
    Everything,
}

/// Data that is taken of one member.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    /// The member's version; none while nothing is taken of it for want of a valid one.
    raw: Option<Arc<Zone>>,
    scope: Scope,
    held: Held,
    /// Zone that the region is made of.
    zone: Option<Arc<Zone>>,
}

impl Intake {
    /// The member's own version.
    pub fn raw(&self) -> Option<&Arc<Zone>> {
        self.raw.as_ref()
    }

    /// Zone that the region is made of.
    pub fn zone(&self) -> Option<&Arc<Zone>> {
        self.zone.as_ref()
    }

    /// Scope of the drains: the parts that are not taken.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Address sets that are held.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Takes a version, which differs from the one before where it was touched if at all, a scope, and what is held.
    /// Returns where the region has to look; none when nothing has come and nothing is changed.
    pub fn take(
        &mut self,
        raw: Option<Arc<Zone>>,
        touched: Option<&Touched>,
        scope: Scope,
        held: Held,
    ) -> Option<Touched> {
        let is_same_scope = self.scope == scope;
        let is_same_version = match (&self.raw, &raw) {
            (Some(before), Some(raw)) => Arc::ptr_eq(before, raw),
            (before, raw) => before.is_none() && raw.is_none(),
        };
        let moved: Vec<Name> = if self.held == held { Vec::new() } else { differences(&self.held, &held) };
        if touched.is_none() && is_same_scope && moved.is_empty() && is_same_version {
            return None;
        }
        let before = std::mem::replace(self, Intake { raw, scope, held, zone: None });
        let (Some(raw), Some(_)) = (&self.raw, &before.raw) else {
            self.zone = self.raw.as_ref().map(|raw| self.shape(raw, None));
            return (self.raw.is_some() != before.raw.is_some()).then_some(Touched::Everything);
        };
        let names = match touched {
            Some(Touched::Everything) => None,
            None if !is_same_version => None,
            _ if !is_same_scope && (self.scope.whole || before.scope.whole) => None,
            Some(Touched::Names(names)) => Some(names.iter().cloned().chain(moved).collect::<Vec<Name>>()),
            None => Some(moved),
        };
        let names = names.map(|mut names| {
            if !is_same_scope {
                let differs = |owner: &[u8]| self.scope.covers(owner) != before.scope.covers(owner);
                names.extend(raw.nodes().filter(|node| differs(node.owner())).map(|node| raw.name_of(node)));
                // What is held need not be in the version.
                names.extend(self.held.keys().filter(|name| differs(name.owner_in(&raw.origin))).cloned());
            }
            names
        });
        let known = names.as_ref().filter(|_| is_same_scope).zip(before.zone.as_deref());
        self.zone = Some(self.shape(raw, known));
        Some(names.map_or(Touched::Everything, Touched::Names))
    }

    /// The zone that the region is made of; where the names are known at which it differs from an earlier one, out of
    /// that.
    fn shape(&self, raw: &Arc<Zone>, known: Option<(&Vec<Name>, &Zone)>) -> Arc<Zone> {
        if self.scope.is_empty() && self.held.is_empty() {
            return raw.clone();
        }
        let apex: RRsets = match self.scope.whole {
            true => raw.apex().rrsets().filter(|set| is_kept(set.rtype)).map(|set| Arc::new(set.to_rrset())).collect(),
            false => raw.apex().to_rrsets(),
        };
        let mut editor = match known {
            _ if self.scope.whole => Editor::new(raw.origin.clone()),
            // Without patterns the member's version is nearer than the one before.
            Some((names, before)) if !self.scope.patterns.is_empty() => {
                let mut editor = Editor::from_zone(before);
                names.iter().filter(|name| **name != raw.origin).for_each(|name| self.put(raw, name, &mut editor));
                editor
            }
            _ => {
                let mut editor = Editor::from_zone(raw);
                if !self.scope.patterns.is_empty() {
                    let covered = raw.nodes().filter(|node| !node.is_empty() && self.scope.covers(node.owner()));
                    covered.for_each(|node| _ = editor.set(&raw.name_of(node), RRsets::default(), None));
                }
                self.held.keys().for_each(|name| self.put(raw, name, &mut editor));
                editor
            }
        };
        editor.set(&raw.origin, apex, raw.apex().spelled.map(Arc::from));
        Arc::new(editor.finish_beside(&[raw]).expect("the apex of a member has one SOA"))
    }

    /// Gives a name in the making what is taken at it.
    fn put(&self, raw: &Zone, name: &Name, editor: &mut Editor) {
        let node = raw.get(name.as_wire());
        let spelled = node.and_then(|node| node.spelled).map(Arc::from);
        if self.scope.covers(name.owner_in(&raw.origin)) {
            editor.set(name, RRsets::default(), None);
        } else if let Some(held) = self.held.get(name) {
            editor.set(name, with_held(node, held), spelled);
        } else {
            editor.set(name, node.map(Node::to_rrsets).unwrap_or_default(), spelled);
        }
    }
}

/// A member beside what is taken of it.
#[derive(Clone, Debug, Default)]
pub struct TracedMember {
    /// Zone of the member, also when nothing of it is taken.
    pub zone: Option<Arc<Zone>>,
    /// Zone that the region is made of, as [`Intake::zone`] has it; none when nothing is taken.
    pub taken: Option<Arc<Zone>>,
    /// Scope of the drains of the member.
    pub drained: Scope,
}

impl TracedMember {
    /// Returns true if the region takes anything from the member at present.
    pub fn contributes(&self) -> bool {
        self.taken.is_some()
    }

    /// Reason for which nothing is taken of the member at an owner name without origin.
    pub(super) fn withholds(&self, owner: &[u8]) -> Option<LeftOut> {
        if !self.contributes() {
            return Some(LeftOut::Withdrawn);
        }
        self.drained.covers(owner).then_some(LeftOut::Drained)
    }
}

/// Returns true if an RRset of the apex stays when the member is drained.
fn is_kept(rtype: u16) -> bool {
    matches!(rtype, rtype::SOA | rtype::NS)
}

/// The names at which different sets are held.
fn differences(some: &Held, others: &Held) -> Vec<Name> {
    let names: HashSet<&Name> = some.keys().chain(others.keys()).collect();
    names.into_iter().filter(|name| some.get(*name) != others.get(*name)).cloned().collect()
}

/// Unites the RRsets of a node with those that are held beside it; a set gets one TTL, the smallest (RFC 2181 section
/// 5.2).
fn with_held(node: Option<Node<'_>>, held: &[Arc<RRset>]) -> RRsets {
    let mut sets: BTreeMap<u16, Arc<RRset>> =
        node.iter().flat_map(|node| node.rrsets()).map(|set| (set.rtype, Arc::new(set.to_rrset()))).collect();
    for held in held {
        let united = sets.get(&held.rtype).and_then(|present| {
            let rdatas = present.rdatas().chain(held.rdatas()).collect();
            RRset::build(held.rtype, present.ttl.min(held.ttl), rdatas)
        });
        sets.insert(held.rtype, united.map_or_else(|| held.clone(), Arc::new));
    }
    sets.into_values().collect()
}

#[cfg(test)]
mod tests;
