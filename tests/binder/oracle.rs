//! Binder as its code has it, naively: the cache and each kind of question, in the same order, over the nodes' JSON. Nothing of the crate is used.
//!
//! Where we differ on purpose there is a [`Switch`], named by its entry of the table. With all of them off this is
//! Binder, which the captures prove; with all of them on it is what we must say, which random trees prove; and each one
//! must matter.

use super::cases::Outcome;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;

/// Entries of the table that depend on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Switch {
    Types,
    NoSuchType,
    Ip6,
    PathParts,
    Unusable,
    BrokenChild,
    Nonsense,
    NoLabel,
    Case,
    Capitals,
    Dots,
    OneName,
    SharedAddress,
    LooseAddress,
    ZeroTtl,
    NullTtl,
    LargeTtl,
    SetTtl,
    NoSuchService,
    Compression,
    LargeDatagrams,
    LeftOut,
    TooLarge,
    Json,
    SmallSizes,
    OwnNode,
}

impl Switch {
    /// All, with the entries of the table that they stand for.
    pub const ALL: [(Switch, &'static str); 26] = [
        (Switch::Types, "types other than A, SRV and PTR"),
        (Switch::NoSuchType, "questions of types that a name does not have, and for the zones' own names"),
        (Switch::Ip6, "names below `ip6.arpa`"),
        (Switch::PathParts, "path components: nodes without data, `{}` or `null`"),
        (Switch::Unusable, "records of a type that is not known, or without a usable address"),
        (Switch::BrokenChild, "a service with a broken child"),
        (Switch::Nonsense, "TTLs and ports that make no sense"),
        (Switch::NoLabel, "a member whose name is no label of DNS, or has a character that Binder refuses"),
        (Switch::Case, "case of letters"),
        (Switch::Capitals, "children of nodes with capitals"),
        (Switch::Dots, "nodes whose names hold dots"),
        (Switch::OneName, "nodes that have one name in DNS, since they differ in case only"),
        (Switch::SharedAddress, "an address on several nodes"),
        (Switch::LooseAddress, "the PTR of an address that is written loosely, as `172.27.49.1/24`"),
        (Switch::ZeroTtl, "a TTL of 0"),
        (Switch::NullTtl, "a TTL of `null`"),
        (Switch::LargeTtl, "a TTL above 2147483647"),
        (Switch::SetTtl, "TTLs of one set"),
        (Switch::NoSuchService, "SRV questions below a name that has no such service"),
        (Switch::Compression, "targets of SRV records"),
        (Switch::LargeDatagrams, "answers of 1233 to 1470 octets over UDP"),
        (Switch::LeftOut, "SRV records that fit without the addresses of their targets"),
        (Switch::TooLarge, "a set that fits into no message at all"),
        (Switch::Json, "JSON with half of a surrogate pair, a number beyond 1e308, or more than 127 levels"),
        (Switch::SmallSizes, "EDNS sizes below 512"),
        (Switch::OwnNode, "records at the domain's own node"),
    ];
}

/// A node of the cache.
pub struct Node {
    /// Name of the node in ZooKeeper.
    pub name: String,
    /// Its full name in lowercase.
    pub domain: String,
    pub parent: Option<usize>,
    pub children: Vec<usize>,
    pub data: Option<Value>,
    /// True if the node is empty, rather than unreadable.
    pub hollow: bool,
    /// The address under which it is in the reverse index.
    pub address: Option<String>,
    pub alive: bool,
    /// True if its data and the nodes below it are looked for where they are not.
    lost: bool,
}

/// The cache.
pub struct Oracle {
    pub domain: String,
    root: String,
    pub nodes: Vec<Node>,
    paths: BTreeMap<String, usize>,
    pub names: HashMap<String, usize>,
    pub addresses: HashMap<String, usize>,
    on: BTreeSet<Switch>,
    /// True if unknown names are refused, which only our server can do.
    pub refuses: bool,
    pub ready: bool,
    /// Names that are there in our zones though no node has them; computed when first asked for.
    pub implied: OnceCell<Implied>,
}

/// Names that no node has.
pub struct Implied {
    /// Of services and of PTR records, and what is above these.
    pub by_records: HashSet<String>,
    /// Above nodes with dots.
    pub by_dots: HashSet<String>,
}

/// Way in which a question comes.
#[derive(Clone, Copy)]
pub struct Way {
    pub tcp: bool,
    pub edns: Option<u16>,
}

/// An answer, and whether what is beside it may be any part of that.
pub struct Told {
    pub outcome: Outcome,
    pub loose: bool,
}

pub const HOSTS: [&str; 7] = ["db_host", "host", "load_balancer", "moray_host", "ops_host", "redis_host", "rr_host"];

impl Oracle {
    /// An empty cache of a domain, without a final dot.
    pub fn new(domain: &str, on: impl IntoIterator<Item = Switch>, refuses: bool) -> Oracle {
        let mut labels: Vec<&str> = domain.split('.').collect();
        labels.reverse();
        Oracle {
            domain: domain.to_string(),
            root: format!("/{}", labels.join("/")),
            nodes: Vec::new(),
            paths: BTreeMap::new(),
            names: HashMap::new(),
            addresses: HashMap::new(),
            on: on.into_iter().collect(),
            refuses,
            ready: true,
            implied: OnceCell::new(),
        }
    }

