//! The meaning of the responses to a transfer query, as a pure machine: bytes in, verdict out.
//!
//! One machine reads both kinds, because a query for differences may be answered with the whole zone (RFC 1995
//! section 4), and because that is told apart by the second record only:
//!
//! ```text
//! SOA new                                  nothing newer than ours: stop at once
//! SOA new, records…, SOA new               the whole zone (RFC 5936 section 2.2)
//! SOA new, { SOA from, removed…, SOA to, added… }…, SOA new    differences, condensed or step by step
//! ```
//!
//! Invariants: nothing leaves the reader before the closing SOA, and after an error the reader says `closed` for ever.
//! Differences begin at our serial, each step where the one before has ended, each at a newer serial than it began, and
//! the last at the serial that was announced. CNS breaks all of these on occasion (`docs/cns.md` 2, 28 and 29):
//!
//! - it begins below a serial that it does not know; that is an error;
//! - it sends the whole zone when nothing is newer; so reading stops at the first SOA, or at the second record when it
//!   was asked on purpose for what else happened under our serial; and always at the first SOA when it was asked only
//!   to be asked;
//! - it has a step from a serial to the same one after two commits under one serial; that is taken, its removals in
//!   doubt;
//! - it goes one step beyond the SOA that frames the steps; that step is not published yet, and left out.
//!
//! Because of the last two, the SOA that may close differences does so only at the end of its message.
//!
//! Cost: O(bytes) in time; in memory the records of a whole zone, or the names that differ.

pub use crate::transfer::message::Progress;

use crate::transfer::error::TransferError;
use crate::transfer::message::{Query, Record};
use crate::zone::{Loader, Mixed, Patched, Patcher, Soa, Vetoes, Zone, ZoneError};
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::rr::{self, rtype};
use wire::serial::Serial;

/// What a complete transfer brought.
pub enum Received {
    /// The primary's SOA is not newer than ours, or no more was wanted; nothing behind it was read.
    NotNewer(Soa),
    /// The records of the whole zone.
    Full(Soa, Loader),
    /// Our version with all steps applied.
    Changed(Changed),
}

impl Received {
    /// The SOA that the primary sent first.
    pub fn soa(&self) -> Soa {
        match self {
            Received::NotNewer(soa) | Received::Full(soa, _) => *soa,
            Received::Changed(changed) => changed.soa,
        }
    }

    /// Octets in memory of what was brought.
    fn octets(&self) -> u64 {
        match self {
            Received::NotNewer(_) => 0,
            Received::Full(_, loader) => loader.octets(),
            Received::Changed(changed) => changed.patcher.octets(),
        }
    }
}

/// Differences that are complete.
pub struct Changed {
    pub soa: Soa,
    /// The mark of the version that they lead to.
    pub mixed: Mixed,
    /// The records that are removed and added, on the version that they begin with.
    pub patcher: Patcher,
    ttl: u32,
    rdata: Box<[u8]>,
}

impl Changed {
    /// Makes the new version, in which records that are vetoed stay. O(records at the names that changed)
    pub fn finish(&self, vetoes: &Vetoes) -> Result<Patched, ZoneError> {
        self.patcher.finish(self.ttl, &self.rdata, self.mixed, vetoes)
    }
}

/// The reader of one transfer's messages.
pub struct Reader {
    query: Query,
    versions: Versions,
    stage: Stage,
    first: bool,
    records: u64,
    scratch: Vec<u8>,
}

/// What a reader knows of the zone.
struct Versions {
    /// The version that differences begin with; none when the whole zone was asked for.
    base: Option<Arc<Zone>>,
    /// The version that a whole zone is compared with; none for a zone that is not there.
    present: Option<Arc<Zone>>,
    origin: Name,
    /// The base's mark.
    mixed: Mixed,
    extent: Extent,
}

/// What is read of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// What is newer than ours.
    Newer,
    /// What happened under our serial as well.
    SameSerial,
    /// The opening SOA alone.
    Opening,
}

/// What the reader waits for.
enum Stage {
    /// The opening SOA.
    Start,
    /// The record behind the opening SOA, which says what the answer is.
    Opened(Opening),
    /// Records of the whole zone, or the closing SOA.
    Full(Opening, Box<Loader>),
    /// Records that differ, or an SOA between them.
    Steps(Opening, Box<Steps>),
    /// Nothing: all is there.
    Complete(Box<Received>),
    /// Nothing: an error was reported.
    Failed,
}

