//! The agent at work: events in, one at a time, and what the machine wants done about them.
//!
//! Checks, work in ZooKeeper, sessions and clocks are tasks that report through one queue; only the loop here changes
//! anything. See `state` for what is done when.
//!
//! Cost: O(nodes) for each heartbeat and each change.

use crate::config::{Config, HealthPlan};
use crate::health::{self, Unhealthy};
use crate::nodes::Nodes;
use crate::session::{self, Session};
use crate::state::{Effect, Event, Machine, State, Tolerance, Work};
use crate::writes::{Report, Writer};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

/// The target of log lines, which filters name.
const TARGET: &str = "aggregator::registrar::agent";

/// Longest time that the removal of the nodes may delay the end of the agent.
const STOPPING: Duration = Duration::from_secs(5);

/// Message from a task to the agent.
enum Message {
    Connected(Session),
    /// An event that says all by itself.
    Event(Event),
    Finished(Work, Report),
    Checked(Result<(), Unhealthy>),
    Stop,
    /// The end cannot wait any longer.
    Overdue,
}

/// Duration of an agent's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Until it is told to stop.
    Lasting,
    /// Until everything is as one check says; the session is left to its timeout.
    Once,
}

/// An agent and all that it has under way.
pub struct Agent {
    config: Arc<Config>,
    nodes: Arc<Nodes>,
    course: Course,
    machine: Machine,
    started: Instant,
    /// The session, and the tasks that listen to it.
    session: Option<(Session, JoinSet<()>)>,
    /// Ids of all sessions so far.
    sessions: Vec<i64>,
    /// Names that other sessions have, as was last said.
    taken: Vec<String>,
    /// True once something has been written to ZooKeeper, or tried.
    tried: bool,
    checking: bool,
    waking: Option<AbortHandle>,
    tasks: JoinSet<()>,
    sender: UnboundedSender<Message>,
    receiver: UnboundedReceiver<Message>,
}

impl Agent {
    /// An agent that has done nothing yet.
    pub fn new(config: Config, nodes: Nodes, course: Course) -> Agent {
        let health = config.health.as_ref();
        // Without a check nothing fails.
        let tolerance = health.map_or(Tolerance { threshold: 1, period: Duration::ZERO }, |plan| plan.tolerance);
        let check_first = health.is_some_and(|plan| plan.check_first || course == Course::Once);
        let (sender, receiver) = unbounded_channel();
        Agent {
            config: Arc::new(config),
            nodes: Arc::new(nodes),
            course,
            machine: Machine::new(tolerance, check_first),
            started: Instant::now(),
            session: None,
            sessions: Vec::new(),
            taken: Vec::new(),
            tried: false,
            checking: false,
            waking: None,
            tasks: JoinSet::new(),
            sender,
            receiver,
        }
    }

