//! Datacenters: the members of all regions, by the first label of their names, as `drain` takes them.
//!
//! A datacenter often has several zones, such as one for its public and one for its internal addresses; all that have its
//! label are its own.
//!
//! Cost: O(zones + members of all regions).

use super::page::parts::Mark;
use super::page::rows::member_mark;
use super::report::{RegionReport, Report, ZoneReport};
use crate::keeper::MemberStatus;
use std::collections::{BTreeMap, HashMap};
use wire::name::{self, Name};

/// A datacenter.
#[derive(Default)]
pub struct Datacenter<'r> {
    /// Its zones that are members of a region.
    pub zones: Vec<&'r ZoneReport>,
    /// The regions that they are members of.
    pub memberships: Vec<Membership<'r>>,
}

/// A zone of a datacenter as the member of one region.
#[derive(Clone, Copy)]
pub struct Membership<'r> {
    pub region: &'r RegionReport,
    pub member: &'r MemberStatus,
    /// None where the member is no zone of this configuration any more.
    pub zone: Option<&'r ZoneReport>,
}

impl Membership<'_> {
    /// The state in the region, and whether it will stay so.
    pub fn mark(&self) -> Mark {
        member_mark(self.member, self.zone)
    }
}

impl Datacenter<'_> {
    /// The worst of the states that its zones have in their regions.
    pub fn mark(&self) -> Mark {
        let marks = self.memberships.iter().map(Membership::mark);
        // Of several that are equally bad the first one is told.
        marks.reduce(|worst, mark| if mark.grade > worst.grade { mark } else { worst }).unwrap_or_default()
    }
}

/// The first label of a name, as text.
pub fn label_of(zone: &Name) -> String {
    let label = name::labels(zone.as_wire()).next().unwrap_or_default();
    Name::root().prepend(label).map_or_else(|_| zone.to_string(), |name| super::page::parts::short(&name))
}

/// All datacenters by their labels.
pub fn datacenters(report: &Report) -> BTreeMap<String, Datacenter<'_>> {
    let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
    let mut found = BTreeMap::<String, Datacenter<'_>>::new();
    for region in &report.regions {
        for member in &region.kept.members {
            let zone = zones.get(&member.zone).copied();
            let datacenter = found.entry(label_of(&member.zone)).or_default();
            let known = |known: &&ZoneReport| known.kept.zone == member.zone;
            datacenter.zones.extend(zone.filter(|_| !datacenter.zones.iter().any(known)));
            datacenter.memberships.push(Membership { region, member, zone });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datacenter_is_the_first_label() {
        let label = |text: &str| label_of(&Name::parse(text).unwrap());
        assert_eq!(label("us-west-1.cns.example.com"), "us-west-1");
        assert_eq!(label("US-West-1.example"), "us-west-1");
        assert_eq!(label("a\\.b.example"), "a\\.b");
        assert_eq!(label("."), ".");
    }
}
