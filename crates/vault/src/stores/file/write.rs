//! Writing a file so that it appears whole, once, and stays: the protocol is in the module above.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, FlockOperation, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use seawall_core::Moment;

use super::{blocking, failed, place, read};
use crate::{Condition, Digest, Digester, Error, Multipart, PutOptions, Tag};

/// A number for each `.tmp` file of this process. The process number distinguishes other processes, and in the end
/// O_EXCL.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// What direct writes are aligned to: the pages of memory, and no disk's blocks are larger.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// The least bytes that are written past the page cache.
#[cfg(target_os = "linux")]
const DIRECT: usize = 1 << 20;

/// How long to wait before asking again for a folder's lock, which its holder keeps for one rename.
const LOCK_WAIT: Duration = Duration::from_millis(2);

/// Asks whether the folder still is the vault's. Blocks.
pub(super) type Permit = Box<dyn Fn() -> Result<(), Error> + Send>;

/// A `.tmp` file, removed when dropped unless it took its name.
#[derive(Debug)]
struct Draft {
    file: File,
    path: PathBuf,
    named: bool,
    /// The digest of the bytes so far.
    digester: Digester,
}

impl Draft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.digester.update(bytes);
        self.file.write_all(bytes).map_err(|error| failed(&self.path, &error))
    }

    /// Writes all bytes, and returns their digest; the writer may know it already.
    fn write_whole(&mut self, bytes: &[u8], digest: Option<Digest>) -> Result<Digest, Error> {
        let written = write_directly(&self.file, bytes).and_then(|written| self.file.write_all(&bytes[written..]));
        written.map_err(|error| failed(&self.path, &error))?;
        Ok(digest.unwrap_or_else(|| Digest::of(bytes)))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.named {
            // Best effort: the next writer into this folder removes it otherwise.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An object on its way into a folder.
pub(super) struct FileUpload {
    draft: Option<Draft>,
    target: PathBuf,
    options: PutOptions,
    permit: Option<Permit>,
}

impl FileUpload {
    pub(super) async fn begin(
        root: Arc<Path>,
        target: PathBuf,
        options: PutOptions,
        permit: Permit,
    ) -> Result<Self, Error> {
        let folder = target.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let object = target.display().to_string();
        let (draft, permit) = blocking(object, move || {
            permit()?;
            Ok((draft(&root, &folder)?, permit))
        })
        .await?;
        Ok(Self { draft: Some(draft), target, options, permit: Some(permit) })
    }

    fn gone(&self) -> Error {
        let cause = "the upload was given up by an earlier error".to_owned();
        Error::Unavailable { object: self.target.display().to_string(), cause, retryable: false }
    }
}

#[async_trait]
impl Multipart for FileUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        let Some(mut draft) = self.draft.take() else { return Err(self.gone()) };
        let object = self.target.display().to_string();
        let draft = blocking(object, move || {
            for chunk in &part {
                draft.write(chunk)?;
            }
            Ok(draft)
        })
        .await?;
        self.draft = Some(draft);
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        let Some(draft) = self.draft.take() else { return Err(self.gone()) };
        let (target, options, permit) = (self.target.clone(), self.options.clone(), self.permit.take());
        let naming = blocking(target.display().to_string(), move || {
            permit.map_or(Ok(()), |permit| permit())?;
            seal(&draft, options.stamp, draft.digester.digest())?;
            name(draft, &target, &options)
        })
        .await?;
        named(naming, &self.target, &self.options).await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        let draft = self.draft.take();
        blocking(self.target.display().to_string(), move || {
            drop(draft);
            Ok(())
        })
        .await
    }
}

/// Writes a whole object, in one hop to the pool.
pub(super) async fn put(
    root: Arc<Path>,
    target: PathBuf,
    body: Bytes,
    options: &PutOptions,
    permit: Permit,
) -> Result<Option<Tag>, Error> {
    let naming = {
        let (target, options) = (target.clone(), options.clone());
        blocking(target.display().to_string(), move || {
            permit()?;
            let folder = target.parent().unwrap_or(&root);
            let mut draft = draft(&root, folder)?;
            let digest = draft.write_whole(&body, options.digest)?;
            seal(&draft, options.stamp, digest)?;
            name(draft, &target, &options)
        })
        .await?
    };
    named(naming, &target, options).await
}

