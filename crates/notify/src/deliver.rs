//! Brings each channel what it is owed, as long as a process runs.
//!
//! A delivery is a few attempts with growing waits. If all fail, the channel rests, and then gets what is due at that time: a
//! message that was overtaken is never sent. What was told counts as told only after it arrived.

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Backoff, Clock as _, Failure, Kind, Moment, Shutdown, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::channel::Channel;
use crate::due::{Due, Watched, due};
use crate::message::Message;
use crate::send::{Again, Sender, Trouble};
use crate::told::Store;

/// The attempts of one delivery.
const ATTEMPTS: u32 = 5;

/// The waits between attempts.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));

/// The waits of a channel after a delivery that failed.
const RESTS: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(3600));

/// Tells each channel of the alarms that are seen, until the shutdown. The task of a channel that fails or hangs holds up no other.
pub async fn keep_telling(
    channels: Vec<Channel>,
    sender: Sender,
    seen: watch::Receiver<Vec<Watched>>,
    store: Arc<Store>,
    shutdown: Shutdown,
) {
    let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
    store.only(&names).await;
    let mut tasks = JoinSet::new();
    for channel in channels {
        let (sender, seen, store, shutdown) = (sender.clone(), seen.clone(), Arc::clone(&store), shutdown.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = shutdown.graceful() => {}
                () = tell(&channel, &sender, seen, &store, WAITS) => {}
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Tells one channel, until the senders of `seen` are gone.
pub(crate) async fn tell(
    channel: &Channel,
    sender: &Sender,
    mut seen: watch::Receiver<Vec<Watched>>,
    store: &Store,
    waits: Backoff,
) {
    let mut rests = RESTS;
    loop {
        let watched = seen.borrow_and_update().clone();
        let now = SystemClock.now();
        let Due { notices, mut records, wake } = due(channel, &store.of(&channel.name).await, &watched, now);
        let mut failed = None;
        for notice in &notices {
            let message = Message::new(notice, sender.host(), now);
            match deliver(channel, sender, &message, waits).await {
                Ok(()) => {
                    tracing::info!(
                        channel = channel.name,
                        event = notice.event.name(),
                        alarms = notice.alarms.len(),
                        "a notification arrived"
                    );
                    notice.note(&mut records, now);
                }
                Err(trouble) => {
                    let (cause, next) = (trouble.cause, trouble.next);
                    tracing::warn!(channel = channel.name, cause, next, "a notification doesn't arrive");
                    failed = Some(rests.failed());
                    break;
                }
            }
        }
        store.keep(&channel.name, &records).await;
        match failed {
            Some(rest) => tokio::time::sleep(rest).await,
            None => {
                if !notices.is_empty() {
                    rests.worked();
                }
                tokio::select! {
                    changed = seen.changed() => if changed.is_err() { return },
                    () = until(wake) => {}
                }
            }
        }
    }
}

/// Sleeps until a moment of the wall clock, which may be set meanwhile: so it looks at the clock now and then.
async fn until(wake: Option<Moment>) {
    const LOOK: Duration = Duration::from_secs(600);
    let Some(wake) = wake else { return std::future::pending().await };
    loop {
        let left = wake.since(SystemClock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// Brings one message to a channel in a few attempts.
async fn deliver(channel: &Channel, sender: &Sender, message: &Message, mut waits: Backoff) -> Result<(), Trouble> {
    let mut attempt = 1;
    loop {
        let Err(trouble) = sender.send(channel, message).await else { return Ok(()) };
        tracing::debug!(channel = channel.name, attempt, cause = trouble.cause, "an attempt to notify failed");
        let wait = match trouble.again {
            Again::Later => return Err(trouble),
            _ if attempt >= ATTEMPTS => return Err(trouble),
            Again::Soon => waits.failed(),
            Again::After(asked) => asked.max(waits.failed()),
        };
        attempt += 1;
        tokio::time::sleep(wait).await;
    }
}

/// Sends one message to each channel, in one attempt and all at once, so that a person sees whether they work. The outcomes are
/// in the order of the channels.
pub async fn try_out(channels: &[Channel], sender: &Sender) -> Vec<Result<(), Failure>> {
    let message = Arc::new(Message::test(sender.host(), SystemClock.now()));
    let mut tasks = Vec::with_capacity(channels.len());
    for channel in channels {
        let (channel, sender, message) = (channel.clone(), sender.clone(), Arc::clone(&message));
        tasks.push(tokio::spawn(async move { sender.send(&channel, &message).await }));
    }
    let mut outcomes = Vec::with_capacity(channels.len());
    for (channel, task) in channels.iter().zip(tasks) {
        let ended = task.await.unwrap_or_else(|_| {
            Err(Trouble::new("the attempt ended by a defect", "report it, with the log", Again::Later))
        });
        outcomes.push(ended.map_err(|trouble| {
            Failure::new(Kind::Unavailable, "notify.failed", &channel.name, trouble.cause, trouble.next)
        }));
    }
    outcomes
}
