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

/// All slots.
#[derive(Clone, Default)]
pub struct Depot {
    inner: Arc<Mutex<Slots>>,
}

/// The slots by the names of inventories.
#[derive(Default)]
struct Slots {
    folder: Option<PathBuf>,
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
        let Slots { folder, slots } = &mut *slots;
        let new = || {
            let files = folder.as_ref().map(|folder| {
                let file = |kind| KeptFile::new(path_of(folder, name, kind));
                Mutex::new(Files { elements: file("elements"), retained: file("retained") })
            });
            let identity = folder.as_ref().map(|folder| path_of(folder, name, "instance"));
            Arc::new(Slot { book: Mutex::default(), clock: parking_lot::Mutex::default(), files, identity })
        };
        slots.entry(name.to_owned()).or_insert_with(new).clone()
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
