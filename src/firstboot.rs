//! The first start of an instance that knows nothing yet: find a configuration, wait for one, follow its changes.
//!
//! The places, in order: a file, the metadata of the Triton host, the environment variable `AGGREGATOR_CONFIG`, and
//! what an earlier start has fetched. Where there is none the console says what to set, and the search goes on.
//! Metadata is looked at again every so often, on SIGHUP, and whenever `aggregator reload` asks; the server reloads
//! what changed.
//!
//! Only root can reach the host, and the server shall not be root: as root, this process stays, as the parent of a
//! server with one capability, or beside one that a service manager runs (`watch`). Otherwise it becomes the server.
//!
//! Invariants: a host that is silent or wrong delays the start by [`Plan::patience`] at most, one whose long answer is
//! on its way by a minute more, and none delays the server; a configuration that is not valid, or that the
//! server refuses, is reported and not used: the one before it stays, for the next start, too, and a server that does
//! not start with new metadata starts with that one. The text of the environment is taken as it is. As the first
//! process of a container this one answers TERM, INT and HUP, and collects the children of others.
//!
//! Cost: one short conversation with the host for each look.

mod child;
mod find;
mod host;
mod keep;
mod login;
mod network;

use crate::config;
use crate::control::{self, CallError, Reply, Request};
use crate::log;
use crate::metadata;
use crate::systemd::Manager;
use child::Child;
use find::{Finding, FoundConfiguration, Origin, Told};
use keep::Keep;
use rustix::process::{Signal, geteuid, getpid, kill_process};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{self, SignalKind, signal};

/// Default folder for what was fetched.
pub const DEFAULT_FOLDER: &str = "/var/lib/aggregator/boot";
/// The metadata key of the configuration.
pub const DEFAULT_KEY: &str = "aggregator-config";
/// The user of the server, as in the container image.
pub const DEFAULT_USER: u32 = 65532;
/// Interval of the search while there is no configuration.
const SEARCH_PAUSE: Duration = Duration::from_secs(5);
/// Longest time in which somebody else may start a server with a new configuration; after that the one before it is
/// back.
const TRIAL: Duration = Duration::from_secs(60);
/// Interval of looks at a server that starts with a new configuration.
const GLANCE: Duration = Duration::from_millis(200);
/// Longest time that the server may take to end before it is killed: less than container engines wait for us.
const ENDING: Duration = Duration::from_secs(8);

/// Longest wait for the reply to a reload when this process is to end.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Settings of a first start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file that wins over everything.
    pub file: PathBuf,
    /// Folder that keeps what was fetched.
    pub folder: PathBuf,
    /// The socket or serial port of the host; by default what this machine has.
    pub host: Option<PathBuf>,
    pub key: String,
    /// Interval at which the metadata is read; zero for only on request.
    pub poll: Duration,
    /// Longest time of one conversation with the host, unless a long answer is on its way then.
    pub patience: Duration,
    /// Folder from which systemd-networkd reads files, if the network is to be set up as well.
    pub network: Option<PathBuf>,
    /// True to set up the network and do nothing else.
    pub only_network: bool,
    /// The file for the keys of those who may log in, if they are wanted.
    pub login: Option<PathBuf>,
    /// True if somebody else runs the server.
    pub watch: bool,
    /// User ID that the server runs as if this process is root.
    pub user: u32,
}

/// Work that is left to the caller.
pub enum BootOutcome {
    /// Run the server here.
    Serve(PathBuf),
    Ended(ExitCode),
}

/// Error: a first start is impossible.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("cannot use the folder {}: {error}; mount one that this user can write, or name another by --folder", .path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("cannot start the server: {0}")]
    Server(io::Error),
    #[error("cannot start: {0}")]
    Start(io::Error),
}

