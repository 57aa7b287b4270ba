//! Classification of the faults of a zone's name servers, as a pure function of what they and the parent's servers have
//! said.
//!
//! Invariants: the same facts give the same findings in the same order; a server is unreachable only if somebody else
//! answers over its address family, since silence all around is rather this machine's; serials count only where both
//! are known (RFC 1982).
//!
//! Cost: O(servers × names).
//!
//! RFCs: 1034 section 4.2.2, 1982, 2181 section 10.3, 9471 section 3.

use super::sorted;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use wire::name::Name;
use wire::serial::Serial;

//--- What was found ---

/// Facts about the name servers of one zone.
#[derive(Clone, Debug)]
pub struct Facts {
    pub zone: Name,
    /// The NS names that the zone has here; none where that is not known, and then the first server that answers
    /// counts.
    pub wanted: Option<Vec<Name>>,
    /// Serial that every server must have by now.
    pub due: Option<Serial>,
    /// Serial that the zone has here now.
    pub current: Option<Serial>,
    /// True if the zone is here, and has no signatures.
    pub is_unsigned: bool,
    /// The servers of the parent zone, or why there are none.
    pub parents: Result<Vec<(SocketAddr, Delegation)>, String>,
    /// Every name that the zone or its parent lists.
    pub hosts: Vec<HostFacts>,
}

/// Delegation of the zone, as a server of the parent zone gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delegation {
    /// It refers to these, with the addresses that it gave along; secure if it has DS records beside them.
    Servers { names: Vec<Name>, glue: HashMap<Name, Vec<IpAddr>>, is_secure: bool },
    /// There is no such delegation.
    Absent,
    /// It answers for the zone itself, with these, so that what it refers others to cannot be seen.
    Same(Vec<Name>),
    /// No answer that is of use, and why.
    Unknown(String),
}

/// A name server and its addresses.
#[derive(Clone, Debug)]
pub struct HostFacts {
    pub name: Name,
    pub lookup: Lookup,
    /// The addresses that the parent gives for a name within the zone.
    pub glue: Vec<IpAddr>,
    /// Addresses that the zone itself has for the name, if an authoritative answer gave them.
    pub own: Option<Vec<IpAddr>>,
    pub servers: Vec<ServerFacts>,
}

/// Result of the search for a server's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Found,
    /// The name is an alias of another.
    Alias(Name),
    /// The name does not exist, or has no address.
    Absent,
    Failed(String),
}

/// One address of a name server.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    pub address: SocketAddr,
    /// True if it is an address of this machine, which does not show that others can reach it.
    pub is_here: bool,
    pub reply: Reply,
    /// A serial that it had so long ago that we should have it, too.
    pub earlier: Option<Serial>,
}

/// Reply of a server to the questions for the zone's SOA and NS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Authoritative answer.
    Authority { serial: Serial, ns: Vec<Name> },
    /// An answer without authority, or an error.
    Lame(String),
    /// No answer.
    Silent(String),
    /// This machine has no route to such an address, which says nothing about the server.
    NoRoute,
    /// The question could not be sent for another reason that lies here.
    Failed(String),
}

//--- What is wrong ---

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Problem {
    /// Answers, but not with authority for the zone.
    Lame,
    /// Does not answer.
    Unreachable,
    /// Has had an old version for too long.
    Stale,
    /// Has long had a version that we do not have.
    Ahead,
    /// Lists other name servers than the zone does.
    Foreign,
    /// The delegation lists a name within the zone without its address.
    NoGlue,
    /// The delegation gives an address that the name does not have.
    OtherGlue,
    /// The name has no address.
    Unresolved,
    /// The name is an alias.
    Alias,
    /// The parent does not delegate the zone.
    Undelegated,
    /// The parent has DS records of the zone, which is not signed.
    Ds,
    /// The check itself failed, so nothing is known.
    Unknown,
}

impl Problem {
    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Advice for the operator.
    pub fn advice(self) -> &'static str {
        match self {
            Problem::Lame => {
                "let the server have the zone, or take it out of the zone's NS records and of the delegation"
            }
            Problem::Unreachable => {
                "bring the server back, or take it out of the zone's NS records and of the delegation"
            }
            Problem::Stale => "see whether the server gets NOTIFY, and may transfer the zone",
            Problem::Ahead => "see what keeps this server from transferring the zone, or its members",
            Problem::Foreign => {
                "make the NS records the same everywhere: in the region's ns or at the zone's primary, on all servers, in the delegation"
            }
            Problem::NoGlue => "have the address added to the delegation",
            Problem::OtherGlue => "have the address in the delegation corrected",
            Problem::Unresolved => "give the name an address, or list another one",
            Problem::Alias => "give the name addresses of its own in place of the CNAME",
            Problem::Undelegated => {
                "have the zone delegated; one that is not to be found from outside belongs into skip of [probe]"
            }
            Problem::Ds => "have the DS records taken out of the parent zone; a region has no signatures",
            Problem::Unknown => {
                "see whether this machine reaches a resolver and the servers; resolver, parents and hosts of [probe] name others"
            }
        }
    }
}

