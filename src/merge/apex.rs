//! The apex of a region: what the members have there, and an SOA and NS set of its own.
//!
//! Cost: O(records at the apex × members).

use super::{Members, NsPolicy, Region, RegionPlan};
use crate::zone::{Node, RRsets, Soa, Zone};
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{RRset, rtype};
use wire::serial::Serial;

impl Region {
    /// The RRsets of the apex: what the members have there, our NS set and our SOA.
    pub(super) fn apex_rrsets(&mut self, members: &Members, merged: &[Arc<RRset>], serial: Serial) -> RRsets {
        let servers = self.name_servers(members);
        let zones = || members.iter().flatten();
        let smallest = |of: &dyn Fn(&Zone) -> u32| zones().map(|zone| of(zone)).min().unwrap_or(0);
        let plan = &self.plan;
        let member_minimum = smallest(&|zone| zone.soa.minimum);
        let soa = Soa {
            serial,
            refresh: plan.soa.refresh.unwrap_or_else(|| smallest(&|zone| zone.soa.refresh)),
            retry: plan.soa.retry.unwrap_or_else(|| smallest(&|zone| zone.soa.retry)),
            expire: plan.soa.expire.unwrap_or_else(|| smallest(&|zone| zone.soa.expire)),
            minimum: plan.soa.minimum.map_or(member_minimum, |minimum| minimum.min(member_minimum)),
        };
        let ttl = plan.soa.ttl.unwrap_or_else(|| smallest(&|zone| zone.soa_rrset().ttl));
        let mname = match (&plan.mname, &plan.ns) {
            (Some(mname), _) => mname,
            (None, NsPolicy::Listed(listed)) => listed.first().unwrap_or(&plan.server_name),
            (None, _) => &plan.server_name,
        };
        let member_rname = zones().next().and_then(|zone| {
            let soa = zone.soa_rrset().as_set();
            soa.first_name(soa.first_name(0)?.as_wire().len())
        });
        let rname = match (&plan.rname, &member_rname) {
            (Some(rname), _) => rname.as_wire(),
            (None, Some(rname)) => rname.as_wire(),
            (None, None) => mname.as_wire(),
        };
        let soa = RRset::build(rtype::SOA, ttl, vec![soa.to_rdata(mname.as_wire(), rname)]);
        let ns = RRset::build(rtype::NS, plan.ns_ttl, servers.iter().map(Name::as_wire).collect());
        let mut rrsets: Vec<_> = merged.iter().cloned().chain([soa, ns].into_iter().flatten().map(Arc::new)).collect();
        rrsets.sort_by_key(|rrset| rrset.rtype);
        rrsets.into()
    }

    /// The names of the region's NS set.
    pub(super) fn name_servers(&mut self, members: &Members) -> Vec<Name> {
        self.ns_fallback = false;
        let listed = |zone: &Arc<Zone>| -> Vec<Name> { zone.name_servers().collect() };
        let mut sets = members.iter().flatten().map(listed);
        let chosen: Vec<Name> = match &self.plan.ns {
            NsPolicy::Listed(names) => names.clone(),
            NsPolicy::Union => sets.flatten().collect(),
            NsPolicy::Intersection => {
                let mut common = sets.next().unwrap_or_default();
                sets.for_each(|set| common.retain(|name| set.contains(name)));
                common
            }
        };
        if chosen.is_empty() {
            self.ns_fallback = true;
            return vec![self.plan.server_name.clone()];
        }
        chosen
    }
}

/// The names of a zone's NS set that lie within the zone and have no address in it.
pub(super) fn servers_without_address(zone: &Zone) -> Vec<Name> {
    let has_address = |name: &Name| zone.get(name.as_wire()).is_some_and(Node::has_address);
    zone.name_servers().filter(|name| name.is_within(&zone.origin) && !has_address(name)).collect()
}

/// The members that list nobody but their own primary as name server, where the region's NS set is made of theirs: such
/// a primary does not serve the region.
pub(super) fn members_alone(plan: &RegionPlan, members: &Members) -> Vec<Name> {
    if matches!(plan.ns, NsPolicy::Listed(_)) {
        return Vec::new();
    }
    let is_alone = |zone: &Zone| {
        let servers: Vec<Name> = zone.name_servers().collect();
        zone.soa_rrset().as_set().first_name(0).is_some_and(|primary| servers == [primary.to_name()])
    };
    let pairs = plan.members.iter().zip(members);
    pairs.filter(|(_, zone)| zone.as_deref().is_some_and(is_alone)).map(|(member, _)| member.clone()).collect()
}
