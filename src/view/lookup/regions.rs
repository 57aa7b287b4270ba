//! Explanation of a region's records: the members that gave each of them, and the fate of each member's records.

use super::data_text;
use super::report::{ConflictReport, Given, LeftOutReport, RegionUse, SourceReport, Step};
use crate::config::{describe_drain, describe_pattern, format_duration};
use crate::keeper::{MemberView, PinStatus, RegionView, View};
use crate::merge::{
    self, Address, ConflictKind, Contribution, Drain, LeftOut, NsPolicy, Trace, TracedMember, TracedRecord,
};
use crate::publish::{Served, State};
use crate::view::status::describe_pin;
use crate::zone::{AsideRecord, Zone};
use std::collections::HashMap;
use std::time::Instant;
use wire::name::Name;
use wire::rr::{self, TypeName, rtype};

/// Tells which member gave which record of a step in a region, and how the members are.
pub fn add_members(view: &View, region: &RegionView, wanted: Option<u16>, step: &mut Step) {
    let asked = step.asked().clone();
    let trace = trace_in(region, &asked);
    let of_data: HashMap<(u16, &[u8]), &TracedRecord> =
        trace.records.iter().map(|traced| ((traced.rtype, &traced.rdata[..]), traced)).collect();
    for record in &mut step.records {
        let traced = of_data.get(&(record.code, &record.rdata[..]));
        let from = traced.into_iter().flat_map(|traced| &traced.from);
        record.from = from.map(|index| given(region, &trace.contributions[*index])).collect();
        if record.from.is_empty() {
            record.made = Some(describe_own(region, record.code));
        }
    }
    // A CNAME stands for every type, and a DNAME too.
    let shown = |given: &&Contribution| {
        wanted.is_none_or(|wanted| wanted == given.rtype || matches!(given.rtype, rtype::CNAME | rtype::DNAME))
    };
    let contributions = trace.contributions.iter().filter(shown);
    step.left_out = contributions.filter_map(|given| left_out(view, region, &trace, given)).collect();
    if region.plan.is_united {
        // Its members have no names of their own under which somebody could ask.
        let zones =
            region.members.iter().filter_map(|member| Some((&member.status.zone, member.traced.zone.as_ref()?)));
        step.left_out.extend(zones.flat_map(|(kept_under, zone)| not_held(zone, kept_under, &asked, wanted)));
    }
    let conflicts = trace.conflicts.iter().filter(|conflict| conflict.kind == ConflictKind::SameTarget);
    let report = |conflict: &merge::Conflict| ConflictReport {
        kind: conflict.kind.label(),
        zone: region.plan.members[conflict.member].clone(),
        explanation: explain_conflict(conflict.kind),
    };
    step.conflicts = conflicts.map(report).collect();
    let members = region.members.iter().enumerate();
    step.sources.extend(members.map(|(index, member)| describe_member(view, region, (index, member), &asked)));
}

/// Tells what the regions take of a step in one of their members.
pub fn add_uses(view: &View, zone: &Name, step: &mut Step) {
    let asked = step.asked().clone();
    let mut regions: Vec<&RegionView> = view.regions.values().collect();
    regions.sort_by(|a, b| a.plan.origin.canonical_cmp(&b.plan.origin));
    for region in regions {
        let Some(member) = region.plan.members.iter().position(|member| member == zone) else { continue };
        let moved = asked.replace_suffix(region.plan.origin_of(member), &region.plan.origin).and_then(Result::ok);
        let trace = moved.as_ref().map(|name| trace_in(region, name)).unwrap_or_default();
        let mine: Vec<&Contribution> = trace.contributions.iter().filter(|given| given.member == member).collect();
        let left_out: Vec<LeftOutReport> =
            mine.iter().filter_map(|given| left_out(view, region, &trace, given)).collect();
        let here = region.members[member].traced.zone.as_ref().and_then(|zone| zone.get(asked.as_wire()));
        let records = here.map_or(0, |node| node.records() as usize);
        step.regions.push(RegionUse {
            region: region.plan.origin.clone(),
            name: moved,
            records,
            taken: mine.len() - left_out.len(),
            left_out,
        });
    }
}

