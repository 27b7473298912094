//! Progress of a long operation, told in bytes.

/// Receives progress. Calls are cheap and may come from any thread.
pub trait Progress: Send + Sync {
    /// A stage begins; `total` is its number of bytes where known.
    fn begin(&self, stage: &str, total: Option<u64>);

    /// `bytes` more are done in the present stage.
    fn advance(&self, bytes: u64);

    /// `bytes` more are done of one of the things that the present stage works at, such as a table, which has about `total`
    /// bytes where that is known. It is told beside [`Progress::advance`], which counts them for the stage.
    fn part(&self, name: &str, total: Option<u64>, bytes: u64) {
        let _ = (name, total, bytes);
    }

    /// The present stage is over.
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
