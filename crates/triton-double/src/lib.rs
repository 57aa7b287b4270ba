//! A Triton datacenter's services for tests: VMAPI with its change feed, CNAPI, NAPI and UFDS, over one mutable inventory.
//!
//! [`Double::start`] takes an inventory under the services' own field names (arrays `vms`, `servers`, `networks`,
//! `network_pools`, `nics`, `accounts`) and serves it as the services do: pages in descending order of UUIDs, markers, counts,
//! `ResourceNotFound`, a feed that forgets what nobody listened to, and a log of what changed of accounts. [`Double::edit`] changes
//! the inventory and feeds the changes; the other methods are the switches, one for each way in which the services fail.
//!
//! Invariants: an answer shows the inventory at one moment; an item is fed after the change that it tells of; all that
//! the double has runs on its own thread and ends with the [`Double`].
//!
//! Parts: `datacenter` the inventory, `answers` requests and their answers, `feed` the change feed, `directory`
//! the accounts, `ldap` searches of them, `switches` the faults.
//!
//! Cost: a page O(log VMs + its size) without a filter, O(VMs) with one; an edit O(the VMs that it touches).

mod answers;
mod datacenter;
mod directory;
mod feed;
mod ldap;
mod switches;

pub use answers::Call;
pub use datacenter::Datacenter;
pub use directory::{Change, Directory};
pub use feed::Cut;
pub use ldap::{BIND_DN, PASSWORD};
pub use switches::Service;

use feed::Feeds;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use switches::Switches;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// The services of one datacenter, each at a port of its own on 127.0.0.1, until this is dropped.
pub struct Double {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    addresses: [SocketAddr; 4],
}

/// What the tests' thread and the services see.
struct Shared {
    datacenter: Mutex<Datacenter>,
    feeds: Mutex<Feeds>,
    switches: Mutex<Switches>,
    calls: Mutex<Vec<Call>>,
    /// Number of times that connections to UFDS were cut.
    cuts: watch::Sender<u64>,
}

impl Double {
    /// Serves an inventory at free ports.
    pub fn start(inventory: &Value) -> io::Result<Double> {
        let shared = Arc::new(Shared {
            datacenter: Mutex::new(Datacenter::new(inventory)),
            feeds: Mutex::default(),
            switches: Mutex::default(),
            calls: Mutex::default(),
            cuts: watch::Sender::new(0),
        });
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("double").build()?;
        let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); 4];
        for (address, service) in addresses.iter_mut().zip(Service::ALL) {
            let listener = std::net::TcpListener::bind(*address)?;
            listener.set_nonblocking(true)?;
            *address = listener.local_addr()?;
            // Registered within the runtime, which a test that has one itself must not wait for.
            let _entered = runtime.enter();
            runtime.spawn(listen(shared.clone(), service, TcpListener::from_std(listener)?));
        }
        Ok(Double { shared, runtime: Some(runtime), addresses })
    }

    /// Base URL of a service.
    pub fn url(&self, service: Service) -> String {
        let scheme = if service == Service::Ufds { "ldap" } else { "http" };
        format!("{scheme}://{}", self.address(service))
    }

    /// Address of a service.
    pub fn address(&self, service: Service) -> SocketAddr {
        self.addresses[service.index()]
    }

    /// Changes the inventory; whoever listens is fed an item for each instance that changed.
    pub fn edit<R>(&self, change: impl FnOnce(&mut Datacenter) -> R) -> R {
        let mut datacenter = self.shared.datacenter.lock();
        let result = change(&mut datacenter);
        datacenter.directory.write_log();
        let items = datacenter.take_items();
        // The lock is held until the items are on their way, so that they keep the order of the changes.
        let mut switches = self.shared.switches.lock();
        self.shared.feeds.lock().feed(items, &mut switches);
        result
    }

    /// Lets a service accept requests and never answer them, until it is called again with `false`.
    pub fn silence(&self, service: Service, is_silent: bool) {
        self.shared.switches.lock().of(service).is_silent = is_silent;
    }

    /// Lets a service close each connection with the first request, until it is called again with `false`.
    pub fn refuse(&self, service: Service, refuses: bool) {
        self.shared.switches.lock().of(service).refuses = refuses;
    }

    /// Answers the next `requests` of a service with 500, those of UFDS with an error.
    pub fn fail(&self, service: Service, requests: u32) {
        self.shared.switches.lock().of(service).failures = requests;
    }

    /// Answers so each request of a service whose path begins with `path`, until it is called with none.
    pub fn fail_path(&self, service: Service, path: Option<&str>) {
        self.shared.switches.lock().of(service).failing_path = path.map(str::to_owned);
    }

    /// Answers the requests of a service later. An answer shows the inventory as it was when the request came.
    pub fn delay(&self, service: Service, delay: Duration) {
        self.shared.switches.lock().of(service).delay = delay;
    }

    /// Answers requests for pages of instances that have a marker with 500, until it is called with `false`.
    pub fn fail_further_pages(&self, fails: bool) {
        self.shared.switches.lock().fails_further_pages = fails;
    }

    /// Lets the next page of instances have no more than `most`, whatever is asked for, and each one after it one less, down
    /// to one. With none, pages are as long as is asked for.
    pub fn shrink_pages(&self, most: Option<usize>) {
        self.shared.switches.lock().most_on_page = most;
    }

    /// Runs a change just before the answer to the next request for a page of instances that has a marker.
    pub fn between_pages(&self, change: impl FnOnce(&mut Datacenter) + Send + 'static) {
        self.shared.switches.lock().between_pages = Some(Box::new(change));
    }

    /// Feeds none of the next `items`.
    pub fn drop_items(&self, items: u32) {
        self.shared.switches.lock().items_to_drop = items;
    }

    /// Feeds every item twice, until it is called with `false`.
    pub fn repeat_items(&self, repeats: bool) {
        self.shared.switches.lock().repeats_items = repeats;
    }

    /// Ends every connection of the feed, in one of the ways in which they end.
    pub fn cut_feeds(&self, cut: Cut) {
        self.shared.feeds.lock().cut(cut);
    }

    /// Ends every connection to UFDS without a word.
    pub fn cut_directory(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sends every listener a frame as it is.
    pub fn feed_text(&self, text: &str) {
        self.shared.feeds.lock().send_text(text);
    }

    /// Number of clients that listen to the feed and were sent the bootstrap.
    pub fn listeners(&self) -> usize {
        self.shared.feeds.lock().listeners()
    }

    /// Requests that were answered or are about to be, in their order.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().clone()
    }

    /// Forgets the requests so far.
    pub fn forget_calls(&self) {
        self.shared.calls.lock().clear();
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test may itself run on a runtime, where waiting for another one is not allowed.
            runtime.shutdown_background();
        }
    }
}

/// Accepts connections of a service until the double ends.
async fn listen(shared: Arc<Shared>, service: Service, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        if service == Service::Ufds {
            tokio::spawn(ldap::serve(shared, stream));
            continue;
        }
        tokio::spawn(async move {
            let answer = service_fn(|request| answers::answer(shared.clone(), service, request));
            // A client that went away is no fault of the double.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
        });
    }
}

#[cfg(test)]
mod tests;
