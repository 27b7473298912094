//! Reading everything back: every checksum of every object, and the chain.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::StreamExt;
use seawall_core::{Finding, Moment, Point, Progress, Verification};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::error::Error;
use crate::fetch::{self, Reading};
use crate::layout::Stored;
use crate::legacy;
use crate::plan::{plan, stretches};
use crate::survey::list;
use crate::target::moment_of;

/// Verifies a vault. An object that can't be read is a finding, never skipped (I12).
pub(crate) async fn verify(
    vault: &Vault,
    at: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Verification, Error> {
    let (files, old) = tokio::try_join!(list(vault), legacy::list(vault))?;
    if files.is_empty() && old.is_empty() {
        return Err(Error::NothingThere { vault: vault.url().to_owned() });
    }
    let bytes = files.iter().map(|file| file.size).chain(old.iter().map(|object| object.bytes)).sum();
    progress.begin("verify", Some(bytes));
    let mut findings = Vec::new();
    let mut damaged: BTreeSet<String> = BTreeSet::new();
    let mut objects = fetch::ahead(vault, files.clone());
    while let Some(fetched) = objects.next().await {
        let (file, read) = match fetched {
            Ok(fetched) => (fetched.file, read(Reading::new(vault, fetched, jobs)).await),
            Err((file, error)) => (file, Err(error)),
        };
        if let Err(error) = read {
            let failure = error.failure();
            let object = file.key(vault.layout()).to_string();
            damaged.insert(object.clone());
            findings.push(Finding { code: failure.code, object, cause: failure.cause });
        }
        progress.advance(file.size);
    }
    let (old_findings, old_newest) = legacy::verify(vault, &old, &progress).await?;
    progress.finish();
    findings.extend(gaps(vault, &files));
    findings.extend(old_findings);
    let objects = u64::try_from(files.len() + old.len()).unwrap_or(u64::MAX);
    let newest = newest_proved(vault, &files, &damaged).await?.or(old_newest);
    Ok(Verification { at, newest, objects, bytes, findings })
}

async fn read(mut reading: Reading) -> Result<(), Error> {
    while reading.next().await?.is_some() {}
    reading.finish().map(drop)
}

/// What can't be used, as findings.
fn gaps(vault: &Vault, files: &[Stored]) -> Vec<Finding> {
    let finding = |file: Stored| Finding {
        code: "sqlite.unreachable",
        object: file.key(vault.layout()).to_string(),
        cause: "it can't be used: objects before it are missing".to_owned(),
    };
    unreachable(files).into_iter().map(finding).collect()
}

/// Objects behind a gap, that no point needs and nothing replaces.
pub(crate) fn unreachable(files: &[Stored]) -> Vec<Stored> {
    let reachable: BTreeSet<Txid> = stretches(files).concat().into_iter().collect();
    let (used, rest): (Vec<&Stored>, Vec<&Stored>) = files.iter().partition(|file| reachable.contains(&file.max));
    // What was compacted into an object that is in use may be incomplete by itself: retention takes the oldest first.
    let replaced = |file: &Stored| used.iter().any(|by| by.min <= file.min && by.max >= file.max);
    rest.into_iter().filter(|file| !replaced(file)).copied().collect()
}

/// The newest point whose whole chain was read without a defect.
async fn newest_proved(vault: &Vault, files: &[Stored], damaged: &BTreeSet<String>) -> Result<Option<Point>, Error> {
    let sound: Vec<Stored> =
        files.iter().filter(|file| !damaged.contains(file.key(vault.layout()).as_str())).copied().collect();
    let Some(newest) = stretches(&sound).concat().last().copied() else { return Ok(None) };
    if plan(&sound, newest).is_err() {
        return Ok(None);
    }
    Ok(Some(Point { position: newest.to_string(), moment: moment_of(vault, &sound, newest).await? }))
}
