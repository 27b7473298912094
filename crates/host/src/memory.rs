//! How much memory may this process take, and how much of it is free? Of the machine, and within the bounds of its control groups.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

/// Bytes of memory that this process may still take, as the system tells now: what is available on the machine, and what each
/// control group around it leaves (systemd's `MemoryMax=`, a container's limit). `None` where the system doesn't tell.
pub fn free_memory() -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    least(read, "MemAvailable:", Bytes::Left)
}

/// Bytes of memory of the machine, or of the narrowest control group around this process. `None` where the system doesn't tell.
pub fn machine_memory() -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    least(read, "MemTotal:", Bytes::All)
}

/// The least of what the machine and its control groups say. A service may see one of them only: `ProcSubset=pid` hides the machine's.
fn least(read: impl Fn(&str) -> Option<String>, line: &str, which: Bytes) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| kibibytes(&text, line));
    let groups = read("/proc/self/cgroup").and_then(|groups| by_groups(&groups, &read, which));
    [machine, groups].into_iter().flatten().min()
}

/// Which bytes of a control group are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// Its bound.
    All,
    /// What its processes haven't taken of it.
    Left,
}

/// What the control groups allow, by `/proc/self/cgroup` and the files of both hierarchies; `None` where none is bounded. Pure.
fn by_groups(groups: &str, read: impl Fn(&str) -> Option<String>, which: Bytes) -> Option<u64> {
    groups.lines().filter_map(|line| by_group(line, &read, which)).min()
}

fn by_group(line: &str, read: impl Fn(&str) -> Option<String>, which: Bytes) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, most, now, files) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        }
        _ => return None,
    };
    // Inside a container the root of the hierarchy is often the container's own group, whatever the path says.
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let folders = (0..=names.len()).map(|depth| [&[root], &names[..depth]].concat().join("/"));
    let left = folders.filter_map(|folder| {
        let number = |file: &str| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
        let most = number(most)?;
        if which == Bytes::All {
            return Some(most);
        }
        let now = number(now)?;
        // Pages of files count as used, and the system gives them up when a process needs memory.
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let given_up = stat.lines().find_map(|line| line.strip_prefix(files)?.trim().parse().ok()).unwrap_or(0);
        Some(most.saturating_sub(now.saturating_sub(given_up)))
    });
    left.min()
}

/// The bytes that a line of a file in `/proc` says.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.strip_prefix(name))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_around_a_process_bounds_it() {
        let files = |file: &str| {
            let text = match file {
                "/sys/fs/cgroup/a/memory.max" => "1000\n",
                "/sys/fs/cgroup/a/memory.current" => "700\n",
                "/sys/fs/cgroup/a/memory.stat" => "anon 400\nfile 300\ninactive_file 200\n",
                "/sys/fs/cgroup/a/b/memory.max" | "/sys/fs/cgroup/x/memory.max" => "max\n",
                "/sys/fs/cgroup/a/b/memory.current" | "/sys/fs/cgroup/x/memory.current" => "50\n",
                "/sys/fs/cgroup/a/c/memory.max" => "90\n",
                "/sys/fs/cgroup/a/c/memory.current" => "100\n",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes" => "5000\n",
                "/sys/fs/cgroup/memory/docker/memory.usage_in_bytes" => "1000\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        for (groups, left, all) in [
            ("0::/a\n", Some(500), Some(1000)),
            ("0::/a/b\n", Some(500), Some(1000)),
            ("0::/a/c\n", Some(0), Some(90)),
            ("0::/x\n", None, None),
            ("0::/\n", None, None),
            ("12:pids:/docker\n5:cpu,memory:/docker\n", Some(4000), Some(5000)),
            ("5:memory:/docker\n0::/a\n", Some(500), Some(1000)),
            ("", None, None),
            ("nonsense", None, None),
        ] {
            let found = [Bytes::Left, Bytes::All].map(|which| by_groups(groups, files, which));
            assert_eq!(found, [left, all], "{groups:?}");
        }
    }

    #[test]
    fn a_container_finds_its_bound_at_the_root_of_the_hierarchy() {
        let files = |file: &str| match file {
            "/sys/fs/cgroup/memory.max" => Some("800".to_owned()),
            "/sys/fs/cgroup/memory.current" => Some("300".to_owned()),
            _ => None,
        };
        assert_eq!(by_groups("0::/system.slice/docker-1.scope", files, Bytes::Left), Some(500));
    }

    #[test]
    fn what_is_hidden_bounds_nothing() {
        let files = |hidden: &'static str| {
            move |file: &str| match file {
                _ if file.starts_with(hidden) => None,
                "/proc/meminfo" => Some("MemTotal:       4 kB\nMemAvailable:   2 kB\n".to_owned()),
                "/proc/self/cgroup" => Some("0::/a\n".to_owned()),
                "/sys/fs/cgroup/a/memory.max" => Some("3000\n".to_owned()),
                "/sys/fs/cgroup/a/memory.current" => Some("2000\n".to_owned()),
                _ => None,
            }
        };
        for (hidden, free, all) in [
            ("nothing", Some(1000), Some(3000)),
            ("/proc/meminfo", Some(1000), Some(3000)),
            ("/sys", Some(2048), Some(4096)),
            ("/", None, None),
        ] {
            let found =
                (least(files(hidden), "MemAvailable:", Bytes::Left), least(files(hidden), "MemTotal:", Bytes::All));
            assert_eq!(found, (free, all), "{hidden}");
        }
    }

    #[test]
    fn the_system_tells_it_here() {
        let (free, all) = (free_memory().expect("this is Linux"), machine_memory().expect("this is Linux"));
        assert!(free > 0 && free <= all && all < 1 << 60, "{free} of {all}");
    }
}
