//! Keeping one environment in step with the others of its vault: look, merge, send, wait.
//!
//! One future for each environment, and at most one piece of work at a time: its memory is that of one snapshot on its
//! way. What goes wrong with one snapshot or for a while is told and tried again; only a stop ends it. A crash at any
//! point leaves whole snapshots in the vault and merged versions in the environment: the next process begins by looking
//! at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_core::{Failure, Shutdown};
use seawall_vault::{ObjectKey, Prefix, Vault};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::Stamp;
use crate::error::Error;
use crate::known::Known;
use crate::latest::{Listed, newest, snapshots};
use crate::local::{Author, Loaded, Local};
use crate::snapshot::{GENERATION, SnapshotName};
use crate::transfer::{self, Part};

/// How an environment is kept in step.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// Who we are.
    pub author: Author,
    /// Merge only, and send nothing.
    pub receive_only: bool,
    /// End once everything that was there at the start is merged, and our own changes are sent.
    pub only_once: bool,
    /// How often the environment is looked at.
    pub poll: Duration,
    /// How often the vault is listed.
    pub list: Duration,
    /// How long to wait after something failed.
    pub retry: Duration,
    /// Send a snapshot after this time even if nothing changed.
    pub force: Option<Duration>,
    /// Forget old deletions.
    pub sweep: Option<Sweep>,
}

/// Forgetting old deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// How long a deletion is kept.
    pub retention: Duration,
    /// How often the environment is swept.
    pub interval: Duration,
    /// When that is done for the first time.
    pub first: Duration,
    /// Deletions of unknown keys that are older than this aren't taken from others. A little less than the retention, so that
    /// what was swept doesn't come back.
    pub taken: Duration,
}

impl SyncOptions {
    /// The usual options.
    pub fn new(author: Author) -> Self {
        Self {
            author,
            receive_only: false,
            only_once: false,
            poll: Duration::from_secs(1),
            list: Duration::from_secs(1),
            retry: Duration::from_secs(5),
            force: Some(Duration::from_secs(4 * 3600)),
            sweep: None,
        }
    }
}

/// Tells the time in nanoseconds.
pub type NanoClock = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// The machine's wall clock.
pub fn system_clock() -> NanoClock {
    Arc::new(|| {
        #[expect(clippy::disallowed_methods, reason = "this is the edge where wall time enters")]
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Stamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    })
}

/// What a session did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Snapshots that were merged.
    pub loaded: u64,
    /// Snapshots that were sent.
    pub sent: u64,
    /// Old deletions that were forgotten.
    pub swept: u64,
    /// Snapshots that were found damaged, with why.
    pub damaged: BTreeMap<String, String>,
}

/// One environment with its vault.
pub struct Session {
    /// `None` while a thread has it.
    local: Option<Local>,
    vault: Vault,
    options: SyncOptions,
    clock: NanoClock,
    report: Report,
    /// The last snapshot of each instance that was merged.
    merged: BTreeMap<String, String>,
    damaged: BTreeSet<String>,
    /// What needn't be read again.
    known: Known,
    /// Instances whose snapshots must be merged before the start is over.
    awaited: BTreeSet<String>,
    /// Whether a snapshot was taken that isn't in the vault.
    unsent: bool,
}

impl Session {
    /// A session for an environment that is open.
    pub fn new(local: Local, vault: Vault, options: SyncOptions, clock: NanoClock) -> Self {
        Self {
            local: Some(local),
            vault,
            options,
            clock,
            report: Report::default(),
            merged: BTreeMap::new(),
            damaged: BTreeSet::new(),
            known: Known::default(),
            awaited: BTreeSet::new(),
            unsent: false,
        }
    }

