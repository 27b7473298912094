//! Syncs a file to disk while it is being written.
//!
//! The final sync waits for everything that is still in memory, often a GB. A thread that syncs after every few dozen
//! MiB lets the disk and the processors work at the same time, and leaves little for the final sync.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::file::error::{FileError, Result};

/// Bytes between two syncs. A smaller file gets only the final sync.
const STEP: u64 = 32 << 20;

/// Counts the written bytes.
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
    /// Adds written bytes.
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
                // The system reports a lost write only once; the final sync wouldn't report it.
                (count.failed, count.ended) = (Some(error), true);
            }
        }
    }
}

/// Ends the thread, also after an error or a panic.
struct End<'a>(&'a Flusher);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.changed.notify_one();
    }
}

/// Runs `body`, which writes to `file` at `path`, and syncs on the way. The last bytes aren't durable when it returns.
pub(super) fn along<T>(file: &File, path: &Path, body: impl FnOnce(&Flusher) -> Result<T>) -> Result<T> {
    let flusher = Flusher::default();
    let done = std::thread::scope(|scope| {
        // Without the thread the final sync does it all.
        let _ = std::thread::Builder::new().spawn_scoped(scope, || flusher.run(file));
        let _end = End(&flusher);
        body(&flusher)
    })?;
    match flusher.state.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
        Some(error) => Err(FileError::io(path)(error)),
        None => Ok(done),
    }
}
