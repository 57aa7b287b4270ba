//! Explanation of a region's records: the members that gave each of them, and the fate of each member's records.

use super::report::{ConflictReport, Given, LeftOutReport, LookupStep, RegionUse, SourceReport};
use crate::config::{describe_drain, describe_pattern, format_duration};
use crate::keeper::{MemberStatus, PinStatus, RegionSnapshot, Snapshot};
use crate::merge::{
    Address, AddressRule, Conflict, ConflictKind, Contribution, Drain, LeftOut, NsPolicy, Trace, TracedMember,
};
use crate::publish::State;
use crate::view::facts::describe_pin;
use crate::view::text::RecordText;
use crate::zone::{AsideRecord, Zone};
use std::collections::HashMap;
use std::time::Instant;
use wire::name::Name;
use wire::rr::{self, rtype};

/// A name of a region, and what becomes of its members' records there.
struct Traced<'a> {
    view: &'a Snapshot,
    region: &'a RegionSnapshot,
    statuses: Vec<MemberStatus>,
    name: Name,
    trace: Trace,
}

/// Tells which member gave which record of a step in a region, and how the members are.
pub fn add_members(view: &Snapshot, region: &RegionSnapshot, wanted: Option<u16>, step: &mut LookupStep) {
    let asked = step.asked().clone();
    let traced = Traced::new(view, region, asked.clone());
    let key_of = |rtype: u16, rdata: &[u8]| (rtype, rr::fold(rtype, rdata));
    let mut givers: HashMap<(u16, Vec<u8>), Vec<&Contribution>> = HashMap::new();
    for given in traced.trace.contributions.iter().filter(|given| given.left_out.is_none()) {
        givers.entry(key_of(given.rtype, given.there())).or_default().push(given);
    }
    for record in &mut step.records {
        let from = givers.get(&key_of(record.code, &record.rdata)).into_iter().flatten();
        record.from = from.map(|given| traced.given(given)).collect();
        if record.from.is_empty() {
            record.made = Some(describe_own(region, record.code));
        }
    }
    // A CNAME stands for every type, and a DNAME too.
    let shown = |given: &&Contribution| {
        wanted.is_none_or(|wanted| wanted == given.rtype || matches!(given.rtype, rtype::CNAME | rtype::DNAME))
    };
    let contributions = traced.trace.contributions.iter().filter(shown);
    step.left_out = contributions.filter_map(|given| traced.left_out(given)).collect();
    if region.plan.is_united {
        // Its members have no names of their own under which somebody could ask.
        let pairs = region.plan.members.iter().zip(&region.members);
        let zones = pairs.filter_map(|(kept_under, member)| Some((kept_under, member.zone.as_ref()?)));
        step.left_out.extend(zones.flat_map(|(kept_under, zone)| not_held(zone, kept_under, &asked, wanted)));
    }
    let conflicts = traced.trace.conflicts.iter().filter(|conflict| conflict.kind == ConflictKind::SameTarget);
    let report = |conflict: &Conflict| ConflictReport {
        kind: conflict.kind.label(),
        zone: region.plan.members[conflict.member].clone(),
        explanation: conflict.kind.rule(),
    };
    step.conflicts = conflicts.map(report).collect();
    let describe = |(index, member): (usize, &TracedMember)| {
        let moved = asked.replace_suffix(&region.plan.origin, region.plan.origin_of(index)).and_then(Result::ok);
        let status = traced.statuses[index].clone();
        let kept = view.sources.get(&status.zone).map(|source| source.status(&status.zone, Instant::now()));
        let shares = traced.describe_shares(index);
        SourceReport { shares, ..SourceReport::new(status, member.contributes(), moved, kept.as_ref()) }
    };
    step.sources.extend(region.members.iter().enumerate().map(describe));
}

/// Tells what the regions take of a step in one of their members.
pub fn add_uses(view: &Snapshot, zone: &Name, step: &mut LookupStep) {
    let asked = step.asked().clone();
    let mut regions: Vec<&RegionSnapshot> = view.regions.values().map(|region| &**region).collect();
    regions.sort_by(|a, b| a.plan.origin.canonical_cmp(&b.plan.origin));
    for region in regions {
        let Some(member) = region.plan.members.iter().position(|member| member == zone) else { continue };
        let moved = asked.replace_suffix(region.plan.origin_of(member), &region.plan.origin).and_then(Result::ok);
        let traced = moved.clone().map(|name| Traced::new(view, region, name));
        let fates_in = |traced: &Traced<'_>| -> Vec<Option<LeftOutReport>> {
            let mine = traced.trace.contributions.iter().filter(|given| given.member == member);
            mine.map(|given| traced.left_out(given)).collect()
        };
        let fates = traced.as_ref().map(fates_in).unwrap_or_default();
        let here = region.members[member].zone.as_ref().and_then(|zone| zone.get(asked.as_wire()));
        let records = here.map_or(0, |node| node.records() as usize);
        step.regions.push(RegionUse {
            region: region.plan.origin.clone(),
            name: moved,
            records,
            taken: fates.iter().filter(|left_out| left_out.is_none()).count(),
            left_out: fates.into_iter().flatten().collect(),
            shares: traced.map(|traced| traced.describe_shares(member)).unwrap_or_default(),
        });
    }
}

