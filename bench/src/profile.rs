//! Where our program's time goes under load, as perf sees it: its own functions and the kernel's.
//!
//! Cost: a start, and so many seconds of load.

use crate::load::{Check, Load};
use crate::options::Options;
use crate::server::Kind;
use crate::stage::Stage;
use crate::usage;
use std::process::Command;

/// Samples a second; not a divisor of anything that happens regularly.
const FREQUENCY: &str = "3999";

/// Prints the functions that take more than half a percent, for each size.
pub fn measure(options: &Options) {
    for records in &options.records {
        let mut stage = Stage::new(&options.program, *records);
        stage.start(&[Kind::Aggregator]);
        let server = &stage.servers[0];
        let processors = usage::available();
        let (theirs, ours) = processors.split_at(1.min(processors.len() - 1));
        usage::pin_group(server.id(), if theirs.is_empty() { ours } else { theirs });
        let folder = tempfile::tempdir().expect("temporary folder");
        let samples = folder.path().join("perf.data");
        let questions = stage.questions(Kind::Aggregator);
        let status = Load::run(questions, (server.address, Check::Answer), (1, ours), |_| {
            let mut record = Command::new("perf");
            // Processors that are virtual often count no cycles; a clock samples everywhere.
            record.args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-p", &server.id().to_string(), "-o"]);
            record.arg(&samples).args(["--", "sleep", &options.seconds.as_secs().to_string()]).status()
        });
        assert!(status.is_ok_and(|status| status.success()), "perf can sample; it may need rights");
        println!("{records} records:\n");
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "--percent-limit", "0.5", "--sort", "dso,symbol", "-i"]).arg(&samples);
        let _ = report.status();
    }
}
