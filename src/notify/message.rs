//! The two messages of an exchange (RFC 1996 section 3): the announcement, and the reply to it.
//!
//! Invariants: an announcement fits into 512 octets; a reply counts only when it repeats the question.
//! Cost: O(octets).

use wire::message::{Header, OPCODE_NOTIFY, Question, RequestWriter, Section, flag};
use wire::name::Name;
use wire::rr::{RRset, rtype};

/// Octets that every secondary takes over UDP without being asked (RFC 1035 section 4.2.1).
const MOST_BYTES: usize = 512;

/// Writes an announcement that leaves `room` octets for a signature.
pub(super) fn write(zone: &Name, soa: &RRset, id: u16, room: usize) -> Vec<u8> {
    let message = RequestWriter::new(id, OPCODE_NOTIFY, flag::AA, zone, rtype::SOA);
    // RFC 1996 section 3.7: the SOA is a hint, and may be missing where there is no room.
    if message.length() + soa.as_set().wire_bytes() + room <= MOST_BYTES {
        message.add_set(Section::Answer, soa.as_set()).finish()
    } else {
        message.finish()
    }
}

/// The id of a response; none when it is no response at all.
pub(super) fn response_id(message: &[u8]) -> Option<u16> {
    Header::read(message).filter(|header| header.has(flag::QR)).map(|header| header.id)
}

/// The response code of a message with a known id, if it is the reply to an announcement of the zone.
pub(super) fn read_reply(message: &[u8], zone: &Name) -> Option<u8> {
    let header = Header::read(message).filter(|header| header.has(flag::QR) && header.opcode() == OPCODE_NOTIFY)?;
    let code = header.rcode() as u8;
    // Who refuses may have read no further than the header.
    if header.questions == 0 && code != 0 {
        return Some(code);
    }
    let (question, _) = Question::read(message).ok()?;
    (header.questions == 1 && question.is_for(zone, rtype::SOA)).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soa(name_bytes: usize) -> RRset {
        let rdata = [vec![1; name_bytes], vec![0; 20]].concat();
        RRset::build(rtype::SOA, 30, vec![rdata]).unwrap()
    }

    fn zone() -> Name {
        Name::parse("z.example").unwrap()
    }

    fn reply(flags: [u8; 2], questions: u8, question: &[u8]) -> Vec<u8> {
        [&[0xab, 0xcd, flags[0], flags[1], 0, questions, 0, 0, 0, 0, 0, 0], question].concat()
    }

    #[test]
    fn announcements_are_what_rfc_1996_draws() {
        let message = write(&zone(), &soa(2), 0xabcd, 0);
        assert_eq!(message[..12], [0xab, 0xcd, 0x24, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(message[12..27], *b"\x01z\x07example\x00\x00\x06\x00\x01");
        assert_eq!(message[27..33], [0xc0, 0x0c, 0, 6, 0, 1]);
        assert_eq!(message.len(), 27 + 12 + 22);
    }

    #[test]
    fn the_hint_stays_away_where_it_has_no_room() {
        let fits = MOST_BYTES - 27 - 12 - 20;
        assert_eq!(write(&zone(), &soa(fits), 1, 0).len(), 512);
        let bare = write(&zone(), &soa(fits), 1, 1);
        assert_eq!((bare.len(), &bare[6..8]), (27, &[0, 0][..]));
    }

    #[test]
    fn only_replies_to_the_question_count() {
        let question = b"\x01Z\x07example\x00\x00\x06\x00\x01";
        let other = b"\x01y\x07example\x00\x00\x06\x00\x01";
        let address = b"\x01z\x07example\x00\x00\x01\x00\x01";
        for (message, expected) in [
            (reply([0xa4, 0], 1, question), Some(0)),
            (reply([0xa0, 5], 1, question), Some(5)),
            (reply([0xa0, 4], 0, b""), Some(4)),
            (reply([0xa0, 0], 0, b""), None),
            (reply([0x24, 0], 1, question), None),
            (reply([0x84, 0], 1, question), None),
            (reply([0xa4, 0], 1, other), None),
            (reply([0xa4, 0], 1, address), None),
            (reply([0xa4, 0], 1, &question[..12]), None),
            (reply([0xa4, 0], 1, b"\xc0\x0c\x00\x06\x00\x01"), None),
            (vec![0xab, 0xcd, 0xa4], None),
        ] {
            assert_eq!(read_reply(&message, &zone()), expected, "{message:?}");
        }
    }
}
