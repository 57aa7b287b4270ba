//! The thread that does what takes long: snapshots of whole zones, and waiting for the medium.
//!
//! It works beside the writer, so that no zone's changes wait for another zone's million records. It touches only files
//! that are not yet, or no more, in use: a new snapshot under a temporary name and the journal of its generation. Where
//! steps go on being appended to the journal in use, the writer puts the new pair in place. Where nothing on disk leads
//! to the version, it is put in place here, and with that the first version of a zone is on the medium when it is told
//! as built.
//!
//! Cost: O(records) for a snapshot, from a version that nobody can change.

use super::disk::{self, Disk};
use super::frame::Header;
use super::inbox::{Done, Inbox};
use super::ledger::journal_path;
use super::snapshot;
use crate::zone::Zone;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;
use wire::name::Name;

/// Job of the builder.
pub enum Job {
    Build(Build),
    /// A generation is in use: the journal of the one before can go.
    Clean {
        folder: PathBuf,
        journal: PathBuf,
        old: Option<PathBuf>,
    },
    /// Files whose bytes are to reach the medium, with their zones; the regions' file has none.
    Sync(Vec<(Option<Name>, PathBuf)>),
}

/// A snapshot to build, and the journal for what follows it.
pub struct Build {
    pub zone: Name,
    pub folder: PathBuf,
    pub generation: u64,
    pub version: Arc<Zone>,
    pub refreshed: SystemTime,
    /// Journal and range of its octets that led to the version; none if no journal leads to it.
    pub carried: Option<(PathBuf, u64, u64)>,
}

/// Path at which a snapshot is written before it is whole.
pub fn temporary_path(folder: &Path) -> PathBuf {
    folder.join("snapshot.tmp")
}

/// Works until the writer has no more jobs.
pub fn run(disk: &Disk, inbox: &Inbox, jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Build(build) => {
                let buffered = inbox.buffers().hold(build.buffer_bytes());
                let result = build.run(disk);
                drop(buffered);
                let temporary = temporary_path(&build.folder);
                // A journal stays whose snapshot is in place already.
                if result.is_err() && temporary.exists() {
                    // Room for others; what stays behind is removed at the next start.
                    let _ = disk.remove(&temporary);
                    let _ = disk.remove(&journal_path(&build.folder, build.generation));
                }
                inbox.done(Done::Built { zone: build.zone, generation: build.generation, result });
            }
            Job::Clean { folder, journal, old } => {
                // Only when the new generation is on the medium may the old one go: first the steps that the writer has
                // copied into its journal, then the name of its snapshot. What fails here fails again, and is told, at
                // the next sync; what stays behind is removed at the next start.
                let synced = disk::sync_data(&journal).and_then(|()| disk::sync_folder(&folder));
                if let (Ok(()), Some(old)) = (synced, old) {
                    let _ = disk.remove(&old);
                }
            }
            Job::Sync(files) => {
                let sync = |(zone, path): (Option<Name>, PathBuf)| Some((zone, disk::sync_data(&path).err()?));
                inbox.done(Done::Synced(files.into_iter().filter_map(sync).collect()));
            }
        }
    }
}

impl Build {
    /// Octets that this holds at most beside the version: a buffer, then the part of the journal, alone and behind a
    /// header.
    fn buffer_bytes(&self) -> usize {
        let carried = self.carried.as_ref().map_or(0, |(_, start, end)| end.saturating_sub(*start));
        snapshot::BUFFER_BYTES.max(2 * usize::try_from(carried).unwrap_or(usize::MAX / 2))
    }

    /// Writes the files, down to the medium, and puts them in place if no journal in use leads to them. Returns their
    /// lengths.
    fn run(&self, disk: &Disk) -> io::Result<(u64, u64)> {
        disk.ensure_folder(&self.folder)?;
        let path = temporary_path(&self.folder);
        let snapshot = snapshot::write(disk, &path, self.generation, self.refreshed, &self.version)?;
        let carried = match &self.carried {
            Some((journal, start, end)) => disk::read_range(journal, *start, *end)?,
            None => Vec::new(),
        };
        let header = Header::before(self.generation, carried.len() as u64);
        let journal = disk.create(&journal_path(&self.folder, self.generation))?;
        let bytes = [header.to_bytes(), carried].concat();
        disk.write(&journal, &bytes)?;
        journal.sync_data()?;
        if self.carried.is_none() {
            disk.rename(&path, &self.folder.join("snapshot"))?;
        }
        // The names must be there before the snapshot in use is replaced, those of the folders included.
        for folder in [&self.folder, &disk.root().join("zones"), disk.root()] {
            disk::sync_folder(folder)?;
        }
        Ok((snapshot, bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_version_to_which_no_journal_leads_is_in_place_when_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let version = Arc::new(crate::zone::tests::zone("z.", "@ 30 SOA 1"));
        let path = disk.zone_folder(&version.origin);
        let build = |generation, carried| Build {
            zone: version.origin.clone(),
            folder: path.clone(),
            generation,
            version: version.clone(),
            refreshed: SystemTime::now(),
            carried,
        };
        let in_place = || snapshot::generation(&fs::read(path.join("snapshot")).unwrap());
        build(1, None).run(&disk).unwrap();
        assert_eq!(in_place(), Some(1));
        assert!(journal_path(&path, 1).exists() && !temporary_path(&path).exists());
        // The other journal is in use: the writer has to copy what comes meanwhile.
        build(2, Some((journal_path(&path, 1), 32, 32))).run(&disk).unwrap();
        assert_eq!(in_place(), Some(1));
        assert!(temporary_path(&path).exists());
    }

    #[test]
    fn the_old_journal_stays_until_the_new_one_is_on_the_medium() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let (journal, old) = (journal_path(folder.path(), 2), journal_path(folder.path(), 1));
        fs::write(&old, "").unwrap();
        let clean = || {
            let (jobs, waiting) = std::sync::mpsc::channel();
            let (folder, journal, old) = (folder.path().to_path_buf(), journal.clone(), Some(old.clone()));
            jobs.send(Job::Clean { folder, journal, old }).unwrap();
            drop(jobs);
            run(&disk, &Inbox::default(), &waiting);
        };
        // This can be opened, but has no medium.
        std::os::unix::fs::symlink("/dev/null", &journal).unwrap();
        clean();
        assert!(old.exists());
        fs::remove_file(&journal).unwrap();
        fs::write(&journal, "").unwrap();
        clean();
        assert!(!old.exists());
    }
}
