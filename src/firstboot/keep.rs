//! Folder that keeps what was fetched, so that the next start has it even if the host is silent then.
//!
//! The folder may lie inside one that belongs to the server's user, and is written by root: it is opened once, nothing
//! is followed out of it, and one that somebody else has put there is refused.
//!
//! A text that replaces another is on trial until a server has taken it: the other stays beside it, and comes back when
//! the server refuses. A trial that was cut short, by a power cut, say, goes on with the next start, since nobody has
//! refused the text and its first answers may be out; but only once, since the text itself may have ended everything.
//!
//! Invariants: a file is replaced as a whole or not at all; what has come of a trial outlives a power cut.
//!
//! Cost: O(text), and two waits for the disk.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket by which `aggregator reload` asks for a look at the metadata.
pub const REQUESTS: &str = "requests";
/// File with the valid configuration that was fetched last.
pub const CONFIGURATION: &str = "config.toml";
/// File that names the configuration's path, as a variable for the service manager's unit.
const ENVIRONMENT: &str = "environment";
/// File that is being written.
const FRESH: &str = "config.new";
/// File with the configuration that the one on trial has replaced; there only during a trial.
const PREVIOUS: &str = "config.previous";
/// File that marks a trial as resumed after it was cut short.
const RESUMED: &str = "config.resumed";
/// File with the configuration that a server has refused last.
const REFUSED: &str = "config.refused";

/// An open folder.
pub struct Keep {
    path: PathBuf,
    folder: File,
}

impl Keep {
    /// Opens the folder, and makes it where it is missing.
    pub fn open(path: &Path) -> io::Result<Keep> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o755).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let about = folder.metadata()?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            let message = "it belongs to another user, or others may write to it";
            return Err(io::Error::new(ErrorKind::PermissionDenied, message));
        }
        let keep = Keep { path: path.to_path_buf(), folder };
        keep.resume_trial()?;
        Ok(keep)
    }

    /// Returns the path of a file in the open folder, which holds even if the folder is renamed.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(name)
    }

    /// The name of the configuration for others.
    pub fn configuration(&self) -> PathBuf {
        self.path.join(CONFIGURATION)
    }

    /// The configuration that was kept last.
    pub fn read(&self) -> Option<String> {
        fs::read_to_string(self.inside(CONFIGURATION)).ok()
    }

    /// Replaces a file as a whole.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        self.prepare(text)?;
        fs::rename(self.inside(FRESH), self.inside(name))
    }

    /// Writes a configuration beside the one that is kept, for a check; its path.
    pub fn prepare(&self, text: &str) -> io::Result<PathBuf> {
        let fresh = self.inside(FRESH);
        self.remove(FRESH)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(self.path.join(FRESH))
    }

    /// Returns true if the configuration is on trial; the very first one replaces none, so it is never on trial.
    pub fn has_trial(&self) -> bool {
        self.inside(PREVIOUS).exists()
    }

    /// Makes a text that is valid the configuration, on trial, also in place of another that is on trial.
    pub fn adopt(&self, text: &str) -> io::Result<()> {
        self.remove(RESUMED)?;
        if !self.has_trial()
            && let Some(previous) = self.read()
        {
            self.write(PREVIOUS, &previous)?;
        }
        self.write(CONFIGURATION, text)?;
        self.folder.sync_all()
    }

    /// Ends a trial: the configuration stays.
    pub fn accept(&self) -> io::Result<()> {
        self.forget_refused()?;
        self.remove(PREVIOUS)?;
        self.folder.sync_all()
    }

    /// Goes on with a trial that was cut short, or ends it if that happens again.
    fn resume_trial(&self) -> io::Result<()> {
        let is_whole = self.inside(CONFIGURATION).exists() && !self.inside(RESUMED).exists();
        if !is_whole || !self.has_trial() {
            return self.put_back();
        }
        self.write(RESUMED, "")?;
        self.folder.sync_all()
    }

    /// Forgets the refused text, so that the next start tries it again.
    pub fn forget_refused(&self) -> io::Result<()> {
        self.remove(REFUSED)
    }

    /// Withdraws the configuration on trial without judging it: the one before it is back, and the text may be tried
    /// again.
    pub fn withdraw(&self) -> io::Result<()> {
        self.put_back()?;
        self.forget_refused()
    }

    /// Ends a trial: the configuration before it is back, if there was one. Without a trial nothing changes.
    pub fn put_back(&self) -> io::Result<()> {
        if !self.has_trial() {
            return Ok(());
        }
        match fs::rename(self.inside(CONFIGURATION), self.inside(REFUSED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(self.inside(PREVIOUS), self.inside(CONFIGURATION))?;
        self.folder.sync_all()
    }

    /// Returns true if a text is the one that was put on trial last and did not stay.
    pub fn has_refused(&self, text: &str) -> bool {
        fs::read_to_string(self.inside(REFUSED)).is_ok_and(|refused| refused == text)
    }

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.inside(name)).map(drop)
    }

    /// Tells a unit of the service manager where the configuration is.
    pub fn write_environment(&self, configuration: &Path) -> io::Result<()> {
        self.write(ENVIRONMENT, &format!("AGGREGATOR_CONFIG_FILE={}\n", configuration.display()))
    }

    /// Listens for requests. Those of a group may ask beside ourselves.
    pub fn listen(&self, group: Option<u32>) -> io::Result<UnixListener> {
        let path = self.inside(REQUESTS);
        self.remove(REQUESTS)?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o660))?;
        std::os::unix::fs::chown(&path, None, group)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

