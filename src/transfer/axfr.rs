//! The meaning of the messages of a full zone transfer (RFC 5936), as a pure machine: bytes in, verdict out.
//!
//! Invariants: nothing leaves the reader before the closing SOA, and after an error the reader says `closed` for
//! ever. What counts as wrong ends the transfer: a message that is not ours, a record outside the zone or of another
//! class, data behind the end. What CNS does without harm is let pass: AA clear, no question behind the first
//! message, OPT in any message, equal records, compressed names in any RDATA.
//!
//! Cost: O(bytes) in time; the records in memory, uncompressed.

use crate::name::{self, Name, NameBuf};
use crate::rr::{self, CLASS_IN, rtype};
use crate::transfer::error::TransferError;
use crate::zone::{Loader, Soa};

/// Bytes of a message header (RFC 1035 section 4.1.1).
const HEADER_BYTES: usize = 12;
/// Bytes of a record between owner and RDATA: type, class, TTL, length.
const FIXED_BYTES: usize = 10;

/// Whether more messages must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// What the reader waits for.
enum Stage {
    /// The first message.
    Start,
    /// Records, or the closing SOA, which must equal this RDATA.
    Records(Box<[u8]>, Soa),
    /// Nothing: the closing SOA was there.
    Complete(Soa),
    /// Nothing: an error was reported.
    Failed,
}

/// The reader of one transfer's messages.
pub struct AxfrReader {
    id: u16,
    stage: Stage,
    loader: Loader,
    scratch: Vec<u8>,
}

