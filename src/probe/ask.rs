//! Finds the name servers of a zone and asks them: parent's servers, the delegation that they hold, addresses, SOA and NS.
//!
//! Invariants: at most [`AT_ONCE`] questions are under way, whatever the number of zones; a zone has at most [`MOST_HOSTS`] names
//! and a name [`MOST_ADDRESSES`] addresses that are asked, so that no zone can make us a weapon against others; nobody but the
//! resolver is asked to recurse.
//!
//! Cost: four questions for each server of a zone; one for each server of its parent, and without `parents` some to the resolver.
//!
//! RFCs: 1034 section 4.3.2 (referrals), 2181 section 5.4.1 (what has authority).

use super::classify::{Delegation, Facts, HostFacts, Lookup, Reply, ServerFacts};
use super::{ProbePlan, sorted};
use crate::exchange::{self, Role, from_library, rcode_name, to_library};
use crate::name::Name;
use crate::serial::Serial;
use hickory_client::NetError;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Questions under way.
const AT_ONCE: usize = 8;
/// Names that are looked at for a zone; thirteen is what fits into an answer of old.
const MOST_HOSTS: usize = 32;
/// Addresses of a name that are asked.
const MOST_ADDRESSES: usize = 8;
/// Servers of a parent zone that are asked.
const MOST_PARENTS: usize = 8;
/// Referrals from a parent's server on the way to the delegation.
const MOST_REFERRALS: usize = 4;
/// RFC 1035 section 4.2.
const DNS_PORT: u16 = 53;

/// A zone to be looked at, and what is known of it beforehand.
#[derive(Clone, Debug)]
pub struct Target {
    pub zone: Name,
    /// The NS names that it has here.
    pub wanted: Option<Vec<Name>>,
    /// The serial that it has here.
    pub current: Option<Serial>,
    /// What every server must have by now.
    pub due: Option<Serial>,
}

/// Asks.
pub struct Prober {
    plan: ProbePlan,
    /// Who finds names.
    resolvers: Vec<SocketAddr>,
    permits: Semaphore,
}

impl Prober {
    /// Makes one with a plan and the system's resolvers, which count where the plan has none.
    pub fn new(plan: ProbePlan, of_system: Vec<SocketAddr>) -> Arc<Prober> {
        let resolvers = if plan.resolvers.is_empty() { of_system } else { plan.resolvers.clone() };
        Arc::new(Prober { plan, resolvers, permits: Semaphore::new(AT_ONCE) })
    }

    /// Finds everything about a zone.
    pub async fn examine(self: &Arc<Self>, target: Target) -> Facts {
        let Target { zone, wanted, current, due } = target;
        let parents = self.ask_parents(&zone).await;
        let (mut listed, mut glue) = (wanted.clone().unwrap_or_default(), HashMap::new());
        for (_, said) in parents.iter().flatten() {
            match said {
                Delegation::Servers { names, glue: theirs } => {
                    listed.extend(names.iter().cloned());
                    glue.extend(theirs.iter().map(|(name, addresses)| (name.clone(), addresses.clone())));
                }
                Delegation::Same(names) => listed.extend(names.iter().cloned()),
                Delegation::Absent | Delegation::Unknown(_) => {}
            }
        }
        let mut tasks = JoinSet::new();
        for name in sorted(listed).into_iter().take(MOST_HOSTS) {
            let (prober, zone, glue) = (self.clone(), zone.clone(), glue.get(&name).cloned());
            tasks.spawn(async move { prober.examine_host(&zone, name, glue).await });
        }
        let mut hosts = tasks.join_all().await;
        hosts.sort_by(|a, b| a.name.canonical_cmp(&b.name));
        Facts { zone, wanted, due, current, parents, hosts }
    }

