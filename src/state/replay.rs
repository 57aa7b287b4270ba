//! The last version of a zone, out of the bytes of its snapshot and its journal. No files here.
//!
//! Invariant: what comes out was once current, and is the last such version that was written whole. A journal that does
//! not belong to the snapshot, is cut, or does not fit gives less, never something else.
//!
//! Cost: O(bytes of the snapshot) + O(records at the names that the journal changes).

use super::frame::{Frame, Frames, HEADER_BYTES, Header, HeaderError, Kind};
use super::ledger::Ledger;
use super::snapshot::{self, SnapshotError};
use crate::zone::{Cause, Delta, DeltaError, HistoryStep, Zone};
use std::sync::Arc;
use std::time::SystemTime;
use wire::name::Name;
use wire::rr::RRset;

/// Fault of a journal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("there is no journal to the snapshot")]
    Missing,
    #[error("the journal cannot be read: {0}; it stays where it is until there is a newer version")]
    Unreadable(String),
    #[error("the journal cannot be used: {0}")]
    Header(#[from] HeaderError),
    #[error("the journal belongs to snapshot {0}, not to this one")]
    Generation(u64),
    #[error("the last {0} bytes of the journal were not written whole")]
    Torn(u64),
    #[error("the journal ends before what follows the snapshot")]
    Cut,
    #[error("the difference at octet {at} of the journal cannot be applied: {error}")]
    Delta { at: u64, error: DeltaError },
    #[error("octet {0} of the journal begins something that this program does not know")]
    Unknown(u64),
}

impl Fault {
    /// Returns true if a later start may read what this one cannot: the error has passed, or the newer program that
    /// wrote it is back.
    pub fn may_pass(&self) -> bool {
        matches!(self, Fault::Unreadable(_) | Fault::Header(HeaderError::Version(_)) | Fault::Unknown(_))
    }

    /// The value of the metric label `operation`.
    pub fn label(&self) -> &'static str {
        match self {
            Fault::Torn(_) | Fault::Cut => "torn",
            Fault::Delta { .. } | Fault::Unknown(_) => "apply",
            Fault::Missing | Fault::Unreadable(_) | Fault::Header(_) | Fault::Generation(_) => "load",
        }
    }
}

/// Contents of a zone's files.
#[derive(Debug)]
pub struct Replayed {
    pub zone: Zone,
    pub refreshed: SystemTime,
    /// The steps that led to the version, oldest first.
    pub history: Vec<HistoryStep>,
    pub ledger: Ledger,
    pub fault: Option<Fault>,
}

/// A frame that follows a snapshot.
struct JournalEntry {
    at: u64,
    kind: Kind,
    time: SystemTime,
    /// Difference; none where a primary has confirmed the version.
    delta: Option<Arc<Delta>>,
}

impl JournalEntry {
    /// Reads a frame.
    fn read(origin: &Name, frame: &Frame<'_>) -> Result<JournalEntry, Fault> {
        let (at, time) = (frame.start as u64, frame.time);
        let fault = |error| Fault::Delta { at, error };
        match frame.kind {
            Some(kind @ Kind::Delta) => {
                let delta = Delta::read(origin, frame.payload).map_err(fault)?;
                Ok(JournalEntry { at, kind, time, delta: Some(Arc::new(delta)) })
            }
            Some(kind @ Kind::Refreshed) => Ok(JournalEntry { at, kind, time, delta: None }),
            Some(Kind::Regions | Kind::Drains | Kind::Pins | Kind::Version | Kind::Trees | Kind::Shares) | None => {
                Err(Fault::Unknown(at))
            }
        }
    }
}

