//! Remarks on regions and zones: what there is to say of one, in a few words.
//!
//! Cost: O(members), O(primaries).

use super::page::parts::count;
use super::report::{RegionReport, Report, ZoneReport};
use super::text::{format_seconds, printable, time_since};
use crate::daemon::sources::SourceStatus;
use crate::keeper::RegionStatus;
use crate::publish::State;
use crate::rate_limit::Episode;
use crate::source::inventory::InventoryStatus;
use crate::source::inventory::status::Reading;
use crate::source::zookeeper::TreeStatus;
use crate::source::zookeeper::status::Session;
use crate::transfer::{self, HeldStatus, RegressionStatus};
use std::collections::HashSet;
use wire::name::Name;

/// A noun with how many there are of it, if there are any.
fn counted(number: impl TryInto<u64>, one: &str, many: &str) -> Option<String> {
    let number = number.try_into().unwrap_or(u64::MAX);
    (number > 0).then(|| count(number, one, many))
}

/// Describes a network whose responses are over the rate limit.
pub fn describe_episode(Episode { network, class, since, limited }: &Episode) -> String {
    let (since, responses) = (time_since(*since), count(*limited, "response", "responses"));
    format!("{network} for {since}, {responses}, first of class {class}")
}

/// Says which members a region waits for that is not served yet, and how long at most.
pub fn region_wait(region: &RegionStatus) -> Option<String> {
    let missing = || region.members.iter().filter(|member| member.state == "missing").map(|member| &member.zone);
    let first = missing().next().filter(|_| region.state == State::NotReady)?;
    let more = match missing().count() - 1 {
        0 => String::new(),
        more => format!(" and {}", count(more, "other member", "other members")),
    };
    let most = region.partial_in_seconds.map(|seconds| format!(" for another {} at most", format_seconds(seconds)));
    Some(format!("waits for {first}{more}{}", most.unwrap_or_default()))
}

