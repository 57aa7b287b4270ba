//! The task of a feeder: it lists, follows, asks again, and tells what it learns.
//!
//! Invariants: changes are told in the order in which their answers counted; a listing that was interrupted begins anew
//! behind its last page; the feed's bootstrap begins a new listing, since pages of an older one may have missed what the
//! feed does not tell.
//!
//! Cost: see `triton`.

use super::accounts::{self, News};
use super::call_error::CallError;
use super::changefeed::{self, Signal};
use super::changelog;
use super::elements;
use super::plan::{AccountsPlan, TritonPlan};
use super::queue::Queue;
use super::services::Services;
use super::sightings::{Kind, Sightings};
use crate::source::inventory::feeder::{Event, Failure, Feed};
use inventory::model::{Change, Element, Interface, Key, Mac, Nic, State, Uuid, Vm};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Time for the feed's bootstrap at the start, before instances are listed without it.
const FIRST_LISTING: Duration = Duration::from_secs(2);
/// Shortest pause between two listings without a feed.
const BLIND_LISTING: Duration = Duration::from_secs(10);
/// Pause between two listings without a feed, as a multiple of the time that one takes.
const LISTINGS_TO_PAUSE: u32 = 10;
/// Pause before a page is asked for again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause between two looks at the compute nodes.
const SERVERS: Duration = Duration::from_secs(2);
/// Pause between two lists of compute nodes with what they know of themselves.
const SYSINFO: Duration = Duration::from_secs(60);
/// Pause between two lists of networks and pools.
const NETWORKS: Duration = Duration::from_secs(60);
/// Pause between two proofs that what was told is current.
const PROOF: Duration = Duration::from_secs(10);
/// Pause between two questions about an element that lists lack.
const ALONE: Duration = Duration::from_secs(60);
/// Answers that are taken in before they are told.
const MOST_TOGETHER: usize = 256;

/// Answer of a service.
enum Outcome {
    /// Instances below a marker, asked for by the listing of a number.
    Page { listing: u64, began: Instant, result: Result<Page, CallError> },
    /// A list of everything of a kind.
    List { list: List, began: Instant, result: Result<Vec<Value>, CallError> },
    /// One element.
    One { key: Key, began: Instant, result: Result<Option<Element>, CallError> },
}

/// A page of instances.
struct Page {
    vms: Vec<Vm>,
    /// The instance behind which the next page begins.
    last: Option<Uuid>,
    /// True if there is no other page.
    is_empty: bool,
}

/// What is listed again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Servers,
    Networks,
    NetworkPools,
}

/// A list's timer.
struct Timer {
    list: List,
    every: Duration,
    due: Instant,
    is_running: bool,
    /// True once it was read.
    was_read: bool,
}

/// Parts of the datacenter that can fail by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Vms,
    Feed,
    Accounts,
    List(List),
}

/// A listing of all instances.
struct Listing {
    began: Instant,
    /// The last instance of the last page.
    marker: Option<Uuid>,
    failures: u32,
    /// Time at which a page that failed is asked for again; none while one is on its way.
    retry: Option<Instant>,
}

/// The task and what it remembers.
pub struct Follower {
    services: Arc<Services>,
    feed: Feed,
    plan: TritonPlan,
    tasks: JoinSet<Outcome>,
    /// Tasks that end with the follower.
    followers: JoinSet<()>,
    signals: mpsc::Receiver<Signal>,
    accounts: mpsc::Receiver<News>,
    queue: Queue,
    sightings: Sightings,
    timers: [Timer; 3],
    sysinfo_due: Instant,
    listing: Option<Listing>,
    /// Number of the present listing.
    listings: u64,
    next_listing: Instant,
    /// True from the end of a listing until it is told.
    is_listed: bool,
    /// True once a listing was told.
    was_listed: bool,
    /// Elements without which the listing is not complete.
    awaited: HashSet<Key>,
    /// True if anything was kept of an earlier run.
    has_kept: bool,
    /// Interfaces that VMAPI tells too little of, and whose they are.
    unclear: HashMap<Mac, (Uuid, Interface)>,
    /// Elements that were asked for singly, and that no list has had since.
    alone: HashMap<Key, Instant>,
    listens: bool,
    accounts_read: bool,
    faults: BTreeMap<Part, Failure>,
    /// What was told of faults and of elements that fail.
    told_faults: BTreeMap<Part, Failure>,
    told_failing: usize,
    told_listens: bool,
    last_failure: Option<Failure>,
    proof: Instant,
    changes: Vec<Change>,
}

