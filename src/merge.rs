//! The region zone as a pure function of its member zones.
//!
//! A [`Region`] holds the current version of one region zone and makes the next one. The heart is `merge_name`: the
//! RRsets of one owner name from the members' RRsets at the corresponding names. A full merge runs it on all names, an
//! incremental one on those that changed and the few that depend on them, so both give the same zone.
//!
//! Invariants: the result depends on the members' zones, their order in the configuration and the plan, never on the
//! order of arrival; only the serial also depends on what was published before. Nothing that was dropped or hidden goes
//! unreported: [`Conflict`] tells it.
//!
//! What depends on other names: what a member has at and below its delegations on what others have there (`delegations`
//! knows, and what it costs), a DNAME on what lies below it (recomputed with any name below), and under the policy
//! `rewrite` a CNAME on whether its target exists (an index leads back from target to alias).
//!
//! Cost: O(changed names × members), and what `delegations` says; a full merge O(all names × members). Nodes with one
//! contributor share its RRsets.
//! RFC 1034 section 3.6.2, RFC 2181 sections 5.2 and 10.1, RFC 6672 section 2.4, RFC 6763.

mod apex;
mod changed;
mod damping;
mod delegations;
mod drain;
mod full;
mod intake;
mod pin;
mod plan;
mod preview;
pub mod serial;
mod trace;

pub use crate::rewrite::RdataNames;
pub use damping::{Address, Damper, DampingPlan, MemberChange, Tally};
pub use drain::{Drain, DrainTarget, NamePattern, PatternError, Scope};
pub use intake::{Held, Intake, Touched};
pub use pin::Pin;
pub use plan::{NsPolicy, OnExpire, OwnerPattern, RegionPlan, SoaPlan};
pub use preview::{Preview, preview};
pub use trace::{Contribution, LeftOut, Trace, TracedMember, TracedRecord, trace};

use crate::rewrite::Move;
use crate::zone::{Node, Owner, RRsets, Zone};
use delegations::{Delegations, Loss, has_same_records};
use serial::{Basis, RegionSerial};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use wire::name::{self, Name};
use wire::rr::{self, RRset, Set, rtype};

/// Zones that are taken of the members, in the plan's order; `None` for a member that has nothing to contribute.
pub type Members = [Option<Arc<Zone>>];

//--- Conflict ---

/// Kind of a conflict: the reason for which records of a member are not in the region as they are in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// A CNAME dropped because another member has data at the name (RFC 2181 section 10.1).
    AliasBesideData,
    /// Members have different CNAME or DNAME records; the first member's stays.
    DifferentAliases,
    /// A CNAME at the apex of a member, which a zone cannot have.
    AliasAtApex,
    /// A DNAME dropped because there are names below it (RFC 6672 section 2.4).
    DnameAboveData,
    /// Records at or below a delegation, dropped with it because another member has authoritative data there.
    DelegationAboveData,
    /// Members delegate a name to different servers; the first member's delegation stays.
    DifferentDelegations,
    /// Records below a delegation of another member, dropped because nothing but that is heard there.
    HiddenByDelegation,
    /// Members describe a DNS-SD instance differently; the first member's TXT stays.
    ServiceText,
    /// Targets of different members became the same SRV record under `rewrite`.
    SameTarget,
    /// The name would be longer than 255 octets in the region.
    NameTooLong,
    /// The record would fit no message under its name in the region, so that nobody could transfer it.
    RecordTooLong,
}

impl ConflictKind {
    /// All kinds, for metrics.
    pub const ALL: [ConflictKind; 11] = [
        ConflictKind::AliasBesideData,
        ConflictKind::DifferentAliases,
        ConflictKind::AliasAtApex,
        ConflictKind::DnameAboveData,
        ConflictKind::DelegationAboveData,
        ConflictKind::DifferentDelegations,
        ConflictKind::HiddenByDelegation,
        ConflictKind::ServiceText,
        ConflictKind::SameTarget,
        ConflictKind::NameTooLong,
        ConflictKind::RecordTooLong,
    ];

