//! Configurations of CNS of any content: each zone that is read has its name servers, and hidden ones have peers.

#![no_main]

use inventory::cns;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|text: &str| {
    match cns::read(Path::new("fuzz"), text) {
        Ok(cns) => {
            assert!(!cns.forward.is_empty() && cns.forward.len() == cns.config.forward.len());
            assert!(cns.forward.iter().all(|servers| !servers.is_hidden || !servers.peers.is_empty()));
        }
        Err(errors) => assert!(!errors.0.is_empty() && errors.to_string().contains("fuzz:")),
    }
});
