//! The names of all zones, each with those who have records there.
//!
//! The names of an instance's own tell whose they are, and are not kept: `uuid.cmon`, `head.inst.account` and what stands
//! below that are found by the UUID, or by the labels of alias and login and their owners. An index has all others: those
//! of services, whose members are many, and reverse names.
//!
//! Invariants: a name is in the index exactly while somebody has a role at it; whoever is found by a name of its own has
//! that among its names; no RRset is larger than [`MOST_OCTETS`], and where it would be, members have all their records at
//! the name, by UUID, or none.
//!
//! Cost: O(log members) to add or remove one; the records of a name cost O(records there), and O(names of the instance)
//! where it is that one's own.

use super::{Instance, Roster};
use crate::config::{Config, Reverse};
use crate::contribution::{Place, Published, Role, below};
use crate::labels::Crowd;
use crate::model::Uuid;
use crate::tag;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use wire::name::{Name, labels};
use wire::rr::{RRset, rtype};

/// Octets of the largest RRset.
const MOST_OCTETS: usize = 65_000;

/// Those with a role at a name.
type Holders = Crowd<(Uuid, Role)>;
type Names = HashMap<Name, Holders>;

/// One with records in a forward zone, and what it publishes; none of a compute node.
#[derive(Clone, Copy)]
struct Holder<'h> {
    zone: u16,
    uuid: Uuid,
    published: Option<&'h Published>,
}

/// Names by zone, but for those of instances' own.
#[derive(Debug)]
pub(super) struct Index {
    forward: Vec<Names>,
    reverse: HashMap<Name, Names>,
}

impl Index {
    pub(super) fn new(zones: usize) -> Index {
        Index { forward: (0..zones).map(|_| Names::new()).collect(), reverse: HashMap::new() }
    }

    /// Adds one with a role at a name. Returns true if the name was not there.
    pub(super) fn add(&mut self, place: &Place, name: Name, who: (Uuid, Role)) -> bool {
        let names = match place {
            Place::Forward(zone) => &mut self.forward[usize::from(*zone)],
            Place::Reverse(zone) => self.reverse.entry(zone.clone()).or_default(),
        };
        match names.get_mut(&name) {
            Some(crowd) => {
                crowd.add(who);
                false
            }
            None => names.insert(name, Crowd::One(who)).is_none(),
        }
    }

    /// Removes one with a role at a name. Returns true if nobody is left there. An emptied zone stays: it has its apex.
    pub(super) fn remove(&mut self, place: &Place, name: &Name, who: (Uuid, Role)) -> bool {
        let names = match place {
            Place::Forward(zone) => Some(&mut self.forward[usize::from(*zone)]),
            Place::Reverse(zone) => self.reverse.get_mut(zone),
        };
        let Some(names) = names else { return false };
        names.get_mut(name).is_some_and(|crowd| crowd.remove(&who)) && names.remove(name).is_some()
    }

    /// The instances with a service at a name, with its number.
    pub(super) fn services_at(&self, config: &Config, name: &Name) -> Vec<(Uuid, u8)> {
        let mut found = Vec::new();
        for (zone, names) in config.forward.iter().zip(&self.forward) {
            if !name.is_within(&zone.origin) {
                continue;
            }
            for (uuid, role) in names.get(name).into_iter().flat_map(Crowd::iter) {
                if let Role::Service(service, _) | Role::Bare(service) = role {
                    found.push((*uuid, *service));
                }
            }
        }
        found
    }
}

impl Roster {
    /// All zones, forward zones in the order of the configuration first.
    pub fn zones(&self) -> Vec<Name> {
        let mut zones: Vec<Name> = self.config.forward.iter().map(|zone| zone.origin.clone()).collect();
        let mut reverse: Vec<Name> = match &self.config.reverse {
            Reverse::Listed(zones) => zones.iter().map(|zone| zone.origin.clone()).collect(),
            Reverse::Auto => self.index.reverse.keys().cloned().collect(),
        };
        reverse.sort_by(Name::canonical_cmp);
        zones.append(&mut reverse);
        zones
    }

    /// The automatic reverse zones that have a name beside their apex, in no order; none where zones are listed.
    pub fn automatic_zones(&self) -> impl Iterator<Item = &Name> {
        let is_automatic = self.config.reverse == Reverse::Auto;
        let zones = self.index.reverse.iter().filter(move |_| is_automatic);
        zones.filter(|(_, names)| !names.is_empty()).map(|(zone, _)| zone)
    }

    /// Returns true if a zone is an automatic reverse zone with a name beside its apex.
    pub fn is_automatic(&self, zone: &Name) -> bool {
        self.config.reverse == Reverse::Auto && self.index.reverse.get(zone).is_some_and(|names| !names.is_empty())
    }

