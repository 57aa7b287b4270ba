//! Serials of regions of which this server remembers nothing, as other servers have them.
//!
//! A server that has lost its state would give a region the sum of its members' serials, although clients may have seen a
//! newer one, and secondaries would take no change until the sum has passed that. So before such a region is first
//! published, whoever may have it is asked for its SOA: its secondaries, the name servers that the configuration lists for
//! it, and another server at our own addresses.
//!
//! Invariants: all questions are asked at once and take [`PATIENCE`] together, whoever is silent; what is heard is only told
//! to the keeper, which believes it within bounds.
//!
//! Cost: a round trip or two for each server of such a region.
//!
//! RFCs: 1035 section 3.3.13 (SOA), 1982 (serials).

use crate::config::Config;
use crate::exchange::{self, Role};
use crate::merge::{NsPolicy, RegionPlan};
use crate::name::Name;
use crate::publish::Published;
use crate::serial::Serial;
use crate::state::Store;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, RecordType};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// How long all answers may take together.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where name servers are asked.
const DNS_PORT: u16 = 53;

/// Asks for all regions of a configuration that are neither served nor remembered.
pub async fn ask(config: &Config, store: Option<&Store>, published: &Published) -> HashMap<Name, Vec<Serial>> {
    let deadline = Instant::now() + PATIENCE;
    let remembered = store.map(Store::regions).unwrap_or_default();
    let is_new = |plan: &&RegionPlan| published.get(&plan.origin).is_none() && !remembered.contains_key(&plan.origin);
    let own = if published.generation == 0 { answering(&config.listen.dns, deadline).await } else { Vec::new() };
    let mut questions = JoinSet::new();
    for plan in config.regions.iter().filter(is_new) {
        let secondaries = config.targets.get(&plan.origin).into_iter().flatten().map(|target| target.address);
        let servers: HashSet<SocketAddr> = secondaries.chain(own.iter().copied()).collect();
        for server in servers {
            questions.spawn(ask_one(plan.origin.clone(), server));
        }
        let NsPolicy::Listed(names) = &plan.ns else { continue };
        for name in names {
            questions.spawn(ask_named(plan.origin.clone(), name.clone()));
        }
    }
    let mut heard: HashMap<Name, Vec<Serial>> = HashMap::new();
    while let Ok(Some(answer)) = timeout_at(deadline, questions.join_next()).await {
        // Who says nothing knows nothing.
        let Ok((region, serials)) = answer else { continue };
        heard.entry(region).or_default().extend(serials);
    }
    heard.retain(|_, serials| !serials.is_empty());
    for (region, serials) in &heard {
        tracing::info!(%region, ?serials, "nothing is remembered of the region; other servers have these serials");
    }
    heard
}

/// Our own addresses at which another server takes connections.
async fn answering(listen: &[SocketAddr], deadline: Instant) -> Vec<SocketAddr> {
    let mut tries = JoinSet::new();
    for &address in listen {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, address.port());
        tries.spawn(async move { TcpStream::connect(address).await.map(|_| address).ok() });
    }
    let mut found = Vec::new();
    while let Ok(Some(tried)) = timeout_at(deadline, tries.join_next()).await {
        found.extend(tried.ok().flatten());
    }
    found
}

/// Asks a name server that is known by name.
async fn ask_named(region: Name, server: Name) -> (Name, Vec<Serial>) {
    let mut serials = Vec::new();
    for address in lookup_host((server.to_string(), DNS_PORT)).await.into_iter().flatten() {
        serials.extend(ask_one(region.clone(), address).await.1);
    }
    (region, serials)
}

/// Asks a server for the serial of a region.
async fn ask_one(region: Name, server: SocketAddr) -> (Name, Vec<Serial>) {
    let answer = exchange::ask(server, &region, RecordType::SOA, Role::Authority, PATIENCE).await;
    let answer = answer
        .ok()
        .filter(|answer| answer.metadata.authoritative && answer.metadata.response_code == ResponseCode::NoError);
    let serials = answer.iter().flat_map(|answer| &answer.answers).filter_map(|record| match &record.data {
        RData::SOA(soa) if exchange::from_library(&record.name) == region => Some(Serial(soa.serial)),
        _ => None,
    });
    let serials = serials.collect();
    (region, serials)
}
