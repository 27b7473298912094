//! Restoring: from a chain of objects to a database file, which has a temporary name until everything is verified and
//! synced (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

pub(crate) mod assemble;
pub(crate) mod contents;
pub(crate) mod fetch;
pub(crate) mod prove;
pub(crate) mod rehearsal;
pub(crate) mod target;
pub(crate) mod timeline;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use seawall_core::{IntegrityCheck, Moment, PlannedObject, Point, Progress, RestoreRequest, Restored, When};
use seawall_ltx::{Header, Txid};
use seawall_vault::Vault;

use crate::assemble::Assembly;
use crate::error::Error;
use crate::files::resolved;
use crate::grip::is_open_elsewhere;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::layout::{Layout, Stored};
use crate::lock::is_held;
use crate::partial::{Partial, check_target};
use crate::{default_state_dir, legacy};

/// How often a restore is planned again because objects of the earlier plan vanished.
const PLANS: u32 = 4;

/// Carries out `request`. `recorded` is the acknowledged position of this database, if it is known here. If objects
/// vanish between the plan and the read, because another process compacts or deletes, the restore is planned again with
/// the objects that replaced them.
pub(crate) async fn restore(
    vault: &Vault,
    request: &RestoreRequest,
    recorded: Option<Txid>,
    now: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Restored, Error> {
    for _ in 1..PLANS {
        match restore_as_planned(vault, request, recorded, now, progress.clone(), jobs).await {
            Err(Error::Vault(seawall_vault::Error::NotFound { object, .. })) => {
                tracing::info!(object, "an object vanished during the restore: planning again");
            }
            done => return done,
        }
    }
    restore_as_planned(vault, request, recorded, now, progress, jobs).await
}

async fn restore_as_planned(
    vault: &Vault,
    request: &RestoreRequest,
    recorded: Option<Txid>,
    now: Moment,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Restored, Error> {
    // A link stays a link: the file that it leads to is replaced.
    let output = resolved(&request.output);
    if !request.dry_run {
        let (output, force) = (output.clone(), request.force);
        blocking(move || check_target(&output, force).and_then(|()| check_unused(&output))).await?;
    }
    // A dry run reads no object.
    let heads = if request.dry_run { Heads::of(vault) } else { Heads::keeping(vault) };
    let (found, old) = tokio::join!(newest_of(&heads, &request.when, now), legacy::list(vault));
    let (old, passed_over) = legacy::or_doubt(old, found.is_ok())?;
    if let Some(chain) = legacy::instead(vault, &old, &request.when, found.as_ref().map(|(_, header, _)| header))? {
        return legacy::restore(vault, &chain, request, &output, &progress).await;
    }
    let (chain, header, mut doubts) = found?;
    doubts.extend(passed_over);
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
    if let Some(recorded) = recorded.filter(|recorded| request.when == When::Latest && *recorded > newest.max) {
        return Err(Error::EndsEarly { vault: vault.url().to_owned(), newest: newest.max, recorded });
    }
    let objects = chain
        .iter()
        .map(|file| PlannedObject { key: file.key(Layout::of(vault)).to_string(), bytes: file.size })
        .collect();
    let point = Point { position: newest.max.to_string(), moment: Moment::from_millis(header.timestamp_ms) };
    let restored = Restored { point, output, bytes: 0, objects, duration_ms: 0, dry_run: request.dry_run, doubts };
    if request.dry_run {
        return Ok(restored);
    }
    if header.commit == 0 {
        let object = vault.object(&newest.key(Layout::of(vault)));
        return Err(Error::Corrupt { object, what: "the database was deleted at this point".to_owned() });
    }
    let target = restored.output.clone();
    let mut build = blocking(move || Build::create(&target, &header)).await?;
    progress.begin("restore", Some(chain.iter().map(|file| file.size).sum()));
    build.fill(&heads, chain, &progress, jobs).await?;
    progress.finish();
    let (force, integrity) = (request.force, request.integrity);
    let target = restored.output.clone();
    let bytes = blocking(move || check_unused(&target).and_then(|()| build.finish(integrity, force))).await?;
    Ok(Restored { bytes, ..restored })
}

/// The LTX files for the request, the header of the newest of them, and the doubts about them.
async fn newest_of(heads: &Heads, when: &When, now: Moment) -> Result<(Vec<Stored>, Header, Vec<String>), Error> {
    let (chain, doubts) = target::find_with_doubts(heads, when, now).await?;
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: heads.vault().url().to_owned() })?;
    let header = heads.header(newest).await?;
    Ok((chain, header, doubts))
}

/// Refuses to replace a database that a process has open: later writes to the old file would be lost silently.
fn check_unused(output: &Path) -> Result<(), Error> {
    let used = |what| Err(Error::TargetOpen { path: output.to_owned(), what });
    if is_held(&default_state_dir(output)) {
        return used("a Seawall protects it, or keeps it up");
    }
    match File::open(output) {
        Ok(file) if is_open_elsewhere(&file) => used("another process has it open as a database"),
        Ok(_) => Ok(()),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(()),
        Err(e) => Err(Error::io(output)(e)),
    }
}

/// A database file that is put together from LTX files.
pub(crate) struct Build {
    partial: Partial,
    assembly: Assembly,
}

impl Build {
    /// Begins the file that `newest`, the header of the newest object, leaves.
    pub(crate) fn create(output: &Path, newest: &Header) -> Result<Self, Error> {
        let (partial, file) = Partial::create(output)?;
        let assembly = Assembly::new(file, partial.path(), newest).map_err(Error::io(partial.path()))?;
        Ok(Self { partial, assembly })
    }

    /// Reads a chain of objects, oldest first.
    pub(crate) async fn fill(
        &mut self,
        heads: &Heads,
        chain: Vec<Stored>,
        progress: &Arc<dyn Progress>,
        jobs: usize,
    ) -> Result<(), Error> {
        let newest_first: Vec<Stored> = chain.into_iter().rev().collect();
        self.assembly.fill(heads.vault(), fetch::ahead(heads, newest_first), progress, jobs).await
    }

    /// The file in its present state.
    pub(crate) fn file(&self) -> &File {
        self.assembly.file()
    }

    /// Checks, syncs and names the file; gives its size in bytes.
    pub(crate) fn finish(self, integrity: IntegrityCheck, force: bool) -> Result<u64, Error> {
        let Self { partial, assembly } = self;
        partial.finish(assembly.file(), integrity, force)?;
        Ok(u64::from(assembly.commit()) * u64::from(assembly.page_size().get()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use seawall_ltx::PageSize;

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a folder");
        let size = PageSize::new(512).expect("a page size");
        let header = Header::new(size, 6, Txid(1), Txid(1));
        let build = Build::create(&directory.path().join("x.db"), &header).expect("created");
        assert_eq!(fs::read_dir(directory.path()).expect("folder").count(), 1);
        drop(build);
        assert_eq!(fs::read_dir(directory.path()).expect("folder").count(), 0);
    }
}
