//! Turns: when several processes are to protect one database in one place, the process that has the lease does, and the
//! others wait.
//!
//! Turns are for rolling deployments. The old process ships everything and gives the lease back, or it dies and its
//! lease runs out. Only then the new process restores, protects, and starts the application.
//!
//! The lease decides *beforehand* which process writes. It isn't what keeps the histories of two writers apart,
//! whatever clocks, pauses and networks do: create-only objects do that (I9). So a holder that can't reach the vault to
//! renew its lease goes on, because no other process can take the lease there either. A holder that finds another
//! process's lease in the vault stops at once.

mod decide;
mod object;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{
    Clock as _, Contents, Description, Digests, Engine, Failure, Figures, Files, History, LastError, Locks, Maintain,
    Moment, Phase, Pins, Point, Progress, Protect, Prove, RestoreRequest, Restored, Rollback, Shutdown, Standby,
    Status, SystemClock, Timeline, Verification, When,
};
use seawall_engines::ask;
use seawall_vault::Vault;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use object::Lease;
pub(crate) use object::Terms;

use crate::process::defect;

/// The longest wait before a failed renewal is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long giving the lease back may take. A waiting process gets the lease anyway once it has run out.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// An engine that works only while this process has the lease.
pub(crate) struct Leased {
    engine: Arc<dyn Engine>,
    vault: Vault,
    terms: Terms,
    /// One claim at a time.
    holding: tokio::sync::Mutex<Option<Holding>>,
    /// Set while this process waits for the lease: which process has it.
    waiting: Mutex<Option<LastError>>,
}

/// A lease that is being renewed.
struct Holding {
    keep: JoinHandle<Lease>,
    stop: CancellationToken,
    lost: CancellationToken,
}

impl Leased {
    /// Lets `engine`, which writes to `vault`, take turns on these terms.
    pub(crate) fn new(engine: Arc<dyn Engine>, vault: Vault, terms: Terms) -> Self {
        Self { engine, vault, terms, holding: Default::default(), waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<LastError>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine's status. While another process has the lease, the status says so; an engine that never ran has no
    /// status of its own.
    fn in_turn(&self, status: Result<Status, Failure>) -> Result<Status, Failure> {
        let Some(error) = self.waiting().clone() else { return status };
        let status = status.unwrap_or_else(|_| Status::new(self.describe(), Phase::Starting, SystemClock.now()));
        Ok(Status { phase: Phase::Starting, error: Some(error), ..status })
    }

    /// Waits for the lease, and keeps it renewed from then on. The returned token is cancelled when the lease is lost.
    async fn claim(&self) -> Result<CancellationToken, Failure> {
        let mut holding = self.holding.lock().await;
        if let Some(holding) = holding.as_ref().filter(|holding| !holding.lost.is_cancelled()) {
            return Ok(holding.lost.clone());
        }
        object::check(&self.vault).await?;
        let name = self.describe().name;
        let told = |failure: Failure| {
            tracing::info!(database = name, code = failure.code, "waiting for the lease: {failure}");
            let error = LastError::new(&failure, SystemClock.now());
            *self.waiting() = Some(LastError { message: failure.to_string(), ..error });
        };
        let lease = Lease::take(&self.vault, &self.terms, told).await;
        *self.waiting() = None;
        let lease = lease?;
        tracing::info!(database = name, owner = self.terms.owner, "has the lease");
        let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
        let keep = tokio::spawn(keep(lease, name, stop.clone(), lost.clone()));
        *holding = Some(Holding { keep, stop, lost: lost.clone() });
        Ok(lost)
    }

    /// Gives the lease back, so that the next process gets it at once.
    async fn give_back(&self) {
        let Some(Holding { keep, stop, lost }) = self.holding.lock().await.take() else { return };
        stop.cancel();
        let Ok(lease) = keep.await else { return };
        if lost.is_cancelled() {
            return;
        }
        match tokio::time::timeout(GIVING_BACK, lease.give_back()).await {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => tracing::warn!(code = failure.code, "the lease is not given back: {failure}"),
            Err(_) => tracing::warn!("the lease is not given back in time; it ends by itself"),
        }
    }
}

/// A process whose restore failed doesn't protect the database: its lease ends by itself, and another process may try.
impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(holding) = self.holding.get_mut().take() {
            holding.keep.abort();
        }
    }
}

