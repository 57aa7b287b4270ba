//! Next action of the agent: a function of its state and of the latest event alone.
//!
//! ```text
//!            check passed              written
//!  Waiting ──────────────► Registering ───────► Up
//!     │ check failed         ▲   │ ▲             │
//!     ▼                      │   │ └─────────────┘ session ended
//!   Down ◄───────────────────┼───┴─────────────────── too many failures
//!     └──── check passed ────┘         any of them ──► Stopping ──► end
//! ```
//!
//! `Waiting` is there only when a check has to pass before the first registration. Reading, writing and waiting are
//! done by others, who are told by [`Effect`]s and answer by [`Event`]s.
//!
//! Invariants: no work is started while other work is under way, so that registrations cannot overlap; work whose
//! session ended while it ran counts for nothing; failures are counted only while the instance is to be registered, a
//! success forgets them, and so does going down; once told to stop, nothing is ever written again but the removal.
//!
//! Cost: O(threshold) for each event.

use std::collections::VecDeque;
use std::time::Duration;

/// Pause between the first two attempts at work that failed; doubled from each to the next.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Number of failures within a period that is too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Number of failures ...
    pub threshold: usize,
    /// ... within this time.
    pub period: Duration,
}

/// State of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is written before the first check has ended.
    Waiting,
    /// The nodes are to be there and are not yet, or not known to be.
    Registering,
    /// The nodes are there.
    Up,
    /// The nodes are not to be there.
    Down,
    /// The nodes are not to be there, and the agent ends.
    Stopping,
}

impl State {
    /// The word for it in the log.
    pub fn label(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Registering => "registering",
            State::Up => "up",
            State::Down => "down",
            State::Stopping => "stopping",
        }
    }
}

/// Work that can be under way in ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write the service record and all nodes, whoever had them.
    Register,
    /// Look at all nodes and put back what is missing or wrong.
    Repair,
    /// Remove all nodes that are ours.
    Remove,
}

impl Work {
    /// The word for it in the log.
    pub fn label(self) -> &'static str {
        match self {
            Work::Register => "register",
            Work::Repair => "repair",
            Work::Remove => "remove",
        }
    }
}

/// Event that the agent is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new session began.
    Connected,
    /// The connection of the session is back.
    Resumed,
    /// The session ended: what it made is gone, or soon will be.
    Lost,
    /// A node may have changed, or it is time to look.
    Disturbed,
    /// A health check passed or failed.
    Checked { healthy: bool },
    /// The work under way ended, well or not.
    Finished { done: bool },
    /// The time that was asked for has passed.
    Woken,
    /// The agent is to end.
    Stop,
}

/// Action that the agent has to take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Begin a new session, however long it takes.
    Connect,
    /// Do this in the present session.
    Start(Work),
    /// Report when this time has passed; a later wish replaces an earlier one.
    WakeAfter(Duration),
    /// Nothing is left to be done.
    End,
}

/// All that decides what is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    tolerance: Tolerance,
    state: State,
    /// True while there is a session.
    session: bool,
    /// Work that is under way; true beside it while its session lasts.
    busy: Option<(Work, bool)>,
    /// True if the nodes were made as the state wants them.
    settled: bool,
    /// True if the nodes may have changed since they were last looked at.
    disturbed: bool,
    /// Failed attempts in a row.
    attempts: u32,
    /// True if the next attempt has to wait.
    paused: bool,
    /// Times of the latest checks that failed, oldest first.
    failures: VecDeque<Duration>,
}

impl Machine {
    /// The state before anything has happened.
    pub fn new(tolerance: Tolerance, check_first: bool) -> Machine {
        let state = if check_first { State::Waiting } else { State::Registering };
        Machine {
            tolerance,
            state,
            session: false,
            busy: None,
            settled: false,
            disturbed: false,
            attempts: 0,
            paused: false,
            failures: VecDeque::new(),
        }
    }

