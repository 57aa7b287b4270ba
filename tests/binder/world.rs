//! Surroundings of a tree on which answers depend beside the captured nodes: the zones, and the TTLs that nodes name.
//!
//! Reads the nodes' JSON by itself, without the crate's code.

use super::cases::{Case, Line, Nodes, Outcome, Reply};
use serde_json::Value;
use std::collections::HashMap;
use std::rc::Rc;

/// Types that are members of a service.
const MEMBERS: [&str; 5] = ["load_balancer", "moray_host", "ops_host", "redis_host", "rr_host"];

/// A tree, and the mode in which it is served.
pub struct World {
    /// Domain, with a final dot.
    domain: String,
    /// The data of nodes that is an object, by owner name.
    records: HashMap<String, Value>,
    captured: Rc<HashMap<String, Reply>>,
    /// True if unknown names are refused.
    pub refuses: bool,
    /// True if clients with a cookie get one of the server's.
    pub has_cookies: bool,
}

impl World {
    /// A world of a tree.
    pub fn new(domain: &str, nodes: &Nodes, captured: &Rc<HashMap<String, Reply>>, refuses: bool) -> World {
        let (domain, captured) = (format!("{domain}."), captured.clone());
        let mut world = World { domain, records: HashMap::new(), captured, refuses, has_cookies: false };
        nodes.iter().for_each(|(path, data)| world.set(path, data));
        world
    }

    /// The answers by case.
    pub fn index(cases: &[Case]) -> HashMap<String, Reply> {
        let reply = |case: &Case| match &case.outcome {
            Outcome::Reply(reply) => Some((case.id.clone(), reply.clone())),
            Outcome::NoReply | Outcome::Exit => None,
        };
        cases.iter().filter_map(reply).collect()
    }

    /// Takes a node's data; what is no object leaves the one before.
    pub fn set(&mut self, path: &str, data: &[u8]) {
        if let Ok(record @ (Value::Object(_) | Value::Null)) = serde_json::from_slice(data) {
            self.records.insert(owner_of(path), record);
        }
    }

    /// Forgets a node and those below.
    pub fn remove(&mut self, path: &str) {
        let owner = owner_of(path);
        let below = format!(".{owner}");
        self.records.retain(|name, _| *name != owner && !name.ends_with(&below));
    }

    /// A captured answer.
    pub fn captured(&self, id: &str) -> &Reply {
        self.captured.get(id).unwrap_or_else(|| panic!("no captured answer {id}"))
    }

    /// Puts the domain in the place of `@`.
    pub fn name(&self, text: &str) -> String {
        text.replace('@', &self.domain)
    }

    /// The zone that a name is in.
    pub fn zone_of(&self, name: &str) -> Option<String> {
        let zones = [self.domain.as_str(), "in-addr.arpa.", "ip6.arpa."];
        let holds = |zone: &&str| name == *zone || name.ends_with(&format!(".{zone}"));
        zones.into_iter().find(holds).map(str::to_string)
    }

    /// The largest TTL that an address may have because the node is a member of a service and names none.
    pub fn member_ttl(&self, line: &Line) -> u32 {
        let Some(record) = self.records.get(&line.owner).filter(|_| line.rtype == "A") else { return u32::MAX };
        let kind = record["type"].as_str().unwrap_or_default();
        let names_ttl = [&record["ttl"], &record[kind]["ttl"]].into_iter().any(Value::is_number);
        let parent = line.owner.split_once('.').map_or("", |(_, parent)| parent);
        match self.records.get(parent).filter(|_| MEMBERS.contains(&kind) && !names_ttl) {
            Some(service) if service["type"] == "service" => {
                let outer = &service["service"];
                let ttls = [&outer["service"]["ttl"], &outer["ttl"], &service["ttl"]];
                let ttl = ttls.into_iter().find_map(Value::as_u64).map_or(30, |ttl| ttl as u32);
                ttl.min(30)
            }
            _ => u32::MAX,
        }
    }

    /// Returns true if the name behind a service and protocol has no such service.
    pub fn lacks_service(&self, name: &str) -> bool {
        let mut labels = name.splitn(3, '.');
        let (Some(service), Some(protocol), Some(rest)) = (labels.next(), labels.next(), labels.next()) else {
            return true;
        };
        let record = self.records.get(rest).map(|record| &record["service"]);
        let inner = record.map(|outer| if outer["service"].is_object() { &outer["service"] } else { outer });
        let is = |key: &str, label: &str| {
            let text = inner.and_then(|inner| inner[key].as_str());
            text.is_some_and(|text| text.eq_ignore_ascii_case(label))
        };
        !(is("srvce", service) && is("proto", protocol))
    }
}

/// The owner name of a node, in lowercase.
fn owner_of(path: &str) -> String {
    let mut labels: Vec<&str> = path.split('/').filter(|label| !label.is_empty()).collect();
    labels.reverse();
    format!("{}.", labels.join(".")).to_lowercase()
}
