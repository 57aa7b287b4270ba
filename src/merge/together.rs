//! Several regions merged anew at once, as at the start.
//!
//! Regions have members in common, so these are gone through once for all regions. Regions of the same versions of the
//! same members, in the same order, differ in nothing but the apex, as long as no rule looks at the region's own name:
//! what is below the apex is made once and shared, but for the few nodes that are odd.
//!
//! Invariant: each region comes out as if it had been merged alone.
//!
//! Cost: O(names of all members), and O(names) for each region that has other members than those before it, O(conflicts)
//! for the others. A region of which names need a look ([`Region::takes_shards`]) costs what it costs alone.

use super::full::{Told, United};
use super::{Members, Outcome, Region};
use crate::zone::{Node, RRsets, Union, Zone};
use std::collections::HashMap;
use std::time::Instant;
use wire::name::MAX_NAME_BYTES;

/// A region that is to be merged anew, and its members.
pub struct Anew<'r> {
    pub region: &'r mut Region,
    pub members: &'r Members,
}

/// Unions of members' zones to be made.
#[derive(Default)]
struct Wanted<'m> {
    zones: Vec<&'m Zone>,
    /// Owners of each zone at which regions have to look themselves.
    odd: Vec<Vec<&'m [u8]>>,
    /// Numbers of the zones by their places in memory.
    numbers: HashMap<*const Zone, usize>,
    choices: Vec<Choice>,
    /// The choices by their members' numbers in the plan's order, and by the region that has it for itself.
    known: HashMap<(Vec<Option<usize>>, Option<usize>), usize>,
}

/// A choice of zones.
struct Choice {
    /// One of the regions that have it, by number.
    region: usize,
    /// Positions in the plan of the members that contribute.
    positions: Vec<usize>,
    zones: Vec<usize>,
}

/// Merges all names of each region; shares what did not change with its present version. Returns the outcomes in order.
pub fn merge_together(anew: &mut [Anew<'_>], now: Instant) -> Vec<Outcome> {
    anew.iter_mut().for_each(|Anew { region, members }| region.delegations.rebuild(&region.plan, members));
    let mut wanted = Wanted::default();
    let numbers: Vec<Option<usize>> = anew.iter().enumerate().map(|(index, one)| wanted.add(index, one)).collect();
    let united = wanted.unite(anew);
    let merge = |(Anew { region, members }, number): (&mut Anew<'_>, Option<usize>)| {
        region.make_anew(members, number.map(|number| &united[number]), now)
    };
    anew.iter_mut().zip(numbers).map(merge).collect()
}

impl<'m> Wanted<'m> {
    /// Adds what a region has of its members; returns the number of that union, if it can have one.
    fn add(&mut self, region: usize, anew: &Anew<'m>) -> Option<usize> {
        let Anew { region: merged, members } = anew;
        if !merged.takes_shards(members) {
            return None;
        }
        let members: Vec<Option<usize>> =
            members.iter().map(|zone| zone.as_deref().map(|zone| self.number(zone))).collect();
        let alone = merged.looks_at_own_name().then_some(region);
        let present = members.iter().enumerate().filter_map(|(position, zone)| Some((position, (*zone)?)));
        let (positions, zones): (_, Vec<usize>) = present.unzip();
        let longest = MAX_NAME_BYTES - merged.plan.origin.as_wire().len();
        if zones.iter().any(|zone| self.odd[*zone].iter().any(|owner| owner.len() > longest)) {
            return None;
        }
        let Wanted { choices, known, .. } = self;
        Some(*known.entry((members, alone)).or_insert_with(|| {
            choices.push(Choice { region, positions, zones });
            choices.len() - 1
        }))
    }

    /// The number of a zone.
    fn number(&mut self, zone: &'m Zone) -> usize {
        let Wanted { zones, numbers, odd, .. } = self;
        *numbers.entry(std::ptr::from_ref(zone)).or_insert_with(|| {
            zones.push(zone);
            odd.push(zone.odd_owners());
            zones.len() - 1
        })
    }

    /// Makes the unions.
    fn unite(self, anew: &[Anew<'_>]) -> Vec<United<'m>> {
        let chosen: Vec<Vec<usize>> = self.choices.iter().map(|choice| choice.zones.clone()).collect();
        let unions = Union::of(&self.zones, &chosen, |number, owner, nodes| {
            // The apex comes later; names in between have nothing.
            if owner.is_empty() || nodes.iter().all(|(_, node)| node.is_empty()) {
                return (RRsets::default(), None);
            }
            let Choice { region, positions, .. } = &self.choices[number];
            let Anew { region, members } = &anew[*region];
            let nodes: Vec<(usize, Node<'_>)> = nodes.iter().map(|(place, node)| (positions[*place], *node)).collect();
            let merged = region.merge_owner(members, owner, &nodes);
            let is_told = merged.is_alike || !merged.conflicts.is_empty();
            let told = Told { owner: owner.into(), conflicts: merged.conflicts, is_alike: merged.is_alike };
            let there = || nodes.iter().find(|(_, node)| !node.is_empty()).map(|(_, node)| node.to_rrsets());
            // A name of which nothing is left is odd, and goes when the region looks at it.
            let rrsets = Some(merged.rrsets).filter(|rrsets| !rrsets.is_empty()).or_else(there);
            (rrsets.unwrap_or_default(), is_told.then_some(told))
        });
        let odd = |choice: &Choice| {
            let mut odd: Vec<&[u8]> = choice.zones.iter().flat_map(|zone| self.odd[*zone].iter().copied()).collect();
            odd.sort_unstable();
            odd.dedup();
            odd
        };
        unions.into_iter().zip(&self.choices).map(|(union, choice)| United { union, odd: odd(choice) }).collect()
    }
}
