//! Copies of queries: what an answer costs of which a collector of dnstap has a copy, or the log a line, beside one of which
//! nobody has; Knot with the same.
//!
//! The collector is `fstrm_capture`, which throws away what it gets. What it costs is not counted: it may be another machine.
//! A server is restarted for each way; they take turns, round by round.
//!
//! Cost: rounds × ways × (seconds and a start).

use crate::harness::{Folder, Process};
use crate::options::Options;
use crate::queries::{Rounds, measure_one};
use crate::server::Kind;
use crate::stage::Stage;
use crate::table::{Table, median, thousands};
use std::process::Command;
use std::time::Duration;

/// How long a collector may take to listen.
const LONGEST: Duration = Duration::from_secs(10);

/// A way in which queries are copied.
struct Way {
    kind: Kind,
    label: &'static str,
    /// Puts it into the server's configuration; the collector's socket is given.
    configure: fn(&str, &str) -> String,
}

const WAYS: [Way; 7] = [
    Way { kind: Kind::Aggregator, label: "none", configure: |text, _| text.to_owned() },
    Way {
        kind: Kind::Aggregator,
        label: "dnstap",
        configure: |text, socket| format!("{text}\n[dnstap]\ncollector = \"{socket}\"\n"),
    },
    Way {
        kind: Kind::Aggregator,
        label: "dnstap, queries",
        configure: |text, socket| format!("{text}\n[dnstap]\ncollector = \"{socket}\"\nmessages = \"queries\"\n"),
    },
    Way {
        kind: Kind::Aggregator,
        label: "dnstap, one in 10",
        configure: |text, socket| format!("{text}\n[dnstap]\ncollector = \"{socket}\"\none_in = 10\n"),
    },
    Way {
        kind: Kind::Aggregator,
        label: "query log, 100 lines a second",
        configure: |text, _| format!("{text}\n[query_log]\none_in = 1\n"),
    },
    Way { kind: Kind::Knot, label: "none", configure: |text, _| text.to_owned() },
    Way {
        kind: Kind::Knot,
        label: "dnstap",
        configure: |text, socket| {
            let template = "template:\n  - id: default\n";
            let copies = format!("mod-dnstap:\n  - id: copies\n    sink: \"unix:{socket}\"\n");
            text.replace(template, &format!("{copies}{template}    global-module: mod-dnstap/copies\n"))
        },
    },
];

/// Measures all ways of the servers that are asked for, and prints the table.
pub fn measure(options: &Options) {
    let records = *options.records.first().expect("there is a number of records");
    let folder = Folder::new();
    let socket = folder.path().join("collector");
    let mut collector = Command::new("fstrm_capture");
    collector.args(["-t", "protobuf:dnstap.Dnstap", "-w", "/dev/null", "-u"]).arg(&socket);
    let mut collector = Process::start("fstrm_capture", &mut collector, &folder.path().join("log"));
    collector.wait_ready("listens", LONGEST, || socket.exists().then_some(()));
    let socket = socket.to_str().expect("the path is text");
    let kinds: Vec<Kind> =
        [Kind::Aggregator, Kind::Knot].into_iter().filter(|kind| options.peers.contains(kind)).collect();
    let mut stage = Stage::new(&options.program, records);
    stage.start(&kinds);
    let texts: Vec<String> = stage.servers.iter().map(|server| server.configuration()).collect();
    let mut ways: Vec<(&Way, Rounds)> =
        WAYS.iter().filter(|way| kinds.contains(&way.kind)).map(|way| (way, Rounds::default())).collect();
    for round in 0..options.rounds {
        eprintln!("{} records: copies of queries, round {}", thousands(records), round + 1);
        for (way, rounds) in &mut ways {
            let index = kinds.iter().position(|kind| *kind == way.kind).expect("its server runs");
            stage.restart_as(index, &(way.configure)(&texts[index], socket));
            measure_one(options, &stage, &stage.servers[index], 1, rounds);
        }
    }
    let heads =
        ["server", "copies", "queries a second", "CPU µs/query", "more than none", "user mode", "lost or wrong"];
    let mut table = Table::new(&heads);
    for (way, rounds) in &ways {
        let (_, none) = ways.iter().find(|(other, _)| other.kind == way.kind).expect("the first of a server has none");
        let more: Vec<f64> = rounds.total.iter().zip(&none.total).map(|(one, none)| one - none).collect();
        table.row(vec![
            way.kind.label().to_string(),
            way.label.to_string(),
            thousands(median(&rounds.rate) as usize),
            format!("{:.2}", median(&rounds.total)),
            format!("{:+.2}", median(&more)),
            format!("{:.2}", median(&rounds.user)),
            rounds.failed.to_string(),
        ]);
    }
    println!(
        "Copies of queries, {} records, one thread, medians of rounds and of the differences within them:\n\n{table}",
        thousands(records)
    );
}
