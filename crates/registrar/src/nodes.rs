//! The nodes that belong to a registration: their paths and their data, byte for byte as Registrar writes them.
//!
//! Invariants: no path occurs twice; none of the owned ones lies below another of them, because a node that ends with
//! its session can have none below it.
//!
//! Cost: O(nodes).

use crate::config::Registration;
use crate::payload::HostPayload;

/// Path and data of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    pub path: String,
    pub data: String,
}

/// Everything that a registration writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The record of the service, shared with other instances; it outlives the session.
    pub service: Option<Znode>,
    /// The records of this instance, which end with its session: the host's first, then the aliases in their order.
    pub owned: Vec<Znode>,
    /// The address in the records.
    pub address: String,
}

/// Error: no nodes can be made of a registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    #[error("the host name {0:?} cannot be part of a path; write another with --hostname")]
    HostName(String),
    #[error("the alias {0:?} is below the node of this host, which can have none below it; write another name")]
    BelowHost(String),
}

impl Nodes {
    /// The nodes of a registration on a host.
    pub fn new(registration: &Registration, host_name: &str, address: &str) -> Result<Nodes, NodesError> {
        if host_name.is_empty() || [".", ".."].contains(&host_name) || host_name.contains(['/', '\0']) {
            return Err(NodesError::HostName(host_name.to_string()));
        }
        let data = HostPayload {
            kind: registration.kind.clone(),
            address: address.to_string(),
            ttl: registration.ttl.clone(),
            ports: registration.ports.clone(),
        };
        let data = data.to_json();
        let domain = path_of(&registration.domain);
        let mut paths = vec![format!("{domain}/{host_name}")];
        for alias in &registration.aliases {
            let path = path_of(alias);
            if path.starts_with(&format!("{}/", paths[0])) {
                return Err(NodesError::BelowHost(alias.clone()));
            }
            // An alias may be the name that the host has anyway.
            if path != paths[0] {
                paths.push(path);
            }
        }
        let service = registration.service.as_ref();
        Ok(Nodes {
            service: service.map(|service| Znode { path: domain, data: service.to_json() }),
            owned: paths.into_iter().map(|path| Znode { path, data: data.clone() }).collect(),
            address: address.to_string(),
        })
    }
}

/// The path of a name: its labels from the last to the first.
fn path_of(name: &str) -> String {
    name.rsplit('.').fold(String::new(), |path, label| path + "/" + label)
}

/// The path above a path; none above those at the top.
pub fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn registration(aliases: &[&str]) -> Registration {
        Registration {
            address: None,
            domain: "shop.example.com".into(),
            kind: "host".into(),
            aliases: aliases.iter().map(|alias| alias.to_string()).collect(),
            ttl: None,
            ports: None,
            service: None,
            heartbeat: Duration::from_secs(3),
        }
    }

    #[test]
    fn the_host_comes_first_and_no_node_twice() {
        let nodes = Nodes::new(&registration(&["a.example.com", "n1.shop.example.com"]), "n1", "10.0.0.1").unwrap();
        let paths: Vec<&str> = nodes.owned.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(paths, ["/com/example/shop/n1", "/com/example/a"]);
        let data = r#"{"type":"host","address":"10.0.0.1","host":{"address":"10.0.0.1"}}"#;
        assert!(nodes.owned.iter().all(|node| node.data == data));
    }

    #[test]
    fn a_host_name_is_one_node_even_with_dots() {
        let nodes = Nodes::new(&registration(&[]), "Node-1.Example.net", "10.0.0.1").unwrap();
        assert_eq!(nodes.owned[0].path, "/com/example/shop/Node-1.Example.net");
    }

    #[test]
    fn names_that_make_no_path_are_refused() {
        for name in ["", ".", "..", "a/b", "a\0b"] {
            let result = Nodes::new(&registration(&[]), name, "10.0.0.1");
            assert_eq!(result, Err(NodesError::HostName(name.to_string())));
        }
        let result = Nodes::new(&registration(&["x.n1.shop.example.com"]), "n1", "10.0.0.1");
        assert_eq!(result, Err(NodesError::BelowHost("x.n1.shop.example.com".to_string())));
    }

    #[test]
    fn parents_end_below_the_root() {
        assert_eq!(parent("/com/example/a"), Some("/com/example"));
        assert_eq!(parent("/com"), None);
    }
}
