//! Which file is at a path, how SQLite names the files beside it, and reading a file up to its end.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

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
    /// How long a file must have been at rest for its state to be recorded.
    const REST_SECONDS: i64 = 2;

    /// The state of a file that was at rest at `now`; `None` for one that was not.
    pub(crate) fn at_rest(metadata: &Metadata, now: Moment) -> Option<Self> {
        let rested = now.as_millis().div_euclid(1000) - metadata.ctime();
        (rested >= Self::REST_SECONDS).then(|| Self::of(metadata))
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
