//! All at once, for an hour or as long as it was asked for: changes in three large datacenters, queries at half of what
//! the server answered, reloads, primaries and a secondary that go and come.
//!
//! Each answer is compared with the versions that are live in its moment (`live`). Each change is waited for until the
//! region answers it. At the end all names are compared, here and at the secondary, a Knot that follows the region. Changes
//! that waited for a primary that was away are told apart.
//!
//! Cost: the time that was asked for, for each rate; both processors.

mod live;

use crate::bulk::{SETTLE, plan, settle};
use crate::daemon::Daemon;
use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::load::{Check, Load, Outcome};
use crate::memory::Memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::question::Questions;
use crate::scene::{LONGEST, REGION};
use crate::scripted::Scripted;
use crate::server::{Kind, Place, Server, Source};
use crate::table::{Figures, Table, mebibytes, thousands};
use crate::usage::{self, Usage};
use live::Live;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Datacenters of the region.
const DATACENTERS: usize = 3;
/// Rows of the table, if none is shorter than a minute.
const ROWS: u32 = 12;
/// Time in which each disturbance happens once, but for the secondary's restart.
const ROUND: Duration = Duration::from_secs(60);
/// Seconds of a round at which a primary goes, at which it is back, at which the configuration is read again, and at which
/// the secondary is restarted in one of so many rounds.
const GOES: u64 = 10;
const IS_BACK: u64 = 15;
const RELOADS: u64 = 30;
const RESTARTS: u64 = 45;
const ROUNDS_OF_SECONDARY: usize = 5;
/// Questions in the list.
const QUESTIONS: usize = 400_000;
/// A region that comes and goes with reloads.
const OTHER_REGION: &str = "us-other.cns.example.com";

/// A change that was announced: what is to be answered, and since when.
struct Announced {
    owner: String,
    address: Ipv4Addr,
    at: Instant,
    /// Outages of the primary before, times two, and one more while it is away.
    outages: usize,
}

/// How long changes took that waited for nothing, and others.
#[derive(Default)]
struct Times {
    plain: Figures,
    waited: Figures,
}

/// A datacenter's primary.
struct Primary {
    script: Scripted,
    outages: AtomicUsize,
}

/// Runs each rate, and prints a table of each; false if an answer was wrong or a change is missing.
pub fn measure(options: &Options) -> bool {
    let failed = options.rates.iter().filter(|rate| !measure_rate(options, **rate));
    failed.count() == 0
}

