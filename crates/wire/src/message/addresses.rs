//! Addresses in a response: records of one size, written without a look at the length of each.
//!
//! Sets of many records are sets of addresses more often than anything else. Owner, type, class, TTL and length are the same
//! for all of their records, so a record is two copies of a known size.
//!
//! Invariant: what does not fit leaves the message as it was. Cost: O(records), a few instructions each.

use super::{Full, Owner, POINTER_LIMIT, Section, Writer};
use crate::rr::{self, Set, rtype};

/// RDATA of the records of a set that stand at offsets. It is a type of its own to be written in place: a call for each
/// record took as long as copying it.
struct Rdatas<'s, I> {
    set: Set<'s>,
    offsets: I,
}

impl<'s, I: Iterator<Item = u32>> Iterator for Rdatas<'s, I> {
    type Item = &'s [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'s [u8]> {
        let offset = self.offsets.next()?;
        Some(self.set.at(offset))
    }
}

/// Addresses that are being written.
struct Row<'o> {
    /// The message up to its limit.
    out: &'o mut [u8],
    position: usize,
    /// Each record up to its RDATA.
    fixed: [u8; rr::FIXED_BYTES],
}

impl Row<'_> {
    /// Writes one.
    #[inline(always)]
    fn put<const BYTES: usize>(&mut self, address: &[u8; BYTES]) -> Result<(), Full> {
        let end = self.position + rr::FIXED_BYTES + BYTES;
        let (head, body) = self.out.get_mut(self.position..end).ok_or(Full)?.split_at_mut(rr::FIXED_BYTES);
        head.copy_from_slice(&self.fixed);
        body.copy_from_slice(address);
        self.position = end;
        Ok(())
    }
}

impl Writer<'_> {
    /// Adds the records of a set that stand at offsets ([`Set::at`]), group by group, or none; of services with compressed
    /// targets if wanted. The owner may be one that no pointer reaches.
    #[inline]
    pub fn add_at<G: IntoIterator<Item = u32>>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        groups: impl Iterator<Item = G>,
        compressed: bool,
    ) -> Result<(), Full> {
        match rrset.rtype {
            rtype::A if owner.offset < POINTER_LIMIT => self.put_addresses_at::<4, G>(section, owner, rrset, groups),
            rtype::AAAA if owner.offset < POINTER_LIMIT => {
                self.put_addresses_at::<16, G>(section, owner, rrset, groups)
            }
            _ => {
                let rdatas = Rdatas { set: rrset, offsets: groups.flatten() };
                match compressed {
                    false => self.add_records(section, owner, rrset, rdatas, |_| ()),
                    true => self.add_services(section, owner, rrset, rdatas, |_| ()),
                }
            }
        }
    }

    /// Adds the addresses that stand at offsets, under an owner that a pointer reaches, or none.
    #[inline]
    fn put_addresses_at<const BYTES: usize, G: IntoIterator<Item = u32>>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        groups: impl Iterator<Item = G>,
    ) -> Result<(), Full> {
        let mut row = self.row::<BYTES>(owner, rrset);
        for group in groups {
            for offset in group {
                // There is one at each offset of the set.
                rrset.address_at(offset).map_or(Ok(()), |address: &[u8; BYTES]| row.put(address))?;
            }
        }
        let position = row.position;
        self.end_row::<BYTES>(section, position)
    }

    /// Adds all addresses of a set from one on, under an owner that a pointer reaches, or none.
    #[inline]
    pub(super) fn put_addresses<const BYTES: usize>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        turn: u32,
    ) -> Result<(), Full> {
        let mut row = self.row::<BYTES>(owner, rrset);
        for part in rrset.addresses_from::<BYTES>(turn) {
            for address in part {
                row.put(address)?;
            }
        }
        let position = row.position;
        self.end_row::<BYTES>(section, position)
    }

    /// Begins to write addresses.
    #[inline]
    fn row<const BYTES: usize>(&mut self, owner: Owner<'_>, rrset: Set<'_>) -> Row<'_> {
        let mut fixed = rrset.fixed(BYTES);
        fixed[..2].copy_from_slice(&(0xc000 | owner.offset as u16).to_be_bytes());
        Row { out: &mut self.out[..self.limit], position: self.position, fixed }
    }

    /// Takes the addresses into the message that end at a position.
    #[inline]
    fn end_row<const BYTES: usize>(&mut self, section: Section, position: usize) -> Result<(), Full> {
        let added = (position - self.position) / (rr::FIXED_BYTES + BYTES);
        let count = &mut self.counts[section as usize];
        *count = u16::try_from(usize::from(*count) + added).map_err(|_| Full)?;
        self.position = position;
        Ok(())
    }
}
