//! Restoring: from a chain of objects to a database file.
//!
//! The newest object is read first, and the first version of a page that comes is the one that counts: every page is
//! written once, at its place, and no index of pages is needed, only one bit for each. Once every page is there, older
//! objects are not read at all. The file has a temporary name until everything is verified and synced (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::StreamExt;
use rusqlite::{Connection, OpenFlags};
use seawall_core::{IntegrityCheck, Moment, PlannedObject, Point, Progress, RestoreRequest, Restored};
use seawall_ltx::{DecodedBatch, Header, PageNo, PageSize};
use seawall_vault::Vault;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::fetch::{self, Reading};
use crate::layout::Stored;
use crate::options::system_random;
use crate::ship::blocking;
use crate::source::{resolved, sidecar};
use crate::survey::read_header;
use crate::target;

/// Restores what `request` asks for.
pub(crate) async fn restore(
    vault: &Vault,
    request: &RestoreRequest,
    progress: Arc<dyn Progress>,
    jobs: usize,
) -> Result<Restored, Error> {
    // A link stays a link: the file behind it is replaced.
    let output = resolved(&request.output);
    if !request.dry_run {
        let (output, force) = (output.clone(), request.force);
        blocking(move || check_target(&output, force)).await?;
    }
    let chain = target::find(vault, &request.when).await?;
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
    let header = read_header(vault, newest).await?;
    let objects = chain
        .iter()
        .map(|file| PlannedObject { key: file.key(vault.layout()).to_string(), bytes: file.size })
        .collect();
    let point = Point { position: newest.max.to_string(), moment: Moment::from_millis(header.timestamp_ms) };
    let restored = Restored { point, output, bytes: 0, objects, duration_ms: 0, dry_run: request.dry_run };
    if request.dry_run {
        return Ok(restored);
    }
    if header.commit == 0 {
        let object = vault.object(&newest.key(vault.layout()));
        return Err(Error::Corrupt { object, what: "the database was deleted at this point".to_owned() });
    }
    let target = restored.output.clone();
    let mut build = blocking(move || Build::create(&target, &header)).await?;
    progress.begin("restore", Some(chain.iter().map(|file| file.size).sum()));
    build.fill(vault, chain, &progress, jobs).await?;
    progress.finish();
    let (force, integrity) = (request.force, request.integrity);
    let bytes = blocking(move || build.finish(integrity, force)).await?;
    Ok(Restored { bytes, ..restored })
}

/// Refuses to touch what is there, unless it may be replaced.
fn check_target(output: &Path, force: bool) -> Result<(), Error> {
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

fn sidecars(database: &Path) -> impl Iterator<Item = PathBuf> {
    ["-wal", "-shm", "-journal"].into_iter().map(move |suffix| sidecar(database, suffix))
}

/// A database file that is being built under a temporary name. Dropped before it is finished it removes the file.
struct Build {
    output: PathBuf,
    partial: PathBuf,
    file: Arc<File>,
    page_size: PageSize,
    commit: u32,
    /// One bit for each page: whether its newest version was written.
    claimed: Vec<u64>,
    missing: u32,
    done: bool,
}

impl Build {
    fn create(output: &Path, header: &Header) -> Result<Self, Error> {
        // A name of its own, whoever else restores to the same place; and never what somebody else put there.
        let partial = sidecar(output, &format!(".{:016x}.tmp", system_random()));
        let create = || -> io::Result<File> {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
            file.set_len(u64::from(header.commit) * u64::from(header.page_size.get()))?;
            Ok(file)
        };
        let file = create().map_err(Error::io(&partial))?;
        Ok(Self {
            output: output.to_owned(),
            partial,
            file: Arc::new(file),
            page_size: header.page_size,
            commit: header.commit,
            claimed: vec![0; header.commit as usize / 64 + 1],
            missing: header.page_size.pages_in_snapshot(header.commit),
            done: false,
        })
    }

    /// Reads objects from the newest to the oldest until every page is there.
    async fn fill(
        &mut self,
        vault: &Vault,
        chain: Vec<Stored>,
        progress: &Arc<dyn Progress>,
        jobs: usize,
    ) -> Result<(), Error> {
        let newest_first: Vec<Stored> = chain.into_iter().rev().collect();
        let mut objects = fetch::ahead(vault, newest_first);
        // A page behind the end of any newer state was cut off in between: its older versions don't count.
        let mut limit = self.commit;
        let mut writes = Writes { running: JoinSet::new(), most: jobs.max(1) };
        while self.missing > 0 {
            let Some(fetched) = objects.next().await else { break };
            let fetched = fetched.map_err(|(_, error)| error)?;
            let size = fetched.file.size;
            let object = vault.object(&fetched.file.key(vault.layout()));
            let mut reading = Reading::new(vault, fetched, jobs);
            while let Some(batch) = reading.next().await? {
                if reading.header().is_some_and(|header| header.page_size != self.page_size) {
                    let what = "its page size is another one than that of the newest object".to_owned();
                    return Err(Error::Corrupt { object, what });
                }
                let runs = self.claim(batch.numbers(), limit);
                writes.add(self.file.clone(), self.page_size, batch, runs, &self.partial).await?;
            }
            limit = limit.min(reading.finish()?.header.commit);
            progress.advance(size);
        }
        // Pages that are nowhere were cut off and came back free: they are zero.
        writes.finish().await
    }

    /// Takes the pages whose newest version this is; gives them as runs of neighbours: index in the batch, and number.
    fn claim(&mut self, pages: &[PageNo], limit: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, page) in pages.iter().enumerate().filter(|(_, page)| page.0 <= limit) {
            let (word, bit) = ((page.0 / 64) as usize, 1_u64 << (page.0 % 64));
            if self.claimed[word] & bit != 0 {
                continue;
            }
            self.claimed[word] |= bit;
            self.missing = self.missing.saturating_sub(1);
            match runs.last_mut() {
                Some(run) if run.index + run.pages == index && run.first + run.pages as u32 == page.0 => run.pages += 1,
                _ => runs.push(Run { index, first: page.0, pages: 1 }),
            }
        }
        runs
    }

    /// Checks, syncs and names the file; gives its size in bytes.
    fn finish(mut self, integrity: IntegrityCheck, force: bool) -> Result<u64, Error> {
        self.file.sync_all().map_err(Error::io(&self.partial))?;
        check_integrity(&self.partial, integrity)?;
        check_target(&self.output, force)?;
        self.take_the_name().map_err(Error::io(&self.output))?;
        self.done = true;
        Ok(u64::from(self.commit) * u64::from(self.page_size.get()))
    }
}