/// Runs one rate.
fn measure_rate(options: &Options, rate: usize) -> bool {
    let (records, duration) = (options.datacenter_records, options.duration);
    let folder = Folder::new();
    let mut zones: Vec<Datacenter> = (0..DATACENTERS)
        .map(|index| Datacenter::new(&format!("us-west-{}.cns.example.com", index + 1), index, records))
        .collect();
    let scripts: Vec<Scripted> = zones.iter().map(Scripted::start).collect();
    let written = plan(&zones, &scripts);
    let primaries: Vec<Primary> =
        scripts.into_iter().map(|script| Primary { script, outages: AtomicUsize::new(0) }).collect();
    let daemon = Daemon::start(&folder, &options.program, &written);
    let mut secondary = start_secondary(&folder, options, daemon.address());
    // Zones are polled as by default.
    let written = written.replace("refresh_min = \"1d\"\n", "");
    let written =
        format!("{written}[secondaries]\nallow_transfer = [\"127.0.0.1\"]\nnotify = [\"{}\"]\n", secondary.address);
    daemon.configure(&written);
    let mut probe = Probe::new(daemon.address());
    for zone in &zones {
        let (owner, address) = (format!("{}.{REGION}", zone.owner(0)), zone.address(0));
        let served = probe.time_until(&owner, address, Instant::now(), LONGEST);
        served.expect("the region is served");
    }
    daemon.reload();
    let questions = Questions::new(&zones, REGION, QUESTIONS);
    let live = Live::new(&questions, zones.iter().map(Datacenter::names));
    let loaded = settle(&daemon);
    let processors = usage::available();
    let capacity = capacity(options, &questions, &daemon);
    eprintln!(
        "three datacenters of {} records: {rate} changes a second for {} s, {} of {} queries a second",
        thousands(records),
        duration.as_secs(),
        thousands(capacity as usize / 2),
        thousands(capacity as usize)
    );
    let mut table = Table::new(&[
        "minute",
        "changes",
        "p50",
        "p99",
        "longest",
        "waited for a primary",
        "longest",
        "queries a second",
        "p50",
        "p99",
        "lost",
        "wrong",
        "processor",
        "memory",
        "÷ loaded",
    ]);
    let times = Mutex::new(Times::default());
    let is_over = AtomicBool::new(false);
    let (senders, receivers): (Vec<_>, Vec<_>) = zones.iter().map(|_| mpsc::channel()).unzip();
    let total =
        Load::run_at(capacity / 2.0, &questions, (daemon.address(), Check::Live(&live)), (1, &processors), |load| {
            std::thread::scope(|scope| {
                for (receiver, primary) in receivers.into_iter().zip(&primaries) {
                    let (probe, times) = (Probe::new(daemon.address()), &times);
                    scope.spawn(move || observe(probe, &receiver, primary, times));
                }
                let (live, zones, primaries, is_over) = (&live, &mut zones, &primaries, &is_over);
                let announcer = Probe::new(daemon.address());
                let count = rate * duration.as_secs() as usize;
                scope.spawn(move || change(announcer, (rate, count), zones, primaries, live, senders));
                let (daemon, times, loaded, table) = (&daemon, &times, &loaded, &mut table);
                scope.spawn(move || {
                    report((load, live, daemon), times, duration, loaded, table);
                    is_over.store(true, Ordering::Relaxed);
                });
                // A child ends with the thread that started it.
                disturb(daemon, &mut secondary, primaries, &written, is_over);
            });
            load.outcome()
        });
    let left = std::mem::take(&mut *times.lock().expect("no observer panics"));
    let after = settle(&daemon);
    let missing = [daemon.address(), secondary.address].map(|server| missing(server, &zones));
    println!(
        "Three datacenters of {} records and their region, {rate} changes a second, reloads, primaries and a secondary that go and \
         come:\n\n{table}\n{} answers, of which {} wrong; {} lost. Changes seen after the last row: {}. Names that were not as they should \
         be at the end: {} of {} here, {} at the secondary. Memory {} s later: {}, {:.2} of what it was when loaded.\n",
        thousands(records),
        thousands(total.answers as usize),
        total.wrong,
        total.lost,
        left.plain.len() + left.waited.len(),
        missing[0],
        thousands(zones.iter().map(Datacenter::names).sum()),
        missing[1],
        SETTLE.as_secs(),
        mebibytes(after.resident),
        after.resident as f64 / loaded.resident as f64,
    );
    total.wrong == 0 && missing == [0, 0]
}

/// Adds rows to a table until the time is over.
fn report(
    (load, live, daemon): (&Load<'_>, &Live<'_>, &Daemon),
    times: &Mutex<Times>,
    duration: Duration,
    loaded: &Memory,
    table: &mut Table,
) {
    let mut before = (load.outcome(), Usage::take(daemon.id()));
    let (start, length) = (Instant::now(), (duration / ROWS).max(ROUND));
    let mut ends = Duration::ZERO;
    while ends < duration {
        let begun = ends;
        ends = (ends + length).min(duration);
        std::thread::sleep(ends.saturating_sub(start.elapsed()));
        let now = (load.outcome(), Usage::take(daemon.id()));
        let times = std::mem::take(&mut *times.lock().expect("no observer panics"));
        let seconds = (ends - begun).as_secs_f64();
        let memory = Memory::take(daemon.id());
        table.row(row((ends, seconds), &times, live, (before, now), (&memory, loaded)));
        eprint!("{}", table.last());
        before = now;
    }
}

/// A row of the table, about what ends at a time and took so many seconds.
fn row(
    (ends, seconds): (Duration, f64),
    times: &Times,
    live: &Live<'_>,
    (before, now): ((Outcome, Usage), (Outcome, Usage)),
    (memory, loaded): (&Memory, &Memory),
) -> Vec<String> {
    let [half, most, longest] = times.plain.spread();
    let [_, _, longest_waited] = times.waited.spread();
    let [half_answer, most_answer] = live.take_times().map(|time| format!("{} µs", time.as_micros()));
    let used = now.1 - before.1;
    vec![
        format!("{:.0}", ends.as_secs_f64() / 60.0),
        thousands(times.plain.len()),
        half,
        most,
        longest,
        thousands(times.waited.len()),
        longest_waited,
        thousands(((now.0.answers - before.0.answers) as f64 / seconds) as usize),
        half_answer,
        most_answer,
        (now.0.lost - before.0.lost).to_string(),
        (now.0.wrong - before.0.wrong).to_string(),
        format!("{:.0} %", (used.user + used.system) / seconds * 100.0),
        mebibytes(memory.resident),
        format!("{:.2}", memory.resident as f64 / loaded.resident as f64),
    ]
}

