//! Copies of queries and responses, for those who watch: dnstap to a collector, and a query log.
//!
//! ```text
//!  serving threads ──bundles of frames──► queue ──► collector (one task) ──Frame Streams──► socket
//!                  └─lines─────────────────────────────────────────────────► the log's own queue
//! ```
//!
//! Whoever answers hands its exchanges over when the responses have been sent ([`Tap::take`]). What is wanted of them is
//! made into frames there and put into a queue of `QUEUE` bundles; if the collector does not keep up, or is not there,
//! bundles are dropped and counted. Lines of the query log are as many in a second as the configuration allows, so that a
//! flood does not drive other lines out of the log.
//!
//! **A share of the exchanges.** Where one in so many is wanted, each has its chance by its number, scrambled: clients that
//! ask in turns, say for A and AAAA, would be seen with one of the two if it were every second.
//!
//! **Its life.** A tap is part of the published root, so a reload that changes it reaches all threads at once, and one that
//! does not leaves it, with its connection, as it is. When nobody has it any more the collector gets what is in the queue
//! and an end in order; at the end of the process [`Tap::end`] sees to that.
//!
//! Invariants: nobody who answers waits for a collector or a log; a query of which copies are wanted is answered first.
//! Cost: none without a tap but the look whether there is one, once a batch of datagrams; with one O(octets) of what is
//! taken, and an allocation for each field.
//!
//! RFCs: none; dnstap and Frame Streams are published by their authors.

mod collector;
mod frames;
mod message;

use crate::acl::Prefix;
use crate::metrics::{Metrics, RCODES, TRANSPORTS, Transport};
use message::{Speaker, add_query, add_response};
use prometheus::IntCounter;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};
use wire::message::Question;
use wire::rr::TypeName;

/// Bundles that wait for the collector at most. One has the exchanges of a batch of datagrams, or one over a connection: of
/// ordinary queries all of them are 2 MiB, and 64 MiB if each has the longest message in both directions.
const QUEUE: usize = 512;
/// Time for which the end of the process waits for the collector.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// What is copied, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapPlan {
    /// None if there is no collector.
    pub dnstap: Option<DnstapPlan>,
    /// None if no query is logged.
    pub query_log: Option<QueryLogPlan>,
}

/// What a collector gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnstapPlan {
    pub collector: Collector,
    pub messages: Messages,
    /// One exchange in so many is taken.
    pub one_in: u32,
}

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collector {
    /// A Unix socket.
    Socket(PathBuf),
    /// TCP.
    Address(SocketAddr),
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Collector::Socket(path) => path.display().fmt(f),
            Collector::Address(address) => address.fmt(f),
        }
    }
}

/// Messages that a collector gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Messages {
    #[default]
    All,
    Queries,
    Responses,
}

/// Which queries have a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLogPlan {
    /// One exchange in so many is taken.
    pub one_in: u32,
    /// Clients whose queries are taken; all if there are none.
    pub clients: Vec<Prefix>,
    /// Lines that are written in one second at most.
    pub lines_per_second: u32,
}

/// A query and the response to it.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    pub transport: Transport,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port that the client has sent to.
    pub server: SocketAddr,
    /// When the query came.
    pub received: SystemTime,
    pub query: &'a [u8],
    /// Empty if there was none, or the messages of a transfer.
    pub response: &'a [u8],
}

/// Takes copies of exchanges.
pub struct Tap {
    plan: TapPlan,
    speaker: Speaker,
    /// Bundles of data frames for the collector, each with the number of its messages.
    queue: Option<mpsc::Sender<Bundle>>,
    /// Set for the end of the process.
    ending: watch::Sender<bool>,
    /// Closes when the collector's task has ended.
    ended: watch::Receiver<()>,
    taken: AtomicU64,
    /// The second in which lines were written last, since 1970, and how many.
    lines: AtomicU64,
    dropped: IntCounter,
    suppressed: IntCounter,
}

/// Data frames with their lengths, and how many there are.
#[derive(Default)]
struct Bundle {
    frames: Vec<u8>,
    messages: u64,
}

