//! Zones from an inventory: one task for each inventory, which follows a feeder and makes zones of instances, accounts and
//! networks, as CNS does.
//!
//! [`start`] makes the task and gives its handle. The rules are those of the crate `inventory`, which has neither clock
//! nor files nor sockets; here is what they lack. A feeder reads a document or services and tells of them; the task
//! judges, settles, keeps and publishes. What is known of an inventory outlives the task in a slot of the depot, and the
//! process in the state folder.
//!
//! Invariants: zones are replaced by an inventory that was read to its end, never by a part of one; what cannot be read
//! stays as it was until `serve_stale` has passed and the zones expire like any other; a document that lacks much is
//! confirmed first (`guard`); all zones of an inventory change in one publication.
//!
//! Parts: `plan` what to do, `feeder` the way from feeders, `file`, `url` and `document` those of documents, `triton` that of a datacenter's services, `guard`
//! documents that look wrong, `session` the steps in order, `orders` those about single instances, `book` what is known, `clock` its time, `zones` versions and serials, `elsewhere` those of secondaries, `depot`
//! and `files` what outlives the task and the process, `account`, `status` and `survey` what operators see.
//!
//! Cost: O(document) for each one that is read; else O(what changes).

mod account;
mod book;
mod clock;
pub mod depot;
mod document;
mod elsewhere;
pub mod feeder;
mod file;
mod files;
pub mod guard;
pub mod orders;
pub mod plan;
mod session;
pub mod status;
mod survey;
pub mod triton;
mod url;
pub mod zones;

use book::Book;
pub use book::{Detail, Instance, Membership, Report};
pub use plan::InventoryPlan;
pub use status::InventoryStatus;
pub use survey::{Survey, SurveyedAccount, SurveyedInstance, SurveyedService, Surveyor};

use crate::source::shell::{self, Facilities, Handle, SourceKind};
use depot::{Depot, Slot};
use feeder::{Feeder, way};
use file::FileFeeder;
use inventory::model::Uuid;
use inventory::roster::Unknown;
use orders::Orders;
use plan::FeederPlan;
use session::Task;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::block_in_place;
use triton::{TritonFeeder, identity};
use url::UrlFeeder;
use wire::name::Name;

/// The kind of source that makes zones of an inventory.
pub struct Mirrored {
    slot: Arc<Slot>,
    orders: Orders,
    /// The automatic reverse zones that are in force.
    automatic: watch::Sender<Arc<[Name]>>,
}

/// State that the handle and the task share.
type Shared = shell::Shared<Mirrored>;

/// Begins to follow an inventory. Must be called within a tokio runtime of several threads.
pub fn start(plan: InventoryPlan, facilities: Facilities, depot: &Depot) -> Handle<Mirrored> {
    let automatic = watch::Sender::new(plan.automatic_zones().cloned().unwrap_or_default());
    let own = Mirrored { slot: depot.slot(&plan.name), orders: Orders::default(), automatic };
    let status = InventoryStatus::new(&plan);
    Handle::start(Shared::new(plan, status, facilities, own))
}

impl SourceKind for Mirrored {
    type Plan = InventoryPlan;
    type Status = InventoryStatus;

    async fn run(shared: Arc<Shared>) {
        let name = shared.plan.name.clone();
        match shared.plan.feeder.clone() {
            FeederPlan::File(path) => follow(shared, || FileFeeder { path, name }).await,
            FeederPlan::Url(plan) => follow(shared, || UrlFeeder { plan, name }).await,
            FeederPlan::Triton(plan) => {
                let slot = shared.own.slot.clone();
                let make = || {
                    let known = || slot.book().as_ref().map(Book::keys).unwrap_or_default();
                    let (known, instance) = block_in_place(|| (known(), identity::find(slot.identity.as_deref())));
                    TritonFeeder::new(*plan, instance, known)
                };
                follow(shared, make).await;
            }
        }
    }

    fn log_panic() {
        tracing::error!("an inventory's task has panicked and is started again; please report what the log says");
    }
}

/// The plan with the automatic zones that are in force.
fn present_plan(shared: &Shared) -> InventoryPlan {
    shared.plan.with_automatic(shared.own.automatic.borrow().clone())
}

/// Runs a feeder, which is made once it is known what was kept, and the task that takes what it tells; they end together.
async fn follow<F: Feeder>(shared: Arc<Shared>, make: impl FnOnce() -> F) {
    let (feed, intake) = way();
    let mut task = Task::new(shared.clone(), intake);
    if task.begin().await.is_err() {
        return;
    }
    let feeder = make();
    tokio::select! {
        () = task.run() => {}
        () = elsewhere::watch(&shared) => {}
        // A feeder that has ended says so by its end of the way.
        () = async { feeder.run(feed).await; std::future::pending().await } => {}
    }
}

impl Handle<Mirrored> {
    /// Goes on with a plan that continues the one before.
    pub fn go_on(&self, plan: &InventoryPlan) {
        let zones = plan.automatic_zones().cloned().unwrap_or_default();
        self.shared.own.automatic.send_if_modified(|present| {
            let is_other = **present != *zones;
            *present = zones;
            is_other
        });
    }

    /// The plan that is followed now.
    pub fn present_plan(&self) -> InventoryPlan {
        present_plan(&self.shared)
    }

    /// The instances of a zone that make the records at a name, or do not, with the reasons.
    pub fn explain(&self, zone: &Name, name: &Name) -> Vec<Instance> {
        let book = self.shared.own.slot.book();
        book.as_ref().map(|book| book.explain(zone, name)).unwrap_or_default()
    }

    /// Everything about one instance; none if it is unknown.
    pub fn instance(&self, vm: Uuid) -> Option<Detail> {
        self.shared.own.slot.book().as_ref()?.instance(vm)
    }

    /// The names below which an account's services and instances on these networks would stand.
    pub fn suffixes(&self, owner: Uuid, networks: &[Uuid]) -> Result<Vec<Name>, Unknown> {
        match &*self.shared.own.slot.book() {
            Some(book) => book.suffixes(owner, networks),
            None => Err(Unknown::Owner(owner)),
        }
    }

    /// The login of an account; none if it is unknown.
    pub fn login(&self, account: Uuid) -> Option<Box<str>> {
        self.shared.own.slot.book().as_ref()?.login(account).map(Box::from)
    }

    /// Surveys what is known; whoever has this does not keep the task from ending.
    pub fn surveyor(&self) -> Surveyor {
        Surveyor::new(self.shared.plan.name.clone(), self.shared.own.slot.clone())
    }
}
