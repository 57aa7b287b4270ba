//! The folder on disk: its lock, the names in it, and every operation that changes a file.
//!
//! All changes go through [`Disk`], one system call or a few at a time, so that a test can look at the folder after
//! each of them as a killed process would leave it. Files are opened for each operation and closed again: thousands of
//! zones cost no descriptors, and a folder that vanishes is noticed at the next write.
//!
//! Invariant: one process at a time holds the lock, and changes nothing without it, so nothing here is ever changed
//! from elsewhere. Reading needs no lock.
//!
//! Cost: O(bytes) of what is written.

use super::StateError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::name::{self, Name};

/// Rights of folders: others than owner and group see nothing.
const FOLDER_MODE: u32 = 0o750;
/// Rights of files, likewise.
const FILE_MODE: u32 = 0o640;
/// Longest folder name that people can read, in octets; longer names end in a hash, because file systems take 255
/// octets.
const MAX_READABLE_BYTES: usize = 200;

//--- Disk ---

/// Function by which a test sees the disk after every operation.
#[cfg(test)]
pub type Probe = Box<dyn FnMut(&Path) + Send>;

/// The folder, with its lock.
pub struct Disk {
    root: PathBuf,
    /// The lock, while it is held; closing it lets go of it.
    lock: Mutex<Option<File>>,
    #[cfg(test)]
    pub probe: Mutex<Option<Probe>>,
}

impl Disk {
    /// A folder that nobody has touched yet; [`Disk::claim`] makes it ours.
    pub fn new(root: &Path) -> Disk {
        ignore_size_signal();
        Disk {
            // Only an empty path has no absolute form, and no folder either.
            root: std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf()),
            lock: Mutex::default(),
            #[cfg(test)]
            probe: Mutex::default(),
        }
    }

    /// A folder that is ours.
    #[cfg(test)]
    pub fn open(root: &Path) -> Result<Disk, StateError> {
        let disk = Disk::new(root);
        disk.claim().map(|()| disk)
    }

    /// Makes the folder, where it is missing, and locks it, where the lock is not held yet. A folder that cannot be
    /// written is locked all the same if its lock can be read: it is told once, here, and then by whatever is written.
    pub fn claim(&self) -> Result<(), StateError> {
        let create =
            |path: &Path| create_folder(path).map_err(|error| StateError::Create { path: path.to_path_buf(), error });
        let mut held = self.held();
        create(&self.root)?;
        let there = fs::metadata(self.root.join("lock"));
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        let ours = held.as_ref().and_then(|file| file.metadata().ok()).map(identity);
        if ours.is_none() || there.ok().map(identity) != ours {
            *held = None;
            let (file, problem) = lock(&self.root)?;
            *held = Some(file);
            problem.map_or(Ok(()), Err)?;
        }
        create(&self.root.join("zones"))
    }

    /// Returns true if the folder that was claimed is where it was; somebody may have removed it, or put another in its
    /// place.
    pub fn is_in_place(&self) -> bool {
        let held = self.held();
        let Some(ours) = held.as_ref().and_then(|file| file.metadata().ok()) else { return true };
        let is_there = |path: &str| match fs::metadata(self.root.join(path)) {
            Ok(found) => path != "lock" || (found.dev(), found.ino()) == (ours.dev(), ours.ino()),
            // A disk with other troubles tells them when it is written.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        is_there("lock") && is_there("zones")
    }

    /// The lock.
    fn held(&self) -> MutexGuard<'_, Option<File>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a zone's files.
    pub fn zone_folder(&self, zone: &Name) -> PathBuf {
        self.root.join("zones").join(folder_name(zone))
    }

    /// Lets go of the lock.
    pub fn unlock(&self) {
        if let Some(file) = self.held().take() {
            // What fails here is done when the file is closed.
            let _ = flock(&file, FlockOperation::Unlock);
        }
    }

    /// Runs one operation, if the folder is ours; a test's probe sees what it leaves.
    fn step<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.held().is_none() {
            return Err(io::Error::other("the folder is not locked"));
        }
        // One operation at a time, if somebody looks.
        #[cfg(test)]
        let mut probe = Some(self.probe.lock().unwrap_or_else(PoisonError::into_inner)).filter(|probe| probe.is_some());
        let result = operation();
        #[cfg(test)]
        if let Some(probe) = probe.as_mut().and_then(|probe| probe.as_mut()) {
            probe(&self.root);
        }
        result
    }

    /// Makes a zone's folder, and what is above it, where somebody has removed it; then the lock is taken again, too.
    pub fn ensure_folder(&self, folder: &Path) -> io::Result<()> {
        self.claim().map_err(io::Error::other)?;
        self.step(|| create_folder(folder))
    }

    /// Writes a file and removes it again: a folder may be locked by who cannot write into it.
    pub fn try_writing(&self) -> io::Result<()> {
        let path = self.root.join("probe.tmp");
        let file = self.create(&path)?;
        let written = self.write(&file, b"whether this can be written");
        self.remove(&path)?;
        written
    }

    /// Creates a file in the place of one that may be there.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        self.step(|| OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path))
    }

    /// Writes to a file that was created here.
    pub fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        self.step(|| file.write_all(bytes))
    }

    /// Writes into a file that has the length that the writer believes it has; `at` is not behind its end.
    pub fn write_at(&self, path: &Path, length: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step(|| {
            let file = OpenOptions::new().write(true).open(path)?;
            let found = file.metadata()?.len();
            if found != length {
                return Err(io::Error::other(format!("the file has {found} bytes where {length} were written")));
            }
            file.write_all_at(bytes, at)
        })
    }

    /// Cuts a file.
    pub fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.step(|| OpenOptions::new().write(true).open(path)?.set_len(length))
    }

    /// Puts a file in the place of another, in one step.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| fs::rename(from, to))
    }

    /// Removes a file; one that is gone already is as good.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|| match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }
}

