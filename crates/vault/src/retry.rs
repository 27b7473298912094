//! Deadlines and retry (I7): how long an attempt may take, which errors are retried, and how often.
//!
//! The decisions are pure ([`Policy::allowance`], [`Policy::next_delay`]); [`Retrier`] carries them out in tokio time.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::Backoff;
use tokio::time::{Instant, timeout};

use crate::counts::{Counters, Operation};
use crate::trouble::Troubles;
use crate::{Access, Connections, Error, Throttle};

/// The bounds that a vault works within.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How long one attempt may take, beside the time for its bytes.
    pub attempt: Duration,
    /// How long all attempts of one request together may take, waits included, beside the time for its bytes.
    pub total: Duration,
    /// The slowest transfer that is still waited for, in bytes per second: deadlines grow with the size by it.
    pub slowest: u64,
    /// The most attempts for one request.
    pub attempts: u32,
    /// The longest wait before the second attempt; doubled for each one after that.
    pub backoff: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
    /// Size of the parts of a streamed upload. A URL's own setting has precedence.
    pub part_size: usize,
    /// Parts of one streamed upload in flight. A URL's own setting has precedence.
    pub parts_in_flight: usize,
    /// Bandwidth for writing; share one among vaults to limit them together.
    pub upload: Option<Throttle>,
    /// Bandwidth for reading.
    pub download: Option<Throttle>,
    /// Connections to servers; vaults whose policies are clones of one share them.
    pub connections: Connections,
    /// The file in which this machine notes the places of vaults in folders. With it, no vault is begun anew in the place of a disk that
    /// isn't mounted. With `None`, nothing is noted.
    pub notes: Option<PathBuf>,
    /// Whether the folder of that file is Seawall's own, so that the first write makes it.
    pub notes_in_own_folder: bool,
    /// Whether the vault is encrypted; one that disagrees is refused. Only [`crate::Vault::open`] asks.
    pub access: Access,
    /// Where jitter and nonces begin. Drawn from the system by [`Policy::default`]; tests set it.
    pub seed: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(30),
            total: Duration::from_secs(120),
            slowest: 64 << 10,
            attempts: 8,
            backoff: Duration::from_millis(200),
            backoff_max: Duration::from_secs(5),
            part_size: 8 << 20,
            parts_in_flight: 4,
            upload: None,
            download: None,
            connections: Connections::default(),
            notes: None,
            notes_in_own_folder: false,
            access: Access::Plain,
            // Without a source of randomness nonces would repeat only across hosts that all lack one.
            seed: getrandom::u64().unwrap_or_default(),
        }
    }
}

impl Policy {
    /// The time that `bytes` may take on the slowest transfer.
    pub fn allowance(&self, bytes: u64) -> Duration {
        Duration::from_secs(bytes / self.slowest.max(1))
    }

    /// The longest wait before attempt `next` (2 is the first repetition), or `None` when `error` is final: not
    /// retryable, no attempts left, or no time left.
    pub fn next_delay(&self, error: &Error, next: u32, left: Duration) -> Option<Duration> {
        if !error.is_retryable() || next > self.attempts || left.is_zero() {
            return None;
        }
        Some(Backoff::new(self.backoff, self.backoff_max).after(next.saturating_sub(1)))
    }
}

/// Runs attempts under a [`Policy`].
#[derive(Debug)]
pub(crate) struct Retrier {
    pub(crate) policy: Policy,
    pub(crate) counters: Arc<Counters>,
    pub(crate) troubles: Troubles,
    rng: Mutex<fastrand::Rng>,
}

impl Retrier {
    pub(crate) fn new(policy: Policy) -> Self {
        let rng = Mutex::new(fastrand::Rng::with_seed(policy.seed));
        Self { policy, counters: Arc::default(), troubles: Troubles::default(), rng }
    }

