//! A region made of everything that its members have.
//!
//! Most names have one contributor and nothing to move: their nodes are taken as they are, without a look at what is in
//! them. Where that holds for nearly all names that one member alone has, which the zones know, they are not even gone
//! through (`together`). Else the members are gone through in the order in which they keep their nodes, which is nearly the same for
//! all, so that looking a name up in another member finds it in the processor's cache. Names at and below delegations
//! always need a look.
//!
//! Cost: O(names × members).

use super::reasons::Conflict;
use super::rules::Merged;
use super::sink::Silent;
use super::{Members, NewConflicts, Region};
use crate::zone::{Builder, Editor, LONG_OWNER, Node, Stored, Union, Zone};
use std::collections::HashSet;
use std::sync::Arc;
use wire::name::{MAX_NAME_BYTES, Name};

/// Number of odd nodes that are always few.
const FEW_ODD: usize = 64;

/// What members have together.
pub(super) struct United<'m> {
    /// All nodes, with what is told about names that several members have.
    pub union: Union<Option<Told>>,
    /// Owners without origin at which each region has to look itself, each once, sorted; they fit in front of its
    /// origin.
    pub odd: Vec<&'m [u8]>,
}

/// What is told about a name.
pub(super) struct Told {
    /// Labels in front of the origin.
    pub owner: Box<[u8]>,
    pub conflicts: Vec<Conflict>,
    pub is_alike: bool,
}

impl Region {
    /// Returns true if whatever one member alone has comes into the region as it stands, without a look, but for the odd
    /// nodes of the members, which are not many, and any member has anything. It must be known what members delegate.
    pub(super) fn takes_shards(&self, members: &Members) -> bool {
        let zones = || members.iter().flatten();
        let is_cut = |zone: &Arc<Zone>| self.plan.max_set.is_some_and(|most| zone.sizes.most_records() > most);
        let odd: usize = zones().map(|zone| zone.odd_nodes() as usize).sum();
        let names: usize = zones().map(|zone| zone.names()).sum();
        self.plan.moves_nothing()
            && self.delegations.is_empty()
            && zones().next().is_some()
            && odd <= FEW_ODD + names / 4
            && self.plan.origin.as_wire().len() <= LONG_OWNER
            && !zones().any(is_cut)
    }

    /// Returns true if what members have at a name may become something else in a region of another name.
    pub(super) fn looks_at_own_name(&self) -> bool {
        // A limit goes by the points of records, which depend on the name; and instances of services are told by labels
        // that begin so.
        self.plan.max_set.is_some() || self.plan.origin.as_wire().get(1) == Some(&b'_')
    }

    /// The RRsets of an owner without origin, of the nodes that members have there, by their positions.
    pub(super) fn merge_owner(&self, members: &Members, owner: &[u8], nodes: &[(usize, Node<'_>)]) -> Merged {
        let name = Name::join(owner, &self.plan.origin);
        let nodes = nodes.iter().map(|(index, node)| (*index, self.plan.origin_of(*index), *node)).collect();
        self.merge_nodes(members, &name, nodes, Silent)
    }

    /// Begins a version with what members have together, but for odd owners, which are looked at, put on the present
    /// version if there is one. Returns also the names that differ from that. The apex is left as it was.
    pub(super) fn take_united(
        &mut self,
        members: &Members,
        United { union, odd }: &United<'_>,
        new: &mut NewConflicts,
    ) -> (Editor, Vec<Name>) {
        let origin = self.plan.origin.clone();
        let is_even = |told: &&Told| odd.binary_search(&&*told.owner).is_err();
        for Told { owner, conflicts, is_alike } in union.notes.iter().flatten().filter(is_even) {
            self.alike.note(owner, *is_alike);
            self.report(None, &Name::join(owner, &origin), conflicts.clone(), new);
        }
        let mut editor = union.editor(origin.clone());
        let base = self.zone.clone();
        let mut touched = base.as_deref().map(|base| editor.differing(base)).unwrap_or_default();
        let odd: Vec<Name> = odd.iter().map(|owner| Name::join(owner, &origin)).collect();
        if !odd.is_empty() {
            let odd: HashSet<&Name> = odd.iter().collect();
            touched.retain(|name| !odd.contains(name));
        }
        for name in odd {
            let merged = self.merge_name(members, &name, Silent);
            let spelled = merged.spelled.filter(|_| !merged.rrsets.is_empty());
            let old = base.as_deref().map(|base| base.get(name.as_wire()).unwrap_or_default());
            let is_same = |old: Node<'_>| old.to_rrsets() == merged.rrsets && old.spelled == spelled.as_deref();
            let is_touched = old.is_some_and(|old| !is_same(old));
            self.alike.note(name.owner_in(&origin), merged.is_alike);
            editor.set(&name, merged.rrsets, spelled);
            self.report(None, &name, merged.conflicts, new);
            if is_touched {
                touched.push(name);
            }
        }
        if let Some(base) = &base {
            editor.set(&origin, base.apex().to_rrsets(), base.apex().spelled.map(Arc::from));
        }
        (editor, touched)
    }

    /// Begins a version with all names of all members, put on the present version if there is one. Returns also the
    /// names that differ from that. The apex is left as it was.
    pub(super) fn merge_everything(&mut self, members: &Members, new: &mut NewConflicts) -> (Editor, Vec<Name>) {
        let origin = self.plan.origin.clone();
        let longest = MAX_NAME_BYTES - origin.as_wire().len();
        let mut builder = Builder::new(origin.clone());
        for (index, zone) in members.iter().enumerate() {
            let Some(zone) = zone else { continue };
            let has_same = |others: &Members, stored: &Stored<'_>| {
                others.iter().flatten().any(|zone| zone.get_at(&stored.owner()).is_some())
            };
            for stored in zone.stored().filter(|stored| !stored.node.owner().is_empty()) {
                let owner = stored.node.owner();
                if owner.len() > longest {
                    self.report_too_long(members, index, &zone.name_of(stored.node), new);
                    continue;
                }
                // The first member that has a name stands for all.
                if has_same(&members[..index], &stored) {
                    continue;
                }
                if self.is_plain(stored.node) && !has_same(&members[index + 1..], &stored) {
                    if !stored.node.is_empty() {
                        builder.share(&stored);
                    }
                    continue;
                }
                let name = Name::join(owner, &origin);
                self.note_aliases(members, &name);
                let merged = self.merge_name(members, &name, Silent);
                builder.push(&name, &merged.rrsets, merged.spelled.as_deref());
                self.alike.note(owner, merged.is_alike);
                self.report(None, &name, merged.conflicts, new);
            }
        }
        let base = self.zone.clone();
        if let Some(apex) = base.as_deref().map(Zone::apex) {
            builder.push(&origin, &apex.to_rrsets(), apex.spelled);
        }
        let zones: Vec<&Zone> = members.iter().flatten().map(|zone| &**zone).collect();
        builder.into_editor(base.as_deref(), &zones)
    }
}
