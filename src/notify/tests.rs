//! The task against sockets of the test: secondaries that reply, that do not, and that reply nonsense.

use super::*;
use crate::publish::{Identity, Published, Served, State};
use crate::zone::{Soa, tests::zone};
use rustix::net::{RecvFlags, recvfrom};
use std::collections::HashSet;
use std::net::IpAddr;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};
use wire::tsig::{Algorithm, Key, Keyring, Opened, open_request};

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);
/// All messages to a target that is silent are sent within two thirds of a second.
const QUICK: Timers = Timers { first: Duration::from_millis(10), retries: 5, pause: Duration::from_millis(5) };
/// Nothing is sent again while a test runs.
const ONCE: Timers = Timers { first: Duration::from_secs(3600), retries: 5, pause: Duration::from_millis(5) };

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A publisher, the task, and what they count.
struct Stage {
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
    notifier: Notifier,
    generation: u64,
}

impl Stage {
    fn new(timers: Timers) -> Stage {
        let (publisher, metrics) = (Arc::new(Publisher::default()), Arc::new(Metrics::new()));
        let notifier = start(publisher.clone(), metrics.clone(), timers);
        Stage { publisher, metrics, notifier, generation: 0 }
    }

    /// Publishes zones in place of all others.
    fn publish<'a>(&mut self, zones: impl IntoIterator<Item = (&'a str, u32, State)>) {
        self.generation += 1;
        let served = zones.into_iter().map(|(origin, serial, state)| {
            let data = zone(origin, &format!("@ 30 SOA {serial}"));
            Arc::new(Served::new(name(origin), state, Some(Arc::new(data))))
        });
        self.publisher.publish(Published::new(Identity::default(), served, self.generation));
    }

    /// Publishes the zone `z.` alone.
    fn publish_z(&mut self, serial: u32) {
        self.publish([("z.", serial, State::Ok)]);
    }

    fn set_targets(&self, zone: &str, targets: &[&Server]) {
        self.notifier.set_targets([(name(zone), targets.iter().copied().cloned().collect())].into());
    }

    fn counted(&self, zone: &str, result: &str) -> u64 {
        self.metrics.notify_sent.with_label_values(&[zone, result]).get()
    }

    /// Waits until the first target of `z.` shows this result.
    async fn wait_for(&self, result: &str) -> TargetStatus {
        let has_it = async {
            loop {
                if let Some(status) = self.notifier.status(&name("z.")).into_iter().find(|s| s.result == result) {
                    return status;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = timeout(PATIENCE, has_it).await;
        waited.unwrap_or_else(|_| panic!("never {result}: {:?}", self.notifier.status(&name("z."))))
    }
}

/// A secondary.
struct Secondary(UdpSocket);

/// A message that a secondary has got.
struct Got {
    bytes: Vec<u8>,
    from: SocketAddr,
}

impl Got {
    fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    fn zone(&self) -> Name {
        wire::name::NameBuf::read(&self.bytes, 12).unwrap().0.to_name()
    }

    /// The serial in the answer section.
    fn serial(&self) -> u32 {
        assert_eq!(self.bytes[2..4], [0x24, 0], "NOTIFY with AA");
        assert_eq!(self.bytes[4..8], [0, 1, 0, 1], "a question and an answer");
        Soa::from_rdata(&self.bytes).unwrap().serial.0
    }

    /// The reply with a response code.
    fn reply(&self, code: u8) -> Vec<u8> {
        let end = 12 + self.zone().as_wire().len() + 4;
        let mut reply = self.bytes[..end].to_vec();
        reply[2] |= 0x80;
        reply[3] |= code;
        reply[6..12].fill(0);
        reply
    }
}

impl Secondary {
    async fn new() -> Secondary {
        Secondary(UdpSocket::bind("127.0.0.1:0").await.unwrap())
    }

    fn target(&self) -> Server {
        self.0.local_addr().unwrap().into()
    }

    async fn get(&self) -> Got {
        timeout(PATIENCE, self.receive()).await.expect("a message")
    }

    async fn receive(&self) -> Got {
        let mut bytes = vec![0; 1500];
        let (length, from) = self.0.recv_from(&mut bytes).await.unwrap();
        bytes.truncate(length);
        Got { bytes, from }
    }

    async fn send(&self, bytes: &[u8], to: SocketAddr) {
        self.0.send_to(bytes, to).await.unwrap();
    }

    /// Gets a message and acknowledges it.
    async fn acknowledge(&self) -> Got {
        let got = self.get().await;
        self.send(&got.reply(0), got.from).await;
        got
    }

    /// Takes what has arrived, without waiting for more.
    fn backlog(&self) -> Vec<Got> {
        // Past the runtime, which may not know yet that there is something.
        let next = || {
            let mut buffer = [0; 1500];
            let (length, _, from) = recvfrom(&self.0, &mut buffer, RecvFlags::DONTWAIT).ok()?;
            Some(Got { bytes: buffer[..length].to_vec(), from: SocketAddr::try_from(from?).ok()? })
        };
        std::iter::from_fn(next).collect()
    }
}

#[tokio::test]
async fn what_is_served_is_announced_at_start_and_when_it_changes() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(ONCE);
    stage.publish([("z.", 7, State::Ok), ("y.", 1, State::NotReady)]);
    let targets = ["z.", "y."].map(|zone| (name(zone), vec![secondary.target()]));
    stage.notifier.set_targets(targets.into());
    let got = secondary.get().await;
    assert_eq!((got.zone(), got.serial()), (name("z."), 7));
    let waiting = stage.wait_for("waiting for the reply to message 1").await;
    assert_eq!((waiting.notified, waiting.acknowledged), (Some(Serial(7)), None));
    secondary.send(&got.reply(0), got.from).await;
    let done = stage.wait_for("acknowledged").await;
    assert_eq!((done.notified, done.acknowledged), (Some(Serial(7)), Some(Serial(7))));
    // A publication that leaves the zone alone is not announced; one that lets it expire is not, either.
    stage.publish([("z.", 7, State::Ok), ("y.", 2, State::Ok)]);
    assert_eq!(secondary.acknowledge().await.zone(), name("y."));
    stage.publish([("z.", 8, State::Expired), ("y.", 3, State::Ok)]);
    assert_eq!(secondary.acknowledge().await.zone(), name("y."));
    // An older serial is a change, too.
    stage.publish([("z.", 6, State::Ok), ("y.", 3, State::Ok)]);
    let got = secondary.acknowledge().await;
    assert_eq!((got.zone(), got.serial()), (name("z."), 6));
    let status = stage.wait_for("acknowledged").await;
    assert_eq!(status.acknowledged, Some(Serial(6)));
    assert_eq!((stage.counted("z.", "acknowledged"), stage.counted("y.", "acknowledged")), (2, 2));
}

#[tokio::test]
async fn a_silent_target_gets_six_messages_and_is_left_alone_until_the_next_change() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(QUICK);
    stage.publish_z(1);
    stage.set_targets("z.", &[&secondary.target()]);
    let begun = Instant::now();
    let status = stage.wait_for("no reply").await;
    // 10 + 20 + 40 + 80 + 160 + 320 milliseconds.
    assert!(begun.elapsed() >= Duration::from_millis(630), "{:?}", begun.elapsed());
    assert_eq!((status.notified, status.acknowledged), (Some(Serial(1)), None));
    let mut ids = HashSet::new();
    for _ in 0..6 {
        ids.insert(secondary.get().await.id());
    }
    assert_eq!((ids.len(), secondary.backlog().len()), (1, 0));
    assert_eq!(stage.counted("z.", "timeout"), 1);
    stage.publish_z(2);
    let got = secondary.acknowledge().await;
    assert_eq!(got.serial(), 2);
    stage.wait_for("acknowledged").await;
}

