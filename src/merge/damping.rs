//! Self-removal damping: a service loses its addresses slowly when a datacenter withdraws many at once.
//!
//! A health check that is wrong everywhere would empty a service within seconds. So of the addresses of a service name
//! no more than a share is removed within a window, max(floor(n × share), 1), and the last one only when it has been
//! the last for a longer time (RFD 1, "Self-removal hysteresis"). n counts the distinct addresses of the name in the
//! region, those that stand and those that were removed within the window. What is withdrawn beyond that is held: the
//! region goes on to have it.
//!
//! Only withdrawals by a member that is valid before and after are damped, of names `SERVICE.svc.ACCOUNT`. An address goes at
//! once when its instance has: no `INSTANCE.inst.ACCOUNT` of the member has the address any more, where one had it. Which
//! instances a service has, its TXT records tell (`docs/cns.md` 30). Drains and expiries are not damped, and end
//! what is held.
//!
//! Invariants: within any window no more addresses of a name are removed than the rule says, but for instances that are
//! gone; the last address of a name stays at least as long as the plan says; what is held depends on what came when,
//! and on nothing else: the clock is given.
//!
//! Cost: O(addresses) for a service name that changes, O(members) for each name that is being damped, each time.

use super::drain::labels;
use super::{Held, RegionPlan, Scope, Touched};
use crate::zone::{Node, Zone};
use inventory::damping::Group;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;
use wire::name::{Name, NameBuf};
use wire::rr::{RRset, rtype};

pub use inventory::config::Limits as DampingPlan;

/// The one place at which the addresses of a service name stand.
const NAME: &[()] = &[()];

/// An address as a record has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub rtype: u16,
    pub rdata: Box<[u8]>,
}

/// Change of a member's data at one moment.
pub struct MemberChange<'a> {
    /// The version before; none while nothing was taken of the member.
    pub before: Option<&'a Zone>,
    pub after: Option<&'a Zone>,
    /// Names at which both versions differ; none if nowhere.
    pub touched: Option<&'a Touched>,
    /// Scope of the drains of the version before.
    pub scope_before: &'a Scope,
    /// Scope of the drains now.
    pub scope: &'a Scope,
}

/// Counts of withdrawn addresses, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Removed from the region, at once or after they were held.
    pub released: u64,
    /// Held, and given by a member again.
    pub returned: u64,
    /// Removed at once with their instance or member.
    pub gone: u64,
}

impl Tally {
    /// Returns true if all counts are 0.
    pub fn is_empty(&self) -> bool {
        *self == Tally::default()
    }
}

//--- Service ---

/// An address that no member gives any more.
#[derive(Clone, Debug)]
struct Withdrawn {
    /// Number of the member that withdrew it.
    member: usize,
    ttl: u32,
    /// The names in the member of the instances that have it; empty where that is not known.
    instances: Vec<Name>,
}

/// One service name of a region, while it is damped.
#[derive(Clone, Debug, Default)]
struct Service {
    live: BTreeSet<Address>,
    /// What is known of the addresses that are held.
    held: BTreeMap<Address, Withdrawn>,
    /// The addresses that stand, held ones among them.
    group: Group<Address, Instant>,
}

impl Service {
    /// Holds an address that a member withdrew, unless it is held already.
    fn hold(&mut self, address: Address, withdrawn: Withdrawn, now: Instant) {
        if let Entry::Vacant(place) = self.held.entry(address) {
            self.group.hold(place.key().clone(), NAME, now);
            place.insert(withdrawn);
        }
    }

    /// Takes the addresses that members give now, and removes what may go by now.
    fn update(&mut self, live: BTreeSet<Address>, plan: &DampingPlan, now: Instant, tally: &mut Tally) {
        for address in self.live.difference(&live).filter(|address| !self.held.contains_key(*address)) {
            self.group.remove(address);
        }
        for address in &live {
            self.group.join(address.clone(), NAME);
            tally.returned += u64::from(self.held.remove(address).is_some());
        }
        self.live = live;
        for address in self.group.evaluate(plan, now, None) {
            self.held.remove(&address);
            tally.released += 1;
        }
    }
}

