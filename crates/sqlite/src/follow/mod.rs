//! Following: a restored database that is kept at the newest point of its vault, while others read it.
//!
//! The next capture has a name that is known beforehand, so looking for it is one read of exactly that object, and it
//! brings the object along; in a folder not even that, because an event tells of it. Several are asked for at once
//! while a follower is behind. Levels are listed at the start, after trouble, and when nothing came for long (30 s,
//! doubled up to 10 minutes: one listing of one object): then compacted objects and complete copies lead on where
//! captures are gone (`bridge`). What a step does to the file is in `standby`; where a crash leaves it, in `mark`.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

pub(crate) mod bridge;
pub(crate) mod mark;
pub(crate) mod standby;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Backoff, FollowRequest, Followed, Moment, Progress, Shutdown, When};
use seawall_host::Subscription;
use seawall_ltx::{Header, Txid};
use seawall_vault::Vault;
use tokio::time::{Instant, sleep};

use crate::assemble::{Assembly, Objects};
use crate::belonging::{Bond, Facts, Mixed};
use crate::bridge::{Bridge, bridge};
use crate::error::Error;
use crate::fetch::{self, Fetched};
use crate::layout::{Layout, Level, file_key};
use crate::lock::{self, Locks};
use crate::mark::{FollowRecord, Mark, replace};
use crate::restore::{Build, check_target, unnamed};
use crate::ship::blocking;
use crate::source::{resolved, sidecar};
use crate::standby::{Prepared, Standby, stamp_file};
use crate::survey::{list, newest_from, read_header};
use crate::{World, default_state_dir, target, together};

/// How long nothing may come before the vault is asked whether there is something else: from the first to the longest.
const SILENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// The most captures that are asked for at once.
const WINDOW: u64 = 16;

/// How long to wait after trouble: from the first to the longest.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// For how long one attempt keeps new readers out while others still read: from the first to the longest.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How often a vault must be seen to end before the follower: a listing may be late.
const BEHIND: u32 = 3;

/// What a follower is made of.
pub(crate) struct Setting<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) world: &'a World,
    pub(crate) jobs: usize,
    pub(crate) request: &'a FollowRequest,
    pub(crate) shutdown: &'a Shutdown,
    pub(crate) progress: Arc<dyn Progress>,
}

/// Follows until a graceful stop.
pub(crate) async fn follow(setting: Setting<'_>) -> Result<Followed, Error> {
    let output = resolved(&setting.request.output);
    let state_dir = default_state_dir(&output);
    let (path, folder) = (output.clone(), state_dir.clone());
    let _lock = blocking(move || {
        lock::private_dir(&folder)?;
        Locks::take_local(&path, &folder)
    })
    .await?;
    let mut follower = Follower::start(setting, output, state_dir).await?;
    follower.run().await?;
    Ok(Followed { point: follower.at.point, output: follower.output, steps: follower.steps })
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// There may be more at once.
    Again,
    /// Nothing, until there is a hint or the interval is over.
    Wait,
    /// The same again after a moment.
    Later,
}

struct Follower<'a> {
    setting: Setting<'a>,
    output: PathBuf,
    state_dir: PathBuf,
    record: FollowRecord,
    /// `None` after an error in the middle of a step: it is opened again, and says where it is.
    standby: Option<Standby>,
    at: Mark,
    /// How many captures are asked for at once.
    window: u64,
    /// When to list.
    due: Instant,
    silence: Duration,
    /// Whether to list all levels.
    lost: bool,
    /// A capture was damaged: other objects may lead on.
    distrust: bool,
    behind: u32,
    hints: Option<(Txid, Subscription)>,
    steps: u64,
}