/// The opening SOA, with which the answer must close.
struct Opening {
    soa: Soa,
    owner: NameBuf,
    ttl: u32,
    rdata: Box<[u8]>,
}

/// Differences that are being applied.
struct Steps {
    patcher: Patcher,
    /// The base's mark.
    mixed: Mixed,
    /// The serial of the SOA that came last.
    at: Serial,
    /// Whether the records that come now are new ones.
    adding: bool,
    /// Whether the SOA that came last closes the answer if its message ends there.
    closing: bool,
    /// Number of changes in front of the step.
    begun: u64,
    /// Number of changes in front of a step that leads beyond the announced serial.
    beyond: Option<u64>,
}

impl Steps {
    /// The first step begins at our serial.
    fn new(base: Arc<Zone>, mixed: Mixed) -> Steps {
        let at = base.soa.serial;
        let patcher = Patcher::new(base);
        let mut steps = Steps { patcher, mixed, at, adding: false, closing: false, begun: 0, beyond: None };
        steps.begin();
        steps
    }

    /// Begins a step where the one before has ended.
    fn begin(&mut self) {
        (self.adding, self.closing, self.begun) = (false, false, self.patcher.changes());
        self.patcher.set_in_doubt(self.mixed.doubts(self.at));
    }

    /// Whether nothing has come but the first SOA.
    fn is_empty(&self) -> bool {
        !self.adding && self.patcher.changes() == 0
    }

    /// Takes a record that differs.
    fn take(&mut self, record: &Record<'_>) -> Result<(), TransferError> {
        self.go_on()?;
        let Record { owner, rtype, ttl, rdata, .. } = record;
        if self.adding {
            self.patcher.add(owner, *rtype, *ttl, rdata);
        } else {
            self.patcher.remove(owner, *rtype, *ttl, rdata);
        }
        Ok(())
    }

    /// What might have been the end was none if more follows.
    fn go_on(&mut self) -> Result<(), TransferError> {
        if self.closing && self.beyond.is_some() {
            return Err(BEHIND_THE_END);
        }
        if self.closing {
            self.begin();
        }
        Ok(())
    }

    /// Takes an SOA: it ends the removals of a step or its additions.
    fn take_soa(&mut self, opening: &Opening, record: &Record<'_>, serial: Serial) -> Result<(), TransferError> {
        self.go_on()?;
        let end = opening.soa.serial;
        if !self.adding {
            if serial == self.at {
                self.patcher.put_in_doubt(self.begun);
            } else if !serial.newer_than(self.at) {
                return Err(TransferError::Step { from: self.at, to: serial });
            } else if self.at == end {
                self.beyond.get_or_insert(self.begun);
            }
            (self.at, self.adding) = (serial, true);
        } else if self.at == end || self.beyond.is_some() && serial == end {
            opening.check_end(record, serial)?;
            self.closing = true;
        } else if serial == self.at {
            self.begin();
        } else {
            return Err(TransferError::Gap { end: self.at, begin: serial });
        }
        Ok(())
    }
}

impl Reader {
    /// Asks for the whole zone.
    pub fn axfr(origin: Name, id: u16) -> Reader {
        Reader::new(Query { id, origin, rtype: rtype::AXFR }, None)
    }

    /// Asks for what has changed since `base`.
    pub fn ixfr(base: Arc<Zone>, id: u16) -> Reader {
        Reader::new(Query { id, origin: base.origin.clone(), rtype: rtype::IXFR }, Some(base))
    }

    /// Compares a whole zone on the way with the version that will be given for comparison when it is there.
    pub fn beside(mut self, present: Option<Arc<Zone>>) -> Reader {
        self.versions.present = present;
        self
    }

    /// Removals are in doubt by this mark of the base's.
    pub fn doubting(mut self, mixed: Mixed) -> Reader {
        self.versions.mixed = mixed;
        self
    }

    /// Asks for what happened under our serial as well.
    pub fn with_same_serial(mut self) -> Reader {
        self.versions.extent = Extent::SameSerial;
        self
    }

    /// Reads the opening SOA alone, whatever follows.
    pub fn with_opening_alone(mut self) -> Reader {
        self.versions.extent = Extent::Opening;
        self
    }

