//! Was the vault's folder written to by an earlier process, and on which mount was it?
//!
//! A process that starts can't tell by the folder alone whether the vault is new, or on a disk that isn't mounted. So the first
//! write leaves a note in the state directory: the folder, and the mount that held it. A start compares the note with what is there
//! now, and makes no folder in the place of one that is missing. [`judge`] decides; the rest reads and writes the note. Without a
//! note that can be read, the folder counts as new. A folder is noted by its path as written and by the path that this leads to
//! ([`keys`]), so a note is found by each other way to write the path, and by a link whose target is on the missing disk. Only the owner ends a note of a disk, by deleting it: what lies under the disk
//! may be an older vault, or a file that says that nothing is mounted.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::anchor::{Standing, disk_of, has_own_device};

/// The version of the file; see `docs/formats.md`.
const FORMAT: u32 = 1;

/// More is never read.
const LARGEST: u64 = 64 << 10;

/// Links on the way to a folder that are followed. Linux follows as many.
const MOST_LINKS: usize = 40;

/// One change of a note at a time in this process: the vaults of one database share a file.
static TURN: Mutex<()> = Mutex::new(());

/// The file with the notes.
#[derive(Debug)]
pub(super) struct Memory {
    file: PathBuf,
    /// Whether its folder is Seawall's alone, and may be made. The folder of a database that is away isn't.
    own_folder: bool,
    /// Whether a fault of the file was told.
    is_told: AtomicBool,
}

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
    /// Where the folder's disk was mounted; `None` for the system's own disk. A unit of systemd mounts each folder that it may write
    /// to over itself. Such a mount is of the disk around it, so it doesn't count.
    mount: Option<PathBuf>,
}

impl Note {
    fn of(folder: PathBuf) -> Self {
        Self { mount: disk_of(&folder), folder }
    }

    /// Where the folder's disk was mounted, if no disk is mounted there now.
    fn unmounted(&self) -> Option<&Path> {
        self.mount.as_deref().filter(|mount| !has_own_device(mount))
    }

    /// Whether this note stays, although the folder is seen as `now` tells: another process or the owner may see its disk.
    fn outlives(&self, now: &Self) -> bool {
        self == now || self.unmounted().is_some() || (self.mount.is_some() && now.mount.is_none())
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
        Self { file, own_folder: false, is_told: AtomicBool::new(false) }
    }

    /// The same, of a file whose folder is made with the first note.
    pub(super) fn in_own_folder(file: PathBuf) -> Self {
        Self { own_folder: true, ..Self::new(file) }
    }

    /// The file, for messages.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// What became of a folder that an earlier process wrote to, and where its disk isn't mounted. Blocks.
    pub(super) fn standing(&self, root: &Path) -> Option<(Standing, Option<PathBuf>)> {
        let notes = self.notes_of(root);
        let exists = notes.is_empty() || !matches!(root.try_exists(), Ok(false));
        // The note of a disk that isn't mounted says more than one of a folder that is missing.
        let unmounted = notes.iter().find_map(Note::unmounted);
        let standing = notes.first().and_then(|_| judge(exists, unmounted.is_some()))?;
        Some((standing, unmounted.map(Path::to_owned)))
    }

