//! Status of zones, regions, members and conflicts, as operators see it.
//!
//! Cost: O(zones + members of all regions), and for a filtered region O(names) up to the first record that leads out of it.

use super::drains::scope;
use super::regions::contributing;
use super::snapshot::RegionSnapshot;
use super::sources::SourceZone;
use super::{Snapshot, ZoneConflict, conflicts};
use crate::merge::{Alike, Conflict, Damper, Drain, DrainTarget, Pin, RegionPlan};
use crate::metrics::unix_seconds;
use crate::publish::State;
use crate::zone::{Node, Signed};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};
use wire::name::{Name, NameBuf};
use wire::rr::{self, rtype};
use wire::serial::Serial;

/// Status of everything that the keeper knows, at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Source zones, in canonical order of names.
    pub zones: Vec<ZoneStatus>,
    pub regions: Vec<RegionStatus>,
    pub drains: Vec<DrainStatus>,
}

/// A member, or names of it, that regions, or a share of their clients, go without.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Drain")]
pub struct DrainStatus {
    #[serde(flatten)]
    pub target: DrainTarget,
    /// Percent of the clients that it concerns; none for a drain that takes the records out of the set.
    #[schemars(range(min = 1, max = 99))]
    pub share_percent: Option<u8>,
    /// The regions that have the member, and that the drain means.
    pub regions: Vec<Name>,
    /// Unix time.
    pub since: i64,
    pub until: Option<i64>,
    pub reason: Option<String>,
    pub configured: bool,
}

/// A source zone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ZoneStatus {
    pub zone: Name,
    pub state: State,
    pub serial: Option<Serial>,
    pub records: u64,
    pub names: usize,
    /// Seconds since a primary last confirmed or sent the zone.
    pub refreshed_seconds_ago: Option<u64>,
    /// Seconds until the zone expires; 0 when it has.
    pub expires_in_seconds: Option<u64>,
    /// How a signed zone denies names: `nsec` or `nsec3`; none if it is not signed.
    #[schemars(extend("enum" = ["nsec", "nsec3", null]))]
    pub signed: Option<&'static str>,
    /// Seconds until the first signature expires; 0 when it has.
    pub signatures_expire_in_seconds: Option<u64>,
    /// Names at which the zone cannot hold records of its primary.
    pub conflict_names: usize,
    /// The first hundred of those names in order, with the dropped records.
    pub conflicts: BTreeMap<String, Vec<ZoneConflict>>,
}

/// A region.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RegionStatus {
    pub region: Name,
    pub state: State,
    pub serial: Option<Serial>,
    /// Seconds until it is served without members that never were transferred, while it waits for them.
    pub partial_in_seconds: Option<u64>,
    /// The serial minus the sum of the members' serials; 0 while the region is pinned: its serial has nothing to do with those of its members then.
    pub drift: u32,
    pub records: u64,
    pub names: usize,
    /// True if this server is listed alone because the members' NS sets have nothing in common.
    pub ns_fallback: bool,
    /// Addresses that members have withdrawn and that services keep for a while.
    pub held_addresses: usize,
    /// The version that clients see instead of the merged one.
    pub pinned: Option<PinStatus>,
    /// The serial of another server from which it went on at the start.
    pub followed: Option<Serial>,
    /// A newer serial of another server, until the members' sources tell whether the region goes on from it.
    pub newer_elsewhere: Option<Serial>,
    /// Names of its NS set within the region that have no address there.
    pub servers_without_address: Vec<Name>,
    /// Names at which members have addresses of one private network, which nobody can tell apart.
    pub alike_addresses: Option<Alike>,
    /// A record of a filtered region that leads to a zone which is not.
    pub unfiltered: Option<Unfiltered>,
    pub members: Vec<MemberStatus>,
    /// Names with conflicts.
    pub conflict_names: usize,
    /// The first hundred of those names in order, with the dropped records.
    pub conflicts: BTreeMap<String, Vec<Conflict>>,
}

