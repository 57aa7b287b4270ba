//! Steps of the task by themselves, with a primary of a few octets.

use super::*;
use crate::client::Server;
use crate::metrics::Metrics;
use crate::publish::{Identity, Published, Publisher, Served};
use crate::source::Update;
use crate::source::shell::Facilities;
use crate::transfer::plan::{Limits, TimerBounds};
use crate::transfer::silence::{Silence, Times, tick};
use crate::transfer::{Common, share};
use crate::zone::Loader;
use std::net::SocketAddr;
use std::time::SystemTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::name::{Name, NameBuf};

const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(300);
/// Octets of a task that waits, beside what it remembers.
const MOST_OCTETS: usize = 2048;

/// The SOA of a CNS.
fn soa(serial: Serial) -> Vec<u8> {
    [vec![0, 0], [serial.0, 30, 60, 2_592_000, 30].map(u32::to_be_bytes).concat()].concat()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A task whose zone is published, with one place at its primary.
struct Bench {
    task: Task,
    serial: Serial,
    address: SocketAddr,
    budget: Arc<Budget>,
    turns: Arc<Turns>,
    silence: Arc<Silence>,
    _keeper: JoinHandle<()>,
}

impl Bench {
    /// Serves a version of a minute ago.
    fn new(address: SocketAddr) -> Bench {
        Bench::of(&[address])
    }

    /// The same of several primaries.
    fn of(addresses: &[SocketAddr]) -> Bench {
        let address = addresses[0];
        let (zone, serial) = (name("z.example"), tick(SystemTime::now() - Duration::from_secs(60)));
        let mut loader = Loader::new(zone.clone());
        loader.push(&NameBuf::parse("z.example").unwrap(), 6, 30, &soa(serial));
        let base = Arc::new(loader.finish(None).unwrap().zone);
        let publisher = Arc::new(Publisher::default());
        let served = Arc::new(Served::new(zone.clone(), State::Ok, Some(base)));
        publisher.publish(Published::new(Identity::default(), [served], 0));
        let (updates, mut receiver) = mpsc::channel::<Update>(1);
        let keeper = tokio::spawn(async move {
            while let Some(update) = receiver.recv().await {
                let _ = update.published.unwrap().send(());
            }
        });
        let plan = ZonePlan {
            zone: zone.clone(),
            origin: zone,
            primaries: addresses
                .iter()
                .map(|address| Server { address: *address, source: None, key: None, tls: None })
                .collect(),
            notify_from: Vec::new(),
            ixfr: true,
            timers: TimerBounds::default(),
            limits: Limits { per_primary: 1, message_timeout: PATIENCE, ..Limits::default() },
            catalog: None,
        };
        let (metrics, budget) = (Arc::new(Metrics::new()), Arc::new(Budget::default()));
        let common = Common::start(Times::default(), metrics.clone());
        let silence = common.silences.of(&plan.primaries[0]);
        let facilities = Facilities { updates, publisher, metrics, budget: budget.clone() };
        let task = Task::new(share(plan, facilities, common.clone()));
        Bench { task, serial, address, budget, turns: common.turns, silence, _keeper: keeper }
    }
}

/// An answer to a query, its length in front, with the SOAs of these serials.
fn answer(query: &[u8], serials: &[Serial]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
    let header = [&query[..2], &[0x84, 0, 0, 1, 0, serials.len() as u8, 0, 0, 0, 0]].concat();
    // The owner is the name of the question.
    let record = |serial: &Serial| [&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 30, 0, 22][..], &soa(*serial)].concat();
    let records: Vec<u8> = serials.iter().flat_map(record).collect();
    let message = [&header, &query[12..end], &records].concat();
    [&(message.len() as u16).to_be_bytes(), message.as_slice()].concat()
}

/// Answers polls over UDP with a serial.
async fn answer_polls(udp: UdpSocket, serial: Serial) {
    let mut query = [0; 512];
    while let Ok((length, client)) = udp.recv_from(&mut query).await {
        let _ = udp.send_to(&answer(&query[..length], &[serial])[2..], client).await;
    }
}

#[tokio::test]
async fn a_task_that_waits_is_small() {
    let mut bench = Bench::new("192.0.2.1:53".parse().unwrap());
    let octets = size_of_val(&bench.task.run());
    assert!(octets < MOST_OCTETS, "thousands of zones have a task each, of {octets} octets");
}

#[tokio::test]
async fn a_primary_without_a_place_for_a_poll_has_not_failed() {
    let [good, away] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0"));
    let (good, away) = (good.await.unwrap(), away.await.unwrap());
    let mut bench = Bench::of(&[good.local_addr().unwrap(), away.local_addr().unwrap()]);
    let (serial, turns, address, shared) =
        (bench.serial, bench.turns.clone(), bench.address, bench.task.shared.clone());
    tokio::spawn(answer_polls(good, serial));
    let limits = &mut Arc::make_mut(&mut bench.task.plan).limits;
    (limits.message_timeout, limits.connect_timeout) = (MOMENT, MOMENT);
    turns.set_polls_at_once(1);
    let held = turns.timer_poll(address).await;
    let refreshing = tokio::spawn(async move { (bench.task.refresh(WakeKind::Refresh).await, bench.task) });
    let failures = || shared.status().primaries.iter().map(|primary| primary.failures).collect::<Vec<_>>();
    let asked = async {
        while failures()[1] == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, asked).await.expect("the other primary is asked meanwhile");
    drop(held);
    let (outcome, _task) = timeout(PATIENCE, refreshing).await.expect("an end").unwrap();
    assert!(matches!(outcome, Ok(Refreshed::Current(current)) if current == serial), "the first one is asked later");
    assert_eq!(failures(), [0, 1]);
}

