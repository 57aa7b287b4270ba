//! Records of the tests: uncompressed wire RDATA, comparable in canonical form.

use super::Dname;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Numbers of record types.
pub mod rtype {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const NAPTR: u16 = 35;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const SSHFP: u16 = 44;
    pub const RRSIG: u16 = 46;
    pub const NSEC: u16 = 47;
    pub const TLSA: u16 = 52;
    pub const SVCB: u16 = 64;
    pub const HTTPS: u16 = 65;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const ANY: u16 = 255;
    pub const CAA: u16 = 257;
    /// A private type without any layout (RFC 6895 section 3.1).
    pub const PRIVATE: u16 = 65280;

    /// Mnemonics of the types that have one here.
    pub const NAMES: &[(u16, &str)] = &[
        (A, "A"),
        (NS, "NS"),
        (CNAME, "CNAME"),
        (SOA, "SOA"),
        (PTR, "PTR"),
        (HINFO, "HINFO"),
        (MX, "MX"),
        (TXT, "TXT"),
        (AAAA, "AAAA"),
        (SRV, "SRV"),
        (NAPTR, "NAPTR"),
        (DNAME, "DNAME"),
        (DS, "DS"),
        (SSHFP, "SSHFP"),
        (RRSIG, "RRSIG"),
        (NSEC, "NSEC"),
        (TLSA, "TLSA"),
        (SVCB, "SVCB"),
        (HTTPS, "HTTPS"),
        (ANY, "ANY"),
        (CAA, "CAA"),
    ];
}

/// One part of an RDATA.
#[derive(Clone, Copy)]
pub enum Part {
    /// Octets, so many.
    Octets(usize),
    /// A string with its length in front.
    Text,
    /// A domain name.
    Name,
}

/// Returns the places of names in the RDATA of a type; what follows the last part is opaque.
pub fn layout(rtype: u16) -> &'static [Part] {
    match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => &[Part::Name],
        rtype::SOA => &[Part::Name, Part::Name],
        rtype::MX => &[Part::Octets(2), Part::Name],
        rtype::SRV => &[Part::Octets(6), Part::Name],
        rtype::NAPTR => &[Part::Octets(4), Part::Text, Part::Text, Part::Text, Part::Name],
        _ => &[],
    }
}

/// A record of class IN.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    pub owner: Dname,
    pub rtype: u16,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

impl Record {
    /// Makes a record from its parts.
    pub fn new(owner: &Dname, rtype: u16, ttl: u32, rdata: impl Into<Vec<u8>>) -> Record {
        Record { owner: owner.clone(), rtype, ttl, rdata: rdata.into() }
    }

    /// The record with owner and names in RDATA in lowercase (RFC 4034 section 6.2), by which records are compared.
    pub fn canonical(&self) -> Record {
        let mut rdata = self.rdata.clone();
        for (start, end) in self.name_spans() {
            rdata[start..end].make_ascii_lowercase();
        }
        Record { owner: self.owner.lower(), rtype: self.rtype, ttl: self.ttl, rdata }
    }

    /// Returns the first name in the RDATA: the target of the record.
    pub fn target(&self) -> Option<Dname> {
        let spans = self.name_spans();
        spans.first().map(|(start, end)| Dname(self.rdata[*start..*end].to_vec()))
    }

    /// Returns the record with the first name in its RDATA replaced.
    pub fn with_target(&self, target: &Dname) -> Record {
        let (start, end) = self.name_spans()[0];
        let rdata = [&self.rdata[..start], &target.0, &self.rdata[end..]].concat();
        Record { rdata, ..self.clone() }
    }

    /// Serial of an SOA.
    pub fn serial(&self) -> u32 {
        assert_eq!(self.rtype, rtype::SOA);
        let numbers = self.rdata.len() - 20;
        u32::from_be_bytes(self.rdata[numbers..numbers + 4].try_into().expect("four octets"))
    }

    /// Returns the SOA with another serial.
    pub fn with_serial(&self, serial: u32) -> Record {
        let mut record = self.clone();
        let numbers = record.rdata.len() - 20;
        record.rdata[numbers..numbers + 4].copy_from_slice(&serial.to_be_bytes());
        record
    }

