//! Small zones full of awkward corners.
//!
//! A group is one to three zones that refer to each other; it depends on the seed and its number only. Each zone is
//! put together from features; what no server would load is removed at the end, so that every zone loads everywhere.

use crate::features;
use crate::harness::Random;
use crate::harness::{Dname, Record, rtype};
use std::collections::{BTreeMap, BTreeSet};

/// One generated zone.
pub struct Zone {
    pub origin: Dname,
    pub records: Vec<Record>,
}

/// A zone under construction, with what the features need to know.
pub struct Builder {
    pub origin: Dname,
    pub records: Vec<Record>,
    /// Origins of the other zones of the group: their names are targets too.
    pub others: Vec<Dname>,
    pub random: Random,
}

/// Labels that are used again and again, so that features meet.
const LABELS: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"www", b"mail", b"host", b"x", b"y", b"w", b"sub", b"Deep", b"svc"];
/// Labels of octets that text and careless code get wrong (RFC 2181 section 11).
const ODD_LABELS: &[&[u8]] =
    &[b"\0", b"a.b", b"with space", b"\xff\xfe", b"back\\slash", b"quo\"te", b"semi;colon", b"@", b"$x", b"(", b"1"];
/// Names in no zone of the test.
const OUTSIDE: &[&str] = &["elsewhere.invalid.", "ns.outside.example.", "deep.name.outside.example."];

impl Builder {
    /// Adds a record.
    pub fn add(&mut self, owner: &Dname, rtype: u16, rdata: impl Into<Vec<u8>>) {
        self.records.push(Record::new(owner, rtype, 0, rdata));
    }

    /// A label, at times an odd one, at times in capitals.
    pub fn label(&mut self) -> Vec<u8> {
        let list = if self.random.chance(6) { ODD_LABELS } else { LABELS };
        let label = self.random.pick(list).to_vec();
        if self.random.chance(10) { label.to_ascii_uppercase() } else { label }
    }

    /// A new or known name in the zone, one to three labels below the origin.
    pub fn name(&mut self) -> Dname {
        let mut name = self.origin.clone();
        for _ in 0..*self.random.pick(&[1, 1, 1, 2, 2, 3]) {
            let label = self.label();
            name = self.below(&name, &label);
        }
        name
    }

    /// A name one label below another, or the name itself when it is full.
    pub fn below(&mut self, name: &Dname, label: &[u8]) -> Dname {
        name.child(label).unwrap_or_else(|| name.clone())
    }

    /// An owner that is there already, the apex included.
    pub fn known(&mut self) -> Dname {
        let index = self.random.below(self.records.len());
        self.records[index].owner.clone()
    }

    /// A name to point to: known, new, below something, in another zone of the group, or outside.
    pub fn target(&mut self) -> Dname {
        match self.random.below(12) {
            0..4 => self.known(),
            4..6 => self.name(),
            6..7 => {
                let name = self.known();
                let label = self.label();
                self.below(&name, &label)
            }
            7..8 => {
                let name = self.known();
                name.parent().filter(|parent| parent.is_within(&self.origin)).unwrap_or(name)
            }
            8..11 if !self.others.is_empty() => {
                let other = self.random.pick(&self.others).clone();
                let label = self.label();
                if self.random.chance(15) { other } else { self.below(&other, &label) }
            }
            _ => {
                let outside: &&str = self.random.pick(OUTSIDE);
                Dname::parse(outside)
            }
        }
    }

    /// Adds one or more addresses.
    pub fn add_addresses(&mut self, owner: &Dname, most: usize) {
        for _ in 0..self.random.between(1, most) {
            if self.random.chance(70) {
                let octets = [192, 0, 2, self.random.below(250) as u8];
                self.add(owner, rtype::A, octets);
            } else {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
                octets[15] = self.random.below(250) as u8;
                self.add(owner, rtype::AAAA, octets);
            }
        }
    }
}

