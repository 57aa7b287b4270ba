//! The TCP client of full zone transfers: one connection, one query, messages until the closing SOA.
//!
//! Invariants: a transfer ends by itself whatever the primary does. Four clocks bound it (connection, message, total,
//! progress) and three counters (bytes, records, messages); each has an error of its own. Records leave only through
//! [`AxfrReader::finish`], so an incomplete transfer leaves nothing.
//!
//! Cost: O(bytes); memory for one message and the records.
//!
//! Framing: RFC 1035 section 4.2.2, RFC 7766 section 8; transfer: RFC 5936 section 4.

use crate::name::Name;
use crate::transfer::axfr::{AxfrReader, Progress, write_query};
use crate::transfer::error::{Phase, TransferError};
use crate::transfer::plan::{Limits, PrimaryPlan};
use crate::zone::{Loader, Soa};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

/// Time before the average rate counts: a primary may think before it sends.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// Bytes asked from the kernel at a time: the longest message with its length.
const BUFFER_BYTES: usize = 65_537;

/// What a complete transfer was like.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub soa: Soa,
    pub bytes: u64,
    pub messages: u64,
}

/// Transfers a zone from a primary.
pub async fn fetch(zone: &Name, primary: &PrimaryPlan, limits: &Limits) -> Result<(Summary, Loader), TransferError> {
    let begun = Instant::now();
    let stream = match timeout(limits.connect_timeout, connect(primary)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(TransferError::Timeout(Phase::Connect)),
    };
    // A random number that needs no generator: the hasher's keys differ from one to the next.
    let id = RandomState::new().hash_one(begun) as u16;
    exchange(stream, AxfrReader::new(zone.clone(), id), &write_query(zone, id), limits, begun).await
}

async fn connect(primary: &PrimaryPlan) -> Result<TcpStream, TransferError> {
    let socket = if primary.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(TransferError::Connect)?;
    if let Some(source) = primary.source {
        socket.bind(SocketAddr::new(source, 0)).map_err(|error| TransferError::Source(source, error))?;
    }
    let stream = socket.connect(primary.address).await.map_err(TransferError::Connect)?;
    // The query is one small segment that must not wait for company; failing to ask for that does no harm.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Sends the query and reads until the reader has the whole zone.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    reader: AxfrReader,
    query: &[u8],
    limits: &Limits,
    begun: Instant,
) -> Result<(Summary, Loader), TransferError> {
    let mut incoming = Incoming {
        stream: BufReader::with_capacity(BUFFER_BYTES, stream),
        limits,
        begun,
        message_begun: Instant::now(),
        bytes: 0,
        messages: 0,
    };
    let mut reader = Discard(Some(reader));
    incoming.send(query).await?;
    let mut message = Vec::new();
    let mut progress = Progress::More;
    while progress == Progress::More {
        incoming.receive(&mut message).await?;
        progress = reader.get().feed(&message)?;
        if reader.get().records() > limits.max_records {
            return Err(TransferError::TooManyRecords(limits.max_records));
        }
    }
    let (soa, loader) = reader.0.take().expect("taken only here").finish()?;
    Ok((Summary { soa, bytes: incoming.bytes, messages: incoming.messages }, loader))
}

/// A reader whose records, when the transfer fails, are freed where it stops no other zone's task.
struct Discard(Option<AxfrReader>);

impl Discard {
    fn get(&mut self) -> &mut AxfrReader {
        self.0.as_mut().expect("taken only when the transfer is complete")
    }
}

impl Drop for Discard {
    fn drop(&mut self) {
        let many = self.0.as_ref().is_some_and(|reader| reader.records() > 10_000);
        if let (true, Ok(runtime)) = (many, tokio::runtime::Handle::try_current()) {
            let reader = self.0.take();
            runtime.spawn_blocking(move || drop(reader));
        }
    }
}

/// The receiving side of a connection with its clocks and counters.
struct Incoming<'a, S> {
    stream: BufReader<S>,
    limits: &'a Limits,
    begun: Instant,
    message_begun: Instant,
    bytes: u64,
    messages: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Incoming<'_, S> {
    /// Sends a message with its length in front, in one segment (RFC 7766 section 8).
    async fn send(&mut self, message: &[u8]) -> Result<(), TransferError> {
        let length = u16::try_from(message.len()).expect("a query for one name is short");
        let frame = [&length.to_be_bytes(), message].concat();
        let (deadline, late) = self.deadline();
        match timeout_at(deadline, self.stream.get_mut().write_all(&frame)).await {
            Ok(written) => written.map_err(TransferError::from_stream),
            Err(_) => Err(late),
        }
    }

    /// Reads the next message.
    async fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), TransferError> {
        if self.messages >= self.limits.max_messages {
            return Err(TransferError::TooManyMessages(self.limits.max_messages));
        }
        let mut length = [0; 2];
        self.fill(&mut length).await?;
        message.clear();
        message.resize(usize::from(u16::from_be_bytes(length)), 0);
        self.fill(message).await?;
        self.messages += 1;
        self.message_begun = Instant::now();
        Ok(())
    }

    /// Reads exactly as many bytes as the buffer holds, in however many segments they come.
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), TransferError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (deadline, late) = self.deadline();
            // A stream that always has bytes ready never lets the timer speak.
            if Instant::now() >= deadline {
                return Err(late);
            }
            let count = match timeout_at(deadline, self.stream.read(&mut buffer[filled..])).await {
                Ok(count) => count.map_err(TransferError::from_stream)?,
                Err(_) => return Err(late),
            };
            if count == 0 {
                return Err(TransferError::Closed);
            }
            filled += count;
            self.bytes += count as u64;
            if self.bytes > self.limits.max_bytes {
                return Err(TransferError::TooLarge(self.limits.max_bytes));
            }
        }
        Ok(())
    }

    /// The clock that runs out first if no more bytes come, and what to say then.
    fn deadline(&self) -> (Instant, TransferError) {
        let rate = self.limits.min_rate_bytes;
        let message = self.message_begun + self.limits.message_timeout;
        let total = self.begun + self.limits.total_timeout;
        let mut first = if total <= message {
            (total, TransferError::Timeout(Phase::Total))
        } else {
            (message, TransferError::Timeout(Phase::Message))
        };
        if rate > 0 {
            // What has come is enough until then, at the least rate.
            let enough = Duration::from_millis((self.bytes.saturating_mul(1000)) / rate);
            let slow = self.begun + enough.max(RATE_GRACE);
            if slow < first.0 {
                first = (slow, TransferError::Slow(rate));
            }
        }
        first
    }
}
