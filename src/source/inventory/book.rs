//! What is known of an inventory, and the versions of its zones that were made of it.
//!
//! Wraps the roster of the crate `inventory`, which knows neither the program's zones nor its plans.
//!
//! Invariants: a name that was touched is made anew in the next versions, whatever becomes of those that were on the way,
//! and all names are where there is no version yet;
//! a roster whose retained state was lost takes the instances that the zones have for those in service, so that nobody
//! leaves by a report of its own before a window has passed.
//!
//! Automatic reverse zones are told when their first address comes, and made once the configuration in force has them.
//!
//! Cost: as the roster's; versions as `zones` has it.

use super::guard::Extent;
use super::plan::InventoryPlan;
use super::status::{InventoryCounts, ReasonCount};
use super::zones::{Making, Names, NewVersion, Take};
use crate::zone::{RRsets, Zone, ZoneError};
use inventory::config::{Config, ForwardZone, Limits, Reverse, ReverseZone};
use inventory::kept::{Entry, Kept as KeptEntries, List};
use inventory::model::{Change, Health, Inventory, Key, Moment, Uuid};
use inventory::roster::{self, Explanation, Roster, Settled, Unknown};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use wire::name::Name;
use wire::rr::{RRset, rtype};
use wire::serial::Serial;

/// Automatic reverse zones of one inventory at most; each is a zone like any other.
const MOST_AUTOMATIC: usize = 20_000;

/// Number that stands for the length of no value.
const NO_VALUE: u32 = u32::MAX;

/// An instance that has to do with a name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Instance {
    pub uuid: String,
    pub alias: Option<String>,
    /// "in service", "listed" with a name and out of service, "not listed", or "undecided".
    pub state: &'static str,
    /// Reasons for which it is so, in the words of the metric labels.
    pub reasons: Vec<&'static str>,
    /// Its services.
    pub services: Vec<Membership>,
}

/// An instance's part in a service.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Membership {
    pub service: String,
    /// "in", "out", or "held" where it reports itself down and stays for a while.
    pub state: &'static str,
    /// Time of the report that is held, Unix time.
    pub since: Option<i64>,
    /// Time at which a hold ends if nothing else happens, Unix time.
    pub until: Option<i64>,
}

/// Everything about one instance.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Detail {
    #[serde(flatten)]
    pub instance: Instance,
    pub owner: Option<String>,
    pub login: Option<String>,
    /// The first reason of each group of rules, or the one for which it is undecided.
    pub first: Vec<&'static str>,
    /// The last report on it, if that counts.
    pub report: Option<Report>,
    /// Owner names that have its addresses, or would have them but for an alias of the same name.
    pub addressed: Vec<Name>,
    /// Zones in which it has a name.
    pub zones: Vec<Name>,
    /// Time of the last good reading, Unix time in milliseconds.
    pub heard: i64,
}

/// A report on an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// "up" or "down".
    pub status: &'static str,
    /// Time at which silence becomes a report of being down, Unix time.
    pub until: Option<i64>,
    /// True if that has happened.
    pub lapsed: bool,
}

/// An account: its UUID, its login, and how many names it has.
pub type AccountNames = (String, String, usize);

/// What an earlier run has kept.
#[derive(Default)]
pub struct Kept {
    pub elements: Vec<Vec<u8>>,
    /// None where nothing is kept, as before the first run, or where it was damaged.
    pub retained: Option<Vec<Vec<u8>>>,
    /// Time of the last good reading.
    pub heard: Option<SystemTime>,
}

/// What is known of an inventory.
pub struct Book {
    roster: Roster,
    /// The versions made last.
    versions: HashMap<Name, Arc<Zone>>,
    /// Names to be made.
    touched: HashMap<Name, HashSet<Name>>,
    /// Time of the last good reading.
    heard: Instant,
    /// Serials that others have of zones without a version here, and zones that are not made before that is known.
    elsewhere: HashMap<Name, Serial>,
    waiting: HashSet<Name>,
    is_complete: bool,
    /// True if the whole was read since the last look at addresses without a reverse zone, and what that look found.
    has_been_read: bool,
    outside: Option<String>,
    /// Automatic reverse zones that there are, or were since the last look by [`Book::automatic_zones`].
    automatic: HashSet<Name>,
    /// Entries of what was kept that could not be read.
    faults: usize,
}

