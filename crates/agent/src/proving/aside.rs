//! Runs work beside the protection: on a thread with a runtime of its own, which gives way to all others.
//!
//! The threads for blocking work that protection has are few. A restore would take all of them.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long blocking work may go on after the work was ended.
const ENDING: Duration = Duration::from_secs(2);

/// How long a thread is waited for whose work should have ended.
const LOST: Duration = Duration::from_secs(30);

/// Runs work to its end, with at most `threads` for blocking work; `None` if it took longer than `bound`, was stopped, or panicked. Then its future was dropped.
pub(crate) async fn aside<T, Work>(
    work: impl FnOnce() -> Work + Send + 'static,
    (threads, bound): (usize, Duration),
    stop: &CancellationToken,
) -> Option<T>
where
    T: Send + 'static,
    Work: Future<Output = T>,
{
    // Ends the work too if the future of this function is dropped.
    let stop = stop.child_token();
    let _ends = stop.clone().drop_guard();
    let stopped = stop.clone();
    let (done, result) = oneshot::channel();
    let begun = std::thread::Builder::new().name("seawall-aside".to_owned()).spawn(move || {
        seawall_host::give_way();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(threads)
            .thread_keep_alive(Duration::from_secs(2))
            .build();
        let made = runtime.ok().and_then(|runtime| {
            let made = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => None,
                    made = tokio::time::timeout(bound, work()) => made.ok(),
                }
            });
            runtime.shutdown_timeout(ENDING);
            made
        });
        let _nobody_waits = done.send(made);
    });
    if let Err(error) = begun {
        tracing::error!(%error, "no thread for work beside the protection");
        return None;
    }
    // A call that the system never answers holds its thread, and nothing else.
    let lost = async {
        tokio::select! {
            () = tokio::time::sleep(bound) => {}
            () = stopped.cancelled() => {}
        }
        tokio::time::sleep(LOST).await;
    };
    tokio::select! {
        biased;
        made = result => made.ok().flatten(),
        () = lost => {
            tracing::error!("a thread beside the protection answers no more; it is left, with what it holds");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ends_the_work() {
        let (long, stop) = (Duration::from_secs(600), CancellationToken::new());
        assert_eq!(aside(|| async { 5 }, (2, long), &stop).await, Some(5));
        assert_eq!(aside(std::future::pending::<u8>, (2, Duration::from_millis(1)), &stop).await, None);
        let panics = || async { assert!(std::hint::black_box(false), "it was told to") };
        assert_eq!(aside(panics, (2, long), &stop).await, None);
        let (begun, begins) = oneshot::channel();
        let work = move || async move {
            let _asked = begun.send(());
            std::future::pending::<u8>().await
        };
        let stopping = async {
            begins.await.expect("it began");
            stop.cancel();
        };
        assert_eq!(tokio::join!(aside(work, (2, long), &stop), stopping).0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_answers_no_more_holds_nothing() {
        let (held, holds) = std::sync::mpsc::channel::<()>();
        let blocks = move || async move { holds.recv().is_ok() };
        let bound = (1, Duration::from_millis(1));
        assert_eq!(aside(blocks, bound, &CancellationToken::new()).await, None);
        drop(held);
    }
}
