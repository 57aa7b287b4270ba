//! Orders: which member of a region is how near to the clients of which home, at one moment.
//!
//! A home is a zone that has clients. A home that is a member comes first for them, then the members that the plan says
//! are near, then all others in their order. Members that nobody has refreshed for long come after those that are fresh,
//! for their own clients, too. A home that is neither a member nor said to be near to any is no home in this region.
//!
//! Cost: O(homes × members) to make and in memory, two octets each; O(1) for a look-up.

use super::tally::SteeredTally;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use wire::name::Name;

/// What a region knows of the clients of all homes.
#[derive(Clone, Debug)]
pub struct Orders {
    /// By the number of the home.
    homes: Box<[Option<Nearness>]>,
    /// Shares of the members in the answers to clients without a home; empty where the records decide.
    weights: Box<[u32]>,
    /// Members that were not refreshed for long, in the order of the members.
    stale: Box<[bool]>,
    /// True if some member is fresh, so that those which are not come last.
    has_fresh: bool,
    /// The members, whose names choose the clients that a share of a drain concerns.
    members: Arc<[Name]>,
    pub tally: Arc<SteeredTally>,
}

/// How near the members are to the clients of one home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearness {
    /// The member that is the home itself.
    pub member: Option<u16>,
    /// The place of each member, from 0.
    ranks: Box<[u16]>,
}

/// What orders are made of.
pub struct OrdersPlan<'p> {
    /// All homes, by number.
    pub homes: &'p [Name],
    pub members: &'p [Name],
    pub near: &'p [(Name, Vec<Name>)],
    pub weights: &'p [(Name, u32)],
    /// Members that were not refreshed for long, in the order of the members.
    pub stale: &'p [bool],
}

impl Default for Orders {
    /// Those of a zone without members.
    fn default() -> Orders {
        let tally = Arc::new(SteeredTally::new(&[], &[], None));
        Orders { homes: [].into(), weights: [].into(), stale: [].into(), has_fresh: false, members: [].into(), tally }
    }
}

impl Orders {
    /// Those of all zones without members, which share them.
    pub fn none() -> Arc<Orders> {
        static NONE: LazyLock<Arc<Orders>> = LazyLock::new(Arc::default);
        NONE.clone()
    }

    /// Makes the orders; counting goes on where it was.
    pub fn new(plan: &OrdersPlan<'_>, before: Option<&Orders>) -> Orders {
        let members = plan.members.len();
        let has_fresh = plan.stale.iter().any(|stale| !stale);
        let is_stale = |member: usize| has_fresh && plan.stale.get(member).is_some_and(|stale| *stale);
        let near: HashMap<&Name, &[Name]> = plan.near.iter().map(|(home, near)| (home, &near[..])).collect();
        let near = |home: &Name| near.get(home).copied();
        let numbers: HashMap<&Name, usize> = plan.members.iter().zip(0..).collect();
        let number = |member: &Name| numbers.get(member).copied();
        let nearness = |home: &Name| {
            let (own, near) = (number(home), near(home));
            if own.is_none() && near.is_none() {
                return None;
            }
            let first = own.into_iter().chain(near.unwrap_or_default().iter().filter_map(number));
            let mut order: Vec<usize> = Vec::with_capacity(members);
            let mut is_placed = vec![false; members];
            for member in first.chain(0..members) {
                if !std::mem::replace(&mut is_placed[member], true) {
                    order.push(member);
                }
            }
            order.sort_by_key(|member| is_stale(*member));
            let mut ranks = vec![0; members];
            order.iter().zip(0u16..).for_each(|(member, rank)| ranks[*member] = rank);
            Some(Nearness { member: own.map(|own| own as u16), ranks: ranks.into() })
        };
        let weight = |(member, name): (usize, &Name)| {
            let own = plan.weights.iter().find(|(of, _)| of == name).map_or(1, |(_, weight)| *weight);
            if is_stale(member) { 0 } else { own }
        };
        let weights = match plan.weights {
            [] => Box::default(),
            _ => plan.members.iter().enumerate().map(weight).collect(),
        };
        let tally = match before.map(|before| &before.tally) {
            Some(tally) if tally.is_for(plan.homes, plan.members) => tally.clone(),
            tally => Arc::new(SteeredTally::new(plan.homes, plan.members, tally.map(Arc::as_ref))),
        };
        let homes = plan.homes.iter().map(nearness).collect();
        let (stale, members) = (plan.stale.into(), plan.members.into());
        Orders { homes, weights, stale, has_fresh, members, tally }
    }

