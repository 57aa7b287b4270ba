//! Services that others announce on the local link, and the interfaces to it.
//!
//! A host answers by IPv4 and by IPv6 each for itself, with the addresses of that family, so whoever has the first
//! answer listens a little longer. The endpoints are those of all addresses, IPv4 first whatever came first: the same
//! question has the same answer each time.
//!
//! Cost: a thread while it lasts; questions as RFC 6762 section 5.2 spaces them.

use super::{DiscoverError, DiscoveredService, Record, address_hosts, arrange};
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use wire::dnssd::{ServiceType, text};
use wire::name::Name;

/// OpenStack's services on the link.
pub const SERVICE: &str = "_openstack._tcp.local.";

/// Time in which more addresses are collected once a service is found. RFC 6762 section 6: answers that several hosts
/// may give come within 120 ms.
const MORE_ANSWERS: Duration = Duration::from_millis(500);

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

/// Returns true if there is an interface of this name.
fn exists(interface: &str) -> bool {
    // Any socket will do, and one of this family can be had where there is no network.
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None);
    socket.is_ok_and(|socket| name_to_index(&socket, interface).is_ok())
}

/// The name of a service on the link.
pub fn instance(kind: &ServiceType) -> Name {
    let local = Name::parse("local").expect("a constant name");
    super::instance(kind, &local).expect("a type is one label")
}

/// Returns true if a name in the library's form is that of an instance.
pub fn is_called(fullname: &str, instance: &Name) -> bool {
    Name::parse(fullname).is_ok_and(|name| name == *instance)
}

/// Finds a service on the link.
pub async fn discover(
    kind: &ServiceType,
    interfaces: &[String],
    patience: Duration,
) -> Result<Vec<DiscoveredService>, DiscoverError> {
    let instance = instance(kind);
    let daemon = open(interfaces)?;
    let service = listen(&instance, &daemon, patience).await?;
    // The thread ends by itself; nobody waits for it.
    let _ = daemon.shutdown();
    match service {
        Some(service) => read(&instance, &service),
        None => Err(DiscoverError::Nobody(instance)),
    }
}

/// Waits for a service, and a little longer for all its addresses.
async fn listen(
    instance: &Name,
    daemon: &ServiceDaemon,
    patience: Duration,
) -> Result<Option<Box<ResolvedService>>, DiscoverError> {
    let events = daemon.browse(SERVICE)?;
    let deadline = Instant::now() + patience;
    let (mut until, mut found) = (deadline, None::<Box<ResolvedService>>);
    while let Ok(Ok(event)) = timeout_at(until, events.recv_async()).await {
        match event {
            ServiceEvent::ServiceResolved(mut service) if is_called(&service.fullname, instance) => {
                match found {
                    None => until = deadline.min(Instant::now() + MORE_ANSWERS),
                    Some(before) if before.host == service.host => service.addresses.extend(before.addresses),
                    Some(_) => {}
                }
                found = Some(service);
            }
            ServiceEvent::ServiceRemoved(_, name) if is_called(&name, instance) => (until, found) = (deadline, None),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the RDATA of a service's TXT record.
pub fn text_of(service: &ResolvedService) -> Vec<u8> {
    let strings = service.txt_properties.iter().map(|property| match property.val() {
        Some(value) => [property.key().as_bytes(), b"=", value].concat(),
        None => property.key().as_bytes().to_vec(),
    });
    let strings: Vec<Vec<u8>> = strings.filter(|string| string.len() <= text::MAX_STRING_BYTES).collect();
    text::write(strings.iter().map(Vec::as_slice))
}

/// The addresses of a service as it was announced.
pub fn addresses_of(service: &ResolvedService) -> impl Iterator<Item = IpAddr> {
    service.addresses.iter().map(mdns_sd::ScopedIp::to_ip_addr)
}

/// The endpoints of a service as it was announced.
fn read(instance: &Name, service: &ResolvedService) -> Result<Vec<DiscoveredService>, DiscoverError> {
    let hosts = address_hosts(addresses_of(service).collect());
    // The library tells neither priority nor weight; one instance is one host here.
    arrange(instance, vec![Record { hosts, priority: 0, weight: 0, port: service.port, text: text_of(service) }])
}
