//! Explanation of a name's answer, as `aggregator lookup` shows it.
//!
//! The name is looked up as the answers are, in the same published root, alias by alias; each step tells the zone, what
//! it has there and since when, and for a region which member gave which record and what became of the rest
//! ([`crate::merge::Trace`]).
//! The handle adds how each zone came here, which only the sources know.
//!
//! Invariants: all steps look at one [`Snapshot`], so no report mixes two versions; the response code is the one that a
//! client gets.
//!
//! Cost: O(records of the names × members + octets of the histories), whatever the size of the zones. The server's
//! answers know nothing of it.

mod client;
mod regions;
mod report;
mod seen;
mod sets;
mod text;
mod uneven;

pub use client::Asking;
pub use client::report::{AnswerReport, CandidateReport, ChosenReport, ClientReport, StepClient, UnevenReport};

pub use report::{
    ConflictReport, Given, LeftOutReport, Lookup, LookupStep, RecordFate, RecordReport, RegionUse, SeenReport,
    SetReport, SourceReport, ZoneReport,
};

use super::Handle;
use super::text::printable;
use crate::control::Reply;
use crate::daemon::sources::{Source, Sources};
use crate::keeper::{MemberStatus, PinStatus, Snapshot};
use crate::publish::{Served, State, Unknown};
use crate::serve::answer::{self, MAX_ALIASES, NameMatch};
use crate::zone::{Node, Zone};
use client::Seen;
use report::{InventoryReport, TreeReport};
use std::time::Instant;
use wire::name::{Name, NameBuf};
use wire::rr::{self, TypeName, rtype};

/// A question as an operator writes it.
#[derive(Clone, Copy, Default)]
pub struct Question<'a> {
    pub name: &'a str,
    /// None for all types.
    pub rtype: Option<&'a str>,
    /// The client for whom it is answered, if anybody's answer is meant.
    pub client: Option<&'a str>,
}

/// Explains a name to an operator.
pub fn lookup(view: &Handle, question: &Question<'_>) -> Result<Reply, String> {
    let lookup = explain_now(view, question)?;
    Ok(Reply { ok: true, text: lookup.describe(), data: serde_json::json!(lookup) })
}

/// Explains a name's answer at this moment, or returns the error in the question. A tree that is just being read keeps
/// whoever looks into it waiting.
pub fn explain_now(view: &Handle, question: &Question<'_>) -> Result<Lookup, String> {
    let (name, rtype) = read_question(question.name, question.rtype)?;
    let client = question.client.map(str::parse).transpose()?;
    let mut lookup = explain(&view.snapshots.load(), &name, rtype, client);
    for report in lookup.steps.iter_mut().flat_map(|step| &mut step.sources) {
        add_source(&view.sources, report);
    }
    Ok(lookup)
}

/// Adds how a zone came here.
fn add_source(sources: &Sources, report: &mut SourceReport) {
    let found = sources.lock().get(&report.zone).cloned();
    let owner = report.owner.as_ref();
    match found {
        Some(Source::Primaries(source)) => report.primaries = source.status().primaries,
        Some(Source::Tree(tree)) => {
            let nodes = owner.map(|owner| tree.explain(owner)).unwrap_or_default();
            report.tree = Some(TreeReport::new(tree.plan(), &tree.status(), nodes));
        }
        Some(Source::Inventory(inventory)) => {
            let instances = owner.map(|owner| inventory.explain(&report.zone, owner)).unwrap_or_default();
            report.inventory = Some(InventoryReport::new(&inventory.status(), instances));
        }
        Some(Source::Services(_)) => report.configured = true,
        None => {}
    }
}

/// Reads the name and the type of a question.
fn read_question(name: &str, rtype: Option<&str>) -> Result<(Name, Option<u16>), String> {
    let name = Name::parse(name).map_err(|error| format!("no domain name: {error}"))?;
    let rtype = rtype.map(str::parse::<TypeName>).transpose().map_err(|error| error.to_string())?;
    match rtype {
        Some(TypeName(code)) if !rr::is_data_type(code) && code != rtype::ANY => {
            Err(format!("{} is no type of records; name one such as A, or none", TypeName(code)))
        }
        rtype => Ok((name, rtype.map(|TypeName(code)| code))),
    }
}

