//! A model of one datacenter: accounts, services and instances, and the zone that CNS publishes for them.
//!
//! The rules by which instances get names and records are those of the crate `inventory`; `records` asks it, and writes
//! down what it says as CNS does.
//!
//! Invariants: equal arguments and equal actions yield equal zones; every action that changes what is published
//! moves the serial forward by at least one, every other action leaves it alone; addresses come from the ranges
//! set aside for documentation (RFC 5737, RFC 3849) and no two running instances share one; the account has the
//! same identity in every datacenter, so that its names meet in a region.
//!
//! Cost: O(instances) for an action, O(records) for [`Datacenter::zone`].

mod records;

use super::clock::next_serial;
use super::zone::{Apex, Zone};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::SystemTime;
use wire::name::{Name, NameError};
use wire::serial::Serial;

/// Instances that a datacenter can hold: the hosts of a /24 without the first and the last.
pub const MAX_INSTANCES: usize = 254;
/// The networks of the three documentation ranges (RFC 5737 section 3), one for each site in turn.
const NETWORKS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];
/// Compute nodes of a datacenter; they appear below `cmon` only.
const COMPUTE_NODES: usize = 2;
/// Of so many instances of a customer's service the first has an IPv6 address too, and thus each SRV record twice.
const DUAL_STACK_EVERY: usize = 3;
/// Label in front of the names that carry certificate challenges.
const CHALLENGE: &str = "_acme-challenge";

/// An owner of instances.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    login: &'static str,
    uuid: &'static str,
}

/// A service as the tag `triton.cns.services` declares it.
#[derive(Debug, PartialEq, Eq)]
struct Service {
    name: &'static str,
    port: Option<u16>,
    account: Account,
    /// True if the service's first instance carries a certificate challenge.
    challenge: bool,
    /// Instances at the beginning.
    size: usize,
}

/// The customer whose services change.
const ACME: Account = Account { login: "acme", uuid: "3c1f64d8-52f7-4b0e-9a0f-6d6f0c7ad1e4" };
/// Its services also appear directly below the apex.
const ADMIN: Account = Account { login: "admin", uuid: "930896af-bf8c-48d4-885c-6573a94b1853" };

/// Services that run in every datacenter.
static SERVICES: [Service; 4] = [
    Service { name: "web", port: Some(8080), account: ACME, challenge: true, size: 3 },
    Service { name: "api", port: None, account: ACME, challenge: false, size: 2 },
    Service { name: "db", port: None, account: ACME, challenge: false, size: 2 },
    Service { name: "cmon", port: None, account: ADMIN, challenge: false, size: 1 },
];

/// One instance.
#[derive(Clone, Debug)]
pub struct Instance {
    uuid: String,
    /// The sanitised alias, unique in its datacenter for all time.
    pub alias: String,
    service: &'static Service,
    /// Addresses of the instance, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// True if the instance is in service.
    pub up: bool,
    challenge: Option<String>,
}

impl Instance {
    /// The name of its service.
    pub fn service(&self) -> &'static str {
        self.service.name
    }
}

/// One datacenter.
#[derive(Clone, Debug)]
pub struct Datacenter {
    origin: Name,
    apex: Apex,
    serial: Serial,
    site: u8,
    random: Random,
    instances: Vec<Instance>,
    compute_nodes: Vec<String>,
    /// The last host number that was given out.
    last_host: u8,
    /// Number of instances that each service has had.
    started: HashMap<&'static str, usize>,
}

impl Datacenter {
    /// Makes a datacenter with a few instances of `web`, `api` and `db` (account `acme`) and one of `cmon`.
    ///
    /// `site` picks the address range; datacenters with different sites below three share no address. Fails when
    /// the names below `origin` would be too long.
    pub fn new(origin: Name, site: u8, seed: u64, now: SystemTime) -> Result<Datacenter, NameError> {
        let random = Random(seed ^ u64::from(site) << 56);
        let longest_label = "a".repeat(36);
        name_below(&origin, &[CHALLENGE, &longest_label, "inst", &longest_label])?;
        // `us-west-1.cns.example.com` belongs to the domain `example.com`.
        let domain = origin.parent().and_then(|parent| parent.parent()).unwrap_or_else(Name::root);
        let name_servers = vec![domain.prepend(b"ns1")?, domain.prepend(b"ns2")?];
        // A hidden primary: its first peer is the MNAME and it does not list itself.
        let apex = Apex { mname: name_servers[0].clone(), rname: domain.prepend(b"hostmaster")?, name_servers };
        let mut datacenter = Datacenter {
            origin,
            apex,
            serial: next_serial(Serial(0), now),
            site,
            random,
            instances: Vec::new(),
            compute_nodes: Vec::new(),
            last_host: 0,
            started: HashMap::new(),
        };
        datacenter.compute_nodes = (0..COMPUTE_NODES).map(|_| datacenter.random.uuid()).collect();
        for service in &SERVICES {
            datacenter.start(service, service.size);
        }
        Ok(datacenter)
    }

