//! A vault that is a folder.
//!
//! An object is a file; its key is its path below the root. A write goes to a `.tmp` file of its own beside the
//! target, is fsynced, gets its stamp as mtime, and then takes its name in one step: `renameat2(RENAME_NOREPLACE)` or
//! `link` for create-only, exact under races also between processes; `rename` otherwise. Then the folder is fsynced.
//! A crash leaves at most a `.tmp` file, which no listing shows and the next writer into that folder removes: a live
//! writer holds a lock on its `.tmp` file.
//!
//! Compare-and-swap takes the folder's lock (`flock`), so it is exact among Seawall processes of one host. It does not
//! order itself with unconditional writes to the same key.
//!
//! All system calls are made on the runtime's blocking pool; nothing here owns a timer.

mod list;
mod place;
mod read;
mod write;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Abilities, Body, Entry, Error, Layout, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Store, Tag};

/// Objects as files below a folder. Clones share it.
#[derive(Debug, Clone)]
pub struct FileStore {
    root: Arc<Path>,
}

impl FileStore {
    /// A store below `root`, which is made when something is first written. Does no I/O.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.root.join(key.as_str())
    }
}

/// Runs blocking work on the pool. Work that was given up by its caller runs to its end, which is what a crash at any
/// later point would leave too.
async fn blocking<T: Send + 'static>(
    object: String,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => {
            Err(Error::Unavailable { object, cause: "the process is shutting down".to_owned(), retryable: false })
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::from_io(path.display().to_string(), error)
}

#[async_trait]
impl Store for FileStore {
    fn url(&self) -> String {
        crate::VaultUrl::File(self.root.to_path_buf()).to_string()
    }

    fn layout(&self) -> Layout {
        Layout::Files
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: 1000,
            smallest_part: 1,
            most_parts: usize::MAX,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: true,
        }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        write::put(self.root.clone(), self.path(key), body, options).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        Ok(Box::new(write::FileUpload::begin(self.root.clone(), self.path(key), options.clone()).await?))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        read::open(self.path(key), range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let path = self.path(key);
        blocking(path.display().to_string(), move || {
            let metadata = path.symlink_metadata().map_err(|error| read::absent(&path, &error))?;
            if !metadata.is_file() {
                return Err(Error::NotFound { object: path.display().to_string() });
            }
            Ok(Meta { digest: place::digest(&path), ..place::meta(&metadata) })
        })
        .await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let (root, prefix, after) = (self.root.clone(), prefix.clone(), start_after.cloned());
        blocking(root.display().to_string(), move || list::page(&root, &prefix, after.as_ref(), limit)).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let paths: Vec<PathBuf> = keys.iter().map(|key| self.path(key)).collect();
        blocking(self.url(), move || Ok(write::delete(&paths))).await
    }
}

/// Builds an entry from what the file system says.
fn entry(key: ObjectKey, metadata: &std::fs::Metadata) -> Entry {
    let Meta { size, modified, tag, .. } = place::meta(metadata);
    Entry { key, size, modified, written: place::changed(metadata), tag }
}
