//! OpenStack's services as records: PTR, SRV and TXT for each, and the lists by which they are found.
//!
//! A type is one instance. It may have several endpoints, which are as many SRV records, with one TXT record for all
//! (RFC 6763 section 6.8). An endpoint at an address has no host name; the instance's own name is its host then, as the
//! guideline's second example has it.
//!
//! Cost: O(endpoints).

use super::OwnRecord;
use std::net::IpAddr;
use wire::dnssd::{self, DOMAINS, Endpoint, Host, OPENSTACK, SERVICES, ServiceType};
use wire::name::{Name, NameBuf, NameError};
use wire::rr::rtype;

/// An endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub kind: ServiceType,
    pub endpoint: Endpoint,
    pub priority: u16,
    pub weight: u16,
}

impl Offer {
    /// The name of the instance in a domain.
    pub fn instance(&self, domain: &Name) -> Result<Name, NameError> {
        dnssd::below(domain, &[self.kind.as_str().as_bytes(), OPENSTACK[0], OPENSTACK[1]])
    }

    /// Reason for which another endpoint of the same type cannot stand beside this one, if there is one: their TXT
    /// records differ, or both would share the name that stands for an address.
    pub fn excludes(&self, other: &Offer) -> Option<&'static str> {
        let is_address = |offer: &Offer| matches!(offer.endpoint.host, Host::Address(_));
        if self.kind != other.kind {
            None
        } else if self.endpoint.text() != other.endpoint.text() {
            Some("all endpoints of a type have one TXT record; give them the same protocol and path")
        } else if is_address(self) || is_address(other) {
            Some(
                "several endpoints of a type need host names; write names for addresses, with their records in \"services\"",
            )
        } else {
            None
        }
    }
}

/// The records of a domain's services.
pub fn records(domain: &Name, ttl: u32, offers: &[Offer]) -> Result<Vec<OwnRecord>, NameError> {
    let mut records = Vec::new();
    if offers.is_empty() {
        return Ok(records);
    }
    let mut add = |owner: &Name, rtype: u16, rdata: Vec<u8>| {
        let owner = NameBuf::from_wire(owner.as_wire()).expect("a name has a valid wire form");
        let record = OwnRecord { owner, rtype, ttl, rdata };
        // Several endpoints of a type have most of their records in common.
        if !records.contains(&record) {
            records.push(record);
        }
    };
    let service = dnssd::below(domain, &OPENSTACK)?;
    // RFC 6763 section 9.
    add(&dnssd::below(domain, &SERVICES)?, rtype::PTR, service.as_wire().to_vec());
    for list in DOMAINS {
        // RFC 6763 section 11.
        add(&dnssd::below(domain, &[list, SERVICES[1], SERVICES[2]])?, rtype::PTR, domain.as_wire().to_vec());
    }
    for offer in offers {
        let (instance, endpoint) = (offer.instance(domain)?, &offer.endpoint);
        add(&service, rtype::PTR, instance.as_wire().to_vec());
        let target = match &endpoint.host {
            Host::Name(name) => name,
            Host::Address(IpAddr::V4(address)) => {
                add(&instance, rtype::A, address.octets().to_vec());
                &instance
            }
            Host::Address(IpAddr::V6(address)) => {
                add(&instance, rtype::AAAA, address.octets().to_vec());
                &instance
            }
        };
        let numbers = [offer.priority, offer.weight, endpoint.port].map(u16::to_be_bytes);
        add(&instance, rtype::SRV, [numbers.as_flattened(), target.as_wire()].concat());
        add(&instance, rtype::TXT, endpoint.text());
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rr::{RdataText, TypeName};

    fn offer(kind: &str, url: &str, priority: u16) -> Offer {
        let endpoint = Endpoint::parse(url).unwrap();
        Offer { kind: kind.parse().unwrap(), endpoint, priority, weight: 5 }
    }

    fn texts(offers: &[Offer]) -> Vec<String> {
        let records = records(&Name::parse("z.example").unwrap(), 30, offers).unwrap();
        let shown = |record: OwnRecord| {
            let rdata = RdataText(record.rtype, &record.rdata);
            format!("{} {} {rdata}", record.owner.to_string().replace("z.example.", "@"), TypeName(record.rtype))
        };
        records.into_iter().map(shown).collect()
    }

    const LISTS: [&str; 4] = [
        "_services._dns-sd._udp.@ PTR _openstack._tcp.z.example.",
        "b._dns-sd._udp.@ PTR z.example.",
        "db._dns-sd._udp.@ PTR z.example.",
        "lb._dns-sd._udp.@ PTR z.example.",
    ];

    #[test]
    fn all_records_follow_from_an_url() {
        assert_eq!(texts(&[]), Vec::<String>::new());
        let own = [
            "_openstack._tcp.@ PTR identity._openstack._tcp.z.example.",
            "identity._openstack._tcp.@ SRV 0 5 443 os.z.example.",
            "identity._openstack._tcp.@ TXT \"txtvers=1\" \"protocol=https\" \"path=/\"",
        ];
        assert_eq!(texts(&[offer("identity", "https://os.z.example/", 0)]), [&LISTS[..], &own].concat());
    }

    #[test]
    fn an_address_has_the_instance_for_its_host() {
        let offers =
            [offer("baremetal", "http://192.168.42.17/baremetal", 0), offer("dns", "http://[2001:db8::1]:9001", 0)];
        let own = [
            "_openstack._tcp.@ PTR baremetal._openstack._tcp.z.example.",
            "baremetal._openstack._tcp.@ A 192.168.42.17",
            "baremetal._openstack._tcp.@ SRV 0 5 80 baremetal._openstack._tcp.z.example.",
            "baremetal._openstack._tcp.@ TXT \"txtvers=1\" \"protocol=http\" \"path=/baremetal\"",
            "_openstack._tcp.@ PTR dns._openstack._tcp.z.example.",
            "dns._openstack._tcp.@ AAAA 2001:db8::1",
            "dns._openstack._tcp.@ SRV 0 5 9001 dns._openstack._tcp.z.example.",
            "dns._openstack._tcp.@ TXT \"txtvers=1\" \"protocol=http\" \"path=/\"",
        ];
        assert_eq!(texts(&offers), [&LISTS[..], &own].concat());
    }

    #[test]
    fn endpoints_of_one_type_share_all_but_srv() {
        let offers = [offer("image", "https://a.example/", 0), offer("image", "https://b.example/", 1)];
        assert_eq!(offers[0].excludes(&offers[1]), None);
        let found = texts(&offers);
        assert_eq!(found.iter().filter(|text| text.contains("SRV")).count(), 2);
        assert_eq!(found.len(), 4 + 1 + 2 + 1, "{found:?}");
        let path = offer("image", "https://b.example/v2", 1);
        assert!(offers[0].excludes(&path).is_some_and(|advice| advice.contains("one TXT record")));
        let address = offer("image", "https://192.0.2.1/", 1);
        assert!(offers[0].excludes(&address).is_some_and(|advice| advice.contains("need host names")));
        assert_eq!(offers[0].excludes(&offer("compute", "https://192.0.2.1/v2", 1)), None);
    }
}
