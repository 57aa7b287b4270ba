//! Binder's answers and ours: every captured question, every sequence of changes, every record that ended its process.
//!
//! Each answer must be Binder's but for the differences of one table, and every entry of the table must be needed. The
//! same cases are asked of the tree in memory and of the daemon that reads a ZooKeeper.

mod harness;

#[path = "binder/cases.rs"]
mod cases;
#[path = "binder/connections.rs"]
mod connections;
#[path = "binder/differences.rs"]
mod differences;
#[path = "binder/live.rs"]
mod live;
#[path = "binder/memory.rs"]
mod memory;
#[path = "binder/stand.rs"]
mod stand;
#[path = "binder/world.rs"]
mod world;

use aggregator::publish::Unknown;
use cases::{Case, Nodes, Outcome, Step, outcome_of, read_cases, read_fixture, read_sequences, read_tree};
use differences::{DIFFERENCES, Rule};
use harness::{Folder, ZooKeeper};
use live::Live;
use memory::Memory;
use stand::Stand;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};
use world::World;

/// What was wrong, and which entries of the table were needed.
#[derive(Default)]
struct Tally {
    faults: Vec<String>,
    /// By entry, and by case pattern in it.
    used: BTreeSet<(usize, usize)>,
    cases: usize,
}

impl Tally {
    /// Asks a question and compares.
    fn check(&mut self, stand: &mut dyn Stand, world: &World, case: &Case) {
        let expected = self.expected(world, case);
        let limit = Instant::now() + stand.patience();
        let ours = loop {
            let ours = ask(stand, case, &expected);
            if ours == expected || Instant::now() >= limit {
                break ours;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.cases += 1;
        if ours != expected {
            let Case { id, name, rtype, outcome, .. } = case;
            self.faults
                .push(format!("{id}: {name} {rtype}\n  Binder: {outcome:?}\n  due: {expected:?}\n  ours: {ours:?}"));
        }
    }

    /// What Binder's answer becomes by the table.
    fn expected(&mut self, world: &World, case: &Case) -> Outcome {
        let mut outcome = case.outcome.clone();
        for (index, difference) in DIFFERENCES.iter().enumerate() {
            let before = outcome.clone();
            let mut part = 0;
            match &difference.rule {
                Rule::Cases(cases) => {
                    let matching = cases.iter().position(|(pattern, _)| matches(pattern, &case.id));
                    let Some(at) = matching else { continue };
                    part = at;
                    cases[at].1.apply(world, case, &mut outcome);
                }
                Rule::All(change) => {
                    if let Outcome::Reply(reply) = &mut outcome {
                        change(world, case, reply);
                    }
                }
            }
            if outcome != before {
                self.used.insert((index, part));
            }
        }
        outcome
    }

    /// Fails with everything that was wrong.
    fn finish(&self) {
        assert!(self.faults.is_empty(), "{} of {} cases:\n{}", self.faults.len(), self.cases, self.faults.join("\n"));
    }
}

/// Our answer; of one that is not listed whole, what is listed.
fn ask(stand: &mut dyn Stand, case: &Case, expected: &Outcome) -> Outcome {
    let due = *expected != Outcome::NoReply;
    let mut ours = outcome_of(stand.ask(&case.request, case.tcp, due).as_deref());
    if let (Some(count), Outcome::Reply(ours), Outcome::Reply(expected)) = (case.listed_of, &mut ours, expected)
        && ours.answer.len() == count
    {
        ours.answer.retain(|line| expected.answer.contains(line));
    }
    ours
}

/// Whether a case is meant by a pattern.
fn matches(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => id.starts_with(start),
        None => pattern == id,
    }
}

/// Everything that was captured.
struct Captures {
    domain: String,
    nodes: Nodes,
    fatal_nodes: Nodes,
    answers: Vec<Case>,
    fatal: Vec<Case>,
    sequences: Vec<(String, Vec<Step>)>,
    fixture: (String, Nodes, Vec<Case>),
}

impl Captures {
    /// Reads the files.
    fn read() -> Captures {
        let (domain, nodes) = read_tree("binder-tree.json");
        let (_, more) = read_tree("binder-fatal-tree.json");
        let fatal_nodes = nodes.clone().into_iter().chain(more).collect();
        let (fixture_domain, fixture_nodes) = read_tree("zk-tree.json");
        Captures {
            domain,
            nodes,
            fatal_nodes,
            answers: read_cases("binder-answers.json", ""),
            fatal: read_cases("binder-fatal.json", "fatal/"),
            sequences: read_sequences(),
            fixture: (fixture_domain, fixture_nodes, read_fixture()),
        }
    }

