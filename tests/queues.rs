//! Queues in front of primaries: a primary of many zones counts what is asked of it at once, and that is never more
//! than it should be.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, read_frame, wait_until, write_frame};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SERIAL: u32 = 7;

/// Counts of a primary.
#[derive(Default)]
struct Counts {
    /// Zones whose SOA was asked for and not answered yet.
    polled: HashSet<Vec<u8>>,
    most_polled: usize,
    transfers: usize,
    most_transfers: usize,
    /// Transfers are answered, or hang.
    is_open: bool,
}

/// A primary that has every zone, and thinks before it answers.
struct Counting {
    address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Counting {
    /// Answers polls after a while.
    fn start(pause: Duration) -> Counting {
        let (tcp, udp) = (0..50)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
                let udp = UdpSocket::bind(tcp.local_addr().expect("an address")).ok()?;
                Some((tcp, udp))
            })
            .expect("a port that is free on UDP and TCP");
        let address = tcp.local_addr().expect("an address");
        let primary = Counting { address, counts: Arc::default() };
        let (counts, udp) = (primary.counts.clone(), Arc::new(udp));
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, client)) = udp.recv_from(&mut buffer) {
                let query = buffer[..length].to_vec();
                {
                    let mut counts = counts.lock().unwrap();
                    // What was lost is sent again.
                    counts.polled.insert(name_of(&query).to_vec());
                    counts.most_polled = counts.most_polled.max(counts.polled.len());
                }
                let (counts, udp) = (counts.clone(), udp.clone());
                thread::spawn(move || {
                    thread::sleep(pause);
                    let answer = answer(&query, &[soa()]);
                    counts.lock().unwrap().polled.remove(name_of(&query));
                    let _ = udp.send_to(&answer, client);
                });
            }
        });
        let counts = primary.counts.clone();
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let counts = counts.clone();
                // A client that has heard enough goes away.
                thread::spawn(move || stream.and_then(|stream| transfer(stream, &counts)));
            }
        });
        primary
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap()
    }
}

fn count_transfer(counts: &Mutex<Counts>, by: isize) {
    let mut counts = counts.lock().unwrap();
    counts.transfers = counts.transfers.checked_add_signed(by).expect("as many as there are");
    counts.most_transfers = counts.most_transfers.max(counts.transfers);
}

/// Sends the whole zone once that is allowed, and waits for the client to go.
fn transfer(mut stream: TcpStream, counts: &Mutex<Counts>) -> std::io::Result<()> {
    count_transfer(counts, 1);
    let query = read_frame(&mut stream)?;
    wait_until("transfers are answered", PATIENCE, || counts.lock().unwrap().is_open.then_some(()));
    // Long enough for others to come, if they may.
    thread::sleep(Duration::from_millis(50));
    let www = [&b"\x03www\xc0\x0c"[..], &[0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 1]].concat();
    // The next one may begin before this client has gone.
    count_transfer(counts, -1);
    write_frame(&mut stream, &answer(&query, &[soa(), www, soa()]))?;
    read_frame(&mut stream).map(drop)
}

/// The name of the question.
fn name_of(query: &[u8]) -> &[u8] {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).expect("a name ends");
    &query[12..end]
}

/// An SOA record of the zone that was asked for.
fn soa() -> Vec<u8> {
    let numbers = [SERIAL, 3600, 600, 2_592_000, 30].map(u32::to_be_bytes).concat();
    [&b"\xc0\x0c\0\x06\0\x01\0\0\0\x1e\0\x16\0\0"[..], &numbers].concat()
}

/// An authoritative answer with these records.
fn answer(query: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let question = &query[12..12 + name_of(query).len() + 5];
    let header = [&query[..2], &[0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]].concat();
    [header, question.to_vec(), records.concat()].concat()
}

fn zone(number: usize) -> String {
    format!("z{number}.test")
}

/// A configuration of so many zones of a primary.
fn plan(primary: &Counting, zones: usize) -> String {
    let mut plan = "[zones]\n".to_owned();
    (0..zones).for_each(|number| writeln!(plan, "\"{}\" = \"{}\"", zone(number), primary.address).expect("string"));
    plan
}

fn wait_loaded(daemon: &Aggregator, zones: usize) {
    let mut client = Client::new(daemon.address());
    for number in 0..zones {
        let zone = Dname::parse(&zone(number));
        wait_until("the zone is loaded", PATIENCE, || (client.serial(&zone) == Some(SERIAL)).then_some(()));
    }
}

#[test]
fn polls_of_one_primary_are_bounded_and_fewer_where_there_are_many() {
    // With 64 primaries each has four places.
    for (others, zones, most) in [(0, 150, 64), (63, 40, 4)] {
        let primary = Counting::start(Duration::from_millis(200));
        primary.counts().is_open = true;
        let mut plan = plan(&primary, zones);
        if others > 0 {
            // Nobody is there, which is told at once.
            let others: Vec<String> = (0..others).map(|number| format!("\"127.9.0.{number}:9\"")).collect();
            writeln!(plan, "[zones.\"others.test\"]\nprimaries = [{}]", others.join(", ")).expect("string");
        }
        let folder = Folder::new();
        let daemon = Aggregator::start(&folder, &plan);
        wait_loaded(&daemon, zones);
        // Four places are for polls behind transfers, which look the same.
        let polled = primary.counts().most_polled;
        assert!((most..=most + 4).contains(&polled), "{polled} of {zones} zones beside {others} primaries");
        assert!(primary.counts().most_transfers <= 25);
    }
}

#[test]
fn a_primary_without_an_answer_takes_no_more_descriptors_than_are_set_apart() {
    let primary = Counting::start(PATIENCE);
    let folder = Folder::new();
    let open = |daemon: &Aggregator| std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).expect("files").count();
    let (mut before, mut most) = (None, 0);
    for zones in [1, 400] {
        let daemon = Aggregator::start(&folder, &plan(&primary, zones));
        // Beyond the first 64, which have been asked over UDP again and again, and over TCP.
        wait_until("others have their turn", PATIENCE, || {
            most = most.max(open(&daemon));
            (primary.counts().polled.len() >= 80.min(zones)).then_some(())
        });
        if before.is_none() {
            before = Some(most);
        }
        primary.counts().polled.clear();
    }
    let before = before.expect("one zone");
    assert!((before + 64..=before + 256).contains(&most), "{most} descriptors, {before} with one zone");
}

#[test]
fn transfers_per_primary_is_obeyed_and_those_that_wait_say_so() {
    const ZONES: usize = 10;
    let primary = Counting::start(Duration::ZERO);
    let folder = Folder::new();
    let plan = plan(&primary, ZONES) + "[transfer]\ntransfers_per_primary = 2\n";
    let daemon = Aggregator::start(&folder, &plan);
    wait_until("two transfers begin", PATIENCE, || (primary.counts().transfers >= 2).then_some(()));
    let status = |number: usize| daemon.verb(&["status", &zone(number)]).stdout;
    let waits = |number: &usize| status(*number).contains("\n  waits for other polls or transfers from the primary\n");
    wait_until("all others wait", PATIENCE, || ((0..ZONES).filter(waits).count() == ZONES - 2).then_some(()));
    let json = daemon.verb(&["status", "--json"]).stdout;
    assert_eq!(json.matches("\"queued\"").count(), ZONES - 2, "{json}");
    primary.counts().is_open = true;
    wait_loaded(&daemon, ZONES);
    assert_eq!(primary.counts().most_transfers, 2);
    assert!(!(0..ZONES).any(|number| waits(&number)));
}