/// Makes one group of zones.
pub fn generate_group(seed: u64, number: usize) -> Vec<Zone> {
    let mut random = Random::new(seed, number as u64);
    let main = Dname::parse(&format!("g{number}.test."));
    let mut origins = vec![main.clone()];
    let nested = random.chance(35);
    if nested {
        let child = if random.chance(30) { "sub.b" } else { "sub" };
        origins.push(Dname::parse(&format!("{child}.{main}")));
    }
    if random.chance(35) {
        origins.push(Dname::parse(&format!("h{number}.example.")));
    }
    let mut zones = Vec::new();
    for (index, origin) in origins.iter().enumerate() {
        let others = origins.iter().filter(|other| *other != origin).cloned().collect();
        let part = (number * 4 + index) as u64;
        let mut builder =
            Builder { origin: origin.clone(), records: Vec::new(), others, random: Random::new(!seed, part) };
        features::add_apex(&mut builder);
        if index == 0 && nested {
            // Not always: a parent that forgot the delegation is served like any other.
            if builder.random.chance(85) {
                features::add_served_child(&mut builder, &origins[1]);
            }
        }
        for _ in 0..builder.random.between(2, 6) {
            let feature = *builder.random.pick(features::ALL);
            feature(&mut builder);
        }
        zones.push(Zone { origin: origin.clone(), records: make_loadable(builder) });
    }
    zones
}

/// Removes what a server refuses to load, sets the TTLs, and sorts.
fn make_loadable(builder: Builder) -> Vec<Record> {
    let Builder { origin, records, .. } = builder;
    let mut nodes: BTreeMap<Dname, Vec<Record>> = BTreeMap::new();
    for record in records {
        nodes.entry(record.owner.lower()).or_default().push(record);
    }
    for (owner, node) in &mut nodes {
        let has = |node: &[Record], rtype| node.iter().any(|record| record.rtype == rtype);
        let at_apex = *owner == origin.lower();
        if at_apex || owner.is_wildcard() {
            node.retain(|record| record.rtype != rtype::CNAME || !at_apex);
            // A wildcard that delegates or redirects is undefined (RFC 4592 sections 4.2 and 4.4).
            node.retain(|record| at_apex || !matches!(record.rtype, rtype::NS | rtype::DNAME));
        }
        if has(node, rtype::NS) && !at_apex {
            // At a cut live NS, DS and glue.
            node.retain(|record| matches!(record.rtype, rtype::NS | rtype::DS | rtype::A | rtype::AAAA));
        } else {
            node.retain(|record| record.rtype != rtype::DS);
        }
        // A CNAME stands alone, and there is only one of it and of DNAME (RFC 2181 section 10.1, RFC 6672 section 2.4).
        if node[..].first().is_some_and(|record| record.rtype == rtype::CNAME) {
            node.truncate(1);
        }
        node.retain({
            let alone = node.len() == 1;
            move |record| record.rtype != rtype::CNAME || alone
        });
        let mut dnames = 0;
        node.retain(|record| {
            dnames += usize::from(record.rtype == rtype::DNAME);
            record.rtype != rtype::DNAME || dnames == 1
        });
    }
    let redirected: Vec<Dname> = nodes
        .iter()
        .filter(|(_, node)| node.iter().any(|record| record.rtype == rtype::DNAME))
        .map(|(owner, _)| owner.clone())
        .collect();
    // Nothing lies below a DNAME (RFC 6672 section 2.4).
    nodes.retain(|owner, _| !redirected.iter().any(|dname| owner != dname && owner.is_within(dname)));
    let mut seen = BTreeSet::new();
    let mut records: Vec<Record> = Vec::new();
    for record in nodes.into_values().flatten() {
        let lower = record.owner.lower();
        let spread = lower.0.iter().fold(u32::from(record.rtype), |sum, octet| sum * 31 % 9_973 + u32::from(*octet));
        let ttl = if record.rtype == rtype::SOA { 900 } else { 300 + spread % 3_000 };
        let record = Record { ttl, ..record };
        if seen.insert(record.canonical()) {
            records.push(record);
        }
    }
    // The SOA first, as zone files have it.
    records.sort_by_key(|record| (record.rtype != rtype::SOA, record.owner.lower(), record.rtype));
    records
}
