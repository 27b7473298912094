//! One stretch of protecting a database: from opening it to losing or leaving it.
//!
//! A session finds where the history ends, takes a base where it can't be continued, and then ships what is committed.
//! While the vault is away it keeps the WAL pinned and repeats what it was doing; past the bound it gives up (I4). It
//! may end at any await: everything that matters is in the vault, the WAL or the spool.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use seawall_core::{Backoff, Moment, Phase, Point, Shutdown};
use seawall_host::Glance;
use seawall_ltx::{Header, Txid};
use tokio::time::{Instant, sleep, timeout};

use crate::capture::{self, Ahead, Author, Capture, Look};
use crate::checkpoint::{Copied, Copier};
use crate::continuity::{Break, Resume, resume};
use crate::doubts;
use crate::engine::Sqlite;
use crate::error::Error;
use crate::holes;
use crate::identity::{Lineage, Nonce, Stamp, Tag, WalPosition};
use crate::known::Depth;
use crate::layout::{Layout, Level, Stored, file_key};
use crate::missing;
use crate::plan::{plan, stretches};
use crate::probe::Defect;
use crate::proof;
use crate::seal::{self, Prepared};
use crate::ship::{self, Shipment, Shipped, blocking};
use crate::source::Source;
use crate::spool::{Draft, Spool};
use crate::standing::{Standing, standing};
use crate::state::{Position, Record};
use crate::survey::{self, Survey, next_txid};
use seawall_vault::Scheme;

/// The newest capture of another program is compared with the WAL if it is at most this large; a larger one costs as
/// much as a new base.
const COMPARABLE: u64 = 64 << 20;

/// How often what was put off is tried again without a new commit, and for how long after the last one.
const LOOK_ACTIVE: Duration = Duration::from_secs(55);
const SILENT: Duration = Duration::from_secs(3600);

/// How long to wait before looking again at a WAL that a writer is restarting.
const RELOOK: Duration = Duration::from_millis(20);

/// How long the WAL is left alone when it could not be emptied because of the disk.
const PUT_OFF: Duration = Duration::from_secs(30);

/// How often to look again before the session begins anew.
const RELOOKS: u32 = 100;

/// How often to check what a slow vault does to the WAL.
const GROWTH_CHECK: Duration = Duration::from_secs(1);

/// How often in a row the size of the WAL may be unknown before the work that makes it grow is given up.
const UNSEEN: u32 = 30;

/// How long to wait before repeating what failed: doubled from the first to the last.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// How long the last look at the vault may take.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// How long the system may take to say whether the vault is there: a network file system may never answer.
const VAULT_ANSWERS: Duration = Duration::from_secs(30);

/// How long a session repeats what a vault refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the WAL grows past its limit.
    Protecting,
    /// Not at all: the first failure is the answer.
    Once,
}

/// Whether to look at the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// If it is time; what was lost of the past is only told.
    WhenDue,
    /// In any case, because somebody is about to be told that everything is there; anything that was lost is an error.
    Now,
}

/// What came of an attempt to empty the WAL.
enum Attempt {
    /// Everything was copied and let go: so many bytes.
    Emptied(u64),
    /// The WAL stays as it is, and nothing would change that now.
    LeftAlone,
    /// Not yet; what was read of the WAL may be of use at the next attempt.
    NotNow(Option<Ahead>),
    /// The application holds its write lock for longer than it is waited for.
    Locked,
}

/// An open database with a proved position.
pub(crate) struct Session<'a> {
    engine: &'a Sqlite,
    shutdown: &'a Shutdown,
    patience: Patience,
    stamp: Stamp,
    state_dir: PathBuf,
    spool: Spool,
    source: Arc<Mutex<Source>>,
    /// Everything up to here is captured and durable.
    position: Option<Position>,
    /// The place at which the WAL was emptied last, or as far as its readers allow: before another commit it is of no use.
    emptied: Option<WalPosition>,
    /// Until when it is not tried to empty the WAL, because the disk was in the way.
    emptying_put_off: Option<Instant>,
    /// Until when the higher price isn't asked of writers again.
    urgency_put_off: Option<Instant>,
    /// How much may be left to capture under the barrier, as the disk has shown.
    bounds: seal::Bounds,
    last_shipped: Option<Instant>,
    last_look: Instant,
    /// Whether the file has other names, through which somebody may write what can't be seen from here.
    several: bool,
    /// Whether the WAL is being emptied, or a base taken: what fails then is proved anew by another session.
    between: bool,
}

