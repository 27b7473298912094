//! Maps a file into memory, without a copy, while no process can change it.
//!
//! Most of the cost of reading is the kernel's copy out of the page cache, and a memory map avoids it. But a process
//! that reads a mapped page is killed if another process has truncated the file, or if the disk fails. So a file is
//! mapped only under a *lease* (`fcntl(2)`, `F_SETLEASE`). The kernel grants a lease while no process has the file open
//! for writing. A process that wants to write then waits until we return the lease, which we do after the current
//! piece. Before each piece is read, a call brings it into memory; this call reports a failing disk instead of killing
//! the process. If no lease is available (a database in use, a network file system), or no longer, the caller reads the
//! file.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

/// File systems whose files change only through this kernel, so that the kernel's leases cover every change. ext, XFS,
/// Btrfs, F2FS, tmpfs; see `statfs(2)`.
const LOCAL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// A file that is mapped and leased.
pub(super) struct Mapped<'f> {
    file: &'f File,
    start: NonNull<libc::c_void>,
    len: usize,
    /// Whether the lease is ours. A thread that reads the map holds this for reading.
    leased: RwLock<bool>,
}

// SAFETY: the map is only read, and stays where it is until the value is dropped.
unsafe impl Send for Mapped<'_> {}
// SAFETY: as above; the lease is behind a lock.
unsafe impl Sync for Mapped<'_> {}

impl<'f> Mapped<'f> {
    /// Maps the first `len` bytes of a file, which must not be shorter; `None` if that isn't safe.
    pub(super) fn of(file: &'f File, len: u64) -> Option<Mapped<'f>> {
        let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
        if !is_local(file) || !lease(file) {
            return None;
        }
        // From here on no process can truncate the file. A process may have truncated it before.
        let whole = file.metadata().is_ok_and(|metadata| metadata.len() >= len as u64);
        let start = if whole { map(file, len) } else { None };
        if start.is_none() {
            give_back(file);
        }
        start.map(|start| Mapped { file, start, len, leased: RwLock::new(true) })
    }

    /// Passes `len` bytes at `offset` to `read`. `None` means that the caller must read them in the usual way. This
    /// happens if the page cache doesn't have the bytes, because a read brings them in sooner. It also happens for
    /// every later call once a process wants to change the file, or once the bytes couldn't be loaded.
    pub(super) fn with<R>(&self, offset: u64, len: usize, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        if end > self.len || !self.is_cached(offset) || !self.is_cached(end.saturating_sub(1)) {
            return None;
        }
        {
            let leased = self.leased.read().unwrap_or_else(PoisonError::into_inner);
            // In this order: populating may wait long for a disk, and the lease with it.
            if *leased && self.populate(offset, len) && is_leased(self.file) {
                // SAFETY: the range is in the map, as was checked, and the map stands as long as `self`. No process has
                // the file open for writing or changes its length while it is leased, so the bytes are there and don't
                // change. The lease was ours after they came into memory, no thread of ours returns it while `leased`
                // is held, and the kernel takes it from us no sooner than `lease-break-time` (45 s) later; reading a
                // few MiB of memory takes a millisecond.
                let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>().add(offset), len) };
                return Some(read(bytes));
            }
        }
        self.release();
        None
    }

    /// Whether a range is in the page cache. Read-ahead goes in order, so its first and last byte tell about the bytes
    /// between; if they mislead, populating reads the missing ones.
    fn is_cached(&self, offset: usize) -> bool {
        let mut byte = 0_u8;
        let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let Ok(offset) = libc::off_t::try_from(offset) else { return false };
        // SAFETY: the kernel writes at most the one byte that it is given room for, before it returns.
        unsafe { libc::preadv2(self.file.as_raw_fd(), &raw const into, 1, offset, libc::RWF_NOWAIT) == 1 }
    }

    /// Loads bytes into memory and into the map; `false` if that fails.
    fn populate(&self, offset: usize, len: usize) -> bool {
        let ahead = offset % PAGE;
        // SAFETY: the range is in the map, and begins with a page of it, as its start does.
        let done = unsafe {
            libc::madvise(self.start.as_ptr().byte_add(offset - ahead), len + ahead, libc::MADV_POPULATE_READ)
        };
        done == 0
    }

    /// Returns the lease, once no thread reads the map.
    fn release(&self) {
        let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *leased) {
            give_back(self.file);
        }
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        self.release();
        // SAFETY: it is our map, and no borrow of a dropped value exists.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

