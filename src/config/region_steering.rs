//! Steering of one region: its tables `steering`, `near` and `weights`, the addresses that only clients at home get, and what is
//! doubtful in them together.
//!
//! Invariants: whatever is named is a member of the region, may become one by a catalog, or is a home of `[clients]`;
//! weights stand only where clients are
//! steered, and some member has one.
//!
//! Cost: O(homes + members squared) for each region.
//!
//! RFCs: 2782 (priorities of SRV).

use crate::config::addresses::Addresses;
use crate::config::member_rules::{Foreseen, MemberRule};
use crate::config::names::{read_names, unquoted_names};
use crate::config::sections::Sections;
use crate::config::steering::{Draft, STEERING};
use crate::merge::{AnswersPlan, RegionPlan};
use crate::transfer::ZonePlan;
use settings::fields::Fields;
use settings::read::{Reader, shorten};
use settings::schema::{Table, did_you_mean};
use settings::tree::{Entry, Node, Value};
use std::collections::{HashMap, HashSet};
use wire::name::Name;

/// Members whose ranks fit into priorities of 16 bits, a thousand for each.
const MAX_RANKED: usize = 64;
/// Largest weight of a member.
const MAX_WEIGHT: u64 = 1000;
/// Homes that one warning names.
const NAMED: usize = 3;

/// A region as far as it is read.
pub struct Region<'r, 'n> {
    pub plan: &'r RegionPlan,
    /// Its table, if it has one.
    pub fields: Option<&'r Fields<'n>>,
    /// The region as messages name it.
    pub place: &'r str,
    /// What `addresses` says of all members, and of single ones.
    pub addresses: Vec<(Option<Name>, Addresses)>,
    /// By which zones of catalogs become members, and which there may be.
    pub rules: &'r [MemberRule],
    pub foreseen: Option<&'r Foreseen>,
}

impl Region<'_, '_> {
    /// Takes in how the region's clients are steered, and the names that are answered in another way.
    pub fn admit(&self, reader: &mut Reader<'_>, sections: &mut Sections<'_>) {
        let (origin, answers) = (&self.plan.origin, &mut sections.secondaries.answers);
        let homes: HashSet<&Name> = sections.homes.iter().collect();
        let Some(plan) = answers.plans.get_mut(origin) else { return };
        self.read(reader, plan, &sections.homes, &homes);
        if let Some(fields) = self.fields {
            answers.admit_names(reader, origin, fields, self.place);
        }
        let Some(plan) = answers.plans.get(origin) else { return };
        self.expect_homes_at_home(reader, &homes);
        let Some(at) = self.steered_at() else { return self.expect_steering(reader, plan) };
        self.expect_homes(reader, plan, &sections.homes, at);
        let is_copied = sections.secondaries.outgoing.get(origin).is_some_and(|out| !out.access.rules.is_empty())
            || sections.secondaries.targets.get(origin).is_some_and(|targets| !targets.is_empty());
        if is_copied {
            let place = self.place;
            let message = format!(
                "{place} steers its clients, and its secondaries do not: clients that ask those get all members' records"
            );
            reader.warn(at, message);
        }
    }

    /// Reads the tables of the region.
    fn read(&self, reader: &mut Reader<'_>, plan: &mut AnswersPlan, listed: &[Name], homes: &HashSet<&Name>) {
        for (member, Addresses { home_only, .. }) in &self.addresses {
            match member {
                _ if home_only.is_empty() => {}
                Some(member) => plan.members_home_only.push((member.clone(), home_only.clone())),
                None => plan.home_only = home_only.clone(),
            }
        }
        let mut draft = Draft::new();
        if let Some(fields) = self.fields {
            let place = format!("\"steering\" of {}", self.place);
            fields.read(reader, "steering", |r, _, node| STEERING.read(r, node, &place, &mut draft).map(drop));
            let near = fields.read(reader, "near", |r, key, node| self.read_near(r, key, node, listed, homes));
            let weights = fields.read(reader, "weights", |r, key, node| self.read_weights(r, key, node));
            plan.near = near.unwrap_or_default();
            plan.weights = weights.unwrap_or_default();
        }
        plan.usual.steering = draft.steering;
        plan.stale_after = draft.stale_after;
        for services in self.tables().filter_map(|table| table.get("srv")) {
            let (count, place) = (self.plan.members.len(), self.place);
            if matches!(&services.value, Value::Text(text) if text == "priority") && count > MAX_RANKED {
                let advice = "write srv = \"select\"";
                let message = format!("{place} has {count} members, priorities are for {MAX_RANKED} at most; {advice}");
                reader.error(services.at, message);
            }
        }
    }

