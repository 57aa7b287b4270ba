//! Additional records: addresses for the targets of NS, MX, SRV and SVCB records, and for a list of instances the
//! records that describe them (RFC 6763 section 12).
//!
//! It is a courtesy: what does not fit is left out and never sets TC (RFC 2181 section 9).
//!
//! Cost: one lookup for each record of the answer that fits into the message beside what is added, and one comparison
//! or two to find out whether its target has been seen; no allocation.

use crate::serve::answer::{NameMatch, Reply, Source, find};
use wire::message::{Owner, Placed, Section, Writer};
use wire::name::{self, NameBuf};
use wire::rr::{self, rtype};

/// Targets that are compared one by one; beyond that they go by a table, which has to be cleared first.
const FEW: usize = 64;
/// Places of that table: more than records with a name fit into a message.
const PLACES: usize = 4096;
/// The smallest record that is worth a lookup: a pointer, what is fixed, an IPv4 address.
const LEAST_BYTES: usize = 2 + 10 + 4;
/// The smallest record with a name: a pointer, what is fixed, the root.
const LEAST_NAMING: usize = 2 + 10 + 1;

/// Records of the response that name hosts or instances, to be gone through one by one.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    /// Position of the next record in the message.
    pub(super) position: usize,
    pub(super) end: usize,
    /// Offset of the name in the RDATA.
    pub(super) offset: usize,
    /// True if the names are instances of a service, not hosts.
    pub(super) is_list: bool,
    /// True if the names end with pointers.
    pub(super) compressed: bool,
    /// True if only the first targets get addresses.
    pub(super) is_limited: bool,
}

impl Targets {
    /// The name in the next record.
    pub(super) fn next(&mut self, writer: &Writer<'_>) -> Option<Placed> {
        if self.position >= self.end {
            return None;
        }
        let message = writer.written();
        let (.., start, length) = rr::read_fixed(message, name::skip(message, self.position)?)?;
        self.position = start + length;
        let at = start + self.offset;
        if self.compressed { writer.placed_with_pointers(at) } else { writer.placed(at) }.ok()
    }

    /// Returns true if the name of an earlier record is this one.
    fn has_name(&self, writer: &Writer<'_>, before: usize, target: &Placed) -> bool {
        match self.compressed {
            false => writer.has_name(before, target),
            true => {
                writer.placed_with_pointers(before).is_ok_and(|before| before.lower.as_wire() == target.lower.as_wire())
            }
        }
    }
}

/// The targets that have been seen, by where they stand in the message.
struct Seen<const N: usize> {
    places: [u16; N],
    count: usize,
}

impl<const N: usize> Seen<N> {
    /// Starts with no names.
    fn new() -> Seen<N> {
        Seen { places: [0; N], count: 0 }
    }

    /// Notes a target. False if it was there before, or if there is no room to know.
    fn insert(&mut self, targets: &Targets, writer: &Writer<'_>, target: &Placed) -> bool {
        if self.count == N {
            return false;
        }
        let mut place = if N > FEW { place_of(&target.lower) % N } else { 0 };
        // The header stands at the front of a message, so no name does.
        while self.places[place] != 0 {
            if targets.has_name(writer, self.places[place].into(), target) {
                return false;
            }
            place = (place + 1) % N;
        }
        self.places[place] = target.offset as u16;
        self.count += 1;
        true
    }
}

/// A number out of a name, nearly evenly spread.
fn place_of(name: &NameBuf) -> usize {
    // FNV-1a.
    let hash = name
        .as_wire()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash >> 32) as usize
}

impl Reply<'_, '_> {
    /// Adds the addresses of noted host names out of all zones here, each once, as far as they fit.
    pub(super) fn add_targets(&mut self) {
        let Some(mut targets) = self.targets.take() else { return };
        if targets.is_list {
            targets = self.add_instances(targets);
        }
        if targets.is_limited || (targets.end - targets.position) / LEAST_NAMING <= FEW {
            self.add_addresses(targets, &mut Seen::<FEW>::new());
        } else {
            self.add_many_addresses(targets);
        }
    }

    /// Adds the addresses of more targets than are compared one by one.
    #[cold]
    fn add_many_addresses(&mut self, targets: Targets) {
        self.add_addresses(targets, &mut Seen::<PLACES>::new());
    }

    /// Adds the addresses of targets.
    fn add_addresses<const N: usize>(&mut self, mut targets: Targets, seen: &mut Seen<N>) {
        while self.writer.room() >= LEAST_BYTES
            && let Some(target) = targets.next(&self.writer)
        {
            // One host can stand in several records, with different ports or preferences.
            if seen.insert(&targets, &self.writer, &target) {
                self.add_sets_of(&target.lower, target.owner(), &[rtype::A, rtype::AAAA]);
            }
        }
    }

    /// Adds SRV and then TXT records of listed instances, as far as they fit; returns the SRV records (RFC 6763 section
    /// 12.1).
    fn add_instances(&mut self, instances: Targets) -> Targets {
        let start = self.writer.position();
        let mut end = start;
        for kind in [rtype::SRV, rtype::TXT] {
            let mut instances = instances;
            while self.writer.room() >= LEAST_BYTES
                && let Some(instance) = instances.next(&self.writer)
            {
                self.add_sets_of(&instance.lower, instance.owner(), &[kind]);
            }
            if kind == rtype::SRV {
                end = self.writer.position();
            }
        }
        Targets {
            position: start,
            end,
            offset: rr::SRV_TARGET,
            is_list: false,
            compressed: false,
            is_limited: instances.is_limited,
        }
    }

    /// Adds sets of a name that some zone here has, as far as they fit.
    fn add_sets_of(&mut self, name: &NameBuf, owner: Owner<'_>, kinds: &[u16]) {
        let wire = name.as_wire();
        let Some(source) = self.published.find(wire).and_then(Source::of) else { return };
        let NameMatch::Node(node) = find(source.zone, wire, kinds[0]) else { return };
        for rrset in kinds.iter().filter_map(|kind| node.get(*kind)) {
            // A client asks for what is left out.
            let added = match source.served.selections.may_cut(rrset.count) {
                false => self.writer.add_rrset(Section::Additional, owner, rrset, self.turn, |_| ()),
                true => self.add_window(Section::Additional, source, owner, node, rrset, false),
            };
            if added.is_ok() {
                self.sign(Section::Additional, owner, source.zone, node, rrset);
            }
        }
    }
}
