//! Oracle of the merge: the origin of the records of one name of a region, and the fate of those that are not in it.
//!
//! Written beside the merge, not out of it: the merge unites sets, this follows every single record of every member to
//! its end. Two descriptions of the same rules; the tests demand that they agree on records, TTLs and conflicts, and
//! that the merge's own [`Trace`](crate::merge::Trace) tells the same fates.
//!
//! Invariants: every record that a member has at the name is told, once, with its fate, and those that are held for it;
//! the records of the outcome are those of the region but for the SOA, which is made of numbers and not of records.
//!
//! Cost: O(records of the name × members), and O(names of the members) below a delegation; nothing is kept and nothing
//! published is touched. The rules are those of RFC 1034 section 3.6.2, RFC 2181 sections 5.2 and 10.1, RFC 6672
//! section 2.4 and RFC 6763 section 6.

mod delegations;

use crate::merge::rules::is_service_text;
use crate::merge::{Conflict, ConflictKind, NsPolicy, OwnerPattern, RegionPlan, TracedMember, is_dropped};
use crate::rewrite::{Move, RdataNames};
use crate::zone::Zone;
use delegations::Losses;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, RRset, Set, rtype};

/// Reason for which a record of a member is not in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftOut {
    /// Nothing is taken from the member: its zone has expired, or there was no contact for too long.
    Withdrawn,
    /// The configuration leaves the name out.
    Excluded,
    /// An operator or the configuration has taken the member, or the name of it, out of the region for a while.
    Drained,
    /// DNSSEC records sign names that are others in the region.
    Dnssec,
    /// The region has an SOA, NS set and DS of its own.
    OwnApex,
    /// It stands for a name without readable data, and others have some.
    Placeholder,
    /// It cannot stand beside what others have.
    Conflict(ConflictKind),
}

impl LeftOut {
    /// The word for programs.
    pub fn label(self) -> &'static str {
        match self {
            LeftOut::Withdrawn => "withdrawn",
            LeftOut::Excluded => "excluded",
            LeftOut::Drained => "drained",
            LeftOut::Dnssec => "dnssec",
            LeftOut::OwnApex => "own-apex",
            LeftOut::Placeholder => "placeholder",
            LeftOut::Conflict(kind) => kind.label(),
        }
    }
}

/// One record of one member.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// The member's position in the plan.
    pub member: usize,
    /// The owner name in the member's zone, as its primary spells it.
    pub owner: NameBuf,
    pub rtype: u16,
    /// TTL in the member's zone, in seconds.
    pub ttl: u32,
    pub rdata: Vec<u8>,
    /// The RDATA in the region, where names in it move.
    pub moved: Option<Vec<u8>>,
    /// Reason for which the record is not in the region; none for one that is.
    pub left_out: Option<LeftOut>,
    /// True if the member no longer has the record, and it is held in the region for a while.
    pub held: bool,
}

impl Contribution {
    /// The RDATA as it is or would be in the region.
    pub fn there(&self) -> &[u8] {
        self.moved.as_ref().unwrap_or(&self.rdata)
    }

    /// Returns true for a record of this type that is in the region, or would be.
    fn is(&self, rtype: u16) -> bool {
        self.left_out.is_none() && self.rtype == rtype
    }
}

/// One record of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRecord {
    pub rtype: u16,
    /// TTL in the region, in seconds.
    pub ttl: u32,
    pub rdata: Vec<u8>,
    /// Positions among the contributions; empty for what only the configuration says.
    pub from: Vec<usize>,
}

/// Everything about one name of a region.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All records of all members at the name, members in the plan's order.
    pub contributions: Vec<Contribution>,
    /// The records of the region but the SOA, by type and canonical RDATA.
    pub records: Vec<TracedRecord>,
    /// Conflicts that the status of the region lists for the name, sorted.
    pub conflicts: Vec<Conflict>,
    /// The pattern that leaves the name out.
    pub excluded_by: Option<OwnerPattern>,
}

/// Follows the records of a name of a region.
pub fn trace(plan: &RegionPlan, members: &[TracedMember], name: &Name) -> Trace {
    let walk = Walk { plan, members, name, apex: *name == plan.origin };
    let losses = walk.losses();
    let mut trace = Trace { excluded_by: plan.excluding(name).cloned(), ..Trace::default() };
    for index in 0..members.len() {
        walk.collect(index, losses.get(&index).map(|(kind, _)| *kind), &mut trace);
    }
    if trace.excluded_by.is_none() {
        walk.settle(&losses, &mut trace);
    }
    walk.unite(&mut trace);
    trace.conflicts.sort_unstable();
    trace
}

/// Data that the steps of a trace look at.
struct Walk<'a> {
    plan: &'a RegionPlan,
    members: &'a [TracedMember],
    name: &'a Name,
    apex: bool,
}