    /// Notes that a folder, which is there, is written to, unless this machine has no folder for the note. Says whether it is noted.
    /// The note of a disk stays, unless the folder is on another one now. Blocks.
    pub(super) fn note(&self, root: &Path) -> bool {
        let keys = keys(root);
        if keys.is_empty() {
            return false;
        }
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = self.read().unwrap_or_default();
        let mut is_new = false;
        for note in keys.into_iter().map(Note::of) {
            let known = notes.folders.iter().find(|known| known.folder == note.folder);
            if known.is_some_and(|known| known.outlives(&note)) {
                continue;
            }
            is_new = true;
            notes.folders.retain(|known| known.folder != note.folder);
            notes.folders.push(note);
        }
        if !is_new {
            return true;
        }
        let written = self.write(&Notes { format: FORMAT, ..notes });
        if let Err(error) = &written
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            let file = self.file.display();
            tracing::warn!(%file, %error, "where the vault's folder is can't be noted: a start won't notice a missing disk");
        }
        written.is_ok()
    }

    /// The notes of a folder: of its path as written, and of the path that this leads to.
    fn notes_of(&self, root: &Path) -> Vec<Note> {
        let Some(Notes { folders, .. }) = self.read() else { return Vec::new() };
        let keys = keys(root);
        folders.into_iter().filter(|note| keys.contains(&note.folder)).collect()
    }

    /// The notes. A file that can't be understood is told once, and counts as none.
    fn read(&self) -> Option<Notes> {
        match self.try_read() {
            Ok(notes) => Some(notes),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            // A command of another user reads the vault.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                if !self.is_told.swap(true, Ordering::Relaxed) {
                    let file = self.file.display();
                    tracing::warn!(%file, %error, "where the vault's folder was can't be read: each folder counts as new");
                }
                None
            }
        }
    }

    fn try_read(&self) -> io::Result<Notes> {
        if !fs::symlink_metadata(&self.file)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        File::open(&self.file)?.take(LARGEST).read_to_end(&mut bytes)?;
        let notes: Notes = serde_json::from_slice(&bytes)?;
        if notes.format == FORMAT { Ok(notes) } else { Err(io::Error::other("it has an unknown format")) }
    }

    fn write(&self, notes: &Notes) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        if self.own_folder {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let owner = fs::metadata(folder)?;
        // A command and a process may note at the same time.
        let partial = self.file.with_extension(format!("{}.tmp", std::process::id()));
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
        fs::rename(&partial, &self.file)?;
        File::open(folder)?.sync_all()
    }
}

/// The absolute paths by which a folder is noted: as it is written, and the one that this leads to. Earlier versions noted the first alone.
/// The second changes with a link, so the first is noted, too: a link may be on the disk that isn't mounted. Blocks.
fn keys(root: &Path) -> Vec<PathBuf> {
    let Ok(written) = std::path::absolute(root) else { return Vec::new() };
    let led = led_to(&written);
    if led == written { vec![written] } else { vec![written, led] }
}

