//! Reloads: another configuration for the running server, or the reason for refusing it. The file has one, or the same
//! file with another version of a catalog ([`Order`]).
//!
//! ```text
//!  read the file ──► bind ──► read the disk ──► orders' lock ──► check drains ──► publish ──► sources, listeners
//!  └──────────────── the end of the server abandons it ───────────────────────┘   └──── is finished ────┘
//! ```
//!
//! A reload is a task beside the daemon's loop, which goes on with everything else. One runs and one waits; whoever
//! asks while one waits shares its answer. The file is read when its turn comes, so that each of them sees what was
//! written before it was asked for.
//!
//! Invariants: whatever fails before the publication has changed nothing; what waits for a disk (`disk`) holds no lock
//! and nobody else up; the orders' lock is held from the check of drains until the listeners are those of the new
//! configuration.
//!
//! Cost: O(configuration), and O(records) of zones that are new.

use super::catalogs::{InForce, published_listings, put_in_force, tell};
use super::disk::DiskWork;
use super::drain::check_drains;
use super::listeners::{Bound, Identities};
use super::plan::{announcers, publish_plan};
use super::restore::{Remains, restore};
use super::rights::load_within;
use super::ways::Ways;
use super::{Daemon, RunError, audit, heard};
use crate::config::{Config, ControlPlan};
use crate::control::{self, ControlListener, ControlServer, Reply};
use crate::discover::unicast::system_servers;
use crate::keeper::PlanChanges;
use crate::metrics::unix_seconds;
use crate::schedule::Schedule;
use crate::serve::tls::TlsIdentity;
use crate::state::inventories::write_reverse;
use crate::view::Handle;
use crate::view::changes::ReloadChanges;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::task::JoinHandle;

/// Longest wait of a reload for each piece of work on the disk; whoever asked for it is still there then.
const DISK_PATIENCE: Duration = Duration::from_secs(45);
/// The answer to those whose reload was abandoned.
const STOPPING: &str = "the server is stopping; the configuration was not reloaded";

/// The reloads of a server.
#[derive(Default)]
pub struct Reloads {
    running: Option<Running>,
    /// Operators who wait for the next reload; none if nobody asked for one.
    next: Option<Vec<oneshot::Sender<Reply>>>,
    /// Set when the server ends.
    ending: watch::Sender<bool>,
}

/// What brings another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The file is read again.
    File,
    /// The file is as it was read last; its catalogs list other zones, or inventories ask for more reverse zones.
    Catalogs,
}

/// The reload that runs.
struct Running {
    order: Order,
    task: JoinHandle<Result<Reloaded, String>>,
    askers: Vec<oneshot::Sender<Reply>>,
}

impl Reloads {
    /// Waits for the running reload, or forever if there is none. Returns its result, and those who asked for it.
    pub async fn finished(&mut self) -> Finished {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let result = (&mut running.task).await;
        let result = result.unwrap_or_else(|error| Err(format!("a defect has ended the reload: {error}")));
        let order = running.order;
        let askers = self.running.take().map(|running| running.askers).unwrap_or_default();
        Finished { order, result, askers }
    }

    /// Returns true if none runs.
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Abandons what can be, and waits for what cannot.
    async fn end(&mut self) -> Option<Finished> {
        self.ending.send_replace(true);
        for asker in self.next.take().into_iter().flatten() {
            // Who has gone away does not need to know.
            let _ = asker.send(Reply::failure(format!("{STOPPING}\n")));
        }
        if self.running.is_some() { Some(self.finished().await) } else { None }
    }
}

/// A reload that has ended, and those who asked for it.
pub struct Finished {
    order: Order,
    result: Result<Reloaded, String>,
    askers: Vec<oneshot::Sender<Reply>>,
}

/// Result of a reload, which the daemon puts into effect.
pub struct Reloaded {
    config: Arc<Config>,
    changes: ReloadChanges,
    /// New schedule of audits, if it has changed.
    schedule: Option<Schedule>,
    control: Option<ControlServer>,
    /// Resolvers of the system, if they were read.
    resolvers: Option<Vec<SocketAddr>>,
    /// Failure after the publication, in words.
    problem: Option<String>,
}

