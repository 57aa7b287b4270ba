//! Windows and steering: what an answer costs that is a part of its set, or goes by the client's home, beside a plain one of
//! as many records; memory and reloads of tables of clients.
//!
//! One daemon has all of it, in regions of the same three datacenters that differ in their laws only. Questions come from
//! addresses all over 127.0.0.0/8, as clients, or tell of them as a resolver does. The lists of questions take turns, round
//! by round, each on the table of clients that it is for; the table is replaced by a reload, which is timed.
//!
//! Cost: rounds × lists × seconds, for each size; 2 GB of memory.

use crate::daemon::Daemon;
use crate::generate::Datacenter;
use crate::harness::{Folder, write_file};
use crate::load::{Check, Load};
use crate::memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::queries::WARM_UP;
use crate::question::{Asker, Questions};
use crate::quiet;
use crate::server::{Kind, Place, Server, Source};
use crate::stage::LONGEST;
use crate::table::{Figures, Table, median, thousands};
use crate::usage::{self, Usage};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

const MEMBERS: [&str; 3] = ["us-west-1.cns.example.com", "us-west-2.cns.example.com", "us-west-3.cns.example.com"];
/// Records of the larger answers and of the smaller ones, and of the sets that windows are cut from.
const LARGE: usize = 16;
const SMALL: usize = 3;
const HUGE: usize = 1000;
/// Number of the sets that windows are cut from.
const HUGE_SETS: usize = 10;
/// Prefixes of the two tables of clients.
const FEW: u32 = 10_000;
const MANY: u32 = 1_000_000;
/// Questions of a list.
const QUESTIONS: usize = 200_000;
/// Numbers are taken with this stride, a prime.
const STRIDE: usize = 7_368_787;

/// What is asked, of which table, and with which plain list it is compared.
struct List {
    label: &'static str,
    prefixes: u32,
    questions: Questions,
    plain: Option<usize>,
    /// CPU and, of it, that in user mode for a question, by round, in microseconds.
    total: Vec<f64>,
    user: Vec<f64>,
    failed: u64,
}

/// The tables of this part.
pub struct Tables {
    queries: Table,
    others: Table,
}

impl Tables {
    /// Tables without rows.
    pub fn new() -> Tables {
        let queries = &[
            "names",
            "answer",
            "prefixes",
            "CPU µs/query",
            "more than plain",
            "user mode",
            "more than plain",
            "lost or wrong",
        ];
        Tables { queries: Table::new(queries), others: Table::new(&["names", "figure", "result"]) }
    }

    /// Prints what was measured.
    pub fn print(&self) {
        println!(
            "Answers that depend on clients, medians of rounds and of the differences within them:\n\n{}",
            self.queries
        );
        println!("Clients and steered names:\n\n{}", self.others);
    }
}

/// Measures with so many records of all members together.
pub fn measure(options: &Options, records: usize, tables: &mut Tables) {
    let names = records / (LARGE * 4 + SMALL * 4);
    let folder = Folder::new();
    let place = Place { folder: &folder, program: &options.program, region: "" };
    let members: Vec<Datacenter> = MEMBERS.iter().map(|zone| Datacenter::new(zone, 0, 2)).collect();
    for (index, member) in members.iter().enumerate() {
        write_file(&place.zone_files().join(&member.zone), &zone_file(member, index, names));
    }
    let mut primary = Server::prepare((Kind::Nsd, "primary"), &place, &members, Source::Files, 1);
    primary.start_and_wait(&members, "", LONGEST);
    let home = folder.subfolder("aggregator");
    write_prefixes(&home, 3);
    let mut daemon = Daemon::start(&folder, &options.program, &plan(primary.address, true));
    wait(&daemon, names);
    // From the state folder, like every start that is compared.
    let mut row = |figure: String, result: String| tables.others.row(vec![thousands(names), figure, result]);
    let started = |daemon: &mut Daemon, steered: bool, prefixes: u32| {
        daemon.stop();
        write_prefixes(&home, prefixes);
        daemon.configure(&plan(primary.address, steered));
        daemon.start_again();
        wait(daemon, names);
        quiet::wait_quiet(&[daemon.id()]);
        memory::of_group(daemon.id())
    };
    let [plain, steered, with_many] =
        [(false, 3), (true, 3), (true, MANY)].map(|(steered, prefixes)| started(&mut daemon, steered, prefixes));
    let each =
        |more: u64, less: u64, count: usize| format!("{:.0} octets", more.saturating_sub(less) as f64 / count as f64);
    // Whatever several members give is steered.
    row("steered name, of 3 to 48 records".to_string(), each(steered, plain, 4 * names));
    row(format!("prefix, of {}", thousands(MANY as usize)), each(with_many, steered, MANY as usize));
    let mut lists = lists(names);
    let (mut reloads, mut again) = (Figures::default(), Figures::default());
    for round in 0..options.rounds {
        eprintln!("{} names: steering, round {}", thousands(names), round + 1);
        for prefixes in [FEW, MANY] {
            write_prefixes(&home, prefixes);
            let time = daemon.reload();
            if prefixes == MANY {
                reloads.push(time);
                again.push(daemon.reload());
            }
            quiet::wait_quiet(&[daemon.id()]);
            lists
                .iter_mut()
                .filter(|list| list.prefixes == prefixes)
                .for_each(|list| measure_list(options, &daemon, list));
        }
    }
    row(format!("reload with {} other prefixes", thousands(MANY as usize)), reloads.to_string());
    row("reload with the same".to_string(), again.to_string());
    let after = memory::of_group(daemon.id());
    row("memory after all reloads ÷ after a start".to_string(), format!("{:.2}", after as f64 / with_many as f64));
    for list in &lists {
        tables.queries.row(list_row(names, list, &lists));
    }
}

