//! Errors on the way in, in words for an operator and as the `reason` label of the failure counter.
//!
//! Invariant: every way to fail has exactly one label, and labels never change between versions.

use crate::budget::Excess;
use crate::catalog::listing::ListingError;
use crate::client::ClientError;
use crate::client::secure::TlsFault;
use crate::zone::{Anomalies, ZoneError};
use hickory_client::NetError;
use std::io;
use std::net::IpAddr;
use wire::name::NameError;
use wire::nsec3::MOST_ITERATIONS;
use wire::rr::{RdataError, TypeName};
use wire::serial::Serial;
use wire::tsig::TsigError;

/// The part of an exchange that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Phase {
    #[error("no connection within connect_timeout")]
    Connect,
    #[error("no complete message in time")]
    Message,
    #[error("not complete within total_timeout")]
    Total,
}

/// Error of a poll or a zone transfer.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("cannot send from source_address {0}: {1}")]
    Source(IpAddr, io::Error),
    #[error("{0}")]
    Timeout(Phase),
    #[error("the primary closed the connection before the transfer was complete")]
    Closed,
    #[error("reading or writing failed: {0}")]
    Io(io::Error),
    #[error(
        "{0} transfers from the primary are under way, as many as transfers_per_primary, and none has ended in time"
    )]
    Queue(usize),
    #[error("{}", rcode_text(*.0))]
    Rcode(u16),
    #[error("the SOA answer is not authoritative; the primary does not serve the zone itself")]
    NotAuthoritative,
    #[error("the primary answers without the zone's SOA")]
    NoSoa,
    #[error("malformed message: {0}")]
    Malformed(&'static str),
    #[error("malformed message: {0}")]
    Name(#[from] NameError),
    #[error("malformed message: {0}")]
    Rdata(#[from] RdataError),
    #[error("the records make no zone: {0}")]
    Zone(#[from] ZoneError),
    #[error("malformed message: {} records have no place in a zone", TypeName(*.0))]
    Type(u16),
    #[error("owner name {0} is outside the zone; the primary sends another zone")]
    OutOfZone(Box<str>),
    #[error("a record is of class {0}, not IN")]
    Class(u16),
    #[error("the message answers another query: its id is not ours")]
    Id,
    #[error("the message answers another question")]
    Question,
    #[error(
        "the closing SOA differs from the opening one, the zone changed while it was sent: serial {first}, then {last}"
    )]
    ClosingSoa { first: Serial, last: Serial },
    #[error("the differences begin at serial {theirs}, not at ours, {ours}")]
    OtherBase { ours: Serial, theirs: Serial },
    #[error("a step of the differences leads from serial {from} to {to}, which is not newer")]
    Step { from: Serial, to: Serial },
    #[error("a step of the differences ends at serial {end}, and the next begins at {begin}")]
    Gap { end: Serial, begin: Serial },
    #[error("the primary sends a newer SOA and nothing behind it")]
    LoneSoa,
    #[error("the answer ends at serial {sent}, which is older than the one that the primary announced")]
    Behind { sent: Serial },
    #[error(
        "{0} removed records may still be there, and the primary does not answer for them; only a whole zone tells"
    )]
    Unanswered(usize),
    #[error("slower than {0} bytes a second")]
    Slow(u64),
    #[error("longer than max_bytes = {0}")]
    TooLarge(u64),
    #[error("more records than max_records = {0}")]
    TooManyRecords(u64),
    #[error("out of the budget of memory: {0}")]
    Memory(#[from] Excess),
    #[error("more messages than max_messages = {0}")]
    TooManyMessages(u64),
    #[error(
        "the zone is signed, and cannot be served as it came: {}; the copy before goes on being served", mended_text(.0)
    )]
    Signed(Anomalies),
    #[error(
        "the zone's NSEC3 records have {0} iterations, which each answer would cost; RFC 5155 allows {MOST_ITERATIONS}, and RFC 9276 advises 0"
    )]
    Iterations(u16),
    #[error("the primary's serial {theirs} is older than ours, {ours}; the zone is kept")]
    Regressed { ours: Serial, theirs: Serial },
    #[error("{0}; the zones of the catalog before go on being served")]
    Catalog(#[from] ListingError),
    #[error("the response cannot be trusted: {}{}", .0, tsig_advice(.0))]
    Tsig(#[from] TsigError),
    #[error("no TLS with the primary: {0}")]
    Tls(TlsFault),
    #[error("the poll failed: {0}")]
    Poll(Box<str>),
    #[error("the program is stopping")]
    Stopped,
}

/// What of a signed zone would not be served as it came.
fn mended_text(anomalies: &Anomalies) -> String {
    let Anomalies { mixed_ttls, aliases, inner_soa, signature_ttls, .. } = *anomalies;
    let kinds = [
        (mixed_ttls, "RRsets whose records have different TTLs"),
        (aliases, "CNAME or DNAME records beside others"),
        (inner_soa, "SOA records below the apex"),
        (signature_ttls, "signatures with another TTL than the one that they tell"),
    ];
    let told = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}"));
    told.collect::<Vec<_>>().join(", ")
}

