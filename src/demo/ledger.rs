//! Ledger of the demonstration: the changes that the region followed, the time that it took, and the faults.
//!
//! It compares what DNS answers with what the model expects, and decides whether the demonstration worked. It knows
//! neither sockets nor clocks: times are given, counted from the beginning of the run.
//!
//! Invariants: at most one change is open; each fault is told once; a change that is still open when the run ends
//! early is neither followed nor missed.
//!
//! Cost: O(records of the answer) for an observation.

use super::client::Answer;
use super::steering::{Served, Steering};
use std::time::Duration;
use wire::serial::Serial;

/// Answer that the aggregator should give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub answer: Answer,
    /// The serial of each datacenter's zone, as the aggregator serves it.
    pub served: Vec<Serial>,
    /// Answer of each datacenter by itself, which clients that it serves should get.
    pub clients: Vec<Answer>,
}

/// Answer that the aggregator gave in one round of questions.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Answer of the region; none if one of the questions failed.
    pub answer: Option<Answer>,
    pub region: Option<Serial>,
    pub served: Vec<Option<Serial>>,
    /// What the client of each datacenter got; none if its question failed.
    pub clients: Vec<Option<ClientAnswer>>,
    /// Questions asked.
    pub asked: usize,
    /// Questions that failed, and how.
    pub failed: Vec<String>,
}

/// Answer that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAnswer {
    pub answer: Answer,
    /// The datacenters that have its addresses.
    pub by: Served,
}

/// What an observation shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The open change is answered.
    Followed { latency: Duration },
    /// A client was led where it should be, as described.
    Steered(String),
    /// The region is wrong, as described.
    Fault(String),
}

/// A change that the region has not followed yet.
#[derive(Clone, Debug)]
struct Open {
    what: String,
    made: Duration,
    /// The region's serial before the change.
    before: Option<Serial>,
}

/// A time during which a datacenter could not be reached.
#[derive(Clone, Debug)]
struct Outage {
    site: String,
    began: Duration,
    lasted: Option<Duration>,
    asked: usize,
    failed: usize,
    /// Answer that the region must give throughout the outage.
    kept: Answer,
}

/// The ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    patience: Duration,
    open: Option<Open>,
    /// True if the region was as expected at the last observation.
    settled: bool,
    /// The last region serial that was seen.
    region: Option<Serial>,
    made: usize,
    latencies: Vec<Duration>,
    asked: usize,
    unanswered: usize,
    outages: Vec<Outage>,
    /// The clients of the datacenters.
    pub steering: Steering,
    /// The faults so far, in words.
    pub faults: Vec<String>,
}

impl Ledger {
    /// Starts an empty ledger, after the region was seen as expected; a change may take so long to be followed.
    pub fn new(patience: Duration, region: Option<Serial>, steering: Steering) -> Ledger {
        Ledger { patience, settled: true, region, steering, ..Ledger::default() }
    }

    /// Notes a change that the region should follow.
    pub fn begin_change(&mut self, what: String, now: Duration) {
        self.made += 1;
        self.open = Some(Open { what, made: now, before: self.region });
    }

    /// Notes that a datacenter cannot be reached from now on; `kept` is what the region must still answer of it.
    pub fn begin_outage(&mut self, site: String, kept: Answer, now: Duration) {
        self.outages.push(Outage { site, began: now, lasted: None, asked: 0, failed: 0, kept });
    }

    /// Notes that the datacenter is back.
    pub fn end_outage(&mut self, now: Duration) {
        if let Some(outage) = self.outages.last_mut() {
            outage.lasted.get_or_insert(now.saturating_sub(outage.began));
        }
    }

    /// Returns true if a change waits to be followed, or a client to be led elsewhere.
    pub fn is_open(&self) -> bool {
        self.open.is_some() || !self.steering.is_settled()
    }

    /// Returns the time at which the waiting change was made.
    pub fn open_since(&self) -> Option<Duration> {
        self.open.as_ref().map(|open| open.made)
    }

    /// Changes made and changes followed.
    pub fn counts(&self) -> (usize, usize) {
        (self.made, self.latencies.len())
    }

