//! How long is waited until the log is asked for again? Pure.

use std::time::Duration;

use seawall_core::Backoff;

/// The waits behind failures that pass by themselves, and while commits wait.
const SOON: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// The waits where a person has to act first, or another process has to end: each try lists the log.
const PATIENT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(600));

/// How long to wait after so many failures in a row. `passes` says whether the last one may pass by itself. While `commits_wait`, each
/// second counts for the server's application, whatever the failure is.
pub(super) fn wait(failures: u32, passes: bool, commits_wait: bool) -> Duration {
    if passes || commits_wait { SOON.after(failures) } else { PATIENT.after(failures) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        for (passes, commits_wait, expected) in [
            (true, false, [1, 2, 16, 30, 30, 30]),
            (true, true, [1, 2, 16, 30, 30, 30]),
            (false, false, [1, 2, 16, 32, 600, 600]),
            (false, true, [1, 2, 16, 30, 30, 30]),
        ] {
            let waits = [1, 2, 5, 6, 11, u32::MAX].map(|failures| wait(failures, passes, commits_wait).as_secs());
            assert_eq!(waits, expected, "{passes} {commits_wait}");
        }
    }
}
