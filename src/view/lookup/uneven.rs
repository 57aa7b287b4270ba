//! Names of which members have addresses of different families.
//!
//! Nearness counts by type: where home has A records alone, its clients get AAAA records of the next member, and most of
//! them prefer these.
//!
//! Cost: O(members) look-ups of the name, and an explanation for each member that lacks a family.

use super::client::Seen;
use super::client::report::UnevenReport;
use super::report::LookupStep;
use crate::keeper::{RegionSnapshot, Snapshot};
use crate::publish::Served;
use crate::zone::{Owner, Zone};
use wire::name::Name;
use wire::rr::{TypeName, rtype};

/// Tells the members that lack a family of addresses which others have, if they are homes.
pub fn add_uneven(view: &Snapshot, served: &Served, zone: &Zone, wanted: Option<u16>, step: &mut LookupStep) {
    let node = zone.get(step.asked().as_wire()).filter(|_| step.has_records());
    let (Some(node), Some(region)) = (node, view.regions.get(&served.origin)) else { return };
    let entry = served.selections.entry(node.owner());
    if entry.is_none_or(|entry| !entry.is_uneven) {
        return;
    }
    let homes = (0..).zip(view.published.clients.homes());
    for (home, name) in homes.filter(|(_, name)| region.plan.members.contains(name)) {
        for (has, lacks) in [(rtype::A, rtype::AAAA), (rtype::AAAA, rtype::A)] {
            let member = region.plan.members.iter().position(|member| member == name);
            let has_own = |kind: u16| member.is_some_and(|member| gives(region, member, node.owner(), kind));
            if !has_own(has) || has_own(lacks) || wanted.is_some_and(|wanted| wanted != has && wanted != lacks) {
                continue;
            }
            let Some(set) = node.get(lacks) else { continue };
            let nearest = served.selections.find(node.owner(), set).and_then(|selection| {
                let told = Seen::of_home(home).explain(served, zone, node.owner(), selection);
                told.candidates.iter().find(|one| one.is_reached)?.member
            });
            // What one member alone gives has no order.
            let only = || (0..region.plan.members.len()).find(|member| gives(region, *member, node.owner(), lacks));
            let from = nearest.map(usize::from).or_else(only);
            let from: Option<&Name> = from.and_then(|from| region.plan.members.get(from));
            let text = |kind: u16| TypeName(kind).to_string();
            step.uneven.extend(from.map(|from| UnevenReport {
                home: name.clone(),
                has: text(has),
                lacks: text(lacks),
                from: from.clone(),
            }));
        }
    }
}

/// Returns true if a region takes records of a type of a member at a name.
fn gives(region: &RegionSnapshot, member: usize, labels: &[u8], kind: u16) -> bool {
    let taken = region.members.get(member).and_then(|member| member.taken.as_ref());
    taken.and_then(|zone| zone.get_at(&Owner::new(labels))).is_some_and(|node| node.get(kind).is_some())
}
