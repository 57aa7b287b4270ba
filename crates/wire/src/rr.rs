//! Resource records: the layouts of RDATA, and RRsets.
//!
//! One table says, type by type, where names and strings sit in RDATA. Everything that must look inside uses it:
//! decompressing what a primary sends, moving names to a region, comparing, printing. A type that is not in the table
//! is opaque and copied byte by byte (RFC 3597).
//!
//! All records of one name and type are a [`Set`]; `sorted` compares and changes large ones. `text` reads what the table
//! prints.
//!
//! Cost: O(bytes).

mod set;
mod sorted;
mod text;

pub use set::{RRset, Set, fits_message, put_number, put_sized, read_number, read_sized, take_number, take_sized};
pub use sorted::{Numbered, common_numbers, differences};
pub use text::{Word, WordError, parse_rdata};

use crate::name::{NameBuf, NameError};
use std::cmp::Ordering;
use std::fmt;

/// Codes of the types that the program treats specially (IANA registry of RR types).
pub mod rtype {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const NXT: u16 = 30;
    pub const SRV: u16 = 33;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const RRSIG: u16 = 46;
    pub const NSEC: u16 = 47;
    pub const DNSKEY: u16 = 48;
    pub const NSEC3: u16 = 50;
    pub const NSEC3PARAM: u16 = 51;
    pub const CDS: u16 = 59;
    pub const CDNSKEY: u16 = 60;
    pub const ZONEMD: u16 = 63;
    pub const SVCB: u16 = 64;
    pub const HTTPS: u16 = 65;
    pub const TSIG: u16 = 250;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const MAILB: u16 = 253;
    pub const MAILA: u16 = 254;
    pub const ANY: u16 = 255;
    /// Type from the range for private use (RFC 6895 section 3.1): the name exists without records, if the RDATA is
    /// empty or [`super::MEMBERLESS`]; or nobody can know which records it should have, for the reason in the RDATA.
    pub const PLACEHOLDER: u16 = 65_440;
}

/// The placeholder's RDATA at the name of a service's SRV records that has none; unlike an empty one it stands for no
/// host.
pub const MEMBERLESS: &[u8] = b"\0";

/// Class IN.
pub const CLASS_IN: u16 = 1;
/// Class CH, used for questions about the server itself.
pub const CLASS_CH: u16 = 3;
/// Bytes of a record before its RDATA when the owner is a pointer: owner, type, class, TTL, length.
pub const FIXED_BYTES: usize = 12;
/// The owner name as a pointer to the question behind the header (RFC 1035 section 4.1.4).
pub const OWNER_AT_QUESTION: [u8; 2] = [0xc0, 0x0c];

/// Error: RDATA cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdataError {
    #[error("RDATA of type {0} is too short")]
    Short(u16),
    #[error("RDATA of type {0} has bytes behind its last field")]
    Long(u16),
    #[error("RDATA of type {0} would be longer than 65535 octets without compression")]
    Expanded(u16),
    #[error("name in RDATA of type {0}: {1}")]
    Name(u16, NameError),
}

//--- Layouts ---

/// One field of RDATA.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    U8,
    U16,
    U32,
    Ip4,
    Ip6,
    Name,
    /// One character string.
    Text,
    /// Character strings up to the end.
    Texts,
    /// Anything up to the end; printed in the form of RFC 3597 section 5.
    Rest,
}

/// The fields of a type and what RFC 4034 section 6.2 says about the names in it.
struct Layout {
    fields: &'static [Field],
    /// Names compare without regard to case.
    folded: bool,
}