    /// Last number of an SOA, the upper bound of negative TTLs (RFC 2308 section 4).
    pub fn minimum(&self) -> u32 {
        u32::from_be_bytes(self.rdata[self.rdata.len() - 4..].try_into().expect("four octets"))
    }

    /// First and last octet positions of the names in the RDATA.
    fn name_spans(&self) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        let mut position = 0;
        for part in layout(self.rtype) {
            match part {
                Part::Octets(count) => position += count,
                Part::Text => position += 1 + usize::from(self.rdata[position]),
                Part::Name => {
                    let start = position;
                    while self.rdata[position] != 0 {
                        position += 1 + usize::from(self.rdata[position]);
                    }
                    position += 1;
                    spans.push((start, position));
                }
            }
        }
        spans
    }

    /// The RDATA in presentation format, of RFC 3597 for all types that need no more.
    pub fn rdata_text(&self) -> String {
        let names = self.name_spans();
        let name = |index: usize| Dname(self.rdata[names[index].0..names[index].1].to_vec()).to_string();
        let number = |at: usize| u16::from_be_bytes([self.rdata[at], self.rdata[at + 1]]);
        match self.rtype {
            rtype::A => Ipv4Addr::from(<[u8; 4]>::try_from(&self.rdata[..]).expect("4 octets")).to_string(),
            rtype::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(&self.rdata[..]).expect("16 octets")).to_string(),
            rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => name(0),
            rtype::MX => format!("{} {}", number(0), name(0)),
            rtype::SRV => format!("{} {} {} {}", number(0), number(2), number(4), name(0)),
            rtype::SOA => {
                let numbers = self.rdata[names[1].1..].chunks_exact(4);
                let numbers: Vec<String> =
                    numbers.map(|n| u32::from_be_bytes(n.try_into().expect("four octets")).to_string()).collect();
                format!("{} {} {}", name(0), name(1), numbers.join(" "))
            }
            rtype::TXT => text_strings(&self.rdata),
            _ => {
                let hex: String = self.rdata.iter().map(|octet| format!("{octet:02x}")).collect();
                format!("\\# {} {hex}", self.rdata.len()).trim_end().to_string()
            }
        }
    }
}

/// Prints character strings in quotes.
fn text_strings(rdata: &[u8]) -> String {
    let mut strings = Vec::new();
    let mut position = 0;
    while position < rdata.len() {
        let end = position + 1 + usize::from(rdata[position]);
        let mut string = String::from("\"");
        for octet in &rdata[position + 1..end] {
            match octet {
                b'"' | b'\\' => string.push_str(&format!("\\{}", *octet as char)),
                0x20..=0x7e => string.push(*octet as char),
                other => string.push_str(&format!("\\{other:03}")),
            }
        }
        string.push('"');
        strings.push(string);
        position = end;
    }
    strings.join(" ")
}

/// Mnemonic of a type, `TYPE12345` without one (RFC 3597 section 5).
pub fn type_text(rtype: u16) -> String {
    match rtype::NAMES.iter().find(|(number, _)| *number == rtype) {
        Some((_, name)) => name.to_string(),
        None => format!("TYPE{rtype}"),
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} IN {} {}", self.owner, self.ttl, type_text(self.rtype), self.rdata_text())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Compares two lists as multisets of canonical records; `None` when they are equal, else what each has alone.
pub fn difference(left: &[Record], right: &[Record]) -> Option<String> {
    let mut counts: BTreeMap<Record, i64> = BTreeMap::new();
    left.iter().for_each(|record| *counts.entry(record.canonical()).or_default() += 1);
    right.iter().for_each(|record| *counts.entry(record.canonical()).or_default() -= 1);
    counts.retain(|_, count| *count != 0);
    if counts.is_empty() {
        return None;
    }
    let total = counts.len();
    let lines: Vec<String> = counts
        .iter()
        .take(40)
        .map(|(record, count)| format!("  only {} ({count:+}): {record}", if *count > 0 { "left" } else { "right" }))
        .collect();
    Some(format!("{total} differences\n{}", lines.join("\n")))
}
