//! The local link: which interfaces, and services that others announce there.
//!
//! Cost: a thread while it lasts; questions as RFC 6762 section 5.2 spaces them.

use super::{DiscoverError, Found, Record, address_hosts, arrange};
use crate::dnssd::{self, OPENSTACK, ServiceType, text};
use crate::name::Name;
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent};
use std::ffi::CString;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// OpenStack's services on the link.
pub const SERVICE: &str = "_openstack._tcp.local.";

/// Joins the multicast groups on interfaces, which are names or addresses; without any on all but loopback.
pub fn open(interfaces: &[String]) -> Result<ServiceDaemon, DiscoverError> {
    let mut wanted = Vec::new();
    for interface in interfaces {
        wanted.push(match interface.parse::<IpAddr>() {
            Ok(address) => IfKind::Addr(address),
            Err(_) if exists(interface) => IfKind::Name(interface.clone()),
            Err(_) => return Err(DiscoverError::Interface(interface.clone())),
        });
    }
    let daemon = ServiceDaemon::new()?;
    if wanted.is_empty() {
        daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
    } else {
        daemon.disable_interface(IfKind::All)?;
        daemon.enable_interface(wanted)?;
    }
    Ok(daemon)
}

/// Whether there is an interface of this name.
fn exists(interface: &str) -> bool {
    // SAFETY: the pointer is that of a string that ends with NUL and lives until the call is over.
    CString::new(interface).is_ok_and(|name| unsafe { libc::if_nametoindex(name.as_ptr()) } != 0)
}

/// Finds a service on the link.
pub async fn discover(
    kind: &ServiceType,
    interfaces: &[String],
    patience: Duration,
) -> Result<Vec<Found>, DiscoverError> {
    let local = Name::parse("local").expect("a constant name");
    let instance = dnssd::below(&local, &[kind.as_str().as_bytes(), OPENSTACK[0], OPENSTACK[1]]);
    let instance = instance.map_err(|_| DiscoverError::Nobody(local))?;
    let daemon = open(interfaces)?;
    let events = daemon.browse(SERVICE)?;
    let deadline = Instant::now() + patience;
    let found = loop {
        match timeout_at(deadline, events.recv_async()).await {
            Ok(Ok(ServiceEvent::ServiceResolved(service))) => {
                let is_wanted = Name::parse(&service.fullname).is_ok_and(|name| name == instance);
                if is_wanted && !service.addresses.is_empty() {
                    break read(&instance, &service);
                }
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => break Err(DiscoverError::Nobody(instance.clone())),
        }
    };
    // The thread ends by itself; nobody waits for it.
    let _ = daemon.shutdown();
    found
}

/// The endpoints of a service as it was announced.
fn read(instance: &Name, service: &ResolvedService) -> Result<Vec<Found>, DiscoverError> {
    let hosts = address_hosts(service.addresses.iter().map(mdns_sd::ScopedIp::to_ip_addr).collect());
    let strings = service.txt_properties.iter().map(|property| match property.val() {
        Some(value) => [property.key().as_bytes(), b"=", value].concat(),
        None => property.key().as_bytes().to_vec(),
    });
    let strings: Vec<Vec<u8>> = strings.filter(|string| string.len() <= text::MAX_STRING_BYTES).collect();
    let rdata = text::write(strings.iter().map(Vec::as_slice));
    // The library tells neither priority nor weight; one instance is one host here.
    arrange(instance, vec![Record { hosts, priority: 0, weight: 0, port: service.port }], &rdata)
}
