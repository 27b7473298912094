//! The loop of one session: it waits for a change, lets commits collect, ships them, and answers requests.

use std::time::{Duration, SystemTime};

use seawall_core::Shutdown;
use seawall_host::{Glance, Subscription};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::database::Database;
use crate::error::Error;
use crate::identity::Lineage;
use crate::seal;
use crate::session::{BACKOFF, Looking, Patience, Session};
use crate::state::Position;

/// How long to let a burst of writes settle before looking: a commit is several writes.
pub(super) const SETTLE: Duration = Duration::from_millis(2);

/// While a change waits to be shipped: how often to check whether there is enough.
const GLANCE: Duration = Duration::from_millis(50);

/// Frames in the WAL that aren't published, with the place in the WAL and its last write.
#[derive(Debug, Default)]
struct Unpublished {
    place: Option<(Option<Position>, Option<SystemTime>)>,
    attempts: u32,
}

impl Unpublished {
    /// When to look again, if `place` is the same as at the last look. A new place is looked at soon.
    fn look_again(&mut self, place: (Option<Position>, Option<SystemTime>)) -> Option<Duration> {
        if self.place != Some(place) {
            *self = Self { place: Some(place), attempts: 0 };
        }
        look_again(self.attempts)
    }
}

/// When to look again at frames in the WAL that aren't published, after `attempts` without success.
///
/// A commit ends by publishing its frames in shared memory, which raises no event. A sync that may take long comes
/// before that. Frames of a killed writer are never published; they wait for the sweep.
fn look_again(attempts: u32) -> Option<Duration> {
    (attempts < 40).then(|| Duration::from_millis(5 << attempts.min(8)).min(Duration::from_secs(1)))
}

impl Database {
    pub(super) async fn session(
        &self,
        shutdown: &Shutdown,
        subscription: Option<&Subscription>,
        last_word: &mut Lineage,
    ) -> Result<(), Error> {
        // Large values are boxed and freed while the database is idle, because thousands of databases wait here.
        let mut session = Box::pin(Session::open(self, shutdown, Patience::Protecting)).await?;
        *last_word = session.lineage();
        let (mut unpublished, mut backoff) = (Unpublished::default(), BACKOFF);
        let mut done = Box::pin(session.drain()).await;
        loop {
            match done {
                Ok(()) if shutdown.requested() => match Box::pin(session.drain()).await {
                    Ok(()) if !session.is_untouched().await? => done = Ok(()),
                    Ok(()) => {
                        session.note_rest_at_the_end().await;
                        Box::pin(session.claim()).await?;
                        return Box::pin(session.look_at_the_end()).await;
                    }
                    failed => done = failed,
                },
                Ok(()) => {
                    backoff.worked();
                    done = self.next_change(shutdown, subscription, &mut session, &mut unpublished).await;
                }
                Err(error) => {
                    self.refuse(&error);
                    Box::pin(session.endure(error, &mut backoff)).await?;
                    done = Box::pin(session.recover()).await;
                }
            }
        }
    }

    /// Waits for a change or other work, and does it.
    async fn next_change(
        &self,
        shutdown: &Shutdown,
        subscription: Option<&Subscription>,
        session: &mut Session<'_>,
        unpublished: &mut Unpublished,
    ) -> Result<(), Error> {
        if !self.asked_for_content().is_empty() {
            Box::pin(session.show_content()).await?;
        }
        let wait = self.wait(shutdown, subscription, Some(session.glance()));
        let (behind, written) = Box::pin(session.glimpse()).await?;
        match unpublished.look_again((session.position(), written)) {
            Some(soon) if behind => {
                unpublished.attempts += 1;
                // The look comes now, whether the wait timed out or not.
                let _elapsed = timeout(soon, wait).await;
            }
            _ => {
                session.rest();
                wait.await;
            }
        }
        if !self.asked_for_content().is_empty() {
            return Ok(());
        }
        Box::pin(session.check_vault()).await?;
        let behind = Box::pin(session.is_behind(0)).await?;
        self.activity.set_behind(behind);
        if behind && self.asked().is_empty() {
            Box::pin(self.wait_until_due(shutdown, session)).await?;
        } else if !behind
            && self.asked().is_empty()
            && !session.look_is_due()
            && Box::pin(session.is_as_it_was()).await?
        {
            self.activity.skip();
            Box::pin(session.look_at_vault(Looking::WhenDue)).await?;
            Box::pin(session.keep_record()).await;
            return Ok(());
        }
        // Callers that ask during the round may have committed since. They are answered after the next round.
        let asked = self.asked().len();
        Box::pin(session.drain()).await?;
        self.activity.set_behind(false);
        if let Err(error) = session.claim().await {
            // The callers that asked are told the reason.
            self.refuse(&error);
            return Ok(());
        }
        // A client that asked may not wait any more.
        let waits = self.asked().iter().take(asked).any(|asked| !asked.is_closed());
        let looking = if waits { Looking::Now } else { Looking::WhenDue };
        match Box::pin(session.look_at_vault(looking)).await {
            // The newest state is in the vault, so this is no reason to release the WAL.
            Err(error @ (Error::Stray { .. } | Error::Lost { newest: false, .. })) => {
                self.refuse(&error);
                Box::pin(session.keep_record()).await;
                return Ok(());
            }
            looked => looked?,
        }
        Box::pin(session.keep_record()).await;
        let asked: Vec<_> = {
            let mut all = self.asked();
            let asked = asked.min(all.len());
            all.drain(..asked).collect()
        };
        for (asked, point) in asked.into_iter().zip(std::iter::repeat(session.point())) {
            let _gone = point.map(|point| asked.send(Ok(point)));
        }
        Ok(())
    }

    /// Waits for a hint, for the sweep (if `glance` finds something), for the next poll, or for the end.
    pub(super) async fn wait(&self, shutdown: &Shutdown, subscription: Option<&Subscription>, glance: Option<Glance>) {
        let polled = subscription.is_none_or(|subscription| !subscription.has_events());
        let changed = async {
            match (subscription, glance) {
                (Some(subscription), Some(glance)) => subscription.changed_unless_idle(glance).await,
                (Some(subscription), None) => subscription.changed().await,
                (None, _) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep(self.options.sync_interval), if polled => {}
            () = self.hurry.notified() => {}
            () = shutdown.graceful() => {}
        }
    }

    /// Lets commits collect until the next object is due, or there is much to ship.
    async fn wait_until_due(&self, shutdown: &Shutdown, session: &Session<'_>) -> Result<(), Error> {
        let now = Instant::now();
        let due = session.next_due().unwrap_or(now).max(now + SETTLE);
        // A fast writer would let the WAL grow without bound in a long interval.
        let much = seal::busy(self.options.wal_limit);
        while Instant::now() < due && !shutdown.requested() {
            tokio::select! {
                () = sleep_until(due.min(Instant::now() + GLANCE)) => {}
                () = self.hurry.notified() => return Ok(()),
                () = shutdown.graceful() => {}
            }
            session.step_inside().await;
            if session.is_behind(much).await? {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpublished_frames_are_looked_at_soon_and_not_for_ever() {
        let waits: Vec<_> = (0..).map_while(look_again).collect();
        assert_eq!(waits[0], Duration::from_millis(5));
        assert!(waits.is_sorted() && waits.iter().all(|wait| *wait <= Duration::from_secs(1)));
        let total: Duration = waits.iter().sum();
        assert!((30..60).contains(&total.as_secs()), "{total:?}");
    }
}
