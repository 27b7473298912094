//! How many of a backup's connections work at once: as many as are of use.
//!
//! A run begins with all of its connections. While they wait for compression most of the time, more connections make no backup
//! faster, and each reads from a server that has other users: one connection after another pauses. When they wait for the
//! server or the vault again, one after another goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::Stages;
use crate::budget::RAW_BUFFERS;
use crate::stages::Meter;

/// How often the number is judged anew.
const WINDOW: Duration = Duration::from_secs(1);

/// From this share of waiting for compression on, in percent, a connection pauses.
const TOO_MANY: u64 = 75;

/// Below this share, in percent, a connection goes on.
const TOO_FEW: u64 = 40;

/// The turns of a run's connections.
pub(crate) struct Turns {
    most: usize,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// How many may work.
    allowed: usize,
    /// How many do.
    working: usize,
    judged: Instant,
    /// What had been waited for then.
    before: Stages,
}

/// The right to do one piece of work.
pub struct Turn<'a>(&'a Turns);

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = State { allowed: most, working: 0, judged: Instant::now(), before: Stages::default() };
        Self { most, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections may work now.
    pub(crate) fn allowed(&self) -> usize {
        self.state().allowed
    }

    /// Waits for a turn. The number of those that may work is judged first, if a window has passed.
    pub(crate) async fn turn(&self, meter: &Meter) -> Turn<'_> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if state.judged.elapsed() >= WINDOW {
                    let now = meter.report();
                    state.allowed = next(state.allowed, self.most, now.since(state.before));
                    (state.judged, state.before) = (Instant::now(), now);
                }
                if state.working < state.allowed {
                    state.working += 1;
                    return Turn(self);
                }
            }
            // Others wake those that wait when they end a piece. A piece may be a table of hours: then the window ends first.
            let _ = timeout(WINDOW, changed).await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().working -= 1;
        self.0.changed.notify_waiters();
    }
}

/// How many connections of `most` work in the next window, after one in which `allowed` worked and waited so. Pure.
///
/// As many stay as keep all compressing cores busy: each has buffers for [`RAW_BUFFERS`] frames.
fn next(allowed: usize, most: usize, waited: Stages) -> usize {
    let least = most.div_ceil(RAW_BUFFERS).max(1);
    let [server, codec, vault] = [waited.server, waited.codec, waited.vault].map(|share| share.waited_ms);
    match (codec * 100).checked_div(server + codec + vault) {
        Some(share) if share >= TOO_MANY => allowed.saturating_sub(1).max(least),
        Some(share) if share < TOO_FEW => (allowed + 1).min(most),
        _ => allowed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Share, Stage};

    fn waited(server: u64, codec: u64, vault: u64) -> Stages {
        let share = |waited_ms| Share { waited_ms, busy_ms: 0 };
        Stages { server: share(server), codec: share(codec), vault: share(vault), connections: 0 }
    }

    #[test]
    fn connections_pause_while_compression_is_the_bottleneck() {
        for (allowed, most, stages, then) in [
            (8, 8, waited(100, 900, 0), 7),
            (4, 8, waited(0, 1000, 0), 3),
            (3, 8, waited(0, 1000, 0), 3),
            (1, 1, waited(0, 1000, 0), 1),
            (2, 2, waited(0, 1000, 0), 1),
            (5, 8, waited(400, 600, 0), 5),
            (5, 8, waited(900, 100, 0), 6),
            (5, 8, waited(0, 100, 900), 6),
            (8, 8, waited(900, 0, 0), 8),
            (5, 8, waited(0, 0, 0), 5),
        ] {
            assert_eq!(next(allowed, most, stages), then, "{allowed} of {most}: {stages:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_connection_goes_on_when_another_ends() {
        let (turns, meter) = (Arc::new(Turns::new(2)), Arc::new(Meter::default()));
        let (first, second) = (turns.turn(&meter).await, turns.turn(&meter).await);
        drop(second);
        meter.waited(Stage::Codec, Duration::from_secs(9));
        tokio::time::advance(WINDOW).await;
        let waiting = tokio::spawn({
            let (turns, meter) = (Arc::clone(&turns), Arc::clone(&meter));
            async move { drop(turns.turn(&meter).await) }
        });
        tokio::task::yield_now().await;
        assert!(turns.allowed() == 1 && !waiting.is_finished());
        drop(first);
        waiting.await.expect("it had its turn");
        // It waits for the server now.
        meter.waited(Stage::Server, Duration::from_secs(99));
        tokio::time::advance(WINDOW).await;
        let (_first, _second) = (turns.turn(&meter).await, turns.turn(&meter).await);
        assert_eq!(turns.allowed(), 2);
    }
}
