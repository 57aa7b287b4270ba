//! A small DNS client: builds questions octet by octet, asks over UDP and TCP, transfers zones.

use super::{Dname, Message, Record, rtype};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// One question and how it is put.
#[derive(Clone, Debug)]
pub struct Query {
    pub name: Dname,
    pub rtype: u16,
    /// Payload size of EDNS; none sends no OPT record.
    pub edns: Option<u16>,
    pub dnssec_ok: bool,
    pub recursion_desired: bool,
}

impl Query {
    /// A plain question without EDNS.
    pub fn new(name: &Dname, rtype: u16) -> Query {
        Query { name: name.clone(), rtype, edns: None, dnssec_ok: false, recursion_desired: false }
    }

    /// The message in wire form.
    pub fn encode(&self, id: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&[u8::from(self.recursion_desired), 0, 0, 1, 0, 0, 0, 0, 0]);
        bytes.push(u8::from(self.edns.is_some()));
        bytes.extend_from_slice(&self.name.0);
        bytes.extend_from_slice(&self.rtype.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        if let Some(payload) = self.edns {
            bytes.extend_from_slice(&[0, 0, 41]);
            bytes.extend_from_slice(&payload.to_be_bytes());
            bytes.extend_from_slice(&[0, 0, if self.dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        }
        bytes
    }
}

/// A client of one server, with one UDP socket and one TCP connection that is opened when first needed.
pub struct Client {
    server: SocketAddr,
    udp: UdpSocket,
    tcp: Option<TcpStream>,
    /// Address that connections come from; none leaves it to the system.
    source: Option<IpAddr>,
    deadline: Duration,
    next_id: u16,
}

impl Client {
    /// Makes a client that waits 5 seconds for any answer.
    pub fn new(server: SocketAddr) -> Client {
        Client::bound("127.0.0.1:0", server)
    }

    /// Returns a client of a server that is not on loopback.
    pub fn any(server: SocketAddr) -> Client {
        Client::bound("0.0.0.0:0", server)
    }

    /// Makes a client whose datagrams and connections come from an address, of either family.
    pub fn between(source: IpAddr, server: SocketAddr) -> Client {
        Client { source: Some(source), ..Client::bound(&SocketAddr::new(source, 0).to_string(), server) }
    }

    /// Makes a client on a local address.
    fn bound(local: &str, server: SocketAddr) -> Client {
        let udp = UdpSocket::bind(local).expect("UDP socket");
        udp.connect(server).expect("UDP connect");
        Client { server, udp, tcp: None, source: None, deadline: Duration::from_secs(5), next_id: 1 }
    }

    /// Changes how long an answer may take.
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// Makes datagrams and connections come from another address than the system would choose.
    pub fn with_source(mut self, source: IpAddr) -> Client {
        self.udp = UdpSocket::bind((source, 0)).expect("UDP socket");
        self.udp.connect(self.server).expect("UDP connect");
        self.source = Some(source);
        self
    }

    /// Asks over UDP and decodes the answer.
    pub fn ask(&mut self, query: &Query) -> io::Result<Message> {
        let id = self.take_id();
        self.send_udp(&query.encode(id))?;
        decode(&self.receive_udp(id)?)
    }

    /// Asks over TCP and decodes the answer.
    pub fn ask_tcp(&mut self, query: &Query) -> io::Result<Message> {
        let id = self.take_id();
        decode(&self.exchange_tcp(&query.encode(id))?)
    }

    /// Sends any octets over UDP.
    pub fn send_udp(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.udp.send(bytes).map(drop)
    }

    /// Receives the answer with this id, dropping others.
    pub fn receive_udp(&mut self, id: u16) -> io::Result<Vec<u8>> {
        let limit = Instant::now() + self.deadline;
        let mut buffer = vec![0; 65_535];
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.udp.set_read_timeout(Some(left))?;
            let length = self.udp.recv(&mut buffer)?;
            if length >= 2 && buffer[..2] == id.to_be_bytes() {
                buffer.truncate(length);
                return Ok(buffer);
            }
        }
    }

    /// Sends any octets as one message over TCP and reads one answer; a connection that the server closed while it
    /// was idle is opened once more.
    pub fn exchange_tcp(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let reused = self.tcp.is_some();
        match self.try_tcp(bytes) {
            Err(_) if reused => self.try_tcp(bytes),
            other => other,
        }
    }

    fn try_tcp(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        // Only an exchange that worked leaves its connection for the next.
        let mut stream = match self.tcp.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        write_frame(&mut stream, bytes)?;
        let answer = read_frame(&mut stream)?;
        self.tcp = Some(stream);
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect_timeout(&self.server.into(), self.deadline)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(self.deadline))?;
        stream.set_write_timeout(Some(self.deadline))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Transfers a zone: all records between the two SOA, the first SOA included.
    pub fn transfer(&mut self, zone: &Dname) -> io::Result<Vec<Record>> {
        let id = self.take_id();
        let mut stream = self.connect()?;
        write_frame(&mut stream, &Query::new(zone, rtype::AXFR).encode(id))?;
        let mut records: Vec<Record> = Vec::new();
        loop {
            let message = decode(&read_frame(&mut stream)?)?;
            if message.id != id || message.rcode() != 0 || message.answer.is_empty() {
                return Err(io::Error::other(format!("no transfer of {zone}: {message:?}")));
            }
            for record in message.answer {
                // The transfer ends with the SOA it began with (RFC 5936 section 2.2).
                if !records.is_empty() && record.rtype == rtype::SOA && record.owner.lower() == zone.lower() {
                    return Ok(records);
                }
                records.push(record);
            }
        }
    }

    /// Serial of a zone, `None` when the server does not answer with authority.
    pub fn serial(&mut self, zone: &Dname) -> Option<u32> {
        let answer = self.ask(&Query::new(zone, rtype::SOA)).ok()?;
        let soa = answer.answer.iter().find(|record| record.rtype == rtype::SOA)?;
        (answer.is_authoritative() && answer.rcode() == 0).then(|| soa.serial())
    }

    /// A fresh message id.
    pub fn take_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

/// Writes a message with its length in front (RFC 1035 section 4.2.2), in one segment.
pub fn write_frame(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).expect("message fits a frame");
    stream.write_all(&[&length.to_be_bytes()[..], bytes].concat())
}

/// Reads one message.
pub fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Decodes an answer with our own reader, and demands that hickory-proto can read it as well.
pub fn decode(bytes: &[u8]) -> io::Result<Message> {
    let message = Message::decode(bytes).map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
    // RDATA without octets is allowed (RFC 3597 section 3), but hickory-proto knows it from updates only.
    let sections = [&message.answer, &message.authority, &message.additional];
    if sections.into_iter().flatten().any(|record| record.rdata.is_empty()) {
        return Ok(message);
    }
    if let Err(error) = hickory_proto::op::Message::from_vec(bytes) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("hickory-proto: {error}")));
    }
    Ok(message)
}
