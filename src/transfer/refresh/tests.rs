//! Steps of the task by themselves, with a primary of a few octets.

use super::*;
use crate::publish::{Identity, Published, Served};
use crate::transfer::plan::{Limits, PrimaryPlan, TimerBounds};
use crate::transfer::progress::Tally;
use crate::transfer::silence::{Silence, Times, tick};
use crate::transfer::status::Status;
use crate::zone::Loader;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::name::{Name, NameBuf};

const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(300);

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
    address: std::net::SocketAddr,
    budget: Arc<Budget>,
    turns: Arc<Turns>,
    silence: Arc<Silence>,
    _keeper: JoinHandle<()>,
}

impl Bench {
    /// Serves a version of a minute ago.
    fn new(address: std::net::SocketAddr) -> Bench {
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
            primaries: vec![PrimaryPlan { address, source: None, key: None }],
            notify_from: Vec::new(),
            ixfr: true,
            timers: TimerBounds::default(),
            limits: Limits { per_primary: 1, message_timeout: PATIENCE, ..Limits::default() },
        };
        let shared = Arc::new(Shared {
            inbox: Default::default(),
            status: Mutex::new(Status::new(&plan)),
            tally: Tally::default(),
        });
        let (metrics, budget) = (Arc::new(Metrics::new()), Arc::new(Budget::default()));
        let common = Common::start(Times::default(), metrics.clone());
        let silence = common.silences.of(&plan.primaries[0]);
        let task = Task::new(plan, updates, publisher, metrics, &common, shared, budget.clone());
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

#[tokio::test]
async fn a_question_about_a_twin_that_fails_leaves_the_zone_current() {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = udp.local_addr().unwrap();
    // The port is taken, and nobody listens.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind(address).unwrap();
    let mut bench = Bench::new(address);
    let serial = bench.serial;
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((length, client)) = udp.recv_from(&mut query).await {
            let _ = udp.send_to(&answer(&query[..length], &[serial])[2..], client).await;
        }
    });
    let now = Instant::now();
    bench.task.twin.note_change(now.checked_sub(Duration::from_secs(60)).unwrap());
    let outcome = bench.task.try_primary(0, WakeKind::Refresh, &mut Answers::default()).await;
    assert!(matches!(outcome, Ok(Outcome::Current(current)) if current == serial));
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