/// Starts what a plan wants, none if that is nothing. What runs and is to be the same goes on.
pub fn start(
    plan: &TapPlan,
    identity: &str,
    version: &str,
    running: Option<&Arc<Tap>>,
    metrics: &Arc<Metrics>,
) -> Option<Arc<Tap>> {
    if *plan == TapPlan::default() {
        return None;
    }
    let speaker = Speaker { identity: identity.to_owned(), version: version.to_owned() };
    if let Some(running) = running.filter(|running| running.plan == *plan && running.speaker == speaker) {
        return Some(running.clone());
    }
    let (ending, is_ending) = watch::channel(false);
    let (end, ended) = watch::channel(());
    let queue = plan.dnstap.as_ref().map(|dnstap| {
        let (queue, bundles) = mpsc::channel(QUEUE);
        let collector = dnstap.collector.clone();
        let metrics = metrics.clone();
        tokio::spawn(async move {
            collector::feed(collector, bundles, is_ending, &metrics).await;
            drop(end);
        });
        queue
    });
    Some(Arc::new(Tap {
        plan: plan.clone(),
        speaker,
        queue,
        ending,
        ended,
        taken: AtomicU64::default(),
        lines: AtomicU64::default(),
        dropped: metrics.dnstap_messages.with_label_values(&["dropped"]),
        suppressed: metrics.query_log_suppressed.clone(),
    }))
}

impl Tap {
    /// Takes what is wanted of exchanges whose responses have just been sent.
    pub fn take<'a>(&self, exchanges: impl Iterator<Item = Exchange<'a>>) {
        let mut bundle = Bundle::default();
        let mut sent = None;
        for exchange in exchanges {
            let number = self.taken.fetch_add(1, Relaxed);
            if let Some(plan) = self.plan.dnstap.as_ref().filter(|plan| is_chosen(number, plan.one_in)) {
                let sent = *sent.get_or_insert_with(SystemTime::now);
                self.copy(plan, &exchange, sent, &mut bundle);
            }
            if let Some(plan) = self.plan.query_log.as_ref().filter(|plan| is_chosen(number, plan.one_in)) {
                self.log(plan, &exchange);
            }
        }
        if let Some(queue) = self.queue.as_ref().filter(|_| bundle.messages > 0)
            && let Err(full) = queue.try_send(bundle)
        {
            self.dropped.inc_by(full.into_inner().messages);
        }
    }

    /// Adds the messages of an exchange to a bundle.
    fn copy(&self, plan: &DnstapPlan, exchange: &Exchange<'_>, sent: SystemTime, bundle: &mut Bundle) {
        if plan.messages != Messages::Responses {
            add_query(&self.speaker, exchange, &mut bundle.frames);
            bundle.messages += 1;
        }
        if plan.messages != Messages::Queries && !exchange.response.is_empty() {
            add_response(&self.speaker, exchange, sent, &mut bundle.frames);
            bundle.messages += 1;
        }
    }

    /// Logs an exchange.
    fn log(&self, plan: &QueryLogPlan, exchange: &Exchange<'_>) {
        let address = exchange.client.ip();
        if !plan.clients.is_empty() && !plan.clients.iter().any(|prefix| prefix.contains(address)) {
            return;
        }
        if !self.has_line(plan.lines_per_second, exchange.received) {
            return self.suppressed.inc();
        }
        let question = Question::read(exchange.query).ok();
        let name = question.as_ref().map(|(question, _)| tracing::field::display(question.name));
        let rtype = question.as_ref().map(|(question, _)| tracing::field::display(TypeName(question.rtype)));
        // The lower four bits, which is all that a header has.
        let rcode = exchange.response.get(3).map(|octet| RCODES[usize::from(octet & 15)]);
        let (client, transport) = (exchange.client, TRANSPORTS[exchange.transport as usize]);
        tracing::info!(name, rtype, %client, transport, rcode, "query");
    }

    /// Returns true if one more line may be written in this second.
    fn has_line(&self, most: u32, now: SystemTime) -> bool {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() << 32;
        let next = |lines: u64| match lines & !u64::from(u32::MAX) == second {
            false => Some(second | 1),
            true => ((lines as u32) < most).then_some(lines + 1),
        };
        self.lines.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    /// Has the collector get what waits and an end in order, for which it has a second.
    pub async fn end(&self) {
        self.ending.send_replace(true);
        let mut ended = self.ended.clone();
        // An error says that it has ended.
        let _ = tokio::time::timeout(END_PATIENCE, ended.changed()).await;
    }
}

/// Returns true if the exchange with a number is one of those, one in so many, that are taken.
fn is_chosen(number: u64, one_in: u32) -> bool {
    // The finalizer of SplitMix64: neighbours have nothing in common.
    let mut scrambled = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    scrambled = (scrambled ^ scrambled >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    scrambled = (scrambled ^ scrambled >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    one_in == 1 || (scrambled ^ scrambled >> 31).is_multiple_of(u64::from(one_in))
}

#[cfg(test)]
mod tests;
