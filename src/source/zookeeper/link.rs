//! One session with one member of the ensemble.
//!
//! The client library runs on a thread of its own, which ends with the [`Link`]: whatever the library does when it has
//! lost its server, it does not do it for long. The library would go on with the same session at the next connection,
//! but it does not bring recursive watches along, sends the watches of large trees in messages that servers refuse, and
//! the events between two connections are lost anyway (ZOOKEEPER-4698). So a lost connection is a lost session here:
//! the next link begins a new one and reads the tree again. We own no ephemeral nodes, so nobody notices.
//!
//! Invariants: a link says that it is lost, or its user finds out by a request that takes too long; what is read after
//! an event is as new as the event. With one watch for the whole tree, whoever has an answer finds every event that is
//! not newer than the answer ([`Link::try_signal`]): the server sends them in this order, and the library hands them on
//! in this order.
//!
//! Cost: a thread, and what its `relay` costs; where each node has its own watches, a task for each.

use super::error::SessionError;
use super::plan::{Member, TreePlan};
use relay::{Fault, Relay, Target};
use rustls::pki_types::ServerName;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zookeeper_client::{
    AddWatchMode, Client, Error, EventType, MultiReadResult, OneshotWatcher, PersistentWatcher, SessionState, Stat,
    WatchedEvent,
};

/// Message that a link sends by itself.
#[derive(Debug)]
pub enum Signal {
    /// Something happened at a path, relative to the domain's node.
    Touched(String, Touch),
    Lost(SessionError),
}

/// Kind of event at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    Created,
    Payload,
    Children,
    Deleted,
}

/// The library's own threads; they end without being waited for.
struct Quarantine(Option<Runtime>);

impl Quarantine {
    /// One thread.
    fn new() -> Result<Quarantine, SessionError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("zookeeper").enable_all().build();
        runtime.map(|runtime| Quarantine(Some(runtime))).map_err(|error| SessionError::Other(error.to_string()))
    }

    /// The runtime, which is there until this is dropped.
    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("only dropping takes the runtime")
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns where the way to a member leads.
fn target(plan: &TreePlan, member: &Member) -> Result<Target, String> {
    let tls = match &plan.tls {
        Some(tls) => {
            let name =
                ServerName::try_from(member.host.clone()).map_err(|error| format!("{}: {error}", member.host))?;
            Some((tls.connector()?, name))
        }
        None => None,
    };
    Ok(Target { address: member.to_string(), tls, limit: plan.max_reply })
}

/// A session.
pub struct Link {
    pub courier: Arc<Courier>,
    /// All that the server says comes this way.
    relay: Relay,
    quarantine: Quarantine,
    /// The watch on the whole tree.
    watcher: Option<PersistentWatcher>,
    /// All other news.
    signals: mpsc::UnboundedReceiver<Signal>,
}

/// The part of a link that requests need.
pub struct Courier {
    client: Client,
    sender: mpsc::UnboundedSender<Signal>,
    /// Path of the domain's node.
    root: String,
    /// True if each node has its own watches.
    pub each: bool,
    /// Nodes that one request may read.
    pub together: usize,
}

impl Link {
    /// Begins a session with one member, in which requests are for so many nodes at most.
    pub async fn connect(plan: &TreePlan, member: &Member, each: bool, together: usize) -> Result<Link, SessionError> {
        let mut connector = Client::connector().with_session_timeout(plan.session_timeout).with_fail_eagerly();
        if let Some(digest) = &plan.digest {
            connector = connector.with_auth("digest", &digest.secret.0);
        }
        let target = target(plan, member).map_err(SessionError::Other)?;
        let quarantine = Quarantine::new()?;
        let relay = quarantine.runtime().spawn(Relay::start(target)).await;
        let relay = relay.map_err(|error| SessionError::Other(error.to_string()))?;
        let relay = relay.map_err(|error| SessionError::Other(format!("no way to the server: {error}")))?;
        let address = relay.address().to_string();
        let connecting = quarantine.runtime().spawn(async move { connector.connect(&address).await });
        let client = match timeout(plan.connect_timeout, connecting).await {
            Err(_) => Err(SessionError::Slow(plan.connect_timeout)),
            Ok(Err(_)) => Err(SessionError::Other("the client library has panicked".to_owned())),
            Ok(Ok(connected)) => connected.map_err(SessionError::from),
        };
        let client = client.map_err(|error| relay.fault().map_or(error, SessionError::from))?;
        let (sender, signals) = mpsc::unbounded_channel();
        let mut states = client.state_watcher();
        let lost = sender.clone();
        quarantine.runtime().spawn(async move {
            loop {
                let state = states.changed().await;
                if state != SessionState::SyncConnected {
                    // Whoever had the link may have gone.
                    let _ = lost.send(Signal::Lost(state.into()));
                    return;
                }
            }
        });
        let courier = Arc::new(Courier { client, sender, root: plan.path.clone(), each, together });
        Ok(Link { courier, relay, quarantine, watcher: None, signals })
    }