/// Returns remarks on a region, for its line in `status`.
pub fn region_remarks(report: &Report, RegionReport { kept: region, sizes, .. }: &RegionReport) -> String {
    let members = region.members.iter().filter(|member| matches!(member.state, "ok" | "stale")).count();
    let drained = |is_whole: bool| {
        let drains = report.drains_in(&region.region).filter(|drain| drain.share_percent.is_none() == is_whole);
        drains.map(|drain| &drain.target.member).collect::<HashSet<&Name>>().len()
    };
    let remarks = [
        Some(format!("region, {members} of {}", count(region.members.len(), "member", "members"))),
        region_wait(region),
        counted(drained(true), "drained", "drained"),
        counted(drained(false), "drained for a share of clients", "drained for a share of clients"),
        region.pinned.as_ref().map(|pin| format!("pinned to version {}", pin.to)),
        counted(region.held_addresses, "address held", "addresses held"),
        counted(region.conflict_names, "conflict", "conflicts"),
        region.alike_addresses.as_ref().and_then(|alike| {
            counted(alike.names, "name with private addresses alike", "names with private addresses alike")
        }),
        (region.drift != 0).then(|| format!("drift {}", region.drift)),
        region.newer_elsewhere.map(|theirs| format!("another server has {theirs}")),
        region.ns_fallback.then(|| "NS: this server alone".to_owned()),
        (!region.servers_without_address.is_empty()).then(|| "NS without address".to_owned()),
        sizes.remark(),
        counted(report.faults_of(&region.region), "fault of NS", "faults of NS"),
    ];
    remarks.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

/// Returns remarks on a zone, for its line in `status`.
pub fn zone_remarks(report: &Report, zone: &ZoneReport) -> String {
    let faults = counted(report.faults_of(&zone.kept.zone), "fault of NS", "faults of NS");
    let of_source = Some(remarks(zone)).filter(|remarks| !remarks.is_empty());
    let lists = zone.lists.as_ref().map(|lists| {
        let refused = counted(lists.refused.len(), "another refused", "others refused");
        let refused = refused.map(|refused| format!(", {refused}")).unwrap_or_default();
        format!("catalog of {}{refused}", count(lists.zones, "zone", "zones"))
    });
    let remarks = [lists, of_source, zone.sizes.remark(), faults];
    remarks.into_iter().flatten().collect::<Vec<String>>().join("; ")
}

/// Returns remarks on a zone's source, in a few words.
pub fn remarks(zone: &ZoneReport) -> String {
    match &zone.source {
        Some(SourceStatus::Primaries(source)) => transfer_remarks(source, zone.kept.serial.is_none()),
        Some(SourceStatus::Tree(source)) => tree_remarks(source),
        Some(SourceStatus::Inventory(source)) => inventory_remarks(source),
        Some(SourceStatus::Services(_)) => "made of the configuration".to_owned(),
        None => String::new(),
    }
}

/// Returns remarks on the transfers of a zone.
fn transfer_remarks(source: &transfer::Status, is_first: bool) -> String {
    let mut remarks = Vec::new();
    // What is over in a moment is none that anybody waits for.
    let slow = source.running.as_ref().filter(|running| running.progress.milliseconds >= 1000);
    remarks.extend(slow.map(transfer::Running::describe));
    if is_first && source.failures == 0 && remarks.is_empty() {
        remarks.push("waits for its first transfer".to_owned());
    }
    remarks.extend(source.held.as_ref().map(HeldStatus::describe));
    remarks.extend(source.regression.as_ref().map(RegressionStatus::describe));
    match source.doubts.records {
        0 => {}
        1 => remarks.push("1 removed record stays: no primary answers for it".to_owned()),
        stay => remarks.push(format!("{stay} removed records stay: no primary answers for them")),
    }
    if source.failures > 0 {
        let failed = source.primaries.iter().find(|primary| primary.failures > 0);
        let result = failed.map_or("", |primary| &primary.result);
        remarks.push(format!("{} failed: {result}", count(source.failures, "refresh", "refreshes")));
    } else if let failing @ 1.. = source.primaries.iter().filter(|primary| primary.failures > 0).count() {
        remarks.push(format!("{failing} of {} primaries fail", source.primaries.len()));
    }
    remarks.join("; ")
}

/// Returns remarks on an inventory.
fn inventory_remarks(source: &InventoryStatus) -> String {
    let mut remarks = Vec::new();
    remarks.extend(source.held.as_ref().map(|held| held.describe()));
    match (source.reading, &source.error) {
        (Reading::Current, _) => {}
        (reading, None) => remarks.push(format!("inventory: {}", reading.label())),
        (reading, Some(error)) => {
            // A document may have many mistakes, each on its line.
            let mut lines = error.lines();
            let first = lines.next().unwrap_or_default();
            let more = match lines.count() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            remarks.push(format!("inventory: {}: {}{more}", reading.label(), printable(first)));
        }
    }
    remarks.extend(counted(source.counts.held, "membership held", "memberships held"));
    remarks.extend(counted(source.counts.undecided, "instance undecided", "instances undecided"));
    if source.following == Some(false) && source.reading != Reading::Starting {
        remarks.push("no change feed: what changes is seen with the next listing".to_owned());
    }
    remarks.extend(counted(source.unreadable, "element cannot be read", "elements cannot be read"));
    remarks.extend(source.unresolved.iter().map(|text| printable(text).to_string()));
    remarks.extend(source.second_builder.as_ref().map(|found| format!("another builder: {found}")));
    remarks.extend(source.state_error.as_ref().map(|error| format!("not kept on disk: {error}")));
    remarks.join("; ")
}

/// Returns remarks on a tree.
fn tree_remarks(source: &TreeStatus) -> String {
    let mut remarks = Vec::new();
    remarks.extend(source.held.as_ref().map(|held| held.describe()));
    match (source.session, &source.error) {
        (Session::Live, _) => {}
        (session, None) => remarks.push(format!("ZooKeeper: {}", session.label())),
        (session, Some(error)) => remarks.push(format!("ZooKeeper: {}: {error}", session.label())),
    }
    remarks.extend(counted(source.broken, "faulty payload", "faulty payloads"));
    remarks.extend(counted(source.closed, "node may not be read", "nodes may not be read"));
    remarks.join("; ")
}