    /// A random number. No other vault of any process draws the same, except with a probability of 2^-64.
    pub(crate) fn nonce(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// Makes one attempt with its deadline, counted.
    pub(crate) async fn once<T>(
        &self,
        operation: Operation,
        object: &str,
        bytes: u64,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let deadline = self.policy.attempt + self.policy.allowance(bytes);
        self.within(deadline, operation, object, attempt).await
    }

    /// Like [`Retrier::once`], for a call that may wait for several requests. Each request has the deadline of an
    /// attempt of its own. The call is cut off only if the backend's deadlines failed.
    pub(crate) async fn patient<T>(
        &self,
        operation: Operation,
        object: &str,
        bytes: u64,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let deadline = 4 * self.policy.attempt + 2 * self.policy.allowance(bytes);
        self.within(deadline, operation, object, attempt).await
    }

    /// Makes one attempt with the given deadline, counted.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        operation: Operation,
        object: &str,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.counters.request(operation);
        let waiting = self.troubles.begin(deadline.saturating_sub(self.policy.attempt));
        let result = match timeout(deadline, attempt).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { object: object.to_owned(), after: deadline }),
        };
        if let Err(error) = &result
            && error.is_ambiguous()
        {
            self.counters.failure();
        }
        waiting.ends(result.as_ref().err().filter(|error| error.is_ambiguous()));
        result
    }

    /// Makes attempts until one succeeds or its error is final. `bytes` is what one attempt moves.
    pub(crate) async fn run<T, F>(
        &self,
        operation: Operation,
        object: &str,
        bytes: u64,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut waits = self.waits(bytes);
        loop {
            let deadline = waits.deadline(bytes);
            let error = match self.within(deadline, operation, object, attempt()).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            waits.after(error).await?;
        }
    }

    /// The budget of one request that moves `bytes`.
    pub(crate) fn waits(&self, bytes: u64) -> Waits<'_> {
        Waits { retrier: self, end: Instant::now() + self.policy.total + self.policy.allowance(bytes), attempts: 1 }
    }
}

/// The attempts and the time that one request has left.
pub(crate) struct Waits<'a> {
    retrier: &'a Retrier,
    end: Instant,
    attempts: u32,
}

impl Waits<'_> {
    /// How long the next attempt may take.
    pub(crate) fn deadline(&self, bytes: u64) -> Duration {
        let policy = &self.retrier.policy;
        (policy.attempt + policy.allowance(bytes)).min(self.left())
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Waits before the next attempt, or gives `error` back when it is final.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Error> {
        let left = self.left();
        let Some(longest) = self.retrier.policy.next_delay(&error, self.attempts + 1, left) else {
            return Err(error);
        };
        self.attempts += 1;
        self.retrier.counters.retry();
        // Half fixed and half random: spread, and never at once.
        let share = 0.5 + 0.5 * self.retrier.rng.lock().unwrap_or_else(PoisonError::into_inner).f64();
        let delay = longest.mul_f64(share);
        if delay >= left {
            return Err(error);
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn away() -> Error {
        Error::Unavailable { object: "x".into(), cause: "503".into(), retryable: true }
    }

    fn policy() -> Policy {
        Policy { seed: 7, ..Policy::default() }
    }

    #[test]
    fn which_errors_are_worth_another_attempt() {
        let policy = policy();
        let minute = Duration::from_secs(60);
        let object = || "x".to_owned();
        for (error, retried) in [
            (away(), true),
            (Error::Timeout { object: object(), after: minute }, true),
            (Error::Unavailable { object: object(), cause: String::new(), retryable: false }, false),
            (Error::NotFound { object: object() }, false),
            (Error::AlreadyExists { object: object() }, false),
            (Error::Precondition { object: object() }, false),
            (Error::Denied { object: object(), cause: String::new() }, false),
            (Error::Full { object: object(), cause: String::new() }, false),
            (Error::Corrupt { object: object(), cause: String::new() }, false),
        ] {
            assert_eq!(policy.next_delay(&error, 2, minute).is_some(), retried, "{error}");
        }
        let delays: Vec<_> = (2..=9).map(|next| policy.next_delay(&away(), next, minute)).collect();
        let millis: Vec<_> = delays.iter().map(|d| d.map(|d| d.as_millis())).collect();
        assert_eq!(
            millis,
            [Some(200), Some(400), Some(800), Some(1600), Some(3200), Some(5000), Some(5000), None],
            "doubles up to the longest wait, then ends"
        );
        assert_eq!(policy.next_delay(&away(), 2, Duration::ZERO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_sum_of_all_attempts_is_bounded() {
        let retrier = Retrier::new(policy());
        let start = Instant::now();
        let result: Result<(), Error> = retrier.run(Operation::Get, "x", 0, std::future::pending).await;
        assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
        assert!(start.elapsed() <= Duration::from_secs(121), "took {:?}", start.elapsed());
        assert_eq!(retrier.counters.snapshot().get, 4, "30 s each within 120 s");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_counted() {
        let retrier = Retrier::new(policy());
        let calls = Cell::new(0);
        let result = retrier
            .run(Operation::Put, "x", 0, || {
                calls.set(calls.get() + 1);
                let fail = calls.get() < 4;
                async move { if fail { Err(away()) } else { Ok(5) } }
            })
            .await;
        assert_eq!(result, Ok(5));
        let counts = retrier.counters.snapshot();
        assert_eq!((counts.put, counts.retries, counts.failures), (4, 3, 3));
    }
}
