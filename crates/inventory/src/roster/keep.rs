//! Writing down what outlives the process, and taking it up again.
//!
//! Invariants: a roster that was kept and restored publishes the same; moments in the future are taken as now, for they
//! are of a clock that was ahead; an entry that cannot be read harms no other; what a journal says last of a key counts,
//! whatever it said before.
//!
//! Cost: O(octets of what is written or read · log); a list in parts, O(octets of a part) at a time.

use super::{GroupKey, Health, Instance, Keeping, Known, Node, Report, Roster, Spot, Use};
use crate::config::Config;
use crate::contribution::Published;
use crate::damping::Remains;
use crate::kept::{Entry, Kept, List};
use crate::model::{Change, Element, Key, Moment, Uuid};
use crate::packed::Packed;
use crate::verdict::Reason;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;
use wire::name::Name;

/// An element as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptElement {
    element: Element,
    /// It is no more, but instances refer to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
    /// What an instance that cannot be judged goes on to publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published: Option<KeptPublished>,
}

#[derive(Serialize, Deserialize)]
struct KeptPublished {
    records: Box<Published>,
    /// Forward zones by the numbers that the links use.
    zones: Vec<String>,
    service: bool,
    /// The label that it claims, and its age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<(Box<str>, Moment)>,
    since: Moment,
}

#[derive(Serialize, Deserialize)]
struct KeptReport {
    up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// True if its time to live had passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lapsed: bool,
}

#[derive(Serialize, Deserialize)]
struct KeptGroup {
    held: Vec<(Moment, Uuid)>,
    removed: Vec<(Moment, Uuid)>,
    /// Zone, label of the prefix, moment.
    alone: Vec<(String, Box<str>, Moment)>,
}

/// Entries of a part of a list at most.
const MOST_OF_PART: usize = 256;

/// A part of a list: entries that are written together.
#[derive(Debug)]
pub struct Part(Keeping);

impl Roster {
    /// Everything that outlives the process; taken after a batch, so that nothing waits.
    pub fn keep(&mut self) -> Kept {
        self.keeping = Keeping::default();
        let mut kept = Kept::default();
        for (list, entries) in [(List::Elements, &mut kept.elements), (List::Retained, &mut kept.retained)] {
            let parts = self.parts(list);
            entries.extend(parts.iter().flat_map(|part| self.kept(part)));
            entries.sort_by(|a, b| a.key.cmp(&b.key));
        }
        kept
    }

    /// A list in parts, to be written one by one while changes go on: what changes has to be written behind them, too
    /// ([`keep_changes`](Roster::keep_changes)). O(entries), without their values.
    pub fn parts(&self, list: List) -> Vec<Part> {
        let mut parts = Vec::new();
        match list {
            List::Elements => {
                // Those that are no more stay as long as something refers to them.
                let gone = [
                    self.accounts.iter().filter(|(_, known)| known.gone).map(|(uuid, _)| Key::Account(*uuid)).collect(),
                    self.networks.iter().filter(|(_, known)| known.gone).map(|(uuid, _)| Key::Network(*uuid)).collect(),
                    self.servers.iter().filter(|(_, node)| node.gone).map(|(uuid, _)| Key::Server(*uuid)).collect(),
                    self.keys(),
                ];
                split(&gone.concat(), &mut parts, |keeping| &mut keeping.elements);
            }
            List::Retained => {
                split(&self.reports.keys().copied().collect::<Vec<_>>(), &mut parts, |keeping| &mut keeping.reports);
                split(&self.label_owners.keys().cloned().collect::<Vec<_>>(), &mut parts, |keeping| {
                    &mut keeping.labels
                });
                let groups: BTreeSet<&GroupKey> = self.groups.keys().chain(self.memory.groups.keys()).collect();
                split(&groups.into_iter().cloned().collect::<Vec<_>>(), &mut parts, |keeping| &mut keeping.groups);
                split(&self.servers.keys().copied().collect::<Vec<_>>(), &mut parts, |keeping| &mut keeping.servers);
            }
        }
        parts
    }

