//! A folder for what a demonstration leaves on disk: configuration, control socket, log.
//!
//! Invariants: one that is made here is new, only its owner can enter, and it is removed when dropped unless it was to be
//! kept; of one that was there already, our own files are.
//!
//! Cost: a few system calls.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Number of names that are tried; leftovers of ended processes may have taken some.
const ATTEMPTS: u32 = 100;

/// The folder.
pub struct Folder {
    path: PathBuf,
    is_ours: bool,
    kept: bool,
}

impl Folder {
    /// Makes the folder where the system wants temporary files.
    pub fn create() -> io::Result<Folder> {
        Folder::create_in(&std::env::temp_dir())
    }

    /// Uses a folder that is there already.
    pub fn enter(path: PathBuf) -> io::Result<Folder> {
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Folder { path, is_ours: false, kept: false }),
            Ok(_) => Err(io::Error::new(ErrorKind::NotADirectory, format!("{} is no folder", path.display()))),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }

    /// Makes the folder inside another one.
    fn create_in(parent: &Path) -> io::Result<Folder> {
        for attempt in 0..ATTEMPTS {
            let path = parent.join(format!("aggregator-demo-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder { path, is_ours: true, kept: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} has no free name", parent.display())))
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.json")
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.path.join("aggregator.log")
    }

    /// Writes the configuration file.
    pub fn write_config(&self, text: &str) -> io::Result<()> {
        fs::write(self.config(), text)
    }

    /// Opens the log.
    pub fn create_log(&self) -> io::Result<File> {
        File::create(self.log())
    }

    /// Leaves the folder on disk.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed does no harm where it is.
        if !self.kept && self.is_ours {
            let _ = fs::remove_dir_all(&self.path);
        } else if !self.kept {
            for file in [self.config(), self.socket(), self.log()] {
                let _ = fs::remove_file(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_away_unless_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let (gone, mut kept) = (Folder::create_in(parent.path()).unwrap(), Folder::create_in(parent.path()).unwrap());
        gone.write_config("{}").unwrap();
        kept.create_log().unwrap();
        kept.keep();
        let (gone_path, kept_path) = (gone.path.clone(), kept.log());
        drop((gone, kept));
        assert!(!gone_path.exists() && kept_path.exists());
        let theirs = parent.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("other"), "").unwrap();
        let entered = Folder::enter(theirs.clone()).unwrap();
        entered.write_config("{}").unwrap();
        drop(entered);
        assert!(theirs.join("other").exists() && !theirs.join("config.json").exists());
        let not_a_folder = Folder::enter(theirs.join("other"));
        assert!(not_a_folder.is_err_and(|error| error.to_string().ends_with("theirs/other is no folder")));
        assert!(Folder::create_in(&gone_path).is_err_and(|error| error.kind() == ErrorKind::NotFound));
    }
}
