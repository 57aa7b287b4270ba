//! Lines of a metadata host: any at all, and frames with any contents whose length and checksum are right.

#![no_main]

use aggregator::metadata::frame::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = decode(input);
    let Ok(body) = std::str::from_utf8(input) else { return };
    let whole = format!("V2 {} {:08x} {body}", body.len(), crc32fast::hash(body.as_bytes()));
    if let Some(reply) = decode(whole.as_bytes()) {
        let (id, _) = body.split_once(' ').expect("a reply has fields");
        assert_eq!(u32::from_str_radix(id, 16), Ok(reply.id));
        // One octet off, and it is none.
        let mut damaged = whole.into_bytes();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert_eq!(decode(&damaged), None);
    }
});