impl<'a> Follower<'a> {
    async fn start(setting: Setting<'a>, output: PathBuf, state_dir: PathBuf) -> Result<Self, Error> {
        let (folder, path) = (state_dir.clone(), output.clone());
        let (record, exists) = blocking(move || {
            let exists = fs::metadata(&path).is_ok_and(|found| found.len() > 0);
            Ok((FollowRecord::load(&folder)?, exists))
        })
        .await?;
        let record = record.filter(|record| record.is_of(setting.vault.url()));
        let found = match record {
            Some(record) if exists => resume(&output, record).await,
            _ => Err(Error::TargetExists {
                path: output.clone(),
                what: "the file exists, and it doesn't follow this vault",
            }),
        };
        let (record, standby, at) = match found {
            Ok(found) => found,
            Err(Error::Diverged { .. } | Error::TargetExists { .. }) if !exists || setting.request.force => {
                make(&setting, &output, &state_dir).await?
            }
            Err(error) => return Err(error),
        };
        tracing::info!(database = %output.display(), position = %at.point.position, moment = %at.point.moment, "following");
        let follower = Self {
            setting,
            output,
            state_dir,
            record,
            standby: Some(standby),
            at,
            window: 1,
            due: Instant::now() + SILENCE.0,
            silence: SILENCE.0,
            lost: true,
            distrust: false,
            behind: 0,
            hints: None,
            steps: 0,
        };
        tell(&follower.setting, &follower.output, &follower.at).await?;
        Ok(follower)
    }

