//! Finds the name servers of a zone and asks them: parent's servers, the delegation that they hold, addresses, SOA and
//! NS.
//!
//! Invariants: at most [`AT_ONCE`] questions are under way, whatever the number of zones; a zone has at most
//! [`MOST_HOSTS`] names and a name [`MOST_ADDRESSES`] addresses that are asked, so that no zone can make us a weapon
//! against others; nobody but the resolver is asked to recurse.
//!
//! Cost: two questions for each server of a zone, and two more where its name is within the zone; one for each server
//! of its parent, and some to the resolver.
//!
//! RFCs: 1034 section 4.3.2 (referrals), 2181 section 5.4.1 (what has authority), 9471 (glue that has no room).

use super::classify::{Delegation, Facts, HostFacts, Lookup, Reply, ServerFacts};
use super::{ProbePlan, sorted};
use crate::client::{ClientError, Question, Role, from_library, rcode_name, soa_of, to_library};
use hickory_client::NetError;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::name::Name;
use wire::serial::Serial;

/// Questions under way.
const AT_ONCE: usize = 8;
/// Largest number of names checked for a zone; thirteen is what fits into an answer without EDNS.
const MOST_HOSTS: usize = 32;
/// Addresses of a name that are asked.
const MOST_ADDRESSES: usize = 8;
/// Servers of a parent zone that are asked.
const MOST_PARENTS: usize = 8;
/// Referrals from a parent's server on the way to the delegation.
const MOST_REFERRALS: usize = 4;

/// Zone to check, and the facts known beforehand.
#[derive(Clone, Debug)]
pub struct Target {
    pub zone: Name,
    /// The NS names that it has here.
    pub wanted: Option<Vec<Name>>,
    /// The serial that it has here.
    pub current: Option<Serial>,
    /// Serial that every server must have by now.
    pub due: Option<Serial>,
    /// True if the zone is here, and has no signatures.
    pub is_unsigned: bool,
}

