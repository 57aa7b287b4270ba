//! PTR records out of the addresses of host records.
//!
//! An address has one PTR record, whatever the number of nodes that have the address: a host below a service comes
//! before other hosts, since those are aliases more often than not, and then the owner name that comes first in
//! alphabetical order. So the record does not depend on the order of registrations, and it goes when the last such node
//! goes.
//!
//! Cost: O(nodes that have the address) for each PTR record.

use crate::source::zookeeper::zones::claims::{Claims, Id};
use crate::source::zookeeper::zones::tree::Tree;
use crate::zone::RRsets;
use registrar::payload::{DEFAULT_TTL, Host, Payload};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::name::{self, Name};
use wire::rr::{RRset, rtype};

/// The name at which an address's PTR record stands (RFC 1035 section 3.5, RFC 3596 section 2.5).
pub fn name_of(address: IpAddr) -> Name {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    origin_of(address, bits).expect("all of an address is a whole number of octets")
}

/// The origin of the reverse zone of a prefix; none if its length does not end with a label: an octet of IPv4, four
/// bits of IPv6.
pub fn origin_of(address: IpAddr, bits: u8) -> Option<Name> {
    let text = match address {
        IpAddr::V4(address) if bits <= 32 && bits.is_multiple_of(8) => {
            let octets = &address.octets()[..usize::from(bits / 8)];
            octets.iter().rev().map(|octet| format!("{octet}.")).collect::<String>() + "in-addr.arpa"
        }
        IpAddr::V6(address) if bits <= 128 && bits.is_multiple_of(4) => {
            let nibbles = (0..bits / 4).rev().map(|index| address.to_bits() >> (124 - 4 * u32::from(index)) & 15);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
        _ => return None,
    };
    Some(Name::parse(&text).expect("reverse names are short"))
}

/// The address whose PTR record stands at a name.
pub fn address_of(name: &Name) -> Option<IpAddr> {
    let labels: Vec<&[u8]> = name::labels(name.as_wire()).collect();
    let text = |label: &[u8]| std::str::from_utf8(label).ok().map(str::to_string);
    let address = match labels.split_last_chunk::<2>()? {
        (own, [b"in-addr", b"arpa"]) if own.len() == 4 => {
            let octets = own.iter().rev().map(|label| text(label)).collect::<Option<Vec<_>>>()?;
            octets.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
        }
        (own, [b"ip6", b"arpa"]) if own.len() == 32 => {
            let nibbles = own.iter().rev().map(|label| text(label)).collect::<Option<Vec<_>>>()?;
            u128::from_str_radix(&nibbles.concat(), 16).ok().map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
        _ => None,
    };
    // What reads as an address but is written otherwise (leading zeros) is another name.
    address.filter(|address| name_of(*address) == *name)
}

impl Tree {
    /// The reverse zone that holds a name, by its place in the plan.
    pub(super) fn reverse_zone(&self, name: &Name) -> Option<usize> {
        let origins = self.plan.reverse.iter().enumerate().filter(|(_, origin)| name.is_within(origin));
        origins.max_by_key(|(_, origin)| origin.label_count()).map(|(index, _)| index)
    }

    /// The node that an address's PTR record names.
    pub(super) fn reverse_winner(&self, address: IpAddr) -> Option<(Id, &Host)> {
        let candidates = self.addresses.get(&address)?.iter().filter_map(|id| match &self.node(id).payload {
            Payload::Host(host) if host.kind.has_reverse() && self.is_winner(id) => Some((id, host)),
            _ => None,
        });
        let rank = |id: Id| {
            let owner = self.node(id).owner.as_ref().map(Name::to_string);
            (self.service_above(id).is_none(), owner)
        };
        match self.addresses.get(&address)? {
            Claims::One(_) => candidates.last(),
            Claims::Many(_) => candidates.min_by_key(|(id, _)| rank(*id)),
        }
    }

    /// The PTR record of an address.
    pub(super) fn reverse_records(&self, address: IpAddr) -> RRsets {
        let ptr = self.reverse_winner(address).and_then(|(id, host)| {
            let owner = self.node(id).owner.as_ref()?;
            RRset::build(rtype::PTR, host.ttl.unwrap_or(DEFAULT_TTL), vec![owner.as_wire()])
        });
        ptr.into_iter().map(Arc::new).collect()
    }
}
