//! Work on many threads whose results are taken in order.
//!
//! Pieces get numbers as they are handed out. The thread that finishes the next piece in line passes the waiting
//! results on; the other threads continue with further pieces. Neither end has a thread of its own, so with two threads
//! both processors are at work. Memory: at most [`AHEAD`] results for each thread.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many results for each thread may wait for their turn.
const AHEAD: u64 = 4;

/// State that the threads share.
struct State<N, R, E> {
    next: N,
    /// No more pieces are handed out.
    ended: bool,
    handed: u64,
    taken: u64,
    waiting: BTreeMap<u64, R>,
    /// Whether a thread is passing results on.
    carrying: bool,
    /// The failure of the piece that comes first in order.
    failed: Option<(u64, E)>,
}

/// Runs `work` on all pieces of `next`, and `take` on the results in the order of the pieces.
///
/// Each thread has a `worker` of its own. The first failure in piece order ends the call.
pub(super) fn run<T, R, W, E>(
    jobs: NonZeroUsize,
    next: impl FnMut() -> Result<Option<T>, E> + Send,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, T) -> Result<R, E> + Sync,
    take: impl FnMut(R) -> Result<(), E> + Send,
) -> Result<(), E>
where
    R: Send,
    E: Send,
{
    let (mut next, mut take) = (next, take);
    if jobs.get() == 1 {
        let mut worker = worker();
        while let Some(piece) = next()? {
            take(work(&mut worker, piece)?)?;
        }
        return Ok(());
    }
    let waiting = BTreeMap::new();
    let state = Mutex::new(State { next, ended: false, handed: 0, taken: 0, waiting, carrying: false, failed: None });
    let (changed, take) = (Condvar::new(), Mutex::new(take));
    let ahead = AHEAD.saturating_mul(jobs.get() as u64);
    let thread = || {
        let _alarm = Alarm { state: &state, changed: &changed };
        let mut worker = worker();
        while let Some((number, piece)) = hand_out(&state, &changed, ahead) {
            match work(&mut worker, piece) {
                Ok(result) => carry(&state, &changed, &take, number, result),
                Err(error) => fail(&mut lock(&state), &changed, number, error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.get() {
            // If the system refuses a thread, the others do its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, thread);
        }
        thread();
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// A thread that panics makes the others panic too, instead of leaving them waiting for its piece.
struct Alarm<'a, N, R, E> {
    state: &'a Mutex<State<N, R, E>>,
    changed: &'a Condvar,
}

impl<N, R, E> Drop for Alarm<'_, N, R, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.state).ended = true;
            self.changed.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next piece with its number, once there is room for its result; `None` at the end.
fn hand_out<N, T, R, E>(state: &Mutex<State<N, R, E>>, changed: &Condvar, ahead: u64) -> Option<(u64, T)>
where
    N: FnMut() -> Result<Option<T>, E>,
{
    let mut state = lock(state);
    loop {
        if state.ended || state.failed.is_some() {
            return None;
        }
        if state.handed - state.taken < ahead {
            break;
        }
        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let number = state.handed;
    match (state.next)() {
        Ok(Some(piece)) => {
            state.handed += 1;
            return Some((number, piece));
        }
        Ok(None) => state.ended = true,
        Err(error) => fail(&mut state, changed, number, error),
    }
    changed.notify_all();
    None
}

fn fail<N, R, E>(state: &mut State<N, R, E>, changed: &Condvar, number: u64, error: E) {
    if state.failed.as_ref().is_none_or(|(first, _)| number < *first) {
        state.failed = Some((number, error));
    }
    changed.notify_all();
}

/// Adds a result, and passes on all results that are next, unless another thread does.
fn carry<N, R, E>(
    state: &Mutex<State<N, R, E>>,
    changed: &Condvar,
    take: &Mutex<impl FnMut(R) -> Result<(), E>>,
    number: u64,
    result: R,
) {
    let mut locked = lock(state);
    locked.waiting.insert(number, result);
    if locked.carrying {
        return;
    }
    locked.carrying = true;
    loop {
        let number = locked.taken;
        let stopped = locked.failed.as_ref().is_some_and(|(first, _)| *first <= number);
        let Some(result) = locked.waiting.remove(&number).filter(|_| !stopped) else { break };
        drop(locked);
        let taken = (lock(take))(result);
        locked = lock(state);
        match taken {
            Ok(()) => locked.taken += 1,
            Err(error) => fail(&mut locked, changed, number, error),
        }
        changed.notify_all();
    }
    locked.carrying = false;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).expect("not 0")
    }

    #[test]
    fn results_come_in_order() {
        for threads in [1, 2, 7] {
            let (mut at, mut seen) = (0_u64, Vec::new());
            let next = || {
                at += 1;
                Ok::<_, ()>((at <= 500).then_some(at))
            };
            let work = |_: &mut (), n: u64| {
                // Pieces of very different cost.
                Ok((0..(n * 7919) % 5000).fold(n << 20, |x, y| x + y % 2) >> 20)
            };
            run(
                jobs(threads),
                next,
                || (),
                work,
                |n| {
                    seen.push(n);
                    Ok(())
                },
            )
            .expect("no failure");
            assert_eq!(seen, (1..=500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_failure_in_order_is_told() {
        for threads in [1, 2, 7] {
            for (bad_next, bad_work, bad_take, expected) in
                [(60, 50, 70, 50), (50, 999, 999, 50), (999, 999, 30, 30), (999, 40, 45, 40)]
            {
                let mut at = 0_u64;
                let next = || {
                    at += 1;
                    if at == bad_next { Err(at) } else { Ok((at < 400).then_some(at)) }
                };
                let work = |_: &mut (), n: u64| if n == bad_work { Err(n) } else { Ok(n) };
                let mut last = 0;
                let took = run(
                    jobs(threads),
                    next,
                    || (),
                    work,
                    |n| {
                        assert_eq!(n, last + 1);
                        last = n;
                        if n == bad_take { Err(n) } else { Ok(()) }
                    },
                );
                assert_eq!(took, Err(expected), "{threads} threads");
                assert!(last <= expected);
            }
        }
    }
}
