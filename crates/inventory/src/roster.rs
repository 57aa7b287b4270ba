//! The roster of a datacenter: what is known of it, and the records that this makes.
//!
//! Changes come in one by one; [`Roster::settle`] publishes them as one batch: instances are judged, groups damped once,
//! labels given to their owners, and the names whose records changed are told. An instance that cannot be judged, since
//! its account, compute node or network is unknown, keeps what it had.
//!
//! Invariants: moments never go back; the records are a function of the elements and of what is kept beside them, not of
//! the way that led there, and a batch touches every name whose records it changes.
//!
//! Cost: a change costs O(names of the instances that it touches · log) when it is settled: one instance for a change of
//! an instance, all of an account, compute node, network or pool for a change of these. An instance of one interface and
//! one service takes some 750 octets: itself and what it publishes, packed; its entry in the table of instances; its claim
//! to an alias; its part in its group, in the names of its service, and in the lists of its account and its network.

mod explain;
mod index;
mod judge;
mod keep;
mod reports;
mod settle;
mod suffixes;
mod survey;

use crate::config::Config;
use crate::contribution::Published;
use crate::damping::{Group, Remains};
use crate::labels::Claims;
pub use crate::model::Health;
use crate::model::{
    Account, Change, Element, Inventory, Key, Mac, Moment, Network, NetworkPool, Nic, Server, Uuid, Vm,
};
use crate::packed::Packed;
use crate::verdict::{Reason, Reasons};
pub use explain::{Counts, Explanation, Membership};
use index::Index;
use judge::ZoneScope;
pub use keep::Part;
use reports::Report;
pub use reports::Reported;
use std::cmp::Reverse as Latest;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
pub use suffixes::Unknown;
pub use survey::{AccountCounts, Found, ServiceCounts, Survey};
use wire::name::Name;

/// A forward zone's number and the label of a prefix: names of a service that share their members.
type Spot = (u16, Box<str>);
/// An account and the name of its service.
type GroupKey = (Uuid, Box<str>);
type Members = Group<Uuid, Moment, Spot>;
/// The label that an instance claims, with its account, and the instance's age.
type Claim = (GroupKey, Moment);

/// Everything known of a datacenter and the zones that it makes.
#[derive(Debug)]
pub struct Roster {
    config: Config,
    now: Moment,
    vms: HashMap<Uuid, Instance>,
    accounts: HashMap<Uuid, Known<Account>>,
    networks: HashMap<Uuid, Known<Network>>,
    pools: HashMap<Uuid, Known<NetworkPool>>,
    /// The networks of each forward zone; none if networks or pools have changed since it was looked at.
    scope: Option<Arc<[ZoneScope]>>,
    nics: HashMap<Mac, Known<Nic>>,
    servers: HashMap<Uuid, Node>,
    reports: HashMap<Uuid, Report>,
    /// Moments at which reports are looked at, and how many wakes for that have come since old ones were taken away.
    report_wakes: HashMap<Uuid, Moment>,
    pushed_report_wakes: usize,
    /// Instances by what they depend on.
    users: HashMap<Use, BTreeSet<Uuid>>,
    index: Index,
    groups: HashMap<GroupKey, Members>,
    /// Labels of logins, with the accounts that claim them.
    logins: Claims<Box<str>, Uuid>,
    /// Labels of aliases by account, with the instances that claim them and their age.
    aliases: Claims<GroupKey, (Moment, Uuid)>,
    /// The accounts that labels of logins belong to.
    label_owners: HashMap<Box<str>, Uuid>,
    /// Instances to be judged at the next batch, each with the moment of the news.
    dirty: BTreeMap<Uuid, Moment>,
    dirty_groups: BTreeSet<GroupKey>,
    dirty_logins: BTreeSet<Box<str>>,
    dirty_aliases: BTreeSet<GroupKey>,
    /// Instances whose records may have changed though they need not be judged.
    stale: BTreeSet<Uuid>,
    /// Compute nodes whose alias is to be made anew.
    stale_nodes: BTreeSet<Uuid>,
    /// Names that have to be told though nothing else would.
    touched: HashMap<Name, HashSet<Name>>,
    /// True while a batch is settled of which no names are told.
    is_untold: bool,
    wakes: BinaryHeap<Latest<(Moment, Wake)>>,
    memory: Memory,
    keeping: Keeping,
    /// Number of instances by reason, as long as they are that.
    tally: explain::Tally,
}

