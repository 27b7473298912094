//! The lock of a data directory: `postmaster.pid`, as a server has it.
//!
//! PostgreSQL doesn't start where that file names a process that runs. A restore writes it, and holds the system's lock on it
//! besides, which ends with the process: the number of a process means nothing in another container. Nothing but its own lock is
//! ever removed.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The lock file of a server.
pub(super) const LOCK: &str = "postmaster.pid";

/// The third line of that file where a restore wrote it. A server has the time of its start there.
const OURS: &str = "seawall restore";

/// Attempts to lock a file that others replace meanwhile.
const TRIES: u32 = 10;

/// The most bytes that are read of a lock file.
const MOST: u64 = 4096;

/// Whose lock a data directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A server's: it runs, or was killed. Where it names a process that runs on this host, that is it.
    Server(Option<u32>),
    /// A restore's that runs.
    Restore,
    /// A restore's that ended.
    Nothing,
}

/// Whose lock a data directory has; `None` if it has none. Blocks.
pub(super) fn holder(data: &Path) -> io::Result<Option<Holder>> {
    let path = data.join(LOCK);
    let text = match File::open(&path) {
        Ok(file) => text(&file)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    Ok(Some(match is_ours(&text) {
        true if seawall_host::is_locked(&path) => Holder::Restore,
        true => Holder::Nothing,
        false => Holder::Server(process(&text)),
    }))
}

fn text(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a lock file is that of a restore. Pure.
fn is_ours(text: &str) -> bool {
    text.lines().nth(2) == Some(OURS)
}

/// The process that the first line of a lock file names, if it runs. A server in single-user mode writes a negative number.
fn process(lock: &str) -> Option<u32> {
    let process: u32 = lock.lines().next()?.trim().trim_start_matches('-').parse().ok()?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(process).ok()?)?;
    // One of another user answers that it may not be asked.
    let runs = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    runs.then_some(process)
}

/// A server whose working directory is this folder, as that of each of its processes is, also in a container that has other process
/// numbers. Blocks.
pub(super) fn runs_in(path: &Path) -> Option<u32> {
    let facts = std::fs::metadata(path).ok()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let own = std::process::id();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| *process != own)
        .find(|process| {
            let works_in = std::fs::metadata(format!("/proc/{process}/cwd"));
            let is_server = || std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| is_postgres(&exe));
            works_in.is_ok_and(|its| is_same(&its, &facts)) && is_server()
        })
}

/// Whether a program is PostgreSQL's server, which may have been replaced since it started.
fn is_postgres(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().contains("postgres"))
}

fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The lock of a data directory, which this process has. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Locked as long as it is open.
    file: File,
    /// What this process wrote into it. No other restore writes the same.
    text: String,
}

impl Lock {
    /// Takes the lock. From here on no server of this host starts, nor any restore. Blocks.
    ///
    /// # Errors
    /// Who has it, or it can't be written.
    pub(super) fn take(data: &Path) -> io::Result<Result<Self, Holder>> {
        let path = data.join(LOCK);
        let mut options = OpenOptions::new();
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        options.read(true).write(true).mode(0o600).custom_flags(flags);
        for _ in 0..TRIES {
            let (file, is_new) = match options.clone().create_new(true).open(&path) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match options.open(&path) {
                    Ok(file) => (file, false),
                    // Its owner is gone since.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            };
            if !is_new {
                let text = text(&file)?;
                if !is_ours(&text) {
                    return Ok(Err(Holder::Server(process(&text))));
                }
            }
            match seawall_host::lock(&file) {
                Ok(true) => {}
                Ok(false) => return Ok(Err(Holder::Restore)),
                Err(error) => {
                    if is_new {
                        // A server takes an empty file for its own.
                        let _gone = std::fs::remove_file(&path);
                    }
                    return Err(error);
                }
            }
            let there = std::fs::symlink_metadata(&path).ok().zip(file.metadata().ok());
            if !there.is_some_and(|(there, its)| is_same(&there, &its)) {
                continue;
            }
            // PostgreSQL reads the first line; the folder is the second.
            let mut nonce = [0; 8];
            getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
            let (number, nonce) = (std::process::id(), u64::from_ne_bytes(nonce));
            let text = format!("{number}\n{}\n{OURS}\n{nonce:016x}\n", data.display());
            let lock = Self { path, file, text };
            lock.file.set_len(0)?;
            lock.file.write_all_at(lock.text.as_bytes(), 0)?;
            return Ok(Ok(lock));
        }
        Ok(Err(Holder::Restore))
    }

    /// Whether the file is still this one: a server in another container may have taken the process that it names for a dead one, and a
    /// restore on another host may have written into it where the file system shares no locks.
    pub(super) fn is_there(&self) -> bool {
        File::open(&self.path).and_then(|file| text(&file)).is_ok_and(|text| text == self.text)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_there() {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_that_of_the_process_that_holds_it() {
        let data = tempfile::tempdir().expect("a folder");
        let path = data.path().join(LOCK);
        let holder = || holder(data.path()).expect("read");
        let take = || Lock::take(data.path()).expect("asked");
        assert_eq!(holder(), None);
        let lock = take().expect("a lock");
        assert_eq!((holder(), take().err()), (Some(Holder::Restore), Some(Holder::Restore)));
        drop(lock);
        assert!(!path.exists());
        // A restore was killed. Its number is that of another process by now, or this one's own, as in a container.
        for number in ["1".to_owned(), std::process::id().to_string(), "2147483646".to_owned()] {
            std::fs::write(&path, format!("{number}\n/data\n{OURS}\n")).expect("written");
            assert_eq!(holder(), Some(Holder::Nothing), "{number}");
            drop(take().expect("a lock"));
            assert!(!path.exists());
        }
        // A server's lock is never taken, nor removed.
        for (text, expected) in [("1\n/data\n1790000000\n5432\n", Some(1)), ("2147483646\n", None), ("", None)] {
            std::fs::write(&path, text).expect("written");
            assert_eq!((holder(), take().err()), (Some(Holder::Server(expected)), Some(Holder::Server(expected))));
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
        }
        std::fs::remove_file(&path).expect("removed");
        // A restore on a host with which the file system shares no locks wrote into it.
        let lock = take().expect("a lock");
        let own = std::fs::read_to_string(&path).expect("read");
        std::fs::write(&path, own.replace("seawall restore\n", "seawall restore\n1")).expect("written");
        assert!(!lock.is_there());
        drop(lock);
        std::fs::remove_file(&path).expect("it is left alone");
        // A server in another container took the number for that of a dead process.
        let lock = take().expect("a lock");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "7\n").expect("written");
        assert!(!lock.is_there());
        drop(lock);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "7\n");
    }
}
