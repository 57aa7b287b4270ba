//! How many instructions an answer takes, counted by valgrind's callgrind: a number that hardly depends on the machine.
//!
//! `cargo bench --bench instructions` runs this program under valgrind and compares the number with the one in
//! `instructions.txt`. More than [`TOLERANCE`] above it is a failure; so is as much below, until the file has the new
//! number (`-- --accept` writes it). `-- --profile` shows the functions that take them.
//!
//! What is counted is one pass over questions as clients of CNS ask them ([`question`]), from a request's octets to the
//! response's and the counters, on a zone of 10,000 records. Caches and system calls are not seen: see `make bench`.
//!
//! What the rate limit adds to an answer over UDP is counted apart ([`limit_all`]), and timed without valgrind: for clients
//! of [`NETWORKS`] networks, none of which is over its limit or exempt. It may take [`MOST_OF_LIMIT`].

// Both are the bench's, which uses more of them and tests them.
#[allow(dead_code, unused_imports)]
#[path = "../bench/src/generate.rs"]
mod generate;
#[allow(dead_code, unused_imports)]
#[path = "../bench/src/question.rs"]
mod question;

use aggregator::metrics::{Metrics, Transport};
use aggregator::publish::{Identity, Published, Served, State};
use aggregator::rate_limit::{Class, Limiter, Mode, RateLimit, RateLimitPlan};
use aggregator::serve::answer::answer;
use aggregator::zone::{Loader, Zone};
use generate::Datacenter;
use question::Questions;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// How far a count may be from the committed one: hashes are seeded anew in every process, and compilers differ.
const TOLERANCE: f64 = 0.03;
const ZONE: &str = "us-west-1.cns.example.com";
const RECORDS: usize = 10_000;
const QUESTIONS: usize = 4_000;
/// Networks of the clients whose answers are held against the rate limit, more than the nearest memory holds.
const NETWORKS: u32 = 10_000;
/// Most instructions that the rate limit may add to an answer.
const MOST_OF_LIMIT: f64 = 200.0;
/// The committed number.
const EXPECTED_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

/// Counts, or is what is counted.
fn main() -> ExitCode {
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    if has("--answer") {
        run();
        return ExitCode::SUCCESS;
    }
    if has("--limit") {
        assert_eq!(limit_all(&Limiter::default(), &limit(), QUESTIONS), QUESTIONS, "answers within the limit");
        return ExitCode::SUCCESS;
    }
    let folder = std::env::temp_dir().join(format!("aggregator-instructions-{}", std::process::id()));
    let file = folder.display().to_string();
    let of_limit = count(&file, "--limit", "limit_all").map(|total| total / QUESTIONS as f64);
    let Some((total, of_limit)) = count(&file, "--answer", "answer_all").zip(of_limit) else {
        eprintln!("valgrind counts nothing; it is a package of every system, and scripts/install-peers installs it");
        return ExitCode::FAILURE;
    };
    if has("--profile") {
        let annotate = Command::new("callgrind_annotate").args(["--threshold=95", "--auto=no"]).arg(&folder).status();
        annotate.expect("callgrind_annotate comes with valgrind");
    }
    // Nothing else looks for it.
    let _ = std::fs::remove_file(&folder);
    println!("{of_limit:.0} instructions of the rate limit, {:.1} ns", time_limit());
    if of_limit > MOST_OF_LIMIT {
        println!("it may take {MOST_OF_LIMIT:.0}");
        return ExitCode::FAILURE;
    }
    let each = total / QUESTIONS as f64;
    if has("--accept") {
        std::fs::write(EXPECTED_FILE, format!("{each:.0}\n")).expect("the source can be written");
        println!("{each:.0} instructions a query, as is now written");
        return ExitCode::SUCCESS;
    }
    let expected = std::fs::read_to_string(EXPECTED_FILE).expect("the committed number is there");
    let expected: f64 = expected.trim().parse().expect("the committed number is one");
    let change = each / expected - 1.0;
    println!("{each:.0} instructions a query; {expected} are expected ({:+.1} %)", change * 100.0);
    if change.abs() <= TOLERANCE {
        return ExitCode::SUCCESS;
    }
    println!("if that is right: cargo bench --bench instructions -- --accept, and commit benches/instructions.txt");
    ExitCode::FAILURE
}

/// Runs this program under callgrind, which counts within one function only.
fn count(file: &str, what: &str, function: &str) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--toggle-collect={function}"), &format!("--callgrind-out-file={file}")])
        .arg(program)
        .arg(what)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let number = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    if number.is_none() {
        eprintln!("{text}");
    }
    number
}