    /// Waits for the answer to a query.
    fn new(query: Query, base: Option<Arc<Zone>>) -> Reader {
        let (origin, mixed) = (query.origin.clone(), base.as_ref().map_or(Mixed::No, |base| base.mixed));
        let versions = Versions { present: base.clone(), base, origin, mixed, extent: Extent::Newer };
        Reader { query, versions, stage: Stage::Start, first: true, records: 0, scratch: Vec::new() }
    }

    /// The query to send.
    pub fn write_query(&self) -> Vec<u8> {
        self.query.write(self.versions.base.as_deref().map(|zone| &**zone.soa_rrset()))
    }

    /// Number of records taken so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Octets in memory of what has come, once: of the whole zone, or of what differs.
    pub fn octets(&self) -> u64 {
        match &self.stage {
            Stage::Full(_, loader) => loader.octets(),
            Stage::Steps(_, steps) => steps.patcher.octets(),
            Stage::Complete(received) => received.octets(),
            Stage::Start | Stage::Opened(_) | Stage::Failed => 0,
        }
    }

    /// Whether the whole zone comes, or has come.
    pub fn is_whole(&self) -> bool {
        match &self.stage {
            Stage::Full(..) => true,
            Stage::Complete(received) => matches!(**received, Received::Full(..)),
            _ => false,
        }
    }

    /// Whether all that has come to a question for differences is a newer SOA. More may follow in another message, or
    /// nothing: over UDP that would be the answer "too long, ask over TCP" (RFC 1995 section 2).
    pub fn has_lone_soa(&self) -> bool {
        self.versions.base.is_some() && matches!(self.stage, Stage::Opened(_))
    }

    /// Takes the next message.
    pub fn feed(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        let progress = self.read_message(message);
        if progress.is_err() {
            self.stage = Stage::Failed;
        }
        progress
    }

    /// Gives out what a complete transfer brought.
    pub fn finish(self) -> Result<Received, TransferError> {
        match self.stage {
            Stage::Complete(received) => Ok(*received),
            _ => Err(TransferError::Closed),
        }
    }

    /// Checks one message and takes its records.
    fn read_message(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        if matches!(self.stage, Stage::Failed | Stage::Complete(_)) {
            return Err(TransferError::Closed);
        }
        self.query.read(message, self.first, &mut self.scratch, |record| {
            self.records += 1;
            self.stage.take(record, &self.versions)
        })?;
        self.first = false;
        self.stage = std::mem::replace(&mut self.stage, Stage::Failed).end_message(&self.versions);
        Ok(if matches!(self.stage, Stage::Complete(_)) { Progress::Done } else { Progress::More })
    }
}

impl Stage {
    /// All is there that is wanted behind an SOA.
    fn not_newer(soa: Soa) -> Stage {
        Stage::Complete(Box::new(Received::NotNewer(soa)))
    }

    /// Takes one record, and goes on to the stage that it leads to.
    fn take(&mut self, record: Record<'_>, versions: &Versions) -> Result<Progress, TransferError> {
        if record.is_zone_soa {
            let soa = Soa::from_rdata(record.rdata).ok_or(TransferError::Malformed("the SOA is too short"))?;
            *self = std::mem::replace(self, Stage::Failed).take_soa(&record, soa, versions)?;
            let stop = matches!(self, Stage::Complete(received) if matches!(**received, Received::NotNewer(_)));
            return Ok(if stop { Progress::Done } else { Progress::More });
        }
        if let Stage::Opened(opening) = self
            && versions.is_ours(opening.soa.serial)
        {
            // The whole zone follows, which is here.
            *self = Stage::not_newer(opening.soa);
            return Ok(Progress::Done);
        }
        match self {
            Stage::Full(_, loader) => loader.push(record.owner, record.rtype, record.ttl, record.rdata),
            Stage::Steps(_, steps) => steps.take(&record)?,
            Stage::Opened(_) => {
                if let Stage::Opened(opening) = std::mem::replace(self, Stage::Failed) {
                    let mut loader = opening.load(versions);
                    loader.push(record.owner, record.rtype, record.ttl, record.rdata);
                    *self = Stage::Full(opening, Box::new(loader));
                }
            }
            Stage::Start => return Err(TransferError::Malformed("the first record is not the zone's SOA")),
            Stage::Complete(_) | Stage::Failed => return Err(BEHIND_THE_END),
        }
        Ok(Progress::More)
    }

