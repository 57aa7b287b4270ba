//! The zones that catalogs list, as a part of the configuration in force; automatic reverse zones (`automatic`) come with
//! them.
//!
//! The file says how zones of a catalog are transferred and served, the catalog which they are. From both, and from what
//! was in force before, comes a configuration in which they stand like zones of the file: behind those, in canonical
//! order, and as members of the regions that name them or whose rules they match. A region that has no member by this is
//! left out.
//!
//! Who has a zone that several catalogs list (RFC 9432 section 4.3.1): the one that had it before, unless it names
//! another one as new owner; without one before, the first in the file that does not.
//!
//! Invariants: what the file has itself is never taken over; a zone that is refused is told with the reason; the
//! configuration of the file is kept beside, so that another version of a catalog needs neither the file nor the disk.
//!
//! Cost: O(zones × patterns + names × log zones), of which each is a comparison of two names. Nothing is read or parsed.
//!
//! RFCs: 9432.

use crate::catalog::listing::{Listed, Listing};
use crate::config::Config;
use crate::config::automatic::{Asked, Unmade};
use crate::config::catalogs::{CatalogSource, MemberWay};
use crate::config::member_rules::{Meant, MemberRule};
use crate::config::probe::is_probed;
use crate::config::region_steering::keep_fresh;
use crate::config::secondaries::WayOut;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use wire::name::Name;

/// What catalogs list, by their names.
pub type Listings = HashMap<Name, Listing>;

/// Zones of catalogs that are in force, and those that are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedZones {
    pub zones: HashMap<Name, ListedZone>,
    /// In canonical order of the zones.
    pub refused: Vec<Refused>,
    /// Automatic reverse zones that are not made.
    pub unmade: Vec<Unmade>,
    /// Catalogs that have been read.
    read: HashSet<Name>,
}

/// A zone that is in force because a catalog lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedZone {
    pub catalog: Name,
    label: Box<[u8]>,
    /// True if the catalog before has given it away.
    is_handed_over: bool,
}

/// A zone that a catalog lists in vain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    pub zone: Name,
    pub catalog: Name,
    pub reason: RefusalReason,
}

/// Reason for which a zone that a catalog lists is not served for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The file has it, as a zone, a region or a catalog.
    Configured,
    /// No pattern of the catalog allows its name.
    NoMatch,
    /// Another catalog has it, and has not given it away.
    OfCatalog(Name),
}

impl Display for RefusalReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::Configured => f.write_str("the configuration has this name itself"),
            RefusalReason::NoMatch => f.write_str("its name is not one of \"match\""),
            RefusalReason::OfCatalog(other) => {
                write!(f, "catalog {other} has it, and does not name this one as new owner")
            }
        }
    }
}

impl ListedZones {
    /// The zones of an earlier state whose data must not be kept, because the catalog has them under another label or as
    /// another's (RFC 9432 sections 4.3.1 and 5.4).
    pub fn restarted_since(&self, before: &ListedZones) -> HashSet<Name> {
        let is_other = |zone: &Name, now: &ListedZone| {
            let moved = |before: &ListedZone| before.catalog != now.catalog && !now.is_handed_over;
            before.zones.get(zone).is_some_and(|before| before.label != now.label || moved(before))
        };
        self.zones.iter().filter(|(zone, now)| is_other(zone, now)).map(|(zone, _)| zone.clone()).collect()
    }
}

impl Config {
    /// The configuration as the file has it, without zones of catalogs.
    pub fn written(self: &Arc<Config>) -> Arc<Config> {
        self.written.clone().unwrap_or_else(|| self.clone())
    }

