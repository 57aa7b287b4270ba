//! Denial: the NSEC or NSEC3 records of a signed zone which prove that a name or a type is not there, for clients that
//! want them.
//!
//! | what is answered | NSEC | NSEC3 |
//! |---|---|---|
//! | no such type | the name's; of an empty non-terminal, the one that covers it | the name's; else its closest encloser's, and the one that covers the next closer name |
//! | no such name | the ones that cover the name and the wildcard that could stand for it | the closest encloser's, and the ones that cover the next closer name and the wildcard |
//! | a wildcard | the one that covers the name | the one that covers the next closer name |
//! | no such type at a wildcard | that, and the wildcard's | the closest encloser's, that, and the wildcard's |
//! | an unsigned delegation | the name's | as "no such type" |
//!
//! The records are served as they came. Where a chain is broken, so is the proof, as everywhere else where the zone is
//! served.
//!
//! Invariants: each record is written once; what does not fit sets TC. Nothing is written behind the additional section.
//!
//! Cost: O(log names) for each record; with NSEC3, a hash for each. Nothing is allocated.
//!
//! RFCs: 4035 section 3.1.3 and 3.1.4, 5155 section 7.2.

use super::{Reply, wildcard_below};
use crate::zone::{Node, Zone};
use wire::message::{Owner, POINTER_LIMIT, Section};
use wire::name::{self, NameBuf};
use wire::nsec3::{HashLabel, Parameters};
use wire::rr::rtype;

impl<'p> Reply<'p, '_> {
    /// Notes that a wildcard stands for a name, if it does, which is to be proven ([`Reply::add_proofs`]).
    #[inline]
    pub(super) fn note_wildcard(&mut self, zone: &'p Zone, current: Owner<'_>, node: Node<'_>) {
        if self.is_proving(zone) {
            self.note_if_wildcard(zone, current, node);
        }
    }

    /// Notes it.
    #[cold]
    fn note_if_wildcard(&mut self, zone: &'p Zone, current: Owner<'_>, node: Node<'_>) {
        if is_wildcard_for(zone, current, node)
            && let Some(proofs) = &mut self.proofs
            && let Some(free) = proofs.wildcards.iter_mut().find(|slot| slot.is_none())
        {
            *free = Some((zone, current.offset));
        }
    }

    /// Proves, behind the answer, that the names for which wildcards stand are not there.
    #[inline]
    pub(super) fn add_proofs(&mut self) {
        if self.proofs.is_some() {
            self.add_noted_proofs();
        }
    }

    /// Proves it.
    #[cold]
    fn add_noted_proofs(&mut self) {
        let Some(proofs) = &mut self.proofs else { return };
        let wildcards = std::mem::take(&mut proofs.wildcards);
        for (zone, offset) in wildcards.into_iter().flatten() {
            let Ok(placed) = self.writer.placed(offset) else { continue };
            let wire = placed.lower.as_wire();
            match zone.signed().and_then(|signed| signed.nsec3()) {
                None => self.add_covering(zone, wire),
                Some(parameters) => {
                    if let Some(start) = next_closer(zone, wire) {
                        self.add_covering_hash(zone, parameters, &wire[start..]);
                    }
                }
            }
        }
    }

    /// Proves that a name does not have the type that was asked for.
    #[inline]
    pub(super) fn prove_no_data(&mut self, zone: &'p Zone, current: Owner<'_>, node: Node<'p>) {
        if self.is_proving(zone) {
            self.add_no_data(zone, current, node);
        }
    }

    /// Adds the records that prove it.
    #[cold]
    fn add_no_data(&mut self, zone: &'p Zone, current: Owner<'_>, node: Node<'p>) {
        let Some(parameters) = zone.signed().and_then(|signed| signed.nsec3()) else {
            match node.get(rtype::NSEC) {
                Some(_) => self.add_link(zone, node),
                None => self.add_covering(zone, current.wire),
            }
            return;
        };
        if is_wildcard_for(zone, current, node) {
            self.add_enclosure(zone, parameters, current.wire);
        }
        let Some(name) = name_of(zone, node) else { return };
        match matching(zone, parameters, name.as_wire()) {
            Some(link) => self.add_link(zone, link),
            // RFC 5155 section 7.2.4: a name that is there for unsigned delegations only has none.
            None => _ = self.add_enclosure(zone, parameters, name.as_wire()),
        }
    }

    /// Proves that a name is not there.
    #[inline]
    pub(super) fn prove_no_name(&mut self, zone: &'p Zone, current: Owner<'_>) {
        if self.is_proving(zone) {
            self.add_no_name(zone, current);
        }
    }

    /// Adds the records that prove it.
    #[cold]
    fn add_no_name(&mut self, zone: &'p Zone, current: Owner<'_>) {
        let wildcard_at = |start: usize| wildcard_below(&current.wire[start..]);
        match zone.signed().and_then(|signed| signed.nsec3()) {
            None => {
                self.add_covering(zone, current.wire);
                let wildcard = encloser(zone, current.wire).and_then(wildcard_at);
                wildcard.iter().for_each(|wildcard| self.add_covering(zone, wildcard.as_wire()));
            }
            Some(parameters) => {
                let wildcard = self.add_enclosure(zone, parameters, current.wire).and_then(wildcard_at);
                let wildcard = wildcard.iter();
                wildcard.for_each(|wildcard| self.add_covering_hash(zone, parameters, wildcard.as_wire()));
            }
        }
    }

    /// Adds the DS records of a delegation, or proves that there are none.
    #[inline]
    pub(super) fn prove_delegation(&mut self, zone: &'p Zone, cut: Owner<'_>) {
        if !self.is_proving(zone) {
            return;
        }
        let Some(node) = zone.get(cut.wire) else { return };
        let Some(ds) = node.get(rtype::DS) else { return self.add_no_data(zone, cut, node) };
        match self.writer.add_rrset(Section::Authority, cut, ds, 0, |_| ()) {
            Ok(()) => self.sign(Section::Authority, cut, zone, node, ds),
            Err(_) => self.writer.truncated = true,
        }
    }

    /// Adds the record that covers a name, or is the name's.
    fn add_covering(&mut self, zone: &'p Zone, wire: &[u8]) {
        if let Some(node) = zone.chained(labels(zone, wire)) {
            self.add_link(zone, node);
        }
    }

    /// Adds the NSEC3 record that covers the hash of a name.
    fn add_covering_hash(&mut self, zone: &'p Zone, parameters: &Parameters, wire: &[u8]) {
        if let Some(node) = zone.chained(&parameters.hash(wire)) {
            self.add_link(zone, node);
        }
    }

    /// Adds the NSEC3 records that prove the closest provable encloser of a name (RFC 5155 section 7.2.1); returns where
    /// that begins in the name.
    fn add_enclosure(&mut self, zone: &'p Zone, parameters: &Parameters, wire: &[u8]) -> Option<usize> {
        let starts = name::label_starts(wire);
        let starts = starts.iter().map(|start| usize::from(*start)).chain([wire.len() - 1]);
        let mut closer = 0;
        for start in starts.take_while(|start| wire.len() - start >= zone.origin.as_wire().len()) {
            let link = Some(start).filter(|start| *start > 0 && exists(zone, &wire[*start..]));
            if let Some(link) = link.and_then(|start| matching(zone, parameters, &wire[start..])) {
                self.add_link(zone, link);
                self.add_covering_hash(zone, parameters, &wire[closer..]);
                return Some(start);
            }
            closer = start;
        }
        None
    }

    /// Adds the NSEC or NSEC3 record of a node, with its signatures, unless that is there.
    fn add_link(&mut self, zone: &'p Zone, node: Node<'p>) {
        let kind =
            if zone.signed().is_some_and(|signed| signed.nsec3().is_some()) { rtype::NSEC3 } else { rtype::NSEC };
        let Some(set) = node.get(kind) else { return };
        if !self.proofs.as_mut().is_some_and(|proofs| proofs.insert(zone, node)) {
            return;
        }
        // Only the question is known to have some of the name's labels.
        let Some(name) = name_of(zone, node) else { return };
        let begun = self.writer.position();
        let owner = Owner { offset: POINTER_LIMIT, wire: name.as_wire() };
        if self.writer.add_records(Section::Authority, owner, set, set.rdatas(), |_| ()).is_err() {
            self.writer.truncated = true;
            return;
        }
        let offset = if set.count == 1 { begun } else { POINTER_LIMIT };
        self.sign(Section::Authority, Owner { offset, ..owner }, zone, node, set);
    }
}

