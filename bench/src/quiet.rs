//! Waiting until the servers have nothing to do, so that what one of them does late is not counted against another.
//!
//! NSD frees the old zone and writes its differences long after it answers from the new one, BIND frees what a reload
//! replaced; on a machine with few processors that would be measured with the next step.
//!
//! Cost: reads `/proc` of all processes, twenty times a second while waiting (proc(5)).

use crate::harness::wait_until;
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
    texts.filter_map(|text| read_ticks(&text, groups)).sum()
}

/// User and system time in a line of `stat`, if the process is in one of the groups.
fn read_ticks(stat: &str, groups: &[u32]) -> Option<u64> {
    // The name in parentheses may hold anything; fields count from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let group: u32 = fields.get(2)?.parse().ok()?;
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    groups.contains(&group).then_some(ticks(11)? + ticks(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_of_the_groups_alone() {
        let stat = "42 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 13 4 0 0 20 0 1 0 100 200 300";
        assert_eq!(read_ticks(stat, &[7]), Some(17));
        assert_eq!(read_ticks(stat, &[1, 42]), None);
    }
}
