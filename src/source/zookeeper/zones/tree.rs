//! The mirror of the nodes below one domain's node, and what changes to it touch.
//!
//! Each node knows its owner name: the labels of its own name in front of its parent's owner, lowercase. A node name
//! with dots, as host names have, is several labels. A node whose name gives no owner (characters that Binder refuses,
//! labels too long) is kept for the sake of the nodes' count but has no name in the zone, nor has anything below it.
//! Where several nodes have one owner, because they differ in case only or by a dot in place of a level, the one whose
//! path comes first bytewise has the name, and the others are in the shadow.
//!
//! A change notes the owner names and addresses whose records may be others afterwards. It may note too many, never too
//! few: those of the node, of its service, and of the service's members where they take its TTL.
//!
//! Cost: a change O(path + what it touches); removing O(nodes below).

use crate::source::zookeeper::zones::Plan;
use crate::source::zookeeper::zones::claims::{self, Claims, Id};
use crate::zone::Zone;
use registrar::payload::{self, Payload, PayloadError, Service};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::Name;

/// The domain's own node.
pub(super) const ROOT: Id = 0;
/// Octets of a payload that are kept to be shown.
const MAX_SHOWN: usize = 1024;
/// Octets of memory for a node beside its texts: its place, and its part of the tables of children, owners and
/// addresses.
const NODE_BYTES: usize = 400;

/// A node of the tree.
#[derive(Default)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) parent: Option<Id>,
    pub(super) children: BTreeMap<Arc<str>, Id>,
    /// Owner name; none if the node's name is none for DNS.
    pub(super) owner: Option<Name>,
    pub(super) payload: Payload,
    /// The transaction that made the node; 0 when it is not known.
    born: i64,
    /// Fault of the newest data.
    pub(super) fault: Option<PayloadError>,
    /// The beginning of the newest data, to be shown.
    pub(super) data: Box<[u8]>,
}

/// A zone as it was made last.
pub(super) struct Version {
    /// Shares everything with the one that is published.
    pub zone: Zone,
    /// Number added to the serial that follows from the tree.
    pub drift: u32,
}

/// A mirror of the nodes of one domain.
pub struct Tree {
    /// What the zones are made by.
    pub plan: Plan,
    /// Nodes by number; freed places are empty.
    pub(super) nodes: Vec<Node>,
    free: Vec<Id>,
    pub(super) owners: HashMap<Name, Claims>,
    /// Nodes with a host record, by its address.
    pub(super) addresses: HashMap<IpAddr, Claims>,
    /// The newest transaction that is known of.
    pub(super) zxid: i64,
    /// Owner names whose records may have changed since the zones were made.
    pub(super) touched: HashSet<Name>,
    /// Addresses likewise.
    pub(super) touched_addresses: HashSet<IpAddr>,
    /// Octets of all nodes in memory, nearly.
    octets: u64,
    /// The zones as they were made last.
    pub(super) versions: HashMap<Name, Version>,
}

impl Tree {
    /// A tree of nothing but the domain's node.
    pub fn new(plan: Plan) -> Tree {
        let root = Node { owner: Some(plan.origin.clone()), ..Node::default() };
        let owners = HashMap::from([(plan.origin.clone(), Claims::One(ROOT))]);
        Tree {
            plan,
            nodes: vec![root],
            free: Vec::new(),
            owners,
            addresses: HashMap::new(),
            zxid: 0,
            touched: HashSet::new(),
            touched_addresses: HashSet::new(),
            octets: 0,
            versions: HashMap::new(),
        }
    }

    /// Takes a node's data; `path` is relative to the domain's node, which is the empty path. Ancestors that are
    /// missing come into being without data. Returns what is wrong with the data.
    pub fn set(&mut self, path: &str, mut data: Vec<u8>, zxid: i64) -> Option<PayloadError> {
        self.note_zxid(zxid);
        let id = self.reach(path);
        let read = payload::read(&data);
        let node = &mut self.nodes[id as usize];
        let payload = read.payload.unwrap_or_else(|| match &node.payload {
            // There is no good value to keep.
            Payload::Nothing | Payload::Broken if read.fault.is_some() => Payload::Broken,
            Payload::Nothing | Payload::Broken => Payload::Nothing,
            kept => kept.clone(),
        });
        data.truncate(MAX_SHOWN);
        self.octets = self.octets - node.data.len() as u64 + data.len() as u64;
        node.data = data.into();
        // What a broken record's placeholder says depends on the fault, too.
        if node.payload != payload || node.fault != read.fault {
            self.nodes[id as usize].fault = read.fault;
            self.touch(id);
            self.replace_payload(id, payload);
            self.touch(id);
        }
        read.fault
    }

