//! Who has been told what: one entry for each zone and target, and what happens to it next.
//!
//! An entry rests until the zone's serial differs from what its target was last told. Then it waits in the queue of its
//! target's address, begins an exchange when one of the [`WINDOW`] places there is free, and rests again when the reply
//! has come or the last message stayed without one. What was published meanwhile makes the next exchange.
//!
//! Invariants: at most one exchange for an entry and [`WINDOW`] for an address, so a secondary that is away delays no
//! other; an exchange announces the serial that is published when a message leaves, never one that was; `alarms` holds
//! exactly the entries that pause or wait for a reply; `open` exactly those that wait for a reply.
//!
//! Cost: looking for changes O(entries), everything else O(log entries). No sockets, no clock.

use super::message;
use super::outcome::Outcome;
use super::{Target, TargetStatus, Targets, Timers};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::publish::Published;
use crate::serial::Serial;
use crate::zone::Zone;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Exchanges that may wait for replies from one address: enough to tell a whole site's zones in a few round trips, few
/// enough not to overrun the receiver's buffer.
const WINDOW: usize = 64;

/// The number of an entry, never used twice.
pub(super) type Key = u64;

/// A message to send.
pub(super) struct Datagram {
    pub key: Key,
    pub target: Target,
    pub bytes: Arc<[u8]>,
}

/// All entries.
pub(super) struct Table {
    timers: Timers,
    metrics: Arc<Metrics>,
    entries: HashMap<Key, Entry>,
    /// The entries of a zone, in the order in which they were configured.
    zones: HashMap<Name, Vec<Key>>,
    addresses: HashMap<SocketAddr, Address>,
    /// Addresses that may have something in their queue and a free place.
    ready: BTreeSet<SocketAddr>,
    open: HashMap<(u16, SocketAddr), Key>,
    alarms: BTreeSet<(Instant, Key)>,
    next_key: Key,
    /// Makes ids that cannot be foreseen, of their count.
    ids: RandomState,
    ids_taken: u64,
}

/// A zone and one of its targets.
struct Entry {
    zone: Name,
    target: Target,
    /// The serial that was sent last.
    notified: Option<Serial>,
    acknowledged: Option<Serial>,
    /// What came of the last exchange that ended.
    outcome: Option<Outcome>,
    /// The zone is to be announced whatever was sent last.
    wanted: bool,
    /// No exchange begins before.
    earliest: Instant,
    stage: Stage,
}

/// What an entry is doing.
enum Stage {
    Rest,
    /// Until the pause since the last exchange is over.
    Pause(Instant),
    Queued,
    Open(Exchange),
}

/// Messages with one id.
struct Exchange {
    id: u16,
    serial: Serial,
    bytes: Arc<[u8]>,
    /// Messages sent for this announcement, under this id and those it had before.
    sent: u32,
    /// When the reply to the last of them is late.
    due: Instant,
    /// What went wrong apart from silence.
    problem: Option<Outcome>,
}

/// What entries with the same address share.
#[derive(Default)]
struct Address {
    waiting: usize,
    queue: VecDeque<Key>,
    /// Why nothing is heard from there, once that has been logged.
    silence: Option<&'static str>,
}

impl Table {
    /// A table without entries.
    pub(super) fn new(timers: Timers, metrics: Arc<Metrics>) -> Table {
        Table {
            timers,
            metrics,
            entries: HashMap::new(),
            zones: HashMap::new(),
            addresses: HashMap::new(),
            ready: BTreeSet::new(),
            open: HashMap::new(),
            alarms: BTreeSet::new(),
            next_key: 0,
            ids: RandomState::new(),
            ids_taken: 0,
        }
    }

    //--- Orders ---

    /// Replaces the targets; those that stay keep what they were told and what is under way.
    pub(super) fn set_targets(&mut self, targets: Targets, now: Instant) {
        let mut old = std::mem::take(&mut self.zones);
        for (zone, targets) in targets {
            let mut known = old.remove(&zone).unwrap_or_default();
            let mut keys: Vec<Key> = Vec::with_capacity(targets.len());
            for target in targets {
                if keys.iter().any(|key| self.entries[key].target == target) {
                    continue;
                }
                let kept = known.iter().position(|key| self.entries[key].target == target);
                keys.push(match kept {
                    Some(index) => known.swap_remove(index),
                    None => self.add(zone.clone(), target, now),
                });
            }
            known.into_iter().for_each(|key| self.remove(key));
            self.zones.insert(zone, keys);
        }
        old.into_values().flatten().for_each(|key| self.remove(key));
        let used: BTreeSet<SocketAddr> = self.entries.values().map(|entry| entry.target.address).collect();
        self.addresses.retain(|address, _| used.contains(address));
    }

    /// Wants a zone, or every zone, announced again at once; returns how many announcements that makes.
    pub(super) fn want(&mut self, zone: Option<&Name>, now: Instant) -> usize {
        let keys: Vec<Key> = match zone {
            Some(zone) => self.zones.get(zone).cloned().unwrap_or_default(),
            None => self.entries.keys().copied().collect(),
        };
        for key in &keys {
            if !matches!(self.entries[key].stage, Stage::Queued) {
                self.rest(*key);
            }
            let entry = self.entry(*key);
            entry.wanted = true;
            entry.earliest = now;
        }
        keys.len()
    }