/// Explains a name, for one type or all that it has, and for a client if one is named; types that are not data have no
/// explanation.
pub fn explain(view: &Snapshot, name: &Name, rtype: Option<u16>, client: Option<Asking>) -> Lookup {
    let seen = client.map(|client| Seen::new(&view.published, client));
    let wanted = rtype.filter(|rtype| *rtype != rtype::ANY);
    let mut steps: Vec<LookupStep> = Vec::new();
    let mut next = Some(name.clone());
    while let Some(name) = next.take() {
        let step = explain_step(view, &name, wanted, seen, steps.is_empty());
        let follows = steps.len() < MAX_ALIASES;
        next = step.target().filter(|target| follows && **target != name).cloned();
        steps.push(step);
        next = next.filter(|target| steps.iter().all(|step| step.name != *target));
    }
    let rcode = steps.last().map_or("NOERROR", |step| step.rcode);
    let rtype = wanted.map(|rtype| TypeName(rtype).to_string());
    let client = seen.map(|seen| seen.report(&view.published));
    Lookup { name: name.clone(), rtype, client, rcode, generation: view.published.generation, steps }
}

/// Explains one name of a chain.
fn explain_step(view: &Snapshot, name: &Name, wanted: Option<u16>, seen: Option<Seen>, first: bool) -> LookupStep {
    let served = answer::zone_for(&view.published, name.as_wire(), wanted.unwrap_or(rtype::ANY));
    let mut step = LookupStep::new(name.clone());
    if let Some(served) = served {
        explain_in(view, served, wanted, first, &mut step);
        if let Some(zone) = served.answerable() {
            uneven::add_uneven(view, served, zone, wanted, &mut step);
            seen.into_iter().for_each(|seen| client::add_client(view, served, zone, wanted, seen, &mut step));
        }
    }
    step.rcode = step.outcome.rcode(first);
    step.explanation = text::explain_outcome(&step);
    step
}

/// Explains one name of a chain in the zone that answers for it.
fn explain_in(view: &Snapshot, served: &Served, wanted: Option<u16>, first: bool, step: &mut LookupStep) {
    step.zone = Some(describe_zone(view, served));
    match served.answerable() {
        Some(zone) => look(zone, served.unknown == Unknown::Refused && first, wanted, step),
        None if served.state == State::Expired => step.outcome = RecordFate::Expired,
        None => step.outcome = RecordFate::NotReady,
    }
    if let Some(zone) = served.answerable() {
        sets::add_sets(view, served, zone, wanted, step);
    }
    seen::add_times(served, wanted, step);
    if let Some(region) = view.regions.get(&served.origin) {
        regions::add_members(view, region, wanted, step);
    } else if let Some(source) = view.sources.get(&served.origin) {
        let status = source.status(&served.origin, Instant::now());
        let zone = MemberStatus { zone: status.zone.clone(), state: status.state.label(), serial: status.serial };
        step.sources.push(SourceReport::new(zone, status.state == State::Ok, step.owner.clone(), Some(&status)));
        regions::add_uses(view, &served.origin, step);
        let left_out = |zone| regions::not_held(zone, &served.origin, step.asked(), wanted);
        step.left_out = served.zone.iter().flat_map(|zone| left_out(zone)).collect();
    }
}

/// Describes the zone that answers for a name.
fn describe_zone(view: &Snapshot, served: &Served) -> ZoneReport {
    let region = view.regions.get(&served.origin);
    let kind = match region {
        Some(_) => "region",
        None if view.sources.contains_key(&served.origin) => "zone",
        None => "catalog",
    };
    ZoneReport {
        origin: served.origin.clone(),
        kind,
        state: served.state,
        serial: served.zone.as_ref().map(|zone| zone.soa.serial),
        drift: region.map(|region| region.drift),
        pinned: region.and_then(|region| region.pin.as_ref()).map(PinStatus::new),
    }
}