    /// Forgets what has changed of a list, all of which is written.
    pub fn forget_changes(&mut self, list: List) {
        let keeping = std::mem::take(&mut self.keeping);
        self.keeping = match list {
            List::Elements => Keeping { elements: HashSet::new(), ..keeping },
            List::Retained => Keeping { elements: keeping.elements, ..Keeping::default() },
        };
    }

    /// The entries of a part, as they are now.
    pub fn kept(&self, Part(keeping): &Part) -> Vec<Entry> {
        let Kept { mut elements, retained } = self.entries(keeping);
        elements.extend(retained);
        elements.retain(|entry| entry.value.is_some());
        elements
    }

    /// What has changed since this or all of it was last asked; taken after a batch, too.
    pub fn keep_changes(&mut self) -> Kept {
        let keeping = std::mem::take(&mut self.keeping);
        self.entries(&keeping)
    }

    fn entries(&self, keeping: &Keeping) -> Kept {
        let elements = keeping.elements.iter().map(|key| Entry {
            key: key_text(*key),
            value: self.kept_element(*key).and_then(|element| text(&element)),
        });
        let mut elements: Vec<Entry> = elements.collect();
        elements.sort_by(|a, b| a.key.cmp(&b.key));
        let mut retained = Vec::new();
        let mut put = |key: String, value: Option<Box<str>>| retained.push(Entry { key: key.into(), value });
        for vm in &keeping.reports {
            let report = self.reports.get(vm).map(|report| KeptReport {
                up: report.health == Health::Up,
                ttl_ms: report.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
                lapsed: report.is_lapsed(self.now),
            });
            put(format!("report/{vm}"), report.as_ref().and_then(text));
        }
        for label in &keeping.labels {
            let owner = self.label_owners.get(label);
            put(format!("label/{label}"), owner.and_then(text));
        }
        for uuid in &keeping.servers {
            let seen = self.servers.get(uuid).map(|node| node.seen);
            put(format!("server/{uuid}"), seen.as_ref().and_then(text));
        }
        for key in &keeping.groups {
            let remains = self.groups.get(key).and_then(|group| group.remains());
            let remains = remains.or_else(|| self.memory.groups.get(key).cloned());
            let value = remains.and_then(|remains| {
                let alone = remains.alone.into_iter().map(|((zone, prefix), at)| {
                    (self.config.forward[usize::from(zone)].origin.to_string(), prefix, at)
                });
                text(&KeptGroup { held: remains.held, removed: remains.removed, alone: alone.collect() })
            });
            put(format!("group/{}/{}", key.0, key.1), value);
        }
        Kept { elements, retained }
    }

    fn kept_published(&self, instance: &Instance) -> Option<KeptPublished> {
        let (_, since) = instance.undecided?;
        Some(KeptPublished {
            records: instance.published().map(Box::new).or_else(|| instance.recalled.clone())?,
            zones: self.config.forward.iter().map(|zone| zone.origin.to_string()).collect(),
            service: instance.service,
            claim: instance.claim.as_ref().map(Packed::open).map(|((_, label), created)| (label, created)),
            since,
        })
    }

    fn kept_element(&self, key: Key) -> Option<KeptElement> {
        let plain = |element: Element, gone: bool| KeptElement { element, gone, published: None };
        match key {
            Key::Vm(uuid) => self.vms.get(&uuid).map(|instance| KeptElement {
                element: Element::Vm(instance.vm.open()),
                gone: false,
                published: self.kept_published(instance),
            }),
            Key::Account(uuid) => {
                self.accounts.get(&uuid).map(|known| plain(Element::Account(known.element.clone()), known.gone))
            }
            Key::Network(uuid) => {
                self.networks.get(&uuid).map(|known| plain(Element::Network(known.element.clone()), known.gone))
            }
            Key::NetworkPool(uuid) => {
                self.pools.get(&uuid).map(|known| plain(Element::NetworkPool(known.element.clone()), known.gone))
            }
            Key::Nic(mac) => self.nics.get(&mac).map(|known| plain(Element::Nic(known.element.clone()), known.gone)),
            Key::Server(uuid) => {
                self.servers.get(&uuid).map(|node| plain(Element::Server(node.server.clone()), node.gone))
            }
        }
    }

