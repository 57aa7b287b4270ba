//! A child process that ends with its owner.
//!
//! A process that is being made has our open sockets for a moment, until it becomes another program. [`spawn`] and
//! [`without_births`] see to it that a port which one thread gives free is not held by a child of another thread.

use super::wait_until;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::RwLock;
use std::time::Duration;

/// Shared by those that make processes, for as long as that takes.
static BIRTHS: RwLock<()> = RwLock::new(());

/// Starts a program.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let _birth = BIRTHS.read();
    command.spawn()
}

/// Runs a program that reads nothing, and returns what it said.
pub fn run(command: &mut Command) -> std::io::Result<Output> {
    spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?.wait_with_output()
}

/// Does something while no process is being made.
pub fn without_births<T>(act: impl FnOnce() -> T) -> T {
    let _alone = BIRTHS.write();
    act()
}

/// A running server, its process group and its log.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program whose output goes to `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Process {
        let output = File::create(log).expect("log file");
        let errors = output.try_clone().expect("log file");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // An own group, because NSD forks and all of it must end.
        command.process_group(0);
        end_with_parent(command);
        let child = match spawn(command) {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                panic!("{name} is not installed; run `make test`, which installs it")
            }
            Err(error) => panic!("cannot start {name}: {error}"),
        };
        Process { name: name.to_string(), child, log: log.to_path_buf() }
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process itself.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain system call; the child has not been waited for, so that its id is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ends the process politely and returns how it ended, or `None` when it did not end in time.
    pub fn stop(&mut self, deadline: Duration) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        self.signal(libc::SIGTERM);
        let start = std::time::Instant::now();
        while start.elapsed() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns the exit status if the process has ended by itself, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends the process at once, without a chance to finish anything.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }

    /// Panics with the log when the process has ended.
    pub fn assert_running(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("{} ended with {status}; it said:\n{}", self.name, self.log_text());
        }
    }

    /// Waits for a condition while the process runs.
    pub fn wait_ready<T>(&mut self, what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
        let name = self.name.clone();
        wait_until(&format!("{name} {what}"), deadline, || {
            self.assert_running();
            probe()
        })
    }

    /// Returns all that the process has written so far.
    pub fn log_text(&self) -> String {
        let mut text = Vec::new();
        // A test may have put a pipe there: whoever reads that must not wait for more.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&self.log);
        let _ = file.map(|mut file| file.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = self.log_text();
            let tail: Vec<&str> = text.lines().rev().take(60).collect();
            eprintln!("--- last lines of {}", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        let group = -(self.child.id() as i32);
        if self.stop(Duration::from_secs(2)).is_none() {
            // SAFETY: plain system call on the group that was made for this child, which has not been waited for.
            unsafe { libc::kill(group, libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// Lets the child end when the test is killed and cannot clean up.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

/// Elsewhere only the clean-up by the owner exists.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_command: &mut Command) {}
