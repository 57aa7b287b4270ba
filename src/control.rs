//! The control socket: how `aggregator status` and the other verbs reach the running server.
//!
//! A client connects to a Unix socket and sends one line of JSON, a [`Request`]. The server answers with one line
//! `{"ok":…,"data":…,"text_bytes":N}`, then N octets of text, and closes. The text stands outside of the JSON so that a
//! dump of a million records is neither escaped nor parsed. After the reply to [`Request::Stop`] the connection stays
//! open until the server has ended, so that the client can wait for that.
//!
//! Invariants: whoever may open the socket (by default, mode 0660) may do everything; a client that is silent, sends nonsense or
//! goes away costs its own connection only, and gives way when all places are taken; the socket of a running server is
//! never taken over, and a file that is no socket is never removed.
//!
//! Cost: a task for each client; O(text) to send a reply.

pub mod resources;
pub mod server;

use crate::accept::AcceptFailures;
use crate::client::http::HttpError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

/// Longest request: a verb and a zone name, whose text has at most 1,004 characters.
const MAX_REQUEST_BYTES: u64 = 4096;
/// Longest first line of a reply; JSON data of a million records stays below.
const MAX_HEAD_BYTES: u64 = 1 << 30;
/// Clients at the same time; operators and their scripts, not the public.
pub const MAX_CLIENTS: usize = 64;
/// Text is sent in pieces of this size, each with its own deadline.
const PIECE_BYTES: usize = 64 << 10;
/// Longest wait for the place of a client that was sent away.
const DISPLACEMENT: Duration = Duration::from_millis(100);
/// Longest time that a client may take to send its line, and to take each piece of the reply.
const PATIENCE: Duration = Duration::from_secs(10);

impl Request {
    /// An order to read the configuration again.
    pub const RELOAD: Request = Request::Reload { refused: None };

    /// Word of a configuration that is not used, as much of it as a request has room for.
    pub fn refused(problems: &[String]) -> Request {
        // JSON may take six octets for one; a quarter of the room is for the longest first line.
        let mut room = MAX_REQUEST_BYTES as usize * 3 / 4;
        let mut text = String::new();
        for c in problems.join("\n").chars() {
            let size = if c.is_control() || matches!(c, '"' | '\\') { 6 } else { c.len_utf8() };
            match room.checked_sub(size) {
                Some(left) => room = left,
                None => break,
            }
            text.push(c);
        }
        Request::Reload { refused: Some(text) }
    }
}

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum Request {
    /// Read the configuration again and go on with it; or, with what was wrong with a newer one that never became the
    /// file, only say and count that.
    Reload {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// Tell what a reload would do, or what it would do with another file in place of the configuration, and do nothing.
    /// A verb of its own: a server that does not know it must not reload.
    Forecast {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
    /// The state of all zones, or of one.
    Status { zone: Option<String> },
    /// Poll the primaries of all zones, or of one, now.
    Refresh { zone: Option<String> },
    /// Transfer a zone in full, even if its serial is the same; `accept` takes it even if most of the zone is gone or
    /// the serial is older than ours.
    Retransfer {
        zone: String,
        #[serde(default)]
        accept: bool,
    },
    /// All records of a zone.
    Dump { zone: String },
    /// The differences between two versions of a zone; by default the present one and the one before it.
    Diff {
        zone: String,
        #[serde(default)]
        from: Option<u32>,
        #[serde(default)]
        to: Option<u32>,
    },
    /// The differences between a zone as another server has it and as it is served. A verb of its own: a server that does
    /// not know it must not tell of earlier versions instead.
    Compare {
        zone: String,
        with: SocketAddr,
        /// The name of the key that signs the transfer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// The versions of all zones, or of one, or the changes of a name in the zone that has it or in another.
    History { name: Option<String>, zone: Option<String>, limit: Option<usize> },
    /// Take a region back to the contents of an earlier version, or tell what that would do.
    Rollback(RollbackOrder),
    /// Let a region follow its members again, or tell what that would do.
    Release {
        zone: String,
        #[serde(default)]
        preview: bool,
    },
    /// Explain why a name answers as it does, for one type or all.
    Lookup {
        name: String,
        #[serde(default, rename = "type")]
        rtype: Option<String>,
        /// The address or subnet of the client that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// Tell where regions lead to sets larger than their own answers have.
    Leads,
    /// Take a member, or names of it, out of regions, or tell what that would do.
    Drain(DrainOrder),
    /// Keep some percent of the clients from a member, or names of it. A verb of its own: a server that does not know
    /// it must not take the order for a whole drain.
    DrainShare {
        percent: u8,
        #[serde(flatten)]
        order: DrainOrder,
    },
    /// End drains that were ordered.
    Undrain(UndrainOrder),
    /// What `aggregator cns` asks of inventories.
    Cns(CnsRequest),
    /// What is in force of the rights that the process has given up.
    Security,
    /// Announce all zones, or one, to their secondaries now.
    Notify { zone: Option<String> },
    /// End the server.
    Stop,
}

/// What is asked of inventories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum CnsRequest {
    /// Zones with their last changes, and peers with what they have.
    Status,
    /// One instance.
    Vm { uuid: String },
    /// All peers, or one.
    Peers { address: Option<String> },
    /// Zones as they are configured.
    Zones,
    /// Take a report on an instance, `up` or `down`, or withdraw it with `none`.
    Report {
        uuid: String,
        status: String,
        /// Time to live; without it the report counts until it is withdrawn.
        #[serde(default)]
        milliseconds: Option<u64>,
    },
    /// Forget an instance and all its records.
    Forget { uuid: String },
    /// End the holds at the name of a service.
    Release { name: String },
}

impl CnsRequest {
    /// True if it changes what an inventory has.
    fn is_order(&self) -> bool {
        matches!(self, CnsRequest::Report { .. } | CnsRequest::Forget { .. } | CnsRequest::Release { .. })
    }
}

/// An order to take a region back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RollbackOrder {
    pub zone: String,
    pub to: u32,
    pub reason: Option<String>,
    /// True to show the effect without changing anything.
    #[serde(default)]
    pub preview: bool,
}

/// An order to drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainOrder {
    #[serde(flatten)]
    pub target: TargetText,
    /// Duration of the drain; without it, the drain lasts until it is ended.
    pub milliseconds: Option<u64>,
    pub reason: Option<String>,
    /// True if a region may be left empty.
    #[serde(default)]
    pub force: bool,
    /// True to show the effect without draining anything.
    #[serde(default)]
    pub preview: bool,
}

/// An order to end drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndrainOrder {
    #[serde(flatten)]
    pub target: TargetText,
    /// True if only a drain with exactly this target ends, and not all those that it has parts of.
    #[serde(default)]
    pub exact: bool,
}

