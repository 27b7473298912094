//! Counts requests to the store by kind. Requests cost money and time, so they are counted where they are made.

use std::sync::atomic::{AtomicU64, Ordering};

use seawall_core::Requests;

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

/// The counters behind [`Requests`]. Relaxed ordering is enough: people read them, and no decision depends on them.
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

    pub(crate) fn snapshot(&self) -> Requests {
        let [put, upload, get, head, list, delete] = &self.operations;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Requests {
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
