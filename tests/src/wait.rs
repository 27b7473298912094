//! Waiting for a condition, with a deadline; the only sleeps of the tests are here.

use std::time::{Duration, Instant};

/// How long anything may take that should take a moment, on a machine that is busy with something else.
pub const SOON: Duration = Duration::from_secs(30);

/// Asks `ready` until it gives something, and returns it.
///
/// # Panics
/// When `limit` has passed.
pub fn until<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets `time` pass: for moments that are random on purpose, never for waiting until something is ready.
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}
