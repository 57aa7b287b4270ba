//! Small changes, some or many a second, for minutes: how long each takes until the region answers it, and what memory
//! and the processor do meanwhile.
//!
//! The zone of the first datacenter gets another address at one name with each change, announced by NOTIFY. A row of the
//! table is a minute. A change counts in the minute in which it is made.
//!
//! Cost: the time that was asked for, for each rate; a GB for a million records.

use crate::bulk::{datacenters, plan, settle};
use crate::daemon::Daemon;
use crate::generate::Datacenter;
use crate::harness::Folder;
use crate::memory::Memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::scene::{LONGEST, REGION};
use crate::scripted::Scripted;
use crate::table::{Figures, Table, mebibytes, thousands};
use crate::usage::Usage;
use std::net::Ipv4Addr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time that a row of the table is about.
const ROW: Duration = Duration::from_secs(60);

/// A change that was announced: what is to be answered, and since when.
struct Announced {
    owner: String,
    address: Ipv4Addr,
    at: Instant,
}

/// Measures all sizes and rates, and prints a table of each.
pub fn measure(options: &Options) {
    for records in &options.records {
        for rate in &options.rates {
            let table = measure_rate(options, *records, *rate);
            println!("{} records and their region, {rate} changes a second:\n\n{table}", thousands(*records));
        }
    }
}

/// Measures one rate.
fn measure_rate(options: &Options, records: usize, rate: usize) -> Table {
    eprintln!("{} records: {rate} changes a second for {} s", thousands(records), options.duration.as_secs());
    let folder = Folder::new();
    let mut zones = datacenters(records, options.others);
    let primaries: Vec<Scripted> = zones.iter().map(Scripted::start).collect();
    let daemon = Daemon::start(&folder, &options.program, &plan(&zones, &primaries));
    let (owner, address) = (format!("{}.{REGION}", zones[0].owner(0)), zones[0].address(0));
    let first = Probe::new(daemon.address()).time_until(&owner, address, Instant::now(), LONGEST);
    first.expect("the region is served");
    let loaded = settle(&daemon);
    let mut table = Table::new(&["second", "changes", "p50", "p99", "longest", "processor", "memory", "÷ loaded"]);
    let mut row = |second: Duration, times: &Figures, processor: f64, memory: Memory| {
        let [half, most, all] = times.spread();
        let share = format!("{:.2}", memory.resident as f64 / loaded.resident as f64);
        let processor = format!("{:.1} %", processor * 100.0);
        let (second, changes) = (second.as_secs().to_string(), times.len().to_string());
        table.row(vec![second, changes, half, most, all, processor, mebibytes(memory.resident), share]);
    };
    row(Duration::ZERO, &Figures::default(), 0.0, loaded);
    let (sender, announced) = mpsc::channel();
    let (server, duration) = (daemon.address(), options.duration);
    let changes = std::thread::spawn(move || {
        let (mut announcer, start) = (Probe::new(server), Instant::now());
        for number in 0..rate * duration.as_secs() as usize {
            let due = start + Duration::from_secs_f64(number as f64 / rate as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let name = number % zones[0].names();
            primaries[0].change(&mut zones[0], name, 1);
            let owner = format!("{}.{REGION}", zones[0].owner(name));
            let change = Announced { owner, address: zones[0].address(name), at: Instant::now() };
            announcer.notify(&zones[0].zone);
            if sender.send(change).is_err() {
                break;
            }
        }
        // Primaries answer as long as they are measured.
        (zones, primaries)
    });
    let (start, mut ends) = (Instant::now(), ROW);
    let mut usage = Usage::take(daemon.id());
    let mut probe = Probe::new(daemon.address());
    loop {
        let (times, is_over) = measure_row(&mut probe, &announced, start + ends.min(duration));
        let now = Usage::take(daemon.id());
        let used = now - usage;
        usage = now;
        let length = (ROW - ends.saturating_sub(duration)).as_secs_f64();
        row(ends.min(duration), &times, (used.user + used.system) / length, Memory::take(daemon.id()));
        if is_over {
            break;
        }
        ends += ROW;
    }
    let _primaries: (Vec<Datacenter>, Vec<Scripted>) = changes.join().expect("the thread of changes does not panic");
    row(duration + crate::bulk::SETTLE, &Figures::default(), 0.0, settle(&daemon));
    table
}

/// Measures the changes until a time; true if there are no more.
fn measure_row(probe: &mut Probe, announced: &Receiver<Announced>, end: Instant) -> (Figures, bool) {
    let mut times = Figures::default();
    loop {
        match announced.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Announced { owner, address, at }) => {
                let time = probe.time_until(&owner, address, at, LONGEST);
                times.push(time.expect("a version that is announced is served"));
            }
            Err(RecvTimeoutError::Timeout) => return (times, false),
            Err(RecvTimeoutError::Disconnected) => return (times, true),
        }
    }
}