impl Book {
    /// Begins with what was kept; `zone` are the zones that are served.
    pub fn restore(plan: &InventoryPlan, kept: Kept, zone: impl Fn(&Name) -> Option<Arc<Zone>>, now: Moment) -> Book {
        let mut faults = 0;
        let mut read = |frames: &[Vec<u8>]| {
            let mut entries = Vec::new();
            faults += frames.iter().filter(|frame| read_entries(frame, &mut entries).is_none()).count();
            entries
        };
        // A file without a frame that can be read says nothing either.
        let retained_is_lost = kept.retained.as_deref().is_none_or(<[_]>::is_empty);
        let elements = read(&kept.elements);
        let retained = read(kept.retained.as_deref().unwrap_or_default());
        let (mut roster, unread) = Roster::restore(config_of(plan), &KeptEntries { elements, retained }, now);
        if retained_is_lost {
            let zones = plan.forward.iter().filter_map(|made| zone(&made.origin));
            let presumed: Vec<(Name, Uuid)> = zones.flat_map(|zone| in_service(&zone)).collect();
            // Of a first start nothing is lost.
            if !presumed.is_empty() {
                roster.presume(presumed, now);
            }
        }
        Book {
            roster,
            versions: HashMap::new(),
            touched: HashMap::new(),
            heard: Instant::now(),
            elsewhere: HashMap::new(),
            waiting: HashSet::new(),
            is_complete: false,
            has_been_read: false,
            outside: None,
            automatic: HashSet::new(),
            faults: faults + unread,
        }
    }

    /// Takes other rules and zones; all zones are made anew.
    pub fn reconfigure(&mut self, plan: &InventoryPlan, now: Moment) {
        self.roster.reconfigure(config_of(plan), now);
        self.forget_versions();
    }

    /// Returns true if everything was read to its end since the start.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Time of the last good reading, here or of an earlier run.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Notes the time of a good reading.
    pub fn note_heard(&mut self, heard: Instant) {
        self.heard = heard;
    }

    /// What configuration and inventory do not have of each other, in words: networks that the one names and the other
    /// does not have, or has several times, and after a whole reading addresses that have no reverse zone.
    pub fn unresolved(&mut self) -> Vec<String> {
        if std::mem::take(&mut self.has_been_read) {
            self.outside = self.roster.without_reverse_zone().map(|(count, lowest)| match count {
                1 => format!("{lowest} is in no reverse zone"),
                _ => format!("{count} addresses are in no reverse zone, such as {lowest}"),
            });
        }
        let unresolved = self.roster.unresolved_networks().into_iter();
        let networks = unresolved.map(|(name, uuids)| match uuids.len() {
            0 => format!("no network is \"{name}\": its addresses have no names"),
            _ => format!(
                "{} networks are \"{name}\": {}: their addresses have no names",
                uuids.len(),
                uuids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(", ")
            ),
        });
        networks.chain(self.outside.clone()).collect()
    }

    /// Lets zones wait until it is known what others have of them; all others are made.
    pub fn wait_for(&mut self, zones: HashSet<Name>) {
        self.waiting = zones;
    }

    /// Lets no zone wait. False: none did.
    pub fn wait_for_nothing(&mut self) -> bool {
        !std::mem::take(&mut self.waiting).is_empty()
    }

    /// The zones that wait.
    pub fn waiting(&self) -> &HashSet<Name> {
        &self.waiting
    }

    /// Notes what others have of a zone, which waits no longer; the first version made here is newer.
    pub fn note_elsewhere(&mut self, zone: Name, serial: Option<Serial>) {
        self.waiting.remove(&zone);
        if let Some(serial) = serial {
            self.elsewhere.insert(zone, serial);
        }
    }

    /// Notes that everything was read to its end.
    pub fn complete(&mut self) {
        (self.is_complete, self.has_been_read) = (true, true);
    }

    /// Number of things that were kept and could not be read.
    pub fn faults(&self) -> usize {
        self.faults
    }

    /// Names of all that is known, so that a feeder can ask for what a listing lacks.
    pub fn keys(&self) -> Vec<Key> {
        self.roster.keys()
    }

    //--- Changes ---

    /// Takes a complete document.
    pub fn replace(&mut self, inventory: Inventory, now: Moment) {
        self.roster.replace(inventory, now);
        self.complete();
    }

    /// Takes changes.
    pub fn apply(&mut self, changes: Vec<Change>, now: Moment) {
        changes.into_iter().for_each(|change| self.roster.apply(change, now));
    }

    /// Numbers of elements that are known.
    pub fn extent(&self) -> Extent {
        self.roster.extent().map(|count| count as u64)
    }

