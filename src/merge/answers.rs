//! Answers of a zone from what it holds: how large sets are cut and clients steered, and the selections that follow.
//!
//! [`Selected`] makes the selections of a version that clients see, out of the plan and of what the members give at
//! present. It stands beside the merge and changes nothing in it: another plan moves no serial, and behind a pin a record
//! counts for the members that give it now.
//!
//! Invariants: the selections of a version depend on it, its members and the plan, never on the versions before, but for
//! what members gave lately: that their clients are served elsewhere now is told for an hour.
//!
//! Cost: O(1) as long as nobody is steered and no set has more records than a law allows; else O(names that differ) for a
//! change, in the version or in a member, and O(names × members) for the first version and for another plan.

use super::filter::address_of;
use super::{Held, Intake, NamePattern, RegionPlan, Scope, Shares};
use crate::acl::Prefix;
use crate::rewrite::{Move, RdataNames};
use crate::select::{Entry, Given, Law, Prefer, Selection, Selections, Steering, Treatment};
use crate::zone::{Node, Owner, Zone};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::Name;
use wire::rr::{self, Set, rtype};

/// Time for which it is known that a member gave a name.
const LATELY: Duration = Duration::from_secs(3600);
/// Entries of the queue of what was given lately beside four for each name, above which it is made anew.
const MOST_QUEUED: usize = 4096;
/// Types whose records go by members.
const STEERED: [u16; 3] = [rtype::A, rtype::AAAA, rtype::SRV];

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

    /// Number of records above which some answer may not be the whole set.
    pub fn above(&self) -> u32 {
        if self.steers() || self.has_home_only() {
            return 0;
        }
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

    /// Returns true if some addresses are for clients at home only.
    fn has_home_only(&self) -> bool {
        !self.home_only.is_empty() || !self.members_home_only.is_empty()
    }

    /// Returns true if an address that a member gives is for clients at home only.
    pub fn is_home_only(&self, member: &Name, kind: u16, rdata: &[u8]) -> bool {
        let Some(address) = address_of(kind, rdata) else { return false };
        let own = self.members_home_only.iter().filter(|(of, _)| of == member).flat_map(|(_, prefixes)| prefixes);
        self.home_only.iter().chain(own).any(|prefix| prefix.contains(address))
    }

    /// All ways in which names are answered.
    pub fn treatments(&self) -> impl Iterator<Item = Treatment> {
        std::iter::once(self.usual).chain(self.names.iter().map(|(_, treatment)| *treatment))
    }
}

/// Part of a member in a region, as far as answers depend on it.
#[derive(Clone, Debug, Default)]
pub struct Giver {
    /// Zone that the region is made of.
    pub zone: Option<Arc<Zone>>,
    /// Address sets that are held: they are in the zone, and the member has withdrawn them.
    pub held: Held,
    /// Scope of the drains.
    pub drained: Scope,
    /// Shares of the clients that get nothing of it.
    pub shares: Shares,
}

impl Giver {
    /// The part of a member that is taken so.
    pub fn of(intake: &Intake, shares: Shares) -> Giver {
        let (zone, held, drained) = (intake.zone().cloned(), intake.held().clone(), intake.scope().clone());
        Giver { zone, held, drained, shares }
    }

    /// Returns true if the same is given in the same way, but for the names at which zones differ.
    fn is_alike(&self, other: &Giver) -> bool {
        self.shares == other.shares && self.held == other.held
    }

    /// The sets of an owner that are steered.
    fn kinds(&self, owner: &Owner<'_>) -> impl Iterator<Item = u16> {
        let node = self.zone.as_ref().and_then(|zone| zone.get_at(owner)).unwrap_or_default();
        STEERED.into_iter().filter(move |kind| node.get(*kind).is_some())
    }
}

/// A set that a member does not give any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lost {
    member: usize,
    kind: u16,
    at: Instant,
}

/// Selections, and what they were made of.
#[derive(Clone)]
pub struct Selected {
    plan: Arc<AnswersPlan>,
    zone: Arc<Zone>,
    givers: Box<[Giver]>,
    /// How the members' records come into the region; none for a zone without members.
    region: Option<(RdataNames, Vec<Name>)>,
    /// What members gave lately, by the labels of the owner; and its owners, those first that were lost first.
    lately: HashMap<Arc<[u8]>, Vec<Lost>>,
    queue: VecDeque<(Instant, Arc<[u8]>)>,
    pub selections: Selections,
}

