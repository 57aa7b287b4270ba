//! The published root: what is served, as one immutable value behind one pointer.
//!
//! Readers take the current [`Published`] and answer everything from it, so no answer mixes two versions. Only the
//! keeper stores a new one. Dropping an old version may free a whole zone; query threads hold the root only for a
//! batch, and the keeper keeps each replaced root for a while, so the freeing happens there.
//!
//! Cost: finding the zone of a name O(labels), and O(octets) for each suffix as long as an origin; publishing O(number
//! of zones) pointer copies, done by the keeper.

use crate::acl::{Access, Prefix};
use crate::clients::Clients;
use crate::cookie::Secrets;
use crate::rate_limit::RateLimit;
use crate::select::{LANES, Selections, lane};
use crate::tap::Tap;
use crate::zone::{History, Large, Zone};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use wire::name::{self, Name};
use wire::tsig::Keyring;

/// State of a zone: whether it can be answered from. Clients get SERVFAIL in all but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// Data is there and valid.
    Ok,
    /// Never loaded, or a region whose members are not complete yet.
    NotReady,
    /// Not refreshed for longer than the SOA's expire time (RFC 1034 section 4.3.5).
    Expired,
}

impl State {
    /// All states, for metrics.
    pub const ALL: [State; 3] = [State::Ok, State::NotReady, State::Expired];

    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// Names by which the server identifies itself (`hostname.bind`, `version.bind`, NSID).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub version: String,
}

impl Identity {
    /// The NSID option's bytes (RFC 5001), which always fit beside a question in 512 octets.
    pub fn nsid(&self) -> &[u8] {
        &self.name.as_bytes()[..self.name.len().min(128)]
    }
}

/// Rules for transfers of a zone to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// Clients that may transfer the zone.
    pub access: Access,
    /// True if differences may be sent (IXFR), false for the whole zone only.
    pub ixfr: bool,
}

/// Answer of a zone for names that it does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// NXDOMAIN with the zone's SOA.
    #[default]
    NxDomain,
    /// REFUSED, as Binder does, so that resolvers try their next server (`docs/binder.md` 9). Answers of such a zone
    /// have compressed SRV targets, too, so that they have as much room as Binder's.
    Refused,
}

/// Numbers of answers that a zone gave, by kind. Threads count in lanes of their own.
#[derive(Default)]
pub struct Tally([Lane; LANES]);

/// The counters of a thread, or of some; as large as the unit in which processors pass memory on.
#[derive(Default)]
#[repr(align(64))]
struct Lane([AtomicU64; Tally::KINDS.len() + 1]);

