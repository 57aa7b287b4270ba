//! Counters of queries: blocks owned by one thread each, summed when scraped.
//!
//! A block is written by its UDP thread alone, without a locked instruction; streams share a block. A block whose
//! thread has ended leaves its sums behind.
//!
//! Cost: a query adds to five counters, or up to seven; a sum is O(threads).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Response codes that have a counter of their own; the last slot takes all others.
pub const RCODES: [&str; 17] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "RCODE7", "RCODE8", "NOTAUTH",
    "RCODE10", "RCODE11", "RCODE12", "RCODE13", "RCODE14", "RCODE15", "BADVERS",
];

/// Transport over which queries arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
    Tls,
}

/// Transports in the order of their counters.
pub const TRANSPORTS: [&str; 3] = ["udp", "tcp", "tls"];

/// Reasons for which a message gets no response: it is shorter than a header, or a response itself.
pub(super) const DROPPED: [&str; 2] = ["short", "response"];

/// Classes of responses whose rates are limited, and connections.
pub const CLASSES: [&str; 6] = ["answer", "nodata", "nxdomain", "referral", "error", "connection"];

/// What cookies show, in the order of `wire::message::ShownCookie`.
pub const COOKIES: [&str; 3] = ["client", "valid", "invalid"];

/// Types that have a counter of their own, by their numbers; the last slot of the counters takes all others.
const OWN_TYPES: [(u16, &str); 17] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (35, "NAPTR"),
    (43, "DS"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
];

/// The labels of types, in the order of their counters.
pub(super) const TYPES: [&str; OWN_TYPES.len() + 1] = {
    let mut labels = ["other"; OWN_TYPES.len() + 1];
    let mut slot = 0;
    while slot < OWN_TYPES.len() {
        labels[slot] = OWN_TYPES[slot].1;
        slot += 1;
    }
    labels
};

/// The slot of each type below 256.
const TYPE_SLOTS: [u8; 256] = {
    let mut slots = [OWN_TYPES.len() as u8; 256];
    let mut slot = 0;
    while slot < OWN_TYPES.len() {
        slots[OWN_TYPES[slot].0 as usize] = slot as u8;
        slot += 1;
    }
    slots
};

/// Classes of sizes: up to 64 octets, up to twice as many, and so on up to the longest message.
pub(super) const SIZES: usize = 11;

/// The largest size of a class, in octets.
pub(super) fn size_bound(class: usize) -> u64 {
    64 << class
}

/// The class of a size.
fn size_class(octets: usize) -> usize {
    let halvings = (octets.saturating_sub(1) >> 6).checked_ilog2().map_or(0, |halvings| halvings as usize + 1);
    halvings.min(SIZES - 1)
}

/// A query and its response, as they are counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub transport: Transport,
    /// The type that was asked for; none without a question that can be read.
    pub rtype: Option<u16>,
    pub rcode: u16,
    /// Octets of the response; none for a transfer, which has many messages.
    pub octets: Option<usize>,
    pub truncated: bool,
}

/// Counters of queries. Any thread may read them.
#[derive(Default)]
pub struct QueryCounters {
    queries: [AtomicU64; TRANSPORTS.len()],
    responses: [AtomicU64; RCODES.len()],
    types: [AtomicU64; TYPES.len()],
    sizes: [AtomicU64; SIZES],
    octets: AtomicU64,
    truncated: AtomicU64,
    dropped: [AtomicU64; DROPPED.len()],
    limited: [AtomicU64; CLASSES.len()],
    cookies: [AtomicU64; COOKIES.len()],
}

impl QueryCounters {
    /// Counts a query and its response; for the thread that owns the block.
    pub fn count(&self, counted: Counted) {
        self.chosen(counted).into_iter().flatten().for_each(|counter| add(counter, 1));
        add(&self.octets, counted.octets.unwrap_or_default() as u64);
    }

    /// Counts a message that gets no response; for the thread that owns the block.
    pub fn count_dropped(&self, request: &[u8]) {
        add(self.dropped_as(request), 1);
    }

    /// Counts a response that was over its limit, by its class; for the thread that owns the block.
    pub fn count_limited(&self, class: usize) {
        self.limited.get(class).into_iter().for_each(|counter| add(counter, 1));
    }

    /// Counts what the cookies of a query show; for the thread that owns the block.
    pub fn count_cookie(&self, shown: usize) {
        self.cookies.get(shown).into_iter().for_each(|counter| add(counter, 1));
    }

    /// Counts a query and its response in a block that several threads share.
    pub fn count_shared(&self, counted: Counted) {
        for counter in self.chosen(counted).into_iter().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.octets.fetch_add(counted.octets.unwrap_or_default() as u64, Ordering::Relaxed);
    }

    /// Counts a message that gets no response in a block that several threads share.
    pub fn count_dropped_shared(&self, request: &[u8]) {
        self.dropped_as(request).fetch_add(1, Ordering::Relaxed);
    }

    /// The counter for a message that gets no response: shorter than a header, or itself a response.
    fn dropped_as(&self, request: &[u8]) -> &AtomicU64 {
        &self.dropped[usize::from(request.len() >= 12)]
    }