    /// Numbers of elements of a document; instances that it tells to be destroyed count, since they are no loss.
    pub fn extent_of(inventory: &Inventory) -> Extent {
        let Inventory { vms, accounts, networks, network_pools, nics, servers } = inventory;
        [vms.len(), accounts.len(), networks.len(), network_pools.len(), nics.len(), servers.len()]
            .map(|count| count as u64)
    }

    /// Numbers for operators.
    pub fn counts(&self) -> InventoryCounts {
        let counts = self.roster.counts();
        let roster::Counts { vms, accounts, networks, servers, listed, undecided, held, .. } = counts;
        let reasons =
            counts.reasons.iter().map(|(reason, instances)| ReasonCount { reason, instances: *instances as u64 });
        InventoryCounts {
            vms: vms as u64,
            accounts: accounts as u64,
            networks: networks as u64,
            servers: servers as u64,
            listed: listed as u64,
            undecided: undecided as u64,
            held: held as u64,
            held_since: counts.oldest_hold.map(seconds),
            conflicts: counts.conflicts as u64,
            soft_removals: counts.soft_removals,
            hard_removals: counts.hard_removals,
            returned: counts.returned,
            released: counts.released,
            reasons: reasons.collect(),
        }
    }

    //--- Zones ---

    /// Settles what has changed. Returns the moment of the next time, and whether automatic reverse zones have come.
    pub fn settle(&mut self, now: Moment) -> (Option<Moment>, bool) {
        // A zone without a version is made whole.
        let Settled { touched, next } = match self.versions.is_empty() {
            true => Settled { touched: HashMap::new(), next: self.roster.settle_untold(now) },
            false => self.roster.settle(now),
        };
        if self.is_complete {
            // Whoever was in service has come again, or is gone.
            self.roster.forget_presumed();
        }
        let before = self.automatic.len();
        match self.versions.is_empty() {
            true => self.note_automatic(self.roster.automatic_zones().cloned().collect()),
            false => {
                self.note_automatic(touched.keys().filter(|zone| self.roster.is_automatic(zone)).cloned().collect())
            }
        }
        for (zone, names) in touched.into_iter().filter(|(zone, _)| self.versions.contains_key(zone)) {
            self.touched.entry(zone).or_default().extend(names);
        }
        (next, self.automatic.len() > before)
    }

    /// Takes in automatic zones, as many as there may be.
    fn note_automatic(&mut self, mut zones: Vec<Name>) {
        zones.retain(|zone| !self.automatic.contains(zone));
        let room = MOST_AUTOMATIC.saturating_sub(self.automatic.len());
        if zones.len() > room {
            // The same ones after every start.
            zones.sort_unstable_by(Name::canonical_cmp);
            let zone = &zones[room];
            tracing::warn!(%zone, "there are {MOST_AUTOMATIC} automatic reverse zones; this one is not made");
            zones.truncate(room);
        }
        self.automatic.extend(zones);
    }

    /// The automatic reverse zones. Those that have emptied stay among them, unless they are to be let go.
    pub fn automatic_zones(&mut self, let_go: bool) -> Vec<Name> {
        if let_go && self.is_complete {
            self.automatic.retain(|zone| self.roster.is_automatic(zone));
        }
        self.automatic.iter().cloned().collect()
    }

