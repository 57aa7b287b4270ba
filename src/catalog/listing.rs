//! Member zones that the catalog of another server lists (RFC 9432, schema version 2).
//!
//! ```text
//! version.<catalog>.                TXT "2"                  exactly one
//! <label>.zones.<catalog>.          PTR <member zone>.       exactly one at each label
//! group.<label>.zones.<catalog>.    TXT "<group>" …          groups of the member
//! coo.<label>.zones.<catalog>.      PTR <other catalog>.     the catalog that the member may move to
//! ```
//!
//! Whatever else the zone has is ignored (RFC 9432 section 4.1), nested catalogs among it: a member that is a catalog
//! itself is a zone like others.
//!
//! Invariants: no member is listed twice; a catalog that breaks a rule gives no listing at all, because half of one would
//! take zones out of service (RFC 9432 section 5.1).
//!
//! Cost: O(names of the catalog) to read, O(members) to compare.

use crate::zone::{Node, Zone};
use std::collections::{HashMap, HashSet};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// RDATA of the version that is understood (RFC 9432 section 4.2.1).
const VERSION: &[u8] = b"\x012";

/// The members of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    members: HashMap<Name, Listed>,
}

/// Properties of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The label that stands for the member. Another one at the same zone means that its data starts anew (RFC 9432
    /// section 5.4).
    pub label: Box<[u8]>,
    /// Values of the property `group` (RFC 9432 section 4.3.2).
    pub groups: Vec<Box<[u8]>>,
    /// The catalog that may take the member over (RFC 9432 section 4.3.1).
    pub new_owner: Option<Name>,
}

/// Error: a zone is no catalog, or one that must not be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    #[error("the zone is no catalog: it has no TXT record at version.{0}")]
    NoVersion(Name),
    #[error("the catalog is not of version 2: version.{0} must have one TXT record, \"2\"")]
    OtherVersion(Name),
    #[error("the catalog is broken: {0} has more than one PTR record")]
    Several(Name),
    #[error("the catalog is broken: {0} does not name a zone")]
    NoZone(Name),
    #[error("the catalog is broken: it lists {0} twice")]
    Twice(Name),
    #[error("the catalog lists {0} zones, more than max_members = {1}")]
    TooMany(usize, usize),
}

impl Listing {
    /// Reads the members of a catalog, which may have so many of them.
    pub fn read(zone: &Zone, most: usize) -> Result<Listing, ListingError> {
        check_version(zone)?;
        let mut by_label = HashMap::<Box<[u8]>, (Option<Name>, Listed)>::new();
        for node in zone.nodes().filter(|node| !node.is_empty()) {
            let owner = labels(node.owner());
            match owner.as_slice() {
                [label, b"zones"] => {
                    if let Some(member) = read_pointer(zone, node)? {
                        by_label.entry((*label).into()).or_default().0 = Some(member);
                    }
                }
                [b"group", label, b"zones"] => by_label.entry((*label).into()).or_default().1.groups = groups(node),
                [b"coo", label, b"zones"] => {
                    by_label.entry((*label).into()).or_default().1.new_owner = read_pointer(zone, node)?;
                }
                _ => {}
            }
        }
        let mut members = HashMap::with_capacity(by_label.len());
        for (label, (member, properties)) in by_label {
            let Some(member) = member else { continue };
            if members.insert(member.clone(), Listed { label, ..properties }).is_some() {
                return Err(ListingError::Twice(member));
            }
        }
        if members.len() > most {
            return Err(ListingError::TooMany(members.len(), most));
        }
        Ok(Listing { members })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The properties of a member.
    pub fn get(&self, zone: &Name) -> Option<&Listed> {
        self.members.get(zone)
    }

    /// All members, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Listed)> {
        self.members.iter()
    }

    /// The members of an earlier listing whose data this one would take out of service: those that are not listed any
    /// more, and those under another label.
    pub fn lost_since(&self, before: &Listing) -> HashSet<Name> {
        let is_kept = |zone: &Name, listed: &Listed| self.get(zone).is_some_and(|now| now.label == listed.label);
        before.iter().filter(|(zone, listed)| !is_kept(zone, listed)).map(|(zone, _)| zone.clone()).collect()
    }
}

/// The labels of an owner name in front of the origin.
fn labels(mut owner: &[u8]) -> Vec<&[u8]> {
    let mut labels = Vec::with_capacity(3);
    while let Some((label, rest)) =
        owner.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)))
    {
        labels.push(label);
        owner = rest;
    }
    labels
}

/// Makes sure that the zone is a catalog of the version that is understood.
fn check_version(zone: &Zone) -> Result<(), ListingError> {
    let origin = || zone.origin.clone();
    let version = zone.origin.prepend(b"version").ok();
    let set = version.as_ref().and_then(|version| zone.get(version.as_wire())).and_then(|node| node.get(rtype::TXT));
    match set {
        None => Err(ListingError::NoVersion(origin())),
        Some(set) if set.single() == Some(VERSION) => Ok(()),
        Some(_) => Err(ListingError::OtherVersion(origin())),
    }
}

/// The zone that the PTR record of a name points to; none without a record.
fn read_pointer(zone: &Zone, node: Node<'_>) -> Result<Option<Name>, ListingError> {
    let Some(set) = node.get(rtype::PTR) else { return Ok(None) };
    let rdata = set.single().ok_or_else(|| ListingError::Several(zone.name_of(node)))?;
    let target = NameBuf::from_wire(rdata).ok().map(|name| name.to_name()).filter(|name| name.label_count() > 0);
    target.map(Some).ok_or_else(|| ListingError::NoZone(zone.name_of(node)))
}