/// Tells the records of a step that its zone cannot hold.
pub fn add_left(served: &Served, wanted: Option<u16>, step: &mut Step) {
    if let Some(zone) = &served.zone {
        step.left_out = not_held(zone, &zone.origin, step.asked(), wanted).collect();
    }
}

/// The records of a name that a zone, kept under a name, cannot hold.
fn not_held<'a>(
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
            ttl: record.ttl,
            rtype: TypeName(record.rtype).to_string(),
            data: data_text(record.rtype, &record.rdata),
            held_seconds: None,
        };
        let explanation = match kind {
            ConflictKind::DifferentAliases => "a name has one record of the type, and the first in order stays",
            kind => explain_conflict(kind),
        };
        LeftOutReport { given, reason: kind.label(), explanation: explanation.to_owned() }
    };
    zone.left.get(asked).iter().filter(shown).map(tell)
}

/// Follows the records of a name.
fn trace_in(region: &RegionView, name: &Name) -> Trace {
    let members: Vec<TracedMember> = region.members.iter().map(|member| member.traced.clone()).collect();
    merge::trace(&region.plan, &members, name)
}

/// A member's record.
fn given(region: &RegionView, given: &Contribution) -> Given {
    let member = &region.members[given.member];
    Given {
        zone: region.plan.members[given.member].clone(),
        serial: member.traced.zone.as_ref().map(|zone| zone.soa.serial),
        owner: given.owner.to_string(),
        ttl: given.ttl,
        rtype: TypeName(given.rtype).to_string(),
        data: data_text(given.rtype, &given.rdata),
        held_seconds: if given.held { held_seconds(region, given) } else { None },
    }
}

/// Returns the seconds for which a withdrawn record is still kept.
fn held_seconds(region: &RegionView, given: &Contribution) -> Option<u64> {
    let member = region.plan.origin_of(given.member);
    let name = given.owner.to_name().replace_suffix(member, &region.plan.origin)?.ok()?;
    let address = Address { rtype: given.rtype, rdata: given.rdata.clone().into() };
    let until = region.damper.as_ref()?.until(&name, &address)?;
    Some(until.saturating_duration_since(Instant::now()).as_secs())
}

/// A member's record that is not in the region, with the reason.
fn left_out(view: &View, region: &RegionView, trace: &Trace, given: &Contribution) -> Option<LeftOutReport> {
    let Some(reason) = given.left_out else { return hidden_by_pin(view, region, given) };
    let explanation = match reason {
        LeftOut::Withdrawn => match region.members[given.member].status.state {
            "drained" => {
                let drains = describe_drains(view, region, given);
                format!("{drains}; the members that are not drained have no valid data")
            }
            "ok" | "stale" => "the region waits for members that have never been transferred".to_owned(),
            _ => describe_withdrawal(view, region, given.member),
        },
        LeftOut::Excluded => {
            let pattern = trace.excluded_by.as_ref().map(describe_pattern).unwrap_or_default();
            format!("\"{pattern}\" in \"exclude\" of the region leaves the name out")
        }
        LeftOut::Drained => describe_drains(view, region, given),
        LeftOut::Dnssec => "DNSSEC records are about the member's own names".to_owned(),
        LeftOut::OwnApex => "the region has SOA, NS and DS records of its own".to_owned(),
        LeftOut::Placeholder => "it stands for a name without readable data, and others have some".to_owned(),
        LeftOut::Conflict(kind) => {
            let is_it = |conflict: &&merge::Conflict| (conflict.kind, conflict.member) == (kind, given.member);
            let by = trace.conflicts.iter().find(is_it).and_then(|conflict| conflict.by);
            let by = by.map(|by| format!(" ({})", region.plan.members[by])).unwrap_or_default();
            explain_conflict(kind).to_owned() + &by
        }
    };
    Some(LeftOutReport { given: self::given(region, given), reason: reason.label(), explanation })
}

