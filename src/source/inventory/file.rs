//! The feeder that follows a file.
//!
//! The file is looked at each second. It is read when its size, time and inode were the same at two looks, and is thrown away
//! when they are others after the reading: somebody writes it just now. Writers that rename a new file into place are
//! never waited for.
//!
//! Invariants: half of a file is never told as a whole one; a file that is there and cannot be read is a failure, and so is
//! one that is not there: what was read before stays.
//!
//! Cost: a system call each second; O(file) for each version of it.

use super::document::{self, MAX_BYTES, failed};
use super::feeder::{Event, Failure, Feed, Feeder};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks at a file that has changed.
const SETTLE: Duration = Duration::from_millis(100);
/// Time after which a file that never rests is told as a failure.
const LONGEST_UNREST: Duration = Duration::from_secs(30);
/// Time between two signs that the file is as it was.
const SIGN: Duration = Duration::from_secs(10);

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
    inode: (u64, u64),
}

impl From<&Metadata> for Stamp {
    fn from(found: &Metadata) -> Stamp {
        let (changed, inode) = ((found.mtime(), found.mtime_nsec()), (found.dev(), found.ino()));
        Stamp { bytes: found.len(), changed, inode }
    }
}

/// Follows a file.
pub struct FileFeeder {
    pub path: PathBuf,
    /// Name of the inventory.
    pub name: String,
}

/// Result of looking at a file and reading it.
enum Found {
    /// It is the version that was read last.
    Same,
    /// It changes while it is read.
    Unrest,
    Version(Stamp, Vec<u8>),
    Fault(Option<Stamp>, Failure),
}

impl Feeder for FileFeeder {
    async fn run(self, mut feed: Feed) {
        // The version that was told last, whatever came of it; none where there was no file.
        let mut told: Option<Option<Stamp>> = None;
        let mut is_good = false;
        let mut signed = Instant::now();
        let mut restless: Option<Instant> = None;
        loop {
            let is_wanted = feed.begin() || told.is_none();
            let seen = told.flatten().filter(|_| !is_wanted);
            let path = self.path.clone();
            let found = spawn_blocking(move || look(&path, seen)).await;
            let found = found.unwrap_or_else(|error| Found::Fault(None, Failure::new("unreadable", error.to_string())));
            let event = match found {
                Found::Unrest if restless.get_or_insert_with(Instant::now).elapsed() < LONGEST_UNREST => {
                    feed.put_off();
                    sleep(SETTLE).await;
                    continue;
                }
                Found::Unrest => {
                    told = Some(None);
                    let text =
                        format!("{} changes all the time; rename a complete file into place", self.path.display());
                    Some(failed(Failure::new("unsettled", text)))
                }
                Found::Same if is_good && signed.elapsed() >= SIGN => Some(Event::Current),
                Found::Same => None,
                Found::Version(stamp, bytes) => {
                    told = Some(Some(stamp));
                    Some(document::read(self.path.clone(), bytes, self.name.clone()).await)
                }
                // A fault that lasts is told once.
                Found::Fault(stamp, failure) => {
                    let is_new = is_wanted || is_good || told != Some(stamp);
                    told = Some(stamp);
                    is_new.then(|| failed(failure))
                }
            };
            restless = None;
            if let Some(event) = event {
                is_good = matches!(event, Event::Whole { .. } | Event::Current);
                signed = Instant::now();
                if !feed.tell(event).await {
                    return;
                }
            }
            if !feed.pause(LOOK).await {
                return;
            }
        }
    }
}

/// Looks at a file, and reads it unless it is the version that was seen.
fn look(path: &Path, seen: Option<Stamp>) -> Found {
    let fault = |stamp, error: &io::Error| {
        let label = if error.kind() == io::ErrorKind::NotFound { "missing" } else { "unreadable" };
        Found::Fault(stamp, Failure::new(label, format!("{} cannot be read: {error}", path.display())))
    };
    // A pipe in its place must not hold the thread for ever.
    let mut options = File::options();
    let file = match options.read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) => return fault(None, &error),
    };
    let stamp_of = |file: &File| file.metadata().map(|found| (Stamp::from(&found), found.is_file()));
    let (stamp, is_file) = match stamp_of(&file) {
        Ok(found) => found,
        Err(error) => return fault(None, &error),
    };
    if !is_file {
        let text = format!("{} is no file; write the path of one", path.display());
        return Found::Fault(Some(stamp), Failure::new("unreadable", text));
    }
    if seen == Some(stamp) {
        return Found::Same;
    }
    if stamp.bytes > MAX_BYTES {
        let text = format!("{} has {} octets, more than {MAX_BYTES}", path.display(), stamp.bytes);
        return Found::Fault(Some(stamp), Failure::new("too_large", text));
    }
    std::thread::sleep(SETTLE);
    let rests = |stamp| std::fs::metadata(path).is_ok_and(|found| Stamp::from(&found) == stamp);
    if !rests(stamp) {
        return Found::Unrest;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.bytes).unwrap_or_default());
    match (&file).take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        // The same file may be readable in a moment.
        Err(error) => fault(None, &error),
        Ok(read) if read as u64 == stamp.bytes && rests(stamp) => Found::Version(stamp, bytes),
        Ok(_) => Found::Unrest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_version_is_read_once_and_no_half_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inventory.toml");
        assert!(matches!(look(&path, None), Found::Fault(None, Failure { label: "missing", .. })));
        fs::write(&path, "format = 1\n").unwrap();
        let Found::Version(stamp, bytes) = look(&path, None) else { panic!("it rests") };
        assert_eq!(bytes, b"format = 1\n");
        assert!(matches!(look(&path, Some(stamp)), Found::Same));
        // Another file of the same size in its place is another version.
        let other = folder.path().join("new");
        fs::write(&other, "format = 2\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(matches!(look(&path, Some(stamp)), Found::Version(..)));
        assert!(matches!(look(folder.path(), None), Found::Fault(Some(_), Failure { label: "unreadable", .. })));
    }
}
