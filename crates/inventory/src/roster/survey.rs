//! A survey of a roster: its accounts with their counts, its services with their members, and the instances that need a
//! look, the first of each kind.
//!
//! Invariant: nothing is kept; what a survey says is of one moment.
//!
//! Cost: O(instances · their services) for what is found, O(limit · log) to put in order what is given.

use super::explain::Explanation;
use super::{Instance, Roster};
use crate::config::Reverse as Listed;
use crate::contribution::{Published, reverse_zone};
use crate::model::{Moment, Uuid, Vm};
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::net::IpAddr;

/// The first of the things that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    pub found: usize,
    pub first: Vec<T>,
}

/// What a roster has, the first of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Those with the most instances first.
    pub accounts: Found<AccountCounts>,
    /// Those with held members first, then those with members out of service.
    pub services: Found<ServiceCounts>,
    /// Undecided and held ones, for longest first; the others follow where a part of a name is looked for.
    pub instances: Found<Explanation>,
}

/// An account with the numbers of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountCounts {
    pub uuid: Uuid,
    /// None where only instances name the account.
    pub login: Option<Box<str>>,
    /// It wants names, and may have some.
    pub is_enabled: bool,
    pub instances: usize,
    /// Instances with names.
    pub listed: usize,
    pub in_service: usize,
    /// Instances with a membership that is held.
    pub held: usize,
    pub undecided: usize,
}

/// A service with the numbers of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCounts {
    pub service: Box<str>,
    pub account: Uuid,
    pub login: Option<Box<str>>,
    /// Members whose addresses stand at its names, held ones aside.
    pub in_service: usize,
    /// Members that report themselves down and stay for a while.
    pub held: usize,
    pub out: usize,
}

/// Memberships that are held, by instance: the service, and the moment of the report.
type Holds<'r> = HashMap<Uuid, Vec<(&'r str, Moment)>>;

/// Place of an instance in the order: undecided, held, others.
type Place = (u8, Moment);

impl Roster {
    /// The number of addresses that have names and no reverse zone, and the lowest of them; none where no reverse zones
    /// are wanted. O(instances)
    pub fn without_reverse_zone(&self) -> Option<(usize, IpAddr)> {
        if matches!(&self.config.reverse, Listed::Listed(zones) if zones.is_empty()) {
            return None;
        }
        let published = self.vms.values().filter_map(Instance::published);
        let addresses = published.flat_map(|own| own.named_addresses().collect::<Vec<_>>());
        let outside = addresses.filter(|address| reverse_zone(&self.config, *address).is_none());
        outside.fold(None, |found, address| match found {
            Some((count, lowest)) => Some((count + 1, address.min(lowest))),
            None => Some((1, address)),
        })
    }

    /// Surveys what has a part in its name, or everything for an empty part; no more than `limit` of each kind.
    pub fn survey(&self, part: &str, limit: usize) -> Survey {
        let part = part.as_bytes();
        let holds = self.holds();
        let mut accounts: HashMap<Uuid, AccountCounts> = HashMap::new();
        accounts.extend(self.accounts.keys().map(|uuid| (*uuid, self.no_instances(*uuid))));
        let mut services: HashMap<(Uuid, Box<str>), [usize; 3]> = HashMap::new();
        let mut instances: Vec<(Place, Uuid)> = Vec::new();
        for (uuid, instance) in &self.vms {
            let held = holds.get(uuid).map(Vec::as_slice).unwrap_or_default();
            let (vm, published) = (instance.vm.open(), instance.published());
            if let Some(owner) = vm.owner {
                accounts.entry(owner).or_insert_with(|| self.no_instances(owner)).count(instance, !held.is_empty());
            }
            for (owner, offer) in published.iter().flat_map(|own| own.services.iter().map(|offer| (own.owner, offer))) {
                let is_held = held.iter().any(|(service, _)| **service == *offer.name);
                let place = if is_held {
                    1
                } else if offer.is_in {
                    0
                } else {
                    2
                };
                services.entry((owner, offer.name.clone())).or_default()[place] += 1;
            }
            let place = match (instance.undecided, held.iter().map(|(_, since)| *since).min()) {
                (Some((_, since)), _) => (0, since),
                (None, Some(since)) => (1, since),
                (None, None) if part.is_empty() => continue,
                (None, None) => (2, Moment::default()),
            };
            if self.is_named(&vm, published.as_ref(), part) {
                instances.push((place, *uuid));
            }
        }
        let accounts =
            accounts.into_values().filter(|account| is_account(account.uuid, account.login.as_deref(), part));
        let services = services.into_iter().map(|((account, service), [in_service, held, out])| {
            let login = self.login(account).map(Box::from);
            ServiceCounts { service, account, login, in_service, held, out }
        });
        let services = services.filter(|service| {
            has_part(&service.service, part) || is_account(service.account, service.login.as_deref(), part)
        });
        let instances = first(instances, limit, |a, b| a.cmp(b));
        Survey {
            accounts: first(accounts.collect(), limit, |a, b| {
                (Reverse(a.instances), &a.login, a.uuid).cmp(&(Reverse(b.instances), &b.login, b.uuid))
            }),
            services: first(services.collect(), limit, |a, b| {
                let counts = |one: &ServiceCounts| (Reverse(one.held), Reverse(one.out));
                let names = (&a.login, a.account, &a.service).cmp(&(&b.login, b.account, &b.service));
                counts(a).cmp(&counts(b)).then(names)
            }),
            instances: Found {
                found: instances.found,
                first: instances.first.into_iter().filter_map(|(_, uuid)| self.explain(uuid)).collect(),
            },
        }
    }

