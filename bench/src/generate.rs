//! Zones of datacenters as CNS writes them, the same in every run.
//!
//! Each instance has four names with A and TXT (by UUID and by alias, below the owner's UUID and login), a CNAME for
//! CMON, and its share of a service: A, TXT and SRV at two names. Fifteen records in all; compute nodes fill up what is
//! left. Accounts and services are the same in all datacenters, so that a region unites them, instances are not.
//!
//! Invariants: exactly as many records as asked for, SOA and NS included; no address twice in one version of a zone, so
//! that an address tells which version a name is answered from.
//!
//! Cost: O(records) time for writing; four bytes a name in memory.

use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Records of an instance.
const PER_INSTANCE: usize = 15;
/// SOA and one NS.
const AT_APEX: usize = 2;
/// Names of an instance that have an address of their own.
pub const NAMES_PER_INSTANCE: usize = 4;
/// Instances that make a service together.
const PER_SERVICE: usize = 8;
/// Instances of an account.
const PER_ACCOUNT: usize = 40;
/// Bits of an address that number the name; the others number its versions.
const NUMBER_BITS: u32 = 20;

/// The zone of one datacenter in its present version.
pub struct Datacenter {
    /// The zone's name, without final dot.
    pub zone: String,
    pub serial: u32,
    /// Tells instances of different datacenters apart.
    number: usize,
    instances: usize,
    compute_nodes: usize,
    /// How often the address of each name has changed.
    versions: Vec<u32>,
}

impl Datacenter {
    /// A datacenter whose zone has this many records.
    pub fn new(zone: &str, number: usize, records: usize) -> Datacenter {
        let (instances, compute_nodes) = ((records - AT_APEX) / PER_INSTANCE, (records - AT_APEX) % PER_INSTANCE);
        let versions = vec![0; instances * NAMES_PER_INSTANCE];
        assert!(versions.len() < 1 << NUMBER_BITS, "a number of a name fits its bits");
        Datacenter { zone: zone.to_string(), serial: 405_514_080, number, instances, compute_nodes, versions }
    }

    /// Number of names whose address can change.
    pub fn names(&self) -> usize {
        self.versions.len()
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        AT_APEX + self.instances * PER_INSTANCE + self.compute_nodes
    }

    /// Gives other addresses to `count` names from `first` on, and the zone its next serial.
    pub fn change(&mut self, first: usize, count: usize) {
        let names = self.names();
        (first..first + count).for_each(|name| self.versions[name % names] += 1);
        self.serial += 1;
    }

    /// Owner name of a name by number, relative to the zone.
    pub fn owner(&self, name: usize) -> String {
        let instance = (name % self.names()) / NAMES_PER_INSTANCE;
        let account = instance / PER_ACCOUNT;
        match name % NAMES_PER_INSTANCE {
            0 => format!("{}.inst.{}", self.instance_uuid(instance), account_uuid(account)),
            1 => format!("{}.inst.{}", self.instance_uuid(instance), login(account)),
            2 => format!("{}.inst.{}", self.alias(instance), account_uuid(account)),
            _ => format!("{}.inst.{}", self.alias(instance), login(account)),
        }
    }

    /// The address of a name by number, in the present version.
    pub fn address(&self, name: usize) -> Ipv4Addr {
        let name = name % self.names();
        let base = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        Ipv4Addr::from(base.wrapping_add(self.versions[name] << NUMBER_BITS | name as u32))
    }

    /// Owner name of an instance for CMON, an alias.
    pub fn monitored(&self, instance: usize) -> String {
        format!("{}.cmon", self.instance_uuid(instance))
    }

    /// Owner name of the service that an instance is part of, below the login.
    pub fn service(&self, instance: usize) -> String {
        format!("service-{}.svc.{}", instance % PER_ACCOUNT / PER_SERVICE, login(instance / PER_ACCOUNT))
    }

    /// How many instances are part of the same service.
    pub fn service_size(&self, instance: usize) -> usize {
        let first = instance / PER_SERVICE * PER_SERVICE;
        self.instances.min(first + PER_SERVICE).saturating_sub(first)
    }