/// Makes the zone and the questions, and answers them.
fn run() {
    let datacenter = [Datacenter::new(ZONE, 0, RECORDS)];
    let origin = Name::parse(ZONE).expect("a name");
    let served = Served::new(origin.clone(), State::Ok, Some(Arc::new(load(&datacenter[0], origin))));
    let identity = Identity { name: "ns1.example.com".to_string(), version: "aggregator".to_string() };
    let published = Published::new(identity, [Arc::new(served)], 1);
    let questions = Questions::new(&datacenter, ZONE, QUESTIONS);
    let right = answer_all(&published, &questions, &Metrics::new());
    assert_eq!(right, QUESTIONS, "questions that are answered as they should be");
}

/// What is counted, together with the check of what comes out.
#[unsafe(no_mangle)]
#[inline(never)]
fn answer_all(published: &Published, questions: &Questions, metrics: &Metrics) -> usize {
    let counters = metrics.query_counters();
    let mut out = [0; 1232];
    let mut right = 0;
    for index in 0..questions.len() {
        let (question, message) = questions.get(index);
        if let Some(response) = answer(black_box(published), message, true, index as u32, &mut out) {
            counters.count(response.counted(Transport::Udp, Some(rtype::A)));
            right += usize::from(question.is_answered_by(message, [0, 0], &out[..response.length]));
        }
    }
    right
}

/// The limit that is in force by default.
fn limit() -> RateLimit {
    let plan = RateLimitPlan {
        mode: Mode::On,
        responses_per_second: 1000,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        exempt: Vec::new(),
    };
    RateLimit::new(&plan, [])
}

/// Holds so many answers against the limit, one every millisecond; returns how many are within it.
#[unsafe(no_mangle)]
#[inline(never)]
fn limit_all(limiter: &Limiter, limit: &RateLimit, answers: usize) -> usize {
    let mut within = 0;
    for index in 0..answers as u32 {
        let client = Ipv4Addr::from(0x0a00_0000 + ((index.wrapping_mul(0x9e37_79b1) % NETWORKS) << 8));
        within +=
            usize::from(limiter.admits(black_box(limit), client.into(), Class::Answer, u64::from(index) * 1_000_000));
    }
    within
}

/// Nanoseconds that the rate limit takes for an answer.
fn time_limit() -> f64 {
    const ANSWERS: usize = 2_000_000;
    let (limiter, limit) = (Limiter::default(), limit());
    let start = Instant::now();
    assert_eq!(limit_all(&limiter, &limit, ANSWERS), ANSWERS, "answers within the limit");
    start.elapsed().as_secs_f64() * 1e9 / ANSWERS as f64
}

/// Loads the zone file that the generator writes.
fn load(datacenter: &Datacenter, origin: Name) -> Zone {
    let mut text = Vec::new();
    datacenter.write(&mut text).expect("memory takes all");
    let text = String::from_utf8(text).expect("zone files are text");
    let name = |name: &str| match name.strip_suffix('.') {
        _ if name == "@" => NameBuf::parse(ZONE),
        Some(absolute) => NameBuf::parse(absolute),
        None => NameBuf::parse(&format!("{name}.{ZONE}")),
    };
    let name = |text: &str| name(text).expect("the generator writes names");
    let mut loader = Loader::new(origin);
    let mut owner = NameBuf::root();
    for line in text.lines().filter(|line| !line.starts_with('$')) {
        if !line.starts_with(' ') {
            owner = name(line.split(' ').next().expect("a line has a first word"));
        }
        let words: Vec<&str> = line.split(' ').skip(1).skip_while(|word| word.parse::<u32>().is_ok()).collect();
        let number = |word: &str| word.parse::<u32>().expect("a number").to_be_bytes();
        let (rtype, rdata) = match words[..] {
            ["A", address] => (rtype::A, address.parse::<std::net::Ipv4Addr>().expect("an address").octets().to_vec()),
            ["TXT", text] => (rtype::TXT, [&[text.len() as u8], text.as_bytes()].concat()),
            ["CNAME", target] => (rtype::CNAME, name(target).as_wire().to_vec()),
            ["NS", target] => (rtype::NS, name(target).as_wire().to_vec()),
            ["SRV", ref numbers @ .., target] => {
                let fields = numbers.iter().flat_map(|word| number(word)[2..].to_vec());
                (rtype::SRV, fields.chain(name(target).as_wire().iter().copied()).collect())
            }
            ["SOA", mname, rname, ref numbers @ ..] => {
                let names = [name(mname).as_wire(), name(rname).as_wire()].concat();
                (rtype::SOA, names.into_iter().chain(numbers.iter().flat_map(|word| number(word))).collect())
            }
            _ => panic!("the generator writes no such line: {line}"),
        };
        loader.push(&owner, rtype, 30, &rdata);
    }
    loader.finish(None).map(|loaded| loaded.zone).expect("the generator writes a zone")
}
