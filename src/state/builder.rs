//! The thread that does what takes long: snapshots of whole zones, and waiting for the medium.
//!
//! It works beside the writer, so that no zone's changes wait for another zone's million records. It touches only files
//! that are not yet, or no more, in use: a new snapshot under a temporary name and the journal of its generation. Where
//! steps go on being appended to the journal in use, the writer puts the new pair in place. Where nothing on disk leads
//! to the version, it is put in place here, and with that the first version of a zone is on the medium when it is told
//! as built. Snapshots of many small zones that wait are made together: the medium is waited for twice for all of them,
//! not several times for each.
//!
//! Cost: O(records) for a snapshot, from a version that nobody can change.

use super::disk::{self, Disk};
use super::frame::Header;
use super::inbox::{Done, Inbox};
use super::ledger::journal_path;
use super::snapshot;
use crate::zone::Zone;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError};
use std::time::SystemTime;
use wire::name::Name;

/// Snapshots that are made together: from so many on they go to the medium at once, and at most so many, of so many
/// records.
const TOGETHER: usize = 16;
const MOST_TOGETHER: usize = 512;
const MOST_RECORDS: u64 = 100_000;

/// Job of the builder.
pub enum Job {
    Build(Build),
    /// A generation is in use: the journal of the one before can go.
    Clean {
        folder: PathBuf,
        journal: PathBuf,
        old: PathBuf,
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
    let mut next = None;
    while let Ok(job) = next.take().map_or_else(|| jobs.recv(), Ok::<_, RecvError>) {
        match job {
            Job::Build(build) => {
                let (builds, other) = gather(build, jobs);
                next = other;
                build_all(disk, inbox, builds);
            }
            Job::Clean { folder, journal, old } => {
                // Only when the new generation is on the medium may the old one go: first the steps that the writer has
                // copied into its journal, then the name of its snapshot. What fails here fails again, and is told, at
                // the next sync; what stays behind is removed at the next start.
                let synced = disk::sync_data(&journal).and_then(|()| disk::sync_folder(&folder));
                if synced.is_ok() {
                    let _ = disk.remove(&old);
                }
            }
            Job::Sync(files) => {
                // Of those that the whole medium has now, little is left to wait for; and an error is that of its file.
                let is_many = files.len() >= TOGETHER;
                if is_many && let Err(error) = disk::sync_all_below(disk.root()) {
                    tracing::debug!("{}: {error}; each file is sent by itself", disk.root().display());
                }
                let sync = |(zone, path): (Option<Name>, PathBuf)| Some((zone, disk::sync_data(&path).err()?));
                inbox.done(Done::Synced(files.into_iter().filter_map(sync).collect()));
            }
        }
    }
}

/// Takes the snapshots that wait behind one, as far as they are made with it; and the job behind them.
fn gather(first: Build, jobs: &Receiver<Job>) -> (Vec<Build>, Option<Job>) {
    let mut records = first.version.records;
    let mut builds = vec![first];
    while builds.len() < MOST_TOGETHER && records < MOST_RECORDS {
        match jobs.try_recv() {
            Ok(Job::Build(build)) if records + build.version.records <= MOST_RECORDS => {
                records += build.version.records;
                builds.push(build);
            }
            Ok(job) => return (builds, Some(job)),
            Err(_) => break,
        }
    }
    (builds, None)
}

/// Makes snapshots, and tells what came of each.
fn build_all(disk: &Disk, inbox: &Inbox, builds: Vec<Build>) {
    if builds.len() < TOGETHER {
        for build in builds {
            let buffered = inbox.buffers().hold(build.buffer_bytes());
            let result = build.run(disk);
            drop(buffered);
            build.tell(disk, inbox, result);
        }
        return;
    }
    let write = |build: Build| {
        let _buffered = inbox.buffers().hold(build.buffer_bytes());
        let written = build.write(disk).map(|written| written.lengths());
        (build, written)
    };
    let written: Vec<(Build, io::Result<(u64, u64)>)> = builds.into_iter().map(write).collect();
    // What fails there may be another program's; what fails below is the file's own, and takes no time afterwards.
    _ = disk::sync_all_below(disk.root());
    let place = |(build, written): (Build, io::Result<(u64, u64)>)| {
        let placed = written.and_then(|lengths| {
            disk::sync_data(&temporary_path(&build.folder))?;
            disk::sync_data(&journal_path(&build.folder, build.generation))?;
            build.put_in_place(disk)?;
            Ok(lengths)
        });
        (build, placed)
    };
    let placed: Vec<(Build, io::Result<(u64, u64)>)> = written.into_iter().map(place).collect();
    // The names must be there before the snapshots in use are replaced, and before anything is told as built.
    let synced = disk::sync_all_below(disk.root());
    for (build, placed) in placed {
        build.tell(disk, inbox, placed.and_then(|lengths| copy_error(&synced).map(|()| lengths)));
    }
}

/// What came of something that was done for several.
fn copy_error(result: &io::Result<()>) -> io::Result<()> {
    result.as_ref().copied().map_err(|error| io::Error::new(error.kind(), error.to_string()))
}

/// Files of a snapshot that are to reach the medium, with their lengths.
struct Written {
    snapshot: (File, u64),
    journal: (File, u64),
}

impl Written {
    /// The lengths of snapshot and journal.
    fn lengths(&self) -> (u64, u64) {
        (self.snapshot.1, self.journal.1)
    }
}

impl Build {
    /// Octets that this holds at most beside the version: a buffer, then the part of the journal, alone and behind a
    /// header.
    fn buffer_bytes(&self) -> usize {
        let carried = self.carried.as_ref().map_or(0, |(_, start, end)| end.saturating_sub(*start));
        snapshot::BUFFER_BYTES.max(2 * usize::try_from(carried).unwrap_or(usize::MAX / 2))
    }