impl Follower {
    /// A task that has not begun; `known` are elements of an earlier run.
    pub fn new(plan: TritonPlan, services: Arc<Services>, instance: Uuid, known: Vec<Key>, feed: Feed) -> Follower {
        let now = Instant::now();
        let mut followers = JoinSet::new();
        let (sender, signals) = mpsc::channel(1024);
        followers.spawn(changefeed::follow(services.clone(), instance, sender));
        let (sender, accounts) = mpsc::channel(1);
        if let Some(ufds) = services.ufds() {
            followers.spawn(changelog::follow(ufds.clone(), sender));
        } else if let AccountsPlan::File(path) = &plan.accounts {
            followers.spawn(accounts::follow(path.clone(), sender));
        }
        let timer = |list, every| Timer { list, every, due: now, is_running: false, was_read: false };
        Follower {
            services,
            feed,
            plan,
            tasks: JoinSet::new(),
            followers,
            signals,
            accounts,
            queue: Queue::default(),
            has_kept: !known.is_empty(),
            sightings: Sightings::new(known),
            timers: [
                timer(List::Servers, SERVERS),
                timer(List::Networks, NETWORKS),
                timer(List::NetworkPools, NETWORKS),
            ],
            sysinfo_due: now,
            listing: None,
            listings: 0,
            next_listing: now + FIRST_LISTING,
            is_listed: false,
            was_listed: false,
            awaited: HashSet::new(),
            unclear: HashMap::new(),
            alone: HashMap::new(),
            listens: false,
            accounts_read: false,
            faults: BTreeMap::new(),
            told_faults: BTreeMap::new(),
            told_failing: 0,
            told_listens: false,
            last_failure: None,
            proof: now + PROOF,
            changes: Vec::new(),
        }
    }

    /// Runs until nobody listens.
    pub async fn run(mut self) {
        loop {
            self.start();
            if !self.tell().await {
                return;
            }
            let wake = self.next_wake();
            tokio::select! {
                Some(outcome) = self.tasks.join_next() => self.take(outcome),
                Some(signal) = self.signals.recv() => self.hear(signal),
                Some(news) = self.accounts.recv() => self.take_accounts(news),
                Some(ended) = self.followers.join_next() => resume(ended).unwrap_or_default(),
                () = self.feed.ordered() => self.begin_listing(),
                () = sleep_until(wake) => {}
            }
            for _ in 0..MOST_TOGETHER {
                let Some(outcome) = self.tasks.try_join_next() else { break };
                self.take(outcome);
            }
        }
    }

    //--- What is due ---

    /// Time at which something is due though nothing is heard.
    fn next_wake(&self) -> Instant {
        let timers = self.timers.iter().filter(|timer| !timer.is_running).map(|timer| timer.due);
        let retry = self.listing.as_ref().map(|listing| listing.retry);
        // A listing that runs is not followed by another one before it ends.
        let listing = retry.unwrap_or_else(|| self.lists_are_read().then_some(self.next_listing));
        timers.chain(listing).chain(self.queue.next()).fold(self.proof, Instant::min)
    }

