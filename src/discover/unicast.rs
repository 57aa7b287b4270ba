//! Services of a domain, found through a resolver.
//!
//! SRV and TXT are asked for one by one: many servers answer ANY with one of them only (RFC 8482). A TXT record that is
//! missing is an empty one (RFC 6763 section 6.1).
//!
//! A region has one TXT record for the endpoints of all its datacenters, and they may be at other paths. So where
//! several are offered, an endpoint whose host belongs to another domain is described by that domain's own record, if
//! it offers the very same host and port there.
//!
//! Cost: a round trip for each question, over TCP once more where an answer is cut off; for an endpoint in another
//! domain one for each label of its host's name at most, and each domain is asked once.

use super::{DiscoverError, DiscoveredService, Record, address_hosts, arrange, instance, is_host_name};
use crate::client::{Question, Role, from_library, rcode_name};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{RData, RecordType};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::dnssd::{Host, ServiceType, text};
use wire::name::Name;

/// File that lists the system's resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The port of name servers.
pub const DNS_PORT: u16 = 53;

/// Finds a service of a domain, with these resolvers. Beside the endpoints are told the reasons why others could not be
/// found; without any endpoint the first of them is the error.
pub async fn discover(
    kind: &ServiceType,
    domain: &Name,
    servers: &[SocketAddr],
    patience: Duration,
) -> Result<(Vec<DiscoveredService>, Vec<DiscoverError>), DiscoverError> {
    let instance = instance(kind, domain).map_err(|_| DiscoverError::Missing(domain.clone()))?;
    let resolver = Resolver { servers, patience };
    let services = resolver.services(&instance).await?;
    if services.is_empty() {
        return Err(DiscoverError::Missing(instance));
    }
    let described = resolver.description(&instance).await?;
    let mut own = OwnRecords { kind, domain, known: HashMap::new() };
    let several = services.len() > 1;
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    for service in services {
        let target = from_library(&service.target);
        // RFC 2782: the root says that the service is not available.
        if target == Name::root() {
            continue;
        }
        let described = match several {
            true => own.description(&resolver, &target, service.port).await.unwrap_or_else(|| described.clone()),
            false => described.clone(),
        };
        let hosts = if is_host_name(&target) { Ok(vec![Host::Name(target)]) } else { resolver.hosts(&target).await };
        let hosts = match hosts {
            Ok(hosts) => hosts,
            // The other endpoints may do without it.
            Err(error) => {
                lost.push(error);
                continue;
            }
        };
        let (priority, weight, port) = (service.priority, service.weight, service.port);
        records.push(Record { hosts, priority, weight, port, text: described });
    }
    if records.is_empty() {
        return Err(lost.into_iter().next().unwrap_or(DiscoverError::NotOffered(instance)));
    }
    Ok((arrange(&instance, records)?, lost))
}

/// Records of a service in domains other than the one that was asked for.
struct OwnRecords<'d> {
    kind: &'d ServiceType,
    domain: &'d Name,
    /// Records by domain; none for a domain that offers nothing.
    known: HashMap<Name, Option<Own>>,
}

/// Records of a service that one domain has itself.
struct Own {
    /// Hosts and ports.
    offered: Vec<(Name, u16)>,
    /// The TXT record's RDATA.
    described: Vec<u8>,
}

impl OwnRecords<'_> {
    /// The description of an endpoint by the nearest domain above its host that offers it; none where that is the
    /// domain that was asked for or nobody, and none of a domain that does not answer, for the endpoint is known
    /// without it.
    async fn description(&mut self, resolver: &Resolver<'_>, host: &Name, port: u16) -> Option<Vec<u8>> {
        let mut above = host.parent();
        while let Some(domain) = above.filter(|domain| !self.domain.is_within(domain)) {
            if !self.known.contains_key(&domain) {
                let found = self.ask(resolver, &domain).await;
                self.known.insert(domain.clone(), found);
            }
            if let Some(Some(Own { offered, described })) = self.known.get(&domain)
                && offered.iter().any(|(target, at)| target == host && *at == port)
            {
                return Some(described.clone());
            }
            above = domain.parent();
        }
        None
    }

    /// Asks for the service's own records in a domain.
    async fn ask(&self, resolver: &Resolver<'_>, domain: &Name) -> Option<Own> {
        let instance = instance(self.kind, domain).ok()?;
        let services = resolver.services(&instance).await.ok()?;
        if services.is_empty() {
            return None;
        }
        let offered = services.iter().map(|service| (from_library(&service.target), service.port)).collect();
        Some(Own { offered, described: resolver.description(&instance).await.ok()? })
    }
}

