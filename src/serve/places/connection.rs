//! State of one connection: since when it is without a complete request, and how many octets its client has taken.
//!
//! Octets are those that the kernel took, below TLS and HTTP, so that one measure holds for all transports.
//!
//! Cost: 10 counters for each connection; O(1) for each write.

use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::io::InspectWriter;

/// Over how many seconds octets are counted.
const SECONDS: usize = 10;

/// One connection, as far as others may know it.
pub struct Connection {
    /// Address under which the client is counted.
    pub client: IpAddr,
    /// Number of the connection, in the order of coming.
    pub id: u64,
    epoch: Instant,
    /// Nanoseconds from the epoch to its last complete request, or to its beginning.
    since: AtomicU64,
    taken: Mutex<Taken>,
    displaced: watch::Sender<bool>,
}

impl Connection {
    /// Time for which octets count.
    pub const SPAN: Duration = Duration::from_secs(SECONDS as u64);

    /// A connection that begins now.
    pub(super) fn new(client: IpAddr, id: u64, epoch: Instant) -> Connection {
        let connection = Connection {
            client,
            id,
            epoch,
            since: AtomicU64::default(),
            taken: Mutex::default(),
            displaced: watch::Sender::new(false),
        };
        connection.note_request();
        connection
    }

    /// Time of the last complete request.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Takes note of a complete request.
    pub fn note_request(&self) {
        self.since.store(self.epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Octets that the client has taken within the last ten seconds.
    pub fn taken_lately(&self) -> u64 {
        self.taken.lock().sum(self.epoch.elapsed().as_secs())
    }

    /// A stream of this connection, whose written octets count as taken.
    pub fn measure<S: AsyncWrite>(self: &Arc<Self>, stream: S) -> Measured<S> {
        let connection = self.clone();
        InspectWriter::new(stream, Box::new(move |octets: &[u8]| connection.take(octets.len())))
    }

    /// Counts octets that the client has taken.
    fn take(&self, octets: usize) {
        let now = self.epoch.elapsed().as_secs();
        self.taken.lock().add(now, octets as u64);
    }

    /// Tells whoever serves the connection to end it.
    pub fn displace(&self) {
        self.displaced.send_replace(true);
    }

    /// Waits until the connection is to end.
    pub async fn displaced(&self) {
        // The sender lives as long as this does.
        let _ = self.displaced.subscribe().wait_for(|displaced| *displaced).await;
    }
}

/// Octets in each of the last seconds.
#[derive(Default)]
struct Taken {
    /// The last second that anything is known of.
    last: u64,
    seconds: [u64; SECONDS],
}

impl Taken {
    /// Forgets what is too old.
    fn advance(&mut self, now: u64) {
        let new = now.saturating_sub(self.last).min(SECONDS as u64);
        for second in 0..new {
            self.seconds[((now - second) % SECONDS as u64) as usize] = 0;
        }
        self.last = self.last.max(now);
    }

    fn add(&mut self, now: u64, octets: u64) {
        self.advance(now);
        self.seconds[(self.last % SECONDS as u64) as usize] += octets;
    }

    fn sum(&mut self, now: u64) -> u64 {
        self.advance(now);
        self.seconds.iter().sum()
    }
}

/// A stream whose written octets count as taken.
pub type Measured<S> = InspectWriter<S, Box<dyn FnMut(&[u8]) + Send>>;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn octets_count_for_ten_seconds() {
        let mut taken = Taken::default();
        taken.add(3, 100);
        taken.add(3, 1);
        taken.add(9, 20);
        assert_eq!((taken.sum(9), taken.sum(12)), (121, 121));
        assert_eq!((taken.sum(13), taken.sum(18), taken.sum(19)), (20, 20, 0));
        taken.add(1000, 7);
        assert_eq!((taken.sum(1000), taken.sum(5000)), (7, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_stream_takes_is_measured() {
        let connection = Arc::new(Connection::new([192, 0, 2, 1].into(), 1, Instant::now()));
        let (ours, _theirs) = tokio::io::duplex(1000);
        let mut stream = connection.measure(ours);
        stream.write_all(&[7; 600]).await.unwrap();
        assert_eq!(stream.write(&[7; 600]).await.unwrap(), 400);
        assert_eq!(connection.taken_lately(), 1000);
        tokio::time::advance(Connection::SPAN).await;
        assert_eq!(connection.taken_lately(), 0);
    }
}
