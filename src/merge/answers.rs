//! Answers of a zone from what it holds: the laws by which large sets are cut, and the selections that follow from them.
//!
//! [`Selected`] makes the selections of a version that clients see, out of the laws and of what the members give at
//! present. It stands beside the merge and changes nothing in it: other laws move no serial, and behind a pin a record
//! counts for the members that give it now.
//!
//! Invariants: the selections of a version depend on it, its members and the laws, never on the versions before.
//!
//! Cost: O(1) as long as no set has more records than a law allows; else O(names that differ) for a change, in the
//! version or in a member, and O(names) for the first version and for other laws.

use super::{Members, NamePattern, RegionPlan};
use crate::acl::Prefix;
use crate::rewrite::{Move, RdataNames};
use crate::select::{Law, Prefer, Selection, Selections, Steering, Treatment};
use crate::zone::{Node, Owner, Zone};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;
use wire::rr::{self, Set, rtype};

/// Laws of the answers of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswersPlan {
    pub usual: Treatment,
    /// Exceptions; the first that matches counts.
    pub names: Vec<(NamePattern, Treatment)>,
    /// Time without contact after which a member is farther than all others; none for never.
    pub stale_after: Option<Duration>,
    /// For homes, which may be members or other zones: the members that are the nearest after the home itself, in order.
    pub near: Vec<(Name, Vec<Name>)>,
    /// Shares of members in the answers to clients without a home; a member that is not here has 1. Empty: by their
    /// records.
    pub weights: Vec<(Name, u32)>,
    /// Addresses that only clients at home get: of all members, and of single ones in addition.
    pub home_only: Vec<Prefix>,
    pub members_home_only: Vec<(Name, Vec<Prefix>)>,
}

impl AnswersPlan {
    /// A plan without exceptions.
    pub fn new(law: Law) -> AnswersPlan {
        let usual = Treatment { law, steering: Steering::OFF };
        AnswersPlan {
            usual,
            names: Vec::new(),
            stale_after: None,
            near: Vec::new(),
            weights: Vec::new(),
            home_only: Vec::new(),
            members_home_only: Vec::new(),
        }
    }

    /// Number of records above which some set may be cut.
    pub fn above(&self) -> u32 {
        self.treatments().map(|treatment| treatment.law.above()).fold(u32::MAX, u32::min)
    }

    /// How a name of a zone is answered.
    pub fn of(&self, name: &Name, origin: &Name) -> Treatment {
        self.exception(name, origin).map_or(self.usual, |(_, treatment)| *treatment)
    }

    /// The exception that counts for a name of a zone.
    pub fn exception(&self, name: &Name, origin: &Name) -> Option<&(NamePattern, Treatment)> {
        self.names.iter().find(|(pattern, _)| pattern.matches(name.owner_in(origin)))
    }

    /// Returns true if clients of any name are steered.
    pub fn steers(&self) -> bool {
        self.treatments().any(|treatment| treatment.steering.prefer != Prefer::Off)
    }

    /// All ways in which names are answered.
    pub fn treatments(&self) -> impl Iterator<Item = Treatment> {
        std::iter::once(self.usual).chain(self.names.iter().map(|(_, treatment)| *treatment))
    }
}

/// Selections, and what they were made of.
#[derive(Clone)]
pub struct Selected {
    plan: Arc<AnswersPlan>,
    zone: Arc<Zone>,
    members: Box<Members>,
    /// How the members' records come into the region; none for a zone without members.
    region: Option<(RdataNames, Vec<Name>)>,
    pub selections: Selections,
}