    /// The counters that one query moves.
    fn chosen(&self, counted: Counted) -> [Option<&AtomicU64>; 5] {
        let Counted { transport, rtype, rcode, octets, truncated } = counted;
        let slot = TYPE_SLOTS.get(usize::from(rtype.unwrap_or(u16::MAX))).copied().map_or(OWN_TYPES.len(), usize::from);
        [
            Some(&self.queries[transport as usize]),
            Some(&self.responses[usize::from(rcode).min(RCODES.len() - 1)]),
            Some(&self.types[slot]),
            octets.map(|octets| &self.sizes[size_class(octets)]),
            truncated.then_some(&self.truncated),
        ]
    }

    /// Pairs every counter of two blocks.
    fn each<'a>(&'a self, other: &'a QueryCounters) -> impl Iterator<Item = (&'a AtomicU64, &'a AtomicU64)> {
        let all = |block: &'a QueryCounters| {
            let counters = block.queries.iter().chain(&block.responses).chain(&block.dropped);
            let counters = counters.chain(&block.types).chain(&block.sizes);
            counters.chain(&block.limited).chain(&block.cookies).chain([&block.truncated, &block.octets])
        };
        all(self).zip(all(other))
    }
}

/// Adds to a counter that this thread alone writes: a plain load and store, no locked instruction.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Numbers of queries and responses since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryTotals {
    /// Queries by transport.
    pub queries: [u64; TRANSPORTS.len()],
    /// Responses by response code.
    pub responses: [u64; RCODES.len()],
    /// Queries by type.
    pub types: [u64; TYPES.len()],
    /// Responses by class of size.
    pub sizes: [u64; SIZES],
    /// Octets of all responses.
    pub octets: u64,
    /// Responses sent with the TC bit.
    pub truncated: u64,
    /// Messages that got no response, by reason.
    pub dropped: [u64; DROPPED.len()],
    /// Responses over their limit, by class.
    pub limited: [u64; CLASSES.len()],
    /// Queries with cookies, by what these show.
    pub cookies: [u64; COOKIES.len()],
}

/// The blocks of all threads; the first belongs to no thread.
pub(super) struct QueryBlocks(Mutex<Vec<Arc<QueryCounters>>>);

impl Default for QueryBlocks {
    fn default() -> QueryBlocks {
        QueryBlocks(Mutex::new(vec![Arc::default()]))
    }
}

impl QueryBlocks {
    /// Adds a block of counters for one thread.
    pub(super) fn add(&self) -> Arc<QueryCounters> {
        let block = Arc::new(QueryCounters::default());
        self.lock().push(block.clone());
        block
    }

    /// Sums all blocks, and holds them until the sums are used.
    pub(super) fn with_totals<T>(&self, take: impl FnOnce(&QueryTotals) -> T) -> T {
        let mut blocks = self.lock();
        let total = sum(&mut blocks);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        take(&QueryTotals {
            queries: total.queries.each_ref().map(load),
            responses: total.responses.each_ref().map(load),
            types: total.types.each_ref().map(load),
            sizes: total.sizes.each_ref().map(load),
            octets: load(&total.octets),
            truncated: load(&total.truncated),
            dropped: total.dropped.each_ref().map(load),
            limited: total.limited.each_ref().map(load),
            cookies: total.cookies.each_ref().map(load),
        })
    }

    /// The blocks, for a moment.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<QueryCounters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sums all blocks; those whose thread has ended are folded into the first, which has no thread.
fn sum(blocks: &mut Vec<Arc<QueryCounters>>) -> QueryCounters {
    let total = QueryCounters::default();
    for block in blocks.iter() {
        total.each(block).for_each(|(sum, value)| add(sum, value.load(Ordering::Relaxed)));
    }
    let (ended, running): (Vec<_>, Vec<_>) = blocks.drain(1..).partition(|block| Arc::strong_count(block) == 1);
    for block in ended {
        blocks[0].each(&block).for_each(|(sum, value)| add(sum, value.load(Ordering::Relaxed)));
    }
    blocks.extend(running);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_the_class_below_whose_bound_it_is() {
        for octets in 0..=70_000usize {
            let class = size_class(octets);
            let is_within = octets as u64 <= size_bound(class) || class == SIZES - 1;
            assert!(is_within && (class == 0 || octets as u64 > size_bound(class - 1)), "{octets} in {class}");
        }
        assert_eq!(size_bound(SIZES - 1), 65_536);
    }

    #[test]
    fn types_have_their_own_slots_or_the_last() {
        let counters = QueryCounters::default();
        let count = |rtype| {
            counters.count(Counted { transport: Transport::Udp, rtype, rcode: 0, octets: Some(100), truncated: false });
        };
        [Some(1), Some(28), Some(28), Some(255), Some(256), Some(65280), Some(3), None].into_iter().for_each(count);
        let read = counters.types.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        let told: Vec<(&str, u64)> = TYPES.into_iter().zip(read).filter(|(_, count)| *count > 0).collect();
        assert_eq!(told, [("A", 1), ("AAAA", 2), ("ANY", 1), ("other", 4)]);
        assert_eq!(counters.octets.load(Ordering::Relaxed), 800);
    }
}