    /// Starts all that is due.
    fn start(&mut self) {
        let now = Instant::now();
        for at in 0..self.timers.len() {
            if !self.timers[at].is_running && self.timers[at].due <= now {
                self.start_list(at, now);
            }
        }
        if self.listing.is_none() && self.next_listing <= now && self.lists_are_read() {
            self.begin_listing();
        }
        if let Some(listing) = &mut self.listing
            && listing.retry.is_some_and(|retry| retry <= now)
        {
            listing.retry = None;
            self.ask_page();
        }
        while let Some(key) = self.queue.take(now) {
            self.ask(key);
        }
    }

    fn start_list(&mut self, at: usize, now: Instant) {
        let timer = &mut self.timers[at];
        timer.is_running = true;
        let (list, services) = (timer.list, self.services.clone());
        let with_sysinfo = list == List::Servers && self.sysinfo_due <= now;
        if with_sysinfo {
            self.sysinfo_due = now + SYSINFO;
        }
        self.tasks.spawn(async move {
            let began = Instant::now();
            let result = match list {
                List::Servers => services.servers(with_sysinfo).await,
                List::Networks => services.networks().await,
                List::NetworkPools => services.network_pools().await,
            };
            Outcome::List { list, began, result }
        });
    }

    /// True once every list was read, so that what instances name is known, or must be asked for.
    fn lists_are_read(&self) -> bool {
        self.timers.iter().all(|timer| timer.was_read)
    }

    /// Begins to list all instances, from the first page on, as soon as the lists are read.
    fn begin_listing(&mut self) {
        if !self.lists_are_read() {
            self.next_listing = Instant::now();
            return;
        }
        self.feed.begin();
        self.listings += 1;
        self.is_listed = false;
        self.listing = Some(Listing { began: Instant::now(), marker: None, failures: 0, retry: None });
        self.ask_page();
    }

    fn ask_page(&mut self) {
        let marker = self.listing.as_ref().and_then(|listing| listing.marker);
        let (services, listing) = (self.services.clone(), self.listings);
        self.tasks.spawn(async move {
            let began = Instant::now();
            Outcome::Page { listing, began, result: services.vms(marker).await.map(Page::new) }
        });
    }

    /// Asks for one element.
    fn ask(&mut self, key: Key) {
        let services = self.services.clone();
        let unclear = if let Key::Nic(mac) = key { self.unclear.get(&mac).cloned() } else { None };
        self.tasks.spawn(async move {
            let began = Instant::now();
            let result = match (key, services.ufds()) {
                (Key::Nic(mac), _) => ask_nic(&services, mac, unclear).await.map(|nic| nic.map(Element::Nic)),
                (Key::Account(uuid), Some(ufds)) => ufds.account(uuid).await.map(|found| found.map(Element::Account)),
                _ => services.one(key).await.map(|value| value.and_then(|value| element(key, &value))),
            };
            Outcome::One { key, began, result }
        });
    }

    //--- What is heard ---

    fn take(&mut self, outcome: Result<Outcome, tokio::task::JoinError>) {
        match resume(outcome) {
            Some(Outcome::Page { listing, began, result }) => self.take_page(listing, began, result),
            Some(Outcome::List { list, began, result }) => self.take_list(list, began, result),
            Some(Outcome::One { key, began, result }) => self.take_one(key, began, result),
            None => {}
        }
    }

    fn hear(&mut self, signal: Signal) {
        match signal {
            Signal::Bootstrap => {
                self.listens = true;
                self.faults.remove(&Part::Feed);
                self.begin_listing();
            }
            Signal::Item(uuid) => self.queue.push(Key::Vm(uuid)),
            Signal::Lost(failure) => {
                self.listens = false;
                self.faults.insert(Part::Feed, failure);
                self.next_listing = self.next_listing.min(Instant::now() + BLIND_LISTING);
            }
        }
    }

