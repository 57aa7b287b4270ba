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
use std::time::Duration;
use wire::serial::Serial;

/// Answer that the aggregator should give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub answer: Answer,
    /// The serial of each datacenter's zone, as the aggregator serves it.
    pub served: Vec<Serial>,
}

/// Answer that the aggregator gave in one round of questions.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Answer of the region; none if one of the questions failed.
    pub answer: Option<Answer>,
    pub region: Option<Serial>,
    pub served: Vec<Option<Serial>>,
    /// Questions asked.
    pub asked: usize,
    /// Questions that failed, and how.
    pub failed: Vec<String>,
}

/// Result of an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The open change is answered.
    Followed { latency: Duration },
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
    /// The faults so far, in words.
    pub faults: Vec<String>,
}

impl Ledger {
    /// Starts an empty ledger, after the region was seen as expected; a change may take so long to be followed.
    pub fn new(patience: Duration, region: Option<Serial>) -> Ledger {
        Ledger { patience, settled: true, region, ..Ledger::default() }
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

    /// Returns true if a change waits to be followed.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
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
    pub fn judge(&mut self, now: Duration, expected: &Expected, observed: &Observed) -> Vec<Followed> {
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
                    outcomes.push(Followed::Followed { latency });
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
        outcomes.extend(self.faults[before..].iter().cloned().map(Followed::Fault));
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
    let (lacks, extra) = (answer.lacks(&expected.answer), expected.answer.lacks(answer));
    if !lacks.is_empty() {
        parts.push(format!("the answer lacks {}", lacks.join(", ")));
    }
    if !extra.is_empty() {
        parts.push(format!("the answer still has {}", extra.join(", ")));
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
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn answer(hosts: &[u8]) -> Answer {
        let addresses = hosts.iter().map(|host| Ipv4Addr::new(192, 0, 2, *host).into()).collect();
        Answer { addresses, ..Answer::default() }
    }

    fn expected(hosts: &[u8], serial: u32) -> Expected {
        Expected { answer: answer(hosts), served: vec![Serial(serial)] }
    }

    /// An answer with one datacenter, whose serial is that of the region.
    fn observed(hosts: &[u8], serial: u32) -> Observed {
        let serial = Some(Serial(serial));
        Observed { answer: Some(answer(hosts)), region: serial, served: vec![serial], asked: 5, failed: vec![] }
    }

    fn silent() -> Observed {
        Observed { served: vec![None], asked: 5, failed: vec!["web A: no answer".into()], ..Observed::default() }
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn ledger() -> Ledger {
        Ledger::new(millis(1000), Some(Serial(1)))
    }

    #[test]
    fn changes_that_are_followed_are_counted_with_their_latency() {
        let mut ledger = ledger();
        for (number, latency) in [(1, 900), (2, 300), (3, 500)] {
            let now = number * 10_000;
            let (old, new) = (number as u32, number as u32 + 1);
            let hosts: Vec<u8> = (0..new as u8).collect();
            ledger.begin_change(format!("change {number}"), millis(now));
            assert_eq!(ledger.judge(millis(now + 10), &expected(&hosts, new), &observed(&hosts[1..], old)), []);
            let outcomes = ledger.judge(millis(now + latency), &expected(&hosts, new), &observed(&hosts, new));
            assert_eq!(outcomes, [Followed::Followed { latency: millis(latency) }]);
            assert_eq!(ledger.judge(millis(now + 999), &expected(&hosts, new), &observed(&hosts, new)), []);
        }
        assert!(ledger.is_clean());
        assert_eq!(ledger.summary()[0], "3 changes made, 3 followed; median 500 ms, slowest 900 ms");
    }

    #[test]
    fn a_region_that_does_not_follow_is_a_fault_that_says_what_is_missing() {
        let mut ledger = ledger();
        ledger.begin_change("scale up".into(), millis(0));
        assert_eq!(ledger.judge(millis(1000), &expected(&[1, 2], 2), &observed(&[1, 3], 1)), []);
        let outcomes = ledger.judge(millis(1001), &expected(&[1, 2], 2), &observed(&[1, 3], 1));
        let fault = "scale up: not followed within 1 s: the answer lacks 192.0.2.2; the answer still has 192.0.2.3; \
                     a datacenter's zone is served with serial 1 and not with 2";
        assert_eq!(outcomes, [Followed::Fault(fault.into())]);
        assert!(!ledger.is_clean() && !ledger.is_open());
        assert_eq!(ledger.judge(millis(1100), &expected(&[1, 2], 2), &observed(&[1, 3], 1)), [], "told once");
        assert_eq!(ledger.summary()[0], "1 changes made, 0 followed");
    }

    #[test]
    fn the_right_answer_is_not_enough() {
        let mut late = ledger();
        late.begin_change("x".into(), millis(0));
        let outcomes = late.judge(millis(1001), &expected(&[1], 2), &observed(&[1], 2));
        assert!(matches!(&outcomes[..], [Followed::Fault(why)] if why.ends_with("it came too late")), "{outcomes:?}");

        let mut still = ledger();
        still.begin_change("x".into(), millis(0));
        let unmoved = Observed { region: Some(Serial(1)), ..observed(&[1], 2) };
        assert_eq!(still.judge(millis(10), &expected(&[1], 2), &unmoved), []);
        let outcomes = still.judge(millis(1001), &expected(&[1], 2), &unmoved);
        assert!(matches!(&outcomes[..], [Followed::Fault(why)] if why.ends_with("did not rise")), "{outcomes:?}");
    }

    #[test]
    fn an_answer_that_changes_by_itself_is_a_fault() {
        let mut ledger = ledger();
        assert_eq!(ledger.judge(millis(1), &expected(&[1], 1), &observed(&[1], 1)), []);
        let outcomes = ledger.judge(millis(2), &expected(&[1], 1), &observed(&[], 1));
        assert!(
            matches!(&outcomes[..], [Followed::Fault(why)] if why.contains("nothing had happened")),
            "{outcomes:?}"
        );
    }

    #[test]
    fn an_outage_must_not_be_seen_in_the_answers() {
        let mut ledger = ledger();
        ledger.begin_outage("us-west-1".into(), answer(&[1]), millis(0));
        assert_eq!(ledger.judge(millis(1), &expected(&[1, 2], 1), &observed(&[1, 2], 1)), []);
        let mut lost = ledger.clone();
        ledger.end_outage(millis(2000));
        assert_eq!(ledger.judge(millis(2001), &expected(&[1, 2], 1), &observed(&[1, 2], 1)), []);
        assert!(ledger.is_clean());
        let good = "us-west-1 was away for 2.0 s: 5 queries, all answered from the last good copy";
        assert_eq!(ledger.summary()[1], good);

        lost.begin_change("elsewhere".into(), millis(10));
        let outcomes = lost.judge(millis(20), &expected(&[1, 3], 2), &observed(&[3], 2));
        assert_eq!(outcomes, [Followed::Fault("while us-west-1 was away the region lost 192.0.2.1".into())]);
        assert!(
            lost.summary()[1].ends_with("until the end: 10 queries, 1 not answered, or without its last good copy")
        );
    }

    #[test]
    fn queries_without_an_answer_are_a_fault() {
        let mut ledger = ledger();
        let outcomes = ledger.judge(millis(1), &expected(&[1], 1), &silent());
        assert_eq!(outcomes, [Followed::Fault("a query failed: web A: no answer".into())]);
        assert_eq!(ledger.judge(millis(2), &expected(&[1], 1), &silent()), [], "told once");
        assert_eq!(ledger.summary().last().unwrap(), "10 queries over UDP in total, 2 without an answer");
    }
}