/// All texts of the TXT records of a name, in their order.
fn groups(node: Node<'_>) -> Vec<Box<[u8]>> {
    let mut groups = Vec::new();
    for mut rdata in node.get(rtype::TXT).into_iter().flat_map(|set| set.rdatas()) {
        while let Some((length, rest)) = rdata.split_first() {
            let Some((text, rest)) = rest.split_at_checked(usize::from(*length)) else { break };
            groups.push(text.into());
            rdata = rest;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CatalogPlan, build};
    use crate::zone::{Loader, Soa};
    use wire::serial::Serial;

    const CATALOG: &str = "cat.test";

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// RDATA of a TXT record with these texts.
    fn txt(texts: &[&str]) -> Vec<u8> {
        texts.iter().flat_map(|text| [&[text.len() as u8], text.as_bytes()].concat()).collect()
    }

    /// RDATA of a PTR record.
    fn ptr(zone: &str) -> Vec<u8> {
        name(zone).as_wire().to_vec()
    }

    /// A zone with these records beside its apex.
    fn zone(records: &[(&str, u16, Vec<u8>)]) -> Zone {
        let mut loader = Loader::new(name(CATALOG));
        let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
        loader.push(&NameBuf::parse(CATALOG).unwrap(), rtype::SOA, 0, &soa.to_rdata(&[0], &[0]));
        for (owner, rtype, rdata) in records {
            loader.push(&NameBuf::parse(&format!("{owner}.{CATALOG}")).unwrap(), *rtype, 0, rdata);
        }
        loader.finish(None).unwrap().zone
    }

    /// Reads a catalog of version 2 with these records.
    fn read(records: &[(&str, u16, Vec<u8>)]) -> Result<Listing, String> {
        let version = [("version", rtype::TXT, txt(&["2"]))];
        Listing::read(&zone(&[&version, records].concat()), 3).map_err(|error| error.to_string())
    }

    #[test]
    fn what_we_produce_is_read_back() {
        let members: Vec<Name> = ["a.test", "B.test", "51.198.in-addr.arpa"].map(name).into();
        let plan = CatalogPlan { origin: name(CATALOG), server_name: name("ns.test") };
        let listing = Listing::read(&build(&plan, &members, Serial(1), None).zone, 3).unwrap();
        assert!(members.iter().all(|member| listing.get(member).unwrap().label.len() == 32));
        assert_eq!(listing.len(), 3);
    }

    #[test]
    fn properties_are_read_and_others_ignored() {
        let listing = read(&[
            ("x.zones", rtype::PTR, ptr("A.test")),
            ("group.x.zones", rtype::TXT, txt(&["far", "slow"])),
            ("coo.x.zones", rtype::PTR, ptr("new.test")),
            ("y.zones", rtype::PTR, ptr("b.test")),
            ("y.zones", rtype::TXT, txt(&["ignored"])),
            ("later.ext.y.zones", rtype::TXT, txt(&["ignored"])),
            ("group.z.zones", rtype::TXT, txt(&["of nobody"])),
            ("w.rooms", rtype::PTR, ptr("c.test")),
            ("zones", rtype::PTR, ptr("d.test")),
        ])
        .unwrap();
        let groups = vec![b"far"[..].into(), b"slow"[..].into()];
        let expected = Listed { label: b"x"[..].into(), groups, new_owner: Some(name("new.test")) };
        assert_eq!((listing.len(), listing.get(&name("a.test"))), (2, Some(&expected)));
        assert!(read(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_broken_catalog_gives_nothing() {
        let member = |label: &'static str, zone: &str| (label, rtype::PTR, ptr(zone));
        for (records, expected) in [
            (vec![member("x.zones", "a.test"), member("x.zones", "b.test")], "x.zones.cat.test. has more than one PTR"),
            (vec![member("x.zones", "a.test"), member("y.zones", "a.test")], "it lists a.test. twice"),
            (vec![member("x.zones", ".")], "x.zones.cat.test. does not name a zone"),
            (vec![member("coo.x.zones", "a.test"), member("coo.x.zones", "b.test")], "coo.x.zones.cat.test. has more"),
            (vec![("version", rtype::TXT, txt(&["3"]))], "not of version 2"),
            (
                ["a.zones", "b.zones", "c.zones", "d.zones"].map(|label| member(label, label)).into(),
                "4 zones, more than max_members = 3",
            ),
        ] {
            let error = read(&records).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(Listing::read(&zone(&[]), 1), Err(ListingError::NoVersion(name(CATALOG))));
        let other = Listing::read(&zone(&[("version", rtype::TXT, txt(&["1"]))]), 1);
        assert_eq!(other, Err(ListingError::OtherVersion(name(CATALOG))));
    }

    #[test]
    fn a_member_under_another_label_is_lost_once() {
        let list = |members: &[(&'static str, &str)]| {
            let records: Vec<_> = members.iter().map(|(label, zone)| (*label, rtype::PTR, ptr(zone))).collect();
            read(&records).unwrap()
        };
        let before = list(&[("a.zones", "a.test"), ("b.zones", "b.test")]);
        assert!(before.lost_since(&before).is_empty());
        assert!(before.lost_since(&list(&[("a.zones", "a.test")])).is_empty());
        let after = list(&[("a.zones", "a.test"), ("c.zones", "b.test")]);
        assert_eq!(after.lost_since(&before), HashSet::from([name("b.test")]));
        assert_eq!(list(&[]).lost_since(&before).len(), 2);
    }
}
