//! Answers of a zone from what it holds: the laws by which large sets are cut, and the selections that follow from them.
//!
//! [`Selected`] makes the selections of a version that clients see, out of the laws and of what the members give at
//! present. It stands beside the merge and changes nothing in it: other laws move no serial, and behind a pin a record
//! counts for the members that give it now.
//!
//! Invariants: the selections of a version depend on it, its members and the laws, never on the versions before.
//!
//! Cost: O(1) as long as no set has as many records as a law allows; else O(names that differ) for a change, in the
//! version or in a member, and O(names) for the first version and for other laws.

use super::{Members, NamePattern, RegionPlan};
use crate::rewrite::Move;
use crate::select::{Law, Selection, Selections};
use crate::zone::{Node, Owner, Zone};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{self, Set, rtype};

/// Laws of the answers of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswersPlan {
    pub law: Law,
    /// Exceptions; the first that matches counts.
    pub names: Vec<(NamePattern, Law)>,
}

impl AnswersPlan {
    /// A plan without exceptions.
    pub fn new(law: Law) -> AnswersPlan {
        AnswersPlan { law, names: Vec::new() }
    }

    /// Number of records above which some set may be cut.
    pub fn above(&self) -> u32 {
        self.names.iter().map(|(_, law)| law.above()).fold(self.law.above(), u32::min)
    }

    /// The law of a name of a zone.
    pub fn law_of(&self, name: &Name, origin: &Name) -> Law {
        let exception = self.names.iter().find(|(pattern, _)| pattern.matches(name.owner_in(origin)));
        exception.map_or(self.law, |(_, law)| *law)
    }
}

/// Selections, and what they were made of.
#[derive(Clone)]
pub struct Selected {
    plan: Arc<AnswersPlan>,
    zone: Arc<Zone>,
    members: Box<Members>,
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
        let before = before.filter(|before| before.plan == *plan && before.members.len() == members.len());
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
        Selected { plan: plan.clone(), zone: zone.clone(), members, selections }
    }

    /// Returns true if these are the selections of a version, of members and of laws.
    pub fn is_of<'z>(
        &self,
        plan: &Arc<AnswersPlan>,
        zone: &Arc<Zone>,
        members: impl Iterator<Item = Option<&'z Arc<Zone>>>,
    ) -> bool {
        let before = self.members.iter().map(|zone| zone.as_ref().map(Arc::as_ptr));
        Arc::ptr_eq(&self.plan, plan)
            && Arc::ptr_eq(&self.zone, zone)
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
        let law = plan.law_of(&name, &zone.origin);
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
