//! The DNS client: one question to one server, over UDP and TCP, for polls, probes, `discover` and the demo. A server as
//! it is described here is told of changes, too (`notify`).
//!
//! The library asks, but for two things that it does not do; for these there are sockets of our own ([`exchange_udp`],
//! [`exchange_tcp`]). A server with a key gets questions that our TSIG has signed: the library signs over UDP only, in a
//! build with DNSSEC. And RDATA that is compared with stored RDATA has to come as octets; the library gives values.
//!
//! Invariants: what comes back has the id of the question and, with a key, a good MAC; the library has compared the
//! question, too. Whether an answer is to be believed is the asker's to say.
//!
//! Cost: a round trip or two; the library sends a lost datagram again within the time it has.
//!
//! Parts: `secure` TLS to name servers, which a server with it is asked over and never in clear; `http` and `ldap` the clients
//! of services that speak HTTP and LDAP, `stream` their connections, `tls` whom they believe.
//!
//! RFCs: 1035 sections 4.2.1 and 4.2.2 (UDP and TCP), 6891 section 7 (servers without EDNS), 7871 (EDNS Client Subnet), 8945 section 5.4 (TSIG).

pub mod http;
pub mod ldap;
pub mod secure;
pub mod stream;
pub mod tls;

use crate::metrics::{RCODES, unix_seconds};
use hickory_client::NetError;
use hickory_client::runtime::TokioRuntimeProvider;
use hickory_client::tcp::TcpClientStream;
use hickory_client::udp::UdpClientStream;
use hickory_client::xfer::{DnsHandle, FirstAnswer};
use hickory_proto::op::{DnsRequest, DnsRequestOptions, Message, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::{DNSClass, RData, RecordType};
use secure::{Tls, TlsFault};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stream::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;
use wire::name::{self, Name, NameBuf};
use wire::serial::Serial;
use wire::tsig::{self, Chain, Key, TsigError};

/// A server that is asked or told of changes, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub address: SocketAddr,
    /// Local address that questions, transfers and announcements come from; CNS knows its secondaries by it.
    pub source: Option<IpAddr>,
    /// Signs what we ask and checks what comes back.
    pub key: Option<Arc<Key>>,
    /// How it is reached by TLS; none for clear text.
    pub tls: Option<Arc<Tls>>,
}

impl Server {
    /// The local address that it sees datagrams come from; where none is configured, any of its family.
    pub fn local(&self) -> IpAddr {
        let any = || if self.address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        self.source.unwrap_or_else(any)
    }
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Server {
        Server { address, source: None, key: None, tls: None }
    }
}

/// Kind of server that a question is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A resolver, which is to find the answer.
    Resolver,
    /// A server that has the answer itself. Neither EDNS nor RD is set: CNS stops on EDNS sizes that are too small
    /// (`docs/cns.md` 4), and what others know is of no use.
    Authority,
}