/// An instance and what became of it.
#[derive(Debug)]
struct Instance {
    vm: Packed<Vm>,
    /// What it published before a restart, if it could not be judged then.
    recalled: Option<Box<Published>>,
    undecided: Option<(Reason, Moment)>,
    instance: bool,
    service: bool,
    first: Reasons,
    all: Reasons,
    claim: Option<Packed<Claim>>,
    published: Option<Packed<Published>>,
    /// Some of its names were left out, since they were too many or too long.
    is_cut: bool,
}

/// An element that instances refer to.
#[derive(Debug)]
struct Known<E> {
    element: E,
    /// A definite answer said that it is no more; it stays as long as instances refer to it.
    gone: bool,
}

/// A compute node.
#[derive(Debug)]
struct Node {
    server: Server,
    gone: bool,
    /// Moment at which it was last known to run.
    seen: Moment,
    down: bool,
    has_alias: bool,
}

/// What an instance depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    Account(Uuid),
    Network(Uuid),
    Nic(Mac),
    Server(Uuid),
    /// Its network is found by tag and VLAN.
    Guess,
}

/// What has to be looked at when a moment comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Server(Uuid),
    Report(Uuid),
    Group(GroupKey),
    /// The window that is taken as full has passed.
    Opening,
}

/// What was kept or presumed of groups that do not exist yet.
#[derive(Debug, Default)]
struct Memory {
    groups: HashMap<GroupKey, Remains<Uuid, Moment, Spot>>,
    /// Instances that were in service at a name.
    presumed: HashSet<(Name, Uuid)>,
    /// Moment before which nobody leaves by its own report.
    closed_until: Option<Moment>,
}

/// What has changed since it was last kept.
#[derive(Debug, Default)]
struct Keeping {
    elements: HashSet<Key>,
    reports: BTreeSet<Uuid>,
    labels: BTreeSet<Box<str>>,
    groups: BTreeSet<GroupKey>,
    servers: BTreeSet<Uuid>,
}

/// What a batch did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Owner names whose records may have changed, each once, by zone; a name without records any more is among them.
    pub touched: HashMap<Name, Vec<Name>>,
    /// Moment at which to settle again if nothing else happens.
    pub next: Option<Moment>,
}

impl Roster {
    /// An empty roster.
    pub fn new(config: Config, now: Moment) -> Roster {
        Roster {
            index: Index::new(config.forward.len()),
            config,
            now,
            vms: HashMap::new(),
            accounts: HashMap::new(),
            networks: HashMap::new(),
            pools: HashMap::new(),
            scope: None,
            nics: HashMap::new(),
            servers: HashMap::new(),
            reports: HashMap::new(),
            report_wakes: HashMap::new(),
            pushed_report_wakes: 0,
            users: HashMap::new(),
            groups: HashMap::new(),
            logins: Claims::default(),
            aliases: Claims::default(),
            label_owners: HashMap::new(),
            dirty: BTreeMap::new(),
            dirty_groups: BTreeSet::new(),
            dirty_logins: BTreeSet::new(),
            dirty_aliases: BTreeSet::new(),
            stale: BTreeSet::new(),
            stale_nodes: BTreeSet::new(),
            touched: HashMap::new(),
            is_untold: false,
            wakes: BinaryHeap::new(),
            memory: Memory::default(),
            keeping: Keeping::default(),
            tally: explain::Tally::default(),
        }
    }

