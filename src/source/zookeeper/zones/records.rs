//! The RRsets of one owner name of the forward zone, out of the nodes that give them.
//!
//! A name may hold the records of the node that has the name, and the SRV records of a service two labels further up.
//! What has a name and no record gets a placeholder, so that a zone can tell it from a name that does not exist: an
//! empty one for a service without members or a path component without children, one with the reason for a record that
//! cannot be used and is to be answered with SERVFAIL (`docs/binder.md` 8). Beside SRV records it tells a node from the
//! mere name of a service, and of the latter without members it says so.
//!
//! TTLs (section 5): of the rules that lead to one RRset the smallest result counts (section 12, RFC 2181 section 5.2).
//! A member's address is asked for directly (own TTL or 30) and comes beside the SRV records (own TTL or the
//! service's).
//!
//! Cost: O(records of the name), O(children) for a service.

use crate::source::zookeeper::zones::claims::Id;
use crate::source::zookeeper::zones::tree::{Node, Tree};
use crate::zone::RRsets;
use registrar::payload::{DEFAULT_TTL, Host, Payload, Service};
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::{self, Name, NameBuf};
use wire::rr::{MEMBERLESS, RRset, rtype};

/// Priority and weight of all SRV records (`docs/binder.md` 2).
const PRIORITY_AND_WEIGHT: [u8; 4] = [0, 0, 0, 10];
/// The TTL of placeholders, in seconds.
const PLACEHOLDER_TTL: u32 = DEFAULT_TTL;

impl Tree {
    /// All RRsets of an owner name, without those that every apex has.
    pub(super) fn records(&self, owner: &Name) -> RRsets {
        let mut rrsets = Vec::new();
        // What to say where there is no record: nothing, that there is none, or why.
        let mut placeholder = None;
        if let Some(id) = self.winner(owner.as_wire()) {
            let node = self.node(id);
            match &node.payload {
                Payload::Nothing => {}
                Payload::Broken => {
                    placeholder = Some(node.fault.map_or_else(Vec::new, |fault| fault.to_string().into_bytes()));
                }
                Payload::Host(host) => add_addresses(&mut rrsets, self.host_ttl(id, host), [host.address].into_iter()),
                Payload::Service(service) => self.add_members(&mut rrsets, node, service),
            }
            // Below a service without usable children there may still be names, which are enough to make it one. What
            // begins with an underscore must say that it is a node and not part of a service's name.
            let says_so = owner.as_wire().get(1) == Some(&b'_') || !self.has_names_below(node);
            if rrsets.is_empty() && says_so {
                placeholder.get_or_insert_default();
            }
        }
        if let Some((node, service)) = self.service_of(owner) {
            let targets = self.srv_targets(node, service);
            match RRset::build(rtype::SRV, service.ttl, targets) {
                Some(rrset) => rrsets.push(rrset),
                None if rrsets.is_empty() => {
                    placeholder.get_or_insert_with(|| MEMBERLESS.to_vec());
                }
                None => {}
            }
        }
        if let Some(reason) = placeholder {
            rrsets.extend(RRset::build(rtype::PLACEHOLDER, PLACEHOLDER_TTL, vec![reason]));
        }
        rrsets.sort_by_key(|rrset| rrset.rtype);
        rrsets.into_iter().map(Arc::new).collect()
    }

    /// The TTL of a host's own addresses.
    pub(super) fn host_ttl(&self, id: Id, host: &Host) -> u32 {
        let inherited = self.service_above(id).filter(|_| host.kind.is_member()).map(|service| service.ttl);
        host.ttl.unwrap_or(DEFAULT_TTL.min(inherited.unwrap_or(DEFAULT_TTL)))
    }

    /// The service whose SRV records an owner name has.
    pub(super) fn service_of(&self, owner: &Name) -> Option<(&Node, &Service)> {
        let mut labels = name::labels(owner.as_wire());
        let (first, second) = (labels.next()?, labels.next()?);
        if !first.starts_with(b"_") || !second.starts_with(b"_") {
            return None;
        }
        let node = self.node(self.winner(&owner.as_wire()[2 + first.len() + second.len()..])?);
        let Payload::Service(service) = &node.payload else { return None };
        let (name, protocol) = service.labels.as_ref()?;
        let same = name.as_bytes().eq_ignore_ascii_case(first) && protocol.as_bytes().eq_ignore_ascii_case(second);
        same.then_some((node, service))
    }

    /// The children that are members of a service. One whose name is no label has an address nevertheless.
    pub(super) fn members<'a>(&'a self, service: &'a Node) -> impl Iterator<Item = (Id, &'a Node, &'a Host)> {
        service.children.values().filter_map(|id| {
            let child = self.node(*id);
            match &child.payload {
                Payload::Host(host) if host.kind.is_member() => {
                    // Binder has no use for names with dots; what is left of them here are those with empty labels.
                    let nameless = child.owner.is_none() && !child.name.contains('.');
                    (nameless || self.is_winner(*id)).then_some((*id, child, host))
                }
                _ => None,
            }
        })
    }

    /// Adds the addresses of a service's members.
    fn add_members(&self, rrsets: &mut Vec<RRset>, node: &Node, service: &Service) {
        let members: Vec<&Host> = self.members(node).map(|(_, _, host)| host).collect();
        for wanted in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
            let members = || members.iter().filter(|host| wanted(&host.address));
            let ttl = members().filter_map(|host| host.ttl).fold(service.ttl, u32::min);
            add_addresses(rrsets, ttl, members().map(|host| host.address));
        }
    }

    /// The RDATA of a service's SRV records: one for each member and port (RFC 2782).
    fn srv_targets(&self, node: &Node, service: &Service) -> Vec<Vec<u8>> {
        let above = node.owner.as_ref().map_or(&[][..], Name::as_wire);
        let mut targets = Vec::new();
        for (_, child, host) in self.members(node).filter(|(_, child, _)| child.owner.is_some()) {
            // The node's own name keeps its case.
            let Ok(target) = NameBuf::parse(&child.name).and_then(|own| own.splice(own.as_wire().len() - 1, above))
            else {
                continue;
            };
            let ports = host.ports.as_deref().unwrap_or(service.port.as_slice());
            for port in ports {
                targets.push([&PRIORITY_AND_WEIGHT[..], &port.to_be_bytes(), target.as_wire()].concat());
            }
        }
        targets
    }

    /// Returns true if any node below has a name, which makes the node's own name exist.
    fn has_names_below(&self, node: &Node) -> bool {
        node.children.values().any(|child| self.node(*child).owner.is_some())
    }
}

/// Adds an RRset of the addresses of each family.
fn add_addresses(rrsets: &mut Vec<RRset>, ttl: u32, addresses: impl Iterator<Item = IpAddr>) {
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(address) => four.push(address.octets()),
            IpAddr::V6(address) => six.push(address.octets()),
        }
    }
    rrsets.extend(RRset::build(rtype::A, ttl, four));
    rrsets.extend(RRset::build(rtype::AAAA, ttl, six));
}
