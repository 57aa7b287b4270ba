//! Steering of a region's clients, as operators see it: which members are near to which home, and where answers went.
//!
//! Cost: O(homes × members) a region that steers.

use super::page::parts::count;
use crate::clients::{Clients, Home};
use crate::keeper::Snapshot;
use crate::publish::Served;
use crate::select::{Nearness, Orders};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use wire::name::Name;

/// Homes that the text tells of; `--json` has all.
const LISTED: usize = 8;

/// Whose clients get which members' records first at present, and where their answers came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Steering")]
pub struct SteeringReport {
    /// Zones of which clients are known, as the configuration has them.
    pub homes: Vec<HomeReport>,
    /// Answers to clients without a home here, since the start.
    pub answers_without_home: u64,
    /// Names at which some members have addresses of one family only.
    pub uneven_names: u32,
}

/// A zone of which clients are known, in one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HomeReport {
    pub home: Name,
    /// Prefixes of its clients.
    pub prefixes: usize,
    /// The members, the nearest first; none if it is no home in this region.
    pub members: Vec<NearMember>,
    /// Answers to its clients since the start that came from it.
    pub answers_home: u64,
    /// Those that came from other members.
    pub answers_elsewhere: u64,
}

/// A member, seen from a home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NearMember {
    pub zone: Name,
    /// True if it was not refreshed for longer than `stale_after`.
    pub is_stale: bool,
}

impl SteeringReport {
    /// Tells how the clients of a region are steered; none if they are not.
    pub fn of(snapshot: &Snapshot, region: &Name) -> Option<SteeringReport> {
        snapshot.answers.get(region).filter(|plan| plan.steers())?;
        let served = snapshot.published.get(region)?;
        Some(SteeringReport::new(served, &snapshot.published.clients))
    }

    /// Reads orders and counters.
    fn new(served: &Served, clients: &Clients) -> SteeringReport {
        let orders = &*served.selections.orders;
        let homes = (0..).zip(clients.homes()).zip(clients.prefixes_by_home());
        let homes = homes.map(|((number, home), prefixes)| home_report(orders, number, home, prefixes)).collect();
        let uneven_names = served.selections.uneven();
        SteeringReport { homes, answers_without_home: answers(orders, None).iter().sum(), uneven_names }
    }

    /// One line for each home, of many the first, and one for clients without any.
    pub fn lines(&self) -> Vec<String> {
        let (here, away): (Vec<&HomeReport>, Vec<&HomeReport>) =
            self.homes.iter().partition(|home| !home.members.is_empty());
        let mut lines: Vec<String> = here.iter().take(LISTED).map(|home| home.describe()).collect();
        if let more @ 1.. = here.len().saturating_sub(LISTED) {
            lines.push(format!("and {more} more homes; --json has all"));
        }
        if !away.is_empty() {
            let mut names: Vec<String> = away.iter().take(LISTED).map(|home| home.home.to_string()).collect();
            if let more @ 1.. = away.len().saturating_sub(LISTED) {
                names.push(format!("and {more} more"));
            }
            lines.push(format!("no home here: {}", names.join(", ")));
        }
        lines.push(format!("clients without home: {}", count(self.answers_without_home, "answer", "answers")));
        lines.extend(self.uneven());
        lines
    }

    /// Tells of names with addresses of different families; none if there are no such names.
    pub fn uneven(&self) -> Option<String> {
        let names = match self.uneven_names {
            0 => return None,
            1 => "1 name has".to_owned(),
            names => format!("{names} names have"),
        };
        Some(format!(
            "{names} addresses of one family only at some members, whose clients get the other from elsewhere"
        ))
    }
}

impl HomeReport {
    /// The home in one line.
    fn describe(&self) -> String {
        let HomeReport { home, prefixes, answers_home, answers_elsewhere, .. } = self;
        let (prefixes, members) = (count(*prefixes, "prefix", "prefixes"), self.order());
        let answers_home = count(*answers_home, "answer", "answers");
        format!("clients of {home} ({prefixes}): {members}; {answers_home} from home, {answers_elsewhere} from others")
    }

