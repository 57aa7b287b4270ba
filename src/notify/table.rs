//! Table of announcements: one entry for each zone and target, with what was sent last and what happens next.
//!
//! An entry rests until the zone's serial differs from what its target was last told. Then it waits in the queue of its
//! target's address, begins an exchange when one of the [`WINDOW`] places there is free, and rests again when the reply
//! has come or the last message stayed without one. What was published meanwhile makes the next exchange.
//!
//! Invariants: at most one exchange for an entry and [`WINDOW`] for an address, so a secondary that is away delays no
//! other; an exchange announces the serial that is published when a message leaves, never one that was; `alarms` holds
//! exactly the entries that pause or wait for a reply; `open` exactly those that wait for a reply.
//!
//! Cost: looking for changes O(entries), everything else O(log entries). No sockets; no clock but that of signatures.

use super::message;
use super::outcome::NotifyOutcome;
use super::{Standing, TargetStatus, Targets, Timers};
use crate::client::{Server, now as unix_now, random_id};
use crate::metrics::{Metrics, unix_seconds};
use crate::publish::Published;
use crate::trace;
use crate::zone::Zone;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use wire::name::Name;
use wire::serial::Serial;
use wire::tsig::{self, Chain, Key};

/// Exchanges that may wait for replies from one address: enough to tell a whole site's zones in a few round trips, few
/// enough not to overrun the receiver's buffer.
const WINDOW: usize = 64;

/// The most octets of a TSIG record (RFC 8945 section 4.2) beside the key's name: ten of the record's head, 26 of the
/// longest algorithm name, 64 of the longest MAC, 16 of the other fields.
const SIGNATURE_BYTES: usize = 116;

/// Names an entry, and never two.
pub(super) type Number = u64;

/// A message to send.
pub(super) struct Datagram {
    pub number: Number,
    pub target: Server,
    pub bytes: Arc<[u8]>,
}

/// All entries.
pub(super) struct Table {
    timers: Timers,
    metrics: Arc<Metrics>,
    entries: HashMap<Number, Entry>,
    /// The entries of a zone, in the order in which they were configured.
    zones: HashMap<Name, Vec<Number>>,
    addresses: HashMap<SocketAddr, Address>,
    /// Addresses that may have something in their queue and a free place.
    ready: BTreeSet<SocketAddr>,
    open: HashMap<(u16, SocketAddr), Number>,
    alarms: BTreeSet<(Instant, Number)>,
    next_number: Number,
}

/// A zone and one of its targets.
struct Entry {
    zone: Name,
    target: Server,
    /// The serial that was sent last.
    notified: Option<Serial>,
    acknowledged: Option<Serial>,
    /// Outcome of the last exchange that ended, and since when all have ended so.
    outcome: Option<(NotifyOutcome, SystemTime)>,
    /// Since when it is a target.
    added: SystemTime,
    /// The zone is to be announced whatever was sent last.
    wanted: bool,
    /// Time before which no exchange begins.
    earliest: Instant,
    stage: Stage,
}

/// Stage of an entry.
enum Stage {
    Rest,
    /// Until the pause since the last exchange is over.
    Pause(Instant),
    Queued,
    Open(Box<Exchange>),
}

/// Messages with one id.
struct Exchange {
    id: u16,
    serial: Serial,
    bytes: Arc<[u8]>,
    /// Checks the reply, when the message is signed.
    chain: Option<Chain>,
    /// Messages sent for this announcement, under this id and those it had before.
    sent: u32,
    /// Time at which the reply to the last of them is late.
    due: Instant,
    /// Problem other than silence, if any.
    problem: Option<NotifyOutcome>,
}

