//! The keeper's gauges: states, serials and sizes of everything it keeps, out of its snapshot.
//!
//! They are set anew when somebody reads them, and not while a plan is taken, which removes series. Of many zones a part
//! has series of its own (`own_series`); the rest is summed, where that means something. Regions have all of theirs: they
//! are compared with those of other replicas.
//!
//! Cost: O(zones + conflicts) for a reading, and O(homes × members) for a region that steers clients; nothing while nobody
//! reads.

use super::answers::Uncounted;
use super::own_series::OwnSeries;
use super::sources::SourceZone;
use super::{Keeper, MemberStatus, Snapshot, Snapshots, conflicts, wall_time};
use crate::budget::{Budget, Usage};
use crate::clients::Clients;
use crate::merge::{ConflictKind, Drain};
use crate::metrics::{Metrics, REST, unix_seconds};
use crate::publish::Served;
use crate::select::SteeredTally;
use crate::zone::{Signed, SizeLimit};
use prometheus::IntCounterVec;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;

/// Label of clients without a home.
const NO_HOME: &str = "none";
/// Label of answers in which no member comes first.
const NO_MEMBER: &str = "any";
/// Labels of answers by and without the home of the client.
const SERVED: [&str; 2] = ["home", "elsewhere"];

/// Has the gauges set for each reading.
pub(super) fn show_when_read(metrics: &Metrics, snapshots: &Snapshots, budget: &Arc<Budget>) {
    let (snapshots, budget) = (snapshots.clone(), budget.clone());
    metrics.set_when_read("keeper", move |metrics| snapshots.load().show(metrics, &budget.usage(), Instant::now()));
}

impl Snapshot {
    /// Sets the gauges.
    fn show(&self, metrics: &Metrics, usage: &Usage, now: Instant) {
        metrics.memory_budget.set(i64::try_from(usage.budget).unwrap_or(i64::MAX));
        for (part, octets) in usage.parts() {
            metrics.memory_accounted.with_label_values(&[part]).set(i64::try_from(octets).unwrap_or(i64::MAX));
        }
        reset(metrics);
        let own = self.own_series(now);
        // Of what no client reaches, regions have the sets.
        let all = self.sources.keys().chain(self.regions.keys()).filter_map(|name| self.published.reached(name));
        let parts_of_rest = all.map(|served| show_sizes(served, &own, metrics)).sum();
        if parts_of_rest > 0 {
            raise(&metrics.answers_partial, &[REST], parts_of_rest);
        }
        self.sources.iter().for_each(|(name, source)| show_source(name, source, &own, metrics));
        for (name, shown) in &self.regions {
            let (region, zone) = (&name.to_string()[..], &own.label(name)[..]);
            metrics.zone_state.with_label_values(&[zone, shown.state.label()]).add(1);
            if let Some(served) = &shown.served {
                metrics.region_serial.with_label_values(&[region]).set(served.soa.serial.0.into());
                metrics.zone_records.with_label_values(&[zone]).add(served.records as i64);
            }
            metrics.region_serial_drift.with_label_values(&[region]).set(shown.drift.cast_signed().into());
            metrics.region_ns_fallback.with_label_values(&[region]).set(shown.ns_fallback.into());
            for (kind, count) in ConflictKind::ALL.iter().zip(shown.conflicts.counts) {
                metrics.region_conflicts.with_label_values(&[region, kind.label()]).set(count);
            }
            let alike = shown.alike.as_ref().map_or(0, |alike| alike.names as i64);
            metrics.region_alike.with_label_values(&[region]).set(alike);
            if let Some(damper) = &shown.damper {
                metrics.region_held.with_label_values(&[region]).set(damper.held_addresses() as i64);
            }
            if let Some(pin) = &shown.pin {
                metrics.region_pinned.with_label_values(&[region]).set(unix_seconds(pin.since));
            }
            for member in &shown.plan.members {
                let drains = self.drains.iter().filter(|drain| drain.concerns(member, name));
                let (whole, shares): (Vec<&Drain>, Vec<&Drain>) = drains.partition(|drain| drain.is_whole());
                for (gauge, drains) in [(&metrics.region_drained, whole), (&metrics.region_shared, shares)] {
                    if let Some(since) = drains.iter().map(|drain| drain.since).min() {
                        gauge.with_label_values(&[region, &member.to_string()]).set(unix_seconds(since));
                    }
                }
            }
            let members = self.member_statuses(&shown.plan, now);
            for state in MemberStatus::STATES {
                let count = members.iter().filter(|member| member.state == state).count();
                metrics.region_members.with_label_values(&[region, state]).set(count as i64);
            }
        }
        self.show_steering(metrics);
    }