impl Selected {
    /// Makes the selections of a version. `before` are those of the version before; `region` has what its members are,
    /// and is none for a zone without members; the givers are in the order of the members.
    pub fn new(
        before: Option<Selected>,
        plan: &Arc<AnswersPlan>,
        zone: &Arc<Zone>,
        region: Option<&RegionPlan>,
        givers: Box<[Giver]>,
        now: Instant,
    ) -> Selected {
        let mut before = before.filter(|before| before.is_of_region(region));
        let is_shared_out = givers.iter().any(|giver| !giver.shares.is_empty());
        let above = if is_shared_out { 0 } else { plan.above() };
        let mut selected = Selected {
            plan: plan.clone(),
            zone: zone.clone(),
            givers,
            region: region.map(|region| (region.rdata_names, region.members.clone())),
            lately: HashMap::new(),
            queue: VecDeque::new(),
            selections: Selections::new(above),
        };
        if !selected.selections.may_cut(zone.sizes.most_records()) {
            return selected;
        }
        if let Some(before) = &mut before {
            (selected.lately, selected.queue) = (std::mem::take(&mut before.lately), std::mem::take(&mut before.queue));
        }
        let is_like = |before: &Selected| {
            let alike = |(now, then): (&Giver, &Giver)| now.shares == then.shares;
            before.plan == *plan
                && selected.givers.len() == before.givers.len()
                && selected.givers.iter().zip(&before.givers).all(alike)
        };
        match before.filter(is_like) {
            Some(before) => {
                selected.selections = before.selections.clone();
                selected.follow(&before, region, now);
            }
            None => {
                for node in zone.nodes().filter(|node| node.rrsets().any(|set| set.count > above)) {
                    let entry = selected.select(node, node.owner(), region, None);
                    selected.selections.set(node.owner(), entry);
                }
            }
        }
        selected
    }

    /// Makes anew what may be otherwise than it was before.
    fn follow(&mut self, before: &Selected, region: Option<&RegionPlan>, now: Instant) {
        let mut owners: HashSet<Arc<[u8]>> = HashSet::new();
        if !Arc::ptr_eq(&self.zone, &before.zone) {
            owners.extend(self.zone.table().differing(before.zone.table()).into_iter().map(Arc::from));
        }
        for index in 0..self.givers.len() {
            let (giver, then) = (&self.givers[index], &before.givers[index]);
            if giver.drained != then.drained {
                let is_its = |lost: &Lost| lost.member == index;
                owners.extend(
                    self.lately.iter().filter(|(_, lost)| lost.iter().any(is_its)).map(|(owner, _)| owner.clone()),
                );
            }
            let touched = self.differing(index, then);
            if self.plan.steers() {
                touched.iter().for_each(|owner| self.note(index, then, owner, now));
            }
            owners.extend(touched);
        }
        let due = self.queue.partition_point(|(at, _)| *at + LATELY <= now);
        for (at, owner) in self.queue.drain(..due) {
            if let Some(lost) = self.lately.get_mut(&owner) {
                lost.retain(|lost| lost.at > at);
                if lost.is_empty() {
                    self.lately.remove(&owner);
                }
            }
            owners.insert(owner);
        }
        let zone = self.zone.clone();
        for owner in owners {
            let node = zone.get_at(&Owner::new(&owner)).unwrap_or_default();
            let entry = self.select(node, &owner, region, Some(before));
            self.selections.set(&owner, entry);
        }
    }