    /// Tells which transaction made the node at a path. If another one made the node that is known there, that node is
    /// gone, and what it was is nothing to fall back on when the new one's data cannot be read.
    pub fn born(&mut self, path: &str, zxid: i64) {
        let id = self.reach(path);
        let before = std::mem::replace(&mut self.nodes[id as usize].born, zxid);
        if before != 0 && before != zxid {
            self.touch(id);
            self.replace_payload(id, Payload::Nothing);
            self.touch(id);
        }
    }

    /// Forgets a node and everything below it. The domain's node itself stays, without data.
    pub fn remove(&mut self, path: &str) {
        let Some(id) = self.find(path) else { return };
        let mut below = vec![id];
        let mut next = 0;
        while let Some(id) = below.get(next) {
            below.extend(self.nodes[*id as usize].children.values().copied());
            next += 1;
        }
        for id in below.iter().rev() {
            self.forget(*id);
        }
    }

    /// Notes a transaction of which nothing else is told, such as that which took a child away.
    pub fn note_zxid(&mut self, zxid: i64) {
        self.zxid = self.zxid.max(zxid);
    }

    /// Octets that all nodes but the domain's own take in memory, nearly.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of memory that a node with such a path and such data takes, but for its ports; assumes that it has a name
    /// of its own.
    pub fn octets_of(&self, path: &str, data: &[u8]) -> u64 {
        let name = path.rsplit('/').next().unwrap_or_default();
        let owner = self.plan.origin.as_wire().len() + path.len() + 1;
        (NODE_BYTES + name.len() + 2 * owner + data.len().min(MAX_SHOWN)) as u64
    }

    /// Returns what the node at a path takes by the same rule.
    pub fn octets_at(&self, path: &str) -> u64 {
        self.find(path).map_or(0, |id| self.octets_of(path, &self.nodes[id as usize].data))
    }

    /// Returns what the node at a path takes with everything below it. O(nodes below)
    pub fn octets_below(&self, path: &str) -> u64 {
        let (mut octets, mut open) = (0, Vec::from_iter(self.find(path)));
        while let Some(id) = open.pop() {
            let node = &self.nodes[id as usize];
            octets += node_octets(node);
            open.extend(node.children.values().copied());
        }
        octets
    }

