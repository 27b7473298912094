//! Which file is at a path, how SQLite names the files beside it, and reading a file up to its end.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use crate::untouched::Times;

/// The identity of the file at a path. A replaced database has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileIdentity {
    /// The identity of an open or named file.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Size and times of a database file. They change with every frame that is copied into the file.
///
/// Equal states mean an unchanged file only if the recorded one had been at rest: a second write in the same tick of
/// the file system's clock would not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileState {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    /// How long a file must have been at rest for its state to be recorded, in milliseconds: the longest tick of a file system is that
    /// of FAT.
    const REST: i64 = 2000;

    /// The same where `times` are this machine's and finer than a millisecond. Such a clock ticks with the kernel's, every 10 ms at
    /// most.
    pub(crate) const SHORT_REST: i64 = 100;

    /// The state of a file that was at rest at `now`; `None` for one that was not.
    pub(crate) fn at_rest(metadata: &Metadata, times: Times, now: Moment) -> Option<Self> {
        let is_fine = |nanos: i64| nanos % 1_000_000 != 0;
        let is_fine = times == Times::Own && is_fine(metadata.ctime_nsec()) && is_fine(metadata.mtime_nsec());
        let needed = if is_fine { Self::SHORT_REST } else { Self::REST };
        let changed = metadata.ctime().saturating_mul(1000).saturating_add(metadata.ctime_nsec() / 1_000_000);
        (now.as_millis().saturating_sub(changed) >= needed).then(|| Self::of(metadata))
    }

    /// The state of a file now.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether there is a file with content now.
pub(crate) fn is_there(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// The file to which links lead; `None` where there is none, as between two deployments.
pub(crate) fn leads_to(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The path behind all symbolic links: SQLite resolves them, and puts the WAL beside the real file. A file that doesn't
/// exist yet keeps its name in its resolved folder.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let parent = seawall_host::folder_of(path);
    match (std::fs::canonicalize(parent), path.file_name()) {
        (Ok(real), Some(name)) => real.join(name),
        _ => path.to_owned(),
    }
}

/// `path` with a suffix, as SQLite names its side files.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Reads until `buffer` is full or the file ends; answers how much there was.
pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_file_is_at_rest_after_a_tick_of_its_clock() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("f")).expect("a file");
        let set = |nanos: u32| {
            let at = SystemTime::UNIX_EPOCH + Duration::new(1_000, nanos);
            file.set_modified(at).expect("a time");
            file.metadata().expect("metadata")
        };
        // The time of the change is the system's own. Systems with a coarse clock of files can't tell the short rest.
        let (fine, whole) = (set(123_456_789), set(0));
        let is_fine = fine.ctime_nsec() % 1_000_000 != 0;
        for (metadata, times, millis, at_rest) in [
            (&fine, Times::Own, 99, false),
            (&fine, Times::Own, 101, is_fine),
            (&fine, Times::Foreign, 1999, false),
            (&fine, Times::Foreign, 2001, true),
            (&whole, Times::Own, 1999, false),
            (&whole, Times::Own, 2001, true),
            (&fine, Times::Own, -5000, false),
        ] {
            let changed = metadata.ctime() * 1000 + metadata.ctime_nsec() / 1_000_000;
            let state = FileState::at_rest(metadata, times, Moment::from_millis(changed + millis));
            assert_eq!(state, at_rest.then(|| FileState::of(metadata)), "{times:?} {millis}");
        }
    }
}
