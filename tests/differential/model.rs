//! Model of a correct server, in the plainest way: linear searches over lists of records.
//!
//! Shares nothing with the engine under test. RFC 1034 section 4.3.2 with RFC 4592 (wildcards), RFC 6672 (DNAME),
//! RFC 2308 (negative answers), RFC 4035 section 3.1.4.1 (DS at a cut), and chains that go on in every zone at hand.

use crate::generate::Zone;
use crate::harness::{Dname, Record, rtype};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Aliases that are followed; the server may stop here or later, but not earlier.
pub const ALIAS_LIMIT: usize = 16;
pub const NOERROR: u8 = 0;
pub const NXDOMAIN: u8 = 3;
pub const REFUSED: u8 = 5;
pub const YXDOMAIN: u8 = 6;

/// A zone, ready for lookups.
struct Tree {
    origin: Dname,
    nodes: BTreeMap<Dname, Vec<Record>>,
    /// All names that exist, empty non-terminals included.
    names: HashSet<Dname>,
    nested: bool,
}

/// All zones that the servers have.
pub struct World {
    trees: Vec<Tree>,
    by_origin: HashMap<Dname, usize>,
}

/// The expected answer.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub rcode: u8,
    pub authoritative: bool,
    /// RRsets in the order of the chain.
    pub answer: Vec<Vec<Record>>,
    pub authority: Vec<Record>,
    /// Glue without which the referral leads nowhere (RFC 9471 section 3).
    pub required: Vec<Record>,
    pub facts: Facts,
}

/// Causes of the answer, for the explanations.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The chain goes on in another zone than it began in.
    pub crosses_zones: bool,
    /// A name of the chain comes back.
    pub loops: bool,
    /// Aliases on the way.
    pub aliases: usize,
    /// One of them came from a DNAME.
    pub dname: bool,
    /// A name became longer than 255 octets.
    pub overflow: bool,
    /// Ends at a delegation.
    pub referral: bool,
    /// The chain leaves all zones.
    pub leaves: bool,
    /// A wildcard made a record.
    pub wildcard: bool,
    /// The question is for DS at the apex of a zone.
    pub apex_ds: bool,
    /// The zone that answers lies in another zone that is served, or another in it.
    pub nested: bool,
    /// RRsets at the name of an ANY question.
    pub any: Option<Vec<Vec<Record>>>,
}

/// Answer of one zone for one name.
enum Step {
    Data(Vec<Record>),
    Any(Vec<Vec<Record>>),
    NoData,
    NoName,
    Alias(Vec<Vec<Record>>, Dname),
    TooLong(Vec<Record>),
    Referral(Vec<Record>),
}

