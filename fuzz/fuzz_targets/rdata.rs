//! RDATA of any type and bytes: what is taken is stable, compares equal to itself and prints.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cmp::Ordering;
use wire::rr::{self, RRset, RdataText};

fuzz_target!(|input: &[u8]| {
    let [high, low, start, message @ ..] = input else { return };
    let rtype = u16::from_be_bytes([*high, *low]);
    let start = usize::from(*start).min(message.len());
    let mut rdata = Vec::new();
    if rr::decompress(rtype, message, start, message.len() - start, &mut rdata).is_err() || rdata.len() > 65_535 {
        return;
    }
    let mut again = Vec::new();
    rr::decompress(rtype, &rdata, 0, rdata.len(), &mut again).expect("what was taken once is taken again");
    assert_eq!(rdata, again);
    assert_eq!(rr::compare(rtype, &rdata, &again), Ordering::Equal);
    assert!(!RdataText(rtype, &rdata).to_string().is_empty());
    let rrset = RRset::build(rtype, 30, vec![&rdata, &again]).expect("there is RDATA");
    assert_eq!(rrset.count, 1);
    assert!(rrset.rdatas().eq([rdata.as_slice()]));
});