    /// The owner names of a zone, in no order.
    pub fn zone_names(&self, zone: &Name) -> Vec<Name> {
        let mut all = Vec::new();
        self.each_own(zone, |_, name, _| all.push(name));
        all.extend(self.indexed(zone).into_iter().flat_map(|(_, names)| names.keys().cloned()));
        all
    }

    /// All RRsets of a zone, name by name, in no order. Quicker than asking for the records at each of its names.
    pub fn each_name(&self, zone: &Name, mut each: impl FnMut(Name, Vec<RRset>)) {
        self.each_own(zone, |holder, name, role| each(name, self.sets(self.records_of_one(holder, role))));
        if let Some((forward, names)) = self.indexed(zone) {
            names.iter().for_each(|(name, crowd)| each(name.clone(), self.records_of(forward, crowd)));
        }
    }

    /// The RRsets at an owner name of a zone; none if the name has none.
    pub fn records_at(&self, zone: &Name, owner: &Name) -> Vec<RRset> {
        self.holders(zone, owner).map(|(forward, crowd)| self.records_of(forward, &crowd)).unwrap_or_default()
    }

    /// Those with a role at a name, by UUID.
    pub(super) fn at(&self, zone: &Name, owner: &Name) -> Vec<(Uuid, Role)> {
        self.holders(zone, owner).map(|(_, crowd)| crowd.iter().copied().collect()).unwrap_or_default()
    }

    //--- Holders ---

    fn forward_number(&self, zone: &Name) -> Option<u16> {
        self.config.forward.iter().position(|forward| forward.origin == *zone).map(|index| index as u16)
    }

    /// The index of a zone, and its number if it is a forward zone.
    fn indexed(&self, zone: &Name) -> Option<(Option<u16>, &Names)> {
        match self.forward_number(zone) {
            Some(number) => Some((Some(number), self.index.forward.get(usize::from(number))?)),
            None => Some((None, self.index.reverse.get(zone)?)),
        }
    }

    /// Those with a role at a name, and the zone's number if it is a forward zone.
    fn holders(&self, zone: &Name, owner: &Name) -> Option<(Option<u16>, Cow<'_, Holders>)> {
        let (forward, names) = self.indexed(zone)?;
        if let Some(crowd) = names.get(owner) {
            return Some((forward, Cow::Borrowed(crowd)));
        }
        Some((forward, Cow::Owned(self.own_holders(forward?, owner)?)))
    }

    /// Those whose own name a name in a forward zone is.
    fn own_holders(&self, zone: u16, owner: &Name) -> Option<Holders> {
        let mut holders: Option<Holders> = None;
        for uuid in self.own_candidates(zone, owner) {
            self.own_names(uuid, |holder, name, role| {
                if holder.zone == zone && name == *owner {
                    let one = (uuid, role);
                    holders.get_or_insert(Crowd::One(one)).add(one);
                }
            });
        }
        holders
    }