/// Fault of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub problem: Problem,
    pub text: String,
}

/// Result of the check of one server, of a name without address, or of the parent zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerCheck {
    /// Name of the server; none for the parent's servers.
    pub name: Option<Name>,
    pub address: Option<SocketAddr>,
    pub serial: Option<Serial>,
    pub findings: Vec<Finding>,
    /// Reason for which there is no result, or only part of one, though that is no fault.
    pub note: Option<String>,
}

impl ServerCheck {
    /// The server in words, which is also its metric label.
    pub fn label(&self) -> String {
        let name = self.name.as_ref().map_or("parent".to_owned(), Name::to_string);
        self.address.map_or(name.clone(), |address| format!("{name} {address}"))
    }
}

/// Result of the check of all name servers of one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZoneCheck {
    pub zone: Name,
    /// The parent's servers first.
    pub servers: Vec<ServerCheck>,
}

impl ZoneCheck {
    /// Returns all faults, each with its server.
    pub fn findings(&self) -> impl Iterator<Item = (&ServerCheck, &Finding)> {
        self.servers.iter().flat_map(|server| server.findings.iter().map(move |finding| (server, finding)))
    }
}

/// Judges the facts about a zone.
pub fn classify(facts: &Facts) -> ZoneCheck {
    let answered = facts.hosts.iter().flat_map(|host| &host.servers).find_map(|server| match &server.reply {
        Reply::Authority { ns, .. } => Some(ns.clone()),
        _ => None,
    });
    let wanted = facts.wanted.clone().or(answered).map(sorted);
    let mut servers = judge_parents(facts, wanted.as_deref());
    for host in &facts.hosts {
        let findings = judge_name(facts, host);
        if host.servers.is_empty() || !findings.is_empty() {
            let name = Some(host.name.clone());
            servers.push(ServerCheck { name, address: None, serial: None, findings, note: None });
        }
        servers.extend(host.servers.iter().map(|server| judge_server(facts, wanted.as_deref(), &host.name, server)));
    }
    ZoneCheck { zone: facts.zone.clone(), servers }
}

/// Judges the answers of the parent's servers.
fn judge_parents(facts: &Facts, wanted: Option<&[Name]>) -> Vec<ServerCheck> {
    let row = |address, findings, note| ServerCheck { name: None, address, serial: None, findings, note };
    let parents = match &facts.parents {
        Ok(parents) => parents,
        Err(reason) => return vec![row(None, vec![finding(Problem::Unknown, reason.clone())], None)],
    };
    // One of several that is away does not keep resolvers from finding the zone.
    let is_known = parents.iter().any(|(_, said)| !matches!(said, Delegation::Unknown(_)));
    let judged = parents.iter().map(|(address, said)| {
        let (mut findings, mut note) = (Vec::new(), None);
        match said {
            Delegation::Servers { names, glue, is_secure } => {
                // RFC 1034 section 4.2.2: both sides of a cut have the same NS records.
                findings.extend(wanted.and_then(|wanted| compare(names, wanted, "the delegation", "the zone")));
                // RFC 9471 section 3: nobody can find the address of a name within the zone without it.
                let without = names.iter().filter(|name| name.is_within(&facts.zone) && !glue.contains_key(*name));
                let text = |name| format!("the delegation lists {name} without an address");
                findings.extend(without.map(|name| finding(Problem::NoGlue, text(name))));
                // RFC 4035 section 5.2: a secure delegation leads to a signed zone.
                if *is_secure && facts.is_unsigned {
                    let text = "it has DS records of the zone, which is not signed: clients that validate get SERVFAIL";
                    findings.push(finding(Problem::Ds, text.to_owned()));
                }
            }
            Delegation::Absent => {
                findings.push(finding(Problem::Undelegated, "the parent zone has no NS records of it".into()));
            }
            Delegation::Unknown(reason) if !is_known => findings.push(finding(Problem::Unknown, reason.clone())),
            Delegation::Unknown(reason) => {
                note = Some(format!("not known, others answer for the parent zone: {reason}"))
            }
            // Whoever comes by the parent gets this for an answer.
            Delegation::Same(names) => {
                findings.extend(wanted.and_then(|wanted| compare(names, wanted, "its own copy", "the zone")));
                note = Some("it has the zone itself, so the delegation cannot be seen there".into());
            }
        }
        row(Some(*address), findings, note)
    });
    judged.collect()
}