    /// The labels of the owners of which a member gives something else, or in another way.
    fn differing(&self, index: usize, before: &Giver) -> Vec<Arc<[u8]>> {
        let now = &self.givers[index];
        let mut owners: Vec<Arc<[u8]>> = match (&now.zone, &before.zone) {
            (Some(now), Some(then)) if Arc::ptr_eq(now, then) => Vec::new(),
            (Some(now), Some(then)) => now.table().differing(then.table()).into_iter().map(Arc::from).collect(),
            // A member comes or goes: whatever it gives counts for it, or no more.
            (Some(one), None) | (None, Some(one)) => one.nodes().map(|node| Arc::from(node.owner())).collect(),
            (None, None) => Vec::new(),
        };
        if now.held != before.held
            && let Some(zone) = now.zone.as_ref().or(before.zone.as_ref())
        {
            let names = now.held.keys().chain(before.held.keys());
            owners.extend(names.map(|name| Arc::from(name.owner_in(&zone.origin))));
        }
        owners
    }

    /// Notes what a member gave of an owner before, and does not give any more without having been drained.
    fn note(&mut self, member: usize, before: &Giver, owner: &Arc<[u8]>, now: Instant) {
        let place = Owner::new(owner);
        let giver = &self.givers[member];
        let given: Vec<u16> = giver.kinds(&place).collect();
        let is_gone = |kind: &u16| !given.contains(kind) && !giver.drained.covers(owner);
        let gone: Vec<u16> = before.kinds(&place).filter(is_gone).collect();
        if let Some(lost) = self.lately.get_mut(owner) {
            lost.retain(|lost| lost.member != member || !given.contains(&lost.kind));
            if lost.is_empty() {
                self.lately.remove(owner);
            }
        }
        if gone.is_empty() {
            return;
        }
        let lost = self.lately.entry(owner.clone()).or_default();
        lost.extend(gone.into_iter().map(|kind| Lost { member, kind, at: now }));
        self.queue.push_back((now, owner.clone()));
        // Names that come and go leave what nobody needs any more.
        if self.queue.len() > MOST_QUEUED + 4 * self.lately.len() {
            let all = self.lately.iter().flat_map(|(owner, lost)| lost.iter().map(|lost| (lost.at, owner.clone())));
            let mut all: Vec<(Instant, Arc<[u8]>)> = all.collect();
            all.sort_by_key(|(at, _)| *at);
            all.dedup();
            self.queue = all.into();
        }
    }

    /// Returns true if clients of any name are steered.
    pub fn steers(&self) -> bool {
        self.plan.steers()
    }

    /// Returns true if the members' records still come into the region in the same way.
    fn is_of_region(&self, region: Option<&RegionPlan>) -> bool {
        let before = self.region.as_ref().map(|(names, members)| (*names, &**members));
        before == region.map(|region| (region.rdata_names, &*region.members))
    }

    /// Returns true if these are the selections of a version, of members and of a plan, and still at a moment.
    pub fn is_of(
        &self,
        plan: &Arc<AnswersPlan>,
        zone: &Arc<Zone>,
        region: Option<&RegionPlan>,
        givers: &[Giver],
        now: Instant,
    ) -> bool {
        let zone_of = |giver: &Giver| giver.zone.as_ref().map(Arc::as_ptr);
        let is_same = |(one, other): (&Giver, &Giver)| zone_of(one) == zone_of(other) && one.is_alike(other);
        Arc::ptr_eq(&self.plan, plan)
            && Arc::ptr_eq(&self.zone, zone)
            && self.is_of_region(region)
            && self.givers.len() == givers.len()
            && self.givers.iter().zip(givers).all(is_same)
            && !self.is_due(now)
    }

    /// Returns true if a member has not given something for so long that it is forgotten.
    pub fn is_due(&self, now: Instant) -> bool {
        self.queue.front().is_some_and(|(at, _)| *at + LATELY <= now)
    }

