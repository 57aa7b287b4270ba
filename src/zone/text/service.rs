//! SVCB and HTTPS records as people write them: a priority, a target, and parameters in any order.
//!
//! Invariant: parameters stand in the order of their keys, as receivers demand it (RFC 9460 section 2.2).
//!
//! Cost: O(text).

use hickory_proto::rr::{RData, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use wire::name::{NameBuf, NameError};
use wire::rr::Word;

/// Type codes of the records that are read here.
pub const TYPES: [u16; 2] = [64, 65];
/// Octets of the priority and of the root.
const FIXED_BYTES: usize = 3;

/// Makes RDATA of words; `name` reads the target. An error comes with the number of its word.
pub fn parse(
    words: &[Word<'_>],
    name: impl Fn(&str) -> Result<NameBuf, NameError>,
) -> Result<Vec<u8>, (usize, String)> {
    let [priority, target, parameters @ ..] = words else {
        return Err((0, "priority and target are missing; write for example 1 ns1.example.com. alpn=dot".to_owned()));
    };
    let number =
        priority.raw.parse::<u16>().map_err(|_| (0, format!("\"{}\" is no priority; write 1", priority.raw)))?;
    let target = name(target.raw).map_err(|error| (1, format!("\"{}\" is no domain name ({error})", target.raw)))?;
    let mut text = format!("{number} .");
    for (at, word) in parameters.iter().enumerate() {
        // A value in quotation marks is a word of its own, behind its key.
        let follows = at > 0 && word.quoted && parameters[at - 1].raw.ends_with('=');
        if word.quoted != follows {
            return Err((at + 2, format!("\"{}\" is no parameter; write KEY=VALUE", word.raw)));
        }
        let quote = if follows { "\"" } else { " " };
        text.extend([quote, word.raw, quote.trim_end()]);
    }
    let unread =
        |error: String| (2, format!("the parameters cannot be read ({error}); write for example alpn=dot port=853"));
    let read = RData::try_from_str(RecordType::SVCB, &text).map_err(|error| unread(error.to_string()))?;
    let RData::SVCB(mut service) = read else { return Err(unread("no SVCB".to_owned())) };
    service.svc_params.sort_by_key(|(key, _)| *key);
    if number == 0 && !service.svc_params.is_empty() {
        return Err((
            2,
            "an alias (priority 0) has no parameters; write a priority above 0, or remove them".to_owned(),
        ));
    }
    let octets = service.to_bytes().map_err(|error| unread(error.to_string()))?;
    Ok([&number.to_be_bytes(), target.as_wire(), octets.get(FIXED_BYTES..).unwrap_or_default()].concat())
}
