//! The tree as it was read last, and what is to be told about it.
//!
//! Serials follow from the newest change, and replicas that have seen the same changes must have the same serial. So
//! the tree learns of the newest change only when nothing older is on its way any more ([`Mirror::update_zxid`]): what is
//! published in the midst of a storm has serials in between, of which there are enough, because each change is one.
//!
//! Invariants: a node leaves only when ZooKeeper said that it is not there; what may not be read, and everything below
//! it, stays as it was; what is wrong with a payload is logged once.
//!
//! Cost: O(nodes) for a whole reading, O(nodes read) for others.

use super::guard::Extent;
use super::plan::TreePlan;
use super::reader::{Reading, below, parent};
use crate::source::zookeeper::zones::{PayloadError, Tree};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::iter::successors;
use tracing::warn;

/// Broken payloads that are logged one by one after a reading; the rest is a number.
const LOGGED_PAYLOADS: usize = 20;

/// The mirror of one tree.
pub struct Mirror {
    pub tree: Tree,
    zone: String,
    /// True if the domain's node is there.
    rooted: bool,
    /// The change that made it.
    born: i64,
    /// The newest change of anything that was read.
    zxid: i64,
    /// The change that the tree knows as its newest.
    shown: i64,
    /// Payloads that are faulty, with the reason.
    pub broken: BTreeMap<String, PayloadError>,
    /// Nodes that we may not read.
    pub closed: BTreeSet<String>,
}

