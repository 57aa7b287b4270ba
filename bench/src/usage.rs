//! What a server uses of the processors, and which of them it may use.
//!
//! A server is a process group, because NSD is several processes. Times are the kernel's, in ticks of ten milliseconds; the
//! part in user mode is sampled by the kernel, so it needs rounds of seconds (proc(5), sched_setaffinity(2)).
//!
//! Cost: reads `/proc` of all processes.

use std::fs;
use std::ops::Sub;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user: f64,
    pub system: f64,
}

impl Usage {
    /// What a group has used so far.
    pub fn take(group: u32) -> Usage {
        let texts = processes(group).into_iter().filter_map(|id| fs::read_to_string(format!("/proc/{id}/stat")).ok());
        let (user, system) = texts
            .filter_map(|text| read_stat(&text))
            .fold((0, 0), |sum, (_, user, system)| (sum.0 + user, sum.1 + system));
        // SAFETY: plain system call.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        Usage { user: user as f64 / ticks, system: system as f64 / ticks }
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage { user: self.user - before.user, system: self.system - before.system }
    }
}

/// Processor time of a process with all of its threads, in seconds, to the nanosecond (clock_getcpuclockid(3)); for what
/// takes less than the kernel's ticks.
pub fn exact(process: u32) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut clock = 0;
    // SAFETY: both calls write to what they are given, and to nothing else.
    let failed = unsafe {
        libc::clock_getcpuclockid(process as i32, &mut clock) != 0 || libc::clock_gettime(clock, &mut time) != 0
    };
    assert!(!failed, "a process that runs has a clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processes of a group.
pub fn processes(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("the process table of Linux");
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stat = |id: &u32| fs::read_to_string(format!("/proc/{id}/stat")).ok();
    ids.filter(|id| stat(id).and_then(|text| read_stat(&text)).is_some_and(|(owner, ..)| owner == group)).collect()
}

/// Group, user and system ticks in a line of `stat`.
pub fn read_stat(stat: &str) -> Option<(u32, u64, u64)> {
    // The name in parentheses may hold anything; fields count from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some((fields.get(2)?.parse().ok()?, ticks(11)?, ticks(12)?))
}

/// Binds all threads of a group to processors; threads to come inherit that.
pub fn pin_group(group: u32, processors: &[usize]) {
    for process in processes(group) {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).for_each(|id| pin(id, processors));
    }
}

/// Binds the calling thread to processors.
pub fn pin_self(processors: &[usize]) {
    pin(0, processors);
}

/// Binds a thread. One that has ended needs none.
fn pin(thread: i32, processors: &[usize]) {
    // SAFETY: the set is a plain bit array, for which zeroes are valid, and the calls only read or write it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|processor| libc::CPU_SET(*processor, &mut set));
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// The processors of this machine that may be used, by number.
pub fn available() -> Vec<usize> {
    // SAFETY: as in `pin`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|processor| libc::CPU_ISSET(*processor, &set)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let stat = "42 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 13 4 0 0 20 0 1 0 100 200 300";
        assert_eq!(read_stat(stat), Some((7, 13, 4)));
        assert_eq!(read_stat("42 (a) S 1"), None);
    }

    #[test]
    fn own_processors_are_known() {
        assert!(!available().is_empty());
    }
}