/// Knot as a secondary of the region, with a journal, so that it goes on with differences after a restart.
fn start_secondary(folder: &Folder, options: &Options, primary: std::net::SocketAddr) -> Server {
    let place = Place { folder, program: &options.program, region: REGION };
    let region = [Datacenter::new(REGION, DATACENTERS, 2)];
    let mut server = Server::prepare((Kind::Knot, "secondary"), &place, &region, Source::Primary(primary), 1);
    let text = server.configuration();
    server.configure(&text.replace("journal-content: none", "journal-content: all"));
    server.start();
    server
}

/// Queries that the server answers in a second as fast as they come from one thread.
fn capacity(options: &Options, questions: &Questions, daemon: &Daemon) -> f64 {
    let by = (1, &usage::available()[..]);
    Load::run(questions, (daemon.address(), Check::Answer), by, |load| {
        let (start, before) = (Instant::now(), load.outcome());
        std::thread::sleep(options.seconds);
        (load.outcome().answers - before.answers) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Makes so many changes a second, until there were so many, in the datacenters by turns.
fn change(
    mut announcer: Probe,
    (rate, count): (usize, usize),
    zones: &mut [Datacenter],
    primaries: &[Primary],
    live: &Live<'_>,
    senders: Vec<Sender<Announced>>,
) {
    let start = Instant::now();
    for number in 0..count {
        let due = start + Duration::from_secs_f64(number as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let index = number % zones.len();
        let (zone, primary) = (&mut zones[index], &primaries[index]);
        let name = live.make(index);
        primary.script.change(zone, name, 1);
        let owner = format!("{}.{REGION}", zone.owner(name));
        let outages = primary.outages.load(Ordering::SeqCst);
        let change = Announced { owner, address: zone.address(name), at: Instant::now(), outages };
        announcer.notify(&zone.zone);
        if senders[index].send(change).is_err() {
            break;
        }
    }
}

/// Waits for each change of a datacenter.
fn observe(mut probe: Probe, announced: &Receiver<Announced>, primary: &Primary, times: &Mutex<Times>) {
    for Announced { owner, address, at, outages } in announced {
        let time = probe.time_until(&owner, address, at, LONGEST).expect("a version that is announced is served");
        let mut times = times.lock().expect("no observer panics");
        let has_waited = outages % 2 == 1 || primary.outages.load(Ordering::SeqCst) != outages;
        if has_waited { times.waited.push(time) } else { times.plain.push(time) }
    }
}

/// Takes primaries away and brings them back, reads the configuration again, with and without another region, and restarts
/// the secondary, until it is over.
fn disturb(daemon: &Daemon, secondary: &mut Server, primaries: &[Primary], written: &str, is_over: &AtomicBool) {
    let start = Instant::now();
    let wait_until = |round: usize, second: u64| {
        let due = start + ROUND * round as u32 + Duration::from_secs(second);
        while Instant::now() < due && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        !is_over.load(Ordering::Relaxed)
    };
    let members = "\"us-west-2.cns.example.com\", \"us-west-3.cns.example.com\"";
    let more = written.replace("[aggregations]\n", &format!("[aggregations]\n\"{OTHER_REGION}\" = [{members}]\n"));
    for round in 0.. {
        let Primary { script, outages } = &primaries[round % primaries.len()];
        let turn = |is_down: bool| {
            script.set_down(is_down);
            outages.fetch_add(1, Ordering::SeqCst);
        };
        if !wait_until(round, GOES) {
            return;
        }
        turn(true);
        wait_until(round, IS_BACK);
        turn(false);
        if wait_until(round, RELOADS) {
            daemon.configure(if round % 2 == 0 { &more } else { written });
            daemon.reload();
        }
        if wait_until(round, RESTARTS) && round % ROUNDS_OF_SECONDARY == 0 {
            secondary.stop();
            secondary.start();
        }
        if !wait_until(round, ROUND.as_secs()) {
            return;
        }
    }
}

/// How many names a server does not answer as the datacenters have them, when it has had time to.
fn missing(server: std::net::SocketAddr, zones: &[Datacenter]) -> usize {
    let mut probe = Probe::new(server);
    let names = zones.iter().flat_map(|zone| (0..zone.names()).map(move |name| (zone, name)));
    let mut wrong: Vec<(&Datacenter, usize)> = names.collect();
    let start = Instant::now();
    loop {
        wrong
            .retain(|(zone, name)| !probe.has_address(&format!("{}.{REGION}", zone.owner(*name)), zone.address(*name)));
        if wrong.is_empty() || start.elapsed() > LONGEST {
            return wrong.len();
        }
    }
}