    async fn run(&mut self) -> Result<(), Error> {
        let shutdown = self.setting.shutdown;
        let (mut backoff, mut troubled) = (BACKOFF, false);
        while !shutdown.requested() {
            self.subscribe();
            let step = tokio::select! {
                step = self.step() => step,
                () = shutdown.immediate() => return Err(Error::Interrupted),
            };
            let wait = match step {
                Ok(then) => {
                    if std::mem::take(&mut troubled) {
                        tracing::info!(database = %self.output.display(), "following again");
                    }
                    backoff.worked();
                    match then {
                        Then::Again => continue,
                        Then::Wait => None,
                        Then::Later => Some(BACKOFF.first()),
                    }
                }
                Err(error) if ends(&error) => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut troubled, true) {
                        let failure = error.failure();
                        tracing::error!(database = %self.output.display(), code = failure.code, next = %failure.next, "{failure}");
                    }
                    self.lost = true;
                    Some(backoff.failed())
                }
            };
            let hints = self.hints.as_ref().map(|(_, hints)| hints).filter(|_| wait.is_none());
            let silence = self.due.saturating_duration_since(Instant::now());
            let evented = hints.is_some_and(Subscription::has_events);
            let most = wait.unwrap_or(if evented { silence } else { self.setting.request.interval });
            wait_for(most, hints, shutdown).await;
        }
        Ok(())
    }

    /// Watches for the next capture, in a vault that is a folder.
    fn subscribe(&mut self) {
        let (Some(watcher), Some(next)) = (&self.setting.world.watcher, self.next()) else { return };
        let Some(root) = self.setting.vault.folder().filter(|root| root.is_absolute()) else { return };
        if self.hints.as_ref().is_some_and(|(watched, hints)| *watched == next && hints.has_events()) {
            return;
        }
        let key = file_key(Layout::Files, Level::LOG, next, next);
        // The new one is there before the old one goes: the folder's watch stays.
        self.hints = Some((next, watcher.subscribe(&root.join(key.as_str()))));
    }

    fn next(&self) -> Option<Txid> {
        self.at.txid().and_then(Txid::next)
    }

    async fn step(&mut self) -> Result<Then, Error> {
        if self.lost {
            return self.cross().await;
        }
        let Some(next) = self.next() else { return Err(Error::OutOfTxids(Txid(u64::MAX))) };
        let (run, gap) = ask(self.setting.vault, next, self.window).await?;
        if gap {
            self.lost = true;
            return Ok(Then::Again);
        }
        if run.is_empty() {
            self.window = 1;
            return self.notice_silence().await;
        }
        let whole = run.len() as u64 == self.window;
        let several = self.window > 1;
        let mut headers = Vec::with_capacity(run.len());
        for fetched in &run {
            headers.push(
                fetched.header(self.setting.vault).await.map(|header| (Facts::of(&fetched.file, &header), header)),
            );
        }
        let objects = stream::iter(run.into_iter().rev().map(Ok)).boxed();
        let stepped = match headers.into_iter().collect::<Result<Vec<(Facts, Header)>, Error>>() {
            Ok(headers) => self.take_run(&headers, objects).await,
            Err(error) => Err(error),
        };

        if let Err(Error::Ltx { .. } | Error::Corrupt { .. }) = &stepped {
            self.distrust = true;
        }
        stepped?;
        self.window = if whole { (self.window * 2).min(WINDOW) } else { 1 };
        let evented = self.hints.as_ref().is_some_and(|(_, hints)| hints.has_events());
        // Without events the next look can wait for the interval, unless there was so much that there is likely more.
        Ok(if evented || (whole && several) { Then::Again } else { Then::Wait })
    }

    /// Nothing came. If that is so for long, one listing tells whether it is because nothing was written.
    async fn notice_silence(&mut self) -> Result<Then, Error> {
        let (Some(at), true) = (self.at.txid(), Instant::now() >= self.due) else { return Ok(Then::Wait) };
        if newest_from(self.setting.vault, at).await? == Some(at) {
            self.silence = (self.silence * 2).min(SILENCE.1);
            self.due = Instant::now() + self.silence;
            return Ok(Then::Wait);
        }
        self.lost = true;
        Ok(Then::Again)
    }

    /// Lists all levels and goes on with whatever leads farthest.
    async fn cross(&mut self) -> Result<Then, Error> {
        let vault = self.setting.vault;
        let at = self.at.txid().unwrap_or_default();
        let mut files = list(vault).await?;
        if std::mem::take(&mut self.distrust) {
            files.retain(|file| file.level != Level::LOG || file.max <= at);
        }
        match bridge(&files, at) {
            Bridge::Level => {}
            Bridge::Objects(chain) => {
                let newest = chain.last().ok_or_else(|| Error::Internal("a way on has no end".to_owned()))?;
                let header = read_header(vault, newest).await?;
                let facts = together::gather(vault, &chain).await?;
                if chain.first().is_some_and(|first| first.min.0 == 1) {
                    together::prove(vault, &files, &chain).await?;
                }
                belong(self.setting.vault, self.here(&facts), &facts).await?;
                let newest = facts.last().copied().unwrap_or_else(|| Facts::of(newest, &header));
                let newest_first = chain.into_iter().rev().collect();
                self.take(&header, &newest, fetch::ahead(vault, newest_first)).await?;
            }
            Bridge::Broken(newest) => {
                return Err(Error::Unreachable {
                    vault: vault.url().to_owned(),
                    target: newest.to_string(),
                    why: format!("objects behind {at} are missing"),
                    next: "nothing, if they are still on their way: it goes on with the next complete copy".to_owned(),
                });
            }
            Bridge::Behind(newest) => {
                self.behind += 1;
                if self.behind < BEHIND {
                    return Ok(Then::Later);
                }
                let vault = vault.url().to_owned();
                return Err(Error::WentBack { vault, at, newest: newest.unwrap_or_default() });
            }
        }
        (self.lost, self.behind) = (false, 0);
        (self.silence, self.due) = (SILENCE.0, Instant::now() + SILENCE.0);
        Ok(Then::Again)
    }

    /// What the first of these objects must go on from.
    fn here(&self, facts: &[Facts]) -> Option<Facts> {
        facts.first().and_then(|first| self.at.facts(first))
    }

    /// Makes one step with captures that were asked for by their names.
    async fn take_run(&mut self, headers: &[(Facts, Header)], objects: Objects) -> Result<(), Error> {
        let facts: Vec<Facts> = headers.iter().map(|(facts, _)| *facts).collect();
        belong(self.setting.vault, self.here(&facts), &facts).await?;
        let newest = headers.last().ok_or_else(|| Error::Internal("a run that isn't empty has no end".to_owned()))?;
        self.take(&newest.1, &newest.0, objects).await
    }

    /// Makes one step with these objects, newest first: all of them or nothing.
    async fn take(&mut self, newest: &Header, end: &Facts, objects: Objects) -> Result<(), Error> {
        refuse_deleted(self.setting.vault, newest)?;
        let (path, header) = (self.output.clone(), *newest);
        let mut assembly = blocking(move || {
            let file = unnamed(&path)?;
            Assembly::new(file, &path, &header).map_err(Error::io(&path))
        })
        .await?;
        assembly.fill(self.setting.vault, objects, &self.setting.progress, self.setting.jobs).await?;
        let standby = match self.standby.take() {
            Some(standby) => standby,
            None => {
                let (record, standby, at) = resume(&self.output, self.record.clone()).await?;
                (self.record, self.at) = (record, at);
                standby
            }
        };
        let mark = self.mark(end);
        self.record = FollowRecord::before(self.setting.vault.url(), Some(self.at.clone()), mark.clone());
        let (record, state_dir, counter) = (self.record.clone(), self.state_dir.clone(), mark.counter);
        let (standby, step) = blocking(move || {
            let step = standby.prepare(assembly, counter)?;
            record.save(&state_dir)?;
            Ok((standby, step))
        })
        .await?;
        if !self.enter(standby, step).await? {
            return Ok(());
        }
        tracing::debug!(database = %self.output.display(), position = %mark.point.position, "followed");
        self.at = mark;
        self.steps += 1;
        (self.silence, self.due) = (SILENCE.0, Instant::now() + SILENCE.0);
        tell(&self.setting, &self.output, &self.at).await
    }

    /// Makes a prepared step as soon as readers let us; `false` if we were asked to stop before that.
    async fn enter(&mut self, standby: Standby, step: Prepared) -> Result<bool, Error> {
        let (mut standby, mut step, mut patience, mut told) = (standby, step, PATIENCE.0, false);
        loop {
            let (back, left) = blocking(move || {
                let left = standby.commit(step, patience)?;
                Ok((standby, left))
            })
            .await?;
            standby = back;
            let Some(left) = left else {
                self.standby = Some(standby);
                return Ok(true);
            };
            if patience == PATIENCE.1 && !std::mem::replace(&mut told, true) {
                tracing::warn!(database = %self.output.display(), "changes wait for a reader that doesn't end");
            }
            step = left;
            tokio::select! {
                () = sleep(patience) => {}
                () = self.setting.shutdown.graceful() => {
                    step.discard();
                    self.standby = Some(standby);
                    return Ok(false);
                }
            }
            patience = (patience * 2).min(PATIENCE.1);
        }
    }

    fn mark(&self, newest: &Facts) -> Mark {
        loop {
            let mark = Mark::new(newest, (self.setting.world.random)());
            if mark.counter != self.at.counter {
                return mark;
            }
        }
    }
}

