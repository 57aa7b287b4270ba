//! Memory that this process may have: what its control groups allow, or what the machine has.
//!
//! Cost: a few small files, read once for each reading of the configuration.
//!
//! Formats: cgroups(7) for `/proc/self/cgroup` and `memory.max` (version 2) or `memory.limit_in_bytes` (version 1). The
//! machine's memory comes from sysinfo(2), because a unit of systemd's need not see `/proc/meminfo`; in a zone of
//! SmartOS it is the zone's.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed memory of a machine that says nothing.
const UNKNOWN: u64 = 1 << 30;

/// The budget where nobody says how large it is to be: half of what there is. The other half is for what is not
/// accounted.
pub fn default_budget() -> u64 {
    memory(Path::new("/"), machine_memory().unwrap_or(UNKNOWN)) / 2
}

/// The memory of the machine.
fn machine_memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    info.totalram.checked_mul(info.mem_unit.into()).filter(|octets| *octets > 0)
}

/// The memory that a process may have in a system with this root, on a machine with so much.
fn memory(root: &Path, total: u64) -> u64 {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| fs::read_to_string(root.join(path)).ok());
    // "max" is no number, and version 1 has one that no machine reaches.
    limits.filter_map(|text| text.trim().parse::<u64>().ok()).fold(total, u64::min)
}

/// The files that limit a process in these groups: those of its own group and of all above it.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // A container that does not see its own group sees it as the root of all.
        let own = Path::new(path.trim_start_matches('/'));
        files.extend(own.ancestors().map(|group| Path::new(mount).join(group).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A system with these files.
    fn memory_of(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory(root.path(), 16 * GIB)
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        assert!(machine_memory().is_some_and(|octets| octets > 1 << 26));
        assert_eq!(memory_of(&[]), 16 * GIB);
        let unit = ("proc/self/cgroup", "0::/system.slice/aggregator.service\n");
        let own = "sys/fs/cgroup/system.slice/aggregator.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(memory_of(&[unit, (own, "2147483648\n"), (slice, "max\n")]), 2 * GIB);
        assert_eq!(memory_of(&[unit, (own, "max\n"), (slice, "1073741824\n")]), GIB);
        assert_eq!(memory_of(&[unit, (own, "max\n")]), 16 * GIB);
        let container = ("proc/self/cgroup", "0::/\n");
        assert_eq!(memory_of(&[container, ("sys/fs/cgroup/memory.max", "1073741824\n")]), GIB);
        let first = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/\n");
        let inside = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(memory_of(&[first, (inside, "3221225472\n")]), 3 * GIB);
        assert_eq!(memory_of(&[first, (inside, "9223372036854771712\n")]), 16 * GIB);
    }
}
