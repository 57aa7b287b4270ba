//! Announcing services on the local link, for clients that know no resolver yet, such as a ramdisk.
//!
//! Each type is one instance, with the first endpoint that the configuration has for it. The instance's own name is its host
//! name on the link: names of other domains have no addresses there.
//!
//! Invariant: what was announced is taken back at the end (RFC 6762 section 10.1).
//!
//! Cost: a thread; answers as the link asks.

use super::DiscoverError;
use super::link::{SERVICE, open};
use crate::dnssd::{Endpoint, Host};
use crate::name::Name;
use crate::rr::rtype;
use crate::services::ServicesPlan;
use crate::services::openstack::Offer;
use mdns_sd::{DaemonEvent, ServiceDaemon, ServiceInfo};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::time::timeout;

/// How long the end waits until everything is taken back.
const GOODBYE: Duration = Duration::from_secs(3);
/// How long an announcement may take before one wonders: probes take less than a second (RFC 6762 section 8.1).
const PATIENCE: Duration = Duration::from_secs(5);

/// A service that is to be announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub kind: String,
    pub endpoint: Endpoint,
    pub addresses: Vec<IpAddr>,
}

/// Why a plan cannot be announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0} is at {1}, which has no address in zone {2}; write \"A\" or \"AAAA\" records for it in \"services\"")]
    NoAddress(String, Name, Name),
    #[error("zones {0} and {1} both have {2}, and the link has room for one; choose with --zone")]
    Twice(Name, Name, String),
}

/// What is to be announced of some zones: for each type the endpoint that is to be tried first.
pub fn plan<'p>(zones: impl IntoIterator<Item = &'p ServicesPlan>) -> Result<Vec<Announcement>, PlanError> {
    let mut chosen: BTreeMap<&str, (&ServicesPlan, &Offer)> = BTreeMap::new();
    for zone in zones {
        for offer in &zone.offers {
            let kind = offer.kind.as_str();
            match chosen.get(kind) {
                Some((other, _)) if other.zone != zone.zone => {
                    return Err(PlanError::Twice(other.zone.clone(), zone.zone.clone(), kind.to_owned()));
                }
                Some((_, first)) if first.priority <= offer.priority => {}
                _ => _ = chosen.insert(kind, (zone, offer)),
            }
        }
    }
    let announcement = |(kind, (zone, offer)): (&str, (&ServicesPlan, &Offer))| {
        let (kind, endpoint) = (kind.to_owned(), offer.endpoint.clone());
        let addresses = addresses_of(zone, &endpoint.host);
        match &endpoint.host {
            Host::Name(host) if addresses.is_empty() => {
                Err(PlanError::NoAddress(kind, host.clone(), zone.zone.clone()))
            }
            _ => Ok(Announcement { kind, endpoint, addresses }),
        }
    };
    chosen.into_iter().map(announcement).collect()
}

/// The addresses of a host, as the zone has them.
fn addresses_of(zone: &ServicesPlan, host: &Host) -> Vec<IpAddr> {
    let host = match host {
        Host::Address(address) => return vec![*address],
        Host::Name(name) => name,
    };
    let own = zone.records.iter().filter(|record| record.owner.to_name() == *host);
    let address = |rtype: u16, rdata: &[u8]| match rtype {
        rtype::A => <[u8; 4]>::try_from(rdata).ok().map(|octets| Ipv4Addr::from(octets).into()),
        rtype::AAAA => <[u8; 16]>::try_from(rdata).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    };
    own.filter_map(|record| address(record.rtype, &record.rdata)).collect()
}

/// Announces until `end` is ready, and takes everything back then.
pub async fn announce(
    announcements: &[Announcement],
    interfaces: &[String],
    end: impl Future<Output = ()>,
) -> Result<(), DiscoverError> {
    let daemon = open(interfaces)?;
    let events = daemon.monitor()?;
    for announcement in announcements {
        daemon.register(describe(announcement)?)?;
    }
    let watch = async {
        let mut silent = true;
        loop {
            let event = match timeout(PATIENCE, events.recv_async()).await {
                Err(_) if silent => {
                    tracing::warn!("nothing is announced yet; addresses are announced on links that they belong to");
                    silent = false;
                    continue;
                }
                Err(_) => continue,
                Ok(Err(_)) => return,
                Ok(Ok(event)) => event,
            };
            match event {
                DaemonEvent::Announce(service, at) => {
                    silent = false;
                    tracing::info!(service, at, "announced");
                }
                DaemonEvent::NameChange(change) => {
                    tracing::warn!(from = change.original, to = change.new_name, "another host has the name; renamed");
                }
                DaemonEvent::Error(error) => tracing::warn!(%error, "multicast"),
                _ => {}
            }
        }
    };
    tokio::select! {
        () = end => {}
        () = watch => tracing::error!("the thread that announces has ended"),
    }
    take_back(&daemon).await
}

/// A service in the library's form.
fn describe(announcement: &Announcement) -> Result<ServiceInfo, DiscoverError> {
    let Announcement { kind, endpoint, addresses } = announcement;
    let host = format!("{kind}.{SERVICE}");
    let strings = endpoint.strings();
    Ok(ServiceInfo::new(SERVICE, kind, &host, &addresses[..], endpoint.port, &strings[..])?)
}

/// Says goodbye for everything, and waits until that is sent.
async fn take_back(daemon: &ServiceDaemon) -> Result<(), DiscoverError> {
    let ended = daemon.shutdown()?;
    // Whoever does not hear it forgets the records when their time is over.
    if timeout(GOODBYE, ended.recv_async()).await.is_err() {
        tracing::warn!("the link was not told of the end in time");
    }
    Ok(())
}
