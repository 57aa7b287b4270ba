//! The SOA poll: what serial does a primary announce?
//!
//! Asked over UDP first; over TCP when UDP brings no usable message (silence, truncation, garbage). Neither EDNS nor RD
//! is set: CNS stops on EDNS sizes that are too small (`docs/cns.md` 4), and a recursive answer is of no use.
//!
//! With a key the question is signed and the answer's MAC is checked; these octets are ours, because a signer of the library
//! would need the secret.
//!
//! Invariants: a serial comes out only of an authoritative NOERROR answer with the SOA of the zone itself
//! (RFC 1034 section 4.3.5); what UDP said with authority is not asked again over TCP.
//!
//! Cost: one round trip; two sockets at most.

use crate::exchange::to_library;
use crate::transfer::error::{Phase, TransferError};
use crate::transfer::plan::PrimaryPlan;
use crate::transfer::{connection, message};
use hickory_client::NetError;
use hickory_client::runtime::TokioRuntimeProvider;
use hickory_client::tcp::TcpClientStream;
use hickory_client::udp::UdpClientStream;
use hickory_client::xfer::{DnsHandle, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, DnsResponse, Message, Query};
use hickory_proto::rr::{DNSClass, RData, RecordType};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use wire::name::Name;
use wire::serial::Serial;
use wire::tsig::{self, Chain, Key};

/// Room for any answer over UDP; one to a question without EDNS has 512 octets at most (RFC 1035 section 4.2.1), and a
/// longer one is no reason to fail.
const MAX_DATAGRAM_BYTES: usize = 4096;

/// Asks a primary for the zone's serial.
pub async fn poll(zone: &Name, primary: &PrimaryPlan, patience: Duration) -> Result<Serial, TransferError> {
    let owner = to_library(zone);
    // Half the patience is for UDP: a primary that only speaks TCP still has a fair chance.
    let over_udp = async {
        match &primary.key {
            Some(key) => timeout(patience / 2, ask_udp_signed(zone, primary, key)).await.ok()?.ok(),
            None => ask_udp(&owner, primary, patience / 2).await.ok().map(Message::from),
        }
    };
    if let Some(response) = over_udp.await
        && !response.metadata.truncation
    {
        return read_serial(&owner, &response);
    }
    let over_tcp = async {
        match &primary.key {
            Some(key) => ask_tcp_signed(zone, primary, key).await,
            None => ask_tcp(&owner, primary, patience).await.map(Message::from),
        }
    };
    match timeout(patience, over_tcp).await {
        Ok(response) => read_serial(&owner, &response?),
        Err(_) => Err(TransferError::Timeout(Phase::Message)),
    }
}

/// The SOA question.
fn request(owner: &hickory_proto::rr::Name) -> DnsRequest {
    let mut options = DnsRequestOptions::default();
    options.use_edns = false;
    options.recursion_desired = false;
    DnsRequest::from_query(Query::query(owner.clone(), RecordType::SOA), options)
}

/// Asks over UDP.
async fn ask_udp(
    owner: &hickory_proto::rr::Name,
    primary: &PrimaryPlan,
    patience: Duration,
) -> Result<DnsResponse, NetError> {
    let exchange = UdpClientStream::builder(primary.address, TokioRuntimeProvider::new())
        .with_timeout(Some(patience))
        .with_bind_addr(primary.source.map(|source| SocketAddr::new(source, 0)))
        .exchange();
    exchange.send(request(owner)).first_answer().await
}

/// Asks over TCP.
async fn ask_tcp(
    owner: &hickory_proto::rr::Name,
    primary: &PrimaryPlan,
    patience: Duration,
) -> Result<DnsResponse, TransferError> {
    let source = primary.source.map(|source| SocketAddr::new(source, 0));
    // The provider owns the task that drives the connection, and must outlive the exchange.
    let provider = TokioRuntimeProvider::new();
    let exchange = TcpClientStream::exchange(primary.address, source, patience, None, provider.clone())
        .await
        .map_err(|error| connect_error(primary, error))?;
    exchange.send(request(owner)).first_answer().await.map_err(exchange_error)
}

