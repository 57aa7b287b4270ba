//! What operators are told of a roster: counts, and why an instance has the names that it has.
//!
//! Cost: O(reasons + groups with holds) for counts, O(records at its names) to explain an instance.

use super::{GroupKey, Instance, Known, Members, Reported, Roster, Use};
use crate::contribution::{Place, Role};
use crate::model::{Moment, Uuid, Vm};
use crate::tag;
use crate::verdict::{self, Reason};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use strum::IntoEnumIterator;
use wire::name::{Name, labels};

/// Members of the largest group whose holds are foretold.
const MOST_FORETOLD: usize = 100;
/// Instances that are told of a name.
const MOST_TOLD: usize = 100;

/// Counts for metrics and status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub vms: usize,
    pub accounts: usize,
    pub networks: usize,
    pub servers: usize,
    /// Instances with names.
    pub listed: usize,
    /// Instances that cannot be judged, with records as they were.
    pub undecided: usize,
    /// Memberships that are held in service though the instance reports itself down.
    pub held: usize,
    /// Moment of the report that is held for longest.
    pub oldest_hold: Option<Moment>,
    /// Labels that more than one account or instance claims.
    pub conflicts: usize,
    /// Totals since the start.
    pub soft_removals: u64,
    pub hard_removals: u64,
    /// Held memberships whose instance reported up again.
    pub returned: u64,
    /// Holds that an operator ended.
    pub released: u64,
    /// Instances by reason: the first match of each group of rules.
    pub reasons: BTreeMap<&'static str, usize>,
}

/// Why an instance has the names that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub uuid: Uuid,
    pub alias: Option<Box<str>>,
    pub owner: Option<Uuid>,
    pub login: Option<Box<str>>,
    /// It has names of its own.
    pub instance: bool,
    /// Its services have its addresses, damping aside.
    pub service: bool,
    /// The first reason of each group of rules.
    pub reasons: Vec<&'static str>,
    pub all_reasons: Vec<&'static str>,
    /// The rule by which it cannot be judged, and since when.
    pub undecided: Option<(&'static str, Moment)>,
    pub services: Vec<Membership>,
    /// Its last report on itself, if that counts.
    pub report: Option<Reported>,
    /// Zones with the owner names that it has there.
    pub names: Vec<(Name, Name)>,
    /// Owner names in forward zones that have its addresses: its own, and those of services that it is in.
    pub addressed: Vec<Name>,
}

/// Membership of an instance in a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub service: Box<str>,
    pub ports: Vec<u16>,
    /// Its addresses stand at the name.
    pub is_in: bool,
    /// Moment of the report that is held, if the only reason to stay in is damping.
    pub held_since: Option<Moment>,
    /// Moment at which it leaves if nothing else happens; none for groups of more than 100 members.
    pub held_until: Option<Moment>,
}

/// Counts that are kept up to date.
#[derive(Debug, Default)]
pub(super) struct Tally {
    listed: usize,
    undecided: usize,
    reasons: HashMap<Reason, usize>,
    /// Owner names in forward zones by account: those of one never merge with those of another.
    pub names: HashMap<Uuid, usize>,
    /// Holds of groups that have some, with the oldest report.
    held: HashMap<GroupKey, (usize, Moment)>,
    pub soft_removals: u64,
    pub hard_removals: u64,
    pub returned: u64,
    pub released: u64,
}

impl Tally {
    pub(super) fn add(&mut self, instance: &Instance) {
        self.listed += usize::from(instance.instance);
        self.undecided += usize::from(instance.undecided.is_some());
        instance.reasons().0.iter().for_each(|reason| *self.reasons.entry(reason).or_default() += 1);
    }

    pub(super) fn remove(&mut self, instance: &Instance) {
        self.listed -= usize::from(instance.instance);
        self.undecided -= usize::from(instance.undecided.is_some());
        for reason in instance.reasons().0.iter() {
            if let Some(count) = self.reasons.get_mut(&reason) {
                *count -= 1;
            }
        }
    }

    /// Counts a name that an account has now.
    pub(super) fn add_name(&mut self, account: Uuid) {
        *self.names.entry(account).or_default() += 1;
    }

    /// Counts a name that an account has no more.
    pub(super) fn remove_name(&mut self, account: Uuid) {
        if let Some(names) = self.names.get_mut(&account) {
            *names -= 1;
            if *names == 0 {
                self.names.remove(&account);
            }
        }
    }