/// Reads big-endian numbers of a message in which they are known to be.
fn number16(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// The query that asks for the zone, without the length in front.
///
/// RD is clear, and there is neither EDNS nor TSIG: CNS answers both, but needs neither.
pub fn write_query(origin: &Name, id: u16) -> Vec<u8> {
    let mut query = Vec::with_capacity(HEADER_BYTES + origin.as_wire().len() + 4);
    query.extend_from_slice(&id.to_be_bytes());
    query.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend_from_slice(origin.as_wire());
    query.extend_from_slice(&rtype::AXFR.to_be_bytes());
    query.extend_from_slice(&CLASS_IN.to_be_bytes());
    query
}

impl AxfrReader {
    /// Waits for the answer to [`write_query`].
    pub fn new(origin: Name, id: u16) -> AxfrReader {
        AxfrReader { id, stage: Stage::Start, loader: Loader::new(origin), scratch: Vec::new() }
    }

    /// Number of records taken so far.
    pub fn records(&self) -> u64 {
        self.loader.records()
    }

    /// Takes the next message.
    pub fn feed(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        let progress = self.read_message(message);
        if progress.is_err() {
            self.stage = Stage::Failed;
        }
        progress
    }

    /// Gives out the records of a complete transfer.
    pub fn finish(self) -> Result<(Soa, Loader), TransferError> {
        match self.stage {
            Stage::Complete(soa) => Ok((soa, self.loader)),
            _ => Err(TransferError::Closed),
        }
    }

    /// Checks one message and takes its records.
    fn read_message(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        if matches!(self.stage, Stage::Failed | Stage::Complete(_)) {
            return Err(TransferError::Closed);
        }
        if message.len() < HEADER_BYTES {
            return Err(TransferError::Malformed("shorter than a header"));
        }
        self.check_header(message)?;
        let first = matches!(self.stage, Stage::Start);
        let mut position = self.read_question(message, first)?;
        let answers = number16(message, 6);
        if first && answers == 0 {
            return Err(TransferError::Malformed("the first message has no records"));
        }
        for _ in 0..answers {
            position = self.read_record(message, position)?;
        }
        // RFC 5936 sections 2.2.4 and 2.2.5: what stands in the other sections is no zone data.
        for _ in 0..u32::from(number16(message, 8)) + u32::from(number16(message, 10)) {
            position = skip_record(message, position)?;
        }
        if position != message.len() {
            return Err(TransferError::Malformed("bytes behind the last record"));
        }
        Ok(if matches!(self.stage, Stage::Complete(_)) { Progress::Done } else { Progress::More })
    }

    /// RFC 5936 section 2.2.1; AA is not looked at, CNS leaves it clear.
    fn check_header(&self, message: &[u8]) -> Result<(), TransferError> {
        let flags = number16(message, 2);
        if number16(message, 0) != self.id {
            return Err(TransferError::Id);
        }
        if flags & 0x8000 == 0 {
            return Err(TransferError::Malformed("a query instead of a response"));
        }
        if flags & 0x7800 != 0 {
            return Err(TransferError::Malformed("the opcode is not QUERY"));
        }
        match flags & 0x000f {
            0 if flags & 0x0200 != 0 => Err(TransferError::Malformed("truncated over TCP")),
            0 => Ok(()),
            rcode => Err(TransferError::Rcode(rcode)),
        }
    }

    /// RFC 5936 section 2.2.2: the question comes back in the first message and may come back in others.
    fn read_question(&self, message: &[u8], first: bool) -> Result<usize, TransferError> {
        match number16(message, 4) {
            0 if !first => Ok(HEADER_BYTES),
            1 => {
                let (name, end) = NameBuf::read(message, HEADER_BYTES)?;
                let rest = message.get(end..end + 4).ok_or(TransferError::Malformed("the question is cut off"))?;
                let same = name.to_lowercase().as_wire() == self.loader.origin().as_wire();
                if same && number16(rest, 0) == rtype::AXFR && number16(rest, 2) == CLASS_IN {
                    Ok(end + 4)
                } else {
                    Err(TransferError::Question)
                }
            }
            _ => Err(TransferError::Question),
        }
    }

    /// Takes one record of the answer section and returns the position behind it.
    fn read_record(&mut self, message: &[u8], start: usize) -> Result<usize, TransferError> {
        if matches!(self.stage, Stage::Complete(_)) {
            return Err(TransferError::Malformed("records behind the closing SOA"));
        }
        let (owner, after) = NameBuf::read(message, start)?;
        let fixed = message.get(after..after + FIXED_BYTES).ok_or(TransferError::Malformed("a record is cut off"))?;
        let (rtype, class, length) = (number16(fixed, 0), number16(fixed, 2), usize::from(number16(fixed, 8)));
        let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let start = after + FIXED_BYTES;
        let end = start + length;
        if class != CLASS_IN {
            return Err(TransferError::Class(class));
        }
        let lower = owner.to_lowercase();
        let origin = self.loader.origin().as_wire();
        if name::suffix_offset(lower.as_wire(), origin).is_none() {
            return Err(TransferError::OutOfZone(owner.to_string().into()));
        }
        if !rr::is_data_type(rtype) {
            return Err(TransferError::Type(rtype));
        }
        self.scratch.clear();
        rr::decompress(rtype, message, start, length, &mut self.scratch)?;
        // An SOA below the apex is a stray record, not the end (the loader counts it).
        if rtype == rtype::SOA && lower.as_wire() == origin {
            self.read_soa(&owner, ttl)?;
        } else if matches!(self.stage, Stage::Start) {
            return Err(TransferError::Malformed("the first record is not the zone's SOA"));
        } else {
            self.loader.push(&owner, rtype, ttl, &self.scratch);
        }
        Ok(end)
    }

    /// Takes the zone's SOA, whose RDATA is in `scratch`: it opens the zone, or closes it.
    fn read_soa(&mut self, owner: &NameBuf, ttl: u32) -> Result<(), TransferError> {
        let rdata = &self.scratch;
        let soa = Soa::from_rdata(rdata).ok_or(TransferError::Malformed("the SOA is too short"))?;
        if let Stage::Records(opening, first) = &self.stage {
            // RFC 5936 section 2.2: both ends carry the same SOA, else the zone changed on the way.
            if rr::compare(rtype::SOA, opening, rdata).is_ne() {
                return Err(TransferError::ClosingSoa { first: first.serial, last: soa.serial });
            }
            self.stage = Stage::Complete(soa);
        } else {
            self.loader.push(owner, rtype::SOA, ttl, rdata);
            self.stage = Stage::Records(rdata.as_slice().into(), soa);
        }
        Ok(())
    }
}

/// The position behind a record that is not looked at.
fn skip_record(message: &[u8], start: usize) -> Result<usize, TransferError> {
    let cut = TransferError::Malformed("a record is cut off");
    let Some(after) = name::skip(message, start) else { return Err(cut) };
    let Some(fixed) = message.get(after..after + FIXED_BYTES) else { return Err(cut) };
    let end = after + FIXED_BYTES + usize::from(number16(fixed, 8));
    if end > message.len() { Err(cut) } else { Ok(end) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::serial::Serial;
    use crate::zone::Zone;
    use hickory_proto::rr::RecordType;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const CAPTURES: [&str; 2] = [
        include_str!("../../tests/data/captures/cns-axfr-messages.json"),
        include_str!("../../tests/data/captures/cns-axfr-messages-dc2.json"),
    ];

    /// A transfer message for the zone z.example in the making; owners are given without the zone.
    #[derive(Clone)]
    pub struct Message {
        pub bytes: Vec<u8>,
    }

    impl Message {
        pub fn new(id: u16, question: bool) -> Message {
            let mut bytes = [&id.to_be_bytes()[..], &[0x80, 0, 0, question.into(), 0, 0, 0, 0, 0, 0]].concat();
            if question {
                bytes.extend_from_slice(b"\x01Z\x07example\x00\x00\xfc\x00\x01");
            }
            Message { bytes }
        }

        pub fn record(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) {
            self.section_record(6, &[owner, b"\x01z\x07example\x00"].concat(), rtype, 1, rdata);
        }

        pub fn section_record(&mut self, section: usize, owner: &[u8], rtype: u16, class: u16, rdata: &[u8]) {
            let count = number16(&self.bytes, section) + 1;
            self.bytes[section..section + 2].copy_from_slice(&count.to_be_bytes());
            self.bytes.extend_from_slice(owner);
            for number in [rtype, class, 0, 30, rdata.len() as u16] {
                self.bytes.extend_from_slice(&number.to_be_bytes());
            }
            self.bytes.extend_from_slice(rdata);
        }
    }

    pub fn soa(serial: u32) -> Vec<u8> {
        Soa { serial: Serial(serial), refresh: 30, retry: 60, expire: 2_592_000, minimum: 30 }.to_rdata(&[0], &[0])
    }

    /// The zones of the captures with their messages.
    fn captures() -> Vec<(Name, Vec<Vec<u8>>)> {
        let unhex = |text: &str| {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let mut zones = Vec::new();
        for text in CAPTURES {
            let json: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
            for (zone, messages) in json {
                let messages = messages.as_array().unwrap().iter();
                let messages = messages.map(|message| unhex(message["wire"].as_str().unwrap())).collect();
                zones.push((Name::parse(&zone).unwrap(), messages));
            }
        }
        assert_eq!(zones.len(), 9);
        zones
    }

    fn read(origin: &Name, messages: &[Vec<u8>]) -> Result<Zone, TransferError> {
        let mut reader = AxfrReader::new(origin.clone(), number16(&messages[0], 0));
        for message in messages {
            if reader.feed(message)? == Progress::Done {
                break;
            }
        }
        let (soa, loader) = reader.finish()?;
        let zone = loader.finish(None)?.zone;
        assert_eq!(zone.soa, soa);
        Ok(zone)
    }

    fn lines(text: &str) -> BTreeSet<String> {
        let records = text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
        records.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn captured_transfers_become_what_another_library_reads() {
        for (origin, messages) in captures() {
            let zone = read(&origin, &messages).unwrap();
            let mut expected = BTreeSet::new();
            for message in &messages {
                for record in hickory_proto::op::Message::from_vec(message).unwrap().answers {
                    let owner = record.name.to_lowercase().to_string();
                    expected.insert(match record.record_type() {
                        RecordType::TXT => format!("{owner} {} IN TXT \"{}\"", record.ttl, record.data),
                        rtype => format!("{owner} {} IN {rtype} {}", record.ttl, record.data),
                    });
                }
            }
            assert_eq!(lines(&format!("{zone:?}")), expected, "{origin}");
        }
    }

    #[test]
    fn captured_transfers_become_what_dig_wrote() {
        let files = [
            (
                "us-west-1.cns.example.com",
                include_str!("../../tests/data/captures/cns-axfr-us-west-1.cns.example.com.s0.txt"),
            ),
            (
                "us-west-2.cns.example.com",
                include_str!("../../tests/data/captures/cns-axfr-us-west-2.cns.example.com.s0.txt"),
            ),
            (
                "us-west-2.pub.example.net",
                include_str!("../../tests/data/captures/cns-axfr-us-west-2.pub.example.net.s0.txt"),
            ),
        ];
        for (origin, text) in files {
            let origin = Name::parse(origin).unwrap();
            let (_, messages) = captures().into_iter().find(|(zone, _)| *zone == origin).unwrap();
            assert_eq!(lines(&format!("{:?}", read(&origin, &messages).unwrap())), lines(text), "{origin}");
        }
    }

    fn origin() -> Name {
        Name::parse("z.example").unwrap()
    }

    fn reason(messages: &[Message]) -> &'static str {
        let bytes: Vec<_> = messages.iter().map(|message| message.bytes.clone()).collect();
        read(&origin(), &bytes).map_or_else(|error| error.reason(), |_| "none")
    }

    /// A good transfer in three messages: SOA alone, data, closing SOA.
    fn good() -> [Message; 3] {
        let [mut first, mut second, mut third] = [true, false, false].map(|question| Message::new(7, question));
        first.record(b"", 6, &soa(1));
        second.record(b"\x01a", 1, &[192, 0, 2, 1]);
        third.record(b"", 6, &soa(1));
        [first, second, third]
    }

    #[test]
    fn habits_of_primaries_are_accepted() {
        assert_eq!(reason(&good()), "none");
        let mut messages = good();
        for message in &mut messages {
            message.section_record(10, &[0], 41, 1232, &[]);
        }
        assert_eq!(reason(&messages), "none", "OPT in every message");
        let mut messages = good();
        messages[1] = Message::new(7, true);
        messages[1].record(b"\x03sub", 6, &soa(1));
        messages[1].record(b"\x03sub", 6, &soa(1));
        messages[1].record(b"\x01a", 1, &[192, 0, 2, 1]);
        messages[1].record(b"\x01a", 1, &[192, 0, 2, 1]);
        assert_eq!(reason(&messages), "none", "question again, SOA below the apex, equal records");
        let mut messages = good();
        messages.iter_mut().for_each(|message| message.bytes[2] |= 0x04);
        assert_eq!(reason(&messages), "none", "AA set");
    }

    #[test]
    fn what_is_wrong_has_a_name() {
        let with = |index: usize, change: &dyn Fn(&mut Message)| {
            let mut messages = good();
            change(&mut messages[index]);
            reason(&messages)
        };
        assert_eq!(with(1, &|message| message.bytes[1] = 8), "id");
        assert_eq!(with(0, &|message| message.bytes[2] = 0), "malformed", "not a response");
        assert_eq!(with(0, &|message| message.bytes[2] = 0xa0), "malformed", "NOTIFY");
        assert_eq!(with(1, &|message| message.bytes[2] |= 2), "malformed", "truncated");
        assert_eq!(with(0, &|message| message.bytes[3] = 5), "refused");
        assert_eq!(with(1, &|message| message.bytes[3] = 2), "servfail");
        assert_eq!(with(0, &|message| message.bytes[13] = b'y'), "question");
        assert_eq!(with(0, &|message| message.bytes[23] = 0xfb), "question", "IXFR");
        assert_eq!(with(0, &|message| *message = Message::new(7, true)), "malformed", "no records at all");
        assert_eq!(with(0, &|message| message.bytes.truncate(11)), "malformed");
        assert_eq!(with(1, &|message| message.bytes.push(0)), "malformed", "bytes behind the end");
        assert_eq!(with(1, &|message| message.section_record(6, b"\x01y\x00", 1, 1, &[1; 4])), "out_of_zone");
        let class = |message: &mut Message| message.section_record(6, b"\x01z\x07example\x00", 1, 3, &[1; 4]);
        assert_eq!(with(1, &class), "class");
        assert_eq!(with(1, &|message| message.record(b"", 255, &[])), "malformed", "a query type");
        assert_eq!(with(1, &|message| message.record(b"", 1, &[1; 5])), "malformed", "five octets of address");
        assert_eq!(with(1, &|message| message.record(b"", 6, &soa(2))), "closing_soa");
        assert_eq!(with(2, &|message| message.record(b"\x01b", 1, &[1; 4])), "malformed", "records behind the end");
        assert_eq!(reason(&good()[..1]), "closed", "one SOA and no more");
        assert_eq!(reason(&good()[..2]), "closed");
        assert_eq!(reason(&[good()[1].clone()]), "question");
        let mut data_first = Message::new(7, true);
        data_first.record(b"\x01a", 1, &[1; 4]);
        assert_eq!(reason(&[data_first]), "malformed");
    }

    #[test]
    fn a_reader_gives_nothing_after_an_error() {
        let [first, mut second, third] = good();
        second.bytes[1] = 9;
        let mut reader = AxfrReader::new(origin(), 7);
        assert!(reader.feed(&first.bytes).is_ok());
        assert!(reader.feed(&second.bytes).is_err());
        assert!(reader.feed(&third.bytes).is_err());
        assert!(reader.finish().is_err());
    }

    proptest! {
        /// Whatever happens to a transfer on the way, the reader does not fall over, and a zone that comes out is
        /// one that was sent whole: between two equal SOA.
        #[test]
        fn mangled_transfers_are_refused_or_whole(
            which in 0..9usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let (origin, messages) = captures().swap_remove(which);
            let mut message = messages[0].clone();
            let id = number16(&message, 0);
            for (at, value) in &changes {
                let at = at.index(message.len());
                message[at] = *value;
            }
            if let Some(cut) = &cut {
                message.truncate(cut.index(message.len()));
            }
            let mut reader = AxfrReader::new(origin.clone(), id);
            let progress = reader.feed(&message);
            let records = reader.records();
            match (progress, reader.finish()) {
                (Ok(Progress::Done), Ok((soa, loader))) => {
                    prop_assert!(cut.is_none());
                    let sent = u64::from(number16(&message, 6));
                    prop_assert_eq!(records, sent - 1);
                    if let Ok(loaded) = loader.finish(None) {
                        prop_assert_eq!(loaded.zone.soa, soa);
                    }
                }
                (Ok(Progress::Done), Err(_)) => prop_assert!(false, "complete but withheld"),
                (_, finished) => prop_assert!(finished.is_err()),
            }
        }

        #[test]
        fn any_bytes_are_survived(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..4)) {
            let mut reader = AxfrReader::new(origin(), 7);
            for message in &messages {
                // Behind a good header the rest is read, too.
                let _ = reader.feed(&[&[0, 7, 0x80, 0], message.as_slice()].concat());
            }
            prop_assert!(reader.finish().is_err());
        }
    }
}