/// Judges what became of the search for addresses.
fn judge_name(facts: &Facts, host: &HostFacts) -> Vec<Finding> {
    let mut findings = match &host.lookup {
        Lookup::Found => Vec::new(),
        // RFC 2181 section 10.3.
        Lookup::Alias(target) => vec![finding(Problem::Alias, format!("it is an alias of {target}"))],
        // A resolver that does not find the zones above does not know this name space.
        Lookup::Absent if facts.parents.is_err() => {
            vec![finding(Problem::Unknown, "the resolver knows neither an address of it nor the parent zone".into())]
        }
        Lookup::Absent => vec![finding(Problem::Unresolved, "it has no address".into())],
        Lookup::Failed(reason) => vec![finding(Problem::Unknown, format!("no address could be found: {reason}"))],
    };
    let Some(own) = host.own.as_ref().filter(|_| !host.glue.is_empty()) else { return findings };
    // RFC 1034 section 4.2.2: the addresses at a cut are those that the zone has.
    let list = |addresses: Vec<&IpAddr>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let other: Vec<&IpAddr> = host.glue.iter().filter(|address| !own.contains(address)).collect();
    if own.is_empty() {
        let text = format!("it has no address in the zone, only {} in the delegation", list(other));
        findings.push(finding(Problem::Unresolved, text));
    } else if !other.is_empty() {
        let text = format!("the delegation gives {}, the zone {}", list(other), list(own.iter().collect()));
        findings.push(finding(Problem::OtherGlue, text));
    }
    findings
}

/// Judges the answers of one server.
fn judge_server(facts: &Facts, wanted: Option<&[Name]>, name: &Name, server: &ServerFacts) -> ServerCheck {
    let (mut findings, mut row_serial, mut note) = (Vec::new(), None, None);
    match &server.reply {
        Reply::NoRoute => note = Some("not asked: this machine has no way to such addresses".into()),
        Reply::Failed(reason) => findings.push(finding(Problem::Unknown, format!("it could not be asked: {reason}"))),
        Reply::Silent(reason) if is_heard(facts, server.address) => {
            findings.push(finding(Problem::Unreachable, reason.clone()));
        }
        Reply::Silent(reason) => {
            let family = if server.address.is_ipv4() { "IPv4" } else { "IPv6" };
            let text = format!("{reason}, and nobody else answers over {family}, so this machine may be cut off");
            findings.push(finding(Problem::Unknown, text));
        }
        Reply::Lame(reason) => findings.push(finding(Problem::Lame, reason.clone())),
        Reply::Authority { serial, ns } => {
            row_serial = Some(*serial);
            if let Some(due) = facts.due.filter(|due| due.newer_than(*serial)) {
                let text = format!("serial {serial} is old, {due} has been served for a while");
                findings.push(finding(Problem::Stale, text));
            }
            let ahead = server.earlier.zip(facts.current).filter(|(earlier, current)| earlier.newer_than(*current));
            if let Some((earlier, current)) = ahead {
                let text = format!("it has had serial {earlier} for a while, here is {current}");
                findings.push(finding(Problem::Ahead, text));
            }
            findings.extend(wanted.and_then(|wanted| compare(ns, wanted, "it", "the zone")));
        }
    }
    ServerCheck { name: Some(name.clone()), address: Some(server.address), serial: row_serial, findings, note }
}

/// Returns true if another machine answered over the address family of a server.
fn is_heard(facts: &Facts, server: SocketAddr) -> bool {
    let is_alike = |other: SocketAddr| other.is_ipv4() == server.is_ipv4();
    let mut parents = facts.parents.iter().flatten();
    let mut servers = facts.hosts.iter().flat_map(|host| &host.servers);
    parents.any(|(address, said)| is_alike(*address) && !matches!(said, Delegation::Unknown(_)))
        || servers.any(|other| {
            is_alike(other.address) && !other.is_here && matches!(other.reply, Reply::Authority { .. } | Reply::Lame(_))
        })
}

/// Compares two sets of name servers.
fn compare(theirs: &[Name], wanted: &[Name], they: &str, we: &str) -> Option<Finding> {
    let list = |names: &[Name], others: &[Name]| {
        let only = sorted(names.iter().filter(|name| !others.contains(name)).cloned());
        only.iter().map(Name::to_string).collect::<Vec<_>>().join(", ")
    };
    let (extra, missing) = (list(theirs, wanted), list(wanted, theirs));
    let text = match (extra.is_empty(), missing.is_empty()) {
        (true, true) => return None,
        (false, true) => format!("{they} lists {extra}, {we} does not"),
        (true, false) => format!("{they} does not list {missing}, {we} does"),
        (false, false) => format!("{they} lists {extra}, {we} lists {missing}"),
    };
    Some(finding(Problem::Foreign, text))
}

/// Shortens the above.
fn finding(problem: Problem, text: String) -> Finding {
    Finding { problem, text }
}

#[cfg(test)]
mod tests;
