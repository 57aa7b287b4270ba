//! The TCP client of zone transfers: one connection, one query, messages until the reader has enough.
//!
//! Invariants: a transfer ends by itself whatever the primary does. Five clocks bound it (connection, message, total,
//! progress, and one for answers that may be over) and three counters (bytes, records, messages); each has an error of
//! its own. Records leave only through [`Reader::finish`], so an incomplete transfer leaves nothing. The connection is
//! closed when the reader has enough: CNS sends the whole zone to whoever has it already, and must not be listened to.
//! With a key, no octet of a message is looked at before its MAC, and the last message must have one. What each message
//! has become in memory is claimed of the budget before the next one is read.
//!
//! Cost: O(bytes); memory for one message and the records.
//!
//! Framing: RFC 1035 section 4.2.2, RFC 7766 section 8; transfer: RFC 5936 section 4, RFC 1995 section 2; TSIG: RFC
//! 8945 section 5.3.1.

use crate::budget::Claim;
use crate::client::{self, Server, now};
use crate::transfer::error::{Phase, TransferError};
use crate::transfer::plan::Limits;
use crate::transfer::progress::Tally;
use crate::transfer::reader::{Progress, Reader, Received};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout, timeout_at};
use wire::tsig::{self, Key};

/// Time before the average rate counts: a primary may think before it sends.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// How long more is waited for behind a newer SOA that came alone in answer to a question for differences: the whole
/// zone is to be had at once.
const LONE_SOA_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes asked from the kernel at a time: the longest message with its length.
const BUFFER_BYTES: usize = 65_537;

/// How much a complete transfer took.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub bytes: u64,
    pub messages: u64,
}

/// Connects to a primary, asks what the reader is to be told, and reads the answer.
pub async fn fetch(
    reader: Reader,
    primary: &Server,
    limits: &Limits,
    tally: &Tally,
    claim: &Claim,
) -> Result<(Received, Traffic), TransferError> {
    let begun = Instant::now();
    let stream = match timeout(limits.connect_timeout, client::open(primary)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(TransferError::Timeout(Phase::Connect)),
    };
    tokio::select! {
        biased;
        excess = claim.refused() => Err(TransferError::Memory(excess)),
        received = exchange(stream, reader, primary.key.as_ref(), limits, begun, (tally, claim)) => received,
    }
}

/// Sends the query and reads until the reader has enough.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    reader: Reader,
    key: Option<&Arc<Key>>,
    limits: &Limits,
    begun: Instant,
    (tally, claim): (&Tally, &Claim),
) -> Result<(Received, Traffic), TransferError> {
    let mut query = reader.write_query();
    let mut chain = key.map(|key| tsig::sign_request(&mut query, key, now()));
    let mut incoming = Incoming {
        stream: BufReader::with_capacity(BUFFER_BYTES, stream),
        limits,
        begun,
        message_begun: Instant::now(),
        lone_soa: false,
        bytes: 0,
        messages: 0,
    };
    let mut reader = Discard(Some(reader));
    incoming.send(&query).await?;
    let mut message = Vec::new();
    let mut progress = Progress::More;
    while progress == Progress::More {
        incoming.receive(&mut message).await?;
        if let Some(chain) = &mut chain {
            chain.check(&mut message, now())?;
        }
        progress = reader.get().feed(&message)?;
        incoming.lone_soa = reader.get().has_lone_soa();
        tally.note(reader.get().records(), incoming.bytes);
        if reader.get().is_whole() {
            claim.replace();
        }
        let asked = Instant::now();
        claim.grow(reader.get().octets()).await?;
        // What waits for room in memory is no fault of the primary.
        incoming.begun += asked.elapsed();
        incoming.message_begun += asked.elapsed();
        if reader.get().records() > limits.max_records {
            return Err(TransferError::TooManyRecords(limits.max_records));
        }
    }
    if let Some(chain) = chain {
        chain.finish()?;
    }
    let received = reader.0.take().expect("taken only here").finish()?;
    Ok((received, Traffic { bytes: incoming.bytes, messages: incoming.messages }))
}

/// A reader whose records, when the transfer fails, are freed where it stops no other zone's task.
struct Discard(Option<Reader>);