    fn take_accounts(&mut self, news: News) {
        match news {
            News::All(accounts) => {
                let began = Instant::now();
                for account in accounts {
                    self.put(Element::Account(account), began);
                }
                for key in self.sightings.unseen_since(Kind::Account, began) {
                    self.deny(key, began);
                }
            }
            News::Changed(accounts) => {
                for key in accounts.into_iter().map(Key::Account) {
                    // Of the others no instance is.
                    if self.sightings.knows(key) || self.queue.contains(key) {
                        self.queue.push(key);
                    }
                }
                self.queue.hurry(|key| matches!(key, Key::Account(_)));
            }
            News::Missed { operator, began } => {
                if let Some(operator) = operator {
                    self.put(Element::Account(operator), began);
                }
                for key in self.sightings.unseen_since(Kind::Account, began) {
                    self.queue.push(key);
                    self.awaited.insert(key);
                }
                self.queue.hurry(|key| matches!(key, Key::Account(_)));
            }
            News::Failed(failure) => {
                // A file has all accounts or none; of a directory those are used that are kept.
                self.accounts_read |= self.services.ufds().is_some();
                self.faults.insert(Part::Accounts, failure);
                return;
            }
        }
        self.accounts_read = true;
        self.faults.remove(&Part::Accounts);
    }

    fn take_page(&mut self, number: u64, began: Instant, result: Result<Page, CallError>) {
        let is_present = number == self.listings;
        let page = match result {
            Ok(page) => page,
            // Whatever was asked for by a listing that was given up is asked for again by the present one.
            Err(_) if !is_present => return,
            Err(error) => return self.fail_page(&error),
        };
        for vm in page.vms {
            self.see_vm(vm, began);
        }
        let Some(listing) = self.listing.as_mut().filter(|_| is_present) else { return };
        if !page.is_empty {
            let Some(last) = page.last.filter(|last| listing.marker.is_none_or(|marker| *last < marker)) else {
                let error = "the pages of instances do not descend, as those of a VMAPI without markers";
                return self.fail_page(&CallError::Malformed(error.to_owned()));
            };
            (listing.marker, listing.failures) = (Some(last), 0);
            return self.ask_page();
        }
        // Only an empty page is the last one: others may be short.
        let listing_began = listing.began;
        self.listing = None;
        self.is_listed = true;
        self.faults.remove(&Part::Vms);
        for key in self.sightings.unseen_since(Kind::Vm, listing_began) {
            self.queue.push(key);
            self.awaited.insert(key);
        }
        // What the change log did not tell is found by asking now and then.
        if self.services.ufds().is_some()
            && let Some(since) = listing_began.checked_sub(self.plan.list_every)
        {
            self.sightings.unseen_since(Kind::Account, since).into_iter().for_each(|key| self.queue.push(key));
        }
        let took = listing_began.elapsed();
        let blind = BLIND_LISTING.max(took.saturating_mul(LISTINGS_TO_PAUSE));
        self.next_listing =
            Instant::now() + if self.listens { self.plan.list_every } else { blind.min(self.plan.list_every) };
    }

    /// Notes that a page failed, which is asked for again.
    fn fail_page(&mut self, error: &CallError) {
        self.faults.insert(Part::Vms, error.failure("VMAPI"));
        if let Some(listing) = &mut self.listing {
            let pause = FIRST_PAUSE.saturating_mul(1 << listing.failures.min(5)).min(LONGEST_PAUSE);
            listing.failures += 1;
            listing.retry = Some(Instant::now() + pause);
        }
    }

    fn take_list(&mut self, list: List, began: Instant, result: Result<Vec<Value>, CallError>) {
        let Some(timer) = self.timers.iter_mut().find(|timer| timer.list == list) else { return };
        timer.is_running = false;
        timer.due = began + timer.every;
        let (kind, service) = match list {
            List::Servers => (Kind::Server, "CNAPI"),
            List::Networks => (Kind::Network, "NAPI"),
            List::NetworkPools => (Kind::NetworkPool, "NAPI"),
        };
        let values = match result {
            Ok(values) => values,
            Err(error) => {
                // What serves everybody is asked for again soon.
                timer.due = timer.due.min(Instant::now() + SERVERS);
                self.faults.insert(Part::List(list), error.failure(service));
                return;
            }
        };
        timer.was_read = true;
        self.faults.remove(&Part::List(list));
        for value in &values {
            let element = match list {
                List::Servers => self.server(value),
                List::Networks => elements::network(value),
                List::NetworkPools => elements::network_pool(value),
            };
            if let Some(element) = element {
                self.alone.remove(&element.key());
                self.put(element, began);
            }
        }
        for key in self.sightings.unseen_since(kind, began) {
            // One that no list has, such as a compute node that is not set up, is not asked for with each of them.
            if self.alone.get(&key).is_none_or(|asked| asked.elapsed() >= ALONE) {
                self.queue.push(key);
            }
        }
    }