    /// The captured answers by id.
    fn index(&self) -> Rc<HashMap<String, cases::Reply>> {
        let all = [&self.answers, &self.fatal, &self.fixture.2];
        Rc::new(all.into_iter().flat_map(|cases| World::index(cases)).collect())
    }

    /// Asks everything, of a new stand for each tree and each sequence.
    fn run(&self, refuses: bool, start: &mut dyn FnMut(&str, &Nodes) -> Box<dyn Stand>, tally: &mut Tally) {
        let index = self.index();
        let (fixture_domain, fixture_nodes, fixture) = &self.fixture;
        let questions = [
            (&self.domain, &self.nodes, &self.answers),
            (&self.domain, &self.fatal_nodes, &self.fatal),
            (fixture_domain, fixture_nodes, fixture),
        ];
        for (domain, nodes, cases) in questions {
            let world = World::new(domain, nodes, &index, refuses);
            let mut stand = start(domain, nodes);
            cases.iter().for_each(|case| tally.check(&mut *stand, &world, case));
            assert!(stand.is_alive());
        }
        for (_, steps) in &self.sequences {
            let mut world = World::new(&self.domain, &self.nodes, &index, refuses);
            let mut stand = start(&self.domain, &self.nodes);
            for step in steps {
                match step {
                    Step::Ask(case) => {
                        tally.check(&mut *stand, &world, case);
                        continue;
                    }
                    Step::Set { path, data } => world.set(path, data),
                    Step::Delete { path } => world.remove(path),
                    Step::Replace { path, data } => {
                        world.remove(path);
                        world.set(path, data);
                    }
                    _ => {}
                }
                stand.make(step);
            }
            assert!(stand.is_alive());
        }
    }
}

/// Everything in memory, in both modes.
fn run_in_memory() -> Tally {
    let captures = Captures::read();
    let mut tally = Tally::default();
    for (refuses, unknown) in [(true, Unknown::Refused), (false, Unknown::NxDomain)] {
        let mut start = |domain: &str, nodes: &Nodes| Box::new(Memory::start(domain, nodes, unknown)) as Box<dyn Stand>;
        captures.run(refuses, &mut start, &mut tally);
    }
    tally
}

#[test]
fn answers_are_those_of_binder_but_for_the_table() {
    let tally = run_in_memory();
    tally.finish();
    assert!(tally.cases > 900, "only {} cases", tally.cases);
}

#[test]
fn every_entry_of_the_table_is_needed() {
    let used = run_in_memory().used;
    for (index, difference) in DIFFERENCES.iter().enumerate() {
        let parts: Vec<&str> = match &difference.rule {
            Rule::Cases(cases) => cases.iter().map(|(pattern, _)| *pattern).collect(),
            Rule::All(_) => vec!["all"],
        };
        for (part, pattern) in parts.iter().enumerate() {
            assert!(used.contains(&(index, part)), "{}: {pattern} changes nothing", difference.what);
        }
    }
}

#[test]
fn the_table_is_in_the_documentation() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/binder.md")).unwrap();
    let rows = DIFFERENCES
        .iter()
        .map(|entry| format!("| {} | {} | {} | {} |", entry.what, entry.binder, entry.ours, entry.why));
    let table: Vec<String> = ["| What | Binder | This server | Why |".to_string(), "|---|---|---|---|".to_string()]
        .into_iter()
        .chain(rows)
        .collect();
    assert!(text.contains(&table.join("\n")), "docs/binder.md needs this table:\n{}", table.join("\n"));
}

/// Everything from a ZooKeeper over sockets, in one mode.
fn run_live(refuses: bool) {
    let folder = Folder::new();
    let zookeeper = Rc::new(RefCell::new(ZooKeeper::start(&folder)));
    let mut number = 0;
    let mut start = |domain: &str, nodes: &Nodes| {
        number += 1;
        Box::new(Live::start(&folder, &zookeeper, number, domain, nodes, refuses)) as Box<dyn Stand>
    };
    let mut tally = Tally::default();
    Captures::read().run(refuses, &mut start, &mut tally);
    tally.finish();
}

#[test]
fn the_daemon_answers_out_of_zookeeper_like_binder() {
    run_live(true);
}

#[test]
fn the_daemon_denies_unknown_names_unless_told_otherwise() {
    run_live(false);
}

#[test]
fn connections_carry_several_questions() {
    let folder = Folder::new();
    let zookeeper = Rc::new(RefCell::new(ZooKeeper::start(&folder)));
    let (domain, nodes) = read_tree("binder-tree.json");
    let live = Live::start(&folder, &zookeeper, 1, &domain, &nodes, true);
    connections::check(live.address(), &domain);
}
