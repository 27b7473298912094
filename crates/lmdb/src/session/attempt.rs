//! Runs the steps of a session: a failure is reported and followed by a wait, and work on the environment gets a thread.

use seawall_core::{Failure, Panicked, Shutdown};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{Session, before};
use crate::error::Error;
use crate::local::Local;
use crate::status::Doing;

impl Session {
    /// Runs a step. A failure is reported and followed by a wait; with `only_once` the failure ends the session.
    pub(super) async fn attempt<T>(
        &mut self,
        shutdown: &Shutdown,
        action: impl AsyncFnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Failure> {
        let failure = match action(self).await {
            Ok(value) => return Ok(Some(value)),
            Err(error @ (Error::Internal(_) | Error::TooLongAway { .. } | Error::NotTheSender { .. })) => {
                return Err(error.into());
            }
            Err(error) => error,
        };
        if !matches!(failure, Error::Vault(_)) {
            let now = (self.clock)();
            self.status.send_modify(|status| status.local.failed(now, failure.to_string()));
        }
        let failure = Failure::from(failure);
        let now = (self.clock)();
        self.status.send_modify(|status| {
            let count = status.failure.as_ref().map_or(0, |(_, _, count)| *count);
            status.failure = Some((failure.clone(), now, count + 1));
        });
        if self.options.only_once {
            return Err(failure);
        }
        let Failure { code, object, cause, next, .. } = &failure;
        tracing::warn!(database = self.options.author.database, code, object, cause, next, "trying again");
        tokio::select! {
            () = sleep(self.options.retry) => {}
            () = shutdown.graceful() => {}
        }
        Ok(None)
    }

    pub(super) fn take(&mut self) -> Result<Local, Error> {
        self.local.take().ok_or_else(|| Error::Internal("an earlier job has not given the environment back".to_owned()))
    }

    /// Sends a request to the vault, and records the result.
    pub(super) async fn asking<T>(
        &mut self,
        doing: Doing,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.status.send_modify(|status| status.doing = Some(doing));
        let result = work(self).await;
        let now = (self.clock)();
        // A failure's duration counts from the first attempt that failed.
        let since = self.vault.trouble().map_or(now, |trouble| before(now, trouble.lasts));
        self.status.send_modify(|status| {
            status.doing = None;
            let tried = match doing {
                Doing::Listing => &mut status.listing,
                Doing::Loading => &mut status.loading,
                Doing::Storing => &mut status.storing,
            };
            match &result {
                Ok(_) => tried.worked(now),
                Err(error @ Error::Vault(_)) => tried.failed(since, error.to_string()),
                // The vault isn't the cause.
                Err(_) => {}
            }
        });
        result
    }

    /// Runs work on the environment on a blocking thread.
    pub(super) async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Local) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut local = self.take()?;
        let done = spawn_blocking(move || {
            let result = work(&mut local);
            (local, result)
        });
        let (local, result) = done.await.map_err(Panicked::from)?;
        self.local = Some(local);
        result
    }
}
