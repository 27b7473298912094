//! How a caller stops a running engine: gracefully, or at once.

use tokio_util::sync::CancellationToken;

/// Two signals. After the first signal an engine ships the committed changes, within a time bound. After the second
/// signal it returns at once and leaves what a crash would leave, which is always safe.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    graceful: CancellationToken,
    immediate: CancellationToken,
}

impl Shutdown {
    /// A new pair of signals, neither given.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signals for a part of the whole. A stop of the whole stops the part too; a stop of the part doesn't stop the
    /// whole.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { graceful: self.graceful.child_token(), immediate: self.immediate.child_token() }
    }

    /// Asks for a graceful stop.
    pub fn begin(&self) {
        self.graceful.cancel();
    }

    /// Asks for a stop at once. Implies [`Shutdown::begin`].
    pub fn abort(&self) {
        self.graceful.cancel();
        self.immediate.cancel();
    }

    /// Whether a graceful stop was asked for.
    pub fn requested(&self) -> bool {
        self.graceful.is_cancelled()
    }

    /// Whether a stop at once was asked for.
    pub fn aborted(&self) -> bool {
        self.immediate.is_cancelled()
    }

    /// Returns once a graceful stop is asked for.
    pub async fn graceful(&self) {
        self.graceful.cancelled().await;
    }

    /// Returns once a stop at once is asked for.
    pub async fn immediate(&self) {
        self.immediate.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_alone_and_with_the_whole() {
        let whole = Shutdown::new();
        let (one, two) = (whole.child(), whole.child());
        one.abort();
        assert!(one.requested() && one.aborted() && !two.requested() && !whole.requested());
        whole.begin();
        assert!(two.requested() && !two.aborted());
        assert!(whole.child().requested(), "too late to begin");
    }
}