/// Goes through a first start; returns when it is over.
pub fn run(mut plan: Plan) -> Result<BootOutcome, BootError> {
    plan.host = plan.host.or_else(|| metadata::find(Path::new("/")));
    if plan.only_network {
        host::ask(&plan).network_problems.iter().for_each(|problem| say(&format!("network: {problem}")));
        return Ok(BootOutcome::Ended(ExitCode::SUCCESS));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BootError::Start)?;
    let result = runtime.block_on(async { Boot::new(plan)?.run().await });
    // A conversation that is still under way ends by itself.
    runtime.shutdown_background();
    result
}

/// Result of a look at the metadata that was requested, a line for each problem.
#[derive(Debug, PartialEq, Eq)]
pub enum Looked {
    /// The host gives a configuration that is not used, which the server knows.
    Refused(String),
    /// The host gave no configuration, with the reason; empty if it did and nothing is wrong.
    Noted(String),
}

/// First line of the reply to a request for a look, if the configuration that the host gives is not used.
const REFUSED: &str = "refused\n";

/// Returns the path of the configuration in the folder of a first start.
pub fn kept_configuration(folder: &Path) -> PathBuf {
    folder.join(keep::CONFIGURATION)
}

/// Requests a look at the metadata from a running first start, if there is one; returns its result.
pub fn request_look(folder: &Path, patience: Duration) -> Option<Looked> {
    use std::io::Read;
    let mut stream = std::os::unix::net::UnixStream::connect(folder.join(keep::REQUESTS)).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Ok(_) => Some(match text.strip_prefix(REFUSED) {
            Some(problems) => Looked::Refused(problems.to_owned()),
            None => Looked::Noted(text),
        }),
        Err(error) => Some(Looked::Noted(format!("metadata was not looked at: {error}\n"))),
    }
}

/// A first start under way.
struct Boot {
    plan: Arc<Plan>,
    keep: Keep,
    requests: UnixListener,
    hangup: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
    children: unix::Signal,
    manager: Manager,
    /// Reasons that were last logged for having no configuration, or no new one.
    said: Vec<String>,
    /// Problems with the network that were last logged.
    network_said: Vec<String>,
    /// Control socket of the running server: a new configuration may name another.
    socket: PathBuf,
    /// Configuration from metadata that no server has taken.
    refused: Option<Refusal>,
    /// Deadline for a server to start with the configuration on trial; none without a trial.
    trial: Option<Instant>,
}

/// A configuration that is not used, although the server knows of it.
struct Refusal {
    text: String,
    problems: Vec<String>,
    /// True if the server has tried it. Such a text may become valid without a change, once the files that it names are
    /// there.
    by_server: bool,
    /// Server that knows of the refusal: another one may take the text, and has yet to count it.
    server: Option<Identity>,
}

/// Inode and time of change of a control socket, which tell its server from the one before it.
type Identity = (u64, i64, i64);

/// Result of a look at the metadata.
#[derive(Default)]
struct Look {
    problems: Vec<String>,
    has_reloaded: bool,
    is_refused: bool,
}

impl Look {
    /// A look that has changed nothing, and why.
    fn note(problem: impl Into<String>) -> Look {
        Look { problems: vec![problem.into()], ..Look::default() }
    }
}

/// Event that the loop waits for.
enum Event {
    /// Time to look at the metadata.
    Due,
    HungUp,
    Asked(UnixStream),
    Child,
    End,
}

impl Boot {
    /// Opens the folder and listens to signals and requests.
    fn new(plan: Plan) -> Result<Boot, BootError> {
        let failed = |error| BootError::Folder { path: plan.folder.clone(), error };
        let keep = Keep::open(&plan.folder).map_err(failed)?;
        let group = geteuid().is_root().then_some(plan.user);
        let requests = keep.listen(group).and_then(UnixListener::from_std).map_err(failed)?;
        let listen = |kind| signal(kind).map_err(BootError::Start);
        Ok(Boot {
            requests,
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            children: listen(SignalKind::child())?,
            manager: Manager::from_environment(),
            said: Vec::new(),
            network_said: Vec::new(),
            // A server that has outlived an earlier watcher was started with it.
            socket: socket_of(&keep.configuration()),
            refused: None,
            trial: None,
            keep,
            plan: Arc::new(plan),
        })
    }

