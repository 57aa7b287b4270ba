//! Progress of a running transfer.
//!
//! Invariants: [`Tally`] is written by the transfer alone, once for each message, and read by anyone at any time; its
//! two numbers may be of different messages for a moment, and nothing is decided by them.
//!
//! Cost: O(1) for each message.

use indicatif::BinaryBytes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Records and octets that a transfer has received so far.
#[derive(Debug, Default)]
pub struct Tally {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    /// Takes down how much has come since the transfer began.
    pub fn note(&self, records: u64, bytes: u64) {
        self.records.store(records, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }

    /// Records and octets that have come.
    pub fn read(&self) -> (u64, u64) {
        (self.records.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Progress {
    /// Time since it began.
    pub milliseconds: u64,
    /// Records that have come.
    pub records: u64,
    /// Octets that have come.
    pub bytes: u64,
    /// Records of the version that is served now, when the whole zone was asked for: about so many will come.
    pub expected: Option<u64>,
}

impl Progress {
    /// In words.
    pub fn describe(&self) -> String {
        let Progress { milliseconds, records, bytes, expected } = *self;
        let of = expected.map_or(String::new(), |expected| format!(" of about {expected}"));
        format!("{records}{of} records, {} in {} s", BinaryBytes(bytes), milliseconds / 1000)
    }
}

/// A transfer that runs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "RunningTransfer")]
pub struct Running {
    pub primary: SocketAddr,
    /// `axfr` or `ixfr`, as it was asked for.
    #[schemars(extend("enum" = ["axfr", "ixfr"]))]
    pub kind: &'static str,
    /// Time of its beginning.
    pub since: i64,
    #[serde(flatten)]
    pub progress: Progress,
    #[serde(skip)]
    begun: Instant,
}

impl Running {
    /// One that has only just begun.
    pub fn new(primary: SocketAddr, kind: &'static str, since: i64, expected: Option<u64>) -> Running {
        let progress = Progress { expected, ..Progress::default() };
        Running { primary, kind, since, progress, begun: Instant::now() }
    }

    /// As it stands now.
    pub fn at(self, tally: &Tally) -> Running {
        let (records, bytes) = tally.read();
        let milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Running { progress: Progress { milliseconds, records, bytes, ..self.progress }, ..self }
    }

    /// In words.
    pub fn describe(&self) -> String {
        format!("transferring from {}: {}", self.primary, self.progress.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_where_the_last_message_left_it() {
        let tally = Tally::default();
        let running = Running::new("192.0.2.1:53".parse().unwrap(), "axfr", 7, Some(40));
        assert_eq!(running.progress.records, 0);
        tally.note(10, 500);
        tally.note(20, 3 << 19);
        let now = running.at(&tally);
        let progress = Progress { milliseconds: 2_900, ..now.progress };
        assert_eq!(progress.describe(), "20 of about 40 records, 1.50 MiB in 2 s");
        assert_eq!((now.since, now.kind), (7, "axfr"));
    }
}