    /// The rules and zones in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The moment of the latest call.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Goes on to a moment: a clock that was set back stands still until it is there again.
    fn pass(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// Takes other rules or zones. Everything is made anew; the next [`settle`](Roster::settle) touches all names of
    /// before and after. O(instances).
    pub fn reconfigure(&mut self, config: Config, now: Moment) {
        // News that waits is damped by what was in service before it.
        let mut touched = self.settle(now).touched;
        let keeping = std::mem::take(&mut self.keeping);
        let keep = self.keep();
        let (mut other, _) = Roster::restore(config, &keep, self.now.max(now));
        for zone in self.zones() {
            let names = self.zone_names(&zone);
            touched.entry(zone).or_default().extend(names);
        }
        for (zone, names) in touched {
            other.touched.entry(zone).or_default().extend(names);
        }
        // What was in service and reports itself down is held on in groups that are the same.
        other.memory.closed_until = self.memory.closed_until;
        other.memory.presumed = std::mem::take(&mut self.memory.presumed);
        if let Some(at) = other.memory.closed_until {
            other.wakes.push(Latest((at, Wake::Opening)));
        }
        other.tally.carry(&self.tally);
        other.carry_reports(&self.reports);
        // What has not been written yet still is to be.
        other.keeping = keeping;
        *self = other;
    }

    /// Takes one change; nothing is published before [`settle`](Roster::settle).
    pub fn apply(&mut self, change: Change, now: Moment) {
        self.pass(now);
        match change {
            Change::Put(Element::Vm(vm)) => self.put_vm(vm),
            Change::Put(Element::Account(account)) => self.put_account(account),
            Change::Put(Element::Network(network)) => {
                let uuid = network.uuid;
                self.scope = None;
                let before = self.networks.insert(uuid, Known { element: network, gone: false });
                let same =
                    before.as_ref().is_some_and(|known| !known.gone && known.element == self.networks[&uuid].element);
                if !same {
                    self.dirty_namesakes(uuid, before.map(|known| known.element.name));
                    self.keeping.elements.insert(Key::Network(uuid));
                    self.dirty_users(Use::Network(uuid));
                    self.dirty_users(Use::Guess);
                }
            }
            Change::Put(Element::NetworkPool(pool)) => {
                let uuid = pool.uuid;
                self.scope = None;
                let mut networks: BTreeSet<Uuid> = pool.networks.iter().copied().collect();
                let before = self.pools.insert(uuid, Known { element: pool, gone: false });
                if before.as_ref().is_none_or(|known| known.element != self.pools[&uuid].element) {
                    networks.extend(before.iter().flat_map(|known| known.element.networks.iter().copied()));
                    self.keeping.elements.insert(Key::NetworkPool(uuid));
                    networks.into_iter().for_each(|network| self.dirty_users(Use::Network(network)));
                }
            }
            Change::Put(Element::Nic(nic)) => {
                let mac = nic.mac;
                let before = self.nics.insert(mac, Known { element: nic, gone: false });
                if before.is_none_or(|known| known.element != self.nics[&mac].element) {
                    self.keeping.elements.insert(Key::Nic(mac));
                    self.dirty_users(Use::Nic(mac));
                }
            }
            Change::Put(Element::Server(server)) => self.put_server(server),
            Change::Gone(key) => self.remove(key),
        }
    }

    /// Takes a complete inventory: what is missing from it leaves.
    pub fn replace(&mut self, inventory: Inventory, now: Moment) {
        let mut missing: HashSet<Key> = self.keys().into_iter().collect();
        for element in inventory.into_elements() {
            missing.remove(&element.key());
            self.apply(Change::Put(element), now);
        }
        for key in missing {
            self.apply(Change::Gone(key), now);
        }
        let unknown: Vec<Uuid> = self.reports.keys().filter(|vm| !self.vms.contains_key(vm)).copied().collect();
        unknown.iter().for_each(|vm| self.drop_report(*vm));
    }

    /// Keys of all elements, so that a feeder can ask for those that a listing lacks.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.vms.keys().map(|uuid| Key::Vm(*uuid)).collect();
        keys.extend(self.accounts.iter().filter(|(_, known)| !known.gone).map(|(uuid, _)| Key::Account(*uuid)));
        keys.extend(self.networks.iter().filter(|(_, known)| !known.gone).map(|(uuid, _)| Key::Network(*uuid)));
        keys.extend(self.pools.iter().filter(|(_, known)| !known.gone).map(|(uuid, _)| Key::NetworkPool(*uuid)));
        keys.extend(self.nics.iter().filter(|(_, known)| !known.gone).map(|(mac, _)| Key::Nic(*mac)));
        keys.extend(self.servers.iter().filter(|(_, node)| !node.gone).map(|(uuid, _)| Key::Server(*uuid)));
        keys
    }