/// The path that an absolute path leads to, without links, `.` and `..`. Unlike `canonicalize` it goes on behind a name that is missing,
/// as the target of a link does whose disk isn't mounted.
fn led_to(path: &Path) -> PathBuf {
    let parts =
        |path: &Path| -> Vec<OsString> { path.components().map(Component::as_os_str).map(OsStr::to_owned).collect() };
    let (mut led, mut left, mut links) = (PathBuf::from("/"), VecDeque::from(parts(path)), 0);
    while let Some(part) = left.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => led = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(led.pop()),
            Some(Component::Normal(name)) => {
                led.push(name);
                if let Some(target) = fs::read_link(&led).ok().filter(|_| links < MOST_LINKS) {
                    links += 1;
                    led.pop();
                    parts(&target).into_iter().rev().for_each(|part| left.push_front(part));
                }
            }
            _ => {}
        }
    }
    led
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_the_same_folder_however_it_is_written() {
        let directory = tempfile::tempdir().expect("a folder");
        let top = directory.path().canonicalize().expect("there");
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, top.join(name)).expect("linked");
        fs::create_dir_all(top.join("disk/vault")).expect("made");
        link("disk", "relative");
        fs::create_dir_all(top.join("deep")).expect("made");
        link("../disk/vault", "deep/across");
        link(top.join("away/vault").to_str().expect("text"), "missing");
        link("circle", "circle");
        for (written, expected) in [
            ("disk/vault", "disk/vault"),
            ("disk/vault/", "disk/vault"),
            ("disk/./vault", "disk/vault"),
            ("disk/none/../vault", "disk/vault"),
            ("relative/vault", "disk/vault"),
            ("relative/../disk/vault", "disk/vault"),
            ("deep/across", "disk/vault"),
            ("deep/across/../none", "disk/none"),
            // Its disk isn't mounted.
            ("missing", "away/vault"),
            ("missing/inner", "away/vault/inner"),
        ] {
            assert_eq!(led_to(&top.join(written)), top.join(expected), "{written}");
        }
        assert!(led_to(&top.join("circle/x")).starts_with(&top), "it ends");
        assert_eq!(led_to(Path::new("/../..")), Path::new("/"));
    }

    #[test]
    fn a_note_is_found_by_each_way_to_write_the_path() {
        let directory = tempfile::tempdir().expect("a folder");
        let top = directory.path().canonicalize().expect("there");
        let (vault, link) = (top.join("vault"), top.join("link"));
        fs::create_dir(&vault).expect("made");
        std::os::unix::fs::symlink("vault", &link).expect("linked");
        let memory = Memory::new(top.join("vault-place.json"));
        assert!(memory.note(&link));
        // As earlier versions noted it, too: they find it by the link alone.
        assert_eq!(
            memory.read().expect("notes").folders.iter().map(|note| &note.folder).collect::<Vec<_>>(),
            [&link, &vault]
        );
        fs::remove_dir(&vault).expect("removed");
        for written in [vault.clone(), link.clone(), top.join("none/../vault/"), top.join("./link")] {
            assert_eq!(memory.standing(&written), Some((Standing::Gone, None)), "{}", written.display());
        }
        assert_eq!(memory.standing(&top.join("another")), None);
        // A disk at which the link's target was mounted, of which an earlier version noted the link alone. And a disk with the link on it.
        for (noted, asked) in [(&link, &link), (&vault, &link), (&vault, &vault)] {
            let disk = Note { folder: noted.clone(), mount: Some(top.join("away")) };
            memory.write(&Notes { format: FORMAT, folders: vec![disk] }).expect("written");
            assert_eq!(memory.standing(asked), Some((Standing::Unmounted, Some(top.join("away")))));
        }
    }

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
    fn a_note_of_a_disk_ends_with_another_disk_only() {
        // `/proc` is a file system of its own on each Linux; nothing is mounted at `/proc/self`.
        for (before, now, stays) in [
            (None, None, true),
            (None, Some("/proc"), false),
            (Some("/proc"), Some("/proc"), true),
            // A process that doesn't see the disk, or the folder behind a link that was changed.
            (Some("/proc"), None, true),
            (Some("/proc"), Some("/other"), !cfg!(target_os = "linux")),
            (Some("/proc/self"), Some("/other"), true),
        ] {
            let note = |mount: Option<&str>| Note { folder: "/x".into(), mount: mount.map(PathBuf::from) };
            assert_eq!(note(before).outlives(&note(now)), stays, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_note_is_kept_for_each_folder_and_damage_is_none() {
        let directory = tempfile::tempdir().expect("a folder");
        // Without a link in it, so that each folder has one note.
        let top = directory.path().canonicalize().expect("there");
        let file = top.join("state/vault-place.json");
        let (one, other) = (top.join("one"), top.join("other"));
        let memory = Memory::new(file.clone());
        assert_eq!((memory.notes_of(&one), memory.standing(&one)), (Vec::new(), None));
        assert!(!memory.note(directory.path()), "a reader makes no state directory");
        let own = Memory::in_own_folder(top.join("silences/0.vault-place.json"));
        assert!(own.note(&top) && own.notes_of(&top).len() == 1, "a folder of Seawall's alone is made");
        assert_eq!(fs::metadata(top.join("silences")).expect("there").mode() & 0o777, 0o700);
        fs::create_dir(directory.path().join("state")).expect("made");
        for folder in [&one, &other] {
            fs::create_dir(folder).expect("made");
            assert!(memory.note(folder) && memory.note(folder));
        }
        assert!(!memory.notes_of(&one).is_empty() && !memory.notes_of(&other).is_empty());
        assert_eq!(memory.read().expect("notes").folders.len(), 2);
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        assert_eq!(memory.standing(&one), None);
        fs::remove_dir(&one).expect("removed");
        assert_eq!(memory.standing(&one), Some((Standing::Gone, None)));
        // A disk that was mounted at the other folder: whatever is there now isn't the vault.
        let disk = Note { folder: other.clone(), mount: Some(other.clone()) };
        memory.write(&Notes { format: FORMAT, folders: vec![disk.clone()] }).expect("written");
        let unmounted = Some((Standing::Unmounted, Some(other.clone())));
        assert_eq!(memory.standing(&other), unmounted);
        for leftover in [".not-mounted", "ltx"] {
            fs::write(other.join(leftover), "").expect("written");
            assert_eq!(memory.standing(&other), unmounted, "{leftover}");
        }
        assert!(memory.note(&other) && memory.notes_of(&other) == [disk], "the note stays");
        for damage in ["", "{", r#"{"format":2,"folders":[]}"#, r#"{"format":1,"folders":[{"folder":5}]}"#] {
            fs::write(&file, damage).expect("written");
            assert_eq!((memory.notes_of(&one), memory.standing(&one)), (Vec::new(), None), "{damage}");
        }
    }
}