impl Daemon {
    /// Has the configuration read again, now or after the reload that runs; `asker` hears what came of it.
    pub(super) fn reload(&mut self, asker: Option<oneshot::Sender<Reply>>) {
        if self.reloads.running.is_some() {
            self.reloads.next.get_or_insert_default().extend(asker);
        } else {
            self.start_reload(Order::File, asker.into_iter().collect());
        }
    }

    /// Puts into force what catalogs list now. No reload must be running.
    pub(super) fn follow_catalogs(&mut self) {
        self.start_reload(Order::Catalogs, Vec::new());
    }

    /// Starts a reload.
    fn start_reload(&mut self, order: Order, askers: Vec<oneshot::Sender<Reply>>) {
        if order == Order::File {
            self.manager.reloading();
        }
        let old = self.ways.view.config.load_full();
        self.catalogs.note(&old);
        let reload = Reload { order, old, ways: self.ways.clone(), disk: self.disk.clone() };
        let task = tokio::spawn(reload.run(self.reloads.ending.subscribe()));
        self.reloads.running = Some(Running { order, task, askers });
    }

    /// Puts the result of a reload into effect, answers those who asked, and begins the next one if somebody waits for
    /// it.
    pub(super) fn end_reload(&mut self, Finished { order, result, askers }: Finished) {
        let reply = match result.and_then(|reloaded| self.adopt(reloaded)) {
            // What has changed has been told; nobody asks.
            Ok(_) if order == Order::Catalogs => Reply::failure(String::new()),
            Err(error) if order == Order::Catalogs => {
                tracing::error!(%error, "catalogs not followed");
                self.catalogs.note_failure();
                Reply::failure(error)
            }
            Ok(changes) => {
                self.ways.view.metrics.config_loaded.set(unix_seconds(SystemTime::now()));
                let text = changes.describe();
                tracing::info!(changes = text.trim_end().replace('\n', "; "), "configuration reloaded");
                // Last, so that whoever sees the number finds its reason in the log.
                self.ways.view.metrics.count_reload(true);
                Reply { ok: true, text, data: serde_json::json!(changes) }
            }
            Err(problems) => self.not_reloaded(problems),
        };
        self.manager.ready(&self.summary());
        for asker in askers {
            // Who has gone away does not need to know.
            let _ = asker.send(reply.clone());
        }
        if let Some(askers) = self.reloads.next.take() {
            self.start_reload(Order::File, askers);
        }
    }

    /// Ends reloads with the server: one that is published is finished.
    pub(super) async fn end_reloads(&mut self) {
        if let Some(finished) = self.reloads.end().await {
            self.end_reload(finished);
        }
    }

    /// Takes what a reload made.
    fn adopt(&mut self, reloaded: Reloaded) -> Result<ReloadChanges, String> {
        let Reloaded { config, changes, schedule, control, resolvers, mut problem } = reloaded;
        self.probe.follow(&config, resolvers);
        self.hosts.follow(&config);
        tell(&config, &self.ways.view.config.load(), &self.ways.view.metrics);
        if let Some(schedule) = schedule {
            self.schedule = schedule;
        }
        if let Some(control) = control {
            self.control = control;
        }
        if let Some(Err(error)) = self.log.as_ref().map(|log| log.set_filter(&config.log.level)) {
            problem.get_or_insert_with(|| format!("reloaded, but the log stays as it was: {error}"));
        }
        self.ways.view.config.store(config);
        problem.map_or(Ok(changes), Err)
    }

    /// Says and counts that a configuration is not used, and why.
    pub(super) fn not_reloaded(&mut self, problems: String) -> Reply {
        // What catalogs list was to come into force with it.
        self.catalogs.forget();
        for error in problems.lines() {
            tracing::error!(error, "configuration not reloaded");
        }
        self.ways.view.metrics.count_reload(false);
        Reply::failure(problems)
    }
}

//--- The task ---

/// One reload, with what it needs of the server.
struct Reload {
    order: Order,
    old: Arc<Config>,
    ways: Ways,
    disk: DiskWork,
}

/// All that a publication needs; nobody has seen any of it yet.
struct Prepared {
    in_force: InForce,
    opened: Option<Opened>,
    remains: Remains,
    turn: OwnedMutexGuard<()>,
}

