//! Carries out the decisions of `compaction` and `retention`. It runs beside captures and never delays them.
//!
//! While there will be work, a task waits for it. A database whose vault is in order has no task and no timer, and
//! makes no requests (I6). Only a few databases of a process work at a time (`turns`). A crash leaves whole objects:
//! the next listing finds merged objects, and deletions are made up for later. After any failure the vault is listed
//! again, because another process may have changed it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_core::{Backoff, MadeObject, Maintained, Moment, PlannedObject};
use seawall_ltx::Header;
use tokio::time::sleep;

use crate::belonging::Facts;
use crate::catalog::{Catalog, Dated};
use crate::compaction;
use crate::error::Error;
use crate::known::{Depth, Maintenance, State};
use crate::layout::{Layout, Level, Stored};
use crate::marks;
use crate::missing;
use crate::retention;
use crate::survey::list_dated;
use crate::told::once_more;

/// The wait before a failed job is retried: doubled from the first to the longest.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(3600));

/// The longest sleep, so that a clock that was set is noticed.
const LONGEST: Duration = Duration::from_secs(3600);

impl Maintenance {
    /// From now on a task waits for work, as soon as there is some.
    pub(crate) fn in_background(self: &Arc<Self>) -> Background {
        self.state().background = true;
        Background(self.clone())
    }

    /// Takes over a listing.
    pub(crate) fn begin(self: &Arc<Self>, listed: &[Dated]) {
        let mut state = self.state();
        state.take_up(Catalog::new(listed.iter().copied()), self.clock.now());
        state.heard.clear();
        state.owed.clear();
        let changes = state.changes;
        self.wake(&mut state);
        drop(state);
        self.sighted(Depth::Whole, None, changes);
    }

    /// The credentials may list.
    pub(crate) fn may_list(&self) {
        self.state().may_not_list = false;
    }

    /// The credentials may not list: nothing is merged, deleted or looked at. That is reported once.
    pub(crate) fn may_not_list(&self, cause: &seawall_vault::Error) {
        self.state().may_not_list = true;
        tracing::warn!(
            database = %self.name,
            code = "sqlite.may-not-list",
            next = "run `seawall maintain` from time to time with credentials that may list and delete",
            "{}: the credentials don't allow to list ({cause}): protection goes on by the state directory; this process \
             doesn't merge, delete, or look for lost objects",
            self.vault.url(),
        );
    }

    /// Whether the credentials lack the right to list.
    pub(crate) fn is_blind(&self) -> bool {
        self.state().may_not_list
    }

    /// Takes up an object that is in the vault now, and its bytes where they are at hand.
    pub(crate) fn made(self: &Arc<Self>, file: Stored, moment: Moment, bytes: Option<Bytes>) {
        let now = self.clock.now();
        let mut state = self.state();
        if state.may_not_list {
            return;
        }
        let header = bytes.as_deref().filter(|_| file.level == Level::BASE).and_then(|bytes| Header::parse(bytes).ok());
        if let Some(header) = header {
            state.ends[usize::from(file.level.number())] = Some(Facts::of(&file, &header));
        }
        if let Some(bytes) = bytes.filter(|_| state.background && !self.upkeep.levels.is_empty()) {
            state.fresh.keep(&file, bytes, &self.turns.room);
        }
        state.catalog.add(Dated { file, moment, written: now.max(moment) });
        state.changes += 1;
        let first = self.upkeep.levels.first().map(|level| self.schedule().window_end(moment, level.interval));
        if state.task.is_none() || first.is_some_and(|first| state.until.is_some_and(|until| first < until)) {
            self.wake(&mut state);
        }
    }

    fn wake(self: &Arc<Self>, state: &mut State) {
        if !state.background {
            return;
        }
        if state.task.is_some() {
            self.sooner.notify_one();
        } else if self.deadline(state).is_some() {
            state.task = Some(tokio::spawn(self.clone().run()).abort_handle());
        }
    }

    /// When the next work is due; `None` if there will be none unless something changes.
    fn deadline(&self, state: &State) -> Option<Moment> {
        if state.may_not_list {
            return None;
        }
        let (now, schedule) = (self.clock.now(), self.schedule());
        let catalog = &state.catalog;
        if state.stale || compaction::due(catalog, &schedule, now).is_some() {
            return Some(now);
        }
        let merge = compaction::next(catalog, &schedule).filter(|next| *next > now);
        let trusted = state.trusted(now);
        let pins = state.pins.as_ref().map_or(&[][..], |(_, pins)| pins);
        let removal = retention::next(&self.question(state, pins), trusted).filter(|_| !state.may_not_delete);
        // Each window of level 1 may let some objects of level 0 go: they are deleted together.
        let removal = removal.map(|at| match at.since(trusted) {
            Duration::ZERO => now,
            wait => schedule.window_end(now.after(wait), self.upkeep.retention.check_interval),
        });
        merge.into_iter().chain(removal).min()
    }

