//! Facts about one zone, region or the catalog: each is told once, as a line of `status ZONE` and by name on its page.
//!
//! Cost: O(members, primaries and secondaries of the zone).

use super::columns::Value;
use super::outward::Outward;
use super::page::parts::{Grade, Mark, count, number, size};
use super::page::rows::{Fact, lag};
use super::remarks::{region_wait, remarks};
use super::report::{CatalogReport, RegionReport, ZoneReport};
use super::sizes::{Audience, SizesReport};
use super::steering::SteeringReport;
use super::text::{because, format_seconds, moment, or_dash, time_between, time_since, unix_now};
use crate::daemon::sources::SourceStatus;
use crate::keeper::{PinStatus, RegionStatus, Unfiltered};
use crate::merge::Alike;
use crate::metrics::TransferCounts;
use crate::notify::TargetStatus;
use crate::source::inventory::InventoryStatus;
use crate::source::inventory::status::{Reading, ReasonCount};
use crate::source::static_zone::StaticZoneStatus;
use crate::source::zookeeper::TreeStatus;
use crate::transfer::{self, SilenceStatus};
use std::fmt::{Display, Write};
use wire::name::Name;
use wire::serial::Serial;

/// Facts in the order in which they are told.
#[derive(Default)]
pub struct Facts {
    /// Names and values, for pages.
    values: Vec<(&'static str, Value)>,
    /// Lines, for `status`.
    pub text: String,
}

impl Facts {
    /// The values, seen from a moment.
    pub fn values(self, now: i64) -> Vec<Fact> {
        self.values.into_iter().map(|(name, value)| Fact::new(name, value.cell(now))).collect()
    }

    /// Adds a value to the page.
    fn show(&mut self, name: &'static str, value: Value) {
        self.values.push((name, value));
    }

    /// Adds a line to the text.
    fn tell(&mut self, line: impl Display) {
        _ = writeln!(self.text, "  {line}");
    }

    /// Facts about a source zone.
    pub fn of_zone(report: &ZoneReport) -> Facts {
        let (kept, mut facts) = (&report.kept, Facts::default());
        _ = writeln!(facts.text, "zone {}", kept.zone);
        facts.tell(format_args!("state {}, serial {}", kept.state.label(), or_dash(kept.serial)));
        facts.show("serial", Value::Serial(kept.serial));
        if report.transfers().is_some() {
            let announced = report.newest_at_primary();
            facts.show("at the primary", Value::Serial(announced));
            facts.show("lag", Value::Html(lag(kept.serial, announced, report.is_heard())));
        }
        facts.tell_extent(kept.records, kept.names, report.sizes, false);
        if let (Some(refreshed), Some(expires)) = (kept.refreshed_seconds_ago, kept.expires_in_seconds) {
            let (refreshed, expires) = (format_seconds(refreshed), format_seconds(expires));
            facts.tell(format_args!("refreshed {refreshed} ago, expires in {expires}"));
        }
        facts.show("refreshed", Value::Ago(kept.refreshed_seconds_ago));
        facts.show("expires", Value::Ahead(kept.expires_in_seconds));
        if let (Some(signed), Some(left)) = (kept.signed, kept.signatures_expire_in_seconds) {
            let left =
                if left == 0 { "has expired".to_owned() } else { format!("expires in {}", format_seconds(left)) };
            facts.tell(format_args!("signed ({}); the first signature {left}", signed.to_uppercase()));
            facts.show("signatures", Value::Ahead(kept.signatures_expire_in_seconds));
        }
        if kept.conflict_names > 0 {
            let names = count(kept.conflict_names, "name", "names");
            facts.tell(format_args!("{names} with records that the zone cannot hold"));
        }
        for (name, conflict) in kept.conflicts.iter().flat_map(|(name, told)| told.iter().map(move |told| (name, told)))
        {
            let dropped = count(conflict.dropped, "record", "records");
            facts.tell(format_args!("  {name} {}: {dropped} dropped", conflict.kind.label()));
        }
        if let Some(catalog) = &report.listed_by {
            facts.tell(format_args!("listed by catalog {catalog}"));
            facts.show("listed by", Value::Text(catalog.to_string()));
        }
        if let Some(lists) = &report.lists {
            facts.tell(format_args!("catalog of {}", count(lists.zones, "zone", "zones")));
            facts.show("lists", Value::Number(lists.zones as u64));
            for refused in &lists.refused {
                facts.tell(format_args!("lists {} in vain: {}", refused.zone, refused.reason));
            }
        }
        match &report.source {
            Some(SourceStatus::Primaries(source)) => facts.tell_transfers(report, source),
            Some(SourceStatus::Tree(source)) => facts.text += &Facts::of_tree(report, source).text,
            Some(SourceStatus::Inventory(source)) => facts.text += &Facts::of_inventory(report, source).text,
            Some(SourceStatus::Services(source)) => facts.tell_services(report, source),
            None => {}
        }
        facts.tell_outward(&report.outward);
        facts
    }

