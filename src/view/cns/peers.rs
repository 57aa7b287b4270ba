//! Secondaries of inventories, as CNS' `GET /peers` tells of its peers: whom the configuration has notified, and who has
//! transferred a zone.
//!
//! What a peer has is known from its transfers and from what it answers when it is asked for its serial. Its software
//! is not asked for.
//!
//! Cost: O(zones · secondaries + peers).

use super::plain;
use crate::acl::{Prefix, Rule};
use crate::metrics::{Peer, PeerCounts};
use crate::source::inventory::InventoryPlan;
use crate::view::Handle;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::name::Name;
use wire::serial::Serial;

/// Announcements without an acknowledgement from which CNS does without them.
const MOST_FAILURES: u64 = 5;
/// The software of a peer that says nothing of it.
const UNKNOWN: &str = "unknown";

/// A peer in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerLine {
    pub address: IpAddr,
    /// The serials that it has, by zone.
    pub serials: BTreeMap<String, Serial>,
    /// What it says of its software.
    pub version: String,
}

/// Everything about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerDetail {
    #[serde(flatten)]
    pub line: PeerLine,
    /// Zones whose last announcement it has not acknowledged.
    pub notify_failures: u64,
    pub using_notify: bool,
    pub using_ixfr: bool,
    pub counters: PeerCounts,
}

/// Who may transfer a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AllowedPeer {
    pub address: IpAddr,
    pub mask: u8,
    /// The key that is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The peers of an inventory, by address.
pub fn peers(view: &Handle, plan: &InventoryPlan) -> Vec<PeerDetail> {
    let zones: Vec<&Name> = plan.zones().collect();
    describe(view, &zones)
}

/// The peers of all inventories, by address.
pub fn all_peers(view: &Handle) -> Vec<PeerDetail> {
    let config = view.config.load();
    let zones: Vec<&Name> = config.inventories.iter().flat_map(InventoryPlan::zones).collect();
    describe(view, &zones)
}

/// The peers of zones.
fn describe(view: &Handle, zones: &[&Name]) -> Vec<PeerDetail> {
    // Zones that a peer is told of, and those of them whose last announcement it has not acknowledged.
    let mut told: BTreeMap<IpAddr, (u64, u64)> = BTreeMap::new();
    for target in zones.iter().flat_map(|zone| view.notifier.status(zone)) {
        let (zones, failures) = told.entry(target.address.ip().to_canonical()).or_default();
        *zones += 1;
        *failures += u64::from(target.notified.is_some() && target.acknowledged != target.notified);
    }
    let texts: BTreeMap<String, String> = zones.iter().map(|zone| (zone.to_string(), plain(zone))).collect();
    let known = view.metrics.peers.all();
    let transfers = known.iter().filter(|(_, peer)| peer.serials.keys().any(|zone| texts.contains_key(zone)));
    let addresses: BTreeSet<IpAddr> = told.keys().copied().chain(transfers.map(|(address, _)| *address)).collect();
    let describe = |address: IpAddr| {
        let Peer { counts, serials, version } = known.get(&address).cloned().unwrap_or_default();
        let serials = serials.into_iter().filter_map(|(zone, serial)| Some((texts.get(&zone)?.clone(), serial)));
        let (zones, failures) = told.get(&address).copied().unwrap_or_default();
        PeerDetail {
            line: PeerLine {
                address,
                serials: serials.collect(),
                version: version.map_or(UNKNOWN.into(), String::from),
            },
            notify_failures: failures,
            using_notify: zones > 0 && failures < MOST_FAILURES,
            using_ixfr: counts.ixfr > 2 * counts.axfr,
            counters: counts,
        }
    };
    addresses.into_iter().map(describe).collect()
}

/// Who may transfer zones of an inventory, each once.
pub fn allowed_peers(view: &Handle, plan: &InventoryPlan) -> BTreeSet<AllowedPeer> {
    let config = view.config.load();
    let rules = plan.zones().filter_map(|zone| config.outgoing.get(zone)).flat_map(|outgoing| &outgoing.access.rules);
    let describe = |rule: &Rule| {
        let key = rule.key.as_ref().map(plain);
        let within = |address: &IpAddr| rule.prefix.is_none_or(|prefix| prefix.contains(*address));
        let prefixes = match (&rule.host, rule.prefix) {
            (Some(host), _) => host.addresses().iter().copied().filter(within).map(Prefix::host).collect(),
            (None, Some(prefix)) => vec![prefix],
            (None, None) => Prefix::EVERYTHING.to_vec(),
        };
        prefixes.into_iter().map(move |prefix| AllowedPeer {
            address: prefix.address(),
            mask: prefix.length(),
            key: key.clone(),
        })
    };
    rules.flat_map(describe).collect()
}