/// Error: a question has brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error(transparent)]
    Connect(NetError),
    #[error("cannot send from source_address {0}: {1}")]
    Source(IpAddr, io::Error),
    /// A datagram or connection has failed, or nothing came in time.
    #[error(transparent)]
    Exchange(NetError),
    #[error("the message answers another query: its id is not ours")]
    Id,
    #[error("no DNS message")]
    Malformed,
    #[error("no TLS with the server: {0}")]
    Tls(#[from] TlsFault),
    #[error(transparent)]
    Tsig(#[from] TsigError),
}

impl ClientError {
    /// What the library says of it, if it is the library's to say.
    pub fn of_library(&self) -> Option<&NetError> {
        match self {
            ClientError::Connect(error) | ClientError::Exchange(error) => Some(error),
            _ => None,
        }
    }

    /// What has happened, in plain words where there are any.
    pub fn describe(&self) -> String {
        match self.of_library() {
            Some(NetError::Timeout) => "no answer".to_owned(),
            Some(NetError::Io(error)) => error.to_string(),
            _ => self.to_string(),
        }
    }

    /// Sorts an error of a socket that was opened.
    fn of_socket(error: io::Error) -> ClientError {
        if let Some(fault) = TlsFault::of(&error) {
            return ClientError::Tls(fault);
        }
        ClientError::Exchange(NetError::Io(error.into()))
    }
}

//--- Questions ---

/// A question to a kind of server.
pub struct Question {
    query: Query,
    options: DnsRequestOptions,
    /// Prefix of the client that it is asked for.
    subnet: Option<ClientSubnet>,
}

impl Question {
    /// Asks for the records of a name and type.
    pub fn new(owner: &Name, rtype: RecordType, role: Role) -> Question {
        let mut options = DnsRequestOptions::default();
        options.use_edns = role == Role::Resolver;
        options.recursion_desired = role == Role::Resolver;
        Question { query: Query::query(to_library(owner), rtype), options, subnet: None }
    }

    /// Asks a server which software it is, by a name that BIND has given to this and others understand.
    pub fn version() -> Question {
        let name = Name::parse("version.bind").expect("two short labels");
        let mut question = Question::new(&name, RecordType::TXT, Role::Authority);
        question.query.set_query_class(DNSClass::CH);
        question
    }

    /// Tells the prefix of the client, as resolvers do (RFC 7871).
    pub fn for_client(self, (address, length): (IpAddr, u8)) -> Question {
        Question { subnet: Some(ClientSubnet::new(address, length, 0)), ..self }
    }

    /// A message that asks it, each with an id of its own.
    fn request(&self) -> DnsRequest {
        let mut request = DnsRequest::from_query(self.query.clone(), self.options);
        if let Some(subnet) = self.subnet {
            request.edns.get_or_insert_default().options_mut().insert(EdnsOption::Subnet(subnet));
        }
        request
    }

    /// The octets of such a message.
    fn octets(&self) -> Vec<u8> {
        self.request().to_vec().expect("a question for one name can be written")
    }

    /// Asks over UDP; the answer may be cut off. A server with TLS is asked over that.
    pub async fn ask_udp(&self, server: &Server, patience: Duration) -> Result<Message, ClientError> {
        if server.tls.is_some() {
            return self.ask_tcp(server, patience).await;
        }
        if server.key.is_some() {
            return in_time(patience, exchange_udp(server, self.octets())).await;
        }
        let over_udp = UdpClientStream::builder(server.address, TokioRuntimeProvider::new())
            .with_timeout(Some(patience))
            .with_bind_addr(server.source.map(|source| SocketAddr::new(source, 0)))
            .exchange();
        over_udp.send(self.request()).first_answer().await.map(Message::from).map_err(ClientError::Exchange)
    }

    /// Asks over a connection of its own, where nothing is left out for want of room. Connecting has as much time as the
    /// answer.
    pub async fn ask_tcp(&self, server: &Server, patience: Duration) -> Result<Message, ClientError> {
        if server.key.is_some() || server.tls.is_some() {
            return in_time(patience, exchange_tcp(server, self.octets())).await;
        }
        let source = server.source.map(|source| SocketAddr::new(source, 0));
        // It owns the task that drives the connection, and must outlive the exchange.
        let provider = TokioRuntimeProvider::new();
        let over_tcp = TcpClientStream::exchange(server.address, source, patience, None, provider.clone()).await;
        let over_tcp = over_tcp.map_err(|error| match (error, server.source) {
            (NetError::Io(error), Some(source)) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                ClientError::Source(source, error.kind().into())
            }
            (error, _) => ClientError::Connect(error),
        })?;
        over_tcp.send(self.request()).first_answer().await.map(Message::from).map_err(ClientError::Exchange)
    }

    /// Asks over UDP, and over TCP if the answer is cut off.
    async fn ask_either(&self, server: &Server, patience: Duration) -> Result<Message, ClientError> {
        let response = self.ask_udp(server, patience).await?;
        if response.metadata.truncation { self.ask_tcp(server, patience).await } else { Ok(response) }
    }

    /// Asks over UDP or TCP, with EDNS or without.
    pub async fn ask(mut self, server: &Server, patience: Duration) -> Result<Message, ClientError> {
        let response = self.ask_either(server, patience).await?;
        // RFC 6891 section 7: who does not know EDNS takes it for a mistake in the format.
        if self.options.use_edns && response.metadata.response_code == ResponseCode::FormErr {
            self.options.use_edns = false;
            return self.ask_either(server, patience).await;
        }
        Ok(response)
    }
}

