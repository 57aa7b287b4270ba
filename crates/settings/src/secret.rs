//! Files that hold secrets: strangers can neither read nor change them, and nothing of their contents is told. What is
//! read is erased from memory once it is not needed.
//!
//! Cost: O(file), of which only a little is read.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Most octets of a secret file; more than any secret needs.
const MAX_SECRET_FILE_BYTES: u64 = 4096;

/// Others may neither read nor write, the group may not write.
const FORBIDDEN_MODE: u32 = 0o026;

/// Error: a file gives no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("cannot be read: {0}; write the path of a file that holds the secret")]
    Read(#[from] io::Error),
    #[error("is no plain file; write the path of a file that holds the secret")]
    NoFile,
    #[error("can be read or changed by strangers (mode {mode:03o}); run chmod {wanted:03o} {path}")]
    Open { mode: u32, wanted: u32, path: String },
    #[error("is longer than any secret; write the path of a file that holds the secret alone")]
    Long,
}

impl SecretError {
    /// Returns true if there is no such file here, or it may not be read.
    pub fn is_absence(&self) -> bool {
        matches!(self, SecretError::Read(_))
    }
}

/// Reads a secret, when nobody else can.
pub fn read_secret_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    read_private_file(path, MAX_SECRET_FILE_BYTES)
}

/// Reads a file of at most so many octets, when nobody else can.
pub fn read_private_file(path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    // A named pipe would wait for its other end.
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    // Asked of what is open, so that nobody can put another file in its place.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(SecretError::NoFile);
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & FORBIDDEN_MODE != 0 {
        let wanted = if mode & 0o040 == 0 { 0o600 } else { 0o640 };
        return Err(SecretError::Open { mode, wanted, path: path.display().to_string() });
    }
    // With room for all of it, because what a growing vector leaves behind is not erased.
    let room = metadata.len().min(most) as usize + 1;
    let mut text = Zeroizing::new(Vec::with_capacity(room));
    file.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most { Err(SecretError::Long) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the secret of a file with these contents and this mode.
    fn read(contents: &str, mode: u32) -> Result<Zeroizing<Vec<u8>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let home = folder.path().display().to_string();
        read_secret_file(&path).map_err(|error| error.to_string().replace(&home, ""))
    }

    #[test]
    fn strangers_may_neither_read_nor_write() {
        for (mode, wanted) in [(0o644, "640"), (0o604, "600"), (0o602, "600"), (0o620, "600"), (0o660, "640")] {
            let error = read("c2VjcmV0", mode).unwrap_err();
            let expected = format!("can be read or changed by strangers (mode {mode:03o}); run chmod {wanted} /k");
            assert_eq!(error, expected);
        }
        for mode in [0o600, 0o400, 0o640, 0o440, 0o700] {
            assert!(read("c2VjcmV0", mode).is_ok(), "{mode:o}");
        }
    }

    #[test]
    fn a_secret_is_short_and_in_a_plain_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read_secret_file(folder.path()), Err(SecretError::NoFile)));
        assert!(matches!(read_secret_file(&folder.path().join("none")), Err(SecretError::Read(_))));
        assert!(read(&"x".repeat(4097), 0o600).unwrap_err().starts_with("is longer"));
        assert!(read(&"x".repeat(4096), 0o600).is_ok());
    }
}
