//! Judging an instance: what it depends on is looked up, the rules are asked, and what it would publish is drafted.
//!
//! Invariants: a draft depends on elements, reports and the moment only; labels and damping come later.
//!
//! Cost: O(interfaces · zones + octets of tags) for an instance.

use super::{Known, Roster, Use, Wake};
use crate::contribution::{Link, MOST_ADDRESSES, MOST_TOKENS, Offer, Published};
use crate::model::{Account, Interface, Metadata, Network, Uuid, Vm};
use crate::tag::{self, MOST_SERVICES};
use crate::verdict::{self, Reason, Reasons, Verdict};
use std::cmp::Reverse as Latest;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// The networks of a forward zone.
#[derive(Debug, Default)]
pub(super) struct ZoneScope {
    /// All networks that no zone names.
    pub(super) has_rest: bool,
    pub(super) networks: HashSet<Uuid>,
}

/// What an instance would publish, labels and damping aside.
pub(super) struct Draft {
    pub verdict: Verdict,
    pub published: Option<Box<Published>>,
}

impl Roster {
    /// The networks of each forward zone, as they were found last, or found now: O(networks).
    pub(super) fn scope(&mut self) -> Arc<[ZoneScope]> {
        let scope = self.scope.take().unwrap_or_else(|| self.find_scope().into());
        self.scope.insert(scope).clone()
    }

    /// Finds the networks of each forward zone, pools and names resolved.
    pub(super) fn find_scope(&self) -> Vec<ZoneScope> {
        let names = self.named_networks();
        let of_zone = |networks: &[Box<str>]| {
            let mut scope = ZoneScope::default();
            for wanted in networks {
                if **wanted == *"*" {
                    scope.has_rest = true;
                } else if let Ok(uuid) = Uuid::try_parse(wanted) {
                    scope.networks.insert(uuid);
                    let pool = self.pools.get(&uuid).filter(|pool| !pool.gone);
                    scope.networks.extend(pool.into_iter().flat_map(|pool| pool.element.networks.iter().copied()));
                } else if let Some([one]) = names.get(&**wanted).map(Vec::as_slice) {
                    scope.networks.insert(*one);
                }
            }
            scope
        };
        self.config.forward.iter().map(|zone| of_zone(&zone.networks)).collect()
    }

    /// The networks without owners of each name that the configuration has.
    fn named_networks(&self) -> HashMap<&str, Vec<Uuid>> {
        let wanted = self.config.forward.iter().flat_map(|zone| zone.networks.iter().map(|name| &**name));
        let mut names: HashMap<&str, Vec<Uuid>> = wanted
            .filter(|name| *name != "*" && Uuid::try_parse(name).is_err())
            .map(|name| (name, Vec::new()))
            .collect();
        if !names.is_empty() {
            for (uuid, known) in &self.networks {
                if let Some(all) = names.get_mut(&*known.element.name).filter(|_| known.element.owners.is_empty()) {
                    all.push(*uuid);
                }
            }
            for all in names.values_mut() {
                // A network that is gone counts only where no other has the name.
                if all.iter().any(|uuid| !self.networks[uuid].gone) {
                    all.retain(|uuid| !self.networks[uuid].gone);
                }
                all.sort_unstable();
            }
        }
        names
    }

    /// Networks named in the configuration that are unknown, or of which there are several.
    pub fn unresolved_networks(&self) -> Vec<(Box<str>, Vec<Uuid>)> {
        let mut all: Vec<(Box<str>, Vec<Uuid>)> = self
            .named_networks()
            .into_iter()
            .filter(|(_, uuids)| uuids.len() != 1)
            .map(|(name, uuids)| (name.into(), uuids))
            .collect();
        let uuids = self.config.forward.iter().flat_map(|zone| &zone.networks).filter_map(|text| {
            let uuid = Uuid::try_parse(text).ok()?;
            (!self.networks.contains_key(&uuid) && !self.pools.contains_key(&uuid)).then(|| (text.clone(), Vec::new()))
        });
        all.extend(uuids);
        all.sort();
        all.dedup();
        all
    }

    /// Instances on networks of the same names as one, if the configuration has those names, are judged anew.
    pub(super) fn dirty_namesakes(&mut self, network: Uuid, before: Option<Box<str>>) {
        let now = self.networks.get(&network).map(|known| known.element.name.clone());
        let names: BTreeSet<Box<str>> = now.into_iter().chain(before).collect();
        if !self.config.forward.iter().any(|zone| zone.networks.iter().any(|wanted| names.contains(wanted))) {
            return;
        }
        let same = self.networks.iter().filter(|(_, known)| names.contains(&known.element.name));
        let same: Vec<Uuid> = same.map(|(uuid, _)| *uuid).collect();
        same.into_iter().for_each(|network| self.dirty_users(Use::Network(network)));
    }

