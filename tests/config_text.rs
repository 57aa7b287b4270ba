//! The text of a configuration file before anything in it means something: byte order marks and nesting.

use aggregator::config::Config;
use std::path::Path;

const RFD_SAMPLE: &str = include_str!("data/config/rfd-0172.json");

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

/// The errors of a text that must be refused.
fn refuse(text: &str) -> String {
    match Config::parse(Path::new("c.toml"), text) {
        Ok(config) => panic!("was taken:\n{text}\nas\n{}", config.plan_text()),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let config = parse(&format!("\u{feff}{RFD_SAMPLE}"));
    assert_eq!(config.zones.len(), 6);
    assert!(refuse("\u{feff}zone = 1\n").starts_with("c.toml:1:1: "));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    for (open, prefix) in [("[", "x = "), ("{a=", "x = "), ("[", "{\"x\": "), ("{\"a\":", "")] {
        let errors = refuse(&format!("{prefix}{}", open.repeat(100_000)));
        assert!(errors.starts_with("c.toml:1:"), "{errors}");
    }
}