impl World {
    /// Takes all zones of all groups.
    pub fn new<'a>(zones: impl IntoIterator<Item = &'a Zone>) -> World {
        let mut trees: Vec<Tree> = zones.into_iter().map(Tree::new).collect();
        let by_origin: HashMap<Dname, usize> =
            trees.iter().enumerate().map(|(index, tree)| (tree.origin.clone(), index)).collect();
        for index in 0..trees.len() {
            let mut above = trees[index].origin.parent();
            while let Some(name) = above {
                if let Some(outer) = by_origin.get(&name) {
                    trees[index].nested = true;
                    trees[*outer].nested = true;
                }
                above = name.parent();
            }
        }
        World { trees, by_origin }
    }

    /// The answer to one question.
    pub fn answer(&self, name: &Dname, rtype: u16) -> Expected {
        let mut out = Expected { authoritative: true, ..Expected::default() };
        let mut current = name.lower();
        let mut visited = HashSet::new();
        let mut first_zone = None;
        out.facts.apex_ds = rtype == rtype::DS && self.by_origin.contains_key(&current);
        loop {
            let Some(index) = self.find_zone(&current, rtype) else {
                out.facts.leaves = out.facts.aliases > 0;
                if out.facts.aliases == 0 {
                    (out.rcode, out.authoritative) = (REFUSED, false);
                }
                return out;
            };
            out.facts.crosses_zones |= *first_zone.get_or_insert(index) != index;
            if !visited.insert(current.clone()) {
                out.facts.loops = true;
                return out;
            }
            let tree = &self.trees[index];
            out.facts.nested = tree.nested;
            match tree.look_up(&current, rtype, &mut out.facts) {
                Step::Data(set) => out.push(set),
                Step::Any(sets) => out.facts.any = Some(sets),
                Step::NoData => out.authority = vec![tree.negative_soa()],
                Step::NoName => {
                    out.rcode = NXDOMAIN;
                    out.authority = vec![tree.negative_soa()];
                }
                Step::TooLong(set) => {
                    out.rcode = YXDOMAIN;
                    out.facts.overflow = true;
                    out.push(set);
                }
                Step::Referral(set) => {
                    out.authoritative = out.facts.aliases > 0;
                    out.facts.referral = true;
                    out.required = tree.required_glue(&set);
                    out.authority = set;
                }
                Step::Alias(sets, target) => {
                    out.facts.aliases += 1;
                    out.facts.dname |= sets[0][0].rtype == rtype::DNAME;
                    sets.into_iter().for_each(|set| out.push(set));
                    // ANY is content with the alias it met, as it is where the alias itself lies (RFC 8482 section
                    // 4.1).
                    if !matches!(rtype, rtype::CNAME | rtype::ANY) && out.facts.aliases < 60 {
                        current = target.lower();
                        continue;
                    }
                }
            }
            return out;
        }
    }

    /// Returns true if a record is in one of the zones, or made from a wildcard of one.
    pub fn holds(&self, record: &Record) -> bool {
        let record = record.canonical();
        let in_tree = |tree: &Tree, owner: &Dname| {
            let node = tree.nodes.get(owner);
            node.is_some_and(|n| {
                n.iter().any(|r| {
                    let r = r.canonical();
                    (r.rtype, r.ttl, &r.rdata) == (record.rtype, record.ttl, &record.rdata)
                })
            })
        };
        let origins = std::iter::successors(Some(record.owner.clone()), Dname::parent);
        origins.filter_map(|origin| self.by_origin.get(&origin)).any(|index| {
            let tree = &self.trees[*index];
            in_tree(tree, &record.owner) || tree.wildcard_for(&record.owner).is_some_and(|w| in_tree(tree, &w))
        })
    }

    /// Address records that lie exactly at a name with authority.
    pub fn addresses(&self, name: &Dname) -> Vec<Record> {
        self.records(name, &[rtype::A, rtype::AAAA])
    }

    /// Records of some types that lie exactly at a name with authority.
    pub fn records(&self, name: &Dname, types: &[u16]) -> Vec<Record> {
        let name = name.lower();
        let Some(index) = self.find_zone(&name, rtype::A) else { return Vec::new() };
        let tree = &self.trees[index];
        if tree.cut_above(&name, rtype::A).is_some() {
            return Vec::new();
        }
        let node = tree.nodes.get(&name).map(Vec::as_slice).unwrap_or_default();
        node.iter().filter(|r| types.contains(&r.rtype)).cloned().collect()
    }

    /// Longest suffix; DS is the business of the zone above, if that delegates the name (RFC 4035 section 3.1.4.1).
    fn find_zone(&self, name: &Dname, rtype: u16) -> Option<usize> {
        let longest = |start: Option<Dname>| {
            let mut candidate = start;
            while let Some(origin) = candidate {
                if let Some(index) = self.by_origin.get(&origin) {
                    return Some(*index);
                }
                candidate = origin.parent();
            }
            None
        };
        let found = longest(Some(name.clone()))?;
        if rtype == rtype::DS && self.trees[found].origin == *name {
            let above = longest(name.parent()).filter(|above| self.trees[*above].delegates(name));
            return above.or(Some(found));
        }
        Some(found)
    }
}

impl Expected {
    /// Adds an RRset unless the chain passed it before.
    fn push(&mut self, set: Vec<Record>) {
        if !self.answer.contains(&set) {
            self.answer.push(set);
        }
    }
}

impl Tree {
    fn new(zone: &Zone) -> Tree {
        let origin = zone.origin.lower();
        let mut nodes: BTreeMap<Dname, Vec<Record>> = BTreeMap::new();
        let mut names = HashSet::from([origin.clone()]);
        for record in &zone.records {
            let owner = record.owner.lower();
            let mut name = owner.clone();
            while name != origin {
                let parent = name.parent().expect("owners lie in their zone");
                names.insert(name);
                name = parent;
            }
            nodes.entry(owner).or_default().push(record.canonical());
        }
        Tree { origin, nodes, names, nested: false }
    }

    fn set(&self, name: &Dname, rtype: u16) -> Vec<Record> {
        let node = self.nodes.get(name).map(Vec::as_slice).unwrap_or_default();
        node.iter().filter(|record| record.rtype == rtype).cloned().collect()
    }

