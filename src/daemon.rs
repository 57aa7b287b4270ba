//! The running server: everything is made from a configuration here, changed by a reload, and ended in order.
//!
//! Start: bind every socket, publish the plan, start the sources, then answer. Reload: read and check the whole file,
//! bind what is new, publish once, start and stop sources, and only then end sockets that are gone; any error before
//! the publication leaves everything as it was. Stop: no new connections, finish what is owed, remove the control socket;
//! UDP is answered to the very end, because a successor that has our sockets begins only then.
//!
//! Nothing here answers queries or touches zones: the parts meet only through the keeper's queues and the published root.

mod changes;
mod diff;
mod drain;
mod history;
mod listeners;
mod loading;
mod lookup;
mod outward;
mod page;
mod probe;
mod rates;
mod restore;
mod rollback;
mod sources;
mod status;

pub use status::{format_seconds, write_table};

use crate::access::{Access, Prefix, Rule};
use crate::budget;
use crate::config::{Config, LogFormat};
use crate::control::{self, ControlServer, Reply, Request};
use crate::keeper::{self, Lifetime, Plan, PlanChanges};
use crate::log::{self, LogHandle};
use crate::manager::Manager;
use crate::metrics::{Metrics, unix_seconds};
use crate::name::Name;
use crate::notify::{self, Notifier};
use crate::publish::{Identity, Published, Publisher};
use crate::schedule::{self, Schedule};
use crate::serial::Serial;
use crate::serve::notify::{Announcers, Reception};
use crate::serve::respond::Responder;
use crate::serve::udp::{DRAIN, UdpListener};
use crate::source::zookeeper::TreePlan;
use crate::source::{Wake, WakeKind};
use crate::state::{StateError, Store};
use crate::terminal::Bars;
use crate::transfer;
use changes::ReloadChanges;
use drain::{DrainOrder, TargetText};
use listeners::Listeners;
use loading::Loading;
use page::{Inquiry, Page};
use probe::Probe;
use rates::Rates;
use restore::{Remains, open_store, restore};
use rollback::RollbackOrder;
use sources::{Sources, own_news};
use status::{About, CatalogReport, Report, StateReport};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Why the server cannot start.
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
    config: Config,
    started: Instant,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    keeper: keeper::Handle,
    /// Where versions outlive the process.
    store: Option<Arc<Store>>,
    notifier: Notifier,
    sources: Sources,
    listeners: Listeners,
    schedule: Schedule,
    control: ControlServer,
    commands: mpsc::Receiver<control::Command>,
    command_sender: mpsc::Sender<control::Command>,
    log: Option<LogHandle>,
    manager: Arc<Manager>,
    hangup: Option<Signal>,
    notify: Arc<Reception>,
    /// Zones that a primary has announced a change of.
    changed: mpsc::Receiver<Name>,
    /// Held while an operator's order about drains is carried out.
    orders: Arc<Mutex<()>>,
    rates: Arc<Rates>,
    probe: Probe,
    /// What the terminal shows of first loads, if there is one.
    loading: Option<Arc<Loading>>,
    /// What the status page asks.
    inquiries: mpsc::Receiver<Inquiry>,
}