    /// Facts about a region.
    pub fn of_region(report: &RegionReport) -> Facts {
        let RegionReport { kept: region, sizes, steering, outward } = report;
        let mut facts = Facts::default();
        _ = writeln!(facts.text, "region {}", region.region);
        let (state, serial) = (region.state.label(), or_dash(region.serial));
        match &region.pinned {
            Some(pin) => facts.tell(format_args!("state {state}, serial {serial}\n  {}", describe_pin(pin))),
            None => facts
                .tell(format_args!("state {state}, serial {serial} (sum of the members and drift {})", region.drift)),
        }
        facts.show("serial", Value::Serial(region.serial));
        facts.tell_extent(region.records, region.names, *sizes, true);
        facts.show("drift of the serial", Value::Number(region.drift.into()));
        facts.tell_serials(region.serial, outward);
        for member in &region.members {
            facts.tell(format_args!("member {}: {}, serial {}", member.zone, member.state, or_dash(member.serial)));
        }
        region_wait(region).iter().for_each(|wait| facts.tell(wait));
        steering.iter().flat_map(SteeringReport::lines).for_each(|line| facts.tell(line));
        if let Some(theirs) = region.followed {
            facts.tell(format_args!("went on at the start from serial {theirs}, which another server had"));
        }
        if let Some(theirs) = region.newer_elsewhere {
            let until = if region.pinned.is_some() { "the pin is released" } else { "every member is confirmed" };
            facts.tell(format_args!("another server has serial {theirs}; it is followed only after {until}"));
        }
        region_warnings(region, Name::to_string).iter().for_each(|warning| facts.tell(warning));
        if let held @ 1.. = region.held_addresses {
            let held = count(
                held,
                "address that members have withdrawn is held",
                "addresses that members have withdrawn are held",
            );
            facts.tell(format_args!("{held}; \"aggregator lookup\" tells until when"));
        }
        facts.show("held addresses", Value::Number(region.held_addresses as u64));
        if let Some(steering) = steering {
            facts.show("answers without home", Value::Number(steering.answers_without_home));
        }
        facts.tell(count(region.conflict_names, "name with conflicts", "names with conflicts"));
        for (name, conflict) in
            region.conflicts.iter().flat_map(|(name, told)| told.iter().map(move |told| (name, told)))
        {
            let member = &region.members[conflict.member].zone;
            let (kind, dropped) = (conflict.kind.label(), count(conflict.dropped, "record", "records"));
            let by = conflict.by.map(|by| format!(" because of {}", region.members[by].zone)).unwrap_or_default();
            facts.tell(format_args!("  {name} {kind}: {member}, {dropped} dropped{by}"));
        }
        facts.tell_outward(outward);
        facts
    }

    /// Facts about the catalog zone.
    pub fn of_catalog(catalog: &CatalogReport) -> Facts {
        let mut facts = Facts::default();
        _ = writeln!(facts.text, "catalog {}", catalog.zone);
        facts.show("serial", Value::Serial(catalog.serial));
        facts.show("records", Value::Number(catalog.records));
        facts.tell_serials(catalog.serial, &catalog.outward);
        facts.tell_outward(&catalog.outward);
        facts
    }