impl<'a> Session<'a> {
    /// Opens the database and finds its place in the history.
    pub(crate) async fn open(
        engine: &'a Sqlite,
        shutdown: &'a Shutdown,
        patience: Patience,
    ) -> Result<Session<'a>, Error> {
        let (path, state_dir) = engine.place()?;
        let (busy, kept) = (engine.options().busy_timeout, engine.kept_files());
        let probe = engine.probe();
        let named = engine.options().path.clone();
        let open = move || {
            let source = Source::open(&path, busy, &mut kept.lock().unwrap_or_else(PoisonError::into_inner), probe)?;
            Ok(source.named(named))
        };
        let source = blocking(open).await?;
        let stamp = Stamp { lineage: Lineage::new(engine.random()), nonce: Nonce::new(engine.random()) };
        let mut session = Self {
            engine,
            shutdown,
            patience,
            stamp,
            spool: Spool::new(&state_dir, engine.probe()),
            state_dir,
            source: Arc::new(Mutex::new(source)),
            position: None,
            emptied: None,
            emptying_put_off: None,
            urgency_put_off: None,
            bounds: seal::Bounds::default(),
            last_shipped: None,
            last_look: Instant::now(),
            several: false,
            between: false,
        };
        let growth = session.wal_outgrown();
        tokio::select! {
            located = session.locate_patiently() => located?,
            outgrown = growth => return Err(outgrown),
        }
        Ok(session)
    }

    async fn locate_patiently(&mut self) -> Result<(), Error> {
        let mut backoff = BACKOFF;
        loop {
            match self.locate().await {
                Ok(()) => return Ok(()),
                Err(error) => self.wait_after(error, &mut backoff).await?,
            }
        }
    }

    /// Ends once the WAL has grown by its limit since this was called: what ships it is not fast enough (I4).
    fn wal_outgrown(&self) -> impl Future<Output = Error> + use<> {
        let (source, limit) = (self.source.clone(), self.engine.options().wal_limit);
        let path = self.engine.place().map(|(path, _)| path).unwrap_or_default();
        let size = move || {
            let source = source.clone();
            blocking(move || source.lock().unwrap_or_else(PoisonError::into_inner).wal_size())
        };
        async move {
            let (mut first, mut unseen) = (None, 0);
            loop {
                match size().await {
                    Ok(now) if now > first.get_or_insert(now).saturating_add(limit) => {
                        return Error::GaveUp { path, limit };
                    }
                    Ok(_) => unseen = 0,
                    // What ships it may fare better.
                    Err(error) if error.is_passing() && unseen < UNSEEN => unseen += 1,
                    Err(error) => return error,
                }
                sleep(GROWTH_CHECK).await;
            }
        }
    }

    /// The lineage of the history that the session writes.
    pub(crate) fn lineage(&self) -> Lineage {
        self.stamp.lineage
    }

    /// The last point that is durable in the vault.
    pub(crate) fn point(&self) -> Option<Point> {
        self.position.map(|position| position.point())
    }

    /// The last place that is durable.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    /// When the next object may be made: a `sync_interval` after the last one.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.last_shipped.map(|last| last + self.engine.options().sync_interval)
    }

    /// Whether something was written since the last capture, and when the WAL was written last.
    pub(crate) async fn glimpse(&self) -> Result<(bool, Option<SystemTime>), Error> {
        let wal = self.position.and_then(|position| position.wal);
        self.on_source(move |source| {
            source.check_identity()?;
            Ok((source.is_behind(wal.as_ref(), 0)?, source.wal_written()?))
        })
        .await
    }

    /// Whether something was written since the last capture: at least `bytes` of WAL and one frame. What is no longer the
    /// place that holds what was captured before is an error.
    pub(crate) async fn is_behind(&self, bytes: u64) -> Result<bool, Error> {
        let wal = self.position.and_then(|position| position.wal);
        self.on_source(move |source| {
            source.check_identity()?;
            source.is_behind(wal.as_ref(), bytes)
        })
        .await
    }

    /// Whether the vault's place is the one that was written to. The source isn't held meanwhile: a network file system may
    /// never answer, and the size of the WAL must be known all the same (I4).
    pub(crate) async fn check_vault(&self) -> Result<(), Error> {
        let vault = self.engine.vault().clone();
        let object = vault.url().to_owned();
        match timeout(VAULT_ANSWERS, blocking(move || Ok(vault.check()?))).await {
            Ok(checked) => checked,
            Err(_elapsed) => Err(seawall_vault::Error::Timeout { object, after: VAULT_ANSWERS }.into()),
        }
    }

    /// Lets go what isn't needed until something happens.
    pub(crate) fn rest(&self) {
        // Whoever has it works with it.
        if let Ok(mut source) = self.source.try_lock() {
            source.rest();
        }
    }

    /// Keeps what holds the WAL from costing its writers anything, see [`Source::step_inside`].
    pub(crate) async fn step_inside(&self) {
        // What holds the WAL now goes on holding it.
        if let Err(error) = self.on_source(Source::step_inside).await {
            tracing::debug!(database = %self.engine.name(), "the hold stays where it is: {error}");
        }
    }

    /// Ships everything that is committed at this moment, and empties the WAL where it has grown.
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.last_look = Instant::now();
        let growth = self.wal_outgrown();
        let work = async {
            if let Some(copier) = self.copy_ahead().await {
                self.between = true;
                let emptied = self.empty_busy_wal(copier).await?;
                self.between = false;
                // Where writers pause just then, what they left is put in order.
                if emptied && self.is_behind(0).await? {
                    return Ok(());
                }
            }
            self.ship_all().await?;
            self.between = true;
            self.empty_wal().await?;
            self.between = false;
            Ok(())
        };
        tokio::select! {
            done = work => done,
            outgrown = growth => Err(outgrown),
        }
    }

    /// The same after a failure: once it goes well that is told, even if there was nothing to ship.
    pub(crate) async fn recover(&mut self) -> Result<(), Error> {
        self.drain().await?;
        self.look_at_vault(Looking::WhenDue).await?;
        match self.position {
            Some(position) => self.arrive(position).await,
            None => Ok(()),
        }
    }

    /// What copies the WAL into the database file before it is shipped, where writers write and it is due to be emptied.
    ///
    /// Only behind a proved place: one that isn't may depend on the file being as it was.
    async fn copy_ahead(&self) -> Option<Copier> {
        let position = self.position.filter(|position| position.held && self.patience == Patience::Protecting)?;
        if self.is_put_off(&position) {
            return None;
        }
        let busy = self.facts(&position).busy();
        // The generation that couldn't be let go the last time was copied then, as far as its readers allow.
        let stuck = self.emptied.map(|wal| wal.salts);
        let copier = self.on_source(move |source| {
            let fresh = source.wal_header()?.is_some_and(|header| Some(header.salts) != stuck);
            if fresh && source.is_behind(None, busy)? { source.copy_ahead() } else { Ok(None) }
        });
        copier.await.unwrap_or_else(|error| {
            tracing::debug!(database = %self.engine.name(), "nothing is copied ahead: {error}");
            None
        })
    }

    /// One round of copying; answers whether it came further than the last, or to the end. Where it didn't, a reader is in the way.
    async fn copy_round(&self, copier: Copier) -> Result<bool, Error> {
        let before = self.on_source(|source| source.copied()).await?;
        let copied = blocking(move || copier.copy()).await?;
        Ok(copied != Copied::Part || self.on_source(|source| source.copied()).await? != before)
    }

    /// Empties the WAL under writers who go on writing, and ships what was in it after that, from the database file: whatever
    /// they wrote several times goes into one object, once. Answers whether it came to that.
    ///
    /// Copying is done in rounds, before the barrier is taken, so that writers wait for little; what a fast writer adds
    /// meanwhile becomes less from round to round, because what is read meanwhile is only which pages there are.
    async fn empty_busy_wal(&mut self, first: Copier) -> Result<bool, Error> {
        let (mut copier, mut ahead) = (Some(first), None);
        for attempt in 0..seal::ATTEMPTS {
            let Some(position) = self.position.filter(|position| position.held) else { break };
            let began = Instant::now();
            let former = ahead.take();
            let read = self.on_source(move |source| Ahead::read(source, position, former));
            let copy = async {
                match copier.take() {
                    Some(copier) => self.copy_round(copier).await,
                    None => Ok(true),
                }
            };
            let (moved, read) = futures::join!(copy, read);
            match moved {
                Ok(true) => {}
                Ok(false) => {
                    self.emptied = position.wal;
                    break;
                }
                Err(error) => {
                    self.uncopied(error).await?;
                    break;
                }
            }
            let Some(read) = read? else { break };
            match self.seal(position, attempt, Some(read)).await? {
                Attempt::Emptied(bytes) => {
                    self.emptied(bytes, began);
                    return Ok(true);
                }
                // What is committed is shipped before anybody waits again.
                Attempt::LeftAlone | Attempt::Locked => break,
                Attempt::NotNow(read) => ahead = read,
            }
            tracing::debug!(database = %self.engine.name(), attempt, "the WAL can't be emptied now");
            copier = self.on_source(Source::copy_ahead).await?;
        }
        Ok(false)
    }

    /// Looks at the vault if it is time, or without asking whether it is (I15).
    pub(crate) async fn look_at_vault(&self, sight: Looking) -> Result<(), Error> {
        let depth = match sight {
            _ if self.patience == Patience::Once
                || self.engine.options().upkeep.sight_interval.is_none() && sight == Looking::Now =>
            {
                None
            }
            Looking::Now => Some(Depth::Near),
            Looking::WhenDue => {
                let upkeep = self.engine.maintenance().clone();
                blocking(move || Ok(upkeep.look_is_due())).await?
            }
        };
        let Some(depth) = depth else { return Ok(()) };
        let _turn = self.engine.admission().start().await;
        self.look(depth, sight == Looking::Now).await
    }

    /// Looks at the vault for what this history needs. With `asked`, whatever was seen there lately.
    async fn look(&self, depth: Depth, asked: bool) -> Result<(), Error> {
        let newest = self.position.map(|position| position.txid);
        self.engine.maintenance().look(depth, (newest, self.stamp.lineage), asked).await
    }

    /// Looks at the vault before everything ends. A vault that can't be asked is an error, unless it was whole a short while
    /// ago and nothing was sent there since.
    pub(crate) async fn look_at_the_end(&self) -> Result<(), Error> {
        if self.patience == Patience::Once || self.engine.options().upkeep.sight_interval.is_none() {
            return Ok(());
        }
        // All databases end at once, and wait for a turn for as long as the stop may take: only the look is bounded here.
        let _turn = self.engine.admission().start().await;
        match timeout(LAST_LOOK, self.look(Depth::Near, true)).await {
            Ok(Err(error @ Error::Vault(_))) if self.engine.maintenance().was_seen_lately() => {
                tracing::warn!(database = %self.engine.name(), "the vault can't be looked at any more: {error}");
                Ok(())
            }
            Ok(looked) => looked,
            Err(_elapsed) if self.engine.maintenance().was_seen_lately() => Ok(()),
            Err(_elapsed) => {
                let object = self.engine.vault().url().to_owned();
                Err(seawall_vault::Error::Timeout { object, after: LAST_LOOK }.into())
            }
        }
    }

    /// Whether it is time to try again what was put off, though nothing was noticed.
    pub(crate) fn look_is_due(&self) -> bool {
        self.next_look().is_some_and(|at| Instant::now() >= at)
    }

    fn next_look(&self) -> Option<Instant> {
        self.last_shipped.filter(|last| last.elapsed() < SILENT).map(|_| self.last_look + LOOK_ACTIVE)
    }

    /// Tells, for a few system calls, whether there is anything to do: whether something was committed, and whether what
    /// was captured last and what is kept beside the database still is as it was left.
    pub(crate) fn glance(&self) -> Glance {
        let (source, look) = (Arc::downgrade(&self.source), self.next_look());
        let (vault, upkeep) = (self.engine.vault().clone(), self.engine.maintenance().clone());
        let (captured, state_dir) = (self.position.map(|position| position.captured()), self.state_dir.clone());
        let unsaved = self.engine.unsaved().clone();
        let (commit, several) = (self.position.map_or(0, |position| position.commit), self.several);
        let (clock, newest) = (self.engine.clock().clone(), self.position.map(|position| position.moment));
        let faulty = self.engine.clock_fault_is_told();
        let (runtime, read_back) = (tokio::runtime::Handle::current(), self.engine.read_back().clone());
        Box::new(move || {
            let Some(source) = source.upgrade() else { return true };
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let wal = captured.as_ref().and_then(|captured| captured.wal);
            let quiet = source.check_identity().and_then(|()| source.is_quiet(wal.as_ref()));
            let stands = captured.as_ref().map(|captured| standing(&mut source, captured));
            let cut = source.is_cut(wal.as_ref(), commit).unwrap_or(true);
            let named = source.other_names().is_some() == several;
            source.rest();
            drop(source);
            let as_it_was = quiet.unwrap_or(false) && matches!(stands, Some(Ok(Standing::AsItWas))) && !cut && named;
            let recorded = !unsaved.load(Ordering::Relaxed) && Record::is_there(&state_dir) && read_back.is_known();
            // A folder's file system may not answer, and this thread sweeps all databases: another one asks, and tells.
            let seen = if vault.folder().is_some() {
                upkeep.ask_beside(&runtime);
                true
            } else {
                vault.check().is_ok() && upkeep.look_is_due().is_none()
            };
            let timely = clock.fault(newest).is_some() == faulty;
            look.is_some_and(|at| Instant::now() >= at) || !as_it_was || !recorded || !seen || !timely
        })
    }

    /// Whether the captured place is as it was left. Where only what nobody captures any more is damaged, that is told.
    pub(crate) async fn is_as_it_was(&self) -> Result<bool, Error> {
        let Some(captured) = self.position.map(|position| position.captured()) else { return Ok(false) };
        let commit = self.position.map_or(0, |position| position.commit);
        let told = self.on_source(move |source| match standing(source, &captured)? {
            _ if source.is_cut(captured.wal.as_ref(), commit)? => Err(source.cut_short()),
            Standing::AsItWas => Ok((true, None)),
            Standing::Changed => Ok((false, None)),
            Standing::Damaged(offset) => Ok((true, Some(source.damaged(offset)))),
        });
        let (as_it_was, damaged) = told.await?;
        if let Some(damaged) = damaged {
            self.tell(Phase::Protecting, Some(&damaged)).await;
        }
        Ok(as_it_was)
    }

    /// Stays, and with it the hold on the WAL, after an error that the machine may get over by itself (`is_passing`): waits
    /// before another attempt. Without the hold the application's next checkpoint would make a hole of a passing shortage.
    ///
    /// # Errors
    /// The error itself, where it is no such one, something was half done, or nobody has known for a minute how large the WAL is;
    /// that protection was given up, once the WAL has grown past its limit (I4).
    pub(crate) async fn endure(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        if self.between || !(error.is_passing() || error.is_away()) {
            return Err(error);
        }
        let limit = self.engine.options().wal_limit;
        let captured = self.position.and_then(|position| position.wal).map_or(0, |wal| wal.offset);
        match self.on_source(Source::wal_size).await {
            // The file may be larger than what is live in it.
            Ok(size) if size.saturating_sub(captured) > limit && self.is_behind(limit).await.unwrap_or(true) => {
                let (path, _) = self.engine.place()?;
                return Err(Error::GaveUp { path, limit });
            }
            Err(_) if backoff.is_exhausted() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.pause_after(&error, backoff).await;
        Ok(())
    }

    async fn ship_all(&mut self) -> Result<(), Error> {
        let (mut backoff, mut unfinished) = (BACKOFF, 0);
        loop {
            let Some(position) = self.position else {
                return Err(Error::Internal("shipping without a position".to_owned()));
            };
            let author = self.author();
            Box::pin(self.check_vault()).await?;
            let look = self.on_source(move |source| capture::look(source, position, author)).await?;
            let why = match look {
                Look::Clean(position) => {
                    self.position = Some(position);
                    return Ok(());
                }
                Look::New(capture) => {
                    self.last_shipped = Some(Instant::now());
                    let partial = capture.partial;
                    if self.ship(*capture).await? && !partial {
                        return Ok(());
                    }
                    continue;
                }
                Look::Unfinished if unfinished < RELOOKS => {
                    unfinished += 1;
                    sleep(RELOOK).await;
                    continue;
                }
                Look::Unfinished => return Err(Error::Restarted),
                Look::Unproved => Break::NoPosition,
                Look::Broken(why) => why,
            };
            let before = std::mem::replace(&mut self.between, true);
            if let Err(error) = self.take_base(position.txid, both(&position), why, position.tag).await {
                // What the failed base left in the vault decides where to go on.
                self.wait_after(error, &mut backoff).await?;
                self.locate().await?;
            }
            self.between = before;
        }
    }

    fn author(&self) -> Author {
        Author { stamp: self.stamp, now: self.engine.moment() }
    }

    async fn on_source<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Source) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let source = self.source.clone();
        // A poisoned source is as good as any other: every use of it proves its place anew.
        blocking(move || work(&mut source.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// Finds where the history in the vault ends and whether the WAL goes on from there; else takes a base.
    async fn locate(&mut self) -> Result<(), Error> {
        let vault = self.engine.vault();
        vault.enter().await?;
        if vault.needs_probe() && !vault.probe().await?.exclusive_create() {
            tracing::warn!(
                vault = vault.url(),
                "this store overwrites what it was asked to create only: a second writer can't be caught"
            );
        }
        let state_dir = self.state_dir.clone();
        let record = blocking(move || Record::load(&state_dir)).await?;
        let remembered = record.and_then(|record| record.remembered(vault.url()));
        let turn = self.engine.admission().start().await;
        let mut survey = survey::survey(vault).await?;
        let mended = self.pair_up(survey.as_ref()).await?;
        if self.ship_spool(survey.as_ref()).await? || mended {
            survey = survey::survey(vault).await?;
        }
        drop(turn);
        let local = remembered.as_ref().map(|(facts, _)| facts);
        self.engine.maintenance().begin(survey.as_ref().map_or(&[][..], |survey| &survey.listed));
        let distrusted = self.engine.maintenance().distrusted();
        if let Some(survey) = survey.as_mut().filter(|_| !distrusted.is_empty()) {
            let files = missing::sound(&survey.listed, &distrusted);
            survey.remote.restorable &= plan(&files, survey.remote.max).is_ok();
        }
        match resume(local, survey.as_ref().map(|survey| &survey.remote)) {
            Resume::Base { txid: None, .. } => self.take_first_base().await,
            Resume::Base { txid: Some(txid), why } => {
                let last = last_point(survey.as_ref(), remembered.as_ref().map(|(_, position)| position));
                let from = match survey.as_ref().filter(|survey| !survey.remote.restorable) {
                    Some(survey) => self.last_restorable(survey, &distrusted).await?,
                    None => last.clone(),
                };
                self.take_base(txid, (last, from), why, survey.as_ref().and_then(|survey| survey.tag_at(txid))).await
            }
            Resume::After { txid, lineage, wal } => {
                let Some((_, header)) = survey.as_ref().and_then(|survey| survey.newest.as_ref()) else {
                    return Err(Error::Internal("a position without a capture".to_owned()));
                };
                let known =
                    remembered.as_ref().filter(|(facts, _)| facts.txid == txid && Some(facts.lineage) == lineage);
                let position = Position {
                    txid,
                    moment: Moment::from_millis(header.timestamp_ms),
                    page_size: header.page_size,
                    commit: header.commit,
                    wal,
                    file: known.and_then(|(_, position)| position.file),
                    state: known.and_then(|(_, position)| position.state),
                    held: false,
                    tag: Tag::after(header, Level::LOG),
                };
                self.continue_from(position, lineage, survey.as_ref()).await
            }
        }
    }

    /// Goes on from a position if the WAL proves it; else takes a base behind it.
    async fn continue_from(
        &mut self,
        mut position: Position,
        lineage: Option<Lineage>,
        survey: Option<&Survey>,
    ) -> Result<(), Error> {
        let own = self.stamp.lineage;
        self.stamp.lineage = lineage.unwrap_or(own);
        if self.ship_listed(position).await? {
            return Ok(());
        }
        self.stamp.lineage = own;
        let author = self.author();
        let mut look = self.on_source(move |source| capture::look(source, position, author)).await?;
        if matches!(look, Look::Unproved)
            && let Some(chain) = self.prove(survey, &position).await?
        {
            position.wal = position.wal.map(|wal| WalPosition { chain: Some(chain), ..wal });
            look = self.on_source(move |source| capture::look(source, position, author)).await?;
        }
        match look {
            Look::Clean(_) | Look::New(_) | Look::Unfinished => {
                // The object is made anew by the next drain, with the lineage that it belongs to.
                self.stamp.lineage = lineage.unwrap_or(self.stamp.lineage);
                self.arrive(position).await
            }
            Look::Unproved => self.take_base(position.txid, both(&position), Break::WalRewound, position.tag).await,
            Look::Broken(why) => self.take_base(position.txid, both(&position), why, position.tag).await,
        }
    }

    /// The newest point that can be restored from what is there, without the objects that aren't what was written.
    async fn last_restorable(&self, survey: &Survey, distrusted: &[Stored]) -> Result<Option<Point>, Error> {
        let files = missing::sound(&survey.listed, distrusted);
        match stretches(&files).last().and_then(|points| points.last()) {
            Some(txid) => survey::newest_point(self.engine.vault(), &files, *txid).await,
            None => Ok(None),
        }
    }

    async fn prove(&self, survey: Option<&Survey>, position: &Position) -> Result<Option<crate::wal::Chain>, Error> {
        let Some((file, header)) = survey.and_then(|survey| survey.newest) else { return Ok(None) };
        let Some(wal) = position.wal.filter(|_| file.size <= COMPARABLE) else { return Ok(None) };
        let vault = self.engine.vault();
        let object = vault.read(&file.key(Layout::of(vault)), None, COMPARABLE).await?;
        self.on_source(move |source| proof::chain_by_pages(source, wal, &header, &object)).await
    }

    /// Makes the capture beside a complete copy that an earlier run didn't come to; answers whether it did. A copy that
    /// is damaged is left alone: a base behind it follows.
    async fn pair_up(&self, survey: Option<&Survey>) -> Result<bool, Error> {
        let Some(copy) = survey.and_then(|survey| survey.unpaired) else { return Ok(false) };
        match ship::pair_up(self.engine.vault(), copy, self.engine.options().jobs).await {
            Ok(()) => Ok(true),
            Err(error @ (Error::Ltx { .. } | Error::Corrupt { .. })) => {
                tracing::error!(%error, "a complete copy in the vault is damaged");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Ships what an earlier run left in the spool, where it continues the vault; answers whether it did.
    async fn ship_spool(&mut self, survey: Option<&Survey>) -> Result<bool, Error> {
        let spool = self.spool.clone();
        let waiting = blocking(move || spool.captures()).await?;
        let mut newest = survey.and_then(|survey| survey.newest.as_ref()).map(|(_, header)| *header);
        let mut shipped = false;
        for txid in waiting {
            let spool = self.spool.clone();
            let header = blocking(move || spool.header(txid)).await?;
            if let Some(header) = header.filter(|header| newest.is_some_and(|newest| continues(&newest, header))) {
                ship::ship_spooled(self.engine.vault(), &self.log_key(txid), &self.spool, &header).await?;
                (newest, shipped) = (Some(header), true);
            }
            let spool = self.spool.clone();
            blocking(move || spool.remove(txid)).await?;
        }
        Ok(shipped)
    }

    fn log_key(&self, txid: Txid) -> seawall_vault::ObjectKey {
        file_key(Layout::of(self.engine.vault()), Level::LOG, txid, txid)
    }

    /// The first base: a complete copy 1-1, and an empty capture behind it.
    async fn take_first_base(&mut self) -> Result<(), Error> {
        self.tell(Phase::Base, None).await;
        let engine = self.engine;
        let _turn = engine.admission().base().await;
        let began = Instant::now();
        let base = self.freeze(Txid(1), Moment::from_millis(i64::MIN), None).await?;
        let (vault, jobs) = (self.engine.vault(), self.engine.options().jobs);
        let key = file_key(Layout::of(vault), Level::BASE, Txid(1), Txid(1));
        let copy = Arc::new(base.shipment(Txid(1)));
        let shipped = ship::ship(vault, &key, copy.clone(), jobs).await?;
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        engine.activity().bases.done(copy.pages.bytes(), began.elapsed());
        let seed = base.seed(next_txid(Some(Txid(1)))?);
        let shipped = ship::ship(vault, &self.log_key(seed.after.txid), Arc::new(seed.shipment), jobs).await?;
        self.made(Level::LOG, seed.after.txid, &seed.after, shipped);
        self.arrive(seed.after).await
    }

    /// A later base: a capture of all pages at the next TXID, and then the same as a complete copy. The capture comes first
    /// because its name is what writers race for: the copy of one that lost would stand under the captures of another.
    ///
    /// `last` is the newest point that was acknowledged, and the hole begins behind the newest point that can be restored.
    async fn take_base(
        &mut self,
        newest: Txid,
        (last, from): (Option<Point>, Option<Point>),
        why: Break,
        before: Option<Tag>,
    ) -> Result<(), Error> {
        self.tell(Phase::Base, None).await;
        self.stamp.lineage = Lineage::new(self.engine.random());
        let txid = next_txid(Some(newest))?;
        tracing::warn!(database = %self.engine.name(), txid = %txid, reason = why.reason(), "taking a new base");
        let not_before = last.as_ref().map_or(Moment::from_millis(i64::MIN), |point| point.moment);
        let engine = self.engine;
        let _turn = engine.admission().base().await;
        let began = Instant::now();
        let base = self.freeze(txid, not_before, before).await?;
        let (vault, jobs) = (self.engine.vault(), self.engine.options().jobs);
        holes::record(vault, from, txid, why, self.stamp).await?;
        let capture = Arc::new(base.shipment(txid));
        let shipped = ship::ship(vault, &self.log_key(txid), capture.clone(), jobs).await?;
        self.made(Level::LOG, txid, &base.after, shipped);
        let copy = file_key(Layout::of(vault), Level::BASE, Txid(1), txid);
        let shipped = ship::ship(vault, &copy, Arc::new(base.shipment(Txid(1))), jobs).await?;
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        engine.activity().bases.done(capture.pages.bytes(), began.elapsed());
        self.arrive(base.after).await
    }

    /// Notes an object that is in the vault now, from `min` to `after`, for whoever merges and deletes.
    fn made(&self, level: Level, min: Txid, after: &Position, shipped: Shipped) {
        let file = Stored { level, min, max: after.txid, size: shipped.size };
        self.engine.maintenance().made(file, after.moment, shipped.bytes);
    }

    async fn freeze(&mut self, txid: Txid, not_before: Moment, before: Option<Tag>) -> Result<capture::Base, Error> {
        let author = self.author();
        self.on_source(move |source| capture::prepare_base(source, txid, author, not_before, before)).await
    }

    /// Ships a capture and moves the position behind it. The same bytes are offered until the vault has them, so that
    /// an answer that got lost is found to be our own (I2). `false` when the WAL was restarted under the capture, which
    /// is then of no use.
    async fn ship(&mut self, capture: Capture) -> Result<bool, Error> {
        let Capture { shipment, after, .. } = capture;
        let shipment = Arc::new(shipment);
        let began = Instant::now();
        let mut backoff = BACKOFF;
        if self.engine.probe().has(Defect::AcknowledgesFirst) {
            self.arrive(after).await?;
        }
        loop {
            let key = self.log_key(after.txid);
            match ship::ship(self.engine.vault(), &key, shipment.clone(), self.engine.options().jobs).await {
                Ok(shipped) => {
                    self.made(Level::LOG, after.txid, &after, shipped);
                    self.engine.activity().captures.done(shipment.pages.bytes(), began.elapsed());
                    self.arrive(after).await?;
                    return Ok(true);
                }
                Err(Error::Restarted) => return Ok(false),
                Err(error) => self.wait_after(error, &mut backoff).await?,
            }
        }
    }

    /// Empties the WAL where it is due. Whoever only takes one point leaves the WAL as it is: an emptied one
    /// would be restarted, and the next point might need a base.
    ///
    /// Most of the WAL is copied into the database file, and shipped meanwhile, before the barrier is taken, so that
    /// writers wait for little; what a fast writer adds meanwhile becomes less from attempt to attempt.
    async fn empty_wal(&mut self) -> Result<(), Error> {
        for attempt in 0..seal::ATTEMPTS {
            let Some(position) = self.position.filter(|_| self.patience == Patience::Protecting) else { return Ok(()) };
            let put_off = self.is_put_off(&position);
            let limit = self.engine.options().wal_limit;
            if put_off && position.wal.is_some_and(|wal| wal.offset > limit) {
                let (path, _) = self.engine.place()?;
                return Err(Error::GaveUp { path, limit });
            }
            let idle = position.wal.is_some()
                && self.emptied == position.wal
                && !(attempt == 0 && seal::is_large(self.on_source(Source::wal_size).await?));
            if put_off || idle || attempt == 0 && !self.is_full(&position).await? {
                return Ok(());
            }
            let began = Instant::now();
            let copier = match self.on_source(Source::advance).await {
                Ok(copier) => copier,
                Err(error) => return self.uncopied(error).await,
            };
            self.position = Some(Position { held: false, ..position });
            let before = self.on_source(|source| source.copied()).await?;
            let (copied, shipped) = futures::join!(blocking(move || copier.copy()), self.ship_all());
            shipped?;
            let Some(position) = self.position else { return Ok(()) };
            let copied = match copied {
                Ok(copied) => copied,
                Err(error) => return self.uncopied(error).await,
            };
            if copied == Copied::Part && self.on_source(|source| source.copied()).await? == before {
                // A reader is in the way: before another commit it is of no use.
                self.emptied = position.wal;
                return Ok(());
            }
            match self.seal(position, attempt, None).await? {
                Attempt::Emptied(bytes) => {
                    self.emptied(bytes, began);
                    return Ok(());
                }
                Attempt::LeftAlone => return Ok(()),
                Attempt::NotNow(_) | Attempt::Locked => {}
            }
            tracing::debug!(database = %self.engine.name(), attempt, "the WAL can't be emptied now");
        }
        Ok(())
    }

    /// Counts that the WAL was emptied, and tells it in Litestream's words: there are programs that look for them.
    fn emptied(&self, bytes: u64, began: Instant) {
        self.engine.activity().checkpoints.done(bytes, began.elapsed());
        tracing::debug!(database = %self.engine.name(), msg = %"checkpoint", mode = %"PASSIVE", bytes, "the WAL was emptied");
    }

    /// Whether emptying was put off; what was put off at the lower price isn't, once the higher one is due.
    fn is_put_off(&self, position: &Position) -> bool {
        let wal = position.wal.map_or(0, |wal| wal.offset);
        is_ahead(self.emptying_put_off) && !self.is_urgent(wal, position)
    }

    fn is_urgent(&self, wal: u64, position: &Position) -> bool {
        seal::is_urgent(wal, &self.facts(position)) && !is_ahead(self.urgency_put_off)
    }

    /// Leaves the WAL as it is for a while, at the higher price too or only at the lower one: what is in it goes on being shipped.
    fn put_off(&mut self, why: &str, urgency: bool) {
        tracing::warn!(database = %self.engine.name(), "the WAL is not emptied now: {why}");
        let until = Some(Instant::now() + PUT_OFF);
        self.emptying_put_off = until;
        if urgency {
            self.urgency_put_off = until;
        }
    }

    /// What decides whether to empty the WAL, if nothing was written since the last capture.
    fn facts(&self, position: &Position) -> seal::Facts {
        let options = self.engine.options();
        seal::Facts {
            captured: position.wal.map_or(0, |wal| wal.offset),
            behind: false,
            threshold: u64::from(options.checkpoint_pages).saturating_mul(u64::from(position.page_size.get())),
            limit: options.wal_limit,
            file: 0,
        }
    }

    async fn is_full(&self, position: &Position) -> Result<bool, Error> {
        let facts = seal::Facts { file: self.on_source(Source::wal_size).await?, ..self.facts(position) };
        Ok(seal::due(facts) && seal::due(seal::Facts { behind: self.is_behind(0).await?, ..facts }))
    }

    /// One attempt to empty the WAL, of which some may have been read `ahead`. What isn't in the vault yet is shipped after it.
    async fn seal(&mut self, position: Position, attempt: usize, ahead: Option<Ahead>) -> Result<Attempt, Error> {
        let (author, spool) = (self.author(), self.spool.clone());
        let wal = ahead.as_ref().map(Ahead::end).or(position.wal).map_or(0, |wal| wal.offset);
        let price = seal::price(self.is_urgent(wal, &position), attempt, self.bounds);
        let prepare = move |source: &mut Source| seal::prepare(source, &spool, position, author, ahead, price.left);
        let (mut sealing, copier) = match self.on_source(prepare).await? {
            Prepared::NotNow(ahead) => return Ok(Attempt::NotNow(ahead)),
            Prepared::Locked => return Ok(Attempt::Locked),
            Prepared::Unkept(error) => return self.unkept(&error).await,
            Prepared::Ready(ready) => *ready,
        };
        // Where everything was copied when the hold moved, it doesn't hold what isn't captured.
        self.position = Some(Position { held: sealing.holds, ..position });
        let (capture, list) = sealing.last.take().map(|last| (last.capture, last.list)).unzip();
        let keep = blocking(move || list.map(Draft::keep).transpose());
        let work = async { futures::join!(blocking(move || copier.copy()), keep) };
        let (copied, kept) = match timeout(price.wait, work).await {
            Ok((Ok(copied), kept)) => (copied, kept),
            Ok((Err(error), _)) => {
                drop(sealing);
                return self.uncopied(error).await.map(|()| Attempt::LeftAlone);
            }
            Err(_elapsed) => {
                drop(sealing);
                if self.bounds.after_timeout(price) {
                    return Ok(Attempt::NotNow(None));
                }
                self.put_off("the disk takes longer than its users can wait", price.urgent);
                return Ok(Attempt::LeftAlone);
            }
        };
        if let Err(error) = kept {
            drop(sealing);
            return self.unkept(&error).await;
        }
        self.bounds.after_success(price);
        let (after, bytes) = (sealing.after, sealing.after.wal.map_or(0, |wal| wal.offset));
        // What stands in the way of our copying may be somebody else's, who has come to the end.
        let all = copied == Copied::All || self.on_source(|source| source.to_copy()).await? == Some(0);
        if all {
            // From here on the WAL may be another one, of which this position says nothing.
            self.position = Some(Position { held: false, ..position });
            self.on_source(move |source| sealing.finish(source)).await?;
        } else {
            // Somebody is in the way: the WAL stays as it is, and nobody waits any longer.
            drop(sealing);
            if price.urgent && copied == Copied::Part {
                self.urgency_put_off = Some(Instant::now() + PUT_OFF);
            }
        }
        match capture {
            Some(capture) if all => self.ship_sealed(capture.copied()).await?,
            Some(capture) => {
                self.forget_list().await?;
                self.ship(capture).await?;
            }
            None => self.position = Some(after),
        }
        if all || copied != Copied::Busy {
            self.emptied = after.wal;
        }
        Ok(match (all, copied) {
            (true, _) => Attempt::Emptied(bytes),
            (false, Copied::Busy) => Attempt::NotNow(None),
            (false, _) => Attempt::LeftAlone,
        })
    }

    /// The WAL can't be copied now: it stays, and the hold with it, where that may pass.
    async fn uncopied(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_passing() {
            return Err(error);
        }
        self.tell(Phase::Protecting, Some(&error)).await;
        self.put_off("it can't be copied", true);
        Ok(())
    }

    /// The list can't be kept on the local disk: the WAL stays.
    async fn unkept(&mut self, error: &Error) -> Result<Attempt, Error> {
        self.tell(Phase::Protecting, Some(error)).await;
        self.put_off("what was changed last can't be kept on the local disk", true);
        Ok(Attempt::LeftAlone)
    }

    async fn forget_list(&self) -> Result<(), Error> {
        let spool = self.spool.clone();
        blocking(move || spool.forget_list()).await
    }

    /// Ships what was sealed. The same bytes are offered until the vault has them (I2).
    ///
    /// Nobody can copy meanwhile, and writers notice (see [`Source::step_inside`]). So what takes longer, on its way to a store
    /// that is far or failing, goes into the spool first.
    async fn ship_sealed(&mut self, capture: Capture) -> Result<(), Error> {
        let Capture { shipment, after, .. } = capture;
        let shipment = Arc::new(shipment);
        let header = shipment.header;
        let (began, mut backoff) = (Instant::now(), BACKOFF);
        self.last_shipped = Some(began);
        if self.engine.probe().has(Defect::AcknowledgesFirst) {
            self.arrive(after).await?;
        }
        let near = self.engine.vault().scheme() == Scheme::File || shipment.pages.bytes() <= ship::SMALL;
        let mut kept = !near && self.keep_sealed(&shipment).await;
        // What the local disk didn't take once would only fill it again.
        let mut untried = near;
        loop {
            let (vault, key) = (self.engine.vault(), self.log_key(after.txid));
            let shipped = if kept {
                let size = ship::ship_spooled(vault, &key, &self.spool, &header).await;
                size.map(|size| Shipped { size, bytes: None })
            } else {
                ship::ship(vault, &key, shipment.clone(), self.engine.options().jobs).await
            };
            match shipped {
                Ok(shipped) => {
                    self.made(Level::LOG, after.txid, &after, shipped);
                    self.engine.activity().captures.done(shipment.pages.bytes(), began.elapsed());
                    let spool = self.spool.clone();
                    if let Err(error) =
                        blocking(move || spool.forget_list().and_then(|()| spool.remove(after.txid))).await
                    {
                        // The next start sees that it is in the vault.
                        tracing::warn!(database = %self.engine.name(), "what was spooled stays: {error}");
                    }
                    return self.arrive(after).await;
                }
                Err(error @ Error::Restarted) => return Err(error),
                Err(error) => {
                    if std::mem::take(&mut untried) && matches!(error, Error::Vault(_)) {
                        kept = self.keep_sealed(&shipment).await;
                    }
                    self.wait_after(error, &mut backoff).await?;
                }
            }
        }
    }

    /// Writes what was sealed to the spool, after which the hold may move on; answers whether that worked.
    async fn keep_sealed(&self, shipment: &Arc<Shipment>) -> bool {
        let (spool, shipment) = (self.spool.clone(), shipment.clone());
        // Should the session end meanwhile, this goes on: without the hold others would copy into the file that it reads.
        let held = self.source.clone();
        let keep = move || {
            let mut draft = spool.draft(shipment.header.max_txid)?;
            shipment.encode(|bytes| draft.write(bytes))?;
            draft.keep()?;
            drop(held);
            // A list of which this object is more than what it lists is worth more than the object at the next start.
            let listed = spool.listed().is_some_and(|sealed| sealed.header == shipment.header);
            if listed { spool.forget_list() } else { Ok(()) }
        };
        match blocking(keep).await {
            Ok(()) => {
                self.step_inside().await;
                true
            }
            Err(error) => {
                tracing::warn!(database = %self.engine.name(), "what was sealed can't be spooled: {error}");
                false
            }
        }
    }

    /// Ships what an earlier run had sealed and not shipped, together with what was written since: a list says which pages
    /// changed, and the database file has them. `false` where there is no such list, or nothing follows from it.
    async fn ship_listed(&mut self, position: Position) -> Result<bool, Error> {
        let spool = self.spool.clone();
        let sealed = blocking(move || Ok(spool.listed())).await?;
        let sealed = sealed.filter(|sealed| sealed.follows(&position, self.stamp.lineage));
        let author = self.author();
        let look = move |source: &mut Source| match &sealed {
            Some(sealed) => capture::look_behind_seal(source, position, sealed, author),
            None => Ok(None),
        };
        match self.on_source(look).await? {
            Some(capture) => self.ship_sealed(capture).await.map(|()| true),
            None => {
                // What can't be removed is not believed the next time either.
                if let Err(error) = self.forget_list().await {
                    tracing::warn!(database = %self.engine.name(), "an old list stays: {error}");
                }
                Ok(false)
            }
        }
    }

    /// Everything up to `position` is durable in the vault.
    async fn arrive(&mut self, position: Position) -> Result<(), Error> {
        self.position = Some(position);
        let several = self.on_source(|source| Ok(source.other_names())).await?;
        self.several = several.is_some();
        self.engine.arrived(position, self.stamp.lineage, several.is_some());
        self.tell(Phase::Protecting, several.as_ref()).await;
        Ok(())
    }

    /// That what was shipped is everything that is committed, as far as can be seen.
    ///
    /// # Errors
    /// When the file has other names, through which somebody may have written.
    pub(crate) async fn claim(&self) -> Result<(), Error> {
        self.on_source(|source| source.other_names().map_or(Ok(()), Err)).await
    }

    /// Writes the state record anew if somebody deleted it, and the lock beside it, if it could not be written, or if the
    /// upkeep has something to tell. Without a commit nothing else would.
    pub(crate) async fn keep_record(&mut self) {
        let several = self.on_source(|source| Ok(source.other_names().is_some())).await;
        if let Some(position) = self.position
            && several.is_ok_and(|several| several != self.several)
            && let Err(error) = self.arrive(position).await
        {
            tracing::debug!(database = %self.engine.name(), "its names are told later: {error}");
        }
        let (state_dir, read_back) = (self.state_dir.clone(), self.engine.read_back().clone());
        let as_known = move || Ok(Record::is_there(&state_dir) && read_back.is_known());
        let gone = async || blocking(as_known).await.is_ok_and(|known| !known);
        let unsaved = self.engine.unsaved().load(Ordering::Relaxed);
        if unsaved || self.engine.upkeep_has_news() || self.engine.clock_has_news() || gone().await {
            self.tell(Phase::Protecting, None).await;
        }
        if let Err(error) = self.record_doubts().await {
            tracing::debug!(database = %self.engine.name(), "the doubt about moments is recorded later: {error}");
        }
    }

    /// Records in the vault which moments of the history can't be believed, and takes that back where the clock was right (I17).
    pub(crate) async fn record_doubts(&self) -> Result<(), Error> {
        let Some(Position { txid, moment, .. }) = self.position else { return Ok(()) };
        let (clock, vault) = (self.engine.clock(), self.engine.vault());
        if let Some(recorded) = clock.refuted() {
            doubts::withdraw(vault, recorded).await?;
            clock.is_withdrawn();
        }
        if let Some(doubtful) = clock.unrecorded(moment) {
            doubts::record(vault, txid, doubtful, self.stamp).await?;
            clock.is_recorded(txid, doubtful);
        }
        Ok(())
    }

    async fn tell(&self, phase: Phase, error: Option<&Error>) {
        let phase = if self.several && phase == Phase::Protecting { Phase::Failing } else { phase };
        self.engine.tell(phase, error, self.stamp.lineage).await;
    }

    /// After a failure: waits and returns `Ok` where it makes sense to repeat, the failure otherwise.
    async fn wait_after(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        match error {
            // The WAL is another one now, and can't become yet another: look again soon.
            Error::Restarted => {
                sleep(RELOOK).await;
                return Ok(());
            }
            // What a first attempt can't find isn't away: it was never there.
            Error::Vault(seawall_vault::Error::Missing { .. }) if self.engine.is_new() => return Err(error),
            Error::Vault(seawall_vault::Error::Replaced { .. }) => return Err(error),
            Error::Vault(_) if self.patience == Patience::Protecting => {}
            _ => return Err(error),
        }
        self.pause_after(&error, backoff).await;
        Ok(())
    }

    async fn pause_after(&self, error: &Error, backoff: &mut Backoff) {
        self.engine.activity().captures.failed();
        self.tell(Phase::Failing, Some(error)).await;
        let wait = jittered(backoff.failed(), self.engine.random());
        tokio::select! {
            () = sleep(wait) => {}
            () = self.shutdown.graceful(), if !self.shutdown.requested() => {}
        }
    }
}

/// Whether a spooled capture is the direct continuation of the vault's newest one: of the same history, at the next
/// TXID, and from the place in the WAL where that one ends. Anything else belongs to another vault or another time.
fn continues(newest: &Header, spooled: &Header) -> bool {
    let lineage = |header: &Header| Stamp::read(header).map(|stamp| stamp.lineage);
    let start = (spooled.wal_salt1, spooled.wal_salt2, spooled.wal_offset);
    let end = (newest.wal_salt1, newest.wal_salt2, newest.wal_offset.saturating_add(newest.wal_size));
    lineage(newest).is_some()
        && lineage(newest) == lineage(spooled)
        && newest.max_txid.next() == Some(spooled.min_txid)
        && start == end
        && Tag::before(spooled).is_none_or(|tag| Some(tag) == Tag::after(newest, Level::LOG))
}

/// The newest point that is known to be in the vault or in the record.
fn last_point(survey: Option<&Survey>, local: Option<&Position>) -> Option<Point> {
    survey.and_then(|survey| survey.last.clone()).or_else(|| local.map(Position::point))
}

/// A position as the newest point and as the newest one that can be restored.
fn both(position: &Position) -> (Option<Point>, Option<Point>) {
    (Some(position.point()), Some(position.point()))
}

fn is_ahead(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}

/// Between half of and the whole `wait`.
fn jittered(wait: Duration, random: u64) -> Duration {
    let share = (random >> 40) as u32;
    wait / 2 + (wait / 2).mul_f64(f64::from(share) / f64::from(1 << 24))
}
