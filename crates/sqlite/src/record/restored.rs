//! Which file did a restore put in the database's place?
//!
//! A base that follows a restore ends a hole that its user expects. So a restore over the database leaves a note in the state
//! directory, and the base that follows names it as the reason. The note holds the file's identity: a file that another program
//! puts there later is another one. Losing the note loses only the reason.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::FileIdentity;
use crate::lock;

/// The version of the file; see `docs/formats.md`.
const FORMAT: u32 = 1;

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

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("restored.json")
}

/// Notes that a restore made this file. Makes the state directory if there is none. Blocks.
pub(crate) fn note(state_dir: &Path, database: &Path) -> Result<(), Error> {
    let path = path(state_dir);
    let write = || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir)?;
        let bytes = serde_json::to_vec(&Note::of(database)?)?;
        let partial = path.with_extension("tmp");
        lock::private_file(&partial)?.write_all(&bytes)?;
        fs::rename(&partial, &path)
    };
    write().map_err(Error::io(&path))
}

/// Whether the file at the database's path is the one that a restore made. Blocks.
pub(crate) fn is(state_dir: &Path, database: &Path) -> bool {
    let noted = || -> Option<bool> {
        let note: Note = serde_json::from_slice(&fs::read(path(state_dir)).ok()?).ok()?;
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
}
