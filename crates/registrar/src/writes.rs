//! Writes to ZooKeeper: the nodes that are made there, and those that are removed.
//!
//! A service record is written before the hosts, and only where it says something else; parents are made without
//! touching what is there. A node that an earlier session of this instance left, or another instance with the same
//! name, is replaced by deleting and creating it in one transaction, so that it is never seen missing. Registrar
//! deletes first, and waits a second so that those who watch notice that the node is another one; there is nothing to
//! notice: a watch on the node fires for the deletion all the same, and whoever reads then finds the new data (a mirror
//! that reads late never sees the gap of a second either).
//!
//! Who may have a name: at a registration the last one wins, as ever. A repair takes nothing from a session that lives,
//! or two instances with one name would take it from each other for ever; the node is made again when the other one
//! goes. A removal takes only what is ours: made by one of our sessions, at the host's own path, or with our address in
//! it; but never what another session was seen to take from us, which is the next process of the same instance more
//! often than not. A node that has others below it, or is a service's, is nobody's to replace.
//!
//! Invariants: the service's node is never removed; a failure at one node does not keep the others from being written
//! or removed; every operation may be repeated.
//!
//! Cost: one read for each node, and up to three requests more for each that differs; O(depth) for missing parents.

use crate::nodes::{self, Nodes, Znode};
use crate::state::Work;
use serde_json::Value;
use tracing::{debug, info};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, Stat};

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::registrar::writes";

/// Attempts at a node that others change at the same time.
const MOST_RACES: usize = 10;

/// Reason for which a node is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("{0}: {1}")]
    Refused(String, Error),
    #[error("{0}: another service's record is there; choose another name")]
    Service(String),
    #[error("{0}: there are nodes below it; choose another name")]
    HasChildren(String),
    #[error("{0}: others change it all the time")]
    Race(String),
}

impl WriteError {
    /// Returns true if the error lies with the connection, so that it passes by itself.
    pub fn is_outage(&self) -> bool {
        matches!(self, WriteError::Refused(_, Error::ConnectionLoss | Error::SessionExpired | Error::ClientClosed))
    }
}

/// Result of work at all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Errors of the nodes that are not as they should be.
    pub errors: Vec<WriteError>,
    /// Owned paths where another session has a node that was left alone.
    pub taken: Vec<String>,
}

impl Report {
    /// Notes what came of a node: true if it is as it should be, false if it was left to another session.
    fn note(&mut self, node: &Znode, result: Result<bool, WriteError>) {
        match result {
            Ok(true) => {}
            Ok(false) => self.taken.push(node.path.clone()),
            Err(error) => self.errors.push(error),
        }
    }
}

/// A session that writes, and what it writes.
pub struct Writer<'a> {
    pub client: &'a Client,
    pub nodes: &'a Nodes,
    /// Ids of this and earlier sessions of this process.
    pub sessions: &'a [i64],
    /// Owned paths that another session took after we had them.
    pub taken: &'a [String],
}

/// Node found at a path.
enum ExistingNode {
    Nothing,
    /// A node with the right data of the present session.
    Right,
    /// A node of the present session with other data.
    Stale,
    /// A node that somebody else made and that may be replaced.
    Other(Stat),
}

