//! How a running engine is told to stop: once politely, once at once.

use tokio_util::sync::CancellationToken;

/// Two signals. After the first an engine ships what is committed, within a bound; after the second it returns
/// at once and leaves everything as a crash would, which is always safe.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    graceful: CancellationToken,
    immediate: CancellationToken,
}

impl Shutdown {
    /// A fresh pair of signals, neither given.
    pub fn new() -> Self {
        Self::default()
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
