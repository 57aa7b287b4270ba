//! Frames of a change feed and answers of Triton's services: whatever comes, nothing panics, and what is read of an
//! instance is named as it was.

#![no_main]

use aggregator::source::inventory::triton::{elements, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = frames::read(text);
    let Ok(value) = serde_json::from_str(text) else { return };
    if let Some(vm) = elements::vm(&value) {
        assert_eq!(elements::uuid(&value["uuid"]), Some(vm.uuid));
    }
    let _ = elements::nic(&value);
    let _ = elements::server(&value);
    let _ = elements::network(&value);
    let _ = elements::network_pool(&value);
});