/// A record that leads from a filtered region to a zone which is not filtered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Unfiltered {
    pub name: Name,
    pub target: Name,
    pub zone: Name,
}

/// The earlier version whose contents a region has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Pin")]
pub struct PinStatus {
    pub to: Serial,
    /// Unix time.
    pub since: i64,
    pub reason: Option<String>,
}

impl PinStatus {
    /// Tells of a pin.
    pub fn new(pin: &Pin) -> PinStatus {
        PinStatus { to: pin.to, since: unix_seconds(pin.since), reason: pin.reason.clone() }
    }
}

/// A member of a region.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Member")]
pub struct MemberStatus {
    pub zone: Name,
    /// `stale`: it contributes although its primaries have not answered for a while. `missing`: never transferred.
    /// `drained`: valid, and drained as a whole.
    #[schemars(extend("enum" = MemberStatus::STATES))]
    pub state: &'static str,
    pub serial: Option<Serial>,
}

impl MemberStatus {
    /// Contributing and fresh; contributing although its primaries have not answered for a while; never transferred;
    /// expired; valid, and drained as a whole.
    pub const STATES: [&'static str; 5] = ["ok", "stale", "missing", "expired", "drained"];
}

impl SourceZone {
    /// Tells how the zone is.
    pub fn status(&self, name: &Name, now: Instant) -> ZoneStatus {
        let signed = self.zone.as_ref().and_then(|zone| zone.signed());
        let today = unix_seconds(SystemTime::now());
        ZoneStatus {
            zone: name.clone(),
            state: self.state,
            serial: self.zone.as_ref().map(|zone| zone.soa.serial),
            records: self.zone.as_ref().map_or(0, |zone| zone.records),
            names: self.zone.as_ref().map_or(0, |zone| zone.names()),
            refreshed_seconds_ago: self.heard().map(|at| now.saturating_duration_since(at).as_secs()),
            expires_in_seconds: self.expires().map(|at| at.saturating_duration_since(now).as_secs()),
            signed: signed.map(|signed| if signed.nsec3().is_some() { "nsec3" } else { "nsec" }),
            signatures_expire_in_seconds: signed
                .and_then(Signed::first_expiration)
                .map(|at| u64::try_from(i64::from(at) - today).unwrap_or(0)),
            conflict_names: self.zone.as_ref().map_or(0, |zone| zone.left_out.names()),
            conflicts: self.zone.as_ref().map(|zone| conflicts::list(zone)).unwrap_or_default(),
        }
    }
}

impl Snapshot {
    /// Tells everything, in canonical order of names.
    pub fn status(&self, now: Instant) -> Status {
        self.status_of(now, &|_| true)
    }

    /// Tells of the zones and regions that are wanted, in canonical order of names, and of all drains. O(zones) to ask which
    /// are wanted, the rest for those alone.
    pub fn status_of(&self, now: Instant, wanted: &dyn Fn(&Name) -> bool) -> Status {
        let sources = self.sources.iter().filter(|(name, _)| wanted(name));
        let mut zones: Vec<ZoneStatus> = sources.map(|(name, source)| source.status(name, now)).collect();
        zones.sort_by(|a, b| a.zone.canonical_cmp(&b.zone));
        let regions = self.regions.iter().filter(|(name, _)| wanted(name));
        let mut regions: Vec<RegionStatus> = regions.map(|(_, region)| self.region_status(region, now)).collect();
        regions.sort_by(|a, b| a.region.canonical_cmp(&b.region));
        Status { zones, regions, drains: self.drain_statuses() }
    }

    /// Tells all drains in force.
    pub fn drain_statuses(&self) -> Vec<DrainStatus> {
        self.drains.iter().map(|drain| self.drain_status(drain)).collect()
    }