#[tokio::test]
async fn a_call_has_a_poll_that_waits_already_pass_those_of_timers() {
    let bench = Bench::new("127.0.0.1:9".parse().unwrap());
    let (turns, address, shared) = (bench.turns.clone(), bench.address, bench.task.shared.clone());
    turns.set_polls_at_once(1);
    let held = turns.timer_poll(address).await;
    let timer = || {
        let turns = turns.clone();
        tokio::spawn(async move { turns.timer_poll(address).await })
    };
    let [first, second] = [timer(), timer()];
    // This runs until it waits, and so have those, on one thread.
    tokio::task::yield_now().await;
    let ours = tokio::spawn(async move { (bench.task.poll_turn(0, true).await, bench.task) });
    tokio::task::yield_now().await;
    shared.inbox.push(crate::source::Wake { kind: WakeKind::Announced, done: None });
    tokio::task::yield_now().await;
    drop(held);
    let first = timeout(PATIENCE, first).await.expect("it stood in line").unwrap();
    assert!(!ours.is_finished());
    drop(first);
    let (turn, _task) = timeout(PATIENCE, ours).await.expect("then ours").unwrap();
    assert!(turn.is_some() && !second.is_finished());
}

#[tokio::test]
async fn a_question_about_a_twin_that_fails_leaves_the_zone_current() {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = udp.local_addr().unwrap();
    // The port is taken, and nobody listens.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind(address).unwrap();
    let mut bench = Bench::new(address);
    let serial = bench.serial;
    tokio::spawn(answer_polls(udp, serial));
    let now = Instant::now();
    bench.task.twin.note_change(now.checked_sub(Duration::from_secs(60)).unwrap());
    let outcome = bench.task.refresh(WakeKind::Refresh).await;
    assert!(matches!(outcome, Ok(Refreshed::Current(current)) if current == serial));
    assert_eq!(bench.task.shared.status().primaries[0].failures, 0, "the poll was good");
    assert!(!bench.task.twin.take(false, now), "not at once again");
    assert!(bench.task.twin.take(false, Instant::now() + Duration::from_secs(60)), "but later");
}

#[tokio::test]
async fn whoever_waits_for_memory_has_no_place_at_the_primary() {
    let bench = Bench::new("127.0.0.1:9".parse().unwrap());
    let other = name("other.example");
    bench.budget.configure(6000, [(other.clone(), 1), (bench.task.plan.zone.clone(), 1)]);
    bench.budget.publish(&other, 2000);
    bench.budget.publish(&bench.task.plan.zone, 2000);
    let first = bench.budget.begin(&other, Purpose::Replace);
    first.take_turn().await.unwrap();
    first.grow(2000).await.unwrap();
    let (turns, address) = (bench.turns.clone(), bench.address);
    let waiting =
        tokio::spawn(async move { bench.task.turns(0, Purpose::Replace).await.map(|turns| (turns, bench.task)) });
    // It looks at once, and then waits.
    tokio::time::sleep(MOMENT).await;
    assert!(!waiting.is_finished());
    let place = timeout(PATIENCE, turns.transfer(address, 1)).await.expect("the primary has a place for another zone");
    // Nor has it memory while it waits for the primary.
    drop(first);
    tokio::time::sleep(MOMENT).await;
    assert!(!waiting.is_finished());
    let second = bench.budget.begin(&other, Purpose::Replace);
    timeout(PATIENCE, second.take_turn()).await.expect("memory has room for another zone").unwrap();
    drop((place, second));
    let (held, _task) = timeout(PATIENCE, waiting).await.expect("its turn comes").unwrap().ok().unwrap();
    assert!(timeout(MOMENT, turns.transfer(address, 1)).await.is_err());
    drop(held);
}

#[tokio::test]
async fn the_question_at_our_own_serial_waits_in_line_and_reads_one_record() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for ahead in [0, 1] {
        let bench = Bench::new(listener.local_addr().unwrap());
        let (serial, silence) = (bench.serial, bench.silence.clone());
        let place = bench.turns.transfer(bench.address, 1).await;
        let asking = tokio::spawn(async move { bench.task.ask_for_nothing().await });
        assert!(timeout(MOMENT, listener.accept()).await.is_err(), "a transfer is under way");
        drop(place);
        let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.expect("its turn").unwrap();
        let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut query).await.unwrap();
        // The beginning of an answer at our serial or of differences to a newer one; more is not sent, nor asked for.
        let first = answer(&query, &[serial.advance(ahead), serial]);
        stream.write_all(&first).await.unwrap();
        let end = timeout(PATIENCE / 2, stream.read(&mut [0])).await.expect("the client is gone");
        assert!(!matches!(end, Ok(1..)), "{end:?}");
        timeout(PATIENCE, asking).await.unwrap().unwrap();
        let status = silence.status(Instant::now()).expect("a CNS");
        assert_eq!(
            (status.questions, status.owed),
            (u64::from(ahead == 0), ahead > 0),
            "only an answer at our serial counts"
        );
    }
}
