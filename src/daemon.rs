//! The running server: everything is made from a configuration here, changed by a reload, and ended in order.
//!
//! Start: read what an earlier run left, bind every socket, publish the plan, start the sources, then answer. Reload
//! (`reload`): read and check the whole file, bind what is new, publish once, start and stop sources, and only then end
//! sockets that are gone; any error before the publication leaves everything as it was. Stop: no new connections,
//! finish what is owed, remove the control socket; UDP is answered to the very end, because a successor that has our
//! sockets begins only then.
//!
//! Nothing here answers queries or touches zones: the parts meet only through the keeper's queues and the published
//! root. Invariant: the loop of the daemon feeds the service manager's watchdog and takes orders, and waits for
//! nothing: not for a disk, a peer or a client.

mod audit;
mod changes;
pub mod descriptors;
mod diff;
mod disk;
mod drain;
mod heard;
mod history;
mod listeners;
mod loading;
mod lookup;
mod outward;
mod page;
mod plan;
mod probe;
mod rates;
mod reload;
mod restore;
mod rollback;
mod sources;
mod status;
mod text;
mod threads;

pub use text::{format_seconds, write_table};

use crate::config::{Config, LogFormat};
use crate::control::{self, ControlServer, Reply, Request};
use crate::discover::unicast::system_servers;
use crate::keeper;
use crate::log::{self, LogHandle};
use crate::metrics::{Metrics, unix_seconds};
use crate::notify::{self, Notifier};
use crate::publish::{Published, Publisher};
use crate::schedule::Schedule;
use crate::serve::notify::Reception;
use crate::serve::respond::Responder;
use crate::serve::udp::{DRAIN, UdpListener};
use crate::source::zookeeper::roots::Roots;
use crate::source::{Wake, WakeKind};
use crate::state::{StateError, Store};
use crate::systemd::Manager;
use crate::terminal::Bars;
use audit::start_schedule;
use descriptors::Descriptors;
use disk::DiskWork;
use drain::{DrainOrder, TargetText};
use listeners::Listeners;
use loading::Loading;
use page::{Inquiry, Page};
use plan::{announcers, publish_plan};
use probe::Probe;
use rates::Rates;
use reload::Reloads;
use restore::{open_store, restore};
use rollback::RollbackOrder;
use sources::Sources;
use status::{About, CatalogReport, Report, StateReport};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot};
use wire::name::Name;
use wire::serial::Serial;

/// Error: the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{}", .0.join("\n"))]
    Listen(Vec<String>),
    #[error("cannot use control socket {0}: {1}; choose another: [control] socket = \"PATH\"")]
    Control(PathBuf, io::Error),
    #[error("{0}")]
    State(StateError),
    #[error("cannot start: {0}")]
    Start(String),
}

/// A running server.
pub struct Daemon {
    config: Arc<Config>,
    started: Instant,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    keeper: keeper::Handle,
    /// Store on disk for versions; none if it is switched off.
    store: Option<Arc<Store>>,
    roots: Arc<Roots>,
    notifier: Arc<Notifier>,
    sources: Sources,
    listeners: Arc<Mutex<Listeners>>,
    schedule: Schedule,
    control: ControlServer,
    commands: mpsc::Receiver<control::Command>,
    command_sender: mpsc::Sender<control::Command>,
    log: Option<LogHandle>,
    manager: Arc<Manager>,
    hangup: Option<Signal>,
    notify: Arc<Reception>,
    /// Held while an operator's order about drains is carried out, and while another configuration is published.
    orders: Arc<Mutex<()>>,
    reloads: Reloads,
    disk: DiskWork,
    rates: Arc<Rates>,
    probe: Probe,
    /// Progress of first loads on the terminal, if there is one.
    loading: Option<Arc<Loading>>,
    /// Requests of the status page.
    inquiries: mpsc::Receiver<Inquiry>,
}

