//! DNS-based service discovery: how services are named and described, for those who publish them and those who look
//! for them.
//!
//! An instance is a name `INSTANCE._SERVICE._tcp.DOMAIN` with SRV and TXT records; `_SERVICE._tcp.DOMAIN` has PTR
//! records to all instances, `_services._dns-sd._udp.DOMAIN` to all kinds of services. OpenStack's guideline fills that
//! in: the service is `_openstack`, the instance a service type such as `identity`, and TXT has what an URL needs
//! beside host and port.
//!
//! Invariants: what is published here is read back as the same endpoint; nothing that others publish can make a reader
//! panic.
//!
//! Parts: `endpoint` URLs, `kind` service types, `text` the strings of TXT records.
//!
//! Cost: O(octets). RFC 2782 (SRV), RFC 6763, OpenStack "DNS-based Service Discovery".

pub mod endpoint;
pub mod kind;
pub mod text;

pub use endpoint::{Endpoint, Host};
pub use kind::ServiceType;

use crate::name::{self, Name, NameError};

/// The labels of OpenStack's service, with which instance names go on.
pub const OPENSTACK: [&[u8]; 2] = [b"_openstack", b"_tcp"];

/// Labels of the name that lists the kinds of services of a domain (RFC 6763 section 9).
pub const SERVICES: [&[u8]; 3] = [b"_services", b"_dns-sd", b"_udp"];

/// First labels of the names that list browsing domains: those that are recommended, the default one, and the one for
/// browsers that do not ask (RFC 6763 section 11).
pub const DOMAINS: [&[u8]; 3] = [b"b", b"db", b"lb"];

/// A name with labels put in front.
pub fn below(domain: &Name, labels: &[&[u8]]) -> Result<Name, NameError> {
    labels.iter().rev().try_fold(domain.clone(), |name, label| name.prepend(label))
}

/// Returns true if PTR records at a name (lowercase wire form) list the instances of a service, or of a part of them
/// (RFC 6763 sections 4.1 and 7.1).
pub fn lists_instances(owner: &[u8]) -> bool {
    let mut labels = name::labels(owner);
    let [first, second, third, fourth] = [labels.next(), labels.next(), labels.next(), labels.next()];
    // What stands below `_dns-sd` is about services, and none itself.
    let is_service = |label: Option<&[u8]>| label.is_some_and(|label| label.starts_with(b"_") && label != SERVICES[1]);
    let is_protocol = |label: Option<&[u8]>| matches!(label, Some(b"_tcp" | b"_udp"));
    is_service(first) && is_protocol(second) || second == Some(b"_sub") && is_service(third) && is_protocol(fourth)
}

/// Returns true if PTR records at a name (lowercase wire form) belong to browsing: they list instances, services, or
/// domains (RFC 6763 sections 4.1, 7.1, 9 and 11).
pub fn is_browsing(owner: &[u8]) -> bool {
    let mut labels = name::labels(owner);
    let is_list = |label: &[u8]| label == SERVICES[0] || DOMAINS.contains(&label);
    let first = labels.next().is_some_and(is_list);
    first && labels.next() == Some(SERVICES[1]) && labels.next() == Some(SERVICES[2]) || lists_instances(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_browsing_are_told_from_others() {
        for (text, instances, browsing) in [
            ("_openstack._tcp.a.example", true, true),
            ("_x._udp", true, true),
            ("printer._sub._http._tcp.a", true, true),
            ("_y._sub._http._tcp.a", true, true),
            ("_services._dns-sd._udp.a", false, true),
            ("b._dns-sd._udp.a", false, true),
            ("lb._dns-sd._udp.a", false, true),
            ("r._dns-sd._udp.a", false, false),
            ("_dns-sd._udp.a", false, false),
            ("identity._openstack._tcp.a", false, false),
            ("17.42.168.192.in-addr.arpa", false, false),
            ("_tcp.a", false, false),
            (".", false, false),
        ] {
            let name = Name::parse(text).unwrap();
            assert_eq!(lists_instances(name.as_wire()), instances, "{text}");
            assert_eq!(is_browsing(name.as_wire()), browsing, "{text}");
        }
    }

    #[test]
    fn labels_are_put_in_front_in_their_order() {
        let domain = Name::parse("a.example").unwrap();
        assert_eq!(below(&domain, &OPENSTACK).unwrap(), Name::parse("_openstack._tcp.a.example").unwrap());
    }
}