/// Asks.
pub struct Prober {
    plan: ProbePlan,
    /// Resolvers for names, in the order of use.
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
        let Target { zone, wanted, current, due, is_unsigned } = target;
        let parents = self.ask_parents(&zone).await;
        let mut listed = wanted.clone().unwrap_or_default();
        let mut glue: HashMap<Name, Vec<IpAddr>> = HashMap::new();
        for (_, said) in parents.iter().flatten() {
            match said {
                Delegation::Servers { names, glue: theirs, .. } => {
                    listed.extend(names.iter().cloned());
                    // What one of the parent's servers gives is what a part of the clients gets.
                    for (name, addresses) in theirs {
                        let known = glue.entry(name.clone()).or_default();
                        known.extend(addresses);
                        known.sort_unstable();
                        known.dedup();
                    }
                }
                Delegation::Same(names) => listed.extend(names.iter().cloned()),
                Delegation::Absent | Delegation::Unknown(_) => {}
            }
        }
        let mut tasks = JoinSet::new();
        for name in sorted(listed).into_iter().take(MOST_HOSTS) {
            let (prober, zone, glue) = (self.clone(), zone.clone(), glue.remove(&name).unwrap_or_default());
            tasks.spawn(async move { prober.examine_host(&zone, name, glue).await });
        }
        let mut hosts = tasks.join_all().await;
        hosts.sort_by(|a, b| a.name.canonical_cmp(&b.name));
        Facts { zone, wanted, due, current, is_unsigned, parents, hosts }
    }

    /// Asks a server for a zone's SOA and NS records.
    pub async fn ask_server(&self, server: SocketAddr, zone: &Name) -> Reply {
        let soa = match self.ask_origin(server, zone, RecordType::SOA).await {
            Ok(response) if response.metadata.authoritative => response,
            Ok(_) => return Reply::Lame("it answers without authority".into()),
            Err(reply) => return reply,
        };
        let Some((_, serial)) = soa_of(&soa, zone) else { return Reply::Lame("it answers without an SOA".into()) };
        match self.ask_origin(server, zone, RecordType::NS).await {
            // CNS has the zone, as it has just said, but never sets AA beside NS records (`docs/cns.md` 5).
            Ok(response) => Reply::Authority { serial, ns: name_servers(&response.answers, zone) },
            Err(reply) => reply,
        }
    }

    /// Returns true if a server says with authority that a zone has no keys.
    pub async fn is_unsigned(&self, server: SocketAddr, zone: &Name) -> bool {
        let keys = self.ask_origin(server, zone, RecordType::DNSKEY).await;
        keys.is_ok_and(|response| response.metadata.authoritative && response.answers.is_empty())
    }

    /// Asks a server for one type at the zone's origin. Returns the answer if it is NOERROR, else the reply that stands
    /// for the failure.
    async fn ask_origin(&self, server: SocketAddr, zone: &Name, rtype: RecordType) -> Result<Message, Reply> {
        let response = self.ask(server, zone, rtype, Role::Authority).await.map_err(|error| reply_of(&error))?;
        match response.metadata.response_code {
            ResponseCode::NoError => Ok(response),
            code => Err(Reply::Lame(format!("it answers {}", rcode_name(code)))),
        }
    }

    /// Asks when it is our turn.
    async fn ask(
        &self,
        server: SocketAddr,
        owner: &Name,
        rtype: RecordType,
        role: Role,
    ) -> Result<Message, ClientError> {
        let _permit = self.permits.acquire().await.expect("nobody closes it");
        Question::new(owner, rtype, role).ask(&server.into(), self.plan.timeout).await
    }

    /// Asks for NS records over TCP when it is our turn.
    async fn ask_over_tcp(&self, server: SocketAddr, zone: &Name) -> Result<Message, ClientError> {
        let _permit = self.permits.acquire().await.expect("nobody closes it");
        Question::new(zone, RecordType::NS, Role::Authority).ask_tcp(&server.into(), self.plan.timeout).await
    }

    //--- Names ---

    /// Looks for a name server's addresses, and asks all of them.
    async fn examine_host(&self, zone: &Name, name: Name, mut glue: Vec<IpAddr>) -> HostFacts {
        let (mut lookup, addresses) = self.addresses(zone, &name, &glue).await;
        let mut servers = self.ask_all(zone, addresses).await;
        // Only the zone itself says whether the addresses of names within it are right.
        if self.plan.hosts.contains_key(&name) || !name.is_within(zone) {
            glue.clear();
        }
        let mut own = None;
        if !glue.is_empty() {
            for server in servers.iter().filter(|server| matches!(server.reply, Reply::Authority { .. })) {
                own = own.or(self.own_addresses(server.address, &name).await);
            }
        }
        let own = own.map(|(alias, addresses)| {
            lookup = alias.map_or(lookup.clone(), Lookup::Alias);
            addresses
        });
        let others = own.iter().flatten().filter(|address| !glue.contains(address)).copied();
        servers.extend(self.ask_all(zone, self.with_port(others)).await);
        HostFacts { name, lookup, glue, own, servers }
    }

    /// Asks all addresses of a name server, as far as that is decent.
    async fn ask_all(&self, zone: &Name, addresses: Vec<SocketAddr>) -> Vec<ServerFacts> {
        let mut servers = Vec::new();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            let reply = self.ask_server(address, zone).await;
            servers.push(ServerFacts { address, is_here: is_here(address.ip()), reply, earlier: None });
        }
        servers
    }

    /// Asks a server of the zone for a name in it. Returns the alias or the addresses, if the answer is authoritative.
    async fn own_addresses(&self, server: SocketAddr, name: &Name) -> Option<(Option<Name>, Vec<IpAddr>)> {
        let (mut addresses, mut alias) = (Vec::new(), None);
        for rtype in [RecordType::A, RecordType::AAAA] {
            let response = self.ask(server, name, rtype, Role::Authority).await.ok()?;
            let is_known = matches!(response.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain);
            if !response.metadata.authoritative || !is_known {
                return None;
            }
            sort_out(response.answers, name, &mut addresses, &mut alias);
        }
        Some((alias, addresses))
    }

    /// The addresses of a name server: as configured, else as the parent gives them for names within the zone, else as
    /// the resolver knows them.
    async fn addresses(&self, zone: &Name, name: &Name, glue: &[IpAddr]) -> (Lookup, Vec<SocketAddr>) {
        if let Some(addresses) = self.plan.hosts.get(name) {
            return (Lookup::Found, addresses.clone());
        }
        let with_glue = || (Lookup::Found, self.with_port(glue.iter().copied()));
        if !glue.is_empty() && name.is_within(zone) {
            return with_glue();
        }
        match self.resolve(name).await {
            (Lookup::Failed(_), _) if !glue.is_empty() => with_glue(),
            (lookup, addresses) => (lookup, self.with_port(addresses)),
        }
    }

    /// Addresses with the port of name servers.
    fn with_port(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<SocketAddr> {
        addresses.into_iter().map(|ip| SocketAddr::new(ip, self.plan.port)).collect()
    }

    /// The addresses of a name as the resolver knows them.
    async fn resolve(&self, name: &Name) -> (Lookup, Vec<IpAddr>) {
        let (mut addresses, mut alias, mut failure) = (Vec::new(), None, None);
        for rtype in [RecordType::A, RecordType::AAAA] {
            match self.find(name, rtype).await {
                Ok(answers) => sort_out(answers, name, &mut addresses, &mut alias),
                Err(reason) => failure = Some(reason),
            }
        }
        match alias {
            Some(target) => (Lookup::Alias(target), addresses),
            // Addresses of one family are enough, whatever became of the other.
            None if !addresses.is_empty() => (Lookup::Found, addresses),
            None => (failure.map_or(Lookup::Absent, Lookup::Failed), addresses),
        }
    }

    /// Returns the records that the first usable resolver answers with.
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
                Err(error) => format!("resolver {server}: {}", error.describe()),
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
            let names = name_servers(&answers, &name);
            if !names.is_empty() {
                break (name, names);
            }
        };
        // The root is not asked about name spaces that it does not have, such as those of private networks.
        if found == Name::root() && zone.label_count() > 1 {
            return Err("nothing above it is in the DNS that the resolver knows".into());
        }
        let mut servers = Vec::new();
        for name in names.iter().take(MOST_HOSTS) {
            servers.extend(self.addresses(&found, name, &[]).await.1);
        }
        if servers.is_empty() {
            Err(format!("no server of its parent zone {found} has an address"))
        } else {
            Ok(servers)
        }
    }

    /// Returns true if a server of the parent zone says that validators have to expect signatures in the zone.
    async fn has_ds(&self, server: SocketAddr, zone: &Name) -> bool {
        // Whoever does not answer this one has told the delegation, which is what counts.
        let Ok(response) = self.ask(server, zone, RecordType::DS, Role::Authority).await else { return false };
        let is_of_zone =
            |record: &Record| from_library(&record.name) == *zone && record.record_type() == RecordType::DS;
        response.metadata.authoritative && response.answers.iter().any(is_of_zone)
    }

    /// Follows referrals from a server above the zone to the parent's delegation of the zone.
    async fn delegation(&self, mut server: SocketAddr, zone: &Name) -> Delegation {
        let mut cut = Name::root();
        for _ in 0..MOST_REFERRALS {
            let response = match self.ask(server, zone, RecordType::NS, Role::Authority).await {
                Ok(response) => response,
                Err(error) => return Delegation::Unknown(format!("{server}: {}", error.describe())),
            };
            let is_authoritative = response.metadata.authoritative;
            match response.metadata.response_code {
                ResponseCode::NXDomain if is_authoritative => {
                    let is_of_root = response.authorities.iter().any(|record| record.name.is_root());
                    return if is_of_root {
                        Delegation::Unknown(format!("{server} knows nothing above it but the root"))
                    } else {
                        Delegation::Absent
                    };
                }
                ResponseCode::NoError => {}
                code => return Delegation::Unknown(format!("{server} answers {}", rcode_name(code))),
            }
            if is_authoritative {
                // RFC 2181 section 5.4.1: records of a delegation have no authority, so these are those of the zone.
                let names = name_servers(&response.answers, zone);
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
            let names = name_servers(&response.authorities, &owner);
            let mut glue = collect_glue(&response.additionals);
            if owner == *zone {
                let lacks_some = |name: &Name| name.is_within(zone) && !glue.contains_key(name);
                // Before RFC 9471, addresses that had no room were left out without a word.
                if names.iter().any(lacks_some)
                    && let Ok(whole) = self.ask_over_tcp(server, zone).await
                {
                    glue.extend(collect_glue(&whole.additionals));
                }
                let is_secure = self.has_ds(server, zone).await;
                return Delegation::Servers { names, glue, is_secure };
            }
            let mut next = None;
            for name in names.iter().take(MOST_HOSTS) {
                let given = glue.get(name).map_or(&[][..], Vec::as_slice);
                let (_, addresses) = self.addresses(&owner, name, given).await;
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

/// The names in the NS records of one owner, in canonical order.
fn name_servers(records: &[Record], owner: &Name) -> Vec<Name> {
    let owner = to_library(owner);
    sorted(records.iter().filter(|record| record.name == owner).filter_map(|record| match &record.data {
        RData::NS(ns) => Some(from_library(&ns.0)),
        _ => None,
    }))
}

/// The addresses that came along with a referral.
fn collect_glue(records: &[Record]) -> HashMap<Name, Vec<IpAddr>> {
    let mut glue: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    for record in records {
        if let Some(address) = record.data.ip_addr() {
            glue.entry(from_library(&record.name)).or_default().push(address);
        }
    }
    glue
}

/// Takes addresses and the alias of a name out of answers.
fn sort_out(answers: Vec<Record>, name: &Name, addresses: &mut Vec<IpAddr>, alias: &mut Option<Name>) {
    let owner = to_library(name);
    for record in answers {
        addresses.extend(record.data.ip_addr());
        if let RData::CNAME(target) = record.data
            && record.name == owner
        {
            *alias = Some(from_library(&target.0));
        }
    }
}

/// Returns the kind of reply that a failed exchange stands for.
fn reply_of(error: &ClientError) -> Reply {
    let reason = error.describe();
    let Some(NetError::Io(error)) = error.of_library() else { return Reply::Silent(reason) };
    match error.kind() {
        ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => Reply::NoRoute,
        // A firewall on this machine.
        ErrorKind::PermissionDenied => Reply::NoRoute,
        ErrorKind::ConnectionRefused
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::HostUnreachable
        | ErrorKind::TimedOut
        | ErrorKind::UnexpectedEof => Reply::Silent(reason),
        _ if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => Reply::NoRoute,
        // Such as too many open files.
        _ => Reply::Failed(reason),
    }
}

/// Returns true if an address is this machine's own. Loopback counts as any other, since tests have all servers there.
fn is_here(ip: IpAddr) -> bool {
    !ip.is_loopback() && UdpSocket::bind((ip, 0)).is_ok()
}