/// Refuses objects, oldest first, that don't go on from each other, or from where the database is (I14): it stays as it is.
async fn belong(vault: &Vault, here: Option<Facts>, facts: &[Facts]) -> Result<(), Error> {
    let pairs = here.iter().chain(facts).zip(facts.iter().skip(usize::from(here.is_none())));
    for (before, next) in pairs {
        if let Bond::Stranger(why) = together::bond(vault, before, next).await? {
            let mixed = Mixed { stranger: next.file, other: before.file, why };
            return Err(together::strangers(vault, &mixed));
        }
    }
    Ok(())
}

/// Writes the position where Litestream's follower has it, if that was asked for.
async fn tell(setting: &Setting<'_>, output: &Path, at: &Mark) -> Result<(), Error> {
    if !setting.request.position_file {
        return Ok(());
    }
    let (path, text) = (sidecar(output, "-txid"), format!("{}\n", at.point.position));
    blocking(move || replace(&path, text.as_bytes()).map_err(Error::io(&path))).await
}

/// Asks for captures by their names; those that are there without a break, and whether there is one behind a break.
async fn ask(vault: &Vault, next: Txid, window: u64) -> Result<(Vec<Fetched>, bool), Error> {
    let names = (0..window).filter_map(|n| next.0.checked_add(n)).map(Txid);
    let asked: Vec<_> = names.map(|txid| fetch::capture(vault.clone(), txid)).collect();
    let found: Vec<Option<Fetched>> = stream::iter(asked).buffered(WINDOW as usize).try_collect().await?;
    let gap = found.first().is_some_and(Option::is_none) && found.iter().any(Option::is_some);
    Ok((found.into_iter().map_while(|found| found).collect(), gap))
}

