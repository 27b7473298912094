//! Carries out what `compaction` and `retention` decide, beside the capture and never in its way.
//!
//! While something will have to be done a task of its own waits for it; a database whose vault is in order has no task, no
//! timer and makes no request (I6). Of all databases of a process only a few work at a time ([`Turns`]). A crash leaves
//! whole objects: what was merged is found by the next listing, and what was not deleted is deleted later. After any
//! failure the vault is listed anew, because somebody else may have changed it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Activity, Backoff, Clock, LastError, MadeObject, Maintained, Moment, PlannedObject, RemovedObject};
use seawall_ltx::{Crc64, Header, Txid};
use seawall_vault::{ObjectKey, Vault};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::belonging::Facts;
use crate::catalog::{Catalog, Dated};
use crate::compaction::{self, Job, Schedule};
use crate::digests;
use crate::engine::once_more;
use crate::error::Error;
use crate::fetch::Fetched;
use crate::fresh::{Fresh, Room};
use crate::layout::{Layout, Level, Stored};
use crate::marks;
use crate::merge::{Merged, merge};
use crate::missing;
use crate::options::{Options, Upkeep, World};
use crate::read_back::ReadBack;
use crate::retention::{self, Question, Removal, Why};
use crate::ship::blocking;
use crate::sight::{Depth, Sighted};
use crate::survey::{list_dated, list_level, read_header};
use crate::{target, together};

/// How many databases of a process merge and delete at a time.
const AT_A_TIME: usize = 2;

/// How long to wait before repeating what failed: doubled from the first to the last.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(3600));

/// The longest sleep, so that a clock that was set is noticed.
const LONGEST: Duration = Duration::from_secs(3600);

/// How far the clock may run ahead of the time that passed before deletion stops believing it.
pub(crate) const AHEAD: Duration = Duration::from_secs(600);

/// What was written this long ago is in every listing that ends now.
const RECENT: Duration = Duration::from_secs(600);

/// Objects deleted at once.
const BATCH: usize = 1000;

/// The right to merge and delete, and room for what will be merged, shared by all databases of a process.
#[derive(Debug, Clone)]
pub struct Turns {
    right: Arc<Semaphore>,
    room: Room,
}

impl Default for Turns {
    fn default() -> Self {
        Self { right: Arc::new(Semaphore::new(AT_A_TIME)), room: Room::default() }
    }
}

