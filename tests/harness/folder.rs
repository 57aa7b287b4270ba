//! The temporary folder of one scenario.

use std::path::{Path, PathBuf};

/// A folder that removes itself, with everything that a scenario's servers write.
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Makes an empty folder. Its path is short, because Unix sockets allow about 100 octets.
    pub fn new() -> Folder {
        Folder { folder: tempfile::Builder::new().prefix("agg").tempdir().expect("temporary folder") }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a folder inside for one server.
    pub fn subfolder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).expect("folder of a server");
        path
    }
}

/// Replaces a file in one step, so that no server reads half of it.
pub fn write_file(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).expect("write file");
    std::fs::rename(&fresh, path).expect("rename file");
}
