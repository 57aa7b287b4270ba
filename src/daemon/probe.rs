//! Periodic check of the name servers of all zones from outside.
//!
//! One task goes from zone to zone, some at once where servers are slow; each zone has its own time within the period,
//! another one on each replica, so that neither zones nor replicas come all at once.
//!
//! Invariants: results are only of zones in the plan in force; a series is there while its fault is. Whether a server
//! is behind is judged by what we had a while ago, and whether it is ahead by what it had then, so that nobody is
//! blamed for the time that changes take. What is known outlives a reload until it is found out anew, so that alerts
//! wait on; and a reload that only adds or removes zones puts off no look at the others.
//!
//! Cost: as the probe's; memory O(servers × serials within `stale_after`).

use crate::config::Config;
use crate::daemon::audit::part_of;
use crate::metrics::{Metrics, unix_seconds};
use crate::probe::{ProbePlan, Prober, Problem, Reply, Target, ZoneCheck, classify};
use crate::publish::Publisher;
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::task::{AbortHandle, JoinSet};
use wire::name::Name;
use wire::serial::Serial;

/// Largest number of zones checked at once; the prober has a limit of its own for questions.
const ZONES_AT_ONCE: usize = 8;

/// Result of the last check of a zone's name servers, with its time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "NameServers")]
pub struct ProbeReport {
    #[serde(flatten)]
    pub check: ZoneCheck,
    pub asked: i64,
}

impl ProbeReport {
    /// Returns the number of faults; a check that failed itself counts as none.
    pub fn faults(&self) -> usize {
        self.check.findings().filter(|(_, finding)| finding.problem != Problem::Unknown).count()
    }
}

/// What the probe has found, for readers.
#[derive(Clone, Default)]
pub struct Results(Arc<Mutex<Known>>);

impl Results {
    /// Returns the results for all zones, or for one, in canonical order.
    pub fn report(&self, only: Option<&Name>) -> Vec<ProbeReport> {
        let known = self.0.lock();
        let wanted = known.zones.values().filter_map(|memory| memory.report.as_ref());
        let wanted = wanted.filter(|report| only.is_none_or(|only| *only == report.check.zone));
        let mut reports: Vec<ProbeReport> = wanted.cloned().collect();
        reports.sort_by(|a, b| a.check.zone.canonical_cmp(&b.check.zone));
        reports
    }
}

/// Results for all zones in the plan.
#[derive(Default)]
struct Known {
    /// Counts plans.
    generation: u64,
    zones: HashMap<Name, Memory>,
}

/// Results and readings for one zone.
#[derive(Default)]
struct Memory {
    report: Option<ProbeReport>,
    /// Earlier serials by server address; those under no address are our own.
    readings: HashMap<Option<SocketAddr>, Readings>,
    /// Time of the next check.
    due: Option<tokio::time::Instant>,
}

/// The probe, which ends when this is dropped.
pub struct Probe {
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    known: Results,
    /// Resolvers of the system.
    of_system: Vec<SocketAddr>,
    /// Plan, server name and handle of the running task.
    running: Option<(ProbePlan, Name, AbortHandle)>,
}

impl Probe {
    /// Returns a probe that does nothing yet.
    pub fn new(publisher: Arc<Publisher>, metrics: Arc<Metrics>) -> Probe {
        Probe { publisher, metrics, known: Results::default(), of_system: Vec::new(), running: None }
    }

    /// Returns what it finds.
    pub fn results(&self) -> Results {
        self.known.clone()
    }

    /// Follows a configuration; goes on as it is where nothing has changed for it. Must be called within a tokio
    /// runtime.
    ///
    /// Without resolvers of the system those from before are asked.
    pub fn follow(&mut self, config: &Config, of_system: Option<Vec<SocketAddr>>) {
        let (plan, server) = (&config.probe, &config.server_name);
        if self.running.as_ref().is_some_and(|(old, name, _)| (old, name) == (plan, server)) {
            return;
        }
        let Some(every) = plan.every else {
            self.end(|_| false);
            return;
        };
        let zones: HashSet<&Name> = plan.zones.iter().collect();
        let old = self.end(|zone| zones.contains(zone));
        // Whoever is asked otherwise now is asked at other times, too.
        let is_alike = old.is_some_and(|old| {
            (ProbePlan { zones: plan.zones.clone(), ..old.0 }, old.1) == (plan.clone(), server.clone())
        });
        let start = tokio::time::Instant::now();
        let mut known = self.known.0.lock();
        let mut due = VecDeque::new();
        for zone in &plan.zones {
            let memory = known.zones.entry(zone.clone()).or_default();
            let at = memory.due.filter(|_| is_alike).unwrap_or_else(|| start + every.mul_f64(part_of(server, zone)));
            memory.due = Some(at);
            due.push_back((at, zone.clone()));
        }
        if let Some(of_system) = of_system {
            self.of_system = of_system;
        }
        let of_system = if plan.resolvers.is_empty() { self.of_system.clone() } else { Vec::new() };
        let round = Arc::new(Round {
            prober: Prober::new(plan.clone(), of_system),
            plan: plan.clone(),
            publisher: self.publisher.clone(),
            metrics: self.metrics.clone(),
            known: self.known.clone(),
            generation: known.generation,
        });
        drop(known);
        let task = tokio::spawn(round.run(due, every));
        self.running = Some((plan.clone(), server.clone(), task.abort_handle()));
    }

