//! The region zone, merged the naive way: lists of records, searched from end to end.
//!
//! Written from the definition of a region alone: members contribute all but SOA, apex NS and DNSSEC records, owners
//! move by whole labels, RDATA stays or moves by policy, sets unite with the lowest TTL, and the first member wins. A
//! member that delegates what another has authoritative data in is not heard there.
//! Descriptions of DNS-SD instances (TXT with a path) do not occur in the data and have no rule here.

use super::{Dname, Record, rtype};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Settings of a region.
pub struct Region {
    pub origin: Dname,
    /// Moves names in RDATA as well.
    pub rewrite: bool,
    /// The NS set; none takes the names that all members list.
    pub servers: Option<Vec<Dname>>,
    /// The primary in the SOA.
    pub mname: Dname,
}

/// TTL of the NS set.
const NS_TTL: u32 = 3_600;
/// DS, RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM, CDS, CDNSKEY: they cannot survive a change of names.
const DNSSEC: [u16; 8] = [43, 46, 47, 48, 50, 51, 59, 60];

impl Region {
    /// The region zone of these members, in the order of the configuration.
    pub fn merge(&self, members: &[(Dname, Vec<Record>)]) -> Vec<Record> {
        let mut moved: Vec<(&Dname, Record)> = Vec::new();
        for (zone, records) in members {
            for record in records.iter().filter(|record| contributes(zone, record)) {
                // A name that becomes too long leaves its record out.
                if let Some(owner) = record.owner.with_suffix(zone, &self.origin) {
                    moved.push((zone, Record { owner, ..record.clone() }));
                }
            }
        }
        let moved = drop_delegated(moved, &self.origin);
        let owners: HashSet<Dname> = moved.iter().map(|(_, record)| record.owner.lower()).collect();
        // Only names of a record's own zone move, once.
        let moved = moved.into_iter().map(|(zone, record)| self.move_target(&record, zone, &owners)).collect();
        let mut records = unite(moved);
        drop_conflicts(&mut records, &self.origin);
        records.push(self.soa(members));
        records.extend(
            self.servers(members).iter().map(|server| Record::new(&self.origin, rtype::NS, NS_TTL, server.0.clone())),
        );
        records
    }

    /// Moves the name in an RDATA from one member to the region, if policy and type say so.
    fn move_target(&self, record: &Record, zone: &Dname, owners: &HashSet<Dname>) -> Record {
        let Some(target) = record.target().filter(|target| target.is_within(zone)) else { return record.clone() };
        let Some(there) = target.with_suffix(zone, &self.origin) else { return record.clone() };
        let follows = match record.rtype {
            // Browsing must stay inside the browsed domain (RFC 6763 section 4.1).
            rtype::PTR => self.rewrite || is_browsing(&record.owner),
            rtype::SRV | rtype::MX | rtype::NAPTR | rtype::DNAME => self.rewrite,
            rtype::CNAME => self.rewrite && owners.contains(&there.lower()),
            _ => false,
        };
        if follows { record.with_target(&there) } else { record.clone() }
    }

    /// One SOA: timers are the lowest of the members, the serial is the sum of theirs.
    fn soa(&self, members: &[(Dname, Vec<Record>)]) -> Record {
        let soas: Vec<&Record> =
            members.iter().map(|(_, records)| records.iter().find(|r| r.rtype == rtype::SOA).expect("SOA")).collect();
        let serial = soas.iter().fold(0_u32, |sum, soa| sum.wrapping_add(soa.serial()));
        let number = |soa: &Record, index: usize| {
            let start = soa.rdata.len() - 20 + 4 * index;
            u32::from_be_bytes(soa.rdata[start..start + 4].try_into().expect("four octets"))
        };
        let mut rdata = self.mname.0.clone();
        // The contact of the first member: the name after its primary.
        let after_primary = &soas[0].rdata[soas[0].target().expect("primary").0.len()..];
        rdata.extend_from_slice(&after_primary[..after_primary.len() - 20]);
        rdata.extend_from_slice(&serial.to_be_bytes());
        for index in 1..5 {
            let lowest = soas.iter().map(|soa| number(soa, index)).min().expect("members");
            rdata.extend_from_slice(&lowest.to_be_bytes());
        }
        let ttl = soas.iter().map(|soa| soa.ttl).min().expect("members");
        Record::new(&self.origin, rtype::SOA, ttl, rdata)
    }

    /// The configured name servers, else those that every member lists.
    fn servers(&self, members: &[(Dname, Vec<Record>)]) -> Vec<Dname> {
        if let Some(servers) = &self.servers {
            return servers.clone();
        }
        let list = |(zone, records): &(Dname, Vec<Record>)| -> Vec<Dname> {
            let apex = records.iter().filter(|r| r.rtype == rtype::NS && r.owner.lower() == zone.lower());
            apex.filter_map(Record::target).map(|server| server.lower()).collect()
        };
        let mut common = list(&members[0]);
        common.retain(|server| members.iter().all(|member| list(member).contains(server)));
        common
    }
}