/// A member's record that would be in the region if that was not pinned.
fn hidden_by_pin(view: &View, region: &RegionView, given: &Contribution) -> Option<LeftOutReport> {
    let pin = region.pin.as_ref()?;
    let name = given.owner.to_name().replace_suffix(region.plan.origin_of(given.member), &region.plan.origin)?.ok()?;
    let zone = view.published.get(&region.plan.origin)?.zone.as_ref()?;
    let set = zone.get(name.as_wire()).and_then(|node| node.get(given.rtype));
    let is_same = |rdata: &[u8]| rr::compare(given.rtype, rdata, given.there()).is_eq();
    if set.is_some_and(|set| set.rdatas().any(is_same)) {
        return None;
    }
    let explanation = format!("the region is {}", describe_pin(&PinStatus::new(pin)));
    Some(LeftOutReport { given: self::given(region, given), reason: "pinned", explanation })
}

/// Describes the reason for which a region takes nothing from a member.
fn describe_withdrawal(view: &View, region: &RegionView, member: usize) -> String {
    let expired = |zone| view.zones.get(zone).is_none_or(|status| status.state == State::Expired);
    match region.plan.expire_after {
        Some(limit) if !expired(&region.plan.members[member]) => {
            format!(
                "no primary confirmed the member for longer than {}, \"expire_after\" of the region",
                format_duration(limit)
            )
        }
        _ => "the member has expired".to_owned(),
    }
}

/// Describes the drains that remove a record, with their ends and reasons.
fn describe_drains(view: &View, region: &RegionView, given: &Contribution) -> String {
    let member = &region.plan.members[given.member];
    let origin = region.plan.origin_of(given.member);
    let covers = |drain: &&Drain| {
        let wire = given.owner.to_lowercase();
        let owner = wire.as_wire().strip_suffix(origin.as_wire());
        drain.concerns(member, &region.plan.origin) && owner.is_some_and(|owner| drain.covers(owner))
    };
    view.drains.iter().filter(covers).map(describe_drain).collect::<Vec<_>>().join(", and ")
}

/// Explains the rule that has left a record out.
fn explain_conflict(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::AliasBesideData => "other data at the name wins over a CNAME (RFC 2181 section 10.1)",
        ConflictKind::DifferentAliases => "the alias of the member that is listed first stays",
        ConflictKind::AliasAtApex => "a zone cannot have a CNAME at its apex",
        ConflictKind::DnameAboveData => "a DNAME cannot stand above the names below it (RFC 6672 section 2.4)",
        ConflictKind::DelegationAboveData => {
            "a delegation and what is below it give way to authoritative data that another member has there"
        }
        ConflictKind::DifferentDelegations => "members delegate the name differently, and the one listed first counts",
        ConflictKind::HiddenByDelegation => "another member delegates a name above, and only that counts below it",
        ConflictKind::ServiceText => "the description of the member that is listed first stays",
        ConflictKind::SameTarget => "targets of several members became the same record when they moved",
        ConflictKind::NameTooLong => "the name would be longer than 255 octets in the region",
        ConflictKind::RecordTooLong => "the record would fit no message under its name in the region",
    }
}

/// Describes the origin of a record that no member has given.
fn describe_own(region: &RegionView, code: u16) -> String {
    match (code, &region.plan.ns) {
        (rtype::SOA, _) if region.pin.is_some() => {
            "made here; the serial does not follow those of the members while the region is pinned".to_owned()
        }
        (rtype::SOA, _) => {
            let serials = region.members.iter().filter(|member| member.traced.contributes());
            let serials = serials.filter_map(|member| Some(member.traced.zone.as_ref()?.soa.serial.to_string()));
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

/// Describes the state of a member.
fn describe_member(
    view: &View,
    region: &RegionView,
    (index, member): (usize, &MemberView),
    asked: &Name,
) -> SourceReport {
    let status = view.zones.get(&member.status.zone);
    let moved = asked.replace_suffix(&region.plan.origin, region.plan.origin_of(index)).and_then(Result::ok);
    SourceReport {
        zone: member.status.zone.clone(),
        state: member.status.state,
        serial: member.status.serial,
        contributes: member.traced.contributes(),
        owner: moved,
        refreshed_seconds_ago: status.and_then(|status| status.refreshed_seconds_ago),
        expires_in_seconds: status.and_then(|status| status.expires_in_seconds),
        primaries: Vec::new(),
        tree: None,
        configured: false,
    }
}
