//! What is known of inventories, which outlives the tasks that follow them: a reload begins another task, which goes on
//! where the one before it was.
//!
//! Invariants: an inventory of a name has one slot, however many tasks come and go, and a task that is told to end changes
//! nothing of it afterwards; what is dropped is dropped beside all locks, in a thread of its own.
//!
//! Cost: O(inventories).

use super::book::Book;
use super::clock::Clock;
use crate::state::inventories::{KeptFile, path_of};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::name::Name;

/// All slots.
#[derive(Clone, Default)]
pub struct Depot {
    inner: Arc<Mutex<Slots>>,
}

/// The slots by the names of inventories.
#[derive(Default)]
struct Slots {
    folder: Option<PathBuf>,
    /// Counts the times that automatic reverse zones have come, of any inventory.
    came: watch::Sender<u64>,
    slots: HashMap<String, Arc<Slot>>,
}

/// Place of what is known of one inventory.
pub struct Slot {
    book: Mutex<Option<Book>>,
    pub clock: parking_lot::Mutex<Clock>,
    /// None where nothing is kept on disk.
    pub files: Option<Mutex<Files>>,
    /// File with the name by which services know the feeder, where something is kept.
    pub identity: Option<PathBuf>,
    /// Counts the times that automatic reverse zones have come, of any inventory.
    came: watch::Sender<u64>,
}

/// Files of one inventory.
pub struct Files {
    pub elements: KeptFile,
    pub retained: KeptFile,
}

impl Depot {
    /// Says where inventories are kept over a restart; to be called before the first slot is taken.
    pub fn keep_in(&self, folder: Option<&Path>) {
        self.lock().folder = folder.map(Path::to_path_buf);
    }

    /// Returns the slot of an inventory.
    pub fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = self.lock();
        let Slots { folder, came, slots } = &mut *slots;
        let new = || {
            let files = folder.as_ref().map(|folder| {
                let file = |kind| KeptFile::new(path_of(folder, name, kind));
                Mutex::new(Files { elements: file("elements"), retained: file("retained") })
            });
            let identity = folder.as_ref().map(|folder| path_of(folder, name, "instance"));
            let came = came.clone();
            Arc::new(Slot { book: Mutex::default(), clock: parking_lot::Mutex::default(), files, identity, came })
        };
        slots.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Changes whenever automatic reverse zones have come.
    pub fn came(&self) -> watch::Receiver<u64> {
        self.lock().came.subscribe()
    }

    /// The automatic reverse zones that an inventory asks for; of a part of it if that is all that has been read. None
    /// for one that nobody follows. What has emptied since is among them, unless it is to be let go.
    ///
    /// May wait for a change to be settled: O(automatic zones) beside that.
    pub fn automatic_zones(&self, name: &str, let_go: bool) -> Option<Vec<Name>> {
        let slot = self.lock().slots.get(name).cloned()?;
        slot.book().as_mut().map(|book| book.automatic_zones(let_go))
    }

    /// Returns true if an inventory has been read to its end.
    pub fn is_complete(&self, name: &str) -> bool {
        let slot = self.lock().slots.get(name).cloned();
        slot.is_some_and(|slot| slot.book().as_ref().is_some_and(Book::is_complete))
    }

    /// Lets go of inventories that have left the configuration.
    pub fn retain(&self, mut is_kept: impl FnMut(&str) -> bool) {
        let mut gone = Vec::new();
        self.lock().slots.retain(|name, slot| {
            let keep = is_kept(name);
            if !keep {
                gone.push(slot.clone());
            }
            keep
        });
        if !gone.is_empty() {
            // An inventory is large; nobody waits for its end.
            std::thread::spawn(move || drop(gone));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Tells that automatic reverse zones have come.
    pub fn tell_automatic(&self) {
        self.came.send_modify(|times| *times += 1);
    }

    /// What is known, for as long as nobody else looks.
    pub fn book(&self) -> MutexGuard<'_, Option<Book>> {
        self.book.lock().unwrap_or_else(|poisoned| {
            // A panic in the middle of a change: what is there may be wrong, and is read again.
            let mut book = poisoned.into_inner();
            *book = None;
            self.book.clear_poison();
            book
        })
    }
}