/// A target of drains as operators write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetText {
    /// A member in full or by its first labels.
    pub member: String,
    pub region: Option<String>,
    pub names: Option<String>,
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub ok: bool,
    /// Text for people.
    pub text: String,
    /// Data for `--json`.
    pub data: Value,
}

impl Reply {
    /// Returns the reply to a request that failed, with the reason in words.
    pub fn failure(text: impl Into<String>) -> Reply {
        Reply { ok: false, text: text.into(), data: Value::Null }
    }
}

/// The first line of a reply.
#[derive(Serialize, Deserialize)]
struct Head {
    ok: bool,
    data: Value,
    text_bytes: u64,
}

/// A request on its way to the daemon, with the way back.
pub struct Command {
    pub request: Request,
    pub reply: oneshot::Sender<Reply>,
}

//--- Server ---

/// Control socket that is bound and not yet in service.
pub struct ControlListener {
    listener: std::os::unix::net::UnixListener,
    file: SocketFile,
    patience: Duration,
}

/// The socket's file; dropping it removes the file, if it is still the same one.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            // A socket left behind does no harm: the next start finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns true if a server accepts connections at the path.
pub fn is_answering(path: &Path) -> bool {
    try_connect(path).is_ok()
}

/// Connects and leaves at once. A server that hangs, so that connections wait for it in line, is one, too.
fn try_connect(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// The numbers and names of groups.
const GROUPS: &str = "/etc/group";

/// Lets a group, by name or number, and others open a socket as permissions say; without a group it keeps the one that
/// it has.
pub fn admit(path: &Path, group: Option<&str>, mode: u32) -> io::Result<()> {
    if let Some(group) = group {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("it cannot belong to group {group}: {error}"));
        find_group(group).and_then(|number| chown(path, None, Some(number))).map_err(named)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The number of a group.
fn find_group(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string(GROUPS)?;
    let number = groups.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        rest.split(':').nth(1).filter(|_| name == group)?.parse().ok()
    });
    number.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{GROUPS} does not have it")))
}