    /// Facts about the inventory that a zone is made of.
    pub fn of_inventory(report: &ZoneReport, source: &InventoryStatus) -> Facts {
        let mut facts = Facts::default();
        facts.tell_serials(report.kept.serial, &report.outward);
        let ago = |at: Option<i64>| at.map_or("never".to_owned(), |at| time_since(at) + " ago");
        let (state, last) = (source.reading.label(), ago(source.last_reading));
        let (name, place) = (&source.inventory, &source.place);
        facts.tell(format_args!("inventory {name}: {state}, {} {place}, last read {last}", source.feeder));
        let grade = if source.reading == Reading::Failing { Grade::Warn } else { Grade::Good };
        facts.show("reading", Value::Mark(Mark::new(grade, state)));
        facts.show("inventory", Value::Text(name.clone()));
        facts.show(source.feeder, Value::Text(place.clone()));
        facts.show("last read", Value::At(source.last_reading));
        let counts = &source.counts;
        let listed = counts.listed;
        let instances = count(counts.vms, "instance", "instances");
        facts.tell(format_args!("{instances}, {} with names", number(listed)));
        facts.show("instances", Value::Number(counts.vms));
        facts.show("with names", Value::Number(listed));
        let (accounts, networks, servers) = (counts.accounts, counts.networks, counts.servers);
        let of_accounts = count(accounts, "account", "accounts");
        let of_networks = count(networks, "network", "networks");
        let servers = count(servers, "compute node", "compute nodes");
        facts.tell(format_args!("{of_accounts}, {of_networks}, {servers}"));
        facts.show("accounts", Value::Number(accounts));
        facts.show("networks", Value::Number(networks));
        facts.show("undecided", Value::Number(counts.undecided));
        facts.show("held", Value::Number(counts.held));
        if let Some(since) = counts.held_since {
            let held = count(counts.held, "membership held", "memberships held");
            facts.tell(format_args!("{held}, the oldest for {}", time_since(since)));
        }
        for ReasonCount { reason, instances } in &counts.reasons {
            facts.tell(format_args!("{reason}: {}", count(*instances, "instance", "instances")));
        }
        if source.main != report.kept.zone {
            facts.tell(format_args!("made of the inventory of {}", source.main));
        }
        for zone in source.zones.iter().filter(|zone| **zone != source.main && source.main == report.kept.zone) {
            facts.tell(format_args!("with zone {zone}"));
        }
        if source.failures > 0 {
            facts.tell(count(source.failures, "reading failed", "readings failed"));
        }
        facts.tell_remarks(report);
        facts
    }

    /// Facts about the tree that a zone comes from.
    pub fn of_tree(report: &ZoneReport, source: &TreeStatus) -> Facts {
        let mut facts = Facts::default();
        facts.tell_serials(report.kept.serial, &report.outward);
        let ago = |at: Option<i64>| at.map_or("never".to_owned(), |at| time_since(at) + " ago");
        let member = source.member.as_deref().unwrap_or("none yet");
        let (state, since, contact) = (source.session.label(), ago(source.since), ago(source.last_contact));
        facts.tell(format_args!("ZooKeeper: {state}, member {member}, session begun {since}, last answer {contact}"));
        let grade = if source.error.is_none() { Grade::Good } else { Grade::Warn };
        facts.show("session", Value::Mark(Mark::new(grade, state)));
        facts.show("member", Value::Text(member.to_owned()));
        let nodes = source.nodes.map_or("not read yet".to_owned(), |nodes| count(nodes, "node", "nodes"));
        let zxid = source.zxid.as_ref().map(|zxid| format!(", newest change {zxid}")).unwrap_or_default();
        let watches = source.watches.map(|watches| format!(", watches {watches}")).unwrap_or_default();
        facts.tell(format_args!("tree {}: {nodes}{zxid}{watches}", source.path));
        facts.show("path", Value::Text(source.path.clone()));
        facts.show("nodes", source.nodes.map_or_else(Value::none, Value::Number));
        facts.show("session begun", Value::At(source.since));
        facts.show("last answer", Value::At(source.last_contact));
        let events = count(source.events, "event", "events");
        facts.tell(format_args!("{events}, {}", count(source.losses, "session lost", "sessions lost")));
        facts.show("events", Value::Number(source.events));
        facts.show("sessions lost", Value::Number(source.losses));
        if source.tree != report.kept.zone {
            facts.tell(format_args!("made of the tree of {}", source.tree));
        }
        for zone in source.reverse.iter().filter(|_| source.tree == report.kept.zone) {
            facts.tell(format_args!("reverse zone {zone}"));
        }
        if source.failures > 0 {
            facts.tell(count(source.failures, "attempt failed", "attempts failed"));
        }
        facts.tell_remarks(report);
        for payload in &source.broken_payloads {
            facts.tell(format_args!("faulty {}: {}", payload.node, payload.error));
        }
        if let more @ 1.. = source.broken.saturating_sub(source.broken_payloads.len() as u64) {
            facts.tell(format_args!("and {more} more"));
        }
        facts
    }

