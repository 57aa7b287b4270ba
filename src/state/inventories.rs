//! Files that keep inventories over a restart: frames that are appended, and written whole when they have grown.
//!
//! ```text
//! FOLDER/inventories/NAME.elements    the elements as they were read last
//! FOLDER/inventories/NAME.retained    what follows from their past: damping, owners of labels, reports
//! FOLDER/inventories/NAME.instance    the UUID by which a feeder is known to others
//! FOLDER/inventories/NAME.*.broken    what could not be read, kept for whoever wants to know why
//! ```
//!
//! The files of one inventory are independent: what befalls one leaves the others as they are. Their time of change is that
//! of the last good reading ([`KeptFile::touch`]).
//!
//! Invariants: a process that is killed at any moment leaves a file whose good beginning is read again, and what was
//! appended last may be missing; a file that cannot be read because the disk refuses it is not damaged, and stays as it
//! is.
//!
//! Cost: O(octets) of what is written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The beginning of every file, with the number of its format.
const MAGIC: &[u8; 8] = b"AGGINV\x00\x01";
/// Octets in front of each frame: length and checksum.
const FRAME_HEAD: usize = 8;
/// A file that has grown by less is not written whole.
const LEAST_GROWTH: u64 = 1 << 20;
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
}

/// The path of a file of an inventory.
pub fn path_of(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join("inventories").join(format!("{name}.{kind}"))
}

impl KeptFile {
    /// A file that nobody has touched yet.
    pub fn new(path: PathBuf) -> KeptFile {
        KeptFile { path, end: None, base: 0 }
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
        let mut frames = Vec::new();
        while let Some((frame, more)) = split_frame(rest) {
            frames.push(frame.to_vec());
            rest = more;
        }
        if !rest.is_empty() {
            let lost = rest.len();
            tracing::warn!(file = %self.path.display(), lost, "the end of a file is damaged; what stands before it is used");
        }
        let end = (bytes.len() - rest.len()) as u64;
        // The first frame is what was written whole; the others were appended.
        let base = MAGIC.len() + frames.first().map_or(0, |frame| FRAME_HEAD + frame.len());
        (self.end, self.base) = (Some(end), base as u64);
        Ok(Some((frames, time)))
    }

    /// Renames a file that is damaged.
    pub fn set_aside(&mut self) -> KeptError {
        let mut broken = self.path.clone().into_os_string();
        broken.push(".broken");
        self.end = None;
        match fs::rename(&self.path, broken) {
            Ok(()) => KeptError::Damaged { path: self.path.clone() },
            Err(error) => KeptError::Read { path: self.path.clone(), error },
        }
    }

    /// Returns true if the file is to be written whole: there is none, or it has grown much.
    pub fn is_due(&self) -> bool {
        self.end.is_none_or(|end| end > 2 * self.base + LEAST_GROWTH)
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

    /// Writes the file whole, beside the one that is there.
    pub fn replace<'f>(&mut self, frames: impl IntoIterator<Item = &'f [u8]>) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".tmp");
        let fresh = PathBuf::from(fresh);
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&fresh);
        let mut file = io::BufWriter::new(options?);
        file.write_all(MAGIC)?;
        let mut end = MAGIC.len() as u64;
        for frame in frames {
            let head = head_of(frame);
            file.write_all(&head)?;
            file.write_all(frame)?;
            end += (head.len() + frame.len()) as u64;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_data()?;
        fs::rename(&fresh, &self.path)?;
        (self.end, self.base) = (Some(end), end);
        Ok(())
    }

    /// Notes the time of a good reading that had nothing new.
    pub fn touch(&self, at: SystemTime) -> io::Result<()> {
        File::options().append(true).open(&self.path)?.set_modified(at)
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
        file.replace([&b"one"[..], b""]).unwrap();
        file.append(b"two").unwrap();
        assert!(!file.is_due());
        let mut again = KeptFile::new(path.clone());
        assert_eq!(frames(&mut again), [&b"one"[..], b"", b"two"]);
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
        file.replace([]).unwrap();
        let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        file.touch(then).unwrap();
        assert_eq!(file.load().unwrap().unwrap(), (Vec::new(), then));
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
