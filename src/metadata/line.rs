//! Connection to the host: a serial port or a Unix socket, read and written with a deadline.
//!
//! Invariants: nothing here waits beyond its deadline, or for the rest of a line that keeps coming, beyond its limit; a
//! line that the host sends is at most [`MAX_LINE_BYTES`] long in memory; a serial port is ours alone while it is open,
//! by the advisory lock that the platform's own tools take, too.
//!
//! Cost: a system call for each piece that arrives.

use super::MetadataError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest line: four MiB of value in base64, and a little for the rest of the frame.
const MAX_LINE_BYTES: usize = 6 << 20;
/// Silence after which a serial port holds no more octets of an earlier conversation.
const SILENCE: Duration = Duration::from_millis(100);
/// A line that has begun is given up when nothing more of it comes for this long.
const STALL: Duration = Duration::from_secs(2);
/// Pause before a lock is asked for again.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// An open line.
#[derive(Debug)]
pub struct Line {
    /// The socket or device.
    pub path: PathBuf,
    file: File,
    /// Read and not yet taken.
    input: Vec<u8>,
}

impl Line {
    /// Opens a socket or a serial port.
    pub fn open(path: &Path, deadline: Instant) -> Result<Line, MetadataError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => MetadataError::Denied(path.to_path_buf()),
            _ => MetadataError::Open { path: path.to_path_buf(), error },
        };
        let is_socket = std::fs::metadata(path).map_err(failed)?.file_type().is_socket();
        let file = if is_socket {
            let stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_nonblocking(true).map_err(failed)?;
            File::from(OwnedFd::from(stream))
        } else {
            let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(failed)?
        };
        let mut line = Line { path: path.to_path_buf(), file, input: Vec::new() };
        if !is_socket {
            line.lock(deadline)?;
            line.set_raw().map_err(failed)?;
            line.discard(deadline)?;
        }
        Ok(line)
    }

    /// Takes the lock of a serial port: answers to two programs would mix.
    fn lock(&self, deadline: Instant) -> Result<(), MetadataError> {
        loop {
            match fcntl_lock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN | Errno::ACCESS | Errno::INTR) => {}
                Err(error) => return Err(self.lost(error.into())),
            }
            if Instant::now() + LOCK_PAUSE >= deadline {
                return Err(MetadataError::Locked(self.path.clone()));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// Has the terminal driver leave octets as they are, in both directions.
    fn set_raw(&self) -> io::Result<()> {
        let mut terminal = tcgetattr(&self.file)?;
        terminal.make_raw();
        // The line stays up when we close it: another reader may follow at once.
        terminal.control_modes -= ControlModes::HUPCL;
        terminal.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
        Ok(tcsetattr(&self.file, OptionalActions::Flush, &terminal)?)
    }

    /// Throws away what arrives until nothing does.
    fn discard(&mut self, deadline: Instant) -> Result<(), MetadataError> {
        while self.fill(deadline.min(Instant::now() + SILENCE))? {
            self.input.clear();
            if Instant::now() >= deadline {
                return Err(self.silent());
            }
        }
        Ok(())
    }

    /// Sends a line.
    pub fn send(&mut self, text: &str, deadline: Instant) -> Result<(), MetadataError> {
        let bytes = format!("{text}\n").into_bytes();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::OUT, deadline)? {
                        return Err(self.silent());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
        Ok(())
    }

    /// The next line, without its end; none if it is not there in time.
    pub fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, MetadataError> {
        self.receive_long(deadline, deadline)
    }

    /// The next line, without its end; one that is on its way at the deadline may arrive until a limit.
    pub fn receive_long(&mut self, mut deadline: Instant, limit: Instant) -> Result<Option<Vec<u8>>, MetadataError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.input[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.input.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.input, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.input.len();
            if searched > MAX_LINE_BYTES {
                return Err(MetadataError::TooLong(self.path.clone()));
            }
            if !self.fill(deadline)? {
                return Ok(None);
            }
            deadline = deadline.max(limit.min(Instant::now() + STALL));
        }
    }

    /// Reads octets as they come, until the deadline. Returns true if there were any.
    fn fill(&mut self, deadline: Instant) -> Result<bool, MetadataError> {
        let mut buffer = [0; 16 << 10];
        loop {
            if !self.wait(PollFlags::IN, deadline)? {
                return Ok(false);
            }
            match self.file.read(&mut buffer) {
                Ok(0) => return Err(self.lost(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    return Ok(true);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Waits until the line can be read or written; false when the deadline came first.
    fn wait(&self, events: PollFlags, deadline: Instant) -> Result<bool, MetadataError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Longer than a timespec can say is for ever.
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.file, events)], left.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.lost(error.into())),
            }
        }
    }

    /// The error of a line that broke.
    fn lost(&self, error: io::Error) -> MetadataError {
        MetadataError::Lost { path: self.path.clone(), error }
    }

    /// Returns the error for a host that does not answer.
    pub fn silent(&self) -> MetadataError {
        MetadataError::Silent(self.path.clone())
    }
}