    /// Tells how much a zone or region holds, which sets are large, and what follows.
    fn tell_extent(&mut self, records: u64, names: usize, sizes: SizesReport, is_region: bool) {
        let (of_records, of_names) = (count(records, "record", "records"), count(names, "name", "names"));
        self.tell(format_args!("{of_records} at {of_names}"));
        self.show("records", Value::Number(records));
        self.show("names", Value::Number(names as u64));
        self.show("largest set", Value::Number(sizes.most_records.into()));
        let Some(remark) = sizes.remark() else { return };
        self.tell(format_args!("{remark}; see docs/answers.md"));
        let audience = Audience { is_region, has_secondaries: true };
        sizes.consequences(audience).iter().for_each(|line| self.tell(format_args!("  {line}")));
    }

    /// Tells how the primaries of a zone are.
    fn tell_transfers(&mut self, report: &ZoneReport, source: &transfer::Status) {
        let at_primary = or_dash(report.newest_at_primary());
        let (here, notified) = (or_dash(report.kept.serial), or_dash(report.outward.notified()));
        self.tell(format_args!("serials: {here} served, {at_primary} at the primary, {notified} told to secondaries"));
        if let Some(next) = source.next_refresh {
            self.tell(format_args!("next refresh in {}", time_between(unix_now(), next)));
        }
        self.show("next refresh", Value::At(source.next_refresh));
        if let Some(wait) = source.activity.describe_wait() {
            self.tell(wait);
        }
        for primary in &source.primaries {
            let announced = or_dash(primary.announced);
            self.tell(format_args!("primary {}: serial {announced}, {}", primary.place(), primary.result));
            primary.silence.iter().flat_map(describe_silence).for_each(|line| self.tell(format_args!("  {line}")));
        }
        self.tell_remarks(report);
        if let Some(counts) = describe_counts(report.outward.received) {
            self.tell(format_args!("transfers from primaries: {counts}"));
        }
        if !source.primaries.is_empty() {
            self.show("transfers in", show_counts(report.outward.received));
        }
    }

    /// Tells the remarks on a zone, if there are any.
    fn tell_remarks(&mut self, report: &ZoneReport) {
        let remarks = remarks(report);
        if !remarks.is_empty() {
            self.tell(remarks);
        }
    }

    /// Tells the settings of a zone of our own.
    fn tell_services(&mut self, report: &ZoneReport, source: &StaticZoneStatus) {
        self.tell_serials(report.kept.serial, &report.outward);
        self.tell(format_args!("made of the configuration as it was read {} ago", time_since(source.configured)));
        self.show("configured", Value::At(Some(source.configured)));
        for service in &source.openstack {
            self.tell(format_args!("openstack {}: {}", service.kind, service.url));
        }
    }

    /// Tells the serials of a zone, region or catalog.
    fn tell_serials(&mut self, here: Option<Serial>, outward: &Outward) {
        let (here, notified) = (or_dash(here), or_dash(outward.notified()));
        self.tell(format_args!("serials: {here} served, {notified} told to secondaries"));
    }