    /// Shows of regions that steer clients to which members these were sent.
    fn show_steering(&self, metrics: &Metrics) {
        let steered = self.answers.iter().filter(|(_, plan)| plan.steers());
        for served in
            steered.filter_map(|(name, _)| self.published.reached(name)).filter(|served| served.zone.is_some())
        {
            let (region, tally) = (&served.origin.to_string()[..], &served.selections.orders.tally);
            metrics.region_uneven.with_label_values(&[region]).set(served.selections.uneven().into());
            let members: Vec<(Option<u16>, String)> = labels(tally.members(), NO_MEMBER).collect();
            for (home, shown_home) in labels(tally.homes(), NO_HOME) {
                for (member, shown_member) in &members {
                    let (count, is_home) = (tally.served(home, *member), shown_home == *shown_member);
                    // Homes times members can be very many.
                    if count > 0 || is_home {
                        raise(&metrics.steered_answers, &[region, &shown_home, shown_member], count);
                    }
                    if let Some(home) = home.filter(|_| is_home) {
                        for (served, count) in SERVED.into_iter().zip(tally.expected(home)) {
                            raise(&metrics.home_answers, &[region, &shown_home, served], count);
                        }
                    }
                }
            }
        }
    }
}

/// Removes the gauges that are set for each reading: a zone that leaves shows nothing any more.
fn reset(metrics: &Metrics) {
    for gauge in [
        &metrics.zone_state,
        &metrics.zone_serial,
        &metrics.zone_refresh,
        &metrics.zone_records,
        &metrics.zone_memory,
        &metrics.zone_conflicts,
        &metrics.zone_refreshed,
        &metrics.zone_expires,
        &metrics.zone_signatures_expire,
        &metrics.rrset_records_max,
        &metrics.rrsets_large,
        &metrics.answers_large,
        &metrics.region_serial,
        &metrics.region_serial_drift,
        &metrics.region_members,
        &metrics.region_drained,
        &metrics.region_shared,
        &metrics.region_pinned,
        &metrics.region_held,
        &metrics.region_conflicts,
        &metrics.region_alike,
        &metrics.region_ns_fallback,
        &metrics.region_uneven,
    ] {
        gauge.reset();
    }
}

/// Shows a source zone, or adds it to the rest.
fn show_source(name: &Name, source: &SourceZone, own: &OwnSeries, metrics: &Metrics) {
    let zone = &own.label(name)[..];
    metrics.zone_state.with_label_values(&[zone, source.state.label()]).add(1);
    let Some(data) = &source.zone else { return };
    metrics.zone_records.with_label_values(&[zone]).add(data.records as i64);
    metrics.zone_memory.with_label_values(&[zone]).add(data.octets() as i64);
    for (kind, count) in conflicts::count(data) {
        metrics.zone_conflicts.with_label_values(&[zone, kind.label()]).add(count);
    }
    if !own.has(name) {
        return;
    }
    metrics.zone_serial.with_label_values(&[zone]).set(data.soa.serial.0.into());
    metrics.zone_refresh.with_label_values(&[zone]).set(data.soa.refresh.into());
    if let Some(expiration) = data.signed().and_then(Signed::first_expiration) {
        metrics.zone_signatures_expire.with_label_values(&[zone]).set(expiration.into());
    }
    if let (Some(refreshed), Some(expires)) = (source.heard(), source.expires()) {
        metrics.zone_refreshed.with_label_values(&[zone]).set(unix_seconds(wall_time(refreshed)));
        metrics.zone_expires.with_label_values(&[zone]).set(unix_seconds(wall_time(expires)));
    }
}

