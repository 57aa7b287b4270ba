//! What a tag `triton.cns.services` declares, and what is wrong with it.
//!
//! Cost: O(octets of the tag).

use inventory::tag::{self, Service, Services};
use serde::Serialize;

/// A tag, as it is read.
#[derive(Debug, Serialize)]
pub struct TagReport {
    pub ok: bool,
    pub services: Vec<ServiceReport>,
    pub errors: Vec<String>,
}

/// A service that a tag declares.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ServiceReport {
    pub name: String,
    pub ports: Vec<u16>,
}

impl TagReport {
    /// Reads a tag.
    pub fn new(text: &str) -> TagReport {
        let (Services { services, .. }, errors) = read_tag(text);
        let describe = |service: Service| ServiceReport {
            name: service.name.into(),
            ports: service.ports.iter().map(|port| port.port).collect(),
        };
        TagReport { ok: errors.is_empty(), services: services.into_iter().map(describe).collect(), errors }
    }
}

/// Reads a tag: what it declares, and what is wrong with it.
fn read_tag(text: &str) -> (Services, Vec<String>) {
    let services = match tag::parse(text) {
        Ok(services) => services,
        Err(error) => return (Services::default(), vec![format!("{error}; the instance has no services")]),
    };
    let faults = [
        (services.invalid_name, "a name is no service name; that service is left out"),
        (services.invalid_port, "a port is none from 1 to 65535; that port is left out"),
        (services.too_many, "too many services or ports; the rest is left out"),
    ];
    let errors = faults.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text.to_string()).collect();
    (services, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_explained() {
        let report = TagReport::new("web:8080,frontdoor");
        let service = |name: &str, ports: &[u16]| ServiceReport { name: name.to_owned(), ports: ports.to_vec() };
        assert_eq!(report.services, [service("web", &[8080]), service("frontdoor", &[])]);
        assert!(report.ok && report.errors.is_empty());
        assert_eq!(TagReport::new("web:0").errors, ["a port is none from 1 to 65535; that port is left out"]);
        assert_eq!(TagReport::new("web, x").errors.len(), 1);
    }
}
