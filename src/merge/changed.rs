//! A region's next version, made of the names that changed in its members.
//!
//! Names are looked at in the order that tables have, by several threads where there are many.
//!
//! Cost: O(changed names × members); with delegations see there.

use super::rules::Merged;
use super::sink::Silent;
use super::{Members, NewConflicts, RdataNames, Region};
use crate::zone::{Editor, FETCHED, Node, Owner, Table, Zone, parallel};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::rtype;

/// Number of names below which other threads are not worth their start.
const MANY_NAMES: usize = 1000;

/// A name of the region, and what members give it.
struct Look<'m> {
    name: Name,
    found: MergedName<'m>,
}

/// Records that the members give to a name.
enum MergedName<'m> {
    /// The records of one of them as they stand, how the name is spelled, and what the present version has there.
    Sole(Node<'m>, Option<Arc<[u8]>>, Node<'m>),
    Merged(Merged),
}

impl Region {
    /// Begins the next version with the names that changed in members. Returns also the names that differ from those of
    /// the present version.
    pub(super) fn merge_names(
        &mut self,
        members: &Members,
        changed: Vec<(usize, Name)>,
        new: &mut NewConflicts,
    ) -> (Editor, Vec<Name>) {
        let origin = self.plan.origin.clone();
        let mut there: Vec<(usize, Name)> = Vec::with_capacity(changed.len());
        for (index, name) in changed {
            match name.replace_suffix(self.plan.origin_of(index), &origin) {
                Some(Ok(moved)) => there.push((index, moved)),
                _ => self.report_too_long(members, index, &name, new),
            }
        }
        let mut names = self.delegations.update(&self.plan, members, &there);
        names.extend(there.into_iter().map(|(_, name)| name));
        self.add_dependents(members, &mut names);
        let below_apex = names.iter().filter(|name| **name != origin);
        let mut owners: Vec<Owner<'_>> = below_apex.map(|name| Owner::new(name.owner_in(&origin))).collect();
        // As tables have them, and each once.
        owners.sort_unstable();
        owners.dedup();
        if self.plan.rdata_names == RdataNames::Rewrite {
            owners.iter().for_each(|owner| self.note_aliases(members, &Name::join(owner.labels(), &origin)));
        }
        let base = self.zone.clone();
        let tables: Vec<&Table> = members.iter().flatten().chain(&base).map(|zone| zone.table()).collect();
        let looks = |range: Range<usize>| {
            let mut looks = Vec::with_capacity(range.len());
            for owners in owners[range].chunks(FETCHED) {
                Table::fetch(&tables, owners.iter().map(Owner::hashed));
                looks.extend(owners.iter().map(|owner| self.look(members, base.as_deref(), owner)));
            }
            looks
        };
        let looked: Vec<Vec<Look<'_>>> =
            parallel::in_parts(owners.len(), parallel::parts(owners.len(), MANY_NAMES), looks);
        let mut editor = base.as_deref().map_or_else(|| Editor::new(origin.clone()), Editor::from_zone);
        let mut touched = Vec::with_capacity(owners.len());
        for (owner, Look { name, found }) in owners.iter().zip(looked.into_iter().flatten()) {
            let (changed, is_alike, conflicts) = match found {
                MergedName::Sole(node, spelled, old) => (editor.copy(owner, old, node, spelled), false, Vec::new()),
                MergedName::Merged(merged) => {
                    (editor.set(&name, merged.rrsets, merged.spelled), merged.is_alike, merged.conflicts)
                }
            };
            self.alike.note(owner.labels(), is_alike);
            self.report(None, &name, conflicts, new);
            if changed {
                touched.push(name);
            }
        }
        (editor, touched)
    }

    /// Looks what members give a name, which the present version may have.
    fn look<'m>(&self, members: &'m Members, base: Option<&'m Zone>, owner: &Owner<'_>) -> Look<'m> {
        let name = Name::join(owner.labels(), &self.plan.origin);
        let found = match self.sole(members, &name, owner) {
            Some((node, spelled)) => {
                let old = base.and_then(|base| base.get_at(owner)).unwrap_or_default();
                MergedName::Sole(node, spelled, old)
            }
            None => MergedName::Merged(self.merge_name(members, &name, Silent)),
        };
        Look { name, found }
    }

    /// Adds the names whose result depends on others that are looked at.
    fn add_dependents(&self, members: &Members, names: &mut Vec<Name>) {
        let cuts = members.iter().flatten().any(|zone| zone.cuts > 0);
        if !cuts && self.aliases.is_empty() {
            return;
        }
        let mut more = HashSet::new();
        for name in names.iter() {
            more.extend(self.aliases.get(name).into_iter().flatten().cloned());
            if !cuts {
                continue;
            }
            let above = std::iter::successors(name.parent(), Name::parent);
            let above = above.take_while(|above| above.is_within(&self.plan.origin));
            let has_dname = |(.., node): (usize, &Name, Node<'_>)| node.get(rtype::DNAME).is_some();
            more.extend(above.filter(|above| self.nodes(members, above).any(has_dname)));
        }
        names.extend(more);
    }
}