    /// Waits and works until there is nothing more to wait for.
    async fn run(self: Arc<Self>) {
        let mut backoff = BACKOFF;
        loop {
            let wait = {
                let mut state = self.state();
                let now = self.clock.now();
                state.until = self.deadline(&state);
                let Some(until) = state.until else {
                    state.task = None;
                    state.catalog.shrink();
                    return;
                };
                until.since(now)
            };
            if !wait.is_zero() {
                tokio::select! {
                    () = sleep(wait.min(LONGEST)) => {}
                    () = self.sooner.notified() => {}
                }
                continue;
            }
            match self.work_and_note().await {
                Ok(done) => {
                    backoff.worked();
                    if done.made.is_empty() && done.removed.is_empty() {
                        // Nothing was due after all: a pin or the clock was set.
                        sleep(BACKOFF.first()).await;
                    }
                }
                Err(_is_noted) => sleep(backoff.failed()).await,
            }
        }
    }

    /// Does all work that is due. Keeps a failure for the status until an attempt succeeds.
    pub(crate) async fn work_and_note(&self) -> Result<Maintained, Error> {
        let done = self.work().await;
        let failure = done.as_ref().err().map(|error| {
            let failure = error.failure();
            tracing::warn!(database = %self.name, code = failure.code, "upkeep of the vault: {failure}");
            once_more(self.state().failure.as_ref(), &failure, self.clock.now())
        });
        if failure.is_some() || self.state().failure.is_some() {
            self.state().failure = failure;
            self.news.notify_one();
        }
        done
    }

    /// Does all work that is due.
    async fn work(&self) -> Result<Maintained, Error> {
        let mut done = Maintained::default();
        if self.is_blind() {
            return Ok(done);
        }
        if self.state().stale {
            self.list_anew().await?;
        }
        let merged = self.merge_all(&mut done).await;
        let removed = self.remove_all(&mut done).await;
        let result = merged.and(removed);
        let mut state = self.state();
        state.stale = result.is_err();
        if state.stale {
            // After a failure, the room in the cache is left to databases whose merges work.
            state.fresh.clear();
        }
        drop(state);
        result.map(|()| done)
    }

    /// Lists the vault and takes over its objects.
    pub(crate) async fn list_anew(&self) -> Result<(), Error> {
        let listed = list_dated(&self.vault).await?;
        let mut state = self.state();
        let gone = missing::differing(state.catalog.all(), &listed);
        let gone: Vec<Dated> = state.catalog.all().filter(|dated| gone.contains(&dated.file)).copied().collect();
        let gone: Vec<Dated> =
            gone.into_iter().filter(|dated| state.owed.iter().all(|owed| owed.file != dated.file)).collect();
        state.changes += u64::from(!gone.is_empty());
        state.owed.extend(gone);
        state.take_up(Catalog::new(listed), self.clock.now());
        state.stale = false;
        Ok(())
    }

    /// The work that [`Maintenance::work`] would do, as far as it can be told in advance.
    pub(crate) async fn rehearse(&self) -> Result<Maintained, Error> {
        self.list_anew().await?;
        self.ask_for_locks().await?;
        let pins = marks::pins(&self.vault).await?;
        if self.removals(&pins).iter().any(|removal| removal.file.level == Level::BASE) {
            self.date_bases().await?;
        }
        let (now, schedule) = (self.clock.now(), self.schedule());
        let mut catalog = self.state().catalog.clone();
        let mut done = Maintained { dry_run: true, ..Maintained::default() };
        while let Some(job) = compaction::due(&catalog, &schedule, now) {
            let (Some(first), Some(last)) = (job.inputs.first(), job.inputs.last()) else { break };
            let size = job.inputs.iter().map(|file| file.size).sum();
            let file = Stored { level: job.level, min: first.min, max: last.max, size };
            let moment = catalog.all().filter(|dated| dated.file.max == last.max).map(|dated| dated.moment).min();
            let key = file.key(Layout::of(&self.vault)).to_string();
            let inputs = u64::try_from(job.inputs.len()).unwrap_or(u64::MAX);
            done.made.push(MadeObject { object: PlannedObject { key, bytes: size }, inputs });
            catalog.add(Dated { file, moment: moment.unwrap_or(now), written: now });
        }
        let locks = self.state().locks.clone();
        let mut state = State { catalog, locks, ..State::default() };
        let candidates = retention::removals(&self.question(&state, &pins), now);
        state.locks.ends.extend(self.locks_of(&candidates, now).await?);
        let removals = retention::removals(&self.question(&state, &pins), now);
        done.removed = removals.iter().map(|removal| self.removed(removal)).collect();
        Ok(done)
    }
}

/// Lets the task end with the protection it belongs to.
pub(crate) struct Background(Arc<Maintenance>);

impl Drop for Background {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.background = false;
        state.fresh.clear();
        if let Some(task) = state.task.take() {
            task.abort();
        }
    }
}