/// Longest time that the end of the process waits for threads that wait for something else, such as this machine's
/// resolver.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a server in the foreground until SIGTERM, SIGINT or `aggregator stop`.
pub fn run(config: Config) -> ExitCode {
    let bars = Bars::on_errors();
    reap_orphans();
    // The log has a thread of its own.
    let threads = threads::reserve(&config).map_err(|error| RunError::Start(error.to_string()));
    let result = threads.and_then(|threads| {
        let log = log::start(&config.log.level, config.log.format == LogFormat::Json, bars.as_ref());
        let log = log.map_err(|error| RunError::Start(error.to_string()))?;
        log::tell_panics();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(|error| RunError::Start(error.to_string()))?;
        let served = runtime.block_on(serve(config, log, bars.clone()));
        // Queries are answered meanwhile.
        runtime.shutdown_timeout(END_PATIENCE);
        served.map(drop)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::print(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Starts a server and serves until the end, which may come before the start is complete. What comes back still
/// answers.
async fn serve(config: Config, log: LogHandle, bars: Option<Bars>) -> Result<Vec<UdpListener>, RunError> {
    let end = end_signal().map_err(|error| RunError::Start(error.to_string()))?;
    tokio::pin!(end);
    let started = tokio::select! {
        biased;
        started = Daemon::start(config, Some(log), bars, Manager::from_environment()) => started?,
        () = &mut end => {
            tracing::info!("stopped before the start was complete");
            return Ok(Vec::new());
        }
    };
    Ok(started.run_until(end).await)
}

/// Ready when the process is asked to end.
pub fn end_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

impl Daemon {
    /// Starts a server; it answers when this returns, from its zones as soon as they are transferred, which `bars`
    /// show.
    pub async fn start(
        config: Config,
        log: Option<LogHandle>,
        bars: Option<Bars>,
        mut manager: Manager,
    ) -> Result<Daemon, RunError> {
        // First of all: until someone listens for it, this signal ends the process.
        let hangup = signal(SignalKind::hangup()).ok();
        let descriptors = Descriptors::raise();
        let config = Arc::new(config);
        let publisher = Arc::new(Publisher::default());
        let metrics = Arc::new(Metrics::new());
        log::count_lost(&metrics.log_lines_lost);
        // A counter that begins at its first failure hides that failure from `increase()`.
        ["ok", "failed"].iter().for_each(|result| drop(metrics.reloads.with_label_values(&[result])));
        let (notify, announced) = Reception::new(metrics.clone());
        notify.set_announcers(announcers(&config));
        let sources = Sources::start(metrics.clone());
        let loading = bars.map(|bars| Loading::start(bars, sources.clone(), publisher.clone()));
        // What an earlier run left is read before a socket opens: clients go to another server until then.
        let disk = DiskWork::default();
        let (plan, shown, measured) = (config.clone(), loading.clone(), metrics.clone());
        let read = move || {
            let store = open_store(&plan, &measured)?;
            let remains = restore(store.as_deref(), &plan, &Published::default(), shown.as_deref());
            Ok((store, remains))
        };
        let (store, mut remains) = disk.run("read the state folder", None, read).await.map_err(start_failed)??;
        let roots = Arc::new(Roots::new(store.clone()));
        let (heard, heard_later) = heard::ask_at_start(&config, store.as_deref(), &remains).await;
        remains.heard = heard;
        // All that may be taken comes before anything is published, and so before anything is written.
        let plan = config.clone();
        let open = move || {
            let path = &plan.control.socket;
            let socket = control::bind(path).map_err(|error| RunError::Control(path.clone(), error));
            (reload::load_identity(&plan), socket, system_servers().unwrap_or_default())
        };
        let (identity, socket, resolvers) =
            disk.run("open the control socket", None, open).await.map_err(start_failed)?;
        let clock = || unix_seconds(SystemTime::now()).unsigned_abs();
        let responder = Responder::new(notify.clone(), metrics.clone(), clock);
        let inherited = std::mem::take(&mut manager.inherited);
        let manager = Arc::new(manager);
        let handover = (manager.clone(), inherited);
        let rates = Arc::new(Rates::start(metrics.clone(), publisher.clone()));
        let (page, inquiries) = Page::new(publisher.clone(), rates.clone());
        let mut listeners =
            Listeners::new(&config, publisher.clone(), responder, metrics.clone(), page, handover, descriptors);
        let bound = listeners.bind(&config, identity).map_err(RunError::Listen)?;
        let socket = socket?;
        let schedule = start_schedule(&config, &sources).await.map_err(RunError::Start)?;
        let keeper = keeper::start(publisher.clone(), metrics.clone(), store.clone());
        let writer = keeper.clone();
        let launch = async move {
            let plan = publish_plan(&keeper, &config, remains, &Published::default()).await;
            plan.ok_or_else(|| RunError::Start("the keeper has ended".into()))?;
            let notifier = Arc::new(notify::start(publisher.clone(), metrics.clone()));
            notifier.set_targets(config.targets.clone());
            listeners.adopt(&config, bound).map_err(start_failed)?;
            let addresses = listeners.addresses();
            let (command_sender, commands) = mpsc::channel(64);
            let control = socket.start(command_sender.clone()).map_err(start_failed)?;
            metrics.config_loaded.set(unix_seconds(SystemTime::now()));
            metrics.config_is_current.set(1);
            tokio::spawn(sources.clone().obey(announced));
            sources.replace(&config, &keeper, &publisher, &metrics, &roots);
            heard_later.tell(&keeper, publisher.clone(), sources.clone());
            let mut probe = Probe::new(publisher.clone(), metrics.clone());
            probe.follow(&config, resolvers);
            let (zones, regions) = (config.source_zones().count(), config.regions.len());
            tracing::info!(version = env!("CARGO_PKG_VERSION"), zones, regions, ?addresses, "started");
            Ok(Daemon {
                config,
                started: Instant::now(),
                publisher,
                metrics,
                keeper,
                store,
                roots,
                notifier,
                sources,
                listeners: Arc::new(Mutex::new(listeners)),
                schedule,
                control,
                commands,
                command_sender,
                log,
                manager,
                hangup,
                notify,
                orders: Arc::default(),
                reloads: Reloads::default(),
                disk,
                rates,
                probe,
                loading,
                inquiries,
            })
        };
        let launched: Result<Daemon, RunError> = launch.await;
        match &launched {
            Ok(daemon) => daemon.manager.ready(&daemon.summary()),
            // The writer does not outlive the runtime.
            Err(_) => writer.end().await,
        }
        launched
    }

    /// The published root, for readers in this process.
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// Returns the number of zones and regions served, as the service manager shows it.
    fn summary(&self) -> String {
        let (zones, regions) = (self.config.source_zones().count(), self.config.regions.len());
        format!("zones: {zones}, regions: {regions}, serving")
    }

    /// Serves until `end` is ready or an operator says stop. What comes back still answers over UDP, until it is
    /// dropped.
    pub async fn run_until(mut self, end: impl Future<Output = ()>) -> Vec<UdpListener> {
        tokio::pin!(end);
        let manager = self.manager.clone();
        let mut pulse = manager.watchdog().map(tokio::time::interval);
        let stop = loop {
            let hung_up = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let due = async {
                match &mut pulse {
                    Some(pulse) => _ = pulse.tick().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut end => break None,
                () = due => manager.alive(),
                Some(()) = hung_up => self.reload(None),
                (result, askers) = self.reloads.finished() => self.end_reload(result, askers),
                Some(inquiry) = self.inquiries.recv() => self.inform(inquiry),
                Some(command) = self.commands.recv() => match command.request {
                    Request::Stop => break Some(command.reply),
                    Request::Reload { refused: None } => self.reload(Some(command.reply)),
                    Request::Reload { refused: Some(problems) } => drop(command.reply.send(self.not_reloaded(problems))),
                    request => self.handle(request, command.reply),
                },
            }
        };
        tracing::info!("stopping");
        manager.stopping();
        if let Some(reply) = stop {
            // The client sees that we have stopped when its connection ends.
            let _ = reply.send(Reply { ok: true, text: "stopping\n".into(), data: serde_json::Value::Null });
        }
        self.end_reloads().await;
        self.schedule.stop();
        self.sources.lock().clear();
        let udp = self.listeners.lock().await.end_streams().await;
        // Connections are answered a little longer; none is worth more than that.
        let all_closed = async {
            while self.metrics.tcp_connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        _ = tokio::time::timeout(DRAIN, all_closed).await;
        tracing::info!("stopped");
        self.control.end_with_process().await;
        // With the keeper goes what is still to be written.
        self.keeper.end().await;
        udp
    }

    //--- Other verbs ---

    /// Answers a request in a task of its own: waiting for a primary must not keep others waiting.
    fn handle(&self, request: Request, reply: oneshot::Sender<Reply>) {
        let answer: Pin<Box<dyn Future<Output = Reply> + Send>> = match request {
            Request::Status { zone } => Box::pin(self.status(zone)),
            Request::Refresh { zone } => Box::pin(self.wake(zone, WakeKind::Refresh)),
            Request::Retransfer { zone, accept } => Box::pin(self.wake(Some(zone), WakeKind::Retransfer { accept })),
            Request::Dump { zone } => Box::pin(self.dump(zone)),
            Request::Diff { zone, from, to } => Box::pin(self.diff(zone, from.map(Serial), to.map(Serial))),
            Request::History { name, zone, limit } => Box::pin(self.history(name, zone, limit)),
            Request::Rollback { zone, to, reason, preview } => {
                Box::pin(self.rollback(RollbackOrder { zone, to: Serial(to), reason, preview }))
            }
            Request::Release { zone, preview } => Box::pin(self.release(zone, preview)),
            Request::Lookup { name, rtype } => Box::pin(self.lookup(name, rtype)),
            Request::Drain { member, region, names, milliseconds, reason, force, preview } => {
                let (target, lasts) = (TargetText { member, region, names }, milliseconds.map(Duration::from_millis));
                Box::pin(self.drain(DrainOrder { target, lasts, reason, force, preview }))
            }
            Request::Undrain { member, region, names } => Box::pin(self.undrain(TargetText { member, region, names })),
            Request::Notify { zone } => {
                let reply = self.notify_secondaries(zone.as_deref());
                Box::pin(std::future::ready(reply.unwrap_or_else(|error| Reply::failure(error + "\n"))))
            }
            // The loop that calls this takes these two itself.
            Request::Reload { .. } | Request::Stop => return,
        };
        tokio::spawn(async move {
            // The client may have gone.
            let _ = reply.send(answer.await);
        });
    }

    /// Shows all zones, or everything about one.
    fn status(&self, only: Option<String>) -> impl Future<Output = Reply> + Send + use<> {
        let name = only.as_deref().map(Name::parse).transpose();
        let report = name.as_ref().ok().map(|name| self.report(name.clone()));
        async move {
            let name = match name {
                Ok(name) => name,
                Err(error) => return Reply::failure(format!("no zone name: {error}\n")),
            };
            let report = match report {
                Some(report) => report.await,
                None => None,
            };
            let Some(report) = report else { return Reply::failure("the server is stopping\n") };
            if let Some(name) = name.filter(|_| report.is_empty()) {
                return Reply::failure(format!("zone {name} is not configured; see \"aggregator status\"\n"));
            }
            let text = if only.is_some() { report.details() } else { report.overview() };
            Reply { ok: true, text, data: serde_json::json!(report) }
        }
    }

    /// Collects the status of all zones, or of one; none while the server is stopping.
    fn report(&self, only: Option<Name>) -> impl Future<Output = Option<Report>> + Send + use<> {
        let snapshot = self.keeper.snapshots.load_full();
        let sources = self.sources.lock().iter().map(|(name, source)| (name.clone(), source.status())).collect();
        let published = &snapshot.published;
        let outward = outward::gather(published, &self.notifier, &self.metrics, only.as_ref());
        let store = self.store.as_ref().map(|store| store.status());
        let catalog = self.config.catalog.as_ref();
        let about = About {
            generation: published.generation,
            memory: self.keeper.budget.usage(),
            uptime: self.started.elapsed(),
            config: self.config.path.display().to_string(),
            next_audit: self.schedule.next(),
            state: StateReport::new(self.config.state.as_deref(), store),
            catalog: catalog.map(|plan| CatalogReport::new(&plan.origin, published)),
            queries: self.rates.read().rates,
            name_servers: self.probe.report(only.as_ref()),
        };
        async move { Some(Report::new(snapshot.status(Instant::now()), sources, outward, about, only.as_ref())) }
    }

    /// Wakes sources and waits for their results: one zone's, a region's members', or all.
    fn wake(&self, zone: Option<String>, kind: WakeKind) -> impl Future<Output = Reply> + Send + use<> {
        let waiting = self.send_wakes(zone.as_deref(), kind);
        async move {
            let waiting = match waiting {
                Ok(waiting) => waiting,
                Err(error) => return Reply::failure(error + "\n"),
            };
            let (mut text, mut ok, mut data) = (String::new(), true, serde_json::Map::new());
            for (name, done) in waiting {
                let result = done.await;
                let result = result.unwrap_or_else(|_| Err("a reload changed the zone meanwhile; ask again".into()));
                ok &= result.is_ok();
                let (Ok(line) | Err(line)) = &result;
                text.push_str(&format!("{name} {line}\n"));
                data.insert(name.to_string(), serde_json::json!({ "ok": result.is_ok(), "result": line }));
            }
            Reply { ok, text, data: data.into() }
        }
    }

    /// Wakes the sources that a request means, and gives what each will answer.
    fn send_wakes(&self, zone: Option<&str>, kind: WakeKind) -> Result<Vec<(Name, WakeResult)>, String> {
        let name = zone.map(Name::parse).transpose().map_err(|error| format!("no zone name: {error}"))?;
        let region = self.config.regions.iter().find(|region| Some(&region.origin) == name.as_ref());
        let mut names: Vec<Name> = match (&name, region) {
            (_, Some(region)) if kind == WakeKind::Refresh => region.members.clone(),
            (Some(name), Some(_)) => return Err(format!("{name} is a region; name one of its member zones")),
            (Some(name), None) => vec![name.clone()],
            (None, _) => self.sources.main_zones(),
        };
        names.sort_by(Name::canonical_cmp);
        let sources = self.sources.lock();
        let wake = |name: Name| {
            let source = sources
                .get(&name)
                .ok_or_else(|| format!("zone {name} is not configured; see \"aggregator status\""))?;
            let (done, result) = oneshot::channel();
            source.wake(Wake { kind, done: Some(done) });
            Ok((name, result))
        };
        names.into_iter().map(wake).collect()
    }

    /// Announces zones to their secondaries, whether they have changed or not.
    fn notify_secondaries(&self, zone: Option<&str>) -> Result<Reply, String> {
        let name = zone.map(Name::parse).transpose().map_err(|error| format!("no zone name: {error}"))?;
        if let Some(name) = name.as_ref().filter(|name| self.publisher.load().get(name).is_none()) {
            return Err(format!("zone {name} is not configured; see \"aggregator status\""));
        }
        let sent = self.notifier.notify_now(name.as_ref());
        if sent == 0 {
            let what = name.map_or("no zone".to_owned(), |name| format!("zone {name}"));
            let verb = if zone.is_some() { "has no" } else { "has" };
            return Err(format!("{what} {verb} secondaries to tell; set \"notify\" in the configuration"));
        }
        let text = format!("announcements on their way: {sent}; \"aggregator status ZONE\" shows what comes back\n");
        Ok(Reply { ok: true, text, data: serde_json::json!({ "announcements": sent }) })
    }

    /// Prints a zone as a zone file.
    fn dump(&self, zone: String) -> impl Future<Output = Reply> + Send + use<> {
        let published = self.publisher.load();
        async move {
            let printed = tokio::task::spawn_blocking(move || {
                let name = Name::parse(&zone).map_err(|error| format!("no zone name: {error}"))?;
                let served = published
                    .get(&name)
                    .ok_or_else(|| format!("zone {name} is not configured; see \"aggregator status\""))?;
                let data = served.zone.as_ref().ok_or_else(|| format!("zone {name} has not been transferred yet"))?;
                let mut text = String::new();
                data.write_text(&mut text).map_err(|error| error.to_string())?;
                let about = serde_json::json!({
                    "zone": name, "state": served.state, "serial": data.soa.serial, "records": data.records,
                });
                Ok::<_, String>((text, about))
            });
            match printed.await {
                Ok(Ok((text, data))) => Reply { ok: true, text, data },
                Ok(Err(error)) => Reply::failure(error + "\n"),
                Err(error) => Reply::failure(format!("{error}\n")),
            }
        }
    }
}

/// Returns the error for a start that failed for this reason.
fn start_failed(reason: impl std::fmt::Display) -> RunError {
    RunError::Start(reason.to_string())
}

/// Lets the system forget ended children. As the first process of a container, this one inherits those of others.
fn reap_orphans() {
    if std::process::id() == 1 {
        // SAFETY: this process has no children of its own to wait for.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}

/// Result that a source sends to whoever woke it.
type WakeResult = oneshot::Receiver<Result<String, String>>;