    /// Reads a compute node. The list without sysinfo has not forgotten the node's tag.
    fn server(&self, value: &Value) -> Option<Element> {
        let mut server = elements::server(value)?;
        if value.get("sysinfo").is_none()
            && let Some(Element::Server(told)) = self.sightings.told(Key::Server(server.uuid))
        {
            server.admin_nic_tag.clone_from(&told.admin_nic_tag);
        }
        Some(Element::Server(server))
    }

    fn take_one(&mut self, key: Key, began: Instant, result: Result<Option<Element>, CallError>) {
        match result {
            Ok(Some(Element::Vm(vm))) => self.see_vm(vm, began),
            Ok(Some(element)) => {
                self.alone.insert(key, began);
                self.put(element, began);
            }
            Ok(None) => {
                self.alone.remove(&key);
                self.deny(key, began);
            }
            Err(error) => {
                self.last_failure = Some(error.failure(Services::name_of(key)));
                self.queue.failed(key, Instant::now());
                // UFDS may be away for long. An account that is kept is as good as told; and what was served goes on for
                // all others, whatever becomes of an account that is new.
                if matches!(key, Key::Account(_)) && (self.has_kept || self.sightings.has(key)) {
                    self.awaited.remove(&key);
                }
                return;
            }
        }
        self.queue.answered(key);
        if !self.queue.contains(key) {
            self.awaited.remove(&key);
        }
    }

    //--- What is learnt ---

    /// Takes in an instance, and asks for what it needs.
    fn see_vm(&mut self, vm: Vm, began: Instant) {
        let key = Key::Vm(vm.uuid);
        if vm.destroyed || matches!(vm.state, State::Destroyed | State::Failed) {
            return self.deny(key, began);
        }
        let mut needs: Vec<Key> = vm.server.map(Key::Server).into_iter().collect();
        needs.extend(vm.owner.filter(|_| self.services.ufds().is_some()).map(Key::Account));
        for interface in &vm.nics {
            needs.extend(interface.network.map(Key::Network));
            let is_unclear = interface.network.is_none() || interface.addresses.is_empty() && !interface.dynamic;
            if let (true, Some(mac)) = (is_unclear, interface.mac) {
                self.unclear.insert(mac, (vm.uuid, interface.clone()));
                needs.push(Key::Nic(mac));
            }
        }
        if let Some(element) = self.sightings.see(Element::Vm(vm), began) {
            self.changes.push(Change::Put(element));
            for need in needs {
                self.need(need);
            }
        }
    }

    /// Asks for something that an instance names and that no list has had.
    fn need(&mut self, key: Key) {
        // Before the lists are read nobody knows what they lack; instances are listed after them.
        if self.lists_are_read() && self.sightings.is_wanted(key, Instant::now()) {
            self.queue.push(key);
            self.awaited.insert(key);
        }
    }

    /// Takes in an element that is there.
    fn put(&mut self, element: Element, began: Instant) {
        let key = element.key();
        if let Some(element) = self.sightings.see(element, began) {
            self.changes.push(Change::Put(element));
        }
        if let Key::Nic(_) = key
            && let Some(Element::Nic(nic)) = self.sightings.told(key)
            && let Some(network) = nic.network
        {
            self.need(Key::Network(network));
        }
    }

