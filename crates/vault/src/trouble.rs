//! Since when is a store failing, while requests are still retried?
//!
//! A failing request is retried for up to two minutes, and a request without an answer waits for half a minute. A
//! caller that waits for the final result learns late that the store is away. So the beginning and the end of each
//! attempt are noted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Error;

/// The present trouble with a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    /// How long it has lasted: since the beginning of the first attempt that failed or still waits.
    pub lasts: Duration,
    /// The last error; `None` where an attempt only waits for its answer.
    pub error: Option<Error>,
}

/// The attempts under way, and the results of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// When attempts that are under way should have been answered at the earliest: their bytes take time.
    waiting: BTreeMap<u64, Instant>,
    /// When the first attempt began that failed, with the last error. Cleared by an attempt that is answered.
    failing: Option<(Instant, Error)>,
}

/// An attempt under way. If it is dropped without a result, its caller gave up.
pub(crate) struct Waiting<'a> {
    troubles: &'a Troubles,
    number: u64,
    began: Instant,
}

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt whose bytes may take `transfer`.
    pub(crate) fn begin(&self, transfer: Duration) -> Waiting<'_> {
        let (mut state, began) = (self.lock(), Instant::now());
        state.next += 1;
        let number = state.next;
        state.waiting.insert(number, began + transfer);
        Waiting { troubles: self, number, began }
    }

    /// The present trouble.
    pub(crate) fn now(&self) -> Option<Trouble> {
        let (state, now) = (self.lock(), Instant::now());
        let waits = state.waiting.values().min().map(|since| now.saturating_duration_since(*since));
        match &state.failing {
            Some((since, error)) => {
                Some(Trouble { lasts: now.saturating_duration_since(*since), error: Some(error.clone()) })
            }
            None => waits.filter(|lasts| !lasts.is_zero()).map(|lasts| Trouble { lasts, error: None }),
        }
    }
}

impl Waiting<'_> {
    /// Ends an attempt: it was answered, or failed with an error that says nothing about the object.
    pub(crate) fn ends(self, error: Option<&Error>) {
        let mut state = self.troubles.lock();
        match error {
            None => state.failing = None,
            Some(error) => {
                let since = state.failing.take().map_or(self.began, |(since, _)| since);
                state.failing = Some((since, error.clone()));
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.troubles.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_begins_with_the_first_attempt_that_failed() {
        let troubles = Troubles::default();
        let away = || Error::Unavailable { object: "x".into(), cause: "503".into(), retryable: true };
        let second = Duration::from_secs(1);
        assert_eq!(troubles.now(), None);
        let hangs = troubles.begin(2 * second);
        tokio::time::sleep(2 * second).await;
        assert_eq!(troubles.now(), None, "its bytes may take that long");
        tokio::time::sleep(second).await;
        assert_eq!(troubles.now(), Some(Trouble { lasts: second, error: None }));
        hangs.ends(Some(&away()));
        assert_eq!(troubles.now(), Some(Trouble { lasts: 3 * second, error: Some(away()) }));
        troubles.begin(Duration::ZERO).ends(Some(&away()));
        tokio::time::sleep(second).await;
        assert_eq!(troubles.now(), Some(Trouble { lasts: 4 * second, error: Some(away()) }));
        troubles.begin(Duration::ZERO).ends(None);
        assert_eq!(troubles.now(), None, "an answer ends it");
        drop(troubles.begin(Duration::ZERO));
        tokio::time::sleep(second).await;
        assert_eq!(troubles.now(), None, "an attempt that was given up waits for nothing");
    }
}