    /// The reason for the loss of the link, which the relay knows better where it had to end it.
    pub fn explain(&self, error: SessionError) -> SessionError {
        self.relay.fault().map_or(error, SessionError::from)
    }

    /// Has the server catch up with its leader, so that what is read from now on is no older than this moment.
    pub async fn sync(&self) -> Result<(), SessionError> {
        self.courier.client.sync(&self.courier.root).await.map_err(SessionError::from)
    }

    /// Watches the whole tree.
    pub async fn watch_tree(&mut self) -> Result<(), SessionError> {
        let courier = &self.courier;
        let watcher = courier.client.watch(&courier.root, AddWatchMode::PersistentRecursive).await;
        self.watcher = match watcher {
            Err(Error::NoAuth) => return Err(SessionError::Forbidden(courier.root.clone())),
            watcher => Some(watcher?),
        };
        Ok(())
    }

    /// The next news, when there are some.
    pub async fn next_signal(&mut self) -> Signal {
        poll_fn(|context| self.poll_signal(context)).await
    }

    /// The next news, if there are some already.
    pub fn try_signal(&mut self) -> Option<Signal> {
        match self.poll_signal(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(signal) => Some(signal),
            Poll::Pending => None,
        }
    }

    /// Looks for news in both places.
    fn poll_signal(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        while let Some(watcher) = &mut self.watcher {
            // The library panics here when its own task has.
            let polled = catch_unwind(AssertUnwindSafe(|| pin!(watcher.changed()).poll(context)));
            match polled {
                Ok(Poll::Pending) => break,
                Ok(Poll::Ready(event)) => {
                    if let Some(signal) = self.courier.translate(event) {
                        return Poll::Ready(signal);
                    }
                }
                Err(_) => {
                    self.watcher = None;
                    return Poll::Ready(Signal::Lost(SessionError::Disconnected));
                }
            }
        }
        // The courier has the other end.
        self.signals.poll_recv(context).map(|signal| signal.unwrap_or(Signal::Lost(SessionError::Disconnected)))
    }

    /// Asks for the domain's node; a server that answers has the session.
    pub async fn look(&self) -> Result<Option<Stat>, SessionError> {
        self.courier.client.check_stat(&self.courier.root).await.map_err(SessionError::from)
    }

    /// Begins a request; it ends with the link.
    pub fn begin<T: Send + 'static>(
        &self,
        requests: &mut JoinSet<T>,
        request: impl Future<Output = T> + Send + 'static,
    ) {
        requests.spawn_on(request, self.quarantine.runtime().handle());
    }
}

/// The newest change that a node knows of.
pub fn newest_zxid(stat: &Stat) -> i64 {
    stat.czxid.max(stat.mzxid).max(stat.pzxid)
}

/// State of the node at a path.
#[derive(Debug)]
pub enum NodeState {
    /// The payload, the newest change, that which made the node, and the names of the children where they were asked
    /// for.
    Node { data: Vec<u8>, zxid: i64, born: i64, children: Vec<String> },
    /// The names of the children, and the newest change.
    Children(Vec<String>, i64),
    /// The newest change of a node that was only looked at.
    Stat(i64),
    /// There is no such node.
    Gone,
    /// We may not read it, or its path is none that can be asked for.
    Closed,
}

impl Courier {
    /// The whole path of a node.
    fn path(&self, path: &str) -> String {
        if path.is_empty() { self.root.clone() } else { format!("{}/{path}", self.root) }
    }

    /// Translates an event; none for those that change nothing.
    fn translate(&self, event: WatchedEvent) -> Option<Signal> {
        let touch = match event.event_type {
            EventType::Session if event.session_state == SessionState::SyncConnected => return None,
            EventType::Session => return Some(Signal::Lost(event.session_state.into())),
            EventType::NodeCreated => Touch::Created,
            EventType::NodeDataChanged => Touch::Payload,
            EventType::NodeChildrenChanged => Touch::Children,
            EventType::NodeDeleted => Touch::Deleted,
        };
        let path = event.path.strip_prefix(&self.root)?;
        Some(Signal::Touched(path.trim_start_matches('/').to_owned(), touch))
    }

    /// Passes the one event of a watch on.
    fn follow(self: &Arc<Self>, watcher: OneshotWatcher) {
        let courier = self.clone();
        tokio::spawn(async move {
            if let Some(signal) = courier.translate(watcher.changed().await) {
                // Whoever had the link may have gone.
                let _ = courier.sender.send(signal);
            }
        });
    }

