//! Sessions with ZooKeeper: how one begins, what is heard from it, and how it is closed.
//!
//! The client keeps a session alive, moves it to another server when one is lost, and sets watches again; it gives it
//! up when no server was reached for 7/5 of the session timeout. Then another session begins here, without end and
//! without the process ending. Each server is reached by a relay, which limits what it may send.
//!
//! Cost: one task for each watched node, one relay for each server.

use crate::config::ZooKeeperPlan;
use crate::state::Event;
use relay::{DEFAULT_LIMIT, Relay, Target};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};
use zookeeper_client::{Client, Error, SessionState};

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::registrar::session";

/// Pause between two attempts to set a watch that was refused.
const WATCH_RETRY: Duration = Duration::from_secs(1);
/// Longest time that the closing of a session may take.
const CLOSING: Duration = Duration::from_secs(2);

/// A session and the ways to its servers, which it needs to its end.
pub struct Session {
    pub client: Client,
    ways: Ways,
}

/// The ways to all servers.
#[derive(Clone)]
struct Ways(Arc<[Relay]>);

impl Ways {
    /// Opens a way to each server.
    async fn open(plan: &ZooKeeperPlan) -> io::Result<Ways> {
        let mut relays = Vec::new();
        for server in &plan.servers {
            relays.push(Relay::start(Target { address: server.clone(), tls: None, limit: DEFAULT_LIMIT }).await?);
        }
        Ok(Ways(relays.into()))
    }

    /// Addresses to which the client connects, joined by commas.
    fn addresses(&self) -> String {
        let addresses: Vec<String> = self.0.iter().map(|relay| relay.address().to_string()).collect();
        addresses.join(",")
    }

    /// Tells what is wrong with servers that the client has only seen close the connection.
    fn tell_faults(&self) {
        for (relay, fault) in self.0.iter().filter_map(|relay| Some((relay, relay.fault()?))) {
            warn!(target: TARGET, server = relay.server(), "{fault}");
        }
    }
}

/// Begins a session; tries until there is one. A session that `outlives` us is not closed with its client.
pub async fn connect(plan: &ZooKeeperPlan, outlives: bool) -> Session {
    let servers = plan.servers.join(",");
    let ways = loop {
        match Ways::open(plan).await {
            Ok(ways) => break ways,
            Err(error) => {
                warn!(target: TARGET, %error, "cannot listen on this machine for connections of our own; trying again");
                sleep(plan.retry_delay).await;
            }
        }
    };
    loop {
        let mut connector = Client::connector().with_session_timeout(plan.session_timeout);
        if let Some(limit) = plan.connect_timeout {
            connector = connector.with_connection_timeout(limit);
        }
        if outlives {
            connector = connector.with_detached();
        }
        match connector.connect(&ways.addresses()).await {
            Ok(client) => {
                let (session, timeout) = (client.session_id(), client.session_timeout());
                info!(target: TARGET, %session, timeout_ms = timeout.as_millis() as u64, "session begun");
                return Session { client, ways };
            }
            Err(error) => {
                ways.tell_faults();
                let wait_ms = plan.retry_delay.as_millis() as u64;
                warn!(target: TARGET, servers, %error, wait_ms, "no server of ZooKeeper can be reached; trying again");
                sleep(plan.retry_delay).await;
            }
        }
    }
}

/// Listens to a session, to changes at these paths, and to the clock: `tell` gets [`Event::Resumed`], [`Event::Lost`] and
/// [`Event::Disturbed`]. Nothing holds the session any more once the tasks have been shut down.
pub fn listen(
    session: &Session,
    paths: impl IntoIterator<Item = String>,
    heartbeat: Duration,
    tell: impl Fn(Event) + Clone + Send + Sync + 'static,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let client = &session.client;
    tasks.spawn(follow_state(client.clone(), session.ways.clone(), tell.clone()));
    tasks.spawn(beat(heartbeat, tell.clone()));
    for path in paths {
        tasks.spawn(watch(client.clone(), path, tell.clone()));
    }
    tasks
}

/// Tells when the connection comes back and when the session ends.
async fn follow_state(client: Client, ways: Ways, tell: impl Fn(Event)) {
    let mut states = client.state_watcher();
    let mut state = client.state();
    loop {
        match state {
            SessionState::SyncConnected => tell(Event::Resumed),
            SessionState::Disconnected | SessionState::ConnectedReadOnly => {
                warn!(target: TARGET, session = %client.session_id(), "connection to ZooKeeper lost");
                ways.tell_faults();
            }
            SessionState::Expired | SessionState::AuthFailed | SessionState::Closed => {
                warn!(target: TARGET, session = %client.session_id(), %state, "session ended; another one begins");
                tell(Event::Lost);
                return;
            }
        }
        state = states.changed().await;
    }
}

/// Tells that it is time to look.
async fn beat(heartbeat: Duration, tell: impl Fn(Event)) {
    let mut ticks = interval(heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tell(Event::Disturbed);
    }
}

/// Tells of every change of a node: of its making, its end and its data.
async fn watch(client: Client, path: String, tell: impl Fn(Event)) {
    loop {
        match client.check_and_watch_stat(&path).await {
            Ok((_, watcher)) => {
                // What happened before the watch was set was heard of by nobody.
                tell(Event::Disturbed);
                let event = watcher.changed().await;
                debug!(target: TARGET, path, event = %event.event_type, "watch fired");
                if event.session_state.is_terminated() {
                    return;
                }
            }
            Err(Error::SessionExpired | Error::ClientClosed | Error::AuthFailed) => return,
            Err(error) => {
                debug!(target: TARGET, path, %error, "watch refused");
                sleep(WATCH_RETRY).await;
            }
        }
    }
}

/// Closes a session and waits until the server knows.
pub async fn close(session: Session) {
    let Session { client, ways: _ways } = session;
    let session = client.session_id();
    let mut states = client.state_watcher();
    if client.state().is_terminated() {
        return;
    }
    // The session is closed when nobody holds it any more.
    drop(client);
    let ended = async { while !states.changed().await.is_terminated() {} };
    match timeout(CLOSING, ended).await {
        Ok(()) => info!(target: TARGET, %session, "session closed"),
        Err(_) => warn!(target: TARGET, %session, "ZooKeeper does not answer; the session ends by its timeout"),
    }
}