    /// What was done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The environment, while nothing is under way.
    pub fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    /// Keeps the environment in step until `shutdown`, or once. A graceful stop sends what is committed.
    ///
    /// # Errors
    /// With `only_once` what went wrong; else only a defect.
    pub async fn run(&mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        let mut listed = None;
        while listed.is_none() {
            listed = self.attempt(shutdown, Self::start).await?;
            if listed.is_none() && shutdown.requested() {
                return Ok(());
            }
        }
        let mut listed = listed.unwrap_or_default();
        let (mut seen, mut sent) = (Instant::now(), Instant::now());
        let mut sweep = self.options.sweep.map(|sweep| (sweep, Instant::now() + sweep.first));
        loop {
            if seen.elapsed() >= self.options.list {
                if let Some(fresh) = self.attempt(shutdown, Self::look).await? {
                    listed = fresh;
                }
                seen = Instant::now();
            }
            let loaded = self.attempt(shutdown, async |session: &mut Self| session.merge(&listed).await).await?;
            let forced = self.options.force.is_some_and(|force| sent.elapsed() >= force);
            let before = self.report.sent;
            let round = self.attempt(shutdown, async |session: &mut Self| session.send_if_needed(forced).await).await?;
            if self.report.sent > before {
                sent = Instant::now();
            }
            if let Some((sweep, due)) = &mut sweep
                && Instant::now() >= *due
            {
                let retention = sweep.retention;
                self.attempt(shutdown, async |session: &mut Self| session.sweep(retention).await).await?;
                *due = Instant::now() + sweep.interval;
            }
            let done = loaded.is_some() && round.is_some() && self.awaited.is_empty();
            if shutdown.requested() || self.options.only_once && done {
                return Ok(());
            }
            tokio::select! {
                () = sleep(self.options.poll) => {}
                // Once more round, so that what is committed is sent.
                () = shutdown.graceful() => {}
            }
        }
    }

