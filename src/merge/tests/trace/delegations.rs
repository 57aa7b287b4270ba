//! Members that are not heard at a name because some member delegates it, or a name above it.
//!
//! The rule of the merge once more, out of the zones alone: from the origin down to the name, each cut either stands
//! for the members with the first one's NS set, and then for nobody else, or falls because some member has
//! authoritative data there.
//!
//! Cost: O(labels × members), and O(names of the members) for each cut at or above the name.

use super::Walk;
use crate::merge::{ConflictKind, is_dropped};
use crate::zone::{Node, Zone};
use std::collections::{BTreeMap, BTreeSet};
use wire::name::Name;
use wire::rr::{self, rtype};

/// Members that are not heard, each with the reason and the member whose records did it.
pub(super) type Losses = BTreeMap<usize, (ConflictKind, usize)>;

impl Walk<'_> {
    /// The members that are not heard at the name.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = Losses::new();
        for cut in self.below_origin(self.name).iter().rev() {
            let delegating = self.contributing().filter(|(member, zone)| self.delegates(*member, zone, cut));
            let delegating: Vec<(usize, &Zone)> =
                delegating.filter(|(member, _)| !losses.contains_key(member)).collect();
            let Some(&(first, zone)) = delegating.first() else { continue };
            let holder = self.contributing().find(|(member, zone)| self.has_authority(*member, zone, cut));
            if let Some((by, _)) = holder {
                let fallen = delegating.iter().map(|(member, _)| (*member, (ConflictKind::DelegationAboveData, by)));
                losses.extend(fallen);
                continue;
            }
            let servers = self.servers(first, zone, cut);
            for (member, zone) in self.contributing() {
                let kind = match delegating.iter().any(|(delegating, _)| *delegating == member) {
                    true if self.servers(member, zone, cut) == servers => continue,
                    true => ConflictKind::DifferentDelegations,
                    false => ConflictKind::HiddenByDelegation,
                };
                losses.entry(member).or_insert((kind, first));
            }
            break;
        }
        losses
    }

    /// A name of the region and those above it, without the origin.
    fn below_origin(&self, name: &Name) -> Vec<Name> {
        let names = std::iter::successors(Some(name.clone()), Name::parent);
        names.take_while(|name| *name != self.plan.origin).collect()
    }

    /// The node of a member at a name of the region that is not excluded.
    fn node<'z>(&self, member: usize, zone: &'z Zone, name: &Name) -> Option<Node<'z>> {
        let node = self.name_in(member, name).and_then(|there| zone.get(there.as_wire()));
        node.filter(|_| !self.plan.excludes(name))
    }

    /// Returns true if a member delegates a name.
    fn delegates(&self, member: usize, zone: &Zone, name: &Name) -> bool {
        self.node(member, zone, name).is_some_and(|node| node.get(rtype::NS).is_some())
    }

    /// The name servers to which a member delegates a name.
    fn servers(&self, member: usize, zone: &Zone, name: &Name) -> BTreeSet<Vec<u8>> {
        let set = self.node(member, zone, name).and_then(|node| node.get(rtype::NS));
        set.into_iter().flat_map(|set| set.rdatas()).map(|rdata| rr::fold(rtype::NS, rdata)).collect()
    }

    /// Returns true if a member has data at or below a cut that is neither at nor below a cut of its own.
    fn has_authority(&self, member: usize, zone: &Zone, cut: &Name) -> bool {
        if zone.cuts > 0 && self.below_origin(cut).iter().any(|above| self.delegates(member, zone, above)) {
            return false;
        }
        let end = cut.owner_in(&self.plan.origin);
        let is_authoritative = |node: Node<'_>| {
            let moved = zone.name_of(node).replace_suffix(&zone.origin, &self.plan.origin);
            let Some(Ok(name)) = moved.filter(|_| node.rrsets().any(|set| !is_dropped(set.rtype, false))) else {
                return false;
            };
            name.is_within(cut)
                && !self.plan.excludes(&name)
                && !(zone.cuts > 0 && self.below_origin(&name).iter().any(|above| self.delegates(member, zone, above)))
        };
        // Names are only made of the few that may be meant.
        zone.nodes().filter(|node| node.owner().ends_with(end)).any(is_authoritative)
    }
}