    /// Writes the zone as a zone file.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Datacenter { zone, serial, .. } = self;
        writeln!(out, "$ORIGIN {zone}.\n$TTL 30")?;
        writeln!(out, "@ SOA cns.{zone}. hostmaster.example.com. {serial} 30 60 2592000 30")?;
        writeln!(out, "@ 3600 NS ns1.example.com.")?;
        for instance in 0..self.instances {
            self.write_instance(instance, out)?;
        }
        for node in 0..self.compute_nodes {
            writeln!(out, "{}.cmon CNAME cmon", uuid(&[3, self.number, node]))?;
        }
        Ok(())
    }

    /// Writes all records of one instance.
    fn write_instance(&self, instance: usize, out: &mut impl Write) -> io::Result<()> {
        let id = self.instance_uuid(instance);
        let (account, first) = (instance / PER_ACCOUNT, instance * NAMES_PER_INSTANCE);
        for name in first..first + NAMES_PER_INSTANCE {
            writeln!(out, "{} A {}\n TXT {id}", self.owner(name), self.address(name))?;
        }
        writeln!(out, "{id}.cmon CNAME cmon")?;
        let service = instance % PER_ACCOUNT / PER_SERVICE;
        let (alias, login) = (self.alias(instance), login(account));
        for owner in [account_uuid(account), login.clone()] {
            // The address is that of the instance before anything changed: services stay as they are.
            let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + instance as u32);
            writeln!(out, "service-{service}.svc.{owner} A {address}\n TXT {id}\n SRV 0 10 8080 {alias}.inst.{login}")?;
        }
        Ok(())
    }

    /// UUID of an instance.
    fn instance_uuid(&self, instance: usize) -> String {
        uuid(&[1, self.number, instance])
    }

    /// Alias of an instance, as operators number them.
    fn alias(&self, instance: usize) -> String {
        format!("web-{}-{instance}", self.number)
    }
}

/// UUID of an account, the same in every datacenter.
fn account_uuid(account: usize) -> String {
    uuid(&[2, account])
}

/// Login of an account.
fn login(account: usize) -> String {
    format!("account-{account}")
}

/// A UUID that depends on nothing but its numbers.
fn uuid(numbers: &[usize]) -> String {
    let [high, low] = [0u64, 1].map(|half| numbers.iter().fold(half, |state, number| scramble(state ^ *number as u64)));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// Spreads a number over all bits (the output function of SplitMix64, one step on).
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn text(datacenter: &Datacenter) -> String {
        let mut bytes = Vec::new();
        datacenter.write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_zone_has_exactly_the_records_asked_for() {
        for records in [50, 1_000, 10_007] {
            let datacenter = Datacenter::new("dc.example", 0, records);
            let text = text(&datacenter);
            let lines: HashSet<(String, String)> = text
                .lines()
                .filter(|line| !line.starts_with('$'))
                .scan(String::new(), |owner, line| {
                    let (first, rest) = line.split_once(' ').unwrap();
                    if !first.is_empty() {
                        *owner = first.to_string();
                    }
                    Some((owner.clone(), rest.to_string()))
                })
                .collect();
            assert_eq!(lines.len(), records, "and no two are equal");
            assert_eq!(datacenter.records(), records);
        }
    }

    #[test]
    fn a_change_shows_in_the_names_it_is_for_and_only_there() {
        let mut datacenter = Datacenter::new("dc.example", 0, 1_000);
        let before = text(&datacenter);
        datacenter.change(5, 7);
        let after = text(&datacenter);
        let different = before.lines().zip(after.lines()).filter(|(old, new)| old != new);
        let different: Vec<&str> = different.map(|(_, new)| new).collect();
        assert_eq!(different.len(), 7 + 1, "and the SOA: {different:?}");
        for name in 5..12 {
            let line = format!("{} A {}", datacenter.owner(name), datacenter.address(name));
            assert!(different.contains(&&line[..]), "{line}");
        }
    }

    #[test]
    fn addresses_tell_versions_and_names_apart() {
        let mut datacenter = Datacenter::new("dc.example", 0, 1_000);
        let names = datacenter.names();
        let mut seen = HashSet::new();
        for _ in 0..10 {
            seen.extend((0..names).map(|name| datacenter.address(name)));
            datacenter.change(0, names);
        }
        assert_eq!(seen.len(), 10 * names);
    }
}
