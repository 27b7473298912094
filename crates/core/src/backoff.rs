//! Backoff: how long to wait after consecutive failures.

use std::time::Duration;

/// Waits that double with each consecutive failure, from `first` to `longest`.
///
/// ```
/// use std::time::Duration;
/// use seawall_core::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));
/// let waits: Vec<u64> = (0..4).map(|_| backoff.failed().as_secs()).collect();
/// assert_eq!(waits, [1, 2, 3, 3]);
/// backoff.worked();
/// assert_eq!(backoff.failed().as_secs(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff from `first` to `longest` that has counted no failure yet.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Counts a failure; returns how long to wait after it.
    pub fn failed(&mut self) -> Duration {
        let wait = self.wait();
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Counts a success, which sets the next wait back to the first.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// How long to wait after the next failure.
    pub fn wait(&self) -> Duration {
        self.after(self.failures.saturating_add(1))
    }

    /// Whether the next wait is the longest one.
    pub fn is_exhausted(&self) -> bool {
        self.wait() >= self.longest
    }

    /// How long to wait after this many consecutive failures.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// The wait after a first failure.
    pub const fn first(&self) -> Duration {
        self.first
    }

    /// The longest wait.
    pub const fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let millis = Duration::from_millis;
        for (first, longest, failures, wait) in [
            (200, 5000, 0, 200),
            (200, 5000, 1, 200),
            (200, 5000, 2, 400),
            (200, 5000, 5, 3200),
            (200, 5000, 6, 5000),
            (200, 5000, u32::MAX, 5000),
            (500, 500, 3, 500),
            (0, 1000, 9, 0),
            (u64::MAX, u64::MAX, 40, u64::MAX),
        ] {
            let backoff = Backoff::new(millis(first), millis(longest));
            assert_eq!(backoff.after(failures), millis(wait), "{first} {longest} {failures}");
        }
    }

    #[test]
    fn a_success_begins_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));
        assert!(!backoff.is_exhausted());
        assert_eq!([backoff.failed(), backoff.failed()].map(|wait| wait.as_secs()), [1, 2]);
        assert!(backoff.is_exhausted());
        assert_eq!([backoff.failed(), backoff.failed()].map(|wait| wait.as_secs()), [4, 4]);
        backoff.worked();
        assert_eq!(backoff.failed().as_secs(), 1);
    }
}