    /// The configuration of the file with the zones that its catalogs list, except for some, and the reverse zones that
    /// inventories ask for; `before` are those in force until now.
    pub fn with_listed(
        written: &Arc<Config>,
        listings: &Listings,
        asked: &Asked,
        before: &ListedZones,
        except: &HashSet<Name>,
    ) -> Config {
        let mut config = Config::clone(written);
        let read = listings.keys().cloned().collect();
        let unmade = config.add_automatic(asked);
        let mut listed = ListedZones { read, unmade, ..ListedZones::default() };
        let mut taken = Vec::new();
        for (zone, candidates) in candidates(written, listings) {
            let owner = choose(&config, &zone, &candidates, before, &mut listed.refused);
            let Some((source, properties)) = owner.filter(|_| !except.contains(&zone)) else { continue };
            let way = way_of(source, properties);
            let catalog = source.way.zone.clone();
            let is_handed_over = before.zones.get(&zone).is_some_and(|before| {
                before.is_handed_over && before.catalog == catalog || is_given(&candidates, &before.catalog, &catalog)
            });
            let label = properties.label.clone();
            listed.zones.insert(zone.clone(), ListedZone { catalog, label, is_handed_over });
            taken.push((zone, way));
        }
        for (zone, MemberWay { plan, out }) in &taken {
            let mut plan = plan.clone();
            (plan.zone, plan.origin) = (zone.clone(), zone.clone());
            config.zones.push(plan);
            config.serve(zone, out);
        }
        config.probe.zones.extend(taken.iter().map(|(zone, _)| zone).filter(|zone| is_probed(zone)).cloned());
        let zones: Vec<&Name> = taken.iter().map(|(zone, _)| zone).collect();
        config.add_members(&zones);
        keep_fresh(&mut config.zones, &config.regions, &config.answers);
        (config.listed, config.written) = (Arc::new(listed), Some(written.clone()));
        config
    }

    /// Serves a zone that is not in the file.
    pub(super) fn serve(&mut self, zone: &Name, out: &WayOut) {
        let WayOut { outgoing, targets, answers } = out.clone();
        self.outgoing.insert(zone.clone(), outgoing);
        self.targets.insert(zone.clone(), targets);
        self.answers.extend(answers.map(|answers| (zone.clone(), answers)));
    }

    /// The regions that clients ask for: those in force, and until every catalog has been read all those of the file.
    pub fn awaited_regions(&self) -> impl Iterator<Item = &Name> {
        let is_read = |source: &CatalogSource| self.listed.read.contains(&source.way.zone);
        let whole = self.written.as_deref().filter(|_| !self.catalogs.iter().all(is_read));
        whole.unwrap_or(self).regions.iter().map(|region| &region.origin)
    }

    /// Gives regions the zones of catalogs that match their rules, and leaves out regions that have no members.
    fn add_members(&mut self, zones: &[&Name]) {
        let texts: Vec<String> = zones.iter().map(|zone| zone.to_string()).collect();
        for region in &mut self.regions {
            let rules = self.member_rules.iter().filter(|rule| rule.region == region.origin);
            let mut there: HashSet<Name> = region.members.iter().cloned().collect();
            // The last name first, so that places count what the file has.
            let (named, patterns): (Vec<&MemberRule>, Vec<&MemberRule>) =
                rules.partition(|rule| matches!(rule.meant, Meant::Named { .. }));
            for rule in named.into_iter().rev().chain(patterns) {
                for zone in rule.find(zones, &texts) {
                    let member = zone.clone();
                    if !there.insert(member.clone()) {
                        continue;
                    }
                    let place = match rule.meant {
                        Meant::Named { place, .. } => place,
                        Meant::Like(_) => region.members.len(),
                    };
                    region.members.insert(place, member.clone());
                    if !rule.addresses.is_empty() {
                        region.addresses.members.push((member.clone(), rule.addresses.clone()));
                    }
                    if let Some(plan) = self.answers.get_mut(&region.origin).filter(|_| !rule.home_only.is_empty()) {
                        plan.members_home_only.push((member, rule.home_only.clone()));
                    }
                }
            }
        }
        self.regions.retain(|region| !region.members.is_empty());
    }
}

/// A catalog that lists a zone, and what it says of it.
type Candidate<'c> = (&'c CatalogSource, &'c Listed);