/// Writes the whole pages of a large object past the page cache, if they begin at a page boundary. The object is synced
/// at once, so the cache would only cost a copy, and memory of other programs on the host. Returns how many bytes were
/// written; 0 where the file system can't do it.
#[cfg(target_os = "linux")]
fn write_directly(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let end = bytes.len() / PAGE * PAGE;
    if end < DIRECT || bytes.as_ptr().align_offset(PAGE) != 0 {
        return Ok(0);
    }
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(0);
    }
    let mut written = 0;
    let result = loop {
        match file.write(&bytes[written..end]) {
            Ok(0) => break Ok(()),
            Ok(size) => written += size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Larger pages than these are asked for, or none will do.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break Ok(()),
            Err(error) => break Err(error),
        }
        // After a partial write, the rest goes through the cache.
        if written == end || written % PAGE != 0 {
            break Ok(());
        }
    };
    fcntl_setfl(file, flags)?;
    result.map(|()| written)
}

#[cfg(not(target_os = "linux"))]
fn write_directly(_file: &File, _bytes: &[u8]) -> io::Result<usize> {
    Ok(0)
}

/// Repeats the last step until the folder's lock is ours. The vault's deadline bounds it.
async fn named(mut naming: Naming, target: &Path, options: &PutOptions) -> Result<Option<Tag>, Error> {
    loop {
        let draft = match naming {
            Naming::Done(tag) => return Ok(Some(tag)),
            Naming::Locked(draft) => draft,
        };
        tokio::time::sleep(LOCK_WAIT).await;
        let (target, options) = (target.to_path_buf(), options.clone());
        naming = blocking(target.display().to_string(), move || name(draft, &target, &options)).await?;
    }
}

/// Makes a locked `.tmp` file, and removes those that a crash left in the same folder.
fn draft(root: &Path, folder: &Path) -> Result<Draft, Error> {
    place::make_folder(root, folder).map_err(|error| no_folder(folder, &error))?;
    sweep_once(folder);
    draft_in(root, folder).map_err(|error| failed(folder, &error))
}

/// A folder that can't be made isn't a missing object, nor another writer's.
fn no_folder(folder: &Path, error: &io::Error) -> Error {
    let object = folder.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            Error::NoFolder { object, cause: error.to_string() }
        }
        _ => failed(folder, error),
    }
}

fn draft_in(root: &Path, folder: &Path) -> io::Result<Draft> {
    let mode = place::file_mode(root);
    loop {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".{:x}-{serial:x}.tmp", std::process::id()));
        let file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        // A sweeper may delete the file between the two steps; then another file is made.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => continue,
            Ok(()) if file.metadata()?.nlink() == 0 => continue,
            Err(_) | Ok(()) => return Ok(Draft { file, path, named: false, digester: Digester::default() }),
        }
    }
}

/// Removes `.tmp` files that aren't locked, once per folder and process.
fn sweep_once(folder: &Path) {
    use std::collections::HashSet;
    use std::sync::{Mutex, PoisonError};
    /// Folders swept so far, by hash; bounded, since a process may see very many.
    static SWEPT: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    const MOST: usize = 4096;
    {
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = swept.get_or_insert_default();
        if swept.len() >= MOST || !swept.insert(folder.to_path_buf()) {
            return;
        }
    }
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(is_draft);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        if let Ok(file) = OpenOptions::new().write(true).open(&path)
            && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether a file's name is one that [`draft`] gives.
fn is_draft(name: &str) -> bool {
    let numbers = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")?.split_once('-'));
    let hex = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
    numbers.is_some_and(|(process, serial)| hex(process) && hex(serial))
}

/// Sets the draft's mtime to the stamp, or to the present; either way its change time moves on.
fn touch(draft: &Draft, stamp: Option<Moment>) -> io::Result<()> {
    let modified = match stamp.map(Moment::as_millis) {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(millis) => Timespec { tv_sec: millis.div_euclid(1000), tv_nsec: millis.rem_euclid(1000) * 1_000_000 },
    };
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(&draft.file, &Timestamps { last_access: kept, last_modification: modified })?)
}