/// Creates the socket and its folder, in place of a socket at which no server listens any more.
pub fn bind(path: &Path, group: Option<&str>, mode: u32) -> io::Result<ControlListener> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    match fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => remove_stale(path)?,
        Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_path_buf(), identity: (metadata.dev(), metadata.ino()) };
    // Before listening, so that nobody else can ever connect, whatever the umask.
    admit(path, group, mode)?;
    socket.listen(MAX_CLIENTS as i32)?;
    socket.set_nonblocking(true)?;
    Ok(ControlListener { listener: socket.into(), file, patience: PATIENCE })
}

/// Removes a socket that refuses connections; one that takes them belongs to a running server.
fn remove_stale(path: &Path) -> io::Result<()> {
    match try_connect(path) {
        Ok(()) => Err(io::Error::new(ErrorKind::AddrInUse, "another aggregator is running")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

impl ControlListener {
    /// Starts to serve clients; their requests arrive as commands.
    pub fn start(self, commands: mpsc::Sender<Command>) -> io::Result<ControlServer> {
        let listener = UnixListener::from_std(self.listener)?;
        let stop = watch::Sender::new(End::NotYet);
        tokio::spawn(accept(listener, commands, self.patience, stop.subscribe()));
        Ok(ControlServer { file: Some(self.file), stop })
    }
}

/// Time at which clients that asked the server to end get their reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Now,
    WithProcess,
}

/// A control socket in service. Dropping it stops accepting, removes the socket, and lets clients go that wait for the
/// end; replies on their way are finished.
pub struct ControlServer {
    file: Option<SocketFile>,
    stop: watch::Sender<End>,
}

impl ControlServer {
    /// Ends the service like a drop, but clients that asked for the end see it only when the whole process has ended:
    /// its ports are free then, and another server can start.
    pub async fn end_with_process(mut self) {
        self.file.take();
        self.stop.send_replace(End::WithProcess);
        let tasks_done = async {
            while self.stop.receiver_count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // A client that does not take its reply must not keep the server from ending.
        _ = timeout(Duration::from_millis(500), tasks_done).await;
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // First the file: a client that sees its connection end must not find the socket.
        self.file.take();
        self.stop.send_if_modified(|end| std::mem::replace(end, End::Now) == End::NotYet);
    }
}

/// Accepts clients until told to stop.
async fn accept(
    listener: UnixListener,
    commands: mpsc::Sender<Command>,
    patience: Duration,
    mut stop: watch::Receiver<End>,
) {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    // Clients that have not said what they want, the first to come first.
    let mut silent: VecDeque<oneshot::Sender<()>> = VecDeque::new();
    let mut failures = AcceptFailures::new("a control connection");
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|end| *end != End::NotYet) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                silent.retain(|client| !client.is_closed());
                // A client too many is closed at once and says so itself.
                let Some(place) = take_place(&places, &mut silent).await else { continue };
                let (commands, stop) = (commands.clone(), stop.clone());
                let (unheard, displaced) = oneshot::channel();
                silent.push_back(unheard);
                tokio::spawn(async move {
                    // That a client went away is no fact worth a log line.
                    let _ = serve(stream, commands, patience, stop, displaced).await;
                    drop(place);
                });
            }
            Err(error) => failures.pause(&error).await,
        }
    }
}

/// A place for a newcomer: a free one, or that of the client that has been silent for longest.
async fn take_place(
    places: &Arc<Semaphore>,
    silent: &mut VecDeque<oneshot::Sender<()>>,
) -> Option<OwnedSemaphorePermit> {
    loop {
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Some(place);
        }
        drop(silent.pop_front()?);
        // Unless it has spoken just now.
        if let Ok(Ok(place)) = timeout(DISPLACEMENT, places.clone().acquire_owned()).await {
            return Some(place);
        }
    }
}

/// Serves one client, unless another takes its place before it has sent a request.
async fn serve(
    mut stream: UnixStream,
    commands: mpsc::Sender<Command>,
    patience: Duration,
    mut stop: watch::Receiver<End>,
    mut displaced: oneshot::Receiver<()>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let line = tokio::select! {
        line = timeout(patience, read_line(BufReader::new(reader), MAX_REQUEST_BYTES)) => line??,
        _ = stop.wait_for(|end| *end != End::NotYet) => return Ok(()),
        _ = &mut displaced => return Ok(()),
    };
    drop(displaced);
    let mut ending = false;
    let reply = match line {
        None => Reply::failure(format!("the request is no line of at most {MAX_REQUEST_BYTES} octets")),
        Some(line) => match serde_json::from_slice::<Request>(&line) {
            Ok(request) => {
                ending = request == Request::Stop;
                ask(&commands, request).await
            }
            Err(error) => Reply::failure(format!("the request is not understood: {error}")),
        },
    };
    ending &= reply.ok;
    let head = Head { ok: reply.ok, data: reply.data, text_bytes: reply.text.len() as u64 };
    let mut head = serde_json::to_vec(&head)?;
    head.push(b'\n');
    for piece in head.chunks(PIECE_BYTES).chain(reply.text.as_bytes().chunks(PIECE_BYTES)) {
        timeout(patience, writer.write_all(piece)).await??;
    }
    if ending {
        // An error means that the server is gone already, which is as good.
        let end = stop.wait_for(|end| *end != End::NotYet).await.map_or(End::Now, |end| *end);
        if end == End::WithProcess {
            // Never closed by us: the system does it when nothing of the process is left.
            std::mem::forget(stream.into_std()?);
        }
    }
    Ok(())
}

