//! The running server: everything is made from a configuration here, changed by a reload, and ended in order.
//!
//! Start: read what an earlier run left, bind every socket, publish the plan, start the sources, then answer. Reload
//! (`reload`): read and check the whole file, bind what is new, publish once, start and stop sources, and only then end
//! sockets that are gone; any error before the publication leaves everything as it was. Stop: no new connections,
//! finish what is owed, remove the control socket; UDP is answered to the very end, because a successor that has our
//! sockets begins only then.
//!
//! Before all of that the process gives up the rights that it does not need (`rights`).
//!
//! Nothing here answers queries or touches zones: the parts meet only through the keeper's queues and the published
//! root. Invariant: the loop of the daemon feeds the service manager's watchdog and takes orders, and waits for
//! nothing: not for a disk, a peer or a client.

mod audit;
mod catalogs;
mod cns;
pub mod descriptors;
mod disk;
mod drain;
mod forecast;
mod heard;
mod hosts;
mod listeners;
mod order_desk;
mod orders;
mod plan;
pub mod probe;
mod reload;
mod restore;
pub mod rights;
mod rollback;
pub mod sources;
mod threads;
mod upkeep;
mod ways;

use crate::config::{Config, ControlPlan, LogFormat};
use crate::control::{self, ControlServer, Reply, Request};
use crate::discover::unicast::system_servers;
use crate::keeper;
use crate::log::{self, LogHandle};
use crate::metrics::{Metrics, unix_seconds};
use crate::notify;
use crate::publish::{Published, Publisher};
use crate::schedule::Schedule;
use crate::serve::notify::Reception;
use crate::serve::respond::Responder;
use crate::serve::udp::{DRAIN, UdpListener};
use crate::source::zookeeper::roots::Roots;
use crate::state::StateError;
use crate::systemd::Manager;
use crate::terminal::Bars;
use crate::trace;
use crate::view;
use crate::view::loading::Loading;
use crate::view::rates::Rates;
use crate::view::secondaries;
use arc_swap::ArcSwap;
use audit::start_schedule;
use catalogs::{Watch, tell};
use descriptors::Descriptors;
use disk::DiskWork;
use hosts::Lookups;
use listeners::Listeners;
use order_desk::OrderWays;
use plan::{announcers, publish_plan};
use probe::Probe;
use reload::Reloads;
use restore::{open_store, restore_all};
use sources::Sources;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc};
use ways::Ways;

/// Error: the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{}", .0.join("\n"))]
    Listen(Vec<String>),
    #[error("cannot use control socket {0}: {1}; choose another: [control] socket = \"PATH\"")]
    Control(PathBuf, io::Error),
    #[error("{0}")]
    State(StateError),
    #[error("{0}")]
    Rights(rights::RightsError),
    #[error("cannot start: {0}")]
    Start(String),
}

/// A running server.
pub struct Daemon {
    ways: Ways,
    schedule: Schedule,
    control: ControlServer,
    commands: mpsc::Receiver<control::Command>,
    log: Option<LogHandle>,
    manager: Arc<Manager>,
    hangup: Option<Signal>,
    reloads: Reloads,
    catalogs: Watch,
    disk: DiskWork,
    probe: Probe,
    /// Look-ups of hosts that access rules name.
    hosts: Lookups,
}

