//! Private addresses that several members have at one name, and that nobody can tell apart: the fabric networks of two
//! datacenters may be numbered alike, so that a client in one of them gets addresses of the other that lead nowhere.
//!
//! Invariant: what [`AlikeNames`] has depends on what the members have, never on the way there.
//!
//! Cost: O(networks × log addresses) for a name that several members have, nothing for others; O(log names) to note one.

use super::filter::address_of;
use crate::acl::network_of;
use crate::zone::Node;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use wire::name::Name;
use wire::rr::{Numbered, rtype};

/// Names of a region at which two members have addresses of one private network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlikeNames {
    /// Owners without origin.
    owners: BTreeSet<Box<[u8]>>,
}

/// Names at which members have addresses of one private network, and one of them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Alike {
    pub names: usize,
    pub example: Name,
}

impl AlikeNames {
    /// Number of names, and one of them, the same as long as it is there and no other comes before; none without any.
    pub fn told(&self, origin: &Name) -> Option<Alike> {
        let first = self.owners.first()?;
        Some(Alike { names: self.owners.len(), example: Name::join(first, origin) })
    }

    /// Notes how the addresses of a name are.
    pub(super) fn note(&mut self, owner: &[u8], is_alike: bool) {
        if is_alike {
            self.owners.insert(owner.into());
        } else if !self.owners.is_empty() {
            self.owners.remove(owner);
        }
    }

    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.owners.clear();
    }
}

/// Returns true if two of the nodes, which are those of members at one name, have addresses of one private network.
pub(super) fn have_alike<'a>(nodes: impl ExactSizeIterator<Item = Node<'a>>) -> bool {
    if nodes.len() < 2 {
        return false;
    }
    let mut seen: BTreeSet<IpAddr> = BTreeSet::new();
    for node in nodes {
        let mut own = networks(node);
        if own.iter().any(|network| seen.contains(network)) {
            return true;
        }
        seen.append(&mut own);
    }
    false
}

/// The private networks that the addresses of a node are in.
fn networks(node: Node<'_>) -> BTreeSet<IpAddr> {
    let mut networks = BTreeSet::new();
    for set in [rtype::A, rtype::AAAA].into_iter().filter_map(|rtype| node.get(rtype)) {
        let (records, mut at) = (Numbered::new(set), 0);
        while at < set.count as usize {
            let rdata = records.get(at);
            let Some(address) = address_of(set.rtype, rdata) else { break };
            networks.extend(private_network(address));
            // The addresses of one network stand together: 16 bits of IPv4, also where it is mapped, 48 of IPv6.
            let behind = if address.to_canonical().is_ipv4() { 2 } else { 10 };
            let network = &rdata[..rdata.len() - behind];
            at = records.partition_point(at + 1..set.count as usize, |other| other.starts_with(network));
        }
    }
    networks
}

/// The network that is taken for one site's: a /16 of RFC 1918 and RFC 6598, a /48 of RFC 4193.
fn private_network(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    let (is_private, length) = match address {
        IpAddr::V4(v4) => (v4.is_private() || network_of(address, 10) == IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), 16),
        IpAddr::V6(v6) => (v6.is_unique_local(), 48),
    };
    is_private.then(|| network_of(address, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::tests::zone;

    #[test]
    fn private_networks_are_those_of_the_standards() {
        for (address, expected) in [
            ("10.88.1.2", Some("10.88.0.0")),
            ("172.16.0.1", Some("172.16.0.0")),
            ("172.31.255.255", Some("172.31.0.0")),
            ("172.32.0.1", None),
            ("192.168.7.7", Some("192.168.0.0")),
            ("192.169.0.1", None),
            ("100.64.0.1", Some("100.64.0.0")),
            ("100.127.9.9", Some("100.127.0.0")),
            ("100.128.0.1", None),
            ("100.63.255.255", None),
            ("198.51.100.1", None),
            ("fd00:1:2:3::4", Some("fd00:1:2::")),
            ("fc00::1", Some("fc00::")),
            ("fe80::1", None),
            ("2001:db8::1", None),
            ("::ffff:10.1.2.3", Some("10.1.0.0")),
        ] {
            let expected = expected.map(|network| network.parse().unwrap());
            assert_eq!(private_network(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn only_networks_of_two_members_are_alike() {
        for (first, second, expected) in [
            ("n A 10.1.0.1\nn A 10.1.0.2", "n A 10.2.0.1", false),
            ("n A 10.1.0.1\nn A 10.1.0.2", "n A 10.2.0.1\nn A 10.1.9.9", true),
            ("n A 198.51.100.1", "n A 198.51.100.1", false),
            ("n AAAA fd00:1:2::1", "n AAAA fd00:1:2:9::1", true),
            ("n AAAA fd00:1:2::1", "n AAAA fd00:1:3::1", false),
            ("n A 10.1.0.1", "n AAAA fd00:1:3::1", false),
        ] {
            let zone = |lines: &str| zone("w1.x.", &format!("@ 30 SOA 1\n{}", lines.replace("n A", "n 30 A")));
            let (first, second) = (zone(first), zone(second));
            let name = Name::parse("n.w1.x").unwrap();
            let nodes = [&first, &second].map(|zone| zone.get(name.as_wire()).unwrap());
            assert_eq!(have_alike(nodes.into_iter()), expected);
            assert!(!have_alike(nodes[..1].iter().copied()), "one member's own are told apart");
        }
    }
}