/// The layout of a type; `Rest` alone for types that are opaque.
fn layout(rtype: u16) -> Layout {
    use Field::*;
    let (fields, folded): (&'static [Field], bool) = match rtype {
        rtype::A => (&[Ip4], false),
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | rtype::PTR | rtype::DNAME => (&[Name], true),
        rtype::SOA => (&[Name, Name, U32, U32, U32, U32, U32], true),
        // HINFO
        13 => (&[Text, Text], false),
        // MINFO, RP
        14 | 17 => (&[Name, Name], true),
        // MX, AFSDB, RT, KX
        rtype::MX | 18 | 21 | 36 => (&[U16, Name], true),
        // TXT, SPF
        rtype::TXT | 99 => (&[Texts], false),
        // SIG, RRSIG: the signer's name behind 18 octets
        24 | rtype::RRSIG => (&[U16, U8, U8, U32, U32, U32, U16, Name, Rest], true),
        // PX
        26 => (&[U16, Name, Name], true),
        rtype::AAAA => (&[Ip6], false),
        rtype::NXT => (&[Name, Rest], true),
        rtype::SRV => (&[U16, U16, U16, Name], true),
        // NAPTR
        35 => (&[U16, U16, Text, Text, Text, Name], true),
        // NSEC: its names keep their case (RFC 6840 section 5.1)
        rtype::NSEC => (&[Name, Rest], false),
        // SVCB, HTTPS (RFC 9460): not in the list of RFC 4034
        64 | 65 => (&[U16, Name, Rest], false),
        // LP (RFC 6742)
        107 => (&[U16, Name], false),
        _ => (&[Rest], false),
    };
    Layout { fields, folded }
}

/// Splits RDATA into its fields. A string comes with its length octet; a name comes uncompressed beside its bytes.
fn walk<'a>(
    rtype: u16,
    message: &'a [u8],
    start: usize,
    length: usize,
    mut visit: impl FnMut(Field, &'a [u8], Option<NameBuf>),
) -> Result<(), RdataError> {
    let end = start + length;
    let mut position = start;
    for &field in layout(rtype).fields {
        let mut repeat = true;
        while repeat {
            let count = match field {
                Field::U8 => 1,
                Field::U16 => 2,
                Field::U32 | Field::Ip4 => 4,
                Field::Ip6 => 16,
                Field::Rest => end - position,
                Field::Texts if position == end => break,
                Field::Text | Field::Texts if position < end => 1 + usize::from(message[position]),
                Field::Text | Field::Texts => return Err(RdataError::Short(rtype)),
                Field::Name => {
                    // The end of the RDATA bounds the name, too: what lies behind is another record.
                    let (name, after) =
                        NameBuf::read(&message[..end], position).map_err(|error| RdataError::Name(rtype, error))?;
                    visit(field, &message[position..after], Some(name));
                    position = after;
                    break;
                }
            };
            if position + count > end {
                return Err(RdataError::Short(rtype));
            }
            visit(field, &message[position..position + count], None);
            position += count;
            repeat = field == Field::Texts;
        }
    }
    if position < end { Err(RdataError::Long(rtype)) } else { Ok(()) }
}

/// Returns true if RDATA of the type holds names.
fn has_names(rtype: u16) -> bool {
    layout(rtype).fields.contains(&Field::Name)
}

/// Checks RDATA within a message and appends it to `out` with its names uncompressed.
///
/// Names are decompressed in every type whose layout is known: those of RFC 1035 may be compressed, CNS compresses SRV
/// targets, and RFC 3597 section 4 asks receivers to accept more.
pub fn decompress(
    rtype: u16,
    message: &[u8],
    start: usize,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    if start + length > message.len() {
        return Err(RdataError::Short(rtype));
    }
    let before = out.len();
    walk(rtype, message, start, length, |_, bytes, name| match name {
        Some(name) => out.extend_from_slice(name.as_wire()),
        None => out.extend_from_slice(bytes),
    })?;
    fits(rtype, out.len() - before)
}

/// Returns true if stored RDATA of a type is sound: its fields fill it, and its names are uncompressed.
pub fn check_plain(rtype: u16, rdata: &[u8]) -> bool {
    let mut plain = true;
    let whole = walk(rtype, rdata, 0, rdata.len(), |_, bytes, name| {
        plain &= name.is_none_or(|name| name.as_wire().len() == bytes.len());
    });
    whole.is_ok() && plain
}

