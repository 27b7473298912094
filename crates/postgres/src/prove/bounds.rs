//! How much of the machine may a proof take on a server of its own? What a set makes that server run may never end, or write
//! for ever. Pure, but for looking at a folder.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::Error;

/// Bytes beside the database: WAL, what sorts put aside, the server itself.
const BESIDE: u64 = 512 << 20;

/// How many times the size that a database had it may have here: rows, indexes in the making, and what sorts put aside.
const TIMES: u64 = 3;

/// Free bytes that are left to others on the disk.
const LEFT: u64 = 64 << 20;

/// How long any proof of a database may take.
const LEAST: Duration = Duration::from_secs(3600);

/// How slow a proof may be, in bytes of the database in a second.
const SLOWEST: u64 = 1 << 20;

/// What a proof may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bytes of its folder.
    pub(crate) disk: u64,
    /// From when its server was asked for this database.
    pub(crate) time: Duration,
}

impl Bounds {
    /// Those for a database of `size` bytes; a `time` that was asked for counts instead.
    pub(crate) fn of(size: u64, time: Option<Duration>) -> Self {
        let by_size = LEAST.saturating_add(Duration::from_secs(size / SLOWEST));
        Self { disk: size.saturating_mul(TIMES).saturating_add(BESIDE), time: time.unwrap_or(by_size) }
    }

    /// What is beyond these bounds, if anything is.
    pub(crate) fn beyond(&self, took: Duration, bytes: u64, free: Option<u64>) -> Option<String> {
        let Self { disk, time } = self;
        if took > *time {
            return Some(format!("it took longer than {} seconds", time.as_secs()));
        }
        if bytes > *disk {
            return Some(format!("it wrote {bytes} bytes to the disk, and {disk} are allowed"));
        }
        let free = free.filter(|free| *free < LEFT)?;
        Some(format!("it left only {free} bytes free on the disk, after it had written {bytes}"))
    }
}

/// The failure of a proof that was ended for it.
pub(crate) fn exceeded(cause: &str) -> Error {
    Error::Refused {
        code: "postgres.proof-limit",
        object: "the server of the proof".to_owned(),
        cause: format!("{cause}; the proof was ended, and proves nothing"),
        next: "look for a function of a check, an index or a generated column that doesn't end or writes; where all is well, give \
               it longer with --proof-timeout, a larger disk with TMPDIR, or a server with --to"
            .to_owned(),
    }
}

/// Bytes that a folder takes on its disk. What goes away meanwhile is no error.
pub(crate) fn size_of(folder: &Path) -> io::Result<u64> {
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
        for (size, time, disk, seconds) in [
            (0, None, GIB / 2, 3600),
            (10 * GIB, None, 30 * GIB + GIB / 2, 3600 + 10 * 1024),
            (10 * GIB, Some(60), 30 * GIB + GIB / 2, 60),
            (u64::MAX, Some(60), u64::MAX, 60),
        ] {
            let bounds = Bounds::of(size, time.map(Duration::from_secs));
            assert_eq!((bounds.disk, bounds.time.as_secs()), (disk, seconds), "{size}");
        }
    }

    #[test]
    fn what_is_beyond_is_named() {
        let bounds = Bounds { disk: 1000, time: Duration::from_secs(60) };
        let free = Some(1 << 30);
        for (seconds, bytes, free, told) in [
            (60, 1000, free, None),
            (60, 1000, None, None),
            (61, 1, free, Some("it took longer than 60 seconds")),
            (1, 1001, free, Some("it wrote 1001 bytes to the disk, and 1000 are allowed")),
            (1, 7, Some(5), Some("it left only 5 bytes free on the disk, after it had written 7")),
        ] {
            assert_eq!(bounds.beyond(Duration::from_secs(seconds), bytes, free).as_deref(), told);
        }
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