    /// The names from just below the apex down to `name`.
    fn path(&self, name: &Dname) -> Vec<Dname> {
        let mut path = Vec::new();
        let mut current = name.clone();
        while current != self.origin {
            path.push(current.clone());
            current = current.parent().expect("the name lies in the zone");
        }
        path.reverse();
        path
    }

    /// Returns true if there is a delegation at or above a name, before any DNAME.
    fn delegates(&self, name: &Dname) -> bool {
        for step in self.path(name) {
            if !self.set(&step, rtype::NS).is_empty() {
                return true;
            }
            if !self.set(&step, rtype::DNAME).is_empty() {
                return false;
            }
        }
        false
    }

    /// The highest delegation at or above a name, unless the question is for DS at that very name.
    fn cut_above(&self, name: &Dname, rtype: u16) -> Option<Vec<Record>> {
        let sets = self.path(name).into_iter().map(|step| (step.clone(), self.set(&step, rtype::NS)));
        let (owner, set) = sets.into_iter().find(|(_, set)| !set.is_empty())?;
        (rtype != rtype::DS || owner != *name).then_some(set)
    }

    /// The wildcard that covers a name which does not exist (RFC 4592 section 3.3.1).
    fn wildcard_for(&self, name: &Dname) -> Option<Dname> {
        if self.names.contains(name) {
            return None;
        }
        let mut encloser = name.parent()?;
        while !self.names.contains(&encloser) {
            encloser = encloser.parent()?;
        }
        encloser.child(b"*").filter(|wildcard| self.names.contains(wildcard))
    }

    fn look_up(&self, name: &Dname, rtype: u16, facts: &mut Facts) -> Step {
        if let Some(set) = self.cut_above(name, rtype) {
            return Step::Referral(set);
        }
        // A DNAME redirects what lies below it, not itself (RFC 6672 section 2.3).
        let mut ancestor = name.clone();
        while ancestor != self.origin {
            ancestor = ancestor.parent().expect("the name lies in the zone");
            let set = self.set(&ancestor, rtype::DNAME);
            let Some(dname) = set.first() else { continue };
            let target = dname.target().expect("DNAME has a target");
            let Some(target) = name.with_suffix(&ancestor, &target) else { return Step::TooLong(set) };
            let alias = Record::new(name, rtype::CNAME, dname.ttl, target.0.clone());
            return Step::Alias(vec![set, vec![alias]], target);
        }
        let wildcard = self.wildcard_for(name);
        facts.wildcard |= wildcard.is_some();
        if wildcard.is_none() && !self.names.contains(name) {
            return Step::NoName;
        }
        let source = wildcard.unwrap_or_else(|| name.clone());
        let rename = |set: Vec<Record>| -> Vec<Record> {
            set.into_iter().map(|record| Record { owner: name.clone(), ..record }).collect()
        };
        if rtype == rtype::ANY {
            let types: std::collections::BTreeSet<u16> =
                self.nodes.get(&source).into_iter().flatten().map(|record| record.rtype).collect();
            let sets: Vec<_> = types.into_iter().map(|each| rename(self.set(&source, each))).collect();
            return if sets.is_empty() { Step::NoData } else { Step::Any(sets) };
        }
        let set = self.set(&source, rtype);
        if !set.is_empty() && rtype != rtype::CNAME {
            return Step::Data(rename(set));
        }
        let alias = rename(self.set(&source, rtype::CNAME));
        match alias.first().and_then(Record::target) {
            Some(target) => Step::Alias(vec![alias], target),
            None => Step::NoData,
        }
    }

    /// The SOA of negative answers, its TTL bounded by its last number (RFC 2308 section 3).
    fn negative_soa(&self) -> Record {
        let soa = self.set(&self.origin, rtype::SOA).remove(0);
        Record { ttl: soa.ttl.min(soa.minimum()), ..soa }
    }

    /// Addresses of name servers below their own cut.
    fn required_glue(&self, set: &[Record]) -> Vec<Record> {
        let cut = &set[0].owner;
        let servers: HashSet<Dname> = set.iter().filter_map(Record::target).filter(|s| s.is_within(cut)).collect();
        let glue = |server: &Dname| [self.set(server, rtype::A), self.set(server, rtype::AAAA)].concat();
        servers.iter().flat_map(glue).collect()
    }
}
