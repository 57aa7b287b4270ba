//! The records of one instance.
//!
//! A [`Published`] is all that records depend on, and complete in itself: what an instance has published stays as it is
//! while its account or network cannot be looked up. It gives the names at which the instance has records, each with the
//! [`Role`] that it has there, and the records of a role at a name.
//!
//! Invariants: every target of an SRV record is a name with an address in the same zone; an alias of CMON stands alone
//! at its name; at most [`MOST_RECORDS`] records for an instance, its own names before those of services.
//!
//! Cost: O(names) to name them, O(records of the role) for the records of one.
//!
//! RFCs: 2782 (SRV), 2317 and 3596 (reverse names).

use crate::config::{Config, Reverse};
use crate::model::Uuid;
use crate::tag::Port;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// Records that an instance may have.
pub const MOST_RECORDS: usize = 10_000;
/// Addresses that an instance may have.
pub const MOST_ADDRESSES: usize = 64;
/// Tokens of an ACME challenge.
pub const MOST_TOKENS: usize = 16;

/// All that the records of an instance depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub owner: Uuid,
    /// The label of its alias, if that is its own.
    pub alias: Option<Box<str>>,
    /// The label of its account's login, if that is the account's own.
    pub login: Option<Box<str>>,
    /// Its services have a name right below the zone, too.
    pub bare: bool,
    pub services: Box<[Offer]>,
    pub ptr: Option<Box<str>>,
    pub tokens: Box<[Box<str>]>,
    pub links: Box<[Link]>,
}

/// A service of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub name: Box<str>,
    pub ports: Box<[Port]>,
    /// In service, damping included.
    pub is_in: bool,
}

/// A network interface with addresses that some zone has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub addresses: Box<[IpAddr]>,
    /// Numbers of the forward zones that have it, and whether their names have the prefix in front, too.
    pub zones: Box<[(u16, bool)]>,
    /// Label of a network that belongs to the account.
    pub prefix: Option<Box<str>>,
    /// The network belongs to certain accounts.
    pub is_fabric: bool,
}

/// What an instance, or a compute node, does at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Its own name; the number of the link whose prefix is in front, from 1 on.
    Instance(u8),
    /// Name of its service of this number, with prefix.
    Service(u8, u8),
    /// Name of its service of this number right below the zone.
    Bare(u8),
    /// Tokens of its ACME challenge, below its own name.
    OwnChallenge,
    /// The same below the name of a service.
    Challenge,
    /// Alias of CMON.
    Cmon,
    /// PTR record of its address of this number.
    Ptr(u8),
}

impl Role {
    /// True at names that tell whose they are: no other instance has a role there.
    pub fn is_own(self) -> bool {
        match self {
            Role::Instance(_) | Role::OwnChallenge | Role::Cmon => true,
            Role::Service(..) | Role::Bare(_) | Role::Challenge | Role::Ptr(_) => false,
        }
    }
}

/// A zone, as the names of an instance know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Forward(u16),
    Reverse(Name),
}

impl Published {
    /// The labels of the instance, the preferred one last.
    fn heads(&self, uuid: &str) -> impl Iterator<Item = Box<str>> {
        [Some(Box::from(uuid)), self.alias.clone().filter(|alias| **alias != *uuid)].into_iter().flatten()
    }

    /// The labels of the account, the preferred one last.
    fn accounts(&self) -> impl Iterator<Item = Box<str>> {
        let uuid = self.owner.to_string();
        let login = self.login.clone().filter(|login| **login != *uuid);
        [Some(uuid.into()), login].into_iter().flatten()
    }

    /// The name that SRV and PTR records point at, in a zone.
    pub fn primary(&self, uuid: Uuid, origin: &Name) -> Option<Name> {
        let (head, account) = (self.heads(&uuid.to_string()).last()?, self.accounts().last()?);
        below(origin, &[&head, "inst", &account])
    }

    /// Returns true if an address is on a network that a forward zone has.
    fn is_named(&self, address: IpAddr) -> bool {
        self.links.iter().any(|link| link.addresses.contains(&address) && !link.zones.is_empty())
    }

