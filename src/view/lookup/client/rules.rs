//! Rules that made an answer, in the words of the configuration.
//!
//! Cost: O(members).

use super::report::count;
use crate::config::format_duration;
use crate::merge::{AnswersPlan, NamePattern};
use crate::select::{Chosen, Explained, Order, Orders, Pick, Prefer, Selection, Services, Treatment};
use wire::name::Name;

/// What there is to know of the answers from a set.
pub struct Rules<'a> {
    pub plan: Option<&'a AnswersPlan>,
    pub treatment: Treatment,
    /// The exception that counts for the name.
    pub pattern: Option<&'a NamePattern>,
    pub selection: &'a Selection,
    pub told: &'a Explained,
    pub orders: &'a Orders,
    /// The client's home, if it counts in the zone.
    pub home: Option<&'a Name>,
}

impl Rules<'_> {
    /// Which records of a set an answer has, in words.
    pub fn explanation(&self, records: u32) -> String {
        let told = self.told;
        let ends_elsewhere = told.order == Order::Drawn && self.treatment.steering.prefer == Prefer::Nearest;
        let answered = told.candidates.iter().map(|one| one.answered).sum::<Option<u32>>();
        match &told.chosen {
            Chosen::Whole if self.selection.is_by_home() => format!("all {records} records, no member first"),
            Chosen::Whole => format!("all {records} records"),
            Chosen::Fixed(_) if self.selection.pick().is_none() && told.candidates.is_empty() => {
                format!("every client gets the same {} of {records} records", self.selection.most())
            }
            Chosen::Fixed(chosen) => format!("these {} of {records} records, always in this order", chosen.len()),
            Chosen::Turning(chosen) => {
                let turns = match told.order {
                    Order::Alike => "in turns",
                    Order::Nearest => "in turns within a member",
                    Order::Drawn => "those of a drawn member first",
                };
                format!("these {} of {records} records, {turns}", chosen.len())
            }
            Chosen::Changing if ends_elsewhere => {
                format!("the records of a drawn member of {records}, others each time")
            }
            Chosen::Changing => {
                let most = answered.filter(|_| told.order == Order::Nearest).unwrap_or(self.selection.most());
                format!("{most} of {records} records, others each time")
            }
        }
    }

    /// All rules, those first that decide on members.
    pub fn list(&self) -> Vec<String> {
        let all =
            [self.steering(), self.near(), self.stale(), self.weights(), self.end(), self.priorities(), self.limit()];
        let shares = "shares of drains do not count, because nobody else gives records";
        let home_only = "home_only does not count, because nothing else is left";
        let set_aside = [(self.told.has_no_shares, shares), (self.told.has_no_home_only, home_only)];
        let set_aside = set_aside.into_iter().filter(|(is_so, _)| *is_so).map(|(_, rule)| rule.to_owned());
        all.into_iter().flatten().chain(set_aside).collect()
    }

    /// The exception by which a rule holds.
    fn by_pattern(&self) -> String {
        self.pattern.map(|pattern| format!(" for \"{pattern}\"")).unwrap_or_default()
    }

    /// To which members clients are led.
    fn steering(&self) -> Option<String> {
        let steering = self.treatment.steering;
        let prefer = match steering.prefer {
            Prefer::Off => return None,
            Prefer::Order => "prefer = \"order\"".to_owned(),
            Prefer::Nearest => format!("prefer = \"nearest\", at_least = {}", steering.at_least),
        };
        let whom = if self.told.order == Order::Alike { " leads only clients with a home" } else { "" };
        self.selection.is_by_home().then(|| prefer + &self.by_pattern() + whom)
    }

    /// The members that follow the home.
    fn near(&self) -> Option<String> {
        let plan = self.plan.filter(|_| self.told.order == Order::Nearest)?;
        let (home, near) = plan.near.iter().find(|(home, _)| Some(home) == self.home)?;
        let near: Vec<String> = near.iter().map(Name::to_string).collect();
        Some(format!("near {home}: {}", near.join(", ")))
    }

    /// Members that come last because nobody has refreshed them.
    fn stale(&self) -> Option<String> {
        let after = self.plan.and_then(|plan| plan.stale_after).filter(|_| self.told.order != Order::Alike)?;
        let stale = self.orders.stale();
        let is_stale = |member: u16| stale.get(usize::from(member)).is_some_and(|stale| *stale);
        self.told.candidates.iter().filter_map(|one| one.member).find(|member| is_stale(*member))?;
        let last = match stale.iter().all(|stale| *stale) {
            true => "no member was refreshed since, so none comes last",
            false => "members not refreshed for longer come last",
        };
        Some(format!("stale_after = {}: {last}", format_duration(after)))
    }

    /// The draw for clients without home.
    fn weights(&self) -> Option<String> {
        (self.told.order == Order::Drawn)
            .then(|| "weights: for a client without home, each answer draws the member that comes first".to_owned())
    }

    /// Where the answer ends.
    fn end(&self) -> Option<String> {
        let reach = self.told.reach?;
        let at_least = u32::from(self.treatment.steering.at_least);
        let wanted = match reach.wanted < at_least {
            true => format!("at_least = {at_least}, of which {} fit", reach.wanted),
            false => format!("at_least = {at_least}"),
        };
        if reach.counted < reach.wanted {
            return Some(format!("{} records count, below {wanted}: all members are needed", reach.counted));
        }
        let last = self.told.candidates.iter().rfind(|one| one.is_reached)?;
        let last = self.orders.members().get(usize::from(last.member?))?;
        Some(format!("ends behind {last}: {} count up to there, {wanted}", count(reach.counted, "record")))
    }

    /// What clients are told by priorities.
    fn priorities(&self) -> Option<String> {
        if !self.told.is_by_priority || self.treatment.steering.services != Services::Priority {
            return None;
        }
        let most = self.selection.most();
        let places = match self.selection.is_cut() {
            true => {
                format!("; the nearest has {} of {most} places while others have records", most - most.div_ceil(4))
            }
            false => String::new(),
        };
        Some(format!("srv = \"priority\": 1000 more for each member that is nearer{places}"))
    }

    /// The limit on the records of an answer.
    fn limit(&self) -> Option<String> {
        let pick = match self.treatment.law.pick {
            Pick::Rotate => "rotate",
            Pick::Client => "client",
        };
        let by = self.by_pattern();
        match self.treatment.law.max {
            Some(max) if self.selection.is_cut() => Some(format!("max = {max}, pick = \"{pick}\"{by}")),
            _ if matches!(self.told.chosen, Chosen::Fixed(_)) => Some(format!("pick = \"{pick}\"{by}")),
            _ => None,
        }
    }
}
