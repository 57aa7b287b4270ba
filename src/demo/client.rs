//! Client that asks the aggregator over UDP, as a resolver would.
//!
//! Invariants: an answer counts only if it has the identifier and the question of the query; a query that gets none is
//! sent once more, as resolvers do, before it counts as unanswered. Messages are read by a library that the answering
//! side does not use.
//!
//! Cost: one round trip for a question.
//!
//! RFCs: 1035, 2782 (SRV), 6891 (EDNS).

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{RData, RecordType};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use wire::name::Name;
use wire::serial::Serial;

/// Longest wait for an answer after each datagram.
const PATIENCE: Duration = Duration::from_secs(1);
/// Datagrams sent for one question.
const ATTEMPTS: usize = 2;
/// UDP payload that avoids fragments on any path, as the DNS flag day of 2020 recommends.
const PAYLOAD: u16 = 1232;

/// Error: a question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no answer")]
    Silent,
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("answered with {0}")]
    Rcode(ResponseCode),
    #[error("the answer is cut off")]
    Truncated,
    #[error("not asked as a message: {0}")]
    Question(String),
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

    /// Returns, in words, the addresses and targets that the other answer has and this one lacks.
    pub fn lacks(&self, other: &Answer) -> Vec<String> {
        let addresses = other.addresses.difference(&self.addresses).map(IpAddr::to_string);
        let targets = other.targets.difference(&self.targets).map(|(host, port)| format!("{host}:{port}"));
        addresses.chain(targets).collect()
    }
}

/// A client of one server.
pub struct Client {
    socket: UdpSocket,
    last_id: u16,
    /// Questions asked so far.
    pub asked: usize,
}

impl Client {
    /// The server's address.
    pub fn server(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Makes a client for the server at an address.
    pub async fn connect(server: SocketAddr) -> io::Result<Client> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect(server).await?;
        Ok(Client { socket, last_id: 0, asked: 0 })
    }

    /// Asks for the serial of a zone; none when the name has no SOA.
    pub async fn ask_serial(&mut self, zone: &Name) -> Result<Option<Serial>, AskError> {
        let answers = self.ask(zone, RecordType::SOA).await?;
        Ok(answers.iter().find_map(|data| match data {
            RData::SOA(soa) => Some(Serial(soa.serial)),
            _ => None,
        }))
    }

    /// Asks for everything that a service name answers with: A, AAAA and SRV.
    pub async fn ask_service(&mut self, name: &Name) -> Result<Answer, AskError> {
        let mut answer = Answer::default();
        for kind in [RecordType::A, RecordType::AAAA, RecordType::SRV] {
            for data in self.ask(name, kind).await? {
                match data {
                    RData::A(a) => _ = answer.addresses.insert(a.0.into()),
                    RData::AAAA(aaaa) => _ = answer.addresses.insert(aaaa.0.into()),
                    RData::SRV(srv) => _ = answer.targets.insert((srv.target.to_string(), srv.port)),
                    _ => {}
                }
            }
        }
        Ok(answer)
    }

    /// Asks one question; the data of that type at that name, perhaps none.
    async fn ask(&mut self, name: &Name, kind: RecordType) -> Result<Vec<RData>, AskError> {
        let owner = hickory_proto::rr::Name::from_ascii(name.to_string());
        let question = Query::query(owner.map_err(|error| AskError::Question(error.to_string()))?, kind);
        self.asked += 1;
        self.last_id = self.last_id.wrapping_add(1);
        let mut query = Message::new(self.last_id, MessageType::Query, OpCode::Query);
        query.add_query(question.clone());
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD);
        query.set_edns(edns);
        let query = query.to_vec().map_err(|error| AskError::Question(error.to_string()))?;
        for _ in 0..ATTEMPTS {
            self.socket.send(&query).await?;
            let Ok(received) = timeout(PATIENCE, self.receive(&question)).await else { continue };
            let message = received?;
            if message.metadata.response_code != ResponseCode::NoError {
                return Err(AskError::Rcode(message.metadata.response_code));
            }
            if message.metadata.truncation {
                return Err(AskError::Truncated);
            }
            let wanted = |record: &hickory_proto::rr::Record| record.record_type() == kind;
            return Ok(message.answers.into_iter().filter(wanted).map(|record| record.data).collect());
        }
        Err(AskError::Silent)
    }

    /// Receives until the answer to the present question is there; whatever else comes is late or not ours.
    async fn receive(&self, question: &Query) -> io::Result<Message> {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let length = self.socket.recv(&mut buffer).await?;
            if let Ok(message) = Message::from_vec(&buffer[..length])
                && message.metadata.id == self.last_id
                && message.metadata.message_type == MessageType::Response
                && message.queries.as_slice() == std::slice::from_ref(question)
            {
                return Ok(message);
            }
        }
    }
}
