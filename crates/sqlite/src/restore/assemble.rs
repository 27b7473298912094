//! Writes the pages of objects to their places: the part that a restore and a follower's step share.
//!
//! The newest object is read first, and the first version of a page counts. So every page is written once, and one bit
//! for each page is enough; no index is needed. When every page is there, older objects aren't read. The pages are
//! valid only after [`Assembly::fill`] returned success.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use seawall_core::{Panicked, Progress};
use seawall_ltx::{DecodedBatch, Header, PageNo, PageSize};
use seawall_vault::Vault;
use tokio::task::{JoinError, JoinSet};

use crate::error::Error;
use crate::fetch::{Fetched, Reading};
use crate::layout::{Layout, Stored};

/// Objects on their way, newest first.
pub(crate) type Objects = BoxStream<'static, Result<Fetched, (Stored, Error)>>;

/// Pages of a database in a file, each at its place.
///
/// Memory: one bit a page.
pub(crate) struct Assembly {
    file: Arc<File>,
    /// For messages.
    path: PathBuf,
    page_size: PageSize,
    commit: u32,
    /// Whether a page's newest version was written.
    claimed: PageBits,
    missing: u32,
    /// The size in pages of the smallest state among those read.
    limit: u32,
}

impl Assembly {
    /// An empty assembly of the state of `newest`, the header of the newest object. `file` is resized to that state.
    pub(crate) fn new(file: File, path: &Path, newest: &Header) -> io::Result<Self> {
        file.set_len(u64::from(newest.commit) * u64::from(newest.page_size.get()))?;
        Ok(Self {
            file: Arc::new(file),
            path: path.to_owned(),
            page_size: newest.page_size,
            commit: newest.commit,
            claimed: PageBits::new(newest.commit),
            missing: newest.page_size.pages_in_snapshot(newest.commit),
            limit: newest.commit,
        })
    }

    /// The file that the pages are in.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The page size.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// The size of the database in pages.
    pub(crate) fn commit(&self) -> u32 {
        self.commit
    }

    /// Whether every page is there, so that older objects don't matter.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Reads objects from the newest to the oldest until every page is there, or all were read.
    pub(crate) async fn fill(
        &mut self,
        vault: &Vault,
        mut objects: Objects,
        progress: &Arc<dyn Progress>,
        jobs: usize,
    ) -> Result<(), Error> {
        let mut writes = Writes::new(jobs);
        while self.missing > 0 {
            let Some(fetched) = objects.next().await else { break };
            let fetched = fetched.map_err(|(_, error)| error)?;
            let size = fetched.file.size;
            let object = vault.object(&fetched.file.key(Layout::of(vault)));
            let mut reading = Reading::new(vault, fetched, jobs);
            while let Some(batch) = reading.next().await? {
                if reading.header().is_some_and(|header| header.page_size != self.page_size) {
                    let what = "its page size is another one than that of the newest object".to_owned();
                    return Err(Error::Corrupt { object, what });
                }
                let runs = self.claim(batch.numbers());
                writes.add(self.file.clone(), self.page_size, batch, runs, &self.path).await?;
            }
            // A page beyond the end of any newer state was cut off in between. Its older versions don't count.
            self.limit = self.limit.min(reading.finish()?.header.commit);
            progress.advance(size);
        }
        // Pages that no object holds were cut off and came back as free pages. They are zero.
        writes.finish(&self.path).await
    }

    /// Claims the pages whose newest version this is. Returns them as runs of neighbours: index in the batch, and page
    /// number.
    fn claim(&mut self, pages: &[PageNo]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let limit = self.limit;
        for (index, page) in pages.iter().enumerate().filter(|(_, page)| page.0 <= limit) {
            if !self.claimed.insert(*page) {
                continue;
            }
            self.missing = self.missing.saturating_sub(1);
            match runs.last_mut() {
                Some(run) if run.index + run.pages == index && run.first + run.pages as u32 == page.0 => run.pages += 1,
                _ => runs.push(Run { index, first: page.0, pages: 1 }),
            }
        }
        runs
    }

    /// The pages that differ from the state before the objects, in order: the pages in the objects, and the pages that
    /// were cut off in between and came back.
    pub(crate) fn touched(&self) -> impl Iterator<Item = PageNo> {
        (1..=self.commit).map(PageNo).filter(|page| page.0 > self.limit || self.claimed.contains(*page))
    }
}

/// A set of pages: one bit for each.
#[derive(Debug, Clone)]
pub(crate) struct PageBits(Vec<u64>);

impl PageBits {
    /// None of the pages 1 to `pages`.
    pub(crate) fn new(pages: u32) -> Self {
        Self(vec![0; pages as usize / 64 + 1])
    }