/// Has the daemon carry out a request.
pub async fn ask(commands: &mpsc::Sender<Command>, request: Request) -> Reply {
    let (reply, answered) = oneshot::channel();
    let ended = || Reply::failure("the server is ending");
    match commands.send(Command { request, reply }).await {
        Ok(()) => answered.await.unwrap_or_else(|_| ended()),
        Err(_) => ended(),
    }
}

/// Reads up to a line feed, which is not returned; `None` if there is none within the limit.
async fn read_line(reader: impl AsyncBufRead + Unpin, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(limit).read_until(b'\n', &mut line).await?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

//--- Client ---

/// Error: a request got no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no server is running: nobody listens at {}", .0.display())]
    NotRunning(PathBuf),
    #[error("cannot use {}: permission denied; run as the server's user or join its group", .0.display())]
    Denied(PathBuf),
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("the server at {} does not reply; it hangs or is stopped", .0.display())]
    Silent(PathBuf),
    #[error("the server closed the connection without a complete reply")]
    Lost,
    #[error("the reply is not understood, which happens when program and server differ in version: {0}")]
    Malformed(serde_json::Error),
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("{url}: {error}")]
    Unreachable { url: String, error: HttpError },
    #[error("{url} refuses this with {status}: {why}")]
    Refused { url: String, status: u16, why: String },
}

/// Returns the longest wait for the reply to a request: that of a transfer for a request that waits for one.
fn patience_with(request: &Request) -> Duration {
    match request {
        Request::Refresh { .. } | Request::Retransfer { .. } | Request::Compare { .. } => Duration::from_secs(3600),
        // One that waits for another, and both for the disk.
        Request::Reload { .. } | Request::Forecast { .. } => Duration::from_secs(120),
        Request::Status { .. }
        | Request::Dump { .. }
        | Request::Diff { .. }
        | Request::History { .. }
        | Request::Rollback(_)
        | Request::Release { .. }
        | Request::Lookup { .. }
        | Request::Leads
        | Request::Security
        | Request::Drain(_)
        | Request::DrainShare { .. }
        | Request::Undrain(_)
        | Request::Cns(_)
        | Request::Notify { .. }
        | Request::Stop => Duration::from_secs(60),
    }
}

/// Sends one request and waits for the reply; after [`Request::Stop`] also for the end of the server.
pub async fn call(path: &Path, request: &Request) -> Result<Reply, CallError> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => CallError::NotRunning(path.to_path_buf()),
        ErrorKind::PermissionDenied => CallError::Denied(path.to_path_buf()),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => CallError::Lost,
        _ => CallError::Io { path: path.to_path_buf(), error },
    };
    let silent = || CallError::Silent(path.to_path_buf());
    let stream = timeout(PATIENCE, UnixStream::connect(path)).await.map_err(|_| silent())?.map_err(failed)?;
    let mut stream = BufReader::new(stream);
    let mut line = serde_json::to_vec(request).expect("a request is representable in JSON");
    line.push(b'\n');
    stream.write_all(&line).await.map_err(failed)?;
    let head = timeout(patience_with(request), read_line(&mut stream, MAX_HEAD_BYTES)).await;
    let head = head.map_err(|_| silent())?.map_err(failed)?.ok_or(CallError::Lost)?;
    let head: Head = serde_json::from_slice(&head).map_err(CallError::Malformed)?;
    let mut text = Vec::new();
    (&mut stream).take(head.text_bytes).read_to_end(&mut text).await.map_err(failed)?;
    if text.len() as u64 != head.text_bytes {
        return Err(CallError::Lost);
    }
    if *request == Request::Stop && head.ok {
        // However the connection ends, the server has.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    Ok(Reply { ok: head.ok, text: String::from_utf8_lossy(&text).into_owned(), data: head.data })
}

#[cfg(test)]
mod tests;