    /// All tables `steering`: that of the region, and those of names.
    fn tables(&self) -> impl Iterator<Item = &Node> {
        let own = self.fields.and_then(|fields| fields.entry("steering")).map(|entry| &entry.node);
        let names = self.fields.and_then(|fields| fields.entry("names")).map(|entry| &entry.node.value);
        let names = match names {
            Some(Value::List(names)) => names.as_slice(),
            _ => &[],
        };
        own.into_iter().chain(names.iter().filter_map(|name| name.get("steering")))
    }

    /// Position at which clients are steered, even if by a value that is wrong; none if they are not.
    fn steered_at(&self) -> Option<usize> {
        let is_off = |prefer: &&Node| matches!(&prefer.value, Value::Text(text) if text == "off");
        self.tables().filter_map(|table| table.get("prefer")).find(|prefer| !is_off(prefer)).map(|prefer| prefer.at)
    }

    //--- Members ---

    /// Reads `near`.
    fn read_near(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        node: &Node,
        listed: &[Name],
        homes: &HashSet<&Name>,
    ) -> Option<Vec<(Name, Vec<Name>)>> {
        let wanted = "a table of zones of [clients] and lists of members";
        let Value::Table(entries) = &node.value else { return reader.wrong_type(key, node, wanted) };
        let (named, _) = read_names(reader, entries, "home", |entry| unquoted_names(entry, &NAMES_ALONE));
        let mut near = Vec::with_capacity(named.len());
        for (home, entry) in named {
            if !homes.contains(&home) {
                let (place, text) = (self.place, shorten(&entry.key));
                let known: Vec<String> = listed.iter().map(without_dot).collect();
                let otherwise = || "write the prefixes of its clients there, or remove it".to_string();
                let advice = did_you_mean(&without_dot(&home), known.iter().map(String::as_str), otherwise);
                reader.error(
                    entry.key_at,
                    format!("\"near\" of {place} names \"{text}\", which is not in [clients]; {advice}"),
                );
            }
            near.extend(self.read_nearest(reader, &home, entry).map(|members| (home, members)));
        }
        Some(near)
    }