/// What was opened and read for another file.
struct Opened {
    bound: Bound,
    control: Option<ControlServer>,
    schedule: Option<Schedule>,
    resolvers: Vec<SocketAddr>,
}

/// Configuration, certificate and control socket, as read and made on disk.
struct ReadConfiguration {
    config: Config,
    identities: Result<Identities, String>,
    control: Option<ControlListener>,
    resolvers: Vec<SocketAddr>,
}

impl Reload {
    /// Goes through all steps, unless the server ends before the publication.
    async fn run(self, mut ending: watch::Receiver<bool>) -> Result<Reloaded, String> {
        let prepared = tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => return Err(STOPPING.to_owned()),
            prepared = self.prepare() => prepared?,
        };
        self.finish(prepared).await
    }

    /// The steps that change nothing.
    async fn prepare(&self) -> Result<Prepared, String> {
        let (written, opened) = match self.order {
            Order::Catalogs => (self.old.written(), None),
            Order::File => {
                let (config, opened) = self.open().await?;
                (config, Some(opened))
            }
        };
        let (store, published) = (self.ways.view.store.clone(), self.ways.view.publisher.load());
        let (old, loading, sources) = (self.old.clone(), self.ways.loading.clone(), self.ways.view.sources.clone());
        let let_go = self.order == Order::File;
        let read = move || {
            let asked = sources.automatic_zones(&written, &old, let_go);
            let in_force = put_in_force(&written, &published_listings(&written, &published), &asked, &old.listed);
            let remains = restore(store.as_deref(), &in_force.config, &published, &in_force.fresh, loading.as_deref());
            (in_force, remains)
        };
        let read = self.disk.run("read the state of new zones", Some(DISK_PATIENCE), read).await;
        let (in_force, mut remains) = read.map_err(|error| error.to_string())?;
        let config = &in_force.config;
        remains.heard = heard::ask(config, self.ways.view.store.as_deref(), &self.ways.view.publisher.load()).await;
        let turn = self.ways.turn.clone().lock_owned().await;
        // A drain cannot be wrong for what a catalog lists; it only has nothing to do.
        if opened.is_some() {
            check_drains(&self.ways.keeper, config).await?;
        }
        Ok(Prepared { in_force, opened, remains, turn })
    }

    /// Reads the file and opens what it names.
    async fn open(&self) -> Result<(Arc<Config>, Opened), String> {
        let old = self.old.clone();
        let found = self.disk.run("read the configuration", Some(DISK_PATIENCE), move || find(&old)).await;
        let ReadConfiguration { config, identities, control, resolvers } =
            found.map_err(|error| error.to_string())??;
        let bound = self.ways.listeners.lock().await.bind(&config, identities).map_err(|errors| errors.join("\n"))?;
        let control = control.map(|control| control.start(self.ways.commands.clone())).transpose();
        let failed = |error| RunError::Control(config.control.socket.clone(), error).to_string();
        let control = control.map_err(failed)?;
        // A running schedule is kept while it is the same: the scheduler's library gives not all of its memory back.
        let same_schedule = (&config.audit, &config.server_name) == (&self.old.audit, &self.old.server_name);
        let schedule =
            if same_schedule { None } else { Some(audit::start_schedule(&config, &self.ways.view.sources).await?) };
        Ok((Arc::new(config), Opened { bound, control, schedule, resolvers }))
    }

    /// Lets those open the running control socket who may now.
    async fn admit(&self, config: &Arc<Config>) -> Result<(), String> {
        let config = config.clone();
        let admit = move || {
            let ControlPlan { socket, group, mode, .. } = &config.control;
            control::admit(socket, group.as_deref(), *mode)
        };
        let admitted = self.disk.run("change the control socket", Some(DISK_PATIENCE), admit).await;
        admitted.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// The steps that everybody sees.
    async fn finish(self, prepared: Prepared) -> Result<Reloaded, String> {
        let Prepared { in_force: InForce { config, without, .. }, opened, remains, turn } = prepared;
        let sources = &self.ways.view.sources;
        if let Some(without) = &without {
            // Zones that start anew are away for a moment, with their sources.
            self.publish(without, Remains::default()).await?;
        }
        let primaries_changed = sources.changed(&config);
        // A catalog may change without its zones.
        let is_same_zones = config.zones == self.old.zones && config.inventories == self.old.inventories;
        let is_same = opened.is_none() && without.is_none() && is_same_zones;
        let plan = if is_same { PlanChanges::default() } else { self.publish(&config, remains).await? };
        self.keep_automatic(&config).await;
        let mut changes = ReloadChanges::between(&self.old, &config, plan);
        changes.primaries_changed = primaries_changed;
        let mut opened_control = None;
        let (mut schedule, mut resolvers, mut problem) = (None, None, None);
        if let Some(opened) = opened {
            // What is in service already cannot fail any more; a thread that the system denies is the one exception.
            let adopted = self.ways.listeners.lock().await.adopt(&config, opened.bound);
            problem = adopted.err().map(|error| format!("reloaded, but a listener failed: {error}"));
            (opened_control, schedule, resolvers) = (opened.control, opened.schedule, Some(opened.resolvers));
        } else {
            self.ways.listeners.lock().await.follow(&config);
        }
        drop(turn);
        let is_admitted_anew = opened_control.is_none() && config.control != self.old.control;
        changes.control = (opened_control.is_some() || is_admitted_anew).then(|| config.control.socket.clone());
        if is_admitted_anew && let Err(error) = self.admit(&config).await {
            problem.get_or_insert(format!("reloaded, but the control socket is as it was: {error}"));
        }
        Ok(Reloaded { config, changes, schedule, control: opened_control, resolvers, problem })
    }

    /// Keeps the names of automatic reverse zones over a restart. Without them, these are away until their addresses have
    /// been read again.
    async fn keep_automatic(&self, config: &Arc<Config>) {
        let Some(folder) = config.state.clone().filter(|_| self.ways.view.store.is_some()) else { return };
        let (config, old) = (config.clone(), self.old.clone());
        let keep = move || {
            for (name, zones) in config.automatic() {
                let is_kept = old.automatic().any(|(other, before)| other == name && before == zones);
                if !is_kept && let Err(error) = write_reverse(&folder, name, zones) {
                    tracing::warn!(inventory = name, %error, "the names of reverse zones are not kept over a restart");
                }
            }
        };
        if let Err(error) = self.disk.run("keep the names of reverse zones", Some(DISK_PATIENCE), keep).await {
            tracing::warn!(%error, "the names of reverse zones may not be kept over a restart");
        }
    }

    /// Publishes a configuration and starts its sources.
    async fn publish(&self, config: &Arc<Config>, remains: Remains) -> Result<PlanChanges, String> {
        let Handle { publisher, metrics, sources, notifier, .. } = &self.ways.view;
        let published = publisher.load();
        let plan = publish_plan(&self.ways.keeper, config, remains, &published, metrics)
            .await
            .ok_or("the keeper has ended")?;
        self.ways.notify.set_announcers(announcers(config));
        notifier.set_targets(config.targets.clone());
        sources.replace(config, &self.ways.keeper, publisher, metrics, &self.ways.roots);
        Ok(plan)
    }
}

/// Reads the configuration and the files that it names, and makes the control socket if it is another one or gone.
fn find(old: &Config) -> Result<ReadConfiguration, String> {
    let config = load_within(&old.path)?;
    let identities = load_identities(&config);
    let ControlPlan { socket: path, group, mode, .. } = &config.control;
    let control = if *path == old.control.socket && control::is_answering(path) {
        None
    } else {
        let bound = control::bind(path, group.as_deref(), *mode);
        Some(bound.map_err(|error| RunError::Control(path.clone(), error).to_string())?)
    };
    Ok(ReadConfiguration { identities, control, resolvers: system_servers().unwrap_or_default(), config })
}

/// Reads the certificates that a configuration names.
pub fn load_identities(config: &Config) -> Result<Identities, String> {
    let failed = |error| format!("{}: {error}", config.path.display());
    let https = config.control.https.as_ref().map(|https| &https.tls);
    let dns = config.listen.tls.as_ref().map(TlsIdentity::load).transpose().map_err(failed)?;
    Ok(Identities { dns, orders: https.map(TlsIdentity::load_for_operators).transpose().map_err(failed)? })
}