/// The resolvers of the system.
pub fn system_servers() -> Result<Vec<SocketAddr>, DiscoverError> {
    let text = std::fs::read_to_string(RESOLV_CONF).map_err(DiscoverError::NoResolver)?;
    let servers = parse_servers(&text);
    if servers.is_empty() { Err(DiscoverError::NoServer) } else { Ok(servers) }
}

/// The addresses that a resolv.conf names.
fn parse_servers(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address: IpAddr = words.next().filter(|word| *word == "nameserver").and(words.next())?.parse().ok()?;
        Some(SocketAddr::new(address, DNS_PORT))
    };
    text.lines().filter_map(address).collect()
}

/// Servers, to be asked one after the other.
struct Resolver<'s> {
    servers: &'s [SocketAddr],
    patience: Duration,
}

impl Resolver<'_> {
    /// The data of the records of a name and type, whatever aliases lead there; none if there are none.
    async fn ask(&self, owner: &Name, rtype: RecordType) -> Result<Vec<RData>, DiscoverError> {
        let mut last = DiscoverError::NoServer;
        for server in self.servers {
            let response = match Question::new(owner, rtype, Role::Resolver).ask(&(*server).into(), self.patience).await
            {
                Ok(response) => response,
                Err(error) => {
                    last = DiscoverError::Silent(server.to_string(), error.to_string());
                    continue;
                }
            };
            match response.metadata.response_code {
                ResponseCode::NoError | ResponseCode::NXDomain => {
                    let answers = response.answers.into_iter().filter(|record| record.record_type() == rtype);
                    return Ok(answers.map(|record| record.data).collect());
                }
                code => last = DiscoverError::Rcode(server.to_string(), rcode_name(code)),
            }
        }
        Err(last)
    }

    /// The data of an instance's SRV records.
    async fn services(&self, instance: &Name) -> Result<Vec<SRV>, DiscoverError> {
        let service = |data| match data {
            RData::SRV(service) => Some(service),
            _ => None,
        };
        Ok(self.ask(instance, RecordType::SRV).await?.into_iter().filter_map(service).collect())
    }

    /// The TXT record that describes an instance; an empty one if there is none (RFC 6763 section 6.1).
    async fn description(&self, instance: &Name) -> Result<Vec<u8>, DiscoverError> {
        let described = self.ask(instance, RecordType::TXT).await?.into_iter().filter_map(|data| match data {
            RData::TXT(txt) => Some(text::write(txt.txt_data.iter().map(|string| &**string))),
            _ => None,
        });
        // RFC 6763 section 6.8: there may be other formats beside ours, which says what it is.
        let described: Vec<Vec<u8>> = described.collect();
        let ours = described.iter().find(|rdata| text::get(rdata, "txtvers") == Some(Some(b"1")));
        Ok(ours.or(described.first()).cloned().unwrap_or_else(|| text::write([])))
    }

    /// The addresses of a host.
    async fn hosts(&self, host: &Name) -> Result<Vec<Host>, DiscoverError> {
        let mut addresses = Vec::new();
        for rtype in [RecordType::A, RecordType::AAAA] {
            addresses.extend(self.ask(host, rtype).await?.iter().filter_map(RData::ip_addr));
        }
        if addresses.is_empty() { Err(DiscoverError::NoAddress(host.clone())) } else { Ok(address_hosts(addresses)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_from_the_systems_file() {
        let text = "# nameserver 192.0.2.1\nsearch example\nnameserver 192.0.2.2 \n nameserver\t2001:db8::1\nnameserver\nnameserver x\n";
        let servers: Vec<String> = parse_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.2:53", "[2001:db8::1]:53"]);
    }
}