impl Walk<'_> {
    /// The members' zones that count, with their positions.
    fn contributing(&self) -> impl Iterator<Item = (usize, &Zone)> {
        self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.taken.as_deref()?)))
    }

    /// A name of the region as a member has it.
    fn name_in(&self, member: usize, name: &Name) -> Option<Name> {
        name.replace_suffix(&self.plan.origin, self.plan.origin_of(member))?.ok()
    }

    /// Adds what one member has at the name, with the fates that do not depend on what others have there, and what is
    /// held for it.
    fn collect(&self, member: usize, loss: Option<ConflictKind>, trace: &mut Trace) {
        let traced = &self.members[member];
        let Some(there) = self.name_in(member, self.name) else { return };
        let node_in =
            |zone: &'_ Option<Arc<Zone>>| zone.as_ref().and_then(|zone| Some(zone.get(there.as_wire())?.to_rrsets()));
        let spelled = traced.zone.as_ref().and_then(|zone| zone.get(there.as_wire())?.spelled);
        let Ok(owner) = NameBuf::from_wire(spelled.unwrap_or(there.as_wire())) else { return };
        let (own, taken) = (node_in(&traced.zone).unwrap_or_default(), node_in(&traced.taken).unwrap_or_default());
        let excluded = trace.excluded_by.is_some();
        let labels = there.owner_in(self.plan.origin_of(member));
        let drained = traced.drained.covers(labels);
        for rrset in own.iter() {
            let left_out = match rrset.rtype {
                _ if !traced.contributes() => Some(LeftOut::Withdrawn),
                rtype::SOA => Some(LeftOut::OwnApex),
                rtype::NS if self.apex => None,
                rtype::DS if self.apex => Some(LeftOut::OwnApex),
                _ if excluded => Some(LeftOut::Excluded),
                _ if drained => Some(LeftOut::Drained),
                rtype if is_dropped(rtype, self.apex) => Some(LeftOut::Dnssec),
                _ if loss.is_some() => loss.map(LeftOut::Conflict),
                rtype::CNAME if self.apex => Some(LeftOut::Conflict(ConflictKind::AliasAtApex)),
                _ => None,
            };
            for rdata in rrset.rdatas() {
                let moved = if left_out.is_none() { self.moved(member, rrset.as_set(), rdata) } else { None };
                let is_too_long = !rr::fits_message(self.name.as_wire(), moved.as_deref().unwrap_or(rdata));
                let left_out =
                    left_out.or_else(|| is_too_long.then_some(LeftOut::Conflict(ConflictKind::RecordTooLong)));
                let (rdata, ttl, rtype) = (rdata.to_vec(), rrset.ttl, rrset.rtype);
                trace.contributions.push(Contribution {
                    member,
                    owner,
                    rtype,
                    ttl,
                    rdata,
                    moved,
                    left_out,
                    held: false,
                });
            }
        }
        let has = |rtype: u16, rdata: &[u8]| {
            let own = own.iter().filter(|set| set.rtype == rtype);
            own.flat_map(|set| set.rdatas()).any(|present| rr::compare(rtype, present, rdata) == Ordering::Equal)
        };
        // Most are the same, and a set may have thousands of records.
        for rrset in taken.iter().filter(|rrset| !own.contains(rrset)) {
            for rdata in rrset.rdatas().filter(|rdata| !has(rrset.rtype, rdata)) {
                let left_out = excluded.then_some(LeftOut::Excluded).or(loss.map(LeftOut::Conflict));
                let (rdata, ttl, rtype) = (rdata.to_vec(), rrset.ttl, rrset.rtype);
                let given = Contribution { member, owner, rtype, ttl, rdata, moved: None, left_out, held: true };
                trace.contributions.push(given);
            }
        }
    }

    /// The RDATA of one record in the region, where it is another there.
    fn moved(&self, member: usize, rrset: Set<'_>, rdata: &[u8]) -> Option<Vec<u8>> {
        if self.apex && rrset.rtype == rtype::NS {
            // Name servers of regions are compared and written in lowercase.
            let lower = rr::fold(rtype::NS, rdata);
            return (lower != rdata).then_some(lower);
        }
        let way = Move { from: self.plan.origin_of(member), to: &self.plan.origin, policy: self.plan.rdata_names };
        let alone = RRset::build(rrset.rtype, rrset.ttl, vec![rdata])?;
        let moved = way.rrset(self.name, alone.as_set(), |target| self.leads_somewhere(target));
        moved.rdatas().next().filter(|moved| *moved != rdata).map(<[u8]>::to_vec)
    }

    /// Returns true if the region has data at a name, as far as an alias to it cares.
    fn leads_somewhere(&self, target: &Name) -> bool {
        let has_data = |(member, zone): (usize, &Zone)| {
            let node = self.name_in(member, target).and_then(|there| zone.get(there.as_wire()));
            node.is_some_and(|node| node.rrsets().any(|rrset| !is_dropped(rrset.rtype, false)))
        };
        let losses = Walk { name: target, apex: false, ..*self }.losses();
        let has_data = |given: (usize, &Zone)| has_data(given) && !losses.contains_key(&given.0);
        *target == self.plan.origin || !self.plan.excludes(target) && self.contributing().any(has_data)
    }

    //--- What cannot stand side by side ---

    /// Gives the fates that depend on what other members have.
    fn settle(&self, losses: &Losses, trace: &mut Trace) {
        let name_below = |(member, zone): (usize, &Zone)| {
            let node = self.name_in(member, self.name).and_then(|there| zone.get(there.as_wire()));
            node.is_some_and(|node| node.below > 0).then_some(member)
        };
        let with_names_below: Vec<usize> =
            self.contributing().filter(|(member, _)| !losses.contains_key(member)).filter_map(name_below).collect();
        let conflict = LeftOut::Conflict;
        if self.types(trace).len() > 1 {
            leave_out(trace, rtype::PLACEHOLDER, LeftOut::Placeholder, |_| true);
        }
        if !with_names_below.is_empty() {
            leave_out(trace, rtype::DNAME, conflict(ConflictKind::DnameAboveData), |_| true);
        }
        let types = self.types(trace);
        if types.len() > 1 {
            leave_out(trace, rtype::CNAME, conflict(ConflictKind::AliasBesideData), |_| true);
        }
        for rtype in [rtype::CNAME, rtype::DNAME] {
            first_wins(trace, rtype, ConflictKind::DifferentAliases);
        }
        let texts = || trace.contributions.iter().filter(|given| given.is(rtype::TXT));
        let described = texts().all(|given| is_description(&given.rdata)) && texts().next().is_some();
        if described && types.contains(&rtype::SRV) && name::is_instance_name(self.name.as_wire()) {
            first_wins(trace, rtype::TXT, ConflictKind::ServiceText);
        }
        self.find_same_targets(trace);
        count_left_out(losses, trace);
    }

    /// The types that are left for the merge to unite.
    fn types(&self, trace: &Trace) -> BTreeSet<u16> {
        trace.contributions.iter().filter_map(|given| self.counts(given)).collect()
    }

    /// The type of a record that is left for the merge to unite.
    fn counts(&self, given: &Contribution) -> Option<u16> {
        let own = self.apex && given.rtype == rtype::NS;
        (given.left_out.is_none() && !own).then_some(given.rtype)
    }

    /// Notes that targets within the region became the same record although members gave them separately.
    fn find_same_targets(&self, trace: &mut Trace) {
        if self.plan.rdata_names != RdataNames::Rewrite {
            return;
        }
        let within = |given: &&Contribution| {
            let target = NameBuf::read_plain(given.there(), 6);
            given.is(rtype::SRV) && target.is_ok_and(|(target, _)| target.to_name().is_within(&self.plan.origin))
        };
        let inside = trace.contributions.iter().filter(within);
        let both: BTreeSet<(Vec<u8>, usize)> =
            inside.map(|given| (rr::fold(rtype::SRV, given.there()), given.member)).collect();
        let distinct: BTreeSet<&Vec<u8>> = both.iter().map(|(target, _)| target).collect();
        let dropped = (both.len() - distinct.len()) as u32;
        let last = trace.contributions.iter().filter(|given| given.is(rtype::SRV)).map(|given| given.member).max();
        if let (Some(member), 1..) = (last, dropped) {
            trace.conflicts.push(Conflict { kind: ConflictKind::SameTarget, member, dropped, by: None });
        }
    }

    //--- Sets ---

    /// Unites what is left: equal records once, the smallest TTL for each type (RFC 2181 section 5.2).
    fn unite(&self, trace: &mut Trace) {
        if self.apex {
            self.choose_servers(trace);
        }
        let mut ttls: BTreeMap<u16, u32> = BTreeMap::new();
        let shortens = |left_out: Option<LeftOut>| match left_out {
            None => true,
            // What gave way to the first member's still says how long an answer may be remembered.
            Some(LeftOut::Conflict(kind)) => {
                matches!(kind, ConflictKind::DifferentAliases | ConflictKind::ServiceText)
            }
            Some(_) => false,
        };
        for given in trace.contributions.iter().filter(|given| shortens(given.left_out)) {
            let ttl = ttls.entry(given.rtype).or_insert(given.ttl);
            *ttl = given.ttl.min(*ttl);
        }
        let Trace { contributions, records, .. } = trace;
        let own_servers = |given: &Contribution| self.apex && given.rtype == rtype::NS;
        let mut kept: Vec<usize> = (0..contributions.len())
            .filter(|index| contributions[*index].left_out.is_none() && !own_servers(&contributions[*index]))
            .collect();
        let order = |a: &Contribution, b: &Contribution| {
            a.rtype.cmp(&b.rtype).then_with(|| rr::compare(a.rtype, a.there(), b.there()))
        };
        // Among spellings of one record the first in byte order stands for all.
        kept.sort_by(|a, b| {
            let (a, b) = (&contributions[*a], &contributions[*b]);
            order(a, b).then_with(|| a.there().cmp(b.there()))
        });
        for equal in kept.chunk_by(|a, b| order(&contributions[*a], &contributions[*b]) == Ordering::Equal) {
            let mut from = equal.to_vec();
            from.sort_unstable();
            let first = &contributions[equal[0]];
            let ttl = ttls[&first.rtype];
            records.push(TracedRecord { rtype: first.rtype, ttl, rdata: first.there().to_vec(), from });
        }
        records.sort_by_key(|record| record.rtype);
    }

    /// The NS set of the region, and which members' name servers are in it.
    fn choose_servers(&self, trace: &mut Trace) {
        let lists: Vec<BTreeSet<Vec<u8>>> = self
            .contributing()
            .map(|(member, _)| {
                let servers = trace.contributions.iter().filter(|given| given.member == member && given.is(rtype::NS));
                servers.map(|given| given.there().to_vec()).collect()
            })
            .collect();
        let mut chosen: BTreeSet<Vec<u8>> = match &self.plan.ns {
            NsPolicy::Listed(names) => names.iter().map(|name| name.as_wire().to_vec()).collect(),
            NsPolicy::Union => lists.into_iter().flatten().collect(),
            NsPolicy::Intersection => {
                let all = |server: &&Vec<u8>| lists.iter().all(|list| list.contains(*server));
                lists.first().into_iter().flatten().filter(all).cloned().collect()
            }
        };
        if chosen.is_empty() {
            chosen.insert(self.plan.server_name.as_wire().to_vec());
        }
        let from_members = !matches!(self.plan.ns, NsPolicy::Listed(_));
        for given in trace.contributions.iter_mut().filter(|given| given.is(rtype::NS)) {
            if !from_members || !chosen.contains(given.there()) {
                given.left_out = Some(LeftOut::OwnApex);
            }
        }
        let mut servers: Vec<Vec<u8>> = chosen.into_iter().collect();
        servers.sort_by(|a, b| rr::compare(rtype::NS, a, b));
        for rdata in servers {
            let is_from = |given: &Contribution| given.is(rtype::NS) && given.there() == rdata;
            let from = trace.contributions.iter().enumerate().filter(|(_, given)| is_from(given));
            let from = from.map(|(index, _)| index).collect();
            trace.records.push(TracedRecord { rtype: rtype::NS, ttl: rr::clamp_ttl(self.plan.ns_ttl), rdata, from });
        }
    }
}

