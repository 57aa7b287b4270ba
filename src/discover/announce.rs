//! Announcing services on the local link, for clients that know no resolver yet, such as a ramdisk.
//!
//! Each type is one instance, with the first endpoint that the configuration has for it. The instance's own name is its
//! host name on the link: names of other domains have no addresses there.
//!
//! **Conflicts.** RFC 6762 section 9 has whoever loses a name take another one. An instance of OpenStack's cannot: its
//! name is its type, and under another one nobody looks for it. So what another host announces is not announced here,
//! until that host is gone. Who announces the very same is no rival: the link may be told by two.
//!
//! Invariants: what was announced is taken back at the end (RFC 6762 section 10.1); nothing stays under a name that is
//! no type.
//!
//! Cost: a thread for each type, since the library forgets a conflict with its thread only; answers as the link asks.

use super::DiscoverError;
use super::link::{self, SERVICE, open};
use crate::static_zone::StaticZonePlan;
use crate::static_zone::openstack::Offer;
use mdns_sd::{DaemonEvent, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use wire::dnssd::{Endpoint, Host, ServiceType};
use wire::name::Name;
use wire::rr::rtype;

/// Longest wait at the end for all announcements to be taken back.
const GOODBYE: Duration = Duration::from_secs(3);
/// Longest time that an announcement may take before a warning: probes take less than a second (RFC 6762 section 8.1).
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for which no other host may use a name before it is taken.
const LOOK: Duration = Duration::from_secs(1);
/// The same after a conflict: whoever has the name may not answer those who only look, and RFC 6762 section 8.1 wants
/// five seconds between attempts that fail again and again.
const PAUSE: Duration = Duration::from_secs(10);

/// A service that is to be announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub kind: ServiceType,
    pub endpoint: Endpoint,
    pub addresses: Vec<IpAddr>,
}

/// Error: a plan cannot be announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0} is at {1}, which has no address in zone {2}; write \"A\" or \"AAAA\" records for it in \"services\"")]
    NoAddress(ServiceType, Name, Name),
    #[error("zones {0} and {1} both have {2}, and the link has room for one; choose with --zone")]
    Twice(Name, Name, ServiceType),
}

