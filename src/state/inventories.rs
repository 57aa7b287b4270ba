//! Files that keep inventories over a restart: frames that are appended, and written anew when they have grown.
//!
//! ```text
//! FOLDER/inventories/NAME.elements    the elements as they were read last
//! FOLDER/inventories/NAME.retained    what follows from their past: damping, owners of labels, reports
//! FOLDER/inventories/NAME.reverse     the automatic reverse zones that are in force
//! FOLDER/inventories/NAME.instance    the UUID by which a feeder is known to others
//! FOLDER/inventories/NAME.*.broken    what could not be read, kept for whoever wants to know why
//! ```
//!
//! The files of one inventory are independent: what befalls one leaves the others as they are. Their time of change is that
//! of the last good reading ([`KeptFile::touch`]).
//!
//! A file that has grown is written anew beside the one that goes on being appended to ([`Renewal`]); what was appended
//! meanwhile follows at the end. A frame of no octets stands behind what was written whole.
//!
//! Invariants: a process that is killed at any moment leaves a file whose good beginning is read again, and what was
//! appended last may be missing; a file that cannot be read because the disk refuses it is not damaged, and stays as it
//! is; at most one renewal of a file is under way.
//!
//! Cost: O(octets) of what is written; the end of a renewal O(octets appended since it began).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;
use wire::name::Name;

/// The beginning of every file, with the number of its format.
const MAGIC: &[u8; 8] = b"AGGINV\x00\x01";
/// Octets in front of each frame: length and checksum.
const FRAME_HEAD: usize = 8;
/// A file that has grown by less is not written whole.
const LEAST_GROWTH: u64 = 1 << 20;
/// The kind of the file with automatic reverse zones.
const REVERSE: &str = "reverse";
/// Rights of folder and files, as those of zones have them.
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("{} cannot be read: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is damaged and was set aside", .path.display())]
    Damaged { path: PathBuf },
}

/// Frames of a file, and the time of the last good reading.
pub type Found = (Vec<Vec<u8>>, SystemTime);

/// A file of frames.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    /// Octets of the file; none until it was read or written whole.
    end: Option<u64>,
    /// Octets that it had when it was written whole.
    base: u64,
    /// Number of times that it became another file.
    generation: u64,
    /// Held by the renewal that is under way.
    renewing: Weak<()>,
}

/// A file that is written whole, to take the place of the present one.
#[derive(Debug)]
pub struct Renewal {
    path: PathBuf,
    file: io::BufWriter<File>,
    written: u64,
    /// Octets and generation of the present file when this began.
    end: u64,
    generation: u64,
    _token: Arc<()>,
}

/// The path of a file of an inventory.
pub fn path_of(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join("inventories").join(format!("{name}.{kind}"))
}

/// Reads the names of an inventory's automatic reverse zones; none where there are none or they cannot be read, since
/// they come again with their addresses.
pub fn read_reverse(folder: &Path, name: &str) -> Vec<Name> {
    let found = KeptFile::new(path_of(folder, name, REVERSE)).load().inspect_err(|error| tracing::warn!("{error}"));
    let frames = found.ok().flatten().map(|(frames, _)| frames).unwrap_or_default();
    let lines = frames.iter().filter_map(|frame| std::str::from_utf8(frame).ok()).flat_map(str::lines);
    lines.filter_map(|line| Name::parse(line).ok()).collect()
}

/// Writes those names.
pub fn write_reverse(folder: &Path, name: &str, zones: &[Name]) -> io::Result<()> {
    let lines: String = zones.iter().map(|zone| format!("{zone}\n")).collect();
    KeptFile::new(path_of(folder, name, REVERSE)).replace([Ok(lines.into_bytes())])
}

impl KeptFile {
    /// A file that nobody has touched yet.
    pub fn new(path: PathBuf) -> KeptFile {
        KeptFile { path, end: None, base: 0, generation: 0, renewing: Weak::new() }
    }