/// Leaves out the records of a type that are meant.
fn leave_out(trace: &mut Trace, rtype: u16, reason: LeftOut, meant: impl Fn(&Contribution) -> bool) {
    for given in trace.contributions.iter_mut().filter(|given| given.is(rtype) && meant(given)) {
        given.left_out = Some(reason);
    }
}

/// Leaves out the records of all members whose set of a type is another than that of the first which has one.
fn first_wins(trace: &mut Trace, rtype: u16, kind: ConflictKind) {
    let mut sets: BTreeMap<usize, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for given in trace.contributions.iter().filter(|given| given.is(rtype)) {
        sets.entry(given.member).or_default().insert(rr::fold(rtype, given.there()));
    }
    let Some(first) = sets.values().next() else { return };
    let others: BTreeSet<usize> = sets.iter().filter(|(_, set)| *set != first).map(|(member, _)| *member).collect();
    leave_out(trace, rtype, LeftOut::Conflict(kind), |given| others.contains(&given.member));
}

/// Returns true if one TXT record describes a DNS-SD instance.
fn is_description(rdata: &[u8]) -> bool {
    RRset::build(rtype::TXT, 0, vec![rdata]).is_some_and(|alone| is_service_text(&alone))
}

/// Makes conflicts of the records that were left out for one.
fn count_left_out(losses: &Losses, trace: &mut Trace) {
    let mut counts: BTreeMap<(ConflictKind, usize), u32> = BTreeMap::new();
    for given in &trace.contributions {
        if let Some(LeftOut::Conflict(kind)) = given.left_out {
            *counts.entry((kind, given.member)).or_default() += 1;
        }
    }
    let by = |kind, member| losses.get(&member).filter(|loss| loss.0 == kind).map(|(_, by)| *by);
    let conflicts =
        counts.into_iter().map(|((kind, member), dropped)| Conflict { kind, member, dropped, by: by(kind, member) });
    trace.conflicts.extend(conflicts);
}

mod tests;