/// Returns the announcements of some zones: for each type the endpoint that is to be tried first.
pub fn plan<'p>(zones: impl IntoIterator<Item = &'p StaticZonePlan>) -> Result<Vec<Announcement>, PlanError> {
    let mut chosen: BTreeMap<&ServiceType, (&StaticZonePlan, &Offer)> = BTreeMap::new();
    for zone in zones {
        for offer in &zone.offers {
            let kind = &offer.kind;
            match chosen.get(kind) {
                Some((other, _)) if other.zone != zone.zone => {
                    return Err(PlanError::Twice(other.zone.clone(), zone.zone.clone(), kind.clone()));
                }
                Some((_, first)) if first.priority <= offer.priority => {}
                _ => _ = chosen.insert(kind, (zone, offer)),
            }
        }
    }
    let announcement = |(kind, (zone, offer)): (&ServiceType, (&StaticZonePlan, &Offer))| {
        let (kind, endpoint) = (kind.clone(), offer.endpoint.clone());
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
fn addresses_of(zone: &StaticZonePlan, host: &Host) -> Vec<IpAddr> {
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
    let (stop, stopped) = watch::channel(());
    let mut announcers = JoinSet::new();
    for announcement in announcements {
        announcers.spawn(keep(announcement.clone(), interfaces.to_vec(), stopped.clone()));
    }
    let mut result = tokio::select! {
        () = end => Ok(()),
        Some(first) = announcers.join_next() => first.expect("an announcer does not panic"),
    };
    drop(stop);
    while let Some(ended) = announcers.join_next().await {
        result = result.and(ended.expect("an announcer does not panic"));
    }
    result
}

/// Announces one service whenever no other host does, until it is told to stop.
async fn keep(
    announcement: Announcement,
    interfaces: Vec<String>,
    mut stopped: watch::Receiver<()>,
) -> Result<(), DiscoverError> {
    let (mut quiet, mut told) = (LOOK, false);
    loop {
        let daemon = open(&interfaces)?;
        let lost = tokio::select! {
            _ = stopped.changed() => None,
            lost = hold(&announcement, &daemon, quiet, &mut told) => Some(lost),
        };
        take_back(&daemon).await?;
        match lost {
            None => return Ok(()),
            Some(lost) => lost?,
        }
        quiet = PAUSE;
    }
}

/// Announces one service once its name is free, until another host turns out to have it. `told` says whether the log
/// has that already.
async fn hold(
    announcement: &Announcement,
    daemon: &ServiceDaemon,
    quiet: Duration,
    told: &mut bool,
) -> Result<(), DiscoverError> {
    wait_for_name(announcement, daemon, quiet, told).await?;
    let events = daemon.monitor()?;
    daemon.register(describe(announcement)?)?;
    let mut silent = true;
    loop {
        let event = match timeout(PATIENCE, events.recv_async()).await {
            Err(_) if silent => {
                let service = announcement.kind.as_str();
                tracing::warn!(service, "not announced yet; addresses are announced on links that they belong to");
                silent = false;
                continue;
            }
            Err(_) => continue,
            Ok(event) => event.map_err(|_| DiscoverError::Ended)?,
        };
        match event {
            DaemonEvent::NameChange(_) => {
                tell(announcement, told);
                return Ok(());
            }
            DaemonEvent::Announce(service, at) => {
                (silent, *told) = (false, false);
                tracing::info!(service, at, "announced");
            }
            DaemonEvent::Error(error) => tracing::warn!(%error, "multicast"),
            _ => {}
        }
    }
}

/// Waits until no host has had a name for some time.
async fn wait_for_name(
    announcement: &Announcement,
    daemon: &ServiceDaemon,
    quiet: Duration,
    told: &mut bool,
) -> Result<(), DiscoverError> {
    let instance = link::instance(&announcement.kind);
    let events = daemon.browse(SERVICE)?;
    let mut free_at = Some(Instant::now() + quiet);
    loop {
        let event = match free_at {
            Some(at) => timeout_at(at, events.recv_async()).await,
            None => Ok(events.recv_async().await),
        };
        match event {
            Err(_) => break,
            Ok(Err(_)) => return Err(DiscoverError::Ended),
            Ok(Ok(ServiceEvent::ServiceResolved(service))) if link::is_called(&service.fullname, &instance) => {
                if !is_same(announcement, &service) {
                    tell(announcement, told);
                    free_at = None;
                }
            }
            Ok(Ok(ServiceEvent::ServiceRemoved(_, name))) if link::is_called(&name, &instance) => {
                free_at = Some(Instant::now() + quiet);
            }
            Ok(Ok(_)) => {}
        }
    }
    Ok(daemon.stop_browse(SERVICE)?)
}

/// Returns true if another host announces the same as we would. RFC 6762 section 9: that is no conflict.
fn is_same(announcement: &Announcement, other: &ResolvedService) -> bool {
    let Announcement { kind, endpoint, addresses } = announcement;
    link::is_called(&other.host, &link::instance(kind))
        && other.port == endpoint.port
        && link::text_of(other) == endpoint.text()
        && link::addresses_of(other).all(|address| addresses.contains(&address))
}

/// Tells once that another host has a name.
fn tell(announcement: &Announcement, told: &mut bool) {
    if !std::mem::replace(told, true) {
        let kind = &announcement.kind;
        tracing::error!("another host announces {kind}; not announced until that one is gone");
    }
}

/// A service in the library's form.
fn describe(announcement: &Announcement) -> Result<ServiceInfo, DiscoverError> {
    let Announcement { kind, endpoint, addresses } = announcement;
    let host = format!("{kind}.{SERVICE}");
    let strings = endpoint.strings();
    Ok(ServiceInfo::new(SERVICE, kind.as_str(), &host, &addresses[..], endpoint.port, &strings[..])?)
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
