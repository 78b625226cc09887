//! The memory that this process can still use.

use std::fs;
use std::path::Path;

/// Returns the bytes of memory that this process can still use: the machine's available memory, limited by the
/// process's control groups. `None` if the system does not report it.
pub fn available_memory() -> Option<u64> {
    let machine = number_after(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? * 1024;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let groups = Path::new(group).ancestors().map(|group| root.join(group));
    // Version 1 of control groups has a separate tree for memory.
    let left = groups.chain([root.join("memory")]).filter_map(|group| left_in(&group));
    left.chain([machine]).min()
}

/// Returns the bytes that a control group's limit leaves to its processes. Inactive cached files do not count as used.
fn left_in(group: &Path) -> Option<u64> {
    let read = |names: [&str; 2]| names.iter().find_map(|name| fs::read_to_string(group.join(name)).ok());
    let limit: u64 = read(["memory.max", "memory.limit_in_bytes"])?.trim().parse().ok()?;
    let used: u64 = read(["memory.current", "memory.usage_in_bytes"])?.trim().parse().ok()?;
    let files = fs::read_to_string(group.join("memory.stat")).ok().and_then(|stat| {
        number_after(&stat, "total_inactive_file ").or_else(|| number_after(&stat, "inactive_file "))
    });
    Some(limit.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

/// Returns the number that follows `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_leaves_its_limit_less_what_is_used_and_cannot_be_dropped() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(left_in(group.path()), None);
        for (name, text) in [
            ("memory.max", "1000\n"),
            ("memory.current", "700\n"),
            ("memory.stat", "anon 500\ninactive_file 100\n"),
        ] {
            fs::write(group.path().join(name), text).unwrap();
        }
        assert_eq!(left_in(group.path()), Some(400));
        fs::write(group.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left_in(group.path()), None);
        assert!(available_memory().is_none_or(|bytes| bytes > 0));
    }
}