    /// Asks a server for a zone's SOA and NS records.
    pub async fn ask_server(&self, server: SocketAddr, zone: &Name) -> Reply {
        let soa = match self.ask_authority(server, zone, RecordType::SOA).await {
            Ok(records) => records,
            Err(reply) => return reply,
        };
        let serial = soa.iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some(Serial(soa.serial)),
            _ => None,
        });
        let Some(serial) = serial else { return Reply::Lame("it answers without an SOA".into()) };
        match self.ask_authority(server, zone, RecordType::NS).await {
            Ok(records) => Reply::Authority { serial, ns: sorted(ns_names(&records)) },
            Err(reply) => reply,
        }
    }

    /// The records of the zone's origin as a server has them with authority, or what it is without.
    async fn ask_authority(&self, server: SocketAddr, zone: &Name, rtype: RecordType) -> Result<Vec<Record>, Reply> {
        let response = self
            .ask(server, zone, rtype, Role::Authority)
            .await
            .map_err(|error| if is_without_route(&error) { Reply::NoRoute } else { Reply::Silent(describe(&error)) })?;
        match response.metadata.response_code {
            ResponseCode::NoError => {}
            code => return Err(Reply::Lame(format!("it answers {}", rcode_name(code)))),
        }
        if !response.metadata.authoritative {
            return Err(Reply::Lame("it answers without authority".into()));
        }
        Ok(records_at(response.answers, zone))
    }

    /// Asks when it is our turn.
    async fn ask(&self, server: SocketAddr, owner: &Name, rtype: RecordType, role: Role) -> Result<Message, NetError> {
        let _permit = self.permits.acquire().await.expect("nobody closes it");
        exchange::ask(server, owner, rtype, role, self.plan.timeout).await
    }

    //--- Names ---

    /// Looks for a name server's addresses, and asks all of them.
    async fn examine_host(&self, zone: &Name, name: Name, glue: Option<Vec<IpAddr>>) -> HostFacts {
        let (lookup, addresses) = self.addresses(zone, &name, glue).await;
        let mut servers = Vec::new();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            let reply = self.ask_server(address, zone).await;
            servers.push(ServerFacts { address, reply, earlier: None });
        }
        HostFacts { name, lookup, servers }
    }

    /// The addresses of a name server: as configured, else as the parent gives them for names within the zone, else as the
    /// resolver knows them.
    async fn addresses(&self, zone: &Name, name: &Name, glue: Option<Vec<IpAddr>>) -> (Lookup, Vec<SocketAddr>) {
        if let Some(addresses) = self.plan.hosts.get(name) {
            return (Lookup::Found, addresses.clone());
        }
        let with_port =
            |addresses: Vec<IpAddr>| addresses.into_iter().map(|ip| SocketAddr::new(ip, DNS_PORT)).collect();
        match glue {
            Some(glue) if name.is_within(zone) => (Lookup::Found, with_port(glue)),
            glue => match (self.resolve(name).await, glue) {
                ((Lookup::Failed(_), _), Some(glue)) => (Lookup::Found, with_port(glue)),
                ((lookup, addresses), _) => (lookup, with_port(addresses)),
            },
        }
    }

    /// The addresses of a name as the resolver knows them.
    async fn resolve(&self, name: &Name) -> (Lookup, Vec<IpAddr>) {
        let (mut addresses, mut alias, owner) = (Vec::new(), None, to_library(name));
        for rtype in [RecordType::A, RecordType::AAAA] {
            let answers = match self.find(name, rtype).await {
                Ok(answers) => answers,
                Err(reason) => return (Lookup::Failed(reason), addresses),
            };
            for record in answers {
                match record.data {
                    RData::A(address) => addresses.push(IpAddr::V4(address.0)),
                    RData::AAAA(address) => addresses.push(IpAddr::V6(address.0)),
                    RData::CNAME(target) if record.name == owner => alias = Some(from_library(&target.0)),
                    _ => {}
                }
            }
        }
        match alias {
            Some(target) => (Lookup::Alias(target), addresses),
            None if addresses.is_empty() => (Lookup::Absent, addresses),
            None => (Lookup::Found, addresses),
        }
    }

    /// What the first resolver that is of use answers.
    async fn find(&self, owner: &Name, rtype: RecordType) -> Result<Vec<Record>, String> {
        let mut last = "there is no resolver".to_owned();
        for server in &self.resolvers {
            last = match self.ask(*server, owner, rtype, Role::Resolver).await {
                Ok(response) => match response.metadata.response_code {
                    // Who neither recurses nor has the zone itself knows nothing about the name.
                    ResponseCode::NoError | ResponseCode::NXDomain
                        if response.metadata.authoritative || response.metadata.recursion_available =>
                    {
                        return Ok(response.answers);
                    }
                    ResponseCode::NoError | ResponseCode::NXDomain => format!("{server} does not recurse"),
                    code => format!("resolver {server} answers {}", rcode_name(code)),
                },
                Err(error) => format!("resolver {server}: {}", describe(&error)),
            };
        }
        Err(last)
    }

    //--- Parents ---

    /// Asks the servers of the parent zone for the delegation.
    async fn ask_parents(&self, zone: &Name) -> Result<Vec<(SocketAddr, Delegation)>, String> {
        let mut asked = Vec::new();
        for server in self.parent_servers(zone).await?.into_iter().take(MOST_PARENTS) {
            asked.push((server, self.delegation(server, zone).await));
        }
        Ok(asked)
    }

    /// The servers of the zone above: as configured, the nearest first, else as the resolver knows them.
    async fn parent_servers(&self, zone: &Name) -> Result<Vec<SocketAddr>, String> {
        let mut above = std::iter::successors(zone.parent(), Name::parent);
        if let Some(servers) = above.clone().find_map(|name| self.plan.parents.get(&name)) {
            return Ok(servers.clone());
        }
        let (found, names) = loop {
            let Some(name) = above.next() else { return Err("no zone above it was found".into()) };
            let answers =
                self.find(&name, RecordType::NS).await.map_err(|reason| format!("its parent zone: {reason}"))?;
            // Not every name is one of a zone.
            let names = sorted(ns_names(&records_at(answers, &name)));
            if !names.is_empty() {
                break (name, names);
            }
        };
        let mut servers = Vec::new();
        for name in names.iter().take(MOST_HOSTS) {
            servers.extend(self.addresses(&found, name, None).await.1);
        }
        if servers.is_empty() {
            Err(format!("no server of its parent zone {found} has an address"))
        } else {
            Ok(servers)
        }
    }

    /// What a server of a zone above refers to.
    async fn delegation(&self, mut server: SocketAddr, zone: &Name) -> Delegation {
        let mut cut = Name::root();
        for _ in 0..MOST_REFERRALS {
            let response = match self.ask(server, zone, RecordType::NS, Role::Authority).await {
                Ok(response) => response,
                Err(error) => return Delegation::Unknown(format!("{server}: {}", describe(&error))),
            };
            let is_authoritative = response.metadata.authoritative;
            match response.metadata.response_code {
                ResponseCode::NXDomain if is_authoritative => return Delegation::Absent,
                ResponseCode::NoError => {}
                code => return Delegation::Unknown(format!("{server} answers {}", rcode_name(code))),
            }
            if is_authoritative {
                // RFC 2181 section 5.4.1: records of a delegation have no authority, so these are those of the zone.
                let names = sorted(ns_names(&records_at(response.answers, zone)));
                return if names.is_empty() { Delegation::Absent } else { Delegation::Same(names) };
            }
            let referred = response.authorities.iter().find(|record| record.record_type() == RecordType::NS);
            let Some(owner) = referred.map(|record| from_library(&record.name)) else {
                return Delegation::Unknown(format!("{server} neither has authority nor refers to others"));
            };
            // A referral leads down (RFC 1034 section 4.3.2).
            if !zone.is_within(&owner) || !owner.is_within(&cut) || owner == cut {
                return Delegation::Unknown(format!("{server} refers to {owner}"));
            }
            let names = sorted(ns_names(&records_at(response.authorities, &owner)));
            let glue = collect_glue(&response.additionals);
            if owner == *zone {
                return Delegation::Servers { names, glue };
            }
            let mut next = None;
            for name in names.iter().take(MOST_HOSTS) {
                let (_, addresses) = self.addresses(&owner, name, glue.get(name).cloned()).await;
                next = next.or(addresses.into_iter().next());
                if next.is_some() {
                    break;
                }
            }
            match next {
                Some(next) => (server, cut) = (next, owner),
                None => return Delegation::Unknown(format!("no server of {owner} has an address")),
            }
        }
        Delegation::Unknown("referred too often".into())
    }
}