/// Renews a lease until it is stopped or lost.
async fn keep(mut lease: Lease, name: String, stop: CancellationToken, lost: CancellationToken) -> Lease {
    let mut wait = lease.renewal();
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return lease,
        }
        wait = match lease.renew().await {
            Ok(true) => lease.renewal(),
            Ok(false) => {
                lost.cancel();
                return lease;
            }
            Err(failure) => {
                tracing::warn!(database = name, code = failure.code, "the lease is not renewed: {failure}");
                lease.renewal().min(AGAIN)
            }
        };
    }
}

#[async_trait]
impl Engine for Leased {
    fn describe(&self) -> Description {
        self.engine.describe()
    }

    fn figures(&self) -> Figures {
        self.engine.figures()
    }

    async fn status(&self) -> Result<Status, Failure> {
        self.in_turn(self.engine.status().await)
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        self.in_turn(self.engine.known_status().await)
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

    fn proofs(&self) -> Option<&dyn Prove> {
        self.engine.proofs()
    }
}

#[async_trait]
impl Protect for Leased {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let lost = tokio::select! {
            claimed = self.claim() => claimed?,
            () = shutdown.graceful() => {
                *self.waiting() = None;
                return Ok(());
            }
        };
        let turn = shutdown.child();
        let protection = ask::protection(&*self.engine)?;
        let ended = tokio::select! {
            ended = protection.run(&turn) => ended,
            () = lost.cancelled() => {
                turn.abort();
                let Some(Holding { keep, .. }) = self.holding.lock().await.take() else { return Ok(()) };
                return Err(keep.await.map_or_else(|_| defect(&self.describe().name), |lease| lease.lost()));
            }
        };
        self.give_back().await;
        ended
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        // A command that takes a single point waits for the lease only for a bounded time.
        let claimed = tokio::time::timeout(self.terms.ttl * 2, self.claim()).await;
        let waiting = self.waiting().take();
        match claimed {
            Ok(claimed) => drop(claimed?),
            Err(_) => {
                let cause = waiting.map_or_else(|| "it is away".to_owned(), |last| last.message);
                let next = "stop the other process, or let it take the point (`seawall sync`)";
                let (kind, object) = (seawall_core::Kind::Refused, self.vault.url());
                return Err(Failure::new(kind, "agent.lease-held", object, cause, next));
            }
        }
        let point = ask::protection(&*self.engine)?.take_point(shutdown).await;
        self.give_back().await;
        point
    }

    async fn sync(&self) -> Result<Point, Failure> {
        ask::protection(&*self.engine)?.sync().await
    }

    async fn record_content(&self) -> Result<Option<Point>, Failure> {
        ask::protection(&*self.engine)?.record_content().await
    }

    fn hurry(&self) {
        if let Some(protection) = self.engine.protection() {
            protection.hurry();
        }
    }
}

#[async_trait]
impl History for Leased {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        self.engine.history().timeline().await
    }

    async fn contents(&self, when: &When) -> Result<Contents, Failure> {
        self.engine.history().contents(when).await
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        self.engine.history().verify(progress).await
    }

    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        self.engine.history().locks().await
    }

    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        self.engine.history().renew_locks().await
    }

    fn digests(&self) -> Option<&dyn Digests> {
        self.engine.history().digests()
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        self.engine.history().maintenance()
    }

    fn pins(&self) -> Option<&dyn Pins> {
        self.engine.history().pins()
    }
}

#[async_trait]
impl Files for Leased {
    /// Waits for the lease. `run` takes the lease over.
    async fn turn(&self) -> Result<(), Failure> {
        self.claim().await.map(drop)
    }

    /// Waits for the lease first, so that everything that the holder before ships is restored too.
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        if !request.dry_run {
            self.turn().await?;
        }
        ask::files(&*self.engine)?.restore(request, progress).await
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        self.engine.files()?.rollback()
    }

    fn standby(&self) -> Option<&dyn Standby> {
        self.engine.files()?.standby()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