/// Returns true if a member's record goes into the region at all.
fn contributes(zone: &Dname, record: &Record) -> bool {
    let at_apex = record.owner.lower() == zone.lower();
    let replaced = record.rtype == rtype::SOA || at_apex && record.rtype == rtype::NS;
    !replaced && !DNSSEC.contains(&record.rtype)
}

/// PTR owners of DNS-based service discovery (RFC 6763 sections 4.1, 9 and 11).
fn is_browsing(owner: &Dname) -> bool {
    let lower = owner.lower();
    let labels = lower.labels();
    let is_service = labels.len() > 1 && labels[0].starts_with(b"_") && labels[1] == b"_tcp";
    let lists: [&[u8]; 4] = [b"_services", b"b", b"db", b"lb"];
    let is_list = labels.len() > 2 && lists.contains(&labels[0]) && labels[1..3] == [b"_dns-sd" as &[u8], b"_udp"];
    is_service || is_list
}

/// Removes what is equal, and gives every RRset its lowest TTL (RFC 2181 section 5.2).
fn unite(records: Vec<Record>) -> Vec<Record> {
    let mut lowest: BTreeMap<(Dname, u16), u32> = BTreeMap::new();
    for record in &records {
        let ttl = lowest.entry((record.owner.lower(), record.rtype)).or_insert(record.ttl);
        *ttl = record.ttl.min(*ttl);
    }
    let mut seen = HashSet::new();
    let with_ttl = |record: Record| Record { ttl: lowest[&(record.owner.lower(), record.rtype)], ..record };
    records.into_iter().map(with_ttl).filter(|record| seen.insert(record.canonical())).collect()
}

/// Leaves out what members have at and below their own cuts where another has authoritative data there; and at and
/// below a cut that stands, what others have than the first member with it and those with the same name servers.
fn drop_delegated<'a>(moved: Vec<(&'a Dname, Record)>, origin: &Dname) -> Vec<(&'a Dname, Record)> {
    let apex = origin.lower();
    // Member, owner and name servers of each cut.
    let mut servers: BTreeMap<(&Dname, Dname), BTreeSet<Dname>> = BTreeMap::new();
    for (member, record) in moved.iter().filter(|(_, record)| record.rtype == rtype::NS && record.owner.lower() != apex)
    {
        let set = servers.entry((member, record.owner.lower())).or_default();
        set.insert(record.target().expect("a name server").lower());
    }
    if servers.is_empty() {
        return moved;
    }
    let cuts_of = |member: &Dname| servers.keys().filter(|(other, _)| *other == member).map(|(_, cut)| cut).collect();
    let is_authoritative = |member: &Dname, owner: &Dname| {
        let cuts: Vec<&Dname> = cuts_of(member);
        !cuts.iter().any(|cut| owner.is_within(cut))
    };
    let (mut fallen, mut standing) = (Vec::new(), Vec::<(&Dname, &Dname)>::new());
    for (member, cut) in servers.keys() {
        let own: Vec<&Dname> = cuts_of(member);
        if own.iter().any(|above| *above != cut && cut.is_within(above)) {
            continue;
        }
        let hides = |(other, record): &(&Dname, Record)| {
            other != member && record.owner.lower().is_within(cut) && is_authoritative(other, &record.owner.lower())
        };
        if moved.iter().any(hides) { fallen.push((*member, cut)) } else { standing.push((*member, cut)) }
    }
    let members: Vec<&Dname> = moved.iter().map(|(member, _)| *member).collect();
    let is_heard = |member: &Dname, owner: &Dname| {
        if fallen.iter().any(|(other, cut)| *other == member && owner.is_within(cut)) {
            return false;
        }
        let Some((_, cut)) = standing.iter().filter(|(_, cut)| owner.is_within(cut)).min_by_key(|(_, cut)| cut.0.len())
        else {
            return true;
        };
        let stands_at = |member: &Dname| standing.iter().any(|(other, at)| *other == member && at == cut);
        let first = members.iter().find(|member| stands_at(member)).expect("a member");
        stands_at(member) && servers[&(member, (*cut).clone())] == servers[&(*first, (*cut).clone())]
    };
    let kept = moved.iter().map(|(member, record)| is_heard(member, &record.owner.lower())).collect::<Vec<_>>();
    moved.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(given, _)| given).collect()
}

/// Aliases give way: to other data, to the first alias, to the apex; DNAME to data below it.
fn drop_conflicts(records: &mut Vec<Record>, origin: &Dname) {
    let others: HashSet<Dname> =
        records.iter().filter(|record| record.rtype != rtype::CNAME).map(|record| record.owner.lower()).collect();
    let mut aliases = HashSet::new();
    records.retain(|record| {
        let owner = record.owner.lower();
        let is_alias = record.rtype == rtype::CNAME;
        !is_alias || owner != origin.lower() && !others.contains(&owner) && aliases.insert(owner)
    });
    let owners: HashSet<Dname> = records.iter().map(|record| record.owner.lower()).collect();
    records.retain(|record| {
        let dname = record.owner.lower();
        record.rtype != rtype::DNAME || !owners.iter().any(|owner| *owner != dname && owner.is_within(&dname))
    });
}
