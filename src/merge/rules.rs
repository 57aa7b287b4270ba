//! Rules by which the records that members have at one name become those of the region.
//!
//! `merge_name` is the general way: it unites what stands side by side, resolves what cannot, and tells a [`Sink`] what
//! becomes of each member's records while it does so. A merge has a sink that hears nothing and costs nothing; an
//! explanation of one name has one that keeps what it hears.
//!
//! `sole` and `is_plain` are shortcuts for names that one member has and no rule concerns. Only merges take them; a test
//! demands that they agree with the general way.
//!
//! Cost: O(records of the name × members).

use super::delegations::{Loss, has_same_records};
use super::private::have_alike;
use super::reasons::{Conflict, ConflictKind, LeftOut, is_dropped};
use super::sink::{Silent, Sink};
use super::{Members, Region};
use crate::rewrite::{Move, RdataNames};
use crate::select::point;
use crate::zone::{Node, Owner, RRsets};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use wire::name::{self, Name};
use wire::rr::{self, RRset, Set, rtype};

/// The members' RRsets at a name, as they are in the region, by type and with the member's position.
type Parts = BTreeMap<u16, Vec<(usize, Arc<RRset>)>>;

/// The outcome for one name.
#[derive(Default)]
pub(super) struct Merged<S = Silent> {
    pub rrsets: RRsets,
    /// The name as the first member that contributes spells it.
    pub spelled: Option<Arc<[u8]>>,
    pub conflicts: Vec<Conflict>,
    /// True if members have private addresses there that cannot be told apart.
    pub is_alike: bool,
    pub sink: S,
}

impl Region {
    /// The RRsets of one name of the region, without SOA and NS at the apex.
    pub(super) fn merge_name<S: Sink>(&self, members: &Members, name: &Name, sink: S) -> Merged<S> {
        let nodes = if self.plan.excludes(name) { Vec::new() } else { self.nodes(members, name).collect() };
        self.merge_nodes(members, name, nodes, sink)
    }

