//! EDNS Client Subnet (RFC 7871): the option by which a resolver says whose question it asks, and the answer to it.
//!
//! Invariants: a [`ClientSubnet`] has no bits behind its length; what is written back has family, length and address as
//! they came (section 7.2.1). Cost: O(1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The EDNS option.
pub const OPTION_SUBNET: u16 = 8;
/// Family, both lengths and an IPv6 address.
const MOST_BYTES: usize = 4 + 16;

/// Option of a request, as far as it could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubnetOption {
    #[default]
    Absent,
    /// It says nothing that RFC 7871 section 6 knows.
    Malformed,
    Sent(ClientSubnet),
}

/// Subnet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// 1 for IPv4, 2 for IPv6, and 0 where nothing is said of the client.
    family: u16,
    /// SOURCE PREFIX-LENGTH.
    pub source: u8,
    octets: [u8; 16],
}

impl SubnetOption {
    /// Reads the data of an option.
    pub fn read(data: &[u8]) -> SubnetOption {
        ClientSubnet::read(data).map_or(SubnetOption::Malformed, SubnetOption::Sent)
    }

    /// The first address of the subnet, if the option says one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            SubnetOption::Sent(subnet) => subnet.address(),
            SubnetOption::Absent | SubnetOption::Malformed => None,
        }
    }
}

impl ClientSubnet {
    /// Reads the data of an option (section 6); none if it is malformed (section 7.1.2).
    fn read(data: &[u8]) -> Option<ClientSubnet> {
        let (&[family_high, family_low, source, scope], address) = data.split_first_chunk()?;
        let family = u16::from_be_bytes([family_high, family_low]);
        let most = match family {
            0 => 0,
            1 => 32,
            2 => 128,
            _ => return None,
        };
        if source > most || scope != 0 || address.len() != usize::from(source.div_ceil(8)) {
            return None;
        }
        let mut octets = [0; 16];
        octets[..address.len()].copy_from_slice(address);
        let behind = u128::from_be_bytes(octets).checked_shl(source.into()).unwrap_or(0);
        (behind == 0).then_some(ClientSubnet { family, source, octets })
    }

    /// The first address of the subnet; none if nothing is said of the client.
    pub fn address(&self) -> Option<IpAddr> {
        match (self.source, self.octets.first_chunk::<4>()) {
            (0, _) => None,
            (_, Some(octets)) if self.family == 1 => Some(Ipv4Addr::from(*octets).into()),
            _ => Some(Ipv6Addr::from(self.octets).into()),
        }
    }

    /// Octets of the option in a response, its head among them.
    pub(super) fn option_bytes(&self) -> usize {
        4 + 4 + usize::from(self.source.div_ceil(8))
    }

    /// The data of the option in a response, and how many octets of it count.
    pub(super) fn to_data(self, scope: u8) -> ([u8; MOST_BYTES], usize) {
        let mut data = [0; MOST_BYTES];
        data[..2].copy_from_slice(&self.family.to_be_bytes());
        data[2..4].copy_from_slice(&[self.source, scope.min(self.source)]);
        data[4..].copy_from_slice(&self.octets);
        (data, self.option_bytes() - 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_judged_by_the_rfc() {
        let sent = |data: &[u8]| match SubnetOption::read(data) {
            SubnetOption::Sent(subnet) => Some((subnet.address().map(|address| address.to_string()), subnet.source)),
            _ => None,
        };
        let some = |address: &str, source| Some((Some(address.to_owned()), source));
        for (data, expected, why) in [
            (&[0, 1, 24, 0, 192, 0, 2][..], some("192.0.2.0", 24), "IPv4"),
            (&[0, 1, 32, 0, 192, 0, 2, 7], some("192.0.2.7", 32), "a whole address"),
            (&[0, 1, 20, 0, 192, 0, 0x20], some("192.0.32.0", 20), "no whole octet"),
            (&[0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 1], some("2001:db8:0:100::", 56), "IPv6"),
            (&[0, 1, 0, 0], Some((None, 0)), "SOURCE 0"),
            (&[0, 2, 0, 0], Some((None, 0)), "SOURCE 0 in IPv6"),
            (&[0, 0, 0, 0], Some((None, 0)), "FAMILY 0 with SOURCE 0"),
            (&[0, 0, 8, 0, 10], None, "FAMILY 0 with a subnet"),
            (&[0, 3, 8, 0, 10], None, "an unknown FAMILY"),
            (&[0, 1, 33, 0, 192, 0, 2, 7, 0], None, "SOURCE beyond IPv4"),
            (&[0, 2, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None, "SOURCE beyond IPv6"),
            (&[0, 1, 24, 24, 192, 0, 2], None, "SCOPE in a question"),
            (&[0, 1, 24, 0, 192, 0], None, "too few octets"),
            (&[0, 1, 24, 0, 192, 0, 2, 0], None, "too many octets"),
            (&[0, 1, 20, 0, 192, 0, 0x21], None, "bits behind SOURCE"),
            (&[0, 1, 0], None, "no SCOPE"),
            (&[], None, "nothing"),
        ] {
            assert_eq!(sent(data), expected, "{why}");
        }
        let SubnetOption::Sent(subnet) = SubnetOption::read(&[0, 1, 20, 0, 192, 0, 0x20]) else { panic!() };
        let (data, length) = subnet.to_data(24);
        assert_eq!(data[..length], [0, 1, 20, 20, 192, 0, 0x20], "SCOPE is never longer than SOURCE");
    }
}