    /// State of the agent.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns true if the nodes are as the state wants them, and nothing is under way.
    pub fn is_at_rest(&self) -> bool {
        self.busy.is_none() && self.settled && !(self.state == State::Up && self.disturbed)
    }

    /// Takes an event; returns what is to be done about it. `now` is the time since any fixed moment.
    pub fn step(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Connected => {
                self.session = true;
                self.resume();
            }
            Event::Resumed => self.resume(),
            Event::Lost => {
                self.session = false;
                self.busy = self.busy.map(|(work, _)| (work, false));
                if self.state == State::Up {
                    self.enter(State::Registering);
                }
                if self.state != State::Stopping {
                    effects.push(Effect::Connect);
                }
            }
            Event::Disturbed => self.disturbed = true,
            Event::Checked { healthy } => self.judge(healthy, now),
            Event::Finished { done } => effects.extend(self.finish(done)),
            Event::Woken => self.paused = false,
            Event::Stop => {
                let removed = self.state == State::Down && self.settled;
                self.enter(State::Stopping);
                self.settled = removed;
            }
        }
        effects.extend(self.decide());
        effects
    }

    /// Changes the state; its nodes are looked at anew.
    fn enter(&mut self, state: State) {
        self.state = state;
        self.settled = false;
        self.failures.clear();
        self.attempts = 0;
        self.paused = false;
    }

    /// Goes on after the connection was away: what was waited for has happened.
    fn resume(&mut self) {
        self.paused = false;
        self.attempts = 0;
        // A watch may have been lost with the connection.
        self.disturbed = true;
    }

    /// Takes the result of a check.
    fn judge(&mut self, healthy: bool, now: Duration) {
        match (self.state, healthy) {
            (State::Stopping, _) | (State::Down, false) => {}
            (State::Waiting | State::Down, true) => self.enter(State::Registering),
            // There is no registration that a threshold would protect from a single failure.
            (State::Waiting, false) => self.enter(State::Down),
            (State::Registering | State::Up, true) => self.failures.clear(),
            (State::Registering | State::Up, false) => {
                self.failures.push_back(now);
                let since = now.saturating_sub(self.tolerance.period);
                self.failures.retain(|failure| *failure >= since);
                if self.failures.len() >= self.tolerance.threshold {
                    self.enter(State::Down);
                }
            }
        }
    }

    /// Takes the end of the work under way.
    fn finish(&mut self, done: bool) -> Option<Effect> {
        let (work, in_session) = self.busy.take()?;
        // A new session begins with nothing, whatever came of the old one's work.
        if !in_session {
            return None;
        }
        if !done {
            let wait = FIRST_RETRY.saturating_mul(1 << self.attempts.min(10)).min(LAST_RETRY);
            self.attempts += 1;
            self.paused = true;
            self.disturbed = true;
            return Some(Effect::WakeAfter(wait));
        }
        self.attempts = 0;
        match (work, self.state) {
            (Work::Register, State::Registering) => {
                self.state = State::Up;
                self.settled = true;
            }
            (Work::Remove, State::Down | State::Stopping) => self.settled = true,
            // All else but a repair was overtaken by a change of mind, and what is wanted now is still to do.
            _ => {}
        }
        None
    }

    /// Returns the action that can begin now, if any.
    fn decide(&mut self) -> Option<Effect> {
        if self.busy.is_some() {
            return None;
        }
        if self.state == State::Stopping && (self.settled || !self.session) {
            return Some(Effect::End);
        }
        if !self.session || self.paused {
            return None;
        }
        let work = match self.state {
            State::Registering => Work::Register,
            State::Up if self.disturbed => Work::Repair,
            State::Down | State::Stopping if !self.settled => Work::Remove,
            State::Waiting | State::Up | State::Down | State::Stopping => return None,
        };
        // What is disturbed from now on may have been looked at already.
        self.disturbed = false;
        self.busy = Some((work, true));
        Some(Effect::Start(work))
    }
}

#[cfg(test)]
mod tests;
