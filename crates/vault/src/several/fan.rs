//! A write that goes to several vaults: the leading one first, then all others at once.
//!
//! The leading vault decides whether an object may be made, so that a writer that loses a race leaves nothing in the
//! other vaults. If it doesn't answer for a while, the others are asked as well, and the first that has the object
//! decides.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::decide::{is_trouble, representative};
use crate::Error;

/// The vaults that don't have it, although another does; each with the reason.
pub(crate) type Failed = Vec<(usize, Error)>;

/// Asks all vaults of `order`. `Ok` when at least one has it: then every other one has it as well, or is among the
/// failed ones. After `Err`, any of them may have it or not.
pub(crate) async fn fan_out<'a>(
    order: &[usize],
    grace: Duration,
    attempt: impl Fn(usize) -> BoxFuture<'a, Result<(), Error>>,
) -> Result<Failed, Error> {
    let started = |i: usize| numbered(i, attempt(i));
    let mut waiting: VecDeque<usize> = order.iter().copied().collect();
    let mut running: FuturesUnordered<_> = waiting.pop_front().map(started).into_iter().collect();
    let (mut held, mut failed, mut until) = (false, Failed::new(), Instant::now() + grace);
    let mut asked = order.first().copied().into_iter().collect::<Vec<_>>();
    loop {
        tokio::select! {
            biased;
            Some((i, result)) = running.next() => {
                asked.retain(|asked| *asked != i);
                match result {
                    Ok(()) if !held => {
                        held = true;
                        until = Instant::now() + grace;
                        asked.extend(&waiting);
                        running.extend(waiting.drain(..).map(started));
                    }
                    Ok(()) => {}
                    Err(error) if !held && !is_trouble(&error) => return Err(error),
                    Err(error) => {
                        failed.push((i, error));
                        if !held && let Some(next) = waiting.pop_front() {
                            asked.push(next);
                            running.push(started(next));
                        }
                    }
                }
            }
            () = sleep_until(until), if held && !running.is_empty() => {
                let late = |i| (i, Error::Timeout { object: String::new(), after: grace });
                failed.extend(asked.drain(..).map(late));
                break;
            }
            () = sleep_until(until), if !held && !waiting.is_empty() => {
                asked.extend(&waiting);
                running.extend(waiting.drain(..).map(started));
            }
            else => break,
        }
    }
    if held {
        return Ok(failed);
    }
    let errors = failed.into_iter().map(|(_, error)| error).collect();
    Err(representative(errors).unwrap_or_else(|| Error::Unavailable {
        object: String::new(),
        cause: "there is no vault to write to".to_owned(),
        retryable: true,
    }))
}

async fn numbered(i: usize, attempt: impl Future<Output = Result<(), Error>>) -> (usize, Result<(), Error>) {
    (i, attempt.await)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What a vault does: how many seconds until its answer, and the answer.
    type Plan = (u64, Result<(), &'static str>);

    fn error(word: &str) -> Error {
        match word {
            "exists" => Error::AlreadyExists { object: "x".into() },
            cause => Error::Unavailable { object: "x".into(), cause: cause.into(), retryable: true },
        }
    }

    /// What comes of it, in how many seconds, and which vaults were asked.
    async fn outcome(plans: &[Plan]) -> (Result<Vec<usize>, String>, u64, Vec<usize>) {
        let (asked, began) = (Mutex::new(Vec::new()), Instant::now());
        let order: Vec<usize> = (0..plans.len()).collect();
        let attempt = |i: usize| -> BoxFuture<'_, Result<(), Error>> {
            asked.lock().expect("no panic").push(i);
            let (seconds, result) = plans[i];
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                result.map_err(error)
            })
        };
        let result = fan_out(&order, Duration::from_secs(2), attempt).await;
        let result =
            result.map(|failed| failed.into_iter().map(|(i, _)| i).collect()).map_err(|error| error.to_string());
        (result, began.elapsed().as_secs(), asked.into_inner().expect("no panic"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_becomes_of_a_write() {
        let away = Err("away");
        for (what, plans, expected, seconds, asked) in [
            ("all take it", vec![(1, Ok(())), (1, Ok(())), (1, Ok(()))], Ok(vec![]), 2, vec![0, 1, 2]),
            ("one fails", vec![(1, Ok(())), (1, away), (1, Ok(()))], Ok(vec![1]), 2, vec![0, 1, 2]),
            ("one hangs", vec![(1, Ok(())), (99, Ok(())), (1, Ok(()))], Ok(vec![1]), 3, vec![0, 1, 2]),
            ("the leading one fails", vec![(1, away), (0, Ok(())), (0, Ok(()))], Ok(vec![0]), 1, vec![0, 1, 2]),
            ("the leading one hangs", vec![(99, Ok(())), (1, Ok(()))], Ok(vec![0]), 5, vec![0, 1]),
            ("the leading one is slow", vec![(4, Ok(())), (1, Ok(()))], Ok(vec![]), 4, vec![0, 1]),
            (
                "all are away",
                vec![(0, away), (0, away)],
                Err("x: the store is not available: away".to_owned()),
                0,
                vec![0, 1],
            ),
            (
                "another was first",
                vec![(1, Err("exists")), (0, Ok(()))],
                Err("x: the object exists already, with other content".to_owned()),
                1,
                vec![0],
            ),
            ("one has another's", vec![(0, Ok(())), (0, Err("exists"))], Ok(vec![1]), 0, vec![0, 1]),
            ("one alone", vec![(50, Ok(()))], Ok(vec![]), 50, vec![0]),
        ] {
            assert_eq!(outcome(&plans).await, (expected, seconds, asked), "{what}");
        }
    }
}
