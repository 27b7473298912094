//! Advisory file locks: one process of a host for each protected thing (I9). The system releases the lock when the
//! process ends, however it ends.
//!
//! A lock (`flock`) belongs to an open file, and stays for as long as the system has the file open. An open descriptor keeps
//! it open, and so does a mapping of the file into memory. The number of descriptors of a process is limited, and a process
//! may hold the locks of thousands of databases. So on Linux a [`Lock`] is a mapping, whose memory is never touched, and needs
//! no descriptor.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system, and waits for an instant")]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A process that asks whether a lock is held takes the lock for an instant. So `lock` retries this often before it
/// reports the lock as held.
const GLANCES: u32 = 10;
const GLANCE: Duration = Duration::from_millis(5);

/// Locks an open file until it is closed; `false` when another process holds the lock. Blocks for at most 50 ms.
///
/// # Errors
/// When the file can't be locked.
pub fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..GLANCES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(GLANCE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct Lock(Held);

/// What keeps the locked file open.
#[derive(Debug)]
enum Held {
    /// A mapping of it.
    #[cfg(target_os = "linux")]
    Mapping(#[expect(dead_code, reason = "held, never looked at")] mapping::Mapping),
    /// A descriptor: the system has no such mappings, or lets go of the lock in spite of one.
    Descriptor(#[expect(dead_code, reason = "held, never looked at")] File),
}

impl Lock {
    /// Locks the open file at `path`, which must be open for reading too; `None` when another process holds the lock. Blocks for at
    /// most 50 ms.
    ///
    /// # Errors
    /// When the file can't be locked.
    pub fn of(file: File, path: &Path) -> io::Result<Option<Self>> {
        if !lock(&file)? {
            return Ok(None);
        }
        Ok(Some(Self(without_descriptor(file, path))))
    }

    /// Whether the lock is held without a descriptor.
    pub fn is_free_of_descriptors(&self) -> bool {
        !matches!(self.0, Held::Descriptor(_))
    }
}

#[cfg(not(target_os = "linux"))]
fn without_descriptor(file: File, _: &Path) -> Held {
    Held::Descriptor(file)
}

/// Whether a mapping keeps the lock of a file: so do the file systems of disks. A network file system lets go of the lock with the
/// descriptor, and in overlayfs the mapping is one of another file.
#[cfg(target_os = "linux")]
fn is_kept_by_a_mapping(file: &File) -> bool {
    // ext2 to ext4, XFS, Btrfs, F2FS, ZFS and tmpfs, by statfs(2).
    let known = |kind| matches!(kind, 0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010 | 0x2fc1_2fc1 | 0x0102_1994);
    rustix::fs::fstatfs(file).is_ok_and(|facts| known(facts.f_type))
}

/// Exchanges the descriptor of a locked file for a mapping, where the lock stays.
#[cfg(target_os = "linux")]
fn without_descriptor(file: File, path: &Path) -> Held {
    if !is_kept_by_a_mapping(&file) {
        return Held::Descriptor(file);
    }
    // A second opening, which shows whether the first one's lock is still there once its descriptor is closed.
    let second = OpenOptions::new().read(true).write(true).open(path);
    let (Ok(second), Some(mapping)) = (second, mapping::Mapping::of(&file)) else {
        return Held::Descriptor(file);
    };
    let is_same = second.metadata().and_then(|second| Ok(is_same_file(&second, &file.metadata()?)));
    if !is_same.unwrap_or(false) {
        return Held::Descriptor(file);
    }
    drop(file);
    match flock(&second, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Held::Descriptor(second),
        Err(_) => Held::Mapping(mapping),
    }
}

#[cfg(target_os = "linux")]
fn is_same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Mappings that keep a file open.
#[cfg(target_os = "linux")]
mod mapping {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::ptr::{NonNull, null_mut};

    /// As much address space as a mapping takes: a page.
    const LENGTH: usize = 1;

    /// A file that is mapped without any right to the memory.
    #[derive(Debug)]
    pub(super) struct Mapping(NonNull<libc::c_void>);

    // SAFETY: the address is used for nothing but to end the mapping, which any thread may do.
    unsafe impl Send for Mapping {}
    // SAFETY: a shared reference gives access to nothing.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        /// `None` if the system refuses: some file systems have no mappings, and a process has a limited number of them.
        pub(super) fn of(file: &File) -> Option<Self> {
            // SAFETY: a new map at a place of the kernel's choice touches no memory of ours, and gives no access to any.
            let start =
                unsafe { libc::mmap(null_mut(), LENGTH, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
            if start == libc::MAP_FAILED { None } else { NonNull::new(start).map(Self) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the range is that of our own map, which is used for nothing.
            unsafe { libc::munmap(self.0.as_ptr(), LENGTH) };
        }
    }
}

/// Whether a process holds the lock of the file at `path`; `false` for a file that can't be read.
pub fn is_locked(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).open(path);
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_until_the_first_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        assert!(!is_locked(&path), "there is no file");
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path).expect("opened");
        let first = open();
        assert!(lock(&first).expect("a lock") && is_locked(&path));
        assert!(!lock(&open()).expect("no lock"));
        drop(first);
        assert!(!is_locked(&path) && lock(&open()).expect("a lock"));
    }

    #[test]
    fn a_lock_is_held_without_a_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let open =
            || OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).expect("opened");
        let opened = || std::fs::read_dir("/proc/self/fd").expect("listed").flatten();
        let is_ours = |fd: &std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|target| target == path);
        let first = Lock::of(open(), &path).expect("a lock").expect("free");
        assert!(is_locked(&path), "the lock outlives the descriptor");
        assert!(Lock::of(open(), &path).expect("asked").is_none(), "a second one is refused");
        if cfg!(target_os = "linux") {
            assert!(first.is_free_of_descriptors());
            assert_eq!(opened().filter(is_ours).count(), 0);
        }
        // A program that is started inherits no lock.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        drop(first);
        let again = Lock::of(open(), &path).expect("asked");
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert!(again.is_some(), "released");
    }

    /// A path that leads to another file by now says nothing about the lock.
    #[test]
    fn a_file_that_was_replaced_keeps_its_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let open =
            || OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).expect("opened");
        let file = open();
        std::fs::remove_file(&path).expect("removed");
        drop(open());
        let lock = Lock::of(file, &path).expect("a lock").expect("free");
        assert!(!lock.is_free_of_descriptors());
        assert!(!is_locked(&path));
    }
}
