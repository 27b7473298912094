//! Restoring: from a chain of objects to a database file, which has a temporary name until everything is verified and
//! synced (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

pub(crate) mod assemble;
pub(crate) mod fetch;
pub(crate) mod prove;
pub(crate) mod target;
pub(crate) mod timeline;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use seawall_core::{IntegrityCheck, Moment, PlannedObject, Point, Progress, RestoreRequest, Restored, When};
use seawall_ltx::{Header, Txid};
use seawall_vault::Vault;

use crate::assemble::Assembly;
use crate::error::Error;
use crate::files::{resolved, sidecar};
use crate::grip::is_open_elsewhere;
use crate::layout::{Layout, Stored};
use crate::lock::is_held;
use crate::options::system_random;
use crate::ship::blocking;
use crate::survey::read_header;
use crate::{default_state_dir, legacy};

/// How often a restore is planned anew because objects vanished that the plan before needed.
const PLANS: u32 = 4;

/// Restores what `request` asks for; `recorded` is what was acknowledged of this database, where that is known here. What vanishes between the plan and the read, because somebody compacts or deletes
/// meanwhile, is replaced by something else in the vault: the restore is planned anew.
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
                tracing::info!(object, "it vanished while it was to be restored from: planning anew");
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
    // A link stays a link: the file behind it is replaced.
    let output = resolved(&request.output);
    if !request.dry_run {
        let (output, force) = (output.clone(), request.force);
        blocking(move || check_target(&output, force).and_then(|()| check_unused(&output))).await?;
    }
    let (found, old) = tokio::join!(newest_of(vault, &request.when, now), legacy::list(vault));
    let old = old?;
    if let Some(chain) = legacy::instead(vault, &old, &request.when, found.as_ref().map(|(_, header, _)| header))? {
        return legacy::restore(vault, &chain, request, &output, &progress).await;
    }
    let (chain, header, doubts) = found?;
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
    build.fill(vault, chain, &progress, jobs).await?;
    progress.finish();
    let (force, integrity) = (request.force, request.integrity);
    let target = restored.output.clone();
    let bytes = blocking(move || check_unused(&target).and_then(|()| build.finish(integrity, force))).await?;
    Ok(Restored { bytes, ..restored })
}

/// The LTX files that restore what was asked for, the header of the newest of them, and what can't be told of them.
async fn newest_of(vault: &Vault, when: &When, now: Moment) -> Result<(Vec<Stored>, Header, Vec<String>), Error> {
    let (chain, doubts) = target::find_with_doubts(vault, when, now).await?;
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
    let header = read_header(vault, newest).await?;
    Ok((chain, header, doubts))
}

/// Refuses to touch what is there, unless it may be replaced.
pub(crate) fn check_target(output: &Path, force: bool) -> Result<(), Error> {
    let taken = |what| Err(Error::TargetExists { path: output.to_owned(), what });
    match fs::metadata(output) {
        Ok(found) if found.is_dir() => return taken("it is a directory"),
        Ok(found) if !force && found.len() > 0 => return taken("the file exists"),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io(output)(e)),
    }
    if !force && sidecars(output).any(|path| path.exists()) {
        return taken("a -wal, -shm or -journal file of another database stands beside it");
    }
    Ok(())
}

/// Refuses to replace a database that somebody has open: what is written to the old file would be lost without a word.
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

fn sidecars(database: &Path) -> impl Iterator<Item = PathBuf> {
    ["-wal", "-shm", "-journal"].into_iter().map(move |suffix| sidecar(database, suffix))
}

/// A file that is being made under a temporary name. Dropped before it is finished it is removed.
pub(crate) struct Partial {
    output: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl Partial {
    /// Begins a file that is to stand at `output`.
    pub(crate) fn create(output: &Path) -> Result<(Self, File), Error> {
        // A name of its own, whoever else restores to the same place; and never what somebody else put there.
        let partial = sidecar(output, &format!(".{:016x}.tmp", system_random()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(Error::io(&partial))?;
        Ok((Self { output: output.to_owned(), partial, done: false }, file))
    }

    /// Its name for now.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Checks, syncs and names the file.
    pub(crate) fn finish(mut self, file: &File, integrity: IntegrityCheck, force: bool) -> Result<(), Error> {
        file.sync_all().map_err(Error::io(&self.partial))?;
        check_integrity(&self.partial, integrity)?;
        check_target(&self.output, force)?;
        self.take_the_name().map_err(Error::io(&self.output))?;
        self.done = true;
        Ok(())
    }

    /// Gives the file its name. What stood beside the old file is moved away first, because SQLite would apply an old
    /// WAL to the new file, and comes back if the name can't be taken.
    fn take_the_name(&self) -> io::Result<()> {
        let mut aside: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut named = || -> io::Result<()> {
            for stale in sidecars(&self.output) {
                let away = sidecar(&stale, &format!(".{:016x}.tmp", system_random()));
                match fs::rename(&stale, &away) {
                    Ok(()) => aside.push((stale, away)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            fs::rename(&self.partial, &self.output)
        };
        if let Err(error) = named() {
            for (stale, away) in aside {
                fs::rename(away, stale)?;
            }
            return Err(error);
        }
        let parent = self.output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
        for (_, away) in aside {
            fs::remove_file(away)?;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            let _nothing_more_to_do = fs::remove_file(&self.partial);
        }
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
        vault: &Vault,
        chain: Vec<Stored>,
        progress: &Arc<dyn Progress>,
        jobs: usize,
    ) -> Result<(), Error> {
        let newest_first: Vec<Stored> = chain.into_iter().rev().collect();
        self.assembly.fill(vault, fetch::ahead(vault, newest_first), progress, jobs).await
    }

    /// The file as far as it is.
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

/// A file beside `path` that nothing is left of, however this process ends.
pub(crate) fn unnamed(path: &Path) -> Result<File, Error> {
    let name = sidecar(path, &format!(".{:016x}.tmp", system_random()));
    let make = || -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name)?;
        fs::remove_file(&name)?;
        Ok(file)
    };
    make().map_err(Error::io(&name))
}

/// SQLite's own check of the finished file, which leaves nothing beside it.
fn check_integrity(path: &Path, check: IntegrityCheck) -> Result<(), Error> {
    let pragma = match check {
        IntegrityCheck::None => return Ok(()),
        IntegrityCheck::Quick => "PRAGMA quick_check(1)",
        IntegrityCheck::Full => "PRAGMA integrity_check(1)",
    };
    let check = || -> rusqlite::Result<String> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.query_row(pragma, [], |row| row.get(0))
    };
    let found = check().map_err(Error::sqlite(path));
    for left in sidecars(path) {
        let _may_be_absent = fs::remove_file(left);
    }
    match found? {
        answer if answer == "ok" => Ok(()),
        answer => Err(Error::Corrupt { object: path.display().to_string(), what: answer }),
    }
}

#[cfg(test)]
mod tests {
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
