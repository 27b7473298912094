//! Blocking work, beside the asynchronous tasks.

use crate::error::Error;

/// Runs blocking work on the runtime's pool; closures that say `Ok` alone have this crate's error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    seawall_core::blocking(work).await
}