/// The upkeep of one database's vault.
pub(crate) struct Maintenance {
    pub(crate) name: String,
    pub(crate) vault: Vault,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) clock: Arc<dyn Clock>,
    turns: Turns,
    jobs: usize,
    activity: Arc<Activity>,
    read_back: Option<Arc<ReadBack>>,
    state: Mutex<State>,
    sooner: Notify,
    /// Told when a failure begins or is over.
    pub(crate) news: Arc<Notify>,
    /// Whether a thread asks the vault's folder just now.
    pub(crate) asking: AtomicBool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) catalog: Catalog,
    /// What was written since the last merge, where there is room for it.
    fresh: Fresh,
    /// Whether a task may wait for what is to be done.
    background: bool,
    /// The task that waits or works, and until when it waits.
    task: Option<AbortHandle>,
    until: Option<Moment>,
    /// The clock when the vault was listed.
    since: Option<(Instant, Moment)>,
    /// Whether the catalog may be wrong.
    stale: bool,
    /// Whether the credentials don't allow to delete.
    may_not_delete: bool,
    pub(crate) pins: Option<(Instant, Vec<Txid>)>,
    floor: Option<Txid>,
    /// What was merged last into each level; the base that was taken last.
    ends: [Option<Facts>; 10],
    /// Bases whose moments are known, not only when they were written.
    dated: BTreeSet<Txid>,
    /// When it was looked whether all is there; see `sight.rs`.
    pub(crate) sighted: Option<Sighted>,
    /// How the objects that the newest restore needs were listed then.
    pub(crate) heard: Vec<Dated>,
    /// How many objects were made or deleted.
    pub(crate) changes: u64,
    /// What was known and an earlier listing lacked: the next look tells whether it may be gone.
    pub(crate) owed: Vec<Dated>,
    /// Objects that are there, and aren't what was written.
    pub(crate) distrusted: Vec<Stored>,
    /// What was found to be lost, until all is found.
    pub(crate) loss: Option<LastError>,
    /// Whether it is of the past, of which only a look at everything can tell.
    pub(crate) past: bool,
    /// What went wrong last, until it goes well again.
    failure: Option<LastError>,
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Maintenance {
    /// The upkeep of `vault` by `options.upkeep`. Does no I/O.
    pub(crate) fn new(
        vault: &Vault,
        options: &Options,
        world: &World,
        activity: Arc<Activity>,
        news: Arc<Notify>,
    ) -> Self {
        Self {
            name: options.display_name(vault),
            vault: vault.clone(),
            upkeep: options.upkeep.clone(),
            clock: world.clock.clone(),
            turns: world.turns.clone(),
            jobs: options.jobs,
            activity,
            read_back: None,
            state: Mutex::default(),
            sooner: Notify::new(),
            news,
            asking: AtomicBool::new(false),
        }
    }

    /// Notes there when a merge read everything.
    pub(crate) fn noting(self, read_back: Arc<ReadBack>) -> Self {
        Self { read_back: Some(read_back), ..self }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole when the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a task waits for what is to be done, as soon as there is something.
    pub(crate) fn in_background(self: &Arc<Self>) -> Background {
        self.state().background = true;
        Background(self.clone())
    }

    /// Takes up what a listing found.
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

    /// Objects of the vault that aren't what was written, for who asks what can be restored.
    pub(crate) fn distrusted(&self) -> Vec<Stored> {
        self.state().distrusted.clone()
    }

    /// Takes up an object that is in the vault now, and its bytes where they are at hand.
    pub(crate) fn made(self: &Arc<Self>, file: Stored, moment: Moment, bytes: Option<Bytes>) {
        let now = self.clock.now();
        let mut state = self.state();
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

    /// Windows begin at another second for every vault. The longest interval bounds the shift.
    fn schedule(&self) -> Schedule<'_> {
        let mut hash = Crc64::new();
        hash.update(self.vault.url().as_bytes());
        let longest = self.upkeep.levels.iter().map(|level| level.interval).chain(self.upkeep.base_interval).max();
        let longest = longest.map_or(1, |longest| u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).max(1));
        let phase = hash.checksum().0 % longest;
        Schedule { levels: &self.upkeep.levels, bases: self.upkeep.base_interval, phase }
    }

    /// When there is something to do; `None` if there never is, unless something changes.
    fn deadline(&self, state: &State) -> Option<Moment> {
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

    fn question<'a>(&'a self, state: &'a State, pins: &'a [Txid]) -> Question<'a> {
        let Upkeep { retention: policy, levels, .. } = &*self.upkeep;
        Question { catalog: &state.catalog, policy, levels, pins }
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
                        // Nothing was due after all: a pin was set, or the clock.
                        sleep(BACKOFF.first()).await;
                    }
                }
                Err(_is_noted) => sleep(backoff.failed()).await,
            }
        }
    }

    /// Does everything that is due, and keeps a failure for the status until it goes well again.
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

    /// What went wrong last, until it goes well again.
    pub(crate) fn failure(&self) -> Option<LastError> {
        let state = self.state();
        state.loss.clone().or_else(|| state.failure.clone())
    }

    /// Does everything that is due.
    pub(crate) async fn work(&self) -> Result<Maintained, Error> {
        let mut done = Maintained::default();
        if self.state().stale {
            self.list_anew().await?;
        }
        let merged = self.merge_all(&mut done).await;
        let removed = self.remove_all(&mut done).await;
        let result = merged.and(removed);
        let mut state = self.state();
        state.stale = result.is_err();
        if state.stale {
            // Room is for those whose merges go on.
            state.fresh.clear();
        }
        drop(state);
        result.map(|()| done)
    }

    /// Lists the vault and takes up what is there.
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

    /// Merges what is due. An object that doesn't belong to what is before it stops only what it touches: what is before it, and
    /// what is behind the next base, is merged all the same.
    ///
    /// # Errors
    /// Of the first such object, when everything else is done; of anything else at once.
    async fn merge_all(&self, done: &mut Maintained) -> Result<(), Error> {
        let (mut refused, mut last) = (None, None);
        loop {
            let job = compaction::due(&self.state().catalog, &self.schedule(), self.clock.now());
            // What is apart isn't asked for again; if it is, nothing else would come of it.
            let Some(job) = job.filter(|job| last.as_ref() != Some(job)) else { return refused.map_or(Ok(()), Err) };
            match self.make(&job, done).await {
                Ok(()) => {}
                Err(error) => {
                    let Error::Mixed { stranger, .. } = &error else { return Err(error) };
                    self.state().catalog.set_apart(*stranger);
                    refused.get_or_insert(error);
                    last = Some(job);
                }
            }
        }
    }

    /// Makes one object of others.
    async fn make(&self, job: &Job, done: &mut Maintained) -> Result<(), Error> {
        // Never closed: it lives as long as the process.
        let _turn = self.turns.right.acquire().await;
        let (began, level) = (Instant::now(), usize::from(job.level.number()));
        let inputs = {
            let state = self.state();
            job.inputs.iter().map(|file| Fetched::at_hand(*file, state.fresh.get(file))).collect()
        };
        let elder = self.elder(job).await?;
        let merged = merge(&self.vault, job.level, elder.as_ref(), inputs, self.jobs).await;
        let merged = merged.inspect_err(|_| self.activity.compactions[level].failed())?;
        self.activity.compactions[level].done(merged.file.size, began.elapsed());
        self.state().ends[level] = Some(merged.facts);
        self.note(job, &merged, done);
        if job.level == Level::BASE
            && self.newest() == Some(merged.file.max)
            && let Some(read_back) = self.read_back.clone()
        {
            let now = self.clock.now();
            if let Err(error) = blocking(move || read_back.note(now)).await {
                tracing::debug!(database = %self.name, "when everything was read is not noted: {error}");
            }
        }
        if self.upkeep.verify_compaction {
            self.verify(merged.file).await?;
        }
        Ok(())
    }

    /// What the inputs of a job must go on from: what was merged into their level last, or what is before them in the vault.
    async fn elder(&self, job: &Job) -> Result<Option<Facts>, Error> {
        let Some(first) = job.inputs.first().filter(|first| first.min.0 > 1) else { return Ok(None) };
        let (known, before) = {
            let state = self.state();
            let known = state.ends.iter().flatten().find(|end| end.file.max.next() == Some(first.min)).copied();
            let before = state.catalog.all().rev().find(|dated| dated.file.max.next() == Some(first.min));
            (known, before.map(|dated| dated.file))
        };
        match (known, before) {
            (Some(known), _) => Ok(Some(known)),
            // One that is damaged or gone proves nothing; a restore that needs it fails.
            (None, Some(before)) => together::helper(&self.vault, &before).await,
            (None, None) => Ok(None),
        }
    }

    /// Makes a base of the newest point, if there is none: in several steps where more objects than one merge takes lie
    /// behind the newest base.
    pub(crate) async fn complete(&self) -> Result<Maintained, Error> {
        self.list_anew().await?;
        let mut done = Maintained::default();
        loop {
            let job = compaction::complete(&self.state().catalog);
            let job = job.map_err(|why| target::unreachable(&self.vault, "the newest state", why))?;
            let Some(job) = job else { return Ok(done) };
            let before = self.state().catalog.reached(Level::BASE);
            self.make(&job, &mut done).await?;
            if self.state().catalog.reached(Level::BASE) <= before {
                return Err(Error::Internal("a complete copy that reaches no farther than the one before".to_owned()));
            }
        }
    }

    fn note(&self, job: &Job, merged: &Merged, done: &mut Maintained) {
        let Merged { file, moment, .. } = *merged;
        let written = self.clock.now().max(moment);
        let mut state = self.state();
        state.catalog.add(Dated { file, moment, written });
        state.changes += 1;
        if let Some(merged) = Level::new(1).and_then(|level| state.catalog.reached(level)) {
            state.fresh.forget(merged);
        }
        drop(state);
        let key = file.key(Layout::of(&self.vault)).to_string();
        tracing::debug!(database = %self.name, object = key, inputs = job.inputs.len(), bytes = file.size, "merged");
        done.made.push(MadeObject {
            object: PlannedObject { key, bytes: file.size },
            inputs: u64::try_from(job.inputs.len()).unwrap_or(u64::MAX),
        });
    }

    /// Looks for a merged object in a listing, in which nothing may be missing before it.
    async fn verify(&self, made: Stored) -> Result<(), Error> {
        let listed = list_level(&self.vault, made.level, None).await?;
        let object = self.vault.object(&made.key(Layout::of(&self.vault)));
        let Some(at) = listed.iter().position(|dated| dated.file == made) else {
            return Err(Error::Corrupt { object, what: "it was written and is not in the listing".to_owned() });
        };
        let before = at.checked_sub(1).and_then(|at| listed.get(at)).filter(|_| made.level != Level::BASE);
        match before {
            Some(before) if made.min.0 > before.file.max.0.saturating_add(1) && !self.begins_history(made.min) => {
                let what = format!("there is nothing between it and {} at its level", before.file.max);
                Err(Error::Corrupt { object, what })
            }
            _ => Ok(()),
        }
    }

    fn newest(&self) -> Option<Txid> {
        self.state().catalog.all().map(|dated| dated.file.max).max()
    }

    fn begins_history(&self, txid: Txid) -> bool {
        self.state().catalog.bases().any(|base| base.file.max == txid)
    }

    async fn remove_all(&self, done: &mut Maintained) -> Result<(), Error> {
        if self.state().may_not_delete || self.removals(&[]).is_empty() {
            return Ok(());
        }
        let pins = self.pins().await?;
        if self.removals(&pins).iter().any(|removal| removal.file.level == Level::BASE) {
            self.date_bases().await?;
        }
        let removals = self.removals(&pins);
        self.mark_floor(&removals).await?;
        for batch in removals.chunks(BATCH) {
            let _turn = self.turns.right.acquire().await;
            let began = Instant::now();
            let keys: Vec<ObjectKey> = batch.iter().flat_map(|removal| self.keys(&removal.file)).collect();
            match self.vault.delete(&keys).await {
                Ok(()) => {}
                Err(error @ seawall_vault::Error::Denied { .. }) => {
                    self.state().may_not_delete = true;
                    let failure = Error::MayNotDelete { vault: self.vault.url().to_owned(), cause: error }.failure();
                    tracing::warn!(database = %self.name, code = failure.code, next = %failure.next, "{failure}");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            let files: Vec<Stored> = batch.iter().map(|removal| removal.file).collect();
            {
                let mut state = self.state();
                state.catalog.remove(&files);
                state.changes += 1;
            }
            let share = began.elapsed() / u32::try_from(files.len()).unwrap_or(u32::MAX).max(1);
            for file in &files {
                self.activity.deletions[usize::from(file.level.number())].done(file.size, share);
            }
            tracing::debug!(database = %self.name, objects = files.len(), "deleted what is not kept any longer");
            done.removed.extend(batch.iter().map(|removal| self.removed(removal)));
        }
        Ok(())
    }

    /// What is deleted with a file. Its digest first: without the file nobody would know of it.
    fn keys(&self, file: &Stored) -> impl Iterator<Item = ObjectKey> {
        digests::companion(&self.vault, file).into_iter().chain([file.key(Layout::of(&self.vault))])
    }

    /// Finds out the moments of bases where the listing told only when they were written: the calendar goes by moments.
    async fn date_bases(&self) -> Result<(), Error> {
        let undated: Vec<Stored> = {
            let state = self.state();
            let undated = state.catalog.bases().filter(|base| base.moment == base.written);
            undated.filter(|base| !state.dated.contains(&base.file.max)).map(|base| base.file).collect()
        };
        let reading: Vec<_> = undated.iter().map(|file| read_header(&self.vault, file)).collect();
        let headers: Vec<Header> = stream::iter(reading).buffered(8).try_collect().await?;
        let mut state = self.state();
        for (file, header) in undated.iter().zip(headers) {
            state.catalog.date(file, Moment::from_millis(header.timestamp_ms));
            state.dated.insert(file.max);
        }
        Ok(())
    }

    fn removals(&self, pins: &[Txid]) -> Vec<Removal> {
        let state = self.state();
        retention::removals(&self.question(&state, pins), state.trusted(self.clock.now()))
    }

    fn removed(&self, removal: &Removal) -> RemovedObject {
        let key = removal.file.key(Layout::of(&self.vault)).to_string();
        RemovedObject { object: PlannedObject { key, bytes: removal.file.size }, reason: removal.why.reason() }
    }

    /// The pinned points, asked for often enough: a pin on a point holds if the point is kept for another grace.
    async fn pins(&self) -> Result<Vec<Txid>, Error> {
        let fresh = |(at, _): &&(Instant, Vec<Txid>)| at.elapsed() < self.upkeep.retention.grace / 2;
        if let Some((_, pins)) = self.state().pins.as_ref().filter(fresh) {
            return Ok(pins.clone());
        }
        let pins = marks::pins(&self.vault).await?;
        self.state().pins = Some((Instant::now(), pins.clone()));
        Ok(pins)
    }

    /// Records up to where history is thinned out, before it is: what is missing from then on is no loss.
    async fn mark_floor(&self, removals: &[Removal]) -> Result<(), Error> {
        if !removals.iter().any(|removal| removal.why == Why::Outdated) {
            return Ok(());
        }
        let floor = {
            let state = self.state();
            retention::floor_at(&self.question(&state, &[]), state.trusted(self.clock.now()))
                .filter(|floor| state.floor < Some(*floor))
        };
        let Some(floor) = floor else { return Ok(()) };
        marks::set_floor(&self.vault, floor).await?;
        self.state().floor = Some(floor);
        Ok(())
    }

    /// What [`Maintenance::work`] would do, as far as it can be told without doing it.
    pub(crate) async fn rehearse(&self) -> Result<Maintained, Error> {
        self.list_anew().await?;
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
        let state = State { catalog, ..State::default() };
        let removals = retention::removals(&self.question(&state, &pins), now);
        done.removed = removals.iter().map(|removal| self.removed(removal)).collect();
        Ok(done)
    }
}

impl State {
    fn take_up(&mut self, listed: Catalog, now: Moment) {
        self.catalog.refresh(listed, now.before(RECENT));
        self.since.get_or_insert((Instant::now(), now));
    }

    /// The present as deletion sees it. A clock that ran ahead of the time that passed since the vault was listed was
    /// set, and nothing is deleted on its word.
    fn trusted(&self, now: Moment) -> Moment {
        self.since.map_or(now, |(instant, moment)| now.min(moment.after(instant.elapsed() + AHEAD)))
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
