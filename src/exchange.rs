//! One question to one name server by way of the library: over UDP, and over TCP where the answer is cut off.
//!
//! Invariant: what comes back answers the question, which the library has compared; whether it is to be believed is the
//! asker's to say.
//!
//! Cost: a round trip or two; the library sends a lost datagram again within the time it has.
//!
//! RFCs: 1035 sections 4.2.1 and 4.2.2 (UDP and TCP).

use crate::metrics::RCODES;
use crate::name::{self, Name, NameBuf};
use hickory_client::NetError;
use hickory_client::runtime::TokioRuntimeProvider;
use hickory_client::tcp::TcpClientStream;
use hickory_client::udp::UdpClientStream;
use hickory_client::xfer::{DnsHandle, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, Message, Query, ResponseCode};
use hickory_proto::rr::RecordType;
use std::net::SocketAddr;
use std::time::Duration;

/// Whom a question goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A resolver, which is to find the answer.
    Resolver,
    /// A server that has the answer itself. Neither EDNS nor RD is set: CNS stops on EDNS sizes that are too small (contract
    /// `cns.md`, quirk 4), and what others know is of no use.
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
    let mut options = DnsRequestOptions::default();
    if role == Role::Authority {
        options.use_edns = false;
        options.recursion_desired = false;
    }
    let owner = to_library(owner);
    let request = || DnsRequest::from_query(Query::query(owner.clone(), rtype), options);
    let provider = TokioRuntimeProvider::new();
    let over_udp = UdpClientStream::builder(server, provider.clone()).with_timeout(Some(patience)).exchange();
    let response = over_udp.send(request()).first_answer().await?;
    if !response.metadata.truncation {
        return Ok(response.into());
    }
    let over_tcp = TcpClientStream::exchange(server, None, patience, None, provider).await?;
    Ok(over_tcp.send(request()).first_answer().await?.into())
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
