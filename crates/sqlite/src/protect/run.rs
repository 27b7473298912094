//! A run of a protection, from its start to its stop.
//!
//! A run takes the locks and opens one session after the other. When a session ends, the run decides what follows:
//! another attempt, a wait for the database or the vault, another file that links lead to now, or the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::{Backoff, Failure, Phase, Point, Shutdown};
use seawall_host::links_on;
use tokio::time::{Instant, sleep};

use super::changes::SETTLE;
use crate::admission::Place;
use crate::database::{Asked, AskedForContent, Database, Placed};
use crate::error::Error;
use crate::files::is_there;
use crate::identity::Lineage;
use crate::jobs::blocking;
use crate::lock::{self, Locks};
use crate::session::{Patience, Session};
use crate::state::Record;

/// How long a vault may take to say whether it holds a database that isn't there.
const ASKED: Duration = Duration::from_secs(30);

/// When it is asked again if it didn't answer.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// How often a stop tries once more for a database that was missing and is there again.
const LAST_TRIES: u32 = 5;

/// How long a database waits for room before it looks whether the limit was raised.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(60);

/// How long to wait before a lost database is opened again: doubled from the first to the last.
const REOPEN: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

impl Database {
    pub(crate) async fn take_one_point(&self, shutdown: &Shutdown) -> Result<Point, Error> {
        let _locks = self.take_locks().await?;
        let mut session = Session::open(self, shutdown, Patience::Once).await?;
        session.drain().await?;
        if !session.is_untouched().await? {
            session.drain().await?;
        }
        session.note_rest_at_the_end().await;
        session.claim().await?;
        self.tell(Phase::Stopped, None, session.lineage()).await;
        if let Err(error) = session.record_doubts().await {
            tracing::warn!(database = %self.name(), "the doubt about moments could not be recorded: {error}");
        }
        // The point is durable. A failure of other work that is due must not make it a failure.
        let upkeep = self.maintenance.work_and_note().await;
        // A checkpoint meanwhile belongs into the record: the next process compares the file with it.
        let looked = session.is_untouched().await;
        if upkeep.is_err() || looked.is_ok() && !self.file_is_recorded() {
            self.tell(Phase::Stopped, None, session.lineage()).await;
        }
        if let Some(lost) = session.take_lost() {
            return Err(lost);
        }
        session.point().ok_or_else(|| Error::Internal("a point was shipped and not kept".to_owned()))
    }