    /// Finds a configuration, then follows it.
    async fn run(mut self) -> Result<BootOutcome, BootError> {
        let Some(found) = self.search().await else { return Ok(BootOutcome::Ended(ExitCode::SUCCESS)) };
        say(&format!("configuration from {}: {}", found.origin, found.path.display()));
        if self.plan.watch {
            let failed = |error| BootError::Folder { path: self.plan.folder.clone(), error };
            self.keep.write_environment(&found.path).map_err(failed)?;
            self.begin_trial(&found);
            if found.is_new {
                // A server that has outlived an earlier watcher; most often there is none yet.
                let look = self.try_new(&found.path, false).await;
                look.problems.iter().for_each(|problem| say(problem));
                self.said = look.problems;
            } else {
                self.socket = socket_of(&found.path);
            }
            self.manager.ready(&format!("configuration from {}", found.origin));
            return Ok(BootOutcome::Ended(self.follow(&found, None).await?));
        }
        self.socket = socket_of(&found.path);
        if !geteuid().is_root() && self.plan.host.is_none() {
            // What the environment says is all there is to go by.
            self.end_trial(Keep::accept);
            return Ok(BootOutcome::Serve(found.path));
        }
        self.begin_trial(&found);
        let child = self.start_server(&found.path)?;
        Ok(BootOutcome::Ended(self.follow(&found, Some(child)).await?))
    }

    /// Starts a server of our own.
    fn start_server(&self, configuration: &Path) -> Result<Child, BootError> {
        let user = (geteuid().is_root() && self.plan.user != 0).then_some(self.plan.user);
        Child::start(configuration, user).map_err(BootError::Server)
    }

    /// Begins the trial of a new configuration, if there is an earlier one to go back to.
    fn begin_trial(&mut self, found: &FoundConfiguration) {
        match found.origin {
            Origin::Metadata | Origin::Kept => {
                self.trial = self.keep.has_trial().then(|| Instant::now() + TRIAL);
            }
            // Nobody would look at it again: it had better fail where those see it who have set it.
            Origin::Environment => self.end_trial(Keep::accept),
            Origin::File => {}
        }
    }

    /// Ends a trial that no server has been asked about.
    fn end_trial(&mut self, end: fn(&Keep) -> io::Result<()>) {
        self.trial = None;
        self.note(end);
    }

    /// Changes the kept configuration. A disk that is full must not end the server.
    fn note(&self, change: fn(&Keep) -> io::Result<()>) {
        if let Err(error) = change(&self.keep) {
            say(&format!("cannot write {}: {error}", self.keep.configuration().display()));
        }
    }

    /// Ends the trial of what a server starts with once it serves, or has not served in time. A child has time until it
    /// ends.
    async fn judge_start(&mut self, has_child: bool) {
        if control::is_answering(&self.socket) {
            // It may have read what was there before.
            let look = self.try_new(&self.keep.configuration(), has_child).await;
            look.problems.iter().for_each(|problem| say(problem));
            self.said = look.problems;
        } else if !has_child && self.trial.is_some_and(|end| end <= Instant::now()) {
            self.take_back("no server has answered with what is new for a minute; what was there before is back");
        }
    }

    /// Ends the trial, and goes back to the configuration before it.
    fn take_back(&mut self, why: &str) {
        say(why);
        self.end_trial(Keep::withdraw);
        self.socket = socket_of(&self.keep.configuration());
    }

