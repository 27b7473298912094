//! A proof: a real restore into a scratch folder, and checks of what came of it.
//!
//! The restore comes first and is timed alone, so that its time is the time of a recovery. Then each object that it needs
//! is read once more, to compare its bytes with the digest beside it and to name every damaged object, not only the first.
//!
//! The content is compared with a digest of the database itself (`sums`). There is one of a few points only. So a proof of the newest
//! point restores the newest of these instead, if it is at most an hour older; the objects after it are read all the same.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::StreamExt as _;
use seawall_core::{
    Checked, Failure, Fault, IntegrityCheck, Kind, Level, Moment, Progress, ProofRequest, RestoreRequest, Restored,
    When,
};
use seawall_ltx::file::{Work, checksum};
use seawall_ltx::{Checksum, PageSize, Txid};
use seawall_vault::{Digest, Digester, Prefix, Vault};
use tokio::time::Instant;

use crate::error::Error;
use crate::fetch;
use crate::heads::Heads;
use crate::identity::Tag;
use crate::jobs::blocking;
use crate::layout::{Layout, Stored, digest_key, level_prefix, parse_key};
use crate::partial::{EndOnDrop, check_integrity_until};
use crate::prove::{Seen, Strength, differing, examine};
use crate::restore::restore;
use crate::sums::{self, Sum};
use crate::upload::CHUNK;

/// The name of the restored file in the scratch folder.
const FILE: &str = "restored.db";

/// A recorded digest stands for the newest point if its point is at most this much older.
const NEAR: Duration = Duration::from_secs(3600);

/// What a proof works with.
pub(crate) struct Setting<'a> {
    pub(crate) vault: &'a Vault,
    /// The acknowledged position of this database, if it is known here.
    pub(crate) recorded: Option<Txid>,
    pub(crate) now: Moment,
    pub(crate) jobs: usize,
    pub(crate) progress: Arc<dyn Progress>,
}

/// The fault that an error tells of the vault's objects; `None` if the error says nothing about them.
fn fault(error: &Error, when: &When) -> Option<Fault> {
    let failure = error.failure();
    let is_about_objects = match error {
        Error::EndsEarly { .. } => true,
        // A named point may be unreachable by the user's mistake. The newest one isn't.
        Error::Unreachable { .. } => *when == When::Latest,
        Error::Vault(error) => error.is_not_found() || failure.kind == Kind::Corrupt,
        _ => failure.kind == Kind::Corrupt,
    };
    is_about_objects.then(|| failure.into())
}

/// About how large a database is, where nothing says it: its objects are compressed.
fn by_objects(planned: &Restored) -> u64 {
    planned.objects.iter().fold(0, |sum: u64, object| sum.saturating_add(object.bytes.saturating_mul(4)))
}

/// What is known of the whole database at a point, to compare the restored file with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// A checksum in the newest object.
    Sum(Checksum),
    /// A digest of the database's pages.
    Digest(Digest, PageSize),
    /// The digest that was recorded with this TXID is of another history.
    Other,
    /// Nothing was recorded.
    Without,
    /// The object was gone before it could be read for it.
    Gone,
    /// Such objects have none.
    Before05,
}

/// Why the content can't be compared; `None` if it can.
fn doubt_about_content(newest: Kept) -> Option<String> {
    let why = match newest {
        Kept::Sum(_) | Kept::Digest(..) => return None,
        Kept::Without => {
            "no checksum of the whole database was recorded at this point (the process that protects it records one before each of its \
             own proofs)"
        }
        Kept::Other => "the checksum of the whole database that was recorded at this point is of another history",
        Kept::Gone => "the newest object was merged or deleted before its checksum of the whole database was read",
        Kept::Before05 => "objects of Litestream before 0.5 keep no checksum of the whole database",
    };
    Some(format!("{why}, so that the restored file couldn't be compared with one"))
}

