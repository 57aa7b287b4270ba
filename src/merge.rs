//! The region zone as a pure function of its member zones.
//!
//! A [`Region`] holds the current version of one region zone and makes the next one. The heart is `merge_name` in
//! `rules`: the RRsets of one owner name from the members' RRsets at the corresponding names. A full merge runs it on all
//! names, an incremental one on those that changed and the few that depend on them, so both give the same zone; a
//! [`Trace`] is made by running it on one name with a sink that keeps what becomes of each record.
//!
//! Invariants: the result depends on the members' zones, their order in the configuration and the plan, never on the
//! order of arrival; only the serial also depends on what was published before. Nothing that was dropped or hidden goes
//! unreported: [`Conflict`] tells it.
//!
//! What depends on other names: what a member has at and below its delegations on what others have there (`delegations`
//! knows, and what it costs), a DNAME on what lies below it (recomputed with any name below), and under the policy
//! `rewrite` a CNAME on whether its target exists (an index leads back from target to alias).
//!
//! Cost: O(changed names × members), and what `delegations` says; a full merge O(all names × members), of several regions
//! together what `together` says. Nodes with one contributor share its RRsets.
//! RFC 1034 section 3.6.2, RFC 2181 sections 5.2 and 10.1, RFC 6672 section 2.4, RFC 6763.

mod answers;
mod apex;
mod changed;
mod damping;
mod delegations;
mod drain;
mod filter;
mod forecast;
mod full;
mod intake;
mod pin;
mod plan;
mod preview;
mod private;
mod reasons;
mod rules;
pub mod serial;
mod sink;
mod together;

pub use crate::rewrite::RdataNames;
pub use answers::{AnswersPlan, Giver, Selected};
pub use damping::{Address, Damper, DampingPlan, MemberChange, Tally};
pub use drain::{Drain, DrainTarget, NamePattern, PatternError, Scope, Shares};
pub use filter::{AddressPlan, AddressRule, AddressRules, Filtered};
pub use forecast::Forecast;
pub use intake::{Held, Intake, Touched, TracedMember};
pub use pin::Pin;
pub use plan::{NsPolicy, OnExpire, OwnerPattern, RegionPlan, SoaPlan};
pub use preview::{Preview, SharePreview, preview, preview_share};
pub use private::{Alike, AlikeNames};
pub use reasons::{Conflict, ConflictKind, LeftOut, NewConflicts, Place};
pub use sink::{Contribution, Trace};
pub use together::{Anew, merge_together};

use crate::rewrite::Move;
use crate::zone::{Editor, Node, Owner, Zone};
use delegations::{Delegations, Loss};
use full::United;
use reasons::is_dropped;
use serial::{Basis, RegionSerial};
use sink::Silent;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;
use wire::rr::rtype;

/// Zones that are taken of the members, in the plan's order; `None` for a member that has nothing to contribute.
pub type Members = [Option<Arc<Zone>>];

//--- Region ---

/// A region zone and what its next version depends on.
pub struct Region {
    pub plan: RegionPlan,
    pub zone: Option<Arc<Zone>>,
    /// Its serial, and what clients have seen of it.
    pub serial: RegionSerial,
    /// Names of the NS set within the region that have no address there.
    pub servers_without_address: Vec<Name>,
    /// Members whose only name server is their own primary, where the NS set is made of theirs.
    pub members_alone: Vec<Name>,
    pub conflicts: HashMap<Place, Vec<Conflict>>,
    /// Names with private addresses that cannot be told apart.
    pub alike: AlikeNames,
    /// True if the members' NS sets have nothing in common and this server is listed alone.
    pub ns_fallback: bool,
    /// Aliases by target, under `rewrite`: from the target, moved to the region, to the owners of the aliases.
    aliases: HashMap<Name, HashSet<Name>>,
    /// Targets by alias: the same index the other way round.
    alias_targets: HashMap<Name, Vec<Name>>,
    delegations: Delegations,
}

