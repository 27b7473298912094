//! Carries out the merges that `compaction` decides on, one after the other.
//!
//! The inputs of a merge must belong together, and continue the object before them.

use seawall_core::{MadeObject, Maintained, PlannedObject};
use seawall_ltx::Txid;
use tokio::time::Instant;

use crate::belonging::Facts;
use crate::catalog::Dated;
use crate::compaction::{self, Job};
use crate::error::Error;
use crate::fetch::Fetched;
use crate::headers::is_locked;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::known::Maintenance;
use crate::layout::{Layout, Level, Stored};
use crate::merge::{Merged, merge};
use crate::survey::list_level;
use crate::{target, together};

impl Maintenance {
    /// Merges the objects that are due. A stranger stops only the merges that it touches: objects before it and objects
    /// after the next base are merged all the same.
    ///
    /// # Errors
    /// The error of the first stranger, after all other merges; any other error at once.
    pub(super) async fn merge_all(&self, done: &mut Maintained) -> Result<(), Error> {
        let (mut refused, mut last) = (None, None);
        loop {
            let job = compaction::due(&self.state().catalog, &self.schedule(), self.clock.now());
            // Objects set apart aren't chosen again. If the same job still comes back, repeating it would change
            // nothing.
            let Some(job) = job.filter(|job| last.as_ref() != Some(job)) else { return refused.map_or(Ok(()), Err) };
            match self.make(&job, done).await {
                Ok(()) => {}
                // Objects of another host, or of which this host forgot the keys. They stay as they are.
                Err(error) if is_locked(&error) => {
                    tracing::debug!(%error, "not merged");
                    let now = self.clock.now();
                    let mut state = self.state();
                    job.inputs.first().into_iter().for_each(|first| state.catalog.set_apart(*first));
                    state.unreadable(error, now);
                    last = Some(job);
                }
                Err(error) => {
                    let Error::Mixed { stranger, .. } = &error else { return Err(error) };
                    self.state().catalog.set_apart(*stranger);
                    refused.get_or_insert(error);
                    last = Some(job);
                }
            }
        }
    }

    /// Makes one object from others.
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

    /// The object that the inputs of a job must continue: the one that was merged into their level last, or the one
    /// before them in the vault.
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
            // A damaged or missing object proves nothing. A restore that needs it fails.
            (None, Some(before)) => together::helper(&Heads::of(&self.vault), &before).await,
            (None, None) => Ok(None),
        }
    }

    /// Makes a base of the newest point, if there is none. Takes several steps if there are more objects after the
    /// newest base than one merge takes.
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

    /// Checks that a listing has a merged object, and that nothing before it is missing.
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
}
