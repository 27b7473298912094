//! Follows the data file's name to the file that has it now, and finds out whether commits raise events.

use seawall_core::Failure;
use tokio::time::Instant;

use super::{Listing, Session, Woken, rest};
use crate::error::Error;
use crate::local::Local;
use crate::local::standing::Standing;

impl Session {
    /// Checks that the open data file is still the file with its name. If another file replaced it, the session opens
    /// the new file and looks at everything again, as a new process would.
    pub(super) async fn stay(&mut self, woken: Woken) -> Result<(), Error> {
        let look = self.blocking(Local::look).await?;
        let path = || self.local.as_ref().map(|local| local.data().to_owned()).unwrap_or_default();
        let what = match look.standing {
            Standing::Same => return self.listen(look.last, woken).await,
            Standing::Unlocked => {
                // While the lock files differed, one process may have overwritten transactions of another. So the
                // session looks at everything again.
                tracing::warn!(
                    path = %path().display(),
                    "the environment's lock file was removed or replaced; using the lock file that is at its path now"
                );
                self.forget();
                self.blocking(Local::open_beside).await?;
                return self.blocking(Local::open_again).await;
            }
            Standing::Gone => return Err(Error::Gone { path: path() }),
            Standing::Replaced => "another data file took its place",
            Standing::Rewound => "older content was written over it",
        };
        if std::mem::take(&mut self.started) {
            let failure = Failure::from(Error::Replaced { path: path(), what });
            let Failure { code, object, cause, next, .. } = &failure;
            tracing::error!(
                database = self.options.author.database,
                code,
                object,
                cause,
                next,
                "going on with the new file"
            );
            let now = (self.clock)();
            self.status.send_modify(|status| {
                status.replaced += 1;
                status.local.failed(now, failure.to_string());
                status.failure = Some((failure, now, 1));
            });
            self.forget();
        }
        self.blocking(Local::open_again).await
    }

    /// Finds out whether commits raise events. A commit without an event, or a process that writes through memory,
    /// shows that they don't.
    async fn listen(&mut self, last: u64, woken: Woken) -> Result<(), Error> {
        let (before, checked) = self.rested;
        if self.started && woken == Woken::ByTime && last > before && self.hints.tells_of_commits() {
            tracing::info!(database = self.options.author.database, "a commit raised no event: polling from now on");
            self.hints.missed_a_commit();
        }
        if self.options.watcher.is_some() && checked.is_none_or(|at| at.elapsed() >= rest::SWEEP) {
            let silent = self.blocking(|local| Ok(local.has_silent_writers())).await?;
            self.hints.has_silent_writers(silent);
            self.rested.1 = Some(Instant::now());
        }
        Ok(())
    }

    /// Forgets everything that the session knew about the environment.
    fn forget(&mut self) {
        self.merged.clear();
        self.damaged.clear();
        self.ours.clear();
        self.known.clear();
        self.awaited.clear();
        self.incorporated.clear();
        (self.unsent, self.sent_at, self.held_until, self.told) = (false, None, None, None);
        (self.listing, self.listed, self.rested) = (Listing::default(), None, (0, None));
    }
}
