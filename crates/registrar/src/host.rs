//! Facts about the machine: its name, and an address where none is configured.
//!
//! Registrar takes the first address of the first interface that is not internal, whatever family it has; the first
//! IPv4 address is preferred here, because Binder serves no other.
//!
//! Cost: O(interfaces).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{io, ptr};

/// The machine's own name, as it stands.
pub fn name() -> io::Result<String> {
    let system = rustix::system::uname();
    system.nodename().to_str().map(str::to_owned).map_err(|_| io::Error::other("the host name is not UTF-8"))
}

/// An address at which others may reach this machine; none if it has only itself.
pub fn address() -> io::Result<Option<IpAddr>> {
    Ok(choose(&interface_addresses()?))
}

/// The first IPv4 address of those that others may reach, else the first IPv6 address.
fn choose(addresses: &[IpAddr]) -> Option<IpAddr> {
    let reachable = |address: &&IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local() && !address.is_unspecified(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local() && !address.is_unspecified(),
    };
    let found = || addresses.iter().filter(reachable);
    found().find(|address| address.is_ipv4()).or_else(|| found().next()).copied()
}

/// The addresses of all interfaces that are up and not loopback, in the system's order.
fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is valid for writing.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    // SAFETY: the list is the one that getifaddrs made, and is freed once, after its last use. An element's address is null, or
    // as long as its family says; it is read unaligned, because the system promises no alignment for the larger types.
    unsafe {
        let mut next = first;
        while let Some(interface) = next.as_ref() {
            next = interface.ifa_next;
            let flags = interface.ifa_flags as libc::c_int;
            let is_used = flags & libc::IFF_UP != 0 && flags & libc::IFF_LOOPBACK == 0;
            let Some(address) = interface.ifa_addr.as_ref().filter(|_| is_used) else { continue };
            match libc::c_int::from(address.sa_family) {
                libc::AF_INET => {
                    let address = interface.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    found.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
                }
                libc::AF_INET6 => {
                    let address = interface.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    found.push(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
        libc::freeifaddrs(first);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_is_chosen() {
        let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let chosen = |list: &[&str]| choose(&parse(list)).map(|address| address.to_string());
        assert_eq!(chosen(&["fd00::1", "169.254.0.9", "10.0.0.1", "10.0.0.2"]).as_deref(), Some("10.0.0.1"));
        assert_eq!(chosen(&["fe80::1", "fd00::1", "127.0.0.1"]).as_deref(), Some("fd00::1"));
        assert_eq!(chosen(&["fe80::1", "::1", "127.0.0.1"]), None);
    }

    #[test]
    fn the_machine_can_be_asked() {
        assert!(!name().unwrap().is_empty());
        let found = interface_addresses().unwrap();
        assert!(found.iter().all(|address| !address.is_loopback()), "{found:?}");
    }
}