/// Removes a file; false if there is none.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_adopted_is_there_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/boot");
        let keep = Keep::open(&path).unwrap();
        assert_eq!(keep.read(), None);
        keep.prepare("one").unwrap();
        assert_eq!(Keep::open(&path).unwrap().read(), None, "only prepared");
        keep.adopt("one").unwrap();
        keep.prepare("half").unwrap();
        assert_eq!(Keep::open(&path).unwrap().read().as_deref(), Some("one"));
        keep.adopt("two").unwrap();
        keep.accept().unwrap();
        assert_eq!(fs::read_to_string(keep.configuration()).unwrap(), "two");
        keep.write_environment(Path::new("/etc/c.toml")).unwrap();
        assert_eq!(fs::read_to_string(path.join("environment")).unwrap(), "AGGREGATOR_CONFIG_FILE=/etc/c.toml\n");
    }

    #[test]
    fn what_is_on_trial_stays_only_when_it_is_accepted() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("boot");
        let keep = Keep::open(&path).unwrap();
        keep.adopt("one").unwrap();
        keep.put_back().unwrap();
        assert_eq!(keep.read().as_deref(), Some("one"), "there is nothing before it");
        keep.adopt("two").unwrap();
        keep.put_back().unwrap();
        assert_eq!(keep.read().as_deref(), Some("one"));
        assert!(keep.has_refused("two") && !keep.has_refused("one"));
        keep.adopt("three").unwrap();
        keep.accept().unwrap();
        keep.put_back().unwrap();
        assert_eq!(keep.read().as_deref(), Some("three"));
        assert!(!keep.has_refused("two"));
        // One on trial after the other.
        keep.adopt("four").unwrap();
        keep.adopt("five").unwrap();
        keep.put_back().unwrap();
        assert_eq!(keep.read().as_deref(), Some("three"));
        assert!(keep.has_refused("five") && !keep.has_trial());
    }

    #[test]
    fn a_trial_that_was_cut_short_goes_on_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("boot");
        let open = || Keep::open(&path).unwrap();
        open().adopt("one").unwrap();
        open().adopt("two").unwrap();
        let keep = open();
        assert_eq!(keep.read().as_deref(), Some("two"));
        assert!(keep.has_trial() && !keep.has_refused("two"));
        let keep = open();
        assert_eq!(keep.read().as_deref(), Some("one"));
        assert!(!keep.has_trial() && keep.has_refused("two"));
        // Another text, and another trial of the same one, begin anew.
        for text in ["two", "three"] {
            keep.adopt(text).unwrap();
            assert_eq!(open().read().as_deref(), Some(text));
        }
        keep.accept().unwrap();
        assert_eq!(open().read().as_deref(), Some("three"), "nothing is on trial");
        // Killed in the middle of putting back.
        keep.adopt("four").unwrap();
        fs::rename(path.join(CONFIGURATION), path.join(REFUSED)).unwrap();
        let keep = open();
        assert_eq!(keep.read().as_deref(), Some("three"));
        assert!(keep.has_refused("four"));
        keep.forget_refused().unwrap();
        assert!(!keep.has_refused("four"));
        keep.adopt("four").unwrap();
        keep.withdraw().unwrap();
        assert_eq!(keep.read().as_deref(), Some("three"));
        assert!(!keep.has_refused("four") && !keep.has_trial());
    }

    #[test]
    fn nothing_is_followed_out_of_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let (path, target) = (root.path().join("boot"), root.path().join("target"));
        fs::write(&target, "precious").unwrap();
        let keep = Keep::open(&path).unwrap();
        for name in [FRESH, CONFIGURATION, REFUSED] {
            std::os::unix::fs::symlink(&target, path.join(name)).unwrap();
        }
        keep.adopt("text").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(keep.read().as_deref(), Some("text"));
        // The folder's name now leads elsewhere; the open folder does not.
        fs::rename(&path, root.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(root.path(), &path).unwrap();
        keep.adopt("more").unwrap();
        assert!(!root.path().join(CONFIGURATION).exists());
        assert!(Keep::open(&path).is_err(), "a link is no folder of ours");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("boot");
        drop(Keep::open(&path).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Keep::open(&path).err().unwrap().kind(), ErrorKind::PermissionDenied);
    }
}