    /// How near the members are to the clients of a home; none if it is no home in this region.
    pub fn nearness(&self, home: u16) -> Option<&Nearness> {
        self.homes.get(usize::from(home))?.as_ref()
    }

    /// The members.
    pub fn members(&self) -> &[Name] {
        &self.members
    }

    /// Members that were not refreshed for long, in the order of the members.
    pub fn stale(&self) -> &[bool] {
        &self.stale
    }

    /// Returns true if a member comes after all others: it was not refreshed for long, and some other was.
    pub fn is_last(&self, member: u16) -> bool {
        self.has_fresh && self.stale.get(usize::from(member)).is_some_and(|stale| *stale)
    }

    /// Shares of the members in the answers to clients without a home; empty where the records decide.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }
}

impl Nearness {
    /// The place of a member, from 0; of one that is none, the last.
    pub fn rank(&self, member: u16) -> u16 {
        self.ranks.get(usize::from(member)).copied().unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::parse(text).unwrap()).collect()
    }

    /// Members of a region of four, the nearest first.
    fn order(home: &str, near: &[(&str, &[&str])], stale: [bool; 4]) -> Option<Vec<u16>> {
        let (homes, members) = (names(&[home]), names(&["w1", "w2", "w3", "w4"]));
        let near: Vec<(Name, Vec<Name>)> =
            near.iter().map(|(of, near)| (Name::parse(of).unwrap(), names(near))).collect();
        let plan = OrdersPlan { homes: &homes, members: &members, near: &near, weights: &[], stale: &stale };
        let orders = Orders::new(&plan, None);
        let nearness = orders.nearness(0)?;
        let mut order: Vec<u16> = (0..4).collect();
        order.sort_by_key(|member| nearness.rank(*member));
        Some(order)
    }

    #[test]
    fn home_comes_first_then_what_is_near_then_the_rest() {
        let fresh = [false; 4];
        assert_eq!(order("w3", &[], fresh).unwrap(), [2, 0, 1, 3]);
        assert_eq!(order("w1", &[("w1", &["w3", "w2"])], fresh).unwrap(), [0, 2, 1, 3]);
        assert_eq!(order("e1", &[("e1", &["w4"])], fresh).unwrap(), [3, 0, 1, 2], "a home need not be a member");
        assert_eq!(order("e1", &[], fresh), None);
    }

    #[test]
    fn stale_members_come_last_unless_all_are() {
        assert_eq!(order("w3", &[], [false, false, true, false]).unwrap(), [0, 1, 3, 2], "for their own clients, too");
        assert_eq!(order("w3", &[], [true, false, true, false]).unwrap(), [1, 3, 2, 0]);
        assert_eq!(order("w3", &[], [true; 4]).unwrap(), [2, 0, 1, 3]);
    }

    #[test]
    fn weights_are_one_unless_said_and_nothing_for_stale_members() {
        let members = names(&["w1", "w2", "w3"]);
        let weights = [(members[0].clone(), 3)];
        let plan =
            OrdersPlan { homes: &[], members: &members, near: &[], weights: &weights, stale: &[false, true, false] };
        assert_eq!(Orders::new(&plan, None).weights(), [3, 0, 1]);
    }

    #[test]
    fn counts_go_on_for_members_and_homes_that_stay() {
        let (homes, members) = (names(&["w1", "e1"]), names(&["w1", "w2"]));
        let plan = |stale| OrdersPlan { homes: &homes, members: &members, near: &[], weights: &[], stale };
        let first = Orders::new(&plan(&[false; 2]), None);
        first.tally.count(Some(0), Some(1), Some(false));
        first.tally.count(Some(1), Some(0), None);
        first.tally.count(None, None, None);
        let next = Orders::new(&plan(&[true, false]), Some(&first));
        assert!(Arc::ptr_eq(&next.tally, &first.tally));
        let (homes, members) = (names(&["e2", "w1"]), names(&["w2", "w3", "w4"]));
        let others = OrdersPlan { homes: &homes, members: &members, ..plan(&[false; 3]) };
        let after = Orders::new(&others, Some(&next)).tally;
        assert_eq!([0, 1].map(|home| after.served(Some(home), Some(0))), [0, 1], "by their names");
        assert_eq!((after.served(None, None), after.served(Some(0), Some(1))), (1, 0));
        assert_eq!([0, 1].map(|home| after.expected(home)), [[0, 0], [0, 1]]);
    }
}