    /// The accounts with the most owner names in forward zones, with their logins; no more than `limit`. O(accounts).
    pub fn names_by_account(&self, limit: usize) -> Vec<(Uuid, Option<&str>, usize)> {
        let all = self.tally.names.iter().map(|(account, names)| (*account, self.login(*account), *names));
        first(all.collect(), limit, |a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0))).first
    }

    /// All memberships that are held.
    fn holds(&self) -> Holds<'_> {
        let mut holds = Holds::new();
        for ((_, service), group) in &self.groups {
            for (since, uuid) in group.held() {
                holds.entry(*uuid).or_default().push((service, *since));
            }
        }
        holds
    }

    /// An account of which no instance was counted yet.
    fn no_instances(&self, uuid: Uuid) -> AccountCounts {
        let known = self.accounts.get(&uuid).filter(|known| !known.gone).map(|known| &known.element);
        AccountCounts {
            uuid,
            login: self.login(uuid).map(Box::from),
            is_enabled: known.is_some_and(|account| account.cns_enabled && account.approved),
            instances: 0,
            listed: 0,
            in_service: 0,
            held: 0,
            undecided: 0,
        }
    }

    /// True if an instance, its account or one of its services has a part in its name.
    fn is_named(&self, vm: &Vm, published: Option<&Published>, part: &[u8]) -> bool {
        let services = published.into_iter().flat_map(|published| &published.services);
        let mut names = vm.alias.as_deref().into_iter().chain(services.map(|offer| &*offer.name));
        names.any(|name| has_part(name, part))
            || is_account(vm.uuid, None, part)
            || vm.owner.is_some_and(|owner| is_account(owner, self.login(owner), part))
    }
}

impl AccountCounts {
    /// Counts an instance.
    fn count(&mut self, instance: &Instance, is_held: bool) {
        self.instances += 1;
        self.listed += usize::from(instance.instance);
        self.in_service += usize::from(instance.service);
        self.held += usize::from(is_held);
        self.undecided += usize::from(instance.undecided.is_some());
    }
}

/// True if a UUID or a login has a part.
fn is_account(uuid: Uuid, login: Option<&str>, part: &[u8]) -> bool {
    let mut text = Uuid::encode_buffer();
    has_part(uuid.hyphenated().encode_lower(&mut text), part) || login.is_some_and(|login| has_part(login, part))
}

/// True if a text has a part, in whichever case.
fn has_part(text: &str, part: &[u8]) -> bool {
    part.is_empty() || text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

/// The first things in an order.
fn first<T>(mut all: Vec<T>, limit: usize, order: impl Fn(&T, &T) -> Ordering) -> Found<T> {
    let found = all.len();
    if limit < found {
        all.select_nth_unstable_by(limit, &order);
        all.truncate(limit);
    }
    all.sort_unstable_by(&order);
    Found { found, first: all }
}