impl Tally {
    /// Kinds that are told apart: these response codes (RFC 1035 section 4.1.1), and all others.
    pub const KINDS: [&'static str; 4] = ["NOERROR", "SERVFAIL", "NXDOMAIN", "other"];

    /// Counts an answer.
    pub fn count(&self, rcode: u16) {
        let kind = match rcode {
            0 => 0,
            2 => 1,
            3 => 2,
            _ => 3,
        };
        self.add(kind);
    }

    /// Counts a set that fits no message, so that an answer has only a part of it.
    pub fn count_part(&self) {
        self.add(Tally::KINDS.len());
    }

    /// Counts in this thread's lane.
    fn add(&self, kind: usize) {
        self.0[lane() % LANES].0[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// The sums, in the order of the kinds.
    pub fn read(&self) -> [u64; Tally::KINDS.len()] {
        std::array::from_fn(|kind| self.sum(kind))
    }

    /// The number of answers that had a part of a set only.
    pub fn parts(&self) -> u64 {
        self.sum(Tally::KINDS.len())
    }

    /// The sum of all lanes.
    fn sum(&self, kind: usize) -> u64 {
        self.0.iter().map(|lane| lane.0[kind].load(Ordering::Relaxed)).sum()
    }
}

/// One zone as clients see it.
#[derive(Clone)]
pub struct Served {
    /// The origin; for a hidden zone the name that it is kept under.
    pub origin: Name,
    pub state: State,
    /// The data; kept while expired, so that the zone comes back from a difference. Served only in `State::Ok`.
    pub zone: Option<Arc<Zone>>,
    /// The way from older versions to the data.
    pub history: History,
    pub outgoing: Arc<Outgoing>,
    pub unknown: Unknown,
    /// What answers have of large sets; made for the very version in `zone`.
    pub selections: Selections,
    /// Counts of the answers to questions that led here; the same from one version to the next.
    pub tally: Arc<Tally>,
}

impl Served {
    /// A zone without a past, which nobody may transfer.
    pub fn new(origin: Name, state: State, zone: Option<Arc<Zone>>) -> Served {
        Served {
            origin,
            state,
            zone,
            history: History::default(),
            outgoing: Arc::default(),
            unknown: Unknown::default(),
            selections: Selections::default(),
            tally: Arc::default(),
        }
    }

    /// The data, when it may be answered from.
    pub fn answerable(&self) -> Option<&Zone> {
        self.zone.as_deref().filter(|_| self.state == State::Ok)
    }

    /// Numbers of sets of which an answer may be over each limit.
    pub fn large_in_answers(&self) -> Large {
        let large = self.zone.as_ref().map(|zone| zone.sizes.large()).unwrap_or_default();
        large.without(self.selections.kept())
    }
}

/// Everything that is served, replaced whole and never edited.
#[derive(Default)]
pub struct Published {
    pub identity: Identity,
    /// The keys that requests may be signed with.
    pub keys: Arc<Keyring>,
    /// Resolvers whose word on the subnets of their clients is believed.
    pub subnet_from: Arc<[Prefix]>,
    /// Whose clients are whose.
    pub clients: Arc<Clients>,
    /// Secrets of server cookies; none if cookies are not answered.
    pub cookies: Option<Arc<Secrets>>,
    pub rate_limit: Arc<RateLimit>,
    /// Who gets copies of queries and responses; none if nobody does.
    pub tap: Option<Arc<Tap>>,
    zones: HashMap<Name, Arc<Served>, BuildHasherDefault<OriginHasher>>,
    /// Zones that no client reaches: parts of which zones of several members are made.
    hidden: HashMap<Name, Arc<Served>>,
    /// The lengths that origins have, in octets, a bit for each, so that only those suffixes are looked up.
    lengths: [u64; 4],
    /// True if some zone has answers that are not whole sets.
    pub has_selections: bool,
    /// Counts publications; every reader that sees a number has seen all changes up to it.
    pub generation: u64,
}

impl Published {
    /// Collects zones under a generation number, without keys.
    pub fn new(identity: Identity, zones: impl IntoIterator<Item = Arc<Served>>, generation: u64) -> Published {
        let zones: HashMap<_, _, _> = zones.into_iter().map(|served| (served.origin.clone(), served)).collect();
        let mut lengths = [0; 4];
        zones.keys().for_each(|origin| lengths[origin.as_wire().len() / 64] |= 1 << (origin.as_wire().len() % 64));
        let has_selections = zones.values().any(|served| !served.selections.is_empty());
        Published {
            identity,
            keys: Arc::default(),
            subnet_from: [].into(),
            clients: Arc::default(),
            cookies: None,
            rate_limit: Arc::default(),
            tap: None,
            zones,
            hidden: HashMap::new(),
            lengths,
            has_selections,
            generation,
        }
    }

    /// The next root: these zones in place of those with their origins, and all others as they are.
    pub fn with(&self, replaced: impl IntoIterator<Item = Arc<Served>>, generation: u64) -> Published {
        let (mut zones, mut hidden, mut has_selections) = (self.zones.clone(), self.hidden.clone(), false);
        for served in replaced {
            if let Some(before) = hidden.get_mut(&served.origin) {
                *before = served;
            } else {
                has_selections |= !served.selections.is_empty();
                zones.insert(served.origin.clone(), served);
            }
        }
        Published {
            identity: self.identity.clone(),
            keys: self.keys.clone(),
            subnet_from: self.subnet_from.clone(),
            clients: self.clients.clone(),
            cookies: self.cookies.clone(),
            rate_limit: self.rate_limit.clone(),
            tap: self.tap.clone(),
            zones,
            hidden,
            lengths: self.lengths,
            has_selections,
            generation,
        }
    }

    /// The zone with the longest origin that the name (lowercase wire form) is within.
    pub fn find(&self, wire: &[u8]) -> Option<&Served> {
        let mut suffix = wire;
        loop {
            if self.lengths[suffix.len() / 64] >> (suffix.len() % 64) & 1 == 1
                && let Some(served) = self.zones.get(suffix)
            {
                return Some(served);
            }
            suffix = name::parent(suffix)?;
        }
    }

    /// Takes in zones that no client reaches.
    pub fn hide(&mut self, zones: impl IntoIterator<Item = Arc<Served>>) {
        self.hidden.extend(zones.into_iter().map(|served| (served.origin.clone(), served)));
    }

    /// The zone with exactly this origin, or the hidden one of this name.
    pub fn get(&self, origin: &Name) -> Option<&Arc<Served>> {
        self.zones.get(origin).or_else(|| self.hidden.get(origin))
    }

    /// The zone with exactly this origin, if clients reach it.
    pub fn reached(&self, origin: &Name) -> Option<&Arc<Served>> {
        self.zones.get(origin)
    }

    /// All zones, hidden ones among them, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.zones.values().chain(self.hidden.values())
    }

    /// All zones that clients reach, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.zones.values()
    }
}

/// Hashes origins. They come from the configuration, so it need not be hard to foresee.
#[derive(Default)]
struct OriginHasher(u64);

impl Hasher for OriginHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        self.write_u64(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Any odd number with bits all over; the upper half of a product depends on most of its factors.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The pointer to the current root.
#[derive(Default)]
pub struct Publisher {
    root: ArcSwap<Published>,
    changes: watch::Sender<u64>,
}

impl Publisher {
    /// Takes the current root.
    pub fn load(&self) -> Arc<Published> {
        self.root.load_full()
    }

    /// The pointer itself, for a reader that caches the root between batches.
    pub fn pointer(&self) -> &ArcSwap<Published> {
        &self.root
    }

    /// Replaces the root and returns the old one. Only the keeper calls this.
    pub fn publish(&self, root: impl Into<Arc<Published>>) -> Arc<Published> {
        let root = root.into();
        let generation = root.generation;
        let old = self.root.swap(root);
        self.changes.send_replace(generation);
        old
    }

    /// Tells of publications, for whoever waits for them; the number is the generation of the newest.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(origins: &[&str]) -> Published {
        let served = |origin: &&str| Arc::new(Served::new(Name::parse(origin).unwrap(), State::NotReady, None));
        Published::new(Identity::default(), origins.iter().map(served), 1)
    }

    fn found(published: &Published, name: &str) -> Option<String> {
        published.find(Name::parse(name).unwrap().as_wire()).map(|served| served.origin.to_string())
    }

    #[test]
    fn the_longest_origin_wins() {
        let published = published(&["example.com", "us-west.cns.example.com", "us-west-1.cns.example.com"]);
        assert_eq!(found(&published, "a.us-west.cns.example.com").as_deref(), Some("us-west.cns.example.com."));
        assert_eq!(found(&published, "us-west-1.cns.example.com").as_deref(), Some("us-west-1.cns.example.com."));
        assert_eq!(found(&published, "xus-west-1.cns.example.com").as_deref(), Some("example.com."));
        assert_eq!(found(&published, "com"), None);
        assert_eq!(found(&published, "."), None);
        assert_eq!(found(&Published::default(), "com"), None);
    }

    #[test]
    fn a_root_zone_holds_everything() {
        let published = published(&[".", "com"]);
        assert_eq!(found(&published, "example.org").as_deref(), Some("."));
        assert_eq!(found(&published, "example.com").as_deref(), Some("com."));
        assert_eq!(found(&published, ".").as_deref(), Some("."));
    }
}