    /// Reads a node, and with `below` the names of its children; watched where each node has its own watches.
    pub async fn read(self: Arc<Self>, path: &str, below: bool) -> Result<NodeState, SessionError> {
        loop {
            let result = self.read_node(&self.path(path), below).await;
            if self.each && path.is_empty() && matches!(result, Err(Error::NoNode)) {
                // No node above is watched, so the domain's own node has to be waited for.
                let (stat, watcher) = self.client.check_and_watch_stat(&self.root).await?;
                self.follow(watcher);
                if stat.is_some() {
                    // It has come meanwhile, and nothing would tell of that.
                    continue;
                }
            }
            return sort_out(result);
        }
    }

    /// The two requests that read a node.
    async fn read_node(self: &Arc<Self>, path: &str, below: bool) -> Result<NodeState, Error> {
        let (data, stat) = if self.each {
            let (data, stat, watcher) = self.client.get_and_watch_data(path).await?;
            self.follow(watcher);
            (data, stat)
        } else {
            self.client.get_data(path).await?
        };
        // Whether a leaf stays one is known only where a watch on its children says so.
        if !below || (stat.num_children == 0 && !self.each) {
            return Ok(NodeState::Node { data, zxid: newest_zxid(&stat), born: stat.czxid, children: Vec::new() });
        }
        let (children, zxid) = self.list_node(path).await?;
        Ok(NodeState::Node { data, zxid: zxid.max(newest_zxid(&stat)), born: stat.czxid, children })
    }

    /// Reads nodes, and with `below` the names of their children, by one request, and another for all that have
    /// children. Sets no watches.
    pub async fn read_together(&self, wanted: &[(&str, bool)]) -> Result<Vec<NodeState>, SessionError> {
        let mut reader = self.client.new_multi_reader();
        let is_asked: Vec<bool> =
            wanted.iter().map(|(path, _)| reader.add_get_data(&self.path(path)).is_ok()).collect();
        let mut answers = reader.commit().await?.into_iter();
        let (mut found, mut parents) = (Vec::with_capacity(wanted.len()), Vec::new());
        for ((path, below), is_asked) in wanted.iter().zip(is_asked) {
            found.push(match is_asked.then(|| answers.next()) {
                None => NodeState::Closed,
                Some(Some(MultiReadResult::Data { data, stat })) => {
                    if *below && stat.num_children > 0 {
                        reader.add_get_children(&self.path(path))?;
                        parents.push(found.len());
                    }
                    NodeState::Node { data, zxid: newest_zxid(&stat), born: stat.czxid, children: Vec::new() }
                }
                Some(Some(MultiReadResult::Error { err })) => sort_out(Err(err))?,
                Some(_) => return Err(Fault::Unasked.into()),
            });
        }
        if answers.next().is_some() {
            return Err(Fault::Unasked.into());
        }
        // What has changed since the payload was read has its event before this answer, and that leads to its number.
        let mut lists = reader.commit().await?.into_iter();
        for parent in parents {
            match (lists.next(), &mut found[parent]) {
                (Some(MultiReadResult::Children { children: names }), NodeState::Node { children, .. }) => {
                    *children = names;
                }
                (Some(MultiReadResult::Error { err }), state) => *state = sort_out(Err(err))?,
                _ => return Err(Fault::Unasked.into()),
            }
        }
        Ok(found)
    }

    /// Reads the names of a node's children.
    pub async fn list(self: Arc<Self>, path: &str) -> Result<NodeState, SessionError> {
        let listed = self.list_node(&self.path(path)).await;
        sort_out(listed.map(|(children, zxid)| NodeState::Children(children, zxid)))
    }

    /// The request for a node's children.
    async fn list_node(self: &Arc<Self>, path: &str) -> Result<(Vec<String>, i64), Error> {
        let (children, stat) = if self.each {
            let (children, stat, watcher) = self.client.get_and_watch_children(path).await?;
            self.follow(watcher);
            (children, stat)
        } else {
            self.client.get_children(path).await?
        };
        Ok((children, newest_zxid(&stat)))
    }

    /// Finds the newest change of a node, or of the next one above it that is there.
    pub async fn look(self: Arc<Self>, path: &str) -> Result<NodeState, SessionError> {
        let mut path = self.path(path);
        loop {
            match self.client.check_stat(&path).await {
                Ok(Some(stat)) => return Ok(NodeState::Stat(newest_zxid(&stat))),
                Ok(None) => match path.rsplit_once('/') {
                    Some((above, _)) if !above.is_empty() => path.truncate(above.len()),
                    _ => return Ok(NodeState::Gone),
                },
                Err(error) => return sort_out(Err(error)),
            }
        }
    }
}

/// Tells what is wrong with one node from what is wrong with the session.
fn sort_out(result: Result<NodeState, Error>) -> Result<NodeState, SessionError> {
    match result {
        Err(Error::NoNode) => Ok(NodeState::Gone),
        Err(Error::NoAuth | Error::BadArguments(_)) => Ok(NodeState::Closed),
        result => result.map_err(SessionError::from),
    }
}