    /// The RRsets of one name of the region, as [`Region::merge_name`] has them, of the nodes that members have there.
    pub(super) fn merge_nodes<S: Sink>(
        &self,
        members: &Members,
        name: &Name,
        mut nodes: Vec<(usize, &Name, Node<'_>)>,
        sink: S,
    ) -> Merged<S> {
        let mut merged =
            Merged { rrsets: RRsets::default(), spelled: None, conflicts: Vec::new(), is_alike: false, sink };
        let apex = *name == self.plan.origin;
        nodes.retain(|(index, _, node)| {
            let Some(Loss { kind, by }) = self.loss(*index, name) else { return true };
            let mut dropped = 0;
            for rrset in node.rrsets().filter(|rrset| !is_dropped(rrset.rtype, apex)) {
                dropped += rrset.count;
                let reason = LeftOut::Conflict { kind, by: Some(by) };
                merged.sink.leave_out(*index, rrset.rtype, reason, |_| true);
            }
            if dropped > 0 {
                merged.conflicts.push(Conflict { kind, member: *index, dropped, by: Some(by) });
            }
            false
        });
        merged.is_alike = have_alike(nodes.iter().map(|(.., node)| *node));
        let exists = |target: &Name| self.exists(members, target);
        let mut parts = Parts::new();
        for (index, origin, node) in &nodes {
            let way = Move { from: origin, to: &self.plan.origin, policy: self.plan.rdata_names };
            let mut contributes = false;
            for rrset in node.rrsets().filter(|rrset| !is_dropped(rrset.rtype, apex)) {
                contributes = true;
                if apex && rrset.rtype == rtype::CNAME {
                    merged.drop(ConflictKind::AliasAtApex, *index, rrset);
                    continue;
                }
                merged.sink.give(*index, rrset.rtype, |rdata| way.rdata(name, rrset.rtype, rdata, exists));
                let moved = way.rrset(name, rrset, exists);
                let Some(moved) = merged.fit(*index, name, moved) else { continue };
                parts.entry(rrset.rtype).or_default().push((*index, moved));
            }
            if contributes && merged.spelled.is_none() {
                merged.spelled = node.spelled.and_then(|spelled| way.spelling(spelled));
            }
        }
        self.resolve(&nodes, name, &mut parts, &mut merged);
        let mut rrsets = Vec::with_capacity(parts.len());
        for (rtype, part) in parts {
            let Some(united) = self.unite(rtype, &part, &mut merged) else { continue };
            rrsets.push(match self.most(rtype).filter(|most| united.count > *most) {
                Some(most) => cap(name, &united, &part, most, &mut merged.sink),
                None => united,
            });
        }
        merged.rrsets = rrsets.into();
        merged
    }

    /// Resolves what cannot stand side by side (`docs/regions.md` 16 to 18).
    fn resolve<S: Sink>(
        &self,
        nodes: &[(usize, &Name, Node<'_>)],
        name: &Name,
        parts: &mut Parts,
        merged: &mut Merged<S>,
    ) {
        if parts.len() > 1 {
            // It stands for a name that nobody has anything to say about.
            for (member, rrset) in parts.remove(&rtype::PLACEHOLDER).unwrap_or_default() {
                merged.sink.leave_out(member, rrset.rtype, LeftOut::Placeholder, |_| true);
            }
        }
        if nodes.iter().any(|(.., node)| node.below > 0) {
            merged.drop_all(ConflictKind::DnameAboveData, parts.remove(&rtype::DNAME));
        }
        // Only what stays counts as other data beside a CNAME.
        if parts.len() > 1 {
            merged.drop_all(ConflictKind::AliasBesideData, parts.remove(&rtype::CNAME));
        }
        for rtype in [rtype::CNAME, rtype::DNAME] {
            merged.keep_first(ConflictKind::DifferentAliases, rtype, parts);
        }
        if name::is_instance_name(name.as_wire()) && parts.contains_key(&rtype::SRV) {
            let described =
                parts.get(&rtype::TXT).is_some_and(|part| part.iter().all(|(_, rrset)| is_service_text(rrset)));
            if described {
                merged.keep_first(ConflictKind::ServiceText, rtype::TXT, parts);
            }
        }
    }

    /// Unites the members' RRsets of one type: records as a set, the smallest TTL.
    fn unite<S>(&self, rtype: u16, part: &[(usize, Arc<RRset>)], merged: &mut Merged<S>) -> Option<Arc<RRset>> {
        let first = part.first()?.1.clone();
        if part.iter().all(|(_, rrset)| *rrset == first) && rtype != rtype::SRV || part.len() == 1 {
            return Some(first);
        }
        let ttl = part.iter().map(|(_, rrset)| rrset.ttl).min()?;
        let sets: Vec<Set<'_>> = part.iter().map(|(_, rrset)| rrset.as_set()).collect();
        let united = RRset::unite(ttl, &sets)?;
        if rtype == rtype::SRV && self.plan.rdata_names == RdataNames::Rewrite {
            // Targets outside the members' zones were the same before and are no loss.
            let moved = |rrset: &RRset| {
                let origin = Move { from: &self.plan.origin, to: &self.plan.origin, policy: RdataNames::Rewrite };
                origin.targets(rrset.as_set()).count() as u32
            };
            let dropped = part.iter().map(|(_, rrset)| moved(rrset)).sum::<u32>() - moved(&united);
            if dropped > 0 {
                let (kind, member) = (ConflictKind::SameTarget, part.last()?.0);
                merged.conflicts.push(Conflict { kind, member, dropped, by: None });
            }
        }
        Some(Arc::new(united))
    }

    /// Most records of a set of a type; none where there is no limit.
    fn most(&self, rtype: u16) -> Option<u32> {
        match rtype {
            // Cutting these would break delegations and aliases.
            rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PLACEHOLDER => None,
            _ => self.plan.max_set,
        }
    }

    /// Returns true if no set of a node is larger than the region has any.
    pub(super) fn is_whole(&self, node: Node<'_>) -> bool {
        self.plan.max_set.is_none()
            || node.rrsets().all(|rrset| self.most(rrset.rtype).is_none_or(|most| rrset.count <= most))
    }

    //--- Shortcuts ---

    /// Returns true if the RRsets of a node, if it is the only one of its name, come into the region as they are, which
    /// can be told without knowing the name.
    pub(super) fn is_plain(&self, node: Node<'_>) -> bool {
        self.plan.moves_nothing() && !node.is_odd() && self.is_whole(node) && !self.delegations.covers(node.owner())
    }

    /// The node of a member whose RRsets are those of a name of the region as they stand, and how it is spelled there.
    /// Most names have one contributor, and nothing to move.
    pub(super) fn sole<'m>(
        &self,
        members: &'m Members,
        name: &Name,
        owner: &Owner<'_>,
    ) -> Option<(Node<'m>, Option<Arc<[u8]>>)> {
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
        let stays = |rrset| is_unruled(node, rrset) && way.leaves(name, rrset);
        (self.is_whole(node) && node.rrsets().all(stays))
            .then(|| (node, node.spelled.and_then(|spelled| way.spelling(spelled))))
    }
}

/// Leaves of a set the best records, by their points: first the best of each member that gives any, in the plan's order,
/// then the best of the rest (`docs/answers.md`). So one record that comes or goes changes at most one other for each
/// member.
#[cold]
fn cap<S: Sink>(name: &Name, set: &RRset, given: &[(usize, Arc<RRset>)], most: u32, sink: &mut S) -> Arc<RRset> {
    let rank = |rdata: &[u8]| point(name.as_wire(), set.rtype, rdata);
    let mut ranked: Vec<(u64, &[u8])> = set.rdatas().map(|rdata| (rank(rdata), rdata)).collect();
    ranked.sort_unstable();
    // By the rank, because members may spell a record differently.
    let best = |(_, rrset): &(usize, Arc<RRset>)| rrset.rdatas().map(rank).min();
    let mut kept = HashSet::with_capacity(most as usize);
    for rank in given.iter().filter_map(best).chain(ranked.iter().map(|(rank, _)| *rank)) {
        if kept.len() < most as usize {
            kept.insert(rank);
        }
    }
    for (member, _) in given {
        sink.leave_out(*member, set.rtype, LeftOut::MaxSet, |rdata| !kept.contains(&rank(rdata)));
    }
    let rdatas: Vec<&[u8]> = ranked.iter().filter(|(rank, _)| kept.contains(rank)).map(|(_, rdata)| *rdata).collect();
    Arc::new(RRset::build(set.rtype, set.ttl, rdatas).unwrap_or_else(|| set.clone()))
}

/// Returns true if no rule concerns an RRset whose node is the only one of its name, but for names in RDATA.
fn is_unruled(node: Node<'_>, rrset: Set<'_>) -> bool {
    let stays = match rrset.rtype {
        rtype::DNAME => false,
        rtype::PLACEHOLDER => node.rrsets().count() == 1,
        rtype => !is_dropped(rtype, false),
    };
    stays && !rrset.may_not_fit()
}

impl<S: Sink> Merged<S> {
    /// Leaves out of a member's RRset the records that fit no message under a name of the region; none if no record is
    /// left.
    #[inline]
    fn fit(&mut self, member: usize, name: &Name, rrset: Arc<RRset>) -> Option<Arc<RRset>> {
        if !rrset.as_set().may_not_fit() {
            return Some(rrset);
        }
        let fits = |rdata: &[u8]| rr::fits_message(name.as_wire(), rdata);
        let fitting: Vec<&[u8]> = rrset.rdatas().filter(|rdata| fits(rdata)).collect();
        let dropped = rrset.count - fitting.len() as u32;
        if dropped == 0 {
            return Some(rrset.clone());
        }
        let (kind, by) = (ConflictKind::RecordTooLong, None);
        self.conflicts.push(Conflict { kind, member, dropped, by });
        self.sink.leave_out(member, rrset.rtype, LeftOut::Conflict { kind, by }, |rdata| !fits(rdata));
        RRset::build(rrset.rtype, rrset.ttl, fitting).map(Arc::new)
    }

    /// Reports a member's RRset that is left out.
    fn drop(&mut self, kind: ConflictKind, member: usize, rrset: Set<'_>) {
        self.conflicts.push(Conflict { kind, member, dropped: rrset.count, by: None });
        self.sink.leave_out(member, rrset.rtype, LeftOut::Conflict { kind, by: None }, |_| true);
    }

    /// Reports the members' RRsets of a type, if there are any, which are left out.
    #[inline]
    fn drop_all(&mut self, kind: ConflictKind, part: Option<Vec<(usize, Arc<RRset>)>>) {
        for (member, rrset) in part.unwrap_or_default() {
            self.drop(kind, member, rrset.as_set());
        }
    }

    /// Leaves the first member's RRset of a type where others differ from it.
    fn keep_first(&mut self, kind: ConflictKind, rtype: u16, parts: &mut Parts) {
        let Some(part) = parts.get_mut(&rtype) else { return };
        let Some((_, first)) = part.first().cloned() else { return };
        let ttl = part.iter().map(|(_, rrset)| rrset.ttl).min().unwrap_or(first.ttl);
        part.retain(|(member, rrset)| {
            let keep = has_same_records(rtype, first.as_set(), rrset.as_set());
            if !keep {
                self.drop(kind, *member, rrset.as_set());
            }
            keep
        });
        // The smallest TTL counts over all contributions, those that are dropped included: whatever is cached of them
        // must not outlive what the member meant.
        if ttl < first.ttl
            && let Some(shorter) = RRset::build(rtype, ttl, first.rdatas().collect())
        {
            part[0].1 = Arc::new(shorter);
        }
    }
}

/// Returns true if TXT records describe a DNS-SD instance: `key=value` strings or the single empty string (RFC 6763
/// section 6). CNS writes UUIDs into TXT, which are no such description and unite like other data.
pub(super) fn is_service_text(rrset: &RRset) -> bool {
    rrset.rdatas().all(|rdata| rdata == [0] || rdata.contains(&b'='))
}
