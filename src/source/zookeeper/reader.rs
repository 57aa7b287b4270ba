//! Reading many nodes with many requests on the way at once.
//!
//! A server needs some 50 microseconds for a request, whatever it is for, so one request asks for several nodes, and
//! another one for the children of those that have some; where each node is watched, that cannot be.
//!
//! Invariants: what is read never takes more than [`Bounds::bytes`], nor than the budget of memory grants, however much
//! a server sends; never more than [`MOST_ON_THE_WAY`] nodes are asked for at once; a node that goes while its tree is
//! read is not there; a session without any answer for its whole timeout is given up.
//!
//! Cost: two requests for [`MOST_TOGETHER`] nodes, and a task; where each node is watched, one for each leaf and two for
//! each other node.

use super::error::SessionError;
use super::link::{Courier, Link, NodeState, Touch};
use crate::budget::Claim;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Nodes that are asked for at once: many round trips' worth, and as requests few of the thousand after which a server
/// stops listening.
const MOST_ON_THE_WAY: usize = 256;
/// Nodes that one request reads: beyond that a server's time goes into the nodes.
pub const MOST_TOGETHER: usize = 32;

/// Octets of memory for a node or a request, besides those of its texts.
const NODE_BYTES: usize = 128;

/// Limits of a reading: how long to wait, and how much to take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For any answer.
    pub patience: Duration,
    /// Octets that all that is read, and all that is still to be asked for, may take.
    pub bytes: u64,
}

/// A node as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    /// Relative to the domain's node.
    pub path: String,
    pub data: Vec<u8>,
    /// The change that made it.
    pub born: i64,
}

/// Nodes as they were read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Nodes that are there; a node comes before those below it.
    pub nodes: Vec<Node>,
    /// Nodes that are not there.
    pub gone: Vec<String>,
    /// Nodes that we may not read; what is below them is not known either.
    pub closed: Vec<String>,
    /// The newest change of all that was read or only looked at.
    pub zxid: i64,
}

impl Reading {
    /// The domain's own node, if it was read.
    pub fn root(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.path.is_empty())
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// The node alone.
    Node(String),
    /// The node and everything below it.
    Tree(String),
    /// The names of its children.
    Children(String),
    /// Its newest change only.
    Look(String),
}

impl Job {
    /// The path of its node.
    fn path(&self) -> &str {
        let (Job::Node(path) | Job::Tree(path) | Job::Children(path) | Job::Look(path)) = self;
        path
    }
}

/// Reads the whole tree.
pub async fn read_tree(link: &Link, bounds: Bounds, claim: &Claim) -> Result<Reading, SessionError> {
    run(link, vec![Job::Tree(String::new())], &|_| Vec::new(), bounds, claim).await
}

/// Reads what events have touched. `children` tells the names of a node's children as they are known.
pub async fn read_touched(
    link: &Link,
    touched: &HashSet<(String, Touch)>,
    children: &(impl Fn(&str) -> Vec<String> + Sync),
    bounds: Bounds,
    claim: &Claim,
) -> Result<Reading, SessionError> {
    let mut jobs = HashSet::new();
    for (path, touch) in touched {
        match touch {
            // One watch tells of every new node; many tell of the topmost only.
            Touch::Created if link.courier.each => jobs.insert(Job::Tree(path.clone())),
            Touch::Created | Touch::Payload => jobs.insert(Job::Node(path.clone())),
            Touch::Children => jobs.insert(Job::Children(path.clone())),
            Touch::Deleted => {
                // When it went is known to the node above. It may be back already, with others below it.
                jobs.insert(Job::Look(parent(path).to_owned()));
                jobs.insert(Job::Tree(path.clone()))
            }
        };
    }
    // A node that is read with all below it need not be read alone; a second watch on it would be one too many.
    let alone =
        |job: &Job| matches!(job, Job::Node(path) | Job::Children(path) if jobs.contains(&Job::Tree(path.clone())));
    let jobs = jobs.iter().filter(|job| !alone(job)).cloned().collect();
    run(link, jobs, children, bounds, claim).await
}