    /// Returns the status of a region.
    fn region_status(&self, region: &RegionSnapshot, now: Instant) -> RegionStatus {
        let served = region.served.as_ref();
        RegionStatus {
            region: region.plan.origin.clone(),
            state: region.state,
            serial: served.map(|zone| zone.soa.serial),
            partial_in_seconds: region.partial_at.and_then(|at| Some(at.checked_duration_since(now)?.as_secs())),
            drift: region.drift,
            records: served.map_or(0, |zone| zone.records),
            names: served.map_or(0, |zone| zone.names()),
            ns_fallback: region.ns_fallback,
            held_addresses: region.damper.as_ref().map_or(0, Damper::held_addresses),
            pinned: region.pin.as_ref().map(PinStatus::new),
            followed: region.followed,
            newer_elsewhere: region.newer_elsewhere,
            servers_without_address: region.servers_without_address.clone(),
            alike_addresses: region.alike.clone(),
            unfiltered: self.unfiltered(region),
            members: self.member_statuses(&region.plan, now),
            conflict_names: region.conflicts.names,
            conflicts: region.conflicts.listed.clone(),
        }
    }

    /// Finds a record of a filtered region by which clients get to addresses that are not filtered: an alias or service
    /// whose target is in a source zone.
    fn unfiltered(&self, region: &RegionSnapshot) -> Option<Unfiltered> {
        let zone = region.served.as_ref().filter(|_| !region.plan.addresses.is_empty())?;
        let of_node = |node: Node<'_>| {
            let offsets = [(rtype::CNAME, 0), (rtype::SRV, rr::SRV_TARGET)].into_iter();
            let mut targets = offsets.flat_map(|(rtype, offset)| {
                let rdatas = node.get(rtype).into_iter().flat_map(|set| set.rdatas());
                rdatas.filter_map(move |rdata| Some(NameBuf::from_wire(rdata.get(offset..)?).ok()?.to_name()))
            });
            targets.find_map(|target| {
                let leads_to = &self.published.find(target.as_wire())?.origin;
                let is_source = self.sources.contains_key(leads_to);
                is_source.then(|| Unfiltered { name: zone.name_of(node), zone: leads_to.clone(), target })
            })
        };
        zone.nodes().find_map(of_node)
    }

    /// Returns the status of a drain.
    fn drain_status(&self, drain: &Drain) -> DrainStatus {
        let concerned = |plan: &&RegionPlan| plan.members.iter().any(|member| drain.concerns(member, &plan.origin));
        let plans = self.regions.values().map(|region| &region.plan).filter(concerned);
        let mut regions: Vec<Name> = plans.map(|plan| plan.origin.clone()).collect();
        regions.sort_by(Name::canonical_cmp);
        DrainStatus {
            target: drain.target.clone(),
            share_percent: drain.share,
            regions,
            since: unix_seconds(drain.since),
            until: drain.until.map(unix_seconds),
            reason: drain.reason.clone(),
            configured: drain.configured,
        }
    }

    /// The states of a region's members, in the plan's order.
    pub fn member_statuses(&self, plan: &RegionPlan, now: Instant) -> Vec<MemberStatus> {
        let is_drained = |member: &Name| scope(&self.drains, member, &plan.origin).whole;
        let status = |(member, contributes): (&Name, bool)| {
            let source = self.sources.get(member);
            let zone = source.and_then(|source| source.zone.as_ref());
            let state = match (source, zone) {
                (Some(_), Some(_)) if contributes && is_drained(member) => "drained",
                (Some(source), Some(zone)) if contributes => {
                    // Two failed tries after a missed refresh are no accident any more. What has expired is kept where
                    // the configuration says so.
                    let patience = u64::from(zone.soa.refresh) + 2 * u64::from(zone.soa.retry);
                    let age = source.heard().map_or(u64::MAX, |at| now.saturating_duration_since(at).as_secs());
                    if source.state != State::Ok || age > patience { "stale" } else { "ok" }
                }
                (_, Some(_)) => "expired",
                (_, None) => "missing",
            };
            MemberStatus { zone: member.clone(), state, serial: zone.map(|zone| zone.soa.serial) }
        };
        plan.members.iter().zip(contributing(&self.sources, plan)).map(status).collect()
    }
}