    /// Writes the files.
    fn write(&self, disk: &Disk) -> io::Result<Written> {
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
        Ok(Written { snapshot, journal: (journal, bytes.len() as u64) })
    }

    /// Puts the snapshot in place if no journal in use leads to it.
    fn put_in_place(&self, disk: &Disk) -> io::Result<()> {
        match self.carried {
            None => disk.rename(&temporary_path(&self.folder), &self.folder.join("snapshot")),
            Some(_) => Ok(()),
        }
    }

    /// Writes the files, down to the medium, and puts them in place if no journal in use leads to them. Returns their
    /// lengths.
    fn run(&self, disk: &Disk) -> io::Result<(u64, u64)> {
        let written = self.write(disk)?;
        written.snapshot.0.sync_data()?;
        written.journal.0.sync_data()?;
        self.put_in_place(disk)?;
        // The names must be there before the snapshot in use is replaced, those of the folders included.
        for folder in [&self.folder, &disk.root().join("zones"), disk.root()] {
            disk::sync_folder(folder)?;
        }
        Ok(written.lengths())
    }

    /// Tells what came of it.
    fn tell(self, disk: &Disk, inbox: &Inbox, result: io::Result<(u64, u64)>) {
        let temporary = temporary_path(&self.folder);
        // A journal stays whose snapshot is in place already.
        if result.is_err() && temporary.exists() {
            // Room for others; what stays behind is removed at the next start.
            let _ = disk.remove(&temporary);
            let _ = disk.remove(&journal_path(&self.folder, self.generation));
        }
        inbox.done(Done::Built { zone: self.zone, generation: self.generation, result });
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
    fn many_snapshots_are_in_place_together_and_each_failure_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let (jobs, waiting) = std::sync::mpsc::channel();
        let names: Vec<Name> = (0..2 * TOGETHER).map(|zone| Name::parse(&format!("z{zone}.")).unwrap()).collect();
        for name in &names {
            let version = Arc::new(crate::zone::tests::zone(&name.to_string(), "@ 30 SOA 1"));
            let (folder, refreshed) = (disk.zone_folder(name), SystemTime::now());
            let build = Build { zone: name.clone(), folder, generation: 1, version, refreshed, carried: None };
            jobs.send(Job::Build(build)).unwrap();
        }
        // A file is where the folder of one should be.
        let broken = disk.zone_folder(&names[3]);
        fs::create_dir_all(broken.parent().unwrap()).unwrap();
        fs::write(&broken, "").unwrap();
        drop(jobs);
        let inbox = Inbox::default();
        run(&disk, &inbox, &waiting);
        let done = inbox.take(None, false).done;
        let failed = |done: &Done| match done {
            Done::Built { zone, result, .. } => result.is_err().then(|| zone.clone()),
            Done::Synced(_) => None,
        };
        assert_eq!(done.iter().filter_map(failed).collect::<Vec<_>>(), [names[3].clone()]);
        assert_eq!(done.len(), names.len());
        let snapshot = |name: &Name| fs::read(disk.zone_folder(name).join("snapshot")).unwrap_or_default();
        let is_there = |name: &&Name| snapshot::generation(&snapshot(name)) == Some(1);
        assert_eq!(names.iter().filter(is_there).count(), names.len() - 1);
    }

    #[test]
    fn the_old_journal_stays_until_the_new_one_is_on_the_medium() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let (journal, old) = (journal_path(folder.path(), 2), journal_path(folder.path(), 1));
        fs::write(&old, "").unwrap();
        let clean = || {
            let (jobs, waiting) = std::sync::mpsc::channel();
            let (folder, journal, old) = (folder.path().to_path_buf(), journal.clone(), old.clone());
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
