//! What the process uses, and how many files it may have open. Blocks for moments.

#![expect(clippy::disallowed_methods, reason = "this module asks the system")]

use rustix::process::{Resource, getrlimit};
use seawall_engines::{files_needed, room_with};

/// What the process uses. `None` where the system doesn't tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Resources {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<f64>,
    pub(crate) open_files: Option<f64>,
    pub(crate) max_files: Option<f64>,
    pub(crate) threads: Option<f64>,
}

impl Resources {
    /// What this process uses now.
    pub(crate) fn of_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        Self {
            cpu_seconds: cpu_seconds(),
            resident_bytes: field("VmRSS:").map(|kibibytes| kibibytes * 1024.0),
            open_files: std::fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1) as f64),
            max_files: getrlimit(Resource::Nofile).current.map(|limit| limit as f64),
            threads: field("Threads:"),
        }
    }
}

/// User and system time, in which the kernel counts by the nanosecond where it can.
fn cpu_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// Raises the limit on open files as far as `databases` need and the system allows.
///
/// # Errors
/// How many databases there is room for, and how many files may be open, if that isn't enough.
pub(crate) fn make_room(databases: usize) -> Result<(), (u64, u64)> {
    let databases = u64::try_from(databases).unwrap_or(u64::MAX);
    match seawall_host::allow_files(files_needed(databases)) {
        Some(files) if room_with(files) < databases => Err((room_with(files), files)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_a_few_and_not_for_everything() {
        assert_eq!(make_room(1), Ok(()));
        let hard = getrlimit(Resource::Nofile).maximum;
        if let Some(hard) = hard.filter(|hard| *hard < u64::MAX / 16) {
            let (databases, files) = make_room(usize::MAX).expect_err("no system has that much");
            assert!(files == hard && databases < files, "{databases} {files} {hard}");
        }
    }
}
