//! Connection to the host: a serial port or a Unix socket, read and written with a deadline.
//!
//! Invariants: nothing here waits beyond its deadline, or for the rest of a line that keeps coming, beyond its limit; a
//! line that the host sends is at most [`MAX_LINE_BYTES`] long in memory; a serial port is ours alone while it is open,
//! by the advisory lock that the platform's own tools take, too.
//!
//! Cost: a system call for each piece that arrives.

use super::MetadataError;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
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
    path: PathBuf,
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
            // SAFETY: zeroes are valid for this plain structure, which then means the whole file.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            lock.l_type = libc::F_WRLCK as _;
            // SAFETY: the structure outlives the call.
            if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES | libc::EINTR)) {
                return Err(self.lost(error));
            }
            if Instant::now() + LOCK_PAUSE >= deadline {
                return Err(MetadataError::Locked(self.path.clone()));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// Has the terminal driver leave octets as they are, in both directions.
    fn set_raw(&self) -> io::Result<()> {
        // SAFETY: the structure is plain, and both calls only use it while they run.
        unsafe {
            let mut terminal: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(self.file.as_raw_fd(), &raw mut terminal) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::cfmakeraw(&raw mut terminal);
            // The line stays up when we close it: another reader may follow at once.
            terminal.c_cflag = terminal.c_cflag & !libc::HUPCL | libc::CLOCAL | libc::CREAD;
            if libc::tcsetattr(self.file.as_raw_fd(), libc::TCSAFLUSH, &raw const terminal) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Throws away what arrives until nothing does.
    fn discard(&mut self, deadline: Instant) -> Result<(), MetadataError> {
        while self.fill(deadline.min(Instant::now() + SILENCE))? {
            self.input.clear();
            if Instant::now() >= deadline {
                return Err(MetadataError::Silent(self.path.clone()));
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
                    if !self.wait(libc::POLLOUT, deadline)? {
                        return Err(MetadataError::Silent(self.path.clone()));
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
            if !self.wait(libc::POLLIN, deadline)? {
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
    fn wait(&self, events: libc::c_short, deadline: Instant) -> Result<bool, MetadataError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up: a wait of zero would spin.
            let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
            let mut entry = libc::pollfd { fd: self.file.as_raw_fd(), events, revents: 0 };
            // SAFETY: one entry, which outlives the call.
            match unsafe { libc::poll(&raw mut entry, 1, milliseconds) } {
                0 => return Ok(false),
                count if count > 0 => return Ok(true),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(self.lost(error));
                    }
                }
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

    /// The socket or device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
