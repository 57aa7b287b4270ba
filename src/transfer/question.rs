//! One question to a primary for one set, over UDP and where that is safe over TCP.
//!
//! Invariants: EDNS always says 1232 octets, which CNS survives (`docs/cns.md` 4); with a key the question is signed and
//! an answer without a good MAC is none. How many questions are on the way is for `queue` to say.
//!
//! Cost: a socket and a round trip for each try, [`TRIES`] at most.
//!
//! RFC 1035 section 4, RFC 6891 section 6, RFC 8945 section 5.

use crate::client::{self, Server, exchange_tcp, exchange_udp};
use crate::transfer::doubt::{Answer, Question};
use crate::zone::Soa;
use std::time::Duration;
use tokio::time::timeout;
use wire::message::{self, Header, OPCODE_QUERY, Records, RequestWriter, Section, flag, rcode};
use wire::name::{Name, NameBuf};
use wire::rr::{self, CLASS_IN, rtype};

/// How often a question is sent.
const TRIES: usize = 3;
/// How long the answer to each is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The payload size that every question states.
const PAYLOAD_BYTES: u16 = 1232;

/// What a message is.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Answer(Answer),
    /// More than fits: TC.
    Truncated,
    /// The server knows no answer, by its code or by the form of the message.
    None,
}

/// Asks a primary for a set of a zone. `None` when that brings no answer.
pub async fn ask(zone: &Name, question: &Question, primary: &Server) -> Option<Answer> {
    for _ in 0..TRIES {
        let response = timeout(PATIENCE, exchange_udp(primary, write(question))).await;
        // Nothing came, or nothing that can be believed.
        let Ok(Ok(response)) = response else { continue };
        let Some(mut reply) = read(&response, zone, question) else { continue };
        if reply == Reply::Truncated && question.may_use_tcp {
            let response = timeout(2 * PATIENCE, exchange_tcp(primary, write(question))).await.ok()?.ok()?;
            reply = read(&response, zone, question)?;
        }
        return match reply {
            Reply::Answer(answer) => Some(answer),
            Reply::Truncated | Reply::None => None,
        };
    }
    None
}

/// A message that asks the question.
fn write(question: &Question) -> Vec<u8> {
    RequestWriter::new(client::random_id(), OPCODE_QUERY, 0, &question.owner, question.rtype)
        .add_opt(PAYLOAD_BYTES)
        .finish()
}

/// Reads a message that has the question's id. `None` if it belongs to something else or cannot be read.
fn read(response: &[u8], zone: &Name, question: &Question) -> Option<Reply> {
    let header = Header::read(response).filter(|header| header.has(flag::QR) && header.opcode() == OPCODE_QUERY)?;
    if header.questions != 1 {
        return (header.rcode() != rcode::NOERROR).then_some(Reply::None);
    }
    if !message::Question::read(response).ok()?.0.is_for(&question.owner, question.rtype) {
        return None;
    }
    // NXDOMAIN says of a set what NOERROR without records does.
    match header.rcode() {
        rcode::NOERROR | rcode::NXDOMAIN if header.has(flag::TC) => return Some(Reply::Truncated),
        rcode::NOERROR | rcode::NXDOMAIN => {}
        _ => return Some(Reply::None),
    }
    let mut answer = Answer { authoritative: header.has(flag::AA), ..Answer::default() };
    let counted = header.records[..2].iter().map(|count| usize::from(*count)).sum();
    for record in Records::new(response)?.take(counted) {
        let record = record.ok()?;
        let (owner, _) = NameBuf::read(response, record.owner).ok()?;
        let is_set = |name: &Name, rtype: u16| {
            owner.as_wire().eq_ignore_ascii_case(name.as_wire()) && record.rtype == rtype && record.class == CLASS_IN
        };
        let mut rdata = Vec::new();
        let decompress = |rdata| rr::decompress(record.rtype, response, record.rdata, record.length, rdata);
        match record.section {
            Section::Answer if is_set(&question.owner, question.rtype) => {
                decompress(&mut rdata).ok()?;
                answer.records.push(rdata);
            }
            Section::Answer => answer.has_others = true,
            Section::Authority if is_set(zone, rtype::SOA) => {
                decompress(&mut rdata).ok()?;
                answer.serial = Soa::from_rdata(&rdata).map(|soa| soa.serial);
            }
            Section::Authority | Section::Additional => {}
        }
    }
    Some(Reply::Answer(answer))
}