#[tokio::test]
async fn a_zone_that_expires_is_announced_when_it_is_back() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(QUICK);
    stage.publish_z(1);
    stage.set_targets("z.", &[&secondary.target()]);
    secondary.get().await;
    stage.publish([("z.", 1, State::Expired)]);
    stage.wait_for("not announced yet").await;
    let late = secondary.backlog();
    assert!(late.len() < 5, "given up, and not for the zone's state");
    stage.publish_z(1);
    assert_eq!(secondary.acknowledge().await.serial(), 1);
    stage.wait_for("acknowledged").await;
}

#[tokio::test]
async fn a_message_sent_again_carries_the_newest_serial_under_another_id() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(Timers { first: Duration::from_millis(200), ..QUICK });
    stage.publish_z(1);
    stage.set_targets("z.", &[&secondary.target()]);
    let first = secondary.get().await;
    stage.publish_z(2);
    let mut second = secondary.get().await;
    while second.serial() == 1 {
        assert_eq!(first.bytes, second.bytes);
        second = secondary.get().await;
    }
    assert_eq!((first.serial(), second.serial()), (1, 2));
    assert_ne!(first.id(), second.id());
    // The late reply to the first says nothing about the second.
    secondary.send(&first.reply(0), first.from).await;
    secondary.send(&second.reply(0), second.from).await;
    let status = stage.wait_for("acknowledged").await;
    assert_eq!(status.acknowledged, Some(Serial(2)));
    assert_eq!(stage.counted("z.", "acknowledged"), 1);
}

