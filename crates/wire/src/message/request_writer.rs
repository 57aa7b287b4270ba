//! Writing a request: one question, and the few records that may go with it.
//!
//! Invariants: RD is clear, for whoever is asked has the answer itself; a section count says exactly what follows.
//! Cost: O(octets). RFC 1035 section 4, RFC 1995 section 3, RFC 1996 section 3, RFC 6891 section 6.

use super::{Header, Section};
use crate::name::Name;
use crate::rr::{CLASS_IN, Set, rtype};

/// A request in the making.
pub struct RequestWriter {
    header: Header,
    /// What stands behind the header.
    body: Vec<u8>,
}

impl RequestWriter {
    /// Begins with the question for a type at a name, of class IN. `flags` beside the opcode are set.
    pub fn new(id: u16, opcode: u8, flags: u16, name: &Name, rtype: u16) -> RequestWriter {
        let header = Header { id, bits: flags | u16::from(opcode) << 11, questions: 1, records: [0; 3] };
        let mut body = name.as_wire().to_vec();
        body.extend([rtype, CLASS_IN].map(u16::to_be_bytes).concat());
        RequestWriter { header, body }
    }

    /// Octets written so far.
    pub fn length(&self) -> usize {
        super::HEADER_BYTES + self.body.len()
    }

    /// Adds records that the name of the question owns. Sections are filled in their order.
    pub fn add_set(mut self, section: Section, set: Set<'_>) -> RequestWriter {
        set.write_wire(&mut self.body);
        self.header.records[section as usize] += set.count as u16;
        self
    }

    /// Adds the OPT record that says how large an answer may be: no flags, no options (RFC 6891 section 6.1.2).
    pub fn add_opt(mut self, payload: u16) -> RequestWriter {
        // The owner is the root.
        self.body.push(0);
        self.body.extend([rtype::OPT, payload, 0, 0, 0].map(u16::to_be_bytes).concat());
        self.header.records[Section::Additional as usize] += 1;
        self
    }

    /// The message.
    pub fn finish(self) -> Vec<u8> {
        [&self.header.to_bytes(), self.body.as_slice()].concat()
    }
}
