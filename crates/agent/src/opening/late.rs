//! A database whose vault could not be opened yet, because something is away: opened again until it can be.
//!
//! Opening a vault makes no request, but where the region of a bucket must be asked for. A host that starts before its
//! network does must not go unprotected until a person restarts the process.
//!
//! Before the engine is open, the abilities that only some engines have are unknown, and their accessors return `None`.
//! Commands that use these abilities open a vault themselves and never get a late engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{
    Backoff, Clock as _, Contents, Description, Digests, Engine, Failure, Figures, Files, History, LastError, Locks,
    Maintain, Moment, Phase, Pins, Point, Progress, Protect, RestoreRequest, Restored, Rollback, Shutdown, Standby,
    Status, SystemClock, Timeline, Verification, When,
};
use seawall_engines::ask;
use tokio::sync::OnceCell;

/// How long to wait before the next attempt: doubled from the first to the last.
const WAIT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Opens an engine.
#[async_trait]
pub(crate) trait Open: Send + Sync {
    /// One attempt.
    async fn open(&self) -> Result<Arc<dyn Engine>, Failure>;
}

/// An engine that is opened when it is first needed.
pub(crate) struct Late<O> {
    open: O,
    description: Description,
    engine: OnceCell<Arc<dyn Engine>>,
    error: Mutex<Option<LastError>>,
}

impl<O: Open> Late<O> {
    /// An engine that `open` will give, and that calls itself `description` until then.
    pub(crate) fn new(open: O, description: Description) -> Self {
        Self { open, description, engine: OnceCell::new(), error: Mutex::default() }
    }

    async fn engine(&self) -> Result<&Arc<dyn Engine>, Failure> {
        let opened = self.engine.get_or_try_init(|| self.open.open()).await;
        if let Err(failure) = &opened {
            let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            let count = error.as_ref().map_or(0, |last| last.count);
            *error = Some(LastError { count: count + 1, ..LastError::new(failure, SystemClock.now()) });
        }
        opened
    }

    /// Tries until it is open, until the failure is one that time won't cure, or until a stop is asked for.
    async fn engine_in_time(&self, shutdown: &Shutdown) -> Result<&Arc<dyn Engine>, Failure> {
        let mut backoff = WAIT;
        loop {
            let failure = match self.engine().await {
                Ok(engine) => return Ok(engine),
                Err(failure) => failure,
            };
            if !failure.kind.may_pass() || shutdown.requested() {
                return Err(failure);
            }
            tracing::warn!(database = self.description.name, code = failure.code, "{failure}; trying again");
            tokio::select! {
                () = tokio::time::sleep(backoff.failed()) => {}
                () = shutdown.graceful() => return Err(failure),
            }
        }
    }
}

#[async_trait]
impl<O: Open> Engine for Late<O> {
    fn describe(&self) -> Description {
        self.engine.get().map_or_else(|| self.description.clone(), |engine| engine.describe())
    }

    async fn status(&self) -> Result<Status, Failure> {
        if let Some(engine) = self.engine.get() {
            return engine.status().await;
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Status { error, ..Status::new(self.description.clone(), Phase::Failing, SystemClock.now()) })
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        match self.engine.get() {
            Some(engine) => engine.known_status().await,
            None => self.status().await,
        }
    }

    fn figures(&self) -> Figures {
        self.engine.get().map(|engine| engine.figures()).unwrap_or_default()
    }

    fn protection(&self) -> Option<&dyn Protect> {
        Some(self)
    }

    fn history(&self) -> &dyn History {
        self
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl<O: Open> Protect for Late<O> {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        ask::protection(&**self.engine_in_time(shutdown).await?)?.run(shutdown).await
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        ask::protection(&**self.engine().await?)?.take_point(shutdown).await
    }

    async fn sync(&self) -> Result<Point, Failure> {
        ask::protection(&**self.engine().await?)?.sync().await
    }

    async fn record_content(&self) -> Result<Option<Point>, Failure> {
        ask::protection(&**self.engine().await?)?.record_content().await
    }

    fn hurry(&self) {
        if let Some(protection) = self.engine.get().and_then(|engine| engine.protection()) {
            protection.hurry();
        }
    }
}

#[async_trait]
impl<O: Open> History for Late<O> {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        self.engine().await?.history().timeline().await
    }

    async fn contents(&self, when: &When) -> Result<Contents, Failure> {
        self.engine().await?.history().contents(when).await
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        self.engine().await?.history().verify(progress).await
    }

    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        self.engine().await?.history().locks().await
    }

    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        self.engine().await?.history().renew_locks().await
    }

    fn digests(&self) -> Option<&dyn Digests> {
        self.engine.get()?.history().digests()
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        self.engine.get()?.history().maintenance()
    }

    fn pins(&self) -> Option<&dyn Pins> {
        self.engine.get()?.history().pins()
    }
}

#[async_trait]
impl<O: Open> Files for Late<O> {
    async fn turn(&self) -> Result<(), Failure> {
        ask::files(&**self.engine().await?)?.turn().await
    }

    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        ask::files(&**self.engine().await?)?.restore(request, progress).await
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        self.engine.get()?.files()?.rollback()
    }

    fn standby(&self) -> Option<&dyn Standby> {
        self.engine.get()?.files()?.standby()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use seawall_core::Kind;

    use super::*;
    use crate::testing::{Act, Stub};

    /// Fails `failures` times with `kind`, then gives an engine.
    struct Flaky {
        failures: u32,
        kind: Kind,
        attempts: AtomicU32,
    }

    #[async_trait]
    impl Open for Flaky {
        async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
            if self.attempts.fetch_add(1, Ordering::Relaxed) < self.failures {
                return Err(Failure::new(self.kind, "stub.away", "s3://bucket", "it is away", "wait"));
            }
            Ok(Arc::new(Stub::new("app", Act::Work)))
        }
    }

    fn late(failures: u32, kind: Kind) -> Late<Flaky> {
        let description = Description { name: "app".into(), engine: "stub", source: None, vault: "s3://bucket".into() };
        Late::new(Flaky { failures, kind, attempts: AtomicU32::new(0) }, description)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_opened_again_until_it_can_be() {
        let late = late(9, Kind::Unavailable);
        let shutdown = Shutdown::new();
        let run = late.run(&shutdown);
        tokio::pin!(run);
        assert!(tokio::time::timeout(Duration::from_secs(30), &mut run).await.is_err());
        let status = late.status().await.expect("a status");
        assert_eq!((status.phase, status.error.map(|error| error.code)), (Phase::Failing, Some("stub.away".into())));
        assert!(tokio::time::timeout(Duration::from_secs(600), &mut run).await.is_err());
        assert_eq!(late.status().await.expect("a status").phase, Phase::Protecting);
        shutdown.begin();
        assert_eq!(run.await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_time_does_not_cure_is_told_at_once() {
        let result = late(9, Kind::Denied).run(&Shutdown::new()).await;
        assert_eq!(result.map_err(|failure| failure.code), Err("stub.away"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_waiting() {
        let (late, shutdown) = (late(u32::MAX, Kind::Unavailable), Shutdown::new());
        let run = late.run(&shutdown);
        tokio::pin!(run);
        assert!(tokio::time::timeout(Duration::from_secs(5), &mut run).await.is_err());
        shutdown.begin();
        assert_eq!(run.await.map_err(|failure| failure.code), Err("stub.away"));
    }
}
