//! The SOA poll: what serial does a primary announce?
//!
//! Asked over UDP first; over TCP when UDP brings no usable message (silence, truncation, garbage). Neither EDNS nor RD
//! is set: CNS stops on EDNS sizes that are too small (contract `cns.md`, quirk 4), and a recursive answer is of no use.
//!
//! Invariants: a serial comes out only of an authoritative NOERROR answer with the SOA of the zone itself
//! (RFC 1034 section 4.3.5); what UDP said with authority is not asked again over TCP.
//!
//! Cost: one round trip; two sockets at most.

use crate::name::Name;
use crate::serial::Serial;
use crate::transfer::error::{Phase, TransferError};
use crate::transfer::plan::PrimaryPlan;
use hickory_client::NetError;
use hickory_client::runtime::TokioRuntimeProvider;
use hickory_client::tcp::TcpClientStream;
use hickory_client::udp::UdpClientStream;
use hickory_client::xfer::{DnsHandle, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, DnsResponse, Query};
use hickory_proto::rr::{DNSClass, RData, RecordType};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Asks a primary for the zone's serial.
pub async fn poll(zone: &Name, primary: &PrimaryPlan, patience: Duration) -> Result<Serial, TransferError> {
    let owner = hickory_name(zone);
    // Half the patience is for UDP: a primary that only speaks TCP still has a fair chance.
    if let Ok(response) = ask_udp(&owner, primary, patience / 2).await
        && !response.metadata.truncation
    {
        return read_serial(&owner, &response);
    }
    match timeout(patience, ask_tcp(&owner, primary, patience)).await {
        Ok(response) => read_serial(&owner, &response?),
        Err(_) => Err(TransferError::Timeout(Phase::Message)),
    }
}

/// The name in hickory's form.
fn hickory_name(zone: &Name) -> hickory_proto::rr::Name {
    let labels = crate::name::labels(zone.as_wire());
    let mut name = hickory_proto::rr::Name::from_labels(labels).expect("a valid name is valid there, too");
    name.set_fqdn(true);
    name
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
fn read_serial(owner: &hickory_proto::rr::Name, response: &DnsResponse) -> Result<Serial, TransferError> {
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
