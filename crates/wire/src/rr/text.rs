//! RDATA from the words of a zone file, by the same table that prints it.
//!
//! Types that are opaque are written as `\# LENGTH HEX`, which every type may be (RFC 3597 section 5).
//!
//! Cost: O(octets). RFC 1035 section 5.1.

use super::{Field, TypeName, check_plain, fits, layout, walk};
use crate::name::{self, NameBuf, NameError};

/// A word of a zone file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'t> {
    /// Word without quotation marks, with its escapes.
    pub raw: &'t str,
    pub quoted: bool,
    /// Offset of the word in the text, in octets.
    pub at: usize,
}

/// Error: words are no RDATA.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    #[error("\"{0}\" is no {1}")]
    Wrong(String, &'static str),
    #[error("\"{0}\" is no domain name ({1})")]
    Name(String, NameError),
    #[error("\"{0}\" has an escape that is not \\DDD or a backslash before one character")]
    Escape(String),
    #[error("string of {0} octets; one has room for 255")]
    Long(usize),
    #[error("{0} ends too early; it lacks {1}")]
    Missing(TypeName, &'static str),
    #[error("\"{1}\" is too much for {0}")]
    Surplus(TypeName, String),
    #[error("{0} is written as \\# LENGTH HEX (RFC 3597)")]
    Opaque(TypeName),
    #[error("the octets are no {0}")]
    Unsound(TypeName),
}

impl Field {
    /// Description of the word that stands for the field in a zone file.
    fn noun(self) -> &'static str {
        match self {
            Field::U8 => "number from 0 to 255",
            Field::U16 => "number from 0 to 65535",
            Field::U32 => "number from 0 to 4294967295",
            Field::Ip4 => "IPv4 address",
            Field::Ip6 => "IPv6 address",
            Field::Name => "domain name",
            Field::Text | Field::Texts => "string",
            Field::Rest => "octets",
        }
    }
}

/// Makes RDATA of words; `name` reads names, which may be relative. An error comes with the number of its word.
pub fn parse_rdata(
    rtype: u16,
    words: &[Word<'_>],
    name: impl Fn(&str) -> Result<NameBuf, NameError>,
) -> Result<Vec<u8>, (usize, WordError)> {
    if let Some((mark, generic)) = words.split_first().filter(|(word, _)| word.raw == "\\#" && !word.quoted) {
        let unsound = |error| (0, error);
        let rdata = parse_generic(mark, generic).map_err(unsound)?;
        return if check_plain(rtype, &rdata) { Ok(rdata) } else { Err((0, WordError::Unsound(TypeName(rtype)))) };
    }
    let mut rdata = Vec::new();
    let mut rest = words.iter().enumerate();
    for field in layout(rtype).fields {
        if *field == Field::Rest {
            return Err((0, WordError::Opaque(TypeName(rtype))));
        }
        let missing = || (words.len().saturating_sub(1), WordError::Missing(TypeName(rtype), field.noun()));
        let (at, word) = rest.next().ok_or_else(missing)?;
        push_word(*field, word, &name, &mut rdata).map_err(|error| (at, error))?;
        while *field == Field::Texts
            && let Some((at, word)) = rest.next()
        {
            push_word(*field, word, &name, &mut rdata).map_err(|error| (at, error))?;
        }
    }
    if let Some((at, word)) = rest.next() {
        return Err((at, WordError::Surplus(TypeName(rtype), word.raw.to_owned())));
    }
    debug_assert!(walk(rtype, &rdata, 0, rdata.len(), |_, _, _| ()).is_ok());
    fits(rtype, rdata.len()).map_err(|_| (0, WordError::Long(rdata.len())))?;
    Ok(rdata)
}

/// Appends the octets of one word.
fn push_word(
    field: Field,
    word: &Word<'_>,
    name: impl Fn(&str) -> Result<NameBuf, NameError>,
    rdata: &mut Vec<u8>,
) -> Result<(), WordError> {
    let wrong = || WordError::Wrong(word.raw.to_owned(), field.noun());
    // Neither sign nor anything else that Rust reads as part of a number.
    let number = |most: u32| {
        let digits = word.raw.bytes().all(|byte| byte.is_ascii_digit());
        word.raw.parse::<u32>().ok().filter(|number| digits && *number <= most).ok_or_else(wrong)
    };
    match field {
        Field::U8 => rdata.push(number(u8::MAX.into())? as u8),
        Field::U16 => rdata.extend((number(u16::MAX.into())? as u16).to_be_bytes()),
        Field::U32 => rdata.extend(number(u32::MAX)?.to_be_bytes()),
        Field::Ip4 => rdata.extend(word.raw.parse::<std::net::Ipv4Addr>().map_err(|_| wrong())?.octets()),
        Field::Ip6 => rdata.extend(word.raw.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?.octets()),
        Field::Name => {
            let found = name(word.raw).map_err(|error| WordError::Name(word.raw.to_owned(), error))?;
            rdata.extend_from_slice(found.as_wire());
        }
        Field::Text | Field::Texts => {
            let octets = unescape(word.raw)?;
            let length = u8::try_from(octets.len()).map_err(|_| WordError::Long(octets.len()))?;
            rdata.push(length);
            rdata.extend(octets);
        }
        Field::Rest => return Err(wrong()),
    }
    Ok(())
}

/// The octets of a string.
fn unescape(raw: &str) -> Result<Vec<u8>, WordError> {
    let mut bytes = raw.bytes();
    let mut octets = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        let octet = if byte == b'\\' { name::unescape(&mut bytes) } else { Ok(byte) };
        octets.push(octet.map_err(|_| WordError::Escape(raw.to_owned()))?);
    }
    Ok(octets)
}