#[tokio::test]
async fn a_storm_of_publications_makes_few_messages_and_the_last_serial_arrives() {
    let secondary = Secondary::new().await;
    let pause = Duration::from_millis(50);
    let mut stage = Stage::new(Timers { pause, ..ONCE });
    stage.set_targets("z.", &[&secondary.target()]);
    let begun = Instant::now();
    let counting = tokio::spawn(async move {
        let mut count = 0;
        while secondary.acknowledge().await.serial() != 1000 {
            count += 1;
        }
        count + 1
    });
    for serial in 1..=1000 {
        stage.publish_z(serial);
        tokio::task::yield_now().await;
    }
    let messages: u128 = timeout(PATIENCE, counting).await.expect("the last serial").unwrap();
    let most = begun.elapsed().as_millis() / pause.as_millis() + 1;
    assert!(messages <= most, "{messages} messages where {most} had time");
    let status = stage.wait_for("acknowledged").await;
    assert_eq!(status.acknowledged, Some(Serial(1000)));
}

#[tokio::test]
async fn what_is_no_reply_to_the_message_changes_nothing() {
    let (secondary, stranger) = (Secondary::new().await, Secondary::new().await);
    let mut stage = Stage::new(ONCE);
    stage.publish_z(1);
    stage.set_targets("z.", &[&secondary.target()]);
    let got = secondary.get().await;
    let reply = got.reply(0);
    let changed = |at: usize, value: u8| {
        let mut reply = reply.clone();
        reply[at] = value;
        reply
    };
    // Right from the wrong place; another id; a request; a response to a query; another zone; another type; rubbish.
    stranger.send(&reply, got.from).await;
    let nonsense = [changed(1, !reply[1]), changed(2, 0x24), changed(2, 0x84), changed(13, b'x'), changed(16, 1)];
    for bytes in nonsense.iter().map(|bytes| &bytes[..]).chain([&b""[..], b"x", &[0xff; 600], &reply[..14]]) {
        secondary.send(bytes, got.from).await;
    }
    // What comes after them has been looked at when this is.
    stage.publish([("z.", 1, State::Ok), ("y.", 1, State::Ok)]);
    stage.notifier.set_targets(["z.", "y."].map(|zone| (name(zone), vec![secondary.target()])).into());
    assert_eq!(secondary.acknowledge().await.zone(), name("y."));
    while stage.counted("y.", "acknowledged") == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    stage.wait_for("waiting for the reply to message 1").await;
    secondary.send(&reply, got.from).await;
    stage.wait_for("acknowledged").await;
}

#[tokio::test]
async fn a_refusal_ends_the_exchange() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(ONCE);
    stage.set_targets("z.", &[&secondary.target()]);
    for (serial, code, label) in [(1, 5, "refused"), (2, 9, "notauth"), (3, 4, "notimp"), (4, 3, "rcode_other")] {
        stage.publish_z(serial);
        let got = secondary.get().await;
        assert_eq!(got.serial(), serial);
        secondary.send(&got.reply(code), got.from).await;
        stage.wait_for(&NotifyOutcome::Code(code).to_string()).await;
        assert_eq!(stage.counted("z.", label), 1);
    }
    assert!(secondary.backlog().is_empty());
}

#[tokio::test]
async fn the_operator_announces_at_once_whatever_is_under_way() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(ONCE);
    stage.publish_z(1);
    stage.set_targets("z.", &[&secondary.target()]);
    let lost = secondary.get().await;
    assert_eq!(stage.notifier.notify_now(Some(&name("z."))), 1);
    let second = secondary.acknowledge().await;
    assert_ne!(lost.id(), second.id());
    stage.wait_for("acknowledged").await;
    assert_eq!(stage.notifier.notify_now(None), 1);
    assert_eq!(secondary.acknowledge().await.serial(), 1);
    assert_eq!(stage.notifier.notify_now(Some(&name("unknown."))), 0);
}

#[tokio::test]
async fn targets_are_replaced_while_exchanges_are_under_way() {
    let (kept, gone, new) = (Secondary::new().await, Secondary::new().await, Secondary::new().await);
    let mut stage = Stage::new(ONCE);
    stage.publish_z(1);
    stage.set_targets("z.", &[&kept.target(), &gone.target(), &kept.target()]);
    kept.acknowledge().await;
    stage.wait_for("acknowledged").await;
    let lost = gone.get().await;
    stage.set_targets("z.", &[&new.target(), &kept.target()]);
    gone.send(&lost.reply(0), lost.from).await;
    assert_eq!(new.acknowledge().await.serial(), 1);
    let status = stage.notifier.status(&name("z."));
    assert_eq!(
        status.iter().map(|target| target.address).collect::<Vec<_>>(),
        [new.target(), kept.target()].map(|t| t.address)
    );
    assert_eq!(status[1].acknowledged, Some(Serial(1)));
    stage.publish_z(2);
    assert_eq!((kept.acknowledge().await.serial(), new.acknowledge().await.serial()), (2, 2));
    assert!(gone.backlog().is_empty());
    stage.notifier.set_targets(Targets::new());
    assert!(stage.notifier.status(&name("z.")).is_empty());
}

