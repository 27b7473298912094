//! A folder on a disk of this host that only one user can open, and that goes when the work with it ends.
//!
//! A process locks its folder before it writes anything there. So a folder that is neither locked nor empty was left by a killed
//! process, and the next process removes it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

use crate::apart::User;

/// The flags of a folder that is opened itself, and not what a link leads to.
const NO_LINK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW);

/// Letters and digits at the end of a folder's name. Another folder with this prefix is hardly called so.
const RANDOM: usize = 12;

/// How often a folder is tried to be removed into which something is still written.
const TRIES: u32 = 20;

/// How long it waits between two tries.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(10);

/// A private folder, which goes when this is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: TempDir,
    /// Closed, and with that unlocked, when the folder is gone.
    lock: File,
}

impl PrivateFolder {
    /// Makes one in a place, for a user, or for the user of this process. First it removes the folders of the same user and
    /// prefix that killed processes left; messages say what those processes did (`work`). Blocks.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn new(place: &Path, prefix: &str, work: &str, user: Option<User>) -> io::Result<Self> {
        let owner = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
        remove_left(place, prefix, work, owner);
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).rand_bytes(RANDOM).permissions(Permissions::from_mode(0o700));
        let folder = builder.tempdir_in(place)?;
        let lock = open(folder.path())?;
        // A process that looks whether the folder was left unlocks it at once: nothing is in it yet.
        flock(&lock, FlockOperation::LockExclusive)?;
        if let Some(user) = user {
            user.own(&lock)?;
        }
        Ok(Self { folder, lock })
    }

    /// The folders in a place that killed processes left, of whichever user, as far as this process may look into them. Blocks.
    pub fn left_in(place: &Path, prefix: &str) -> Vec<PathBuf> {
        let Ok(found) = std::fs::read_dir(place) else { return Vec::new() };
        let folders = found.flatten().filter(|folder| is_one(&folder.file_name().to_string_lossy(), prefix));
        folders.map(|folder| folder.path()).filter(|path| was_left(path)).collect()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder itself, whatever its path leads to.
    pub(crate) fn handle(&self) -> &File {
        &self.lock
    }

    /// Removes it; the log names it where that fails. Blocks.
    pub fn remove(self) {
        let path = self.folder.path();
        if let Err(error) = clear(path) {
            tracing::warn!(folder = %path.display(), "remove it, for this can't: {error}");
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What remains is tried once more with the folder itself, and the next process removes it.
        let _remains = clear(self.folder.path());
    }
}

/// Removes a folder. A thread whose work was given up may still be making a file in it, so it is tried for a moment.
fn clear(path: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && tries < TRIES => {
                tries += 1;
                std::thread::sleep(BETWEEN);
            }
            done => return done,
        }
    }
}

/// Removes the folders that killed processes left in a place: those of a `user` whose names begin with `prefix`. The log names
/// each folder that can't be removed.
fn remove_left(place: &Path, prefix: &str, work: &str, user: u32) {
    let Ok(found) = std::fs::read_dir(place) else { return };
    for folder in found.flatten().filter(|folder| is_one(&folder.file_name().to_string_lossy(), prefix)) {
        let path = folder.path();
        let ours =
            folder.metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == user && facts.mode() & 0o077 == 0);
        if !ours || !was_left(&path) {
            continue;
        }
        match std::fs::remove_dir_all(&path) {
            Ok(()) => tracing::warn!(folder = %path.display(), "removed what a killed {work} left"),
            Err(error) => tracing::warn!(folder = %path.display(), "a killed {work} left it; remove it: {error}"),
        }
    }
}

/// Whether a folder is called as this module calls one.
fn is_one(name: &str, prefix: &str) -> bool {
    let random = name.strip_prefix(prefix);
    random.is_some_and(|random| random.len() == RANDOM && random.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Opens a folder, and no link to one.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(NO_LINK.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether no process holds a folder in which something is.
fn was_left(path: &Path) -> bool {
    let Ok(opened) = open(path) else { return false };
    flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok()
        && std::fs::read_dir(path).is_ok_and(|mut found| found.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        for (name, mode) in [
            ("private-left00000000", 0o700),
            ("private-empty0000000", 0o700),
            ("private-open00000000", 0o755),
            ("private-thesis", 0o700),
            ("other", 0o700),
        ] {
            std::fs::create_dir(at(name)).expect("made");
            std::fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("set");
            if name != "private-empty0000000" {
                std::fs::write(at(name).join("file"), "x").expect("written");
            }
        }
        std::os::unix::fs::symlink(at("other"), at("private-link00000000")).expect("linked");
        let make = || PrivateFolder::new(place.path(), "private-", "test", None).expect("a private folder");
        let held = make();
        std::fs::write(held.path().join("file"), "x").expect("written");
        let another = make();
        assert!(held.path().join("file").exists() && !at("private-left00000000").exists());
        for kept in [
            "private-empty0000000",
            "private-open00000000/file",
            "private-thesis/file",
            "other/file",
            "private-link00000000",
        ] {
            assert!(at(kept).exists(), "{kept}");
        }
        let (one, other) = (held.path().to_owned(), another.path().to_owned());
        assert_eq!(std::fs::metadata(&one).expect("there").mode() & 0o777, 0o700);
        held.remove();
        drop(another);
        assert!(!one.exists() && !other.exists());
    }
}
