//! The records of a message, one after the other, through all sections.
//!
//! Invariant: a record that comes out lies within the message. Names are skipped, not read: whoever wants one reads it
//! where the record says that it stands.
//!
//! Cost: O(octets of the owner name) for each record.

use super::{Header, Section};
use crate::{name, rr};

/// A record, and where its parts stand in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub section: Section,
    /// Position of the owner name.
    pub owner: usize,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    /// Position of the RDATA.
    pub rdata: usize,
    /// Octets of the RDATA.
    pub length: usize,
}

impl Record {
    /// The position behind it.
    pub fn end(&self) -> usize {
        self.rdata + self.length
    }
}

/// Error: a message ends within a record that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff;

/// Reads the records of a message.
pub struct Records<'m> {
    message: &'m [u8],
    position: usize,
    /// Records still to come, by section.
    left: [u16; 3],
}

impl<'m> Records<'m> {
    /// Begins behind a header and its questions. `None` when one of these is cut off.
    pub fn new(message: &'m [u8]) -> Option<Records<'m>> {
        let header = Header::read(message)?;
        let skip_question = |position, _| name::skip(message, position).map(|end| end + 4);
        let position = (0..header.questions).try_fold(super::HEADER_BYTES, skip_question)?;
        Some(Records::at(message, position, header.records))
    }

    /// Begins at the first of as many records in each section.
    #[inline]
    pub(super) fn at(message: &'m [u8], position: usize, left: [u16; 3]) -> Records<'m> {
        Records { message, position, left }
    }

    /// The position behind the last record that came out.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns true if no record is to come.
    pub fn is_done(&self) -> bool {
        self.left == [0; 3]
    }

    /// Reads the next record of a section.
    #[inline]
    fn read(&self, section: Section) -> Option<Record> {
        let owner = self.position;
        let fixed = name::skip(self.message, owner)?;
        let (rtype, class, ttl, rdata, length) = rr::read_fixed(self.message, fixed)?;
        Some(Record { section, owner, rtype, class, ttl, rdata, length })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, CutOff>;

    /// The next record; nothing follows an error.
    #[inline]
    fn next(&mut self) -> Option<Result<Record, CutOff>> {
        let section = Section::ALL.into_iter().find(|section| self.left[*section as usize] > 0)?;
        let Some(record) = self.read(section) else {
            self.left = [0; 3];
            return Some(Err(CutOff));
        };
        self.left[section as usize] -= 1;
        self.position = record.end();
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_the_order_of_sections() {
        let record = b"\xc0\x0c\0\x10\0\x01\0\0\0\x1e\0\x02\x01x";
        let head = b"\0\x07\x80\0\0\x01\0\x01\0\0\0\x02\x01z\0\0\x10\0\x01";
        let message = [&head[..], record, record, record].concat();
        let mut records = Records::new(&message).unwrap();
        let read: Vec<Record> = records.by_ref().map(Result::unwrap).collect();
        let expected = |section, owner| {
            let (rdata, length) = (owner + 12, 2);
            Record { section, owner, rtype: 16, class: 1, ttl: 30, rdata, length }
        };
        let [first, second, third] = [0, 1, 2].map(|index| head.len() + index * record.len());
        assert_eq!(
            read,
            [
                expected(Section::Answer, first),
                expected(Section::Additional, second),
                expected(Section::Additional, third)
            ]
        );
        assert!(records.is_done() && records.position() == message.len());

        let mut records = Records::new(&message[..message.len() - 1]).unwrap();
        assert_eq!(records.by_ref().map(|record| record.is_ok()).collect::<Vec<_>>(), [true, true, false]);
        assert!(Records::new(&message[..14]).is_none() && Records::new(&message[..11]).is_none());
    }
}
