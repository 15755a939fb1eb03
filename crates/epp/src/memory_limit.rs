//! How much memory this process may have: its control group's limit, or the machine's memory.
//!
//! In: the kernel's files. Out: a bound for bodies in bytes. What can't be read is no limit.

/// The most for bodies where nobody says: a gigabyte.
const MOST: usize = 1 << 30;

/// A gigabyte or a quarter of what the process may have, whichever is less.
pub(crate) fn for_bodies() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let limits = [
        read("/sys/fs/cgroup/memory.max").as_deref().and_then(bytes),
        read("/sys/fs/cgroup/memory/memory.limit_in_bytes").as_deref().and_then(bytes),
        read("/proc/meminfo").as_deref().and_then(total),
    ];
    share(limits.into_iter().flatten())
}

fn share(limits: impl Iterator<Item = usize>) -> usize {
    limits.map(|limit| limit / 4).fold(MOST, usize::min)
}

fn bytes(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

/// `MemTotal:       24653336 kB`
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts_and_never_more_than_a_gigabyte() {
        let of = |group: &str, machine: &str| share([bytes(group), total(machine)].into_iter().flatten());
        let machine = "MemTotal:       24653336 kB\nMemFree: 1 kB\n";
        assert_eq!(of("max\n", machine), 1 << 30);
        assert_eq!(of("536870912\n", machine), 128 << 20);
        assert_eq!(of("", "MemTotal: 1048576 kB"), 256 << 20);
        assert_eq!(of("", ""), 1 << 30);
    }
}
