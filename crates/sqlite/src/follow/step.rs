//! One step of a follower: it finds the next objects, and puts them into its file.
//!
//! The follower knows the names of the next captures, and asks for them. If they are gone, it lists all levels; then
//! compacted objects or complete copies lead on (`bridge`). Before each step it checks that the objects continue each
//! other, and the state of the database (I14).

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_ltx::{Header, Txid};
use seawall_vault::Vault;
use tokio::time::{Instant, sleep};

use super::begin::{PATIENCE, refuse_deleted, resume, tell};
use super::follower::{Follower, SILENCE, Then};
use crate::assemble::{Assembly, Objects};
use crate::belonging::{Bond, Facts, Mixed};
use crate::bridge::{Bridge, bridge};
use crate::error::Error;
use crate::fetch::{self, Fetched};
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::layout::Level;
use crate::mark::{FollowRecord, Mark};
use crate::partial::unnamed;
use crate::standby::{Prepared, Standby};
use crate::survey::list;
use crate::together;

/// The most captures that are asked for at once.
const WINDOW: u64 = 16;

/// How often a vault must be seen to end before the follower: a listing may be late.
const BEHIND: u32 = 3;

impl Follower<'_> {
    pub(super) async fn step(&mut self) -> Result<Then, Error> {
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
        // Without events the next look waits for the interval, unless this one found so much that more is likely.
        Ok(if evented || (whole && several) { Then::Again } else { Then::Wait })
    }

    /// Lists all levels and continues with the objects that lead farthest.
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
                let heads = Heads::keeping(vault);
                let header = heads.header(newest).await?;
                let facts = together::gather(&heads, &chain).await?;
                if chain.first().is_some_and(|first| first.min.0 == 1) {
                    together::prove(&heads, &files, &chain).await?;
                }
                belong(self.setting.vault, self.here(&facts), &facts).await?;
                let newest = facts.last().copied().unwrap_or_else(|| Facts::of(newest, &header));
                let newest_first = chain.into_iter().rev().collect();
                self.take(&header, &newest, fetch::ahead(&heads, newest_first)).await?;
            }
            Bridge::Broken(newest) => {
                return Err(Error::Unreachable {
                    vault: vault.url().to_owned(),
                    target: newest.to_string(),
                    why: format!("objects behind {at} are missing"),
                    next: "nothing, if they are still being uploaded: following continues with the next complete copy"
                        .to_owned(),
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

    /// The facts that the first of these objects must continue.
    fn here(&self, facts: &[Facts]) -> Option<Facts> {
        facts.first().and_then(|first| self.at.facts(first))
    }

    /// Makes one step with captures that were fetched by name.
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

/// Refuses objects, oldest first, that don't continue each other or the state of the database (I14). The database stays
/// as it is.
pub(crate) async fn belong(vault: &Vault, here: Option<Facts>, facts: &[Facts]) -> Result<(), Error> {
    let pairs = here.iter().chain(facts).zip(facts.iter().skip(usize::from(here.is_none())));
    for (before, next) in pairs {
        if let Bond::Stranger(why) = together::bond(vault, before, next).await? {
            let mixed = Mixed { stranger: next.file, other: before.file, why };
            return Err(together::strangers(vault, &mixed));
        }
    }
    Ok(())
}

/// Asks for captures by name. Returns those up to the first missing one, and whether there is one after it.
pub(crate) async fn ask(vault: &Vault, next: Txid, window: u64) -> Result<(Vec<Fetched>, bool), Error> {
    let names = (0..window).filter_map(|n| next.0.checked_add(n)).map(Txid);
    let asked: Vec<_> = names.map(|txid| fetch::capture(vault.clone(), txid)).collect();
    let found: Vec<Option<Fetched>> = stream::iter(asked).buffered(WINDOW as usize).try_collect().await?;
    let gap = found.first().is_some_and(Option::is_none) && found.iter().any(Option::is_some);
    Ok((found.into_iter().map_while(|found| found).collect(), gap))
}
