//! What a signed zone has beside its records: the chain of names by which it denies others, and when signatures expire.
//!
//! A zone is signed if its SOA is. The chain is that of NSEC records, or of NSEC3 records where the apex has usable
//! parameters for them; records of another chain, which a zone has while it goes from one to the other, are served as
//! records and prove nothing here. Owners are kept by their canonical keys (`canonical`), so the one in front of any name is
//! found in O(log names).
//!
//! Invariants: every owner of the chain is here and has its record; a version shares with the one before what is not near a
//! change; a zone that is not signed has nothing of this.
//!
//! Cost: O(names × log names) for a first version, O(changed names × log names) for the next; for each name of the chain
//! its octets, twice those of a pointer, and an allocation.
//!
//! RFCs: 4034 (RRSIG, NSEC, canonical order), 5155 (NSEC3).

use super::canonical::{key, labels_of};
use super::table::Table;
use super::{Node, Zone};
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;
use wire::nsec3::Parameters;
use wire::rr::{Signature, rtype};

/// Octets that the allocator takes for a key beside its own.
const KEY_OVERHEAD: usize = 16;

/// The chain of a signed zone, and the expirations of its signatures.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Parameters of the NSEC3 chain; none where NSEC records deny names.
    nsec3: Option<Parameters>,
    /// Keys of the owners in the chain.
    chain: OrdSet<Box<[u8]>>,
    /// Number of signatures by expiration.
    expirations: OrdMap<u32, u32>,
}

impl Signed {
    /// What a version has of this, if it is signed, whose nodes are those of a version that has `base` but for some, each
    /// with what it was before.
    pub(super) fn next<'n>(
        base: Option<&Arc<Signed>>,
        table: &Table,
        changed: impl Iterator<Item = [Node<'n>; 2]>,
    ) -> Option<Arc<Signed>> {
        let apex = table.get(&[])?;
        if signatures(apex).all(|signature| signature.covered != rtype::SOA) {
            return None;
        }
        let parameters = apex.get(rtype::NSEC3PARAM).into_iter().flat_map(|set| set.rdatas());
        let nsec3 = parameters.filter_map(Parameters::read).next();
        let Some(base) = base.filter(|base| base.nsec3 == nsec3) else {
            let mut made = Signed { nsec3, chain: OrdSet::new(), expirations: OrdMap::new() };
            table.iter().for_each(|node| made.add(node));
            return Some(Arc::new(made));
        };
        let mut next = (**base).clone();
        for [old, new] in changed {
            next.remove(old);
            next.add(new);
        }
        Some(Arc::new(next))
    }

    /// Returns true if a node is in the chain.
    fn has(&self, node: Node<'_>) -> bool {
        match &self.nsec3 {
            None => node.get(rtype::NSEC).is_some(),
            Some(parameters) => {
                node.get(rtype::NSEC3).is_some_and(|set| set.rdatas().any(|rdata| parameters.are_of(rdata)))
            }
        }
    }

    /// Takes a node in.
    fn add(&mut self, node: Node<'_>) {
        if self.has(node) {
            self.chain.insert(Box::from(&*key(node.owner)));
        }
        for signature in signatures(node) {
            *self.expirations.entry(signature.expiration).or_insert(0) += 1;
        }
    }

    /// Takes a node out.
    fn remove(&mut self, node: Node<'_>) {
        if self.has(node) {
            self.chain.remove(&*key(node.owner));
        }
        for expiration in signatures(node).map(|signature| signature.expiration) {
            match self.expirations.get_mut(&expiration) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = self.expirations.remove(&expiration),
            }
        }
    }

    /// The parameters by which names are hashed; none where NSEC records deny names.
    pub fn nsec3(&self) -> Option<&Parameters> {
        self.nsec3.as_ref()
    }

    /// When the first signature expires, in seconds since 1970.
    pub fn first_expiration(&self) -> Option<u32> {
        self.expirations.get_min().map(|(expiration, _)| *expiration)
    }

    /// Octets in memory, nearly.
    pub(super) fn octets(&self) -> u64 {
        // All keys of an NSEC3 chain are as long as the first, and those of another need not be known better.
        let key = self.chain.get_min().map_or(0, |key| key.len());
        let links = self.chain.len() * (key + size_of::<Box<[u8]>>() + KEY_OVERHEAD);
        (links + self.expirations.len() * size_of::<[u32; 2]>()) as u64
    }
}

impl Zone {
    /// What the zone has of signatures, if it is signed.
    #[inline]
    pub fn signed(&self) -> Option<&Signed> {
        self.signed.as_deref()
    }