    /// Ends the task, and forgets what it found about zones other than these; gives its plan.
    fn end(&mut self, is_kept: impl Fn(&Name) -> bool) -> Option<(ProbePlan, Name)> {
        let old = self.running.take().map(|(plan, server, task)| {
            task.abort();
            (plan, server)
        });
        let mut known = self.known.0.lock();
        // A task that is just about to tell something sees that it is too late.
        known.generation += 1;
        let gone = known.zones.extract_if(|zone, _| !is_kept(zone));
        let gone: HashSet<String> = gone.map(|(zone, _)| zone.to_string()).collect();
        self.metrics.forget(&gone, |family, _, _| family.starts_with("nameserver_"));
        old
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.end(|_| false);
    }
}

/// Recent serials of one server, as far back as they matter.
#[derive(Default)]
struct Readings(VecDeque<(Instant, Serial)>);

impl Readings {
    /// Notes a serial, and gives the one that was there `age` ago, where that is known.
    fn note(&mut self, now: Instant, serial: Serial, age: Duration) -> Option<Serial> {
        self.0.push_back((now, serial));
        let is_old = |at: Instant| now.duration_since(at) >= age;
        while self.0.get(1).is_some_and(|(at, _)| is_old(*at)) {
            self.0.pop_front();
        }
        self.0.front().filter(|(at, _)| is_old(*at)).map(|(_, serial)| *serial)
    }
}

/// The task's own.
struct Round {
    prober: Arc<Prober>,
    plan: ProbePlan,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    known: Results,
    generation: u64,
}

impl Round {
    /// Looks at each zone when its time has come.
    async fn run(self: Arc<Self>, mut due: VecDeque<(tokio::time::Instant, Name)>, every: Duration) {
        due.make_contiguous().sort_by_key(|(at, _)| *at);
        let mut looks = JoinSet::new();
        loop {
            let next = due.front().map(|(at, _)| *at).filter(|_| looks.len() < ZONES_AT_ONCE);
            tokio::select! {
                () = tokio::time::sleep_until(next.unwrap_or_else(tokio::time::Instant::now)), if next.is_some() => {
                    if let Some((at, zone)) = due.pop_front() {
                        looks.spawn(self.clone().look_and_tell(zone, at, every));
                    }
                }
                Some(done) = looks.join_next() => {
                    let Ok((at, zone)) = done else { return };
                    let place = due.partition_point(|(other, _)| *other <= at);
                    due.insert(place, (at, zone));
                }
                else => return,
            }
        }
    }

    /// Checks one zone, and returns the time of its next check.
    async fn look_and_tell(
        self: Arc<Self>,
        zone: Name,
        at: tokio::time::Instant,
        every: Duration,
    ) -> (tokio::time::Instant, Name) {
        let check = self.look(&zone).await;
        // Slow servers make the period longer, and never let zones pile up.
        let next = tokio::time::Instant::now().max(at) + every;
        self.tell(check, next);
        (next, zone)
    }

    /// Returns what this server has of the zone: its NS names, its serial, and the longest time that others may be
    /// behind.
    fn served(&self, zone: &Name) -> Option<(Vec<Name>, Serial, Duration)> {
        let published = self.publisher.load();
        let zone = published.get(zone)?.answerable()?;
        let refresh = Duration::from_secs(zone.soa.refresh.into());
        Some((zone.name_servers().collect(), zone.soa.serial, self.plan.allowance(refresh)))
    }

    /// Returns true if this server has the zone, and no signature of it.
    fn is_unsigned(&self, zone: &Name) -> bool {
        let published = self.publisher.load();
        published.get(zone).and_then(|served| served.answerable()).is_some_and(|zone| zone.signed().is_none())
    }