    fn put_vm(&mut self, vm: Vm) {
        let (uuid, packed) = (vm.uuid, Packed::new(&vm));
        match self.vms.get_mut(&uuid) {
            Some(known) if known.vm == packed => return,
            Some(known) => {
                // What it has published may stay for a while, with the labels of the account that it had.
                let published = known.published().map(|published| Use::Account(published.owner));
                let before = std::mem::replace(&mut known.vm, packed);
                let mut uses: HashSet<Use> = self.uses(&vm).into_iter().collect();
                uses.extend(published);
                let mut left = self.uses(&before.open());
                left.retain(|what| !uses.contains(what));
                self.use_all(uuid, uses);
                self.unuse(uuid, left);
            }
            None => {
                let uses = self.uses(&vm);
                self.vms.insert(uuid, Instance::new(packed));
                self.use_all(uuid, uses);
            }
        }
        self.keeping.elements.insert(Key::Vm(uuid));
        self.dirty.insert(uuid, self.now);
    }

    fn put_account(&mut self, account: Account) {
        let uuid = account.uuid;
        let label = self.login_label(&account);
        let is_operator = &*account.login == "admin";
        let before = self.accounts.insert(uuid, Known { element: account, gone: false });
        if before.as_ref().is_some_and(|known| !known.gone && known.element == self.accounts[&uuid].element) {
            return;
        }
        self.keeping.elements.insert(Key::Account(uuid));
        let was_operator = before.as_ref().is_some_and(|known| &*known.element.login == "admin");
        let old = before.and_then(|known| self.login_label(&known.element));
        if old != label {
            self.unclaim_login(uuid, old);
        }
        if let Some(label) = label {
            self.logins.add(label.clone(), uuid);
            self.dirty_logins.insert(label);
        }
        // A login with the text of this UUID is nobody's label any more.
        self.dirty_logins.insert(uuid.to_string().into());
        self.dirty_users(Use::Account(uuid));
        if is_operator || was_operator {
            self.stale_nodes.extend(self.servers.keys().copied());
        }
    }

    fn put_server(&mut self, server: Server) {
        use crate::model::ServerStatus::Running;
        let uuid = server.uuid;
        let now = self.now;
        match self.servers.get_mut(&uuid) {
            Some(node) => {
                let was_running = node.server.status == Running;
                if was_running || server.status == Running {
                    node.seen = now;
                }
                if node.server.status != server.status {
                    self.keeping.servers.insert(uuid);
                }
                if node.server != server || node.gone {
                    let of_note = |server: &Server| Server { last_heartbeat: None, ..server.clone() };
                    if of_note(&node.server) != of_note(&server) || node.gone {
                        self.keeping.elements.insert(Key::Server(uuid));
                        self.stale_nodes.insert(uuid);
                    }
                    let was_gone = std::mem::replace(&mut node.gone, false);
                    node.server = server;
                    if was_gone {
                        self.dirty_users(Use::Server(uuid));
                    }
                }
            }
            None => {
                let node = Node { server, gone: false, seen: now, down: false, has_alias: false };
                self.servers.insert(uuid, node);
                self.keeping.elements.insert(Key::Server(uuid));
                self.keeping.servers.insert(uuid);
                self.stale_nodes.insert(uuid);
                self.dirty_users(Use::Server(uuid));
            }
        }
        self.judge_server(uuid);
    }

    fn remove(&mut self, key: Key) {
        match key {
            Key::Vm(uuid) => {
                self.drop_vm(uuid);
            }
            Key::Account(uuid) => {
                let Some(known) = self.accounts.get_mut(&uuid).filter(|known| !known.gone) else { return };
                known.gone = true;
                let was_operator = &*known.element.login == "admin";
                self.keeping.elements.insert(key);
                self.dirty_users(Use::Account(uuid));
                self.release_unused(Use::Account(uuid));
                if was_operator {
                    self.stale_nodes.extend(self.servers.keys().copied());
                }
            }
            Key::Network(uuid) => {
                let Some(known) = self.networks.get_mut(&uuid).filter(|known| !known.gone) else { return };
                known.gone = true;
                self.scope = None;
                self.keeping.elements.insert(key);
                self.dirty_namesakes(uuid, None);
                self.dirty_users(Use::Network(uuid));
                self.dirty_users(Use::Guess);
                self.release_unused(Use::Network(uuid));
            }
            Key::NetworkPool(uuid) => {
                let Some(pool) = self.pools.remove(&uuid) else { return };
                self.scope = None;
                self.keeping.elements.insert(key);
                pool.element.networks.iter().for_each(|network| self.dirty_users(Use::Network(*network)));
            }
            Key::Nic(mac) => {
                if self.nics.remove(&mac).is_some() {
                    self.keeping.elements.insert(key);
                    self.dirty_users(Use::Nic(mac));
                }
            }
            Key::Server(uuid) => {
                let Some(node) = self.servers.get_mut(&uuid).filter(|node| !node.gone) else { return };
                node.gone = true;
                self.keeping.elements.insert(key);
                self.stale_nodes.insert(uuid);
                self.dirty_users(Use::Server(uuid));
            }
        }
    }

