//! Checks of the services in zones of our own against RFC 6763.
//!
//! Records that follow from `[[openstack]]` are right by themselves, as far as the hosts have addresses. Records that
//! are written can say anything: then what clients would stumble over is told, each with its own place. Only what
//! contradicts the configuration itself is an error.
//!
//! Invariant: nothing is said of names outside the zone, below a delegation, or that a wildcard may stand for; what is
//! there is not ours to know.
//!
//! Cost: O(records + services) steps of one hash.
//!
//! RFCs: 2782 (SRV), 6763 sections 4.1, 5 and 6.

use crate::static_zone::StaticZonePlan;
use crate::zone::TextRecord;
use settings::read::Reader;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use wire::dnssd::{self, Host, text};
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// RFC 6763 section 6.2: the most octets of a TXT record that fits into one packet with everything beside it.
const MAX_TEXT_BYTES: usize = 400;

/// A written record: its type, its RDATA, and where it stands in the file.
type Fact<'w> = (u16, &'w [u8], usize);

/// The written records of a zone by their owner name.
struct Owners<'w> {
    zone: &'w Name,
    records: HashMap<Name, Vec<Fact<'w>>>,
}

/// Kinds of answers that a zone has for the addresses of a host.
#[derive(PartialEq, Eq)]
enum Addresses {
    /// The host has addresses, or another zone is to have them.
    Enough,
    None,
    Alias,
}

/// Checks what is written of services, before it is taken into the plan. The places of the records are those in the file,
/// and `at` is that of the table of services.
pub fn check(reader: &mut Reader<'_>, plan: &StaticZonePlan, written: &[TextRecord], at: usize) {
    let mut owners = Owners { zone: &plan.zone, records: HashMap::new() };
    for record in written {
        owners.records.entry(record.owner.to_name()).or_default().push((record.rtype, &record.rdata, record.at));
    }
    let offered = check_offers(reader, plan, &owners, at);
    let mut seen = HashSet::new();
    for record in written.iter().filter(|record| record.rtype == rtype::PTR) {
        let Some(instance) = read_name(&record.rdata, 0) else { continue };
        // Lists of parts lead to the same instances (RFC 6763 section 7.1).
        if dnssd::lists_instances(record.owner.to_name().as_wire())
            && owners.knows(&instance)
            && !offered.contains(&instance)
            && seen.insert(instance.clone())
        {
            check_instance(reader, &owners, &instance, record.at);
        }
    }
}

/// Checks that services have addresses, and their description to themselves. Returns the names of their instances.
fn check_offers(reader: &mut Reader<'_>, plan: &StaticZonePlan, owners: &Owners<'_>, at: usize) -> HashSet<Name> {
    let kinds: BTreeMap<_, _> =
        plan.offers.iter().filter_map(|offer| Some((&offer.kind, offer.instance(&plan.zone).ok()?))).collect();
    for (kind, instance) in &kinds {
        // RFC 6763 section 6.8: one description, and that is ours.
        for (_, _, at) in owners.of(instance, rtype::TXT) {
            reader.error(at, format!("TXT of {kind} is made of its url; remove this one"));
        }
    }
    let instances: HashSet<Name> = kinds.into_values().collect();
    for offer in &plan.offers {
        let Host::Name(host) = &offer.endpoint.host else { continue };
        match owners.addresses(host) {
            Addresses::None if !instances.contains(host) => {
                let advice = "write \"A\" or \"AAAA\" records for it in \"services\"";
                reader.warn(at, format!("host {host} of {} has no address in the zone; {advice}", offer.kind));
            }
            // RFC 2782: the target must not be an alias.
            Addresses::Alias => {
                reader.error(at, format!("host {host} of {} is an alias; write its addresses", offer.kind));
            }
            Addresses::None | Addresses::Enough => {}
        }
    }
    instances
}

/// Warns of what an instance lacks that a PTR record at `at` leads to.
fn check_instance(reader: &mut Reader<'_>, owners: &Owners<'_>, instance: &Name, at: usize) {
    let mut services = owners.of(instance, rtype::SRV).peekable();
    if services.peek().is_none() {
        // RFC 6763 section 5.
        reader.warn(at, format!("PTR leads to {instance}, which has no SRV record; write one with host and port"));
    }
    for (_, rdata, at) in services {
        // Priority, weight and port come first.
        let Some(host) = read_name(rdata, 6).filter(|host| *host != Name::root()) else { continue };
        match owners.addresses(&host) {
            Addresses::Enough => {}
            Addresses::None => {
                let message =
                    format!("SRV leads to {host}, which has no address in the zone; write \"A\" or \"AAAA\" records");
                reader.warn(at, message);
            }
            Addresses::Alias => {
                // RFC 2782: the target must not be an alias.
                reader.warn(at, format!("SRV leads to {host}, which is an alias; name a host that has addresses"));
            }
        }
    }
    let mut versions = BTreeSet::new();
    for (_, rdata, at) in owners.of(instance, rtype::TXT) {
        // RFC 6763 section 6.8: several records are several formats, each with its version.
        if !versions.insert(text::get(rdata, "txtvers")) {
            let message =
                format!("second TXT record of {instance} with the same txtvers; clients take either, keep one");
            reader.warn(at, message);
        }
        if rdata.len() > MAX_TEXT_BYTES {
            let size = rdata.len();
            let message =
                format!("TXT record of {size} octets: more than {MAX_TEXT_BYTES} do not fit into every answer");
            reader.warn(at, message);
        }
    }
    if versions.is_empty() {
        // RFC 6763 section 6.1.
        let message =
            format!("PTR leads to {instance}, which has no TXT record; write one, \"\" if there is nothing to say");
        reader.warn(at, message);
    }
}

impl<'w> Owners<'w> {
    /// The records of a name and type.
    fn of(&self, name: &Name, rtype: u16) -> impl Iterator<Item = Fact<'w>> {
        self.records.get(name).into_iter().flatten().copied().filter(move |(found, ..)| *found == rtype)
    }

    /// Returns true if the zone itself has all data of a name: no delegation, DNAME or wildcard stands above it.
    fn knows(&self, name: &Name) -> bool {
        let Some(parent) = name.parent().filter(|_| name.is_within(self.zone)) else { return false };
        let has = |name: &Name, types: &[u16]| types.iter().any(|rtype| self.of(name, *rtype).next().is_some());
        // RFC 1034 section 4.2.1: a delegation begins at the name with NS records, unless that is the zone's.
        if name != self.zone && has(name, &[rtype::NS]) {
            return false;
        }
        let mut above = Some(parent).filter(|parent| parent.is_within(self.zone));
        while let Some(name) = above.take() {
            let wildcard = name.prepend(b"*");
            let elsewhere = name != *self.zone && has(&name, &[rtype::NS]) || has(&name, &[rtype::DNAME]);
            if elsewhere || wildcard.is_ok_and(|wildcard| self.records.contains_key(&wildcard)) {
                return false;
            }
            above = name.parent().filter(|parent| parent.is_within(self.zone));
        }
        true
    }

    /// Looks up whether the zone has addresses, an alias or nothing for a host.
    fn addresses(&self, host: &Name) -> Addresses {
        let has = |rtype: u16| self.of(host, rtype).next().is_some();
        if has(rtype::CNAME) {
            Addresses::Alias
        } else if has(rtype::A) || has(rtype::AAAA) || !self.knows(host) {
            Addresses::Enough
        } else {
            Addresses::None
        }
    }
}

/// A name in RDATA.
fn read_name(rdata: &[u8], start: usize) -> Option<Name> {
    NameBuf::read(rdata, start).ok().map(|(name, _)| name.to_name())
}