/// Runs a server in the foreground until SIGTERM, SIGINT or `aggregator stop`.
pub fn run(config: Config) -> ExitCode {
    let bars = Bars::on_errors();
    let log = log::start(&config.log.level, config.log.format == LogFormat::Json, bars.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    reap_orphans();
    let result = match (log, runtime) {
        (Ok(log), Ok(runtime)) => {
            let served = runtime.block_on(async {
                let end = end_signal().map_err(|error| RunError::Start(error.to_string()))?;
                let daemon = Daemon::start(config, Some(log), bars.clone(), Manager::from_environment()).await?;
                Ok(daemon.run_until(end).await)
            });
            // With the runtime goes the keeper, and what is still to be written; queries are answered meanwhile.
            drop(runtime);
            served.map(drop)
        }
        (Err(error), _) => Err(RunError::Start(error.to_string())),
        (_, Err(error)) => Err(RunError::Start(error.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
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
    /// Starts a server; it answers when this returns, from its zones as soon as they are transferred, which `bars` show.
    pub async fn start(
        config: Config,
        log: Option<LogHandle>,
        bars: Option<Bars>,
        mut manager: Manager,
    ) -> Result<Daemon, RunError> {
        // First of all: until someone listens for it, this signal ends the process.
        let hangup = signal(SignalKind::hangup()).ok();
        raise_file_limit();
        let publisher = Arc::new(Publisher::default());
        let metrics = Arc::new(Metrics::new());
        // A counter that begins at its first failure hides that failure from `increase()`.
        ["ok", "failed"].iter().for_each(|result| drop(metrics.reloads.with_label_values(&[result])));
        let (notify, changed) = Reception::new(metrics.clone());
        notify.set_announcers(announcers(&config));
        let store = open_store(&config, &metrics)?;
        let keeper = keeper::start(publisher.clone(), metrics.clone(), store.clone());
        let sources = Sources::default();
        let loading = bars.map(|bars| Loading::start(bars, sources.clone(), publisher.clone()));
        // What an earlier run left is published before a socket opens: clients go to another server until then.
        let remains = restore(store.as_deref(), &config, &Published::default(), loading.as_deref());
        let plan = publish_plan(&keeper, &config, remains, &Published::default()).await;
        plan.ok_or_else(|| RunError::Start("the keeper has ended".into()))?;
        let clock = || unix_seconds(SystemTime::now()).unsigned_abs();
        let responder = Responder::new(notify.clone(), metrics.clone(), clock);
        let inherited = std::mem::take(&mut manager.inherited);
        let manager = Arc::new(manager);
        let handover = (manager.clone(), inherited);
        let rates = Arc::new(Rates::start(metrics.clone(), publisher.clone()));
        let (page, inquiries) = Page::new(publisher.clone(), rates.clone());
        let mut listeners = Listeners::new(&config, publisher.clone(), responder, metrics.clone(), page, handover);
        let bound = listeners.bind(&config).map_err(RunError::Listen)?;
        let path = &config.control.socket;
        let socket = control::bind(path).map_err(|error| RunError::Control(path.clone(), error))?;
        let notifier = notify::start(publisher.clone(), metrics.clone());
        notifier.set_targets(config.targets.clone());
        let schedule = start_schedule(&config, &sources).await.map_err(RunError::Start)?;
        let start_failed = |error: io::Error| RunError::Start(error.to_string());
        listeners.adopt(&config, bound).map_err(start_failed)?;
        let (command_sender, commands) = mpsc::channel(64);
        let control = socket.start(command_sender.clone()).map_err(start_failed)?;
        metrics.config_loaded.set(unix_seconds(SystemTime::now()));
        metrics.config_is_current.set(1);
        let started = Instant::now();
        let probe = Probe::new(publisher.clone(), metrics.clone());
        let mut daemon = Daemon {
            config,
            started,
            publisher,
            metrics,
            keeper,
            store,
            notifier,
            sources,
            listeners,
            schedule,
            control,
            commands,
            command_sender,
            log,
            manager,
            hangup,
            notify,
            changed,
            orders: Arc::default(),
            rates,
            probe,
            loading,
            inquiries,
        };
        daemon.replace_sources();
        daemon.probe.follow(&daemon.config);
        let (zones, regions) = (daemon.config.source_zones().count(), daemon.config.regions.len());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), zones, regions, addresses = ?daemon.addresses(), "started");
        daemon.manager.ready(&daemon.summary());
        Ok(daemon)
    }

    /// The DNS addresses in service.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    /// The published root, for readers in this process.
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// What is served, for the service manager.
    fn summary(&self) -> String {
        let (zones, regions) = (self.config.source_zones().count(), self.config.regions.len());
        format!("zones: {zones}, regions: {regions}, serving")
    }

    /// Serves until `end` is ready or an operator says stop. What comes back still answers over UDP, until it is dropped.
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
                Some(()) = hung_up => drop(self.reload().await),
                Some(zone) = self.changed.recv() => {
                    if let Some(source) = self.sources.lock().get(&zone) {
                        source.wake(Wake { kind: WakeKind::Announced, done: None });
                    }
                }
                Some(inquiry) = self.inquiries.recv() => self.inform(inquiry),
                Some(command) = self.commands.recv() => match command.request {
                    Request::Stop => break Some(command.reply),
                    Request::Reload { refused: None } => drop(command.reply.send(self.reload().await)),
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
        self.schedule.stop();
        self.sources.lock().clear();
        let udp = self.listeners.end_streams().await;
        // Connections are answered a little longer; none is worth more than that.
        let all_closed = async {
            while self.metrics.tcp_connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        _ = tokio::time::timeout(DRAIN, all_closed).await;
        tracing::info!("stopped");
        self.control.end_with_process().await;
        udp
    }

    /// Starts the sources of the configuration; those whose plan is the same go on as they are.
    fn replace_sources(&self) {
        self.sources.replace(&self.config, &self.keeper, &self.publisher, &self.metrics);
    }

    //--- Reload ---

    /// Reads the configuration again and goes on with it, or says why not and changes nothing.
    async fn reload(&mut self) -> Reply {
        self.manager.reloading();
        let result = self.try_reload().await;
        self.manager.ready(&self.summary());
        match result {
            Ok(changes) => {
                self.metrics.config_loaded.set(unix_seconds(SystemTime::now()));
                let text = changes.describe();
                tracing::info!(changes = text.trim_end().replace('\n', "; "), "configuration reloaded");
                // Last, so that whoever sees the number finds its reason in the log.
                self.metrics.count_reload(true);
                Reply { ok: true, text, data: serde_json::json!(changes) }
            }
            Err(problems) => self.not_reloaded(problems),
        }
    }

    /// Says and counts that a configuration is not used, and why.
    fn not_reloaded(&self, problems: String) -> Reply {
        for error in problems.lines() {
            tracing::error!(error, "configuration not reloaded");
        }
        self.metrics.count_reload(false);
        Reply::failure(problems)
    }

    /// The steps of a reload; whatever fails before the publication has changed nothing.
    async fn try_reload(&mut self) -> Result<ReloadChanges, String> {
        let path = self.config.path.clone();
        let loaded = tokio::task::block_in_place(|| Config::load(&path));
        let mut config = loaded.map_err(|errors| errors.to_string())?;
        let orders = self.orders.clone();
        let _turn = orders.lock().await;
        drain::check_drains(&self.keeper.commands, &config).await?;
        let bound = self.listeners.bind(&config).map_err(|errors| errors.join("\n"))?;
        let control =
            if config.control.socket == self.config.control.socket && control::is_answering(&config.control.socket) {
                None
            } else {
                let path = config.control.socket.clone();
                let failed = |error| RunError::Control(path.clone(), error).to_string();
                Some(control::bind(&path).map_err(failed)?.start(self.command_sender.clone()).map_err(failed)?)
            };
        // A running schedule is kept while it is the same: the scheduler's library gives not all of its memory back.
        let same_schedule = (&config.audit, &config.server_name) == (&self.config.audit, &self.config.server_name);
        let schedule = if same_schedule { None } else { Some(start_schedule(&config, &self.sources).await?) };
        if let Some(log) = &self.log {
            log.set_filter(&config.log.level).map_err(|error| error.to_string())?;
        }
        let published = self.publisher.load();
        let remains = restore(self.store.as_deref(), &config, &published, self.loading.as_deref());
        let plan = publish_plan(&self.keeper, &config, remains, &published).await.ok_or("the keeper has ended")?;
        let mut changes = ReloadChanges::between(&self.config, &config, plan);
        changes.control = control.is_some().then(|| config.control.socket.clone());
        changes.primaries_changed = self.sources.changed(&config);
        std::mem::swap(&mut self.config, &mut config);
        self.notify.set_announcers(announcers(&self.config));
        self.notifier.set_targets(self.config.targets.clone());
        self.replace_sources();
        self.probe.follow(&self.config);
        if let Some(schedule) = schedule {
            self.schedule = schedule;
        }
        if let Some(control) = control {
            self.control = control;
        }
        // What is in service already cannot fail any more; a thread that the system denies is the one exception.
        self.listeners
            .adopt(&self.config, bound)
            .map_err(|error| format!("reloaded, but a listener failed: {error}"))?;
        Ok(changes)
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

    /// Everything that is known of all zones, or of one; nothing while the server is stopping.
    fn report(&self, only: Option<Name>) -> impl Future<Output = Option<Report>> + Send + use<> {
        let commands = self.keeper.commands.clone();
        let sources = self.sources.lock().iter().map(|(name, source)| (name.clone(), source.status())).collect();
        let published = self.publisher.load();
        let outward = outward::gather(&published, &self.notifier, &self.metrics, only.as_ref());
        let store = self.store.as_ref().map(|store| store.status());
        let catalog = self.config.catalog.as_ref();
        let about = About {
            uptime: self.started.elapsed(),
            config: self.config.path.display().to_string(),
            next_audit: self.schedule.next(),
            state: StateReport::new(self.config.state.as_deref(), store),
            catalog: catalog.map(|plan| CatalogReport::new(&plan.origin, &published)),
            queries: self.rates.read().rates,
            name_servers: self.probe.report(only.as_ref()),
        };
        async move {
            let (sender, snapshot) = oneshot::channel();
            // If the keeper is gone, the other end of the channel is, too.
            let _ = commands.send(keeper::Command::Status(sender)).await;
            Some(Report::new(snapshot.await.ok()?, sources, outward, about, only.as_ref()))
        }
    }

    /// Tells sources to act and waits for what comes of it: one zone's, a region's members', or all.
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

/// As the first process of a container, we inherit children of others that end; the system shall not keep them for us.
fn reap_orphans() {
    if std::process::id() == 1 {
        // SAFETY: this process has no children of its own to wait for.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}

/// Allows as many open files as the system permits: every connection is one, and the customary 1,024 are fewer than the
/// connections that a configuration may allow.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to this structure, which outlives them.
    let raised = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
        }
    };
    if !raised {
        tracing::warn!("cannot raise the limit on open files");
    }
}

/// What a source says to whoever woke it.
type WakeResult = oneshot::Receiver<Result<String, String>>;

/// Who may announce changes of which zone: its primaries, and what the configuration adds.
fn announcers(config: &Config) -> Announcers {
    let access = |plan: &transfer::ZonePlan| {
        let host = |address: IpAddr| Rule { prefix: Some(Prefix::host(address)), key: None };
        let primaries = plan.primaries.iter().map(|primary| match &primary.key {
            // Who signs with a primary's key speaks for it, from wherever; its address alone says nothing then.
            Some(key) => Rule { prefix: None, key: Some(key.name.clone()) },
            None => host(primary.address.ip()),
        });
        Access { rules: primaries.chain(plan.notify_from.iter().copied().map(host)).collect() }
    };
    config.zones.iter().map(|plan| (plan.zone.clone(), access(plan))).collect()
}

/// Hands the keeper the zones and regions of a configuration and waits until they are published.
async fn publish_plan(
    keeper: &keeper::Handle,
    config: &Config,
    remains: Remains,
    published: &Published,
) -> Option<PlanChanges> {
    let name = config.server_name.to_string();
    let identity = Identity {
        name: name.trim_end_matches('.').to_owned(),
        version: format!("aggregator {}", env!("CARGO_PKG_VERSION")),
    };
    let lifetime =
        |plan: &transfer::ZonePlan| Lifetime { shortest: plan.timers.expire_min, longest: plan.timers.expire_max };
    let zones = config.zones.iter().map(|plan| (plan.zone.clone(), lifetime(plan)));
    // Zones of a tree live as long as they are told to, whatever bounds there are for those of others.
    let stale = |plan: &TreePlan| Lifetime { shortest: plan.serve_stale, longest: plan.serve_stale };
    let trees = config.trees.iter().flat_map(|plan| plan.all_zones().map(move |zone| (zone.clone(), stale(plan))));
    let own = config.services.iter().map(|plan| (plan.zone.clone(), Lifetime::UNLIMITED));
    let refusing = config.trees.iter().filter(|plan| plan.binder_compat).flat_map(TreePlan::all_zones);
    let (done, changes) = oneshot::channel();
    let outgoing = config.outgoing.iter().map(|(zone, outgoing)| (zone.clone(), Arc::new(outgoing.clone())));
    let plan = Plan {
        identity,
        keys: Arc::new(config.keys.clone()),
        zones: zones.chain(trees).chain(own).collect(),
        regions: config.regions.clone(),
        drains: config.drains.clone(),
        catalog: config.catalog.clone(),
        outgoing: outgoing.collect(),
        refusing: refusing.cloned().collect(),
        history: config.history,
        memory: Some(config.memory.unwrap_or_else(budget::host::default_budget)),
        hold_down: config.hold_down,
        updates: own_news(config, &remains.zones, published),
        restored: remains.zones,
        past: remains.past,
    };
    keeper.commands.send(keeper::Command::Plan(Box::new(plan), done)).await.ok()?;
    changes.await.ok()
}

/// The longest time over which an audit is spread.
const AUDIT_SPREAD: Duration = Duration::from_secs(600);

/// Starts the audit's schedule, which wakes every source.
///
/// Replicas that share a configuration must not ask a primary for everything in the same second, nor one replica all
/// primaries: each zone waits for its own part of a tenth of the time to the next audit, always the same.
async fn start_schedule(config: &Config, sources: &Sources) -> Result<Schedule, String> {
    let (sources, server, expression) = (sources.clone(), config.server_name.clone(), config.audit.clone());
    let runtime = tokio::runtime::Handle::current();
    let audit = move || {
        let next = expression.as_deref().and_then(schedule::next_run);
        let pause = next.and_then(|next| next.duration_since(SystemTime::now()).ok()).unwrap_or_default();
        let spread = (pause / 10).min(AUDIT_SPREAD);
        for zone in sources.main_zones() {
            let sources = sources.clone();
            let delay = spread.mul_f64(part_of(&server, &zone));
            runtime.spawn(async move {
                tokio::time::sleep(delay).await;
                if let Some(source) = sources.lock().get(&zone) {
                    source.wake(Wake { kind: WakeKind::Audit, done: None });
                }
            });
        }
    };
    Schedule::start(config.audit.as_deref(), audit).await.map_err(|error| error.to_string())
}

/// A number from 0 to 1 that is always the same for a server and a zone.
fn part_of(server: &Name, zone: &Name) -> f64 {
    f64::from(server.stable_hash().rotate_left(16) ^ zone.stable_hash()) / f64::from(u32::MAX)
}