/// A TTL as it counts: one with the top bit set is zero (RFC 2181 section 8).
pub fn clamp_ttl(ttl: u32) -> u32 {
    if ttl > i32::MAX as u32 { 0 } else { ttl }
}

/// The TTL that a record is sent with, of a set with this TTL: a signature has that of the set which it covers, and tells
/// it (RFC 4034 sections 3 and 3.1.4), so that signatures of one name need not have the same.
#[inline]
pub fn record_ttl(rtype: u16, ttl: u32, rdata: &[u8]) -> u32 {
    if rtype != rtype::RRSIG {
        return ttl;
    }
    Signature::read(rdata).map_or(ttl, |signature| clamp_ttl(signature.original_ttl))
}

/// The fields of a signature that the program looks at (RFC 4034 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Type of the set that it covers.
    pub covered: u16,
    pub original_ttl: u32,
    /// Seconds since 1970, as far as 32 bits hold them.
    pub expiration: u32,
}

impl Signature {
    /// Reads the fields out of the RDATA of an RRSIG record.
    #[inline]
    pub fn read(rdata: &[u8]) -> Option<Signature> {
        let (covered, rest) = rdata.split_first_chunk::<2>()?;
        let (_, rest) = rest.split_first_chunk::<2>()?;
        let (ttl, rest) = rest.split_first_chunk::<4>()?;
        Some(Signature {
            covered: u16::from_be_bytes(*covered),
            original_ttl: u32::from_be_bytes(*ttl),
            expiration: u32::from_be_bytes(*rest.first_chunk()?),
        })
    }
}

/// RDATA says its own length in 16 bits (RFC 1035 section 3.2.1).
fn fits(rtype: u16, length: usize) -> Result<(), RdataError> {
    if length > usize::from(u16::MAX) { Err(RdataError::Expanded(rtype)) } else { Ok(()) }
}

/// Compares stored RDATA in canonical form (RFC 4034 section 6.3), where that section folds case.
pub fn compare(rtype: u16, a: &[u8], b: &[u8]) -> Ordering {
    // Without capitals there is nothing to fold.
    let may_differ = |rdata: &[u8]| rdata.iter().any(u8::is_ascii_uppercase);
    if layout(rtype).folded && (may_differ(a) || may_differ(b)) {
        fold(rtype, a).cmp(&fold(rtype, b))
    } else {
        a.cmp(b)
    }
}

/// Stored RDATA with its names in lowercase, where RFC 4034 section 6.2 folds them.
pub fn fold(rtype: u16, rdata: &[u8]) -> Vec<u8> {
    if !layout(rtype).folded {
        return rdata.to_vec();
    }
    map_names(rtype, rdata, |name| Ok(name.to_lowercase())).unwrap_or_else(|_| rdata.to_vec())
}

/// Rebuilds stored RDATA with each name replaced.
pub fn map_names(
    rtype: u16,
    rdata: &[u8],
    mut replace: impl FnMut(&NameBuf) -> Result<NameBuf, NameError>,
) -> Result<Vec<u8>, RdataError> {
    let mut out = Vec::with_capacity(rdata.len());
    if !has_names(rtype) {
        out.extend_from_slice(rdata);
        return Ok(out);
    }
    let mut failure = None;
    walk(rtype, rdata, 0, rdata.len(), |_, bytes, name| match name.map(|name| replace(&name)) {
        Some(Ok(name)) => out.extend_from_slice(name.as_wire()),
        Some(Err(error)) => failure = Some(error),
        None => out.extend_from_slice(bytes),
    })?;
    fits(rtype, out.len())?;
    failure.map_or(Ok(out), |error| Err(RdataError::Name(rtype, error)))
}

/// Offset of the host name in RDATA of SRV: behind priority, weight and port.
pub const SRV_TARGET: usize = 6;

/// Offset of the name in RDATA of types whose answers carry more of it: addresses of hosts (RFC 1035, RFC 2782, RFC 9460
/// section 4.1), or the description of a service's instance (RFC 6763 section 12.1).
pub fn target_offset(rtype: u16) -> Option<usize> {
    match rtype {
        rtype::NS | rtype::PTR => Some(0),
        rtype::MX | rtype::SVCB | rtype::HTTPS => Some(2),
        rtype::SRV => Some(SRV_TARGET),
        _ => None,
    }
}

