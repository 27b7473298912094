//! When was the content of a vault last read back without a wrong checksum?
//!
//! A listing shows missing objects and wrong sizes; only reading shows a flipped byte. So each operation that reads all objects
//! of the newest state notes when: `verify`, `verify --strong`, a restore of the newest state, and a merge of all objects into
//! a new base. The note is a file in the state directory, and the process that read writes it. Losing it loses only the note.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lock;

/// The format of the file; see `docs/formats.md`.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    format: u32,
    /// Of which vault the content was read.
    vault: String,
    content_read_at: Moment,
}

/// The note of one database's vault, on the disk and in memory.
#[derive(Debug)]
pub(crate) struct ReadBack {
    /// `None` where no database is known, only a vault.
    state_dir: Option<PathBuf>,
    vault: String,
    known: Mutex<Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    at: Option<Moment>,
    /// When the file was written.
    written: Option<SystemTime>,
}

impl ReadBack {
    pub(crate) fn new(state_dir: Option<PathBuf>, vault: String) -> Self {
        Self { state_dir, vault, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Two plain values, whole between any two statements.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the content was read last, as far as this process knows.
    pub(crate) fn at(&self) -> Option<Moment> {
        self.known().at
    }

    /// Whether the note on the disk is the one in memory. One call to the system.
    pub(crate) fn is_known(&self) -> bool {
        self.written() == self.known().written
    }

    fn written(&self) -> Option<SystemTime> {
        fs::metadata(path(self.state_dir.as_ref()?)).ok()?.modified().ok()
    }

    /// Reads the note. Blocks.
    pub(crate) fn refresh(&self) {
        let written = self.written();
        let at = self.state_dir.as_ref().and_then(|state_dir| load(state_dir, &self.vault));
        let mut known = self.known();
        // This process's own reading counts, even if the note couldn't be written.
        *known = Known { at: at.max(known.at), written };
    }

    /// Notes that the content was read at this moment, also on the disk if there is a state directory. Blocks.
    pub(crate) fn note(&self, at: Moment) -> Result<(), Error> {
        self.known().at = Some(at);
        let Some(state_dir) = self.state_dir.as_ref().filter(|state_dir| state_dir.is_dir()) else { return Ok(()) };
        save(state_dir, &Note { format: FORMAT, vault: self.vault.clone(), content_read_at: at })?;
        self.refresh();
        Ok(())
    }
}

const FORMAT: u32 = 1;

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("read.json")
}

/// When the content of `vault` was read last, by the note in a state directory; `None` if the note can't be read.
pub(crate) fn load(state_dir: &Path, vault: &str) -> Option<Moment> {
    let note: Note = serde_json::from_slice(&fs::read(path(state_dir)).ok()?).ok()?;
    (note.format == FORMAT && note.vault == vault).then_some(note.content_read_at)
}

fn save(state_dir: &Path, note: &Note) -> Result<(), Error> {
    let path = path(state_dir);
    let bytes = serde_json::to_vec_pretty(note).map_err(|e| Error::Internal(e.to_string()))?;
    // Two processes may read at the same time.
    let partial = path.with_extension(format!("{}.tmp", std::process::id()));
    let replace = || -> io::Result<()> {
        lock::private_file(&partial)?.write_all(&bytes)?;
        fs::rename(&partial, &path)
    };
    replace().map_err(Error::io(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_one_vault_and_reaches_other_processes() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |vault: &str| ReadBack::new(Some(folder.path().to_owned()), vault.to_owned());
        let (one, same, other) = (of("file:///a"), of("file:///a"), of("file:///b"));
        same.refresh();
        assert_eq!(same.at(), None, "never");
        one.note(Moment::from_millis(5000)).expect("noted");
        assert!(!same.is_known(), "another process wrote it");
        same.refresh();
        other.refresh();
        assert!(same.is_known());
        assert_eq!((one.at(), same.at(), other.at()), (Some(Moment::from_millis(5000)), one.at(), None));
        fs::write(path(folder.path()), b"{").expect("damaged");
        assert_eq!(load(folder.path(), "file:///a"), None);
        assert_eq!(ReadBack::new(Some(folder.path().join("none")), String::new()).written(), None);
    }
}