    /// Kind of the conflict by which a zone cannot hold a record of its primary at a name.
    pub fn within(zone: &Zone, name: &Name, rtype: u16) -> ConflictKind {
        let has_alias = || zone.get(name.as_wire()).is_some_and(|node| node.get(rtype).is_some());
        match rtype {
            rtype::CNAME if *name == zone.origin => ConflictKind::AliasAtApex,
            _ if has_alias() => ConflictKind::DifferentAliases,
            _ => ConflictKind::AliasBesideData,
        }
    }

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            ConflictKind::AliasBesideData => "alias-beside-data",
            ConflictKind::DifferentAliases => "different-aliases",
            ConflictKind::AliasAtApex => "alias-at-apex",
            ConflictKind::DnameAboveData => "dname-above-data",
            ConflictKind::DelegationAboveData => "delegation-above-data",
            ConflictKind::DifferentDelegations => "different-delegations",
            ConflictKind::HiddenByDelegation => "hidden-by-delegation",
            ConflictKind::ServiceText => "service-text",
            ConflictKind::SameTarget => "same-target",
            ConflictKind::NameTooLong => "name-too-long",
            ConflictKind::RecordTooLong => "record-too-long",
        }
    }
}

/// One conflict at one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Conflict {
    pub kind: ConflictKind,
    /// The members whose records are affected, by their position in the plan.
    pub member: usize,
    /// Records that are not in the region for it.
    pub dropped: u32,
    /// The member whose records did it, where that is one that may be far from the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<usize>,
}

