//! Lines for systemd's journal, which journald keeps: each has its priority in front (sd-daemon(3)), which the journal takes off again.
//!
//! Standard error is the journal's where it is the file that the environment names (`JOURNAL_STREAM`, systemd.exec(5)):
//! what a service starts with its errors elsewhere has the variable as well.
//!
//! Cost: one look at the start; one copy of a line.

use super::notice::ERROR;
use super::queue::Queue;
use std::io::{self, Write};
use std::sync::Arc;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Priority of a warning.
const WARNING: &str = "<4>";

/// Returns true if standard error goes to systemd's journal.
pub fn is_journald() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}

/// Returns true if standard error is a stream of journald's and no file that stands for it, so that journald runs here.
pub fn is_stream() -> bool {
    let file = rustix::fs::fstat(io::stderr());
    file.is_ok_and(|file| rustix::fs::FileType::from_raw_mode(file.st_mode) == rustix::fs::FileType::Socket)
}

/// Returns true if the environment wants lines in place of entries: systemd forwards these to a console as well.
pub fn wants_lines() -> bool {
    std::env::var("AGGREGATOR_JOURNAL").is_ok_and(|form| form == "lines")
}

/// Puts priorities in front of the lines of a text that is no event: errors, but for lines that say that they are warnings.
pub fn mark(text: &str) -> String {
    let priority = |line: &str| if line.starts_with("warning:") { WARNING } else { ERROR };
    text.lines().map(|line| format!("{}{line}\n", priority(line))).collect()
}

/// A queue whose lines have priorities.
pub struct ToJournald(pub Arc<Queue>);

impl<'w> MakeWriter<'w> for ToJournald {
    type Writer = Entry<'w>;

    fn make_writer(&'w self) -> Entry<'w> {
        Entry { queue: &self.0, priority: ERROR }
    }

    fn make_writer_for(&'w self, event: &Metadata<'_>) -> Entry<'w> {
        let priority = match *event.level() {
            Level::ERROR => ERROR,
            Level::WARN => WARNING,
            Level::INFO => "<6>",
            _ => "<7>",
        };
        Entry { queue: &self.0, priority }
    }
}

/// One line.
pub struct Entry<'w> {
    queue: &'w Queue,
    priority: &'static str,
}

impl Write for Entry<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(&[self.priority.as_bytes(), line].concat());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