    /// The members, the nearest first.
    pub fn order(&self) -> String {
        let mut text = String::new();
        for (place, NearMember { zone, is_stale }) in self.members.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            _ = write!(text, "{comma}{zone}{}", if *is_stale { " (stale)" } else { "" });
        }
        text
    }
}

/// Describes a home.
fn home_report(orders: &Orders, number: Home, home: &Name, prefixes: usize) -> HomeReport {
    let nearness = orders.nearness(number);
    let own = nearness.and_then(|nearness| nearness.member).map(usize::from);
    let answers = answers(orders, Some(number));
    let answers_home = own.and_then(|own| answers.get(own)).copied().unwrap_or_default();
    HomeReport {
        home: home.clone(),
        prefixes,
        members: nearness.map(|nearness| near_members(orders, nearness)).unwrap_or_default(),
        answers_home,
        answers_elsewhere: answers.iter().sum::<u64>() - answers_home,
    }
}

/// Answers to the clients of a home, or of none: those from each member, and at last those from nobody certain.
fn answers(orders: &Orders, home: Option<Home>) -> Vec<u64> {
    let members = (0..).zip(orders.members()).map(|(member, _)| Some(member));
    members.chain([None]).map(|member| orders.tally.served(home, member)).collect()
}

/// The members, the nearest first.
fn near_members(orders: &Orders, nearness: &Nearness) -> Vec<NearMember> {
    let mut members: Vec<(u16, &Name)> = (0..).zip(orders.members()).collect();
    members.sort_by_key(|(member, _)| nearness.rank(*member));
    let stale = |member: u16| orders.stale().get(usize::from(member)).is_some_and(|stale| *stale);
    members.into_iter().map(|(member, zone)| NearMember { zone: zone.clone(), is_stale: stale(member) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::State;
    use crate::select::OrdersPlan;
    use std::sync::Arc;

    #[test]
    fn homes_are_told_with_the_order_of_their_members() {
        let names = |texts: &[&str]| -> Vec<Name> { texts.iter().map(|text| Name::parse(text).unwrap()).collect() };
        let (homes, members) = (names(&["w2.x", "off.x", "far.x"]), names(&["w1.x", "w2.x"]));
        let near = vec![(homes[2].clone(), vec![members[0].clone()])];
        let prefixes = [("10.1.0.0/16", 0), ("10.2.0.0/16", 0), ("10.3.0.0/16", 2)];
        let prefixes: Vec<_> = prefixes.map(|(prefix, home)| (prefix.parse().unwrap(), home)).to_vec();
        let clients = Clients::new(homes.clone(), &prefixes).unwrap();
        let mut served = Served::new(Name::parse("w.x").unwrap(), State::Ok, None);
        let orders = OrdersPlan { homes: &homes, members: &members, near: &near, weights: &[], stale: &[false, true] };
        served.selections.orders = Arc::new(Orders::new(&orders, None));
        let tally = &served.selections.orders.tally;
        for (home, member) in [(Some(0), Some(1)), (Some(0), Some(0)), (Some(0), None), (None, Some(0)), (None, None)] {
            tally.count(home, member, None);
        }
        let mut report = SteeringReport::new(&served, &clients);
        let expected = [
            "clients of w2.x. (2 prefixes): w1.x., w2.x. (stale); 1 answer from home, 2 from others",
            "clients of far.x. (1 prefix): w1.x., w2.x. (stale); 0 answers from home, 0 from others",
            "no home here: off.x.",
            "clients without home: 2 answers",
        ];
        assert_eq!(report.lines(), expected);
        report.homes = vec![report.homes[0].clone(); 20];
        report.uneven_names = 2;
        assert_eq!(report.lines()[8], "and 12 more homes; --json has all");
        assert!(report.lines()[10].starts_with("2 names have addresses of one family only"));
    }
}