    /// All that an instance depends on.
    pub(super) fn uses(&self, vm: &Vm) -> Vec<Use> {
        let mut uses: Vec<Use> = vm.owner.map(Use::Account).into_iter().collect();
        uses.extend(vm.server.map(Use::Server));
        for interface in &vm.nics {
            uses.extend(interface.network.map(Use::Network));
            if !is_complete(interface) {
                uses.extend(interface.mac.map(Use::Nic));
                let nic = interface.mac.and_then(|mac| self.nics.get(&mac));
                uses.extend(nic.and_then(|nic| nic.element.network).map(Use::Network));
                uses.push(Use::Guess);
            }
        }
        uses
    }

    /// Notes what an instance depends on.
    pub(super) fn use_all(&mut self, vm: Uuid, uses: impl IntoIterator<Item = Use>) {
        for what in uses {
            self.users.entry(what).or_default().insert(vm);
        }
    }

    /// Ends what an instance depends on.
    pub(super) fn unuse(&mut self, vm: Uuid, uses: Vec<Use>) {
        for what in uses {
            if let Some(users) = self.users.get_mut(&what) {
                users.remove(&vm);
                if users.is_empty() {
                    self.users.remove(&what);
                }
            }
            self.release_unused(what);
        }
    }

    /// Forgets an element that is gone once nothing refers to it.
    pub(super) fn release_unused(&mut self, what: Use) {
        if self.users.contains_key(&what) {
            return;
        }
        match what {
            Use::Account(uuid) => {
                if self.accounts.get(&uuid).is_some_and(|known| known.gone)
                    && let Some(known) = self.accounts.remove(&uuid)
                {
                    let label = self.login_label(&known.element);
                    self.unclaim_login(uuid, label);
                    self.keeping.elements.insert(crate::model::Key::Account(uuid));
                }
            }
            Use::Network(uuid) => {
                if self.networks.get(&uuid).is_some_and(|known| known.gone) {
                    self.scope = None;
                    self.networks.remove(&uuid);
                    self.keeping.elements.insert(crate::model::Key::Network(uuid));
                }
            }
            Use::Server(uuid) => {
                // Its alias is withdrawn at the next batch.
                if self.servers.get(&uuid).is_some_and(|node| node.gone) {
                    self.stale_nodes.insert(uuid);
                }
            }
            Use::Nic(_) | Use::Guess => {}
        }
    }

    /// Looks at a compute node, and at its instances if it went down or came up.
    pub(super) fn judge_server(&mut self, uuid: Uuid) {
        let Some(node) = self.servers.get_mut(&uuid) else { return };
        let (down, change) = verdict::server_down(&self.config, &node.server, node.seen, self.now);
        let changed = std::mem::replace(&mut node.down, down) != down;
        if let Some(change) = change {
            self.wakes.push(Latest((change, Wake::Server(uuid))));
        }
        if changed {
            self.dirty_users(Use::Server(uuid));
        }
    }

    /// Judges an instance. One that has come to its end has no records, whatever else is known.
    pub(super) fn draft(&self, vm: &Vm, scope: &[ZoneScope]) -> Result<Draft, Reason> {
        let draft = self.draft_live(vm, scope);
        if draft.is_ok() || !verdict::is_destroyed(vm) {
            return draft;
        }
        let mut verdict = Verdict::default();
        verdict.first.add(Reason::Destroyed);
        verdict.all.add(Reason::Destroyed);
        Ok(Draft { verdict, published: None })
    }

    fn draft_live(&self, vm: &Vm, scope: &[ZoneScope]) -> Result<Draft, Reason> {
        let account = vm.owner.and_then(|owner| known(self.accounts.get(&owner)?));
        let account = account.ok_or(Reason::UnknownOwner)?;
        let cn_down = match vm.server {
            None => false,
            Some(server) => {
                let node = self.servers.get(&server).filter(|node| !node.gone);
                node.ok_or(Reason::UnknownServer)?.down
            }
        };
        let mut faults = Reasons::default();
        let links = self.links(vm, account, scope, &mut faults)?;
        let report = self.reports.get(&vm.uuid).map(|report| report.at(self.now));
        let mut said = verdict::verdict(&self.config, vm, account, cn_down, report);
        if !said.instance {
            return Ok(Draft { verdict: said, published: None });
        }
        let bare = self.config.operator_logins && &*account.login == "admin";
        let mut services: Vec<Offer> = Vec::with_capacity(said.services.len());
        for service in &said.services {
            if services.iter().all(|known| known.name != service.name) {
                let ports = service.ports.as_slice().into();
                services.push(Offer { name: service.name.clone(), ports, is_in: false });
            }
        }
        services.truncate(MOST_SERVICES + 1);
        let challenge = vm.metadata.iter().find(|(key, _)| *key == Metadata::AcmeChallenge);
        let tokens = challenge.into_iter().flat_map(|(_, value)| value.split(' '));
        let mut tokens: Vec<Box<str>> = tokens.filter(|token| !token.is_empty()).map(Box::from).collect();
        if tokens.len() > MOST_TOKENS || tokens.iter().any(|token| token.len() > 255) {
            tokens.retain(|token| token.len() <= 255);
            tokens.truncate(MOST_TOKENS);
            faults.add(Reason::TooMany);
        }
        for fault in faults.iter() {
            said.first.add(fault);
            said.all.add(fault);
        }
        let published = Published {
            owner: account.uuid,
            alias: None,
            login: None,
            bare,
            services: services.into(),
            ptr: said.ptr.clone(),
            tokens: tokens.into(),
            links,
        };
        Ok(Draft { verdict: said, published: Some(Box::new(published)) })
    }

