//! Memory of a process as the kernel counts it: resident now, and the most since it was last asked to forget.
//!
//! Cost: one read of `/proc/PID/status` (proc(5)).

use crate::usage::processes;
use std::fs;

/// Memory of one process, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// VmRSS.
    pub resident: u64,
    /// VmHWM.
    pub highest: u64,
}

impl Memory {
    /// The memory of a process, and from now on a new highest value.
    pub fn take(process: u32) -> Memory {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let memory = Memory { resident: field(&status, "VmRSS:"), highest: field(&status, "VmHWM:") };
        // Where the kernel does not offer this, the highest value is that since the start.
        let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
        memory
    }
}

/// What the processes of a group have, in octets; what they share is counted once (`Pss`).
pub fn of_group(group: u32) -> u64 {
    let read = |id: u32| fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    processes(group).into_iter().map(|id| field(&read(id), "Pss:") * 1024).sum()
}

/// The number behind a label; zero when there is none.
fn field(status: &str, label: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_some() {
        let memory = Memory::take(std::process::id());
        assert!(memory.resident > 100 && memory.highest >= memory.resident / 2, "{memory:?}");
        assert_eq!(field("VmHWM:\t  123 kB\nVmRSS:\t 45 kB\n", "VmRSS:"), 45);
    }
}
