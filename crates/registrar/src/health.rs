//! One run of the check: whether a command says that the instance can serve.
//!
//! The command is run by the shell in a process group of its own. A check fails when it cannot be started, takes too
//! long, ends with another status than 0 (unless that is to be ignored), or prints what it must not or not what it
//! must. A check that takes too long fails even where the status is ignored: it has said nothing.
//!
//! Invariants: no check outlives its time, with all processes of its group: they get SIGTERM, and SIGKILL a moment
//! later, also when the agent gives the check up; what it prints never takes more memory than [`MOST_OUTPUT`] for each
//! stream.
//!
//! Cost: a process for each check, O(output).

use crate::config::HealthPlan;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// Most octets that a check may print on each stream; a check that prints more fails.
const MOST_OUTPUT: usize = 1 << 20;
/// Between the polite signal and the other one.
const GRACE: Duration = Duration::from_millis(500);
/// Most characters of the output that a message quotes.
const QUOTED: usize = 200;

/// Reason for which a check failed.
#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    #[error("cannot be run: {0}")]
    Start(io::Error),
    #[error("took longer than {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("printed more than {MOST_OUTPUT} octets")]
    Output,
    #[error("ended with {0}; it said {1:?}")]
    Status(ExitStatus, String),
    #[error("printed {0:?}, which does not match")]
    NoMatch(String),
    #[error("printed {0:?}, which matches and must not")]
    Match(String),
}

/// Runs the check once.
pub async fn check(plan: &HealthPlan) -> Result<(), Unhealthy> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(&plan.command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(Unhealthy::Start)?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id as i32)));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let run = async {
        // Whatever the check left behind and still writes is waited for, too.
        let (stdout, stderr) = tokio::try_join!(read_all(stdout), read_all(stderr))?;
        let status = child.wait().await.map_err(Unhealthy::Start)?;
        Ok((status, stdout, stderr))
    };
    let ended = timeout(plan.timeout, run).await.unwrap_or(Err(Unhealthy::Timeout(plan.timeout)));
    let (status, stdout, stderr) = match ended {
        Ok(ended) => {
            group.0 = None;
            ended
        }
        Err(fault) => {
            group.signal(Signal::TERM);
            // How it ends does not matter any more.
            let _ = timeout(GRACE, child.wait()).await;
            return Err(fault);
        }
    };
    if !status.success() && !plan.ignore_exit_status {
        let said = if stderr.trim_ascii().is_empty() { &stdout } else { &stderr };
        return Err(Unhealthy::Status(status, quote(said)));
    }
    match &plan.output {
        Some(rule) if rule.pattern.is_match(&stdout) == rule.invert => {
            Err(if rule.invert { Unhealthy::Match(quote(&stdout)) } else { Unhealthy::NoMatch(quote(&stdout)) })
        }
        _ => Ok(()),
    }
}

/// Reads a stream to its end.
async fn read_all(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Unhealthy> {
    let stream = stream.expect("the streams of a child are pipes");
    let mut octets = Vec::new();
    stream.take(MOST_OUTPUT as u64 + 1).read_to_end(&mut octets).await.map_err(Unhealthy::Start)?;
    if octets.len() > MOST_OUTPUT { Err(Unhealthy::Output) } else { Ok(octets) }
}

/// The beginning of an output.
fn quote(octets: &[u8]) -> String {
    let text = String::from_utf8_lossy(octets);
    let mut quoted: String = text.trim().chars().take(QUOTED).collect();
    if text.trim().chars().nth(QUOTED).is_some() {
        quoted.push_str("...");
    }
    quoted
}

/// The processes of a check; those that still run are killed in the end.
struct Group(Option<Pid>);

impl Group {
    /// Sends a signal to all of them.
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // A group that has ended needs no signal.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests;