    /// The name of the zone.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The serial of what is published now.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// All instances, oldest first within a service.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Starts up to `count` instances of a service and tells how many; fewer when addresses run out.
    pub fn scale_up(&mut self, service: &str, count: usize, now: SystemTime) -> usize {
        let Some(service) = SERVICES.iter().find(|candidate| candidate.name == service) else {
            return 0;
        };
        let started = self.start(service, count);
        self.advance_if(started > 0, now);
        started
    }

    /// Destroys up to `count` instances of a service, newest first, and tells how many.
    pub fn scale_down(&mut self, service: &str, count: usize, now: SystemTime) -> usize {
        let of_service = (0..self.instances.len()).rev().filter(|index| self.instances[*index].service.name == service);
        let newest: Vec<usize> = of_service.take(count).collect();
        newest.iter().for_each(|index| drop(self.instances.remove(*index)));
        self.advance_if(!newest.is_empty(), now);
        newest.len()
    }

    /// Takes an instance out of service or puts it back; tells whether that was a change.
    pub fn set_up(&mut self, alias: &str, up: bool, now: SystemTime) -> bool {
        let found = self.instances.iter_mut().find(|instance| instance.alias == alias && instance.up != up);
        let changed = found.map(|instance| instance.up = up).is_some();
        self.advance_if(changed, now);
        changed
    }

    /// Gives an instance an IPv6 address or takes it away, and with it one of two equal SRV records; tells whether that
    /// was a change.
    pub fn set_dual_stack(&mut self, alias: &str, dual: bool, now: SystemTime) -> bool {
        let site = self.site;
        let found = self.instances.iter_mut().find(|instance| instance.alias == alias);
        let changed = found.is_some_and(|instance| {
            let before = instance.addresses.len();
            instance.addresses.retain(IpAddr::is_ipv4);
            if let (true, Some(IpAddr::V4(address))) = (dual, instance.addresses.first()) {
                instance.addresses.push(second_address(site, address.octets()[3]));
            }
            instance.addresses.len() != before
        });
        self.advance_if(changed, now);
        changed
    }

    /// Publishes a new serial, as CNS also does when records change and change back within a batch.
    pub fn advance(&mut self, now: SystemTime) {
        self.serial = next_serial(self.serial, now);
    }

    /// Zone that CNS publishes, in an order that looks as random as that of its database.
    pub fn zone(&self) -> Zone {
        let mut records = records::of(self);
        records.sort_by_cached_key(|(owner, _)| scatter(owner.as_wire()));
        Zone::new(self.origin.clone(), self.apex.clone(), self.serial, records)
    }

    /// Moves the serial when there was a change.
    fn advance_if(&mut self, changed: bool, now: SystemTime) {
        if changed {
            self.advance(now);
        }
    }

    /// Starts up to `count` instances and tells how many.
    fn start(&mut self, service: &'static Service, count: usize) -> usize {
        for started in 0..count {
            let Some(host) = self.next_host() else {
                return started;
            };
            let ordinal = self.started.entry(service.name).or_default();
            let number = *ordinal;
            *ordinal += 1;
            let [a, b, c] = NETWORKS[usize::from(self.site) % NETWORKS.len()];
            let mut addresses = vec![IpAddr::V4(Ipv4Addr::new(a, b, c, host))];
            if service.account == ACME && number.is_multiple_of(DUAL_STACK_EVERY) {
                addresses.push(second_address(self.site, host));
            }
            let challenge = (service.challenge && number == 0).then(|| self.random.uuid());
            self.instances.push(Instance {
                uuid: self.random.uuid(),
                alias: format!("{}-{number}", service.name),
                service,
                addresses,
                up: true,
                challenge,
            });
        }
        count
    }

    /// The next host number that is free, going round so that addresses are not taken again at once.
    fn next_host(&mut self) -> Option<u8> {
        let taken = |host: u8| {
            let ends_in = |address: &IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[3] == host);
            self.instances.iter().any(|instance| instance.addresses.iter().any(ends_in))
        };
        let last = usize::from(self.last_host);
        let mut following = (last..last + MAX_INSTANCES).map(|host| (host % MAX_INSTANCES + 1) as u8);
        let free = following.find(|host| !taken(*host))?;
        self.last_host = free;
        Some(free)
    }
}

/// The IPv6 address of an instance (RFC 3849).
fn second_address(site: u8, host: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, u16::from(site), 0, 0, 0, 0, u16::from(host)))
}

/// Puts labels in front of a name, given in reading order.
fn name_below(origin: &Name, labels: &[&str]) -> Result<Name, NameError> {
    labels.iter().rev().try_fold(origin.clone(), |name, label| name.prepend(label.as_bytes()))
}

/// A key that orders names without regard to their text (FNV-1a).
fn scatter(wire: &[u8]) -> u64 {
    wire.iter().fold(0xcbf2_9ce4_8422_2325, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3))
}

/// The generator splitmix64: small, seeded, the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    /// The next 64 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A random UUID (RFC 9562 section 5.4).
    fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let version = high & 0x0fff | 0x4000;
        let variant = low >> 48 & 0x3fff | 0x8000;
        let (first, second, node) = (high >> 32, high >> 16 & 0xffff, low & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{node:012x}")
    }
}

#[cfg(test)]
mod tests;
