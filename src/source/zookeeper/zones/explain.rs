//! Explanation of a name's answers: the nodes behind its records, for an operator.
//!
//! Cost: O(records of the name).

use crate::source::zookeeper::zones::claims::{Claims, Id};
use crate::source::zookeeper::zones::reverse;
use crate::source::zookeeper::zones::tree::{Node, Tree};
use registrar::payload::{DEFAULT_TTL, Host, Payload, Service};
use wire::name::Name;

/// One node's part in the records of a name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// Path relative to the domain's node; empty for that node.
    pub path: String,
    /// The beginning of the node's newest data.
    pub payload: String,
    /// Records that the node gives to the name, with the TTL and its origin, or the reason for which it gives none.
    pub role: String,
}

impl Tree {
    /// The nodes that have to do with an owner name of any of the zones, those that give records first.
    pub fn explain(&self, name: &Name) -> Vec<Explanation> {
        let mut told = Vec::new();
        if let Some(winner) = self.winner(name.as_wire()) {
            self.explain_node(winner, &mut told);
            let others = self.owners.get(name).into_iter().flat_map(Claims::iter).filter(|id| *id != winner);
            let shadow = format!("in the shadow of {:?}, which has the same name in DNS", self.path(winner));
            others.for_each(|id| told.push(self.tell(id, shadow.clone())));
        }
        if let Some((node, service)) = self.service_of(name) {
            self.explain_service(node, service, &mut told);
        }
        if let Some(address) = reverse::address_of(name)
            && let Some(claims) = self.addresses.get(&address)
        {
            let chosen = self.reverse_winner(address);
            if let Some((id, host)) = chosen {
                let ttl = own_ttl(host);
                told.push(self.tell(id, format!("named by the PTR record, {ttl}")));
            }
            let others = claims.iter().filter(|id| chosen.is_none_or(|(chosen, _)| chosen != *id));
            others
                .for_each(|id| told.push(self.tell(id, "has the address, but another node has the PTR record".into())));
        }
        told
    }

    /// Tells of the node that has a name, and of a service's members.
    fn explain_node(&self, id: Id, told: &mut Vec<Explanation>) {
        let node = self.node(id);
        let role = match (&node.payload, node.fault) {
            (Payload::Nothing, _) => "no record: a part of the path".to_string(),
            (Payload::Broken, fault) => {
                format!("SERVFAIL: {}", fault.map_or_else(String::new, |fault| fault.to_string()))
            }
            (Payload::Host(host), fault) => {
                let ttl = self.host_ttl(id, host);
                let source = match self.service_above(id) {
                    Some(_) if host.ttl.is_none() && ttl != DEFAULT_TTL => "that of its service",
                    _ => own_or_default(host),
                };
                let kept = fault.map_or_else(String::new, |fault| format!("; newest data: {fault}"));
                format!("address {}, TTL {ttl} ({source}){kept}", host.address)
            }
            (Payload::Service(service), _) => format!("service with TTL {}", service.ttl),
        };
        told.push(self.tell(id, role));
        if let Payload::Service(service) = &node.payload {
            for (id, _, host) in self.members(node) {
                let ttl = host.ttl.map_or(service.ttl, |ttl| ttl.min(service.ttl));
                told.push(self.tell(id, format!("member with address {}, TTL at most {ttl}", host.address)));
            }
            let members: Vec<Id> = self.members(node).map(|(id, ..)| id).collect();
            for child in node.children.values().filter(|child| !members.contains(child)) {
                told.extend(self.outsider(*child).map(|reason| self.tell(*child, format!("no member: {reason}"))));
            }
        }
    }

    /// Reason for which a child of a service is no member of it, if it is none; none for parts of a path, which nobody
    /// takes for a member.
    fn outsider(&self, child: Id) -> Option<String> {
        let node = self.node(child);
        match &node.payload {
            Payload::Nothing => None,
            Payload::Broken => Some(node.fault.map_or_else(String::new, |fault| fault.to_string())),
            Payload::Host(host) if !host.kind.is_member() => {
                Some(format!("hosts of type \"{}\" are answered by name only", host.kind.as_str()))
            }
            Payload::Host(_) if node.owner.is_none() => Some("its name is none that DNS can have".into()),
            Payload::Host(_) => Some("another node has the same name in DNS".into()),
            Payload::Service(_) => Some("a service of its own".into()),
        }
    }

    /// Tells of a service and its members as its SRV records have them.
    fn explain_service(&self, node: &Node, service: &Service, told: &mut Vec<Explanation>) {
        let winner = node.owner.as_ref().and_then(|owner| self.winner(owner.as_wire()));
        told.extend(winner.map(|id| self.tell(id, format!("service with SRV records of TTL {}", service.ttl))));
        for (id, child, host) in self.members(node).filter(|(_, child, _)| child.owner.is_some()) {
            let ports = match (&host.ports, service.port) {
                (Some(ports), _) => format!("ports {ports:?}"),
                (None, Some(port)) => format!("port {port} of the service"),
                (None, None) => "no port".to_string(),
            };
            told.push(self.tell(id, format!("target {}, {ports}", child.name)));
        }
    }

    /// One node's part.
    fn tell(&self, id: Id, role: String) -> Explanation {
        let payload = String::from_utf8_lossy(&self.node(id).data).into_owned();
        Explanation { path: self.path(id), payload, role }
    }
}

/// A host's TTL when it is asked for by address.
fn own_ttl(host: &Host) -> String {
    format!("TTL {} ({})", host.ttl.unwrap_or(DEFAULT_TTL), own_or_default(host))
}

/// Origin of a host's TTL when no service sets one.
fn own_or_default(host: &Host) -> &'static str {
    if host.ttl.is_some() { "its own" } else { "it names none" }
}
