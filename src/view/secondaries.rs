//! Secondaries: what each has of a zone, and since when it lacks something.
//!
//! A secondary has what it has acknowledged or fetched, whichever is newer: one that follows several replicas fetches from
//! any of them. Since when it lacks something is the time at which the first version came that it does not have, which the
//! zone's history knows; so nothing is remembered here, and a secondary that is a moment behind each of a thousand changes
//! is never behind for longer than that.
//!
//! Cost: O(zones × secondaries) for a scrape, O(secondaries) for a zone's status, and O(versions) for one that is behind.

use crate::metrics::{Metrics, OWN_ZONES, unix_seconds};
use crate::notify::{Notifier, TargetStatus};
use crate::publish::{Publisher, Served};
use crate::view::text::unix_now;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use wire::name::Name;
use wire::serial::Serial;

/// Seconds after which a secondary that lacks a version is one that does not follow: NOTIFY is given up after as many.
const PATIENCE: i64 = 63;

/// A secondary of a zone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Secondary")]
pub struct SecondaryReport {
    #[serde(flatten)]
    pub status: TargetStatus,
    /// Unix time at which the oldest version came that it has neither acknowledged nor fetched; none if it has all.
    pub behind_since: Option<i64>,
}

impl SecondaryReport {
    /// Compares what a target has with what is served.
    pub fn new(status: TargetStatus, served: &Served) -> SecondaryReport {
        let has = newer(status.acknowledged, status.fetched);
        let behind_since = behind_since(served, has, status.added).map(unix_seconds);
        SecondaryReport { status, behind_since }
    }

    /// Returns true if it lacks a version for longer than it takes to fetch one.
    pub fn is_late(&self) -> bool {
        self.behind_since.is_some_and(|since| unix_now() - since > PATIENCE)
    }
}

/// The newer of two serials.
fn newer(one: Option<Serial>, other: Option<Serial>) -> Option<Serial> {
    match (one, other) {
        (Some(one), Some(other)) if other.newer_than(one) => Some(other),
        (one, other) => one.or(other),
    }
}

/// Time at which the oldest version came that a secondary does not have, none if it has all; `added` is the time since
/// which it is one.
fn behind_since(served: &Served, has: Option<Serial>, added: SystemTime) -> Option<SystemTime> {
    let serial = served.answerable()?.soa.serial;
    let Some(has) = has else { return Some(added) };
    if has == serial || has.newer_than(serial) {
        return None;
    }
    let steps = &served.history;
    let missed = steps.position(has).and_then(|place| steps.steps().nth(place)).and_then(|step| step.at);
    // What it has may be older than all that the history reaches.
    missed.or_else(|| steps.begun()).or(Some(added))
}

/// Has the gauges of secondaries set for each reading.
pub fn show_when_read(metrics: &Metrics, publisher: &Arc<Publisher>, notifier: &Arc<Notifier>) {
    // The notifier has the metrics; neither may keep the other alive.
    let (publisher, notifier) = (Arc::downgrade(publisher), Arc::downgrade(notifier));
    metrics.set_when_read("secondaries", move |metrics| {
        if let (Some(publisher), Some(notifier)) = (publisher.upgrade(), notifier.upgrade()) {
            show(metrics, &publisher, &notifier);
        }
    });
}

/// Sets the gauges of secondaries.
fn show(metrics: &Metrics, publisher: &Publisher, notifier: &Notifier) {
    let published = publisher.load();
    let (mut current, mut behind) = (0, Vec::<(SystemTime, Name, SocketAddr)>::new());
    notifier.each_target(|zone, target| {
        let Some(served) = published.get(zone).filter(|served| served.answerable().is_some()) else { return };
        let since = |has| behind_since(served, has, target.added);
        // Who has acknowledged all, as nearly everybody has, is not looked for among those who have fetched.
        let since = since(target.acknowledged).and_then(|_| since(newer(target.acknowledged, (target.fetched)())));
        match since {
            None => current += 1,
            Some(since) => behind.push((since, zone.clone(), target.address)),
        }
    });
    metrics.secondaries.with_label_values(&["current"]).set(current);
    metrics.secondaries.with_label_values(&["behind"]).set(behind.len() as i64);
    metrics.secondary_behind.reset();
    behind.sort_unstable_by_key(|(since, ..)| *since);
    for (since, zone, secondary) in behind.iter().take(OWN_ZONES) {
        let labels = [&zone.to_string()[..], &secondary.to_string()];
        metrics.secondary_behind.with_label_values(&labels).set(unix_seconds(*since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::State;
    use crate::zone::tests::zone;
    use crate::zone::{Delta, History, HistoryLimits, HistoryStep};
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// A zone with versions 1 to 4, which came at 10, 20, 30 and 40 s.
    fn served() -> Served {
        let version = |serial: u32| zone("z.", &format!("@ 30 SOA {serial}\na{serial} 30 A 192.0.2.1"));
        let mut history = History::default();
        history.begin(at(10));
        for serial in 2..=4 {
            let (old, new) = (version(serial - 1), version(serial));
            let names = [serial - 1, serial].map(|number| Name::parse(&format!("a{number}.z.")).unwrap());
            let delta = Arc::new(Delta::between(&old, &new, names));
            history.push(HistoryStep::new(delta, at(u64::from(serial) * 10), Vec::new()), &HistoryLimits::default());
        }
        let mut served = Served::new(Name::parse("z.").unwrap(), State::Ok, Some(Arc::new(version(4))));
        served.history = history;
        served
    }

    #[test]
    fn a_secondary_is_behind_since_the_first_version_that_it_lacks() {
        let served = served();
        let since = |has: Option<u32>| behind_since(&served, has.map(Serial), at(35));
        assert_eq!(since(Some(4)), None);
        assert_eq!(since(Some(3)), Some(at(40)));
        assert_eq!(since(Some(1)), Some(at(20)), "later ones do not make it younger");
        assert_eq!(since(Some(0)), Some(at(10)), "older than the history");
        assert_eq!(since(Some(9)), None, "ahead of us, which is another fault");
        assert_eq!(since(None), Some(at(35)), "it was added then, and nothing is known of it");
        let expired = Served::new(Name::parse("z.").unwrap(), State::Expired, None);
        assert_eq!(behind_since(&expired, None, at(1)), None, "there is nothing to follow");
    }

    #[test]
    fn what_was_fetched_counts_like_what_was_acknowledged() {
        let pairs = [(None, None), (Some(3), None), (None, Some(4)), (Some(3), Some(4)), (Some(4), Some(3))];
        let newest = pairs.map(|(one, other)| newer(one.map(Serial), other.map(Serial)).map(|serial| serial.0));
        assert_eq!(newest, [None, Some(3), Some(4), Some(4), Some(4)]);
    }
}