    /// Makes the selections of the sets of a node; `before` has those of the version before, by the same plan.
    fn select(&self, node: Node<'_>, labels: &[u8], region: Option<&RegionPlan>, before: Option<&Selected>) -> Entry {
        // Signatures are over whole sets.
        if node.get(rtype::RRSIG).is_some() {
            return Entry::default();
        }
        let name = Name::join(labels, &self.zone.origin);
        let treatment = self.plan.of(&name, &self.zone.origin);
        let make = |set: Set<'_>| {
            let is_of_one = region.is_none() || self.is_of_one(labels, set);
            if is_of_one && set.count <= treatment.law.above() {
                return None;
            }
            let followed = || before?.followed(name.as_wire(), labels, set);
            let given = match region {
                Some(region) if !is_of_one => self.given(region, &name, labels, set),
                _ => match followed() {
                    None => vec![Given { records: (0..set.count).collect(), ..Given::default() }],
                    followed => return followed,
                },
            };
            Selection::new(name.as_wire(), set, treatment, &given)
        };
        let large = node.rrsets().filter(|set| self.selections.may_cut(set.count));
        let is_uneven = treatment.steering.prefer != Prefer::Off && self.is_uneven(labels);
        Entry { selections: large.filter_map(make).collect(), is_uneven }
    }

    /// What the next version has for a set that one member gives, where few of its records are others than here.
    fn followed(&self, owner: &[u8], labels: &[u8], set: Set<'_>) -> Option<Selection> {
        let own = self.zone.get_at(&Owner::new(labels))?.get(set.rtype)?;
        self.selections.find(labels, own)?.follow(owner, own, set)
    }

    /// Returns true if one member alone gives a set, all of it, to all clients, and did so lately: then nobody can be
    /// steered. Behind a pin it may give as many other records.
    fn is_of_one(&self, labels: &[u8], set: Set<'_>) -> bool {
        if self.plan.has_home_only() || self.lately.contains_key(labels) {
            return false;
        }
        let place = Owner::new(labels);
        let zones = self.givers.iter().filter_map(|giver| giver.zone.as_ref());
        let mut sets = zones.filter_map(|zone| zone.get_at(&place)?.get(set.rtype));
        sets.next().is_some_and(|own| own.has_records_of(set)) && sets.next().is_none()
    }

    /// Returns true if some members give an owner's addresses of one family only, and others of the other.
    fn is_uneven(&self, labels: &[u8]) -> bool {
        let place = Owner::new(labels);
        let families = |giver: &Giver| {
            let kinds: Vec<u16> = giver.kinds(&place).collect();
            [rtype::A, rtype::AAAA].map(|kind| kinds.contains(&kind))
        };
        let all: Vec<[bool; 2]> = self.givers.iter().map(families).filter(|families| *families != [false; 2]).collect();
        all.iter().any(|families| *families != all[0])
    }

    /// What each member gives of a set at present, as it is in the region.
    fn given(&self, region: &RegionPlan, name: &Name, labels: &[u8], set: Set<'_>) -> Vec<Given> {
        let place = Owner::new(labels);
        // A member whose clients are sent elsewhere by an order is not missed.
        let is_missed = |lost: &&Lost| {
            let giver = &self.givers[lost.member];
            !giver.drained.covers(labels) && giver.shares.of(labels) == 0
        };
        let lost: Vec<&Lost> = self.lately.get(labels).into_iter().flatten().filter(is_missed).collect();
        let of = |(index, giver): (usize, &Giver)| {
            let is_lately = lost.iter().any(|lost| lost.member == index && lost.kind == set.rtype);
            let own = giver.zone.as_ref().and_then(|zone| zone.get_at(&place)?.get(set.rtype));
            let is_private = |rdata: &[u8]| self.plan.is_home_only(&region.members[index], set.rtype, rdata);
            let private = match self.plan.has_home_only() {
                true => (0..).zip(set.rdatas()).filter(|(_, own)| is_private(own)).map(|(number, _)| number).collect(),
                false => Vec::new(),
            };
            let Some(own) = own else { return Given { private, is_lately, ..Given::default() } };
            let way = Move { from: region.origin_of(index), to: &region.origin, policy: region.rdata_names };
            let moved = (!way.leaves(name, own)).then(|| way.rrset(name, own, |_| true));
            let records = rr::common_numbers(set, moved.as_ref().map_or(own, |moved| moved.as_set()));
            let held = match giver.held.is_empty() {
                true => None,
                false => giver.held.get(&Name::join(labels, way.from)),
            };
            let held = held.into_iter().flatten().filter(|held| held.rtype == set.rtype);
            let held = held.flat_map(|held| rr::common_numbers(set, held.as_set())).collect();
            Given { records, held, private, share: giver.shares.of(labels), is_lately }
        };
        self.givers.iter().enumerate().map(of).collect()
    }
}
