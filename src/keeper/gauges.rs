//! The keeper's gauges: states, serials and sizes of everything it keeps, out of its snapshot.
//!
//! Cost: O(zones + conflicts); set once for each batch, or in a tick where there are many zones.

use super::{Keeper, MemberStatus, Snapshot, conflicts, wall_time};
use crate::budget::Usage;
use crate::merge::{ConflictKind, Drain, RegionPlan};
use crate::metrics::{Metrics, unix_seconds};
use crate::publish::{Served, State};
use crate::zone::SizeLimit;
use prometheus::IntGaugeVec;
use std::time::Instant;

impl Snapshot {
    /// Sets the gauges.
    pub(super) fn show(&self, metrics: &Metrics, usage: &Usage, now: Instant) {
        metrics.memory_budget.set(i64::try_from(usage.budget).unwrap_or(i64::MAX));
        for (part, octets) in usage.parts() {
            metrics.memory_accounted.with_label_values(&[part]).set(i64::try_from(octets).unwrap_or(i64::MAX));
        }
        let all = self.sources.keys().chain(self.regions.keys());
        // Of what no client reaches, regions have the sets.
        all.filter_map(|name| self.published.reached(name)).for_each(|served| show_sizes(served, metrics));
        for (name, source) in &self.sources {
            let zone = &name.to_string()[..];
            for state in State::ALL {
                metrics.zone_state.with_label_values(&[zone, state.label()]).set((state == source.state).into());
            }
            if let Some(data) = &source.zone {
                metrics.zone_serial.with_label_values(&[zone]).set(data.soa.serial.0.into());
                metrics.zone_refresh.with_label_values(&[zone]).set(data.soa.refresh.into());
                metrics.zone_records.with_label_values(&[zone]).set(data.records as i64);
                metrics.zone_memory.with_label_values(&[zone]).set(data.octets() as i64);
            }
            let conflicts = source.zone.as_ref().map(|zone| conflicts::count(zone)).unwrap_or_default();
            for kind in [ConflictKind::AliasBesideData, ConflictKind::DifferentAliases, ConflictKind::AliasAtApex] {
                set_or_remove(&metrics.zone_conflicts, &[zone, kind.label()], conflicts.get(&kind).copied());
            }
            if let (Some(refreshed), Some(expires)) = (source.contact.get(), source.expires()) {
                metrics.zone_refreshed.with_label_values(&[zone]).set(unix_seconds(wall_time(refreshed)));
                metrics.zone_expires.with_label_values(&[zone]).set(unix_seconds(wall_time(expires)));
            }
        }
        for (name, shown) in &self.regions {
            let region = &name.to_string()[..];
            for state in State::ALL {
                metrics.zone_state.with_label_values(&[region, state.label()]).set((state == shown.state).into());
            }
            let served = shown.served.as_ref();
            set_or_remove(&metrics.region_serial, &[region], served.map(|zone| zone.soa.serial.0.into()));
            set_or_remove(&metrics.zone_records, &[region], served.map(|zone| zone.records as i64));
            metrics.region_serial_drift.with_label_values(&[region]).set(shown.drift.cast_signed().into());
            metrics.region_ns_fallback.with_label_values(&[region]).set(shown.ns_fallback.into());
            for (kind, count) in ConflictKind::ALL.iter().zip(shown.conflicts.counts) {
                metrics.region_conflicts.with_label_values(&[region, kind.label()]).set(count);
            }
            let alike = shown.alike.as_ref().map_or(0, |alike| alike.names as i64);
            metrics.region_alike.with_label_values(&[region]).set(alike);
            let held = shown.damper.as_ref().map(|damper| damper.held_addresses() as i64);
            set_or_remove(&metrics.region_held, &[region], held);
            let pinned = shown.pin.as_ref().map(|pin| unix_seconds(pin.since));
            set_or_remove(&metrics.region_pinned, &[region], pinned);
            for member in &shown.plan.members {
                let drains = self.drains.iter().filter(|drain| drain.concerns(member, name));
                let (whole, shares): (Vec<&Drain>, Vec<&Drain>) = drains.partition(|drain| drain.is_whole());
                for (gauge, drains) in [(&metrics.region_drained, whole), (&metrics.region_shared, shares)] {
                    let since = drains.iter().map(|drain| drain.since).min().map(unix_seconds);
                    set_or_remove(gauge, &[region, &member.to_string()], since);
                }
            }
            let members = self.member_statuses(&shown.plan, now);
            for state in MemberStatus::STATES {
                let count = members.iter().filter(|member| member.state == state).count();
                metrics.region_members.with_label_values(&[region, state]).set(count as i64);
            }
        }
    }
}

/// Sets what there is of the sizes of a zone's sets.
fn show_sizes(served: &Served, metrics: &Metrics) {
    let Some(data) = &served.zone else { return };
    let (zone, large, in_answers) = (&served.origin.to_string()[..], data.sizes.large(), served.large_in_answers());
    metrics.rrset_records_max.with_label_values(&[zone]).set(data.sizes.most_records().into());
    for limit in SizeLimit::ALL {
        let labels = [zone, limit.label()];
        metrics.rrsets_large.with_label_values(&labels).set(large.over(limit).into());
        let count = in_answers.over(limit);
        set_or_remove(&metrics.answers_large, &labels, (count > 0).then(|| count.into()));
    }
    // It is there before the first is counted, so that its growth can be seen.
    if in_answers.message > 0 || served.tally.parts() > 0 {
        let counter = metrics.answers_partial.with_label_values(&[zone]);
        counter.inc_by(served.tally.parts().saturating_sub(counter.get()));
    }
}

/// Sets a gauge, or removes one whose value was never there, or is gone.
fn set_or_remove(gauge: &IntGaugeVec, labels: &[&str], value: Option<i64>) {
    match value {
        Some(value) => gauge.with_label_values(labels).set(value),
        // Mostly there is none.
        None => _ = gauge.remove_label_values(labels),
    }
}

impl Keeper {
    /// Removes the gauges of the drains of a region whose members change.
    pub(super) fn hide_drains(&self, plan: &RegionPlan) {
        for member in &plan.members {
            let labels = [&plan.origin.to_string()[..], &member.to_string()];
            set_or_remove(&self.metrics.region_drained, &labels, None);
            set_or_remove(&self.metrics.region_shared, &labels, None);
        }
    }
}
