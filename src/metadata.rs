//! Instance metadata of Triton: what the host knows about this instance, and what its owner wants it to know.
//!
//! Guests of KVM and bhyve ask over their second serial port, zones over a socket that only root can open. [`find`]
//! says which there is, [`Client::connect`] agrees with the host on version 2 of the protocol, [`Client::get`] asks for
//! a key.
//!
//! Invariants: nothing waits beyond the deadline that the caller gives, whatever the host does or omits, unless it is
//! in the middle of a long answer then, which gets up to a minute more; frames that are damaged or meant for others are
//! skipped; a serial port is opened only on machines that are guests of Triton, or on request. Nothing is ever written
//! into the metadata.
//!
//! Cost: a request and its answer at a time; O(value). A serial port moves about 40 KiB a second in an emulator.

pub mod frame;
mod line;

use frame::Code;
use line::Line;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sockets of zones, below the root folder: those of Linux images first, then those of native ones.
const SOCKETS: [&str; 3] =
    ["native/.zonecontrol/metadata.sock", ".zonecontrol/metadata.sock", "var/run/smartdc/metadata.sock"];
/// The second serial port of a Linux guest.
const SERIAL_PORT: &str = "dev/ttyS1";
/// File with the product name that the guest's firmware gives its machine.
const PRODUCT: &str = "sys/class/dmi/id/product_name";
/// The beginning of that name on Triton.
const TRITON_PRODUCT: &str = "SmartDC";

/// Longest wait for the host to show that it listens.
const GREETING: Duration = Duration::from_secs(2);
/// Pause before the host is asked again to show that it listens.
const GREETING_PAUSE: Duration = Duration::from_millis(250);
/// Longest wait for an agreement on the protocol version.
const AGREEMENT: Duration = Duration::from_secs(6);
/// Longest wait for an answer before the question is sent again: a host drops a damaged one without a word.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest time after the deadline in which an answer that keeps coming may be completed: a MiB of value takes half of
/// it by a serial port.
const LONGEST: Duration = Duration::from_secs(60);
/// Pause before another attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Error: the host could not be asked, or did not give a value.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("{} cannot be opened: {error}", path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("{} cannot be opened: permission denied; only root may ask for metadata", .0.display())]
    Denied(PathBuf),
    #[error("{} is in use by another program, for too long", .0.display())]
    Locked(PathBuf),
    #[error("the host does not answer at {}", .0.display())]
    Silent(PathBuf),
    #[error("the connection to the host at {} broke: {error}", path.display())]
    Lost { path: PathBuf, error: io::Error },
    #[error("the host at {} knows only version 1 of the metadata protocol; version 2 is needed", .0.display())]
    OldHost(PathBuf),
    #[error("the host at {} sends more than 4 MiB for one key", .0.display())]
    TooLong(PathBuf),
    #[error("the host does not give {key:?}: {reason}")]
    Refused { key: String, reason: String },
    #[error("{0:?} is not text in UTF-8")]
    NotText(String),
}

impl MetadataError {
    /// Returns true if trying again at once cannot help.
    fn is_final(&self) -> bool {
        matches!(self, MetadataError::Denied(_) | MetadataError::OldHost(_) | MetadataError::TooLong(_))
    }
}

/// Returns the socket or serial port for metadata; none if this machine is no instance of Triton. `root` is the root
/// folder.
pub fn find(root: &Path) -> Option<PathBuf> {
    let is_socket = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let socket = SOCKETS.iter().map(|path| root.join(path)).find(is_socket);
    let serial_port = || {
        let product = std::fs::read_to_string(root.join(PRODUCT)).unwrap_or_default();
        let port = root.join(SERIAL_PORT);
        // Elsewhere the second serial port belongs to whatever is plugged into it.
        (product.starts_with(TRITON_PRODUCT) && port.exists()).then_some(port)
    };
    socket.or_else(serial_port)
}

