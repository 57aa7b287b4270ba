//! What the daemon's loop, its orders and its reloads have in common: the ways to the keeper, the sockets and the disk,
//! and the turns of those who change what is served.
//!
//! Cost: a message for each order.

use super::listeners::Listeners;
use crate::control;
use crate::keeper::{Command, KeeperHandle};
use crate::serve::notify::Reception;
use crate::source::zookeeper::roots::Roots;
use crate::view::Handle;
use crate::view::loading::Loading;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// Handles of a running server.
#[derive(Clone)]
pub struct Ways {
    pub view: Handle,
    pub keeper: KeeperHandle,
    pub listeners: Arc<Mutex<Listeners>>,
    pub roots: Arc<Roots>,
    pub notify: Arc<Reception>,
    /// The way of operators' requests to the daemon's loop.
    pub commands: mpsc::Sender<control::Command>,
    /// Progress of first loads on the terminal, if there is one.
    pub loading: Option<Arc<Loading>>,
    /// Held while an order about drains or pins is carried out, and while another configuration is published.
    pub turn: Arc<Mutex<()>>,
}

impl Ways {
    /// Has the keeper carry out an order, and waits for what came of it.
    pub async fn order<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, String> {
        let (sender, done) = oneshot::channel();
        let _ = self.keeper.commands.send(command(sender)).await;
        done.await.map_err(|_| "the server is stopping".to_owned())
    }

    /// Waits until everything is on disk; false if a restart would forget some of it.
    pub async fn settle(&self) -> bool {
        let Some(store) = self.view.store.clone() else { return false };
        tokio::task::spawn_blocking(move || store.flush_all()).await.unwrap_or(false)
    }
}

/// Returns the warning about an order that a restart would forget; empty if it is on disk.
pub fn warn_of_loss(persistent: bool) -> &'static str {
    if persistent {
        ""
    } else {
        "not on disk: a restart would forget this; see the state folder in \"aggregator status\"\n"
    }
}
