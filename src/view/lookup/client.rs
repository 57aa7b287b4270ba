//! What one client gets at a name, and why: the members in order, what keeps some of their records back, and the rules.
//!
//! The selections of the answers themselves tell it ([`crate::select::Explained`]); here it gets the names of members and
//! the words of the configuration.
//!
//! Invariant: nothing is foretold that is another with the next answer.
//!
//! Cost: O(records of the name × members).
//!
//! RFCs: 7871 (EDNS Client Subnet).

pub mod report;
mod rules;

use super::report::LookupStep;
use crate::acl::{Prefix, PrefixError};
use crate::clients::{Home, Subnet};
use crate::keeper::Snapshot;
use crate::merge::AnswersPlan;
use crate::publish::{Published, Served};
use crate::select::{Asker, Candidate, Chosen, Client, Explained, Order, Orders, Picked, Selection, Treatment};
use crate::view::text::{RecordText, format_seconds};
use crate::zone::{Node, Zone};
use report::{AnswerReport, CandidateReport, Choice, ChosenReport, ClientReport, StepClient, count};
use rules::Rules;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use wire::name::Name;
use wire::rr::{Set, TypeName, rtype};

/// Whoever asks, as an operator writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// A source address.
    Address(IpAddr),
    /// A subnet that a resolver tells of, written with its length.
    Subnet(Subnet),
}

impl FromStr for Asking {
    type Err = String;

    fn from_str(text: &str) -> Result<Asking, String> {
        let prefix = text.parse::<Prefix>().map_err(|error| match error {
            PrefixError::Address => format!("\"{text}\" is no address; write one such as 192.0.2.7 or 192.0.2.0/24"),
            PrefixError::HostBits(network) => format!("{text}: {error}; write {network}"),
            PrefixError::Length(_) => format!("{text}: {error}"),
        })?;
        let (address, length) = (prefix.address(), prefix.length());
        Ok(match text.contains('/') {
            true => Asking::Subnet(Subnet { address, length }),
            false => Asking::Address(address),
        })
    }
}

/// A client as answers see it.
#[derive(Clone, Copy)]
pub struct Seen {
    asking: Asking,
    client: Client,
    home: Option<Home>,
    /// SCOPE of what depends on the home alone.
    scope: u8,
}

impl Seen {
    /// Looks a client up.
    pub fn new(published: &Published, asking: Asking) -> Seen {
        match asking {
            Asking::Address(address) => {
                let home = published.clients.home_of(address);
                Seen { asking, client: Client::from_source(address), home, scope: 0 }
            }
            Asking::Subnet(subnet) => {
                let found = published.clients.find(subnet);
                Seen { asking, client: Client::from_subnet(subnet.address), home: found.home, scope: found.scope }
            }
        }
    }

    /// Some client of a home.
    pub fn of_home(home: Home) -> Seen {
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Seen { asking: Asking::Address(address), client: Client::from_source(address), home: Some(home), scope: 0 }
    }

    /// Tells who it is.
    pub fn report(&self, published: &Published) -> ClientReport {
        let subnet = match self.asking {
            Asking::Address(address) => Subnet { address, length: if address.is_ipv4() { 32 } else { 128 } },
            Asking::Subnet(subnet) => subnet,
        };
        let is_subnet = matches!(self.asking, Asking::Subnet(_));
        let address = match is_subnet {
            true => format!("{}/{}", subnet.address, subnet.length),
            false => subnet.address.to_string(),
        };
        let home = self.home.and_then(|home| published.clients.homes().get(usize::from(home)));
        let prefix = published.clients.prefix_around(subnet).map(|prefix| prefix.to_string());
        ClientReport { address, is_subnet, home: home.cloned(), prefix }
    }

    /// The answers from a set, explained.
    pub fn explain(&self, served: &Served, zone: &Zone, labels: &[u8], selection: &Selection) -> Explained {
        let orders = &*served.selections.orders;
        let home = self.home.filter(|_| selection.is_by_home());
        let owner = [labels, zone.origin.as_wire()];
        selection.explain(&Asker { turn: 0, client: self.client, home, owner, orders, is_beside: false })
    }

    /// SCOPE PREFIX-LENGTH of an answer from a set; none if no subnet asks.
    fn scope(&self, selection: Option<&Selection>) -> Option<u8> {
        let Asking::Subnet(Subnet { length, .. }) = self.asking else { return None };
        let by_client = selection.filter(|selection| selection.is_by_client()).map(|_| self.client.prefix_bits());
        let by_home = selection.filter(|selection| selection.is_by_home()).map(|_| self.scope);
        Some(by_client.max(by_home).unwrap_or_default().min(length))
    }
}

