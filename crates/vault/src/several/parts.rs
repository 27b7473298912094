//! A streamed upload that goes to all vaults in step. The chunks of a part are shared, so memory doesn't grow with the
//! number of vaults. A vault that fails drops out, and is behind once the object is acknowledged.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::beyond;
use super::catch_up;
use super::decide::{grace, is_trouble, representative};
use super::fan::Failed;
use super::members::{Shared, Work};
use super::prints::{Print, sample_of};
use super::{fell_behind, probe, question::question, untagged};
use crate::counts::Operation;
use crate::settle::{self, Owner, Sample};
use crate::{Condition, Error, Multipart, ObjectKey, PutOptions, Tag};

/// The upload to one vault.
struct Sink {
    member: usize,
    upload: Box<dyn Multipart>,
    complete: bool,
}

/// An upload to several vaults.
pub(crate) struct SeveralUpload {
    shared: Arc<Shared>,
    key: ObjectKey,
    work: Work,
    sinks: Vec<Sink>,
    failed: Failed,
    sample: Sample,
    done: bool,
}

impl SeveralUpload {
    /// Begins an upload in every vault in step.
    pub(crate) async fn begin(
        shared: Arc<Shared>,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Self, Error> {
        let order = shared.in_step();
        let leader = order.first().copied();
        let begin = |i: usize| {
            let (shared, options) = (&shared, options.clone());
            async move { (i, begin_one(shared, (i, Some(i) == leader), key, options, in_flight).await) }
        };
        let begun = join_all(order.iter().map(|i| begin(*i))).await;
        let (mut sinks, mut failed) = (Vec::new(), Failed::new());
        for (i, begun) in begun {
            match begun {
                Ok(upload) => sinks.push(Sink { member: i, upload, complete: false }),
                // What the leading vault refuses is refused.
                Err(error) if !is_trouble(&error) && leader == Some(i) => return Err(error),
                Err(error) => failed.push((i, error)),
            }
        }
        if sinks.is_empty() {
            let errors = failed.into_iter().map(|(_, error)| error).collect();
            return Err(representative(errors).unwrap_or_else(|| shared.nobody()));
        }
        let work = if options.condition == Condition::Create { Work::Create } else { Work::Overwrite };
        let upload = Self { shared, key: key.clone(), work, sinks, failed, sample: Sample::default(), done: false };
        upload.shared.begin(std::slice::from_ref(key), upload.work, None).await;
        Ok(upload)
    }

    /// Gives a part to every vault that is left.
    async fn part(&mut self, part: &[Bytes], bytes: u64) -> Result<(), Error> {
        let shared = self.shared.clone();
        let several = self.sinks.len() > 1;
        let mut running: FuturesUnordered<_> = self
            .sinks
            .iter_mut()
            .map(|sink| {
                let (shared, part) = (&shared, part.to_vec());
                async move {
                    let retrier = &shared.vault(sink.member).inner.retrier;
                    let mut waits = retrier.waits(bytes);
                    loop {
                        match sink.upload.write(part.clone()).await {
                            Ok(()) => return (sink.member, Ok(())),
                            // With one vault left the caller repeats.
                            Err(error) if !several => return (sink.member, Err(error)),
                            Err(error) => {
                                if let Err(error) = waits.after(error).await {
                                    return (sink.member, Err(error));
                                }
                            }
                        }
                    }
                }
            })
            .collect();
        let (mut taken, mut failed) = (Vec::new(), Failed::new());
        let mut until = None;
        loop {
            tokio::select! {
                biased;
                next = running.next() => match next {
                    None => break,
                    Some((i, Ok(()))) => {
                        taken.push(i);
                        until = until.or_else(|| Some(Instant::now() + grace(bytes)));
                    }
                    Some((i, Err(error))) => failed.push((i, error)),
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => break,
            }
        }
        drop(running);
        if taken.is_empty() {
            let errors = failed.into_iter().map(|(_, error)| error).collect();
            return Err(representative(errors).unwrap_or_else(|| self.shared.nobody()));
        }
        let late: Vec<usize> = self.sinks.iter().map(|sink| sink.member).filter(|i| !taken.contains(i)).collect();
        for i in late {
            let known = failed.iter().find(|(failed, _)| *failed == i).map(|(_, error)| error.clone());
            self.drop_out(i, known.unwrap_or_else(|| Error::Timeout { object: self.object(i), after: grace(bytes) }));
        }
        Ok(())
    }

    fn object(&self, i: usize) -> String {
        self.shared.vault(i).object(&self.key)
    }

    fn drop_out(&mut self, i: usize, error: Error) {
        self.sinks.retain(|sink| sink.member != i);
        self.failed.push((i, error));
    }

    /// Completes the upload of one vault. `Ok(false)`: the object was there already, and is the same.
    async fn complete_one(shared: &Shared, key: &ObjectKey, sample: &Sample, sink: &mut Sink) -> Result<bool, Error> {
        let vault = shared.vault(sink.member);
        let (retrier, object) = (&vault.inner.retrier, vault.object(key));
        let mut waits = retrier.waits(sample.size.min(64 << 20));
        let error = loop {
            match retrier.patient(Operation::Upload, &object, sample.size.min(64 << 20), sink.upload.complete()).await {
                Ok(_) => {
                    sink.complete = true;
                    let size = vault.head(key).await?.map(|meta| meta.size);
                    return if size == Some(sample.size) { Ok(true) } else { Err(vault.vanished(key)) };
                }
                Err(error @ Error::Timeout { .. }) => break error,
                Err(error) => {
                    if let Err(error) = waits.after(error).await {
                        break error;
                    }
                }
            }
        };
        if !settle::is_unclear(&error) && !error.is_not_found() {
            return Err(error);
        }
        match owner(shared, sink.member, key, sample).await? {
            Owner::Ours => Ok(false),
            Owner::Theirs if settle::is_refusal(&error) => Err(error),
            Owner::Theirs => Err(Error::AlreadyExists { object }),
            Owner::Nobody if settle::is_refusal(&error) => Err(vault.vanished(key)),
            Owner::Nobody => Err(error),
        }
    }
}

async fn begin_one(
    shared: &Shared,
    (i, leads): (usize, bool),
    key: &ObjectKey,
    mut options: PutOptions,
    in_flight: usize,
) -> Result<Box<dyn Multipart>, Error> {
    probe(shared, i).await?;
    let vault = shared.vault(i);
    match &options.condition {
        Condition::Create if vault.looks_first() => {
            if vault.head(key).await?.is_some() {
                return Err(Error::AlreadyExists { object: vault.object(key) });
            }
            options.condition = Condition::Always;
        }
        // The leading vault decides.
        Condition::Match(tag) if leads => match untagged(tag) {
            Some((of, tag)) if of == i => options.condition = Condition::Match(tag),
            _ => return Err(Error::Precondition { object: vault.object(key) }),
        },
        Condition::Match(_) => options.condition = Condition::Always,
        Condition::Create | Condition::Always => {}
    }
    let store = shared.store(i);
    let call = || store.begin(key, &options, in_flight);
    vault.inner.retrier.run(Operation::Upload, vault.url(), 0, call).await
}

/// Whose object a vault has, from its size, its first and its last bytes.
async fn owner(shared: &Shared, i: usize, key: &ObjectKey, ours: &Sample) -> Result<Owner, Error> {
    let vault = shared.vault(i);
    let Some(meta) = vault.head(key).await? else { return Ok(Owner::Nobody) };
    if meta.size != ours.size {
        return Ok(Owner::Theirs);
    }
    let found = sample_of(vault, key, meta.size).await?;
    Ok(settle::sampled(ours, Some(&found)))
}

#[async_trait]
impl Multipart for SeveralUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        let bytes = part.iter().map(|chunk| chunk.len() as u64).sum();
        if let Some(throttle) = self.shared.throttle.clone() {
            throttle.take(bytes * (self.sinks.len() as u64).saturating_sub(1)).await;
        }
        self.part(&part, bytes).await?;
        part.iter().for_each(|chunk| self.sample.extend(chunk));
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        let shared = self.shared.clone();
        let _shared = shared.gate.read().await;
        let print = Print::of(&self.sample);
        if let Some(unsettled) = shared.state().unsettled.get_mut(&self.key) {
            unsettled.print = Some(print.clone());
        }
        let (mut fresh, mut held) = (true, Vec::new());
        // One after the other until one has it, as with whole objects; then all others at once.
        while held.is_empty() {
            let Some(sink) = self.sinks.first_mut() else {
                let errors = std::mem::take(&mut self.failed).into_iter().map(|(_, error)| error).collect();
                return Err(representative(errors).unwrap_or_else(|| shared.nobody()));
            };
            let i = sink.member;
            match Self::complete_one(&shared, &self.key, &self.sample, sink).await {
                Ok(first) => {
                    fresh = first;
                    held.push(i);
                }
                Err(error) if self.sinks.len() == 1 => return Err(error),
                // In a vault that was swapped for another one, the object in the way is no answer about this database.
                Err(error) if !is_trouble(&error) => match question(&shared, i).await {
                    Some(swapped) => self.drop_out(i, swapped),
                    None if beyond::leaves(&shared, i, std::slice::from_ref(&self.key)).await => {
                        let differs = shared.states().get(i).and_then(|state| state.error.clone());
                        self.drop_out(i, differs.unwrap_or(error));
                    }
                    None => return Err(error),
                },
                Err(error) => self.drop_out(i, error),
            }
        }
        let (key, sample) = (&self.key, &self.sample);
        let mut running: FuturesUnordered<_> = self
            .sinks
            .iter_mut()
            .filter(|sink| !held.contains(&sink.member))
            .map(|sink| {
                let shared = &shared;
                async move { (sink.member, Self::complete_one(shared, key, sample, sink).await) }
            })
            .collect();
        let limit = grace(sample.size.min(64 << 20));
        let until = Instant::now() + limit;
        let mut failed = Failed::new();
        while let Ok(Some((i, completed))) = tokio::time::timeout_at(until, running.next()).await {
            match completed {
                Ok(_) => held.push(i),
                Err(error) => failed.push((i, error)),
            }
        }
        drop(running);
        failed.append(&mut self.failed);
        // A vault that came in step since the upload began lacks the object, too.
        for i in shared.in_step() {
            if !held.contains(&i) && failed.iter().all(|(failed, _)| *failed != i) {
                failed.push((i, Error::Timeout { object: self.object(i), after: limit }));
            }
        }
        failed.retain(|(i, _)| !held.contains(i));
        fell_behind(&shared, failed).await;
        shared.done(std::slice::from_ref(&self.key), self.work, Some(print));
        self.done = true;
        shared.streamed.notify_one();
        shared.in_step().iter().for_each(|i| debug_assert!(held.contains(i), "a vault in step has the object"));
        for i in 0..shared.members.len() {
            if !shared.in_step().contains(&i) {
                catch_up::begin(&shared, i);
            }
        }
        if fresh {
            Ok(None)
        } else {
            Err(Error::AlreadyExists { object: self.object(held.first().copied().unwrap_or(0)) })
        }
    }

    async fn abort(&mut self) -> Result<(), Error> {
        let aborting = self.sinks.iter_mut().filter(|sink| !sink.complete).map(|sink| sink.upload.abort());
        let results = join_all(aborting).await;
        results.into_iter().collect()
    }
}

impl Drop for SeveralUpload {
    fn drop(&mut self) {
        if !self.done {
            self.shared.cut_off(std::slice::from_ref(&self.key));
        }
    }
}