/// The records of one owner.
fn records_at(records: Vec<Record>, owner: &Name) -> Vec<Record> {
    let owner = to_library(owner);
    records.into_iter().filter(|record| record.name == owner).collect()
}

/// The names in NS records.
fn ns_names(records: &[Record]) -> Vec<Name> {
    let name = |record: &Record| match &record.data {
        RData::NS(ns) => Some(from_library(&ns.0)),
        _ => None,
    };
    records.iter().filter_map(name).collect()
}

/// The addresses that came along with a referral.
fn collect_glue(records: &[Record]) -> HashMap<Name, Vec<IpAddr>> {
    let mut glue: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    for record in records {
        let address = match &record.data {
            RData::A(address) => IpAddr::V4(address.0),
            RData::AAAA(address) => IpAddr::V6(address.0),
            _ => continue,
        };
        glue.entry(from_library(&record.name)).or_default().push(address);
    }
    glue
}

/// What kept an answer from coming, without the library's words where there are plain ones.
fn describe(error: &NetError) -> String {
    match error {
        NetError::Timeout => "no answer".to_owned(),
        NetError::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Whether this machine cannot send to such addresses at all, as one without IPv6.
fn is_without_route(error: &NetError) -> bool {
    let NetError::Io(error) = error else { return false };
    matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable)
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}
