//! A zone that changes at random, as the test believes it to be.
//!
//! What it holds is what real primaries accept: an alias is alone at its name, a DNAME has nothing below it, an RRset
//! has one TTL. The datacenters share a pool of labels, so that their RRsets unite, conflict and point at each other in
//! a region.

use crate::harness::{Dname, Edit, Random, Record, rtype};
use std::collections::{BTreeMap, BTreeSet};

/// Names that datacenters have in common.
const POOL: usize = 400;
/// DNAME records of the first datacenter; others have names below them.
const REDIRECTS: usize = 4;
/// RRsets that a burst gives another TTL.
const BURST_OF_TTLS: usize = 80;
const TYPES: &[u16] = &[rtype::A, rtype::AAAA, rtype::TXT, rtype::SRV, rtype::MX];

/// Model of one zone.
pub struct Model {
    pub origin: Dname,
    random: Random,
    serial: u32,
    /// Records by owner in lowercase and type; no set is empty, and the apex' SOA is not among them.
    sets: BTreeMap<(Dname, u16), Vec<Record>>,
    /// True if the DNAME records are here, rather than names below them.
    redirects: bool,
    bursts: usize,
}

impl Model {
    /// A zone with its first names, from a serial on.
    pub fn new(origin: &str, serial: u32, names: usize, random: Random, redirects: bool) -> Model {
        let origin = Dname::parse(origin);
        let mut model = Model { origin, random, serial, sets: BTreeMap::new(), redirects, bursts: 0 };
        let apex = model.origin.clone();
        model.put(Record::new(&apex, rtype::NS, 3600, Dname::parse("ns.outside.example.").0));
        for number in 0..names {
            let owner = child(&child(&model.origin, "inst"), &format!("base{number}"));
            let address = [198, 51, (number / 256) as u8, number as u8];
            model.put(Record::new(&owner, rtype::A, 30, address));
        }
        model
    }

    /// The serial of this version.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The zone in whole, its SOA first.
    pub fn records(&self) -> Vec<Record> {
        let mut rdata = [Dname::parse("ns.outside.example.").0, Dname::parse("h.outside.example.").0].concat();
        // Timers so long that nobody comes of its own accord.
        for number in [self.serial, 86_400, 86_400, 2_592_000, 30] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        let soa = Record::new(&self.origin, rtype::SOA, 30, rdata);
        std::iter::once(soa).chain(self.sets.values().flatten().cloned()).collect()
    }

    /// Carries out `count` random changes as one version.
    pub fn change(&mut self, count: usize) -> Edit {
        self.next_version(|model| (0..count).for_each(|_| model.change_once()))
    }

    /// One change of very many records: names come, get another TTL, and go.
    pub fn burst(&mut self, size: usize) -> Edit {
        self.bursts += 1;
        let parent = child(&child(&self.origin, "burst"), "svc");
        let number = self.bursts;
        self.next_version(|model| match number % 3 {
            1 => {
                for index in 0..size {
                    let text = format!("{:-<90}", format!("burst {number} has brought name {index} "));
                    let owner = child(&parent, &format!("b{number}-{index}"));
                    model.put(Record::new(&owner, rtype::TXT, 30, string(&text)));
                }
            }
            2 => {
                for set in model.sets.values_mut().rev().filter(|set| set[0].rtype == rtype::TXT).take(BURST_OF_TTLS) {
                    set.iter_mut().for_each(|record| record.ttl += 7);
                }
            }
            _ => model.sets.retain(|(owner, _), _| !owner.is_within(&parent)),
        })
    }

    /// The next version, and what leads to it.
    fn next_version(&mut self, change: impl FnOnce(&mut Model)) -> Edit {
        let before: BTreeSet<Record> = self.sets.values().flatten().cloned().collect();
        change(self);
        self.serial = self.serial.wrapping_add(self.random.between(1, 3) as u32);
        let after: BTreeSet<Record> = self.sets.values().flatten().cloned().collect();
        let removed = before.difference(&after).cloned().collect();
        let added = after.difference(&before).cloned().collect();
        Edit { removed, added, records: self.records() }
    }

    fn change_once(&mut self) {
        match self.random.below(100) {
            0..25 => self.add(),
            25..40 => self.remove(),
            40..52 => self.change_ttl(),
            52..66 => self.add_name(),
            66..76 => self.remove_name(),
            76..84 => self.replace_set(),
            84..92 => self.respell(),
            92..97 => self.toggle_alias(),
            _ => self.toggle_redirect(),
        }
    }

    /// A record more in some RRset.
    fn add(&mut self) {
        let (owner, rtype) = self.pick();
        let record = self.record(&owner, rtype);
        self.put(record);
    }

    /// A record less, and the name with it when it was the last.
    fn remove(&mut self) {
        let key = self.pick();
        let index = self.random.below(self.sets[&key].len());
        let set = self.sets.get_mut(&key).expect("a key that was picked");
        set.remove(index);
        if set.is_empty() {
            self.sets.remove(&key);
        }
    }

    fn change_ttl(&mut self) {
        let key = self.pick();
        let ttl = *self.random.pick(&[0, 5, 30, 60, 300, 86_400]);
        self.sets.get_mut(&key).expect("a key that was picked").iter_mut().for_each(|record| record.ttl = ttl);
    }