#[tokio::test]
async fn a_target_that_is_away_delays_no_other() {
    let (away, there) = (Secondary::new().await, Secondary::new().await);
    let mut stage = Stage::new(ONCE);
    let zones: Vec<String> = (0..300).map(|index| format!("z{index}.")).collect();
    stage.publish(zones.iter().map(|zone| (&zone[..], 1, State::Ok)));
    let targets = |zone: &String| (name(zone), vec![away.target(), there.target()]);
    stage.notifier.set_targets(zones.iter().map(targets).collect());
    let mut announced = HashSet::new();
    while announced.len() < zones.len() {
        announced.insert(there.acknowledge().await.zone());
    }
    // The other has as many as may wait at a time, and no more.
    let waiting: Vec<Got> = away.backlog();
    assert_eq!(waiting.len(), 64);
    // Those that get their replies make room for as many.
    for got in &waiting[..10] {
        away.send(&got.reply(0), got.from).await;
    }
    for _ in 0..10 {
        away.get().await;
    }
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_an_error_to_see() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(QUICK);
    stage.publish_z(1);
    let source = Some("192.0.2.1".parse().unwrap());
    stage.set_targets("z.", &[&Server { source, ..secondary.target() }]);
    let failed = async {
        while stage.counted("z.", "error") == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, failed).await.expect("an error");
    let status = &stage.notifier.status(&name("z."))[0];
    assert!(status.result.starts_with("cannot send: "), "{status:?}");
    // From an address that is ours.
    let source: IpAddr = "127.0.0.2".parse().unwrap();
    stage.set_targets("z.", &[&Server { source: Some(source), ..secondary.target() }]);
    assert_eq!(secondary.acknowledge().await.from.ip(), source);
    stage.wait_for("acknowledged").await;
}

#[tokio::test]
async fn with_a_key_both_messages_are_signed() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(ONCE);
    let key = |secret: u8| Arc::new(Key::new(name("key.example"), Algorithm::Sha256, vec![secret; 32]));
    let keyring: Keyring = [(name("key.example"), key(1))].into();
    stage.publish_z(7);
    stage.set_targets("z.", &[&Server { key: Some(key(1)), ..secondary.target() }]);
    let mut got = secondary.get().await;
    let now = crate::metrics::unix_seconds(std::time::SystemTime::now()) as u64;
    let Opened::Signed { length, mut signer } = open_request(&mut got.bytes, &keyring, now) else {
        panic!("the announcement is not signed with the key");
    };
    got.bytes.truncate(length);
    assert_eq!(got.serial(), 7);
    let unsigned = got.reply(0);
    let mut signed = unsigned.clone();
    signed.resize(512, 0);
    let length = signer.sign(&mut signed, unsigned.len(), now).unwrap();
    signed.truncate(length);
    let mut broken = signed.clone();
    broken[3] ^= 5;
    // Neither counts, and neither spoils the true one.
    secondary.send(&unsigned, got.from).await;
    secondary.send(&broken, got.from).await;
    let waiting = "waiting for the reply to message 1, no reply with a valid signature: ";
    let bad = wire::tsig::TsigError::BadSignature;
    let wrong = stage.wait_for(&format!("{waiting}{bad}")).await;
    assert_eq!((wrong.acknowledged, stage.counted("z.", "acknowledged")), (None, 0));
    secondary.send(&signed, got.from).await;
    stage.wait_for("acknowledged").await;
}

#[tokio::test]
async fn a_target_without_the_key_is_told_apart_from_a_silent_one() {
    let secondary = Secondary::new().await;
    let mut stage = Stage::new(QUICK);
    let key = Arc::new(Key::new(name("key.example"), Algorithm::Sha512, vec![1; 64]));
    stage.publish_z(7);
    stage.set_targets("z.", &[&Server { key: Some(key), ..secondary.target() }]);
    for _ in 0..6 {
        let got = secondary.get().await;
        secondary.send(&got.reply(9), got.from).await;
    }
    let result = NotifyOutcome::Unsigned(9).to_string();
    let ended = async {
        while stage.counted("z.", "notauth") == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("the end of the exchange");
    assert_eq!(stage.notifier.status(&name("z."))[0].result, result);
}