/// Waits for the octets of an answer, and reads them.
async fn in_time(
    patience: Duration,
    answer: impl Future<Output = Result<Vec<u8>, ClientError>>,
) -> Result<Message, ClientError> {
    let octets = timeout(patience, answer).await.map_err(|_| ClientError::Exchange(NetError::Timeout))??;
    Message::from_vec(&octets).map_err(|_| ClientError::Malformed)
}

//--- Octets ---

/// Sends a message in a datagram, signed for a server with a key, and waits for the one that has its id. A bad signature
/// ends the attempt: whoever forges one only makes us ask over TCP, where what is wrong is said. A server with TLS is asked
/// over that.
pub async fn exchange_udp(server: &Server, mut message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
    if server.tls.is_some() {
        return exchange_tcp(server, message).await;
    }
    let chain = sign(server, &mut message);
    let received = async {
        let socket = UdpSocket::bind((server.local(), 0)).await?;
        socket.connect(server.address).await?;
        socket.send(&message).await?;
        let mut response = vec![0; usize::from(u16::MAX)];
        loop {
            let length = socket.recv(&mut response).await?;
            // Another id belongs to another question.
            if response[..length].starts_with(&message[..2]) {
                response.truncate(length);
                return Ok(response);
            }
        }
    };
    check(chain, received.await.map_err(ClientError::of_socket)?)
}

/// Sends a message over a connection of its own, signed for a server with a key, and reads the one that comes.
pub async fn exchange_tcp(server: &Server, mut message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
    let chain = sign(server, &mut message);
    let mut stream = open(server).await?;
    let received = async {
        stream.write_all(&frame(&message)).await?;
        let mut response = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut response).await?;
        Ok(response)
    };
    let response = received.await.map_err(ClientError::of_socket)?;
    if !response.starts_with(&message[..2]) {
        return Err(ClientError::Id);
    }
    check(chain, response)
}

/// Opens a connection, over TLS to a server that has it.
pub async fn open(server: &Server) -> Result<Box<dyn Stream>, ClientError> {
    let stream = connect(server).await?;
    let Some(tls) = &server.tls else { return Ok(Box::new(stream)) };
    let secured = tls.secure(stream).await.map_err(|error| match TlsFault::of(&error) {
        Some(TlsFault::Name(_)) => ClientError::Tls(TlsFault::Name(tls.files.name.clone())),
        _ => ClientError::of_socket(error),
    });
    Ok(Box::new(secured?))
}

/// Opens a TCP connection, from the source address if there is one.
async fn connect(server: &Server) -> Result<TcpStream, ClientError> {
    let failed = |error: io::Error| ClientError::Connect(NetError::Io(error.into()));
    let socket = if server.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(failed)?;
    if let Some(source) = server.source {
        socket.bind(SocketAddr::new(source, 0)).map_err(|error| ClientError::Source(source, error))?;
    }
    let stream = socket.connect(server.address).await.map_err(failed)?;
    // The query is one small segment that must not wait for company; failing to ask for that does no harm.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// A query with its length in front, to be sent in one segment (RFC 7766 section 8).
pub fn frame(query: &[u8]) -> Vec<u8> {
    let length = u16::try_from(query.len()).expect("a query for one name is short");
    [&length.to_be_bytes(), query].concat()
}

/// Signs a message if the server has a key. Returns what checks the answer.
fn sign(server: &Server, message: &mut Vec<u8>) -> Option<Chain> {
    server.key.as_ref().map(|key| tsig::sign_request(message, key, now()))
}

/// Checks the signature of an answer, and takes it off.
fn check(chain: Option<Chain>, mut response: Vec<u8>) -> Result<Vec<u8>, ClientError> {
    if let Some(mut chain) = chain {
        chain.check(&mut response, now())?;
    }
    Ok(response)
}

/// A random number that needs no generator: the hasher's keys differ from one to the next.
pub fn random_id() -> u16 {
    RandomState::new().hash_one(0) as u16
}

/// The time as TSIG has it.
pub fn now() -> u64 {
    u64::try_from(unix_seconds(SystemTime::now())).unwrap_or(0)
}

//--- Answers ---

/// The class and serial of the SOA that an answer has for a zone.
pub fn soa_of(response: &Message, zone: &Name) -> Option<(DNSClass, Serial)> {
    let zone = to_library(zone);
    response.answers.iter().find_map(|record| match &record.data {
        RData::SOA(soa) if record.name == zone => Some((record.dns_class, Serial(soa.serial))),
        _ => None,
    })
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
