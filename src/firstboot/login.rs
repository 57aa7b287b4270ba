//! Keys for logging in, which the host gives, in a file for the login server.
//!
//! Invariants: the file is replaced as a whole, belongs to root alone, and is gone when the host has no keys; a host
//! that could not be asked changes nothing.
//!
//! Cost: O(keys); nothing is written when they are the same.

use super::keep::remove;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The metadata key of the keys, a line each.
pub const KEY: &str = "root_authorized_keys";

/// Writes the keys into a file, or removes it where there are none; whether anything changed.
pub fn write_keys(path: &Path, keys: Option<&str>) -> io::Result<bool> {
    let keys = keys.unwrap_or_default().trim();
    if keys.is_empty() {
        return remove(path);
    }
    let text = format!("{keys}\n");
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        // The login server refuses keys that others could have written.
        DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    let fresh = path.with_extension("new");
    remove(&fresh)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?.write_all(text.as_bytes())?;
    fs::rename(fresh, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_what_the_host_says() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("login/keys");
        assert!(!write_keys(&path, None).unwrap());
        assert!(write_keys(&path, Some("ssh-ed25519 AAAA one\nssh-ed25519 AAAB two")).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "ssh-ed25519 AAAA one\nssh-ed25519 AAAB two\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!write_keys(&path, Some("ssh-ed25519 AAAA one\nssh-ed25519 AAAB two\n")).unwrap(), "the same");
        assert!(write_keys(&path, Some("ssh-ed25519 AAAB two\n")).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "ssh-ed25519 AAAB two\n");
        assert!(write_keys(&path, Some(" \n")).unwrap());
        assert!(!path.exists());
    }
}