/// Name, and member if there is one, of a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The member whose zone has the name, for a name that the region cannot have; else the name is the region's.
    pub member: Option<usize>,
    pub name: Name,
}

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
        conflicts: Vec<(Place, Vec<Conflict>)>,
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
    pub fn merge_all(&mut self, members: &Members) -> Outcome {
        self.forget_aliases();
        let before = std::mem::take(&mut self.conflicts);
        let mut outcome = self.update(members, None);
        if let Outcome::New { conflicts, .. } = &mut outcome {
            let old = |place: &Place, conflict: &Conflict| before.get(place).is_some_and(|old| old.contains(conflict));
            conflicts.iter_mut().for_each(|(place, new)| new.retain(|conflict| !old(place, conflict)));
            conflicts.retain(|(_, new)| !new.is_empty());
        }
        outcome
    }

    /// Merges the names that changed in members: pairs of a member's position and a name in its zone.
    pub fn merge_changed(&mut self, members: &Members, changed: Vec<(usize, Name)>) -> Outcome {
        self.update(members, Some(changed))
    }

    /// Makes the next version out of the names to look at, or of all.
    fn update(&mut self, members: &Members, changed: Option<Vec<(usize, Name)>>) -> Outcome {
        if members.iter().all(Option::is_none) {
            self.zone = None;
            self.serial.emptied();
            self.conflicts.clear();
            self.forget_aliases();
            self.delegations.clear();
            return Outcome::Empty;
        }
        let mut reported = Vec::new();
        let base = self.zone.clone();
        let origin = self.plan.origin.clone();
        let (mut editor, mut touched) = match changed {
            Some(changed) => self.merge_names(members, changed, &mut reported),
            None => self.merge_everything(members, &mut reported),
        };
        let mut apex = self.merge_name(members, &origin);
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
        self.serial.made(serial, sum, basis, Instant::now() + serial::pause(&zone.soa));
        self.zone = Some(Arc::new(zone));
        Outcome::New { conflicts: reported, touched }
    }

    /// The members' nodes that correspond to a name of the region.
    fn nodes<'r, 'm>(
        &'r self,
        members: &'m Members,
        name: &'r Name,
    ) -> impl Iterator<Item = (usize, &'r Name, Node<'m>)> {
        let labels = name.as_wire().len() - self.plan.origin.as_wire().len();
        let owner = Owner::new(&name.as_wire()[..labels]);
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
    fn report(
        &mut self,
        member: Option<usize>,
        name: &Name,
        mut conflicts: Vec<Conflict>,
        reported: &mut Vec<(Place, Vec<Conflict>)>,
    ) {
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
            reported.push((place, conflicts));
        }
    }

    /// Reports a member's name that the region cannot have, or takes the report back when the name is gone.
    fn report_too_long(
        &mut self,
        members: &Members,
        member: usize,
        name: &Name,
        reported: &mut Vec<(Place, Vec<Conflict>)>,
    ) {
        let node = members[member].as_ref().and_then(|zone| zone.get(name.as_wire()));
        let dropped = node.map_or(0, |node| node.records() as u32);
        let conflict = Conflict { kind: ConflictKind::NameTooLong, member, dropped, by: None };
        self.report(Some(member), name, if dropped > 0 { vec![conflict] } else { Vec::new() }, reported);
    }

    //--- One name ---

    /// The node of a member whose RRsets are those of a name of the region as they stand, and how it is spelled there.
    /// Most names have one contributor, and nothing to move.
    fn sole<'m>(&self, members: &'m Members, name: &Name, owner: &Owner<'_>) -> Option<(Node<'m>, Option<Arc<[u8]>>)> {
        if self.plan.excludes(name) || self.delegations.covers(owner.labels()) {
            return None;
        }
        let pairs = members.iter().enumerate();
        let mut nodes =
            pairs.filter_map(|(index, zone)| Some((self.plan.origin_of(index), zone.as_ref()?.get_at(owner)?)));
        let (from, node) = nodes.next()?;
        if nodes.next().is_some() {
            return None;
        }
        let way = Move { from, to: &self.plan.origin, policy: self.plan.rdata_names };
        let stays = |rrset: Set<'_>| {
            let settled = match rrset.rtype {
                rtype::DNAME => false,
                rtype::PLACEHOLDER => node.rrsets().count() == 1,
                rtype => !is_dropped(rtype, false),
            };
            settled && !rrset.may_not_fit() && way.leaves(name, rrset)
        };
        node.rrsets().all(stays).then(|| (node, node.spelled.and_then(|spelled| way.spelling(spelled))))
    }

    /// The RRsets of one name of the region, without SOA and NS at the apex.
    fn merge_name(&self, members: &Members, name: &Name) -> Merged {
        let mut merged = Merged::default();
        if self.plan.excludes(name) {
            return merged;
        }
        let apex = *name == self.plan.origin;
        let mut nodes: Vec<_> = self.nodes(members, name).collect();
        nodes.retain(|(index, _, node)| {
            let Some(Loss { kind, by }) = self.loss(*index, name) else { return true };
            let given = node.rrsets().filter(|rrset| !is_dropped(rrset.rtype, apex));
            let dropped = given.map(|rrset| rrset.count).sum();
            if dropped > 0 {
                merged.conflicts.push(Conflict { kind, member: *index, dropped, by: Some(by) });
            }
            false
        });
        let mut parts: BTreeMap<u16, Vec<(usize, Arc<RRset>)>> = BTreeMap::new();
        for (index, origin, node) in &nodes {
            let way = Move { from: origin, to: &self.plan.origin, policy: self.plan.rdata_names };
            let mut contributes = false;
            for rrset in node.rrsets().filter(|rrset| !is_dropped(rrset.rtype, apex)) {
                contributes = true;
                if apex && rrset.rtype == rtype::CNAME {
                    merged.drop(ConflictKind::AliasAtApex, *index, rrset.count);
                    continue;
                }
                let moved = way.rrset(name, rrset, |target| self.exists(members, target));
                let Some(moved) = merged.fit(*index, name, moved) else { continue };
                parts.entry(rrset.rtype).or_default().push((*index, moved));
            }
            if contributes && merged.spelled.is_none() {
                merged.spelled = node.spelled.and_then(|spelled| way.spelling(spelled));
            }
        }
        if parts.len() > 1 {
            // It stands for a name that nobody has anything to say about.
            parts.remove(&rtype::PLACEHOLDER);
        }
        self.settle(&nodes, name, &mut parts, &mut merged);
        let mut rrsets = Vec::with_capacity(parts.len());
        for (rtype, part) in parts {
            rrsets.extend(self.unite(rtype, part, &mut merged));
        }
        merged.rrsets = rrsets.into();
        merged
    }

    /// Resolves what cannot stand side by side (`docs/regions.md` 16 to 18).
    fn settle(
        &self,
        nodes: &[(usize, &Name, Node<'_>)],
        name: &Name,
        parts: &mut BTreeMap<u16, Vec<(usize, Arc<RRset>)>>,
        merged: &mut Merged,
    ) {
        if nodes.iter().any(|(.., node)| node.below > 0)
            && let Some(dnames) = parts.remove(&rtype::DNAME)
        {
            dnames.iter().for_each(|(member, rrset)| merged.drop(ConflictKind::DnameAboveData, *member, rrset.count));
        }
        // Only what stays counts as other data beside a CNAME.
        if parts.len() > 1
            && let Some(aliases) = parts.remove(&rtype::CNAME)
        {
            aliases.iter().for_each(|(member, rrset)| merged.drop(ConflictKind::AliasBesideData, *member, rrset.count));
        }
        for rtype in [rtype::CNAME, rtype::DNAME] {
            keep_first(parts, rtype, ConflictKind::DifferentAliases, merged);
        }
        if name::is_instance_name(name.as_wire()) && parts.contains_key(&rtype::SRV) {
            let described =
                parts.get(&rtype::TXT).is_some_and(|part| part.iter().all(|(_, rrset)| is_service_text(rrset)));
            if described {
                keep_first(parts, rtype::TXT, ConflictKind::ServiceText, merged);
            }
        }
    }

    /// Unites the members' RRsets of one type: records as a set, the smallest TTL.
    fn unite(&self, rtype: u16, part: Vec<(usize, Arc<RRset>)>, merged: &mut Merged) -> Option<Arc<RRset>> {
        let first = part.first()?.1.clone();
        if part.iter().all(|(_, rrset)| *rrset == first) && rtype != rtype::SRV || part.len() == 1 {
            return Some(first);
        }
        let ttl = part.iter().map(|(_, rrset)| rrset.ttl).min()?;
        let rdatas = part.iter().flat_map(|(_, rrset)| rrset.rdatas()).collect();
        let united = RRset::build(rtype, ttl, rdatas)?;
        if rtype == rtype::SRV && self.plan.rdata_names == RdataNames::Rewrite {
            // Targets outside the members' zones were the same before and are no loss.
            let moved = |rrset: &RRset| {
                let origin = Move { from: &self.plan.origin, to: &self.plan.origin, policy: RdataNames::Rewrite };
                origin.targets(rrset.as_set()).count() as u32
            };
            let dropped = part.iter().map(|(_, rrset)| moved(rrset)).sum::<u32>() - moved(&united);
            if dropped > 0 {
                let (kind, member) = (ConflictKind::SameTarget, part.last()?.0);
                merged.drop(kind, member, dropped);
            }
        }
        Some(Arc::new(united))
    }
}

/// The outcome for one name.
#[derive(Default)]
struct Merged {
    rrsets: RRsets,
    spelled: Option<Arc<[u8]>>,
    conflicts: Vec<Conflict>,
}

impl Merged {
    /// Leaves out of a member's RRset the records that fit no message under a name of the region; none if no record is
    /// left.
    fn fit(&mut self, member: usize, name: &Name, rrset: Arc<RRset>) -> Option<Arc<RRset>> {
        if !rrset.as_set().may_not_fit() {
            return Some(rrset);
        }
        let fitting: Vec<&[u8]> = rrset.rdatas().filter(|rdata| rr::fits_message(name.as_wire(), rdata)).collect();
        let dropped = rrset.count - fitting.len() as u32;
        if dropped == 0 {
            return Some(rrset.clone());
        }
        self.drop(ConflictKind::RecordTooLong, member, dropped);
        RRset::build(rrset.rtype, rrset.ttl, fitting).map(Arc::new)
    }

    /// Reports an RRset that is left out.
    fn drop(&mut self, kind: ConflictKind, member: usize, dropped: u32) {
        self.conflicts.push(Conflict { kind, member, dropped, by: None });
    }
}

/// Returns true if records of a type never come into a region: SOA and NS at the apex are ours, DNSSEC does not
/// survive, and a DS says nothing where no signature vouches for it.
fn is_dropped(rtype: u16, apex: bool) -> bool {
    rr::is_dnssec(rtype) || matches!(rtype, rtype::SOA | rtype::DS) || apex && rtype == rtype::NS
}

/// Leaves the first member's RRset of a type where others differ from it.
fn keep_first(
    parts: &mut BTreeMap<u16, Vec<(usize, Arc<RRset>)>>,
    rtype: u16,
    kind: ConflictKind,
    merged: &mut Merged,
) {
    let Some(part) = parts.get_mut(&rtype) else { return };
    let Some((_, first)) = part.first().cloned() else { return };
    let ttl = part.iter().map(|(_, rrset)| rrset.ttl).min().unwrap_or(first.ttl);
    let same = |rrset: &RRset| has_same_records(rtype, first.as_set(), rrset.as_set());
    part.retain(|(member, rrset)| {
        let keep = same(rrset);
        if !keep {
            merged.drop(kind, *member, rrset.count);
        }
        keep
    });
    // The smallest TTL counts over all contributions, those that are dropped included: whatever is cached of them must
    // not outlive what the member meant.
    if ttl < first.ttl
        && let Some(shorter) = RRset::build(rtype, ttl, first.rdatas().collect())
    {
        part[0].1 = Arc::new(shorter);
    }
}

/// Returns true if TXT records describe a DNS-SD instance: `key=value` strings or the single empty string (RFC 6763
/// section 6). CNS writes UUIDs into TXT, which are no such description and unite like other data.
fn is_service_text(rrset: &RRset) -> bool {
    rrset.rdatas().all(|rdata| rdata == [0] || rdata.contains(&b'='))
}

#[cfg(test)]
pub mod tests;
