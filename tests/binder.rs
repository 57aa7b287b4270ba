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
#[path = "binder/oracle.rs"]
mod oracle;
#[path = "binder/oracle_answers.rs"]
mod oracle_answers;
#[path = "binder/random.rs"]
mod random;
#[path = "binder/stand.rs"]
mod stand;
#[path = "binder/world.rs"]
mod world;

use aggregator::publish::Unknown;
use cases::{Case, Nodes, Outcome, Step, our_outcome, outcome_of, read_cases, read_fixture, read_sequences, read_tree};
use differences::{DIFFERENCES, Rule};
use harness::{Aggregator, Client, Dname, Folder, Query, Settings, Znodes, ZooKeeper, rtype, wait_until};
use live::Live;
use memory::Memory;
use oracle::{Oracle, Switch, Told, Way};
use stand::Stand;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};
use world::World;

/// Differences found, and the entries of the table that were needed.
#[derive(Default)]
struct Tally {
    faults: Vec<String>,
    /// Entries that were needed, each with the case pattern in it.
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

    /// Returns the answer that the table makes of Binder's.
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
                Rule::Random | Rule::Shown(_) => {}
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
    let mut ours = our_outcome(case, stand.ask(&case.request, case.tcp, due).as_deref(), expected);
    if let (Some(count), Outcome::Reply(ours), Outcome::Reply(expected)) = (case.listed_of, &mut ours, expected)
        && ours.answer.len() == count
    {
        ours.answer.retain(|line| expected.answer.contains(line));
    }
    ours
}

/// Returns true if a pattern matches a case.
fn matches(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => id.starts_with(start),
        None => pattern == id,
    }
}

/// All captures.
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
            let mut stand = start(domain, nodes);
            let mut world = World::new(domain, nodes, &index, refuses);
            world.has_cookies = stand.has_cookies();
            cases.iter().for_each(|case| tally.check(&mut *stand, &world, case));
            assert!(stand.is_alive());
        }
        for (_, steps) in &self.sequences {
            let mut stand = start(&self.domain, &self.nodes);
            let mut world = World::new(&self.domain, &self.nodes, &index, refuses);
            world.has_cookies = stand.has_cookies();
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

/// Compares all captures with answers made in memory, in both modes.
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
            Rule::Random => vec![],
            Rule::Shown(test) => {
                let text = format!("#[test]\nfn {test}() {{");
                let here = [include_str!("binder.rs"), include_str!("zookeeper_resets.rs")];
                assert!(here.iter().any(|tests| tests.contains(&text)), "{}: there is no {test}", difference.what);
                vec![]
            }
        };
        for (part, pattern) in parts.iter().enumerate() {
            assert!(used.contains(&(index, part)), "{}: {pattern} changes nothing", difference.what);
        }
    }
}