    /// Takes in that an element is not there.
    fn deny(&mut self, key: Key, began: Instant) {
        if self.sightings.miss(key, began) {
            self.changes.push(Change::Gone(key));
        }
    }

    //--- What is told ---

    /// Tells what was learnt; false when nobody listens.
    async fn tell(&mut self) -> bool {
        let mut events = Vec::new();
        if !self.changes.is_empty() {
            events.push(Event::Changes(std::mem::take(&mut self.changes)));
        }
        let failing = self.queue.failing();
        if failing != self.told_failing {
            self.told_failing = failing;
            let failure = self.last_failure.clone().filter(|_| failing > 0);
            events.push(Event::Partial { elements: failing, failure });
        }
        if self.listens != self.told_listens {
            self.told_listens = self.listens;
            events.push(Event::Following(self.listens));
        }
        let were_faults = !self.told_faults.is_empty();
        for (part, failure) in &self.faults {
            if self.told_faults.get(part) != Some(failure) {
                events.push(Event::Failed { failure: failure.clone(), again: None });
            }
        }
        self.told_faults.clone_from(&self.faults);
        if self.is_listed && self.awaited.is_empty() && self.accounts_read {
            self.is_listed = false;
            self.was_listed = true;
            events.push(Event::Listed);
            // Whatever was listed, of accounts that cannot be asked for nobody knows whether they have changed.
            let failure = self.faults.get(&Part::Accounts).cloned();
            events.extend(failure.map(|failure| Event::Failed { failure, again: None }));
        }
        let now = Instant::now();
        if self.proof <= now || were_faults && self.faults.is_empty() {
            self.proof = now + PROOF;
            // While a listing runs, its end is the proof. An order that nobody has begun to obey begins one.
            if self.was_listed && self.faults.is_empty() && self.listing.is_none() {
                if self.feed.begin() {
                    self.begin_listing();
                } else {
                    events.push(Event::Current);
                }
            }
        }
        for event in events {
            if !self.feed.tell(event).await {
                return false;
            }
        }
        true
    }
}

impl Page {
    /// Reads the elements of a page, as the task does that asked for it.
    fn new(values: Vec<Value>) -> Page {
        Page {
            vms: values.iter().filter_map(elements::vm).collect(),
            last: values.last().and_then(|value| elements::uuid(&value["uuid"])),
            is_empty: values.is_empty(),
        }
    }
}

/// The result of a task; a panic of the task is ours, too.
fn resume<T>(ended: Result<T, tokio::task::JoinError>) -> Option<T> {
    match ended {
        Ok(result) => Some(result),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}

/// Reads the answer about an element.
fn element(key: Key, value: &Value) -> Option<Element> {
    match key {
        Key::Vm(_) => elements::vm(value).map(Element::Vm),
        Key::Server(_) => elements::server(value).map(Element::Server),
        Key::Network(_) => elements::network(value),
        Key::NetworkPool(_) => elements::network_pool(value),
        // These are no JSON, or are read elsewhere.
        Key::Nic(_) | Key::Account(_) => None,
    }
}

/// Asks NAPI for an interface. Of one that it does not know, tag and VLAN tell the network, if only one has them.
async fn ask_nic(services: &Services, mac: Mac, unclear: Option<(Uuid, Interface)>) -> Result<Option<Nic>, CallError> {
    if let Some(value) = services.one(Key::Nic(mac)).await? {
        return Ok(elements::nic(&value));
    }
    let Some((owner, interface)) = unclear else { return Ok(None) };
    let Some(nic_tag) = interface.nic_tag else { return Ok(None) };
    let networks = services.networks_of(&nic_tag, interface.vlan_id).await?;
    let [network] = &networks[..] else { return Ok(None) };
    Ok(elements::uuid(&network["uuid"]).map(|network| Nic {
        mac,
        belongs_to: Some(owner),
        network: Some(network),
        nic_tag: Some(nic_tag),
        vlan_id: interface.vlan_id,
        addresses: interface.addresses,
        dynamic: interface.dynamic,
    }))
}