    /// The roster that was kept, and the number of entries that could not be read. Moments in the future are taken as now.
    /// The next [`settle`](Roster::settle) touches all names.
    pub fn restore(config: Config, kept: &Kept, now: Moment) -> (Roster, usize) {
        let mut roster = Roster::new(config, now);
        let mut unread = 0;
        for entry in &kept.retained {
            unread += usize::from(!roster.recall(entry, now));
        }
        let seen: Vec<(Uuid, Moment)> = kept
            .retained
            .iter()
            .filter_map(|entry| {
                let uuid = entry.key.strip_prefix("server/")?.parse().ok()?;
                Some((uuid, serde_json::from_str(entry.value.as_deref()?).ok()?))
            })
            .collect();
        // An instance that went and came again has the report of afterwards; one that comes later has its own, too.
        let reports = std::mem::take(&mut roster.reports);
        // Later entries count, and no others: what is gone would be forgotten while nothing refers to it on the way.
        let mut elements: BTreeMap<&str, KeptElement> = BTreeMap::new();
        for entry in &kept.elements {
            match entry.value.as_deref().map(serde_json::from_str) {
                Some(Ok(element)) => {
                    elements.insert(&entry.key, element);
                }
                Some(Err(_)) => unread += 1,
                None => {
                    elements.remove(&*entry.key);
                }
            }
        }
        elements.into_values().for_each(|element| roster.take_element(element));
        for (vm, report) in reports {
            roster.put_report(vm, report);
            if roster.vms.contains_key(&vm) {
                roster.dirty.insert(vm, now);
            }
        }
        for (uuid, seen) in seen {
            use crate::model::ServerStatus::Running;
            if let Some(node) = roster.servers.get_mut(&uuid).filter(|node| node.server.status != Running) {
                node.seen = seen.min(now);
                roster.judge_server(uuid);
            }
        }
        roster.keeping = Keeping::default();
        (roster, unread)
    }

    fn take_element(&mut self, kept: KeptElement) {
        let key = kept.element.key();
        let now = self.now;
        match (kept.element, kept.gone) {
            (Element::Account(account), true) => {
                self.apply(Change::Put(Element::Account(account)), now);
                if let Key::Account(uuid) = key
                    && let Some(known) = self.accounts.get_mut(&uuid)
                {
                    known.gone = true;
                }
            }
            (Element::Network(network), true) => {
                self.scope = None;
                self.networks.insert(network.uuid, Known { element: network, gone: true });
            }
            (Element::Server(server), true) => {
                let uuid = server.uuid;
                let node = Node { server, gone: true, seen: now, down: false, has_alias: false };
                self.servers.insert(uuid, node);
                self.judge_server(uuid);
            }
            (element, _) => self.apply(Change::Put(element), now),
        }
        if let (Key::Vm(uuid), Some(kept)) = (key, kept.published) {
            self.take_published(uuid, kept);
        }
    }

    fn take_published(&mut self, uuid: Uuid, mut kept: KeptPublished) {
        let numbers: Vec<Option<u16>> = kept
            .zones
            .iter()
            .map(|zone| {
                let zone = Name::parse(zone).ok()?;
                Some(self.config.forward.iter().position(|forward| forward.origin == zone)? as u16)
            })
            .collect();
        for link in &mut kept.records.links {
            let zones = link
                .zones
                .iter()
                .filter_map(|(zone, is_prefixed)| Some((numbers.get(usize::from(*zone)).copied()??, *is_prefixed)));
            link.zones = zones.collect();
        }
        let now = self.now;
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        let claim = kept.claim.map(|(label, created)| ((kept.records.owner, label), created));
        self.tally.remove(instance);
        (instance.instance, instance.service) = (true, kept.service);
        let owner = kept.records.owner;
        instance.recalled = Some(kept.records);
        // Why it cannot be judged is found again; since when is known.
        instance.undecided = Some((Reason::UnknownOwner, kept.since.min(now)));
        self.tally.add(instance);
        self.use_all(uuid, [Use::Account(owner)]);
        self.claim_alias(uuid, claim);
    }

