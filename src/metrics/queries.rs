//! Counters of queries: blocks owned by one thread each, summed when scraped.
//!
//! A block is written by its UDP thread alone, without a locked instruction; streams share a block. A block whose
//! thread has ended leaves its sums behind.
//!
//! Cost: a query adds to two or three counters; a sum is O(threads).

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

/// Counters of queries. Any thread may read them.
#[derive(Default)]
pub struct QueryCounters {
    queries: [AtomicU64; TRANSPORTS.len()],
    responses: [AtomicU64; RCODES.len()],
    truncated: AtomicU64,
    dropped: [AtomicU64; DROPPED.len()],
    limited: [AtomicU64; CLASSES.len()],
}

impl QueryCounters {
    /// Counts a query and its response; for the thread that owns the block.
    pub fn count(&self, transport: Transport, rcode: u16, truncated: bool) {
        self.chosen(transport, rcode, truncated).into_iter().flatten().for_each(|counter| add(counter, 1));
    }

    /// Counts a message that gets no response; for the thread that owns the block.
    pub fn count_dropped(&self, request: &[u8]) {
        add(self.dropped_as(request), 1);
    }

    /// Counts a response that was over its limit, by its class; for the thread that owns the block.
    pub fn count_limited(&self, class: usize) {
        self.limited.get(class).into_iter().for_each(|counter| add(counter, 1));
    }

    /// Counts a query and its response in a block that several threads share.
    pub fn count_shared(&self, transport: Transport, rcode: u16, truncated: bool) {
        for counter in self.chosen(transport, rcode, truncated).into_iter().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
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
    fn chosen(&self, transport: Transport, rcode: u16, truncated: bool) -> [Option<&AtomicU64>; 3] {
        let response = &self.responses[usize::from(rcode).min(RCODES.len() - 1)];
        [Some(&self.queries[transport as usize]), Some(response), truncated.then_some(&self.truncated)]
    }

    /// Pairs every counter of two blocks.
    fn each<'a>(&'a self, other: &'a QueryCounters) -> impl Iterator<Item = (&'a AtomicU64, &'a AtomicU64)> {
        let all = |block: &'a QueryCounters| {
            let counters = block.queries.iter().chain(&block.responses).chain(&block.dropped);
            counters.chain(&block.limited).chain([&block.truncated])
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
    /// Responses sent with the TC bit.
    pub truncated: u64,
    /// Messages that got no response, by reason.
    pub dropped: [u64; DROPPED.len()],
    /// Responses over their limit, by class.
    pub limited: [u64; CLASSES.len()],
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
            truncated: load(&total.truncated),
            dropped: total.dropped.each_ref().map(load),
            limited: total.limited.each_ref().map(load),
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
