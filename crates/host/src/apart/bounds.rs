//! How much of the machine may a server take that is started for a proof? What a backup makes that server run may never end, or
//! write for ever. Pure, but for looking at a folder and at processes.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::memory::kibibytes;

/// Bytes beside the database: the server's log, what sorts put aside, the server itself.
const BESIDE: u64 = 512 << 20;

/// How many times the size that a database had it may have here: rows, indexes in the making, and what sorts put aside.
const TIMES: u64 = 3;

/// Free bytes that are left to others on the disk.
const LEFT: u64 = 64 << 20;

/// The part of the machine's memory that the processes of its server may take together.
const SHARE: u64 = 2;

/// How long any proof of a database may take.
const LEAST: Duration = Duration::from_secs(3600);

/// How slow a proof may be, in bytes of the database in a second.
const SLOWEST: u64 = 1 << 20;

/// What a proof may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of its folder.
    pub disk: u64,
    /// From when its server was asked for this database.
    pub time: Duration,
    /// Bytes of memory of all processes of its server, but for what they share.
    pub memory: u64,
}

/// What a proof has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Took {
    /// How long it worked.
    pub time: Duration,
    /// Bytes of its folder.
    pub disk: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that are free on the disk, if the system tells.
    pub free: Option<u64>,
}

impl Bounds {
    /// Those for a database of `size` bytes on a machine with so much `memory`, if the system tells; a `time` that was asked for
    /// counts instead.
    pub fn of(size: u64, time: Option<Duration>, memory: Option<u64>) -> Self {
        let by_size = LEAST.saturating_add(Duration::from_secs(size / SLOWEST));
        Self {
            disk: size.saturating_mul(TIMES).saturating_add(BESIDE),
            time: time.unwrap_or(by_size),
            memory: memory.map_or(u64::MAX, |memory| memory / SHARE),
        }
    }

    /// What is beyond these bounds, if anything is.
    pub fn beyond(&self, took: &Took) -> Option<String> {
        let (Self { disk, time, memory }, bytes) = (self, took.disk);
        if took.time > *time {
            return Some(format!("it took longer than {} seconds", time.as_secs()));
        }
        if took.memory > *memory {
            return Some(format!("it took {} bytes of memory, and {memory} are allowed", took.memory));
        }
        if bytes > *disk {
            return Some(format!("it wrote {bytes} bytes to the disk, and {disk} are allowed"));
        }
        let free = took.free.filter(|free| *free < LEFT)?;
        Some(format!("it left only {free} bytes free on the disk, after it had written {bytes}"))
    }
}

/// Bytes of memory of a process and of all that come of it, but for what they share with others. 0 where the system doesn't tell.
pub(super) fn memory_of(process: u32) -> u64 {
    let (mut processes, mut bytes) = (vec![process], 0_u64);
    while let Some(process) = processes.pop() {
        let read = |file: String| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        bytes = bytes.saturating_add(kibibytes(&read("status".to_owned()), "RssAnon:").unwrap_or_default());
        let children = read(format!("task/{process}/children"));
        processes.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    bytes
}

/// Bytes that a folder takes on its disk. What goes away meanwhile is no error.
pub(super) fn size_of(folder: &Path) -> io::Result<u64> {
    let (mut folders, mut bytes) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = folders.pop() {
        let found = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        for entry in found.flatten() {
            // Not what a link leads to.
            let Ok(facts) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(facts.blocks().saturating_mul(512));
            if facts.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_the_database() {
        const GIB: u64 = 1 << 30;
        for (size, time, memory, disk, seconds, share) in [
            (0, None, None, GIB / 2, 3600, u64::MAX),
            (10 * GIB, None, Some(8 * GIB), 30 * GIB + GIB / 2, 3600 + 10 * 1024, 4 * GIB),
            (10 * GIB, Some(60), Some(GIB), 30 * GIB + GIB / 2, 60, GIB / 2),
            (u64::MAX, Some(60), None, u64::MAX, 60, u64::MAX),
        ] {
            let bounds = Bounds::of(size, time.map(Duration::from_secs), memory);
            assert_eq!((bounds.disk, bounds.time.as_secs(), bounds.memory), (disk, seconds, share), "{size}");
        }
    }

    #[test]
    fn what_is_beyond_is_named() {
        let bounds = Bounds { disk: 1000, time: Duration::from_secs(60), memory: 2000 };
        let free = Some(1 << 30);
        for (seconds, disk, memory, free, told) in [
            (60, 1000, 2000, free, None),
            (60, 1000, 0, None, None),
            (61, 1, 1, free, Some("it took longer than 60 seconds")),
            (1, 1, 2001, free, Some("it took 2001 bytes of memory, and 2000 are allowed")),
            (1, 1001, 1, free, Some("it wrote 1001 bytes to the disk, and 1000 are allowed")),
            (1, 7, 1, Some(5), Some("it left only 5 bytes free on the disk, after it had written 7")),
        ] {
            let took = Took { time: Duration::from_secs(seconds), disk, memory, free };
            assert_eq!(bounds.beyond(&took).as_deref(), told);
        }
    }

    #[test]
    fn memory_is_that_of_a_process_and_of_all_that_come_of_it() {
        // The shell's own child holds what it has read.
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "echo; sh -c 'x=$(head -c 50000000 /dev/zero | tr \"\\0\" x); echo; read -r _'; exit"]);
        let mut shell =
            shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("sh");
        let mut said = std::io::BufReader::new(shell.stdout.take().expect("a pipe"));
        let mut line = String::new();
        for _ in 0..2 {
            std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
        }
        let taken = memory_of(shell.id());
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert!(taken > 50_000_000, "{taken}");
        assert!(crate::machine_memory().expect("Linux tells") > taken);
        assert_eq!(memory_of(u32::MAX), 0);
    }

    #[test]
    fn a_folder_is_measured_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = size_of(folder.path()).expect("measured");
        std::fs::create_dir(folder.path().join("a")).expect("made");
        std::fs::write(folder.path().join("a/b"), vec![1; 1 << 20]).expect("written");
        std::os::unix::fs::symlink("/usr", folder.path().join("link")).expect("linked");
        let grown = size_of(folder.path()).expect("measured") - before;
        assert!((1 << 20..2 << 20).contains(&grown), "{grown}");
        assert_eq!(size_of(Path::new("/nowhere")).expect("nothing"), 0);
    }
}