/// The lists of questions; those that others are compared with are asked of both tables.
fn lists(names: usize) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    for prefixes in [FEW, MANY] {
        for is_told in [false, true] {
            let plain = lists.len();
            let mut add = |label, region: &str, (kind, count, answers): (&str, usize, usize), plain| {
                let mut questions = Questions::default();
                for number in 0..QUESTIONS {
                    let client = client_in(prefixes, number);
                    let asker = if is_told { Asker::Told(client) } else { Asker::At(client) };
                    questions.push(&format!("{kind}-{}.{region}", number * STRIDE % count), answers as u16, asker);
                }
                lists.push(List { label, prefixes, questions, plain, total: vec![], user: vec![], failed: 0 });
            };
            if is_told {
                add("16 of 16, plain, told of a client", "plain.example", ("whole", names, LARGE), None);
                add("16 of 48, nearest, told of a client", "near.example", ("near", names, LARGE), Some(plain));
                continue;
            }
            add("16 of 16, plain", "plain.example", ("whole", names, LARGE), None);
            add("3 of 3, plain", "plain.example", ("trio", names, SMALL), None);
            add("16 of 48, nearest", "near.example", ("near", names, LARGE), Some(plain));
            add("3 of 9, nearest", "near.example", ("three", names, SMALL), Some(plain + 1));
            if prefixes == FEW {
                add("16 of 1,000, rotate", "rotate.example", ("huge", HUGE_SETS, LARGE), Some(plain));
                add("16 of 1,000, client", "client.example", ("huge", HUGE_SETS, LARGE), Some(plain));
            }
        }
    }
    lists
}

/// A round of one list.
fn measure_list(options: &Options, daemon: &Daemon, list: &mut List) {
    let processors = usage::available();
    let (theirs, ours) = processors.split_at(1.min(processors.len() - 1));
    let theirs = if theirs.is_empty() { ours } else { theirs };
    usage::pin_group(daemon.id(), theirs);
    let (answers, failed, used) = Load::run(&list.questions, (daemon.address(), Check::Answer), (1, ours), |load| {
        std::thread::sleep(WARM_UP);
        let (before, usage) = (load.outcome(), Usage::take(daemon.id()));
        std::thread::sleep(options.seconds);
        let (after, usage) = (load.outcome(), Usage::take(daemon.id()) - usage);
        (after.answers - before.answers, after.wrong + after.lost - before.wrong - before.lost, usage)
    });
    usage::pin_group(daemon.id(), &processors);
    list.total.push((used.user + used.system) / answers as f64 * 1e6);
    list.user.push(used.user / answers as f64 * 1e6);
    list.failed += failed;
}

/// A row of the table of queries.
fn list_row(names: usize, list: &List, lists: &[List]) -> Vec<String> {
    let more = |of: fn(&List) -> &Vec<f64>| {
        let Some(plain) = list.plain.map(|plain| &lists[plain]) else { return "–".to_string() };
        let differences: Vec<f64> = of(list).iter().zip(of(plain)).map(|(one, plain)| one - plain).collect();
        format!("{:+.2}", median(&differences))
    };
    vec![
        thousands(names),
        list.label.to_string(),
        thousands(list.prefixes as usize),
        format!("{:.2}", median(&list.total)),
        more(|list| &list.total),
        format!("{:.2}", median(&list.user)),
        more(|list| &list.user),
        list.failed.to_string(),
    ]
}

//--- Zones and clients ---

