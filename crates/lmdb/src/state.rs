//! What is known on this machine of an environment that is kept in step: a record beside its data, and a lock.
//!
//! `<data>-seawall.json` is the last status, for whoever asks while no process can be asked; it is the old one or the new one,
//! whatever happens. `<data>-seawall.lock` is held by the process that keeps the environment in step, so that there is one (I9);
//! the system lets it go when the process ends in any way.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seawall_core::{Failure, Kind, Moment, Phase, Status};

use crate::error::Error;

/// Whoever looks whether a lock is held holds it for an instant, so one that is taken is tried again.
const GLANCES: u32 = 10;
const GLANCE: Duration = Duration::from_millis(5);

fn beside(data: &Path, end: &str) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Keeps others from keeping an environment in step, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the environment whose data is in `data`; `mode` are the permissions of its files.
    pub(crate) fn take(data: &Path, mode: u32) -> Result<Self, Error> {
        let path = beside(data, "-seawall.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(mode & 0o666).open(&path);
        let file = match file {
            // Made by another user, as by root once: a lock needs no right to write.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => File::open(&path),
            opened => opened,
        };
        let file = file.map_err(Error::io(&path))?;
        for _ in 0..GLANCES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(GLANCE),
                Err(error) => return Err(Error::io(&path)(error.into())),
            }
        }
        Err(Error::Locked { path: data.to_owned() })
    }
}

fn is_held(data: &Path) -> bool {
    let opened = OpenOptions::new().read(true).open(beside(data, "-seawall.lock"));
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

/// Writes the record.
pub(crate) fn write(data: &Path, status: &Status) -> Result<(), Error> {
    let path = beside(data, "-seawall.json");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let text = serde_json::to_vec(status).map_err(|error| Error::Internal(error.to_string()))?;
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    draft.write_all(&text).map_err(Error::io(&path))?;
    draft.persist(&path).map_err(|error| Error::io(&path)(error.error))?;
    Ok(())
}

/// The status of the environment whose data is in `data`, from its record; it is stopped if no process has its lock.
///
/// # Errors
/// When nothing was recorded, or the record can't be read.
pub(crate) fn read(data: &Path, now: Moment) -> Result<Status, Failure> {
    let path = beside(data, "-seawall.json");
    let fail =
        |kind, code, cause: String, next: &str| Failure::new(kind, code, path.display().to_string(), cause, next);
    let text = fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let cause = "nothing is recorded of this environment".to_owned();
            fail(Kind::NotFound, "lmdb.no-state", cause, "keep it in step with `seawall replicate`")
        }
        _ => Error::io(&path)(error).into(),
    })?;
    let mut status: Status = serde_json::from_slice(&text).map_err(|error| {
        fail(Kind::Corrupt, "lmdb.bad-state", error.to_string(), "delete it; a running process writes it anew")
    })?;
    if !is_held(data) && status.phase != Phase::Halted {
        status.phase = Phase::Stopped;
    }
    status.at = now;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_whether_a_process_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data.mdb");
        let now = Moment::from_millis(5);
        assert_eq!(read(&data, now).expect_err("no record").code, "lmdb.no-state");
        let status = Status {
            name: "main".into(),
            engine: "lmdb".into(),
            source: "/d".into(),
            vault: "file:///v".into(),
            phase: Phase::Protecting,
            protected: None,
            lag_bytes: 0,
            lag_ms: 0,
            source_bytes: None,
            log_bytes: None,
            error: None,
            at: Moment::from_millis(1),
        };
        write(&data, &status).expect("written");
        let lock = Lock::take(&data, 0o600).expect("a lock");
        assert!(matches!(Lock::take(&data, 0o600), Err(Error::Locked { .. })));
        assert_eq!(read(&data, now).expect("a record"), Status { at: now, ..status.clone() });
        drop(lock);
        assert_eq!(read(&data, now).expect("a record").phase, Phase::Stopped);
        fs::write(folder.path().join("data.mdb-seawall.json"), "{").expect("written");
        assert_eq!(read(&data, now).expect_err("damaged").code, "lmdb.bad-state");
    }
}