/// The path above another; the root is above itself.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Does the requests, and those that follow from them.
async fn run(
    link: &Link,
    mut jobs: Vec<Job>,
    known: &(impl Fn(&str) -> Vec<String> + Sync),
    bounds: Bounds,
    claim: &Claim,
) -> Result<Reading, SessionError> {
    let Bounds { patience, bytes } = bounds;
    let mut reading = Reading::default();
    let (mut lists, mut spent, mut on_the_way) = (Vec::new(), 0, 0);
    let mut requests: JoinSet<Result<Vec<(Job, NodeState)>, SessionError>> = JoinSet::new();
    loop {
        while on_the_way < MOST_ON_THE_WAY && !jobs.is_empty() {
            let chosen = choose(&mut jobs, link.courier.together);
            on_the_way += chosen.len();
            link.begin(&mut requests, ask(link.courier.clone(), chosen));
        }
        let done = match timeout(patience, requests.join_next()).await {
            Err(_) => return Err(SessionError::Stalled(patience)),
            Ok(None) => {
                // What a node that was not there a moment ago is now, its own request may have been too early for.
                compare(&mut reading, &mut jobs, std::mem::take(&mut lists), known);
                if jobs.is_empty() {
                    return Ok(reading);
                }
                continue;
            }
            Ok(Some(Err(_))) => return Err(SessionError::Other("a request has panicked".to_owned())),
            Ok(Some(Ok(done))) => done?,
        };
        on_the_way -= done.len();
        spent += done.iter().map(|(job, found)| weight(job, found)).sum::<u64>();
        if spent > bytes {
            return Err(SessionError::TreeTooLarge(bytes));
        }
        claim.grow_beside(0, spent).await?;
        lists.extend(done.into_iter().filter_map(|(job, found)| take(&mut reading, &mut jobs, job, found)));
    }
}

/// Takes what one request is to be for: as many nodes as it may be, or one thing of another kind.
fn choose(jobs: &mut Vec<Job>, most: usize) -> Vec<Job> {
    let nodes = jobs.iter().rev().take_while(|job| matches!(job, Job::Node(_) | Job::Tree(_))).take(most).count();
    jobs.split_off(jobs.len() - nodes.max(1))
}

/// Has jobs done by one request.
async fn ask(courier: Arc<Courier>, jobs: Vec<Job>) -> Result<Vec<(Job, NodeState)>, SessionError> {
    let found = match &jobs[..] {
        [Job::Node(path)] => vec![courier.read(path, false).await?],
        [Job::Tree(path)] => vec![courier.read(path, true).await?],
        [Job::Children(path)] => vec![courier.list(path).await?],
        [Job::Look(path)] => vec![courier.look(path).await?],
        jobs => {
            let wanted: Vec<_> = jobs.iter().map(|job| (job.path(), matches!(job, Job::Tree(_)))).collect();
            courier.read_together(&wanted).await?
        }
    };
    Ok(jobs.into_iter().zip(found).collect())
}

/// Returns what an answer takes in memory, with the requests that follow from it.
fn weight(job: &Job, found: &NodeState) -> u64 {
    let path = job.path();
    let each = |children: &[String]| {
        // The name, and the path that is made of it.
        children.iter().map(|child| NODE_BYTES + path.len() + 2 * child.len()).sum()
    };
    let below: usize = match found {
        NodeState::Node { data, children, .. } => data.len() + each(children),
        NodeState::Children(children, _) => each(children),
        NodeState::Stat(_) | NodeState::Gone | NodeState::Closed => 0,
    };
    (NODE_BYTES + path.len() + below) as u64
}

/// Takes the answer to one request; gives the children that a node was asked for.
fn take(reading: &mut Reading, jobs: &mut Vec<Job>, job: Job, found: NodeState) -> Option<(String, Vec<String>)> {
    let path = match job {
        Job::Look(_) => {
            if let NodeState::Stat(zxid) = found {
                reading.zxid = reading.zxid.max(zxid);
            }
            return None;
        }
        Job::Node(path) | Job::Tree(path) | Job::Children(path) => path,
    };
    match found {
        NodeState::Node { data, zxid, born, children } => {
            reading.zxid = reading.zxid.max(zxid);
            jobs.extend(children.iter().map(|child| Job::Tree(below(&path, child))));
            reading.nodes.push(Node { path, data, born });
        }
        NodeState::Children(children, zxid) => {
            reading.zxid = reading.zxid.max(zxid);
            return Some((path, children));
        }
        NodeState::Gone => reading.gone.push(path),
        NodeState::Closed => reading.closed.push(path),
        // Only looking finds it, and that was taken above.
        NodeState::Stat(_) => {}
    }
    None
}

