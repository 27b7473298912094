//! Limits how many databases of one process do expensive work at a time.
//!
//! A thousand databases that appear together must not list a thousand prefixes or read a thousand files at once. There
//! are two queues, both fair (first come, first served) and independent of each other. So a database that only looks
//! for its place in the vault doesn't wait behind complete copies. Captures of running databases wait in neither queue.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Databases that may find out at the same time where their history ends: some requests each.
const STARTS: usize = 16;

/// Complete copies that may be taken at the same time.
const BASES: usize = 4;

/// The two queues. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission {
    starts: Arc<Semaphore>,
    bases: Arc<Semaphore>,
}

impl Default for Admission {
    fn default() -> Self {
        Self { starts: Arc::new(Semaphore::new(STARTS)), bases: Arc::new(Semaphore::new(BASES)) }
    }
}

impl Admission {
    /// Waits for the turn to find out where a history ends.
    pub(crate) async fn start(&self) -> Turn<'_> {
        Turn(self.starts.acquire().await.ok())
    }

    /// Waits for the turn to take a complete copy.
    pub(crate) async fn base(&self) -> Turn<'_> {
        Turn(self.bases.acquire().await.ok())
    }
}

/// A turn, until dropped.
pub(crate) struct Turn<'a>(#[expect(dead_code, reason = "held, never looked at")] Option<SemaphorePermit<'a>>);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_start_never_waits_for_copies() {
        let admission = Admission::default();
        let mut copies = Vec::new();
        for _ in 0..BASES {
            copies.push(admission.base().await);
        }
        let another = tokio::time::timeout(Duration::from_secs(60), admission.base());
        assert!(another.await.is_err(), "more copies at a time than there are turns");
        admission.start().await;
        copies.pop();
        admission.base().await;
    }
}
