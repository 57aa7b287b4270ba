//! The tree, the zones and the answers of the crate, without sockets and without ZooKeeper.

use super::cases::{Nodes, Step};
use super::stand::Stand;
use aggregator::publish::{Identity, Published, Served, State, Unknown};
use aggregator::serve::answer;
use aggregator::source::zookeeper::zones::{Plan, SoaFields, Tree, path_of};
use aggregator::zone::Zone;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;

/// A server without a process.
pub struct Memory {
    tree: Tree,
    root: String,
    zones: HashMap<Name, Arc<Zone>>,
    unknown: Unknown,
    zxid: i64,
    published: Published,
}

impl Memory {
    /// A server that has loaded a tree.
    pub fn start(domain: &str, nodes: &Nodes, unknown: Unknown) -> Memory {
        let name = |text: &str| Name::parse(text).expect("a name");
        let soa = SoaFields {
            mname: name("ns.test"),
            rname: name(&format!("hostmaster.{domain}")),
            ttl: 30,
            refresh: 30,
            retry: 60,
            expire: 1_209_600,
            minimum: 30,
        };
        let plan = Plan {
            origin: name(domain),
            reverse: vec![name("in-addr.arpa"), name("ip6.arpa")],
            soa,
            ns: vec![name("ns.test")],
            ns_ttl: 3600,
            serial_offset: 0,
        };
        let root = path_of(&plan.origin);
        let zones = HashMap::new();
        let mut memory =
            Memory { tree: Tree::new(plan), root, zones, unknown, zxid: 1, published: Published::default() };
        nodes.iter().for_each(|(path, data)| memory.set(path, data));
        memory.publish();
        memory
    }

    /// Serves another tree's domain, too.
    pub fn add_sibling(&mut self, sibling: &Memory) {
        let origin = sibling.tree.plan.origin.clone();
        self.zones.insert(origin.clone(), sibling.zones[&origin].clone());
        self.serve(State::Ok);
    }

    /// Takes a node's data, if the node is one of the domain's.
    fn set(&mut self, path: &str, data: &[u8]) {
        self.zxid += 1;
        if let Some(below) = self.below(path) {
            self.tree.set(&below, data.to_vec(), self.zxid);
        }
    }

    /// Forgets a node.
    fn remove(&mut self, path: &str) {
        self.zxid += 1;
        let below = self.below(path).expect("a node of the domain");
        self.tree.remove(&below);
        self.tree.note_zxid(self.zxid);
    }

    /// A path below the domain's node.
    fn below(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.root)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_string())
    }

    /// Publishes what is new.
    fn publish(&mut self) {
        for made in self.tree.zones(|zone| self.zones.get(zone).cloned()).expect("zones") {
            self.zones.insert(made.zone, Arc::new(made.loaded.zone));
        }
        self.serve(State::Ok);
    }

    /// Serves the zones in a state.
    fn serve(&mut self, state: State) {
        let served = self.zones.values().map(|zone| {
            let data = (state == State::Ok).then(|| zone.clone());
            Arc::new(Served { unknown: self.unknown, ..Served::new(zone.origin.clone(), state, data) })
        });
        let identity = Identity { name: "ns.test".to_string(), version: "test".to_string() };
        self.published = Published::new(identity, served, 1);
    }
}

impl Stand for Memory {
    fn ask(&mut self, request: &[u8], tcp: bool, _: bool) -> Option<Vec<u8>> {
        let mut out = vec![0; 65_535];
        let response = answer::answer(&self.published, request, !tcp, 0, &mut out)?;
        out.truncate(response.length);
        Some(out)
    }

    fn make(&mut self, step: &Step) {
        match step {
            Step::Ask(_) | Step::StopZooKeeper | Step::Wait => {}
            Step::Set { path, data } => self.set(path, data),
            Step::Delete { path } => self.remove(path),
            Step::Replace { path, data } => {
                self.remove(path);
                self.set(path, data);
            }
            Step::StopServer | Step::StartServer => return self.serve(State::NotReady),
            Step::StartZooKeeper => {}
        }
        if self.published.iter().all(|served| served.state == State::Ok) || matches!(step, Step::StartZooKeeper) {
            self.publish();
        }
    }
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    fn has_cookies(&self) -> bool {
        false
    }

    fn is_alive(&mut self) -> bool {
        true
    }
}