    /// Takes the holds of a group.
    pub(super) fn hold(&mut self, key: &GroupKey, group: &Members) {
        match group.held().next() {
            Some((since, _)) => {
                self.held.insert(key.clone(), (group.held().len(), *since));
            }
            None => {
                self.held.remove(key);
            }
        }
    }

    /// Goes on with the totals of another.
    pub(super) fn carry(&mut self, other: &Tally) {
        self.soft_removals = other.soft_removals;
        self.hard_removals = other.hard_removals;
        self.returned = other.returned;
        self.released = other.released;
    }
}

impl Roster {
    /// Counts for metrics and status.
    pub fn counts(&self) -> Counts {
        let tally = &self.tally;
        Counts {
            vms: self.vms.len(),
            accounts: self.accounts.len(),
            networks: self.networks.len(),
            servers: self.servers.len(),
            listed: tally.listed,
            undecided: tally.undecided,
            held: tally.held.values().map(|(held, _)| held).sum(),
            oldest_hold: tally.held.values().map(|(_, since)| *since).min(),
            conflicts: self.logins.conflicts() + self.aliases.conflicts(),
            soft_removals: tally.soft_removals,
            hard_removals: tally.hard_removals,
            returned: tally.returned,
            released: tally.released,
            reasons: Reason::iter()
                .map(|reason| (reason.word(), tally.reasons.get(&reason).copied().unwrap_or_default()))
                .collect(),
        }
    }

    /// Elements that were not told to be gone: instances, accounts, networks, pools, interfaces and compute nodes.
    pub fn extent(&self) -> [usize; 6] {
        fn there<E>(known: &HashMap<Uuid, Known<E>>) -> usize {
            known.values().filter(|known| !known.gone).count()
        }
        let servers = self.servers.values().filter(|node| !node.gone).count();
        let nics = self.nics.values().filter(|known| !known.gone).count();
        let (accounts, networks, pools) = (there(&self.accounts), there(&self.networks), there(&self.pools));
        [self.vms.len(), accounts, networks, pools, nics, servers]
    }

    /// Why an instance has the names that it has; none if it is unknown.
    pub fn explain(&self, vm: Uuid) -> Option<Explanation> {
        let instance = self.vms.get(&vm)?;
        let (known, published) = (instance.vm.open(), instance.published());
        let (mut names, mut addressed) = (Vec::new(), Vec::new());
        let (mut first, mut all) = instance.reasons();
        if let Some(published) = &published {
            let is_in = |service: u8| published.services.get(usize::from(service)).is_some_and(|offer| offer.is_in);
            published.names(&self.config, vm, |place, name, role| match place {
                Place::Forward(zone) => {
                    let is_left_out = self.is_left_out(zone, &name, vm);
                    if is_left_out {
                        first.add(Reason::TooMany);
                        all.add(Reason::TooMany);
                    }
                    let has_address = match role {
                        Role::Instance(_) => true,
                        Role::Service(service, _) | Role::Bare(service) => is_in(service),
                        Role::OwnChallenge | Role::Challenge | Role::Cmon | Role::Ptr(_) => false,
                    };
                    addressed.extend((has_address && !is_left_out).then(|| name.clone()));
                    names.push((self.config.forward[usize::from(zone)].origin.clone(), name));
                }
                Place::Reverse(zone) => names.push((zone, name)),
            });
        }
        names.sort_by(|a, b| a.0.canonical_cmp(&b.0).then_with(|| a.1.canonical_cmp(&b.1)));
        names.dedup();
        addressed.sort_by(Name::canonical_cmp);
        addressed.dedup();
        let services = published.iter().flat_map(|published| {
            let owner = published.owner;
            published.services.iter().map(move |offer| (owner, offer))
        });
        let services = services.map(|(owner, offer)| {
            let group = self.groups.get(&(owner, offer.name.clone()));
            let foretold = group.filter(|group| group.len() <= MOST_FORETOLD);
            Membership {
                service: offer.name.clone(),
                ports: offer.ports.iter().map(|port| port.port).collect(),
                is_in: offer.is_in,
                held_since: group.and_then(|group| group.held_since(&vm)),
                held_until: foretold.and_then(|group| group.until(&self.config.damping, &vm, self.memory.closed_until)),
            }
        });
        let account = known.owner.and_then(|owner| self.accounts.get(&owner));
        Some(Explanation {
            uuid: vm,
            alias: known.alias,
            owner: known.owner,
            login: account.map(|account| account.element.login.clone()),
            instance: instance.instance,
            service: instance.service,
            reasons: first.words(),
            all_reasons: all.words(),
            undecided: instance.undecided.map(|(reason, since)| (reason.word(), since)),
            services: services.collect(),
            report: self.reported(vm),
            names,
            addressed,
        })
    }

