//! The name by which a change feed knows its listener, which stays the same over restarts.
//!
//! Of two connections with one name the feed keeps the later one, so a feeder that was killed and starts again replaces
//! itself, and two programs do not replace each other.
//!
//! Cost: a small file, read at the start.

use inventory::model::Uuid;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// Reads the name from a file, or makes one and writes it there. Without a file, or where the disk refuses, the name is
/// as good, and another one after a restart.
pub fn find(file: Option<&Path>) -> Uuid {
    let kept = file.and_then(|file| fs::read_to_string(file).ok());
    if let Some(uuid) = kept.and_then(|text| Uuid::try_parse(text.trim()).ok()) {
        return uuid;
    }
    let mut octets = [0; 16];
    for half in octets.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(0).to_ne_bytes());
    }
    // Version 4 and its variant (RFC 9562, section 5.4).
    octets[6] = octets[6] & 0x0f | 0x40;
    octets[8] = octets[8] & 0x3f | 0x80;
    let uuid = Uuid::from_bytes(octets);
    if let Some(file) = file
        && let Err(error) = write(file, uuid)
    {
        tracing::debug!(file = %file.display(), "the name for the change feed is not kept: {error}");
    }
    uuid
}

fn write(file: &Path, uuid: Uuid) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, format!("{uuid}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stays_where_it_can_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inventories/dc1.instance");
        let first = find(Some(&file));
        assert_eq!(find(Some(&file)), first);
        assert_ne!(find(None), first);
        fs::write(&file, "nothing").unwrap();
        let second = find(Some(&file));
        assert_ne!(second, first);
        assert_eq!(find(Some(&file)), second);
    }
}