    pub(crate) async fn protect(&self, shutdown: &Shutdown) -> Result<(), Error> {
        let mut backoff = REOPEN;
        loop {
            match Box::pin(self.protect_here(shutdown)).await {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Elsewhere) => tracing::warn!(database = %self.name(), "links lead to another file now"),
                // Resources that the rest of the process needs were released, also the locks. The databases must not
                // all come back at once.
                Err(error) if error.is_shortage() && !shutdown.requested() => {
                    Box::pin(self.tell_what_is_known(Phase::Failing, &error)).await;
                    let share = (self.random() >> 40) as u32;
                    let pause = backoff.failed().mul_f64(f64::from(share) / f64::from(1 << 24));
                    Box::pin(self.wait_for(shutdown, pause)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Protects the file that the database's name leads to now, for as long as it does.
    async fn protect_here(&self, shutdown: &Shutdown) -> Result<Ended, Error> {
        let _placed = Placed::settle(self)?;
        let _locks = self.take_locks().await?;
        let _room = Box::pin(self.find_room(shutdown)).await?;
        let _upkeep = self.maintenance.in_background();
        let (path, _) = self.place()?;
        let links = self.options.path.clone().map_or_else(Vec::new, |named| links_on(&named));
        let subscription = self.world.watcher.as_ref().map(|watcher| watcher.subscribe_with(&path, &links));
        let mut backoff = REOPEN;
        let (mut last_word, mut last_tries, mut held) = (Lineage::new(1), 0, None);
        // The last record of an earlier process is no longer true.
        self.tell(Phase::Starting, None, last_word).await;
        loop {
            let since = Instant::now();
            // Handed on by value a future takes its room twice.
            let session = Box::pin(self.session(shutdown, subscription.as_ref(), &mut last_word));
            let ended = self.in_time(shutdown, session).await;
            let error = match ended {
                Ok(()) => {
                    self.tell(Phase::Stopped, None, last_word).await;
                    return Ok(Ended::Stopped);
                }
                Err(error) => self.of_the_lost(error),
            };
            if !error.is_final() && self.leads_elsewhere(&path).await {
                self.tell(Phase::Failing, Some(&error), last_word).await;
                return Ok(Ended::Elsewhere);
            }
            if error.is_shortage() && !shutdown.requested() {
                return Err(error);
            }
            if error.is_absent() && shutdown.requested() && last_tries < LAST_TRIES && is_there(&path) {
                // The database came back while the run looked for it. Its content is shipped before the end.
                last_tries += 1;
                sleep(SETTLE).await;
                continue;
            }
            let lost = self.told().known.position.is_some();
            if error.is_absent() && shutdown.requested() && !lost {
                self.tell(Phase::Stopped, None, last_word).await;
                return Ok(Ended::Stopped);
            }
            let hopeless = matches!(error, Error::Vault(seawall_vault::Error::Missing { .. })) && self.is_new();
            if error.is_final() || hopeless || shutdown.requested() {
                self.tell(Phase::Halted, Some(&error), last_word).await;
                return Err(error);
            }
            if error.is_absent() {
                // Without a record the vault says whether it was there: the disk of both may not be mounted.
                if !lost && held.is_none() {
                    held = tokio::select! {
                        held = self.in_vault() => held,
                        () = shutdown.graceful() => None,
                    };
                }
                let is_gone = lost || held == Some(true);
                self.tell(Phase::Waiting, is_gone.then_some(&error), last_word).await;
                match is_gone {
                    true => {
                        tracing::warn!(database = %self.name(), vault = self.vault.url(), "it isn't there, and its vault holds backups of it: mount its disk, or restore it")
                    }
                    false => tracing::info!(database = %self.name(), "waiting for the database to be created"),
                }
                tokio::select! {
                    () = self.wait(shutdown, subscription.as_ref(), None) => {}
                    () = sleep(ASK_AGAIN), if !lost && held.is_none() => {}
                }
                continue;
            }
            self.tell(Phase::Failing, Some(&error), last_word).await;
            if since.elapsed() > REOPEN.longest() {
                backoff.worked();
            }
            self.wait_for(shutdown, backoff.failed()).await;
            if matches!(error, Error::GaveUp { .. }) {
                // The WAL is pinned again only once the vault answers.
                while !shutdown.requested() && !self.vault_answers().await {
                    self.wait_for(shutdown, REOPEN.longest()).await;
                }
            }
        }
    }

    /// Waits until the process may have the files open that this database takes. Until then the status says why it waits.
    ///
    /// A database that waits holds its locks, which takes no descriptors. Where locks take descriptors, no database waits.
    async fn find_room(&self, shutdown: &Shutdown) -> Result<Option<Place>, Error> {
        let locks = |locks: &Option<Locks>| locks.as_ref().is_some_and(Locks::are_free_of_descriptors);
        if !locks(&self.locks.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(None);
        }
        let mut told = false;
        loop {
            let left = self.admission().left();
            let full = match self.admission().place() {
                Ok(place) => return Ok(Some(place)),
                Err(full) => full,
            };
            let (path, _) = self.place()?;
            let error = Error::NoRoom { path, files: full.files, databases: full.databases };
            if shutdown.requested() {
                self.tell(Phase::Halted, Some(&error), Lineage::new(1)).await;
                return Err(error);
            }
            if !std::mem::replace(&mut told, true) {
                self.tell(Phase::Failing, Some(&error), Lineage::new(1)).await;
            }
            tokio::select! {
                () = left => {}
                () = sleep(LOOK_FOR_ROOM) => {}
                () = shutdown.graceful() => {}
            }
        }
    }

    /// Whether the vault holds backups of the database; `None` if it doesn't answer in time.
    async fn in_vault(&self) -> Option<bool> {
        tokio::time::timeout(ASKED, crate::survey::holds_any(&self.vault)).await.ok()?.ok()
    }

    async fn take_locks(&self) -> Result<LockGuard, Error> {
        let (path, state_dir) = self.place()?;
        let vault = self.vault.url().to_owned();
        let (locks, record) = blocking(move || {
            lock::private_dir(&state_dir)?;
            Ok((Locks::take(&path, &state_dir, &vault)?, Record::load(&state_dir)?))
        })
        .await?;
        self.remember(record);
        *self.locks.lock().unwrap_or_else(PoisonError::into_inner) = Some(locks);
        Ok(LockGuard { locks: self.locks.clone(), asked: self.asked.clone(), content: self.asked_for_content.clone() })
    }

    async fn vault_answers(&self) -> bool {
        if self.vault.enter().await.is_err() {
            return false;
        }
        match crate::survey::list(&self.vault).await {
            Ok(_) => true,
            // The refusal is an answer.
            Err(Error::Vault(seawall_vault::Error::Denied { .. })) => self.maintenance.is_blind(),
            Err(_) => false,
        }
    }

    /// Limits the time of work from the request for a graceful stop on, at any stage of the work (I7).
    async fn in_time(&self, shutdown: &Shutdown, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        let late = async {
            shutdown.graceful().await;
            sleep(self.options.shutdown_timeout).await;
        };
        tokio::select! {
            done = work => done,
            () = late => Err(Error::Interrupted),
        }
    }

    async fn wait_for(&self, shutdown: &Shutdown, duration: Duration) {
        tokio::select! {
            () = sleep(duration) => {}
            () = shutdown.graceful() => {}
        }
    }
}

/// Runs work until it ends, or until an immediate stop.
pub(crate) async fn unless_aborted<T>(
    shutdown: &Shutdown,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done.map_err(Failure::from),
        () = shutdown.immediate() => Err(Error::Interrupted.into()),
    }
}

/// How a stretch of protection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// A stop was requested, and everything is shipped.
    Stopped,
    /// The database's name leads to another file.
    Elsewhere,
}

/// Releases the locks when the protection ends in any way, and answers callers that still wait for a point.
struct LockGuard {
    locks: Arc<Mutex<Option<Locks>>>,
    asked: Arc<Mutex<Asked>>,
    content: Arc<Mutex<Vec<AskedForContent>>>,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.content.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use seawall_vault::Vault;

    use super::*;
    use crate::{Admission, Options, World};

    /// The open files of an idle protection, beside those of the database and the configuration.
    #[test]
    fn a_protection_is_small() {
        let vault = Vault::new(Arc::new(seawall_vault::memory::MemoryStore::default()), Default::default());
        let database = Database::new(vault, Options::default(), World::real(None, Admission::default()));
        let (shutdown, mut lineage) = (Shutdown::new(), Lineage::new(1));
        let task = size_of_val(&database.protect(&shutdown));
        let session = size_of_val(&database.session(&shutdown, None, &mut lineage));
        assert!(task + session <= 3072 && size_of::<Database>() <= 1024, "{task} {session} {}", size_of::<Database>());
    }
}
