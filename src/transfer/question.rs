//! One question to a primary for one set, over UDP and where that is safe over TCP.
//!
//! Invariants: EDNS always says 1232 octets, which CNS survives (`docs/cns.md` 4); with a key the question is signed and
//! an answer without a good MAC is none. How many questions are on the way is for `queue` to say.
//!
//! Cost: a socket and a round trip for each try, [`TRIES`] at most.
//!
//! RFC 1035 section 4, RFC 6891 section 6, RFC 8945 section 5.

use crate::transfer::connection;
use crate::transfer::doubt::{Answer, Question};
use crate::transfer::message::number16;
use crate::transfer::plan::PrimaryPlan;
use crate::zone::Soa;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use wire::name::{Name, NameBuf};
use wire::rr::{self, CLASS_IN, rtype};
use wire::tsig;

/// How often a question is sent.
const TRIES: usize = 3;
/// How long the answer to each is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The payload size that every question states.
const PAYLOAD_BYTES: u16 = 1232;
/// Bytes of a message header (RFC 1035 section 4.1.1).
const HEADER_BYTES: usize = 12;

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
pub async fn ask(zone: &Name, question: &Question, primary: &PrimaryPlan) -> Option<Answer> {
    for _ in 0..TRIES {
        let reply = match timeout(PATIENCE, ask_over_udp(zone, question, primary)).await {
            Ok(Some(reply)) => reply,
            // Nothing came, or nothing that can be believed.
            _ => continue,
        };
        return match reply {
            Reply::Answer(answer) => Some(answer),
            Reply::Truncated if question.may_use_tcp => {
                let over_tcp = ask_over_tcp(zone, question, primary);
                match timeout(2 * PATIENCE, over_tcp).await.ok()?? {
                    Reply::Answer(answer) => Some(answer),
                    Reply::Truncated | Reply::None => None,
                }
            }
            Reply::Truncated | Reply::None => None,
        };
    }
    None
}

/// Sends the question in a datagram and waits for what fits it.
async fn ask_over_udp(zone: &Name, question: &Question, primary: &PrimaryPlan) -> Option<Reply> {
    let (message, mut chain) = write(question, primary);
    let any = if primary.address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(primary.source.unwrap_or(any), 0)).await.ok()?;
    socket.connect(primary.address).await.ok()?;
    socket.send(&message).await.ok()?;
    let mut response = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut response).await.ok()?;
        // Another id belongs to another question.
        if response[..length].starts_with(&message[..2]) {
            response.truncate(length);
            break;
        }
    }
    if let Some(chain) = &mut chain {
        chain.check(&mut response, connection::now()).ok()?;
    }
    read(&response, &message, zone, question)
}

/// Sends the question over a connection of its own.
async fn ask_over_tcp(zone: &Name, question: &Question, primary: &PrimaryPlan) -> Option<Reply> {
    let (message, mut chain) = write(question, primary);
    let mut stream = connection::connect(primary).await.ok()?;
    let length = u16::try_from(message.len()).expect("a question for one name is short");
    stream.write_all(&[&length.to_be_bytes(), message.as_slice()].concat()).await.ok()?;
    let mut response = vec![0; usize::from(stream.read_u16().await.ok()?)];
    stream.read_exact(&mut response).await.ok()?;
    if let Some(chain) = &mut chain {
        chain.check(&mut response, connection::now()).ok()?;
    }
    read(&response, &message, zone, question)
}

/// The question, and what checks the answer.
fn write(question: &Question, primary: &PrimaryPlan) -> (Vec<u8>, Option<tsig::Chain>) {
    let mut message = connection::random_id().to_be_bytes().to_vec();
    // No flags, one question, one record behind it.
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    message.extend_from_slice(question.owner.as_wire());
    message.extend([question.rtype, CLASS_IN].map(u16::to_be_bytes).concat());
    // RFC 6891 section 6.1.2: the root, OPT, payload size; no flags, no options.
    message.push(0);
    message.extend([rtype::OPT, PAYLOAD_BYTES, 0, 0, 0].map(u16::to_be_bytes).concat());
    let chain = primary.key.as_ref().map(|key| tsig::sign_request(&mut message, key, connection::now()));
    (message, chain)
}

/// Reads a response. `None` if it belongs to something else or cannot be read.
fn read(response: &[u8], message: &[u8], zone: &Name, question: &Question) -> Option<Reply> {
    let head = response.get(..HEADER_BYTES)?;
    let (flags, counts) = (number16(head, 2), [6, 8].map(|at| number16(head, at)));
    // A response to QUERY.
    let is_response = flags & 0xf800 == 0x8000 && head[..2] == message[..2];
    let (is_cut, rcode) = (flags & 0x0200 != 0, flags & 0x000f);
    if !is_response || number16(head, 4) != 1 {
        return (is_response && rcode != 0).then_some(Reply::None);
    }
    let (owner, end) = NameBuf::read(response, HEADER_BYTES).ok()?;
    let fixed = response.get(end..end + 4)?;
    let is_same = |owner: &NameBuf| owner.as_wire().eq_ignore_ascii_case(question.owner.as_wire());
    if !is_same(&owner) || number16(fixed, 0) != question.rtype || number16(fixed, 2) != CLASS_IN {
        return None;
    }
    // NXDOMAIN says of a set what NOERROR without records does.
    match rcode {
        0 | 3 if is_cut => return Some(Reply::Truncated),
        0 | 3 => {}
        _ => return Some(Reply::None),
    }
    let mut answer = Answer { authoritative: flags & 0x0400 != 0, ..Answer::default() };
    let mut position = end + 4;
    for index in 0..u32::from(counts[0]) + u32::from(counts[1]) {
        let is_answer = index < u32::from(counts[0]);
        let (owner, after) = NameBuf::read(response, position).ok()?;
        let fixed = response.get(after..after + 10)?;
        let (rtype, class, length) = (number16(fixed, 0), number16(fixed, 2), usize::from(number16(fixed, 8)));
        let start = after + 10;
        position = start + length;
        if position > response.len() {
            return None;
        }
        let mut rdata = Vec::new();
        let is_of_zone = owner.as_wire().eq_ignore_ascii_case(zone.as_wire());
        if is_answer && is_same(&owner) && rtype == question.rtype && class == CLASS_IN {
            rr::decompress(rtype, response, start, length, &mut rdata).ok()?;
            answer.records.push(rdata);
        } else if is_answer {
            answer.has_others = true;
        } else if is_of_zone && rtype == rtype::SOA && class == CLASS_IN {
            rr::decompress(rtype, response, start, length, &mut rdata).ok()?;
            answer.serial = Soa::from_rdata(&rdata).map(|soa| soa.serial);
        }
    }
    Some(Reply::Answer(answer))
}