    /// What is known of a zone's targets, in the order of the configuration.
    pub(super) fn status(&self, zone: &Name) -> Vec<TargetStatus> {
        let keys = self.zones.get(zone).into_iter().flatten();
        keys.map(|key| {
            let entry = &self.entries[key];
            let result = match (&entry.stage, &entry.outcome) {
                (Stage::Open(exchange), _) => format!("waiting for the reply to message {}", exchange.sent),
                (_, Some(outcome)) => outcome.to_string(),
                (_, None) => "not announced yet".to_owned(),
            };
            TargetStatus {
                address: entry.target.address,
                notified: entry.notified,
                acknowledged: entry.acknowledged,
                result,
            }
        })
        .collect()
    }

    /// Targets of all entries, for whoever keeps sockets for them.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.entries.values().map(|entry| &entry.target)
    }

    /// A new entry at rest.
    fn add(&mut self, zone: Name, target: Target, now: Instant) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        self.addresses.entry(target.address).or_default();
        let entry = Entry {
            zone,
            target,
            notified: None,
            acknowledged: None,
            outcome: None,
            wanted: false,
            earliest: now,
            stage: Stage::Rest,
        };
        self.entries.insert(key, entry);
        key
    }

    /// Lets an entry go, with what it waits for.
    fn remove(&mut self, key: Key) {
        self.rest(key);
        self.entries.remove(&key);
    }

    //--- What happens ---

    /// Looks for zones whose serial differs from what their targets were told.
    pub(super) fn look(&mut self, root: &Published, now: Instant) {
        let mut changed = Vec::new();
        for (zone, keys) in &self.zones {
            let Some(serial) = serial(root, zone) else { continue };
            let differs = |key: &&Key| self.entries[*key].differs(serial);
            changed.extend(keys.iter().filter(differs));
        }
        changed.into_iter().for_each(|key| self.consider(key, root, now));
    }

    /// Takes what has come from an address. Anything but a valid reply to an exchange under way changes nothing.
    pub(super) fn receive(&mut self, from: SocketAddr, bytes: &[u8], root: &Published, now: Instant) {
        let Some(id) = message::response_id(bytes) else { return };
        let Some(&key) = self.open.get(&(id, from)) else { return };
        let entry = self.entry(key);
        let Some(code) = message::read_reply(bytes, &entry.zone) else { return };
        self.close(key, Outcome::from_code(code), root, now);
    }

    /// Notes that a message could not be sent; it is tried again like one that was lost.
    pub(super) fn note_failure(&mut self, key: Key, error: &std::io::Error) {
        // The targets may have been replaced meanwhile.
        if let Some(Entry { stage: Stage::Open(exchange), .. }) = self.entries.get_mut(&key) {
            exchange.problem = Some(Outcome::Failed(error.to_string()));
        }
    }

    /// Does what is due, and returns the messages to send.
    pub(super) fn advance(&mut self, root: &Published, now: Instant) -> Vec<Datagram> {
        let mut datagrams = Vec::new();
        let retries = self.timers.retries;
        while let Some(&(at, key)) = self.alarms.first()
            && at <= now
        {
            match &mut self.entry(key).stage {
                Stage::Open(exchange) if exchange.sent > retries => {
                    let outcome = exchange.problem.take().unwrap_or(Outcome::Timeout);
                    self.close(key, outcome, root, now);
                }
                Stage::Open(_) => datagrams.extend(self.send(key, root, now)),
                _ => {
                    self.rest(key);
                    self.consider(key, root, now);
                }
            }
        }
        while let Some(address) = self.ready.pop_first() {
            while let Some(place) = self.addresses.get_mut(&address).filter(|place| place.waiting < WINDOW)
                && let Some(key) = place.queue.pop_front()
            {
                // What was removed, or wanted again, may have left its number in the queue.
                if self.entries.get(&key).is_some_and(|entry| matches!(entry.stage, Stage::Queued)) {
                    datagrams.extend(self.send(key, root, now));
                }
            }
        }
        datagrams
    }

    /// When something is due next.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    //--- Steps of one entry ---

    /// An entry that is known to be there.
    fn entry(&mut self, key: Key) -> &mut Entry {
        self.entries.get_mut(&key).expect("keys in the table's own lists have their entries")
    }

    /// Begins an exchange or a pause, if an entry at rest has something to announce.
    fn consider(&mut self, key: Key, root: &Published, now: Instant) {
        let entry = self.entries.get_mut(&key).expect("keys in the table's own lists have their entries");
        let differs = serial(root, &entry.zone).is_some_and(|serial| entry.differs(serial));
        if !differs || !matches!(entry.stage, Stage::Rest) {
            return;
        }
        if now < entry.earliest {
            entry.stage = Stage::Pause(entry.earliest);
            self.alarms.insert((entry.earliest, key));
            return;
        }
        entry.stage = Stage::Queued;
        let address = entry.target.address;
        self.addresses.entry(address).or_default().queue.push_back(key);
        self.ready.insert(address);
    }

    /// Takes an entry out of whatever it is doing.
    fn rest(&mut self, key: Key) {
        let entry = self.entry(key);
        let address = entry.target.address;
        match std::mem::replace(&mut entry.stage, Stage::Rest) {
            Stage::Rest | Stage::Queued => {}
            Stage::Pause(until) => _ = self.alarms.remove(&(until, key)),
            Stage::Open(exchange) => {
                self.alarms.remove(&(exchange.due, key));
                self.open.remove(&(exchange.id, address));
                if let Some(place) = self.addresses.get_mut(&address) {
                    place.waiting -= 1;
                }
                self.ready.insert(address);
            }
        }
    }

    /// Makes the next message of an entry that is queued or waits for a reply, with the serial that counts now.
    fn send(&mut self, key: Key, root: &Published, now: Instant) -> Option<Datagram> {
        let entry = &self.entries[&key];
        let (zone, target) = (entry.zone.clone(), entry.target.clone());
        let before = match &entry.stage {
            Stage::Open(exchange) => Some((exchange.id, exchange.serial, exchange.bytes.clone(), exchange.sent)),
            _ => None,
        };
        self.rest(key);
        // A zone that may not be answered from is not announced; it is looked at when it is back.
        let Some(data) = answerable(root, &zone) else {
            self.entry(key).notified = None;
            return None;
        };
        let serial = data.soa.serial;
        let sent = before.as_ref().map_or(0, |(.., sent)| *sent);
        let (id, bytes) = match before {
            Some((id, same, bytes, _)) if same == serial => (id, bytes),
            // A reply to the older serial's message must not pass for one to this.
            _ => {
                let id = self.take_id(target.address);
                (id, message::write(&zone, data.soa_rrset(), id, 0).into())
            }
        };
        // RFC 1996 section 3.6 leaves the timers to the sender; each pause is twice the one before.
        let due = now + self.timers.first.saturating_mul(1 << sent.min(16));
        let pause = self.timers.pause;
        let entry = self.entry(key);
        entry.notified = Some(serial);
        entry.wanted = false;
        entry.earliest = now + pause;
        let exchange = Exchange { id, serial, bytes: bytes.clone(), sent: sent + 1, due, problem: None };
        entry.stage = Stage::Open(exchange);
        self.open.insert((id, target.address), key);
        self.alarms.insert((due, key));
        self.addresses.entry(target.address).or_default().waiting += 1;
        Some(Datagram { key, target, bytes })
    }

    /// An id that no exchange with the address has.
    fn take_id(&mut self, address: SocketAddr) -> u16 {
        // One address has far fewer exchanges than there are ids.
        loop {
            self.ids_taken += 1;
            let id = self.ids.hash_one(self.ids_taken) as u16;
            if !self.open.contains_key(&(id, address)) {
                return id;
            }
        }
    }

    /// Ends an exchange, and begins the next if there is something newer.
    fn close(&mut self, key: Key, outcome: Outcome, root: &Published, now: Instant) {
        if let Stage::Open(exchange) = &self.entry(key).stage {
            let serial = exchange.serial;
            self.note(key, serial, outcome);
        }
        self.rest(key);
        self.consider(key, root, now);
    }

    /// Counts and logs the end of an exchange: failures once, when they are new.
    fn note(&mut self, key: Key, serial: Serial, outcome: Outcome) {
        let entry = self.entries.get_mut(&key).expect("keys in the table's own lists have their entries");
        let (zone, target) = (&entry.zone, entry.target.address);
        self.metrics.notify_sent.with_label_values(&[&zone.to_string(), outcome.label()]).inc();
        let place = self.addresses.entry(target).or_default();
        if !outcome.is_silence() && place.silence.take().is_some() {
            info!(%target, "the secondary answers again");
        }
        let is_new = if outcome.is_silence() {
            // Said once for the address, which may be that of thousands of zones.
            place.silence.replace(outcome.label()) != Some(outcome.label())
        } else {
            entry.outcome.as_ref().is_none_or(|before| before.label() != outcome.label())
        };
        if outcome == Outcome::Acknowledged {
            entry.acknowledged = Some(serial);
            debug!(%zone, %target, %serial, "NOTIFY acknowledged");
        } else if is_new {
            warn!(%zone, %target, %serial, "NOTIFY failed: {outcome}");
        } else {
            debug!(%zone, %target, %serial, "NOTIFY failed: {outcome}");
        }
        entry.outcome = Some(outcome);
    }
}

impl Entry {
    /// Whether a served serial is to be announced.
    fn differs(&self, serial: Serial) -> bool {
        self.wanted || self.notified != Some(serial)
    }
}

/// The data of a zone that may be answered from.
fn answerable<'a>(root: &'a Published, zone: &Name) -> Option<&'a Zone> {
    root.get(zone)?.answerable()
}

/// The serial of a zone that may be answered from.
fn serial(root: &Published, zone: &Name) -> Option<Serial> {
    answerable(root, zone).map(|zone| zone.soa.serial)
}