    /// The instances that have to do with an owner name of a zone, at most 100 of them: those with records there, and
    /// then those that would have some were they listed. O(records at the name + instances of the account · octets of
    /// their tags).
    pub fn explain_name(&self, zone: &Name, owner: &Name) -> Vec<Explanation> {
        let mut vms: Vec<Uuid> = self.at(zone, owner).iter().map(|(uuid, _)| *uuid).collect();
        vms.dedup();
        let absent = self.absent_at(zone, owner);
        let absent = absent.into_iter().filter(|vm| vms.binary_search(vm).is_err());
        let all = vms.iter().copied().chain(absent);
        all.filter_map(|vm| self.explain(vm)).take(MOST_TOLD).collect()
    }

    /// The instances of an account whose name of their own, or service, an owner name has, listed or not, by UUID.
    fn absent_at(&self, zone: &Name, owner: &Name) -> BTreeSet<Uuid> {
        let is_forward = self.config.forward.iter().any(|forward| forward.origin == *zone);
        if !is_forward || !owner.is_within(zone) {
            return BTreeSet::new();
        }
        let own = labels(owner.as_wire()).take(owner.label_count() - zone.label_count());
        let own: Vec<Box<str>> = own.map(|label| String::from_utf8_lossy(label).to_ascii_lowercase().into()).collect();
        let [front @ .., kind, account] = &own[..] else { return BTreeSet::new() };
        let front = match front {
            [first, rest @ ..] if **first == *"_acme-challenge" => rest,
            _ => front,
        };
        let has_name = |vm: &Vm| match &**kind {
            "inst" => self.is_headed(vm, front),
            "svc" => self.serves(vm, front),
            _ => false,
        };
        let accounts = tag::uuid_label(account).into_iter();
        let accounts = accounts.chain(self.logins.of(account).copied().filter(|_| self.config.use_login));
        let users = accounts.flat_map(|account| self.users.get(&Use::Account(account)).into_iter().flatten());
        users.filter(|uuid| self.vms.get(uuid).is_some_and(|instance| has_name(&instance.vm.open()))).copied().collect()
    }

    /// Returns true if labels are the head of an instance, with the label of a network in front or without.
    fn is_headed(&self, vm: &Vm, labels: &[Box<str>]) -> bool {
        let Some((head, front)) = labels.split_last() else { return false };
        let alias = vm.alias.as_deref().filter(|_| self.config.use_alias).and_then(tag::label);
        (tag::uuid_label(head) == Some(vm.uuid) || alias.as_ref() == Some(head)) && self.is_prefix(vm, front)
    }

    /// Returns true if labels are those of a service of an instance, with the label of a network in front or without.
    fn serves(&self, vm: &Vm, labels: &[Box<str>]) -> bool {
        let login = vm.owner.and_then(|owner| self.accounts.get(&owner)).map(|known| &*known.element.login);
        let (services, _) = verdict::services(&self.config, vm, login.unwrap_or_default());
        let is_own = |labels: &[Box<str>]| services.iter().any(|service| *service.name == *labels.join("."));
        is_own(labels) || labels.len() > 1 && is_own(&labels[1..]) && self.is_prefix(vm, &labels[..1])
    }

    /// Returns true if labels are none, or that of a network of the account on which an instance is.
    fn is_prefix(&self, vm: &Vm, labels: &[Box<str>]) -> bool {
        let [label] = labels else { return labels.is_empty() };
        let networks = vm.nics.iter().filter_map(|nic| Some(&self.networks.get(&nic.network?)?.element));
        let mut owned = networks.filter(|network| vm.owner.is_some_and(|owner| network.owners.contains(&owner)));
        owned.any(|network| tag::sanitise(&network.name).as_ref() == Some(label))
    }
}
