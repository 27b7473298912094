//! A vault that is a folder.
//!
//! An object is a file, and its key is the path below the root. A write goes to a `.tmp` file beside the target, is
//! fsynced, and gets its stamp as mtime. Then it takes its name in one step: create-only with
//! `renameat2(RENAME_NOREPLACE)` or `link`, which are exact also between processes; otherwise with `rename`. Then the
//! folder is fsynced. A create-only write that is refused fsyncs the folder too, because the caller may adopt the object:
//! it may be of an earlier attempt that didn't get that far.
//!
//! A crash leaves at most a `.tmp` file. Listings don't show it, and the next writer into that folder removes it. A
//! live writer holds a lock on its `.tmp` file.
//!
//! The first write remembers the identity of the vault's folder, and each later operation checks it (`anchor.rs`). So
//! Seawall never writes into a folder that replaced the vault's, or into the empty mount point of an unmounted disk. A store
//! with a note of earlier processes does so from its first operation on (`memory.rs`).
//!
//! Compare-and-swap takes the folder's lock (`flock`), so it is exact among Seawall processes of one host. It is not
//! ordered against unconditional writes to the same key.
//!
//! All system calls run on the runtime's blocking pool. Nothing here owns a timer.

mod anchor;
mod list;
mod memory;
mod place;
mod read;
pub(crate) mod url;
mod write;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use self::anchor::Anchor;
use self::memory::Memory;
use crate::{Abilities, Body, Entry, Error, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Scheme, Store, Tag};

/// Objects as files below a folder. Clones share it.
#[derive(Debug, Clone)]
pub struct FileStore {
    root: Arc<Path>,
    anchor: Arc<Anchor>,
}

impl FileStore {
    /// A store below `root`. The folder is made at the first write. Does no I/O.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into(), anchor: Arc::default() }
    }

    /// The same, which refuses to begin in the place of a folder that earlier processes wrote to and that isn't there now. `notes` is
    /// the file of this machine that says so; the first write makes its folder if that is Seawall's `own_folder`. Does no I/O.
    pub fn remembering(root: impl Into<PathBuf>, notes: PathBuf, own_folder: bool) -> Self {
        let memory = if own_folder { Memory::in_own_folder(notes) } else { Memory::new(notes) };
        Self { root: root.into().into(), anchor: Arc::new(Anchor::remembering(memory)) }
    }

    /// Why nothing begins at `root`, if a file of notes says that it was written to, and it isn't there now. Blocks.
    ///
    /// # Errors
    /// [`Error::Vanished`].
    pub fn check_remembered(root: &Path, notes: &Path) -> Result<(), Error> {
        Anchor::remembering(Memory::new(notes.to_owned())).check(root)
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Returns a check that the folder is still the vault's. The check blocks.
    fn asking(&self) -> impl Fn() -> Result<(), Error> + Send + use<> {
        let Self { root, anchor } = self.clone();
        move || anchor.check(&root)
    }

    /// The same before something is written.
    fn asking_to_write(&self) -> write::Permit {
        let Self { root, anchor } = self.clone();
        Box::new(move || anchor.before_writing(&root))
    }
}

/// Runs blocking work on the pool. If the caller gives up, the work still runs to its end, as it may before a crash at
/// any later point.
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

    fn scheme(&self) -> Scheme {
        Scheme::File
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

    fn folder(&self) -> Option<PathBuf> {
        Some(self.root.to_path_buf())
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        write::put(self.root.clone(), self.path(key), body, options, self.asking_to_write()).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        let permit = self.asking_to_write();
        Ok(Box::new(write::FileUpload::begin(self.root.clone(), self.path(key), options.clone(), permit).await?))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        read::open(self.path(key), range, self.asking()).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let (path, ask) = (self.path(key), self.asking());
        blocking(path.display().to_string(), move || {
            ask()?;
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
        let ask = self.asking();
        let page = move || {
            let page = list::page(&root, &prefix, after.as_ref(), limit)?;
            // The check comes after the listing: if the folder is still the vault's, so is the listing.
            ask()?;
            Ok(page)
        };
        blocking(self.root.display().to_string(), page).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let paths: Vec<PathBuf> = keys.iter().map(|key| self.path(key)).collect();
        let permit = self.asking_to_write();
        blocking(self.url(), move || {
            permit()?;
            Ok(write::delete(&paths))
        })
        .await
    }

    async fn enter(&self) -> Result<(), Error> {
        let Self { root, anchor } = self.clone();
        blocking(self.url(), move || anchor.enter(&root)).await
    }

    fn check(&self) -> Result<(), Error> {
        self.anchor.check(&self.root)
    }

    fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        Some(anchor::trace(prefixes.iter().map(|prefix| self.root.join(prefix.as_str()))))
    }
}

/// Builds an entry from a file's metadata.
fn entry(key: ObjectKey, metadata: &std::fs::Metadata) -> Entry {
    let Meta { size, modified, tag, .. } = place::meta(metadata);
    Entry { key, size, modified, written: place::changed(metadata), tag }
}