/// Longest time that the end of the process waits for threads that wait for something else, such as this machine's
/// resolver.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a server in the foreground until SIGTERM, SIGINT or `aggregator stop`.
pub fn run(config: Config) -> ExitCode {
    upkeep::prepare();
    match begin(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::print(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Gives up rights, and runs a server.
fn begin(config: Config) -> Result<(), RunError> {
    // Before there is a second thread, which would keep its rights.
    let (config, notices) = rights::become_user(config).map_err(RunError::Rights)?;
    // As that user, whose threads are counted; those that this tries are gone again.
    let threads = threads::reserve(&config).map_err(start_failed)?;
    rights::confine(&config);
    let bars = Bars::on_errors();
    reap_orphans();
    // The log has a thread of its own.
    let log = log::start(&config.log.level, config.log.format == LogFormat::Json, bars.as_ref());
    let log = log.map_err(start_failed)?;
    log::tell_panics();
    notices.tell();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(start_failed)?;
    let served = runtime.block_on(serve(config, log, bars.clone()));
    // Queries are answered meanwhile.
    runtime.shutdown_timeout(END_PATIENCE);
    served.map(drop)
}

/// Starts a server and serves until the end, which may come before the start is complete. What comes back still
/// answers.
async fn serve(config: Config, log: LogHandle, bars: Option<Bars>) -> Result<Vec<UdpListener>, RunError> {
    let end = end_signal().map_err(start_failed)?;
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
        let sources = Sources::start(metrics.clone());
        let loading = bars.map(|bars| Loading::start(bars, sources.clone(), publisher.clone()));
        // What an earlier run left is read before a socket opens: clients go to another server until then.
        let disk = DiskWork::default();
        let (plan, shown, measured) = (config.clone(), loading.clone(), metrics.clone());
        let read = move || {
            let store = open_store(&plan, &measured)?;
            let (config, remains) = restore_all(store.as_deref(), &plan, shown.as_deref());
            Ok((store, config, remains))
        };
        let (store, config, mut remains) =
            disk.run("read the state folder", None, read).await.map_err(start_failed)??;
        notify.set_announcers(announcers(&config));
        tell(&config, &config.written(), &metrics);
        let roots = Arc::new(Roots::new(store.clone()));
        sources.keep_in(store.is_some().then_some(config.state.as_deref()).flatten());
        let (heard, heard_later) = heard::ask_at_start(&config, store.as_deref(), &remains).await;
        remains.heard = heard;
        // All that may be taken comes before anything is published, and so before anything is written.
        let plan = config.clone();
        let open = move || {
            let ControlPlan { socket: path, group, mode, .. } = &plan.control;
            let socket = control::bind(path, group.as_deref(), *mode);
            let socket = socket.map_err(|error| RunError::Control(path.clone(), error));
            (reload::load_identities(&plan), socket, system_servers().unwrap_or_default())
        };
        let (identities, socket, resolvers) =
            disk.run("open the control socket", None, open).await.map_err(start_failed)?;
        let clock = || unix_seconds(SystemTime::now()).unsigned_abs();
        let responder = Responder::new(notify.clone(), metrics.clone(), clock);
        let inherited = std::mem::take(&mut manager.inherited);
        let manager = Arc::new(manager);
        let handover = (manager.clone(), inherited);
        let keeper = keeper::start(publisher.clone(), metrics.clone(), store.clone());
        upkeep::start(&publisher, keeper.commands.downgrade());
        let (snapshots, budget, pulse) = (keeper.snapshots.clone(), keeper.budget.clone(), keeper.pulse.clone());
        let notifier = Arc::new(notify::start(publisher.clone(), metrics.clone(), notify::Timers::default()));
        secondaries::show_when_read(&metrics, &publisher, &notifier);
        let mut probe = Probe::new(publisher.clone(), metrics.clone());
        upkeep::tend(responder.limiter(), &metrics);
        upkeep::show_panics(&metrics);
        let view = view::Handle {
            config: Arc::new(ArcSwap::new(config.clone())),
            started: Instant::now(),
            publisher: publisher.clone(),
            snapshots,
            budget,
            pulse,
            metrics: metrics.clone(),
            notifier: notifier.clone(),
            store,
            sources: sources.clone(),
            rates: Arc::new(Rates::start(metrics.clone(), publisher.clone())),
            probed: probe.results(),
            limiter: responder.limiter().clone(),
        };
        let (sender, commands) = mpsc::channel(64);
        let orders = OrderWays { commands: sender.clone(), keeper: keeper.commands.downgrade() };
        let mut listeners = Listeners::new(&config, responder, view.clone(), orders, handover, descriptors);
        let writer = keeper.clone();
        let launch = async move {
            let bound = listeners.bind(&config, identities).map_err(RunError::Listen)?;
            let socket = socket?;
            let schedule = start_schedule(&config, &sources).await.map_err(start_failed)?;
            let plan = publish_plan(&keeper, &config, remains, &Published::default(), &metrics).await;
            plan.ok_or_else(|| RunError::Start("the keeper has ended".into()))?;
            notifier.set_targets(config.targets.clone());
            // Before anybody can scrape: 0 would be a configuration that was refused.
            metrics.config_loaded.set(unix_seconds(SystemTime::now()));
            metrics.config_is_current.set(1);
            listeners.adopt(&config, bound).map_err(start_failed)?;
            let addresses = listeners.addresses();
            let control = socket.start(sender.clone()).map_err(start_failed)?;
            tokio::spawn(sources.clone().obey(announced));
            let automatic = sources.automatic_came();
            sources.replace(&config, &keeper, &publisher, &metrics, &roots);
            heard_later.tell(&keeper, publisher.clone(), sources.clone());
            probe.follow(&config, Some(resolvers));
            let mut hosts = Lookups::default();
            hosts.follow(&config);
            let (zones, regions) = (config.source_zones().count(), config.regions.len());
            let addresses = log::list(&addresses);
            tracing::info!(version = env!("CARGO_PKG_VERSION"), zones, regions, %addresses, "started");
            let (listeners, turn) = (Arc::new(Mutex::new(listeners)), Arc::default());
            let ways = Ways { view, keeper, listeners, roots, notify, commands: sender, loading, turn };
            let (reloads, mut catalogs) = (Reloads::default(), Watch::new(publisher, automatic));
            catalogs.note(&config);
            Ok(Daemon {
                ways,
                schedule,
                control,
                commands,
                log,
                manager,
                hangup,
                reloads,
                catalogs,
                disk,
                probe,
                hosts,
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
        &self.ways.view.publisher
    }

    /// Returns the number of zones and regions served, as the service manager shows it.
    fn summary(&self) -> String {
        let config = self.ways.view.config.load();
        let (zones, regions) = (config.source_zones().count(), config.regions.len());
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
            let (is_idle, config) = (self.reloads.is_idle(), self.ways.view.config.load_full());
            let changed = async {
                match is_idle {
                    true => self.catalogs.changed(&config).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut end => break None,
                () = due => manager.alive(),
                Some(()) = hung_up => self.reload(None),
                finished = self.reloads.finished() => self.end_reload(finished),
                () = changed => self.follow_catalogs(),
                Some(command) = self.commands.recv() => match command.request {
                    Request::Stop => break Some(command.reply),
                    Request::Reload { refused: None } => self.reload(Some(command.reply)),
                    Request::Reload { refused: Some(problems) } => drop(command.reply.send(self.not_reloaded(problems))),
                    request => self.ways.answer(request, command.reply),
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
        self.ways.view.sources.lock().clear();
        let udp = self.ways.listeners.lock().await.end_streams().await;
        // Connections are answered a little longer; none is worth more than that.
        let all_closed = async {
            while self.ways.view.metrics.tcp_connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        _ = tokio::time::timeout(DRAIN, all_closed).await;
        if let Some(tap) = &self.ways.view.publisher.load().tap {
            tap.end().await;
        }
        tokio::task::block_in_place(trace::end);
        tracing::info!("stopped");
        self.control.end_with_process().await;
        // With the keeper goes what is still to be written.
        self.ways.keeper.end().await;
        udp
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