/// A conversation with the host.
#[derive(Debug)]
pub struct Client {
    line: Line,
    /// The id of the last request.
    id: u32,
}

impl Client {
    /// Opens a socket or serial port and agrees on version 2; tries again until the deadline.
    pub fn connect(path: &Path, deadline: Instant) -> Result<Client, MetadataError> {
        loop {
            match Client::try_connect(path, deadline) {
                Err(error) if !error.is_final() && Instant::now() + PAUSE < deadline => std::thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    /// One attempt to connect.
    fn try_connect(path: &Path, deadline: Instant) -> Result<Client, MetadataError> {
        let mut line = Line::open(path, deadline)?;
        // The complaint about an empty line is the greeting. What firmware or another program has left half-sent makes
        // it a line that is not empty, which gets another answer or none: then it is the next one that is.
        let patience = deadline.min(Instant::now() + GREETING);
        loop {
            line.send("", deadline)?;
            match line.receive(patience.min(Instant::now() + GREETING_PAUSE))? {
                Some(text) if is_line(&text, "invalid command") => break,
                _ if Instant::now() >= patience => return Err(line.silent()),
                _ => {}
            }
        }
        line.send("NEGOTIATE V2", deadline)?;
        let patience = deadline.min(Instant::now() + AGREEMENT);
        loop {
            match line.receive(patience)? {
                Some(text) if is_line(&text, "V2_OK") => break,
                // A second complaint is about what we have sent to clear the line.
                Some(text) if is_line(&text, "FAILURE") => return Err(MetadataError::OldHost(line.path.clone())),
                Some(_) => {}
                None => return Err(line.silent()),
            }
        }
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let id = clock.subsec_nanos() ^ std::process::id().rotate_left(16);
        Ok(Client { line, id })
    }

    /// The value of a key; none if the host does not have it.
    pub fn get(&mut self, key: &str, deadline: Instant) -> Result<Option<String>, MetadataError> {
        let limit = deadline + LONGEST;
        loop {
            self.id = self.id.wrapping_add(0x9e37_79b9);
            let Some(request) = frame::encode(self.id, "GET", key) else { continue };
            self.line.send(&request, deadline)?;
            let patience = deadline.min(Instant::now() + ANSWER);
            while let Some(line) = self.line.receive_long(patience, limit)? {
                let Some(reply) = frame::decode(&line).filter(|reply| reply.id == self.id) else { continue };
                return match reply.code {
                    Code::Success => {
                        String::from_utf8(reply.payload).map(Some).map_err(|_| MetadataError::NotText(key.into()))
                    }
                    Code::NotFound => Ok(None),
                    Code::Failure => {
                        let reason = String::from_utf8_lossy(&reply.payload);
                        let reason = if reason.is_empty() { "it gives no reason".into() } else { reason };
                        Err(MetadataError::Refused { key: key.into(), reason: reason.into_owned() })
                    }
                };
            }
            if Instant::now() >= deadline {
                return Err(self.line.silent());
            }
        }
    }
}

/// Returns true if a line consists of this text, apart from white space around it.
fn is_line(line: &[u8], text: &str) -> bool {
    line.trim_ascii() == text.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_of_triton_are_asked() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(find(root.path()), None);
        write("dev/ttyS1", "");
        assert_eq!(find(root.path()), None, "the serial port of any machine");
        write("sys/class/dmi/id/product_name", "Standard PC (i440FX + PIIX, 1996)\n");
        assert_eq!(find(root.path()), None);
        write("sys/class/dmi/id/product_name", "SmartDC HVM\n");
        assert_eq!(find(root.path()), Some(root.path().join("dev/ttyS1")));
        write(".zonecontrol/metadata.sock", "no socket");
        assert_eq!(find(root.path()), Some(root.path().join("dev/ttyS1")));
        let socket = root.path().join("native/.zonecontrol/metadata.sock");
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(find(root.path()), Some(socket));
    }
}
