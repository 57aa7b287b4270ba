//! Listeners to the merge of one name, and the one that keeps what it hears: the trace of a name.
//!
//! A trace lists all records that members have at a name. What the intake withholds or holds is known of them at once,
//! so is what their type and the plan say; the merge of the name, the same function that made the region, tells the rest.
//!
//! Invariants: every record that a member has at the name is listed once, with its fate, and those that are held for it;
//! those without a reason are the records of the region, but for the SOA and for name servers that no member lists.
//!
//! Cost: O(records of the name × members), and O(names of the members) at and below a delegation, whose tables are made
//! anew; nothing is kept and nothing published is touched.

use super::intake::TracedMember;
use super::reasons::{Conflict, LeftOut};
use super::{Members, NsPolicy, Region, RegionPlan};
use std::collections::HashSet;
use wire::name::{Name, NameBuf};
use wire::rr::{self, Set, rtype};

/// Listener to the merge of one name.
pub(super) trait Sink {
    /// Hears how a member's records of a type are written in the region: a function of their RDATA.
    fn give(&mut self, member: usize, rtype: u16, there: impl Fn(&[u8]) -> Vec<u8>);

    /// Hears that those of a member's records of a type are left out whose RDATA in the region is meant.
    fn leave_out(&mut self, member: usize, rtype: u16, reason: LeftOut, is_meant: impl Fn(&[u8]) -> bool);
}

/// Listener that hears nothing, so that a merge with it is compiled to one without.
#[derive(Default)]
pub(super) struct Silent;

impl Sink for Silent {
    #[inline]
    fn give(&mut self, _: usize, _: u16, _: impl Fn(&[u8]) -> Vec<u8>) {}

    #[inline]
    fn leave_out(&mut self, _: usize, _: u16, _: LeftOut, _: impl Fn(&[u8]) -> bool) {}
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
}

/// Records of all members at one name of a region, and what becomes of them.
#[derive(Debug, Default)]
pub struct Trace {
    /// Members in the plan's order.
    pub contributions: Vec<Contribution>,
    /// Conflicts that the status of the region lists for the name, sorted.
    pub conflicts: Vec<Conflict>,
}

impl Sink for Trace {
    fn give(&mut self, member: usize, rtype: u16, there: impl Fn(&[u8]) -> Vec<u8>) {
        for given in self.present(member, rtype) {
            given.moved = Some(there(&given.rdata)).filter(|moved| *moved != given.rdata);
        }
    }

    fn leave_out(&mut self, member: usize, rtype: u16, reason: LeftOut, is_meant: impl Fn(&[u8]) -> bool) {
        for given in self.present(member, rtype).filter(|given| is_meant(given.there())) {
            given.left_out = Some(reason);
        }
    }
}

impl Trace {
    /// Merges a name of a region anew, to tell what becomes of the records there.
    pub fn new(plan: &RegionPlan, members: &[TracedMember], name: &Name) -> Trace {
        let mut trace = Trace::default();
        for (index, member) in members.iter().enumerate() {
            trace.collect(plan, name, index, member);
        }
        let taken: Vec<_> = members.iter().map(|member| member.taken.clone()).collect();
        let mut region = Region::new(plan.clone());
        region.note_aliases(&taken, name);
        let targets = region.alias_targets.get(name).into_iter().flatten();
        if targets.chain([name]).any(|name| region.is_delegated(&taken, name)) {
            region.delegations.rebuild(plan, &taken);
        }
        if *name == plan.origin && !matches!(plan.ns, NsPolicy::Listed(_)) {
            trace.choose_servers(&region.name_servers(&taken));
        }
        let merged = region.merge_name(&taken, name, trace);
        let mut conflicts = merged.conflicts;
        conflicts.sort_unstable();
        Trace { conflicts, ..merged.sink }
    }

    /// Adds what one member has at the name, with the reasons that do not depend on what others have there, and what is
    /// held for it.
    fn collect(&mut self, plan: &RegionPlan, name: &Name, member: usize, traced: &TracedMember) {
        let origin = plan.origin_of(member);
        let Some(Ok(here)) = name.replace_suffix(&plan.origin, origin) else { return };
        let node = traced.zone.as_ref().and_then(|zone| zone.get(here.as_wire()));
        let spelled = node.and_then(|node| node.spelled).unwrap_or(here.as_wire());
        let Ok(owner) = NameBuf::from_wire(spelled) else { return };
        let excluded = plan.excludes(name).then_some(LeftOut::Excluded);
        let withheld = traced.withholds(here.owner_in(origin));
        let mut add = |set: Set<'_>, rdata: &[u8], left_out: Option<LeftOut>, held: bool| {
            let (rtype, ttl, rdata) = (set.rtype, set.ttl, rdata.to_vec());
            let moved = None;
            self.contributions.push(Contribution { member, owner, rtype, ttl, rdata, moved, left_out, held });
        };
        let filter = plan.addresses.of(&plan.members[member]);
        let mut own = HashSet::new();
        for set in node.into_iter().flat_map(|node| node.rrsets()) {
            let by_type = LeftOut::of_type(set.rtype, *name == plan.origin);
            for rdata in set.rdatas() {
                let filtered = filter.against(set.rtype, rdata).map(|_| LeftOut::Address);
                let left_out = [withheld, by_type, excluded, filtered].into_iter().flatten().min();
                add(set, rdata, left_out, false);
                own.insert((set.rtype, rr::fold(set.rtype, rdata)));
            }
        }
        let taken = traced.taken.as_ref().and_then(|zone| zone.get(here.as_wire()));
        for set in taken.into_iter().flat_map(|node| node.rrsets()) {
            let is_held = |rdata: &&[u8]| !own.contains(&(set.rtype, rr::fold(set.rtype, rdata)));
            set.rdatas().filter(is_held).for_each(|rdata| add(set, rdata, excluded, true));
        }
    }

    /// Tells which members' name servers are in the NS set of the region, where that is made of theirs.
    fn choose_servers(&mut self, servers: &[Name]) {
        for given in self.contributions.iter_mut().filter(|given| given.rtype == rtype::NS) {
            // Name servers of regions are compared and written in lowercase.
            let lower = rr::fold(rtype::NS, &given.rdata);
            if given.left_out == Some(LeftOut::OwnApex) && servers.iter().any(|server| server.as_wire() == lower) {
                given.left_out = None;
                given.moved = Some(lower).filter(|lower| *lower != given.rdata);
            }
        }
    }

    /// The records of a member and a type for whose absence there is no reason so far.
    fn present(&mut self, member: usize, rtype: u16) -> impl Iterator<Item = &mut Contribution> {
        let is_it =
            move |given: &&mut Contribution| (given.member, given.rtype) == (member, rtype) && given.left_out.is_none();
        self.contributions.iter_mut().filter(is_it)
    }
}

impl Region {
    /// Returns true if a member delegates a name of the region or one above it.
    fn is_delegated(&self, members: &Members, name: &Name) -> bool {
        let names = std::iter::successors(Some(name.clone()), Name::parent);
        let mut below_origin = names.take_while(|name| *name != self.plan.origin);
        below_origin.any(|name| self.nodes(members, &name).any(|(.., node)| node.get(rtype::NS).is_some()))
    }
}