impl Mirror {
    /// A mirror that shows nothing yet.
    pub fn new(plan: &TreePlan) -> Mirror {
        Mirror {
            tree: Tree::new(plan.zones.clone()),
            zone: plan.zone().to_string(),
            rooted: false,
            born: 0,
            zxid: 0,
            shown: 0,
            broken: BTreeMap::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Returns how much there is.
    pub fn extent(&self) -> Extent {
        let nodes = if self.rooted { self.tree.count() } else { 0 };
        Extent { nodes, zxid: self.zxid, born: if self.rooted { self.born } else { 0 } }
    }

    /// Returns about how much of them the nodes of a reading would take at most.
    pub fn octets_of(&self, reading: &Reading) -> u64 {
        reading.nodes.iter().map(|node| self.tree.octets_of(&node.path, &node.data)).sum()
    }

    /// Returns about how much it takes once it has taken what was read after events. O(nodes read, and nodes gone)
    pub fn octets_with(&self, reading: &Reading) -> u64 {
        let gone: HashSet<&str> = reading.gone.iter().map(String::as_str).collect();
        let is_below = |path: &str| all_above(path).any(|above| gone.contains(above));
        let topmost = gone.iter().filter(|path| !is_below(path));
        let left: u64 = topmost.map(|path| self.tree.octets_below(path)).sum();
        let known = reading.nodes.iter().filter(|node| !gone.contains(&node.path[..]) && !is_below(&node.path));
        let replaced: u64 = known.map(|node| self.tree.octets_at(&node.path)).sum();
        (self.tree.octets() + self.octets_of(reading)).saturating_sub(left + replaced)
    }

    /// Takes the whole tree: what was not read is gone.
    pub fn replace(&mut self, reading: Reading) {
        let read: HashSet<&str> =
            reading.nodes.iter().map(|node| &node.path[..]).chain(reading.closed.iter().map(String::as_str)).collect();
        let mut gone = Vec::new();
        let mut open = vec![String::new()];
        while let Some(path) = open.pop() {
            if !read.contains(&path[..]) {
                // With everything below.
                gone.push(path);
            } else if !reading.closed.contains(&path) {
                open.extend(self.tree.children(&path).iter().map(|child| below(&path, child)));
            }
        }
        self.apply(Reading { gone, ..reading });
    }

    /// Takes what was read.
    pub fn apply(&mut self, mut reading: Reading) {
        // A node comes before those below it, whatever the order of the answers.
        reading.nodes.sort_by(|a, b| a.path.cmp(&b.path));
        for path in &reading.gone {
            self.tree.remove(path);
            self.rooted &= !path.is_empty();
            forget_below(&mut self.broken, path);
            self.closed.retain(|closed| !is_within(closed, path));
        }
        let mut logged = 0;
        // Each is let go of when it is taken, so that nothing is in memory twice.
        for node in std::mem::take(&mut reading.nodes) {
            if node.path.is_empty() {
                (self.rooted, self.born) = (true, node.born);
            }
            // The node above was gone when it was read. It is back, and the event that says so brings this one along;
            // if it came into being here, it would be taken for known and never be read.
            let above = parent(&node.path);
            if !self.rooted || !self.tree.contains(above) {
                continue;
            }
            self.closed.remove(&node.path);
            self.tree.born(&node.path, node.born);
            let Some(error) = self.tree.set(&node.path, node.data, 0) else {
                self.broken.remove(&node.path);
                continue;
            };
            if self.broken.get(&node.path) != Some(&error) {
                if logged < LOGGED_PAYLOADS {
                    warn!(zone = %self.zone, path = %node.path, %error, "payload is faulty");
                }
                logged += 1;
                self.broken.insert(node.path, error);
            }
        }
        if let Some(more) = logged.checked_sub(LOGGED_PAYLOADS).filter(|more| *more > 0) {
            warn!(zone = %self.zone, more, "further payloads are faulty; see the status of the zone");
        }
        for path in reading.closed {
            if self.closed.insert(path.clone()) {
                warn!(zone = %self.zone, %path, "node may not be read; look at its ACL and at \"digest\"");
            }
        }
        self.zxid = self.zxid.max(reading.zxid);
    }

    /// Lets the tree know of its newest change, or of one before that while others are on their way. False when there
    /// is no room for one in between, and nothing should be published yet.
    pub fn update_zxid(&mut self, is_quiet: bool) -> bool {
        let next = if is_quiet { self.zxid } else { self.shown + 1 };
        // At first there is nothing to be in between of.
        let has_room = is_quiet || (self.shown > 0 && next < self.zxid);
        if has_room {
            self.shown = next;
            self.tree.note_zxid(next);
        }
        has_room
    }
}

/// The paths above one, the nearest first.
fn all_above(path: &str) -> impl Iterator<Item = &str> {
    successors(Some(path), |path| (!path.is_empty()).then(|| parent(path))).skip(1)
}

/// Returns true if a path is another or below it.
fn is_within(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Removes the entries of a path and of everything below it.
fn forget_below(entries: &mut BTreeMap<String, PayloadError>, path: &str) {
    if path.is_empty() {
        entries.clear();
        return;
    }
    entries.remove(path);
    let (low, high) = (format!("{path}/"), format!("{path}0"));
    // '0' follows '/'.
    let below: Vec<String> = entries.range(low..high).map(|(path, _)| path.clone()).collect();
    below.iter().for_each(|path| _ = entries.remove(path));
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Member, Watches};
    use super::super::reader::Node;
    use super::*;
    use crate::source::zookeeper::zones::{Plan, SoaFields};
    use std::time::Duration;
    use wire::name::Name;

    fn mirror() -> Mirror {
        let name = Name::parse("example.com").unwrap();
        let (mname, rname) = (name.clone(), name.clone());
        let soa = SoaFields { mname, rname, ttl: 30, refresh: 30, retry: 60, expire: 600, minimum: 30 };
        let (origin, ns) = (name.clone(), vec![name.clone()]);
        Mirror::new(&TreePlan {
            zones: Plan { origin, reverse: Vec::new(), soa, ns, ns_ttl: 30, serial_offset: 0 },
            domain: name,
            members: vec![Member { host: "192.0.2.1".into(), port: 2181 }],
            path: "/com/example".into(),
            session_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(4),
            serve_stale: Duration::from_secs(600),
            watches: Watches::Auto,
            binder_compat: false,
            digest: None,
            tls: None,
            max_reply: 1 << 20,
            max_bytes: 1 << 30,
            shrink_share: 0.5,
            confirm_after: Duration::from_secs(10),
            regress_after: Duration::from_secs(300),
        })
    }

    fn node(path: &str) -> Node {
        Node { path: path.into(), data: Vec::new(), born: 1 }
    }

    #[test]
    fn what_a_reading_makes_of_it_is_known_before() {
        let mut mirror = mirror();
        let nodes = |paths: &[&str]| paths.iter().map(|path| node(path)).collect::<Vec<_>>();
        mirror.replace(Reading { nodes: nodes(&["", "a", "a/b", "c"]), ..Reading::default() });
        let readings = [
            // The same again, more, fewer with what is below, and one that was gone and is back.
            (nodes(&["a", "a/b"]), vec![]),
            (nodes(&["a", "d", "d/e"]), vec![]),
            (Vec::new(), vec!["d", "d/e"]),
            (nodes(&["a"]), vec!["a"]),
        ];
        for (nodes, gone) in readings {
            let reading = Reading { nodes, gone: gone.into_iter().map(str::to_owned).collect(), ..Reading::default() };
            let told = mirror.octets_with(&reading);
            let (is_removal, before) = (reading.nodes.is_empty(), mirror.tree.octets());
            mirror.apply(reading);
            assert_eq!(told, mirror.tree.octets());
            assert_eq!(told < before, is_removal || mirror.tree.children("a").is_empty());
        }
    }

    #[test]
    fn nodes_come_in_any_order_but_never_without_the_one_above() {
        let mut mirror = mirror();
        mirror.replace(Reading { nodes: vec![node("a/b"), node("a"), node("")], ..Reading::default() });
        assert!(mirror.tree.contains("a/b"));
        // The requests for the node and for one below it were answered on both sides of its return.
        mirror.apply(Reading { gone: vec!["a".into()], nodes: vec![node("a/b")], ..Reading::default() });
        assert!(mirror.tree.children("").is_empty(), "it would be taken for known");
        mirror.apply(Reading { nodes: vec![node("a"), node("a/b")], ..Reading::default() });
        assert!(mirror.tree.contains("a/b"));
        mirror.apply(Reading { gone: vec![String::new()], nodes: vec![node("a")], ..Reading::default() });
        assert_eq!((mirror.extent().nodes, mirror.tree.contains("a")), (0, false));
    }
}