    /// Works until the end, which `stop` asks for; what the nodes were made to be in the end.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send + 'static) -> State {
        self.report(async move {
            stop.await;
            Message::Stop
        });
        self.carry_out(Effect::Connect).await;
        loop {
            self.start_checks();
            let message = self.receiver.recv().await.expect("the agent itself can send");
            let before = self.machine.state();
            let mut ended = false;
            for effect in self.take(message) {
                ended |= effect == Effect::End;
                self.carry_out(effect).await;
            }
            let after = self.machine.state();
            if after != before {
                info!(target: TARGET, before = before.label(), state = after.label(), "state changed");
            }
            if ended || (self.course == Course::Once && self.machine.is_at_rest()) {
                break;
            }
        }
        let state = self.machine.state();
        self.end().await;
        state
    }

    /// Hands a message to the machine; what it wants done.
    fn take(&mut self, message: Message) -> Vec<Effect> {
        let event = match message {
            Message::Connected(session) => {
                self.begin_session(session);
                Event::Connected
            }
            Message::Event(event) => event,
            Message::Finished(work, report) => Event::Finished { done: self.judge_work(work, report) },
            Message::Checked(result) => {
                if let Err(fault) = &result {
                    warn!(target: TARGET, error = %fault, "health check failed");
                }
                Event::Checked { healthy: result.is_ok() }
            }
            Message::Stop => {
                info!(target: TARGET, "told to stop");
                self.report(async {
                    sleep(STOPPING).await;
                    Message::Overdue
                });
                Event::Stop
            }
            Message::Overdue => {
                warn!(target: TARGET, "ZooKeeper cannot be told; the records stay until the session has timed out");
                return vec![Effect::End];
            }
        };
        self.machine.step(event, self.started.elapsed())
    }

    /// Starts what the machine wants done.
    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect => {
                if let Some((_, mut listening)) = self.session.take() {
                    listening.shutdown().await;
                }
                let (config, outlives) = (self.config.clone(), self.course == Course::Once);
                self.report(async move { Message::Connected(session::connect(&config.zookeeper, outlives).await) });
            }
            Effect::Start(work) => self.start_work(work),
            Effect::WakeAfter(wait) => {
                if let Some(earlier) = self.waking.take() {
                    earlier.abort();
                }
                self.waking = Some(self.report(async move {
                    sleep(wait).await;
                    Message::Event(Event::Woken)
                }));
            }
            Effect::End => {}
        }
    }

    /// Runs a task whose result is a message.
    fn report(&mut self, task: impl Future<Output = Message> + Send + 'static) -> AbortHandle {
        // Tasks that have ended keep their memory until somebody asks for them.
        while let Some(ended) = self.tasks.try_join_next() {
            if ended.is_err_and(|error| error.is_panic()) {
                // What it was to tell never comes, and the agent would wait for it for ever, looking healthy.
                tracing::error!(target: TARGET, "a task of the agent has panicked; ending, so that the service manager starts anew");
                std::process::abort();
            }
        }
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            // The receiver is gone only when the agent ends.
            let _ = sender.send(task.await);
        })
    }

    /// Takes a new session and listens to it.
    fn begin_session(&mut self, session: Session) {
        self.sessions.push(session.client.session_id().0);
        let paths = self.nodes.owned.iter().chain(&self.nodes.service).map(|node| node.path.clone());
        let sender = self.sender.clone();
        let tell = move |event| {
            // The receiver is gone only when the agent ends.
            let _ = sender.send(Message::Event(event));
        };
        let listening = session::listen(&session, paths, self.config.registration.heartbeat, tell);
        self.session = Some((session, listening));
    }

    /// Begins work in the present session.
    fn start_work(&mut self, work: Work) {
        let Some((session, _)) = &self.session else { return };
        let (client, nodes, sessions) = (session.client.clone(), self.nodes.clone(), self.sessions.clone());
        let taken = self.taken.clone();
        self.report(async move {
            let writer = Writer { client: &client, nodes: &nodes, sessions: &sessions, taken: &taken };
            Message::Finished(work, writer.run(work).await)
        });
    }

    /// Logs the result of work; returns true if all is as it should be.
    fn judge_work(&mut self, work: Work, report: Report) -> bool {
        self.tried = true;
        for fault in &report.errors {
            if fault.is_outage() {
                warn!(target: TARGET, work = work.label(), error = %fault, "not done yet");
            } else {
                error!(target: TARGET, work = work.label(), error = %fault, "not done");
            }
        }
        if work == Work::Repair && report.taken != self.taken {
            for path in report.taken.iter().filter(|path| !self.taken.contains(path)) {
                warn!(target: TARGET, path, "another session has this name now; it is taken back when that one ends");
            }
            self.taken = report.taken;
        } else if work == Work::Register {
            // The last one to register has the name.
            self.taken.clear();
        }
        report.errors.is_empty()
    }

    /// Starts the checks, if there are any and it is time.
    fn start_checks(&mut self) {
        let Some(plan) = self.config.health.clone() else { return };
        // Also what could be written only in part has to go when the instance fails.
        let due = self.tried || self.machine.state() == State::Waiting;
        if !due || std::mem::replace(&mut self.checking, true) {
            return;
        }
        let (sender, once) = (self.sender.clone(), self.course == Course::Once);
        self.tasks.spawn(check_forever(plan, sender, once));
    }

    /// Ends everything that is under way, and the session.
    async fn end(mut self) {
        // Checks end with all processes of theirs.
        self.tasks.shutdown().await;
        // Clients that nobody took close their sessions with the queue.
        drop(self.receiver);
        if let Some((session, mut listening)) = self.session.take() {
            listening.shutdown().await;
            if self.course == Course::Lasting {
                session::close(session).await;
            }
        }
    }
}

/// Checks again and again, or once.
async fn check_forever(plan: HealthPlan, sender: UnboundedSender<Message>, once: bool) {
    loop {
        let _ = sender.send(Message::Checked(health::check(&plan).await));
        if once {
            return;
        }
        sleep(plan.interval).await;
    }
}

/// Removes the nodes of a registration, whichever session made them; an error if that was not possible in time.
pub async fn unregister(config: &Config, nodes: &Nodes) -> Result<Report, ()> {
    let limit = config.zookeeper.session_timeout;
    let Ok(session) = timeout(limit, session::connect(&config.zookeeper, false)).await else { return Err(()) };
    let report =
        timeout(limit, Writer { client: &session.client, nodes, sessions: &[], taken: &[] }.run(Work::Remove)).await;
    session::close(session).await;
    report.map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[tokio::test]
    async fn work_that_is_done_takes_no_memory() {
        let text = r#"{"registration": {"domain": "a.example.com", "type": "host", "adminIp": "192.0.2.1"},
            "zookeeper": {"servers": [{"host": "192.0.2.1", "port": 2181}]}}"#;
        let config = Config::parse(Path::new("test.json"), text).unwrap();
        let nodes = Nodes::new(&config.registration, "n1", "192.0.2.1").unwrap();
        let mut agent = Agent::new(config, nodes, Course::Lasting);
        for _ in 0..100 {
            agent.report(async { Message::Event(Event::Woken) });
            assert!(matches!(agent.receiver.recv().await, Some(Message::Event(Event::Woken))));
        }
        assert!(agent.tasks.len() < 10, "{} tasks", agent.tasks.len());
    }
}
