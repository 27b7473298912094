//! Which file did a restore put in the database's place?
//!
//! A base that follows a restore ends a hole that its user expects. So a restore over the database leaves a note in the state
//! directory, and the base that follows names it as the reason. The note holds the file's identity: a file that another program
//! puts there later is another one. Losing the note loses only the reason.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("restored.json")
}

/// Notes that a restore made this file. Makes the state directory if there is none. Root restores for the user whose process protects
/// the database: what is made belongs to the owner of the folder around it. Blocks.
pub(crate) fn note(state_dir: &Path, database: &Path) -> Result<(), Error> {
    let path = path(state_dir);
    let write = || -> io::Result<()> {
        make(state_dir)?;
        let owner = fs::metadata(state_dir)?;
        let bytes = serde_json::to_vec(&Note::of(database)?)?;
        let partial = path.with_extension("tmp");
        // The owner may have planted a link: the file is always a new one.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        if owner.uid() != new.metadata()?.uid() {
            fchown(&new, Some(owner.uid()), Some(owner.gid()))?;
        }
        new.write_all(&bytes)?;
        fs::rename(&partial, &path)
    };
    write().map_err(Error::io(&path))
}

/// Makes the state directory, for the owner of the folder around it.
fn make(state_dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(state_dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    let around = fs::metadata(state_dir.parent().unwrap_or(Path::new("/")))?;
    if around.uid() != fs::metadata(state_dir)?.uid() {
        chown(state_dir, Some(around.uid()), Some(around.gid()))?;
    }
    Ok(())
}

/// Whether the file at the database's path is the one that a restore made. Blocks.
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
    fn what_root_notes_belongs_to_the_owner_of_the_folder_around_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, state) = (folder.path().join("app.db"), folder.path().join(".app.db-seawall"));
        fs::write(&database, "x").expect("written");
        if chown(folder.path(), Some(54_321), Some(54_322)).is_err() {
            eprintln!("left out: this user may not give files away");
            return;
        }
        // A folder that is there keeps its owner, and so does what is noted in it.
        for owner in [(54_321, 54_322), (54_323, 54_324)] {
            note(&state, &database).expect("noted");
            for made in [state.clone(), path(&state)] {
                let made = fs::metadata(made).expect("there");
                assert_eq!((made.uid(), made.gid()), owner);
            }
            assert!(is(&state, &database));
            chown(&state, Some(54_323), Some(54_324)).expect("given away");
        }
    }
}