impl Discard {
    /// The reader, while the transfer runs.
    fn get(&mut self) -> &mut Reader {
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
    /// Whether the answer may be over although it is not complete.
    lone_soa: bool,
    bytes: u64,
    messages: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Incoming<'_, S> {
    /// Sends a message.
    async fn send(&mut self, message: &[u8]) -> Result<(), TransferError> {
        let (deadline, late) = self.deadline();
        match timeout_at(deadline, self.stream.get_mut().write_all(&client::frame(message))).await {
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
            self.lone_soa = false;
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
        // What has come is enough until then, at the least rate; a rate of zero asks for nothing.
        let enough = self.bytes.saturating_mul(1000).checked_div(rate).map(Duration::from_millis);
        let clocks = [
            Some((self.begun + self.limits.total_timeout, TransferError::Timeout(Phase::Total))),
            Some((self.message_begun + self.limits.message_timeout, TransferError::Timeout(Phase::Message))),
            self.lone_soa.then(|| (self.message_begun + LONE_SOA_PATIENCE, TransferError::LoneSoa)),
            enough.map(|enough| (self.begun + enough.max(RATE_GRACE), TransferError::Slow(rate))),
        ];
        clocks.into_iter().flatten().min_by_key(|(at, _)| *at).expect("two clocks run always")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Manner};
    use crate::transfer::reader::tests::{Message, soa};
    use crate::zone::Loader;
    use tokio::io::DuplexStream;
    use wire::name::{Name, NameBuf};

    fn zone() -> Name {
        Name::parse("z.example").unwrap()
    }

    fn frame(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes(), message].concat()
    }

    /// A zone of as many address records in one message, its length in front.
    fn answer(records: u32) -> Vec<u8> {
        let mut message = Message::new(7, true);
        message.record(b"", 6, &soa(1));
        (0..records).for_each(|number| message.record(b"\x01a", 1, &number.to_be_bytes()));
        message.record(b"", 6, &soa(1));
        frame(&message.bytes)
    }

    /// Asks a primary played by `play` for the whole zone.
    async fn against<F: Future<Output = ()>>(
        limits: Limits,
        play: impl FnOnce(DuplexStream) -> F,
    ) -> Result<(Traffic, Loader), TransferError> {
        match ask(Reader::axfr(zone(), 7), limits, play).await? {
            (Received::Full(_, loader), traffic) => Ok((traffic, loader)),
            _ => unreachable!("the whole zone was asked for"),
        }
    }

    /// Runs an exchange against a primary played by `play`.
    async fn ask<F: Future<Output = ()>>(
        reader: Reader,
        limits: Limits,
        play: impl FnOnce(DuplexStream) -> F,
    ) -> Result<(Received, Traffic), TransferError> {
        let (tally, claim) = (Tally::default(), Arc::new(Budget::default()).begin(&zone(), Manner::Change));
        let (ours, mut theirs) = tokio::io::duplex(1 << 17);
        let query = reader.write_query();
        let client = exchange(ours, reader, None, &limits, Instant::now(), (&tally, &claim));
        let primary = async {
            let mut received = vec![0; query.len() + 2];
            theirs.read_exact(&mut received).await.unwrap();
            assert_eq!(received, frame(&query));
            play(theirs).await;
            std::future::pending::<()>().await
        };
        tokio::select! {
            result = client => result,
            () = primary => unreachable!("the primary never ends"),
        }
    }

    /// Writes a byte every so often until the other end has gone.
    async fn dribble(mut stream: DuplexStream, bytes: Vec<u8>, pause: Duration) {
        for byte in bytes {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
        std::future::pending::<()>().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_may_come_byte_by_byte() {
        let limits = Limits { min_rate_bytes: 0, ..Limits::default() };
        let (traffic, loader) =
            against(limits, |stream| dribble(stream, answer(3), Duration::from_millis(10))).await.unwrap();
        assert_eq!((traffic.messages, loader.records()), (1, 4));
        assert_eq!(traffic.bytes, answer(3).len() as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_message_is_taken() {
        // Each record is 27 bytes; the header, the question and two SOA are the rest.
        let bytes = answer((65_535 - answer(0).len() as u32) / 27);
        assert!(bytes.len() > 65_500);
        let result = against(Limits::default(), |mut stream| async move { stream.write_all(&bytes).await.unwrap() });
        assert_eq!(result.await.unwrap().0.messages, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_run_out_with_their_own_names() {
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        let result = against(Limits::default(), |stream| dribble(stream, answer(1000), second / 5)).await;
        assert_eq!(result.err().unwrap().reason(), "slow");
        assert_eq!(begun.elapsed().as_secs(), 10, "found out in the tenth second");

        let limits = Limits { min_rate_bytes: 0, ..Limits::default() };
        let result = against(limits, |stream| dribble(stream, answer(1000), second / 5)).await;
        assert_eq!(result.err().unwrap().reason(), "timeout_message");

        let limits = Limits { min_rate_bytes: 0, total_timeout: 3 * second, ..Limits::default() };
        let result = against(limits, |stream| dribble(stream, answer(1000), second / 5)).await;
        assert_eq!(result.err().unwrap().reason(), "timeout_total");
    }

    #[tokio::test(start_paused = true)]
    async fn counters_run_over_with_their_own_names() {
        let endless = |mut stream: DuplexStream| async move {
            let mut message = Message::new(7, true);
            message.record(b"", 6, &soa(1));
            stream.write_all(&frame(&message.bytes)).await.unwrap();
            let mut more = Message::new(7, false);
            (0..50u32).for_each(|number| more.record(b"\x01a", 1, &number.to_be_bytes()));
            while stream.write_all(&frame(&more.bytes)).await.is_ok() {}
        };
        let limits = Limits { max_bytes: 100_000, ..Limits::default() };
        assert_eq!(against(limits, endless).await.err().unwrap().reason(), "too_large");
        let limits = Limits { max_records: 10_000, ..Limits::default() };
        assert_eq!(against(limits, endless).await.err().unwrap().reason(), "too_many_records");
        let limits = Limits { max_messages: 100, ..Limits::default() };
        assert_eq!(against(limits, endless).await.err().unwrap().reason(), "too_many_messages");
    }

    /// A primary may send its SOA alone at first and think about the rest, but not for long.
    #[tokio::test(start_paused = true)]
    async fn a_newer_soa_alone_is_waited_behind_for_a_moment() {
        let mut loader = Loader::new(zone());
        loader.push(&NameBuf::parse("z.example").unwrap(), 6, 30, &soa(1));
        let base = Arc::new(loader.finish(None).unwrap().zone);
        let thinks = async |pause: u64, alone: bool| {
            let begun = Instant::now();
            let result = ask(Reader::ixfr(base.clone(), 7), Limits::default(), |mut stream| async move {
                let mut messages = [true, false, false].map(|question| Message::differences(7, question));
                messages[0].record(b"", 6, &soa(2));
                if !alone {
                    messages[0].record(b"", 6, &soa(1));
                }
                messages[1].record(b"", 6, &soa(if alone { 1 } else { 2 }));
                if alone {
                    messages[1].record(b"", 6, &soa(2));
                }
                messages[2].record(b"", 6, &soa(2));
                for message in messages {
                    // Whoever has heard enough is gone.
                    let _ = stream.write_all(&frame(&message.bytes)).await;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                std::future::pending::<()>().await
            });
            (result.await.map_or_else(|error| error.reason(), |_| "none"), begun.elapsed().as_secs())
        };
        assert_eq!(thinks(1900, true).await, ("none", 3));
        assert_eq!(thinks(2100, true).await, ("ixfr_lone_soa", 2));
        assert_eq!(thinks(4000, false).await, ("none", 8), "what has begun may take its time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_connection_is_closed() {
        let cut = |mut stream: DuplexStream| async move {
            let bytes = answer(3);
            stream.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
            stream.shutdown().await.unwrap();
            std::future::pending::<()>().await
        };
        assert_eq!(against(Limits::default(), cut).await.err().unwrap().reason(), "closed");
    }

    /// Reads a zone that comes in three messages, some of them signed, after `spoil` had its way with them.
    async fn signed(signed: [bool; 3], spoil: impl Fn(&mut [Vec<u8>])) -> &'static str {
        let key = Arc::new(Key::new(Name::parse("k.test").unwrap(), tsig::Algorithm::Sha256, vec![7; 32]));
        let (ours, mut theirs) = tokio::io::duplex(1 << 17);
        let primary = async {
            let mut query = vec![0; usize::from(theirs.read_u16().await.unwrap())];
            theirs.read_exact(&mut query).await.unwrap();
            let keys = [(key.name.clone(), key.clone())].into();
            let tsig::Opened::Signed { mut signer, .. } = tsig::open_request(&mut query, &keys, now()) else {
                panic!("the query is signed");
            };
            let mut messages = [true, false, false].map(|question| Message::new(7, question));
            messages[0].record(b"", 6, &soa(1));
            messages[1].record(b"\x01a", 1, &[192, 0, 2, 1]);
            messages[2].record(b"", 6, &soa(1));
            let mut messages = messages.map(|message| message.bytes);
            for (message, _) in messages.iter_mut().zip(signed).filter(|(_, signed)| *signed) {
                let length = message.len();
                message.resize(length + signer.overhead(), 0);
                let length = signer.sign(message, length, now()).unwrap();
                message.truncate(length);
            }
            spoil(&mut messages);
            for message in messages {
                // The client may have heard enough.
                let _ = theirs.write_all(&frame(&message)).await;
            }
            std::future::pending::<()>().await
        };
        let (reader, limits, tally) = (Reader::axfr(zone(), 7), Limits::default(), Tally::default());
        let claim = Arc::new(Budget::default()).begin(&zone(), Manner::Change);
        tokio::select! {
            result = exchange(ours, reader, Some(&key), &limits, Instant::now(), (&tally, &claim)) => {
                result.map_or_else(|error| error.reason(), |_| "none")
            }
            () = primary => unreachable!("the primary never ends"),
        }
    }

    #[tokio::test]
    async fn with_a_key_every_message_is_checked_and_the_last_is_signed() {
        assert_eq!(signed([true; 3], |_| ()).await, "none");
        assert_eq!(signed([false; 3], |_| ()).await, "unsigned");
        assert_eq!(signed([true, true, false], |_| ()).await, "unsigned", "the last message");
        for index in 0..3 {
            // The lowest octet of the flags is no content, and yet nobody may change it on the way.
            assert_eq!(
                signed([true; 3], |messages| messages[index][3] ^= 0x10).await,
                "bad_signature",
                "message {index}"
            );
        }
        assert_eq!(signed([true; 3], |messages| messages.swap(1, 2)).await, "bad_signature", "in another order");
        assert_eq!(signed([true; 3], |messages| messages[1] = messages[0].clone()).await, "bad_signature", "repeated");
    }
}
