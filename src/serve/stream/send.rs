//! Sending a zone transfer over a connection, message by message, each when the client has taken the one before.
//!
//! A client is measured by the octets that it takes: at least [`LEAST_RATE`] over each span of its [`Pace`]. So one
//! that reads slowly is served to the end, and one that takes nothing, or an octet now and then, holds neither a turn
//! nor an old version of the zone for longer than a span. The kernel must tell of progress soon for that, and it would
//! not with megabytes in its buffer: writing goes on only when a third of them is free. Therefore it is given no more
//! than [`UNSENT_BYTES`] that it cannot send yet; what is on its way is not bounded by that, so distance costs no
//! speed.
//!
//! A transfer whose place or turn is given to another is cut at once, and its client begins again. Over TLS none is
//! sent but with version 1.3 and the protocol "dot" agreed on (RFC 9103 sections 7.1 and 7.2), as by BIND.
//!
//! Cost: some messages of memory while it runs, nothing while it waits; O(octets).

use super::{Admission, Conversation, write};
use crate::metrics::Counted;
use crate::serve::places::Connection;
use crate::serve::respond::Outbound;
use crate::serve::xfr::{Oversized, Refusal, Sent};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use wire::message::{MAX_UDP_BYTES, rcode};
use wire::tsig::Signer;

/// The longest message with its length in front.
pub(super) const FRAME_BYTES: usize = 2 + u16::MAX as usize;
/// Octets a second that a client takes, as those transfers must that come in.
pub(super) const LEAST_RATE: u64 = 1024;
/// Over how many idle timeouts the rate is measured: 60 s with the default of 10 s,
const SPAN_TIMEOUTS: u32 = 6;
/// but never over more than this.
const LONGEST_SPAN: Duration = Duration::from_secs(60);
/// Octets of a transfer that the kernel holds beside those that are on their way.
pub(super) const UNSENT_BYTES: u32 = 128 << 10;

/// Pace at which a client has to take octets.
struct Pace<'a> {
    connection: &'a Connection,
    span: Duration,
    /// Time by which a span's worth of octets must have been taken.
    due: Instant,
    /// Number of those octets that are still to be taken until then.
    missing: u64,
}

/// Reason for which octets were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
enum Cut {
    /// The client takes less than the least rate.
    Slow,
    /// Its place, or its turn, is another's now.
    Displaced,
    /// The connection has ended.
    Aborted,
}

impl Cut {
    /// The metric label.
    fn label(self) -> &'static str {
        self.into()
    }
}

impl Pace<'_> {
    /// A client that begins now, on connections that may be idle for some time.
    fn new(connection: &Connection, idle: Duration) -> Pace<'_> {
        let span = idle.saturating_mul(SPAN_TIMEOUTS).min(LONGEST_SPAN);
        Pace { connection, span, due: Instant::now() + span, missing: Pace::least(span) }
    }

    /// The octets to be taken within a span.
    fn least(span: Duration) -> u64 {
        (span.as_millis() as u64 * LEAST_RATE / 1000).max(1)
    }

    /// Counts octets that were taken. The next span begins when one is complete, whatever was taken beyond: the buffers
    /// that fill at the beginning must not pay for a client that takes nothing later.
    fn take(&mut self, octets: usize) {
        self.missing = self.missing.saturating_sub(octets as u64);
        if self.missing == 0 {
            self.due = Instant::now() + self.span;
            self.missing = Pace::least(self.span);
        }
    }

    /// Writes octets as the stream takes them.
    async fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin), mut octets: &[u8]) -> Result<(), Cut> {
        while !octets.is_empty() {
            match self.bound(stream.write(octets)).await? {
                Ok(count) if count > 0 => {
                    self.take(count);
                    octets = &octets[count..];
                }
                _ => return Err(Cut::Aborted),
            }
        }
        Ok(())
    }

    /// Sends what the layers below still hold.
    async fn flush(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> Result<(), Cut> {
        self.bound(stream.flush()).await?.map_err(|_| Cut::Aborted)
    }

    /// Waits for something as long as the client has time.
    async fn bound<T>(&self, step: impl Future<Output = T>) -> Result<T, Cut> {
        tokio::select! {
            biased;
            () = self.connection.displaced() => Err(Cut::Displaced),
            done = timeout_at(self.due, step) => done.map_err(|_| Cut::Slow),
        }
    }
}

