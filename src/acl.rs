//! Access rules: address prefixes, hosts, TSIG keys and connections that are allowed.
//!
//! An [`Access`] is a list of rules; a client is allowed when any rule is met in all its parts. Without rules nobody is
//! allowed. Addresses mapped from IPv4 into IPv6 count as the IPv4 address that they stand for.
//!
//! Cost: O(rules) for each question, and a look at a certificate for each rule that names one and is met otherwise.

mod host;

pub use host::Host;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use wire::name::Name;

/// An address prefix such as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Error: a text is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    #[error("no address")]
    Address,
    #[error("the prefix length is no number up to {0}")]
    Length(u8),
    /// The prefix that would be right for the same network.
    #[error("bits are set behind the prefix length")]
    HostBits(Prefix),
}

impl Prefix {
    /// Every address of both families: these two together.
    pub const EVERYTHING: [Prefix; 2] = [
        Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 },
        Prefix { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), length: 0 },
    ];

    /// One single address.
    pub fn host(address: IpAddr) -> Prefix {
        let address = address.to_canonical();
        Prefix { address, length: bits(address) }
    }

    /// The network that an address is in; a length of more than its bits counts as all of them.
    pub fn around(address: IpAddr, length: u8) -> Prefix {
        Prefix { address: network_of(address, length), length: length.min(bits(address)) }
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Number of bits that count.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Returns true if an address begins with the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = u32::from(bits(self.address) - self.length);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (u32::from(ours) ^ u32::from(theirs)).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                (u128::from(ours) ^ u128::from(theirs)).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The first address of the network that an address is in; a length of more than its bits counts as all of them.
pub fn network_of(address: IpAddr, length: u8) -> IpAddr {
    let host_bits = u32::from(bits(address).saturating_sub(length));
    match address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) & u32::MAX.checked_shl(host_bits).unwrap_or(0)).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & u128::MAX.checked_shl(host_bits).unwrap_or(0)).into()),
    }
}

/// Bits of an address of the same family.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `address` or `address/length`.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Address)?;
        let Some(length) = length else { return Ok(Prefix::host(address)) };
        let most = bits(address);
        let decimal = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|length| decimal && *length <= most);
        let prefix = Prefix { address, length: length.ok_or(PrefixError::Length(most))? };
        let network = Prefix { address: network_of(address, prefix.length), ..prefix };
        if network == prefix { Ok(prefix) } else { Err(PrefixError::HostBits(network)) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == bits(self.address) {
            self.address.fmt(f)
        } else {
            write!(f, "{}/{}", self.address, self.length)
        }
    }
}

/// Address under which a client is counted: an IPv4 address, or an IPv6 /64, of which one host has all addresses.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

/// One way to be allowed: every part that is there must be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub prefix: Option<Prefix>,
    /// The TSIG key that the request must be signed with.
    pub key: Option<Name>,
    /// What the connection must be; none for any, and for datagrams.
    pub channel: Option<Channel>,
    /// The host that it must come from.
    pub host: Option<Host>,
}

/// Kind of connection that a rule demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// TLS, whoever speaks it.
    Tls,
    /// TLS with a client that proves to have this name.
    Named(String),
}

/// A TLS connection and what its client has shown.
pub trait Secured: Sync {
    /// Returns true if the client has proved to have a name.
    fn has_name(&self, name: &str) -> bool;
}

/// What rules say of a client, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    Denied,
    /// Granted over another connection.
    Elsewhere,
    Granted,
}

/// List of access rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub rules: Vec<Rule>,
}

impl Access {
    /// Returns true if a client is allowed in clear, given its address and the key with which it has signed, if any.
    pub fn allows(&self, address: IpAddr, key: Option<&Name>) -> bool {
        self.permits(address, key, None) == Permission::Granted
    }

