//! Work on many threads whose results are added up in any order.
//!
//! Without an order no thread waits for another: the threads share only the number of the next piece. (Pieces of a
//! checksum take 30 µs; [`super::ordered`] would cost a fifth of that.)

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs `work` on the pieces from 0 to `count`, and returns the result of each thread.
///
/// A failure ends the others; one of the failures is returned.
pub(super) fn run<W, E>(
    jobs: NonZeroUsize,
    count: u32,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, u32) -> Result<(), E> + Sync,
) -> Result<Vec<W>, E>
where
    W: Send,
    E: Send,
{
    let next = AtomicU32::new(0);
    let take = || next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |piece| (piece < count).then_some(piece + 1));
    let thread = || {
        let mut worker = worker();
        while let Ok(piece) = take() {
            if let Err(error) = work(&mut worker, piece) {
                next.store(count, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(worker)
    };
    let threads = jobs.get().min(count.max(1) as usize);
    std::thread::scope(|scope| {
        // If the system refuses a thread, the others do its work.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, thread).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let own = thread();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_adding(threads: usize, count: u32, bad: u32) -> Result<u64, u32> {
        let jobs = NonZeroUsize::new(threads).expect("not 0");
        let add = |sum: &mut u64, piece| {
            *sum += u64::from(piece);
            if piece == bad { Err(piece) } else { Ok(()) }
        };
        run(jobs, count, || 0_u64, add).map(|sums| sums.iter().sum())
    }

    #[test]
    fn every_piece_is_done_once() {
        for threads in [1, 2, 9] {
            for count in [0, 1, 5, 1000] {
                let expected = (0..u64::from(count)).sum();
                assert_eq!(run_adding(threads, count, u32::MAX), Ok(expected), "{count} on {threads}");
            }
        }
    }

    #[test]
    fn a_failure_is_told() {
        for threads in [1, 2, 9] {
            assert_eq!(run_adding(threads, 1000, 400), Err(400));
        }
    }
}
