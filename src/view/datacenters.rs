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
use std::cmp::Ordering;
use std::collections::HashMap;
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

/// The order in which people count: dc-2 before dc-10.
pub fn compare_labels(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one.as_bytes(), other.as_bytes());
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (number, of_other) = (take_number(&mut left), take_number(&mut right));
            number.len().cmp(&of_other.len()).then_with(|| number.cmp(of_other))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            a.cmp(b)
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Takes the digits with which a text begins; zeros in front of others count for nothing.
fn take_number<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let end = text.iter().position(|octet| !octet.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

/// All datacenters with their labels, in the order of these.
pub fn datacenters(report: &Report) -> Vec<(String, Datacenter<'_>)> {
    let zones: HashMap<&Name, &ZoneReport> = report.zones.iter().map(|zone| (&zone.kept.zone, zone)).collect();
    let mut found = HashMap::<String, Datacenter<'_>>::new();
    for region in &report.regions {
        for member in &region.kept.members {
            let zone = zones.get(&member.zone).copied();
            let datacenter = found.entry(label_of(&member.zone)).or_default();
            let known = |known: &&ZoneReport| known.kept.zone == member.zone;
            datacenter.zones.extend(zone.filter(|_| !datacenter.zones.iter().any(known)));
            datacenter.memberships.push(Membership { region, member, zone });
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|(one, _), (other, _)| compare_labels(one, other));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_the_order_of_their_numbers() {
        let mut labels = ["dc-10", "dc-2", "dc", "dc-02", "dc-2b", "dc-1", "ab", "dc-2-10", "dc-2-9", "dc-"];
        labels.sort_by(|one, other| compare_labels(one, other));
        assert_eq!(labels, ["ab", "dc", "dc-", "dc-1", "dc-02", "dc-2", "dc-2-9", "dc-2-10", "dc-2b", "dc-10"]);
    }

    #[test]
    fn a_datacenter_is_the_first_label() {
        let label = |text: &str| label_of(&Name::parse(text).unwrap());
        assert_eq!(label("us-west-1.cns.example.com"), "us-west-1");
        assert_eq!(label("US-West-1.example"), "us-west-1");
        assert_eq!(label("a\\.b.example"), "a\\.b");
        assert_eq!(label("."), ".");
    }
}
