//! How many of a backup's connections work at once: as many as are of use.
//!
//! A run begins with all of its connections. While they wait for compression most of the time, more connections make no backup
//! faster, and each reads from a server that has other users: one connection after another pauses. When they wait for the
//! server or the vault again, one after another goes on.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

use crate::Stages;
use crate::budget::RAW_BUFFERS;
use crate::stages::Meter;

/// How often the number is judged anew.
const WINDOW: Duration = Duration::from_secs(1);

/// From this share of waiting for compression on, in percent, a connection pauses.
const TOO_MANY: u64 = 75;

/// Below this share, in percent, a connection goes on.
const TOO_FEW: u64 = 40;

/// The turns of a run's connections. A connection that waits gets its turn before one that came later.
pub(crate) struct Turns {
    most: usize,
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// How many may work.
    allowed: usize,
    /// How many permits are to be taken away when their turns end.
    surplus: usize,
    /// How many work.
    working: usize,
    /// The most that worked at once in the last window, and in this one.
    peaks: [usize; 2],
    judged: Instant,
    /// What had been waited for then.
    before: Stages,
}

/// The right to do one piece of work.
pub struct Turn<'a> {
    turns: &'a Turns,
    permit: Option<SemaphorePermit<'a>>,
}

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        let state = State {
            allowed: most,
            surplus: 0,
            working: 0,
            peaks: [0; 2],
            judged: Instant::now(),
            before: Stages::default(),
        };
        Self { most, permits: Semaphore::new(most), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections worked at once lately.
    pub(crate) fn connections(&self) -> usize {
        let [before, now] = self.state().peaks;
        before.max(now)
    }

    /// Waits for a turn. A working connection may read one table for hours, so waiting connections judge the number too.
    pub(crate) async fn turn(&self, meter: &Meter) -> Turn<'_> {
        let mut acquired = pin!(self.permits.acquire());
        loop {
            self.judge(meter);
            tokio::select! {
                permit = &mut acquired => {
                    let mut state = self.state();
                    state.working += 1;
                    state.peaks[1] = state.peaks[1].max(state.working);
                    return Turn { turns: self, permit: permit.ok() };
                }
                () = sleep(WINDOW) => {}
            }
        }
    }

    /// Judges how many may work, if a window has passed.
    fn judge(&self, meter: &Meter) {
        let mut state = self.state();
        if state.judged.elapsed() < WINDOW {
            return;
        }
        let now = meter.report();
        // There may be fewer connections than could work.
        let worked = state.allowed.min(state.peaks[1].max(1));
        let allowed = match next(worked, self.most, now.since(state.before)) {
            fewer if fewer < worked => fewer,
            more if more > worked => state.allowed.max(more),
            _ => state.allowed,
        };
        for _ in allowed..state.allowed {
            // One that is in use goes when its turn ends.
            state.surplus += 1 - self.permits.forget_permits(1);
        }
        for _ in state.allowed..allowed {
            match state.surplus.checked_sub(1) {
                Some(surplus) => state.surplus = surplus,
                None => self.permits.add_permits(1),
            }
        }
        (state.allowed, state.judged, state.before) = (allowed, Instant::now(), now);
        state.peaks = [state.peaks[1], state.working];
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.working = state.working.saturating_sub(1);
        if let Some(surplus) = state.surplus.checked_sub(1) {
            state.surplus = surplus;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

/// How many connections of `most` work in the next window, after one in which `allowed` worked and waited so. Pure.
///
/// As many stay as keep all compressing cores busy: each has buffers for [`RAW_BUFFERS`] frames.
fn next(allowed: usize, most: usize, waited: Stages) -> usize {
    let least = most.div_ceil(RAW_BUFFERS).max(1);
    let [server, codec, vault] = [waited.server, waited.codec, waited.vault].map(|share| share.waited_ms);
    match (codec * 100).checked_div(server + codec + vault) {
        Some(share) if share >= TOO_MANY => allowed.saturating_sub(1).max(least).min(allowed),
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
            // Fewer than keep all cores busy, because there are no more.
            (2, 8, waited(0, 900, 0), 2),
        ] {
            assert_eq!(next(allowed, most, stages), then, "{allowed} of {most}: {stages:?}");
        }
    }

    /// How many may work, and how many permits are too many.
    fn told(turns: &Turns) -> (usize, usize) {
        let state = turns.state();
        (state.allowed, state.surplus)
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
        assert_eq!((told(&turns).0, waiting.is_finished()), (1, false));
        drop(first);
        waiting.await.expect("it had its turn");
        // It waits for the server now.
        meter.waited(Stage::Server, Duration::from_secs(99));
        tokio::time::advance(WINDOW).await;
        let (_first, _second) = (turns.turn(&meter).await, turns.turn(&meter).await);
        assert_eq!((told(&turns), turns.connections()), ((2, 0), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_the_middle_of_its_piece_pauses_behind_it() {
        let (turns, meter) = (Turns::new(3), Meter::default());
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(turns.turn(&meter).await);
        }
        meter.waited(Stage::Codec, Duration::from_secs(9));
        tokio::time::advance(WINDOW).await;
        turns.judge(&meter);
        assert_eq!(told(&turns), (2, 1));
        held.pop();
        assert_eq!((told(&turns), turns.permits.available_permits()), ((2, 0), 0));
        held.pop();
        assert_eq!(turns.permits.available_permits(), 1);
        // Taken back before any turn ended.
        let _again = turns.turn(&meter).await;
        meter.waited(Stage::Codec, Duration::from_secs(9));
        tokio::time::advance(WINDOW).await;
        turns.judge(&meter);
        meter.waited(Stage::Server, Duration::from_secs(99));
        tokio::time::advance(WINDOW).await;
        turns.judge(&meter);
        assert_eq!(told(&turns), (2, 0));
    }

    #[tokio::test]
    async fn a_connection_that_waits_comes_before_one_that_has_just_ended() {
        let (turns, meter) = (Arc::new(Turns::new(1)), Arc::new(Meter::default()));
        let mut mine = Some(turns.turn(&meter).await);
        let waiting = tokio::spawn({
            let (turns, meter) = (Arc::clone(&turns), Arc::clone(&meter));
            async move { drop(turns.turn(&meter).await) }
        });
        tokio::task::yield_now().await;
        mine.take();
        let again = turns.turn(&meter).await;
        assert!(waiting.is_finished(), "the other one had its turn first");
        drop(again);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_were_never_opened_do_not_count() {
        let (turns, meter) = (Turns::new(8), Meter::default());
        let turn = turns.turn(&meter).await;
        drop(turn);
        assert_eq!(turns.connections(), 1);
        let (first, second) = (turns.turn(&meter).await, turns.turn(&meter).await);
        meter.waited(Stage::Codec, Duration::from_secs(9));
        tokio::time::advance(WINDOW).await;
        turns.judge(&meter);
        assert_eq!(told(&turns), (8, 0), "two don't keep eight cores busy");
        drop((first, second));
    }
}
