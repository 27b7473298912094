//! Advisory file locks: one process of a host for each protected thing (I9). The system releases the lock when the
//! process ends, however it ends.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system, and waits for an instant")]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A process that asks whether a lock is held takes the lock for an instant. So `lock` retries this often before it
/// reports the lock as held.
const GLANCES: u32 = 10;
const GLANCE: Duration = Duration::from_millis(5);

/// Locks an open file until it is closed; `false` when another process holds the lock. Blocks for at most 50 ms.
///
/// # Errors
/// When the file can't be locked.
pub fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..GLANCES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(GLANCE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Whether a process holds the lock of the file at `path`; `false` for a file that can't be read.
pub fn is_locked(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).open(path);
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_until_the_first_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        assert!(!is_locked(&path), "there is no file");
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path).expect("opened");
        let first = open();
        assert!(lock(&first).expect("a lock") && is_locked(&path));
        assert!(!lock(&open()).expect("no lock"));
        drop(first);
        assert!(!is_locked(&path) && lock(&open()).expect("a lock"));
    }
}