/// The records of a name that a zone, kept under a name, cannot hold.
pub fn not_held<'a>(
    zone: &'a Zone,
    kept_under: &'a Name,
    asked: &'a Name,
    wanted: Option<u16>,
) -> impl Iterator<Item = LeftOutReport> + 'a {
    let shown = move |record: &&AsideRecord| wanted.is_none_or(|_| matches!(record.rtype, rtype::CNAME | rtype::DNAME));
    let tell = move |record: &AsideRecord| {
        let kind = ConflictKind::within(zone, asked, record.rtype);
        let given = Given {
            zone: kept_under.clone(),
            serial: Some(zone.soa.serial),
            owner: asked.to_string(),
            text: RecordText::new(record.rtype, record.ttl, &record.rdata),
            held_seconds: None,
        };
        let explanation = match kind {
            ConflictKind::DifferentAliases => "a name has one record of the type, and the first in order stays",
            kind => kind.rule(),
        };
        LeftOutReport { given, reason: kind.label(), explanation: explanation.to_owned() }
    };
    zone.left_out.get(asked).iter().filter(shown).map(tell)
}

impl<'a> Traced<'a> {
    /// Follows the records of a name.
    fn new(view: &'a Snapshot, region: &'a RegionSnapshot, name: Name) -> Traced<'a> {
        let statuses = view.member_statuses(&region.plan, Instant::now());
        let trace = Trace::new(&region.plan, &region.members, &name);
        Traced { view, region, statuses, name, trace }
    }

    /// A member's record.
    fn given(&self, given: &Contribution) -> Given {
        let member = &self.region.members[given.member];
        Given {
            zone: self.region.plan.members[given.member].clone(),
            serial: member.zone.as_ref().map(|zone| zone.soa.serial),
            owner: given.owner.to_string(),
            text: RecordText::new(given.rtype, given.ttl, &given.rdata),
            held_seconds: if given.held { self.held_seconds(given) } else { None },
        }
    }

    /// Returns the seconds for which a withdrawn record is still kept.
    fn held_seconds(&self, given: &Contribution) -> Option<u64> {
        let address = Address { rtype: given.rtype, rdata: given.rdata.clone().into() };
        let until = self.region.damper.as_ref()?.until(&self.name, &address)?;
        Some(until.saturating_duration_since(Instant::now()).as_secs())
    }

    /// A member's record that is not in the region, with the reason.
    fn left_out(&self, given: &Contribution) -> Option<LeftOutReport> {
        let Some(reason) = given.left_out else { return self.hidden_by_pin(given) };
        let plan = &self.region.plan;
        let explanation = match reason {
            LeftOut::Withdrawn => match self.statuses[given.member].state {
                "drained" => {
                    let drains = self.describe_drains(given);
                    format!("{drains}; the members that are not drained have no valid data")
                }
                "ok" | "stale" => "the region waits for members that have never been transferred".to_owned(),
                _ => describe_withdrawal(self.view, self.region, given.member),
            },
            LeftOut::Excluded => {
                let pattern = plan.excluding(&self.name).map(describe_pattern).unwrap_or_default();
                format!("\"{pattern}\" in \"exclude\" of the region leaves the name out")
            }
            LeftOut::Drained => self.describe_drains(given),
            LeftOut::Address => self.describe_filter(given),
            LeftOut::Dnssec => "DNSSEC records are about the member's own names".to_owned(),
            LeftOut::OwnApex => "the region has SOA, NS and DS records of its own".to_owned(),
            LeftOut::Placeholder => "it stands for a name without readable data, and others have some".to_owned(),
            LeftOut::MaxSet => {
                let most = self.region.plan.max_set.unwrap_or_default();
                format!("max_set leaves {most} records of a set, and others come first")
            }
            LeftOut::Conflict { kind, by } => {
                kind.rule().to_owned() + &by.map(|by| format!(" ({})", plan.members[by])).unwrap_or_default()
            }
        };
        Some(LeftOutReport { given: self.given(given), reason: reason.label(), explanation })
    }

    /// A member's record that would be in the region if that was not pinned.
    fn hidden_by_pin(&self, given: &Contribution) -> Option<LeftOutReport> {
        let pin = self.region.pin.as_ref()?;
        let zone = self.view.published.get(&self.region.plan.origin)?.zone.as_ref()?;
        let set = zone.get(self.name.as_wire()).and_then(|node| node.get(given.rtype));
        let is_same = |rdata: &[u8]| rr::compare(given.rtype, rdata, given.there()).is_eq();
        if set.is_some_and(|set| set.rdatas().any(is_same)) {
            return None;
        }
        let explanation = format!("the region is {}", describe_pin(&PinStatus::new(pin)));
        Some(LeftOutReport { given: self.given(given), reason: "pinned", explanation })
    }

    /// Describes the rule for addresses that leaves a record out.
    fn describe_filter(&self, given: &Contribution) -> String {
        let (plan, member) = (&self.region.plan, &self.region.plan.members[given.member]);
        let rule = plan.addresses.of(member).against(given.rtype, &given.rdata);
        let Some(AddressRule { of_member, excluded }) = rule else { return String::new() };
        let place = if of_member { format!("member {member}") } else { "the region".to_owned() };
        match excluded {
            Some(prefix) => format!("{prefix} in \"exclude\" of \"addresses\" of {place} leaves the address out"),
            None => format!("\"only\" of \"addresses\" of {place} has no prefix with the address"),
        }
    }

    /// Describes the drains that remove a record, with their ends and reasons.
    fn describe_drains(&self, given: &Contribution) -> String {
        let whole = self.drains_of(given.member).filter(|drain| drain.is_whole());
        whole.map(describe_drain).collect::<Vec<_>>().join(", and ")
    }

    /// Describes the drains that keep a share of the clients from what a member gives of the name.
    fn describe_shares(&self, member: usize) -> Vec<String> {
        let is_chosen = |given: &Contribution| {
            given.member == member
                && given.left_out.is_none()
                && matches!(given.rtype, rtype::A | rtype::AAAA | rtype::SRV)
        };
        if !self.trace.contributions.iter().any(is_chosen) {
            return Vec::new();
        }
        self.drains_of(member).filter(|drain| !drain.is_whole()).map(describe_drain).collect()
    }

    /// Iterates over the drains of a member that are about the name.
    fn drains_of(&self, member: usize) -> impl Iterator<Item = &Drain> {
        let plan = &self.region.plan;
        let covers = move |drain: &&Drain| {
            drain.concerns(&plan.members[member], &plan.origin) && drain.covers(self.name.owner_in(&plan.origin))
        };
        self.view.drains.iter().filter(covers)
    }
}

