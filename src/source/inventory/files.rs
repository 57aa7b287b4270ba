//! Keeping of what is known of an inventory: reading it at a start, and writing what has changed.
//!
//! Invariants: nobody waits for a disk longer than a moment; what it has not taken by then is written later; changes are
//! written in the order in which they came; what the disk refused is written whole the next time.
//!
//! Cost: O(what changed), and O(inventory) when a file has grown to twice its size.

use super::book::{Book, Kept, Writing};
use super::depot::{Files, Slot};
use crate::state::inventories::{Found, KeptError, KeptFile};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Time for which a publication waits for the disk, as the keeper does.
const PATIENCE: Duration = Duration::from_millis(250);

/// The writer of one inventory.
pub struct Scribe {
    slot: Arc<Slot>,
    /// Writing that the disk has not answered for.
    under_way: Option<JoinHandle<io::Result<()>>>,
}

/// The files, for as long as one operation takes.
fn lock(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scribe {
    /// A writer that has not written yet.
    pub fn new(slot: Arc<Slot>) -> Scribe {
        Scribe { slot, under_way: None }
    }

    /// Reads what an earlier run has kept. An error means that the disk refuses to say; nothing is lost by it.
    pub async fn load(&self) -> Result<Kept, String> {
        let slot = self.slot.clone();
        let read = move || {
            let Some(files) = &slot.files else { return Ok(Kept::default()) };
            let mut files = lock(files);
            let elements = load(&mut files.elements)?;
            let retained = load(&mut files.retained)?;
            let heard = elements.as_ref().map(|(_, heard)| *heard);
            let frames = |found: Found| found.0;
            Ok(Kept { elements: elements.map(frames).unwrap_or_default(), retained: retained.map(frames), heard })
        };
        spawn_blocking(read).await.map_err(|error| error.to_string())?
    }

    /// Writes what has changed. Returns the error of the disk, if it refuses or does not answer.
    pub async fn keep(&mut self) -> Option<String> {
        self.slot.files.as_ref()?;
        if let Some(writing) = &mut self.under_way {
            match timeout(PATIENCE, writing).await {
                Err(_) => return Some("the disk does not answer".to_owned()),
                // What failed is written whole below.
                Ok(_) => self.under_way = None,
            }
        }
        let slot = self.slot.clone();
        let mut writing = spawn_blocking(move || write(&slot));
        match timeout(PATIENCE, &mut writing).await {
            Err(_) => {
                self.under_way = Some(writing);
                None
            }
            Ok(written) => {
                written.unwrap_or_else(|error| Err(io::Error::other(error))).err().map(|error| error.to_string())
            }
        }
    }

    /// Notes on disk that the inventory is as it was.
    pub async fn touch(&mut self) {
        if self.under_way.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        let slot = self.slot.clone();
        let touch = move || {
            if let Some(files) = &slot.files {
                // A file that is not there yet says nothing of a reading either.
                let _ = lock(files).elements.touch(SystemTime::now());
            }
        };
        let _ = timeout(PATIENCE, spawn_blocking(touch)).await;
    }
}

/// Reads one file; one that is damaged is set aside, and counts as one that is not there.
fn load(file: &mut KeptFile) -> Result<Option<Found>, String> {
    match file.load() {
        Ok(found) => Ok(found),
        Err(error @ KeptError::Damaged { .. }) => {
            tracing::warn!("{error}");
            Ok(None)
        }
        Err(error @ KeptError::Read { .. }) => Err(error.to_string()),
    }
}

/// Writes what has changed of both.
fn write(slot: &Slot) -> io::Result<()> {
    let Some(files) = &slot.files else { return Ok(()) };
    let mut files = lock(files);
    let (elements, retained) = (files.elements.is_due(), files.retained.is_due());
    let Some((elements, retained)) = slot.book().as_mut().map(|book: &mut Book| book.keep(elements, retained)) else {
        return Ok(());
    };
    // One that fails must not keep the other from the disk.
    let results = [put(&mut files.elements, elements), put(&mut files.retained, retained)];
    results.into_iter().collect()
}

/// Writes one file, as far as there is something to write.
fn put(file: &mut KeptFile, writing: Option<Writing>) -> io::Result<()> {
    match writing {
        None => Ok(()),
        Some(Writing { frame, is_whole: true }) => file.replace([&frame[..]]),
        Some(Writing { frame, is_whole: false }) => file.append(&frame),
    }
}
