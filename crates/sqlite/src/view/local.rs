//! A copy of one snapshot on the local disk: what hasn't changed since is read from there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use seawall_core::{Failure, Moment, Progress, When};

use super::{Inner, Snapshot, View};
use crate::assemble::Assembly;
use crate::belonging::{Bond, same_end};
use crate::error::Error;
use crate::fetch;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::object::Object;
use crate::partial::unnamed;
use crate::places::{Place, position};
use crate::target;

/// A copy, and the snapshot that it is of.
#[derive(Debug)]
pub(crate) struct LocalCopy {
    file: Arc<File>,
    snapshot: Arc<Snapshot>,
}

impl View {
    /// Copies the newest known point into a file without a name in `folder`, as a restore does, with all checksums. From then on its pages
    /// are read from there, as long as they haven't changed. The system frees the file when the view is dropped, or the process ends in any way.
    /// `jobs` batches of pages are decompressed at a time.
    ///
    /// # Errors
    /// Those of a restore; no point is known yet.
    pub async fn copy_to_disk(&self, folder: &Path, progress: Arc<dyn Progress>, jobs: usize) -> Result<(), Failure> {
        let copy = self.copied_to(folder, &progress, jobs).await?;
        progress.finish();
        *self.inner().local.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(copy));
        Ok(())
    }

    async fn copied_to(&self, folder: &Path, progress: &Arc<dyn Progress>, jobs: usize) -> Result<LocalCopy, Error> {
        let vault = self.vault();
        let nothing = || Error::NothingThere { vault: vault.url().to_owned() };
        let snapshot = self.newest().ok_or_else(nothing)?;
        let txid = snapshot.end.file.max;
        let heads = Heads::keeping(vault);
        let when = When::Position(txid.to_string());
        let (chain, _) = target::find_with_doubts(&heads, &when, Moment::default()).await?;
        let newest = chain.last().ok_or_else(nothing)?;
        let header = heads.header(newest).await?;
        let end = crate::belonging::Facts::of(newest, &header);
        if matches!(same_end(&snapshot.end, &end), Bond::Stranger(_)) || header.commit != snapshot.commit {
            return Err(Error::PointGone { vault: vault.url().to_owned(), point: txid });
        }
        let path = folder.join("seawall-view");
        let mut assembly = blocking(move || {
            let file = unnamed(&path)?;
            Assembly::new(file, &path, &header).map_err(Error::io(&path))
        })
        .await?;
        progress.begin("copy", Some(chain.iter().map(|file| file.size).sum()));
        let newest_first = chain.into_iter().rev().collect();
        assembly.fill(vault, fetch::ahead(&heads, newest_first), progress, jobs).await?;
        Ok(LocalCopy { file: assembly.file().clone(), snapshot })
    }
}

impl Inner {
    /// A page from the local copy, if it is there in the same version.
    pub(crate) fn on_disk(&self, object: &Object, place: &Place) -> Option<Bytes> {
        let copy = self.local.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let there = copy.snapshot.places.get(position(&copy.snapshot.places, place.page).ok()?)?;
        let its = copy.snapshot.objects.get(there.object as usize)?;
        if (its.id, there.offset()) != (object.id, place.offset()) {
            return None;
        }
        let size = copy.snapshot.page_size.bytes();
        let mut page = vec![0; size];
        let at = u64::from(place.page.0.checked_sub(1)?) * size as u64;
        // A page that can't be read here is in the vault.
        copy.file.read_exact_at(&mut page, at).ok()?;
        Some(Bytes::from(page))
    }
}