    /// Returns true if we differ from Binder in this point.
    pub fn on(&self, switch: Switch) -> bool {
        self.on.contains(&switch)
    }

    //--- The cache ---

    /// A node is made or its data is set.
    pub fn set(&mut self, path: &str, data: &[u8]) {
        if path != self.root && !path.starts_with(&format!("{}/", self.root)) {
            return;
        }
        self.implied.take();
        let Some(id) = self.paths.get(path).copied().or_else(|| self.create(path)) else { return };
        if self.nodes[id].lost {
            return;
        }
        let text = String::from_utf8_lossy(data).into_owned();
        let parsed = serde_json::from_str::<Value>(&text).ok().or_else(|| match self.on(Switch::Json) {
            true => None,
            false => serde_json::from_str(&text.replace("\\ud800", "?").replace("1e999", "1e300")).ok(),
        });
        let node = &mut self.nodes[id];
        let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        node.hollow = data.is_empty() || parsed.as_ref().is_some_and(is_empty);
        match parsed {
            Some(Value::Null) => node.data = None,
            Some(value @ (Value::Object(_) | Value::Array(_))) => node.data = Some(value),
            _ => return,
        }
        let Some(address) = self.indexed_address(id) else { return };
        if let Some(before) = self.nodes[id].address.replace(address.clone())
            && before != address
        {
            self.addresses.remove(&before);
        }
        self.addresses.insert(address, id);
    }

    /// A node and those below it are gone.
    pub fn remove(&mut self, path: &str) {
        self.implied.take();
        let below = format!("{path}/");
        let gone: Vec<String> =
            self.paths.keys().filter(|other| *other == path || other.starts_with(&below)).cloned().collect();
        for path in gone {
            let id = self.paths.remove(&path).expect("a node");
            self.nodes[id].alive = false;
            if self.names.get(&self.nodes[id].domain) == Some(&id) {
                self.names.remove(&self.nodes[id].domain.clone());
            }
            if let Some(parent) = self.nodes[id].parent {
                self.nodes[parent].children.retain(|child| *child != id);
            }
        }
    }

    fn create(&mut self, path: &str) -> Option<usize> {
        let (name, parent) = if path == self.root {
            (path.rsplit('/').next()?.to_string(), None)
        } else {
            let (above, name) = path.rsplit_once('/')?;
            let parent = self.paths.get(above).copied()?;
            if self.nodes[parent].lost {
                return None;
            }
            (name.to_string(), Some(parent))
        };
        let domain = match parent {
            Some(parent) => format!("{name}.{}", self.nodes[parent].domain).to_lowercase(),
            None => self.domain.clone(),
        };
        let has_capitals = |parent: usize| {
            self.nodes[parent].parent.is_some() && self.nodes[parent].name.bytes().any(|byte| byte.is_ascii_uppercase())
        };
        let lost = parent.is_some_and(has_capitals) && !self.on(Switch::Capitals)
            || parent.is_some() && name.contains('.') && !self.on(Switch::Dots);
        let id = self.nodes.len();
        // The first path has a name if ours do; Binder has read the last one.
        let taken = self.names.get(&domain).is_some_and(|other| self.path(*other) < path);
        if !(taken && self.on(Switch::OneName)) {
            self.names.insert(domain.clone(), id);
        }
        let (children, alive, hollow) = (Vec::new(), true, true);
        self.nodes.push(Node { name, domain, parent, children, data: None, hollow, address: None, alive, lost });
        self.paths.insert(path.to_string(), id);
        if let Some(parent) = parent {
            self.nodes[parent].children.push(id);
        }
        Some(id)
    }

    fn path(&self, id: usize) -> &str {
        self.paths.iter().find(|(_, other)| **other == id).map_or("", |(path, _)| path)
    }

    /// The address of a host record, as it is written.
    fn indexed_address(&self, id: usize) -> Option<String> {
        let record = self.nodes[id].data.as_ref()?;
        let kind = record["type"].as_str()?;
        let address = HOSTS.contains(&kind).then(|| record[kind]["address"].as_str())??;
        match self.on(Switch::LooseAddress) {
            true => ipv4(address).map(|address| address.to_string()).or(Some(address.to_string())),
            false => Some(address.to_string()),
        }
    }
}

/// An IPv4 address as loosely as Binder reads it.
pub fn ipv4(text: &str) -> Option<Ipv4Addr> {
    if text.contains(':') {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    let octets: Vec<u8> = parts
        .iter()
        .take(4)
        .map_while(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok())
        .collect();
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}
