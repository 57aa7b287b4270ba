//! The connection to VMAPI's change feed, which tells that instances have changed.
//!
//! A connection that ends is followed by another one, after 2, 4, 8 and then 10 seconds. The server sends nothing by
//! itself, so a connection is proved by what it answers: our heartbeats are octets that the system must see acknowledged
//! (see `client::stream`), and a server that has answered one ping must answer the others.
//!
//! Invariants: every connection begins with [`Signal::Bootstrap`], or what it tells is ignored; signals keep the order of
//! the frames; a frame that cannot be read ends the connection, since nobody knows what it would have told.
//!
//! Cost: O(frame).
//!
//! RFC 6455 (WebSocket).

use super::frames::{self, Frame, LONGEST_FRAME};
use super::services::Services;
use crate::source::inventory::feeder::Failure;
use futures_util::{SinkExt, StreamExt};
use inventory::model::Uuid;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Time between two heartbeats, as CNS sends them.
const HEARTBEAT: Duration = Duration::from_millis(27_817);
/// Time between two pings.
const PING: Duration = Duration::from_secs(10);
/// Time for an answer to a ping.
const PONG: Duration = Duration::from_secs(20);
/// Time for a connection and its bootstrap.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pauses before the next connection.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8), Duration::from_secs(10)];

/// What the connection tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// From now on changes are told; all before may have been missed.
    Bootstrap,
    /// An instance has changed.
    Item(Uuid),
    /// There is no connection.
    Lost(Failure),
}

/// Keeps a connection until nobody reads the signals any more.
pub async fn follow(services: Arc<Services>, instance: Uuid, signals: mpsc::Sender<Signal>) {
    let mut failures = 0;
    loop {
        let mut is_ready = false;
        let failure = run(&services, instance, &signals, &mut is_ready).await;
        if is_ready {
            failures = 0;
        }
        if signals.send(Signal::Lost(failure)).await.is_err() {
            return;
        }
        sleep(PAUSES[failures.min(PAUSES.len() - 1)]).await;
        failures += 1;
    }
}

/// One connection from its beginning to its end.
async fn run(services: &Services, instance: Uuid, signals: &mpsc::Sender<Signal>, is_ready: &mut bool) -> Failure {
    let begun = Instant::now();
    let opened = timeout(PATIENCE, open(services, instance)).await;
    let mut socket = match opened {
        Ok(Ok(socket)) => socket,
        Ok(Err(failure)) => return failure,
        Err(_) => return slow(),
    };
    let (mut heartbeats, mut pings) = (interval(HEARTBEAT), interval(PING));
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first ticks come at once, when there is nothing to prove yet.
    heartbeats.tick().await;
    // The oldest ping without an answer, and whether one was ever answered.
    let mut unanswered: Option<Instant> = None;
    let mut answers_pings = false;
    loop {
        let told = tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => match frames::read(&text) {
                    Ok(Frame::Bootstrap) => {
                        *is_ready = true;
                        Signal::Bootstrap
                    }
                    Ok(Frame::Item(uuid)) if *is_ready => Signal::Item(uuid),
                    // An item before the bootstrap is of no use, since everything is listed after it.
                    Ok(Frame::Item(_) | Frame::Other) => continue,
                    Err(error) => return Failure::new("feed", format!("VMAPI's change feed: {error}")),
                },
                Some(Ok(Message::Pong(_))) => {
                    (unanswered, answers_pings) = (None, true);
                    continue;
                }
                Some(Ok(Message::Close(_))) | None => return Failure::new("feed", "VMAPI closed the change feed"),
                Some(Ok(_)) => continue,
                Some(Err(error)) => return lost(&error),
            },
            _ = heartbeats.tick() => match socket.send(Message::text("heartbeat")).await {
                Ok(()) => continue,
                Err(error) => return lost(&error),
            },
            now = pings.tick() => {
                let is_late = unanswered.is_some_and(|since| now - since > PONG);
                if is_late && answers_pings || !*is_ready && now - begun > PATIENCE {
                    return slow();
                }
                unanswered.get_or_insert(now);
                match timeout(PONG, socket.send(Message::Ping(Vec::new().into()))).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => return lost(&error),
                    Err(_) => return slow(),
                }
            }
        };
        if signals.send(told).await.is_err() {
            return Failure::new("feed", "nobody reads the change feed");
        }
    }
}

/// Connection of the feed.
type Socket = tokio_tungstenite::WebSocketStream<Box<dyn crate::client::stream::Stream>>;

/// Opens a connection and asks for items.
async fn open(services: &Services, instance: Uuid) -> Result<Socket, Failure> {
    let endpoint = services.changefeed();
    let stream = endpoint.connect().await;
    let stream = stream.map_err(|error| Failure::new(error.label(), format!("VMAPI's change feed {error}")))?;
    // The scheme says how the connection was made, which is none of the library's business.
    let url = format!("ws://{}{}", endpoint.authority(), endpoint.path("/changefeeds"));
    let request = url.into_client_request().map_err(|error| lost(&error))?;
    let limits = WebSocketConfig::default().max_message_size(Some(LONGEST_FRAME)).max_frame_size(Some(LONGEST_FRAME));
    let (mut socket, _) =
        client_async_with_config(request, stream, Some(limits)).await.map_err(|error| lost(&error))?;
    socket.send(Message::text(frames::registration(instance))).await.map_err(|error| lost(&error))?;
    Ok(socket)
}

fn lost(error: &Error) -> Failure {
    Failure::new("feed", format!("VMAPI's change feed: {error}"))
}

fn slow() -> Failure {
    Failure::new("slow", "VMAPI's change feed does not answer")
}
