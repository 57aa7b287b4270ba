//! The strings of a TXT record: `key=value`, each behind its length.
//!
//! Cost: O(octets). RFC 6763 section 6.

/// The most octets that one string can have.
pub const MAX_STRING_BYTES: usize = 255;

/// RDATA of strings, none of which is longer than [`MAX_STRING_BYTES`]. RFC 6763 section 6.1: without any there is one
/// empty string.
pub fn write<'s>(strings: impl IntoIterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut rdata = Vec::new();
    for string in strings {
        debug_assert!(string.len() <= MAX_STRING_BYTES);
        rdata.push(string.len() as u8);
        rdata.extend_from_slice(string);
    }
    if rdata.is_empty() { vec![0] } else { rdata }
}

/// The strings of RDATA, as far as they are whole.
pub fn strings(mut rdata: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = rdata.split_first()?;
        let (string, rest) = rest.split_at_checked(usize::from(*length))?;
        rdata = rest;
        Some(string)
    })
}

/// Finds a key in RDATA: none if absent, `Some(None)` for the key alone, or its value.
///
/// RFC 6763 section 6.4: keys have no case, the first occurrence counts, and what has no key is ignored.
pub fn get<'r>(rdata: &'r [u8], key: &str) -> Option<Option<&'r [u8]>> {
    strings(rdata).find_map(|string| {
        let equals = string.iter().position(|octet| *octet == b'=');
        let (found, value) = match equals {
            Some(at) => (&string[..at], Some(&string[at + 1..])),
            None => (string, None),
        };
        (!found.is_empty() && found.eq_ignore_ascii_case(key.as_bytes())).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_the_rfc_says() {
        let rdata = write([&b"=ignored"[..], b"", b"PATH=/a=b", b"path=/later", b"bare", b"empty=", b" spaced=1"]);
        assert_eq!(get(&rdata, "path"), Some(Some(&b"/a=b"[..])), "split at the first equals sign, first occurrence");
        assert_eq!(get(&rdata, "bare"), Some(None), "a key without value");
        assert_eq!(get(&rdata, "empty"), Some(Some(&b""[..])), "a key with an empty value");
        assert_eq!(get(&rdata, "spaced"), None, "spaces belong to the key");
        assert_eq!((get(&rdata, ""), get(&rdata, "ignored"), get(&rdata, "none")), (None, None, None));
    }

    #[test]
    fn nothing_to_say_is_one_empty_string() {
        assert_eq!(write([]), [0]);
        assert_eq!(get(&[0], "path"), None);
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        assert_eq!(strings(&[1, b'a', 9, b'b']).collect::<Vec<_>>(), [b"a"]);
        assert_eq!(get(&[200], "path"), None);
    }
}
