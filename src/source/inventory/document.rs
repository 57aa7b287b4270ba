//! A document that a feeder has read, as an inventory.
//!
//! Invariant: a document that makes the reader panic is a failure like any other, and is not read again and again.
//!
//! Cost: O(document), in a thread for the disk.

use super::feeder::{Event, Failure};
use std::path::PathBuf;
use tokio::task::spawn_blocking;

/// Largest document.
pub const MAX_BYTES: u64 = 1 << 30;

/// Most warnings of a document that are logged.
const MOST_WARNINGS: usize = 20;

/// Most octets of errors that are told.
const MAX_TOLD: usize = 4096;

/// Reads a document, which errors name as `place`, for the inventory of a name.
pub async fn read(place: PathBuf, bytes: Vec<u8>, name: String) -> Event {
    let parse = move || {
        let text = String::from_utf8(bytes).map_err(|error| settings::not_utf8(&place, error).to_string())?;
        inventory::document::read(&place, &text, &name).map_err(|errors| errors.to_string())
    };
    match spawn_blocking(parse).await {
        Ok(Ok(document)) => {
            document.warnings.iter().take(MOST_WARNINGS).for_each(|warning| tracing::warn!("{warning}"));
            Event::Whole { inventory: Box::new(document.inventory), serial: document.serial }
        }
        Ok(Err(errors)) => failed(Failure::new("invalid", shorten(errors))),
        Err(error) if error.is_panic() => {
            let text = "reading the document made the program panic; please report what the log says";
            failed(Failure::new("panic", text))
        }
        Err(error) => failed(Failure::new("unreadable", error.to_string())),
    }
}

/// An event for a failure that is looked for again without a pause of its own.
pub fn failed(failure: Failure) -> Event {
    Event::Failed { failure, again: None }
}

/// Cuts the errors of a document that has very many.
fn shorten(mut errors: String) -> String {
    if errors.len() > MAX_TOLD {
        let end = (0..=MAX_TOLD).rev().find(|at| errors.is_char_boundary(*at)).unwrap_or(0);
        errors.truncate(end);
        errors.push_str(" ... and more");
    }
    errors
}