    /// Returns true if nothing has gone wrong so far.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Compares an observation with the expected answer; returns all results of that.
    pub fn judge(&mut self, now: Duration, expected: &Expected, observed: &Observed) -> Vec<Judgement> {
        let mut outcomes = Vec::new();
        let before = self.faults.len();
        self.count(observed);
        let missing = describe_missing(expected, observed);
        match &self.open {
            Some(open) => {
                let is_newer = match (observed.region, open.before) {
                    (Some(serial), Some(before)) => serial.newer_than(before),
                    (serial, _) => serial.is_some(),
                };
                let latency = now.saturating_sub(open.made);
                if missing.is_none() && is_newer && latency <= self.patience {
                    self.open = None;
                    self.settled = true;
                    self.latencies.push(latency);
                    outcomes.push(Judgement::Followed { latency });
                } else if latency > self.patience {
                    let why = missing.unwrap_or_else(|| {
                        if is_newer { "it came too late".into() } else { "the region's serial did not rise".into() }
                    });
                    let patience = self.patience.as_secs_f64();
                    self.faults.push(format!("{}: not followed within {patience} s: {why}", open.what));
                    self.open = None;
                    self.settled = false;
                }
            }
            None => match missing {
                // Questions that failed are told by themselves.
                Some(why) if self.settled && observed.failed.is_empty() => {
                    self.faults.push(format!("the answer changed although nothing had happened: {why}"));
                    self.settled = false;
                }
                Some(_) => {}
                None => self.settled = true,
            },
        }
        self.region = observed.region.or(self.region);
        let clients: Vec<_> = observed.clients.iter().map(|client| client.as_ref().map(|client| &client.by)).collect();
        outcomes.extend(self.steering.judge(now, &clients, &mut self.faults).into_iter().map(Judgement::Steered));
        outcomes.extend(self.faults[before..].iter().cloned().map(Judgement::Fault));
        outcomes
    }

    /// Counts questions, and watches what must not fail during an outage.
    fn count(&mut self, observed: &Observed) {
        self.asked += observed.asked;
        if self.unanswered == 0 && !observed.failed.is_empty() {
            self.faults.push(format!("a query failed: {}", observed.failed.join("; ")));
        }
        self.unanswered += observed.failed.len();
        let Some(outage) = self.outages.last_mut().filter(|outage| outage.lasted.is_none()) else { return };
        outage.asked += observed.asked;
        let lost = observed.answer.as_ref().map(|answer| answer.lacks(&outage.kept)).unwrap_or_default();
        if !lost.is_empty() && outage.failed == 0 {
            let site = &outage.site;
            self.faults.push(format!("while {site} was away the region lost {}", lost.join(", ")));
        }
        outage.failed += observed.failed.len() + usize::from(!lost.is_empty());
    }

    /// The result of the run, a line each.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut latencies = self.latencies.clone();
        latencies.sort();
        let (made, followed) = self.counts();
        let mut line = format!("{made} changes made, {followed} followed");
        if let (Some(slowest), Some(median)) = (latencies.last(), latencies.get(followed / 2)) {
            line += &format!("; median {} ms, slowest {} ms", median.as_millis(), slowest.as_millis());
        }
        lines.push(line);
        for outage in &self.outages {
            let Outage { site, lasted, asked, failed, .. } = outage;
            let lasted = lasted.map_or("until the end".into(), |lasted| format!("for {:.1} s", lasted.as_secs_f64()));
            let result = match failed {
                0 => "all answered from the last good copy".to_string(),
                failed => format!("{failed} not answered, or without its last good copy"),
            };
            lines.push(format!("{site} was away {lasted}: {asked} queries, {result}"));
        }
        lines.extend(self.steering.summary(self.is_clean()));
        lines.push(format!("{} queries over UDP in total, {} without an answer", self.asked, self.unanswered));
        lines
    }
}

/// Describes the difference between an observation and the expected answer; none if there is none.
pub fn describe_missing(expected: &Expected, observed: &Observed) -> Option<String> {
    let Some(answer) = &observed.answer else {
        return Some(format!("no usable answer ({})", observed.failed.join("; ")));
    };
    let mut parts = Vec::new();
    let compare = |parts: &mut Vec<String>, what: &str, answer: &Answer, wanted: &Answer| {
        let (lacks, extra) = (answer.lacks(wanted), wanted.lacks(answer));
        if !lacks.is_empty() {
            parts.push(format!("{what} lacks {}", lacks.join(", ")));
        }
        if !extra.is_empty() {
            parts.push(format!("{what} still has {}", extra.join(", ")));
        }
    };
    compare(&mut parts, "the answer", answer, &expected.answer);
    // Clients lack what the region lacks.
    let clients = if parts.is_empty() { &observed.clients[..] } else { &[] };
    for client in clients.iter().flatten() {
        let mut wanted = Answer::default();
        client.by.iter().filter_map(|site| expected.clients.get(*site)).for_each(|answer| wanted.extend(answer));
        compare(&mut parts, "the answer to a client", &client.answer, &wanted);
    }
    for (wanted, served) in expected.served.iter().zip(&observed.served) {
        if Some(*wanted) != *served {
            let served = served.map_or("no serial".to_string(), |serial| format!("serial {serial}"));
            parts.push(format!("a datacenter's zone is served with {served} and not with {wanted}"));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests;
