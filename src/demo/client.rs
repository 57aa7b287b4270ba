//! Client that asks the aggregator over UDP, as a resolver would. Messages are read by a library that the answering side
//! does not use.
//!
//! Cost: one round trip for a question.
//!
//! RFCs: 2782 (SRV), 7871 (EDNS Client Subnet).

use crate::client::{ClientError, Question, Role, Server, soa_of};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, RecordType};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prefix of a client: its address, and how many bits of it are told.
pub type Subnet = (IpAddr, u8);

/// Error: a question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{}", .0.describe())]
    Failed(#[from] ClientError),
    #[error("answered with {0}")]
    Rcode(ResponseCode),
    #[error("the answer is cut off")]
    Truncated,
}

/// Answer for a service name; order and repetition do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Addresses, from A and AAAA records.
    pub addresses: BTreeSet<IpAddr>,
    /// Host and port, from SRV.
    pub targets: BTreeSet<(String, u16)>,
}

impl Answer {
    /// Adds another answer.
    pub fn extend(&mut self, other: &Answer) {
        self.addresses.extend(&other.addresses);
        self.targets.extend(other.targets.iter().cloned());
    }

    /// The IPv4 addresses alone.
    pub fn ipv4(&self) -> Answer {
        let addresses = self.addresses.iter().filter(|address| address.is_ipv4());
        Answer { addresses: addresses.copied().collect(), ..Answer::default() }
    }

    /// Returns, in words, the addresses and targets that the other answer has and this one lacks.
    pub fn lacks(&self, other: &Answer) -> Vec<String> {
        let addresses = other.addresses.difference(&self.addresses).map(IpAddr::to_string);
        let targets = other.targets.difference(&self.targets).map(|(host, port)| format!("{host}:{port}"));
        addresses.chain(targets).collect()
    }
}

/// A client of one server.
pub struct Client {
    server: Server,
    /// Questions asked so far.
    pub asked: usize,
}

impl Client {
    /// Makes a client for the server at an address.
    pub fn new(server: SocketAddr) -> Client {
        Client { server: server.into(), asked: 0 }
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server.address
    }

    /// Asks for the serial of a zone; none when the name has no SOA.
    pub async fn ask_serial(&mut self, zone: &Name) -> Result<Option<Serial>, AskError> {
        let response = self.ask(zone, RecordType::SOA).await?;
        Ok(soa_of(&response, zone).map(|(_, serial)| serial))
    }

    /// Asks for everything that a service name answers with: A, AAAA and SRV.
    pub async fn ask_service(&mut self, name: &Name) -> Result<Answer, AskError> {
        let mut answer = Answer::default();
        for kind in [RecordType::A, RecordType::AAAA, RecordType::SRV] {
            for record in self.ask(name, kind).await?.answers {
                answer.addresses.extend(record.data.ip_addr());
                if let RData::SRV(srv) = record.data {
                    answer.targets.insert((srv.target.to_string(), srv.port));
                }
            }
        }
        Ok(answer)
    }

    /// Asks for the IPv4 addresses of a service, as the resolver of a client with this prefix.
    pub async fn ask_for_client(&mut self, name: &Name, subnet: Subnet) -> Result<Answer, AskError> {
        let question = Question::new(name, RecordType::A, Role::Resolver).for_client(subnet);
        let response = self.send(question).await?;
        let addresses = response.answers.into_iter().filter_map(|record| record.data.ip_addr()).collect();
        Ok(Answer { addresses, ..Answer::default() })
    }

    /// Asks one question as a resolver that tells nothing of its clients.
    async fn ask(&mut self, name: &Name, kind: RecordType) -> Result<Message, AskError> {
        self.send(Question::new(name, kind, Role::Resolver)).await
    }

    /// Sends one question.
    async fn send(&mut self, question: Question) -> Result<Message, AskError> {
        self.asked += 1;
        let response = question.ask_udp(&self.server, PATIENCE).await?;
        match response.metadata.response_code {
            ResponseCode::NoError if response.metadata.truncation => Err(AskError::Truncated),
            ResponseCode::NoError => Ok(response),
            code => Err(AskError::Rcode(code)),
        }
    }
}