    /// The node of a signed zone's chain whose name is these labels in front of the origin, or the last before them; the
    /// chain's last node covers what comes before its first (RFC 4034 section 4.1.1).
    pub fn chained(&self, labels: &[u8]) -> Option<Node<'_>> {
        let chain = &self.signed()?.chain;
        let key = chain.get_prev(&*key(labels)).or_else(|| chain.get_max())?;
        self.table.get(&labels_of(key))
    }

    /// Returns true if a node is there for the names that it denies, and is no name of the zone by itself (RFC 5155 section
    /// 7.2.8).
    #[inline]
    pub fn hides(&self, node: Node<'_>) -> bool {
        self.signed.is_some() && is_hash(node)
    }
}

/// Returns true if a node has NSEC3 records and nothing but their signatures beside them.
#[cold]
fn is_hash(node: Node<'_>) -> bool {
    node.get(rtype::NSEC3).is_some()
        && node.rrsets().all(|set| matches!(set.rtype, rtype::NSEC3 | rtype::RRSIG))
        && signatures(node).all(|signature| signature.covered == rtype::NSEC3)
}

/// The signatures of a node's sets.
fn signatures(node: Node<'_>) -> impl Iterator<Item = Signature> {
    node.get(rtype::RRSIG).into_iter().flat_map(|set| set.rdatas()).filter_map(Signature::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::{Editor, RRsets};
    use proptest::prelude::*;
    use wire::name::Name;
    use wire::rr::RRset;

    /// An RRSIG record.
    fn signature(covered: u16, expiration: u32) -> Vec<u8> {
        let head = [&covered.to_be_bytes()[..], &[13, 1], &30u32.to_be_bytes(), &expiration.to_be_bytes(), &[0; 6]];
        [&head.concat()[..], b"\x01z\0", &[7; 8]].concat()
    }

    /// The sets of a name: of the apex with an SOA, of others with NSEC or NSEC3 if wanted; signed or not.
    fn sets(is_apex: bool, chain: Option<bool>, expirations: &[u32]) -> RRsets {
        let mut sets = Vec::new();
        if is_apex {
            sets.push((rtype::SOA, vec![[&b"\0\0"[..], &[0; 20]].concat()]));
        }
        let covered = if is_apex { rtype::SOA } else { rtype::NSEC };
        if !expirations.is_empty() {
            sets.push((rtype::RRSIG, expirations.iter().map(|at| signature(covered, *at)).collect()));
        }
        match chain {
            Some(false) => sets.push((rtype::NSEC, vec![b"\x01z\0\0\x01\x40".to_vec()])),
            Some(true) => sets.push((rtype::NSEC3, vec![b"\x01\0\0\x01\0\x14aaaaaaaaaaaaaaaaaaaa".to_vec()])),
            None => {}
        }
        if is_apex && chain == Some(true) {
            sets.push((rtype::NSEC3PARAM, vec![b"\x01\0\0\x01\0".to_vec()]));
        }
        sets.into_iter().filter_map(|(rtype, rdatas)| RRset::build(rtype, 0, rdatas).map(Arc::new)).collect()
    }

    proptest! {
        /// What is kept from version to version is what a look at the whole zone gives.
        #[test]
        fn a_version_has_what_its_records_say(
            steps in prop::collection::vec(
                prop::collection::vec(
                    (0usize..6, prop::option::of(any::<bool>()), prop::collection::vec(5u32..9, 0..3)), 1..5,
                ),
                1..6,
            ),
        ) {
            let origin = Name::parse("z").unwrap();
            let names = ["z", "a.z", "b.z", "a.b.z", "*.b.z", "x.y.z"].map(|name| Name::parse(name).unwrap());
            let mut editor = Editor::new(origin.clone());
            editor.set(&origin, sets(true, None, &[]), None);
            let mut zone = editor.finish().unwrap();
            for step in steps {
                let mut editor = Editor::from_zone(&zone);
                for (index, chain, expirations) in step {
                    editor.set(&names[index], sets(index == 0, chain, &expirations), None);
                }
                zone = editor.finish().unwrap();
                let whole = Signed::next(None, &zone.table, std::iter::empty());
                prop_assert_eq!(zone.signed.is_some(), whole.is_some());
                let Some((kept, whole)) = zone.signed().zip(whole) else { continue };
                prop_assert_eq!(&kept.nsec3, &whole.nsec3);
                prop_assert_eq!(&kept.chain, &whole.chain);
                prop_assert_eq!(&kept.expirations, &whole.expirations);
                prop_assert_eq!(kept.first_expiration(), whole.expirations.keys().min().copied());
                for node in zone.nodes().filter(|node| kept.has(*node)) {
                    let found = zone.chained(node.owner);
                    prop_assert_eq!(found.map(|node| node.owner), Some(node.owner));
                }
            }
        }
    }
}