    /// Looks at one zone.
    async fn look(&self, zone: &Name) -> ZoneCheck {
        let served = self.served(zone);
        let age = served.as_ref().map_or(self.plan.allowance(Duration::ZERO), |(_, _, allowance)| *allowance);
        let current = served.as_ref().map(|(_, serial, _)| *serial);
        // A serial that the zone has gone back from is not due.
        let due = current.and_then(|serial| self.note(zone, None, serial, age).filter(|due| !due.newer_than(serial)));
        let wanted = served.map(|(names, _, _)| names);
        let is_unsigned = self.is_unsigned(zone);
        let mut facts = self.prober.examine(Target { zone: zone.clone(), wanted, current, due, is_unsigned }).await;
        let mut seen = HashSet::from([None]);
        for server in facts.hosts.iter_mut().flat_map(|host| &mut host.servers) {
            if let Reply::Authority { serial, .. } = server.reply {
                server.earlier = self.note(zone, Some(server.address), serial, age);
                seen.insert(Some(server.address));
            }
        }
        // Who does not answer any more is forgotten.
        if let Some(memory) = self.lock().as_mut().and_then(|known| known.zones.get_mut(zone)) {
            memory.readings.retain(|address, _| seen.contains(address));
        }
        // Asking takes time, in which something may have come here.
        facts.current = self.served(zone).map(|(_, serial, _)| serial);
        classify(&facts)
    }

    /// Notes the present serial of a server, and returns the one that it had `age` ago.
    fn note(&self, zone: &Name, address: Option<SocketAddr>, serial: Serial, age: Duration) -> Option<Serial> {
        let mut known = self.lock()?;
        let readings = &mut known.zones.get_mut(zone)?.readings;
        readings.entry(address).or_default().note(Instant::now(), serial, age)
    }

    /// Locks the results; none if another task is in charge of them now.
    fn lock(&self) -> Option<MutexGuard<'_, Known>> {
        let known = self.known.0.lock();
        (known.generation == self.generation).then_some(known)
    }

    /// Makes a result known.
    fn tell(&self, check: ZoneCheck, next: tokio::time::Instant) {
        let Some(mut known) = self.lock() else { return };
        let Some(memory) = known.zones.get_mut(&check.zone) else { return };
        let (metrics, zone) = (&self.metrics, check.zone.to_string());
        let asked = unix_seconds(SystemTime::now());
        let addresses = check.servers.iter().filter(|server| server.address.is_some()).count();
        metrics.ns_servers.set(&[&zone], i64::try_from(addresses).unwrap_or(i64::MAX));
        metrics.ns_probed.set(&[&zone], asked);
        let before = memory.report.as_ref().map(|report| faults(&report.check)).unwrap_or_default();
        let now = faults(&check);
        for (server, finding) in check.findings() {
            let (server, problem) = (server.label(), finding.problem);
            metrics.ns_problems.set(&[&zone[..], &server, problem.label()], 1);
            if before.contains(&(server.clone(), problem)) {
                continue;
            }
            let text = &finding.text;
            match problem {
                Problem::Unknown => tracing::info!(zone, server, text, "name server could not be looked at"),
                _ => tracing::warn!(zone, server, problem = problem.label(), text, "name server has a fault"),
            }
        }
        // What stays is never without its series, so that alerts on it wait on.
        for (server, problem) in before.iter().filter(|fault| !now.contains(fault)) {
            metrics.ns_problems.set(&[&zone[..], server, problem.label()], 0);
        }
        if now.is_empty() && !before.is_empty() {
            tracing::info!(zone, "name servers have no fault any more");
        }
        (memory.report, memory.due) = (Some(ProbeReport { check, asked }), Some(next));
    }
}

/// Every fault with its server.
fn faults(check: &ZoneCheck) -> HashSet<(String, Problem)> {
    check.findings().map(|(server, finding)| (server.label(), finding.problem)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_counts_when_it_is_old_enough() {
        let (start, age) = (Instant::now(), Duration::from_secs(10));
        let mut readings = Readings::default();
        let mut note = |seconds: u64, serial: u32| {
            readings.note(start + Duration::from_secs(seconds), Serial(serial), age).map(|serial| serial.0)
        };
        assert_eq!(note(0, 1), None);
        assert_eq!(note(5, 2), None);
        assert_eq!(note(10, 3), Some(1));
        assert_eq!(note(14, 4), Some(1));
        assert_eq!(note(15, 5), Some(2));
        assert_eq!(note(60, 6), Some(5));
        assert_eq!(readings.0.len(), 2, "no more than is needed");
    }
}
