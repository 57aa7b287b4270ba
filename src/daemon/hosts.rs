//! Addresses of the hosts that access rules know by name: looked up at once, and again each hour, by the resolver of the
//! system.
//!
//! Invariants: a look-up that fails changes nothing, and is tried again within a minute; a reload keeps the times of
//! the look-ups.
//!
//! Cost: a look-up an hour for each host, one after the other.

use crate::acl::Host;
use crate::config::Config;
use crate::log::list;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use wire::name::Name;

/// Time between two look-ups, and after one that failed.
const EVERY: Duration = Duration::from_secs(3600);
const AGAIN: Duration = Duration::from_secs(60);
/// Longest time that a look-up may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The look-ups, which end when this is dropped.
#[derive(Default)]
pub struct Lookups {
    /// When each host is looked up next.
    due: Arc<Mutex<HashMap<Name, Instant>>>,
    task: Option<AbortHandle>,
}

impl Lookups {
    /// Follows a configuration. Must be called within a tokio runtime.
    pub fn follow(&mut self, config: &Config) {
        self.end();
        let hosts: HashMap<Name, Host> = config.hosts().map(|host| (host.name.clone(), host.clone())).collect();
        let mut due = self.due.lock();
        due.retain(|name, _| hosts.contains_key(name));
        for name in hosts.keys() {
            due.entry(name.clone()).or_insert_with(Instant::now);
        }
        drop(due);
        if !hosts.is_empty() {
            self.task = Some(tokio::spawn(look_up(self.due.clone(), hosts)).abort_handle());
        }
    }

    /// Ends the look-ups.
    fn end(&mut self) {
        self.task.take().inspect(AbortHandle::abort);
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks each host up when it is due.
async fn look_up(due: Arc<Mutex<HashMap<Name, Instant>>>, hosts: HashMap<Name, Host>) {
    loop {
        let next = due.lock().iter().map(|(name, at)| (*at, name.clone())).min_by_key(|(at, _)| *at);
        let Some((at, host)) = next.and_then(|(at, name)| Some((at, hosts.get(&name)?))) else { return };
        sleep_until(at).await;
        let found = addresses_of(&host.name).await;
        let pause = if found.is_ok() { EVERY } else { AGAIN };
        due.lock().insert(host.name.clone(), Instant::now() + pause);
        let before = host.addresses();
        match found {
            Ok(found) if found != *before => {
                let addresses = list(&found);
                tracing::info!(host = %host.name, %addresses, "addresses of a host that may transfer");
                host.set(&found);
            }
            Ok(_) => {}
            Err(error) => {
                let addresses = list(before.iter());
                tracing::warn!(
                    host = %host.name, %error, %addresses,
                    "a host that may transfer was not found; the addresses that are known of it stay"
                );
            }
        }
    }
}

/// The addresses of a host in order, or why none are known.
async fn addresses_of(name: &Name) -> Result<Vec<IpAddr>, String> {
    let text = name.to_string();
    let host = (text.trim_end_matches('.'), 0);
    let found = timeout(PATIENCE, tokio::net::lookup_host(host)).await.map_err(|_| "no answer in time".to_owned())?;
    let mut found: Vec<IpAddr> =
        found.map_err(|error| error.to_string())?.map(|address| address.ip().to_canonical()).collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) }
}
