//! The names of all zones, each with those who have records there.
//!
//! Invariants: a name is there exactly while somebody has a role at it; no RRset is larger than [`MOST_OCTETS`], and
//! where it would be, members have all their records at the name, by UUID, or none.
//!
//! Cost: O(log members) to add or remove one; the records of a name cost O(records there).

use super::Roster;
use crate::config::Config;
use crate::contribution::{Place, Role};
use crate::labels::Crowd;
use crate::model::Uuid;
use std::collections::{BTreeMap, HashMap};
use wire::name::Name;
use wire::rr::{RRset, rtype};

/// Octets of the largest RRset.
const MOST_OCTETS: usize = 65_000;

type Names = HashMap<Name, Crowd<(Uuid, Role)>>;

/// Names by zone.
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

    fn names(&self, config: &Config, zone: &Name) -> Option<(Option<u16>, &Names)> {
        match config.forward.iter().position(|forward| forward.origin == *zone) {
            Some(index) => Some((Some(index as u16), self.forward.get(index)?)),
            None => Some((None, self.reverse.get(zone)?)),
        }
    }

    /// All names by zone.
    pub(super) fn all(&self, config: &Config) -> HashMap<Name, Vec<Name>> {
        let forward = config.forward.iter().map(|zone| &zone.origin).zip(&self.forward);
        let all = forward.chain(&self.reverse);
        all.map(|(zone, names)| (zone.clone(), names.keys().cloned().collect())).collect()
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

    /// Those with a role at a name.
    pub(super) fn at(&self, config: &Config, zone: &Name, owner: &Name) -> Vec<(Uuid, Role)> {
        let names = self.names(config, zone).and_then(|(_, names)| names.get(owner));
        names.into_iter().flat_map(Crowd::iter).copied().collect()
    }
}

impl Roster {
    /// All zones, forward zones in the order of the configuration first.
    pub fn zones(&self) -> Vec<Name> {
        let mut zones: Vec<Name> = self.config.forward.iter().map(|zone| zone.origin.clone()).collect();
        let mut reverse: Vec<Name> = match &self.config.reverse {
            crate::config::Reverse::Listed(zones) => zones.iter().map(|zone| zone.origin.clone()).collect(),
            crate::config::Reverse::Auto => self.index.reverse.keys().cloned().collect(),
        };
        reverse.sort_by(Name::canonical_cmp);
        zones.append(&mut reverse);
        zones
    }

    /// The owner names of a zone, in no order.
    pub fn zone_names(&self, zone: &Name) -> Vec<Name> {
        let names = self.index.names(&self.config, zone);
        names.map(|(_, names)| names.keys().cloned().collect()).unwrap_or_default()
    }

    /// The RRsets at an owner name of a zone; none if the name has none.
    pub fn records_at(&self, zone: &Name, owner: &Name) -> Vec<RRset> {
        let Some((forward, names)) = self.index.names(&self.config, zone) else { return Vec::new() };
        let Some(crowd) = names.get(owner) else { return Vec::new() };
        let mut sets: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
        match forward {
            Some(zone) => {
                for (rtype, rdata) in self.members_at(zone, crowd).flat_map(|(_, records)| records) {
                    sets.entry(rtype).or_default().push(rdata);
                }
            }
            None => {
                let candidates = crowd.iter().filter_map(|(uuid, role)| {
                    let Role::Ptr(number) = role else { return None };
                    let published = self.vms.get(uuid)?.published.as_deref()?;
                    let (rank, target) = published.ptr_candidate(&self.config, *uuid, *number)?;
                    Some(((rank, *uuid), target))
                });
                if let Some((_, target)) = candidates.min_by_key(|(rank, _)| *rank) {
                    sets.insert(rtype::PTR, vec![target.as_wire().into()]);
                }
            }
        }
        sets.into_iter().filter_map(|(rtype, rdatas)| RRset::build(rtype, self.config.ttl, rdatas)).collect()
    }

    /// The members of a name in a forward zone, by UUID, each with all its records there, up to the first whose records
    /// do not fit the RRsets: an address without the TXT record of its instance would be nobody's. SRV records are longer,
    /// and lead to other names: those that fit no more are left out alone.
    fn members_at<'a>(
        &'a self,
        zone: u16,
        crowd: &'a Crowd<(Uuid, Role)>,
    ) -> impl Iterator<Item = (Uuid, Vec<(u16, Vec<u8>)>)> + 'a {
        let mut roles = crowd.iter().peekable();
        let mut octets: BTreeMap<u16, usize> = BTreeMap::new();
        std::iter::from_fn(move || {
            let uuid = roles.peek()?.0;
            let mut records = Vec::new();
            while let Some((_, role)) = roles.next_if(|(other, _)| *other == uuid) {
                self.put_records(zone, uuid, *role, &mut records);
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

    fn put_records(&self, zone: u16, uuid: Uuid, role: Role, records: &mut Vec<(u16, Vec<u8>)>) {
        match self.vms.get(&uuid).and_then(|instance| instance.published.as_deref()) {
            Some(published) => {
                published.records(&self.config, uuid, zone, role, &mut |rtype, rdata| records.push((rtype, rdata)));
            }
            None if role == Role::Cmon => {
                let origin = &self.config.forward[usize::from(zone)].origin;
                let target = crate::contribution::below(origin, &["cmon"]);
                records.extend(target.map(|target| (rtype::CNAME, target.as_wire().into())));
            }
            None => {}
        }
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