impl Selected {
    /// Makes the selections of a version. `before` are those of the version before; `region` has what its members are,
    /// and is none for a zone without members.
    pub fn new(
        before: Option<Selected>,
        plan: &Arc<AnswersPlan>,
        zone: &Arc<Zone>,
        region: Option<&RegionPlan>,
        members: Box<Members>,
    ) -> Selected {
        let is_same = |one: &Option<Arc<Zone>>, other: &Option<Arc<Zone>>| {
            one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
        };
        let before = before.filter(|before| before.plan == *plan && before.is_of_region(region));
        let mut selections = match &before {
            Some(before) => before.selections.clone(),
            None => Selections::new(plan.above()),
        };
        let make = |labels: &[u8]| {
            let node = zone.get_at(&Owner::new(labels)).unwrap_or_default();
            select(plan, zone, node, labels, region, &members)
        };
        if !selections.may_cut(zone.sizes.most_records()) {
            selections = Selections::new(plan.above());
        } else if let Some(before) = before {
            let mut owners: HashSet<&[u8]> = HashSet::new();
            if !Arc::ptr_eq(zone, &before.zone) {
                owners.extend(zone.table().differing(before.zone.table()));
            }
            let pairs = members.iter().zip(&before.members);
            for (now, then) in pairs.filter(|(now, then)| !is_same(now, then)) {
                match (now, then) {
                    (Some(now), Some(then)) => owners.extend(now.table().differing(then.table())),
                    // A member comes or goes: whatever it gives counts for it, or no more.
                    (Some(one), None) | (None, Some(one)) => owners.extend(one.nodes().map(|node| node.owner())),
                    (None, None) => {}
                }
            }
            for owner in owners {
                selections.set(owner, make(owner));
            }
        } else {
            let above = plan.above();
            for node in zone.nodes().filter(|node| node.rrsets().any(|set| set.count > above)) {
                selections.set(node.owner(), select(plan, zone, node, node.owner(), region, &members));
            }
        }
        let region = region.map(|region| (region.rdata_names, region.members.clone()));
        Selected { plan: plan.clone(), zone: zone.clone(), members, region, selections }
    }

    /// Returns true if the members' records still come into the region in the same way.
    fn is_of_region(&self, region: Option<&RegionPlan>) -> bool {
        let before = self.region.as_ref().map(|(names, members)| (*names, &**members));
        before == region.map(|region| (region.rdata_names, &*region.members))
    }

    /// Returns true if these are the selections of a version, of members and of laws.
    pub fn is_of<'z>(
        &self,
        plan: &Arc<AnswersPlan>,
        zone: &Arc<Zone>,
        region: Option<&RegionPlan>,
        members: impl Iterator<Item = Option<&'z Arc<Zone>>>,
    ) -> bool {
        let before = self.members.iter().map(|zone| zone.as_ref().map(Arc::as_ptr));
        Arc::ptr_eq(&self.plan, plan)
            && Arc::ptr_eq(&self.zone, zone)
            // Where a member is another, so is its version.
            && self.region.as_ref().map(|(names, _)| *names) == region.map(|region| region.rdata_names)
            && before.eq(members.map(|zone| zone.map(Arc::as_ptr)))
    }
}

/// Makes the selections of the sets of a node.
fn select(
    plan: &AnswersPlan,
    zone: &Zone,
    node: Node<'_>,
    labels: &[u8],
    region: Option<&RegionPlan>,
    members: &Members,
) -> Vec<Selection> {
    let above = plan.above();
    // Signatures are over whole sets.
    let is_signed = node.get(rtype::RRSIG).is_some();
    let large = node.rrsets().filter(|set| set.count > above && !is_signed);
    let name = Name::join(labels, &zone.origin);
    let make = |set: Set<'_>| {
        let law = plan.of(&name, &zone.origin).law;
        let gives = match region {
            Some(region) => gives(region, members, &name, set),
            None => vec![(0..set.count).collect()],
        };
        Selection::new(name.as_wire(), set, law, &gives)
    };
    large.filter_map(make).collect()
}

/// The numbers of the records of a set that each member gives at present, as they are in the region.
fn gives(region: &RegionPlan, members: &Members, name: &Name, set: Set<'_>) -> Vec<Vec<u32>> {
    let owner = Owner::new(name.owner_in(&region.origin));
    let of = |(index, zone): (usize, &Option<Arc<Zone>>)| {
        let Some(given) = zone.as_ref().and_then(|zone| zone.get_at(&owner)?.get(set.rtype)) else { return Vec::new() };
        let way = Move { from: region.origin_of(index), to: &region.origin, policy: region.rdata_names };
        let moved = way.rrset(name, given, |_| true);
        let mut given = moved.rdatas().peekable();
        // Both are sorted.
        let is_given = |rdata: &[u8]| loop {
            match given.peek().map(|given| rr::compare(set.rtype, given, rdata)) {
                Some(Ordering::Less) => _ = given.next(),
                other => break other == Some(Ordering::Equal),
            }
        };
        let mut is_given = is_given;
        (0..).zip(set.rdatas()).filter(|(_, rdata)| is_given(rdata)).map(|(number, _)| number).collect()
    };
    members.iter().enumerate().map(of).collect()
}