impl TransferError {
    /// The metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            TransferError::Connect(_) => "connect",
            TransferError::Source(..) => "source_address",
            TransferError::Timeout(Phase::Connect) => "timeout_connect",
            TransferError::Timeout(Phase::Message) => "timeout_message",
            TransferError::Timeout(Phase::Total) => "timeout_total",
            TransferError::Closed => "closed",
            TransferError::Io(_) => "io",
            TransferError::Queue(_) => "queue",
            TransferError::Rcode(rcode) => RCODE_LABELS.get(usize::from(*rcode)).unwrap_or(&"rcode_extended"),
            TransferError::NotAuthoritative => "not_authoritative",
            TransferError::NoSoa => "no_soa",
            TransferError::Malformed(_)
            | TransferError::Name(_)
            | TransferError::Rdata(_)
            | TransferError::Zone(_)
            | TransferError::Type(_) => "malformed",
            TransferError::OutOfZone(_) => "out_of_zone",
            TransferError::Class(_) => "class",
            TransferError::Id => "id",
            TransferError::Question => "question",
            TransferError::ClosingSoa { .. } => "closing_soa",
            TransferError::OtherBase { .. } => "ixfr_base",
            TransferError::Step { .. } | TransferError::Gap { .. } => "ixfr_steps",
            TransferError::LoneSoa => "ixfr_lone_soa",
            TransferError::Behind { .. } => "ixfr_behind",
            TransferError::Unanswered(_) => "ixfr_unanswered",
            TransferError::Slow(_) => "slow",
            TransferError::Signed(_) | TransferError::Iterations(_) => "signed",
            TransferError::TooLarge(_) => "too_large",
            TransferError::TooManyRecords(_) => "too_many_records",
            TransferError::TooManyMessages(_) => "too_many_messages",
            TransferError::Memory(_) => "memory",
            TransferError::Regressed { .. } => "regressed",
            TransferError::Tsig(error) => error.reason(),
            TransferError::Tls(fault) => fault.reason(),
            TransferError::Catalog(_) => "catalog",
            TransferError::Poll(_) => "poll",
            TransferError::Stopped => "stopped",
        }
    }

    /// Sorts an error of an open connection: a peer that went away is one thing, however the kernel words it.
    pub fn from_stream(error: io::Error) -> TransferError {
        use io::ErrorKind::*;
        if let Some(fault) = TlsFault::of(&error) {
            return TransferError::Tls(fault);
        }
        match error.kind() {
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => TransferError::Closed,
            _ => TransferError::Io(error),
        }
    }
}

impl From<ClientError> for TransferError {
    fn from(error: ClientError) -> TransferError {
        match error {
            ClientError::Source(source, error) => TransferError::Source(source, error),
            ClientError::Connect(NetError::Io(error)) => TransferError::Connect(copy(&error)),
            ClientError::Connect(NetError::Timeout) => TransferError::Timeout(Phase::Connect),
            ClientError::Exchange(NetError::Io(error)) => TransferError::from_stream(copy(&error)),
            ClientError::Exchange(NetError::Timeout) => TransferError::Timeout(Phase::Message),
            ClientError::Connect(error) | ClientError::Exchange(error) => TransferError::Poll(error.to_string().into()),
            ClientError::Id => TransferError::Id,
            ClientError::Malformed => TransferError::Malformed("no DNS message"),
            ClientError::Tls(fault) => TransferError::Tls(fault),
            ClientError::Tsig(error) => TransferError::Tsig(error),
        }
    }
}

/// The error out of its shared box.
fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

/// Advice about a primary that does not sign.
fn tsig_advice(error: &TsigError) -> &'static str {
    match error {
        // CNS answers a signed question as if it were unsigned (`docs/cns.md` 16).
        TsigError::Unsigned { .. } => {
            ". A `key` is configured for this primary. CNS has no TSIG: remove `key` for a primary that is CNS"
        }
        _ => "",
    }
}

/// Response codes (RFC 6895 section 2.3) as labels.
const RCODE_LABELS: [&str; 16] = [
    "noerror", "formerr", "servfail", "nxdomain", "notimp", "refused", "yxdomain", "yxrrset", "nxrrset", "notauth",
    "notzone", "rcode_11", "rcode_12", "rcode_13", "rcode_14", "rcode_15",
];

/// Explains a response code to whoever runs a secondary.
fn rcode_text(rcode: u16) -> String {
    match rcode {
        1 => "the primary answered FORMERR".to_owned(),
        2 => "the primary answered SERVFAIL: it cannot answer now, or does not have the zone".to_owned(),
        3 => "the primary answered NXDOMAIN: it does not have the zone".to_owned(),
        4 => "the primary answered NOTIMP: it does not offer transfers".to_owned(),
        5 => "the primary answered REFUSED: its allow_transfer lacks this server's address \
              (the zone's source_address, if set), or it does not have the zone"
            .to_owned(),
        9 => "the primary answered NOTAUTH: it does not have the zone".to_owned(),
        other => format!("the primary answered with response code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_to_change() {
        let refused = TransferError::Rcode(5);
        assert_eq!(refused.reason(), "refused");
        assert!(refused.to_string().contains("allow_transfer"), "{refused}");
        assert_eq!(TransferError::Rcode(11).reason(), "rcode_11");
        assert_eq!(TransferError::Rcode(23).reason(), "rcode_extended");
        assert!(TransferError::Rcode(11).to_string().contains("11"));
    }

    #[test]
    fn a_peer_that_went_away_has_one_label() {
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe] {
            assert_eq!(TransferError::from_stream(kind.into()).reason(), "closed");
        }
        assert_eq!(TransferError::from_stream(io::ErrorKind::PermissionDenied.into()).reason(), "io");
    }
}
