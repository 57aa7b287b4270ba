//! SRV records with compressed targets, as Binder has them: a target ends with a pointer to the longest of its ends
//! that stands in the question or in a target before, if that is spelled alike. Resolvers that mix the case of
//! questions (0x20) thus get targets as they are registered, in about as many octets.
//!
//! RFC 2782 forbids that, RFC 3597 section 4 has receivers take it, and Binder's clients do.
//!
//! Invariants: a pointer leads to labels that stand in front of it. Cost: O(octets of the targets), no allocation.

use crate::message::{Full, Owner, POINTER_LIMIT, Section, Writer};
use crate::name::{self, NameBuf};
use crate::rr::{self, Set};

/// Records whose ends go into the small table.
const FEW: u32 = 64;
/// Its places, for a label or two of each.
const FEW_PLACES: usize = 256;
/// Places for as many as there can be where pointers reach.
const PLACES: usize = 2048;

/// Positions of names and their ends, by a hash of their spelling.
struct Ends<const N: usize> {
    places: [u16; N],
    count: usize,
}

impl<const N: usize> Ends<N> {
    /// Starts with no names.
    fn new() -> Ends<N> {
        Ends { places: [0; N], count: 0 }
    }

    /// Finds the longest end of a name that stands in the message: where it begins in the name, and where it stands.
    /// Notes the longer ones as standing at `position`, where the name is about to be written.
    fn place(&mut self, message: &[u8], wire: &[u8], position: usize) -> Option<(usize, usize)> {
        let mut found = None;
        let mut is_known = true;
        // FNV-1a, from the last label on.
        let mut hash = 0x811c_9dc5u32;
        for start in name::label_starts(wire).iter().rev().map(|start| usize::from(*start)) {
            let label = &wire[start..=start + usize::from(wire[start])];
            hash = label.iter().fold(hash, |hash, octet| (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193));
            let mut place = hash as usize % N;
            // The header stands at the front of a message, so no name does.
            while self.places[place] != 0 {
                let at = usize::from(self.places[place]);
                if is_known && stands_at(message, at, &wire[start..]) {
                    break;
                }
                place = (place + 1) % N;
            }
            is_known &= self.places[place] != 0;
            if is_known {
                found = Some((start, usize::from(self.places[place])));
            } else if position + start < POINTER_LIMIT && self.count < N / 4 * 3 {
                self.places[place] = (position + start) as u16;
                self.count += 1;
            }
        }
        found
    }
}

/// Returns true if a name stands at a position, in this spelling, with pointers or without.
fn stands_at(message: &[u8], mut at: usize, mut wire: &[u8]) -> bool {
    loop {
        match message[at] {
            high @ 0xc0.. => at = usize::from(high & 0x3f) << 8 | usize::from(message[at + 1]),
            0 => return wire[0] == 0,
            length => {
                let octets = 1 + usize::from(length);
                if message[at..at + octets] != wire[..octets.min(wire.len())] {
                    return false;
                }
                (at, wire) = (at + octets, &wire[octets..]);
            }
        }
    }
}

impl Writer<'_> {
    /// Adds SRV records of a set as [`Writer::add_records`] does, with compressed targets.
    pub fn add_services<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        rdatas: impl Iterator<Item = &'r [u8]>,
        place: impl FnMut(usize),
    ) -> Result<(), Full> {
        match rrset.count {
            ..=FEW => self.add_with(&mut Ends::<FEW_PLACES>::new(), section, owner, rrset, rdatas, place),
            _ => self.add_many(section, owner, rrset, rdatas, place),
        }
    }

    /// Adds more records than the small table is for.
    #[cold]
    fn add_many<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        rdatas: impl Iterator<Item = &'r [u8]>,
        place: impl FnMut(usize),
    ) -> Result<(), Full> {
        self.add_with(&mut Ends::<PLACES>::new(), section, owner, rrset, rdatas, place)
    }

    /// Adds the records by means of a table.
    fn add_with<'r, const N: usize>(
        &mut self,
        ends: &mut Ends<N>,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        rdatas: impl Iterator<Item = &'r [u8]>,
        mut place: impl FnMut(usize),
    ) -> Result<(), Full> {
        let begun = (self.position, self.counts);
        let mut name = NameBuf::root();
        if owner.offset >= POINTER_LIMIT || name.fill_plain(self.written(), owner.offset).is_err() {
            return self.add_records(section, owner, rrset, rdatas, place);
        }
        ends.place(self.written(), name.as_wire(), owner.offset);
        let mut compressed = [0; rr::SRV_TARGET + name::MAX_NAME_BYTES];
        for rdata in rdatas {
            // Behind what is fixed, with the pointer to the owner, if there is room.
            let position = self.position + rr::FIXED_BYTES + rr::SRV_TARGET;
            let mut kept = rdata.len();
            compressed[..kept].copy_from_slice(rdata);
            if let Some((start, at)) = ends.place(&self.out[..self.position], &rdata[rr::SRV_TARGET..], position) {
                let start = rr::SRV_TARGET + start;
                compressed[start..start + 2].copy_from_slice(&(0xc000 | at as u16).to_be_bytes());
                kept = start + 2;
            }
            match self.add_record(section, owner, (rrset.rtype, rr::CLASS_IN, rrset.ttl), &compressed[..kept]) {
                Ok(at) => place(at),
                Err(full) => {
                    (self.position, self.counts) = begun;
                    return Err(full);
                }
            }
        }
        Ok(())
    }
}
