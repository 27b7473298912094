//! Requests to ship now (`sync`): each waits for the point, or for the reason why there is none.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Failure, Kind, Point};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::database::{Asked, Database};
use crate::error::{DELETED_WAL, Error, SEVERAL_NAMES};

/// How long a protection that was just started may take to have its locks.
const BEGINNING: Duration = Duration::from_secs(2);

/// The time between two looks whether it has its locks.
const LOOK: Duration = Duration::from_millis(10);

impl Database {
    /// Asks the protection that is running to ship now, and waits for the point.
    pub(crate) async fn sync(&self) -> Result<Point, Failure> {
        self.ask(Self::asked).await?.await.unwrap_or_else(|_| match self.unseen_writers() {
            Some(error) => Err(error.failure()),
            None => Err(self.not_running()),
        })
    }

    /// Hands a request to the protection as soon as it runs, and wakes it. A protection that ends answers all requests in its `queue`.
    pub(super) async fn ask<T>(
        &self,
        queue: impl Fn(&Self) -> MutexGuard<'_, Vec<oneshot::Sender<T>>>,
    ) -> Result<oneshot::Receiver<T>, Failure> {
        let (tell, told) = oneshot::channel();
        let (began, mut tell) = (Instant::now(), Some(tell));
        let mut hand = || {
            let running = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if running.is_some() {
                queue(self).extend(tell.take());
            }
            running.is_some()
        };
        while !hand() {
            if began.elapsed() >= BEGINNING {
                return Err(self.not_running());
            }
            sleep(LOOK).await;
        }
        self.hurry.notify_one();
        Ok(told)
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the callers that wait for a point why there is none.
    pub(super) fn refuse(&self, error: &Error) {
        for asked in std::mem::take(&mut *self.asked()) {
            let _gone = asked.send(Err(error.failure()));
        }
        for asked in std::mem::take(&mut *self.asked_for_content()) {
            let _gone = asked.send(Err(error.failure()));
        }
    }

    /// The error that unseen programs may write, if it was the last one reported.
    fn unseen_writers(&self) -> Option<Error> {
        let code = self.told().error.as_ref().map(|error| error.code.clone())?;
        let (path, _) = self.place().ok()?;
        match &*code {
            SEVERAL_NAMES => Some(Error::SeveralNames { path, what: "the file has other names".to_owned() }),
            DELETED_WAL => Some(Error::DeletedWal { path }),
            _ => None,
        }
    }

    pub(super) fn not_running(&self) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "sqlite.not-running",
            self.name(),
            "the protection isn't running, or was interrupted while it shipped",
            "start it, or ask again; `seawall status` says what is wrong",
        )
    }
}