/// Sends a transfer when it is its turn. False when the connection is of no more use.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    mut outbound: Outbound,
    conversation: Conversation<'_>,
) -> bool {
    let Conversation { admission: Admission { context, peer, place, .. }, transport, has_transfers, .. } = conversation;
    let connection = &place.connection;
    let zone = outbound.transfer.zone.origin.to_string();
    let kind = outbound.transfer.kind;
    let rtype = outbound.transfer.request.question.as_ref().map(|question| question.rtype);
    let idle = context.idle();
    let turn =
        if has_transfers { context.slots.take(connection).await.ok_or(Refusal::Busy) } else { Err(Refusal::Tls) };
    let mut turn = match turn {
        Ok(turn) => turn,
        Err(refusal) => {
            context.responder.count(&zone, kind, refusal.label());
            let (request, key) = (&outbound.transfer.request, outbound.signer.as_ref().map(Signer::key));
            context.responder.log_refusal(request, *peer, key, kind, refusal);
            let mut frame = [0; 2 + MAX_UDP_BYTES];
            let response = outbound.refuse(refusal, context.responder.now(), &mut frame[2..]);
            let Some(response) = response else { return false };
            context.counters.count_shared(response.counted(transport, rtype));
            frame[..2].copy_from_slice(&(response.length as u16).to_be_bytes());
            return write(stream, &frame[..2 + response.length], idle).await;
        }
    };
    let started = Instant::now();
    let Outbound { transfer, mut signer } = outbound;
    context.counters.count_shared(Counted { transport, rtype, rcode: rcode::NOERROR, octets: None, truncated: false });
    let mut messages = transfer.messages();
    let (frame, mut pace) = (&mut turn.frame, Pace::new(connection, idle));
    let (mut octets, mut filled) = (0, 0);
    let result = loop {
        let reserve = signer.as_ref().map_or(0, Signer::overhead);
        let room = &mut frame[filled + 2..filled + FRAME_BYTES];
        let composed = messages.compose(room, reserve).map(|composed| match (composed, &mut signer) {
            (Ok(length), Some(signer)) => signer.sign(room, length, context.responder.now()),
            (Ok(length), None) => Some(length),
            (Err(Oversized), _) => None,
        });
        let is_last = composed.is_none();
        let Some(length) = composed.unwrap_or(Some(0)) else {
            // Behind what there is, nothing but the end of the connection can tell the client.
            break pace.write(stream, &frame[..filled]).await.err().map_or("oversized", Cut::label);
        };
        if !is_last {
            frame[filled..filled + 2].copy_from_slice(&(length as u16).to_be_bytes());
            filled += 2 + length;
            octets += length;
        }
        // Several messages at once are fewer calls of the kernel.
        if filled > FRAME_BYTES || is_last {
            if let Err(cut) = pace.write(stream, &frame[..filled]).await {
                break cut.label();
            }
            filled = 0;
            // A client that takes everything at once must not keep others from their turn.
            tokio::task::yield_now().await;
        }
        if is_last {
            break pace.flush(stream).await.err().map_or("ok", Cut::label);
        }
    };
    context.responder.count(&zone, kind, result);
    context.responder.count_peer(*peer, &transfer, result == "ok");
    let Sent { messages, records } = messages.sent;
    let (key, ms) = (signer.map(|signer| signer.key().to_string()), started.elapsed().as_millis() as u64);
    let (from, serial) = (transfer.from.map(|from| from.0), transfer.zone.soa.serial.0);
    tracing::info!(
        zone, %peer, key, kind = kind.label(), from, serial, messages, records, bytes = octets, ms, result, "transfer out"
    );
    result == "ok"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::places::{Class, Place, Places, Room};
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, DuplexStream};

    /// Octets that no buffer here holds.
    const MANY: usize = 1 << 20;

    /// A connection's place.
    fn place() -> Place {
        let places = Places::new(Room { total: 1, per_client: 1, reserved: 0 });
        places.enter([192, 0, 2, 1].into(), Class::General).0
    }

    /// Writes while a client takes so many octets each so many seconds; returns how that ends, and after how many
    /// seconds.
    async fn against(octets: usize, every: u64, buffer: usize) -> (Result<(), Cut>, u64) {
        let (mut ours, theirs) = tokio::io::duplex(buffer);
        let read = |mut theirs: DuplexStream| async move {
            let mut piece = vec![0; octets];
            loop {
                tokio::time::sleep(Duration::from_secs(every)).await;
                theirs.read_exact(&mut piece).await.unwrap();
            }
        };
        let begun = Instant::now();
        let place = place();
        let (octets, mut pace) = (vec![7; MANY], Pace::new(&place.connection, Duration::from_secs(10)));
        let written = tokio::select! {
            written = pace.write(&mut ours, &octets) => written,
            () = read(theirs) => unreachable!("the client never ends"),
        };
        (written, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn what_counts_is_the_rate_within_a_minute() {
        // 2 KiB/s, in whatever pieces.
        let (written, seconds) = against(2048, 1, 4096).await;
        assert_eq!((written, seconds / 10), (Ok(()), 51));
        assert_eq!(against(80 << 10, 40, 80 << 10).await.0, Ok(()));
        // An octet now and then, or nothing; what a large buffer has taken at once does not count for later.
        assert_eq!(against(1, 1, 100).await, (Err(Cut::Slow), 60));
        assert_eq!(against(1, 1, MANY - 4096).await, (Err(Cut::Slow), 60));
        assert_eq!(against(1000, 1, 4096).await.0, Err(Cut::Slow), "just below the least rate");
        assert_eq!(against(1, 1000, MANY).await, (Ok(()), 0), "with room for everything");
    }

    #[tokio::test]
    async fn a_connection_that_ends_is_noticed_at_once() {
        let (mut ours, theirs) = tokio::io::duplex(100);
        drop(theirs);
        let place = place();
        let mut pace = Pace::new(&place.connection, Duration::from_secs(10));
        assert_eq!(pace.write(&mut ours, &[7; 200]).await, Err(Cut::Aborted));
    }

    #[tokio::test]
    async fn a_connection_that_is_displaced_is_cut_at_once() {
        let (mut ours, _theirs) = tokio::io::duplex(100);
        let place = place();
        let connection: Arc<Connection> = place.connection.clone();
        let mut pace = Pace::new(&connection, Duration::from_secs(3600));
        let (written, ()) = tokio::join!(pace.write(&mut ours, &[7; 200]), async { connection.displace() });
        assert_eq!(written, Err(Cut::Displaced));
    }

    #[tokio::test(start_paused = true)]
    async fn spans_follow_the_idle_timeout_up_to_a_minute() {
        for (idle, span) in [(0, 0), (2, 12), (10, 60), (3600, 60), (u64::MAX, 60)] {
            assert_eq!(Pace::new(&place().connection, Duration::from_secs(idle)).span, Duration::from_secs(span));
        }
    }
}