    /// Adds a page. Returns whether it was missing. Pages beyond the last one are never there.
    pub(crate) fn insert(&mut self, page: PageNo) -> bool {
        let Some(word) = self.0.get_mut((page.0 / 64) as usize) else { return false };
        let bit = 1_u64 << (page.0 % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Whether a page is there.
    pub(crate) fn contains(&self, page: PageNo) -> bool {
        self.0.get((page.0 / 64) as usize).is_some_and(|word| word >> (page.0 % 64) & 1 == 1)
    }

    /// All pages of the set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PageNo> {
        let bits = |(index, word): (usize, &u64)| {
            let word = *word;
            (0..64_u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| PageNo(index as u32 * 64 + bit))
        };
        self.0.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(bits)
    }
}

/// Pages that are adjacent both in a batch and in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    index: usize,
    first: u32,
    pages: usize,
}

/// Bytes between two syncs of a file that is being written.
const SYNC_EVERY: u64 = 64 << 20;

/// Writes on the blocking pool. No page is written twice, so their order doesn't matter.
///
/// A sync runs beside them after each [`SYNC_EVERY`] bytes, so that the disk works while objects are fetched and the final
/// sync finds little to do.
struct Writes {
    running: JoinSet<io::Result<()>>,
    most: usize,
    unsynced: u64,
    syncing: JoinSet<io::Result<()>>,
}

impl Writes {
    fn new(jobs: usize) -> Self {
        Self { running: JoinSet::new(), most: jobs.max(1), unsynced: 0, syncing: JoinSet::new() }
    }

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
            written(self.running.join_next().await, path)?;
        }
        let size = page_size.bytes();
        self.unsynced += runs.iter().map(|run| (run.pages * size) as u64).sum::<u64>();
        if let Some(ended) = self.syncing.try_join_next() {
            written(Some(ended), path)?;
        }
        if self.unsynced >= SYNC_EVERY && self.syncing.is_empty() {
            self.unsynced = 0;
            let file = file.clone();
            self.syncing.spawn_blocking(move || file.sync_data());
        }
        self.running.spawn_blocking(move || {
            for run in runs {
                let data = &batch.data()[run.index * size..(run.index + run.pages) * size];
                file.write_all_at(data, u64::from(run.first - 1) * size as u64)?;
            }
            Ok(())
        });
        Ok(())
    }

    async fn finish(mut self, path: &Path) -> Result<(), Error> {
        for jobs in [&mut self.running, &mut self.syncing] {
            while let Some(ended) = jobs.join_next().await {
                written(Some(ended), path)?;
            }
        }
        Ok(())
    }
}

/// What became of a write or a sync. The system reports a lost write to one sync only, so no failure may be dropped.
fn written(ended: Option<Result<io::Result<()>, JoinError>>, path: &Path) -> Result<(), Error> {
    match ended {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(Error::io(path)(error)),
        Some(Err(panic)) => Err(Panicked::from(panic).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_ltx::Txid;

    fn assembly(commit: u32) -> Assembly {
        let size = PageSize::new(512).expect("a page size");
        let header = Header::new(size, commit, Txid(1), Txid(1));
        Assembly::new(tempfile::tempfile().expect("a file"), Path::new("x"), &header).expect("made")
    }

    fn pages(numbers: &[u32]) -> Vec<PageNo> {
        numbers.iter().map(|n| PageNo(*n)).collect()
    }

    #[test]
    fn the_first_version_of_a_page_counts() {
        let mut assembly = assembly(6);
        let run = |index, first, pages| Run { index, first, pages };
        assert_eq!(assembly.claim(&pages(&[2, 3, 6])), [run(0, 2, 2), run(2, 6, 1)]);
        assembly.limit = 4;
        assert_eq!(assembly.claim(&pages(&[1, 2, 3, 4, 5, 6])), [run(0, 1, 1), run(3, 4, 1)]);
        assembly.limit = 6;
        assert_eq!(assembly.claim(&pages(&[1, 5])), [run(1, 5, 1)]);
        assert!(assembly.is_complete());
    }

    #[test]
    fn what_was_cut_off_in_between_is_touched() {
        let mut assembly = assembly(200);
        assembly.claim(&pages(&[2, 64, 130]));
        assembly.limit = 198;
        let touched: Vec<u32> = assembly.touched().map(|page| page.0).collect();
        assert_eq!(touched, [2, 64, 130, 199, 200]);
    }

    #[test]
    fn sets_of_pages() {
        let mut set = PageBits::new(130);
        for page in [1, 63, 64, 65, 130] {
            assert!(set.insert(PageNo(page)));
            assert!(!set.insert(PageNo(page)));
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), pages(&[1, 63, 64, 65, 130]));
        assert!(set.contains(PageNo(64)) && !set.contains(PageNo(66)) && !set.contains(PageNo(9999)));
    }
}
