//! Verification reads everything back: the chain, every index, every chunk, every frame.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_core::{Failure, Finding, Kind, Moment, Panicked, Point, Progress, Verification};
use seawall_vault::Vault;

use crate::catalog::is_of_object;
use crate::reader::SetReader;
use crate::{Catalog, Content, Error, Manifest, Tuples, timeline};

/// What an engine knows of its sets: whether a restore could open one.
#[async_trait]
pub trait Opens: std::fmt::Debug + Send + Sync {
    /// The engine of the sets that it knows.
    fn engine(&self) -> &'static str;

    /// Opens a set as a restore does, and touches no server. What is wrong with the set is a failure of
    /// [`Kind::Corrupt`].
    async fn open(&self, reader: Arc<SetReader>) -> Result<(), Failure>;
}

/// Reads every set back and checks digests, sizes, rows and the chain. The newest point is never a set with a finding.
pub async fn verify(
    vault: &Vault,
    now: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Verification, Error> {
    verify_with(vault, now, progress, jobs, &[]).await
}

/// The same, and opens the sets of these engines as their restores do.
pub(crate) async fn verify_with(
    vault: &Vault,
    now: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
    opens: &[Arc<dyn Opens>],
) -> Result<Verification, Error> {
    let catalog = Catalog::read(vault).await?;
    // A check that can't be done is no pass (I12).
    if let Some(error) = catalog.newest_sealed() {
        return Err(error.clone().into());
    }
    let mut verification =
        Verification { at: now, newest: None, objects: 0, bytes: 0, findings: catalog.findings(), doubts: Vec::new() };
    let misdated = catalog.misdated().map(|(id, said)| format!("{id}: {}", timeline::note_of_misdated(said)));
    verification.doubts.extend(misdated);
    let sets = catalog.sets();
    progress.begin("verify", Some(sets.iter().map(|(_, manifest)| manifest.totals.stored).sum()));
    let mut newest: Option<Point> = None;
    for (_, manifest) in sets {
        verification.objects += 1;
        let before = verification.findings.len();
        if let Some(reader) = verify_set(vault, manifest, Arc::clone(&progress), jobs, &mut verification).await?
            && let Some(opens) = opens.iter().find(|opens| opens.engine() == manifest.engine)
            && verification.findings.len() == before
            && let Err(failure) = opens.open(reader).await
        {
            verification.findings.push(unopened(failure)?);
        }
        if verification.findings.len() == before {
            newest = Some(timeline::point(manifest));
        }
    }
    progress.finish();
    verification.newest = newest;
    Ok(verification)
}

/// Reads one set back and adds its findings.
async fn verify_set(
    vault: &Vault,
    manifest: &Manifest,
    progress: Arc<dyn Progress>,
    jobs: usize,
    verification: &mut Verification,
) -> Result<Option<Arc<SetReader>>, Error> {
    let reader = match SetReader::open(vault.clone(), manifest.clone()).await {
        Ok(reader) => Arc::new(reader),
        Err(error) => {
            verification.findings.push(finding(error)?);
            return Ok(None);
        }
    };
    verification.objects += 1;
    verification.bytes += manifest.index.bytes;
    let chains = reader.index().chains();
    let checked = |chain| check(Arc::clone(&reader), chain, Arc::clone(&progress));
    let mut checks = Box::pin(stream::iter(chains).map(checked).buffered(jobs.max(1)));
    while let Some(Checked { objects, bytes, findings }) = checks.try_next().await? {
        verification.objects += objects;
        verification.bytes += bytes;
        verification.findings.extend(findings);
    }
    drop(checks);
    Ok(Some(reader))
}

/// What is wrong with a set that can't be opened; any other failure says nothing of it.
fn unopened(failure: Failure) -> Result<Finding, Error> {
    match failure.kind {
        Kind::Corrupt => Ok(Finding { code: failure.code, object: failure.object, cause: failure.cause }),
        _ => Err(Error::Unchecked(Box::new(failure))),
    }
}

/// The result of reading one chain of chunks.
#[derive(Default)]
struct Checked {
    objects: u64,
    bytes: u64,
    findings: Vec<Finding>,
}

/// Checks chunks whose rows continue from each to the next. Only reading in order tells where binary rows end.
async fn check(reader: Arc<SetReader>, chain: Vec<u32>, progress: Arc<dyn Progress>) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let mut chain = chain.into_iter().peekable();
    let mut open = Open::Nothing;
    while let Some(number) = chain.next() {
        match check_chunk(Arc::clone(&reader), number, open, chain.peek().is_some()).await {
            Ok((bytes, goes_on)) => {
                checked.objects += u64::from(bytes > 0);
                checked.bytes += bytes;
                progress.advance(bytes);
                open = goes_on;
            }
            Err(error) => {
                checked.findings.push(finding(error)?);
                open = Open::Lost;
            }
        }
    }
    Ok(checked)
}