/// Waits for `most`, for a hint or for the end.
async fn wait_for(most: Duration, hints: Option<&Subscription>, shutdown: &Shutdown) {
    let hint = async {
        match hints {
            Some(hints) => hints.changed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleep(most) => {}
        () = hint => {}
        () = shutdown.graceful() => {}
    }
}

/// What someone has to do something about.
fn ends(error: &Error) -> bool {
    error.is_final()
        || matches!(
            error,
            Error::Diverged { .. } | Error::WentBack { .. } | Error::Vanished { .. } | Error::Interrupted
        )
}

/// Goes on with a file that an earlier follower made.
async fn resume(output: &Path, record: FollowRecord) -> Result<(FollowRecord, Standby, Mark), Error> {
    let path = output.to_owned();
    blocking(move || {
        let standby = Standby::open(&path, PATIENCE.1)?;
        let found = record.find(standby.counter()).cloned();
        let mark = found.ok_or(Error::Diverged { path })?;
        Ok((record, standby, mark))
    })
    .await
}

/// Restores the newest state into a file that can be kept up.
async fn make(setting: &Setting<'_>, output: &Path, state_dir: &Path) -> Result<(FollowRecord, Standby, Mark), Error> {
    let (path, force) = (output.to_owned(), setting.request.force);
    blocking(move || check_target(&path, force)).await?;
    let vault = setting.vault;
    // Until the file has its name a stop leaves nothing.
    let (build, header, newest) = tokio::select! {
        built = build(setting, output) => built?,
        () = setting.shutdown.graceful() => return Err(Error::Interrupted),
    };
    let mark = Mark::new(&newest, (setting.world.random)());
    let record = FollowRecord::before(vault.url(), None, mark.clone());
    let (integrity, path, state_dir) = (setting.request.integrity, output.to_owned(), state_dir.to_owned());
    let record = blocking(move || {
        stamp_file(build.file(), header.commit, mark.counter).map_err(Error::io(&path))?;
        // Before the file has its name: a file that is there can be gone on with.
        record.save(&state_dir)?;
        build.finish(integrity, force)?;
        Ok(record)
    })
    .await?;
    // Somebody may have written to it since it has its name.
    resume(output, record).await
}

/// Puts the newest state together, under a temporary name.
async fn build(setting: &Setting<'_>, output: &Path) -> Result<(Build, Header, Facts), Error> {
    let vault = setting.vault;
    let chain = target::find(vault, &When::Latest, Moment::default()).await?;
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
    let header = read_header(vault, newest).await?;
    refuse_deleted(vault, &header)?;
    let facts = Facts::of(newest, &header);
    let path = output.to_owned();
    let mut build = blocking(move || Build::create(&path, &header)).await?;
    setting.progress.begin("restore", Some(chain.iter().map(|file| file.size).sum()));
    build.fill(vault, chain, &setting.progress, setting.jobs).await?;
    setting.progress.finish();
    Ok((build, header, facts))
}

fn refuse_deleted(vault: &Vault, newest: &Header) -> Result<(), Error> {
    if newest.commit > 0 {
        return Ok(());
    }
    let object = format!("{} at {}", vault.url(), newest.max_txid);
    Err(Error::Corrupt { object, what: "the database was deleted at this point".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_following() {
        let path = PathBuf::from("x");
        assert!(ends(&Error::Diverged { path: path.clone() }));
        assert!(ends(&Error::Vanished { path: path.clone() }));
        assert!(!ends(&Error::NothingThere { vault: "v".into() }));
        assert!(!ends(&Error::Corrupt { object: "o".into(), what: "w".into() }));
    }
}
