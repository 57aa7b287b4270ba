//! Waiting until the servers have nothing to do, so that what one of them does late is not counted against another.
//!
//! NSD frees the old zone and writes its differences long after it answers from the new one, BIND frees what a reload
//! replaced; on a machine with few processors that would be measured with the next step.
//!
//! Cost: reads `/proc` of all processes, twenty times a second while waiting (proc(5)).

use crate::harness::wait_until;
use crate::usage::read_stat;
use std::fs;
use std::time::{Duration, Instant};

/// How long nothing must have happened.
const QUIET: Duration = Duration::from_millis(200);
/// A server that is busy for ever must not stop the bench.
const LONGEST: Duration = Duration::from_secs(120);

/// Waits until no process of these groups has used a processor for a while.
pub fn wait_quiet(groups: &[u32]) {
    let mut last = (processor_ticks(groups), Instant::now());
    wait_until("the servers have nothing to do", LONGEST, || {
        std::thread::sleep(Duration::from_millis(40));
        let ticks = processor_ticks(groups);
        if ticks != last.0 {
            last = (ticks, Instant::now());
        }
        (last.1.elapsed() >= QUIET).then_some(())
    });
}

/// Processor time that the groups' processes have used so far, in the kernel's ticks.
fn processor_ticks(groups: &[u32]) -> u64 {
    let entries = fs::read_dir("/proc").expect("the process table of Linux");
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let ticks = texts.filter_map(|text| read_stat(&text));
    ticks.filter(|(group, ..)| groups.contains(group)).map(|(_, user, system)| user + system).sum()
}
