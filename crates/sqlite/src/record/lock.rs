//! One Seawall for each database and each vault prefix of a host (I9).
//!
//! Two advisory locks: one in the state directory, and one named after the vault's URL in the user's temporary
//! folder, so that two databases can't be sent to one prefix. The system lets both go when the process ends in any
//! way. Writers on other hosts are caught by create-only objects.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use seawall_host::Lock;

use crate::error::Error;
use crate::files::FileIdentity;

/// Both locks, held until dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    state: Held,
    vault: Option<Held>,
}

/// A lock, and the file that is locked.
#[derive(Debug)]
struct Held {
    lock: Lock,
    file: FileIdentity,
}

impl Locks {
    /// Takes both locks, or says which one another process holds. Blocks only for the file system.
    pub(crate) fn take(source: &Path, state_dir: &Path, vault: &str) -> Result<Self, Error> {
        let held = |what: String| Error::Locked { path: source.to_owned(), what };
        let state = lock(&state_lock(state_dir))?.ok_or_else(|| held("the state directory of this database".into()))?;
        // A vault in memory is this process's own.
        let vault_lock = match vault.strip_prefix("memory:") {
            Some(_) => None,
            None => Some(
                lock(&vault_lock(&std::env::temp_dir(), vault)?)?.ok_or_else(|| held(format!("the vault {vault}")))?,
            ),
        };
        Ok(Self { state, vault: vault_lock })
    }

    /// Takes only the lock of the database, for a process that writes to no vault.
    pub(crate) fn take_local(source: &Path, state_dir: &Path) -> Result<Self, Error> {
        let held = || Error::Locked { path: source.to_owned(), what: "the state directory of this database".into() };
        Ok(Self { state: lock(&state_lock(state_dir))?.ok_or_else(held)?, vault: None })
    }

    /// Takes the lock in the state directory again if it was deleted there.
    pub(crate) fn renew(&mut self, state_dir: &Path) -> Result<(), Error> {
        let path = state_lock(state_dir);
        if fs::metadata(&path).is_ok_and(|there| FileIdentity::of(&there) == self.state.file) {
            return Ok(());
        }
        let what = "the state directory of this database, which was made anew".to_owned();
        self.state = lock(&path)?.ok_or(Error::Locked { path, what })?;
        Ok(())
    }

    /// Whether they are held without a descriptor.
    pub(crate) fn are_free_of_descriptors(&self) -> bool {
        let held = [Some(&self.state), self.vault.as_ref()];
        held.into_iter().flatten().all(|held| held.lock.is_free_of_descriptors())
    }
}

/// Whether a process protects the database of this state directory now, or keeps it up.
pub fn is_held(state_dir: &Path) -> bool {
    seawall_host::is_locked(&state_lock(state_dir))
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

/// The lock file of a vault, in a folder that only this user can write to. The temporary folder is open to all users, so a
/// folder that another user could have made is refused.
fn vault_lock(temporary: &Path, vault: &str) -> Result<PathBuf, Error> {
    let user = rustix::process::geteuid().as_raw();
    let folder = temporary.join(format!("seawall-{user}"));
    private_dir(&folder)?;
    let found = fs::symlink_metadata(&folder).map_err(Error::io(&folder))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(Error::UnsafeFolder { path: folder });
    }
    let name = seawall_ltx::crc64(vault.as_bytes());
    Ok(folder.join(format!("{name:016x}.lock")))
}

fn lock(path: &Path) -> Result<Option<Held>, Error> {
    if let Some(parent) = path.parent() {
        private_dir(parent)?;
    }
    let open = || -> io::Result<Option<Held>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let open = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        let file = FileIdentity::of(&open.metadata()?);
        Ok(Lock::of(open, path)?.map(|lock| Held { lock, file }))
    };
    open().map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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

    /// The temporary folder is open to all users. Another user could lead our locks elsewhere with a link.
    #[test]
    fn a_folder_of_locks_that_another_user_could_have_made_is_not_used() {
        let directory = tempfile::tempdir().expect("a folder");
        let folder = directory.path().join(format!("seawall-{}", rustix::process::geteuid().as_raw()));
        let elsewhere = directory.path().join("elsewhere");
        private_dir(&elsewhere).expect("made");
        std::os::unix::fs::symlink(&elsewhere, &folder).expect("linked");
        assert!(matches!(vault_lock(directory.path(), "vault"), Err(Error::UnsafeFolder { .. })));
        fs::remove_file(&folder).expect("removed");
        let path = vault_lock(directory.path(), "vault").expect("a folder of our own");
        std::os::unix::fs::symlink(elsewhere.join("target"), &path).expect("linked");
        assert!(matches!(lock(&path), Err(Error::Io { .. })), "a lock that is a link");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("opened");
        assert!(matches!(vault_lock(directory.path(), "vault"), Err(Error::UnsafeFolder { .. })));
        assert!(fs::read_dir(&elsewhere).expect("read").next().is_none(), "nothing was made elsewhere");
    }
}
