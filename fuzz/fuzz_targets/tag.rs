//! Service tags of any text: what is declared is within the limits, and is declared again by a tag written from it.

#![no_main]

use inventory::tag::{self, MOST_PORTS, MOST_SERVICES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(found) = tag::parse(text) else { return };
    let ports = || found.services.iter().map(|service| service.ports.len()).sum::<usize>();
    assert!(found.services.len() <= MOST_SERVICES && ports() <= MOST_PORTS);
    for service in &found.services {
        assert_eq!(tag::service_name(&service.name).as_ref(), Some(&service.name));
        let again = tag::parse(&service.name).expect("the name of a service is a tag");
        assert_eq!(again.services.first().map(|service| &service.name), Some(&service.name));
    }
});
