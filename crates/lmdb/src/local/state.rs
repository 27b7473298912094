//! This machine's files for an environment that is kept in step: a record beside its data, and a lock.
//!
//! `<data>-seawall.json` is the last status; commands read it while no process answers. A crash leaves the old record
//! or the new one. The process that keeps an environment in step holds two locks, so that there is only one such
//! process (I9): on `<data>-seawall.lock`, and on the data file itself. A user who may write to the files but not to
//! their folder can't make the first; then the second refuses another process. The system releases both when the
//! process ends, however it ends.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind, Moment, Phase, Status};

use crate::error::Error;

fn beside(data: &Path, end: &str) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The locks that exclude other processes from keeping the environment in step, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The lock file; `None` if the folder takes no new file.
    _beside: Option<File>,
    _data: File,
}

impl Lock {
    /// Takes the lock of the environment whose data file is `data`; `mode` are the permissions of its files.
    pub(crate) fn take(data: &Path, mode: u32) -> Result<Self, Error> {
        let path = beside(data, "-seawall.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(mode & 0o666).open(&path);
        let file = match file {
            // Another user, such as root, made the file earlier. Locking it needs no write permission.
            Err(error) if is_refusal(&error) => match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound || is_refusal(&error) => None,
                opened => Some(opened),
            },
            opened => Some(opened),
        };
        let file = file.transpose().map_err(Error::io(&path))?;
        if let Some(file) = &file {
            hold(file, &path, data)?;
        }
        let of_data = File::open(data).map_err(Error::io(data))?;
        hold(&of_data, data, data)?;
        Ok(Self { _beside: file, _data: of_data })
    }
}

fn is_refusal(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Locks a file, or says that another process keeps the environment in step.
fn hold(file: &File, path: &Path, data: &Path) -> Result<(), Error> {
    match seawall_host::lock(file).map_err(Error::io(path))? {
        true => Ok(()),
        false => Err(Error::Locked { path: data.to_owned() }),
    }
}

fn is_held(data: &Path) -> bool {
    [beside(data, "-seawall.lock"), data.to_owned()].iter().any(|path| seawall_host::is_locked(path))
}

/// Writes the record.
pub(crate) fn write(data: &Path, status: &Status) -> Result<(), Error> {
    let path = beside(data, "-seawall.json");
    let folder = seawall_host::folder_of(&path);
    let text = serde_json::to_vec(status).map_err(|error| Error::Internal(error.to_string()))?;
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    draft.write_all(&text).map_err(Error::io(&path))?;
    draft.persist(&path).map_err(|error| Error::io(&path)(error.error))?;
    Ok(())
}

/// The status of the environment whose data file is `data`, from its record. Its phase is stopped if no process holds
/// the lock.
///
/// # Errors
/// If no status was recorded, or the record can't be read.
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
            content_read_at: None,
            progress: None,
            error: None,
            at: Moment::from_millis(1),
        };
        write(&data, &status).expect("written");
        fs::write(&data, "data").expect("written");
        let lock = Lock::take(&data, 0o600).expect("a lock");
        assert!(matches!(Lock::take(&data, 0o600), Err(Error::Locked { .. })));
        assert_eq!(read(&data, now).expect("a record"), Status { at: now, ..status.clone() });
        drop(lock);
        assert_eq!(read(&data, now).expect("a record").phase, Phase::Stopped);
        fs::write(folder.path().join("data.mdb-seawall.json"), "{").expect("written");
        assert_eq!(read(&data, now).expect_err("damaged").code, "lmdb.bad-state");
    }
}