    /// A name of the pool with an RRset or two, wherever there is no alias.
    fn add_name(&mut self) {
        let owner = self.name();
        if !self.sets.contains_key(&(owner.lower(), rtype::CNAME)) {
            for _ in 0..self.random.between(1, 2) {
                let rtype = *self.random.pick(TYPES);
                let record = self.record(&owner, rtype);
                self.put(record);
            }
        }
    }

    fn remove_name(&mut self) {
        let (owner, _) = self.pick();
        self.sets.retain(|(name, _), _| *name != owner);
    }

    /// Other records in place of all that an RRset has.
    fn replace_set(&mut self) {
        let (owner, rtype) = self.pick();
        self.sets.remove(&(owner.clone(), rtype));
        for _ in 0..self.random.between(1, 5) {
            let record = self.record(&owner, rtype);
            self.put(record);
        }
    }

    /// The same records with other letters in capitals, in the owner and in what they point to.
    fn respell(&mut self) {
        let key = self.pick();
        let owner = self.spell(&key.0);
        let spelled: Vec<Record> = self.sets[&key]
            .clone()
            .into_iter()
            .map(|record| {
                let record = Record { owner: owner.clone(), ..record };
                let target = record.target().map(|target| self.spell(&target));
                target.map_or(record.clone(), |target| record.with_target(&target))
            })
            .collect();
        self.sets.insert(key, spelled);
    }

    /// An alias where there were data, or data where there was an alias.
    fn toggle_alias(&mut self) {
        let owner = self.name();
        let was_alias = self.sets.contains_key(&(owner.lower(), rtype::CNAME));
        self.sets.retain(|(name, _), _| *name != owner.lower());
        let rtype = if was_alias { rtype::A } else { rtype::CNAME };
        let record = self.record(&owner, rtype);
        self.put(record);
    }

    /// A DNAME, or a name below where another datacenter has one.
    fn toggle_redirect(&mut self) {
        let apex = child(&self.origin, &format!("redirect{}", self.random.below(REDIRECTS)));
        let (owner, rtype) = if self.redirects { (apex, rtype::DNAME) } else { (child(&apex, "below"), rtype::A) };
        if self.sets.remove(&(owner.clone(), rtype)).is_none() {
            let record = self.record(&owner, rtype);
            self.put(record);
        }
    }

    /// Puts a record into its RRset, with the TTL and spelling that this has.
    fn put(&mut self, mut record: Record) {
        let set = self.sets.entry((record.owner.lower(), record.rtype)).or_default();
        if let Some(first) = set.first() {
            (record.ttl, record.owner) = (first.ttl, first.owner.clone());
        }
        if !set.iter().any(|there| there.canonical() == record.canonical()) {
            set.push(record);
        }
    }

    /// Some RRset that changes may meet: no alias, no DNAME, not the apex.
    fn pick(&mut self) -> (Dname, u16) {
        let apex = self.origin.lower();
        loop {
            let index = self.random.below(self.sets.len());
            let (key, _) = self.sets.iter().nth(index).expect("an index below the length");
            if key.0 != apex && TYPES.contains(&key.1) {
                return key.clone();
            }
        }
    }

    /// A name of the pool: at different depths, some of them wildcards, in mixed case at times.
    fn name(&mut self) -> Dname {
        let number = self.random.below(POOL);
        let mut name = child(&self.origin, &format!("name{number}"));
        for label in [(3, "svc"), (5, "a"), (7, "*")].iter().filter(|(step, _)| number.is_multiple_of(*step)) {
            name = child(&name, label.1);
        }
        if self.random.chance(30) { self.spell(&name) } else { name }
    }

    /// A name with random letters in capitals.
    fn spell(&mut self, name: &Dname) -> Dname {
        let mut wire = name.0.clone();
        for octet in wire.iter_mut().filter(|octet| octet.is_ascii_alphabetic()) {
            *octet = if self.random.chance(50) { octet.to_ascii_uppercase() } else { octet.to_ascii_lowercase() };
        }
        Dname(wire)
    }

    /// A random record.
    fn record(&mut self, owner: &Dname, rtype: u16) -> Record {
        let ttl = *self.random.pick(&[5, 30, 60, 300]);
        let number = self.random.next();
        let octets = number.to_be_bytes();
        let rdata = match rtype {
            rtype::A => vec![10, octets[0], octets[1], octets[2]],
            rtype::AAAA => [&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0], &octets[..]].concat(),
            rtype::TXT => string(&format!("value {number} of \"{}\"", octets[0])),
            rtype::SRV => [&[0, 0, 0, 10, 0, octets[0]], &self.name().0[..]].concat(),
            rtype::MX => [&[0, octets[0]], &self.name().0[..]].concat(),
            rtype::CNAME | rtype::DNAME => self.name().0,
            other => panic!("no record of type {other} is made here"),
        };
        Record::new(owner, rtype, ttl, rdata)
    }
}

/// The name with one label in front.
fn child(name: &Dname, label: &str) -> Dname {
    name.child(label.as_bytes()).expect("short names")
}

/// A character string.
fn string(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}