    /// Looks everywhere until there is a configuration; none if the process shall end.
    async fn search(&mut self) -> Option<FoundConfiguration> {
        let mut waiting: Option<UnixStream> = None;
        loop {
            let told = tokio::select! {
                told = ask(self.plan.clone()) => told,
                _ = self.terminate.recv() => return None,
                _ = self.interrupt.recv() => return None,
            };
            self.say_network(&told);
            let Finding { found, reasons, is_refused } =
                find::find(&self.plan.file, &self.plan.key, told, std::env::var_os("AGGREGATOR_CONFIG"), &self.keep);
            if let Some(stream) = waiting.take() {
                let reasons = if found.is_some() && !is_refused { &[] } else { &reasons[..] };
                answer(stream, reasons, is_refused).await;
            }
            if let Some(found) = found {
                // Without these the operator would not know that newer words were not heard.
                if found.origin == Origin::Kept {
                    reasons.iter().for_each(|reason| say(reason));
                }
                return Some(found);
            }
            self.explain(reasons);
            match self.next(SEARCH_PAUSE.min(self.plan.poll.max(Duration::from_secs(1)))).await {
                Event::End => return None,
                Event::Asked(stream) => waiting = Some(stream),
                Event::Due | Event::HungUp | Event::Child => {}
            }
        }
    }

    /// Logs the problems with the network that the host describes, once for each change of them.
    fn say_network(&mut self, told: &Told) {
        if self.network_said != told.network_problems {
            told.network_problems.iter().for_each(|problem| say(&format!("network: {problem}")));
            self.network_said.clone_from(&told.network_problems);
        }
    }

    /// Logs the reasons for having no configuration, once for each change of them.
    fn explain(&mut self, reasons: Vec<String>) {
        if self.said == reasons {
            return;
        }
        let (file, key) = (self.plan.file.display(), &self.plan.key);
        let found: String = reasons.iter().map(|reason| format!("\n  {reason}")).collect();
        say(&format!(
            "there is no configuration yet; waiting for one. Set one of these:\n  the file {file}\n  \
             Triton metadata: triton instance metadata set INSTANCE {key}=\"$(cat config.toml)\"\n  \
             the environment variable AGGREGATOR_CONFIG, for the next start\nWhat was found:{found}"
        ));
        self.manager.status("waiting for a configuration; the log says what to set");
        self.said = reasons;
    }

    /// Follows the metadata while a server runs, as this process's child or under a service manager.
    async fn follow(&mut self, found: &FoundConfiguration, mut child: Option<Child>) -> Result<ExitCode, BootError> {
        let is_polling = self.plan.host.is_some() && !self.plan.poll.is_zero();
        loop {
            // Instances that were started together shall not ask together for ever.
            let pause = self.plan.poll.mul_f64(0.9 + 0.2 * f64::from(std::process::id() % 64) / 64.0);
            let pause = if is_polling { pause } else { Duration::MAX };
            match self.next(if self.trial.is_some() { GLANCE } else { pause }).await {
                Event::Due if self.trial.is_some() => self.judge_start(child.is_some()).await,
                Event::Due => _ = self.look(found, child.as_ref(), false).await,
                Event::HungUp => {
                    let look = self.look(found, child.as_ref(), true).await;
                    if let (Some(child), false) = (&child, look.has_reloaded || look.is_refused) {
                        child.signal(Signal::HUP);
                    }
                }
                Event::Asked(stream) => {
                    let look = self.look(found, child.as_ref(), true).await;
                    answer(stream, &look.problems, look.is_refused).await;
                }
                Event::Child => {
                    if let Some(status) = child.as_ref().and_then(Child::collect) {
                        say(&format!("the server has ended: {status}"));
                        if self.trial.is_some() && !status.success() {
                            self.take_back(
                                "the server does not start with what is new; it starts with what it had before",
                            );
                            child = Some(self.start_server(&found.path)?);
                            continue;
                        }
                        if !status.success() {
                            // What was refused may be what this machine needs now.
                            self.note(Keep::forget_refused);
                        }
                        let code = status.code().and_then(|code| u8::try_from(code).ok());
                        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
                    }
                }
                Event::End => {
                    self.manager.stopping();
                    return Ok(match &child {
                        Some(child) => self.end(child).await,
                        None => ExitCode::SUCCESS,
                    });
                }
            }
        }
    }