/// Result of an update of a region.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Neither content nor serial differ; nothing to publish.
    Same,
    /// A new version, and the conflicts that were not there before.
    New {
        conflicts: NewConflicts,
        /// Names at which it differs from the version before, the apex left out when only the SOA does.
        touched: Vec<Name>,
    },
    /// No member has a zone.
    Empty,
}

impl Region {
    /// Starts a region that has no version yet.
    pub fn new(plan: RegionPlan) -> Region {
        Region {
            plan,
            zone: None,
            serial: RegionSerial::default(),
            servers_without_address: Vec::new(),
            members_alone: Vec::new(),
            conflicts: HashMap::new(),
            alike: AlikeNames::default(),
            ns_fallback: false,
            aliases: HashMap::new(),
            alias_targets: HashMap::new(),
            delegations: Delegations::default(),
        }
    }

    /// Takes another plan for the same origin; the next merge must be a full one.
    pub fn set_plan(&mut self, plan: RegionPlan) {
        debug_assert_eq!(plan.origin, self.plan.origin);
        self.plan = plan;
        self.serial.doubted();
    }

    /// Merges all names; shares what did not change with the present version.
    pub fn merge_all(&mut self, members: &Members, now: Instant) -> Outcome {
        merge_together(&mut [Anew { region: self, members }], now).swap_remove(0)
    }

    /// Merges the names that changed in members: pairs of a member's position and a name in its zone.
    pub fn merge_changed(&mut self, members: &Members, changed: Vec<(usize, Name)>, now: Instant) -> Outcome {
        if members.iter().all(Option::is_none) {
            return self.empty();
        }
        let mut reported = Vec::new();
        let next = self.merge_names(members, changed, &mut reported);
        self.finish(members, next, reported, now)
    }

    /// Merges all names, for which it may be known what the members have together. It must be known what they delegate.
    fn make_anew(&mut self, members: &Members, united: Option<&United<'_>>, now: Instant) -> Outcome {
        if members.iter().all(Option::is_none) {
            return self.empty();
        }
        self.forget_aliases();
        self.alike.clear();
        let before = std::mem::take(&mut self.conflicts);
        let mut reported = Vec::new();
        let next = match united {
            Some(united) => self.take_united(members, united, &mut reported),
            None => self.merge_everything(members, &mut reported),
        };
        let mut outcome = self.finish(members, next, reported, now);
        if let Outcome::New { conflicts, .. } = &mut outcome {
            let old = |place: &Place, conflict: &Conflict| before.get(place).is_some_and(|old| old.contains(conflict));
            conflicts.iter_mut().for_each(|(place, new)| new.retain(|conflict| !old(place, conflict)));
            conflicts.retain(|(_, new)| !new.is_empty());
        }
        outcome
    }

    /// Has nothing, because no member has a zone.
    fn empty(&mut self) -> Outcome {
        self.zone = None;
        self.serial.emptied();
        self.conflicts.clear();
        self.alike.clear();
        self.forget_aliases();
        self.delegations.clear();
        Outcome::Empty
    }

    /// Finishes the next version, which has all but the apex and differs from the present one at some names; `reported`
    /// are the new conflicts. `now` begins the pause of a serial that is half way.
    fn finish(
        &mut self,
        members: &Members,
        (mut editor, mut touched): (Editor, Vec<Name>),
        mut reported: NewConflicts,
        now: Instant,
    ) -> Outcome {
        let base = self.zone.clone();
        let origin = self.plan.origin.clone();
        let mut apex = self.merge_name(members, &origin, Silent);
        self.alike.note(&[], apex.is_alike);
        self.report(None, &origin, std::mem::take(&mut apex.conflicts), &mut reported);
        let apex_changed = base.as_deref().is_none_or(|zone| {
            let same = self.apex_rrsets(members, &apex.rrsets, zone.soa.serial);
            editor.set(&origin, same, None)
        });
        if apex_changed {
            touched.push(origin.clone());
        }
        let basis = Basis::new(members);
        let sum = basis.sum(self.plan.serial_offset);
        let Some(serial) = self.serial.merged(sum, &basis, !touched.is_empty()) else { return Outcome::Same };
        editor.set(&origin, self.apex_rrsets(members, &apex.rrsets, serial), None);
        let beside: Vec<&Zone> = members.iter().flatten().map(|zone| &**zone).collect();
        let zone = editor.finish_beside(&beside).expect("the apex of a region has one SOA");
        self.servers_without_address = apex::servers_without_address(&zone);
        self.members_alone = apex::members_alone(&self.plan, members);
        self.serial.made(serial, sum, basis, now + serial::pause(&zone.soa));
        self.zone = Some(Arc::new(zone));
        Outcome::New { conflicts: reported, touched }
    }

