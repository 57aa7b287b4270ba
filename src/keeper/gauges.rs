//! The keeper's gauges: states, serials and sizes of everything it keeps, out of its snapshot.
//!
//! Cost: O(zones + conflicts); set once for each batch, or in a tick where there are many zones.

use super::{Keeper, MemberStatus, Snapshot, conflicts};
use crate::budget::Usage;
use crate::merge::{ConflictKind, RegionPlan};
use crate::metrics::{Metrics, unix_seconds};
use crate::publish::State;
use std::time::{Instant, SystemTime};

impl Snapshot {
    /// Sets the gauges.
    pub(super) fn show(&self, metrics: &Metrics, usage: &Usage, now: Instant) {
        let unix = |at: Instant| {
            let wall = SystemTime::now();
            unix_seconds(if at > now { wall + (at - now) } else { wall - (now - at) })
        };
        metrics.memory_budget.set(i64::try_from(usage.budget).unwrap_or(i64::MAX));
        for (part, octets) in usage.parts() {
            metrics.memory_accounted.with_label_values(&[part]).set(i64::try_from(octets).unwrap_or(i64::MAX));
        }
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
                let labels = [zone, kind.label()];
                match conflicts.get(&kind) {
                    Some(names) => metrics.zone_conflicts.with_label_values(&labels).set(*names),
                    // Mostly there is none.
                    None => _ = metrics.zone_conflicts.remove_label_values(&labels),
                }
            }
            if let (Some(refreshed), Some(expires)) = (source.contact.get(), source.expires()) {
                metrics.zone_refreshed.with_label_values(&[zone]).set(unix(refreshed));
                metrics.zone_expires.with_label_values(&[zone]).set(unix(expires));
            }
        }
        for (name, shown) in &self.regions {
            let region = &name.to_string()[..];
            for state in State::ALL {
                metrics.zone_state.with_label_values(&[region, state.label()]).set((state == shown.state).into());
            }
            match &shown.served {
                Some(data) => {
                    metrics.region_serial.with_label_values(&[region]).set(data.soa.serial.0.into());
                    metrics.zone_records.with_label_values(&[region]).set(data.records as i64);
                }
                // Never there, or gone: either way there is nothing to show.
                None => {
                    _ = metrics.region_serial.remove_label_values(&[region]);
                    _ = metrics.zone_records.remove_label_values(&[region]);
                }
            }
            metrics.region_serial_drift.with_label_values(&[region]).set(shown.drift.cast_signed().into());
            metrics.region_ns_fallback.with_label_values(&[region]).set(shown.ns_fallback.into());
            for (kind, count) in ConflictKind::ALL.iter().zip(shown.conflicts.counts) {
                metrics.region_conflicts.with_label_values(&[region, kind.label()]).set(count);
            }
            match &shown.damper {
                Some(damper) => metrics.region_held.with_label_values(&[region]).set(damper.held_addresses() as i64),
                // Never there, or no longer damped.
                None => _ = metrics.region_held.remove_label_values(&[region]),
            }
            match &shown.pin {
                Some(pin) => metrics.region_pinned.with_label_values(&[region]).set(unix_seconds(pin.since)),
                // Never there, or released.
                None => _ = metrics.region_pinned.remove_label_values(&[region]),
            }
            for member in &shown.plan.members {
                let labels = [region, &member.to_string()[..]];
                let drains = self.drains.iter().filter(|drain| drain.concerns(member, name));
                match drains.map(|drain| drain.since).min() {
                    Some(since) => metrics.region_drained.with_label_values(&labels).set(unix_seconds(since)),
                    // Never there, or gone.
                    None => _ = metrics.region_drained.remove_label_values(&labels),
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

impl Keeper {
    /// Removes the gauges of the drains of a region whose members change.
    pub(super) fn hide_drains(&self, plan: &RegionPlan) {
        for member in &plan.members {
            // Mostly there is none.
            let _ = self.metrics.region_drained.remove_label_values(&[&plan.origin.to_string(), &member.to_string()]);
        }
    }
}
