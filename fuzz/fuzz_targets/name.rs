//! Names of any bytes: what can be read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::name::{NameBuf, skip};

fuzz_target!(|input: &[u8]| {
    for start in 0..input.len().min(64) {
        if let Ok((name, end)) = NameBuf::read(input, start) {
            assert_eq!(skip(input, start), Some(end));
            let again = NameBuf::parse(&name.to_string()).expect("presentation format round-trips");
            assert_eq!(again.as_wire(), name.as_wire());
            assert_eq!(NameBuf::from_wire(name.as_wire()).expect("uncompressed").as_wire(), name.as_wire());
            let key = name.to_name();
            assert!(key.parent().is_none_or(|parent| key.is_within(&parent)));
        }
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(name) = NameBuf::parse(text)
    {
        assert!(NameBuf::from_wire(name.as_wire()).is_ok());
    }
});