    /// Reads the members that are the nearest to one home.
    fn read_nearest(&self, reader: &mut Reader<'_>, home: &Name, entry: &Entry) -> Option<Vec<Name>> {
        let (place, key) = (self.place, shorten(&entry.key));
        let items = reader.items(&key, &entry.node, false, "a list of members, the nearest first")?;
        if items.is_empty() {
            let advice = "write its nearest members, or remove it";
            return reader.refuse(entry.node.at, format!("\"near\" of {place} has nothing for \"{key}\"; {advice}"));
        }
        let one = |reader: &mut Reader<'_>, key: &str, node: &Node| {
            let text = reader.text(key, node, "the name of a member in quotes")?;
            let member = self.read_member(reader, "near", node.at, text)?;
            if member == *home {
                let advice = "its own clients have it as the nearest, remove it";
                return reader.refuse(node.at, format!("\"near\" of {place} lists \"{key}\" for itself; {advice}"));
            }
            Some(member)
        };
        let twice = |member: &Name| format!("\"near\" of {place} lists {member} twice; remove one");
        Some(reader.distinct(&key, items, one, Name::eq, twice))
    }

    /// Reads `weights`.
    fn read_weights(&self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<(Name, u32)>> {
        let wanted = "a table of members and numbers such as { \"us-west-1.cns.example.com\" = 3 }";
        let Value::Table(entries) = &node.value else { return reader.wrong_type(key, node, wanted) };
        let place = self.place;
        if entries.is_empty() {
            return reader.refuse(node.at, format!("\"weights\" of {place} are empty; write {wanted}, or remove them"));
        }
        if self.steered_at().is_none() {
            let advice = "write prefer = \"nearest\" or \"order\" in steering, or remove them";
            reader.error(node.at, format!("\"weights\" of {place} have no effect, because it steers nobody; {advice}"));
        }
        let (named, _) = read_names(reader, entries, "member", |entry| unquoted_names(entry, &NAMES_ALONE));
        let mut weights = Vec::with_capacity(named.len());
        for (_, entry) in named {
            let member = self.read_member(reader, key, entry.key_at, &entry.key);
            let weight = reader.integer(&shorten(&entry.key), &entry.node, 0..=MAX_WEIGHT);
            weights.extend(member.zip(weight));
        }
        let is_zero = |member: &Name| weights.contains(&(member.clone(), 0));
        // Those that a catalog brings have 1 unless it is said.
        if !self.plan.members.is_empty() && self.rules.is_empty() && self.plan.members.iter().all(is_zero) {
            reader.error(node.at, format!("\"weights\" of {place} are all 0; give a member 1"));
        }
        Some(weights)
    }

    /// Returns true if a zone is a member, or may become one by a catalog.
    fn may_have(&self, zone: &Name) -> bool {
        let is_coming = || self.foreseen.is_some_and(|foreseen| foreseen.has(zone));
        self.plan.members.contains(zone) || self.rules.iter().any(|rule| rule.may_bring(zone)) && is_coming()
    }

    /// Reads the name of a member of the region.
    fn read_member(&self, reader: &mut Reader<'_>, key: &str, at: usize, text: &str) -> Option<Name> {
        let member = reader.parse_name(at, text)?;
        if self.may_have(&member) {
            return Some(member);
        }
        let known: Vec<String> = self.plan.members.iter().map(without_dot).collect();
        let otherwise = || "write one of its members".to_string();
        let advice = did_you_mean(&without_dot(&member), known.iter().map(String::as_str), otherwise);
        reader.refuse(
            at,
            format!("\"{key}\" of {} names \"{}\", which is no member; {advice}", self.place, shorten(text)),
        )
    }

    //--- Doubts ---

    /// Warns of settings that only count where clients are steered.
    fn expect_steering(&self, reader: &mut Reader<'_>, plan: &AnswersPlan) {
        let others = ["at_least", "srv", "stale_after"];
        let written =
            self.tables().find(|table| others.iter().any(|key| table.get(key).is_some())).map(|table| table.at);
        let near = self.fields.and_then(|fields| fields.entry("near")).map(|entry| entry.key_at);
        if let Some(at) = written.or(near.filter(|_| !plan.near.is_empty())) {
            let advice = "write prefer = \"nearest\" or \"order\" in steering, or remove what is written for it";
            reader.warn(at, format!("{} steers nobody, because \"prefer\" is \"off\"; {advice}", self.place));
        }
    }

    /// Warns of addresses that are for clients at home where nobody is.
    fn expect_homes_at_home(&self, reader: &mut Reader<'_>, homes: &HashSet<&Name>) {
        for (member, Addresses { home_only, home_only_at, .. }) in &self.addresses {
            let is_home = match member {
                Some(member) => homes.contains(member),
                None => homes.iter().any(|home| self.may_have(home)),
            };
            if !home_only.is_empty() && !is_home {
                let whose =
                    member.as_ref().map_or("any member".to_string(), |member| format!("\"{}\"", without_dot(member)));
                let message = format!(
                    "\"home_only\" keeps these addresses from everyone, because [clients] has no clients of {whose}; \
                     add them, or write \"exclude\""
                );
                reader.warn(*home_only_at, message);
            }
        }
    }

    /// Warns where nobody is steered, and of clients that have no home in the region; `at` is where it is steered.
    fn expect_homes(&self, reader: &mut Reader<'_>, plan: &AnswersPlan, listed: &[Name], at: usize) {
        let place = self.place;
        if listed.is_empty() {
            // Weights are for clients without home.
            if plan.weights.is_empty() {
                let advice = "write [clients] with the prefixes of each zone's clients";
                reader.warn(at, format!("{place} steers nobody, because no client has a home; {advice}"));
            }
            return;
        }
        let near: HashSet<&Name> = plan.near.iter().map(|(home, _)| home).chain(&self.plan.members).collect();
        let is_strange = |home: &&Name| !near.contains(home) && !self.may_have(home);
        let strangers: Vec<String> = listed.iter().filter(is_strange).map(|home| shorten(&without_dot(home))).collect();
        if strangers.is_empty() {
            return;
        }
        let more = match strangers.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = strangers.iter().take(NAMED).map(|home| format!("\"{home}\"")).collect::<Vec<_>>().join(", ");
        let at = self.fields.and_then(|fields| fields.entry("near")).map_or(at, |entry| entry.key_at);
        let advice = "write in its \"near\" which members are the nearest to them";
        reader.warn(at, format!("clients of {shown}{more} have no home in {place}; {advice}"));
    }
}

