//! The names under which browsers may ask for the page.
//!
//! A page of somebody else can have a name of its own point at this server's address, even at the loopback, and then
//! reads what is here as if it were its own: browsers keep sites apart by name. Such a name is known by the request's
//! Host (RFC 9112 section 3.2), and gets nothing. An address cannot be bent so, nor can localhost (RFC 6761 section
//! 6.3).
//!
//! Invariants: whoever tells no host is no browser, and is let in.
//!
//! Cost: O(names).

use std::net::IpAddr;
use wire::name::Name;

/// The names that are ours.
#[derive(Debug, PartialEq, Eq)]
pub struct Hosts(Vec<Name>);

impl Hosts {
    /// Takes the names beside those that are always ours.
    pub fn new<'n>(names: impl Iterator<Item = &'n Name>) -> Hosts {
        let localhost = Name::parse("localhost").expect("it is a name");
        Hosts(std::iter::once(localhost).chain(names.cloned()).collect())
    }

    /// Returns the reason for which a request to a host is refused; none if it is allowed.
    pub fn refuse(&self, host: Option<&str>) -> Option<String> {
        let host = host?;
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if address.parse::<IpAddr>().is_ok() || Name::parse(host).is_ok_and(|name| self.0.contains(&name)) {
            return None;
        }
        Some(format!(
            "this page is not known as \"{host}\"; ask for it by address or as localhost, or add the name to \"names\" in \
             [metrics] of the configuration"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_let_in() {
        let names = ["ns1.example.com", "Status.Example.com"].map(|name| Name::parse(name).unwrap());
        let hosts = Hosts::new(names.iter());
        for ours in
            ["127.0.0.1", "192.0.2.1", "[::1]", "localhost", "LocalHost.", "ns1.EXAMPLE.com", "status.example.com."]
        {
            assert_eq!(hosts.refuse(Some(ours)), None, "{ours}");
        }
        assert_eq!(hosts.refuse(None), None);
        for other in [
            "",
            "rebind.example",
            "127.0.0.1.rebind.example",
            "localhost.example",
            "x.ns1.example.com",
            "127.1",
            "[::1",
            "a..b",
        ] {
            let refused = hosts.refuse(Some(other));
            assert!(refused.as_ref().is_some_and(|why| why.contains(&format!("\"{other}\""))), "{other}: {refused:?}");
        }
    }
}