    /// Reads the frames and the time of the last good reading; none where there is no file.
    pub fn load(&mut self) -> Result<Option<Found>, KeptError> {
        let failed = |error| KeptError::Read { path: self.path.clone(), error };
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed)?,
        };
        let time = fs::metadata(&self.path).and_then(|found| found.modified()).map_err(failed)?;
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            return Err(self.set_aside());
        };
        let (mut frames, mut base) = (Vec::new(), None);
        while let Some((frame, more)) = split_frame(rest) {
            rest = more;
            if frame.is_empty() {
                base = base.or(Some(bytes.len() - rest.len()));
            } else {
                frames.push(frame.to_vec());
            }
        }
        if !rest.is_empty() {
            let lost = rest.len();
            tracing::warn!(file = %self.path.display(), lost, "the end of a file is damaged; what stands before it is used");
        }
        let end = (bytes.len() - rest.len()) as u64;
        // Before there were such marks, the first frame was what was written whole.
        let first = || MAGIC.len() + frames.first().map_or(0, |frame| FRAME_HEAD + frame.len());
        let base = base.unwrap_or_else(first);
        (self.end, self.base) = (Some(end), base as u64);
        self.generation += 1;
        Ok(Some((frames, time)))
    }

    /// Renames a file that is damaged.
    pub fn set_aside(&mut self) -> KeptError {
        let mut broken = self.path.clone().into_os_string();
        broken.push(".broken");
        self.end = None;
        self.generation += 1;
        match fs::rename(&self.path, broken) {
            Ok(()) => KeptError::Damaged { path: self.path.clone() },
            Err(error) => KeptError::Read { path: self.path.clone(), error },
        }
    }

    /// Returns true if the file is to be written whole before anything can be appended: there is none.
    pub fn is_due(&self) -> bool {
        self.end.is_none()
    }

    /// Returns true if the file has grown so much that it should be written anew, and nobody does.
    pub fn has_grown(&self) -> bool {
        self.end.is_some_and(|end| end > 2 * self.base + LEAST_GROWTH) && self.renewing.strong_count() == 0
    }

    /// Appends a frame. The file must not be due to be written whole.
    pub fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(end) = self.end.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let bytes = head_of(frame);
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        // Half of a frame may stand there since the disk was full.
        if file.metadata()?.len() != end {
            file.set_len(end)?;
        }
        file.write_all(&bytes)?;
        file.write_all(frame)?;
        self.end = Some(end + (bytes.len() + frame.len()) as u64);
        Ok(())
    }

    /// Writes the file whole, with frames that are made on the way.
    pub fn replace(&mut self, frames: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        self.end = None;
        self.generation += 1;
        let mut renewal = self.begin_renewal()?;
        frames.into_iter().try_for_each(|frame| renewal.push(&frame?))?;
        renewal.sync()?;
        self.put_in_place(renewal)
    }

    /// Begins to write the file anew. What is appended from now on need not be pushed.
    pub fn begin_renewal(&mut self) -> io::Result<Renewal> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let mut path = self.path.clone().into_os_string();
        path.push(".tmp");
        let path = PathBuf::from(path);
        // One that was given up may still write to a file of that name.
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path)?;
        let mut file = io::BufWriter::new(file);
        file.write_all(MAGIC)?;
        let token = Arc::new(());
        self.renewing = Arc::downgrade(&token);
        let (written, end) = (MAGIC.len() as u64, self.end.unwrap_or_default());
        Ok(Renewal { path, file, written, end, generation: self.generation, _token: token })
    }

    /// Puts the new file into the place of the present one, with what was appended meanwhile. False: the present one has
    /// become another since the renewal began, and stays.
    pub fn finish_renewal(&mut self, mut renewal: Renewal) -> io::Result<bool> {
        let Some(end) = self.end.filter(|_| renewal.generation == self.generation) else { return Ok(false) };
        let mut present = File::open(&self.path)?;
        let time = present.metadata()?.modified()?;
        present.seek(SeekFrom::Start(renewal.end))?;
        let copied = io::copy(&mut present.take(end - renewal.end), &mut renewal.file)?;
        if copied != end - renewal.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        renewal.file.flush()?;
        renewal.file.get_ref().set_modified(time)?;
        self.put_in_place(renewal)?;
        self.end = self.end.map(|end| end + copied);
        Ok(true)
    }

    /// Renames a new file that is written.
    fn put_in_place(&mut self, renewal: Renewal) -> io::Result<()> {
        fs::rename(&renewal.path, &self.path)?;
        (self.end, self.base) = (Some(renewal.written), renewal.written);
        self.generation += 1;
        Ok(())
    }

    /// Notes the time of a good reading that had nothing new.
    pub fn touch(&self, at: SystemTime) -> io::Result<()> {
        File::options().append(true).open(&self.path)?.set_modified(at)
    }
}

impl Renewal {
    /// Writes a frame; one of no octets says nothing.
    pub fn push(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.is_empty() { Ok(()) } else { self.write(frame) }
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let head = head_of(frame);
        self.file.write_all(&head)?;
        self.file.write_all(frame)?;
        self.written += (head.len() + frame.len()) as u64;
        Ok(())
    }

    /// Ends what is written whole, and waits until the disk has it.
    pub fn sync(&mut self) -> io::Result<()> {
        self.write(&[])?;
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }
}

/// Length and checksum of a frame.
fn head_of(frame: &[u8]) -> [u8; FRAME_HEAD] {
    let mut head = [0; FRAME_HEAD];
    let (length, checksum) = head.split_at_mut(4);
    length.copy_from_slice(&(frame.len() as u32).to_be_bytes());
    checksum.copy_from_slice(&crc32fast::hash(frame).to_be_bytes());
    head
}

