//! A secondary that asks whom it is told to, and believes nothing: differences must lead from exactly what it has to
//! exactly what they say.
//!
//! Unlike BIND and Knot it names the whole SOA that it has (RFC 1995 section 3) and takes a removal of what is not
//! there, or an addition of what is, for the damage that it is.

use super::harness::{Client, Dname, Message, Query, Record, read_frame, rtype, write_frame};
use super::site::encode;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// Result of a visit to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It does not answer, or not with authority.
    Away,
    /// Nothing that is newer.
    Nothing,
    /// The whole zone.
    Whole,
    Differences,
    /// Differences that do not fit; the copy is thrown away.
    Corrupt(String),
}

/// Counts of transfers by result, over all visits.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub whole: usize,
    pub differences: usize,
    /// Transfers from another server than the one before, and those of them that were differences.
    pub switches: usize,
    pub switched_differences: usize,
    /// Versions that were compared with a full transfer of the same version.
    pub compared: usize,
    pub corrupt: Vec<String>,
}

/// The secondary of one zone.
pub struct Follower {
    zone: Dname,
    pub soa: Option<Record>,
    /// Without the SOA.
    pub records: BTreeSet<Record>,
    source: Option<SocketAddr>,
    pub tally: Tally,
}

impl Follower {
    pub fn new(zone: &Dname) -> Follower {
        Follower { zone: zone.clone(), soa: None, records: BTreeSet::new(), source: None, tally: Tally::default() }
    }

    /// The serial of the copy.
    pub fn serial(&self) -> Option<u32> {
        self.soa.as_ref().map(Record::serial)
    }

    /// Asks a server for its serial, then for what is newer.
    pub fn visit(&mut self, server: SocketAddr) -> Visit {
        let Some(theirs) = Client::new(server).with_deadline(PATIENCE).serial(&self.zone) else { return Visit::Away };
        if self.serial().is_some_and(|ours| !is_newer(theirs, ours)) {
            return Visit::Nothing;
        }
        let Ok(records) = self.request(server) else { return Visit::Away };
        let visit = self.apply(&records);
        match &visit {
            Visit::Whole => self.tally.whole += 1,
            Visit::Differences => self.tally.differences += 1,
            Visit::Corrupt(text) => {
                self.tally.corrupt.push(text.clone());
                (self.soa, self.records) = (None, BTreeSet::new());
            }
            Visit::Away | Visit::Nothing => return visit,
        }
        if self.source.replace(server).is_some_and(|before| before != server) {
            self.tally.switches += 1;
            self.tally.switched_differences += usize::from(visit == Visit::Differences);
        }
        visit
    }

    /// Compares the copy with what the server it came from transfers in full, if that is still the same version. Panics
    /// when they are not equal.
    pub fn compare(&mut self, server: SocketAddr) {
        let Ok(mut theirs) = Client::new(server).transfer(&self.zone) else { return };
        let soa = theirs.remove(0);
        if self.soa.as_ref() == Some(&soa) {
            let theirs: BTreeSet<Record> = theirs.into_iter().collect();
            assert!(theirs == self.records, "{soa}\n{}", difference(&self.records, &theirs));
            self.tally.compared += 1;
        }
    }

    /// Sends IXFR with the whole SOA, AXFR without a copy, and reads to the end of the answer.
    fn request(&self, server: SocketAddr) -> io::Result<Vec<Record>> {
        let kind = if self.soa.is_some() { rtype::IXFR } else { rtype::AXFR };
        let mut request = Query::new(&self.zone, kind).encode(77);
        if let Some(soa) = &self.soa {
            request[9] = 1;
            request.extend_from_slice(&encode(soa));
        }
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write_frame(&mut stream, &request)?;
        let mut records: Vec<Record> = Vec::new();
        loop {
            let message = Message::decode(&read_frame(&mut stream)?).map_err(io::Error::other)?;
            if message.id != 77 || message.rcode() != 0 || message.answer.is_empty() {
                return Err(io::Error::other(format!("{message:?}")));
            }
            records.extend(message.answer);
            if is_complete(&records) {
                return Ok(records);
            }
        }
    }

    /// Applies an answer.
    fn apply(&mut self, answer: &[Record]) -> Visit {
        let newest = answer[0].clone();
        if answer.len() == 1 {
            return Visit::Nothing;
        }
        if answer[1].rtype != rtype::SOA {
            (self.soa, self.records) = (Some(newest), answer[1..answer.len() - 1].iter().cloned().collect());
            return Visit::Whole;
        }
        let corrupt = |text: String| Visit::Corrupt(format!("{text}, on the way to {newest}"));
        let mut parts = answer[1..answer.len() - 1].chunk_by(|_, next| next.rtype != rtype::SOA);
        while let Some(removed) = parts.next() {
            if self.soa.as_ref() != Some(&removed[0]) {
                return corrupt(format!("differences from {} do not begin at {:?}", removed[0], self.soa));
            }
            let Some(added) = parts.next() else { return corrupt("half a difference".into()) };
            if let Some(record) = removed[1..].iter().find(|record| !self.records.remove(record)) {
                return corrupt(format!("removed although it is not there: {record}"));
            }
            if let Some(record) = added[1..].iter().find(|record| !self.records.insert(Record::clone(record))) {
                return corrupt(format!("added although it is there: {record}"));
            }
            self.soa = Some(added[0].clone());
        }
        if self.soa.as_ref() != Some(&newest) {
            return corrupt(format!("differences end at {:?}", self.soa));
        }
        Visit::Differences
    }
}

/// Returns true if an answer to AXFR or IXFR has all its records (RFC 1995 section 4, RFC 5936 section 2.2).
fn is_complete(records: &[Record]) -> bool {
    let (newest, last) = (&records[0], records.last().expect("records"));
    match records.get(1) {
        None => true,
        Some(second) if second.rtype != rtype::SOA => last == newest,
        // Differences name the newest SOA once more, as the end of the last one, before they end.
        Some(_) => records[1..].iter().filter(|record| *record == newest).count() == 2,
    }
}

/// RFC 1982 section 3.2.
pub fn is_newer(theirs: u32, ours: u32) -> bool {
    (1..1 << 31).contains(&theirs.wrapping_sub(ours))
}

/// Returns the records that only one of two sets has.
pub fn difference(left: &BTreeSet<Record>, right: &BTreeSet<Record>) -> String {
    let (left_only, right_only): (Vec<_>, Vec<_>) =
        (left.difference(right).collect(), right.difference(left).collect());
    format!("only left: {left_only:#?}\nonly right: {right_only:#?}")
}
