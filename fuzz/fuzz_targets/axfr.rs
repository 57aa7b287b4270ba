//! A transfer of any bytes: nothing falls over, and only what is complete becomes a zone.

#![no_main]

use aggregator::transfer::reader::{Progress, Reader, Received};
use libfuzzer_sys::fuzz_target;
use wire::name::Name;

fuzz_target!(|input: &[u8]| {
    let origin = Name::parse("us-west-1.cns.example.com").expect("a valid name");
    let mut reader = Reader::axfr(origin.clone(), 7);
    let query = reader.write_query();
    let mut rest = input;
    let mut progress = Progress::More;
    // The input is cut into messages by lengths of two octets, as on the wire; a good header and question come free.
    while let (Progress::More, [high, low, tail @ ..]) = (progress, rest) {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let mut message = query.clone();
        message[2] = 0x80;
        let counts = tail.first().copied().unwrap_or(0);
        message[7] = counts;
        message.extend_from_slice(tail.get(1..length).unwrap_or_default());
        match reader.feed(&message) {
            Ok(next) => progress = next,
            Err(_) => break,
        }
        rest = &tail[length..];
    }
    let finished = reader.finish();
    assert_eq!(finished.is_ok(), progress == Progress::Done);
    if let Ok(Received::Full(soa, loader)) = finished
        && let Ok(loaded) = loader.finish(None)
    {
        assert_eq!(loaded.zone.soa, soa);
        let again = format!("{:?}", loaded.zone);
        assert!(!again.is_empty());
    }
});