    /// What the rules say of a client with this address and key, over TLS if `secured` is there.
    pub fn permits(&self, address: IpAddr, key: Option<&Name>, secured: Option<&dyn Secured>) -> Permission {
        let met = self.rules.iter().filter(|rule| {
            rule.prefix.is_none_or(|prefix| prefix.contains(address))
                && rule.key.as_ref().is_none_or(|needed| key == Some(needed))
                && rule.host.as_ref().is_none_or(|host| host.is_at(address))
        });
        let permissions = met.map(|rule| match (&rule.channel, secured) {
            (None, _) | (Some(Channel::Tls), Some(_)) => Permission::Granted,
            (Some(Channel::Named(name)), Some(secured)) if secured.has_name(name) => Permission::Granted,
            (Some(_), _) => Permission::Elsewhere,
        });
        permissions.max().unwrap_or(Permission::Denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_read_and_written() {
        for text in ["192.0.2.0/24", "192.0.2.1", "0.0.0.0/0", "2001:db8::/32", "::/0", "2001:db8::1"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        let error = |text: &str| text.parse::<Prefix>().unwrap_err();
        assert_eq!(error("192.0.2"), PrefixError::Address);
        assert_eq!(error("192.0.2.0/33"), PrefixError::Length(32));
        assert_eq!(error("192.0.2.0/+8"), PrefixError::Length(32));
        assert_eq!(error("192.0.2.0/"), PrefixError::Length(32));
        assert_eq!(error("192.0.2.1/24"), PrefixError::HostBits(prefix("192.0.2.0/24")));
        assert_eq!(error("2001:db8::1/64"), PrefixError::HostBits(prefix("2001:db8::/64")));
    }

    #[test]
    fn a_network_begins_without_host_bits() {
        let network = |address: &str, length| network_of(address.parse().unwrap(), length).to_string();
        assert_eq!(network("192.0.2.77", 24), "192.0.2.0");
        assert_eq!(network("192.0.2.77", 0), "0.0.0.0");
        assert_eq!(network("192.0.2.77", 32), "192.0.2.77");
        assert_eq!(network("192.0.2.77", 99), "192.0.2.77");
        assert_eq!(network("2001:db8:1::1", 32), "2001:db8::");
        assert_eq!(network("2001:db8::1", 0), "::");
    }

    #[test]
    fn prefixes_hold_their_family_only() {
        let holds = |text: &str, address: &str| prefix(text).contains(address.parse().unwrap());
        assert!(holds("192.0.2.0/24", "192.0.2.255"));
        assert!(!holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("192.0.2.0/24", "::ffff:192.0.2.7"));
        assert!(holds("0.0.0.0/0", "255.255.255.255"));
        assert!(!holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(holds("::1", "::1"));
        assert!(!holds("::1", "::2"));
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let client = |text: &str| client_of(text.parse().unwrap()).to_string();
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn a_rule_must_be_met_in_all_its_parts() {
        let key = |text: &str| Some(Name::parse(text).unwrap());
        let access = Access {
            rules: vec![
                Rule { prefix: Some(prefix("192.0.2.0/24")), key: key("k.example"), channel: None, host: None },
                Rule { prefix: Some(prefix("198.51.100.1")), key: None, channel: None, host: None },
                Rule { prefix: None, key: key("other.example"), channel: None, host: None },
            ],
        };
        let allows = |address: &str, name: Option<Name>| access.allows(address.parse().unwrap(), name.as_ref());
        assert!(allows("192.0.2.1", key("K.example")));
        assert!(!allows("192.0.2.1", None));
        assert!(!allows("203.0.113.1", key("k.example")));
        assert!(allows("198.51.100.1", None));
        assert!(allows("203.0.113.1", key("other.example")));
        assert!(!Access::default().allows("127.0.0.1".parse().unwrap(), None));
    }

    #[test]
    fn a_host_is_allowed_from_the_addresses_that_are_known_of_it() {
        let host = Host::new(Name::parse("ns1.example").unwrap());
        let rule = Rule { prefix: None, key: None, channel: None, host: Some(host.clone()) };
        let access = Access { rules: vec![rule] };
        let allows = |address: &str| access.allows(address.parse().unwrap(), None);
        assert!(!allows("192.0.2.1"), "nothing is known of it");
        host.set(&["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]);
        assert!(allows("192.0.2.1") && allows("::ffff:192.0.2.1") && allows("2001:db8::1") && !allows("192.0.2.2"));
        host.set(&["192.0.2.2".parse().unwrap()]);
        assert!(!allows("192.0.2.1") && allows("192.0.2.2"));
        let signed = Rule { key: Name::parse("k.example").ok(), ..access.rules[0].clone() };
        assert!(!Access { rules: vec![signed] }.allows("192.0.2.2".parse().unwrap(), None), "all parts must be met");
    }

    /// A client with one name.
    struct Proved(&'static str);

    impl Secured for Proved {
        fn has_name(&self, name: &str) -> bool {
            self.0 == name
        }
    }

    #[test]
    fn a_rule_may_demand_a_connection() {
        let rule =
            |text: &str, channel| Rule { prefix: Some(prefix(text)), key: None, channel: Some(channel), host: None };
        let named = |text: &str, name: &str| rule(text, Channel::Named(name.to_owned()));
        let rules = vec![
            rule("192.0.2.0/24", Channel::Tls),
            named("198.51.100.0/24", "ns2.example"),
            named("0.0.0.0/0", "ns3.example"),
        ];
        let access = Access { rules };
        let permits =
            |address: &str, secured: Option<&dyn Secured>| access.permits(address.parse().unwrap(), None, secured);
        use Permission::*;
        for (address, of) in [
            ("192.0.2.1", [Elsewhere, Granted, Granted, Granted]),
            ("198.51.100.1", [Elsewhere, Elsewhere, Granted, Granted]),
            ("203.0.113.1", [Elsewhere, Elsewhere, Elsewhere, Granted]),
            ("2001:db8::1", [Denied; 4]),
        ] {
            let [nobody, second, third] = ["", "ns2.example", "ns3.example"].map(Proved);
            let secured: [Option<&dyn Secured>; 4] = [None, Some(&nobody), Some(&second), Some(&third)];
            assert_eq!(secured.map(|secured| permits(address, secured)), of, "{address}");
        }
        assert!(!access.allows("192.0.2.1".parse().unwrap(), None), "in clear");
    }
}