/// No page of memory is larger on processors that we know of.
const PAGE: usize = 64 << 10;

fn map(file: &File, len: usize) -> Option<NonNull<libc::c_void>> {
    let nowhere = std::ptr::null_mut();
    // SAFETY: a new map at a place of the kernel's choice touches no memory of ours.
    let start = unsafe { libc::mmap(nowhere, len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: advice on our own map; without it, it is as good.
    unsafe { libc::madvise(start, len, libc::MADV_SEQUENTIAL) };
    NonNull::new(start)
}

fn is_local(file: &File) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills in what it is given room for.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: it was filled in.
    let found = unsafe { found.assume_init() };
    u64::try_from(found.f_type).is_ok_and(|kind| LOCAL.contains(&kind))
}

/// Takes a lease on a file; `false` if none is available.
fn lease(file: &File) -> bool {
    // The kernel announces a process that breaks the lease by a signal, by default one that ends this process. The
    // signal that is set here is ignored by default. We check the lease ourselves.
    // SAFETY: these calls take numbers alone.
    unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) == 0
    }
}

/// Whether the lease is ours and no process waits for it.
fn is_leased(file: &File) -> bool {
    // SAFETY: the call takes numbers alone.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
}

fn give_back(file: &File) {
    // SAFETY: the call takes numbers alone. Returning a lease that the kernel took from us has no effect.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// `linux/fcntl.h`; the `libc` crate leaves it out.
const F_SETSIG: libc::c_int = 10;

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A file of `len` bytes, opened for reading; `None` where the system has no leases.
    fn file(folder: &tempfile::TempDir, len: usize) -> Option<(PathBuf, File, Vec<u8>)> {
        let path = folder.path().join("x");
        let bytes: Vec<u8> = (0..len).map(|i| ((i * 31) ^ (i >> 9)) as u8).collect();
        std::fs::write(&path, &bytes).expect("a file");
        let file = File::open(&path).expect("the file");
        Mapped::of(&file, len as u64)?.with(0, 1, |_| ())?;
        Some((path, file, bytes))
    }

    #[test]
    fn bytes_of_a_leased_file_are_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((_, file, bytes)) = file(&folder, 300_000) else { return };
        let mapped = Mapped::of(&file, 300_000).expect("a lease");
        for (offset, len) in [(0, 300_000), (65_536, 1), (70_001, 229_999), (299_999, 1)] {
            let found = mapped.with(offset as u64, len, <[u8]>::to_vec);
            assert_eq!(found.as_deref(), bytes.get(offset..offset + len), "{offset}");
        }
        assert!(mapped.with(1, 300_000, |_| ()).is_none(), "behind the end");
        assert!(mapped.with(u64::MAX, 1, |_| ()).is_none());
        assert!(Mapped::of(&file, 300_001).is_none(), "longer than the file");
    }

    #[test]
    fn a_file_that_somebody_may_write_to_is_not_mapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((path, file, _)) = file(&folder, 5000) else { return };
        let writer = OpenOptions::new().append(true).open(&path).expect("the file");
        assert!(Mapped::of(&file, 5000).is_none());
        drop(writer);
        assert!(Mapped::of(&file, 5000).is_some());
    }

    #[test]
    fn a_writer_waits_for_a_piece_and_no_longer() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((path, file, bytes)) = file(&folder, 1 << 20) else { return };
        let mapped = Mapped::of(&file, 1 << 20).expect("a lease");
        let opened = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Waits for the lease, then truncates the file under the map.
                let mut writer = OpenOptions::new().write(true).truncate(true).open(&path).expect("the file");
                opened.store(true, Ordering::SeqCst);
                writer.write_all(b"short").expect("written");
            });
            let whole = |read: &[u8]| {
                assert!(!opened.load(Ordering::SeqCst), "a writer came in while the map was read");
                assert!(read == bytes);
                assert!(!opened.load(Ordering::SeqCst), "a writer came in while the map was read");
            };
            while mapped.with(0, 1 << 20, whole).is_some() {}
            mapped.release();
        });
        assert!(opened.load(Ordering::SeqCst));
        assert!(mapped.with(0, 5, |_| ()).is_none(), "a lease that is gone stays gone");
        assert_eq!(std::fs::read(&path).expect("the file"), b"short");
    }
}