/// The zone of a member: sets that it has alone in its part, and its part of sets that all have together.
fn zone_file(member: &Datacenter, index: usize, names: usize) -> String {
    let Datacenter { zone, serial, .. } = member;
    let mut text = format!(
        "$ORIGIN {zone}.\n$TTL 30\n@ SOA cns.{zone}. hostmaster.example.com. {serial} 30 60 2592000 30\n@ NS ns1.example.com.\n"
    );
    let mut address = (index as u32) << 22;
    let mut add = |name: String, count: usize| {
        for _ in 0..count {
            address += 1;
            writeln!(text, "{name} A {}", Ipv4Addr::from(0x0a00_0000 + address)).expect("a string takes all");
        }
    };
    let part = |all: usize| all / MEMBERS.len() + usize::from(index < all % MEMBERS.len());
    for name in 0..names {
        add(format!("near-{name}"), LARGE);
        add(format!("three-{name}"), SMALL);
        add(format!("whole-{name}"), part(LARGE));
        add(format!("trio-{name}"), part(SMALL));
    }
    (0..HUGE_SETS).for_each(|name| add(format!("huge-{name}"), part(HUGE)));
    text
}

/// The configuration; nobody is steered without `steered`.
fn plan(primary: SocketAddr, steered: bool) -> String {
    let mut text = "udp_threads = 1\nclient_subnet_from = [\"127.0.0.1\"]\n[zones]\n".to_string();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    MEMBERS.iter().for_each(|zone| line(format!("\"{zone}\" = \"{primary}\"")));
    line("[clients]".to_string());
    MEMBERS.iter().for_each(|zone| line(format!("\"{zone}\" = {{ file = \"{zone}.prefixes\" }}")));
    let steering = if steered { "nearest" } else { "off" };
    let laws = [
        ("plain", String::new()),
        ("rotate", format!("answers = {{ max = {LARGE} }}")),
        ("client", format!("answers = {{ max = {LARGE}, pick = \"client\" }}")),
        ("near", format!("steering = {{ prefer = \"{steering}\", stale_after = \"never\" }}")),
    ];
    for (region, law) in laws {
        line(format!("[aggregations.\"{region}.example\"]\nmembers = {MEMBERS:?}\nns = [\"ns1.example.com\"]\n{law}"));
    }
    line("[transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n[probe]\nevery = \"off\"".to_string());
    text
}

/// Bits of the prefixes of a table, behind the first octet of loopback.
fn prefix_bits(prefixes: u32) -> u32 {
    prefixes.next_power_of_two().ilog2()
}

/// The first address of a prefix: all of them lie equally far apart in 127.0.0.0/8.
fn first_of(prefixes: u32, number: u32) -> Ipv4Addr {
    let bits = prefix_bits(prefixes);
    let place = ((u64::from(number) << bits) / u64::from(prefixes)) as u32;
    Ipv4Addr::from(0x7f00_0000 + (place << (24 - bits)))
}

/// An address within one of the prefixes, neither the first nor the last of them all.
fn client_in(prefixes: u32, number: usize) -> Ipv4Addr {
    let prefix = (number * STRIDE % prefixes as usize) as u32;
    Ipv4Addr::from(u32::from(first_of(prefixes, prefix)) + 1 + number as u32 % 3)
}

/// Writes the files of a table of clients, whose homes are drawn by lot, the same in every run.
pub fn write_prefixes(home: &std::path::Path, prefixes: u32) {
    let mut texts = MEMBERS.map(|_| String::new());
    for number in 0..prefixes {
        let member = (number.wrapping_mul(0x9e37_79b1) >> 16) as usize % MEMBERS.len();
        let member = if prefixes < 100 { number as usize } else { member };
        let length = 8 + prefix_bits(prefixes);
        writeln!(texts[member], "{}/{length}", first_of(prefixes, number)).expect("a string takes all");
    }
    for (zone, text) in MEMBERS.iter().zip(&texts) {
        write_file(&home.join(format!("{zone}.prefixes")), text);
    }
}

/// Waits until the regions have all they are to have.
fn wait(daemon: &Daemon, names: usize) {
    let mut probe = Probe::new(daemon.address());
    let start = Instant::now();
    for region in ["plain", "rotate", "client", "near"] {
        // The clients of a home have its record alone.
        while !probe.has_records(&format!("trio-{}.{region}.example", names - 1)) {
            assert!(start.elapsed() < LONGEST, "the region {region} has all names of its members");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_in_prefixes() {
        for prefixes in [FEW, MANY] {
            let size = 1 << (24 - prefix_bits(prefixes));
            for number in 0..1000 {
                let client = u32::from(client_in(prefixes, number));
                let first = u32::from(first_of(prefixes, (number * STRIDE % prefixes as usize) as u32));
                assert!(first % size == 0 && (first..first + size).contains(&client), "{prefixes} {number}");
                assert_eq!(client >> 24, 127);
            }
        }
    }
}