/// Compares the children that nodes have with those that are known. To be read are also those that a request of the
/// same reading did not find: they came after it, and where each node has its own watches, nothing else tells of them.
fn compare(
    reading: &mut Reading,
    jobs: &mut Vec<Job>,
    lists: Vec<(String, Vec<String>)>,
    known: &impl Fn(&str) -> Vec<String>,
) {
    let found: HashSet<&str> = reading.nodes.iter().map(|node| &node.path[..]).collect();
    let missed: HashSet<&str> =
        reading.gone.iter().map(|path| &path[..]).filter(|path| !found.contains(path)).collect();
    let mut gone = Vec::new();
    for (path, children) in lists {
        let (known, now): (BTreeSet<String>, BTreeSet<String>) =
            (known(&path).into_iter().collect(), children.into_iter().collect());
        let unread = now.iter().map(|child| (child, below(&path, child)));
        let unread = unread.filter(|(child, path)| !known.contains(*child) || missed.contains(&path[..]));
        jobs.extend(unread.map(|(_, path)| Job::Tree(path)));
        gone.extend(known.difference(&now).map(|child| below(&path, child)));
    }
    reading.gone.extend(gone);
}

/// The path of a node's child.
pub fn below(path: &str, child: &str) -> String {
    if path.is_empty() { child.to_owned() } else { format!("{path}/{child}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(children: &[&str], zxid: i64) -> NodeState {
        let children = children.iter().map(|child| (*child).to_owned()).collect();
        NodeState::Node { data: b"x".to_vec(), zxid, born: 1, children }
    }

    #[test]
    fn what_follows_from_an_answer_is_asked_for() {
        let (mut reading, mut jobs) = (Reading::default(), Vec::new());
        take(&mut reading, &mut jobs, Job::Tree(String::new()), node(&["a", "b"], 7));
        assert_eq!(jobs, [Job::Tree("a".into()), Job::Tree("b".into())]);
        take(&mut reading, &mut jobs, Job::Tree("a".into()), node(&["c"], 5));
        assert_eq!(jobs[2], Job::Tree("a/c".into()));
        take(&mut reading, &mut jobs, Job::Tree("b".into()), NodeState::Gone);
        take(&mut reading, &mut jobs, Job::Look("b".into()), NodeState::Stat(9));
        assert_eq!((reading.nodes.len(), &reading.gone[..], reading.zxid), (2, &["b".to_owned()][..], 9));
    }

    #[test]
    fn children_are_compared_with_those_that_are_known() {
        let (mut reading, mut jobs) = (Reading::default(), Vec::new());
        let known = |path: &str| if path == "a" { vec!["old".to_owned(), "kept".to_owned()] } else { Vec::new() };
        let found = NodeState::Children(vec!["kept".into(), "new".into()], 3);
        let list = take(&mut reading, &mut jobs, Job::Children("a".into()), found);
        compare(&mut reading, &mut jobs, list.into_iter().collect(), &known);
        assert_eq!((jobs, reading.gone), (vec![Job::Tree("a/new".into())], vec!["a/old".to_owned()]));
    }

    #[test]
    fn a_node_that_came_back_between_two_requests_is_read_again() {
        let (mut reading, mut jobs) = (Reading::default(), Vec::new());
        let known = |_: &str| vec!["back".to_owned(), "read".to_owned()];
        for path in ["a/back", "a/read"] {
            take(&mut reading, &mut jobs, Job::Tree(path.into()), NodeState::Gone);
        }
        take(&mut reading, &mut jobs, Job::Tree("a/read".into()), node(&[], 3));
        let found = NodeState::Children(vec!["back".into(), "read".into()], 3);
        let list = take(&mut reading, &mut jobs, Job::Children("a".into()), found);
        compare(&mut reading, &mut jobs, list.into_iter().collect(), &known);
        assert_eq!(jobs, [Job::Tree("a/back".into())]);
    }

    #[test]
    fn a_request_is_for_nodes_that_wait_together_or_for_one_other_thing() {
        let [node, tree, look] = [Job::Node("a".into()), Job::Tree("b".into()), Job::Look("c".into())];
        let mut jobs = [&look, &node, &tree, &node, &look].map(Clone::clone).to_vec();
        let requests: Vec<_> = std::iter::repeat_with(|| choose(&mut jobs, 2)).take(4).collect();
        assert_eq!(requests, [vec![look.clone()], vec![tree, node.clone()], vec![node], vec![look]]);
        assert!(jobs.is_empty());
    }

    #[test]
    fn the_root_is_above_itself() {
        assert_eq!([parent("a/b/c"), parent("a"), parent("")], ["a/b", "", ""]);
    }
}
