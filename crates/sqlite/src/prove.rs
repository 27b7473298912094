//! Reading everything back: every checksum of every object, the chain, and if asked for the digests.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::StreamExt;
use seawall_core::{Finding, Moment, Point, Progress, StrongVerification, Verification};
use seawall_ltx::Txid;
use seawall_vault::{Digest, Vault};

use crate::digests;
use crate::error::Error;
use crate::fetch::{self, Fetched, Reading};
use crate::layout::{Stored, digest_key};
use crate::legacy;
use crate::plan::{plan, stretches};
use crate::survey::list;
use crate::target::moment_of;

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// What is in the objects: their checksums, names and chain.
    Format,
    /// And their bytes, with the digests beside them.
    Digests,
}

/// Verifies a vault. An object that can't be read is a finding, never skipped (I12); one without a digest is told.
pub(crate) async fn verify(
    vault: &Vault,
    at: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
    strength: Strength,
) -> Result<StrongVerification, Error> {
    let (files, old) = tokio::try_join!(list(vault), legacy::list(vault))?;
    if files.is_empty() && old.is_empty() {
        return Err(Error::NothingThere { vault: vault.url().to_owned() });
    }
    let bytes = files.iter().map(|file| file.size).chain(old.iter().map(|object| object.bytes)).sum();
    progress.begin("verify", Some(bytes));
    let mut findings = Vec::new();
    let mut damaged: BTreeSet<String> = BTreeSet::new();
    let (mut compared, mut without_digest) = (0, Vec::new());
    let mut objects = fetch::ahead(vault, files.clone());
    while let Some(fetched) = objects.next().await {
        let (file, seen) = match fetched {
            Ok(fetched) => (fetched.file, examine(vault, fetched, jobs, strength).await),
            Err((file, error)) => (file, Err(error)),
        };
        let object = file.key(vault.layout()).to_string();
        compared += u64::from(matches!(seen, Ok(Seen::AsWritten | Seen::Other { .. })));
        let found = match seen {
            Ok(Seen::Sound | Seen::AsWritten) => None,
            Ok(Seen::WithoutDigest) => {
                without_digest.push(object.clone());
                None
            }
            Ok(Seen::Other { found, kept }) => Some(("sqlite.digest", differing(found, kept))),
            // The file is sound, and still proves what it holds.
            Ok(Seen::BadDigest(error)) => {
                let failure = error.failure();
                let object = digest_key(&file).to_string();
                findings.push(Finding { code: failure.code, object, cause: failure.cause });
                None
            }
            Err(error) => {
                let failure = error.failure();
                Some((failure.code, failure.cause))
            }
        };
        if let Some((code, cause)) = found {
            damaged.insert(object.clone());
            findings.push(Finding { code, object, cause });
        }
        progress.advance(file.size);
    }
    let (old_findings, old_newest) = legacy::verify(vault, &old, &progress).await?;
    progress.finish();
    findings.extend(gaps(vault, &files));
    findings.extend(old_findings);
    let objects = u64::try_from(files.len() + old.len()).unwrap_or(u64::MAX);
    let newest = newest_proved(vault, &files, &damaged).await?.or(old_newest);
    let verification = Verification { at, newest, objects, bytes, findings };
    Ok(StrongVerification { verification, compared, without_digest })
}

/// What an object that can be read turned out to be.
enum Seen {
    /// Nobody asked for its digest.
    Sound,
    AsWritten,
    Other {
        found: Digest,
        kept: Digest,
    },
    WithoutDigest,
    /// What should be its digest isn't one.
    BadDigest(Error),
}

/// Reads an object to its end, and compares its bytes with the digest beside it.
async fn examine(vault: &Vault, fetched: Fetched, jobs: usize, strength: Strength) -> Result<Seen, Error> {
    let file = fetched.file;
    let reading = Reading::new(vault, fetched, jobs);
    let mut reading = if strength == Strength::Digests { reading.digesting() } else { reading };
    while reading.next().await?.is_some() {}
    let digest = reading.digest();
    reading.finish()?;
    let Some(found) = digest else { return Ok(Seen::Sound) };
    Ok(match digests::kept(vault, &file).await {
        Ok(None) => Seen::WithoutDigest,
        Ok(Some(kept)) if kept == found => Seen::AsWritten,
        Ok(Some(kept)) => Seen::Other { found, kept },
        Err(error @ Error::BadDigest { .. }) => Seen::BadDigest(error),
        Err(error) => return Err(error),
    })
}

fn differing(found: Digest, kept: Digest) -> String {
    format!("its checksums are right, but its BLAKE3 is {found} and was {kept} when it was written")
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
