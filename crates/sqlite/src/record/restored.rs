//! Which file did a restore put in the database's place?
//!
//! A base that follows a restore ends a hole that its user expects. So a restore over the database leaves a note in the state
//! directory, and the base that follows names it as the reason. The note holds the file's identity: a file that another program
//! puts there later is another one. Losing the note loses only the reason.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::FileIdentity;

/// The version of the file; see `docs/formats.md`.
const FORMAT: u32 = 1;

/// More is never read.
const LARGEST: u64 = 4096;

/// The form of the note.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    format: u32,
    device: u64,
    inode: u64,
    /// When the file was born, in nanoseconds since 1970: the system gives the number of a removed file to another one.
    born: Option<u64>,
}

impl Note {
    fn of(database: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(database)?;
        let FileIdentity { device, inode } = FileIdentity::of(&metadata);
        let since = |at: SystemTime| u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok();
        Ok(Self { format: FORMAT, device, inode, born: metadata.created().ok().and_then(since) })
    }
}

/// The file, and what it is called while it is written.
const NAME: &str = "restored.json";
const PARTIAL: &str = "restored.tmp";

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(NAME)
}

/// Notes that a restore made this file. Root restores for the user whose process protects the database: what root makes in the state
/// directory belongs to its owner. Blocks.
pub(crate) fn note(state_dir: &Path, database: &Path) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let is_root = rustix::process::geteuid().is_root();
        make(state_dir, is_root)?;
        // The owner may have planted links: nothing is reached by a path from here on, and the file is always a new one.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, state_dir, flags, Mode::empty())?;
        let owner = fstat(&folder)?;
        let bytes = serde_json::to_vec(&Note::of(database)?)?;
        match unlinkat(&folder, PARTIAL, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut new = File::from(openat(&folder, PARTIAL, flags, Mode::RUSR | Mode::WUSR)?);
        if is_root {
            fchown(&new, Some(owner.st_uid), Some(owner.st_gid))?;
        }
        new.write_all(&bytes)?;
        Ok(renameat(&folder, PARTIAL, &folder, NAME)?)
    };
    write().map_err(Error::io(&path(state_dir)))
}

/// Makes the state directory. Root makes none in a folder of another user: that user's process couldn't use it.
fn make(state_dir: &Path, is_root: bool) -> io::Result<()> {
    let around = state_dir.parent().unwrap_or(Path::new("/"));
    if state_dir.is_dir() || (is_root && fs::metadata(around).is_ok_and(|around| around.uid() != 0)) {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir)
}

/// Whether a restore made the file at the database's path. Blocks.
pub(crate) fn is(state_dir: &Path, database: &Path) -> bool {
    let noted = || -> Option<bool> {
        let path = path(state_dir);
        let mut bytes = Vec::new();
        // A pipe would block.
        fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        File::open(&path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let note: Note = serde_json::from_slice(&bytes).ok()?;
        Some(note == Note::of(database).ok()?)
    };
    noted().unwrap_or(false)
}

/// Forgets the restore: a base has followed it. Blocks.
pub(crate) fn forget(state_dir: &Path) {
    let _none_or_gone = fs::remove_file(path(state_dir));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn a_note_is_of_one_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for file in [&one, &other] {
            fs::write(file, "x").expect("written");
        }
        assert!(!is(folder.path(), &one), "nothing was restored");
        note(folder.path(), &one).expect("noted");
        assert!(is(folder.path(), &one) && !is(folder.path(), &other));
        fs::write(&one, "written to").expect("written");
        assert!(is(folder.path(), &one));
        fs::rename(&other, &one).expect("replaced");
        assert!(!is(folder.path(), &one));
        note(folder.path(), &one).expect("noted");
        forget(folder.path());
        assert!(!is(folder.path(), &one));
        fs::write(path(folder.path()), "{").expect("damaged");
        assert!(!is(folder.path(), &one));
    }

    #[test]
    fn what_root_notes_belongs_to_the_owner_of_the_state_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, state) = (folder.path().join("app.db"), folder.path().join(".app.db-seawall"));
        fs::write(&database, "x").expect("written");
        if chown(folder.path(), Some(54_321), Some(54_322)).is_err() {
            eprintln!("left out: this user may not give files away");
            return;
        }
        // In another user's folder, root makes none.
        note(&state, &database).expect_err("there is no folder");
        assert!(!state.exists());
        fs::create_dir(&state).expect("made");
        chown(&state, Some(54_323), Some(54_324)).expect("given away");
        note(&state, &database).expect("noted");
        let made = fs::metadata(path(&state)).expect("there");
        assert_eq!((made.uid(), made.gid(), is(&state, &database)), (54_323, 54_324, true));
        // Links that the owner planted lead root nowhere.
        let elsewhere = tempfile::tempdir().expect("a folder");
        fs::write(elsewhere.path().join(PARTIAL), "another's").expect("written");
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).expect("linked");
        link(&elsewhere.path().join(PARTIAL), &state.join(PARTIAL));
        note(&state, &database).expect("noted");
        fs::rename(&state, folder.path().join("aside")).expect("moved");
        link(elsewhere.path(), &state);
        note(&state, &database).expect_err("it is a link");
        assert_eq!(fs::read_to_string(elsewhere.path().join(PARTIAL)).expect("read"), "another's");
        assert_eq!(fs::read_dir(elsewhere.path()).expect("read").count(), 1);
    }
}