/// Shows what there is of the sizes of a zone's sets, or adds it to the rest. Returns the answers with a part of a set
/// that belong to the rest.
fn show_sizes(served: &Served, own: &OwnSeries, metrics: &Metrics) -> u64 {
    let Some(data) = &served.zone else { return 0 };
    let (zone, is_own) = (&own.label(&served.origin)[..], own.has(&served.origin));
    let (large, in_answers) = (data.sizes.large(), served.large_in_answers());
    if is_own {
        metrics.rrset_records_max.with_label_values(&[zone]).set(data.sizes.most_records().into());
    }
    for limit in SizeLimit::ALL {
        let labels = [zone, limit.label()];
        metrics.rrsets_large.with_label_values(&labels).add(large.over(limit).into());
        let count = in_answers.over(limit);
        if count > 0 {
            metrics.answers_large.with_label_values(&labels).add(count.into());
        }
    }
    let parts = served.tally.parts();
    if !is_own {
        return parts;
    }
    // It is there before the first is counted, so that its growth can be seen.
    if in_answers.message > 0 || parts > 0 {
        raise(&metrics.answers_partial, &[zone], parts);
    }
    0
}

/// Raises a counter to what was counted so far.
fn raise(family: &IntCounterVec, labels: &[&str], count: u64) {
    let counter = family.with_label_values(labels);
    counter.inc_by(count.saturating_sub(counter.get()));
}

/// Labels of homes or members with their numbers, and at last of none of them.
fn labels(names: &[Name], none: &str) -> impl Iterator<Item = (Option<u16>, String)> {
    let numbered = (0..).zip(names).map(|(number, name)| (Some(number), name.to_string()));
    numbered.chain([(None, none.to_owned())])
}

impl Keeper {
    /// Removes what was shown of the homes and members that a region does not have any more; of all if it steers nobody.
    pub(super) fn hide_steering(&self, counted: &Uncounted) {
        let (region, before, now) = (&counted.region.to_string()[..], &counted.before, counted.now.as_deref());
        let names = |of: fn(&SteeredTally) -> &[Name]| -> HashSet<Option<&Name>> {
            now.into_iter().flat_map(|now| of(now).iter().map(Some).chain([None])).collect()
        };
        let (homes, members) = (names(SteeredTally::homes), names(SteeredTally::members));
        // A series that is not there is as good as removed.
        let remove = |family: &IntCounterVec, labels: &[&str]| _ = family.remove_label_values(labels);
        for home in before.homes().iter().map(Some).chain([None]) {
            let shown_home = home.map_or_else(|| NO_HOME.to_owned(), Name::to_string);
            let has_home = homes.contains(&home);
            if !has_home || !members.contains(&home) {
                SERVED.iter().for_each(|served| remove(&self.metrics.home_answers, &[region, &shown_home, served]));
            }
            for member in before.members().iter().map(Some).chain([None]) {
                if !has_home || !members.contains(&member) {
                    let shown_member = member.map_or_else(|| NO_MEMBER.to_owned(), Name::to_string);
                    remove(&self.metrics.steered_answers, &[region, &shown_home, &shown_member]);
                }
            }
        }
    }

    /// Shows how many prefixes homes have, and not those of homes that are gone.
    pub(super) fn show_clients(&self, before: &Clients) {
        let homes: HashSet<&Name> = self.clients.homes().iter().collect();
        for home in before.homes().iter().filter(|home| !homes.contains(home)) {
            // A series that is not there is as good as removed.
            let _ = self.metrics.clients_prefixes.remove_label_values(&[&home.to_string()]);
        }
        for (home, count) in self.clients.homes().iter().zip(self.clients.prefixes_by_home()) {
            self.metrics.clients_prefixes.with_label_values(&[&home.to_string()]).set(count as i64);
        }
    }
}