    /// All whose own name a name in a forward zone can be, by its labels.
    fn own_candidates(&self, zone: u16, owner: &Name) -> Vec<Uuid> {
        let origin = &self.config.forward[usize::from(zone)].origin;
        if !owner.is_within(origin) {
            return Vec::new();
        }
        let count = owner.label_count() - origin.label_count();
        let all: Vec<&str> =
            labels(owner.as_wire()).take(count).map(|label| std::str::from_utf8(label).unwrap_or_default()).collect();
        match &all[..] {
            [head, "cmon"] => tag::uuid_label(head).into_iter().collect(),
            [.., head, "inst", account] => {
                let accounts = tag::uuid_label(account).into_iter().chain(self.label_owners.get(*account).copied());
                let aliased = accounts.flat_map(|account| self.aliases.of(&(account, Box::from(*head))));
                tag::uuid_label(head).into_iter().chain(aliased.map(|(_, uuid)| *uuid)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The names of an instance's own, or of a compute node, in forward zones.
    fn own_names(&self, uuid: Uuid, mut each: impl FnMut(Holder<'_>, Name, Role)) {
        let published = self.vms.get(&uuid).and_then(Instance::published);
        if let Some(published) = &published {
            published.names(&self.config, uuid, |place, name, role| {
                if let Place::Forward(zone) = place
                    && role.is_own()
                {
                    each(Holder { zone, uuid, published: Some(published) }, name, role);
                }
            });
        } else if self.servers.get(&uuid).is_some_and(|node| node.has_alias) {
            let text = uuid.to_string();
            for (zone, forward) in self.config.forward.iter().enumerate() {
                if let Some(name) = below(&forward.origin, &[&text, "cmon"]) {
                    each(Holder { zone: zone as u16, uuid, published: None }, name, Role::Cmon);
                }
            }
        }
    }

    /// Every name of a forward zone that is an instance's or a compute node's own.
    fn each_own(&self, zone: &Name, mut each: impl FnMut(Holder<'_>, Name, Role)) {
        let Some(number) = self.forward_number(zone) else { return };
        let nodes = self.servers.keys().filter(|uuid| !self.vms.contains_key(uuid));
        for uuid in self.vms.keys().chain(nodes) {
            self.own_names(*uuid, |holder, name, role| {
                if holder.zone == number {
                    each(holder, name, role);
                }
            });
        }
    }

    //--- Records ---

    /// The RRsets of those with a role at a name.
    fn records_of(&self, forward: Option<u16>, crowd: &Holders) -> Vec<RRset> {
        match forward {
            Some(zone) => self.sets(self.members_at(zone, crowd).flat_map(|(_, records)| records)),
            None => {
                let candidates = crowd.iter().filter_map(|(uuid, role)| {
                    let Role::Ptr(number) = role else { return None };
                    let published = self.vms.get(uuid)?.published()?;
                    let (rank, target) = published.ptr_candidate(&self.config, *uuid, *number)?;
                    Some(((rank, *uuid), target))
                });
                let first = candidates.min_by_key(|(rank, _)| *rank);
                self.sets(first.map(|(_, target)| (rtype::PTR, target.as_wire().into())))
            }
        }
    }

    /// Records as RRsets, by type.
    fn sets(&self, records: impl IntoIterator<Item = (u16, Vec<u8>)>) -> Vec<RRset> {
        let mut records: Vec<(u16, Vec<u8>)> = records.into_iter().collect();
        records.sort_by_key(|(rtype, _)| *rtype);
        let sets = records.chunk_by(|(a, _), (b, _)| a == b);
        let build = |set: &[(u16, Vec<u8>)]| {
            RRset::build(set[0].0, self.config.ttl, set.iter().map(|(_, rdata)| &rdata[..]).collect())
        };
        sets.filter_map(build).collect()
    }

    /// The members of a name in a forward zone, by UUID, each with all its records there, up to the first whose records
    /// do not fit the RRsets: an address without the TXT record of its instance would be nobody's. SRV records are longer,
    /// and lead to other names: those that fit no more are left out alone.
    fn members_at<'a>(
        &'a self,
        zone: u16,
        crowd: &'a Holders,
    ) -> impl Iterator<Item = (Uuid, Vec<(u16, Vec<u8>)>)> + 'a {
        let mut roles = crowd.iter().peekable();
        let mut octets: BTreeMap<u16, usize> = BTreeMap::new();
        std::iter::from_fn(move || {
            let uuid = roles.peek()?.0;
            let mut records = Vec::new();
            while let Some((_, role)) = roles.next_if(|(other, _)| *other == uuid) {
                let published = self.vms.get(&uuid).and_then(Instance::published);
                records.extend(self.records_of_one(Holder { zone, uuid, published: published.as_ref() }, *role));
            }
            for (rtype, rdata) in &records {
                *octets.entry(*rtype).or_default() += rdata.len() + wire::rr::FIXED_BYTES;
            }
            if octets.get(&rtype::SRV).is_some_and(|octets| *octets > MOST_OCTETS) {
                records.retain(|(rtype, _)| *rtype != rtype::SRV);
            }
            let mut others = octets.iter().filter(|(rtype, _)| **rtype != rtype::SRV);
            others.all(|(_, octets)| *octets <= MOST_OCTETS).then_some((uuid, records))
        })
        .fuse()
    }

    /// The records of one in a role.
    fn records_of_one(&self, Holder { zone, uuid, published }: Holder<'_>, role: Role) -> Vec<(u16, Vec<u8>)> {
        let mut records = Vec::new();
        match published {
            Some(published) => {
                published.records(&self.config, uuid, zone, role, &mut |rtype, rdata| records.push((rtype, rdata)));
            }
            None if role == Role::Cmon => {
                let target = below(&self.config.forward[usize::from(zone)].origin, &["cmon"]);
                records.extend(target.map(|target| (rtype::CNAME, target.as_wire().into())));
            }
            None => {}
        }
        records
    }

    /// Returns true if a member of a name in a forward zone has no records there, since those of others fill the RRsets.
    pub(super) fn is_left_out(&self, zone: u16, name: &Name, member: Uuid) -> bool {
        let crowd = self.index.forward.get(usize::from(zone)).and_then(|names| names.get(name));
        // One that is alone always fits.
        crowd
            .filter(|crowd| crowd.count() > 1)
            .is_some_and(|crowd| self.members_at(zone, crowd).all(|(uuid, _)| uuid != member))
    }
}