/// Reads a length and so many octets in hexadecimal, in any number of words.
fn parse_generic(mark: &Word<'_>, words: &[Word<'_>]) -> Result<Vec<u8>, WordError> {
    let wrong = |word: &Word<'_>| WordError::Wrong(word.raw.to_owned(), "length and as many octets in hexadecimal");
    let Some((length, hex)) = words.split_first() else { return Err(wrong(mark)) };
    let hex: String = hex.iter().map(|word| word.raw).collect();
    let octets = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| wrong(length))?;
    let told: Option<u16> = length.raw.parse().ok();
    if told.is_some_and(|told| usize::from(told) == octets.len()) { Ok(octets) } else { Err(wrong(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rr::RdataText;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Word<'_>> {
        let word =
            |raw: &'_ str| Word { raw: raw.trim_matches('"').to_owned().leak(), quoted: raw.starts_with('"'), at: 0 };
        text.split_ascii_whitespace().map(word).collect()
    }

    fn parsed(rtype: u16, text: &str) -> Result<Vec<u8>, String> {
        let name = |raw: &str| NameBuf::parse(raw);
        parse_rdata(rtype, &words(text), name).map_err(|(at, error)| format!("{at}: {error}"))
    }

    #[test]
    fn what_is_printed_is_read() {
        for (rtype, text) in [
            (1, "192.0.2.1"),
            (28, "2001:db8::1"),
            (33, "0 10 8080 web1.example."),
            (12, "a\\.b.example."),
            (6, "ns. h. 1 2 3 4 5"),
            (16, "\"txtvers=1\" \"path=/\" \"\" \"a\\\"\\\\\\007\""),
            (35, "1 2 \"u\" \"sip\" \"\" Host."),
            (257, "\\# 2 00ab"),
            (65280, "\\# 0"),
        ] {
            let rdata = parsed(rtype, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(RdataText(rtype, &rdata).to_string(), text);
        }
    }

    #[test]
    fn each_fault_has_its_word() {
        let long = "x".repeat(256);
        for (rtype, text, expected) in [
            (1, "192.0.2", "0: \"192.0.2\" is no IPv4 address"),
            (1, "", "0: A ends too early; it lacks IPv4 address"),
            (1, "192.0.2.1 x", "1: \"x\" is too much for A"),
            (33, "0 0 65536 a.", "2: \"65536\" is no number from 0 to 65535"),
            (33, "0 +1 1 a.", "1: \"+1\" is no number from 0 to 65535"),
            (33, "0 0 1", "2: SRV ends too early; it lacks domain name"),
            (12, "a..b", "0: \"a..b\" is no domain name (empty label)"),
            (16, "a\\25", "0: \"a\\25\" has an escape that is not \\DDD or a backslash before one character"),
            (16, &long, "0: string of 256 octets; one has room for 255"),
            (257, "0 issue x", "0: CAA is written as \\# LENGTH HEX (RFC 3597)"),
            (1, "\\# 3 010203", "0: the octets are no A"),
            (1, "\\# 5 01020304", "0: \"5\" is no length and as many octets in hexadecimal"),
        ] {
            assert_eq!(parsed(rtype, text), Err(expected.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_string_comes_back(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..4)) {
            let rdata: Vec<u8> = strings.iter().flat_map(|string| [&[string.len() as u8][..], string].concat()).collect();
            let printed = RdataText(16, &rdata).to_string();
            // Between words stands `" "`, which an escaped quotation mark never makes.
            let raw: Vec<&str> = printed[1..printed.len() - 1].split("\" \"").collect();
            let words: Vec<Word<'_>> = raw.iter().map(|raw| Word { raw, quoted: true, at: 0 }).collect();
            prop_assert_eq!(parse_rdata(16, &words, NameBuf::parse), Ok(rdata));
        }
    }
}