    /// Does something. A failure is told and waited after; with `only_once` it is the end.
    async fn attempt<T>(
        &mut self,
        shutdown: &Shutdown,
        action: impl AsyncFnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Failure> {
        let failure = match action(self).await {
            Ok(value) => return Ok(Some(value)),
            Err(error @ Error::Internal(_)) => return Err(error.into()),
            Err(error) => Failure::from(error),
        };
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

    /// Looks at everything once: the vault, and what the application did while nobody watched.
    async fn start(&mut self) -> Result<Vec<Listed>, Error> {
        let listed = self.look().await?;
        self.awaited = listed.iter().map(|snapshot| snapshot.name.instance.clone()).collect();
        let now = (self.clock)();
        let empty = self
            .blocking(move |local| {
                let empty = local.is_empty()?;
                if !empty {
                    local.begin(now)?;
                }
                Ok(empty)
            })
            .await?;
        if !empty && listed.is_empty() && !self.options.receive_only {
            self.send().await?;
        }
        Ok(listed)
    }

    /// Lists the snapshots of this database.
    async fn look(&mut self) -> Result<Vec<Listed>, Error> {
        let prefix = SnapshotName::prefix(&self.options.author.database);
        // Everything that begins so comes behind this, and stands together.
        let after = ObjectKey::new(prefix.get(..prefix.len() - 1).unwrap_or_default())?;
        let mut entries = Box::pin(self.vault.entries(&Prefix::all(), Some(&after)));
        let mut names = Vec::new();
        while let Some(entry) = entries.try_next().await? {
            let name = entry.key.as_str();
            if name.starts_with(&prefix) {
                names.push((name.to_owned(), entry.size));
            } else if name > prefix.as_str() {
                break;
            }
        }
        let objects = names.iter().map(|(name, bytes)| (name.as_str(), *bytes));
        let listed = snapshots(&self.options.author.database, objects);
        self.damaged.retain(|key| names.iter().any(|(name, _)| name == key));
        Ok(listed)
    }

    /// Merges what is newer than what was merged. Our own snapshots only at the start: a copy of the environment from
    /// before them may have been put back.
    async fn merge(&mut self, listed: &[Listed]) -> Result<(), Error> {
        loop {
            let newest = newest(listed, &self.damaged);
            self.awaited.retain(|instance| newest.contains_key(instance));
            let own = self.options.author.instance.clone();
            let awaited = &self.awaited;
            let mut due = newest.into_values().filter(|snapshot| {
                let instance = &snapshot.name.instance;
                self.merged.get(instance) != Some(&snapshot.key) && (*instance != own || awaited.contains(&own))
            });
            let Some(next) = due.next() else { return Ok(()) };
            drop(due);
            match self.load(&next).await {
                Err(Error::Vault(error)) if error.is_not_found() => {
                    // Cleaned in between: the next listing won't have it.
                    self.awaited.remove(&next.name.instance);
                    return Ok(());
                }
                Err(error) if error.is_bad_snapshot() => {
                    tracing::warn!(object = next.key, %error, "the snapshot is left out; the one before it serves");
                    self.report.damaged.insert(next.key.clone(), error.to_string());
                    self.damaged.insert(next.key);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.awaited.remove(&next.name.instance);
                    self.merged.insert(next.name.instance, next.key);
                    self.report.loaded += 1;
                }
            }
        }
    }

    /// Merges a snapshot: only the pieces of it that aren't merged yet, where it says what they are.
    async fn load(&mut self, snapshot: &Listed) -> Result<(), Error> {
        let key = ObjectKey::new(&snapshot.key)?;
        if self.options.receive_only && !self.blocking(|local| local.is_undisturbed()).await? {
            // Who sends learns from that what changed here.
            self.known.clear();
        }
        let index = transfer::index(&self.vault, &key, snapshot.bytes).await?;
        let parts = index.as_ref().and_then(|index| self.known.needed(index));
        let loaded = match parts {
            None => self.load_parts(&key, vec![Part::Whole]).await?,
            Some(parts) => match self.load_parts(&key, parts).await {
                Err(error) if error.is_bad_snapshot() => {
                    tracing::warn!(object = snapshot.key, %error, "its index doesn't fit it; all of it is read");
                    self.load_parts(&key, vec![Part::Whole]).await?
                }
                loaded => loaded?,
            },
        };
        if let Some(index) = index {
            self.known.merged(&snapshot.name.instance, index);
        }
        tracing::debug!(object = snapshot.key, read = loaded.entries, changed = loaded.applied.entries, "merged");
        Ok(())
    }

    async fn load_parts(&mut self, key: &ObjectKey, parts: Vec<Part>) -> Result<Loaded, Error> {
        let (object, now) = (self.vault.object(key), (self.clock)());
        let cutoff = self.options.sweep.map_or(Stamp(0), |sweep| before(now, sweep.taken));
        let mut local = self.take()?;
        let read = transfer::read(&self.vault, key, parts, move |source| {
            let loaded = local.load(&object, source, cutoff, now);
            (local, loaded)
        });
        let (local, loaded) = read.await?;
        self.local = Some(local);
        loaded
    }

    /// Forgets old deletions.
    async fn sweep(&mut self, retention: Duration) -> Result<(), Error> {
        let cutoff = before((self.clock)(), retention);
        let swept = self.blocking(move |local| local.sweep(cutoff)).await?;
        self.report.swept += swept.applied.entries;
        tracing::debug!(entries = swept.entries, deleted = swept.deleted, forgotten = swept.applied.entries, "swept");
        Ok(())
    }

    async fn send_if_needed(&mut self, forced: bool) -> Result<(), Error> {
        let pending = self.unsent || forced || self.blocking(|local| local.is_pending()).await?;
        let own = &self.options.author.instance;
        if !pending || self.options.receive_only || self.awaited.contains(own) {
            return Ok(());
        }
        if self.blocking(|local| local.is_empty()).await? {
            return Ok(());
        }
        self.send().await
    }

    /// Takes a snapshot and puts it into the vault.
    async fn send(&mut self) -> Result<(), Error> {
        // Until it is there, what it holds counts as not sent.
        self.unsent = true;
        let (author, clock) = (self.options.author.clone(), Arc::clone(&self.clock));
        let taken = self.blocking(move |local| {
            let folder = local.folder().to_owned();
            let dumped = local.snapshot(&author, &*clock)?;
            let (file, stretches) = (Arc::clone(&dumped.file), dumped.stretches.clone());
            Ok((dumped.stamp, dumped.bytes, file, stretches, dumped.index.clone(), folder))
        });
        let (stamp, bytes, file, stretches, index, folder) = taken.await?;
        self.known.taken(index);
        let name = SnapshotName {
            database: self.options.author.database.clone(),
            instance: self.options.author.instance.clone(),
            stamp,
            generation: GENERATION.to_owned(),
            extra: Vec::new(),
        };
        let key = ObjectKey::new(name.to_string())?;
        transfer::upload(&self.vault, &key, &file, &stretches, &folder).await?;
        self.unsent = false;
        self.report.sent += 1;
        tracing::info!(object = key.as_str(), bytes, "sent a snapshot");
        Ok(())
    }

    fn take(&mut self) -> Result<Local, Error> {
        self.local.take().ok_or_else(|| Error::Internal("an earlier job has not given the environment back".to_owned()))
    }

    /// Does something with the environment on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Local) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut local = self.take()?;
        let done = spawn_blocking(move || {
            let result = work(&mut local);
            (local, result)
        });
        let (local, result) =
            done.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))?;
        self.local = Some(local);
        result
    }
}

/// The moment `span` before another.
fn before(now: Stamp, span: Duration) -> Stamp {
    Stamp(now.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