    /// Ends the server, and waits until it has.
    async fn end(&mut self, child: &Child) -> ExitCode {
        child.signal(Signal::TERM);
        let ended = async {
            loop {
                if let Some(status) = child.collect() {
                    return status;
                }
                self.children.recv().await;
            }
        };
        match tokio::time::timeout(ENDING, ended).await {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(_) => {
                say("the server does not end; killing it");
                child.signal(Signal::KILL);
                ExitCode::FAILURE
            }
        }
    }

    /// Looks at the metadata and lets the server reload a new configuration. A requested look repeats known problems.
    async fn look(&mut self, current: &FoundConfiguration, child: Option<&Child>, is_ordered: bool) -> Look {
        if self.plan.host.is_none() {
            return Look::default();
        }
        let told = tokio::select! {
            told = ask(self.plan.clone()) => told,
            _ = self.children.recv(), if child.is_some() => {
                self.raise(Signal::CHILD);
                return Look::note("the server has ended meanwhile");
            }
            _ = self.terminate.recv() => {
                self.raise(Signal::TERM);
                return Look::default();
            }
            _ = self.interrupt.recv() => {
                self.raise(Signal::TERM);
                return Look::default();
            }
        };
        self.say_network(&told);
        // A file that an operator has put there is not overruled.
        if current.origin == Origin::File {
            return Look::default();
        }
        let look = self.weigh(told, child.is_some(), is_ordered).await;
        if is_ordered || look.problems != self.said {
            look.problems.iter().for_each(|problem| say(problem));
            self.said.clone_from(&look.problems);
        }
        look
    }

    /// Gives the configuration from the host to the server, if it is new and valid.
    async fn weigh(&mut self, told: Told, has_child: bool, is_ordered: bool) -> Look {
        let text = match find::word(&self.plan.key, told) {
            Ok(text) => text,
            Err(reason) => return Look::note(reason),
        };
        if self.refused.as_ref().is_some_and(|refused| refused.server != server_at(&self.socket)) {
            self.refused = None;
        }
        let is_new = match find::check(&self.plan.key, &text, &self.keep) {
            Ok(is_new) => is_new,
            Err(problems) => return self.refuse(text, problems, is_ordered).await,
        };
        match &self.refused {
            // The same words would get the same reply, and a line in the log, every minute.
            Some(refused) if refused.text == text && refused.by_server && !is_ordered => {
                return Look { problems: refused.problems.clone(), is_refused: true, ..Look::default() };
            }
            None if !is_new => return Look::default(),
            _ => {}
        }
        let path = self.keep.configuration();
        say(&format!("metadata has changed: {}", path.display()));
        if is_new && let Err(error) = self.keep.adopt(&text) {
            return Look::note(format!("cannot write {}: {error}", path.display()));
        }
        self.try_new(&path, has_child).await
    }

    /// Reports a faulty configuration to the server, once, which logs and counts it.
    async fn refuse(&mut self, text: String, problems: Vec<String>, is_ordered: bool) -> Look {
        let is_known = self.refused.as_ref().is_some_and(|refused| refused.text == text && !refused.by_server);
        if !is_known || is_ordered {
            let reply = self.call(&self.keep.configuration(), &Request::refused(&problems)).await;
            // Whom that has not reached it shall reach at the next look. What was refused before stays so.
            if let Some(Ok(_)) = reply {
                let server = server_at(&self.socket);
                self.refused = Some(Refusal { text, problems: problems.clone(), by_server: false, server });
            }
        }
        Look { problems, is_refused: true, ..Look::default() }
    }

