//! The loop of a follower: when it looks for the next objects, how long it waits, and which errors end it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use seawall_core::{Backoff, Shutdown};
use seawall_host::Subscription;
use seawall_ltx::Txid;
use tokio::time::{Instant, sleep};

use super::Setting;
use super::begin::{make, resume, tell};
use crate::error::Error;
use crate::jobs::blocking;
use crate::layout::{Layout, Level, file_key};
use crate::mark::{FollowRecord, Mark};
use crate::standby::Standby;
use crate::survey::newest_from;

/// How long the follower hears nothing before it asks the vault for other objects: the first and the longest time.
pub(super) const SILENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// How long to wait after trouble: from the first to the longest.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

pub(super) struct Follower<'a> {
    pub(super) setting: Setting<'a>,
    pub(super) output: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) record: FollowRecord,
    /// `None` after an error in the middle of a step. The file is opened again, and tells its position.
    pub(super) standby: Option<Standby>,
    pub(super) at: Mark,
    /// How many captures are asked for at once.
    pub(super) window: u64,
    /// When to list.
    pub(super) due: Instant,
    pub(super) silence: Duration,
    /// Whether to list all levels in the next step.
    pub(super) lost: bool,
    /// A capture was damaged. Other objects may lead past it.
    pub(super) distrust: bool,
    pub(super) behind: u32,
    pub(super) hints: Option<(Txid, Subscription)>,
    pub(super) steps: u64,
}

/// What to do after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// There may be more at once.
    Again,
    /// Wait for a hint or the end of the interval.
    Wait,
    /// The same again after a moment.
    Later,
}

impl<'a> Follower<'a> {
    pub(super) async fn start(setting: Setting<'a>, output: PathBuf, state_dir: PathBuf) -> Result<Self, Error> {
        let (folder, path) = (state_dir.clone(), output.clone());
        let (record, exists) = blocking(move || {
            let exists = fs::metadata(&path).is_ok_and(|found| found.len() > 0);
            Ok((FollowRecord::load(&folder)?, exists))
        })
        .await?;
        let record = record.filter(|record| record.is_of(setting.vault.url()));
        let found = match record {
            Some(record) if exists => resume(&output, record).await,
            _ => Err(Error::TargetExists {
                path: output.clone(),
                what: "the file exists, and it doesn't follow this vault",
            }),
        };
        let (record, standby, at) = match found {
            Ok(found) => found,
            Err(Error::Diverged { .. } | Error::TargetExists { .. }) if !exists || setting.request.force => {
                make(&setting, &output, &state_dir).await?
            }
            Err(error) => return Err(error),
        };
        tracing::info!(database = %output.display(), position = %at.point.position, moment = %at.point.moment, "following");
        let follower = Self {
            setting,
            output,
            state_dir,
            record,
            standby: Some(standby),
            at,
            window: 1,
            due: Instant::now() + SILENCE.0,
            silence: SILENCE.0,
            lost: true,
            distrust: false,
            behind: 0,
            hints: None,
            steps: 0,
        };
        tell(&follower.setting, &follower.output, &follower.at).await?;
        Ok(follower)
    }

    pub(super) async fn run(&mut self) -> Result<(), Error> {
        let shutdown = self.setting.shutdown;
        let (mut backoff, mut troubled) = (BACKOFF, false);
        while !shutdown.requested() {
            self.subscribe();
            let step = tokio::select! {
                step = self.step() => step,
                () = shutdown.immediate() => return Err(Error::Interrupted),
            };
            let wait = match step {
                Ok(then) => {
                    if std::mem::take(&mut troubled) {
                        tracing::info!(database = %self.output.display(), "following again");
                    }
                    backoff.worked();
                    match then {
                        Then::Again => continue,
                        Then::Wait => None,
                        Then::Later => Some(BACKOFF.first()),
                    }
                }
                Err(error) if ends(&error) => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut troubled, true) {
                        let failure = error.failure();
                        tracing::error!(database = %self.output.display(), code = failure.code, next = %failure.next, "{failure}");
                    }
                    self.lost = true;
                    Some(backoff.failed())
                }
            };
            let hints = self.hints.as_ref().map(|(_, hints)| hints).filter(|_| wait.is_none());
            let silence = self.due.saturating_duration_since(Instant::now());
            let evented = hints.is_some_and(Subscription::has_events);
            let most = wait.unwrap_or(if evented { silence } else { self.setting.request.interval });
            wait_for(most, hints, shutdown).await;
        }
        Ok(())
    }

    /// Watches for the next capture, in a vault that is a folder.
    fn subscribe(&mut self) {
        let (Some(watcher), Some(next)) = (&self.setting.world.watcher, self.next()) else { return };
        let Some(root) = self.setting.vault.folder().filter(|root| root.is_absolute()) else { return };
        if self.hints.as_ref().is_some_and(|(watched, hints)| *watched == next && hints.has_events()) {
            return;
        }
        let key = file_key(Layout::Files, Level::LOG, next, next);
        // Subscribe to the new name before the old subscription goes, so that the folder's watch stays.
        self.hints = Some((next, watcher.subscribe(&root.join(key.as_str()))));
    }

    pub(super) fn next(&self) -> Option<Txid> {
        self.at.txid().and_then(Txid::next)
    }

    /// Handles a look that found nothing. After a long silence, one listing tells whether nothing was written.
    pub(super) async fn notice_silence(&mut self) -> Result<Then, Error> {
        let (Some(at), true) = (self.at.txid(), Instant::now() >= self.due) else { return Ok(Then::Wait) };
        if newest_from(self.setting.vault, at).await? == Some(at) {
            self.silence = (self.silence * 2).min(SILENCE.1);
            self.due = Instant::now() + self.silence;
            return Ok(Then::Wait);
        }
        self.lost = true;
        Ok(Then::Again)
    }
}

/// Waits for `most`, for a hint or for the end.
async fn wait_for(most: Duration, hints: Option<&Subscription>, shutdown: &Shutdown) {
    let hint = async {
        match hints {
            Some(hints) => hints.changed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleep(most) => {}
        () = hint => {}
        () = shutdown.graceful() => {}
    }
}

/// Whether a person must act on the error.
fn ends(error: &Error) -> bool {
    error.is_final()
        || matches!(
            error,
            Error::Diverged { .. } | Error::WentBack { .. } | Error::Vanished { .. } | Error::Interrupted
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_following() {
        let path = PathBuf::from("x");
        assert!(ends(&Error::Diverged { path: path.clone() }));
        assert!(ends(&Error::Vanished { path: path.clone() }));
        assert!(!ends(&Error::NothingThere { vault: "v".into() }));
        assert!(!ends(&Error::Corrupt { object: "o".into(), what: "w".into() }));
    }
}