impl Writer<'_> {
    /// Does work at all nodes.
    pub async fn run(&self, work: Work) -> Report {
        match work {
            Work::Register => self.write(true).await,
            Work::Repair => self.write(false).await,
            Work::Remove => self.remove().await,
        }
    }

    /// Writes the service, then the owned nodes; takes names from other sessions only if it may `take_over`.
    async fn write(&self, take_over: bool) -> Report {
        let mut report = Report::default();
        if let Some(service) = &self.nodes.service {
            report.errors.extend(self.write_service(service, take_over).await.err());
        }
        for node in &self.nodes.owned {
            report.note(node, self.write_owned(node, take_over).await);
        }
        report
    }

    /// Writes the service's record where another is, or, when it may take nothing over, where none is.
    async fn write_service(&self, node: &Znode, take_over: bool) -> Result<(), WriteError> {
        let refused = |error| WriteError::Refused(node.path.clone(), error);
        for _ in 0..MOST_RACES {
            let (data, stat) = match self.client.get_data(&node.path).await {
                Ok(found) => found,
                Err(Error::NoNode) => match self.create(node, CreateMode::Persistent).await {
                    Ok(()) => return Ok(()),
                    Err(Error::NodeExists) => continue,
                    Err(error) => return Err(refused(error)),
                },
                Err(error) => return Err(refused(error)),
            };
            if says_the_same(&data, node.data.as_bytes()) || (!take_over && is_service(&data)) {
                return Ok(());
            }
            match self.client.set_data(&node.path, node.data.as_bytes(), Some(stat.version)).await {
                Ok(_) => {
                    info!(target: TARGET, path = node.path, "service record written");
                    return Ok(());
                }
                Err(Error::NoNode | Error::BadVersion) => continue,
                Err(error) => return Err(refused(error)),
            }
        }
        Err(WriteError::Race(node.path.clone()))
    }

    /// Writes a node that ends with the session; false if it is left to another session.
    async fn write_owned(&self, node: &Znode, take_over: bool) -> Result<bool, WriteError> {
        let refused = |error| WriteError::Refused(node.path.clone(), error);
        for _ in 0..MOST_RACES {
            let result = match self.look(node).await? {
                ExistingNode::Right => return Ok(true),
                ExistingNode::Nothing => self.create(node, CreateMode::Ephemeral).await,
                ExistingNode::Stale => {
                    let set = self.client.set_data(&node.path, node.data.as_bytes(), None).await;
                    set.map(|_| info!(target: TARGET, path = node.path, "data put back"))
                }
                ExistingNode::Other(stat) if !take_over && stat.ephemeral_owner != 0 => return Ok(false),
                ExistingNode::Other(stat) => self.replace(node, &stat).await,
            };
            match result {
                Ok(()) => return Ok(true),
                Err(Error::NoNode | Error::NodeExists | Error::BadVersion) => continue,
                Err(Error::NotEmpty) => return Err(WriteError::HasChildren(node.path.clone())),
                Err(error) => return Err(refused(error)),
            }
        }
        Err(WriteError::Race(node.path.clone()))
    }

    /// Reads the path of an owned node and compares it with that node.
    async fn look(&self, node: &Znode) -> Result<ExistingNode, WriteError> {
        let (data, stat) = match self.client.get_data(&node.path).await {
            Ok(found) => found,
            Err(Error::NoNode) => return Ok(ExistingNode::Nothing),
            Err(error) => return Err(WriteError::Refused(node.path.clone(), error)),
        };
        if stat.ephemeral_owner == self.client.session_id().0 {
            return Ok(if data == node.data.as_bytes() { ExistingNode::Right } else { ExistingNode::Stale });
        }
        if stat.num_children > 0 {
            return Err(WriteError::HasChildren(node.path.clone()));
        }
        if is_service(&data) {
            return Err(WriteError::Service(node.path.clone()));
        }
        Ok(ExistingNode::Other(stat))
    }

    /// Makes a node, and its parents if need be.
    async fn create(&self, node: &Znode, mode: CreateMode) -> Result<(), Error> {
        let mut made = self.client.create(&node.path, node.data.as_bytes(), &open_to_all(mode)).await;
        if matches!(made, Err(Error::NoNode))
            && let Some(parent) = nodes::parent(&node.path)
        {
            self.client.mkdir(parent, &open_to_all(CreateMode::Persistent)).await?;
            made = self.client.create(&node.path, node.data.as_bytes(), &open_to_all(mode)).await;
        }
        made.map(|_| info!(target: TARGET, path = node.path, "node made"))
    }

    /// Puts our node in the place of another, in one transaction.
    async fn replace(&self, node: &Znode, stat: &Stat) -> Result<(), Error> {
        let mut writer = self.client.new_multi_writer();
        writer.add_delete(&node.path, Some(stat.version))?;
        writer.add_create(&node.path, node.data.as_bytes(), &open_to_all(CreateMode::Ephemeral))?;
        writer.commit().await?;
        info!(target: TARGET, path = node.path, session = format!("{:#x}", stat.ephemeral_owner), "node of another session replaced");
        Ok(())
    }

    /// Removes every owned node that is ours.
    async fn remove(&self) -> Report {
        let mut report = Report::default();
        for (index, node) in self.nodes.owned.iter().enumerate() {
            let removed = self.remove_owned(node, index == 0).await;
            report.note(node, removed.map_err(|error| WriteError::Refused(node.path.clone(), error)));
        }
        report
    }

    /// Removes a node; false if it is not ours.
    async fn remove_owned(&self, node: &Znode, at_host: bool) -> Result<bool, Error> {
        loop {
            let (data, stat) = match self.client.get_data(&node.path).await {
                Ok(found) => found,
                Err(Error::NoNode) => return Ok(true),
                Err(error) => return Err(error),
            };
            let by_us = self.sessions.contains(&stat.ephemeral_owner);
            let is_lost = stat.ephemeral_owner != 0 && self.taken.contains(&node.path);
            let is_ours = by_us || !is_lost && (at_host || address_in(&data).as_deref() == Some(&self.nodes.address));
            if is_service(&data) || !is_ours {
                debug!(target: TARGET, path = node.path, "node of somebody else left alone");
                return Ok(false);
            }
            match self.client.delete(&node.path, Some(stat.version)).await {
                Ok(()) => info!(target: TARGET, path = node.path, "node removed"),
                Err(Error::NoNode) => {}
                // It changed in between: it is looked at again.
                Err(Error::BadVersion) => continue,
                Err(error) => return Err(error),
            }
            return Ok(true);
        }
    }
}

/// Options that permit everybody everything with a node, as Registrar has it.
fn open_to_all(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// Returns true if two data are the same octets or the same JSON.
fn says_the_same(data: &[u8], other: &[u8]) -> bool {
    let parse = |data| serde_json::from_slice::<Value>(data).ok();
    data == other || parse(data).is_some_and(|value| Some(value) == parse(other))
}

/// Returns true if data are a service's record.
fn is_service(data: &[u8]) -> bool {
    serde_json::from_slice::<Value>(data).is_ok_and(|value| value.get("type") == Some(&Value::from("service")))
}

/// The address in a host's record.
fn address_in(data: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(data).ok()?;
    value.get("address")?.as_str().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_compared_by_what_they_say() {
        let service = br#"{"type":"service","service":{"port":80,"ttl":60}}"#;
        let spaced = br#"{ "service": {"ttl": 60, "port": 80}, "type": "service" }"#;
        let other = br#"{"type":"service","service":{"port":81,"ttl":60}}"#;
        assert!(says_the_same(service, spaced) && !says_the_same(service, other));
        assert!(says_the_same(b"", b"") && !says_the_same(b"", service) && !says_the_same(b"{", b"["));
        assert!(is_service(service) && !is_service(b"") && !is_service(br#"{"type":"host"}"#) && !is_service(b"3"));
    }

    #[test]
    fn the_address_of_a_record_is_the_outer_one() {
        let host = br#"{"type":"host","address":"10.0.0.1","host":{"address":"10.0.0.2"}}"#;
        assert_eq!(address_in(host).as_deref(), Some("10.0.0.1"));
        assert_eq!(address_in(b"null"), None);
        assert_eq!(address_in(br#"{"address":5}"#), None);
    }
}