    /// Makes versions of the zones that are others than what `base` says is published.
    pub fn versions(
        &mut self,
        plan: &InventoryPlan,
        base: impl Fn(&Name) -> Option<Arc<Zone>>,
        serial: Option<Serial>,
        now: Moment,
    ) -> Result<Vec<NewVersion>, ZoneError> {
        let mut made = Vec::new();
        for (origin, apex) in plan.apexes().filter(|(origin, _)| !self.waiting.contains(*origin)) {
            let base = base(origin);
            let is_known = match (&base, self.versions.get(origin)) {
                (Some(base), Some(version)) => Arc::ptr_eq(version.soa_rrset(), base.soa_rrset()),
                _ => false,
            };
            let touched = self.touched.remove(origin).unwrap_or_default();
            let shared = |rrsets: Vec<RRset>| -> RRsets { rrsets.into_iter().map(Arc::new).collect() };
            let records = |owner: &Name| shared(self.roster.records_at(origin, owner));
            let tell = |take: Take<'_>| {
                self.roster.each_name(origin, |name, rrsets| take(&name, shared(rrsets)));
            };
            let names = match is_known {
                true => Names::Some(touched.into_iter().collect()),
                false => Names::All(&tell),
            };
            let elsewhere = self.elsewhere.get(origin).copied();
            let now = u64::try_from(now.0).unwrap_or(0);
            let making = Making { origin, apex, base: base.clone(), now, serial, elsewhere };
            // What was touched is not known any more where no version can be made.
            let version = making.make(names, records).inspect_err(|_| drop(self.versions.remove(origin)))?;
            let zone = version.as_ref().map(|version| Arc::new(version.loaded.zone.clone())).or(base);
            if let Some(zone) = zone {
                self.versions.insert(origin.clone(), zone);
            }
            made.extend(version);
        }
        Ok(made)
    }

    /// Lets the next versions be made whole.
    pub fn forget_versions(&mut self) {
        self.versions.clear();
    }

    /// The instances that have to do with a name of a zone.
    pub fn explain(&self, zone: &Name, owner: &Name) -> Vec<Instance> {
        self.roster.explain_name(zone, owner).into_iter().map(Instance::from).collect()
    }

    /// Everything about one instance; none if it is unknown.
    pub fn instance(&self, vm: Uuid) -> Option<Detail> {
        let mut found = self.roster.explain(vm)?;
        let report = found.report.map(|report| Report {
            status: if report.health == Health::Up { "up" } else { "down" },
            until: report.until.map(seconds),
            lapsed: report.is_lapsed,
        });
        let mut zones: Vec<Name> = found.names.iter().map(|(zone, _)| zone.clone()).collect();
        zones.dedup();
        let heard = SystemTime::now().checked_sub(self.heard.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        let heard = heard.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        Some(Detail {
            owner: found.owner.map(|owner| owner.to_string()),
            login: found.login.take().map(String::from),
            first: found.undecided.map_or_else(|| found.reasons.clone(), |(reason, _)| vec![reason]),
            report,
            addressed: std::mem::take(&mut found.addressed),
            zones,
            heard: i64::try_from(heard).unwrap_or(i64::MAX),
            instance: Instance::from(found),
        })
    }

    /// The names below which an account's services and instances on these networks would stand.
    pub fn suffixes(&self, owner: Uuid, networks: &[Uuid]) -> Result<Vec<Name>, Unknown> {
        self.roster.suffixes(owner, networks)
    }

    /// The login of an account; none if it is unknown.
    pub fn login(&self, account: Uuid) -> Option<&str> {
        self.roster.login(account)
    }

    //--- Orders ---

    /// Takes a report on an instance. False: no such instance.
    pub fn report(&mut self, vm: Uuid, health: Health, ttl: Option<Duration>, now: Moment) -> bool {
        self.roster.report(vm, health, ttl, now)
    }

    /// Withdraws the report on an instance. False: there was none.
    pub fn withdraw_report(&mut self, vm: Uuid, now: Moment) -> bool {
        self.roster.withdraw_report(vm, now)
    }

    /// Forgets an instance and all its records. False: no such instance.
    pub fn forget(&mut self, vm: Uuid, now: Moment) -> bool {
        self.roster.forget(vm, now)
    }

    /// Ends all holds at the name of a service. Returns their number.
    pub fn release(&mut self, name: &Name, now: Moment) -> usize {
        self.roster.release(name, now)
    }

    /// The accounts with the most names: UUID, login if it is known, and names. O(accounts).
    pub fn names_by_account(&self, limit: usize) -> Vec<AccountNames> {
        let all = self.roster.names_by_account(limit).into_iter();
        all.map(|(uuid, login, names)| (uuid.to_string(), login.unwrap_or_default().to_owned(), names)).collect()
    }

    /// The first accounts, services and instances with a part in their names; see the roster's survey.
    pub fn survey(&self, part: &str, limit: usize) -> roster::Survey {
        self.roster.survey(part, limit)
    }

    //--- Keeping ---

    /// Returns what has changed of elements and of what was learnt, as frames; one of no octets says nothing.
    pub fn keep_changes(&mut self) -> [Vec<u8>; 2] {
        let KeptEntries { elements, retained } = self.roster.keep_changes();
        [write_entries(&elements), write_entries(&retained)]
    }

    /// A list in parts, to be written whole; what changes has to be written behind them, too.
    pub fn parts(&self, list: List) -> Vec<roster::Part> {
        self.roster.parts(list)
    }

    /// Forgets what has changed of a list, all of which is written.
    pub fn forget_changes(&mut self, list: List) {
        self.roster.forget_changes(list);
    }

    /// A part of a list as it is now, as a frame.
    pub fn kept(&self, part: &roster::Part) -> Vec<u8> {
        write_entries(&self.roster.kept(part))
    }
}