/// Asks over UDP with a signature. An answer that does not pass ends the attempt: whoever forges one only makes us ask over
/// TCP, where what is wrong is said (RFC 8945 section 5.4).
async fn ask_udp_signed(zone: &Name, primary: &PrimaryPlan, key: &Arc<Key>) -> Result<Message, TransferError> {
    let (query, mut chain) = signed_query(zone, key);
    let any = if primary.address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(primary.source.unwrap_or(any), 0)).await.map_err(TransferError::Io)?;
    socket.connect(primary.address).await.map_err(TransferError::Io)?;
    socket.send(&query).await.map_err(TransferError::Io)?;
    let mut response = vec![0; MAX_DATAGRAM_BYTES];
    let length = loop {
        let length = socket.recv(&mut response).await.map_err(TransferError::Io)?;
        // Another id belongs to another question.
        if response[..length].starts_with(&query[..2]) {
            break length;
        }
    };
    response.truncate(length);
    chain.check(&mut response, connection::now())?;
    decode(&response)
}

/// Asks over TCP with a signature.
async fn ask_tcp_signed(zone: &Name, primary: &PrimaryPlan, key: &Arc<Key>) -> Result<Message, TransferError> {
    let (query, mut chain) = signed_query(zone, key);
    let mut stream = connection::connect(primary).await?;
    let length = u16::try_from(query.len()).expect("a query for one name is short");
    let frame = [&length.to_be_bytes(), query.as_slice()].concat();
    stream.write_all(&frame).await.map_err(TransferError::from_stream)?;
    let length = stream.read_u16().await.map_err(TransferError::from_stream)?;
    let mut response = vec![0; usize::from(length)];
    stream.read_exact(&mut response).await.map_err(TransferError::from_stream)?;
    if !response.starts_with(&query[..2]) {
        return Err(TransferError::Id);
    }
    chain.check(&mut response, connection::now())?;
    decode(&response)
}

/// The SOA question with its signature, and what checks the answer.
fn signed_query(zone: &Name, key: &Arc<Key>) -> (Vec<u8>, Chain) {
    let mut query = message::Query::soa(zone.clone(), connection::random_id()).write(None);
    let chain = tsig::sign_request(&mut query, key, connection::now());
    (query, chain)
}

/// Reads a message in the library's form.
fn decode(response: &[u8]) -> Result<Message, TransferError> {
    Message::from_vec(response).map_err(|_| TransferError::Malformed("no DNS message"))
}

/// Sorts what kept the connection from coming about.
fn connect_error(primary: &PrimaryPlan, error: NetError) -> TransferError {
    match (error, primary.source) {
        (NetError::Io(error), _) if error.kind() == io::ErrorKind::TimedOut => TransferError::Timeout(Phase::Connect),
        (NetError::Io(error), Some(source)) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            TransferError::Source(source, error.kind().into())
        }
        (NetError::Io(error), _) => TransferError::Connect(copy(&error)),
        (NetError::Timeout, _) => TransferError::Timeout(Phase::Connect),
        (error, _) => TransferError::Poll(error.to_string().into()),
    }
}

/// Sorts what kept an answer from coming over a connection.
fn exchange_error(error: NetError) -> TransferError {
    match error {
        NetError::Io(error) => TransferError::from_stream(copy(&error)),
        NetError::Timeout => TransferError::Timeout(Phase::Message),
        error => TransferError::Poll(error.to_string().into()),
    }
}

/// The error out of its shared box.
fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

/// Takes the serial out of an answer that is fit to be believed.
fn read_serial(owner: &hickory_proto::rr::Name, response: &Message) -> Result<Serial, TransferError> {
    let query = Query::query(owner.clone(), RecordType::SOA);
    let rcode = u16::from(response.metadata.response_code);
    if rcode != 0 {
        return Err(TransferError::Rcode(rcode));
    }
    if response.queries != [query] {
        return Err(TransferError::Question);
    }
    let soa = response.answers.iter().find_map(|record| match &record.data {
        RData::SOA(soa) if record.name == *owner => Some((record.dns_class, Serial(soa.serial))),
        _ => None,
    });
    match soa {
        _ if !response.metadata.authoritative => Err(TransferError::NotAuthoritative),
        None => Err(TransferError::NoSoa),
        Some((DNSClass::IN, serial)) => Ok(serial),
        Some((class, _)) => Err(TransferError::Class(class.into())),
    }
}