/// The catalogs that list each zone, in file order; the zones in canonical order.
fn candidates<'c>(written: &'c Config, listings: &'c Listings) -> Vec<(Name, Vec<Candidate<'c>>)> {
    let mut by_zone = HashMap::<&Name, Vec<Candidate<'c>>>::new();
    for source in &written.catalogs {
        let listing = listings.get(&source.way.zone);
        for (zone, properties) in listing.into_iter().flat_map(Listing::iter) {
            by_zone.entry(zone).or_default().push((source, properties));
        }
    }
    let mut sorted: Vec<(Name, Vec<Candidate<'c>>)> =
        by_zone.into_iter().map(|(zone, candidates)| (zone.clone(), candidates)).collect();
    sorted.sort_by(|(one, _), (other, _)| one.canonical_cmp(other));
    sorted
}

/// Chooses the catalog that has a zone, and tells of the others that it is refused.
fn choose<'c>(
    config: &Config,
    zone: &Name,
    candidates: &[Candidate<'c>],
    before: &ListedZones,
    refused: &mut Vec<Refused>,
) -> Option<Candidate<'c>> {
    let mut refuse = |source: &CatalogSource, reason: RefusalReason| {
        refused.push(Refused { zone: zone.clone(), catalog: source.way.zone.clone(), reason });
    };
    let mut allowed = Vec::new();
    for (source, properties) in candidates {
        if config.has_name(zone) {
            refuse(source, RefusalReason::Configured);
        } else if !source.may_list(zone) {
            refuse(source, RefusalReason::NoMatch);
        } else {
            allowed.push((*source, *properties));
        }
    }
    let of = |catalog: &Name| allowed.iter().find(|(source, _)| source.way.zone == *catalog).copied();
    let gives_to = |candidate: Candidate<'c>| candidate.1.new_owner.as_ref().and_then(of);
    let present = before.zones.get(zone).and_then(|before| of(&before.catalog));
    let present = present.or_else(|| allowed.iter().copied().find(|one| gives_to(*one).is_none()));
    let present = present.or_else(|| allowed.first().copied());
    let owner = present.map(|present| gives_to(present).unwrap_or(present))?;
    let others = allowed.iter().filter(|(source, _)| source.way.zone != owner.0.way.zone);
    // The one before has given it away, and need not hear that it is gone.
    let others = others.filter(|other| gives_to(**other).is_none_or(|new| new.0.way.zone != owner.0.way.zone));
    others.for_each(|(source, _)| refuse(source, RefusalReason::OfCatalog(owner.0.way.zone.clone())));
    Some(owner)
}

/// Returns true if a catalog that lists a zone names another one as the new owner.
fn is_given(candidates: &[Candidate<'_>], from: &Name, to: &Name) -> bool {
    let giver = candidates.iter().find(|(source, _)| source.way.zone == *from);
    from != to && giver.is_some_and(|(_, properties)| properties.new_owner.as_ref() == Some(to))
}

/// How a zone is transferred and served, by its groups.
fn way_of<'c>(source: &'c CatalogSource, properties: &Listed) -> &'c MemberWay {
    let has = |group: &str| properties.groups.iter().any(|value| **value == *group.as_bytes());
    source.groups.iter().find(|(group, _)| has(group)).map_or(&source.member, |(_, way)| way)
}

/// Zones of each catalog that are in force, and those that are refused, for views and metrics.
pub fn count_by_catalog(config: &Config) -> BTreeMap<String, (usize, usize)> {
    let names = config.catalogs.iter().map(|source| (source.way.zone.to_string(), (0, 0)));
    let mut counts: BTreeMap<String, (usize, usize)> = names.collect();
    for zone in config.listed.zones.values() {
        counts.entry(zone.catalog.to_string()).or_default().0 += 1;
    }
    for refused in &config.listed.refused {
        counts.entry(refused.catalog.to_string()).or_default().1 += 1;
    }
    counts
}