    /// The addresses that a forward zone has.
    pub fn named_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().filter(|address| self.is_named(*address))
    }

    /// All names with the roles that the instance has there, each pair once. Returns false if some were left out, since
    /// they were too many or too long.
    pub fn names(&self, config: &Config, uuid: Uuid, mut each: impl FnMut(Place, Name, Role)) -> bool {
        let text = uuid.to_string();
        let mut room = MOST_RECORDS;
        let mut complete = true;
        let mut put = |place: Place, name: Option<Name>, role: Role, records: usize| match name {
            Some(name) if records <= room => {
                room -= records;
                each(place, name, role);
            }
            _ => complete = false,
        };
        if config.cmon {
            for (zone, forward) in config.forward.iter().enumerate() {
                put(Place::Forward(zone as u16), below(&forward.origin, &[&text, "cmon"]), Role::Cmon, 1);
            }
        }
        for (index, address) in self.addresses().enumerate() {
            if let Some(zone) = self.is_named(address).then(|| reverse_zone(config, address)).flatten() {
                put(Place::Reverse(zone), reverse_name(address), Role::Ptr(index as u8), 1);
            }
        }
        let accounts: Vec<Box<str>> = self.accounts().collect();
        let tokens = self.tokens.len();
        for (place, prefix, addresses) in self.places() {
            let origin = &config.forward[usize::from(place)].origin;
            let zone = Place::Forward(place);
            let mut both = |name: Option<Name>, role: Role, records: usize| {
                if tokens > 0 {
                    let challenge = name.as_ref().and_then(|name| name.prepend(b"_acme-challenge").ok());
                    let of = if matches!(role, Role::Instance(_)) { Role::OwnChallenge } else { Role::Challenge };
                    put(zone.clone(), challenge, of, tokens);
                }
                put(zone.clone(), name, role, records);
            };
            let front = self.prefix(prefix);
            let own = |middle: &[&str]| {
                let name = below(origin, middle)?;
                if front.is_empty() { Some(name) } else { name.prepend(front.as_bytes()).ok() }
            };
            for account in &accounts {
                for head in self.heads(&text) {
                    both(own(&[&head, "inst", account]), Role::Instance(prefix), addresses + 1);
                }
            }
            for (index, offer) in self.services.iter().enumerate() {
                let records = if offer.is_in { addresses + 1 + offer.ports.len() } else { 1 };
                for account in &accounts {
                    let role = Role::Service(index as u8, prefix);
                    both(own(&[&offer.name, "svc", account]), role, records);
                }
                let is_bare = self.bare && prefix == 0 && !offer.name.contains('.');
                if is_bare && !matches!(&*offer.name, "svc" | "inst") {
                    both(below(origin, &[&offer.name]), Role::Bare(index as u8), addresses + 1);
                }
            }
        }
        complete
    }

    /// Forward zones and prefixes that have addresses of the instance, with their number: a prefix is the number of the
    /// first link that has it, from 1 on, or 0 for none.
    pub fn places(&self) -> Vec<(u16, u8, usize)> {
        let mut places: Vec<(u16, u8, usize)> = Vec::new();
        let mut count = |zone: u16, prefix: u8, addresses: usize| match places
            .iter_mut()
            .find(|(known, of, _)| (*known, *of) == (zone, prefix))
        {
            Some((_, _, sum)) => *sum += addresses,
            None => places.push((zone, prefix, addresses)),
        };
        for link in &self.links {
            for (zone, is_prefixed) in &link.zones {
                count(*zone, 0, link.addresses.len());
                if let Some(prefix) = link.prefix.as_ref().filter(|_| *is_prefixed) {
                    let first = self.links.iter().position(|other| other.prefix.as_ref() == Some(prefix));
                    count(*zone, first.unwrap_or_default() as u8 + 1, link.addresses.len());
                }
            }
        }
        places.sort_unstable();
        places
    }

    /// The label of a prefix; empty for none.
    pub fn prefix(&self, prefix: u8) -> &str {
        let link = usize::from(prefix).checked_sub(1).and_then(|link| self.links.get(link));
        link.and_then(|link| link.prefix.as_deref()).unwrap_or_default()
    }

    /// All addresses, each once.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let mut all: Vec<IpAddr> = self.links.iter().flat_map(|link| link.addresses.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    /// The records of a role in a forward zone.
    pub fn records(&self, config: &Config, uuid: Uuid, zone: u16, role: Role, each: &mut impl FnMut(u16, Vec<u8>)) {
        let origin = &config.forward[usize::from(zone)].origin;
        let (service, prefix) = match role {
            Role::Cmon => {
                if let Some(target) = below(origin, &["cmon"]) {
                    each(rtype::CNAME, target.as_wire().into());
                }
                return;
            }
            Role::OwnChallenge | Role::Challenge => {
                self.tokens.iter().for_each(|token| each(rtype::TXT, text(token)));
                return;
            }
            Role::Ptr(_) => return,
            Role::Instance(prefix) => (None, prefix),
            Role::Service(service, prefix) => (self.services.get(usize::from(service)), prefix),
            Role::Bare(service) => (self.services.get(usize::from(service)), 0),
        };
        if service.is_some_and(|service| !service.is_in) {
            each(rtype::TXT, text(&format!("verifying:{uuid}")));
            return;
        }
        each(rtype::TXT, text(&uuid.to_string()));
        let front = self.prefix(prefix);
        for link in &self.links {
            let is_in = link.zones.iter().find(|(known, _)| *known == zone);
            if is_in
                .is_some_and(|(_, is_prefixed)| prefix == 0 || (*is_prefixed && link.prefix.as_deref() == Some(front)))
            {
                link.addresses.iter().for_each(|address| {
                    let (rtype, rdata) = address_record(*address);
                    each(rtype, rdata);
                });
            }
        }
        if let (Some(service), Role::Service(..), Some(target)) = (service, role, self.primary(uuid, origin)) {
            for port in &service.ports {
                let order = if config.srv_weights { (port.priority, port.weight) } else { (0, 10) };
                let head = [order.0.to_be_bytes(), order.1.to_be_bytes(), port.port.to_be_bytes()].concat();
                each(rtype::SRV, [&head, target.as_wire()].concat());
            }
        }
    }

    /// The target of the PTR record of an address, and what it competes with: networks without owners come first, then
    /// the shortest target, then the earlier zone.
    pub fn ptr_candidate(&self, config: &Config, uuid: Uuid, number: u8) -> Option<((bool, usize, u16), NameBuf)> {
        let address = self.addresses().nth(usize::from(number))?;
        let links = self.links.iter().filter(|link| link.addresses.contains(&address));
        let zones = links.flat_map(|link| link.zones.iter().map(|(zone, _)| (link.is_fabric, *zone)));
        zones
            .filter_map(|(is_fabric, zone)| {
                let target = match &self.ptr {
                    Some(name) => NameBuf::parse(name).ok()?,
                    None => {
                        let name = self.primary(uuid, &config.forward[usize::from(zone)].origin)?;
                        NameBuf::from_wire(name.as_wire()).ok()?
                    }
                };
                Some(((is_fabric, target.as_wire().len(), zone), target))
            })
            .min_by_key(|(rank, _)| *rank)
    }
}