/// The digest of a restored file, by pages without the lock page, as of the database itself.
fn digest_of(path: &Path, page_size: PageSize) -> Result<Digest, Error> {
    let read = || -> io::Result<Digest> {
        let (mut file, lock_page) = (File::open(path)?, page_size.lock_page().0);
        let (mut digester, mut buffer) = (Digester::default(), vec![0; CHUNK]);
        let before = u64::from(lock_page.saturating_sub(1)) * u64::from(page_size.get());
        let mut add = |file: &mut dyn Read| -> io::Result<()> {
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(()),
                    read => digester.update(&buffer[..read]),
                }
            }
        };
        add(&mut (&file).take(before))?;
        if file.metadata()?.len() > before {
            file.seek(SeekFrom::Start(before + u64::from(page_size.get())))?;
            add(&mut file)?;
        }
        Ok(digester.digest())
    };
    read().map_err(Error::io(path))
}

/// Lets SQLite check a file. The check may take long: it ends if this future is dropped.
async fn check(file: &Path, how: IntegrityCheck) -> Result<(), Error> {
    let ending = EndOnDrop::default();
    let (file, end) = (file.to_owned(), ending.end());
    blocking(move || check_integrity_until(&file, how, &end)).await
}

impl Setting<'_> {
    /// Restores into the scratch folder and checks to the level that was asked for.
    pub(crate) async fn prove(&self, request: &ProofRequest) -> Result<Checked, Failure> {
        let before = self.vault.counts().bytes_down;
        let mut checked = Checked::default();
        self.rehearse(request, &mut checked).await?;
        checked.read_bytes = self.vault.counts().bytes_down.saturating_sub(before);
        Ok(checked)
    }

    async fn rehearse(&self, request: &ProofRequest, checked: &mut Checked) -> Result<(), Failure> {
        let output = request.scratch.join(FILE);
        let planned = match self.restore(&request.when, &output, true).await {
            Ok(planned) => planned,
            Err(error) => {
                checked.fault(fault(&error, &request.when).ok_or_else(|| error.failure())?);
                return Ok(());
            }
        };
        checked.point = Some(planned.point.clone());
        checked.objects = planned.objects.len() as u64;
        let mut doubts = planned.doubts.clone();
        let mut chain = self.chain(&planned);
        let needed = match chain.as_ref().and_then(|chain| chain.last()) {
            Some(newest) => match Heads::of(self.vault).header(newest).await {
                Ok(header) => u64::from(header.commit) * u64::from(header.page_size.get()),
                Err(error) => {
                    checked.fault(fault(&error, &request.when).ok_or_else(|| error.failure())?);
                    by_objects(&planned)
                }
            },
            // Snapshots before 0.5 don't say how large the database is.
            None => by_objects(&planned),
        };
        request.admit(seawall_host::free_space(&request.scratch), needed)?;
        let instead = match request.level >= Level::Content && checked.faults.is_empty() {
            true => self.point_with_digest(request, &planned, &output).await,
            false => None,
        };
        let mut beyond = Vec::new();
        let mut started = Instant::now();
        let mut done = self.restore(instead.as_ref().unwrap_or(&request.when), &output, false).await;
        match (&instead, &done) {
            (Some(_), Ok(_)) => beyond = chain.clone().unwrap_or_default(),
            // Its objects were merged or deleted just now.
            (Some(_), Err(_)) => {
                started = Instant::now();
                done = self.restore(&request.when, &output, false).await;
            }
            (None, _) => {}
        }
        match done {
            Ok(restored) => {
                checked.restore_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                checked.restored_bytes = restored.bytes;
                // The plan may have changed: objects were merged, or a newer point came.
                chain = self.chain(&restored);
                checked.objects = restored.objects.len() as u64;
                doubts = restored.doubts;
                checked.point = Some(restored.point);
            }
            Err(error) => checked.fault(fault(&error, &request.when).ok_or_else(|| error.failure())?),
        }
        checked.doubts.extend(doubts);
        let last = chain.as_ref().and_then(|chain| chain.last().copied());
        let newest = match chain {
            Some(chain) => self.read_again(chain, beyond, request, checked).await?,
            None => {
                let none = "objects of Litestream before 0.5 have no digests beside them to compare with";
                checked.doubts.push(none.to_owned());
                Kept::Before05
            }
        };
        if checked.restored_bytes == 0 || !checked.faults.is_empty() {
            return Ok(());
        }
        // SQLite may write to the file while it checks it, so the checksum comes first.
        if request.level >= Level::Content {
            let kept = match newest {
                Kept::Without => self.kept_beside(checked, last).await?,
                known => known,
            };
            if let Some(doubt) = doubt_about_content(kept) {
                checked.doubts.push(doubt);
                checked.reachable = Level::Engine;
            }
            self.compare(output.clone(), kept, checked).await?;
        }
        if request.level >= Level::Engine {
            let mut found = check(&output, IntegrityCheck::Full).await;
            if let Err(Error::Uncheckable { why, .. }) = &found {
                checked.doubts.push(format!("SQLite can't check everything without the application: {why}"));
                checked.reachable = Level::Structure;
                found = match check(&output, IntegrityCheck::Quick).await {
                    Err(Error::Uncheckable { .. }) => Ok(()),
                    other => other,
                };
            }
            if let Err(error) = found {
                let mut fault = fault(&error, &request.when).ok_or_else(|| error.failure())?;
                // The file in the scratch folder is gone when somebody reads this.
                fault.object = self.named(checked);
                checked.fault(fault);
            }
        }
        Ok(())
    }

    /// The LTX files of a restore; `None` if its objects are those of Litestream before 0.5.
    fn chain(&self, restored: &Restored) -> Option<Vec<Stored>> {
        let layout = Layout::of(self.vault);
        restored.objects.iter().map(|object| parse_key(layout, &object.key, object.bytes)).collect()
    }

    async fn restore(&self, when: &When, output: &Path, dry_run: bool) -> Result<Restored, Error> {
        let order = RestoreRequest {
            output: output.to_owned(),
            when: when.clone(),
            force: false,
            dry_run,
            integrity: IntegrityCheck::None,
        };
        restore(self.vault, &order, self.recorded, self.now, Arc::clone(&self.progress), self.jobs).await
    }

    /// The point to restore in the place of the newest one, because a digest of the database was recorded there; `None` if there is no
    /// such point that can be restored and is new enough. It is named also where it is the newest: commits may come before the restore.
    async fn point_with_digest(&self, request: &ProofRequest, newest: &Restored, output: &Path) -> Option<When> {
        if request.when != When::Latest {
            return None;
        }
        let at: Txid = newest.point.position.parse().ok()?;
        let recorded = match sums::list(self.vault).await {
            Ok(recorded) => recorded.into_iter().rfind(|txid| *txid <= at)?,
            Err(error) => {
                tracing::debug!("no recorded content is compared: {error}");
                return None;
            }
        };
        let when = When::Position(recorded.to_string());
        let planned = self.restore(&when, output, true).await.ok()?;
        // A record of another history, or none, must not keep the newest point from being restored.
        let last = self.chain(&planned)?.last().copied()?;
        let header = Heads::of(self.vault).header(&last).await.ok()?;
        let tag = Tag::after(&header, last.level);
        let is_there = planned.point.position == recorded.to_string()
            && self.sum_at(recorded).await.is_some_and(|sum| sum.of(tag).is_some());
        (is_there && newest.point.moment.since(planned.point.moment) <= NEAR).then_some(when)
    }

    /// The digest that was recorded of the restored point. `last` is the object that ends there.
    async fn kept_beside(&self, checked: &Checked, last: Option<Stored>) -> Result<Kept, Failure> {
        let Some((last, txid)) = last.zip(checked.point.as_ref().and_then(|point| point.position.parse().ok())) else {
            return Ok(Kept::Without);
        };
        let Some(sum) = self.sum_at(txid).await else { return Ok(Kept::Without) };
        let header = match Heads::of(self.vault).header(&last).await {
            Ok(header) => header,
            Err(Error::Vault(error)) if error.is_not_found() => return Ok(Kept::Gone),
            Err(error) => return Err(error.failure()),
        };
        let kept = sum.of(Tag::after(&header, last.level));
        Ok(kept.map_or(Kept::Other, |digest| Kept::Digest(digest, header.page_size)))
    }

    /// The record of a point. One that can't be read counts as none: the objects of the point may be sound all the same.
    async fn sum_at(&self, txid: Txid) -> Option<Sum> {
        sums::at(self.vault, txid).await.unwrap_or_else(|error| {
            tracing::debug!("the recorded content of {txid} isn't compared: {error}");
            None
        })
    }

    /// Reads each object of the chain, and those `beyond` its end, and compares it with its digest. Returns the checksum of the
    /// whole database that the newest object of the chain keeps.
    async fn read_again(
        &self,
        chain: Vec<Stored>,
        beyond: Vec<Stored>,
        request: &ProofRequest,
        checked: &mut Checked,
    ) -> Result<Kept, Failure> {
        let layout = Layout::of(self.vault);
        let (last, own) = (chain.last().copied(), chain.iter().copied().collect::<HashSet<_>>());
        let chain = [chain, beyond.into_iter().filter(|file| !own.contains(file)).collect()].concat();
        let fingerprints = self.fingerprints(&chain).await;
        // The newest object is read always: it keeps the checksum of the whole database. If the restore failed, every damaged object is
        // to be named.
        let restored = checked.faults.is_empty();
        let is_fresh = |file: &Stored| {
            restored
                && Some(*file) != last
                && fingerprints.get(file).is_some_and(|number| request.fresh.contains(number))
        };
        let (fresh, chain): (Vec<_>, Vec<_>) = chain.into_iter().partition(is_fresh);
        checked.fresh_bytes = fresh.iter().map(|file| file.size).sum();
        self.progress.begin("verify", Some(chain.iter().map(|file| file.size).sum()));
        let (mut newest, mut without, mut gone) = (Kept::Gone, 0_u64, 0_u64);
        let mut objects = fetch::ahead(&Heads::of(self.vault), chain);
        while let Some(fetched) = objects.next().await {
            let (file, seen) = match fetched {
                Ok(fetched) => (fetched.file, examine(self.vault, fetched, self.jobs, Strength::Digests).await),
                Err((file, error)) => (file, Err(error)),
            };
            let object = self.vault.object(&file.key(layout));
            match seen {
                Ok((seen, summary)) => {
                    if Some(file) == last {
                        let sum = summary.trailer.post_apply;
                        newest = if sum.is_none() { Kept::Without } else { Kept::Sum(sum) };
                    }
                    match seen {
                        Seen::Sound | Seen::AsWritten => checked.compared.extend(fingerprints.get(&file)),
                        Seen::WithoutDigest => without += 1,
                        Seen::Other { found, kept } => {
                            let (code, cause) = ("sqlite.digest".to_owned(), differing(found, kept));
                            checked.fault(Fault { code, object, cause });
                        }
                        Seen::BadDigest(error) => {
                            let failure = error.failure();
                            let object = self.vault.object(&digest_key(&file));
                            checked.fault(Fault { object, ..failure.into() });
                        }
                    }
                }
                // The restore read it or what replaced it, and another process merged or deleted it since.
                Err(Error::Vault(error)) if error.is_not_found() && checked.faults.is_empty() => gone += 1,
                Err(error) => {
                    let fault = fault(&error, &request.when).ok_or_else(|| error.failure())?;
                    checked.fault(Fault { object, ..fault });
                }
            }
            self.progress.advance(file.size);
        }
        self.progress.finish();
        if without > 0 {
            checked.doubts.push(format!(
                "{without} of the objects have no digest beside them, so that only their own checksums were checked"
            ));
        }
        if gone > 0 {
            checked
                .doubts
                .push(format!("{gone} of the objects were merged or deleted before their digests could be compared"));
        }
        Ok(newest)
    }

    /// The numbers by which proofs remember the objects of a chain, from listings that are older than every reading that follows. An
    /// object that a listing doesn't show has none.
    async fn fingerprints(&self, chain: &[Stored]) -> HashMap<Stored, u128> {
        let (layout, wanted) = (Layout::of(self.vault), chain.iter().copied().collect::<HashSet<_>>());
        let mut numbers = HashMap::new();
        for level in chain.iter().map(|file| file.level).collect::<BTreeSet<_>>() {
            let listed = match Prefix::new(level_prefix(layout, level)) {
                Ok(prefix) => self.vault.list(&prefix, None).await,
                Err(error) => Err(error),
            };
            match listed {
                Ok(entries) => numbers.extend(entries.iter().filter_map(|entry| {
                    let file = parse_key(layout, entry.key.as_str(), entry.size)?;
                    wanted.contains(&file).then(|| (file, entry.fingerprint()))
                })),
                Err(error) => tracing::debug!("no object of a level is fresh, and none is remembered: {error}"),
            }
        }
        numbers
    }

    /// Compares the restored file with what was recorded of the whole database.
    async fn compare(&self, file: PathBuf, kept: Kept, checked: &mut Checked) -> Result<(), Failure> {
        let jobs = NonZeroUsize::new(self.jobs).unwrap_or(NonZeroUsize::MIN);
        let sums = blocking(move || {
            Ok(match kept {
                Kept::Sum(kept) => {
                    let found = checksum(&file, false, Work::new().with_jobs(jobs));
                    let found = found.map_err(|error| Error::Internal(error.to_string()))?.checksum;
                    (found != kept).then(|| (found.to_string(), kept.to_string()))
                }
                Kept::Digest(kept, page_size) => {
                    let found = digest_of(&file, page_size)?;
                    (found != kept).then(|| (found.to_string(), kept.to_string()))
                }
                _ => None,
            })
        });
        if let Some((found, kept)) = sums.await.map_err(|error: Error| error.failure())? {
            let cause = format!("the restored file has the checksum {found}, and {kept} was recorded with the point");
            checked.fault(Fault { code: "sqlite.different".to_owned(), object: self.named(checked), cause });
        }
        Ok(())
    }

    /// The restored point, for people.
    fn named(&self, checked: &Checked) -> String {
        let position = checked.point.as_ref().map_or("", |point| point.position.as_str());
        format!("{} at {position}", self.vault.url())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_errors_are_faults_of_the_objects() {
        let (vault, object) = (|| "file:///v".to_owned(), || "file:///v/ltx/0/x.ltx".to_owned());
        let unavailable = seawall_vault::Error::Unavailable { object: object(), cause: "away".into(), retryable: true };
        let point = When::Position("0000000000000001".into());
        for (error, when, expected) in [
            (Error::Corrupt { object: object(), what: "cut".into() }, &When::Latest, Some("sqlite.corrupt")),
            (seawall_vault::Error::NotFound { object: object() }.into(), &When::Latest, Some("vault.not-found")),
            (
                Error::EndsEarly { vault: vault(), newest: Txid(1), recorded: Txid(2) },
                &When::Latest,
                Some("sqlite.ends-early"),
            ),
            (Error::NothingThere { vault: vault() }, &When::Latest, None),
            (unavailable.into(), &When::Latest, None),
            (Error::Corrupt { object: object(), what: "cut".into() }, &point, Some("sqlite.corrupt")),
            (Error::Interrupted, &When::Latest, None),
        ] {
            assert_eq!(fault(&error, when).map(|fault| fault.code).as_deref(), expected, "{error}");
        }
    }

    #[test]
    fn a_content_that_was_not_recorded_is_a_doubt() {
        let sum = Kept::Sum(Checksum(Checksum::FLAG | 7));
        let digest = Kept::Digest(Digest::of(b"pages"), PageSize::new(512).expect("a page size"));
        for (kept, doubted) in [
            (sum, false),
            (digest, false),
            (Kept::Other, true),
            (Kept::Without, true),
            (Kept::Gone, true),
            (Kept::Before05, true),
        ] {
            assert_eq!(doubt_about_content(kept).is_some(), doubted, "{kept:?}");
        }
    }
}
