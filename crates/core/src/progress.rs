//! Progress of a long operation, measured in bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Receives progress. Calls are cheap and may come from any thread.
pub trait Progress: Send + Sync {
    /// A stage begins; `total` is the number of its bytes, if known.
    fn begin(&self, stage: &str, total: Option<u64>);

    /// The current stage has processed `bytes` more bytes.
    fn advance(&self, bytes: u64);

    /// One part of the current stage, such as a table, has processed `bytes` more bytes of about `total`, if known. The
    /// caller reports the same bytes to [`Progress::advance`] too, which counts them for the stage.
    fn part(&self, name: &str, total: Option<u64>, bytes: u64) {
        let _ = (name, total, bytes);
    }

    /// The current stage is over.
    fn finish(&self);
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _stage: &str, _total: Option<u64>) {}
    fn advance(&self, _bytes: u64) {}
    fn finish(&self) {}
}

/// Tells two others the same.
pub struct Both(pub Arc<dyn Progress>, pub Arc<dyn Progress>);

impl Progress for Both {
    fn begin(&self, stage: &str, total: Option<u64>) {
        self.0.begin(stage, total);
        self.1.begin(stage, total);
    }

    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
        self.1.advance(bytes);
    }

    fn part(&self, name: &str, total: Option<u64>, bytes: u64) {
        self.0.part(name, total, bytes);
        self.1.part(name, total, bytes);
    }

    fn finish(&self) {
        self.0.finish();
        self.1.finish();
    }
}

/// Where a long operation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// The present stage.
    pub stage: String,
    /// The part that is done.
    pub done_bytes: u64,
    /// The total, where it is known.
    pub total_bytes: Option<u64>,
}

/// Keeps progress for a status that is asked for at any time.
#[derive(Debug, Default)]
pub struct Gauge(Mutex<Option<Underway>>);

impl Gauge {
    fn state(&self) -> MutexGuard<'_, Option<Underway>> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the operation is; `None` while there is none.
    pub fn now(&self) -> Option<Underway> {
        self.state().clone()
    }

    /// An operation begins. The gauge forgets its progress when the returned value is dropped, also after an error.
    pub fn operation(&self) -> Operation<'_> {
        Operation(self)
    }
}

/// An operation whose progress a [`Gauge`] keeps.
#[derive(Debug)]
#[must_use = "the operation ends when this is dropped"]
pub struct Operation<'a>(&'a Gauge);

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Progress for Gauge {
    fn begin(&self, stage: &str, total: Option<u64>) {
        *self.state() = Some(Underway { stage: stage.to_owned(), done_bytes: 0, total_bytes: total });
    }

    fn advance(&self, bytes: u64) {
        if let Some(underway) = self.state().as_mut() {
            underway.done_bytes = underway.done_bytes.saturating_add(bytes);
        }
    }

    fn finish(&self) {
        *self.state() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_tells_of_the_present_stage_alone() {
        let gauge = Gauge::default();
        gauge.advance(1);
        assert_eq!(gauge.now(), None);
        gauge.begin("rows", Some(10));
        gauge.advance(3);
        gauge.advance(4);
        let underway = Underway { stage: "rows".into(), done_bytes: 7, total_bytes: Some(10) };
        assert_eq!(gauge.now(), Some(underway));
        gauge.begin("index", None);
        assert_eq!(gauge.now().map(|underway| underway.done_bytes), Some(0));
        gauge.finish();
        assert_eq!(gauge.now(), None);
    }

    #[test]
    fn an_operation_that_fails_leaves_nothing_in_the_gauge() {
        let gauge = Gauge::default();
        let operation = gauge.operation();
        gauge.begin("rows", Some(10));
        assert!(gauge.now().is_some());
        drop(operation);
        assert_eq!(gauge.now(), None);
    }
}