/// Gives the draft its digest and its time, and makes its content durable, before any name leads to it.
fn seal(draft: &Draft, stamp: Option<Moment>, digest: Digest) -> Result<(), Error> {
    place::keep_digest(&draft.file, digest);
    if stamp.is_some() {
        touch(draft, stamp).map_err(|error| failed(&draft.path, &error))?;
    }
    draft.file.sync_all().map_err(|error| failed(&draft.path, &error))
}

enum Naming {
    Done(Tag),
    /// Another writer holds the folder; ask again.
    Locked(Draft),
}

/// Gives the draft its name under the condition, durably.
fn name(mut draft: Draft, target: &Path, options: &PutOptions) -> Result<Naming, Error> {
    let object = || target.display().to_string();
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let named = |draft: &mut Draft, result: io::Result<()>| match result {
        Ok(()) => {
            draft.named = true;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // An earlier attempt of the caller may have given this name, and been cut off before it was durable. The
            // caller adopts such an object, which counts as durable then (I1).
            place::sync_folder(folder).map_err(|error| failed(folder, &error))?;
            Err(Error::AlreadyExists { object: object() })
        }
        // On a file system where locks don't work, a sweeper deleted the file as a leftover.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let cause = "the file being written was removed by another process".to_owned();
            Err(Error::Unavailable { object: object(), cause, retryable: true })
        }
        Err(error) => Err(failed(target, &error)),
    };
    match &options.condition {
        Condition::Always => {
            let result = std::fs::rename(&draft.path, target);
            named(&mut draft, result)?;
        }
        Condition::Create => {
            let result = create(&draft.path, target);
            named(&mut draft, result)?;
        }
        Condition::Match(expected) => {
            let lock = File::open(folder).map_err(|error| failed(folder, &error))?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Naming::Locked(draft)),
                Err(error) => return Err(failed(folder, &error.into())),
            }
            let present = target.symlink_metadata().map_err(|error| read::absent(target, &error));
            let present = match present {
                Ok(metadata) => metadata,
                Err(Error::NotFound { .. }) => return Err(Error::Precondition { object: object() }),
                Err(error) => return Err(error),
            };
            if place::tag(&present) != *expected {
                return Err(Error::Precondition { object: object() });
            }
            // The kernel's clock moves in steps of some milliseconds, and inode numbers are reused. Without this, a
            // version could get the tag of the version before the last.
            let fresh = draft.file.metadata().map_err(|error| failed(&draft.path, &error))?;
            if (fresh.ctime(), fresh.ctime_nsec()) <= (present.ctime(), present.ctime_nsec()) {
                touch(&draft, options.stamp).map_err(|error| failed(&draft.path, &error))?;
                return Ok(Naming::Locked(draft));
            }
            let result = std::fs::rename(&draft.path, target);
            named(&mut draft, result)?;
        }
    }
    place::sync_folder(folder).map_err(|error| failed(folder, &error))?;
    let metadata = draft.file.metadata().map_err(|error| failed(target, &error))?;
    Ok(Naming::Done(place::tag(&metadata)))
}

/// Gives a file a name that must be free, in one step.
fn create(draft: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, draft, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        result => return Ok(result?),
    }
    // File systems without the flag (some network ones) have hard links, which never replace either.
    rustix::fs::linkat(CWD, draft, CWD, target, AtFlags::empty())?;
    std::fs::remove_file(draft)
}

/// Deletes files, and makes that durable once per folder.
pub(super) fn delete(paths: &[PathBuf]) -> Vec<Result<(), Error>> {
    let mut folders: Vec<&Path> = Vec::new();
    let mut results = Vec::with_capacity(paths.len());
    for path in paths {
        let result = match std::fs::remove_file(path).map_err(|error| read::absent(path, &error)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        };
        if let Some(folder) = path.parent()
            && result.is_ok()
            && !folders.contains(&folder)
        {
            folders.push(folder);
        }
        results.push(result);
    }
    for folder in folders {
        let _ = place::sync_folder(folder);
    }
    results
}