    /// Tells what a zone, region or catalog has for its secondaries.
    fn tell_outward(&mut self, outward: &Outward) {
        let history = &outward.history;
        if let Some(from) = history.from {
            let (versions, bytes) = (count(history.versions, "version", "versions"), size(history.bytes as u64));
            self.tell(format_args!("history from serial {from}: {versions}, {bytes}"));
        }
        if let Some(counts) = describe_counts(outward.sent) {
            self.tell(format_args!("transfers to secondaries: {counts}"));
        }
        self.show("transfers out", show_counts(outward.sent));
        for target in &outward.secondaries {
            let TargetStatus { address, notified, acknowledged, fetched, result, since, .. } = &target.status;
            let (told, acknowledged) = (or_dash(*notified), or_dash(*acknowledged));
            let fetched = fetched.map(|fetched| format!(", fetched {fetched}")).unwrap_or_default();
            let since = since.map(|since| format!(" for {}", time_since(since))).unwrap_or_default();
            let behind = target.behind_since.map(|since| format!("; behind for {}", time_since(since)));
            let behind = behind.unwrap_or_default();
            self.tell(format_args!(
                "secondary {address}: told {told}, acknowledged {acknowledged}{fetched}, {result}{since}{behind}"
            ));
        }
    }
}

/// Describes the assumption that CNS may send no NOTIFY, and the remedy that was tried.
fn describe_silence(silence: &SilenceStatus) -> Vec<String> {
    let assumed = silence.until.map(|until| {
        let owed = if silence.owed { "; no transfer has started CNS' time yet" } else { "" };
        let lasts = time_between(unix_now(), until);
        format!("silence assumed for another {lasts} unless NOTIFY comes: polled every 10 s{owed}")
    });
    let asked = silence.asked.map(|asked| format!("asked at our own serial {} ago, for NOTIFY", time_since(asked)));
    assumed.into_iter().chain(asked).collect()
}

/// Numbers of transfers; none when there were none.
fn describe_counts(counts: TransferCounts) -> Option<String> {
    let TransferCounts { incremental, full } = counts;
    (incremental + full > 0).then(|| format!("{incremental} incremental, {full} full"))
}

/// Numbers of transfers, for pages.
fn show_counts(counts: TransferCounts) -> Value {
    Value::Text(format!("{} incremental, {} full", number(counts.incremental), number(counts.full)))
}

/// Describes a pin: the version, the time and the reason.
pub fn describe_pin(pin: &PinStatus) -> String {
    format!("pinned to version {} since {}{}", pin.to, moment(Some(pin.since)), because(": ", &pin.reason))
}

/// A pin in words that follow the word itself.
pub fn pinned_to(pin: &PinStatus) -> String {
    describe_pin(pin).trim_start_matches("pinned ").to_owned()
}

/// Says what is doubtful about a region: its name servers, and the addresses that clients get. Names are written so.
pub fn region_warnings(region: &RegionStatus, write: impl Fn(&Name) -> String) -> Vec<String> {
    let alone = "the members' NS sets have nothing in common: this server is listed alone; set \"ns\"";
    let alone = region.ns_fallback.then(|| alone.to_owned());
    let without = |server| format!("name server {} has no address in the region", write(server));
    let without = region.servers_without_address.iter().map(without);
    alone.into_iter().chain(without).chain(address_warnings(region)).collect()
}

/// Says what is doubtful about the addresses that clients of a region get.
pub fn address_warnings(region: &RegionStatus) -> Vec<String> {
    let alike = region.alike_addresses.as_ref().map(|Alike { names, example }| describe_alike(*names as u64, example));
    let unfiltered = region.unfiltered.as_ref();
    let unfiltered = unfiltered.map(|Unfiltered { name, target, zone }| describe_unfiltered(name, target, zone));
    alike.into_iter().chain(unfiltered).collect()
}

/// Describes names with private addresses of several members.
pub fn describe_alike(names: u64, example: impl Display) -> String {
    let names = if names == 1 { "1 name has".to_owned() } else { format!("{names} names have") };
    format!(
        "{names} addresses of one private network from several members, which nobody can tell apart, such as {example}; \
         leave them out with \"addresses\""
    )
}

/// Describes a record by which clients of a filtered region get to other addresses.
pub fn describe_unfiltered(name: impl Display, target: impl Display, zone: impl Display) -> String {
    format!("{name} leads to {target}, and zone {zone} is not filtered as the region is")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::outward::HistoryReport;
    use crate::view::secondaries::SecondaryReport;
    use std::time::UNIX_EPOCH;

    #[test]
    fn the_ways_out_are_told() {
        let told = |outward: &Outward| {
            let mut facts = Facts::default();
            facts.tell_outward(outward);
            facts.text
        };
        assert_eq!(told(&Outward::default()), "", "nothing to tell");
        let status = TargetStatus {
            address: "192.0.2.9:53".parse().unwrap(),
            notified: Some(Serial(7)),
            acknowledged: Some(Serial(5)),
            fetched: Some(Serial(6)),
            result: "no reply".into(),
            since: Some(unix_now()),
            added: UNIX_EPOCH,
        };
        let target = SecondaryReport { status, behind_since: Some(unix_now() - 90) };
        let outward = Outward {
            history: HistoryReport { versions: 3, bytes: 2048, from: Some(Serial(4)) },
            secondaries: vec![target],
            received: TransferCounts::default(),
            sent: TransferCounts { incremental: 5, full: 1 },
        };
        let expected = "  history from serial 4: 3 versions, 2.00 KiB\n  transfers to secondaries: 5 incremental, 1 full\n  \
                        secondary 192.0.2.9:53: told 7, acknowledged 5, fetched 6, no reply for 0s; behind for 1m30s\n";
        assert_eq!(told(&outward), expected);
        assert_eq!(outward.notified(), Some(Serial(7)));
    }
}