    /// The members' nodes that correspond to a name of the region.
    fn nodes<'r, 'm>(
        &'r self,
        members: &'m Members,
        name: &'r Name,
    ) -> impl Iterator<Item = (usize, &'r Name, Node<'m>)> {
        let owner = Owner::new(name.owner_in(&self.plan.origin));
        let pairs = members.iter().enumerate();
        pairs.filter_map(move |(index, zone)| Some((index, self.plan.origin_of(index), zone.as_ref()?.get_at(&owner)?)))
    }

    /// Returns true if any member contributes data at a name of the region.
    fn exists(&self, members: &Members, name: &Name) -> bool {
        *name == self.plan.origin
            || !self.plan.excludes(name)
                && self.nodes(members, name).any(|(member, _, node)| {
                    node.rrsets().any(|rrset| !is_dropped(rrset.rtype, false)) && self.loss(member, name).is_none()
                })
    }

    /// Reason for which a member's data at a name is not in the region, if delegations are the reason.
    fn loss(&self, member: usize, name: &Name) -> Option<Loss> {
        self.delegations.loss(member, name.owner_in(&self.plan.origin))
    }

    /// Remembers, under `rewrite`, which targets the aliases at a name depend on.
    fn note_aliases(&mut self, members: &Members, name: &Name) {
        if self.plan.rdata_names != RdataNames::Rewrite {
            return;
        }
        let mut targets = Vec::new();
        for (_, origin, node) in self.nodes(members, name) {
            let way = Move { from: origin, to: &self.plan.origin, policy: RdataNames::Rewrite };
            targets.extend(node.get(rtype::CNAME).into_iter().flat_map(|cname| way.targets(cname).collect::<Vec<_>>()));
        }
        for target in self.alias_targets.remove(name).into_iter().flatten() {
            if let Some(owners) = self.aliases.get_mut(&target) {
                owners.remove(name);
                if owners.is_empty() {
                    self.aliases.remove(&target);
                }
            }
        }
        for target in &targets {
            self.aliases.entry(target.clone()).or_default().insert(name.clone());
        }
        if !targets.is_empty() {
            self.alias_targets.insert(name.clone(), targets);
        }
    }

    /// Empties the index of aliases.
    fn forget_aliases(&mut self) {
        self.aliases.clear();
        self.alias_targets.clear();
    }

    /// Keeps the conflicts at a name and notes those that are new.
    fn report(&mut self, member: Option<usize>, name: &Name, mut conflicts: Vec<Conflict>, new: &mut NewConflicts) {
        if conflicts.is_empty() && self.conflicts.is_empty() {
            return;
        }
        let place = Place { member, name: name.clone() };
        conflicts.sort_unstable();
        if conflicts.is_empty() {
            self.conflicts.remove(&place);
            return;
        }
        let old = self.conflicts.insert(place.clone(), conflicts.clone()).unwrap_or_default();
        conflicts.retain(|conflict| !old.contains(conflict));
        if !conflicts.is_empty() {
            new.push((place, conflicts));
        }
    }

    /// Reports a member's name that the region cannot have, or takes the report back when the name is gone.
    fn report_too_long(&mut self, members: &Members, member: usize, name: &Name, new: &mut NewConflicts) {
        let node = members[member].as_ref().and_then(|zone| zone.get(name.as_wire()));
        let dropped = node.map_or(0, |node| node.records() as u32);
        let conflict = Conflict { kind: ConflictKind::NameTooLong, member, dropped, by: None };
        self.report(Some(member), name, if dropped > 0 { vec![conflict] } else { Vec::new() }, new);
    }
}

#[cfg(test)]
pub mod tests;