/// The oracle answers everything that was captured as Binder did, apart from the flags of Binder's questions and
/// records beside SERVFAIL.
#[test]
fn the_oracle_is_binder() {
    let captures = Captures::read();
    let mut faults = Vec::new();
    let mut asked = 0;
    let mut check = |oracle: &Oracle, case: &Case| {
        // What is in the message itself is another matter: the oracle takes a question.
        let is_plain =
            ["raw-", "opcode-", "class-", "flags-AA", "flags-TC"].iter().all(|front| !case.id.starts_with(front));
        if !is_plain || case.id.starts_with("edns-0-") || case.id.contains("edns-v1") {
            return;
        }
        asked += 1;
        let (name, edns) = question_of(&case.request);
        let Told { outcome: mut told, .. } = oracle.ask(&name, &case.rtype, Way { tcp: case.tcp, edns });
        let mut captured = case.outcome.clone();
        if let (Outcome::Reply(captured), Outcome::Reply(told)) = (&mut captured, &mut told) {
            ["rd", "ad", "cd", "z", "ra"].into_iter().for_each(|flag| _ = captured.flags.remove(flag));
            if captured.rcode == "SERVFAIL" {
                (captured.answer, captured.additional) = Default::default();
            }
            if let Some(count) = case.listed_of
                && told.answer.len() == count
            {
                told.answer.retain(|line| captured.answer.contains(line));
            }
            (captured.options, told.options) = (false, false);
            // A refusal of a name with capitals, as all else, has the owner's spelling, which is not compared.
        }
        if captured != told {
            faults.push(format!("{} {name} {}\n  Binder: {captured:?}\n  oracle: {told:?}", case.id, case.rtype));
        }
    };
    let start = |domain: &str, nodes: &Nodes| {
        let mut oracle = Oracle::new(domain, [], true);
        nodes.iter().for_each(|(path, data)| oracle.set(path, data));
        oracle
    };
    let (domain, nodes) = (&captures.domain, &captures.nodes);
    captures.answers.iter().for_each(|case| check(&start(domain, nodes), case));
    captures.fatal.iter().for_each(|case| check(&start(domain, &captures.fatal_nodes), case));
    captures.fixture.2.iter().for_each(|case| check(&start(&captures.fixture.0, &captures.fixture.1), case));
    for (_, steps) in &captures.sequences {
        let mut oracle = start(domain, nodes);
        for step in steps {
            match step {
                Step::Ask(case) => check(&oracle, case),
                Step::Set { path, data } => oracle.set(path, data),
                Step::Delete { path } => oracle.remove(path),
                Step::Replace { path, data } => {
                    oracle.remove(path);
                    oracle.set(path, data);
                }
                // Away it stays as it is; born anew it has nothing until ZooKeeper is there.
                Step::StopServer => oracle.ready = false,
                Step::StartZooKeeper => oracle.ready = true,
                Step::StopZooKeeper | Step::StartServer | Step::Wait => {}
            }
        }
    }
    assert!(faults.is_empty(), "{} of {asked}:\n{}", faults.len(), faults.join("\n"));
    assert!(asked > 350, "only {asked} questions");
}

/// Name and EDNS size of a captured question.
fn question_of(request: &[u8]) -> (String, Option<u16>) {
    let mut labels = Vec::new();
    let mut at = 12;
    while request[at] != 0 {
        let end = at + 1 + usize::from(request[at]);
        labels.push(String::from_utf8_lossy(&request[at + 1..end]).into_owned());
        at = end;
    }
    // The OPT record, if there is one, stands right behind the question: root, type, size.
    let edns = request.get(at + 5..at + 10).filter(|opt| opt[..3] == [0, 0, 41]);
    (labels.join("."), edns.map(|opt| u16::from_be_bytes([opt[3], opt[4]])))
}

#[test]
fn random_trees_are_answered_as_binder_does_but_for_the_table() {
    let seed = std::env::var("AGGREGATOR_BINDER_SEED").map_or(16, |seed| seed.parse().expect("a number"));
    let findings = random::compare(seed, 60);
    let every = findings.faults.len().div_ceil(12).max(1);
    let shown: Vec<&str> = findings.faults.iter().step_by(every).map(String::as_str).collect();
    assert!(shown.is_empty(), "{} of {}:\n{}", findings.faults.len(), findings.questions, shown.join("\n"));
    assert!(findings.questions > 20_000, "only {} questions", findings.questions);
    // The table has nothing that no tree needs, and nothing is switched that it does not have.
    for (switch, what) in Switch::ALL {
        assert!(findings.needed.contains(&switch), "no tree shows {what:?}");
        assert!(DIFFERENCES.iter().any(|difference| difference.what == what), "the table has no {what:?}");
    }
    for difference in DIFFERENCES.iter().filter(|difference| matches!(difference.rule, Rule::Random)) {
        assert!(Switch::ALL.iter().any(|(_, what)| *what == difference.what), "nobody shows {:?}", difference.what);
    }
}

