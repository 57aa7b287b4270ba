//! A region made of everything that its members have.
//!
//! Most names have one contributor and nothing to move: their nodes are taken as they are, without a look at what is in
//! them. Where that holds for all names that one member alone has, which the zones know, they are not even gone
//! through. Else the members are gone through in the order in which they keep their nodes, which is nearly the same for
//! all, so that looking a name up in another member finds it in the processor's cache. Names at and below delegations
//! always need a look.
//!
//! Cost: O(names × members).

use super::sink::Silent;
use super::{Members, NewConflicts, Region};
use crate::zone::{Builder, Editor, RRsets, Stored, Zone};
use std::sync::Arc;
use wire::name::{MAX_NAME_BYTES, Name};

impl Region {
    /// Begins a version with all names of all members, put on the present version if there is one. Returns also the
    /// names that differ from that. The apex is left as it was.
    pub(super) fn merge_everything(&mut self, members: &Members, new: &mut NewConflicts) -> (Editor, Vec<Name>) {
        let origin = self.plan.origin.clone();
        let zones: Vec<&Zone> = members.iter().flatten().map(|zone| &**zone).collect();
        self.delegations.rebuild(&self.plan, members);
        let nothing_moves = self.plan.moves_nothing();
        let nothing_is_cut =
            zones.iter().all(|zone| self.plan.max_set.is_none_or(|most| zone.sizes.most_records() <= most));
        let is_even = nothing_moves && nothing_is_cut && self.delegations.is_empty();
        if is_even && !zones.iter().any(|zone| zone.has_odd_nodes(&origin)) {
            return self.merge_shards(members, &zones, new);
        }
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
        builder.into_editor(base.as_deref(), &zones)
    }

    /// Merges as [`Region::merge_everything`] does, where a look is needed only at names that several members have.
    fn merge_shards(&mut self, members: &Members, zones: &[&Zone], new: &mut NewConflicts) -> (Editor, Vec<Name>) {
        let origin = self.plan.origin.clone();
        let (mut editor, told) = Zone::unite(origin.clone(), zones, |owner, nodes| {
            // The apex comes later; names in between have nothing.
            if owner.is_empty() || nodes.iter().all(|node| node.is_empty()) {
                return (RRsets::default(), None);
            }
            let name = Name::join(owner, &origin);
            let merged = self.merge_name(members, &name, Silent);
            let is_told = merged.is_alike || !merged.conflicts.is_empty();
            (merged.rrsets, is_told.then_some((name, merged.conflicts, merged.is_alike)))
        });
        for (name, conflicts, is_alike) in told.into_iter().flatten() {
            self.alike.note(name.owner_in(&origin), is_alike);
            self.report(None, &name, conflicts, new);
        }
        let Some(base) = &self.zone else { return (editor, Vec::new()) };
        editor.set(&origin, base.apex().to_rrsets(), base.apex().spelled.map(Arc::from));
        let touched = editor.differing(base);
        (editor, touched)
    }
}