    /// Has the server reload a configuration that is on trial, and ends the trial.
    async fn try_new(&mut self, path: &Path, has_child: bool) -> Look {
        let mut look = Look::default();
        let ended = match self.call(path, &Request::RELOAD).await {
            Some(Ok(reply)) if reply.ok => {
                look.has_reloaded = true;
                self.socket = socket_of(path);
                self.refused = None;
                let ended = self.keep.accept();
                // Last: whoever reads this may cut the power.
                say(reply.text.trim_end());
                ended
            }
            // Whoever runs the server will start it with what is there now.
            Some(Err(CallError::NotRunning(_))) if !has_child => {
                self.socket = socket_of(path);
                self.refused = None;
                if self.keep.has_trial() {
                    self.trial.get_or_insert_with(|| Instant::now() + TRIAL);
                    return look;
                }
                self.keep.accept()
            }
            Some(Ok(reply)) => {
                look.problems
                    .push("the server has refused what metadata says, and goes on with what it had".to_owned());
                look.problems.extend(reply.text.lines().map(str::to_owned));
                let text = self.keep.read().unwrap_or_default();
                look.is_refused = true;
                let server = server_at(&self.socket);
                self.refused = Some(Refusal { text, problems: look.problems.clone(), by_server: true, server });
                self.keep.put_back()
            }
            // A child shows by its end that it does not start.
            Some(Err(error)) if has_child && self.trial.is_some() => return Look::note(error.to_string()),
            // With the one before it back, the next look finds something new, and tries again.
            Some(Err(error)) => {
                look.problems.push(error.to_string());
                self.keep.put_back()
            }
            None => self.keep.put_back(),
        };
        self.trial = None;
        look.problems.extend(ended.err().map(|error| format!("cannot write {}: {error}", path.display())));
        look
    }

    /// Asks the server something; nothing comes back if this process shall end meanwhile, and the server takes its
    /// time.
    async fn call(&mut self, path: &Path, request: &Request) -> Option<Result<Reply, CallError>> {
        let socket = self.socket.clone();
        let asking = async {
            match control::call(&socket, request).await {
                // Somebody else may have started the server again, with what is there now.
                Err(CallError::NotRunning(_)) => control::call(&socket_of(path), request).await,
                reply => reply,
            }
        };
        tokio::pin!(asking);
        tokio::select! {
            reply = &mut asking => return Some(reply),
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        self.raise(Signal::TERM);
        // Most often the server is done already, and what it has taken shall stay.
        tokio::time::timeout(LAST_WORD, asking).await.ok()
    }

    /// Sends this process a signal.
    fn raise(&self, signal: Signal) {
        // Nothing forbids a signal to oneself.
        let _ = kill_process(getpid(), signal);
    }

    /// Waits for whatever comes first.
    async fn next(&mut self, pause: Duration) -> Event {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
            _ = self.children.recv() => Event::Child,
            _ = self.hangup.recv() => Event::HungUp,
            Ok((stream, _)) = self.requests.accept() => Event::Asked(stream),
            () = tokio::time::sleep(pause) => Event::Due,
        }
    }
}

/// Asks the host in a thread of its own.
async fn ask(plan: Arc<Plan>) -> Told {
    tokio::task::spawn_blocking(move || host::ask(&plan)).await.unwrap_or_default()
}

/// Returns the identity of the server that listens at a socket.
fn server_at(socket: &Path) -> Option<Identity> {
    let about = std::fs::symlink_metadata(socket).ok()?;
    Some((about.ino(), about.ctime(), about.ctime_nsec()))
}

/// The control socket of a server that starts with a configuration.
fn socket_of(configuration: &Path) -> PathBuf {
    config::find_socket(configuration).unwrap_or_else(config::default_socket)
}

/// Answers who asked for a look.
async fn answer(mut stream: UnixStream, problems: &[String], is_refused: bool) {
    let lines: String = problems.iter().map(|line| format!("{line}\n")).collect();
    let text = if is_refused { format!("{REFUSED}{lines}") } else { lines };
    // Whoever has gone away does not want to know.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 16])).await;
}

/// Says something on the console.
fn say(text: &str) {
    log::print(&format!("aggregator boot: {text}"));
}