    /// The names of the nodes directly below one, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        let children = self.find(path).map(|id| &self.nodes[id as usize].children);
        children.into_iter().flat_map(BTreeMap::keys).map(|name| name.to_string()).collect()
    }

    /// Returns true if there is a node at the path.
    pub fn contains(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// Number of nodes, the domain's own included.
    pub fn count(&self) -> u64 {
        (self.nodes.len() - self.free.len()) as u64
    }

    //--- Finding ---

    /// A node by number.
    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// A node's path, as it is given to [`Tree::set`].
    pub(super) fn path(&self, id: Id) -> String {
        let mut names = Vec::new();
        let mut at = self.node(id);
        while let Some(parent) = at.parent {
            names.push(&*at.name);
            at = self.node(parent);
        }
        names.reverse();
        names.join("/")
    }

    /// The node that has an owner name.
    pub(super) fn winner(&self, owner: &[u8]) -> Option<Id> {
        match self.owners.get(owner)? {
            Claims::One(id) => Some(*id),
            many => many.iter().min_by_key(|id| self.path(*id)),
        }
    }

    /// Returns true if a node has an owner name and no other node that claims it comes first.
    pub(super) fn is_winner(&self, id: Id) -> bool {
        self.node(id).owner.as_ref().is_some_and(|owner| self.winner(owner.as_wire()) == Some(id))
    }

    /// The service that a node is a member of or would be with another type.
    pub(super) fn service_above(&self, id: Id) -> Option<&Service> {
        let parent = self.node(id).parent?;
        match &self.node(parent).payload {
            Payload::Service(service) if self.is_winner(parent) => Some(service),
            _ => None,
        }
    }

    /// The node at a path.
    fn find(&self, path: &str) -> Option<Id> {
        segments(path).try_fold(ROOT, |id, name| self.node(id).children.get(name).copied())
    }

    /// The node at a path, made if need be.
    fn reach(&mut self, path: &str) -> Id {
        segments(path).fold(ROOT, |id, name| match self.node(id).children.get(name) {
            Some(child) => *child,
            None => self.create(id, name),
        })
    }

    //--- Changing ---

    /// Adds a node without data.
    fn create(&mut self, parent: Id, name: &str) -> Id {
        let owner = self.node(parent).owner.as_ref().and_then(|above| owner_below(above, name));
        let name: Arc<str> = name.into();
        let node = Node { name: name.clone(), parent: Some(parent), owner: owner.clone(), ..Node::default() };
        self.octets += node_octets(&node);
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                Id::try_from(self.nodes.len() - 1).expect("more than 2^32 nodes do not fit into memory")
            }
        };
        self.nodes[parent as usize].children.insert(name, id);
        if let Some(owner) = owner {
            let taken = self.owners.contains_key(&owner);
            claims::insert(&mut self.owners, owner.clone(), id);
            if taken {
                self.touch_claimants(&owner);
            }
        }
        self.touch(id);
        id
    }

    /// Removes a node that has no children any more.
    fn forget(&mut self, id: Id) {
        self.touch(id);
        self.replace_payload(id, Payload::Nothing);
        let Some(parent) = self.node(id).parent else {
            let root = &mut self.nodes[id as usize];
            self.octets -= root.data.len() as u64;
            (root.fault, root.data, root.born) = (None, Box::default(), 0);
            return;
        };
        let node = std::mem::take(&mut self.nodes[id as usize]);
        self.octets -= node_octets(&node);
        self.nodes[parent as usize].children.remove(&node.name);
        self.free.push(id);
        if let Some(owner) = node.owner {
            claims::remove(&mut self.owners, &owner, id);
            self.touch_claimants(&owner);
        }
    }

    /// Puts a payload in the place of another, and its address into the table.
    fn replace_payload(&mut self, id: Id, payload: Payload) {
        self.octets += payload_octets(&payload);
        let old = std::mem::replace(&mut self.nodes[id as usize].payload, payload);
        self.octets -= payload_octets(&old);
        if let Payload::Host(host) = old {
            claims::remove(&mut self.addresses, &host.address, id);
        }
        if let Payload::Host(host) = &self.nodes[id as usize].payload {
            claims::insert(&mut self.addresses, host.address, id);
        }
    }

    //--- Noting what changed ---

    /// Notes everything that may depend on a node.
    fn touch(&mut self, id: Id) {
        // Before the first versions everything counts as touched.
        if self.versions.is_empty() {
            return;
        }
        let mut names = Vec::new();
        let mut addresses = Vec::new();
        let node = self.node(id);
        self.names_of(id, &mut names);
        // A member's records are its service's, and a directory's first child makes its placeholder go.
        if let Some(parent) = node.parent {
            self.names_of(parent, &mut names);
        }
        match &node.payload {
            Payload::Host(host) => addresses.push(host.address),
            Payload::Service(_) => {
                for child in node.children.values().map(|child| self.node(*child)) {
                    if let Payload::Host(host) = &child.payload {
                        names.extend(child.owner.clone());
                        addresses.push(host.address);
                    }
                }
            }
            Payload::Nothing | Payload::Broken => {}
        }
        self.touched.extend(names);
        self.touched_addresses.extend(addresses);
    }

    /// The owner names at which a node itself may have records.
    fn names_of(&self, id: Id, names: &mut Vec<Name>) {
        let node = self.node(id);
        names.extend(node.owner.clone());
        if let Payload::Service(service) = &node.payload {
            names.extend(node.owner.as_ref().and_then(|owner| service_owner(service, owner)));
        }
    }

    /// Notes everything that depends on the nodes that want a name, for another of them may have it now.
    fn touch_claimants(&mut self, owner: &Name) {
        let ids: Vec<Id> = self.owners.get(owner).into_iter().flat_map(Claims::iter).collect();
        ids.into_iter().for_each(|id| self.touch(id));
    }
}

/// Octets of a node in memory, nearly.
fn node_octets(node: &Node) -> u64 {
    let owner = node.owner.as_ref().map_or(0, |owner| owner.as_wire().len());
    (NODE_BYTES + node.name.len() + 2 * owner + node.data.len()) as u64 + payload_octets(&node.payload)
}

/// Octets of what a payload has beside its place in the node.
fn payload_octets(payload: &Payload) -> u64 {
    match payload {
        Payload::Host(host) => host.ports.as_ref().map_or(0, |ports| size_of_val(&ports[..])) as u64,
        Payload::Service(service) => size_of_val(&**service) as u64,
        Payload::Nothing | Payload::Broken => 0,
    }
}

/// The parts of a path.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// The owner name of a node below one that has this owner; none if the node's name has characters that Binder refuses
/// (`docs/binder.md` 6), or is too long.
fn owner_below(above: &Name, name: &str) -> Option<Name> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !name.bytes().all(allowed) {
        return None;
    }
    name.rsplit('.').try_fold(above.clone(), |owner, label| owner.prepend(label.as_bytes()).ok())
}

/// The owner name of a service's SRV records.
pub(super) fn service_owner(service: &Service, owner: &Name) -> Option<Name> {
    let (name, protocol) = service.labels.as_ref()?;
    owner.prepend(protocol.as_bytes()).ok()?.prepend(name.as_bytes()).ok()
}
