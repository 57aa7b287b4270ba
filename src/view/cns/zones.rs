//! Zones of an inventory, as CNS' `GET /zones` tells of them.
//!
//! Cost: O(zones · secondaries).

use super::plain;
use crate::source::inventory::InventoryPlan;
use crate::source::inventory::plan::ApexPlan;
use crate::view::Handle;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::UNIX_EPOCH;
use wire::name::Name;
use wire::serial::Serial;

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneLine {
    pub name: String,
    /// None before the first version.
    pub serial: Option<Serial>,
    /// "forward" or "reverse".
    pub kind: &'static str,
    /// The networks that the configuration names; none for a reverse zone.
    pub networks: Option<Vec<String>>,
    /// The secondaries that are told of its changes.
    pub peers: Vec<IpAddr>,
    /// True if this server is none of the zone's name servers.
    pub hidden_primary: bool,
    pub records: u64,
    /// Time of the last change, Unix time in milliseconds.
    pub changed: Option<i64>,
}

/// The zones of an inventory, forward zones first.
pub fn zones(view: &Handle, plan: &InventoryPlan) -> Vec<ZoneLine> {
    let (root, config) = (view.publisher.load(), view.config.load());
    let describe = |(origin, apex): (&Name, &ApexPlan)| {
        let forward = plan.forward.iter().find(|zone| zone.origin == *origin);
        let served = root.get(origin);
        let zone = served.and_then(|served| served.zone.as_ref());
        let last =
            served.and_then(|served| served.history.steps().next_back().map_or(served.history.begun(), |step| step.at));
        let changed = last.and_then(|at| i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok());
        let peers: BTreeSet<IpAddr> =
            apex.secondaries.iter().map(|server| server.address.ip().to_canonical()).collect();
        ZoneLine {
            name: plain(origin),
            serial: zone.map(|zone| zone.soa.serial),
            kind: if forward.is_some() { "forward" } else { "reverse" },
            networks: forward.map(|zone| zone.networks.clone()),
            peers: peers.into_iter().collect(),
            hidden_primary: !apex.ns.contains(&config.server_name),
            records: zone.map_or(0, |zone| zone.records),
            changed,
        }
    };
    plan.apexes().map(describe).collect()
}