/// Looks the name of a step up in its zone.
fn look(zone: &Zone, refuses: bool, wanted: Option<u16>, step: &mut LookupStep) {
    let wire = step.name.as_wire().to_vec();
    let above = |start: usize| NameBuf::from_wire(&wire[start..]).map_or_else(|_| Name::root(), |name| name.to_name());
    match answer::find(zone, &wire, wanted.unwrap_or(rtype::ANY)) {
        NameMatch::Referral(start, ns) => {
            let hidden = zone.get(&wire).map_or(0, |node| node.records());
            step.outcome = RecordFate::Delegation { hidden: if start == 0 { 0 } else { hidden } };
            step.owner = Some(above(start));
            step.records = RecordReport::of_rrset(ns);
        }
        NameMatch::Dname(start, dname) => {
            let target = dname.first_name(0);
            let moved = target.and_then(|target| NameBuf::from_wire(&wire).ok()?.splice(start, target.as_wire()).ok());
            step.owner = Some(above(start));
            step.records = RecordReport::of_rrset(dname);
            let followed = wanted != Some(rtype::CNAME);
            step.outcome = moved.map_or(RecordFate::TargetTooLong, |target| {
                let target = target.to_name();
                RecordFate::Dname { target, followed }
            });
        }
        NameMatch::Node(node) => {
            step.owner =
                Some(if zone.get(&wire).is_some() { step.name.clone() } else { wildcard_of(zone, &step.name) });
            let meant = answer::service_host(zone, &wire, wanted.unwrap_or(rtype::ANY)).unwrap_or(node);
            look_at_node(node, meant, wanted, step);
        }
        // As the answer has it: a broken host may have the service, and some zones refuse names that they do not hold.
        NameMatch::Nothing => {
            step.outcome = match answer::service_host(zone, &wire, wanted.unwrap_or(rtype::ANY)) {
                Some(host) if answer::is_unreadable(host) => RecordFate::Unreadable { reasons: reasons_of(host) },
                Some(_) if refuses => RecordFate::NoSuchService,
                _ if refuses => RecordFate::RefusedName { encloser: encloser_of(zone, &step.name) },
                _ => RecordFate::NoSuchName { encloser: encloser_of(zone, &step.name) },
            };
        }
    }
}

/// Determines the outcome at a node for the wanted type. If the node lacks the type, the reason may be found at
/// `meant`.
fn look_at_node(node: Node<'_>, meant: Node<'_>, wanted: Option<u16>, step: &mut LookupStep) {
    let asked = node.rrsets().filter(|rrset| wanted.is_none_or(|wanted| wanted == rrset.rtype));
    step.records = asked.flat_map(RecordReport::of_rrset).collect();
    let cname = node.get(rtype::CNAME).filter(|_| wanted != Some(rtype::CNAME));
    let has_records = answer::has_records(node);
    // What stands for records is none of them, unless it was asked for.
    if !has_records && wanted != Some(rtype::PLACEHOLDER) {
        step.records.clear();
    }
    step.outcome = if step.records.is_empty() && cname.is_none() && answer::is_unreadable(meant) {
        RecordFate::Unreadable { reasons: reasons_of(meant) }
    } else if step.records.is_empty() && node.get(rtype::PLACEHOLDER).is_some() && !has_records {
        RecordFate::NoRecords
    } else if let Some(cname) = cname.filter(|_| wanted.is_some() || node.rrsets().count() == 1) {
        step.records = RecordReport::of_rrset(cname);
        let target = cname.first_name(0).map_or_else(Name::root, |target| target.to_name());
        RecordFate::Alias { target }
    } else if !step.records.is_empty() {
        RecordFate::Records
    } else if node.is_empty() {
        RecordFate::EmptyNonTerminal { below: node.below }
    } else {
        RecordFate::NoData { types: node.rrsets().map(|rrset| TypeName(rrset.rtype).to_string()).collect() }
    };
}

/// Returns the reasons for which the data of a node is unknown.
fn reasons_of(node: Node<'_>) -> Vec<String> {
    let reasons = node.get(rtype::PLACEHOLDER).into_iter().flat_map(|placeholder| placeholder.rdatas());
    reasons.map(|reason| printable(&String::from_utf8_lossy(reason))).collect()
}

/// The closest name above one that is not there (RFC 4592 section 3.3.1).
fn encloser_of(zone: &Zone, name: &Name) -> Name {
    let mut above = name.parent();
    while let Some(ancestor) = above.filter(|ancestor| *ancestor != zone.origin) {
        if zone.get(ancestor.as_wire()).is_some() {
            return ancestor;
        }
        above = ancestor.parent();
    }
    zone.origin.clone()
}

/// The wildcard that stands for a name.
fn wildcard_of(zone: &Zone, name: &Name) -> Name {
    let encloser = encloser_of(zone, name);
    // The wildcard was found, so it is not too long.
    encloser.prepend(b"*").unwrap_or(encloser)
}

#[cfg(test)]
pub mod tests;