/// Writes a file's bytes to the medium. A file that is gone has been replaced by one that is there in full.
pub fn sync_data(path: &Path) -> io::Result<()> {
    match File::open(path) {
        Ok(file) => file.sync_data(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes a folder's entries to the medium.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes everything that a folder's file system holds to the medium: for many files that is one wait instead of several
/// for each.
pub fn sync_all_below(root: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(root)?)?;
    Ok(())
}

/// Reads part of a file.
pub fn read_range(path: &Path, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(end - start).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == end - start { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Makes a folder and those above it.
fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Takes the lock of a folder and writes our process number into it, for whoever finds it taken. Returns what is wrong
/// with a lock that can be taken, but not written.
fn lock(root: &Path) -> Result<(File, Option<StateError>), StateError> {
    let path = root.join("lock");
    let failed = |error| StateError::Lock { path: path.clone(), error };
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
    let (mut file, problem) = match options {
        Ok(file) => (file, None),
        // A file system that has become read-only, or a lock that belongs to somebody else.
        Err(error) => match File::open(&path) {
            Ok(file) => (file, Some(failed(error))),
            Err(_) => return Err(failed(error)),
        },
    };
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(failed(error.into()));
        }
        let mut holder = String::new();
        // Who it is helps, but is not what matters.
        let _ = file.read_to_string(&mut holder);
        let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() }.to_owned();
        return Err(StateError::InUse { path: root.to_path_buf(), holder });
    }
    // A full disk must not keep anybody from taking the lock.
    let _ = file.set_len(0).and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    Ok((file, problem))
}

/// Makes a limit on the size of files an error like any other; the system would end the process for it.
fn ignore_size_signal() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

//--- Names of folders ---

/// A file name for a zone: letters, digits, hyphens and underscores as they are, everything else as `%xx`. The root is
/// `%root`; what would be too long ends in a hash, after `%%`.
pub fn folder_name(zone: &Name) -> String {
    let mut text = String::new();
    for label in name::labels(zone.as_wire()) {
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
                other => {
                    // Writing into a String cannot fail.
                    let _ = write!(text, "%{other:02x}");
                }
            }
        }
    }
    if text.is_empty() {
        return "%root".into();
    }
    if text.len() > MAX_READABLE_BYTES {
        text.truncate(MAX_READABLE_BYTES - 34);
        // Writing into a String cannot fail.
        let _ = write!(text, "%%{:032x}", long_hash(zone.as_wire()));
    }
    text
}

/// FNV-1a with 128 bits, the same in every process; a snapshot names its zone, so even equal hashes do no harm but to
/// each other.
fn long_hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_file_name_of_its_own() {
        let of = |text: &str| folder_name(&Name::parse(text).unwrap());
        assert_eq!(of("US-east_1.cns.example.com."), "us-east_1.cns.example.com");
        assert_eq!(of("."), "%root");
        assert_eq!(of("a\\.b.c"), "a%2eb.c");
        assert_eq!(of("\\.\\..\\000/%.x"), "%2e%2e.%00%2f%25.x");
        let long = |last: &str| [vec!["n".repeat(60); 3].join("."), last.to_owned()].join(".");
        let (one, other) = (of(&long("a2345678901234567890")), of(&long("b2345678901234567890")));
        assert!(one.len() <= 200 && one.contains("%%") && one != other, "{one} {other}");
        let worst = of(&vec!["\\255".repeat(63); 3].join("."));
        assert_eq!(worst.len(), 200);
    }

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/er");
        let first = Disk::open(&root).unwrap();
        let error = Disk::open(&root).err().unwrap().to_string();
        assert!(error.contains(&std::process::id().to_string()) && error.contains("another process"), "{error}");
        drop(first);
        Disk::open(&root).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().mode() & 0o777, 0o750);
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Disk::open(&file.join("state")).err().unwrap();
        assert!(matches!(&error, StateError::Create { path, .. } if path.ends_with("file/state")), "{error}");
        let error = Disk::open(&file).err().unwrap();
        assert!(matches!(error, StateError::Create { .. }), "{error}");
    }
}
