//! One Seawall for each database and each vault prefix of a host (I9).
//!
//! Two advisory locks: one in the state directory, and one named after the vault's URL in the user's temporary
//! folder, so that two databases can't be sent to one prefix. The system lets both go when the process ends in any
//! way. Writers on other hosts are caught by create-only objects.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;

/// Both locks, held until dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    _state: File,
    _vault: Option<File>,
}

impl Locks {
    /// Takes both locks, or says which one another process holds. Blocks only for the file system.
    pub(crate) fn take(source: &Path, state_dir: &Path, vault: &str) -> Result<Self, Error> {
        let held = |what: String| Error::Locked { path: source.to_owned(), what };
        let state = lock(&state_lock(state_dir))?.ok_or_else(|| held("the state directory of this database".into()))?;
        // A vault in memory is this process's own.
        let vault_lock = match vault.strip_prefix("memory:") {
            Some(_) => None,
            None => Some(lock(&vault_lock(vault))?.ok_or_else(|| held(format!("the vault {vault}")))?),
        };
        Ok(Self { _state: state, _vault: vault_lock })
    }
}

/// Whether a process protects the database of this state directory now.
pub(crate) fn is_held(state_dir: &Path) -> bool {
    match OpenOptions::new().read(true).open(state_lock(state_dir)) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
        Err(_) => false,
    }
}

/// Makes a directory that only its owner can read, with its parents.
pub(crate) fn private_dir(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::io(path))
}

/// Makes an empty file that only its owner can read.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)
}

fn state_lock(state_dir: &Path) -> PathBuf {
    state_dir.join("lock")
}

fn vault_lock(vault: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let name = seawall_ltx::crc64(vault.as_bytes());
    std::env::temp_dir().join(format!("seawall-{user}")).join(format!("{name:016x}.lock"))
}

fn lock(path: &Path) -> Result<Option<File>, Error> {
    if let Some(parent) = path.parent() {
        private_dir(parent)?;
    }
    let open = || -> io::Result<Option<File>> {
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        // The process id is for people who look; the lock itself is the system's.
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(file))
    };
    open().map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused() {
        let directory = tempfile::tempdir().expect("a folder");
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        let vault = directory.path().join("vault").display().to_string();
        assert!(!is_held(&one));
        let locks = Locks::take(Path::new("a.db"), &one, &vault).expect("free");
        assert!(is_held(&one));
        assert!(matches!(Locks::take(Path::new("a.db"), &one, "elsewhere"), Err(Error::Locked { .. })));
        assert!(matches!(Locks::take(Path::new("b.db"), &two, &vault), Err(Error::Locked { .. })));
        drop(locks);
        assert!(!is_held(&one));
        Locks::take(Path::new("a.db"), &one, &vault).expect("free again");
    }
}