/// Describes the reason for which a region takes nothing from a member.
fn describe_withdrawal(view: &Snapshot, region: &RegionSnapshot, member: usize) -> String {
    let expired = |zone| view.sources.get(zone).is_none_or(|source| source.state == State::Expired);
    match region.plan.expire_after {
        Some(limit) if !expired(&region.plan.members[member]) => {
            let limit = format_duration(limit);
            format!("no primary confirmed the member for longer than {limit}, \"expire_after\" of the region")
        }
        _ => "the member has expired".to_owned(),
    }
}

/// Describes the origin of a record that no member has given.
fn describe_own(region: &RegionSnapshot, code: u16) -> String {
    match (code, &region.plan.ns) {
        (rtype::SOA, _) if region.pin.is_some() => {
            "made here; the serial does not follow those of the members while the region is pinned".to_owned()
        }
        (rtype::SOA, _) => {
            let serials = region.members.iter().filter(|member| member.contributes());
            let serials = serials.filter_map(|member| Some(member.zone.as_ref()?.soa.serial.to_string()));
            let sum = serials.collect::<Vec<_>>().join(" + ");
            let (offset, drift) = (region.plan.serial_offset, region.drift);
            format!("made here; serials of the members {sum}, serial_offset {offset}, drift {drift}")
        }
        (rtype::NS, NsPolicy::Listed(names)) if !names.is_empty() => "listed in \"ns\" of the region".to_owned(),
        (_, _) if region.pin.is_some() => {
            "of the version to which the region is pinned; no member gives it now".to_owned()
        }
        (rtype::NS, _) => "this server alone, because the members' NS sets have nothing in common".to_owned(),
        _ => "made here".to_owned(),
    }
}
