//! Keeping of what is known of an inventory: reading it at a start, and writing what has changed.
//!
//! Invariants: nobody waits for a disk longer than a moment; what it has not taken by then is written later; changes are
//! written in the order in which they came; what the disk refused is written whole the next time. A file that has grown is
//! written anew beside what is published, in parts, so that no change waits for more than one of them.
//!
//! Cost: O(what changed), and O(inventory) when a file has grown to twice its size.

use super::book::{Book, Kept};
use super::depot::{Files, Slot};
use crate::state::inventories::{Found, KeptError, KeptFile};
use inventory::kept::List;
use inventory::roster::Part;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Time for which a publication waits for the disk, as the keeper does.
const PATIENCE: Duration = Duration::from_millis(250);
/// Pause between two parts of a file that is written anew: time for whoever waits for what is known.
const BETWEEN_PARTS: Duration = Duration::from_millis(1);

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
        let error = match timeout(PATIENCE, &mut writing).await {
            Err(_) => {
                self.under_way = Some(writing);
                None
            }
            Ok(written) => {
                written.unwrap_or_else(|error| Err(io::Error::other(error))).err().map(|error| error.to_string())
            }
        };
        if self.under_way.is_none() && error.is_none() {
            self.renew();
        }
        error
    }

    /// Writes files anew that have grown; nobody waits for that.
    fn renew(&self) {
        let slot = self.slot.clone();
        spawn_blocking(move || {
            for list in LISTS {
                if let Err(error) = renew(&slot, list) {
                    let what = match list {
                        List::Elements => "elements",
                        List::Retained => "what was learnt",
                    };
                    tracing::warn!("the file with {what} of an inventory has grown and is not written anew: {error}");
                }
            }
        });
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

/// Both lists, in the order of their frames.
const LISTS: [List; 2] = [List::Elements, List::Retained];

impl Files {
    /// The file of a list.
    fn of(&mut self, list: List) -> &mut KeptFile {
        match list {
            List::Elements => &mut self.elements,
            List::Retained => &mut self.retained,
        }
    }
}

/// Writes what has changed of both, and what is not there yet whole.
fn write(slot: &Slot) -> io::Result<()> {
    let Some(files) = &slot.files else { return Ok(()) };
    let mut files = lock(files);
    let whole = LISTS.map(|list| match files.of(list).is_due() {
        true => with_book(slot, |book| {
            book.forget_changes(list);
            book.parts(list)
        })
        .and_then(|parts| files.of(list).replace(parts.iter().map(|part| frame_of(slot, part)))),
        false => Ok(()),
    });
    let changes = with_book(slot, Book::keep_changes)?;
    let appended = LISTS.into_iter().zip(changes).map(|(list, frame)| match frame.is_empty() {
        true => Ok(()),
        false => files.of(list).append(&frame),
    });
    // One that fails must not keep the other from the disk.
    let appended: Vec<io::Result<()>> = appended.collect();
    whole.into_iter().chain(appended).collect()
}

/// Writes a file anew if it has grown.
fn renew(slot: &Slot, list: List) -> io::Result<()> {
    let Some(files) = &slot.files else { return Ok(()) };
    let (mut renewal, parts) = {
        let mut files = lock(files);
        if !files.of(list).has_grown() {
            return Ok(());
        }
        // Whatever changes meanwhile is appended to the present file, and copied at the end.
        (files.of(list).begin_renewal()?, with_book(slot, |book| book.parts(list))?)
    };
    for part in &parts {
        renewal.push(&frame_of(slot, part)?)?;
        std::thread::sleep(BETWEEN_PARTS);
    }
    renewal.sync()?;
    lock(files).of(list).finish_renewal(renewal).map(drop)
}

/// A part as a frame.
fn frame_of(slot: &Slot, part: &Part) -> io::Result<Vec<u8>> {
    with_book(slot, |book| book.kept(part))
}

/// Looks into what is known; an error if that has gone, as after a panic in the middle of a change.
fn with_book<T>(slot: &Slot, look: impl FnOnce(&mut Book) -> T) -> io::Result<T> {
    slot.book()
        .as_mut()
        .map(look)
        .ok_or_else(|| io::Error::other("what is known of the inventory has to be read again"))
}
