//! Documents of any content, in both formats: what is read is read again as the same, and has no UUID twice.

#![no_main]

use inventory::document;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::path::Path;

fuzz_target!(|text: &str| {
    let read = || document::read(Path::new("fuzz"), text, "dc");
    match read() {
        Ok(found) => {
            let uuids: HashSet<_> = found.inventory.vms.iter().map(|vm| vm.uuid).collect();
            assert_eq!(uuids.len(), found.inventory.vms.len());
            assert_eq!(read(), Ok(found));
        }
        Err(errors) => assert!(!errors.0.is_empty() && errors.to_string().contains("fuzz:")),
    }
});