/// Adds what a client gets at a step.
pub fn add_client(
    view: &Snapshot,
    served: &Served,
    zone: &Zone,
    wanted: Option<u16>,
    seen: Seen,
    step: &mut LookupStep,
) {
    let Some(node) = zone.get(step.asked().as_wire()).filter(|_| step.has_records()) else { return };
    let plan = view.answers.get(&served.origin).map(|plan| &**plan);
    let orders = &*served.selections.orders;
    let homes = view.published.clients.homes();
    let place = Place { served, zone, node, plan, orders, homes, seen, step };
    let is_meant = |set: &Set<'_>| {
        wanted.is_none_or(|wanted| wanted == set.rtype)
            && (matches!(set.rtype, rtype::A | rtype::AAAA | rtype::SRV) || place.selection(*set).is_some())
    };
    let is_chosen = node.rrsets().filter(is_meant).any(|set| place.selection(set).is_some());
    let sets = node.rrsets().filter(|set| is_chosen && is_meant(set)).map(|set| place.answer(set)).collect();
    let own = seen.home.and_then(|home| homes.get(usize::from(home)));
    let home = place.home().cloned();
    let explanation = match own {
        _ if !is_chosen => "every client gets the same".to_owned(),
        Some(own) if home.is_none() && plan.is_some_and(AnswersPlan::steers) => {
            format!("{own} is no home in {}: neither a member, nor in its \"near\"", served.origin)
        }
        _ => String::new(),
    };
    step.client = Some(StepClient { home, explanation, sets });
}

/// A name as one client sees it.
struct Place<'a> {
    served: &'a Served,
    zone: &'a Zone,
    node: Node<'a>,
    plan: Option<&'a AnswersPlan>,
    orders: &'a Orders,
    homes: &'a [Name],
    seen: Seen,
    step: &'a LookupStep,
}

impl<'a> Place<'a> {
    /// What the answers from a set are made of, if not all are the whole set.
    fn selection(&self, set: Set<'_>) -> Option<&'a Selection> {
        self.served.selections.find(self.node.owner(), set)
    }

    /// The client's home, if it counts in the zone.
    fn home(&self) -> Option<&'a Name> {
        let home = self.seen.home.filter(|home| self.orders.nearness(*home).is_some())?;
        self.homes.get(usize::from(home))
    }

    /// Explains the answers from a set.
    fn answer(&self, set: Set<'_>) -> AnswerReport {
        let (rtype, records) = (TypeName(set.rtype).to_string(), set.count);
        let selection = self.selection(set);
        let scope = self.seen.scope(selection);
        let Some(selection) = selection else {
            let explanation = match records {
                1 => "every client gets the record".to_owned(),
                records => format!("every client gets all {records} records"),
            };
            let (order, choice) = (Order::Alike, Choice::Whole);
            let (candidates, rules, answer) = (Vec::new(), Vec::new(), Vec::new());
            return AnswerReport { rtype, records, choice, explanation, order, candidates, rules, answer, scope };
        };
        let told = self.seen.explain(self.served, self.zone, self.node.owner(), selection);
        let exception = self.plan.and_then(|plan| plan.exception(self.step.asked(), &self.zone.origin));
        let treatment = exception.map(|(_, treatment)| *treatment).or(self.plan.map(|plan| plan.usual));
        let treatment = treatment.unwrap_or(Treatment::PLAIN);
        let pattern = exception.map(|(pattern, _)| pattern);
        let (plan, orders, home) = (self.plan, self.orders, self.home());
        let rules = Rules { plan, treatment, pattern, selection, told: &told, orders, home };
        let records_of = |records: &[Picked]| records.iter().map(|picked| chosen(set, *picked)).collect();
        let (choice, answer) = match &told.chosen {
            Chosen::Whole => (Choice::Whole, Vec::new()),
            Chosen::Fixed(records) => (Choice::Fixed, records_of(records)),
            Chosen::Turning(records) => (Choice::Turning, records_of(records)),
            Chosen::Changing => (Choice::Changing, Vec::new()),
        };
        AnswerReport {
            rtype,
            records,
            choice,
            explanation: rules.explanation(records),
            order: told.order,
            candidates: self.candidates(set, &told),
            rules: rules.list(),
            answer,
            scope,
        }
    }

    /// The members, those first that come first for the client.
    fn candidates(&self, set: Set<'_>, told: &Explained) -> Vec<CandidateReport> {
        let nearness = self.seen.home.and_then(|home| self.orders.nearness(home));
        let rank = |member: u16| match nearness {
            Some(nearness) if told.order == Order::Nearest => nearness.rank(member),
            _ => member,
        };
        let own = nearness.and_then(|nearness| nearness.member);
        let known: Vec<Candidate> = match told.candidates.is_empty() {
            true => self.givers(set),
            false => told.candidates.clone(),
        };
        let mut listed: Vec<(u16, CandidateReport)> = Vec::new();
        for (number, name) in (0..).zip(self.orders.members()) {
            let candidate = known.iter().find(|one| one.member == Some(number));
            let report = match candidate {
                Some(candidate) => self.candidate(name, candidate, told, own == Some(number)),
                None => self.without_records(name, set.rtype, own == Some(number)),
            };
            listed.extend(report.map(|report| (rank(number), report)));
        }
        listed.sort_by_key(|(rank, _)| *rank);
        let nobodys = known.iter().filter(|one| one.member.is_none()).map(|one| CandidateReport {
            zone: None,
            records: one.records,
            counted: one.counted,
            answered: one.answered,
            stale_seconds: None,
            notes: vec!["no member gives them at present".to_owned()],
        });
        listed.into_iter().map(|(_, report)| report).chain(nobodys).collect()
    }