/// The first frame of octets and what follows it; none if it is not whole.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<FRAME_HEAD>()?;
    let [length, checksum] = [&head[..4], &head[4..]].map(|part| part.try_into().map_or(0, u32::from_be_bytes));
    let (frame, more) = rest.split_at_checked(length as usize)?;
    (crc32fast::hash(frame) == checksum).then_some((frame, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(file: &mut KeptFile) -> Vec<Vec<u8>> {
        file.load().unwrap().unwrap().0
    }

    #[test]
    fn frames_come_back_up_to_the_first_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), "dc1", "elements");
        let mut file = KeptFile::new(path.clone());
        assert!(file.load().unwrap().is_none() && file.is_due());
        file.replace([Ok(b"one".to_vec()), Ok(Vec::new()), Ok(b"more".to_vec())]).unwrap();
        file.append(b"two").unwrap();
        assert!(!file.is_due());
        let mut again = KeptFile::new(path.clone());
        assert_eq!(frames(&mut again), [&b"one"[..], b"more", b"two"]);
        assert_eq!((again.end, again.base), (file.end, file.base));
        // Killed while it appended: the file goes on behind what is whole.
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &[0, 0, 0, 9, 1]].concat()).unwrap();
        let mut torn = KeptFile::new(path.clone());
        assert_eq!(frames(&mut torn).len(), 3);
        torn.append(b"three").unwrap();
        assert_eq!(frames(&mut KeptFile::new(path.clone())).last().unwrap(), b"three");
        fs::write(&path, b"something else").unwrap();
        assert!(matches!(torn.load(), Err(KeptError::Damaged { .. })));
        assert!(!path.exists() && torn.is_due() && torn.append(b"x").is_err());
    }

    #[test]
    fn the_time_is_that_of_the_last_reading() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = KeptFile::new(folder.path().join("x.elements"));
        file.replace([Ok(b"one".to_vec())]).unwrap();
        let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        file.touch(then).unwrap();
        assert_eq!(file.load().unwrap().unwrap(), (vec![b"one".to_vec()], then));
        let mut renewal = file.begin_renewal().unwrap();
        renewal.sync().unwrap();
        assert!(file.finish_renewal(renewal).unwrap());
        assert_eq!(file.load().unwrap().unwrap(), (Vec::new(), then), "a file that is written anew has heard nothing");
    }

    #[test]
    fn what_is_appended_while_a_file_is_written_anew_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.elements");
        let mut file = KeptFile::new(path.clone());
        file.replace([Ok(b"one".to_vec())]).unwrap();
        assert!(!file.has_grown());
        file.append(&vec![1; 2 * LEAST_GROWTH as usize]).unwrap();
        assert!(file.has_grown() && !file.is_due());
        let mut renewal = file.begin_renewal().unwrap();
        assert!(!file.has_grown(), "somebody writes it anew already");
        renewal.push(b"all").unwrap();
        file.append(b"meanwhile").unwrap();
        renewal.sync().unwrap();
        assert_eq!(frames(&mut KeptFile::new(path.clone())).len(), 3, "until it is whole, the present one counts");
        assert!(file.finish_renewal(renewal).unwrap());
        file.append(b"later").unwrap();
        let mut again = KeptFile::new(path.clone());
        assert_eq!(frames(&mut again), [&b"all"[..], b"meanwhile", b"later"]);
        assert_eq!((again.end, again.base), (file.end, file.base));
        assert!(!file.has_grown());
    }

    #[test]
    fn a_renewal_of_a_file_that_has_become_another_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.elements");
        let mut file = KeptFile::new(path.clone());
        file.replace([Ok(b"one".to_vec())]).unwrap();
        let mut renewal = file.begin_renewal().unwrap();
        renewal.push(b"old").unwrap();
        file.replace([Ok(b"two".to_vec())]).unwrap();
        // It goes on to write, into a file that has no name.
        renewal.push(&vec![0; 1 << 16]).unwrap();
        renewal.sync().unwrap();
        assert!(!file.finish_renewal(renewal).unwrap());
        let refused = [Ok(b"half".to_vec()), Err(io::Error::other("refused"))];
        assert!(file.replace(refused).is_err() && file.is_due());
        assert_eq!(frames(&mut KeptFile::new(path)), [b"two"], "what is not whole replaces nothing");
    }

    #[test]
    fn a_file_that_cannot_be_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.elements");
        fs::create_dir(&path).unwrap();
        assert!(matches!(KeptFile::new(path.clone()).load(), Err(KeptError::Read { .. })));
        assert!(path.exists());
    }
}
