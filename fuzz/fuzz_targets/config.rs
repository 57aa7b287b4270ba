//! Configuration files of any content, in both formats.

#![no_main]

use aggregator::config::Config;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|text: &str| {
    match Config::parse(Path::new("fuzz"), text) {
        Ok(config) => assert!(!config.plan_text().is_empty()),
        Err(errors) => assert!(!errors.0.is_empty() && errors.to_string().contains("fuzz:")),
    }
});
