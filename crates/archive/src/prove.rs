//! Reading everything back: the chain, every index, every chunk, every frame.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use seawall_core::{Failure, Finding, Moment, Point, Progress, Verification};
use seawall_vault::Vault;

use crate::reader::SetReader;
use crate::{Catalog, Content, Error, Manifest, timeline};

/// Reads every set back and checks digests, sizes, rows and the chain. A set with a finding can't be the newest point.
pub async fn verify(
    vault: &Vault,
    now: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Verification, Error> {
    let catalog = Catalog::read(vault).await?;
    let mut verification = Verification { at: now, newest: None, objects: 0, bytes: 0, findings: catalog.findings() };
    let sets = catalog.sets();
    progress.begin("verify", Some(sets.iter().map(|(_, manifest)| manifest.totals.stored).sum()));
    let mut newest: Option<Point> = None;
    for (_, manifest) in sets {
        verification.objects += 1;
        let before = verification.findings.len();
        verify_set(vault, manifest, &*progress, jobs, &mut verification).await?;
        if verification.findings.len() == before {
            newest = Some(timeline::point(manifest));
        }
    }
    progress.finish();
    verification.newest = newest;
    Ok(verification)
}

/// One set: its findings are added.
async fn verify_set(
    vault: &Vault,
    manifest: &Manifest,
    progress: &dyn Progress,
    jobs: usize,
    verification: &mut Verification,
) -> Result<(), Error> {
    let reader = match SetReader::open(vault.clone(), manifest.clone()).await {
        Ok(reader) => Arc::new(reader),
        Err(error) => {
            verification.findings.push(finding(error)?);
            return Ok(());
        }
    };
    verification.objects += 1;
    verification.bytes += manifest.index.bytes;
    let numbers = 0..u32::try_from(reader.index().chunks.len()).unwrap_or(u32::MAX);
    let mut checks =
        Box::pin(stream::iter(numbers).map(|number| check(Arc::clone(&reader), number)).buffered(jobs.max(1)));
    while let Some(checked) = checks.next().await {
        match checked {
            Ok(bytes) => {
                verification.objects += u64::from(bytes > 0);
                verification.bytes += bytes;
                progress.advance(bytes);
            }
            Err(error) => verification.findings.push(finding(error)?),
        }
    }
    Ok(())
}

/// Reads a chunk and decompresses all of it; returns its bytes in the vault.
async fn check(reader: Arc<SetReader>, number: u32) -> Result<u64, Error> {
    let (_, bytes) = reader.chunk(number).await?;
    let work = tokio::task::spawn_blocking(move || {
        let Some(chunk) = reader.index().chunks.get(number as usize) else { return Ok(0) };
        let mut raw = Vec::new();
        for (frame, stored) in SetReader::frames(chunk, &bytes) {
            reader.decode(number, frame, &stored, &mut raw)?;
            let item = reader.index().items.get(frame.item as usize);
            if item.is_some_and(|item| item.content == Content::Lines) {
                let lines = raw.iter().filter(|byte| **byte == b'\n').count() as u64;
                if lines != frame.rows {
                    let cause = format!("a frame holds {lines} rows instead of {}", frame.rows);
                    return Err(Error::corrupt(reader.object(number)?, cause));
                }
            }
        }
        Ok(bytes.len() as u64)
    });
    work.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))?
}

/// An object that is wrong or missing is a finding; a vault that can't be asked is a failure (I12).
fn finding(error: Error) -> Result<Finding, Error> {
    let about_an_object = match &error {
        Error::Corrupt { .. } | Error::TooNew { .. } => true,
        Error::Vault(error) => {
            error.is_not_found()
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
