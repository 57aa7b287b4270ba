//! OpenStack services by their type: found in a domain or on the local link, and announced there.
//!
//! In a domain a resolver is asked for SRV and TXT records of the instance ([`unicast`]); on the link, whose domain is
//! `local`, everyone is asked by multicast ([`link`]). The result is the same: endpoints ([`DiscoveredService`]) in the
//! order in which they are to be tried. [`announce`] is the other side of the link.
//!
//! Hosts are told by name where a name will do. Names on the link, and names that are no host names, mean nothing to
//! most programs; then the addresses stand in their place.
//!
//! Cost: two questions for each service, and two for each host that is told by address.
//! RFC 2782 (SRV), RFC 6762 (multicast), RFC 6763, OpenStack "DNS-based Service Discovery".

pub mod announce;
pub mod link;
pub mod unicast;

use std::io;
use std::net::IpAddr;
use wire::dnssd::endpoint::TextError;
use wire::dnssd::{self, Endpoint, Host, OPENSTACK, ServiceType};
use wire::name::{self, Name, NameError};

/// The domain of the local link.
pub const LOCAL: &[u8] = b"\x05local\x00";

/// One endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredService {
    pub endpoint: Endpoint,
    /// Priority of its SRV record.
    pub priority: u16,
    pub weight: u16,
}

/// Error: a service was not found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("no resolver: {0}; write --server ADDRESS")]
    NoResolver(io::Error),
    #[error("none of the resolvers in /etc/resolv.conf has an address; write --server ADDRESS")]
    NoServer,
    #[error("{0} does not answer: {1}")]
    Silent(String, String),
    #[error("{0} answers {1}")]
    Rcode(String, String),
    #[error("there is no {0}")]
    Missing(Name),
    #[error("{0} is offered nowhere: its SRV record says so")]
    NotOffered(Name),
    #[error("host {0} has no address")]
    NoAddress(Name),
    #[error("the record of {0}: {1}")]
    Text(Name, TextError),
    #[error("no such interface: {0}")]
    Interface(String),
    #[error("multicast: {0}")]
    Multicast(#[from] mdns_sd::Error),
    #[error("nobody on the link offers {0}")]
    Nobody(Name),
    #[error("the thread that speaks with the link has ended")]
    Ended,
}

impl DiscoverError {
    /// Returns true if the search itself succeeded and there is no such service.
    pub fn is_missing(&self) -> bool {
        matches!(self, DiscoverError::Missing(_) | DiscoverError::NotOffered(_) | DiscoverError::Nobody(_))
    }
}

/// Data of the SRV and TXT records of one endpoint.
struct Record {
    hosts: Vec<Host>,
    priority: u16,
    weight: u16,
    port: u16,
    /// The TXT record's RDATA.
    text: Vec<u8>,
}

/// The name of a service in a domain.
fn instance(kind: &ServiceType, domain: &Name) -> Result<Name, NameError> {
    dnssd::below(domain, &[kind.as_str().as_bytes(), OPENSTACK[0], OPENSTACK[1]])
}

/// The endpoints in the order in which they are to be tried: by priority, the heavier first among equals (RFC 2782
/// draws lots there, which whoever reads a list can do), then by name, since servers turn their records around.
fn arrange(instance: &Name, mut records: Vec<Record>) -> Result<Vec<DiscoveredService>, DiscoverError> {
    records.sort_by_cached_key(|record| {
        let host = record.hosts.first().map(Host::to_string);
        (record.priority, u16::MAX - record.weight, host, record.port)
    });
    let mut found = Vec::new();
    for record in &records {
        for host in &record.hosts {
            let endpoints = Endpoint::read(host, record.port, &record.text);
            let endpoints = endpoints.map_err(|error| DiscoverError::Text(instance.clone(), error))?;
            let one = |endpoint| DiscoveredService { endpoint, priority: record.priority, weight: record.weight };
            found.extend(endpoints.into_iter().map(one));
        }
    }
    Ok(found)
}

/// Returns true if a name can stand for a host in a URL: it is not in `local.`, and has only letters, digits and
/// hyphens.
fn is_host_name(name: &Name) -> bool {
    let plain = |label: &[u8]| label.iter().all(|octet| octet.is_ascii_alphanumeric() || *octet == b'-');
    let wire = name.as_wire();
    name::suffix_offset(wire, LOCAL).is_none() && name::labels(wire).all(plain)
}

/// Addresses as hosts, IPv4 first, without those that mean something on one interface only, if there are others.
fn address_hosts(mut addresses: Vec<IpAddr>) -> Vec<Host> {
    let is_global = |address: &IpAddr| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    if addresses.iter().any(is_global) {
        addresses.retain(is_global);
    }
    addresses.sort_by_key(|address| (address.is_ipv6(), *address));
    addresses.dedup();
    addresses.into_iter().map(Host::Address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_come_by_priority_and_weight() {
        let host = |text: &str| vec![Host::Name(Name::parse(text).unwrap())];
        let record = |name, priority, weight, port| Record { hosts: host(name), priority, weight, port, text: vec![0] };
        let records = vec![record("c", 1, 9, 443), record("b", 0, 1, 80), record("a", 0, 7, 8774)];
        let found = arrange(&Name::root(), records).unwrap();
        let urls: Vec<String> = found.iter().map(|found| found.endpoint.to_string()).collect();
        assert_eq!(urls, ["https://a:8774/", "http://a:8774/", "http://b/", "https://c/"]);
    }

    #[test]
    fn hosts_are_names_where_names_will_do() {
        for (text, expected) in [
            ("os.example.com", true),
            ("OS-1.example", true),
            ("printer.local", false),
            ("local.example", true),
            ("baremetal._openstack._tcp.example", false),
            ("a\\032b.example", false),
        ] {
            assert_eq!(is_host_name(&Name::parse(text).unwrap()), expected, "{text}");
        }
        let addresses = ["2001:db8::1", "fe80::1", "192.0.2.1", "192.0.2.1"].map(|text| text.parse().unwrap());
        let hosts: Vec<String> = address_hosts(addresses.to_vec()).iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["192.0.2.1", "[2001:db8::1]"]);
        assert_eq!(address_hosts(vec!["fe80::1".parse().unwrap()]).len(), 1, "better than nothing");
    }
}