/// Has the members of regions that steer polled at least twice in the time after which they are stale: their SOA may ask for
/// less, and then a member would be far from its own clients between two polls.
pub fn keep_fresh(zones: &mut [ZonePlan], regions: &[RegionPlan], plans: &HashMap<Name, AnswersPlan>) {
    for region in regions {
        let plan = plans.get(&region.origin).filter(|plan| plan.steers());
        let Some(stale_after) = plan.and_then(|plan| plan.stale_after) else { continue };
        let members: HashSet<&Name> = region.members.iter().collect();
        for zone in zones.iter_mut().filter(|zone| members.contains(&zone.zone)) {
            let timers = &mut zone.timers;
            timers.refresh_max = timers.refresh_max.min(stale_after / 2);
            timers.refresh_min = timers.refresh_min.min(timers.refresh_max);
        }
    }
}

/// Tables whose keys are names, without a key of their own.
static NAMES_ALONE: Table<()> = Table { path: "", help: "", keys: &[] };

/// A name as people write it.
fn without_dot(name: &Name) -> String {
    name.to_string().trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn members_are_polled_before_they_are_stale() {
        let refresh = |steering: &str| {
            let text = format!(
                "[zones]\n\"w1.x\" = \"192.0.2.1\"\n\"w2.x\" = \"192.0.2.2\"\n[clients]\n\"w1.x\" = [\"10.1.0.0/16\"]\n\
                 [aggregations.\"w.x\"]\nmembers = [\"w1.x\"]\nns = [\"n.x\"]\nsteering = {{ {steering} }}\n"
            );
            let config = Config::parse(Path::new("c.toml"), &text).unwrap();
            let [one, other] =
                [0, 1].map(|zone| (config.zones[zone].timers.refresh_min, config.zones[zone].timers.refresh_max));
            assert_eq!(other, (Duration::from_secs(5), Duration::from_secs(86_400)), "it is no member");
            one
        };
        let seconds = |shortest, longest| (Duration::from_secs(shortest), Duration::from_secs(longest));
        assert_eq!(refresh("prefer = \"nearest\""), seconds(5, 150));
        assert_eq!(refresh("prefer = \"nearest\", stale_after = \"4s\""), seconds(2, 2));
        assert_eq!(refresh("prefer = \"nearest\", stale_after = \"never\""), seconds(5, 86_400));
        assert_eq!(refresh("prefer = \"off\""), seconds(5, 86_400));
    }
}