//--- Damper ---

/// The service names of one region that are damped.
#[derive(Clone, Debug)]
pub struct Damper {
    plan: DampingPlan,
    /// Services by their name in the region.
    services: HashMap<Name, Service>,
}

impl Damper {
    /// A damper that holds nothing.
    pub fn new(plan: DampingPlan) -> Damper {
        Damper { plan, services: HashMap::new() }
    }

    /// Limits in force.
    pub fn plan(&self) -> &DampingPlan {
        &self.plan
    }

    /// Takes what the members do, in the plan's order, and removes what may go by now.
    pub fn update(&mut self, region: &RegionPlan, members: &[MemberChange<'_>], now: Instant) -> Tally {
        let mut tally = Tally::default();
        for (index, member) in members.iter().enumerate() {
            let (Some(before), Some(_)) = (member.before, member.after) else { continue };
            match member.touched {
                None => {}
                Some(Touched::Names(names)) => {
                    names.iter().for_each(|name| self.withdraw(region, index, member, name, now, &mut tally));
                }
                Some(Touched::Everything) => {
                    for node in before.nodes().filter(|node| account_of(node.owner()).is_some()) {
                        self.withdraw(region, index, member, &before.name_of(node), now, &mut tally);
                    }
                }
            }
        }
        let plan = self.plan;
        self.services.retain(|name, service| {
            let in_member = |member| name.replace_suffix(&region.origin, region.origin_of(member))?.ok();
            let there: Vec<Option<Name>> = (0..region.members.len()).map(in_member).collect();
            // Where nothing is taken of a member, nothing of it is held.
            let taken = |index: usize| {
                let (name, member) = (there[index].as_ref()?, &members[index]);
                let zone = member.after.filter(|zone| !member.scope.covers(name.owner_in(&zone.origin)))?;
                Some((zone, zone.get(name.as_wire())))
            };
            let Service { held, group, .. } = service;
            held.retain(|address, withdrawn| {
                let lives = taken(withdrawn.member).is_some_and(|(zone, node)| {
                    node.is_none_or(|node| node.get(rtype::CNAME).is_none()) && withdrawn.lives(zone, address)
                });
                tally.gone += u64::from(!lives && group.remove(address));
                lives
            });
            let nodes = (0..members.len()).filter_map(|index| taken(index)?.1);
            let live = nodes.flat_map(addresses).map(|(address, _)| address).collect();
            service.update(live, &plan, now, &mut tally);
            // As if the service had never been damped.
            !service.group.is_calm()
        });
        tally
    }

    /// Takes the addresses that a member no longer has at a name.
    fn withdraw(
        &mut self,
        region: &RegionPlan,
        index: usize,
        member: &MemberChange<'_>,
        name: &Name,
        now: Instant,
        tally: &mut Tally,
    ) {
        let (Some(before), Some(after)) = (member.before, member.after) else { return };
        let owner = name.owner_in(&before.origin);
        let Some(account) = account_of(owner) else { return };
        let Some(Ok(there)) = name.replace_suffix(&before.origin, &region.origin) else { return };
        let Some(old) = before.get(name.as_wire()) else { return };
        // What was not in the region cannot be withdrawn from it.
        if member.scope_before.covers(owner) || member.scope.covers(owner) || region.excludes(&there) {
            return;
        }
        let new = after.get(name.as_wire());
        let stay: BTreeSet<Address> = new.into_iter().flat_map(addresses).map(|(address, _)| address).collect();
        for (address, ttl) in addresses(old).filter(|(address, _)| !stay.contains(address)) {
            let instances = instances_at(before, old, account, &address);
            let withdrawn = Withdrawn { member: index, ttl, instances };
            if withdrawn.lives(after, &address) {
                self.services.entry(there.clone()).or_default().hold(address, withdrawn, now);
            } else {
                tally.gone += 1;
            }
        }
    }

    /// Returns true if any address is held.
    pub fn is_holding(&self) -> bool {
        self.services.values().any(|service| !service.held.is_empty())
    }

    /// Returns true if any address is held or has been removed within the window.
    pub fn is_active(&self) -> bool {
        !self.services.is_empty()
    }

    /// Number of addresses that are held.
    pub fn held_addresses(&self) -> usize {
        self.services.values().map(|service| service.held.len()).sum()
    }

    /// Time of the next removal, or at which a service's last is forgotten, if nothing else happens.
    pub fn next(&self) -> Option<Instant> {
        self.services.values().filter_map(|service| service.group.next()).min()
    }

    /// Time at which an address at a name of the region goes, if nothing else happens; none if it is not held.
    pub fn until(&self, name: &Name, address: &Address) -> Option<Instant> {
        self.services.get(name)?.group.until(&self.plan, address, None)
    }

    /// Address sets that are held of each member, at its own names.
    pub fn held(&self, region: &RegionPlan) -> Vec<Held> {
        let mut all = vec![Held::new(); region.members.len()];
        for (name, service) in &self.services {
            let kind = |address: &Address, withdrawn: &Withdrawn| (withdrawn.member, address.rtype);
            let kinds: BTreeSet<(usize, u16)> = service.held.iter().map(|(a, b)| kind(a, b)).collect();
            for (member, rtype) in kinds {
                let of_kind = || service.held.iter().filter(|(a, b)| kind(a, b) == (member, rtype));
                let ttl = of_kind().map(|(_, withdrawn)| withdrawn.ttl).min().unwrap_or_default();
                let rdatas = of_kind().map(|(address, _)| &address.rdata).collect();
                let there = name.replace_suffix(&region.origin, region.origin_of(member)).and_then(Result::ok);
                if let (Some(there), Some(set)) = (there, RRset::build(rtype, ttl, rdatas)) {
                    all[member].entry(there).or_default().push(Arc::new(set));
                }
            }
        }
        all
    }
}

impl Withdrawn {
    /// Returns true if an instance still has the address, or no instance is known.
    fn lives(&self, zone: &Zone, address: &Address) -> bool {
        self.instances.is_empty() || self.instances.iter().any(|name| has_address(zone, name, address))
    }
}

//--- Names and records of CNS ---

/// The labels of the account, if an owner without origin is a service name.
fn account_of(owner: &[u8]) -> Option<&[u8]> {
    let count = labels(owner).count();
    let mut last = labels(owner).skip(count.checked_sub(2).filter(|service| *service > 0)?);
    (last.next()? == b"svc").then_some(())?;
    // The last label, with its length in front.
    owner.len().checked_sub(last.next()?.len() + 1).map(|start| &owner[start..])
}

/// The addresses of a node, with their TTL.
fn addresses(node: Node<'_>) -> impl Iterator<Item = (Address, u32)> {
    let sets = node.rrsets().filter(|set| matches!(set.rtype, rtype::A | rtype::AAAA));
    sets.flat_map(|set| set.rdatas().map(move |rdata| (Address { rtype: set.rtype, rdata: rdata.into() }, set.ttl)))
}

/// Returns true if a zone has an address at a name.
fn has_address(zone: &Zone, name: &Name, address: &Address) -> bool {
    let set = zone.get(name.as_wire()).and_then(|node| node.get(address.rtype));
    set.is_some_and(|set| set.rdatas().any(|rdata| *rdata == *address.rdata))
}

/// The names of the instances of a service that have an address. The TXT records of a service are the UUIDs of its
/// instances, those that are out of service with a word in front.
fn instances_at(zone: &Zone, service: Node<'_>, account: &[u8], address: &Address) -> Vec<Name> {
    let suffix = [account, zone.origin.as_wire()].concat();
    let instance = |rdata: &[u8]| {
        let text = rdata.get(1..)?.to_ascii_lowercase();
        let uuid = text.strip_prefix(b"verifying:").unwrap_or(&text);
        let length = u8::try_from(uuid.len()).ok().filter(|length| (1..64).contains(length))?;
        let name = NameBuf::from_wire(&[&[length], uuid, b"\x04inst", &suffix].concat()).ok()?;
        Some(name.to_name()).filter(|name| has_address(zone, name, address))
    };
    service.get(rtype::TXT).into_iter().flat_map(|set| set.rdatas()).filter_map(instance).collect()
}

#[cfg(test)]
mod tests;
