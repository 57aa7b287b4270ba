//! One question to one name server by way of the library: over UDP, and over TCP where the answer is cut off.
//!
//! Invariant: what comes back answers the question, which the library has compared; whether it is to be believed is the
//! asker's to say.
//!
//! Cost: a round trip or two; the library sends a lost datagram again within the time it has.
//!
//! RFCs: 1035 sections 4.2.1 and 4.2.2 (UDP and TCP), 6891 section 7 (servers without EDNS).

use crate::metrics::RCODES;
use hickory_client::NetError;
use hickory_client::runtime::TokioRuntimeProvider;
use hickory_client::tcp::TcpClientStream;
use hickory_client::udp::UdpClientStream;
use hickory_client::xfer::{DnsHandle, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, Message, Query, ResponseCode};
use hickory_proto::rr::RecordType;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::{self, Name, NameBuf};

/// Kind of server that a question is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A resolver, which is to find the answer.
    Resolver,
    /// A server that has the answer itself. Neither EDNS nor RD is set: CNS stops on EDNS sizes that are too small
    /// (`docs/cns.md` 4), and what others know is of no use.
    Authority,
}

/// Asks a server for the records of a name and type.
pub async fn ask(
    server: SocketAddr,
    owner: &Name,
    rtype: RecordType,
    role: Role,
    patience: Duration,
) -> Result<Message, NetError> {
    let (query, mut options) = (Query::query(to_library(owner), rtype), options(role));
    let response = ask_with(server, &query, options, patience).await?;
    // RFC 6891 section 7: who does not know EDNS takes it for a mistake in the format.
    if options.use_edns && response.metadata.response_code == ResponseCode::FormErr {
        options.use_edns = false;
        return ask_with(server, &query, options, patience).await;
    }
    Ok(response)
}

/// Asks over TCP at once, where nothing is left out for want of room.
pub async fn ask_over_tcp(
    server: SocketAddr,
    owner: &Name,
    rtype: RecordType,
    role: Role,
    patience: Duration,
) -> Result<Message, NetError> {
    let request = DnsRequest::from_query(Query::query(to_library(owner), rtype), options(role));
    send_over_tcp(server, request, patience).await
}

/// Returns the options of a question to this kind of server.
fn options(role: Role) -> DnsRequestOptions {
    let mut options = DnsRequestOptions::default();
    if role == Role::Authority {
        options.use_edns = false;
        options.recursion_desired = false;
    }
    options
}

/// Asks over UDP, and over TCP if that is not enough.
async fn ask_with(
    server: SocketAddr,
    query: &Query,
    options: DnsRequestOptions,
    patience: Duration,
) -> Result<Message, NetError> {
    let request = || DnsRequest::from_query(query.clone(), options);
    let over_udp =
        UdpClientStream::builder(server, TokioRuntimeProvider::new()).with_timeout(Some(patience)).exchange();
    let response = over_udp.send(request()).first_answer().await?;
    if response.metadata.truncation { send_over_tcp(server, request(), patience).await } else { Ok(response.into()) }
}

/// Asks over a connection of its own.
async fn send_over_tcp(server: SocketAddr, request: DnsRequest, patience: Duration) -> Result<Message, NetError> {
    // It owns the task that drives the connection, and must outlive the exchange.
    let provider = TokioRuntimeProvider::new();
    let over_tcp = TcpClientStream::exchange(server, None, patience, None, provider.clone()).await?;
    Ok(over_tcp.send(request).first_answer().await?.into())
}

/// A response code by its name, such as REFUSED.
pub fn rcode_name(code: ResponseCode) -> String {
    let number = u16::from(code);
    RCODES.get(usize::from(number)).map_or_else(|| format!("RCODE{number}"), |name| (*name).to_owned())
}

/// A name in the library's form.
pub fn to_library(name: &Name) -> hickory_proto::rr::Name {
    let labels = name::labels(name.as_wire());
    let mut theirs = hickory_proto::rr::Name::from_labels(labels).expect("a valid name is valid there, too");
    theirs.set_fqdn(true);
    theirs
}

/// A name of the library in our form.
pub fn from_library(theirs: &hickory_proto::rr::Name) -> Name {
    let labels = theirs.iter().flat_map(|label| [&[label.len() as u8], label].concat());
    let wire: Vec<u8> = labels.chain([0]).collect();
    NameBuf::from_wire(&wire).expect("a name that was read is valid").to_name()
}
