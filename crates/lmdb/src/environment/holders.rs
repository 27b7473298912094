//! Which other processes have an environment open, and whether their writes raise events.
//!
//! liblmdb keeps a system lock on the lock file for as long as an environment is open. A process with `MDB_NOLOCK` has
//! no such lock and isn't found. A process with `MDB_WRITEMAP` writes through memory, which raises no event.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::OPEN;
use crate::error::Error;
use crate::local::standing::LockFile;

/// A process that has an environment open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// This process.
    Own,
    /// Another process; without a process id if it runs in another container.
    Other(Option<i32>),
}

/// The lock file of an environment whose data is in `data`.
pub(crate) fn lock_file(data: &Path, no_subdir: bool) -> PathBuf {
    if !no_subdir {
        return data.with_file_name("lock.mdb");
    }
    let mut name = data.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}

/// Whether the lock file that this process opened, known by device and inode, still has its name.
pub(crate) fn lock_standing(data: &Path, no_subdir: bool, opened: Option<(u64, u64)>) -> LockFile {
    let found = super::identity(&lock_file(data, no_subdir));
    if found.is_some() && found == opened {
        return LockFile::Same;
    }
    let own = std::process::id();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let shared = opened.is_some_and(|(_, inode)| pids(&locks, inode).any(|pid| pid != own));
    if shared { LockFile::Shared } else { LockFile::Left }
}

/// A process that has the environment open, if there is one.
pub(crate) fn holder(data: &Path, no_subdir: bool) -> Result<Option<Holder>, Error> {
    let open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // If this process opened and closed the lock file here, the system would drop the process's own locks on it.
    if super::identity(data).is_some_and(|identity| open.contains(&identity)) {
        return Ok(Some(Holder::Own));
    }
    let path = lock_file(data, no_subdir);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(&path)(error)),
    };
    let found = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
    let found = found.map_err(|error| Error::io(&path)(error.into()))?;
    let number = |lock: Flock| lock.pid.map(|pid| pid.as_raw_nonzero().get()).filter(|pid| *pid > 0);
    Ok(found.map(|lock| Holder::Other(number(lock))))
}

/// Whether a process writes to the environment through memory. `false` if this process isn't allowed to see it; a
/// commit without an event shows it later.
pub(crate) fn has_silent_writers(data: &Path, no_subdir: bool) -> bool {
    let inode = |path: &Path| fs::metadata(path).ok().map(|found| found.ino());
    let (Some(lock), Some(data)) = (inode(&lock_file(data, no_subdir)), inode(data)) else { return false };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    pids(&locks, lock).any(|pid| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        writes_through_memory(&maps, data)
    })
}

/// The processes that hold a lock on a file, as the system lists them.
fn pids(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    locks.lines().filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip_while(|field| !matches!(*field, "READ" | "WRITE"));
        let (pid, file) = (fields.nth(1)?, fields.next()?);
        let number: u64 = file.rsplit(':').next()?.parse().ok()?;
        if number == inode { pid.parse().ok() } else { None }
    })
}

/// Whether a process maps a file so that it can write.
fn writes_through_memory(maps: &str, inode: u64) -> bool {
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (rights, number) = (fields.next().unwrap_or_default(), fields.nth(2).unwrap_or_default());
        rights.contains('w') && rights.ends_with('s') && number.parse() == Ok(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_lists_are_understood() {
        let locks = "1: POSIX  ADVISORY  READ 4711 fe:00:77 0 0\n2: FLOCK  ADVISORY  WRITE 12 fe:00:78 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 13 fe:00:77 0 0\nnonsense\n";
        assert_eq!(pids(locks, 77).collect::<Vec<_>>(), [4711, 13]);
        assert_eq!(pids(locks, 78).collect::<Vec<_>>(), [12]);
        for (maps, writes) in [
            ("7f00-7f01 rw-s 00000000 fe:00 77   /data/data.mdb\n", true),
            ("7f00-7f01 r--s 00000000 fe:00 77   /data/data.mdb\n", false),
            ("7f00-7f01 rw-p 00000000 fe:00 77   /data/data.mdb\n", false),
            ("7f00-7f01 rw-s 00000000 fe:00 76   /data/lock.mdb\n", false),
            ("", false),
        ] {
            assert_eq!(writes_through_memory(maps, 77), writes, "{maps}");
        }
    }
}
