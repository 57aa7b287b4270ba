//! Folders of the server that belong to root and must belong to the user that it becomes.
//!
//! Who hands files over as root, in a folder that another user can write, must not be led elsewhere: so every step is
//! relative to a folder that is open, no symbolic link is followed, and a file with a second name is left alone, since
//! that name may stand in any folder. Only what belongs to root changes its owner, and only in folders that are the server's: those
//! made here, empty ones, and those that hold what the caller knows as its own.
//!
//! Cost: O(files) at a start as root.

use super::account::Account;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, fchown, fstat, open, openat, statat};
use std::ffi::{CStr, OsStr};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Folders of folders that are gone into; the state folder has two.
const MOST_DEPTH: usize = 8;

/// Makes a folder if there is none, and hands it over with what is in it and `is_own` by its name in the folder. A folder
/// that holds nothing of that, but something else, is not the server's and stays as it is.
pub fn hand_over(folder: &Path, mode: u32, account: &Account, is_own: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    let is_new = !folder.exists();
    if is_new {
        if let Some(above) = folder.parent() {
            fs::create_dir_all(above)?;
        }
        DirBuilder::new().mode(mode).create(folder)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The path is the operator's, links included.
    let open = open(folder, flags, Mode::empty())?;
    let names = list(&open)?;
    let own: Vec<_> = names.iter().filter(|name| is_own(OsStr::from_bytes(name.to_bytes()))).collect();
    if !is_new && own.is_empty() && !names.is_empty() {
        return Ok(());
    }
    for name in own {
        hand_over_entry(&open, name, account, MOST_DEPTH)?;
    }
    give(&open, account)
}

/// Hands over a file or folder of an open folder.
fn hand_over_entry(folder: &OwnedFd, name: &CStr, account: &Account, depth: usize) -> io::Result<()> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if depth > 0 => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = openat(folder, name, flags, Mode::empty())?;
            for name in list(&inner)? {
                hand_over_entry(&inner, &name, account, depth - 1)?;
            }
            give(&inner, account)
        }
        FileType::RegularFile if stat.st_uid == 0 => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            give(&openat(folder, name, flags, Mode::empty())?, account)
        }
        _ => Ok(()),
    }
}

/// Gives what is open to the user, if it belongs to root and is a folder, or a file without a second name.
fn give(open: impl AsFd, account: &Account) -> io::Result<()> {
    let stat = fstat(&open)?;
    let is_sole = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => stat.st_nlink == 1,
        _ => false,
    };
    if stat.st_uid != 0 || !is_sole {
        return Ok(());
    }
    Ok(fchown(open, Some(Uid::from_raw(account.user)), Some(Gid::from_raw(account.group)))?)
}

/// The names in an open folder.
fn list(folder: &OwnedFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
