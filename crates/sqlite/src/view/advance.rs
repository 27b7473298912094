//! Follows a vault: finds what came behind the newest known point, and puts its pages over the known ones.
//!
//! The name of the next capture is known beforehand, so one request asks whether there is anything new. The levels are
//! listed after trouble and after a long silence, as a follower of files does (`follow`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_core::Failure;
use seawall_ltx::Txid;
use tokio::time::Instant;

use super::{Snapshot, View};
use crate::belonging::Facts;
use crate::bridge::{Bridge, bridge};
use crate::error::Error;
use crate::follow::step::{ask, belong};
use crate::heads::Heads;
use crate::object::Opened;
use crate::snapshot::open_all;
use crate::survey::{list, newest_from};
use crate::together;

/// How long nothing new is found before the vault is asked for other objects: the first and the longest time.
const SILENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// The most captures that are asked for at once.
const WINDOW: u64 = 16;

/// How often a vault must be seen to end before the known point: a listing may be late.
const BEHIND: u32 = 3;

/// What a view remembers between two looks.
#[derive(Debug)]
pub(crate) struct Following {
    /// Whether to list all levels at the next look.
    lost: bool,
    due: Instant,
    silence: Duration,
    behind: u32,
    /// When the last look was.
    looked: Instant,
}

impl Default for Following {
    fn default() -> Self {
        let now = Instant::now();
        Self { lost: false, due: now + SILENCE.0, silence: SILENCE.0, behind: 0, looked: now }
    }
}

impl View {
    /// Looks once whether the vault holds anything behind the newest known point, and takes it. One request if there is
    /// nothing. Answers whether there was. Snapshots that are in use stay as they are.
    ///
    /// # Errors
    /// A vault that doesn't answer or went back, objects that are damaged or don't belong to this history. The known point
    /// stays, and the next look lists the vault.
    pub async fn advance(&self) -> Result<bool, Failure> {
        let mut following = self.inner().following.lock().await;
        let before = self.newest();
        let Some(before) = before else { return Ok(false) };
        let now = Instant::now();
        // The next capture may have been merged and deleted since the last look: its name tells nothing then.
        if now.duration_since(following.looked) > SILENCE.0 {
            following.due = now;
        }
        following.looked = now;
        // A reader found that its point is gone.
        following.lost |= self.inner().lost.swap(false, Ordering::AcqRel);
        let stepped = self.step(&mut following, before.clone()).await;
        if let Err(error) = &stepped {
            following.lost = true;
            tracing::debug!(%error, "a view stays where it is");
        }
        stepped?;
        Ok(self.newest().is_some_and(|newest| !Arc::ptr_eq(&newest, &before)))
    }

    async fn step(&self, following: &mut Following, mut here: Arc<Snapshot>) -> Result<(), Error> {
        let vault = &self.inner().vault;
        let mut window = 1;
        while !following.lost {
            let at = here.end.file.max;
            let next = at.next().ok_or(Error::OutOfTxids(at))?;
            let (run, gap) = ask(vault, next, window).await?;
            if gap {
                following.lost = true;
                break;
            }
            if run.is_empty() {
                return self.notice_silence(following, here).await;
            }
            let ended = (run.len() as u64) < window;
            let heads = Heads::of(vault);
            let mut opened = Vec::with_capacity(run.len());
            for fetched in run.into_iter().rev() {
                opened.push(match fetched.whole() {
                    Some(whole) => Opened::of_whole(vault, fetched.file, whole.clone())?,
                    None => Opened::read(&heads, fetched.file).await?,
                });
            }
            here = self.take(&here, opened).await?;
            (following.silence, following.due) = (SILENCE.0, Instant::now() + SILENCE.0);
            if ended {
                return Ok(());
            }
            window = (window * 2).min(WINDOW);
        }
        self.cross(following, here).await
    }

    /// Puts objects, newest first, over the newest snapshot.
    async fn take(&self, here: &Arc<Snapshot>, newest_first: Vec<Opened>) -> Result<Arc<Snapshot>, Error> {
        let facts: Vec<Facts> =
            newest_first.iter().rev().map(|opened| Facts::of(&opened.file, &opened.header)).collect();
        belong(&self.inner().vault, Some(here.end), &facts).await?;
        let is_complete = facts.first().is_some_and(|first| first.file.min == Txid(1));
        let older = (!is_complete).then_some(&**here);
        if older.is_some() && newest_first.iter().any(|opened| opened.header.page_size != here.page_size) {
            let first = newest_first.last().map(|opened| opened.file).unwrap_or(here.end.file);
            return Err(crate::object::corrupt(&self.inner().vault, &first, "its page size is another one"));
        }
        let snapshot = Arc::new(Snapshot::over(self.inner(), older, newest_first)?);
        self.note_newest(&snapshot);
        Ok(snapshot)
    }

    /// Handles a look that found nothing. After a long silence, one listing tells whether nothing was written.
    async fn notice_silence(&self, following: &mut Following, here: Arc<Snapshot>) -> Result<(), Error> {
        if Instant::now() < following.due {
            return Ok(());
        }
        let at = here.end.file.max;
        if newest_from(self.vault(), at).await? == Some(at) {
            following.silence = (following.silence * 2).min(SILENCE.1);
            following.due = Instant::now() + following.silence;
            return Ok(());
        }
        self.cross(following, here).await
    }

    /// Lists all levels and continues with the objects that lead farthest.
    async fn cross(&self, following: &mut Following, here: Arc<Snapshot>) -> Result<(), Error> {
        let vault = self.vault();
        let at = here.end.file.max;
        let files = list(vault).await?;
        match bridge(&files, at) {
            Bridge::Level => {}
            Bridge::Objects(chain) => {
                let heads = Heads::keeping(vault);
                if chain.first().is_some_and(|first| first.min == Txid(1)) {
                    together::prove(&heads, &files, &chain).await?;
                }
                let opened = open_all(&heads, &chain).await?;
                self.take(&here, opened).await?;
            }
            Bridge::Broken(newest) => {
                return Err(Error::Unreachable {
                    vault: vault.url().to_owned(),
                    target: newest.to_string(),
                    why: format!("objects behind {at} are missing"),
                    next: "nothing, if they are still being uploaded: the view continues with the next complete copy"
                        .to_owned(),
                });
            }
            Bridge::Behind(newest) => {
                following.behind += 1;
                if following.behind < BEHIND {
                    following.lost = true;
                    return Ok(());
                }
                let vault = vault.url().to_owned();
                return Err(Error::WentBack { vault, at, newest: newest.unwrap_or_default() });
            }
        }
        *following = Following::default();
        Ok(())
    }
}