    /// Forgets an instance and all its records, whatever is known of it. False: no such instance.
    pub fn forget(&mut self, vm: Uuid, now: Moment) -> bool {
        self.pass(now);
        self.drop_vm(vm)
    }

    fn drop_vm(&mut self, uuid: Uuid) -> bool {
        self.drop_report(uuid);
        let Some(mut instance) = self.vms.remove(&uuid) else { return false };
        self.keeping.elements.insert(Key::Vm(uuid));
        self.dirty.remove(&uuid);
        self.stale.remove(&uuid);
        self.tally.remove(&instance);
        self.unclaim_alias(uuid, instance.claim.take());
        let recalled = instance.recalled.take();
        let published = instance.published.take().map(|published| published.open());
        let published_owner = published.as_ref().or(recalled.as_deref()).map(|published| published.owner);
        if let Some(published) = published {
            self.leave_groups(uuid, &published, &[]);
            self.withdraw_names(uuid, &published);
            // An alias with the text of this UUID may be used from now on.
            self.dirty_aliases.insert((published.owner, uuid.to_string().into()));
        }
        let mut uses = self.uses(&instance.vm.open());
        uses.extend(published_owner.map(Use::Account));
        self.unuse(uuid, uses);
        true
    }

    /// Ends all holds at a service's owner name, in any zone. Returns the number of members let go.
    pub fn release(&mut self, name: &Name, now: Moment) -> usize {
        self.pass(now);
        let mut keys: BTreeSet<GroupKey> = BTreeSet::new();
        for (uuid, service) in self.index.services_at(&self.config, name) {
            let Some(published) = self.vms.get(&uuid).and_then(Instance::published) else { continue };
            if let Some(offer) = published.services.get(usize::from(service)) {
                keys.insert((published.owner, offer.name.clone()));
            }
        }
        let mut released = 0;
        for key in keys {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let held: Vec<Uuid> = group.held().map(|(_, vm)| *vm).collect();
            for vm in held {
                group.remove(&vm);
                self.stale.insert(vm);
                released += 1;
            }
            self.keeping.groups.insert(key.clone());
            self.dirty_groups.insert(key);
        }
        self.tally.released += released as u64;
        released
    }

    /// Rebuilds damping from published zones where its state is lost: the instances in service at each owner name, as
    /// the TXT records say. Nothing leaves by its own report until a window has passed.
    pub fn presume(&mut self, in_service: impl IntoIterator<Item = (Name, Uuid)>, now: Moment) {
        self.pass(now);
        self.memory.presumed.extend(in_service);
        let until = self.now.plus(self.config.damping.window);
        self.memory.closed_until = Some(until);
        self.wakes.push(Latest((until, Wake::Opening)));
    }

    /// Ends what was presumed, once everything has been told: who was in service has come again, or is gone.
    pub fn forget_presumed(&mut self) {
        self.memory.presumed = HashSet::new();
    }

    fn dirty_users(&mut self, what: Use) {
        for vm in self.users.get(&what).into_iter().flatten() {
            self.dirty.insert(*vm, self.now);
        }
    }
}

impl Instance {
    fn new(vm: Packed<Vm>) -> Instance {
        Instance {
            vm,
            recalled: None,
            undecided: None,
            instance: false,
            service: false,
            first: Reasons::default(),
            all: Reasons::default(),
            claim: None,
            published: None,
            is_cut: false,
        }
    }

    /// All that its records depend on; none if it has none.
    fn published(&self) -> Option<Published> {
        self.published.as_ref().map(Packed::open)
    }

    /// The first reason of each group of rules, and all, those of its names included.
    fn reasons(&self) -> (Reasons, Reasons) {
        let (mut first, mut all) = (self.first, self.all);
        if self.is_cut {
            first.add(Reason::TooMany);
            all.add(Reason::TooMany);
        }
        (first, all)
    }
}