    /// Looks at what a message ends with. An answer to the question for what happened under our serial that has no more
    /// than an SOA says that nothing did.
    fn end_message(self, versions: &Versions) -> Stage {
        match self {
            Stage::Opened(opening) if versions.is_ours(opening.soa.serial) => Stage::not_newer(opening.soa),
            Stage::Steps(opening, steps) if versions.is_ours(opening.soa.serial) && steps.is_empty() => {
                Stage::not_newer(opening.soa)
            }
            Stage::Steps(opening, steps) if steps.closing => {
                let (Opening { soa, ttl, rdata, .. }, Steps { mut patcher, mixed, beyond, .. }) = (opening, *steps);
                if let Some(changes) = beyond {
                    patcher.truncate(changes);
                }
                let mixed = mixed.at(soa.serial);
                Stage::Complete(Box::new(Received::Changed(Changed { soa, mixed, patcher, ttl, rdata })))
            }
            other => other,
        }
    }

    /// Takes the zone's SOA: it opens the answer, divides it, or closes it.
    fn take_soa(self, record: &Record<'_>, soa: Soa, versions: &Versions) -> Result<Stage, TransferError> {
        let base = versions.base.as_ref();
        match self {
            Stage::Start => {
                // At the undefined distance neither is newer (RFC 1982 section 3.2); then the whole zone may follow.
                let not_newer = |ours: Serial| !soa.serial.newer_than(ours) && !soa.serial.undefined_against(ours);
                let is_enough = base.is_some_and(|base| not_newer(base.soa.serial)) && !versions.is_ours(soa.serial);
                if is_enough || versions.extent == Extent::Opening {
                    return Ok(Stage::not_newer(soa));
                }
                let (owner, ttl, rdata) = (*record.owner, record.ttl, record.rdata.into());
                Ok(Stage::Opened(Opening { soa, owner, ttl, rdata }))
            }
            Stage::Opened(opening) => match base {
                // A step leads on from an older serial, so the opening SOA once more is the end of an empty zone.
                Some(base) if soa.serial != opening.soa.serial || versions.is_ours(soa.serial) => {
                    let (ours, theirs) = (base.soa.serial, soa.serial);
                    if ours != theirs {
                        return Err(TransferError::OtherBase { ours, theirs });
                    }
                    Ok(Stage::Steps(opening, Box::new(Steps::new(base.clone(), versions.mixed))))
                }
                _ => {
                    let loader = opening.load(versions);
                    opening.close(record, soa, loader)
                }
            },
            Stage::Full(opening, loader) => opening.close(record, soa, *loader),
            Stage::Steps(opening, mut steps) => {
                steps.take_soa(&opening, record, soa.serial)?;
                Ok(Stage::Steps(opening, steps))
            }
            Stage::Complete(_) | Stage::Failed => Err(BEHIND_THE_END),
        }
    }
}

impl Versions {
    /// Whether what happened under a serial is asked for, although it is ours.
    fn is_ours(&self, serial: Serial) -> bool {
        self.extent == Extent::SameSerial && self.base.as_ref().is_some_and(|base| base.soa.serial == serial)
    }
}

/// What records behind the closing SOA are.
const BEHIND_THE_END: TransferError = TransferError::Malformed("records behind the closing SOA");

impl Opening {
    /// Begins the whole zone.
    fn load(&self, versions: &Versions) -> Loader {
        let new = || Loader::new(versions.origin.clone());
        let mut loader = versions.present.clone().map_or_else(new, Loader::against);
        loader.push(&self.owner, rtype::SOA, self.ttl, &self.rdata);
        loader
    }

    /// Ends the whole zone with its closing SOA.
    fn close(self, record: &Record<'_>, soa: Soa, loader: Loader) -> Result<Stage, TransferError> {
        self.check_end(record, soa.serial)?;
        Ok(Stage::Complete(Box::new(Received::Full(self.soa, loader))))
    }

    /// Checks the SOA at the end.
    fn check_end(&self, record: &Record<'_>, serial: Serial) -> Result<(), TransferError> {
        // RFC 5936 section 2.2: both ends carry the same SOA, else the zone changed on the way.
        if rr::compare(rtype::SOA, &self.rdata, record.rdata).is_ne() {
            return Err(TransferError::ClosingSoa { first: self.soa.serial, last: serial });
        }
        Ok(())
    }
}

#[cfg(test)]
pub mod tests;
