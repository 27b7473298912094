//! Was the vault's folder written to by an earlier process, and on which mount was it?
//!
//! A process that starts can't tell by the folder alone whether the vault is new, or on a disk that isn't mounted. So the first
//! write leaves a note in the state directory: the folder, and the mount that held it. A start compares the note with what is there
//! now, and makes no folder in the place of one that is missing. [`judge`] decides; the rest reads and writes the note. Without a
//! note that can be read, the folder counts as new. Only the owner ends a note of a disk, by deleting it: what lies under the disk
//! may be an older vault, or a file that says that nothing is mounted.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::anchor::{Standing, has_own_device, mount_point};

/// The version of the file; see `docs/formats.md`.
const FORMAT: u32 = 1;

/// More is never read.
const LARGEST: u64 = 64 << 10;

/// One change of a note at a time in this process: the vaults of one database share a file.
static TURN: Mutex<()> = Mutex::new(());

/// The file with the notes.
#[derive(Debug)]
pub(super) struct Memory(PathBuf);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    format: u32,
    folders: Vec<Note>,
}

/// A folder that was written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    folder: PathBuf,
    /// Where the file system of the folder was mounted; `None` for the system's own.
    mount: Option<PathBuf>,
    /// Whether that was another device than the one around it. A unit of systemd mounts each folder that it may write to, also one
    /// of the system's disk, and one under a disk that isn't mounted. Such a mount says nothing.
    own_device: bool,
}

impl Note {
    fn of(folder: PathBuf) -> Self {
        let mount = mount_point(&folder);
        Self { own_device: mount.as_deref().is_some_and(has_own_device), folder, mount }
    }

    /// Whether the folder was on a disk of its own that isn't mounted there now.
    fn is_unmounted(&self) -> bool {
        self.own_device && self.mount.as_deref().is_some_and(|mount| !has_own_device(mount))
    }
}

/// What became of a folder since an earlier process wrote to it; `None` if the path leads to the vault, or to a vault that is to be
/// made. `is_unmounted`: its disk isn't mounted. Then what the folder holds proves nothing.
fn judge(exists: bool, is_unmounted: bool) -> Option<Standing> {
    match (exists, is_unmounted) {
        (_, true) => Some(Standing::Unmounted),
        (false, false) => Some(Standing::Gone),
        (true, false) => None,
    }
}

impl Memory {
    pub(super) fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// The file, for messages.
    pub(super) fn file(&self) -> &Path {
        &self.0
    }

    /// What became of a folder that an earlier process wrote to. Blocks.
    pub(super) fn standing(&self, root: &Path) -> Option<Standing> {
        let note = self.note_of(root)?;
        let exists = !matches!(root.try_exists(), Ok(false));
        judge(exists, note.is_unmounted())
    }

    /// Notes that a folder, which is there, is written to, unless this machine has no folder for the note. Says whether it is noted.
    /// The note of a disk that isn't mounted stays. Blocks.
    pub(super) fn note(&self, root: &Path) -> bool {
        let Ok(folder) = std::path::absolute(root) else { return false };
        let note = Note::of(folder);
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = self.read().unwrap_or_default();
        let known = notes.folders.iter().find(|known| known.folder == note.folder);
        if known.is_some_and(|known| *known == note || known.is_unmounted()) {
            return true;
        }
        notes.folders.retain(|known| known.folder != note.folder);
        notes.folders.push(note);
        let written = self.write(&Notes { format: FORMAT, ..notes });
        if let Err(error) = &written {
            tracing::debug!(file = %self.0.display(), %error, "where the vault's folder is can't be noted");
        }
        written.is_ok()
    }

    fn note_of(&self, root: &Path) -> Option<Note> {
        let folder = std::path::absolute(root).ok()?;
        self.read()?.folders.into_iter().find(|note| note.folder == folder)
    }

    fn read(&self) -> Option<Notes> {
        if !fs::symlink_metadata(&self.0).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&self.0).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|notes: &Notes| notes.format == FORMAT)
    }

    fn write(&self, notes: &Notes) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("/"));
        let owner = fs::metadata(folder)?;
        let partial = self.0.with_extension("tmp");
        // Another user may own the folder, and may have planted a link: the file is always a new one.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        if owner.uid() != new.metadata()?.uid() {
            std::os::unix::fs::fchown(&new, Some(owner.uid()), Some(owner.gid()))?;
        }
        new.write_all(&serde_json::to_vec(notes)?)?;
        new.sync_all()?;
        fs::rename(&partial, &self.0)?;
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_folder_since_an_earlier_process() {
        for (exists, is_unmounted, expected) in [
            // It may have been emptied: what was lost is told, and protection begins anew.
            (true, false, None),
            (false, false, Some(Standing::Gone)),
            (false, true, Some(Standing::Unmounted)),
            // Empty, with a file that says so, or with an older vault.
            (true, true, Some(Standing::Unmounted)),
        ] {
            assert_eq!(judge(exists, is_unmounted), expected, "{exists} {is_unmounted}");
        }
    }

    #[test]
    fn a_note_is_kept_for_each_folder_and_damage_is_none() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("state/vault-place.json");
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        let memory = Memory::new(file.clone());
        assert_eq!((memory.note_of(&one), memory.standing(&one)), (None, None));
        assert!(!memory.note(directory.path()), "a reader makes no state directory");
        fs::create_dir(directory.path().join("state")).expect("made");
        for folder in [&one, &other] {
            fs::create_dir(folder).expect("made");
            assert!(memory.note(folder) && memory.note(folder));
        }
        assert!(memory.note_of(&one).is_some() && memory.note_of(&other).is_some());
        assert_eq!(memory.read().expect("notes").folders.len(), 2);
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        assert_eq!(memory.standing(&one), None);
        fs::remove_dir(&one).expect("removed");
        assert_eq!(memory.standing(&one), Some(Standing::Gone));
        // A disk that was mounted at the other folder: whatever is there now isn't the vault.
        let on_disk = |own_device| {
            let disk = Note { folder: other.clone(), mount: Some(other.clone()), own_device };
            memory.write(&Notes { format: FORMAT, folders: vec![disk] }).expect("written");
        };
        on_disk(true);
        assert_eq!(memory.standing(&other), Some(Standing::Unmounted));
        for leftover in [".not-mounted", "ltx"] {
            fs::write(other.join(leftover), "").expect("written");
            assert_eq!(memory.standing(&other), Some(Standing::Unmounted), "{leftover}");
        }
        assert!(memory.note(&other) && memory.note_of(&other).expect("noted").own_device, "the note stays");
        // A folder of the system's disk, which a unit of systemd mounted for itself.
        on_disk(false);
        assert_eq!(memory.standing(&other), None);
        assert!(memory.note(&other) && memory.note_of(&other) == Some(Note::of(other.clone())));
        for damage in ["", "{", r#"{"format":2,"folders":[]}"#, r#"{"format":1,"folders":[{"folder":5}]}"#] {
            fs::write(&file, damage).expect("written");
            assert_eq!((memory.note_of(&one), memory.standing(&one)), (None, None), "{damage}");
        }
    }
}