    /// Takes one entry of what was learnt; false if it cannot be read.
    fn recall(&mut self, entry: &Entry, now: Moment) -> bool {
        let Some((kind, rest)) = entry.key.split_once('/') else { return false };
        let value = entry.value.as_deref();
        match kind {
            "report" => {
                let Ok(vm) = rest.parse() else { return false };
                let Some(value) = value else {
                    self.reports.remove(&vm);
                    return true;
                };
                let Ok(kept) = serde_json::from_str::<KeptReport>(value) else { return false };
                let ttl = kept.ttl_ms.map(Duration::from_millis);
                // Each TTL begins anew: nobody could report while nobody listened.
                let health = if kept.up { Health::Up } else { Health::Down };
                // Whoever had fallen silent before is not believed anew.
                let until = ttl.map(|ttl| if kept.lapsed { now } else { now.plus(ttl) });
                self.put_report(vm, Report { health, ttl, until });
                true
            }
            "label" => match value.map(serde_json::from_str) {
                Some(Ok(owner)) => {
                    self.label_owners.insert(rest.into(), owner);
                    true
                }
                Some(Err(_)) => false,
                None => {
                    self.label_owners.remove(rest);
                    true
                }
            },
            "server" => value.is_none_or(|value| serde_json::from_str::<Moment>(value).is_ok()),
            "group" => {
                let key = rest.split_once('/').and_then(|(owner, service)| Some((owner.parse().ok()?, service.into())));
                let Some(key): Option<GroupKey> = key else { return false };
                let Some(value) = value else {
                    self.memory.groups.remove(&key);
                    return true;
                };
                let Ok(kept) = serde_json::from_str::<KeptGroup>(value) else { return false };
                let clamp = |list: Vec<(Moment, Uuid)>| list.into_iter().map(|(at, vm)| (at.min(now), vm)).collect();
                let alone = kept.alone.into_iter().filter_map(|(zone, prefix, at)| {
                    let zone = Name::parse(&zone).ok()?;
                    let number = self.config.forward.iter().position(|forward| forward.origin == zone)?;
                    let spot: Spot = (number as u16, prefix);
                    Some((spot, at.min(now)))
                });
                let alone = alone.collect();
                let remains = Remains { held: clamp(kept.held), removed: clamp(kept.removed), alone };
                self.memory.groups.insert(key, remains);
                true
            }
            _ => false,
        }
    }
}

/// Cuts keys into parts.
fn split<K: Clone, S: Extend<K>>(keys: &[K], parts: &mut Vec<Part>, set: impl Fn(&mut Keeping) -> &mut S) {
    for some in keys.chunks(MOST_OF_PART) {
        let mut keeping = Keeping::default();
        set(&mut keeping).extend(some.iter().cloned());
        parts.push(Part(keeping));
    }
}

fn text(value: &impl Serialize) -> Option<Box<str>> {
    serde_json::to_string(value).ok().map(Box::from)
}

fn key_text(key: Key) -> Box<str> {
    match key {
        Key::Vm(uuid) => format!("vm/{uuid}"),
        Key::Account(uuid) => format!("account/{uuid}"),
        Key::Network(uuid) => format!("network/{uuid}"),
        Key::NetworkPool(uuid) => format!("network_pool/{uuid}"),
        Key::Nic(mac) => format!("nic/{}", mac.0.map(|octet| format!("{octet:02x}")).join(":")),
        Key::Server(uuid) => format!("server/{uuid}"),
    }
    .into()
}