/// A name of labels, some of them with dots between several, below an origin; none if it would be too long.
pub fn below(origin: &Name, labels: &[&str]) -> Option<Name> {
    let mut wire = Vec::with_capacity(128);
    for label in labels.iter().flat_map(|labels| labels.split('.')) {
        if label.is_empty() || label.len() > 63 {
            return None;
        }
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    (wire.len() + origin.as_wire().len() <= wire::name::MAX_NAME_BYTES).then(|| Name::join(&wire, origin))
}

/// RDATA of one character string.
fn text(text: &str) -> Vec<u8> {
    let octets = &text.as_bytes()[..text.len().min(255)];
    [&[octets.len() as u8], octets].concat()
}

fn address_record(address: IpAddr) -> (u16, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (rtype::A, address.octets().into()),
        IpAddr::V6(address) => (rtype::AAAA, address.octets().into()),
    }
}

/// The name of an address below `in-addr.arpa` or `ip6.arpa`.
pub fn reverse_name(address: IpAddr) -> Option<Name> {
    reverse_labels(address, if address.is_ipv4() { 32 } else { 128 })
}

/// The zone of an address's PTR record; none if no zone has it.
pub fn reverse_zone(config: &Config, address: IpAddr) -> Option<Name> {
    match &config.reverse {
        Reverse::Auto => reverse_labels(address, if address.is_ipv4() { 24 } else { 64 }),
        Reverse::Listed(zones) => {
            let holding = zones.iter().filter(|zone| holds(zone.prefix, address));
            holding.max_by_key(|zone| zone.prefix.1).map(|zone| zone.origin.clone())
        }
    }
}

fn reverse_labels(address: IpAddr, bits: usize) -> Option<Name> {
    let mut wire = Vec::with_capacity(80);
    let mut put = |label: &str| {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    };
    match address {
        IpAddr::V4(address) => {
            address.octets()[..bits / 8].iter().rev().for_each(|octet| put(&octet.to_string()));
            put("in-addr");
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
            let nibbles: Vec<u8> = nibbles.take(bits / 4).collect();
            nibbles.iter().rev().for_each(|nibble| put(&format!("{nibble:x}")));
            put("ip6");
        }
    }
    put("arpa");
    Some(Name::join(&wire, &Name::root()))
}

/// Returns true if a prefix holds an address.
fn holds((first, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let same = |a: &[u8], b: &[u8]| {
        let (whole, rest) = (usize::from(bits) / 8, u32::from(bits) % 8);
        let mask = !(0xffu8.checked_shr(rest).unwrap_or_default());
        a[..whole.min(a.len())] == b[..whole.min(a.len())]
            && (rest == 0 || a.get(whole).map(|octet| octet & mask) == b.get(whole).map(|octet| octet & mask))
    };
    match (first, address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => same(&first.octets(), &address.octets()),
        (IpAddr::V6(first), IpAddr::V6(address)) => same(&first.octets(), &address.octets()),
        _ => false,
    }
}