impl Build {
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

impl Drop for Build {
    fn drop(&mut self) {
        if !self.done {
            let _nothing_more_to_do = fs::remove_file(&self.partial);
        }
    }
}

/// Pages that stand next to each other both in a batch and in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    index: usize,
    first: u32,
    pages: usize,
}

/// Writes on the blocking pool. No page is written twice, so their order doesn't matter.
struct Writes {
    running: JoinSet<io::Result<()>>,
    most: usize,
}

impl Writes {
    async fn add(
        &mut self,
        file: Arc<File>,
        page_size: PageSize,
        batch: DecodedBatch,
        runs: Vec<Run>,
        path: &Path,
    ) -> Result<(), Error> {
        if runs.is_empty() {
            return Ok(());
        }
        while self.running.len() >= self.most {
            self.wait(path).await?;
        }
        self.running.spawn_blocking(move || {
            let size = page_size.bytes();
            for run in runs {
                let data = &batch.data()[run.index * size..(run.index + run.pages) * size];
                file.write_all_at(data, u64::from(run.first - 1) * size as u64)?;
            }
            Ok(())
        });
        Ok(())
    }

    async fn wait(&mut self, path: &Path) -> Result<(), Error> {
        match self.running.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(Error::io(path)(error)),
            Some(Err(panic)) => Err(Error::Internal(format!("a job ended in a panic: {panic}"))),
        }
    }

    async fn finish(mut self) -> Result<(), Error> {
        while !self.running.is_empty() {
            self.wait(Path::new("restored file")).await?;
        }
        Ok(())
    }
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
    use seawall_ltx::Txid;

    #[test]
    fn the_first_version_of_a_page_counts() {
        let directory = tempfile::tempdir().expect("a folder");
        let size = PageSize::new(512).expect("a page size");
        let header = Header::new(size, 6, Txid(1), Txid(1));
        let mut build = Build::create(&directory.path().join("x.db"), &header).expect("created");
        let pages = |numbers: &[u32]| numbers.iter().map(|n| PageNo(*n)).collect::<Vec<_>>();
        let run = |index, first, pages| Run { index, first, pages };
        assert_eq!(build.claim(&pages(&[2, 3, 6]), 6), [run(0, 2, 2), run(2, 6, 1)]);
        assert_eq!(build.claim(&pages(&[1, 2, 3, 4, 5, 6]), 4), [run(0, 1, 1), run(3, 4, 1)]);
        assert_eq!(build.claim(&pages(&[1, 5]), 6), [run(1, 5, 1)]);
        assert_eq!(build.missing, 0);
        drop(build);
        assert_eq!(fs::read_dir(directory.path()).expect("folder").count(), 0);
    }
}
