//! The SOA poll: the serial that a primary announces.
//!
//! Asked over UDP first; over TCP when UDP brings no usable message (silence, truncation, garbage, a signature that is
//! missing or wrong). A primary with TLS is asked over that alone (RFC 9103 section 6.4).
//!
//! Invariants: a serial comes out only of an authoritative NOERROR answer with the SOA of the zone itself
//! (RFC 1034 section 4.3.5); what UDP said with authority is not asked again over TCP.
//!
//! Cost: one round trip; two sockets at most.

use crate::client::secure::TlsFault;
use crate::client::{Question, Role, Server, soa_of, to_library};
use crate::transfer::error::{Phase, TransferError};
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{DNSClass, RecordType};
use std::time::Duration;
use tokio::time::timeout;
use wire::name::Name;
use wire::serial::Serial;

/// Asks a primary for the zone's serial.
pub async fn poll(zone: &Name, primary: &Server, patience: Duration) -> Result<Serial, TransferError> {
    if primary.tls.is_some() {
        return ask_tcp(zone, primary, patience, &Question::new(zone, RecordType::SOA, Role::Authority)).await;
    }
    // Half the patience is for UDP: a primary that only speaks TCP still has a fair chance.
    let question = Question::new(zone, RecordType::SOA, Role::Authority);
    if let Ok(response) = question.ask_udp(primary, patience / 2).await
        && !response.metadata.truncation
    {
        return read_serial(zone, &response);
    }
    ask_tcp(zone, primary, patience, &question).await
}

/// Asks a primary for the serial of a catalog, over TCP alone: Knot answers for catalogs there only.
pub async fn poll_catalog(catalog: &Name, primary: &Server, patience: Duration) -> Result<Serial, TransferError> {
    ask_tcp(catalog, primary, patience, &Question::new(catalog, RecordType::SOA, Role::Authority)).await
}

/// Asks over TCP.
async fn ask_tcp(
    zone: &Name,
    primary: &Server,
    patience: Duration,
    question: &Question,
) -> Result<Serial, TransferError> {
    match timeout(patience, question.ask_tcp(primary, patience)).await {
        Ok(response) => match response.map_err(TransferError::from) {
            Err(TransferError::Closed) if primary.tls.is_some() => Err(TransferError::Tls(TlsFault::Ended)),
            response => read_serial(zone, &response?),
        },
        Err(_) => Err(TransferError::Timeout(Phase::Message)),
    }
}

/// Takes the serial out of an answer that is fit to be believed.
fn read_serial(zone: &Name, response: &Message) -> Result<Serial, TransferError> {
    let rcode = u16::from(response.metadata.response_code);
    if rcode != 0 {
        return Err(TransferError::Rcode(rcode));
    }
    if response.queries != [Query::query(to_library(zone), RecordType::SOA)] {
        return Err(TransferError::Question);
    }
    match soa_of(response, zone) {
        _ if !response.metadata.authoritative => Err(TransferError::NotAuthoritative),
        None => Err(TransferError::NoSoa),
        Some((DNSClass::IN, serial)) => Ok(serial),
        Some((class, _)) => Err(TransferError::Class(class.into())),
    }
}
