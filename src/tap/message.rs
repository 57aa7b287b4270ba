//! Messages of dnstap: the part of its protocol buffers that an authoritative server has something to say in.
//!
//! The numbers of fields and kinds are those of the published schema (`dnstap.proto`).
//!
//! Cost: O(octets) of a message, copied once.

use super::{Exchange, Transport};
use prost::Message as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Kinds of messages.
const AUTH_QUERY: i32 = 1;
const AUTH_RESPONSE: i32 = 2;
/// The kind of the frame around them.
const MESSAGE: i32 = 1;

/// One data frame.
#[derive(prost::Message)]
struct Dnstap {
    #[prost(bytes = "vec", optional, tag = "1")]
    identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    version: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    message: Option<Message>,
    #[prost(int32, required, tag = "15")]
    kind: i32,
}

/// A query or a response.
#[derive(prost::Message)]
struct Message {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(int32, optional, tag = "2")]
    socket_family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    socket_protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    query_address: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    response_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    query_port: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    response_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    query_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    query_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    query_message: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    response_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    response_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    response_message: Option<Vec<u8>>,
}

/// Who speaks, in every message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    pub identity: String,
    pub version: String,
}

/// Adds a query to the data frames in `out`.
pub fn add_query(speaker: &Speaker, exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    add(speaker, Message { query_message: Some(exchange.query.to_vec()), ..described(AUTH_QUERY, exchange) }, out);
}

/// Adds a response, which was sent at a time, to the data frames in `out`.
pub fn add_response(speaker: &Speaker, exchange: &Exchange<'_>, sent: SystemTime, out: &mut Vec<u8>) {
    let (seconds, nanoseconds) = parts(sent);
    let message = Message {
        response_time_sec: Some(seconds),
        response_time_nsec: Some(nanoseconds),
        response_message: Some(exchange.response.to_vec()),
        ..described(AUTH_RESPONSE, exchange)
    };
    add(speaker, message, out);
}

/// A message of a kind that tells who spoke with whom, how, and when the query came.
fn described(kind: i32, exchange: &Exchange<'_>) -> Message {
    let (seconds, nanoseconds) = parts(exchange.received);
    Message {
        kind,
        socket_family: Some(if exchange.client.is_ipv4() { 1 } else { 2 }),
        socket_protocol: Some(match exchange.transport {
            Transport::Udp => 1,
            Transport::Tcp => 2,
            Transport::Tls => 3,
        }),
        query_address: Some(octets(exchange.client)),
        response_address: Some(octets(exchange.server)),
        query_port: Some(exchange.client.port().into()),
        response_port: Some(exchange.server.port().into()),
        query_time_sec: Some(seconds),
        query_time_nsec: Some(nanoseconds),
        ..Message::default()
    }
}

/// Adds a data frame.
fn add(speaker: &Speaker, message: Message, out: &mut Vec<u8>) {
    let frame = Dnstap {
        identity: Some(speaker.identity.as_bytes().to_vec()),
        version: Some(speaker.version.as_bytes().to_vec()),
        message: Some(message),
        kind: MESSAGE,
    };
    out.extend_from_slice(&(frame.encoded_len() as u32).to_be_bytes());
    frame.encode(out).expect("a vector grows as needed");
}

/// The octets of an address.
fn octets(address: SocketAddr) -> Vec<u8> {
    match address.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Seconds since 1970, and the nanoseconds behind them.
fn parts(time: SystemTime) -> (u64, u32) {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_tells_who_asked_whom_and_when() {
        let speaker = Speaker { identity: "ns1.example.com".to_owned(), version: "aggregator 1".to_owned() };
        let received = UNIX_EPOCH + Duration::new(1_900_000_000, 5);
        let exchange = Exchange {
            transport: Transport::Tls,
            client: "[2001:db8::1]:1053".parse().unwrap(),
            server: "[2001:db8::53]:853".parse().unwrap(),
            received,
            query: b"question",
            response: b"answer",
        };
        let mut frames = Vec::new();
        add_query(&speaker, &exchange, &mut frames);
        add_response(&speaker, &exchange, received + Duration::from_micros(7), &mut frames);
        let mut rest = &frames[..];
        let read = |rest: &mut &[u8]| {
            let (length, behind) = rest.split_at(4);
            let (frame, behind) = behind.split_at(u32::from_be_bytes(length.try_into().unwrap()) as usize);
            *rest = behind;
            Dnstap::decode(frame).unwrap()
        };
        let (query, response) = (read(&mut rest), read(&mut rest));
        assert!(rest.is_empty());
        assert_eq!((query.identity, query.kind), (Some(b"ns1.example.com".to_vec()), MESSAGE));
        let (query, response) = (query.message.unwrap(), response.message.unwrap());
        assert_eq!((query.kind, query.query_message), (AUTH_QUERY, Some(b"question".to_vec())));
        assert_eq!((query.socket_family, query.socket_protocol), (Some(2), Some(3)));
        assert_eq!((query.query_port, query.response_port), (Some(1053), Some(853)));
        assert_eq!((query.query_time_sec, query.query_time_nsec), (Some(1_900_000_000), Some(5)));
        assert_eq!((response.kind, response.response_message), (AUTH_RESPONSE, Some(b"answer".to_vec())));
        assert_eq!((response.query_message, response.response_time_nsec), (None, Some(7_005)));
        assert_eq!(response.query_address.unwrap().len(), 16);
    }
}
