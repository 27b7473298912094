//! Reads everything back: every checksum of every object, the chain, and on request the digests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::StreamExt;
use seawall_core::{Failure, Finding, Moment, Point, Progress, StrongVerification, Verification};
use seawall_ltx::{Summary, Txid};
use seawall_vault::{Digest, Vault};

use crate::belonging::{Bond, Doubt, Facts, Mixed, same_end};
use crate::error::Error;
use crate::fetch::{self, Fetched, Reading};
use crate::heads::Heads;
use crate::layout::{Layout, Stored, digest_key};
use crate::plan::{plan, stretches};
use crate::survey::list;
use crate::target::moment_of;
use crate::{digests, legacy, target, together};

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// The content of the objects: their checksums, names and chain.
    Format,
    /// Also their bytes, compared with the digests.
    Digests,
}

/// Verifies a vault. `recorded` is its acknowledged position, if it is known here. An object that can't be read is a
/// finding, and is never skipped (I12). An object without a digest is reported.
pub(crate) async fn verify(
    vault: &Vault,
    at: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
    strength: Strength,
    recorded: Option<Txid>,
) -> Result<StrongVerification, Error> {
    let (files, old) = tokio::try_join!(list(vault), async { Ok(legacy::list(vault).await) })?;
    // What isn't verified is a finding (I12).
    let endless = match &old {
        Ok(replica) => replica.cut.clone().map(|error| Error::from(error).failure()),
        Err(error) => Some(error.failure()),
    };
    let (old, passed_over) = legacy::or_doubt(old, !files.is_empty())?;
    let old = old.objects;
    if files.is_empty() && old.is_empty() {
        return Err(Error::NothingThere { vault: vault.url().to_owned() });
    }
    let bytes = files.iter().map(|file| file.size).chain(old.iter().map(|object| object.bytes)).sum();
    progress.begin("verify", Some(bytes));
    let endless = endless.filter(|_| passed_over.is_some());
    let finding = |Failure { code, object, cause, .. }| Finding { code, object, cause };
    let mut findings: Vec<Finding> = endless.map(finding).into_iter().collect();
    let mut damaged: BTreeSet<String> = BTreeSet::new();
    let (mut compared, mut without_digest, mut facts) = (0, Vec::new(), Vec::new());
    let mut objects = fetch::ahead(&Heads::of(vault), files.clone());
    while let Some(fetched) = objects.next().await {
        let (file, seen) = match fetched {
            Ok(fetched) => (fetched.file, examine(vault, fetched, jobs, strength).await),
            Err((file, error)) => (file, Err(error)),
        };
        let object = file.key(Layout::of(vault)).to_string();
        let seen = seen.map(|(seen, summary)| {
            facts.push(Facts::of(&file, &summary.header).with_end(summary.trailer.post_apply));
            seen
        });
        compared += u64::from(matches!(seen, Ok(Seen::AsWritten | Seen::Other { .. })));
        let found = match seen {
            Ok(Seen::Sound | Seen::AsWritten) => None,
            Ok(Seen::WithoutDigest) => {
                without_digest.push(object.clone());
                None
            }
            Ok(Seen::Other { found, kept }) => Some(("sqlite.digest", differing(found, kept))),
            // The file is sound, and still counts as proved.
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
    // Litestream keeps no digests of its objects.
    if strength == Strength::Digests {
        without_digest.extend(old.iter().map(|object| object.key().to_string()));
    }
    let (old_findings, old_newest) = legacy::verify(vault, &old, &progress).await?;
    progress.finish();
    findings.extend(gaps(vault, &files));
    let end = files.iter().map(|file| file.max).max().unwrap_or_default();
    if let Some(recorded) = recorded.filter(|recorded| end < *recorded) {
        let early = Error::EndsEarly { vault: vault.url().to_owned(), newest: end, recorded };
        let Failure { code, object, cause, .. } = early.failure();
        findings.push(Finding { code, object, cause });
    }
    let bonds = bonds(vault, &facts).await?;
    let mut named = BTreeSet::new();
    for mixed in &bonds.strangers {
        let failure = together::strangers(vault, mixed).failure();
        let object = mixed.stranger.key(Layout::of(vault)).to_string();
        damaged.insert(object.clone());
        if named.insert(object.clone()) {
            findings.push(Finding { code: failure.code, object, cause: failure.cause });
        }
    }
    let doubts = bonds.doubts.into_iter().map(|(doubt, count)| doubt.sentence(&target::objects(count))).collect();
    findings.extend(old_findings);
    let objects = u64::try_from(files.len() + old.len()).unwrap_or(u64::MAX);
    let newest = newest_proved(vault, &files, &damaged).await?.or(old_newest);
    let verification = Verification { at, newest, objects, bytes, findings, doubts };
    Ok(StrongVerification { verification, compared, without_digest })
}

/// The result for an object that can be read.
pub(crate) enum Seen {
    /// Sound; its digest wasn't asked for.
    Sound,
    AsWritten,
    Other {
        found: Digest,
        kept: Digest,
    },
    WithoutDigest,
    /// The recorded digest isn't valid.
    BadDigest(Error),
}

/// Reads an object to its end, and compares its bytes with the digest beside it.
pub(crate) async fn examine(
    vault: &Vault,
    fetched: Fetched,
    jobs: usize,
    strength: Strength,
) -> Result<(Seen, Summary), Error> {
    let file = fetched.file;
    let reading = Reading::new(vault, fetched, jobs);
    let mut reading = if strength == Strength::Digests { reading.digesting() } else { reading };
    while reading.next().await?.is_some() {}
    let digest = reading.digest();
    let summary = reading.finish()?;
    let Some(found) = digest else { return Ok((Seen::Sound, summary)) };
    if vault.is_authentic() {
        // Reading the object to its end proved more than a digest beside it could.
        return Ok((Seen::AsWritten, summary));
    }
    let seen = match digests::kept(vault, &file).await {
        Ok(None) => Seen::WithoutDigest,
        Ok(Some(kept)) if kept == found => Seen::AsWritten,
        Ok(Some(kept)) => Seen::Other { found, kept },
        Err(error @ Error::BadDigest { .. }) => Seen::BadDigest(error),
        Err(error) => return Err(error),
    };
    Ok((seen, summary))
}

/// The relations of a vault's objects.
#[derive(Default)]
struct Bonds {
    strangers: Vec<Mixed>,
    doubts: BTreeMap<Doubt, usize>,
}

/// Compares each object with the objects that end right before it and with those that end where it ends, and each
/// complete copy with the newest object before it.
async fn bonds(vault: &Vault, facts: &[Facts]) -> Result<Bonds, Error> {
    let mut ends: BTreeMap<Txid, Vec<&Facts>> = BTreeMap::new();
    facts.iter().for_each(|facts| ends.entry(facts.file.max).or_default().push(facts));
    let mut found = Bonds::default();
    for next in facts {
        let twins = ends.get(&next.file.max).into_iter().flatten().filter(|twin| twin.file.level < next.file.level);
        let mut bonds: Vec<(&Facts, Bond)> = twins.map(|twin| (*twin, same_end(twin, next))).collect();
        let before = match next.file.min.0 {
            1 => ends.range(..next.file.max).next_back().map(|(_, before)| before),
            _ => ends.get(&Txid(next.file.min.0 - 1)),
        };
        for before in before.into_iter().flatten() {
            bonds.push((before, together::bond(vault, before, next).await?));
        }
        for (other, bond) in &bonds {
            if let Bond::Stranger(why) = bond {
                found.strangers.push(Mixed::new(other, next, *why, facts.iter()));
            }
        }
        let proved = bonds.iter().any(|(_, bond)| *bond == Bond::Proved);
        let doubt =
            bonds.iter().filter_map(|(_, bond)| if let Bond::Unknown(doubt) = bond { Some(*doubt) } else { None });
        if let Some(doubt) = doubt.max().filter(|_| !proved) {
            *found.doubts.entry(doubt).or_default() += 1;
        }
    }
    Ok(found)
}

pub(crate) fn differing(found: Digest, kept: Digest) -> String {
    format!("its checksums are right, but its BLAKE3 is {found} and was {kept} when it was written")
}

/// Objects that can't be used, as findings.
fn gaps(vault: &Vault, files: &[Stored]) -> Vec<Finding> {
    let finding = |file: Stored| Finding {
        code: "sqlite.unreachable",
        object: file.key(Layout::of(vault)).to_string(),
        cause: "it can't be used: objects before it are missing".to_owned(),
    };
    unreachable(files).into_iter().map(finding).collect()
}

/// The objects of a vault that no restore can use, because objects before them are missing.
///
/// # Errors
/// When the vault can't be listed.
pub async fn unusable(vault: &Vault) -> Result<Option<Unusable>, Failure> {
    let files = list(vault).await.map_err(|error| error.failure())?;
    let objects = unreachable(&files);
    Ok(objects.first().map(|first| Unusable {
        first: first.key(Layout::of(vault)).to_string(),
        count: objects.len() as u64,
        bytes: objects.iter().fold(0, |sum, file| sum.saturating_add(file.size)),
    }))
}

/// Objects that no restore can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The key of the first.
    pub first: String,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Objects after a gap that no point needs and nothing replaces.
pub(crate) fn unreachable(files: &[Stored]) -> Vec<Stored> {
    let reachable: BTreeSet<Txid> = stretches(files).concat().into_iter().collect();
    let (used, rest): (Vec<&Stored>, Vec<&Stored>) = files.iter().partition(|file| reachable.contains(&file.max));
    // Objects that were merged into an object in use may be incomplete: retention deletes the oldest first. There may be millions of
    // either, so for each first TXID the last one is known that an object in use reaches from there or before.
    let mut reaches: BTreeMap<Txid, Txid> = BTreeMap::new();
    for by in &used {
        let reach = reaches.entry(by.min).or_insert(by.max);
        *reach = by.max.max(*reach);
    }
    let mut furthest = Txid(0);
    for reach in reaches.values_mut() {
        furthest = furthest.max(*reach);
        *reach = furthest;
    }
    let replaced = |file: &Stored| reaches.range(..=file.min).next_back().is_some_and(|(_, reach)| *reach >= file.max);
    rest.into_iter().filter(|file| !replaced(file)).copied().collect()
}

/// The newest point whose whole chain was read without a defect.
async fn newest_proved(vault: &Vault, files: &[Stored], damaged: &BTreeSet<String>) -> Result<Option<Point>, Error> {
    let sound: Vec<Stored> =
        files.iter().filter(|file| !damaged.contains(file.key(Layout::of(vault)).as_str())).copied().collect();
    let Some(newest) = stretches(&sound).concat().last().copied() else { return Ok(None) };
    let Ok(chain) = plan(&sound, newest) else { return Ok(None) };
    match together::prove(&Heads::of(vault), &sound, &chain).await {
        Ok(_) => {}
        Err(Error::Mixed { .. }) => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(Some(Point { position: newest.to_string(), moment: moment_of(&Heads::of(vault), &sound, newest).await? }))
}