/// The labels of a name in front of its zone's origin.
fn labels<'w>(zone: &Zone, wire: &'w [u8]) -> &'w [u8] {
    &wire[..wire.len() - zone.origin.as_wire().len()]
}

/// The name of a node.
fn name_of(zone: &Zone, node: Node<'_>) -> Option<NameBuf> {
    let labels = NameBuf::root().splice(0, node.owner()).ok()?;
    labels.splice(node.owner().len(), zone.origin.as_wire()).ok()
}

/// Returns true if a node was found for a name because it is the wildcard that stands for it.
fn is_wildcard_for(zone: &Zone, current: Owner<'_>, node: Node<'_>) -> bool {
    node.owner() != labels(zone, current.wire)
}

/// Returns true if a zone has a name.
fn exists(zone: &Zone, wire: &[u8]) -> bool {
    zone.get(wire).is_some_and(|node| !zone.hides(node))
}

/// Where the closest encloser of a name that is not there begins in it.
fn encloser(zone: &Zone, wire: &[u8]) -> Option<usize> {
    let starts = name::label_starts(wire);
    let origin = wire.len() - zone.origin.as_wire().len();
    let starts = starts.iter().map(|start| usize::from(*start)).take_while(|start| *start < origin).chain([origin]);
    starts.into_iter().find(|start| exists(zone, &wire[*start..]))
}

/// Where the next closer name of a name that is not there begins in it: one label longer than the closest encloser.
fn next_closer(zone: &Zone, wire: &[u8]) -> Option<usize> {
    let encloser = encloser(zone, wire)?;
    name::label_starts(wire).iter().map(|start| usize::from(*start)).take_while(|start| *start < encloser).last()
}

/// The node with the NSEC3 record that matches a name.
fn matching<'z>(zone: &'z Zone, parameters: &Parameters, wire: &[u8]) -> Option<Node<'z>> {
    let label: HashLabel = parameters.hash(wire);
    zone.chained(&label).filter(|node| node.owner() == label)
}
