//! Requests to ship now (`sync`): each waits for the point, or for the reason why there is none.

use std::sync::{MutexGuard, PoisonError};

use seawall_core::{Failure, Kind};

use crate::database::{Asked, Sqlite};
use crate::error::{Error, SEVERAL_NAMES};

impl Sqlite {
    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who wait for a point why there is none.
    pub(super) fn refuse(&self, error: &Error) {
        for asked in std::mem::take(&mut *self.asked()) {
            let _gone = asked.send(Err(error.failure()));
        }
    }

    /// The error that the file has other names, if that was told last.
    pub(crate) fn several_names(&self) -> Option<Error> {
        let told = self.told().error.as_ref().is_some_and(|error| error.code == SEVERAL_NAMES);
        let (path, _) = self.place().ok().filter(|_| told)?;
        Some(Error::SeveralNames { path, what: "the file has other names".to_owned() })
    }

    pub(crate) fn not_running(&self) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "sqlite.not-running",
            self.name(),
            "the protection isn't running, or was interrupted while it shipped",
            "start it, or ask again; `seawall status` says what is wrong",
        )
    }
}