/// Returns true if a type may stand in a zone; the rest are questions or message parts (RFC 6895 section 3.1).
pub fn is_data_type(rtype: u16) -> bool {
    !matches!(rtype, 0 | rtype::OPT | 128..=255)
}

/// Returns true if a type belongs to DNSSEC and cannot survive renaming or merging.
pub fn is_dnssec(rtype: u16) -> bool {
    use rtype::*;
    // KEY-like and SIG-like ancestors of RFC 2535 sign names, too.
    matches!(rtype, 24 | NXT | RRSIG | NSEC | DNSKEY | NSEC3 | NSEC3PARAM | CDS | CDNSKEY | ZONEMD)
}

//--- Text ---

/// Names of the types with a text form; others are written as TYPEn (RFC 3597 section 5).
const MNEMONICS: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (21, "RT"),
    (26, "PX"),
    (28, "AAAA"),
    (29, "LOC"),
    (33, "SRV"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (39, "DNAME"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (99, "SPF"),
    (107, "LP"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

/// Text that names no type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record type: {0}; write A, SRV or TYPE65280")]
pub struct UnknownType(String);

/// A type code that prints as its mnemonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName(pub u16);

impl std::str::FromStr for TypeName {
    type Err = UnknownType;

    /// Reads a mnemonic in any case, or TYPEn.
    fn from_str(text: &str) -> Result<TypeName, UnknownType> {
        let known = MNEMONICS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(code, _)| *code);
        let number = || {
            let (word, digits) = text.split_at_checked(4)?;
            let plain = word.eq_ignore_ascii_case("TYPE") && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        known.or_else(number).map(TypeName).ok_or_else(|| UnknownType(text.to_owned()))
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match MNEMONICS.iter().find(|(code, _)| *code == self.0) {
            Some((_, text)) => f.write_str(text),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

/// Stored RDATA in zone-file form: by its fields, or as `\# length hex` (RFC 3597 section 5).
pub struct RdataText<'a>(pub u16, pub &'a [u8]);

impl fmt::Display for RdataText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RdataText(rtype, rdata) = *self;
        let mut text = String::new();
        let mut generic = rdata.is_empty() || layout(rtype).fields.contains(&Field::Rest);
        generic |= walk(rtype, rdata, 0, rdata.len(), |field, bytes, name| {
            if !text.is_empty() {
                text.push(' ');
            }
            push_field(&mut text, field, bytes, name);
        })
        .is_err();
        if !generic {
            return f.write_str(&text);
        }
        write!(f, "\\# {}", rdata.len())?;
        if !rdata.is_empty() {
            f.write_str(" ")?;
        }
        rdata.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Appends one field in zone-file form.
fn push_field(text: &mut String, field: Field, bytes: &[u8], name: Option<NameBuf>) {
    let number = || bytes.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
    match field {
        Field::Name => {
            if let Some(name) = name {
                text.push_str(&name.to_string());
            }
        }
        Field::U8 | Field::U16 | Field::U32 => text.push_str(&number().to_string()),
        Field::Ip4 => text.push_str(&std::net::Ipv4Addr::from(number()).to_string()),
        Field::Ip6 => {
            let octets: [u8; 16] = bytes.try_into().expect("walk gives 16 octets");
            text.push_str(&std::net::Ipv6Addr::from(octets).to_string());
        }
        Field::Text | Field::Texts => {
            text.push('"');
            for &byte in &bytes[1..] {
                match byte {
                    b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
                    0x20..=0x7e => text.push(char::from(byte)),
                    other => text.push_str(&format!("\\{other:03}")),
                }
            }
            text.push('"');
        }
        Field::Rest => {}
    }
}

//--- Records in messages ---

/// Appends a record of class IN behind its owner name.
pub fn put_record(rtype: u16, ttl: u32, rdata: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&rtype.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
}

/// Reads the fixed part of a record behind its owner name: type, class, TTL, start and length of its RDATA.
pub fn read_fixed(message: &[u8], position: usize) -> Option<(u16, u16, u32, usize, usize)> {
    let bytes = message.get(position..position + 10)?;
    let length = usize::from(u16::from_be_bytes([bytes[8], bytes[9]]));
    let start = position + 10;
    (start + length <= message.len()).then(|| {
        let ttl = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let code = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        (code(0), code(2), ttl, start, length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(rtype: u16, message: &[u8], start: usize, length: usize) -> Result<Vec<u8>, RdataError> {
        let mut out = Vec::new();
        decompress(rtype, message, start, length, &mut out).map(|()| out)
    }

    #[test]
    fn names_in_rdata_are_decompressed() {
        let message = b"\x03cns\x03com\x00\x00\x00\x00\x0a\x1f\x90\x04web1\xc0\x00";
        let srv = decoded(rtype::SRV, message, 9, 13).unwrap();
        assert_eq!(RdataText(rtype::SRV, &srv).to_string(), "0 10 8080 web1.cns.com.");
    }

    #[test]
    fn wrong_lengths_are_refused() {
        assert_eq!(decoded(rtype::A, &[1, 2, 3], 0, 3), Err(RdataError::Short(1)));
        assert_eq!(decoded(rtype::A, &[1, 2, 3, 4, 5], 0, 5), Err(RdataError::Long(1)));
        assert_eq!(decoded(rtype::TXT, &[4, b'a'], 0, 2), Err(RdataError::Short(16)));
        assert_eq!(decoded(rtype::A, &[], 0, 4), Err(RdataError::Short(1)));
        let outside = [1, b'a', 0, 0, 5, 1, b'b', 0];
        assert!(matches!(decoded(rtype::MX, &outside, 3, 3), Err(RdataError::Name(15, NameError::Truncated))));
        assert_eq!(decoded(65280, &[], 0, 0), Ok(vec![]));
    }

    #[test]
    fn rdata_that_decompression_makes_too_long_is_refused() {
        let name = [[63].as_slice(), &[b'n'; 63]].concat().repeat(3);
        let mut message = [name.as_slice(), &[0]].concat();
        let start = message.len();
        message.extend_from_slice(&[0, 1, 0xc0, 0]);
        message.resize(start + 65_535, 7);
        assert_eq!(decoded(64, &message, start, 65_535), Err(RdataError::Expanded(64)));
        assert!(decoded(64, &message, start, 60_000).is_ok());
    }

    #[test]
    fn naptr_keeps_its_strings() {
        let rdata = b"\x00\x01\x00\x02\x01u\x03sip\x00\x04Host\x00";
        assert_eq!(decoded(35, rdata, 0, rdata.len()).unwrap(), rdata);
        assert_eq!(RdataText(35, rdata).to_string(), "1 2 \"u\" \"sip\" \"\" Host.");
    }

    #[test]
    fn opaque_and_empty_rdata_print_in_generic_form() {
        assert_eq!(RdataText(65280, &[]).to_string(), "\\# 0");
        assert_eq!(RdataText(257, &[0, 0xab]).to_string(), "\\# 2 00ab");
        assert_eq!(TypeName(65280).to_string(), "TYPE65280");
        assert_eq!(RdataText(16, b"\x03a\"\x07").to_string(), "\"a\\\"\\007\"");
    }

    #[test]
    fn types_are_read_as_they_are_printed() {
        for rtype in [1, 33, 255, 257, 65280] {
            assert_eq!(TypeName(rtype).to_string().parse(), Ok(TypeName(rtype)));
        }
        assert_eq!("srv".parse(), Ok(TypeName(rtype::SRV)));
        assert_eq!("type1".parse(), Ok(TypeName(1)));
        for wrong in ["", "TYPE", "TYPE65536", "TYPE-1", "TYPE+1", "B", "äöü"] {
            assert_eq!(wrong.parse::<TypeName>(), Err(UnknownType(wrong.into())), "{wrong}");
        }
    }
}
