//! The task that writes to a collector, and connects again when it is gone.
//!
//! Invariants: one connection at a time; a frame is written whole or its connection is given up. A collector that takes
//! nothing for [`PATIENCE`] is one that is gone. While there is none, what the queue has room for waits; the rest is
//! dropped by those who answer. Cost: O(octets) written; one attempt a second at most.

use super::frames::{self, Control, FrameError, control};
use super::{Bundle, Collector};
use crate::metrics::Metrics;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// Longest time for a connection, a greeting, or a write.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Bundles that are written together at most.
const AT_ONCE: usize = 64;

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why a connection has ended.
enum End {
    /// There will be no more.
    Finished,
    Failed(FrameError),
}

/// Writes bundles to a collector until their queue is closed, or the process ends.
pub async fn feed(
    collector: Collector,
    mut bundles: mpsc::Receiver<Bundle>,
    mut ending: watch::Receiver<bool>,
    metrics: &Metrics,
) {
    // Said once for each time that it goes: a collector that is down for an hour has one line.
    let mut is_told = false;
    loop {
        let connected = tokio::select! {
            connected = connect(&collector) => connected,
            // What waits has nobody who takes it.
            () = is_over(&mut ending) => return drop_all(&mut bundles, metrics),
        };
        let error = match connected {
            Ok(stream) => {
                tracing::info!(%collector, "dnstap: connected");
                is_told = false;
                metrics.dnstap_connected.set(1);
                let end = write_all(stream, &mut bundles, &mut ending, metrics).await;
                metrics.dnstap_connected.set(0);
                match end {
                    End::Finished => return,
                    End::Failed(error) => error,
                }
            }
            Err(error) => error,
        };
        if !is_told {
            let advice = "messages are dropped until it is there again; it is tried each second";
            tracing::warn!(%collector, %error, advice, "dnstap: no collector");
            is_told = true;
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = is_over(&mut ending) => return drop_all(&mut bundles, metrics),
        }
    }
}

/// Waits until nobody takes copies any more, or the process ends.
async fn is_over(ending: &mut watch::Receiver<bool>) {
    // An error says that the tap is gone.
    let _ = ending.wait_for(|is_ending| *is_ending).await;
}

/// Counts what waits as dropped.
fn drop_all(bundles: &mut mpsc::Receiver<Bundle>, metrics: &Metrics) {
    bundles.close();
    let dropped = metrics.dnstap_messages.with_label_values(&["dropped"]);
    while let Ok(bundle) = bundles.try_recv() {
        dropped.inc_by(bundle.messages);
    }
}

/// Connects and exchanges greetings.
async fn connect(collector: &Collector) -> Result<Box<dyn Stream>, FrameError> {
    let greeted = async {
        let mut stream: Box<dyn Stream> = match collector {
            Collector::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Collector::Address(address) => {
                let stream = TcpStream::connect(address).await?;
                // Bundles are written whole already.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
        };
        stream.write_all(&control(Control::Ready)).await?;
        frames::expect(Control::Accept, &mut stream).await?;
        stream.write_all(&control(Control::Start)).await?;
        Ok(stream)
    };
    within(greeted).await
}

/// Writes bundles until there are no more, then says farewell; or until the collector is gone.
async fn write_all(
    mut stream: Box<dyn Stream>,
    bundles: &mut mpsc::Receiver<Bundle>,
    ending: &mut watch::Receiver<bool>,
    metrics: &Metrics,
) -> End {
    let sent = metrics.dnstap_messages.with_label_values(&["sent"]);
    let dropped = metrics.dnstap_messages.with_label_values(&["dropped"]);
    let (mut waiting, mut heard) = (Vec::new(), [0; 1]);
    loop {
        let count = tokio::select! {
            biased;
            count = bundles.recv_many(&mut waiting, AT_ONCE) => count,
            // What is in the queue is still received.
            () = is_over(ending), if !bundles.is_closed() => {
                bundles.close();
                continue;
            }
            // A collector has nothing to say before it is told of the end: it has gone, without a write of ours.
            read = stream.read(&mut heard) => {
                let error = read.err().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                return End::Failed(error.into());
            }
        };
        if count == 0 {
            break;
        }
        let messages = waiting.iter().map(|bundle: &Bundle| bundle.messages).sum();
        let frames = waiting.drain(..).map(|bundle| bundle.frames).collect::<Vec<_>>().concat();
        let written = async { Ok(stream.write_all(&frames).await?) };
        if let Err(error) = within(written).await {
            dropped.inc_by(messages);
            return End::Failed(error);
        }
        sent.inc_by(messages);
    }
    let farewell = async {
        stream.write_all(&control(Control::Stop)).await?;
        frames::expect(Control::Finish, &mut stream).await
    };
    // All that was to be said is said.
    let _ = within(farewell).await;
    End::Finished
}

/// Waits for a step, but not for ever.
async fn within<T>(step: impl Future<Output = Result<T, FrameError>>) -> Result<T, FrameError> {
    match timeout(PATIENCE, step).await {
        Ok(result) => result,
        Err(_) => Err(FrameError::Connection(io::ErrorKind::TimedOut.into())),
    }
}
