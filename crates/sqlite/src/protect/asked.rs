//! Requests to ship now (`sync`): each waits for the point, or for the reason why there is none.

use std::sync::{MutexGuard, PoisonError};

use seawall_core::{Failure, Kind, Point};
use tokio::sync::oneshot;

use crate::database::{Asked, Database};
use crate::error::{Error, SEVERAL_NAMES};

impl Database {
    /// Asks the protection that is running to ship now, and waits for the point.
    pub(crate) async fn sync(&self) -> Result<Point, Failure> {
        let (tell, told) = oneshot::channel();
        {
            let running = self.locks.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if !running {
                return Err(self.not_running());
            }
            self.asked().push(tell);
        }
        self.hurry.notify_one();
        told.await.unwrap_or_else(|_| match self.several_names() {
            Some(error) => Err(error.failure()),
            None => Err(self.not_running()),
        })
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who wait for a point why there is none.
    pub(super) fn refuse(&self, error: &Error) {
        for asked in std::mem::take(&mut *self.asked()) {
            let _gone = asked.send(Err(error.failure()));
        }
    }

    /// The error that the file has other names, if that was told last.
    fn several_names(&self) -> Option<Error> {
        let told = self.told().error.as_ref().is_some_and(|error| error.code == SEVERAL_NAMES);
        let (path, _) = self.place().ok().filter(|_| told)?;
        Some(Error::SeveralNames { path, what: "the file has other names".to_owned() })
    }

    fn not_running(&self) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "sqlite.not-running",
            self.name(),
            "the protection isn't running, or was interrupted while it shipped",
            "start it, or ask again; `seawall status` says what is wrong",
        )
    }
}
