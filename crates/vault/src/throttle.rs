//! Bandwidth: a token bucket. All users of one throttle draw from the same bucket.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A limit in bytes per second. Clones share it, so one throttle can limit all vaults of a process.
///
/// A caller that draws goes into debt and waits until the debt is paid, in the order of drawing. So large calls don't
/// starve others, and no draw is too large. While nothing is drawn, up to one second's worth is saved.
#[derive(Debug, Clone)]
pub struct Throttle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bytes_per_second: u64,
    /// The moment at which all debts are paid.
    paid: Mutex<Option<Instant>>,
}

impl Throttle {
    /// A limit; at least one byte per second.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { inner: Arc::new(Inner { bytes_per_second: bytes_per_second.max(1), paid: Mutex::new(None) }) }
    }

    /// Waits until `bytes` may go.
    pub async fn take(&self, bytes: u64) {
        let cost = cost(bytes, self.inner.bytes_per_second);
        let now = Instant::now();
        let until = {
            let mut paid = self.inner.paid.lock().unwrap_or_else(PoisonError::into_inner);
            let saved = now.checked_sub(SAVINGS).unwrap_or(now);
            let until = paid.map_or(saved, |at| at.max(saved)) + cost;
            *paid = Some(until);
            until
        };
        if until > now {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// How much unused time counts.
const SAVINGS: Duration = Duration::from_secs(1);

/// How long `bytes` take at a rate; never more than a day, so that no arithmetic overflows.
fn cost(bytes: u64, bytes_per_second: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(Duration::from_secs(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_holds_over_time_and_over_clones() {
        let throttle = Throttle::new(1_000);
        let start = Instant::now();
        let other = throttle.clone();
        tokio::join!(
            async {
                for _ in 0..50 {
                    throttle.take(100).await;
                }
            },
            async {
                for _ in 0..5 {
                    other.take(1_000).await;
                }
            }
        );
        let seconds = start.elapsed().as_secs_f64();
        assert!((8.9..10.1).contains(&seconds), "10000 bytes at 1000/s, one second saved up, took {seconds} s");
    }

    #[test]
    fn costs() {
        assert_eq!(cost(500, 1_000), Duration::from_millis(500));
        assert_eq!(cost(u64::MAX, 1), Duration::from_secs(86_400));
    }
}