/// State that entries with the same address share.
#[derive(Default)]
struct Address {
    waiting: usize,
    queue: VecDeque<Number>,
    /// Reason for which nothing is heard from there, once that has been logged.
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
            next_number: 0,
        }
    }

    //--- Orders ---

    /// Replaces the targets; those that stay keep what they were told and what is under way.
    pub(super) fn set_targets(&mut self, targets: Targets, now: Instant) {
        let mut old = std::mem::take(&mut self.zones);
        for (zone, targets) in targets {
            let mut known = old.remove(&zone).unwrap_or_default();
            let mut numbers: Vec<Number> = Vec::with_capacity(targets.len());
            for target in targets {
                if numbers.iter().any(|number| self.entries[number].target == target) {
                    continue;
                }
                let kept = known.iter().position(|number| self.entries[number].target == target);
                numbers.push(match kept {
                    Some(index) => known.swap_remove(index),
                    None => self.add(zone.clone(), target, now),
                });
            }
            known.into_iter().for_each(|number| self.remove(number));
            self.zones.insert(zone, numbers);
        }
        old.into_values().flatten().for_each(|number| self.remove(number));
        let used: BTreeSet<SocketAddr> = self.entries.values().map(|entry| entry.target.address).collect();
        self.addresses.retain(|address, _| used.contains(address));
    }

    /// Wants a zone, or every zone, announced again at once; returns how many announcements that makes.
    pub(super) fn want(&mut self, zone: Option<&Name>, now: Instant) -> usize {
        let numbers: Vec<Number> = match zone {
            Some(zone) => self.zones.get(zone).cloned().unwrap_or_default(),
            None => self.entries.keys().copied().collect(),
        };
        for number in &numbers {
            if !matches!(self.entries[number].stage, Stage::Queued) {
                self.rest(*number);
            }
            let entry = self.entry(*number);
            entry.wanted = true;
            entry.earliest = now;
        }
        numbers.len()
    }

    /// Status of a zone's targets, in the order of the configuration.
    pub(super) fn status(&self, zone: &Name) -> Vec<TargetStatus> {
        let numbers = self.zones.get(zone).into_iter().flatten();
        numbers
            .map(|number| {
                let entry = &self.entries[number];
                let fetched = self.fetched(entry);
                let has_fetched = fetched.is_some_and(|fetched| Some(fetched) == entry.notified);
                let result = match (&entry.stage, &entry.outcome) {
                    (Stage::Open(exchange), _) => {
                        let Exchange { sent, problem, .. } = &**exchange;
                        let problem = problem.as_ref().map(|problem| format!(", {problem}")).unwrap_or_default();
                        format!("waiting for the reply to message {sent}{problem}")
                    }
                    // What it answered before it knew the zone says nothing any more.
                    (_, Some((outcome, _))) if has_fetched && *outcome != NotifyOutcome::Acknowledged => {
                        "fetched".to_owned()
                    }
                    (_, Some((outcome, _))) => outcome.to_string(),
                    (_, None) => "not announced yet".to_owned(),
                };
                TargetStatus {
                    address: entry.target.address,
                    notified: entry.notified,
                    acknowledged: entry.acknowledged,
                    fetched,
                    result,
                    since: entry.outcome.as_ref().map(|(_, since)| unix_seconds(*since)),
                    added: entry.added,
                }
            })
            .collect()
    }

    /// Shows each zone with each of its targets, and what that has.
    pub(super) fn each_target(&self, mut show: impl FnMut(&Name, &Standing)) {
        for entry in self.entries.values() {
            let (address, fetched) = (entry.target.address, || self.fetched(entry));
            show(
                &entry.zone,
                &Standing { address, acknowledged: entry.acknowledged, fetched: &fetched, added: entry.added },
            );
        }
    }

    /// The serial that the target of an entry has fetched here, or said it has. Of targets that share an address nobody
    /// knows which of them came.
    fn fetched(&self, entry: &Entry) -> Option<Serial> {
        let address = entry.target.address.ip();
        let numbers = self.zones.get(&entry.zone).into_iter().flatten();
        let is_alone = numbers.filter(|number| self.entries[number].target.address.ip() == address).count() == 1;
        self.metrics.peers.serial(address, &entry.zone).filter(|_| is_alone)
    }

    /// Targets of all entries, for whoever keeps sockets for them.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Server> {
        self.entries.values().map(|entry| &entry.target)
    }

    /// A new entry at rest.
    fn add(&mut self, zone: Name, target: Server, now: Instant) -> Number {
        let number = self.next_number;
        self.next_number += 1;
        self.addresses.entry(target.address).or_default();
        let entry = Entry {
            zone,
            target,
            notified: None,
            acknowledged: None,
            outcome: None,
            added: SystemTime::now(),
            wanted: false,
            earliest: now,
            stage: Stage::Rest,
        };
        self.entries.insert(number, entry);
        number
    }

    /// Lets an entry go, with what it waits for.
    fn remove(&mut self, number: Number) {
        self.rest(number);
        self.entries.remove(&number);
    }

    //--- What happens ---

    /// Looks for zones whose serial differs from what their targets were told.
    pub(super) fn look(&mut self, root: &Published, now: Instant) {
        let mut changed = Vec::new();
        for (zone, numbers) in &self.zones {
            let Some(serial) = serial(root, zone) else { continue };
            let differs = |number: &&Number| self.entries[*number].differs(serial);
            changed.extend(numbers.iter().filter(differs));
        }
        changed.into_iter().for_each(|number| self.consider(number, root, now));
    }

    /// Takes what has come from an address. Anything but a valid reply to an exchange under way changes nothing.
    pub(super) fn receive(&mut self, from: SocketAddr, bytes: &[u8], root: &Published, now: Instant) {
        let Some(id) = message::response_id(bytes) else { return };
        let Some(&number) = self.open.get(&(id, from)) else { return };
        let entry = self.entry(number);
        let Some(code) = message::read_reply(bytes, &entry.zone) else { return };
        if let Stage::Open(exchange) = &mut entry.stage
            && let Some(chain) = &mut exchange.chain
            && let Err(error) = chain.check(&mut bytes.to_vec(), unix_now())
        {
            // RFC 8945 section 5.4: anybody can have sent this, so the true reply may still come.
            exchange.problem = Some(NotifyOutcome::from_signature(error));
            return;
        }
        self.close(number, NotifyOutcome::from_code(code), root, now);
    }

    /// Notes that a message could not be sent; it is tried again like one that was lost.
    pub(super) fn note_failure(&mut self, number: Number, error: &std::io::Error) {
        // The targets may have been replaced meanwhile.
        if let Some(Entry { stage: Stage::Open(exchange), .. }) = self.entries.get_mut(&number) {
            exchange.problem = Some(NotifyOutcome::Failed(error.to_string()));
        }
    }

    /// Does what is due, and returns the messages to send.
    pub(super) fn advance(&mut self, root: &Published, now: Instant) -> Vec<Datagram> {
        let mut datagrams = Vec::new();
        let retries = self.timers.retries;
        while let Some(&(at, number)) = self.alarms.first()
            && at <= now
        {
            match &mut self.entry(number).stage {
                Stage::Open(exchange) if exchange.sent > retries => {
                    let outcome = exchange.problem.take().unwrap_or(NotifyOutcome::Timeout);
                    self.close(number, outcome, root, now);
                }
                Stage::Open(_) => datagrams.extend(self.send(number, root, now)),
                _ => {
                    self.rest(number);
                    self.consider(number, root, now);
                }
            }
        }
        while let Some(address) = self.ready.pop_first() {
            while let Some(place) = self.addresses.get_mut(&address).filter(|place| place.waiting < WINDOW)
                && let Some(number) = place.queue.pop_front()
            {
                // What was removed, or wanted again, may have left its number in the queue.
                if self.entries.get(&number).is_some_and(|entry| matches!(entry.stage, Stage::Queued)) {
                    datagrams.extend(self.send(number, root, now));
                }
            }
        }
        datagrams
    }

    /// Time at which something is due next.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    //--- Steps of one entry ---

    /// An entry that is known to be there.
    fn entry(&mut self, number: Number) -> &mut Entry {
        self.entries.get_mut(&number).expect("numbers in the table's own lists have their entries")
    }

    /// Begins an exchange or a pause, if an entry at rest has something to announce.
    fn consider(&mut self, number: Number, root: &Published, now: Instant) {
        let entry = self.entries.get_mut(&number).expect("numbers in the table's own lists have their entries");
        let differs = serial(root, &entry.zone).is_some_and(|serial| entry.differs(serial));
        if !differs || !matches!(entry.stage, Stage::Rest) {
            return;
        }
        if now < entry.earliest {
            entry.stage = Stage::Pause(entry.earliest);
            self.alarms.insert((entry.earliest, number));
            return;
        }
        entry.stage = Stage::Queued;
        let address = entry.target.address;
        self.addresses.entry(address).or_default().queue.push_back(number);
        self.ready.insert(address);
    }

    /// Takes an entry out of whatever it is doing, and returns what that was.
    fn rest(&mut self, number: Number) -> Stage {
        let entry = self.entry(number);
        let address = entry.target.address;
        let stage = std::mem::replace(&mut entry.stage, Stage::Rest);
        match &stage {
            Stage::Rest | Stage::Queued => {}
            Stage::Pause(until) => _ = self.alarms.remove(&(*until, number)),
            Stage::Open(exchange) => {
                self.alarms.remove(&(exchange.due, number));
                self.open.remove(&(exchange.id, address));
                if let Some(place) = self.addresses.get_mut(&address) {
                    place.waiting -= 1;
                }
                self.ready.insert(address);
            }
        }
        stage
    }

    /// Makes the next message of an entry that is queued or waits for a reply, with the serial that counts now.
    fn send(&mut self, number: Number, root: &Published, now: Instant) -> Option<Datagram> {
        let before = match self.rest(number) {
            Stage::Open(exchange) => Some(exchange),
            _ => None,
        };
        let entry = &self.entries[&number];
        let (zone, target) = (entry.zone.clone(), entry.target.clone());
        // A zone that may not be answered from is not announced; it is looked at when it is back.
        let Some(data) = answerable(root, &zone) else {
            self.entry(number).notified = None;
            return None;
        };
        let serial = data.soa.serial;
        let mut exchange = match before {
            Some(exchange) if exchange.serial == serial => exchange,
            // A reply to the older serial's message must not pass for one to this.
            before => {
                let id = self.free_id(target.address);
                let (bytes, chain) = write(data, id, target.key.as_ref());
                let (sent, problem) = before.map_or((0, None), |before| (before.sent, before.problem));
                Box::new(Exchange { id, serial, bytes, chain, sent, due: now, problem })
            }
        };
        // RFC 1996 section 3.6 leaves the timers to the sender; each pause is twice the one before.
        exchange.due = now + self.timers.first.saturating_mul(1 << exchange.sent.min(16));
        exchange.sent += 1;
        exchange.problem = exchange.problem.filter(|problem| !matches!(problem, NotifyOutcome::Failed(_)));
        let bytes = exchange.bytes.clone();
        self.open.insert((exchange.id, target.address), number);
        self.alarms.insert((exchange.due, number));
        self.addresses.entry(target.address).or_default().waiting += 1;
        let pause = self.timers.pause;
        let entry = self.entry(number);
        entry.notified = Some(serial);
        entry.wanted = false;
        entry.earliest = now + pause;
        entry.stage = Stage::Open(exchange);
        Some(Datagram { number, target, bytes })
    }

    /// An id that no exchange with the address has.
    fn free_id(&self, address: SocketAddr) -> u16 {
        // One address has far fewer exchanges than there are ids.
        loop {
            let id = random_id();
            if !self.open.contains_key(&(id, address)) {
                return id;
            }
        }
    }

    /// Ends an exchange, and begins the next if there is something newer.
    fn close(&mut self, number: Number, outcome: NotifyOutcome, root: &Published, now: Instant) {
        if let Stage::Open(exchange) = &self.entry(number).stage {
            let serial = exchange.serial;
            self.note(number, serial, outcome);
        }
        self.rest(number);
        self.consider(number, root, now);
    }

    /// Counts and logs the end of an exchange: failures once, when they are new.
    fn note(&mut self, number: Number, serial: Serial, outcome: NotifyOutcome) {
        let entry = self.entries.get_mut(&number).expect("numbers in the table's own lists have their entries");
        let (zone, target) = (&entry.zone, entry.target.address);
        self.metrics.notify_sent.with_label_values(&[&zone.to_string(), outcome.label()]).inc();
        let place = self.addresses.entry(target).or_default();
        if !outcome.is_silence() && place.silence.take().is_some() {
            info!(secondary = %target, "the secondary answers again");
        }
        let is_same = entry.outcome.as_ref().is_some_and(|(before, _)| before.label() == outcome.label());
        let is_new = if outcome.is_silence() {
            // Said once for the address, which may be that of thousands of zones.
            place.silence.replace(outcome.label()) != Some(outcome.label())
        } else {
            !is_same
        };
        if outcome == NotifyOutcome::Acknowledged {
            entry.acknowledged = Some(serial);
            trace::acknowledged(zone, target, serial);
            debug!(%zone, secondary = %target, serial = serial.0, "NOTIFY acknowledged");
        } else if is_new {
            warn!(%zone, secondary = %target, serial = serial.0, "NOTIFY failed: {outcome}");
        } else {
            debug!(%zone, secondary = %target, serial = serial.0, "NOTIFY failed: {outcome}");
        }
        let since = entry.outcome.as_ref().filter(|_| is_same).map_or_else(SystemTime::now, |(_, since)| *since);
        entry.outcome = Some((outcome, since));
    }
}

impl Entry {
    /// Returns true if a served serial is to be announced.
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

/// Writes an announcement, signed when there is a key for it.
fn write(zone: &Zone, id: u16, key: Option<&Arc<Key>>) -> (Arc<[u8]>, Option<Chain>) {
    let room = key.map_or(0, |key| key.name.as_wire().len() + SIGNATURE_BYTES);
    let mut message = message::write(&zone.origin, zone.soa_rrset(), id, room);
    let chain = key.map(|key| tsig::sign_request(&mut message, key, unix_now()));
    (message.into(), chain)
}
