//! How often the store was asked for what: requests cost money and time, so they are counted where they are made.

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Write a whole object.
    Put,
    /// Begin, continue, complete or give up a streamed upload.
    Upload,
    /// Read an object or a range.
    Get,
    /// Ask about an object.
    Head,
    /// List a page.
    List,
    /// Delete a batch.
    Delete,
}

/// Requests so far, attempts included, and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Whole objects written.
    pub put: u64,
    /// Calls of streamed uploads: one to begin, one per part, one to complete.
    pub upload: u64,
    /// Reads of objects and ranges.
    pub get: u64,
    /// Questions about one object.
    pub head: u64,
    /// Pages listed.
    pub list: u64,
    /// Batches deleted.
    pub delete: u64,
    /// How many of all these repeated a failed one.
    pub retries: u64,
    /// How many of all these failed, refusals excepted.
    pub failures: u64,
    /// Bytes handed to the store.
    pub bytes_up: u64,
    /// Bytes received from the store.
    pub bytes_down: u64,
}

impl Counts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.put + self.upload + self.get + self.head + self.list + self.delete
    }
}

/// The counters behind [`Counts`]. Relaxed: they are read for people, not for decisions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    operations: [AtomicU64; 6],
    retries: AtomicU64,
    failures: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

impl Counters {
    pub(crate) fn request(&self, operation: Operation) {
        if let Some(counter) = self.operations.get(operation as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.up.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.down.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Counts {
        let [put, upload, get, head, list, delete] = &self.operations;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            put: read(put),
            upload: read(upload),
            get: read(get),
            head: read(head),
            list: read(list),
            delete: read(delete),
            retries: read(&self.retries),
            failures: read(&self.failures),
            bytes_up: read(&self.up),
            bytes_down: read(&self.down),
        }
    }
}