/// A binary row that continues in the next frame.
enum Open {
    Nothing,
    /// A row of this item.
    Row(u32, Tuples),
    /// The row's end is unknown, because an earlier chunk is damaged, which is a finding already.
    Lost,
}

/// Reads a chunk and decompresses all of it; returns its bytes in the vault.
async fn check_chunk(reader: Arc<SetReader>, number: u32, open: Open, goes_on: bool) -> Result<(u64, Open), Error> {
    let (_, bytes) = reader.chunk(number).await?;
    let work = tokio::task::spawn_blocking(move || {
        let Some(chunk) = reader.index().chunks.get(number as usize) else { return Ok((0, Open::Nothing)) };
        let wrong = |cause: String| reader.object(number).map(|object| Error::corrupt(object, cause));
        let (mut raw, mut open) = (Vec::new(), open);
        for (frame, stored) in SetReader::frames(chunk, &bytes) {
            reader.decode(number, frame, &stored, &mut raw)?;
            let content = reader.index().items.get(frame.item as usize).map(|item| item.content);
            match rows(content, frame.item, &raw, &mut open) {
                Ok(Some(rows)) if rows != frame.rows => {
                    return Err(wrong(format!("a frame holds {rows} rows instead of {}", frame.rows))?);
                }
                Ok(_) => {}
                Err(cause) => return Err(wrong(format!("a frame: {cause}"))?),
            }
        }
        if matches!(open, Open::Row(..)) && !goes_on {
            return Err(wrong("its last row is cut off".to_owned())?);
        }
        Ok((bytes.len() as u64, open))
    });
    work.await.map_err(Panicked::from)?
}

/// How many rows end in a frame; `None` where that can't be counted.
fn rows(content: Option<Content>, item: u32, raw: &[u8], open: &mut Open) -> Result<Option<u64>, &'static str> {
    let mut tuples = match std::mem::replace(open, Open::Nothing) {
        Open::Row(other, _) if other != item => return Err("the row before it is cut off"),
        Open::Row(_, tuples) => tuples,
        Open::Lost if content == Some(Content::Tuples) => {
            *open = Open::Lost;
            return Ok(None);
        }
        Open::Nothing | Open::Lost => Tuples::default(),
    };
    match content {
        Some(Content::Lines) => Ok(Some(raw.iter().filter(|byte| **byte == b'\n').count() as u64)),
        Some(Content::Tuples) => {
            let rows = tuples.count(raw)?;
            if tuples.is_open() {
                *open = Open::Row(item, tuples);
            }
            Ok(Some(rows))
        }
        Some(Content::File | Content::Artefact | Content::Member) | None => Ok(None),
    }
}

/// An object that is wrong or missing is a finding; a vault that can't be asked is a failure (I12).
fn finding(error: Error) -> Result<Finding, Error> {
    let about_an_object = match &error {
        Error::Corrupt { .. } | Error::TooNew { .. } => true,
        Error::Vault(error) => {
            error.is_not_found()
                || is_of_object(error)
                || matches!(
                    error,
                    seawall_vault::Error::Corrupt { .. }
                        | seawall_vault::Error::TooLarge { .. }
                        | seawall_vault::Error::OutOfRange { .. }
                )
        }
        _ => false,
    };
    if !about_an_object {
        return Err(error);
    }
    let Failure { code, object, cause, .. } = error.into();
    Ok(Finding { code, object, cause })
}