    /// The members that give records of a set of which all clients are alike.
    fn givers(&self, set: Set<'_>) -> Vec<Candidate> {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        let records = self.step.records.iter().filter(|record| record.code == set.rtype);
        for given in records.flat_map(|record| &record.from) {
            let number = self.orders.members().iter().position(|member| *member == given.zone);
            number.into_iter().for_each(|number| *counts.entry(number).or_default() += 1);
        }
        let tell = |(number, records): (usize, u32)| Candidate {
            member: Some(number as u16),
            records,
            counted: records,
            is_reached: true,
            ..Candidate::default()
        };
        counts.into_iter().map(tell).collect()
    }

    /// A member that gives records.
    fn candidate(
        &self,
        name: &Name,
        candidate: &Candidate,
        told: &Explained,
        is_home: bool,
    ) -> Option<CandidateReport> {
        let number = usize::from(candidate.member?);
        let steers = told.order != Order::Alike;
        let is_stale = steers && self.orders.stale().get(number).is_some_and(|stale| *stale);
        let mut notes = Vec::new();
        if is_home {
            notes.push("home".to_owned());
        }
        if candidate.share > 0 {
            let among = if candidate.is_drained { "this one among them" } else { "this one not" };
            notes.push(format!("drained for {}% of clients, {among}", candidate.share));
        }
        let refreshed = self.step.sources.iter().find(|source| source.zone == *name);
        let stale_seconds = refreshed.and_then(|source| source.refreshed_seconds_ago).filter(|_| is_stale);
        if is_stale {
            let time = stale_seconds.map(|seconds| format!("for {}", format_seconds(seconds))).unwrap_or_default();
            notes.push(format!("not refreshed {time}").trim_end().to_owned());
        }
        let ends = told.reach.is_some();
        if candidate.held > 0 && ends {
            notes.push(format!("{} held, which {} not count", candidate.held, plural(candidate.held, "does", "do")));
        }
        if candidate.withheld > 0 {
            let (withheld, own) = (candidate.withheld, plural(candidate.withheld, "is", "are"));
            notes.push(format!("{withheld} {own} for its own clients only (home_only)"));
        }
        if candidate.repeated > 0 && steers {
            notes.push(format!("{} of nearer members, too", count(candidate.repeated, "record")));
        }
        if told.order == Order::Drawn {
            let weight = self.orders.weights().get(number).copied().unwrap_or_default();
            notes.push(format!("weight {weight}"));
        }
        if ends && !candidate.is_reached && !candidate.is_drained && candidate.withheld < candidate.records {
            notes.push("not needed".to_owned());
        }
        let (records, counted) = (candidate.records, candidate.counted);
        let answered = candidate.answered.filter(|_| told.chosen != Chosen::Whole);
        Some(CandidateReport { zone: Some(name.clone()), records, counted, answered, stale_seconds, notes })
    }

    /// A member that gives no records, if there is anything to say of that.
    fn without_records(&self, name: &Name, rtype: u16, is_home: bool) -> Option<CandidateReport> {
        let kind = TypeName(rtype).to_string();
        let left_out = self.step.left_out.iter().find(|one| one.given.zone == *name && one.given.text.rtype == kind);
        let reason = left_out.map(|one| format!("{}: {}", one.reason, one.explanation));
        let notes: Vec<String> = is_home.then(|| "home".to_owned()).into_iter().chain(reason).collect();
        let report = CandidateReport {
            zone: Some(name.clone()),
            records: 0,
            counted: 0,
            answered: None,
            stale_seconds: None,
            notes,
        };
        (!report.notes.is_empty()).then_some(report)
    }
}

/// A record as the client gets it.
fn chosen(set: Set<'_>, picked: Picked) -> ChosenReport {
    let mut rdata = set.at(picked.offset).to_vec();
    let own = rdata.first_chunk().map(|own| u16::from_be_bytes(*own));
    let own_priority = own.filter(|own| picked.priority.is_some_and(|told| told != *own));
    if let (Some(priority), Some(place)) = (picked.priority, rdata.first_chunk_mut()) {
        *place = priority.to_be_bytes();
    }
    ChosenReport { text: RecordText::new(set.rtype, set.ttl, &rdata), own_priority }
}

/// One of two words, by a number.
fn plural<'w>(number: u32, one: &'w str, many: &'w str) -> &'w str {
    if number == 1 { one } else { many }
}
