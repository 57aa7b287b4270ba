//! Signatures beside the sets of signed zones, for clients that want them (the DO bit).
//!
//! Invariants: a zone that is not signed, and a client that does not ask, cost a comparison; a signature has the TTL of the
//! set beside it (RFC 4034 section 3); what is missing in the answer or authority section sets TC, in the additional
//! section it does not (RFC 4035 section 3.1.1).
//!
//! Cost: O(signatures of the node) a set. Nothing is allocated.

use super::{MAX_ALIASES, Reply};
use crate::zone::{Node, Zone};
use wire::message::{Owner, Section};
use wire::rr::{self, Set, Signature, rtype};

/// Links of the chains of signed zones that one answer may have: more are not needed by any one name.
const MAX_LINKS: usize = 8;

/// What the answer has to prove, and what is proven.
#[derive(Default)]
pub(super) struct Proofs<'p> {
    /// Names that a wildcard stands for: the zone, and where the name stands in the message.
    pub(super) wildcards: [Option<(&'p Zone, usize)>; MAX_ALIASES + 1],
    /// Zones and owners of the NSEC and NSEC3 records that are written.
    links: [Option<(&'p Zone, &'p [u8])>; MAX_LINKS],
}

impl<'p> Proofs<'p> {
    /// Notes that a node's record is written; returns false if it is already.
    pub(super) fn insert(&mut self, zone: &'p Zone, node: Node<'p>) -> bool {
        let is_here = |(of, owner): &(&Zone, &[u8])| std::ptr::eq(*of, zone) && *owner == node.owner();
        if self.links.iter().flatten().any(is_here) {
            return false;
        }
        if let Some(free) = self.links.iter_mut().find(|slot| slot.is_none()) {
            *free = Some((zone, node.owner()));
        }
        true
    }
}

impl<'p> Reply<'p, '_> {
    /// Returns true if the client gets signatures out of a zone.
    #[inline]
    pub(super) fn is_proving(&self, zone: &Zone) -> bool {
        self.proofs.is_some() && zone.signed().is_some()
    }

    /// Adds the signatures of a set that was written under an owner.
    #[inline]
    pub(super) fn sign(&mut self, section: Section, owner: Owner<'_>, zone: &Zone, node: Node<'_>, set: Set<'_>) {
        if self.is_proving(zone) {
            self.add_signatures(section, owner, node, set);
        }
    }

    /// Adds the signatures of a node that cover a set, with the set's TTL.
    #[cold]
    fn add_signatures(&mut self, section: Section, owner: Owner<'_>, node: Node<'_>, set: Set<'_>) {
        let Some(signatures) = node.get(rtype::RRSIG).filter(|_| set.rtype != rtype::RRSIG) else { return };
        let is_covering =
            |rdata: &&[u8]| Signature::read(rdata).is_some_and(|signature| signature.covered == set.rtype);
        let covering = signatures.rdatas().filter(is_covering);
        let added = self.writer.add_records(section, owner, signatures.with_ttl(set.ttl), covering, |_| ());
        self.writer.truncated |= added.is_err() && !matches!(section, Section::Additional);
    }

    /// Adds signatures for whoever asks for them by themselves: those of one set, as an answer to ANY has one (RFC 8482
    /// section 4.1). Returns false if they did not fit.
    #[cold]
    pub(super) fn add_some_signatures(&mut self, owner: Owner<'_>, signatures: Set<'_>) -> bool {
        let covered = |rdata| Signature::read(rdata).map(|signature| signature.covered);
        let Some(first) = signatures.rdatas().next() else { return true };
        let some = signatures.rdatas().filter(|rdata| covered(rdata) == covered(first));
        let set = signatures.with_ttl(rr::record_ttl(rtype::RRSIG, signatures.ttl, first));
        let added = self.writer.add_records(Section::Answer, owner, set, some, |_| ());
        self.writer.truncated |= added.is_err();
        added.is_ok()
    }
}