/// In Triton a Binder has the domain of the whole site, finds its own datacenter's names in its tree, and asks the
/// others' Binders.
#[test]
fn names_of_other_datacenters_are_answered_from_their_zones() {
    let host =
        |address: &str| format!(r#"{{"type":"moray_host","moray_host":{{"address":"{address}"}}}}"#).into_bytes();
    let service = br#"{"type":"service","service":{"srvce":"_moray","proto":"_tcp","port":2020}}"#.to_vec();
    let nodes = |dc: &str, address: &str| {
        let path = |below: &str| format!("/us/joyent/{dc}{below}");
        Nodes::from([(path(""), b"{}".to_vec()), (path("/moray"), service.clone()), (path("/moray/m0"), host(address))])
    };
    let (mut here, there) = (nodes("emy-10", "172.27.0.1"), nodes("emy-11", "172.28.0.1"));
    here.insert("/us/joyent".into(), b"{}".to_vec());
    let mut ours = Memory::start("joyent.us", &here, Unknown::Refused);
    ours.add_sibling(&Memory::start("emy-11.joyent.us", &there, Unknown::Refused));
    let mut sibling = Oracle::new("emy-11.joyent.us", [], true);
    there.iter().for_each(|(path, data)| sibling.set(path, data));
    let mut ask = |name: &str, rtype: u16| {
        let mut query = Query::new(&Dname::parse(&format!("{name}.joyent.us.")), rtype);
        query.recursion_desired = true;
        let Outcome::Reply(reply) = outcome_of(ours.ask(&query.encode(7), true, true).as_deref()) else {
            panic!("no answer for {name}")
        };
        reply
    };
    let way = Way { tcp: true, edns: None };
    let mut addresses = 0;
    for (name, rtype) in [("moray.emy-11", "A"), ("m0.moray.emy-11", "A"), ("_moray._tcp.moray.emy-11", "SRV")] {
        let Outcome::Reply(theirs) = sibling.ask(&format!("{name}.joyent.us"), rtype, way).outcome else {
            panic!("no answer for {name}")
        };
        let number = if rtype == "A" { rtype::A } else { rtype::SRV };
        let reply = ask(name, number);
        assert_eq!((&reply.rcode[..], &reply.answer), ("NOERROR", &theirs.answer), "{name}");
        assert!(reply.flags.contains("aa") && !reply.flags.contains("ra"), "{name}");
        addresses += reply.additional.len();
    }
    assert_eq!(addresses, 1, "which Binder leaves out");
    assert_eq!(ask("moray.emy-10", rtype::A).answer.len(), 1, "and our own");
    for name in ["gone.emy-11", "moray.emy-12", "emy-12"] {
        assert_eq!(ask(name, rtype::A).rcode, "REFUSED", "{name}");
    }
}

#[test]
fn a_tree_that_has_shrunk_over_a_restart_is_held_back() {
    let folder = Folder::new();
    let zookeeper = ZooKeeper::start(&folder);
    let znodes = Znodes::connect(&[zookeeper.address()]);
    let path = |number: u32| format!("/us/joyent/emy-10/h{number}");
    for number in 0..40 {
        let data = format!(r#"{{"type":"host","host":{{"address":"172.27.0.{number}"}}}}"#);
        znodes.create(&path(number), data.as_bytes());
    }
    let plan = format!(
        "[transfer]\nconfirm_after = \"1h\"\n\
         [zones.\"emy-10.joyent.us\"]\nzookeeper = \"{}\"\nbinder_compat = true\nreverse = [\"172.27.0.0/16\"]\n",
        zookeeper.address()
    );
    let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan) };
    let mut daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let ask = |daemon: &Aggregator, number: u32| {
        let name = Dname::parse(&format!("h{number}.emy-10.joyent.us."));
        Client::new(daemon.address()).ask(&Query::new(&name, rtype::A)).ok().map(|answer| answer.answer.len())
    };
    let patience = Duration::from_secs(60);
    wait_until("the tree is served", patience, || (ask(&daemon, 39) == Some(1)).then_some(()));
    daemon.kill_and_restart(|| (5..40).for_each(|number| znodes.delete(&path(number))));
    let held = "aggregator_transfer_held{zone=\"emy-10.joyent.us.\"} 1";
    wait_until("the tree is held back", patience, || daemon.metrics().contains(held).then_some(()));
    // Binder would refuse the latter.
    assert_eq!([ask(&daemon, 0), ask(&daemon, 39)], [Some(1), Some(1)]);
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

/// Compares all captures with answers over sockets and a real ZooKeeper, in one mode.
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
