//! Sending what is written to the disk while more is made.
//!
//! The sync at the end waits for everything that is still in memory, a GB of it easily. A thread that syncs every few
//! dozen MiB on the way lets the disk and the processors work at the same time, and leaves little to the end.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::file::error::{FileError, Result};

/// What is written between two syncs. Files that are smaller see none but the last.
const STEP: u64 = 32 << 20;

/// Counts what is written.
#[derive(Default)]
pub(super) struct Flusher {
    state: Mutex<Count>,
    changed: Condvar,
}

#[derive(Default)]
struct Count {
    unsynced: u64,
    ended: bool,
    failed: Option<io::Error>,
}

impl Flusher {
    /// So many bytes more were written.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut count = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        count.unsynced += bytes as u64;
        if count.unsynced >= STEP {
            self.changed.notify_one();
        }
    }

    fn run(&self, file: &File) {
        let mut count = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !count.ended {
            if count.unsynced < STEP {
                count = self.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            count.unsynced = 0;
            drop(count);
            let synced = file.sync_data();
            count = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = synced {
                // The system tells of a lost write once: the last sync won't.
                (count.failed, count.ended) = (Some(error), true);
            }
        }
    }
}

/// Ends the thread, whatever happens.
struct End<'a>(&'a Flusher);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.changed.notify_one();
    }
}

/// Runs `body`, which writes to `file` at `path`, and syncs on the way. What was written last is not durable after it.
pub(super) fn along<T>(file: &File, path: &Path, body: impl FnOnce(&Flusher) -> Result<T>) -> Result<T> {
    let flusher = Flusher::default();
    let done = std::thread::scope(|scope| {
        // Without the thread the last sync does it all.
        let _ = std::thread::Builder::new().spawn_scoped(scope, || flusher.run(file));
        let _end = End(&flusher);
        body(&flusher)
    })?;
    match flusher.state.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
        Some(error) => Err(FileError::io(path)(error)),
        None => Ok(done),
    }
}