/// A moment as Unix time.
pub fn seconds(moment: Moment) -> i64 {
    moment.0.div_euclid(1000)
}

impl From<Explanation> for Instance {
    fn from(found: Explanation) -> Instance {
        let mut reasons = found.all_reasons;
        let state = match found.undecided {
            Some((reason, _)) => {
                reasons.retain(|known| *known != reason);
                reasons.insert(0, reason);
                "undecided"
            }
            None if found.service => "in service",
            None if found.instance => "listed",
            None => "not listed",
        };
        let service = |membership: roster::Membership| Membership {
            service: membership.service.into(),
            state: match (membership.is_in, membership.held_since) {
                (true, Some(_)) => "held",
                (true, None) => "in",
                (false, _) => "out",
            },
            since: membership.held_since.map(seconds),
            until: membership.held_until.map(seconds),
        };
        Instance {
            uuid: found.uuid.to_string(),
            alias: found.alias.map(String::from),
            state,
            reasons,
            services: found.services.into_iter().map(service).collect(),
        }
    }
}

/// The rules of a plan as the roster takes them.
fn config_of(plan: &InventoryPlan) -> Config {
    let rules = &plan.rules;
    let forward = plan.forward.iter().map(|zone| ForwardZone {
        origin: zone.origin.clone(),
        networks: zone.networks.iter().map(|network| network.as_str().into()).collect(),
    });
    let reverse = plan
        .reverse
        .iter()
        .map(|zone| ReverseZone { origin: zone.origin.clone(), prefix: (zone.prefix.address(), zone.prefix.length()) });
    Config {
        name: plan.name.as_str().into(),
        use_login: rules.use_login,
        use_alias: rules.use_alias,
        missing_is_up: rules.missing_is_up,
        cn_down_after: rules.cn_down_after,
        damping: Limits {
            max_removed: rules.damping.max_removed,
            window: rules.damping.window,
            last: rules.damping.last,
        },
        cmon: rules.cmon,
        operator_logins: rules.operator_logins,
        srv_weights: rules.srv_weights,
        upstream_cn_rules: false,
        ttl: rules.ttl,
        forward: forward.collect(),
        reverse: if plan.automatic.is_some() { Reverse::Auto } else { Reverse::Listed(reverse.collect()) },
    }
}

/// The instances that a zone has in service, as the TXT records at its names say.
fn in_service(zone: &Zone) -> Vec<(Name, Uuid)> {
    let mut found = Vec::new();
    for (name, node) in zone.iter() {
        for text in node.get(rtype::TXT).into_iter().flat_map(|set| set.rdatas()) {
            // One string: its length, and the UUID.
            if let Some((36, uuid)) = text.split_first()
                && let Ok(uuid) = Uuid::try_parse_ascii(uuid)
            {
                found.push((name.clone(), uuid));
            }
        }
    }
    found
}

//--- Entries as octets ---

/// Writes entries: each key and value with its length in front.
fn write_entries(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for Entry { key, value } in entries {
        write_text(key, &mut out);
        match value {
            Some(value) => write_text(value, &mut out),
            None => out.extend(NO_VALUE.to_be_bytes()),
        }
    }
    out
}

/// Writes a text with its length.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

/// Reads entries; none if they are no such octets.
fn read_entries(mut bytes: &[u8], entries: &mut Vec<Entry>) -> Option<()> {
    while !bytes.is_empty() {
        let key = read_text(&mut bytes)??;
        entries.push(Entry { key, value: read_text(&mut bytes)? });
    }
    Some(())
}

/// Reads a text, or that there is none.
fn read_text(bytes: &mut &[u8]) -> Option<Option<Box<str>>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u32::from_be_bytes(*length);
    if length == NO_VALUE {
        *bytes = rest;
        return Some(None);
    }
    let (text, rest) = rest.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(Some(std::str::from_utf8(text).ok()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let entry = |key: &str, value: Option<&str>| Entry { key: key.into(), value: value.map(Into::into) };
        let entries = vec![entry("vm/1", Some("{}")), entry("vm/2", None), entry("", Some(""))];
        let bytes = write_entries(&entries);
        let mut read = Vec::new();
        assert_eq!(read_entries(&bytes, &mut read), Some(()));
        assert_eq!(read, entries);
        assert_eq!(read_entries(&bytes[..bytes.len() - 2], &mut Vec::new()), None);
    }
}