    /// The interfaces of an instance that some zone has.
    fn links(
        &self,
        vm: &Vm,
        account: &Account,
        scope: &[ZoneScope],
        faults: &mut Reasons,
    ) -> Result<Box<[Link]>, Reason> {
        let mut links: Vec<Link> = Vec::with_capacity(vm.nics.len());
        let mut room = MOST_ADDRESSES;
        for interface in &vm.nics {
            if is_internal(interface.nic_tag.as_deref(), interface.vlan_id) {
                continue;
            }
            let (network, addresses) = self.resolve(vm, interface)?;
            let named = |zone: &ZoneScope| zone.networks.contains(&network.uuid);
            let is_named = scope.iter().any(named);
            let zones = scope.iter().enumerate().filter(|(_, zone)| if is_named { named(zone) } else { zone.has_rest });
            let owned = network.owners.contains(&account.uuid);
            let prefix = owned.then(|| tag::sanitise(&network.name)).flatten();
            if owned && prefix.is_none() {
                faults.add(Reason::InvalidName);
            }
            let zones: Box<[(u16, bool)]> =
                zones.map(|(number, zone)| (number as u16, prefix.is_some() && zone.has_rest)).collect();
            let mut addresses: Vec<IpAddr> = addresses.to_vec();
            if addresses.len() > room {
                addresses.truncate(room);
                faults.add(Reason::TooMany);
            }
            room -= addresses.len();
            if !zones.is_empty() && !addresses.is_empty() {
                let is_fabric = !network.owners.is_empty();
                links.push(Link { addresses: addresses.into(), zones, prefix, is_fabric });
            }
        }
        Ok(links.into())
    }

    /// The network and the fixed addresses of an interface: NAPI completes what VMAPI does not say, and where it has no
    /// such interface the network is the only one with its tag and VLAN.
    fn resolve<'a>(&'a self, vm: &Vm, interface: &'a Interface) -> Result<(&'a Network, &'a [IpAddr]), Reason> {
        let (mut network, mut addresses) = (interface.network, &*interface.addresses);
        let (mut nic_tag, mut vlan_id) = (interface.nic_tag.as_deref(), interface.vlan_id);
        if !is_complete(interface)
            && let Some(nic) = interface.mac.and_then(|mac| self.nics.get(&mac))
        {
            let nic = &nic.element;
            if nic.belongs_to.is_some_and(|owner| owner != vm.uuid) {
                return Err(Reason::NicMismatch);
            }
            network = nic.network.or(network);
            if addresses.is_empty() {
                addresses = &nic.addresses;
            }
            if nic.nic_tag.is_some() {
                (nic_tag, vlan_id) = (nic.nic_tag.as_deref(), nic.vlan_id);
            }
        }
        let network = match network {
            Some(uuid) => self.networks.get(&uuid).and_then(known),
            None => {
                let all = self.networks.values().filter_map(known);
                let mut fitting = all.filter(|network| {
                    nic_tag.is_some() && network.nic_tag.as_deref() == nic_tag && network.vlan_id == Some(vlan_id)
                });
                fitting.next().filter(|_| fitting.next().is_none())
            }
        };
        Ok((network.ok_or(Reason::UnknownNetwork)?, addresses))
    }
}

/// An element, unless it is gone.
pub(super) fn known<E>(known: &Known<E>) -> Option<&E> {
    (!known.gone).then_some(&known.element)
}

/// Returns true if VMAPI says all of an interface.
fn is_complete(interface: &Interface) -> bool {
    interface.network.is_some() && (!interface.addresses.is_empty() || interface.dynamic)
}

/// Returns true for interfaces on the network of administration, untagged, and on Manta's.
fn is_internal(nic_tag: Option<&str>, vlan_id: u16) -> bool {
    let Some(tag) = nic_tag.map(str::to_ascii_lowercase) else { return false };
    let is = |name: &str| {
        let rack = tag.strip_prefix(name).and_then(|rest| rest.strip_prefix("_rack_"));
        tag == name || rack.is_some_and(|rack| !rack.is_empty())
    };
    (is("admin") && vlan_id == 0) || is("manta")
}
