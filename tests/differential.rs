//! Our answers against those of Knot and NSD over the same generated zones.
//!
//! Three opinions on every question: a naive model of the RFCs (`differential/model.rs`), Knot, and NSD. Our daemon
//! must answer exactly as the model expects. The model must be confirmed by at least one peer, or the difference must
//! be on the list of `differential/explained.rs`. So a mistake has to be made twice, in different programs, to pass.
//!
//! `AGGREGATOR_DIFF_SEED` and `AGGREGATOR_DIFF_ZONES` choose other zones and more of them.

#[path = "differential/choices.rs"]
mod choices;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/coverage.rs"]
mod coverage;
#[path = "differential/engine.rs"]
mod engine;
#[path = "differential/explained.rs"]
mod explained;
#[path = "differential/features.rs"]
mod features;
#[path = "differential/generate.rs"]
mod generate;
mod harness;
#[path = "differential/model.rs"]
mod model;
#[path = "differential/mutations.rs"]
mod mutations;
#[path = "differential/questions.rs"]
mod questions;
#[path = "differential/tally.rs"]
mod tally;

use compare::{Side, find_faults};
use engine::Engine;
use explained::{Case, Opinion};
use generate::{Zone, generate_group};
use harness::{Aggregator, Client, Folder, Knotd, Message, Nsd, Random, ZoneText, wait_until, write_zone};
use model::World;
use questions::{Question, ask_about};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tally::Tally;

/// Threads that ask; each has its own sockets.
const THREADS: usize = 4;

/// All zones of one run.
struct Zones {
    seed: u64,
    groups: Vec<Vec<Zone>>,
}

impl Zones {
    /// Generates at least `count` zones, or as many as the environment says.
    fn generate(count: usize) -> Zones {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let seed = number("AGGREGATOR_DIFF_SEED").unwrap_or(20_261_120);
        let count = number("AGGREGATOR_DIFF_ZONES").unwrap_or(count as u64) as usize;
        println!("seed {seed}: AGGREGATOR_DIFF_SEED={seed} repeats this run");
        let mut groups = Vec::new();
        let mut zones = 0;
        while zones < count {
            groups.push(generate_group(seed, groups.len()));
            zones += groups[groups.len() - 1].len();
        }
        Zones { seed, groups }
    }

    fn all(&self) -> impl Iterator<Item = &Zone> {
        self.groups.iter().flatten()
    }

    fn texts(&self) -> Vec<ZoneText> {
        self.all().map(|zone| (zone.origin.clone(), write_zone(&zone.records))).collect()
    }
}

/// One way to ask one server.
fn ask(client: &mut Client, question: &Question) -> Message {
    // A datagram may be lost on a busy machine, even on loopback; an answer that fails three times is none.
    let mut last = None;
    for _ in 0..3 {
        let answer = if question.tcp { client.ask_tcp(&question.query) } else { client.ask(&question.query) };
        match answer {
            Ok(message) => return message,
            Err(error) => last = Some(error),
        }
    }
    panic!("no answer to {question:?}: {last:?}");
}

/// Puts all questions and judges all answers; without our daemon the peers alone are compared with the model.
fn compare_all(zones: &Zones, knot: SocketAddr, nsd: SocketAddr, ours: Option<SocketAddr>) -> Tally {
    let world = World::new(zones.all());
    let start = Instant::now();
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let world = &world;
        let workers: Vec<_> =
            (0..THREADS).map(|worker| scope.spawn(move || ask_groups(zones, world, worker, knot, nsd, ours))).collect();
        for worker in workers {
            tally.add(worker.join().expect("a worker panicked"));
        }
    });
    tally.print(zones.all().count(), start.elapsed());
    tally
}

/// The share of one thread.
fn ask_groups(
    zones: &Zones,
    world: &World,
    worker: usize,
    knot: SocketAddr,
    nsd: SocketAddr,
    ours: Option<SocketAddr>,
) -> Tally {
    let mut tally = Tally::default();
    let (mut knot, mut nsd) = (Client::new(knot), Client::new(nsd));
    let mut ours = ours.map(Client::new);
    for (number, group) in zones.groups.iter().enumerate().skip(worker).step_by(THREADS) {
        let mut random = Random::new(zones.seed ^ 0x5eed, number as u64);
        for question in ask_about(group, &mut random) {
            let expected = world.answer(&question.query.name, question.query.rtype);
            let (knot, nsd) = (ask(&mut knot, &question), ask(&mut nsd, &question));
            let opinion = |answer| {
                let faults = find_faults(world, &question, &expected, &answer, Side::Peer);
                Opinion { answer, faults }
            };
            let (knot, nsd) = (opinion(knot), opinion(nsd));
            let case = Case { question, expected, knot, nsd };
            if let Some(client) = &mut ours {
                let answer = ask(client, &case.question);
                let faults = find_faults(world, &case.question, &case.expected, &answer, Side::Ours);
                tally.judge_ours(&case, &answer, faults);
            }
            tally.judge_peers(&case);
        }
    }
    tally
}

/// Starts both peers with the zones and calls `run` with their addresses.
fn with_peers<T>(zones: &Zones, run: impl FnOnce(&Folder, SocketAddr, SocketAddr) -> T) -> T {
    let folder = Folder::new();
    let texts = zones.texts();
    let knot = Knotd::start(&folder, &texts);
    let nsd = Nsd::start(&folder, &texts);
    run(&folder, knot.address(), nsd.address())
}

#[test]
fn the_model_is_confirmed_by_knot_and_nsd() {
    let zones = Zones::generate(500);
    with_peers(&zones, |_, knot, nsd| compare_all(&zones, knot, nsd, None)).assert_clean();
}

#[test]
fn the_engine_answers_as_the_model_expects() {
    let zones = Zones::generate(3_000);
    let world = World::new(zones.all());
    let mut engine = Engine::new(zones.all());
    let mut wrong = Vec::new();
    let mut asked = 0;
    for (number, group) in zones.groups.iter().enumerate() {
        let mut random = Random::new(zones.seed ^ 0x5eed, number as u64);
        for question in ask_about(group, &mut random) {
            let expected = world.answer(&question.query.name, question.query.rtype);
            let answer = engine.ask(&question);
            let faults = find_faults(&world, &question, &expected, &answer, Side::Ours);
            asked += 1;
            if !faults.is_empty() {
                wrong.push(format!("{}\n{question:?}\nexpected: {expected:?}\nours: {answer:?}", faults.join("; ")));
            }
        }
    }
    println!("{asked} questions, {} wrong answers", wrong.len());
    wrong.iter().take(12).for_each(|text| println!("---\n{text}"));
    assert!(wrong.is_empty());
}

#[test]
fn our_answers_are_those_of_knot_or_nsd_or_explained() {
    let zones = Zones::generate(2_000);
    let tally = with_peers(&zones, |folder, knot, nsd| {
        // Our daemon transfers everything from Knot.
        let lines = zones.all().map(|zone| format!("\"{}\" = \"{knot}\"\n", zone.origin));
        let plan = format!("[zones]\n{}", lines.collect::<String>());
        let ours = Aggregator::start(folder, &plan);
        let mut client = Client::new(ours.address());
        for zone in zones.all() {
            let what = format!("our daemon serves {}", zone.origin);
            wait_until(&what, Duration::from_secs(60), || client.serial(&zone.origin));
        }
        compare_all(&zones, knot, nsd, Some(ours.address()))
    });
    tally.assert_clean();
}