/// Reads a zone's files.
pub fn replay(origin: &Name, snapshot: &[u8], journal: Option<&[u8]>) -> Result<Replayed, SnapshotError> {
    let read = snapshot::read(origin, snapshot)?;
    let mut replayed = Replayed {
        zone: read.zone,
        refreshed: read.refreshed,
        history: Vec::new(),
        ledger: Ledger::of_snapshot(read.generation, snapshot.len() as u64),
        fault: None,
    };
    replayed.fault = match journal {
        Some(journal) => replayed.replay_journal(origin, journal).err(),
        None => Some(Fault::Missing),
    };
    // Only what can go on is gone on with: a torn tail is cut off, any other fault needs a new snapshot.
    if matches!(replayed.fault, None | Some(Fault::Torn(_))) {
        replayed.ledger.tip = Some(replayed.zone.soa_rrset().clone());
    }
    replayed.connect_history();
    Ok(replayed)
}

impl Replayed {
    /// Applies a journal.
    fn replay_journal(&mut self, origin: &Name, journal: &[u8]) -> Result<(), Fault> {
        let header = Header::read(journal)?;
        if header.generation != self.ledger.generation {
            return Err(Fault::Generation(header.generation));
        }
        let length = journal.len() as u64;
        let base = header.base.min(length) as usize;
        self.replay_past(origin, &journal[..base]);
        self.ledger.base = header.base;
        self.ledger.end = base as u64;
        if header.base > length {
            return Err(Fault::Cut);
        }
        let mut frames = Frames::new(journal, base);
        let (mut steps, mut fault) = (Vec::new(), None);
        for frame in frames.by_ref() {
            match JournalEntry::read(origin, &frame) {
                Ok(step) => steps.push(step),
                Err(unreadable) => {
                    fault = Some(unreadable);
                    break;
                }
            }
        }
        self.take(steps)?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        self.ledger.end = frames.end as u64;
        if frames.is_whole() { Ok(()) } else { Err(Fault::Torn(length - self.ledger.end)) }
    }

    /// Takes steps, all of them at once if they fit, else one by one up to the first that does not.
    fn take(&mut self, steps: Vec<JournalEntry>) -> Result<(), Fault> {
        let deltas: Vec<&Delta> = steps.iter().filter_map(|step| step.delta.as_deref()).collect();
        let last = Delta::apply_all(&deltas, &self.zone).ok();
        for step in steps {
            if let Some(delta) = step.delta {
                if last.is_none() {
                    let fault = |error| Fault::Delta { at: step.at, error };
                    self.zone = delta.apply(&self.zone).map_err(fault)?;
                }
                self.history.push(HistoryStep::new(delta, step.time, [Cause::Source]));
            }
            self.ledger.frames.push_back((step.at, step.kind));
            self.refreshed = step.time;
        }
        self.zone = last.unwrap_or_else(|| self.zone.clone());
        Ok(())
    }

    /// Reads the steps that led to the snapshot. One that cannot be read costs those before it and nothing else.
    fn replay_past(&mut self, origin: &Name, past: &[u8]) {
        let mut frames = Frames::new(past, HEADER_BYTES as usize);
        for frame in frames.by_ref() {
            let Some(kind) = frame.kind else { continue };
            self.ledger.frames.push_back((frame.start as u64, kind));
            if kind == Kind::Delta {
                let delta = Delta::read(origin, frame.payload).ok().map(Arc::new);
                self.history.extend(delta.map(|delta| HistoryStep::new(delta, frame.time, [Cause::Source])));
            }
        }
        if !frames.is_whole() {
            self.ledger.frames.clear();
            self.history.clear();
        }
    }

    /// Leaves the steps that lead to the version without a gap.
    fn connect_history(&mut self) {
        let connected = connected(&self.history, self.zone.soa_rrset());
        self.history.drain(..self.history.len() - connected);
    }
}

/// Number of the last steps that lead to the version with an SOA without a gap.
pub fn connected(steps: &[HistoryStep], soa: &RRset) -> usize {
    let last = steps.last().filter(|last| *last.delta.to == *soa);
    let steps = steps.windows(2).rev().take_while(|pair| pair[0].delta.to == pair[1].delta.from);
    last.map_or(0, |_| 1 + steps.count())
}
